//! Requests for token ids from many tasks, encoded in batches: `cargo run --release -p windrow-tokenizers --example front`.
//!
//! Each task requests the ids of one short text at a time. The requests that arrive while a batch is encoded form the next batch. All
//! threads of the pool encode a batch: a second thread would not pay for one text, but it pays for a batch. There is no timer and no
//! channel. A cancelled task withdraws its request; a text that cannot be encoded is an error for its task only.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::Future;
use std::time::Instant;

use futures_util::future::join_all;
use tokio::runtime::Builder;
use windrow::batch::{Batch, BatchOps, Batched, Runner};
use windrow::prelude::*;
use windrow_tokenizers::engine::EngineError;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// A tokenizer that encodes many texts at once.
struct Encode(Tokenizer);

impl BatchOps for Encode {
    type Op = String;
    type Reply = Result<Vec<u32>, EngineError>;

    fn run(&mut self, batch: &mut Batch<'_, String, Self::Reply>) {
        let engine = self.0.engine();
        batch.par_iter_mut().for_each_init(
            || engine.encoder(),
            |encoder, entry| {
                entry.answer(|text| {
                    let mut ids = Vec::new();
                    encoder.encode(&text, &mut ids).map(|()| ids)
                });
            },
        );
    }

    fn weight(text: &String) -> usize {
        text.len()
    }
}

/// The state that tasks share. A separate thread encodes, so that executors continue; a batch of 1 MiB keeps the last task's wait
/// short.
fn front(tokenizer: &str) -> Result<Batched<Encode>, Box<dyn Error>> {
    let encode = Encode(Tokenizer::load(tokenizer, &LoadOptions::default())?);
    Ok(Batched::builder().weight_limit(1 << 20).build_on(Runner::thread(|| encode))?)
}

/// One task: requests text after text and returns the total number of ids.
async fn client(front: &Batched<Encode>, texts: Vec<String>) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut ids = 0;
    for text in texts {
        // First an error of the front (it is closed, say), then one of the engine.
        ids += front.call_async(text).await.map_err(|error| error.kind())??.len();
    }
    Ok(ids)
}

/// Runs all tasks on this thread. Any executor will do.
fn all<F: Future>(tasks: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let runtime = Builder::new_current_thread().build().expect("a runtime without drivers");
    runtime.block_on(join_all(tasks))
}

/// Short texts, all different.
fn texts(task: usize, count: usize) -> Vec<String> {
    let text = |n| format!("Request {n} of task {task}: the quick brown fox jumps over {} lazy dogs.", task * 31 + n);
    (0..count).map(text).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    const TASKS: usize = 512;
    const REQUESTS: usize = 40;
    let front = front("gpt2")?;
    let start = Instant::now();
    let answers = all((0..TASKS).map(|task| client(&front, texts(task, REQUESTS))));
    let seconds = start.elapsed().as_secs_f64();
    let ids: usize = answers.into_iter().sum::<Result<_, _>>().map_err(|error| error.to_string())?;
    println!(
        "{TASKS} tasks, {} requests, {ids} ids, {:.0} requests/s",
        TASKS * REQUESTS,
        (TASKS * REQUESTS) as f64 / seconds
    );
    let stats = front.stats()?;
    println!(
        "{} batches of {:.0} on average, {} at most",
        stats.batches(),
        stats.ops() as f64 / stats.batches() as f64,
        stats.largest()
    );
    if let Some(verdict) = stats.verdict() {
        println!("{verdict}");
    }
    front.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windrow::batch::BatchError;

    #[test]
    fn tasks_get_their_own_ids_and_share_batches() {
        let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).unwrap();
        let expected = |text: &String| {
            let mut ids = Vec::new();
            tokenizer.engine().encoder().encode(text, &mut ids).unwrap();
            ids
        };
        let front = front("gpt2").unwrap();
        let asked: Vec<String> = (0..64).flat_map(|task| texts(task, 2)).collect();
        let answers = all(asked.iter().map(|text| front.call_async(text.clone())));
        for (text, answer) in asked.iter().zip(answers) {
            assert_eq!(answer.unwrap().unwrap(), expected(text));
        }
        let stats = front.stats().unwrap();
        assert_eq!(stats.ops(), 128);
        // One request may run by itself while the other tasks are polled for the first time, but not all of them.
        assert!(stats.batches() < 64, "{:?}", stats.sizes().collect::<Vec<_>>());
        front.close().unwrap();
        let late = all([front.call_async("too late".to_owned())]).pop().unwrap().unwrap_err();
        assert_eq!((late.kind(), late.into_op().as_deref()), (BatchError::Closed, Some("too late")));
    }

    #[test]
    fn a_client_counts_what_it_got() {
        let front = front("gpt2").unwrap();
        let counts = all((0..3).map(|task| client(&front, texts(task, 5))));
        assert!(counts.into_iter().all(|count| count.unwrap() > 5 * 10));
    }
}

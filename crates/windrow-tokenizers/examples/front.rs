//! Requests for token ids, from many tasks, encoded together: `cargo run --release -p windrow-tokenizers --example front`.
//!
//! Each task asks for the ids of one short text at a time. What is asked for while a batch is encoded makes up the next batch, and a batch
//! is encoded by all threads of the pool: one text would not pay for a second thread, a batch of them does. There is no timer and no
//! channel; a task that is cancelled takes its request back; a text that cannot be encoded is an error of its own task.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use windrow::batch::{Batch, BatchOps, Batched};
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

/// What tasks share. The thread of its own encodes, so that executors go on; a batch of 1 MiB keeps the last task's wait short.
fn front(tokenizer: &str) -> Result<Batched<Encode>, Box<dyn Error>> {
    let encode = Encode(Tokenizer::load(tokenizer, &LoadOptions::default())?);
    Ok(Batched::builder().weight_limit(1 << 20).build_on_thread(|| encode)?)
}

/// One task: asks for text after text; how many ids there were in all.
async fn client(front: &Batched<Encode>, texts: Vec<String>) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut ids = 0;
    for text in texts {
        // A refusal of the front (it is closed, say), then one of the engine.
        ids += front.call_async(text).await.map_err(|error| error.why())??.len();
    }
    Ok(ids)
}

/// Wakes the thread of a small executor, and remembers which task it is for.
struct Woken {
    is: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Release: pairs with the Acquire in `all`; what the waker's thread did is seen by the task.
        self.is.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A task of it.
struct Spawned<F: Future> {
    task: Pin<Box<F>>,
    woken: Arc<Woken>,
    output: Option<F::Output>,
}

/// Runs all tasks on this thread. (Any executor will do: this one needs no further crate.)
fn all<F: Future>(tasks: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let spawn = |task: F| {
        let woken = Arc::new(Woken { is: AtomicBool::new(true), thread: thread::current() });
        Spawned { task: Box::pin(task), woken, output: None }
    };
    let mut tasks: Vec<_> = tasks.into_iter().map(spawn).collect();
    while tasks.iter().any(|spawned| spawned.output.is_none()) {
        let mut is_idle = true;
        for Spawned { task, woken, output } in tasks.iter_mut().filter(|spawned| spawned.output.is_none()) {
            // Acquire: pairs with the Release in `Woken::wake`.
            if woken.is.swap(false, Ordering::Acquire) {
                is_idle = false;
                if let Poll::Ready(done) = task.as_mut().poll(&mut Context::from_waker(&Waker::from(woken.clone()))) {
                    *output = Some(done);
                }
            }
        }
        if is_idle {
            thread::park();
        }
    }
    tasks.into_iter().filter_map(|spawned| spawned.output).collect()
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
    use windrow::batch::Why;

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
        // One may go alone while the others are polled for the first time; not all of them.
        assert!(stats.batches() < 64, "{:?}", stats.sizes().collect::<Vec<_>>());
        front.close().unwrap();
        let late = all([front.call_async("too late".to_owned())]).pop().unwrap().unwrap_err();
        assert_eq!((late.why(), late.into_op().as_deref()), (Why::Closed, Some("too late")));
    }

    #[test]
    fn a_client_counts_what_it_got() {
        let front = front("gpt2").unwrap();
        let counts = all((0..3).map(|task| client(&front, texts(task, 5))));
        assert!(counts.into_iter().all(|count| count.unwrap() > 5 * 10));
    }
}

//! Sizes of batches: `cargo run --release -p windrow-bench --bin batch_sizes -- --help`
//!
//! The two distributions published with obatcher: 10,000,000 increments of a counter with a limit of 4096, and 200,000 inserts into a skip
//! list of 1,000,000 keys with a limit of 127. Three kinds of callers: two threads that hand in chunks of the size of the limit, a
//! parallel loop over such chunks, and as many tasks as the limit that hand in one operation after the other. Answers are checked, and so
//! is that the batches hold all operations.
#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};
use windrow::batch::{BatchOps, Batched, Chunk, Stats};
use windrow::prelude::*;
use windrow_bench::random::Random;
use windrow_bench::record;
use windrow_bench::stats::median;
use windrow_collections::{Counter, SetOp, SkipList};

/// How large batches become.
#[derive(Parser)]
struct Options {
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Divides the operations and the keys: a trial.
    #[arg(long, default_value_t = 1, conflicts_with = "record", value_parser = clap::value_parser!(u16).range(1..1000))]
    by: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// Threads that call, and workers of the tasks' executor.
const THREADS: usize = 2;
/// The reason for which a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    println!("{}, {} repetitions, medians", record::machine(), options.repetitions);
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let by = usize::from(options.by);

    let increments = vec![1; 10_000_000 / by];
    let counter = Case { name: "counter", limit: 4096, ops: increments.into(), runtime: &runtime };
    let mut lines = counter.measure(options.repetitions, Counter::default, |mut before, _| {
        before.sort_unstable();
        before.iter().copied().eq(0..before.len() as i64)
    })?;

    let mut random = Random::new(13);
    let mut keys = |count: usize| -> Vec<u64> { (0..count).map(|_| random.bits() >> 34).collect() };
    let (before, new): (SkipList<u64>, _) = (keys(1_000_000 / by).into_iter().collect(), keys(200_000 / by));
    let mut after = before.clone();
    after.extend(new.iter().copied());
    let inserts: Vec<SetOp<u64>> = new.into_iter().map(SetOp::Insert).collect();
    let list = Case { name: "list", limit: 127, ops: inserts.into(), runtime: &runtime };
    lines.extend(list.measure(
        options.repetitions,
        || before.clone(),
        |replies, list| {
            replies.iter().filter(|new| **new).count() == after.len() - before.len() && list.iter().eq(after.iter())
        },
    )?);

    if options.record {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let columns = "case,arm,size,repetition,batches";
        let command = record::command("batch_sizes");
        let written = record::write_lines(&root, "batch-sizes", &command, &record::versions(), columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

/// Operations on a structure, which take at most `limit` of them in a batch.
struct Case<'a, O> {
    name: &'a str,
    limit: usize,
    ops: Arc<[O]>,
    runtime: &'a Runtime,
}

impl<O: Clone + Send + Sync + 'static> Case<'_, O> {
    /// The lines of the record: how many batches of each class of sizes each arm had.
    fn measure<S>(
        &self,
        repetitions: u16,
        structure: impl Fn() -> S,
        is_right: impl Fn(Vec<S::Reply>, &S) -> bool,
    ) -> Result<Vec<String>, String>
    where
        S: BatchOps<Op = O> + Send + Sync + 'static,
        S::Reply: Clone + Default + Send,
    {
        type Run<'a, O, S, R> = fn(&Case<'a, O>, &Arc<Batched<S>>) -> Vec<R>;
        let (name, arms) = (self.name, ["chunks", "loop", "tasks"]);
        let runs: [Run<'_, O, S, S::Reply>; 3] = [Self::by_threads, Self::by_loop, Self::by_tasks];
        let mut counts = vec![Vec::new(); arms.len()];
        for repetition in 0..usize::from(repetitions) {
            for turn in 0..arms.len() {
                let turn = if repetition % 2 == 0 { turn } else { arms.len() - 1 - turn };
                let batched = Arc::new(Batched::builder().limit(self.limit).build(structure()));
                let replies = runs[turn](self, &batched);
                let stats = batched.stats().expect(SOUND);
                let batched = Arc::into_inner(batched).expect("the callers are gone");
                if !is_right(replies, &batched.into_inner().expect(SOUND)) {
                    return Err(format!("{name}, {}: wrong answers", arms[turn]));
                }
                let in_batches: u64 = stats.sizes().map(|(size, batches)| size as u64 * batches).sum();
                if in_batches + stats.alone() != self.ops.len() as u64 {
                    return Err(format!("{name}, {}: batches hold {in_batches} operations", arms[turn]));
                }
                counts[turn].push(self.count(&stats));
            }
        }
        let mut lines = Vec::new();
        for (arm, counts) in arms.iter().zip(&counts) {
            let mut said = Vec::new();
            for (at, (class, _)) in counts[0].iter().enumerate() {
                let batches: Vec<f64> = counts.iter().map(|counts| counts[at].1 as f64).collect();
                said.push(format!("{class}: {}", median(&batches)));
                let line = |(repetition, batches)| format!("{name},{arm},{class},{repetition},{batches}");
                lines.extend(batches.iter().enumerate().map(line));
            }
            println!("  {name} {}, {arm}: batches by size: {}", self.limit, said.join(", "));
        }
        Ok(lines)
    }

    /// Batches by class. Operations that found the structure free are no batches; they stand first.
    fn count(&self, stats: &Stats) -> Vec<(String, u64)> {
        let full = self.limit - 1;
        let classes: [RangeInclusive<usize>; 4] = [1..=1, 2..=full / 2, full / 2 + 1..=full - 1, full..=self.limit];
        let name = |class: &RangeInclusive<usize>| match (class.start(), class.end()) {
            (1, _) => "one".to_owned(),
            (first, last) => format!("{first}..{last}"),
        };
        let within = |class: RangeInclusive<usize>| {
            let batches = stats.sizes().filter(|(size, _)| class.contains(size)).map(|(_, batches)| batches).sum();
            (name(&class), batches)
        };
        std::iter::once(("alone".to_owned(), stats.alone())).chain(classes.map(within)).collect()
    }

    fn by_threads<S>(&self, batched: &Arc<Batched<S>>) -> Vec<S::Reply>
    where
        S: BatchOps<Op = O> + Send + Sync + 'static,
        S::Reply: Clone + Default + Send,
    {
        let share = self.ops.len().div_ceil(THREADS);
        let mut replies = vec![S::Reply::default(); self.ops.len()];
        std::thread::scope(|scope| {
            for (ops, replies) in self.ops.chunks(share).zip(replies.chunks_mut(share)) {
                scope.spawn(move || {
                    let mut chunk = Chunk::new();
                    for (ops, replies) in ops.chunks(self.limit).zip(replies.chunks_mut(self.limit)) {
                        hand_in(batched, &mut chunk, ops, replies);
                    }
                });
            }
        });
        replies
    }

    fn by_loop<S>(&self, batched: &Arc<Batched<S>>) -> Vec<S::Reply>
    where
        S: BatchOps<Op = O> + Send + Sync + 'static,
        S::Reply: Clone + Default + Send,
    {
        let mut replies = vec![S::Reply::default(); self.ops.len()];
        let chunks = self.ops.par_chunks(self.limit).zip(replies.par_chunks_mut(self.limit));
        chunks.for_each_init(Chunk::new, |chunk, (ops, replies)| hand_in(batched, chunk, ops, replies));
        replies
    }

    fn by_tasks<S>(&self, batched: &Arc<Batched<S>>) -> Vec<S::Reply>
    where
        S: BatchOps<Op = O> + Send + Sync + 'static,
        S::Reply: Clone + Default + Send,
    {
        let share = self.ops.len().div_ceil(self.limit);
        let task = |first: usize| {
            let (batched, ops) = (batched.clone(), self.ops.clone());
            self.runtime.spawn(async move {
                let mut replies = Vec::with_capacity(share);
                for op in &ops[first..ops.len().min(first + share)] {
                    replies.push(batched.call_async(op.clone()).await.expect(SOUND));
                }
                replies
            })
        };
        let tasks: Vec<_> = (0..self.ops.len()).step_by(share).map(task).collect();
        let mut replies = Vec::with_capacity(self.ops.len());
        for task in tasks {
            replies.extend(self.runtime.block_on(task).expect("tasks do not panic"));
        }
        replies
    }
}

/// Runs a chunk, and stores its replies.
fn hand_in<S: BatchOps>(batched: &Batched<S>, chunk: &mut Chunk<S>, ops: &[S::Op], replies: &mut [S::Reply])
where
    S::Op: Clone,
{
    chunk.extend(ops.iter().cloned());
    batched.call_chunk(chunk).expect(SOUND);
    for (slot, reply) in replies.iter_mut().zip(chunk.replies()) {
        *slot = reply.expect(SOUND);
    }
}

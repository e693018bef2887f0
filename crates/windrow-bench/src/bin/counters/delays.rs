//! Operations that sleep: only running them in parallel makes them faster.

use std::time::{Duration, Instant};

use windrow::Pool;
use windrow::batch::{Batch, BatchOps, Batched, Chunk, Entry};
use windrow::prelude::*;

use crate::table::{Arm, Table};

/// The document has 100,000.
const OPS: usize = 1_000;
const SLEEP: Duration = Duration::from_millis(1);
const WORKERS: usize = 2;
const CHUNK: usize = 50;

fn slow(by: i64) -> i64 {
    std::thread::sleep(SLEEP);
    by
}

/// Every operation sleeps; a batch is divided among the workers of a separate pool.
struct Slow(Pool);

impl BatchOps for Slow {
    type Op = i64;
    type Reply = i64;

    fn run(&mut self, batch: &mut Batch<'_, i64, i64>) {
        self.0.install(|| batch.par_iter_mut().for_each(|entry| entry.answer(slow)));
    }
}

fn timed(work: impl FnOnce() -> i64) -> Result<Duration, String> {
    let start = Instant::now();
    let sum = work();
    let time = start.elapsed();
    let expected = (0..OPS as i64).sum::<i64>();
    if sum == expected { Ok(time) } else { Err(format!("{sum} instead of {expected}")) }
}

pub(crate) fn table(repetitions: u16) -> Result<Table, String> {
    let all = || 0..OPS as i64;
    let arms = vec![
        Arm::new("one after the other", || timed(|| all().map(slow).sum())),
        Arm::new("explicit", || {
            let mut structure = Slow(Pool::new(WORKERS));
            let mut entries: Vec<_> = all().map(Entry::Op).collect();
            timed(|| {
                structure.run(&mut Batch::new(&mut entries));
                entries.into_iter().filter_map(Entry::into_reply).sum()
            })
        }),
        Arm::new("implicit", || {
            let batched = Batched::new(Slow(Pool::new(WORKERS)));
            timed(|| {
                std::thread::scope(|scope| {
                    let share = OPS / WORKERS;
                    let threads: Vec<_> = (0..WORKERS)
                        .map(|worker| {
                            let (batched, from) = (&batched, (worker * share) as i64);
                            scope.spawn(move || share_of(batched, from, share))
                        })
                        .collect();
                    threads.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
                })
            })
        }),
    ];
    let mut table = Table::measure(format!("delays of 1 ms x{WORKERS}"), OPS, repetitions, arms)?;
    table.print();
    table.bar("explicit", "one after the other", 1.9);
    table.bar("implicit", "one after the other", 1.9);
    Ok(table)
}

/// The work of one caller: chunk after chunk.
fn share_of(batched: &Batched<Slow>, from: i64, count: usize) -> i64 {
    let (mut chunk, mut sum) = (Chunk::new(), 0);
    for at in (0..count).step_by(CHUNK) {
        chunk.extend((at..count.min(at + CHUNK)).map(|at| from + at as i64));
        batched.call_chunk(&mut chunk).expect("it is open");
        sum += chunk.replies().map(|reply| reply.expect("nothing panics")).sum::<i64>();
    }
    sum
}

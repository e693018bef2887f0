//! Counters: in batches, under a lock, and as an atomic.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use windrow::batch::{BatchOps, Batched, Chunk};
use windrow_collections::{Counter, Drained};

use crate::table::{Arm, Table};

const OPS: usize = 400_000;
const WORKERS: [usize; 4] = [1, 2, 4, 8];
/// Chunks of loops, as in the document.
const CHUNK: usize = 4096;

/// Why nothing fails.
const SOUND: &str = "it is open, and nothing in it panics";

pub(crate) fn all(repetitions: u16) -> Result<Vec<Table>, String> {
    WORKERS.iter().map(|workers| table(*workers, repetitions)).collect()
}

/// Runs `work` on shares of the increments, one a worker, and checks what they got.
fn by_workers(workers: usize, work: impl Fn(&mut [i64]) + Sync) -> Result<Duration, String> {
    let mut before = vec![-1; OPS];
    let start = Instant::now();
    if workers == 1 {
        work(&mut before);
    } else {
        std::thread::scope(|scope| {
            for share in before.chunks_mut(OPS.div_ceil(workers)) {
                let work = &work;
                scope.spawn(move || work(share));
            }
        });
    }
    let time = start.elapsed();
    before.sort_unstable();
    let is_permutation = before.iter().copied().eq(0..OPS as i64);
    if is_permutation { Ok(time) } else { Err("increments do not have numbers of their own".to_owned()) }
}

/// One increment after the other.
fn singly<'a>(name: &str, workers: usize, one: impl Fn(&Counters) -> i64 + Sync + 'a) -> Arm<'a> {
    Arm::new(name, move || {
        let counters = Counters::default();
        by_workers(workers, |before| before.iter_mut().for_each(|before| *before = one(&counters)))
    })
}

#[derive(Default)]
struct Counters {
    atomic: AtomicI64,
    std: std::sync::Mutex<i64>,
    parking_lot: parking_lot::Mutex<i64>,
}

fn add(value: &mut i64) -> i64 {
    *value += 1;
    *value - 1
}

fn cas_loop(value: &AtomicI64) -> i64 {
    // Nothing but the value itself is told.
    let mut before = value.load(Ordering::Relaxed);
    // As above.
    while let Err(now) = value.compare_exchange_weak(before, before + 1, Ordering::Relaxed, Ordering::Relaxed) {
        before = now;
    }
    before
}

fn chunks<S: BatchOps<Op = i64, Reply = i64> + Default + Send + Sync>(
    name: String,
    workers: usize,
    size: usize,
) -> Arm<'static> {
    Arm::new(name, move || {
        let counter = Batched::new(S::default());
        by_workers(workers, |before| {
            let mut chunk = Chunk::new();
            for before in before.chunks_mut(size) {
                chunk.extend(std::iter::repeat_n(1, before.len()));
                counter.call_chunk(&mut chunk).expect(SOUND);
                for (before, reply) in before.iter_mut().zip(chunk.replies()) {
                    *before = reply.expect(SOUND);
                }
            }
        })
    })
}

fn table(workers: usize, repetitions: u16) -> Result<Table, String> {
    let mut arms = vec![
        // Relaxed: nothing but the value itself is told.
        singly("fetch_add", workers, |counters| counters.atomic.fetch_add(1, Ordering::Relaxed)),
        singly("compare_exchange", workers, |counters| cas_loop(&counters.atomic)),
        singly("std mutex", workers, |counters| add(&mut counters.std.lock().expect("no panic"))),
        singly("parking_lot mutex", workers, |counters| add(&mut counters.parking_lot.lock())),
        Arm::new("fast path/1", move || {
            let counter = Batched::new(Counter::default());
            by_workers(workers, |before| {
                before.iter_mut().for_each(|before| *before = counter.call(1).expect(SOUND));
            })
        }),
    ];
    // As the loops of the document divide what they are not told how to.
    let default = (OPS / (8 * workers)).max(1);
    for (name, size) in [("1", 1), ("default", default), ("4096", CHUNK)] {
        arms.push(chunks::<Drained>(format!("drained/{name}"), workers, size));
        arms.push(chunks::<Counter>(format!("in place/{name}"), workers, size));
    }
    let table = Table::measure(format!("counters x{workers}"), OPS, repetitions, arms)?;
    table.print();
    if workers == 1 {
        table.bar("fast path/1", "std mutex", 1.0 / 1.5);
    } else {
        table.bar("fast path/1", "parking_lot mutex", 0.8);
        table.bar("in place/4096", "fetch_add", 3.0);
    }
    Ok(table)
}

//! Counters: in batches, under a lock, and as an atomic.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use windrow::batch::{BatchOps, Batched, Chunk};
use windrow_collections::{Counter, Drained};

use crate::table::{Arm, Table};

/// Increments of a run, in chunks.
const OPS: usize = 400_000;
/// Single calls of a run: enough that threads contend, on whichever CPUs they start.
const CALLS: usize = 2_000_000;
const WORKERS: [usize; 4] = [1, 2, 4, 8];
/// The size of chunks of loops in the document.
const CHUNK: usize = 4096;

/// Why a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

pub(crate) fn all(repetitions: u16) -> Result<Vec<Table>, String> {
    let tables = WORKERS.iter().flat_map(|workers| [table(*workers, repetitions), calls(*workers, repetitions)]);
    tables.collect()
}

/// Runs `work` on shares of the increments, one a worker, and checks the results.
fn by_workers(workers: usize, ops: usize, work: impl Fn(&mut [i64]) + Sync) -> Result<Duration, String> {
    let mut before = vec![-1; ops];
    let start = Instant::now();
    if workers == 1 {
        work(&mut before);
    } else {
        std::thread::scope(|scope| {
            for share in before.chunks_mut(ops.div_ceil(workers)) {
                let work = &work;
                scope.spawn(move || work(share));
            }
        });
    }
    let time = start.elapsed();
    let mut seen = vec![false; ops];
    let is_new = |before: &i64| seen.get_mut(*before as usize).is_some_and(|seen| !std::mem::replace(seen, true));
    if before.iter().all(is_new) { Ok(time) } else { Err("increments do not have distinct numbers".to_owned()) }
}

/// Increments one after the other.
fn singly<'a>(name: &str, workers: usize, ops: usize, one: impl Fn(&Counters) -> i64 + Sync + 'a) -> Arm<'a> {
    Arm::new(name, move || {
        let counters = Counters::default();
        by_workers(workers, ops, |before| before.iter_mut().for_each(|before| *before = one(&counters)))
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
    // Relaxed: only the value itself is communicated.
    let mut before = value.load(Ordering::Relaxed);
    // Relaxed: as above.
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
        by_workers(workers, OPS, |before| {
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

fn std_mutex(workers: usize, ops: usize) -> Arm<'static> {
    singly("std mutex", workers, ops, |counters| add(&mut counters.std.lock().expect("no panic")))
}

fn parking_lot(workers: usize, ops: usize) -> Arm<'static> {
    singly("parking_lot mutex", workers, ops, |counters| add(&mut counters.parking_lot.lock()))
}

fn fast_path(workers: usize, ops: usize) -> Arm<'static> {
    Arm::new("fast path/1", move || {
        let counter = Batched::new(Counter::default());
        by_workers(workers, ops, |before| {
            before.iter_mut().for_each(|before| *before = counter.call(1).expect(SOUND));
        })
    })
}

/// The tables of the document.
fn table(workers: usize, repetitions: u16) -> Result<Table, String> {
    let mut arms = vec![
        // Relaxed: only the value itself is communicated.
        singly("fetch_add", workers, OPS, |counters| counters.atomic.fetch_add(1, Ordering::Relaxed)),
        singly("compare_exchange", workers, OPS, |counters| cas_loop(&counters.atomic)),
        std_mutex(workers, OPS),
        parking_lot(workers, OPS),
        fast_path(workers, OPS),
    ];
    // The default chunk size of the document's loops.
    let default = (OPS / (8 * workers)).max(1);
    for (name, size) in [("1", 1), ("default", default), ("4096", CHUNK)] {
        arms.push(chunks::<Drained>(format!("drained/{name}"), workers, size));
        arms.push(chunks::<Counter>(format!("in place/{name}"), workers, size));
    }
    let mut table = Table::measure(format!("counters x{workers}"), OPS, repetitions, arms)?;
    table.print();
    if workers > 1 {
        table.bar("in place/4096", "fetch_add", 3.0);
    }
    Ok(table)
}

/// Single calls beside locks, their competitors.
fn calls(workers: usize, repetitions: u16) -> Result<Table, String> {
    let arms = vec![std_mutex(workers, CALLS), parking_lot(workers, CALLS), fast_path(workers, CALLS)];
    let mut table = Table::measure(format!("calls x{workers}"), CALLS, repetitions, arms)?;
    table.print();
    if workers == 1 {
        table.bar("fast path/1", "std mutex", 1.0 / 1.5);
    } else {
        table.bar("fast path/1", "parking_lot mutex", 0.8);
    }
    Ok(table)
}

//! Implicit batching: several batches at a time, by key; the fate of a structure after a panic; executors that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::batches::{Counter, PANICS};
use windrow::batch::{Batch, BatchError, BatchOps, Batched, Chunk, OnPanic, Runner, Sharded};
use windrow_testkit::block_on;

/// Records operations, and meets another batch in `run`.
struct Meets(Arc<Barrier>, Vec<(u32, u32)>);

impl BatchOps for Meets {
    type Op = (u32, u32);
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (u32, u32), ()>) {
        for entry in batch.iter_mut() {
            let op = entry.take();
            if op.1 == 0 {
                self.0.wait();
            }
            self.1.push(op);
            entry.reply(());
        }
    }
}

#[test]
fn batches_of_different_keys_run_at_the_same_time_and_equal_keys_keep_their_order() {
    let barrier = Arc::new(Barrier::new(2));
    let two = (0..2).map(|_| Batched::new(Meets(barrier.clone(), Vec::new())));
    let meets = Sharded::new(two, |(key, _): &(u32, u32)| *key);
    let (first, second) = (0, (1..).find(|key| !std::ptr::eq(meets.shard(&(0, 0)), meets.shard(&(*key, 0)))).unwrap());
    thread::scope(|scope| {
        for key in [first, second] {
            let meets = &meets;
            // The first operations wait for each other: one batch at a time would hang.
            scope.spawn(move || {
                meets.call((key, 0)).unwrap();
                (1..50).for_each(|n| meets.call((key, n)).unwrap());
                (50..100).for_each(|n| block_on(meets.call_async((key, n))).unwrap());
                let mut chunk = Chunk::new();
                chunk.extend((100..200).map(|n| (key, n)));
                meets.shard(&(key, 0)).call_chunk(&mut chunk).unwrap();
            });
        }
    });
    assert_eq!((meets.gauges().operations, meets.gauges().queued, meets.shards().len()), (400, 0, 2));
    for shard in meets.shards() {
        assert!(shard.read(|meets| meets.1.iter().map(|op| op.1).eq(0..200)).unwrap());
    }
    assert_eq!((block_on(meets.close_async()), meets.close()), (Ok(()), Err(BatchError::Closed)));
    assert_eq!(meets.call((0, 1)).unwrap_err().into_op(), Some((0, 1)));
    assert!(catch_unwind(|| Sharded::<Counter>::new([], |op: &u64| *op)).is_err(), "it has no structure");
}

#[test]
fn a_panic_in_one_structure_leaves_the_others() {
    let counters = Sharded::new((0..3).map(|_| Batched::new(Counter::default())), |op: &u64| *op % 3);
    assert_eq!(counters.call(PANICS).unwrap_err().kind(), BatchError::Panicked);
    // 666 is a multiple of 3, so 0 has its key. Others share its structure only by their hashes.
    let is_hit = |op: &u64| std::ptr::eq(counters.shard(op), counters.shard(&PANICS));
    for op in 0..3 {
        let later = counters.call(op).map_err(|error| error.kind());
        assert_eq!(later.err(), is_hit(&op).then_some(BatchError::Poisoned));
    }
    assert!(is_hit(&0) && counters.gauges().panicked == 1);
}

#[test]
fn the_fate_of_a_structure_after_a_panic_is_chosen() {
    type Fate = fn() -> OnPanic<Counter>;
    let fates: [(Fate, Option<u64>); 4] = [
        (|| OnPanic::Poison, None),
        (|| OnPanic::Keep, Some(5)),
        (|| OnPanic::Recover(Box::new(|counter| counter.value = 50)), Some(50)),
        (|| OnPanic::Recover(Box::new(|_| panic!("injected"))), None),
    ];
    for (fate, value) in fates {
        let counter = Batched::builder().on_panic(fate()).build(Counter::default());
        counter.call(5).unwrap();
        assert_eq!(counter.call(PANICS).unwrap_err().kind(), BatchError::Panicked);
        assert!(
            catch_unwind(AssertUnwindSafe(|| counter.exclusive(|_| panic!("injected")))).is_err() || value.is_none()
        );
        let later = counter.call(1);
        assert_eq!(later.clone().ok(), value);
        assert!(value.is_some() || later.is_err_and(|error| error.kind() == BatchError::Poisoned));
        assert_eq!(counter.into_inner().is_some(), value.is_some());
    }
    assert_eq!(format!("{:?} {:?}", OnPanic::<u8>::Keep, OnPanic::<u8>::Poison), "Keep Poison");
}

/// Waits for a future in `run`, as an async client has it.
struct Blocks(tokio::runtime::Handle);

impl BatchOps for Blocks {
    type Op = ();
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.0.block_on(tokio::task::yield_now());
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }
}

#[test]
fn a_batch_that_blocks_on_a_future_in_a_task_names_the_remedy() {
    for runtime in [
        tokio::runtime::Builder::new_current_thread().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap(),
    ] {
        let handle = runtime.handle();
        let (bad, spawner) = (Batched::new(Blocks(handle.clone())), handle.clone());
        let spawned = Runner::spawned(Blocks(handle.clone()), move |run| drop(spawner.spawn_blocking(run)));
        let good = Batched::builder().build_on(spawned).unwrap();
        runtime.block_on(async {
            for kind in [BatchError::Panicked, BatchError::Poisoned] {
                let error = bad.call_async(()).await.unwrap_err();
                assert_eq!(error.kind(), kind);
                let text = error.to_string();
                assert!(text.contains("within a runtime") && text.contains("`Builder::build_async`"), "{text}");
            }
            assert_eq!(good.call_async(()).await, Ok(()), "the remedy works");
        });
    }
}

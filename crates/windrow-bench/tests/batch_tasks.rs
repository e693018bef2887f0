//! Tasks of an executor that share a structure do not allocate in a steady state.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use allocation_counter::measure;
use windrow::batch::{Batch, BatchOps, Batched};
use windrow_collections::{Counter, OrderedSet, SetOp};

const TASKS: usize = 127;

/// Lets the executor go on for this many polls.
struct Turns(usize);

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Counts allocations while 127 tasks go on that have already run for some time.
fn allocations<S>(structure: S, op: fn(usize) -> S::Op) -> (u64, u64)
where
    S: BatchOps<Op: 'static> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batched = Arc::new(Batched::builder().limit(TASKS).build(structure));
    for task in 0..TASKS {
        let batched = batched.clone();
        runtime.spawn(async move {
            for turn in 0.. {
                batched.call_async(op(turn * TASKS + task)).await.unwrap();
                // A call that finds the structure free never yields to the executor.
                Turns(1).await;
            }
        });
    }
    let turns = |count| runtime.block_on(Turns(count));
    turns(2_000);
    let ops = || batched.stats().unwrap().ops();
    let before = ops();
    let count = measure(|| turns(2_000)).count_total;
    (count, ops() - before)
}

/// Batches cost much and operations nothing, so handing over pays.
struct Slow(Counter);

impl BatchOps for Slow {
    type Op = i64;
    type Reply = i64;

    fn run(&mut self, batch: &mut Batch<'_, i64, i64>) {
        let start = std::time::Instant::now();
        while start.elapsed().as_micros() < 20 {
            std::hint::spin_loop();
        }
        self.0.run(batch);
    }
}

#[test]
fn tasks_of_an_executor_allocate_nothing_in_a_steady_state() {
    let (allocations_of_counter, ops) = allocations(Counter::default(), |_| 1);
    assert!(ops > 10_000, "{ops}");
    let (allocations_of_slow, ops) = allocations(Slow(Counter::default()), |_| 1);
    assert!(ops > 10_000, "{ops}");
    // The set grows no more: by now it has all of its keys.
    let (allocations_of_set, ops) = allocations(OrderedSet::new(), |turn| SetOp::Insert(turn as u64 % 10_000));
    assert!(ops > 10_000, "{ops}");
    assert_eq!([allocations_of_counter, allocations_of_slow, allocations_of_set], [0; 3]);
}

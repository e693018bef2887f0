//! Implicit batching allocates nothing once it is warm.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use windrow::batch::{Batch, BatchOps, Batched, Chunk, Overflow};
use windrow_testkit::Sum;

/// Polls all tasks, in turns, until all are ready.
fn run_all<F: Future + Unpin>(tasks: &mut [F], is_over: &mut [bool]) {
    is_over.fill(false);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        for (task, is_over) in tasks.iter_mut().zip(is_over.iter_mut()) {
            *is_over = *is_over || matches!(Pin::new(task).poll(&mut context), Poll::Ready(_));
        }
    }
    assert!(is_over.iter().all(|&is_over| is_over));
}

#[test]
fn allocations_are_counted() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1);
}

#[test]
fn tasks_allocate_nothing_after_warm_up() {
    for batched in [
        Batched::new(Sum(0)),
        Batched::builder().limit(4).build(Sum(0)),
        Batched::builder().queue(5, Overflow::Block).build(Sum(0)),
    ] {
        let mut is_over = [false; 16];
        let mut round = || run_all(&mut std::array::from_fn::<_, 16, _>(|_| batched.call_async(1)), &mut is_over);
        (0..3).for_each(|_| round());
        assert_eq!(measure(|| (0..100).for_each(|_| round())).count_total, 0);
        assert_eq!(batched.into_inner().unwrap().0, 103 * 16);
    }
}

/// Visits its operations by key.
struct Sorts(u64);

impl BatchOps for Sorts {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        batch.for_each_by_key(
            |op| *op % 7,
            |entry| {
                self.0 += entry.take();
                entry.reply(self.0);
            },
        );
    }
}

#[test]
fn an_order_of_a_batch_allocates_nothing_after_warm_up() {
    let batched = Batched::new(Sorts(0));
    let mut chunk = Chunk::new();
    let mut round = || {
        batched.call(1).unwrap();
        chunk.extend(0..300);
        batched.call_chunk(&mut chunk).unwrap();
        chunk.extend(0..20);
        batched.call_chunk(&mut chunk).unwrap();
        assert!(chunk.replies().all(|reply| reply.is_ok()));
    };
    (0..3).for_each(|_| round());
    assert_eq!(measure(|| (0..100).for_each(|_| round())).count_total, 0);
}

#[test]
fn threads_and_chunks_allocate_nothing_after_warm_up() {
    let batched = Batched::new(Sum(0));
    let mut chunk = Chunk::new();
    let mut round = || {
        batched.call(1).unwrap();
        chunk.extend([1; 20]);
        batched.call_chunk(&mut chunk).unwrap();
        assert!(chunk.replies().all(|reply| reply.is_ok()));
    };
    (0..3).for_each(|_| round());
    assert_eq!(measure(|| (0..100).for_each(|_| round())).count_total, 0);
}

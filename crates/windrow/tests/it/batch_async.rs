//! Implicit batching: guarantees for tasks.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::batches::{Counter, PANICS, Slow};
use windrow::batch::{Batch, BatchError, BatchOps, Batched, CallAsync, CallError, Overflow, Runner};
use windrow_testkit::{block_on, chaos};

/// A waker that records whether it was woken.
#[derive(Default)]
struct Flag {
    raised: AtomicBool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.raised.store(true, Relaxed);
    }
}

/// A future and whether it has been woken.
struct Polled<F: Future> {
    future: Pin<Box<F>>,
    flag: Arc<Flag>,
    output: Option<F::Output>,
}

impl<F: Future> Polled<F> {
    fn new(future: F) -> Self {
        Polled { future: Box::pin(future), flag: Arc::default(), output: None }
    }

    /// Polls it once. Returns whether it is ready.
    fn poll(&mut self) -> bool {
        self.flag.raised.store(false, Relaxed);
        let waker = Waker::from(self.flag.clone());
        if let Poll::Ready(output) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.output = Some(output);
        }
        self.output.is_some()
    }

    fn is_woken(&self) -> bool {
        self.flag.raised.load(Relaxed)
    }
}

/// Polls all tasks, then the woken tasks, until all are ready.
fn run_all(tasks: &mut [Call<'_>]) {
    for task in tasks.iter_mut() {
        task.poll();
    }
    run_rest(tasks);
}

type Call<'c> = Polled<CallAsync<'c, Counter>>;

fn calls<'c>(counter: &'c Batched<Counter>, ops: &[u64]) -> Vec<Call<'c>> {
    ops.iter().map(|&op| Polled::new(counter.call_async(op))).collect()
}

fn reply(call: &mut Call<'_>) -> Result<u64, BatchError> {
    call.output.take().expect("ready").map_err(|error: CallError<u64>| error.kind())
}

#[test]
fn tasks_that_are_ready_make_one_batch() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1; 5]);
    run_all(&mut tasks);
    assert!(tasks.iter_mut().map(|task| reply(task).unwrap()).eq(0..5));
    drop(tasks);
    assert_eq!(counter.into_inner().unwrap().batches, [5]);
}

#[test]
fn a_runner_does_at_most_one_batch_more_and_hands_on() {
    let counter = Batched::builder().limit(2).build(Counter::default());
    let mut tasks = calls(&counter, &[1; 10]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    assert!(tasks.iter().all(Polled::is_woken), "each wakes itself, to run if it is the first");
    tasks.iter().for_each(|task| task.flag.raised.store(false, Relaxed));
    assert!(tasks[0].poll());
    // Its own batch is answered, and one more unless that costs it more than wakes of others. The rest is as it was: each has woken itself.
    let woken: Vec<_> = tasks.iter().map(Polled::is_woken).collect();
    let more = woken[2];
    assert_eq!(woken, [false, true, more, more, false, false, false, false, false, false]);
    tasks.iter().for_each(|task| task.flag.raised.store(true, Relaxed));
    run_rest(&mut tasks);
    assert!(tasks.iter_mut().map(|task| reply(task).unwrap()).eq(0..10));
    drop(tasks);
    assert_eq!(counter.into_inner().unwrap().batches, [2; 5]);
}

/// Polls woken tasks until all are ready.
fn run_rest(tasks: &mut [Call<'_>]) {
    while tasks.iter().any(|task| task.output.is_none()) {
        let woken = tasks.iter_mut().filter(|task| task.output.is_none() && task.is_woken());
        assert_ne!(woken.map(|task| task.poll()).count(), 0, "no task is woken and not all are ready");
    }
}

#[test]
fn a_future_that_is_dropped_while_it_is_queued_is_never_run() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1, 10, 100, 1_000]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    drop(tasks.remove(2));
    drop(tasks.remove(2));
    tasks.extend(calls(&counter, &[1_000]));
    tasks[2].poll();
    run_rest(&mut tasks);
    assert_eq!([0, 1, 2].map(|at| reply(&mut tasks[at])), [Ok(0), Ok(1), Ok(11)]);
    drop(tasks);
    assert_eq!(counter.into_inner().unwrap().value, 1_011);
}

#[test]
fn a_dropped_leader_hands_on_its_duty() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1, 10, 100]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    // The first task was to run the batch. It is dropped, the next takes over, and is dropped, too.
    assert!(tasks[0].is_woken());
    drop(tasks.remove(0));
    assert!(tasks[0].is_woken());
    drop(tasks.remove(0));
    run_rest(&mut tasks);
    assert_eq!(reply(&mut tasks[0]), Ok(0));
    drop(tasks);
    // A lone task hands no duty on.
    let mut alone = calls(&counter, &[1]);
    assert!(!alone[0].poll());
    drop(alone);
    assert_eq!(block_on(counter.call_async(1)).unwrap(), 100);
}

/// `select!` keeps losing futures so, and `buffered` keeps all but its first.
#[test]
fn a_future_that_is_kept_and_not_polled_stops_no_other_task() {
    for limit in [1, 2, usize::MAX] {
        let counter = Batched::builder().limit(limit).build(Counter::default());
        let mut kept = calls(&counter, &[1; 8]);
        assert!(!kept.iter_mut().any(Polled::poll));
        // One after the other, as the body of a `select!` loop awaits them.
        for _ in 0..3 {
            let mut awaited = calls(&counter, &[10]);
            run_all(&mut awaited);
            assert!(reply(&mut awaited[0]).is_ok());
        }
        run_rest(&mut kept);
        drop(kept);
        assert_eq!(counter.into_inner().unwrap().value, 38);
    }
}

#[test]
fn a_future_that_was_never_polled_does_nothing() {
    let counter = Batched::new(Counter::default());
    drop(counter.call_async(1));
    assert_eq!(counter.into_inner().unwrap().value, 0);
}

#[test]
fn a_thread_takes_the_duty_of_tasks_over() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1, 1]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    assert_eq!(counter.call(1).unwrap(), 2);
    run_rest(&mut tasks);
    assert_eq!((reply(&mut tasks[0]), reply(&mut tasks[1])), (Ok(0), Ok(1)));
}

#[test]
fn closing_answers_tasks_and_rejects_new_ones() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1, 1]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    counter.close().unwrap();
    run_rest(&mut tasks);
    assert_eq!((reply(&mut tasks[0]), reply(&mut tasks[1])), (Ok(0), Ok(1)));
    let error = block_on(counter.call_async(7)).unwrap_err();
    assert_eq!((error.kind(), error.into_op()), (BatchError::Closed, Some(7)));
}

#[test]
fn a_panic_answers_all_tasks_at_once() {
    let counter = Batched::new(Counter::default());
    let mut tasks = calls(&counter, &[1, PANICS, 1]);
    run_all(&mut tasks);
    let replies: Vec<_> = tasks.iter_mut().map(reply).collect();
    assert_eq!(replies, [Err(BatchError::Panicked); 3]);
    assert_eq!(block_on(counter.call_async(1)).unwrap_err().kind(), BatchError::Poisoned);
}

#[test]
fn a_full_queue() {
    let counter = Batched::builder().queue(2, Overflow::Reject).build(Counter::default());
    let mut tasks = calls(&counter, &[1, 1, 5]);
    run_all(&mut tasks);
    let error = tasks.pop().unwrap().output.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.into_op()), (BatchError::Full, Some(5)));
    drop(tasks);

    let counter = Batched::builder().queue(2, Overflow::Block).build(Counter::default());
    let mut tasks = calls(&counter, &[1; 9]);
    run_all(&mut tasks);
    let mut replies: Vec<_> = tasks.iter_mut().map(|task| reply(task).unwrap()).collect();
    replies.sort_unstable();
    assert!(replies.into_iter().eq(0..9));
    drop(tasks);
    // A dropped future gives its room back.
    let mut tasks = calls(&counter, &[1; 3]);
    assert!(!tasks.iter_mut().any(Polled::poll));
    tasks.truncate(1);
    tasks.extend(calls(&counter, &[1]));
    tasks[1].poll();
    run_rest(&mut tasks);
    drop(tasks);
}

#[test]
fn runners_of_their_own_serve_tasks() {
    let thread = Batched::builder().build_on(Runner::thread(Counter::default)).unwrap();
    let spawned =
        Batched::builder().build_on(Runner::spawned(Counter::default(), |run| drop(thread::spawn(run)))).unwrap();
    for counter in [thread, spawned] {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..300).for_each(|_| assert!(block_on(counter.call_async(1)).unwrap() < u64::MAX)));
            }
        });
        assert_eq!(counter.exclusive(|counter| counter.value).unwrap(), 900);
    }
}

#[test]
fn a_future_that_is_dropped_while_its_batch_runs() {
    let (go, gone) = mpsc::channel();
    let slow = Batched::builder().build_on(Runner::thread(move || Slow(gone))).unwrap();
    for _ in 0..20 {
        let mut dropped = Polled::new(slow.call_async(()));
        dropped.poll();
        drop(dropped);
        let mut polled = Polled::new(slow.call_async(()));
        polled.poll();
        // Each operation takes at most one message; further messages stay for the next round.
        go.send(()).unwrap();
        go.send(()).unwrap();
        while !polled.is_woken() {
            thread::yield_now();
        }
        assert!(polled.poll());
    }
}

/// Reports that it runs, waits for a message, and records the sizes of its batches.
struct Watched(mpsc::Sender<usize>, mpsc::Receiver<()>);

impl BatchOps for Watched {
    type Op = ();
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.0.send(batch.len()).unwrap();
        self.1.recv().unwrap();
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }
}

#[test]
fn no_operation_waits_for_more_than_the_running_batch() {
    let ((runs, ran), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let watched = Batched::builder().build_on(Runner::thread(move || Watched(runs, gone))).unwrap();
    let mut first = Polled::new(watched.call_async(()));
    first.poll();
    assert_eq!(ran.recv(), Ok(1));
    // Calls that come while it runs are all in the next batch.
    let mut others: Vec<_> = (0..7).map(|_| Polled::new(watched.call_async(()))).collect();
    assert!(!others.iter_mut().any(Polled::poll));
    go.send(()).unwrap();
    assert_eq!(ran.recv(), Ok(7));
    go.send(()).unwrap();
    watched.close().unwrap();
    assert!(first.poll() && others.iter_mut().all(Polled::poll));
}

/// Random drops, panics, threads, tasks, chunks, bounds, runners. (A million of them: the example `stress` of windrow-testkit.)
#[test]
fn stress_with_dropped_futures_and_panics() {
    let tally = chaos::Tally::new();
    chaos::chaos(if cfg!(miri) { 500 } else { 100_000 }, 4, 1, &tally);
    let chaos::Tally { ops, panics, dropped, refused } = tally;
    for count in [ops, panics, dropped, refused] {
        assert!(count.into_inner() > 0);
    }
}

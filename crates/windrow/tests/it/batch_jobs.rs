//! Implicit batching: access to the structure, and its close, as futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::batches::{Counter, PANICS, Slow};
use windrow::batch::{BatchError, Batched, Runner};
use windrow_testkit::block_on;

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Counters whose batches run on callers, on a separate thread, beside callers and in spawned closures.
fn counters() -> [Batched<Counter>; 4] {
    let runner = |runner| Batched::builder().build_on(runner).unwrap();
    [
        Batched::new(Counter::default()),
        runner(Runner::thread(Counter::default)),
        runner(Runner::beside_callers(Counter::default())),
        runner(Runner::spawned(Counter::default(), |run| drop(thread::spawn(run)))),
    ]
}

/// A structure whose batch runs, and the sender that ends it. Both the caller of that batch and its runner are other threads.
fn running() -> (Arc<Batched<Slow>>, Sender<()>, thread::JoinHandle<()>) {
    let (go, gone) = channel();
    let slow = Arc::new(Batched::new(Slow(gone)));
    let caller = slow.clone();
    let first = thread::spawn(move || caller.call(()).unwrap());
    while slow.gauges().running.is_none() {
        thread::yield_now();
    }
    (slow, go, first)
}

#[test]
fn jobs_of_futures_come_after_what_was_handed_in_before() {
    for counter in counters() {
        let (mut first, mut second) = (pin!(counter.call_async(5)), pin!(counter.call_async(7)));
        let _ = (poll(first.as_mut()), poll(second.as_mut()));
        let before = block_on(counter.exclusive_async(|counter| std::mem::replace(&mut counter.value, 100))).unwrap();
        assert_eq!(before, 12);
        assert_eq!(block_on(counter.call_async(1)), Ok(100));
        assert_eq!(block_on(counter.read_async(|counter| counter.value)), Ok(101));
        assert_eq!(block_on(counter.close_async()), Ok(()));
        assert_eq!(block_on(counter.close_async()), Err(BatchError::Closed));
        assert_eq!(block_on(counter.exclusive_async(|_| ())), Err(BatchError::Closed));
        assert_eq!(counter.gauges().queued, 0, "a refused job is not counted");
    }
}

#[test]
fn jobs_of_futures_wait_without_a_thread() {
    let (slow, go, first) = running();
    let (mut job, mut read) = (pin!(slow.exclusive_async(|_| 5)), pin!(slow.exclusive_async(|_| 7)));
    let mut close = pin!(slow.close_async());
    assert!(poll(job.as_mut()).is_pending() && poll(read.as_mut()).is_pending());
    assert!(poll(close.as_mut()).is_pending());
    assert_eq!(slow.gauges().queued, 3);
    go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!((block_on(job), block_on(read), block_on(close)), (Ok(5), Ok(7), Ok(())));
    assert_eq!((slow.gauges().queued, slow.gauges().cancelled, slow.gauges().operations), (0, 0, 1));
}

/// Reports its drop.
struct Dropped(Sender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn a_job_that_is_dropped_before_its_turn_is_never_called() {
    let (slow, go, first) = running();
    let (drops, dropped) = channel();
    let value = Dropped(drops);
    {
        let mut job = pin!(slow.exclusive_async(move |_| unreachable!("{:?}", value.0)));
        assert!(poll(job.as_mut()).is_pending());
        assert!(dropped.try_recv().is_err(), "it is in the queue");
    }
    drop(slow.exclusive_async(|_| panic!("it was never polled")));
    assert_eq!((slow.gauges().queued, slow.gauges().cancelled), (0, 1));
    go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(slow.exclusive(|_| 3), Ok(3));
    assert_eq!(dropped.try_recv(), Ok(()));
    assert_eq!(slow.gauges().panicked, 0);
}

#[test]
fn a_job_that_is_dropped_while_it_runs_loses_its_result() {
    let counter = Batched::builder().build_on(Runner::thread(Counter::default)).unwrap();
    let ((runs, ran), (go, gone), (drops, dropped)) = (channel(), channel::<()>(), channel());
    {
        let job = move |counter: &mut Counter| {
            runs.send(()).unwrap();
            gone.recv().unwrap();
            counter.value = 9;
            Dropped(drops)
        };
        let mut job = pin!(counter.exclusive_async(job));
        assert!(poll(job.as_mut()).is_pending());
        ran.recv().unwrap();
        assert!(counter.gauges().running.is_some());
    }
    go.send(()).unwrap();
    dropped.recv_timeout(Duration::from_secs(60)).expect("the result is dropped");
    assert_eq!(counter.call(0), Ok(9));
    assert_eq!((counter.gauges().queued, counter.gauges().cancelled), (0, 0));
}

#[test]
fn a_panic_of_a_job_reaches_the_caller_that_awaits_it() {
    for counter in counters() {
        counter.call(5).unwrap();
        let panics = |_: &mut Counter| panic!("no job");
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(counter.exclusive_async::<()>(panics))));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"no job"));
        assert_eq!(block_on(counter.exclusive_async(|_| ())), Err(BatchError::Poisoned));
        assert_eq!(block_on(counter.read_async(|_| ())), Err(BatchError::Poisoned));
        assert_eq!(counter.call(1).unwrap_err().panic(), Some("no job"));
        assert_eq!(counter.gauges().panicked, 1);
    }
    let counter = Batched::builder().recover(|counter: &mut Counter| counter.value = 50).build(Counter::default());
    assert!(
        catch_unwind(AssertUnwindSafe(|| block_on(counter.exclusive_async::<()>(|_| panic!("injected"))))).is_err()
    );
    assert_eq!(block_on(counter.call_async(1)), Ok(50));
    assert_eq!(counter.call(PANICS).unwrap_err().kind(), BatchError::Panicked);
}

#[test]
fn reads_of_futures_are_shared() {
    for counter in counters() {
        counter.call(5).unwrap();
        let nested = block_on(async {
            let inner = counter.read_async(|counter| counter.value);
            // While this thread reads, its own calls are refused, and so are its futures.
            let mut inner = pin!(inner);
            counter.read(|outer| (outer.value, poll(inner.as_mut()))).unwrap()
        });
        assert_eq!(nested, (5, Poll::Ready(Err(BatchError::Nested))));
        block_on(counter.close_async()).unwrap();
        // Where the structure stays on its thread, a read needs the queue, which is closed.
        let last = block_on(counter.read_async(|counter| counter.value));
        assert!(last == Ok(5) || last == Err(BatchError::Closed), "{last:?}");
    }
}

#[test]
fn a_close_that_is_dropped_leaves_the_structure_closed() {
    let (slow, go, first) = running();
    drop(slow.close_async());
    let mut later = pin!(slow.call_async(()));
    assert!(poll(later.as_mut()).is_pending(), "a close that was not polled closes nothing");
    {
        let mut close = pin!(slow.close_async());
        assert!(poll(close.as_mut()).is_pending());
    }
    assert_eq!(block_on(slow.call_async(())).unwrap_err().kind(), BatchError::Closed);
    go.send(()).unwrap();
    go.send(()).unwrap();
    first.join().unwrap();
    assert_eq!(block_on(later), Ok(()));
}

#[test]
fn jobs_of_threads_and_futures_at_once() {
    let rounds = if cfg!(miri) { 10 } else { 500 };
    for counter in counters() {
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let counter = &counter;
                scope.spawn(move || {
                    for round in 0..rounds {
                        match (thread + round) % 4 {
                            0 => counter.exclusive(|counter| counter.value += 1).unwrap(),
                            1 => block_on(counter.exclusive_async(|counter| counter.value += 1)).unwrap(),
                            2 => drop(block_on(counter.call_async(1)).unwrap()),
                            _ => {
                                // Dropped whenever it is: then it has run, or never will.
                                let mut job = pin!(counter.exclusive_async(|counter| counter.value += 1));
                                if poll(job.as_mut()).is_pending() && round % 2 == 0 {
                                    block_on(job).unwrap();
                                }
                            }
                        }
                    }
                });
            }
        });
        let gauges = counter.gauges();
        assert_eq!(gauges.queued, 0, "{gauges}");
        let sum = counter.exclusive(|counter| counter.value).unwrap();
        // A job that was dropped while it ran has run, and is not counted as cancelled.
        assert_eq!(sum + gauges.cancelled, 4 * rounds);
    }
}

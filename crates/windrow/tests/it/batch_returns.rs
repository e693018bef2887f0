//! Implicit batching: runners wait for callers that they have just answered, for a bounded time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use windrow::batch::{Batch, BatchOps, Batched, Chunk, Runner};
use windrow_testkit::{Rng, block_on, spin};

/// An operation is a time in microseconds. A batch sleeps for the longest of its operations, and panics at `PANICS`.
#[derive(Default)]
struct Launch {
    sizes: Vec<usize>,
}

const PANICS: u64 = 666;

impl BatchOps for Launch {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        self.sizes.push(batch.len());
        let longest = batch.iter().map(|entry| *entry.op()).max().unwrap_or(0);
        thread::sleep(Duration::from_micros(longest));
        for entry in batch.iter_mut() {
            let op = entry.take();
            if op == PANICS {
                // Without the hook, which would print every panic.
                std::panic::resume_unwind(Box::new("injected"));
            }
            entry.reply(op);
        }
    }
}

/// All kinds of runners.
fn runners() -> [Batched<Launch>; 4] {
    let builder = || Batched::builder().recover(|_: &mut Launch| ());
    [
        builder().build(Launch::default()),
        builder().build_on(Runner::thread(Launch::default)).unwrap(),
        builder().build_on(Runner::beside_callers(Launch::default())).unwrap(),
        builder().build_on(Runner::spawned(Launch::default(), |run| drop(thread::spawn(run)))).unwrap(),
    ]
}

/// True if `attempt` succeeds once in eight tries: the system may take a thread's CPU away during any of them.
fn once(mut attempt: impl FnMut() -> bool) -> bool {
    (0..8).any(|_| attempt())
}

#[test]
fn threads_that_call_again_at_once_come_in_one_batch() {
    const CALLERS: usize = 6;
    for runner in 0..4 {
        let whole = once(|| {
            let launch = runners().into_iter().nth(runner).unwrap();
            thread::scope(|scope| {
                for _ in 0..CALLERS {
                    scope.spawn(|| (0..12).for_each(|_| assert_eq!(launch.call(4_000).unwrap(), 4_000)));
                }
            });
            let sizes = launch.exclusive(|launch| launch.sizes.clone()).unwrap();
            // Alternate half batches would be 24 batches of 3. A caller that leads misses the batch that it runs for others.
            sizes.len() <= 17
        });
        assert!(whole, "runner {runner}");
    }
}

/// Callers that return later than after a twentieth of F come in one batch if a runner may wait for so long.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_longer_wait_gathers_callers_that_return_late() {
    const CALLERS: usize = 3;
    const CALLS: usize = 20;
    let gathered = once(|| {
        let builder = Batched::builder().longest_wait(Duration::from_millis(50));
        let launch = builder.build_on(Runner::thread(Launch::default)).unwrap();
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| {
                    for _ in 0..CALLS {
                        assert_eq!(launch.call(5_000).unwrap(), 5_000);
                        thread::sleep(Duration::from_micros(500));
                    }
                });
            }
        });
        let sizes = launch.exclusive(|launch| launch.sizes.clone()).unwrap();
        sizes.iter().filter(|&&size| size == CALLERS).count() >= CALLS / 2
    });
    assert!(gathered);
    let launch = Batched::builder().longest_wait(Duration::from_secs(600)).build_on(Runner::thread(Launch::default));
    let launch = launch.unwrap();
    assert_eq!((launch.call(1).unwrap(), launch.call(2).unwrap()), (1, 2), "a caller that is alone waits for nobody");
}

/// One of them may find the structure free each time, and the other one wait for its turn.
#[test]
fn two_threads_share_batches() {
    let shared = once(|| {
        let launch = Batched::new(Launch::default());
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..20).for_each(|_| assert_eq!(launch.call(4_000).unwrap(), 4_000)));
            }
        });
        launch.exclusive(|launch| launch.sizes.len()).unwrap() <= 25
    });
    assert!(shared);
}

/// A caller that led batches for others would get its own reply a batch later.
#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn a_caller_returns_before_the_batches_of_others() {
    let prompt = once(|| {
        let launch = Batched::new(Launch::default());
        (0..4).all(|_| {
            let start = Instant::now();
            thread::scope(|scope| {
                let first = scope.spawn(|| {
                    launch.call(30_000).unwrap();
                    start.elapsed()
                });
                thread::sleep(Duration::from_millis(10));
                scope.spawn(|| launch.call(30_000).unwrap());
                first.join().unwrap() < Duration::from_millis(50)
            })
        })
    });
    assert!(prompt);
}

/// Counts its wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_task_leaves_a_free_lock_to_tasks_that_were_just_answered_for_a_while() {
    let worked = once(|| {
        let (launch, wakes) = (Batched::new(Launch::default()), Arc::new(Wakes::default()));
        let waker = Waker::from(wakes.clone());
        let mut context = Context::from_waker(&waker);
        let (mut first, mut second) = (pin!(launch.call_async(20_000)), pin!(launch.call_async(20_000)));
        assert!(first.as_mut().poll(&mut context).is_pending() && second.as_mut().poll(&mut context).is_pending());
        assert!(first.as_mut().poll(&mut context).is_ready() && second.as_mut().poll(&mut context).is_ready());
        // One of the two calls again. It may wait for 1 ms, and its second poll would run the batch otherwise.
        let mut alone = pin!(launch.call_async(0));
        assert!(alone.as_mut().poll(&mut context).is_pending());
        let before = wakes.0.load(Relaxed);
        let has_waited = alone.as_mut().poll(&mut context).is_pending();
        if has_waited {
            assert!(wakes.0.load(Relaxed) > before, "a task that waits wakes itself");
            // The other one calls, too: nothing is left to wait for.
            let mut other = pin!(launch.call_async(0));
            assert!(other.as_mut().poll(&mut context).is_pending());
            assert!(alone.as_mut().poll(&mut context).is_ready() && other.as_mut().poll(&mut context).is_ready());
        }
        has_waited && launch.exclusive(|launch| launch.sizes == [2, 2]).unwrap()
    });
    assert!(worked);
}

#[test]
fn callers_that_stay_away_delay_nobody_for_long() {
    for launch in runners() {
        let mut chunk = Chunk::new();
        chunk.extend([20_000; 8]);
        launch.call_chunk(&mut chunk).unwrap();
        // Seven of eight operations never return: a single one is run all the same, for threads and for tasks.
        let start = Instant::now();
        assert_eq!(launch.call(1).unwrap(), 1);
        assert_eq!(block_on(launch.call_async(2)).unwrap(), 2);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[test]
fn an_exclusive_call_and_a_close_end_the_wait() {
    for runner in 0..4 {
        let prompt = once(|| {
            let launch = runners().into_iter().nth(runner).unwrap();
            let mut chunk = Chunk::new();
            chunk.extend([60_000; 8]);
            let launch = &launch;
            thread::scope(|scope| {
                // Two callers; later one of them calls again, and may wait for 3 ms.
                scope.spawn(|| launch.call(60_000).unwrap());
                launch.call_chunk(&mut chunk).unwrap();
            });
            thread::scope(|scope| {
                let called = scope.spawn(|| launch.call(0));
                thread::sleep(Duration::from_micros(200));
                let start = Instant::now();
                launch.exclusive(|_| ()).unwrap();
                launch.close().unwrap();
                // On a busy machine it comes after the close.
                let called = called.join().unwrap();
                assert!(called.as_ref().is_ok() || called.is_err_and(|error| error.to_string().contains("closed")));
                start.elapsed() < Duration::from_millis(2)
            })
        });
        assert!(prompt, "runner {runner}");
    }
}

#[test]
fn threads_and_tasks_with_delays_and_panics_all_get_their_replies() {
    for launch in runners() {
        let (answered, panicked) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let count = |ok: bool| _ = if ok { &answered } else { &panicked }.fetch_add(1, Relaxed);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let callers: Vec<_> = (0..6)
                .map(|seed| {
                    let (launch, count) = (&launch, &count);
                    scope.spawn(move || {
                        let mut rng = Rng(seed + 1);
                        for _ in 0..40 {
                            let op = if rng.below(40) == 0 { PANICS } else { 50 + rng.below(200) };
                            match rng.below(3) {
                                0 => count(block_on(launch.call_async(op)).is_ok()),
                                _ => count(launch.call(op).is_ok()),
                            }
                            // Some return at once, some late.
                            match rng.below(4) {
                                0 => thread::sleep(Duration::from_micros(rng.below(1_000))),
                                1 => spin(rng.below(20)),
                                _ => {}
                            }
                        }
                    })
                })
                .collect();
            let (launch, is_over) = (&launch, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    // A future that is dropped while it is queued, or never polled again.
                    let mut future = pin!(launch.call_async(1));
                    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    launch.exclusive(|_| ()).unwrap();
                    thread::sleep(Duration::from_micros(300));
                }
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            is_over.store(true, Relaxed);
        });
        assert_eq!(answered.into_inner() + panicked.into_inner(), 6 * 40);
    }
}

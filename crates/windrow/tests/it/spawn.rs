//! Spawned closures: awaited, waited for, dropped at any moment, on pools of any width.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use windrow::prelude::*;
use windrow::{CancelToken, Cancelled, JoinHandle, Pool, spawn_joinable};
use windrow_testkit::{Live, alone, block_on, spin, spin_until};

#[test]
fn closures_without_a_handle_run_to_their_end() {
    let pool = Pool::new(2);
    let (sender, receiver) = std::sync::mpsc::channel();
    for i in 0..50 {
        let sender = sender.clone();
        let count = move || {
            // Without a handle no drop cancels it.
            assert!(!CancelToken::current().is_cancelled());
            sender.send((0..=i).into_par_iter().sum::<u64>()).unwrap();
            assert!(i % 2 == 0, "the panic of one is no matter of the others");
        };
        if i % 3 == 0 { windrow::spawn(count) } else { pool.spawn(count) }
    }
    drop((sender, pool));
    let mut sums: Vec<_> = receiver.iter().collect();
    sums.sort_unstable();
    assert_eq!(sums, (0..50).map(|i| i * (i + 1) / 2).collect::<Vec<_>>());
}

#[test]
fn the_result_arrives_at_every_waiter() {
    let sum = |n: u64| move || (0..n).into_par_iter().map(|i| i * i).sum::<u64>();
    let expected: u64 = (0..5000).map(|i| i * i).sum();
    assert_eq!(block_on(spawn_joinable(sum(5000))), expected);
    assert_eq!(spawn_joinable(sum(5000)).wait(), expected);
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        assert_eq!(pool.spawn_joinable(windrow::current_num_threads).wait(), threads);
        assert_eq!(block_on(pool.install(|| spawn_joinable(windrow::current_num_threads))), threads);
        let all: Vec<JoinHandle<u64>> = (0..50).map(|_| pool.spawn_joinable(sum(5000))).collect();
        assert!(block_on(async { all.into_iter().map(block_on).all(|sum| sum == expected) }));
        let finished = pool.spawn_joinable(sum(10));
        spin_until(|| finished.is_finished());
        assert_eq!(block_on(finished), 285);
    }
    fn sendable(_: &(impl Send + Sync + Unpin + 'static)) {}
    sendable(&spawn_joinable(|| ()));
}

#[test]
#[cfg_attr(miri, ignore = "counts on the clock")]
fn calls_in_it_are_shared_with_workers() {
    let pool = Pool::new(2);
    let names = pool.spawn_joinable(|| {
        let names = Mutex::new(std::collections::BTreeSet::new());
        // One call may be over before a worker has come.
        for _ in 0..50 {
            (0..100).into_par_iter().for_each(|_: i32| {
                spin(100);
                names.lock().unwrap().insert(thread::current().name().unwrap().to_owned());
            });
            if names.lock().unwrap().len() > 1 {
                break;
            }
        }
        names.into_inner().unwrap()
    });
    assert_eq!(block_on(names).into_iter().collect::<Vec<_>>(), ["windrow-1", "windrow-spawn-1"]);
}

#[test]
fn no_more_run_at_once_than_the_pool_has_members() {
    for threads in [1, 3] {
        let pool = Pool::new(threads);
        let seen = Arc::new(Mutex::new((0, 0, std::collections::BTreeSet::new())));
        let all: Vec<JoinHandle<()>> = (0..30)
            .map(|_| {
                let seen = seen.clone();
                pool.spawn_joinable(move || {
                    {
                        let mut seen = seen.lock().unwrap();
                        seen.0 += 1;
                        seen.1 = seen.0.max(seen.1);
                        seen.2.insert(thread::current().name().unwrap().to_owned());
                    }
                    spin(100);
                    seen.lock().unwrap().0 -= 1;
                })
            })
            .collect();
        // Polled, not waited for: this thread must not help.
        all.into_iter().for_each(block_on);
        let (_, most, names) = &*seen.lock().unwrap();
        assert!((1..=threads).contains(most), "{most} at once in a pool of {threads}");
        let known = ["windrow-spawn-1", "windrow-spawn-2", "windrow-spawn-3"];
        assert!(names.iter().all(|name| known[..threads].contains(&name.as_str())), "{names:?}");
    }
}

#[test]
fn a_panic_is_resumed_where_the_result_is_wanted() {
    let pool = Pool::new(2);
    let bad = |at: usize| {
        move || {
            (0..100usize).into_par_iter().for_each(|i| {
                if i == at {
                    resume_unwind(Box::new(at));
                }
            })
        }
    };
    for at in [0, 50, 99] {
        let polled = catch_unwind(AssertUnwindSafe(|| block_on(pool.spawn_joinable(bad(at))))).unwrap_err();
        assert_eq!(*polled.downcast::<usize>().unwrap(), at);
        let waited = catch_unwind(AssertUnwindSafe(|| pool.spawn_joinable(bad(at)).wait())).unwrap_err();
        assert_eq!(*waited.downcast::<usize>().unwrap(), at);
        // This one is discarded.
        drop(pool.spawn_joinable(bad(at)));
        assert_eq!(block_on(pool.spawn_joinable(|| (0..100u32).into_par_iter().sum::<u32>())), 4950);
    }
}

/// A closure that occupies a lead until it may go on.
fn occupy(pool: &Pool) -> (JoinHandle<()>, impl FnOnce() + use<>) {
    let (begin, begun) = channel();
    let (release, released) = channel::<()>();
    let closure = pool.spawn_joinable(move || {
        begin.send(()).unwrap();
        released.recv().unwrap();
    });
    begun.recv().unwrap();
    (closure, move || release.send(()).unwrap())
}

#[test]
fn dropping_one_that_has_not_begun_drops_the_closure() {
    let pool = Pool::new(1);
    let (first, release) = occupy(&pool);
    let (live, ran) = (Arc::new(AtomicIsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closures: Vec<JoinHandle<usize>> = (0..100)
        .map(|i| {
            let (alive, ran) = (Live::new(live.clone(), ()), ran.clone());
            pool.spawn_joinable(move || {
                drop(alive);
                ran.fetch_add(1, Relaxed);
                i
            })
        })
        .collect();
    assert_eq!(live.load(Relaxed), 100);
    let mut kept = Vec::new();
    for (i, closure) in closures.into_iter().enumerate() {
        // Some have been polled before.
        let mut closure = closure;
        if i % 2 == 0 {
            assert!(Pin::new(&mut closure).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        if i % 10 == 0 { kept.push(closure) } else { drop(closure) }
    }
    assert_eq!(live.load(Relaxed), 10, "dropped at once, here");
    release();
    assert_eq!(kept.into_iter().map(block_on).collect::<Vec<_>>(), (0..100).step_by(10).collect::<Vec<_>>());
    block_on(first);
    assert_eq!((live.load(Relaxed), ran.load(Relaxed)), (0, 10));
}

#[test]
fn dropping_one_that_runs_tells_it_to_stop() {
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        for own in [false, true] {
            let live = Arc::new(AtomicIsize::new(0));
            let (begin, begun) = channel();
            let (sender, receiver) = channel();
            let alive = Live::new(live.clone(), ());
            let closure = pool.spawn_joinable(move || {
                begin.send(()).unwrap();
                // Whatever token a call has, the drop cancels it. (An hour is for a failure to be one.)
                let token = if own { CancelToken::current() } else { CancelToken::after(Duration::from_secs(3600)) };
                let long = (0..1u64 << 40).into_par_iter().with_cancel(&token);
                sender.send(long.for_each(|x| _ = std::hint::black_box(x)).is_err()).unwrap();
                alive
            });
            begun.recv().unwrap();
            drop(closure);
            assert!(receiver.recv().unwrap(), "2^40 items ended");
            spin_until(|| live.load(Relaxed) == 0);
        }
        // A closure without a token runs to its end.
        let (first, release) = occupy(&pool);
        drop(first);
        release();
        assert_eq!(block_on(pool.spawn_joinable(|| 1)), 1);
    }
}

#[test]
fn a_closure_can_be_stopped_and_awaited() {
    let pool = Pool::new(2);
    let (begin, begun) = channel();
    let closure = pool.spawn_joinable(move || {
        begin.send(()).unwrap();
        (0..1u64 << 40)
            .into_par_iter()
            .with_cancel(&CancelToken::current())
            .any(|x| std::hint::black_box(x) == u64::MAX)
    });
    begun.recv().unwrap();
    closure.cancel();
    assert_eq!(block_on(closure), Err(Cancelled));
    // The token of a closure spawned by a closure is a child.
    let (begin, begun) = channel();
    let outer = pool.spawn_joinable(move || {
        let inner = spawn_joinable(move || {
            begin.send(()).unwrap();
            (0..1u64 << 40).into_par_iter().with_cancel(&CancelToken::new()).for_each(|x| _ = std::hint::black_box(x))
        });
        inner.wait()
    });
    begun.recv().unwrap();
    outer.cancel();
    assert!(outer.wait().is_err());
}

#[test]
fn a_closure_may_wait_for_others_of_a_narrow_pool() {
    fn sum_to(n: u64, awaits: bool) -> u64 {
        match n {
            0 => 0,
            _ if awaits => n + block_on(spawn_joinable(move || sum_to(n - 1, awaits))),
            _ => n + spawn_joinable(move || sum_to(n - 1, awaits)).wait(),
        }
    }
    for threads in [1, 2] {
        let pool = Pool::new(threads);
        for awaits in [false, true] {
            let both: Vec<JoinHandle<u64>> = (0..4).map(|_| pool.spawn_joinable(move || sum_to(20, awaits))).collect();
            assert!(both.into_iter().map(block_on).all(|sum| sum == 210));
        }
    }
}

#[test]
fn the_last_waker_is_woken_once() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let pool = Pool::new(1);
    let (mut closure, release) = occupy(&pool);
    let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::new(Count(AtomicUsize::new(0)))).collect();
    for count in &counts {
        let waker = Waker::from(count.clone());
        for _ in 0..2 {
            assert!(Pin::new(&mut closure).poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    release();
    spin_until(|| counts[2].0.load(Relaxed) == 1);
    assert!(Pin::new(&mut closure).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    drop(closure);
    // The lead is through with the first one when it runs another.
    block_on(pool.spawn_joinable(|| ()));
    assert_eq!(counts.iter().map(|count| count.0.load(Relaxed)).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(counts.iter().all(|count| Arc::strong_count(count) == 1), "a waker is kept");
}

#[test]
fn a_result_is_given_once() {
    let mut closure = spawn_joinable(|| 7);
    spin_until(|| closure.is_finished());
    let context = &mut Context::from_waker(Waker::noop());
    assert_eq!(Pin::new(&mut closure).poll(context), Poll::Ready(7));
    assert!(closure.is_finished());
    assert!(catch_unwind(AssertUnwindSafe(|| Pin::new(&mut closure).poll(context))).is_err());
}

#[test]
fn a_waker_that_panics_ends_no_lead() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            resume_unwind(Box::new("bomb"));
        }
    }
    let pool = Pool::new(1);
    let (mut closure, release) = occupy(&pool);
    let waker = Waker::from(Arc::new(Bomb));
    assert!(Pin::new(&mut closure).poll(&mut Context::from_waker(&waker)).is_pending());
    release();
    assert_eq!(block_on(pool.spawn_joinable(|| 2)), 2);
    block_on(closure);
}

#[test]
fn closures_outlive_their_pool() {
    let square = || (0..1000u64).into_par_iter().map(|x| x * x).sum::<u64>();
    let expected: u64 = (0..1000).map(|x| x * x).sum();
    let pool = Pool::new(2);
    let (first, release) = occupy(&pool);
    let (second, release_second) = occupy(&pool);
    let queued: Vec<JoinHandle<u64>> = (0..5).map(|_| pool.spawn_joinable(square)).collect();
    // Spawned by a closure whose pool is gone.
    let again = pool.spawn_joinable(move || spawn_joinable(square));
    drop(pool);
    release();
    release_second();
    assert!(queued.into_iter().map(block_on).all(|sum| sum == expected));
    assert_eq!(block_on(async { again.await.await }), expected);
    block_on(first);
    second.wait();
    // A closure may be the last to hold its pool.
    let pool = Arc::new(Pool::new(3));
    let held = pool.clone();
    let last = pool.spawn_joinable(move || {
        drop(held);
        square()
    });
    drop(pool);
    assert_eq!(last.wait(), expected);
}

#[test]
fn many_threads_spawn_at_once() {
    let pool = Pool::new(2);
    thread::scope(|scope| {
        for seed in 0..4u64 {
            let pool = &pool;
            scope.spawn(move || {
                for i in 0..if cfg!(miri) { 3 } else { 300 } {
                    let n = (seed * 7919 + i * 104_729) % 500;
                    let closure = pool.spawn_joinable(move || (0..n).into_par_iter().sum::<u64>());
                    match i % 3 {
                        0 => assert_eq!(block_on(closure), n * n.saturating_sub(1) / 2),
                        1 => assert_eq!(closure.wait(), n * n.saturating_sub(1) / 2),
                        _ => drop(closure),
                    }
                }
            });
        }
    });
}

/// In a separate process whose threads would need more stack than there is address space.
#[test]
#[cfg(all(unix, target_pointer_width = "64", not(miri)))]
fn a_refused_lead_is_a_panic_and_drops_the_closure() {
    let refuse = |child: &mut std::process::Command| {
        child.env("RUST_MIN_STACK", (1u64 << 56).to_string());
    };
    alone(module_path!(), "a_refused_lead_is_a_panic_and_drops_the_closure", refuse, || {
        let live = Arc::new(AtomicIsize::new(0));
        let alive = Live::new(live.clone(), ());
        let refused = catch_unwind(AssertUnwindSafe(|| Pool::new(1).spawn_joinable(move || drop(alive)))).unwrap_err();
        let said = refused.downcast::<String>().unwrap();
        assert!(said.starts_with("the system refused to start a thread for a spawned closure: "), "{said}");
        assert_eq!(live.load(Relaxed), 0);
    });
}

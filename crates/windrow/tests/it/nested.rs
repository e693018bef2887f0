//! Calls inside calls, next to calls, on pools inside pools: random ones against their serial result, and the cases that
//! have names.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, ThreadId};
use std::time::Instant;

use windrow::prelude::*;
use windrow::{Pool, current_num_threads};
use windrow_testkit::shapes::{Account, NO_FUSE, Shape, World};
use windrow_testkit::{Rng, Seed, spin};

fn square_sum(n: u64) -> u64 {
    (0..n).into_par_iter().map(|i| (0..i).into_par_iter().map(|j| i ^ j).sum::<u64>()).sum()
}

fn serial_square_sum(n: u64) -> u64 {
    (0..n).map(|i| (0..i).map(|j| i ^ j).sum::<u64>()).sum()
}

/// True if the pool comes to share a millisecond of work, within ten seconds of calls.
fn is_shared(pool: &Pool) -> bool {
    let (start, me) = (Instant::now(), thread::current().id());
    let shares = || {
        (0..50).into_par_iter().with_claim_size(1).map(|_: i32| {
            spin(20);
            usize::from(thread::current().id() != me)
        })
    };
    std::iter::from_fn(|| (start.elapsed().as_secs() < 10).then_some(()))
        .any(|()| pool.install(|| shares().sum::<usize>() > 0))
}

/// `turns` random call trees in each of four threads, checked. The seed of a tree that fails is what it says.
fn trees(turns: u64, check: impl Fn(&'static Account, &mut Rng, &Shape) + Sync) {
    let world = World::new();
    thread::scope(|scope| {
        for thread in 0..4 {
            let check = &check;
            scope.spawn(move || {
                let account = Account::new(world);
                for turn in 0..turns {
                    let seed = thread << 32 | turn;
                    let _seed = Seed("call tree", seed);
                    let mut rng = Rng(seed);
                    let shape = Shape::random(&mut rng, 3);
                    check(account, &mut rng, &shape);
                }
            });
        }
    });
    // What the runtime has learned of these calls must not keep it from sharing later ones.
    let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for pool in world.pools.iter().filter(|pool| pool.threads() > 1 && cpus > 1 && !cfg!(miri)) {
        assert!(is_shared(pool), "a pool of {} keeps to its caller", pool.threads());
    }
}

#[test]
fn random_calls_of_several_threads_give_the_serial_result() {
    let (turns, calls) = (if cfg!(miri) { 3 } else { 1500 }, AtomicUsize::new(0));
    trees(turns, |account, _, shape| {
        assert!(!account.check(shape, NO_FUSE));
        calls.fetch_add(shape.calls() as usize, Relaxed);
    });
    assert!(calls.into_inner() as u64 > 6 * turns, "few of them nest");
}

#[test]
fn random_calls_panic_anywhere_and_leak_nothing() {
    let blown = AtomicUsize::new(0);
    let turns = if cfg!(miri) { 3 } else { 1500 };
    trees(turns, |account, rng, shape| {
        let fuse = rng.below(shape.items() as u64 + 1) as usize;
        blown.fetch_add(usize::from(account.check(shape, fuse)), Relaxed);
        // The pools are alive.
        assert_eq!((0..100u64).into_par_iter().sum::<u64>(), 4950);
    });
    assert!(blown.into_inner() as u64 > turns, "few of them panicked");
}

/// Two threads, each inside the pool that the other one wants.
#[test]
fn two_pools_inside_of_each_other() {
    for (threads, others) in [(1, 1), (2, 2), (2, 4)] {
        let (a, b) = (Pool::new(threads), Pool::new(others));
        let (n, expected) = (40, serial_square_sum(30));
        let inside = |outer: &Pool, inner: &Pool| {
            outer.install(|| {
                let sums = (0..n).into_par_iter().map(|_| {
                    let sum = inner.install(|| square_sum(30));
                    // The one left behind is in place again.
                    assert_eq!(current_num_threads(), outer.threads());
                    sum
                });
                assert_eq!(sums.sum::<u64>(), n * expected);
            });
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10).for_each(|_| inside(&a, &b)));
                scope.spawn(|| (0..10).for_each(|_| inside(&b, &a)));
                scope.spawn(|| (0..10).for_each(|_| inside(&a, &a)));
            }
        });
    }
}

/// An item that holds a lock over a parallel call must not be made to run another item that wants the lock (rayon issue 592).
#[test]
fn a_lock_may_be_held_over_a_call() {
    for threads in [2, 4] {
        let pool = Pool::new(threads);
        let (lock, expected) = (Mutex::new(0), serial_square_sum(20));
        for _ in 0..20 {
            pool.install(|| {
                (0..50).into_par_iter().with_claim_size(1).for_each(|_: i32| {
                    let mut sum = lock.lock().unwrap();
                    spin(5);
                    *sum += square_sum(20);
                });
            });
        }
        assert_eq!(lock.into_inner().unwrap(), 20 * 50 * expected);
    }
}

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
    static VISITS: Cell<u64> = const { Cell::new(0) };
}

/// A closure sees the locals of the thread that runs it: the caller's on the caller, a worker's own on a worker.
#[test]
fn closures_see_the_locals_of_their_thread() {
    let pool = Pool::new(3);
    thread::scope(|scope| {
        for caller in 1..=3u64 {
            let pool = &pool;
            scope.spawn(move || {
                MINE.set(caller);
                let me = thread::current().id();
                let names: Mutex<HashMap<ThreadId, (u64, HashSet<u64>)>> = Mutex::default();
                for _ in 0..20 {
                    pool.install(|| {
                        (0..40).into_par_iter().for_each(|_: i32| {
                            spin(20);
                            VISITS.set(VISITS.get() + 1);
                            let mut names = names.lock().unwrap();
                            let (visits, seen) = names.entry(thread::current().id()).or_default();
                            *visits += 1;
                            seen.insert(MINE.get());
                            // Calls made here use the pool that the item runs on.
                            assert_eq!(current_num_threads(), 3);
                        })
                    });
                }
                let names = names.into_inner().unwrap();
                assert!(
                    names.iter().all(|(id, (_, seen))| *seen == HashSet::from([if *id == me { caller } else { 0 }]))
                );
                assert_eq!(names.values().map(|(visits, _)| visits).sum::<u64>(), 800);
                assert_eq!(VISITS.get(), names[&me].0, "what an item leaves in a local is there after the call");
            });
        }
    });
}

/// A local whose drop makes parallel calls, while its thread ends.
#[test]
fn a_thread_that_ends_may_call() {
    struct CallsOnDrop;
    impl Drop for CallsOnDrop {
        fn drop(&mut self) {
            assert_eq!(square_sum(20), serial_square_sum(20));
            DROPPED.store(true, Relaxed);
        }
    }
    static DROPPED: AtomicBool = AtomicBool::new(false);
    thread_local! {
        static LATE: CallsOnDrop = const { CallsOnDrop };
    }
    thread::spawn(|| {
        LATE.with(|_| ());
        square_sum(20)
    })
    .join()
    .unwrap();
    assert!(DROPPED.load(Relaxed));
}

#[test]
fn pools_are_dropped_while_others_run() {
    let expected = serial_square_sum(40);
    let (busy, done) = (Pool::new(3), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                assert_eq!(busy.install(|| square_sum(40)), expected);
            }
        });
        for round in 0..if cfg!(miri) { 2 } else { 50 } {
            let pool = Arc::new(Pool::new(1 + round % 4));
            let together = Arc::new(Barrier::new(3));
            for _ in 0..2 {
                let (pool, together) = (pool.clone(), together.clone());
                scope.spawn(move || {
                    together.wait();
                    assert_eq!(pool.install(|| square_sum(40)), expected);
                    // The last member drops it.
                });
            }
            together.wait();
            drop(pool);
            // By an item of another pool's call, on whatever thread.
            let pools: Vec<Pool> = (0..4).map(|_| Pool::new(2)).collect();
            busy.install(|| {
                pools
                    .into_par_iter()
                    .with_claim_size(1)
                    .for_each(|pool| assert_eq!(pool.install(|| square_sum(10)), serial_square_sum(10)))
            });
        }
        done.store(true, Relaxed);
    });
}

/// Every member of a call makes another call, at the same time: they all end, whichever has the workers.
#[test]
fn all_members_call_at_once() {
    let pool = Pool::new(4);
    for _ in 0..20 {
        let deep = pool.install(|| {
            (0..8u64)
                .into_par_iter()
                .with_claim_size(1)
                .map(|i| {
                    (0..8u64)
                        .into_par_iter()
                        .with_claim_size(1)
                        .map(|j| {
                            (0..8u64)
                                .into_par_iter()
                                .with_claim_size(1)
                                .map(|k| {
                                    spin(1);
                                    i * 64 + j * 8 + k
                                })
                                .sum::<u64>()
                        })
                        .sum::<u64>()
                })
                .sum::<u64>()
        });
        assert_eq!(deep, 511 * 256);
    }
}

//! Joins in pools: serial recursion is the oracle.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use windrow::prelude::*;
use windrow::{Pool, join};
use windrow_testkit::{Live, spin};

const SMALL: bool = cfg!(miri);

fn fib(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { fib(n - 1) + fib(n - 2) }
}

fn joined_fib(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = join(|| joined_fib(n - 1), || joined_fib(n - 2));
    a + b
}

#[test]
fn recursion_gives_what_it_gives_serially() {
    let n = if SMALL { 8 } else { 25 };
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for _ in 0..5 {
            assert_eq!(pool.install(|| joined_fib(n)), fib(n));
        }
    }
    // Without any pool in sight.
    assert_eq!(joined_fib(n), fib(n));
}

#[test]
fn results_of_any_kind_come_back() {
    let text = String::from("owned");
    let borrowed = [1, 2, 3];
    let mut changed = vec![0; 3];
    let (left, right) = changed.split_at_mut(1);
    let (a, (b, ())) = join(
        || text,
        || {
            join(
                || borrowed.iter().sum::<i32>(),
                || {
                    left[0] = 7;
                    right[1] = 8;
                },
            )
        },
    );
    assert_eq!((a.as_str(), b, changed.as_slice()), ("owned", 6, &[7, 0, 8][..]));
    assert_eq!(join(|| (), || ()), ((), ()));
}

/// A recursion of a random shape with work at random places, and what it gives.
#[derive(Clone, Debug)]
enum Shape {
    Leaf(u8),
    Fork(Box<Shape>, Box<Shape>),
    /// A loop whose items are recursions.
    Loop(Vec<Shape>),
}

impl Shape {
    fn serial(&self) -> u64 {
        match self {
            Shape::Leaf(n) => u64::from(*n) + 1,
            Shape::Fork(a, b) => a.serial().wrapping_mul(31).wrapping_add(b.serial()),
            Shape::Loop(all) => all.iter().map(Shape::serial).fold(7, |sum, one| sum.wrapping_add(one)),
        }
    }

    fn parallel(&self) -> u64 {
        match self {
            Shape::Leaf(n) => {
                spin(u64::from(*n));
                u64::from(*n) + 1
            }
            Shape::Fork(a, b) => {
                let (a, b) = join(|| a.parallel(), || b.parallel());
                a.wrapping_mul(31).wrapping_add(b)
            }
            Shape::Loop(all) => all.par_iter().map(Shape::parallel).reduce(|| 0, u64::wrapping_add).wrapping_add(7),
        }
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    (0..20u8).prop_map(Shape::Leaf).prop_recursive(7, 200, 6, |inner| {
        prop_oneof![
            4 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Shape::Fork(a.into(), b.into())),
            1 => prop::collection::vec(inner, 0..6).prop_map(Shape::Loop),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if SMALL { 3 } else { windrow_testkit::cases(50) }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_recursion_gives_what_it_gives_serially(shape in shape(), threads in 1..4usize) {
        prop_assert_eq!(Pool::new(threads).install(|| shape.parallel()), shape.serial());
    }
}

#[test]
fn a_panic_at_every_leaf() {
    fn walk<'a>(lo: usize, hi: usize, at: usize, micros: u64, live: &'a AtomicIsize) -> Live<&'a AtomicIsize, ()> {
        if hi - lo == 1 {
            spin(micros);
            if lo == at {
                resume_unwind(Box::new(at));
            }
            return Live::new(live, ());
        }
        let middle = lo.midpoint(hi);
        let (left, right) = (Live::new(live, ()), Live::new(live, ()));
        let half = |counter: Live<&'a AtomicIsize, ()>, lo, hi| {
            move || {
                let _counter = counter;
                walk(lo, hi, at, micros, live)
            }
        };
        join(half(left, lo, middle), half(right, middle, hi)).0
    }
    let n = if SMALL { 6 } else { 50 };
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for micros in [0, 5] {
            for at in 0..=n {
                let live = AtomicIsize::new(0);
                let run = || pool.install(|| drop(walk(0, n, at, micros, &live)));
                match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(()) => assert_eq!(at, n),
                    Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), at),
                }
                assert_eq!(live.load(Relaxed), 0, "panic at {at}");
                assert_eq!(pool.install(|| joined_fib(10)), 55);
            }
        }
    }
}

/// Both halves panic, at many moments: the first one's payload comes out.
#[test]
fn the_first_half_panics_louder() {
    let pool = Pool::new(2);
    for micros in 0..if SMALL { 2 } else { 100 } {
        let throw = |what: &'static str, micros| {
            spin(micros);
            resume_unwind(Box::new(what))
        };
        let run = || pool.install(|| join(|| throw("first", micros), || throw("second", 50)));
        let ((), ()) = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(both) => both,
            Err(payload) => (assert_eq!(*payload.downcast::<&str>().unwrap(), "first"), ()),
        };
    }
}

/// A lock is held over a join whose halves take long, while the work of other joins asks for it (rayon issues 592 and 1251): a
/// member that waits must not run such work on top of the holder.
#[test]
fn a_lock_may_be_held_over_a_join() {
    fn work(lock: &Mutex<u64>, depth: u32) {
        if depth > 0 {
            join(|| work(lock, depth - 1), || work(lock, depth - 1));
            return;
        }
        let mut held = lock.lock().unwrap();
        let (a, b) = join(
            || {
                spin(15);
                joined_fib(5)
            },
            || {
                spin(15);
                joined_fib(6)
            },
        );
        *held += a + b;
    }
    for threads in [2, 4] {
        let pool = Pool::new(threads);
        let lock = Mutex::new(0);
        let depth = if SMALL { 2 } else { 8 };
        pool.install(|| work(&lock, depth));
        assert_eq!(lock.into_inner().unwrap(), 13 << depth);
    }
}

/// The same with a loop inside the lock, and loops whose items hold it (rayon issue 592 itself).
#[test]
fn a_lock_may_be_held_over_a_loop_in_a_join() {
    let pool = Pool::new(3);
    let lock = Mutex::new(0);
    let locked = |n: u64| {
        let mut held = lock.lock().unwrap();
        *held += (0..n)
            .into_par_iter()
            .map(|i| {
                spin(1);
                i % 2
            })
            .sum::<u64>();
    };
    let rounds = if SMALL { 2 } else { 60 };
    pool.install(|| {
        for _ in 0..rounds {
            join(|| (0..6).into_par_iter().for_each(|_| locked(10)), || join(|| locked(10), || locked(10)));
        }
    });
    assert_eq!(*lock.lock().unwrap(), rounds * 8 * 5);
}

#[test]
fn install_starts_anew() {
    let (one, two) = (Pool::new(1), Pool::new(2));
    let n = if SMALL { 6 } else { 16 };
    let inside = || {
        let (a, b) = join(
            || one.install(|| (windrow::current_num_threads(), joined_fib(n))),
            || two.install(|| (windrow::current_num_threads(), joined_fib(n))),
        );
        assert_eq!((a, b), ((1, fib(n)), (2, fib(n))));
        joined_fib(n)
    };
    assert_eq!(two.install(inside), fib(n));
    assert_eq!(one.install(inside), fib(n));
}

/// Deep on one side: the stack of the frames is as long as that of the calls.
#[test]
fn a_list_is_a_tree_too() {
    fn down(depth: usize, ran: &AtomicUsize) {
        if depth > 0 {
            join(
                || down(depth - 1, ran),
                || {
                    spin(u64::from(depth.is_multiple_of(64)) * 20);
                    ran.fetch_add(1, Relaxed)
                },
            );
        }
    }
    let depth = if SMALL { 50 } else { 10_000 };
    let run = move || {
        let ran = AtomicUsize::new(0);
        Pool::new(2).install(|| down(depth, &ran));
        assert_eq!(ran.into_inner(), depth);
    };
    std::thread::Builder::new().stack_size(1 << 26).spawn(run).unwrap().join().unwrap();
}

/// Joins while a thread ends, when its pool may be gone already.
#[test]
fn a_thread_that_ends_can_join() {
    struct AtEnd;
    impl Drop for AtEnd {
        fn drop(&mut self) {
            assert_eq!(joined_fib(12), 144);
        }
    }
    thread_local!(static AT_END: AtEnd = const { AtEnd });
    std::thread::spawn(|| AT_END.with(|_| joined_fib(5))).join().unwrap();
}

/// Joins, scopes, loops, panics and pools, from several threads at once.
#[test]
fn everything_at_once() {
    fn work(seed: u64, depth: u32) -> u64 {
        let next = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if depth == 0 {
            spin(next >> 60);
            return next >> 33;
        }
        let (a, b) = match (next >> 40) % 8 {
            0 => {
                let items: Vec<u64> = (0..4).map(|i| next ^ i).collect();
                let sum = items.par_iter().map(|&seed| work(seed, depth / 2)).reduce(|| 0, u64::wrapping_add);
                (sum, 0)
            }
            1 => windrow::scope(|s| {
                let a = s.spawn_joinable(move |_| work(next, depth - 1));
                let b = work(next ^ 1, depth - 1);
                (a.join().unwrap(), b)
            }),
            2 => {
                let thrown = catch_unwind(|| join(|| work(next, depth - 1), || resume_unwind(Box::new(next))));
                let ((), value) = match thrown {
                    Ok((_, never)) => never,
                    Err(payload) => ((), *payload.downcast::<u64>().unwrap()),
                };
                (value, work(next ^ 1, depth - 1))
            }
            _ => join(|| work(next, depth - 1), || work(next ^ 1, depth - 1)),
        };
        a.wrapping_mul(3).wrapping_add(b)
    }
    let rounds = if SMALL { 1 } else { 12 };
    let depth = if SMALL { 2 } else { 7 };
    let pools = [Pool::new(2), Pool::new(3)];
    let expected: Vec<u64> = (0..rounds).map(|seed| Pool::new(1).install(|| work(seed, depth))).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pools, expected) = (&pools, &expected);
            scope.spawn(move || {
                for seed in 0..rounds {
                    let result = match thread {
                        3 => work(seed, depth),
                        _ => pools[thread % 2].install(|| work(seed, depth)),
                    };
                    assert_eq!(result, expected[seed as usize]);
                }
            });
        }
    });
}

/// Both halves run, whatever panics: the panic of the first half goes on when the second has ended.
#[test]
fn the_second_half_runs_though_the_first_panics() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for micros in [0, 30, 300] {
            for bad in [false, true] {
                let ran = AtomicUsize::new(0);
                let second = || {
                    assert!(!std::thread::panicking(), "the second half is no part of the unwinding");
                    // Joins in it work as ever.
                    join(|| ran.fetch_add(1, Relaxed), || ran.fetch_add(1, Relaxed));
                    if bad {
                        resume_unwind(Box::new("second"));
                    }
                };
                let first = || {
                    spin(micros);
                    join(|| spin(micros), || -> () { resume_unwind(Box::new("first")) });
                };
                let thrown = catch_unwind(AssertUnwindSafe(|| pool.install(|| join(first, second)))).unwrap_err();
                assert_eq!((*thrown.downcast::<&str>().unwrap(), ran.into_inner()), ("first", 2));
            }
        }
        assert_eq!(pool.install(|| joined_fib(10)), fib(10));
    }
}

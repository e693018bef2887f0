//! Serial execution is the oracle: every iterator gives what the standard library's gives, on pools of several widths.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use windrow::prelude::*;
use windrow::{CallKind, Pool};
use windrow_testkit::{Live, items, on_all, pools, spin};

#[test]
fn every_size_around_the_edges() {
    let sizes: &[usize] = if cfg!(miri) { &[0, 1, 5, 129] } else { &[0, 1, 2, 3, 7, 127, 128, 129, 1000, 40_000] };
    for &n in sizes {
        let v: Vec<u64> = (0..n as u64).map(|i| i * 7 % 1001).collect();
        assert_eq!(
            on_all(|| v.par_iter().map(|x| x + 1).collect::<Vec<_>>()),
            v.iter().map(|x| x + 1).collect::<Vec<_>>()
        );
        assert_eq!(on_all(|| v.par_iter().sum::<u64>()), v.iter().sum());
        assert_eq!(on_all(|| v.par_iter().min()), v.iter().min());
        assert_eq!(on_all(|| v.par_iter().max()), v.iter().max());
        assert_eq!(on_all(|| v.par_iter().count()), n);
        assert_eq!(on_all(|| v.par_iter().any(|&x| x == 1000)), v.contains(&1000));
        assert_eq!(on_all(|| v.par_iter().all(|&x| x < 1000)), v.iter().all(|&x| x < 1000));
        assert_eq!(
            on_all(|| v.par_iter().filter(|x| **x % 3 == 0).collect::<Vec<_>>()),
            v.iter().filter(|x| **x % 3 == 0).collect::<Vec<_>>()
        );
        assert_eq!(
            on_all(|| v.par_chunks(7).map(<[u64]>::len).collect::<Vec<_>>()),
            v.chunks(7).map(<[u64]>::len).collect::<Vec<_>>()
        );
        assert_eq!(
            on_all(|| v.clone().into_par_iter().enumerate().collect::<Vec<_>>()),
            v.clone().into_iter().enumerate().collect::<Vec<_>>()
        );
        let few = 1..n.min(20) as u64;
        assert_eq!(on_all(|| few.clone().into_par_iter().product::<u64>()), few.clone().product());
        let mut w = v.clone();
        on_all(|| w.clone().par_iter_mut().for_each(|x| *x += 1));
        w.par_iter_mut().zip(&v).for_each(|(w, v)| *w += v);
        assert!(w.iter().zip(&v).all(|(w, v)| *w == 2 * v));
        w.par_chunks_mut(5).enumerate().for_each(|(i, run)| run.fill(i as u64));
        assert!(w.iter().enumerate().all(|(i, w)| *w == i as u64 / 5));
    }
}

#[test]
fn arrays_and_nested_zips() {
    assert_eq!([1, 2, 3].into_par_iter().map(|x| x * 2).collect::<Vec<_>>(), [2, 4, 6]);
    let mut a = [1, 2, 3];
    a.par_iter_mut().for_each(|x| *x += 1);
    assert_eq!(a.par_iter().copied_sum(), 9);
    let zipped: Vec<_> = (0..5u8).into_par_iter().zip([7; 4].par_iter()).zip(vec!['x'; 9]).enumerate().collect();
    assert_eq!(zipped.len(), 4);
    assert_eq!(zipped[3], (3, ((3, &7), 'x')));
    assert_eq!((0..5u8).into_par_iter().zip(0..3u8).len(), 3);
}

/// `impl ParallelIterator` can be written by users.
trait CopiedSum {
    fn copied_sum(self) -> i32;
}
impl<'a, P: ParallelIterator<Item = &'a i32>> CopiedSum for P {
    fn copied_sum(self) -> i32 {
        self.map(|x| *x).sum()
    }
}

#[test]
fn fold_then_reduce_or_collect() {
    let n = 10_000u64;
    let folded = || (0..n).into_par_iter().fold(|| 0, |sum, x| sum + x);
    assert_eq!(on_all(|| folded().sum::<u64>()), n * (n - 1) / 2);
    let partials = on_all(|| folded().collect::<Vec<u64>>());
    assert!(partials.len() > 1, "where runs begin depends on n alone");
    assert_eq!(partials.iter().sum::<u64>(), n * (n - 1) / 2);
    assert_eq!(on_all(|| folded().filter(|x| x % 2 == 0).count()), partials.iter().filter(|x| *x % 2 == 0).count());
    let sum = Mutex::new(0);
    folded().for_each(|part| *sum.lock().unwrap() += part);
    assert_eq!(sum.into_inner().unwrap(), n * (n - 1) / 2);
}

#[test]
fn reductions_have_the_same_bits_on_every_pool() {
    let sizes: &[usize] = if cfg!(miri) { &[1, 129] } else { &[1, 100, 128, 129, 10_000, 300_000] };
    for &n in sizes {
        let v: Vec<f64> = (0..n).map(|i| (i as f64).sin() * 1e10f64.powi(i as i32 % 3)).collect();
        on_all(|| v.par_iter().sum::<f64>().to_bits());
        on_all(|| v.par_iter().map(|x| 1.0 + x * 1e-14).product::<f64>().to_bits());
        on_all(|| v.par_iter().map(|x| *x).reduce(|| 0.0, |a, b| a * 0.5 + b).to_bits());
        on_all(|| v.par_iter().fold(|| 0.0, |a, b| a + b).reduce(|| 0.0, |a, b| a + b).to_bits());
    }
}

/// Blocks are combined in order, as a tree that depends on the number of items alone, and not on the members that reduced them.
#[test]
fn reductions_group_in_the_same_way_on_every_pool() {
    let sizes: &[usize] = if cfg!(miri) { &[1, 100] } else { &[0, 1, 2, 3, 5, 64, 100, 127, 128, 129, 1000, 20_000] };
    for &n in sizes {
        // The grouping, written down. (Within a block it is a fold from the left.)
        let items = || {
            (0..n).into_par_iter().map(|i| {
                spin(if i % 50 == 7 { 20 } else { 0 });
                i.to_string()
            })
        };
        let group =
            |a: String, b: String| if n > 200 { format!("{}{b}", &a[..a.len().min(99)]) } else { format!("({a} {b})") };
        on_all(|| items().reduce_with(group));
        on_all(|| items().with_claim_size(1).reduce_with(group));
        let ordered = |a: String, b: String| a + &b;
        let all: String = (0..n).map(|i| i.to_string()).collect();
        assert_eq!(on_all(|| items().with_claim_size(1).reduce(String::new, ordered)), all);
        assert_eq!(on_all(|| items().fold(String::new, ordered).reduce(String::new, ordered)), all);
        assert_eq!(on_all(|| items().map(Some).try_reduce(String::new, |a, b| Some(a + &b))), Some(all));
    }
}

#[test]
fn a_panic_of_an_operation_drops_every_accumulator_once() {
    let n = if cfg!(miri) { 40 } else { 1000 };
    for pool in pools() {
        for at in [1, 2, n / 3, n - 2] {
            let (live, calls) = (AtomicIsize::new(0), AtomicUsize::new(0));
            let op = |a: Live<&AtomicIsize>, b: Live<&AtomicIsize>| {
                spin(1);
                if calls.fetch_add(1, Relaxed) == at {
                    std::panic::resume_unwind(Box::new("op"));
                }
                Live::new(&live, a.1 + b.1)
            };
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.install(|| items(&live, n).into_par_iter().with_claim_size(1).reduce_with(op).map(|all| all.1))
            }));
            assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "op");
            assert_eq!(live.into_inner(), 0);
        }
    }
}

/// An error at the front ends a reduction with a million blocks: those behind it are not walked through one by one.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn an_early_error_ends_a_reduction_of_many_blocks() {
    let visited = AtomicUsize::new(0);
    let failed = on_all(|| {
        let items = (0..u64::MAX).into_par_iter().map(|i| {
            visited.fetch_add(1, Relaxed);
            if i == 1000 { Err(i) } else { Ok(i) }
        });
        items.try_reduce(|| 0, |a, b| Ok(a.max(b)))
    });
    assert_eq!(failed, Err(1000));
}

#[test]
fn order_is_kept_when_items_differ_by_1000x_and_claims_are_given() {
    let cost = |i: usize| if i.is_multiple_of(97) { 300 } else { 1 };
    let n = 400;
    let slow = |i: usize| {
        spin(cost(i));
        i
    };
    let expected: Vec<usize> = (0..n).collect();
    assert_eq!(on_all(|| (0..n).into_par_iter().map(slow).collect::<Vec<_>>()), expected);
    assert_eq!(on_all(|| (0..n).into_par_iter().weigh(|&i| cost(i) as usize).map(slow).collect::<Vec<_>>()), expected);
    assert_eq!(on_all(|| (0..n).into_par_iter().map(slow).with_claim_size(13).collect::<Vec<_>>()), expected);
    assert_eq!(on_all(|| (0..n).into_par_iter().with_claim_size(1).filter(|i| slow(*i) % 2 == 0).count()), n / 2);
}

#[test]
fn work_is_shared_when_it_is_long() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        return println!("skipped: work is not shared on one CPU");
    }
    let pool = Pool::new(2);
    let who = Mutex::new(HashSet::new());
    let (sum, why) = windrow::explain(|| {
        pool.install(|| {
            (0..300u64)
                .into_par_iter()
                .map(|i| {
                    who.lock().unwrap().insert(std::thread::current().id());
                    spin(300);
                    i
                })
                .sum::<u64>()
        })
    });
    assert_eq!(sum, 44_850);
    assert!(who.into_inner().unwrap().len() > 1, "90 ms of work stayed on one thread");
    assert_eq!(why.len(), 1);
    assert_eq!((why[0].kind(), why[0].count(), why[0].threads()), (CallKind::Loop, 300, 2), "{}", why[0]);
    assert!(why[0].reason().starts_with("shared after "), "{}", why[0]);
}

#[test]
#[cfg_attr(miri, ignore = "nothing is small under Miri")]
fn small_work_stays_on_the_caller_and_says_so() {
    let pool = Pool::new(2);
    let me = std::thread::current().id();
    let call = || {
        // Unoptimized, eight of these items take as long as it takes to let a worker in.
        let here = (0..2u64).into_par_iter().all(|_| std::thread::current().id() == me);
        (0..1u64).into_par_iter().for_each(|_| ());
        here
    };
    let (stayed, why) = windrow::explain(|| pool.install(|| (0..50).filter(|_| call()).count()));
    // An interruption during a call makes its work look large.
    assert!(stayed > 25, "{stayed} of 50");
    assert!(why.iter().step_by(2).filter(|why| why.reason().starts_with("serial: ")).count() > 25);
    assert!(why[1].to_string().ends_with(" on 1 thread: serial: nothing to decide"), "{}", why[1]);
    assert_eq!(why[1].count(), 1);
}

/// Optimized code has one function for closures of equal text, so its address does not distinguish the places.
#[test]
#[cfg_attr(miri, ignore = "sites are learned from the clock")]
fn equal_closures_at_two_lines_are_two_sites() {
    let pool = Pool::new(2);
    let items: Vec<u64> = (0..400).collect();
    let known = |call: &dyn Fn()| {
        let why = windrow::explain(|| pool.install(call)).1;
        (why[0].place().unwrap().line(), why[0].from_memory())
    };
    let first = || items.par_iter().for_each(|item| spin(*item % 2 + 5));
    let second = || items.par_iter().for_each(|item| spin(*item % 2 + 5));
    // On a busy machine calls may differ too much to be remembered for a while.
    let learned = (0..10_000).map(|_| known(&first)).find(|&(_, known)| known);
    let (line, known_at_once) = known(&second);
    assert!(learned.is_some_and(|(other, _)| other < line), "{learned:?}, {line}");
    assert!(!known_at_once, "it knew the other one's items");
}

#[test]
fn regions_nest_and_run_at_once() {
    let square =
        |n: u64| (0..n).into_par_iter().map(|i| (0..i).into_par_iter().map(|j| i ^ j).sum::<u64>()).sum::<u64>();
    let n = if cfg!(miri) { 10 } else { 200u64 };
    let expected = (0..n).map(|i| (0..i).map(|j| i ^ j).sum::<u64>()).sum();
    assert_eq!(on_all(|| square(n)), expected);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(pools()[1].install(|| square(n)), expected)));
        }
    });
    // A pool inside another one's region, and a pool inside itself.
    let inner = Pool::new(2);
    let sums =
        pools()[2].install(|| (0..50u64).into_par_iter().map(|_| inner.install(|| square(20))).collect::<Vec<_>>());
    assert!(sums.iter().all(|&sum| sum == sums[0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { windrow_testkit::cases(50) }))]

    #[test]
    fn pipelines_equal_the_standard_library(
        v in proptest::collection::vec(0u32..1000, 0..600),
        size in 1usize..50,
        chunk in proptest::option::of(1usize..100),
        cost in 0u64..3,
        pool in 0usize..4,
    ) {
        let serial: Vec<(usize, u32)> =
            v.chunks(size).enumerate().map(|(i, run)| (i, run.iter().sum::<u32>())).filter(|(_, sum)| sum % 3 != 0).collect();
        let parallel: Vec<(usize, u32)> = pools()[pool].install(|| {
            let runs = v.par_chunks(size).weigh(|run| run.iter().map(|&x| x as usize).sum());
            let sums = runs.enumerate().map(|(i, run)| {
                spin(cost);
                (i, run.iter().sum::<u32>())
            });
            let sums = sums.filter(|(_, sum)| sum % 3 != 0);
            match chunk {
                Some(chunk) => sums.with_claim_size(chunk).collect(),
                None => sums.collect(),
            }
        });
        prop_assert_eq!(parallel, serial);
    }
}

//! Searches, comparisons, and what may break off: what a serial loop gives, and no more work than there must be.

use std::cmp;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::*;
use windrow::prelude::*;
use windrow_testkit::{on_all, pools, same, spin};

const MOST: usize = if cfg!(miri) { 12 } else { 400 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { windrow_testkit::cases(20) }))]

    #[test]
    fn searches(v in vec(0u32..300, 0..MOST), hit in 0u32..300, cost in 0u64..3) {
        let slow = |x: &u32| {
            spin(cost);
            *x
        };
        let at: Vec<usize> = v.iter().enumerate().filter(|(_, x)| **x == hit).map(|(i, _)| i).collect();
        let found = (!at.is_empty()).then_some(hit);
        let pair = |i: &usize| (*i, hit);
        same! {
            found => v.par_iter().map(slow).find_any(|x| *x == hit);
            at.first().map(pair) => v.par_iter().map(slow).enumerate().find_first(|(_, x)| *x == hit);
            at.last().map(pair) => v.par_iter().map(slow).enumerate().find_last(|(_, x)| *x == hit);
            at.first().map(pair) => v.par_iter().map(slow).enumerate().rev().find_last(|(_, x)| *x == hit);
            found => v.par_iter().map(slow).filter(|x| *x == hit).find_any(|_| true);
            at.first().map(pair) => v.par_iter().enumerate().map(|(i, x)| (i, slow(x))).filter(|(_, x)| *x == hit).find_first(|_| true);
            found.map(|x| x + 1) => v.par_iter().find_map_any(|x| (slow(x) == hit).then_some(x + 1));
            at.first().copied() => v.par_iter().enumerate().find_map_first(|(i, x)| (slow(x) == hit).then_some(i));
            at.last().copied() => v.par_iter().enumerate().find_map_last(|(i, x)| (slow(x) == hit).then_some(i));
            at.first().copied() => v.par_iter().map(slow).position_first(|x| x == hit);
            at.last().copied() => v.par_iter().map(slow).position_last(|x| x == hit);
            !at.is_empty() => v.par_iter().map(slow).position_any(|x| x == hit).is_some_and(|i| at.contains(&i));
            at.first().map(|i| i / 3) => v.par_chunks(3).with_claim_size(2).position_first(|run| run.iter().map(slow).any(|x| x == hit));
            v.iter().all(|x| *x < hit) => v.par_iter().all(|x| slow(x) < hit);
        }
    }

    #[test]
    fn comparisons(v in vec(0u32..3, 0..MOST), change in proptest::option::of((0..MOST, 0u32..3)), len in 0..MOST) {
        let mut w = v.clone();
        if let Some((at, x)) = change {
            w.get_mut(at).into_iter().for_each(|y| *y = x);
        }
        w.truncate(len);
        let float = |x: &u32| if *x == 1 { f64::NAN } else { f64::from(*x) };
        let (f, g): (Vec<f64>, Vec<f64>) = (v.iter().map(float).collect(), w.iter().map(float).collect());
        same! {
            v.iter().cmp(&w) => v.par_iter().cmp(&w);
            v.iter().partial_cmp(&w) => v.par_iter().partial_cmp(&w);
            f.iter().partial_cmp(&g) => f.par_iter().partial_cmp(&g);
            (v.iter().eq(&w), v.iter().ne(&w)) => (v.par_iter().eq(&w), v.par_iter().ne(&w));
            (v.iter().lt(&w), v.iter().le(&w)) => (v.par_iter().lt(&w), v.par_iter().le(&w));
            (v.iter().gt(&w), v.iter().ge(&w)) => (v.par_iter().gt(&w), v.par_iter().ge(&w));
            (f.iter().lt(&g), f.iter().ge(&g), f.iter().eq(&g)) => (f.par_iter().lt(&g), f.par_iter().ge(&g), f.par_iter().eq(&g));
        }
    }

    #[test]
    fn extremes(v in vec((0u32..20, 0u32..10), 0..MOST)) {
        let by = |a: &(u32, u32), b: &(u32, u32)| a.1.cmp(&b.1);
        let numbered = || v.par_iter().enumerate().map(|(i, x)| (i, *x));
        let serial = || v.iter().enumerate().map(|(i, x)| (i, *x));
        same! {
            serial().min_by(|a, b| by(&a.1, &b.1)) => numbered().min_by(|a, b| by(&a.1, &b.1));
            serial().max_by(|a, b| by(&a.1, &b.1)) => numbered().max_by(|a, b| by(&a.1, &b.1));
            serial().min_by_key(|x| x.1.0) => numbered().min_by_key(|x| x.1.0);
            serial().max_by_key(|x| cmp::Reverse(x.1.0)) => numbered().max_by_key(|x| cmp::Reverse(x.1.0));
            serial().map(|x| vec![x.0]).reduce(|a, b| [a, b].concat()) => numbered().map(|x| vec![x.0]).reduce_with(|a, b| [a, b].concat());
        }
    }

    /// The first that breaks off decides, as in a serial loop, and what is collected from the others is whole.
    #[test]
    fn breaking_off(v in vec(0u32..400, 0..MOST), bad in 0u32..400, cost in 0u64..3) {
        // Errors know their place.
        let step = |(i, x): (usize, &u32)| {
            spin(cost);
            if *x == bad { Err(i) } else { Ok(*x) }
        };
        let serial = || v.iter().enumerate().map(step);
        let parallel = || v.par_iter().enumerate().map(step);
        let add = |a: u32, b: u32| a.checked_add(b).ok_or(usize::MAX);
        let sum: Result<u32, usize> = serial().try_fold(0, |a, b| add(a, b?));
        let flow = |x: Result<u32, usize>| x.map_or_else(ControlFlow::Break, |_| ControlFlow::Continue(()));
        same! {
            serial().try_for_each(|x| x.map(drop)) => parallel().try_for_each(|x| x.map(drop));
            serial().map(|x| x.ok().map(drop)).collect::<Option<()>>() => parallel().try_for_each(|x| x.ok().map(drop));
            serial().map(flow).find(|x| x.is_break()).unwrap_or(ControlFlow::Continue(())) => parallel().try_for_each(flow);
            serial().try_for_each(|x| x.map(drop)) => parallel().try_for_each_init(|| 1, |_, x| x.map(drop));
            serial().try_for_each(|x| x.map(drop)) => parallel().try_for_each_with(1, |_, x| x.map(drop));
            serial().collect::<Result<Vec<_>, _>>() => parallel().collect::<Result<Vec<_>, _>>();
            serial().map(Result::ok).collect::<Option<Vec<_>>>() => parallel().map(Result::ok).collect::<Option<Vec<_>>>();
            serial().filter(|x| *x != Ok(7)).collect::<Result<std::collections::BTreeSet<_>, _>>()
                => parallel().filter(|x| *x != Ok(7)).collect::<Result<std::collections::BTreeSet<_>, _>>();
            sum => parallel().try_reduce(|| 0, add);
            v.first().map(|_| sum) => parallel().try_reduce_with(add);
            sum => parallel().try_fold(|| 0, |a, b| add(a, b?)).try_reduce(|| 0, add);
            sum => parallel().try_fold_with(0, |a, b| add(a, b?)).try_reduce_with(add).unwrap_or(Ok(0));
            sum.map(|_| ()) => parallel().try_fold(|| 0, |a, b| add(a, b?)).collect::<Result<Vec<_>, _>>().map(drop);
            sum => parallel().collect::<Result<Vec<_>, _>>().map(|all| all.iter().sum());
        }
        // All before the first `None` is there, in order, and nothing that is not.
        let before: Vec<u32> = serial().map_while(Result::ok).collect();
        let all: Vec<u32> = serial().filter_map(Result::ok).collect();
        for pool in pools() {
            let some: Vec<u32> = pool.install(|| parallel().map(Result::ok).while_some().collect());
            assert!(some.starts_with(&before));
            let mut rest = all[before.len()..].iter();
            assert!(some[before.len()..].iter().all(|x| rest.any(|y| x == y)), "{some:?} is no part of {all:?}");
            assert!(pool.install(|| parallel().map(Result::ok).while_some().count()) >= before.len());
        }
    }
}

#[test]
fn try_reductions_have_the_same_bits_on_every_pool() {
    let n = if cfg!(miri) { 130 } else { 20_000 };
    let v: Vec<f64> = (0..n).map(|i| f64::from(i).sin() * 1e10f64.powi(i % 3)).collect();
    let add = |a: f64, b: f64| Some(a + b);
    on_all(|| v.par_iter().map(|x| Some(*x)).try_reduce(|| 0.0, add).map(f64::to_bits));
    on_all(|| v.par_iter().map(|x| Some(*x)).try_reduce_with(add).flatten().map(f64::to_bits));
    on_all(|| v.par_iter().try_fold(|| 0.0, |a, b| add(a, *b)).try_reduce(|| 0.0, add).map(f64::to_bits));
    on_all(|| v.par_iter().copied().reduce_with(|a, b| a * 0.5 + b).map(f64::to_bits));
    on_all(|| v.par_iter().fold_with(0.0, |a, b| a + b).sum::<f64>().to_bits());
    on_all(|| v.par_iter().copied().chain(v.par_iter().copied()).rev().sum::<f64>().to_bits());
    let ok = |x: &f64| Ok::<f64, ()>(*x);
    let folded = on_all(|| v.par_iter().map(ok).try_fold(|| 0.0, |a, b| ok(&(a + b?))).collect::<Result<Vec<_>, _>>());
    assert!(folded.is_ok());
}

/// `f` gets a count of the items it looks at; it ends before it has looked at all `n`.
fn ends_early(name: &str, n: usize, f: impl Fn(&(dyn Fn(usize) -> usize + Sync))) {
    for pool in pools() {
        let seen = AtomicUsize::new(0);
        pool.install(|| {
            f(&|i| {
                seen.fetch_add(1, Relaxed);
                i
            })
        });
        let seen = seen.into_inner();
        assert!(seen < n, "{name} looked at {seen} of {n} items on {} threads", pool.threads());
    }
}

#[test]
fn what_is_found_ends_the_search() {
    let n = if cfg!(miri) { 20_000 } else { 1_000_000 };
    let hit = n / 100;
    let numbers = || (0..n).into_par_iter();
    ends_early("any", n, |see| assert!(numbers().any(|i| see(i) == hit)));
    ends_early("all", n, |see| assert!(!numbers().all(|i| see(i) != hit)));
    ends_early("find_any", n, |see| assert_eq!(numbers().map(see).find_any(|i| *i == hit), Some(hit)));
    ends_early("find_first", n, |see| assert_eq!(numbers().map(see).find_first(|i| *i >= hit), Some(hit)));
    ends_early("position_first", n, |see| assert_eq!(numbers().position_first(|i| see(i) >= hit), Some(hit)));
    ends_early("rev", n, |see| assert_eq!(numbers().rev().map(see).find_first(|i| *i < n - hit), Some(n - hit - 1)));
    ends_early("cmp", n, |see| {
        assert!(numbers().map(|i| i / hit).map(see).cmp(numbers().map(|i| i / (hit + 1))).is_gt());
    });
    ends_early("eq", n, |see| assert!(!numbers().map(see).eq(numbers().map(|i| i.min(hit)))));
    ends_early("try_for_each", n, |see| {
        assert_eq!(numbers().try_for_each(|i| if see(i) < hit { Ok(()) } else { Err(i) }), Err(hit));
    });
    ends_early("collect", n, |see| {
        let all: Result<Vec<usize>, usize> = numbers().map(|i| if see(i) < hit { Ok(i) } else { Err(i) }).collect();
        assert_eq!(all, Err(hit));
    });
    ends_early("while_some", n, |see| {
        let count = numbers().map(|i| (see(i) < hit).then_some(i)).while_some().count();
        assert_eq!(count, hit);
    });
    ends_early("take_any", n, |see| assert_eq!(numbers().map(see).take_any(hit).count(), hit));
    ends_early("take_any_while", n, |see| assert!(numbers().take_any_while(|i| see(*i) < hit).count() <= hit));
    ends_early("try_reduce", n, |see| {
        let sum = numbers().map(|i| if see(i) == hit { Err(i) } else { Ok(i) }).try_reduce(|| 0, |a, b| Ok(a | b));
        assert_eq!(sum, Err(hit));
    });
}

/// More items than can be visited.
#[test]
#[cfg_attr(miri, ignore = "too many for Miri")]
fn endless_searches_end() {
    let numbers = || (0..u64::MAX).into_par_iter();
    let rare = |i: &u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 == 0;
    on_all(|| numbers().find_any(rare).is_some_and(|i| rare(&i)));
    on_all(|| numbers().find_first(rare));
    on_all(|| numbers().step_by(3).rev().find_any(rare).is_some());
    on_all(|| numbers().chunks(3).find_first(|run| rare(&run[1])));
    on_all(|| numbers().filter(rare).map(|i| i + 1).any(|_| true));
    on_all(|| numbers().filter(|i| i % 1000 == 0).take_any(50).count());
    on_all(|| windrow::iter::repeat(7u8).enumerate().find_first(|(i, x)| *i == 100_000 && *x == 7));
    on_all(|| windrow::iter::repeat("ab").take(1000).collect::<String>());
    assert_eq!(on_all(|| windrow::iter::repeat(2u64).zip(0..10u64).map(|(a, b)| a * b).sum::<u64>()), 90);
}

#[test]
fn the_lead_alone_stops_where_it_finds() {
    let looked = AtomicUsize::new(0);
    let found = (0..1000).into_par_iter().find_first(|i| {
        looked.fetch_add(1, Relaxed);
        *i == 0
    });
    assert_eq!((found, looked.into_inner()), (Some(0), 1));
}

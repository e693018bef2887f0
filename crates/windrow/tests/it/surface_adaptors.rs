//! Adaptors give what the standard library's give, on every pool, whatever items cost.

use proptest::collection::vec;
use proptest::prelude::*;
use windrow::prelude::*;
use windrow_testkit::{on_all, pools, same, spin};

const MOST: usize = if cfg!(miri) { 12 } else { 250 };

/// One of `a`, one of `b`, and the rest of the longer one.
fn in_turns<T>(a: Vec<T>, b: Vec<T>) -> Vec<T> {
    let (mut a, mut b, mut all) = (a.into_iter(), b.into_iter(), Vec::new());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return all,
            (x, y) => all.extend(x.into_iter().chain(y)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { windrow_testkit::cases(16) }))]

    #[test]
    fn indices(v in vec(0u32..1000, 0..MOST), w in vec(0u32..1000, 0..MOST), k in 0usize..300, step in 1usize..40, cost in 0u64..3) {
        let slow = |x: &u32| {
            spin(cost);
            x * 3
        };
        let fast = |x: &u32| x * 3;
        let part = |a: &[u32], n: usize| a[..n.min(a.len())].to_vec();
        let shorter = v.len().min(w.len());
        let shortest = in_turns(part(&v, shorter + 1), part(&w, shorter));
        same! {
            v.iter().map(fast).take(k).collect::<Vec<_>>() => v.par_iter().map(slow).take(k).collect::<Vec<_>>();
            v.iter().skip(k).map(fast).collect::<Vec<_>>() => v.par_iter().skip(k).map(slow).collect::<Vec<_>>();
            v.iter().map(fast).rev().enumerate().collect::<Vec<_>>() => v.par_iter().map(slow).rev().enumerate().collect::<Vec<_>>();
            v.iter().enumerate().rev().skip(k).collect::<Vec<_>>() => v.par_iter().enumerate().rev().skip(k).collect::<Vec<_>>();
            v.iter().map(fast).step_by(step).collect::<Vec<_>>() => v.par_iter().map(slow).step_by(step).collect::<Vec<_>>();
            v.iter().chain(&w).map(fast).collect::<Vec<_>>() => v.par_iter().chain(&w).map(slow).collect::<Vec<_>>();
            v.iter().chain(&w).enumerate().step_by(step).collect::<Vec<_>>().into_iter().rev().take(k).collect::<Vec<_>>()
                => v.par_iter().chain(&w).enumerate().step_by(step).rev().take(k).collect::<Vec<_>>();
            v.iter().filter(|x| **x % 2 == 0).chain(w.iter().skip(k)).collect::<Vec<_>>()
                => v.par_iter().filter(|x| **x % 2 == 0).chain(w.par_iter().skip(k)).collect::<Vec<_>>();
            v.iter().map(fast).zip(w.iter().rev()).collect::<Vec<_>>()
                => v.par_iter().map(slow).zip(w.par_iter().rev()).collect::<Vec<_>>();
            in_turns(v.clone(), w.clone()) => v.par_iter().copied().interleave(w.clone()).collect::<Vec<_>>();
            in_turns(v.clone(), w.clone()).into_iter().skip(k).rev().collect::<Vec<_>>()
                => v.clone().into_par_iter().interleave(w.clone()).skip(k).rev().collect::<Vec<_>>();
            if v.len() <= w.len() { in_turns(v.clone(), part(&w, v.len())) } else { shortest.clone() }
                => v.par_iter().copied().interleave_shortest(w.clone()).collect::<Vec<_>>();
            v.chunks(step).map(|run| run.iter().map(fast).collect::<Vec<_>>()).enumerate().collect::<Vec<_>>()
                => v.par_iter().map(slow).chunks(step).enumerate().collect::<Vec<_>>();
            v.chunks(step).map(|run| run.iter().fold(7, |a, b| a * 2 + u64::from(*b))).collect::<Vec<_>>()
                => v.par_iter().fold_chunks(step, || 7, |a, b| a * 2 + u64::from(*b)).collect::<Vec<_>>();
            v.chunks(step).map(|run| run.iter().fold(7, |a, b| a * 2 + u64::from(*b))).rev().collect::<Vec<_>>()
                => v.par_iter().fold_chunks_with(step, 7, |a, b| a * 2 + u64::from(*b)).rev().collect::<Vec<_>>();
            v.chunks(step).flat_map(|run| run.iter().rev()).skip(k).collect::<Vec<_>>()
                => v.par_chunks(step).flat_map_iter(|run| run.iter().rev()).collect::<Vec<_>>().into_par_iter().skip(k).collect::<Vec<_>>();
            v.iter().enumerate().filter(|(_, x)| **x % 3 == 0).map(|(i, _)| i).collect::<Vec<_>>()
                => v.par_iter().positions(|x| x % 3 == 0).collect::<Vec<_>>();
            v.iter().map(|x| x.to_string()).collect::<Vec<_>>().join("+")
                => v.par_iter().map(|x| x.to_string()).intersperse("+".into()).collect::<String>();
            v.iter().take(k).map(|x| x.to_string()).collect::<Vec<_>>().join("+")
                => v.par_iter().take(k).rev().map(|x| x.to_string()).rev().intersperse("+".into()).collect::<String>();
            v.iter().zip(&w).zip(&v[..k.min(v.len())]).map(|((a, b), c)| (a, b, c)).collect::<Vec<_>>()
                => (&v, &w, &v[..k.min(v.len())]).into_par_iter().collect::<Vec<_>>();
            v.iter().skip(k).take(step).len() => v.par_iter().skip(k).take(step).len();
        }
    }

    #[test]
    fn items(v in vec(0u32..1000, 0..MOST), cost in 0u64..3) {
        let slow = |x: &u32| {
            spin(cost);
            *x
        };
        same! {
            v.iter().filter_map(|x| (x % 3 == 0).then_some(x / 3)).collect::<Vec<_>>()
                => v.par_iter().map(slow).filter_map(|x| (x % 3 == 0).then_some(x / 3)).collect::<Vec<_>>();
            v.iter().flat_map(|x| 0..x % 5).collect::<Vec<_>>() => v.par_iter().map(slow).flat_map(|x| 0..x % 5).collect::<Vec<_>>();
            v.iter().flat_map(|x| vec![*x; *x as usize % 4]).collect::<Vec<_>>()
                => v.par_iter().map(slow).flat_map_iter(|x| vec![x; x as usize % 4]).collect::<Vec<_>>();
            v.iter().filter(|x| **x % 2 == 0).copied().collect::<Vec<_>>()
                => v.par_iter().map(|x| (slow(x) % 2 == 0).then_some(*x)).flatten().collect::<Vec<_>>();
            v.iter().filter(|x| **x % 2 == 0).count()
                => v.par_iter().map(|x| (slow(x) % 2 == 0).then_some(x)).flatten_iter().count();
            v.iter().map(|x| x + 1).collect::<Vec<_>>() => v.par_iter().map(slow).update(|x| *x += 1).collect::<Vec<_>>();
            v.iter().cloned().rev().collect::<Vec<_>>() => v.par_iter().cloned().rev().inspect(|x| _ = slow(x)).collect::<Vec<_>>();
            v.clone() => v.par_iter().copied().map_with(String::new(), |text, x| {
                text.push('x');
                slow(&x)
            }).collect::<Vec<_>>();
            v.clone() => v.par_iter().map_init(|| std::rc::Rc::new(1), |one, x| x * **one).with_min_len(5).panic_fuse().collect::<Vec<_>>();
            v.iter().sum::<u32>() => v.par_iter().copied().fold_with(0, |a, b| a + slow(&b)).sum::<u32>();
            (v.iter().filter(|x| **x > 500).copied().collect::<Vec<_>>(), v.iter().filter(|x| **x <= 500).copied().collect::<Vec<_>>())
                => v.par_iter().map(slow).partition::<Vec<_>, Vec<_>, _>(|x| *x > 500);
            v.iter().map(|x| (*x, x.to_string())).unzip::<_, _, Vec<_>, Vec<_>>()
                => v.par_iter().map(|x| (slow(x), x.to_string())).unzip::<_, _, Vec<_>, Vec<_>>();
        }
    }

    #[test]
    fn some_of_the_items_whichever(n in 0u32..2000, some in 0usize..600, cost in 0u64..2) {
        for pool in windrow_testkit::pools() {
            pool.install(|| {
                let slow = |x: u32| {
                    spin(cost);
                    x * 2
                };
                let expect = |what: &str, found: &[u32], len: usize| {
                    assert!(found.is_sorted_by(|a, b| a < b), "{what}: {found:?}");
                    assert!(found.iter().all(|x| x % 2 == 0 && *x < 2 * n));
                    assert_eq!(found.len(), len, "{what}");
                };
                let (few, all) = (some.min(n as usize), n as usize);
                let numbers = || (0..n).into_par_iter().map(slow);
                expect("take_any", &numbers().take_any(some).collect::<Vec<_>>(), few);
                expect("skip_any", &numbers().skip_any(some).collect::<Vec<_>>(), all - few);
                expect("both", &numbers().skip_any(some).take_any(some).collect::<Vec<_>>(), few.min(all - few));
                assert_eq!(numbers().take_any(some).map(|_| 1).sum::<usize>(), few);
                assert_eq!(numbers().filter(|_| true).take_any(some).fold(|| 0, |a, _| a + 1).sum::<usize>(), few);
                // Reductions keep the order too.
                let text = numbers().take_any(some).map(|x| vec![x]).reduce(Vec::new, |a, b| [a, b].concat());
                expect("reduced", &text, few);
                // While: all are taken, or none is skipped, if nothing is refused.
                expect("while", &numbers().take_any_while(|_| true).collect::<Vec<_>>(), all);
                expect("skip while", &numbers().skip_any_while(|_| true).collect::<Vec<_>>(), 0);
                expect("skip while not", &numbers().skip_any_while(|_| false).collect::<Vec<_>>(), all);
                let taken: Vec<u32> = numbers().take_any_while(|x| *x as usize != some * 2).collect();
                expect("all before", &taken, taken.len());
                assert!(!taken.contains(&(some as u32 * 2)));
                let skipped: Vec<u32> = numbers().skip_any_while(|x| *x as usize != some * 2).collect();
                expect("that one at least", &skipped, skipped.len());
                assert_eq!(skipped.contains(&(some as u32 * 2)), some < all);
            });
        }
    }
}

#[test]
fn a_value_is_made_once_a_member_and_need_not_be_send() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let n = if cfg!(miri) { 20 } else { 2000 };
    for pool in windrow_testkit::pools() {
        let made = AtomicUsize::new(0);
        let init = || {
            made.fetch_add(1, Relaxed);
            std::rc::Rc::new(std::cell::Cell::new(0))
        };
        let last = pool.install(|| {
            (0..n)
                .into_par_iter()
                .map_init(init, |count, _| {
                    spin(2);
                    count.set(count.get() + 1);
                    count.get()
                })
                .max()
        });
        let (made, last) = (made.into_inner(), last.unwrap());
        assert!(made <= pool.threads(), "{made} values on {} threads", pool.threads());
        // The member that kept its value longest has seen at least an equal share of the items.
        assert!(last >= n / made, "{last} of {n} items, {made} values");
    }
}

#[test]
#[cfg_attr(miri, ignore = "100 ms are short under Miri")]
fn inner_iterators_of_a_lone_item_are_parallel() {
    let who = std::sync::Mutex::new(std::collections::HashSet::new());
    let n = 500;
    let count = windrow_testkit::pools()[2].install(|| {
        (0..1)
            .into_par_iter()
            .flat_map(|_| {
                (0..n).into_par_iter().inspect(|_| {
                    who.lock().unwrap().insert(std::thread::current().id());
                    spin(200);
                })
            })
            .count()
    });
    assert_eq!(count, n);
    assert!(who.into_inner().unwrap().len() > 1, "100 ms of work stayed on one thread");
}

#[test]
#[should_panic(expected = "zip_eq needs iterators of the same length")]
fn zip_eq_of_different_lengths_is_refused() {
    (0..5).into_par_iter().zip_eq(0..6).for_each(|_: (i32, i32)| ());
}

#[test]
#[should_panic(expected = "the step must be at least 1")]
fn steps_of_no_items_are_refused() {
    (0..5).into_par_iter().step_by(0).for_each(|_: i32| ());
}

#[test]
#[should_panic(expected = "chunk_size must not be zero")]
fn chunks_of_no_items_are_refused() {
    (0..5).into_par_iter().chunks(0).for_each(|_: Vec<i32>| ());
}

/// No claim is longer, and with one item a claim sharing begins with the first.
#[test]
#[cfg_attr(miri, ignore = "shared by the clock")]
fn claims_hold_at_most_so_many_items() {
    let longest = std::sync::atomic::AtomicUsize::new(0);
    // A pool of one thread claims nothing.
    for pool in &pools()[1..] {
        let runs = (0..300).into_par_iter().with_max_len(7).fold(
            || 0,
            |n, _| {
                spin(5);
                n + 1
            },
        );
        pool.install(|| runs.for_each(|n| _ = longest.fetch_max(n, std::sync::atomic::Ordering::Relaxed)));
    }
    assert!(longest.into_inner() <= 7);
    let runs = || (0..1000).into_par_iter().with_max_len(3).fold(|| 0, |n, _| n + 1);
    assert!(on_all(|| runs().collect::<Vec<_>>()).iter().all(|n| (1..=3).contains(n)));
    assert_eq!(on_all(|| runs().sum::<i32>()), 1000);
    let one = || (0..20).into_par_iter().with_claim_size(4).with_max_len(9).with_max_len(1).map(|i| i * 2);
    assert_eq!(on_all(|| one().collect::<Vec<_>>()), (0..20).map(|i| i * 2).collect::<Vec<_>>());
}

/// Inner iterators are run through in place: far more items than memory holds, and a hit, a panic or a token ends them.
#[test]
#[cfg_attr(miri, ignore = "too many items for Miri")]
fn inner_iterators_are_not_gathered() {
    let many = || (0..1_000_000_000u64).into_par_iter();
    let flat = || many().flat_map(move |i| many().map(move |j| i * 1_000_000_000 + j));
    let octillion = || flat().map(u128::from).flat_map(move |i| many().map(move |j| i * 1_000_000_000 + u128::from(j)));
    assert_eq!(on_all(|| octillion().find_first(|_| true)), Some(0));
    assert_eq!(on_all(|| octillion().find_first(|x| *x > 5_000)), Some(5_001));
    assert!(on_all(|| octillion().any(|x| x % 1000 == 7)));
    // A hit in one inner iterator ends the others.
    let hit = |i: u64, j: u64| i == 1 && j == 100_000;
    let two = || {
        (0..2u64)
            .into_par_iter()
            .with_claim_size(1)
            .flat_map(move |i| (0..1u64 << 40).into_par_iter().map(move |j| (i, j)))
    };
    assert_eq!(on_all(|| two().find_any(|&(i, j)| hit(i, j) || i == 0 && j == 100_000).map(|(_, j)| j)), Some(100_000));
    for pool in pools() {
        let thrown = std::panic::catch_unwind(|| pool.install(|| two().for_each(|(_, j)| assert!(j < 100_000))));
        assert!(thrown.is_err());
        let token = windrow::CancelToken::new();
        let cancelled = pool.install(|| {
            two()
                .map(|(_, j)| {
                    if j == 100_000 {
                        token.cancel()
                    }
                })
                .with_cancel(&token)
                .count()
        });
        assert!(cancelled.is_err());
    }
}

#[test]
fn inner_iterators_of_every_kind_equal_serial_ones() {
    let v: Vec<Vec<u32>> = (0..if cfg!(miri) { 9 } else { 120 }).map(|i| (0..i * i % 97).collect()).collect();
    let serial: Vec<u32> = v.iter().flatten().copied().collect();
    let slow = |x: u32| {
        spin(u64::from(x.is_multiple_of(7)) * 3);
        x
    };
    same! {
        serial.clone() => v.par_iter().flatten().copied().map(slow).collect::<Vec<_>>();
        serial.clone() => v.par_iter().flat_map(|x| x.par_iter().map(|x| slow(*x))).collect::<Vec<_>>();
        serial.clone() => v.clone().into_par_iter().flatten().collect::<Vec<_>>();
        serial.iter().sum::<u32>() => v.par_iter().flat_map(|x| x.clone().into_par_iter().rev()).sum::<u32>();
        serial.iter().copied().filter(|x| x % 3 == 1).collect::<Vec<_>>()
            => v.par_iter().flat_map(|x| x.par_iter().copied().filter(|x| x % 3 == 1)).collect::<Vec<_>>();
        v.iter().flat_map(|x| x.iter().enumerate().skip(2)).map(|(i, x)| i as u32 + x).collect::<Vec<_>>()
            => v.par_iter().flat_map(|x| x.par_iter().enumerate().skip(2)).map(|(i, x)| i as u32 + x).collect::<Vec<_>>();
        v.iter().flatten().flat_map(|x| 0..x % 5).collect::<Vec<_>>()
            => v.par_iter().flat_map(|x| x.par_iter().flat_map(|x| 0..x % 5)).collect::<Vec<_>>();
        serial.iter().position(|x| *x == 50) => v.par_iter().flatten().map(|x| slow(*x)).collect::<Vec<_>>().par_iter().position_first(|x| *x == 50);
        serial.iter().find(|x| **x > 60).copied() => v.par_iter().flatten().copied().map(slow).find_first(|x| *x > 60);
        serial.iter().rfind(|x| **x > 60).copied() => v.par_iter().flatten().copied().map(slow).find_last(|x| *x > 60);
        serial.iter().sum::<u32>() => v.par_iter().flat_map(|x| x.par_iter().fold(|| 0, |a, b| a + b)).sum::<u32>();
        serial.iter().sum::<u32>() => v.par_iter().flat_map(|x| x.iter().par_bridge().copied()).sum::<u32>();
        serial.iter().copied().collect::<std::collections::LinkedList<_>>() => v.par_iter().flatten().copied().collect::<std::collections::LinkedList<_>>();
    }
}

/// The accumulators of `fold` are those of blocks, also inside `flat_map`, which runs inner iterators in pieces.
#[test]
fn accumulators_inside_flat_map_are_those_outside() {
    const ITEMS: u64 = if cfg!(miri) { 50 } else { 500 };
    for cost in [0, 200] {
        let sums = |outer: u64| {
            let items = (0..ITEMS).into_par_iter().inspect(move |_| spin(cost));
            items.map(move |item| item + outer).fold(|| 0, |sum, item| sum + item)
        };
        let expected: Vec<u64> = (0..6).flat_map(|outer| sums(outer).collect::<Vec<_>>()).collect();
        assert_eq!(on_all(|| (0..6).into_par_iter().flat_map(sums).collect::<Vec<_>>()), expected);
    }
}

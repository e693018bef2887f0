//! Sorts: std's are the oracle.

use std::cell::Cell;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use proptest::prelude::*;
use windrow::Pool;
use windrow::prelude::*;
use windrow_testkit::Live;

const SMALL: bool = cfg!(miri);

/// Long enough to be shared, with comparisons that take `micros`.
fn slowly<T: Ord>(micros: u64) -> impl Fn(&T, &T) -> Ordering + Sync {
    move |a, b| {
        let start = std::time::Instant::now();
        while start.elapsed().as_micros() < u128::from(micros) {
            std::hint::spin_loop();
        }
        a.cmp(b)
    }
}

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    }
}

/// Items that are equal to others but for where they came from.
fn marked(values: &[u64]) -> Vec<(u64, usize)> {
    values.iter().copied().zip(0..).collect()
}

fn check_all(values: &[u64]) {
    let stable = {
        let mut items = marked(values);
        items.sort_by_key(|item| item.0);
        items
    };
    let keys: Vec<u64> = stable.iter().map(|item| item.0).collect();
    let sorted = |sort: fn(&mut [(u64, usize)])| {
        let mut items = marked(values);
        sort(&mut items);
        items
    };
    assert_eq!(sorted(|items| items.par_sort_by_key(|item| item.0)), stable);
    assert_eq!(sorted(|items| items.par_sort_by(|a, b| a.0.cmp(&b.0))), stable);
    assert_eq!(sorted(|items| items.par_sort_by_cached_key(|item| item.0)), stable);
    // All items differ, so this order is theirs.
    assert_eq!(sorted(|items| items.par_sort()), stable);
    assert_eq!(sorted(|items| items.par_sort_unstable()), stable);
    for sort in [
        |items: &mut [(u64, usize)]| items.par_sort_unstable_by_key(|item| item.0),
        |items: &mut [(u64, usize)]| items.par_sort_unstable_by(|a, b| a.0.cmp(&b.0)),
    ] {
        let mut items = sorted(sort);
        assert_eq!(items.iter().map(|item| item.0).collect::<Vec<_>>(), keys);
        items.sort_unstable();
        assert_eq!(items, stable, "the same items");
    }
}

#[test]
fn orders_of_many_kinds() {
    let sizes: &[usize] = if SMALL { &[0, 1, 63, 200] } else { &[0, 1, 2, 63, 64, 65, 1000, 30_000, 100_001] };
    for threads in [1, 2, 3] {
        let pool = Pool::new(threads);
        // The longest is shared at all depths, by one number of threads.
        for &n in sizes.iter().filter(|n| **n < 100_000 || threads == 3 || windrow_testkit::step(2) == 1) {
            let mut next = random(n as u64);
            let n = n as u64;
            let kinds: [Vec<u64>; 8] = [
                (0..n).map(|_| next()).collect(),
                (0..n).map(|_| next() % 3).collect(),
                (0..n).collect(),
                (0..n).rev().collect(),
                vec![7; n as usize],
                (0..n).map(|i| i.min(n - i)).collect(),
                (0..n).map(|i| if i % 100 == 0 { next() } else { i }).collect(),
                (0..n).map(|i| i % 17 + i / 1000).collect(),
            ];
            kinds.iter().for_each(|values| pool.install(|| check_all(values)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if SMALL { 2 } else { windrow_testkit::cases(20) }, failure_persistence: None, ..Default::default() })]

    /// Slow comparisons, so that short slices are shared, too.
    #[test]
    fn short_slices_are_sorted_by_many(values in prop::collection::vec(0..50u64, 60..300), threads in 2..4usize) {
        let (mut stable, mut unstable) = (marked(&values), values.clone());
        let mut expected = marked(&values);
        Pool::new(threads).install(|| {
            stable.par_sort_by(|a, b| slowly(1)(&a.0, &b.0));
            unstable.par_sort_unstable_by(slowly(1));
        });
        expected.sort_by_key(|item| item.0);
        prop_assert_eq!(stable, expected);
        prop_assert!(unstable.is_sorted());
    }
}

/// A comparison panics, sooner or later: all items are still there, once.
#[test]
fn a_panic_leaves_all_items() {
    type Sort = for<'a> fn(
        &mut [Live<&'a AtomicIsize, u64>],
        &(dyn Fn(&Live<&'a AtomicIsize, u64>, &Live<&'a AtomicIsize, u64>) -> Ordering + Sync),
    );
    let sorts: [Sort; 2] = [|items, by| items.par_sort_by(by), |items, by| items.par_sort_unstable_by(by)];
    let n = if SMALL { 80 } else { 600 };
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for sort in sorts {
            let mut at = 1;
            loop {
                let (live, compared) = (AtomicIsize::new(0), AtomicUsize::new(0));
                let mut next = random(at as u64);
                let mut items: Vec<_> = (0..n).map(|_| Live::new(&live, next() % 100)).collect();
                let mut before: Vec<u64> = items.iter().map(|item| item.1).collect();
                let by = |a: &Live<&AtomicIsize, u64>, b: &Live<&AtomicIsize, u64>| {
                    if compared.fetch_add(1, Relaxed) == at {
                        resume_unwind(Box::new(at));
                    }
                    slowly(1)(&a.1, &b.1)
                };
                let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| sort(&mut items, &by))));
                let mut after: Vec<u64> = items.iter().map(|item| item.1).collect();
                if let Err(payload) = &result {
                    assert_eq!(payload.downcast_ref::<usize>(), Some(&at));
                } else {
                    assert!(after.is_sorted());
                }
                before.sort_unstable();
                after.sort_unstable();
                assert_eq!(after, before, "panic at comparison {at}");
                assert_eq!(live.load(Relaxed), n);
                drop(items);
                assert_eq!(live.load(Relaxed), 0);
                if result.is_ok() {
                    break;
                }
                at += at.div_ceil(if SMALL { 2 } else { 12 });
            }
        }
    }
}

/// Comparisons without rhyme or reason: some order of the same items, or a panic as std's sorts may throw.
#[test]
fn contradictions_do_no_harm() {
    let n = if SMALL { 80 } else { 20_000 };
    let pool = Pool::new(2);
    for seed in 0..if SMALL { 1 } else { 20 } {
        for stable in [false, true] {
            let asked = AtomicUsize::new(seed);
            let by = |_: &(Box<u64>,), _: &(Box<u64>,)| {
                let asked = asked.fetch_add(1, Relaxed) as u64;
                [Ordering::Less, Ordering::Equal, Ordering::Greater][random(asked)() as usize % 3]
            };
            let mut items: Vec<(Box<u64>,)> = (0..n).map(|i| (Box::new(i),)).collect();
            let run = || pool.install(|| if stable { items.par_sort_by(by) } else { items.par_sort_unstable_by(by) });
            let _ = catch_unwind(AssertUnwindSafe(run));
            items.sort();
            assert!(items.iter().map(|item| *item.0).eq(0..n));
        }
    }
}

/// Numbers of which one is neither less nor greater than the others, as NaN: not a total order.
#[derive(Clone, Copy, Debug)]
struct Partial(f64, usize);

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Partial {}

impl PartialOrd for Partial {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Partial {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

/// Promises of each sort where the order is not total: all items are there, a panic is that of the standard library and reaches the
/// caller, and the pool sorts on.
#[test]
fn an_order_that_is_not_total() {
    const SORTS: [fn(&mut [Partial]); 7] = [
        |items| items.par_sort(),
        |items| items.par_sort_by(Ord::cmp),
        |items| items.par_sort_by_key(|item| *item),
        |items| items.par_sort_by_cached_key(|item| *item),
        |items| items.par_sort_unstable(),
        |items| items.par_sort_unstable_by(Ord::cmp),
        |items| items.par_sort_unstable_by_key(|item| *item),
    ];
    let pool = Pool::new(2);
    let mut panics = 0;
    for (size, seed) in [10, 50, 300, 3_000, 20_000].into_iter().filter(|size| !SMALL || *size < 100).zip(1..) {
        for sort in SORTS {
            let mut next = random(seed);
            let number = |at| Partial(if next().is_multiple_of(20) { f64::NAN } else { next() as f64 }, at);
            let before: Vec<Partial> = (0..size).map(number).collect();
            let mut items = before.clone();
            let sorted = catch_unwind(AssertUnwindSafe(|| pool.install(|| sort(&mut items))));
            if let Err(payload) = sorted {
                let text = payload.downcast_ref::<&str>().copied().unwrap_or_default();
                assert_eq!(text, "user-provided comparison function does not correctly implement a total order");
                panics += 1;
            }
            let bits = |item: &Partial| (item.1, item.0.to_bits());
            items.sort_by_key(|item| item.1);
            assert!(items.iter().map(bits).eq(before.iter().map(bits)), "{size} items");
            items.iter_mut().for_each(|item| item.0 = item.1 as f64);
            items.reverse();
            pool.install(|| sort(&mut items));
            assert!(items.is_sorted(), "the pool sorts");
        }
    }
    assert!(panics > 0 || SMALL, "the standard library's sort no longer panics: say so in the docs of the sorts");
}

/// Items that are not `Sync`, whose comparisons write to them.
#[test]
fn comparisons_may_write() {
    let n = if SMALL { 80 } else { 50_000 };
    let mut next = random(5);
    for stable in [false, true] {
        let mut items: Vec<(u64, Cell<u64>)> = (0..n).map(|_| (next(), Cell::new(0))).collect();
        let by = |a: &(u64, Cell<u64>), b: &(u64, Cell<u64>)| {
            a.1.set(a.1.get() + 1);
            b.1.set(b.1.get() + 1);
            a.0.cmp(&b.0)
        };
        Pool::new(2).install(|| if stable { items.par_sort_by(by) } else { items.par_sort_unstable_by(by) });
        assert!(items.is_sorted_by_key(|item| item.0));
        assert!(items.iter().all(|item| item.1.get() > 0));
    }
}

#[test]
fn items_of_any_size() {
    let n = if SMALL { 70 } else { 10_000 };
    let mut units = vec![(); n];
    units.par_sort();
    units.par_sort_unstable();
    let mut next = random(6);
    let mut large: Vec<[u64; 9]> = (0..n).map(|_| [next(); 9]).collect();
    let mut expected = large.clone();
    expected.sort();
    Pool::new(2).install(|| large.par_sort());
    assert_eq!(large, expected);
    let mut words: Vec<String> = (0..n).map(|_| format!("{:x}", next())).collect();
    let mut expected = words.clone();
    expected.sort_by_cached_key(|word| word.len());
    words.par_sort_by_cached_key(|word| word.len());
    assert_eq!(words, expected);
    Pool::new(2).install(|| words.par_sort_unstable());
    assert!(words.is_sorted());
}

#[test]
fn sorts_inside_joins_and_loops() {
    let n = if SMALL { 70 } else { 40_000 };
    let mut next = random(7);
    let mut parts: Vec<Vec<u64>> = (0..4).map(|_| (0..n).map(|_| next()).collect()).collect();
    Pool::new(2).install(|| {
        let (left, right) = parts.split_at_mut(2);
        windrow::join(|| left.iter_mut().for_each(|part| part.par_sort()), || right[0].par_sort_unstable());
        parts.par_iter_mut().for_each(|part| part.par_sort_unstable());
    });
    assert!(parts.iter().all(|part| part.is_sorted()));
}

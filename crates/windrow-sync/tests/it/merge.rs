//! Merging runs: the result is sorted, stable, and complete, even after panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow_sync::merge::{Merge, merging};

use crate::Counter;

fn random(seed: usize) -> impl FnMut() -> usize {
    let mut state = seed as u64;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    }
}

fn less(a: &(usize, usize), b: &(usize, usize)) -> bool {
    a.0 < b.0
}

/// Runs all parts of a merge, split into pieces.
fn pieces<T>(merge: Merge<'_, T>, most: usize, is_less: &impl Fn(&T, &T) -> bool) {
    if merge.len() <= most.max(2) {
        return merge.run(is_less);
    }
    let (left, right) = merge.split(is_less);
    assert!(!left.is_empty() && !right.is_empty());
    pieces(left, most, is_less);
    pieces(right, most, is_less);
}

#[test]
fn runs_become_one() {
    for n in [0, 1, 2, 3, 7, 40, 41] {
        for first in [1, 2, 5] {
            for values in [1, 3, 1000] {
                for most in [1, 3, 100] {
                    let mut next = random(n + first);
                    let mut items: Vec<(usize, usize)> = (0..n).map(|at| (next() % values, at)).collect();
                    let mut expected = items.clone();
                    expected.sort_by_key(|item| item.0);
                    items.chunks_mut(first).for_each(|run| run.sort_by_key(|item| item.0));
                    merging(&mut items, |merging| {
                        let mut run = first;
                        while run < n {
                            merging.level(run).for_each(|merge| pieces(merge, most, &less));
                            assert!(merging.finish());
                            run *= 2;
                        }
                    });
                    assert_eq!(items, expected, "{n} items in runs of {first}");
                }
            }
        }
    }
}

#[test]
fn a_level_counts_when_all_of_it_has_run() {
    let mut items: Vec<Box<usize>> = [1, 3, 0, 2, 9].map(Box::new).into();
    merging(&mut items, |merging| {
        assert!(!merging.finish(), "nothing has run");
        merging.level(2).take(1).for_each(|merge| merge.run(|a, b| a < b));
        assert!(!merging.finish(), "the last item was not moved");
        // One half twice is not both halves.
        for _ in 0..2 {
            let merge = merging.level(4).next();
            merge.into_iter().for_each(|merge| merge.split(|a, b| a < b).0.run(|a, b| a < b));
        }
        assert!(!merging.finish());
        merging.level(2).for_each(|merge| merge.run(|a, b| a < b));
        assert!(merging.finish());
        // Items are in the spare now, and a level that is given up leaves them there.
        merging.level(4).for_each(|merge| assert!(!merge.split(|a, b| a < b).0.is_empty()));
        merging.level(4).for_each(std::mem::forget);
    });
    assert_eq!(items, [0, 1, 2, 3, 9].map(Box::new));
    let refused = catch_unwind(AssertUnwindSafe(|| merging(&mut items, |merging| drop(merging.level(0)))));
    assert!(refused.is_err());
}

#[test]
fn a_panic_leaves_all_items() {
    for at in 0..200 {
        let (live, compared) = (AtomicIsize::new(0), AtomicUsize::new(0));
        let mut next = random(at);
        let mut items: Vec<_> = (0..40).map(|_| Counter::new(&live, next() % 10)).collect();
        let mut before: Vec<usize> = items.iter().map(|item| item.1).collect();
        let is_less = |a: &Counter<'_>, b: &Counter<'_>| {
            if compared.fetch_add(1, Relaxed) == at {
                resume_unwind(Box::new(at));
            }
            a.1 < b.1
        };
        let run = || {
            merging(&mut items, |merging| {
                for run in [1, 2, 4, 8, 16, 32] {
                    merging.level(run).for_each(|merge| pieces(merge, 9, &is_less));
                    assert!(merging.finish());
                }
            });
        };
        let result = catch_unwind(AssertUnwindSafe(run));
        let mut after: Vec<usize> = items.iter().map(|item| item.1).collect();
        assert!(result.is_err() || after.is_sorted());
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(after, before);
        drop(items);
        assert_eq!(live.load(Relaxed), 0);
    }
}

/// Comparisons that contradict each other.
#[test]
fn contradictions_do_no_harm() {
    for seed in 0..50 {
        let mut items: Vec<(Box<usize>,)> = (0..30).map(|i| (Box::new(i),)).collect();
        let coin = std::cell::RefCell::new(random(seed));
        let is_less = |_: &(Box<usize>,), _: &(Box<usize>,)| coin.borrow_mut()().is_multiple_of(2);
        merging(&mut items, |merging| {
            for run in [1, 3, 6, 12, 24] {
                merging.level(run).for_each(|merge| pieces(merge, 5, &is_less));
                assert!(merging.finish());
            }
        });
        items.sort();
        assert!(items.iter().map(|item| *item.0).eq(0..30));
    }
}

/// While the items are in the spare, the slice holds stale copies of them: printing would read items that were moved away.
#[test]
fn printing_looks_at_no_item() {
    let mut items = [7_654_321, 1_234_567];
    merging(&mut items, |merging| {
        assert!(!format!("{merging:?}").contains("1234567"));
        merging.level(1).for_each(|merge| {
            assert!(!format!("{merge:?}").contains("1234567"));
            merge.run(|a, b| a < b);
        });
        assert!(merging.finish());
        let said = format!("{merging:?}");
        assert!(said.contains("swapped: true") && !said.contains("1234567"), "{said}");
    });
    assert_eq!(items, [1_234_567, 7_654_321]);
}

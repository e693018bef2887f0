//! Views: every index maps to the right item, every item is dropped once, even after panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use windrow_sync::divide::{Divide, Division, Leaf, Span};
use windrow_sync::sources::VecItems;
use windrow_sync::views::{Merged, Part, Pieces, Window};

use crate::Counter;

fn counters(live: &AtomicIsize, from: usize, n: usize) -> VecItems<Counter<'_>> {
    VecItems::new((from..from + n).map(|i| Counter::new(live, i)).collect())
}

/// The items of a chunk of `VecItems`, each with its index.
fn visit<'s, S: Leaf<Item = Counter<'s>>>((at, chunk): (Span, S::Chunk<'_>), see: &mut dyn FnMut(usize, usize)) {
    (at.lo..at.hi).zip(S::items(chunk)).for_each(|(i, item)| see(i, item.1));
}

type Owned<'l> = VecItems<Counter<'l>>;

/// Claims `want` items at a time from a source on three threads, after a lead took `first`; returns what `see` made of the
/// chunks, in order. (A macro: a closure over chunks of any lifetime would force the source to be `'static`.)
macro_rules! claimed {
    ($source:expr, $first:expr, $want:expr, |$at:ident, $chunk:pat_param| $see:expr) => {{
        let seen = Mutex::new(Vec::new());
        let mut division = Division::new($source);
        let (mut lead, shared) = division.lead();
        if let Some(($at, $chunk)) = lead.take($first) {
            let lo = $at.lo;
            let results = $see;
            seen.lock().unwrap().push((lo, results));
        }
        lead.share_evenly(3);
        std::thread::scope(|scope| {
            for member in 0..3 {
                let claims = shared.claims(member);
                scope.spawn(|| {
                    let mut claims = claims;
                    while let Some(($at, $chunk)) = claims.next(|_, _| $want, usize::midpoint) {
                        let lo = $at.lo;
                        let results = $see;
                        seen.lock().unwrap().push((lo, results));
                    }
                });
            }
        });
        drop(lead);
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|(lo, _)| *lo);
        seen.into_iter().flat_map(|(_, results)| results).collect::<Vec<_>>()
    }};
}

const N: usize = if cfg!(miri) { 9 } else { 23 };

#[test]
fn a_part_is_a_part() {
    for (lo, hi) in [(0, N), (0, 3), (4, 9), (N, N), (5, 5), (7, usize::MAX), (N + 3, N + 9), (8, 2)] {
        let live = AtomicIsize::new(0);
        let expected: Vec<usize> = (0..N).skip(lo).take(hi.min(N).saturating_sub(lo)).collect();
        let part = Part::new(counters(&live, 0, N), lo, hi);
        assert_eq!(part.total(), expected.len());
        let seen = claimed!(part, 2, 3, |at, part| {
            let mut all = Vec::new();
            visit::<Owned>(part, &mut |i, value| {
                assert_eq!(i, value);
                all.push(value);
            });
            assert_eq!(all.len(), at.len());
            all
        });
        assert_eq!((seen, live.load(Relaxed)), (expected, 0), "{lo}..{hi}");
    }
}

/// A view that keeps a part of a window gets the items of that part. The others are dropped at once.
#[test]
fn a_part_of_a_window_is_that_part() {
    for (lo, hi) in [(0, 3), (1, 2), (2, 4), (3, 3), (0, 0)] {
        for back in [false, true] {
            let live = AtomicIsize::new(0);
            let mut outer = Division::new(counters(&live, 0, 6));
            let window = Part::new(Window::new(&mut outer, 4), lo, hi);
            let mut values = Vec::new();
            let mut see = |_, value| values.push(value);
            if back {
                let mut division = Division::new((Pieces::backward(window), 0..hi - lo));
                assert_eq!(live.load(Relaxed), 2 + (hi - lo) as isize);
                let pieces = division.lead().0.take(9).into_iter().flat_map(|(_, (pieces, _))| pieces);
                pieces.for_each(|(_, (_, (at, chunk)))| visit::<Owned>((at, chunk), &mut see));
            } else {
                let mut division = Division::new(window);
                assert_eq!(live.load(Relaxed), 2 + (hi - lo) as isize);
                let parts = division.lead().0.take(9).into_iter();
                parts.for_each(|(_, (_, (at, chunk)))| visit::<Owned>((at, chunk), &mut see));
            }
            values.sort_unstable();
            assert_eq!(values, (lo..hi).collect::<Vec<_>>(), "{lo}..{hi}");
            drop(outer);
            assert_eq!(live.load(Relaxed), 0);
        }
    }
}

#[test]
fn pieces_come_in_either_order() {
    for most in [1, 2, 5, usize::MAX] {
        for back in [false, true] {
            let live = AtomicIsize::new(0);
            let items = counters(&live, 0, N);
            let pieces = if back { Pieces::backward(items) } else { Pieces::new(items, most) };
            let seen = claimed!(pieces, 4, 6, |at, pieces| {
                let mut all = Vec::new();
                for (at, piece) in pieces {
                    assert!(at.len() <= if back { 1 } else { most });
                    visit::<Owned>((at, piece), &mut |i, value| {
                        assert_eq!(i, value);
                        all.push(value);
                    });
                }
                all
            });
            let mut expected: Vec<usize> = (0..N).collect();
            if back {
                expected.reverse();
            }
            assert_eq!((seen, live.load(Relaxed)), (expected, 0));
        }
    }
}

#[test]
fn two_sources_are_one() {
    for (a, b) in [(0, 0), (0, 5), (5, 0), (1, 9), (9, 1), (6, 6), (7, 6), (6, 7)] {
        for turns in [false, true] {
            let live = AtomicIsize::new(0);
            let (left, right) = (counters(&live, 0, a), counters(&live, 100, b));
            let merged = if turns { Merged::in_turns(left, right) } else { Merged::one_after_the_other(left, right) };
            let sides = claimed!(merged, 2, 3, |at, (left, right)| {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                if let Some(left) = left {
                    visit::<Owned>(left, &mut |i, value| {
                        assert_eq!(i, value);
                        a.push(value);
                    });
                }
                if let Some(right) = right {
                    visit::<Owned>(right, &mut |i, value| {
                        assert_eq!(i + 100, value);
                        b.push(value);
                    });
                }
                assert_eq!(a.len() + b.len(), at.len());
                if turns {
                    assert!(a.len().abs_diff(b.len()) <= 1 || at.hi > 2 * a.len().min(b.len()));
                }
                vec![(a, b)]
            });
            let (left, right): (Vec<_>, Vec<_>) = sides.into_iter().unzip();
            assert_eq!(left.concat(), (0..a).collect::<Vec<_>>());
            assert_eq!(right.concat(), (100..100 + b).collect::<Vec<_>>());
            assert_eq!(live.load(Relaxed), 0);
        }
    }
}

#[test]
#[should_panic(expected = "more than usize::MAX items")]
fn two_sources_that_are_too_long_together_are_refused() {
    Merged::one_after_the_other(0..usize::MAX, 0..1usize);
}

/// A view under each operation that drops items: trimmed, taken and dropped, claimed and dropped, unclaimed.
#[test]
fn a_panicking_drop_leaks_nothing_of_a_view() {
    struct Bomb<'a>(Counter<'a>, usize);
    impl Drop for Bomb<'_> {
        fn drop(&mut self) {
            if self.0.1 == self.1 && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new(self.1));
            }
        }
    }
    let n = 12;
    for at in 0..=n {
        let live = AtomicIsize::new(0);
        let bombs = || VecItems::new((0..n).map(|i| Bomb(Counter::new(&live, i), at)).collect());
        fn drops<S: Divide>(source: S, taken: usize, shared: bool) {
            let mut division = Division::new(source);
            let (mut lead, _) = division.lead();
            let chunk = lead.take(taken);
            if shared {
                lead.share_evenly(3);
            }
            drop(lead);
            drop(chunk);
        }
        for (taken, shared) in [(1, false), (3, true), (usize::MAX, false)] {
            let short = 0..n - 3;
            let cases: [(&str, &dyn Fn()); 6] = [
                ("part", &|| drops((Part::new(bombs(), 3, n - 1), 0..5), taken, shared)),
                ("pieces", &|| drops((Pieces::new(bombs(), 2), short.clone()), taken, shared)),
                ("backward", &|| drops((Pieces::backward(bombs()), short.clone()), taken, shared)),
                ("after", &|| drops((Merged::one_after_the_other(bombs(), bombs()), 0..n + 2), taken, shared)),
                ("turns", &|| drops((Merged::in_turns(bombs(), bombs()), 0..n + 5), taken, shared)),
                ("never divided", &|| drop(Merged::in_turns(Part::new(bombs(), 2, 5), Pieces::backward(bombs())))),
            ];
            for (name, case) in cases {
                let dropped = catch_unwind(AssertUnwindSafe(case));
                assert_eq!(dropped.is_err(), at < n, "{name}, bomb {at}");
                assert_eq!(live.load(Relaxed), 0, "{name}, bomb {at}, {taken} taken, shared: {shared}");
            }
        }
    }
}

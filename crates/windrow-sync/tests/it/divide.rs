//! Chunks on one thread and on many: every item once, dropped once, even after panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use windrow_sync::divide::{Division, undivided};
use windrow_sync::slots::Slots;
use windrow_sync::sources::{Runs, RunsMut, SliceMut, VecItems};
use windrow_sync::views::Blocks;

use crate::Counter;

const N: usize = if cfg!(miri) { 100 } else { 5000 };

fn half(lo: usize, hi: usize) -> usize {
    lo.midpoint(hi)
}

/// Shares a source at once among `threads` threads and runs `work` on every chunk. (A macro: a closure over chunks of any
/// lifetime would force the source to be `'static`.)
macro_rules! run {
    ($source:expr, $threads:expr, $want:expr, |$chunk:pat_param| $work:expr) => {{
        let mut division = Division::new($source);
        let (mut lead, shared) = division.lead();
        lead.share_evenly($threads);
        std::thread::scope(|scope| {
            for member in 0..$threads {
                let claims = shared.claims(member);
                scope.spawn(|| {
                    let mut claims = claims;
                    while let Some((_, $chunk)) = claims.next(|_, _| $want, half) {
                        $work;
                    }
                });
            }
        });
        drop(lead);
        division.done()
    }};
}

#[test]
fn sources_hand_out_every_item_once() {
    for (threads, want) in [(1, 1), (2, 3), (3, usize::MAX), (4, 1)] {
        let mut touched = vec![0u8; N];
        run!(SliceMut::new(&mut touched), threads, want, |items| items.for_each(|item: &mut u8| *item += 1));
        assert!(touched.iter().all(|&count| count == 1));
        run!(RunsMut::new(&mut touched, 7), threads, want, |runs| runs.flatten().for_each(|item| *item += 1));
        assert!(touched.iter().all(|&count| count == 2));

        let total = AtomicUsize::new(0);
        run!(0..N, threads, want, |items| total.fetch_add(items.sum(), Relaxed));
        assert_eq!(total.swap(0, Relaxed), N * (N - 1) / 2);
        run!(&touched[..], threads, want, |items| total.fetch_add(items.count(), Relaxed));
        assert_eq!(total.swap(0, Relaxed), N);
        run!(Runs::new(&touched, 7), threads, want, |runs| total.fetch_add(runs.map(<[u8]>::len).sum(), Relaxed));
        assert_eq!(total.swap(0, Relaxed), N);
        run!(VecItems::new((0..N).collect()), threads, want, |items| total.fetch_add(items.sum(), Relaxed));
        assert_eq!(total.swap(0, Relaxed), N * (N - 1) / 2);
        run!(Blocks::new(0..N, 13), threads, want, |blocks| {
            blocks.for_each(|(span, items)| {
                assert_eq!(span.lo % 13, 0);
                assert_eq!(items.len(), span.len());
                total.fetch_add(items.sum(), Relaxed);
            });
        });
        assert_eq!(total.swap(0, Relaxed), N * (N - 1) / 2);
    }
}

#[test]
fn a_block_in_pieces_drops_untaken_items() {
    for taken in 0..=10 {
        let live = AtomicIsize::new(0);
        let items = VecItems::new((0..25).map(|i| Counter::new(&live, i)).collect());
        let mut seen = Vec::new();
        {
            let mut division = Division::new(Blocks::new(items, 10));
            let (mut lead, _) = division.lead();
            let (_, mut blocks) = lead.take(2).unwrap();
            let mut block = blocks.next_in_pieces().unwrap();
            while seen.len() < taken {
                let (span, chunk) = block.take(3.min(taken - seen.len())).unwrap();
                assert_eq!((span.lo, span.member), (seen.len(), 0));
                seen.extend(chunk.map(|counter| counter.1));
            }
            assert_eq!(live.load(Relaxed), 25 - taken as isize);
            drop(block);
            assert_eq!(live.load(Relaxed), 15, "the block is gone, and nothing else");
            let (span, chunk) = blocks.next().unwrap();
            assert_eq!((span.lo, span.hi, chunk.len()), (10, 20, 10));
        }
        assert_eq!(seen, (0..taken).collect::<Vec<_>>());
        assert_eq!(live.load(Relaxed), 0);
    }
}

#[test]
fn more_items_than_a_range_word_holds() {
    let n = (1usize << 33) + 5;
    let mut division = Division::new(0..n);
    let (mut lead, shared) = division.lead();
    assert_eq!(lead.take(3).unwrap().1, 0..3);
    lead.share_evenly(2);
    let (mut at, mut count) = (3, 3);
    let mut claims = shared.claims(0);
    while let Some((_, chunk)) = claims.next(|_, _| usize::MAX, half) {
        at = at.max(chunk.end);
        count += chunk.end - chunk.start;
    }
    assert_eq!((at, count), (n, n));
}

#[test]
fn output_is_whole_or_nothing() {
    let live = AtomicIsize::new(0);
    let slots = |taken: usize| {
        let mut division = Division::new((0..N, Slots::new(N, 2)));
        let (mut lead, _) = division.lead();
        let (_, (items, mut fill)) = lead.take(taken).unwrap();
        fill.fill(items.map(|i| Counter::new(&live, i)));
        drop((fill, lead));
        division.done().1
    };
    let whole = slots(N).expect("every slot is written");
    assert!(whole.iter().enumerate().all(|(i, counter)| counter.1 == i));
    drop(whole);
    assert!(slots(N - 1).is_none());
    assert_eq!(live.load(Relaxed), 0);
}

#[test]
fn a_forgotten_fill_leaks_and_exposes_nothing() {
    let live = AtomicIsize::new(0);
    let mut division = Division::new(Slots::new(4, 1));
    let (mut lead, _) = division.lead();
    let (_, mut fill) = lead.take(2).unwrap();
    fill.fill((0..2).map(|i| Counter::new(&live, i)));
    std::mem::forget(fill);
    let (_, mut fill) = lead.take(2).unwrap();
    fill.fill((0..2).map(|i| Counter::new(&live, i)));
    drop((fill, lead));
    assert!(division.done().is_none());
    assert_eq!(live.load(Relaxed), 2, "the two forgotten ones");
}

#[test]
fn a_panic_at_every_point_drops_everything_once() {
    let n = if cfg!(miri) { 8 } else { 40 };
    for at in 0..=n {
        let live = AtomicIsize::new(0);
        let counters = |n: usize| (0..n).map(|i| Counter::new(&live, i)).collect::<Vec<_>>();
        let source = ((VecItems::new(counters(n)), VecItems::new(counters(n + 3))), Slots::new(n, 2));
        let ran = catch_unwind(AssertUnwindSafe(|| {
            run!(source, 2, 3, |((a, b), mut fill)| {
                fill.fill(a.zip(b).map(|(a, b)| {
                    if a.1 == at {
                        std::panic::resume_unwind(Box::new(at));
                    }
                    Counter::new(&live, a.1 + b.1)
                }));
            })
        }));
        match ran {
            Ok((_, results)) => assert_eq!((at, results.map(|all| all.len())), (n, Some(n))),
            Err(_) => assert!(at < n),
        }
        assert_eq!(live.load(Relaxed), 0, "panic at {at}");
    }
}

#[test]
fn a_source_that_is_never_used_is_dropped() {
    let live = AtomicIsize::new(0);
    let items = || VecItems::new((0..5).map(|i| Counter::new(&live, i)).collect());
    drop(items());
    drop(Division::new(items()));
    let mut division = Division::new(items());
    let (mut lead, _) = division.lead();
    drop(lead.take(2));
    drop(lead);
    let (mut again, _) = division.lead();
    assert!(again.take(1).is_none(), "a second lead holds nothing");
    drop(again);
    drop(division);
    assert_eq!(live.load(Relaxed), 0);
    assert_eq!(items().as_slice().len(), 5);
}

#[test]
fn claims_before_sharing_give_nothing() {
    let division = Division::new(0..10usize);
    assert!(division.claims(0).next(|_, _| 1, half).is_none());
    division.stop();
}

#[test]
fn a_rest_that_ends_at_the_last_index_of_all() {
    let mut division = Division::new(0..usize::MAX);
    let (mut lead, shared) = division.lead();
    assert_eq!(lead.take(1).unwrap().1, 0..1);
    lead.share_evenly(2);
    let (mut count, mut end) = (1, 0);
    for member in 0..2 {
        let mut claims = shared.claims(member);
        while let Some((span, chunk)) = claims.next(|lo, hi| hi - lo, half) {
            assert_eq!((span.lo, span.hi), (chunk.start, chunk.end));
            count += chunk.end - chunk.start;
            end = end.max(chunk.end);
        }
    }
    assert_eq!((count, end), (usize::MAX, usize::MAX));
}

#[test]
fn an_item_that_panics_when_dropped_leaks_no_other() {
    struct Bomb<'a>(Counter<'a>, usize);
    impl Drop for Bomb<'_> {
        fn drop(&mut self) {
            if self.0.1 == self.1 && !std::thread::panicking() {
                std::panic::resume_unwind(Box::new(()));
            }
        }
    }
    let n = 12;
    for at in 0..=n + 3 {
        let live = AtomicIsize::new(0);
        let bombs = |n, at| VecItems::new((0..n).map(|i| Bomb(Counter::new(&live, i), at)).collect());
        let none = usize::MAX;
        // Dropped with the division, as a rest, as claimed blocks, and as items without a partner.
        let drops = |shared: bool, taken: usize| {
            let mut division = Division::new(Blocks::new(((bombs(n, none), bombs(n + 3, at)), bombs(n + 1, none)), 5));
            let (mut lead, _) = division.lead();
            let chunk = lead.take(taken);
            if shared {
                lead.share_evenly(3);
            }
            drop(lead);
            drop(chunk);
        };
        for (shared, taken) in [(false, 1), (true, 1), (false, 3)] {
            let dropped = catch_unwind(AssertUnwindSafe(|| drops(shared, taken)));
            assert_eq!(dropped.is_err(), at < n + 3, "at {at}");
            assert_eq!(live.load(Relaxed), 0, "at {at}, {taken} taken, shared: {shared}");
        }
        // On one thread: as items without a partner, in chunks, and as the rest.
        for taken in [0, 1, n / 2, n] {
            let undivided = || {
                let source = ((bombs(n, none), bombs(n + 3, at)), bombs(n + 1, none));
                undivided(source, |mut held| (taken > 0).then(|| drop(held.take(taken))));
            };
            let dropped = catch_unwind(AssertUnwindSafe(undivided));
            assert_eq!(dropped.is_err(), at < n + 3, "at {at}");
            assert_eq!(live.load(Relaxed), 0, "at {at}, {taken} taken on one thread");
        }
        // Results in two spans that do not cover all.
        let results = || {
            let mut division = Division::new(Slots::new(n + 4, 1));
            let (mut lead, _) = division.lead();
            for _ in 0..2 {
                let (span, mut fill) = lead.take(n / 2 + 1).unwrap();
                fill.fill((span.lo..span.hi - 1).map(|i| Bomb(Counter::new(&live, i), at)));
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(results));
        assert_eq!(live.load(Relaxed), 0, "at {at}, results");
    }
}

/// A source so long that range words hold units of many items: claims are still as long as their members want them.
#[test]
fn claims_are_not_longer_than_wanted() {
    for n in [1usize << 33, 1 << 40, usize::MAX] {
        let mut division = Division::new(0..n);
        let (mut lead, shared) = division.lead();
        assert!(!shared.is_shared() && !shared.is_stopped());
        lead.share_evenly(2);
        assert!(shared.is_shared());
        let mut all = Vec::new();
        for member in [0, 1, 0] {
            let mut claims = shared.claims(member);
            for want in [1, 2, 1, 3, 1000, 1, 7] {
                let (span, items) = claims.next(|_, _| want, half).unwrap();
                assert!((1..=want).contains(&span.len()) && items == (span.lo..span.hi), "{span:?} of {n}");
                all.push(items);
            }
        }
        all.sort_by_key(|items| items.start);
        assert!(all.iter().zip(&all[1..]).all(|(a, b)| a.end <= b.start), "{all:?}");
        // A stop counts at once, also for a member inside a unit.
        let mut claims = shared.claims(1);
        assert!(claims.next(|_, _| 1, half).is_some());
        shared.stop();
        assert!(shared.is_stopped() && claims.next(|_, _| 1, half).is_none());
    }
    // All of it, in claims that are neither units nor divisors of one.
    let (n, sum) = (1usize << 40, AtomicUsize::new(0));
    run!(0..n, 3, n / 97, |items| sum.fetch_add(items.len(), Relaxed));
    assert_eq!(sum.into_inner(), n);
}

/// The rest of a claimed unit is dropped with the claims, and is not handed out again.
#[test]
fn a_remainder_stays_with_its_claims() {
    let mut division = Division::new(0..1usize << 40);
    let (mut lead, shared) = division.lead();
    lead.share_evenly(1);
    let (first, ..) = shared.claims(0).next(|_, _| 1, half).unwrap();
    let (next, ..) = shared.claims(0).next(|_, _| 1, half).unwrap();
    assert_eq!((first.len(), next.len()), (1, 1));
    assert!(next.lo >= 1 << 8, "{first:?}, then {next:?}: of one unit");
}

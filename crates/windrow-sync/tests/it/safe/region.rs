//! Sources, views, claims, the gate and the merge.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use windrow_sync::Spin;
use windrow_sync::divide::{Claims, Divide, Division, Held, Lead, Leaf, Span};
use windrow_sync::gate::{
    Door, Gate, Inside, JoinedWorker, LANES, MOST_MEMBERS, Visitor, Wait, WorkerCounts, WorkersElsewhere, is_inside_any,
};
use windrow_sync::latch::Latch;
use windrow_sync::machine::tick;
use windrow_sync::merge::{Merge, Merging, merging};
use windrow_sync::ranges::{Ranges, Report, Run};
use windrow_sync::slots::{Fill, Slots};
use windrow_sync::sources::{Runs, RunsMut, SliceMut, Take, VecItems};
use windrow_sync::views::{Blocks, BlocksChunk, Merged, Part, Pieces, PiecesChunk, Window};

use super::{Item, Live, boom, panics};

/// Behaviour of a member with a chunk.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    All,
    One,
    Forget,
    Panic,
}

/// Sources, and what a member does with one of their chunks.
trait Consume: Divide {
    fn consume<'s>(chunk: Self::Chunk<'s>, how: Use)
    where
        Self: 's;
}

fn consume_items<I: Iterator>(mut items: I, how: Use) {
    match how {
        Use::All => items.for_each(drop),
        Use::One => drop(items.next()),
        Use::Forget => {
            std::mem::forget(items.next());
            std::mem::forget(items);
        }
        Use::Panic => {
            let _one = items.next();
            boom()
        }
    }
}

macro_rules! consume_leaf {
    ($([$($generics:tt)*] $source:ty),* $(,)?) => {$(
        impl<$($generics)*> Consume for $source {
            fn consume<'s>(chunk: Self::Chunk<'s>, how: Use)
            where
                Self: 's,
            {
                consume_items(<Self as Leaf>::items(chunk), how);
            }
        }
    )*};
}
consume_leaf!(
    [] std::ops::Range<usize>,
    ['a, T: Sync] &'a [T],
    ['a, T: Sync] Runs<'a, T>,
    ['a, T: Send] SliceMut<'a, T>,
    ['a, T: Send] RunsMut<'a, T>,
);

impl<T: Send> Consume for VecItems<T> {
    fn consume<'s>(chunk: Take<'s, T>, how: Use)
    where
        Self: 's,
    {
        let (least, most) = chunk.size_hint();
        assert_eq!(Some(least), most);
        consume_items(chunk, how);
    }
}

/// Results that own memory.
impl Consume for Slots<String> {
    fn consume<'s>(mut chunk: Fill<'s, String>, how: Use)
    where
        Self: 's,
    {
        let mut number = 0;
        let results = std::iter::repeat_with(|| {
            number += 1;
            if number > 1 && how == Use::Panic { boom() } else { number.to_string() }
        });
        chunk.fill(results.take(if how == Use::One { 1 } else { usize::MAX }));
        chunk.fill(["one too many".to_owned()].into_iter());
        if how == Use::Forget {
            std::mem::forget(chunk);
        }
    }
}

impl<A: Consume, B: Consume> Consume for (A, B) {
    fn consume<'s>((a, b): Self::Chunk<'s>, how: Use)
    where
        Self: 's,
    {
        A::consume(a, how);
        B::consume(b, how);
    }
}

impl<S: Consume> Consume for Part<S> {
    fn consume<'s>((_, chunk): Self::Chunk<'s>, how: Use)
    where
        Self: 's,
    {
        S::consume(chunk, how);
    }
}

impl<S: Consume> Consume for Window<'_, S> {
    fn consume<'s>((_, chunk): Self::Chunk<'s>, how: Use)
    where
        Self: 's,
    {
        S::consume(chunk, how);
    }
}

impl<S: Consume> Consume for Pieces<S> {
    fn consume<'s>(mut pieces: PiecesChunk<'s, S>, how: Use)
    where
        Self: 's,
    {
        if let Some((_, piece)) = pieces.next() {
            S::consume(piece, how);
        }
        match how {
            Use::All => pieces.for_each(|(_, piece)| S::consume(piece, how)),
            Use::Forget => std::mem::forget(pieces),
            _ => {}
        }
    }
}

impl<S: Consume> Consume for Blocks<S> {
    fn consume<'s>(mut blocks: BlocksChunk<'s, S>, how: Use)
    where
        Self: 's,
    {
        let _ = blocks.size_hint();
        if let Some(mut pieces) = blocks.next_in_pieces() {
            let rest = pieces.rest();
            if let Some((at, piece)) = Held::take(&mut pieces, 0) {
                assert_eq!(at.len() + pieces.rest(), rest);
                S::consume(piece, how);
            }
            if how == Use::Forget {
                std::mem::forget(pieces);
            }
        }
        if let Some((_, block)) = blocks.next() {
            S::consume(block, how);
        }
        if how != Use::One
            && let Some((_, block)) = blocks.all_at_once()
        {
            S::consume(block, how);
            assert!(blocks.next().is_none() && blocks.all_at_once().is_none() && blocks.next_in_pieces().is_none());
        }
    }
}

impl<A: Consume, B: Consume> Consume for Merged<A, B> {
    fn consume<'s>((a, b): Self::Chunk<'s>, how: Use)
    where
        Self: 's,
    {
        a.into_iter().for_each(|(_, chunk)| A::consume(chunk, how));
        b.into_iter().for_each(|(_, chunk)| B::consume(chunk, how));
    }
}

fn half(lo: usize, hi: usize) -> usize {
    lo.midpoint(hi)
}

/// A way to divide a source, with its name. It may panic.
type Way<S> = (&'static str, fn(S, Use));

fn ways<S: Consume>() -> Vec<Way<S>> {
    vec![
        ("not divided", |source, _| drop(source)),
        ("ended undivided", |source, _| {
            let _ = source.total();
            drop(source.done());
        }),
        ("all taken by the lead", |source, how| {
            let mut division = Division::new(source);
            let (mut lead, shared) = division.lead();
            assert!(!shared.is_shared() && !shared.is_stopped() && shared.reports().count() == 0);
            while let Some((at, chunk)) = lead.take(2) {
                assert!(!at.is_empty() && at.hi == lead.rest().start);
                S::consume(chunk, how);
            }
            drop(lead);
            drop(division.done());
        }),
        ("some taken, and a second lead", |source, how| {
            let mut division = Division::new(source);
            let mut lead: Lead<'_, S> = division.lead().0;
            lead.take(3).into_iter().for_each(|(_, chunk)| S::consume(chunk, how));
            if how == Use::Forget {
                std::mem::forget(lead);
            } else {
                drop(lead);
            }
            let (mut second, _) = division.lead();
            assert!(second.take(9).is_none(), "the first lead held all");
            second.share_evenly(2);
            drop(second);
            drop(division.done());
        }),
        ("shared, with reports and a stop", |source, how| {
            let mut division = Division::new(source);
            let (mut lead, shared) = division.lead();
            lead.take(1).into_iter().for_each(|(_, chunk)| S::consume(chunk, how));
            assert!(shared.claims(1).next(|_, _| 1, half).is_none(), "not shared yet");
            lead.share(3, usize::MAX, |part| if part == 1 { usize::MAX } else { 0 });
            std::thread::scope(|scope| {
                for member in [1, 1, usize::MAX] {
                    scope.spawn(move || {
                        let mut claims = shared.claims(member);
                        claims.report(Report { claims: 1, ..Report::default() });
                        panics(|| {
                            while let Some((_, chunk)) = claims.next(|_, _| 2, half) {
                                S::consume(chunk, how);
                            }
                        });
                    });
                }
                let mut own: Claims<'_, S> = lead.claims(0);
                let _ = own.at_hand();
                if own.claim(|_, _| usize::MAX, |_, _| 0).is_some() {
                    own.take(1).into_iter().for_each(|(_, chunk)| _ = panics(|| S::consume(chunk, how)));
                }
                shared.stop();
                assert!(own.take(1).is_none() || !shared.is_stopped());
                if how == Use::Forget {
                    std::mem::forget(own);
                }
            });
            let _ = shared.reports().map(|report| report.claims).sum::<u64>();
        }),
        ("foreign numbers that panic", |source, how| {
            let mut division = Division::new(source);
            let (mut lead, shared) = division.lead();
            let is_empty = lead.rest().is_empty();
            // Nothing is lost: the rest is still the lead's.
            assert_eq!(panics(|| lead.share(2, 0, |_| boom())), !is_empty);
            assert_eq!(panics(|| lead.share(0, 0, |_| 0)), !is_empty);
            lead.share_evenly(2);
            let mut claims = shared.claims(1);
            assert_eq!(panics(|| drop(claims.next(|_, _| boom(), half))), !is_empty);
            while let Some((_, chunk)) = claims.next(|_, _| 1, half) {
                S::consume(chunk, how);
            }
        }),
        ("windows", |source, how| {
            let mut division = Division::new(source);
            if let Some((_, chunk)) = Window::new(&mut division, 1).whole() {
                S::consume(chunk, how);
            }
            assert!(Window::new(&mut division, 0).whole().is_none());
            drop(Window::new(&mut division, 1));
            {
                let mut inner = Division::new(Pieces::backward(Window::new(&mut division, 2)));
                let (mut lead, _) = inner.lead();
                lead.take(1).into_iter().for_each(|(_, chunk)| Pieces::<Window<'_, S>>::consume(chunk, how));
            }
            // A part of a window: the rest of it is dropped as it begins.
            drop(Division::new(Part::new(Window::new(&mut division, 2), 1, 2)));
            if how == Use::Forget {
                std::mem::forget(Window::new(&mut division, 1));
            }
            let (mut lead, _) = division.lead();
            lead.take(usize::MAX).into_iter().for_each(|(_, chunk)| S::consume(chunk, how));
            drop(lead);
            assert!(Window::new(&mut division, 9).whole().is_none());
        }),
    ]
}

/// Divides sources that `make` makes in every way. Nothing is dropped twice; without forgetting, nothing leaks.
fn divide<S: Consume>(live: &Live, make: impl Fn() -> S) {
    for (name, way) in ways::<S>() {
        for how in [Use::All, Use::One, Use::Forget, Use::Panic] {
            let before = live.count();
            let source = make();
            panics(|| way(source, how));
            assert!(how == Use::Forget || live.count() == before, "{name}: {} items are left", live.count() - before);
        }
    }
}

const N: usize = 7;

#[test]
fn sources_are_divided() {
    let live = Live::default();
    let items = live.items(N);
    // The last but one cannot be dropped in peace.
    let bombs = || VecItems::new((0..N).map(|at| if at == N - 2 { live.bomb(at) } else { live.item(at) }).collect());
    divide(&live, || 3..3 + N);
    divide(&live, || 0..0_usize);
    divide(&live, || &items[..]);
    divide(&live, || Runs::new(&items, 3));
    divide(&live, || VecItems::new(items.clone()));
    divide(&live, bombs);
    divide(&live, || Slots::<String>::new(N, 2));
    divide(&live, || (bombs(), Slots::<String>::new(N - 3, 0)));
    divide(&live, || (Slots::<String>::new(N, 2), bombs()));
    divide(&live, || Part::new(bombs(), 1, N - 2));
    divide(&live, || Pieces::new(bombs(), 2));
    divide(&live, || Pieces::backward(bombs()));
    divide(&live, || Blocks::new(bombs(), 2));
    divide(&live, || Merged::in_turns(bombs(), VecItems::new(items.clone())));
    divide(&live, || Merged::one_after_the_other(bombs(), 0..2_usize));
    divide(&live, || (Blocks::new(Part::new(bombs(), 1, 9), 2), Pieces::backward(Merged::in_turns(bombs(), bombs()))));
    assert_eq!(Runs::new(&items, 3).iter().map(<[Item<'_>]>::len).collect::<Vec<_>>(), [3, 3, 1]);
    drop(items);
}

#[test]
fn borrowed_items_are_divided() {
    let live = Live::default();
    // (Each call has another lifetime, and so another list of ways.)
    for at in 0..ways::<std::ops::Range<usize>>().len() {
        let mut items = live.items(N);
        panics(|| ways()[at].1(SliceMut::new(&mut items), Use::All));
        panics(|| ways()[at].1(SliceMut::new(&mut items), Use::Panic));
        assert_eq!(items.iter().map(Item::number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
        panics(|| ways()[at].1(RunsMut::new(&mut items, 2), Use::All));
        panics(|| ways()[at].1(RunsMut::new(&mut items, 2), Use::One));
        assert_eq!(items.iter().map(Item::number).sum::<usize>(), 21);
    }
    // Chunks of a borrowed slice outlive the division.
    let mut items = live.items(2);
    let kept = {
        let mut division = Division::new(SliceMut::new(&mut items));
        let (mut lead, _) = division.lead();
        lead.take(1).map(|(_, chunk)| chunk)
    };
    kept.into_iter().flatten().for_each(|item| item.text.push('0'));
    drop(items);
    assert_eq!(live.count(), 0);
}

#[test]
fn what_is_refused() {
    assert!(panics(|| _ = Runs::new(&[0], 0)));
    assert!(panics(|| drop(RunsMut::new(&mut [0], 0))));
    assert!(panics(|| drop(Pieces::new(0..3_usize, 0))));
    assert!(panics(|| drop(Blocks::new(0..3_usize, 0))));
    assert!(panics(|| drop(Merged::in_turns(0..usize::MAX, 0..1_usize))));
    let live = Live::default();
    let mut source = VecItems::new(vec![live.item(1), live.bomb(2)]);
    assert_eq!(source.as_slice().len(), 2);
    assert!(panics(|| drop(source.clone())), "the bomb cannot be cloned");
    assert!(panics(|| drop(source)));
    assert_eq!(live.count(), 0);
    // Items without a size: more of them than fit into a range word.
    let mut division = Division::new((VecItems::new(vec![(); 5_000_000_000]), Slots::<()>::new(5_000_000_000, 1)));
    let (mut lead, shared) = division.lead();
    lead.share_evenly(2);
    let mut claims = shared.claims(1);
    assert!(claims.claim(|_, _| 1, half).is_some());
    while let Some((_, (units, mut slots))) = claims.take(1 << 30) {
        assert!(units.len() > 0);
        slots.fill(std::iter::once(()));
    }
    drop((claims, lead));
    assert_eq!(division.done(), ((), None));
    assert_eq!(Span { lo: 1, hi: 1, member: 0 }.len(), 0);
}

#[test]
fn pairs_that_end_early_or_panic() {
    for (pairs, room, panics_at) in [(4, 4, 9), (9, 4, 9), (2, 4, 9), (4, 4, 2), (4, 3, 9)] {
        let live = Live::default();
        let mut division = Division::new((Slots::new(4, 1), Slots::new(room, 1)));
        let (mut lead, shared) = division.lead();
        let mut items = (0..pairs).map(|at| if at == panics_at { boom() } else { (live.item(at), live.item(at)) });
        let mut filled = 0;
        let panicked = panics(|| {
            while let Some((at, (mut a, mut b))) = lead.take(3) {
                filled += at.len();
                a.fill_with(&mut b, &mut items);
            }
        });
        shared.skip();
        assert!(shared.is_incomplete() && !shared.is_stopped());
        drop(lead);
        let whole = filled == 4 && pairs >= 4 && !panicked;
        let (a, b) = division.done();
        assert_eq!((a.is_some(), b.is_some()), (whole, whole || room == 3 && filled == 3));
        drop((a, b));
        assert_eq!(live.count(), 0);
    }
}

#[test]
fn range_words_with_foreign_numbers() {
    let mut ranges = Ranges::new(3);
    assert!(panics(|| drop(Ranges::new(0))));
    assert!(panics(|| ranges.fill(9, 4, 0, |_| 0)));
    assert!(panics(|| ranges.fill(9, 3, 0, |_| boom())));
    for lie in [0, 4, 8, u32::MAX] {
        ranges.fill(9, 3, usize::MAX, |_| lie);
        assert!(panics(|| drop(ranges.claim(usize::MAX, |_| boom(), |_| boom()))));
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let claim =
                || std::iter::from_fn(|| ranges.claim(lie as usize, |_| lie, |_: &Run| lie)).collect::<Vec<_>>();
            let threads = [scope.spawn(claim), scope.spawn(claim)];
            threads.into_iter().for_each(|thread| seen.extend(thread.join().unwrap().into_iter().flatten()));
        });
        ranges.report(usize::MAX, Report { busy: u64::MAX, longest: 1, ..Report::default() });
        let _ = ranges.at_hand(7);
        assert!(ranges.reports().count() == 3 && !ranges.is_stopped());
        ranges.stop();
        assert!(ranges.claim(0, |_| 1, |run| run.start).is_none() && ranges.is_stopped());
        seen.extend(ranges.drain().flatten());
        seen.sort_unstable();
        assert_eq!(seen, (0..9).collect::<Vec<_>>());
    }
}

#[test]
fn merges_with_hostile_orders() {
    let live = Live::default();
    let less = |a: &Item<'_>, b: &Item<'_>| a.number() < b.number();
    let contradicts = |a: &Item<'_>, _: &Item<'_>| a.number().is_multiple_of(2);
    let throws = |a: &Item<'_>, b: &Item<'_>| if a.number() == 3 { boom() } else { less(a, b) };
    type Order<'o> = &'o (dyn Fn(&Item<'_>, &Item<'_>) -> bool + Sync);
    let orders: [Order<'_>; 3] = [&less, &contradicts, &throws];
    for is_less in orders {
        for unwinds in [false, true] {
            let mut items: Vec<_> = [5, 6, 1, 3, 0, 4, 2].map(|number| live.item(number)).into();
            panics(|| {
                merging(&mut items, |merging| {
                    assert!(panics(|| _ = merging.level(0).count()));
                    let forgotten = merging.level(2).next();
                    std::mem::forget(forgotten);
                    assert!(!merging.finish(), "not all have run");
                    for run in [1, 2, 4] {
                        std::thread::scope(|scope| {
                            for merge in merging.level(run) {
                                scope.spawn(move || {
                                    panics(|| {
                                        assert!(!Merge::is_empty(&merge));
                                        let (low, high) = merge.split(is_less);
                                        assert!(low.len() + high.len() > 0);
                                        high.run(is_less);
                                        low.run(is_less);
                                    })
                                });
                            }
                        });
                        merging.finish();
                        assert!(!merging.finish(), "once");
                    }
                    if unwinds {
                        boom();
                    }
                });
            });
            let mut numbers: Vec<_> = items.iter().map(Item::number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
    // Two of one lifetime, exchanged: each slice keeps its items.
    let (mut first, mut second) = ([3, 4, 1, 2].map(|n| live.item(n)), [7, 8, 5, 6].map(|n| live.item(n)));
    merging(&mut first[..], |one| {
        merging(&mut second[..], |other: &mut Merging<'_, _>| {
            one.level(2).for_each(|merge| merge.run(less));
            assert!(one.finish());
            std::mem::swap(one, other);
        });
    });
    assert_eq!(first.each_ref().map(Item::number), [1, 2, 3, 4]);
    assert_eq!(second.each_ref().map(Item::number), [7, 8, 5, 6]);
    drop((first, second));
    assert_eq!(live.count(), 0);
}

const LOOK: Spin = Spin { busy: 1000, yielding: 100_000 };

#[test]
fn regions_with_hostile_members() {
    let (gate, entered) = (Gate::new(2), AtomicUsize::new(0));
    assert!(panics(|| drop(Gate::new(MOST_MEMBERS))));
    assert!(panics(|| gate.serve(0, |_| Spin::NONE)) && panics(|| gate.serve(3, |_| Spin::NONE)));
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            // Both serve under one number, and one leaves by a panic and comes back.
            scope.spawn(|| {
                let mut looks = 0;
                panics(|| {
                    gate.serve(1, |wait| {
                        looks += 1;
                        if wait == Wait::Sleeps && looks > 3 { boom() } else { LOOK }
                    })
                });
                gate.serve(2, |_| LOOK);
            });
        }
        for round in 0..if cfg!(miri) { 4 } else { 40 } {
            let text = format!("round {round}");
            let came = Latch::new();
            let body = |worker: JoinedWorker| {
                assert!(gate.is_inside() && is_inside_any() && worker.member > 0);
                entered.fetch_add(1, Relaxed);
                seen.lock().unwrap().push(text.len());
                came.set();
                // A region inside this one, whose caller helps.
                gate.region(&|_| drop(text.clone()), LOOK, |door| door.open(2));
                if round % 3 == 0 {
                    boom();
                }
            };
            panics(|| {
                gate.region(&body, if round % 2 == 0 { Spin::NONE } else { LOOK }, |door: &Door<'_>| {
                    let WorkerCounts { busy, .. } = gate.state();
                    let is_open = match round % 4 {
                        0 => door.open_at(tick().saturating_add(1000), 3),
                        1 => door.open_at(u64::MAX, 3),
                        _ => door.open(usize::MAX),
                    };
                    assert!(!door.open(3) && !door.open_at(0, 3), "once");
                    door.open_now();
                    if is_open && !busy {
                        came.wait(LOOK);
                    }
                    assert!(door.inside() <= 2 && door.joined() <= 2);
                    if round % 5 == 0 {
                        boom();
                    }
                });
            });
        }
        // Deeper than there are lanes.
        fn nest(gate: &Gate, depth: usize) {
            gate.region(&|_| (), Spin::NONE, |door| {
                door.open(3);
                if depth > 0 {
                    nest(gate, depth - 1);
                }
            });
        }
        nest(&gate, LANES + 2);
        gate.stop();
    });
    assert!(gate.is_stopped() && !gate.region(&|_| (), Spin::NONE, |door| door.open(3)));
    assert!(entered.load(Relaxed) > 0 && gate.state().absent == 2);
    let (first, second) = (Inside::new(), Inside::default());
    drop(first);
    assert!(is_inside_any());
    std::mem::forget(second);
    assert!(is_inside_any() && !gate.is_inside());
    let third = Inside::of(&gate);
    assert!(gate.is_inside());
    drop(third);
    assert!(!gate.is_inside());
}

/// Calls of workers panic.
struct Nowhere;

impl WorkersElsewhere for Nowhere {
    fn idle(&self) -> (usize, usize) {
        (3, 4)
    }

    fn call(&self) {
        boom()
    }
}

#[test]
fn workers_elsewhere_whose_calls_panic() {
    let gate = Gate::elsewhere(2, Box::new(Nowhere));
    assert!(panics(|| drop(gate.visitor(0))) && panics(|| drop(gate.visitor(3))));
    assert_eq!((gate.state().idle, gate.state().asleep), (3, 4));
    let entered = AtomicUsize::new(0);
    let body = |worker: JoinedWorker| _ = entered.fetch_add(worker.member, Relaxed);
    assert!(panics(|| _ = gate.region(&body, Spin::NONE, |door| door.open(2))));
    gate.region(&body, Spin::NONE, |door| {
        assert!(panics(|| _ = door.open(4)) && !door.open(4), "it is open all the same");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut first, mut second): (Visitor, Visitor) = (gate.visitor(1), gate.visitor(1));
                assert!(gate.calls(&first) && panics(|| gate.visit(&mut first)), "it calls the next worker");
                gate.visit(&mut second);
                assert!(!gate.calls(&second) && !gate.is_inside());
            });
        });
        assert_eq!((door.inside(), door.joined()), (0, 2));
    });
    assert_eq!(entered.load(Relaxed), 2, "by the second one");
}

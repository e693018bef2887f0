//! Searches: consumers that may end before all items were visited.

use std::ops::ControlFlow;

use windrow_sync::Mutex;
use windrow_sync::divide::{Divide, Division, undivided};
use windrow_sync::views::Pieces;

use super::recipe::Recipe;
use super::{ParallelIterator, consumed};
use crate::iter::marks::FoundBefore;
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};

/// Items between two polls of a recipe that may end early, which has no clock. The shortest items take half a nanosecond (record `par`):
/// a poll every 500 ns has no measurable cost.
///
/// Measure: count of items.
pub(crate) const PIECE: usize = 1024;

/// Most indices of a source that a search can visit to its end. In a longer one an index may stand for a run of items.
///
/// Measure: size of a long range of 128-bit integers, in indices.
const ENDLESS: usize = usize::MAX / 4;

/// The best find so far, and its key. The lowest key wins.
#[derive(Debug)]
pub struct Found<B> {
    mark: FoundBefore,
    best: Mutex<Option<(usize, B)>>,
}

/// The clone is empty, as iterators are cloned before they run.
impl<B> Clone for Found<B> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<B> Found<B> {
    pub(crate) fn new() -> Self {
        Self { mark: FoundBefore::default(), best: Mutex::new(None) }
    }

    /// True if a find at `key` would win.
    pub(crate) fn wants(&self, key: usize) -> bool {
        key < self.mark.get()
    }

    pub(crate) fn offer(&self, key: usize, found: B) {
        let mut best = self.best.lock();
        let worse = match &*best {
            Some((at, _)) if *at <= key => Some((key, found)),
            _ => best.replace((key, found)),
        };
        drop(best);
        self.mark.lower(key);
        // The drop of a find is user code, so it runs outside the lock.
        drop(worse);
    }

    pub(crate) fn into_best(self) -> Option<B> {
        self.best.into_inner().map(|(_, found)| found)
    }
}

/// The find that wins among several.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Any,
    First,
    Last,
}

impl Which {
    /// The key of a find among the items from `lo` on.
    fn key(self, lo: usize) -> usize {
        match self {
            Which::Any => 0,
            Which::First => lo,
            // There is no index `usize::MAX`.
            Which::Last => usize::MAX - 1 - lo,
        }
    }
}

/// A search in items that begin at index `from`, by the method of the standard library that is fastest for it. (A trait, because a closure cannot
/// take iterators of any type.)
pub(crate) trait Seek<I>: Sync {
    type Found: Send;
    fn first(&self, from: usize, items: impl Iterator<Item = I>) -> Option<Self::Found>;
    fn last(&self, from: usize, items: impl Iterator<Item = I>) -> Option<Self::Found>;
}

/// The `Some` that a function returns.
pub(crate) struct Mapped<F>(pub(crate) F);
/// The index of an item for which a function holds.
pub(crate) struct Position<F>(pub(crate) F);
/// An item for which a function holds, which is dropped.
pub(crate) struct Any<F>(pub(crate) F);

impl<I, B: Send, F: Fn(I) -> Option<B> + Sync> Seek<I> for Mapped<F> {
    type Found = B;
    #[inline]
    fn first(&self, _: usize, mut items: impl Iterator<Item = I>) -> Option<B> {
        items.find_map(&self.0)
    }
    #[inline]
    fn last(&self, _: usize, items: impl Iterator<Item = I>) -> Option<B> {
        items.filter_map(&self.0).last()
    }
}

impl<I, F: Fn(I) -> bool + Sync> Seek<I> for Position<F> {
    type Found = usize;
    #[inline]
    fn first(&self, from: usize, mut items: impl Iterator<Item = I>) -> Option<usize> {
        items.position(&self.0).map(|at| from + at)
    }
    #[inline]
    fn last(&self, from: usize, items: impl Iterator<Item = I>) -> Option<usize> {
        (from..).zip(items).filter_map(|(at, item)| (self.0)(item).then_some(at)).last()
    }
}

impl<I, F: Fn(I) -> bool + Sync> Seek<I> for Any<F> {
    type Found = ();
    #[inline]
    fn first(&self, _: usize, mut items: impl Iterator<Item = I>) -> Option<()> {
        items.any(&self.0).then_some(())
    }
    #[inline]
    fn last(&self, from: usize, items: impl Iterator<Item = I>) -> Option<()> {
        self.first(from, items)
    }
}

/// The find of `seek` at the item that `which` selects. Items that cannot win any more are not visited.
#[inline]
#[track_caller]
pub(crate) fn search<P: ParallelIterator, K: Seek<P::Item>>(iter: P, which: Which, seek: K) -> Option<K::Found> {
    let (source, recipe, hints) = consumed(iter);
    let pool = Current::get();
    let begun = BegunCall::new(&pool, &hints, source.total(), searched::<P, K> as *const () as usize);
    if begun.is_plain() && !is_endless::<P>(&source) {
        return begun.run_plain(|| {
            undivided(source, |mut items| {
                let (at, chunk) = items.take(usize::MAX)?;
                let state = recipe.state();
                let items = recipe.iter(&state, at, chunk);
                match which {
                    Which::Any | Which::First => seek.first(at.lo, items),
                    Which::Last => seek.last(at.lo, items),
                }
            })
        });
    }
    searched::<P, K>(begun, source, &recipe, which, &seek)
}

/// True for a range of 10^27 items, say: an index stands for more items than a member can visit.
#[inline]
fn is_endless<P: ParallelIterator>(source: &P::Source) -> bool {
    !P::Recipe::EXACT && !P::Recipe::LOOSE && source.total() > ENDLESS
}

/// The same for a call that is no plain loop.
#[inline(never)]
fn searched<P: ParallelIterator, K: Seek<P::Item>>(
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    which: Which,
    seek: &K,
) -> Option<K::Found> {
    let (hints, found) = (begun.hints, Found::new());
    // A member polls before each item, and a search for the last one ends only if it visits the last index first.
    let endless = is_endless::<P>(&source);
    let back = which == Which::Last && endless;
    let mut division = Division::new(if back { Pieces::backward(source) } else { Pieces::new(source, usize::MAX) });
    let (mut lead, shared) = division.lead();
    let nothing_from = |at| recipe.over(at) || which != Which::Last && !found.wants(which.key(at));
    drive(
        begun,
        &mut lead,
        shared,
        || recipe.state(),
        |state, whole, pieces| {
            for (at, piece) in pieces {
                if back && hints.is_cut(shared) {
                    return ControlFlow::Break(());
                }
                let key = which.key(at.lo);
                // With `Which::Last`, a find after this piece is no reason to leave, unless the pieces come from the back.
                if nothing_from(at.lo) || back && !found.wants(key) {
                    break;
                }
                if found.wants(key) {
                    let items = recipe.iter(state, at, piece);
                    let ends = || !found.wants(key) || hints.is_cut(shared);
                    let hit = match which {
                        Which::Any | Which::First if endless => seek.first(at.lo, items.take_while(|_| !ends())),
                        Which::Any | Which::First => seek.first(at.lo, items),
                        Which::Last => seek.last(at.lo, items),
                    };
                    if let Some(hit) = hit {
                        found.offer(key, hit);
                        match which {
                            Which::Any => recipe.call_off(0),
                            Which::First => recipe.call_off(at.lo),
                            Which::Last => {}
                        }
                    }
                }
            }
            let found_behind = |at| back && at > 0 && !found.wants(usize::MAX - 1);
            leave_if_over(shared, whole.hi, |at| nothing_from(at) || found_behind(at))
        },
        drop,
    );
    found.into_best()
}

/// A break if a member that has come to `at` can leave: `nothing_from(at)` holds, and no item before `at` is left. The latter is true for a
/// caller that has not shared. In a shared division the remaining claims are few and short by then.
pub(crate) fn leave_if_over<S: Divide>(
    division: &Division<S>,
    at: usize,
    nothing_from: impl Fn(usize) -> bool,
) -> ControlFlow<()> {
    if nothing_from(0) {
        division.stop();
        return ControlFlow::Break(());
    }
    if !nothing_from(at) {
        return ControlFlow::Continue(());
    }
    division.skip();
    if division.is_shared() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

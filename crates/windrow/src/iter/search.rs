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

/// The `Some` that `f` returns for the item that `which` selects. Items that cannot win any more are not visited.
#[inline]
#[track_caller]
pub(crate) fn search<P: ParallelIterator, B: Send, F: Fn(P::Item) -> Option<B> + Sync>(
    iter: P,
    which: Which,
    f: F,
) -> Option<B> {
    let (source, recipe, hints) = consumed(iter);
    let pool = Current::get();
    let begun = BegunCall::new(&pool, &hints, source.total(), searched::<P, B, F> as *const () as usize);
    if begun.is_plain() && !is_endless::<P>(&source) {
        return begun.run_plain(|| {
            undivided(source, |mut items| {
                let (at, chunk) = items.take(usize::MAX)?;
                let state = recipe.state();
                let mut items = recipe.iter(&state, at, chunk);
                match which {
                    Which::Any | Which::First => items.find_map(f),
                    Which::Last => items.filter_map(f).last(),
                }
            })
        });
    }
    searched::<P, B, F>(begun, source, &recipe, which, &f)
}

/// True for a range of 10^27 items, say: an index stands for more items than a member can visit.
#[inline]
fn is_endless<P: ParallelIterator>(source: &P::Source) -> bool {
    !P::Recipe::EXACT && !P::Recipe::LOOSE && source.total() > ENDLESS
}

/// The same for a call that is no plain loop.
#[inline(never)]
fn searched<P: ParallelIterator, B: Send, F: Fn(P::Item) -> Option<B> + Sync>(
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    which: Which,
    f: &F,
) -> Option<B> {
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
                    let mut items = recipe.iter(state, at, piece);
                    let ends = || !found.wants(key) || hints.is_cut(shared);
                    let hit = match which {
                        Which::Any | Which::First if endless => items.take_while(|_| !ends()).find_map(f),
                        Which::Any | Which::First => items.find_map(f),
                        Which::Last => items.filter_map(f).last(),
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

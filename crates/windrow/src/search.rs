//! Searches: consumers that may end before all items were looked at.

use std::sync::{Mutex, PoisonError};

use windrow_sync::divide::{Divide, Division};
use windrow_sync::marks::Mark;
use windrow_sync::views::Pieces;

use crate::iter::ParallelIterator;
use crate::pool::with_current;
use crate::recipe::Recipe;
use crate::region::run;

/// Items between two looks at what others have found. A claim lasts 50 us at most, but a fixed chunk is as long as the user wants,
/// and so are the claims of a caller alone. The shortest items take half a nanosecond (record `par`), so that a look every 2 us
/// costs nothing that could be measured.
pub(crate) const PIECE: usize = 4096;

/// What counts of all that was found, and where it was. The lowest key wins.
#[derive(Debug)]
pub(crate) struct Found<B> {
    mark: Mark,
    best: Mutex<Option<(usize, B)>>,
}

impl<B> Found<B> {
    pub(crate) fn new() -> Self {
        Self { mark: Mark::new(), best: Mutex::new(None) }
    }

    /// A find at `key` would count.
    pub(crate) fn wants(&self, key: usize) -> bool {
        key < self.mark.get()
    }

    pub(crate) fn offer(&self, key: usize, found: B) {
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let worse = match &*best {
            Some((at, _)) if *at <= key => Some((key, found)),
            _ => best.replace((key, found)),
        };
        drop(best);
        self.mark.lower(key);
        // User code, so not under the lock.
        drop(worse);
    }

    pub(crate) fn into_best(self) -> Option<B> {
        self.best.into_inner().unwrap_or_else(PoisonError::into_inner).map(|(_, found)| found)
    }
}

/// A [`Found`], or a reference to one.
pub(crate) trait Finds<B>: Sync {
    fn found(&self) -> &Found<B>;
}

impl<B: Send> Finds<B> for Found<B> {
    fn found(&self) -> &Found<B> {
        self
    }
}

impl<B: Send> Finds<B> for &Found<B> {
    fn found(&self) -> &Found<B> {
        self
    }
}

/// Which of several finds counts.
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

/// What `f` makes of an item for which it makes something. Items that cannot count any more are not looked at.
pub(crate) fn search<P: ParallelIterator, B: Send>(
    iter: P,
    which: Which,
    f: impl Fn(P::Item) -> Option<B> + Sync,
) -> Option<B> {
    let (source, recipe, hints) = iter.into_parts();
    let found = Found::new();
    let mut division = Division::new(Pieces::new(source, PIECE));
    let (lead, shared) = division.lead();
    with_current(|crew| {
        run(crew, &hints.0, lead, shared, |walk| {
            let state = recipe.state();
            let nothing_from = |at| recipe.over(at) || which != Which::Last && !found.wants(which.key(at));
            for (whole, pieces) in walk {
                for (at, piece) in pieces {
                    if nothing_from(at.lo) {
                        break;
                    }
                    if !found.wants(which.key(at.lo)) {
                        // The last one is looked for, and one behind this piece is found.
                        continue;
                    }
                    let mut items = recipe.iter(&state, at, piece);
                    let hit = match which {
                        Which::Any | Which::First => items.find_map(&f),
                        Which::Last => items.filter_map(&f).last(),
                    };
                    if let Some(hit) = hit {
                        found.offer(which.key(at.lo), hit);
                        match which {
                            Which::Any => recipe.call_off(0),
                            Which::First => recipe.call_off(at.lo),
                            Which::Last => {}
                        }
                    }
                }
                if over(shared, whole.hi, nothing_from) {
                    return;
                }
            }
        });
    });
    found.into_best()
}

/// Whether a member that has come to `at` can leave: `nothing_from` says that nothing comes from there on, and no item before it
/// is left. The latter holds for a caller that has not shared; in a shared division claims are few and short by then.
pub(crate) fn over<S: Divide>(division: &Division<S>, at: usize, nothing_from: impl Fn(usize) -> bool) -> bool {
    if nothing_from(0) {
        division.stop();
        return true;
    }
    nothing_from(at) && !division.is_shared()
}

//! The cancellation of one call: the tokens that its members poll, and what they have consumed.
//!
//! A member polls the tokens between the pieces of a claim or block, and so does a caller without workers. A poll is one load for each token and each ancestor (and a read of the tick counter if there is a deadline).
//! Claims and pieces are sized by the cost of earlier items. Behind a bridge that cost does not predict the next item, so a member polls
//! before each item.

use std::sync::{Mutex, MutexGuard, OnceLock};

use super::cancel::{CancelToken, Cancelled, ambient};
use crate::runtime::flag::Flag;
use windrow_sync::fork::lock;

/// See the [module page](self). One for each call that can be cancelled; members share it.
#[derive(Debug)]
pub struct Cancellation {
    tokens: Vec<CancelToken>,
    /// Items of the call's source, once it has begun.
    total: OnceLock<usize>,
    /// Items that were consumed.
    done: Mutex<usize>,
    pulled: Mutex<Pulled>,
    /// A member found a token cancelled when it came for more items.
    cut: Flag,
    /// The recipe wants no more items, though some are left.
    through: Flag,
}

/// Counts of the claims of a source whose items are pulled: a bridge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulled {
    pub(crate) claimed: usize,
    /// Items that were pulled. (The claim with the last index may bring more than its share.)
    pub(crate) items: usize,
    /// A token kept a member from pulling an item.
    pub(crate) cut: bool,
}

impl Cancellation {
    /// The cancellation of a call by `token`, and by the token of the spawned closure or overlapped lane that this thread runs.
    pub(crate) fn new(token: &CancelToken) -> Self {
        let tokens = std::iter::once(token.clone()).chain(ambient()).collect();
        let (total, done, pulled) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Self { tokens, total, done, pulled, cut: Flag::new(), through: Flag::new() }
    }

    /// Records the number of items when the call begins.
    pub(crate) fn begin(&self, total: usize) {
        self.total.get_or_init(|| total);
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.tokens.iter().any(CancelToken::is_cancelled)
    }

    /// Whether a member has to leave.
    #[inline]
    pub(crate) fn cuts(&self) -> bool {
        let cuts = self.is_cancelled();
        if cuts {
            self.cut.raise();
        }
        cuts
    }

    /// Adds the items that a member has consumed.
    pub(crate) fn add(&self, items: usize) {
        *lock(&self.done) += items;
    }

    /// Records that the recipe wants no more items: no item is missing.
    pub(crate) fn be_through(&self) {
        self.through.raise();
    }

    /// Adds the counts of one claim of a bridge.
    pub(crate) fn add_pulled(&self, claim: Pulled) {
        let mut all = self.pulled();
        all.claimed = all.claimed.saturating_add(claim.claimed);
        all.items = all.items.saturating_add(claim.items);
        all.cut |= claim.cut;
    }

    fn pulled(&self) -> MutexGuard<'_, Pulled> {
        lock(&self.pulled)
    }

    /// `whole`, if no item that was wanted is missing. A token that was cancelled afterwards does not count.
    pub(crate) fn result<T>(&self, whole: T) -> Result<T, Cancelled> {
        let Pulled { claimed, items, cut } = *self.pulled();
        let done = *lock(&self.done);
        let done = done.saturating_sub(claimed).saturating_add(items);
        let total = self.total.get().copied().unwrap_or(0);
        // A search that ends early leaves items, too. Then no member was cut.
        let all = !cut && (done == total || !self.cut.is_up());
        if all || self.through.is_up() { Ok(whole) } else { Err(Cancelled { done, total }) }
    }
}

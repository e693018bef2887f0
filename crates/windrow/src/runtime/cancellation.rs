//! The cancellation of one call: the tokens that its members poll, and whether one has left because of them.
//!
//! A member polls the tokens between the pieces of a claim or block, and so does a caller without workers. A poll is one load for each token and each ancestor (and a read of the tick counter if there is a deadline).
//! Claims and pieces are sized by the cost of earlier items. Behind a bridge that cost does not predict the next item, so a member polls
//! before each item.

use super::cancel::{CancelToken, Cancelled, ambient};
use crate::runtime::flag::Flag;

/// See the [module page](self). One for each call that can be cancelled; members share it.
#[derive(Debug)]
pub struct Cancellation {
    tokens: Vec<CancelToken>,
    /// Raised by a member that has left items because a token was cancelled.
    cut: Flag,
}

impl Cancellation {
    /// The cancellation of a call by `token`, and by the token of the spawned closure or overlapped lane that this thread runs.
    pub(crate) fn new(token: &CancelToken) -> Self {
        let tokens = std::iter::once(token.clone()).chain(ambient()).collect();
        Self { tokens, cut: Flag::new() }
    }

    /// True if a member that has items at hand has to leave them.
    #[inline]
    pub(crate) fn cuts(&self) -> bool {
        let cuts = self.tokens.iter().any(CancelToken::is_cancelled);
        if cuts {
            self.cut.raise();
        }
        cuts
    }

    /// True if a member has left items.
    pub(crate) fn has_cut(&self) -> bool {
        self.cut.is_up()
    }

    /// `whole`, if no member has left items. A token that was cancelled afterwards does not count.
    pub(crate) fn result<T>(&self, whole: T) -> Result<T, Cancelled> {
        if self.cut.is_up() { Err(Cancelled) } else { Ok(whole) }
    }
}

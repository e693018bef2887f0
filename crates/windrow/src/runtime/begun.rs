//! The begin of a loop: unmeasured or measured.

use super::call::{Entered, at_depth};
use super::hints::{CallPart, Hints};
use super::listen::CallKind;
use super::state::PoolState;
use super::unmeasured::is_unmeasured;

/// A call of which it is known how it begins.
pub(crate) struct BegunCall<'c> {
    pub(super) entered: Entered,
    pub(super) pool: &'c PoolState,
    pub(super) hints: &'c Hints,
    pub(super) items: usize,
    /// Whether it could be shared.
    pub(super) decides: bool,
    pub(super) site: usize,
    /// All items run, without a read of the clock.
    pub(super) unmeasured: bool,
}

impl<'c> BegunCall<'c> {
    /// A call of `items` items. `code`: the address of code that no call of other items runs.
    #[inline]
    pub(crate) fn new(pool: &'c PoolState, hints: &'c Hints, items: usize, code: usize) -> Self {
        let entered = match hints.part {
            CallPart::Silent => Entered::silent(hints.place),
            _ => Entered::new(CallKind::Loop, hints.place),
        };
        let decides = pool.members > 1 && items > 1;
        let site = if decides { entered.site(code, items) } else { 0 };
        let unmeasured = decides
            && entered.reported.is_none()
            && hints.cancellation().is_none()
            && hints.chunk().is_none()
            && is_unmeasured(pool, site, hints.weight(0, items));
        BegunCall { entered, pool, hints, items, decides, site, unmeasured }
    }

    /// True if all items run as one chunk, and the call is not reported: the plain loop.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        (self.unmeasured || !self.decides) && self.entered.reported.is_none() && self.hints.are_plain()
    }

    /// Runs the items of a call that [is plain](Self::is_plain).
    #[inline]
    pub(crate) fn run_plain(&self, f: impl FnOnce()) {
        let _depth = self.decides.then(|| at_depth(self.entered.depth + 1));
        f();
    }
}

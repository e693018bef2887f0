//! How a loop begins: as a plain loop, checked, or measured.

use super::call::{Entered, at_depth};
use super::hints::{CallPart, Hints};
use super::listen::CallKind;
use super::state::PoolState;
use super::unmeasured::{self, CallStart};

/// A call of which it is known how it begins.
pub(crate) struct BegunCall<'c> {
    pub(super) entered: Entered,
    pub(super) pool: &'c PoolState,
    pub(super) hints: &'c Hints,
    pub(super) items: usize,
    /// Whether it could be shared.
    pub(super) decides: bool,
    pub(super) site: usize,
    pub(super) start: CallStart,
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
        let start = match entered.reported {
            None if decides => unmeasured::start(pool, hints, site, items),
            _ => CallStart::Measured,
        };
        BegunCall { entered, pool, hints, items, decides, site, start }
    }

    /// Whether all items run as one chunk, and the call is not reported: the plain loop.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let is_alone = !self.decides || self.start == CallStart::Unmeasured;
        is_alone && self.entered.reported.is_none() && self.hints.are_plain()
    }

    /// Runs the items of a call that [is plain](Self::is_plain).
    #[inline]
    pub(crate) fn run_plain(&self, f: impl FnOnce()) {
        let _depth = self.decides.then(|| at_depth(self.entered.depth + 1));
        f();
    }
}

//! How a call begins: as a plain loop, checked, or measured; and what it is inside of.

use std::cell::Cell;

use super::hints::{CallPart, Hints};
use super::listen::{self, CallKind, Reported};
use super::sites::site_at;
use super::state::PoolState;
use super::unmeasured::{self, CallStart};

/// A call of which it is known how it begins.
pub(crate) struct BegunCall<'c> {
    pub(super) pool: &'c PoolState,
    pub(super) hints: &'c Hints,
    pub(super) items: usize,
    /// The calls that it is inside of.
    pub(super) depth: usize,
    /// Whether it could be shared.
    pub(super) decides: bool,
    pub(super) site: usize,
    pub(super) start: CallStart,
    /// The call, if a listener wants its end.
    pub(super) reported: Option<Reported>,
}

impl<'c> BegunCall<'c> {
    /// A call of `items` items. `code`: the address of code that no call of other items runs.
    #[inline]
    pub(crate) fn new(pool: &'c PoolState, hints: &'c Hints, items: usize, code: usize) -> Self {
        let depth = DEPTH.get();
        let decides = pool.members > 1 && items > 1;
        let site = if decides { site_at(hints.place, code, depth, items) } else { 0 };
        let reported = if hints.part == CallPart::Silent { None } else { listen::call(CallKind::Loop, hints.place) };
        let start = match reported {
            None if decides => unmeasured::start(pool, hints, site, items),
            _ => CallStart::Measured,
        };
        BegunCall { pool, hints, items, depth, decides, site, start, reported }
    }

    /// True if all items run as one chunk, and the call is not reported: the plain loop.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let is_alone = !self.decides || self.start == CallStart::Unmeasured;
        is_alone && self.reported.is_none() && self.hints.are_plain()
    }

    /// Runs the items of a call that [is plain](Self::is_plain).
    #[inline]
    pub(crate) fn run_plain(&self, f: impl FnOnce()) {
        let _inside = self.decides.then(|| InsideCall::new(self.depth, true));
        f();
    }
}

thread_local! {
    /// Calls that this thread is inside of. A worker that has joined is inside of what its caller is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// This thread is inside of a call, until this is dropped.
pub(super) struct InsideCall {
    before: usize,
}

impl InsideCall {
    /// `depth`: the calls that the call is inside of. A call that has nothing to decide does not count.
    #[inline]
    pub(super) fn new(depth: usize, decides: bool) -> Self {
        InsideCall { before: DEPTH.replace(depth + usize::from(decides)) }
    }
}

impl Drop for InsideCall {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(self.before);
    }
}

/// Calls that this thread is inside of.
pub(crate) fn depth() -> usize {
    DEPTH.get()
}

/// This thread is inside of as many calls as the thread that it helps, until this is dropped.
pub(crate) struct AtDepth {
    _inside: InsideCall,
}

impl AtDepth {
    /// `depth`: the calls that the other thread is inside of.
    pub(crate) fn new(depth: usize) -> Self {
        AtDepth { _inside: InsideCall { before: DEPTH.replace(depth) } }
    }
}

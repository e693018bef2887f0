//! How a call begins: as a plain loop, checked, or measured; and what it is inside of.

use std::cell::Cell;

use windrow_plan::Nanos;
use windrow_sync::machine::tick;

use super::explain;
use super::explained::{CallKind, Explained};
use super::hints::{CallPart, Hints};
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
    pub(super) listener: Option<Listener>,
}

impl<'c> BegunCall<'c> {
    /// A call of `items` items. `code`: the address of code that no call of other items runs.
    #[inline]
    pub(crate) fn new(pool: &'c PoolState, hints: &'c Hints, items: usize, code: usize) -> Self {
        let depth = DEPTH.get();
        let decides = pool.members > 1 && items > 1;
        let site = if decides { site_at(hints.place, code, depth, items) } else { 0 };
        let listener = (explain::listens(hints.place) && hints.part != CallPart::Silent).then(|| Listener::new(hints));
        let start = match listener {
            None if decides => unmeasured::start(pool, hints, site, items),
            _ => CallStart::Measured,
        };
        BegunCall { pool, hints, items, depth, decides, site, start, listener }
    }

    /// Whether all items run as one chunk, and the call is not told: the plain loop.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        let is_alone = !self.decides || self.start == CallStart::Unmeasured;
        is_alone && self.listener.is_none() && self.hints.are_plain()
    }

    /// Runs the items of a call that [is plain](Self::is_plain).
    #[inline]
    pub(crate) fn run_plain(&self, f: impl FnOnce()) {
        let _inside = self.decides.then(|| InsideCall::new(self.depth, true));
        f();
    }
}

/// A call that is told.
pub(super) struct Listener {
    pub(super) start: u64,
    _span: explain::ToldCall,
}

impl Listener {
    #[cold]
    fn new(hints: &Hints) -> Self {
        Self { start: tick(), _span: explain::enter(true, CallKind::Loop, hints.place) }
    }

    /// Tells how the call went, which ends now.
    #[cold]
    pub(super) fn tell(self, pool: &PoolState, explained: impl FnOnce(Nanos) -> Explained) {
        explain::tell(explained(pool.nanos(tick().saturating_sub(self.start))));
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

//! One call: how it begins, its region, and its last decision.
//!
//! Loops, joins and scopes, sorts, teams and runs of overlapped lanes decide in their own modules. All of them pass these steps:
//!
//! ```text
//! enter    depth of the thread, site, listener: two thread-local loads
//! region   the caller works; workers join once the caller lets them in, or once they have stood by for long enough
//! end      the driver updates the site, and reports the call if a listener wants that
//! ```
//!
//! [`region`] is the only opener of regions. For the caller it notes the CPU and moves pinned workers before it wakes one, and records
//! the end. For a worker it records the wait that has ended, moves the worker off the caller's CPU, and sets the worker's depth. A region
//! that the caller never opens costs no read of the clock and no atomic access.

use std::cell::Cell;

use windrow_plan::Nanos;
use windrow_plan::share::StandBy;
use windrow_sync::Spin;
use windrow_sync::gate::{Door, Gate, JoinedWorker};
use windrow_sync::machine::tick;
use windrow_sync::unwind::Finally;

use super::hooks::InCall;
use super::listen::{self, Account, CallKind, CallPlace, Region, Reported};
use super::sites::site_at;
use super::state::PoolState;

thread_local! {
    static HERE: ThreadCalls = const { ThreadCalls { depth: Cell::new(0), global: Cell::new(0), at_end: Cell::new(None) } };
}

/// The calls that a thread is inside.
pub(super) struct ThreadCalls {
    /// Their number. A worker that has joined is as deep as its caller.
    depth: Cell<usize>,
    /// Calls on the global pool, and the function to call at the end of the outermost one: see [`hooks`](super::hooks).
    pub(super) global: Cell<u32>,
    pub(super) at_end: Cell<Option<fn()>>,
}

/// The calls that this thread is inside.
#[inline]
pub(super) fn here<R>(f: impl FnOnce(&ThreadCalls) -> R) -> R {
    HERE.with(f)
}

/// This thread's number, unique among live threads.
#[inline]
pub(crate) fn thread_number() -> u64 {
    here(|here| std::ptr::from_ref(here).addr() as u64)
}

/// Not generic: the access is inlined here, whatever the caller's profile.
fn depth() -> usize {
    here(|here| here.depth.get())
}

/// Makes `depth` the depth of this thread, until the result is dropped.
#[inline]
pub(crate) fn at_depth(depth: usize) -> Finally<impl FnMut()> {
    let before = here(|here| here.depth.replace(depth));
    Finally(move || here(|here| here.depth.set(before)))
}

/// A call that has begun.
pub(crate) struct Entered {
    place: CallPlace,
    /// Calls around it.
    pub(crate) depth: usize,
    /// The call, if a listener wants its end.
    pub(crate) reported: Option<Box<Reported>>,
}

impl Entered {
    #[inline]
    pub(crate) fn new(kind: CallKind, place: CallPlace) -> Self {
        Entered { reported: listen::call(kind, place), ..Self::silent(place) }
    }

    /// A call that is a part of a reported one.
    #[inline]
    pub(crate) fn silent(place: CallPlace) -> Self {
        Entered { place, depth: here(|here| here.depth.get()), reported: None }
    }

    /// Key of its site, for about `items` items. `code`: the address of code that no call of other items runs.
    #[inline]
    pub(crate) fn site(&self, code: usize, items: usize) -> usize {
        site_at(self.place, code, self.depth, items)
    }
}

/// The members of a region that has ended.
#[derive(Clone, Copy)]
pub(crate) struct RegionEnd {
    /// Members that it was open to, the caller included.
    pub(crate) open: usize,
    /// Members that have entered it, the caller included.
    pub(crate) entered: usize,
    /// Tick of its end; `None` if it was not open.
    pub(crate) at: Option<u64>,
}

/// Runs `lead` on the caller, with the door through which it lets workers in, and `work` on each worker that joins, with the tick of the
/// join.
#[inline]
pub(crate) fn region<R>(
    pool: &PoolState,
    region: &Region,
    work: impl Fn(JoinedWorker, u64) + Sync,
    lead: impl FnOnce(&CallDoor<'_>) -> R,
) -> (R, RegionEnd) {
    let depth = depth();
    let serve = |joined: JoinedWorker| {
        let now = tick();
        pool.joined(joined.worker, now);
        let _reported = region.worker();
        let _depth = at_depth(depth);
        let _inside = pool.is_global().then(InCall::begin);
        work(joined, now);
    };
    let (result, open, entered) = pool.gate.region(&serve, pool.settle, |door| {
        let door = CallDoor { pool, door, width: Cell::new(1), stands_by: Cell::new(false) };
        let result = lead(&door);
        let entered = door.members();
        (result, door.width.get().max(entered), entered)
    });
    let at = (open > 1).then(tick);
    if let Some(now) = at {
        pool.ended(now);
    }
    (result, RegionEnd { open, entered, at })
}

/// A region of a gate that no pool of windrow has, for pools of another kind.
#[doc(hidden)]
pub fn region_of<R>(gate: &Gate, serve: &(dyn Fn(JoinedWorker) + Sync), lead: impl FnOnce(&Door<'_>) -> R) -> R {
    gate.region(serve, Spin::NONE, lead)
}

/// The caller's access to its region.
pub(crate) struct CallDoor<'d> {
    pool: &'d PoolState,
    door: &'d Door<'d>,
    /// Members that the region is open to, the caller included.
    width: Cell<usize>,
    /// Workers join when they are due.
    stands_by: Cell<bool>,
}

impl CallDoor<'_> {
    /// Lets up to `width - 1` workers in at once; `wakes` if those awake are too few. Returns false if no lane is free, or the pool has
    /// ended.
    pub(crate) fn open(&self, width: usize, wakes: bool) -> bool {
        self.pool.opens(wakes);
        if self.stands_by.get() {
            self.door.open_now();
        } else if !self.door.open(width) {
            return false;
        }
        self.width.set(width);
        true
    }

    /// Lets workers in when their patience ends. Without effect if too few lanes are free.
    pub(crate) fn stand_by(&self, StandBy { width, patience, wakes }: StandBy) {
        self.pool.opens(wakes);
        self.stands_by.set(self.door.open_at(tick() + self.pool.ticks(patience), width));
    }

    /// True if workers were let in at once.
    pub(crate) fn is_open(&self) -> bool {
        self.width.get() > 1
    }

    /// True if workers stand by, or did before they were let in.
    pub(crate) fn has_stand_by(&self) -> bool {
        self.stands_by.get()
    }

    /// Members that have entered so far, the caller included.
    #[inline]
    pub(crate) fn members(&self) -> usize {
        1 + self.door.joined()
    }

    /// Workers that have entered and not left.
    pub(crate) fn inside(&self) -> usize {
        self.door.inside()
    }
}

/// The last decision of a call, with predicted times of the rest.
#[derive(Clone, Copy)]
pub(crate) struct LastChoice {
    pub(crate) why: &'static str,
    pub(crate) serial: Option<Nanos>,
    pub(crate) shared: Option<Nanos>,
    /// Times are known from earlier calls at the site.
    pub(crate) is_known: bool,
    /// Time from the start of the call to the decision.
    pub(crate) since: Nanos,
}

impl LastChoice {
    /// The account of a call that began `before` its first decision could be made. `shared`: how it was shared, if it was.
    pub(crate) fn account(self, shared: Option<String>, before: Nanos) -> Account {
        let whole = |rest: Option<Nanos>| rest.map(|rest| Nanos(before.0 + self.since.0 + rest.0));
        let times = (whole(self.serial), whole(self.shared));
        let (predicted, other) = match shared {
            Some(_) => (times.1, times.0.map(|time| ("serial", time))),
            None => (times.0, times.1.map(|time| ("shared", time))),
        };
        let reason = format!("{}: {}", shared.as_deref().unwrap_or("serial"), self.why).into();
        Account { reason, predicted, alternatives: [other, None], from_memory: self.is_known }
    }
}

//! Fork and join: `join`, and the trees of nested joins.

use std::cell::Cell;
use std::panic::Location;

use windrow_plan::Nanos;
use windrow_plan::share::{self, Recursion, ShareChoice, ShareDecision};
use windrow_plan::site::ItemCost;
use windrow_sync::gate::JoinedWorker;
use windrow_sync::join as sync;
use windrow_sync::join::tree::{Asked, OfferDecision, Tree};
use windrow_sync::machine::tick;

use crate::runtime::call::{Entered, LastChoice, RegionEnd, region};
use crate::runtime::listen::{Account, CallKind, CallPlace, Event, Region};
use crate::runtime::pool;
use crate::runtime::sites::SiteStats;
use crate::runtime::state::PoolState;
use crate::runtime::unmeasured::unmeasured;

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `a` runs on this thread. `b` runs after `a`, unless another member of the pool has stolen `b`. `join` is made for recursion: a
/// join that is not shared costs a few nanoseconds, so recursion needs no cut-off. About every 20 microseconds
/// (sooner if members are idle) the oldest open join is offered to other members. A waiting join runs only parts of the half that it
/// waits for, so a lock may be held across `join`, unless the halves take it.
///
/// # Halves that wait for each other
/// `join(|| receive(), || send())` ends if a worker of the pool is free: [the page on calls](crate#parts-that-wait-for-each-other) says what
/// else is promised. A join inside a join promises nothing: `b` is offered to other members only while `a` makes further joins.
///
/// The idea is heartbeat scheduling (Acar, Charguéraud and Rainey, PLDI 2018); Spice and chili showed how cheap it is.
///
/// ```
/// fn sum(of: &[u64]) -> u64 {
///     if of.len() <= 8 {
///         return of.iter().sum();
///     }
///     let (left, right) = of.split_at(of.len() / 2);
///     let (left, right) = windrow::join(|| sum(left), || sum(right));
///     left + right
/// }
/// assert_eq!(sum(&(1..=1000).collect::<Vec<_>>()), 500_500);
/// ```
///
/// # Panics
/// With the payload of `a` if `a` panics, else with that of `b`. Both have run by then.
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let place = Location::caller();
    sync::join(a, b, |a, b| outermost(place, a, b))
}

#[inline(never)]
fn outermost<A, B, RA, RB>(place: &'static Location<'static>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let code = outermost::<A, B, RA, RB> as fn(&'static Location<'static>, A, B) -> (RA, RB) as usize;
    rooted(Some(place), code, || sync::join(a, b, |_, _| unreachable!("a tree has just begun")))
}

/// Runs `f` in a new tree of joins. `place` and `code` identify the call site. The times of its earlier calls say when to let other members
/// in.
pub(crate) fn rooted<R>(place: CallPlace, code: usize, f: impl FnOnce() -> R) -> R {
    pool::with_current(|pool| {
        let Some(call) = Measured::new(pool, place, code) else {
            return grow(pool, (CallKind::Join, place), None, UNMEASURED, false, f).0;
        };
        let start = tick();
        let (result, grown) = grow(pool, (CallKind::Join, place), call.expected(), 0, !call.known.ended_alone, f);
        call.end(pool, pool.nanos(tick().saturating_sub(start)), &grown);
        result
    })
}

/// A call of `join` or `scope` whose duration its site will remember.
struct Measured {
    entered: Entered,
    site: usize,
    /// Durations of earlier calls.
    known: ItemCost,
}

impl Measured {
    /// `None` if the call is to run unmeasured. Not generic: its thread-local accesses are then inlined, whatever the caller's profile.
    fn new(pool: &PoolState, place: CallPlace, code: usize) -> Option<Self> {
        let entered = Entered::new(CallKind::Join, place);
        let site = entered.site(code, 1);
        if entered.reported.is_none() && unmeasured(pool, site, 1) > 0 {
            return None;
        }
        Some(Measured { entered, site, known: pool.sites.recall(site).known })
    }

    /// Predicted serial time.
    fn expected(&self) -> Option<Nanos> {
        self.known.trusted().map(|known| known.per_item)
    }

    fn end(self, pool: &PoolState, time: Nanos, grown: &Grown) {
        let expected = self.expected();
        if let Some(reported) = self.entered.reported {
            let account = Account { from_memory: expected.is_some(), ..grown.account(Nanos(0.0)) };
            let event = Event { took: time, threads: grown.end.entered, ..reported.event(&account) };
            reported.end(&event);
        }
        let contradicted = share::contradicts(time, expected.unwrap_or_default(), pool.guess());
        let known = self.known.after_call(time, grown.end.open, contradicted);
        pool.remember(self.site, SiteStats { known, long: None });
    }
}

/// Runs a sort at `place` in a new tree of joins, with a predicted serial time.
pub(crate) fn expecting(pool: &PoolState, alone: Nanos, place: CallPlace, sort: impl FnOnce()) -> Grown {
    grow(pool, (CallKind::Sort, place), Some(alone), 0, false, sort).1
}

/// A tree of joins that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Grown {
    pub(crate) end: RegionEnd,
    choice: Option<LastChoice>,
}

impl Grown {
    /// The decision in words, and predictions, for a call that lasted for `before` when the tree began.
    pub(crate) fn account(&self, before: Nanos) -> Account {
        let Some(choice) = self.choice else {
            return Account::because("serial: the call ended before a decision was worthwhile");
        };
        choice.account((self.end.open > 1).then(|| format!("opened after {}", choice.since)), before)
    }
}

/// Runs `f` in a new tree of joins. The clock is first read after `patience` joins. If `stands_by`, workers may come without being let in,
/// when the call has lasted for a wake.
#[inline]
fn grow<R>(
    pool: &PoolState,
    (kind, place): (CallKind, CallPlace),
    known: Option<Nanos>,
    patience: u32,
    stands_by: bool,
    f: impl FnOnce() -> R,
) -> (R, Grown) {
    let mut tree = Tree::new(pool.members, pool.join_timing);
    let (lead, tree) = tree.lead();
    if pool.members == 1 {
        let end = RegionEnd { open: 1, entered: 1, at: None };
        return (lead.grow(u32::MAX / 2, &|_| OfferDecision::Never, f), Grown { end, choice: None });
    }
    let choice = Cell::new(None);
    let work = |_: JoinedWorker, _| tree.serve();
    let (result, end) = region(pool, &Region::new(kind, place, None), work, |door| {
        let ask = |asked: &Asked<'_>| {
            let (age, now) = (pool.nanos(asked.age()), tick());
            let (state, costs) = (pool.workers(), pool.costs(now));
            let recursion = Recursion { age, known };
            let ShareChoice { choice: decision, why, shared } = share::recursion(recursion, &state, &costs);
            let serial = Some(recursion.rest());
            choice.set(Some(LastChoice { why, serial, shared, is_known: false, since: age }));
            match decision {
                ShareDecision::Open { width } => {
                    asked.furnish();
                    match door.open(width, width > state.idle + 1) {
                        true => OfferDecision::Opened,
                        false => OfferDecision::Later(pool.ticks(Nanos(age.0 + costs.machine.heartbeat().0))),
                    }
                }
                ShareDecision::Wait { until } => OfferDecision::Later(pool.ticks(until)),
                ShareDecision::Alone => OfferDecision::Never,
            }
        };
        // The duration of the call is unknown.
        let by = || share::stands_by(ItemCost::default(), 0, usize::MAX, || (pool.workers(), pool.machine()));
        if let Some(by) = stands_by.then(by).flatten() {
            lead.furnish();
            door.stand_by(by);
        }
        lead.grow(patience, &ask, f)
    });
    (result, Grown { end, choice: choice.get() })
}

/// Joins before a call that is not timed reads the clock. Only calls at sites with short calls are not timed.
///
/// Measure: count of joins.
const UNMEASURED: u32 = 8;

//! Fork and join: `join`, and the trees of nested joins.

use std::cell::Cell;
use std::panic::Location;

use windrow_plan::share::{self, Recursion, ShareDecision, StandBy};
use windrow_plan::site::ItemCost;
use windrow_plan::{Decision, Nanos};
use windrow_sync::gate::JoinedWorker;
use windrow_sync::join as sync;
use windrow_sync::join::tree::{Asked, OfferDecision, Tree};
use windrow_sync::machine::tick;

use crate::runtime::listen::{self, Account, CallKind, CallPlace, Ended, Region, Reported};
use crate::runtime::pool;
use crate::runtime::sites::site;
use crate::runtime::state::PoolState;

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `a` runs on this thread. `b` runs after `a`, unless another member of the pool has stolen `b`. `join` is made for recursion: a
/// join that is not shared costs a few nanoseconds, so recursion needs no cut-off. About every 20 microseconds
/// (sooner if members are idle) the oldest open join is offered to other members. A waiting join runs only parts of the half that it
/// waits for, so a lock may be held across `join`, unless the halves take it.
///
/// # Halves that wait for each other
/// `join(|| receive(), || send())` ends if a worker of the pool is free: [the page on calls](crate#parts-that-wait-for-each-other) says what
/// else is promised. A join inside of a join promises nothing: `b` is offered to other members only while `a` makes further joins.
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
    join_at(Location::caller(), a, b)
}

/// [`join`], which was called at `place`.
#[inline]
pub(crate) fn join_at<A, B, RA, RB>(place: &'static Location<'static>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
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
pub(crate) fn rooted<R>(place: Option<&'static Location<'static>>, code: usize, f: impl FnOnce() -> R) -> R {
    let site = site(place, code);
    pool::with_current(|pool| {
        let known = pool.sites.recall_calls(site);
        let reported = listen::call(CallKind::Join, place);
        let growth = Growth::new(CallKind::Join, KIND, place);
        if known.are_shorter(pool.short_call) && reported.is_none() && !is_to_measure() {
            return grow(pool, None, UNMEASURED, false, &growth, f).0;
        }
        let known = known.unpack();
        let start = tick();
        let (result, grown) = grow(pool, known.next(), 0, !known.alone, &growth, f);
        let time = pool.nanos(tick().saturating_sub(start));
        if let Some(reported) = reported {
            growth.end(reported, known.next().is_some(), grown, time);
        }
        pool.sites.remember_calls(site, known.after(time, grown.open));
        result
    })
}

/// Runs `f`, a call inside the tree of joins of this thread.
#[inline]
pub(crate) fn part_of_recursion<R>(place: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    let reported = listen::call(CallKind::Join, Some(place));
    let result = f();
    if let Some(reported) = reported {
        reported.end_because("as part of the recursion around it");
    }
    result
}

/// Runs `f` in a new tree of joins, with a predicted serial time.
pub(crate) fn expecting<R>(alone: Nanos, growth: &Growth, f: impl FnOnce() -> R) -> (R, Grown) {
    pool::with_current(|pool| grow(pool, Some(alone), 0, false, growth, f))
}

/// The members of a tree of joins that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Grown {
    /// The members that the tree was open to.
    pub(crate) open: usize,
    /// The members that have entered it, the caller included.
    pub(crate) entered: usize,
}

/// A recursion: its region, and its last decision.
pub(crate) struct Growth {
    decision: Cell<Option<Decision<Recursion, ShareDecision>>>,
    region: Region,
}

impl Growth {
    /// The recursion of a call that is named as in "the sort at".
    pub(crate) fn new(kind: CallKind, name: &'static str, place: CallPlace) -> Self {
        Growth { decision: Cell::new(None), region: Region::new(kind, name, place) }
    }

    /// Reports the recursion, which took `took`. `is_known`: its time was known from earlier calls.
    #[cold]
    fn end(&self, reported: Reported, is_known: bool, grown: Grown, took: Nanos) {
        let account = Account { from_memory: is_known, ..self.account(grown, Nanos(0.0)) };
        reported.end(&Ended::new(0, took, &account).on(grown.entered));
    }

    /// The decision in words, and predictions, for a call that lasted for `before` when the recursion began.
    pub(crate) fn account(&self, grown: Grown, before: Nanos) -> Account {
        let Some(decision) = self.decision.get() else {
            let reason = "serial: it ended before it was worth a decision".into();
            return Account { reason, ..Account::default() };
        };
        let since = decision.inputs.age;
        let from_start = |name| {
            let found = decision.alternatives.iter().find(|alternative| alternative.name == name);
            found.map(|alternative| Nanos(before.0 + since.0 + alternative.predicted.0))
        };
        let (alone, shared) = (from_start("alone"), from_start("shared"));
        let or = |name, time: Option<Nanos>| [time.map(|time| (name, time)), None];
        if grown.open > 1 {
            let reason = format!("opened after {since}: {}", decision.why).into();
            return Account { reason, predicted: shared, alternatives: or("serial", alone), from_memory: false };
        }
        let reason = format!("serial: {}", decision.why).into();
        Account { reason, predicted: alone, alternatives: or("shared", shared), from_memory: false }
    }
}

/// Runs `f` in a new tree of joins. The clock is first read after `patience` joins. If `stands_by`, workers may come without being let in, when the call has lasted for a wake.
#[inline]
fn grow<R>(
    pool: &PoolState,
    known: Option<Nanos>,
    patience: u32,
    stands_by: bool,
    growth: &Growth,
    f: impl FnOnce() -> R,
) -> (R, Grown) {
    let mut tree = Tree::new(pool.members, pool.join_timing);
    let (lead, tree) = tree.lead();
    if pool.members == 1 {
        return (lead.grow(u32::MAX / 2, &|_| OfferDecision::Never, f), Grown { open: 1, entered: 1 });
    }
    let (opened, entered, is_delayed) = (Cell::new(1), Cell::new(1), Cell::new(false));
    let region = &growth.region;
    let serve = |joined: JoinedWorker| {
        pool.joined(joined.worker, tick());
        let _part = region.part();
        tree.serve();
    };
    let result = pool.gate.region(&serve, pool.settle, |door| {
        let ask = |asked: &Asked<'_>| {
            let open = |width, wakes| {
                asked.furnish();
                pool.opens(wakes);
                if is_delayed.get() {
                    door.open_now();
                }
                is_delayed.get() || door.open(width)
            };
            let (age, now) = (pool.nanos(asked.age()), tick());
            let (state, costs) = (pool.workers(), pool.costs(now));
            let decision = share::recursion(Recursion { age, known }, &state, &costs);
            growth.decision.set(Some(decision));
            match decision.choice {
                ShareDecision::Open { width } if open(width, width > state.idle + 1) => {
                    opened.set(width);
                    OfferDecision::Opened
                }
                ShareDecision::Open { .. } => {
                    OfferDecision::Later(pool.ticks(Nanos(age.0 + costs.machine.heartbeat().0)))
                }
                ShareDecision::Wait { until } => OfferDecision::Later(pool.ticks(until)),
                ShareDecision::Alone => OfferDecision::Never,
            }
        };
        if let Some(by) = stands_by.then(|| standing_by(pool)).flatten() {
            lead.furnish();
            pool.opens(by.wakes);
            is_delayed.set(door.open_at(tick() + pool.ticks(by.patience), by.width));
        }
        let result = lead.grow(patience, &ask, f);
        entered.set(door.joined() + 1);
        opened.set(opened.get().max(entered.get()));
        result
    });
    if opened.get() > 1 {
        pool.ended(tick());
    }
    (result, Grown { open: opened.get(), entered: entered.get() })
}

/// The workers that stand by for a call whose duration is unknown.
#[cold]
fn standing_by(pool: &PoolState) -> Option<StandBy> {
    let costs = pool.costs(tick());
    share::stands_by(ItemCost::default(), 0, usize::MAX, &pool.workers(), &costs)
}

/// The kind of a watched call.
const KIND: &str = "join or scope";

/// Joins before a call that is not timed reads the clock. Only calls at sites with short calls are not timed.
///
/// Measure: count of joins.
const UNMEASURED: u32 = 8;
/// One in so many of a thread's short calls is timed.
///
/// Measure: count of calls.
const MEASURED: u32 = 16;

thread_local! {
    static SHORT_CALLS: Cell<u32> = const { Cell::new(0) };
}

fn is_to_measure() -> bool {
    SHORT_CALLS.with(|calls| {
        let number = calls.get().wrapping_add(1);
        calls.set(number);
        number.is_multiple_of(MEASURED)
    })
}

/// Both halves must be Send.
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// windrow::join(|| 1, || *shared);
/// ```
#[cfg(doctest)]
struct HalvesMustBeSend;

/// Results must be Send.
/// ```compile_fail,E0277
/// windrow::join(|| 1, || std::rc::Rc::new(1));
/// ```
#[cfg(doctest)]
struct ResultsMustBeSend;

/// The halves do not write to the same variable.
/// ```compile_fail,E0499
/// let mut sum = 0;
/// windrow::join(|| sum += 1, || sum += 2);
/// ```
#[cfg(doctest)]
struct TheHalvesDoNotShareAPlace;

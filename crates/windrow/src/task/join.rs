//! Fork and join: `join`, and the trees of nested joins.

use std::cell::Cell;
use std::panic::Location;
use std::time::Instant;

use windrow_plan::share::{self, Recursion, ShareDecision, StandBy};
use windrow_plan::site::ItemCost;
use windrow_plan::{Decision, Nanos};
use windrow_sync::gate::JoinedWorker;
use windrow_sync::join as sync;
use windrow_sync::join::tree::{Asked, OfferDecision, Tree};
use windrow_sync::machine::tick;

use crate::runtime::explain;
use crate::runtime::explained::{CallKind, Explained};
use crate::runtime::pool;
use crate::runtime::sites::site;
use crate::runtime::stall::CallWatch;
use crate::runtime::state::PoolState;
use crate::runtime::trace::{self, TracedCall};

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
        let listens = explain::listens(place);
        if known.are_shorter(pool.short_call) && !listens && !is_to_measure() {
            return grow(pool, None, UNMEASURED, false, &Told::default().watched(KIND, place), f).0;
        }
        let known = known.unpack();
        let start = tick();
        let _span = explain::enter(listens, CallKind::Join, place);
        let told = Told::of_call(listens).watched(KIND, place);
        let (result, grown) = grow(pool, known.next(), 0, !known.alone, &told, f);
        let time = pool.nanos(tick().saturating_sub(start));
        if listens {
            let explained = Explained::new(CallKind::Join, place, 0, time).remembered(known.next().is_some());
            explain::tell(told.explained(explained, grown));
        }
        pool.sites.remember_calls(site, known.after(time, grown.open));
        result
    })
}

/// Runs `f` inside of the tree of joins of this thread, and tells it.
#[inline]
pub(crate) fn part_of_recursion<R>(place: &'static Location<'static>, f: impl FnOnce() -> R) -> R {
    if !explain::listens(Some(place)) {
        return f();
    }
    let begun = Instant::now();
    let _call = explain::enter(true, CallKind::Join, Some(place));
    let result = f();
    let took = Nanos(begun.elapsed().as_nanos() as f64);
    explain::tell(Explained::new(CallKind::Join, Some(place), 0, took).because("as part of the recursion around it"));
    result
}

/// Runs `f` in a new tree of joins, with a predicted serial time.
pub(crate) fn expecting<R>(alone: Nanos, told: &Told, f: impl FnOnce() -> R) -> (R, Grown) {
    pool::with_current(|pool| grow(pool, Some(alone), 0, false, told, f))
}

/// The members of a tree of joins that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Grown {
    /// The members that the tree was open to.
    pub(crate) open: usize,
    /// The members that have entered it, the caller included.
    entered: usize,
}

/// What a recursion tells.
#[derive(Default)]
pub(crate) struct Told {
    /// The last decision.
    decision: Cell<Option<Decision<Recursion, ShareDecision>>>,
    /// The call that the recursion is, for the trace.
    call: Option<TracedCall>,
    /// The members, for a call that waits long.
    watch: CallWatch,
}

impl Told {
    /// For the innermost call of this thread, if the thread `listens` to it.
    pub(crate) fn of_call(listens: bool) -> Self {
        Self { call: trace::around(listens), ..Self::default() }
    }

    /// For a call of this kind, which is watched.
    pub(crate) fn watched(self, kind: &'static str, place: Option<&'static Location<'static>>) -> Self {
        Self { watch: CallWatch::new(explain::is_reported(), kind, place), ..self }
    }

    /// An entry for the sink.
    pub(crate) fn explained(&self, explained: Explained, grown: Grown) -> Explained {
        let explained = explained.on(grown.entered);
        let Some(decision) = self.decision.get() else {
            return explained.because("serial: it ended before it was worth a decision");
        };
        let since = decision.inputs.age;
        let from_start = |name| {
            let found = decision.alternatives.iter().find(|alternative| alternative.name == name);
            found.map(|alternative| Nanos(since.0 + alternative.predicted.0))
        };
        let (alone, shared) = (from_start("alone"), from_start("shared"));
        if grown.open > 1 {
            let reason = format!("opened after {since}: {}", decision.why);
            return explained.predicted_to_take(shared).or("serial", alone).because(reason);
        }
        let reason = format!("serial: {}", decision.why);
        explained.predicted_to_take(alone).or("shared", shared).because(reason)
    }
}

/// Runs `f` in a new tree of joins. The clock is first read after `patience` joins. If `stands_by`, workers may come without being let in, when the call has lasted for a wake.
#[inline]
fn grow<R>(
    pool: &PoolState,
    known: Option<Nanos>,
    patience: u32,
    stands_by: bool,
    told: &Told,
    f: impl FnOnce() -> R,
) -> (R, Grown) {
    let mut tree = Tree::new(pool.members, pool.join_timing);
    let (lead, tree) = tree.lead();
    if pool.members == 1 {
        return (lead.grow(u32::MAX / 2, &|_| OfferDecision::Never, f), Grown { open: 1, entered: 1 });
    }
    let (opened, entered, is_delayed) = (Cell::new(1), Cell::new(1), Cell::new(false));
    let (call, watch) = (told.call, &told.watch);
    let serve = |joined: JoinedWorker| {
        pool.joined(joined.worker, tick());
        let _part = trace::part_of(call);
        let _watch = watch.member();
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
            told.decision.set(Some(decision));
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

//! Fork and join: `join`, and the trees of nested joins.

use std::cell::Cell;
use std::panic::Location;

use windrow_plan::Nanos;
use windrow_plan::heartbeat::{self, CallTime, Helpers, PollIntervals, Recursion, ShareDecision};
use windrow_sync::join as sync;
use windrow_sync::join::tree::{self, Asked, OfferDecision, Tree};
use windrow_sync::machine::tick;

use crate::runtime::pool;
use crate::runtime::sites::{site, slot};
use crate::runtime::state::PoolState;

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `a` runs on this thread. `b` runs after it, unless another member of the pool has stolen it. `join` is made for recursion: a
/// join that is not shared costs a few nanoseconds, so recursion needs no cut-off. About every 20 microseconds
/// (sooner if members are idle) the oldest open join is offered to other members. A waiting join runs only parts of the half that it
/// waits for, so a lock held across `join` causes no deadlock.
///
/// # Halves that wait for each other
/// may wait for ever: `join(|| receive(), || send())` does not end, on any pool. `b` is offered to other members only while `a`
/// makes further joins, and there may be no other member. rayon offers `b` before `a` begins.
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
    rooted(site(Some(place), code), || sync::join(a, b, |_, _| unreachable!("a tree has just begun")))
}

/// Runs `f` in a new tree. `site` identifies the call site; the times of its earlier calls say when to let other members in.
pub(crate) fn rooted<R>(site: usize, f: impl FnOnce() -> R) -> R {
    pool::with_current(|pool| {
        MEMORY.with(|places| {
            let place = &places[slot(site, PLACES)];
            if !place.is_to_measure(site) {
                return grow(pool, &|| place.known(site), UNMEASURED, f).0;
            }
            let start = tick();
            let (result, members) = grow(pool, &|| place.known(site), 0, f);
            place.keep(site, pool.nanos(tick().saturating_sub(start)), members);
            result
        })
    })
}

/// Runs `f` in a new tree, with a known serial time.
pub(crate) fn expecting<R>(alone: Nanos, f: impl FnOnce() -> R) -> R {
    pool::with_current(|pool| grow(pool, &|| Some(alone), 0, f).0)
}

/// Runs `f` in a new tree, and returns the number of members that it was open to. The clock is first read after `patience` joins.
#[inline]
fn grow<R>(pool: &PoolState, known: &dyn Fn() -> Option<Nanos>, patience: u32, f: impl FnOnce() -> R) -> (R, usize) {
    let mut tree = Tree::new(pool.members, rhythm(pool));
    let (lead, tree) = tree.lead();
    if pool.members == 1 {
        return (lead.grow(u32::MAX / 2, &|_| OfferDecision::Never, f), 1);
    }
    let opened = Cell::new(1);
    let serve = |member| {
        pool.joined(member, tick());
        tree.serve();
    };
    let result = pool.gate.region(&serve, pool.settle, |door| {
        let ask = |asked: &Asked<'_>| {
            let open = |now, width, wakes| {
                asked.furnish();
                pool.opens(now, wakes);
                door.open(width)
            };
            let (age, now) = (pool.nanos(asked.age()), tick());
            let (state, costs) = (pool.workers(), pool.costs(now));
            let enter = if state.idle > 0 { costs.enter_idle } else { costs.enter_asleep };
            let helpers = Helpers { width: state.most, enter, busy: state.busy };
            match heartbeat::decide(Recursion { age, known: known() }, helpers).choice {
                ShareDecision::Open { width } if open(now, width, width > state.idle + 1) => {
                    opened.set(width);
                    OfferDecision::Opened
                }
                ShareDecision::Open { .. } => {
                    OfferDecision::Later(ticks(pool, Nanos(age.0 + PollIntervals::MEASURED.alone.0)))
                }
                ShareDecision::Wait { until } => OfferDecision::Later(ticks(pool, until)),
                ShareDecision::Alone => OfferDecision::Never,
            }
        };
        lead.grow(patience, &ask, f)
    });
    if opened.get() > 1 {
        pool.ended(tick());
    }
    (result, opened.get())
}

fn ticks(pool: &PoolState, time: Nanos) -> u64 {
    pool.ticks(time)
}

fn rhythm(pool: &PoolState) -> tree::JoinTiming {
    let PollIntervals { look, hungry, alone } = PollIntervals::MEASURED;
    tree::JoinTiming {
        look: ticks(pool, look),
        hungry: ticks(pool, hungry),
        alone: ticks(pool, alone),
        idle: pool.settle,
        settle: pool.settle,
    }
}

/// Slots for call sites in each thread. Two sites with the same slot overwrite each other.
const PLACES: usize = 64;
/// Joins before an unmeasured call reads the clock. Only calls at sites with short calls are not measured.
const UNMEASURED: u32 = 8;

thread_local! {
    /// This thread's statistics of outermost calls, by call site.
    static MEMORY: [JoinSite; PLACES] = const { [const { JoinSite::new() }; PLACES] };
}

/// Statistics of a call site.
struct JoinSite {
    site: Cell<usize>,
    known: Cell<CallTime>,
    /// Calls until the next measured one: two clock reads would take longer than a short call.
    skip: Cell<u32>,
}

impl JoinSite {
    const fn new() -> Self {
        JoinSite { site: Cell::new(0), known: Cell::new(CallTime::NOTHING), skip: Cell::new(0) }
    }

    fn is_to_measure(&self, site: usize) -> bool {
        let skip = self.skip.get();
        if self.site.get() != site || skip == 0 {
            return true;
        }
        self.skip.set(skip - 1);
        false
    }

    fn known(&self, site: usize) -> Option<Nanos> {
        if self.site.get() == site { self.known.get().next() } else { None }
    }

    fn keep(&self, site: usize, time: Nanos, members: usize) {
        let known = if self.site.replace(site) == site { self.known.get() } else { CallTime::NOTHING };
        self.known.set(known.after(time, members));
        self.skip.set(if time.0 < 1000.0 { 15 } else { 0 });
    }
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

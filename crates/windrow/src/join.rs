//! Fork and join: `join`, and the trees that joins grow in.

use std::cell::Cell;

use windrow_plan::Nanos;
use windrow_plan::heartbeat::{self, Beat, Helpers, Known, Recursion, Rhythm};
use windrow_sync::join as sync;
use windrow_sync::join::tree::{self, Answer, Asked, Tree};
use windrow_sync::machine::tick;

use crate::crew::Crew;
use crate::pool;

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `a` runs on this thread. `b` runs after it, unless another member of the pool has taken it meanwhile. Made for recursion: a
/// join that is not shared costs a few nanoseconds, so nothing has to be cut off by hand, and about every 20 microseconds
/// (sooner if others have nothing to do) the oldest one of those that are open is offered to others. A waiting join runs
/// nothing but parts of what it waits for, so locks that are held over it cannot deadlock by it.
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
/// With the payload of `a` if that panics, else with that of `b`. Both have run by then, whichever panics.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    sync::join(a, b, outermost)
}

#[inline(never)]
fn outermost<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let site = outermost::<A, B, RA, RB> as fn(A, B) -> (RA, RB) as usize;
    rooted(site, || sync::join(a, b, |_, _| unreachable!("a tree has just begun")))
}

/// Runs `f` in a tree of its own. `site` tells calls of one place from calls of others: what it remembers of them says when to let
/// others in.
pub(crate) fn rooted<R>(site: usize, f: impl FnOnce() -> R) -> R {
    pool::with_current(|crew| {
        MEMORY.with(|places| {
            // Functions lie 16 bytes apart.
            let place = &places[(site >> 4) % PLACES];
            if !place.is_to_measure(site) {
                return grow(crew, &|| place.known(site), UNMEASURED, f).0;
            }
            let start = tick();
            let (result, members) = grow(crew, &|| place.known(site), 0, f);
            place.keep(site, crew.nanos(tick().saturating_sub(start)), members);
            result
        })
    })
}

/// The same if it is known how long it would take alone.
pub(crate) fn expecting<R>(alone: Nanos, f: impl FnOnce() -> R) -> R {
    pool::with_current(|crew| grow(crew, &|| Some(alone), 0, f).0)
}

/// Runs `f` in a tree of its own, and says to how many members it was open. The clock is first looked at after `patience` joins.
#[inline]
fn grow<R>(crew: &Crew, known: &dyn Fn() -> Option<Nanos>, patience: u32, f: impl FnOnce() -> R) -> (R, usize) {
    let mut tree = Tree::new(crew.members, rhythm(crew));
    let (lead, tree) = tree.lead();
    if crew.members == 1 {
        return (lead.grow(u32::MAX / 2, &|_| Answer::Never, f), 1);
    }
    let opened = Cell::new(1);
    let serve = |member| {
        crew.joined(member, tick());
        tree.serve();
    };
    let result = crew.gate.region(&serve, crew.settle, |door| {
        let ask = |asked: &Asked<'_>| {
            let open = |now, width, wakes| {
                asked.furnish();
                crew.opens(now, wakes);
                door.open(width)
            };
            let (age, now) = (crew.nanos(asked.age()), tick());
            let (state, costs) = (crew.state(), crew.costs(now));
            let enter = if state.idle > 0 { costs.enter_idle } else { costs.enter_asleep };
            let helpers = Helpers { width: state.most, enter, busy: state.busy };
            match heartbeat::decide(Recursion { age, known: known() }, helpers).choice {
                Beat::Open { width } if open(now, width, width > state.idle + 1) => {
                    opened.set(width);
                    Answer::Opened
                }
                Beat::Open { .. } => Answer::Later(ticks(crew, Nanos(age.0 + Rhythm::MEASURED.alone.0))),
                Beat::Wait { until } => Answer::Later(ticks(crew, until)),
                Beat::Alone => Answer::Never,
            }
        };
        lead.grow(patience, &ask, f)
    });
    if opened.get() > 1 {
        crew.ended(tick());
    }
    (result, opened.get())
}

fn ticks(crew: &Crew, time: Nanos) -> u64 {
    crew.ticks(time)
}

fn rhythm(crew: &Crew) -> tree::Rhythm {
    let Rhythm { look, hungry, alone } = Rhythm::MEASURED;
    tree::Rhythm {
        look: ticks(crew, look),
        hungry: ticks(crew, hungry),
        alone: ticks(crew, alone),
        idle: crew.settle,
        settle: crew.settle,
    }
}

/// Sites a thread remembers; two that share a place forget each other.
const PLACES: usize = 64;
/// Joins before a call that is not measured looks at the clock: they are the ones that turned out short.
const UNMEASURED: u32 = 8;

thread_local! {
    /// What this thread remembers of outermost calls.
    static MEMORY: [Place; PLACES] = const { [const { Place::new() }; PLACES] };
}

/// What is remembered of a call site.
struct Place {
    site: Cell<usize>,
    known: Cell<Known>,
    /// Calls until it is measured again: the two looks at the clock would be most of a short one.
    skip: Cell<u32>,
}

impl Place {
    const fn new() -> Self {
        Place { site: Cell::new(0), known: Cell::new(Known::NOTHING), skip: Cell::new(0) }
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
        let known = if self.site.replace(site) == site { self.known.get() } else { Known::NOTHING };
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

/// The halves do not write to the same place.
/// ```compile_fail,E0499
/// let mut sum = 0;
/// windrow::join(|| sum += 1, || sum += 2);
/// ```
#[cfg(doctest)]
struct TheHalvesDoNotShareAPlace;

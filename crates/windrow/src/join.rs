//! Fork and join: `join`, and the trees that joins grow in.

use std::cell::Cell;

use windrow_plan::Nanos;
use windrow_plan::heartbeat::{self, Beat, Helpers, Known, Recursion, Rhythm};
use windrow_sync::join as sync;
use windrow_sync::join::tree::{self, Answer, Asked, Tree};
use windrow_sync::machine::tick;

use crate::pool::{self, Crew};

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `a` runs on this thread. `b` runs after it, unless another member of the pool has taken it meanwhile. Made for recursion: a
/// join that is not shared costs a few nanoseconds, so nothing has to be cut off by hand, and about every 20 microseconds
/// (sooner if others have nothing to do) the oldest one of those that are open is offered to others. A waiting join runs
/// nothing but parts of what it waits for, so locks that are held over it cannot deadlock by it.
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
/// With the payload of `a` if that panics, else with that of `b`. By then the other half has ended, or it was dropped
/// without having begun.
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
    rooted(site, || sync::join(a, b, |a, b| (a(), b())))
}

/// Runs `f` in a tree of its own. `site` tells calls of one place from calls of others: what it remembers of them says when to let
/// others in.
pub(crate) fn rooted<R>(site: usize, f: impl FnOnce() -> R) -> R {
    pool::with_current(|crew| {
        let memory = Memory::of(site);
        let start = if memory.is_measured() { tick() } else { 0 };
        let (result, members) = grow(crew, memory.known.next(), memory.patience(), f);
        memory.keep(|| (crew.nanos(tick().saturating_sub(start)), members));
        result
    })
}

/// The same if it is known how long it would take alone.
pub(crate) fn expecting<R>(alone: Nanos, f: impl FnOnce() -> R) -> R {
    pool::with_current(|crew| grow(crew, Some(alone), 0, f).0)
}

/// Runs `f` in a tree of its own, and says to how many members it was open. The clock is first looked at after `patience` joins.
#[inline]
fn grow<R>(crew: &Crew, known: Option<Nanos>, patience: u32, f: impl FnOnce() -> R) -> (R, usize) {
    let mut tree = Tree::new(crew.members, rhythm(crew));
    let (lead, tree) = tree.lead();
    if crew.members == 1 {
        return (lead.grow(u32::MAX / 2, &|_| Answer::Never, f), 1);
    }
    let opened = Cell::new(1);
    let result = crew.gate.region(&|_| tree.serve(), crew.settle, |door| {
        let ask = |asked: &Asked<'_>| {
            let open = |width| {
                asked.furnish();
                door.open(width)
            };
            let age = crew.nanos(asked.age());
            let state = crew.state();
            let enter = if state.awake > 0 { crew.costs.enter_awake } else { crew.costs.enter_asleep };
            let helpers = Helpers { width: crew.members, enter, busy: state.busy };
            match heartbeat::decide(Recursion { age, known }, helpers).choice {
                Beat::Open { width } if open(width) => {
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
    (result, opened.get())
}

fn ticks(crew: &Crew, time: Nanos) -> u64 {
    (time.0 * crew.ticks_per_nano) as u64
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

/// What this thread remembers of an outermost call, taken out of its place while the call runs.
struct Memory {
    site: usize,
    known: Known,
    /// Calls until it is measured again.
    skip: u8,
}

#[derive(Clone, Copy)]
struct Remembered {
    site: usize,
    known: Known,
    skip: u8,
}

/// Sites a thread remembers; two that share a place forget each other.
const PLACES: usize = 64;

thread_local! {
    static MEMORY: [Cell<Option<Remembered>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

impl Memory {
    fn place(site: usize) -> usize {
        // Functions lie 16 bytes apart.
        (site >> 4) % PLACES
    }

    fn of(site: usize) -> Memory {
        let remembered = MEMORY.with(|places| places[Self::place(site)].get()).filter(|there| there.site == site);
        match remembered {
            Some(Remembered { site, known, skip }) => Memory { site, known, skip },
            None => Memory { site, known: Known::default(), skip: 0 },
        }
    }

    fn is_measured(&self) -> bool {
        self.skip == 0
    }

    fn patience(&self) -> u32 {
        if self.is_measured() { 0 } else { 8 }
    }

    fn keep(self, measured: impl FnOnce() -> (Nanos, usize)) {
        let Memory { site, mut known, mut skip } = self;
        if skip == 0 {
            let (time, members) = measured();
            known = known.after(time, members);
            // A look at the clock at both ends would be most of such a call.
            skip = if time.0 < 1000.0 { 15 } else { 0 };
        } else {
            skip -= 1;
        }
        MEMORY.with(|places| places[Self::place(site)].set(Some(Remembered { site, known, skip })));
    }
}

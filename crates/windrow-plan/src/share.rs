//! Share: serial or shared, and how wide. It is the one rule for loops, recursions, sorts and teams.
//!
//! ```text
//! shared(w) = rest * swell / w + enter(workers) + step * (w - 2)
//! w = the width with the least shared(w)
//! share on w members     if shared(w) * margin < rest
//! else run a piece alone and ask again
//! ```
//!
//! `rest` is the predicted time of the rest on one thread, `swell` the factor by which an item takes longer when shared. The cost of
//! entering differs by a factor of 25 with the state of the workers ([`Machine::enter`]), so the workers are an input.
//!
//! Departures from these lines. Each figure is the time of the 31 cells without the departure relative to that with it (records
//! `ablation-*` of 2026-11-24, two CPUs; geometric mean where no cell is named):
//!
//! | | departure | without |
//! |---|---|---|
//! | 1 | *A known site needs no sample* ([`site`](crate::site)): its calls are decided before their first item. | 1.13; two items of 100 us 1.97 |
//! | 2 | *Debt*: a thread adds up what its serial calls lose because workers are parked. Once the sum exceeds the cost of waking them, the next call wakes workers ([`owed`]). | 1.03 to 1.04; two items of 10 us 1.4 to 1.7 |
//! | 3 | *Exploration*: a choice that was never measured, or is predicted to be slower, is tried if the thread's [`Budget`] covers the loss. | 1.03 to 1.06 with two threads a CPU, 1.00 else |
//! | 4 | *Short calls* of a known site run serially without being asked about again ([`is_short`]): calls below twice the cost of entering, or below twice a wake on a thread that has made no call for a while. | 1.07 to 1.10 for calls of 1 us |
//! | 5 | *A first piece is no sample*: it pays for first touches of code and data. | 1.00; 1.4 in the first call of a process (record `first-calls`) |
//! | 6 | *A long item* that a site remembers begins a part. | a long item at the end 1.5 |
//! | 7 | *Standing by* ([`stands_by`]): at a site that was never seen alone, workers join the caller if its first item lasts. | not recorded yet; items that wait for each other do not end |
//! | 8 | *Given claims*: a caller that fixes the size of claims says that each is worth a synchronization. Nothing is predicted. | not a question of speed |
//!
//! Sources: oracle-guided granularity and the heartbeat are from Acar, Charguéraud and Rainey (PLDI 2018). Claims sized in time
//! are from OpenMP's guided schedule, which counts instead. To pay for a wake once as much has been lost without it is the
//! ski-rental rule (Karlin and others, 1988).

mod recursion;

use std::fmt;

pub use self::recursion::{Recursion, ShareDecision, recursion};
use crate::explore::Budget;
use crate::machine::{Machine, WorkerState};
use crate::site::{ItemCost, Trusted};
use crate::{Alternative, Alternatives, Decision, Items, Nanos};

/// The measured progress of a call.
///
/// ```
/// use windrow_plan::share::Progress;
/// use windrow_plan::{Items, Nanos};
///
/// let (done, spent, left) = (Items(10), Nanos::micros(5.0), Items(100));
/// let progress = Progress { done, spent, left, ripe: true, known: None, eager: false, alone: false };
/// assert_eq!(progress.rest(), Nanos::micros(50.0), "100 items like the 10 before");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Items done (or their weight).
    pub done: Items,
    /// Time they took.
    pub spent: Nanos,
    /// Items left (or their weight).
    pub left: Items,
    /// The sample is large enough to predict from: see [`Machine::sample`].
    pub ripe: bool,
    /// What the call site remembers of its items, if that is trusted.
    pub known: Option<Trusted>,
    /// The caller has said that every claim is worth a synchronization: skip the measurement.
    pub eager: bool,
    /// This call explores: it runs alone, to be timed.
    pub alone: bool,
}

impl Progress {
    /// Cost of one item: the remembered one, else the measured one. `None` as long as neither can be relied on.
    ///
    /// ```
    /// use windrow_plan::share::Progress;
    /// use windrow_plan::site::Trusted;
    /// use windrow_plan::{Items, Nanos};
    ///
    /// let (done, spent, left) = (Items(10), Nanos(30.0), Items(100));
    /// let small = Progress { done, spent, left, ripe: false, known: None, eager: false, alone: false };
    /// assert_eq!(small.per_item(), None, "the sample is too small");
    /// assert_eq!(Progress { ripe: true, ..small }.per_item(), Some(Nanos(3.0)));
    /// let known = Some(Trusted { per_item: Nanos(4.0), swell: 1.0, never_alone: false });
    /// assert_eq!(Progress { known, ..small }.per_item(), Some(Nanos(4.0)), "the site remembers");
    /// ```
    pub fn per_item(&self) -> Option<Nanos> {
        match self.known {
            Some(known) => Some(known.per_item),
            None => self.ripe.then(|| self.measured()),
        }
    }

    fn measured(&self) -> Nanos {
        Nanos(self.spent.0 / (self.done.0.max(1)) as f64)
    }

    /// Whether the items done took far longer than remembered: more than four times as long and a cold start, because the first items also
    /// fetch code and data.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    /// use windrow_plan::share::Progress;
    /// use windrow_plan::{Items, Nanos};
    ///
    /// let (done, spent, left) = (Items(1), Nanos::micros(1000.0), Items(100));
    /// let progress = Progress { done, spent, left, ripe: true, known: None, eager: false, alone: false };
    /// assert!(progress.contradicts(Nanos::micros(1.0), &Machine::example()), "1 ms instead of 1 us");
    /// assert!(!progress.contradicts(Nanos::micros(500.0), &Machine::example()), "twice as long");
    /// ```
    pub fn contradicts(&self, known: Nanos, machine: &Machine) -> bool {
        contradicts(self.spent, Nanos(known.0 * self.done.0 as f64), machine)
    }

    /// Predicted time of the rest on one thread.
    ///
    /// ```
    /// use windrow_plan::share::Progress;
    /// use windrow_plan::{Items, Nanos};
    ///
    /// // A sample that is too small for `per_item` still gives a rough prediction.
    /// let (done, spent, left) = (Items(2), Nanos(20.0), Items(100));
    /// let progress = Progress { done, spent, left, ripe: false, known: None, eager: false, alone: false };
    /// assert_eq!((progress.per_item(), progress.rest()), (None, Nanos(1000.0)));
    /// ```
    pub fn rest(&self) -> Nanos {
        Nanos(self.per_item().unwrap_or_else(|| self.measured()).0 * self.left.0 as f64)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done in {}, {} left, about {}", self.done, self.spent, self.left, self.rest())?;
        match self.known {
            Some(known) if known.swell > 1.0 => {
                write!(f, "; remembered: {} an item, {:.2} times that when shared", known.per_item, known.swell)
            }
            Some(known) => write!(f, "; remembered: {} an item", known.per_item),
            None => Ok(()),
        }
    }
}

/// The workers, as far as the caller can know.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Workers, predict};
/// use windrow_plan::{Items, Nanos};
///
/// // 20 us of work: enough for a worker that spins, too little to wake a halted CPU.
/// let (rest, costs) = (Nanos::micros(20.0), Costs::new(Machine::example()));
/// let done = |workers| predict(rest, Items(1000), &workers, &costs).unwrap().done;
/// assert!(done(Workers { most: 2, idle: 1, asleep: 0, busy: false }) < rest);
/// assert!(done(Workers { most: 2, idle: 0, asleep: 1, busy: false }) > rest);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Maximum number of members, the caller included: threads of the pool, but not more than CPUs.
    pub most: usize,
    /// Workers that spin for work.
    pub idle: usize,
    /// Parked workers.
    pub asleep: usize,
    /// The pool cannot run one more region.
    pub busy: bool,
}

/// The costs that a decision depends on.
///
/// ```
/// use windrow_plan::machine::{Machine, WorkerState};
/// use windrow_plan::share::Costs;
///
/// let long = Costs::new(Machine::example());
/// let recently = Costs { parked: WorkerState::AsleepRecently, ..long };
/// assert!(recently.enter(true) < long.enter(true), "a worker that has just parked is woken sooner");
/// assert_eq!(recently.enter(false), long.enter(false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The machine.
    pub machine: Machine,
    /// How long the parked workers have been parked: [`WorkerState::AsleepRecently`] or [`WorkerState::AsleepLong`].
    pub parked: WorkerState,
    /// What consecutive calls have lost so far because workers were parked.
    pub owed: Nanos,
    /// What may be lost by exploring.
    pub budget: Budget,
}

impl Costs {
    /// The costs on a machine, for a thread that has made no calls. The workers have been parked for long.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    /// use windrow_plan::machine::{Machine, WorkerState};
    /// use windrow_plan::share::Costs;
    ///
    /// let costs = Costs::new(Machine::example());
    /// assert_eq!((costs.owed, costs.budget, costs.parked), (Nanos(0.0), Budget::EMPTY, WorkerState::AsleepLong));
    /// ```
    pub fn new(machine: Machine) -> Costs {
        Costs { machine, parked: WorkerState::AsleepLong, owed: Nanos(0.0), budget: Budget::EMPTY }
    }

    /// The cost of entering; `wakes`: parked workers have to be woken.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    /// use windrow_plan::share::Costs;
    ///
    /// let costs = Costs::new(Machine::example());
    /// assert_eq!(costs.enter(true), costs.machine.wake);
    /// assert!(costs.enter(false) < costs.enter(true));
    /// ```
    pub fn enter(&self, wakes: bool) -> Nanos {
        self.machine.enter(if wakes { self.parked } else { WorkerState::Idle })
    }
}

/// What to do next.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Grain, Progress, Workers, decide};
/// use windrow_plan::{Items, Nanos};
///
/// let (done, spent, left) = (Items(100), Nanos::micros(10.0), Items(10_000));
/// let progress = Progress { done, spent, left, ripe: true, known: None, eager: false, alone: false };
/// let choice = |most| {
///     let workers = Workers { most, idle: most - 1, asleep: 0, busy: false };
///     decide(progress, &workers, &Costs::new(Machine::example())).choice
/// };
/// assert_eq!(choice(2), Grain::Publish { width: 2 });
/// assert_eq!(choice(1), Grain::Serial { piece: Items(100) }, "as many again, and ask again");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Run a piece of this many items alone, then decide again.
    Serial {
        /// Items of the next piece, at least 1.
        piece: Items,
    },
    /// Let workers in.
    Publish {
        /// Members wanted, the caller included.
        width: usize,
    },
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grain::Serial { piece } => write!(f, "serial for {piece} more"),
            Grain::Publish { width } => write!(f, "publish to {width} members"),
        }
    }
}

/// The factor by which sharing must be predicted faster: predictions are a tenth off at best, more when workers must be woken.
///
/// Measure: share of the predicted time.
const MARGIN_IDLE: f64 = 1.1;
const MARGIN_ASLEEP: f64 = 1.2;

/// A number of members, and when the rest would be done.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Sharing, Workers, predict};
/// use windrow_plan::{Items, Nanos};
///
/// let (workers, costs) = (Workers { most: 2, idle: 0, asleep: 1, busy: false }, Costs::new(Machine::example()));
/// let done = Nanos::micros(500.0 + costs.machine.wake.as_micros());
/// let sharing = predict(Nanos::micros(1000.0), Items(100), &workers, &costs);
/// assert_eq!(sharing, Some(Sharing { width: 2, done, wakes: true }), "half of the work, and a wake");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// Members, the caller included: 2 or more.
    pub width: usize,
    /// Predicted time until the rest is done.
    pub done: Nanos,
    /// Parked workers have to be woken.
    pub wakes: bool,
}

impl Sharing {
    /// The predicted time, times the margin.
    fn at_worst(self) -> Nanos {
        Nanos(self.done.0 * if self.wakes { MARGIN_ASLEEP } else { MARGIN_IDLE })
    }
}

/// The best width, with idle workers only or with parked ones too; `None` if no worker is free. `rest` is the time on one thread, `left`
/// the number of parts that it can be cut into. One more member than the best width would cost more than it saves.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Workers, predict};
/// use windrow_plan::{Items, Nanos};
///
/// let costs = Costs::new(Machine::example());
/// let width = |rest, left, idle| {
///     let workers = Workers { most: 8, idle, asleep: 0, busy: false };
///     predict(Nanos::micros(rest), Items(left), &workers, &costs).map(|sharing| sharing.width)
/// };
/// assert_eq!(width(1000.0, 100, 0), None, "no worker is free");
/// assert_eq!(width(1000.0, 100, 7), Some(8));
/// assert_eq!(width(1000.0, 3, 7), Some(3), "there are three parts");
/// assert!(width(1.0, 100, 7) < Some(8), "each further member costs more than it saves");
/// ```
pub fn predict(rest: Nanos, left: Items, workers: &Workers, costs: &Costs) -> Option<Sharing> {
    let most = workers.most.min(usize::try_from(left.0).unwrap_or(usize::MAX));
    let with = |workers: usize, wakes| {
        let (enter, step) = (costs.enter(wakes), costs.machine.step(wakes));
        let most = most.min(workers + 1);
        let width = ((rest.0 / step.0).sqrt() as usize).clamp(2.min(most), most);
        let done = Nanos(rest.0 / width as f64 + enter.0 + step.0 * (width as f64 - 2.0));
        (width > 1).then_some(Sharing { width, done, wakes })
    };
    let idle = with(workers.idle, false);
    if workers.asleep == 0 || idle.is_some_and(|idle| idle.width >= most) {
        return idle;
    }
    let all = with(workers.idle + workers.asleep, true);
    match (idle, all) {
        (Some(idle), Some(all)) if idle.done <= all.done => Some(idle),
        (idle, all) => all.or(idle),
    }
}

/// What a call pays for being decided: it reads the clock about ten times, and the items on both sides of a read do not overlap.
///
/// Measure: 10 claims.
const DECIDING: f64 = 10.0;

/// The time on one thread of which two members save just what entering and deciding cost.
fn longest_short(machine: &Machine, found: WorkerState) -> Nanos {
    Nanos(2.0 * (machine.enter(found).0 + DECIDING * machine.claim.0))
}

/// Whether a call that takes `whole` on one thread is too short to be shared: two members cannot save what entering and deciding cost. While
/// such a call runs as predicted, it is not decided again.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::{Machine, WorkerState};
/// use windrow_plan::share::is_short;
///
/// let (whole, machine) = (Nanos::micros(10.0), Machine::example());
/// assert!(is_short(whole, &machine, WorkerState::AsleepLong), "half of it is less than a wake");
/// assert!(!is_short(whole, &machine, WorkerState::Idle));
/// ```
pub fn is_short(whole: Nanos, machine: &Machine, found: WorkerState) -> bool {
    whole.0 < longest_short(machine, found).0
}

/// Whether work that was expected to take `expected` took far longer: more than four times as long and a cold start.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::contradicts;
///
/// let (expected, machine) = (Nanos::micros(100.0), Machine::example());
/// assert!(!contradicts(Nanos::micros(300.0), expected, &machine));
/// assert!(contradicts(Nanos::micros(500.0), expected, &machine));
/// assert!(!contradicts(machine.cold(), Nanos(0.0), &machine), "a cold start is no contradiction");
/// ```
pub fn contradicts(spent: Nanos, expected: Nanos, machine: &Machine) -> bool {
    spent.0 > 4.0 * expected.0 + machine.cold().0
}

/// The weight from which on calls of a site are measured, also if it is [steady](ItemCost::is_steady). Calls that weigh less are too short to be shared, with
/// workers in any state. 0: all calls are measured.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::unmeasured_below;
/// use windrow_plan::site::ItemCost;
///
/// let known = (0..4).fold(ItemCost::default(), |site, _| site.after_alone(Nanos(10.0)));
/// assert_eq!(unmeasured_below(known, &Machine::example()), 0, "the site is not steady: measure all calls");
/// let steady = known.after_short(Nanos(10.0), false);
/// let items = unmeasured_below(steady, &Machine::example());
/// assert!((10..1000).contains(&items), "calls of some items of 10 ns are too short to be shared");
/// ```
pub fn unmeasured_below(site: ItemCost, machine: &Machine) -> u64 {
    let known = site.trusted().filter(|_| site.is_steady());
    let longest = longest_short(machine, WorkerState::Idle);
    let weight = |known: Trusted| longest.0 / known.per_item.0.max(f64::MIN_POSITIVE);
    known.map_or(0, |known| weight(known) as u64)
}

/// Workers that stand by for a serial call: they join if it lasts.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, StandBy, Workers, stands_by};
/// use windrow_plan::site::ItemCost;
///
/// let (workers, costs) = (Workers { most: 4, idle: 0, asleep: 3, busy: false }, Costs::new(Machine::example()));
/// let two_items = stands_by(ItemCost::default(), 2, 2, &workers, &costs);
/// assert_eq!(two_items, Some(StandBy { width: 2, patience: costs.machine.wake, wakes: true }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandBy {
    /// Members wanted, the caller included.
    pub width: usize,
    /// How long the call has to last before they join.
    pub patience: Nanos,
    /// A parked worker has to be woken.
    pub wakes: bool,
}

/// Whether workers stand by for a call of `weight` in `items` that begins serially. Workers that are busy now may be free by then.
///
/// The caller cannot let workers in while it is inside an item. So two items of 20 ms would run serially at a place that was never called
/// before, and items that wait for each other would wait for ever. Workers that stand by cost the caller some line transfers, and a wake if
/// all of them are parked. So they do so only at sites where no call has run alone to its end, or where the items of the last call were long.
///
/// They are patient for as long as a wake takes: a shorter call would have gained nothing from them. A call that is to be timed alone, or that
/// is predicted to be short, has twice the predicted time.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Workers, stands_by};
/// use windrow_plan::site::ItemCost;
///
/// let (workers, costs) = (Workers { most: 4, idle: 3, asleep: 0, busy: false }, Costs::new(Machine::example()));
/// let stands_by = |site| stands_by(site, 100, 100, &workers, &costs).is_some();
/// let new = ItemCost::default();
/// assert!(stands_by(new), "the first item may last, or wait for another item");
/// assert!(!stands_by(new.after_alone(Nanos(100.0))), "the caller decides again between two items");
/// assert!(stands_by(new.after_alone(Nanos::micros(100.0))), "the items of the last call were long");
/// ```
pub fn stands_by(site: ItemCost, weight: u64, items: usize, workers: &Workers, costs: &Costs) -> Option<StandBy> {
    let width = workers.most.min(items);
    if width < 2 || workers.busy {
        return None;
    }
    let wake = costs.machine.enter(WorkerState::AsleepLong);
    let whole = |per_item: Nanos| Nanos(per_item.0 * weight as f64);
    // If items are shorter, the caller can decide between two of them.
    let is_long =
        |per_item: Nanos| per_item >= wake && !is_short(whole(per_item), &costs.machine, WorkerState::AsleepLong);
    let is_trusted = site.trusted().is_some();
    let per_item = if site.alone.0 > 0.0 { site.alone } else { site.shared };
    let patience = match (site.ended_alone, per_item.0 > 0.0) {
        (true, _) if is_trusted || !is_long(per_item) => return None,
        // Without the chance to end alone, a call that gains nothing from workers would get them again and again.
        (false, true) if is_trusted || !is_long(per_item) => wake.0.max(2.0 * whole(per_item).0),
        _ => wake.0,
    };
    let patience = Nanos(patience);
    Some(StandBy { width, patience, wakes: workers.idle == 0 })
}

/// A choice, its reason, the predicted time of sharing, and its price.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Grain, Progress, ShareChoice, Workers, choose};
/// use windrow_plan::{Items, Nanos};
///
/// let (done, spent, left) = (Items(100), Nanos::micros(10.0), Items(10));
/// let progress = Progress { done, spent, left, ripe: true, known: None, eager: false, alone: false };
/// let workers = Workers { most: 2, idle: 0, asleep: 1, busy: false };
/// let ShareChoice { grain, why, shared, price, .. } = choose(&progress, &workers, &Costs::new(Machine::example()));
/// assert!(matches!(grain, Grain::Serial { .. }) && shared > Some(progress.rest()));
/// assert_eq!((why, price), ("entering costs more than it saves", Nanos(0.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareChoice {
    /// The choice.
    pub grain: Grain,
    /// The reason.
    pub why: &'static str,
    /// Predicted time if shared, if that was predicted.
    pub shared: Option<Nanos>,
    /// What the choice takes out of the exploration budget; 0 if it does not explore.
    pub price: Nanos,
}

impl ShareChoice {
    /// The decision on `inputs`, with the predicted alternatives.
    fn decision(self, inputs: Progress) -> Decision<Progress, Grain> {
        let ShareChoice { grain, why, shared, .. } = self;
        let shared = shared.map(|predicted| Alternative { name: "shared", predicted });
        let serial = Alternative { name: "serial", predicted: inputs.rest() };
        let alternatives = match shared {
            Some(shared) => Alternatives::new(&[serial, shared]),
            None => Alternatives::new(&[serial]),
        };
        Decision { inputs, choice: grain, alternatives, why }
    }
}

/// Stay serial or publish: [`decide`] without building a [`Decision`], for the hot path.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Grain, Progress, Workers, choose};
/// use windrow_plan::{Items, Nanos};
///
/// // Nothing is measured. A call whose size of claims was given is shared all the same.
/// let (done, spent, left) = (Items(0), Nanos(0.0), Items(1000));
/// let call = Progress { done, spent, left, ripe: false, known: None, eager: false, alone: false };
/// let (workers, costs) = (Workers { most: 2, idle: 1, asleep: 0, busy: false }, Costs::new(Machine::example()));
/// assert_eq!(choose(&call, &workers, &costs).grain, Grain::Serial { piece: Items(1) });
/// assert_eq!(choose(&Progress { eager: true, ..call }, &workers, &costs).grain, Grain::Publish { width: 2 });
/// ```
#[inline]
pub fn choose(progress: &Progress, workers: &Workers, costs: &Costs) -> ShareChoice {
    let serial = |why, shared| {
        let grain = next_piece(progress, costs);
        ShareChoice { grain, why, shared, price: Nanos(0.0) }
    };
    if progress.left.0 < 2 {
        return serial("there is nothing to share", None);
    }
    if workers.most < 2 {
        return serial("there are no workers, or no CPUs for them", None);
    }
    if progress.eager && !workers.busy && workers.idle + workers.asleep > 0 {
        let left = usize::try_from(progress.left.0).unwrap_or(usize::MAX);
        let width = workers.most.min(workers.idle + workers.asleep + 1).min(left);
        let why = "the size of claims was given, so each is worth it";
        let grain = Grain::Publish { width };
        return ShareChoice { grain, why, shared: None, price: Nanos(0.0) };
    }
    let Some(per_item) = progress.per_item() else { return serial("too little is measured", None) };
    let rest = Nanos(per_item.0 * progress.left.0 as f64);
    if rest.0 <= costs.enter(false).0 {
        return serial("entering costs more than it saves", None);
    }
    if workers.busy {
        return serial("the pool cannot carry one more region", None);
    }
    if progress.alone && progress.known.is_some() {
        return serial(NEVER_ALONE, None);
    }
    let swollen = Nanos(rest.0 * progress.known.map_or(1.0, |known| known.swell));
    let Some(best) = predict(swollen, progress.left, workers, costs) else {
        return serial("no worker is free", None);
    };
    let shared = Some(best.done);
    let publish = |why, price| {
        let grain = Grain::Publish { width: best.width };
        ShareChoice { grain, why, shared, price }
    };
    if best.at_worst() < rest {
        let loss = Nanos(rest.0 - best.done.0);
        if progress.done.0 == 0 && progress.known.is_some_and(|known| known.never_alone) && costs.budget.covers(loss) {
            return ShareChoice { price: loss, ..serial(NEVER_ALONE, shared) };
        }
        return publish("sharing the rest is faster", Nanos(0.0));
    }
    if best.wakes && costs.owed > costs.enter(true) {
        return publish("repeated short calls: waking workers now pays off (ski rental)", Nanos(0.0));
    }
    let loss = Nanos(best.at_worst().0 - rest.0);
    if costs.budget.covers(loss) && is_hopeful(rest, workers, costs) {
        return publish("exploring: sharing may have become faster", costs.budget.all());
    }
    serial("entering costs more than it saves", shared)
}

const NEVER_ALONE: &str = "exploring: it has never been timed alone";

/// Whether to share `rest` would pay if items did not swell, entering cost its guessed value, and all workers were awake.
fn is_hopeful(rest: Nanos, workers: &Workers, costs: &Costs) -> bool {
    let guess = Costs::new(Machine::guess(costs.machine.claim));
    predict(rest, Items(u64::MAX), &awake(workers), &guess).is_some_and(|best| best.done.0 * MARGIN_ASLEEP < rest.0)
}

fn awake(workers: &Workers) -> Workers {
    Workers { idle: workers.idle + workers.asleep, asleep: 0, ..*workers }
}

/// Stay serial or publish; see the [module page](self).
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Grain, Progress, Workers, decide};
/// use windrow_plan::{Items, Nanos};
///
/// let (done, spent) = (Items(100), Nanos::micros(10.0));
/// let (workers, costs) = (Workers { most: 2, idle: 0, asleep: 1, busy: false }, Costs::new(Machine::example()));
/// let decide = |left| {
///     let left = Items(left);
///     let progress = Progress { done, spent, left, ripe: true, known: None, eager: false, alone: false };
///     decide(progress, &workers, &costs)
/// };
/// assert!(matches!(decide(100).choice, Grain::Serial { .. }), "10 us are left, and the worker is parked");
/// assert_eq!(decide(10_000).choice, Grain::Publish { width: 2 });
/// assert_eq!(decide(10_000).why, "sharing the rest is faster");
/// ```
pub fn decide(progress: Progress, workers: &Workers, costs: &Costs) -> Decision<Progress, Grain> {
    choose(&progress, workers, costs).decision(progress)
}

/// What a serial call that took `whole` has lost because workers were parked: [`Costs::owed`] is the sum. A loss of less than a seventh of
/// the call counts as 0: to avoid it does not pay for a CPU that spins all the time.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Workers, owed};
///
/// let (parked, costs) = (Workers { most: 2, idle: 0, asleep: 1, busy: false }, Costs::new(Machine::example()));
/// let lost = |micros, workers| owed(Nanos::micros(micros), &workers, &costs);
/// assert!(lost(4.0, parked) > Nanos(0.0), "a worker that spins would have taken half");
/// assert_eq!(lost(0.1, parked), Nanos(0.0), "too short for any worker");
/// assert_eq!(lost(4.0, Workers { idle: 1, asleep: 0, ..parked }), Nanos(0.0), "no worker is parked");
/// ```
pub fn owed(whole: Nanos, workers: &Workers, costs: &Costs) -> Nanos {
    if workers.most < 2 || workers.asleep == 0 {
        return Nanos(0.0);
    }
    let Some(best) = predict(whole, Items(u64::MAX), &awake(workers), costs) else { return Nanos(0.0) };
    let saved = whole.0 - best.done.0;
    Nanos(if saved > whole.0 / 7.0 { saved } else { 0.0 })
}

/// The size of the next piece: as many items as are done, until a piece lasts a heartbeat. Not more than half of the rest, because later
/// items may cost more than earlier ones and cannot be shared once they are in the piece. Not less than a sample, because the read of the
/// clock costs something. If the site is known, a first quarter (or a heartbeat) checks that the items cost what is remembered.
fn next_piece(progress: &Progress, costs: &Costs) -> Grain {
    let left = progress.left.0;
    let (heartbeat, sample) = (costs.machine.heartbeat(), costs.machine.sample());
    let items = |time: Nanos, per_item: Nanos| (time.0 / per_item.0.max(f64::MIN_POSITIVE)).min(u64::MAX as f64) as u64;
    let piece = match (progress.done.0, progress.per_item()) {
        (0, Some(known)) => (left / 4).min(items(heartbeat, known)),
        (0, None) => 1,
        (_, Some(per_item)) if progress.known.is_some() => left.min(items(heartbeat, per_item)),
        (done, Some(per_item)) => {
            done.min(items(heartbeat, per_item)).min(left.div_ceil(2).max(items(sample, per_item)))
        }
        (done, None) => done.min(left.div_ceil(2)),
    };
    Grain::Serial { piece: Items(piece.max(1)) }
}

#[cfg(test)]
mod tests;

//! Grain: stay serial or let workers in, and how much to claim at a time.
//!
//! The caller runs the first items itself and decides again after each piece. It publishes if sharing the rest is predicted to be
//! faster. The cost of entering differs by a factor of 20 with the state of the workers: about 1 us if they spin, tens of us if they
//! are parked. So both costs are tracked while the program runs ([`track`](crate::track)). A call whose site is known
//! ([`memory`](crate::memory)) needs no sample.
//!
//! Sources: oracle-guided granularity and the heartbeat are from Acar, Charguéraud and Rainey (PLDI 2018); claims sized in time
//! are from OpenMP's guided schedule, which counts instead; paying for a wake once as much has been lost without it is the
//! ski-rental rule (Karlin and others, 1988).

use std::fmt;

use crate::memory::Trusted;
use crate::{Alternative, Alternatives, Decision, Items, Nanos};

/// The measured progress of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Items done (or their weight).
    pub done: Items,
    /// Time they took.
    pub spent: Nanos,
    /// Items left (or their weight).
    pub left: Items,
    /// The sample is large enough to predict from: see [`Costs::sample`].
    pub ripe: bool,
    /// What the call site remembers of its items, if that is trusted.
    pub known: Option<Trusted>,
    /// The caller has said that every claim is worth a synchronization: skip the measurement.
    pub eager: bool,
}

impl Progress {
    /// Cost of one item, measured or else remembered; `None` as long as neither is good enough.
    pub fn per_item(&self) -> Option<Nanos> {
        match self.known {
            Some(known) if !self.contradicts(known.per_item) => Some(known.per_item),
            _ => self.ripe.then(|| self.measured()),
        }
    }

    fn measured(&self) -> Nanos {
        Nanos(self.spent.0 / (self.done.0.max(1)) as f64)
    }

    /// The items done took far longer than remembered. (Far, because the first items also pay for fetching code and data: after a pause
    /// of milliseconds that took up to 3 us. The memory is worth more than a sample of such items.)
    pub fn contradicts(&self, known: Nanos) -> bool {
        self.spent.0 > 4.0 * known.0 * self.done.0 as f64 + Costs::MEASURED.cold.0
    }

    /// Time of the whole call on one thread, at this cost of an item.
    fn whole(&self, per_item: Nanos) -> Nanos {
        Nanos(per_item.0 * (self.done.0 + self.left.0) as f64)
    }

    /// Predicted time of the rest on one thread.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Maximum number of members, the caller included: threads of the pool, but not more than CPUs.
    pub most: usize,
    /// Workers awake and looking for work.
    pub idle: usize,
    /// Parked workers.
    pub asleep: usize,
    /// The pool cannot run one more region.
    pub busy: bool,
}

/// What synchronizing costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time that a region with idle workers takes beyond its share of the work.
    pub enter_idle: Nanos,
    /// The same when workers have to be woken.
    pub enter_asleep: Nanos,
    /// What each further member adds to the first.
    pub step: Nanos,
    /// The same for a member that has to be woken.
    pub step_asleep: Nanos,
    /// Average cost to a region of members that lose their CPU during a claim.
    pub late: Nanos,
    /// What consecutive calls have lost so far because workers were parked.
    pub owed: Nanos,
    /// The budget for sharing although it is predicted to be slower: see [`credit`].
    pub credit: Nanos,
    /// Cost of a claim (a compare-exchange and a read of the clock).
    pub claim: Nanos,
    /// Below this time a sample predicts little.
    pub sample: Nanos,
    /// A first item that took less than this is left out of the sample: it also pays for fetching code and data into the caches.
    /// caches.
    pub cold: Nanos,
    /// A serial caller reads the clock about this often, as far as the items so far predict it.
    pub heartbeat: Nanos,
}

impl Costs {
    /// Initial costs, measured on a 2-core x86-64 virtual machine (2026-11); `enter_*`, `late` and `claim` are measured again while the
    /// program runs. A rendezvous with an idle worker takes 0.6 us; with a worker parked for milliseconds, 4 us in the waking call and
    /// 15 us until it comes. A join is a compare-exchange on a line that others have just written, 70 ns; a claim takes 25 ns.
    /// Predictions from less than 0.4 us were wrong too often. After a pause of milliseconds the first item took 0.5 to 3 us for cache
    /// misses alone.
    pub const MEASURED: Costs = Costs {
        enter_idle: Nanos(600.0),
        enter_asleep: Nanos(15_000.0),
        step: Nanos(70.0),
        step_asleep: Nanos(2_000.0),
        late: Nanos(0.0),
        owed: Nanos(0.0),
        credit: Nanos(0.0),
        claim: Nanos(25.0),
        sample: Nanos(400.0),
        cold: Nanos(5_000.0),
        heartbeat: Nanos(20_000.0),
    };

    /// The time of a claim that costs little and delays no other member. `at_hand` is the time left in the member's own range.
    ///
    /// A sixteenth of that, so that a member that finishes first has something to steal. At least 1 us if `at_hand` allows two such
    /// claims; a claim then costs 2.5 %. Near the end down to eight times the cost of a claim. Never more than 50 us, which bounds the
    /// delay of a cancellation or a panic.
    pub fn claim_of(&self, at_hand: Nanos) -> Nanos {
        let unit = (40.0 * self.claim.0).min(at_hand.0 / 2.0);
        Nanos((at_hand.0 / 16.0).clamp(unit.max(8.0 * self.claim.0), 50_000.0f64.max(8.0 * self.claim.0)))
    }
}

/// What to do next.
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
const MARGIN_IDLE: f64 = 1.1;
const MARGIN_ASLEEP: f64 = 1.2;

/// A shorter call runs alone once, to learn what sharing gains: cache lines that move between members can cost a short call more than
/// it saves (10 000 items of 4 ns on two threads: 36 us alone, 49 us shared with a member woken for each call).
const TRY_ALONE: Nanos = Nanos(200_000.0);

/// A number of members, and when the rest would be done.
#[derive(Clone, Copy)]
struct Sharing {
    width: usize,
    done: Nanos,
    wakes: bool,
}

/// The best width with idle workers only, or with parked ones too. Beyond it, a member costs more to join than it saves.
fn best_sharing(rest: Nanos, left: Items, workers: &Workers, costs: &Costs) -> Option<Sharing> {
    let most = workers.most.min(usize::try_from(left.0).unwrap_or(usize::MAX));
    let with = |workers: usize, enter: Nanos, step: Nanos, wakes| {
        let most = most.min(workers + 1);
        let width = ((rest.0 / step.0).sqrt() as usize).clamp(2.min(most), most);
        let done = Nanos(rest.0 / width as f64 + enter.0 + step.0 * (width as f64 - 2.0));
        (width > 1).then_some(Sharing { width, done, wakes })
    };
    let idle = with(workers.idle, costs.enter_idle, costs.step, false);
    if workers.asleep == 0 || idle.is_some_and(|idle| idle.width >= most) {
        return idle;
    }
    let all = with(workers.idle + workers.asleep, costs.enter_asleep, costs.step_asleep, true);
    match (idle, all) {
        (Some(idle), Some(all)) if idle.done <= all.done => Some(idle),
        (idle, all) => all.or(idle),
    }
}

/// Stay serial or publish, the reason, and the predicted times: [`decide`] without building a [`Decision`], for the hot path.
#[inline]
pub fn choose(progress: &Progress, workers: &Workers, costs: &Costs) -> (Grain, &'static str, Option<Nanos>) {
    let serial = |why, shared| (next_piece(progress, costs), why, shared);
    if progress.left.0 < 2 {
        return serial("there is nothing to share", None);
    }
    if workers.most < 2 {
        return serial("there are no workers, or no CPUs for them", None);
    }
    if progress.eager && !workers.busy && workers.idle + workers.asleep > 0 {
        let left = usize::try_from(progress.left.0).unwrap_or(usize::MAX);
        let width = workers.most.min(workers.idle + workers.asleep + 1).min(left);
        return (Grain::Publish { width }, "the size of chunks was given, so each is worth it", None);
    }
    let Some(per_item) = progress.per_item() else { return serial("too little is measured", None) };
    let rest = Nanos(per_item.0 * progress.left.0 as f64);
    if rest.0 <= costs.enter_idle.0 {
        return serial("entering costs more than it saves", None);
    }
    if workers.busy {
        return serial("the pool cannot carry one more region", None);
    }
    if progress.known.is_some_and(|known| known.never_alone && progress.whole(known.per_item) < TRY_ALONE) {
        return serial("it has never been timed alone", None);
    }
    let swollen = Nanos(rest.0 * progress.known.map_or(1.0, |known| known.swell));
    let Some(best) = best_sharing(swollen, progress.left, workers, costs) else {
        return serial("all workers are busy", None);
    };
    let done = Some(Nanos(best.done.0 + costs.late.0));
    let publish = |why| (Grain::Publish { width: best.width }, why, done);
    if best.done.0 * if best.wakes { MARGIN_ASLEEP } else { MARGIN_IDLE } + costs.late.0 < rest.0 {
        return publish("sharing the rest is faster");
    }
    if best.wakes && costs.owed.0 > costs.enter_asleep.0 && costs.late.0 == 0.0 {
        return publish("short calls keep coming: workers awake would have saved more than waking them costs");
    }
    if costs.credit.0 > 0.0 && best.done.0 + costs.late.0 - rest.0 < costs.credit.0 {
        return publish("sharing was too slow lately; trying again costs little");
    }
    serial("entering costs more than it saves", done)
}

/// Stay serial or publish; see the [module page](self).
pub fn decide(progress: Progress, workers: &Workers, costs: &Costs) -> Decision<Progress, Grain> {
    let (choice, why, shared) = choose(&progress, workers, costs);
    let mut alternatives = vec![Alternative { name: "serial", predicted: progress.rest() }];
    alternatives.extend(shared.map(|predicted| Alternative { name: "shared", predicted }));
    Decision { inputs: progress, choice, alternatives: Alternatives::new(&alternatives), why }
}

/// What a serial call of `whole` has lost because workers were parked: what [`Costs::owed`] adds up.
pub fn owed(whole: Nanos, workers: &Workers, costs: &Costs) -> Nanos {
    if workers.most < 2 || workers.asleep == 0 {
        return Nanos(0.0);
    }
    let awake = Workers { idle: workers.idle + workers.asleep, asleep: 0, ..*workers };
    let Some(best) = best_sharing(whole, Items(u64::MAX), &awake, costs) else { return Nanos(0.0) };
    // Saving less than a seventh does not pay for a CPU that spins all the time.
    let saved = whole.0 - best.done.0 - costs.late.0;
    Nanos(if saved > whole.0 / 7.0 { saved } else { 0.0 })
}

/// What a serial call of `whole` adds to [`Costs::credit`]: a fiftieth of its time, if by the usual costs it would have been shared.
///
/// Costs are not tracked while nothing is shared. So a call is occasionally shared against the prediction, rarely enough to make calls
/// no more than 2 % slower.
pub fn credit(whole: Nanos, workers: &Workers) -> Nanos {
    let usual = Workers { idle: workers.idle + workers.asleep, asleep: 0, ..*workers };
    let pays = best_sharing(whole, Items(u64::MAX), &usual, &Costs::MEASURED)
        .is_some_and(|best| best.done.0 * MARGIN_ASLEEP < whole.0);
    Nanos(if pays { whole.0 / 50.0 } else { 0.0 })
}

/// The size of the next piece: as much as is done, until a piece lasts a heartbeat. Not more than half of the rest, because later items
/// may cost more than earlier ones and cannot be shared once they are in the piece. Not less than a sample, because reading the clock
/// costs too. If the site is known, a first quarter (or a heartbeat) checks that the items are as remembered.
fn next_piece(progress: &Progress, costs: &Costs) -> Grain {
    let left = progress.left.0;
    let items = |time: Nanos, per_item: Nanos| (time.0 / per_item.0.max(f64::MIN_POSITIVE)).min(u64::MAX as f64) as u64;
    let piece = match (progress.done.0, progress.per_item()) {
        (0, Some(known)) => (left / 4).min(items(costs.heartbeat, known)),
        (0, None) => 1,
        (_, Some(per_item)) if progress.known.is_some() => left.min(items(costs.heartbeat, per_item)),
        (done, Some(per_item)) => {
            done.min(items(costs.heartbeat, per_item)).min(left.div_ceil(2).max(items(costs.sample, per_item)))
        }
        (done, None) => done.min(left.div_ceil(2)),
    };
    Grain::Serial { piece: Items(piece.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs::MEASURED;

    fn progress(per_item: f64, done: u64, left: u64) -> Progress {
        let spent = Nanos(per_item * done as f64);
        Progress {
            done: Items(done),
            spent,
            left: Items(left),
            ripe: done > 0 && spent >= COSTS.sample,
            known: None,
            eager: false,
        }
    }

    fn workers(count: usize, idle: usize) -> Workers {
        Workers { most: count + 1, idle, asleep: count - idle, busy: false }
    }

    fn why(progress: Progress, workers: Workers) -> &'static str {
        decide(progress, &workers, &COSTS).why
    }

    fn publishes(progress: Progress, workers: Workers) -> bool {
        matches!(decide(progress, &workers, &COSTS).choice, Grain::Publish { .. })
    }

    #[test]
    fn the_break_even_depends_on_the_state_of_the_workers() {
        // With two members, sharing saves half of the rest, which must exceed the cost of entering by a margin.
        for (idle, enter, margin) in [(1, COSTS.enter_idle, MARGIN_IDLE), (0, COSTS.enter_asleep, MARGIN_ASLEEP)] {
            let break_even = enter.0 * margin / (1.0 - margin / 2.0);
            assert!(!publishes(progress(10.0, 50, (0.99 * break_even / 10.0) as u64), workers(1, idle)));
            assert!(publishes(progress(10.0, 50, (1.01 * break_even / 10.0) as u64), workers(1, idle)));
        }
    }

    #[test]
    fn reasons_to_stay_serial() {
        let plenty = progress(1000.0, 10, 1_000_000);
        assert!(publishes(plenty, workers(3, 0)));
        assert_eq!(why(plenty, workers(0, 0)), "there are no workers, or no CPUs for them");
        assert_eq!(why(plenty, Workers { busy: true, ..workers(3, 3) }), "the pool cannot carry one more region");
        assert_eq!(why(plenty, Workers { idle: 0, asleep: 0, ..workers(3, 3) }), "all workers are busy");
        assert_eq!(why(progress(1e6, 10, 1), workers(3, 3)), "there is nothing to share");
        assert_eq!(why(progress(1.0, 10, 1_000_000), workers(3, 3)), "too little is measured");
        assert_eq!(why(progress(10.0, 100, 20), workers(3, 3)), "entering costs more than it saves");
    }

    #[test]
    fn a_known_site_needs_no_sample_until_it_is_contradicted() {
        let trusted = Trusted { per_item: Nanos(1000.0), swell: 1.0, never_alone: false };
        let known = |done, spent| Progress { known: Some(trusted), spent: Nanos(spent), ..progress(0.0, done, 100) };
        assert!(publishes(known(0, 0.0), workers(1, 1)));
        assert!(publishes(known(1, 100.0), workers(1, 1)));
        assert!(!publishes(Progress { known: None, ..known(0, 0.0) }, workers(1, 1)));
        let never = Trusted { never_alone: true, ..trusted };
        for (done, spent) in [(0, 0.0), (50, 50_000.0)] {
            let alone = Progress { known: Some(never), ripe: done > 0, ..known(done, spent) };
            assert_eq!(why(alone, workers(1, 1)), "it has never been timed alone");
        }
        let swells = Trusted { swell: 1.9, ..trusted };
        assert!(!publishes(Progress { known: Some(swells), ..known(0, 0.0) }, workers(1, 1)));
        let slower = known(1, 1_000_000.0);
        assert_eq!(slower.per_item(), None);
        assert_eq!(Progress { ripe: true, ..slower }.per_item(), Some(Nanos(1e6)));
    }

    #[test]
    fn chunks_of_a_given_size_are_shared_at_once() {
        let eager = Progress { eager: true, ..progress(0.0, 0, 2) };
        assert_eq!(choose(&eager, &workers(7, 0), &COSTS).0, Grain::Publish { width: 2 });
        assert_eq!(why(eager, Workers { busy: true, ..workers(7, 0) }), "too little is measured");
    }

    #[test]
    fn a_late_crew_is_used_for_long_work_only() {
        let costs = Costs { late: Nanos(100_000.0), ..COSTS };
        let publishes =
            |left| matches!(choose(&progress(1000.0, 10, left), &workers(1, 1), &costs).0, Grain::Publish { .. });
        assert!(!publishes(150));
        assert!(publishes(300));
    }

    #[test]
    fn short_calls_that_keep_coming_wake_workers() {
        // 3 us: too short to wake a worker, but long enough to share with one that is awake.
        let call = progress(10.0, 50, 300);
        let lost = owed(Nanos(3500.0), &workers(1, 0), &COSTS);
        assert!(lost.0 > 500.0);
        assert_eq!(owed(Nanos(3500.0), &workers(1, 1), &COSTS), Nanos(0.0));
        assert_eq!(owed(Nanos(1000.0), &workers(1, 0), &COSTS), Nanos(0.0));
        let after = |calls: f64| choose(&call, &workers(1, 0), &Costs { owed: Nanos(calls * lost.0), ..COSTS }).0;
        assert!(matches!(after(1.0), Grain::Serial { .. }));
        assert!(matches!(after(20.0), Grain::Publish { .. }));
    }

    #[test]
    fn what_is_too_slow_is_tried_again_when_it_costs_little() {
        let slow = Costs { enter_idle: Nanos(5_000.0), ..COSTS };
        let call = progress(10.0, 50, 700);
        let after = |calls: u32| {
            let credit = Nanos(f64::from(calls) * credit(Nanos(7_500.0), &workers(1, 1)).0);
            choose(&call, &workers(1, 1), &Costs { credit, ..slow })
        };
        assert!(matches!(after(1).0, Grain::Serial { .. }));
        assert!(matches!(after(20).0, Grain::Publish { .. }));
        assert_eq!(credit(Nanos(900.0), &workers(1, 1)), Nanos(0.0), "that was never worth it");
        assert_eq!(credit(Nanos(1e6), &workers(0, 0)), Nanos(0.0));
    }

    #[test]
    fn pieces_double_up_to_a_heartbeat() {
        let piece = |progress| match choose(&progress, &workers(0, 0), &COSTS).0 {
            Grain::Serial { piece } => piece.0,
            Grain::Publish { .. } => unreachable!("no worker to publish to"),
        };
        assert_eq!(piece(progress(10.0, 0, 100)), 1);
        assert_eq!(piece(progress(10.0, 1, 100)), 1);
        assert_eq!(piece(progress(10.0, 64, 1000)), 64);
        assert_eq!(piece(progress(10.0, 1 << 20, 1 << 30)), 2000);
        assert_eq!(piece(progress(1e9, 1, 100)), 1);
        assert_eq!(piece(progress(0.0, 1 << 40, 1 << 50)), 1 << 40);
        // Half of the rest, but a sample of 400 ns is not cut further.
        assert_eq!(piece(progress(10.0, 1024, 1000)), 500);
        assert_eq!(piece(progress(10.0, 1024, 60)), 40);
        // The cost is known: a quarter, then all that a heartbeat holds.
        let trusted = Trusted { per_item: Nanos(10.0), swell: 1.0, never_alone: false };
        let known = |done, left| Progress { known: Some(trusted), ..progress(10.0, done, left) };
        assert_eq!(piece(known(0, 100)), 25);
        assert_eq!(piece(known(0, 100_000)), 2000);
        assert_eq!(piece(known(25, 75)), 75);
        assert_eq!(piece(known(25, 7500)), 2000);
    }

    #[test]
    fn claims_last_about_a_microsecond_and_shrink_at_the_end() {
        let claim = |at_hand| COSTS.claim_of(Nanos(at_hand)).0;
        assert_eq!(claim(1e9), 50_000.0);
        assert_eq!(claim(160_000.0), 10_000.0);
        assert_eq!(claim(10_000.0), 1000.0);
        assert_eq!(claim(1000.0), 500.0);
        assert_eq!(claim(100.0), 200.0);
    }

    #[test]
    fn width_is_bounded_by_workers_items_and_what_joining_costs() {
        let width = |per_item, left, count| match choose(&progress(per_item, 1, left), &workers(count, count), &COSTS).0
        {
            Grain::Publish { width } => width,
            Grain::Serial { .. } => 1,
        };
        assert_eq!(width(1e6, 100, 7), 8);
        assert_eq!(width(1e6, 3, 7), 3);
        assert_eq!(width(500.0, 20, 63), 11);
        let few_cpus = Workers { most: 2, ..workers(7, 7) };
        assert_eq!(choose(&progress(1e6, 1, 100), &few_cpus, &COSTS).0, Grain::Publish { width: 2 });
    }

    #[test]
    fn sleepers_are_woken_only_if_those_awake_are_not_enough() {
        let width = |left| match choose(&progress(1000.0, 1, left), &workers(7, 1), &COSTS).0 {
            Grain::Publish { width } => width,
            Grain::Serial { .. } => 1,
        };
        assert_eq!(width(20), 2);
        assert_eq!(width(1000), 8);
    }
}

//! Grain: stay serial, or publish the rest, and claims of what size.
//!
//! The caller of a region runs the first items itself and measures them. After every piece it asks [`decide`]: go on alone
//! with a piece of so many items, or publish. Publishing pays when the time it saves on the predicted rest exceeds what
//! entering the region costs, and that depends on the workers' state by a factor of 40: they look for work (about 1 us) or
//! they sleep (tens of us).
//!
//! Sources: the measured break-evens are in `Costs::MEASURED`; oracle-guided granularity and the heartbeat are from Acar,
//! Charguéraud and Rainey (PLDI 2018); claims sized in time are from OpenMP's guided schedule, which counts instead.

use std::fmt;

use crate::{Alternative, Alternatives, Decision, Items, Nanos};

/// What is known of the work so far.
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
}

impl Progress {
    /// Measured cost of one item.
    pub fn per_item(&self) -> Nanos {
        Nanos(self.spent.0 / (self.done.0.max(1)) as f64)
    }

    /// Predicted time of the rest on one thread.
    pub fn rest(&self) -> Nanos {
        Nanos(self.per_item().0 * self.left.0 as f64)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done in {}, {} left, about {}", self.done, self.spent, self.left, self.rest())
    }
}

/// The workers, as far as the caller can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crew {
    /// Workers beside the caller.
    pub workers: usize,
    /// Those awake and looking for work.
    pub awake: usize,
    /// Another region has them.
    pub busy: bool,
}

/// What synchronizing costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// From publishing until a worker that is awake takes part, and back.
    pub enter_awake: Nanos,
    /// The same when it has to be woken.
    pub enter_asleep: Nanos,
    /// A claim should take about this long.
    pub claim: Nanos,
    /// Below this time a sample predicts little.
    pub sample: Nanos,
    /// A first item shorter than this is left out of the sample: it pays for fetching code and data into the caches.
    pub cold: Nanos,
    /// Alone, look at the clock about this often, as far as the items so far predict it.
    pub heartbeat: Nanos,
}

impl Costs {
    /// Measured on a 2-core x86-64 virtual machine (2026-11): a rendezvous with a spinning worker 0.73 us and break-even at
    /// 2.5 us of work; with workers parked for a millisecond and more 28 us, break-even at 60 us; a claim costs about 20 ns (an
    /// exchange and a clock read), 2 % of 1 us; predictions from less than 0.4 us were wrong too often; after a
    /// pause of milliseconds the first item took 0.5 to 3 us in caches alone, and 145 of 300 calls of 0.3 us of work published.
    pub const MEASURED: Costs = Costs {
        enter_awake: Nanos(1_250.0),
        enter_asleep: Nanos(30_000.0),
        claim: Nanos(1_000.0),
        sample: Nanos(400.0),
        cold: Nanos(5_000.0),
        heartbeat: Nanos(20_000.0),
    };

    fn enter(&self, crew: &Crew) -> Nanos {
        if crew.awake > 0 { self.enter_awake } else { self.enter_asleep }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Go on alone with a piece of this many items, then ask again.
    Serial {
        /// Items of the next piece, at least 1.
        piece: Items,
    },
    /// Let workers in.
    Publish {
        /// Members wanted, the caller included.
        width: usize,
        /// Items of a claim, at least 1.
        claim: Items,
    },
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grain::Serial { piece } => write!(f, "serial for {piece} more"),
            Grain::Publish { width, claim } => write!(f, "publish to {width} members in claims of {claim}"),
        }
    }
}

/// Stay serial or publish; see the [module page](self).
pub fn decide(progress: Progress, crew: Crew, costs: Costs) -> Decision<Progress, Grain> {
    let rest = progress.rest();
    let width = (crew.workers + 1).min(usize::try_from(progress.left.0).unwrap_or(usize::MAX)).max(1);
    let shared = Nanos(rest.0 / width as f64 + costs.enter(&crew).0);
    let alternatives = Alternatives::new(&[
        Alternative { name: "serial", predicted: rest },
        Alternative { name: "shared", predicted: shared },
    ]);
    let serial = |why| Decision { inputs: progress, choice: next_piece(&progress, &costs), alternatives, why };
    if crew.workers == 0 {
        return serial("there are no workers");
    }
    if progress.left.0 < 2 {
        return serial("there is nothing to share");
    }
    if !progress.ripe {
        return serial("too little is measured");
    }
    if crew.busy {
        return serial("the workers have another region");
    }
    if shared.0 >= rest.0 {
        return serial("entering costs more than it saves");
    }
    let choice = Grain::Publish { width, claim: claim(progress.per_item(), &costs) };
    Decision { inputs: progress, choice, alternatives, why: "sharing the rest is faster" }
}

/// As much as has been done, until a piece lasts a heartbeat. At most half of the rest, as later items may cost more than those
/// before and cannot be shared once they are in the piece; but not less than makes a sample, as looking costs too.
fn next_piece(progress: &Progress, costs: &Costs) -> Grain {
    let doubled = progress.done.0.max(1);
    let piece = if progress.done.0 == 0 {
        1
    } else {
        let per_item = progress.per_item().0.max(f64::MIN_POSITIVE);
        let beat = (costs.heartbeat.0 / per_item).min(u64::MAX as f64) as u64;
        let sample = (costs.sample.0 / per_item).min(u64::MAX as f64) as u64;
        doubled.min(beat).min(progress.left.0.div_ceil(2).max(sample)).max(1)
    };
    Grain::Serial { piece: Items(piece) }
}

/// Items of a claim that lasts about [`Costs::claim`]; at least 1.
pub fn claim(per_item: Nanos, costs: &Costs) -> Items {
    let items = costs.claim.0 / per_item.0.max(f64::MIN_POSITIVE);
    Items((items.min(u64::MAX as f64) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs::MEASURED;

    fn progress(per_item: f64, done: u64, left: u64) -> Progress {
        let spent = Nanos(per_item * done as f64);
        Progress { done: Items(done), spent, left: Items(left), ripe: spent >= COSTS.sample }
    }

    fn crew(workers: usize, awake: usize) -> Crew {
        Crew { workers, awake, busy: false }
    }

    fn publishes(progress: Progress, crew: Crew) -> bool {
        matches!(decide(progress, crew, COSTS).choice, Grain::Publish { .. })
    }

    #[test]
    fn the_break_even_depends_on_the_state_of_the_workers() {
        // On two members sharing saves half of the rest: it must exceed twice the cost of entering.
        for (awake, enter) in [(1, COSTS.enter_awake), (0, COSTS.enter_asleep)] {
            let just_under = progress(10.0, 50, (2.0 * enter.0 / 10.0) as u64 - 1);
            let just_over = progress(10.0, 50, (2.0 * enter.0 / 10.0) as u64 + 2);
            assert!(!publishes(just_under, crew(1, awake)));
            assert!(publishes(just_over, crew(1, awake)));
        }
    }

    #[test]
    fn reasons_to_stay_serial() {
        let plenty = progress(1000.0, 10, 1_000_000);
        assert!(publishes(plenty, crew(3, 0)));
        assert_eq!(decide(plenty, crew(0, 0), COSTS).why, "there are no workers");
        assert_eq!(decide(plenty, Crew { busy: true, ..crew(3, 3) }, COSTS).why, "the workers have another region");
        assert_eq!(decide(progress(1e6, 10, 1), crew(3, 3), COSTS).why, "there is nothing to share");
        assert_eq!(decide(progress(1.0, 10, 1_000_000), crew(3, 3), COSTS).why, "too little is measured");
        assert_eq!(decide(progress(10.0, 100, 20), crew(3, 3), COSTS).why, "entering costs more than it saves");
    }

    #[test]
    fn pieces_double_up_to_a_heartbeat() {
        let piece = |progress| match decide(progress, crew(0, 0), COSTS).choice {
            Grain::Serial { piece } => piece.0,
            Grain::Publish { .. } => unreachable!("nobody to publish to"),
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
    }

    #[test]
    fn claims_last_about_as_long_as_asked() {
        assert_eq!(claim(Nanos(10.0), &COSTS), Items(100));
        assert_eq!(claim(Nanos(1e9), &COSTS), Items(1));
        assert_eq!(claim(Nanos(0.0), &COSTS), Items(u64::MAX));
    }

    #[test]
    fn width_is_bounded_by_workers_and_by_items() {
        let width = |left, workers| match decide(progress(1e6, 1, left), crew(workers, workers), COSTS).choice {
            Grain::Publish { width, .. } => width,
            Grain::Serial { .. } => 1,
        };
        assert_eq!(width(100, 7), 8);
        assert_eq!(width(3, 7), 3);
    }
}

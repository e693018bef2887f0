//! Heartbeat: when a recursion lets workers in, and how often its members read the clock.
//!
//! The duration of a recursion is unknown. A recursion that has run for a while is expected to run for as long again. So it lets
//! workers in once sharing that rest saves more than it costs. A call that was long the last times is expected to be long again and
//! lets them in at once.
//!
//! Sources: heartbeat scheduling, which bounds what sharing costs by the time between two beats, is from Acar, Charguéraud and
//! Rainey (PLDI 2018). Paying for something once as much has been lost without it is the ski-rental rule (Karlin and others, 1988).

use std::fmt;

use crate::{Alternative, Alternatives, Decision, Nanos};

/// A recursion that runs on one thread so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recursion {
    /// How long it has been running.
    pub age: Nanos,
    /// How long the call will last, judging by the last ones: see [`CallTime`].
    pub known: Option<Nanos>,
}

impl Recursion {
    /// Predicted time of the rest on one thread.
    pub fn rest(&self) -> Nanos {
        let known = self.known.map_or(0.0, |known| known.0 - self.age.0);
        Nanos(known.max(self.age.0))
    }
}

impl fmt::Display for Recursion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "running for {}, about {} left", self.age, self.rest())
    }
}

/// The workers that could help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Helpers {
    /// Members there would be, the caller included.
    pub width: usize,
    /// From opening until the first worker takes part, and back.
    pub enter: Nanos,
    /// The workers are busy with other work.
    pub busy: bool,
}

/// Whether to let workers in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShareDecision {
    /// Let them in.
    Open {
        /// Members wanted, the caller included.
        width: usize,
    },
    /// Go on alone and ask again.
    Wait {
        /// When the recursion has this age.
        until: Nanos,
    },
    /// Go on alone, and do not ask again.
    Alone,
}

impl fmt::Display for ShareDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareDecision::Open { width } => write!(f, "open to {width} members"),
            ShareDecision::Wait { until } => write!(f, "alone until {until}"),
            ShareDecision::Alone => write!(f, "alone"),
        }
    }
}

/// Lets others in or not; see the [module page](self).
pub fn decide(recursion: Recursion, helpers: Helpers) -> Decision<Recursion, ShareDecision> {
    let rest = recursion.rest();
    let width = helpers.width.max(1);
    let shared = Nanos(rest.0 / width as f64 + helpers.enter.0);
    let alternatives = Alternatives::new(&[
        Alternative { name: "alone", predicted: rest },
        Alternative { name: "shared", predicted: shared },
    ]);
    let decided = |choice, why| Decision { inputs: recursion, choice, alternatives, why };
    if width == 1 {
        return decided(ShareDecision::Alone, "there are no other members");
    }
    let next_beat = Nanos(recursion.age.0 + PollIntervals::MEASURED.alone.0);
    if helpers.busy {
        return decided(ShareDecision::Wait { until: next_beat }, "the workers have something else to do");
    }
    if shared.0 < rest.0 {
        return decided(ShareDecision::Open { width }, "sharing the rest is faster");
    }
    // At this age the rest is long enough; sooner if the workers' state changes, hence not later than the next beat.
    let pays = helpers.enter.0 / (1.0 - 1.0 / width as f64);
    let until = Nanos(pays.min(next_beat.0));
    decided(ShareDecision::Wait { until }, "entering costs more than it saves")
}

/// How often the members of a recursion read the clock and offer work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PollIntervals {
    /// Interval between two readings of the clock.
    pub look: Nanos,
    /// Interval between two offers while a worker is looking for work.
    pub hungry: Nanos,
    /// Interval between two offers, or two wakes, while no worker is.
    pub alone: Nanos,
}

impl PollIntervals {
    /// On a 2-core x86-64 virtual machine (2026-11), reading the clock costs 50 ns in all, 1 % of 5 us. An offer that is taken back
    /// costs 30 ns and one that is taken about 150 ns, less than 10 % of 2 us. A wake costs 4 us, a fifth of 20 us; the interval
    /// doubles after each wake that brought no worker.
    pub const MEASURED: PollIntervals =
        PollIntervals { look: Nanos(5_000.0), hungry: Nanos(2_000.0), alone: Nanos(20_000.0) };
}

/// What a call site remembers: how long its last two calls took on one thread. The shorter one is used, so that a site with an
/// occasional long call is not taken for a long one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallTime {
    last: Nanos,
    before: Nanos,
}

impl CallTime {
    /// Of a site that was never called.
    pub const NOTHING: CallTime = CallTime { last: Nanos(0.0), before: Nanos(0.0) };

    /// How long the next call will take, if two calls have been measured.
    pub fn next(self) -> Option<Nanos> {
        let shorter = self.last.0.min(self.before.0);
        (shorter > 0.0).then_some(Nanos(shorter))
    }

    /// After a call that took `time`, shared by `members`: on one thread it takes no more than that many times as long.
    pub fn after(self, time: Nanos, members: usize) -> CallTime {
        CallTime { last: Nanos(time.0 * members.max(1) as f64), before: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(age: f64, known: Option<f64>, enter: f64) -> ShareDecision {
        let recursion = Recursion { age: Nanos(age), known: known.map(Nanos) };
        decide(recursion, Helpers { width: 2, enter: Nanos(enter), busy: false }).choice
    }

    #[test]
    fn a_recursion_opens_once_its_age_pays_for_it() {
        for enter in [1_000.0, 9_000.0] {
            assert_eq!(choice(2.0 * enter + 1.0, None, enter), ShareDecision::Open { width: 2 });
            assert_eq!(choice(2.0 * enter - 1.0, None, enter), ShareDecision::Wait { until: Nanos(2.0 * enter) });
        }
        // The workers may be awake by then.
        let beat = PollIntervals::MEASURED.alone;
        assert_eq!(choice(0.0, None, 30_000.0), ShareDecision::Wait { until: beat });
    }

    #[test]
    fn a_long_call_opens_at_once_the_third_time() {
        let known = CallTime::NOTHING.after(Nanos(100_000.0), 1);
        assert_eq!(known.next(), None);
        let known = known.after(Nanos(60_000.0), 2);
        assert_eq!(known.next(), Some(Nanos(100_000.0)));
        assert_eq!(choice(0.0, known.next().map(|known| known.0), 30_000.0), ShareDecision::Open { width: 2 });
        let known = known.after(Nanos(500.0), 1);
        assert!(matches!(choice(0.0, known.next().map(|known| known.0), 30_000.0), ShareDecision::Wait { .. }));
    }

    #[test]
    fn a_recursion_does_not_wait_for_busy_or_missing_workers() {
        let old = Recursion { age: Nanos(1e9), known: None };
        let helpers = Helpers { width: 4, enter: Nanos(1.0), busy: true };
        let beat = PollIntervals::MEASURED.alone.0;
        assert_eq!(decide(old, helpers).choice, ShareDecision::Wait { until: Nanos(1e9 + beat) });
        let decision = decide(old, Helpers { width: 1, ..helpers });
        assert_eq!(
            decision.to_string(),
            "alone: there are no other members (running for 1.00 s, about 1.00 s left); alone: 1.00 s; shared: 1.00 s"
        );
    }
}

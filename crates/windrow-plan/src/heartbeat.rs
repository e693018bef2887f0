//! Heartbeat: when a recursion lets others in, and how often its members look up from their work.
//!
//! Nobody knows how long a recursion will last. What has lasted for a while is expected to last as long again: so it lets others in
//! once half of such a rest, shared, saves more than it costs. A call that was long the last times is expected to be that long
//! and opens at once.
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
    /// How long such a call lasts, going by the last ones: see [`Known`].
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

/// Those who could help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Helpers {
    /// Members there would be, the caller included.
    pub width: usize,
    /// From opening until the first of them takes part, and back.
    pub enter: Nanos,
    /// They have something else to do.
    pub busy: bool,
}

/// What to do about others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beat {
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

impl fmt::Display for Beat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beat::Open { width } => write!(f, "open to {width} members"),
            Beat::Wait { until } => write!(f, "alone until {until}"),
            Beat::Alone => write!(f, "alone"),
        }
    }
}

/// Lets others in or not; see the [module page](self).
pub fn decide(recursion: Recursion, helpers: Helpers) -> Decision<Recursion, Beat> {
    let rest = recursion.rest();
    let width = helpers.width.max(1);
    let shared = Nanos(rest.0 / width as f64 + helpers.enter.0);
    let alternatives = Alternatives::new(&[
        Alternative { name: "alone", predicted: rest },
        Alternative { name: "shared", predicted: shared },
    ]);
    let decided = |choice, why| Decision { inputs: recursion, choice, alternatives, why };
    if width == 1 {
        return decided(Beat::Alone, "there is nobody else");
    }
    let next_beat = Nanos(recursion.age.0 + Rhythm::MEASURED.alone.0);
    if helpers.busy {
        return decided(Beat::Wait { until: next_beat }, "the workers have something else to do");
    }
    if shared.0 < rest.0 {
        return decided(Beat::Open { width }, "sharing the rest is faster");
    }
    // At this age the rest is long enough; sooner if the workers' state changes, hence not later than the next beat.
    let pays = helpers.enter.0 / (1.0 - 1.0 / width as f64);
    let until = Nanos(pays.min(next_beat.0));
    decided(Beat::Wait { until }, "entering costs more than it saves")
}

/// How often the members of a recursion look up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// Between two looks at the clock.
    pub look: Nanos,
    /// Between two offers while somebody is looking for work.
    pub hungry: Nanos,
    /// Between two offers, or two wakes, while nobody is.
    pub alone: Nanos,
}

impl Rhythm {
    /// On a 2-core x86-64 virtual machine (2026-11) a look at the clock costs 50 ns in all, 1 % of 5 us; an offer that is taken back
    /// 30 ns and one that is taken about 150 ns, which is less than 10 % of 2 us; a wake 4 us, a fifth of 20 us, and the patience
    /// doubles whenever one was in vain.
    pub const MEASURED: Rhythm = Rhythm { look: Nanos(5_000.0), hungry: Nanos(2_000.0), alone: Nanos(20_000.0) };
}

/// What a call site remembers: how long its last two calls took on one thread. The shorter one is believed, so that a site
/// which is long now and then is not taken for long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    last: Nanos,
    before: Nanos,
}

impl Known {
    /// Of a site that was never called.
    pub const NOTHING: Known = Known { last: Nanos(0.0), before: Nanos(0.0) };

    /// How long the next call will take, if two calls tell.
    pub fn next(self) -> Option<Nanos> {
        let shorter = self.last.0.min(self.before.0);
        (shorter > 0.0).then_some(Nanos(shorter))
    }

    /// After a call that took `time`, shared by `members`: at most that many times as long on one thread.
    pub fn after(self, time: Nanos, members: usize) -> Known {
        Known { last: Nanos(time.0 * members.max(1) as f64), before: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(age: f64, known: Option<f64>, enter: f64) -> Beat {
        let recursion = Recursion { age: Nanos(age), known: known.map(Nanos) };
        decide(recursion, Helpers { width: 2, enter: Nanos(enter), busy: false }).choice
    }

    #[test]
    fn a_recursion_opens_once_its_age_pays_for_it() {
        for enter in [1_000.0, 9_000.0] {
            assert_eq!(choice(2.0 * enter + 1.0, None, enter), Beat::Open { width: 2 });
            assert_eq!(choice(2.0 * enter - 1.0, None, enter), Beat::Wait { until: Nanos(2.0 * enter) });
        }
        // The workers may be awake by then.
        let beat = Rhythm::MEASURED.alone;
        assert_eq!(choice(0.0, None, 30_000.0), Beat::Wait { until: beat });
    }

    #[test]
    fn a_long_call_opens_at_once_the_third_time() {
        let known = Known::NOTHING.after(Nanos(100_000.0), 1);
        assert_eq!(known.next(), None);
        let known = known.after(Nanos(60_000.0), 2);
        assert_eq!(known.next(), Some(Nanos(100_000.0)));
        assert_eq!(choice(0.0, known.next().map(|known| known.0), 30_000.0), Beat::Open { width: 2 });
        let known = known.after(Nanos(500.0), 1);
        assert!(matches!(choice(0.0, known.next().map(|known| known.0), 30_000.0), Beat::Wait { .. }));
    }

    #[test]
    fn nobody_waits_for_those_who_are_busy_or_not_there() {
        let old = Recursion { age: Nanos(1e9), known: None };
        let helpers = Helpers { width: 4, enter: Nanos(1.0), busy: true };
        let beat = Rhythm::MEASURED.alone.0;
        assert_eq!(decide(old, helpers).choice, Beat::Wait { until: Nanos(1e9 + beat) });
        let decision = decide(old, Helpers { width: 1, ..helpers });
        assert_eq!(
            decision.to_string(),
            "alone: there is nobody else (running for 1.00 s, about 1.00 s left); alone: 1.00 s; shared: 1.00 s"
        );
    }
}

//! Recursion: the age at which a recursion lets workers in.
//!
//! ```text
//! rest = age of the recursion
//! let workers in if shared(rest) * margin < rest
//! else ask again when the age pays for entering, or after a heartbeat if that is sooner
//! ```
//!
//! The duration of a recursion is unknown. A recursion that has run for a while is expected to run for as long again. `shared` is that of
//! [`share`](super).
//!
//! Departure: **a known call** ([`site`](crate::site)) that was long the last times is expected to be long again. Its `rest`
//! is the remainder of that time, so it lets workers in at once.
//!
//! Source: heartbeat scheduling bounds the cost of sharing by the time between two beats (Acar, Charguéraud and Rainey, PLDI 2018).

use super::{Costs, ShareChoice, Workers, predict};
use crate::{Items, Nanos};

/// A recursion that runs on one thread so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recursion {
    /// Running time so far.
    pub age: Nanos,
    /// Predicted time of the whole call, by the last calls: see [`site`](crate::site).
    pub known: Option<Nanos>,
}

impl Recursion {
    /// Predicted time of the rest on one thread.
    pub fn rest(&self) -> Nanos {
        let known = self.known.map_or(0.0, |known| known.0 - self.age.0);
        Nanos(known.max(self.age.0))
    }
}

/// The decision about workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShareDecision {
    /// Let them in.
    Open {
        /// Members wanted, the caller included.
        width: usize,
    },
    /// Go on serially and ask again.
    Wait {
        /// Age of the recursion at that time.
        until: Nanos,
    },
    /// Go on serially, and do not ask again.
    Alone,
}

/// The choice: open once sharing the predicted rest saves more than it costs.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::share::{Costs, Recursion, ShareDecision, Workers, recursion};
///
/// let (workers, costs) = (Workers { most: 2, idle: 1, asleep: 0, busy: false }, Costs::new(Machine::example()));
/// let decide = |age, known| recursion(Recursion { age, known }, &workers, &costs).choice;
/// // An unknown recursion opens at the age at which it said that it would ask again.
/// let ShareDecision::Wait { until } = decide(Nanos(0.0), None) else { panic!("nothing is known") };
/// assert_eq!(decide(Nanos(1.01 * until.0), None), ShareDecision::Open { width: 2 });
/// // One that was long the last times opens at once.
/// assert_eq!(decide(Nanos(0.0), Some(Nanos::micros(500.0))), ShareDecision::Open { width: 2 });
/// ```
pub fn recursion(recursion: Recursion, workers: &Workers, costs: &Costs) -> ShareChoice<ShareDecision> {
    let rest = recursion.rest();
    let next_beat = Nanos(recursion.age.0 + costs.machine.heartbeat().0);
    let sharing = predict(rest, Items(u64::MAX), workers, costs);
    let shared = sharing.map(|sharing| sharing.done);
    let decided = |choice, why| ShareChoice { choice, why, shared };
    if workers.most < 2 {
        return decided(ShareDecision::Alone, "there are no workers, or no CPUs for them");
    }
    if workers.busy {
        return decided(ShareDecision::Wait { until: next_beat }, "the pool cannot take another region");
    }
    let Some(sharing) = sharing else {
        return decided(ShareDecision::Wait { until: next_beat }, "no worker is free");
    };
    if sharing.pays(rest) {
        // All workers may come: a recursion that goes on has work also for those that are busy now.
        return decided(ShareDecision::Open { width: workers.most }, "sharing the rest is faster");
    }
    // At this age the rest is long enough. Workers may wake up before that, so the question is not put off beyond the next beat.
    let pays = sharing.break_even(costs);
    let until = Nanos(pays.0.max(recursion.age.0).min(next_beat.0));
    decided(ShareDecision::Wait { until }, "entering costs more than it saves")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn costs() -> Costs {
        Costs::new(Machine::example())
    }

    fn choice(age: f64, known: Option<f64>, idle: usize) -> ShareDecision {
        let workers = Workers { most: 2, idle, asleep: 1 - idle, busy: false };
        recursion(Recursion { age: Nanos(age), known: known.map(Nanos) }, &workers, &costs()).choice
    }

    #[test]
    fn a_recursion_opens_once_its_age_pays_for_it() {
        // Entering and its margin, and half of the rest.
        for (idle, pays) in [(1, 660.0 / 0.45), (0, 18_000.0 / 0.4)] {
            assert_eq!(choice(1.001 * pays, None, idle), ShareDecision::Open { width: 2 });
            let beat = 100.0 + costs().machine.heartbeat().0;
            let ShareDecision::Wait { until } = choice(100.0, None, idle) else { panic!("too young") };
            assert!((until.0 - pays.min(beat)).abs() < 1.0, "{until}");
        }
    }

    #[test]
    fn a_call_that_was_long_opens_at_once() {
        assert_eq!(choice(0.0, Some(100_000.0), 0), ShareDecision::Open { width: 2 });
        assert!(matches!(choice(0.0, Some(1_300.0), 1), ShareDecision::Wait { until } if until > Nanos(1_400.0)));
    }

    #[test]
    fn a_recursion_does_not_wait_for_busy_or_missing_workers() {
        let old = Recursion { age: Nanos(1e9), known: None };
        let workers = Workers { most: 4, idle: 3, asleep: 0, busy: true };
        let beat = Nanos(1e9 + costs().machine.heartbeat().0);
        assert_eq!(recursion(old, &workers, &costs()).choice, ShareDecision::Wait { until: beat });
        let none = Workers { idle: 0, busy: false, ..workers };
        assert_eq!(recursion(old, &none, &costs()).choice, ShareDecision::Wait { until: beat });
        let decision = recursion(old, &Workers { most: 1, ..none }, &costs());
        assert_eq!(decision.choice, ShareDecision::Alone);
        assert_eq!(decision.why, "there are no workers, or no CPUs for them");
    }
}

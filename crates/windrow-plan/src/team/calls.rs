//! Team calls: the choice between a team and a serial call. Calls are compared as a whole.
//!
//! ```text
//! run each call in the best mode, and remember its time
//! when the budget allows: run two calls in the other mode, and remember the time of the second
//! the faster mode is the best one
//! the cost of the other mode beyond the best one is paid out of the site's account (`explore`)
//! ```
//!
//! To form a team takes some microseconds that no round shows: the caller waits for the workers to join and to leave. For a short call
//! that can be more than the workers save.
//!
//! Departures:
//! 1. **A long call** runs serially only if its rounds run best on one member: then other members can only delay it. (Beside a busy
//!    process a call of 5 ms took 9 ms, because a member left late.)
//! 2. **A site whose calls differ** by more than a factor of two, in time or in their number of rounds, remembers nothing; it forms teams.

use crate::Nanos;
use crate::estimate::{Estimate, Smoothing, TRUSTED, agree};
use crate::explore::Budget;

/// The number of calls of an exploration. The time of the second one counts, because the first one wakes workers.
///
/// Measure: 2 calls.
const CALLS: u8 = 2;
/// The minimum cost of an exploration, as a share of a call: it is not worth changing often between two modes that cost the same.
///
/// Measure: 0.2 calls.
const MINIMUM: f64 = 0.2;

/// The mode of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the caller and the free workers.
    #[default]
    Team,
    /// By the caller without workers.
    Serial,
}

impl Mode {
    fn other(self) -> Self {
        match self {
            Mode::Team => Mode::Serial,
            Mode::Serial => Mode::Team,
        }
    }
}

/// Memory of the calls of one site, each as a whole: plain data. The rule: the page of this module.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TeamCalls {
    /// Times of calls.
    team: Estimate,
    serial: Estimate,
    best: Mode,
    /// Cost of this exploration so far, beyond calls in the best mode.
    cost: f64,
    budget: Budget,
    /// Calls left of the current exploration.
    exploring: u8,
}

impl TeamCalls {
    /// Mode of the next call.
    pub fn choose(&self) -> Mode {
        if self.exploring > 0 { self.best.other() } else { self.best }
    }

    fn known(&mut self, mode: Mode) -> &mut Estimate {
        match mode {
            Mode::Team => &mut self.team,
            Mode::Serial => &mut self.serial,
        }
    }

    /// The memory for a call of `rounds` rounds after one of `before`: if they differ by more than a factor of two, these are calls of another kind,
    /// even if they take as long.
    #[must_use]
    pub fn of(self, rounds: u64, before: u64) -> Self {
        if agree(rounds as f64, before as f64) { self } else { TeamCalls::default() }
    }

    /// The memory after a call that ran in this mode and took `elapsed` in all. `may_be_serial`: the call was short, or its rounds run best on
    /// one member.
    #[must_use]
    pub fn after(mut self, mode: Mode, elapsed: Nanos, may_be_serial: bool) -> Self {
        let time = Nanos(elapsed.0.max(1.0));
        if self.exploring != CALLS {
            if self.known(mode).is_surprised(time, Smoothing::CALLS) {
                // One call that disagrees may have been interrupted; two are calls of another kind.
                if !self.is_trusted(1) {
                    self = TeamCalls::default();
                    self.team = if mode == Mode::Team { Estimate::of(time) } else { Estimate::UNKNOWN };
                }
                (self.team.trust, self.serial.trust) = (0, 0);
                return self;
            }
            *self.known(mode) = self.known(mode).after(time, Smoothing::CALLS);
        }
        if mode == self.best {
            self.budget = self.budget.earn(time);
        } else {
            // The first call counts, too: it pays for the wake of the workers.
            self.cost += time.0 - self.known(self.best).value.0;
            self.exploring = self.exploring.saturating_sub(1);
            if self.exploring == 0 {
                let is_serial = self.serial.is_known() && self.serial.value < self.team.value;
                self.best = if is_serial { Mode::Serial } else { Mode::Team };
                let least = MINIMUM * self.known(self.best).value.0;
                self.budget = self.budget.pay(Nanos(self.cost.max(least)));
            }
        }
        let is_due = self.exploring == 0 && self.is_trusted(TRUSTED) && self.budget.debt().0 == 0.0;
        if is_due && (may_be_serial || self.best == Mode::Serial) {
            (self.exploring, self.cost) = (CALLS, 0.0);
        }
        self
    }

    /// True if this number of calls in a row has agreed with those before.
    fn is_trusted(&self, calls: u8) -> bool {
        self.team.trust.max(self.serial.trust) >= calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls. Returns how many ran serially, and the time relative to that of the better mode.
    fn run(calls: &mut TeamCalls, number: usize, together: f64, alone: f64) -> (usize, f64) {
        let (mut chosen, mut time) = (0, 0.0);
        for _ in 0..number {
            let mode = calls.choose();
            let took = if mode == Mode::Serial { alone } else { together };
            chosen += usize::from(mode == Mode::Serial);
            time += took;
            *calls = calls.after(mode, Nanos(took), together.min(alone) < 500e3);
        }
        (chosen, time / (number as f64 * together.min(alone)))
    }

    #[test]
    fn the_cheaper_way_is_found_and_left_when_it_is_no_longer() {
        let mut calls = TeamCalls::default();
        let (alone, ratio) = run(&mut calls, 1000, 23e3, 14e3);
        assert!(alone > 960 && ratio < 1.04, "{alone}, {ratio}");
        // The workers have become useful.
        let (alone, ratio) = run(&mut calls, 2000, 12e3, 14e3);
        assert!(alone < 1000 && ratio < 1.15, "{alone}, {ratio}");
        let (alone, ratio) = run(&mut TeamCalls::default(), 1000, 60e3, 100e3);
        assert!(alone < 40 && ratio < 1.04, "{alone}, {ratio}");
    }

    /// The first call of an exploration wakes the workers: that is part of its cost.
    #[test]
    fn exploration_pays_for_its_wakes() {
        let (mut calls, mut time, mut before) = (TeamCalls::default(), 0.0, Mode::Team);
        for _ in 0..20_000 {
            let mode = calls.choose();
            let took = match (before, mode) {
                (_, Mode::Serial) => 6e3,
                (Mode::Team, Mode::Team) => 7e3,
                (Mode::Serial, Mode::Team) => 22e3,
            };
            time += took;
            calls = calls.after(mode, Nanos(took), true);
            before = mode;
        }
        let ratio = time / (20_000.0 * 6e3);
        assert!(ratio < 1.012, "{ratio}");
    }

    /// The first call in another mode wakes workers, the second one is measured, and a third one would only cost time.
    #[test]
    fn a_mode_that_is_far_slower_runs_twice() {
        assert_eq!(run(&mut TeamCalls::default(), 100, 20e3, 200e3).0, 2);
    }

    /// Two modes that cost the same are changed seldom, and a mode that becomes faster is found soon.
    #[test]
    fn modes_that_cost_the_same_are_compared_now_and_then() {
        let mut calls = TeamCalls::default();
        run(&mut calls, 100, 20e3, 20e3);
        let changes = (0..1000).filter(|_| {
            let before = calls.choose();
            run(&mut calls, 1, 20e3, 20e3);
            calls.choose() != before
        });
        let changes = changes.count();
        assert!(changes < 120, "{changes} changes of the mode in 1000 calls");
        let found = (0..50).map(|phase| {
            let mut calls = calls;
            run(&mut calls, phase, 20e3, 20e3);
            let mut after = 0;
            while calls.best == Mode::Team && after < 1000 {
                run(&mut calls, 1, 20e3, 15e3);
                after += 1;
            }
            after
        });
        let found = found.max();
        assert!(found < Some(30), "{found:?}");
    }

    #[test]
    fn long_calls_and_calls_of_all_kinds_are_run_together() {
        assert_eq!(run(&mut TeamCalls::default(), 100, 600e3, 550e3).0, 0);
        let mut calls = TeamCalls::default();
        for call in 0..100 {
            assert_eq!(calls.choose(), Mode::Team);
            calls = calls.after(Mode::Team, Nanos(if call % 2 == 0 { 10e3 } else { 100e3 }), true);
        }
    }

    #[test]
    fn calls_of_other_rounds_are_of_another_kind() {
        let mut calls = TeamCalls::default();
        run(&mut calls, 500, 23e3, 14e3);
        assert_eq!(calls.of(100, 60).best, Mode::Serial);
        assert_eq!(calls.of(100, 1000), TeamCalls::default());
        assert_eq!(calls.of(0, 0).best, Mode::Serial, "teams without rounds are compared, too");
    }

    #[test]
    fn one_interruption_changes_nothing_and_two_everything() {
        let mut calls = TeamCalls::default();
        run(&mut calls, 500, 23e3, 14e3);
        // An exploration may have begun.
        let explores = usize::from(calls.exploring);
        run(&mut calls, explores, 23e3, 14e3);
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(14e3), true).after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Team);
    }
}

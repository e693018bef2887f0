//! Team calls: whether a team forms at all, or the caller runs the call alone. Calls are compared as a whole.
//!
//! ```text
//! run each call in the best mode, and remember its time
//! when the budget allows: run two calls in the other mode, and remember the time of the second
//! the faster mode is the best one
//! what the other mode costs beyond the best one is a debt, which 1 % of the time of calls pays
//! ```
//!
//! To form a team takes some microseconds that no round shows: the caller waits for the workers to join and to leave. For a short call
//! that can be more than the workers save.
//!
//! Departures:
//! 1. **A long call** runs serially only if its rounds run best on one member: then other members can only delay it. (Beside a busy
//!    process a call of 5 ms took 9 ms, because a member left late.)
//! 2. **A site whose calls differ** by more than a factor of two remembers nothing; it forms teams.

use crate::Nanos;
use crate::explore::Budget;
use crate::width::agree;

/// The number of calls of an exploration. The time of the second one counts, because the first one wakes workers.
///
/// Measure: 2 calls.
const CALLS: u8 = 2;
/// Consecutive calls that must agree before the other mode is explored.
///
/// Measure: count of calls.
const ALIKE: u8 = 2;
/// The share of the time of calls that exploration may cost: half of the budget. The other half is for the [`width`](crate::width) of rounds.
///
/// Measure: share of the time run.
const SHARE: f64 = Budget::SHARE / 2.0;
/// The minimum cost of an exploration, as a share of a call: it is not worth changing often between two modes that cost the same.
///
/// Measure: 0.2 calls.
const MINIMUM: f64 = 0.2;

/// How a call is run.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Mode, TeamCalls};
///
/// assert_eq!(TeamCalls::new().choose(), Mode::default());
/// // Long calls are never tried serially, if their rounds run best on several members.
/// let mut calls = TeamCalls::new();
/// for _ in 0..100 {
///     calls = calls.after(Mode::Team, Nanos::micros(5000.0), false);
///     assert_eq!(calls.choose(), Mode::Team);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the caller and the free workers.
    #[default]
    Team,
    /// By the caller alone.
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

/// What is remembered of the calls of one site, each as a whole: plain data. The rule: [`team`](crate::team).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Mode, TeamCalls};
///
/// let mut calls = TeamCalls::new();
/// let mut serial = 0;
/// for _ in 0..1000 {
///     let mode = calls.choose();
///     serial += usize::from(mode == Mode::Serial);
///     calls = calls.after(mode, Nanos(if mode == Mode::Serial { 14_000.0 } else { 23_000.0 }), true);
/// }
/// assert!(serial > 900);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TeamCalls {
    /// Time of a call; 0 is unknown.
    team: f64,
    serial: f64,
    best: Mode,
    /// Consecutive calls that agreed with the known times.
    alike: u8,
    /// The last call did not agree.
    differed: bool,
    /// What the last exploration cost beyond calls in the best mode.
    cost: f64,
    /// Time run since the last exploration.
    since: f64,
    /// Calls left of the current exploration.
    exploring: u8,
}

impl TeamCalls {
    /// Nothing is known.
    ///
    /// ```
    /// use windrow_plan::team::{Mode, TeamCalls};
    ///
    /// assert_eq!(TeamCalls::new().choose(), Mode::Team, "a team is formed until serial calls prove faster");
    /// ```
    pub const fn new() -> Self {
        let best = Mode::Team;
        TeamCalls { team: 0.0, serial: 0.0, best, alike: 0, differed: false, cost: 0.0, since: 0.0, exploring: 0 }
    }

    /// How to run the next call.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::team::{Mode, TeamCalls};
    ///
    /// // Once calls agree, the serial mode is explored: two calls, of which the second counts.
    /// let team = (0..2).fold(TeamCalls::new(), |calls, _| calls.after(Mode::Team, Nanos::micros(20.0), true));
    /// assert_eq!(team.choose(), Mode::Serial);
    /// let serial = (0..2).fold(team, |calls, _| calls.after(Mode::Serial, Nanos::micros(5.0), true));
    /// assert_eq!(serial.choose(), Mode::Serial, "it was faster");
    /// ```
    pub fn choose(&self) -> Mode {
        if self.exploring > 0 { self.best.other() } else { self.best }
    }

    /// The memory after a call that ran in this mode and took `elapsed` in all. `may_be_serial`: the call was short, or its rounds run best on
    /// one member.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::team::{Mode, TeamCalls};
    ///
    /// let team = (0..2).fold(TeamCalls::new(), |calls, _| calls.after(Mode::Team, Nanos::micros(20.0), true));
    /// let slower = (0..2).fold(team, |calls, _| calls.after(Mode::Serial, Nanos::micros(35.0), true));
    /// assert_eq!(slower.choose(), Mode::Team, "the trial is over, and the team was faster");
    /// ```
    #[must_use]
    pub fn after(mut self, mode: Mode, elapsed: Nanos, may_be_serial: bool) -> Self {
        let time = elapsed.0.max(1.0);
        let first = self.exploring == CALLS;
        let known = match mode {
            Mode::Team => self.team,
            Mode::Serial => self.serial,
        };
        if known > 0.0 && !first && !agree(known, time) {
            // One call that disagrees may have been interrupted; two are calls of another kind.
            if self.differed {
                return TeamCalls { team: if mode == Mode::Team { time } else { 0.0 }, ..TeamCalls::new() };
            }
            (self.differed, self.alike) = (true, 0);
            return self;
        }
        self.differed = false;
        if !first {
            let known = if known > 0.0 { known + (time - known) / 4.0 } else { time };
            match mode {
                Mode::Team => self.team = known,
                Mode::Serial => self.serial = known,
            }
        }
        self.alike = (self.alike + 1).min(ALIKE);
        if mode == self.best {
            self.since += time;
        } else {
            // The first call counts, too: it pays for the wake of the workers.
            self.cost += time - if mode == Mode::Team { self.serial } else { self.team };
            self.exploring = self.exploring.saturating_sub(1);
            if self.exploring == 0 {
                self.best = if self.serial > 0.0 && self.serial < self.team { Mode::Serial } else { Mode::Team };
                self.since = 0.0;
            }
        }
        if self.exploring == 0 && (may_be_serial || self.best == Mode::Serial) && self.is_due() {
            (self.exploring, self.cost) = (CALLS, 0.0);
        }
        self
    }

    fn is_due(&self) -> bool {
        let (best, other) = match self.best {
            Mode::Team => (self.team, self.serial),
            Mode::Serial => (self.serial, self.team),
        };
        let price = if other > 0.0 { self.cost.max(MINIMUM * best) } else { 0.0 };
        self.alike == ALIKE && SHARE * self.since >= price
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
        let mut calls = TeamCalls::new();
        let (alone, ratio) = run(&mut calls, 1000, 23e3, 14e3);
        assert!(alone > 960 && ratio < 1.04, "{alone}, {ratio}");
        // The workers have become useful.
        let (alone, ratio) = run(&mut calls, 2000, 12e3, 14e3);
        assert!(alone < 1000 && ratio < 1.15, "{alone}, {ratio}");
        let (alone, ratio) = run(&mut TeamCalls::new(), 1000, 60e3, 100e3);
        assert!(alone < 40 && ratio < 1.04, "{alone}, {ratio}");
    }

    /// The first call of an exploration wakes the workers: that is part of its cost.
    #[test]
    fn exploration_pays_for_its_wakes() {
        let (mut calls, mut time, mut before) = (TeamCalls::new(), 0.0, Mode::Team);
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

    #[test]
    fn long_calls_and_calls_of_all_kinds_are_run_together() {
        assert_eq!(run(&mut TeamCalls::new(), 100, 600e3, 550e3).0, 0);
        let mut calls = TeamCalls::new();
        for call in 0..100 {
            assert_eq!(calls.choose(), Mode::Team);
            calls = calls.after(Mode::Team, Nanos(if call % 2 == 0 { 10e3 } else { 100e3 }), true);
        }
    }

    #[test]
    fn one_interruption_changes_nothing_and_two_everything() {
        let mut calls = TeamCalls::new();
        run(&mut calls, 500, 23e3, 14e3);
        while calls.exploring > 0 {
            run(&mut calls, 1, 23e3, 14e3);
        }
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(14e3), true).after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Serial);
        calls = calls.after(Mode::Serial, Nanos(4e6), true);
        assert_eq!(calls.choose(), Mode::Team);
    }
}

//! Short calls of a team, each compared as a whole: run by the caller alone, or together with workers.
//!
//! Coming together costs some microseconds that no round shows: the caller waits for the workers to come and to leave. For a call of
//! less than half a millisecond that can be more than the workers save. So the times of such calls alone and together are remembered.
//! The cheaper way is the best one (*home*). The other way is tried again once the time run since is 50 times its additional cost. A
//! try is two calls, and the second one counts, because the first one wakes workers.
//!
//! A call site whose calls differ by a factor of two has nothing to remember; its calls run together.

use super::{ALIKE, agree};
use crate::Nanos;

/// Longer calls are not compared: coming together (5 to 35 us where measured) costs them no more than a few percent.
const LONGEST: f64 = 500e3;
/// The share of the time run that trying the other way may cost.
const SHARE: f64 = 0.02;
/// Calls per try.
const TRY: u8 = 2;

/// How a call is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the caller and the free workers.
    #[default]
    Together,
    /// By the caller alone.
    Alone,
}

impl Mode {
    fn other(self) -> Self {
        match self {
            Mode::Together => Mode::Alone,
            Mode::Alone => Mode::Together,
        }
    }
}

/// What is remembered of the short calls of one call site, each compared as a whole: plain data.
///
/// The times of such calls alone and together are remembered. The cheaper way is the best one. The other way is tried again once the
/// time run since is 50 times its additional cost.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Mode, Whole};
///
/// let mut calls = Whole::new();
/// let mut alone = 0;
/// for _ in 0..1000 {
///     let way = calls.choose();
///     alone += usize::from(way == Mode::Alone);
///     calls = calls.after(way, if way == Mode::Alone { Nanos(14_000.0) } else { Nanos(23_000.0) });
/// }
/// assert!(alone > 900);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Whole {
    /// Time of a call; 0 is unknown.
    together: f64,
    alone: f64,
    home: Mode,
    /// Consecutive calls that agreed with the known times.
    alike: u8,
    /// The last call did not.
    strange: bool,
    /// Time run since the last try.
    since: f64,
    /// Calls left of the current try.
    trying: u8,
}

impl Whole {
    /// Nothing is known.
    pub const fn new() -> Self {
        Whole { together: 0.0, alone: 0.0, home: Mode::Together, alike: 0, strange: false, since: 0.0, trying: 0 }
    }

    /// How to run the next call.
    pub fn choose(&self) -> Mode {
        if self.trying > 0 { self.home.other() } else { self.home }
    }

    /// After a call that ran this way and took `elapsed` in all.
    #[must_use]
    pub fn after(mut self, way: Mode, elapsed: Nanos) -> Self {
        let time = elapsed.0.max(1.0);
        let first_of_try = self.trying == TRY;
        let known = match way {
            Mode::Together => self.together,
            Mode::Alone => self.alone,
        };
        if known > 0.0 && !first_of_try && !agree(known, time) {
            // One call may have been interrupted; two are calls of another kind.
            if self.strange {
                return Whole { together: if way == Mode::Together { time } else { 0.0 }, ..Whole::new() };
            }
            (self.strange, self.alike) = (true, 0);
            return self;
        }
        self.strange = false;
        if !first_of_try {
            let known = if known > 0.0 { known + (time - known) / 4.0 } else { time };
            match way {
                Mode::Together => self.together = known,
                Mode::Alone => self.alone = known,
            }
        }
        self.alike = (self.alike + 1).min(ALIKE);
        if way == self.home {
            self.since += time;
        } else {
            self.trying = self.trying.saturating_sub(1);
            if self.trying == 0 {
                self.home = if self.alone > 0.0 && self.alone < self.together { Mode::Alone } else { Mode::Together };
                self.since = 0.0;
            }
        }
        if self.trying == 0 && self.is_due() {
            self.trying = TRY;
        }
        self
    }

    fn is_due(&self) -> bool {
        let (home, other) = match self.home {
            Mode::Together => (self.together, self.alone),
            Mode::Alone => (self.alone, self.together),
        };
        let price = f64::from(TRY) * if other > 0.0 { (other - home).max(0.02 * home) } else { 0.0 };
        self.alike == ALIKE && home < LONGEST && SHARE * self.since >= price
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls. Returns how many ran alone, and the time relative to that of the better way.
    fn run(calls: &mut Whole, number: usize, together: f64, alone: f64) -> (usize, f64) {
        let (mut chosen, mut time) = (0, 0.0);
        for _ in 0..number {
            let way = calls.choose();
            let took = if way == Mode::Alone { alone } else { together };
            chosen += usize::from(way == Mode::Alone);
            time += took;
            *calls = calls.after(way, Nanos(took));
        }
        (chosen, time / (number as f64 * together.min(alone)))
    }

    #[test]
    fn the_cheaper_way_is_found_and_left_when_it_is_no_longer() {
        let mut calls = Whole::new();
        let (alone, ratio) = run(&mut calls, 1000, 23e3, 14e3);
        assert!(alone > 960 && ratio < 1.04, "{alone}, {ratio}");
        // The workers have become useful.
        let (alone, ratio) = run(&mut calls, 2000, 12e3, 14e3);
        assert!(alone < 1000 && ratio < 1.15, "{alone}, {ratio}");
        let (alone, ratio) = run(&mut Whole::new(), 1000, 60e3, 100e3);
        assert!(alone < 40 && ratio < 1.04, "{alone}, {ratio}");
    }

    #[test]
    fn long_calls_and_calls_of_all_kinds_are_run_together() {
        assert_eq!(run(&mut Whole::new(), 100, 600e3, 550e3).0, 0);
        let mut calls = Whole::new();
        for call in 0..100 {
            assert_eq!(calls.choose(), Mode::Together);
            calls = calls.after(Mode::Together, Nanos(if call % 2 == 0 { 10e3 } else { 100e3 }));
        }
    }

    #[test]
    fn one_interruption_changes_nothing_and_two_everything() {
        let mut calls = Whole::new();
        run(&mut calls, 500, 23e3, 14e3);
        while calls.trying > 0 {
            run(&mut calls, 1, 23e3, 14e3);
        }
        assert_eq!(calls.choose(), Mode::Alone);
        calls = calls.after(Mode::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Mode::Alone);
        calls = calls.after(Mode::Alone, Nanos(14e3)).after(Mode::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Mode::Alone);
        calls = calls.after(Mode::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Mode::Together);
    }
}

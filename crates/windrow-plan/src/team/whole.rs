//! Short calls of a team, each compared as a whole: by the caller alone, or together with others.
//!
//! Coming together costs some microseconds, which no round shows: who comes has to be waited for, and to leave again. For a call of less than
//! half a millisecond that can be more than the others save. So what such calls take alone and together is remembered, the
//! cheaper way is *home*, and the other is tried again when all that has been run since is 50 times what it costs more. Two calls are
//! tried in a row and the second counts, as the first one wakes sleepers.
//!
//! A call site whose calls differ by a factor of two has nothing to remember; its calls are run together.

use super::{ALIKE, agree};
use crate::Nanos;

/// Longer calls are not compared: what coming together costs (5 to 35 us where measured) is a few percent of them at most.
const LONGEST: f64 = 500e3;
/// Of the time run, what trying the other way may cost.
const SHARE: f64 = 0.02;
/// Calls of a try.
const TRY: u8 = 2;

/// How a call is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// With whoever is free.
    #[default]
    Together,
    /// By the caller.
    Alone,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Way::Together => Way::Alone,
            Way::Alone => Way::Together,
        }
    }
}

/// What is remembered of the short calls of one place in the program, each compared as a whole: plain data.
///
/// What such calls take alone and together is remembered, the cheaper way is home, and the other is tried again when all that has been
/// run since is 50 times what it costs more.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Way, Whole};
///
/// let mut calls = Whole::new();
/// let mut alone = 0;
/// for _ in 0..1000 {
///     let way = calls.choose();
///     alone += usize::from(way == Way::Alone);
///     calls = calls.after(way, if way == Way::Alone { Nanos(14_000.0) } else { Nanos(23_000.0) });
/// }
/// assert!(alone > 900);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Whole {
    /// What a call takes; 0 is unknown.
    together: f64,
    alone: f64,
    home: Way,
    /// Calls in a row that were like what is known.
    alike: u8,
    /// One was not.
    strange: bool,
    /// Time run since a try.
    since: f64,
    /// Calls that are left of one.
    trying: u8,
}

impl Whole {
    /// Nothing is known.
    pub const fn new() -> Self {
        Whole { together: 0.0, alone: 0.0, home: Way::Together, alike: 0, strange: false, since: 0.0, trying: 0 }
    }

    /// How to run the next call.
    pub fn choose(&self) -> Way {
        if self.trying > 0 { self.home.other() } else { self.home }
    }

    /// After a call that was run this way and took `elapsed` in all.
    #[must_use]
    pub fn after(mut self, way: Way, elapsed: Nanos) -> Self {
        let time = elapsed.0.max(1.0);
        let first_of_try = self.trying == TRY;
        let known = match way {
            Way::Together => self.together,
            Way::Alone => self.alone,
        };
        if known > 0.0 && !first_of_try && !agree(known, time) {
            // One call may have been interrupted; two are calls of another kind.
            if self.strange {
                return Whole { together: if way == Way::Together { time } else { 0.0 }, ..Whole::new() };
            }
            (self.strange, self.alike) = (true, 0);
            return self;
        }
        self.strange = false;
        if !first_of_try {
            let known = if known > 0.0 { known + (time - known) / 4.0 } else { time };
            match way {
                Way::Together => self.together = known,
                Way::Alone => self.alone = known,
            }
        }
        self.alike = (self.alike + 1).min(ALIKE);
        if way == self.home {
            self.since += time;
        } else {
            self.trying = self.trying.saturating_sub(1);
            if self.trying == 0 {
                self.home = if self.alone > 0.0 && self.alone < self.together { Way::Alone } else { Way::Together };
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
            Way::Together => (self.together, self.alone),
            Way::Alone => (self.alone, self.together),
        };
        let price = f64::from(TRY) * if other > 0.0 { (other - home).max(0.02 * home) } else { 0.0 };
        self.alike == ALIKE && home < LONGEST && SHARE * self.since >= price
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls; how many of them alone, and the time by that of the better way.
    fn run(calls: &mut Whole, number: usize, together: f64, alone: f64) -> (usize, f64) {
        let (mut chosen, mut time) = (0, 0.0);
        for _ in 0..number {
            let way = calls.choose();
            let took = if way == Way::Alone { alone } else { together };
            chosen += usize::from(way == Way::Alone);
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
        // The others have become useful.
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
            assert_eq!(calls.choose(), Way::Together);
            calls = calls.after(Way::Together, Nanos(if call % 2 == 0 { 10e3 } else { 100e3 }));
        }
    }

    #[test]
    fn one_interruption_changes_nothing_and_two_everything() {
        let mut calls = Whole::new();
        run(&mut calls, 500, 23e3, 14e3);
        while calls.trying > 0 {
            run(&mut calls, 1, 23e3, 14e3);
        }
        assert_eq!(calls.choose(), Way::Alone);
        calls = calls.after(Way::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Way::Alone);
        calls = calls.after(Way::Alone, Nanos(14e3)).after(Way::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Way::Alone);
        calls = calls.after(Way::Alone, Nanos(4e6));
        assert_eq!(calls.choose(), Way::Together);
    }
}

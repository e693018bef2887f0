//! The profile of a machine: its primitives as text, measured once and read by later processes.
//!
//! ```text
//! windrow profile 1
//! claim 9.4
//! line 180.2
//! nap 41250.0
//! wake 58040.0
//! ```
//!
//! Without a profile a process [guesses](Machine::guess) all costs from that of a claim, and learns from its first regions how wrong that was. A
//! profile replaces the guess, not the learning: a wrong profile is corrected as a wrong guess is.
//!
//! Two rules keep a foreign profile from doing harm, such as that of another machine with the same home folder. The cost of a claim is
//! measured by every process; a profile whose claim differs by more than [`SAME`] is not of this machine. And no cost counts as more or less
//! than [`WITHIN`] times its guess.
//!
//! Source: FFTW keeps what it has measured as "wisdom" (Frigo and Johnson, 1998).

use std::fmt::Write;

use crate::Nanos;
use crate::machine::Machine;

/// The version of the text.
///
/// Measure: count of versions.
const VERSION: u32 = 1;

/// The cost of a claim on one machine differs by this factor at most: frequencies change.
///
/// Measure: chosen, a factor between two costs.
pub const SAME: f64 = 2.0;

/// A cost of the profile and its guess differ by this factor at most.
///
/// Measure: chosen, a factor between two costs.
pub const WITHIN: f64 = 32.0;

/// The profile as text.
pub fn text(machine: &Machine) -> String {
    let mut text = format!("windrow profile {VERSION}\n");
    for (name, cost) in named(machine) {
        let _ = writeln!(text, "{name} {:.1}", cost.0);
    }
    text
}

fn named(machine: &Machine) -> [(&'static str, Nanos); 4] {
    [("claim", machine.claim), ("line", machine.line), ("nap", machine.nap), ("wake", machine.wake)]
}

/// The machine of a text.
///
/// # Errors
/// What is wrong with the text, in a few words.
///
/// ```
/// use windrow_plan::machine::Machine;
/// use windrow_plan::profile;
///
/// let text = profile::text(&Machine::example());
/// assert!(text.starts_with("windrow profile 1\nclaim 9.4\n"));
/// assert!(profile::parse(&text).is_ok());
/// assert_eq!(profile::parse("windrow profile 9\n").unwrap_err(), "line 1: not a profile of version 1");
/// ```
pub fn parse(text: &str) -> Result<Machine, String> {
    let mut lines = text.lines();
    if lines.next() != Some(&format!("windrow profile {VERSION}")) {
        return Err(format!("line 1: not a profile of version {VERSION}"));
    }
    let mut costs = named(&Machine::example());
    for (at, (name, cost)) in costs.iter_mut().enumerate() {
        let wrong = || format!("line {}: not `{name}` and nanoseconds", at + 2);
        let (found, nanos) = lines.next().and_then(|line| line.split_once(' ')).ok_or_else(wrong)?;
        let nanos: f64 = nanos.parse().ok().filter(|_| found == *name).ok_or_else(wrong)?;
        // A second is longer than any of them.
        if !(nanos > 0.0 && nanos < Nanos::SECOND.0) {
            return Err(wrong());
        }
        *cost = Nanos(nanos);
    }
    let [(_, claim), (_, line), (_, nap), (_, wake)] = costs;
    Ok(Machine { claim, line, nap, wake })
}

/// What a process assumes, from its guess and a profile; `None` if the profile is of another machine.
pub fn tuned(guess: &Machine, profile: &Machine) -> Option<Machine> {
    let bounded = |guess: Nanos, cost: Nanos| Nanos(cost.0.clamp(guess.0 / WITHIN, guess.0 * WITHIN));
    let (ours, theirs) = (guess.claim.0, profile.claim.0);
    (theirs <= SAME * ours && ours <= SAME * theirs).then(|| Machine {
        claim: guess.claim,
        line: bounded(guess.line, profile.line),
        nap: bounded(guess.nap, profile.nap),
        wake: bounded(guess.wake, profile.wake),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let machine = Machine { claim: Nanos(8.0), line: Nanos(180.5), nap: Nanos(41_000.0), wake: Nanos(60_000.0) };
        assert_eq!(parse(&text(&machine)), Ok(machine));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_line() {
        let good = text(&Machine::example());
        for (from, to, line) in [
            ("profile 1", "profile 2", 1),
            ("claim", "claims", 2),
            ("line 75.0", "line -75.0", 3),
            ("line 75.0", "line NaN", 3),
            ("nap", "wake", 4),
            ("wake 15000.0\n", "", 5),
            ("wake 15000.0", "wake 1e9", 5),
        ] {
            let error = parse(&good.replacen(from, to, 1)).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")), "{from} {to}: {error}");
        }
        assert!(parse("").is_err());
    }

    #[test]
    fn a_foreign_or_absurd_profile_does_little() {
        let guess = Machine::example();
        let profile = Machine { wake: Nanos(60_000.0), nap: Nanos(1e8), line: Nanos(0.1), ..guess };
        let tuned_ = tuned(&guess, &profile).expect("the same claim");
        assert_eq!(tuned_.wake, Nanos(60_000.0));
        assert_eq!((tuned_.nap.0, tuned_.line.0), (guess.nap.0 * WITHIN, guess.line.0 / WITHIN));
        for factor in [0.49, 2.1] {
            assert_eq!(tuned(&guess, &Machine { claim: Nanos(guess.claim.0 * factor), ..profile }), None);
        }
    }
}

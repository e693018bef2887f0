//! How long an idle worker looks for work before it sleeps.
//!
//! Looking makes the next region start 20 times sooner and burns a CPU while nothing comes. So a worker looks for as long as regions
//! have lately been apart, and hardly at all when they come milliseconds apart. It is out of place altogether when somebody
//! else needs that CPU: more threads than CPUs, or a quota that counts CPU time (dotnet/runtime issue 112869).

use std::fmt;

use crate::{Alternatives, Decision, Nanos};

/// What is known of the machine and of the last regions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Threads of the pool, a caller included.
    pub threads: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// CPU seconds a second that a quota allows.
    pub quota: Option<f64>,
    /// How long this worker has lately waited for a region: see [`gap_after`].
    pub gap: Nanos,
    /// It has just been woken, and found nothing to do.
    pub woken: bool,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads on {} CPUs, regions {} apart", self.threads, self.cpus, self.gap)?;
        match self.quota {
            Some(quota) => write!(f, ", quota {quota:.2}"),
            None => Ok(()),
        }
    }
}

/// Nobody ever looks longer than this.
pub const MOST: Nanos = Nanos(200_000.0);
/// What a worker looks for when nothing is to be expected: nothing. (5 us of it were a tenth of the CPU time of a cold call of 100 us,
/// and the calls of a loop that has just begun wake it for 3 us each until it has learned better.)
const LEAST: Nanos = Nanos(0.0);
/// Who is woken too late for a region is there for the next one, if calls follow each other: short ones are why it was woken.
const WOKEN: Nanos = Nanos(50_000.0);
/// A wait is counted as at most this, so that a few short ones are noticed after any pause.
const LONGEST_GAP: Nanos = Nanos(1_000_000.0);

/// The waits of a worker, averaged: half of it is the last one.
pub fn gap_after(gap: Nanos, waited: Nanos) -> Nanos {
    Nanos(0.5 * (gap.0 + waited.0.min(LONGEST_GAP.0)))
}

/// The budget for looking; zero means to sleep at once.
pub fn budget(room: Room) -> Decision<Room, Nanos> {
    let decided = |choice, why| Decision { inputs: room, choice, alternatives: Alternatives::default(), why };
    if room.threads > room.cpus {
        return decided(Nanos(0.0), "there are more threads than CPUs");
    }
    if room.quota.is_some_and(|quota| quota < room.cpus as f64) {
        return decided(Nanos(0.0), "a quota counts the time spent looking");
    }
    if room.woken && room.gap.0 > MOST.0 / 2.0 {
        return decided(WOKEN, "somebody has paid for waking it");
    }
    if room.gap.0 > MOST.0 / 2.0 {
        return decided(LEAST, "regions are too far apart to wait for the next one");
    }
    decided(Nanos((2.0 * room.gap.0 + 20_000.0).min(MOST.0)), "the next region is expected soon")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(threads: usize, cpus: usize, quota: Option<f64>, gap: f64) -> f64 {
        budget(Room { threads, cpus, quota, gap: Nanos(gap), woken: false }).choice.0
    }

    #[test]
    fn nobody_looks_at_the_expense_of_others() {
        assert!(choice(2, 2, None, 0.0) > 0.0);
        assert!(choice(2, 2, Some(4.0), 0.0) > 0.0);
        assert_eq!(choice(4, 2, None, 0.0), 0.0);
        assert_eq!(choice(2, 2, Some(1.5), 0.0), 0.0);
        let shown = budget(Room { threads: 2, cpus: 2, quota: Some(1.5), gap: Nanos(0.0), woken: true }).to_string();
        let expected =
            "0 ns: a quota counts the time spent looking (2 threads on 2 CPUs, regions 0 ns apart, quota 1.50)";
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_budget_follows_the_gaps() {
        assert_eq!(choice(2, 2, None, 20_000.0), 60_000.0);
        assert_eq!(choice(2, 2, None, 95_000.0), MOST.0);
        assert_eq!(choice(2, 2, None, 1e6), LEAST.0);
        let woken = Room { threads: 2, cpus: 2, quota: None, gap: Nanos(1e6), woken: true };
        assert_eq!(budget(woken).choice, WOKEN);
        // After a long pause four short waits are enough to look again.
        let gap = (0..4).fold(gap_after(Nanos(0.0), Nanos(1e12)), |gap, _| gap_after(gap, Nanos(1000.0)));
        assert!(choice(2, 2, None, gap.0) > LEAST.0);
    }
}

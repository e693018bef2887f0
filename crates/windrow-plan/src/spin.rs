//! The spin budget: how long an idle worker spins before it parks.
//!
//! ```text
//! gap = mean of this worker's recent waits for a region
//! threads > CPUs, or quota < CPUs: 0
//! gap <= 6.5 wakes:                2 gap + 1 wake, but not more than 13 wakes
//! else:                            0
//! ```
//!
//! Spinning makes the next region start 5 to 25 times sooner, but uses a CPU while no region comes. So a worker spins for about as long as
//! the recent gaps between regions, and not at all if regions are milliseconds apart. Nor does it spin if other threads need the CPU:
//! with more threads than CPUs, or under a quota that counts CPU time (dotnet/runtime issue 112869).
//!
//! What the gap pays is CPU time: if workers spin for 3 wakes whatever the gaps, the cells take as long, and the pool uses 1.65 times the
//! CPU time in the millisecond after calls, 1.25 to 1.4 times after a pause (median cell, records `ablation-warm` and `ablation-cold`).
//!
//! Departures from these lines:
//! 1. **A woken worker** that found no work spins for 3 wakes, however long the gaps: the wakeup has been paid for.
//! 2. **A long pause** counts as no more than 64 wakes. After it, four short waits are enough to spin again.
//! 3. **13 wakes** are about ten times the competitive bound, because a worker that spins also saves its caller the cost of a wakeup.

use std::fmt;

use crate::machine::Machine;
use crate::{Alternatives, Decision, Nanos};

/// The machine and the recent regions.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::spin::{SpinContext, budget};
///
/// // A container with 4 CPUs and a quota of 1.5 CPUs: spinning would use up the quota.
/// let free = SpinContext { threads: 4, cpus: 4, quota: None, gap: Nanos::micros(20.0), woken: false };
/// let limited = SpinContext { quota: Some(1.5), ..free };
/// assert!(budget(free, &Machine::example()).choice > Nanos(0.0));
/// assert_eq!(budget(limited, &Machine::example()).choice, Nanos(0.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpinContext {
    /// Threads of the pool, a caller included.
    pub threads: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// CPU seconds per second that a quota allows.
    pub quota: Option<f64>,
    /// How long this worker has recently waited for a region, on average: see [`gap_after`].
    pub gap: Nanos,
    /// The worker has been woken and has found no work yet.
    pub woken: bool,
}

impl fmt::Display for SpinContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads on {} CPUs, regions {} apart", self.threads, self.cpus, self.gap)?;
        match self.quota {
            Some(quota) => write!(f, ", quota {quota:.2}"),
            None => Ok(()),
        }
    }
}

/// The maximum spin budget, in wakes: see departure 3.
///
/// Measure: 13 wakes.
const MOST: f64 = 13.0;
/// The spin budget of a woken worker, in wakes. A worker that is woken too late for one region is then awake for the next one, if short
/// calls follow each other.
///
/// Measure: 3 wakes.
const WOKEN: f64 = 3.0;
/// A wait counts as no more than this many wakes, so that a few short waits outweigh any pause.
///
/// Measure: 64 wakes.
const LONGEST_GAP: f64 = 64.0;

/// The maximum spin budget on this machine.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::spin::{SpinContext, budget, most};
///
/// let machine = Machine::example();
/// for gap in [0.0, 20.0, 90.0, 1000.0].map(Nanos::micros) {
///     let context = SpinContext { threads: 2, cpus: 2, quota: None, gap, woken: true };
///     assert!(budget(context, &machine).choice <= most(&machine));
/// }
/// ```
pub fn most(machine: &Machine) -> Nanos {
    Nanos(MOST * machine.wake.0)
}

/// The mean of a worker's waits, in which the last one counts half.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::spin::gap_after;
///
/// let machine = Machine::example();
/// let pause = gap_after(Nanos(0.0), Nanos(1e12), &machine);
/// assert!(pause < Nanos(1e7), "a pause of minutes counts as some wakes");
/// let gap = (0..4).fold(pause, |gap, _| gap_after(gap, Nanos(100.0), &machine));
/// assert!(gap.0 < pause.0 / 10.0, "four short waits outweigh it");
/// ```
pub fn gap_after(gap: Nanos, waited: Nanos, machine: &Machine) -> Nanos {
    Nanos(0.5 * (gap.0 + waited.0.min(LONGEST_GAP * machine.wake.0)))
}

/// The spin budget; zero means to park at once.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::Machine;
/// use windrow_plan::spin::{SpinContext, budget};
///
/// let after = |gap, woken| {
///     let context = SpinContext { threads: 2, cpus: 2, quota: None, gap: Nanos::micros(gap), woken };
///     budget(context, &Machine::example()).choice
/// };
/// assert!(after(20.0, false) > after(1.0, false), "regions are close: spin for about as long as they are apart");
/// assert_eq!(after(5000.0, false), Nanos(0.0), "regions are far apart: park at once");
/// assert!(after(5000.0, true) > Nanos(0.0), "a woken worker spins, because its wakeup has been paid for");
/// ```
pub fn budget(context: SpinContext, machine: &Machine) -> Decision<SpinContext, Nanos> {
    let decided = |choice, why| Decision { inputs: context, choice, alternatives: Alternatives::default(), why };
    if context.threads > context.cpus {
        return decided(Nanos(0.0), "there are more threads than CPUs");
    }
    if context.quota.is_some_and(|quota| quota < context.cpus as f64) {
        return decided(Nanos(0.0), "a quota counts the time spent spinning");
    }
    let most = most(machine).0;
    if context.gap.0 > most / 2.0 {
        return match context.woken {
            true => decided(Nanos(WOKEN * machine.wake.0), "waking it has been paid for"),
            false => decided(Nanos(0.0), "regions are too far apart to wait for the next one"),
        };
    }
    decided(Nanos((2.0 * context.gap.0 + machine.wake.0).min(most)), "the next region is expected soon")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(threads: usize, cpus: usize, quota: Option<f64>, gap: f64) -> f64 {
        budget(SpinContext { threads, cpus, quota, gap: Nanos(gap), woken: false }, &Machine::example()).choice.0
    }

    #[test]
    fn a_worker_does_not_spin_on_a_cpu_that_others_need() {
        assert!(choice(2, 2, None, 0.0) > 0.0);
        assert!(choice(2, 2, Some(4.0), 0.0) > 0.0);
        assert_eq!(choice(4, 2, None, 0.0), 0.0);
        assert_eq!(choice(2, 2, Some(1.5), 0.0), 0.0);
        let context = SpinContext { threads: 2, cpus: 2, quota: Some(1.5), gap: Nanos(0.0), woken: true };
        let shown = budget(context, &Machine::example()).to_string();
        let expected =
            "0 ns: a quota counts the time spent spinning (2 threads on 2 CPUs, regions 0 ns apart, quota 1.50)";
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_budget_follows_the_gaps() {
        let machine = Machine::example();
        assert_eq!(choice(2, 2, None, 20_000.0), 55_000.0);
        assert_eq!(choice(2, 2, None, 95_000.0), most(&machine).0);
        assert_eq!(choice(2, 2, None, 1e6), 0.0);
        let woken = SpinContext { threads: 2, cpus: 2, quota: None, gap: Nanos(1e6), woken: true };
        assert_eq!(budget(woken, &machine).choice, Nanos(45_000.0));
        // After a long pause, four short waits are enough to spin again.
        let gap_after = |gap, waited: f64| gap_after(gap, Nanos(waited), &machine);
        let gap = (0..4).fold(gap_after(Nanos(0.0), 1e12), |gap, _| gap_after(gap, 1000.0));
        assert!(choice(2, 2, None, gap.0) > 0.0);
    }
}

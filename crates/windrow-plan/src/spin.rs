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
//! The gap saves CPU time: if workers spin for 3 wakes at any gap, the cells take as long, and the pool uses 1.5 to 1.6 times the
//! CPU time in the millisecond after calls, also after a pause (mean of the cells, records `ablation-warm` and `ablation-cold`).
//!
//! Departures from these lines:
//! 1. **A woken worker** that found no work spins for 3 wakes, however long the gaps: the wakeup has been paid for.
//! 2. **A long pause** counts as no more than [64 wakes](Machine::long_sleep). After it, three short waits are enough to spin again.
//! 3. **Serial calls count as regions** if workers, had they been awake, would have made them faster: a wait begins after the last of them. So
//!    the wake that such calls have [paid for](crate::share::owed) is followed by spins for the gaps between them. Calls of 20 us that are 40 us
//!    apart take 13.5 to 17 us; without this a worker was woken for every third one, and parked again: 20.5 us, a quarter of them 24 to 30 (measured
//!    once, no record).
//! 4. **13 wakes** are about ten times the competitive bound, because a worker that spins also saves its caller the cost of a wakeup.

use crate::Nanos;
use crate::estimate::Smoothing;
use crate::machine::Machine;

/// The machine and the recent regions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpinContext {
    /// Threads of the pool, a caller included.
    pub threads: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// CPU seconds per second that a quota allows.
    pub quota: Option<f64>,
    /// Mean of this worker's recent waits for a region: see [`gap_after`].
    pub gap: Nanos,
    /// The worker has been woken and has found no work yet.
    pub woken: bool,
}

/// The maximum spin budget, in wakes: see departure 4.
///
/// Measure: 13 wakes.
const MOST: f64 = 13.0;
/// The spin budget of a woken worker, in wakes. A worker that is woken too late for one region is then awake for the next one, if short
/// calls follow each other.
///
/// Measure: 3 wakes.
const WOKEN: f64 = 3.0;
/// Gaps that a worker spins for, since they vary.
///
/// Measure: count of gaps.
const GAPS: f64 = 2.0;

/// The maximum spin budget on this machine.
pub fn most(machine: &Machine) -> Nanos {
    Nanos(MOST * machine.wake.0)
}

/// The longest gap between regions for which a worker spins.
pub fn longest_gap(machine: &Machine) -> Nanos {
    Nanos(most(machine).0 / GAPS)
}

/// The mean of a worker's waits, in which the last one counts half. No wait counts as more than a [long sleep](Machine::long_sleep), so that a few
/// short ones outweigh any pause.
pub fn gap_after(gap: Nanos, waited: Nanos, machine: &Machine) -> Nanos {
    Nanos(Smoothing::GAPS.follow(gap.0, waited.0.min(machine.long_sleep().0)))
}

/// The spin budget; zero means to park at once.
pub fn budget(context: SpinContext, machine: &Machine) -> Nanos {
    let SpinContext { threads, cpus, quota, gap, woken } = context;
    if threads > cpus || quota.is_some_and(|quota| quota < cpus as f64) {
        return Nanos(0.0);
    }
    let most = most(machine).0;
    if gap > longest_gap(machine) {
        // Regions are too far apart to wait for the next one, but waking this worker has been paid for.
        return Nanos(if woken { WOKEN * machine.wake.0 } else { 0.0 });
    }
    Nanos((GAPS * gap.0 + machine.wake.0).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(threads: usize, cpus: usize, quota: Option<f64>, gap: f64) -> f64 {
        budget(SpinContext { threads, cpus, quota, gap: Nanos(gap), woken: false }, &Machine::example()).0
    }

    #[test]
    fn a_worker_does_not_spin_on_a_cpu_that_others_need() {
        assert!(choice(2, 2, None, 0.0) > 0.0);
        assert!(choice(2, 2, Some(4.0), 0.0) > 0.0);
        assert_eq!(choice(4, 2, None, 0.0), 0.0);
        assert_eq!(choice(2, 2, Some(1.5), 0.0), 0.0);
        let context = SpinContext { threads: 2, cpus: 2, quota: Some(1.5), gap: Nanos(0.0), woken: true };
        assert_eq!(budget(context, &Machine::example()), Nanos(0.0), "a quota counts the time spent spinning");
    }

    #[test]
    fn the_budget_follows_the_gaps() {
        let machine = Machine::example();
        assert_eq!(choice(2, 2, None, 20_000.0), 55_000.0);
        assert_eq!(choice(2, 2, None, 95_000.0), most(&machine).0);
        assert_eq!(choice(2, 2, None, 1e6), 0.0);
        let woken = SpinContext { threads: 2, cpus: 2, quota: None, gap: Nanos(1e6), woken: true };
        assert_eq!(budget(woken, &machine), Nanos(45_000.0));
    }

    #[test]
    fn some_short_waits_outweigh_a_long_pause() {
        let machine = Machine::example();
        // Waits of one worker, and the time for which it spins after the last one.
        let spins = |waits: &[f64]| {
            let gap = waits.iter().fold(Nanos(0.0), |gap, &wait| gap_after(gap, Nanos(wait), &machine));
            choice(2, 2, None, gap.0)
        };
        let (pause, short) = (1e12, 1000.0);
        assert_eq!(spins(&[pause, short, short]), 0.0, "two may be one call in a pause");
        assert!(spins(&[pause, short, short, short]) > 0.0);
        // Regions that are a millisecond apart, now and then with a second one close by: a CPU that spins is lost.
        assert_eq!(spins(&[1e6, 1e6, 1e6, short]), 0.0);
    }

    /// Of a worker that spins for its budget, the CPU time that found no region, and the share of regions that had to wake it.
    #[test]
    fn a_worker_spins_through_gaps_of_varying_length() {
        let machine = Machine::example();
        let run = |gaps: &[f64]| {
            let (mut gap, mut woken, mut useless) = (Nanos(0.0), 0, 0.0);
            for &wait in gaps.iter().cycle().take(1000) {
                let budget = choice(2, 2, None, gap.0);
                if wait > budget {
                    (woken, useless) = (woken + 1, useless + budget);
                }
                gap = gap_after(gap, Nanos(wait), &machine);
            }
            (f64::from(woken) / 1000.0, useless / (1000.0 * gaps.iter().sum::<f64>() / gaps.len() as f64))
        };
        // Gaps of 20 us, of which one in four is twice as long.
        let (woken, useless) = run(&[20e3, 20e3, 20e3, 40e3]);
        assert!(woken < 0.01 && useless < 0.01, "{woken} of the regions wake it, {useless} of the time is lost");
    }
}

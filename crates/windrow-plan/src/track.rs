//! Tracks what changes while a program runs: the costs of entering, and how often members are stragglers.
//!
//! Pure updates of small states; the runtime keeps the states and feeds them.

use crate::Nanos;

/// A cost that follows the median of the measurements: each moves it a tenth towards itself, however far away it is. An interruption of
/// milliseconds counts no more than an excess of a microsecond.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::track::median;
///
/// let cost = [500.0, 510.0, 3_000_000.0, 490.0].iter().fold(Nanos(600.0), |cost, &one| median(cost, Nanos(one)));
/// assert!(cost.0 < 600.0);
/// ```
pub fn median(cost: Nanos, measured: Nanos) -> Nanos {
    // Clamped so that it can recover: from 10 ns to 10 ms in 150 steps.
    Nanos((if measured > cost { cost.0 * 1.1 } else { cost.0 / 1.1 }).clamp(10.0, 1e7))
}

/// A tracked cost after a time without measurements: half of its difference to `usual` is forgotten in 50 ms. Otherwise a cost that was
/// once too high to try again would stay too high for ever.
pub fn relaxed(cost: Nanos, usual: Nanos, since: Nanos) -> Nanos {
    Nanos(usual.0 + (cost.0 - usual.0) * (-since.0 / HALF_LIFE.0).exp2())
}

/// How often, and by how much, regions wait for a straggler: a member that lost its CPU during a claim.
///
/// On a busy machine such a wait is a time slice (milliseconds), so short regions run alone for a while. The rate halves with every 20
/// ms without a region, so the runtime tries again. On a machine that stays busy it tries so seldom that nine calls of ten are not
/// delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// The recent share of regions with a straggler.
    pub rate: f64,
    /// How long those regions recently waited.
    pub by: Nanos,
}

/// A shorter wait is an interrupt or a long item, not a lost CPU: schedulers give slices of 1 ms and more.
const LATE: Nanos = Nanos(200_000.0);
/// Half-life of a tracked cost that is not measured again.
const HALF_LIFE: Nanos = Nanos(50_000_000.0);
const LATE_HALF_LIFE: Nanos = Nanos(20_000_000.0);
/// Weight of one region in the rate.
const LATE_WEIGHT: f64 = 1.0 / 32.0;
/// The risk factor: an occasional wait of milliseconds is worse than its average cost, because users notice the slowest tenth.
const AVERSION: f64 = 3.0;

impl Late {
    /// The expected penalty per region, `since` the last region ended.
    pub fn expected(self, since: Nanos) -> Nanos {
        if self.rate == 0.0 {
            return Nanos(0.0);
        }
        let cost = AVERSION * self.by.0 * self.rate * (-since.0 / LATE_HALF_LIFE.0).exp2();
        // Ignore penalties below 1 us.
        Nanos(if cost < 1_000.0 { 0.0 } else { cost })
    }

    /// After a region that waited for `wait` beyond what its work explains, `since` the region before it.
    pub fn after(self, since: Nanos, wait: Nanos) -> Late {
        let rate = self.rate * (-since.0 / LATE_HALF_LIFE.0).exp2();
        if wait > LATE {
            let by = if self.by.0 > 0.0 { 0.5 * (self.by.0 + wait.0) } else { wait.0 };
            Late { rate: rate + (1.0 - rate) * LATE_WEIGHT, by: Nanos(by) }
        } else if rate < 1e-4 {
            Late::default()
        } else {
            Late { rate: rate * (1.0 - LATE_WEIGHT), by: self.by }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_found_and_followed() {
        let follow = |from: f64, to: f64| (0..200).fold(Nanos(from), |cost, _| median(cost, Nanos(to)));
        for (from, to) in [(600.0, 15_000.0), (15_000.0, 600.0), (10.0, 1e6)] {
            assert!((follow(from, to).0 / to).ln().abs() < 0.1, "from {from} to {to}: {}", follow(from, to).0);
        }
    }

    #[test]
    fn what_is_not_measured_relaxes() {
        let cost = |ms: f64| relaxed(Nanos(100.0), Nanos(20.0), Nanos(ms * 1e6)).0;
        assert_eq!((cost(0.0), cost(50.0), cost(100.0)), (100.0, 60.0, 40.0));
        assert_eq!(cost(1e6), 20.0);
    }

    #[test]
    fn a_busy_machine_is_noticed_and_forgotten() {
        let ms = |n: f64| Nanos(n * 1e6);
        let mut late = Late::default();
        assert_eq!(late.expected(ms(0.0)), Nanos(0.0));
        late = late.after(ms(1.0), Nanos(50_000.0));
        assert_eq!(late, Late::default());
        late = late.after(ms(1.0), ms(3.0));
        assert!(late.expected(ms(0.0)).0 > 200_000.0);
        assert!(late.expected(ms(100.0)).0 < late.expected(ms(0.0)).0 / 3.0);
        assert_eq!(late.expected(ms(1000.0)), Nanos(0.0));
        let late = (0..200).fold(late, |late, _| late.after(ms(1.0), Nanos(0.0)));
        assert_eq!(late, Late::default());
    }
}

//! Estimate: a quantity that follows its measurements.
//!
//! ```text
//! unknown:             value = measured
//! after a measurement: value += weight * (believed - value), where believed is measured within a factor of the value
//! trust = measurements in a row that were within that factor
//! ```
//!
//! Each learner of windrow follows in this way, by a [`Smoothing`] from this page:
//!
//! | smoothing | weight | factor | estimates |
//! |---|---|---|---|
//! | [`CALLS`](Smoothing::CALLS) | 1/4 | 2: beyond it, other work | items and calls of a site, tiles of an overlap |
//! | [`MEDIAN`](Smoothing::MEDIAN) | 1 | 1.1 | primitives of the machine |
//! | [`CLAIMS`](Smoothing::CLAIMS) | 1 up, 1/2 down | none | items in the claims of one member |
//! | [`GAPS`](Smoothing::GAPS) | 1/2 | none | waits of a worker between two regions |
//! | [`BATCHES`](Smoothing::BATCHES) | 1/64 | none | times, operations and parked callers of batches |
//!
//! With a weight of 1 and a small factor, the value settles where half of the measurements are above it: at their median. A mean would move with
//! the size of an outlier. So an interruption of milliseconds counts no more than an excess of a microsecond.

use crate::Nanos;

/// Consecutive measurements that must agree before an estimate is trusted. Further agreement is not counted. One disagreement resets it to 0.
///
/// Measure: count of calls.
pub(crate) const TRUSTED: u8 = 2;

/// The factor within which two costs agree, because caches and frequencies vary that much.
///
/// Measure: share of the smaller cost.
pub(crate) const AGREE: f64 = 2.0;

/// True if two costs differ by no more than a factor of two, as for the same work.
pub(crate) fn agree(a: f64, b: f64) -> bool {
    a <= AGREE * b && b <= AGREE * a
}

/// The way in which an estimate follows. See the [module page](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothing {
    /// Weight of a measurement above the value, 0 to 1.
    up: f64,
    /// Weight of a measurement below the value, 0 to 1.
    down: f64,
    /// The factor by which a measurement is believed to differ from the value. A larger difference is a surprise.
    factor: f64,
}

impl Smoothing {
    /// Weight of the latest call in the memory of its site.
    ///
    /// Measure: share of the memory.
    const OF_CALLS: f64 = 0.25;
    /// Weight of a claim that took less than predicted. A claim that is too long does more harm than one that is too short, so a higher cost
    /// counts at once.
    ///
    /// Measure: share of the estimate.
    const OF_CLAIMS: f64 = 0.5;
    /// Weight of the last wait in the mean.
    ///
    /// Measure: share of the mean.
    const OF_GAPS: f64 = 0.5;
    /// Weight of the last batch in the mean.
    ///
    /// Measure: share of the mean.
    const OF_BATCHES: f64 = 1.0 / 64.0;
    /// The factor of a step of a running median.
    ///
    /// Measure: share of the cost.
    const STEP: f64 = 1.1;

    /// Calls of one site.
    pub const CALLS: Smoothing = Smoothing::new(Self::OF_CALLS, Self::OF_CALLS, AGREE);
    /// Costs whose median counts.
    pub const MEDIAN: Smoothing = Smoothing::new(1.0, 1.0, Self::STEP);
    /// Claims of one member.
    pub const CLAIMS: Smoothing = Smoothing::new(1.0, Self::OF_CLAIMS, f64::MAX);
    /// Waits of a worker.
    pub const GAPS: Smoothing = Smoothing::new(Self::OF_GAPS, Self::OF_GAPS, f64::MAX);
    /// Batches of one structure.
    pub const BATCHES: Smoothing = Smoothing::new(Self::OF_BATCHES, Self::OF_BATCHES, f64::MAX);

    const fn new(up: f64, down: f64, factor: f64) -> Smoothing {
        Smoothing { up, down, factor }
    }

    /// The value after a measurement. No value is unknown: one of 0 follows as any other.
    pub fn follow(self, value: f64, measured: f64) -> f64 {
        let weight = if measured > value { self.up } else { self.down };
        value + weight * (measured - value)
    }
}

/// A quantity that follows its measurements. See the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::estimate::{Estimate, Smoothing};
///
/// let cost = [500.0, 510.0, 3_000_000.0, 490.0]
///     .iter()
///     .fold(Estimate::of(Nanos(600.0)), |cost, &one| cost.after(Nanos(one), Smoothing::MEDIAN));
/// assert!(cost.value.0 < 600.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The value; 0 is unknown.
    pub value: Nanos,
    /// Consecutive measurements that agreed with those before, up to 2.
    pub trust: u8,
}

impl Estimate {
    /// Nothing is known.
    pub const UNKNOWN: Estimate = Estimate::of(Nanos(0.0));

    /// A value that nothing has confirmed.
    pub const fn of(value: Nanos) -> Estimate {
        Estimate { value, trust: 0 }
    }

    /// True if a value is known.
    pub fn is_known(self) -> bool {
        self.value.0 > 0.0
    }

    /// True if a measurement disagrees with the value.
    pub fn is_surprised(self, measured: Nanos, by: Smoothing) -> bool {
        let Nanos(value) = self.value;
        self.is_known() && !(measured.0 <= by.factor * value && value <= by.factor * measured.0)
    }

    /// The estimate after a measurement.
    #[must_use]
    pub fn after(self, measured: Nanos, by: Smoothing) -> Estimate {
        if !self.is_known() {
            return Estimate::of(measured);
        }
        let Nanos(value) = self.value;
        let believed = measured.0.max(value / by.factor).min(value * by.factor);
        let trust = if self.is_surprised(measured, by) { 0 } else { (self.trust + 1).min(TRUSTED) };
        Estimate { value: Nanos(by.follow(value, believed)), trust }
    }
}

/// The bounds of a primitive in nanoseconds, so that it can recover.
///
/// Measure: chosen, no synchronization is faster.
const LEAST: f64 = 1.0;
/// See [`LEAST`].
///
/// Measure: chosen, longer ones are interruptions.
const MOST: f64 = 1e7;

/// A cost of the machine after a measurement: it follows their [median](Smoothing::MEDIAN).
pub fn median(cost: Nanos, measured: Nanos) -> Nanos {
    Estimate::of(cost).after(Nanos(measured.0.clamp(LEAST, MOST)), Smoothing::MEDIAN).value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_found_and_followed() {
        let follow = |from: f64, to: f64| (0..200).fold(Nanos(from), |cost, _| median(cost, Nanos(to)));
        for (from, to) in [(600.0, 15_000.0), (15_000.0, 600.0), (10.0, 1e6)] {
            assert!((follow(from, to).0 / to - 1.0).abs() < 0.11, "{from} {to}");
        }
        // Two thirds of the calls meet an idle machine, and an outlier counts no more than an excess.
        let mixed = [500.0, 510.0, 1e6].repeat(100).iter().fold(Nanos(600.0), |cost, &one| median(cost, Nanos(one)));
        assert!((450.0..620.0).contains(&mixed.0), "{mixed}");
    }

    #[test]
    fn a_cost_recovers_from_measurements_that_cannot_be_true() {
        let after = |from: Nanos, nanos: f64, steps| (0..steps).fold(from, |cost, _| median(cost, Nanos(nanos)));
        // A clock that stood still, then lines of 75 ns; it stopped for hours, then wakes of 15 us.
        let (least, most) = (after(Nanos(75.0), 0.0, 1000), after(Nanos(15_000.0), 1e13, 1000));
        assert!(after(least, 75.0, 47).0 > 68.0, "{least}");
        assert!(after(most, 15_000.0, 70).0 < 16_500.0, "{most}");
        // What a machine can have is learned: lines of 1.5 ns, wakes of 8 ms.
        assert!((after(least, 1.5, 100).0 / 1.5 - 1.0).abs() < 0.11);
        assert!((after(Nanos(15_000.0), 8e6, 1000).0 / 8e6 - 1.0).abs() < 0.11);
    }

    #[test]
    fn trust_counts_measurements_that_agree() {
        let after = |costs: &[f64]| {
            costs.iter().fold(Estimate::UNKNOWN, |known, &cost| known.after(Nanos(cost), Smoothing::CALLS))
        };
        assert_eq!([0, 1, 2, 3, 9].map(|calls| after(&vec![10.0; calls]).trust), [0, 0, 1, 2, 2]);
        assert!(!after(&[]).is_surprised(Nanos(1e9), Smoothing::CALLS), "nothing is known");
        let known = after(&[10.0; 5]);
        assert_eq!(
            [4.9, 5.1, 19.0, 21.0].map(|cost| known.is_surprised(Nanos(cost), Smoothing::CALLS)),
            [true, false, false, true]
        );
        // A surprise counts as the factor.
        assert_eq!(known.after(Nanos(1e9), Smoothing::CALLS), Estimate::of(Nanos(12.5)));
    }

    /// Claims whose items take 10 ns, then 100 ns, then 10 ns.
    #[test]
    fn claims_shrink_at_once_and_grow_slowly() {
        let slow = Smoothing::CLAIMS.follow(10.0, 100.0);
        let (once, often) =
            (Smoothing::CLAIMS.follow(slow, 10.0), (0..4).fold(slow, |cost, _| Smoothing::CLAIMS.follow(cost, 10.0)));
        assert_eq!(slow, 100.0, "the next claim is ten times shorter");
        assert!(once > 40.0 && often < 16.0, "{once} after one claim, {often} after four");
    }

    /// Batches that take 1 us, some of them longer.
    #[test]
    fn batches_are_averaged() {
        let mean = |batches: usize, time: &dyn Fn(usize) -> f64| {
            (0..batches).fold(1000.0, |mean, at| Smoothing::BATCHES.follow(mean, time(at)))
        };
        let mixed = mean(2000, &|at| if at % 4 == 3 { 3500.0 } else { 1000.0 });
        assert!((1560.0..1700.0).contains(&mixed), "{mixed}");
        let once = mean(1, &|_| 3500.0);
        assert!((1030.0..1050.0).contains(&once), "one batch hardly moves the mean: {once}");
        let slower = mean(150, &|_| 3000.0);
        assert!(slower > 2500.0, "{slower}");
    }
}

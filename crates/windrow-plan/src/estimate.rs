//! Estimates that follow measurements.
//!
//! ```text
//! after a measurement:
//!     measured > cost: cost *= 1.1
//!     else:            cost /= 1.1
//! ```
//!
//! The cost settles where half of the measurements are above it: at their median. A mean would move with the size of an outlier.

use crate::Nanos;

/// A cost that follows the median of the measurements. Each measurement moves the cost up or down by a factor of 1.1, however far away
/// the measurement is. So an interruption of milliseconds counts no more than an excess of a microsecond.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::estimate::median;
///
/// let cost = [500.0, 510.0, 3_000_000.0, 490.0].iter().fold(Nanos(600.0), |cost, &one| median(cost, Nanos(one)));
/// assert!(cost.0 < 600.0);
/// ```
pub fn median(cost: Nanos, measured: Nanos) -> Nanos {
    Nanos((if measured > cost { cost.0 * STEP } else { cost.0 / STEP }).clamp(LEAST, MOST))
}

/// The factor of a step.
///
/// Measure: share of the cost.
const STEP: f64 = 1.1;
/// The bounds of a cost in nanoseconds, so that it can recover.
///
/// Measure: chosen, no synchronization is faster.
const LEAST: f64 = 1.0;
/// See [`LEAST`].
///
/// Measure: chosen, longer ones are interruptions.
const MOST: f64 = 1e7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_found_and_followed() {
        let follow = |from: f64, to: f64| (0..200).fold(Nanos(from), |cost, _| median(cost, Nanos(to)));
        for (from, to) in [(600.0, 15_000.0), (15_000.0, 600.0), (10.0, 1e6)] {
            assert!((follow(from, to).0 / to - 1.0).abs() < 0.11, "{from} {to}");
        }
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
}

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
    // Bounded, so that the cost can recover: it moves by a factor of a million in 150 steps.
    Nanos((if measured > cost { cost.0 * 1.1 } else { cost.0 / 1.1 }).clamp(1.0, 1e7))
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
        assert_eq!(median(Nanos(1.0), Nanos(0.0)), Nanos(1.0));
        assert_eq!(median(Nanos(1e7), Nanos(1e12)), Nanos(1e7));
    }
}

//! Sampling of calls, so that reports cost a fixed part of the time of the calls.
//!
//! ```text
//! report a call with probability  p = SHARE * took / cost,  at most 1;  it counts for 1 / p calls
//! ```
//!
//! `took` is the time of the last reported call at the same place. A place without one is always reported. The choice is random, since a
//! rule that counts would miss a place that is called alternately with others.
//!
//! Source: sampling in proportion to size, with weights by the inverse of the probability (Horvitz and Thompson, 1952).

use windrow_plan::Nanos;

/// The part of the time of calls that their reports may take.
///
/// Measure: share of the running time.
const SHARE: f64 = 0.005;

/// The probability with which a call is reported that takes about `took`, if a report takes `cost`.
pub(crate) fn probability(took: Nanos, cost: Nanos) -> f64 {
    // A clock that stands still does not silence a place.
    (took.0.max(1.0) * SHARE / cost.0).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_take_a_fixed_share_at_most() {
        let cost = Nanos(400.0);
        assert_eq!(probability(Nanos(1e6), cost), 1.0);
        assert_eq!(probability(Nanos(80_000.0), cost), 1.0);
        for took in [1.0, 50.0, 4_000.0, 79_999.0] {
            let took = Nanos(took);
            assert!((probability(took, cost) * cost.0 / took.0 - SHARE).abs() < 1e-9);
        }
        assert!(probability(Nanos(0.0), cost) > 0.0);
        assert_eq!(probability(Nanos(0.0), Nanos(0.0)), 1.0);
    }
}

//! How many calls are reported, so that reports cost a fixed part of the time of the calls.
//!
//! ```text
//! report a call with probability  p = SHARE * took / cost,  at most 1;  it counts for 1 / p calls
//! ```
//!
//! `took` is the time of the last reported call at the same place. A place without one is always reported. The choice is random, since a
//! rule that counts would miss a place that is called in turn with others.
//!
//! A reported call may also run the other way, serial instead of shared or shared instead of serial. Its time, relative to that of the last call
//! that ran as decided, is measured regret:
//!
//! ```text
//! after a reported call:  budget += 0.2 % of the time of the calls for which it stands
//! one call in 1000, if the budget covers the predicted loss: run it the other way; budget -= the larger of its predicted and its measured loss
//! ```
//!
//! Source: sampling in proportion to size, with weights by the inverse of the probability (Horvitz and Thompson, 1952).

use crate::Nanos;
use crate::explore::Budget;

/// The part of the time of calls that their reports may take.
///
/// Measure: share of the time run.
pub const SHARE: f64 = 0.005;

/// The probability with which a call is reported that takes about `took`, if a report takes `cost`.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::report::{SHARE, probability};
///
/// let cost = Nanos(400.0);
/// assert_eq!(probability(Nanos::micros(1000.0), cost), 1.0, "a long call is always reported");
/// // Of short calls so few are reported that reports take their share of the time.
/// let took = Nanos::micros(4.0);
/// assert!((probability(took, cost) * cost.0 - SHARE * took.0).abs() < 1e-9);
/// ```
pub fn probability(took: Nanos, cost: Nanos) -> f64 {
    // A clock that stands still does not silence a place.
    (took.0.max(1.0) * SHARE / cost.0).min(1.0)
}

/// What calls that run the other way may cost, for each report.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::report::RegretLedger;
///
/// // Calls of 1 ms; to run one the other way is predicted to lose 100 us.
/// let (mut ledger, mut others, loss) = (RegretLedger::EMPTY, 0, Nanos::micros(100.0));
/// for _ in 0..1000 {
///     ledger = ledger.earn(Nanos::micros(1000.0));
///     if ledger.budget().covers(loss) {
///         (ledger, others) = (ledger.pay(loss), others + 1);
///     }
/// }
/// assert!(others > 10);
/// assert!(f64::from(others) * loss.as_micros() <= RegretLedger::SHARE * 1e6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RegretLedger {
    budget: Budget,
}

impl RegretLedger {
    /// The part of the time of calls that running some of them the other way may cost.
    ///
    /// Measure: share of the time run.
    pub const SHARE: f64 = 0.002;

    /// One in so many calls runs the other way.
    ///
    /// Measure: count of calls.
    pub const EVERY: f64 = 1000.0;

    /// An empty ledger.
    pub const EMPTY: RegretLedger = RegretLedger { budget: Budget::EMPTY };

    /// The probability with which a reported call that stands for `calls` runs the other way, if the budget covers that.
    ///
    /// ```
    /// use windrow_plan::report::RegretLedger;
    ///
    /// let [one, many] = [1.0, 500.0].map(RegretLedger::probability);
    /// assert!(one < many && many < 1.0);
    /// assert_eq!(RegretLedger::probability(2.0 * RegretLedger::EVERY), 1.0);
    /// ```
    pub fn probability(calls: f64) -> f64 {
        (calls / Self::EVERY).min(1.0)
    }

    /// What a call that runs the other way may lose.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::report::RegretLedger;
    ///
    /// let loss = Nanos::micros(1.0);
    /// assert!(!RegretLedger::EMPTY.budget().covers(loss));
    /// assert!(RegretLedger::EMPTY.earn(Nanos::micros(1000.0)).budget().covers(loss));
    /// ```
    pub fn budget(self) -> Budget {
        self.budget
    }

    /// The ledger after calls that took `time` together.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    /// use windrow_plan::report::RegretLedger;
    ///
    /// let time = Nanos::micros(1000.0);
    /// let earned = RegretLedger::EMPTY.earn(time).budget().all();
    /// assert!((earned.0 - RegretLedger::SHARE * time.0).abs() < 1e-6);
    /// assert!(earned < Budget::EMPTY.earn(time).all(), "regret gets less than exploration");
    /// ```
    #[must_use]
    pub fn earn(self, time: Nanos) -> RegretLedger {
        RegretLedger { budget: self.budget.earn(Nanos(time.0 * Self::SHARE / Budget::SHARE)) }
    }

    /// The ledger after a call that ran the other way and lost this time by it.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::report::RegretLedger;
    ///
    /// let ledger = RegretLedger::EMPTY.earn(Nanos::micros(1000.0));
    /// assert!(ledger.pay(Nanos::micros(1.0)).budget().all() < ledger.budget().all());
    /// assert_eq!(ledger.pay(Nanos::micros(1e6)), RegretLedger::EMPTY);
    /// ```
    #[must_use]
    pub fn pay(self, loss: Nanos) -> RegretLedger {
        RegretLedger { budget: self.budget.pay(loss) }
    }
}

/// Measured regret: what a decision takes, relative to the other way. `others` are the times of calls that ran the other way, relative to
/// those of calls at the same place that ran as decided. 1 is a decision that no measured alternative beats; `None` without any.
///
/// ```
/// use windrow_plan::report::regret;
///
/// assert_eq!(regret(&[1.9, 2.1, 1.8]), Some(1.0), "the other way takes longer: the decision was right");
/// assert_eq!(regret(&[0.5, 0.5, 2.0]), Some(2.0), "the other way takes half of the time");
/// assert_eq!(regret(&[]), None);
/// ```
pub fn regret(others: &[f64]) -> Option<f64> {
    let mut sorted = others.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2)?;
    Some(median.recip().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_way_costs_a_fixed_share_at_most() {
        let (mut ledger, mut ran, mut lost) = (RegretLedger::EMPTY, 0.0, 0.0);
        for _ in 0..100_000 {
            ran += 1_000.0;
            ledger = ledger.earn(Nanos(1_000.0));
            if ledger.budget().covers(Nanos(7_000.0)) {
                ledger = ledger.pay(Nanos(7_000.0));
                lost += 7_000.0;
            }
        }
        assert!((0.0019..=0.002).contains(&(lost / ran)), "{}", lost / ran);
        assert_eq!([1.0, 500.0, 5000.0].map(RegretLedger::probability), [0.001, 0.5, 1.0]);
    }

    #[test]
    fn regret_is_what_the_other_way_would_have_saved() {
        assert_eq!(regret(&[]), None);
        assert_eq!(regret(&[1.9, 2.1, 0.4]), Some(1.0));
        assert_eq!(regret(&[0.8, 0.5, 1.2]), Some(1.25));
    }

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

//! The exploration budget: what a thread may lose by trying the choice that is predicted to be slower.
//!
//! ```text
//! after a call that took t:                     budget += 2 % of t
//! the other choice is predicted to cost c more: if c < budget, take it, and budget -= c
//! ```
//!
//! Without exploration, a prediction that is too pessimistic would never be corrected: the choice that it forbids is never measured.
//!
//! Departure: **a trial of sharing takes the whole budget**, not c. To run alone what could be shared costs no more than predicted. To
//! share can cost more, if a wake takes long. So sharing is not tried again before as much has been earned. (At the predicted price,
//! short calls beside long ones would wake a halted CPU again and again.)
//!
//! Source: an exploration budget that is earned by running is the ski-rental rule (Karlin and others, 1988) for bandits whose arms
//! change (Auer and others, 2002).

use crate::Nanos;

/// The budget. See the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::explore::Budget;
///
/// // Calls of 1 ms; the other choice is predicted to lose 100 us.
/// let (mut budget, mut trials, loss) = (Budget::EMPTY, 0, Nanos::micros(100.0));
/// for _ in 0..1000 {
///     budget = budget.earn(Nanos::micros(1000.0));
///     if budget.covers(loss) {
///         (budget, trials) = (budget.pay(loss), trials + 1);
///     }
/// }
/// assert!(trials > 100);
/// assert!(f64::from(trials) * loss.as_micros() <= Budget::SHARE * 1e6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// The share of the running time that exploration may cost.
    ///
    /// Measure: share of the time run.
    pub const SHARE: f64 = 0.02;

    /// A budget of 0.
    pub const EMPTY: Budget = Budget(0.0);

    /// The budget after a call of this duration.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    ///
    /// let budget = Budget::EMPTY.earn(Nanos::micros(1000.0));
    /// assert_eq!(budget.all(), Nanos::micros(1000.0 * Budget::SHARE));
    /// ```
    #[must_use]
    pub fn earn(self, time: Nanos) -> Budget {
        Budget(self.0 + Self::SHARE * time.0)
    }

    /// Whether the budget pays for a choice that is predicted to cost `loss` more.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    ///
    /// let budget = Budget::EMPTY.earn(Nanos::micros(1000.0));
    /// assert!(budget.covers(Nanos::micros(10.0)) && !budget.covers(Nanos::micros(1000.0)));
    /// assert!(!Budget::EMPTY.covers(Nanos(0.0)), "an empty budget covers nothing");
    /// ```
    pub fn covers(self, loss: Nanos) -> bool {
        loss.0 < self.0
    }

    /// The whole budget, as a price.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    ///
    /// let budget = Budget::EMPTY.earn(Nanos::micros(1000.0));
    /// assert_eq!(budget.pay(budget.all()), Budget::EMPTY);
    /// ```
    pub fn all(self) -> Nanos {
        Nanos(self.0)
    }

    /// The budget after a trial of this price.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::explore::Budget;
    ///
    /// let budget = Budget::EMPTY.earn(Nanos::micros(1000.0));
    /// assert!(budget.pay(Nanos::micros(5.0)).all() < budget.all());
    /// assert_eq!(budget.pay(Nanos::micros(1e6)), Budget::EMPTY, "the budget never falls below 0");
    /// ```
    #[must_use]
    pub fn pay(self, loss: Nanos) -> Budget {
        Budget((self.0 - loss.0.max(0.0)).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_percent_of_the_time_run_is_spent() {
        let mut budget = Budget::EMPTY;
        let (mut ran, mut lost) = (0.0, 0.0);
        for _ in 0..10_000 {
            ran += 1_000.0;
            budget = budget.earn(Nanos(1_000.0));
            if budget.covers(Nanos(7_000.0)) {
                budget = budget.pay(Nanos(7_000.0));
                lost += 7_000.0;
            }
        }
        assert!((0.019..=0.02).contains(&(lost / ran)), "{}", lost / ran);
        assert!(!Budget::EMPTY.covers(Nanos(0.0)));
        assert_eq!(budget.pay(Nanos(1e12)), Budget::EMPTY);
    }
}

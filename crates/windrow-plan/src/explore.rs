//! The exploration budget: time that a thread may lose by trying the choice that is predicted to be slower.
//!
//! ```text
//! after a call that took t:                     budget += 2 % of t
//! the other choice is predicted to cost c more: if c < budget, take it, and budget -= c
//! ```
//!
//! Without exploration, a prediction that is too pessimistic would never be corrected: the choice that it forbids is never measured.
//!
//! Departure: **a trial of sharing takes the whole budget**, not c. A serial call that could be shared costs no more than predicted. A
//! shared one can cost more, if a wake takes long. So sharing is not tried again before the same time has been earned. (At the predicted price,
//! short calls among long ones would wake a halted CPU again and again.)
//!
//! Source: an exploration budget that is earned by running is the ski-rental rule (Karlin and others, 1988) for bandits whose arms
//! change (Auer and others, 2002).

use crate::Nanos;

/// The budget. See the [module page](self).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// The share of the running time that exploration may cost.
    ///
    /// Measure: share of the time run.
    pub const SHARE: f64 = 0.02;

    /// The half of [`SHARE`](Self::SHARE) that belongs to the calls of a team as a whole, and the half that belongs to the widths of its rounds.
    ///
    /// Measure: share of the time run.
    pub(crate) const HALF: f64 = Self::SHARE / 2.0;

    /// A budget of 0.
    pub const EMPTY: Budget = Budget(0.0);

    /// The budget after a call of this duration.
    #[must_use]
    pub fn earn(self, time: Nanos) -> Budget {
        Budget(self.0 + Self::SHARE * time.0)
    }

    /// True if the budget pays for a choice that is predicted to cost `loss` more.
    pub fn covers(self, loss: Nanos) -> bool {
        loss.0 < self.0
    }

    /// The whole budget, as a price.
    pub fn all(self) -> Nanos {
        Nanos(self.0)
    }

    /// The budget after a trial of this price.
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

//! The exploration account: the time that calls may lose by trying a choice that is predicted to be slower, or was never measured.
//!
//! ```text
//! after a call that took t:         balance += 1 % of t
//! a trial whose price is predicted: if the balance covers it; then balance = 0
//! a trial whose price is measured:  if there is no debt; then balance = -price
//! ```
//!
//! Without exploration, a prediction that is too pessimistic would never be corrected: the choice that it forbids is never measured.
//!
//! All exploration is paid out of such accounts, by this rule: one a thread for its loops, and two a site of teams, for its calls as a whole and for
//! the widths of its rounds.
//!
//! A trial takes the whole balance. So another trial waits until a price has been earned again: short calls among long ones would otherwise wake
//! a halted CPU again and again.
//!
//! Source: an exploration budget that is earned by running is the ski-rental rule (Karlin and others, 1988) for bandits whose arms
//! change (Auer and others, 2002).

use crate::Nanos;

/// The account. See the [module page](self).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget(f64);

impl Budget {
    /// The share of the running time that exploration may cost.
    ///
    /// Measure: share of the time run.
    pub const SHARE: f64 = 0.01;

    /// A balance of 0.
    pub const EMPTY: Budget = Budget(0.0);

    /// The account after a call of this duration.
    #[must_use]
    pub fn earn(self, time: Nanos) -> Budget {
        Budget(self.0 + Self::SHARE * time.0)
    }

    /// True if the balance pays for a choice that is predicted to cost `loss` more.
    pub fn covers(self, loss: Nanos) -> bool {
        loss.0 < self.0
    }

    /// The price of trials that is not earned yet.
    pub fn debt(self) -> Nanos {
        Nanos((-self.0).max(0.0))
    }

    /// The account after a trial of this price, which was measured.
    #[must_use]
    pub fn pay(self, price: Nanos) -> Budget {
        Budget(self.0.min(0.0) - price.0.max(0.0))
    }

    /// The account with no more than this debt.
    #[must_use]
    pub fn owing_at_most(self, most: Nanos) -> Budget {
        Budget(self.0.max(-most.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_of_the_time_run_is_spent() {
        // Trials whose price is known in advance, or afterwards.
        for is_predicted in [true, false] {
            let (mut budget, mut ran, mut lost) = (Budget::EMPTY, 0.0, 0.0);
            for _ in 0..20_000 {
                ran += 1_000.0;
                budget = budget.earn(Nanos(1_000.0));
                let price = Nanos(7_000.0);
                if if is_predicted { budget.covers(price) } else { budget.debt().0 == 0.0 } {
                    budget = if is_predicted { Budget::EMPTY } else { budget.pay(price) };
                    lost += price.0;
                }
            }
            assert!((0.0095..=0.0105).contains(&(lost / ran)), "{is_predicted}: {}", lost / ran);
        }
    }

    #[test]
    fn a_trial_takes_the_surplus_and_a_debt_is_bounded() {
        let rich = Budget::EMPTY.earn(Nanos(1e12));
        assert_eq!(rich.pay(Nanos(7.0)).debt(), Nanos(7.0));
        let owing = rich.pay(Nanos(500.0)).pay(Nanos(500.0));
        assert_eq!((owing.debt(), owing.owing_at_most(Nanos(300.0)).debt()), (Nanos(1000.0), Nanos(300.0)));
        assert_eq!(owing.pay(Nanos(-9.0)), owing, "a trial that was faster costs nothing");
        assert!(!Budget::EMPTY.covers(Nanos(0.0)));
    }
}

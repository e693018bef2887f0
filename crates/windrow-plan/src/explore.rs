//! The exploration account: the time that calls may lose by trying a mode or a width that may be slower.
//!
//! ```text
//! after a call that took t:         balance += 1 % of t
//! a trial:                          if there is no debt
//! after a trial that cost p more:   balance = -p
//! ```
//!
//! Without exploration, a choice that was too slow once would never be corrected: it is not measured again.
//!
//! A site of teams has two such accounts, for its calls as a whole and for the widths of its rounds. Loops do not explore: a site that was never timed
//! serially is, once (`share`). Batches skip what did not pay ([`Trial`](crate::batch::Trial)).
//!
//! A stall of a member is no trial: [`width`](crate::width) charges the first ones in shares, and lends four segments where wider rounds paid before.
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

    /// The price of trials that is not earned yet.
    pub fn debt(self) -> Nanos {
        Nanos((-self.0).max(0.0))
    }

    /// The account after a trial of this price.
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
        let (mut budget, mut ran, mut lost) = (Budget::EMPTY, 0.0, 0.0);
        for _ in 0..20_000 {
            ran += 1_000.0;
            budget = budget.earn(Nanos(1_000.0));
            if budget.debt().0 == 0.0 {
                budget = budget.pay(Nanos(7_000.0));
                lost += 7_000.0;
            }
        }
        assert!((0.0095..=0.0105).contains(&(lost / ran)), "{}", lost / ran);
    }

    #[test]
    fn a_trial_takes_the_surplus_and_a_debt_is_bounded() {
        let rich = Budget::EMPTY.earn(Nanos(1e12));
        assert_eq!(rich.pay(Nanos(7.0)).debt(), Nanos(7.0));
        let owing = rich.pay(Nanos(500.0)).pay(Nanos(500.0));
        assert_eq!((owing.debt(), owing.owing_at_most(Nanos(300.0)).debt()), (Nanos(1000.0), Nanos(300.0)));
        assert_eq!(owing.pay(Nanos(-9.0)), owing, "a trial that was faster costs nothing");
    }
}

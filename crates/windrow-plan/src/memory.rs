//! What a call site remembers of its items.
//!
//! A loop that is called again mostly does again what it did before. Then nothing has to be sampled: a long item can be shared from the
//! start (a sample of it would be half of the work), a short call can run in one go. A memory is trusted once calls in a row have
//! confirmed it, so that a site shared by different work is not.
//!
//! An item may cost more when calls are shared: cache lines move between members. So both costs are kept, that of calls which ran
//! alone to their end and that of shared ones.

use crate::Nanos;

/// A call site's memory of the cost of an item. (An item, or a unit of weight.)
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// What an item takes in calls that run alone; 0 is unknown.
    pub alone: Nanos,
    /// What an item takes a member in shared calls; 0 is unknown.
    pub shared: Nanos,
    /// Calls in a row that agreed with those before.
    pub trust: u8,
}

/// Calls that must agree before a memory is used.
const TRUSTED: u8 = 2;
/// More agreement than this is not counted: one bit of doubt must be enough.
const MOST_TRUST: u8 = 4;

/// What can be relied on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trusted {
    /// What an item takes alone, as well as it is known.
    pub per_item: Nanos,
    /// By what factor it takes longer in a shared call.
    pub swell: f64,
    /// No call has run alone to its end, so `per_item` is what it takes in shared ones.
    pub never_alone: bool,
}

impl Known {
    /// What can be relied on, if anything.
    pub fn trusted(self) -> Option<Trusted> {
        let Known { alone, shared, trust } = self;
        if trust < TRUSTED {
            return None;
        }
        let never_alone = alone.0 <= 0.0;
        let per_item = if never_alone { shared } else { alone };
        let swell = if never_alone || shared.0 <= 0.0 { 1.0 } else { (shared.0 / alone.0).max(1.0) };
        Some(Trusted { per_item, swell, never_alone })
    }

    /// After a call that ran alone and whose items took `measured` on average. Costs within a factor of two agree (caches and
    /// frequencies make that much); a call that does not agree is what is remembered from then on.
    pub fn after_alone(self, measured: Nanos) -> Known {
        if self.alone.0 <= 0.0 && measured.0 <= 2.0 * self.shared.0 {
            // Alone for the first time, and perhaps far faster: that is no disagreement.
            return Known { alone: measured, ..self };
        }
        match self.blend(self.alone, measured) {
            Some((alone, trust)) => Known { alone, trust, ..self },
            None => Known { alone: measured, ..Known::default() },
        }
    }

    /// The same after a shared call. Alone, items take no longer than in shared calls: a memory that says so is outdated.
    pub fn after_shared(self, measured: Nanos) -> Known {
        if measured.0 < 0.5 * self.alone.0 {
            return Known { shared: measured, ..Known::default() };
        }
        if self.shared.0 <= 0.0 && self.alone.0 > 0.0 {
            // Shared for the first time, and perhaps far slower: that is no disagreement.
            return Known { shared: measured, ..self };
        }
        match self.blend(self.shared, measured) {
            Some((shared, trust)) => Known { shared, trust, ..self },
            None => Known { shared: measured, ..Known::default() },
        }
    }

    fn blend(self, before: Nanos, measured: Nanos) -> Option<(Nanos, u8)> {
        let (old, new) = (before.0, measured.0);
        let agree = new <= 2.0 * old && old <= 2.0 * new;
        agree.then(|| (Nanos(0.75 * old + 0.25 * new), (self.trust + 1).min(MOST_TRUST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(costs: &[f64]) -> Known {
        costs.iter().fold(Known::default(), |known, &cost| known.after_alone(Nanos(cost)))
    }

    #[test]
    fn calls_that_agree_are_trusted() {
        assert_eq!(after(&[]).trusted(), None);
        assert_eq!(after(&[10.0, 12.0]).trusted(), None);
        let known = after(&[10.0, 12.0, 11.0]).trusted().expect("three calls agree");
        assert!((10.0..12.0).contains(&known.per_item.0));
        assert_eq!((known.swell, known.never_alone), (1.0, false));
    }

    #[test]
    fn one_call_that_differs_ends_the_trust() {
        let known = after(&[10.0, 10.0, 10.0, 10.0, 10.0, 500.0]);
        assert_eq!(known, Known { alone: Nanos(500.0), ..Known::default() });
        // Different work in turn is never trusted.
        assert_eq!(after(&[10.0, 1000.0].repeat(20)).trusted(), None);
    }

    #[test]
    fn items_that_cost_more_in_company_are_remembered_so() {
        let shared = |known: Known, times| (0..times).fold(known, |known, _| known.after_shared(Nanos(30.0)));
        let known = shared(after(&[10.0; 4]), 40).trusted().expect("all agree");
        assert!((known.per_item.0 - 10.0).abs() < 0.1 && (known.swell - 3.0).abs() < 0.1, "{known:?}");
        let never_alone = shared(Known::default(), 4).trusted().expect("all agree");
        assert!(never_alone.never_alone && never_alone.swell == 1.0);
        // Shared calls far below what it took alone: that was other work.
        let outdated = shared(after(&[100.0; 4]), 4);
        assert_eq!(outdated.alone, Nanos(0.0));
    }
}

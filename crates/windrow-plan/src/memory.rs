//! What a call site remembers of its items.
//!
//! A loop that is called again mostly does again what it did before. Then nothing has to be sampled: a long item can be shared from the
//! start (a sample of it would be half of the work), a short call can run in one go. A memory is trusted once calls in a row have
//! confirmed it, so that a site shared by different work is not.

use crate::Nanos;

/// A call site's memory of the cost of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// What an item (or unit of weight) takes.
    pub per_item: Nanos,
    /// Calls in a row that agreed.
    pub trust: u8,
}

/// Calls that must agree before a memory is used.
const TRUSTED: u8 = 2;
/// More agreement than this is not counted: one bit of doubt must be enough.
const MOST_TRUST: u8 = 4;

impl Known {
    /// The cost, if it can be relied on.
    pub fn trusted(self) -> Option<Nanos> {
        (self.trust >= TRUSTED).then_some(self.per_item)
    }

    /// After a call whose items took `measured` on average. Costs within a factor of two agree (caches and frequencies make that
    /// much); a call that does not agree is what is remembered from then on.
    pub fn after(self, measured: Nanos) -> Known {
        let (old, new) = (self.per_item.0, measured.0);
        if new <= 2.0 * old && old <= 2.0 * new {
            Known { per_item: Nanos(0.75 * old + 0.25 * new), trust: (self.trust + 1).min(MOST_TRUST) }
        } else {
            Known { per_item: measured, trust: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(costs: &[f64]) -> Known {
        costs.iter().fold(Known::default(), |known, &cost| known.after(Nanos(cost)))
    }

    #[test]
    fn calls_that_agree_are_trusted() {
        assert_eq!(after(&[]).trusted(), None);
        assert_eq!(after(&[10.0, 12.0]).trusted(), None);
        let known = after(&[10.0, 12.0, 11.0]).trusted().expect("three calls agree");
        assert!((10.0..12.0).contains(&known.0));
    }

    #[test]
    fn one_call_that_differs_ends_the_trust() {
        assert_eq!(after(&[10.0, 10.0, 10.0, 10.0, 10.0, 500.0]), Known { per_item: Nanos(500.0), trust: 0 });
        // Different work in turn is never trusted.
        assert_eq!(after(&[10.0, 1000.0].repeat(20)).trusted(), None);
    }
}

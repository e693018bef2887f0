//! Site: the memory of a call site, of the cost of its items or of the time of its calls.
//!
//! ```text
//! after a call: within a factor of 2 of the remembered cost: cost = 3/4 cost + 1/4 measured, trust += 1
//!               else:                                        cost = measured, trust = 0
//! trust = 2:    the next call uses the cost, without a sample
//! ```
//!
//! A repeated loop mostly does the same work again. Then no sample is needed. Long items can be shared from the start, where a sample could
//! be half of the work. A short call can run as one piece. A site with varying work is never trusted.
//!
//! Departures:
//! 1. **Two costs**. An item may cost more in shared calls, because cache lines move between members. So a site keeps the cost in
//!    calls that ran serially to their end, and the cost in shared calls.
//! 2. **Unmeasured calls**. A short call at a *steady* site ([`ItemCost::is_steady`]) reads no clock: the runtime checks one call in 64, at
//!    random. Other short calls at a known site check their first quarter. That takes two reads of the clock and a second piece, but finds
//!    other work in the call that has it. So a site is steady only after checked calls in a row that agreed: one at first, and twice as many
//!    after each surprise, up to 256. A check finds other work after 64 calls on average. Until then each call loses less than its own time.
//!    A site whose calls are long now and then stays measured.

use crate::Nanos;

/// A call site's memory of the cost of an item. (An item, or a unit of weight.)
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::site::ItemCost;
///
/// let after = |costs: &[f64]| costs.iter().fold(ItemCost::default(), |site, &cost| site.after_alone(Nanos(cost)));
/// assert!(after(&[10.0, 11.0, 10.0]).trusted().is_some(), "the calls agree");
/// assert!(after(&[10.0, 11.0, 10.0, 500.0]).trusted().is_none(), "the last call was other work");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ItemCost {
    /// Time per item in serial calls; 0 is unknown.
    pub alone: Nanos,
    /// Time per item and member in shared calls; 0 is unknown.
    pub shared: Nanos,
    /// Consecutive calls that agreed with those before, up to 2.
    pub trust: u8,
    /// True if a call has run serially to its end. Until then, items may wait for each other.
    pub ended_alone: bool,
    /// Checked short calls in a row that agreed.
    pub agreed: u16,
    /// Calls that took far longer than a trusted memory said.
    pub surprises: u8,
}

/// Consecutive calls that must agree before a site's memory is used. Further agreement is not counted. One disagreement resets it to 0.
///
/// Measure: count of calls.
pub(crate) const TRUSTED: u8 = 2;

/// The factor within which two costs agree, because caches and frequencies vary that much.
///
/// Measure: share of the smaller cost.
pub(crate) const AGREE: f64 = 2.0;

/// Weight of the latest call in a memory.
///
/// Measure: share of the memory.
pub(crate) const LATEST: f64 = 0.25;

/// Surprises that count. Each doubles the checked calls that must agree before calls run unmeasured.
///
/// Measure: count of calls.
const MOST_SURPRISES: u8 = 8;

/// The reliable part of a memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trusted {
    /// Time per item in serial calls, or the best estimate of it.
    pub per_item: Nanos,
    /// The factor by which an item takes longer in a shared call.
    pub swell: f64,
    /// True if no call has run serially to its end, so that `per_item` is the time in shared calls.
    pub never_alone: bool,
}

impl ItemCost {
    /// The reliable part, if the memory is trusted.
    pub fn trusted(self) -> Option<Trusted> {
        let ItemCost { alone, shared, trust, .. } = self;
        if trust < TRUSTED {
            return None;
        }
        let never_alone = alone.0 <= 0.0;
        let per_item = if never_alone { shared } else { alone };
        let swell = if never_alone || shared.0 <= 0.0 { 1.0 } else { (shared.0 / alone.0).max(1.0) };
        Some(Trusted { per_item, swell, never_alone })
    }

    /// The memory after a serial call, with `measured` per item on average. A call that does not [agree](agree) replaces the memory.
    pub fn after_alone(self, measured: Nanos) -> ItemCost {
        if self.alone.0 <= 0.0 && measured.0 <= AGREE * self.shared.0 {
            // The first serial call. It may be far faster than shared calls: not a disagreement.
            return ItemCost { alone: measured, ended_alone: true, ..self };
        }
        match self.blend(self.alone, measured) {
            Some((alone, trust)) => ItemCost { alone, trust, ended_alone: true, ..self },
            None => ItemCost { alone: measured, ended_alone: true, ..self.forgotten() },
        }
    }

    /// The memory after a short call that was timed as a whole. It may take far less than the calls that were remembered, because those
    /// were timed in pieces: not a disagreement. A call that took longer, but is not `contradicted`, may have been interrupted: the next check
    /// decides.
    #[must_use]
    pub fn after_short(self, measured: Nanos, contradicted: bool) -> ItemCost {
        if measured.0 > AGREE * self.alone.0 {
            let decided = contradicted || self.agreed == 0;
            return if decided { self.after_alone(measured) } else { ItemCost { agreed: 0, ..self } };
        }
        let agreed = (self.agreed + 1).min(1 << MOST_SURPRISES);
        ItemCost { alone: follow(self.alone, measured), agreed, ..self }
    }

    /// True if short calls run unmeasured: see the [module page](self).
    pub fn is_steady(self) -> bool {
        self.trust >= TRUSTED && self.ended_alone && self.agreed >= 1 << self.surprises.min(MOST_SURPRISES)
    }

    /// The memory after a shared call. An item takes no longer in a serial call than in a shared one; a memory that says otherwise is outdated.
    pub fn after_shared(self, measured: Nanos) -> ItemCost {
        if AGREE * measured.0 < self.alone.0 {
            return ItemCost { shared: measured, ..self.forgotten() };
        }
        if self.shared.0 <= 0.0 && self.alone.0 > 0.0 {
            // The first shared call. It may be far slower than serial calls: not a disagreement.
            return ItemCost { shared: measured, ..self };
        }
        match self.blend(self.shared, measured) {
            Some((shared, trust)) => ItemCost { shared, trust, ..self },
            None => ItemCost { shared: measured, ..self.forgotten() },
        }
    }

    /// The memory without costs: items that a call has contradicted.
    #[must_use]
    pub fn forgotten(self) -> ItemCost {
        let surprises = (self.surprises + u8::from(self.trust >= TRUSTED)).min(MOST_SURPRISES);
        ItemCost { ended_alone: self.ended_alone, surprises, ..ItemCost::default() }
    }

    fn blend(self, before: Nanos, measured: Nanos) -> Option<(Nanos, u8)> {
        agree(before.0, measured.0).then(|| (follow(before, measured), (self.trust + 1).min(TRUSTED)))
    }
}

/// True if two costs differ by no more than a factor of two, as for the same work.
pub(crate) fn agree(a: f64, b: f64) -> bool {
    a <= AGREE * b && b <= AGREE * a
}

/// The cost after a measurement that agrees with it.
pub(crate) fn follow(cost: Nanos, measured: Nanos) -> Nanos {
    Nanos(cost.0 + LATEST * (measured.0 - cost.0))
}

/// Times of the last two calls of a recursion on one thread. The shorter one is used, so that one long call now and then does not
/// make a site's next call count as long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallTime {
    /// The last call; 0 is unknown.
    pub last: Nanos,
    /// The call before it; 0 is unknown.
    pub before: Nanos,
    /// True if a call has run to its end without workers. Until then, its closures may wait for each other.
    pub alone: bool,
}

impl CallTime {
    /// Predicted time of the next call, if two calls have been measured.
    pub fn next(self) -> Option<Nanos> {
        let shorter = self.last.0.min(self.before.0);
        (shorter > 0.0).then_some(Nanos(shorter))
    }

    /// The memory after a call that took `time`, shared by `members`: on one thread it takes up to `members` times as long.
    #[must_use]
    pub fn after(self, time: Nanos, members: usize) -> CallTime {
        let last = Nanos(time.0 * members.max(1) as f64);
        CallTime { last, before: self.last, alone: self.alone || members <= 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(costs: &[f64]) -> ItemCost {
        costs.iter().fold(ItemCost::default(), |known, &cost| known.after_alone(Nanos(cost)))
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
    fn calls_agree_if_caches_and_frequencies_explain_their_times() {
        // A core at 3.8 GHz and at 2.1 GHz.
        assert!(after(&[10.0, 18.0].repeat(20)).trusted().is_some());
        // Items in the first-level cache and in the second: three times as long is other work.
        assert_eq!(after(&[10.0, 30.0].repeat(20)).trusted(), None);
        assert_eq!(after(&[30.0, 10.0].repeat(20)).trusted(), None);
    }

    /// A memory is the mean of some calls: it varies less than they do, and follows if all of them become slower.
    #[test]
    fn a_memory_evens_out_its_calls_and_follows_them() {
        let (mut state, mut known, mut squares) = (7_u64, after(&[10.0; 4]), 0.0);
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let call = 10.0 + 3.0 * ((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0);
            known = known.after_alone(Nanos(call));
            squares += (known.alone.0 - 10.0).powi(2);
        }
        // Calls deviate by 1.7 ns.
        let deviation = (squares / 2000.0).sqrt();
        assert!(deviation < 0.8, "{deviation} ns");
        let slower = [15.0; 6].into_iter().fold(after(&[10.0; 4]), |known, cost| known.after_alone(Nanos(cost)));
        assert!(slower.alone.0 > 14.0, "{slower:?}");
    }

    #[test]
    fn one_call_that_differs_ends_the_trust() {
        let known = after(&[10.0, 10.0, 10.0, 10.0, 10.0, 500.0]);
        assert_eq!(known, ItemCost { alone: Nanos(500.0), ended_alone: true, surprises: 1, ..ItemCost::default() });
        let shared = known.after_shared(Nanos(1.0)).after_shared(Nanos(100.0));
        assert!(shared.ended_alone && shared.trust == 0 && !ItemCost::default().after_shared(Nanos(1.0)).ended_alone);
        // A site that alternates between different work is never trusted.
        assert_eq!(after(&[10.0, 1000.0].repeat(20)).trusted(), None);
    }

    #[test]
    fn short_calls_correct_what_was_timed_in_pieces() {
        let mut known = after(&[30.0; 4]);
        for _ in 0..20 {
            known = known.after_short(Nanos(10.0), false);
        }
        let cost = known.trusted().expect("all agree").per_item.0;
        assert!((10.0..10.1).contains(&cost), "{cost}");
        let interrupted = known.after_short(Nanos(25.0), false);
        assert!(interrupted.trusted() == known.trusted() && !interrupted.is_steady());
        assert_eq!(interrupted.after_short(Nanos(25.0), false).trusted(), None, "that was other work");
        assert_eq!(known.after_short(Nanos(25.0), true).trusted(), None, "that was other work");
    }

    #[test]
    fn calls_run_unmeasured_after_checks_that_agree_twice_as_many_after_each_surprise() {
        let checked = |known: ItemCost, times| (0..times).fold(known, |known, _| known.after_short(Nanos(10.0), false));
        let mut known = after(&[10.0; 4]);
        for needed in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
            assert!(!checked(known, needed - 1).is_steady() && checked(known, needed).is_steady(), "{known:?}");
            let surprised = known.after_short(Nanos(1000.0), true);
            assert!(!surprised.is_steady() && surprised.agreed == 0, "{surprised:?}");
            // A second call that disagrees is no surprise: the memory was not trusted.
            known = [10.0; 4].into_iter().fold(surprised, |known, cost| known.after_alone(Nanos(cost)));
        }
        assert!(!checked(ItemCost::default().after_shared(Nanos(10.0)), 9).is_steady(), "none has run alone");
    }

    #[test]
    fn items_that_cost_more_in_company_are_remembered_so() {
        let shared = |known: ItemCost, times| (0..times).fold(known, |known, _| known.after_shared(Nanos(30.0)));
        let known = shared(after(&[10.0; 4]), 40).trusted().expect("all agree");
        assert!((known.per_item.0 - 10.0).abs() < 0.1 && (known.swell - 3.0).abs() < 0.1, "{known:?}");
        let never_alone = shared(ItemCost::default(), 4).trusted().expect("all agree");
        assert!(never_alone.never_alone && never_alone.swell == 1.0);
        // The first serial call is far faster than the shared ones, and no disagreement.
        let alone = shared(ItemCost::default(), 4).after_alone(Nanos(10.0)).trusted().expect("it agrees");
        assert!(!alone.never_alone && alone.per_item == Nanos(10.0), "{alone:?}");
        // Shared calls take far less than the remembered serial time: that was other work.
        let outdated = shared(after(&[100.0; 4]), 4);
        assert_eq!(outdated.alone, Nanos(0.0));
    }

    #[test]
    fn the_shorter_of_two_calls_is_expected() {
        let known = CallTime::default().after(Nanos(100_000.0), 1);
        assert_eq!(known.next(), None);
        let known = known.after(Nanos(60_000.0), 2);
        assert_eq!(known.next(), Some(Nanos(100_000.0)));
        assert!(known.alone && !CallTime::default().after(Nanos(9.0), 2).after(Nanos(9.0), 3).alone);
        assert_eq!(known.after(Nanos(500.0), 1).next(), Some(Nanos(500.0)));
    }
}

//! Site: the memory of a call site, of the cost of its items or, for joins, of its calls.
//!
//! ```text
//! after a call: within a factor of 2 of the remembered cost: the estimate follows, trust += 1 (`estimate`)
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
//!    random. A site is steady after calls in a row that agreed: some at first, and twice as many after each surprise, up to 256. A check finds
//!    other work after 64 calls on average. Until then each call loses less than its own time. A site whose calls are long now and then stays
//!    measured. Calls shorter than a sample are no surprise ([`ItemCost::believed`]): without that, nested calls of two or three items were measured
//!    nearly always (1000 rows of 0 to 39: 30 of the serial CPU time, with it 8).

use crate::Nanos;
use crate::estimate::{AGREE, Estimate, Smoothing, TRUSTED};

const CALLS: Smoothing = Smoothing::CALLS;

/// A call site's memory of the cost of an item. (An item, or a unit of weight, or a whole call of joins.)
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::site::ItemCost;
///
/// let after = |costs: &[f64]| costs.iter().fold(ItemCost::default(), |site, &cost| site.after_alone(Nanos(cost), true));
/// assert!(after(&[10.0, 11.0, 10.0]).trusted().is_some(), "the calls agree");
/// assert!(after(&[10.0, 11.0, 10.0, 500.0]).trusted().is_none(), "the last call was other work");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ItemCost {
    /// Time per item in serial calls.
    pub alone: Estimate,
    /// Time per item and member in shared calls.
    pub shared: Estimate,
    /// True if a call has run serially to its end. Until then, items may wait for each other.
    pub ended_alone: bool,
    /// Calls in a row that agreed with a trusted memory.
    pub agreed: u16,
    /// Calls that took far longer than a trusted memory said.
    pub surprises: u8,
}

/// Surprises that count. Each doubles the calls that must agree before calls run unmeasured.
///
/// Measure: count of calls.
const MOST_SURPRISES: u8 = 8;

/// The factor by which a call may be faster because it ran in fewer pieces: of ten pieces of a few nanoseconds each, two are left.
///
/// Measure: share of the measured cost.
const FASTER: f64 = 4.0;

/// The reliable part of a memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trusted {
    /// Time per item in serial calls, or the best estimate of it.
    pub per_item: Nanos,
    /// The factor by which an item takes longer in a shared call.
    pub swell: f64,
}

impl ItemCost {
    /// Time per item in serial calls, or else in shared ones; 0 is unknown.
    pub fn per_item(self) -> Nanos {
        if self.alone.is_known() { self.alone.value } else { self.shared.value }
    }

    /// The reliable part, if the memory is trusted.
    pub fn trusted(self) -> Option<Trusted> {
        let ItemCost { alone, shared, .. } = self;
        let swell = if alone.is_known() { (shared.value.0 / alone.value.0).max(1.0) } else { 1.0 };
        self.is_trusted().then(|| Trusted { per_item: self.per_item(), swell })
    }

    fn is_trusted(self) -> bool {
        self.alone.trust.max(self.shared.trust) >= TRUSTED
    }

    /// The memory after a call of `members` that took `measured` per item. Shared by members, an item takes up to `members` times as long on one
    /// thread.
    #[must_use]
    pub fn after_call(self, measured: Nanos, members: usize, contradicted: bool) -> ItemCost {
        match members {
            0 | 1 => self.after_alone(measured, contradicted),
            _ => self.after_shared(Nanos(measured.0 * members as f64)),
        }
    }

    /// The memory after a serial call, with `measured` per item on average. A call that disagrees replaces the memory, but for three:
    /// - The first serial call may be far faster than shared calls.
    /// - Calls of a trusted site run in fewer pieces than those before, and may be somewhat faster.
    /// - A call of a steady site that took longer, but is not `contradicted`, may have been interrupted: the next check decides.
    #[must_use]
    pub fn after_alone(self, measured: Nanos, contradicted: bool) -> ItemCost {
        let before = if self.alone.is_known() { self.alone } else { Estimate::of(self.shared.value) };
        let is_slower = measured.0 > AGREE * before.value.0;
        if is_slower && self.is_steady() && !contradicted {
            return ItemCost { agreed: 0, ..self };
        }
        let known = match self.alone.is_surprised(measured, CALLS) {
            false if !is_slower => self.agreeing(),
            true if self.is_trusted() && measured < before.value && before.value.0 <= FASTER * measured.0 => {
                let value = Nanos(CALLS.follow(before.value.0, measured.0));
                return ItemCost { alone: Estimate { value, ..self.alone }, ..self.agreeing() };
            }
            _ => self.forgotten(),
        };
        ItemCost { alone: known.alone.after(measured, CALLS), ended_alone: true, ..known }
    }

    /// The cost to learn from a serial call in which items took `measured`. Of a call as short as a sample, the time of the clock and of first
    /// touches is a large part, and no such call is long: it agrees, and moves the memory by a step.
    pub fn believed(self, measured: Nanos, is_sample: bool) -> Nanos {
        let Nanos(known) = self.per_item();
        if is_sample && known > 0.0 { Nanos(measured.0.clamp(known / AGREE, known * AGREE)) } else { measured }
    }

    /// True if short calls run unmeasured: see the [module page](self).
    pub fn is_steady(self) -> bool {
        self.is_trusted() && self.ended_alone && self.agreed >= 1 << self.surprises.min(MOST_SURPRISES)
    }

    /// The memory after a shared call. An item takes no longer in a serial call than in a shared one; a memory that says otherwise is outdated. The
    /// first shared call may be far slower than serial calls: not a disagreement.
    #[must_use]
    pub fn after_shared(self, measured: Nanos) -> ItemCost {
        let is_outdated = AGREE * measured.0 < self.alone.value.0;
        let known =
            if is_outdated || self.shared.is_surprised(measured, CALLS) { self.forgotten() } else { self.agreeing() };
        ItemCost { shared: known.shared.after(measured, CALLS), ..known }
    }

    /// The memory after a call that agreed.
    fn agreeing(self) -> ItemCost {
        let agreed = if self.is_trusted() { (self.agreed + 1).min(1 << MOST_SURPRISES) } else { 0 };
        ItemCost { agreed, ..self }
    }

    /// The memory without costs: items that a call has contradicted.
    #[must_use]
    pub fn forgotten(self) -> ItemCost {
        let surprises = (self.surprises + u8::from(self.is_trusted())).min(MOST_SURPRISES);
        ItemCost { ended_alone: self.ended_alone, surprises, ..ItemCost::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(costs: &[f64]) -> ItemCost {
        costs.iter().fold(ItemCost::default(), |known, &cost| known.after_alone(Nanos(cost), true))
    }

    #[test]
    fn calls_that_agree_are_trusted() {
        assert_eq!(after(&[]).trusted(), None);
        assert_eq!(after(&[10.0, 12.0]).trusted(), None);
        let known = after(&[10.0, 12.0, 11.0]).trusted().expect("three calls agree");
        assert!((10.0..12.0).contains(&known.per_item.0));
        assert_eq!(known.swell, 1.0);
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
            known = known.after_alone(Nanos(call), true);
            squares += (known.alone.value.0 - 10.0).powi(2);
        }
        // Calls deviate by 1.7 ns.
        let deviation = (squares / 2000.0).sqrt();
        assert!(deviation < 0.8, "{deviation} ns");
        let slower = [15.0; 6].into_iter().fold(after(&[10.0; 4]), |known, cost| known.after_alone(Nanos(cost), true));
        assert!(slower.per_item().0 > 14.0, "{slower:?}");
    }

    #[test]
    fn one_call_that_differs_ends_the_trust() {
        let known = after(&[10.0, 10.0, 10.0, 10.0, 10.0, 500.0]);
        let alone = Estimate::of(Nanos(500.0));
        assert_eq!(known, ItemCost { alone, ended_alone: true, surprises: 1, ..ItemCost::default() });
        let shared = known.after_shared(Nanos(1.0)).after_shared(Nanos(100.0));
        assert!(
            shared.ended_alone
                && shared.trusted().is_none()
                && !ItemCost::default().after_shared(Nanos(1.0)).ended_alone
        );
        // A site that alternates between different work is never trusted.
        assert_eq!(after(&[10.0, 1000.0].repeat(20)).trusted(), None);
    }

    #[test]
    fn calls_in_fewer_pieces_correct_those_before() {
        let mut known = after(&[30.0; 4]);
        for _ in 0..20 {
            known = known.after_alone(Nanos(10.0), false);
        }
        let cost = known.trusted().expect("all agree").per_item.0;
        assert!((10.0..10.1).contains(&cost), "{cost}");
        assert!(after(&[30.0; 4]).after_alone(Nanos(8.0), false).trusted().is_some(), "three pieces more");
        assert_eq!(after(&[30.0; 4]).after_alone(Nanos(7.0), false).trusted(), None, "that was other work");
        let interrupted = known.after_alone(Nanos(25.0), false);
        assert!(interrupted.trusted() == known.trusted() && !interrupted.is_steady());
        assert_eq!(interrupted.after_alone(Nanos(25.0), false).trusted(), None, "that was other work");
        assert_eq!(known.after_alone(Nanos(25.0), true).trusted(), None, "that was other work");
    }

    #[test]
    fn calls_run_unmeasured_after_calls_that_agree_twice_as_many_after_each_surprise() {
        let again = |known: ItemCost, times| (0..times).fold(known, |known, _| known.after_alone(Nanos(10.0), false));
        let mut known = ItemCost::default();
        for needed in [4, 5, 7, 11, 19, 35, 67, 131, 259, 259] {
            assert!(!again(known, needed - 1).is_steady() && again(known, needed).is_steady(), "{needed}: {known:?}");
            known = again(known, needed).after_alone(Nanos(1000.0), true);
            assert!(!known.is_steady() && known.agreed == 0, "{known:?}");
        }
        let shared = (0..9).fold(ItemCost::default(), |known, _| known.after_shared(Nanos(10.0)));
        assert!(!shared.is_steady(), "none has run alone");
    }

    #[test]
    fn calls_as_short_as_a_sample_agree() {
        let mut known = after(&[40.0]);
        for call in [3.0, 90.0, 7.0, 5.0, 30.0, 4.0, 5.0, 6.0, 4.0] {
            known = known.after_alone(known.believed(Nanos(call), true), false);
        }
        assert!(known.is_steady() && (5.0..20.0).contains(&known.per_item().0), "{known:?}");
        assert_eq!(known.believed(Nanos(900.0), false), Nanos(900.0));
    }

    #[test]
    fn items_that_cost_more_in_company_are_remembered_so() {
        let shared = |known: ItemCost, times| (0..times).fold(known, |known, _| known.after_shared(Nanos(30.0)));
        let known = shared(after(&[10.0; 4]), 40).trusted().expect("all agree");
        assert!((known.per_item.0 - 10.0).abs() < 0.1 && (known.swell - 3.0).abs() < 0.1, "{known:?}");
        assert_eq!(shared(ItemCost::default(), 3).trusted().expect("all agree").swell, 1.0);
        // The first serial call is far faster than the shared ones, and no disagreement.
        let alone = shared(ItemCost::default(), 4).after_alone(Nanos(10.0), true).trusted().expect("it agrees");
        assert_eq!(alone.per_item, Nanos(10.0));
        // Shared calls take far less than the remembered serial time: that was other work.
        let outdated = shared(after(&[100.0; 4]), 4);
        assert!(!outdated.alone.is_known());
    }

    #[test]
    fn a_shared_call_counts_for_all_of_its_members() {
        let after = |calls: &[(f64, usize)]| {
            calls
                .iter()
                .fold(ItemCost::default(), |known, &(time, members)| known.after_call(Nanos(time), members, true))
        };
        let known = after(&[(100e3, 1), (60e3, 2), (60e3, 2), (60e3, 2)]).trusted().expect("all agree");
        assert_eq!((known.per_item, known.swell), (Nanos(100e3), 1.2));
        assert!(!after(&[(9.0, 2), (9.0, 3)]).ended_alone && after(&[(9.0, 2), (9.0, 1)]).ended_alone);
        assert_eq!(after(&[(100e3, 1), (100e3, 1), (100e3, 1), (500.0, 1)]).trusted(), None);
    }
}

//! Call sites remember what their items cost, in a table of bounded size.
//!
//! A [`site`] is a place in the source together with the code of the call's body. The place alone would make one site of all types that a
//! generic function is called with. The code alone would make one site of closures of equal text, which the compiler merges.
//! Two sites may share an entry. Then they overwrite each other, and neither is trusted ([`windrow_plan::site`]).
//! Only speed depends on the table.
//!
//! Costs of loops, sorts and recursions (joins, scopes) are packed into words. Statistics of teams are larger. The first team of a site that could
//! be wider than its caller allocates them, behind a lock for which no thread waits.

use std::panic::Location;
use std::sync::{MutexGuard, OnceLock};

use windrow_plan::Nanos;
use windrow_plan::estimate::Estimate;
use windrow_plan::site::ItemCost;
use windrow_plan::team::TeamCalls;
use windrow_plan::width::WidthStats;
use windrow_sync::Mutex;
use windrow_sync::relaxed::RelaxedU64;

/// Sites remembered: 24 KiB a pool. A program has hundreds of parallel loops at most, and few of them run in turn.
///
/// Measure: size of the table.
const SITES: usize = 512;

/// Calls inside of calls have separate sites up to this depth: a recursion by parallel iterators has items of another cost at each level.
///
/// Measure: count of levels.
const DEPTHS: usize = 15;

/// The key of a call site at a `depth` of calls inside of calls, for calls of about `items` items: from one power of two to the next. In a loop
/// whose calls shrink, as in a decomposition, an item of a short call costs less than one of a long call.
#[inline]
pub(crate) fn site_at(place: Option<&'static Location<'static>>, code: usize, depth: usize, items: usize) -> usize {
    // Code is aligned to 16 bytes.
    site(place, code | depth.min(DEPTHS)).rotate_left(items.max(1).ilog2())
}

/// The key of a call site: where the call stands, and the address of the code it runs.
#[inline]
pub(crate) fn site(place: Option<&'static Location<'static>>, code: usize) -> usize {
    // Both are addresses, of different alignment, in regions of memory that differ in their upper bits. 0 is an empty entry.
    (place.map_or(0, |place| std::ptr::from_ref(place).addr()) ^ code.rotate_left(16)).max(1)
}

/// The slot of a site: Fibonacci hashing (Knuth), since addresses are aligned and close together.
#[inline]
fn slot(site: usize) -> usize {
    ((site as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SITES
}

/// The table. See the [module page](self).
pub(crate) struct SiteTable {
    entries: Box<[SiteEntry; SITES]>,
    teams: Box<[OnceLock<Box<Mutex<TeamStats>>>]>,
}

impl std::fmt::Debug for SiteTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.entries.iter().filter(|entry| entry.site.get() != 0).count();
        f.debug_struct("SiteTable").field("known", &known).finish_non_exhaustive()
    }
}

/// Half of a cache line.
#[derive(Default)]
#[repr(align(32))]
struct SiteEntry {
    site: RelaxedU64,
    /// Two costs and the trust in them, packed.
    known: RelaxedU64,
    /// The index of the item that took a large part of the last call (upper half), and the number of items of that call; 0 is none.
    long: RelaxedU64,
    /// Calls that weigh less than this run unmeasured (lower half; a recursion weighs 1), and the weight at the start of each call that does, because
    /// a call has ended early (upper half).
    unmeasured: RelaxedU64,
}

/// What a site remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SiteStats {
    pub(crate) known: ItemCost,
    pub(crate) long: Option<LongItem>,
}

/// What a site remembers of its teams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TeamStats {
    site: usize,
    pub(crate) widths: WidthStats,
    pub(crate) calls: TeamCalls,
    /// The time of the last team, from its forming to its end.
    pub(crate) took: Nanos,
    /// The number of its rounds.
    pub(crate) rounds: u64,
}

/// An item that took a large part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongItem {
    pub(crate) at: u32,
    pub(crate) of: u32,
}

/// Packs costs as the upper halves of 32-bit floats. They are rounded to 6 %, so that noise does not cause a store.
fn pack(known: ItemCost) -> u64 {
    let rounded = |cost: Estimate| u64::from((cost.value.0 as f32).to_bits().saturating_add(1 << 18) >> 19 << 3);
    rounded(known.alone) << 48
        | rounded(known.shared) << 32
        | u64::from(known.alone.trust)
        | u64::from(known.shared.trust) << SHARED_TRUST
        | if known.ended_alone { ENDED_ALONE } else { 0 }
        | u64::from(known.agreed) << AGREED
        | u64::from(known.surprises) << SURPRISES
}

/// The trust in [`ItemCost::shared`] begins here in packed costs, above that in [`ItemCost::alone`].
///
/// Measure: bits of a word.
const SHARED_TRUST: u32 = 4;
/// The bit of [`ItemCost::ended_alone`].
///
/// Measure: bits of a word.
const ENDED_ALONE: u64 = 1 << 8;
/// Where [`ItemCost::surprises`] begins, and [`ItemCost::agreed`], up to the costs.
///
/// Measure: bits of a word.
const SURPRISES: u32 = 9;
const AGREED: u32 = 16;

fn unpack(known: u64) -> ItemCost {
    let cost = |half: u64, trust: u64| {
        let value = Nanos(f64::from(f32::from_bits((half as u32 & 0xffff) << 16)));
        Estimate { value, trust: trust as u8 & 0xf }
    };
    let (agreed, surprises) = ((known >> AGREED) as u16, (known >> SURPRISES) as u8 & 0x7f);
    ItemCost {
        alone: cost(known >> 48, known),
        shared: cost(known >> 32, known >> SHARED_TRUST),
        ended_alone: known & ENDED_ALONE != 0,
        agreed,
        surprises,
    }
}

impl Default for SiteTable {
    fn default() -> Self {
        let entries = Box::new(std::array::from_fn(|_| SiteEntry::default()));
        Self { entries, teams: (0..SITES).map(|_| OnceLock::new()).collect() }
    }
}

impl SiteTable {
    #[inline]
    fn entry(&self, site: usize) -> &SiteEntry {
        &self.entries[slot(site)]
    }

    /// What `site` remembers.
    #[inline]
    pub(crate) fn recall(&self, site: usize) -> SiteStats {
        let entry = self.entry(site);
        if entry.site.get() != site as u64 {
            return SiteStats::default();
        }
        let (known, long) = (entry.known.get(), entry.long.get());
        let long = (long != 0).then_some(LongItem { at: (long >> 32) as u32, of: long as u32 });
        SiteStats { known: unpack(known), long }
    }

    /// The weight below which calls at `site` run unmeasured, and that of the start of each call that does ([`early_weight`]): 0 if it is another
    /// site that has the entry, or if no call has ended early.
    ///
    /// [`early_weight`]: windrow_plan::share::early_weight
    #[inline]
    pub(crate) fn unmeasured(&self, site: usize) -> (u64, u64) {
        let entry = self.entry(site);
        let word = if entry.site.get() == site as u64 { entry.unmeasured.get() } else { 0 };
        (word & u64::from(u32::MAX), word >> 32)
    }

    /// Stores that a call of `site` has ended early, so that `early` at the start of each call runs unmeasured. Costs stay as they are.
    pub(crate) fn end_early(&self, site: usize, early: u64) {
        self.store(site, self.recall(site), self.unmeasured(site).0, early);
    }

    /// Stores what `site` remembers from now on, and the weight below which its calls run unmeasured.
    pub(crate) fn remember(&self, site: usize, memory: SiteStats, unmeasured: u64) {
        self.store(site, memory, unmeasured, self.unmeasured(site).1);
    }

    fn store(&self, site: usize, memory: SiteStats, unmeasured: u64, early: u64) {
        let entry = self.entry(site);
        let [unmeasured, early] = [unmeasured, early].map(|weight| weight.min(u64::from(u32::MAX)));
        let unmeasured = early << 32 | unmeasured;
        let known = pack(memory.known);
        let long = memory.long.map_or(0, |long| u64::from(long.at) << 32 | u64::from(long.of));
        // A store of the same value would take the cache line from other threads that call this site.
        let words = [(&entry.site, site as u64), (&entry.known, known), (&entry.long, long)];
        for (hint, value) in words.into_iter().chain([(&entry.unmeasured, unmeasured)]) {
            if hint.get() != value {
                hint.set(value);
            }
        }
    }
}

impl SiteTable {
    /// What `site` remembers of its teams. Locked statistics count as empty: since a fork they may stay locked.
    pub(crate) fn recall_team(&self, site: usize) -> TeamStats {
        let stats = self.teams[slot(site)].get().and_then(|stats| stats.try_lock());
        stats.filter(|stats| stats.site == site).map_or_else(TeamStats::default, |stats| *stats)
    }

    /// What `site` remembers of its teams, to be changed; `None` if another thread holds the lock.
    pub(crate) fn team(&self, site: usize) -> Option<MutexGuard<'_, TeamStats>> {
        let entry = &self.teams[slot(site)];
        // Made outside of the cell, whose lock is then held for a few instructions.
        let mut stats = match entry.get() {
            Some(stats) => stats,
            None => {
                let _ = entry.set(Box::default());
                entry.get()?
            }
        }
        .try_lock()?;
        if stats.site != site {
            *stats = TeamStats { site, ..TeamStats::default() };
        }
        Some(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SiteTable {
        /// The site of each entry, with all that it remembers of full calls.
        pub(crate) fn costs(&self) -> Vec<[u64; 3]> {
            self.entries.iter().map(|entry| [entry.site.get(), entry.known.get(), entry.long.get()]).collect()
        }
    }

    #[test]
    fn a_site_is_a_place_and_its_code() {
        let first = Some(Location::caller());
        let second = Some(Location::caller());
        let sites = [site(first, 0x4000), site(second, 0x4000), site(first, 0x4010), site(None, 0x4000)];
        for (at, one) in sites.iter().enumerate() {
            assert!(sites[at + 1..].iter().all(|other| other != one), "{sites:x?}");
        }
        assert_ne!(site(None, 0), 0, "0 is an empty entry");
        // Functions 16 bytes apart spread over the table.
        let slots: std::collections::BTreeSet<usize> = (0..SITES).map(|at| slot(0x4000 + 16 * at)).collect();
        assert!(slots.len() > SITES / 2, "{slots:?}");
    }

    #[test]
    fn costs_survive_packing_within_six_percent() {
        for nanos in [0.5, 1.0, 3.3, 777.0, 1.3e9] {
            let cost = |nanos, trust| Estimate { value: Nanos(nanos), trust };
            let (alone, shared) = (cost(nanos, 2), cost(2.0 * nanos, 1));
            let known = ItemCost { alone, shared, ended_alone: nanos > 1.0, agreed: 256, surprises: 8 };
            let ItemCost { alone, shared, .. } = unpack(pack(known));
            let off = |cost: Estimate, nanos: f64| (cost.value.0 / nanos - 1.0).abs();
            assert!(off(alone, nanos) < 0.065 && off(shared, 2.0 * nanos) < 0.065, "{nanos}");
            assert_eq!((alone.trust, shared.trust), (2, 1));
            assert_eq!(unpack(pack(known)), ItemCost { alone, shared, ..known });
        }
        assert_eq!(unpack(pack(ItemCost::default())), ItemCost::default());
    }

    #[test]
    fn a_site_recalls_what_it_was_told_and_others_do_not() {
        let sites = SiteTable::default();
        let memory = SiteStats {
            known: ItemCost { alone: Estimate::of(Nanos(12.0)), ended_alone: true, ..ItemCost::default() },
            long: Some(LongItem { at: 7, of: 9 }),
        };
        assert_eq!(sites.recall(0x4000), SiteStats::default());
        sites.remember(0x4000, memory, 0);
        assert_eq!((sites.recall(0x4000), sites.unmeasured(0x4000)), (memory, (0, 0)));
        sites.remember(0x4000, SiteStats { long: None, ..memory }, 100);
        assert_eq!((sites.recall(0x4000).long, sites.unmeasured(0x4000)), (None, (100, 0)));
        sites.end_early(0x4000, 7);
        assert_eq!((sites.recall(0x4000).known, sites.unmeasured(0x4000)), (memory.known, (100, 7)));
        sites.remember(0x4000, memory, 1 << 40);
        assert_eq!((sites.recall(0x4000), sites.unmeasured(0x4000)), (memory, (u32::MAX.into(), 7)));
        // Whatever else shares its entry is another site.
        for other in (0x4010..0x14000).step_by(16) {
            assert_eq!((sites.recall(other), sites.unmeasured(other)), (SiteStats::default(), (0, 0)));
        }
    }
}

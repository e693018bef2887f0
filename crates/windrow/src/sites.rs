//! Call sites remember what their items cost, in a table of bounded size.
//!
//! A site is the address of the code of a call's body. The compiler may merge closures of equal text into one function, so two places of a
//! program may be one site. Two sites may also share an entry; then they overwrite each other, and neither is trusted
//! ([`windrow_plan::memory`]). Nothing but speed depends on it.

use windrow_plan::Nanos;
use windrow_plan::memory::Known;
use windrow_sync::hint::Hint;

/// Sites remembered: 12 KiB a pool. A program has hundreds of parallel loops at most, and few of them run in turn.
const SITES: usize = 512;

/// The table. See the [module page](self).
pub(crate) struct Sites(Box<[Entry]>);

impl std::fmt::Debug for Sites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.0.iter().filter(|entry| entry.site.get() != 0).count();
        f.debug_struct("Sites").field("known", &known).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Entry {
    site: Hint,
    /// Two costs and trust, packed.
    known: Hint,
    /// Where the item stood that took a large part of the last call, plus one, and how many items that call had.
    long: Hint,
}

/// What a site remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) known: Known,
    pub(crate) long: Option<Long>,
}

/// An item that took a large part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Long {
    pub(crate) at: u32,
    pub(crate) of: u32,
}

/// Costs as the upper halves of 32-bit floats, rounded to 6 %, so that noise is no reason to write.
fn pack(known: Known) -> u64 {
    let half = |cost: Nanos| u64::from((cost.0 as f32).to_bits().saturating_add(1 << 18) >> 19 << 3);
    half(known.alone) << 48 | half(known.shared) << 32 | u64::from(known.trust)
}

fn unpack(known: u64) -> Known {
    let cost = |half: u64| Nanos(f64::from(f32::from_bits((half as u32 & 0xffff) << 16)));
    Known { alone: cost(known >> 48), shared: cost(known >> 32), trust: known as u8 }
}

impl Default for Sites {
    fn default() -> Self {
        Self((0..SITES).map(|_| Entry::default()).collect())
    }
}

impl Sites {
    fn entry(&self, site: usize) -> &Entry {
        // Functions are aligned and close together: multiply, and take the upper bits (Knuth).
        let hash = (site as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(hash >> 55) as usize % SITES]
    }

    /// What `site` remembers.
    #[inline]
    pub(crate) fn recall(&self, site: usize) -> Memory {
        let entry = self.entry(site);
        if entry.site.get() != site as u64 {
            return Memory::default();
        }
        let (known, long) = (entry.known.get(), entry.long.get());
        let long = (long != 0).then_some(Long { at: (long >> 32) as u32, of: long as u32 });
        Memory { known: unpack(known), long }
    }

    /// From now on `site` remembers this.
    pub(crate) fn remember(&self, site: usize, memory: Memory) {
        let entry = self.entry(site);
        let known = pack(memory.known);
        let long = memory.long.map_or(0, |long| u64::from(long.at) << 32 | u64::from(long.of));
        // Threads that call one site in turn must not take the line from each other for nothing.
        for (hint, value) in [(&entry.site, site as u64), (&entry.known, known), (&entry.long, long)] {
            if hint.get() != value {
                hint.set(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_survive_packing_within_six_percent() {
        for nanos in [0.5, 1.0, 3.3, 777.0, 1.3e9] {
            let known = Known { alone: Nanos(nanos), shared: Nanos(2.0 * nanos), trust: 4 };
            let Known { alone, shared, trust } = unpack(pack(known));
            assert!((alone.0 / nanos - 1.0).abs() < 0.065 && (shared.0 / nanos / 2.0 - 1.0).abs() < 0.065, "{nanos}");
            assert_eq!(trust, 4);
        }
        assert_eq!(unpack(pack(Known::default())), Known::default());
    }

    #[test]
    fn a_site_recalls_what_it_was_told_and_others_do_not() {
        let sites = Sites::default();
        let memory = Memory {
            known: Known { alone: Nanos(12.0), shared: Nanos(0.0), trust: 3 },
            long: Some(Long { at: 7, of: 9 }),
        };
        assert_eq!(sites.recall(0x4000), Memory::default());
        sites.remember(0x4000, memory);
        assert_eq!(sites.recall(0x4000), memory);
        sites.remember(0x4000, Memory { long: None, ..memory });
        assert_eq!(sites.recall(0x4000).long, None);
        // Whatever else shares its entry is another site.
        for other in (0x4010..0x14000).step_by(16) {
            assert_eq!(sites.recall(other), Memory::default());
        }
    }
}

#![doc = include_str!("README.md")]

mod memory;

use windrow_sync::{Pad, machine};

use self::memory::SlotMemory;
use crate::primitives::{AtomicU64, Ordering};

/// Number of slots in which a key may be.
const PROBES: usize = 32;

/// The second value word of a slot that a thread fills.
const CLAIMED: u64 = 1 << 63;

/// A key: two words. The first, the tag, is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableKey {
    /// Not 0.
    pub tag: u64,
    /// The rest.
    pub rest: u64,
}

/// The value of a key. The second word is not 0 and less than 2^63.
pub type TableValue = [u64; 2];

/// Four words that share a cache line.
#[derive(Default)]
#[repr(align(32))]
struct TableSlot {
    tag: AtomicU64,
    rest: AtomicU64,
    value: [AtomicU64; 2],
}

impl TableSlot {
    /// The value, if the slot is published with this key; otherwise its tag.
    #[inline]
    fn read(&self, key: TableKey) -> Result<TableValue, u64> {
        // Acquire: pairs with the Release in `insert`; the other words, and words of the heap, are complete.
        let tag = self.tag.load(Ordering::Acquire);
        // Relaxed: ordered by the tag.
        if tag == key.tag && self.rest.load(Ordering::Relaxed) == key.rest {
            // Relaxed: ordered by the tag.
            return Ok([self.value[0].load(Ordering::Relaxed), self.value[1].load(Ordering::Relaxed)]);
        }
        Err(tag)
    }
}

/// See the [module page](self).
pub struct InsertOnlyTable {
    slots: SlotMemory,
    heap: Box<[AtomicU64]>,
    /// Written by each insert, so it keeps off the line that each search reads.
    used: Pad<Used>,
}

#[derive(Default)]
struct Used {
    slots: AtomicU64,
    words: AtomicU64,
}

impl InsertOnlyTable {
    /// A table of `slots` slots and a heap of `words` words.
    ///
    /// # Panics
    /// `slots` is not a power of two.
    pub fn new(slots: usize, words: usize) -> Self {
        assert!(slots.is_power_of_two(), "the number of slots, {slots}, is not a power of two");
        Self {
            slots: SlotMemory::new(slots),
            heap: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: Pad::default(),
        }
    }

    #[inline]
    fn slot(&self, hash: u32, further: usize) -> &TableSlot {
        // The length is a power of two, so this is in bounds.
        &self.slots[(hash as usize).wrapping_add(further) & (self.slots.len() - 1)]
    }

    /// The home slots, where most keys are.
    #[inline]
    pub fn home_slots(&self) -> HomeSlots<'_> {
        HomeSlots { slots: &self.slots }
    }

    /// The first value of `key` for which `holds` is true: for keys that are only a digest of what is searched. `hash` must be the same for
    /// every use of a key.
    #[inline]
    pub fn find(&self, hash: u32, key: TableKey, mut holds: impl FnMut(TableValue) -> bool) -> Option<TableValue> {
        for further in 0..PROBES.min(self.slots.len()) {
            match self.slot(hash, further).read(key) {
                Ok(value) if holds(value) => return Some(value),
                Err(0) => return None,
                _ => {}
            }
        }
        None
    }

    /// Makes `value` the value of `key`, which has none, and returns whether it did. It does not if all slots for the key are taken, or
    /// if another thread takes the same slot at the same time.
    ///
    /// # Panics
    /// The first word of the key or the second of the value is 0, or the latter is 2^63 or more.
    pub fn insert(&self, hash: u32, key: TableKey, value: TableValue) -> bool {
        assert!(key.tag != 0 && value[1] != 0 && value[1] < CLAIMED, "a key or value contains a reserved word");
        for further in 0..PROBES.min(self.slots.len()) {
            let slot = self.slot(hash, further);
            // Relaxed: an old tag only leads to a claim that fails.
            if slot.tag.load(Ordering::Relaxed) != 0 {
                continue;
            }
            // Relaxed: excludes other threads and orders nothing.
            if slot.value[1].compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                return false;
            }
            // Relaxed: published by the tag.
            slot.rest.store(key.rest, Ordering::Relaxed);
            slot.value[0].store(value[0], Ordering::Relaxed);
            slot.value[1].store(value[1], Ordering::Relaxed);
            // Release: pairs with the Acquire in `read`.
            slot.tag.store(key.tag, Ordering::Release);
            // Relaxed: a number for the decision to make a larger table.
            self.used.0.slots.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Stores words on the heap, for a value that will be inserted, and returns the index of the first. `None` if the heap is full.
    pub fn store(&self, words: impl ExactSizeIterator<Item = u64>) -> Option<u32> {
        let room = self.heap.len().min(u32::MAX as usize) as u64;
        // The length is foreign, and so may be false. The count of a full heap does not grow, and no call adds more than makes it full.
        // Otherwise the count could wrap, and words that are in use would be given out again.
        let many = (words.len() as u64).min(room + 1);
        if self.used_words() > room {
            return None;
        }
        // Relaxed: only divides the heap.
        let begin = self.used.0.words.fetch_add(many, Ordering::Relaxed);
        let end = Some(begin + many).filter(|&end| end <= room)?;
        for (word, value) in self.heap[begin as usize..end as usize].iter().zip(words) {
            // Relaxed: published by the tag of the slot that will refer to it.
            word.store(value, Ordering::Relaxed);
        }
        Some(begin as u32)
    }

    /// Words of the heap: what was stored, if a value that was found refers to them.
    ///
    /// # Panics
    /// The heap has fewer words.
    #[inline]
    pub fn words(&self, begin: u32, count: usize) -> impl ExactSizeIterator<Item = u64> + '_ {
        // Relaxed: ordered by the tag of the slot that refers to them.
        self.heap[begin as usize..][..count].iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Number of published slots; outdated if other threads insert.
    pub fn used(&self) -> usize {
        // Relaxed: a number for decisions.
        self.used.0.slots.load(Ordering::Relaxed) as usize
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Number of words reserved on the heap, which may be more than it has.
    pub fn used_words(&self) -> u64 {
        // Relaxed: a number for decisions.
        self.used.0.words.load(Ordering::Relaxed)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val::<[_]>(&*self.slots) + size_of_val::<[_]>(&self.heap)
    }

    /// The keys that are published, with their values, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (TableKey, TableValue)> {
        self.slots.iter().filter_map(|slot| {
            // Acquire: pairs with the Release in `insert`; the other words are complete.
            let tag = slot.tag.load(Ordering::Acquire);
            // Relaxed: ordered by the tag.
            let rest = slot.rest.load(Ordering::Relaxed);
            let value = [slot.value[0].load(Ordering::Relaxed), slot.value[1].load(Ordering::Relaxed)];
            (tag != 0).then_some((TableKey { tag, rest }, value))
        })
    }
}

/// The slots of an [`InsertOnlyTable`] as the homes of keys: a reader that a loop keeps in registers.
#[derive(Clone, Copy)]
pub struct HomeSlots<'a> {
    slots: &'a [TableSlot],
}

impl HomeSlots<'_> {
    #[inline(always)]
    fn slot(&self, hash: u32) -> &TableSlot {
        // The length is a power of two, so this is in bounds.
        &self.slots[hash as usize & (self.slots.len() - 1)]
    }

    /// Asks the CPU to load the home slot of a hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        machine::prefetch(self.slot(hash));
    }

    /// The value of `key` if it is in its home slot. `hash` must be the same for every use of a key.
    #[inline(always)]
    pub fn find(&self, hash: u32, key: TableKey) -> Option<TableValue> {
        self.slot(hash).read(key).ok()
    }
}

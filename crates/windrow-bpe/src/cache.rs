//! What the merges make of pieces that were seen before, shared by all threads.
//!
//! A piece of 15 bytes or fewer is its own key. Longer ones are found by a digest, and compared with the bytes that the heap of the table
//! holds. A table that has become too full is replaced by one of twice the size, while threads go on with the former until their next
//! window. The memory of the largest table is bounded; a full one learns nothing more.

use std::sync::{Arc, Mutex, PoisonError};

use windrow_sync::table::{InsertOnlyTable, TableKey, TableValue};

use crate::model::hash_bytes;
use crate::simd::InstructionSet;

/// Maximum length of a piece that is its own key.
pub(crate) const KEY_BYTES: usize = 15;

/// Longer pieces are not remembered.
const LONGEST: usize = 1024;

/// Ids that fit into a slot.
pub(crate) const INLINE: u32 = 3;

/// The last byte of the tag of a long piece; a short one has its length there.
pub(crate) const LONG: u64 = 0xff << 56;

/// In the upper half of the second value word, above the number of ids: they are on the heap.
const ON_HEAP: u32 = 1 << 30;

/// The tag that goes with the upper word of a short piece.
#[inline(always)]
pub(crate) fn short_tag(upper: u64, len: usize) -> u64 {
    upper | (len as u64) << 56
}

/// The key of a short piece.
fn short_key(piece: &[u8]) -> TableKey {
    let mut bytes = [0; 16];
    bytes[..piece.len()].copy_from_slice(piece);
    let word = u128::from_le_bytes(bytes);
    TableKey { tag: short_tag((word >> 64) as u64, piece.len()), rest: word as u64 }
}

fn long_key(piece: &[u8]) -> TableKey {
    TableKey { tag: LONG | piece.len() as u64, rest: hash_bytes(piece) }
}

/// The ids of an entry.
pub(crate) enum Found<'t> {
    /// They are in the slot.
    Inline([u32; INLINE as usize], usize),
    /// They are on the heap, from this word on.
    OnHeap(&'t InsertOnlyTable, u32, usize),
}

impl Found<'_> {
    /// Writes the ids to the beginning of `out`, and returns their number.
    pub(crate) fn write(&self, out: &mut [u32]) -> usize {
        match *self {
            Self::Inline(ids, count) => {
                out[..count].copy_from_slice(&ids[..count]);
                count
            }
            Self::OnHeap(table, begin, count) => {
                for (at, out) in out[..count].iter_mut().enumerate() {
                    let word = table.word(begin + at as u32 / 2);
                    *out = (word >> (32 * (at % 2))) as u32;
                }
                count
            }
        }
    }
}

fn found(table: &InsertOnlyTable, value: TableValue, words_before: usize) -> Found<'_> {
    let meta = (value[1] >> 32) as u32;
    let count = (meta & !ON_HEAP) as usize;
    if meta & ON_HEAP == 0 {
        return Found::Inline([value[0] as u32, (value[0] >> 32) as u32, value[1] as u32], count);
    }
    Found::OnHeap(table, value[0] as u32 + words_before as u32, count)
}

/// The entry of a short piece, which may be in any of its slots.
pub(crate) fn find_short(table: &InsertOnlyTable, hash: u32, key: TableKey) -> Option<Found<'_>> {
    Some(found(table, table.find(hash, key)?, 0))
}

/// The bytes of a piece as words, the last one with zeros.
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// An exact-size chain of two iterators.
struct Both<A, B>(A, B);

impl<A: ExactSizeIterator<Item = u64>, B: ExactSizeIterator<Item = u64>> Iterator for Both<A, B> {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.0.next().or_else(|| self.1.next())
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.0.len() + self.1.len();
        (len, Some(len))
    }
}

impl<A: ExactSizeIterator<Item = u64>, B: ExactSizeIterator<Item = u64>> ExactSizeIterator for Both<A, B> {}

/// Pairs of ids as words.
fn packed(ids: &[u32]) -> impl ExactSizeIterator<Item = u64> {
    ids.chunks(2).map(|pair| u64::from(pair[0]) | pair.get(1).map_or(0, |&second| u64::from(second) << 32))
}

/// The tables of an engine.
pub(crate) struct Cache {
    set: InstructionSet,
    table: Mutex<Arc<InsertOnlyTable>>,
    /// Held by the thread that makes a larger table.
    growing: Mutex<()>,
    max_bytes: usize,
}

/// Words of the heap for each slot, inverted.
const SLOTS_PER_WORD: usize = 2;

/// A table with more used slots, as a part of all, is too full: keys are found in their home slots less often.
const FULL: (usize, usize) = (5, 8);

fn bytes_of(slots: usize) -> usize {
    slots * 32 + slots / SLOTS_PER_WORD * 8
}

impl Cache {
    /// `slots` is rounded up to a power of two.
    pub(crate) fn new(set: InstructionSet, slots: usize, max_bytes: usize) -> Self {
        let mut slots = slots.next_power_of_two().max(1 << 10);
        while bytes_of(slots) > max_bytes && slots > 1 << 10 {
            slots /= 2;
        }
        let table = Arc::new(InsertOnlyTable::new(slots, slots / SLOTS_PER_WORD));
        Self { set, table: Mutex::new(table), growing: Mutex::new(()), max_bytes }
    }

    /// The current table.
    pub(crate) fn table(&self) -> Arc<InsertOnlyTable> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hash(&self, key: TableKey) -> u32 {
        self.set.hash([key.rest, key.tag])
    }

    /// The entry of a long piece.
    pub(crate) fn find_long<'t>(&self, table: &'t InsertOnlyTable, piece: &[u8]) -> Option<Found<'t>> {
        if piece.len() > LONGEST {
            return None;
        }
        let key = long_key(piece);
        let is_same = |value: TableValue| (value[0] as u32..).zip(words(piece)).all(|(at, word)| table.word(at) == word);
        let value = table.find_where(self.hash(key), key, is_same)?;
        Some(found(table, value, piece.len().div_ceil(8)))
    }

    /// Remembers the ids of a piece, if there is room.
    pub(crate) fn learn(&self, table: &InsertOnlyTable, piece: &[u8], ids: &[u32]) {
        if is_full(table) || piece.len() > LONGEST {
            return;
        }
        let count = ids.len() as u32;
        if piece.len() > KEY_BYTES {
            let key = long_key(piece);
            if let Some(at) = table.store(Both(words(piece), packed(ids))) {
                table.insert(self.hash(key), key, [u64::from(at), u64::from(count | ON_HEAP) << 32]);
            }
            return;
        }
        let value = match *ids {
            [first] => [first.into(), u64::from(count) << 32],
            [first, second] => [u64::from(first) | u64::from(second) << 32, u64::from(count) << 32],
            [first, second, third] => {
                [u64::from(first) | u64::from(second) << 32, u64::from(third) | u64::from(count) << 32]
            }
            _ => match table.store(packed(ids)) {
                Some(at) => [u64::from(at), u64::from(count | ON_HEAP) << 32],
                None => return,
            },
        };
        let key = short_key(piece);
        table.insert(self.hash(key), key, value);
    }

    /// Replaces `table` by a larger one if it is too full, is the current one, and memory allows. Returns whether there is a newer table.
    pub(crate) fn grow(&self, table: &Arc<InsertOnlyTable>) -> bool {
        if !is_full(table) {
            return false;
        }
        // One thread copies; the others go on.
        let Ok(_growing) = self.growing.try_lock() else { return false };
        if !Arc::ptr_eq(table, &self.table()) {
            return true;
        }
        let slots = 2 * table.capacity();
        if bytes_of(slots) > self.max_bytes {
            return false;
        }
        let larger = InsertOnlyTable::new(slots, slots / SLOTS_PER_WORD);
        for (key, value) in table.entries() {
            let meta = (value[1] >> 32) as u32;
            if meta & ON_HEAP == 0 {
                larger.insert(self.hash(key), key, value);
                continue;
            }
            let bytes = if key.tag >= LONG { (key.tag & !LONG) as usize } else { 0 };
            let words = bytes.div_ceil(8) + ((meta & !ON_HEAP) as usize).div_ceil(2);
            let begin = value[0] as u32;
            if let Some(at) = larger.store((0..words).map(|word| table.word(begin + word as u32))) {
                larger.insert(self.hash(key), key, [u64::from(at), value[1]]);
            }
        }
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(larger);
        true
    }
}

fn is_full(table: &InsertOnlyTable) -> bool {
    table.used() * FULL.1 >= table.capacity() * FULL.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(found: Found<'_>) -> Vec<u32> {
        let mut out = vec![0; 2000];
        let count = found.write(&mut out);
        out.truncate(count);
        out
    }

    fn entry(cache: &Cache, piece: &[u8]) -> Option<Vec<u32>> {
        let table = cache.table();
        let found = if piece.len() > KEY_BYTES {
            cache.find_long(&table, piece)
        } else {
            let key = short_key(piece);
            find_short(&table, cache.hash(key), key)
        };
        found.map(ids)
    }

    #[test]
    fn pieces_of_any_length_are_remembered_also_in_a_larger_table() {
        let cache = Cache::new(InstructionSet::available()[0], 1, bytes_of(1 << 12));
        let piece = |number: u32| -> Vec<u8> { number.to_string().bytes().cycle().take(1 + number as usize % 40).collect() };
        let value = |number: u32| -> Vec<u32> { (0..=number % 7).map(|at| number + at).collect() };
        let mut numbers: Vec<u32> = (1000..1500).collect();
        let mut seen = std::collections::HashSet::new();
        numbers.retain(|&number| seen.insert(piece(number)));
        for &number in &numbers {
            cache.learn(&cache.table(), &piece(number), &value(number));
        }
        let known = || numbers.iter().filter(|&&number| entry(&cache, &piece(number)).is_some()).count();
        let before = known();
        let check = || {
            for &number in &numbers {
                assert!(entry(&cache, &piece(number)).is_none_or(|ids| ids == value(number)), "{number}");
            }
        };
        check();
        let old = cache.table();
        for number in 0..5000_u32 {
            cache.learn(&old, &number.to_le_bytes(), &[number]);
        }
        assert!(cache.grow(&old), "it is full");
        assert!(cache.table().capacity() == 2 * old.capacity());
        assert!(cache.grow(&old), "there is a newer one");
        assert!(known() >= before * 9 / 10, "a larger table forgot");
        check();
    }

    #[test]
    fn memory_is_bounded() {
        let cache = Cache::new(InstructionSet::available()[0], 1 << 20, 1 << 20);
        assert!(cache.table().bytes() <= 1 << 20);
        let table = cache.table();
        for number in 0..100_000_u64 {
            cache.learn(&table, &number.to_le_bytes(), &[1, 2, 3, 4]);
        }
        assert!(!cache.grow(&table));
        assert_eq!(entry(&cache, &1_u64.to_le_bytes()), Some(vec![1, 2, 3, 4]));
        assert_eq!(entry(&cache, &vec![b'a'; LONGEST + 1]), None);
    }
}

//! What the merges make of pieces that were seen before, shared by all threads.
//!
//! A piece of 15 bytes or fewer is its own key. Longer ones are found by a digest, and compared with the bytes that the heap of the table
//! holds. A table that has become too full is replaced by one of twice the size, while threads go on with the former until their next
//! window. The memory of the largest table is bounded; a full one learns nothing more.

use std::sync::{Arc, Mutex};

use windrow_table::table::{InsertOnlyTable, TableKey, TableValue};

use crate::memory::lock_briefly;
use crate::simd::InstructionSet;
use crate::vocabulary::hash_bytes;

/// Maximum length of a piece that is its own key.
pub(crate) const KEY_BYTES: usize = 15;

/// Longer pieces are not remembered.
pub(crate) const LONGEST: usize = 8192;

/// Ids that fit into a slot.
pub(crate) const INLINE: u32 = 3;

/// The last byte of the tag of a long piece; a short one has its length there.
const LONG: u64 = 0xff << 56;

/// In the tag of a marked piece: a part of another, which is no token by itself where merges are ignored, or the beginning of a text.
const MARK: u64 = 0x40 << 56;
const LONG_MARK: u64 = 1 << 55;

/// In the upper half of the second value word, above the number of ids: they are on the heap.
const ON_HEAP: u32 = 1 << 30;

/// The key of a piece of [`KEY_BYTES`] or fewer, of which `words` are the bytes followed by zeros.
#[inline(always)]
pub(crate) fn short_key(words: [u64; 2], len: usize) -> TableKey {
    TableKey { tag: words[1] | (len as u64) << 56, rest: words[0] }
}

/// The key of a longer piece, which is only a digest.
#[inline]
pub(crate) fn long_key(piece: &[u8]) -> TableKey {
    TableKey { tag: LONG | piece.len() as u64, rest: hash_bytes(piece) }
}

/// The key of the same piece with a mark.
#[inline]
pub(crate) fn marked_key(key: TableKey) -> TableKey {
    TableKey { tag: key.tag | if is_long(key) { LONG_MARK } else { MARK }, ..key }
}

/// True if a key is that of a marked piece.
pub(crate) fn is_marked(key: TableKey) -> bool {
    key.tag & if is_long(key) { LONG_MARK } else { MARK } != 0
}

/// The bytes of a short piece, followed by zeros, and their number.
pub(crate) fn short_piece(key: TableKey) -> ([u8; 16], usize) {
    let bytes = (u128::from(key.tag) << 64 | u128::from(key.rest)).to_le_bytes();
    (bytes, usize::from(bytes[KEY_BYTES] & 0xf))
}

/// Whether a key is that of a long piece.
#[inline(always)]
pub(crate) fn is_long(key: TableKey) -> bool {
    key.tag >= LONG
}

/// The number of ids of an entry, if they are in its slot.
#[inline(always)]
pub(crate) fn inline_count(value: TableValue) -> Option<usize> {
    let meta = (value[1] >> 32) as u32;
    (meta <= INLINE).then_some(meta as usize)
}

/// Writes the ids of an entry to the beginning of `out`, which is longer than them, and returns their number. `piece` is the long piece
/// that was searched; `None` if the entry is that of another with the same digest.
#[inline]
pub(crate) fn write(
    table: &InsertOnlyTable,
    value: TableValue,
    piece: Option<&[u8]>,
    out: &mut [u32],
) -> Option<usize> {
    let meta = (value[1] >> 32) as u32;
    if meta <= INLINE {
        let ids = [value[0] as u32, (value[0] >> 32) as u32, value[1] as u32];
        out[..INLINE as usize].copy_from_slice(&ids);
        return Some(meta as usize);
    }
    let (count, mut begin) = ((meta & !ON_HEAP) as usize, value[0] as u32);
    if let Some(piece) = piece {
        let len = piece.len().div_ceil(8);
        if !table.words(begin, len).eq(words(piece)) {
            return None;
        }
        begin += len as u32;
    }
    for (pair, ids) in out[..count + 1].chunks_exact_mut(2).zip(table.words(begin, count.div_ceil(2))) {
        pair[0] = ids as u32;
        pair[1] = (ids >> 32) as u32;
    }
    Some(count)
}

/// The bytes of a piece as words, the last one with zeros.
#[inline]
fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u64> {
    let (all, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let (last, len) = (u64::from_le_bytes(last), bytes.len().div_ceil(8));
    (0..len).map(move |at| all.get(at).map_or(last, |word| u64::from_le_bytes(*word)))
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

/// Slots of the smallest table.
const FEWEST_SLOTS: usize = 1 << 10;

/// A table with more used slots, as a part of all, has too few: keys are found in their home slots less often.
const FULL: (usize, usize) = (5, 8);

fn bytes_of(slots: usize) -> usize {
    slots * 32 + slots / SLOTS_PER_WORD * 8
}

impl Cache {
    /// `slots` is rounded up to a power of two.
    pub(crate) fn new(set: InstructionSet, slots: usize, max_bytes: usize) -> Self {
        let mut slots = slots.next_power_of_two().max(FEWEST_SLOTS);
        while bytes_of(slots) > max_bytes && slots > FEWEST_SLOTS {
            slots /= 2;
        }
        let table = Arc::new(InsertOnlyTable::new(slots, slots / SLOTS_PER_WORD));
        Self { set, table: Mutex::new(table), growing: Mutex::new(()), max_bytes }
    }

    /// The current table; `None` if its lock is lost or busy.
    pub(crate) fn table(&self) -> Option<Arc<InsertOnlyTable>> {
        lock_briefly(&self.table).map(|table| Arc::clone(&table))
    }

    /// A table that knows nothing, for a thread that gets no other.
    pub(crate) fn empty_table() -> Arc<InsertOnlyTable> {
        Arc::new(InsertOnlyTable::new(FEWEST_SLOTS, FEWEST_SLOTS / SLOTS_PER_WORD))
    }

    fn hash(&self, key: TableKey) -> u32 {
        self.set.hash([key.rest, key.tag])
    }

    /// Writes the ids of a piece to the beginning of `out`, if the table has them in any slot. `piece` is the piece if it is long.
    pub(crate) fn find(
        &self,
        table: &InsertOnlyTable,
        key: TableKey,
        hash: u32,
        piece: Option<&[u8]>,
        out: &mut [u32],
    ) -> Option<usize> {
        let mut count = None;
        table.find(hash, key, |value| {
            count = write(table, value, piece, out);
            count.is_some()
        });
        count
    }

    /// Remembers the ids of a piece, if there is room. `long` is the piece if it is long.
    pub(crate) fn learn(&self, table: &InsertOnlyTable, key: TableKey, long: Option<&[u8]>, ids: &[u32]) {
        if has_few_slots(table) {
            return;
        }
        let meta = |count: u32| u64::from(count) << 32;
        let count = ids.len() as u32;
        let value = match (long, ids) {
            (None, &[first]) => [first.into(), meta(count)],
            (None, &[first, second]) => [u64::from(first) | u64::from(second) << 32, meta(count)],
            (None, &[first, second, third]) => {
                [u64::from(first) | u64::from(second) << 32, u64::from(third) | meta(count)]
            }
            _ => match table.store(Both(words(long.unwrap_or_default()), packed(ids))) {
                Some(at) => [u64::from(at), meta(count | ON_HEAP)],
                None => return,
            },
        };
        table.insert(self.hash(key), key, value);
    }

    /// Replaces `table` by a larger one if its slots or its heap are too full, it is the current one, and memory allows. Returns whether
    /// there is a newer table.
    pub(crate) fn grow(&self, table: &Arc<InsertOnlyTable>) -> bool {
        // A heap that could not store something has more words reserved than it has.
        if !has_few_slots(table) && table.used_words() <= (table.capacity() / SLOTS_PER_WORD) as u64 {
            return false;
        }
        // One thread copies; the others go on.
        let Ok(_growing) = self.growing.try_lock() else { return false };
        match self.table() {
            None => return false,
            Some(current) if !Arc::ptr_eq(table, &current) => return true,
            Some(_) => {}
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
            let bytes = if is_long(key) { (key.tag & !(LONG | LONG_MARK)) as usize } else { 0 };
            let words = bytes.div_ceil(8) + ((meta & !ON_HEAP) as usize).div_ceil(2);
            let begin = value[0] as u32;
            if let Some(at) = larger.store(table.words(begin, words)) {
                larger.insert(self.hash(key), key, [u64::from(at), value[1]]);
            }
        }
        let Some(mut current) = lock_briefly(&self.table) else { return false };
        // The former one is freed without the lock, if no other thread uses it.
        let former = std::mem::replace(&mut *current, Arc::new(larger));
        drop(current);
        drop(former);
        true
    }
}

fn has_few_slots(table: &InsertOnlyTable) -> bool {
    table.used() * FULL.1 >= table.capacity() * FULL.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of a piece.
    fn key_of(piece: &[u8]) -> TableKey {
        if piece.len() > KEY_BYTES {
            return long_key(piece);
        }
        let mut bytes = [0; 16];
        bytes[..piece.len()].copy_from_slice(piece);
        let word = u128::from_le_bytes(bytes);
        short_key([word as u64, (word >> 64) as u64], piece.len())
    }

    impl Cache {
        /// [`learn`](Self::learn) a piece without a mark.
        pub(crate) fn learn_piece(&self, table: &InsertOnlyTable, piece: &[u8], ids: &[u32]) {
            self.learn(table, key_of(piece), (piece.len() > KEY_BYTES).then_some(piece), ids);
        }
    }

    fn entry(cache: &Cache, piece: &[u8]) -> Option<Vec<u32>> {
        let (key, mut out) = (key_of(piece), vec![0; 2000]);
        let long = (piece.len() > KEY_BYTES).then_some(piece);
        let count = cache.find(&cache.table().unwrap(), key, cache.hash(key), long, &mut out)?;
        out.truncate(count);
        Some(out)
    }

    #[test]
    fn pieces_of_any_length_are_remembered_also_in_a_larger_table() {
        let cache = Cache::new(InstructionSet::available()[0], 1, bytes_of(1 << 12));
        let piece =
            |number: u32| -> Vec<u8> { number.to_string().bytes().cycle().take(1 + number as usize % 40).collect() };
        let value = |number: u32| -> Vec<u32> { (0..=number % 7).map(|at| number + at).collect() };
        let mut numbers: Vec<u32> = (1000..1500).collect();
        let mut seen = std::collections::HashSet::new();
        numbers.retain(|&number| seen.insert(piece(number)));
        for &number in &numbers {
            cache.learn_piece(&cache.table().unwrap(), &piece(number), &value(number));
        }
        let known = || numbers.iter().filter(|&&number| entry(&cache, &piece(number)).is_some()).count();
        let before = known();
        let check = || {
            for &number in &numbers {
                assert!(entry(&cache, &piece(number)).is_none_or(|ids| ids == value(number)), "{number}");
            }
        };
        check();
        let old = cache.table().unwrap();
        for number in 0..5000_u32 {
            cache.learn_piece(&old, &number.to_le_bytes(), &[number]);
        }
        assert!(cache.grow(&old), "it is full");
        assert!(cache.table().unwrap().capacity() == 2 * old.capacity());
        assert!(cache.grow(&old), "there is a newer one");
        assert!(known() >= before * 9 / 10, "a larger table forgot");
        check();
    }

    #[test]
    fn a_heap_that_is_full_makes_a_larger_table() {
        let cache = Cache::new(InstructionSet::available()[0], 1, bytes_of(1 << 14));
        let piece = |number: u32| format!("{number:040}").into_bytes();
        // Six words each: the heaps of the smaller tables are full long before their slots are.
        for number in 0..1000_u32 {
            let table = cache.table().unwrap();
            cache.learn_piece(&table, &piece(number), &[number, 1]);
            if cache.grow(&table) {
                assert!(!has_few_slots(&table), "{} of {} slots", table.used(), table.capacity());
                cache.learn_piece(&cache.table().unwrap(), &piece(number), &[number, 1]);
            }
        }
        let known = (0..1000).filter(|&number| entry(&cache, &piece(number)) == Some(vec![number, 1])).count();
        assert!(known >= 990, "{known} of 1000");
        // At the bound, short pieces still find slots.
        let table = cache.table().unwrap();
        while table.used_words() <= (table.capacity() / SLOTS_PER_WORD) as u64 {
            cache.learn_piece(&table, &piece(1_000_000 + table.used() as u32), &[1]);
        }
        assert!(!cache.grow(&table), "memory does not allow it");
        cache.learn_piece(&table, b"short", &[7]);
        assert_eq!(entry(&cache, b"short"), Some(vec![7]));
    }

    #[test]
    fn a_marked_piece_has_another_key() {
        for piece in [&b"ab"[..], &[b'x'; KEY_BYTES], &[b'x'; KEY_BYTES + 1], &[b'x'; LONGEST]] {
            let (key, marked) = (key_of(piece), marked_key(key_of(piece)));
            assert!(key != marked && is_marked(marked) && !is_marked(key), "{key:?}");
            assert_eq!((is_long(key), is_long(marked)), (piece.len() > KEY_BYTES, piece.len() > KEY_BYTES));
            if !is_long(key) {
                assert_eq!(short_piece(key), short_piece(TableKey { tag: marked.tag & !MARK, ..marked }));
                assert_eq!(&short_piece(marked).0[..short_piece(marked).1], piece);
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let cache = Cache::new(InstructionSet::available()[0], 1 << 20, 1 << 20);
        assert!(cache.table().unwrap().bytes() <= 1 << 20);
        let table = cache.table().unwrap();
        for number in 0..100_000_u64 {
            cache.learn_piece(&table, &number.to_le_bytes(), &[1, 2, 3, 4]);
        }
        assert!(!cache.grow(&table));
        assert_eq!(entry(&cache, &1_u64.to_le_bytes()), Some(vec![1, 2, 3, 4]));
    }
}

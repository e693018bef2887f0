//! A set that several threads change at once.
//!
//! The keys are divided into ranges, each a set under a lock. A caller sorts its operations by range before it takes a lock.
//! Different threads begin with different ranges. A range that another caller holds is left for later, so callers wait for each other only if nothing
//! else is left to do.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use super::ops::{Ops, SetOp, Verb, of_set};
use super::separators::{Border, Separators};
use super::set::OrderedSet;
use crate::keys::Key;

/// Ranges for each CPU. Of 100,000 random inserts into 1,000,000 keys by two threads in chunks of 127, each takes 69 ns with 2 ranges,
/// 49 ns with 4, 47 ns with 8, and 51 ns with 16.
///
/// Measure: count of ranges.
const RANGES: usize = 4;

/// A single range with fewer keys is not divided.
///
/// Measure: count of keys.
const FEW: usize = 1 << 12;

/// Operations that are sorted by range at once. A lock is held for a fraction of them.
///
/// Measure: count of operations.
const PIECE: usize = 1 << 11;

/// An ordered set that several threads change at once, in chunks of operations.
///
/// It is for loops on several threads that hand in chunks of some dozens of operations and more. For one thread,
/// [`OrderedSet`] is as fast; for callers with single operations, a [`Batched`](windrow::batch::Batched) set batches them.
///
/// Each operation takes effect at a moment during the call, and the operations of a chunk on the same key in their order. A chunk is not
/// one step: others may see a part of it.
///
/// # Panics
/// If `Ord` or `Clone` of a key panics, the panic reaches the caller. The operations done so far stay done, and no key is lost.
///
/// ```
/// use windrow_collections::{SetOp, SharedSet};
///
/// let set = SharedSet::<u64>::new();
/// std::thread::scope(|scope| {
///     for thread in 0..2 {
///         let set = &set;
///         scope.spawn(move || {
///             let ops: Vec<_> = (0..100).map(|key| SetOp::Insert(2 * key + thread)).collect();
///             let mut new = vec![false; ops.len()];
///             set.apply(&ops, &mut new);
///             assert!(new.iter().all(|new| *new));
///         });
///     }
/// });
/// assert!(set.into_inner().into_iter().eq(0..200));
/// ```
pub struct SharedSet<K: Key> {
    table: RwLock<Table<K>>,
    /// The number of ranges to divide into.
    count: usize,
}

/// The ranges, in the order of their keys, which `top` divides.
struct Table<K: Key> {
    top: Separators<K>,
    ranges: Vec<Mutex<OrderedSet<K>>>,
    /// A range with more keys asks for a division.
    full: usize,
}

/// A lock; a panic of its last holder has left the set whole.
fn lock<K: Key>(range: &Mutex<OrderedSet<K>>) -> MutexGuard<'_, OrderedSet<K>> {
    range.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of this thread.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<Option<usize>> = const { Cell::new(None) });
    NUMBER.get().unwrap_or_else(|| {
        // Relaxed: only the number counts; it orders no other memory.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

impl<K: Key> SharedSet<K> {
    /// A set without keys, for as many threads as there are CPUs.
    pub fn new() -> Self {
        let set = OrderedSet::new();
        let count = RANGES * std::thread::available_parallelism().map_or(1, usize::from);
        let table = Table { top: Separators::new(), ranges: vec![Mutex::new(set)], full: FEW };
        SharedSet { table: RwLock::new(table), count }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.with(|table| table.ranges.iter().map(|range| lock(range).len()).sum())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the set contains `key`.
    pub fn contains(&self, key: &K) -> bool {
        self.with(|table| lock(table.range(key)).contains(key))
    }

    /// Inserts `key` and returns whether it is new.
    pub fn insert(&self, key: K) -> bool {
        let (new, is_full) = self.with(|table| {
            let mut range = lock(table.range(&key));
            (range.insert(key), range.len() > table.full)
        });
        if is_full {
            self.divide();
        }
        new
    }

    /// Removes `key` and returns whether it was present.
    pub fn remove(&self, key: &K) -> bool {
        self.with(|table| lock(table.range(key)).remove(key))
    }

    /// All keys.
    pub fn into_inner(self) -> OrderedSet<K> {
        let mut table = self.table.into_inner().unwrap_or_else(PoisonError::into_inner);
        table.join();
        let first = table.ranges.swap_remove(0);
        // Before the set is returned, which would leak if this panicked.
        drop(table);
        first.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, f: impl FnOnce(&Table<K>) -> R) -> R {
        f(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Divides the keys into ranges of equal size.
    #[cold]
    fn divide(&self) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let full = table.full;
        // Another caller may have divided them meanwhile.
        if table.ranges.iter_mut().any(|range| range.get_mut().unwrap_or_else(PoisonError::into_inner).len() > full) {
            table.join();
            table.divide(self.count);
        }
    }

    /// Checks every invariant of the structure by reading all keys; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.with(|table| {
            if table.top.count() + 1 != table.ranges.len() || !table.top.is_filled() {
                return Err("borders and ranges do not match".to_owned());
            }
            for (at, range) in table.ranges.iter().enumerate() {
                let range = lock(range);
                range.check().map_err(|what| format!("range {at}: {what}"))?;
                if range.iter().any(|key| table.top.slot(key.prefix(), key) != at) {
                    return Err("a key is not where a search looks".to_owned());
                }
            }
            Ok(())
        })
    }
}

impl<K: Key<Column: Send> + Send + Sync> SharedSet<K> {
    /// Applies a chunk of operations. For an insert, the result says whether the key is new; for other operations, whether it was
    /// present.
    ///
    /// # Panics
    /// If `ops` and `results` differ in length.
    pub fn apply(&self, ops: &[SetOp<K>], results: &mut [bool]) {
        assert_eq!(ops.len(), results.len(), "one result per operation");
        for (ops, results) in ops.chunks(PIECE).zip(results.chunks_mut(PIECE)) {
            if self.with(|table| table.apply(ops, results)) {
                self.divide();
            }
        }
    }
}

impl<K: Key> Table<K> {
    fn range(&self, key: &K) -> &Mutex<OrderedSet<K>> {
        &self.ranges[self.top.slot(key.prefix(), key)]
    }

    /// Makes one range of all; between two steps, and if a clone panics, the table is whole.
    fn join(&mut self) {
        while let [.., before, last] = &mut self.ranges[..] {
            let before = before.get_mut().unwrap_or_else(PoisonError::into_inner);
            before.map.append_above(&mut last.get_mut().unwrap_or_else(PoisonError::into_inner).map);
            self.ranges.pop();
            self.top.remove(self.top.count() - 1);
        }
    }

    /// Divides the one range into `count`; between two steps, and if a clone or a comparison panics, the table is whole.
    fn divide(&mut self, count: usize) {
        let keys = self.ranges[0].get_mut().unwrap_or_else(PoisonError::into_inner).len();
        // Before the division: after a panic, the next one waits until there are twice as many keys.
        self.full = (2 * keys).max(FEW);
        if keys < FEW {
            return;
        }
        for part in (1..count).rev() {
            let set = self.ranges[0].get_mut().unwrap_or_else(PoisonError::into_inner);
            let Some(key) = set.map.nth_key(keys * part / count) else { continue };
            let (border, key) = (Border::of(key), key.clone());
            let tail = set.split_off(&key);
            self.top.insert(0, border);
            self.ranges.insert(1, Mutex::new(tail));
        }
        self.full = (2 * keys / count).max(FEW);
    }
}

impl<K: Key<Column: Send> + Send + Sync> Table<K> {
    /// Applies operations, range by range. Returns whether a range has become full.
    fn apply(&self, ops: &[SetOp<K>], results: &mut [bool]) -> bool {
        let count = self.ranges.len();
        // A stable counting sort: `ends[range + 1]` counts the operations of a range, then holds their start, and in the end their end.
        let mut ends = vec![0_u32; count + 1];
        let of = |op: &SetOp<K>| self.top.slot(op.key().prefix(), op.key()) as u32;
        let ranges: Vec<u32> = ops.iter().map(of).inspect(|range| ends[*range as usize + 1] += 1).collect();
        let mut begin = 0;
        for end in &mut ends {
            begin += *end;
            *end = begin;
        }
        let mut order = vec![0_u32; ops.len()];
        for (range, at) in ranges.iter().zip(0..) {
            let end = &mut ends[*range as usize];
            order[*end as usize] = at;
            *end += 1;
        }
        let part = |range: usize| {
            let start = if range == 0 { 0 } else { ends[range - 1] as usize };
            &order[start..ends[range] as usize]
        };
        // Threads begin far from each other: at multiples of the golden ratio.
        let share = u64::from((number() as u32).wrapping_mul(0x9E37_79B9));
        let first = ((share * count as u64) >> 32) as usize;
        let mut left: Vec<usize> =
            (first..first + count).map(|range| range % count).filter(|range| !part(*range).is_empty()).collect();
        let mut is_full = false;
        while let Some(next) = left.first() {
            // Only if all ranges that are left are in use, the caller waits for one.
            let mut waits = true;
            let next = *next;
            let mut work = |range: usize, mut set: MutexGuard<'_, OrderedSet<K>>| {
                set.map.run_all(&mut Picked { ops, at: part(range), results });
                is_full |= set.len() > self.full;
            };
            left.retain(|range| {
                match self.ranges[*range].try_lock() {
                    Err(TryLockError::WouldBlock) => return true,
                    Err(TryLockError::Poisoned(set)) => work(*range, set.into_inner()),
                    Ok(set) => work(*range, set),
                }
                waits = false;
                false
            });
            if waits {
                work(next, lock(&self.ranges[next]));
                left.remove(0);
            }
        }
        is_full
    }
}

/// The operations of one range, borrowed in place.
struct Picked<'a, K> {
    ops: &'a [SetOp<K>],
    at: &'a [u32],
    results: &'a mut [bool],
}

impl<K: Key> Ops<K, ()> for Picked<'_, K> {
    fn count(&self) -> usize {
        self.at.len()
    }

    #[inline]
    fn verb(&self, at: usize) -> Verb {
        self.ops[self.at[at] as usize].verb()
    }

    #[inline]
    fn key(&self, at: usize) -> &K {
        self.ops[self.at[at] as usize].key()
    }

    #[inline]
    fn take(&mut self, at: usize) -> (K, ()) {
        (self.take_key(at), ())
    }

    #[inline]
    fn take_key(&mut self, at: usize) -> K {
        self.key(at).clone()
    }

    #[inline]
    fn take_value(&mut self, _: usize) {}

    #[inline]
    fn answer(&mut self, at: usize, verb: Verb, old: Option<()>) {
        self.results[self.at[at] as usize] = of_set(verb, old);
    }
}

impl<K: Key> Default for SharedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Divides the keys among ranges.
impl<K: Key> From<OrderedSet<K>> for SharedSet<K> {
    fn from(set: OrderedSet<K>) -> Self {
        let mut shared = Self::new();
        let table = shared.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.ranges = vec![Mutex::new(set)];
        table.divide(shared.count);
        shared
    }
}

impl<K: Key> FromIterator<K> for SharedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        OrderedSet::from_iter(keys).into()
    }
}

impl<K: Key> fmt::Debug for SharedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

//! The map: a sorted list of shards, and the single operations.

use std::borrow::Borrow;
use std::mem;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use windrow::batch::Entry;

use super::ops::{MapOp, value_of};
use super::part::Part;
use super::separators::Separators;
use super::shard::{Ends, FEW_LEAVES, MOST_LEAVES, Shard};
use super::update::Update;
use crate::keys::{Key, Prefix};

/// A sorted map whose operations are cheaper in batches.
///
/// Keys are in sorted leaves of up to 62; leaves are in shards of about a thousand. Single operations do what those of [`BTreeMap`]
/// do, and are faster for most keys: the [crate](crate) names exceptions. The map is made for [`apply`](Self::apply): see the [crate](crate)
/// for when that pays. Inside of [`Batched`](windrow::batch::Batched) its operations are [`MapOp`]s.
///
/// # Panics
/// If `Ord` or `Clone` of a key panics, the panic reaches the caller. The operation has then changed nothing, also within a batch:
/// keys are compared and cloned before anything changes.
///
/// ```
/// use windrow_collections::OrderedMap;
///
/// let mut map = OrderedMap::new();
/// assert_eq!(map.insert(3_u64, "three"), None);
/// assert_eq!(map.insert(3, "drei"), Some("three"));
/// assert_eq!(map.get(&3), Some(&"drei"));
/// assert_eq!(map.remove(&3), Some("drei"));
/// ```
///
/// [`BTreeMap`]: std::collections::BTreeMap
pub struct OrderedMap<K: Key, V> {
    pub(super) top: Separators<K>,
    /// One or more. If there are several, none is empty.
    pub(super) shards: Vec<Shard<K, V>>,
    pub(super) len: usize,
    /// Counts how often shards changed their positions.
    pub(super) moves: u32,
    /// Whether the last key that was inserted alone was above all others.
    ascends: bool,
    /// Locked by `&mut` only: the mutex lets threads share the map, which a buffer of functions would not.
    pub(super) scratch: Mutex<Scratch<K, V>>,
}

/// Where a key is, or belongs: a shard, the place of a leaf in it, and an index there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) shard: usize,
    pub(super) place: u32,
    pub(super) at: usize,
}

/// Buffers that batches reuse.
pub(super) struct Scratch<K: Key, V> {
    pub(super) ops: Vec<Entry<MapOp<K, V>, Option<V>>>,
    pub(super) parts: Vec<Part<K, V>>,
}

impl<K: Key, V> Default for Scratch<K, V> {
    fn default() -> Self {
        Scratch { ops: Vec::new(), parts: Vec::new() }
    }
}

impl<K: Key, V> OrderedMap<K, V> {
    /// A map without keys.
    pub fn new() -> Self {
        Self::of(Separators::new(), vec![Shard::new()])
    }

    /// A map of these shards, which `top` divides.
    pub(super) fn of(top: Separators<K>, shards: Vec<Shard<K, V>>) -> Self {
        let len = shards.iter().map(Shard::len).sum();
        OrderedMap { top, shards, len, moves: 0, ascends: false, scratch: Mutex::default() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all keys and frees their memory.
    pub fn clear(&mut self) {
        // Dropping keys may panic; the map is already empty then.
        drop(mem::take(self));
    }

    /// The value of `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The key that equals `key`, and its value.
    pub fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let word = key.prefix();
        let shard = &self.shards[self.top.slot(word, key)];
        let way = shard.way(word, key);
        let leaf = shard.leaf(way.place);
        leaf.find(word, key, way.known).ok().map(|at| leaf.get(at))
    }

    /// A mutable reference to the value of `key`.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let word = key.prefix();
        let shard = &mut self.shards[self.top.slot(word, key)];
        let way = shard.way(word, key);
        let leaf = shard.leaf_mut(way.place);
        leaf.find(word, key, way.known).ok().map(|at| leaf.value(at))
    }

    /// Whether the map contains `key`.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Gives `key` a value and returns the previous one. A key that is already present stays.
    ///
    /// Inserting keys in ascending order is cheap: a key that follows another one at the end of the map is not searched for.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let word = key.prefix();
        let (spot, is_found) = self.spot_to_insert(word, &key);
        if is_found {
            let old = mem::replace(self.value_at(spot), value);
            return Some(value_of((key, old)));
        }
        self.put(spot, word, key, value);
        None
    }

    /// Updates the value of `key`.
    pub(crate) fn update(&mut self, key: K, update: Update<V>) -> Option<V> {
        let word = key.prefix();
        let at = self.top.slot(word, &key);
        let ends = self.ends(at);
        let shard = &mut self.shards[at];
        let (place, found) = shard.find(word, &key);
        let (before, mut gone) = (shard.len(), None);
        let result = shard.update(place, found, ends, word, key, update, &mut gone);
        self.len = self.len - before + shard.len();
        self.look_after(at);
        // Before the result is returned, which would leak if this panicked.
        drop(gone);
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Removes `key` and returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.remove_entry(key).map(value_of)
    }

    /// Removes `key` and returns it with its value.
    pub fn remove_entry<Q>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let (spot, is_found) = self.spot(key.prefix(), key);
        is_found.then(|| self.take_out(spot))
    }

    /// Where `key` is, or belongs, and whether it is there.
    #[inline]
    pub(super) fn spot<Q>(&self, word: K::Word, key: &Q) -> (Spot, bool)
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let shard = self.top.slot(word, key);
        let (place, found) = self.shards[shard].find(word, key);
        let (Ok(at) | Err(at)) = found;
        (Spot { shard, place, at }, found.is_ok())
    }

    /// As [`spot`](Self::spot), for a key that will be inserted: tries the end of the map if the last such key belonged there.
    #[inline]
    pub(super) fn spot_to_insert(&mut self, word: K::Word, key: &K) -> (Spot, bool) {
        if self.ascends {
            if let Some(spot) = self.behind_all(word, key) {
                return (spot, false);
            }
            self.ascends = false;
        }
        let (spot, is_found) = self.spot(word, key);
        self.ascends = !is_found && spot.shard + 1 == self.shards.len() && {
            let last = &self.shards[spot.shard];
            spot.place == last.last_place() && spot.at == last.leaf(spot.place).len()
        };
        (spot, is_found)
    }

    /// Where `key` belongs if it is above all keys.
    #[inline]
    pub(super) fn behind_all(&self, word: K::Word, key: &K) -> Option<Spot> {
        let shard = self.shards.len() - 1;
        let place = self.shards[shard].last_place();
        let leaf = self.shards[shard].leaf(place);
        let at = leaf.len();
        let is_behind = at.checked_sub(1).is_none_or(|last| leaf.is_below(last, word, key));
        is_behind.then_some(Spot { shard, place, at })
    }

    /// A key that is present, and its value.
    #[inline]
    pub(super) fn at(&self, spot: Spot) -> (&K, &V) {
        self.shards[spot.shard].leaf(spot.place).get(spot.at)
    }

    /// The value of a key that is present.
    #[inline]
    pub(super) fn value_at(&mut self, spot: Spot) -> &mut V {
        self.shards[spot.shard].leaf_mut(spot.place).value(spot.at)
    }

    /// Inserts a key that is not present where it belongs. Returns where it is then.
    #[inline]
    pub(super) fn put(&mut self, spot: Spot, word: K::Word, key: K, value: V) -> Spot {
        let ends = self.ends(spot.shard);
        let shard = &mut self.shards[spot.shard];
        let (place, at) = shard.insert_at(spot.place, spot.at, ends, word, key, value);
        self.len += 1;
        let spot = Spot { shard: spot.shard, place, at };
        if self.shards[spot.shard].is_untidy() { self.tidy_around(spot) } else { spot }
    }

    /// Tidies the shard of a key that was inserted. Returns where the key is then.
    #[cold]
    fn tidy_around(&mut self, Spot { mut shard, place, at }: Spot) -> Spot {
        let mut slot = self.shards[shard].slot_at(place);
        self.tidy(shard);
        // After an insert, a shard has too many leaves or nothing to tidy: its parts follow each other.
        while slot >= self.shards[shard].slots() {
            slot -= self.shards[shard].slots();
            shard += 1;
        }
        Spot { shard, place: self.shards[shard].place_of(slot), at }
    }

    /// Removes a key.
    #[inline]
    pub(super) fn take_out(&mut self, spot: Spot) -> (K, V) {
        let (key, value, gone) = self.shards[spot.shard].remove_at(spot.place, spot.at);
        self.len -= 1;
        self.look_after(spot.shard);
        // As in `update`.
        drop(gone);
        (key, value)
    }

    /// Removes the smallest key and returns it with its value.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.first_spot().map(|spot| self.take_out(spot))
    }

    /// Removes the largest key and returns it with its value.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.last_spot().map(|spot| self.take_out(spot))
    }

    pub(super) fn first_spot(&self) -> Option<Spot> {
        (self.len > 0).then(|| Spot { shard: 0, place: self.shards[0].place_of(0), at: 0 })
    }

    pub(super) fn last_spot(&self) -> Option<Spot> {
        let shard = self.shards.len() - 1;
        let place = self.shards[shard].last_place();
        (self.len > 0).then(|| Spot { shard, place, at: self.shards[shard].leaf(place).len() - 1 })
    }

    /// The smallest key and its value.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        let leaf = self.shards[0].leaf_of(0);
        (leaf.len() > 0).then(|| leaf.get(0))
    }

    /// The largest key and its value.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        let shard = &self.shards[self.shards.len() - 1];
        let leaf = shard.leaf_of(shard.slots() - 1);
        leaf.len().checked_sub(1).map(|last| leaf.get(last))
    }

    /// The buffers of batches.
    #[inline]
    pub(super) fn scratch(&mut self) -> &mut Scratch<K, V> {
        self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a shard is the first and the last of the map.
    #[inline]
    pub(super) fn ends(&self, shard: usize) -> Ends {
        Ends { first: shard == 0, last: shard + 1 == self.shards.len() }
    }

    /// Tidies a shard if it needs that; called after every change of its keys.
    #[inline]
    pub(super) fn look_after(&mut self, at: usize) {
        if self.shards[at].is_untidy() {
            self.tidy(at);
        }
    }

    /// Divides a shard that has become too large, removes an empty one, and joins a small one with its neighbour. No user code runs,
    /// except for drops of borders.
    #[cold]
    fn tidy(&mut self, at: usize) {
        self.moves = self.moves.wrapping_add(1);
        let slots = self.shards[at].slots();
        if slots > MOST_LEAVES {
            if at + 1 == self.shards.len() && self.shards[at].leaf_of(slots - 1).len() == 1 {
                // Keys ascend, and have filled the other leaves: they stay, and the next shard begins.
                let (border, mut tail) = self.shards[at].split_off(slots - 1);
                tail.make_room();
                self.top.insert(at, border);
                self.shards.push(tail);
                return;
            }
            // A shard that a batch has made many times larger is divided into parts that can grow.
            let parts = slots.div_ceil(MOST_LEAVES * 3 / 4).max(2);
            for part in (1..parts).rev() {
                let (border, tail) = self.shards[at].split_off(slots * part / parts);
                self.top.insert(at, border);
                self.shards.insert(at + 1, tail);
            }
            self.shards[at].pack();
            return;
        }
        let mut gone = None;
        if self.shards.len() > 1 && self.shards[at].len() == 0 {
            gone = Some((self.top.remove(at.saturating_sub(1)), self.shards.remove(at)));
        } else if self.shards[at].is_sparse() {
            let fits = |left: usize| {
                let slots = |at: usize| self.shards[at].slots();
                let empty = |at: usize| self.shards[at].len() == 0;
                left + 1 < self.shards.len()
                    && slots(left) + slots(left + 1) <= FEW_LEAVES
                    // After a large batch a neighbour may be empty; it is tidied separately.
                    && !empty(left)
                    && !empty(left + 1)
            };
            let left = if at > 0 && fits(at - 1) { at - 1 } else { at };
            if fits(left) {
                let right = self.shards.remove(left + 1);
                let between = self.top.remove(left);
                self.shards[left].append(between, right);
            }
            self.shards[left].pack();
        }
        drop(gone);
    }

    /// Checks every invariant of the structure by reading all keys; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let claim = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        claim(self.top.is_filled(), "borders are not filled up")?;
        claim(self.top.count() + 1 == self.shards.len(), "borders and shards do not match")?;
        claim(self.shards.iter().map(Shard::len).sum::<usize>() == self.len, "wrong length")?;
        let mut last: Option<&K> = None;
        for (at, shard) in self.shards.iter().enumerate() {
            claim(shard.len() > 0 || self.shards.len() == 1, "an empty shard")?;
            claim(shard.slots() <= MOST_LEAVES, "a shard with too many leaves")?;
            shard.check().map_err(|what| format!("shard {at}: {what}"))?;
            for (slot, index) in shard.positions() {
                let key = shard.leaf_of(slot).key(index);
                claim(last.is_none_or(|last| last < key), "keys out of order")?;
                claim(self.top.slot(key.prefix(), key) == at, "a key is not where a search looks")?;
                last = Some(key);
            }
        }
        Ok(())
    }
}

impl<K: Key, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, V: Clone> Clone for OrderedMap<K, V> {
    fn clone(&self) -> Self {
        OrderedMap {
            top: self.top.clone(),
            shards: self.shards.clone(),
            len: self.len,
            moves: 0,
            ascends: false,
            scratch: Mutex::default(),
        }
    }
}

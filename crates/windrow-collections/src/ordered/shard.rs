//! A shard: the leaves of a range of keys, and one sorted index of them.
//!
//! Two levels are enough because a shard is small: the borders of its leaves are one array that stays in a near cache.
//!
//! A *border* is the smallest key that belongs to the leaf behind it. A *slot* is the number of a leaf in the order of keys, and a
//! *place* is its index in memory. A leaf keeps its place when others split, so a place found earlier still exists. The *version*
//! of the shard tells whether it is still the right place: it counts the changes of which keys belong to which leaf.

use std::borrow::Borrow;
use std::mem;

use windrow_sync::unwind::Payload;

use super::leaf::Leaf;
use super::ops::{Ops, Verb};
use super::separators::{Border, Separators};
use super::update::Update;
use crate::keys::{CAPACITY, Key, Prefix, Skip};

/// Maximum number of leaves; a shard with more is divided. At this size, moving the borders behind a new one costs about 3 ns per
/// insert, and dividing the shard costs as much.
pub(super) const MOST_LEAVES: usize = 1024;

/// Two neighbours with no more leaves than this together become one shard.
pub(super) const FEW_LEAVES: usize = MOST_LEAVES / 2;

/// A leaf with fewer keys tries to join a neighbour.
const FEW_KEYS: usize = CAPACITY / 4;

/// The number of operations of a [group](super::batch), whose cache misses overlap. Of 100,000 random inserts into 1,000,000 keys,
/// each takes 53 ns with groups of 16, 50 ns with 32, and 55 ns with 64.
pub(super) const GROUP: usize = 32;

pub(super) struct Shard<K: Key, V> {
    borders: Separators<K>,
    /// By slot: the index of its leaf in `leaves`.
    places: Vec<u32>,
    leaves: Vec<Leaf<K, V>>,
    /// Leaves that are empty and unused.
    free: Vec<u32>,
    len: usize,
    /// Counts the changes of which keys belong to which leaf.
    version: u32,
    /// Counts those changes that moved a leaf's keys into another leaf.
    joins: u32,
}

/// Whether a shard is at an end of the map. There, keys inserted in ascending or descending order fill leaves completely.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) first: bool,
    pub(super) last: bool,
}

/// The leaf that a key belongs to, and the bytes that the key is known to share with the keys there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) place: u32,
    pub(super) known: Skip,
}

/// A removed key with its border, to be dropped last, because dropping may panic.
pub(super) type Gone<K> = Option<(K, Option<Border<K>>)>;

impl<K: Key, V> Shard<K, V> {
    /// A shard with one empty leaf.
    pub(super) fn new() -> Self {
        Shard {
            borders: Separators::new(),
            places: vec![0],
            leaves: vec![Leaf::new()],
            free: Vec::new(),
            len: 0,
            version: 0,
            joins: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn slots(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Whether the map must tidy it: it has too many leaves, no keys, or far more memory than it needs.
    #[inline]
    pub(super) fn is_untidy(&self) -> bool {
        self.slots() > MOST_LEAVES || self.len == 0 || self.is_sparse()
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.free.len() > 3 * self.slots() + 64
    }

    #[inline]
    pub(super) fn joins(&self) -> u32 {
        self.joins
    }

    #[inline]
    pub(super) fn slot<Q>(&self, word: K::Word, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.borders.slot(word, key)
    }

    /// The way to the leaf that `key` belongs to.
    #[inline]
    pub(super) fn way<Q>(&self, word: K::Word, key: &Q) -> Way
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.way_to(self.slot(word, key))
    }

    /// The way of keys that belong to a slot.
    #[inline]
    pub(super) fn way_to(&self, slot: usize) -> Way {
        Way { place: self.places[slot], known: self.borders.known(slot) }
    }

    /// The place and the index of `key`, or those at which to insert it.
    #[inline]
    pub(super) fn find<Q>(&self, word: K::Word, key: &Q) -> (u32, Result<usize, usize>)
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let way = self.way(word, key);
        (way.place, self.find_on(way, word, key))
    }

    /// The index of `key` in its leaf, or the index at which to insert it.
    #[inline]
    pub(super) fn find_on<Q>(&self, way: Way, word: K::Word, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.leaf(way.place).find(word, key, way.known)
    }

    #[inline]
    pub(super) fn block(&self, word: K::Word, key: &K) -> u32 {
        self.borders.block(word, key) as u32
    }

    #[inline]
    pub(super) fn slot_in(&self, block: u32, word: K::Word, key: &K) -> usize {
        self.borders.slot_in(block as usize, word, key)
    }

    #[inline]
    pub(super) fn place_of(&self, slot: usize) -> u32 {
        self.places[slot]
    }

    #[inline]
    pub(super) fn leaf(&self, place: u32) -> &Leaf<K, V> {
        &self.leaves[place as usize]
    }

    #[inline]
    pub(super) fn leaf_mut(&mut self, place: u32) -> &mut Leaf<K, V> {
        &mut self.leaves[place as usize]
    }

    #[inline]
    pub(super) fn leaf_of(&self, slot: usize) -> &Leaf<K, V> {
        self.leaf(self.places[slot])
    }

    /// The leaf of a slot.
    pub(super) fn leaf_in(&mut self, slot: usize) -> &mut Leaf<K, V> {
        self.leaf_mut(self.places[slot])
    }

    /// The places of the leaves by slot, and the leaves by place.
    pub(super) fn parts(&self) -> (&[u32], &[Leaf<K, V>]) {
        (&self.places, &self.leaves)
    }

    pub(super) fn parts_mut(&mut self) -> (&[u32], &mut [Leaf<K, V>]) {
        (&self.places, &mut self.leaves)
    }

    pub(super) fn into_parts(self) -> (Vec<u32>, Vec<Leaf<K, V>>) {
        let Shard { places, leaves, borders, .. } = self;
        // Before the leaves are returned, which would leak if this panicked.
        drop(borders);
        (places, leaves)
    }

    /// The slot of the leaf at `place`: a search of all slots.
    #[cold]
    pub(super) fn slot_at(&self, place: u32) -> usize {
        self.places.iter().position(|other| *other == place).expect("a leaf in use has a slot")
    }

    /// The place of the last leaf.
    #[inline]
    pub(super) fn last_place(&self) -> u32 {
        self.places[self.places.len() - 1]
    }

    /// Inserts a key that is not present into the leaf at `place`, before the key at `at`. Returns where it is then.
    #[inline(always)]
    pub(super) fn insert_at(
        &mut self,
        place: u32,
        at: usize,
        ends: Ends,
        word: K::Word,
        key: K,
        value: V,
    ) -> (u32, usize) {
        let (place, at) =
            if self.leaf(place).is_full() { self.split(place, at, ends, word, &key) } else { (place, at) };
        self.leaf_mut(place).insert(at, word, key, value);
        self.len += 1;
        (place, at)
    }

    /// Splits a full leaf. Returns the place and the index for the key.
    #[cold]
    fn split(&mut self, place: u32, at: usize, ends: Ends, word: K::Word, key: &K) -> (u32, usize) {
        let slot = self.slot(word, key);
        debug_assert_eq!(self.places[slot], place);
        let leaf = self.leaf(place);
        // At an end of the map, ascending or descending keys leave full leaves behind.
        let middle = if at == leaf.len() && ends.last && slot + 1 == self.slots() {
            leaf.len()
        } else if at == 0 && ends.first && slot == 0 {
            0
        } else {
            leaf.middle()
        };
        let first = if middle == leaf.len() { key } else { leaf.key(middle) };
        // Cloning may panic; nothing has changed yet.
        let border = Border::of(first);
        let behind = self.cut(slot, middle, border);
        if at > middle || middle == CAPACITY { (behind, at - middle) } else { (place, at) }
    }

    /// Moves the keys of a leaf from `at` on into a new leaf behind it, and returns the place of that.
    fn cut(&mut self, slot: usize, at: usize, border: Border<K>) -> u32 {
        let tail = self.leaf_in(slot).split_off(at);
        let behind = self.keep(tail);
        self.borders.insert(slot, border);
        self.places.insert(slot + 1, behind);
        self.version = self.version.wrapping_add(1);
        behind
    }

    /// Divides the leaf of a slot before the key at `at`, which is not the first one.
    pub(super) fn cut_at(&mut self, slot: usize, at: usize) {
        // Cloning may panic; nothing has changed yet.
        let border = Border::of(self.leaf_of(slot).key(at));
        self.cut(slot, at, border);
    }

    /// Removes the keys for which `keep` is false, ascending.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        /// Joins the leaves that have few keys left, also after a panic.
        struct Joining<'a, K: Key, V>(&'a mut Shard<K, V>);

        impl<K: Key, V> Drop for Joining<'_, K, V> {
            fn drop(&mut self) {
                let shard = &mut *self.0;
                shard.len = shard.leaves.iter().map(Leaf::len).sum();
                let mut gone = Vec::new();
                for slot in (0..shard.slots()).rev() {
                    if shard.leaf_of(slot).len() <= FEW_KEYS {
                        gone.extend(shard.join(slot));
                    }
                }
            }
        }

        let joining = Joining(self);
        for slot in 0..joining.0.slots() {
            joining.0.leaf_in(slot).retain(&mut keep);
        }
    }

    /// Stores a leaf and returns its place.
    fn keep(&mut self, leaf: Leaf<K, V>) -> u32 {
        if let Some(place) = self.free.pop() {
            *self.leaf_mut(place) = leaf;
            return place;
        }
        self.leaves.push(leaf);
        (self.leaves.len() - 1) as u32
    }

    /// Removes the key at `at` from the leaf at `place`. Also returns a border that is no longer needed: dropping it may panic, so the
    /// caller drops it last.
    #[inline]
    pub(super) fn remove_at(&mut self, place: u32, at: usize) -> (K, V, Option<Border<K>>) {
        let slot = self.slot_to_join(place, at);
        let (key, value) = self.leaf_mut(place).remove(at);
        self.len -= 1;
        (key, value, slot.and_then(|slot| self.join(slot)))
    }

    /// The slot of a leaf, if a removal at `at` leaves it with few keys. To join its neighbour, a leaf is found by a key that it still
    /// holds.
    #[inline]
    fn slot_to_join(&self, place: u32, at: usize) -> Option<usize> {
        let few = self.leaf(place).len() <= FEW_KEYS;
        few.then(|| self.slot_of(place, at))
    }

    #[cold]
    fn slot_of(&self, place: u32, at: usize) -> usize {
        let key = self.leaf(place).key(at);
        self.slot(key.prefix(), key)
    }

    /// Joins the leaf of a slot with a neighbour if both fit into three quarters of one leaf, or if it is empty.
    fn join(&mut self, slot: usize) -> Option<Border<K>> {
        let fits = |left: usize| {
            left + 1 < self.slots() && {
                let (left, right) = (self.leaf_of(left).len(), self.leaf_of(left + 1).len());
                left + right <= CAPACITY - FEW_KEYS || left == 0 || right == 0
            }
        };
        let left = if fits(slot) {
            slot
        } else if slot > 0 && fits(slot - 1) {
            slot - 1
        } else {
            return None;
        };
        let right = self.places.remove(left + 1);
        let gone = self.borders.remove(left);
        let leaf = mem::replace(self.leaf_mut(right), Leaf::new());
        self.leaf_in(left).append(leaf);
        self.free.push(right);
        self.version = self.version.wrapping_add(1);
        self.joins = self.joins.wrapping_add(1);
        Some(gone)
    }

    /// Removes the slots from `at` on, which is not 0, with the border in between. Empty leaves remain until [`pack`](Self::pack).
    pub(super) fn split_off(&mut self, at: usize) -> (Border<K>, Self) {
        let (between, borders) = self.borders.split_off(at - 1);
        let places = self.places.split_off(at);
        let mut leaves = room(places.len());
        leaves.extend(places.iter().map(|place| mem::replace(self.leaf_mut(*place), Leaf::new())));
        self.free.extend(&places);
        let len = leaves.iter().map(Leaf::len).sum();
        self.len -= len;
        self.version = self.version.wrapping_add(1);
        let places = (0..leaves.len() as u32).collect();
        (between, Shard { borders, places, leaves, free: Vec::new(), len, version: 0, joins: 0 })
    }

    /// Allocates for the maximum of leaves.
    pub(super) fn make_room(&mut self) {
        self.leaves.reserve_exact((MOST_LEAVES + 1).saturating_sub(self.leaves.len()));
    }

    /// Moves the leaves into the order of their keys and frees unused ones.
    pub(super) fn pack(&mut self) {
        let mut leaves = room(self.slots());
        leaves.extend(self.places.iter().map(|place| mem::replace(&mut self.leaves[*place as usize], Leaf::new())));
        self.leaves = leaves;
        self.places.clear();
        self.places.extend(0..self.leaves.len() as u32);
        self.free = Vec::new();
        self.version = self.version.wrapping_add(1);
    }

    /// Takes over the leaves of the next shard.
    pub(super) fn append(&mut self, between: Border<K>, mut other: Self) {
        for place in mem::take(&mut other.places) {
            let leaf = mem::replace(other.leaf_mut(place), Leaf::new());
            let place = self.keep(leaf);
            self.places.push(place);
        }
        self.borders.append(between, mem::take(&mut other.borders));
        self.len += other.len;
        self.version = self.version.wrapping_add(1);
    }

    /// The slot, and the index in its leaf, of every key, in order.
    pub(super) fn positions(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.slots()).flat_map(|slot| (0..self.leaf_of(slot).len()).map(move |at| (slot, at)))
    }

    /// Applies operation `at`, whose key belongs to the leaf at `place`. Returns the result of the operation, or the panic of an update.
    // Inlined, because a call would cost 4 ns of 50.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        ops: &mut impl Ops<K, V>,
        at: usize,
        ends: Ends,
        word: K::Word,
        way: Way,
        gone: &mut Gone<K>,
    ) -> Result<Option<V>, Payload>
    where
        V: Clone,
    {
        let (place, found) = (way.place, self.find_on(way, word, ops.key(at)));
        Ok(match (ops.verb(at), found) {
            (Verb::Get, Ok(index)) => Some(self.leaf(place).get(index).1.clone()),
            (Verb::Insert, Ok(index)) => Some(mem::replace(self.leaf_mut(place).value(index), ops.take_value(at))),
            (Verb::Insert, Err(index)) => {
                let (key, value) = ops.take(at);
                self.insert_at(place, index, ends, word, key, value);
                None
            }
            (Verb::Remove, Ok(index)) => {
                let (key, value, border) = self.remove_at(place, index);
                *gone = Some((key, border));
                Some(value)
            }
            (Verb::Get | Verb::Remove, Err(_)) => None,
            (Verb::Update, found) => {
                let (key, update) = ops.take_update(at);
                return self.update(place, found, ends, word, key, update, gone);
            }
        })
    }

    /// Updates the value of `key`, which was `found` in the leaf at `place`.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "what `step` knows about the operation")]
    pub(super) fn update(
        &mut self,
        place: u32,
        found: Result<usize, usize>,
        ends: Ends,
        word: K::Word,
        key: K,
        update: Update<V>,
        gone: &mut Gone<K>,
    ) -> Result<Option<V>, Payload> {
        match found {
            Ok(at) => {
                // Dropping may panic; nothing has changed yet.
                drop(key);
                let slot = self.slot_to_join(place, at);
                let (result, removed) = self.leaf_mut(place).lend(at, |value| update.try_call(value));
                if let Some(key) = removed {
                    self.len -= 1;
                    *gone = Some((key, slot.and_then(|slot| self.join(slot))));
                }
                result
            }
            Err(at) => {
                let mut value = None;
                let result = update.try_call(&mut value)?;
                match value {
                    Some(value) => _ = self.insert_at(place, at, ends, word, key, value),
                    None => drop(key),
                }
                Ok(result)
            }
        }
    }

    /// Checks all invariants; the error is the one that does not hold.
    pub(super) fn check(&self) -> Result<(), String> {
        let claim = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        claim(self.borders.is_filled(), "borders are not filled up")?;
        claim(self.borders.count() + 1 == self.slots(), "borders and slots do not match")?;
        claim(self.slots() + self.free.len() == self.leaves.len(), "a leaf is lost")?;
        let mut seen = vec![false; self.leaves.len()];
        for place in self.places.iter().chain(&self.free) {
            claim(!mem::replace(&mut seen[*place as usize], true), "a leaf is used twice")?;
        }
        claim(self.free.iter().all(|place| self.leaf(*place).len() == 0), "a free leaf has keys")?;
        claim(self.slots() == 1 || (0..self.slots()).all(|slot| self.leaf_of(slot).len() > 0), "an empty leaf")?;
        claim(self.positions().count() == self.len, "wrong length")?;
        claim(self.leaves.iter().all(Leaf::is_whole), "a leaf has a wrong word")?;
        for (slot, at) in self.positions() {
            let key = self.leaf_of(slot).key(at);
            claim(self.slot(key.prefix(), key) == slot, "a key is not where a search looks")?;
            claim(self.find(key.prefix(), key) == (self.places[slot], Ok(at)), "a leaf does not find its key")?;
        }
        Ok(())
    }
}

impl<K: Key, V: Clone> Clone for Shard<K, V> {
    fn clone(&self) -> Self {
        let mut leaves = room(self.slots());
        leaves.extend((0..self.slots()).map(|slot| self.leaf_of(slot).clone()));
        let places = (0..leaves.len() as u32).collect();
        Shard { borders: self.borders.clone(), places, leaves, free: Vec::new(), len: self.len, version: 0, joins: 0 }
    }
}

/// Capacity for leaves: for the maximum of a shard, unless the shard is small. Growing would copy leaves, and untouched memory costs
/// nothing.
fn room<K: Key, V>(leaves: usize) -> Vec<Leaf<K, V>> {
    Vec::with_capacity(if leaves < MOST_LEAVES / 4 { leaves } else { leaves.max(MOST_LEAVES + 1) })
}

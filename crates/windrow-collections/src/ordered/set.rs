//! The set: a map without values.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;

use windrow::prelude::*;

use super::iter::{IntoKeys, Keys, SetRange};
use super::map::OrderedMap;
use super::ops::{All, Mixed, SetOp};
use super::whole::NotAscending;
use crate::keys::{Key, Prefix};

/// A sorted set whose operations are cheaper in batches.
///
/// It is an [`OrderedMap`] without values: the page of the map describes both. Inside of [`Batched`](windrow::batch::Batched) its
/// operations are [`SetOp`]s.
///
/// ```
/// use windrow_collections::OrderedSet;
///
/// let mut set = OrderedSet::new();
/// let mut new = [false; 4];
/// set.insert_all(&[5_u64, 7, 5, 1], &mut new);
/// assert_eq!(new, [true, true, false, true]);
/// assert!(set.contains(&7) && set.len() == 3);
/// ```
///
/// For many independent callers with single operations, put the set inside of `Batched`. A loop already has batches: on several
/// threads, it hands them to a [`SharedSet`](crate::SharedSet) as chunks.
///
/// ```
/// use windrow::prelude::*;
/// use windrow_collections::{SetOp, SharedSet};
///
/// let seen = SharedSet::new();
/// assert!(seen.insert(5));
/// let keys: Vec<u64> = (0..1000).map(|n| n % 700).collect();
/// let new: usize = keys.par_chunks(127).map(|keys| {
///     let ops: Vec<_> = keys.iter().copied().map(SetOp::Insert).collect();
///     let mut new = vec![false; ops.len()];
///     seen.apply(&ops, &mut new);
///     new.into_iter().filter(|new| *new).count()
/// }).sum();
/// assert_eq!(new, 699);
/// ```
#[derive(Clone)]
pub struct OrderedSet<K: Key> {
    pub(crate) map: OrderedMap<K, ()>,
}

impl<K: Key> OrderedSet<K> {
    /// A set without keys.
    pub fn new() -> Self {
        OrderedSet { map: OrderedMap::new() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Removes all keys and frees their memory.
    pub fn clear(&mut self) {
        self.map.clear();
    }

    /// Whether the set contains `key`.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.contains_key(key)
    }

    /// The key that equals `key`.
    pub fn get<Q>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.get_key_value(key).map(|(key, ())| key)
    }

    /// Inserts `key` and returns whether it is new. A key that is already present stays.
    pub fn insert(&mut self, key: K) -> bool {
        self.map.insert(key, ()).is_none()
    }

    /// Removes `key` and returns whether it was present.
    pub fn remove<Q>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.remove(key).is_some()
    }

    /// Removes the key that equals `key`, and returns it.
    pub fn take<Q>(&mut self, key: &Q) -> Option<K>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.map.remove_entry(key).map(|(key, ())| key)
    }

    /// The key that equals `key`; if there is none, inserts and returns the one that `make` makes of `key`.
    ///
    /// # Panics
    /// If the new key does not equal `key`.
    pub fn get_or_insert_with<Q>(&mut self, key: &Q, make: impl FnOnce(&Q) -> K) -> &K
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let (spot, is_found) = self.map.spot(key.prefix(), key);
        if is_found {
            return self.map.at(spot).0;
        }
        let made = make(key);
        assert!(made.borrow() == key, "the new key is not equal to the one that was looked up");
        let spot = self.map.put(spot, key.prefix(), made, ());
        self.map.at(spot).0
    }

    /// Removes the smallest key and returns it.
    pub fn pop_first(&mut self) -> Option<K> {
        self.map.pop_first().map(|(key, ())| key)
    }

    /// Removes the largest key and returns it.
    pub fn pop_last(&mut self) -> Option<K> {
        self.map.pop_last().map(|(key, ())| key)
    }

    /// A set of keys that ascend strictly, in time proportional to their number: see [`OrderedMap::from_sorted`].
    ///
    /// # Errors
    /// [`NotAscending`] names the first key that is not above the one before it.
    pub fn from_sorted(keys: impl IntoIterator<Item = K>) -> Result<Self, NotAscending> {
        OrderedMap::from_sorted(keys.into_iter().map(|key| (key, ()))).map(|map| OrderedSet { map })
    }

    /// Keeps the keys for which `keep` is true, and visits all in ascending order: see [`OrderedMap::retain`].
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.map.retain(|key, ()| keep(key));
    }

    /// Moves all keys of `other` to this set: see [`OrderedMap::append`].
    pub fn append(&mut self, other: &mut Self) {
        self.map.append(&mut other.map);
    }

    /// Removes the keys from `key` on and returns them: see [`OrderedMap::split_off`].
    pub fn split_off<Q>(&mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        OrderedSet { map: self.map.split_off(key) }
    }

    /// The smallest key.
    pub fn first(&self) -> Option<&K> {
        self.map.first_key_value().map(|(key, ())| key)
    }

    /// The largest key.
    pub fn last(&self) -> Option<&K> {
        self.map.last_key_value().map(|(key, ())| key)
    }

    /// All keys, ascending.
    pub fn iter(&self) -> Keys<'_, K> {
        self.map.keys()
    }

    /// The keys of a range, ascending.
    ///
    /// # Panics
    /// As for [`OrderedMap::range`].
    ///
    /// ```
    /// use windrow_collections::OrderedSet;
    ///
    /// let set: OrderedSet<String> = ["fig", "apple", "plum"].map(String::from).into_iter().collect();
    /// assert!(set.range("b".to_owned()..).eq(["fig", "plum"]));
    /// ```
    pub fn range<Q>(&self, range: impl RangeBounds<Q>) -> SetRange<'_, K>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        SetRange::new(self.map.range(range))
    }

    /// Checks every invariant of the structure by reading all keys; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.map.check()
    }
}

impl<K: Key<Column: Send> + Send + Sync> OrderedSet<K> {
    /// Applies a batch, as if one operation after the other. For an insert, the result says whether the key is new; for other
    /// operations, whether it was present.
    ///
    /// # Panics
    /// If `ops` and `results` differ in length. Also as for [`OrderedMap::apply`].
    pub fn apply(&mut self, ops: &[SetOp<K>], results: &mut [bool]) {
        assert_eq!(ops.len(), results.len(), "one result per operation");
        self.map.run_all(&mut Mixed { ops, results });
    }

    /// Inserts keys, as if one after the other, and stores for each whether it is new.
    ///
    /// # Panics
    /// As for [`apply`](Self::apply).
    pub fn insert_all(&mut self, keys: &[K], new: &mut [bool]) {
        assert_eq!(keys.len(), new.len(), "one result per key");
        self.map.run_all(&mut All::<_, true> { keys, results: new });
    }

    /// Removes keys, as if one after the other, and stores for each whether it was present.
    ///
    /// # Panics
    /// As for [`apply`](Self::apply).
    pub fn remove_all(&mut self, keys: &[K], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one result per key");
        self.map.run_all(&mut All::<_, false> { keys, results: found });
    }
}

/// Minimum number of keys that one member of a region looks up: 100 us of work.
const LOOKED_FOR: usize = 4096;

impl<K: Key<Column: Sync> + Send + Sync> OrderedSet<K> {
    /// Stores for each key whether it is present; many keys are divided among threads.
    ///
    /// # Panics
    /// As for [`apply`](Self::apply).
    pub fn contains_all(&self, keys: &[K], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one result per key");
        let parts = keys.par_chunks(LOOKED_FOR).zip(found.par_chunks_mut(LOOKED_FOR));
        parts.for_each(|(keys, found)| self.map.look(keys, |at, entry| found[at] = entry.is_some()));
    }
}

impl<K: Key> Default for OrderedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, K: Key> IntoIterator for &'a OrderedSet<K> {
    type Item = &'a K;
    type IntoIter = Keys<'a, K>;

    fn into_iter(self) -> Keys<'a, K> {
        self.iter()
    }
}

impl<K: Key> IntoIterator for OrderedSet<K> {
    type Item = K;
    type IntoIter = IntoKeys<K>;

    fn into_iter(self) -> IntoKeys<K> {
        self.map.into_keys()
    }
}

impl<'a, K: Key + Copy> Extend<&'a K> for OrderedSet<K> {
    fn extend<I: IntoIterator<Item = &'a K>>(&mut self, keys: I) {
        self.extend(keys.into_iter().copied());
    }
}

impl<K: Key, const N: usize> From<[K; N]> for OrderedSet<K> {
    fn from(keys: [K; N]) -> Self {
        keys.into_iter().collect()
    }
}

impl<K: Key> Extend<K> for OrderedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        self.map.extend(keys.into_iter().map(|key| (key, ())));
    }
}

impl<K: Key> FromIterator<K> for OrderedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::new();
        set.extend(keys);
        set
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for OrderedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<K: Key> PartialEq for OrderedSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<K: Key> Eq for OrderedSet<K> {}

impl<K: Key> PartialOrd for OrderedSet<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Key> Ord for OrderedSet<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.map.cmp(&other.map)
    }
}

impl<K: Key + Hash> Hash for OrderedSet<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.map.hash(state);
    }
}

//! What concerns a map as a whole: building, dividing, joining, filtering, comparing.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem;
use std::ops::Index;

use super::deal::Tidying;
use super::map::OrderedMap;
use super::separators::Border;
use super::walk::Position;
use crate::keys::{Key, Prefix};

/// Keys that should ascend do not: the key at index `at` is not above the one before it.
///
/// ```
/// use windrow_collections::{NotAscending, OrderedSet};
///
/// let error = OrderedSet::from_sorted([1, 3, 2]).unwrap_err();
/// assert_eq!(error, NotAscending { at: 2 });
/// assert_eq!(error.to_string(), "the key at index 2 is not greater than the one before it");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAscending {
    /// The index of the first key that is not above the one before it.
    pub at: usize,
}

impl fmt::Display for NotAscending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key at index {} is not greater than the one before it", self.at)
    }
}

impl Error for NotAscending {}

impl<K: Key, V> OrderedMap<K, V> {
    /// A map of keys that ascend strictly, in time proportional to their number: each key is compared with the one before it, and no key
    /// is searched for. Leaves are filled completely.
    ///
    /// # Errors
    /// [`NotAscending`] names the first key that is not above the one before it. The items after it are not taken.
    ///
    /// ```
    /// use windrow_collections::{NotAscending, OrderedMap};
    ///
    /// let map = OrderedMap::from_sorted([(1, 'a'), (2, 'b')]).unwrap();
    /// assert_eq!(map.len(), 2);
    /// assert_eq!(OrderedMap::from_sorted([(1, 'a'), (2, 'b'), (2, 'c')]), Err(NotAscending { at: 2 }));
    /// ```
    pub fn from_sorted(items: impl IntoIterator<Item = (K, V)>) -> Result<Self, NotAscending> {
        let mut map = Self::new();
        for (at, (key, value)) in items.into_iter().enumerate() {
            let word = key.prefix();
            let Some(spot) = map.behind_all(word, &key) else { return Err(NotAscending { at }) };
            map.put(spot, word, key, value);
        }
        Ok(map)
    }

    /// Keeps the keys for which `keep` is true, and visits all in ascending order. If `keep` panics, the keys before the one that it
    /// was called with are filtered, and the others stay.
    ///
    /// ```
    /// let mut map: windrow_collections::OrderedMap<i32, char> = (0..9).zip('a'..).collect();
    /// map.retain(|key, _| key % 4 == 0);
    /// assert!(map.into_iter().eq([(0, 'a'), (4, 'e'), (8, 'i')]));
    /// ```
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for shard in &mut Tidying(self).0.shards {
            shard.retain(&mut keep);
        }
    }

    /// Moves all keys of `other` to this map. Of a key that is in both, the value of `other` stays.
    ///
    /// If all keys of one map are below those of the other, whole shards are moved: the time depends on their number, about one for
    /// 30,000 keys. Otherwise each key of `other` is inserted.
    ///
    /// # Panics
    /// If a comparison or a clone of a key panics: keys of `other` may be lost.
    pub fn append(&mut self, other: &mut Self) {
        let mut other = mem::take(other);
        if other.is_empty() {
            return;
        }
        let is_behind = |one: &Self, two: &Self| match (one.last_key_value(), two.first_key_value()) {
            (Some((last, _)), Some((first, _))) => last < first,
            _ => true,
        };
        if is_behind(self, &other) {
            self.append_above(&mut other);
        } else if is_behind(&other, self) {
            mem::swap(self, &mut other);
            self.append_above(&mut other);
        } else {
            self.extend(other);
        }
    }

    /// Moves the keys of `other`, which are all above those of this map, to this map. If cloning a key panics, both stay as they are.
    pub(super) fn append_above(&mut self, other: &mut Self) {
        if self.is_empty() {
            mem::swap(self, other);
            return;
        }
        let Some((first, _)) = other.first_key_value() else { return };
        let between = Border::of(first);
        let other = mem::take(other);
        self.top.append(between, other.top);
        self.shards.extend(other.shards);
        self.len += other.len;
        self.moves = self.moves.wrapping_add(1);
    }

    /// The key with `rank` keys below it.
    pub(super) fn nth_key(&self, mut rank: usize) -> Option<&K> {
        let shard = self.shards.iter().find(|shard| {
            let is_there = rank < shard.len();
            rank -= if is_there { 0 } else { shard.len() };
            is_there
        })?;
        for leaf in shard {
            if rank < leaf.len() {
                return Some(leaf.key(rank));
            }
            rank -= leaf.len();
        }
        None
    }

    /// Removes the keys from `key` on and returns them. Divides one leaf, one shard and the list of shards: the time does not depend
    /// on the number of keys, but for one part in 30,000.
    ///
    /// ```
    /// let mut map: windrow_collections::OrderedMap<i32, char> = (0..4).zip('a'..).collect();
    /// let tail = map.split_off(&2);
    /// assert!(map.keys().eq(&[0, 1]) && tail.keys().eq(&[2, 3]));
    /// ```
    pub fn split_off<Q>(&mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        let Position { mut shard, mut slot, at } = self.position(key, false);
        if shard == self.shards.len() {
            return Self::new();
        }
        if at > 0 {
            self.shards[shard].cut_at(slot, at);
            slot += 1;
        }
        self.moves = self.moves.wrapping_add(1);
        if slot > 0 {
            let (border, tail) = self.shards[shard].split_off(slot);
            self.top.insert(shard, border);
            self.shards.insert(shard + 1, tail);
            shard += 1;
        }
        if shard == 0 {
            return mem::take(self);
        }
        let (between, top) = self.top.split_off(shard - 1);
        let mut tail = Self::of(top, self.shards.split_off(shard));
        self.len -= tail.len;
        self.look_after(shard - 1);
        tail.look_after(0);
        // Before the tail is returned, which would leak if this panicked.
        drop(between);
        tail
    }
}

/// Inserts each item; of a key that comes several times, the last value stays.
impl<K: Key, V> Extend<(K, V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<'a, K: Key + Copy, V: Copy> Extend<(&'a K, &'a V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, items: I) {
        self.extend(items.into_iter().map(|(key, value)| (*key, *value)));
    }
}

impl<K: Key, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = Self::new();
        map.extend(items);
        map
    }
}

impl<K: Key, V, const N: usize> From<[(K, V); N]> for OrderedMap<K, V> {
    fn from(items: [(K, V); N]) -> Self {
        items.into_iter().collect()
    }
}

/// The value of a key.
///
/// # Panics
/// If the key is absent.
impl<K, Q, V> Index<&Q> for OrderedMap<K, V>
where
    K: Key + Borrow<Q>,
    Q: Prefix<Word = K::Word> + ?Sized,
{
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry found for key")
    }
}

impl<K: Key + fmt::Debug, V: fmt::Debug> fmt::Debug for OrderedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: Key, V: PartialEq> PartialEq for OrderedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl<K: Key, V: Eq> Eq for OrderedMap<K, V> {}

impl<K: Key, V: PartialOrd> PartialOrd for OrderedMap<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other)
    }
}

impl<K: Key, V: Ord> Ord for OrderedMap<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other)
    }
}

impl<K: Key + Hash, V: Hash> Hash for OrderedMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|entry| entry.hash(state));
    }
}

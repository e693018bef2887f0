//! Iteration over a map in the order of its keys.

use std::borrow::Borrow;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

use super::leaf::Leaf;
use super::map::OrderedMap;
use crate::keys::{Key, Prefix};

/// Keys and values of an [`OrderedMap`], or of a range of it, ascending.
pub struct Iter<'a, K: Key, V> {
    map: &'a OrderedMap<K, V>,
    front: Position,
    /// Behind the last key.
    back: Position,
    /// The leaf of `front`.
    leaf: Option<&'a Leaf<K, V>>,
}

/// The position of a key, or the end: behind the last shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    shard: usize,
    slot: usize,
    at: usize,
}

impl<K: Key, V> OrderedMap<K, V> {
    /// All keys and values, ascending.
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.between(Position { shard: 0, slot: 0, at: 0 }, self.end())
    }

    /// The keys of a range with their values, ascending.
    ///
    /// # Panics
    /// If the start of the range is behind its end, or both ends are equal and excluded, as for `BTreeMap`.
    ///
    /// ```
    /// let map: windrow_collections::OrderedMap<i32, char> = [(1, 'a'), (2, 'b'), (3, 'c')].into_iter().collect();
    /// assert!(map.range(..=2).rev().eq([(&2, &'b'), (&1, &'a')]));
    /// ```
    pub fn range<Q>(&self, range: impl RangeBounds<Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) =
            (range.start_bound(), range.end_bound())
        {
            let excluded = |bound: Bound<&Q>| matches!(bound, Bound::Excluded(_));
            let none = excluded(range.start_bound()) && excluded(range.end_bound());
            assert!(low <= high, "the range begins behind its end");
            assert!(!(none && low == high), "the range excludes both of its equal ends");
        }
        let front = match range.start_bound() {
            Bound::Included(key) => self.position(key, false),
            Bound::Excluded(key) => self.position(key, true),
            Bound::Unbounded => Position { shard: 0, slot: 0, at: 0 },
        };
        let back = match range.end_bound() {
            Bound::Included(key) => self.position(key, true),
            Bound::Excluded(key) => self.position(key, false),
            Bound::Unbounded => self.end(),
        };
        self.between(front, back)
    }

    fn between(&self, front: Position, back: Position) -> Iter<'_, K, V> {
        // Only a map without keys has an empty leaf.
        let front = if self.is_empty() { back } else { front };
        let leaf = (front != back).then(|| self.shards[front.shard].leaf_of(front.slot));
        Iter { map: self, front, back, leaf }
    }

    fn end(&self) -> Position {
        Position { shard: self.shards.len(), slot: 0, at: 0 }
    }

    /// The first key that is not below `key`, or with `above`, the first key above it.
    fn position<Q>(&self, key: &Q, above: bool) -> Position
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if self.is_empty() {
            return self.end();
        }
        let word = key.prefix();
        let number = self.top.slot(word, key);
        let shard = &self.shards[number];
        let slot = shard.slot(word, key);
        let leaf = shard.leaf_of(slot);
        let at = match leaf.find(word, key) {
            Ok(at) => at + usize::from(above),
            Err(at) => at,
        };
        if at < leaf.len() { Position { shard: number, slot, at } } else { self.next_leaf(number, slot) }
    }

    /// The start of the leaf after that of a slot.
    fn next_leaf(&self, shard: usize, slot: usize) -> Position {
        if slot + 1 < self.shards[shard].slots() {
            Position { shard, slot: slot + 1, at: 0 }
        } else {
            Position { shard: shard + 1, slot: 0, at: 0 }
        }
    }
}

impl<'a, K: Key, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let leaf = self.leaf?;
        let item = leaf.get(self.front.at);
        self.front.at += 1;
        if self.front.at == leaf.len() {
            self.front = self.map.next_leaf(self.front.shard, self.front.slot);
            if self.front < self.back {
                self.leaf = Some(self.map.shards[self.front.shard].leaf_of(self.front.slot));
            }
        }
        if self.front == self.back {
            self.leaf = None;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.leaf.is_some()), Some(self.map.len()))
    }
}

impl<K: Key, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.leaf?;
        let Position { mut shard, mut slot, mut at } = self.back;
        if at == 0 {
            if slot == 0 {
                shard -= 1;
                slot = self.map.shards[shard].slots();
            }
            slot -= 1;
            at = self.map.shards[shard].leaf_of(slot).len();
        }
        self.back = Position { shard, slot, at: at - 1 };
        if self.front == self.back {
            self.leaf = None;
        }
        Some(self.map.shards[shard].leaf_of(slot).get(at - 1))
    }
}

impl<K: Key, V> FusedIterator for Iter<'_, K, V> {}

impl<K: Key, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

impl<K: Key + fmt::Debug, V: fmt::Debug> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'a, K: Key, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Key, V> Extend<(K, V)> for OrderedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl<K: Key, V> FromIterator<(K, V)> for OrderedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = Self::new();
        map.extend(items);
        map
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

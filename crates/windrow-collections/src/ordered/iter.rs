//! Iterators over a map and a set, in the order of keys.

use std::borrow::Borrow;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

use super::leaf::Leaf;
use super::map::OrderedMap;
use super::ops::{key_of, value_of};
use super::walk::{Mutable, Owned, Position, Shared, Walk, leaves, leaves_mut};
use crate::keys::{Key, Prefix};

/// A walk over all of a map, whose length is known.
#[derive(Clone)]
pub(super) struct Counted<I> {
    walk: I,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        let next = self.walk.next()?;
        self.left -= 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: DoubleEndedIterator> DoubleEndedIterator for Counted<I> {
    #[inline]
    fn next_back(&mut self) -> Option<I::Item> {
        let next = self.walk.next_back()?;
        self.left -= 1;
        Some(next)
    }
}

/// All keys and values of an [`OrderedMap`], ascending: see [`OrderedMap::iter`].
pub struct Iter<'a, K: Key, V>(Counted<Shared<'a, K, V>>);

/// The keys and values of a range of an [`OrderedMap`], ascending: see [`OrderedMap::range`].
pub struct Range<'a, K: Key, V>(Shared<'a, K, V>);

/// All keys and mutable values of an [`OrderedMap`], ascending: see [`OrderedMap::iter_mut`].
pub struct IterMut<'a, K: Key, V>(Counted<Mutable<'a, K, V>>);

/// The keys and mutable values of a range of an [`OrderedMap`], ascending: see [`OrderedMap::range_mut`].
pub struct RangeMut<'a, K: Key, V>(Mutable<'a, K, V>);

/// The keys and values of an [`OrderedMap`] by value, ascending.
pub struct IntoIter<K: Key, V>(Counted<Owned<K, V>>);

/// The keys of an [`OrderedMap`] or an [`OrderedSet`](crate::OrderedSet), ascending.
pub struct Keys<'a, K: Key, V = ()>(Iter<'a, K, V>);

/// The keys of a range of an [`OrderedSet`](crate::OrderedSet), ascending: see [`OrderedSet::range`](crate::OrderedSet::range).
pub struct SetRange<'a, K: Key>(Range<'a, K, ()>);

/// The keys of an [`OrderedMap`] or an [`OrderedSet`](crate::OrderedSet) by value, ascending.
pub struct IntoKeys<K: Key, V = ()>(IntoIter<K, V>);

/// The values of an [`OrderedMap`], in the order of their keys: see [`OrderedMap::values`].
pub struct Values<'a, K: Key, V>(Iter<'a, K, V>);

/// The mutable values of an [`OrderedMap`], in the order of their keys: see [`OrderedMap::values_mut`].
pub struct ValuesMut<'a, K: Key, V>(IterMut<'a, K, V>);

/// The values of an [`OrderedMap`] by value, in the order of their keys: see [`OrderedMap::into_values`].
pub struct IntoValues<K: Key, V>(IntoIter<K, V>);

/// What an iterator over another one has to do.
macro_rules! iterator {
    ([$($generics:tt)*] $name:ty, $item:ty, |$entry:pat_param| $made:expr) => {
        impl<$($generics)*> Iterator for $name {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.next().map(|$entry| $made)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<$($generics)*> DoubleEndedIterator for $name {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                self.0.next_back().map(|$entry| $made)
            }
        }

        impl<$($generics)*> FusedIterator for $name {}
    };
}

iterator!(['a, K: Key, V] Iter<'a, K, V>, (&'a K, &'a V), |entry| entry);
iterator!(['a, K: Key, V] Range<'a, K, V>, (&'a K, &'a V), |entry| entry);
iterator!(['a, K: Key, V] IterMut<'a, K, V>, (&'a K, &'a mut V), |entry| entry);
iterator!(['a, K: Key, V] RangeMut<'a, K, V>, (&'a K, &'a mut V), |entry| entry);
iterator!([K: Key, V] IntoIter<K, V>, (K, V), |entry| entry);
iterator!(['a, K: Key, V] Keys<'a, K, V>, &'a K, |(key, _)| key);
iterator!(['a, K: Key] SetRange<'a, K>, &'a K, |(key, ())| key);
iterator!([K: Key, V] IntoKeys<K, V>, K, |entry| key_of(entry));
iterator!(['a, K: Key, V] Values<'a, K, V>, &'a V, |(_, value)| value);
iterator!(['a, K: Key, V] ValuesMut<'a, K, V>, &'a mut V, |(_, value)| value);
iterator!([K: Key, V] IntoValues<K, V>, V, |entry| value_of(entry));

macro_rules! exact {
    ($([$($generics:tt)*] $name:ty;)*) => { $(
        impl<$($generics)*> ExactSizeIterator for $name {}
    )* };
}

exact! {
    [K: Key, V] Iter<'_, K, V>; [K: Key, V] IterMut<'_, K, V>; [K: Key, V] IntoIter<K, V>;
    [K: Key, V] Keys<'_, K, V>; [K: Key, V] IntoKeys<K, V>;
    [K: Key, V] Values<'_, K, V>; [K: Key, V] ValuesMut<'_, K, V>; [K: Key, V] IntoValues<K, V>;
}

/// Iterators that can be cloned, and so show their items.
macro_rules! shared {
    ($([$($generics:tt)*] [$($shown:tt)*] $name:ident<$($of:ty),*>;)*) => { $(
        impl<$($generics)*> Clone for $name<'_, $($of),*> {
            fn clone(&self) -> Self {
                $name(self.0.clone())
            }
        }

        impl<$($shown)*> fmt::Debug for $name<'_, $($of),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.clone()).finish()
            }
        }
    )* };
}

shared! {
    [K: Key, V] [K: Key + fmt::Debug, V: fmt::Debug] Iter<K, V>;
    [K: Key, V] [K: Key + fmt::Debug, V: fmt::Debug] Range<K, V>;
    [K: Key, V] [K: Key + fmt::Debug, V] Keys<K, V>;
    [K: Key] [K: Key + fmt::Debug] SetRange<K>;
    [K: Key, V] [K: Key, V: fmt::Debug] Values<K, V>;
}

macro_rules! opaque {
    ($([$($generics:tt)*] $name:ident: $full:ty;)*) => { $(
        impl<$($generics)*> fmt::Debug for $full {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )* };
}

opaque! {
    [K: Key, V] IterMut: IterMut<'_, K, V>;
    [K: Key, V] RangeMut: RangeMut<'_, K, V>;
    [K: Key, V] IntoIter: IntoIter<K, V>;
    [K: Key, V] IntoKeys: IntoKeys<K, V>;
    [K: Key, V] ValuesMut: ValuesMut<'_, K, V>;
    [K: Key, V] IntoValues: IntoValues<K, V>;
}

/// The ends of a range of keys, none of which is behind the last key of its leaf.
type Ends = (Position, Position);

impl<K: Key, V> OrderedMap<K, V> {
    /// All keys and values, ascending.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(Counted { walk: Walk::over(self.shards.iter()), left: self.len })
    }

    /// All keys and mutable values, ascending.
    ///
    /// ```
    /// let mut map: windrow_collections::OrderedMap<i32, u64> = [(1, 10), (2, 20)].into();
    /// map.iter_mut().for_each(|(_, value)| *value += 1);
    /// assert!(map.values().eq(&[11, 21]));
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(Counted { walk: Walk::over(self.shards.iter_mut()), left: self.len })
    }

    /// All keys, ascending.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.iter())
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// All values, mutable, in the order of their keys.
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.iter_mut())
    }

    /// All keys by value, ascending.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.into_iter())
    }

    /// All values by value, in the order of their keys.
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.into_iter())
    }

    /// The keys of a range with their values, ascending.
    ///
    /// # Panics
    /// If the start of the range is behind its end, or both ends are equal and excluded, as for `BTreeMap`.
    ///
    /// ```
    /// let map: windrow_collections::OrderedMap<i32, char> = [(1, 'a'), (2, 'b'), (3, 'c')].into();
    /// assert!(map.range(..=2).rev().eq([(&2, &'b'), (&1, &'a')]));
    /// ```
    pub fn range<Q>(&self, range: impl RangeBounds<Q>) -> Range<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        Range(match self.ends_of(range) {
            Some((first, last)) => {
                Walk::between(self.shards[first.shard..=last.shard].iter(), first, last, leaves, Leaf::entries)
            }
            None => Walk::over([].iter()),
        })
    }

    /// The keys of a range with their values, mutable, ascending. Begins with a list of the leaves in the range, up to about a
    /// thousand at each end.
    ///
    /// # Panics
    /// As for [`range`](Self::range).
    ///
    /// ```
    /// let mut map: windrow_collections::OrderedMap<i32, char> = [(1, 'a'), (2, 'b'), (3, 'c')].into();
    /// map.range_mut(2..).for_each(|(_, value)| value.make_ascii_uppercase());
    /// assert!(map.into_values().eq(['a', 'B', 'C']));
    /// ```
    pub fn range_mut<Q>(&mut self, range: impl RangeBounds<Q>) -> RangeMut<'_, K, V>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        RangeMut(match self.ends_of(range) {
            Some((first, last)) => {
                let shards = self.shards[first.shard..=last.shard].iter_mut();
                Walk::between(shards, first, last, leaves_mut, Leaf::entries_mut)
            }
            None => Walk::over([].iter_mut()),
        })
    }

    /// The first entry of a range, and the position behind its last entry in the leaf of that entry; `None` if the range is empty.
    fn ends_of<Q>(&self, range: impl RangeBounds<Q>) -> Option<Ends>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        if let (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) =
            (range.start_bound(), range.end_bound())
        {
            let excluded = |bound: Bound<&Q>| matches!(bound, Bound::Excluded(_));
            let none = excluded(range.start_bound()) && excluded(range.end_bound());
            assert!(low <= high, "the range begins after its end");
            assert!(!(none && low == high), "the range excludes both of its bounds, which are equal");
        }
        let first = match range.start_bound() {
            Bound::Included(key) => self.position(key, false),
            Bound::Excluded(key) => self.position(key, true),
            Bound::Unbounded => Position { shard: 0, slot: 0, at: 0 },
        };
        let behind = match range.end_bound() {
            Bound::Included(key) => self.position(key, true),
            Bound::Excluded(key) => self.position(key, false),
            Bound::Unbounded => self.end(),
        };
        (first < behind && !self.is_empty()).then(|| (first, self.behind_last(behind)))
    }

    fn end(&self) -> Position {
        Position { shard: self.shards.len(), slot: 0, at: 0 }
    }

    /// A position behind an entry, as the one in the leaf of that entry.
    fn behind_last(&self, behind: Position) -> Position {
        match behind {
            Position { at: 1.., .. } => behind,
            Position { shard, slot: slot @ 1.., .. } => {
                Position { shard, slot: slot - 1, at: self.shards[shard].leaf_of(slot - 1).len() }
            }
            Position { shard, .. } => {
                let last = &self.shards[shard - 1];
                let slot = last.slots() - 1;
                Position { shard: shard - 1, slot, at: last.leaf_of(slot).len() }
            }
        }
    }

    /// The first key that is not below `key`, or with `above`, the first key above it.
    pub(super) fn position<Q>(&self, key: &Q, above: bool) -> Position
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
        let at = match shard.find_on(shard.way_to(slot), word, key) {
            Ok(at) => at + usize::from(above),
            Err(at) => at,
        };
        if at < leaf.len() {
            Position { shard: number, slot, at }
        } else if slot + 1 < shard.slots() {
            Position { shard: number, slot: slot + 1, at: 0 }
        } else {
            Position { shard: number + 1, slot: 0, at: 0 }
        }
    }
}

impl<'a, K: Key> SetRange<'a, K> {
    pub(super) fn new(range: Range<'a, K, ()>) -> Self {
        SetRange(range)
    }
}

impl<'a, K: Key, V> IntoIterator for &'a OrderedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K: Key, V> IntoIterator for &'a mut OrderedMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K: Key, V> IntoIterator for OrderedMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        let OrderedMap { top, shards, len, scratch, .. } = self;
        // Before the iterator is made: if a drop panics, the iterator would leak.
        drop((top, scratch));
        IntoIter(Counted { walk: Walk::over(shards.into_iter()), left: len })
    }
}

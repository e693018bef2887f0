//! A leaf: up to `CAPACITY` sorted keys and their values.

use std::borrow::Borrow;
use std::iter::Zip;
use std::ops::Range;
use std::slice;

use arrayvec::ArrayVec;

use crate::keys::column::Sealed;
use crate::keys::{CAPACITY, Key, Prefix, Skip};

/// The length of `values` is the number of keys. The values of a set are zero-sized, so that length is the whole header.
#[repr(align(64))]
#[derive(Clone)]
pub(super) struct Leaf<K: Key, V> {
    keys: K::Column,
    values: ArrayVec<V, CAPACITY>,
}

impl<K: Key, V> Leaf<K, V> {
    pub(super) fn new() -> Self {
        Leaf { keys: K::Column::empty(), values: ArrayVec::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.values.is_full()
    }

    #[inline]
    pub(super) fn find<Q>(&self, word: K::Word, key: &Q, known: Skip) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Prefix<Word = K::Word> + ?Sized,
    {
        self.keys.find(self.len(), word, key, known)
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &K {
        self.keys.key(at)
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> (&K, &V) {
        (self.keys.key(at), &self.values[at])
    }

    /// True if the key at `at` is below `key`.
    #[inline]
    pub(super) fn is_below(&self, at: usize, word: K::Word, key: &K) -> bool {
        self.keys.is_below(at, word, key)
    }

    /// True if the words of the keys are right.
    pub(super) fn is_whole(&self) -> bool {
        self.keys.is_whole(self.len())
    }

    #[inline]
    pub(super) fn value(&mut self, at: usize) -> &mut V {
        &mut self.values[at]
    }

    /// Inserts a key that keeps the keys sorted into a leaf that is not full.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, word: K::Word, key: K, value: V) {
        self.keys.insert(self.len(), at, word, key);
        self.values.insert(at, value);
    }

    pub(super) fn remove(&mut self, at: usize) -> (K, V) {
        let key = self.keys.remove(self.len(), at);
        (key, self.values.remove(at))
    }

    /// Lends the value at `at` to `f`, which does not panic. Removes the key, and returns it, if `f` takes the value.
    pub(super) fn lend<R>(&mut self, at: usize, f: impl FnOnce(&mut Option<V>) -> R) -> (R, Option<K>) {
        // The last value stands in: two moves instead of moving all values behind this one.
        let mut lent = Some(self.values.swap_remove(at));
        let result = f(&mut lent);
        let Some(value) = lent else {
            if let rest @ [_, ..] = &mut self.values[at..] {
                rest.rotate_left(1);
            }
            return (result, Some(self.keys.remove(self.len() + 1, at)));
        };
        let last = self.len();
        self.values.push(value);
        self.values.swap(at, last);
        (result, None)
    }

    /// The index at which to divide a full leaf.
    pub(super) fn middle(&self) -> usize {
        self.keys.middle()
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let keys = self.keys.split_off(self.len(), at);
        Leaf { keys, values: self.values.drain(at..).collect() }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.keys.append(self.len(), other.keys, other.values.len());
        self.values.extend(other.values);
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        self.keys.prefetch();
    }
}

/// Keys and values of a leaf.
pub(super) type Entries<'a, K, V> = Zip<slice::Iter<'a, K>, slice::Iter<'a, V>>;
pub(super) type EntriesMut<'a, K, V> = Zip<slice::Iter<'a, K>, slice::IterMut<'a, V>>;
pub(super) type IntoEntries<K, V> = Zip<<<K as Key>::Column as Sealed<K>>::IntoKeys, arrayvec::IntoIter<V, CAPACITY>>;

impl<K: Key, V> Leaf<K, V> {
    /// The indices of a range that may end behind the last key.
    fn within(&self, range: Range<usize>) -> Range<usize> {
        range.start..range.end.min(self.len())
    }

    pub(super) fn entries(&self, range: Range<usize>) -> Entries<'_, K, V> {
        let range = self.within(range);
        self.keys.keys(self.len())[range.clone()].iter().zip(&self.values[range])
    }

    pub(super) fn entries_mut(&mut self, range: Range<usize>) -> EntriesMut<'_, K, V> {
        let range = self.within(range);
        self.keys.keys(self.values.len())[range.clone()].iter().zip(&mut self.values[range])
    }

    /// Removes the keys for which `keep` is false. If it panics, the keys before that one are done.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let mut at = 0;
        while at < self.len() {
            if keep(self.keys.key(at), &mut self.values[at]) {
                at += 1;
            } else {
                // Dropping may panic; both are removed.
                drop(self.remove(at));
            }
        }
    }
}

impl<'a, K: Key, V> IntoIterator for &'a Leaf<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Entries<'a, K, V>;

    #[inline]
    fn into_iter(self) -> Entries<'a, K, V> {
        self.entries(0..usize::MAX)
    }
}

impl<'a, K: Key, V> IntoIterator for &'a mut Leaf<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = EntriesMut<'a, K, V>;

    #[inline]
    fn into_iter(self) -> EntriesMut<'a, K, V> {
        self.entries_mut(0..usize::MAX)
    }
}

impl<K: Key, V> IntoIterator for Leaf<K, V> {
    type Item = (K, V);
    type IntoIter = IntoEntries<K, V>;

    fn into_iter(self) -> IntoEntries<K, V> {
        self.keys.into_keys().zip(self.values)
    }
}

//! Walks over the leaves of a map in the order of their keys: shared, mutable and owned.

use std::iter::{Flatten, FusedIterator};
use std::mem;
use std::ops::Range;
use std::{slice, vec};

use super::leaf::{Entries, EntriesMut, IntoEntries, Leaf};
use super::shard::Shard;
use crate::keys::Key;

/// An iterator over shards, over the leaves of the shards in work, and over the entries of the leaves in work: from both ends.
#[derive(Clone)]
pub(super) struct Walk<S, L, E> {
    shards: S,
    front: Option<L>,
    back: Option<L>,
    low: Option<E>,
    high: Option<E>,
}

pub(super) type Shared<'a, K, V> = Walk<slice::Iter<'a, Shard<K, V>>, Leaves<'a, K, V>, Entries<'a, K, V>>;
pub(super) type Mutable<'a, K, V> = Walk<slice::IterMut<'a, Shard<K, V>>, LeavesMut<'a, K, V>, EntriesMut<'a, K, V>>;
pub(super) type Owned<K, V> = Walk<vec::IntoIter<Shard<K, V>>, IntoLeaves<K, V>, IntoEntries<K, V>>;

/// The place of an entry, or the one behind a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) shard: usize,
    pub(super) slot: usize,
    pub(super) at: usize,
}

impl<S, L, E> Walk<S, L, E> {
    /// Over all of `shards`.
    pub(super) fn over(shards: S) -> Self {
        Walk { shards, front: None, back: None, low: None, high: None }
    }
}

impl<S, L, E> Walk<S, L, E>
where
    S: DoubleEndedIterator,
    L: DoubleEndedIterator,
{
    /// From `first` in the first of `shards` to before `last` in the last of them. `last` is in the leaf of the last entry, behind it.
    pub(super) fn between(
        mut shards: S,
        first: Position,
        last: Position,
        leaves: impl Fn(S::Item, Range<usize>) -> L,
        entries: impl Fn(L::Item, Range<usize>) -> E,
    ) -> Self {
        let from = |shard| leaves(shard, first.slot..usize::MAX);
        let low = |leaf| entries(leaf, first.at..usize::MAX);
        let high = |leaf| entries(leaf, 0..last.at);
        if first.shard < last.shard {
            let mut front = shards.next().map(from);
            let mut back = shards.next_back().map(|shard| leaves(shard, 0..last.slot + 1));
            let low = front.as_mut().and_then(Iterator::next).map(low);
            let high = back.as_mut().and_then(DoubleEndedIterator::next_back).map(high);
            return Walk { shards, front, back, low, high };
        }
        let mut front = shards.next().map(|shard| leaves(shard, first.slot..last.slot + 1));
        let leaf = front.as_mut().and_then(Iterator::next);
        if first.slot == last.slot {
            let low = leaf.map(|leaf| entries(leaf, first.at..last.at));
            return Walk { shards, front, back: None, low, high: None };
        }
        let high = front.as_mut().and_then(DoubleEndedIterator::next_back).map(high);
        Walk { shards, front, back: None, low: leaf.map(low), high }
    }
}

/// The next item of an iterator that may not have begun.
#[inline]
fn next<I: Iterator>(iterator: &mut Option<I>) -> Option<I::Item> {
    iterator.as_mut()?.next()
}

#[inline]
fn next_back<I: DoubleEndedIterator>(iterator: &mut Option<I>) -> Option<I::Item> {
    iterator.as_mut()?.next_back()
}

impl<S, L, E> Iterator for Walk<S, L, E>
where
    S: DoubleEndedIterator<Item: IntoIterator<IntoIter = L>>,
    L: DoubleEndedIterator<Item: IntoIterator<IntoIter = E>>,
    E: DoubleEndedIterator,
{
    type Item = E::Item;

    #[inline]
    fn next(&mut self) -> Option<E::Item> {
        loop {
            if let Some(entry) = next(&mut self.low) {
                return Some(entry);
            }
            let leaf = loop {
                if let Some(leaf) = next(&mut self.front) {
                    break Some(leaf);
                }
                match self.shards.next() {
                    Some(shard) => self.front = Some(shard.into_iter()),
                    None => break next(&mut self.back),
                }
            };
            match leaf {
                Some(leaf) => self.low = Some(leaf.into_iter()),
                None => return next(&mut self.high),
            }
        }
    }
}

impl<S, L, E> DoubleEndedIterator for Walk<S, L, E>
where
    S: DoubleEndedIterator<Item: IntoIterator<IntoIter = L>>,
    L: DoubleEndedIterator<Item: IntoIterator<IntoIter = E>>,
    E: DoubleEndedIterator,
{
    #[inline]
    fn next_back(&mut self) -> Option<E::Item> {
        loop {
            if let Some(entry) = next_back(&mut self.high) {
                return Some(entry);
            }
            let leaf = loop {
                if let Some(leaf) = next_back(&mut self.back) {
                    break Some(leaf);
                }
                match self.shards.next_back() {
                    Some(shard) => self.back = Some(shard.into_iter()),
                    None => break next_back(&mut self.front),
                }
            };
            match leaf {
                Some(leaf) => self.high = Some(leaf.into_iter()),
                None => return next_back(&mut self.low),
            }
        }
    }
}

impl<S, L, E> FusedIterator for Walk<S, L, E> where Self: Iterator {}

/// The leaves of a shard, or of some of its slots, in order.
pub(super) struct Leaves<'a, K: Key, V> {
    leaves: &'a [Leaf<K, V>],
    places: slice::Iter<'a, u32>,
}

impl<K: Key, V> Clone for Leaves<'_, K, V> {
    fn clone(&self) -> Self {
        Leaves { leaves: self.leaves, places: self.places.clone() }
    }
}

impl<'a, K: Key, V> Iterator for Leaves<'a, K, V> {
    type Item = &'a Leaf<K, V>;

    #[inline]
    fn next(&mut self) -> Option<&'a Leaf<K, V>> {
        self.places.next().map(|place| &self.leaves[*place as usize])
    }
}

impl<K: Key, V> DoubleEndedIterator for Leaves<'_, K, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.places.next_back().map(|place| &self.leaves[*place as usize])
    }
}

/// As [`Leaves`], mutable: in a list, because the order of leaves in memory is another.
pub(super) type LeavesMut<'a, K, V> = Flatten<vec::IntoIter<Option<&'a mut Leaf<K, V>>>>;

/// As [`Leaves`], owned.
pub(super) struct IntoLeaves<K: Key, V> {
    leaves: Vec<Leaf<K, V>>,
    places: vec::IntoIter<u32>,
}

impl<K: Key, V> IntoLeaves<K, V> {
    fn leaf(&mut self, place: u32) -> Leaf<K, V> {
        mem::replace(&mut self.leaves[place as usize], Leaf::new())
    }
}

impl<K: Key, V> Iterator for IntoLeaves<K, V> {
    type Item = Leaf<K, V>;

    fn next(&mut self) -> Option<Leaf<K, V>> {
        let place = self.places.next()?;
        Some(self.leaf(place))
    }
}

impl<K: Key, V> DoubleEndedIterator for IntoLeaves<K, V> {
    fn next_back(&mut self) -> Option<Leaf<K, V>> {
        let place = self.places.next_back()?;
        Some(self.leaf(place))
    }
}

/// The indices of `slots` that exist.
fn existing(slots: Range<usize>, places: &[u32]) -> Range<usize> {
    slots.start..slots.end.min(places.len())
}

pub(super) fn leaves<K: Key, V>(shard: &Shard<K, V>, slots: Range<usize>) -> Leaves<'_, K, V> {
    let (places, leaves) = shard.parts();
    Leaves { leaves, places: places[existing(slots, places)].iter() }
}

pub(super) fn leaves_mut<K: Key, V>(shard: &mut Shard<K, V>, slots: Range<usize>) -> LeavesMut<'_, K, V> {
    let (places, leaves) = shard.parts_mut();
    let places = &places[existing(slots, places)];
    // In the order of memory, in which references can be handed out, with the index in the order of slots.
    let mut order: Vec<(u32, usize)> = places.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut found: Vec<_> = places.iter().map(|_| None).collect();
    let (mut rest, mut passed) = (leaves.iter_mut(), 0);
    for (place, at) in order {
        found[at] = rest.nth(place as usize - passed);
        passed = place as usize + 1;
    }
    found.into_iter().flatten()
}

impl<'a, K: Key, V> IntoIterator for &'a Shard<K, V> {
    type Item = &'a Leaf<K, V>;
    type IntoIter = Leaves<'a, K, V>;

    fn into_iter(self) -> Leaves<'a, K, V> {
        leaves(self, 0..usize::MAX)
    }
}

impl<'a, K: Key, V> IntoIterator for &'a mut Shard<K, V> {
    type Item = &'a mut Leaf<K, V>;
    type IntoIter = LeavesMut<'a, K, V>;

    fn into_iter(self) -> LeavesMut<'a, K, V> {
        leaves_mut(self, 0..usize::MAX)
    }
}

impl<K: Key, V> IntoIterator for Shard<K, V> {
    type Item = Leaf<K, V>;
    type IntoIter = IntoLeaves<K, V>;

    fn into_iter(self) -> IntoLeaves<K, V> {
        let (places, leaves) = self.into_parts();
        IntoLeaves { leaves, places: places.into_iter() }
    }
}

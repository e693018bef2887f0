//! Sources of parallel iterators.
//!
//! Sources with random access are divided in place: slices, vectors, arrays, ranges, both halves of a `VecDeque`. Maps, sets and
//! lists have no random access. Behind shared references they are walked, and gathered into a vector if the call is shared. Owned items, and
//! mutable references, are gathered first, on the calling thread.

use std::collections::{
    BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque, btree_map, btree_set, hash_map, hash_set,
    linked_list,
};
use std::ops::{Range, RangeBounds};

use windrow_plan::share::Extra;
use windrow_sync::sources::{SliceMut, VecItems};
use windrow_sync::views::Merged;

use super::recipe::{Chain, Plain, Walked};
use super::{IntoParallelIterator, Par};

macro_rules! into_par_iter {
    ($([$($generics:tt)*] $from:ty, $item:ty, $source:ty, $self:ident => $new:expr;)*) => {$(
        impl<$($generics)*> IntoParallelIterator for $from {
            type Item = $item;
            type Iter = Par<$source, Plain>;
            fn into_par_iter($self) -> Self::Iter {
                Par::new($new)
            }
        }
    )*};
}
into_par_iter! {
    [T: Send] Vec<T>, T, VecItems<T>, self => VecItems::new(self);
    [T: Send] Box<[T]>, T, VecItems<T>, self => VecItems::new(self.into_vec());
    [T: Send, const N: usize] [T; N], T, VecItems<T>, self => VecItems::new(self.into());
    [T: Send] BinaryHeap<T>, T, VecItems<T>, self => VecItems::new(self.into_vec());
    [T: Send] VecDeque<T>, T, VecItems<T>, self => VecItems::new(self.into());
    ['a, T: Sync] &'a [T], &'a T, &'a [T], self => self;
    ['a, T: Sync] &'a Vec<T>, &'a T, &'a [T], self => self;
    ['a, T: Sync] &'a Box<[T]>, &'a T, &'a [T], self => self;
    ['a, T: Sync, const N: usize] &'a [T; N], &'a T, &'a [T], self => self;
    ['a, T: Sync] &'a BinaryHeap<T>, &'a T, &'a [T], self => self.as_slice();
    ['a, T: Sync] &'a Option<T>, &'a T, &'a [T], self => self.as_slice();
    ['a, T: Send] &'a mut [T], &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send] &'a mut Vec<T>, &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send] &'a mut Box<[T]>, &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send, const N: usize] &'a mut [T; N], &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send] &'a mut Option<T>, &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self.as_mut_slice());
}

/// Collections without random access, behind shared references.
macro_rules! walked {
    ($([$($generics:tt)*] $from:ty, $items:ty;)*) => {$(
        impl<$($generics)*> IntoParallelIterator for $from {
            type Item = <$items as Iterator>::Item;
            type Iter = Par<Range<usize>, Walked<$items>>;
            fn into_par_iter(self) -> Self::Iter {
                let mut walked = Par::of(0..self.len(), Walked::new(self.iter(), self.len()));
                walked.hints.extra = Extra::Copy(size_of::<Self::Item>());
                walked
            }
        }
    )*};
}
walked! {
    ['a, T: Sync] &'a LinkedList<T>, linked_list::Iter<'a, T>;
    ['a, T: Sync] &'a BTreeSet<T>, btree_set::Iter<'a, T>;
    ['a, T: Sync, S] &'a HashSet<T, S>, hash_set::Iter<'a, T>;
    ['a, K: Sync, V: Sync] &'a BTreeMap<K, V>, btree_map::Iter<'a, K, V>;
    ['a, K: Sync, V: Sync, S] &'a HashMap<K, V, S>, hash_map::Iter<'a, K, V>;
}

/// Collections without random access whose items are moved out or lent mutably: gathered first.
macro_rules! gathered {
    ($([$($generics:tt)*] $from:ty, $item:ty;)*) => {
        into_par_iter! { $([$($generics)*] $from, $item, VecItems<$item>, self => VecItems::new(self.into_iter().collect());)* }
    };
}
gathered! {
    [T: Send] Option<T>, T;
    [T: Send, E] Result<T, E>, T;
    ['a, T: Sync, E] &'a Result<T, E>, &'a T;
    ['a, T: Send, E] &'a mut Result<T, E>, &'a mut T;
    [T: Send] LinkedList<T>, T;
    ['a, T: Send] &'a mut LinkedList<T>, &'a mut T;
    [T: Send] BTreeSet<T>, T;
    [T: Send, S] HashSet<T, S>, T;
    [K: Send, V: Send] BTreeMap<K, V>, (K, V);
    ['a, K: Sync, V: Send] &'a mut BTreeMap<K, V>, (&'a K, &'a mut V);
    [K: Send, V: Send, S] HashMap<K, V, S>, (K, V);
    ['a, K: Sync, V: Send, S] &'a mut HashMap<K, V, S>, (&'a K, &'a mut V);
}

impl<'a, T: Sync> IntoParallelIterator for &'a VecDeque<T> {
    type Item = &'a T;
    type Iter = Par<Merged<&'a [T], &'a [T]>, Chain<Plain, Plain>>;
    fn into_par_iter(self) -> Self::Iter {
        let (front, back) = self.as_slices();
        Par::of(Merged::one_after_the_other(front, back), Chain(Plain, Plain))
    }
}

impl<'a, T: Send> IntoParallelIterator for &'a mut VecDeque<T> {
    type Item = &'a mut T;
    type Iter = Par<Merged<SliceMut<'a, T>, SliceMut<'a, T>>, Chain<Plain, Plain>>;
    fn into_par_iter(self) -> Self::Iter {
        let (front, back) = self.as_mut_slices();
        Par::of(Merged::one_after_the_other(SliceMut::new(front), SliceMut::new(back)), Chain(Plain, Plain))
    }
}

/// Collections that a range of items can be drained from.
pub trait ParallelDrainRange<Idx = usize> {
    /// The type of the items.
    type Item: Send;
    /// The type of the iterator.
    type Iter;
    /// The items in `range`. They are removed from the collection in this call: the calling thread moves them to a separate vector, and
    /// moves the items after them up.
    ///
    /// # Panics
    /// If the range is not inside the collection, or if an end of a range of a `String` is inside a character.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut all: Vec<u32> = (0..10).collect();
    /// assert_eq!(all.par_drain(2..8).sum::<u32>(), 27);
    /// assert_eq!(all, [0, 1, 8, 9]);
    /// ```
    fn par_drain<R: RangeBounds<Idx>>(self, range: R) -> Self::Iter;
}

macro_rules! drain_ranges {
    ($([$($generics:tt)*] $from:ty, $item:ty;)*) => {$(
        impl<$($generics)*> ParallelDrainRange for &mut $from {
            type Item = $item;
            type Iter = Par<VecItems<$item>, Plain>;
            fn par_drain<R: RangeBounds<usize>>(self, range: R) -> Self::Iter {
                Par::new(VecItems::new(self.drain(range).collect()))
            }
        }
    )*};
}
drain_ranges! {
    [T: Send] Vec<T>, T;
    [T: Send] VecDeque<T>, T;
    [] String, char;
}

/// Collections that can only be drained as a whole.
///
/// ```
/// use std::collections::HashMap;
/// use windrow::prelude::*;
///
/// let mut ages = HashMap::from([("Ada", 36), ("Bob", 41)]);
/// assert_eq!(ages.par_drain().map(|(_, age)| age).sum::<u32>(), 77);
/// assert!(ages.is_empty());
/// ```
pub trait ParallelDrainFull {
    /// The type of the items.
    type Item: Send;
    /// The type of the iterator.
    type Iter;
    /// All items. They are removed from the collection in this call: the calling thread gathers them in a vector.
    fn par_drain(self) -> Self::Iter;
}

macro_rules! drains {
    ($([$($generics:tt)*] $from:ty, $item:ty;)*) => {$(
        impl<$($generics)*> ParallelDrainFull for &mut $from {
            type Item = $item;
            type Iter = Par<VecItems<$item>, Plain>;
            fn par_drain(self) -> Self::Iter {
                Par::new(VecItems::new(self.drain().collect()))
            }
        }
    )*};
}
drains! {
    [T: Send] BinaryHeap<T>, T;
    [T: Send, S] HashSet<T, S>, T;
    [K: Send, V: Send, S] HashMap<K, V, S>, (K, V);
}

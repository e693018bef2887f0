//! Names of the iterators over the standard library's collections, in modules named after those of the standard library.

use std::ops::{Range, RangeInclusive};

use windrow_sync::sources::{SliceMut, VecItems};
use windrow_sync::views::Merged;

use super::Par;
use super::adaptors::names;
use super::ranges::RangeItems;
use super::recipe::{self, Of, Plain, Walked};

/// Modules of named iterators.
macro_rules! modules {
    ($($(#[$doc:meta])* $module:ident { $($names:tt)* })*) => {$(
        $(#[$doc])*
        pub mod $module {
            use super::*;
            names! { $($names)* }
        }
    )*};
}
modules! {
    /// Iterators over vectors.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// struct Job {
    ///     items: windrow::vec::IntoIter<u32>,
    /// }
    ///
    /// let job = Job { items: vec![1, 2, 3].into_par_iter() };
    /// assert_eq!(job.items.sum::<u32>(), 6);
    /// ```
    vec {
        IntoIter<T> = VecItems<T>, Plain;
        Drain<T> = VecItems<T>, Plain;
    }
    /// Iterators over arrays: `array::IntoIter<T>`, of any length.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let items: windrow::array::IntoIter<u32> = [1, 2, 3].into_par_iter();
    /// assert_eq!(items.sum::<u32>(), 6);
    /// ```
    array {
        IntoIter<T> = VecItems<T>, Plain;
    }
    /// Iterators over ranges.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let numbers: windrow::range::Iter<u32> = (0..4).into_par_iter();
    /// assert_eq!(numbers.sum::<u32>(), 6);
    /// ```
    range {
        Iter<T> = Range<usize>, Of<RangeItems<Range<T>>>;
    }
    /// Iterators over inclusive ranges.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let numbers: windrow::range_inclusive::Iter<u32> = (0..=4).into_par_iter();
    /// assert_eq!(numbers.sum::<u32>(), 10);
    /// ```
    range_inclusive {
        Iter<T> = Range<usize>, Of<RangeItems<RangeInclusive<T>>>;
    }
    /// Iterators over options.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let item: windrow::option::IntoIter<u32> = Some(4).into_par_iter();
    /// assert_eq!(item.chain([5, 6]).collect::<Vec<_>>(), [4, 5, 6]);
    /// ```
    option {
        Iter<'a, T> = &'a [T], Plain;
        IterMut<'a, T> = SliceMut<'a, T>, Plain;
        IntoIter<T> = VecItems<T>, Plain;
    }
    /// Iterators over results.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // An error has no items.
    /// let item: windrow::result::IntoIter<u32> = "x".parse::<u32>().into_par_iter();
    /// assert_eq!(item.count(), 0);
    /// ```
    result {
        Iter<'a, T> = VecItems<&'a T>, Plain;
        IterMut<'a, T> = VecItems<&'a mut T>, Plain;
        IntoIter<T> = VecItems<T>, Plain;
    }
}

/// Iterators over collections.
///
/// ```
/// use std::collections::BTreeSet;
/// use windrow::prelude::*;
///
/// fn members(set: &BTreeSet<u32>) -> windrow::collections::btree_set::Iter<'_, u32> {
///     set.par_iter()
/// }
///
/// assert_eq!(members(&BTreeSet::from([3, 1, 2])).collect::<Vec<_>>(), [&1, &2, &3]);
/// ```
pub mod collections {
    use super::*;

    modules! {
        /// Iterators over hash maps.
        ///
        /// ```
        /// use std::collections::HashMap;
        /// use windrow::prelude::*;
        ///
        /// let ages = HashMap::from([("Ada", 36), ("Bob", 41)]);
        /// let iter: windrow::collections::hash_map::Iter<'_, &str, u32> = ages.par_iter();
        /// assert_eq!(iter.map(|(_, age)| age).sum::<u32>(), 77);
        /// ```
        hash_map {
            Iter<'a, K, V> = Range<usize>, Walked<std::collections::hash_map::Iter<'a, K, V>>;
            IterMut<'a, K, V> = VecItems<(&'a K, &'a mut V)>, Plain;
            IntoIter<K, V> = VecItems<(K, V)>, Plain;
            Drain<K, V> = VecItems<(K, V)>, Plain;
        }
        /// Iterators over ordered maps.
        ///
        /// ```
        /// use std::collections::BTreeMap;
        /// use windrow::prelude::*;
        ///
        /// let mut ages = BTreeMap::from([("Ada", 36), ("Bob", 41)]);
        /// let iter: windrow::collections::btree_map::IterMut<'_, &str, u32> = ages.par_iter_mut();
        /// iter.for_each(|(_, age)| *age += 1);
        /// assert_eq!(ages["Ada"], 37);
        /// ```
        btree_map {
            Iter<'a, K, V> = Range<usize>, Walked<std::collections::btree_map::Iter<'a, K, V>>;
            IterMut<'a, K, V> = VecItems<(&'a K, &'a mut V)>, Plain;
            IntoIter<K, V> = VecItems<(K, V)>, Plain;
        }
        /// Iterators over hash sets.
        ///
        /// ```
        /// use std::collections::HashSet;
        /// use windrow::prelude::*;
        ///
        /// let mut words = HashSet::from(["one", "fish"]);
        /// let drain: windrow::collections::hash_set::Drain<&str> = words.par_drain();
        /// assert_eq!(drain.map(str::len).sum::<usize>(), 7);
        /// assert!(words.is_empty());
        /// ```
        hash_set {
            Iter<'a, T> = Range<usize>, Walked<std::collections::hash_set::Iter<'a, T>>;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
        /// Iterators over ordered sets.
        ///
        /// ```
        /// use std::collections::BTreeSet;
        /// use windrow::prelude::*;
        ///
        /// let words = BTreeSet::from(["one", "fish"]);
        /// let iter: windrow::collections::btree_set::IntoIter<&str> = words.into_par_iter();
        /// assert_eq!(iter.collect::<Vec<_>>(), ["fish", "one"]);
        /// ```
        btree_set {
            Iter<'a, T> = Range<usize>, Walked<std::collections::btree_set::Iter<'a, T>>;
            IntoIter<T> = VecItems<T>, Plain;
        }
        /// Iterators over heaps.
        ///
        /// ```
        /// use std::collections::BinaryHeap;
        /// use windrow::prelude::*;
        ///
        /// let heap = BinaryHeap::from([1, 3, 2]);
        /// let iter: windrow::collections::binary_heap::Iter<'_, u32> = heap.par_iter();
        /// assert_eq!(iter.sum::<u32>(), 6);
        /// ```
        binary_heap {
            Iter<'a, T> = &'a [T], Plain;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
        /// Iterators over linked lists.
        ///
        /// ```
        /// use std::collections::LinkedList;
        /// use windrow::prelude::*;
        ///
        /// let list = LinkedList::from([1, 2, 3]);
        /// let iter: windrow::collections::linked_list::Iter<'_, u32> = list.par_iter();
        /// assert_eq!(iter.map(|item| item * 2).collect::<Vec<_>>(), [2, 4, 6]);
        /// ```
        linked_list {
            Iter<'a, T> = Range<usize>, Walked<std::collections::linked_list::Iter<'a, T>>;
            IterMut<'a, T> = VecItems<&'a mut T>, Plain;
            IntoIter<T> = VecItems<T>, Plain;
        }
        /// Iterators over double-ended queues.
        ///
        /// ```
        /// use std::collections::VecDeque;
        /// use windrow::prelude::*;
        ///
        /// let mut queue = VecDeque::from([1, 2, 3, 4]);
        /// let drain: windrow::collections::vec_deque::Drain<u32> = queue.par_drain(1..3);
        /// assert_eq!(drain.collect::<Vec<_>>(), [2, 3]);
        /// assert_eq!(queue, [1, 4]);
        /// ```
        vec_deque {
            Iter<'a, T> = Merged<&'a [T], &'a [T]>, recipe::Chain<Plain, Plain>;
            IterMut<'a, T> = Merged<SliceMut<'a, T>, SliceMut<'a, T>>, recipe::Chain<Plain, Plain>;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
    }
}

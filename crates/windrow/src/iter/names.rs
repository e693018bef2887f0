//! Names of the iterators over the standard library's collections, in modules named after those of the standard library.

use std::ops::Range;

use windrow_sync::sources::{SliceMut, VecItems};
use windrow_sync::views::Merged;

use super::Par;
use super::adaptors::names;
use super::ranges::{RangeItems, Upward};
use super::recipe::{self, Of, Plain};

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
    vec {
        IntoIter<T> = VecItems<T>, Plain;
        Drain<T> = VecItems<T>, Plain;
    }
    /// Iterators over arrays: `array::IntoIter<T>`, of any length.
    array {
        IntoIter<T> = VecItems<T>, Plain;
    }
    /// Iterators over ranges.
    range {
        Iter<T> = Range<usize>, Of<RangeItems<T>>;
    }
    /// Iterators over inclusive ranges.
    range_inclusive {
        Iter<T> = Range<usize>, Of<Upward<T>>;
    }
    /// Iterators over options.
    option {
        Iter<'a, T> = &'a [T], Plain;
        IterMut<'a, T> = SliceMut<'a, T>, Plain;
        IntoIter<T> = VecItems<T>, Plain;
    }
    /// Iterators over results.
    result {
        Iter<'a, T> = VecItems<&'a T>, Plain;
        IterMut<'a, T> = VecItems<&'a mut T>, Plain;
        IntoIter<T> = VecItems<T>, Plain;
    }
}

/// Iterators over collections.
pub mod collections {
    use super::*;

    modules! {
        /// Iterators over hash maps.
        hash_map {
            Iter<'a, K, V> = VecItems<(&'a K, &'a V)>, Plain;
            IterMut<'a, K, V> = VecItems<(&'a K, &'a mut V)>, Plain;
            IntoIter<K, V> = VecItems<(K, V)>, Plain;
            Drain<K, V> = VecItems<(K, V)>, Plain;
        }
        /// Iterators over ordered maps.
        btree_map {
            Iter<'a, K, V> = VecItems<(&'a K, &'a V)>, Plain;
            IterMut<'a, K, V> = VecItems<(&'a K, &'a mut V)>, Plain;
            IntoIter<K, V> = VecItems<(K, V)>, Plain;
        }
        /// Iterators over hash sets.
        hash_set {
            Iter<'a, T> = VecItems<&'a T>, Plain;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
        /// Iterators over ordered sets.
        btree_set {
            Iter<'a, T> = VecItems<&'a T>, Plain;
            IntoIter<T> = VecItems<T>, Plain;
        }
        /// Iterators over heaps.
        binary_heap {
            Iter<'a, T> = &'a [T], Plain;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
        /// Iterators over linked lists.
        linked_list {
            Iter<'a, T> = VecItems<&'a T>, Plain;
            IterMut<'a, T> = VecItems<&'a mut T>, Plain;
            IntoIter<T> = VecItems<T>, Plain;
        }
        /// Iterators over double-ended queues.
        vec_deque {
            Iter<'a, T> = Merged<&'a [T], &'a [T]>, recipe::Chain<Plain, Plain>;
            IterMut<'a, T> = Merged<SliceMut<'a, T>, SliceMut<'a, T>>, recipe::Chain<Plain, Plain>;
            IntoIter<T> = VecItems<T>, Plain;
            Drain<T> = VecItems<T>, Plain;
        }
    }
}

//! Ranges of integers and of `char`s.
//!
//! Their source is a range of indices. An index stands for one item. In ranges of 128-bit integers with more items than a `usize` counts, an
//! index stands for a run of items.

use std::ops::{Range, RangeInclusive};

use super::recipe::{Indexed, Indices, Of};
use super::{IntoParallelIterator, Par};
use crate::runtime::hints::Weights;

mod sealed {
    pub trait Sealed {}
}

/// Integers, and `char`. (One implementation covers all ranges, so the integer type of `0..9` is inferred from the use of its items.)
///
/// ```
/// use std::ops::Range;
/// use windrow::iter::Integer;
/// use windrow::prelude::*;
///
/// fn even<T: Integer + std::ops::Rem<Output = T> + From<u8>>(range: Range<T>) -> usize {
///     range.into_par_iter().filter(|number| *number % T::from(2) == T::from(0)).count()
/// }
///
/// assert_eq!((even(0u8..9), even(0i128..9)), (5, 5));
/// ```
pub trait Integer: Copy + PartialOrd + Send + Sync + sealed::Sealed {
    /// True if every index of every range stands for one item.
    #[doc(hidden)]
    const EXACT: bool = true;
    /// True if every index of `first..last` stands for one item.
    #[doc(hidden)]
    fn is_counted(_: Self, _: Self) -> bool {
        true
    }
    /// Number of indices of `first..last`.
    ///
    /// # Panics
    /// If the number is more than `usize::MAX`.
    #[doc(hidden)]
    fn steps(first: Self, last: Self) -> usize;
    /// The item of `first..last` that `index` begins with; `last` after the last index.
    #[doc(hidden)]
    fn at(first: Self, last: Self, index: usize) -> Self;
    /// The items of a range.
    #[doc(hidden)]
    fn items(range: Range<Self>) -> impl Iterator<Item = Self>;
    /// The items of `first..=last` at a run of indices.
    #[doc(hidden)]
    fn inclusive(first: Self, last: Self, run: Range<usize>) -> impl Iterator<Item = Self> {
        run.map(move |index| Self::at(first, last, index))
    }
}

/// Integers of up to 64 bits, and `char`: their ranges have an index for every item.
///
/// ```
/// use std::ops::Range;
/// use windrow::iter::IndexedInteger;
/// use windrow::prelude::*;
///
/// fn backwards<T: IndexedInteger>(range: Range<T>) -> Vec<T> {
///     range.into_par_iter().rev().collect()
/// }
///
/// assert_eq!(backwards('a'..'d'), ['c', 'b', 'a']);
/// ```
pub trait IndexedInteger: Integer {}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl sealed::Sealed for $int {}
        impl IndexedInteger for $int {}

        impl Integer for $int {
            #[inline]
            fn steps(first: Self, last: Self) -> usize {
                if first >= last {
                    return 0;
                }
                // The difference of two integers of this width fits the unsigned type of the same width.
                usize::try_from(last.abs_diff(first)).expect("a parallel range can have at most usize::MAX items")
            }
            #[inline]
            fn at(first: Self, _: Self, index: usize) -> Self {
                // `as` wraps for indices beyond the signed half; the wrapping sum is still right.
                first.wrapping_add(index as $int)
            }
            #[inline]
            fn items(range: Range<Self>) -> impl Iterator<Item = Self> {
                range
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// The number of items that an index stands for, in a range of `items`: 1 if `usize` has an index for each item, and for `last` of an
/// inclusive range.
fn unit(items: u128) -> u128 {
    items / (usize::MAX as u128 - 1) + 1
}

macro_rules! wide_integers {
    ($($int:ty),*) => {$(
        impl sealed::Sealed for $int {}

        impl Integer for $int {
            const EXACT: bool = false;

            fn is_counted(first: Self, last: Self) -> bool {
                first >= last || unit(last.abs_diff(first)) == 1
            }
            fn steps(first: Self, last: Self) -> usize {
                let items = if first < last { last.abs_diff(first) } else { 0 };
                items.div_ceil(unit(items)) as usize
            }
            fn at(first: Self, last: Self, index: usize) -> Self {
                let items = last.abs_diff(first);
                first.wrapping_add((index as u128).saturating_mul(unit(items)).min(items) as $int)
            }
            fn items(range: Range<Self>) -> impl Iterator<Item = Self> {
                range
            }
            fn inclusive(first: Self, last: Self, run: Range<usize>) -> impl Iterator<Item = Self> {
                // The last index is that of `last` alone.
                let has_last = run.end > Self::steps(first, last);
                (Self::at(first, last, run.start)..Self::at(first, last, run.end)).chain(has_last.then_some(last))
            }
        }
    )*};
}
wide_integers!(u128, i128);

impl sealed::Sealed for char {}
impl IndexedInteger for char {}

impl Integer for char {
    fn steps(first: char, last: char) -> usize {
        // The standard library's range knows of the gap between '\u{d7ff}' and '\u{e000}'.
        (first..last).size_hint().0
    }
    fn at(first: char, _: char, index: usize) -> char {
        (first..=char::MAX).nth(index).expect("a range ends with a char")
    }
    fn items(range: Range<char>) -> impl Iterator<Item = char> {
        range
    }
}

/// Ranges of integers and of `char`s. Ranges of 128-bit integers are not indexed: they may have more than
/// `usize::MAX` items. Otherwise `opt_len` says how many.
///
/// # Panics
/// If a range of integers of up to 64 bits has more than `usize::MAX` items: possible where a `usize` has 32 bits.
///
/// ```
/// use windrow::prelude::*;
///
/// assert_eq!(('a'..'e').into_par_iter().rev().collect::<String>(), "dcba");
/// assert_eq!((0..u128::MAX).into_par_iter().find_first(|n| n % 1000 == 999), Some(999));
/// ```
impl<T: Integer> IntoParallelIterator for Range<T> {
    type Item = T;
    type Iter = Par<Range<usize>, Of<RangeItems<Self>>>;
    fn into_par_iter(self) -> Self::Iter {
        Par::of(0..T::steps(self.start, self.end), Of(RangeItems(self)))
    }
}

/// Inclusive ranges of integers and of `char`s. Ranges of 128-bit integers are not indexed: they may have more than
/// `usize::MAX` items. Otherwise `opt_len` says how many.
///
/// # Panics
/// If a range of integers of up to 64 bits has more than `usize::MAX` items.
impl<T: Integer> IntoParallelIterator for RangeInclusive<T> {
    type Item = T;
    type Iter = Par<Range<usize>, Of<RangeItems<Self>>>;
    fn into_par_iter(self) -> Self::Iter {
        let (first, last) = (*self.start(), *self.end());
        let steps = T::steps(first, last).checked_add(1);
        let items =
            if self.is_empty() { 0 } else { steps.expect("a parallel range can have at most usize::MAX items") };
        Par::of(0..items, Of(RangeItems(self)))
    }
}

/// The items of a range, or of an inclusive range.
///
/// ```
/// use windrow::prelude::*;
///
/// // It is the data of this iterator.
/// let numbers: windrow::range::Iter<i64> = (-2..3).into_par_iter();
/// assert_eq!(numbers.map(|number| number * number).sum::<i64>(), 10);
/// ```
#[derive(Clone, Debug)]
pub struct RangeItems<R>(R);

impl<T: IndexedInteger> Indexed for RangeItems<Range<T>> {}

impl<T: Integer> Indices for RangeItems<Range<T>> {
    type Item = T;
    const EXACT: bool = T::EXACT;

    fn len(&self, indices: usize) -> Option<usize> {
        T::is_counted(self.0.start, self.0.end).then_some(indices)
    }

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = T> {
        let Range { start, end } = self.0;
        T::items(T::at(start, end, run.start)..T::at(start, end, run.end))
    }
}

impl<T: IndexedInteger> Indexed for RangeItems<RangeInclusive<T>> {}

impl<T: Integer> Indices for RangeItems<RangeInclusive<T>> {
    type Item = T;
    const EXACT: bool = T::EXACT;

    fn len(&self, indices: usize) -> Option<usize> {
        T::is_counted(*self.0.start(), *self.0.end()).then_some(indices)
    }

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = T> {
        T::inclusive(*self.0.start(), *self.0.end(), run)
    }
}

impl<T: IndexedInteger> Par<Range<usize>, Of<RangeItems<Range<T>>>> {
    /// Gives each item a weight that its work is proportional to: see [`Par::weigh`].
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // Row `i` of a triangle has `i + 1` items.
    /// let areas = (0..4usize).into_par_iter().weigh(|row| row + 1).map(|row| (0..=row).count());
    /// assert_eq!(areas.collect::<Vec<_>>(), [1, 2, 3, 4]);
    /// ```
    pub fn weigh(mut self, weight: impl Fn(&T) -> usize) -> Self {
        let items = T::items(self.recipe.0.0.clone());
        self.hints.weigh(Weights::new(items.map(|item| weight(&item))));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_long_ranges_cover_them() {
        let most = usize::MAX as u128;
        for last in [1, most - 2, most - 1, most, most + 1, 3 * most - 1, 1 << 100, u128::MAX - 1, u128::MAX] {
            let steps = u128::steps(0, last);
            assert!(steps < usize::MAX && u128::at(0, last, steps - 1) < last, "{last}");
            assert_eq!((u128::at(0, last, 0), u128::at(0, last, steps)), (0, last));
            assert!(u128::inclusive(0, last, steps..steps + 1).eq([last]), "{last}");
        }
        assert_eq!(i128::at(i128::MIN, i128::MAX, i128::steps(i128::MIN, i128::MAX)), i128::MAX);
        assert_eq!(i128::steps(3, -3), 0);
    }
}

//! Runs of slices as items, scans in place, and sorts.

use std::cmp::Ordering;
use std::mem;
use std::ops::{Deref, Range};
use std::panic::Location;
use std::sync::Arc;

use windrow_sync::Mutex;
use windrow_sync::sources::{Runs, RunsMut, SliceMut, VecItems};
use windrow_sync::views::{Merged, Pieces};

use super::adaptors::names;
use super::recipe::{self, Indexed, Indices, Of, Plain, WithRest};
use super::scan::Scan;
use super::sort;
use super::split::{SplitInHalf, from_split_in_half};
use crate::iter::{IndexedParallelIterator, Par, ParallelIterator};
use crate::runtime::hints::CallPart;

/// Runs of a slice as items.
///
/// ```
/// use windrow::prelude::*;
///
/// let numbers: Vec<u32> = (1..=10).collect();
/// let sums: Vec<u32> = numbers.par_chunks(4).map(|run| run.iter().sum()).collect();
/// assert_eq!(sums, [10, 26, 19]);
/// ```
pub trait ParallelSlice<T: Sync> {
    /// The slice.
    #[doc(hidden)]
    fn whole(&self) -> &[T];

    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let lengths: Vec<usize> = [0; 5].par_chunks(2).map(<[i32]>::len).collect();
    /// assert_eq!(lengths, [2, 2, 1]);
    /// ```
    fn par_chunks(&self, size: usize) -> Chunks<'_, T> {
        Par::new(Runs::new(self.whole(), size))
    }

    /// Runs of `size` items. A shorter rest at the end is left out: it is the iterator's `remainder()`.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let pairs = [1, 2, 3, 4, 5].par_chunks_exact(2);
    /// assert_eq!(pairs.remainder(), [5]);
    /// assert_eq!(pairs.map(|pair| pair[0] * pair[1]).collect::<Vec<_>>(), [2, 12]);
    /// ```
    fn par_chunks_exact(&self, size: usize) -> ChunksExact<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let (runs, rest) = self.whole().split_at(self.whole().len() / size * size);
        Par::of(Runs::new(runs, size), WithRest(rest))
    }

    /// Runs of `size` items counted from the end, the last one first. A shorter rest at the front is left out: it is the iterator's
    /// `remainder()`.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let pairs = [1, 2, 3, 4, 5].par_rchunks_exact(2);
    /// assert_eq!(pairs.remainder(), [1]);
    /// assert_eq!(pairs.collect::<Vec<_>>(), [[4, 5], [2, 3]]);
    /// ```
    fn par_rchunks_exact(&self, size: usize) -> RChunksExact<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let (rest, runs) = self.whole().split_at(self.whole().len() % size);
        Par::of(Runs::new(runs, size), WithRest(rest)).rev()
    }

    /// Runs of `size` items counted from the end, the last one first; the one at the very front may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let runs: Vec<&[i32]> = [1, 2, 3, 4, 5].par_rchunks(2).collect();
    /// assert_eq!(runs, [&[4, 5][..], &[2, 3], &[1]]);
    /// ```
    fn par_rchunks(&self, size: usize) -> RChunks<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let (front, rest) = self.whole().split_at(self.whole().len() % size);
        Par::new(Runs::new(rest, size)).rev().chain(Par::new(Runs::new(front, size)))
    }

    /// All runs of `size` items: each begins one item after the one before.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let means: Vec<f64> = [1.0, 2.0, 6.0, 4.0].par_windows(3).map(|run| run.iter().sum::<f64>() / 3.0).collect();
    /// assert_eq!(means, [3.0, 4.0]);
    /// ```
    fn par_windows(&self, size: usize) -> Windows<'_, T> {
        assert!(size > 0, "the window size must be at least 1");
        let slice = self.whole();
        Par::of(0..slice.len().saturating_sub(size - 1), Of(SliceWindows { slice, size }))
    }

    /// All runs of `N` items, as arrays: each begins one item after the one before.
    ///
    /// # Panics
    /// If `N` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let steps: Vec<i32> = [1, 4, 9, 16].par_array_windows().map(|[a, b]| b - a).collect();
    /// assert_eq!(steps, [3, 5, 7]);
    /// ```
    fn par_array_windows<const N: usize>(&self) -> ArrayWindows<'_, T, N> {
        let Par { source, recipe, hints } = self.par_windows(N);
        Par { source, recipe: Of(SliceArrays(recipe.0)), hints }
    }

    /// The runs between separators (items for which `f` holds), including before the first and after the last separator: one more
    /// than there are separators. `f` may be called more than once for an item.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let runs: Vec<&[u8]> = [3, 1, 0, 2, 0].par_split(|digit| *digit == 0).collect();
    /// assert_eq!(runs, [&[3, 1][..], &[2], &[]]);
    /// ```
    fn par_split<F: Fn(&T) -> bool + Sync + Send>(&self, f: F) -> Split<'_, T, F> {
        let slice = self.whole();
        // A run can begin at every index and after the last one. (Of `usize::MAX` items the last index stands for both.)
        Par::of(0..slice.len().saturating_add(1), Of(SliceParts(slice, f)))
    }

    /// Like [`par_split`](Self::par_split), but each run ends with its separator, and no empty run follows the last one.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let runs: Vec<&[u8]> = [3, 1, 0, 2, 0].par_split_inclusive(|digit| *digit == 0).collect();
    /// assert_eq!(runs, [&[3, 1, 0][..], &[2, 0]]);
    /// ```
    fn par_split_inclusive<F: Fn(&T) -> bool + Sync + Send>(&self, f: F) -> SplitInclusive<'_, T, F> {
        let slice = self.whole();
        Par::of(0..slice.len(), Of(SliceInclusive(slice, f)))
    }

    /// The longest runs in which `f` holds for every item and the next one. The calling thread splits the slice into up to 256 parts first.
    /// `f` is called once for each pair of neighbours: in this call, or when the runs are visited.
    ///
    /// # Panics
    /// With the panic of `f`.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let runs: Vec<&[u32]> = [1, 2, 4, 5, 9].par_chunk_by(|a, b| a + 1 == *b).collect();
    /// assert_eq!(runs, [&[1, 2][..], &[4, 5], &[9]]);
    /// ```
    fn par_chunk_by<F: Fn(&T, &T) -> bool + Sync + Send>(&self, f: F) -> ChunkBy<'_, T, F> {
        let slice = Some(self.whole()).filter(|slice| !slice.is_empty());
        from_split_in_half(SliceCuts::new(slice, 0, Between(f)))
    }
}

impl<T: Sync> ParallelSlice<T> for [T] {
    fn whole(&self) -> &[T] {
        self
    }
}

/// Full runs from the back, then the short one at the front.
pub type FromTheEnd<S> = Merged<Pieces<S>, S>;

/// Exclusive runs of a slice as items, scans in place, and sorts.
///
/// ```
/// use windrow::prelude::*;
///
/// let mut rows = [3, 1, 2, 9, 7, 8];
/// rows.par_chunks_mut(3).for_each(|row| row.sort_unstable());
/// assert_eq!(rows, [1, 2, 3, 7, 8, 9]);
/// ```
pub trait ParallelSliceMut<T: Send> {
    /// The slice.
    #[doc(hidden)]
    fn whole_mut(&mut self) -> &mut [T];

    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut rows = [0; 5];
    /// rows.par_chunks_mut(2).enumerate().for_each(|(row, items)| items.fill(row));
    /// assert_eq!(rows, [0, 0, 1, 1, 2]);
    /// ```
    fn par_chunks_mut(&mut self, size: usize) -> ChunksMut<'_, T> {
        Par::new(RunsMut::new(self.whole_mut(), size))
    }

    /// Runs of `size` items. A shorter rest at the end is left out: the iterator's `remainder()`, `take_remainder()` and `into_remainder()`
    /// give it.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut digits = [1, 2, 3, 4, 5];
    /// let mut pairs = digits.par_chunks_exact_mut(2);
    /// pairs.take_remainder()[0] = 0;
    /// pairs.for_each(|pair| pair.swap(0, 1));
    /// assert_eq!(digits, [2, 1, 4, 3, 0]);
    /// ```
    fn par_chunks_exact_mut(&mut self, size: usize) -> ChunksExactMut<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let slice = self.whole_mut();
        let (runs, rest) = slice.split_at_mut(slice.len() / size * size);
        Par::of(RunsMut::new(runs, size), WithRest(Mutex::new(rest)))
    }

    /// Runs of `size` items counted from the end, the last one first; the one at the very front may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut digits = [0; 5];
    /// digits.par_rchunks_mut(2).enumerate().for_each(|(place, run)| run.fill(place));
    /// assert_eq!(digits, [2, 1, 1, 0, 0]);
    /// ```
    fn par_rchunks_mut(&mut self, size: usize) -> RChunksMut<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let slice = self.whole_mut();
        let (front, rest) = slice.split_at_mut(slice.len() % size);
        Par::new(RunsMut::new(rest, size)).rev().chain(Par::new(RunsMut::new(front, size)))
    }

    /// Runs of `size` items counted from the end, the last one first. A shorter rest at the front is left out: see
    /// [`par_chunks_exact_mut`](Self::par_chunks_exact_mut).
    ///
    /// # Panics
    /// If `size` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut digits = [7; 5];
    /// digits.par_rchunks_exact_mut(2).enumerate().for_each(|(place, run)| run.fill(place));
    /// assert_eq!(digits, [7, 1, 1, 0, 0]);
    /// ```
    fn par_rchunks_exact_mut(&mut self, size: usize) -> RChunksExactMut<'_, T> {
        assert!(size > 0, "the chunk size must be at least 1");
        let slice = self.whole_mut();
        let (rest, runs) = slice.split_at_mut(slice.len() % size);
        Par::of(RunsMut::new(runs, size), WithRest(Mutex::new(rest))).rev()
    }

    /// The runs between separators, as [`par_split`](ParallelSlice::par_split) gives them. The calling thread splits the slice into up to
    /// 256 parts first, each time at a separator near the middle of a part.
    ///
    /// # Panics
    /// With the panic of `f`, which is called once for each item: in this call, or when the runs are visited.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut digits = [3, 1, 0, 2, 9, 0, 7];
    /// digits.par_split_mut(|digit| *digit == 0).for_each(|run| run.sort_unstable());
    /// assert_eq!(digits, [1, 3, 0, 2, 9, 0, 7]);
    /// ```
    fn par_split_mut<F: Fn(&T) -> bool + Sync + Send>(&mut self, f: F) -> SplitMut<'_, T, F> {
        from_split_in_half(SliceCuts::new(Some(self.whole_mut()), 1, After(f)))
    }

    /// Like [`par_split_mut`](Self::par_split_mut), but each run ends with its separator, and no empty run follows the last one.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut digits = [3, 1, 0, 2, 0];
    /// digits.par_split_inclusive_mut(|digit| *digit == 0).for_each(<[_]>::reverse);
    /// assert_eq!(digits, [0, 1, 3, 0, 2]);
    /// ```
    fn par_split_inclusive_mut<F: Fn(&T) -> bool + Sync + Send>(&mut self, f: F) -> SplitInclusiveMut<'_, T, F> {
        let slice = Some(self.whole_mut()).filter(|slice| !slice.is_empty());
        from_split_in_half(SliceCuts::new(slice, 0, After(f)))
    }

    /// Like [`par_chunk_by`](ParallelSlice::par_chunk_by), with exclusive runs.
    ///
    /// # Panics
    /// With the panic of `f`.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut numbers = [1, 2, 5, 6, 7];
    /// numbers.par_chunk_by_mut(|a, b| a + 1 == *b).for_each(<[_]>::reverse);
    /// assert_eq!(numbers, [2, 1, 7, 6, 5]);
    /// ```
    fn par_chunk_by_mut<F: Fn(&T, &T) -> bool + Sync + Send>(&mut self, f: F) -> ChunkByMut<'_, T, F> {
        let slice = Some(self.whole_mut()).filter(|slice| !slice.is_empty());
        from_split_in_half(SliceCuts::new(slice, 0, Between(f)))
    }

    /// In place: every item becomes `op` over `init` and all items up to it. See
    /// [`inclusive_scan`](IndexedParallelIterator::inclusive_scan).
    ///
    /// # Panics
    /// With the panic of `op`. Then some items have their new values, some their old ones, and some the scan within their block.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut ends = vec![3, 5, 4];
    /// ends.par_inclusive_scan(|a, b| a + b, 0);
    /// assert_eq!(ends, [3, 8, 12]);
    /// ```
    #[track_caller]
    fn par_inclusive_scan<F: Fn(&T, &T) -> T + Sync>(&mut self, op: F, init: T)
    where
        T: Clone + Sync,
    {
        Scan { op, inclusive: true }.run(self.whole_mut(), init, CallPart::Whole);
    }

    /// In place: every item becomes `op` over `init` and all items before it. See
    /// [`exclusive_scan`](IndexedParallelIterator::exclusive_scan).
    ///
    /// # Panics
    /// As [`par_inclusive_scan`](Self::par_inclusive_scan).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut starts = vec![3, 5, 4];
    /// starts.par_exclusive_scan(|a, b| a + b, 0);
    /// assert_eq!(starts, [0, 3, 8]);
    /// ```
    #[track_caller]
    fn par_exclusive_scan<F: Fn(&T, &T) -> T + Sync>(&mut self, op: F, init: T)
    where
        T: Clone + Sync,
    {
        Scan { op, inclusive: false }.run(self.whole_mut(), init, CallPart::Whole);
    }

    /// Sorts; equal items keep their order, as in the standard library's sort. Allocates a second buffer of the same size.
    ///
    /// If a comparison panics, the slice holds all of its items, in some order, and the panic reaches the caller.
    ///
    /// # Panics
    /// This and the other sorts may panic where comparisons contradict each other, because the standard library's sorts do, which sort
    /// the parts: "user-provided comparison function does not correctly implement a total order". `partial_cmp(..).unwrap_or(Equal)` of
    /// floats with a NaN is no total order; `f64::total_cmp` is one. A sort that does not panic leaves some order. Either way the slice
    /// holds all of its items. (rayon's sorts do not panic there.)
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut words = ["pear", "fig", "apple", "plum"];
    /// words.par_sort_unstable();
    /// assert_eq!(words, ["apple", "fig", "pear", "plum"]);
    /// words.par_sort_by_key(|word| word.len());
    /// assert_eq!(words, ["fig", "pear", "plum", "apple"]);
    /// ```
    #[track_caller]
    fn par_sort(&mut self)
    where
        T: Ord,
    {
        sort::stable(self.whole_mut(), &T::cmp, Location::caller());
    }

    /// Sorts by a comparison; equal items keep their order. Allocates a second buffer of the same size.
    ///
    /// # Panics
    /// Those of [`par_sort`](Self::par_sort), if the comparison is no total order.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut scores = [("Ada", 7), ("Bob", 9), ("Cyd", 7)];
    /// scores.par_sort_by(|a, b| b.1.cmp(&a.1));
    /// assert_eq!(scores, [("Bob", 9), ("Ada", 7), ("Cyd", 7)]);
    /// ```
    #[track_caller]
    fn par_sort_by<F>(&mut self, compare: F)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::stable(self.whole_mut(), &compare, Location::caller());
    }

    /// Sorts by a key, computed for every comparison; items with equal keys keep their order. Allocates a second buffer of the
    /// same size.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut numbers = [-3_i32, 2, 3, -1];
    /// numbers.par_sort_by_key(|number| number.abs());
    /// assert_eq!(numbers, [-1, 2, -3, 3]);
    /// ```
    #[track_caller]
    fn par_sort_by_key<K, F>(&mut self, key: F)
    where
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::stable(self.whole_mut(), &|a, b| key(a).cmp(&key(b)), Location::caller());
    }

    /// Sorts by a key, computed once for every item; items with equal keys keep their order. Allocates a buffer of all keys.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut names = ["Zoe", "adam", "Bob"];
    /// names.par_sort_by_cached_key(|name| name.to_lowercase());
    /// assert_eq!(names, ["adam", "Bob", "Zoe"]);
    /// ```
    #[track_caller]
    fn par_sort_by_cached_key<K, F>(&mut self, key: F)
    where
        K: Ord + Send,
        F: Fn(&T) -> K + Sync,
    {
        sort::by_cached_key(self.whole_mut(), key, Location::caller());
    }

    /// Sorts; equal items may change their order.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut numbers: Vec<u32> = (0..1000).map(|i| i * 7 % 1000).collect();
    /// numbers.par_sort_unstable();
    /// assert!(numbers.iter().copied().eq(0..1000));
    /// ```
    #[track_caller]
    fn par_sort_unstable(&mut self)
    where
        T: Ord,
    {
        sort::unstable(self.whole_mut(), &T::cmp, Location::caller(), None);
    }

    /// Sorts by a comparison; equal items may change their order.
    ///
    /// # Panics
    /// Those of [`par_sort`](Self::par_sort), if the comparison is no total order.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut times = [2.5, 0.1, 1.7];
    /// times.par_sort_unstable_by(|a, b| f64::total_cmp(b, a));
    /// assert_eq!(times, [2.5, 1.7, 0.1]);
    /// ```
    #[track_caller]
    fn par_sort_unstable_by<F>(&mut self, compare: F)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::unstable(self.whole_mut(), &compare, Location::caller(), None);
    }

    /// Sorts by a key, computed for every comparison; items with equal keys may change their order.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut words = ["plum", "fig", "apple"];
    /// words.par_sort_unstable_by_key(|word| word.len());
    /// assert_eq!(words, ["fig", "plum", "apple"]);
    /// ```
    #[track_caller]
    fn par_sort_unstable_by_key<K, F>(&mut self, key: F)
    where
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::unstable(self.whole_mut(), &|a, b| key(a).cmp(&key(b)), Location::caller(), None);
    }
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    fn whole_mut(&mut self) -> &mut [T] {
        self
    }
}

names! {
    Iter<'a, T> = &'a [T], Plain;
    IterMut<'a, T> = SliceMut<'a, T>, Plain;
    Chunks<'a, T> = Runs<'a, T>, Plain;
    ChunksExact<'a, T> = Runs<'a, T>, WithRest<&'a [T]>;
    ChunksMut<'a, T> = RunsMut<'a, T>, Plain;
    ChunksExactMut<'a, T> = RunsMut<'a, T>, WithRest<Mutex<&'a mut [T]>>;
    RChunks<'a, T> = FromTheEnd<Runs<'a, T>>, recipe::Chain<recipe::Rev<Plain>, Plain>;
    RChunksExact<'a, T> = Pieces<Runs<'a, T>>, recipe::Rev<WithRest<&'a [T]>>;
    RChunksMut<'a, T> = FromTheEnd<RunsMut<'a, T>>, recipe::Chain<recipe::Rev<Plain>, Plain>;
    RChunksExactMut<'a, T> = Pieces<RunsMut<'a, T>>, recipe::Rev<WithRest<Mutex<&'a mut [T]>>>;
    Windows<'a, T> = Range<usize>, Of<SliceWindows<'a, T>>;
    Split<'a, T, F> = Range<usize>, Of<SliceParts<'a, T, F>>;
    SplitInclusive<'a, T, F> = Range<usize>, Of<SliceInclusive<'a, T, F>>;
    ChunkBy<'a, T, F> = VecItems<SliceCuts<&'a [T], Between<F>>>, recipe::FlattenIter<Plain>;
    SplitMut<'a, T, F> = VecItems<SliceCuts<&'a mut [T], After<F>>>, recipe::FlattenIter<Plain>;
    SplitInclusiveMut<'a, T, F> = VecItems<SliceCuts<&'a mut [T], After<F>>>, recipe::FlattenIter<Plain>;
    ChunkByMut<'a, T, F> = VecItems<SliceCuts<&'a mut [T], Between<F>>>, recipe::FlattenIter<Plain>;
}
/// The type of [`par_array_windows`](ParallelSlice::par_array_windows).
pub type ArrayWindows<'a, T, const N: usize> = Par<Range<usize>, Of<SliceArrays<'a, T, N>>>;

/// The remainder of exact chunks.
macro_rules! remainders {
    ($($name:ident $method:literal, $name_mut:ident $method_mut:literal, $left:literal, |$recipe:ident| $rest:expr;)*) => {$(
        impl<'a, T> $name<'a, T> {
            /// The items that are in no run.
            ///
            /// ```
            /// use windrow::prelude::*;
            #[doc = concat!("assert_eq!([1, 2, 3].", $method, "(2).remainder(), [", $left, "]);")]
            /// ```
            pub fn remainder(&self) -> &'a [T] {
                let $recipe = &self.recipe;
                $rest
            }
        }

        impl<'a, T> $name_mut<'a, T> {
            fn rest(&mut self) -> &mut &'a mut [T] {
                let $recipe = &mut self.recipe;
                $rest.get_mut()
            }

            /// The items that are in no run.
            ///
            /// ```
            /// use windrow::prelude::*;
            #[doc = concat!("assert_eq!([1, 2, 3].", $method_mut, "(2).remainder(), [", $left, "]);")]
            /// ```
            pub fn remainder(&mut self) -> &mut [T] {
                self.rest()
            }

            /// The items that are in no run; none when they were taken before.
            ///
            /// ```
            /// use windrow::prelude::*;
            /// let mut items = [0; 3];
            #[doc = concat!("let mut runs = items.", $method_mut, "(2);")]
            /// assert_eq!((runs.take_remainder().len(), runs.take_remainder().len()), (1, 0));
            /// ```
            pub fn take_remainder(&mut self) -> &'a mut [T] {
                mem::take(self.rest())
            }

            /// The items that are in no run, instead of the runs.
            ///
            /// ```
            /// use windrow::prelude::*;
            #[doc = concat!("assert_eq!([1, 2, 3].", $method_mut, "(2).into_remainder(), [", $left, "]);")]
            /// ```
            pub fn into_remainder(mut self) -> &'a mut [T] {
                self.take_remainder()
            }
        }
    )*};
}
remainders! {
    ChunksExact "par_chunks_exact", ChunksExactMut "par_chunks_exact_mut", "3", |recipe| recipe.0;
    RChunksExact "par_rchunks_exact", RChunksExactMut "par_rchunks_exact_mut", "1", |recipe| recipe.0.0;
}

/// Runs of a slice: each begins one item after the one before.
///
/// ```
/// use windrow::prelude::*;
/// // It is the data of this iterator.
/// let pairs: windrow::slice::Windows<'_, i32> = [1, 4, 9].par_windows(2);
/// assert_eq!(pairs.map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(), [3, 5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SliceWindows<'a, T> {
    slice: &'a [T],
    size: usize,
}

impl<T> Indexed for SliceWindows<'_, T> {}

impl<'a, T: Sync> Indices for SliceWindows<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        self.slice[run.start..run.end + (self.size - 1)].windows(self.size)
    }
}

/// Runs of a slice as arrays.
///
/// ```
/// use windrow::prelude::*;
/// // It is the data of this iterator.
/// let pairs: windrow::slice::ArrayWindows<'_, i32, 2> = [1, 4, 9].par_array_windows();
/// assert_eq!(pairs.map(|[a, b]| b - a).collect::<Vec<_>>(), [3, 5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SliceArrays<'a, T, const N: usize>(SliceWindows<'a, T>);

impl<T, const N: usize> Indexed for SliceArrays<'_, T, N> {}

impl<'a, T: Sync, const N: usize> Indices for SliceArrays<'a, T, N> {
    type Item = &'a [T; N];

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T; N]> {
        self.0.items(run).map(|window| window.try_into().expect("a window of N items"))
    }
}

/// The runs that begin in `run`, up to the first beginning after `run`. `begins` says where runs begin. `None` if no run begins in
/// `run`.
///
/// A run belongs to the member that claims its beginning, so data without random access can be divided. That member searches a long run
/// for its end. Members whose claims lie inside the run search it once more, for a beginning.
pub(crate) fn beginning_in(run: Range<usize>, end: usize, begins: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let first = run.clone().find(|&at| begins(at))?;
    Some(first..(run.end..end).find(|&at| begins(at)).unwrap_or(end))
}

/// Runs of a slice between separators.
///
/// ```
/// use windrow::prelude::*;
/// // It is the data of this iterator.
/// let runs: windrow::slice::Split<'_, i32, fn(&i32) -> bool> = [1, 0, 2].par_split(|item| *item == 0);
/// assert_eq!(runs.count(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct SliceParts<'a, T, F>(&'a [T], F);

impl<'a, T: Sync, F: Fn(&T) -> bool + Sync + Send> Indices for SliceParts<'a, T, F> {
    type Item = &'a [T];
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let slice = self.0;
        let begins = |at: usize| at == 0 || (self.1)(&slice[at - 1]);
        // A slice of `usize::MAX` items has no index for the position after its last item.
        let (end, has_last) = (slice.len().saturating_add(1), run.end == usize::MAX);
        let behind = || (has_last && begins(slice.len())).then_some(slice.len());
        let first = run.clone().find(|&at| begins(at)).or_else(behind);
        // The runs before the next one end with a separator, or with the slice.
        let next = (run.end..end).find(|&at| begins(at));
        let runs = first.map(|first| &slice[first..next.map_or(slice.len(), |next| next - 1)]);
        runs.into_iter().flat_map(move |runs| runs.split(|item| (self.1)(item)))
    }
}

/// Runs of a slice, each with the separator at its end.
///
/// ```
/// use windrow::prelude::*;
/// // It is the data of this iterator.
/// let runs: windrow::slice::SplitInclusive<'_, i32, fn(&i32) -> bool> = [1, 0, 2].par_split_inclusive(|item| *item == 0);
/// assert_eq!(runs.map(<[i32]>::len).collect::<Vec<_>>(), [2, 1]);
/// ```
#[derive(Clone, Debug)]
pub struct SliceInclusive<'a, T, F>(&'a [T], F);

impl<'a, T: Sync, F: Fn(&T) -> bool + Sync + Send> Indices for SliceInclusive<'a, T, F> {
    type Item = &'a [T];
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let slice = self.0;
        let runs = beginning_in(run, slice.len(), |at| at == 0 || (self.1)(&slice[at - 1]));
        runs.into_iter().flat_map(move |runs| slice[runs].split_inclusive(|item| (self.1)(item)))
    }
}

/// The end of a run of a slice.
///
/// ```
/// use windrow::slice::RunEnds;
///
/// /// Runs of three items.
/// struct Threes;
///
/// impl<T> RunEnds<T> for Threes {
///     fn is_end(&self, _: &[T], at: usize) -> bool {
///         at % 3 == 0
///     }
/// }
///
/// let ends: Vec<usize> = (1..=7).filter(|at| Threes.is_end(&[0; 7], *at)).collect();
/// assert_eq!(ends, [3, 6]);
/// ```
pub trait RunEnds<T>: Sync + Send {
    /// True if a run ends before the index `at`, which is above 0.
    ///
    /// ```
    /// use windrow::slice::RunEnds;
    ///
    /// struct AfterZeros;
    /// impl RunEnds<i32> for AfterZeros {
    ///     fn is_end(&self, slice: &[i32], at: usize) -> bool {
    ///         slice[at - 1] == 0
    ///     }
    /// }
    /// assert!(AfterZeros.is_end(&[4, 0, 1], 2) && !AfterZeros.is_end(&[4, 0, 1], 1));
    /// ```
    fn is_end(&self, slice: &[T], at: usize) -> bool;
}

/// Runs end after items for which a function holds.
///
/// ```
/// use windrow::prelude::*;
/// // The runs of this iterator end so.
/// let mut items = [1, 0, 2];
/// let runs: windrow::slice::SplitInclusiveMut<'_, i32, fn(&i32) -> bool> =
///     items.par_split_inclusive_mut(|item| *item == 0);
/// assert_eq!(runs.map(|run| run.len()).collect::<Vec<_>>(), [2, 1]);
/// ```
#[derive(Debug)]
pub struct After<F>(F);

/// Runs end between items for which a function does not hold.
///
/// ```
/// use windrow::prelude::*;
/// // The runs of this iterator end so.
/// let runs: windrow::slice::ChunkBy<'_, i32, fn(&i32, &i32) -> bool> = [1, 1, 2].par_chunk_by(|a, b| a == b);
/// assert_eq!(runs.map(<[i32]>::len).collect::<Vec<_>>(), [2, 1]);
/// ```
#[derive(Debug)]
pub struct Between<F>(F);

impl<T, F: Fn(&T) -> bool + Sync + Send> RunEnds<T> for After<F> {
    fn is_end(&self, slice: &[T], at: usize) -> bool {
        (self.0)(&slice[at - 1])
    }
}

impl<T, F: Fn(&T, &T) -> bool + Sync + Send> RunEnds<T> for Between<F> {
    fn is_end(&self, slice: &[T], at: usize) -> bool {
        slice.get(at).is_some_and(|next| !(self.0)(&slice[at - 1], next))
    }
}

/// A slice, shared or exclusive, that can be cut in two.
///
/// ```
/// use windrow::slice::Slice;
///
/// /// The longest slices of two items or fewer.
/// fn pairs<S: Slice>(slice: S, mut f: impl FnMut(S)) {
///     if slice.len() <= 2 {
///         return f(slice);
///     }
///     let (pair, rest) = slice.cut_at(2);
///     f(pair);
///     pairs(rest, f);
/// }
///
/// let mut items = [1, 2, 3, 4, 5];
/// pairs(&mut items[..], |pair: &mut [i32]| pair.reverse());
/// assert_eq!(items, [2, 1, 4, 3, 5]);
/// ```
pub trait Slice: Deref<Target = [Self::Element]> + Sized {
    /// The type of the elements.
    type Element;

    /// The first `at` items and the others.
    ///
    /// ```
    /// use windrow::slice::Slice;
    ///
    /// let mut items = [1, 2, 3];
    /// let (front, back) = Slice::cut_at(&mut items[..], 1);
    /// std::mem::swap(&mut front[0], &mut back[1]);
    /// assert_eq!(items, [3, 2, 1]);
    /// ```
    fn cut_at(self, at: usize) -> (Self, Self);
}

impl<T> Slice for &[T] {
    type Element = T;

    fn cut_at(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl<T> Slice for &mut [T] {
    type Element = T;

    fn cut_at(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// Runs of a slice.
///
/// ```
/// use windrow::prelude::*;
/// // It gives the runs of this iterator.
/// let mut items = [3, 1, 0, 2];
/// let runs: windrow::slice::SplitMut<'_, i32, fn(&i32) -> bool> = items.par_split_mut(|item| *item == 0);
/// runs.for_each(<[_]>::reverse);
/// assert_eq!(items, [1, 3, 0, 2]);
/// ```
#[derive(Debug)]
pub struct SliceCuts<S, F> {
    /// `None` after the last run.
    rest: Option<S>,
    /// The last `checked` indices of `1..=len` need no check: no run ends there, except perhaps the last one, at `len`.
    checked: usize,
    /// Items at the end of a run that are left out: the separator, or nothing.
    left_out: usize,
    ends: Arc<F>,
}

impl<S: Clone, F> Clone for SliceCuts<S, F> {
    fn clone(&self) -> Self {
        let SliceCuts { ref rest, checked, left_out, ref ends } = *self;
        SliceCuts { rest: rest.clone(), checked, left_out, ends: ends.clone() }
    }
}

impl<S: Slice, F: RunEnds<S::Element>> SliceCuts<S, F> {
    fn new(rest: Option<S>, left_out: usize, ends: F) -> Self {
        Self { rest, checked: 0, left_out, ends: Arc::new(ends) }
    }

    /// The items of `rest` up to the end of a run at `at`; the others stay.
    fn cut(&mut self, rest: S, at: usize) -> S {
        let (run, rest) = rest.cut_at(at);
        // An empty run follows a separator only.
        self.rest = Some(rest).filter(|rest| self.left_out > 0 || !rest.is_empty());
        run.cut_at(at - self.left_out).0
    }
}

impl<S: Slice, F: RunEnds<S::Element>> Iterator for SliceCuts<S, F> {
    type Item = S;

    fn next(&mut self) -> Option<S> {
        let rest = self.rest.take()?;
        match (1..=rest.len() - self.checked).find(|at| self.ends.is_end(&rest, *at)) {
            Some(at) => Some(self.cut(rest, at)),
            None => Some(rest),
        }
    }
}

impl<S: Slice + Send, F: RunEnds<S::Element>> SplitInHalf for SliceCuts<S, F> {
    fn split(mut self) -> (Self, Option<Self>) {
        let Some(rest) = self.rest.take() else { return (self, None) };
        let (len, open) = (rest.len(), rest.len() - self.checked);
        let middle = (len / 2).max(1);
        let is_end = |at: &usize| self.ends.is_end(&rest, *at);
        // The index `at` where a run ends; indices `from..=at` have been checked.
        let (at, from) = if let Some(at) = (middle..=open).find(is_end) {
            (at, middle)
        } else if let Some(at) = (1..=open.min(middle - 1)).rfind(is_end) {
            self.checked = len - at;
            (at, at)
        } else {
            (self.rest, self.checked) = (Some(rest), len);
            return (self, None);
        };
        let front = Some(self.cut(rest, at));
        // If the separator is left out, the index after it is not in the front part.
        let checked = at - from + 1 - self.left_out;
        (SliceCuts { rest: front, checked, left_out: self.left_out, ends: self.ends.clone() }, Some(self))
    }
}

//! Runs of slices as items, and scans in place.

use std::cmp::Ordering;
use std::ops::Range;
use std::panic::Location;

use windrow_sync::sources::{Runs, RunsMut};
use windrow_sync::views::{Merged, Pieces};

use super::recipe::{Backward, Chained, Indexed, Indices, Of, Plain};
use super::{scan, sort};
use crate::iter::{IndexedParallelIterator, Par, ParallelIterator};

/// Runs of a slice as items.
pub trait ParallelSlice<T: Sync> {
    /// The slice.
    #[doc(hidden)]
    fn whole(&self) -> &[T];

    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks(&self, size: usize) -> Par<Runs<'_, T>, Plain> {
        Par::new(Runs::new(self.whole(), size))
    }

    /// Runs of `size` items. A shorter rest at the end is left out.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks_exact(&self, size: usize) -> Par<Runs<'_, T>, Plain> {
        assert!(size > 0, "a chunk of 0 items never ends");
        let slice = self.whole();
        Par::new(Runs::new(&slice[..slice.len() - slice.len() % size], size))
    }

    /// Runs of `size` items counted from the end, the last one first; the one at the very front may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_rchunks(&self, size: usize) -> Par<FromTheEnd<Runs<'_, T>>, Chained<Backward<Plain>, Plain>> {
        assert!(size > 0, "a chunk of 0 items never ends");
        let (front, rest) = self.whole().split_at(self.whole().len() % size);
        Par::new(Runs::new(rest, size)).rev().chain(Par::new(Runs::new(front, size)))
    }

    /// All runs of `size` items: each begins one item behind the one before.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_windows(&self, size: usize) -> Par<Range<usize>, Of<Windows<'_, T>>> {
        assert!(size > 0, "a window of 0 items shows nothing");
        let slice = self.whole();
        Par::of(0..slice.len().saturating_sub(size - 1), Of(Windows { slice, size }))
    }

    /// The runs between separators (items for which `f` holds), including before the first and after the last separator: one more
    /// than there are separators. `f` may be called twice for an item.
    fn par_split<F: Fn(&T) -> bool + Sync>(&self, f: F) -> Par<Range<usize>, Of<Split<'_, T, F>>> {
        let slice = self.whole();
        // A run can begin at every index and behind the last one. (Of `usize::MAX` items the last index stands for both.)
        Par::of(0..slice.len().saturating_add(1), Of(Split(slice, f)))
    }

    /// The longest runs in which `f` holds for all neighbours. `f` may be called twice for a pair.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let runs: Vec<&[u32]> = [1, 2, 4, 5, 9].par_chunk_by(|a, b| a + 1 == *b).collect();
    /// assert_eq!(runs, [&[1, 2][..], &[4, 5], &[9]]);
    /// ```
    fn par_chunk_by<F: Fn(&T, &T) -> bool + Sync>(&self, f: F) -> Par<Range<usize>, Of<ChunkBy<'_, T, F>>> {
        let slice = self.whole();
        Par::of(0..slice.len(), Of(ChunkBy(slice, f)))
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
pub trait ParallelSliceMut<T: Send> {
    /// The slice.
    #[doc(hidden)]
    fn whole_mut(&mut self) -> &mut [T];

    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks_mut(&mut self, size: usize) -> Par<RunsMut<'_, T>, Plain> {
        Par::new(RunsMut::new(self.whole_mut(), size))
    }

    /// Runs of `size` items. A shorter rest at the end is left out.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks_exact_mut(&mut self, size: usize) -> Par<RunsMut<'_, T>, Plain> {
        assert!(size > 0, "a chunk of 0 items never ends");
        let slice = self.whole_mut();
        let whole = slice.len() - slice.len() % size;
        Par::new(RunsMut::new(&mut slice[..whole], size))
    }

    /// Runs of `size` items counted from the end, the last one first; the one at the very front may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_rchunks_mut(&mut self, size: usize) -> Par<FromTheEnd<RunsMut<'_, T>>, Chained<Backward<Plain>, Plain>> {
        assert!(size > 0, "a chunk of 0 items never ends");
        let slice = self.whole_mut();
        let (front, rest) = slice.split_at_mut(slice.len() % size);
        Par::new(RunsMut::new(rest, size)).rev().chain(Par::new(RunsMut::new(front, size)))
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
    fn par_inclusive_scan<F: Fn(&T, &T) -> T + Sync>(&mut self, op: F, init: T)
    where
        T: Clone + Sync,
    {
        scan::inclusive(self.whole_mut(), op, init);
    }

    /// In place: every item becomes `op` over `init` and all items before it. See
    /// [`exclusive_scan`](IndexedParallelIterator::exclusive_scan).
    ///
    /// # Panics
    /// As [`par_inclusive_scan`](Self::par_inclusive_scan).
    fn par_exclusive_scan<F: Fn(&T, &T) -> T + Sync>(&mut self, op: F, init: T)
    where
        T: Clone + Sync,
    {
        scan::exclusive(self.whole_mut(), op, init);
    }

    /// Sorts; equal items keep their order, as by the standard library's sort. Allocates a second buffer of the same size.
    ///
    /// If a comparison panics, the slice holds all of its items, in some order. If comparisons contradict each other, this and the other
    /// sorts leave some order or panic, as the standard library's do.
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
    #[track_caller]
    fn par_sort_by<F>(&mut self, compare: F)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::stable(self.whole_mut(), &compare, Location::caller());
    }

    /// Sorts by a key, computed for every comparison; items with equal keys keep their order. Allocates a second buffer of the
    /// same size.
    #[track_caller]
    fn par_sort_by_key<K, F>(&mut self, key: F)
    where
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::stable(self.whole_mut(), &|a, b| key(a).cmp(&key(b)), Location::caller());
    }

    /// Sorts by a key, computed once for every item; items with equal keys keep their order. Allocates a buffer of all keys.
    #[track_caller]
    fn par_sort_by_cached_key<K, F>(&mut self, key: F)
    where
        K: Ord + Send,
        F: Fn(&T) -> K + Sync,
    {
        sort::by_cached_key(self.whole_mut(), key, Location::caller());
    }

    /// Sorts; equal items may change their order.
    #[track_caller]
    fn par_sort_unstable(&mut self)
    where
        T: Ord,
    {
        sort::unstable(self.whole_mut(), &T::cmp, Location::caller());
    }

    /// Sorts by a comparison; equal items may change their order.
    #[track_caller]
    fn par_sort_unstable_by<F>(&mut self, compare: F)
    where
        F: Fn(&T, &T) -> Ordering + Sync,
    {
        sort::unstable(self.whole_mut(), &compare, Location::caller());
    }

    /// Sorts by a key, computed for every comparison; items with equal keys may change their order.
    #[track_caller]
    fn par_sort_unstable_by_key<K, F>(&mut self, key: F)
    where
        K: Ord,
        F: Fn(&T) -> K + Sync,
    {
        sort::unstable(self.whole_mut(), &|a, b| key(a).cmp(&key(b)), Location::caller());
    }
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    fn whole_mut(&mut self) -> &mut [T] {
        self
    }
}

/// Runs of a slice: each begins one item behind the one before.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a, T> {
    slice: &'a [T],
    size: usize,
}

impl<T> Indexed for Windows<'_, T> {}

impl<'a, T: Sync> Indices for Windows<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        self.slice[run.start..run.end + (self.size - 1)].windows(self.size)
    }
}

/// The runs that begin in `run`, up to the first beginning behind `run`; `begins` says where runs begin. `None` if no run begins
/// there.
///
/// A run belongs to the member that has its beginning; so data without random access can be divided. A long run is
/// searched by that member, and once more by members that search for a beginning inside of it.
pub(crate) fn beginning_in(run: Range<usize>, end: usize, begins: impl Fn(usize) -> bool) -> Option<Range<usize>> {
    let first = run.clone().find(|&at| begins(at))?;
    Some(first..(run.end..end).find(|&at| begins(at)).unwrap_or(end))
}

/// Runs of a slice between separators.
#[derive(Clone, Debug)]
pub struct Split<'a, T, F>(&'a [T], F);

impl<'a, T: Sync, F: Fn(&T) -> bool + Sync> Indices for Split<'a, T, F> {
    type Item = &'a [T];
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let slice = self.0;
        let begins = |at: usize| at == 0 || (self.1)(&slice[at - 1]);
        // A slice of `usize::MAX` items has no index for the position behind its last item.
        let (end, has_last) = (slice.len().saturating_add(1), run.end == usize::MAX);
        let behind = || (has_last && begins(slice.len())).then_some(slice.len());
        let first = run.clone().find(|&at| begins(at)).or_else(behind);
        // The runs before the next one end with a separator, or with the slice.
        let next = (run.end..end).find(|&at| begins(at));
        let runs = first.map(|first| &slice[first..next.map_or(slice.len(), |next| next - 1)]);
        runs.into_iter().flat_map(move |runs| runs.split(|item| (self.1)(item)))
    }
}

/// Runs of a slice in which neighbours belong together.
#[derive(Clone, Debug)]
pub struct ChunkBy<'a, T, F>(&'a [T], F);

impl<'a, T: Sync, F: Fn(&T, &T) -> bool + Sync> Indices for ChunkBy<'a, T, F> {
    type Item = &'a [T];
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a [T]> {
        let slice = self.0;
        let runs = beginning_in(run, slice.len(), |at| at == 0 || !(self.1)(&slice[at - 1], &slice[at]));
        runs.into_iter().flat_map(move |runs| slice[runs].chunk_by(|a, b| (self.1)(a, b)))
    }
}

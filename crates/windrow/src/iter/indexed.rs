//! Adaptors and consumers that need indices.

use std::cmp;

use windrow_sync::divide::Divide;
use windrow_sync::views::{Blocks, Merged, Part, Pieces};

use super::adaptors::*;
use super::make::repeat_n;
use super::recipe::{self, Clones, Indexed, InitCalls, Recipe};
use super::scan::Scan;
use super::search::{Mapped, Position, Which, search};
use super::{IntoParallelIterator, Par, ParallelIterator, adapt, adapt_view};
use crate::runtime::hints::CallPart;

/// Parallel iterators with one item for every index of their source.
///
/// ```
/// use windrow::prelude::*;
/// let words = ["one", "two", "three"].par_iter();
/// assert_eq!(words.len(), 3);
/// assert_eq!(words.enumerate().rev().map(|(at, word)| format!("{at} {word}")).collect::<Vec<_>>(), ["2 three", "1 two", "0 one"]);
/// ```
pub trait IndexedParallelIterator: ParallelIterator<Recipe: Indexed> {
    /// Number of items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().step_by(30).len(), 4);
    /// ```
    fn len(&self) -> usize;

    /// True if there are no items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!((0..100).into_par_iter().skip(100).is_empty());
    /// ```
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pairs of an index and its item.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut squares = [0; 4];
    /// squares.par_iter_mut().enumerate().for_each(|(at, square)| *square = at * at);
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// ```
    fn enumerate(self) -> Enumerate<Self> {
        adapt(self, recipe::Enumerate)
    }

    /// Pairs of items, as many as the shorter iterator has. The other items of the longer iterator are dropped. Weights and a fixed claim
    /// size of either side apply; if both sides have them, those of the left side apply.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let (x, mut y) = ([1, 2, 3], [10, 20, 30]);
    /// y.par_iter_mut().zip(&x).for_each(|(y, x)| *y += x);
    /// assert_eq!(y, [11, 22, 33]);
    /// ```
    #[inline(always)]
    fn zip<Z: IntoParallelIterator<Iter: IndexedParallelIterator>>(self, other: Z) -> Zip<Self, Z::Iter> {
        let (a, left, hints) = self.into_parts();
        let (b, right, more) = other.into_par_iter().into_parts();
        Par { source: (a, b), recipe: recipe::Zip(left, right), hints: hints.or(more) }
    }

    /// Pairs of items of both iterators.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([1, 2, 3].par_iter().zip_eq(&[4, 5, 6]).map(|(a, b)| a * b).sum::<i32>(), 32);
    /// ```
    ///
    /// # Panics
    /// If one iterator has more items than the other.
    fn zip_eq<Z: IntoParallelIterator<Iter: IndexedParallelIterator>>(self, other: Z) -> ZipEq<Self, Z::Iter> {
        let other = other.into_par_iter();
        assert_eq!(self.len(), other.len(), "zip_eq needs iterators of the same length");
        self.zip(other)
    }

    /// Alternates between items of `self` and `other`; when one side has no more, the rest of the other side follows.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!("abc".par_bytes().interleave(*b"XY").collect::<Vec<_>>(), b"aXbYc");
    /// ```
    fn interleave<Z>(self, other: Z) -> Interleave<Self, Z::Iter>
    where
        Z: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
    {
        let (a, left, hints) = self.into_parts();
        let (b, right, more) = other.into_par_iter().into_parts();
        let mut hints = hints.or(more);
        hints.drop_weights();
        Par { source: Merged::in_turns(a, b), recipe: recipe::Interleave(left, right), hints }
    }

    /// Like [`interleave`](Self::interleave), but ends when the side whose turn it is has no more items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!("abcd".par_bytes().interleave_shortest(*b"XY").collect::<Vec<_>>(), b"aXbYc");
    /// ```
    fn interleave_shortest<Z>(self, other: Z) -> InterleaveShortest<Self, Z::Iter>
    where
        Z: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
    {
        let other = other.into_par_iter();
        let (a, b) = (self.len(), other.len());
        self.take(b.saturating_add(1)).interleave(other.take(a))
    }

    /// The first `n` items. The others are dropped, not visited.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    fn take(self, n: usize) -> Take<Self> {
        let (source, recipe, hints) = self.into_parts();
        Par { source: Part::new(source, 0, n), recipe: recipe::PartOf(recipe), hints }
    }

    /// All but the first `n` items. The first `n` are dropped, not visited.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().skip(97).collect::<Vec<_>>(), [97, 98, 99]);
    /// ```
    fn skip(self, n: usize) -> Skip<Self> {
        adapt_view(self, |source| Part::new(source, n, usize::MAX), recipe::PartOf)
    }

    /// The items from the last to the first.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..4).into_par_iter().rev().collect::<Vec<_>>(), [3, 2, 1, 0]);
    /// ```
    fn rev(self) -> Rev<Self> {
        adapt_view(self, Pieces::backward, recipe::Rev)
    }

    /// The first of every `step` items. The others are dropped, not visited.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..10).into_par_iter().step_by(4).collect::<Vec<_>>(), [0, 4, 8]);
    /// ```
    ///
    /// # Panics
    /// If `step` is 0.
    fn step_by(self, step: usize) -> StepBy<Self> {
        assert!(step > 0, "the step must be at least 1");
        in_blocks_of(self, step, recipe::StepBy)
    }

    /// Runs of `size` items, each in a vector; the last one may be shorter. (The number of items *claimed* at once is separate:
    /// see [`with_claim_size`](ParallelIterator::with_claim_size).)
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..5).into_par_iter().chunks(2).collect::<Vec<_>>(), [vec![0, 1], vec![2, 3], vec![4]]);
    /// ```
    ///
    /// # Panics
    /// If `size` is 0.
    fn chunks(self, size: usize) -> Chunks<Self> {
        assert!(size > 0, "chunk_size must not be zero");
        in_blocks_of(self, size, recipe::Chunks)
    }

    /// Does nothing: for programs that come from rayon. rayon runs blocks one after the other, the first ones smaller, so that a search
    /// visits fewer items. In windrow a search begins with the first items anyway, and claims are short.
    fn by_exponential_blocks(self) -> ExponentialBlocks<Self> {
        self
    }

    /// Does nothing: for programs that come from rayon. rayon runs blocks of `size` items one after the other, which keeps their data in the
    /// cache. To complete a block before the next one begins, use a loop over the blocks.
    ///
    /// # Panics
    /// If `size` is 0.
    fn by_uniform_blocks(self, size: usize) -> UniformBlocks<Self> {
        assert!(size > 0, "the block size must be at least 1");
        self
    }

    /// Folds every run of `size` items into an accumulator; the last run may be shorter.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..5).into_par_iter().fold_chunks(2, || 0, |sum, n| sum + n).collect::<Vec<_>>(), [1, 5, 4]);
    /// ```
    ///
    /// # Panics
    /// If `size` is 0.
    fn fold_chunks<T: Send, I: Fn() -> T + Sync + Send, F: Fn(T, Self::Item) -> T + Sync + Send>(
        self,
        size: usize,
        identity: I,
        f: F,
    ) -> FoldChunks<Self, I, F> {
        assert!(size > 0, "the chunk size must be at least 1");
        in_blocks_of(self, size, |recipe| recipe::FoldChunks(recipe, InitCalls(identity), f))
    }

    /// Folds every run of `size` items into a clone of `init`; the last run may be shorter.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..5).into_par_iter().fold_chunks_with(2, 100, |sum, n| sum + n).collect::<Vec<_>>(), [101, 105, 104]);
    /// ```
    ///
    /// # Panics
    /// If `size` is 0.
    fn fold_chunks_with<T: Clone + Send, F: Fn(T, Self::Item) -> T + Sync + Send>(
        self,
        size: usize,
        init: T,
        f: F,
    ) -> FoldChunksWith<Self, T, F> {
        assert!(size > 0, "the chunk size must be at least 1");
        in_blocks_of(self, size, |recipe| recipe::FoldChunks(recipe, Clones::new(init), f))
    }

    /// Replaces the content of `target` with all items. (Its old memory is freed, not reused.)
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut squares = vec![7; 3];
    /// (0..4).into_par_iter().map(|n| n * n).collect_into_vec(&mut squares);
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// ```
    #[track_caller]
    fn collect_into_vec(self, target: &mut Vec<Self::Item>) {
        *target = self.collect();
    }

    /// Replaces the content of `left` with the left sides of all items, and the content of `right` with the right sides.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let (mut words, mut lengths) = (Vec::new(), Vec::new());
    /// ["one", "fish"].par_iter().map(|word| (*word, word.len())).unzip_into_vecs(&mut words, &mut lengths);
    /// assert_eq!((words, lengths), (vec!["one", "fish"], vec![3, 4]));
    /// ```
    #[track_caller]
    fn unzip_into_vecs<A: Send, B: Send>(self, left: &mut Vec<A>, right: &mut Vec<B>)
    where
        Self: ParallelIterator<Item = (A, B)>,
    {
        (*left, *right) = self.unzip();
    }

    /// The index of an item for which `f` holds. The first find, at any index, ends the search.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!(matches!([5, 0, 7, 0].par_iter().position_any(|n| *n == 0), Some(1 | 3)));
    /// ```
    #[track_caller]
    fn position_any<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> Option<usize> {
        search(self, Which::Any, Position(f))
    }

    /// The index of the first item for which `f` holds.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([5, 0, 7, 0].par_iter().position_first(|n| *n == 0), Some(1));
    /// ```
    #[track_caller]
    fn position_first<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> Option<usize> {
        search(self, Which::First, Position(f))
    }

    /// The index of the last item for which `f` holds.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([5, 0, 7, 0].par_iter().position_last(|n| *n == 0), Some(3));
    /// ```
    #[track_caller]
    fn position_last<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> Option<usize> {
        search(self, Which::Last, Position(f))
    }

    /// The indices of all items for which `f` holds.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([5, 0, 7, 0].par_iter().positions(|n| *n == 0).collect::<Vec<_>>(), [1, 3]);
    /// ```
    fn positions<F: Fn(Self::Item) -> bool + Sync + Send>(self, f: F) -> Positions<Self, F> {
        adapt(self.enumerate(), |recipe| recipe::Positions(recipe, f))
    }

    /// Compares the items of both iterators in pairs. The first difference decides; without one, the lengths decide.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 2, 3].par_iter().cmp(&[1, 3]).is_lt());
    /// ```
    #[track_caller]
    fn cmp<Z>(self, other: Z) -> cmp::Ordering
    where
        Self::Item: Ord,
        Z: IntoParallelIterator<Item = Self::Item, Iter: IndexedParallelIterator>,
    {
        let other = other.into_par_iter();
        let lengths = self.len().cmp(&other.len());
        let different = search(
            self.zip(other),
            Which::First,
            Mapped(|(a, b): (Self::Item, _)| Some(a.cmp(&b)).filter(|found| found.is_ne())),
        );
        different.unwrap_or(lengths)
    }

    /// Compares the items of both iterators in pairs. The first pair that differs or cannot be compared decides; without one, the lengths
    /// decide.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([1.0, 2.0].par_iter().partial_cmp(&[1.0, f64::NAN]), None);
    /// ```
    #[track_caller]
    fn partial_cmp<Z>(self, other: Z) -> Option<cmp::Ordering>
    where
        Self::Item: PartialOrd<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        let other = other.into_par_iter();
        let lengths = self.len().cmp(&other.len());
        let unequal =
            |(a, b): (Self::Item, _)| Some(a.partial_cmp(&b)).filter(|found| found.is_none_or(cmp::Ordering::is_ne));
        let different = search(self.zip(other), Which::First, Mapped(unequal));
        different.unwrap_or(Some(lengths))
    }

    /// True if both iterators have the same number of items, and each pair is equal.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!((1..4).into_par_iter().eq([1, 2, 3]));
    /// ```
    #[track_caller]
    fn eq<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialEq<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        let other = other.into_par_iter();
        self.len() == other.len() && self.zip(other).all(|(a, b)| a == b)
    }

    /// The negation of [`eq`](Self::eq).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!((1..4).into_par_iter().ne([1, 2]));
    /// ```
    #[track_caller]
    fn ne<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialEq<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        !self.eq(other)
    }

    /// True if `self` is less, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 2].par_iter().lt(&[1, 3]));
    /// ```
    #[track_caller]
    fn lt<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialOrd<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        self.partial_cmp(other).is_some_and(cmp::Ordering::is_lt)
    }

    /// True if `self` is less or equal, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 2].par_iter().le(&[1, 2]));
    /// ```
    #[track_caller]
    fn le<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialOrd<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        self.partial_cmp(other).is_some_and(cmp::Ordering::is_le)
    }

    /// True if `self` is greater, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 2].par_iter().gt(&[1]));
    /// ```
    #[track_caller]
    fn gt<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialOrd<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        self.partial_cmp(other).is_some_and(cmp::Ordering::is_gt)
    }

    /// True if `self` is greater or equal, by [`partial_cmp`](Self::partial_cmp).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 2].par_iter().ge(&[1, 2]));
    /// ```
    #[track_caller]
    fn ge<Z>(self, other: Z) -> bool
    where
        Self::Item: PartialOrd<Z::Item>,
        Z: IntoParallelIterator<Iter: IndexedParallelIterator>,
    {
        self.partial_cmp(other).is_some_and(cmp::Ordering::is_ge)
    }

    /// Every item with `separator` between it and the next one.
    ///
    /// # Panics
    /// If there are more than `usize::MAX / 2 + 1` items.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!(["a", "b", "c"].into_par_iter().intersperse("-").collect::<String>(), "a-b-c");
    /// ```
    fn intersperse(self, separator: Self::Item) -> Intersperse<Self>
    where
        Self::Item: Clone + Sync,
    {
        let separators = self.len().saturating_sub(1);
        self.interleave(repeat_n(separator, separators))
    }

    /// A hint without effect: for programs that come from rayon, where `min` is the minimum of items for a task. windrow measures the cost of
    /// items, and makes claims long enough. [`with_claim_size`](ParallelIterator::with_claim_size) fixes the size of claims.
    fn with_min_len(self, _min: usize) -> Self {
        self
    }

    /// At most `max` items are claimed at once, and a [`fold`](ParallelIterator::fold) after it has at most `max` items in a run. With a `max` of
    /// 1, each item is worth a task: sharing begins at once, as with a [claim size](ParallelIterator::with_claim_size) of 1.
    ///
    /// It does not bound what the caller runs alone, nor the blocks of a reduction. Most calls are faster without it.
    ///
    /// # Panics
    /// If `max` is 0.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let runs: Vec<u32> = (0..10_000).into_par_iter().with_max_len(7).fold(|| 0, |n, _| n + 1).collect();
    /// assert!(runs.iter().all(|&n| n <= 7));
    /// ```
    fn with_max_len(self, max: usize) -> MaxLen<Self> {
        assert!(max > 0, "the maximum length must be at least 1");
        let (source, recipe, mut hints) = self.into_parts();
        hints.limit(max);
        Par { source, recipe, hints }
    }

    /// The running reductions: for every item, `op` over `init` and all items up to and including this one.
    ///
    /// `op` must be associative. The grouping depends on the number of items alone, so the result has the same bits for
    /// every number of threads, floats included. `op` is called twice for an item: within its block, then with the prefix before
    /// the block (Blelloch, *Prefix sums and their applications*, 1990; the names are those of C++17).
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let ends: Vec<usize> = ["one", "three", "five"].par_iter().map(|w| w.len()).inclusive_scan(|a, b| a + b, 0);
    /// assert_eq!(ends, [3, 8, 12]);
    /// ```
    #[track_caller]
    fn inclusive_scan<F>(self, op: F, init: Self::Item) -> Vec<Self::Item>
    where
        F: Fn(&Self::Item, &Self::Item) -> Self::Item + Sync,
        Self::Item: Clone + Sync,
    {
        let mut items: Vec<Self::Item> = self.collect();
        Scan { op, inclusive: true }.run(&mut items, init, CallPart::Further);
        items
    }

    /// The running reductions: for every item, `op` over `init` and all items before it. Otherwise as
    /// [`inclusive_scan`](Self::inclusive_scan).
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let starts: Vec<usize> = ["one", "three", "five"].par_iter().map(|w| w.len()).exclusive_scan(|a, b| a + b, 0);
    /// assert_eq!(starts, [0, 3, 8]);
    /// ```
    #[track_caller]
    fn exclusive_scan<F>(self, op: F, init: Self::Item) -> Vec<Self::Item>
    where
        F: Fn(&Self::Item, &Self::Item) -> Self::Item + Sync,
        Self::Item: Clone + Sync,
    {
        let mut items: Vec<Self::Item> = self.collect();
        Scan { op, inclusive: false }.run(&mut items, init, CallPart::Further);
        items
    }
}

/// `iter` in blocks of `size` items; `recipe` makes one item of each.
fn in_blocks_of<P: ParallelIterator, R: Recipe<Blocks<P::Source>>>(
    iter: P,
    size: usize,
    recipe: impl FnOnce(P::Recipe) -> R,
) -> Par<Blocks<P::Source>, R> {
    let (source, inner, hints) = iter.into_parts();
    let hints = hints.of_blocks(size, source.total());
    Par { source: Blocks::new(source, size), recipe: recipe(inner), hints }
}

impl<S: Divide + Send, R: Recipe<S> + Indexed> IndexedParallelIterator for Par<S, R> {
    fn len(&self) -> usize {
        self.source.total()
    }
}

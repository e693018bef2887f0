//! Named types of the iterators that adaptors and sources return, for fields of structs and for associated types.
//!
//! Names and parameters are those of rayon. The types behind the names may change.

use std::ops::Range;

use windrow_sync::sources::VecItems;
use windrow_sync::views::Blocks;
use windrow_sync::views::{Merged, Part, Pieces};

use super::make::{Bridge, RepeatItem};
use super::marks::RemainingQuota;
use super::recipe::{self, Clones, InitCalls, Of, Plain, Until};
use super::search::Found;
use super::{Par, ParallelIterator};

/// Names of iterators, each with its source and its recipe.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident<$($part:tt),+> = $source:ty, $recipe:ty;)*) => {$(
        #[doc = concat!("A parallel iterator: `", stringify!($name), "`, named after the method or collection that returns it.")]
        $(#[$doc])*
        pub type $name<$($part),+> = Par<$source, $recipe>;
    )*};
}
pub(crate) use names;

/// The source and the recipe of an iterator.
type S<I> = <I as ParallelIterator>::Source;
type R<I> = <I as ParallelIterator>::Recipe;

names! {
    ///
    /// ```
    /// use windrow::iter::Map;
    /// use windrow::prelude::*;
    ///
    /// /// The even numbers below an even one.
    /// struct Evens(u32);
    ///
    /// impl IntoParallelIterator for Evens {
    ///     type Item = u32;
    ///     type Iter = Map<windrow::range::Iter<u32>, fn(u32) -> u32>;
    ///
    ///     fn into_par_iter(self) -> Self::Iter {
    ///         (0..self.0 / 2).into_par_iter().map(|half| 2 * half)
    ///     }
    /// }
    ///
    /// assert_eq!(Evens(8).into_par_iter().sum::<u32>(), 12);
    /// ```
    Map<I, F> = S<I>, recipe::Map<R<I>, F>;
    MapWith<I, T, F> = S<I>, recipe::MapInit<R<I>, Clones<T>, F>;
    MapInit<I, N, F> = S<I>, recipe::MapInit<R<I>, InitCalls<N>, F>;
    Inspect<I, F> = S<I>, recipe::Inspect<R<I>, F>;
    Update<I, F> = S<I>, recipe::Update<R<I>, F>;
    Cloned<I> = S<I>, recipe::Cloned<R<I>>;
    Copied<I> = S<I>, recipe::Copied<R<I>>;
    Filter<I, F> = S<I>, recipe::Filter<R<I>, F>;
    FilterMap<I, F> = S<I>, recipe::FilterMap<R<I>, F>;
    FlatMap<I, F> = S<I>, recipe::FlatMap<R<I>, F>;
    FlatMapIter<I, F> = S<I>, recipe::FlatMapIter<R<I>, F>;
    Flatten<I> = S<I>, recipe::Flatten<R<I>>;
    FlattenIter<I> = S<I>, recipe::FlattenIter<R<I>>;
    Fold<I, N, F> = S<I>, recipe::Fold<R<I>, InitCalls<N>, F>;
    FoldWith<I, T, F> = S<I>, recipe::Fold<R<I>, Clones<T>, F>;
    TryFold<I, N, F> = S<I>, recipe::TryFold<R<I>, InitCalls<N>, F>;
    TryFoldWith<I, T, F> = S<I>, recipe::TryFold<R<I>, Clones<T>, F>;
    TakeAny<I> = Pieces<S<I>>, recipe::TakeAny<R<I>, RemainingQuota>;
    TakeAnyWhile<I, F> = Pieces<S<I>>, recipe::TakeAny<R<I>, Until<F>>;
    SkipAny<I> = S<I>, recipe::SkipAny<R<I>, RemainingQuota>;
    SkipAnyWhile<I, F> = S<I>, recipe::SkipAny<R<I>, Until<F>>;
    WhileSome<I> = Pieces<S<I>>, recipe::WhileOk<R<I>, Found<()>>;
    Chain<A, B> = Merged<S<A>, S<B>>, recipe::Chain<R<A>, R<B>>;
    Zip<A, B> = (S<A>, S<B>), recipe::Zip<R<A>, R<B>>;
    MultiZip<Z, T> = S<Z>, recipe::Unnested<R<Z>, T>;
    Interleave<A, B> = Merged<S<A>, S<B>>, recipe::Interleave<R<A>, R<B>>;
    Enumerate<I> = S<I>, recipe::Enumerate<R<I>>;
    Positions<I, F> = S<I>, recipe::Positions<recipe::Enumerate<R<I>>, F>;
    Rev<I> = Pieces<S<I>>, recipe::Rev<R<I>>;
    Take<I> = Part<S<I>>, recipe::PartOf<R<I>>;
    Skip<I> = Part<S<I>>, recipe::PartOf<R<I>>;
    StepBy<I> = Blocks<S<I>>, recipe::StepBy<R<I>>;
    Chunks<I> = Blocks<S<I>>, recipe::Chunks<R<I>>;
    FoldChunks<I, N, F> = Blocks<S<I>>, recipe::FoldChunks<R<I>, InitCalls<N>, F>;
    FoldChunksWith<I, T, F> = Blocks<S<I>>, recipe::FoldChunks<R<I>, Clones<T>, F>;
    Empty<T> = VecItems<T>, Plain;
    Once<T> = VecItems<T>, Plain;
    Repeat<T> = Range<usize>, Of<RepeatItem<T>>;
    RepeatN<T> = Range<usize>, Of<RepeatItem<T>>;
    IterBridge<I> = Range<usize>, Bridge<I>;
}

/// The type of `zip_eq`.
pub type ZipEq<A, B> = Zip<A, B>;
/// The type of `interleave_shortest`.
pub type InterleaveShortest<A, B> = Interleave<Take<A>, Take<B>>;
/// The type of `intersperse`.
pub type Intersperse<I> = Interleave<I, RepeatN<<I as ParallelIterator>::Item>>;
/// The type of `by_exponential_blocks`.
pub type ExponentialBlocks<I> = I;
/// The type of `by_uniform_blocks`.
pub type UniformBlocks<I> = I;
/// The type of `panic_fuse`.
pub type PanicFuse<I> = I;
/// The type of `with_min_len`.
pub type MinLen<I> = I;
/// The type of `with_max_len`.
pub type MaxLen<I> = Par<S<I>, R<I>>;

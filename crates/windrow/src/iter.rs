//! Parallel iterators.
//!
//! A parallel iterator is a *source* and a *recipe*. windrow-sync hands the source out in chunks; the recipe transforms the items of
//! a chunk. [`Par`] is the only type; adaptors change its recipe.

mod adaptors;
pub(crate) mod cancellable;
mod collect;
mod indexed;
mod make;
mod marks;
pub(crate) mod names;
mod ordered;
mod parallel;
mod ranges;
pub(crate) mod recipe;
mod reduce;
mod runs;
mod scan;
mod search;
pub mod slice;
pub(crate) mod sort;
pub(crate) mod source;
mod sources;
mod split;
pub mod str;
pub(crate) mod tries;
mod tuples;
mod visit;

use std::fmt;
use std::panic::Location;

use windrow_sync::divide::{Divide, Leaf};
use windrow_sync::views::Pieces;

use crate::iter::recipe::{OwnItems, Plain, Recipe, WhileOk};
use crate::iter::search::PIECE;
use crate::iter::source::Weigh;
use crate::runtime::hints::{CallPart, Hints, Weights};

pub use crate::iter::collect::{FromParallelIterator, ParallelExtend};
pub use adaptors::*;
pub use either::Either;
pub use indexed::IndexedParallelIterator;
pub use make::{Bridge, ParallelBridge, empty, once, repeat, repeat_n, repeatn};
pub use ordered::MapOrdered;
pub use parallel::ParallelIterator;
pub use ranges::{IndexedInteger, Integer, RangeItems};
pub use sources::{ParallelDrainFull, ParallelDrainRange};
pub use split::{
    SplitAt, SplitAtIter, SplitInHalf, SplitInHalfIter, SplitParts, WalkTree, from_split_at, from_split_in_half, split,
    walk_tree, walk_tree_postfix, walk_tree_prefix,
};

/// A parallel iterator: a source, a recipe, and the user's hints about the items.
///
/// It is `Clone` if its source and its closures are. Iterators over shared references and ranges are cheap to clone. An iterator that owns
/// its items clones them.
///
/// ```
/// use windrow::Par;
/// use windrow::prelude::*;
///
/// let squares: Par<_, _> = (1..=4u64).into_par_iter().map(|number| number * number);
/// let again = squares.clone();
/// assert_eq!((squares.sum::<u64>(), again.max()), (30, Some(16)));
/// ```
#[derive(Clone)]
#[must_use = "parallel iterators do nothing until they are consumed"]
pub struct Par<S, R> {
    source: S,
    recipe: R,
    hints: Hints,
}

/// Shows the source and the hints. Closures have nothing to show.
impl<S: fmt::Debug, R> fmt::Debug for Par<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Par").field("source", &self.source).field("hints", &self.hints).finish_non_exhaustive()
    }
}

impl<S: Leaf<Item: Send>> Par<S, Plain> {
    #[inline]
    pub(crate) fn new(source: S) -> Self {
        Par::of(source, Plain)
    }
}

impl<S: Divide, R: Recipe<S>> Par<S, R> {
    #[inline]
    pub(crate) fn of(source: S, recipe: R) -> Self {
        Par { source, recipe, hints: Hints::default() }
    }

    /// Marks this loop as part of a reported call.
    pub(crate) fn reported_as(mut self, part: CallPart) -> Self {
        self.hints.part = part;
        self
    }
}

/// Takes `iter` apart for a consumer. The location of the consumer's caller identifies the call site.
#[inline]
#[track_caller]
fn consumed<P: ParallelIterator>(iter: P) -> (P::Source, P::Recipe, Hints) {
    let (source, recipe, mut hints) = iter.into_parts();
    if let Some(cancellation) = hints.cancellation() {
        recipe.look_at(cancellation);
    }
    hints.place.get_or_insert(Location::caller());
    hints.whole = P::Recipe::PER_CHUNK;
    (source, recipe, hints)
}

/// `iter` with its recipe wrapped in another one.
fn adapt<P: ParallelIterator, R: Recipe<P::Source>>(iter: P, recipe: impl FnOnce(P::Recipe) -> R) -> Par<P::Source, R> {
    let (source, inner, hints) = iter.into_parts();
    Par { source, recipe: recipe(inner), hints }
}

/// `iter` over a view of its source. The view gives items new numbers, so weights are dropped.
fn adapt_view<P: ParallelIterator, S: Divide, R: Recipe<S>>(
    iter: P,
    view: impl FnOnce(P::Source) -> S,
    recipe: impl FnOnce(P::Recipe) -> R,
) -> Par<S, R> {
    let (source, inner, mut hints) = iter.into_parts();
    hints.drop_weights();
    Par { source: view(source), recipe: recipe(inner), hints }
}

/// `iter` over pieces of its source, with the same indices. Recipes that end early check their marks between pieces.
fn adapt_pieces<P: ParallelIterator, R: Recipe<Pieces<P::Source>>>(
    iter: P,
    recipe: impl FnOnce(P::Recipe) -> R,
) -> Par<Pieces<P::Source>, R> {
    let (source, inner, hints) = iter.into_parts();
    Par { source: Pieces::new(source, PIECE), recipe: recipe(inner), hints }
}

/// The outputs of the items of `iter`, until one item breaks off. `broken` records the residual of that item.
pub(crate) fn while_ok<P: ParallelIterator, B>(iter: P, broken: B) -> Par<Pieces<P::Source>, WhileOk<P::Recipe, B>>
where
    WhileOk<P::Recipe, B>: Recipe<Pieces<P::Source>>,
{
    adapt_pieces(iter, |recipe| WhileOk(recipe, broken))
}

impl<S: Weigh, R: OwnItems> Par<S, R> {
    /// Gives each item a weight that its work is proportional to: the bytes of a text, say. Claims are then sized by weight, and
    /// the remaining work is predicted by weight.
    ///
    /// Costs one pass over the items on the calling thread, and 8 bytes an item while the call lasts. Adaptors that number items
    /// anew (`skip`, `rev`, `chain`, `interleave`) drop the weights.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let texts = ["a", "a much longer text"];
    /// let bytes: Vec<u8> = texts.par_iter().weigh(|text| text.len()).map(|text| text.as_bytes()[0]).collect();
    /// assert_eq!(bytes, b"aa");
    /// ```
    pub fn weigh(mut self, weight: impl Fn(&S::Seen) -> usize) -> Self {
        self.hints.weigh(Weights::new(self.source.seen().map(weight)));
        self
    }
}

/// Types that can be turned into a parallel iterator.
///
/// ```
/// use windrow::prelude::*;
///
/// fn total(numbers: impl IntoParallelIterator<Item = u64>) -> u64 {
///     numbers.into_par_iter().sum()
/// }
///
/// assert_eq!((total(1..=4), total(vec![10, 20])), (10, 30));
/// ```
pub trait IntoParallelIterator {
    /// The type of the items.
    type Item: Send;
    /// The type of the iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let words = vec!["one".to_owned(), "fish".to_owned()];
    /// let bytes: Vec<Vec<u8>> = words.into_par_iter().map(String::into_bytes).collect();
    /// assert_eq!(bytes, [b"one".to_vec(), b"fish".to_vec()]);
    /// ```
    fn into_par_iter(self) -> Self::Iter;
}

/// `par_iter()`: over shared references.
///
/// ```
/// use windrow::prelude::*;
///
/// struct Basket(Vec<u32>);
///
/// // A collection gets `par_iter` by turning its shared reference into an iterator.
/// impl<'a> IntoParallelIterator for &'a Basket {
///     type Item = &'a u32;
///     type Iter = windrow::slice::Iter<'a, u32>;
///
///     fn into_par_iter(self) -> Self::Iter {
///         self.0.par_iter()
///     }
/// }
///
/// assert_eq!(Basket(vec![1, 2, 3]).par_iter().sum::<u32>(), 6);
/// ```
pub trait IntoParallelRefIterator<'a> {
    /// The type of the items.
    type Item: Send + 'a;
    /// The type of the iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let words = vec!["one", "fish"];
    /// assert_eq!(words.par_iter().map(|word| word.len()).sum::<usize>(), 7);
    /// ```
    fn par_iter(&'a self) -> Self::Iter;
}

/// `par_iter_mut()`: over exclusive references.
///
/// ```
/// use windrow::prelude::*;
///
/// fn double<'a, C>(numbers: &'a mut C)
/// where
///     C: IntoParallelRefMutIterator<'a, Item = &'a mut u32>,
/// {
///     numbers.par_iter_mut().for_each(|number| *number *= 2);
/// }
///
/// let mut numbers = vec![1, 2, 3];
/// double(&mut numbers);
/// assert_eq!(numbers, [2, 4, 6]);
/// ```
pub trait IntoParallelRefMutIterator<'a> {
    /// The type of the items.
    type Item: Send + 'a;
    /// The type of the iterator.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut numbers = vec![1, 2, 3];
    /// numbers.par_iter_mut().for_each(|number| *number += 10);
    /// assert_eq!(numbers, [11, 12, 13]);
    /// ```
    fn par_iter_mut(&'a mut self) -> Self::Iter;
}

impl<'a, C: ?Sized + 'a> IntoParallelRefIterator<'a> for C
where
    &'a C: IntoParallelIterator,
{
    type Item = <&'a C as IntoParallelIterator>::Item;
    type Iter = <&'a C as IntoParallelIterator>::Iter;
    fn par_iter(&'a self) -> Self::Iter {
        self.into_par_iter()
    }
}

impl<'a, C: ?Sized + 'a> IntoParallelRefMutIterator<'a> for C
where
    &'a mut C: IntoParallelIterator,
{
    type Item = <&'a mut C as IntoParallelIterator>::Item;
    type Iter = <&'a mut C as IntoParallelIterator>::Iter;
    fn par_iter_mut(&'a mut self) -> Self::Iter {
        self.into_par_iter()
    }
}

impl<P: ParallelIterator> IntoParallelIterator for P {
    type Item = P::Item;
    type Iter = P;
    fn into_par_iter(self) -> P {
        self
    }
}

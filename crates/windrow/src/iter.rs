//! Parallel iterators.
//!
//! A parallel iterator is a *source*, which windrow-sync hands out in chunks, and a *recipe*, which says what happens to the
//! items of a chunk. [`Par`] is the only type; adaptors change its recipe.

use std::iter::{Product, Sum};
use std::ops::Range;
use std::sync::OnceLock;

use windrow_sync::divide::{Divide, Division, Leaf};
use windrow_sync::sources::{Items, Runs, RunsMut, SliceMut};

use crate::collect::FromParallelIterator;
use crate::pool::with_current;
use crate::recipe::{Enumerate, Filter, Fold, Indexed, Map, Plain, Recipe, Zip};
use crate::reduce::{Counts, Folds, Greatest, Least, Products, Sums, in_blocks};
use crate::region::{Hints, run};
use crate::source::Weigh;
use crate::stop::{Stop, Stoppable};

/// A parallel iterator: a source, a recipe, and what the user said about the items.
#[derive(Debug)]
#[must_use = "parallel iterators do nothing until they are consumed"]
pub struct Par<S, R> {
    source: S,
    recipe: R,
    hints: HintsOf,
}

/// Opaque: what the user said about the items.
#[derive(Debug, Default)]
pub struct HintsOf(pub(crate) Hints);

impl<S: Leaf> Par<S, Plain> {
    fn new(source: S) -> Self {
        Par { source, recipe: Plain, hints: HintsOf::default() }
    }
}

impl<S: Weigh> Par<S, Plain> {
    /// Says how much work each item is, in any unit that the work is proportional to: bytes of a text, say. Claims are then
    /// sized by weight, and the prediction of what is left goes by weight.
    ///
    /// One pass over the items on the calling thread, and 8 bytes an item while the call lasts.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let texts = ["a", "a much longer text"];
    /// let bytes: Vec<u8> = texts.par_iter().weigh(|text| text.len()).map(|text| text.as_bytes()[0]).collect();
    /// assert_eq!(bytes, b"aa");
    /// ```
    pub fn weigh(mut self, weight: impl Fn(&S::Seen) -> usize) -> Self {
        self.hints.0.weights = Some(self.source.weights(weight).0);
        self
    }
}

/// What can be turned into a parallel iterator.
pub trait IntoParallelIterator {
    /// What it iterates over.
    type Item;
    /// Which iterator that is.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
    fn into_par_iter(self) -> Self::Iter;
}

/// `par_iter()`: over shared references.
pub trait IntoParallelRefIterator<'a> {
    /// What it iterates over.
    type Item: 'a;
    /// Which iterator that is.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
    fn par_iter(&'a self) -> Self::Iter;
}

/// `par_iter_mut()`: over exclusive references.
pub trait IntoParallelRefMutIterator<'a> {
    /// What it iterates over.
    type Item: 'a;
    /// Which iterator that is.
    type Iter: ParallelIterator<Item = Self::Item>;
    /// The parallel iterator.
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
    [T: Send] Vec<T>, T, Items<T>, self => Items::new(self);
    [T: Send, const N: usize] [T; N], T, Items<T>, self => Items::new(self.into());
    ['a, T: Sync] &'a [T], &'a T, &'a [T], self => self;
    ['a, T: Sync] &'a Vec<T>, &'a T, &'a [T], self => self;
    ['a, T: Sync, const N: usize] &'a [T; N], &'a T, &'a [T], self => self;
    ['a, T: Send] &'a mut [T], &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send] &'a mut Vec<T>, &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
    ['a, T: Send, const N: usize] &'a mut [T; N], &'a mut T, SliceMut<'a, T>, self => SliceMut::new(self);
}

/// Ranges of every integer up to 64 bits. (One implementation, so that `(0..9)` alone is a range of `i32`.)
impl<T> IntoParallelIterator for Range<T>
where
    Range<T>: Leaf<Item = T>,
{
    type Item = T;
    type Iter = Par<Self, Plain>;
    fn into_par_iter(self) -> Self::Iter {
        Par::new(self)
    }
}

impl<S: Divide, R: Recipe<S>> IntoParallelIterator for Par<S, R> {
    type Item = R::Item;
    type Iter = Self;
    fn into_par_iter(self) -> Self {
        self
    }
}

/// Runs of a slice as items.
pub trait ParallelSlice<T: Sync> {
    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks(&self, size: usize) -> Par<Runs<'_, T>, Plain>;
}

impl<T: Sync> ParallelSlice<T> for [T] {
    fn par_chunks(&self, size: usize) -> Par<Runs<'_, T>, Plain> {
        Par::new(Runs::new(self, size))
    }
}

/// Exclusive runs of a slice as items.
pub trait ParallelSliceMut<T: Send> {
    /// Runs of `size` items; the last one may be shorter.
    ///
    /// # Panics
    /// If `size` is 0.
    fn par_chunks_mut(&mut self, size: usize) -> Par<RunsMut<'_, T>, Plain>;
}

impl<T: Send> ParallelSliceMut<T> for [T] {
    fn par_chunks_mut(&mut self, size: usize) -> Par<RunsMut<'_, T>, Plain> {
        Par::new(RunsMut::new(self, size))
    }
}

/// Adaptors and consumers. Names and meanings are those of rayon 1; [`Par`] alone implements it, so that
/// `impl ParallelIterator<Item = T>` can be written.
///
/// Closures run on the caller's thread and on workers, many at a time; they see each item once. Panics in them reach the
/// caller (see the [crate page](crate#panics)).
pub trait ParallelIterator: Sized {
    /// What it iterates over.
    type Item;
    #[doc(hidden)]
    type Source: Divide;
    #[doc(hidden)]
    type Recipe: Recipe<Self::Source, Item = Self::Item>;

    #[doc(hidden)]
    fn into_parts(self) -> (Self::Source, Self::Recipe, HintsOf);

    /// Items through `f`.
    fn map<B, F: Fn(Self::Item) -> B + Sync>(self, f: F) -> Par<Self::Source, Map<Self::Recipe, F>> {
        let (source, recipe, hints) = self.into_parts();
        Par { source, recipe: Map(recipe, f), hints }
    }

    /// Items for which `f` holds.
    fn filter<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Par<Self::Source, Filter<Self::Recipe, F>> {
        let (source, recipe, hints) = self.into_parts();
        Par { source, recipe: Filter(recipe, f), hints }
    }

    /// Folds runs of items into accumulators, each begun with `identity`; the accumulators are the items of the result.
    ///
    /// Before [`collect`](Self::collect), [`sum`](Self::sum), [`reduce`](Self::reduce) and the like where runs begin depends
    /// on the number of items alone. Before [`for_each`](Self::for_each), `any` and `all` it is not specified.
    fn fold<T, I: Fn() -> T + Sync, F: Fn(T, Self::Item) -> T + Sync>(
        self,
        identity: I,
        f: F,
    ) -> Par<Self::Source, Fold<Self::Recipe, I, F>> {
        let (source, recipe, hints) = self.into_parts();
        Par { source, recipe: Fold(recipe, identity, f), hints }
    }

    /// Claims of `size` items, instead of as many as the measured cost suggests.
    ///
    /// For items whose cost the first ones do not show. Most calls are better off without.
    ///
    /// # Panics
    /// If `size` is 0.
    fn chunk(self, size: usize) -> Par<Self::Source, Self::Recipe> {
        assert!(size > 0, "a chunk of 0 items never ends");
        let (source, recipe, mut hints) = self.into_parts();
        hints.0.chunk = Some(size);
        Par { source, recipe, hints }
    }

    /// Ends early when `stop` is stopped; consumers then return [`Stopped`](crate::Stopped) instead of a result.
    ///
    /// Members look at the token before each claim, a microsecond or so of work; alone, the caller looks about every 20 us.
    /// Items that were begun are finished, so a stopped call lasts as long as its longest item (with
    /// [`chunk`](Self::chunk): as its longest claim; behind [`fold`](Self::fold): as its longest run). Inside of
    /// [`offload`](crate::offload()) the call ends also when the closure's own token is stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windrow::Stop;
    /// use windrow::prelude::*;
    ///
    /// let in_time = Stop::after(Duration::from_secs(3600));
    /// let sum = (0..1000u64).into_par_iter().stop_when(&in_time).sum::<u64>()?;
    /// assert_eq!(sum, 499_500);
    /// # Ok::<(), windrow::Stopped>(())
    /// ```
    fn stop_when(self, stop: &Stop) -> Stoppable<'_, Self> {
        Stoppable::new(self, stop)
    }

    /// Calls `f` with every item, in no particular order.
    fn for_each<F: Fn(Self::Item) + Sync>(self, f: F) {
        let (source, recipe, hints) = self.into_parts();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            run(crew, &hints.0, lead, shared, |walk| {
                for (at, chunk) in walk {
                    recipe.iter(at, chunk).for_each(&f);
                }
            });
        });
    }

    /// All items, in the order of the source.
    fn collect<C: FromParallelIterator<Self::Item>>(self) -> C
    where
        Self::Item: Send,
    {
        C::from_par_iter(self)
    }

    /// Combines all items with `op`, which must be associative; `identity()` may be combined in any number of times.
    ///
    /// The same bits for every number of threads: how items are grouped depends on their number alone.
    fn reduce<I: Fn() -> Self::Item + Sync, F: Fn(Self::Item, Self::Item) -> Self::Item + Sync>(
        self,
        identity: I,
        op: F,
    ) -> Self::Item
    where
        Self::Item: Send,
    {
        in_blocks(self, &Folds(&identity, &op)).into_iter().fold(identity(), &op)
    }

    /// The sum of the items; the same bits for every number of threads, floats included.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let x: Vec<f64> = (0..10_000).map(|i| 1.0 / f64::from(i + 1)).collect();
    /// let on = |threads| windrow::Pool::new(threads).install(|| x.par_iter().sum::<f64>());
    /// assert_eq!(on(1).to_bits(), on(3).to_bits());
    /// ```
    fn sum<T: Sum<Self::Item> + Sum<T> + Send>(self) -> T {
        in_blocks(self, &Sums::<T>::new()).into_iter().sum()
    }

    /// The product of the items; the same bits for every number of threads.
    fn product<T: Product<Self::Item> + Product<T> + Send>(self) -> T {
        in_blocks(self, &Products::<T>::new()).into_iter().product()
    }

    /// How many items there are.
    fn count(self) -> usize {
        in_blocks(self, &Counts).into_iter().sum()
    }

    /// The smallest item; of equal ones the first.
    fn min(self) -> Option<Self::Item>
    where
        Self::Item: Ord + Send,
    {
        in_blocks(self, &Least).into_iter().flatten().min()
    }

    /// The largest item; of equal ones the last.
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord + Send,
    {
        in_blocks(self, &Greatest).into_iter().flatten().max()
    }

    /// Whether `f` holds for an item. Once it does, no member claims more; items already claimed may still be looked at.
    fn any<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        let (source, recipe, hints) = self.into_parts();
        let found = OnceLock::new();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            run(crew, &hints.0, lead, shared, |walk| {
                for (at, chunk) in walk {
                    if recipe.iter(at, chunk).any(&f) {
                        found.get_or_init(|| ());
                        shared.stop();
                        return;
                    }
                }
            });
        });
        found.get().is_some()
    }

    /// Whether `f` holds for all items. Once it does not, no member claims more.
    fn all<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        !self.any(|item| !f(item))
    }
}

/// Parallel iterators with one item for every index of their source.
pub trait IndexedParallelIterator: ParallelIterator<Recipe: Indexed> {
    /// Items with their index.
    fn enumerate(self) -> Par<Self::Source, Enumerate<Self::Recipe>> {
        let (source, recipe, hints) = self.into_parts();
        Par { source, recipe: Enumerate(recipe), hints }
    }

    /// Items of both, in pairs, as many as the shorter one has. The other items of the longer one are dropped. A weight or a
    /// fixed chunk of either side counts; the left one's if both have it.
    fn zip<Z: IntoParallelIterator<Iter: IndexedParallelIterator>>(self, other: Z) -> Zipped<Self, Z::Iter> {
        let (a, left, hints) = self.into_parts();
        let (b, right, more) = other.into_par_iter().into_parts();
        Par { source: (a, b), recipe: Zip(left, right), hints: HintsOf(hints.0.or(more.0)) }
    }

    /// Number of items.
    fn len(&self) -> usize;

    /// There are no items.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

type Zipped<A, B> = Par<
    (<A as ParallelIterator>::Source, <B as ParallelIterator>::Source),
    Zip<<A as ParallelIterator>::Recipe, <B as ParallelIterator>::Recipe>,
>;

impl<S: Divide, R: Recipe<S>> ParallelIterator for Par<S, R> {
    type Item = R::Item;
    type Source = S;
    type Recipe = R;

    fn into_parts(self) -> (S, R, HintsOf) {
        (self.source, self.recipe, self.hints)
    }
}

impl<S: Divide, R: Recipe<S> + Indexed> IndexedParallelIterator for Par<S, R> {
    fn len(&self) -> usize {
        self.source.total()
    }
}

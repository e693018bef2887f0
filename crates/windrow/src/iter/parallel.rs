//! What every parallel iterator can do.

use std::iter::{Product, Sum};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use either::Either;
use windrow_sync::divide::{Divide, Division};
use windrow_sync::marks::{Mark, Tickets};
use windrow_sync::views::{Merged, Pieces};

use super::{HintsOf, IntoParallelIterator, Par, adapt, adapt_pieces, while_ok};
use crate::collect::{FromParallelIterator, ParallelExtend, two_vectors};
use crate::pool::with_current;
use crate::recipe::{
    Calls, Chained, Cloned, Clones, Copied, Filter, FilterMap, FlatMap, FlatMapIter, Flatten, FlattenIter, Fold,
    Inspect, Map, MapInit, Recipe, SkipAny, SkipAnyWhile, TakeAny, TakeAnyWhile, TryFold, TryReduce, Update,
    try_reduce,
};
use crate::reduce::{Counts, Folds, Gathers, Greatest, Least, Products, Reduces, Sums, in_blocks};
use crate::region::run;
use crate::runs::{Parted, Unzipped, gathered};
use crate::search::{Found, Which, over, search};
use crate::stop::{Stop, Stoppable};
use crate::tries::Try;

type Chain<A, B> = Par<
    Merged<<A as ParallelIterator>::Source, <B as ParallelIterator>::Source>,
    Chained<<A as ParallelIterator>::Recipe, <B as ParallelIterator>::Recipe>,
>;

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

    /// How many items there are, if that is known without looking at them.
    fn opt_len(&self) -> Option<usize>;

    /// Items through `f`.
    fn map<B, F: Fn(Self::Item) -> B + Sync>(self, f: F) -> Par<Self::Source, Map<Self::Recipe, F>> {
        adapt(self, |recipe| Map(recipe, f))
    }

    /// Items through `f`, which also gets a clone of `init`, one for every member (thread that takes part). So `f` may see what it did
    /// to that value at other items.
    fn map_with<T: Clone + Send, B, F: Fn(&mut T, Self::Item) -> B + Sync>(
        self,
        init: T,
        f: F,
    ) -> Par<Self::Source, MapInit<Self::Recipe, Clones<T>, F>> {
        adapt(self, |recipe| MapInit(recipe, Clones::new(init), f))
    }

    /// Items through `f`, which also gets a value that `init` makes, one for every member (thread that takes part) that has an item.
    /// It stays on its thread, so it need not be `Send`.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let lines = ["3 1 2", "9 8"];
    /// let sorted: Vec<String> = lines
    ///     .par_iter()
    ///     .map_init(Vec::new, |words: &mut Vec<&str>, line| {
    ///         words.clear();
    ///         words.extend(line.split(' '));
    ///         words.sort();
    ///         words.join(" ")
    ///     })
    ///     .collect();
    /// assert_eq!(sorted, ["1 2 3", "8 9"]);
    /// ```
    fn map_init<T, B, I: Fn() -> T + Sync, F: Fn(&mut T, Self::Item) -> B + Sync>(
        self,
        init: I,
        f: F,
    ) -> Par<Self::Source, MapInit<Self::Recipe, Calls<I>, F>> {
        adapt(self, |recipe| MapInit(recipe, Calls(init), f))
    }

    /// Clones of the items behind references.
    fn cloned<'a, T: Clone + 'a>(self) -> Par<Self::Source, Cloned<Self::Recipe>>
    where
        Self: ParallelIterator<Item = &'a T>,
    {
        adapt(self, Cloned)
    }

    /// Copies of the items behind references.
    fn copied<'a, T: Copy + 'a>(self) -> Par<Self::Source, Copied<Self::Recipe>>
    where
        Self: ParallelIterator<Item = &'a T>,
    {
        adapt(self, Copied)
    }

    /// Items, each shown to `f` first.
    fn inspect<F: Fn(&Self::Item) + Sync>(self, f: F) -> Par<Self::Source, Inspect<Self::Recipe, F>> {
        adapt(self, |recipe| Inspect(recipe, f))
    }

    /// Items, each changed by `f` first.
    fn update<F: Fn(&mut Self::Item) + Sync>(self, f: F) -> Par<Self::Source, Update<Self::Recipe, F>> {
        adapt(self, |recipe| Update(recipe, f))
    }

    /// Items for which `f` holds.
    fn filter<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Par<Self::Source, Filter<Self::Recipe, F>> {
        adapt(self, |recipe| Filter(recipe, f))
    }

    /// What `f` makes of the items for which it makes something.
    fn filter_map<B, F: Fn(Self::Item) -> Option<B> + Sync>(
        self,
        f: F,
    ) -> Par<Self::Source, FilterMap<Self::Recipe, F>> {
        adapt(self, |recipe| FilterMap(recipe, f))
    }

    /// The items of the parallel iterators that `f` makes of the items, one after the other.
    ///
    /// The items of each are gathered in a vector first, by a call of its own which idle members may join. Where they come from a
    /// serial iterator, [`flat_map_iter`](Self::flat_map_iter) does without.
    fn flat_map<B: IntoParallelIterator<Item: Send>, F: Fn(Self::Item) -> B + Sync>(
        self,
        f: F,
    ) -> Par<Self::Source, FlatMap<Self::Recipe, F>> {
        adapt(self, |recipe| FlatMap(recipe, f))
    }

    /// The items of the serial iterators that `f` makes of the items, one after the other.
    fn flat_map_iter<B: IntoIterator, F: Fn(Self::Item) -> B + Sync>(
        self,
        f: F,
    ) -> Par<Self::Source, FlatMapIter<Self::Recipe, F>> {
        adapt(self, |recipe| FlatMapIter(recipe, f))
    }

    /// The items of items that are parallel iterators, or can be made into some: see [`flat_map`](Self::flat_map).
    fn flatten(self) -> Par<Self::Source, Flatten<Self::Recipe>>
    where
        Self::Item: IntoParallelIterator<Item: Send>,
    {
        adapt(self, Flatten)
    }

    /// The items of items that are serial iterators, or can be made into some.
    fn flatten_iter(self) -> Par<Self::Source, FlattenIter<Self::Recipe>>
    where
        Self::Item: IntoIterator,
    {
        adapt(self, FlattenIter)
    }

    /// The items of this, then those of `other`.
    fn chain<Z: IntoParallelIterator<Item = Self::Item>>(self, other: Z) -> Chain<Self, Z::Iter> {
        let (a, left, hints) = self.into_parts();
        let (b, right, more) = other.into_par_iter().into_parts();
        let mut hints = hints.0.or(more.0);
        hints.weights = None;
        Par { source: Merged::one_after_the_other(a, b), recipe: Chained(left, right), hints: HintsOf(hints) }
    }

    /// Folds runs of items into accumulators, each begun with `identity`; the accumulators are the items of the result.
    ///
    /// Before [`collect`](Self::collect), [`sum`](Self::sum), [`reduce`](Self::reduce) and the like where runs begin depends
    /// on the number of items alone. There are 2^20 runs at most; a member that is told to stop ends its run first, which of more
    /// than 2^33 items may be long. Before [`for_each`](Self::for_each), `any`, `all` and the searches it is not specified.
    fn fold<T, I: Fn() -> T + Sync, F: Fn(T, Self::Item) -> T + Sync>(
        self,
        identity: I,
        f: F,
    ) -> Par<Self::Source, Fold<Self::Recipe, Calls<I>, F>> {
        adapt(self, |recipe| Fold(recipe, Calls(identity), f))
    }

    /// As [`fold`](Self::fold), with accumulators that begin as clones of `init`.
    fn fold_with<T: Clone + Send, F: Fn(T, Self::Item) -> T + Sync>(
        self,
        init: T,
        f: F,
    ) -> Par<Self::Source, Fold<Self::Recipe, Clones<T>, F>> {
        adapt(self, |recipe| Fold(recipe, Clones::new(init), f))
    }

    /// As [`fold`](Self::fold), with an `f` that may break its run off; the items are `Option`s, `Result`s or `ControlFlow`s. Other
    /// runs go on, unless what follows stops them, as [`try_reduce`](Self::try_reduce) and a `collect` into a `Result` do.
    fn try_fold<T, X, I, F>(self, identity: I, f: F) -> Par<Self::Source, TryFold<Self::Recipe, Calls<I>, F>>
    where
        X: Try<Output = T>,
        I: Fn() -> T + Sync,
        F: Fn(T, Self::Item) -> X + Sync,
    {
        adapt(self, |recipe| TryFold(recipe, Calls(identity), f))
    }

    /// As [`try_fold`](Self::try_fold), with accumulators that begin as clones of `init`.
    fn try_fold_with<T, X, F>(self, init: T, f: F) -> Par<Self::Source, TryFold<Self::Recipe, Clones<T>, F>>
    where
        T: Clone + Send,
        X: Try<Output = T>,
        F: Fn(T, Self::Item) -> X + Sync,
    {
        adapt(self, |recipe| TryFold(recipe, Clones::new(init), f))
    }

    /// Any `n` items, in their order. When they are found no more are looked for.
    fn take_any(self, n: usize) -> Par<Pieces<Self::Source>, TakeAny<Self::Recipe>> {
        adapt_pieces(self, |recipe| TakeAny(recipe, Tickets::new(n)))
    }

    /// All but any `n` items, in their order.
    fn skip_any(self, n: usize) -> Par<Self::Source, SkipAny<Self::Recipe>> {
        adapt(self, |recipe| SkipAny(recipe, Tickets::new(n)))
    }

    /// Items until `f` refuses one, wherever that is; then no more are looked at.
    fn take_any_while<F: Fn(&Self::Item) -> bool + Sync>(
        self,
        f: F,
    ) -> Par<Pieces<Self::Source>, TakeAnyWhile<Self::Recipe, F>> {
        adapt_pieces(self, |recipe| TakeAnyWhile(recipe, f, OnceLock::new()))
    }

    /// Items from when `f` refuses one, wherever that is.
    fn skip_any_while<F: Fn(&Self::Item) -> bool + Sync>(
        self,
        f: F,
    ) -> Par<Self::Source, SkipAnyWhile<Self::Recipe, F>> {
        adapt(self, |recipe| SkipAnyWhile(recipe, f, OnceLock::new()))
    }

    /// What is inside of items that are `Some`. When there is a `None` no more are looked at; all before it are there, and perhaps
    /// some behind it.
    fn while_some<T>(self) -> impl ParallelIterator<Item = T>
    where
        Self: ParallelIterator<Item = Option<T>>,
    {
        while_ok(self, Found::new())
    }

    /// Does nothing: for programs that come from rayon. A panic stops the other members anyway: at their next claim, at their
    /// next item behind [`par_bridge`](super::ParallelBridge::par_bridge).
    fn panic_fuse(self) -> Self {
        self
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
    /// Members look at the token before each claim, which is 50 us of work at most by the cost of the items before it; alone, the
    /// caller looks about every 20 us. Members of a [`par_bridge`](super::ParallelBridge::par_bridge) look before each item.
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
    ///
    /// Items must not wait for each other: one that waits for what `f` does with another item may wait for ever. The caller
    /// runs the first items alone, and other members may never come. So a barrier in `f` does not open, and an item does not
    /// receive what another one sends.
    fn for_each<F: Fn(Self::Item) + Sync>(self, f: F) {
        let (source, recipe, hints) = self.into_parts();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            run(crew, &hints.0, lead, shared, |walk| {
                let state = recipe.state();
                for (at, chunk) in walk {
                    recipe.iter(&state, at, chunk).for_each(&f);
                    if over(shared, at.hi, |from| recipe.over(from)) {
                        return;
                    }
                }
            });
        });
    }

    /// Calls `f` with every item and a clone of `init`: see [`map_with`](Self::map_with).
    fn for_each_with<T: Clone + Send, F: Fn(&mut T, Self::Item) + Sync>(self, init: T, f: F) {
        self.map_with(init, f).for_each(|()| ());
    }

    /// Calls `f` with every item and a value that `init` makes: see [`map_init`](Self::map_init).
    fn for_each_init<T, I: Fn() -> T + Sync, F: Fn(&mut T, Self::Item) + Sync>(self, init: I, f: F) {
        self.map_init(init, f).for_each(|()| ());
    }

    /// Calls `f` with the items until it breaks off. The result is that of the first item for which it does, in the order of the
    /// source, as a serial loop's would be; items behind it may have been visited before that was known.
    /// Behind [`par_bridge`](super::ParallelBridge::par_bridge), where items have no order, it is one of them, and the others stop.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let parsed = ["1", "x", "3", "y"].par_iter().try_for_each(|text| text.parse::<u8>().map(drop).map_err(|_| *text));
    /// assert_eq!(parsed, Err("x"));
    /// ```
    fn try_for_each<X: Try<Output = ()> + Send, F: Fn(Self::Item) -> X + Sync>(self, f: F) -> X {
        let broken = search(self, Which::First, |item| match f(item).branch() {
            ControlFlow::Continue(()) => None,
            ControlFlow::Break(residual) => Some(X::from_residual(residual)),
        });
        broken.unwrap_or_else(|| X::from_output(()))
    }

    /// As [`try_for_each`](Self::try_for_each), with a clone of `init`: see [`map_with`](Self::map_with).
    fn try_for_each_with<T, X, F>(self, init: T, f: F) -> X
    where
        T: Clone + Send,
        X: Try<Output = ()> + Send,
        F: Fn(&mut T, Self::Item) -> X + Sync,
    {
        self.map_with(init, f).try_for_each(|result| result)
    }

    /// As [`try_for_each`](Self::try_for_each), with a value that `init` makes: see [`map_init`](Self::map_init).
    fn try_for_each_init<T, X, I, F>(self, init: I, f: F) -> X
    where
        X: Try<Output = ()> + Send,
        I: Fn() -> T + Sync,
        F: Fn(&mut T, Self::Item) -> X + Sync,
    {
        self.map_init(init, f).try_for_each(|result| result)
    }

    /// All items, in the order of the source.
    fn collect<C: FromParallelIterator<Self::Item>>(self) -> C
    where
        Self::Item: Send,
    {
        C::from_par_iter(self)
    }

    /// The left sides of all items, and the right ones.
    fn unzip<A, B, FromA, FromB>(self) -> (FromA, FromB)
    where
        Self: ParallelIterator<Item = (A, B)>,
        A: Send,
        B: Send,
        FromA: Default + ParallelExtend<A>,
        FromB: Default + ParallelExtend<B>,
    {
        extended(two_vectors(gathered(self, &Unzipped)))
    }

    /// The items for which `f` holds, and the others.
    fn partition<A, B, F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> (A, B)
    where
        Self::Item: Send,
        A: Default + ParallelExtend<Self::Item>,
        B: Default + ParallelExtend<Self::Item>,
    {
        self.partition_map(|item| if f(&item) { Either::Left(item) } else { Either::Right(item) })
    }

    /// What `f` makes of the items, apart by whether that is a left or a right one.
    fn partition_map<A, B, F, L, R>(self, f: F) -> (A, B)
    where
        F: Fn(Self::Item) -> Either<L, R> + Sync,
        L: Send,
        R: Send,
        A: Default + ParallelExtend<L>,
        B: Default + ParallelExtend<R>,
    {
        extended(two_vectors(gathered(self.map(f), &Parted)))
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

    /// Combines all items with `op`, which must be associative; `None` if there is no item. Grouped as by
    /// [`reduce`](Self::reduce).
    fn reduce_with<F: Fn(Self::Item, Self::Item) -> Self::Item + Sync>(self, op: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        in_blocks(self, &Reduces(&op)).into_iter().flatten().reduce(op)
    }

    /// Combines what is inside of all items with `op`, which must be associative, until an item or `op` breaks off. If several do,
    /// the first one in the order of the source counts. Grouped as by [`reduce`](Self::reduce).
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let sum = |items: &[u8]| items.par_iter().map(|x| Some(*x)).try_reduce(|| 0, |a, b| a.checked_add(b));
    /// assert_eq!(sum(&[1, 2, 3]), Some(6));
    /// assert_eq!(sum(&[200, 100]), None);
    /// ```
    fn try_reduce<T, I, F>(self, identity: I, op: F) -> Self::Item
    where
        Self::Item: Try<Output = T> + Send,
        I: Fn() -> T + Sync,
        F: Fn(T, T) -> Self::Item + Sync,
    {
        let reduced = try_reduced(self, || Some(identity()), &op);
        reduced.unwrap_or_else(|| Self::Item::from_output(identity()))
    }

    /// As [`try_reduce`](Self::try_reduce); `None` if there is no item.
    fn try_reduce_with<T, F>(self, op: F) -> Option<Self::Item>
    where
        Self::Item: Try<Output = T> + Send,
        F: Fn(T, T) -> Self::Item + Sync,
    {
        try_reduced(self, || None, &op)
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

    /// The smallest item by `compare`; of equal ones the first.
    fn min_by<F: Fn(&Self::Item, &Self::Item) -> std::cmp::Ordering + Sync>(self, compare: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { b } else { a })
    }

    /// The item with the smallest key; of equal ones the first.
    fn min_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync>(self, key: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        let keyed = self.map(|item| (key(&item), item));
        keyed.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// The largest item; of equal ones the last.
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord + Send,
    {
        in_blocks(self, &Greatest).into_iter().flatten().max()
    }

    /// The largest item by `compare`; of equal ones the last.
    fn max_by<F: Fn(&Self::Item, &Self::Item) -> std::cmp::Ordering + Sync>(self, compare: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { a } else { b })
    }

    /// The item with the largest key; of equal ones the last.
    fn max_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync>(self, key: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        let keyed = self.map(|item| (key(&item), item));
        keyed.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// Whether `f` holds for an item. Once it does, no member claims more; items already claimed may still be looked at.
    fn any<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        search(self, Which::Any, |item| f(item).then_some(())).is_some()
    }

    /// Whether `f` holds for all items. Once it does not, no member claims more.
    fn all<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        !self.any(|item| !f(item))
    }

    /// An item for which `f` holds, whichever is found first; then the others stop looking.
    fn find_any<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        search(self, Which::Any, |item| Some(item).filter(&f))
    }

    /// The first item for which `f` holds. When one is found, what is behind it is not looked at any more.
    /// Behind [`par_bridge`](super::ParallelBridge::par_bridge), where items have no order, any one ends the search.
    fn find_first<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        search(self, Which::First, |item| Some(item).filter(&f))
    }

    /// The last item for which `f` holds. When one is found, what is before it is not looked at any more; but the search goes from the
    /// front, so with indices [`rev`](super::IndexedParallelIterator::rev) and `find_first` look at less.
    fn find_last<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item>
    where
        Self::Item: Send,
    {
        search(self, Which::Last, |item| Some(item).filter(&f))
    }

    /// What `f` makes of an item for which it makes something, whichever is found first.
    fn find_map_any<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::Any, f)
    }

    /// What `f` makes of the first item for which it makes something.
    fn find_map_first<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::First, f)
    }

    /// What `f` makes of the last item for which it makes something: see [`find_last`](Self::find_last).
    fn find_map_last<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::Last, f)
    }
}

/// Two collections of two vectors.
fn extended<A: Send, B: Send, FromA, FromB>((a, b): (Vec<A>, Vec<B>)) -> (FromA, FromB)
where
    FromA: Default + ParallelExtend<A>,
    FromB: Default + ParallelExtend<B>,
{
    let (mut left, mut right) = (FromA::default(), FromB::default());
    left.extend_by(a);
    right.extend_by(b);
    (left, right)
}

/// Every block reduced, beginning with `seed`, then the blocks; `None` if there is nothing.
fn try_reduced<P, T>(
    iter: P,
    seed: impl Fn() -> Option<T> + Sync,
    op: &(impl Fn(T, T) -> P::Item + Sync),
) -> Option<P::Item>
where
    P: ParallelIterator<Item: Try<Output = T> + Send>,
{
    let mark = Mark::new();
    let parts = in_blocks(adapt(iter, |recipe| TryReduce(recipe, &seed, op, &mark)), &Gathers);
    match try_reduce(parts.into_iter().flatten().flatten(), seed(), op) {
        ControlFlow::Continue(sum) => sum.map(Try::from_output),
        ControlFlow::Break(residual) => Some(Try::from_residual(residual)),
    }
}

impl<S: Divide, R: Recipe<S>> ParallelIterator for Par<S, R> {
    type Item = R::Item;
    type Source = S;
    type Recipe = R;

    fn into_parts(self) -> (S, R, HintsOf) {
        (self.source, self.recipe, self.hints)
    }

    fn opt_len(&self) -> Option<usize> {
        R::EXACT.then(|| self.source.total())
    }
}

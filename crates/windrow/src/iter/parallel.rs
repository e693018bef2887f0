//! Adaptors and consumers of every parallel iterator.

use std::collections::LinkedList;
use std::iter::{self, Product, Sum};
use std::marker::PhantomData;
use std::ops::ControlFlow;

use either::Either;
use windrow_sync::divide::Divide;
use windrow_sync::views::Merged;

use super::adaptors::*;
use super::cancellable::Cancellable;
use super::collect::{FromParallelIterator, ParallelExtend, two_vectors};
use super::recipe::{self, Clones, InitCalls, InnerStop, Recipe};
use super::reduce::{CountItems, Products, Reduces, Sums, reduced};
use super::runs::{Extended, Parted, gathered};
use super::search::{Any, Found, Mapped, Which, search};
use super::tries::Try;
use super::visit::visit;
use super::{IntoParallelIterator, Par, adapt, adapt_pieces, while_ok};
use crate::iter::marks::{FoundBefore, RemainingQuota};
use crate::runtime::cancel::CancelToken;
use crate::runtime::hints::Hints;

/// Adaptors and consumers. Names and meanings are those of rayon 1. Only [`Par`] implements this trait.
///
/// The types that adaptors return have names, such as [`iter::Map`](super::Map). Functions can also return
/// `impl ParallelIterator<Item = T>`. Collections of other crates become parallel iterators by [`SplitAt`](super::SplitAt) and
/// [`SplitInHalf`](super::SplitInHalf).
///
/// A closure runs on the caller's thread and on workers, many calls at a time. Each item goes to one call. A panic of a closure reaches the
/// caller (see the [crate page](crate#guarantees)).
///
/// ```
/// use windrow::prelude::*;
/// let squares = (1..=9u32).into_par_iter().filter(|n| n % 2 == 1).map(|n| n * n);
/// assert_eq!(squares.sum::<u32>(), 165);
/// ```
pub trait ParallelIterator: Sized + Send {
    /// The type of the items.
    type Item: Send;
    #[doc(hidden)]
    type Source: Divide + Send;
    #[doc(hidden)]
    type Recipe: Recipe<Self::Source, Item = Self::Item>;

    #[doc(hidden)]
    fn into_parts(self) -> (Self::Source, Self::Recipe, Hints);

    /// The number of items, if it is known without visiting them.
    fn opt_len(&self) -> Option<usize>;

    /// Applies `f` to each item.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([1, 2, 3].par_iter().map(|n| n * 10).collect::<Vec<_>>(), [10, 20, 30]);
    /// ```
    fn map<B: Send, F: Fn(Self::Item) -> B + Sync + Send>(self, f: F) -> Map<Self, F> {
        adapt(self, |recipe| recipe::Map(recipe, f))
    }

    /// Applies `f` to each item and a clone of `init`. Every member (thread that takes part) has one clone. So `f` may see changes that
    /// it made for earlier items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// (0..5u32).into_par_iter().map_with(sender, |sender, n| sender.send(n)).for_each(Result::unwrap);
    /// assert_eq!(receiver.iter().sum::<u32>(), 10);
    /// ```
    fn map_with<T: Clone + Send, B: Send, F: Fn(&mut T, Self::Item) -> B + Sync + Send>(
        self,
        init: T,
        f: F,
    ) -> MapWith<Self, T, F> {
        adapt(self, |recipe| recipe::MapInit(recipe, Clones::new(init), f))
    }

    /// Applies `f` to each item and a value from `init`. Every member (thread that takes part) with an item has one value. The value
    /// stays on its thread, so it need not be `Send`.
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
    fn map_init<T, B: Send, I: Fn() -> T + Sync + Send, F: Fn(&mut T, Self::Item) -> B + Sync + Send>(
        self,
        init: I,
        f: F,
    ) -> MapInit<Self, I, F> {
        adapt(self, |recipe| recipe::MapInit(recipe, InitCalls(init), f))
    }

    /// Clones of the items behind references.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["a".to_owned()].par_iter().cloned().collect::<Vec<String>>(), ["a"]);
    /// ```
    fn cloned<'a, T: Clone + Send + 'a>(self) -> Cloned<Self>
    where
        Self: ParallelIterator<Item = &'a T>,
    {
        adapt(self, recipe::Cloned)
    }

    /// Copies of the items behind references.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([1, 2, 3].par_iter().copied().reduce(|| 0, i32::max), 3);
    /// ```
    fn copied<'a, T: Copy + Send + 'a>(self) -> Copied<Self>
    where
        Self: ParallelIterator<Item = &'a T>,
    {
        adapt(self, recipe::Copied)
    }

    /// Calls `f` with a reference to each item, then passes the item on.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let seen = std::sync::atomic::AtomicU32::new(0);
    /// let add = |n: &u32| _ = seen.fetch_add(*n, std::sync::atomic::Ordering::Relaxed);
    /// assert_eq!((1..=4).into_par_iter().inspect(add).max(), Some(4));
    /// assert_eq!(seen.into_inner(), 10);
    /// ```
    fn inspect<F: Fn(&Self::Item) + Sync + Send>(self, f: F) -> Inspect<Self, F> {
        adapt(self, |recipe| recipe::Inspect(recipe, f))
    }

    /// Lets `f` change each item, then passes the item on.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let longer = vec!["a".to_owned(), "b".to_owned()].into_par_iter().update(|text| text.push('!'));
    /// assert_eq!(longer.collect::<Vec<_>>(), ["a!", "b!"]);
    /// ```
    fn update<F: Fn(&mut Self::Item) + Sync + Send>(self, f: F) -> Update<Self, F> {
        adapt(self, |recipe| recipe::Update(recipe, f))
    }

    /// Items for which `f` holds.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..10).into_par_iter().filter(|n| n % 4 == 0).collect::<Vec<_>>(), [0, 4, 8]);
    /// ```
    fn filter<F: Fn(&Self::Item) -> bool + Sync + Send>(self, f: F) -> Filter<Self, F> {
        adapt(self, |recipe| recipe::Filter(recipe, f))
    }

    /// Applies `f` to each item, and keeps the values that are `Some`.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["1", "x", "3"].par_iter().filter_map(|text| text.parse().ok()).collect::<Vec<u8>>(), [1, 3]);
    /// ```
    fn filter_map<B: Send, F: Fn(Self::Item) -> Option<B> + Sync + Send>(self, f: F) -> FilterMap<Self, F> {
        adapt(self, |recipe| recipe::FilterMap(recipe, f))
    }

    /// Turns each item into a parallel iterator with `f`, and chains these iterators.
    ///
    /// The member that has the item runs through its iterator, and holds only a few of its items at a time. If each takes longer than
    /// about 0.1 us, nested calls make the items, up to about 1 ms of work at a time, and idle workers may join. Cheaper items of one iterator are
    /// not shared: with fewer iterators than members, members stay idle.
    ///
    /// For serial iterators, see [`flat_map_iter`](Self::flat_map_iter).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..4).into_par_iter().flat_map(|n| 0..n).collect::<Vec<_>>(), [0, 0, 1, 0, 1, 2]);
    /// ```
    fn flat_map<B: IntoParallelIterator, F: Fn(Self::Item) -> B + Sync + Send>(self, f: F) -> FlatMap<Self, F> {
        adapt(self, |recipe| recipe::FlatMap(recipe, f, InnerStop::default()))
    }

    /// Turns each item into a serial iterator with `f`, and chains these iterators.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let words = ["one fish", "two"].par_iter().flat_map_iter(|line| line.split(' '));
    /// assert_eq!(words.collect::<Vec<_>>(), ["one", "fish", "two"]);
    /// ```
    fn flat_map_iter<B: IntoIterator<Item: Send>, F: Fn(Self::Item) -> B + Sync + Send>(
        self,
        f: F,
    ) -> FlatMapIter<Self, F> {
        adapt(self, |recipe| recipe::FlatMapIter(recipe, f))
    }

    /// Chains items that are parallel iterators, or can be turned into one: see [`flat_map`](Self::flat_map).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(vec![vec![1, 2], vec![], vec![3]].into_par_iter().flatten().collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    fn flatten(self) -> Flatten<Self>
    where
        Self::Item: IntoParallelIterator,
    {
        adapt(self, |recipe| recipe::Flatten(recipe, InnerStop::default()))
    }

    /// Chains items that are serial iterators, or can be turned into one.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([Some(1), None, Some(3)].into_par_iter().flatten_iter().sum::<i32>(), 4);
    /// ```
    fn flatten_iter(self) -> FlattenIter<Self>
    where
        Self::Item: IntoIterator<Item: Send>,
    {
        adapt(self, recipe::FlattenIter)
    }

    /// The items of `self`, then those of `other`.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..2).into_par_iter().chain(7..9).collect::<Vec<_>>(), [0, 1, 7, 8]);
    /// ```
    fn chain<Z: IntoParallelIterator<Item = Self::Item>>(self, other: Z) -> Chain<Self, Z::Iter> {
        let (a, left, hints) = self.into_parts();
        let (b, right, more) = other.into_par_iter().into_parts();
        let mut hints = hints.or(more);
        hints.drop_weights();
        Par { source: Merged::one_after_the_other(a, b), recipe: recipe::Chain(left, right), hints }
    }

    /// Folds runs of consecutive items into accumulators, each begun with `identity`. The accumulators are the items of the result.
    ///
    /// The bounds of the runs depend only on the number of items if [`collect`](Self::collect), [`sum`](Self::sum),
    /// [`reduce`](Self::reduce) or the like follows. They are not specified if [`for_each`](Self::for_each), `any`, `all` or a
    /// search follows. With fixed bounds there are 2^20 runs at most, so runs get longer with more than 2^33 items. A member that is
    /// to stop, for a token or a panic, finishes its run first.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let texts = ('a'..='z').into_par_iter().fold(String::new, |text, c| text + &c.to_string());
    /// assert_eq!(texts.collect::<Vec<_>>().concat(), "abcdefghijklmnopqrstuvwxyz");
    /// ```
    fn fold<T: Send, I: Fn() -> T + Sync + Send, F: Fn(T, Self::Item) -> T + Sync + Send>(
        self,
        identity: I,
        f: F,
    ) -> Fold<Self, I, F> {
        adapt(self, |recipe| recipe::Fold(recipe, InitCalls(identity), f))
    }

    /// Like [`fold`](Self::fold), with accumulators that begin as clones of `init`.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().fold_with(0, |sum, n| sum + n).sum::<i32>(), 4950);
    /// ```
    fn fold_with<T: Clone + Send, F: Fn(T, Self::Item) -> T + Sync + Send>(
        self,
        init: T,
        f: F,
    ) -> FoldWith<Self, T, F> {
        adapt(self, |recipe| recipe::Fold(recipe, Clones::new(init), f))
    }

    /// Like [`fold`](Self::fold), with an `f` that may break its run off. The items of the result are `Option`s, `Result`s or
    /// `ControlFlow`s. Other runs go on, unless the consumer ends them, as [`try_reduce`](Self::try_reduce) and a `collect` into a
    /// `Result` do.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let sum = |items: &[u8]| items.par_iter().try_fold(|| 0, |sum: u8, n| sum.checked_add(*n)).try_reduce(|| 0, u8::checked_add);
    /// assert_eq!((sum(&[1, 2, 3]), sum(&[200, 100])), (Some(6), None));
    /// ```
    fn try_fold<T, X, I, F>(self, identity: I, f: F) -> TryFold<Self, I, F>
    where
        X: Try<Output = T> + Send,
        I: Fn() -> T + Sync + Send,
        F: Fn(T, Self::Item) -> X + Sync + Send,
    {
        adapt(self, |recipe| recipe::TryFold(recipe, InitCalls(identity), f))
    }

    /// Like [`try_fold`](Self::try_fold), with accumulators that begin as clones of `init`.
    fn try_fold_with<T, X, F>(self, init: T, f: F) -> TryFoldWith<Self, T, F>
    where
        T: Clone + Send,
        X: Try<Output = T> + Send,
        F: Fn(T, Self::Item) -> X + Sync + Send,
    {
        adapt(self, |recipe| recipe::TryFold(recipe, Clones::new(init), f))
    }

    /// Any `n` items, in their order. Once they are found, no member claims more.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().filter(|n| n % 3 == 0).take_any(5).count(), 5);
    /// ```
    fn take_any(self, n: usize) -> TakeAny<Self> {
        adapt_pieces(self, |recipe| recipe::TakeAny(recipe, RemainingQuota::new(n)))
    }

    /// All but any `n` items, in their order.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().skip_any(95).count(), 5);
    /// ```
    fn skip_any(self, n: usize) -> SkipAny<Self> {
        adapt(self, |recipe| recipe::SkipAny(recipe, RemainingQuota::new(n)))
    }

    /// Items until `f` refuses one, at any index. Then no member claims more.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!((0..100).into_par_iter().take_any_while(|n| *n != 7).all(|n| n != 7));
    /// ```
    fn take_any_while<F: Fn(&Self::Item) -> bool + Sync + Send>(self, f: F) -> TakeAnyWhile<Self, F> {
        adapt_pieces(self, |recipe| recipe::TakeAny(recipe, recipe::Until::new(f)))
    }

    /// Drops items until `f` refuses one, at any index. Then all further items are kept.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().skip_any_while(|n| *n < 200).count(), 0);
    /// ```
    fn skip_any_while<F: Fn(&Self::Item) -> bool + Sync + Send>(self, f: F) -> SkipAnyWhile<Self, F> {
        adapt(self, |recipe| recipe::SkipAny(recipe, recipe::Until::new(f)))
    }

    /// The contents of items until one is `None`. All items before that `None` are in the result, and perhaps some after it.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let parsed = ["1", "2", "x"].par_iter().map(|text| text.parse::<u8>().ok()).while_some();
    /// assert_eq!(parsed.collect::<Vec<_>>(), [1, 2]);
    /// ```
    fn while_some<T: Send>(self) -> WhileSome<Self>
    where
        Self: ParallelIterator<Item = Option<T>>,
    {
        while_ok(self, Found::new())
    }

    /// Does nothing: for programs that come from rayon. A panic ends the other members anyway: at their next poll, or after
    /// [`par_bridge`](super::ParallelBridge::par_bridge) at their next item.
    fn panic_fuse(self) -> Self {
        self
    }

    /// Fixes claims at `size` items. Without it, the measured cost sets the size.
    ///
    /// Use it if the first items do not show what the others cost. Most calls are faster without it.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// // Each item is worth a synchronization.
    /// assert_eq!((1..=4u64).into_par_iter().with_claim_size(1).map(|n| n.pow(20)).max(), Some(1 << 40));
    /// ```
    ///
    /// # Panics
    /// If `size` is 0.
    fn with_claim_size(self, size: usize) -> Par<Self::Source, Self::Recipe> {
        assert!(size > 0, "the claim size must be at least 1");
        let (source, recipe, mut hints) = self.into_parts();
        hints.set_chunk(size);
        Par { source, recipe, hints }
    }

    /// Ends early when `token` is cancelled. Consumers then return [`Cancelled`](crate::Cancelled) instead of a result.
    ///
    /// Members poll the token whenever they have done work for about half a microsecond, predicted from the items before it. (If items suddenly take a
    /// thousand times as long, the next poll comes a thousand times as late.) Members of a [`par_bridge`](super::ParallelBridge::par_bridge) poll before
    /// each item. Items that were begun are finished. So a cancelled call may go on for its longest item (after a [`fold`](Self::fold): its longest run). Inside
    /// [`spawn_joinable`](crate::spawn_joinable()), cancelling the token of the closure also ends the call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windrow::CancelToken;
    /// use windrow::prelude::*;
    ///
    /// let in_time = CancelToken::after(Duration::from_secs(3600));
    /// let sum = (0..1000u64).into_par_iter().with_cancel(&in_time).sum::<u64>()?;
    /// assert_eq!(sum, 499_500);
    /// # Ok::<(), windrow::Cancelled>(())
    /// ```
    fn with_cancel(self, token: &CancelToken) -> Cancellable<'_, Self> {
        Cancellable::new(self, token)
    }

    /// Calls `f` with every item, in no particular order.
    ///
    /// Items that wait for each other: see [what is promised](crate#parts-that-wait-for-each-other).
    /// So a barrier in `f` may never open, and a message from another item may never arrive.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut numbers = [1, 2, 3];
    /// numbers.par_iter_mut().for_each(|n| *n *= 2);
    /// assert_eq!(numbers, [2, 4, 6]);
    /// ```
    #[inline]
    #[track_caller]
    fn for_each<F: Fn(Self::Item) + Sync>(self, f: F) {
        visit(self, f);
    }

    /// Calls `f` with every item and a clone of `init`: see [`map_with`](Self::map_with).
    #[track_caller]
    fn for_each_with<T: Clone + Send, F: Fn(&mut T, Self::Item) + Sync>(self, init: T, f: F) {
        self.map_with(init, &f).for_each(|()| ());
    }

    /// Calls `f` with every item and a value that `init` makes: see [`map_init`](Self::map_init).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let mut lines = ["b a".to_owned(), "d c".to_owned()];
    /// lines.par_iter_mut().for_each_init(String::new, |before, line| {
    ///     before.clone_from(line);
    ///     *line = before.chars().rev().collect();
    /// });
    /// assert_eq!(lines, ["a b", "c d"]);
    /// ```
    #[track_caller]
    fn for_each_init<T, I: Fn() -> T + Sync, F: Fn(&mut T, Self::Item) + Sync>(self, init: I, f: F) {
        self.map_init(&init, &f).for_each(|()| ());
    }

    /// Calls `f` with the items until `f` breaks off. If `f` breaks off for several items, the first in the order of the source
    /// decides, as in a serial loop. Items after that item may have been visited by then.
    ///
    /// Behind [`par_bridge`](super::ParallelBridge::par_bridge) items have no order: any item that breaks off decides, and ends the
    /// call.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let parsed = ["1", "x", "3", "y"].par_iter().try_for_each(|text| text.parse::<u8>().map(drop).map_err(|_| *text));
    /// assert_eq!(parsed, Err("x"));
    /// ```
    #[track_caller]
    fn try_for_each<X: Try<Output = ()> + Send, F: Fn(Self::Item) -> X + Sync>(self, f: F) -> X {
        let breaks = |item| match f(item).branch() {
            ControlFlow::Continue(()) => None,
            ControlFlow::Break(residual) => Some(X::from_residual(residual)),
        };
        let broken = search(self, Which::First, Mapped(breaks));
        broken.unwrap_or_else(|| X::from_output(()))
    }

    /// Like [`try_for_each`](Self::try_for_each), with a clone of `init`: see [`map_with`](Self::map_with).
    #[track_caller]
    fn try_for_each_with<T, X, F>(self, init: T, f: F) -> X
    where
        T: Clone + Send,
        X: Try<Output = ()> + Send,
        F: Fn(&mut T, Self::Item) -> X + Sync,
    {
        self.map_with(init, &f).try_for_each(|result| result)
    }

    /// Like [`try_for_each`](Self::try_for_each), with a value that `init` makes: see [`map_init`](Self::map_init).
    #[track_caller]
    fn try_for_each_init<T, X, I, F>(self, init: I, f: F) -> X
    where
        X: Try<Output = ()> + Send,
        I: Fn() -> T + Sync,
        F: Fn(&mut T, Self::Item) -> X + Sync,
    {
        self.map_init(&init, &f).try_for_each(|result| result)
    }

    /// All items, in the order of the source.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let parse = |texts: &[&str]| texts.par_iter().map(|text| text.parse::<u8>()).collect::<Result<Vec<_>, _>>();
    /// assert_eq!(parse(&["1", "2"]), Ok(vec![1, 2]));
    /// assert!(parse(&["1", "x"]).is_err());
    /// ```
    #[inline]
    #[track_caller]
    fn collect<C: FromParallelIterator<Self::Item>>(self) -> C {
        C::from_par_iter(self)
    }

    /// All items in vectors, in the order of the source: one for each run of consecutive claims of a member.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let runs = (0..100).into_par_iter().filter(|n| n % 9 == 0).collect_vec_list();
    /// assert!(runs.into_iter().flatten().eq((0..100).step_by(9)));
    /// ```
    #[track_caller]
    fn collect_vec_list(self) -> LinkedList<Vec<Self::Item>> {
        gathered(self, &Extended(PhantomData)).into_iter().collect()
    }

    /// The left sides of all items, and the right ones.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let (words, lengths): (Vec<_>, Vec<_>) = ["one", "fish"].par_iter().map(|word| (*word, word.len())).unzip();
    /// assert_eq!((words, lengths), (vec!["one", "fish"], vec![3, 4]));
    /// ```
    #[track_caller]
    fn unzip<A, B, FromA, FromB>(self) -> (FromA, FromB)
    where
        Self: ParallelIterator<Item = (A, B)>,
        A: Send,
        B: Send,
        FromA: Default + ParallelExtend<A>,
        FromB: Default + ParallelExtend<B>,
    {
        let mut both = (FromA::default(), FromB::default());
        both.par_extend(self);
        both
    }

    /// The items for which `f` holds, and the others.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let (even, odd): (Vec<i32>, Vec<i32>) = (0..5).into_par_iter().partition(|n| n % 2 == 0);
    /// assert_eq!((even, odd), (vec![0, 2, 4], vec![1, 3]));
    /// ```
    #[track_caller]
    fn partition<A, B, F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> (A, B)
    where
        A: Default + ParallelExtend<Self::Item>,
        B: Default + ParallelExtend<Self::Item>,
    {
        self.partition_map(|item| if f(&item) { Either::Left(item) } else { Either::Right(item) })
    }

    /// Applies `f` to each item, and collects left and right results separately.
    ///
    /// ```
    /// use windrow::iter::Either::{Left, Right};
    /// use windrow::prelude::*;
    /// let parse = |text: &&'static str| text.parse::<u8>().map_or(Right(*text), Left);
    /// let (numbers, others): (Vec<_>, Vec<_>) = ["1", "x", "3"].par_iter().partition_map(parse);
    /// assert_eq!((numbers, others), (vec![1, 3], vec!["x"]));
    /// ```
    #[track_caller]
    fn partition_map<A, B, F, L, R>(self, f: F) -> (A, B)
    where
        F: Fn(Self::Item) -> Either<L, R> + Sync,
        L: Send,
        R: Send,
        A: Default + ParallelExtend<L>,
        B: Default + ParallelExtend<R>,
    {
        let (a, b) = two_vectors(self.map(&f), &Parted);
        let (mut left, mut right) = (A::default(), B::default());
        left.extend_by(a);
        right.extend_by(b);
        (left, right)
    }

    /// Combines all items with `op`, which must be associative; `identity()` may be combined in any number of times.
    ///
    /// The result has the same bits for every number of threads: the grouping depends only on the number and type of the items and on
    /// `with_max_len`. (Not after [`par_bridge`](super::ParallelBridge::par_bridge), where items have no order.)
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let longest = |a, b| if str::len(a) < str::len(b) { b } else { a };
    /// assert_eq!(["one", "three", "seven"].par_iter().copied().reduce(|| "", longest), "three");
    /// ```
    #[inline]
    #[track_caller]
    fn reduce<I: Fn() -> Self::Item + Sync, F: Fn(Self::Item, Self::Item) -> Self::Item + Sync>(
        self,
        identity: I,
        op: F,
    ) -> Self::Item {
        // Blocks of accumulators have few items, and each is large: there the identity is left out.
        let first = (!Self::Recipe::PER_CHUNK).then_some(&identity);
        reduced(self, &Reduces { identity: first, op: &op }).flatten().unwrap_or_else(&identity)
    }

    /// Combines all items with `op`, which must be associative; `None` if there is no item. Grouped as by
    /// [`reduce`](Self::reduce).
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([[3, 9], [1, 4]].into_par_iter().reduce_with(|a, b| [a[0].min(b[0]), a[1].max(b[1])]), Some([1, 9]));
    /// ```
    #[inline]
    #[track_caller]
    fn reduce_with<F: Fn(Self::Item, Self::Item) -> Self::Item + Sync>(self, op: F) -> Option<Self::Item> {
        reduced(self, &Reduces { identity: None::<&fn() -> Self::Item>, op: &op }).flatten()
    }

    /// Combines the contents of all items with `op`, which must be associative, until an item or `op` breaks off. If several break
    /// off, the first one in the order of the source decides. Grouped as by [`reduce`](Self::reduce).
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let sum = |items: &[u8]| items.par_iter().map(|x| Some(*x)).try_reduce(|| 0, |a, b| a.checked_add(b));
    /// assert_eq!(sum(&[1, 2, 3]), Some(6));
    /// assert_eq!(sum(&[200, 100]), None);
    /// ```
    #[track_caller]
    fn try_reduce<T, I, F>(self, identity: I, op: F) -> Self::Item
    where
        Self::Item: Try<Output = T>,
        I: Fn() -> T + Sync,
        F: Fn(T, T) -> Self::Item + Sync,
    {
        let reduced = try_reduced(self, || Some(identity()), &op);
        reduced.unwrap_or_else(|| Self::Item::from_output(identity()))
    }

    /// Like [`try_reduce`](Self::try_reduce); `None` if there is no item.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// let sum = |items: &[u8]| items.par_iter().map(|n| Some(*n)).try_reduce_with(u8::checked_add);
    /// assert_eq!((sum(&[]), sum(&[1, 2]), sum(&[200, 100])), (None, Some(Some(3)), Some(None)));
    /// ```
    #[track_caller]
    fn try_reduce_with<T, F>(self, op: F) -> Option<Self::Item>
    where
        Self::Item: Try<Output = T>,
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
    #[inline]
    #[track_caller]
    fn sum<T: Sum<Self::Item> + Sum<T> + Send>(self) -> T {
        reduced(self, &Sums::<T>(PhantomData)).unwrap_or_else(|| iter::empty::<T>().sum())
    }

    /// The product of the items; the same bits for every number of threads.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((1..=10u64).into_par_iter().product::<u64>(), 3_628_800);
    /// ```
    #[inline]
    #[track_caller]
    fn product<T: Product<Self::Item> + Product<T> + Send>(self) -> T {
        reduced(self, &Products::<T>(PhantomData)).unwrap_or_else(|| iter::empty::<T>().product())
    }

    /// The number of items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().filter(|n| n % 7 == 0).count(), 15);
    /// ```
    #[inline]
    #[track_caller]
    fn count(self) -> usize {
        reduced(self, &CountItems).unwrap_or(0)
    }

    /// The smallest item; of equal ones the first.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((vec![3, 1, 2].into_par_iter().min(), Vec::<u8>::new().into_par_iter().min()), (Some(1), None));
    /// ```
    #[inline]
    #[track_caller]
    fn min(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.min_by(Self::Item::cmp)
    }

    /// The smallest item by `compare`; of equal ones the first.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([2.5, -1.0, 7.0].into_par_iter().min_by(f64::total_cmp), Some(-1.0));
    /// ```
    #[inline]
    #[track_caller]
    fn min_by<F: Fn(&Self::Item, &Self::Item) -> std::cmp::Ordering + Sync>(self, compare: F) -> Option<Self::Item> {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { b } else { a })
    }

    /// The item with the smallest key; of equal ones the first.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["three", "one", "two"].into_par_iter().min_by_key(|word| word.len()), Some("one"));
    /// ```
    #[track_caller]
    fn min_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync>(self, key: F) -> Option<Self::Item> {
        let keyed = self.map(|item| (key(&item), item));
        keyed.min_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// The largest item; of equal ones the last.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["one", "two"].par_iter().map(|word| word.len()).max(), Some(3));
    /// ```
    #[inline]
    #[track_caller]
    fn max(self) -> Option<Self::Item>
    where
        Self::Item: Ord,
    {
        self.max_by(Self::Item::cmp)
    }

    /// The largest item by `compare`; of equal ones the last.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!([2.5, -1.0, 7.0].into_par_iter().max_by(f64::total_cmp), Some(7.0));
    /// ```
    #[inline]
    #[track_caller]
    fn max_by<F: Fn(&Self::Item, &Self::Item) -> std::cmp::Ordering + Sync>(self, compare: F) -> Option<Self::Item> {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { a } else { b })
    }

    /// The item with the largest key; of equal ones the last.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["one", "two"].into_par_iter().max_by_key(|word| word.len()), Some("two"));
    /// ```
    #[track_caller]
    fn max_by_key<K: Ord + Send, F: Fn(&Self::Item) -> K + Sync>(self, key: F) -> Option<Self::Item> {
        let keyed = self.map(|item| (key(&item), item));
        keyed.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, item)| item)
    }

    /// True if `f` holds for an item. Once it does, no member claims more; items already claimed may still be visited.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!([1, 4, 9].par_iter().any(|n| n % 2 == 0));
    /// ```
    #[inline]
    #[track_caller]
    fn any<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        search(self, Which::Any, Any(f)).is_some()
    }

    /// True if `f` holds for all items. Once it does not, no member claims more.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!(![1, 4, 9].par_iter().all(|n| n % 2 == 0));
    /// ```
    #[inline]
    #[track_caller]
    fn all<F: Fn(Self::Item) -> bool + Sync>(self, f: F) -> bool {
        !self.any(|item| !f(item))
    }

    /// An item for which `f` holds. The first find, at any index, ends the search.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert!(matches!((0..100).into_par_iter().find_any(|n| n % 30 == 29), Some(29 | 59 | 89)));
    /// ```
    #[inline]
    #[track_caller]
    fn find_any<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item> {
        search(self, Which::Any, Mapped(|item| Some(item).filter(&f)))
    }

    /// The first item for which `f` holds. Items after a find are not visited any more.
    /// Behind [`par_bridge`](super::ParallelBridge::par_bridge) items have no order, and any find ends the search.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().find_first(|n| n % 30 == 29), Some(29));
    /// ```
    #[inline]
    #[track_caller]
    fn find_first<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item> {
        search(self, Which::First, Mapped(|item| Some(item).filter(&f)))
    }

    /// The last item for which `f` holds. Items before a find are not visited any more. But the search begins at the front: with
    /// indices, [`rev`](super::IndexedParallelIterator::rev) and `find_first` visit fewer items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!((0..100).into_par_iter().find_last(|n| n % 30 == 29), Some(89));
    /// ```
    #[track_caller]
    fn find_last<F: Fn(&Self::Item) -> bool + Sync>(self, f: F) -> Option<Self::Item> {
        search(self, Which::Last, Mapped(|item| Some(item).filter(&f)))
    }

    /// A `Some` that `f` returns. The first one found, at any index, ends the search.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["x", "7", "y"].par_iter().find_map_any(|text| text.parse().ok()), Some(7));
    /// ```
    #[track_caller]
    fn find_map_any<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::Any, Mapped(f))
    }

    /// The first `Some` that `f` returns, in the order of the items.
    ///
    /// ```
    /// use windrow::prelude::*;
    /// assert_eq!(["x", "7", "8"].par_iter().find_map_first(|text| text.parse().ok()), Some(7));
    /// ```
    #[track_caller]
    fn find_map_first<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::First, Mapped(f))
    }

    /// The last `Some` that `f` returns, in the order of the items: see [`find_last`](Self::find_last).
    #[track_caller]
    fn find_map_last<B: Send, F: Fn(Self::Item) -> Option<B> + Sync>(self, f: F) -> Option<B> {
        search(self, Which::Last, Mapped(f))
    }
}

/// Reduces every block, beginning with `seed`, then combines the blocks. `None` if there are neither items nor a seed.
#[track_caller]
fn try_reduced<P, T>(
    iter: P,
    seed: impl Fn() -> Option<T> + Sync,
    op: &(impl Fn(T, T) -> P::Item + Sync),
) -> Option<P::Item>
where
    P: ParallelIterator<Item: Try<Output = T>>,
{
    let mark = FoundBefore::default();
    let combine = |a: P::Item, b: P::Item| match (a.branch(), b.branch()) {
        (ControlFlow::Continue(a), ControlFlow::Continue(b)) => op(a, b),
        (ControlFlow::Break(residual), _) | (_, ControlFlow::Break(residual)) => P::Item::from_residual(residual),
    };
    let by = Reduces { identity: None::<&fn() -> P::Item>, op: &combine };
    reduced(adapt(iter, |recipe| recipe::TryReduce(recipe, &seed, op, &mark)), &by).flatten()
}

impl<S: Divide + Send, R: Recipe<S>> ParallelIterator for Par<S, R> {
    type Item = R::Item;
    type Source = S;
    type Recipe = R;

    fn into_parts(self) -> (S, R, Hints) {
        (self.source, self.recipe, self.hints)
    }

    fn opt_len(&self) -> Option<usize> {
        self.recipe.len(self.source.total())
    }
}

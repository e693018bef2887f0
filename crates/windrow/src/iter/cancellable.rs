//! Parallel calls that can be cancelled.
//!
//! A cancelled call ends when its claimed items are done, and returns [`Cancelled`] instead of a partial result. The driver polls
//! ([`cancellation`](crate::runtime::cancellation)), so every consumer can be cancelled: [`Cancellable::run`] takes any of them.

use std::iter::{Product, Sum};
use std::panic::Location;
use std::sync::Arc;

use super::{FromParallelIterator, Par, ParallelIterator};
use crate::runtime::cancel::{CancelToken, Cancelled};
use crate::runtime::cancellation::Cancellation;

/// A parallel iterator that ends early when its token is cancelled: see [`ParallelIterator::with_cancel`].
///
/// The consumers are those of [`ParallelIterator`], and return a `Result`. [`run`](Self::run) takes consumers that have no method here. `Ok`
/// is the result of the plain consumer, bit for bit. `Err` means that items are missing. An item that was begun is always finished; all
/// others are dropped.
///
/// ```
/// use windrow::CancelToken;
/// use windrow::prelude::*;
///
/// let token = CancelToken::new();
/// let sum = || (0..10u32).into_par_iter().with_cancel(&token).sum::<u32>();
/// assert_eq!(sum(), Ok(45));
/// token.cancel();
/// assert!(sum().is_err());
/// ```
#[derive(Debug)]
#[must_use = "parallel iterators do nothing until they are consumed"]
pub struct Cancellable<'t, P> {
    iter: P,
    token: &'t CancelToken,
}

/// The iterator that a [`Cancellable`] gives to its consumer.
type Watched<P> = Par<<P as ParallelIterator>::Source, <P as ParallelIterator>::Recipe>;

impl<'t, P: ParallelIterator> Cancellable<'t, P> {
    pub(crate) fn new(iter: P, token: &'t CancelToken) -> Self {
        Self { iter, token }
    }

    /// Calls `consumer` with the iterator. `consumer` can adapt it further, and must consume it. So any consumer can be cancelled.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use windrow::CancelToken;
    /// use windrow::prelude::*;
    ///
    /// let token = CancelToken::new();
    /// let squares: HashMap<u32, u32> =
    ///     (0..100u32).into_par_iter().with_cancel(&token).run(|iter| iter.map(|x| (x, x * x)).collect())?;
    /// assert_eq!(squares[&9], 81);
    /// # Ok::<(), windrow::Cancelled>(())
    /// ```
    ///
    /// # Errors
    /// If the token was cancelled before all items were consumed. Then the value that `consumer` returned is dropped: items are missing in it.
    #[track_caller]
    pub fn run<R>(self, consumer: impl FnOnce(Watched<P>) -> R) -> Result<R, Cancelled> {
        let (cancellation, result) = self.consume(consumer);
        cancellation.result(result)
    }

    /// The [`run`](Self::run) of a search: a find is a result even if the call was cancelled.
    #[track_caller]
    fn search<R>(self, consumer: impl FnOnce(Watched<P>) -> Option<R>) -> Result<Option<R>, Cancelled> {
        let (cancellation, found) = self.consume(consumer);
        if found.is_some() { Ok(found) } else { cancellation.result(None) }
    }

    #[track_caller]
    fn consume<R>(self, consumer: impl FnOnce(Watched<P>) -> R) -> (Arc<Cancellation>, R) {
        let cancellation = Arc::new(Cancellation::new(self.token));
        let (source, recipe, mut hints) = self.iter.into_parts();
        hints.set_cancellation(cancellation.clone());
        hints.place = Some(Location::caller());
        let result = consumer(Par { source, recipe, hints });
        (cancellation, result)
    }
}

/// Consumers with a method here: each calls the consumer of [`ParallelIterator`] of the same name.
macro_rules! consumers {
    ($($(#[$doc:meta])* $name:ident [$($generics:tt)*] ($($argument:ident: $of:ty),*) -> $result:ty
        [$($bounds:tt)*] { $iter:ident => $body:expr };)*) => {
        impl<P: ParallelIterator> Cancellable<'_, P> {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// If the token was cancelled before all items were consumed.
            #[track_caller]
            pub fn $name<$($generics)*>(self, $($argument: $of),*) -> Result<$result, Cancelled> where $($bounds)* {
                self.run(|$iter| $body)
            }
        )*}
    };
}
consumers! {
    /// Calls `f` with every item, in no particular order.
    for_each [F: Fn(P::Item) + Sync] (f: F) -> () [] { iter => iter.for_each(f) };
    /// All items, in the order of the source, as a collection.
    collect [C: FromParallelIterator<P::Item>] () -> C [] { iter => iter.collect() };
    /// Combines all items with `op`, which must be associative; `identity()` may be combined in any number of times.
    ///
    /// `op` combines neighbours only, even if the call is cancelled.
    reduce [I: Fn() -> P::Item + Sync, F: Fn(P::Item, P::Item) -> P::Item + Sync] (identity: I, op: F) -> P::Item
        [] { iter => iter.reduce(identity, op) };
    /// The sum of the items; the same bits for every number of threads, floats included.
    sum [T: Sum<P::Item> + Sum<T> + Send] () -> T [] { iter => iter.sum() };
    /// The product of the items; the same bits for every number of threads.
    product [T: Product<P::Item> + Product<T> + Send] () -> T [] { iter => iter.product() };
    /// The number of items.
    count [] () -> usize [] { iter => iter.count() };
    /// The smallest item; of equal ones the first.
    min [] () -> Option<P::Item> [P::Item: Ord] { iter => iter.min() };
    /// The largest item; of equal ones the last.
    max [] () -> Option<P::Item> [P::Item: Ord] { iter => iter.max() };
}

impl<P: ParallelIterator> Cancellable<'_, P> {
    /// True if `f` holds for an item. `Ok(true)` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If the token was cancelled before all items were consumed, and `f` held for no consumed item.
    #[track_caller]
    pub fn any<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Cancelled> {
        Ok(self.find_map_any(|item| f(item).then_some(()))?.is_some())
    }

    /// True if `f` holds for all items. `Ok(false)` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If the token was cancelled before all items were consumed, and `f` held for all consumed items.
    #[track_caller]
    pub fn all<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Cancelled> {
        self.any(|item| !f(item)).map(|any| !any)
    }

    /// An item for which `f` holds. `Ok(Some(_))` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If the token was cancelled before all items were consumed, and `f` held for no consumed item.
    #[track_caller]
    pub fn find_any<F: Fn(&P::Item) -> bool + Sync>(self, f: F) -> Result<Option<P::Item>, Cancelled> {
        self.find_map_any(|item| f(&item).then_some(item))
    }

    /// A `Some` that `f` returns. `Ok(Some(_))` also if the token was cancelled afterwards.
    ///
    /// # Errors
    /// If the token was cancelled before all items were consumed, and `f` returned `None` for all consumed items.
    #[track_caller]
    pub fn find_map_any<B: Send, F: Fn(P::Item) -> Option<B> + Sync>(self, f: F) -> Result<Option<B>, Cancelled> {
        self.search(|iter| iter.find_map_any(f))
    }
}

//! Ordered results of serial iterators: a run of [`overlap`](crate::overlap) whose only wide lane is the closure.

use std::convert::Infallible;
use std::fmt;
use std::panic::Location;

use crate::overlap::{self, Failure};

/// The results of [`par_map_ordered`](super::ParallelBridge::par_map_ordered), to be consumed in order.
///
/// ```
/// use windrow::iter::MapOrdered;
/// use windrow::prelude::*;
///
/// let lengths: MapOrdered<_, _> = ["one", "two", "three"].into_iter().par_map_ordered(4, str::len);
/// assert_eq!(lengths.collect::<Vec<_>>(), [3, 3, 5]);
/// ```
#[must_use = "an ordered iterator does nothing until it is consumed"]
pub struct MapOrdered<I, F> {
    items: I,
    ahead: usize,
    f: F,
}

impl<I, F> MapOrdered<I, F> {
    pub(super) fn new(items: I, ahead: usize, f: F) -> Self {
        assert!(ahead > 0, "at least one item must be allowed in flight");
        Self { items, ahead, f }
    }
}

impl<I, F> fmt::Debug for MapOrdered<I, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapOrdered").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl<I, U, F> MapOrdered<I, F>
where
    I: Iterator<Item: Send> + Send,
    U: Send,
    F: Fn(I::Item) -> U + Sync,
{
    /// Calls `consume` on the calling thread with each result, in the order of the items.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut text = String::new();
    /// (1..=4).par_map_ordered(8, |i| i * i).for_each(|square| text += &format!("{square} "));
    /// assert_eq!(text, "1 4 9 16 ");
    /// ```
    ///
    /// # Panics
    /// With the payload of the first panic of the iterator, the closure or `consume`, in the order of the items. All earlier results have been
    /// consumed by then.
    #[track_caller]
    pub fn for_each(self, mut consume: impl FnMut(U)) {
        let Ok(()) = self.try_for_each(|result| {
            consume(result);
            Ok::<_, Infallible>(())
        });
    }

    /// Calls `consume` on the calling thread with each result, in the order of the items, until it returns an error.
    ///
    /// No further item is pulled then. Results of items that were pulled before are dropped; the [`current`](crate::CancelToken::current)
    /// token of their calls is cancelled.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let mut sum = 0;
    /// let parsed = ["1", "2", "three", "4"].into_iter().par_map_ordered(8, str::parse::<u32>);
    /// let failed = parsed.try_for_each(|number| {
    ///     sum += number?;
    ///     Ok::<_, std::num::ParseIntError>(())
    /// });
    /// assert!(failed.is_err());
    /// assert_eq!(sum, 3);
    /// ```
    ///
    /// # Errors
    /// With the first error of `consume`, which is the first one in the order of the items.
    ///
    /// # Panics
    /// As [`for_each`](Self::for_each), unless an earlier result was an error.
    #[track_caller]
    pub fn try_for_each<E: Send>(self, consume: impl FnMut(U) -> Result<(), E>) -> Result<(), E> {
        let Self { items, ahead, f } = self;
        match overlap::ordered(items, ahead, |item| Ok(f(item)), consume, Location::caller()) {
            Ok(_) => Ok(()),
            Err(Failure::Error { error, .. }) => Err(error),
            Err(_) => unreachable!("this run has no cancel token and no helper thread"),
        }
    }

    /// All results, in the order of the items.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let lengths: Vec<usize> = "one three fifteen".split(' ').par_map_ordered(4, str::len).collect();
    /// assert_eq!(lengths, [3, 5, 7]);
    /// ```
    ///
    /// # Panics
    /// As [`for_each`](Self::for_each).
    #[track_caller]
    pub fn collect<C: FromIterator<U>>(self) -> C {
        let mut results = Vec::with_capacity(self.items.size_hint().0);
        self.for_each(|result| results.push(result));
        results.into_iter().collect()
    }
}

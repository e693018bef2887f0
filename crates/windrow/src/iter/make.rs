//! Parallel iterators out of nothing, or out of serial ones.

use std::iter;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use windrow_sync::divide::Span;
use windrow_sync::sources::Items;

use super::Par;
use crate::recipe::{Indexed, Indices, Of, Plain, Recipe};

/// No item.
pub fn empty<T: Send>() -> Par<Items<T>, Plain> {
    Par::new(Items::new(Vec::new()))
}

/// One item.
pub fn once<T: Send>(item: T) -> Par<Items<T>, Plain> {
    Par::new(Items::new(vec![item]))
}

/// Clones of `item`, `usize::MAX` of them: for a [`zip`](super::IndexedParallelIterator::zip), a
/// [`take`](super::IndexedParallelIterator::take) or a search that ends.
///
/// Unlike rayon's, `item` must be `Sync`: all members clone the one.
pub fn repeat<T: Clone + Sync>(item: T) -> Par<Range<usize>, Of<Repeat<T>>> {
    repeat_n(item, usize::MAX)
}

/// `n` clones of `item`.
///
/// ```
/// use windrow::prelude::*;
///
/// assert_eq!(windrow::iter::repeat_n('a', 3).collect::<String>(), "aaa");
/// ```
pub fn repeat_n<T: Clone + Sync>(item: T, n: usize) -> Par<Range<usize>, Of<Repeat<T>>> {
    Par::of(0..n, Of(Repeat(item)))
}

/// Clones of an item.
#[derive(Clone, Debug)]
pub struct Repeat<T>(T);

impl<T> Indexed for Repeat<T> {}

impl<T: Clone + Sync> Indices for Repeat<T> {
    type Item = T;
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = T> {
        run.map(|_| self.0.clone())
    }
}

/// Serial iterators, made parallel.
pub trait ParallelBridge: Iterator + Sized {
    /// The items of this iterator, in no particular order.
    ///
    /// Members pull items one at a time from behind a lock, so the iterator itself is not made faster, and an item should cost
    /// more than the lock (some 20 ns, more if it is contended). It may block, and it may be endless if what consumes it ends
    /// ([`find_any`](super::ParallelIterator::find_any), say). Which items share a reduction is not fixed by their number, so
    /// float sums may differ from run to run. Items that can be gathered first are better off so:
    /// `iter.collect::<Vec<_>>().into_par_iter()`.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// std::thread::spawn(move || (1..=100u32).for_each(|i| sender.send(i).unwrap()));
    /// assert_eq!(receiver.into_iter().par_bridge().map(|i| i * 2).sum::<u32>(), 10100);
    /// ```
    fn par_bridge(self) -> Par<Range<usize>, Bridge<Self>>;
}

impl<I: Iterator<Item: Send> + Send> ParallelBridge for I {
    fn par_bridge(self) -> Par<Range<usize>, Bridge<Self>> {
        // As many indices as there may be items. (Should there be more, the last index brings them.)
        let most = self.size_hint().1.unwrap_or(usize::MAX).max(1);
        Par::of(0..most, Bridge { items: Mutex::new(Some(self)), end: most, exhausted: OnceLock::new() })
    }
}

/// A serial iterator that members share: an index is the right to pull one item.
#[derive(Debug)]
pub struct Bridge<I> {
    /// `None` when it has ended.
    items: Mutex<Option<I>>,
    /// Number of indices. Whoever has the last one pulls all there is, so that a wrong hint loses nothing.
    end: usize,
    exhausted: OnceLock<()>,
}

impl<I: Iterator> Bridge<I> {
    fn pull(&self) -> Option<I::Item> {
        if self.exhausted.get().is_some() {
            return None;
        }
        // After a panic in `next` nothing is pulled any more.
        let mut items = self.items.lock().ok()?;
        let item = items.as_mut()?.next();
        if item.is_none() {
            *items = None;
            self.exhausted.get_or_init(|| ());
        }
        item
    }
}

impl<I: Iterator<Item: Send> + Send> Recipe<Range<usize>> for Bridge<I> {
    type Item = I::Item;
    type State = ();
    const EXACT: bool = false;
    const LOOSE: bool = true;

    fn state(&self) {}

    fn iter<'s, 'w>(&'w self, _: &'w (), _: Span, mut run: Range<usize>) -> impl Iterator<Item = I::Item>
    where
        Range<usize>: 's,
    {
        let last = run.end == self.end;
        iter::from_fn(move || if run.next().is_some() || last { self.pull() } else { None })
    }

    fn over(&self, _: usize) -> bool {
        self.exhausted.get().is_some()
    }
}

//! Parallel iterators from single items, or from serial iterators.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;

use windrow_plan::share::Extra;
use windrow_sync::divide::{Divide, Span};
use windrow_sync::fork::Process;
use windrow_sync::sources::VecItems;

use super::Par;
use super::adaptors::{Empty, IterBridge, Once, Repeat, RepeatN};
use super::ordered::MapOrdered;
use super::recipe::{Indexed, Indices, Of, Recipe, chunk_items};
use crate::runtime::cancellation::Cancellation;
use crate::runtime::flag::Flag;

/// Bytes that take as long as two line transfers.
///
/// Measure: size of sixteen lines, in bytes.
const TWO_LINES: usize = 1024;

/// No item.
///
/// ```
/// use windrow::prelude::*;
/// assert_eq!(windrow::iter::empty::<u32>().chain([7]).collect::<Vec<_>>(), [7]);
/// ```
pub fn empty<T: Send>() -> Empty<T> {
    Par::new(VecItems::new(Vec::new()))
}

/// One item.
///
/// ```
/// use windrow::prelude::*;
/// assert_eq!(windrow::iter::once(7).chain([8, 9]).collect::<Vec<_>>(), [7, 8, 9]);
/// ```
pub fn once<T: Send>(item: T) -> Once<T> {
    Par::new(VecItems::new(vec![item]))
}

/// `usize::MAX` clones of `item`: for a [`zip`](super::IndexedParallelIterator::zip), a
/// [`take`](super::IndexedParallelIterator::take) or a search that ends.
///
/// Unlike in rayon, `item` must be `Sync`: all members clone the same value.
pub fn repeat<T: Clone + Send + Sync>(item: T) -> Repeat<T> {
    repeat_n(item, usize::MAX)
}

/// `n` clones of `item`.
///
/// ```
/// use windrow::prelude::*;
///
/// assert_eq!(windrow::iter::repeat_n('a', 3).collect::<String>(), "aaa");
/// ```
pub fn repeat_n<T: Clone + Send + Sync>(item: T, n: usize) -> RepeatN<T> {
    Par::of(0..n, Of(RepeatItem(item)))
}

/// [`repeat_n`] under its older name.
pub fn repeatn<T: Clone + Send + Sync>(item: T, n: usize) -> RepeatN<T> {
    repeat_n(item, n)
}

/// Clones of an item.
#[derive(Clone, Debug)]
pub struct RepeatItem<T>(T);

impl<T> Indexed for RepeatItem<T> {}

impl<T: Clone + Send + Sync> Indices for RepeatItem<T> {
    type Item = T;
    fn items(&self, run: Range<usize>) -> impl Iterator<Item = T> {
        run.map(|_| self.0.clone())
    }
}

/// Serial iterators, made parallel.
///
/// ```
/// use windrow::prelude::*;
/// // A serial iterator feeds parallel work.
/// let lengths = std::iter::successors(Some("fish"), |word| word.get(1..)).par_bridge().map(str::len);
/// assert_eq!(lengths.sum::<usize>(), 10);
/// ```
pub trait ParallelBridge: Iterator + Sized {
    /// The items of this iterator, in no particular order.
    ///
    /// Members pull items one at a time under a lock. So the iterator itself runs no faster, and an item should cost
    /// more than the lock (some 20 ns, more if it is contended). If the items can be gathered first, this is faster:
    /// `iter.collect::<Vec<_>>().into_par_iter()`.
    ///
    /// The iterator may block. It may be endless if its consumer ends early ([`find_any`](super::ParallelIterator::find_any), say). A member
    /// polls before each item: after a hit, an error, a panic or a cancellation it pulls no more. (A member that is blocked in `next` polls
    /// when `next` returns.) The number of items does not fix the grouping of a reduction, so float sums may differ from run to run.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// std::thread::spawn(move || (1..=100u32).for_each(|i| sender.send(i).unwrap()));
    /// assert_eq!(receiver.into_iter().par_bridge().map(|i| i * 2).sum::<u32>(), 10100);
    /// ```
    fn par_bridge(self) -> IterBridge<Self>;

    /// The results of `f` for the items of this iterator, in the order of the items: `f` runs on the calling thread and on workers of the
    /// pool.
    ///
    /// At most `ahead` items have been pulled and not given to the consumer, apart from the one that the consumer has now. So memory is
    /// bounded, and the iterator may be endless. An `ahead` of twice the number of threads hides small differences between items. Members pull
    /// one item at a time. An item should take some 10 us or more in `f`; shorter ones stay on the calling thread.
    ///
    /// The results are not an iterator but are consumed by [`for_each`](super::MapOrdered::for_each),
    /// [`try_for_each`](super::MapOrdered::try_for_each) or [`collect`](super::MapOrdered::collect) on the calling thread. Workers that went on
    /// between two calls of `next` would need threads that may outlive what `f` borrows, which safe Rust forbids.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let lines = std::io::Cursor::new("one fish\ntwo fish\n");
    /// let mut counts = Vec::new();
    /// let counted = std::io::BufRead::lines(lines).par_map_ordered(16, |line| line.map(|line| line.split(' ').count()));
    /// counted.try_for_each(|count| {
    ///     counts.push(count?);
    ///     Ok::<_, std::io::Error>(())
    /// })?;
    /// assert_eq!(counts, [2, 2]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `ahead` is 0.
    fn par_map_ordered<U, F>(self, ahead: usize, f: F) -> MapOrdered<Self, F>
    where
        F: Fn(Self::Item) -> U + Sync,
        U: Send;
}

impl<I: Iterator<Item: Send> + Send> ParallelBridge for I {
    fn par_bridge(self) -> IterBridge<Self> {
        // As many indices as the size hint allows items. (If there are more items, the last index pulls them.)
        let most = self.size_hint().1.unwrap_or(usize::MAX).max(1);
        let (items, exhausted, cancellation) = (Mutex::new(Some(self)), Flag::new(), OnceLock::new());
        let mut bridge = Par::of(0..most, Bridge { items, end: most, exhausted, cancellation });
        // The lock and the iterator move from member to member.
        bridge.hints.extra = Extra::SecondPass(TWO_LINES);
        bridge
    }

    fn par_map_ordered<U, F>(self, ahead: usize, f: F) -> MapOrdered<Self, F>
    where
        F: Fn(Self::Item) -> U + Sync,
        U: Send,
    {
        MapOrdered::new(self, ahead, f)
    }
}

/// A serial iterator that members share: an index is the right to pull one item.
///
/// The duration of a claim is unknown, since the next item may be late. So a member polls before each item. It pulls no more if a token is
/// cancelled, if the items are called off, or if another member has panicked.
#[derive(Debug)]
pub struct Bridge<I> {
    /// `None` once the iterator has ended.
    items: Mutex<Option<I>>,
    /// Number of indices. The member with the last index pulls all remaining items, so a wrong size hint loses no item.
    end: usize,
    /// Set when no more items are pulled: the iterator has ended or was called off, or a member has panicked.
    exhausted: Flag,
    cancellation: OnceLock<Arc<Cancellation>>,
}

/// The items of one claim.
struct Pulls<'a, I: Iterator> {
    bridge: &'a Bridge<I>,
    /// The process in which this member joined the call.
    process: Process,
    /// Items that the claim may still pull. (The claim with the last index may pull more.)
    left: usize,
    /// True if the claim has the last index.
    last: bool,
    /// True if this thread was unwinding when the claim began. (A drop may make a parallel call.)
    panicking: bool,
}

impl<I: Iterator> Iterator for Pulls<'_, I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let bridge = self.bridge;
        if self.left == 0 && !self.last || bridge.exhausted.is_up() {
            return None;
        }
        // After a panic in `next` the lock is poisoned, and no member pulls any more.
        let mut items = match bridge.items.try_lock() {
            Ok(items) => items,
            // In a forked child a member that was pulling at the fork keeps the lock for ever.
            Err(TryLockError::WouldBlock) if self.process.is_this() => bridge.items.lock().ok()?,
            Err(_) => return None,
        };
        // Check again: it may have been exhausted while this member waited for the lock.
        if bridge.exhausted.is_up() || bridge.cancellation.get().is_some_and(|cancellation| cancellation.cuts()) {
            return None;
        }
        let item = items.as_mut()?.next();
        match item {
            Some(_) => self.left = self.left.saturating_sub(1),
            None => {
                *items = None;
                bridge.exhausted.raise();
            }
        }
        item
    }
}

impl<I: Iterator> Drop for Pulls<'_, I> {
    fn drop(&mut self) {
        if thread::panicking() && !self.panicking {
            self.bridge.exhausted.raise();
        }
    }
}

impl<I: Iterator<Item: Send> + Send> Recipe<Range<usize>> for Bridge<I> {
    type Item = I::Item;
    type State = Process;
    const LOOSE: bool = true;

    fn state(&self) -> Process {
        Process::this()
    }

    chunk_items!(Range<usize>: |self, process, _, run| {
        let (left, last) = (run.len(), run.end == self.end);
        Pulls { bridge: self, process: *process, left, last, panicking: thread::panicking() }
    });

    fn over(&self, _: usize) -> bool {
        self.exhausted.is_up()
    }

    fn call_off(&self, _: usize) {
        // At any index: the indices of a bridge do not order its items.
        self.exhausted.raise();
    }

    fn look_at(&self, cancellation: &Arc<Cancellation>) {
        self.cancellation.get_or_init(|| cancellation.clone());
    }
}

//! The operations that a structure gets to run, each in the entry of its caller.

use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Deref, Index, IndexMut};
use std::slice::SliceIndex;

use windrow_sync::submit::Entry;

use crate::iter::IntoParallelIterator;

/// The operations of a batch, in the order in which they were handed in.
///
/// An entry's position stands for its caller, so the order is fixed: a batch can be read as a slice, and its entries can be changed one
/// by one. To visit operations in another order, use [`for_each_by_key`](Batch::for_each_by_key).
///
/// ```compile_fail,E0596
/// use windrow::batch::Batch;
///
/// fn run(batch: &mut Batch<'_, u64, u64>) {
///     // This would give callers each other's replies.
///     batch.sort_by_key(|entry| *entry.op());
/// }
/// ```
pub struct Batch<'b, Op, Reply> {
    pub(super) entries: &'b mut [Entry<Op, Reply>],
    /// Memory for an order, reused by the next batch.
    pub(super) order: Vec<usize>,
}

impl<Op, Reply> fmt::Debug for Batch<'_, Op, Reply> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'b, Op, Reply> Batch<'b, Op, Reply> {
    /// A batch for calling [`BatchOps::run`](super::BatchOps::run) without a wrapper.
    ///
    /// ```
    /// use windrow::batch::{Batch, Entry};
    ///
    /// let mut entries = [Entry::Op(3), Entry::Op(4)];
    /// let mut batch = Batch::new(&mut entries);
    /// batch.iter_mut().for_each(|entry| entry.answer(|op| 10 * op));
    /// assert_eq!(entries.map(Entry::into_reply), [Some(30), Some(40)]);
    /// ```
    pub fn new(entries: &'b mut [Entry<Op, Reply>]) -> Self {
        Batch { entries, order: Vec::new() }
    }

    /// All entries, to be answered.
    #[inline]
    pub fn iter_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut Entry<Op, Reply>> + ExactSizeIterator + FusedIterator {
        self.entries.iter_mut()
    }

    /// All entries, to be answered in parallel.
    ///
    /// ```
    /// use windrow::batch::{Batch, Entry};
    /// use windrow::prelude::*;
    ///
    /// let mut entries = ["one", "fish"].map(Entry::Op);
    /// Batch::new(&mut entries).par_iter_mut().for_each(|entry| entry.answer(str::len));
    /// assert_eq!(entries.map(Entry::into_reply), [Some(3), Some(4)]);
    /// ```
    pub fn par_iter_mut(&mut self) -> <&mut [Entry<Op, Reply>] as IntoParallelIterator>::Iter
    where
        Op: Send,
        Reply: Send,
    {
        (&mut *self.entries).into_par_iter()
    }

    /// The entry at a position.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut Entry<Op, Reply>> {
        self.entries.get_mut(at)
    }

    /// Visits all entries, to be answered, in the order of a key of their operations; entries with equal keys in the order in which they were
    /// handed in. Entries do not move: a list of positions is sorted, in memory that the next batch reuses.
    ///
    /// ```
    /// use windrow::batch::{Batch, BatchOps, Batched, Chunk};
    ///
    /// /// Seeks forwards only.
    /// struct Disk;
    ///
    /// impl BatchOps for Disk {
    ///     type Op = u64;
    ///     type Reply = String;
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, u64, String>) {
    ///         batch.for_each_by_key(|block| *block, |entry| entry.answer(|block| format!("block {block}")));
    ///     }
    /// }
    ///
    /// let disk = Batched::new(Disk);
    /// let mut chunk = Chunk::new();
    /// chunk.extend([9, 2, 5]);
    /// disk.call_chunk(&mut chunk).unwrap();
    /// assert!(chunk.replies().map(Result::unwrap).eq(["block 9", "block 2", "block 5"]));
    /// ```
    ///
    /// # Panics
    /// If an operation was taken or answered before.
    pub fn for_each_by_key<K: Ord>(&mut self, mut key: impl FnMut(&Op) -> K, visit: impl FnMut(&mut Entry<Op, Reply>)) {
        self.for_each_by(|a, b| key(a).cmp(&key(b)), visit);
    }

    /// Like [`for_each_by_key`](Batch::for_each_by_key), by a comparison.
    ///
    /// ```
    /// use windrow::batch::{Batch, Entry};
    ///
    /// let (mut entries, mut rank) = ([2.5_f64, 0.5, 1.5].map(Entry::Op), 0);
    /// Batch::new(&mut entries).for_each_by(
    ///     |a, b| b.total_cmp(a),
    ///     |entry| {
    ///         rank += 1;
    ///         entry.answer(|_| rank);
    ///     },
    /// );
    /// assert_eq!(entries.map(Entry::into_reply), [Some(1), Some(3), Some(2)]);
    /// ```
    ///
    /// # Panics
    /// If an operation was taken or answered before.
    pub fn for_each_by(
        &mut self,
        mut compare: impl FnMut(&Op, &Op) -> Ordering,
        mut visit: impl FnMut(&mut Entry<Op, Reply>),
    ) {
        let Batch { entries, order } = self;
        // A single operation allocates nothing, even without the wrapper's memory.
        if entries.len() < 2 {
            return entries.iter_mut().for_each(visit);
        }
        order.clear();
        order.extend(0..entries.len());
        // Stable, since ties are broken by position; unlike a stable sort it allocates nothing.
        order.sort_unstable_by(|&a, &b| compare(entries[a].op(), entries[b].op()).then(a.cmp(&b)));
        order.iter().for_each(|&at| visit(&mut entries[at]));
    }
}

impl<Op, Reply> Deref for Batch<'_, Op, Reply> {
    type Target = [Entry<Op, Reply>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        self.entries
    }
}

impl<Op, Reply, I: SliceIndex<[Entry<Op, Reply>]>> Index<I> for Batch<'_, Op, Reply> {
    type Output = I::Output;

    #[inline]
    fn index(&self, at: I) -> &Self::Output {
        &self.entries[at]
    }
}

/// One entry at a time: a mutable range could be reordered.
impl<Op, Reply> IndexMut<usize> for Batch<'_, Op, Reply> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Entry<Op, Reply> {
        &mut self.entries[at]
    }
}

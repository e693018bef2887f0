//! Calls of loops: many operations are handed in at once.

use std::fmt;
use std::panic::Location;

use windrow_sync::submit::{Entry, Fate};

use super::{BatchError, BatchOps, Batched, outcome};

/// Operations that are handed in together, and the replies of the last call. A chunk can be reused, and keeps its memory.
///
/// Operations and replies are separate: operations that are pushed after a call belong to the next call, whether or not the replies were
/// taken. A call drops the remaining replies of the call before, so a loop can ignore replies.
///
/// ```
/// # use windrow::batch::{Batch, BatchOps, Batched};
/// # struct Sum(u64);
/// # impl BatchOps for Sum {
/// #     type Op = u64;
/// #     type Reply = u64;
/// #     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
/// #         for entry in batch.iter_mut() {
/// #             self.0 += entry.take();
/// #             entry.reply(self.0);
/// #         }
/// #     }
/// # }
/// use windrow::batch::Chunk;
///
/// let sum = Batched::new(Sum(0));
/// let mut chunk = Chunk::new();
/// for numbers in [[1, 2], [10, 20]] {
///     chunk.extend(numbers);
///     sum.call_chunk(&mut chunk).unwrap();
/// }
/// assert!(chunk.is_empty() && chunk.replies().eq([Ok(13), Ok(33)]));
/// ```
pub struct Chunk<S: BatchOps> {
    /// Operations to be handed in.
    ops: Vec<Entry<S::Op, S::Reply>>,
    /// The entries of the last call, as its batches left them.
    done: Vec<Entry<S::Op, S::Reply>>,
    fate: Fate,
}

impl<S: BatchOps> fmt::Debug for Chunk<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("len", &self.len()).field("replies", &self.done.len()).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Default for Chunk<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: BatchOps> Chunk<S> {
    /// An empty chunk.
    pub fn new() -> Self {
        Chunk { ops: Vec::new(), done: Vec::new(), fate: Fate::default() }
    }

    /// Appends an operation.
    pub fn push(&mut self, mut op: S::Op) {
        S::prepare(&mut op);
        self.ops.push(Entry::Op(op));
    }

    /// The number of operations that have not been handed in.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if no operation waits to be handed in.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Takes out all replies of the last call, in the order of its operations. An operation that was not run is dropped.
    pub fn replies(&mut self) -> impl ExactSizeIterator<Item = Result<S::Reply, BatchError>> {
        let fate = self.fate;
        self.done.drain(..).map(move |entry| outcome(Ok(fate), entry).map_err(|(why, _)| why))
    }
}

impl<S: BatchOps> Extend<S::Op> for Chunk<S> {
    fn extend<I: IntoIterator<Item = S::Op>>(&mut self, ops: I) {
        ops.into_iter().for_each(|op| self.push(op));
    }
}

impl<S: BatchOps> Batched<S> {
    /// Runs all operations of a chunk, in their order, in batches with operations of other callers; blocks until they are done. The chunk
    /// is handed over at once: about a nanosecond an operation.
    ///
    /// ```
    /// use windrow::batch::{Batch, BatchOps, Batched, Chunk};
    /// use windrow::prelude::*;
    ///
    /// struct Sum(u64);
    ///
    /// impl BatchOps for Sum {
    ///     type Op = u64;
    ///     type Reply = u64;
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
    ///         for entry in batch.iter_mut() {
    ///             self.0 += entry.take();
    ///             entry.reply(self.0);
    ///         }
    ///     }
    /// }
    ///
    /// let sum = Batched::new(Sum(0));
    /// let numbers: Vec<u64> = (1..=1000).collect();
    /// numbers.par_chunks(100).for_each(|numbers| {
    ///     let mut chunk = Chunk::new();
    ///     chunk.extend(numbers.iter().copied());
    ///     sum.call_chunk(&mut chunk).unwrap();
    ///     assert_eq!(chunk.replies().len(), 100);
    /// });
    /// assert_eq!(sum.into_inner().unwrap().0, 500_500);
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Closed`], [`BatchError::Full`], [`BatchError::Nested`] or [`BatchError::Forked`] if no operation was run; then the
    /// chunk still holds its operations. Failures of single operations are in [`Chunk::replies`].
    #[track_caller]
    pub fn call_chunk(&self, chunk: &mut Chunk<S>) -> Result<(), BatchError> {
        self.reported(Location::caller(), chunk.len(), None, || self.hand_in_chunk(chunk))
    }

    fn hand_in_chunk(&self, chunk: &mut Chunk<S>) -> Result<(), BatchError> {
        let shared = &*self.shared;
        shared.accepts()?;
        if chunk.is_empty() {
            chunk.done.clear();
            return Ok(());
        }
        let _room = shared.wait_for_room(chunk.len())?;
        // If handing in panics, the entries stay in `done`. Replies can be read, and no entry is handed in again.
        let mut before = std::mem::replace(&mut chunk.done, std::mem::take(&mut chunk.ops));
        match shared.hand_in(&mut chunk.done) {
            Ok(fate) => {
                chunk.fate = fate;
                before.clear();
                chunk.ops = before;
                Ok(())
            }
            Err(_) => {
                chunk.ops = std::mem::replace(&mut chunk.done, before);
                Err(BatchError::Closed)
            }
        }
    }
}

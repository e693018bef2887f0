//! Calls of loops: many operations are handed in at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use windrow_sync::submit::{Entry, Fate};

use super::{BatchError, BatchOps, Batched, Overflow, finish};
use crate::runtime::explain;

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

    /// Whether no operation waits to be handed in.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Takes out all replies of the last call, in the order of its operations. An operation that was not run is dropped.
    pub fn replies(&mut self) -> impl ExactSizeIterator<Item = Result<S::Reply, BatchError>> {
        let fate = self.fate;
        self.done.drain(..).map(move |entry| finish(Ok(fate), entry).map_err(|error| error.kind()))
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
        self.call_chunk_at(Location::caller(), chunk)
    }

    fn call_chunk_at(&self, place: &'static Location<'static>, chunk: &mut Chunk<S>) -> Result<(), BatchError> {
        if explain::listens(Some(place)) {
            return self.told(place, chunk.len(), None, || self.hand_in_chunk(chunk));
        }
        self.hand_in_chunk(chunk)
    }

    fn hand_in_chunk(&self, chunk: &mut Chunk<S>) -> Result<(), BatchError> {
        let shared = &*self.shared;
        if let Some(why) = shared.refuses() {
            return Err(why);
        }
        if chunk.is_empty() {
            chunk.done.clear();
            return Ok(());
        }
        let _room = match shared.wait_for_room(chunk.len()) {
            Ok(room) => room,
            // Past the bound: the caller hands the chunk in, and runs batches if it gets the lock.
            Err(Overflow::RunInline) => None,
            Err(_) => return Err(BatchError::Full),
        };
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

    /// Defers the operations of a loop. They are handed in together: once `chunk` (at least 1) are deferred, or when a reply is requested.
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
    /// # let sum = Batched::new(Sum(0));
    /// let mut tickets = sum.tickets(64);
    /// let first = tickets.defer(1);
    /// let second = tickets.defer(2);
    /// assert_eq!(tickets.take(second), Some(Ok(3)));
    /// assert_eq!(tickets.take(first), Some(Ok(1)));
    /// ```
    #[track_caller]
    pub fn tickets(&self, chunk: usize) -> Tickets<'_, S> {
        Tickets {
            batched: self,
            place: Location::caller(),
            // Relaxed: only the number must be unique; it orders no other memory.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            size: chunk.max(1),
            chunk: Chunk::new(),
            handed: 0,
            replies: VecDeque::new(),
            first: 0,
        }
    }
}

/// The `id` of the next [`Tickets`].
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Stands for the reply to a deferred operation.
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
/// # let sum = Batched::new(Sum(0));
/// let mut tickets = sum.tickets(64);
/// let ticket = tickets.defer(5);
/// assert_eq!(tickets.take(ticket), Some(Ok(5)));
/// assert_eq!(tickets.take(ticket), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The `id` of its [`Tickets`].
    of: u64,
    number: u64,
}

/// Deferred operations of a loop: see [`Batched::tickets`]. The drop hands in the remaining operations, unless the thread is panicking.
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
/// # let sum = Batched::new(Sum(0));
/// let mut tickets = sum.tickets(64);
/// for number in 1..=10 {
///     tickets.defer(number);
/// }
/// drop(tickets);
/// assert_eq!(sum.into_inner().unwrap().0, 55);
/// ```
pub struct Tickets<'b, S: BatchOps> {
    batched: &'b Batched<S>,
    /// Where these were made: the place of their calls.
    place: &'static Location<'static>,
    id: u64,
    size: usize,
    chunk: Chunk<S>,
    /// The number of operations that were handed in.
    handed: u64,
    /// Replies not taken yet, from ticket `first` on.
    replies: VecDeque<Option<Result<S::Reply, BatchError>>>,
    first: u64,
}

impl<S: BatchOps> fmt::Debug for Tickets<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("put_off", &self.chunk.len()).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Tickets<'_, S> {
    /// Defers `op`, and returns a ticket for its reply.
    pub fn defer(&mut self, op: S::Op) -> Ticket {
        let ticket = Ticket { of: self.id, number: self.handed + self.chunk.len() as u64 };
        self.chunk.push(op);
        if self.chunk.len() >= self.size {
            self.flush();
        }
        ticket
    }

    /// The reply to the operation of `ticket`; `None` if it was taken before. Hands in the deferred operations if this one is among them.
    ///
    /// # Panics
    /// If the ticket belongs to other `Tickets`: its number would stand for another reply here.
    pub fn take(&mut self, ticket: Ticket) -> Option<Result<S::Reply, BatchError>> {
        assert!(ticket.of == self.id, "a ticket was given to other Tickets than those it is of");
        if ticket.number >= self.handed {
            self.flush();
        }
        let at = usize::try_from(ticket.number.checked_sub(self.first)?).ok()?;
        let reply = self.replies.get_mut(at)?.take();
        while let Some(None) = self.replies.front() {
            self.replies.pop_front();
            self.first += 1;
        }
        reply
    }

    /// Hands in all deferred operations. If the structure refuses them, each gets the error as its reply.
    pub fn flush(&mut self) {
        let size = self.chunk.len();
        self.handed += size as u64;
        match self.batched.call_chunk_at(self.place, &mut self.chunk) {
            Ok(()) => self.replies.extend(self.chunk.replies().map(Some)),
            Err(why) => {
                self.chunk = Chunk::new();
                self.replies.extend((0..size).map(|_| Some(Err(why))));
            }
        }
    }
}

impl<S: BatchOps> Drop for Tickets<'_, S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.flush();
        }
    }
}

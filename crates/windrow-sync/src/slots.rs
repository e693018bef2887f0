//! Slots: ordered output, written in any order, taken as a `Vec` without a copy.
//!
//! # Protocol
//! `Slots` holds uninitialized memory for `n` results. A [`Fill`] is the right to write one chunk of it, in order. When a `Fill`
//! is dropped, it reports how far it came to a ledger of its member. [`Slots::finish`](crate::divide::Divide::done) gives the
//! vector only if the ledgers add up to `n`. Spans of chunks are disjoint, so then every slot is written.
//!
//! A forgotten `Fill` reports nothing: its results leak, and no uninitialized memory is ever exposed.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Pad;
use crate::divide::{Divide, Span, for_all};

/// Spans that one member has written; neighbours merge. The first is kept apart: a member that writes all in one row, as a single
/// caller does, needs no allocation.
#[derive(Debug, Default)]
struct Spans {
    first: Range<usize>,
    more: Vec<Range<usize>>,
}

impl Spans {
    fn add(&mut self, span: Range<usize>) {
        let last = self.more.last_mut().unwrap_or(&mut self.first);
        if last.start == last.end {
            *last = span;
        } else if last.end == span.start {
            last.end = span.end;
        } else {
            self.more.push(span);
        }
    }

    fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        std::iter::once(&self.first).chain(&self.more).cloned()
    }
}

type Ledger = Mutex<Spans>;

/// See the [module page](self).
pub struct Slots<T> {
    /// Never touched while shared; `ptr` leads to the slots.
    buffer: UnsafeCell<Vec<MaybeUninit<T>>>,
    ptr: *mut MaybeUninit<T>,
    len: usize,
    /// Member 0's ledger, and those of the others, made when one of them writes.
    lead: Ledger,
    others: OnceLock<Box<[Pad<Ledger>]>>,
    members: usize,
}

// SAFETY: sharing it only moves `T`s between threads.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: as `Vec<T>`.
unsafe impl<T: Send> Send for Slots<T> {}

impl<T> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Slots<T> {
    /// Uninitialized slots for `n` results of `members` members. One allocation of `n * size_of::<T>()` bytes.
    pub fn new(n: usize, members: usize) -> Self {
        let mut buffer: Vec<MaybeUninit<T>> = Vec::with_capacity(n);
        // SAFETY: `MaybeUninit` needs no initialization, and the capacity is there.
        unsafe { buffer.set_len(n) };
        let ptr = buffer.as_mut_ptr();
        let (lead, others) = (Ledger::default(), OnceLock::new());
        Self { buffer: UnsafeCell::new(buffer), ptr, len: n, lead, others, members: members.max(1) }
    }

    fn ledger(&self, member: usize) -> &Ledger {
        match member % self.members {
            0 => &self.lead,
            member => &self.others.get_or_init(|| (1..self.members).map(|_| Pad::default()).collect())[member - 1].0,
        }
    }

    fn ledgers(&mut self) -> impl Iterator<Item = &mut Spans> {
        let others = self.others.get_mut().into_iter().flatten().map(|ledger| &mut ledger.0);
        std::iter::once(&mut self.lead)
            .chain(others)
            .map(|ledger| ledger.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// The vector, or `None` (and what was written is dropped) if a slot is empty.
    fn finish(mut self) -> Option<Vec<T>> {
        let written: usize = self.ledgers().flat_map(|spans| spans.iter().map(|span| span.len())).sum();
        if written != self.len {
            return None;
        }
        // Nothing is left to drop.
        self.ledgers().for_each(|spans| *spans = Spans::default());
        let mut buffer = ManuallyDrop::new(std::mem::take(self.buffer.get_mut()));
        let (ptr, len, capacity) = (buffer.as_mut_ptr().cast::<T>(), buffer.len(), buffer.capacity());
        // SAFETY: all slots are written: disjoint spans that add up to their number. Same layout, and `buffer` is not used
        // again.
        Some(unsafe { Vec::from_raw_parts(ptr, len, capacity) })
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            let ptr = self.ptr;
            for_all(self.ledgers().flat_map(|spans| spans.iter()), |span| {
                let start = ptr.wrapping_add(span.start).cast::<T>();
                // SAFETY: the ledger lists initialized spans, each once, and this is the last use.
                unsafe { std::ptr::drop_in_place(std::ptr::slice_from_raw_parts_mut(start, span.len())) };
            });
        }
    }
}

// SAFETY: disjoint spans are disjoint slots.
unsafe impl<T: Send> Divide for Slots<T> {
    type Item = ();
    type Chunk<'s>
        = Fill<'s, T>
    where
        Self: 's;
    type Done = Option<Vec<T>>;

    fn total(&self) -> usize {
        self.len
    }

    fn done(self) -> Option<Vec<T>> {
        self.finish()
    }

    #[inline]
    unsafe fn chunk(&self, span: Span) -> Fill<'_, T> {
        // SAFETY: in bounds (caller).
        let start = unsafe { self.ptr.add(span.lo) };
        // SAFETY: each index once (caller), so this borrow is unique.
        let room = unsafe { std::slice::from_raw_parts_mut(start, span.len()) };
        Fill { room, written: 0, lo: span.lo, ledger: self.ledger(span.member) }
    }
}

/// The right to write one chunk of [`Slots`].
pub struct Fill<'s, T> {
    room: &'s mut [MaybeUninit<T>],
    written: usize,
    lo: usize,
    ledger: &'s Ledger,
}

impl<T> fmt::Debug for Fill<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (room, written) = (self.room.len(), self.written);
        f.debug_struct("Fill").field("room", &room).field("written", &written).finish_non_exhaustive()
    }
}

impl<T> Fill<'_, T> {
    /// Writes items in order until the chunk is full or the iterator ends. A further call continues.
    #[inline]
    pub fn fill(&mut self, items: impl Iterator<Item = T>) {
        let written = &mut self.written;
        for (slot, item) in self.room[*written..].iter_mut().zip(items) {
            slot.write(item);
            *written += 1;
        }
    }
}

impl<T> Drop for Fill<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.written == 0 {
            return;
        }
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).add(self.lo..self.lo + self.written);
    }
}

#![doc = include_str!("slots.md")]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;

use crate::base::debug::show_as;
use crate::base::mutex::Mutex;
use crate::base::pad::Pad;
use crate::base::unwind::for_all;
use crate::region::claim::SharedItems;
use crate::region::divide::{Claim, Divide};

/// Spans that one member has written; neighbours merge. The first span is a separate field: a member that writes one contiguous
/// span, as a single caller does, needs no allocation.
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
///
/// ```
/// use windrow_sync::divide::Division;
/// use windrow_sync::slots::Slots;
///
/// let mut division = Division::new((0..5usize, Slots::new(5, 1)));
/// let (mut lead, _) = division.lead();
/// while let Some((_, (numbers, mut slots))) = lead.take(2) {
///     slots.fill(numbers.map(|number| number * number));
/// }
/// drop(lead);
/// assert_eq!(division.done().1, Some(vec![0, 1, 4, 9, 16]));
/// ```
pub struct Slots<T> {
    items: SharedItems<MaybeUninit<T>, Vec<MaybeUninit<T>>>,
    /// Member 0's ledger, on a line of its own: other members read the fields around it for every chunk.
    lead: Pad<Ledger>,
    /// Ledgers of the other members, made when one of them writes.
    others: OnceLock<Box<[Pad<Ledger>]>>,
    members: usize,
}

show_as!("Slots": [T] Slots<T>, |it| len: it.items.len);

impl<T> Slots<T> {
    /// Uninitialized slots for `n` results of `members` members. One allocation of `n * size_of::<T>()` bytes.
    pub fn new(n: usize, members: usize) -> Self {
        let mut owner = Box::new_uninit_slice(n).into_vec();
        let items = SharedItems { start: owner.as_mut_ptr(), len: n, owner };
        Self { items, lead: Pad::default(), others: OnceLock::new(), members: members.max(1) }
    }

    fn ledger(&self, member: usize) -> &Ledger {
        match member % self.members {
            0 => &self.lead.0,
            member => &self.others.get_or_init(|| (1..self.members).map(|_| Pad::default()).collect())[member - 1].0,
        }
    }

    fn ledgers(&mut self) -> impl Iterator<Item = &mut Spans> {
        let others = self.others.get_mut().into_iter().flatten().map(|ledger| &mut ledger.0);
        std::iter::once(&mut self.lead.0).chain(others).map(Mutex::get_mut)
    }

    /// The vector, or `None` (and what was written is dropped) if a slot is empty.
    fn finish(mut self) -> Option<Vec<T>> {
        let written: usize = self.ledgers().flat_map(|spans| spans.iter().map(|span| span.len())).sum();
        if written != self.items.len {
            return None;
        }
        // Nothing is left to drop.
        self.ledgers().for_each(|spans| *spans = Spans::default());
        let written = std::mem::take(&mut self.items.owner).into_boxed_slice();
        // SAFETY: all slots are written: disjoint spans that add up to their number.
        Some(unsafe { written.assume_init() }.into_vec())
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            let ptr = self.items.start;
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
        self.items.len
    }

    fn done(self) -> Option<Vec<T>> {
        self.finish()
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> Fill<'_, T> {
        let span = claim.span();
        // SAFETY: claimed; the buffer lives as long as `self`.
        let room = unsafe { self.items.claimed(span.lo, span.hi) };
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

show_as!("Fill": [T] Fill<'_, T>, |it| room: it.room.len(), written: it.written);

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

    /// Writes pairs in order, the second sides to `other`, until either chunk is full or the iterator ends.
    #[inline]
    pub fn fill_with<U>(&mut self, other: &mut Fill<'_, U>, items: impl Iterator<Item = (T, U)>) {
        let (mine, others) = (&mut self.room[self.written..], &mut other.room[other.written..]);
        for ((slot, other_slot), (a, b)) in mine.iter_mut().zip(others).zip(items) {
            slot.write(a);
            self.written += 1;
            other_slot.write(b);
            other.written += 1;
        }
    }
}

impl<T> Drop for Fill<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.written == 0 {
            return;
        }
        self.ledger.lock().add(self.lo..self.lo + self.written);
    }
}

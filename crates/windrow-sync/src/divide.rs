//! Divides a source among members.
//!
//! # Glossary
//! * *Source*: items with indices `0..n`. *Span*: neighbouring indices. *Chunk*: the items of one span, handed out.
//! * *Division*: a source that is being handed out. *Lead*: its first user, on the caller's thread.
//! * *Rest*: the items that the lead has not taken. *Share*: to move the rest into range words (see [`Ranges`]).
//! * *Claims*: one member's access to a shared division. *Unit*: one or several items that one range index stands for.
//! * *Remainder*: the items of a claimed unit that are in no chunk yet.
//!
//! The invariant: **every index of a division lies in at most one range word, or in the lead's rest, or in the remainder of one
//! member's claims, or in at most one chunk handed out, ever.** Only this module makes chunks, and only from a span that was just
//! taken out of a range word by a compare-exchange, out of a remainder, or out of the lead's rest. So the claim token *is* the
//! chunk: no other code can forge, copy or reuse one. Zip needs no second token, because a pair of sources is a source.
//!
//! # Protocol
//! A [`Division`] starts with everything in the [`Lead`]'s rest. The lead takes chunks from the front without any atomic. It may
//! [`share`](Lead::share) the rest once: from then on all of it is in [`Ranges`], and the lead, like every member, takes
//! [`Claims`]. Items that no member took are dropped with the division; the range words alone decide which those are.
//!
//! Range words hold 32-bit units. A rest of 2^32 items or more is shared in units of several items. A member that wants less than
//! one unit claims one all the same, and keeps what it does not hand out as its remainder. Its next chunks come from there, as
//! large as it wants them. A stopped division hands out nothing of a remainder either: the member drops what is left of it with
//! the [`Claims`].

use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use crate::ranges::{Ranges, Report, Run, Steals};

/// Where a chunk lies among the items, and which member claimed it. Information only: no code trusts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the first item.
    pub lo: usize,
    /// Index after the last item.
    pub hi: usize,
    /// The member that claimed it.
    pub member: usize,
}

impl Span {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.hi - self.lo
    }
    /// No items.
    pub fn is_empty(&self) -> bool {
        self.hi == self.lo
    }
}

/// A source of known length that can be handed out in disjoint chunks.
///
/// # Safety
/// `total` does not change. `chunk` may be called from many threads at once for disjoint spans, and the chunks of disjoint
/// spans do not alias mutably.
pub unsafe trait Divide: Sized + Sync {
    /// The type of an item.
    type Item;
    /// The items of one span, handed over together.
    type Chunk<'s>
    where
        Self: 's;
    /// What is left when the division is over. Never a source again: its chunks may live on (`&'a mut` items do).
    type Done;

    /// Number of items.
    fn total(&self) -> usize;

    /// Ends the division.
    fn done(self) -> Self::Done;

    /// From now on items belong to chunks and to `abandon`, no longer to the source's drop.
    ///
    /// # Safety
    /// Called once, before anything else. It does not panic.
    unsafe fn start(&mut self) {}

    /// Drops the items from `total` on: those of a longer source that have no partner.
    ///
    /// # Safety
    /// Called once, after `start` and before any chunk; no index from `total` on is ever in a chunk or abandoned.
    unsafe fn trim(&mut self, _total: usize) {}

    /// The items of `span`.
    ///
    /// # Safety
    /// After `start`; `span` lies inside `0..total`; each index at most once in chunks and `abandon` together.
    unsafe fn chunk(&self, span: Span) -> Self::Chunk<'_>;

    /// Drops items that were never handed out.
    ///
    /// # Safety
    /// As for `chunk`.
    unsafe fn abandon(&mut self, _lo: usize, _hi: usize) {}
}

/// Sources whose chunk is an iterator over the items (all but pairs and outputs).
pub trait Leaf: Divide {
    /// The items of a chunk.
    fn items<'s>(chunk: Self::Chunk<'s>) -> impl Iterator<Item = Self::Item> + 's
    where
        Self: 's;
}

// SAFETY: each side keeps its own contract for the same span.
unsafe impl<A: Divide, B: Divide> Divide for (A, B) {
    type Item = (A::Item, B::Item);
    type Chunk<'s>
        = (A::Chunk<'s>, B::Chunk<'s>)
    where
        Self: 's;
    type Done = (A::Done, B::Done);

    fn total(&self) -> usize {
        self.0.total().min(self.1.total())
    }

    fn done(self) -> Self::Done {
        (self.0.done(), self.1.done())
    }

    unsafe fn start(&mut self) {
        // SAFETY: the caller's contract, for A.
        unsafe { self.0.start() };
        // SAFETY: the caller's contract, for B.
        unsafe { self.1.start() };
    }

    unsafe fn trim(&mut self, total: usize) {
        // SAFETY: the caller's contract, for B.
        let _b = Also(|| unsafe { self.1.trim(total) });
        // SAFETY: the caller's contract, for A.
        unsafe { self.0.trim(total) };
    }

    #[inline]
    unsafe fn chunk(&self, span: Span) -> Self::Chunk<'_> {
        // SAFETY: the caller's contract, for A.
        let a = unsafe { self.0.chunk(span) };
        // SAFETY: the caller's contract, for B.
        let b = unsafe { self.1.chunk(span) };
        (a, b)
    }

    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        // SAFETY: the caller's contract, for B.
        let _b = Also(|| unsafe { self.1.abandon(lo, hi) });
        // SAFETY: the caller's contract, for A.
        unsafe { self.0.abandon(lo, hi) };
    }
}

/// Runs the function at the end of the scope, even if an item's drop has panicked in it: one such item must not leak others.
struct Also<F: FnMut()>(F);

impl<F: FnMut()> Drop for Also<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `f` with every item, even after a call that panics.
pub(crate) fn for_all<I: Iterator, F: FnMut(I::Item)>(items: I, f: F) {
    struct All<I: Iterator, F: FnMut(I::Item)>(I, F);
    impl<I: Iterator, F: FnMut(I::Item)> Drop for All<I, F> {
        fn drop(&mut self) {
            self.0.by_ref().for_each(&mut self.1);
        }
    }
    let mut all = All(items, f);
    all.0.by_ref().for_each(&mut all.1);
}

/// A source in blocks of a fixed size: one index is one block.
///
/// Where blocks begin depends only on the number of items, not on which member claims what. So a reduction over blocks, combined
/// in order, gives the same bits for every number of members.
#[derive(Clone, Debug)]
pub struct Blocks<S> {
    source: S,
    block: usize,
}

impl<S: Divide> Blocks<S> {
    /// # Panics
    /// If `block` is 0.
    pub fn new(source: S, block: usize) -> Self {
        assert!(block > 0, "a block holds at least one item");
        Self { source, block }
    }

    fn items(&self, lo: usize, hi: usize) -> (usize, usize) {
        let n = self.source.total();
        (lo.saturating_mul(self.block).min(n), hi.saturating_mul(self.block).min(n))
    }
}

// SAFETY: disjoint spans of blocks are disjoint spans of items.
unsafe impl<S: Divide> Divide for Blocks<S> {
    type Item = S::Item;
    type Chunk<'s>
        = BlocksChunk<'s, S>
    where
        Self: 's;
    type Done = S::Done;

    fn total(&self) -> usize {
        self.source.total().div_ceil(self.block)
    }

    fn done(self) -> S::Done {
        self.source.done()
    }

    unsafe fn start(&mut self) {
        // SAFETY: the caller's contract.
        unsafe { self.source.start() };
    }

    unsafe fn trim(&mut self, total: usize) {
        let (from, _) = self.items(total, total);
        // SAFETY: the items of blocks from `total` on.
        unsafe { self.source.trim(from) };
    }

    #[inline]
    unsafe fn chunk(&self, at: Span) -> BlocksChunk<'_, S> {
        BlocksChunk { blocks: self, at }
    }

    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        let (lo, hi) = self.items(lo, hi);
        // SAFETY: the items of blocks that the caller may abandon.
        unsafe { self.source.abandon(lo, hi) };
    }
}

/// Claimed blocks, one by one: where each lies among the items, and its chunk.
#[derive(Debug)]
pub struct BlocksChunk<'s, S: Divide> {
    blocks: &'s Blocks<S>,
    at: Span,
}

impl<'s, S: Divide> BlocksChunk<'s, S> {
    /// The next block, to be taken in pieces: for a member that wants to check something between the pieces of a long block.
    #[inline]
    pub fn next_in_pieces(&mut self) -> Option<BlockPieces<'s, S>> {
        if self.at.is_empty() {
            return None;
        }
        let (lo, hi) = self.blocks.items(self.at.lo, self.at.lo + 1);
        self.at.lo += 1;
        Some(BlockPieces { source: &self.blocks.source, rest: Span { lo, hi, member: self.at.member } })
    }
}

impl<'s, S: Divide> Iterator for BlocksChunk<'s, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_in_pieces()?.take(usize::MAX)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.at.len(), Some(self.at.len()))
    }
}

/// One claimed block, taken in pieces from its front. Items that were not taken are dropped with it.
#[derive(Debug)]
pub struct BlockPieces<'s, S: Divide> {
    source: &'s S,
    /// Items of the claimed block that are in no chunk yet.
    rest: Span,
}

impl<'s, S: Divide> BlockPieces<'s, S> {
    /// Items not taken yet.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }

    /// The next chunk of at most `want` items (at least one, if there is one).
    #[inline]
    pub fn take(&mut self, want: usize) -> Option<(Span, S::Chunk<'s>)> {
        if self.rest.is_empty() {
            return None;
        }
        let span = Span { hi: self.rest.lo + want.clamp(1, self.rest.len()), ..self.rest };
        self.rest.lo = span.hi;
        // SAFETY: items of a claimed block, and `rest` has just moved past them.
        Some((span, unsafe { self.source.chunk(span) }))
    }
}

impl<S: Divide> Drop for BlockPieces<'_, S> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take(usize::MAX));
    }
}

impl<S: Divide> Drop for BlocksChunk<'_, S> {
    fn drop(&mut self) {
        if !self.at.is_empty() {
            let (lo, hi) = self.blocks.items(self.at.lo, self.at.hi);
            // All at once: block by block, a huge source would take for ever.
            // SAFETY: claimed blocks that are in no chunk yet, and no thread can ask this chunk for them any more.
            drop(unsafe { self.blocks.source.chunk(Span { lo, hi, ..self.at }) });
        }
    }
}

/// The rest of a division once it is shared.
#[derive(Debug)]
struct SharedRest {
    ranges: Ranges,
    /// Items `origin..end`, in units of `unit`.
    origin: usize,
    end: usize,
    unit: usize,
}

impl SharedRest {
    fn new(rest: std::ops::Range<usize>, parts: usize, first: usize, cut: impl Fn(usize) -> usize) -> Self {
        let mut ranges = Ranges::spare(parts);
        let unit = rest.len().div_ceil(u32::MAX as usize).max(1);
        let units = |item: usize| (item.clamp(rest.start, rest.end) - rest.start) / unit;
        ranges.fill(rest.len().div_ceil(unit) as u32, parts, first, |part| units(cut(part)) as u32);
        Self { ranges, origin: rest.start, end: rest.end, unit }
    }

    #[inline]
    fn items(&self, units: &Run) -> (usize, usize) {
        // The product fits: fewer than 2^32 units of at most 2^32 + 1 items. The sum may not, for a range up to `usize::MAX`.
        let at = |unit: u32| self.origin.saturating_add(unit as usize * self.unit).min(self.end);
        (at(units.start), at(units.end))
    }
}

/// A source that is being handed out. See the [module page](self).
pub struct Division<S: Divide> {
    source: ManuallyDrop<S>,
    /// Items that no lead has taken over yet.
    whole: std::ops::Range<usize>,
    shared: OnceLock<SharedRest>,
}

impl<S: Divide> std::fmt::Debug for Division<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Division").field("whole", &self.whole).field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl<S: Divide> Division<S> {
    /// Takes over `source`.
    pub fn new(mut source: S) -> Self {
        let total = source.total();
        // SAFETY: once, before anything else.
        unsafe { source.start() };
        let mut division = Self { source: ManuallyDrop::new(source), whole: 0..total, shared: OnceLock::new() };
        // SAFETY: started just now, and every chunk will lie inside `0..total`.
        unsafe { division.source.trim(total) };
        division
    }

    /// The lead, with all items that no earlier lead has held; and the division, for members.
    pub fn lead(&mut self) -> (Lead<'_, S>, &Self) {
        let rest = std::mem::take(&mut self.whole);
        let division = &*self;
        (Lead { division, rest }, division)
    }

    /// Claims for `member`. Any number of them may exist, with any member numbers: the number selects the range word to try
    /// first. They return nothing before the lead has shared.
    pub fn claims(&self, member: usize) -> Claims<'_, S> {
        Claims { division: self, shared: self.shared.get(), member, remainder: 0..0 }
    }

    /// Whether the lead has moved its rest to where members can claim it.
    pub fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Claims return nothing from now on. Unclaimed items are dropped with the division.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.get() {
            shared.ranges.stop();
        }
    }

    /// Whether a shared division was [stopped](Division::stop).
    pub fn is_stopped(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.ranges.is_stopped())
    }

    /// What the members reported, once the division is shared.
    pub fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.shared.get().into_iter().flat_map(|shared| shared.ranges.reports())
    }

    /// Ends the division; items that no member took are dropped.
    pub fn done(mut self) -> S::Done {
        self.abandon_rest();
        let mut me = ManuallyDrop::new(self);
        me.shared.take();
        // SAFETY: `me` is not used or dropped after this.
        unsafe { ManuallyDrop::take(&mut me.source) }.done()
    }

    fn abandon_rest(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        if !whole.is_empty() {
            // SAFETY: no lead has held these, so no chunk has; taken out of `whole` just now.
            unsafe { self.source.abandon(whole.start, whole.end) };
        }
        // Taken out first: if an item's drop panics, the next attempt must not find these items again.
        let Some(mut shared) = self.shared.take() else { return };
        let left: Vec<Run> = shared.ranges.drain().collect();
        for_all(left.iter().map(|units| shared.items(units)), |(lo, hi)| {
            // SAFETY: still in a range word, hence in no chunk.
            unsafe { self.source.abandon(lo, hi) };
        });
        shared.ranges.keep();
    }

    /// The chunk of `span`, which the caller has just taken out of a range word, a remainder or a lead's rest.
    ///
    /// # Safety
    /// As for [`Divide::chunk`]; `new` has started the source.
    #[inline]
    unsafe fn chunk(&self, span: Span) -> (Span, S::Chunk<'_>) {
        // SAFETY: the caller's contract.
        (span, unsafe { self.source.chunk(span) })
    }
}

impl<S: Divide> Drop for Division<S> {
    fn drop(&mut self) {
        struct Source<'a, S: Divide>(&'a mut Division<S>);
        impl<S: Divide> Drop for Source<'_, S> {
            fn drop(&mut self) {
                // SAFETY: the last use.
                unsafe { ManuallyDrop::drop(&mut self.0.source) };
            }
        }
        Source(self).0.abandon_rest();
    }
}

/// The caller's access to the items, without atomics, until it shares.
#[derive(Debug)]
pub struct Lead<'s, S: Divide> {
    division: &'s Division<S>,
    rest: std::ops::Range<usize>,
}

impl<'s, S: Divide> Lead<'s, S> {
    /// The items that the lead has not taken.
    pub fn rest(&self) -> std::ops::Range<usize> {
        self.rest.clone()
    }

    /// The next chunk of at most `want` items (at least one, if there is one).
    #[inline]
    pub fn take(&mut self, want: usize) -> Option<(Span, S::Chunk<'s>)> {
        if self.rest.is_empty() {
            return None;
        }
        let hi = self.rest.start + want.clamp(1, self.rest.len());
        let span = Span { lo: self.rest.start, hi, member: 0 };
        self.rest.start = hi;
        // SAFETY: inside `0..total`, and taken out of the rest just now.
        Some(unsafe { self.division.chunk(span) })
    }

    /// The lead's claims, as `member`, once it has shared.
    pub fn claims(&self, member: usize) -> Claims<'s, S> {
        self.division.claims(member)
    }

    /// Moves the rest to where members can claim it, in `parts` parts. `cut(i)` is the item with which part `i` begins; the lead
    /// gets part `first`, member 1 the next one, and so on around. Without effect if nothing is left.
    ///
    /// # Panics
    /// If `parts` is 0.
    pub fn share(&mut self, parts: usize, first: usize, cut: impl Fn(usize) -> usize) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            // A second rest cannot exist: `whole` was taken once. If `shared` were set already, these items would leak.
            let set = self.division.shared.set(SharedRest::new(rest, parts, first, cut));
            debug_assert!(set.is_ok(), "a division is shared once");
        }
    }
}

impl<S: Divide> Lead<'_, S> {
    /// [`share`](Lead::share) in parts of one size.
    pub fn share_evenly(&mut self, members: usize) {
        let rest = self.rest.clone();
        let members = members.max(1);
        self.share(members, 0, |part| rest.start + (rest.len() as u128 * part as u128 / members as u128) as usize);
    }
}

impl<S: Divide> Drop for Lead<'_, S> {
    fn drop(&mut self) {
        // Items that the lead did not take (it unwinds, say) go where the division's drop finds them.
        if !self.rest.is_empty() {
            self.share_evenly(1);
        }
    }
}

/// One member's access to a shared division.
#[derive(Debug)]
pub struct Claims<'s, S: Divide> {
    division: &'s Division<S>,
    shared: Option<&'s SharedRest>,
    member: usize,
    /// Items of a claimed unit that are in no chunk yet.
    remainder: std::ops::Range<usize>,
}

impl<'s, S: Divide> Claims<'s, S> {
    /// The next chunk. `want` gets the available items (`lo..hi`) and returns how many to take, at least 1; no chunk is larger,
    /// in units of any size. `cut` gets the items to steal from and returns the index at which the stolen part begins.
    #[inline]
    pub fn next(
        &mut self,
        want: impl Fn(usize, usize) -> usize,
        cut: impl Fn(usize, usize) -> usize,
    ) -> Option<(Span, S::Chunk<'s>, Steals)> {
        let shared = self.shared?;
        if !self.remainder.is_empty() {
            if shared.ranges.is_stopped() {
                return None;
            }
            let (span, chunk) = self.take(want);
            return Some((span, chunk, 0));
        }
        let (units, steals) = shared.ranges.claim(
            self.member,
            |run| {
                let (lo, hi) = shared.items(run);
                u32::try_from(want(lo, hi) / shared.unit).unwrap_or(u32::MAX)
            },
            |run| {
                let (lo, hi) = shared.items(run);
                let item = cut(lo, hi).clamp(lo, hi);
                ((item - shared.origin) / shared.unit) as u32
            },
        )?;
        let (lo, hi) = shared.items(&units);
        if shared.unit > 1 {
            self.remainder = lo..hi;
            let (span, chunk) = self.take(want);
            return Some((span, chunk, steals));
        }
        let span = Span { lo, hi, member: self.member };
        // SAFETY: inside `0..total`; the compare-exchange in `claim` took these units out of a range word, and no unit returns
        // there.
        let (span, chunk) = unsafe { self.division.chunk(span) };
        Some((span, chunk, steals))
    }

    /// A chunk from the front of the remainder, which is not empty.
    fn take(&mut self, want: impl Fn(usize, usize) -> usize) -> (Span, S::Chunk<'s>) {
        let std::ops::Range { start: lo, end } = self.remainder;
        let hi = lo + want(lo, end).clamp(1, end - lo);
        self.remainder.start = hi;
        // SAFETY: inside `0..total`; claimed, and taken out of the remainder just now.
        unsafe { self.division.chunk(Span { lo, hi, member: self.member }) }
    }

    /// Adds to this member's report: see [`Division::reports`].
    pub fn report(&self, report: Report) {
        if let Some(shared) = self.shared {
            shared.ranges.report(self.member, report);
        }
    }

    /// Items that no member has claimed yet: a snapshot.
    pub fn unclaimed(&self) -> usize {
        self.shared.map_or(0, |shared| shared.ranges.unclaimed().saturating_mul(shared.unit))
    }
}

impl<S: Divide> Drop for Claims<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if !self.remainder.is_empty() {
            // All at once: chunk by chunk could take for ever.
            drop(self.take(|_, _| usize::MAX));
        }
    }
}

//! Sources over sources: a part of one, one in pieces or backwards, two concatenated or interleaved.
//!
//! # Why it holds
//! A view maps its indices one to one to indices of the source below it. Disjoint spans of the view are disjoint spans there, so
//! the contract of [`Divide`] passes down unchanged. Indices below that no index of the view maps to are dropped in
//! [`trim`](Divide::trim), which is called once and before any chunk. If an item's drop panics, the others are still dropped.

use crate::divide::{Divide, Span, for_all};

/// The items `lo..hi` of a source. A chunk carries its span in the whole source.
#[derive(Clone, Debug)]
pub struct Part<S> {
    source: S,
    lo: usize,
    hi: usize,
}

impl<S: Divide> Part<S> {
    /// The items `lo..hi`; indices beyond the end of `source` are left out.
    pub fn new(source: S, lo: usize, hi: usize) -> Self {
        let hi = hi.min(source.total());
        Self { source, lo: lo.min(hi), hi }
    }
}

// SAFETY: index `i` is `lo + i` below.
unsafe impl<S: Divide> Divide for Part<S> {
    type Item = S::Item;
    type Chunk<'s>
        = (Span, S::Chunk<'s>)
    where
        Self: 's;
    type Done = S::Done;

    fn total(&self) -> usize {
        self.hi - self.lo
    }

    fn done(self) -> S::Done {
        self.source.done()
    }

    unsafe fn start(&mut self) {
        // SAFETY: the caller's contract.
        unsafe { self.source.start() };
    }

    unsafe fn trim(&mut self, total: usize) {
        for_all([true, false].into_iter(), |behind| {
            if behind {
                // SAFETY: no chunk reaches `total`, which is `lo + total` below.
                unsafe { self.source.trim(self.lo + total) };
            } else {
                // SAFETY: no index of this part maps to them.
                unsafe { self.source.abandon(0, self.lo) };
            }
        });
    }

    #[inline]
    unsafe fn chunk(&self, span: Span) -> Self::Chunk<'_> {
        let below = Span { lo: self.lo + span.lo, hi: self.lo + span.hi, member: span.member };
        // SAFETY: the caller's contract, moved by `lo`.
        (below, unsafe { self.source.chunk(below) })
    }

    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        // SAFETY: the caller's contract, moved by `lo`.
        unsafe { self.source.abandon(self.lo + lo, self.lo + hi) };
    }
}

/// A source whose chunks are taken piece by piece: from the front or, with pieces of one item, from the back.
#[derive(Clone, Debug)]
pub struct Pieces<S> {
    source: S,
    most: usize,
    back: bool,
}

impl<S: Divide> Pieces<S> {
    /// In order, with pieces of at most `most` items: a member can stop a chunk between them.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn new(source: S, most: usize) -> Self {
        assert!(most > 0, "a piece holds at least one item");
        Self { source, most, back: false }
    }

    /// The last item first, one at a time.
    pub fn backward(source: S) -> Self {
        Self { source, most: 1, back: true }
    }

    /// Maps the indices `lo..hi` of this view to the source below.
    fn below(&self, lo: usize, hi: usize) -> (usize, usize) {
        if self.back {
            let n = self.source.total();
            (n - hi, n - lo)
        } else {
            (lo, hi)
        }
    }
}

// SAFETY: index `i` is `i` below, or `n - 1 - i`.
unsafe impl<S: Divide> Divide for Pieces<S> {
    type Item = S::Item;
    type Chunk<'s>
        = PiecesChunk<'s, S>
    where
        Self: 's;
    type Done = S::Done;

    fn total(&self) -> usize {
        self.source.total()
    }

    fn done(self) -> S::Done {
        self.source.done()
    }

    unsafe fn start(&mut self) {
        // SAFETY: the caller's contract.
        unsafe { self.source.start() };
    }

    unsafe fn trim(&mut self, total: usize) {
        let (front, end) = self.below(0, total);
        for_all([true, false].into_iter(), |behind| {
            if behind {
                // SAFETY: no chunk reaches `end`.
                unsafe { self.source.trim(end) };
            } else {
                // SAFETY: no chunk comes before `front`.
                unsafe { self.source.abandon(0, front) };
            }
        });
    }

    #[inline]
    unsafe fn chunk(&self, span: Span) -> PiecesChunk<'_, S> {
        let (lo, hi) = self.below(span.lo, span.hi);
        PiecesChunk { pieces: self, at: Span { lo, hi, member: span.member } }
    }

    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        let (lo, hi) = self.below(lo, hi);
        // SAFETY: the items below that these indices map to.
        unsafe { self.source.abandon(lo, hi) };
    }
}

/// The pieces of one chunk: the span of each in the source below, and its chunk there.
#[derive(Debug)]
pub struct PiecesChunk<'s, S: Divide> {
    pieces: &'s Pieces<S>,
    /// The remaining items, below.
    at: Span,
}

impl<'s, S: Divide> Iterator for PiecesChunk<'s, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at.is_empty() {
            return None;
        }
        let len = self.pieces.most.min(self.at.len());
        let span = if self.pieces.back {
            self.at.hi -= len;
            Span { lo: self.at.hi, hi: self.at.hi + len, ..self.at }
        } else {
            self.at.lo += len;
            Span { lo: self.at.lo - len, hi: self.at.lo, ..self.at }
        };
        // SAFETY: these items were claimed, and `at` has just given them up.
        Some((span, unsafe { self.pieces.source.chunk(span) }))
    }
}

impl<S: Divide> Drop for PiecesChunk<'_, S> {
    fn drop(&mut self) {
        if !self.at.is_empty() {
            // All at once: piece by piece, a huge source would take for ever.
            // SAFETY: these items were claimed, and no thread can ask this chunk for them any more.
            drop(unsafe { self.pieces.source.chunk(self.at) });
        }
    }
}

/// Two sources as one.
#[derive(Clone, Debug)]
pub struct Merged<A, B> {
    a: A,
    b: B,
    turns: bool,
}

impl<A: Divide, B: Divide> Merged<A, B> {
    /// First all of `a`, then all of `b`.
    ///
    /// # Panics
    /// If there are more than `usize::MAX` items in all.
    pub fn one_after_the_other(a: A, b: B) -> Self {
        Self::new(a, b, false)
    }

    /// One of `a`, one of `b`, and so on; when one is used up, the rest of the other.
    ///
    /// # Panics
    /// If there are more than `usize::MAX` items in all.
    pub fn in_turns(a: A, b: B) -> Self {
        Self::new(a, b, true)
    }

    fn new(a: A, b: B, turns: bool) -> Self {
        let fits = a.total().checked_add(b.total()).is_some();
        assert!(fits, "two sources have at most usize::MAX items together");
        Self { a, b, turns }
    }

    /// How many of the first `at` items are of `a`, and how many of `b`. Neither count falls as `at` grows.
    fn split(&self, at: usize) -> (usize, usize) {
        let (a, b) = (self.a.total(), self.b.total());
        let of_a = match self.turns {
            false => at.min(a),
            // Every other item, but no more than `a` has; and `a` fills in for a used-up `b`.
            true => at.div_ceil(2).max(at.saturating_sub(b)).min(a),
        };
        (of_a, at - of_a)
    }

    /// The spans that `lo..hi` has in each of the two.
    fn below(&self, span: Span) -> (Span, Span) {
        let ((a, b), (a_end, b_end)) = (self.split(span.lo), self.split(span.hi));
        (Span { lo: a, hi: a_end, ..span }, Span { lo: b, hi: b_end, ..span })
    }
}

// SAFETY: `split` grows on both sides, so disjoint spans are disjoint on each.
unsafe impl<A: Divide, B: Divide> Divide for Merged<A, B> {
    /// An item of one of the two.
    type Item = (Option<A::Item>, Option<B::Item>);
    /// Either side may have no item in the span; then it gives no chunk.
    type Chunk<'s>
        = (Option<(Span, A::Chunk<'s>)>, Option<(Span, B::Chunk<'s>)>)
    where
        Self: 's;
    type Done = (A::Done, B::Done);

    fn total(&self) -> usize {
        self.a.total() + self.b.total()
    }

    fn done(self) -> Self::Done {
        (self.a.done(), self.b.done())
    }

    unsafe fn start(&mut self) {
        // SAFETY: the caller's contract, for A.
        unsafe { self.a.start() };
        // SAFETY: the caller's contract, for B.
        unsafe { self.b.start() };
    }

    unsafe fn trim(&mut self, total: usize) {
        let (a, b) = self.split(total);
        for_all([true, false].into_iter(), |first| {
            if first {
                // SAFETY: `a` of the first `total` items are of A.
                unsafe { self.a.trim(a) };
            } else {
                // SAFETY: `b` of the first `total` items are of B.
                unsafe { self.b.trim(b) };
            }
        });
    }

    #[inline]
    unsafe fn chunk(&self, span: Span) -> Self::Chunk<'_> {
        let (a, b) = self.below(span);
        // SAFETY: the caller's contract, for A's share of the span.
        let a = (!a.is_empty()).then(|| (a, unsafe { self.a.chunk(a) }));
        // SAFETY: the caller's contract, for B's share of the span.
        let b = (!b.is_empty()).then(|| (b, unsafe { self.b.chunk(b) }));
        (a, b)
    }

    unsafe fn abandon(&mut self, lo: usize, hi: usize) {
        let (a, b) = self.below(Span { lo, hi, member: 0 });
        for_all([true, false].into_iter(), |first| {
            if first {
                // SAFETY: the caller's contract, for A's share.
                unsafe { self.a.abandon(a.lo, a.hi) };
            } else {
                // SAFETY: the caller's contract, for B's share.
                unsafe { self.b.abandon(b.lo, b.hi) };
            }
        });
    }
}

#![doc = include_str!("views.md")]

use crate::base::unwind::{Finally, for_all};
use crate::region::divide::{Claim, Divide, Division, Held, Span, handed_out};

/// The items `lo..hi` of a source. A chunk comes with its span in the whole source.
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

    fn below(&self, claim: &Claim) -> Claim {
        let Span { lo, hi, member } = claim.span();
        // SAFETY: index `i` is `lo + i` below.
        unsafe { Claim::new(Span { lo: self.lo + lo, hi: self.lo + hi, member }) }
    }
}

/// The common part of all views of one source: each maps its indices in `below`.
macro_rules! view_of_one {
    ($life:lifetime, $chunk:ty) => {
        type Item = S::Item;
        type Chunk<$life>
            = $chunk
        where
            Self: $life;
        type Done = S::Done;

        fn done(self) -> S::Done {
            self.source.done()
        }

        fn start(&mut self, kept: &Claim) {
            let below = self.below(kept);
            self.source.start(&below);
        }
    };
}

// SAFETY: see `below`.
unsafe impl<S: Divide> Divide for Part<S> {
    view_of_one!('s, (Span, S::Chunk<'s>));

    fn total(&self) -> usize {
        self.hi - self.lo
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> Self::Chunk<'_> {
        let below = self.below(&claim);
        (below.span(), self.source.chunk(below))
    }
}

/// Claimed items of a source that is divided, as a source. A chunk comes with its span in the whole source.
#[derive(Debug)]
pub struct Window<'p, S: Divide> {
    lo: usize,
    total: usize,
    /// Items that belong to no claim on the window.
    rest: Held<'p, S>,
}

impl<'p, S: Divide> Window<'p, S> {
    /// The next `want` items of `division` (or as many as are left) that no lead has held. Those that are not taken out are dropped with
    /// the window.
    pub fn new(division: &'p mut Division<S>, want: usize) -> Self {
        let (source, claim) = division.take(want);
        Self { lo: claim.span().lo, total: claim.len(), rest: Held { source, claim } }
    }

    /// All items, as one chunk; `None` if there is none. Takes the window, which would otherwise be a source of items that are gone.
    pub fn whole(mut self) -> Option<(Span, S::Chunk<'p>)> {
        self.rest.take(usize::MAX)
    }
}

// SAFETY: index `i` is `lo + i` below. That is in the claim that the window owns until `start` gives the kept part of it up: nothing else
// takes of it but `whole` and the drop, which end the window.
unsafe impl<S: Divide> Divide for Window<'_, S> {
    type Item = S::Item;
    type Chunk<'s>
        = (Span, S::Chunk<'s>)
    where
        Self: 's;
    type Done = ();

    fn total(&self) -> usize {
        self.total
    }

    fn done(self) {}

    fn start(&mut self, kept: &Claim) {
        // Not always from the front: a part of a window keeps some of its middle.
        let Held { source, claim } = &mut self.rest;
        let before = claim.take_front(kept.span().lo);
        let _kept = claim.take_front(kept.len());
        let after = claim.take_front(usize::MAX);
        for_all([before, after].into_iter(), |dropped| drop(handed_out(*source, dropped)));
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> Self::Chunk<'_> {
        let Span { lo, hi, member } = claim.span();
        // SAFETY: as above, and chunks are asked for after `start` only.
        let below = unsafe { Claim::new(Span { lo: self.lo + lo, hi: self.lo + hi, member }) };
        (below.span(), self.rest.source.chunk(below))
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
    /// In order, with pieces of at most `most` items, which end at multiples of `most`: a member can stop a chunk between them.
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

    fn below(&self, claim: &Claim) -> Claim {
        let Span { lo, hi, member } = claim.span();
        let n = self.source.total();
        let (lo, hi) = if self.back { (n - hi, n - lo) } else { (lo, hi) };
        // SAFETY: index `i` is `i` below, or `n - 1 - i`.
        unsafe { Claim::new(Span { lo, hi, member }) }
    }
}

// SAFETY: see `below`.
unsafe impl<S: Divide> Divide for Pieces<S> {
    view_of_one!('s, PiecesChunk<'s, S>);

    fn total(&self) -> usize {
        self.source.total()
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> PiecesChunk<'_, S> {
        PiecesChunk { most: self.most, back: self.back, rest: Held { source: &self.source, claim: self.below(&claim) } }
    }
}

/// The pieces of one chunk: the span of each in the source below, and its chunk there.
#[derive(Debug)]
pub struct PiecesChunk<'s, S: Divide> {
    most: usize,
    back: bool,
    /// The remaining items, below.
    rest: Held<'s, S>,
}

impl<'s, S: Divide> Iterator for PiecesChunk<'s, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Held { source, claim } = &mut self.rest;
        let piece = match self.back {
            true => claim.take_back(self.most),
            false => claim.take_front(self.most - claim.span().lo % self.most),
        };
        handed_out(*source, piece)
    }
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

    /// The claim on the items of claimed blocks.
    fn below(&self, blocks: &Claim) -> Claim {
        let (n, blocks) = (self.source.total(), blocks.span());
        let item = |block: usize| block.saturating_mul(self.block).min(n);
        // SAFETY: disjoint spans of blocks are disjoint spans of items.
        unsafe { Claim::new(Span { lo: item(blocks.lo), hi: item(blocks.hi), ..blocks }) }
    }
}

// SAFETY: see `below`.
unsafe impl<S: Divide> Divide for Blocks<S> {
    view_of_one!('s, BlocksChunk<'s, S>);

    fn total(&self) -> usize {
        self.source.total().div_ceil(self.block)
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> BlocksChunk<'_, S> {
        BlocksChunk { blocks: self, rest: claim }
    }
}

/// Claimed blocks, one by one: where each lies among the items, and its chunk.
#[derive(Debug)]
pub struct BlocksChunk<'s, S: Divide> {
    blocks: &'s Blocks<S>,
    rest: Claim,
}

impl<'s, S: Divide> BlocksChunk<'s, S> {
    /// All blocks as one chunk; `None` if there is none.
    #[inline]
    pub fn all_at_once(&mut self) -> Option<(Span, S::Chunk<'s>)> {
        let rest = self.blocks.below(&self.rest.take_front(usize::MAX));
        handed_out(&self.blocks.source, rest)
    }

    /// The next block, to be taken in pieces: for a member that wants to check something between the pieces of a long block.
    #[inline]
    pub fn next_in_pieces(&mut self) -> Option<Held<'s, S>> {
        let block = self.rest.take_front(1);
        let pieces = || Held { source: &self.blocks.source, claim: self.blocks.below(&block) };
        (!block.is_empty()).then(pieces)
    }
}

impl<'s, S: Divide> Iterator for BlocksChunk<'s, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_in_pieces()?.take(usize::MAX)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl<S: Divide> Drop for BlocksChunk<'_, S> {
    fn drop(&mut self) {
        // As one chunk: block by block, a huge source would take too long.
        drop(self.all_at_once());
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
        assert!(fits, "two sources must not hold more than usize::MAX items in total");
        Self { a, b, turns }
    }

    /// Numbers of the first `at` items that are of `a` and of `b`. Neither count falls as `at` grows.
    fn split(&self, at: usize) -> (usize, usize) {
        let (a, b) = (self.a.total(), self.b.total());
        let of_a = match self.turns {
            false => at.min(a),
            // Every other item, but no more than `a` has; once `b` is used up, all items.
            true => at.div_ceil(2).max(at.saturating_sub(b)).min(a),
        };
        (of_a, at - of_a)
    }

    /// The claims that a claim stands for on each of the two.
    fn below(&self, claim: &Claim) -> [Claim; 2] {
        let span = claim.span();
        let ((a, b), (a_end, b_end)) = (self.split(span.lo), self.split(span.hi));
        // SAFETY: `split` grows on both sides, so disjoint spans are disjoint on each.
        [(a, a_end), (b, b_end)].map(|(lo, hi)| unsafe { Claim::new(Span { lo, hi, ..span }) })
    }
}

// SAFETY: see `below`.
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

    fn start(&mut self, kept: &Claim) {
        let [of_a, of_b] = self.below(kept);
        let _b = Finally(|| self.b.start(&of_b));
        self.a.start(&of_a);
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> Self::Chunk<'_> {
        let [of_a, of_b] = self.below(&claim);
        (handed_out(&self.a, of_a), handed_out(&self.b, of_b))
    }
}

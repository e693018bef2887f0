//! Byte pair encoding from ranks: the table of an embedded vocabulary, ready in milliseconds.
//!
//! The other engine's tables take many times longer to build. This table is a list of tokens and a hash index over them. It
//! encodes as tiktoken does: a piece of text that is a token gets the token's rank. Any other piece starts as single bytes. The two
//! neighbours whose union has the lowest rank are merged, the leftmost on a tie, until no union of neighbours is a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bitcannon::Span;
use tk_encode::pipeline::PipelineToken;
use windrow_bpe::UnknownId;

/// The index stores a token's rank in the low bits of a word, and bits of its hash above.
const RANK_BITS: u32 = 18;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;
/// An empty word of the index. No token has this rank.
const EMPTY: u32 = u32::MAX;
/// The rank of two neighbours whose union is not a token.
const NONE: u32 = u32::MAX;

/// Longer pieces keep their neighbours in a heap: scanning all of them for every merge would take quadratic time.
const LONG: usize = 128;

/// Larger buffers for pieces, in bytes, are freed.
const KEEP_SCRATCH: usize = 1 << 20;

/// The tokens of a vocabulary by rank, and the rank of each.
pub(crate) struct Ranks {
    /// All tokens, one after the other.
    bytes: Vec<u8>,
    /// The start of each token in `bytes`, and the end of the last.
    starts: Vec<u32>,
    /// Open addressing with linear probing.
    index: Vec<u32>,
}

/// Buffers of one encoder.
#[derive(Default)]
pub(crate) struct RanksScratch {
    parts: Vec<Part>,
    links: Vec<Link>,
    /// Unions that were possible when they were pushed: the lowest rank first, then the leftmost.
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

/// A part of a piece.
#[derive(Clone, Copy)]
struct Part {
    /// The index of its first byte.
    start: u32,
    /// The rank of its union with the next part.
    rank: u32,
}

/// A part of a long piece, stored at the index of its first byte.
#[derive(Clone, Copy)]
struct Link {
    /// The index of its end, where the next part begins.
    end: u32,
    /// The index of the previous part.
    before: u32,
    /// The rank of its union with the next part.
    rank: u32,
}

impl Ranks {
    /// The table of `tokens`, in the order of their ranks; `lengths` has the length of each.
    pub(crate) fn new(lengths: &[u8], bytes: Vec<u8>) -> Self {
        assert!(lengths.len() < RANK_MASK as usize, "{} tokens do not fit the index", lengths.len());
        let mut starts = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0;
        starts.push(0);
        starts.extend(lengths.iter().map(|&length| {
            end += u32::from(length);
            end
        }));
        let mut ranks = Self { bytes, starts, index: vec![EMPTY; (lengths.len() * 2).next_power_of_two()] };
        for rank in 0..lengths.len() as u32 {
            let (mut at, tag) = ranks.place(ranks.token(rank));
            while ranks.index[at] != EMPTY {
                at = (at + 1) & (ranks.index.len() - 1);
            }
            ranks.index[at] = tag | rank;
        }
        ranks
    }

    fn token(&self, rank: u32) -> &[u8] {
        &self.bytes[self.starts[rank as usize] as usize..self.starts[rank as usize + 1] as usize]
    }

    /// Appends the bytes of the tokens with these ids to `bytes`, up to the first id that no token has.
    pub(crate) fn decode(&self, ids: &[u32], bytes: &mut Vec<u8>) -> Result<(), UnknownId> {
        for (index, &id) in ids.iter().enumerate() {
            if id as usize + 1 >= self.starts.len() {
                return Err(UnknownId { index, id });
            }
            bytes.extend_from_slice(self.token(id));
        }
        Ok(())
    }

    /// The rank of a token.
    pub(crate) fn rank(&self, token: &[u8]) -> Option<u32> {
        let (mut at, tag) = self.place(token);
        loop {
            let word = self.index[at];
            if word == EMPTY {
                return None;
            }
            if word & !RANK_MASK == tag && self.token(word & RANK_MASK) == token {
                return Some(word & RANK_MASK);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    /// The first slot to probe for these bytes, and the bits of their hash that the index stores.
    fn place(&self, bytes: &[u8]) -> (usize, u32) {
        let hash = hash(bytes);
        (hash as usize & (self.index.len() - 1), (hash >> 32) as u32 & !RANK_MASK)
    }

    /// Appends the ids of the pieces of `text`.
    pub(crate) fn tokenize(
        &self,
        text: &str,
        pieces: &[Span],
        scratch: &mut RanksScratch,
        tokens: &mut Vec<PipelineToken>,
    ) {
        for piece in pieces {
            let piece = &text.as_bytes()[piece.range()];
            match self.rank(piece) {
                Some(rank) => tokens.push(rank.into()),
                None if piece.is_empty() => {}
                None if piece.len() < LONG => self.join(piece, scratch, tokens),
                None => self.join_long(piece, scratch, tokens),
            }
        }
    }

    /// The rank of a part, which is a single byte or a union that was found.
    fn known(&self, part: &[u8]) -> PipelineToken {
        self.rank(part).expect("every byte is a token").into()
    }

    /// The rank of a union, or [`NONE`].
    fn union(&self, bytes: &[u8]) -> u32 {
        self.rank(bytes).unwrap_or(NONE)
    }

    /// Appends the ids of a piece of two or more bytes that is not a token.
    fn join(&self, piece: &[u8], scratch: &mut RanksScratch, tokens: &mut Vec<PipelineToken>) {
        let parts = &mut scratch.parts;
        parts.clear();
        parts.extend(piece.windows(2).zip(0..).map(|(pair, start)| Part { start, rank: self.union(pair) }));
        let end = piece.len() as u32;
        parts.extend([Part { start: end - 1, rank: NONE }, Part { start: end, rank: NONE }]);
        let rank_from = |parts: &[Part], at: usize| match parts.get(at + 2) {
            Some(next) => self.union(&piece[parts[at].start as usize..next.start as usize]),
            None => NONE,
        };
        loop {
            let mut best = (NONE, 0);
            for (at, part) in parts.iter().enumerate() {
                if part.rank < best.0 {
                    best = (part.rank, at);
                }
            }
            let (rank, at) = best;
            if rank == NONE {
                break;
            }
            parts.remove(at + 1);
            parts[at].rank = rank_from(parts, at);
            if at > 0 {
                parts[at - 1].rank = rank_from(parts, at - 1);
            }
        }
        tokens.extend(parts.windows(2).map(|pair| self.known(&piece[pair[0].start as usize..pair[1].start as usize])));
    }

    /// [`join`](Self::join) in less than quadratic time.
    fn join_long(&self, piece: &[u8], scratch: &mut RanksScratch, tokens: &mut Vec<PipelineToken>) {
        let RanksScratch { links, heap, .. } = scratch;
        let length = piece.len() as u32;
        links.clear();
        heap.clear();
        links.extend((0..length).map(|at| Link { end: at + 1, before: at.wrapping_sub(1), rank: NONE }));
        // Looks up the union of the part at `at` with its neighbour.
        let look_up = |links: &mut [Link], heap: &mut BinaryHeap<_>, at: u32| {
            let next = links[at as usize].end;
            let rank = match links.get(next as usize) {
                Some(next) => self.union(&piece[at as usize..next.end as usize]),
                None => NONE,
            };
            links[at as usize].rank = rank;
            if rank != NONE {
                heap.push(Reverse((rank, at)));
            }
        };
        for at in 0..length {
            look_up(links, heap, at);
        }
        while let Some(Reverse((rank, at))) = heap.pop() {
            // Outdated: one of the two parts was merged with another part, or this union was looked up again.
            if links[at as usize].rank != rank {
                continue;
            }
            let Link { end: next, before, .. } = links[at as usize];
            let end = links[next as usize].end;
            links[next as usize].rank = NONE;
            links[at as usize].end = end;
            if let Some(after) = links.get_mut(end as usize) {
                after.before = at;
            }
            look_up(links, heap, at);
            if at > 0 {
                look_up(links, heap, before);
            }
        }
        let mut at = 0;
        while at < piece.len() {
            let end = links[at].end as usize;
            tokens.push(self.known(&piece[at..end]));
            at = end;
        }
        if piece.len() > KEEP_SCRATCH {
            *scratch = RanksScratch::default();
        }
    }
}

/// A hash for short keys: their bytes in one or two words, mixed by multiplication.
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |key: u64| {
        let wide = u128::from(key) * u128::from(ODD);
        wide as u64 ^ (wide >> 64) as u64
    };
    let four = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
    let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let length = bytes.len();
    let key = match length {
        0 => 0,
        1..4 => u64::from(bytes[0]) | u64::from(bytes[length / 2]) << 8 | u64::from(bytes[length - 1]) << 16,
        4..=8 => four(0) | four(length - 4) << 32,
        _ => {
            let whole = (0..length - 8).step_by(8).fold(0, |key, at| mix(key ^ eight(at)));
            whole ^ eight(length - 8)
        }
    };
    // An odd factor, so that the length affects every bit of the sum.
    mix(key.wrapping_add((length as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)))
}

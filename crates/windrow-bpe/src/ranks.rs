//! Byte pair encoding from ranks, as tiktoken does it: a piece that is a token gets its rank. Any other starts as single bytes, of which the two
//! neighbours whose union has the lowest rank are merged, the leftmost on a tie, until no union of neighbours is a token.
//!
//! The table is a list of tokens and a hash index over them, so it is ready within milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::memory::reserve;
use crate::vocabulary::{Seams, hash_bytes};

/// The index stores a token's rank in the low bits of a word, and bits of its hash above.
const RANK_BITS: u32 = 18;
const RANK_MASK: u32 = (1 << RANK_BITS) - 1;
/// An empty word of the index. No token has this rank.
const EMPTY: u32 = u32::MAX;
/// The rank of two neighbours whose union is not a token.
const NONE: u32 = u32::MAX;

/// Bits of the filter.
const FILTER_BITS: usize = 1 << 20;

/// Longer pieces keep their neighbours in a heap: scanning all of them for every merge would take quadratic time.
const LONG: usize = 128;

/// The tokens of a vocabulary by rank, and the rank of each.
pub(crate) struct RankTable {
    /// All tokens, one after the other.
    bytes: Vec<u8>,
    /// The start of each token in `bytes`, and the end of the last.
    starts: Vec<u32>,
    /// Open addressing with linear probing.
    index: Vec<u32>,
    /// A bit for the hash of each token: most unions are none, and 128 KiB stay in a cache close to the core.
    filter: Vec<u64>,
    /// The ranks of the tokens of one byte, and of two, with which all merges begin.
    byte_ranks: [u32; 256],
    byte_pairs: Vec<u32>,
    seams: Seams,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct RankScratch {
    parts: Vec<RankedPart>,
    links: Vec<RankLink>,
    /// Unions that were possible when they were pushed: the lowest rank first, then the leftmost.
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

/// A part of a piece.
#[derive(Clone, Copy)]
struct RankedPart {
    /// The index of its first byte.
    start: u32,
    id: u32,
    /// The rank of its union with the next part.
    rank: u32,
}

/// A part of a long piece, stored at the index of its first byte.
#[derive(Clone, Copy)]
struct RankLink {
    /// The index of its end, where the next part begins.
    end: u32,
    /// The index of the previous part.
    before: u32,
    id: u32,
    /// The rank of its union with the next part.
    rank: u32,
}

#[inline(always)]
fn filter_place(hash: u64) -> (usize, u32) {
    let bit = (hash >> 44) as usize;
    (bit / 64, bit as u32 % 64)
}

impl RankTable {
    /// The table of `tokens`, in the order of their ranks; `lengths` has the length of each, 0 where a rank has no token.
    pub(crate) fn new(lengths: &[u8], bytes: Vec<u8>) -> Result<Self, String> {
        if lengths.len() >= RANK_MASK as usize {
            return Err(format!("there are {} ranks; there must be fewer than {RANK_MASK}", lengths.len()));
        }
        let mut starts = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0;
        starts.push(0);
        starts.extend(lengths.iter().map(|&length| {
            end += u32::from(length);
            end
        }));
        if end as usize != bytes.len() {
            return Err(format!("the tokens have {end} bytes, not {}", bytes.len()));
        }
        let index = vec![EMPTY; (lengths.len() * 2).next_power_of_two()];
        let token = |rank: usize| &bytes[starts[rank] as usize..starts[rank + 1] as usize];
        let seams = Seams::new((0..lengths.len()).map(token));
        let mut byte_pairs = vec![NONE; 1 << 16];
        for rank in 0..lengths.len() {
            if let &[first, second] = token(rank) {
                byte_pairs[usize::from(first) << 8 | usize::from(second)] = rank as u32;
            }
        }
        let (filter, byte_ranks) = (vec![0; FILTER_BITS / 64], [NONE; 256]);
        let mut ranks = Self { bytes, starts, index, filter, byte_ranks, byte_pairs, seams };
        for rank in (0..lengths.len() as u32).filter(|&rank| lengths[rank as usize] > 0) {
            let hash = hash_bytes(ranks.token(rank));
            let (mut at, tag) = ranks.place(hash);
            while ranks.index[at] != EMPTY {
                at = (at + 1) & (ranks.index.len() - 1);
            }
            ranks.index[at] = tag | rank;
            let (word, bit) = filter_place(hash);
            ranks.filter[word] |= 1 << bit;
            if let &[byte] = ranks.token(rank) {
                ranks.byte_ranks[usize::from(byte)] = rank;
            }
        }
        match ranks.byte_ranks.iter().position(|&rank| rank == NONE) {
            Some(byte) => Err(format!("byte {byte} is not a token")),
            None => Ok(ranks),
        }
    }

    /// The bytes of a token; empty if there is none with this rank.
    pub(crate) fn token(&self, rank: u32) -> &[u8] {
        match self.starts.get(rank as usize..).and_then(|starts| starts.first_chunk()) {
            Some(&[start, end]) => &self.bytes[start as usize..end as usize],
            None => &[],
        }
    }

    /// The rank of a token.
    pub(crate) fn rank(&self, token: &[u8]) -> Option<u32> {
        let hash = hash_bytes(token);
        let (word, bit) = filter_place(hash);
        if self.filter[word & (self.filter.len() - 1)] >> bit & 1 == 0 {
            return None;
        }
        let (mut at, tag) = self.place(hash);
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

    /// The first slot to probe for the bytes with this hash, and the bits of it that the index stores.
    fn place(&self, hash: u64) -> (usize, u32) {
        (hash as usize & (self.index.len() - 1), (hash >> 32) as u32 & !RANK_MASK)
    }

    /// The first place in a piece where it can be divided: see [`Seams::first`].
    pub(crate) fn seam(&self, piece: &[u8]) -> Option<usize> {
        self.seams.first(piece)
    }

    /// Appends the ids of a piece, or of a part of one, which is not empty. An error is the number of bytes that could not be allocated.
    pub(crate) fn encode(
        &self,
        piece: &[u8],
        is_part: bool,
        scratch: &mut RankScratch,
        ids: &mut Vec<u32>,
    ) -> Result<(), usize> {
        match self.rank(piece) {
            Some(rank) if !is_part || piece.len() == 1 => ids.push(rank),
            _ if piece.len() < LONG => self.join(piece, scratch, ids),
            _ => {
                // A union takes a link, and two entries of the heap.
                reserve(&mut scratch.links, piece.len())?;
                reserve(ids, piece.len())?;
                self.join_long(piece, scratch, ids);
            }
        }
        Ok(())
    }

    /// The rank of a union, or [`NONE`].
    fn union(&self, bytes: &[u8]) -> u32 {
        match *bytes {
            [first, second] => self.byte_pairs[usize::from(first) << 8 | usize::from(second)],
            _ => self.rank(bytes).unwrap_or(NONE),
        }
    }

    /// Appends the ids of a piece of two or more bytes.
    fn join(&self, piece: &[u8], scratch: &mut RankScratch, ids: &mut Vec<u32>) {
        let parts = &mut scratch.parts;
        parts.clear();
        for (start, &byte) in (0..).zip(piece) {
            let rank = piece.get(start as usize..start as usize + 2).map_or(NONE, |pair| self.union(pair));
            parts.push(RankedPart { start, id: self.byte_ranks[usize::from(byte)], rank });
        }
        parts.push(RankedPart { start: piece.len() as u32, id: NONE, rank: NONE });
        let rank_from = |parts: &[RankedPart], at: usize| match parts.get(at + 2) {
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
            parts[at].id = rank;
            parts[at].rank = rank_from(parts, at);
            if at > 0 {
                parts[at - 1].rank = rank_from(parts, at - 1);
            }
        }
        ids.extend(parts[..parts.len() - 1].iter().map(|part| part.id));
    }

    /// [`join`](Self::join) in less than quadratic time.
    fn join_long(&self, piece: &[u8], scratch: &mut RankScratch, ids: &mut Vec<u32>) {
        let RankScratch { links, heap, .. } = scratch;
        let length = piece.len() as u32;
        links.clear();
        heap.clear();
        links.extend((0..length).zip(piece).map(|(at, &byte)| {
            let id = self.byte_ranks[usize::from(byte)];
            RankLink { end: at + 1, before: at.wrapping_sub(1), id, rank: NONE }
        }));
        // Looks up the union of the part at `at` with its neighbour.
        let look_up = |links: &mut [RankLink], heap: &mut BinaryHeap<_>, at: u32| {
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
            let RankLink { end: next, before, .. } = links[at as usize];
            let end = links[next as usize].end;
            links[next as usize].rank = NONE;
            links[at as usize].end = end;
            links[at as usize].id = rank;
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
            ids.push(links[at].id);
            at = links[at].end as usize;
        }
    }
}

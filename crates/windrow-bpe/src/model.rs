//! Vocabulary, merges, and the merging of a piece.

use std::collections::HashMap;

use crate::agenda::Agenda;
use crate::memory::reserve;

/// The priority of two tokens that do not merge.
const NONE: u32 = u32::MAX;

/// Two ids are packed into a key.
const ID_BITS: u32 = 20;

/// A word of the pair table has a priority in its lower bits, and a tag of the pair above.
const PRIORITY_BITS: u32 = 24;
const PRIORITIES: u32 = (1 << PRIORITY_BITS) - 1;

/// An empty word of the pair table.
const EMPTY: u32 = u32::MAX;

/// Longer pieces keep their pairs in an [`Agenda`]: scanning all of them for each merge would take quadratic time.
pub(crate) const SHORT: usize = 48;

/// Bits of the filter: most pairs that are looked up do not merge, and 128 KiB stay in a cache close to the core.
const FILTER_BITS: u64 = 1 << 20;

/// The tokens of a vocabulary, by id and by their bytes.
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where the token of each id begins in `bytes`, and the end of the last. An id without a token has no bytes.
    starts: Vec<u32>,
    /// Ids plus 1 by the hash of their bytes, with linear probing; 0 is empty.
    index: Vec<u32>,
}

impl Vocabulary {
    /// An error names what is wrong with the tokens.
    fn new(tokens: &[(Vec<u8>, u32)]) -> Result<Self, String> {
        let size = tokens.iter().map(|token| token.1 + 1).max().unwrap_or(0);
        if u64::from(size) >= 1 << ID_BITS {
            return Err(format!("id {} is {} or more", size - 1, (1 << ID_BITS) - 1));
        }
        let mut by_id: Vec<&[u8]> = vec![&[]; size as usize];
        for (bytes, id) in tokens {
            by_id[*id as usize] = bytes;
        }
        let mut starts = vec![0];
        let mut bytes = Vec::new();
        for token in &by_id {
            bytes.extend_from_slice(token);
            starts.push(u32::try_from(bytes.len()).map_err(|_| "the vocabulary has 4 GiB or more".to_owned())?);
        }
        let mut vocabulary = Self { bytes, starts, index: vec![0; (tokens.len() * 2).next_power_of_two()] };
        for id in 0..size {
            let token = vocabulary.token(id);
            if token.is_empty() {
                continue;
            }
            let mut at = vocabulary.place(token);
            while vocabulary.index[at] != 0 {
                if vocabulary.token(vocabulary.index[at] - 1) == token {
                    return Err(format!("ids {} and {id} have the same bytes", vocabulary.index[at] - 1));
                }
                at = (at + 1) & (vocabulary.index.len() - 1);
            }
            vocabulary.index[at] = id + 1;
        }
        Ok(vocabulary)
    }

    /// The bytes of a token; empty if there is none with this id.
    pub(crate) fn token(&self, id: u32) -> &[u8] {
        let Some(&[start, end]) = self.starts.get(id as usize..).and_then(|starts| starts.first_chunk()) else {
            return &[];
        };
        &self.bytes[start as usize..end as usize]
    }

    /// The id of the token with these bytes.
    pub(crate) fn id(&self, bytes: &[u8]) -> Option<u32> {
        let mut at = self.place(bytes);
        loop {
            let id = self.index[at].checked_sub(1)?;
            if self.token(id) == bytes {
                return Some(id);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    fn place(&self, bytes: &[u8]) -> usize {
        hash_bytes(bytes) as usize & (self.index.len() - 1)
    }

    /// One more than the largest id.
    pub(crate) fn size(&self) -> u32 {
        self.starts.len() as u32 - 1
    }
}

/// A hash of any number of bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |key: u64| {
        let wide = u128::from(key) * u128::from(ODD);
        wide as u64 ^ (wide >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash ^ u64::from_le_bytes(last)).wrapping_add(ODD))
}

/// The merges of a vocabulary.
pub(crate) struct Model {
    vocabulary: Vocabulary,
    /// A piece that is a token becomes that token, whatever the merges would make of it.
    ignore_merges: bool,
    /// The token of each byte.
    bytes: [u32; 256],
    /// The priority of the merge of two bytes.
    byte_pairs: Vec<u32>,
    /// A bit for each pair that merges; several pairs share one.
    filter: Vec<u64>,
    /// The priorities of merges by a hash of their tokens, with linear probing. A quarter of the size of a table with whole keys: most look-ups
    /// find a merge, and waited for memory. The key is compared later than its priority is used.
    pairs: Vec<u32>,
    /// The two tokens of each merge, by priority.
    keys: Vec<u64>,
    /// The token that each merge makes, by priority.
    merged: Vec<u32>,
    /// The difference between that token and the priority, if it is always the same.
    shift: Option<u32>,
    seams: Seams,
}

/// Bits of the filter of three bytes.
const TRIPLE_BITS: u32 = 20;

/// Where pieces can be divided: between two bytes that no token spans, no merge ever does. Neither does a token that is a whole piece.
///
/// A token that spans the place between two bytes begins with these two bytes, or has them behind the byte before. The three bytes are looked up
/// in a filter of all tokens, which may name a place that no token spans, but never the reverse.
struct Seams {
    /// A bit for each two bytes with which a token begins.
    pairs: Box<[u64; 1 << 10]>,
    triples: Box<[u64; 1 << (TRIPLE_BITS - 6)]>,
}

impl Seams {
    fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut seams = Self { pairs: Box::new([0; _]), triples: Box::new([0; _]) };
        for token in tokens {
            if let Some(&[first, second]) = token.first_chunk() {
                let (word, bit) = Self::pair(first, second);
                seams.pairs[word] |= 1 << bit;
            }
            for three in token.windows(3) {
                let (word, bit) = Self::triple(three[0], three[1], three[2]);
                seams.triples[word] |= 1 << bit;
            }
        }
        seams
    }

    #[inline(always)]
    fn pair(first: u8, second: u8) -> (usize, u32) {
        let bit = usize::from(first) << 8 | usize::from(second);
        (bit / 64, bit as u32 % 64)
    }

    #[inline(always)]
    fn triple(before: u8, first: u8, second: u8) -> (usize, u32) {
        let key = u32::from_le_bytes([before, first, second, 0]);
        let bit = key.wrapping_mul(0x9e37_79b1) >> (32 - TRIPLE_BITS);
        (bit as usize / 64, bit % 64)
    }

    /// Whether a token may span the place between the last two of these bytes.
    #[inline(always)]
    fn may_span(&self, [before, first, second]: [u8; 3]) -> bool {
        let (pair, pair_bit) = Self::pair(first, second);
        let (triple, triple_bit) = Self::triple(before, first, second);
        (self.pairs[pair] >> pair_bit | self.triples[triple] >> triple_bit) & 1 == 1
    }
}

/// Buffers to merge long pieces.
#[derive(Default)]
pub(crate) struct MergeScratch {
    links: Vec<Link>,
    /// Merges that were possible when they were added.
    agenda: Agenda,
    ids: Vec<u32>,
}

/// A token of a long piece, at the index of its first byte.
#[derive(Clone, Copy)]
struct Link {
    id: u32,
    /// The index of the next token.
    next: u32,
    /// The index of the previous token.
    before: u32,
    /// The priority of the merge with the next token.
    priority: u32,
}

#[inline(always)]
fn pair_key(left: u32, right: u32) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

#[inline(always)]
fn filter_place(key: u64) -> (usize, u64) {
    let bit = key.wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> (64 - FILTER_BITS.trailing_zeros());
    ((bit / 64) as usize, bit % 64)
}

/// Where probing for a pair starts, and its tag.
#[inline(always)]
fn pair_place(key: u64) -> (usize, u32) {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 40) as usize, (hash >> 32) as u32 >> 24 & 0xff)
}

impl Model {
    /// `merges` are the ids of the two tokens of each merge, in the order of their priorities. An error says why these cannot be merged here.
    pub(crate) fn new(tokens: &[(Vec<u8>, u32)], merges: &[(u32, u32)], ignore_merges: bool) -> Result<Self, String> {
        let vocabulary = Vocabulary::new(tokens)?;
        let mut bytes = [0; 256];
        for (byte, id) in (0..=255).zip(&mut bytes) {
            *id = vocabulary.id(&[byte]).ok_or_else(|| format!("byte {byte} is no token"))?;
        }
        if merges.len() >= PRIORITIES as usize {
            return Err(format!("there are {} merges, {} or more", merges.len(), PRIORITIES));
        }
        let seams = Seams::new((0..vocabulary.size()).map(|id| vocabulary.token(id)));
        let mut model = Self {
            seams,
            vocabulary,
            ignore_merges,
            bytes,
            byte_pairs: vec![NONE; 1 << 16],
            filter: vec![0; FILTER_BITS as usize / 64],
            pairs: vec![EMPTY; (merges.len() / 4 + merges.len() + 2).next_power_of_two()],
            keys: Vec::with_capacity(merges.len()),
            merged: Vec::with_capacity(merges.len()),
            shift: None,
        };
        let mut union = Vec::new();
        for (priority, &(left, right)) in (0..).zip(merges) {
            let parts = [left, right].map(|id| model.vocabulary.token(id));
            if let [[first], [second]] = parts {
                model.byte_pairs[usize::from(*first) << 8 | usize::from(*second)] = priority;
            }
            union.clear();
            parts.iter().for_each(|part| union.extend_from_slice(part));
            let merged = model.vocabulary.id(&union).filter(|_| parts.iter().all(|part| !part.is_empty()));
            let merged = merged.ok_or_else(|| format!("merge {priority} is of unknown tokens or makes one"))?;
            let key = pair_key(left, right);
            if model.priority(left, right) != NONE {
                return Err(format!("merge {priority} is there twice"));
            }
            let (mut at, tag) = pair_place(key);
            while model.pairs[at & (model.pairs.len() - 1)] != EMPTY {
                at += 1;
            }
            at &= model.pairs.len() - 1;
            model.pairs[at] = tag << PRIORITY_BITS | priority;
            model.keys.push(key);
            let (word, bit) = filter_place(key);
            model.filter[word] |= 1 << bit;
            model.merged.push(merged);
        }
        let shift = model.merged.first().copied().unwrap_or(0);
        let is_shifted = (0..).zip(&model.merged).all(|(priority, &id)| id == shift.wrapping_add(priority));
        model.shift = is_shifted.then_some(shift);
        Ok(model)
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The priority of the merge of two tokens.
    #[inline(always)]
    fn priority(&self, left: u32, right: u32) -> u32 {
        let key = pair_key(left, right);
        let (word, bit) = filter_place(key);
        if self.filter[word & (self.filter.len() - 1)] >> bit & 1 == 0 {
            return NONE;
        }
        let (mut at, tag) = pair_place(key);
        loop {
            let pair = self.pairs[at & (self.pairs.len() - 1)];
            if pair == EMPTY {
                return NONE;
            }
            if pair >> PRIORITY_BITS == tag && self.keys[(pair & PRIORITIES) as usize] == key {
                return pair & PRIORITIES;
            }
            at += 1;
        }
    }

    /// The token that the merge of this priority makes.
    #[inline(always)]
    fn merged(&self, priority: u32) -> u32 {
        match self.shift {
            Some(shift) => priority.wrapping_add(shift),
            None => self.merged[priority as usize],
        }
    }

    #[inline(always)]
    fn byte_priority(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }

    /// The first place in a piece where it can be divided and a character begins: its parts have the ids of the whole.
    #[inline]
    pub(crate) fn seam(&self, piece: &[u8]) -> Option<usize> {
        let is_seam = |bytes: &[u8]| bytes[2] & 0xc0 != 0x80 && !self.seams.may_span([bytes[0], bytes[1], bytes[2]]);
        // The first two bytes have no byte before.
        Some(2 + piece.windows(3).position(is_seam)?)
    }

    /// Whether a part of a piece may have other ids than the same bytes as a piece.
    pub(crate) fn ignores_merges(&self) -> bool {
        self.ignore_merges
    }

    /// The ids of a piece, or of a part of one, which is not empty. An error is the number of bytes that could not be allocated.
    pub(crate) fn encode<'s>(
        &self,
        piece: &[u8],
        is_part: bool,
        scratch: &'s mut MergeScratch,
    ) -> Result<&'s [u32], usize> {
        scratch.ids.clear();
        if self.ignore_merges
            && !is_part
            && let Some(id) = self.vocabulary.id(piece)
        {
            scratch.ids.push(id);
        } else if piece.len() <= SHORT {
            let mut ids = [0; 64];
            let count = self.merge_short(piece, &mut ids);
            scratch.ids.extend_from_slice(&ids[..count]);
        } else {
            self.merge_long(piece, scratch)?;
        }
        Ok(&scratch.ids)
    }

    /// Merges up to [`SHORT`] bytes. Returns the number of ids.
    fn merge_short(&self, piece: &[u8], ids: &mut [u32; 64]) -> usize {
        let mut priorities = [NONE; 64];
        let mut count = piece.len().min(SHORT);
        for (id, byte) in ids.iter_mut().zip(piece) {
            *id = self.bytes[usize::from(*byte)];
        }
        for (priority, pair) in priorities.iter_mut().zip(piece.windows(2)) {
            *priority = self.byte_priority(pair[0], pair[1]);
        }
        while count > 1 {
            let (mut best, mut at) = (NONE, 0);
            for (place, &priority) in priorities[..count - 1].iter().enumerate() {
                if priority < best {
                    (best, at) = (priority, place);
                }
            }
            if best == NONE {
                break;
            }
            ids[at] = self.merged(best);
            // A call that moves memory would take longer.
            for place in at + 1..count - 1 {
                ids[place & 63] = ids[(place + 1) & 63];
                priorities[place & 63] = priorities[(place + 1) & 63];
            }
            count -= 1;
            priorities[count - 1] = NONE;
            if at + 1 < count {
                priorities[at] = self.priority(ids[at], ids[at + 1]);
            }
            if at > 0 {
                priorities[at - 1] = self.priority(ids[at - 1], ids[at]);
            }
        }
        count
    }

    /// [`merge_short`](Self::merge_short) in less than quadratic time: all merges of one priority are made in one pass from left to right.
    fn merge_long(&self, piece: &[u8], scratch: &mut MergeScratch) -> Result<(), usize> {
        let MergeScratch { links, agenda, ids } = scratch;
        links.clear();
        reserve(links, piece.len())?;
        reserve(ids, piece.len())?;
        // A merge adds two places at most.
        agenda.begin(self.keys.len(), piece.len() * 3)?;
        for (at, &byte) in (0..).zip(piece) {
            let priority = piece.get(at as usize + 1).map_or(NONE, |&next| self.byte_priority(byte, next));
            links.push(Link { id: self.bytes[usize::from(byte)], next: at + 1, before: at.wrapping_sub(1), priority });
            if priority != NONE {
                agenda.add(priority, at);
            }
        }
        while let Some(mut pass) = agenda.take()? {
            let (priority, merged) = (pass.priority, self.merged(pass.priority));
            let earlier = pass.by_ref().find(|&at| {
                let Link { next, before, priority: current, .. } = links[at as usize];
                // Outdated: one of the two tokens has merged otherwise.
                if current != priority {
                    return false;
                }
                let end = links[next as usize].next;
                links[next as usize].priority = NONE;
                links[at as usize].id = merged;
                links[at as usize].next = end;
                if let Some(after) = links.get_mut(end as usize) {
                    after.before = at;
                }
                let first = if at == 0 { NONE } else { self.look_up(links, agenda, before) };
                self.look_up(links, agenda, at).min(first) < priority
            });
            match earlier {
                Some(_) => agenda.interrupt(pass),
                None => agenda.finish(pass),
            }
        }
        let mut at = 0;
        while let Some(link) = links.get(at as usize) {
            ids.push(link.id);
            at = link.next;
        }
        Ok(())
    }

    /// Puts the merge of the token at `at` with the next one on the agenda, and returns its priority.
    #[inline(always)]
    fn look_up(&self, links: &mut [Link], agenda: &mut Agenda, at: u32) -> u32 {
        let Link { id, next, .. } = links[at as usize];
        let priority = links.get(next as usize).map_or(NONE, |next| self.priority(id, next.id));
        links[at as usize].priority = priority;
        if priority != NONE {
            agenda.add(priority, at);
        }
        priority
    }

    /// The tokens by id, without the empty ones.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.vocabulary.size()).map(|id| self.vocabulary.token(id)).filter(|token| !token.is_empty())
    }
}

/// The ids of a piece, by the definition of BPE: the merge of the first priority, the leftmost first, until no two neighbours merge.
///
/// It looks at all pairs before each merge. It is what the encoder is compared with, and shows what it computes.
///
/// ```
/// use windrow_bpe::merge_by_definition;
///
/// // "ab" merges before "bc".
/// let merges = [("a", "b"), ("b", "c"), ("ab", "c")].map(|(left, right)| (left.into(), right.into()));
/// let parts = |piece: &str| merge_by_definition(piece.as_bytes(), &merges);
/// assert_eq!(parts("abc"), [b"abc".to_vec()]);
/// assert_eq!(parts("bcab"), [b"bc".to_vec(), b"ab".to_vec()]);
/// ```
pub fn merge_by_definition(piece: &[u8], merges: &[(Vec<u8>, Vec<u8>)]) -> Vec<Vec<u8>> {
    let priorities: HashMap<(&[u8], &[u8]), usize> =
        merges.iter().enumerate().map(|(priority, (left, right))| ((&left[..], &right[..]), priority)).collect();
    let mut parts: Vec<Vec<u8>> = piece.iter().map(|&byte| vec![byte]).collect();
    loop {
        let pairs = parts.windows(2).enumerate();
        let known = pairs.filter_map(|(at, pair)| Some((priorities.get(&(&pair[0][..], &pair[1][..]))?, at)));
        let Some((_, at)) = known.min() else { return parts };
        let right = parts.remove(at + 1);
        parts[at].extend(right);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(100)))]
        /// Merges in any order: many make a pair that comes before their own.
        #[test]
        fn long_pieces_merge_by_the_definition(
            letters in proptest::collection::vec(prop_oneof![9 => 0..3_u8, 1 => 0..5_u8], SHORT + 1..400),
            order in proptest::collection::vec(any::<u16>(), 90..91),
        ) {
            let string = |len, n: usize| (0..len).map(move |k| (n / 3_usize.pow(k) % 3) as u8).collect::<Vec<u8>>();
            let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
            tokens.extend((2..=4).flat_map(|len| (0..3_usize.pow(len)).map(move |n| string(len, n))));
            let ids: HashMap<&[u8], u32> = tokens.iter().map(|token| &token[..]).zip(0..).collect();
            let splits = tokens.iter().flat_map(|token| (1..token.len()).map(|at| token.split_at(at)));
            let splits: Vec<(&[u8], &[u8])> = splits.collect();
            let chosen = order.iter().enumerate().map(|(k, &key)| (key, splits[(k * 7 + usize::from(key)) % splits.len()]));
            let mut chosen: Vec<_> = chosen.collect();
            chosen.sort_unstable();
            let mut seen = std::collections::HashSet::new();
            chosen.retain(|merge| seen.insert(merge.1));
            let merges: Vec<_> = chosen.iter().map(|(_, (left, right))| (left.to_vec(), right.to_vec())).collect();
            let pairs: Vec<(u32, u32)> = chosen.iter().map(|(_, (left, right))| (ids[left], ids[right])).collect();
            let numbered: Vec<(Vec<u8>, u32)> = tokens.iter().cloned().zip(0..).collect();
            let model = Model::new(&numbered, &pairs, false).unwrap();
            let merged = merge_by_definition(&letters, &merges);
            let expected: Vec<u32> = merged.iter().map(|part| ids[&part[..]]).collect();
            let mut scratch = MergeScratch::default();
            for _ in 0..2 {
                prop_assert_eq!(model.encode(&letters, false, &mut scratch).unwrap(), &expected);
            }
        }
    }
}

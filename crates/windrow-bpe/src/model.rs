//! Byte-level BPE: the tokens of a piece from those of its bytes.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::fault::PieceFault;
use crate::fault::Unsupported;
use crate::memory::{KEPT_SCRATCH, reserve};
use crate::merge::{MergeScratch, Merges, NONE, SHORT};
use crate::vocabulary::{Seams, Vocabulary};

/// A vocabulary in which every byte is a token, and its merges.
pub(crate) struct Model {
    vocabulary: Vocabulary,
    merges: Merges,
    /// A piece that is a token becomes that token, whatever the merges would make of it.
    ignore_merges: bool,
    /// The token of each byte.
    bytes: [u32; 256],
    /// The priority of the merge of two bytes.
    byte_pairs: Vec<u32>,
    seams: Seams,
}

impl Model {
    /// `merges` are the ids of the two tokens of each merge, in the order of their priorities. An error says why these cannot be merged here.
    pub(crate) fn new(tokens: &[(Vec<u8>, u32)], merges: &[(u32, u32)], ignore_merges: bool) -> Result<Self, String> {
        let vocabulary = Vocabulary::new(tokens)?;
        let mut bytes = [0; 256];
        for (byte, id) in (0..=255).zip(&mut bytes) {
            *id = vocabulary.id(&[byte]).ok_or_else(|| format!("byte {byte} is not a token"))?;
        }
        let mut byte_pairs = vec![NONE; 1 << 16];
        let mut triples = Vec::with_capacity(merges.len());
        let mut union = Vec::new();
        for (priority, &(left, right)) in (0..).zip(merges) {
            let parts = [left, right].map(|id| vocabulary.token(id));
            if let [[first], [second]] = parts {
                byte_pairs[usize::from(*first) << 8 | usize::from(*second)] = priority;
            }
            union.clear();
            parts.iter().for_each(|part| union.extend_from_slice(part));
            let merged = vocabulary.id(&union).filter(|_| parts.iter().all(|part| !part.is_empty()));
            let merged = merged.ok_or_else(|| format!("merge {priority} joins unknown tokens or produces one"))?;
            triples.push((left, right, merged));
        }
        let seams = Seams::new((0..vocabulary.size()).map(|id| vocabulary.token(id)));
        let merges = Merges::new(triples.into_iter())?;
        Ok(Self { vocabulary, merges, ignore_merges, bytes, byte_pairs, seams })
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    #[inline(always)]
    fn byte_priority(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }

    /// The first place in a piece where it can be divided and a character begins: its parts have the ids of the whole.
    #[inline]
    pub(crate) fn seam(&self, piece: &[u8]) -> Option<usize> {
        self.seams.first(piece)
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
        let ids = &mut scratch.ids;
        ids.clear();
        if self.ignore_merges
            && !is_part
            && let Some(id) = self.vocabulary.id(piece)
        {
            ids.push(id);
        } else if piece.len() <= SHORT {
            let (mut short, mut priorities) = ([0; 64], [NONE; 64]);
            for (id, byte) in short.iter_mut().zip(piece) {
                *id = self.bytes[usize::from(*byte)];
            }
            for (priority, pair) in priorities.iter_mut().zip(piece.windows(2)) {
                *priority = self.byte_priority(pair[0], pair[1]);
            }
            let count = self.merges.merge_short(&mut short, &mut priorities, piece.len().min(SHORT));
            ids.extend_from_slice(&short[..count]);
        } else {
            reserve(ids, piece.len())?;
            ids.extend(piece.iter().map(|&byte| self.bytes[usize::from(byte)]));
            self.merges.merge(scratch)?;
        }
        Ok(&scratch.ids)
    }
}

/// A byte-level BPE model by itself, for pieces that are already split.
///
/// ```
/// use windrow_bpe::ByteBpe;
///
/// let tokens: Vec<_> = (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"ab".to_vec(), 256)]).collect();
/// let model = ByteBpe::new(&tokens, &[(97, 98)], false)?;
/// let mut ids = Vec::new();
/// model.encode(b"cab", &mut ids)?;
/// assert_eq!(ids, [99, 256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ByteBpe(Model);

impl ByteBpe {
    /// The model of these tokens and merges, as in a [`Definition`](crate::Definition).
    ///
    /// # Errors
    /// A byte is no token, two tokens have the same bytes, a merge is of unknown tokens, or an id is 1,048,575 or more.
    pub fn new(tokens: &[(Vec<u8>, u32)], merges: &[(u32, u32)], ignore_merges: bool) -> Result<Self, Unsupported> {
        Model::new(tokens, merges, ignore_merges).map(Self).map_err(Unsupported::new)
    }

    /// Appends the ids of `piece`.
    ///
    /// # Errors
    /// There is no memory for the piece.
    pub fn encode(&self, piece: &[u8], ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        thread_local! {
            static SCRATCH: RefCell<MergeScratch> = RefCell::default();
        }
        SCRATCH.with_borrow_mut(|scratch| {
            ids.extend_from_slice(self.0.encode(piece, false, scratch).map_err(PieceFault::NoMemory)?);
            if piece.len() > KEPT_SCRATCH {
                *scratch = MergeScratch::default();
            }
            Ok(())
        })
    }

    /// The id of the token with these bytes.
    pub fn token_to_id(&self, bytes: &[u8]) -> Option<u32> {
        self.0.vocabulary().id(bytes)
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
                scratch.ids = letters.iter().map(|&byte| model.bytes[usize::from(byte)]).collect();
                if !model.merges.merge_in_chunks(&mut scratch).unwrap() {
                    prop_assert_eq!(scratch.ids.len(), letters.len());
                    model.merges.merge_long(&mut scratch).unwrap();
                }
                prop_assert_eq!(&scratch.ids, &expected);
                scratch.ids = letters.iter().map(|&byte| model.bytes[usize::from(byte)]).collect();
                model.merges.merge_long(&mut scratch).unwrap();
                prop_assert_eq!(&scratch.ids, &expected);
            }
        }
    }

    /// Tokens of three letters end elsewhere in each chunk. A token that grows with the text is not made of chunks.
    #[test]
    fn chunks_are_joined() {
        let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        tokens.extend([b"ab".to_vec(), b"abc".to_vec()]);
        let mut merges = vec![(u32::from(b'a'), u32::from(b'b')), (256, u32::from(b'c'))];
        let mut id = u32::from(b'z');
        for doubled in 1..10 {
            tokens.push(vec![b'z'; 1 << doubled]);
            merges.push((id, id));
            id = tokens.len() as u32 - 1;
        }
        let numbered: Vec<(Vec<u8>, u32)> = tokens.into_iter().zip(0..).collect();
        let model = Model::new(&numbered, &merges, false).unwrap();
        let merged = |text: &[u8]| {
            let mut scratch = MergeScratch::default();
            scratch.ids.extend(text.iter().map(|&byte| u32::from(byte)));
            let is_merged = model.merges.merge_in_chunks(&mut scratch).unwrap();
            is_merged.then_some(scratch.ids)
        };
        assert_eq!(merged(&b"abc".repeat(1000)), Some(vec![257; 1000]));
        assert_eq!(merged(&[b'z'; 4096]), None);
        let mut scratch = MergeScratch::default();
        assert_eq!(model.encode(&[b'z'; 4096], false, &mut scratch).unwrap(), [id; 8]);
    }
}

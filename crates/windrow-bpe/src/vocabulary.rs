//! The tokens of a vocabulary, and the places in pieces that no token spans.

/// The tokens of a vocabulary, by id and by their bytes.
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// The start of the token of each id in `bytes`, and the end of the last. An id without a token has no bytes.
    starts: Vec<u32>,
    /// Ids plus 1 by the hash of their bytes, with linear probing; 0 is empty.
    index: Vec<u32>,
}

impl Vocabulary {
    /// An error names what is wrong with the tokens.
    pub(crate) fn new<T: AsRef<[u8]>>(tokens: &[(T, u32)]) -> Result<Self, String> {
        let size = tokens.iter().map(|token| token.1 + 1).max().unwrap_or(0);
        if u64::from(size) >= 1 << crate::merge::ID_BITS {
            return Err(format!(
                "id {} is too large; ids must be below {}",
                size - 1,
                (1 << crate::merge::ID_BITS) - 1
            ));
        }
        let mut by_id: Vec<&[u8]> = vec![&[]; size as usize];
        for (bytes, id) in tokens {
            by_id[*id as usize] = bytes.as_ref();
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

/// Bits of the filter of three bytes.
const TRIPLE_BITS: u32 = 20;

/// Places at which pieces can be divided: between two bytes that no token spans, no merge ever does. Neither does a token that is a whole piece.
///
/// A token that spans the place between two bytes begins with these two bytes, or has them after the byte before. The three bytes are looked up
/// in a filter of all tokens, which may name a place that no token spans, but never the reverse.
pub(crate) struct Seams {
    /// A bit for each two bytes with which a token begins.
    pairs: Box<[u64; 1 << 10]>,
    triples: Box<[u64; 1 << (TRIPLE_BITS - 6)]>,
}

impl Seams {
    pub(crate) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> Self {
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

    /// True if a token may span the place between the last two of these bytes.
    #[inline(always)]
    fn may_span(&self, [before, first, second]: [u8; 3]) -> bool {
        let (pair, pair_bit) = Self::pair(first, second);
        let (triple, triple_bit) = Self::triple(before, first, second);
        (self.pairs[pair] >> pair_bit | self.triples[triple] >> triple_bit) & 1 == 1
    }

    /// The first place in a piece where it can be divided and a character begins: its parts have the ids of the whole.
    #[inline]
    pub(crate) fn first(&self, piece: &[u8]) -> Option<usize> {
        let is_seam = |bytes: &[u8]| bytes[2] & 0xc0 != 0x80 && !self.may_span([bytes[0], bytes[1], bytes[2]]);
        // The first two bytes have no byte before.
        Some(2 + piece.windows(3).position(is_seam)?)
    }
}

//! A file hash that another process can continue.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes of a block: a power of two of blake3's chunks. A continued hash reads less than one block again.
const BLOCK: u64 = if cfg!(test) { 4 << 10 } else { 1 << 20 };

/// The hash of a number of whole blocks at the start of a file that continues after them.
///
/// blake3 is a binary tree in which every left subtree is a full power of two. So the blocks are subtrees, one for each bit of their
/// number, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prefix {
    blocks: u64,
    subtrees: Vec<Subtree>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subtree(ChainingValue);

impl Serialize for Subtree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        blake3::Hash::from_bytes(self.0).to_hex().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Subtree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(deserializer)?;
        blake3::Hash::from_hex(hex).map(|hash| Self(*hash.as_bytes())).map_err(de::Error::custom)
    }
}

impl Prefix {
    /// Number of bytes it covers.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * BLOCK
    }

    /// True if there is a subtree for each bit of the number of blocks.
    fn is_sound(&self) -> bool {
        self.subtrees.len() == self.blocks.count_ones() as usize
    }

    fn push(&mut self, block: ChainingValue) {
        self.blocks += 1;
        let mut subtree = block;
        for _ in 0..self.blocks.trailing_zeros() {
            let Subtree(left) = self.subtrees.pop().expect("a subtree for each bit that is set in the previous count");
            subtree = merge_subtrees_non_root(&left, &subtree, Mode::Hash);
        }
        self.subtrees.push(Subtree(subtree));
    }
}

/// A blake3 hasher that can be continued at the end of each block.
#[derive(Clone, Debug)]
pub(super) struct BlockDigest {
    prefix: Prefix,
    block: Hasher,
    filled: u64,
}

impl Default for BlockDigest {
    fn default() -> Self {
        Self { prefix: Prefix::default(), block: Hasher::new(), filled: 0 }
    }
}

impl BlockDigest {
    /// Continues after `prefix`; `None` if `prefix` is damaged.
    pub(super) fn after(prefix: Prefix) -> Option<Self> {
        let mut digest = Self { prefix, ..Self::default() };
        digest.begin_block();
        digest.prefix.is_sound().then_some(digest)
    }

    fn begin_block(&mut self) {
        self.block = Hasher::new();
        self.block.set_input_offset(self.prefix.bytes());
        self.filled = 0;
    }

    /// Adds the next bytes of the file. Calls `closed` for each prefix that becomes complete.
    pub(super) fn update(&mut self, mut bytes: &[u8], mut closed: impl FnMut(&Prefix)) {
        while !bytes.is_empty() {
            // A block is closed only when more bytes follow, because the last one belongs to the root.
            if self.filled == BLOCK {
                self.prefix.push(self.block.finalize_non_root());
                self.begin_block();
                closed(&self.prefix);
            }
            let (now, later) = bytes.split_at(bytes.len().min((BLOCK - self.filled) as usize));
            self.block.update(now);
            self.filled += now.len() as u64;
            bytes = later;
        }
    }

    /// The whole blocks so far.
    pub(super) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The hash of all bytes.
    pub(super) fn finish(&self) -> blake3::Hash {
        let Some((Subtree(first), rest)) = self.prefix.subtrees.split_first() else { return self.block.finalize() };
        let last = self.block.finalize_non_root();
        let right = rest.iter().rfold(last, |right, left| merge_subtrees_non_root(&left.0, &right, Mode::Hash));
        merge_subtrees_root(first, &right, Mode::Hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_blake3_also_when_it_is_continued_at_any_block() {
        let block = BLOCK as usize;
        let bytes: Vec<u8> = (0..9 * BLOCK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in
            [0, 1, 1024, block - 1, block, block + 1, 2 * block, 3 * block + 5, 4 * block, 7 * block + 1025, 9 * block]
        {
            let expected = blake3::hash(&bytes[..length]);
            let mut prefixes = vec![Prefix::default()];
            let mut digest = BlockDigest::default();
            bytes[..length]
                .chunks(3_001)
                .for_each(|piece| digest.update(piece, |prefix| prefixes.push(prefix.clone())));
            assert_eq!(digest.finish(), expected, "{length} bytes");
            assert_eq!(prefixes.len(), length.saturating_sub(1) / block + 1);
            for prefix in prefixes {
                let json = serde_json::to_string(&prefix).unwrap();
                let prefix: Prefix = serde_json::from_str(&json).unwrap();
                let from = prefix.bytes() as usize;
                let mut digest = BlockDigest::after(prefix).unwrap();
                digest.update(&bytes[from..length], |_| ());
                assert_eq!(digest.finish(), expected, "{length} bytes, continued at {from}");
            }
        }
    }

    #[test]
    fn a_damaged_prefix_is_refused() {
        assert!(BlockDigest::after(Prefix { blocks: 3, subtrees: vec![Subtree([0; 32])] }).is_none());
        assert!(serde_json::from_str::<Prefix>(r#"{"blocks":1,"subtrees":["zz"]}"#).is_err());
    }
}

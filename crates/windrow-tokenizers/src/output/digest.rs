//! The hash of a file whose header is only known at the end.

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

const CHUNK: usize = blake3::CHUNK_LEN;

/// A blake3 hasher that allows the first 1024 bytes to change until the end. A file with a header that counts the data after it need not
/// be read again.
///
/// blake3 is a binary tree over chunks of 1024 bytes in which every left subtree is a full power of two. So the data after the first chunk consists
/// of subtrees of 1, 2, 4, ... chunks. Each starts at an offset equal to its size. Their chaining values are kept (one per doubling of the file).
/// At the end the first chunk is merged with them from left to right. Only the last subtree can be incomplete, and it is the right child of the
/// root.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateHeadDigest {
    head: Vec<u8>,
    full: Vec<ChainingValue>,
    last: Option<Subtree>,
}

#[derive(Clone, Debug)]
struct Subtree {
    hasher: Hasher,
    room: u64,
}

impl Subtree {
    /// The subtree of `2^level` chunks that starts at chunk `2^level`.
    fn new(level: usize) -> Self {
        let size = (CHUNK as u64) << level;
        let mut hasher = Hasher::new();
        hasher.set_input_offset(size);
        Self { hasher, room: size }
    }
}

impl LateHeadDigest {
    /// Adds the next bytes of the file.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (head, mut rest) = bytes.split_at(bytes.len().min(CHUNK - self.head.len()));
        self.head.extend_from_slice(head);
        while !rest.is_empty() {
            // A full subtree is closed only when more bytes follow, because the last subtree belongs to the root.
            if self.last.as_ref().is_none_or(|subtree| subtree.room == 0) {
                self.full.extend(self.last.take().map(|subtree| subtree.hasher.finalize_non_root()));
            }
            let subtree = self.last.get_or_insert_with(|| Subtree::new(self.full.len()));
            let (now, later) = rest.split_at(rest.len().min(usize::try_from(subtree.room).unwrap_or(usize::MAX)));
            subtree.hasher.update(now);
            subtree.room -= now.len() as u64;
            rest = later;
        }
    }

    /// Replaces the first bytes, which must have been added before.
    pub(crate) fn replace_head(&mut self, bytes: &[u8]) {
        self.head[..bytes.len()].copy_from_slice(bytes);
    }

    /// The hash of all bytes added.
    pub(crate) fn finish(&self) -> blake3::Hash {
        let Some(last) = &self.last else { return blake3::hash(&self.head) };
        let first = Hasher::new().update(&self.head).finalize_non_root();
        let left = self.full.iter().fold(first, |left, right| merge_subtrees_non_root(&left, right, Mode::Hash));
        merge_subtrees_root(&left, &last.hasher.finalize_non_root(), Mode::Hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_blake3_around_every_boundary_and_in_any_pieces() {
        let bytes: Vec<u8> = (0..70 * CHUNK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let lengths = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 69];
        for length in lengths.into_iter().flat_map(|n| [n * CHUNK, n * CHUNK + 1, (n + 1) * CHUNK - 1]) {
            for piece in [1, 7, 128, CHUNK - 1, CHUNK, CHUNK + 1, 5000, 1 << 20] {
                let mut digest = LateHeadDigest::default();
                bytes[..length].chunks(piece).for_each(|piece| digest.update(piece));
                assert_eq!(digest.finish(), blake3::hash(&bytes[..length]), "{length} bytes in pieces of {piece}");
            }
        }
    }

    #[test]
    fn head_may_change_last() {
        for length in [128, CHUNK, CHUNK + 1, 5 * CHUNK] {
            let mut bytes = vec![7; length];
            let mut digest = LateHeadDigest::default();
            digest.update(&bytes);
            let before = digest.finish();
            bytes[..128].fill(9);
            digest.replace_head(&[9; 128]);
            assert_eq!(digest.finish(), blake3::hash(&bytes));
            assert_ne!(digest.finish(), before);
        }
    }
}

//! The blake3 hash of files, computed by all threads.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use windrow::prelude::*;

use crate::shard::open_file;

/// Bytes that a thread hashes at a time: a power of two of blake3's chunks, so that they are one subtree of the hash.
const SEGMENT: u64 = if cfg!(test) { 4 << 10 } else { 8 << 20 };

/// A part of a file.
struct Segment {
    file: usize,
    begin: u64,
    bytes: u64,
}

/// The hash of the first `bytes` of each file.
pub(super) fn hashes(files: &[(PathBuf, u64)]) -> Vec<io::Result<blake3::Hash>> {
    let segments: Vec<Segment> = files
        .iter()
        .enumerate()
        .flat_map(|(file, &(_, bytes))| {
            let begins = (0..bytes.div_ceil(SEGMENT).max(1)).map(|number| number * SEGMENT);
            begins.map(move |begin| Segment { file, begin, bytes: SEGMENT.min(bytes - begin) })
        })
        .collect();
    let hash = |segment: &Segment| hash_segment(&files[segment.file].0, segment, files[segment.file].1);
    let parts: Vec<io::Result<ChainingValue>> = segments.par_iter().map(hash).collect();
    let mut parts = parts.into_iter();
    let of_file = |segments: &[Segment]| {
        let parts: Vec<_> = parts.by_ref().take(segments.len()).collect();
        parts.into_iter().collect::<io::Result<Vec<_>>>().map(|parts| root(&parts))
    };
    segments.chunk_by(|one, other| one.file == other.file).map(of_file).collect()
}

/// The hash of a part of a file, or of the whole file if it has one part.
fn hash_segment(path: &Path, segment: &Segment, bytes: u64) -> io::Result<ChainingValue> {
    let mut file = open_file(path)?;
    file.seek(SeekFrom::Start(segment.begin))?;
    let mut hasher = Hasher::new();
    hasher.set_input_offset(segment.begin);
    hasher.update_reader(file.take(segment.bytes))?;
    if hasher.count() < segment.bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(if bytes > SEGMENT { hasher.finalize_non_root() } else { hasher.finalize().into() })
}

/// The hash of a file from the hashes of its segments: every left subtree is a full power of two.
fn root(parts: &[ChainingValue]) -> blake3::Hash {
    if let [whole] = parts {
        return (*whole).into();
    }
    let left = left_of(parts.len());
    merge_subtrees_root(&subtree(&parts[..left]), &subtree(&parts[left..]), Mode::Hash)
}

fn subtree(parts: &[ChainingValue]) -> ChainingValue {
    if let [part] = parts {
        return *part;
    }
    let left = left_of(parts.len());
    merge_subtrees_non_root(&subtree(&parts[..left]), &subtree(&parts[left..]), Mode::Hash)
}

/// The largest power of two below a number, which is at least 2.
fn left_of(number: usize) -> usize {
    number.next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_blake3_for_any_number_of_segments() {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..10 * SEGMENT as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let lengths = [0, 1, 1024, 4095, 4096, 4097, 8192, 3 * 4096, 5 * 4096 + 1, 8 * 4096, 10 * 4096];
        let files = lengths.map(|length| {
            let path = directory.path().join(length.to_string());
            std::fs::write(&path, &bytes[..length]).unwrap();
            (path, length as u64)
        });
        for (hash, length) in hashes(&files).into_iter().zip(lengths) {
            assert_eq!(hash.unwrap(), blake3::hash(&bytes[..length]), "{length} bytes");
        }
        let short = [(files[3].0.clone(), 5000)];
        assert_eq!(hashes(&short)[0].as_ref().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

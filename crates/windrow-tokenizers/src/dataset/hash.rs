//! The blake3 hash of files, computed by all threads.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use blake3::Hasher;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use windrow::prelude::*;

use crate::shard::open_file;

/// Bytes that a thread hashes at a time: a power of two of blake3's chunks, so that they are one subtree of the hash.
const SEGMENT: u64 = if cfg!(test) { 4 << 10 } else { 8 << 20 };

/// Bytes per read call.
const READ: usize = 256 << 10;

/// A part of a file.
struct Segment {
    file: usize,
    begin: u64,
    bytes: u64,
}

/// The hash of a part of a file, or of the whole.
#[derive(Clone, Copy)]
enum Part {
    Whole(blake3::Hash),
    Subtree(ChainingValue),
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
    let parts: Vec<io::Result<Part>> = segments.par_iter().map(hash).collect();
    let mut parts = segments.iter().zip(parts).peekable();
    let of_file = |file| {
        let mut all = Vec::new();
        while let Some((_, part)) = parts.next_if(|(segment, _)| segment.file == file) {
            all.push(part);
        }
        all.into_iter().collect::<io::Result<Vec<Part>>>().map(|parts| root(&parts))
    };
    (0..files.len()).map(of_file).collect()
}

fn hash_segment(path: &Path, segment: &Segment, bytes: u64) -> io::Result<Part> {
    let mut file = open_file(path)?;
    file.seek(SeekFrom::Start(segment.begin))?;
    let mut hasher = Hasher::new();
    if bytes > SEGMENT {
        hasher.set_input_offset(segment.begin);
    }
    let mut block = vec![0; READ];
    let mut left = segment.bytes;
    while left > 0 {
        let most = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut block[..most]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                hasher.update(&block[..read]);
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(if bytes > SEGMENT { Part::Subtree(hasher.finalize_non_root()) } else { Part::Whole(hasher.finalize()) })
}

/// The hash of a file from the hashes of its segments: every left subtree is a full power of two.
fn root(parts: &[Part]) -> blake3::Hash {
    let subtrees: Vec<ChainingValue> = parts
        .iter()
        .map(|part| match part {
            Part::Subtree(value) => *value,
            Part::Whole(hash) => *hash.as_bytes(),
        })
        .collect();
    match (parts, subtrees.as_slice()) {
        ([Part::Whole(hash)], _) => *hash,
        (_, subtrees) => {
            let left = left_of(subtrees.len());
            merge_subtrees_root(&subtree(&subtrees[..left]), &subtree(&subtrees[left..]), Mode::Hash)
        }
    }
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

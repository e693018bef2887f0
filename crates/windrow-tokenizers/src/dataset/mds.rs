//! Documents of a shard of MDS.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::DatasetError;
use super::visit::{Visitor, open_file};
use crate::manifest::EncodeJob;
use crate::output::{Dtype, MdsColumn, MdsSamples};

/// Bytes that are read ahead.
const BUFFER: usize = 256 << 10;

/// A shard that is read from two places: its table and its samples.
struct Reading<'p> {
    path: &'p Path,
    table: BufReader<File>,
    samples: BufReader<File>,
    bytes: u64,
}

fn next_u32(path: &Path, file: &mut impl Read) -> Result<u64, DatasetError> {
    let mut number = [0; 4];
    file.read_exact(&mut number).map_err(|error| DatasetError::io(path, &error))?;
    Ok(u32::from_le_bytes(number).into())
}

fn open(path: &Path) -> Result<(File, u64), DatasetError> {
    let open = || {
        let file = open_file(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    };
    open().map_err(|error: io::Error| DatasetError::io(path, &error))
}

/// The number of documents.
pub(super) fn documents(path: &Path) -> Result<u64, DatasetError> {
    next_u32(path, &mut open(path)?.0)
}

/// Visits the documents, until the visitor breaks.
pub(super) fn walk(options: &EncodeJob, path: &Path, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let ((table, bytes), (samples, _)) = (open(path)?, open(path)?);
    let table = BufReader::with_capacity(BUFFER, table);
    let samples = BufReader::with_capacity(BUFFER, samples);
    let mut shard = Reading { path, table, samples, bytes };
    let Some(dtype) = options.dtype else {
        return Err(DatasetError::damaged(path, "the manifest names no element type"));
    };
    let size_limit = options.shard_size.map_or(0, |size| size.bytes() as u64);
    let samples = MdsSamples { dtype, keep: &options.keep, has_mask: options.has_mask(), size_limit };
    let count = next_u32(path, &mut shard.table)?;
    let mut begin = shard.begin(count, &samples.config())?;
    let columns = samples.columns();
    let heads = 4 * columns.len() as u64;
    let (mut block, mut ids, mut mask, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), vec![0; columns.len()]);
    for number in 0..count {
        let wrong = |what: String| Err(DatasetError::damaged(path, format_args!("document {number}: {what}")));
        let end = next_u32(path, &mut shard.table)?;
        if end < begin + heads {
            return wrong(format!("its end {end} is too close to its begin {begin}"));
        }
        if end > bytes {
            return wrong(format!("its end {end} is beyond the {bytes} bytes of the file"));
        }
        for size in &mut sizes {
            *size = next_u32(path, &mut shard.samples)?;
        }
        if sizes.iter().sum::<u64>() + heads != end - begin {
            return wrong("the sizes of its columns are not that of the document".to_owned());
        }
        for (column, &size) in columns.iter().zip(&sizes) {
            if let MdsColumn::Kept(_) = column {
                shard.skip(size)?;
                continue;
            }
            block.resize(size as usize, 0);
            shard.samples.read_exact(&mut block).map_err(|error| DatasetError::io(path, &error))?;
            if *column == MdsColumn::Mask {
                mask.clear();
                let Some(values) = array(&block, 1) else {
                    return wrong("its masks are no array of u8 in one dimension".to_owned());
                };
                mask.extend_from_slice(values);
            } else if !parse_array(&block, dtype, &mut ids) {
                return wrong(format!("its ids are no array of {dtype} in one dimension"));
            }
        }
        if samples.has_mask && (mask.len() != ids.len() || mask.iter().any(|&one| one > 1)) {
            return wrong("it has not a mask of 0 or 1 for each id".to_owned());
        }
        if visit(&ids).is_break() {
            return Ok(());
        }
        begin = end;
    }
    if begin == bytes {
        return Ok(());
    }
    Err(DatasetError::damaged(path, format_args!("its documents end at byte {begin} of {bytes}")))
}

impl Reading<'_> {
    /// Checks what precedes the samples, and returns where they begin.
    fn begin(&mut self, count: u64, config: &[u8]) -> Result<u64, DatasetError> {
        let path = self.path;
        let table = 4 * count + 8;
        let mut found = vec![0; config.len()];
        let read = self.samples.seek(SeekFrom::Start(table)).and_then(|_| self.samples.read_exact(&mut found));
        read.map_err(|error| DatasetError::io(path, &error))?;
        if found != config {
            let what = format!("byte {table}: its columns are not those of this format, element type and kept fields");
            return Err(DatasetError::damaged(path, what));
        }
        let begin = next_u32(path, &mut self.table)?;
        if begin != table + config.len() as u64 {
            return Err(DatasetError::damaged(path, format_args!("document 0: it begins at byte {begin}")));
        }
        Ok(begin)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), DatasetError> {
        // No more than the size of the file, which the caller has compared.
        let skipped = self.samples.seek_relative(bytes.min(self.bytes) as i64);
        skipped.map_err(|error| DatasetError::io(self.path, &error))
    }
}

/// The values of an array, which is the number of its axes with the width of a length, the length, the values.
fn array(bytes: &[u8], size: usize) -> Option<&[u8]> {
    let (&head, rest) = bytes.split_first()?;
    let (length, values) = rest.split_at_checked(1 << (head & 3))?;
    let length = length.iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    (head >> 2 == 1 && length.checked_mul(size as u64) == Some(values.len() as u64)).then_some(values)
}

/// Reads an array of ids.
fn parse_array(bytes: &[u8], dtype: Dtype, ids: &mut Vec<u32>) -> bool {
    ids.clear();
    let Some(values) = array(bytes, dtype.size()) else { return false };
    match dtype {
        Dtype::U16 => ids.extend(values.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))),
        Dtype::U32 | Dtype::I32 => ids.extend(values.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_with_any_width_of_their_length() {
        let mut ids = vec![7];
        for array in [&b"\x04\x02\x01\0\x02\x01"[..], b"\x05\x02\0\x01\0\x02\x01", b"\x06\x02\0\0\0\x01\0\x02\x01"] {
            assert!(parse_array(array, Dtype::U16, &mut ids));
            assert_eq!(ids, [1, 258]);
        }
        assert!(parse_array(b"\x04\0", Dtype::U32, &mut ids) && ids.is_empty());
        for array in [&b""[..], b"\x04", b"\x05\0", b"\x08\x01\x01\x01\0", b"\x04\x02\x01\0", b"\x04\0\0"] {
            assert!(!parse_array(array, Dtype::U16, &mut ids), "{array:?}");
        }
        assert!(!parse_array(b"\x07\xff\xff\xff\xff\xff\xff\xff\xff", Dtype::U16, &mut ids));
    }
}

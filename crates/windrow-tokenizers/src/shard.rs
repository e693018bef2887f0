//! The files of a shard, and their reading.

mod error;
mod visit;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

pub use error::{DatasetError, DatasetErrorKind};
pub(crate) use visit::{Visitor, open_file};

use crate::counted;
use crate::format::Dtype;
use crate::spec::EncodeJob;

/// Number of bytes that are read ahead.
pub(crate) const BUFFER: usize = 256 << 10;

/// The files of one shard, or of an output without shards.
pub(crate) struct Shard<'m> {
    pub(crate) options: &'m EncodeJob,
    /// Files in the order of the format's suffixes; the file with the kept fields is the last.
    pub(crate) paths: Vec<PathBuf>,
}

impl Shard<'_> {
    pub(crate) fn dtype(&self) -> Result<Dtype, DatasetError> {
        self.options
            .dtype
            .ok_or_else(|| DatasetError::damaged(&self.paths[0], "the manifest does not specify an element type"))
    }
}

/// An open file of a shard.
pub(crate) struct Reading<'p> {
    pub(crate) path: &'p Path,
    bytes: u64,
    pub(crate) file: BufReader<File>,
}

impl<'p> Reading<'p> {
    pub(crate) fn open(path: &'p Path, from: u64) -> Result<Self, DatasetError> {
        let open = || {
            let mut file = open_file(path)?;
            file.seek(SeekFrom::Start(from))?;
            Ok((file.metadata()?.len(), BufReader::with_capacity(BUFFER, file)))
        };
        let (bytes, file) = open().map_err(|error: io::Error| DatasetError::io(path, &error))?;
        Ok(Self { path, bytes, file })
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<(), DatasetError> {
        self.file.read_exact(bytes).map_err(|error| DatasetError::io(self.path, &error))
    }

    pub(crate) fn next_u64(&mut self) -> Result<u64, DatasetError> {
        let mut number = [0; 8];
        self.fill(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Reads `count` ids.
    pub(crate) fn ids(
        &mut self,
        count: u64,
        dtype: Dtype,
        block: &mut Vec<u8>,
        ids: &mut Vec<u32>,
    ) -> Result<(), DatasetError> {
        ids.clear();
        let mut left = count;
        while left > 0 {
            let now = left.min((BUFFER / dtype.size()) as u64) as usize;
            block.resize(now * dtype.size(), 0);
            self.fill(block)?;
            dtype.get(block, ids);
            left -= now as u64;
        }
        Ok(())
    }

    /// The number of elements of this size after a header. They must fill the rest of the file exactly.
    pub(crate) fn elements(&self, header: usize, size: usize) -> Result<u64, DatasetError> {
        let data = self.bytes.checked_sub(header as u64).filter(|data| data.is_multiple_of(size as u64));
        data.map(|data| data / size as u64).ok_or_else(|| {
            let (bytes, head) = (counted(self.bytes, "byte"), if header > 0 { "a header and " } else { "" });
            DatasetError::damaged(self.path, format_args!("a file of {bytes} cannot consist of {head}whole elements"))
        })
    }

    pub(crate) fn check_header(&mut self, expected: &[u8]) -> Result<(), DatasetError> {
        let mut header = vec![0; expected.len()];
        self.fill(&mut header)?;
        match header.iter().zip(expected).position(|(one, other)| one != other) {
            Some(at) => Err(DatasetError::damaged(
                self.path,
                format_args!("byte {at}: the header does not match the expected format, element type or length"),
            )),
            None => Ok(()),
        }
    }

    /// Visits the rows of `length` ids each, for `count` ids in all. Checks the header of that number of rows first.
    pub(crate) fn walk_rows(
        &mut self,
        count: u64,
        length: usize,
        dtype: Dtype,
        visit: Visitor<'_>,
        header: impl Fn(u64) -> Vec<u8>,
    ) -> Result<(), DatasetError> {
        if !count.is_multiple_of(length as u64) {
            let what = format_args!("the number of ids, {count}, is not a multiple of the row length, {length}");
            return Err(DatasetError::damaged(self.path, what));
        }
        let rows = count / length as u64;
        self.check_header(&header(rows))?;
        let (mut block, mut ids) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            self.ids(length as u64, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                break;
            }
        }
        Ok(())
    }
}

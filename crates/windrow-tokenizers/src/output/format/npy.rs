//! `.npy`: all ids, and the offsets of documents. Headers, which contain the lengths, are written last into reserved space.

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles};
use crate::format::Dtype;
use crate::output::OutputError;
use crate::output::file::StagedFile;
use crate::shard::{DatasetError, Reading, Shard, Visitor};

pub(super) struct Npy;

/// Size of an `.npy` header: the smallest multiple of 64, which the format requires, that fits any length.
pub(crate) const NPY_HEADER: usize = 128;

/// The header of a one-dimensional little-endian array, version 1.0.
pub(crate) fn npy_header(descr: &str, length: u64) -> [u8; NPY_HEADER] {
    npy_header_of_shape(descr, &format!("{length},"))
}

/// The header of a two-dimensional array.
pub(crate) fn npy_header_of_rows(descr: &str, rows: u64, length: usize) -> [u8; NPY_HEADER] {
    npy_header_of_shape(descr, &format!("{rows}, {length}"))
}

fn npy_header_of_shape(descr: &str, shape: &str) -> [u8; NPY_HEADER] {
    let dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut header = [b' '; NPY_HEADER];
    header[..8].copy_from_slice(b"\x93NUMPY\x01\x00");
    header[8..10].copy_from_slice(&(NPY_HEADER as u16 - 10).to_le_bytes());
    header[10..10 + dictionary.len()].copy_from_slice(dictionary.as_bytes());
    header[NPY_HEADER - 1] = b'\n';
    header
}

impl TokenFiles for Npy {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".ids.npy", ".offsets.npy"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::U32, Dtype::I32]
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        let mut ids = files.next();
        ids.put(|bytes| bytes.extend_from_slice(&[0; NPY_HEADER]))?;
        // Rows of equal length need no offsets.
        let mut offsets = begin.row().map_or_else(|| Ok(files.next()), Err);
        if let Ok(offsets) = &mut offsets {
            offsets.put(|bytes| bytes.extend_from_slice(&[0; NPY_HEADER + 8]))?;
        }
        Ok(Box::new(NpyWriter { ids, offsets, dtype: begin.dtype, tokens: 0, documents: 0 }))
    }

    fn documents(&self, shard: &Shard<'_>) -> Result<Option<u64>, DatasetError> {
        match shard.options.pack {
            Some(_) => Ok(None),
            None => Ok(Some(Reading::open(&shard.paths[1], 0)?.elements(NPY_HEADER + 8, 8)?)),
        }
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = shard.dtype()?;
        let mut data = Reading::open(&shard.paths[0], 0)?;
        let count = data.elements(NPY_HEADER, dtype.size())?;
        if let Some(pack) = shard.options.pack {
            let length = pack.get();
            return data
                .walk_rows(count, length, dtype, visit, |rows| npy_header_of_rows(dtype.descr(), rows, length).into());
        }
        let mut offsets = Reading::open(&shard.paths[1], 0)?;
        let documents = offsets.elements(NPY_HEADER + 8, 8)?;
        data.check_header(&npy_header(dtype.descr(), count))?;
        offsets.check_header(&npy_header("<u8", documents + 1))?;
        let wrong = |number: u64, what: String| {
            Err(DatasetError::damaged(&shard.paths[1], format_args!("offset {number} {what}")))
        };
        let mut begin = offsets.next_u64()?;
        if begin != 0 {
            return wrong(0, format!("is {begin}, not 0"));
        }
        let (mut block, mut ids) = (Vec::new(), Vec::new());
        for number in 1..=documents {
            let end = offsets.next_u64()?;
            if end < begin {
                return wrong(number, format!("is {end}, less than the offset {begin} before it"));
            }
            if end > count {
                return wrong(number, format!("is {end}, but the number of ids is only {count}"));
            }
            data.ids(end - begin, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            begin = end;
        }
        if begin == count { Ok(()) } else { wrong(documents, format!("is {begin}, but the number of ids is {count}")) }
    }
}

#[derive(Debug)]
struct NpyWriter {
    ids: StagedFile,
    /// The offsets, or the number of ids of each document.
    offsets: Result<StagedFile, usize>,
    dtype: Dtype,
    tokens: u64,
    documents: u64,
}

impl FormatWriter for NpyWriter {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        Some(&mut self.ids)
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.ids.put_ids(ids, self.dtype)
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        self.tokens += ending.ids as u64;
        self.documents += 1;
        match &mut self.offsets {
            Ok(offsets) => offsets.put(|bytes| bytes.extend_from_slice(&self.tokens.to_le_bytes())),
            Err(_) => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        let (descr, name) = (self.dtype.descr(), Some(self.dtype.name()));
        let mut offsets = match self.offsets {
            Ok(offsets) => offsets,
            Err(row) => {
                self.ids.replace_head(&npy_header_of_rows(descr, self.documents, row))?;
                return Ok(vec![(self.ids.complete()?, name)]);
            }
        };
        self.ids.replace_head(&npy_header(descr, self.tokens))?;
        offsets.replace_head(&npy_header("<u8", self.documents + 1))?;
        Ok(vec![(self.ids.complete()?, name), (offsets.complete()?, Some("u64"))])
    }
}

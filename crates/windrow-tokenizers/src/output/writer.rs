//! The layouts.

use std::io::{BufReader, Read, Seek, SeekFrom};

use super::columns::ColumnWriter;
use super::datatrove::DatatroveWriter;
use super::error::OutputError;
use super::file::{Complete, Mark, StagedFile, StorageReader, WriteBack};
use super::format::{Dtype, Format};
use super::mds::{self, MdsWriter};
use super::names::staged_name;
use super::run::{JsonLine, Run, put, put_json};
use crate::kept::Kept;

/// Turns runs into the files of one format.
#[derive(Debug)]
pub(crate) enum Writer {
    Npy(NpyWriter),
    Nanogpt { bin: StagedFile, dtype: Dtype },
    Megatron(MegatronWriter),
    Datatrove(Box<DatatroveWriter>),
    Mds(Box<MdsWriter>),
    Jsonl { lines: StagedFile, line: JsonLine },
    Columns(Box<ColumnWriter>),
}

impl Writer {
    /// `files` are those of `format`, in the order of [`Format::suffixes`]. `row` is the number of ids of each document, if all have equally
    /// many. `limit` is the size of shards, if there are shards.
    pub(crate) fn new(
        format: Format,
        dtype: Option<Dtype>,
        files: Vec<StagedFile>,
        keep: &[String],
        mask: bool,
        row: Option<usize>,
        limit: Option<u64>,
    ) -> Result<Self, OutputError> {
        let mut files = files.into_iter();
        let mut next = || files.next().expect("one staged file for each suffix");
        let dtype = || dtype.expect("binary formats have an element type");
        Ok(match format {
            Format::Npy => Self::Npy(NpyWriter::new(next(), row.map_or_else(|| Ok(next()), Err), dtype())?),
            Format::Nanogpt => Self::Nanogpt { bin: next(), dtype: dtype() },
            Format::Megatron => Self::Megatron(MegatronWriter::new(next(), next(), dtype())?),
            Format::Datatrove => Self::Datatrove(Box::new(DatatroveWriter::new(next(), next(), next(), dtype()))),
            Format::Mds => {
                let size_limit = limit.unwrap_or(mds::SHARD_BYTES);
                let samples = mds::Samples { dtype: dtype(), keep, has_mask: mask, size_limit };
                Self::Mds(Box::new(MdsWriter::new(next(), samples)))
            }
            Format::Jsonl => Self::Jsonl { lines: next(), line: JsonLine::default() },
            Format::Arrow | Format::ArrowStream | Format::Parquet => {
                Self::Columns(Box::new(ColumnWriter::new(format, next(), keep, mask)?))
            }
        })
    }

    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        match self {
            Self::Npy(npy) => npy.append(run),
            Self::Nanogpt { bin, dtype } => run.put_ids(*dtype, bin),
            Self::Megatron(megatron) => megatron.append(run),
            Self::Datatrove(datatrove) => datatrove.append(run),
            Self::Mds(mds) => mds.append(run),
            Self::Jsonl { lines, .. } => put_json(run, lines),
            Self::Columns(columns) => columns.append(run),
        }
    }

    /// Appends ids of a document that is written part by part.
    pub(crate) fn append_part(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        match self {
            Self::Npy(npy) => put(ids, npy.dtype, &mut npy.ids),
            Self::Nanogpt { bin, dtype } => put(ids, *dtype, bin),
            Self::Megatron(megatron) => put(ids, megatron.dtype, &mut megatron.bin),
            Self::Datatrove(datatrove) => datatrove.append_part(ids),
            Self::Jsonl { lines, line } => line.put(ids, lines),
            Self::Mds(mds) => {
                mds.append_part(ids);
                Ok(())
            }
            Self::Columns(columns) => {
                columns.append_part(ids);
                Ok(())
            }
        }
    }

    /// Ends a document that was written part by part and has so many ids, with `eos`.
    pub(crate) fn end_parts(&mut self, ids: usize, eos: Option<u32>) -> Result<(), OutputError> {
        match self {
            Self::Jsonl { lines, line } => return line.end(eos, lines),
            Self::Mds(mds) => return mds.end_parts(eos),
            Self::Columns(columns) => return columns.end_parts(eos),
            _ => {}
        }
        self.append_part(eos.as_slice())?;
        match self {
            Self::Npy(npy) => npy.ends(std::iter::once(ids)),
            Self::Megatron(megatron) => megatron.ends(std::iter::once(ids)),
            Self::Datatrove(datatrove) => datatrove.ends(std::iter::once(ids)),
            Self::Nanogpt { .. } | Self::Jsonl { .. } | Self::Mds(_) | Self::Columns(_) => Ok(()),
        }
    }

    /// The state before a document that is written part by part. Only the largest file changes before the document ends.
    pub(crate) fn mark(&mut self) -> Result<Mark, OutputError> {
        self.largest().map_or_else(|| Ok(Mark::default()), StagedFile::mark)
    }

    /// Removes the parts of a document that were written since.
    pub(crate) fn return_to(&mut self, mark: Mark) -> Result<(), OutputError> {
        match self {
            Self::Jsonl { line, .. } => *line = JsonLine::default(),
            Self::Mds(mds) => mds.discard_parts(),
            Self::Columns(columns) => columns.discard_parts(),
            _ => {}
        }
        self.largest().map_or(Ok(()), |file| file.return_to(mark))
    }

    /// The file with the ids, unless a document is complete before it is written.
    fn largest(&mut self) -> Option<&mut StagedFile> {
        Some(match self {
            Self::Npy(npy) => &mut npy.ids,
            Self::Nanogpt { bin, .. } => bin,
            Self::Megatron(megatron) => &mut megatron.bin,
            Self::Datatrove(datatrove) => &mut datatrove.ids,
            Self::Jsonl { lines, .. } => lines,
            Self::Mds(_) | Self::Columns(_) => return None,
        })
    }

    /// Appends the kept values of the documents that were appended, if they are columns.
    pub(crate) fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        match self {
            Self::Mds(mds) => mds.keep(kept),
            Self::Columns(columns) => columns.keep(kept),
            _ => Ok(()),
        }
    }

    /// The part of the largest file to be written back. The others are small beside it.
    pub(crate) fn write_back(&mut self) -> Option<WriteBack> {
        match self {
            Self::Columns(columns) => columns.write_back(),
            _ => self.largest().and_then(StagedFile::write_back),
        }
    }

    /// Completes the files and names the element type of each. Some formats name the tokenizer.
    pub(crate) fn complete(self, tokenizer: &str) -> Result<Vec<(Complete, Option<&'static str>)>, OutputError> {
        match self {
            Self::Npy(npy) => npy.complete(),
            Self::Nanogpt { bin, dtype } => Ok(vec![(bin.complete()?, Some(dtype.name()))]),
            Self::Megatron(megatron) => megatron.complete(),
            Self::Datatrove(datatrove) => datatrove.complete(tokenizer),
            Self::Mds(mds) => Ok(vec![(mds.complete()?, None)]),
            Self::Jsonl { lines, .. } => Ok(vec![(lines.complete()?, None)]),
            Self::Columns(columns) => {
                let dtype = columns.dtype().name();
                Ok(vec![(columns.complete()?, Some(dtype))])
            }
        }
    }
}

/// Two `.npy` files. Their headers, which contain the lengths, are written last into reserved space.
#[derive(Debug)]
pub(crate) struct NpyWriter {
    ids: StagedFile,
    /// The offsets, or the number of ids of each document.
    offsets: Result<StagedFile, usize>,
    dtype: Dtype,
    tokens: u64,
    documents: u64,
}

/// Size of an `.npy` header: the smallest multiple of 64, which the format requires, that fits any length.
pub(crate) const NPY_HEADER: usize = 128;

/// The header of a one-dimensional little-endian array, version 1.0.
pub(crate) fn npy_header(descr: &str, length: u64) -> [u8; NPY_HEADER] {
    npy_header_of_shape(descr, &format!("{length},"))
}

/// The header of a two-dimensional one.
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

impl NpyWriter {
    fn new(mut ids: StagedFile, mut offsets: Result<StagedFile, usize>, dtype: Dtype) -> Result<Self, OutputError> {
        ids.put(|bytes| bytes.extend_from_slice(&[0; NPY_HEADER]))?;
        if let Ok(offsets) = &mut offsets {
            offsets.put(|bytes| {
                bytes.extend_from_slice(&[0; NPY_HEADER]);
                bytes.extend_from_slice(&0u64.to_le_bytes());
            })?;
        }
        Ok(Self { ids, offsets, dtype, tokens: 0, documents: 0 })
    }

    fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        run.put_ids(self.dtype, &mut self.ids)?;
        self.ends(run.lengths())
    }

    /// Appends the ends of documents with so many ids.
    fn ends(&mut self, lengths: impl Iterator<Item = usize>) -> Result<(), OutputError> {
        for length in lengths {
            self.tokens += length as u64;
            self.documents += 1;
            if let Ok(offsets) = &mut self.offsets {
                offsets.put(|bytes| bytes.extend_from_slice(&self.tokens.to_le_bytes()))?;
            }
        }
        Ok(())
    }

    fn complete(mut self) -> Result<Vec<(Complete, Option<&'static str>)>, OutputError> {
        let descr = match self.dtype {
            Dtype::U16 => "<u2",
            Dtype::U32 => "<u4",
            Dtype::I32 => "<i4",
        };
        let mut offsets = match self.offsets {
            Ok(offsets) => offsets,
            Err(row) => {
                self.ids.replace_head(&npy_header_of_rows(descr, self.documents, row))?;
                return Ok(vec![(self.ids.complete()?, Some(self.dtype.name()))]);
            }
        };
        self.ids.replace_head(&npy_header(descr, self.tokens))?;
        offsets.replace_head(&npy_header("<u8", self.documents + 1))?;
        Ok(vec![(self.ids.complete()?, Some(self.dtype.name())), (offsets.complete()?, Some("u64"))])
    }
}

/// Megatron's `.bin` and `.idx`.
///
/// The index has three consecutive tables, and only the first, the lengths, can be written as documents arrive. The other two follow at
/// the end, computed from the lengths read back: memory does not grow with the number of documents.
#[derive(Debug)]
pub(crate) struct MegatronWriter {
    bin: StagedFile,
    idx: StagedFile,
    dtype: Dtype,
    documents: u64,
}

/// Size of the header of an index.
pub(crate) const IDX_HEADER: usize = 34;

/// The header of an index of documents that are one sequence each.
pub(crate) fn idx_header(dtype: Dtype, documents: u64) -> [u8; IDX_HEADER] {
    let mut header = [0; IDX_HEADER];
    header[..9].copy_from_slice(b"MMIDIDX\0\0");
    header[9..17].copy_from_slice(&1u64.to_le_bytes());
    header[17] = if dtype == Dtype::U16 { 8 } else { 4 };
    header[18..26].copy_from_slice(&documents.to_le_bytes());
    header[26..].copy_from_slice(&(documents + 1).to_le_bytes());
    header
}

impl MegatronWriter {
    /// Maximum number of ids per document: lengths are i32.
    pub(crate) const LONGEST: usize = i32::MAX as usize;

    fn new(bin: StagedFile, mut idx: StagedFile, dtype: Dtype) -> Result<Self, OutputError> {
        idx.put(|bytes| bytes.extend_from_slice(&[0; IDX_HEADER]))?;
        Ok(Self { bin, idx, dtype, documents: 0 })
    }

    fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        run.put_ids(self.dtype, &mut self.bin)?;
        self.ends(run.lengths())
    }

    /// Appends the lengths of documents.
    fn ends(&mut self, lengths: impl Iterator<Item = usize>) -> Result<(), OutputError> {
        for length in lengths {
            self.documents += 1;
            self.idx.put(|bytes| bytes.extend_from_slice(&(length as u32).to_le_bytes()))?;
        }
        Ok(())
    }

    fn complete(mut self) -> Result<Vec<(Complete, Option<&'static str>)>, OutputError> {
        self.idx.flush()?;
        let staged = staged_name(self.idx.target());
        let staging = self.idx.staging().clone();
        let storage = staging.storage();
        let lengths = storage.open(&staged).and_then(|mut file| {
            file.seek(SeekFrom::Start(IDX_HEADER as u64))?;
            Ok(BufReader::with_capacity(1 << 18, StorageReader { storage, file }))
        });
        let mut lengths = lengths.map_err(|error| self.idx.failed("cannot read back", error))?;
        let mut pointer = 0;
        for _ in 0..self.documents {
            let mut length = [0; 4];
            lengths.read_exact(&mut length).map_err(|error| self.idx.failed("cannot read back", error))?;
            self.idx.put(|bytes| bytes.extend_from_slice(&u64::to_le_bytes(pointer)))?;
            pointer += u64::from(u32::from_le_bytes(length)) * self.dtype.size() as u64;
        }
        for document in 0..=self.documents {
            self.idx.put(|bytes| bytes.extend_from_slice(&document.to_le_bytes()))?;
        }
        self.idx.replace_head(&idx_header(self.dtype, self.documents))?;
        Ok(vec![(self.bin.complete()?, Some(self.dtype.name())), (self.idx.complete()?, None)])
    }
}

//! Megatron's `.bin` and `.idx`.
//!
//! The index has three consecutive tables, and only the first, the lengths, can be written as documents arrive. The other two follow at
//! the end, computed from the lengths read back: memory does not grow with the number of documents.

use std::io::{BufReader, Read, Seek, SeekFrom};

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles};
use crate::format::Dtype;
use crate::output::OutputError;
use crate::output::file::StagedFile;
use crate::output::names::staged_name;
use crate::output::storage::Stored;
use crate::shard::{DatasetError, Reading, Shard, Visitor};

pub(super) struct Megatron;

/// Size of the header of an index.
const HEADER: usize = 34;

/// The header of an index of documents that are one sequence each.
fn header(dtype: Dtype, documents: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..9].copy_from_slice(b"MMIDIDX\0\0");
    header[9..17].copy_from_slice(&1u64.to_le_bytes());
    header[17] = if dtype == Dtype::U16 { 8 } else { 4 };
    header[18..26].copy_from_slice(&documents.to_le_bytes());
    header[26..].copy_from_slice(&(documents + 1).to_le_bytes());
    header
}

impl TokenFiles for Megatron {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".bin", ".idx"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::I32]
    }

    fn narrow(&self) -> u32 {
        // Megatron's own rule keeps the upper 36 values of u16 free.
        65_498
    }

    fn longest(&self) -> usize {
        // Lengths are i32.
        i32::MAX as usize
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        let (bin, mut idx) = (files.next(), files.next());
        idx.put(|bytes| bytes.extend_from_slice(&[0; HEADER]))?;
        Ok(Box::new(MegatronWriter { bin, idx, dtype: begin.dtype, documents: 0 }))
    }

    fn documents(&self, shard: &Shard<'_>) -> Result<Option<u64>, DatasetError> {
        Ok(Some(Reading::open(&shard.paths[1], 0)?.elements(HEADER + 8, 20)?))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = shard.dtype()?;
        let mut data = Reading::open(&shard.paths[0], 0)?;
        let count = data.elements(0, dtype.size())?;
        let path = &shard.paths[1];
        let mut lengths = Reading::open(path, 0)?;
        let documents = lengths.elements(HEADER + 8, 20)?;
        lengths.check_header(&header(dtype, documents))?;
        let mut pointers = Reading::open(path, HEADER as u64 + 4 * documents)?;
        let mut numbers = Reading::open(path, HEADER as u64 + 12 * documents)?;
        let wrong =
            |number: u64, what: String| Err(DatasetError::damaged(path, format_args!("document {number}: {what}")));
        let (mut block, mut ids, mut at) = (Vec::new(), Vec::new(), 0);
        for number in 0..documents {
            let mut length = [0; 4];
            lengths.fill(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            let pointer = pointers.next_u64()?;
            if pointer != at * dtype.size() as u64 {
                return wrong(number, format!("it begins at byte {pointer}, not {}", at * dtype.size() as u64));
            }
            if at + length > count {
                return wrong(number, format!("it ends beyond the last id (the number of ids is {count})"));
            }
            let index = numbers.next_u64()?;
            if index != number {
                return wrong(number, format!("it begins with sequence {index}, not {number}"));
            }
            data.ids(length, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            at += length;
        }
        if at == count { Ok(()) } else { wrong(documents, format!("the documents account for {at} of {count} ids")) }
    }
}

#[derive(Debug)]
struct MegatronWriter {
    bin: StagedFile,
    idx: StagedFile,
    dtype: Dtype,
    documents: u64,
}

impl FormatWriter for MegatronWriter {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        Some(&mut self.bin)
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.bin.put_ids(ids, self.dtype)
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        self.documents += 1;
        self.idx.put(|bytes| bytes.extend_from_slice(&(ending.ids as u32).to_le_bytes()))
    }

    fn finish(mut self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        self.idx.flush()?;
        let staged = staged_name(self.idx.target());
        let staging = self.idx.staging().clone();
        let storage = staging.storage();
        let opened = storage.open(&staged).and_then(|mut file| file.seek(SeekFrom::Start(HEADER as u64)).map(|_| file));
        let lengths = opened.map_err(|error| self.idx.failed("cannot read back", error))?;
        let mut lengths = BufReader::with_capacity(1 << 18, Stored(storage, &lengths));
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
        self.idx.replace_head(&header(self.dtype, self.documents))?;
        Ok(vec![(self.bin.complete()?, Some(self.dtype.name())), (self.idx.complete()?, None)])
    }
}

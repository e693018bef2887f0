//! Sorts documents by a key, in bounded memory.
//!
//! Documents are collected up to a number of bytes, sorted, and written to one file as a *run*. At the end all runs are merged. If
//! everything fits, no file is made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use super::document::Document;
use super::error::{OutputError, OutputErrorKind};
use super::staging::Staging;
use super::storage::write_all;
use crate::kept::Kept;

/// The smallest buffer of a run that is merged, and the largest.
const BUFFER: Range<usize> = 4 << 10..1 << 20;

/// Bytes per write call.
const BLOCK: usize = 1 << 20;

/// A document with its place in the order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) order: Order,
    /// The part of the output.
    pub(crate) part: usize,
    pub(crate) ids: Vec<u32>,
    pub(crate) mask: Vec<u8>,
    pub(crate) kept: Kept,
}

impl Placed {
    pub(crate) fn document(&self) -> Document<'_> {
        Document { ids: &self.ids, mask: &self.mask, kept: self.kept.values() }
    }
}

/// A key, made unique by the index of the input and the number of the document there.
pub(crate) type Order = (u64, u32, u64);

/// Bytes of the head of a record: its order, and five numbers.
const HEAD: usize = 8 + 4 + 8 + 5 * 8;

/// A document as bytes: its head, ids, masks, ends of the kept values and their bytes.
fn put((key, file, number): Order, part: usize, Document { ids, mask, kept }: Document<'_>, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&key.to_le_bytes());
    bytes.extend_from_slice(&file.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    for number in [part, ids.len(), mask.len(), kept.len(), kept.bytes().len()] {
        bytes.extend_from_slice(&(number as u64).to_le_bytes());
    }
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    bytes.extend_from_slice(mask);
    kept.ends().for_each(|end| bytes.extend_from_slice(&(end as u64).to_le_bytes()));
    bytes.extend_from_slice(kept.bytes());
}

/// Bytes that a document takes, with its entry.
fn size_of_record(Document { ids, mask, kept }: Document<'_>) -> usize {
    HEAD + 4 * ids.len() + mask.len() + 8 * kept.len() + kept.bytes().len() + size_of::<(Order, Range<usize>)>()
}

/// Documents that wait for their order.
#[derive(Debug)]
pub(crate) struct Spill {
    memory: usize,
    staging: Staging,
    path: PathBuf,
    /// Collected documents, with the place of each in `bytes`.
    entries: Vec<(Order, Range<usize>)>,
    bytes: Vec<u8>,
    /// The runs in the file.
    file: Option<File>,
    runs: Vec<Range<u64>>,
}

impl Spill {
    /// Collects up to `memory` bytes at a time; a larger document is a run by itself. The merge takes twice as much.
    pub(crate) fn new(memory: usize, staging: Staging, path: PathBuf) -> Self {
        Self { memory, staging, path, entries: Vec::new(), bytes: Vec::new(), file: None, runs: Vec::new() }
    }

    fn failed(&self, doing: &str, error: std::io::Error) -> OutputError {
        self.staging.fail(OutputError::io(OutputErrorKind::Io, doing, &self.path, error))
    }

    pub(crate) fn push(&mut self, order: Order, part: usize, document: Document<'_>) -> Result<(), OutputError> {
        let more = size_of_record(document);
        let held = self.bytes.len() + self.entries.len() * size_of::<(Order, Range<usize>)>();
        if !self.entries.is_empty() && held + more > self.memory {
            self.write_run()?;
        }
        let begin = self.bytes.len();
        put(order, part, document, &mut self.bytes);
        self.entries.push((order, begin..self.bytes.len()));
        Ok(())
    }

    /// Writes the collected documents after the earlier runs.
    fn write_run(&mut self) -> Result<(), OutputError> {
        self.staging.check()?;
        if self.file.is_none() {
            self.file = Some(self.staging.create(self.path.clone())?);
        }
        let file = self.file.as_ref().expect("created above");
        self.entries.sort_unstable_by_key(|(order, _)| *order);
        let begin = self.runs.last().map_or(0, |run| run.end);
        let mut block = Vec::with_capacity(BLOCK.min(self.bytes.len()));
        let write = |block: &mut Vec<u8>| {
            let written = write_all(self.staging.storage(), file, block);
            block.clear();
            written
        };
        let mut result = Ok(());
        for (_, range) in &self.entries {
            if block.len() + range.len() > BLOCK {
                result = result.and_then(|()| write(&mut block));
            }
            block.extend_from_slice(&self.bytes[range.clone()]);
        }
        result.and_then(|()| write(&mut block)).map_err(|error| self.failed("cannot write", error))?;
        self.runs.push(begin..begin + self.bytes.len() as u64);
        self.entries.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Calls `each` with all documents in order, and removes the file.
    pub(crate) fn drain(mut self, each: &mut dyn FnMut(Placed) -> Result<(), OutputError>) -> Result<(), OutputError> {
        if self.file.is_none() {
            self.entries.sort_unstable_by_key(|(order, _)| *order);
            return self.entries.iter().try_for_each(|(_, range)| {
                let mut record = &self.bytes[range.clone()];
                let taken = |bytes: &mut [u8]| {
                    let (now, rest) = record.split_at(bytes.len());
                    bytes.copy_from_slice(now);
                    record = rest;
                    Ok::<(), OutputError>(())
                };
                each(read(taken)?)
            });
        }
        if !self.entries.is_empty() {
            self.write_run()?;
        }
        (self.entries, self.bytes) = (Vec::new(), Vec::new());
        let buffer = (2 * self.memory / self.runs.len().max(1)).clamp(BUFFER.start, BUFFER.end);
        let file = self.file.take().expect("a file with runs");
        let mut readers: Vec<RunReader> = self.runs.iter().map(|run| RunReader::new(run.clone(), buffer)).collect();
        let mut next = BinaryHeap::new();
        for (index, reader) in readers.iter_mut().enumerate() {
            next.extend(reader.peek(&file, &self)?.map(|order| Reverse((order, index))));
        }
        while let Some(Reverse((_, index))) = next.pop() {
            let reader = &mut readers[index];
            let document = read(|bytes| reader.read(bytes, &file, &self))?;
            each(document)?;
            next.extend(reader.peek(&file, &self)?.map(|order| Reverse((order, index))));
        }
        drop(file);
        self.staging.remove(&self.path)
    }
}

/// Reads a document as [`put`] wrote it.
fn read(mut taken: impl FnMut(&mut [u8]) -> Result<(), OutputError>) -> Result<Placed, OutputError> {
    let mut head = [0; HEAD];
    taken(&mut head)?;
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let [part, ids, masks, ends, bytes] = [20, 28, 36, 44, 52].map(|at| number(at) as usize);
    let mut raw = vec![0; 4 * ids];
    taken(&mut raw)?;
    let ids = raw.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
    let mut mask = vec![0; masks];
    taken(&mut mask)?;
    raw.resize(8 * ends, 0);
    taken(&mut raw[..8 * ends])?;
    let ends = raw[..8 * ends].as_chunks().0.iter().map(|end| u64::from_le_bytes(*end) as usize).collect();
    let mut kept = Kept { bytes: vec![0; bytes], ends };
    taken(&mut kept.bytes)?;
    Ok(Placed { order: order_in(&head), part, ids, mask, kept })
}

fn order_in(head: &[u8; HEAD]) -> Order {
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    (number(0), u32::from_le_bytes(head[8..12].try_into().expect("four bytes")), number(12))
}

/// Reads a run from front to back.
struct RunReader {
    /// The bytes of the file that are not in the buffer yet.
    rest: Range<u64>,
    buffer: Vec<u8>,
    at: usize,
    size: usize,
}

impl RunReader {
    fn new(run: Range<u64>, size: usize) -> Self {
        Self { rest: run, buffer: Vec::new(), at: 0, size }
    }

    /// Fills the buffer, unless it has the needed bytes or nothing is left.
    fn fill(&mut self, needed: usize, file: &File, spill: &Spill) -> Result<(), OutputError> {
        if self.buffer.len() - self.at >= needed || self.rest.is_empty() {
            return Ok(());
        }
        spill.staging.check()?;
        self.buffer.drain(..self.at);
        self.at = 0;
        let storage = spill.staging.storage();
        let mut file = file;
        let mut filled = self.buffer.len();
        let more = (self.rest.end - self.rest.start).min(self.size.max(needed) as u64) as usize;
        self.buffer.resize(filled + more, 0);
        file.seek(SeekFrom::Start(self.rest.start)).map_err(|error| spill.failed("cannot read back", error))?;
        while filled < self.buffer.len() {
            let read = storage.read(file, &mut self.buffer[filled..]);
            match read.map_err(|error| spill.failed("cannot read back", error))? {
                0 => {
                    let cut = std::io::ErrorKind::UnexpectedEof.into();
                    return Err(spill.failed("cannot read back", cut));
                }
                read => filled += read,
            }
        }
        self.rest.start += more as u64;
        Ok(())
    }

    fn read(&mut self, bytes: &mut [u8], file: &File, spill: &Spill) -> Result<(), OutputError> {
        for part in bytes.chunks_mut(self.size) {
            self.fill(part.len(), file, spill)?;
            part.copy_from_slice(&self.buffer[self.at..self.at + part.len()]);
            self.at += part.len();
        }
        Ok(())
    }

    /// The order of the next document, if there is one.
    fn peek(&mut self, file: &File, spill: &Spill) -> Result<Option<Order>, OutputError> {
        self.fill(HEAD, file, spill)?;
        let head = self.buffer[self.at..].first_chunk();
        Ok(head.map(order_in))
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::{Layout, Targets};
    use super::*;
    use crate::format::Format;

    #[test]
    fn documents_come_back_in_order_whatever_the_memory() {
        let document = |number: u64| Placed {
            order: (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60, number as u32 % 3, number),
            part: number as usize % 2,
            ids: vec![number as u32; (number * number % 97) as usize * if number == 50 { 1_000 } else { 1 }],
            mask: vec![1; number as usize % 4],
            kept: Kept {
                bytes: vec![7; if number.is_multiple_of(3) { 0 } else { number as usize % 5 }],
                ends: vec![number as usize % 5; number as usize % 3],
            },
        };
        let mut expected: Vec<Placed> = (0..400).map(document).collect();
        expected.sort_by_key(|document| document.order);
        for memory in [1, 100, 5_000, 60_000, 1 << 30] {
            let directory = tempfile::tempdir().unwrap();
            let staging = Staging::default();
            let layout = Layout { format: Format::Npy, has_mask: false, has_kept: false, is_packed: false };
            let targets = Targets::new(&directory.path().join("out"), &[], layout, false);
            staging.open(&targets, false, false).unwrap();
            let path = directory.path().join("out.shuffle.windrow-part");
            let mut spill = Spill::new(memory, staging.clone(), path.clone());
            (0..400)
                .try_for_each(|number| {
                    let placed = document(number);
                    spill.push(placed.order, placed.part, placed.document())
                })
                .unwrap();
            assert_eq!(path.exists(), memory < 1 << 30);
            let mut found = Vec::new();
            spill
                .drain(&mut |document| {
                    found.push(document);
                    Ok(())
                })
                .unwrap();
            assert!(found == expected, "{memory}");
            assert!(!path.exists());
            assert!(staging.abandon());
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }
}

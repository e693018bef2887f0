//! Sorts documents by a key, in bounded memory.
//!
//! Documents are collected up to a number of bytes, sorted, and written to one file as a *run*. At the end all runs are merged. If
//! everything fits, no file is made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;

use super::document::Document;
use super::error::OutputError;
use super::staging::Staging;
use super::storage::Stored;
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

    fn failed(&self, doing: &str, error: io::Error) -> OutputError {
        self.staging.failed(doing, &self.path, error)
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
            let written = Stored(self.staging.storage(), file).write_all(block);
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
                let (head, mut rest) = self.bytes[range.clone()].split_first_chunk().expect("a record has a head");
                each(read(head, &mut rest).expect("a whole record"))
            });
        }
        if !self.entries.is_empty() {
            self.write_run()?;
        }
        (self.entries, self.bytes) = (Vec::new(), Vec::new());
        let buffer = (2 * self.memory / self.runs.len().max(1)).clamp(BUFFER.start, BUFFER.end);
        let file = self.file.take().expect("a file with runs");
        let run = |rest: &Range<u64>| {
            BufReader::with_capacity(buffer, Run { file: Stored(self.staging.storage(), &file), rest: rest.clone() })
        };
        let mut runs: Vec<BufReader<Run<'_>>> = self.runs.iter().map(run).collect();
        let failed = |error| self.failed("cannot read back", error);
        let mut next = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            next.extend(head_of_next(run).map_err(failed)?.map(|head| Reverse((order_in(&head), index, head))));
        }
        while let Some(Reverse((_, index, head))) = next.pop() {
            let run = &mut runs[index];
            each(read(&head, run).map_err(failed)?)?;
            next.extend(head_of_next(run).map_err(failed)?.map(|head| Reverse((order_in(&head), index, head))));
        }
        drop(runs);
        drop(file);
        self.staging.remove(&self.path)
    }
}

/// Reads the rest of a document as [`put`] wrote it, after its head.
fn read(head: &[u8; HEAD], rest: &mut impl Read) -> io::Result<Placed> {
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let [part, ids, masks, ends, bytes] = [20, 28, 36, 44, 52].map(|at| number(at) as usize);
    let mut raw = vec![0; 4 * ids];
    rest.read_exact(&mut raw)?;
    let ids = raw.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
    let mut mask = vec![0; masks];
    rest.read_exact(&mut mask)?;
    raw.resize(8 * ends, 0);
    rest.read_exact(&mut raw[..8 * ends])?;
    let ends = raw[..8 * ends].as_chunks().0.iter().map(|end| u64::from_le_bytes(*end) as usize).collect();
    let mut kept = Kept { bytes: vec![0; bytes], ends };
    rest.read_exact(&mut kept.bytes)?;
    Ok(Placed { order: order_in(head), part, ids, mask, kept })
}

fn order_in(head: &[u8; HEAD]) -> Order {
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    (number(0), u32::from_le_bytes(head[8..12].try_into().expect("four bytes")), number(12))
}

/// A run, read from front to back.
struct Run<'a> {
    file: Stored<'a>,
    /// The bytes of the file that were not read yet.
    rest: Range<u64>,
}

impl Read for Run<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX));
        let Stored(_, mut file) = self.file;
        file.seek(SeekFrom::Start(self.rest.start))?;
        let read = self.file.read(&mut bytes[..most])?;
        self.rest.start += read as u64;
        Ok(read)
    }
}

/// The head of the next document of a run, if there is one.
fn head_of_next(run: &mut BufReader<Run<'_>>) -> io::Result<Option<[u8; HEAD]>> {
    if run.buffer().is_empty() && run.get_ref().rest.is_empty() {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    run.read_exact(&mut head)?;
    Ok(Some(head))
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

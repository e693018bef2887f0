//! Batches of records, and their filling.

use std::mem::size_of;

use super::digest::Prefix;
use super::position::{LastRecord, Origin, Position};
use super::report::FileReport;
use super::{Format, InputError};
use crate::engine::has_headroom_and;
use crate::kept::Kept;

/// One raw record of a batch: a document, unless its text is bad.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
///
/// let file = InputFile::from_reader("memory", &b"one\n\ntwo"[..], Format::Jsonl, None);
/// let batch = Reader::new(vec![file], 1 << 20).next_batch(Batch::default(), &mut |_| Ok(()))?.expect("two records");
/// let record = batch.records[1];
/// assert_eq!((record.line, record.offset, record.len), (3, 5, 3));
/// assert_eq!(batch.bytes_of(&record), b"two");
/// # Ok::<(), windrow_tokenizers::input::InputError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index of its file in the reader's list.
    pub file: u32,
    /// The meaning of its bytes.
    pub format: Format,
    /// Line of its first byte, 1-based; for [`Format::Parquet`], its row.
    pub line: u64,
    /// Number of bytes before it in the decompressed file, including a byte order mark; for [`Format::Parquet`], number of rows before it.
    pub offset: u64,
    /// Start of the record in [`Batch::bytes`].
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
    /// True if the document continues in the next record: see [`Reader::split_texts`](super::Reader::split_texts) and
    /// [`Reader::split_json_lines`](super::Reader::split_json_lines).
    pub is_open: bool,
    /// Index of the first text column that is null in its row. With such a column the record is not a document.
    pub null: Option<u16>,
}

/// Whole records in input order. Pass a used batch to [`Reader::next_batch`](super::Reader::next_batch), which reuses its memory.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
///
/// let file = InputFile::from_reader("memory", &b"one\ntwo\nthree"[..], Format::Lines, None);
/// let mut reader = Reader::new(vec![file], 8);
/// let (mut batch, mut lines) = (Batch::default(), Vec::new());
/// while let Some(next) = reader.next_batch(batch, &mut |_| Ok(()))? {
///     lines.extend(next.records.iter().map(|record| next.bytes_of(record).to_vec()));
///     batch = next; // its memory is used again
/// }
/// assert_eq!(lines, [&b"one"[..], b"two", b"three"]);
/// # Ok::<(), windrow_tokenizers::input::InputError>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    /// The bytes of the records; some bytes belong to no record.
    pub bytes: Vec<u8>,
    /// The records, one or more.
    pub records: Vec<Record>,
    /// The values of the kept columns of Parquet files: the values of record `i` begin at index `i` times the number of kept fields.
    pub kept: Kept,
    /// Memory requested through `hold` for this batch, in bytes.
    pub held: usize,
    /// Bytes read since the previous batch, as stored (compressed, if the files are).
    pub stored: u64,
    /// Files read to their end since the previous batch.
    pub(crate) finished: Vec<FileReport>,
    pub(super) origin: Origin,
}

impl Batch {
    /// The bytes of one of its records.
    ///
    /// # Panics
    /// If `record` is from a larger batch.
    pub fn bytes_of(&self, record: &Record) -> &[u8] {
        &self.bytes[record.start..record.start + record.len]
    }

    /// The position after the record with this index. A complete text is the last record of its file.
    pub(crate) fn position_after(&self, index: usize) -> Position {
        let record = &self.records[index];
        if record.format == Format::Text {
            return Position { file: record.file + 1, last: None };
        }
        let prefix = match &self.origin {
            origin if origin.file == record.file => origin.prefix.clone(),
            _ => Prefix::default(),
        };
        let number = self.number_of(index);
        Position {
            file: record.file,
            last: Some(LastRecord { offset: record.offset, line: record.line, number, prefix }),
        }
    }

    /// The number of the record with this index within its file, from 1.
    pub(crate) fn number_of(&self, index: usize) -> u64 {
        let record = &self.records[index];
        if record.format == Format::Text {
            return 1;
        }
        let before = if self.origin.file == record.file { self.origin.records } else { 0 };
        let first = self.records[..index].partition_point(|other| other.file < record.file);
        before + (index - first) as u64 + 1
    }
}

/// The answer of a `hold` that grants no more memory because the run ends.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Format, InputError, InputFile, Reader, Stopped};
///
/// let file = InputFile::from_reader("memory", &b"one"[..], Format::Lines, None);
/// let mut reader = Reader::new(vec![file], 1 << 20);
/// let batch = reader.next_batch(Batch::default(), &mut |_| Err(Stopped));
/// assert!(matches!(batch, Err(InputError::Stopped)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl From<Stopped> for InputError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// The progress of a file.
pub(super) enum Advance {
    /// The batch takes no more records.
    Full,
    /// The file's last record is in the batch.
    Finished,
}

/// Buffers that the next file uses again.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) buffer: Vec<u8>,
    pub(super) unread: Vec<u8>,
}

/// A file that is being read.
pub(super) trait OpenFile: Send {
    /// Bytes read of the file as stored.
    fn stored(&self) -> u64;

    /// Size as stored in bytes, including unread bytes, if it is known.
    fn size(&self) -> u64;

    /// The state of the file that the next batch needs.
    fn origin(&mut self) -> Origin;

    /// Skips everything up to the end of a record.
    fn pass(&mut self, last: LastRecord, filling: &mut Filling<'_>) -> Result<(), InputError>;

    /// Puts records into the batch.
    fn advance(&mut self, filling: &mut Filling<'_>) -> Result<Advance, InputError>;

    /// Completes the report of a file that was read to its end.
    fn close(self: Box<Self>, spare: &mut Spare) -> Result<FileReport, InputError>;
}

/// A batch that is being filled.
pub(super) struct Filling<'h> {
    pub(super) batch: Batch,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) batch_bytes: usize,
    pub(super) hold: &'h mut dyn FnMut(usize) -> Result<(), Stopped>,
}

impl<'h> Filling<'h> {
    pub(super) fn begin(
        recycled: Batch,
        batch_bytes: usize,
        hold: &'h mut dyn FnMut(usize) -> Result<(), Stopped>,
    ) -> Result<Self, InputError> {
        let Batch { mut bytes, mut records, mut kept, .. } = recycled;
        records.clear();
        if kept.memory() > batch_bytes {
            kept = Kept::default();
        }
        kept.bytes.clear();
        kept.ends.clear();
        let held = batch_bytes + records.capacity() * size_of::<Record>() + kept.memory();
        hold(held)?;
        if bytes.len() > batch_bytes {
            bytes.truncate(batch_bytes);
        }
        // A batch that once held one huge record must not keep its memory.
        bytes.shrink_to(batch_bytes);
        let batch = Batch { bytes, records, kept, held, ..Batch::default() };
        let mut filling = Self { batch, start: 0, end: 0, batch_bytes, hold };
        if !filling.widen_to(batch_bytes) {
            return Err(InputError::NoMemory { bytes: batch_bytes });
        }
        Ok(filling)
    }

    pub(super) fn window(&self) -> usize {
        self.batch.bytes.len()
    }

    /// True if the next record belongs to the next batch although the window may have space left. One case is a batch with a single
    /// record that outgrew it. The other is a batch of records so short that their entries need as much memory as their
    /// bytes.
    pub(super) fn is_full(&self) -> bool {
        let records = self.batch.records.len();
        let more = records * size_of::<Record>() + self.batch.kept.bytes.len();
        records > 0 && (self.window() > self.batch_bytes || more >= self.batch_bytes)
    }

    /// Makes the window `bytes` long; false if there is no memory for it.
    fn widen_to(&mut self, bytes: usize) -> bool {
        let vec = &mut self.batch.bytes;
        let grows = bytes > vec.capacity();
        if vec.try_reserve_exact(bytes - vec.len()).is_err() || (grows && !has_headroom_and(0)) {
            return false;
        }
        vec.resize(bytes, 0);
        true
    }

    pub(super) fn grow(&mut self, by: usize, name: &str, line: u64) -> Result<(), InputError> {
        (self.hold)(by)?;
        self.batch.held += by;
        let window = self.window().checked_add(by);
        if window.is_some_and(|window| self.widen_to(window)) {
            return Ok(());
        }
        Err(InputError::TooLarge { name: name.into(), line, bytes: self.end - self.start })
    }

    /// Adds the values of the kept fields of the record that is added next.
    pub(super) fn keep(&mut self, values: &Kept, name: &str, line: u64) -> Result<(), InputError> {
        let ends = (self.batch.records.len() + 1) * values.ends.len();
        let bytes = self.batch.kept.bytes.len() + values.bytes.len();
        let kept = &mut self.batch.kept;
        let more_bytes = grown(kept.bytes.capacity(), bytes);
        let more_ends = grown(kept.ends.capacity(), ends);
        let more = more_bytes + more_ends * size_of::<usize>();
        if more > 0 {
            (self.hold)(more)?;
            self.batch.held += more;
            let reserved = kept.bytes.try_reserve_exact(more_bytes + kept.bytes.capacity() - kept.bytes.len());
            let reserved =
                reserved.and_then(|()| kept.ends.try_reserve_exact(more_ends + kept.ends.capacity() - kept.ends.len()));
            reserved.map_err(|_| InputError::TooLarge { name: name.into(), line, bytes })?;
        }
        // Records of other files before it have none.
        kept.ends.resize(ends - values.ends.len(), kept.bytes.len());
        kept.append(values.values());
        Ok(())
    }

    /// Adds a record of the file with this name.
    pub(super) fn push(&mut self, record: Record, name: &str) -> Result<(), InputError> {
        let records = &mut self.batch.records;
        if records.len() == records.capacity() {
            let more = records.len().max(16);
            let bytes = more * size_of::<Record>();
            (self.hold)(bytes)?;
            self.batch.held += bytes;
            records.try_reserve_exact(more).map_err(|_| InputError::TooLarge {
                name: name.into(),
                line: record.line,
                bytes,
            })?;
        }
        records.push(record);
        Ok(())
    }
}

/// The growth in bytes of a buffer of this capacity that must hold `needed` bytes.
fn grown(capacity: usize, needed: usize) -> usize {
    if needed > capacity { (needed - capacity).max(capacity).max(64) } else { 0 }
}

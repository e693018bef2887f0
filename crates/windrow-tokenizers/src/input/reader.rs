//! Cuts streams into batches of whole records.
//!
//! The buffer of a batch is filled from the front, and cut while it is filled:
//!
//! ```text
//! bytes:  | record | record | rec|ord ...            |
//!                           ^start    ^end (filled)   ^window (granted by the caller)
//! ```
//!
//! When the window is full, `start..end` is the beginning of a record that did not fit. This part is *unread*: the file keeps it and delivers
//! it again first. The window grows only if the batch has no record yet. Each byte is searched for newlines once, so a long record
//! costs no more per byte than a short one.

use std::ops::Range;
use std::sync::Arc;
use std::vec;

use memchr::{memchr, memchr_iter};

use super::batch::{Advance, Batch, Filling, OpenFile, Record, Spare, Stopped};
use super::frame::{Framer, Piece, Unframed, framer, is_blank};
use super::position::{Continuation, LastRecord, Origin};
use super::report::FileReport;
use super::stream::{BUFFER, Stream};
use super::tolerance::Tolerance;
use super::{Fields, Format, InputError, InputFile, columns};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file with a zero byte among its first bytes is binary. git has the same rule.
const SNIFFED: usize = 8000;

/// A first line of JSON lines that is longer than this counts as a record.
const FIRST_LINE: usize = 1 << 20;

/// Reads files one after the other and cuts them into batches of records.
///
/// In addition to the batches it holds at most the bytes of one batch (but up to 256 KiB for smaller batches), a buffer of 256 KiB,
/// and the memory of a decompressor. Gzip takes about 64 KiB and bzip2 4 MiB; zstd and xz take up to 128 MiB, according to the window
/// that their file requests.
///
/// ```
/// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
///
/// let texts = ["one", "two"].map(|text| InputFile::from_reader(text, text.as_bytes(), Format::Text, None));
/// let mut reader = Reader::new(texts.into(), 1 << 20);
/// let batch = reader.next_batch(Batch::default(), &mut |_| Ok(()))?.expect("there are two texts");
/// assert_eq!(batch.records.len(), 2);
/// assert!(reader.next_batch(batch, &mut |_| Ok(()))?.is_none());
/// assert_eq!((reader.stored(), reader.reports().len()), (6, 2));
/// # Ok::<(), windrow_tokenizers::input::InputError>(())
/// ```
pub struct Reader {
    waiting: vec::IntoIter<InputFile>,
    opened: u32,
    current: Option<Box<dyn OpenFile>>,
    batch_bytes: usize,
    splits: Splits,
    fields: Fields,
    spare: Spare,
    reports: Vec<FileReport>,
    /// Stored bytes of the finished files, and of all files at the delivery of the last batch.
    stored: u64,
    stored_before: u64,
    failed: bool,
    /// The error after the last complete record of the last batch.
    broken: Option<InputError>,
    /// The record after which the next file continues.
    after: Option<LastRecord>,
    /// True if positions include a prefix of the file that need not be read again.
    is_resumable: bool,
    /// If set, a file that cannot be read does not end the run.
    tolerance: Option<Arc<Tolerance>>,
}

/// The formats whose records are delivered in parts if they are larger than a batch.
#[derive(Clone, Copy, Default)]
struct Splits {
    texts: bool,
    json_lines: bool,
}

impl Splits {
    fn has(self, format: Format) -> bool {
        match format {
            Format::Text | Format::Lines => self.texts,
            Format::Jsonl => self.json_lines,
            Format::Parquet | Format::Warc => false,
        }
    }
}

impl Reader {
    /// A reader of `files`, in this order. The records of a batch have about `batch_bytes` bytes together; a single larger record is a
    /// batch by itself. The batch size changes neither the records nor their order.
    pub fn new(files: Vec<InputFile>, batch_bytes: usize) -> Self {
        Self {
            waiting: files.into_iter(),
            opened: 0,
            current: None,
            batch_bytes: batch_bytes.max(1),
            splits: Splits::default(),
            fields: Fields::default(),
            spare: Spare::default(),
            reports: Vec::new(),
            stored: 0,
            stored_before: 0,
            failed: false,
            broken: None,
            after: None,
            is_resumable: false,
            tolerance: None,
        }
    }

    /// Continues with the next file after a file that cannot be read, and reports it to `tolerance`.
    pub(crate) fn tolerant(mut self, tolerance: Arc<Tolerance>) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Makes the [positions](Batch::position_after) of batches include the part of a file that need not be read again.
    pub(crate) fn resumable(mut self) -> Self {
        self.is_resumable = true;
        self
    }

    /// Numbers the files from this index on. Requires that nothing was read before.
    pub(crate) fn begin_at(&mut self, file: u32) {
        self.opened = file;
    }

    /// Continues at another reader's position, with the files from there on. Requires that nothing was read before.
    pub(crate) fn continue_at(&mut self, continuation: Continuation) {
        let Continuation { position, reports } = continuation;
        self.begin_at(position.file);
        self.stored = reports.iter().map(|report| report.bytes).sum();
        self.reports = reports;
        self.after = position.last;
    }

    /// Delivers a [text](Format::Text) or a [line](Format::Lines) that is larger than a batch in parts of any length: all but its last record
    /// are [open](Record::is_open), and each is a batch by itself. So memory does not grow with the size of a text.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Batch, Format, InputFile, Reader};
    ///
    /// let file = InputFile::from_reader("memory", &b"a text of 21 bytes..."[..], Format::Text, None);
    /// let mut reader = Reader::new(vec![file], 8).split_texts();
    /// let (mut batch, mut text, mut is_open) = (Batch::default(), Vec::new(), true);
    /// while let Some(next) = reader.next_batch(batch, &mut |_| Ok(()))? {
    ///     text.extend_from_slice(next.bytes_of(&next.records[0]));
    ///     (is_open, batch) = (next.records[0].is_open, next);
    /// }
    /// assert_eq!((text.as_slice(), is_open), (&b"a text of 21 bytes..."[..], false));
    /// # Ok::<(), windrow_tokenizers::input::InputError>(())
    /// ```
    pub fn split_texts(mut self) -> Self {
        self.splits.texts = true;
        self
    }

    /// Delivers [JSON lines](Format::Jsonl) in parts too. A part of a line is not JSON.
    pub fn split_json_lines(mut self) -> Self {
        self.splits.json_lines = true;
        self
    }

    /// Reads these columns of Parquet files; without this call the column `text`.
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }

    /// The next batch, or `None` after the last record. `recycled` is a batch that is no longer needed.
    ///
    /// `hold` is called with the number of additional bytes before the batch takes them. It may wait until they are available, or end
    /// the run. Their sum is [`Batch::held`], which the caller releases with the batch. Bytes granted to a call that returns no batch
    /// are free again. `hold` is called with 0 before each read, so that a run ends soon even while no batch grows.
    ///
    /// # Errors
    /// Any error except [`ErrorClass::Usage`](super::ErrorClass::Usage). Afterwards the reader is unusable and returns
    /// [`InputError::Stopped`].
    pub fn next_batch(
        &mut self,
        recycled: Batch,
        hold: &mut dyn FnMut(usize) -> Result<(), Stopped>,
    ) -> Result<Option<Batch>, InputError> {
        if self.failed {
            return Err(InputError::Stopped);
        }
        let filled = self.broken.take().map_or_else(|| self.fill(recycled, hold), Err);
        self.failed = filled.is_err();
        let mut batch = filled?;
        if batch.records.is_empty() {
            return Ok(None);
        }
        let stored = self.stored();
        batch.stored = stored - self.stored_before;
        self.stored_before = stored;
        Ok(Some(batch))
    }

    /// Bytes read so far from all files together, as stored.
    pub fn stored(&self) -> u64 {
        self.stored + self.current.as_ref().map_or(0, |file| file.stored())
    }

    /// The files that were read to their end, in order; all of them once [`next_batch`](Self::next_batch) has returned `None`.
    pub fn reports(&self) -> &[FileReport] {
        &self.reports
    }

    fn fill(
        &mut self,
        recycled: Batch,
        hold: &mut dyn FnMut(usize) -> Result<(), Stopped>,
    ) -> Result<Batch, InputError> {
        let mut filling = Filling::begin(recycled, self.batch_bytes, hold)?;
        let reported = self.reports.len();
        filling.batch.origin = match &mut self.current {
            Some(file) => file.origin(),
            None => Origin { file: self.opened, ..Origin::default() },
        };
        // The first batch of a continued file does not begin with the file's first record.
        if let Some(last) = &self.after {
            (filling.batch.origin.records, filling.batch.origin.prefix) = (last.number, last.prefix.clone());
        }
        while !filling.is_full() {
            match self.advance(&mut filling) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if self.tolerance.is_some() && !matches!(error, InputError::Stopped) => {
                    self.drop_current(&mut filling);
                    if let Some(tolerance) = &self.tolerance {
                        tolerance.fail(self.opened - 1, error);
                    }
                }
                // Complete records precede the error: the first failure in order must not depend on batches.
                Err(error) if !filling.batch.records.is_empty() && !matches!(error, InputError::Stopped) => {
                    self.broken = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        filling.batch.finished = self.reports[reported..].to_vec();
        Ok(filling.batch)
    }

    /// Skips the rest of the current file, with its unread bytes.
    fn drop_current(&mut self, filling: &mut Filling<'_>) {
        self.stored += self.current.take().map_or(0, |file| file.size());
        filling.end = filling.start;
    }

    /// Continues in the current file, or in the next one; false if the batch is full or no file is left.
    fn advance(&mut self, filling: &mut Filling<'_>) -> Result<bool, InputError> {
        let is_given_up = |tolerance: &Arc<Tolerance>| tolerance.is_given_up(self.opened - 1);
        if self.current.is_some() && self.tolerance.as_ref().is_some_and(is_given_up) {
            self.drop_current(filling);
        }
        if self.current.is_none() {
            let Some(file) = self.waiting.next() else { return Ok(false) };
            let index = self.opened;
            self.opened += 1;
            let mut file = if file.format == Format::Parquet {
                columns::open(file, index, &self.fields)?
            } else {
                let frame = framer(file.format, &self.fields);
                let (splits, tolerance) = (self.splits, self.tolerance.clone());
                let mut file = StreamFile::open(file, index, frame, splits, &mut self.spare, tolerance)?;
                if self.is_resumable && file.frame.restarts() && !file.frame.is_whole() {
                    file.stream.keep_prefixes();
                }
                Box::new(file)
            };
            if let Some(last) = self.after.take() {
                file.pass(last, filling)?;
            }
            self.current = Some(file);
        }
        let Some(file) = &mut self.current else { unreachable!("a file was opened above") };
        match file.advance(filling)? {
            Advance::Full => Ok(false),
            Advance::Finished => {
                let report = self.current.take().map(|file| file.close(&mut self.spare)).transpose()?;
                self.stored += report.as_ref().map_or(0, |report| report.bytes);
                self.reports.extend(report);
                Ok(true)
            }
        }
    }
}

/// A file that is read from front to back.
struct StreamFile {
    index: u32,
    format: Format,
    frame: Box<dyn Framer>,
    splits: Splits,
    /// True if the file is treated as text because its kind is unknown.
    is_guessed: bool,
    is_raw: bool,
    tolerance: Option<Arc<Tolerance>>,
    /// True if a part of the next record was delivered.
    is_in_record: bool,
    stream: Stream,
    /// `unread[next..]` precedes the rest of the stream.
    unread: Vec<u8>,
    next: usize,
    /// True if its first bytes were checked, for a byte order mark and for the kind of the file.
    begun: bool,
    /// Line and offset of the next record.
    line: u64,
    offset: u64,
    decompressed: u64,
    documents: u64,
    /// Number of upcoming records that are already known.
    known: u64,
}

impl StreamFile {
    fn open(
        file: InputFile,
        index: u32,
        frame: Box<dyn Framer>,
        splits: Splits,
        spare: &mut Spare,
        tolerance: Option<Arc<Tolerance>>,
    ) -> Result<Self, InputError> {
        let InputFile { format, is_guessed, is_raw, .. } = file;
        let stream = Stream::open(file, std::mem::take(&mut spare.buffer))?;
        let mut unread = std::mem::take(&mut spare.unread);
        unread.clear();
        Ok(Self {
            index,
            format,
            frame,
            splits,
            is_guessed,
            is_raw,
            tolerance,
            is_in_record: false,
            stream,
            unread,
            next: 0,
            begun: false,
            line: 1,
            offset: 0,
            decompressed: 0,
            documents: 0,
            known: 0,
        })
    }

    /// True if a file of JSON lines is read as text when its first line is not a record.
    fn checks_line(&self) -> bool {
        self.format == Format::Jsonl && self.tolerance.as_ref().is_some_and(|tolerance| tolerance.checks_lines())
    }

    /// True if these first bytes of the file are enough to start.
    fn can_begin(&self, bytes: &[u8]) -> bool {
        if self.is_guessed {
            bytes.len() >= SNIFFED
        } else if self.checks_line() {
            bytes.len() >= FIRST_LINE || first_line(bytes).is_some()
        } else {
            bytes.len() >= BYTE_ORDER_MARK.len()
        }
    }

    /// Checks the first bytes of the file.
    fn begin(&mut self, filling: &mut Filling<'_>) -> Result<(), InputError> {
        self.begun = true;
        if !self.is_raw && filling.batch.bytes[filling.start..filling.end].starts_with(BYTE_ORDER_MARK) {
            self.skip(BYTE_ORDER_MARK.len(), filling);
        }
        let bytes = &filling.batch.bytes[filling.start..filling.end];
        if self.is_guessed && bytes[..bytes.len().min(SNIFFED)].contains(&0) {
            return Err(InputError::Binary { name: self.stream.name().into() });
        }
        let line = match first_line(bytes) {
            None if bytes.len() >= FIRST_LINE || is_blank(bytes) => return Ok(()),
            line => line.unwrap_or(bytes),
        };
        if self.checks_line() && self.tolerance.as_ref().is_some_and(|it| !it.has_records(self.index, line)) {
            self.format = Format::Text;
            self.frame = framer(self.format, &Fields::default());
        }
        Ok(())
    }

    /// Number of bytes of the window that can be delivered as a part of a record.
    fn part_in(&self, filling: &Filling<'_>) -> usize {
        let unframed = self.unframed(filling.start, false, filling);
        if self.splits.has(self.format) && self.begun { self.frame.part(unframed) } else { 0 }
    }

    /// Growth in bytes of a window without space for its first record.
    fn growth(&self, filling: &Filling<'_>) -> usize {
        if self.frame.is_whole() && self.begun && self.next == self.unread.len() && self.stream.rest() > 0 {
            // One byte more than the rest, for the read that finds the end.
            return usize::try_from(self.stream.rest()).map_or(usize::MAX, |rest| rest.saturating_add(1));
        }
        // By a quarter: the unused memory stays small compared with a huge record, and it is copied only a few times.
        (filling.window() / 4).max(filling.batch_bytes.clamp(4 << 10, BUFFER))
    }

    /// The bytes of the window that are not cut yet, the first of which were searched before.
    fn unframed<'f>(&self, searched: usize, ended: bool, filling: &'f Filling<'_>) -> Unframed<'f> {
        let bytes = &filling.batch.bytes[filling.start..filling.end];
        Unframed { bytes, searched: searched - filling.start, ended, is_in_record: self.is_in_record }
    }

    fn cut(&mut self, searched: usize, ended: bool, filling: &Filling<'_>) -> Result<Option<Piece>, InputError> {
        let unframed = self.unframed(searched, ended, filling);
        self.frame.cut(unframed).map_err(|bad| InputError::Record {
            name: self.stream.name().into(),
            line: self.line,
            reason: bad.reason,
            hint: bad.hint,
        })
    }

    /// Adds the record in this range of the bytes that are not cut yet.
    fn push(&mut self, record: Range<usize>, is_open: bool, filling: &mut Filling<'_>) -> Result<(), InputError> {
        self.is_in_record = is_open;
        if self.known > 0 {
            self.known -= u64::from(!is_open);
            self.documents += u64::from(!is_open);
            return Ok(());
        }
        if let Some(kept) = self.frame.kept() {
            filling.keep(kept, self.stream.name(), self.line)?;
        }
        let record = Record {
            file: self.index,
            format: self.format,
            line: self.line,
            offset: self.offset + record.start as u64,
            start: filling.start + record.start,
            len: record.len(),
            is_open,
            null: None,
        };
        filling.push(record, self.stream.name())?;
        self.documents += u64::from(!is_open);
        Ok(())
    }

    fn skip(&mut self, bytes: usize, filling: &mut Filling<'_>) {
        filling.start += bytes;
        self.offset += bytes as u64;
    }

    fn read(&mut self, dst: &mut [u8]) -> Result<usize, InputError> {
        if self.next < self.unread.len() {
            let n = dst.len().min(self.unread.len() - self.next);
            dst[..n].copy_from_slice(&self.unread[self.next..self.next + n]);
            self.next += n;
            return Ok(n);
        }
        let n = self.stream.read(dst)?;
        self.decompressed += n as u64;
        Ok(n)
    }

    /// Takes back the bytes of the batch beyond its last record.
    fn keep_unread(&mut self, filling: &mut Filling<'_>) -> Result<(), InputError> {
        let tail = &filling.batch.bytes[filling.start..filling.end];
        if self.next < self.unread.len() {
            // The stream was not read, so the tail was last taken from `unread`.
            self.next -= tail.len();
        } else {
            self.unread.clear();
            self.unread.try_reserve(tail.len()).map_err(|_| InputError::TooLarge {
                name: self.stream.name().into(),
                line: self.line,
                bytes: tail.len(),
            })?;
            self.unread.extend_from_slice(tail);
            self.next = 0;
        }
        filling.end = filling.start;
        Ok(())
    }
}

impl OpenFile for StreamFile {
    fn stored(&self) -> u64 {
        self.stream.stored()
    }

    fn size(&self) -> u64 {
        self.stream.size()
    }

    fn origin(&mut self) -> Origin {
        Origin { file: self.index, records: self.documents, prefix: self.stream.prefix_before(self.offset) }
    }

    /// Skips everything up to the end of a record.
    fn pass(&mut self, last: LastRecord, filling: &mut Filling<'_>) -> Result<(), InputError> {
        if !self.frame.restarts() {
            self.known = last.number;
            return Ok(());
        }
        self.stream.seek(&last.prefix)?;
        self.stream.keep_prefixes();
        self.decompressed = last.prefix.bytes();
        let mut left = last.offset - self.decompressed;
        while left > 0 {
            (filling.hold)(0)?;
            let window = filling.batch.bytes.len();
            let most = usize::try_from(left).map_or(window, |left| left.min(window));
            let read = self.stream.read(&mut filling.batch.bytes[..most])?;
            if read == 0 {
                // The file had this length before.
                return Err(InputError::Changed { name: self.stream.name().into() });
            }
            self.decompressed += read as u64;
            left -= read as u64;
        }
        (self.offset, self.line, self.documents) = (last.offset, last.line, last.number - 1);
        // The last record of a batch may be the end of a line.
        (self.begun, self.known, self.is_in_record) = (true, 1, true);
        Ok(())
    }

    /// Moves records into the batch until it is full or the file ends.
    fn advance(&mut self, filling: &mut Filling<'_>) -> Result<Advance, InputError> {
        // Everything before this position was searched for newlines.
        let mut searched = filling.start;
        let mut ended = false;
        loop {
            if !self.begun && (ended || self.can_begin(&filling.batch.bytes[filling.start..filling.end])) {
                self.begin(filling)?;
                searched = filling.start;
            }
            if self.begun {
                while let Some(piece) = self.cut(searched, ended, filling)? {
                    self.line += piece.newlines[0];
                    if let Some(record) = piece.record {
                        self.push(record, false, filling)?;
                    }
                    self.line += piece.newlines[1];
                    self.skip(piece.bytes, filling);
                    searched = filling.start;
                    if filling.is_full() && !ended {
                        self.keep_unread(filling)?;
                        return Ok(Advance::Full);
                    }
                }
                searched = filling.end;
            }
            if ended {
                return Ok(Advance::Finished);
            }
            if filling.end == filling.window() {
                if !filling.batch.records.is_empty() {
                    self.keep_unread(filling)?;
                    return Ok(Advance::Full);
                }
                let part = self.part_in(filling);
                if part > 0 {
                    let bytes = &filling.batch.bytes[filling.start..filling.start + part];
                    let newlines = memchr_iter(b'\n', bytes).count() as u64;
                    self.push(0..part, true, filling)?;
                    self.line += newlines;
                    self.skip(part, filling);
                    searched = filling.start;
                    if !filling.batch.records.is_empty() {
                        self.keep_unread(filling)?;
                        return Ok(Advance::Full);
                    }
                }
                if filling.start > 0 {
                    // Only blank lines so far.
                    filling.batch.bytes.copy_within(filling.start..filling.end, 0);
                    searched -= filling.start;
                    filling.end -= filling.start;
                    filling.start = 0;
                } else {
                    filling.grow(self.growth(filling), self.stream.name(), self.line)?;
                }
            }
            (filling.hold)(0)?;
            let mut to = filling.window();
            if !self.frame.is_whole() {
                // The bytes after the newline of a huge line are copied away, so limit their number.
                to = to.min(filling.end + BUFFER);
            }
            let read = self.read(&mut filling.batch.bytes[filling.end..to])?;
            filling.end += read;
            ended = read == 0;
        }
    }

    fn close(self: Box<Self>, spare: &mut Spare) -> Result<FileReport, InputError> {
        let (name, compression) = (self.stream.name().to_string(), self.stream.compression());
        let totals = self.stream.finish()?;
        *spare = Spare { buffer: totals.buffer, unread: self.unread };
        Ok(FileReport {
            name,
            format: self.format,
            compression,
            bytes: totals.bytes,
            decompressed_bytes: self.decompressed,
            blake3: totals.blake3,
            documents: self.documents,
        })
    }
}

/// The first complete line that is not blank.
fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let (line, after) = rest.split_at(memchr(b'\n', rest)? + 1);
        if !is_blank(line) {
            return Some(line);
        }
        rest = after;
    }
}

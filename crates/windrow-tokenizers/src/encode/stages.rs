//! The stages, as lanes of [`windrow::overlap`].
//!
//! All lanes process documents in order, and a batch is a tile. The first tile that fails decides: what precedes it is written, what
//! follows it is dropped. So all failures travel with their batch, including those of the reader.
//!
//! The reader feeds the lanes from a thread outside of them: a blocked read cannot be interrupted, and a failed run does not wait for
//! it. The reader may also wait for memory; closing the [`Budget`] ends that wait.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use windrow::overlap::{self, Failure, Feeder};
use windrow::{CancelToken, Pool};

use super::budget::{Budget, Held};
use super::chunk::{Bad, Chunk, Workshop, at_record, put_nulls};
use super::parts::OpenDocument;
use super::{EncodeError, Job, MaxSkipped, Observer};
use crate::document::text_in;
use crate::engine::{Engine, caught};
use crate::input::{Batch, Continuation, Fields, FileReport, Position, Reader, Record};
use crate::json_parts::JsonParts;
use crate::manifest::{Documents, OnError, SkippedDocument};
use crate::output::{Checkpoint, Kept, Output, OutputError, OutputErrorKind, WriteBack};

/// Batches per queue. The budget bounds their memory; this bounds how far one stage runs ahead of the next.
const QUEUE: usize = 2;

/// Number of parts of the output that may wait for write-back before the writer is held up.
const DUE: usize = 2;

/// How long a failed run waits for a reader that is blocked in a read.
const READER_GRACE: Duration = Duration::from_millis(100);

/// Takes runs of consecutive documents: an [`Output`], or its stand-in in tests.
pub(super) trait Sink: Send {
    /// As [`Output::append`].
    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError>;

    /// As [`Output::append_part`].
    fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError>;

    /// As [`Output::discard_parts`].
    fn discard_parts(&mut self) -> Result<(), OutputError>;

    /// As [`Output::documents`].
    fn documents(&self) -> u64;

    /// As [`Output::skip`].
    fn skip(&mut self, document: SkippedDocument) -> Result<(), OutputError>;

    /// As [`Output::keep`].
    fn keep(&mut self, _: &Kept) -> Result<(), OutputError> {
        Ok(())
    }

    /// As [`Output::write_back`].
    fn write_back(&mut self) -> Option<WriteBack> {
        None
    }

    /// As [`Output::end_of_shard`].
    fn end_of_shard(&self, _ids: &[u32], _ends: &[usize]) -> Option<usize> {
        None
    }

    /// As [`Output::is_shard_full`].
    fn is_shard_full(&self) -> bool {
        false
    }

    /// As [`Output::end_shard`].
    fn end_shard(&mut self, _checkpoint: Checkpoint, _reports: &[FileReport]) -> Result<(), OutputError> {
        Ok(())
    }
}

impl Sink for Output {
    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        Output::append(self, ids, ends)
    }

    fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError> {
        Output::append_part(self, ids, ends)
    }

    fn discard_parts(&mut self) -> Result<(), OutputError> {
        Output::discard_parts(self)
    }

    fn documents(&self) -> u64 {
        Output::documents(self)
    }

    fn skip(&mut self, document: SkippedDocument) -> Result<(), OutputError> {
        Output::skip(self, document)
    }

    fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        Output::keep(self, kept)
    }

    fn write_back(&mut self) -> Option<WriteBack> {
        Output::write_back(self)
    }

    fn end_of_shard(&self, ids: &[u32], ends: &[usize]) -> Option<usize> {
        Output::end_of_shard(self, ids, ends)
    }

    fn is_shard_full(&self) -> bool {
        Output::is_shard_full(self)
    }

    fn end_shard(&mut self, checkpoint: Checkpoint, reports: &[FileReport]) -> Result<(), OutputError> {
        Output::end_shard(self, checkpoint, reports)
    }
}

/// The result of the stages.
pub(super) struct Run<S> {
    pub(super) account: Account,
    /// The sink, unless its stage panicked.
    pub(super) sink: Option<S>,
    pub(super) peak: usize,
    pub(super) stdin_looks_like_json_lines: bool,
    pub(super) end: Result<Vec<FileReport>, EncodeError>,
}

/// The account of the documents so far, in order.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) documents: Documents,
    pub(super) text_bytes: u64,
    /// The first one skipped.
    pub(super) first_bad: Option<SkippedDocument>,
}

impl Account {
    /// The state of the run at `position`, without reports.
    pub(super) fn checkpoint(&self, position: Position) -> Checkpoint {
        let (account, text_bytes, first_bad) = (self.documents, self.text_bytes, self.first_bad.clone());
        Checkpoint { account, text_bytes, first_bad, position, reports: Vec::new() }
    }
}

/// What one stage passes to the next.
enum Item<T> {
    Batch(T),
    /// The end of the inputs.
    End(Vec<FileReport>),
}

struct Read {
    batch: Batch,
    held: Held,
}

struct Encoded {
    batch: Batch,
    held: Held,
    chunks: Vec<Chunk>,
}

/// What the reader feeds. If reading ends early, what was read before precedes the error.
type Fed = Result<Item<Read>, EncodeError>;

/// Where an interrupted run continues.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) continuation: Continuation,
    pub(super) account: Account,
}

/// Runs the stages until the last document is in `sink`, or a stage fails. With `start`, the sink can be continued by another run.
pub(super) fn run<S: Sink>(
    job: Job,
    engine: &dyn Engine,
    sink: S,
    observer: &dyn Observer,
    start: Option<Start>,
) -> Run<S> {
    let budget = Arc::new(Budget::new(job.memory));
    let names: Vec<String> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let batch_bytes = job.batch_bytes();
    let fields = job.reading.fields();
    let mut reader = Reader::new(job.inputs, batch_bytes).fields(fields.clone());
    if engine.cuts_documents() {
        reader = reader.split_texts();
        if let [field] = fields.text.as_slice()
            && JsonParts::can_keep(field, &fields.keep)
        {
            reader = reader.split_json_lines();
        }
    }
    let (mut account, mut reports) = (Account::default(), Vec::new());
    if let Some(start) = start {
        reader = reader.resumable();
        reports.clone_from(&start.continuation.reports);
        reader.continue_at(start.continuation);
        account = start.account;
    }
    let on_error = job.reading.on_error;
    let most_skipped = match job.max_skipped {
        Some(MaxSkipped::Documents(most)) => most,
        _ => u64::MAX,
    };
    let pool = Pool::new(job.threads);
    let (used, recycled) = mpsc::channel();
    let (feeder, batches) = overlap::fed();

    let reading = match Reading::start(reader, feeder, recycled, Arc::clone(&budget)) {
        Ok(reading) => reading,
        Err(error) => {
            return Run {
                account: Account::default(),
                sink: Some(sink),
                peak: 0,
                stdin_looks_like_json_lines: false,
                end: Err(error),
            };
        }
    };
    let workshop = Workshop {
        engine,
        observer,
        names: &names,
        fields: &fields,
        stop_at_bad: on_error == OnError::Fail,
        chunk_bytes: job.chunk_bytes,
        benches: Default::default(),
        stdin_looks_like_json_lines: AtomicBool::new(false),
    };
    // No batch is needed after the one with the first bad document, if that ends the run.
    let mut through = false;
    let mut document = OpenDocument::default();
    let encode = |item: Fed| match item? {
        Item::Batch(Read { batch, mut held }) => {
            let chunks = if through {
                Vec::new()
            } else {
                panics_in("encoding", || workshop.encode_with_parts(&batch, &mut document, &CancelToken::current()))?
            };
            budget.encoded(&mut held, chunks.iter().map(Chunk::memory).sum::<usize>() + document.memory());
            through |= workshop.stop_at_bad && chunks.last().is_some_and(|chunk| !chunk.bad.is_empty());
            Ok(Item::Batch(Encoded { batch, held, chunks }))
        }
        Item::End(reports) => Ok(Item::End(reports)),
    };
    let part = OpenPart::Nothing;
    let mut writer = Writer { sink, account, part, reports, names: &names, fields: &fields, on_error, most_skipped };
    let (mut whole, mut reports) = (true, None);
    let write = |item| match item {
        Item::Batch(Encoded { mut batch, held, chunks }) => {
            writer.reports.append(&mut batch.finished);
            // A writer that panics is not used again.
            whole = false;
            let written = panics_in("writing", || {
                chunks.into_iter().try_for_each(|chunk| writer.write(chunk, &batch)).map(|()| writer.sink.write_back())
            })?;
            whole = true;
            budget.release(held);
            // The reader may have read everything already.
            let _ = used.send(batch);
            written
        }
        Item::End(all) => {
            reports = Some(all);
            Ok(None)
        }
    };
    // Dirty pages are written to the disk while the next batches are encoded; a slower disk holds up the writer. Otherwise the final
    // sync would write all of them, with no other work beside it.
    let write_back = |due: Option<WriteBack>| Ok(due.map_or(Ok(()), WriteBack::run)?);
    let end = pool.install(|| {
        let encoded = batches.ahead(QUEUE).compute("encode", encode).ahead(QUEUE);
        let written = encoded.blocking("write", write).ahead(usize::MAX).weigh(DUE, |due| usize::from(due.is_some()));
        written.blocking("sync", write_back).run()
    });
    // The reader may wait for memory.
    budget.close();
    reading.finish();

    let end = match end {
        Ok(_) => Ok(reports.expect("the last item that the reader feeds, unless it fails")),
        Err(Failure::Error { error, .. }) => Err(error),
        Err(Failure::Thread(error)) => Err(EncodeError::Thread(error)),
        Err(Failure::Cancelled { .. }) => Err(EncodeError::Stopped),
        Err(failure) => unreachable!("{failure}: the reader catches its panics"),
    };
    let Writer { sink, account, .. } = writer;
    let (sink, account) = if whole { (Some(sink), account) } else { (None, Account::default()) };
    // Relaxed: the workers have ended, and joining them ordered their stores.
    let stdin_looks_like_json_lines = workshop.stdin_looks_like_json_lines.load(Ordering::Relaxed);
    Run { account, sink, peak: budget.peak(), stdin_looks_like_json_lines, end }
}

fn panics_in<T>(stage: &'static str, body: impl FnOnce() -> T) -> Result<T, EncodeError> {
    caught(body).map_err(|message| EncodeError::Panicked { stage, message })
}

/// The first stage, on a separate thread.
struct Reading {
    thread: JoinHandle<()>,
    /// Carries no data. It disconnects when the thread ends, but for a few instructions.
    ended: Receiver<()>,
}

impl Reading {
    fn start(
        reader: Reader,
        feeder: Feeder<Fed>,
        recycled: Receiver<Batch>,
        budget: Arc<Budget>,
    ) -> Result<Self, EncodeError> {
        let (alive, ended) = mpsc::channel();
        let body = move || {
            // Dropped last: the reader's inputs are dropped before it signals its end.
            let _alive = alive;
            let (mut reader, mut feeder) = (reader, feeder);
            loop {
                let used = recycled.try_recv().unwrap_or_default();
                let item = match panics_in("reading", || reader.next_batch(used, &mut |more| budget.reserve(more))) {
                    Ok(Ok(Some(batch))) => Ok(Item::Batch(Read { batch, held: budget.hand_on() })),
                    Ok(Ok(None)) => Ok(Item::End(reader.reports().to_vec())),
                    Ok(Err(error)) => Err(error.into()),
                    Err(error) => Err(error),
                };
                let last = !matches!(item, Ok(Item::Batch(_)));
                if feeder.push(item).is_err() || last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("windrow-read".to_owned()).spawn(body).map_err(EncodeError::Thread)?;
        Ok(Self { thread, ended })
    }

    /// Waits for the thread to end. After a failure the closed budget makes it end; if it is blocked, it is left behind.
    fn finish(self) {
        if self.ended.recv_timeout(READER_GRACE) == Err(RecvTimeoutError::Disconnected) {
            // The thread catches its panics.
            let _ = self.thread.join();
        }
    }
}

/// What was written of a document that has not ended.
#[derive(Default)]
enum OpenPart {
    #[default]
    Nothing,
    /// Parts with so many bytes of text, and the record of the first.
    Written(u64, Record),
    /// Nothing: the output has refused a part of the document that begins with this record.
    Refused(Box<Bad>, Record),
    /// The document is bad: the parts that follow are dropped.
    Dropped,
}

/// The third stage.
struct Writer<'e, S> {
    sink: S,
    account: Account,
    part: OpenPart,
    /// The inputs that were read to their end, if another run may continue this one.
    reports: Vec<FileReport>,
    names: &'e [String],
    fields: &'e Fields,
    on_error: OnError,
    /// Maximum number of documents that may be skipped.
    most_skipped: u64,
}

impl<S: Sink> Writer<'_, S> {
    fn write(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        if chunk.is_part {
            return self.write_part(chunk, batch);
        }
        // The first document beyond the limit ends the run. No document behind it is written, so that the account does not depend on
        // how documents are divided into chunks.
        let allowed =
            if self.on_error == OnError::Fail { 0 } else { self.most_skipped - self.account.documents.skipped };
        if let Some(last) = usize::try_from(allowed).ok().and_then(|allowed| chunk.bad.get(allowed)) {
            let last = last.record;
            self.cut_after(&mut chunk, batch, last);
        }
        if let Some(last) = chunk.bad.iter().find(|bad| bad.is_out_of_memory).map(|bad| bad.record) {
            self.cut_after(&mut chunk, batch, last);
        }
        while let Some(count) = self.sink.end_of_shard(&chunk.ids, &chunk.ends) {
            let later = self.split(&mut chunk, batch, count);
            let last = chunk.records.end - 1;
            self.append_all(chunk, batch)?;
            self.end_shard(batch, last)?;
            chunk = later;
        }
        self.append_all(chunk, batch)
    }

    fn append_all(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        self.append(&mut chunk, batch)?;
        chunk.bad.into_iter().try_for_each(|bad| self.skip(bad))
    }

    /// Splits a chunk behind its good document with this number, and returns the rest.
    fn split(&self, chunk: &mut Chunk, batch: &Batch, number: usize) -> Chunk {
        let good = self.good(chunk);
        let last = good[number - 1];
        let end = chunk.ends[number - 1];
        let text_bytes = good[..number].iter().map(|&index| self.text_bytes(batch, index)).sum();
        let mut later = Chunk {
            records: last + 1..chunk.records.end,
            ids: chunk.ids.split_off(end),
            ends: chunk.ends.split_off(number),
            bad: chunk.bad.split_off(chunk.bad.partition_point(|bad| bad.record < last)),
            kept: chunk.kept.split_off(number * self.fields.keep.len()),
            text_bytes: chunk.text_bytes - text_bytes,
            ..Chunk::default()
        };
        later.ends.iter_mut().for_each(|later| *later -= end);
        chunk.records.end = last + 1;
        chunk.text_bytes = text_bytes;
        later
    }

    /// Ends a shard behind the record with this index.
    fn end_shard(&mut self, batch: &Batch, index: usize) -> Result<(), EncodeError> {
        let checkpoint = self.account.checkpoint(batch.position_behind(index));
        Ok(self.sink.end_shard(checkpoint, &self.reports)?)
    }

    /// Counts a bad document, unless it ends the run.
    fn skip(&mut self, Bad { document, is_out_of_memory, .. }: Bad) -> Result<(), EncodeError> {
        self.account.documents.read += 1;
        if is_out_of_memory {
            self.account.documents.failed += 1;
            return Err(EncodeError::NoMemory(document));
        }
        if self.on_error == OnError::Fail {
            self.account.documents.failed += 1;
            return Err(EncodeError::Document(document));
        }
        if self.account.documents.skipped == self.most_skipped {
            self.account.documents.failed += 1;
            let most = MaxSkipped::Documents(self.most_skipped);
            let (documents, bad) = (self.account.documents, Box::new(document));
            return Err(EncodeError::TooManySkipped { documents, most, bad });
        }
        self.account.documents.skipped += 1;
        if self.account.first_bad.is_none() {
            self.account.first_bad = Some(document.clone());
        }
        Ok(self.sink.skip(document)?)
    }

    /// Appends a part of a document. If it is bad, the parts before are removed, and those behind it are dropped. If the output refuses it,
    /// a fault of the document itself may follow, and is told instead.
    fn write_part(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        let record = &batch.records[chunk.records.start];
        let (mut before, begin, mut refused) = match mem::take(&mut self.part) {
            OpenPart::Nothing => (0, *record, None),
            OpenPart::Written(bytes, begin) => (bytes, begin, None),
            OpenPart::Refused(bad, begin) => (0, begin, Some(bad)),
            OpenPart::Dropped => {
                if record.is_open {
                    self.part = OpenPart::Dropped;
                }
                return Ok(());
            }
        };
        if chunk.is_void_before {
            self.sink.discard_parts()?;
            (before, refused) = (0, None);
        }
        if chunk.bad.is_empty() && refused.is_none() {
            match self.sink.append_part(&chunk.ids, !record.is_open) {
                Ok(()) => {}
                Err(error) if error.document().is_some() && error.kind() == OutputErrorKind::Document => {
                    self.sink.discard_parts()?;
                    refused = Some(Box::new(self.refused(0, &begin, &error)));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let bad = chunk.bad.pop().or_else(|| refused.take_if(|_| !record.is_open).map(|bad| *bad));
        if let Some(bad) = bad {
            self.sink.discard_parts()?;
            self.part = if record.is_open { OpenPart::Dropped } else { OpenPart::Nothing };
            return self.skip(bad);
        }
        if let Some(bad) = refused {
            self.part = OpenPart::Refused(bad, begin);
            return Ok(());
        }
        if !record.is_open {
            let has_values = !chunk.kept.ends.is_empty();
            self.keep(&if has_values { chunk.kept } else { nulls(self.fields.keep.len()) })?;
        }
        let bytes = before + chunk.text_bytes;
        self.part = if record.is_open { OpenPart::Written(bytes, begin) } else { OpenPart::Nothing };
        if !record.is_open {
            self.account.documents.read += 1;
            self.account.documents.written += 1;
            self.account.text_bytes += bytes;
            if self.sink.is_shard_full() {
                self.end_shard(batch, chunk.records.start)?;
            }
        }
        Ok(())
    }

    /// Appends the kept values of the documents that were appended.
    fn keep(&mut self, kept: &Kept) -> Result<(), EncodeError> {
        if self.fields.keep.is_empty() { Ok(()) } else { Ok(self.sink.keep(kept)?) }
    }

    /// The bad document that the output refused.
    fn refused(&self, index: usize, record: &Record, error: &OutputError) -> Bad {
        let message = error.to_string();
        let reason = message.lines().next().unwrap_or_default().to_owned();
        let document = at_record(&self.names[record.file as usize], record, reason);
        Bad { record: index, document, is_out_of_memory: false }
    }

    /// Drops everything behind the record with this index.
    fn cut_after(&self, chunk: &mut Chunk, batch: &Batch, last: usize) {
        let good = self.good(chunk);
        let kept = good.partition_point(|&record| record < last);
        self.drop_text(chunk, batch, &good[kept..]);
        chunk.ids.truncate(kept.checked_sub(1).map_or(0, |before| chunk.ends[before]));
        chunk.ends.truncate(kept);
        chunk.kept.remove(kept * self.fields.keep.len(), chunk.kept.ends.len());
        chunk.bad.retain(|bad| bad.record <= last);
    }

    /// The records with ids, of a chunk that ends with a bad record or with its last record.
    fn good(&self, chunk: &Chunk) -> Vec<usize> {
        let mut bad = chunk.bad.iter().map(|bad| bad.record).peekable();
        let is_good = |index: &usize| bad.next_if_eq(index).is_none();
        chunk.records.clone().filter(is_good).take(chunk.ends.len()).collect()
    }

    /// Removes the text of these good records from the account of a chunk.
    fn drop_text(&self, chunk: &mut Chunk, batch: &Batch, records: &[usize]) {
        chunk.text_bytes -= records.iter().map(|&index| self.text_bytes(batch, index)).sum::<u64>();
    }

    /// Bytes of the text of a good record.
    fn text_bytes(&self, batch: &Batch, index: usize) -> u64 {
        let record = &batch.records[index];
        let text = text_in(record.format, batch.bytes_of(record), self.fields, &mut String::new()).map(str::len);
        text.expect("it had a text before") as u64
    }

    /// Appends the good documents. A document that the format cannot hold becomes a bad one.
    fn append(&mut self, chunk: &mut Chunk, batch: &Batch) -> Result<(), EncodeError> {
        loop {
            match self.sink.append(&chunk.ids, &chunk.ends) {
                Ok(()) => break,
                Err(error) => match error.document().filter(|_| error.kind() == OutputErrorKind::Document) {
                    // No document of this run was written, so the rest of the run can be written.
                    Some(document) => self.reject(chunk, batch, (document - self.sink.documents()) as usize, &error),
                    None => return Err(error.into()),
                },
            }
        }
        self.keep(&chunk.kept)?;
        let written = chunk.ends.len() as u64;
        self.account.documents.read += written;
        self.account.documents.written += written;
        self.account.text_bytes += chunk.text_bytes;
        Ok(())
    }

    /// Turns the good document with this number in the chunk into a bad one. If that ends the run, drops all documents behind it.
    fn reject(&self, chunk: &mut Chunk, batch: &Batch, number: usize, error: &OutputError) {
        let good = self.good(chunk);
        let last = if self.on_error == OnError::Fail {
            chunk.bad.clear();
            chunk.ends.len()
        } else {
            number + 1
        };
        self.drop_text(chunk, batch, &good[number..last]);
        let begin = number.checked_sub(1).map_or(0, |before| chunk.ends[before]);
        let end = chunk.ends[last - 1];
        chunk.ids.drain(begin..end);
        chunk.ends.drain(number..last);
        let width = self.fields.keep.len();
        chunk.kept.remove(number * width, last * width);
        chunk.ends[number..].iter_mut().for_each(|later| *later -= end - begin);
        let bad = self.refused(good[number], &batch.records[good[number]], error);
        let place = chunk.bad.partition_point(|other| other.record < bad.record);
        chunk.bad.insert(place, bad);
    }
}

/// The kept values of a document without fields.
fn nulls(fields: usize) -> Kept {
    let mut kept = Kept::default();
    put_nulls(fields, &mut kept);
    kept
}

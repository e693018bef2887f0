//! The stages, as lanes of [`windrow::overlap`].
//!
//! All lanes process documents in order, and a batch is a tile. The first tile that fails decides: what precedes it is written, what
//! follows it is dropped. So all failures travel with their batch, including those of the reader.
//!
//! The reader feeds the lanes from a thread outside of them: a blocked read cannot be interrupted, and a failed run does not wait for
//! it. The reader may also wait for memory; closing the [`Budget`] ends that wait.

use std::mem;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use windrow::overlap::{self, Failure, Feeder, LaneTrace, Trace};
use windrow::{CancelToken, Nanos, Pool};

use super::account::Account;
use super::budget::{Budget, Held};
use super::chunk::{Bad, Chunk, Workshop, at_record, is_chosen, part_of, put_nulls};
use super::parts::OpenDocument;
use super::readers::{Awaited, Pace, Readers};
use super::seen::{Findings, Seen};
use super::special::SpecialIds;
use super::{EncodeError, Job, MaxSkipped, Observer, panics_in};
use crate::chat::Locate;
use crate::engine::Engine;
use crate::input::{Batch, Continuation, Fields, FileReport, Position, Reader, Record};
use crate::json_parts::JsonParts;
use crate::manifest::{OnError, Selection, SkippedDocument};
use crate::output::without_loss;
use crate::output::{Checkpoint, InputCounts, Kept, Order, Output, OutputError, OutputErrorKind, WriteBack};

/// Batches per queue. The budget bounds their memory; this bounds how far one stage runs ahead of the next.
pub(super) const QUEUE: usize = 2;

/// Number of parts of the output that may wait for write-back before the writer is held up.
const DUE: usize = 2;

/// Time for which a run that ends early waits for a reader that is blocked in a read.
const READER_GRACE: Duration = Duration::from_millis(100);

/// Takes runs of consecutive documents: an [`Output`], or its stand-in in tests.
pub(super) trait Sink: Send {
    /// As [`Output::append`]; masks are in the ids.
    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError>;

    /// As [`Output::append_part`].
    fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError>;

    /// As [`Output::discard_parts`].
    fn discard_parts(&mut self) -> Result<(), OutputError>;

    /// Whether documents may come part by part.
    fn takes_parts(&self) -> bool {
        true
    }

    /// Whether [`place`](Self::place) precedes each [`append`](Self::append).
    fn has_places(&self) -> bool {
        false
    }

    /// The orders of the documents that are appended next.
    fn place(&mut self, _orders: Vec<Order>) {}

    /// As [`Output::select`].
    fn select(&mut self, _part: usize) {}

    /// As [`Output::documents_of_part`].
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
    fn takes_parts(&self) -> bool {
        !self.is_packed()
    }

    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        Output::append_with_masks(self, ids, ends)
    }

    fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError> {
        Output::append_part(self, ids, ends)
    }

    fn discard_parts(&mut self) -> Result<(), OutputError> {
        Output::discard_parts(self)
    }

    fn select(&mut self, part: usize) {
        Output::select(self, part);
    }

    fn documents(&self) -> u64 {
        Output::documents_of_part(self)
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
    /// Number of documents that were announced.
    pub(super) exceeding: u64,
    pub(super) readers: usize,
    pub(super) trace: Option<Trace>,
    pub(super) findings: Findings,
    /// The place of the document with which the limit was reached. The reports are those of the files before this place.
    pub(super) ended_at: Option<Position>,
    pub(super) end: Result<Vec<FileReport>, EncodeError>,
}

/// What one stage passes to the next.
pub(super) enum Item<T> {
    Batch(T),
    /// The end of the inputs.
    End(Vec<FileReport>),
}

pub(super) struct Read {
    pub(super) batch: Batch,
    pub(super) held: Held,
}

struct Encoded {
    batch: Batch,
    held: Held,
    chunks: Vec<Chunk>,
}

/// What the reader feeds. If reading ends early, what was read before precedes the error.
pub(super) type Fed = Result<Item<Read>, EncodeError>;

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
    special: &SpecialIds,
    locate: Option<&dyn Locate>,
    sink: S,
    observer: &dyn Observer,
    mut start: Option<Start>,
) -> Run<S> {
    let budget = Arc::new(Budget::new(job.memory, engine.working_bytes()));
    let names: Vec<String> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let batch_bytes = job.batch_bytes(engine.working_bytes());
    let fields = job.reading.fields();
    let selection = &job.reading.selection;
    let limit = selection.limit.map_or(u64::MAX, NonZeroU64::get);
    if let Some(Start { continuation, account }) = start.take_if(|start| start.account.documents.written == limit) {
        let Continuation { position, reports } = continuation;
        let ended_at = Some(position);
        return Run {
            account,
            sink: Some(sink),
            peak: 0,
            exceeding: 0,
            readers: 0,
            trace: None,
            findings: Findings::default(),
            ended_at,
            end: Ok(reports),
        };
    }
    let chat = job.chat.as_ref();
    let splits_texts = engine.cuts_documents() && sink.takes_parts() && chat.is_none();
    let splits_json_lines =
        splits_texts && matches!(fields.text.as_slice(), [field] if JsonParts::can_keep(field, &fields.keep));
    let is_resumable = start.is_some();
    let make = Arc::new({
        let fields = fields.clone();
        move |files| {
            let mut reader = Reader::new(files, batch_bytes).fields(fields.clone());
            if splits_texts {
                reader = reader.split_texts();
            }
            if splits_json_lines {
                reader = reader.split_json_lines();
            }
            if is_resumable { reader.resumable() } else { reader }
        }
    });
    let Start { continuation, account } = start.unwrap_or_default();
    let reports = continuation.reports.clone();
    let on_error = job.reading.on_error;
    let most_skipped = match job.max_skipped {
        Some(MaxSkipped::Documents(most)) => most,
        _ => u64::MAX,
    };
    let pool = Pool::new(job.threads);
    let (used, recycled) = mpsc::channel();
    let (feeder, batches) = overlap::fed();
    let (alive, ended) = mpsc::channel();
    let mut files = job.inputs;
    files.drain(..files.len().min(continuation.position.file as usize));
    let pace = Pace::new(job.readers, pool.threads());
    let mut readers = Readers::new(files, make, continuation, batch_bytes, pace, Arc::clone(&budget), alive);
    if job.trace {
        readers.trace();
    }

    // The reader begins before the other stages.
    let zero = Instant::now();
    let reading = match Reading::start(readers, ended, feeder, recycled, Arc::clone(&budget), pool.threads()) {
        Ok(reading) => reading,
        Err(error) => {
            return Run {
                account: Account::default(),
                sink: Some(sink),
                peak: 0,
                exceeding: 0,
                readers: 0,
                trace: None,
                findings: Findings::default(),
                ended_at: None,
                end: Err(error),
            };
        }
    };
    let workshop = Workshop {
        engine,
        observer,
        names: &names,
        fields: &fields,
        chat,
        locate,
        selection,
        stop_at_bad: on_error == OnError::Fail,
        chunk_bytes: job.chunk_bytes,
        benches: Default::default(),
        seen: Seen::new(fields.keep.len()),
    };
    // No batch is needed after the one with the first bad document, if that ends the run.
    let (mut through, mut exceeding) = (false, 0);
    let mut document = OpenDocument::default();
    let encode = |item: Fed| match item? {
        Item::Batch(Read { batch, mut held }) => {
            let chunks = if through {
                Vec::new()
            } else {
                let begins_with_part = batch.records.first().is_some_and(|first| document.is_part(first));
                exceeding += workshop.announce(&batch, begins_with_part, &budget);
                budget.begins(&mut held);
                panics_in("encoding", || workshop.encode_with_parts(&batch, &mut document, &CancelToken::current()))?
            };
            budget.encoded(&mut held, chunks.iter().map(Chunk::memory).sum::<usize>() + document.memory());
            through |= workshop.stop_at_bad && chunks.last().is_some_and(|chunk| !chunk.bad.is_empty());
            Ok(Item::Batch(Encoded { batch, held, chunks }))
        }
        Item::End(reports) => Ok(Item::End(reports)),
    };
    let part = OpenPart::Nothing;
    let has_masks = locate.is_some();
    let mut writer = Writer {
        sink,
        account,
        part,
        reports,
        names: &names,
        fields: &fields,
        special,
        has_masks,
        selection,
        limit,
        ended_at: None,
        on_error,
        most_skipped,
    };
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
    let (mut trace, mut begun) = (Trace::new(), zero);
    let end = pool.install(|| {
        let encoded = batches.ahead(QUEUE).compute("encode", encode).ahead(QUEUE);
        let written = encoded.blocking("write", write).ahead(usize::MAX).weigh(DUE, |due| usize::from(due.is_some()));
        let synced = written.blocking("sync", write_back);
        begun = Instant::now();
        if job.trace { synced.trace(&mut trace).run() } else { synced.run() }
    });
    // The reader may wait for memory.
    budget.close();
    let (readers, awaited) = reading.finish(end.is_ok());
    let trace = job.trace.then(|| {
        let nanos = |time: Duration| time.as_nanos() as f64;
        let since = |at: Instant| nanos(at.duration_since(zero));
        let times =
            trace.lanes.iter_mut().flat_map(|lane| &mut lane.tiles).flat_map(|tile| [&mut tile.start, &mut tile.end]);
        times.chain([&mut trace.wall]).for_each(|time| time.0 += since(begun));
        let tiles = awaited.into_iter().map(|(at, time)| (Nanos(since(at)), Nanos(since(at) + nanos(time))));
        trace.lanes.insert(0, LaneTrace::beside("read", tiles));
        trace
    });

    let end = match end {
        Ok(_) => Ok(reports.expect("the last item that the reader feeds, unless it fails")),
        // The writer's way to end the run.
        Err(Failure::Error { error: EncodeError::Stopped, .. }) if writer.ended_at.is_some() => {
            let files = writer.ended_at.as_ref().map_or(0, |position| position.file as usize);
            writer.reports.truncate(files);
            Ok(mem::take(&mut writer.reports))
        }
        Err(Failure::Error { error, .. }) => Err(error),
        Err(Failure::Thread(error)) => Err(EncodeError::Thread(error)),
        Err(Failure::Cancelled { .. }) => Err(EncodeError::Stopped),
        Err(failure) => unreachable!("{failure}: the reader catches its panics"),
    };
    let Writer { sink, account, ended_at, .. } = writer;
    let (sink, account) = if whole { (Some(sink), account) } else { (None, Account::default()) };
    let findings = workshop.seen.findings(&fields.keep);
    Run { account, sink, peak: budget.peak(), exceeding, readers, trace, findings, ended_at, end }
}

/// The first stage, on a separate thread.
pub(super) struct Reading {
    /// Returns the number of readers, and when batches were awaited.
    thread: JoinHandle<(usize, Vec<Awaited>)>,
    /// Carries no data. It disconnects when all threads that read have ended, but for a few instructions.
    ended: Receiver<()>,
}

impl Reading {
    pub(super) fn start(
        mut readers: Readers,
        ended: Receiver<()>,
        mut feeder: Feeder<Fed>,
        recycled: Receiver<Batch>,
        budget: Arc<Budget>,
        threads: usize,
    ) -> Result<Self, EncodeError> {
        let body = move || {
            loop {
                let used = recycled.try_recv().unwrap_or_default();
                let item = match panics_in("reading", || readers.next_batch(used)).flatten() {
                    Ok(Some(batch)) => {
                        let longest = batch.records.iter().map(|record| record.len).max().unwrap_or(0);
                        let held = budget.hand_on(longest.saturating_mul(threads));
                        Ok(Item::Batch(Read { batch, held }))
                    }
                    Ok(None) => Ok(Item::End(readers.take_reports())),
                    Err(error) => Err(error),
                };
                let last = !matches!(item, Ok(Item::Batch(_)));
                let begin = Instant::now();
                if feeder.push(item).is_err() || last {
                    return (readers.count(), readers.take_awaited());
                }
                readers.blocked(begin.elapsed());
            }
        };
        let thread = thread::Builder::new().name("windrow-read".to_owned()).spawn(body).map_err(EncodeError::Thread)?;
        Ok(Self { thread, ended })
    }

    /// Waits for the thread to end, and returns what it returns. `is_read`: it has fed its last item. Otherwise the closed budget makes it end;
    /// if it is blocked, it is left behind.
    pub(super) fn finish(self, is_read: bool) -> (usize, Vec<Awaited>) {
        if is_read || self.ended.recv_timeout(READER_GRACE) == Err(RecvTimeoutError::Disconnected) {
            // The thread catches its panics.
            return self.thread.join().unwrap_or_default();
        }
        Default::default()
    }
}

/// What was written of a document that has not ended.
#[derive(Default)]
enum OpenPart {
    #[default]
    Nothing,
    Written(Parts),
    /// Nothing: the output has refused a part.
    Refused(Box<Bad>, Parts),
    /// The document is bad: the parts that follow are dropped.
    Dropped,
}

/// The parts of a document.
#[derive(Clone, Copy)]
struct Parts {
    /// The record of the first.
    begin: Record,
    text_bytes: u64,
    tokens: u64,
    special_tokens: u64,
}

/// The third stage.
struct Writer<'e, S> {
    sink: S,
    account: Account,
    part: OpenPart,
    /// The inputs that were read to their end.
    reports: Vec<FileReport>,
    names: &'e [String],
    fields: &'e Fields,
    special: &'e SpecialIds,
    /// True if masks are in the ids.
    has_masks: bool,
    selection: &'e Selection,
    /// Number of good documents with which the run ends.
    limit: u64,
    /// The place of that document.
    ended_at: Option<Position>,
    on_error: OnError,
    /// Maximum number of documents that may be skipped.
    most_skipped: u64,
}

impl<S: Sink> Writer<'_, S> {
    fn write(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        if self.ended_at.is_some() {
            // The next item says what is wrong with the file of the last document.
            return Ok(());
        }
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
        // A document that the output refuses does not count, so the limit may be further on.
        while chunk.ends.len() as u64 >= self.left() {
            let later = self.split(&mut chunk, batch, self.left() as usize);
            let last = chunk.records.end - 1;
            self.write_all(chunk, batch)?;
            if self.left() == 0 {
                return self.end_at(batch.position_behind(last));
            }
            chunk = later;
        }
        self.write_all(chunk, batch)
    }

    /// Good documents up to the limit.
    fn left(&self) -> u64 {
        self.limit - self.account.documents.written
    }

    /// Ends the run, unless the file of its last document turns out to be damaged.
    fn end_at(&mut self, position: Position) -> Result<(), EncodeError> {
        let is_covered = position.file as usize <= self.reports.len();
        self.ended_at = Some(position);
        if is_covered { Err(EncodeError::Stopped) } else { Ok(()) }
    }

    /// Appends documents to their parts.
    fn write_all(&mut self, chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        if self.selection.split.is_empty() {
            return self.write_shards(chunk, batch);
        }
        let left_out = self.left_out(&chunk, batch);
        let mut skipped = Vec::new();
        for (part, mut chunk) in self.divide(chunk, batch).into_iter().enumerate() {
            self.sink.select(part);
            while let Some(count) = self.sink.end_of_shard(&chunk.ids, &chunk.ends) {
                let later = self.split(&mut chunk, batch, count);
                let last = chunk.records.end - 1;
                self.append(&mut chunk, batch)?;
                self.end_shard(batch, last)?;
                skipped.append(&mut chunk.bad);
                chunk = later;
            }
            self.append(&mut chunk, batch)?;
            skipped.append(&mut chunk.bad);
        }
        self.leave_out(left_out);
        skipped.sort_by_key(|bad: &Bad| bad.record);
        skipped.into_iter().try_for_each(|bad| self.skip(bad))
    }

    /// Divides a chunk into one for each part of the output.
    fn divide(&self, chunk: Chunk, batch: &Batch) -> Vec<Chunk> {
        let part = |part| Chunk { records: chunk.records.clone(), part: Some(part), ..Chunk::default() };
        let mut parts: Vec<Chunk> = (0..self.selection.split.len()).map(part).collect();
        let (width, mut begin) = (self.fields.keep.len(), 0);
        for (number, index) in self.good(&chunk, batch).into_iter().enumerate() {
            let (part, end) = (&mut parts[part_of(self.selection, batch, index)], chunk.ends[number]);
            part.ids.extend_from_slice(&chunk.ids[begin..end]);
            part.ends.push(part.ids.len());
            part.kept.append(&chunk.kept, number * width, (number + 1) * width);
            part.lengths.push(chunk.lengths[number]);
            part.text_bytes += chunk.lengths[number] as u64;
            begin = end;
        }
        for bad in chunk.bad {
            parts[part_of(self.selection, batch, bad.record)].bad.push(bad);
        }
        parts
    }

    fn write_shards(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
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
        self.leave_out(self.left_out(&chunk, batch));
        chunk.bad.into_iter().try_for_each(|bad| self.skip(bad))
    }

    /// The number of records of a chunk that are left out.
    fn left_out(&self, chunk: &Chunk, batch: &Batch) -> u64 {
        if !self.selection.leaves_out() {
            return 0;
        }
        chunk.records.clone().filter(|&index| !is_chosen(self.selection, batch, index)).count() as u64
    }

    fn leave_out(&mut self, documents: u64) {
        self.account.documents.read += documents;
        self.account.documents.left_out += documents;
    }

    /// Splits a chunk behind its good document with this number, and returns the rest.
    fn split(&self, chunk: &mut Chunk, batch: &Batch, number: usize) -> Chunk {
        let good = self.good(chunk, batch);
        let last = good[number - 1];
        let end = chunk.ends[number - 1];
        let mut later = Chunk {
            records: last + 1..chunk.records.end,
            ids: chunk.ids.split_off(end),
            ends: chunk.ends.split_off(number),
            bad: chunk.bad.split_off(chunk.bad.partition_point(|bad| bad.record < last)),
            kept: chunk.kept.split_off(number * self.fields.keep.len()),
            lengths: chunk.lengths.split_off(number),
            text_bytes: 0,
            part: chunk.part,
            ..Chunk::default()
        };
        later.text_bytes = later.lengths.iter().map(|&length| length as u64).sum();
        later.ends.iter_mut().for_each(|later| *later -= end);
        chunk.records.end = last + 1;
        chunk.text_bytes -= later.text_bytes;
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
        if !is_chosen(self.selection, batch, chunk.records.start) {
            self.leave_out(u64::from(!record.is_open));
            return Ok(());
        }
        self.sink.select(part_of(self.selection, batch, chunk.records.start));
        let (mut before, mut refused) = match mem::take(&mut self.part) {
            OpenPart::Nothing => (Parts { begin: *record, text_bytes: 0, tokens: 0, special_tokens: 0 }, None),
            OpenPart::Written(parts) => (parts, None),
            OpenPart::Refused(bad, parts) => (parts, Some(bad)),
            OpenPart::Dropped => {
                if record.is_open {
                    self.part = OpenPart::Dropped;
                }
                return Ok(());
            }
        };
        if chunk.is_void_before {
            self.sink.discard_parts()?;
            before = Parts { text_bytes: 0, tokens: 0, special_tokens: 0, ..before };
            refused = None;
        }
        if chunk.bad.is_empty() && refused.is_none() {
            match self.sink.append_part(&chunk.ids, !record.is_open) {
                Ok(()) => {}
                Err(error) if error.document().is_some() && error.kind() == OutputErrorKind::Document => {
                    self.sink.discard_parts()?;
                    refused = Some(Box::new(self.refused(0, &before.begin, &error)));
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
            self.part = OpenPart::Refused(bad, before);
            return Ok(());
        }
        if !record.is_open {
            let has_values = !chunk.kept.ends.is_empty();
            self.keep(&if has_values { chunk.kept } else { nulls(self.fields.keep.len()) })?;
        }
        let parts = Parts {
            text_bytes: before.text_bytes + chunk.text_bytes,
            tokens: before.tokens + chunk.ids.len() as u64,
            // Engines that cut documents put nothing around them.
            special_tokens: before.special_tokens + self.special.in_texts(&chunk.ids, 0),
            ..before
        };
        self.part = if record.is_open { OpenPart::Written(parts) } else { OpenPart::Nothing };
        if !record.is_open {
            let tokens = parts.tokens + self.special.framed_ids(1);
            let counts = InputCounts { input: record.file, text_bytes: parts.text_bytes, tokens };
            self.account.write(1, counts, parts.special_tokens);
            if self.sink.is_shard_full() {
                self.end_shard(batch, chunk.records.start)?;
            }
            if self.left() == 0 {
                return self.end_at(batch.position_behind(chunk.records.start));
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
        let good = self.good(chunk, batch);
        let kept = good.partition_point(|&record| record < last);
        drop_text(chunk, kept..chunk.ends.len());
        chunk.ids.truncate(kept.checked_sub(1).map_or(0, |before| chunk.ends[before]));
        chunk.ends.truncate(kept);
        chunk.kept.remove(kept * self.fields.keep.len(), chunk.kept.ends.len());
        chunk.bad.retain(|bad| bad.record <= last);
        chunk.records.end = last + 1;
    }

    /// The records with ids, of a chunk that ends with a bad record or with its last record.
    fn good(&self, chunk: &Chunk, batch: &Batch) -> Vec<usize> {
        let mut bad = chunk.bad.iter().map(|bad| bad.record).peekable();
        let is_in = |index: usize| {
            let is_of_part = chunk.part.is_none_or(|part| part_of(self.selection, batch, index) == part);
            is_of_part && is_chosen(self.selection, batch, index)
        };
        let is_good = |index: &usize| is_in(*index) && bad.next_if_eq(index).is_none();
        chunk.records.clone().filter(is_good).take(chunk.ends.len()).collect()
    }

    /// Appends the good documents. A document that the format cannot hold becomes a bad one.
    fn append(&mut self, chunk: &mut Chunk, batch: &Batch) -> Result<(), EncodeError> {
        loop {
            if self.sink.has_places() {
                self.sink.place(self.orders(chunk, batch));
            }
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
        if !chunk.ends.is_empty() {
            // All records of a chunk are of one input.
            let input = batch.records[chunk.records.start].file;
            let tokens = chunk.ids.len() as u64 + self.special.framed_ids(chunk.ends.len());
            let counts = InputCounts { input, text_bytes: chunk.text_bytes, tokens };
            let special = self.special.in_texts(&chunk.ids, chunk.ends.len());
            self.account.write(chunk.ends.len() as u64, counts, special);
            if self.has_masks {
                self.account.without_loss += without_loss(&chunk.ids, &chunk.ends);
            }
        }
        Ok(())
    }

    /// The orders of the good documents of a chunk, if they are shuffled.
    fn orders(&self, chunk: &Chunk, batch: &Batch) -> Vec<Order> {
        let order = |index: usize| {
            let (file, number) = (batch.records[index].file, batch.number_of(index));
            (self.selection.key_of(file, number), file, number)
        };
        self.good(chunk, batch).into_iter().map(order).collect()
    }

    /// Turns the good document with this number in the chunk into a bad one. If that ends the run, drops all documents behind it.
    fn reject(&self, chunk: &mut Chunk, batch: &Batch, number: usize, error: &OutputError) {
        let good = self.good(chunk, batch);
        let last = if self.on_error == OnError::Fail {
            chunk.bad.clear();
            chunk.records.end = good[number] + 1;
            chunk.ends.len()
        } else {
            number + 1
        };
        drop_text(chunk, number..last);
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

/// Removes the text of the good documents with these numbers from the account of a chunk.
fn drop_text(chunk: &mut Chunk, numbers: Range<usize>) {
    chunk.text_bytes -= chunk.lengths.drain(numbers).map(|length| length as u64).sum::<u64>();
}

/// The kept values of a document without fields.
fn nulls(fields: usize) -> Kept {
    let mut kept = Kept::default();
    put_nulls(fields, &mut kept);
    kept
}

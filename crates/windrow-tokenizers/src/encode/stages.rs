//! The stages, as lanes of [`windrow::overlap`].
//!
//! All lanes process documents in order, and a batch is a tile. The first tile that fails decides: earlier tiles are written, later tiles are
//! dropped. So all failures travel with their batch, including those of the reader.
//!
//! The reader feeds the lanes from a thread outside them: a blocked read cannot be interrupted, and a failed run does not wait for
//! it. The reader may also wait for memory; closing the [`Budget`] ends that wait.

use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use windrow::overlap::{self, Failure, Feeder, LaneTrace, Overlap, Trace};
use windrow::{CancelToken, Nanos, Pool};

use super::account::Account;
use super::budget::{Budget, Held};
use super::chunk::{Chunk, EncodeContext};
use super::parts::OpenDocument;
use super::readers::{Awaited, Item, MakeReader, Pace, Readers};
use super::seen::Seen;
use super::special::SpecialIds;
use super::write::Writer;
use super::{EncodeError, Job, Observer, Summary, panics_in};
use crate::chat::Locate;
use crate::engine::Engine;
use crate::input::{Batch, Continuation, FileReport, InputFile, Position, Reader};
use crate::json_parts::JsonParts;
use crate::manifest::OnError;
use crate::output::{Output, WriteBack};

/// Batches per queue. The budget bounds their memory; this bounds how far one stage runs ahead of the next.
pub(super) const QUEUE: usize = 2;

/// Number of parts of the output that may wait for write-back before the writer is held up.
const DUE: usize = 2;

/// Time for which a run that ends early waits for a reader that is blocked in a read.
const READER_GRACE: Duration = Duration::from_millis(100);

/// The result of the stages.
pub(super) struct Run {
    pub(super) account: Account,
    /// The output; none if its stage panicked.
    pub(super) output: Option<Output>,
    /// The findings of the stages, the memory and the readers that they used, and their trace.
    pub(super) summary: Summary,
    /// The place of the document that reached the limit. The reports cover the files before this place.
    pub(super) ended_at: Option<Position>,
    pub(super) end: Result<Vec<FileReport>, EncodeError>,
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

/// An item that the reader feeds. If reading ends early, the items read before precede the error.
pub(super) type Fed = Result<Item<Read>, EncodeError>;

/// Runs the stages until the last document is in `output`, or a stage fails. With `start`, the place where this run begins, another run can
/// continue the output.
pub(super) fn run(
    mut job: Job,
    engine: &dyn Engine,
    special: &SpecialIds,
    locate: Option<&dyn Locate>,
    output: Output,
    observer: &dyn Observer,
    start: Option<(Continuation, Account)>,
) -> Run {
    let limit = job.reading.selection.limit.map_or(u64::MAX, NonZeroU64::get);
    let is_resumable = start.is_some();
    let (continuation, account) = start.unwrap_or_default();
    let summary = Summary::default();
    if account.documents.written == limit {
        let Continuation { position, reports } = continuation;
        return Run { account, output: Some(output), summary, ended_at: Some(position), end: Ok(reports) };
    }
    let names: Vec<String> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let (fields, reports) = (job.reading.fields(), continuation.reports.clone());
    let budget = Arc::new(Budget::new(job.memory, engine.working_bytes()));
    let make = reader_of(&job, engine, output.takes_parts());
    let make: MakeReader = Arc::new(move |files| if is_resumable { make(files).resumable() } else { make(files) });
    let pool = Pool::new(job.threads);
    // The reader begins before the other stages.
    let zero = Instant::now();
    let (reading, batches, used) = match Reading::begin(&mut job, engine, make, continuation, &budget, pool.threads()) {
        Ok(begun) => begun,
        Err(error) => {
            let account = Account::default();
            return Run { account, output: Some(output), summary, ended_at: None, end: Err(error) };
        }
    };
    let context = EncodeContext {
        locate,
        stop_at_bad: job.reading.on_error == OnError::Fail,
        seen: Seen::new(fields.keep.len()),
        ..EncodeContext::new(&job, engine, observer, &names, &fields)
    };
    let mut encoding = Encoding {
        context: &context,
        budget: &budget,
        through: false,
        exceeding: 0,
        document: OpenDocument::default(),
    };
    let writer = Writer {
        reading: &job.reading,
        max_skipped: job.max_skipped,
        output,
        account,
        part: Default::default(),
        reports,
        names: &names,
        fields: &fields,
        special,
        has_masks: locate.is_some(),
        limit,
        ended_at: None,
    };
    let mut writing = Writing { writer, budget: &budget, used, is_whole: true, reports: None };
    // Dirty pages are written to the disk while the next batches are encoded; a slower disk holds up the writer. Otherwise the final sync would
    // write all of them, with no other work at the same time.
    let write_back = |due: Option<WriteBack>| Ok(due.map_or(Ok(()), WriteBack::run)?);
    let (mut trace, mut begun) = (Trace::new(), zero);
    let end = pool.install(|| {
        let encoded = batches.ahead(QUEUE).compute("encode", |item| encoding.encode(item)).ahead(QUEUE);
        let written = encoded.blocking("write", |item| writing.write(item));
        let due = written.ahead(usize::MAX).weigh(DUE, |due| usize::from(due.is_some()));
        let synced = due.blocking("sync", write_back);
        begun = Instant::now();
        if job.trace { synced.trace(&mut trace).run() } else { synced.run() }
    });
    // The reader may wait for memory.
    budget.close();
    let (readers, awaited) = reading.finish(end.is_ok());
    let trace = job.trace.then(|| with_reading(trace, awaited, zero, begun));
    let (peak_in_flight, exceeding) = (budget.peak(), encoding.exceeding);
    let Writing { mut writer, is_whole, reports, .. } = writing;
    let end = match end {
        Ok(_) => Ok(reports.expect("the reader delivers the reports as its last item unless it fails")),
        Err(failure) => match (error_of(failure), &writer.ended_at) {
            // The writer has ended the run.
            (EncodeError::Stopped, Some(position)) => {
                writer.reports.truncate(position.file as usize);
                Ok(mem::take(&mut writer.reports))
            }
            (error, _) => Err(error),
        },
    };
    let Writer { output, account, ended_at, .. } = writer;
    let (output, account) = if is_whole { (Some(output), account) } else { (None, Account::default()) };
    let summary = Summary { peak_in_flight, exceeding, readers, trace, ..context.seen.findings(&fields.keep) };
    Run { account, output, summary, ended_at, end }
}

/// Makes readers of a job's inputs. Documents come in parts where the engine can cut them and `takes_parts` is set.
pub(super) fn reader_of(
    job: &Job,
    engine: &dyn Engine,
    takes_parts: bool,
) -> impl Fn(Vec<InputFile>) -> Reader + Send + Sync + use<> {
    let (fields, batch_bytes) = (job.reading.fields(), job.batch_bytes(engine.working_bytes()));
    let splits_texts = engine.cuts_documents() && takes_parts && job.chat.is_none();
    let splits_json_lines =
        splits_texts && matches!(fields.text.as_slice(), [field] if JsonParts::can_keep(field, &fields.keep));
    move |files| {
        let mut reader = Reader::new(files, batch_bytes).fields(fields.clone());
        if splits_texts {
            reader = reader.split_texts();
        }
        if splits_json_lines { reader.split_json_lines() } else { reader }
    }
}

/// The error of lanes that failed.
pub(super) fn error_of(failure: Failure<EncodeError>) -> EncodeError {
    match failure {
        Failure::Error { error, .. } => error,
        Failure::Thread(error) => EncodeError::Thread(error),
        Failure::Cancelled { .. } => EncodeError::Stopped,
        failure => unreachable!("{failure}: the lanes and the reader catch their panics"),
    }
}

/// A trace with the times at which batches were awaited. It began at `begun`, the run at `zero`.
fn with_reading(mut trace: Trace, awaited: Vec<Awaited>, zero: Instant, begun: Instant) -> Trace {
    let nanos = |time: Duration| time.as_nanos() as f64;
    let since = |at: Instant| nanos(at.duration_since(zero));
    let times =
        trace.lanes.iter_mut().flat_map(|lane| &mut lane.tiles).flat_map(|tile| [&mut tile.start, &mut tile.end]);
    times.chain([&mut trace.wall]).for_each(|time| time.0 += since(begun));
    let tiles = awaited.into_iter().map(|(at, time)| (Nanos(since(at)), Nanos(since(at) + nanos(time))));
    trace.lanes.insert(0, LaneTrace::beside("read", tiles));
    trace
}

/// The second stage.
struct Encoding<'w, 'e> {
    context: &'w EncodeContext<'e>,
    budget: &'w Budget,
    /// True after the first bad document, if that ends the run: no later batch is needed.
    through: bool,
    exceeding: u64,
    document: OpenDocument,
}

impl Encoding<'_, '_> {
    fn encode(&mut self, item: Fed) -> Result<Item<Encoded>, EncodeError> {
        let Read { batch, mut held } = match item? {
            Item::Batch(read) => read,
            Item::End(reports) => return Ok(Item::End(reports)),
        };
        let Self { context, budget, document, .. } = self;
        let chunks = if self.through {
            Vec::new()
        } else {
            let begins_with_part = batch.records.first().is_some_and(|first| document.is_part(first));
            self.exceeding += context.announce(&batch, begins_with_part, budget);
            budget.begins(&mut held);
            panics_in("encoding", || context.encode_with_parts(&batch, document, &CancelToken::current()))?
        };
        budget.encoded(&mut held, chunks.iter().map(Chunk::memory).sum::<usize>() + document.memory());
        self.through |= context.stop_at_bad && chunks.last().is_some_and(|chunk| !chunk.bad.is_empty());
        Ok(Item::Batch(Encoded { batch, held, chunks }))
    }
}

/// The third stage.
struct Writing<'e> {
    writer: Writer<'e>,
    budget: &'e Budget,
    /// Returns used batches, whose memory the reader uses again.
    used: Sender<Batch>,
    /// False if the writer has panicked.
    is_whole: bool,
    reports: Option<Vec<FileReport>>,
}

impl Writing<'_> {
    fn write(&mut self, item: Item<Encoded>) -> Result<Option<WriteBack>, EncodeError> {
        let Encoded { mut batch, held, chunks } = match item {
            Item::Batch(encoded) => encoded,
            Item::End(all) => {
                self.reports = Some(all);
                return Ok(None);
            }
        };
        let writer = &mut self.writer;
        writer.reports.append(&mut batch.finished);
        // A writer that panics is not used again.
        self.is_whole = false;
        let written = panics_in("writing", || {
            chunks.into_iter().try_for_each(|chunk| writer.write(chunk, &batch)).map(|()| writer.output.write_back())
        })?;
        self.is_whole = true;
        self.budget.release(held);
        // The reader may have read everything already.
        let _ = self.used.send(batch);
        written
    }
}

/// The first stage, on a separate thread.
pub(super) struct Reading {
    /// Returns the number of readers, and the times in which batches were awaited.
    thread: JoinHandle<(usize, Vec<Awaited>)>,
    /// Carries no data. It disconnects when all reading threads have ended, except for a few instructions.
    ended: Receiver<()>,
}

/// The reader, its batches, and the channel that returns used ones.
type Begun<'env> = (Reading, Overlap<'env, Fed, EncodeError>, Sender<Batch>);

impl Reading {
    /// Begins to read the inputs of a job, which it takes, from a place on.
    pub(super) fn begin<'env>(
        job: &mut Job,
        engine: &dyn Engine,
        make: MakeReader,
        continuation: Continuation,
        budget: &Arc<Budget>,
        threads: usize,
    ) -> Result<Begun<'env>, EncodeError> {
        let (used, recycled) = mpsc::channel();
        let (feeder, batches) = overlap::fed();
        let (alive, ended) = mpsc::channel();
        let mut files = mem::take(&mut job.inputs);
        files.drain(..files.len().min(continuation.position.file as usize));
        let (batch_bytes, pace) = (job.batch_bytes(engine.working_bytes()), Pace::new(job.readers, threads));
        let mut readers = Readers::new(files, make, continuation, batch_bytes, pace, Arc::clone(budget), alive);
        readers.awaited = job.trace.then(Vec::new);
        let budget = Arc::clone(budget);
        let body = move || feed(readers, feeder, &recycled, &budget, threads);
        let thread = thread::Builder::new().name("windrow-read".to_owned()).spawn(body).map_err(EncodeError::Thread)?;
        Ok((Self { thread, ended }, batches, used))
    }

    /// Waits for the thread to end, and returns its result. With `is_read`, it has fed its last item. Otherwise the closed budget makes it end; if
    /// it is blocked, it is left running.
    pub(super) fn finish(self, is_read: bool) -> (usize, Vec<Awaited>) {
        if is_read || self.ended.recv_timeout(READER_GRACE) == Err(RecvTimeoutError::Disconnected) {
            // The thread catches its panics.
            return self.thread.join().unwrap_or_default();
        }
        Default::default()
    }
}

/// Feeds batches until there are no more, or they are no longer wanted.
fn feed(
    mut readers: Readers,
    mut feeder: Feeder<Fed>,
    recycled: &Receiver<Batch>,
    budget: &Budget,
    threads: usize,
) -> (usize, Vec<Awaited>) {
    loop {
        let used = recycled.try_recv().unwrap_or_default();
        let item = panics_in("reading", || readers.next_batch(used)).flatten().map(|item| match item {
            Item::Batch(batch) => {
                let longest = batch.records.iter().map(|record| record.len).max().unwrap_or(0);
                let held = budget.hand_on(longest.saturating_mul(threads));
                Item::Batch(Read { batch, held })
            }
            Item::End(reports) => Item::End(reports),
        });
        let last = !matches!(item, Ok(Item::Batch(_)));
        let begin = Instant::now();
        if feeder.push(item).is_err() || last {
            return (readers.count(), readers.awaited.unwrap_or_default());
        }
        readers.blocked(begin.elapsed());
    }
}

//! The three stages and the queues between them.
//!
//! A queue's end tells the stage before it that nobody listens any more, and the one after it that nothing comes any more.
//! So each stage that stops, in whatever way, stops its neighbours when they turn to it. When the writer fails, two may be
//! waiting elsewhere: the reader for memory, and the encode stage for a reader whose input says nothing. So the writer's last
//! act is to close the [`Budget`] and to knock at the encode stage's queue; and as that queue then has two senders, the
//! reader's last act is to knock too.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use windrow::Pool;

use super::budget::{Budget, Held};
use super::chunk::{Bad, Chunk, Workshop, at_record};
use super::{EncodeError, Job, Observer};
use crate::document::text_of;
use crate::engine::{Engine, caught};
use crate::input::{Batch, FileReport, InputError, Reader};
use crate::manifest::{Documents, OnError, SkippedDocument};
use crate::output::{Output, OutputError, OutputErrorKind};

/// Batches in a queue. The budget bounds their memory; this bounds how far one stage runs ahead of the next.
const QUEUE: usize = 2;

/// For how long a failed run waits for a reader that is in the middle of a read.
const READER_GRACE: Duration = Duration::from_millis(100);

/// Takes runs of consecutive documents: an [`Output`], or a stand-in for it in tests.
pub(super) trait Sink: Send + 'static {
    /// As [`Output::append`].
    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError>;

    /// As [`Output::documents`].
    fn documents(&self) -> u64;
}

impl Sink for Output {
    fn append(&mut self, ids: &[u32], ends: &[usize]) -> Result<(), OutputError> {
        Output::append(self, ids, ends)
    }

    fn documents(&self) -> u64 {
        Output::documents(self)
    }
}

/// What came of the stages.
pub(super) struct Run<S> {
    pub(super) account: Account,
    /// The sink, unless its stage panicked.
    pub(super) sink: Option<S>,
    pub(super) peak: usize,
    pub(super) end: Result<Vec<FileReport>, EncodeError>,
}

/// What became of the documents so far, in their order.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) documents: Documents,
    pub(super) text_bytes: u64,
    pub(super) skipped: Vec<SkippedDocument>,
}

/// From one stage to the next.
enum Item<T> {
    Batch(T),
    /// Everything was read.
    End(Vec<FileReport>),
    /// Reading ended early. What was read before goes ahead of it, so that the first failure in document order decides.
    Failed(InputError),
    /// Nothing: the sender has ended.
    Knock,
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

/// How a stage ended: `None` is "cut short by another".
type End = Option<Result<Vec<FileReport>, EncodeError>>;

/// Wakes the other stages at the end of the last one, also when that end is a panic.
struct Farewell {
    budget: Arc<Budget>,
    encode_stage: SyncSender<Item<Read>>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.budget.close();
        // If the queue is full, the encode stage does not wait for it.
        let _ = self.encode_stage.try_send(Item::Knock);
    }
}

/// Says at the end of the first stage, also when that is a panic, that nothing comes any more.
struct LastWord(SyncSender<Item<Read>>);

impl Drop for LastWord {
    fn drop(&mut self) {
        // The encode stage may have ended before.
        let _ = self.0.send(Item::Knock);
    }
}

/// Runs the stages until the last document is in `sink`, or one fails.
pub(super) fn run<S: Sink>(job: Job, engine: &dyn Engine, sink: S, observer: &dyn Observer) -> Run<S> {
    let budget = Arc::new(Budget::new(job.memory));
    let names: Arc<[String]> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let batch_bytes = job.batch_bytes();
    let field: Arc<str> = job.reading.field.into();
    let on_error = job.reading.on_error;
    let pool = Pool::new(job.threads);
    let (used, recycled) = mpsc::channel();

    let (to_encode, read) = mpsc::sync_channel(QUEUE);
    let (to_write, encoded) = mpsc::sync_channel(QUEUE);
    let mut writer =
        Writer { sink, account: Account::default(), names: Arc::clone(&names), field: Arc::clone(&field), on_error };
    let farewell = Farewell { budget: Arc::clone(&budget), encode_stage: to_encode.clone() };
    let writing = start("windrow-write", move || {
        let end = writer.run(&encoded, &used, &farewell.budget);
        (writer.sink, writer.account, end)
    });
    let writing = match writing {
        Ok(writing) => writing,
        Err(error) => return Run { account: Account::default(), sink: None, peak: 0, end: Err(error) },
    };

    let reading = start("windrow-read", {
        let budget = Arc::clone(&budget);
        let reader = Reader::new(job.inputs, batch_bytes);
        let to_encode = LastWord(to_encode);
        move || read_all(reader, &to_encode.0, &recycled, &budget)
    });
    let workshop = Workshop {
        engine,
        observer,
        names: &names,
        field: &field,
        stop_at_bad: on_error == OnError::Fail,
        chunk_bytes: job.chunk_bytes,
        stopped: &|| budget.is_closed(),
        benches: Default::default(),
    };
    let encoding = match &reading {
        Ok(_) => caught(|| pool.install(|| encode_all(&workshop, &read, to_write, &budget))),
        Err(_) => {
            drop(to_write);
            Ok(())
        }
    };
    let (sink, account, written) = match join(writing) {
        Ok((sink, account, end)) => (Some(sink), account, end),
        Err(message) => (None, Account::default(), Some(Err(EncodeError::Panicked { stage: "writing", message }))),
    };
    let reading = reading.and_then(|reading| finish_reading(reading, &read));

    // The writer knows the first failure in document order, unless it was cut short by one that has no such place.
    let end = match (written, encoding, reading) {
        (Some(end), ..) => end,
        (None, Err(message), _) => Err(EncodeError::Panicked { stage: "encoding", message }),
        (None, Ok(()), Err(error)) => Err(error),
        (None, Ok(()), Ok(())) => unreachable!("a stage was cut short, and no other has failed"),
    };
    Run { account, sink, peak: budget.peak(), end }
}

/// A thread whose panic is its result's message.
fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<Result<T, String>>, EncodeError> {
    thread::Builder::new().name(name.to_owned()).spawn(move || caught(body)).map_err(EncodeError::Thread)
}

fn join<T>(thread: JoinHandle<Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("a panic while another was handled".to_owned()))
}

/// The first stage.
fn read_all(mut reader: Reader, batches: &SyncSender<Item<Read>>, recycled: &Receiver<Batch>, budget: &Budget) {
    loop {
        let used = recycled.try_recv().unwrap_or_default();
        let item = match reader.next_batch(used, &mut |more| budget.reserve(more)) {
            Ok(Some(batch)) => Item::Batch(Read { batch, held: budget.hand_on() }),
            Ok(None) => Item::End(reader.reports().to_vec()),
            Err(error) => Item::Failed(error),
        };
        let last = !matches!(item, Item::Batch(_));
        if batches.send(item).is_err() || last {
            return;
        }
    }
}

/// Waits for the reader's thread to end. After a failure the closed budget has told it to; it is left alone if it does not.
fn finish_reading(reading: JoinHandle<Result<(), String>>, read: &Receiver<Item<Read>>) -> Result<(), EncodeError> {
    let deadline = Instant::now() + READER_GRACE;
    loop {
        // What it still sends is not wanted. The queue's end is the thread's, but for a few instructions.
        match read.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    join(reading).map_err(|message| EncodeError::Panicked { stage: "reading", message })
}

/// The second stage.
fn encode_all(
    workshop: &Workshop<'_>,
    batches: &Receiver<Item<Read>>,
    to_write: SyncSender<Item<Encoded>>,
    budget: &Budget,
) {
    while let Ok(item) = batches.recv() {
        let (item, last) = match item {
            Item::Batch(Read { batch, mut held }) => {
                let chunks = workshop.encode(&batch);
                budget.encoded(&mut held, chunks.iter().map(Chunk::memory).sum());
                let last = workshop.stop_at_bad && chunks.last().is_some_and(|chunk| !chunk.bad.is_empty());
                (Item::Batch(Encoded { batch, held, chunks }), last)
            }
            Item::End(reports) => (Item::End(reports), true),
            Item::Failed(error) => (Item::Failed(error), true),
            Item::Knock => return,
        };
        if to_write.send(item).is_err() || last {
            return;
        }
    }
}

/// The third stage.
struct Writer<S> {
    sink: S,
    account: Account,
    names: Arc<[String]>,
    field: Arc<str>,
    on_error: OnError,
}

impl<S: Sink> Writer<S> {
    fn run(&mut self, items: &Receiver<Item<Encoded>>, used: &Sender<Batch>, budget: &Budget) -> End {
        while let Ok(item) = items.recv() {
            match item {
                Item::Batch(Encoded { batch, held, chunks }) => {
                    for chunk in chunks {
                        if let Err(error) = self.write(chunk, &batch) {
                            return Some(Err(error));
                        }
                    }
                    budget.release(held);
                    // The reader may have read everything already.
                    let _ = used.send(batch);
                }
                Item::End(reports) => return Some(Ok(reports)),
                Item::Failed(error) => return Some(Err(error.into())),
                Item::Knock => {}
            }
        }
        None
    }

    fn write(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        self.append(&mut chunk, batch)?;
        match (self.on_error, chunk.bad.first()) {
            (OnError::Fail, Some(bad)) => {
                self.account.documents.failed += 1;
                self.account.documents.read += 1;
                Err(EncodeError::Document(bad.document.clone()))
            }
            _ => {
                self.account.documents.skipped += chunk.bad.len() as u64;
                self.account.documents.read += chunk.bad.len() as u64;
                self.account.skipped.extend(chunk.bad.into_iter().map(|bad| bad.document));
                Ok(())
            }
        }
    }

    /// Appends the good documents. One that the format cannot hold becomes a bad one.
    fn append(&mut self, chunk: &mut Chunk, batch: &Batch) -> Result<(), EncodeError> {
        loop {
            match self.sink.append(&chunk.ids, &chunk.ends) {
                Ok(()) => break,
                Err(error) => match error.document().filter(|_| error.kind() == OutputErrorKind::Document) {
                    // Nothing of this run was written: the rest of it can be.
                    Some(document) => self.reject(chunk, batch, (document - self.sink.documents()) as usize, &error),
                    None => return Err(error.into()),
                },
            }
        }
        let written = chunk.ends.len() as u64;
        self.account.documents.read += written;
        self.account.documents.written += written;
        self.account.text_bytes += chunk.text_bytes;
        Ok(())
    }

    /// Makes a bad document of the good one with this number in the chunk; if it ends the run, drops all that follow.
    fn reject(&self, chunk: &mut Chunk, batch: &Batch, number: usize, error: &OutputError) {
        let good: Vec<usize> =
            chunk.records.clone().filter(|&index| chunk.bad.iter().all(|bad| bad.record != index)).collect();
        let last = if self.on_error == OnError::Fail {
            chunk.bad.clear();
            chunk.ends.len()
        } else {
            number + 1
        };
        for &index in &good[number..last] {
            let record = &batch.records[index];
            let text = text_of(record.format, batch.bytes_of(record), &self.field, &mut String::new()).map(str::len);
            chunk.text_bytes -= text.expect("it had a text before") as u64;
        }
        let begin = number.checked_sub(1).map_or(0, |before| chunk.ends[before]);
        let end = chunk.ends[last - 1];
        chunk.ids.drain(begin..end);
        chunk.ends.drain(number..last);
        chunk.ends[number..].iter_mut().for_each(|later| *later -= end - begin);
        let record = &batch.records[good[number]];
        let message = error.to_string();
        let reason = message.lines().next().unwrap_or_default().to_owned();
        let bad = Bad { record: good[number], document: at_record(&self.names[record.file as usize], record, reason) };
        let place = chunk.bad.partition_point(|other| other.record < bad.record);
        chunk.bad.insert(place, bad);
    }
}

//! Readers side by side.
//!
//! ```text
//! inputs:  | unit, read by the calling thread | unit, ahead | unit, ahead | units that have not begun ...
//!            ^ its batches are delivered        ^ their batches wait, in up to half of the memory
//! ```
//!
//! A *unit* is a run of consecutive inputs that one [`Reader`] reads. The order of the inputs is kept: a batch is delivered when all units
//! before its own are. So readers ahead pay as long as their batches find room: files that are larger than it are read side by side only up
//! to their first part.
//!
//! One reader begins. Another one is added when the run waits for reading ([`Pace`]), up to one for each thread that encodes.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::{EncodeError, panics_in};
use crate::input::{Batch, Continuation, FileReport, InputFile, Reader, Stopped};

/// Makes the reader of a unit.
pub(super) type MakeReader = Box<dyn Fn(Vec<InputFile>) -> Reader + Send>;

/// Units for each reader. With fewer, some readers would end long before others.
const UNITS: u64 = 8;

/// Batches in a unit, if there are many inputs: a thread is started for each unit.
const BATCHES: u64 = 4;

/// Consecutive inputs that one reader reads.
struct Unit {
    first: u32,
    files: Vec<InputFile>,
    /// Whether all of them can be opened before they are wanted: a pipe may wait for its writer.
    is_regular: bool,
}

/// What a reader ahead has read.
#[derive(Default)]
struct Ahead {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    end: Option<Result<Vec<FileReport>, EncodeError>>,
    /// Used batches, whose memory the reader takes again.
    used: Vec<Batch>,
}

impl Ahead {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Each change is one call of a vector or an assignment, so a panic leaves no inconsistent state.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        self.queue().end.is_some()
    }

    /// Reads until the end of the unit; `number` is its first input.
    fn read(&self, mut reader: Reader, number: u32, budget: &Budget) {
        let end = loop {
            let used = self.queue().used.pop().unwrap_or_default();
            let mut granted = 0;
            let mut hold = |more| {
                budget.reserve_ahead(number, more)?;
                granted += more;
                Ok(())
            };
            let end = match panics_in("reading", || reader.next_batch(used, &mut hold)) {
                Ok(Ok(Some(batch))) => {
                    let mut queue = self.queue();
                    queue.batches.push_back(batch);
                    // From now on this reader waits for memory again; under the lock, since the stages may want the next batch at once.
                    budget.delivered(number);
                    drop(queue);
                    self.arrived.notify_one();
                    continue;
                }
                Ok(Ok(None)) => Ok(reader.reports().to_vec()),
                Ok(Err(error)) => Err(error.into()),
                Err(error) => Err(error),
            };
            // Without a batch its memory is free again.
            budget.release_ahead(granted);
            break end;
        };
        self.queue().end = Some(end);
        self.arrived.notify_one();
    }

    /// The next batch, which is waited for.
    fn next(&self, number: u32, used: Batch, budget: &Budget) -> Result<Next, EncodeError> {
        let mut queue = self.queue();
        if !used.bytes.is_empty() && queue.used.is_empty() && queue.end.is_none() {
            queue.used.push(used);
        }
        if queue.batches.is_empty() && queue.end.is_none() {
            budget.want(number);
            let empty = |queue: &mut Queue| queue.batches.is_empty() && queue.end.is_none();
            queue = self.arrived.wait_while(queue, empty).unwrap_or_else(PoisonError::into_inner);
        }
        match queue.batches.pop_front() {
            Some(batch) => Ok(Next::Batch(batch)),
            None => queue.end.take().expect("it was waited for").map(Next::End),
        }
    }
}

enum Next {
    Batch(Batch),
    End(Vec<FileReport>),
}

/// The unit whose batches are delivered.
enum Front {
    Here(Box<Reader>),
    Ahead(u32, Arc<Ahead>),
}

/// Reads inputs in order, several of them at a time if that pays.
pub(super) struct Readers {
    front: Front,
    /// The units behind the front that have begun.
    ahead: VecDeque<(u32, Arc<Ahead>)>,
    waiting: VecDeque<Unit>,
    make: MakeReader,
    budget: Arc<Budget>,
    /// Disconnects when all threads have ended.
    alive: Sender<()>,
    pace: Pace,
    reports: Vec<FileReport>,
    /// Of the unit in front, how many reports were delivered with batches.
    delivered: usize,
    /// Reports of finished files that the next batch delivers.
    finished: Vec<FileReport>,
}

impl Readers {
    /// Reads `files`, the first of which is that of the continuation. `pace` decides how many readers there are.
    pub(super) fn new(
        files: Vec<InputFile>,
        make: MakeReader,
        continuation: Continuation,
        batch_bytes: usize,
        pace: Pace,
        budget: Arc<Budget>,
        alive: Sender<()>,
    ) -> Self {
        let mut waiting = units(files, continuation.position.file, batch_bytes, pace.most);
        let first = waiting.pop_front().map_or(Vec::new(), |unit| unit.files);
        let mut reader = make(first);
        // Its reports are known to the writer.
        let delivered = continuation.reports.len();
        reader.continue_at(continuation);
        let front = Front::Here(Box::new(reader));
        let (ahead, reports, finished) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { front, ahead, waiting, make, budget, alive, pace, reports, delivered, finished }
    }

    /// As [`Reader::next_batch`]; the memory of the batch is reserved.
    pub(super) fn next_batch(&mut self, used: Batch) -> Result<Option<Batch>, EncodeError> {
        let mut used = Some(used);
        loop {
            self.begin_ahead();
            let used = used.take().unwrap_or_default();
            let asked = Instant::now();
            let mut blocked = Duration::ZERO;
            let budget = &self.budget;
            let next = match &mut self.front {
                Front::Here(reader) => {
                    let mut hold = |more| timed(&mut blocked, || budget.reserve(more));
                    match reader.next_batch(used, &mut hold)? {
                        Some(batch) => Next::Batch(batch),
                        None => Next::End(reader.reports().to_vec()),
                    }
                }
                Front::Ahead(number, ahead) => {
                    let next = ahead.next(*number, used, budget)?;
                    if let Next::Batch(batch) = &next {
                        timed(&mut blocked, || budget.adopt(batch.held)).map_err(|Stopped| EncodeError::Stopped)?;
                    }
                    next
                }
            };
            self.pace.read(asked.elapsed().saturating_sub(blocked), blocked);
            match next {
                Next::Batch(mut batch) => {
                    self.delivered += batch.finished.len();
                    if !self.finished.is_empty() {
                        batch.finished.splice(0..0, self.finished.drain(..));
                    }
                    return Ok(Some(batch));
                }
                Next::End(mut reports) => {
                    self.finished.extend_from_slice(&reports[self.delivered..]);
                    self.delivered = 0;
                    self.reports.append(&mut reports);
                    if !self.advance() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The reports of all inputs, after the last batch.
    pub(super) fn take_reports(&mut self) -> Vec<FileReport> {
        mem::take(&mut self.reports)
    }

    /// The number of readers until now.
    pub(super) fn count(&self) -> usize {
        self.pace.readers
    }

    /// Notes how long the run had no need of another batch.
    pub(super) fn blocked(&mut self, time: Duration) {
        self.pace.blocked += time;
    }

    /// Goes on to the next unit, if there is one.
    fn advance(&mut self) -> bool {
        if let Some((number, ahead)) = self.ahead.pop_front() {
            self.front = Front::Ahead(number, ahead);
        } else if let Some(unit) = self.waiting.pop_front() {
            self.front = Front::Here(Box::new(self.reader(unit)));
        } else {
            return false;
        }
        true
    }

    fn reader(&self, Unit { first, files, .. }: Unit) -> Reader {
        let mut reader = (self.make)(files);
        reader.begin_at(first);
        reader
    }

    /// Begins units ahead until there are as many readers as wanted.
    fn begin_ahead(&mut self) {
        let wanted = self.pace.readers();
        if wanted == 1 {
            return;
        }
        let has_ended = match &self.front {
            Front::Here(_) => false,
            Front::Ahead(_, ahead) => ahead.has_ended(),
        };
        let mut running = usize::from(!has_ended) + self.ahead.iter().filter(|(_, ahead)| !ahead.has_ended()).count();
        while running < wanted && self.waiting.front().is_some_and(|unit| unit.is_regular) {
            let Some(unit) = self.waiting.pop_front() else { return };
            let number = unit.first;
            let (reader, ahead) = (self.reader(unit), Arc::new(Ahead::default()));
            let (queue, budget, alive) = (Arc::clone(&ahead), Arc::clone(&self.budget), self.alive.clone());
            let body = move || {
                // Dropped last: the inputs are dropped before the thread signals its end.
                let _alive = alive;
                queue.read(reader, number, &budget);
            };
            self.ahead.push_back((number, Arc::clone(&ahead)));
            if let Err(error) = thread::Builder::new().name("windrow-ahead".to_owned()).spawn(body) {
                ahead.queue().end = Some(Err(EncodeError::Thread(error)));
                return;
            }
            running += 1;
        }
    }
}

/// Divides inputs into units; the first is `first`.
fn units(files: Vec<InputFile>, mut first: u32, batch_bytes: usize, readers: usize) -> VecDeque<Unit> {
    // Each may ask the system.
    let sizes: Vec<Option<u64>> = files.iter().map(InputFile::size).collect();
    let all: u64 = sizes.iter().flatten().sum();
    let enough = (batch_bytes as u64 * BATCHES).min(all / (readers as u64 * UNITS));
    let mut units = VecDeque::new();
    let mut unit = Unit { first, files: Vec::new(), is_regular: true };
    let mut bytes = 0;
    for (file, size) in files.into_iter().zip(sizes) {
        if !unit.files.is_empty() && (bytes >= enough || size.is_none() || !unit.is_regular) {
            first += unit.files.len() as u32;
            let next = Unit { first, files: Vec::new(), is_regular: true };
            units.push_back(mem::replace(&mut unit, next));
            bytes = 0;
        }
        unit.is_regular = size.is_some();
        bytes += size.unwrap_or(0);
        unit.files.push(file);
    }
    units.push_back(unit);
    units
}

/// Adds the time that `body` takes to `time`.
fn timed<T>(time: &mut Duration, body: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let value = body();
    *time += begin.elapsed();
    value
}

/// Decides how many readers there are: another one is added while the run waits for those there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    readers: usize,
    most: usize,
    /// Since the last reader was added: batches, time spent on reading them, and time in which no batch was needed.
    batches: u32,
    busy: Duration,
    blocked: Duration,
}

impl Pace {
    /// Batches after which it is decided. The first ones fill the queues.
    const BATCHES: u32 = 8;

    /// While reading limits the run, the reader is blocked for no more than this part of the time, since batches take unequal times.
    const JITTER: u32 = 8;

    /// So many readers, or for 0 as many as pay, but at most `most`.
    pub(super) fn new(readers: usize, most: usize) -> Self {
        let most = if readers == 0 { most.max(1) } else { readers };
        let (busy, blocked) = (Duration::ZERO, Duration::ZERO);
        Self { readers: readers.max(1), most, batches: 0, busy, blocked }
    }

    /// Notes the times of a batch.
    fn read(&mut self, busy: Duration, blocked: Duration) {
        self.batches += 1;
        self.busy += busy;
        self.blocked += blocked;
    }

    /// The number of readers from now on.
    fn readers(&mut self) -> usize {
        if self.batches >= Self::BATCHES && self.readers < self.most {
            let readers = self.readers + usize::from(self.blocked * Self::JITTER < self.busy + self.blocked);
            *self = Self { readers, ..Self::new(0, self.most) };
        }
        self.readers
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::input::{Compression, Format};

    #[test]
    fn readers_are_added_while_the_run_waits_for_them() {
        let batch = Duration::from_millis(10);
        let after = |blocked: Duration, most| {
            let mut pace = Pace::new(0, most);
            for _ in 0..Pace::BATCHES * 8 {
                pace.readers();
                pace.read(batch - blocked, blocked);
            }
            pace.readers()
        };
        assert_eq!(after(Duration::ZERO, 4), 4);
        assert_eq!(after(batch / 10, 4), 4);
        assert_eq!(after(batch / 5, 4), 1, "encoding limits");
        assert_eq!(after(Duration::ZERO, 1), 1);
        assert_eq!(Pace::new(3, 2).readers(), 3, "a given number is kept");
    }

    #[test]
    fn small_inputs_share_a_unit_and_streams_are_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = |number: usize, bytes: usize| {
            let path: PathBuf = folder.path().join(number.to_string());
            std::fs::write(&path, vec![b'a'; bytes]).unwrap();
            InputFile::from_path(&path, Format::Lines, Compression::None)
        };
        let stream = InputFile::from_reader("stream", &b"a"[..], Format::Lines, None);
        let files = vec![file(0, 10), file(1, 10), file(2, 50), file(3, 10), stream, file(4, 60)];
        let units = units(files, 7, 10, 1);
        let found: Vec<_> = units.iter().map(|unit| (unit.first, unit.files.len(), unit.is_regular)).collect();
        assert_eq!(found, [(7, 2, true), (9, 1, true), (10, 1, true), (11, 1, false), (12, 1, true)]);
    }
}

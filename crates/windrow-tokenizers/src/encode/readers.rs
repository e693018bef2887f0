//! Several readers at the same time.
//!
//! ```text
//! inputs:  | unit, read by the calling thread | unit, ahead | unit, ahead | units that have not begun ...
//!            ^ its batches are delivered        ^ their batches wait, in up to half of the memory
//! ```
//!
//! A *unit* is a run of consecutive inputs that one [`Reader`] reads. The order of the inputs is kept: a batch is delivered when all units before
//! its own are. So readers ahead pay as long as their batches find room: files that are larger than that room are read at the same time only up to
//! their first part.
//!
//! One reader begins. Another one is tried when the run waits for reading, up to one for each thread that encodes, and it stays if the run
//! gets faster ([`Pace`]): where no CPU is idle, it would take time from the threads that encode.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::{EncodeError, panics_in};
use crate::input::{Batch, Continuation, FileReport, InputFile, Reader, Stopped};

/// Makes the reader of a unit.
pub(super) type MakeReader = Arc<dyn Fn(Vec<InputFile>) -> Reader + Send + Sync>;

/// Starts a thread.
type Start = fn(Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// Units for each reader. With fewer, some readers would end long before others.
const UNITS: u64 = 8;

/// Batches in a unit, if there are many inputs: a thread is started for each unit.
const BATCHES: u64 = 4;

/// Consecutive inputs that one reader reads.
struct Unit {
    first: u32,
    files: Vec<InputFile>,
    /// True if all of them can be opened before their turn: a pipe may wait for its writer.
    is_regular: bool,
}

impl Unit {
    fn reader(self, make: &MakeReader) -> Reader {
        let mut reader = make(self.files);
        reader.begin_at(self.first);
        reader
    }
}

/// The batches of a reader ahead.
#[derive(Default)]
struct Ahead {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The unit to read, until reading begins.
    unit: Option<Unit>,
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

    /// Reads until the end of the unit.
    fn read(&self, make: &MakeReader, budget: &Budget) {
        let Some(unit) = self.queue().unit.take() else { return };
        let number = unit.first;
        let mut reader = unit.reader(make);
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

    /// Waits for the next batch.
    fn next(&self, number: u32, used: Batch, budget: &Budget) -> Result<Item<Batch>, EncodeError> {
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
            Some(batch) => Ok(Item::Batch(batch)),
            None => queue.end.take().expect("waited for the end").map(Item::End),
        }
    }
}

/// An item that one stage passes to the next.
pub(super) enum Item<T> {
    Batch(T),
    /// The end of the inputs.
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
    /// The units after the front that have begun.
    ahead: VecDeque<(u32, Arc<Ahead>)>,
    waiting: VecDeque<Unit>,
    make: MakeReader,
    start: Start,
    budget: Arc<Budget>,
    /// Disconnects when all threads have ended.
    alive: Sender<()>,
    pace: Pace,
    reports: Vec<FileReport>,
    /// Number of reports of the unit in front that were delivered with batches.
    delivered: usize,
    /// Reports of finished files that the next batch delivers.
    finished: Vec<FileReport>,
    /// The times in which batches were awaited, if the run is traced.
    pub(super) awaited: Option<Vec<Awaited>>,
}

/// The time in which a batch was awaited.
pub(super) type Awaited = (Instant, Duration);

impl Readers {
    /// Reads `files`, the first of which is that of the continuation. `pace` decides the number of readers.
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
        let (ahead, reports, finished, awaited) = (VecDeque::new(), Vec::new(), Vec::new(), None);
        Self {
            front,
            ahead,
            waiting,
            make,
            start: start_thread,
            budget,
            alive,
            pace,
            reports,
            delivered,
            finished,
            awaited,
        }
    }

    /// The next batch, like [`Reader::next_batch`], or the reports of all inputs; the memory of the batch is reserved.
    pub(super) fn next_batch(&mut self, used: Batch) -> Result<Item<Batch>, EncodeError> {
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
                        Some(batch) => Item::Batch(batch),
                        None => {
                            // Otherwise the batch that it began would count until another one is handed on.
                            budget.release(budget.hand_on(0));
                            Item::End(reader.reports().to_vec())
                        }
                    }
                }
                Front::Ahead(number, ahead) => {
                    let next = ahead.next(*number, used, budget)?;
                    if let Item::Batch(batch) = &next {
                        timed(&mut blocked, || budget.adopt(batch.held)).map_err(|Stopped| EncodeError::Stopped)?;
                    }
                    next
                }
            };
            let bytes = match &next {
                Item::Batch(batch) => batch.records.last().map_or(0, |last| last.start + last.len),
                Item::End(_) => 0,
            };
            let busy = asked.elapsed().saturating_sub(blocked);
            self.pace.read(bytes, busy, blocked);
            if let Some(awaited) = &mut self.awaited {
                awaited.push((asked, busy));
            }
            match next {
                Item::Batch(mut batch) => {
                    self.delivered += batch.finished.len();
                    if !self.finished.is_empty() {
                        batch.finished.splice(0..0, self.finished.drain(..));
                    }
                    return Ok(Item::Batch(batch));
                }
                Item::End(mut reports) => {
                    self.finished.extend_from_slice(&reports[self.delivered..]);
                    self.delivered = 0;
                    self.reports.append(&mut reports);
                    if !self.advance() {
                        return Ok(Item::End(mem::take(&mut self.reports)));
                    }
                }
            }
        }
    }

    /// The number of readers at the end.
    pub(super) fn count(&self) -> usize {
        self.pace.readers
    }

    /// Records a time in which the run had no need of another batch.
    pub(super) fn blocked(&mut self, time: Duration) {
        self.pace.blocked(time);
    }

    /// Goes on to the next unit, if there is one.
    fn advance(&mut self) -> bool {
        if let Some((number, ahead)) = self.ahead.pop_front() {
            self.front = Front::Ahead(number, ahead);
        } else if let Some(unit) = self.waiting.pop_front() {
            self.front = Front::Here(Box::new(unit.reader(&self.make)));
        } else {
            return false;
        }
        self.pace.unit_begins();
        true
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
            let (number, ahead) = (unit.first, Arc::new(Ahead::default()));
            ahead.queue().unit = Some(unit);
            let (queue, make) = (Arc::clone(&ahead), Arc::clone(&self.make));
            let (budget, alive) = (Arc::clone(&self.budget), self.alive.clone());
            let body = move || {
                // Dropped last: the inputs are dropped before the thread signals its end.
                let _alive = alive;
                queue.read(&make, &budget);
            };
            if (self.start)(Box::new(body)).is_err() {
                // The system has no more threads. The unit is read when it is its turn.
                self.waiting.extend(ahead.queue().unit.take());
                self.waiting.rotate_right(1);
                self.pace.stay_at(running.max(1));
                return;
            }
            self.ahead.push_back((number, ahead));
            running += 1;
        }
    }
}

/// Divides inputs into units; the first input has the number `first`.
fn units(files: Vec<InputFile>, mut first: u32, batch_bytes: usize, readers: usize) -> VecDeque<Unit> {
    // Each size may take a system call.
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

fn start_thread(body: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    thread::Builder::new().name("windrow-ahead".to_owned()).spawn(body).map(drop)
}

/// A part of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    batches: u32,
    bytes: u64,
    /// Time in which the next batch was awaited, and in which none was needed.
    busy: Duration,
    blocked: Duration,
}

impl Window {
    /// Largest share of the time for which the reader is blocked while reading limits the run, as `1 / JITTER`: batches take unequal times.
    const JITTER: u32 = 8;

    /// True if the run waited for reading.
    fn waited(&self) -> bool {
        self.blocked * Self::JITTER < self.busy + self.blocked
    }

    /// True if `readers` readers gave at least `1 / PART` of the gain from one more if nothing else limited the run.
    fn is_faster_than(&self, before: &Self, readers: usize) -> bool {
        const PART: u128 = 16;
        let time = |window: &Self| (window.busy + window.blocked).as_nanos();
        let parts = PART * (readers as u128 - 1);
        u128::from(self.bytes) * time(before) * parts >= u128::from(before.bytes) * time(self) * (parts + 1)
    }
}

/// The purpose of a window.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Waits for this number of batches before it watches.
    Rest(u32),
    /// Measures if the run waits for reading.
    Watch,
    /// One more reader has begun, and its batches are not delivered yet.
    Added { before: Window },
    /// The batches of the new reader are delivered; ends when `units` more units have begun. `batches` were delivered since it was added.
    Trial { before: Window, batches: u32, units: usize },
}

/// Decides the number of readers. While the run waits for its readers, another one is tried: it stays if the run gets faster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    readers: usize,
    most: usize,
    phase: Phase,
    window: Window,
}

impl Pace {
    /// Batches of a window. The first ones of a run only fill its queues and caches.
    const BATCHES: u32 = 8;

    /// Length of the rest after a failed trial, as a multiple of the batches of that trial.
    const REST: u32 = 16;

    /// The pace of this number of readers or, for 0, of as many as pay, but at most `most`.
    pub(super) fn new(readers: usize, most: usize) -> Self {
        let most = if readers == 0 { most.max(1) } else { readers };
        Self { readers: readers.max(1), most, phase: Phase::Rest(Self::BATCHES), window: Window::default() }
    }

    /// Adds a batch of `bytes` bytes and its times to the window.
    fn read(&mut self, bytes: usize, busy: Duration, blocked: Duration) {
        self.window.batches += u32::from(bytes > 0);
        self.window.bytes += bytes as u64;
        self.window.busy += busy;
        self.window.blocked += blocked;
    }

    fn blocked(&mut self, time: Duration) {
        self.window.blocked += time;
    }

    /// Records that all of a unit was delivered and another one begins.
    fn unit_begins(&mut self) {
        match &mut self.phase {
            // From here on the readers are ahead as they are after a whole number of units.
            Phase::Added { before } => {
                let batches = self.window.batches;
                self.phase = Phase::Trial { before: *before, batches, units: self.readers };
                self.window = Window::default();
            }
            Phase::Trial { units, .. } => *units = units.saturating_sub(1),
            Phase::Rest(_) | Phase::Watch => {}
        }
    }

    /// The number of readers from now on.
    fn readers(&mut self) -> usize {
        let window = self.window;
        let next = match self.phase {
            Phase::Rest(batches) if window.batches >= batches => Phase::Watch,
            Phase::Watch if window.batches >= Self::BATCHES => {
                if self.readers < self.most && window.waited() {
                    self.readers += 1;
                    Phase::Added { before: window }
                } else {
                    Phase::Watch
                }
            }
            Phase::Trial { before, batches, units: 0 } if window.batches >= Self::BATCHES => {
                if window.is_faster_than(&before, self.readers) {
                    Phase::Watch
                } else {
                    self.readers -= 1;
                    Phase::Rest(batches.saturating_add(window.batches).saturating_mul(Self::REST))
                }
            }
            _ => return self.readers,
        };
        self.phase = next;
        self.window = Window::default();
        self.readers
    }

    /// Keeps this number of readers from now on, without trials.
    fn stay_at(&mut self, readers: usize) {
        *self = Self::new(readers, readers);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::input::{Compression, Format};

    /// The number of readers after `batches` batches of 10 ms, 4 of them in a unit, the first of which are blocked for a part of it. The rate grows
    /// by `gain` with each further reader.
    fn after(batches: u32, blocked: f64, most: usize, gain: f64) -> usize {
        let mut pace = Pace::new(0, most);
        for batch in 1..=batches {
            let readers = pace.readers();
            let time = Duration::from_millis(10).div_f64(1.0 + gain * (readers - 1) as f64);
            pace.read(1 << 20, time.mul_f64(1.0 - blocked), time.mul_f64(blocked));
            if batch % 4 == 0 {
                pace.unit_begins();
            }
        }
        pace.readers()
    }

    #[test]
    fn readers_are_added_while_the_run_waits_for_them_and_gets_faster() {
        assert_eq!(after(15, 0.0, 4, 1.0), 1, "the first batches do not count");
        assert_eq!(after(17, 0.0, 4, 1.0), 2);
        assert_eq!(after(200, 0.0, 4, 1.0), 4);
        assert_eq!(after(200, 0.1, 4, 1.0), 4);
        assert_eq!(after(200, 0.2, 4, 1.0), 1, "encoding limits");
        assert_eq!(after(200, 0.0, 1, 1.0), 1);
        assert_eq!(after(200, 0.0, 8, 0.15), 8, "a small gain is one");
        assert_eq!(Pace::new(3, 2).readers(), 3, "a given number is kept");
    }

    #[test]
    fn a_reader_that_does_not_pay_is_dropped_and_rarely_tried_again() {
        let trials: u32 = (1..2_000).map(|batches| u32::from(after(batches, 0.0, 4, 0.05) == 2)).sum();
        assert!((2_000 / 20..2_000 / 16).contains(&trials), "{trials}");
        assert_eq!(after(2_000, 0.0, 4, 0.05), 1);
        assert_eq!(after(2_000, 0.0, 4, -0.1), 1);
    }

    #[test]
    fn without_another_thread_one_reader_reads_all() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<InputFile> = (0..5)
            .map(|number| {
                let path: PathBuf = folder.path().join(number.to_string());
                std::fs::write(&path, vec![b'0' + number; 10]).unwrap();
                InputFile::from_path(&path, Format::Text, Compression::None)
            })
            .collect();
        let make: MakeReader = Arc::new(|files| Reader::new(files, 10));
        let (alive, _ended) = std::sync::mpsc::channel();
        let budget = Arc::new(Budget::new(1 << 20, 0));
        let pace = Pace::new(3, 3);
        let mut readers = Readers::new(files, make, Continuation::default(), 10, pace, budget, alive);
        readers.start = |_| Err(io::ErrorKind::WouldBlock.into());
        let mut texts = Vec::new();
        let reports = loop {
            match readers.next_batch(Batch::default()).unwrap() {
                Item::Batch(batch) => texts.extend(batch.records.iter().map(|record| batch.bytes_of(record)[0])),
                Item::End(reports) => break reports,
            }
        };
        assert_eq!(texts, b"01234");
        assert_eq!(reports.len(), 5);
        assert_eq!(readers.count(), 1);
    }

    #[test]
    fn small_inputs_share_a_unit_and_streams_have_their_own() {
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

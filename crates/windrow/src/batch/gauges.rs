//! Gauges: numbers of a structure that can be read while a batch runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windrow_sync::Mutex;
use windrow_sync::machine;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::{Payload, message};

use super::lead::BatchedInner;
use super::{BatchOps, Batched};

/// The message of a panic.
pub(super) type PanicMessage = Arc<str>;

/// Readings of the queue, until two in a row are of the same number of batches.
///
/// Measure: count of readings.
const TRIES: u32 = 8;

/// Numbers that the holder of the lock and callers leave for [`Batched::gauges`].
#[derive(Default)]
pub(super) struct Seen {
    /// Operations that have run alone, operations that were cut from the queue, and batches that have run. One writer: the holder of the lock.
    pub(super) alone: RelaxedU64,
    pub(super) cut: RelaxedU64,
    pub(super) batches: RelaxedU64,
    /// The tick at which the running batch or job began; 0 if none runs.
    pub(super) since: RelaxedU64,
    pub(super) rejected: RelaxedU64,
    panicked: RelaxedU64,
    panic: Mutex<Option<PanicMessage>>,
    /// The operation that a reader has seen running alone, and when. (Its start has no time: a clock read costs more than the lock.)
    met: RelaxedU64,
    met_at: RelaxedU64,
}

/// Panics of executors: of tokio in a task, of tokio on another thread, of futures.
const EXECUTORS: [&str; 3] = ["from within a runtime", "no reactor running", "from within another executor"];

impl Seen {
    /// Records a panic in the structure, with the remedy if `run` was to wait for a future.
    pub(super) fn panicked(&self, payload: &Payload) {
        self.panicked.count(1);
        let text = message(payload).unwrap_or("a value that is not text");
        let remedy = match EXECUTORS.iter().any(|known| text.contains(known)) {
            true => {
                " (to await in a batch, use `Builder::build_async`; to block, use `Runner::spawned` with \
                 `spawn_blocking`)"
            }
            false => "",
        };
        *self.panic.lock() = Some(format!("{text}{remedy}").into());
    }

    /// The message of the last panic.
    pub(super) fn panic(&self) -> Option<PanicMessage> {
        self.panic.lock().clone()
    }
}

/// The numbers of a structure at one moment: see [`Batched::gauges`]. Each is exact. They are read one after the other: if this thread
/// loses its CPU meanwhile, they are of different moments.
///
/// ```
/// # use windrow::batch::{Batch, BatchOps, Batched};
/// # struct Sum(u64);
/// # impl BatchOps for Sum {
/// #     type Op = u64;
/// #     type Reply = u64;
/// #     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
/// #         for entry in batch.iter_mut() {
/// #             self.0 += entry.take();
/// #             entry.reply(self.0);
/// #         }
/// #     }
/// # }
/// let sum = Batched::new(Sum(0));
/// sum.call(5).unwrap();
/// assert_eq!(sum.gauges().to_string(), "0 queued, idle; 1 operation, 0 batches; 0 rejected, 0 cancelled, 0 panics");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Operations that are handed in and in no batch yet, and jobs of futures ([`exclusive_async`](Batched::exclusive_async)).
    pub queued: u64,
    /// The time for which a batch, or the closure of [`exclusive`](Batched::exclusive), has been running; `None` if none is. Of an operation that
    /// runs alone: the time since a reading of the gauges has met it.
    pub running: Option<Duration>,
    /// Operations that were run, alone or in batches.
    pub operations: u64,
    /// Batches that were run.
    pub batches: u64,
    /// Calls that got [`BatchError::Full`](super::BatchError::Full).
    pub rejected: u64,
    /// Operations and jobs whose futures were dropped before their turn: they are never run.
    pub cancelled: u64,
    /// Panics of batches, of operations that ran alone, and of closures.
    pub panicked: u64,
    /// The message of the last panic.
    pub last_panic: Option<Arc<str>>,
}

impl fmt::Display for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gauges { queued, operations, batches, rejected, cancelled, panicked, .. } = self;
        let s = |count: &u64| if *count == 1 { "" } else { "s" };
        write!(f, "{queued} queued, ")?;
        match self.running {
            None => f.write_str("idle")?,
            Some(time) => write!(f, "running for {time:.1?}")?,
        }
        write!(
            f,
            "; {operations} operation{}, {batches} batch{}",
            s(operations),
            if *batches == 1 { "" } else { "es" }
        )?;
        write!(f, "; {rejected} rejected, {cancelled} cancelled, {panicked} panic{}", s(panicked))?;
        self.last_panic.as_ref().map_or(Ok(()), |message| write!(f, ", the last one: {message}"))
    }
}

impl<S: BatchOps> Batched<S> {
    /// Numbers for a metrics page or a watchdog. Reads atomics: it never waits, not even for a batch that hangs, and any thread may call it, an
    /// operation of this structure too.
    ///
    /// ```
    /// # use windrow::batch::{Batch, BatchOps, Batched};
    /// use std::time::Duration;
    ///
    /// /// Sleeps; an operation is a number of milliseconds.
    /// struct Naps;
    ///
    /// impl BatchOps for Naps {
    ///     type Op = u64;
    ///     type Reply = ();
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, u64, ()>) {
    ///         batch.iter_mut().for_each(|entry| entry.answer(|ms| std::thread::sleep(Duration::from_millis(ms))));
    ///     }
    /// }
    ///
    /// let naps = Batched::new(Naps);
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| naps.call(50).unwrap());
    ///     while naps.gauges().running.is_none() {}
    ///     std::thread::sleep(Duration::from_millis(10));
    ///     assert!(naps.gauges().running >= Some(Duration::from_millis(9)));
    /// });
    /// assert_eq!((naps.gauges().operations, naps.gauges().running), (1, None));
    /// ```
    pub fn gauges(&self) -> Gauges {
        self.shared.gauges()
    }
}

impl<S: BatchOps> BatchedInner<S> {
    fn gauges(&self) -> Gauges {
        let seen = &self.seen;
        // Before the number that was handed in, so that the difference is not negative; again if a batch was cut meanwhile.
        let read = || (seen.cut.get(), self.submit.cancelled(), self.turns.get());
        let mut last = read();
        for _ in 0..TRIES {
            let now = read();
            let is_still = now.0 == last.0;
            last = now;
            if is_still {
                break;
            }
        }
        let (cut, cancelled, turns) = last;
        Gauges {
            queued: turns.wrapping_sub(cut).saturating_sub(cancelled),
            running: self.running().map(|time| Duration::from_nanos(time.0 as u64)),
            operations: seen.alone.get() + cut,
            batches: seen.batches.get(),
            rejected: seen.rejected.get(),
            cancelled,
            panicked: seen.panicked.get(),
            last_panic: seen.panic(),
        }
    }

    fn running(&self) -> Option<windrow_plan::Nanos> {
        let (seen, now) = (&self.seen, machine::tick());
        let since = match seen.since.get() {
            0 if self.runner.get() == 0 => return None,
            0 => {
                let operation = seen.alone.get() + 1;
                if seen.met.get() != operation {
                    seen.met.set(operation);
                    seen.met_at.set(now);
                }
                seen.met_at.get()
            }
            since => since,
        };
        Some(self.options.timing.nanos(now.saturating_sub(since)))
    }
}

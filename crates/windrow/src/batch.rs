//! Many callers, one structure: operations in flight are collected and run as one batch.
//!
//! A structure implements [`BatchOps`]: how to run a batch of its operations. [`Batched`] wraps it for three kinds of callers: threads that
//! block ([`call`](Batched::call)), tasks of any executor ([`call_async`](Batched::call_async)) and loops
//! ([`call_chunk`](Batched::call_chunk)).
//!
//! ```
//! use std::io::{self, Write};
//! use std::sync::Arc;
//!
//! use windrow::batch::{Batch, BatchOps, Batched};
//!
//! /// A file of lines that is synced once a batch.
//! struct Log(std::fs::File);
//!
//! impl BatchOps for Log {
//!     type Op = String;
//!     type Reply = Result<(), Arc<io::Error>>;
//!
//!     fn run(&mut self, batch: &mut Batch<'_, String, Self::Reply>) {
//!         let lines: String = batch.iter_mut().map(|entry| entry.take()).collect();
//!         let synced = self.0.write_all(lines.as_bytes()).and_then(|()| self.0.sync_data()).map_err(Arc::new);
//!         batch.iter_mut().for_each(|entry| entry.reply(synced.clone()));
//!     }
//! }
//!
//! # let path = std::env::temp_dir().join(format!("windrow-log-{}", std::process::id()));
//! let log = Batched::new(Log(std::fs::File::create(&path)?));
//! std::thread::scope(|scope| {
//!     for n in 0..4 {
//!         let log = &log;
//!         scope.spawn(move || log.call(format!("line {n}\n")).unwrap().unwrap());
//!     }
//! });
//! assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 4);
//! # std::fs::remove_file(path)?;
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # What holds
//! * Operations are linearizable. Operations of one caller keep their order, inside a chunk too. All operations of a batch are
//!   concurrent, so `run` may take them in any order, unless two came in one chunk.
//! * No timer: the next batch is whatever queued up while the last one ran, and whatever the callers that were just answered hand in at
//!   once. A runner waits for these for at most 5 % of F, the fixed cost of a batch, or for [`longest_wait`](Builder::longest_wait), as long
//!   as that pays (`windrow_plan::batch::ReturnWait`). An idle structure answers at once.
//! * An operation waits for the batch that is running, and for batches ahead of it in the queue. No batch is ahead of it as long as the
//!   operations in flight fit into one batch.
//! * A reply counts when `run` has returned. After a panic in `run`, every caller of the batch gets [`BatchError::Panicked`], whether or not
//!   `run` had replied. ([`KEEPS_REPLIES`](BatchOps::KEEPS_REPLIES) is the exception.) The structure is poisoned, unless the program
//!   has chosen otherwise: [`Builder::on_panic`].
//!
//! # Callers and events
//! Without a separate runner, callers run batches: [`build`](Builder::build). An operation that is handed in lies
//! on the stack of its thread, in its chunk, or in a reused slot of its task.
//!
//! | event | a thread: `call`, `call_chunk` | a task: `call_async` | a job: `exclusive`, `read`, `exclusive_async`, `read_async` |
//! |---|---|---|---|
//! | the structure is free | `call` runs its operation at once; `call_chunk` hands in and runs a batch | runs its operation at once. If batching pays: hands in, wakes itself, and runs the batch in its next poll | runs; `read`s run side by side |
//! | another caller runs | tries again for a moment if operations are cheap; hands in; spins for the reply if the last batch was shorter than two fifths of a park; parks | tries again for a moment if operations are cheap; hands in; waits for its waker | waits in the queue, as `call` |
//! | the runner leaves operations queued | the thread that has waited longest runs batches, also for tasks before it | if no thread waits: queued tasks are woken, and the first one that is polled runs | as `call` |
//! | its own operations are answered, others are queued | runs batches for others for 8 wakes (about 0.1 ms), at least one; none if batches are long and callers few | runs one batch more; none if batches are long and callers few | runs batches for others, as `call` |
//! | callers that were just answered are waited for | hands in and waits with the runner, or as the runner | wakes itself until the wait is over, then runs | ends the wait |
//! | the [bounded queue](Builder::queue) is full | [`Block`](Overflow::Block): waits in line. [`Reject`](Overflow::Reject): [`BatchError::Full`] and the operation | the same | needs no room |
//! | `run` panics | [`BatchError::Panicked`] for every caller of the batch, then [`BatchError::Poisoned`] | the same | [`BatchError::Poisoned`]. A panic of its own closure reaches its caller, and poisons the structure too |
//! | a call from inside an operation, or from inside `read` | [`BatchError::Nested`] | the same, in its poll | the same |
//! | the structure is [closed](Batched::close) | what was handed in is answered; later calls get [`BatchError::Closed`] and keep their operations | the same | `exclusive`: [`BatchError::Closed`]; `read` still reads |
//! | the time of a [`call_within`](Batched::call_within) is up | [`BatchError::TimedOut`]; as a task that goes away | - | - |
//! | the caller goes away | cannot | dropped while queued: the operation never runs. While its batch runs: the operation runs, the reply is dropped. While it is to run batches: another caller does | of a thread: cannot. Of a future: as `call_async` |
//! | the executor drops the task of a batch ([`build_async`](Builder::build_async)) | [`BatchError::Dropped`], and the operation if the batch had not begun | the same | of a queued future: runs at once |
//! | the process is a forked child | [`BatchError::Forked`] | the same | the same |
//!
//! With a separate [`Runner`] ([`build_on`](Builder::build_on)) callers only hand in and wait: whoever hands in, or leaves operations queued,
//! signals the runner. It is a thread, for operations that block or structures that are not `Send`, or closures that a function spawns
//! elsewhere. [`Builder::build_async`] spawns a task a batch for a structure whose `run` awaits. [`Runner::beside_callers`] lets a thread run its own operation if the structure is free and the last batch had one operation.
//!
//! After a batch, wakeups are chained: the runner wakes a few parked callers, and each wakes the next. So the runner can go on with the
//! next batch. If the fixed cost of a batch exceeds the cost of waking all callers, the runner wakes all of them itself. A caller whose
//! thread gets no CPU for long delays the replies of the callers after it in its chain: of `n` callers, `n / 8` or `sqrt(n)`, whichever is
//! less.
//!
//! `run` may use windrow. Callers that wait for their batch do not help with it, even if they are workers of the pool. If batches of a
//! structure are worth several threads, give the structure a separate [`Pool`](crate::Pool), and `install` that pool in `run`: waiting
//! callers park, and leave their CPUs to its workers.
//!
//! # When not to use it
//! If an operation costs less than its hand-over to another thread, a mutex or an atomic is faster: `fetch_add` for a counter, a mutex for
//! a small map under 2 to 8 blocking threads. [`Stats::verdict`] says so from measurements, and the wrapper then behaves as a lock that
//! spins briefly. Batches pay if their operations share a cost: a sync to disk, a launch, cache misses.
//!
//! # Deadlocks
//! An operation that calls its own structure on the thread that runs the batch gets [`BatchError::Nested`] at once. Two cases are not
//! detected: a `run` that lets *other* threads call its own structure and waits for them, and two structures whose operations call each
//! other in both directions. For the latter, order the structures, as with mutexes.
//!
//! A future that is kept without being polled (`select!`, `timeout(&mut future)`, `buffered`) delays only itself: all other callers are
//! woken, and the first one runs the batch, including the operation of the kept future. Two exceptions:
//! * In a [bounded queue](Builder::queue) a kept future occupies its room until it is polled or dropped.
//! * With a [`limit`](Builder::limit), a kept future may delay futures after it: those that were woken before, and found another caller
//!   running. The delay lasts until the next call of any kind.
//!
//! # Processes and threads that end
//! A structure belongs to the process that made it. In a forked child every call gets [`BatchError::Forked`], and dropping the wrapper
//! leaks the structure: its runner does not exist there, and a batch may have been running at the fork. Calls from destructors of
//! thread-local values work.
//!
//! Sources: implicit batching as a functor over explicitly batched structures (obatcher), after BATCHER (Agrawal et al., SPAA 2014);
//! write groups of LevelDB; flat combining (Hendler et al., SPAA 2010).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use windrow_sync::submit::Fate;

mod access;
mod awaits;
mod build;
mod chunk;
mod entries;
mod error;
mod future;
mod gauges;
mod lead;
mod options;
mod regroup;
mod returns;
mod shards;
mod stats;

pub use awaits::{Async, AsyncBatchOps, BatchTask};
pub use build::{Builder, Runner};
pub use chunk::Chunk;
pub use entries::Batch;
pub use error::{BatchError, CallError};
pub use future::CallAsync;
pub use gauges::Gauges;
pub use options::{OnPanic, Overflow};
pub use shards::Sharded;
pub use stats::Stats;
pub use windrow_plan::batch::{Advice, BatchRunner, BatchTraffic, Choice, Law, Verdict};
pub use windrow_sync::submit::Entry;

use lead::{BatchedInner, DROPPED, PANICKED, POISONED};

use crate::runtime::listen::{self, Account, CallKind, Decided, Event, Reported};

/// A structure whose operations can be run in batches.
///
/// ```
/// use windrow::batch::{Batch, BatchOps, Batched};
///
/// /// Gives out numbers. A batch reserves all of its numbers at once.
/// struct Numbers(u64);
///
/// impl BatchOps for Numbers {
///     type Op = ();
///     type Reply = u64;
///
///     fn run(&mut self, batch: &mut Batch<'_, (), u64>) {
///         let first = self.0;
///         self.0 += batch.len() as u64;
///         batch.iter_mut().zip(first..).for_each(|(entry, number)| entry.answer(|()| number));
///     }
/// }
///
/// let numbers = Batched::new(Numbers(7));
/// assert_eq!((numbers.call(()).unwrap(), numbers.call(()).unwrap()), (7, 8));
/// ```
pub trait BatchOps {
    /// One operation.
    type Op: Send;
    /// The reply to an operation. If operations can fail, a `Result`: then a failure does not affect the other operations.
    type Reply: Send;

    /// True if replies count although `run` panics later; false by default. Only for a structure whose operations have no common cost that
    /// follows the replies: no sync, no commit.
    const KEEPS_REPLIES: bool = false;

    /// Runs all operations of a batch and answers each ([`Entry::reply`]). A reply counts when `run` has returned: after a panic, every caller
    /// of the batch gets [`BatchError::Panicked`]. So pay the common cost (a sync, a commit) first, and reply with its result then.
    ///
    /// Operations may run in any order, in parallel, or in the order of a key ([`Batch::for_each_by_key`]). Each entry belongs to a caller. An operation
    /// without a reply gets [`BatchError::Unanswered`].
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
    /// use windrow::batch::Entry;
    ///
    /// // Without a wrapper, as in a test. `Sum` replies with the sum so far.
    /// let mut entries = [Entry::Op(3), Entry::Op(4)];
    /// Sum(0).run(&mut Batch::new(&mut entries));
    /// assert_eq!(entries.map(Entry::into_reply), [Some(3), Some(7)]);
    /// ```
    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>);

    /// Runs a single operation. By default a batch of one.
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
    /// // `Sum` has no `run_one`: its `run` gets a batch of one.
    /// let mut sum = Sum(10);
    /// assert_eq!((sum.run_one(5), sum.0), (15, 15));
    /// ```
    ///
    /// # Panics
    /// If [`run`](BatchOps::run) leaves the operation unanswered. [`Batched`] turns that panic into [`BatchError::Unanswered`].
    fn run_one(&mut self, op: Self::Op) -> Self::Reply {
        let mut lone = lead::LoneEntry([Entry::Op(op)]);
        self.run(&mut Batch::new(&mut lone.0));
        let entry = std::mem::take(&mut lone.0[0]);
        // Without the panic hook: in a larger batch the same fault is an error, not a panic.
        entry.into_reply().unwrap_or_else(|| std::panic::resume_unwind(Box::new(lead::LeftUnanswered::of(self))))
    }

    /// The weight of an operation for [`Builder::weight_limit`], in any unit: bytes, tokens. If `weight` panics, the operation runs in a
    /// separate batch.
    ///
    /// ```
    /// use windrow::batch::{Batch, BatchOps, Batched, Chunk};
    ///
    /// /// Remembers how many texts each batch had.
    /// struct Sizes(Vec<usize>);
    ///
    /// impl BatchOps for Sizes {
    ///     type Op = &'static str;
    ///     type Reply = ();
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, &'static str, ()>) {
    ///         self.0.push(batch.len());
    ///         batch.iter_mut().for_each(|entry| entry.answer(|_| ()));
    ///     }
    ///
    ///     fn weight(text: &&'static str) -> usize {
    ///         text.len()
    ///     }
    /// }
    ///
    /// let sizes = Batched::builder().weight_limit(8).build(Sizes(Vec::new()));
    /// let mut chunk = Chunk::new();
    /// chunk.extend(["one", "two", "three"]);
    /// sizes.call_chunk(&mut chunk).unwrap();
    /// assert_eq!(sizes.into_inner().unwrap().0, [2, 1]);
    /// ```
    fn weight(op: &Self::Op) -> usize {
        let _ = op;
        1
    }

    /// Called on the caller's thread before the operation is handed in: for hashing, encoding, sort keys.
    ///
    /// ```
    /// use windrow::batch::{Batch, BatchOps, Batched};
    ///
    /// struct Names(Vec<String>);
    ///
    /// impl BatchOps for Names {
    ///     type Op = String;
    ///     type Reply = usize;
    ///
    ///     fn prepare(name: &mut String) {
    ///         name.make_ascii_lowercase();
    ///     }
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, String, usize>) {
    ///         for entry in batch.iter_mut() {
    ///             self.0.push(entry.take());
    ///             entry.reply(self.0.len());
    ///         }
    ///     }
    /// }
    ///
    /// let names = Batched::new(Names(Vec::new()));
    /// names.call("ADA".to_owned()).unwrap();
    /// assert_eq!(names.into_inner().unwrap().0, ["ada"]);
    /// ```
    fn prepare(op: &mut Self::Op) {
        let _ = op;
    }
}

/// A structure that many callers use at once. See the [module page](self).
///
/// ```
/// use windrow::batch::{Batch, BatchOps, Batched};
///
/// /// Adds numbers up, and replies with the sum so far.
/// struct Sum(u64);
///
/// impl BatchOps for Sum {
///     type Op = u64;
///     type Reply = u64;
///
///     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
///         for entry in batch.iter_mut() {
///             self.0 += entry.take();
///             entry.reply(self.0);
///         }
///     }
/// }
///
/// let sum = Batched::new(Sum(0));
/// std::thread::scope(|scope| {
///     for number in 1..=4 {
///         let sum = &sum;
///         scope.spawn(move || sum.call(number).unwrap());
///     }
/// });
/// assert_eq!(sum.into_inner().unwrap().0, 10);
/// ```
pub struct Batched<S: BatchOps> {
    shared: Arc<BatchedInner<S>>,
    /// The dedicated runner.
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<S: BatchOps> fmt::Debug for Batched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("is_closed", &self.shared.submit.is_closed()).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Batched<S> {
    /// Wraps `structure`: callers run batches, batches have any size, and the queue has no bound. For other choices see
    /// [`Batched::builder`].
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
    /// let sum = Batched::new(Sum(10));
    /// assert_eq!(sum.call(5).unwrap(), 15);
    /// ```
    pub fn new(structure: S) -> Self
    where
        S: Send,
    {
        Self::builder().build(structure)
    }

    /// Limits, a bounded queue, other runners.
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
    /// use windrow::batch::Chunk;
    ///
    /// let sum = Batched::builder().limit(64).build(Sum(0));
    /// let mut chunk = Chunk::new();
    /// chunk.extend(1..=100);
    /// sum.call_chunk(&mut chunk).unwrap();
    /// assert!(sum.stats().unwrap().largest() <= 64);
    /// assert_eq!(sum.into_inner().unwrap().0, 5050);
    /// ```
    pub fn builder() -> Builder<S> {
        Builder::new()
    }

    /// Runs `op`, in a batch with operations of other callers; blocks until it is done. A lone caller takes the lock by one
    /// compare-exchange, calls [`BatchOps::run_one`], and releases the lock by another one.
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
    /// use windrow::batch::BatchError;
    ///
    /// let sum = Batched::new(Sum(0));
    /// assert_eq!(sum.call(5).unwrap(), 5);
    /// sum.close().unwrap();
    /// let refused = sum.call(7).unwrap_err();
    /// assert_eq!((refused.kind(), refused.into_op()), (BatchError::Closed, Some(7)));
    /// ```
    ///
    /// # Errors
    /// See [`BatchError`]. The error holds the operation if it was not run.
    #[inline]
    #[track_caller]
    pub fn call(&self, mut op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        S::prepare(&mut op);
        // The path without a listener is inlined as it stands: a lone caller's operation is two compare-exchanges.
        let Some(reported) = listen::call(CallKind::Batch, Some(Location::caller())) else {
            return self.call_prepared(op);
        };
        let result = self.call_prepared(op);
        self.report(*reported, 1, None);
        result
    }

    /// Makes a call of `count` operations, and reports it if there is a listener.
    fn reported<R>(
        &self,
        place: &'static Location<'static>,
        count: usize,
        reason: Option<&'static str>,
        call: impl FnOnce() -> R,
    ) -> R {
        let Some(reported) = listen::call(CallKind::Batch, Some(place)) else { return call() };
        let result = call();
        self.report(*reported, count, reason);
        result
    }

    /// The end of a call of `count` operations, with this reason or the verdict on batching so far.
    #[cold]
    fn report(&self, reported: Reported, count: usize, reason: Option<&'static str>) {
        let account = Account::because(reason.unwrap_or_default());
        let event = Event { items: count as u64, ..reported.event(&account) };
        if reason.is_some() {
            return reported.end(&event);
        }
        // The statistics may have to wait for their turn.
        let stats = || match self.shared.submit.try_read() {
            Some(state) => Ok(state.counts.snapshot()),
            None if self.shared.options.is_async => Err("a batch is running".to_owned()),
            None => self.stats().map_err(|error| error.to_string()),
        };
        let verdict = || {
            let reason = match stats().map(|stats| stats.verdict()) {
                Ok(Some(verdict)) => verdict.to_string(),
                Ok(None) => "no verdict yet: windrow needs 64 batches of different sizes with few interruptions, \
                             or operations that ran one at a time"
                    .to_owned(),
                Err(error) => format!("no verdict: {error}"),
            };
            Account::because(reason)
        };
        reported.end(&Event { decision: Decided::Later(&verdict), ..event });
    }

    #[inline]
    fn call_prepared(&self, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        self.shared.try_alone(op).unwrap_or_else(|op| self.call_queued(op))
    }

    #[cold]
    fn call_queued(&self, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        let shared = &*self.shared;
        if let Err(why) = shared.accepts() {
            return Err(CallError::new(why, Some(op)));
        }
        let op = match shared.wait_alone(op) {
            Ok(result) => return result,
            Err(op) => op,
        };
        let _room = match shared.wait_for_room(1) {
            Ok(room) => room,
            Err(full) => return Err(CallError::new(full, Some(op))),
        };
        let mut entries = [Entry::Op(op)];
        let fate = shared.hand_in(&mut entries);
        let [entry] = entries;
        shared.finish(fate, entry)
    }
}

/// The reply to an operation; or the error, and the operation if it was not run.
fn outcome<Op, Reply>(
    fate: Result<Fate, windrow_sync::submit::Closed>,
    entry: Entry<Op, Reply>,
) -> Result<Reply, (BatchError, Option<Op>)> {
    match (entry, fate) {
        (Entry::Reply(reply), _) => Ok(reply),
        (Entry::Op(op), Err(_)) => Err((BatchError::Closed, Some(op))),
        (Entry::Op(op), Ok(POISONED)) => Err((BatchError::Poisoned, Some(op))),
        (Entry::Op(op), Ok(DROPPED)) => Err((BatchError::Dropped, Some(op))),
        (Entry::Empty, Ok(DROPPED)) => Err((BatchError::Dropped, None)),
        // A batch that panics leaves its entries empty. If a later batch of the same chunk found the structure poisoned, that is the fate.
        (Entry::Empty, Ok(PANICKED | POISONED)) => Err((BatchError::Panicked, None)),
        // `run` may have done an operation that it has not taken.
        (Entry::Op(_) | Entry::Empty, _) => Err((BatchError::Unanswered, None)),
    }
}

//! Many callers, one structure: what is in flight is collected and run as one batch, by whoever is free.
//!
//! The structure says how a batch of its operations is run ([`BatchOps`]); [`Batched`] makes plain calls of it, for threads that block
//! ([`call`](Batched::call)), for tasks of any executor ([`call_async`](Batched::call_async)) and for loops
//! ([`call_chunk`](Batched::call_chunk), [`Tickets`]).
//!
//! ```
//! use windrow::batch::{Batch, BatchOps, Batched};
//!
//! /// A log that is synced once a batch.
//! #[derive(Default)]
//! struct Log(Vec<String>);
//!
//! impl BatchOps for Log {
//!     type Op = String;
//!     type Reply = usize;
//!
//!     fn run(&mut self, batch: &mut Batch<'_, String, usize>) {
//!         for entry in batch.iter_mut() {
//!             self.0.push(entry.take());
//!             entry.reply(self.0.len());
//!         }
//!         // Here the file would be synced: nobody is told before this returns.
//!     }
//! }
//!
//! let log = Batched::new(Log::default());
//! std::thread::scope(|scope| {
//!     for n in 0..4 {
//!         let log = &log;
//!         scope.spawn(move || log.call(format!("line {n}")).unwrap());
//!     }
//! });
//! assert_eq!(log.call("the last".into()).unwrap(), 5);
//! ```
//!
//! # What holds
//! * A reply comes after the effect: callers are told when `run` has returned.
//! * Operations are linearizable; those of one caller keep their order, inside a chunk too. All operations of a batch are concurrent, so
//!   `run` may take them in any order that suits it, unless two came in one chunk.
//! * There is no timer. A batch is cut when the runner is ready, from what is there ([`linger`](Builder::linger) can change that).
//! * A caller that runs a batch runs at most one more when its own operation is answered. Then the blocking caller that has waited longest
//!   runs; without one, the first task that comes.
//! * An operation waits for the batch that is running when it comes, and for those ahead of it in the queue: none, as long as callers in
//!   flight fit into one batch.
//! * A panic in `run` answers all operations of the batch that had no reply with [`Why::Panicked`], and the structure is poisoned
//!   unless there is a [`recover`](Builder::recover) function.
//! * A future that is dropped while its operation is queued: it is never run. Later: it runs, and the reply is dropped.
//!
//! # How callers wait, and who runs
//! | caller | where its operation lies | how it waits |
//! |---|---|---|
//! | [`call`](Batched::call) | on its stack | tries the lock for a moment if operations are cheap; hands in, looks for 2 us if the last batch took no longer, then sleeps |
//! | [`call_async`](Batched::call_async) | in a slot that is used again | its waker is woken; tasks of the queue are asked to run, and the first to come does |
//! | [`call_chunk`](Batched::call_chunk) | in the chunk | as `call`, once for all of them |
//!
//! Callers run batches themselves ([`build`](Builder::build)), or a thread does that is the structure's own
//! ([`build_on_thread`](Builder::build_on_thread): operations that block, structures that are not `Send`), or whoever a function is
//! given that starts work elsewhere ([`build_spawned`](Builder::build_spawned)).
//!
//! Of many callers that sleep until one batch is through, the runner wakes a few, and each of them the next, so that it can go on with the
//! next batch; it wakes all of them itself if a batch costs so much that it had better wait for them. So a caller whose thread does not
//! get a CPU for long holds up the replies of a few others: with `n` callers, of `n / 8` or `sqrt(n)`, whichever is less.
//!
//! `run` may use windrow. Callers that wait for their batch do not help with it, even if they are workers of the pool: give a
//! structure whose batches are worth several threads a [`Pool`](crate::Pool) of its own, and `install` that in `run`; who waits sleeps
//! and leaves its CPU to it.
//!
//! # When not to use it
//! If all an operation costs is less than handing it to another thread, a mutex or an atomic wins: a counter is best served by
//! `fetch_add`, and a small map under 2 to 8 blocking threads by a mutex. [`Stats::verdict`] says so from measurements, and the
//! wrapper then behaves as a lock that spins briefly. Batches pay where they share something: a sync to disk, a launch, cache misses.
//!
//! # Deadlocks
//! An operation that calls its own structure gets [`Why::Nested`] at once, if it does so on the thread that runs the batch. Not
//! detected: a `run` that lets *other* threads call its own structure and waits for them, and two structures whose operations call each
//! other in both directions; as with mutexes, order the structures.
//!
//! A future that is kept without being polled (`select!`, `timeout(&mut future)`, `buffered`) waits for itself only: each other caller is
//! woken, and the first to come runs the batch, the kept operation included. Two cases remain. In a
//! [bounded queue](Builder::queue) a kept future occupies its room until it is polled or dropped. With a [`limit`](Builder::limit), a kept future may
//! hold up futures behind it that were woken before and found another caller running, until the next call of any kind.
//!
//! # Processes and threads that end
//! A structure belongs to the process that made it. In a forked child every call gets [`Why::Forked`], and dropping it leaks what it holds: its
//! runner does not exist there, and a batch may have been running. Calls from destructors of thread-local values work.
//!
//! Sources: implicit batching as a functor over explicitly batched structures (obatcher), after BATCHER (Agrawal et al., SPAA 2014);
//! write groups of LevelDB; flat combining (Hendler et al., SPAA 2010).

use std::fmt;
use std::sync::Arc;

use windrow_sync::submit::{Fate, Submit};

mod build;
mod chunk;
mod entries;
mod error;
mod future;
mod lead;
mod room;
mod stats;

pub use build::{Builder, Full};
pub use chunk::{Chunk, Ticket, Tickets};
pub use entries::{Batch, Sorted};
pub use error::{CallError, Why};
pub use future::CallAsync;
pub use stats::Stats;
pub use windrow_sync::submit::Entry;

use lead::{PANICKED, POISONED, Shared};

/// A structure whose operations can be run in batches.
pub trait BatchOps {
    /// One operation.
    type Op: Send;
    /// What an operation returns. A `Result`, if it can fail: then one that fails does not concern the others.
    type Reply: Send;

    /// Runs all operations of a batch and answers each ([`Entry::reply`]); in parallel if it likes, or in an order of their keys
    /// ([`Batch::sorted_by_key`]). Each entry belongs to a caller: what stands in it when this returns is that caller's reply. An
    /// operation without a reply gets [`Why::Unanswered`].
    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>);

    /// Runs one operation that came alone. By default a batch of one.
    ///
    /// # Panics
    /// If [`run`](BatchOps::run) leaves it unanswered. [`Batched`] makes [`Why::Unanswered`] of that.
    fn run_one(&mut self, op: Self::Op) -> Self::Reply {
        let mut entries = [Entry::Op(op)];
        self.run(&mut Batch::new(&mut entries));
        let [entry] = entries;
        // Without the hook: in a larger batch the same fault is an error too.
        entry.into_reply().unwrap_or_else(|| std::panic::resume_unwind(Box::new(lead::LeftUnanswered)))
    }

    /// What an operation counts for [`Builder::weight_limit`]: bytes, tokens. If it panics, the operation is run on its own.
    fn weight(op: &Self::Op) -> usize {
        let _ = op;
        1
    }

    /// Called on the caller's thread before the operation is handed in: the place for hashing, encoding, sort keys.
    fn prepare(op: &mut Self::Op) {
        let _ = op;
    }
}

/// A structure that many callers use at once. See the [module page](self).
pub struct Batched<S: BatchOps> {
    shared: Arc<Shared<S>>,
    /// The dedicated runner.
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<S: BatchOps> fmt::Debug for Batched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("is_closed", &self.submit().is_closed()).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Batched<S> {
    /// Around `structure`, with callers as runners, batches of any size and no bound for what is queued. [`Batched::builder`] offers
    /// the rest.
    pub fn new(structure: S) -> Self
    where
        S: Send,
    {
        Self::builder().build(structure)
    }

    /// Limits, a bounded queue, other runners.
    pub fn builder() -> Builder<S> {
        Builder::new()
    }

    fn submit(&self) -> &Submit<lead::State<S>, S::Op, S::Reply> {
        &self.shared.submit
    }

    /// Runs `op`, in a batch with those of other callers; blocks until it is done. Alone it takes one exchange to get the lock, calls
    /// [`BatchOps::run_one`], and one more to let go.
    ///
    /// # Errors
    /// See [`Why`]. If it was not taken the error holds the operation.
    #[inline]
    pub fn call(&self, mut op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        S::prepare(&mut op);
        let shared = &*self.shared;
        match shared.try_alone() {
            Some(held) => shared.alone(held, op),
            None => self.call_in_company(op),
        }
    }

    #[cold]
    fn call_in_company(&self, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        let shared = &*self.shared;
        if let Some(why) = shared.refuses() {
            return Err(CallError::new(why, Some(op)));
        }
        if let Some(held) = shared.wait_alone() {
            return shared.alone(held, op);
        }
        let _room = match shared.wait_for_room(1) {
            Ok(room) => room,
            Err(Full::RunInline) => return self.inline(op),
            Err(_) => return Err(CallError::new(Why::Full, Some(op))),
        };
        let mut entries = [Entry::Op(op)];
        let fate = shared.hand_in(&mut entries);
        let [entry] = entries;
        finish(fate, entry)
    }

    /// Runs `op` on its own, when its turn comes, past the bound of the queue.
    fn inline(&self, op: S::Op) -> Result<S::Reply, CallError<S::Op>> {
        let (shared, mut op, mut result) = (&*self.shared, Some(op), None);
        let ran = shared.job(&mut |state| {
            if let Some(op) = op.take() {
                result = Some(state.one(op, &shared.options));
            }
        });
        match (ran, result) {
            (_, Some(result)) => result,
            (ran, None) => Err(CallError::new(ran.err().unwrap_or(Why::Unanswered), op)),
        }
    }

    /// Uses the structure alone, when what was handed in before has been run; blocks until that is done. With a runner of its own it
    /// is that runner who calls `f`.
    ///
    /// # Errors
    /// See [`Why`].
    ///
    /// # Panics
    /// If `f` does; the structure is poisoned then, or recovered.
    pub fn exclusive<R: Send>(&self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, Why> {
        self.shared.exclusive(f)
    }

    /// Looks at the structure: beside other readers if nothing is queued, else as [`exclusive`](Batched::exclusive).
    ///
    /// # Errors
    /// See [`Why`].
    ///
    /// # Panics
    /// If `f` does.
    pub fn read<R: Send>(&self, f: impl FnOnce(&S) -> R + Send) -> Result<R, Why>
    where
        S: Sync,
    {
        self.shared.read(f)
    }

    /// How batches have come out so far, and whether they pay.
    ///
    /// # Errors
    /// [`Why::Nested`] from an operation of this structure, [`Why::Forked`].
    pub fn stats(&self) -> Result<Stats, Why> {
        self.shared.stats()
    }

    /// Takes nothing in from now on, and returns when all that was handed in before is answered.
    ///
    /// # Errors
    /// [`Why::Closed`] if it was closed before, [`Why::Nested`] from an operation of this structure, [`Why::Forked`].
    pub fn close(&self) -> Result<(), Why> {
        self.shared.close()
    }

    /// Closes it and gives the structure back. `None` if it is poisoned, or was made on a separate thread, where it has been dropped; also
    /// from an operation of this structure, and in a forked child.
    pub fn into_inner(mut self) -> Option<S> {
        self.end();
        if self.shared.refuses().is_some() { None } else { self.shared.give_up() }
    }

    fn end(&mut self) {
        let thread = self.thread.take();
        if self.shared.is_forked() {
            // The thread does not exist here, and the structure may be in the state of a batch that was running at the fork.
            std::mem::forget((thread, self.shared.clone()));
            return;
        }
        let is_runner = thread.as_ref().is_some_and(|thread| thread.thread().id() == std::thread::current().id());
        if is_runner || self.shared.is_inside() {
            // The last handle, dropped by an operation or by what its end has woken: the runner finishes what is queued, and then ends.
            self.submit().shut();
            return;
        }
        // Closed already is as good. A spawner that panics may have done so before, in a call, where there is a caller to be told.
        lead::quietly(|| _ = self.close());
        if let Some(thread) = thread {
            // It catches all panics: those of the structure, of wakers and of what is dropped.
            let _ = thread.join();
        }
    }
}

/// Closes it, as [`close`](Batched::close). An operation that drops the last handle of its own structure closes it without waiting.
impl<S: BatchOps> Drop for Batched<S> {
    fn drop(&mut self) {
        self.end();
    }
}

/// What became of an operation.
fn finish<Op, Reply>(
    fate: Result<Fate, windrow_sync::submit::Closed>,
    entry: Entry<Op, Reply>,
) -> Result<Reply, CallError<Op>> {
    let why = match fate {
        Err(_) => Why::Closed,
        Ok(PANICKED) => Why::Panicked,
        Ok(POISONED) => Why::Poisoned,
        Ok(_) => Why::Unanswered,
    };
    match entry {
        Entry::Reply(reply) => Ok(reply),
        Entry::Op(op) => Err(CallError::new(why, Some(op))),
        Entry::Empty => Err(CallError::new(why, None)),
    }
}

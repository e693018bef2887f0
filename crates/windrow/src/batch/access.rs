//! Access to the structure outside its batches: jobs, reads, statistics and the close.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use windrow_plan::batch::BatchRunner;
use windrow_sync::submit::Reading;
use windrow_sync::unwind::{Finally, quietly};
use windrow_sync::{ThreadBound, machine};

use super::lead::{BatchedInner, StructureState};
use super::{BatchError, BatchOps, Batched, Stats};

thread_local! {
    /// The structures that this thread is reading. While the thread ends the list is gone, and reads take the lock instead.
    static READING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

impl<S: BatchOps> Batched<S> {
    /// Gives `f` exclusive access to the structure, after all operations that were handed in before; blocks until `f` is done. A separate
    /// runner calls `f` itself.
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
    /// let before = sum.exclusive(|sum| std::mem::replace(&mut sum.0, 100)).unwrap();
    /// assert_eq!((before, sum.call(1).unwrap()), (5, 101));
    /// ```
    ///
    /// # Errors
    /// See [`BatchError`].
    ///
    /// # Panics
    /// If `f` panics; then the structure is poisoned, or recovered.
    #[track_caller]
    pub fn exclusive<R: Send>(&self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, BatchError> {
        self.reported(Location::caller(), 0, Some("exclusive access"), || self.shared.exclusive(f))
    }

    /// Gives `f` shared access to the structure: concurrently with other readers if nothing is queued, else as
    /// [`exclusive`](Batched::exclusive).
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
    /// assert_eq!(sum.read(|sum| sum.0).unwrap(), 5);
    /// ```
    ///
    /// # Errors
    /// See [`BatchError`].
    ///
    /// # Panics
    /// If `f` panics.
    #[track_caller]
    pub fn read<R: Send>(&self, f: impl FnOnce(&S) -> R + Send) -> Result<R, BatchError>
    where
        S: Sync,
    {
        self.reported(Location::caller(), 0, Some("shared access"), || self.shared.read(f))
    }

    /// Statistics of the batches so far, and whether batching pays.
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
    /// (0..10).for_each(|number| _ = sum.call(number).unwrap());
    /// let stats = sum.stats().unwrap();
    /// assert_eq!((stats.ops(), stats.alone()), (10, 10));
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Nested`] from an operation of this structure, [`BatchError::Forked`].
    pub fn stats(&self) -> Result<Stats, BatchError> {
        let shared = &*self.shared;
        if shared.is_forked() {
            return Err(BatchError::Forked);
        }
        if let Some(state) = shared.look() {
            return Ok(state.counts.snapshot());
        }
        let mut stats = None;
        shared.job(&mut |state| stats = Some(state.counts.snapshot()))?;
        stats.ok_or(BatchError::Unanswered)
    }

    /// Takes no more operations, and returns when all operations that were handed in before are answered.
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
    /// assert_eq!(sum.close(), Ok(()));
    /// assert_eq!(sum.close(), Err(BatchError::Closed));
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Closed`] if it was closed before, [`BatchError::Nested`] from an operation of this structure, [`BatchError::Forked`].
    pub fn close(&self) -> Result<(), BatchError> {
        let shared = &*self.shared;
        shared.accepts()?;
        let closed = shared.submit.close(shared.reply_spin(), |held| shared.lead(held, BatchRunner::Callers, 0));
        closed.map_err(|_| BatchError::Closed)
    }

    /// Closes the wrapper and returns the structure. `None` if the structure is poisoned, or was made on a separate thread, which has
    /// dropped it; also from an operation of this structure, and in a forked child.
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
    /// let Sum(total) = sum.into_inner().unwrap();
    /// assert_eq!(total, 5);
    /// ```
    pub fn into_inner(mut self) -> Option<S> {
        self.end();
        self.shared.accepts().ok()?;
        let (submit, mut structure) = (&self.shared.submit, None);
        // A spawned runner may still be about to release the lock.
        while !submit.run(|held| structure = held.data().structure.take().filter(|_| !held.data().is_poisoned)) {
            std::thread::yield_now();
        }
        structure?.into_inner()
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
            // An operation, or a waker that the runner calls, drops the structure: the runner finishes the queue, then ends.
            self.shared.submit.shut();
            return;
        }
        // Ignored: the structure may be closed already, and no caller is left that could get a panic of the spawner.
        quietly(|| _ = self.close());
        if let Some(thread) = thread {
            // The thread catches all panics: of the structure, of wakers and of drops.
            let _ = thread.join();
        }
    }
}

/// Closes the structure, as [`close`](Batched::close). If an operation drops the structure that runs it, the drop does not wait.
impl<S: BatchOps> Drop for Batched<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: BatchOps> BatchedInner<S> {
    /// True if this thread reads the structure.
    pub(super) fn is_reading(&self) -> bool {
        READING.try_with(|reading| reading.borrow().contains(&self.address())).unwrap_or(false)
    }

    /// Runs `job` on the state when its turn comes.
    fn job(&self, job: &mut (dyn FnMut(&mut StructureState<S>) + Send)) -> Result<(), BatchError> {
        self.accepts()?;
        let done = self.submit.job(job, self.reply_spin(), |held| self.lead(held, BatchRunner::Callers, 0));
        done.map(|_| ()).map_err(|_| BatchError::Closed)
    }

    fn exclusive<R: Send>(&self, f: impl FnOnce(&mut S) -> R + Send) -> Result<R, BatchError> {
        let (mut f, mut result) = (Some(f), None);
        self.job(&mut |state| {
            let Some((f, structure)) = f.take().zip(state.structure()) else { return };
            self.seen.since.set(machine::tick().max(1));
            let outcome = catch_unwind(AssertUnwindSafe(|| f(structure)));
            self.seen.since.set(0);
            if let Err(payload) = &outcome {
                state.recover(payload, self);
            }
            result = Some(outcome);
        })?;
        match result.ok_or(BatchError::Poisoned)? {
            Ok(result) => Ok(result),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// The state, shared with other readers, if it can be locked now. Retries if the structure is closed: a closed structure has no queue to
    /// wait in, and its lock is released soon.
    fn look(&self) -> Option<Reading<'_, StructureState<S>, S::Op, S::Reply>>
    where
        StructureState<S>: Sync,
    {
        loop {
            let state = self.submit.try_read();
            if state.is_some() || !self.submit.is_closed() || self.is_inside() {
                return state;
            }
            std::thread::yield_now();
        }
    }

    fn read<R: Send>(&self, f: impl FnOnce(&S) -> R + Send) -> Result<R, BatchError>
    where
        S: Sync,
    {
        self.accepts()?;
        // Shared only if a nested call inside `f` can be detected, or is refused because the structure is closed.
        let can_read = || READING.try_with(|_| ()).is_ok() || self.submit.is_closed();
        if let Some(state) = self.look().filter(|_| can_read()) {
            if state.is_poisoned {
                return Err(BatchError::Poisoned);
            }
            if let Some(structure) = state.structure.as_ref().and_then(ThreadBound::get) {
                let _ = READING.try_with(|reading| reading.borrow_mut().push(self.address()));
                let _read = Finally(|| _ = READING.try_with(|reading| reading.borrow_mut().pop()));
                return Ok(f(structure));
            }
        }
        self.exclusive(|structure| f(structure))
    }
}

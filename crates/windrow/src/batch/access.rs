//! Access to the structure outside its batches: jobs, reads, statistics and the close.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use windrow_plan::batch::BatchRunner;
use windrow_sync::submit::{Launch, Reading, TaskOp};
use windrow_sync::unwind::{Finally, discard, quietly};
use windrow_sync::{Mutex, ThreadBound, machine};

use super::future::pause;
use super::lead::{BatchedInner, StructureState};
use super::{BatchError, BatchOps, Batched, Stats};
use crate::runtime::listen::{self, CallKind, EventKind, Reported};

/// The result of a closure that was given the structure; `None` if that is poisoned.
type Applied<R> = Option<std::thread::Result<R>>;

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

    /// [`exclusive`](Batched::exclusive) as a future of any executor: it waits in the queue without a thread. Dropped before its turn, it
    /// never calls `f`.
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
    /// # async fn example() {
    /// let sum = Batched::new(Sum(5));
    /// let before = sum.exclusive_async(|sum| std::mem::replace(&mut sum.0, 100)).await.unwrap();
    /// assert_eq!((before, sum.call_async(1).await.unwrap()), (5, 101));
    /// # }
    /// # windrow_testkit::block_on(example());
    /// ```
    ///
    /// # Errors
    /// See [`BatchError`].
    ///
    /// # Panics
    /// If `f` panics, when the future is awaited; then the structure is poisoned, or recovered.
    #[track_caller]
    pub fn exclusive_async<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut S) -> R + Send + 'static,
    ) -> impl Future<Output = Result<R, BatchError>> + Send
    where
        S: 'static,
    {
        self.reported_async(Location::caller(), "exclusive access", self.shared.exclusive_async(f))
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

    /// [`read`](Batched::read) as a future of any executor. Dropped before its turn, it never calls `f`.
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
    /// # async fn example() {
    /// let sum = Batched::new(Sum(5));
    /// assert_eq!(sum.read_async(|sum| sum.0).await, Ok(5));
    /// # }
    /// # windrow_testkit::block_on(example());
    /// ```
    ///
    /// # Errors
    /// See [`BatchError`].
    ///
    /// # Panics
    /// If `f` panics, when the future is awaited.
    #[track_caller]
    pub fn read_async<R: Send + 'static>(
        &self,
        f: impl FnOnce(&S) -> R + Send + 'static,
    ) -> impl Future<Output = Result<R, BatchError>> + Send
    where
        S: Sync + 'static,
    {
        self.reported_async(Location::caller(), "shared access", self.shared.read_async(f))
    }

    fn reported_async<R>(
        &self,
        place: &'static Location<'static>,
        reason: &'static str,
        call: impl Future<Output = R> + Send,
    ) -> impl Future<Output = R> + Send {
        let reported: Option<Box<Reported>> = listen::begun(EventKind::Loose(CallKind::Batch), Some(place));
        async move {
            let result = call.await;
            if let Some(reported) = reported {
                self.report(*reported, 0, Some(reason));
            }
            result
        }
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

    /// [`stats`](Batched::stats) as a future of any executor.
    ///
    /// # Errors
    /// The errors of [`stats`](Batched::stats), and [`BatchError::Closed`].
    pub fn stats_async(&self) -> impl Future<Output = Result<Stats, BatchError>> + Send
    where
        S: 'static,
    {
        self.shared.job_async(false, |_, state| state.counts.snapshot())
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

    /// [`close`](Batched::close) as a future of any executor: the structure is closed from its first poll on, even if it is dropped then.
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
    /// # async fn example() {
    /// use windrow::batch::BatchError;
    ///
    /// let sum = Batched::new(Sum(0));
    /// assert_eq!(sum.close_async().await, Ok(()));
    /// assert_eq!(sum.call_async(5).await.unwrap_err().kind(), BatchError::Closed);
    /// # }
    /// # windrow_testkit::block_on(example());
    /// ```
    ///
    /// # Errors
    /// The errors of [`close`](Batched::close).
    pub fn close_async(&self) -> impl Future<Output = Result<(), BatchError>> + Send
    where
        S: 'static,
    {
        self.shared.job_async(true, |_, _| ())
    }

    /// Closes the wrapper and returns the structure. `None` if the structure is poisoned, or was made on a separate thread, which has
    /// dropped it; also from an operation of this structure, in a forked child, and while a batch of an [async structure](super::Builder::build_async)
    /// runs.
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
            if self.shared.options.is_async && self.shared.seen.since.get() != 0 {
                return None;
            }
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
        if is_runner || self.shared.is_inside() || self.shared.options.is_async {
            // An operation, or a waker that the runner calls, drops the structure: the runner finishes the queue, then ends. So does a task that
            // may need this thread.
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

/// Closes the structure, as [`close`](Batched::close). If an operation drops the structure that runs it, the drop does not wait; nor does that of an
/// [async structure](super::Builder::build_async).
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
        self.job(&mut |state| result = f.take().and_then(|f| self.apply(state, f)))?;
        Self::applied(result)
    }

    async fn exclusive_async<R: Send + 'static>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut S) -> R + Send + 'static,
    ) -> Result<R, BatchError>
    where
        S: 'static,
    {
        Self::applied(self.job_async(false, |shared, state| shared.apply(state, f)).await?)
    }

    fn apply<R>(&self, state: &mut StructureState<S>, f: impl FnOnce(&mut S) -> R) -> Applied<R> {
        let structure = state.structure()?;
        self.seen.since.set(machine::tick().max(1));
        let outcome = catch_unwind(AssertUnwindSafe(|| f(structure)));
        self.seen.since.set(0);
        if let Err(payload) = &outcome {
            state.recover(payload, self);
        }
        Some(outcome)
    }

    fn applied<R>(result: Applied<R>) -> Result<R, BatchError> {
        match result.ok_or(BatchError::Poisoned)? {
            Ok(result) => Ok(result),
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Runs `job` on the state when its turn comes, as the last one if it `closes` the structure.
    async fn job_async<R: Send + 'static>(
        self: &Arc<Self>,
        closes: bool,
        job: impl FnOnce(&Self, &mut StructureState<S>) -> R + Send + 'static,
    ) -> Result<R, BatchError>
    where
        S: 'static,
    {
        self.accepts()?;
        let result = Arc::new(Mutex::new(None));
        let (put, shared) = (result.clone(), Arc::downgrade(self));
        let job = move |state: &mut StructureState<S>| {
            // The holder of the lock keeps it alive.
            if let Some(shared) = shared.upgrade() {
                shared.unmark(1);
                *put.lock() = Some(job(&shared, state));
            }
            // The result, if its future was dropped meanwhile.
            discard(put);
        };
        // Until its turn it counts among what is queued. If its future is dropped, it counts as cancelled.
        self.mark(1);
        let mut queued = QueuedJob { shared: self, task: Some(TaskOp::job(&self.submit, Box::new(job), closes)) };
        poll_fn(|context| queued.poll(context)).await.inspect_err(|_| self.unmark(1))?;
        let result = result.lock().take();
        result.ok_or(BatchError::Unanswered)
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
        self.read_shared(self.look(), f).unwrap_or_else(|f| self.exclusive(|structure| f(structure)))
    }

    /// Calls `f` with a structure that is shared with other readers, or gives `f` back.
    fn read_shared<R, F: FnOnce(&S) -> R>(
        &self,
        state: Option<Reading<'_, StructureState<S>, S::Op, S::Reply>>,
        f: F,
    ) -> Result<Result<R, BatchError>, F>
    where
        S: Sync,
    {
        // Shared only if a nested call inside `f` can be detected, or is refused because the structure is closed.
        let can_read = || READING.try_with(|_| ()).is_ok() || self.submit.is_closed();
        let Some(state) = state.filter(|_| can_read()) else { return Err(f) };
        if state.is_poisoned {
            return Ok(Err(BatchError::Poisoned));
        }
        let Some(structure) = state.structure.as_ref().and_then(ThreadBound::get) else { return Err(f) };
        let _ = READING.try_with(|reading| reading.borrow_mut().push(self.address()));
        let _read = Finally(|| _ = READING.try_with(|reading| reading.borrow_mut().pop()));
        Ok(Ok(f(structure)))
    }

    async fn read_async<R: Send + 'static>(
        self: &Arc<Self>,
        f: impl FnOnce(&S) -> R + Send + 'static,
    ) -> Result<R, BatchError>
    where
        S: Sync + 'static,
    {
        loop {
            self.accepts()?;
            let state = self.submit.try_read();
            if state.is_some() || !self.submit.is_closed() {
                break match self.read_shared(state, f) {
                    Ok(result) => result,
                    Err(f) => self.exclusive_async(|structure| f(structure)).await,
                };
            }
            // A closed structure has no queue to wait in.
            pause().await;
        }
    }
}

/// A job of a future, until it is answered.
struct QueuedJob<'b, S: BatchOps> {
    shared: &'b BatchedInner<S>,
    task: Option<TaskOp<'b, StructureState<S>, S::Op, S::Reply>>,
}

impl<S: BatchOps> QueuedJob<'_, S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BatchError>> {
        let shared = self.shared;
        let Some(task) = self.task.as_mut().filter(|_| !shared.is_forked()) else {
            return Poll::Ready(Err(BatchError::Forked));
        };
        let (_, fate) =
            std::task::ready!(task.poll(context, Launch::Now, |held| shared.lead(held, BatchRunner::Tasks, 0)));
        Poll::Ready(fate.map(|_| ()).map_err(|_| BatchError::Closed))
    }
}

/// In a forked child the job is left to the parent.
impl<S: BatchOps> Drop for QueuedJob<'_, S> {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            std::mem::forget(self.task.take());
        }
    }
}

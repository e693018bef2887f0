//! Structures whose batches await.

use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use windrow_plan::batch::BatchRunner;
use windrow_sync::submit::{Entry, Fate, Limit};
use windrow_sync::{ThreadBound, machine};

use super::future::pause;
use super::lead::{BatchedInner, DROPPED, POISONED, StructureBatch, StructureGuard, StructureState, TimedBatch};
use super::{Batch, BatchOps, Batched, Builder};

/// A structure whose batches await: a client of a database, of a model server, of a queue. [`Builder::build_async`] wraps it.
///
/// ```
/// use windrow::batch::{AsyncBatchOps, Batch, Batched};
///
/// struct Users;
///
/// impl Users {
///     /// One query: `WHERE id IN (..)`.
///     async fn load(&self, ids: &[u64]) -> Result<Vec<String>, String> {
///         Ok(ids.iter().map(|id| format!("user {id}")).collect())
///     }
/// }
///
/// impl AsyncBatchOps for Users {
///     type Op = u64;
///     type Reply = Result<String, String>;
///
///     async fn run(&mut self, batch: &mut Batch<'_, u64, Self::Reply>) {
///         let ids: Vec<u64> = batch.iter_mut().map(|entry| entry.take()).collect();
///         match self.load(&ids).await {
///             Ok(found) => batch.iter_mut().zip(found).for_each(|(entry, user)| entry.reply(Ok(user))),
///             Err(error) => batch.iter_mut().for_each(|entry| entry.reply(Err(error.clone()))),
///         }
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let runtime = tokio::runtime::Handle::current();
/// let users = Batched::builder().limit(100).build_async(Users, move |task| drop(runtime.spawn(task)));
/// assert_eq!(users.call_async(7).await.unwrap(), Ok("user 7".to_owned()));
/// # });
/// ```
pub trait AsyncBatchOps {
    /// One operation, as [`BatchOps::Op`].
    type Op: Send;
    /// The reply to an operation, as [`BatchOps::Reply`].
    type Reply: Send;

    /// Runs all operations of a batch and answers each, as [`BatchOps::run`]. Written as `async fn run(..)`. No other batch of the structure begins
    /// before it is over.
    ///
    /// It may be dropped at an await, when the executor shuts down: its callers get [`BatchError::Dropped`](super::BatchError::Dropped), and
    /// for the structure that is a panic.
    fn run(&mut self, batch: &mut Batch<'_, Self::Op, Self::Reply>) -> impl Future<Output = ()> + Send;

    /// The weight of an operation, as [`BatchOps::weight`].
    fn weight(op: &Self::Op) -> usize {
        let _ = op;
        1
    }

    /// Called on the caller's thread, as [`BatchOps::prepare`].
    fn prepare(op: &mut Self::Op) {
        let _ = op;
    }
}

/// An [async structure](AsyncBatchOps) in its [`Batched`]: what [`exclusive`](Batched::exclusive) and [`into_inner`](Batched::into_inner) give.
#[derive(Debug)]
pub struct Async<S>(S);

impl<S> Async<S> {
    /// The structure.
    pub fn into_inner(self) -> S {
        self.0
    }
}

impl<S> Deref for Async<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> DerefMut for Async<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0
    }
}

impl<S: AsyncBatchOps> BatchOps for Async<S> {
    type Op = S::Op;
    type Reply = S::Reply;

    /// Always panics: its task runs the batches of an async structure.
    fn run(&mut self, _: &mut Batch<'_, S::Op, S::Reply>) {
        panic!("the batches of an async structure are run by a task: await `AsyncBatchOps::run` instead");
    }

    fn weight(op: &S::Op) -> usize {
        S::weight(op)
    }

    fn prepare(op: &mut S::Op) {
        S::prepare(op);
    }
}

/// A task that runs a batch: see [`Builder::build_async`].
pub type BatchTask = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<S: AsyncBatchOps> Builder<Async<S>> {
    /// Wraps a structure whose batches await. `spawn` gets a task whenever operations are queued and no task is pending: pass an executor's
    /// `spawn`, as `move |task| drop(handle.spawn(task))` of a `tokio::runtime::Handle`. Each task runs one batch, one at a time. It waits one
    /// turn of the executor for callers that return: [`longest_wait`](Builder::longest_wait) does not apply.
    ///
    /// Callers are those of any structure. But blocking calls (`call`, `close`, `read`, `exclusive`, `stats`) are for threads outside the executor: on
    /// its only thread they would wait for a task that this thread must poll. Tasks have `call_async`, `close_async` and so on. A drop
    /// of the wrapper does not wait: the task that runs ends its batch.
    ///
    /// If the executor drops a task, its operations get [`BatchError::Dropped`](super::BatchError::Dropped). A task that is neither polled nor
    /// dropped leaves callers waiting.
    ///
    /// Example: [`AsyncBatchOps`].
    pub fn build_async(mut self, structure: S, spawn: impl Fn(BatchTask) + Send + Sync + 'static) -> Batched<Async<S>>
    where
        S: Send + 'static,
    {
        self.options.is_async = true;
        self.spawning(ThreadBound::new(Async(structure)), move |shared| {
            spawn(Box::pin(TaskDuty(Some(shared)).lead()));
        })
    }
}

/// A task that was spawned to run a batch, until it begins.
struct TaskDuty<S: AsyncBatchOps>(Option<Arc<BatchedInner<Async<S>>>>);

impl<S: AsyncBatchOps> TaskDuty<S> {
    async fn lead(mut self) {
        // Tasks that are ready hand in their operations first, and so do callers that were just answered.
        pause().await;
        let Some(shared) = self.0.take() else { return };
        if let Some(mut held) = shared.submit.take() {
            shared.batch_async(&mut held).await;
        }
    }
}

/// Refuses what is queued: the executor has dropped the task.
impl<S: AsyncBatchOps> Drop for TaskDuty<S> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        // If the lock is held, another task follows.
        let Some(mut held) = shared.submit.take() else { return };
        let _inside = shared.enter();
        while held.is_more() {
            if let Some(mut cut) = held.cut(&Limit { ops: usize::MAX, weight: None }) {
                let refused = cut.parts().1.len();
                shared.unmark(refused);
                cut.set_fate(DROPPED);
            }
        }
    }
}

impl<S: AsyncBatchOps> BatchedInner<Async<S>> {
    async fn batch_async(&self, held: &mut StructureGuard<'_, Async<S>>) {
        let inside = self.enter();
        let Some((cut, timed)) = self.cut(held, BatchRunner::Separate, 0) else { return };
        drop(inside);
        let mut running = RunningBatch { shared: self, cut, timed, is_over: false };
        let (state, entries) = running.cut.parts();
        let fate = state.run_async(entries, self).await;
        let timed = running.end(fate);
        let _inside = self.enter();
        self.answered(held, BatchRunner::Separate, &timed);
    }
}

/// A batch that awaits.
struct RunningBatch<'h, 's, 'b, S: AsyncBatchOps> {
    shared: &'b BatchedInner<Async<S>>,
    cut: StructureBatch<'h, 's, Async<S>>,
    timed: TimedBatch,
    is_over: bool,
}

impl<S: AsyncBatchOps> RunningBatch<'_, '_, '_, S> {
    fn end(mut self, fate: Fate) -> TimedBatch {
        self.is_over = true;
        self.shared.ran(&mut self.cut, &mut self.timed, fate);
        self.timed
    }
}

/// The executor has dropped the task: for the structure that is a panic.
impl<S: AsyncBatchOps> Drop for RunningBatch<'_, '_, '_, S> {
    fn drop(&mut self) {
        if !self.is_over {
            let _inside = self.shared.enter();
            let (state, entries) = self.cut.parts();
            let dropped = Box::new("the executor dropped the task of a batch");
            state.ran(entries, self.timed.ran, Err(dropped), self.shared);
            self.shared.ran(&mut self.cut, &mut self.timed, DROPPED);
        }
    }
}

impl<S: AsyncBatchOps> StructureState<Async<S>> {
    async fn run_async(&mut self, entries: &mut [Entry<S::Op, S::Reply>], shared: &BatchedInner<Async<S>>) -> Fate {
        let order = std::mem::take(&mut self.order);
        let Some(Async(structure)) = self.structure() else { return POISONED };
        let mut batch = Batch { entries: &mut *entries, order };
        let start = machine::tick();
        let result = {
            let mut run = pin!(async { structure.run(&mut batch).await });
            poll_fn(|context| {
                let _inside = shared.enter();
                let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
                polled.map_or_else(|payload| Poll::Ready(Err(payload)), |polled| polled.map(Ok))
            })
            .await
        };
        self.order = batch.order;
        self.ran(entries, start, result, shared)
    }
}

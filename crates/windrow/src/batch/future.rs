//! Calls of tasks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use windrow_sync::latch::Latch;
use windrow_sync::submit::{Launch, TaskOp};

use super::lead::{BatchedInner, StructureState};
use super::options::Overflow;
use super::{BatchError, BatchOps, BatchRunner, Batched, CallError};
use crate::runtime::listen::{self, CallKind, EventKind, Reported};
use windrow_sync::submit::room::{Permit, Waiting};

/// Lets the other tasks that are ready run.
pub(super) async fn pause() {
    let mut is_over = false;
    poll_fn(|context| {
        if !std::mem::replace(&mut is_over, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

impl<S: BatchOps> Batched<S> {
    /// Runs `op`, in a batch with operations of other callers, as a future of any executor. [`prepare`](BatchOps::prepare) runs at once, and
    /// nothing else happens before the future is polled. After some warm-up a call allocates nothing.
    ///
    /// If the structure is free and batching does not pay, the task runs its operation at once. If batching pays, the task wakes itself, so
    /// that other ready tasks are polled first. When the task is polled again, it runs the batch, unless another caller has run it.
    ///
    /// Dropping a future whose operation is queued removes the operation: it is never run.
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
    /// async fn add(sum: &Batched<Sum>) -> u64 {
    ///     sum.call_async(3).await.unwrap() + sum.call_async(4).await.unwrap()
    /// }
    /// # let sum = Batched::new(Sum(0));
    /// # let mut future = std::pin::pin!(add(&sum));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # let mut polls = 0;
    /// # while future.as_mut().poll(&mut context).is_pending() { polls += 1; assert!(polls < 10); }
    /// ```
    ///
    /// # Errors
    /// As [`call`](Batched::call).
    #[track_caller]
    pub fn call_async(&self, op: S::Op) -> CallAsync<'_, S> {
        self.call_async_at(Location::caller(), op)
    }

    /// [`call_async`](Self::call_async) of the code at `place`.
    #[doc(hidden)]
    pub fn call_async_at(&self, place: &'static Location<'static>, mut op: S::Op) -> CallAsync<'_, S> {
        S::prepare(&mut op);
        let reported = listen::begun(EventKind::Loose(CallKind::Batch), Some(place));
        CallAsync { batched: self, stage: CallStage::New(op), room: None, waiting: None, reported }
    }

    /// A [`call`](Batched::call) for at most about `time`. Where another caller or a separate runner runs batches, this caller gives up when the time is up. A
    /// batch that this thread runs itself is not interrupted.
    ///
    /// ```
    /// # use windrow::batch::{Batch, BatchOps, Batched};
    /// use std::time::Duration;
    /// use windrow::batch::{BatchError, Runner};
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
    /// let naps = Batched::builder().build_on(Runner::thread(|| Naps))?;
    /// assert_eq!(naps.call_within(0, Duration::from_secs(60)), Ok(()));
    /// let late = naps.call_within(200, Duration::from_millis(20)).unwrap_err();
    /// assert!(matches!(late.kind(), BatchError::TimedOut { .. }));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchError::TimedOut`], with the operation if it was not handed in; and those of [`call`](Batched::call).
    #[track_caller]
    pub fn call_within(&self, op: S::Op, time: Duration) -> Result<S::Reply, CallError<S::Op>> {
        /// Wakes a thread that waits.
        struct Bell(Latch);

        impl Wake for Bell {
            fn wake(self: Arc<Self>) {
                self.0.set();
            }
        }

        let (until, bell) = (Instant::now() + time, Arc::new(Bell(Latch::new())));
        let waker = bell.clone().into();
        let mut call = self.call_async_at(Location::caller(), op);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut call).poll(&mut Context::from_waker(&waker)) {
                return result;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(call.give_up());
            }
            bell.0.wait_for(Some(left));
        }
    }

    /// A call that takes room in a bounded queue before it has its operation. `op` is polled once there is room; with the operation comes the
    /// place of the call.
    #[doc(hidden)]
    pub async fn call_with_room(
        &self,
        op: impl Future<Output = (S::Op, &'static Location<'static>)>,
    ) -> Result<S::Reply, CallError<S::Op>> {
        let room = match &self.shared.room {
            None => None,
            Some(room) => {
                let mut waiting = None;
                Some(poll_fn(|context| room.poll(&mut waiting, 1, context)).await)
            }
        };
        let (op, place) = op.await;
        let mut call = self.call_async_at(place, op);
        call.room = room;
        call.await
    }

    /// True if a call waits for room in a bounded queue, rather than be rejected or run past the bound.
    ///
    /// # Errors
    /// [`BatchError::Closed`] or [`BatchError::Forked`] if no call will be accepted any more.
    #[doc(hidden)]
    pub fn admits(&self) -> Result<bool, BatchError> {
        match &*self.shared {
            shared if shared.is_forked() => Err(BatchError::Forked),
            shared if shared.submit.is_closed() => Err(BatchError::Closed),
            shared => Ok(shared.room.is_some() && shared.options.full == Overflow::Block),
        }
    }
}

/// The future of [`Batched::call_async`].
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
/// use std::pin::Pin;
/// use std::task::{Context, Poll, Waker};
/// use windrow::batch::CallAsync;
///
/// # let sum = Batched::new(Sum(0));
/// // It has a name and can be moved: so a struct can keep it.
/// let mut call: CallAsync<'_, Sum> = sum.call_async(5);
/// let mut context = Context::from_waker(Waker::noop());
/// let reply = loop {
///     if let Poll::Ready(reply) = Pin::new(&mut call).poll(&mut context) {
///         break reply;
///     }
/// };
/// assert_eq!(reply, Ok(5));
/// ```
pub struct CallAsync<'b, S: BatchOps> {
    batched: &'b Batched<S>,
    stage: CallStage<'b, S>,
    /// Its room in a bounded queue.
    room: Option<Permit<'b>>,
    /// Its place in the line for that room.
    waiting: Option<Waiting<'b>>,
    reported: Option<Box<Reported>>,
}

enum CallStage<'b, S: BatchOps> {
    New(S::Op),
    Handed(TaskOp<'b, StructureState<S>, S::Op, S::Reply>),
    Over,
}

impl<S: BatchOps> Unpin for CallAsync<'_, S> {}

impl<S: BatchOps> fmt::Debug for CallAsync<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAsync")
            .field("is_handed_in", &matches!(self.stage, CallStage::Handed(_)))
            .finish_non_exhaustive()
    }
}

impl<'b, S: BatchOps> CallAsync<'b, S> {
    /// In a forked child: leaves an operation that was handed in to the parent, and returns one that was not.
    fn abandon(&mut self) -> Option<S::Op> {
        std::mem::forget((self.room.take(), self.waiting.take()));
        match std::mem::replace(&mut self.stage, CallStage::Over) {
            CallStage::New(op) => Some(op),
            CallStage::Handed(task) => {
                std::mem::forget(task);
                None
            }
            CallStage::Over => None,
        }
    }

    /// Drops the operation because the time is up.
    fn give_up(mut self) -> CallError<S::Op> {
        let (op, runs) = match std::mem::replace(&mut self.stage, CallStage::Over) {
            CallStage::New(op) => (Some(op), false),
            CallStage::Handed(task) => (None, !task.cancel()),
            CallStage::Over => (None, false),
        };
        CallError::new(BatchError::TimedOut { runs }, op)
    }

    /// Takes room in a bounded queue for the operation; false if the operation is rejected.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let shared: &'b BatchedInner<S> = &self.batched.shared;
        if let (Some(room), None) = (&shared.room, &self.room) {
            self.room = match shared.options.full {
                Overflow::Block => Some(std::task::ready!(room.poll(&mut self.waiting, 1, context))),
                Overflow::Reject => room.try_take(1),
            };
            return Poll::Ready(self.room.is_some());
        }
        Poll::Ready(true)
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<S::Reply, CallError<S::Op>>> {
        let this = self;
        let shared = &*this.batched.shared;
        if shared.is_forked() && !matches!(this.stage, CallStage::Over) {
            return Poll::Ready(Err(CallError::new(BatchError::Forked, this.abandon())));
        }
        let is_handed = matches!(this.stage, CallStage::Handed(_));
        let defers = shared.defers.get() == 1;
        if let CallStage::New(_) = this.stage {
            let CallStage::New(op) = std::mem::replace(&mut this.stage, CallStage::Over) else {
                unreachable!("just seen")
            };
            let op = match if defers || shared.options.is_elsewhere { Err(op) } else { shared.try_alone_as_task(op) } {
                Ok(result) => return Poll::Ready(result),
                Err(op) => op,
            };
            if shared.is_inside() {
                return Poll::Ready(Err(CallError::new(BatchError::Nested, Some(op))));
            }
            match this.poll_room(context) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(Err(CallError::new(shared.rejects(), Some(op)))),
                Poll::Pending => {
                    this.stage = CallStage::New(op);
                    return Poll::Pending;
                }
            }
            this.stage = CallStage::Handed(TaskOp::new(&shared.submit, op, shared.mark(1)));
        }
        let CallStage::Handed(task) = &mut this.stage else { panic!("polled after it had completed") };
        if is_handed && !shared.options.is_elsewhere && !task.is_answered() && shared.defers_to_returns() {
            // Tasks that were just answered are polled first, and call again.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let launch = if defers { Launch::Deferred } else { Launch::Now };
        let answer = task.poll(context, launch, |held| shared.lead(held, BatchRunner::Tasks, 1));
        let (entry, fate) = std::task::ready!(answer);
        this.stage = CallStage::Over;
        this.room = None;
        Poll::Ready(shared.finish(fate.inspect_err(|_| shared.unmark(1)), entry))
    }
}

impl<S: BatchOps> Future for CallAsync<'_, S> {
    type Output = Result<S::Reply, CallError<S::Op>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let answer = std::task::ready!(this.poll_answer(context));
        if let Some(reported) = this.reported.take() {
            this.batched.report(*reported, 1, None);
        }
        Poll::Ready(answer)
    }
}

impl<S: BatchOps> Drop for CallAsync<'_, S> {
    fn drop(&mut self) {
        if self.batched.shared.is_forked() {
            drop(self.abandon());
        }
    }
}

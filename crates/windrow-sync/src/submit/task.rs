//! Callers that are futures.

use std::task::{Context, Poll};

use super::node::{
    BUSY, DONE, Entry, Fate, GONE, INVITED, Node, NodeWork, QUEUED, QueuedNode, TAKEN, TaskJob, WATCHED, WakeTarget,
    phase,
};
use super::{CLOSED, Closed, LockGuard, Push, Pushed, Submit};
use crate::base::debug::show_as;
use crate::base::primitives::Ordering;
use crate::base::unwind::discard;

/// The poll in which a future that finds the lock free runs its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// This poll.
    Now,
    /// The next poll, for which the future wakes itself: tasks that are ready now hand in their operations first.
    Deferred,
}

/// The result of polling a [`TaskOp`]: its entry, and the fate of its batch if the list was open.
pub type TaskPoll<A, B> = Poll<(Entry<A, B>, Result<Fate, Closed>)>;

/// An operation or a job handed in by a task. See the [module page](super).
pub struct TaskOp<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
    stage: TaskStage<T, A, B>,
}

enum TaskStage<T, A, B> {
    New(Entry<A, B>, NodeWork<T, A, B>, u64, usize),
    Queued(QueuedNode<T, A, B>),
    Over,
}

// SAFETY: a slot's node may be used from any thread, as the tables of the module page say; operations, jobs and replies are `Send`.
unsafe impl<T: Send, A: Send, B: Send> Send for TaskOp<'_, T, A, B> {}
impl<T: Send, A: Send, B: Send> Unpin for TaskOp<'_, T, A, B> {}

show_as!("TaskOp": [T: Send, A: Send, B: Send] TaskOp<'_, T, A, B>, |it| is_over: matches!(it.stage, TaskStage::Over));

impl<'s, T: Send, A: Send, B: Send> TaskOp<'s, T, A, B> {
    /// A task that will hand in `op` when it is polled, with a mark as in [`Submit::call`].
    pub fn new(submit: &'s Submit<T, A, B>, op: A, mark: u64) -> Self {
        TaskOp { submit, stage: TaskStage::New(Entry::Op(op), NodeWork::Own, mark, 0) }
    }

    /// A task that will hand in `job` when it is polled, as [`Submit::job`]; or that closes the list with it, as [`Submit::close`].
    pub fn job(submit: &'s Submit<T, A, B>, job: TaskJob<T>, closes: bool) -> Self {
        let closing = if closes { CLOSED } else { 0 };
        TaskOp { submit, stage: TaskStage::New(Entry::Empty, NodeWork::OwnJob(Some(job)), 0, closing) }
    }

    /// True if the next poll returns the answer.
    pub fn is_answered(&self) -> bool {
        let TaskStage::Queued(slot) = self.stage else { return false };
        // Relaxed: the poll reads the state again.
        phase(slot.node().state.load(Ordering::Relaxed)) == DONE
    }

    /// The entry when it is answered, and the fate of its batch; or the entry as it was handed in if the list was closed before. `lead` is
    /// as in [`Submit::call`].
    ///
    /// # Panics
    /// If it was ready before, or if `lead` panics.
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        launch: Launch,
        lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> TaskPoll<A, B> {
        match std::mem::replace(&mut self.stage, TaskStage::Over) {
            TaskStage::Over => panic!("polled after it had completed"),
            TaskStage::New(own, work, mark, closing) => self.hand_in((own, work, mark), closing, context, launch, lead),
            TaskStage::Queued(slot) => {
                self.stage = TaskStage::Queued(slot);
                self.wait(slot, context, lead)
            }
        }
    }

    fn hand_in(
        &mut self,
        new: (Entry<A, B>, NodeWork<T, A, B>, u64),
        closing: usize,
        context: &mut Context<'_>,
        launch: Launch,
        mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> TaskPoll<A, B> {
        let submit = self.submit;
        let waker = context.waker().clone();
        let slot = QueuedNode::new(submit.slot());
        let node = slot.node();
        // SAFETY: a free slot is used only by the thread that took it, which is this one.
        node.waiter.with_mut(|waiter| unsafe { *waiter = Some(WakeTarget::Task(waker)) });
        node.body.with_mut(|body| {
            // SAFETY: as above.
            let body = unsafe { &mut *body };
            (body.own, body.work, body.mark) = new;
            (body.cut, body.fate) = (0, Fate::default());
        });
        // Relaxed: the push publishes it.
        node.state.store(QUEUED | WATCHED, Ordering::Relaxed);
        self.stage = TaskStage::Queued(slot);
        let how = match launch {
            Launch::Now if submit.signal.is_none() => Push::Take,
            _ => Push::Call,
        };
        match submit.push(slot.slot().as_ptr(), how, closing) {
            Pushed::Queued => Poll::Pending,
            Pushed::Lead => {
                lead(&mut LockGuard::new(submit, Some(slot.slot())));
                self.wait(slot, context, lead)
            }
            Pushed::Called if submit.signal.is_some() => {
                submit.signal();
                Poll::Pending
            }
            Pushed::CalledToo if submit.signal.is_some() => Poll::Pending,
            Pushed::Called | Pushed::CalledToo => {
                // Relaxed: the invitation publishes no data. If it fails, another caller has taken the lock meanwhile, and with it the
                // duty to run this operation.
                let invited = node.state.compare_exchange(
                    QUEUED | WATCHED,
                    QUEUED | WATCHED | INVITED,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                if invited.is_ok() {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Pushed::Closed => {
                self.stage = TaskStage::Over;
                let (own, _) = slot.take_own();
                submit.free(slot);
                Poll::Ready((own, Err(Closed)))
            }
        }
    }

    fn wait(
        &mut self,
        slot: QueuedNode<T, A, B>,
        context: &mut Context<'_>,
        mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> TaskPoll<A, B> {
        let node = slot.node();
        loop {
            // Acquire: pairs with the Release in `LockGuard::answer_task`; the reply is visible. Also with the one in `LockGuard::invite_one`: the
            // holder no longer uses the waker.
            let state = node.state.load(Ordering::Acquire);
            match phase(state) {
                DONE => return Poll::Ready(self.finish(slot)),
                BUSY => {
                    // The holder is using this future's waker, which may be an old one.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                _ if !register(node, state, context) => {}
                // A future that was not invited may take a free lock as well, because the invited ones may be kept.
                _ if state & INVITED == 0 && !self.submit.is_free_to_tasks() => return Poll::Pending,
                _ if !self.submit.take_or_nudge() => return Poll::Pending,
                // Relaxed: only holders answer, and this thread has the lock now.
                _ if phase(node.state.load(Ordering::Relaxed)) == DONE => drop(LockGuard::new(self.submit, None)),
                _ => lead(&mut LockGuard::new(self.submit, Some(slot.slot()))),
            }
        }
    }

    fn finish(&mut self, slot: QueuedNode<T, A, B>) -> (Entry<A, B>, Result<Fate, Closed>) {
        self.stage = TaskStage::Over;
        let node = slot.node();
        let answer = node.body.with_mut(|body| {
            // SAFETY: `DONE` was seen with Acquire: the node belongs to its owner again.
            let body = unsafe { &mut *body };
            (std::mem::take(&mut body.own), Ok(body.fate))
        });
        self.submit.free(slot);
        answer
    }
}

/// Leaves the waker where the holder will find it, and gives an invitation back. False if another thread has changed the state.
fn register<T, A, B>(node: &Node<T, A, B>, state: u32, context: &Context<'_>) -> bool {
    let bare = state & !WATCHED & !INVITED;
    let is_invited = state & INVITED != 0;
    // Cloned first, since a clone may panic: an invitation that is given back without a nudge would be lost.
    let early = is_invited.then(|| context.waker().clone());
    if state != bare {
        // Relaxed: this takes back the right to a cell that no other thread has touched since.
        if node.state.compare_exchange(state, bare, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
    }
    let cell = if phase(state) == TAKEN { &node.late } else { &node.waiter };
    discard(cell.with_mut(|waiter| {
        // SAFETY: without `WATCHED` the cell of this phase belongs to the owner.
        let waiter = unsafe { &mut *waiter };
        match waiter {
            Some(WakeTarget::Task(old)) if old.will_wake(context.waker()) => None,
            _ => waiter.replace(WakeTarget::Task(early.unwrap_or_else(|| context.waker().clone()))),
        }
    }));
    // Release: pairs with the Acquire in `take`, `LockGuard::invite_one` and `LockGuard::answer_task`; the waker is visible.
    node.state.compare_exchange(bare, bare | WATCHED, Ordering::Release, Ordering::Relaxed).is_ok()
}

impl<T: Send, A: Send, B: Send> TaskOp<'_, T, A, B> {
    /// Drops the operation, as the drop of this does. True if it is never run: it was in no batch.
    pub fn cancel(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        let TaskStage::Queued(slot) = std::mem::replace(&mut self.stage, TaskStage::Over) else { return true };
        let node = slot.node();
        // Release: pairs with the Acquire in `LockGuard::cut_one`, `LockGuard::answer_task` and `LockGuard::invite_one`; the holder frees the slot after
        // this future's use.
        // Acquire: pairs with the Release in `LockGuard::answer_task`; the reply to be dropped is visible.
        let found = node.state.swap(GONE, Ordering::AcqRel);
        // If it is `BUSY`, a holder invites it, which then counts it, or answers it.
        let is_queued = phase(found) == QUEUED;
        if is_queued {
            self.submit.cancelled.count(1);
        }
        if phase(found) == DONE {
            self.submit.free(slot);
        } else if found & INVITED != 0 && self.submit.take_or_nudge() {
            // This thread has the lock now, and passes it on.
            drop(LockGuard::new(self.submit, None));
        }
        is_queued
    }
}

impl<T: Send, A: Send, B: Send> Drop for TaskOp<'_, T, A, B> {
    fn drop(&mut self) {
        self.leave();
    }
}

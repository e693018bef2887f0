//! Queues of tasks.
//!
//! A length beside each queue is written under the queue's lock and read without the lock. A reader of an outdated length has read before the
//! pushing thread called guests.

use std::collections::VecDeque;
use std::sync::Arc;

use windrow_sync::Mutex;
use windrow_sync::lend::Loan;
use windrow_sync::relaxed::RelaxedU64;

/// A closure in a queue.
pub(crate) enum QueuedTask {
    /// Owns what it uses.
    Owned(Box<dyn FnOnce() + Send>),
    /// Borrows; its host waits for it.
    Lent(Loan),
    /// Stands for the oldest task of a list.
    OldestOf(Arc<FifoTasks>),
}

/// Tasks that are run in the order in which they came, each when its stand-in in another queue is taken.
pub(crate) type FifoTasks = Mutex<VecDeque<QueuedTask>>;

/// Tasks with their numbers, and how many there are.
#[derive(Default)]
pub(crate) struct TaskQueue {
    tasks: Mutex<(u64, VecDeque<(u64, QueuedTask)>)>,
    length: RelaxedU64,
}

impl TaskQueue {
    pub(crate) fn push(&self, task: QueuedTask) -> u64 {
        let mut tasks = self.tasks.lock();
        tasks.0 += 1;
        let number = tasks.0;
        tasks.1.push_back((number, task));
        self.length.set(tasks.1.len() as u64);
        number
    }

    /// Takes the oldest task, or the youngest.
    pub(crate) fn take(&self, youngest: bool) -> Option<QueuedTask> {
        if self.is_empty() {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = if youngest { tasks.1.pop_back() } else { tasks.1.pop_front() };
        self.length.set(tasks.1.len() as u64);
        task.map(|(_, task)| task)
    }

    /// Takes the youngest task if its number is `number` or later.
    pub(crate) fn take_since(&self, number: u64) -> Option<QueuedTask> {
        let mut tasks = self.tasks.lock();
        let (last, _) = tasks.1.back()?;
        if *last < number {
            return None;
        }
        let task = tasks.1.pop_back();
        self.length.set(tasks.1.len() as u64);
        task.map(|(_, task)| task)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    pub(crate) fn len(&self) -> u64 {
        self.length.get()
    }
}

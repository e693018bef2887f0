//! Scopes of a task pool: their tasks may borrow, and run on workers.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use windrow_sync::fork::lock;
use windrow_sync::lend::Lender;
use windrow_sync::unwind::{Payload, discard};

use super::core::{FifoTasks, PoolCore, QueuedTask, WakeHost, working};
use super::{BroadcastContext, TaskOrder};

/// Where tasks of a [`TaskPool`](super::TaskPool) are spawned that may borrow for `'scope`: see
/// [`TaskPool::scope`](super::TaskPool::scope).
///
/// It is a handle: clones are the same scope.
///
/// ```
/// use windrow::workers::{TaskPool, TaskScope};
///
/// fn fill<'scope>(scope: &TaskScope<'scope>, rows: impl Iterator<Item = &'scope mut [u32]>) {
///     for row in rows {
///         scope.spawn(move |_| row.fill(row.len() as u32));
///     }
/// }
///
/// let mut cells = [0; 7];
/// TaskPool::new(2)?.scope(|scope| fill(scope, cells.chunks_mut(3)));
/// assert_eq!(cells, [3, 3, 3, 3, 3, 3, 1]);
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
pub struct TaskScope<'scope> {
    shared: Arc<ScopeTasks<'scope>>,
}

struct ScopeTasks<'scope> {
    lender: Lender<'scope, WakeHost>,
    core: Arc<PoolCore>,
    /// For each worker, the tasks that it has spawned, if tasks run in the order of spawning.
    fifo: Option<Box<[Arc<FifoTasks>]>>,
    panic: Mutex<Option<Payload>>,
}

impl Clone for TaskScope<'_> {
    fn clone(&self) -> Self {
        TaskScope { shared: self.shared.clone() }
    }
}

impl fmt::Debug for TaskScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope").field("lender", &self.shared.lender).finish_non_exhaustive()
    }
}

/// Runs `f` on this thread with a scope of the pool, and waits until its tasks have ended.
pub(super) fn run<'scope, R>(core: &Arc<PoolCore>, order: TaskOrder, f: impl FnOnce(&TaskScope<'scope>) -> R) -> R {
    let (result, scope) = PoolCore::lending(|lender: &Lender<'scope, WakeHost>| {
        let fifo = match order {
            TaskOrder::Lifo => None,
            TaskOrder::Fifo => Some((0..core.threads()).map(|_| Arc::new(Mutex::new(VecDeque::new()))).collect()),
        };
        let shared = ScopeTasks { lender: lender.clone(), core: core.clone(), fifo, panic: Mutex::new(None) };
        let scope = TaskScope { shared: Arc::new(shared) };
        let result = core.unless_forked(catch_unwind(AssertUnwindSafe(|| f(&scope))));
        (result, scope)
    });
    let thrown = lock(&scope.shared.panic).take();
    match (result, thrown) {
        (Ok(result), None) => result,
        (Ok(result), Some(payload)) => {
            discard(result);
            resume_unwind(payload)
        }
        (Err(payload), thrown) => {
            discard(thrown);
            resume_unwind(payload)
        }
    }
}

impl<'scope> TaskScope<'scope> {
    /// Adds a task. The scope waits for it; a panic in it is resumed where the scope ends.
    ///
    /// # Panics
    /// If the scope has ended: only a clone can outlive it.
    #[track_caller]
    pub fn spawn(&self, body: impl FnOnce(&TaskScope<'scope>) + Send + 'scope) {
        let scope = self.clone();
        let task = self.lend(move || body(&scope));
        let core = &self.shared.core;
        match &self.shared.fifo {
            None => core.push(task),
            Some(fifo) => core.push_fifo(task, Some(fifo)),
        }
    }

    /// Adds a task for each worker of the pool, as [`TaskPool::spawn_broadcast`](super::TaskPool::spawn_broadcast).
    ///
    /// # Panics
    /// As [`spawn`](TaskScope::spawn).
    #[track_caller]
    pub fn spawn_broadcast(&self, body: impl Fn(&TaskScope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope) {
        let body = Arc::new(body);
        let threads = self.shared.core.threads();
        // All are lent before the first is queued.
        let tasks: Vec<QueuedTask> = (0..threads)
            .map(|index| {
                let (body, scope) = (body.clone(), self.clone());
                self.lend(move || body(&scope, BroadcastContext::new(index, threads)))
            })
            .collect();
        self.shared.core.push_broadcast(tasks.into_iter());
    }

    fn lend(&self, job: impl FnOnce() + Send + 'scope) -> QueuedTask {
        let scope = self.clone();
        let task = self.shared.lender.lend(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| working(job)));
            if let Err(payload) = ended {
                let mut first = lock(&scope.shared.panic);
                if first.is_none() {
                    *first = Some(payload);
                } else {
                    drop(first);
                    discard(payload);
                }
            }
        });
        QueuedTask::Lent(task)
    }
}

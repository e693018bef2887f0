//! Scopes: their tasks may borrow, and run on threads of a pool.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use windrow_sync::Mutex;
use windrow_sync::lend::Lender;
use windrow_sync::unwind::{Payload, discard};

use crate::broadcast::BroadcastContext;
use crate::pool::with_pool;
use crate::queue::{FifoTasks, QueuedTask};
use crate::workers::{PoolCore, WakeHost, working};

/// A scope whose tasks may borrow for `'scope`: see [`scope()`].
#[derive(Debug)]
pub struct Scope<'scope>(pub(crate) Arc<ScopeTasks<'scope>>);

/// A scope whose tasks run in their order: see [`scope_fifo()`].
#[derive(Debug)]
pub struct ScopeFifo<'scope>(pub(crate) Arc<ScopeTasks<'scope>>);

impl fmt::Debug for ScopeTasks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lender.fmt(f)
    }
}

impl<'scope> Scope<'scope> {
    /// Adds a task. A thread runs the youngest task that it has spawned first.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let scope = Scope(self.0.clone());
        self.0.core.push(self.0.lend(move || body(&scope)));
    }

    /// Adds a task for each thread of the pool.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let scope = Scope(self.0.clone());
        self.0.broadcast(move |context| body(&scope, context));
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Adds a task. A thread runs the tasks in the order in which it has spawned them.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let scope = ScopeFifo(self.0.clone());
        self.0.core.push_fifo(self.0.lend(move || body(&scope)), Some(&self.0.fifo));
    }

    /// Adds a task for each thread of the pool.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let scope = ScopeFifo(self.0.clone());
        self.0.broadcast(move |context| body(&scope, context));
    }
}

/// Common part of both kinds of scopes.
pub(crate) struct ScopeTasks<'scope> {
    lender: Lender<'scope, WakeHost>,
    core: Arc<PoolCore>,
    /// For each thread, the tasks that it has spawned, if tasks run in the order of spawning.
    fifo: Box<[Arc<FifoTasks>]>,
    panic: Mutex<Option<Payload>>,
}

impl<'scope> ScopeTasks<'scope> {
    fn broadcast(self: &Arc<Self>, body: impl Fn(BroadcastContext<'_>) + Send + Sync + 'scope) {
        let body = Arc::new(body);
        let threads = self.core.threads();
        self.core.push_broadcast(|index| {
            let body = body.clone();
            self.lend(move || body(BroadcastContext::new(index, threads)))
        });
    }

    fn lend(self: &Arc<Self>, job: impl FnOnce() + Send + 'scope) -> QueuedTask {
        let tasks = self.clone();
        QueuedTask::Lent(self.lender.lend(move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| working(job))) {
                let mut first = tasks.panic.lock();
                if first.is_none() {
                    *first = Some(payload);
                } else {
                    drop(first);
                    discard(payload);
                }
            }
        }))
    }
}

/// Runs `f` on this thread with the tasks of a scope of the pool, and waits until they have ended.
pub(crate) fn run<'scope, R>(core: &Arc<PoolCore>, in_order: bool, f: impl FnOnce(Arc<ScopeTasks<'scope>>) -> R) -> R {
    let (result, tasks) = PoolCore::lending(|lender: &Lender<'scope, WakeHost>| {
        let lists = if in_order { core.threads() } else { 0 };
        let fifo = (0..lists).map(|_| Arc::new(Mutex::new(VecDeque::new()))).collect();
        let (lender, core) = (lender.clone(), core.clone());
        let tasks = Arc::new(ScopeTasks { lender, core, fifo, panic: Mutex::new(None) });
        let result = tasks.core.unless_forked(catch_unwind(AssertUnwindSafe(|| f(tasks.clone()))));
        (result, tasks)
    });
    let thrown = tasks.panic.lock().take();
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

/// Runs `op` on a thread of the current pool with a scope, and waits until the tasks of the scope have ended.
///
/// # Panics
/// With the payload of `op`, else with that of the first task that panicked. All tasks have ended by then.
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    with_pool(|pool| pool.scope(op))
}

/// [`scope()`] with tasks that a thread runs in the order in which it has spawned them.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    with_pool(|pool| pool.scope_fifo(op))
}

/// [`scope()`] with an `op` that runs on this thread.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    with_pool(|pool| pool.in_place_scope(op))
}

/// [`scope_fifo()`] with an `op` that runs on this thread.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    with_pool(|pool| pool.in_place_scope_fifo(op))
}

//! Scopes: handles of windrow's, in the two types that tell the order of tasks.

use std::fmt;

use windrow::workers::{BroadcastContext, TaskPool, TaskScope};

use crate::pool::with_pool;

/// Where tasks are spawned that may borrow for `'scope`: see [`scope()`].
pub struct Scope<'scope>(TaskScope<'scope>);

/// Where tasks are spawned that run in their order: see [`scope_fifo()`].
pub struct ScopeFifo<'scope>(TaskScope<'scope>);

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.0).finish()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopeFifo").field(&self.0).finish()
    }
}

impl<'scope> Scope<'scope> {
    /// Adds a task. A thread runs the youngest task that it has spawned first.
    #[track_caller]
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.0.spawn(move |scope| body(&Scope(scope.clone())));
    }

    /// Adds a task for each thread of the pool.
    #[track_caller]
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        self.0.spawn_broadcast(move |scope, context| body(&Scope(scope.clone()), context));
    }
}

impl<'scope> ScopeFifo<'scope> {
    /// Adds a task. A thread runs the tasks in the order in which it has spawned them.
    #[track_caller]
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        self.0.spawn(move |scope| body(&ScopeFifo(scope.clone())));
    }

    /// Adds a task for each thread of the pool.
    #[track_caller]
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        self.0.spawn_broadcast(move |scope, context| body(&ScopeFifo(scope.clone()), context));
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
    with_pool(|pool| scope_in(pool, op))
}

/// As [`scope()`], but a thread runs the tasks in the order in which it has spawned them.
///
/// # Panics
/// As [`scope()`].
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    with_pool(|pool| scope_fifo_in(pool, op))
}

/// As [`scope()`], but `op` runs on this thread.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    with_pool(|pool| in_place_scope_in(pool, op))
}

/// As [`scope_fifo()`], but `op` runs on this thread.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    with_pool(|pool| in_place_scope_fifo_in(pool, op))
}

#[track_caller]
pub(crate) fn scope_in<'scope, R: Send>(pool: &TaskPool, op: impl FnOnce(&Scope<'scope>) -> R + Send) -> R {
    pool.scope(|scope| op(&Scope(scope.clone())))
}

#[track_caller]
pub(crate) fn scope_fifo_in<'scope, R: Send>(pool: &TaskPool, op: impl FnOnce(&ScopeFifo<'scope>) -> R + Send) -> R {
    pool.scope_fifo(|scope| op(&ScopeFifo(scope.clone())))
}

#[track_caller]
pub(crate) fn in_place_scope_in<'scope, R>(pool: &TaskPool, op: impl FnOnce(&Scope<'scope>) -> R) -> R {
    pool.in_place_scope(|scope| op(&Scope(scope.clone())))
}

#[track_caller]
pub(crate) fn in_place_scope_fifo_in<'scope, R>(pool: &TaskPool, op: impl FnOnce(&ScopeFifo<'scope>) -> R) -> R {
    pool.in_place_scope_fifo(|scope| op(&ScopeFifo(scope.clone())))
}

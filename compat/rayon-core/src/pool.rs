//! Pools, and the global one.

use std::error::Error;
use std::fmt;
use std::sync::OnceLock;

use windrow::workers::{BroadcastContext, TaskPool, Yield};

use crate::builder::{ThreadPoolBuilder, ThreadSpawn};
use crate::error::ThreadPoolBuildError;
use crate::scope::{self, Scope, ScopeFifo};

/// A pool of threads. When it is dropped, its threads run what was spawned, and end; dropping waits for nothing.
pub struct ThreadPool {
    pool: TaskPool,
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("num_threads", &self.current_num_threads()).finish_non_exhaustive()
    }
}

static GLOBAL: OnceLock<Option<TaskPool>> = OnceLock::new();

/// The global pool; made if there is none.
pub(crate) fn global() -> &'static TaskPool {
    let global = GLOBAL.get_or_init(|| {
        ThreadPoolBuilder::new()
            .build()
            .or_else(|error| {
                // Without threads at all, the thread that asks first is the pool.
                let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
                if error.is_unsupported() { alone.build() } else { Err(error) }
            })
            .ok()
            .map(|pool| pool.pool)
    });
    global.as_ref().expect("the system has refused the threads of the global pool")
}

pub(crate) fn build_global<S: ThreadSpawn>(builder: ThreadPoolBuilder<S>) -> Result<(), ThreadPoolBuildError> {
    let mut result = Err(ThreadPoolBuildError::global_exists());
    GLOBAL.get_or_init(|| match builder.build() {
        Ok(pool) => {
            result = Ok(());
            Some(pool.pool)
        }
        Err(error) => {
            result = Err(error);
            None
        }
    });
    result
}

/// Calls `f` with the pool that this thread belongs to, else with the global one.
pub(crate) fn with_pool<R>(f: impl FnOnce(&TaskPool) -> R) -> R {
    match TaskPool::current() {
        Some(pool) => f(&pool),
        None => f(global()),
    }
}

impl ThreadPool {
    pub(crate) fn of(pool: TaskPool) -> Self {
        ThreadPool { pool }
    }

    /// A pool with these settings.
    ///
    /// # Errors
    /// As [`ThreadPoolBuilder::build`].
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: crate::Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    /// Runs `op` on a thread of this pool and returns its result.
    ///
    /// # Panics
    /// With the payload of `op`.
    #[track_caller]
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.pool.install(op)
    }

    /// Runs `op` once on each thread of this pool; the results are in the order of their indices.
    ///
    /// # Panics
    /// With the payload of the first thread that panicked, by index. All have run by then.
    #[track_caller]
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        self.pool.broadcast(op)
    }

    /// Threads of this pool.
    pub fn current_num_threads(&self) -> usize {
        self.pool.threads()
    }

    /// This thread's index, if it belongs to this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.pool.current_thread_index()
    }

    /// Whether this thread has spawned tasks that no thread has begun, if it belongs to this pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.pool.current_thread_has_pending_tasks()
    }

    /// [`join`](crate::join()) in this pool.
    ///
    /// # Panics
    /// As [`join`](crate::join()).
    #[track_caller]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.pool.join(a, b)
    }

    /// [`scope`](crate::scope()) in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    #[track_caller]
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        scope::scope_in(&self.pool, op)
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    #[track_caller]
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        scope::scope_fifo_in(&self.pool, op)
    }

    /// [`in_place_scope`](crate::in_place_scope()) whose tasks run in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    #[track_caller]
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        scope::in_place_scope_in(&self.pool, op)
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()) whose tasks run in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    #[track_caller]
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        scope::in_place_scope_fifo_in(&self.pool, op)
    }

    /// [`spawn`](crate::spawn()) in this pool.
    #[track_caller]
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.pool.spawn(op);
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) in this pool.
    #[track_caller]
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.pool.spawn_fifo(op);
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast()) in this pool.
    #[track_caller]
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        self.pool.spawn_broadcast(op);
    }

    /// [`yield_now`](crate::yield_now()), if this thread belongs to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.pool.yield_now()
    }

    /// [`yield_local`](crate::yield_local()), if this thread belongs to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.pool.yield_local()
    }
}

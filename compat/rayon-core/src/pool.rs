//! Pools, and the global one.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use windrow_sync::Mutex;

use crate::broadcast::BroadcastContext;
use crate::builder::{ThreadPoolBuilder, ThreadSpawn};
use crate::error::{Cause, ThreadPoolBuildError};
use crate::join::join_here;
use crate::outside;
use crate::queue::QueuedTask;
use crate::scope::{self, Scope, ScopeFifo};
use crate::workers::{PoolCore, PoolLife, WorkerPlace, current, place, received, working};

/// A pool of threads. When it is dropped, its threads run what was spawned, and end; dropping waits for nothing.
pub struct ThreadPool {
    life: Arc<PoolLife>,
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("num_threads", &self.current_num_threads()).finish_non_exhaustive()
    }
}

static GLOBAL: OnceLock<Option<ThreadPool>> = OnceLock::new();

/// The global pool; made if there is none.
pub(crate) fn global() -> &'static ThreadPool {
    try_global().expect("the system has refused the threads of the global pool")
}

/// The global pool, made if there is none, unless the system refuses its threads.
pub(crate) fn try_global() -> Option<&'static ThreadPool> {
    let global = GLOBAL.get_or_init(|| {
        ThreadPoolBuilder::new()
            .build()
            .or_else(|error| {
                // Without threads at all, the thread that asks first is the pool.
                let alone = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
                if error.is_unsupported() { alone.build() } else { Err(error) }
            })
            .ok()
            .inspect(ThreadPool::run_loops_from_outside)
    });
    global.as_ref()
}

pub(crate) fn build_global<S: ThreadSpawn>(builder: ThreadPoolBuilder<S>) -> Result<(), ThreadPoolBuildError> {
    let mut result = Err(ThreadPoolBuildError(Cause::GlobalExists));
    GLOBAL.get_or_init(|| match builder.build() {
        Ok(pool) => {
            result = Ok(());
            pool.run_loops_from_outside();
            Some(pool)
        }
        Err(error) => {
            result = Err(error);
            None
        }
    });
    result
}

/// Calls `f` with the pool that this thread belongs to, else with the global one.
pub(crate) fn with_pool<R>(f: impl FnOnce(&ThreadPool) -> R) -> R {
    match ThreadPool::current() {
        Some(pool) => f(&pool),
        None => f(global()),
    }
}

/// The result of [`yield_now()`] or [`yield_local()`].
///
/// ```
/// use rayon_core::{ThreadPoolBuilder, Yield, yield_now};
///
/// let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
/// assert_eq!(pool.install(yield_now), Some(Yield::Idle));
/// // This thread belongs to no pool.
/// assert_eq!(yield_now(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// The thread has run a task.
    Executed,
    /// No task was queued.
    Idle,
}

/// Runs one queued task of this thread's pool. `None` if this thread belongs to no pool.
pub fn yield_now() -> Option<Yield> {
    yields(false)
}

/// [`yield_now()`] to a task that this thread has spawned, or to a broadcast.
pub fn yield_local() -> Option<Yield> {
    yields(true)
}

fn yields(own: bool) -> Option<Yield> {
    let (core, index) = current()?;
    Some(if core.run_one(index, own) { Yield::Executed } else { Yield::Idle })
}

/// The index of this thread in its pool; `None` if it belongs to no pool.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    match place() {
        Some(place) => Some(place.index),
        None => outside::index(),
    }
}

impl ThreadPool {
    pub(crate) fn of(life: Arc<PoolLife>) -> Self {
        ThreadPool { life }
    }

    /// The pool that this thread belongs to. `None` elsewhere, and while that pool ends.
    pub(crate) fn current() -> Option<ThreadPool> {
        let (core, _) = current()?;
        core.life().map(ThreadPool::of)
    }

    /// Lends this pool to loops of windrow outside any pool. For the global one.
    fn run_loops_from_outside(&self) {
        if cfg!(feature = "iterators") {
            windrow::hooks::make_global(self.core().run_loops());
        }
    }

    pub(crate) fn core(&self) -> &Arc<PoolCore> {
        &self.life.core
    }

    /// Runs `op` on a thread of this pool, with the place of that thread, and whether it is another thread than this one.
    pub(crate) fn on_worker<R: Send>(&self, op: impl FnOnce(WorkerPlace, bool) -> R + Send) -> R {
        self.core().on_worker(op)
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

    /// Runs `op` on a thread of this pool and returns its result. A thread of another pool runs tasks of that pool while it waits.
    ///
    /// # Panics
    /// With the payload of `op`.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        self.on_worker(|_, _| op())
    }

    /// Runs `op` once on each thread of this pool, after the tasks that the thread has spawned; the results are in the order of their
    /// indices.
    ///
    /// # Panics
    /// With the payload of the first thread that panicked, by index. All have run by then.
    ///
    /// # Deadlocks
    /// A thread takes part between two tasks, or while it waits for tasks. A thread that waits for the second half of a join does neither.
    /// So a broadcast that is called inside such a half never ends.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        let threads = self.current_num_threads();
        let results: Vec<_> = (0..threads).map(|_| Mutex::new(None)).collect();
        PoolCore::lending(|lender| {
            self.core().push_broadcast(|index| {
                let (op, result) = (&op, &results[index]);
                QueuedTask::Lent(lender.lend(move || {
                    working(|| {
                        let context = BroadcastContext::new(index, threads);
                        let ended = catch_unwind(AssertUnwindSafe(|| op(context)));
                        *result.lock() = Some(ended);
                    });
                }))
            });
        });
        results.into_iter().map(received).collect()
    }

    /// Threads of this pool.
    pub fn current_num_threads(&self) -> usize {
        self.core().threads()
    }

    /// This thread's index, if it belongs to this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.core().place().map(|place| place.index)
    }

    /// True if this thread has spawned tasks that no thread has begun, if it belongs to this pool.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.current_thread_index().map(|index| self.core().has_local(index))
    }

    /// [`join`](crate::join()) in this pool.
    ///
    /// # Panics
    /// As [`join`](crate::join()).
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.on_worker(|here, _| join_here(here, a, b))
    }

    /// [`scope`](crate::scope()) in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.on_worker(|_, _| self.in_place_scope(op))
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.on_worker(|_, _| self.in_place_scope_fifo(op))
    }

    /// [`in_place_scope`](crate::in_place_scope()) whose tasks run in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        scope::run(self.core(), false, |tasks| op(&Scope(tasks)))
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()) whose tasks run in this pool.
    ///
    /// # Panics
    /// As [`scope`](crate::scope()).
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        scope::run(self.core(), true, |tasks| op(&ScopeFifo(tasks)))
    }

    /// [`spawn`](crate::spawn()) in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.core().push(self.owned(op));
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.core().push_fifo(self.owned(op), None);
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast()) in this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        let (op, threads) = (Arc::new(op), self.current_num_threads());
        self.core().push_broadcast(|index| {
            let op = op.clone();
            self.owned(move || op(BroadcastContext::new(index, threads)))
        });
    }

    /// A task that keeps the pool alive.
    fn owned(&self, f: impl FnOnce() + Send + 'static) -> QueuedTask {
        let life = self.life.clone();
        QueuedTask::Owned(Box::new(move || {
            working(|| {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
                    life.core.handlers.report(payload);
                }
            });
            drop(life);
        }))
    }

    /// [`yield_now`](crate::yield_now()), if this thread belongs to this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.core().place()?;
        yield_now()
    }

    /// [`yield_local`](crate::yield_local()), if this thread belongs to this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.core().place()?;
        yield_local()
    }
}

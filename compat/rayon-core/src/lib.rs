#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod builder;
mod error;
mod pool;
mod scope;

#[allow(deprecated)]
pub use builder::Configuration;
pub use builder::{ThreadBuilder, ThreadPoolBuilder};
pub use error::ThreadPoolBuildError;
pub use pool::ThreadPool;
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use windrow::workers::{BroadcastContext, FnContext, Yield, current_thread_index, yield_local, yield_now};

use windrow::workers;

use pool::{global, with_pool};

/// The maximum number of threads of a pool; a larger number is reduced to it.
pub fn max_num_threads() -> usize {
    workers::MOST_WORKERS
}

/// Threads of the current pool: the one that this thread belongs to, else the global one.
pub fn current_num_threads() -> usize {
    with_pool(workers::TaskPool::threads)
}

/// Whether this thread has spawned tasks that no thread has begun; `None` if it belongs to no pool.
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    workers::TaskPool::current()?.current_thread_has_pending_tasks()
}

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// # Panics
/// With the payload of `a` if `a` panics, else with that of `b`. Both have run by then.
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if current_thread_index().is_some() { workers::join(a, b) } else { global().join(a, b) }
}

/// As [`join()`]. Each closure is told whether it runs on another thread than the one that called.
///
/// # Panics
/// As [`join()`].
#[inline]
#[track_caller]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    if current_thread_index().is_some() { workers::join_context(a, b) } else { global().join_context(a, b) }
}

/// Runs `f` on a thread of the current pool, and returns at once. A thread runs the youngest task that it has spawned first.
///
/// A panic in `f` goes to the pool's panic handler; without one, it aborts the process.
pub fn spawn<F>(f: F)
where
    F: FnOnce() + Send + 'static,
{
    with_pool(|pool| pool.spawn(f));
}

/// As [`spawn()`], but a thread runs the tasks in the order in which it has spawned them.
pub fn spawn_fifo<F>(f: F)
where
    F: FnOnce() + Send + 'static,
{
    with_pool(|pool| pool.spawn_fifo(f));
}

/// Runs `op` once on each thread of the current pool; the results are in the order of their indices.
///
/// # Panics
/// With the payload of the first thread that panicked, by index. All have run by then.
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    with_pool(|pool| pool.broadcast(op))
}

/// Runs `op` once on each thread of the current pool, and returns at once.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    with_pool(|pool| pool.spawn_broadcast(op));
}

/// Makes the global pool.
///
/// # Errors
/// As [`ThreadPoolBuilder::build_global`].
#[deprecated(note = "use `ThreadPoolBuilder::build_global`")]
#[allow(deprecated)]
pub fn initialize(configuration: Configuration) -> Result<(), Box<dyn std::error::Error>> {
    configuration.into_builder().build_global().map_err(Box::from)
}

/// Closures and results are sent to other threads.
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// rayon_core::join(|| 1, || *shared);
/// ```
#[cfg(doctest)]
struct HalvesMustBeSend;

/// Tasks do not borrow what ends before the scope does.
/// ```compile_fail,E0373
/// rayon_core::scope(|s| {
///     let short = 1;
///     s.spawn(|_| assert_eq!(short, 1));
/// });
/// ```
#[cfg(doctest)]
struct TasksDoNotBorrowWhatIsInside;

/// A scope does not leave its closure.
/// ```compile_fail
/// let scope = rayon_core::scope(|s: &rayon_core::Scope<'static>| s);
/// ```
#[cfg(doctest)]
struct ScopesStayInside;

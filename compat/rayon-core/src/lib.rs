#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod broadcast;
mod builder;
mod error;
mod join;
mod outside;
mod pool;
mod queue;
mod scope;
mod workers;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
#[allow(deprecated)]
pub use builder::Configuration;
pub use builder::{ThreadBuilder, ThreadPoolBuilder};
pub use error::ThreadPoolBuildError;
pub use join::{FnContext, join, join_context};
pub use pool::{ThreadPool, Yield, current_thread_index, yield_local, yield_now};
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};

use pool::with_pool;

/// The maximum number of threads of a pool; a larger number is reduced to it.
pub fn max_num_threads() -> usize {
    // The host thread is a member of each pool's gate.
    windrow_sync::gate::MOST_MEMBERS - 1
}

/// Threads of the current pool: the one that this thread belongs to, else the global one.
pub fn current_num_threads() -> usize {
    with_pool(ThreadPool::current_num_threads)
}

/// True if this thread has spawned tasks that no thread has begun; `None` if it belongs to no pool.
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    ThreadPool::current()?.current_thread_has_pending_tasks()
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

/// [`spawn()`] for tasks that a thread runs in the order in which it has spawned them.
pub fn spawn_fifo<F>(f: F)
where
    F: FnOnce() + Send + 'static,
{
    with_pool(|pool| pool.spawn_fifo(f));
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

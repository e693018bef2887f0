//! Broadcasts: a closure that runs once on each thread of a pool.

use std::fmt;
use std::marker::PhantomData;

use crate::pool::with_pool;

/// The thread on which a broadcast closure runs.
///
/// ```
/// use rayon_core::BroadcastContext;
///
/// let part = |context: BroadcastContext<'_>| format!("{} of {}", context.index(), context.num_threads());
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
/// assert_eq!(pool.broadcast(part), ["0 of 2", "1 of 2"]);
/// ```
pub struct BroadcastContext<'a> {
    index: usize,
    num_threads: usize,
    /// It stays in its closure.
    stays_here: PhantomData<&'a mut dyn Fn()>,
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.num_threads)
            .finish_non_exhaustive()
    }
}

impl BroadcastContext<'_> {
    pub(crate) fn new(index: usize, num_threads: usize) -> Self {
        BroadcastContext { index, num_threads, stays_here: PhantomData }
    }

    /// The thread's index, in `0..num_threads`.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of threads of the pool: the closure runs once on each.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
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

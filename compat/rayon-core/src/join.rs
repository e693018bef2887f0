//! Joins: two closures, perhaps at the same time.

use std::fmt;
use std::marker::PhantomData;

use crate::pool::global;
use crate::workers::{self, WorkerPlace, current, is_crowded, place};

/// The way in which a half of a join came to its thread.
///
/// ```
/// use rayon_core::{FnContext, ThreadPoolBuilder, join_context};
///
/// // One thread: no half can move to another.
/// let half = |context: FnContext| context.migrated();
/// let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
/// assert_eq!(pool.install(|| join_context(half, half)), (false, false));
/// ```
pub struct FnContext {
    migrated: bool,
    /// It stays on its thread.
    stays_here: PhantomData<*mut ()>,
}

impl fmt::Debug for FnContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnContext").field("migrated", &self.migrated).finish_non_exhaustive()
    }
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        FnContext { migrated, stays_here: PhantomData }
    }

    /// True if the half runs on another thread than the one that called [`join_context()`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs `a` and `b`, perhaps at the same time, and returns both results.
///
/// `b` is offered before `a` begins, unless this thread has older halves for all idle threads. In that case `b` is offered while `a` makes
/// further joins, after the older halves. So `a` may wait for `b` if a thread for `b` was idle when the join began.
///
/// # Panics
/// With the payload of `a` if `a` panics, else with that of `b`. Both have run by then.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match place() {
        Some(here) => join_here(here, a, b),
        None => global().join(a, b),
    }
}

/// [`join()`] with closures that learn whether they run on another thread than the caller's.
///
/// # Panics
/// As [`join()`].
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    match place() {
        Some(here) => join_halves(here, false, a, b),
        None => global().on_worker(move |here, handed_over| join_halves(here, handed_over, a, b)),
    }
}

/// [`join()`] on a worker.
#[inline]
pub(crate) fn join_here<A, B, RA, RB>(here: WorkerPlace, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let b = move || if place() == Some(here) { b() } else { workers::working_on_half(b) };
    if windrow_sync::join::would_queue() && is_crowded(here.index) {
        return join_apart(here.index, a, b);
    }
    let a = || {
        windrow_sync::join::offer_at_once();
        a()
    };
    windrow_sync::join::join(a, b, |a, b| join_apart(here.index, a, b))
}

/// [`join_context()`] on a worker. `handed_over`: both halves have come to this thread from another one.
#[inline]
fn join_halves<A, B, RA, RB>(here: WorkerPlace, handed_over: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let a = move || a(FnContext::new(handed_over));
    join_here(here, a, move || b(FnContext::new(handed_over || place() != Some(here))))
}

/// A join with a task as its second half. For a worker with more idle workers than older halves, and for a worker outside the tree (a
/// thread of the program, or inside a `windrow::Pool::install`).
#[cold]
#[inline(never)]
fn join_apart<A, B, RA, RB>(index: usize, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match current() {
        Some((core, _)) => core.join_tasks(index, a, b),
        // The thread ends, and its locals are gone.
        None => {
            let ra = a();
            (ra, b())
        }
    }
}

//! Pools whose workers run whole tasks: closures are handed over to them, in a given order, with an index for each worker.
//!
//! A parallel call on a [`Pool`](crate::Pool) runs on its caller, and workers help with parts of it. A [`TaskPool`] is for programs that
//! need more to be true of the threads:
//!
//! * *Where code runs.* [`install`](TaskPool::install) and [`spawn`](TaskPool::spawn) run their closures on workers: with the stack, the
//!   name and the thread-locals of the pool's threads, and no more of them at once than the pool has workers.
//! * *Which worker.* Each worker has an [index](current_thread_index), and [`broadcast`](TaskPool::broadcast) runs a closure once on each.
//! * *In which order.* A worker runs the youngest task that it has spawned first; [`spawn_fifo`](TaskPool::spawn_fifo) and
//!   [`scope_fifo`](TaskPool::scope_fifo) keep the order of spawning. Idle workers take the oldest tasks of others.
//! * *That halves begin.* A [`join`](TaskPool::join) offers its second half at once if a worker is idle. Then its halves may wait for each
//!   other. In all other respects it is windrow's [`join`](crate::join()).
//!
//! The cost: a worker that waits for tasks may run any other task of its pool on the same stack. So a lock that is held over
//! [`install`](TaskPool::install), a scope or a broadcast can be requested again on that stack. A call from outside wakes a worker and
//! waits for it, however little work the call has. Parallel iterators of this crate use [`Pool`](crate::Pool)s, also on a worker.
//!
//! A forked child has none of the pool's threads: calls from outside the pool panic there. A worker that has forked runs its own tasks, joins
//! and scopes by itself, and ends when it leaves its task.
//!
//! The crate `rayon-core` in `compat/` of the repository offers these pools under rayon's names.
//!
//! ```
//! use windrow::workers::TaskPool;
//!
//! fn sum(of: &[u64]) -> u64 {
//!     if of.len() <= 8 {
//!         return of.iter().sum();
//!     }
//!     let (left, right) = of.split_at(of.len() / 2);
//!     let (left, right) = windrow::workers::join(|| sum(left), || sum(right));
//!     left + right
//! }
//!
//! let pool = TaskPool::new(2)?;
//! let numbers: Vec<u64> = (1..=1000).collect();
//! assert_eq!(pool.install(|| sum(&numbers)), 500_500);
//! # Ok::<(), windrow::workers::TaskPoolError>(())
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex};

mod builder;
mod core;
mod scope;

pub use builder::{MOST_WORKERS, TaskPoolBuilder, TaskPoolError, WorkerThread};
pub use scope::TaskScope;

use core::{PoolCore, PoolLife, QueuedTask, WorkerPlace, current, place, received};

/// A pool whose workers run whole tasks. See the [module page](self).
///
/// It is a handle: clones are the same pool. When the last handle is dropped, the pool's threads run the spawned tasks, and end. A drop
/// waits for nothing.
///
/// ```
/// use windrow::workers::TaskPool;
///
/// let pool = TaskPool::builder().threads(2).thread_name(|index| format!("codec-{index}")).build()?;
/// let name = pool.install(|| std::thread::current().name().map(str::to_owned)).unwrap();
/// assert!(name == "codec-0" || name == "codec-1");
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
#[derive(Clone)]
pub struct TaskPool {
    life: Arc<PoolLife>,
}

impl fmt::Debug for TaskPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

/// In which order a worker runs the tasks that it has spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskOrder {
    Lifo,
    Fifo,
}

impl TaskPool {
    /// A pool of `threads` workers, at most [`MOST_WORKERS`]; 0 means as many as the process may use CPUs.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize) -> Result<TaskPool, TaskPoolError> {
        TaskPool::builder().threads(threads).build()
    }

    /// Settings for a pool, to be built.
    pub fn builder() -> TaskPoolBuilder {
        TaskPoolBuilder::new()
    }

    /// The pool of which this thread is a worker. `None` elsewhere, and while that pool ends.
    ///
    /// ```
    /// use windrow::workers::TaskPool;
    ///
    /// let pool = TaskPool::new(2)?;
    /// assert_eq!(pool.install(|| TaskPool::current().map(|pool| pool.threads())), Some(2));
    /// assert!(TaskPool::current().is_none());
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    pub fn current() -> Option<TaskPool> {
        let (core, _) = current()?;
        Some(TaskPool { life: core.life()? })
    }

    fn core(&self) -> &Arc<PoolCore> {
        &self.life.core
    }

    /// Workers of this pool.
    pub fn threads(&self) -> usize {
        self.core().threads()
    }

    /// This thread's index; `None` if it is no worker of this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.core().index()
    }

    /// Whether this thread, a worker of this pool, has spawned tasks that no worker has begun. `None` on other threads.
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        let core = self.core();
        core.index().map(|index| core.has_local(index))
    }

    /// Runs `op` on a worker and returns its result. On a worker of this pool it runs in place.
    ///
    /// A worker of another pool runs tasks of that pool while it waits.
    ///
    /// ```
    /// use windrow::workers::TaskPool;
    ///
    /// let pool = TaskPool::new(1)?;
    /// let caller = std::thread::current().id();
    /// assert_ne!(pool.install(|| std::thread::current().id()), caller);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// With the payload of `op`.
    #[track_caller]
    pub fn install<R: Send>(&self, op: impl FnOnce() -> R + Send) -> R {
        self.core().on_worker(|_| op())
    }

    /// Runs `a` and `b`, perhaps at the same time, on workers of this pool: see [`join`].
    ///
    /// ```
    /// use windrow::workers::TaskPool;
    ///
    /// let pool = TaskPool::new(2)?;
    /// assert_eq!(pool.join(|| 6 * 7, || "fish".len()), (42, 4));
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// With the payload of `a` if `a` panics, else with that of `b`. Both have run by then.
    #[track_caller]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let place = Location::caller();
        self.joining(|_| join_at(place, a, b))
    }

    /// As [`join`](TaskPool::join). Each half is told whether it runs on another thread than the one that called.
    ///
    /// # Panics
    /// As [`join`](TaskPool::join).
    #[track_caller]
    pub fn join_context<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(FnContext) -> RA + Send,
        B: FnOnce(FnContext) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let place = Location::caller();
        self.joining(|handed_over| join_halves(place, handed_over, a, b))
    }

    /// Runs a join on a worker.
    fn joining<R: Send>(&self, join: impl FnOnce(bool) -> R + Send) -> R {
        if self.core().index().is_some() {
            return join(false);
        }
        self.core().on_worker(|handed_over| join(handed_over))
    }

    /// Runs `f` on a worker with a scope, and waits until the tasks of the scope have ended. A worker runs the youngest task that it has
    /// spawned first.
    ///
    /// ```
    /// let pool = windrow::workers::TaskPool::new(2)?;
    /// let mut halves = [1, 2, 3, 4];
    /// let (left, right) = halves.split_at_mut(2);
    /// pool.scope(|s| {
    ///     s.spawn(|_| left.reverse());
    ///     s.spawn(|_| right.reverse());
    /// });
    /// assert_eq!(halves, [2, 1, 4, 3]);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// With the payload of `f`, else with that of the first task that panicked. All tasks have ended by then.
    #[track_caller]
    pub fn scope<'scope, R: Send>(&self, f: impl FnOnce(&TaskScope<'scope>) -> R + Send) -> R {
        self.core().on_worker(|_| scope::run(self.core(), TaskOrder::Lifo, f))
    }

    /// As [`scope`](TaskPool::scope), but a worker runs the tasks in the order in which it has spawned them.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use windrow::workers::TaskPool;
    ///
    /// let order = Mutex::new(Vec::new());
    /// TaskPool::new(1)?.scope_fifo(|scope| {
    ///     for number in 0..3 {
    ///         let order = &order;
    ///         scope.spawn(move |_| order.lock().unwrap().push(number));
    ///     }
    /// });
    /// assert_eq!(order.into_inner().unwrap(), [0, 1, 2]);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// As [`scope`](TaskPool::scope).
    #[track_caller]
    pub fn scope_fifo<'scope, R: Send>(&self, f: impl FnOnce(&TaskScope<'scope>) -> R + Send) -> R {
        self.core().on_worker(|_| scope::run(self.core(), TaskOrder::Fifo, f))
    }

    /// As [`scope`](TaskPool::scope), but `f` runs on this thread, and need not be `Send`.
    ///
    /// ```
    /// use windrow::workers::{TaskPool, current_thread_index};
    ///
    /// let pool = TaskPool::new(2)?;
    /// let mut worker = None;
    /// pool.in_place_scope(|scope| {
    ///     // This closure stays on its thread; the task runs on a worker.
    ///     assert_eq!(current_thread_index(), None);
    ///     scope.spawn(|_| worker = current_thread_index());
    /// });
    /// assert!(worker.is_some());
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// As [`scope`](TaskPool::scope).
    #[track_caller]
    pub fn in_place_scope<'scope, R>(&self, f: impl FnOnce(&TaskScope<'scope>) -> R) -> R {
        scope::run(self.core(), TaskOrder::Lifo, f)
    }

    /// As [`scope_fifo`](TaskPool::scope_fifo), but `f` runs on this thread, and need not be `Send`.
    ///
    /// # Panics
    /// As [`scope`](TaskPool::scope).
    #[track_caller]
    pub fn in_place_scope_fifo<'scope, R>(&self, f: impl FnOnce(&TaskScope<'scope>) -> R) -> R {
        scope::run(self.core(), TaskOrder::Fifo, f)
    }

    /// Runs `f` on a worker, and returns at once. A worker runs the youngest task that it has spawned first.
    ///
    /// A panic in `f` goes to the pool's [panic handler](TaskPoolBuilder::panic_handler).
    ///
    /// ```
    /// use windrow::workers::{TaskPool, current_thread_index};
    ///
    /// let pool = TaskPool::new(1)?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// pool.spawn(move || sender.send(current_thread_index()).unwrap());
    /// assert_eq!(receiver.recv(), Ok(Some(0)));
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    #[track_caller]
    pub fn spawn(&self, f: impl FnOnce() + Send + 'static) {
        self.core().push(self.owned(f));
    }

    /// As [`spawn`](TaskPool::spawn), but a worker runs the tasks in the order in which it has spawned them.
    ///
    /// ```
    /// use windrow::workers::TaskPool;
    ///
    /// let pool = TaskPool::new(1)?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// pool.install(|| {
    ///     for number in 0..3 {
    ///         let sender = sender.clone();
    ///         TaskPool::current().unwrap().spawn_fifo(move || sender.send(number).unwrap());
    ///     }
    /// });
    /// drop(sender);
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    #[track_caller]
    pub fn spawn_fifo(&self, f: impl FnOnce() + Send + 'static) {
        self.core().push_fifo(self.owned(f), None);
    }

    /// A task that keeps the pool alive.
    fn owned(&self, f: impl FnOnce() + Send + 'static) -> QueuedTask {
        let life = self.life.clone();
        QueuedTask::Owned(Box::new(move || {
            core::working(|| {
                let ended = catch_unwind(AssertUnwindSafe(f));
                if let Err(payload) = ended {
                    life.core.handlers.report(payload);
                }
            });
            drop(life);
        }))
    }

    /// Runs `op` once on each worker, after the tasks that the worker has spawned. Returns the results in the order of the workers' indices.
    ///
    /// ```
    /// let pool = windrow::workers::TaskPool::new(3)?;
    /// assert_eq!(pool.broadcast(|context| context.index() * 10), [0, 10, 20]);
    /// # Ok::<(), windrow::workers::TaskPoolError>(())
    /// ```
    ///
    /// # Panics
    /// With the payload of the first worker that panicked, by index. All have run by then.
    ///
    /// # Deadlocks
    /// A worker takes part between two tasks, or while it waits for tasks. A worker that waits for the second half of a
    /// [`join`] does neither. So a broadcast that is called inside of such a half never ends.
    #[track_caller]
    pub fn broadcast<R: Send>(&self, op: impl Fn(BroadcastContext<'_>) -> R + Sync) -> Vec<R> {
        let threads = self.threads();
        let results: Vec<_> = (0..threads).map(|_| Mutex::new(None)).collect();
        PoolCore::lending(|lender| {
            let tasks: Vec<QueuedTask> = results
                .iter()
                .enumerate()
                .map(|(index, result)| {
                    let op = &op;
                    QueuedTask::Lent(lender.lend(move || {
                        core::working(|| {
                            let context = BroadcastContext::new(index, threads);
                            let ended = catch_unwind(AssertUnwindSafe(|| op(context)));
                            *windrow_sync::fork::lock(result) = Some(ended);
                        });
                    }))
                })
                .collect();
            self.core().push_broadcast(tasks.into_iter());
        });
        results.into_iter().map(received).collect()
    }

    /// Runs `op` once on each worker, as [`broadcast`](TaskPool::broadcast), and returns at once. Panics go to the pool's
    /// [panic handler](TaskPoolBuilder::panic_handler).
    #[track_caller]
    pub fn spawn_broadcast(&self, op: impl Fn(BroadcastContext<'_>) + Send + Sync + 'static) {
        let (op, threads) = (Arc::new(op), self.threads());
        let task = |index| {
            let op = op.clone();
            self.owned(move || op(BroadcastContext::new(index, threads)))
        };
        self.core().push_broadcast((0..threads).map(task));
    }

    /// [`yield_now`]. `None`, without effect, if this thread is no worker of this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.core().index()?;
        yield_now()
    }

    /// [`yield_local`]. `None`, without effect, if this thread is no worker of this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.core().index()?;
        yield_local()
    }
}

/// Which worker a broadcast closure runs on.
///
/// ```
/// use windrow::workers::{BroadcastContext, TaskPool};
///
/// let part = |context: BroadcastContext<'_>| format!("{} of {}", context.index(), context.num_threads());
/// assert_eq!(TaskPool::new(2)?.broadcast(part), ["0 of 2", "1 of 2"]);
/// # Ok::<(), windrow::workers::TaskPoolError>(())
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
    fn new(index: usize, num_threads: usize) -> Self {
        BroadcastContext { index, num_threads, stays_here: PhantomData }
    }

    /// The worker's index, in `0..num_threads`.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The number of workers of the pool: the closure runs once on each.
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

/// How a half of a join came to its thread.
///
/// ```
/// use windrow::workers::{FnContext, TaskPool, join_context};
///
/// // One worker: no half can move to another.
/// let half = |context: FnContext| context.migrated();
/// assert_eq!(TaskPool::new(1)?.install(|| join_context(half, half)), (false, false));
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// It stays on its thread.
    stays_here: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        FnContext { migrated, stays_here: PhantomData }
    }

    /// Whether the half runs on another thread than the one that called [`join_context`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// The result of [`yield_now`] or [`yield_local`].
///
/// ```
/// use windrow::workers::{TaskPool, Yield, yield_now};
///
/// assert_eq!(TaskPool::new(1)?.install(yield_now), Some(Yield::Idle));
/// // This thread is no worker.
/// assert_eq!(yield_now(), None);
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// The worker has run a task.
    Executed,
    /// No task was queued.
    Idle,
}

/// The index of this thread among the workers of its task pool; `None` if it is no worker.
///
/// ```
/// use windrow::workers::{TaskPool, current_thread_index};
///
/// let pool = TaskPool::new(2)?;
/// assert!(pool.install(current_thread_index).unwrap() < 2);
/// assert_eq!(current_thread_index(), None);
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
#[inline]
pub fn current_thread_index() -> Option<usize> {
    place().map(|place| place.index)
}

/// Runs one queued task of this worker's pool. `None` if this thread is no worker.
///
/// ```
/// use windrow::workers::{TaskPool, Yield, yield_now};
///
/// let pool = TaskPool::new(1)?;
/// let (first, second) = pool.install(|| {
///     TaskPool::current().unwrap().spawn(|| ());
///     (yield_now(), yield_now())
/// });
/// assert_eq!((first, second), (Some(Yield::Executed), Some(Yield::Idle)));
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
pub fn yield_now() -> Option<Yield> {
    yields(false)
}

/// As [`yield_now`], but only a task that this worker has spawned, or a broadcast.
pub fn yield_local() -> Option<Yield> {
    yields(true)
}

fn yields(own: bool) -> Option<Yield> {
    let (core, index) = current()?;
    Some(if core.run_one(index, own) { Yield::Executed } else { Yield::Idle })
}

/// Runs `a` on this thread, and `b` after `a` or meanwhile on another worker of the pool. On a thread that is no worker of a task pool it is
/// [`windrow::join`](crate::join()).
///
/// `b` is offered before `a` begins, unless this worker has older halves for all idle workers. In that case `b` is offered while `a` makes
/// further joins, after the older halves. So `a` may wait for `b` if a worker for `b` was idle when the join began.
///
/// ```
/// use windrow::workers::{TaskPool, join};
///
/// let pool = TaskPool::new(2)?;
/// assert_eq!(pool.install(|| join(|| 6 * 7, || "fish".len())), (42, 4));
/// # Ok::<(), windrow::workers::TaskPoolError>(())
/// ```
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
    join_at(Location::caller(), a, b)
}

/// [`join`], which was called at `called_at`.
#[inline]
fn join_at<A, B, RA, RB>(called_at: &'static Location<'static>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let Some(here) = place() else { return crate::task::join::join_at(called_at, a, b) };
    join_here(here, a, b)
}

/// [`join`] on a worker.
#[inline]
fn join_here<A, B, RA, RB>(here: WorkerPlace, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let b = move || if place() == Some(here) { b() } else { core::working(b) };
    if windrow_sync::join::would_queue() && core::is_crowded(here.index) {
        return join_apart(here.index, a, b);
    }
    windrow_sync::join::join_at_once(a, b, |a, b| join_apart(here.index, a, b))
}

/// [`join`], with halves that are told whether they run on another thread than this one.
///
/// # Panics
/// As [`join`].
#[inline]
#[track_caller]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_halves(Location::caller(), false, a, b)
}

/// `handed_over`: both halves have come to this thread from another one.
#[inline]
fn join_halves<A, B, RA, RB>(called_at: &'static Location<'static>, handed_over: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let here = place();
    join_at(
        called_at,
        move || a(FnContext::new(handed_over)),
        move || b(FnContext::new(handed_over || place() != here || here.is_none())),
    )
}

/// A join with a task as its second half. For a worker with more idle workers than older halves, and for a worker outside of the tree (a
/// thread of the program, or inside of a [`Pool::install`](crate::Pool::install)).
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
        None => crate::join(a, b),
    }
}

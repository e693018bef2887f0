//! Pools: threads behind a gate.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use windrow_sync::Mutex;
use windrow_sync::gate::Inside;
use windrow_sync::unwind::Finally;

use crate::runtime::ablation::Mechanism;
use crate::runtime::hooks::InCall;
use crate::runtime::spawn_threads;
use crate::runtime::state::PoolState;

mod builder;
mod global;
mod settings;

pub use builder::PoolBuilder;
pub(crate) use global::adopt;
use global::{Global, global};
pub use global::{ShutdownError, shutdown};
pub use settings::default_threads;
use settings::{Handlers, Settings};
pub use settings::{PoolBuildError, PoolBuildErrorKind};

/// Worker threads that take part in the parallel calls made under [`install`](Pool::install).
///
/// A program needs none: calls outside `install` use a global pool, built at the first call. Its width is what the environment
/// variable `WINDROW_THREADS` says ([`PoolBuilder::threads`]); without it, a
/// thread for every CPU that the process may use (affinity mask and cgroup quota count; a quota is rounded down). The caller takes part in
/// its own calls, so a pool of `n` threads starts `n - 1`. Names, stacks and handlers are settings of a [`PoolBuilder`].
///
/// Dropping a pool waits for the region in progress and joins the worker threads. A pool dropped *inside* a parallel call that it runs
/// (by the last `Arc` in a closure, say) waits for nothing: its threads could be waiting for the dropping thread. They end by
/// themselves after that call.
///
/// # Fork
/// A forked child builds a separate global pool. A pool that it got from its parent has no threads in the child, and runs calls on their
/// caller. Closures spawned on it run in the child's global pool.
///
/// A child that is forked *inside* a closure of a parallel call lacks the other members. It may make calls, exit, or leave the closure; it
/// never waits for threads of the parent. On the calling thread the call ends as in the parent if no other member was inside at the fork;
/// otherwise it panics ("the other threads of the call stayed in the parent"), and calls that return errors return one. A worker that
/// leaves the closure ends, and a child ends with its last thread. New threads may get the memory of the parent's stacks, so a child on a worker must not
/// use what the call borrows, nor leave the closure, once it has started threads.
///
/// ```
/// use windrow::prelude::*;
///
/// let pool = windrow::Pool::new(2);
/// let squares: Vec<u64> = pool.install(|| (0..1000u64).into_par_iter().map(|x| x * x).collect());
/// assert_eq!(squares[30], 900);
/// ```
#[derive(Debug)]
pub struct Pool {
    pub(crate) state: Arc<PoolState>,
    /// Empty once a shutdown has taken them to join them.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included, at most 1023. 0 means as many as the global pool would have: what
    /// `WINDROW_THREADS` says ([`PoolBuilder::threads`]), else as many as the process may use CPUs.
    ///
    /// If the system refuses a thread, the pool has fewer: [`threads`](Pool::threads) says how many.
    ///
    /// ```
    /// use windrow::Pool;
    ///
    /// // The caller and two threads.
    /// assert_eq!(Pool::new(3).threads(), 3);
    /// ```
    pub fn new(threads: usize) -> Pool {
        Pool::build(Settings::usual(threads))
    }

    /// Settings for a pool, to be built.
    ///
    /// ```
    /// let pool = windrow::Pool::builder().threads(2).stack_size(16 << 20).build()?;
    /// assert_eq!(pool.threads(), 2);
    /// # Ok::<(), windrow::PoolBuildError>(())
    /// ```
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    /// A pool that starts no thread.
    pub(super) fn without_threads(state: Arc<PoolState>) -> Pool {
        Pool { state, threads: Mutex::default() }
    }

    fn build(settings: Settings) -> Pool {
        let mut wanted = settings.threads();
        loop {
            let pool = Pool::start(&settings, wanted);
            let started = pool.threads.lock().len() + 1;
            if started == wanted {
                return pool;
            }
            // Build the pool again, for the threads that the system starts. A gate counts workers that never came as awake, and wakes no
            // others instead.
            wanted = started;
        }
    }

    /// A pool of `wanted` threads. If the system refuses a thread, the pool has fewer, and the caller drops it.
    fn start(settings: &Settings, wanted: usize) -> Pool {
        let state = Arc::new(PoolState::new(wanted, settings.stack_size, settings.off));
        let mut threads = Vec::with_capacity(wanted - 1);
        for (member, name) in (1..wanted).zip(&settings.names) {
            let (shared, handlers) = (state.clone(), settings.handlers.clone());
            match state.thread(name.clone()).spawn(move || work(shared, member, &handlers)) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
        Pool { state, threads: Mutex::new(threads) }
    }

    /// Threads that take part in a call, the caller included.
    pub fn threads(&self) -> usize {
        self.state.members
    }

    /// Runs `f` on this thread; parallel calls in it use this pool.
    ///
    /// Unlike rayon's, `f` itself stays on the calling thread, so it may hold what is not `Send`.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use windrow::prelude::*;
    ///
    /// let factor = Rc::new(2);
    /// let doubled = windrow::Pool::new(2).install(|| {
    ///     let factor = *factor; // an `Rc` stays on its thread
    ///     (0..10).into_par_iter().map(|n| factor * n).sum::<i32>()
    /// });
    /// assert_eq!(doubled, 90);
    /// ```
    pub fn install<R>(&self, f: impl FnOnce() -> R) -> R {
        let _here = install(self.state.clone());
        // Joins in `f` are no part of a recursion in another pool.
        windrow_sync::join::apart(f)
    }
}

// A panic in a region leaves the pool as it was.
impl std::panic::UnwindSafe for Pool {}
impl std::panic::RefUnwindSafe for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        end(&self.state, std::mem::take(self.threads.get_mut()));
    }
}

/// The life of a worker thread.
fn work(state: Arc<PoolState>, member: usize, handlers: &Handlers) {
    // Until the thread ends: handlers and destructors of thread-locals included.
    std::mem::forget(Inside::of(&state.gate));
    let _here = install(state.clone());
    if !state.off.contains(Mechanism::Placement) {
        state.placement.register(member);
    }
    if handlers.start(member) {
        state.placement.started(member);
    }
    state.gate.serve(member, |wait| state.spin(member, wait));
    handlers.exit(member);
}

/// Ends these workers. Waits for them, unless they are not threads of this process or could be waiting for this thread.
fn end(state: &Arc<PoolState>, threads: Vec<JoinHandle<()>>) {
    state.gate.stop();
    spawn_threads::close(state);
    let may_wait_for_this = state.gate.is_inside();
    for (at, thread) in threads.into_iter().enumerate() {
        if !state.is_of_this_process() {
            // A forked child has this handle but not the thread.
            std::mem::forget(thread);
        } else if may_wait_for_this || (state.is_of_a_child() && !state.placement.is_registered(at + 1)) {
            // In a forked child this thread may never begin: the standard library takes a lock whenever a thread starts, and the child may
            // have inherited that lock locked. A thread that does begin finds the gate stopped.
            drop(thread);
        } else {
            // A worker catches panics of user code. If the worker itself panics, there is no caller to report it to.
            let _ = thread.join();
        }
    }
}

thread_local! {
    /// The pool of the innermost `install`, or the pool that this thread works for.
    static CURRENT: RefCell<Option<Rc<Here>>> = const { RefCell::new(None) };
}

/// A thread's handle on a state. A lookup clones the `Rc` around it: a clone of the `Arc` would write to memory that other threads use.
pub(crate) struct Here {
    state: Arc<PoolState>,
}

#[inline]
fn installed() -> Option<Rc<Here>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Makes a pool the current one of this thread, until the result is dropped.
pub(crate) fn install(state: Arc<PoolState>) -> Finally<impl FnMut()> {
    let mut before = CURRENT.try_with(|current| current.replace(Some(Rc::new(Here { state })))).ok().flatten();
    // While the thread ends, its locals may be gone already. Then nothing is put back.
    Finally(move || _ = CURRENT.try_with(|current| current.replace(before.take())))
}

/// The state that parallel calls of this thread use, for as long as a call lasts.
pub(crate) enum Current {
    Installed(Rc<Here>),
    Global(&'static Global, InCall),
}

impl Current {
    #[inline]
    pub(crate) fn get() -> Current {
        installed().map_or_else(|| Current::Global(global(), InCall::begin()), Current::Installed)
    }

    #[inline]
    pub(crate) fn state(&self) -> &Arc<PoolState> {
        match self {
            Current::Installed(here) => &here.state,
            Current::Global(global, _) => &global.state,
        }
    }
}

impl Deref for Current {
    type Target = PoolState;

    #[inline]
    fn deref(&self) -> &PoolState {
        self.state()
    }
}

/// Calls `f` with the state that parallel calls of this thread use.
pub(crate) fn with_current<R>(f: impl FnOnce(&PoolState) -> R) -> R {
    f(&Current::get())
}

/// The state of the innermost `install` of this thread, or of the pool that it works for, to keep.
pub(crate) fn installed_state() -> Option<Arc<PoolState>> {
    installed().map(|here| here.state.clone())
}

/// The state of the global pool, to keep.
pub(crate) fn global_state() -> Arc<PoolState> {
    global().state.clone()
}

/// Threads that take part in a parallel call made here, the caller included.
///
/// ```
/// assert_eq!(windrow::Pool::new(3).install(windrow::current_num_threads), 3);
/// ```
pub fn current_num_threads() -> usize {
    with_current(|state| state.members)
}

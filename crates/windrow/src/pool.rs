//! Pools: threads behind a gate.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use windrow_sync::fork::PerProcess;
use windrow_sync::gate::{Counts, MOST_MEMBERS};
use windrow_sync::machine;

use crate::crew::Crew;

/// Worker threads that take part in the parallel calls made under [`install`](Pool::install).
///
/// A program needs none: calls outside of `install` use a global pool, built at the first call, with a
/// thread for every CPU that the process may use (affinity mask and cgroup quota count). The caller takes part in
/// its own calls, so a pool of `n` threads starts `n - 1`.
///
/// Dropping a pool waits for the region in progress and joins the threads.
///
/// A forked child builds its own global pool; a pool it got from its parent has no threads there, and runs calls on their
/// caller. The one thing not to do is to fork *inside* a closure of a parallel call: the members it waits for are not there.
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
    pub(crate) crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    /// Where the threads live: a forked child must not wait for them.
    generation: u32,
}

impl Pool {
    /// A pool of `threads` threads, the caller included; 0 means as many as the process may use CPUs.
    ///
    /// If the system refuses a thread, the pool has fewer: [`threads`](Pool::threads) says how many. At most 1023.
    pub fn new(threads: usize) -> Pool {
        let mut wanted = if threads == 0 { machine::cpus() } else { threads }.min(MOST_MEMBERS);
        loop {
            let pool = Pool::start(wanted);
            if pool.threads() == wanted {
                return pool;
            }
            // Built anew for the threads there are: a gate takes workers that never came for workers awake, and wakes
            // nobody in their stead.
            wanted = pool.threads();
        }
    }

    /// A pool of `wanted` threads, or fewer if the system refuses one.
    fn start(wanted: usize) -> Pool {
        let crew = Arc::new(Crew::new(wanted));
        let mut workers = Vec::with_capacity(wanted - 1);
        for member in 1..wanted {
            let shared = crew.clone();
            let spawned = std::thread::Builder::new().name(format!("windrow-{member}")).spawn(move || {
                let _here = Installed::new(shared.clone());
                shared.places.settle(member);
                shared.gate.serve(member, |wait| shared.look(member, wait));
            });
            match spawned {
                Ok(thread) => workers.push(thread),
                Err(_) => break,
            }
        }
        Pool { crew, threads: workers, generation: machine::fork_generation() }
    }

    /// Threads that take part in a call, the caller included.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// What has happened in this pool so far: regions opened, workers that joined, system calls to wake and to sleep.
    pub fn counts(&self) -> Counts {
        self.crew.gate.counts()
    }

    /// Runs `f` on this thread; parallel calls in it use this pool.
    ///
    /// Unlike rayon's, `f` itself stays on the calling thread, so it may hold what is not `Send`.
    pub fn install<R>(&self, f: impl FnOnce() -> R) -> R {
        let _here = Installed::new(self.crew.clone());
        // Joins in it are no part of a recursion in another pool.
        windrow_sync::join::apart(f)
    }
}

// A panic in a region leaves the pool as it was.
impl std::panic::UnwindSafe for Pool {}
impl std::panic::RefUnwindSafe for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        crate::offload::close(&self.crew);
        self.crew.gate.stop();
        let here = self.generation == machine::fork_generation();
        let in_child = self.generation > 0;
        for (at, thread) in self.threads.drain(..).enumerate() {
            if !here {
                // A forked child has this handle but not the thread.
                std::mem::forget(thread);
            } else if in_child && !self.crew.places.has_settled(at + 1) {
                // It may never begin: the standard library takes a lock whenever a thread starts, and a forked child may have
                // inherited that locked. If it does begin it finds the gate stopped.
                drop(thread);
            } else {
                // A worker catches what user code throws; should it end by a panic all the same, there is nobody to tell.
                let _ = thread.join();
            }
        }
    }
}

thread_local! {
    /// The pool of the innermost `install`, or the one this thread works for.
    static CURRENT: RefCell<Option<Rc<Here>>> = const { RefCell::new(None) };
}

/// This thread's own handle on a crew: looking it up must not write to memory that other threads use, as cloning the `Arc`
/// would.
struct Here {
    crew: Arc<Crew>,
}

/// Puts a pool in place for this thread until it is dropped.
pub(crate) struct Installed {
    before: Option<Rc<Here>>,
}

impl Installed {
    pub(crate) fn new(crew: Arc<Crew>) -> Self {
        Self { before: CURRENT.try_with(|current| current.replace(Some(Rc::new(Here { crew })))).ok().flatten() }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // While a thread ends its locals may be gone already; then nothing is to be put back.
        let _ = CURRENT.try_with(|current| current.replace(self.before.take()));
    }
}

/// The global pool of this process. A forked child builds its own at its first call.
fn global() -> &'static Pool {
    static GLOBAL: PerProcess<Pool> = PerProcess::new();
    GLOBAL.get(|| Pool::new(0))
}

/// Calls `f` with the crew that parallel calls of this thread use.
pub(crate) fn with_current<R>(f: impl FnOnce(&Crew) -> R) -> R {
    match CURRENT.try_with(|current| current.borrow().clone()).ok().flatten() {
        Some(here) => f(&here.crew),
        None => f(&global().crew),
    }
}

/// The crew of the innermost `install` of this thread, or of the pool it works for, to keep.
pub(crate) fn installed_crew() -> Option<Arc<Crew>> {
    CURRENT.try_with(|current| current.borrow().as_ref().map(|here| here.crew.clone())).ok().flatten()
}

/// The crew that parallel calls of this thread use, to keep.
pub(crate) fn current_crew() -> Arc<Crew> {
    match CURRENT.try_with(|current| current.borrow().clone()).ok().flatten() {
        Some(here) => here.crew.clone(),
        None => global().crew.clone(),
    }
}

/// Threads that take part in a parallel call made here, the caller included.
///
/// ```
/// assert_eq!(windrow::Pool::new(3).install(windrow::current_num_threads), 3);
/// ```
pub fn current_num_threads() -> usize {
    with_current(|crew| crew.members)
}

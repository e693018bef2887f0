//! Pools: threads behind a gate.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use windrow_plan::grain::{Costs, Crew as CrewState};
use windrow_plan::looking::{self, Room};
use windrow_plan::{Decision, Nanos};
use windrow_sync::Spin;
use windrow_sync::fork::PerProcess;
use windrow_sync::gate::{Gate, MOST_MEMBERS};
use windrow_sync::machine;

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
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    /// Where the threads live: a forked child must not wait for them.
    generation: u32,
}

/// What callers and workers share.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) gate: Gate,
    /// Members of a full region, the caller included.
    pub(crate) members: usize,
    pub(crate) costs: Costs,
    pub(crate) ticks_per_nano: f64,
    /// How long a caller looks at members who have not left yet.
    pub(crate) settle: Spin,
    looking: Decision<Room, Nanos>,
}

impl Crew {
    fn new(threads: usize) -> Self {
        let room = Room { threads, cpus: machine::cpus(), quota: machine::cpu_quota() };
        // Alone, nothing is measured. (And there are targets with neither threads nor a clock.)
        let ticks_per_nano = if threads > 1 { machine::ticks_per_micro() / 1000.0 } else { 1.0 };
        let looking = looking::budget(room);
        let ticks = |nanos: Nanos| (nanos.0 * ticks_per_nano) as u64;
        // A member is at most one claim from leaving, unless its items are long; then there is no hurry.
        let settle = Spin { busy: ticks(looking.choice), yielding: ticks(looking.choice) };
        Self { gate: Gate::new(threads - 1), members: threads, costs: Costs::MEASURED, ticks_per_nano, settle, looking }
    }

    /// The budget of an idle worker.
    fn look(&self) -> Spin {
        Spin { busy: (self.looking.choice.0 * self.ticks_per_nano) as u64, yielding: 0 }
    }

    /// Ticks as time.
    pub(crate) fn nanos(&self, ticks: u64) -> Nanos {
        Nanos(ticks as f64 / self.ticks_per_nano)
    }

    /// The workers' state, for a decision.
    pub(crate) fn state(&self) -> CrewState {
        let state = self.gate.state();
        CrewState { workers: self.members - 1, awake: state.awake, busy: state.busy }
    }
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
                shared.gate.serve(member, || shared.look());
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
        self.crew.gate.stop();
        let here = self.generation == machine::fork_generation();
        for thread in self.threads.drain(..) {
            if here {
                // A worker catches what user code throws; should it end by a panic all the same, there is nobody to tell.
                let _ = thread.join();
            } else {
                // A forked child has this handle but not the thread.
                std::mem::forget(thread);
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
struct Installed {
    before: Option<Rc<Here>>,
}

impl Installed {
    fn new(crew: Arc<Crew>) -> Self {
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

/// Threads that take part in a parallel call made here, the caller included.
///
/// ```
/// assert_eq!(windrow::Pool::new(3).install(windrow::current_num_threads), 3);
/// ```
pub fn current_num_threads() -> usize {
    with_current(|crew| crew.members)
}

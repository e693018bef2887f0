//! The global pool: how it is made, ended, and made again.
//!
//! # Protocol
//! The global pools of a process form a list that only grows. The last one is current. A forked child begins a new list.
//! * The first call that needs the pool makes the list, with a pool of default settings in it. [`PoolBuilder::build_global`] makes it with a
//!   pool of its settings.
//! * [`shutdown`] appends a *serial* pool, which has no threads. Only then `shutdown` ends the threads of the pools before it. Calls
//!   that found an earlier pool find its gate stopped, and stay on their callers.
//! * `build_global` appends a pool after a serial one, and fails elsewhere.
//!
//! A pool that was current is never freed: calls refer to the pool without counting, so that finding it writes nothing. An ended pool
//! keeps its memory and no thread.
//!
//! No lock is held while user code runs (names, handlers) or a thread is started. Two threads may build at the same time. The
//! pool that comes second is dropped.

use std::fmt;
use std::sync::{Arc, OnceLock};

use windrow_sync::Mutex;
use windrow_sync::fork::PerProcess;
use windrow_sync::gate::is_inside_any;

use super::settings::{PoolBuildError, Settings};
use super::{Pool, end};
use crate::runtime::state::PoolState;

/// One pool of the list, whose threads may be ended while calls refer to it. See the [module page](self).
pub(crate) struct Global {
    pub(super) state: Arc<PoolState>,
    /// `None` if its threads are those of others.
    own: Option<Pool>,
    /// Made by `shutdown`.
    serial: bool,
    next: OnceLock<Box<Global>>,
}

static GLOBAL: PerProcess<Global> = PerProcess::new();

impl Global {
    fn new(pool: Pool, serial: bool) -> Self {
        pool.state.set_global();
        Global { state: pool.state.clone(), own: Some(pool), serial, next: OnceLock::new() }
    }

    fn serial() -> Self {
        Global::new(Pool::build(Settings::of(1)), true)
    }

    /// The last pool of the list.
    #[inline]
    fn last(&self) -> &Global {
        let mut last = self;
        while let Some(next) = last.next.get() {
            last = next;
        }
        last
    }

    /// Ends the threads of this pool and waits for them, spawn threads included.
    fn end(&self) {
        let threads = self.own.as_ref().map_or_else(Vec::new, |pool| std::mem::take(&mut *pool.threads.lock()));
        // Taken before the queue is closed. Threads that are started later are not joined: other threads may give them work without an
        // end.
        let spawned = self.state.take_spawn_threads();
        end(&self.state, threads);
        for thread in spawned {
            // A spawn thread catches panics of user code.
            let _ = thread.join();
        }
    }
}

/// The global pool of this process.
#[inline]
pub(super) fn global() -> &'static Global {
    GLOBAL.get(|| Global::new(Pool::build(Settings::usual(0)), false)).last()
}

/// Makes a pool with these settings the global one.
pub(super) fn build(settings: Settings) -> Result<(), PoolBuildError> {
    let mut settings = Some(settings);
    let mut ours = None;
    let first = GLOBAL.get(|| {
        let Some(settings) = settings.take() else { unreachable!("taken once") };
        let pool = Pool::build(settings);
        ours = Some(pool.state.clone());
        Global::new(pool, false)
    });
    if ours.is_some_and(|ours| Arc::ptr_eq(&ours, &first.state)) {
        return Ok(());
    }
    let last = first.last();
    match settings {
        Some(settings) if last.serial => {
            let global = Box::new(Global::new(Pool::build(settings), false));
            last.next.set(global).map_err(|_| PoolBuildError::global_exists())
        }
        _ => Err(PoolBuildError::global_exists()),
    }
}

/// Makes a pool with threads of others the global one. Without effect after a shutdown.
pub(crate) fn adopt(state: &Arc<PoolState>) {
    let adopted = || Global { state: state.clone(), own: None, serial: false, next: OnceLock::new() };
    let first = GLOBAL.get(adopted);
    let last = first.last();
    if !last.serial && !Arc::ptr_eq(&last.state, state) {
        // Calls that began on an earlier pool go on there.
        let _ = last.next.set(Box::new(adopted()));
    }
}

/// Ends the threads of the global pool and waits until they have ended: workers, and the spawn threads of closures that were
/// [spawned](crate::spawn_joinable()) on it.
///
/// For libraries that are unloaded, language bindings, and programs that fork or exit with no other thread. `shutdown` does not end pools
/// of the program ([`Pool`]) and threads of batched structures. Those end when they are dropped.
///
/// # Calls before, at the same time and after
/// * Parallel calls in progress go on. Workers end after their share of such a call, so `shutdown` waits for that share. Spawned closures
///   that have begun or are queued run first.
/// * From now on parallel calls on the global pool run on their callers alone: they work, and start no thread. So a call that comes
///   late, from a destructor or another thread, cannot hang. Teams of [exact width](crate::team::Width::exactly) above 1 are refused.
/// * [`PoolBuilder::build_global`](crate::PoolBuilder::build_global) makes a new global pool.
/// * `spawn_joinable` outside a pool still needs a thread, and starts one, even during a `shutdown`. The next `shutdown` waits for that
///   thread. A closure that spawns the next one, and so on without an end, keeps `shutdown` waiting.
/// * Further calls of `shutdown`, also at the same time, are harmless: every call returns once the threads have ended. `shutdown` does not
///   start a global pool that was never used.
/// * A forked child is not affected by its parent's shutdown: its first call builds a separate global pool.
///
/// # Errors
/// If the calling thread is a thread of a pool, or is inside a parallel call, a spawned closure or an overlapped run. There `shutdown`
/// could wait for its own caller. Nothing has happened then.
///
/// # Deadlocks
/// `shutdown` waits for other threads, as every join does. Call it without a lock that a parallel call in progress needs, and not under the
/// loader lock (Windows' `DllMain`), which threads need to end.
///
/// ```
/// use windrow::prelude::*;
///
/// assert_eq!((0..1000u64).into_par_iter().sum::<u64>(), 499_500);
/// windrow::shutdown()?;
/// assert_eq!(windrow::current_num_threads(), 1);
/// assert_eq!((0..1000u64).into_par_iter().sum::<u64>(), 499_500);
/// # Ok::<(), windrow::ShutdownError>(())
/// ```
pub fn shutdown() -> Result<(), ShutdownError> {
    /// Held while threads are ended, so that a second call waits as well.
    static ENDING: PerProcess<Mutex<()>> = PerProcess::new();
    if is_inside_any() {
        return Err(ShutdownError(()));
    }
    let first = GLOBAL.get(Global::serial);
    let mut last = first.last();
    if !last.serial {
        // Another shutdown may be faster. Then the serial pool of that shutdown counts.
        let _ = last.next.set(Box::new(Global::serial()));
        last = last.next.get().map_or(last, |next| next);
    }
    let _ending = ENDING.get(Mutex::default).lock();
    let mut global = first;
    loop {
        global.end();
        match global.next.get() {
            // What comes after the serial pool was built since.
            Some(next) if !std::ptr::eq(global, last) => global = next,
            _ => break,
        }
    }
    Ok(())
}

/// [`shutdown`] was called by a thread that the global pool's threads could be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownError(());

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shutdown was called inside a parallel call or on a pool thread: call it outside both")
    }
}

impl std::error::Error for ShutdownError {}

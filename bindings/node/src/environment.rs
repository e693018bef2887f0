//! The environments of the process: each has an event loop and a thread.
//!
//! At the end of an environment, its jobs are stopped. At the end of the last one, the threads of the pool end too, so that no thread runs
//! while the process exits or the addon is unloaded. `process.exit` runs no such hook; threads that outlive it touch nothing that it frees.
//!
//! While the thread of an event loop copies, it has a CPU, and so the pool has one less: [`with_one_thread_less`]. With one thread too many, all
//! wait at the end of each piece for the one that had no CPU.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::*;
use windrow::{Pool, PoolBuilder};

/// An environment. Once it is closed, the results of its jobs are no longer wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    is_closed: Arc<AtomicBool>,
}

#[derive(Default)]
struct Open {
    environments: usize,
    /// The threads of the pool have ended.
    is_shut_down: bool,
}

static OPEN: Mutex<Open> = Mutex::new(Open { environments: 0, is_shut_down: false });

/// The pool of [`with_one_thread_less`].
static SMALLER: Mutex<Option<Arc<Pool>>> = Mutex::new(None);

thread_local! {
    static CURRENT: RefCell<Environment> = RefCell::default();
}

pub(crate) fn open(env: &Env) -> Result<()> {
    let environment = Environment::default();
    CURRENT.set(environment.clone());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.environments += 1;
    if std::mem::take(&mut open.is_shut_down) {
        // An error says that there is a pool again.
        let _ = PoolBuilder::new().build_global();
    }
    drop(open);
    env.add_env_cleanup_hook(environment, close)?;
    Ok(())
}

fn close(environment: Environment) {
    // Relaxed: jobs may see it late.
    environment.is_closed.store(true, Ordering::Relaxed);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.environments -= 1;
    // Held meanwhile: a new environment waits, and then builds a pool.
    if open.environments == 0 && windrow::shutdown().is_ok() {
        open.is_shut_down = true;
        drop(SMALLER.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Runs `work` with one thread less than the pool has.
pub(crate) fn with_one_thread_less<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let threads = windrow::current_num_threads();
    if threads == 1 {
        return work();
    }
    let mut smaller = SMALLER.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = Arc::clone(smaller.get_or_insert_with(|| Arc::new(Pool::new(threads - 1))));
    drop(smaller);
    pool.install(work)
}

impl Environment {
    /// The environment of this thread.
    pub(crate) fn current() -> Self {
        CURRENT.with_borrow(Self::clone)
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: see `close`.
        self.is_closed.load(Ordering::Relaxed)
    }
}

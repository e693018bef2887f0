//! The door: every call that works for more than a moment enters Rust here.
//!
//! Inside, the interpreter runs other threads. The thread of the call polls Python for signals, so that Ctrl-C ends a
//! batch; a call of a task ends when the task is cancelled. Errors, panics and interrupts become exceptions in one place.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use windrow::Pool;
use windrow_tokenizers::engine::{caught, late};

use crate::errors::WindrowError;

/// Milliseconds that a signal waits before Python handles it, in addition to the longest item. People notice 100 ms.
pub(crate) const POLL_MILLIS: u64 = 25;

thread_local! {
    /// The stop of the calls of this thread.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs a batch with the threads of the pool, or with this one if `TOKENIZERS_PARALLELISM` says so.
pub(crate) fn in_parallel<R: Send>(batch: impl FnOnce() -> R + Send) -> R {
    let is_off = std::env::var("TOKENIZERS_PARALLELISM")
        .is_ok_and(|value| ["", "off", "false", "f", "no", "n", "0"].contains(&value.to_ascii_lowercase().as_str()));
    if !is_off {
        return batch();
    }
    // This pool has no threads, so a forked process may use it.
    static ONE: OnceLock<Pool> = OnceLock::new();
    let Ok(pool) = late(&ONE, || Ok::<_, Infallible>(Pool::new(1)));
    pool.install(batch)
}

/// Ends calls of another thread, which belong to a cancelled task.
#[pyclass(frozen, name = "Stop", module = "windrow._windrow")]
#[derive(Default)]
pub(crate) struct PyStop(Arc<AtomicBool>);

#[pymethods]
impl PyStop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the current call and later ones.
    fn set(&self) {
        // Relaxed: a thread may see the stop late.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Calls a function on this thread. Its Rust code here ends within an item of the stop.
    #[pyo3(signature = (call, *arguments))]
    fn run<'py>(&self, call: &Bound<'py, PyAny>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let before = STOP.replace(Some(Arc::clone(&self.0)));
        let outcome = call.call1(arguments);
        STOP.replace(before);
        outcome
    }
}

/// Checks if the work should continue.
pub(crate) struct Watch {
    /// The thread of the call: Python handles signals only on its main thread, which may be this one.
    caller: ThreadId,
    begin: Instant,
    /// Milliseconds from `begin` to the next check.
    next: AtomicU64,
    stopped: AtomicBool,
    interrupt: Mutex<Option<PyErr>>,
    stop: Option<Arc<AtomicBool>>,
}

impl Watch {
    fn new() -> Self {
        Self {
            caller: thread::current().id(),
            begin: Instant::now(),
            next: AtomicU64::new(POLL_MILLIS),
            stopped: AtomicBool::new(false),
            interrupt: Mutex::new(None),
            stop: STOP.with_borrow(Option::clone),
        }
    }

    fn is_cancelled(&self) -> bool {
        // Relaxed: a thread may see the stop late.
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// True if no signal has raised an exception so far, and no task was cancelled. All threads of the work call it repeatedly.
    pub(crate) fn goes_on(&self) -> bool {
        // Relaxed: a thread may see the stop late.
        if self.stopped.load(Ordering::Relaxed) || self.is_cancelled() {
            return false;
        }
        if thread::current().id() != self.caller {
            return true;
        }
        let now = self.begin.elapsed().as_millis() as u64;
        // Relaxed: only the caller's thread uses it.
        if now < self.next.load(Ordering::Relaxed) {
            return true;
        }
        // Relaxed: see above.
        self.next.store(now + POLL_MILLIS, Ordering::Relaxed);
        match Python::try_attach(|py| py.check_signals()) {
            Some(Ok(())) => return true,
            Some(Err(interrupt)) => *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(interrupt),
            // The interpreter has ended, and this thread has outlived it.
            None => {}
        }
        // Relaxed: see above. `enter` takes the exception on this same thread.
        self.stopped.store(true, Ordering::Relaxed);
        false
    }
}

/// Runs `work` without the interpreter's lock. If a signal has raised an exception, that is the result, whatever `work` returns; after a
/// cancellation no task waits for one.
pub(crate) fn enter<R: Send>(py: Python<'_>, work: impl FnOnce(&Watch) -> PyResult<R> + Send) -> PyResult<R> {
    let watch = Watch::new();
    if watch.is_cancelled() {
        return Err(cancelled());
    }
    let outcome = py.detach(|| caught(|| work(&watch)));
    let is_cancelled = watch.is_cancelled();
    if let Some(interrupt) = watch.interrupt.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(interrupt);
    }
    if is_cancelled {
        return Err(cancelled());
    }
    outcome.unwrap_or_else(|message| {
        let hint = "hint: please report this, and include the backtrace that RUST_BACKTRACE=1 prints";
        Err(PyRuntimeError::new_err(format!("internal error in windrow: {message}\n{hint}")))
    })
}

/// Called for each argument that is read: fails if a signal has raised an exception, or the task of this thread was cancelled.
pub(crate) fn ask(py: Python<'_>) -> PyResult<()> {
    // Relaxed: a thread may see the stop late.
    if STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))) {
        return Err(cancelled());
    }
    py.check_signals()
}

fn cancelled() -> PyErr {
    WindrowError::new_err("the call was stopped because its task was cancelled")
}

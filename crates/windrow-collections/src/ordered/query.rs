//! Queries: operations that run a function of the caller on the whole structure.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::update::FirstPanic;

/// A function that reads a whole map or set as an operation of a batch: [`MapOp::query`](crate::MapOp::query) and
/// [`SetOp::query`](crate::SetOp::query) make it.
pub struct Query<S>(Box<dyn FnOnce(&S) + Send>);

impl<S> Query<S> {
    pub(super) fn new<R: Send + 'static>(f: impl FnOnce(&S) -> R + Send + 'static) -> (Self, Answer<R>) {
        let answer = Arc::new(Mutex::new(None));
        let place = answer.clone();
        let query = move |structure: &S| *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(f(structure));
        (Query(Box::new(query)), Answer(answer))
    }

    /// Calls the function, and stores what it returns.
    pub fn call(self, structure: &S) {
        (self.0)(structure);
    }

    /// Calls the function; false if it panicked.
    pub(crate) fn try_call(self, structure: &S, panic: &mut FirstPanic) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.call(structure))).map_err(|payload| panic.keep(payload)).is_ok()
    }
}

impl<S> fmt::Debug for Query<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").finish_non_exhaustive()
    }
}

/// The place of what a [`Query`] returns.
#[derive(Debug)]
pub struct Answer<R>(Arc<Mutex<Option<R>>>);

impl<R> Answer<R> {
    /// Takes the result of the function: `None` before its call, after its panic, and if it was taken.
    pub fn take(&self) -> Option<R> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

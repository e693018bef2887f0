//! One write on its way to the connection and back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;

use crate::Error;

/// A closure without its types.
pub(crate) trait Job: Send {
    /// Runs the closure; whether it said `Ok`.
    fn run(&mut self, connection: &Connection) -> bool;

    /// What it did has been undone, or it was never run. What it said itself, if that was an error, is worth more.
    fn undo(&mut self, error: Error);

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A closure, and later what it returned: the box it travels in comes back with the result, so there is one allocation a call.
struct Closure<F, R> {
    f: Option<F>,
    result: Option<Result<R, Error>>,
    /// Kept beside a result that does not count, which is dropped by its caller: that may run user code.
    undone: Option<Error>,
}

impl<F, R> Job for Closure<F, R>
where
    F: FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    R: Send + 'static,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let Some(f) = self.f.take() else { return false };
        let result = match catch_unwind(AssertUnwindSafe(|| f(connection))) {
            Ok(result) => result.map_err(Error::Sqlite),
            Err(payload) => Err(Error::Panicked(message(payload))),
        };
        self.result.insert(result).is_ok()
    }

    fn undo(&mut self, error: Error) {
        if !matches!(self.result, Some(Err(_))) {
            self.undone = Some(error);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// What a panic said. Its payload is dropped here, which may panic again.
fn message(payload: Box<dyn Any + Send>) -> String {
    let said = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    said
}

/// A closure that writes; when it comes back, what it returned. See [`Commits`](crate::Commits).
pub struct Write(pub(crate) Box<dyn Job>);

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}

/// Makes a write of a closure, and a function that finds what the closure returned.
pub(crate) fn write<R, F>(f: F) -> (Write, impl FnOnce(Write) -> Result<R, Error> + Send + use<F, R>)
where
    F: FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    R: Send + 'static,
{
    let write = Write(Box::new(Closure { f: Some(f), result: None, undone: None }));
    (write, |write| {
        let closure = write.0.into_any().downcast::<Closure<F, R>>().expect("a write comes back to its caller");
        let Closure { result, undone, .. } = *closure;
        match undone {
            Some(error) => Err(error),
            None => result.expect("a write is run or undone"),
        }
    })
}

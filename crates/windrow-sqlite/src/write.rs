//! A write on its way to the connection and back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::{Connection, Params, ffi};

use crate::Error;
use crate::guard::Guard;

/// A closure with its types erased.
pub(crate) trait Job: Send {
    /// Runs the closure and returns whether it returned `Ok`. The closure sets the guard before it writes, unless it needs none. Runs again
    /// if the transaction was lost by another write.
    fn run(&mut self, guard: &mut Guard<'_>) -> bool;

    /// Marks the write as undone, or as never run. If the closure itself returned an error, that error is kept, unless it is that of a commit
    /// which was refused: that one says nothing to the caller.
    fn undo(&mut self, error: Error);

    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// A closure, and later its result: the box it travels in comes back with the result, so a call allocates once.
struct Closure<F, R> {
    f: F,
    result: Option<Result<R, Error>>,
    /// Kept beside a result that does not count. The caller drops that result, because its drop may run user code.
    undone: Option<Error>,
}

impl<F, R> Job for Closure<F, R>
where
    F: FnMut(&mut Guard<'_>) -> rusqlite::Result<R> + Send + 'static,
    R: Send + 'static,
{
    fn run(&mut self, guard: &mut Guard<'_>) -> bool {
        let Closure { f, result, .. } = self;
        let run = || {
            // The drop of an earlier run's result may panic, too.
            *result = None;
            f(guard)
        };
        let ended = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(ended) => ended.map_err(Error::Sqlite),
            Err(payload) => Err(Error::Panicked(message(payload))),
        };
        if guard.has_failed() {
            return false;
        }
        result.insert(ended).is_ok()
    }

    fn undo(&mut self, error: Error) {
        let own = match &self.result {
            Some(Err(Error::Sqlite(own))) => own.sqlite_error().map(|own| own.extended_code),
            _ => None,
        };
        if !matches!(self.result, Some(Err(_))) || own == Some(ffi::SQLITE_CONSTRAINT_COMMITHOOK) {
            self.undone = Some(error);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The message of a panic. The payload is dropped here, which may panic again.
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

/// A closure that writes, and later its result. See [`Commits`](crate::Commits).
pub struct Write(pub(crate) Box<dyn Job>);

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}

/// Makes a write of a closure, and a function that returns the closure's result.
pub(crate) fn write<R, F>(mut f: F) -> (Write, impl FnOnce(Write) -> Result<R, Error> + Send + use<F, R>)
where
    F: FnMut(&Connection) -> rusqlite::Result<R> + Send + 'static,
    R: Send + 'static,
{
    guarded(move |guard| f(guard.set()?))
}

/// Makes a write of one statement. If SQLite itself undoes the statement when it fails, the write needs no guard.
pub(crate) fn statement<P>(
    sql: &'static str,
    params: P,
) -> (Write, impl FnOnce(Write) -> Result<usize, Error> + Send + use<P>)
where
    P: Params + Clone + Send + 'static,
{
    let mut params = Some(params);
    guarded(move |guard| {
        let mut statement = guard.connection().prepare_cached(sql)?;
        // `SAVEPOINT` and its like count as reading. A statement that returns rows has done its work by then, and is still an error.
        if statement.readonly() || statement.column_count() > 0 || guard.is_held_open() {
            guard.set()?;
        }
        // A write that is alone does not run again.
        let params = if guard.is_alone() { params.take() } else { params.clone() };
        statement.execute(params.expect("the last run takes the parameters"))
    })
}

fn guarded<R, F>(f: F) -> (Write, impl FnOnce(Write) -> Result<R, Error> + Send + use<F, R>)
where
    F: FnMut(&mut Guard<'_>) -> rusqlite::Result<R> + Send + 'static,
    R: Send + 'static,
{
    let write = Write(Box::new(Closure { f, result: None, undone: None }));
    (write, |write| {
        let closure = write.0.into_any().downcast::<Closure<F, R>>().expect("a write comes back to its caller");
        let Closure { result, undone, .. } = *closure;
        match undone {
            Some(error) => Err(error),
            None => result.expect("a write is run or undone"),
        }
    })
}

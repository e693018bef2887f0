//! The door: every call that works for more than a moment enters Rust here, and errors and panics become failures in one place.
//!
//! Work that may take longer runs on the threads of the pool, and a function of JavaScript is called with its outcome. The event loop stays alive
//! until then. If its environment has ended meanwhile, the outcome is dropped.

use napi::bindgen_prelude::*;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use windrow_tokenizers::engine::caught;

use crate::failure::Failure;

/// The value for JavaScript: a result or a failure.
pub(crate) type Outcome<R> = Either<R, Failure>;

/// The function of JavaScript that gets the outcome.
pub(crate) type Callback<'a, R> = Function<'a, Outcome<R>, ()>;

/// The callback, for other threads, which give it an `R`. On its thread the `R` becomes a `Js`.
pub(crate) type Answer<R, Js> = ThreadsafeFunction<Outcome<R>, (), Outcome<Js>, Status, false>;

/// Runs `work` on this thread.
pub(crate) fn enter<R>(work: impl FnOnce() -> std::result::Result<R, Failure>) -> std::result::Result<R, Failure> {
    caught(work).unwrap_or_else(|message| Err(Failure::panic(&message)))
}

/// Runs `work` on this thread, for JavaScript.
pub(crate) fn now<R>(work: impl FnOnce() -> std::result::Result<R, Failure>) -> Outcome<R> {
    outcome(enter(work))
}

/// Runs `work` on a thread of the pool, and calls back.
pub(crate) fn later<R>(
    callback: Callback<'_, R>,
    work: impl FnOnce() -> std::result::Result<R, Failure> + Send + 'static,
) -> Result<()>
where
    R: ToNapiValue + Send + 'static,
{
    let answer = callback.build_threadsafe_function().build()?;
    windrow::spawn(move || send(&answer, enter(work)));
    Ok(())
}

pub(crate) fn send<R: 'static, Js: JsValuesTupleIntoVec + ToNapiValue + 'static>(
    answer: &Answer<R, Js>,
    result: std::result::Result<R, Failure>,
) {
    // An environment that has ended does not take it.
    let _ = answer.call(outcome(result), ThreadsafeFunctionCallMode::NonBlocking);
}

pub(crate) fn outcome<R>(result: std::result::Result<R, Failure>) -> Outcome<R> {
    match result {
        Ok(result) => Either::A(result),
        Err(failure) => Either::B(failure),
    }
}

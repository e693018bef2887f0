//! Updates: operations that run a function of the caller on a value.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use windrow_sync::unwind::{Payload, discard};

/// The function of a [`MapOp::Update`](crate::MapOp::Update).
///
/// It gets the value of the key, or `None` if the key is absent, and may change it. What it leaves is the new value; if it leaves
/// `None`, the key is removed. What it returns is the result of the operation.
///
/// A function without captured variables is stored without an allocation.
///
/// ```
/// use windrow_collections::Update;
///
/// // Counts down, and removes the key at 0.
/// let count_down = || Update::new(|value: &mut Option<u32>| {
///     *value = value.and_then(|count| count.checked_sub(1)).filter(|&count| count > 0);
///     *value
/// });
/// let mut value = Some(2);
/// assert_eq!((count_down().call(&mut value), value), (Some(1), Some(1)));
/// assert_eq!((count_down().call(&mut value), value), (None, None));
/// ```
pub struct Update<V>(Box<Change<V>>);

type Change<V> = dyn FnOnce(&mut Option<V>) -> Option<V> + Send;

impl<V> Update<V> {
    /// The update that calls `f`.
    pub fn new(f: impl FnOnce(&mut Option<V>) -> Option<V> + Send + 'static) -> Self {
        Update(Box::new(f))
    }

    /// Calls the function.
    pub fn call(self, value: &mut Option<V>) -> Option<V> {
        (self.0)(value)
    }

    /// Calls the function, and returns its panic.
    pub(super) fn try_call(self, value: &mut Option<V>) -> Result<Option<V>, Payload> {
        catch_unwind(AssertUnwindSafe(|| self.call(value)))
    }
}

impl<V> fmt::Debug for Update<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Update").finish_non_exhaustive()
    }
}

/// The first panic of the updates and queries of a batch. The other operations run all the same; then the panic goes on.
#[derive(Default)]
pub(crate) struct FirstPanic(Option<Payload>);

impl FirstPanic {
    #[cold]
    pub(crate) fn keep(&mut self, payload: Payload) {
        if self.0.is_some() {
            discard(payload);
        } else {
            self.0 = Some(payload);
        }
    }

    /// Takes over the panic of a part.
    #[inline]
    pub(super) fn take_over(&mut self, other: &mut Self) {
        if let Some(payload) = other.0.take() {
            self.keep(payload);
        }
    }

    /// Goes on with the panic, if there was one.
    #[inline]
    pub(crate) fn go_on(mut self) {
        if let Some(payload) = self.0.take() {
            resume_unwind(payload);
        }
    }
}

impl Drop for FirstPanic {
    #[inline]
    fn drop(&mut self) {
        if let Some(payload) = self.0.take() {
            discard(payload);
        }
    }
}

//! Panics that are carried from one thread to another, or that no caller receives.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The payload of a panic.
pub type Payload = Box<dyn Any + Send>;

/// The text of a panic: of `panic!` with a message.
pub fn message(payload: &Payload) -> Option<&str> {
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    payload.downcast_ref::<&str>().copied().or_else(formatted)
}

/// Drops a value that no caller receives, such as a payload or an unwanted result. A panic of its drop ends here, and so does a panic
/// when that panic's payload is dropped: the hook has reported both, and this thread may be unwinding already.
pub fn discard<T>(value: T) {
    let dropped = |what: Payload| catch_unwind(AssertUnwindSafe(|| drop(what))).err();
    let second = catch_unwind(AssertUnwindSafe(|| drop(value))).err();
    std::mem::forget(second.and_then(dropped));
}

/// Runs foreign code and discards its panic, because the code that follows must run. The hook has reported the panic.
pub fn quietly(f: impl FnOnce()) {
    discard(catch_unwind(AssertUnwindSafe(f)));
}

/// Calls the function at the end of the scope, also after a panic in it.
#[must_use = "it is called when this is dropped"]
pub struct Finally<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for Finally<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `f` with every item, even after a call that panics: one such item must not hide the others.
#[inline]
pub(crate) fn for_all<I: Iterator>(mut items: I, mut f: impl FnMut(I::Item)) {
    // Called again when it is dropped: after a panic it goes on with the next item.
    let mut rest = Finally(|| items.by_ref().for_each(&mut f));
    (rest.0)();
}

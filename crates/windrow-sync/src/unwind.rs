//! Panics that are carried from one thread to another, or that no caller receives.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic was called with.
pub type Payload = Box<dyn Any + Send>;

/// Drops a value that no caller receives, such as a payload or an unwanted result. Its drop may panic, even with a payload whose drop
/// panics; such a panic ends here (the hook has reported it), since another one may be on its way.
pub fn discard<T>(value: T) {
    let dropped = |what: Payload| catch_unwind(AssertUnwindSafe(|| drop(what))).err();
    let second = catch_unwind(AssertUnwindSafe(|| drop(value))).err();
    std::mem::forget(second.and_then(dropped));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::resume_unwind(Box::new(Bomb(self.0 - 1)));
            }
        }
    }

    #[test]
    fn payloads_that_panic_when_they_are_dropped_are_discarded() {
        (0..4).for_each(|bombs| discard(Bomb(bombs)));
    }
}

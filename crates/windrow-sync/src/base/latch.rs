#![doc = include_str!("latch.md")]

use crate::base::primitives::Ordering;
use crate::base::spin::Spin;
use crate::base::word::Word;

const UNSET: u32 = 0;
const SET: u32 = 1;
const WAITED: u32 = 2;

/// A reusable event for one setter and one waiter at a time. See the [module page](self).
///
/// ```
/// use windrow_sync::{Spin, latch::Latch};
///
/// let latch = Latch::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| latch.set());
///     latch.wait(Spin::NONE);
/// });
/// assert!(!latch.is_set(), "the wait has reset it");
/// ```
#[derive(Debug, Default)]
pub struct Latch {
    word: Word,
}

impl Latch {
    /// Not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the latch and wakes the waiter, if one is parked. Called by one thread, once per use.
    pub fn set(&self) {
        // Release: pairs with the Acquire in `is_set`; what was done before the event is seen after the wait.
        if self.word.value().swap(SET, Ordering::Release) == WAITED {
            self.word.wake(1);
        }
    }

    /// Whether the latch is set; if so, everything before `set` is visible.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the Release in `set`.
        self.word.value().load(Ordering::Acquire) == SET
    }

    /// Spins for as long as `spin` allows, then parks, until the latch is set; then resets it.
    pub fn wait(&self, spin: Spin) {
        if !spin.until(|| self.is_set()) {
            // Relaxed: `is_set` below does the ordering; a failure means that the latch is set.
            let _ = self.word.value().compare_exchange(UNSET, WAITED, Ordering::Relaxed, Ordering::Relaxed);
            while !self.is_set() {
                self.word.wait(WAITED);
            }
        }
        // Relaxed: this word does not tell the next setter that the latch is reset; the protocol that uses the latch does.
        self.word.value().store(UNSET, Ordering::Relaxed);
    }
}

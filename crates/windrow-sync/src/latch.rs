//! Latch: one thread waits for one event.
//!
//! # Protocol
//! Three states: `UNSET`, `WAITED` (the waiter sleeps or is about to), `SET`.
//! 1. The setter exchanges the state for `SET` and wakes the waiter only if it found `WAITED`.
//! 2. The waiter looks for a bounded time, then moves `UNSET` to `WAITED` and sleeps while the word is `WAITED`. If that
//!    exchange fails the state is `SET` already.
//! 3. The waiter takes the latch back to `UNSET` when it has seen `SET`.
//!
//! Race prevented: the setter finds no waiter while the waiter is on its way to sleep. Both exchange the same word, so
//! either the setter finds `WAITED` and wakes, or the waiter's exchange fails. What the setter wrote before `set` is
//! visible to the waiter afterwards: Release in `set`, Acquire in `is_set`.
//!
//! The setter's exchange is its last access to the latch but for the wake. The latch must outlive that wake: in the gate
//! both live in memory that every worker keeps alive.

use crate::Spin;
use crate::primitives::Ordering;
use crate::word::Word;

const UNSET: u32 = 0;
const SET: u32 = 1;
const WAITED: u32 = 2;

/// A reusable event for one setter and one waiter a turn. See the [module page](self).
#[derive(Debug)]
pub struct Latch {
    word: Word,
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// Not set.
    pub fn new() -> Self {
        Self { word: Word::new(UNSET) }
    }

    /// Sets it and wakes the waiter, if there is one. One thread, once a turn.
    pub fn set(&self) {
        // Release: pairs with the Acquire in `is_set`; what was done before the event is seen after the wait.
        if self.word.value().swap(SET, Ordering::Release) == WAITED {
            self.word.wake(1);
        }
    }

    /// Whether it is set; if so, everything before `set` is visible.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the Release in `set`.
        self.word.value().load(Ordering::Acquire) == SET
    }

    /// Looks for as long as `spin` allows, then sleeps, until it is set; then takes it back to not set.
    pub fn wait(&self, spin: Spin) {
        if !spin.until(|| self.is_set()) {
            // Relaxed: `is_set` below does the ordering; failing means that it is set.
            let _ = self.word.value().compare_exchange(UNSET, WAITED, Ordering::Relaxed, Ordering::Relaxed);
            while !self.is_set() {
                self.word.wait(WAITED);
            }
        }
        // Relaxed: the next turn's setter learns of its turn from the waiter, by another way than this word.
        self.word.value().store(UNSET, Ordering::Relaxed);
    }
}

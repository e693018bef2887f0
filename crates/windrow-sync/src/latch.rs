//! Latch: one thread waits for one event.
//!
//! # Protocol
//! Three states: `UNSET`, `WAITED` (the waiter is parked or about to park), `SET`.
//! 1. The setter swaps the state for `SET` and wakes the waiter only if it found `WAITED`.
//! 2. The waiter spins for a bounded time. Then it moves `UNSET` to `WAITED` by a compare-exchange and parks while the word is
//!    `WAITED`. If the compare-exchange fails, the state is `SET` already.
//! 3. The waiter resets the latch to `UNSET` when it has seen `SET`.
//!
//! Race prevented: the setter finds no waiter while the waiter is about to park. Both update the same word by a
//! read-modify-write. So either the setter finds `WAITED` and wakes, or the waiter's compare-exchange fails. What the setter
//! wrote before `set` is visible to the waiter afterwards: Release in `set`, Acquire in `is_set`.
//!
//! The setter's swap is its last access to the latch, except for the wake. The latch must outlive that wake: in the gate both
//! live in memory that every worker keeps alive.

use crate::Spin;
use crate::primitives::Ordering;
use crate::word::Word;

const UNSET: u32 = 0;
const SET: u32 = 1;
const WAITED: u32 = 2;

/// A reusable event for one setter and one waiter at a time. See the [module page](self).
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

    /// Sets the latch and wakes the waiter, if there is one. One thread, once per use.
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
        // Relaxed: the next setter learns in another way than by this word that the latch is reset.
        self.word.value().store(UNSET, Ordering::Relaxed);
    }
}

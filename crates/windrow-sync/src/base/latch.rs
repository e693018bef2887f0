#![doc = include_str!("latch.md")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::base::primitives::Ordering;
use crate::base::spin::Spin;
use crate::base::word::{Word, wait_watched};

const UNSET: u32 = 0;
const SET: u32 = 1;
const WAITED: u32 = 2;

/// A reusable event with one waiter at a time. See the [module page](self).
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

    /// Sets the latch and wakes the waiter, if one is parked. Any number of threads may set the latch: what each has done before is seen
    /// after the current wait or the next one.
    pub fn set(&self) {
        self.ring();
    }

    /// As [`set`](Self::set). Returns whether the waiter is parked, or was and has not gone on since it was woken.
    pub fn ring(&self) -> bool {
        // Release: pairs with the Acquire in `is_set` and `wait_for`; what was done before the event is seen after the wait.
        let before = self.word.value().fetch_or(SET, Ordering::Release);
        if before == WAITED {
            self.word.wake(1);
        }
        before & WAITED != 0
    }

    /// Whether the latch is set; if so, everything before `set` is visible.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the Release in `ring`.
        self.word.value().load(Ordering::Acquire) & SET != 0
    }

    /// Spins for as long as `spin` allows, then parks, until the latch is set; then resets it. A long wait is
    /// [reported](crate::word::report_long_waits).
    pub fn wait(&self, spin: Spin) {
        let is_over = Cell::new(false);
        spin.until(|| self.is_set());
        wait_watched(|at_most| is_over.set(is_over.get() || self.wait_for(at_most)));
    }

    /// Parks until the latch is set, or for `at_most`; then resets it. Returns whether it was set.
    pub fn wait_for(&self, at_most: Option<Duration>) -> bool {
        let end = at_most.and_then(|time| Instant::now().checked_add(time));
        // Relaxed: the swap below orders; a failure means that the latch is set.
        let _ = self.word.value().compare_exchange(UNSET, WAITED, Ordering::Relaxed, Ordering::Relaxed);
        while !self.is_set() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            self.word.wait_for(WAITED, left);
        }
        // Acquire: pairs with the Release in `ring`, also in one that has found the latch set.
        self.word.value().swap(UNSET, Ordering::Acquire) & SET != 0
    }
}

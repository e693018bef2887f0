//! Park and wake: words that threads can sleep on until they change.
//!
//! # Protocol
//! `wait(seen)` returns at once if the word is not `seen`, and otherwise sleeps until a `wake` that comes after the word was
//! changed. It may also return for no reason, so callers look again. Whoever changes the word and knows of a sleeper calls
//! `wake`.
//!
//! Race prevented: the sleeper finds the word unchanged, the waker changes it and finds nobody asleep, the sleeper sleeps. The
//! comparison and the falling asleep are one step with respect to `wake`:
//! * on Linux inside the futex system call;
//! * elsewhere (and with the feature `portable`, under Miri and under loom) by a mutex beside the word: the sleeper compares while it
//!   holds the mutex, and the waker passes through the mutex *after* changing the word. So either the comparison sees the
//!   change, or the sleeper waits at the condition variable before the waker notifies it.
//!
//! A [`WideWord`] has 64 bits, and threads sleep on its upper half only: the lower half can count the sleepers, in the same
//! exchange that decides, without disturbing them.
//!
//! Neither word orders other memory by itself; that is up to the exchanges made on it.

use crate::primitives::{AtomicU32, AtomicU64, Half, Sleepers};

/// 32 bits to sleep on. See the [module page](self).
#[derive(Debug)]
pub struct Word {
    value: AtomicU32,
    sleepers: Sleepers,
}

impl Word {
    /// A word that holds `value`.
    pub fn new(value: u32) -> Self {
        Self { value: AtomicU32::new(value), sleepers: Sleepers::new() }
    }

    #[inline]
    pub(crate) fn value(&self) -> &AtomicU32 {
        &self.value
    }

    /// Sleeps while the word is `seen`, or returns for no reason.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::all_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that sleep on the word.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::all_of(&self.value), sleepers);
    }
}

/// 64 bits; threads sleep on the upper half. See the [module page](self).
#[derive(Debug)]
pub struct WideWord {
    value: AtomicU64,
    sleepers: Sleepers,
}

impl WideWord {
    /// A word that holds `value`.
    pub fn new(value: u64) -> Self {
        Self { value: AtomicU64::new(value), sleepers: Sleepers::new() }
    }

    #[inline]
    pub(crate) fn value(&self) -> &AtomicU64 {
        &self.value
    }

    /// Sleeps while the upper half is `seen`, or returns for no reason.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::upper_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that sleep on the word. They are woken in the order in which they fell asleep on Linux,
    /// and all of them elsewhere.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::upper_of(&self.value), sleepers);
    }
}

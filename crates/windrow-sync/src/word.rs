//! Park and wake: words that threads park on until they change.
//!
//! # Glossary
//! * *Park*: to sleep in the kernel (or on a condition variable). *Sleeper*: a thread that is parked on a word.
//! * *Waker*: a thread that changes the word and wakes sleepers.
//!
//! # Protocol
//! `wait(seen)` returns at once if the word is not `seen`. Otherwise it parks until a `wake` that comes after the word was
//! changed. It may also return spuriously, so callers check again. A waker that knows of a sleeper calls `wake` after it has
//! changed the word.
//!
//! Race prevented: the sleeper finds the word unchanged, the waker changes it and finds no sleeper, the sleeper parks. The
//! comparison and the park are one step with respect to `wake`:
//! * on Linux inside the futex system call;
//! * elsewhere (and with the feature `portable`, under Miri and under loom) by a mutex beside the word: the sleeper compares
//!   while it holds the mutex, and the waker passes through the mutex *after* changing the word. So either the comparison sees
//!   the change, or the sleeper waits at the condition variable before the waker notifies it.
//!
//! A [`WideWord`] has 64 bits, and threads park on its upper half only. So the lower half can count the sleepers, in the
//! compare-exchange that decides to park, without disturbing them.
//!
//! Neither word orders other memory by itself; the atomic operations on it do.

use crate::primitives::{AtomicU32, AtomicU64, Half, Sleepers};

/// 32 bits to park on. See the [module page](self).
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

    /// Parks while the word is `seen`; may return spuriously.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::all_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that are parked on the word.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::all_of(&self.value), sleepers);
    }
}

/// 64 bits; threads park on the upper half. See the [module page](self).
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

    /// Parks while the upper half is `seen`; may return spuriously.
    pub fn wait(&self, seen: u32) {
        self.sleepers.wait(Half::upper_of(&self.value), seen);
    }

    /// Wakes up to `sleepers` threads that are parked on the word: on Linux in the order in which they parked, elsewhere all of
    /// them.
    pub fn wake(&self, sleepers: u32) {
        self.sleepers.wake(Half::upper_of(&self.value), sleepers);
    }
}

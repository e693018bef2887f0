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
//! * elsewhere (and with the feature `portable`, and under loom) by a mutex beside the word: the sleeper compares while it
//!   holds the mutex, and the waker passes through the mutex *after* changing the word. So either the comparison sees the
//!   change, or the sleeper waits at the condition variable before the waker notifies it.
//!
//! A [`WideWord`] has 64 bits, and threads sleep on its upper half only: the lower half can count the sleepers, in the same
//! exchange that decides, without disturbing them.
//!
//! Neither word orders other memory by itself; that is up to the exchanges made on it.

use crate::primitives::{AtomicU32, AtomicU64};

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

#[cfg(not(any(loom, feature = "portable", not(target_os = "linux"))))]
mod chosen {
    use super::{AtomicU32, AtomicU64};

    /// The kernel keeps the sleepers.
    #[derive(Debug)]
    pub(super) struct Sleepers;

    /// The address of the 32 bits.
    pub(super) struct Half(*const u32);

    impl Half {
        pub(super) fn all_of(value: &AtomicU32) -> Self {
            Self(value.as_ptr())
        }
        pub(super) fn upper_of(value: &AtomicU64) -> Self {
            let halves = value.as_ptr().cast::<u32>();
            Self(halves.wrapping_add(usize::from(cfg!(target_endian = "little"))))
        }
    }

    impl Sleepers {
        pub(super) fn new() -> Self {
            Self
        }

        #[cold]
        pub(super) fn wait(&self, half: Half, seen: u32) {
            let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            let no_timeout = std::ptr::null::<libc::timespec>();
            // SAFETY: the 32 bits are live and aligned: they belong to a word that is borrowed for this call. A null timeout
            // means "no limit". Every outcome (woken, changed meanwhile, interrupted) is a legal return of `wait`.
            unsafe { libc::syscall(libc::SYS_futex, half.0, op, seen, no_timeout) };
        }

        #[cold]
        pub(super) fn wake(&self, half: Half, sleepers: u32) {
            let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            let sleepers = i32::try_from(sleepers).unwrap_or(i32::MAX);
            // SAFETY: the kernel takes the address as a key and does not read through it.
            unsafe { libc::syscall(libc::SYS_futex, half.0, op, sleepers) };
        }
    }
}

#[cfg(any(loom, feature = "portable", not(target_os = "linux")))]
mod chosen {
    use super::{AtomicU32, AtomicU64};
    use crate::primitives::{Condvar, Mutex, Ordering};
    use std::sync::PoisonError;

    /// Where sleepers wait.
    #[derive(Debug)]
    pub(super) struct Sleepers {
        lock: Mutex<()>,
        changed: Condvar,
    }

    /// How to read the 32 bits.
    pub(super) enum Half<'a> {
        All(&'a AtomicU32),
        Upper(&'a AtomicU64),
    }

    impl<'a> Half<'a> {
        pub(super) fn all_of(value: &'a AtomicU32) -> Self {
            Half::All(value)
        }
        pub(super) fn upper_of(value: &'a AtomicU64) -> Self {
            Half::Upper(value)
        }
        fn load(&self) -> u32 {
            match self {
                // Relaxed: the mutex orders this load after any change whose waker has passed through it already.
                Half::All(value) => value.load(Ordering::Relaxed),
                // Relaxed: as above.
                Half::Upper(value) => (value.load(Ordering::Relaxed) >> 32) as u32,
            }
        }
    }

    impl Sleepers {
        pub(super) fn new() -> Self {
            Self { lock: Mutex::new(()), changed: Condvar::new() }
        }

        pub(super) fn wait(&self, half: Half<'_>, seen: u32) {
            let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if half.load() == seen {
                drop(self.changed.wait(held));
            }
        }

        /// Wakes all: a condition variable does not say whom it wakes, and the one that slept longest is the one meant.
        pub(super) fn wake(&self, _: Half<'_>, sleepers: u32) {
            if sleepers > 0 {
                drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
                self.changed.notify_all();
            }
        }
    }
}

use chosen::{Half, Sleepers};

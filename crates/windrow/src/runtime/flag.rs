//! Flag: raised once, checked often.
//!
//! # Protocol
//! Two states, down and up; it never comes down again. A check is one plain load and a raise is one plain store. So a flag may be
//! raised in a signal handler and in a forked child, unlike a lock or a `OnceLock`. Relaxed: observing the flag orders nothing, and may
//! lag.

use std::sync::atomic::{AtomicBool, Ordering};

/// See the [module page](self).
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    /// Down.
    pub(crate) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Raises the flag, for good.
    pub(crate) fn raise(&self) {
        // Relaxed: the flag publishes no data.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the flag is raised.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        // Relaxed: as in `raise`.
        self.0.load(Ordering::Relaxed)
    }
}

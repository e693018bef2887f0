//! Flag: raised once, checked often.
//!
//! # Protocol
//! Two states, down and up; it never comes down again. A check is one plain load and a raise is one plain store. So a flag may be
//! raised in a signal handler and in a forked child, where a lock or a `OnceLock` may not be used. Relaxed: observing the flag
//! orders nothing, and may lag.

use crate::primitives::{AtomicBool, Ordering, const_fn};

/// See the [module page](self).
///
/// ```
/// let flag = windrow_sync::flag::Flag::new();
/// assert!(!flag.is_up());
/// flag.raise();
/// assert!(flag.is_up());
/// ```
#[derive(Debug)]
pub struct Flag(AtomicBool);

impl Default for Flag {
    fn default() -> Self {
        Self::new()
    }
}

impl Flag {
    const_fn! {
        /// Down.
        pub fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    /// Raises the flag, for good.
    pub fn raise(&self) {
        // Relaxed: the flag publishes no data.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag has been raised.
    #[inline]
    pub fn is_up(&self) -> bool {
        // Relaxed: as in `raise`.
        self.0.load(Ordering::Relaxed)
    }
}

//! Flag: raised once, looked at often.
//!
//! # Protocol
//! Two states, down and up; it never comes down again. Looking is one plain load and raising one plain store, so a flag may be
//! raised in a signal handler and in a forked child, which a lock or a `OnceLock` may not. It carries nothing: who sees it up
//! knows that and no more, and may see it late.

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

    /// Raises it, for good.
    pub fn raise(&self) {
        // Relaxed: it carries nothing.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it has been raised.
    #[inline]
    pub fn is_up(&self) -> bool {
        // Relaxed: as in `raise`.
        self.0.load(Ordering::Relaxed)
    }
}

//! Hints: numbers that threads leave for each other and that may be outdated or lost.
//!
//! Nothing is ordered by a hint and nothing may depend on it but speed: counters with one writer, costs learned, times of last
//! events.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number anybody may read and write at any time. See the [module page](self).
///
/// ```
/// use windrow_sync::hint::Hint;
///
/// let seen = Hint::new(3);
/// seen.add(2);
/// assert_eq!(seen.get(), 5);
/// ```
#[derive(Debug, Default)]
pub struct Hint(AtomicU64);

impl Hint {
    /// One that says `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// What was written last, or a little before.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed)
    }

    /// Says `value` from now on.
    #[inline]
    pub fn set(&self, value: u64) {
        // Relaxed: module page.
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `more`, wrapping. Exact if one thread at a time writes; no locked instruction.
    #[inline]
    pub fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// The number as a float of the same bits.
    #[inline]
    pub fn get_f64(&self) -> f64 {
        f64::from_bits(self.get())
    }

    /// Says a float.
    #[inline]
    pub fn set_f64(&self, value: f64) {
        self.set(value.to_bits());
    }
}

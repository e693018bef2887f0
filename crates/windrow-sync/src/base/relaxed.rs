//! Relaxed numbers: threads leave them for each other, and they may be outdated or lost.
//!
//! They order nothing, so only speed and what is shown to people may depend on them. They hold counters, learned costs, and times of last
//! events.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that any thread may read and write at any time. See the [module page](self).
#[derive(Debug, Default)]
pub struct RelaxedU64(AtomicU64);

impl RelaxedU64 {
    /// A number with the value `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// The last value written, or a slightly older one.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed)
    }

    /// Writes `value`.
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

    /// Adds `more`, wrapping, by a locked instruction: exact with any number of writers. Returns the number before.
    #[inline]
    pub fn count(&self, more: u64) -> u64 {
        // Relaxed: module page.
        self.0.fetch_add(more, Ordering::Relaxed)
    }

    /// The number as a float with the same bits.
    #[inline]
    pub fn get_f64(&self) -> f64 {
        f64::from_bits(self.get())
    }

    /// Writes a float.
    #[inline]
    pub fn set_f64(&self, value: f64) {
        self.set(value.to_bits());
    }
}

//! Marks that members of a region set for each other: where to stop searching, how many more are wanted.
//!
//! All accesses are Relaxed: a mark publishes no data. What was found travels in other ways. A mark that is seen late costs
//! unneeded work, never a result.

use crate::primitives::{AtomicUsize, Ordering};

/// The lowest index at which a match was found. Indices behind it need no check.
#[derive(Debug)]
pub struct FoundBefore(AtomicUsize);

impl Default for FoundBefore {
    fn default() -> Self {
        Self::new()
    }
}

impl FoundBefore {
    /// No match yet.
    pub fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// The lowest index at which a match was found, `usize::MAX` without one.
    #[inline]
    pub fn get(&self) -> usize {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed)
    }

    /// Reports a match at `at`.
    pub fn lower(&self, at: usize) {
        // Relaxed: module page.
        self.0.fetch_min(at, Ordering::Relaxed);
    }
}

/// A fixed number of tickets.
#[derive(Debug)]
pub struct RemainingQuota(AtomicUsize);

impl RemainingQuota {
    /// `n` tickets.
    pub fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }

    /// Takes one, if one is left: returns true exactly `n` times.
    #[inline]
    pub fn draw(&self) -> bool {
        // Relaxed: module page. The read-modify-write alone makes the count right; without a ticket nothing is written.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Whether none is left. Tickets never come back.
    #[inline]
    pub fn gone(&self) -> bool {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed) == 0
    }
}

//! Marks that members of a region set for each other: where to stop looking, how many more are wanted.
//!
//! All accesses are Relaxed: a mark carries nothing. What was found travels by other ways; a mark that is seen late costs work
//! that nobody needed, never a result.

use crate::primitives::{AtomicUsize, Ordering};

/// The lowest index at which something was found. Indices behind it need no look.
#[derive(Debug)]
pub struct Mark(AtomicUsize);

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl Mark {
    /// Nothing is found.
    pub fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// The lowest index at which something was found, `usize::MAX` if nothing was.
    #[inline]
    pub fn get(&self) -> usize {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed)
    }

    /// Something was found at `at`.
    pub fn lower(&self, at: usize) {
        // Relaxed: module page.
        self.0.fetch_min(at, Ordering::Relaxed);
    }
}

/// So many and no more.
#[derive(Debug)]
pub struct Tickets(AtomicUsize);

impl Tickets {
    /// `n` tickets.
    pub fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }

    /// Takes one, if there is one: true exactly `n` times.
    #[inline]
    pub fn draw(&self) -> bool {
        // Relaxed: module page. The exchange alone makes the count right; without a ticket nothing is written.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// None is left. They never come back.
    #[inline]
    pub fn gone(&self) -> bool {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed) == 0
    }
}

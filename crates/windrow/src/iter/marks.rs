//! Marks that members of a region set for each other: where to stop searching, how many more are wanted.
//!
//! All accesses are Relaxed: a mark publishes no data. A find itself is passed under a lock, or in the result of its chunk. A member that
//! observes a mark late does unneeded work; the result is the same.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The lowest index at which a match was found. Indices after it need no check.
#[derive(Debug)]
pub(crate) struct FoundBefore(AtomicUsize);

/// No match yet.
impl Default for FoundBefore {
    fn default() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }
}

impl FoundBefore {
    /// The lowest index at which a match was found, `usize::MAX` without one.
    #[inline]
    pub(crate) fn get(&self) -> usize {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed)
    }

    /// Reports a match at `at`.
    pub(crate) fn lower(&self, at: usize) {
        // Relaxed: module page.
        self.0.fetch_min(at, Ordering::Relaxed);
    }
}

/// A fixed number of tickets.
#[derive(Debug)]
pub struct RemainingQuota(AtomicUsize);

impl Clone for RemainingQuota {
    fn clone(&self) -> Self {
        // Relaxed: module page.
        Self(AtomicUsize::new(self.0.load(Ordering::Relaxed)))
    }
}

impl RemainingQuota {
    /// `n` tickets.
    pub(crate) fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }

    /// Takes a ticket, if one is left: returns true exactly `n` times.
    #[inline]
    pub(crate) fn draw(&self) -> bool {
        // Relaxed: module page. The read-modify-write alone makes the count right; without a ticket nothing is written.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// True if no ticket is left. Tickets never come back.
    #[inline]
    pub(crate) fn gone(&self) -> bool {
        // Relaxed: module page.
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

    use super::*;

    #[test]
    fn marks_only_sink_and_tickets_are_so_many() {
        let (mark, tickets, drawn) = (FoundBefore::default(), RemainingQuota::new(100), AtomicIsize::new(0));
        assert_eq!(mark.get(), usize::MAX);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (mark, tickets, drawn) = (&mark, &tickets, &drawn);
                scope.spawn(move || {
                    for i in 0..50 {
                        mark.lower(100 - i - thread);
                        if tickets.draw() {
                            drawn.fetch_add(1, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((mark.get(), drawn.into_inner(), tickets.gone()), (48, 100, true));
        mark.lower(60);
        assert_eq!(mark.get(), 48);
        assert!(!tickets.draw());
    }
}

//! A barrier that only spins: the least time possible, if every member has a CPU.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// The sense-reversing barrier (Mellor-Crummey and Scott 1991, section 3.1): members count down, and the last one turns the sense. Waiting
/// members spin, and never yield their CPU.
#[derive(Debug)]
pub struct Spin {
    width: usize,
    missing: Line<AtomicUsize>,
    turn: Line<AtomicU32>,
}

impl Spin {
    /// For `width` members.
    pub fn new(width: usize) -> Self {
        Self { width, missing: Line(AtomicUsize::new(width)), turn: Line::default() }
    }

    /// Waits for all other members.
    pub fn wait(&self) {
        // Relaxed: the turn cannot end before this member has arrived.
        let turn = self.turn.0.load(Ordering::Relaxed);
        // AcqRel, pairs with itself: the last member sees everything that the others did before they arrived.
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Relaxed: a member counts again only after it has seen the store below.
            self.missing.0.store(self.width, Ordering::Relaxed);
            // Release, pairs with the Acquire below.
            self.turn.0.store(turn.wrapping_add(1), Ordering::Release);
        } else {
            while self.turn.0.load(Ordering::Acquire) == turn {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_leaves_before_all_have_come() {
        for width in [1, 2, 3] {
            let (spin, come) = (Spin::new(width), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..width {
                    scope.spawn(|| {
                        for round in 1..=300 {
                            // Relaxed: the barrier under test must order it.
                            come.fetch_add(1, Ordering::Relaxed);
                            spin.wait();
                            // Relaxed: as above. Others may be one round ahead.
                            assert!(come.load(Ordering::Relaxed) >= round * width);
                        }
                    });
                }
            });
        }
    }
}

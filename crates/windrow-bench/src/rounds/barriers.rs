//! Barriers that do nothing but spin: what is the least, as long as every member has a CPU.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A line of memory of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// The sense-reversing barrier (Mellor-Crummey and Scott 1991, section 3.1): members count down, the last one turns the sense. Those who wait
/// spin, and never give up their CPU.
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

    /// Waits for all others.
    pub fn wait(&self) {
        // Relaxed: the turn cannot end before this member has arrived.
        let turn = self.turn.0.load(Ordering::Relaxed);
        // AcqRel, pairs with itself: the last one has seen what all others did before they came.
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Relaxed: those who count again have seen the store below.
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

/// Every member writes a line of its own and looks at all others': nothing is faster, because a line must go from each to each.
#[derive(Debug)]
pub struct Lines(Vec<Line<AtomicU32>>);

impl Lines {
    /// For `width` members.
    pub fn new(width: usize) -> Self {
        Self((0..width).map(|_| Line::default()).collect())
    }

    /// Waits for all others.
    pub fn wait(&self, member: usize) {
        // Relaxed: nobody else writes this line.
        let turn = self.0[member].0.load(Ordering::Relaxed).wrapping_add(1);
        // Release, pairs with the Acquire below.
        self.0[member].0.store(turn, Ordering::Release);
        for other in &self.0 {
            // One turn ahead is there too: it has seen this member's line.
            while other.0.load(Ordering::Acquire).wrapping_sub(turn) > 1 {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::presence::Presence;

    #[test]
    fn nobody_leaves_before_all_have_come() {
        for width in [1, 2, 3] {
            let (spin, lines) = (Spin::new(width), Lines::new(width));
            let waits: [&(dyn Fn(usize) + Sync); 2] = [&|_| spin.wait(), &|member| lines.wait(member)];
            for wait in waits {
                let presence = Presence::new(width);
                std::thread::scope(|scope| {
                    for member in 0..width {
                        let presence = &presence;
                        scope.spawn(move || {
                            for round in 0..30 {
                                presence.arrive(member, round);
                                wait(member);
                                presence.check(width, round);
                            }
                        });
                    }
                });
            }
        }
    }
}

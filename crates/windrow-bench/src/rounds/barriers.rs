//! Barriers that only spin: the least time possible, if every member has a CPU.

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

/// The same in one word, with arrivals in its low bits and the turn above them. The member that ends a turn arrives at the next one while
/// it still has the line. A member that sees this has the line for its own arrival. So one line goes one way in each crossing, the least
/// possible.
#[derive(Debug)]
pub struct Packed {
    width: u32,
    word: Line<AtomicU32>,
}

/// One turn in the word.
const TURN: u32 = 1 << 8;

impl Packed {
    /// For `width` members.
    ///
    /// # Panics
    /// With 256 and more.
    pub fn new(width: usize) -> Self {
        let width = u32::try_from(width).ok().filter(|width| *width < TURN).expect("arrivals have 8 bits");
        Self { width, word: Line::default() }
    }

    /// Waits for all other members.
    pub fn wait(&self) {
        // AcqRel, pairs with itself: the last member sees everything that the others did before they arrived.
        let before = self.word.0.fetch_add(1, Ordering::AcqRel);
        let turn = before / TURN;
        if before % TURN + 1 == self.width {
            // Release, pairs with the Acquire below.
            self.word.0.store(turn.wrapping_add(1).wrapping_mul(TURN), Ordering::Release);
        } else {
            while self.word.0.load(Ordering::Acquire) / TURN == turn {
                std::hint::spin_loop();
            }
        }
    }
}

/// Every member writes a separate line and reads all others': the time of an exchange of lines.
#[derive(Debug)]
pub struct Lines(Vec<Line<AtomicU32>>);

impl Lines {
    /// For `width` members.
    pub fn new(width: usize) -> Self {
        Self((0..width).map(|_| Line::default()).collect())
    }

    /// Waits for all other members.
    pub fn wait(&self, member: usize) {
        // Relaxed: only this member writes this line.
        let turn = self.0[member].0.load(Ordering::Relaxed).wrapping_add(1);
        // Release, pairs with the Acquire below.
        self.0[member].0.store(turn, Ordering::Release);
        for other in &self.0 {
            // A member one turn ahead has arrived too: it has seen this member's line.
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
    fn no_member_leaves_before_all_have_come() {
        for width in [1, 2, 3] {
            let (spin, packed, lines) = (Spin::new(width), Packed::new(width), Lines::new(width));
            let waits: [&(dyn Fn(usize) + Sync); 3] =
                [&|_| spin.wait(), &|_| packed.wait(), &|member| lines.wait(member)];
            for wait in waits {
                let presence = Presence::new(width);
                std::thread::scope(|scope| {
                    for member in 0..width {
                        let presence = &presence;
                        scope.spawn(move || {
                            for round in 0..300 {
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

//! A block of numbers in parts that are owned one by one and joined again. Peers that have only a barrier share a round's work this way, in
//! safe code.
//!
//! A part is a run of a [`BytesMut`], which can be cut in two and joined with the part behind it, without a copy. The parts of the
//! members follow each other. As the rounds go on, all boundaries move to the right. A member gives the numbers left of its new
//! boundary to the member before it. Boundaries move in steps of `STEP` numbers, so few rounds move them. Member 0 has the head of
//! every round.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;

use super::{add, numbers};

/// The step of a boundary, in numbers: a member has at most two nanoseconds of work more than its share.
const STEP: usize = 32;
/// With this few numbers left for each member, member 0 does the rest.
const FEW: usize = 128;

/// The boundaries of the parts in each round.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Number of numbers.
    pub n: usize,
    /// Number of members.
    pub width: usize,
}

impl Cuts {
    /// The beginning of the part of `member` in round `i`; `None` if member 0 has all numbers.
    pub fn at(self, member: usize, i: usize) -> Option<usize> {
        let tail = self.n - i - 1;
        // Rounded up, and one beyond the next head, so that member 0 has that head in the next round.
        (tail > FEW * self.width).then(|| (i + 2 + tail * member / self.width).next_multiple_of(STEP).min(self.n))
    }
}

/// A part: consecutive numbers.
#[derive(Debug, Default)]
pub struct Part {
    start: usize,
    bytes: BytesMut,
}

impl Part {
    /// A part with all numbers.
    pub fn all(x: BytesMut) -> Self {
        Self { start: 0, bytes: x }
    }

    /// The numbers' memory.
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    /// The end of the part.
    fn end(&self) -> usize {
        self.start + self.bytes.len() / 8
    }

    /// Cuts off the numbers before `end`.
    fn cut(&mut self, end: usize) -> Part {
        let front = Part { start: self.start, bytes: self.bytes.split_to(8 * (end - self.start)) };
        self.start = end;
        front
    }

    /// Joins the part behind this one.
    fn join(&mut self, behind: Part) {
        if behind.bytes.is_empty() {
            return;
        }
        if self.bytes.is_empty() {
            *self = behind;
            return;
        }
        assert_eq!(self.end(), behind.start, "parts are joined in order");
        self.bytes.unsplit(behind.bytes);
    }

    /// The number at `at`.
    fn get(&mut self, at: usize) -> f64 {
        numbers(&mut self.bytes)[at - self.start]
    }

    /// Adds the head of round `i` to the numbers after it.
    pub fn add(&mut self, head: f64, i: usize) {
        let from = (i + 1).saturating_sub(self.start);
        let part = numbers(&mut self.bytes);
        if from < part.len() {
            add(head, &mut part[from..]);
        }
    }
}

/// Cuts the parts of the first round.
pub fn deal(x: BytesMut, width: usize) -> Vec<Part> {
    let cuts = Cuts { n: x.len() / 8, width };
    let mut rest = Part::all(x);
    let mut parts: Vec<Part> = (1..width).map(|member| rest.cut(cuts.at(member, 0).unwrap_or(rest.end()))).collect();
    parts.push(rest);
    parts
}

/// Deals the parts of round `i` to their members, by the member that has all of them. Returns the head of the round.
pub fn deal_again(parts: &mut [Part], cuts: Cuts, i: usize) -> f64 {
    for member in 1..parts.len() {
        let end = parts[member].end();
        let start = cuts.at(member, i).unwrap_or(end);
        if start > parts[member].start {
            let front = parts[member].cut(start);
            let to = if start == end { 0 } else { member - 1 };
            parts[to].join(front);
        }
    }
    parts[0].get(i)
}

/// Joins all numbers, after the last round.
pub fn gather(parts: impl IntoIterator<Item = Part>) -> BytesMut {
    let mut all = Part::default();
    parts.into_iter().for_each(|part| all.join(part));
    all.bytes
}

/// A separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// The shared state of a team with a plain barrier.
#[derive(Debug)]
pub struct Shared {
    cuts: Cuts,
    /// For even and odd rounds: one is read while the next is written.
    heads: Line<[AtomicU64; 2]>,
    /// The numbers that each member gives to the member before it.
    given: Vec<Line<Mutex<Part>>>,
}

impl Shared {
    /// For the parts that [`deal`] made.
    pub fn new(cuts: Cuts) -> Self {
        Self { cuts, heads: Line::default(), given: (0..cuts.width).map(|_| Line::default()).collect() }
    }

    /// Runs all rounds of one member. `wait` waits for the other members, once a round, as in the document.
    pub fn rounds(&self, member: usize, part: &mut Part, rounds: usize, mut wait: impl FnMut()) {
        for i in 0..rounds {
            if member > 0 {
                self.give(member, part, i);
            } else {
                // Relaxed: the barrier is between this store and the loads, and between those and the next store to the same place.
                self.heads.0[i % 2].store(part.get(i).to_bits(), Ordering::Relaxed);
            }
            wait();
            // Relaxed: the barrier orders this load, as above.
            let head = f64::from_bits(self.heads.0[i % 2].load(Ordering::Relaxed));
            self.take(member, part, i);
            part.add(head, i);
        }
    }

    fn give(&self, member: usize, part: &mut Part, i: usize) {
        let start = self.cuts.at(member, i).unwrap_or(part.end());
        if start > part.start {
            *self.given[member].0.lock().expect("no thread panics with it") = part.cut(start);
        }
    }

    fn take(&self, member: usize, part: &mut Part, i: usize) {
        if member + 1 == self.cuts.width {
            return;
        }
        let from = match self.cuts.at(member + 1, i) {
            Some(end) if end > part.end() => member + 1..member + 2,
            None if member == 0 && part.end() < self.cuts.n => 1..self.cuts.width,
            _ => return,
        };
        for from in from {
            part.join(std::mem::take(&mut *self.given[from].0.lock().expect("no thread panics with it")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Field;
    use std::sync::Barrier;

    #[test]
    fn parts_cover_every_tail_evenly_and_in_order() {
        for (n, width) in [(1000, 2), (5000, 3), (10_000, 4)] {
            let cuts = Cuts { n, width };
            for i in 0..n - FEW * width - 1 {
                let at: Vec<usize> = (1..width).map(|member| cuts.at(member, i).unwrap()).chain([n]).collect();
                assert!(at.is_sorted() && at[0] > i + 1);
                let share = (n - i - 1) / width;
                assert!(at.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(share) <= STEP + 1), "round {i}: {at:?}");
            }
        }
    }

    #[test]
    fn nothing_is_copied_when_parts_are_cut_and_joined() {
        let mut x = Field::new(1000, 1).x;
        let place = x.as_mut_ptr();
        let mut parts = deal(x, 3);
        deal_again(&mut parts, Cuts { n: 1000, width: 3 }, 200);
        let mut x = gather(parts);
        assert_eq!((x.as_mut_ptr(), x.len()), (place, 8000));
    }

    #[test]
    fn teams_of_every_width_give_what_sequential_gives() {
        for width in 1..=5 {
            for (n, rounds) in [(3000, 3000), (3000, 700), (100, 100), (1, 1)] {
                let mut field = Field::new(n, rounds);
                field.reset();
                let cuts = Cuts { n, width };
                let (shared, barrier) = (Shared::new(cuts), Barrier::new(width));
                let mut parts = deal(std::mem::take(&mut field.x), width);
                std::thread::scope(|scope| {
                    for (member, part) in parts.iter_mut().enumerate() {
                        let (shared, barrier) = (&shared, &barrier);
                        scope.spawn(move || {
                            shared.rounds(member, part, rounds, || {
                                barrier.wait();
                            })
                        });
                    }
                });
                field.x = gather(parts);
                assert!(field.is_right(), "{width} members, {rounds} rounds of {n}");
            }
        }
    }
}

//! Rounds that follow each other, and can each be shared among threads: `x[i + 1..] += x[i]` for one `i` after the other.
//!
//! The problem and the peers are those of Sarah El Kazdadi's "speeding up data parallel code sections with... tokio?". A round takes a
//! microsecond, so the comparison is about how fast threads synchronize.

use bytes::BytesMut;

use crate::work::{Item, work};

pub mod barriers;
pub mod parts;
pub mod presence;
pub mod split;

/// The block's bytes as numbers.
///
/// # Panics
/// If the block is not aligned for numbers; the allocators in use always align it.
pub fn numbers(bytes: &mut [u8]) -> &mut [f64] {
    bytemuck::cast_slice_mut(bytes)
}

/// `n` numbers for which all rounds stay exact.
///
/// Every round doubles an error, so arbitrary numbers would soon become infinite and hide a missing round. So the heads are drawn: random
/// multiples of 2^-20 in [-1, 1). Their sums stay below 2^20 and are exact in a double. `peers/openmp.c` has the same numbers.
pub fn input(n: usize) -> Vec<f64> {
    let mut sum = 0.0;
    (0..n as u64)
        .map(|at| {
            let drawn = work(Item { seed: at + 1, turns: 2 }) >> 43;
            let head = (drawn as f64 - f64::from(1 << 20)) / f64::from(1 << 20);
            let number = head - sum;
            sum += head;
            number
        })
        .collect()
}

/// A round's work on one part. Every arm here calls this one function, so arms differ only in what happens between rounds.
#[inline(never)]
pub fn add(head: f64, part: &mut [f64]) {
    for number in part {
        *number += head;
    }
}

/// The first `rounds` rounds, one after the other.
pub fn sequential(x: &mut [f64], rounds: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        add(*head, tail);
    }
}

/// The work of one of `width` threads in these rounds, without waiting for the others: the least possible time. It is the last part of each
/// tail, which shrinks and never moves.
pub fn one_share(x: &mut [f64], rounds: usize, width: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        let share = tail.len() / width;
        let from = tail.len() - share;
        add(*head, &mut tail[from..]);
    }
}

/// A checksum of the numbers' bits, equal to that of the peer in C.
pub fn checksum(x: &[f64]) -> u64 {
    x.iter().fold(0, |sum: u64, number| sum.wrapping_mul(31).wrapping_add(number.to_bits()))
}

/// The numbers that all arms work on in turn, and their expected values.
#[derive(Debug, Default)]
pub struct Field {
    /// Number of rounds.
    pub rounds: usize,
    /// The numbers.
    pub x: BytesMut,
    input: Vec<f64>,
    expected: Vec<f64>,
}

impl Field {
    /// `n` numbers for `rounds` rounds.
    pub fn new(n: usize, rounds: usize) -> Self {
        let input = input(n);
        let mut expected = input.clone();
        sequential(&mut expected, rounds);
        Self { rounds, x: BytesMut::zeroed(8 * n), input, expected }
    }

    /// Number of numbers.
    pub fn len(&self) -> usize {
        self.input.len()
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// Resets the numbers to their start values.
    pub fn reset(&mut self) {
        numbers(&mut self.x).copy_from_slice(&self.input);
    }

    /// Whether the numbers equal the expected result of the rounds, bit for bit.
    pub fn is_right(&self) -> bool {
        self.x == bytemuck::cast_slice::<f64, u8>(&self.expected)
    }

    /// The checksum of the expected numbers.
    pub fn checksum(&self) -> u64 {
        checksum(&self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_exact_and_every_one_counts() {
        let n = 5000;
        let mut x = input(n);
        sequential(&mut x, n);
        // The value at i afterwards is the head that was drawn for it.
        for (at, head) in x.iter().enumerate() {
            assert!((-1.0..1.0).contains(head) && (head * f64::from(1 << 20)).fract() == 0.0, "{at}: {head}");
        }
        for left_out in [0, 1, n / 2, n - 2] {
            let mut y = input(n);
            for i in (0..n).filter(|i| *i != left_out) {
                let (head, tail) = y[i..].split_first_mut().unwrap();
                add(*head, tail);
            }
            // A head of zero adds nothing.
            assert!(checksum(&y) != checksum(&x) || x[left_out] == 0.0, "round {left_out} may be left out");
        }
    }

    #[test]
    fn a_field_is_right_after_its_rounds_only() {
        let mut field = Field::new(100, 60);
        field.reset();
        assert!(!field.is_right());
        sequential(numbers(&mut field.x), 59);
        assert!(!field.is_right());
        field.reset();
        sequential(numbers(&mut field.x), 60);
        assert!(field.is_right());
    }

    #[test]
    fn one_share_is_the_last_of_each_tail() {
        let mut x = vec![1.0; 9];
        one_share(&mut x, 2, 2);
        // The tails are x[1..] and x[2..]: their last 4 and last 3.
        assert_eq!(x, [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
    }
}

//! Rounds that follow each other, and can each be shared among threads: `x[i + 1..] += x[i]` for one `i` after the other.
//!
//! The problem and the peers are those of Sarah El Kazdadi's "speeding up data parallel code sections with... tokio?". A round takes a
//! microsecond, so the comparison is about how fast threads synchronize.

use bytes::BytesMut;

pub use windrow_scenarios::rounds::{add, input, one_share, sequential};

pub mod barriers;
pub mod parts;
pub mod split;

/// The block's bytes as numbers.
///
/// # Panics
/// If the block is not aligned for numbers; the allocators in use always align it.
pub fn numbers(bytes: &mut [u8]) -> &mut [f64] {
    bytemuck::cast_slice_mut(bytes)
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
}

//! The numbers that collectives carry, and how they are added up.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A number that collectives carry and add up: `f32`, `f64`, [`half::bf16`], [`half::f16`], and `u64` for counts.
///
/// ```
/// use windrow_collective::Element;
///
/// // In rank order: 1e20 and -1e20 cancel out before the 1 is added.
/// let mut sums = [0.0];
/// f64::sum(&[&[1e20], &[-1e20], &[1.0]], &mut sums);
/// assert_eq!(sums, [1.0]);
/// ```
pub trait Element: sealed::Sealed + bytemuck::Pod + Default + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// Its name in messages.
    const NAME: &'static str;

    /// Adds up the ranks' parts element by element, in rank order: `((x0 + x1) + x2) + ...`.
    ///
    /// `bf16` and `f16` are added up in `f32` and rounded once; `u64` wraps around.
    ///
    /// # Panics
    /// The parts are not all as long as the sums, or there are none.
    fn sum(parts: &[&[Self]], sums: &mut [Self]);
}

macro_rules! elements {
    ($($element:ident: |$sum:ident, $part:ident| $add:expr;)*) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const NAME: &'static str = stringify!($element);

            fn sum(parts: &[&[Self]], sums: &mut [Self]) {
                sums.copy_from_slice(parts[0]);
                for part in &parts[1..] {
                    assert_eq!(part.len(), sums.len());
                    for ($sum, &$part) in sums.iter_mut().zip(*part) {
                        *$sum = $add;
                    }
                }
            }
        }
    )*};
}

elements! {
    f32: |sum, part| *sum + part;
    f64: |sum, part| *sum + part;
    u64: |sum, part| sum.wrapping_add(part);
}

macro_rules! halves {
    ($($element:ident)*) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const NAME: &'static str = stringify!($element);

            fn sum(parts: &[&[Self]], sums: &mut [Self]) {
                // Sums a strip at a time in f32, so that the strip stays in the first-level cache.
                const STRIP: usize = 512;
                let (mut wide, mut next) = ([0.0_f32; STRIP], [0.0_f32; STRIP]);
                for (strip, sums) in sums.chunks_mut(STRIP).enumerate() {
                    let (from, wide, next) = (strip * STRIP, &mut wide[..sums.len()], &mut next[..sums.len()]);
                    for (rank, part) in parts.iter().enumerate() {
                        let part = &part[from..from + sums.len()];
                        if rank == 0 {
                            part.convert_to_f32_slice(wide);
                            continue;
                        }
                        part.convert_to_f32_slice(next);
                        wide.iter_mut().zip(&*next).for_each(|(wide, next)| *wide += next);
                    }
                    sums.convert_from_f32_slice(wide);
                }
            }
        }
    )*};
}

halves!(bf16 f16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_go_by_rank() {
        // The order decides whether the 1 is lost.
        let parts = [&[1e20_f64][..], &[-1e20], &[1.0]];
        let mut sums = [0.0];
        f64::sum(&parts, &mut sums);
        assert_eq!(sums, [1.0]);
        f64::sum(&[parts[2], parts[0], parts[1]], &mut sums);
        assert_eq!(sums, [0.0]);
    }

    #[test]
    fn halves_are_rounded_once() {
        // 1 + 2^-8 is a tie in bf16: rounded after each step, the sum would stay 1.
        let parts: Vec<Vec<bf16>> = [1.0, 1.0 / 256.0, 1.0 / 256.0].map(|x| vec![bf16::from_f32(x); 1300]).into();
        let parts: Vec<&[bf16]> = parts.iter().map(Vec::as_slice).collect();
        let mut sums = vec![bf16::ZERO; 1300];
        bf16::sum(&parts, &mut sums);
        assert_eq!(sums, vec![bf16::from_f32(1.0 + 1.0 / 128.0); 1300]);
    }

    #[test]
    fn halves_of_both_kinds_are_summed_in_f32() {
        // Beyond the range of f16 between the ranks, and back.
        let parts = [60_000.0, 60_000.0, -60_000.0].map(f16::from_f32);
        let mut sums = [f16::ZERO];
        f16::sum(&[&parts[..1], &parts[1..2], &parts[2..]], &mut sums);
        assert_eq!(sums, [parts[0]]);
    }

    #[test]
    fn negative_zero_survives_alone() {
        let mut sums = [bf16::ZERO];
        bf16::sum(&[&[bf16::NEG_ZERO]], &mut sums);
        assert!(sums[0].is_sign_negative());
    }
}

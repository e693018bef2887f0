//! The numbers that matrices are made of, and in which their products are computed.

use std::fmt;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

mod sealed {
    use crate::kernel::Kernel;

    /// What the driver needs of a number.
    pub trait Narrow: Sized {
        type Wide: Accumulate;

        fn widen(narrow: &[Self], wide: &mut [Self::Wide]);

        /// Rounds to the nearest.
        fn narrow(wide: &[Self::Wide], narrow: &mut [Self]);

        /// The same elements, if no conversion is needed.
        fn as_wide(elements: &mut [Self]) -> Option<&mut [Self::Wide]>;

        /// The same elements, to be read.
        fn wide(elements: &[Self]) -> Option<&[Self::Wide]>;
    }

    #[expect(private_bounds, reason = "sealed: kernels are this crate's affair")]
    pub trait Accumulate: Kernel + PartialEq + std::ops::Mul<Output = Self> {
        const ONE: Self;
    }
}

pub(crate) use sealed::{Accumulate, Narrow};

/// A number that matrices are made of: `f32`, `f64`, [`half::bf16`] and [`half::f16`].
///
/// ```
/// fn sums_are_f32<T: windrow_product::Number<Sum = f32>>() {}
/// sums_are_f32::<windrow_product::bf16>();
/// ```
pub trait Number: Narrow<Wide = Self::Sum> + Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The number in which products are computed and added up: `f64` for `f64`, `f32` for the others.
    type Sum: Accumulate + fmt::Debug + Send + Sync + 'static;
}

macro_rules! wide {
    ($($number:ident)+) => {$(
        impl Accumulate for $number {
            const ONE: Self = 1.0;
        }

        impl Number for $number {
            type Sum = Self;
        }

        impl Narrow for $number {
            type Wide = Self;

            #[inline]
            fn widen(narrow: &[Self], wide: &mut [Self]) {
                wide.copy_from_slice(narrow);
            }

            #[inline]
            fn narrow(wide: &[Self], narrow: &mut [Self]) {
                narrow.copy_from_slice(wide);
            }

            #[inline]
            fn as_wide(elements: &mut [Self]) -> Option<&mut [Self]> {
                Some(elements)
            }

            #[inline]
            fn wide(elements: &[Self]) -> Option<&[Self]> {
                Some(elements)
            }
        }
    )+};
}

wide!(f32 f64);

impl Number for bf16 {
    type Sum = f32;
}

impl Narrow for bf16 {
    type Wide = f32;

    #[inline]
    fn widen(narrow: &[Self], wide: &mut [f32]) {
        assert_eq!(narrow.len(), wide.len());
        for (wide, narrow) in wide.iter_mut().zip(narrow) {
            // Without the conversion's test for NaN, which vectors would have to make too.
            *wide = f32::from_bits(u32::from(narrow.to_bits()) << 16);
        }
    }

    #[inline]
    fn narrow(wide: &[f32], narrow: &mut [Self]) {
        assert_eq!(narrow.len(), wide.len());
        for (narrow, &wide) in narrow.iter_mut().zip(wide) {
            *narrow = Self::from_f32(wide);
        }
    }

    #[inline]
    fn as_wide(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    #[inline]
    fn wide(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Number for f16 {
    type Sum = f32;
}

impl Narrow for f16 {
    type Wide = f32;

    #[inline]
    fn widen(narrow: &[Self], wide: &mut [f32]) {
        narrow.convert_to_f32_slice(wide);
    }

    #[inline]
    fn narrow(wide: &[f32], narrow: &mut [Self]) {
        narrow.convert_from_f32_slice(wide);
    }

    #[inline]
    fn as_wide(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    #[inline]
    fn wide(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

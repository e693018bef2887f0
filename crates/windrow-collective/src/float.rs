//! The numbers that matrices are made of, and the memory that their products need.

use std::sync::Mutex;

use half::{bf16, f16};
use windrow::prelude::*;
use windrow_product::{Number, PackedB, Part, Workspace};

use crate::{Element, MatRef};

/// A number that matrices are made of: `f32`, `f64`, [`half::bf16`] and [`half::f16`]. Products of the last two are computed and added up in `f32`.
///
/// ```
/// use windrow_collective::{Error, Float, Fused, Group, MatMut, MatRef, Tiles};
///
/// fn square<T: Float>(a: &[T], n: usize) -> Result<Vec<T>, Error> {
///     let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
///     let (a, mut c) = (MatRef::new(a, n, n), vec![T::default(); n * n]);
///     fused.matmul_all_reduce(a, a, MatMut::new(&mut c, n, n), &Tiles::None)?;
///     Ok(c)
/// }
/// assert_eq!(square(&[1.0_f64, 1.0, 0.0, 1.0], 2)?, [1.0, 2.0, 0.0, 1.0]);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
pub trait Float: Element + Multiply + From<u8> {}

impl Float for f32 {}
impl Float for f64 {}
impl Float for bf16 {}
impl Float for f16 {}

/// Products of one kind of numbers. Not to be called from outside this crate.
pub trait Multiply: Number {
    /// What products of these numbers need.
    fn memory(scratch: &mut Scratch) -> &mut Memory<Self>;

    /// `sum + beta * old`.
    fn plus(sum: Self, beta: Self::Sum, old: Self) -> Self;
}

/// A packed right operand, and the memory of products by it.
#[derive(Debug, Default)]
pub struct Memory<T: Number> {
    pub(crate) b: PackedB<T>,
    /// One for each thread of a product.
    pub(crate) workspaces: Mutex<Vec<Workspace<T>>>,
}

impl<T: Number> Memory<T> {
    /// Packs a matrix that was checked.
    pub(crate) fn pack(&mut self, b: MatRef<'_, T>, threads: usize) {
        if threads > 1 {
            self.b.parts(b.matrix()).into_par_iter().for_each(Part::pack);
        } else {
            self.b.pack(b.matrix());
        }
    }
}

/// Memory of products, kept from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    single: Memory<f32>,
    double: Memory<f64>,
    brain: Memory<bf16>,
    half: Memory<f16>,
}

macro_rules! multiply {
    ($($float:ident $memory:ident: |$sum:ident, $beta:ident, $old:ident| $plus:expr;)*) => {$(
        impl Multiply for $float {
            fn memory(scratch: &mut Scratch) -> &mut Memory<Self> {
                &mut scratch.$memory
            }

            fn plus($sum: Self, $beta: Self::Sum, $old: Self) -> Self {
                $plus
            }
        }
    )*};
}

multiply! {
    f32 single: |sum, beta, old| sum + beta * old;
    f64 double: |sum, beta, old| sum + beta * old;
    bf16 brain: |sum, beta, old| bf16::from_f32(sum.to_f32() + beta * old.to_f32());
    f16 half: |sum, beta, old| f16::from_f32(sum.to_f32() + beta * old.to_f32());
}

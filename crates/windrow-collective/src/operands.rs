//! What a product is made of.

use windrow_product::PackedB;

use crate::float::Float;
use crate::{Error, MatRef};

/// The operands of a product, `alpha * a * b`, and the factor `beta` of the old contents of `c`: as in BLAS, `c = alpha * a * b + beta * c`. `alpha` is
/// 1 and `beta` 0 unless they are set; ranks may have different ones.
///
/// ```
/// use windrow_collective::{Fused, Group, MatMut, MatRef, Operands, Operation, Tiles};
///
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// // A weight is packed once, for any number of calls.
/// let weight = [1.0_f32, 2.0, 3.0, 4.0];
/// let packed = MatRef::new(&weight, 2, 2).transposed().pack()?;
///
/// let (a, mut c) = ([1.0, 0.0, 0.0, 1.0], [100.0; 4]);
/// let operands = Operands::packed(MatRef::new(&a, 2, 2), &packed).alpha(10.0).beta(1.0);
/// fused.run(Operation::MatmulAllReduce, operands, MatMut::new(&mut c, 2, 2), &Tiles::None)?;
/// assert_eq!(c, [110.0, 130.0, 120.0, 140.0]);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, T: Float> {
    pub(crate) a: MatRef<'a, T>,
    pub(crate) b: Right<'a, T>,
    pub(crate) alpha: Option<T::Sum>,
    pub(crate) beta: Option<T::Sum>,
}

/// A right operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right<'a, T: Float> {
    /// To be packed in the call, if that pays.
    Plain(MatRef<'a, T>),
    Packed(&'a PackedB<T>),
}

impl<'a, T: Float> Operands<'a, T> {
    /// Two matrices. Each call with more than a few rows packs `b`.
    pub fn new(a: MatRef<'a, T>, b: MatRef<'a, T>) -> Self {
        Self { a, b: Right::Plain(b), alpha: None, beta: None }
    }

    /// A matrix, and one that was [packed](MatRef::pack) before.
    pub fn packed(a: MatRef<'a, T>, b: &'a PackedB<T>) -> Self {
        Self { a, b: Right::Packed(b), alpha: None, beta: None }
    }

    /// Sets the factor of the product. With 0, an infinity or NaN in `a` or `b` still gives NaN.
    #[must_use]
    pub fn alpha(self, alpha: T::Sum) -> Self {
        Self { alpha: Some(alpha), ..self }
    }

    /// Sets the factor of the old contents of `c`. With 0, these are not read. Where results are summed over ranks, each rank adds its own `c`
    /// afterwards.
    #[must_use]
    pub fn beta(self, beta: T::Sum) -> Self {
        Self { beta: (beta != T::Sum::default()).then_some(beta), ..self }
    }

    /// Rows and columns of `b`.
    pub(crate) fn inner(&self) -> [usize; 2] {
        match self.b {
            Right::Plain(b) => [b.rows, b.cols],
            Right::Packed(b) => [b.rows(), b.cols()],
        }
    }

    /// # Errors
    /// An operand is not a valid matrix, or does not fit the other.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.a.check("a")?;
        if let Right::Plain(b) = self.b {
            b.check("b")?;
        }
        let [rows, _] = self.inner();
        if rows != self.a.cols {
            let why = format!("{rows} rows, but a has {} columns", self.a.cols);
            return Err(Error::Shape { operand: "b", why });
        }
        Ok(())
    }
}

//! Views of ndarray, cut into parts and lent to members.

use std::marker::PhantomData;

use ndarray::{ArrayView, ArrayView2, ArrayViewMut, ArrayViewMut2, Axis, Dimension, Ix2, RemoveAxis};
use windrow_sync::rounds::{Family, Lend};

use super::{Cut, even};

const COLUMNS: Axis = Axis(1);

/// A matrix view that is cut between columns, not rows.
///
/// ```
/// use ndarray::Array2;
/// use windrow::team::split;
/// let mut cells = Array2::<f64>::zeros((2, 40));
/// let columns = split::Columns(cells.view_mut());
/// let widths: Vec<usize> = split::blocks(columns, 2, 16).map(|part| part.0.ncols()).collect();
/// assert_eq!(widths, [32, 8]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Columns<V>(pub V);

macro_rules! cut {
    ($view:ident, $matrix:ident) => {
        /// Between the items of the first axis: the rows of a matrix.
        impl<T, D: RemoveAxis> Cut for $view<'_, T, D> {
            fn items(&self) -> usize {
                self.len_of(Axis(0))
            }

            fn cut(self, at: usize) -> (Self, Self) {
                self.split_at(Axis(0), at)
            }
        }

        impl<T> Cut for Columns<$matrix<'_, T>> {
            fn items(&self) -> usize {
                self.0.ncols()
            }

            fn cut(self, at: usize) -> (Self, Self) {
                let (left, right) = self.0.split_at(COLUMNS, at);
                (Columns(left), Columns(right))
            }
        }
    };
}
cut!(ArrayView, ArrayView2);
cut!(ArrayViewMut, ArrayViewMut2);

/// The columns of a matrix, [`even`]ly. Neighbouring members share a cache line in every row. If members write much, use
/// [`blocks`](super::blocks) of [`Columns`] that are some lines wide, or rows.
///
/// ```
/// use ndarray::{Array2, array};
/// use windrow::team::split;
/// let mut cells = Array2::zeros((2, 3));
/// for (member, mut part) in split::columns(cells.view_mut(), 2).enumerate() {
///     part.fill(member + 1);
/// }
/// assert_eq!(cells, array![[1, 1, 2], [1, 1, 2]]);
/// ```
#[track_caller]
pub fn columns<T>(matrix: ArrayViewMut2<'_, T>, width: usize) -> impl ExactSizeIterator<Item = ArrayViewMut2<'_, T>> {
    even(Columns(matrix), width).map(|Columns(part)| part)
}

macro_rules! lend {
    ($lend:ident, $view:ident, $item:ident) => {
        #[doc = concat!("Lends an `ndarray::", stringify!($view), "`, a matrix unless `D` is another dimension: see [`Lend`].")]
        #[derive(Debug)]
        pub struct $lend<T, D = Ix2>(PhantomData<(T, D)>);

        impl<T: $item + 'static, D: Dimension + 'static> Family for $lend<T, D> {
            type Of<'x> = $view<'x, T, D>;

            fn shorten<'short, 'long: 'short>(of: $view<'long, T, D>) -> $view<'short, T, D> {
                of.reborrow()
            }
        }

        impl<T: $item + 'static, D: Dimension + 'static> Lend for $lend<T, D> {
            type Family = Self;
        }
    };
}
lend!(ViewRef, ArrayView, Sync);
lend!(ViewMut, ArrayViewMut, Send);

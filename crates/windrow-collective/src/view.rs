//! Matrices in the caller's memory: row by row in a slice, optionally with space between the rows, or transposed.

use std::ops::Range;

use windrow_product::{Matrix, Number, PackedB};

use crate::Error;

/// A matrix in a slice: element `(i, j)` is `data[i * stride + j]`, or `data[j * stride + i]` if it is transposed. Operations check that it fits.
///
/// ```
/// use windrow_collective::MatRef;
///
/// // A weight as PyTorch stores it, a row for each output: b is its transpose.
/// let weight = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let b = MatRef::new(&weight, 3, 2).transposed();
/// assert_eq!((b.rows, b.cols), (2, 3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from the beginning of one row to the beginning of the next, at least `cols`; of columns and `rows`, if it is transposed.
    pub stride: usize,
    /// Whether columns are contiguous instead of rows.
    pub transposed: bool,
}

/// A [`MatRef`] that can be written. Its rows are contiguous.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    /// The elements. Those between rows are never written.
    pub data: &'a mut [T],
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Elements from the beginning of one row to the beginning of the next; at least `cols`.
    pub stride: usize,
}

impl<'a, T> MatRef<'a, T> {
    /// A matrix without space between its rows.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::with_stride(data, rows, cols, cols)
    }

    /// A matrix whose rows begin every `stride` elements.
    pub fn with_stride(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        Self { data, rows, cols, stride, transposed: false }
    }

    /// The transposed matrix, in the same memory.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, transposed: !self.transposed, ..self }
    }

    pub(crate) fn check(&self, operand: &'static str) -> Result<(), Error> {
        let [rows, cols] = if self.transposed { [self.cols, self.rows] } else { [self.rows, self.cols] };
        check(operand, [rows, cols, self.stride], self.data.len(), self.transposed)
    }
}

impl<'a, T: Number> MatRef<'a, T> {
    /// Packs it as the right operand of any number of products: see [`Operands::packed`](crate::Operands::packed).
    ///
    /// # Errors
    /// It does not fit its slice.
    pub fn pack(&self) -> Result<PackedB<T>, Error> {
        self.check("b")?;
        Ok(PackedB::new(self.matrix()))
    }

    /// The same, of a matrix that was checked.
    pub(crate) fn matrix(&self) -> Matrix<'a, T> {
        let Self { data, rows, cols, stride, transposed } = *self;
        match transposed {
            false => Matrix::with_stride(data, rows, cols, stride),
            true => Matrix::with_stride(data, cols, rows, stride).transposed(),
        }
    }

    /// Copies some of the rows, of a matrix that was checked.
    pub(crate) fn copy_rows(&self, rows: Range<usize>, to: &mut [T]) {
        /// Rows that are copied together where columns are contiguous: a cache line of `f32`.
        const TOGETHER: usize = 16;
        let Self { data, cols, stride, .. } = *self;
        if cols == 0 {
            return;
        }
        if !self.transposed {
            for (row, to) in rows.zip(to.chunks_exact_mut(cols)) {
                to.copy_from_slice(&data[row * stride..][..cols]);
            }
            return;
        }
        for (start, to) in rows.clone().step_by(TOGETHER).zip(to.chunks_mut(TOGETHER * cols)) {
            let len = TOGETHER.min(rows.end - start);
            for col in 0..cols {
                let column = &data[col * stride + start..][..len];
                to[col..].iter_mut().step_by(cols).zip(column).for_each(|(to, &element)| *to = element);
            }
        }
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A matrix without space between its rows.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self::with_stride(data, rows, cols, cols)
    }

    /// A matrix whose rows begin every `stride` elements.
    pub fn with_stride(data: &'a mut [T], rows: usize, cols: usize, stride: usize) -> Self {
        Self { data, rows, cols, stride }
    }

    pub(crate) fn check(&self, operand: &'static str) -> Result<(), Error> {
        check(operand, [self.rows, self.cols, self.stride], self.data.len(), false)
    }

    pub(crate) fn part(&mut self, rows: Range<usize>) -> MatMut<'_, T> {
        let Self { cols, stride, .. } = *self;
        MatMut { data: &mut self.data[span(&rows, cols, stride)], rows: rows.len(), cols, stride }
    }

    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        let Self { cols, stride, .. } = *self;
        if cols == 0 { &mut [] } else { &mut self.data[row * stride..][..cols] }
    }
}

/// The elements from the beginning of the first row to the end of the last, in a checked matrix.
fn span(rows: &Range<usize>, cols: usize, stride: usize) -> Range<usize> {
    if rows.is_empty() || cols == 0 { 0..0 } else { rows.start * stride..(rows.end - 1) * stride + cols }
}

/// Checks stored rows, which are columns if `transposed`.
fn check(operand: &'static str, [rows, cols, stride]: [usize; 3], len: usize, transposed: bool) -> Result<(), Error> {
    if rows == 0 || cols == 0 {
        return Ok(());
    }
    let what = if transposed { "columns" } else { "rows" };
    let end = (rows - 1).checked_mul(stride).and_then(|last| last.checked_add(cols));
    let why = match end {
        _ if stride < cols => {
            format!("{what} of {cols} elements begin every {stride}\nhint: the stride must be at least {cols}")
        }
        Some(end) if end <= len => return Ok(()),
        Some(end) => format!("{rows} {what} of {cols}, {stride} apart, take {end} elements, but there are {len}"),
        None => format!("{rows} {what} of {cols}, {stride} apart, take more elements than can be counted"),
    };
    Err(Error::Shape { operand, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_checked_with_their_numbers() {
        let data = [0; 10];
        let checked = |view: MatRef<'_, i32>| view.check("a").map_err(|error| error.to_string());
        let view = |rows, cols, stride| checked(MatRef::with_stride(&data, rows, cols, stride));
        assert_eq!(view(3, 2, 4), Ok(()));
        assert_eq!(
            view(3, 3, 4),
            Err("operand a: 3 rows of 3, 4 apart, take 11 elements, but there are 10".to_owned())
        );
        assert!(view(2, 3, 2).unwrap_err().contains("rows of 3 elements begin every 2"));
        assert!(view(usize::MAX, 1, usize::MAX).unwrap_err().contains("more elements than can be counted"));
        // Without elements, none can be out of place.
        assert_eq!((view(usize::MAX, 0, 0), view(0, usize::MAX, 0)), (Ok(()), Ok(())));
        let transposed = |rows, cols, stride| checked(MatRef::with_stride(&data, rows, cols, stride).transposed());
        assert_eq!(transposed(3, 2, 4), Ok(()));
        assert!(transposed(3, 3, 4).unwrap_err().contains("3 columns of 3, 4 apart, take 11 elements"));
    }

    #[test]
    fn rows_are_copied_whichever_is_contiguous() {
        let (rows, cols, stride) = (37, 5, 40);
        let data: Vec<f32> = (0..rows * stride).map(|at| at as f32).collect();
        for view in [
            MatRef::with_stride(&data, rows, cols, stride),
            MatRef::with_stride(&data, cols, rows, stride).transposed(),
        ] {
            let mut copy = vec![0.0; 33 * cols];
            view.copy_rows(3..36, &mut copy);
            for (at, &got) in copy.iter().enumerate() {
                assert_eq!(got, view.matrix().get(3 + at / cols, at % cols));
            }
        }
    }

    #[test]
    fn parts_end_with_their_last_row() {
        let mut data: Vec<u8> = (0..10).collect();
        let mut view = MatMut::with_stride(&mut data, 3, 2, 4);
        assert_eq!(view.row(2), [8, 9]);
        assert_eq!(view.part(1..3).data, [4, 5, 6, 7, 8, 9]);
        assert_eq!(view.part(0..1).data, [0, 1]);
        assert_eq!(view.part(3..3).rows, 0);
    }
}

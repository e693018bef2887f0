//! Matrices in the caller's memory.

use std::ops::Range;

/// A matrix in a slice, row by row or column by column.
///
/// ```
/// use windrow_product::Matrix;
///
/// // 1 2 3
/// // 4 5 6, without its middle column, and that transposed.
/// let data = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let first = Matrix::with_stride(&data, 2, 1, 3);
/// let second = Matrix::new(&data, 2, 3).transposed();
/// assert_eq!((first.get(1, 0), second.get(2, 0)), (4.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// From the beginning of a stored row (or column, if transposed) to that of the next.
    pub(crate) stride: usize,
    pub(crate) transposed: bool,
}

/// A matrix in a slice that can be written, row by row.
///
/// ```
/// use windrow_product::MatrixMut;
///
/// let mut data = [0.0_f32; 10];
/// // Three rows of two, four elements apart.
/// let (mut first, mut rest) = MatrixMut::with_stride(&mut data, 3, 2, 4).split_at_row(1);
/// first.row(0).fill(1.0);
/// rest.row(1).fill(3.0);
/// assert_eq!(data, [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0]);
/// ```
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    pub(crate) data: &'a mut [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) stride: usize,
}

/// Checks that a matrix lies within its slice.
fn check(len: usize, rows: usize, cols: usize, stride: usize) {
    // Without elements, none can be out of place.
    if rows == 0 || cols == 0 {
        return;
    }
    assert!(stride >= cols, "a stride of {stride} is less than the {cols} elements of a row");
    let end = (rows - 1).checked_mul(stride).and_then(|last| last.checked_add(cols));
    assert!(
        end.is_some_and(|end| end <= len),
        "{rows} rows of {cols} elements, {stride} apart, take more than the {len} elements available"
    );
}

/// The elements from the beginning of the first row to the end of the last, in a checked matrix.
fn span(rows: &Range<usize>, cols: usize, stride: usize) -> Range<usize> {
    if rows.is_empty() || cols == 0 { 0..0 } else { rows.start * stride..(rows.end - 1) * stride + cols }
}

impl<'a, T> Matrix<'a, T> {
    /// A row-major matrix without space between its rows.
    ///
    /// # Panics
    /// The slice is too short.
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::with_stride(data, rows, cols, cols)
    }

    /// A row-major matrix; `stride` is from the beginning of one row to that of the next.
    ///
    /// # Panics
    /// The slice is too short, or the stride is less than a row.
    pub fn with_stride(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self { data, rows, cols, stride, transposed: false }
    }

    /// The transposed matrix in the same memory: of a row-major `k x n` matrix, the `n x k` one whose columns are contiguous.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.cols, cols: self.rows, transposed: !self.transposed, ..self }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// An element.
    ///
    /// # Panics
    /// The matrix has no such element.
    pub fn get(&self, row: usize, col: usize) -> T
    where
        T: Copy,
    {
        assert!(row < self.rows && col < self.cols, "({row}, {col}) is outside a {} x {} matrix", self.rows, self.cols);
        let (major, minor) = if self.transposed { (col, row) } else { (row, col) };
        self.data[major * self.stride + minor]
    }

    /// Some rows and columns.
    pub(crate) fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let (major, minor) = if self.transposed { (cols.start, rows.start) } else { (rows.start, cols.start) };
        // Without elements, it may begin anywhere.
        let data = self.data.get(major.saturating_mul(self.stride).saturating_add(minor)..).unwrap_or_default();
        Self { data, rows: rows.len(), cols: cols.len(), ..self }
    }

    /// `len` contiguous elements of a stored row: of row `major` from column `minor` on, or, if transposed, of column `major` from row
    /// `minor` on.
    #[inline]
    pub(crate) fn run(&self, major: usize, minor: usize, len: usize) -> &'a [T] {
        &self.data[major * self.stride + minor..][..len]
    }
}

impl<'a, T> MatrixMut<'a, T> {
    /// A row-major matrix without space between its rows.
    ///
    /// # Panics
    /// The slice is too short.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self::with_stride(data, rows, cols, cols)
    }

    /// A row-major matrix; `stride` is from the beginning of one row to that of the next. The elements between rows are never written.
    ///
    /// # Panics
    /// The slice is too short, or the stride is less than a row.
    pub fn with_stride(data: &'a mut [T], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self { data, rows, cols, stride }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The elements of a row.
    ///
    /// # Panics
    /// The matrix has no such row.
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} is outside a matrix of {} rows", self.rows);
        let range = span(&(row..row + 1), self.cols, self.stride);
        &mut self.data[range]
    }

    /// The first `row` rows, and the rest: for threads that write parts of one result.
    ///
    /// # Panics
    /// There are fewer rows.
    pub fn split_at_row(self, row: usize) -> (Self, Self) {
        let Self { data, rows, cols, stride } = self;
        assert!(row <= rows, "a matrix of {rows} rows cannot be split at row {row}");
        let end = span(&(0..rows), cols, stride).end;
        let (first, rest) = data[..end].split_at_mut(if cols == 0 { 0 } else { (row * stride).min(end) });
        (Self { data: first, rows: row, cols, stride }, Self { data: rest, rows: rows - row, cols, stride })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics<R>(f: impl FnOnce() -> R + std::panic::UnwindSafe) -> String {
        let payload = std::panic::catch_unwind(f).err().expect("it panics");
        payload.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn matrices_lie_within_their_slices() {
        let data = [0_u8; 10];
        assert_eq!(Matrix::with_stride(&data, 3, 2, 4).rows(), 3);
        let message = panics(|| Matrix::with_stride(&data, 3, 3, 4));
        assert_eq!(message, "3 rows of 3 elements, 4 apart, take more than the 10 elements available");
        assert!(panics(|| Matrix::with_stride(&data, 2, 3, 2)).contains("a stride of 2 is less than the 3 elements"));
        assert!(panics(|| Matrix::with_stride(&data, usize::MAX, 1, usize::MAX)).contains("more than"));
        assert!(panics(|| Matrix::new(&data, 2, 5).get(2, 0)).contains("(2, 0) is outside a 2 x 5 matrix"));
        // Without elements, none can be out of place.
        assert_eq!(Matrix::with_stride(&data, usize::MAX, 0, 0).cols(), 0);
        assert_eq!(Matrix::with_stride(&data, 0, usize::MAX, 0).cols(), usize::MAX);
    }

    #[test]
    fn parts_do_not_overlap() {
        let mut data: Vec<u8> = (0..10).collect();
        for row in 0..=3 {
            let (mut first, mut rest) = MatrixMut::with_stride(&mut data, 3, 2, 4).split_at_row(row);
            assert_eq!((first.rows(), rest.rows()), (row, 3 - row));
            (0..row).for_each(|at| assert_eq!(first.row(at), [4 * at as u8, 4 * at as u8 + 1]));
            (row..3).for_each(|at| assert_eq!(rest.row(at - row), [4 * at as u8, 4 * at as u8 + 1]));
        }
        let (_, rest) = MatrixMut::<u8>::with_stride(&mut [], 7, 0, 3).split_at_row(5);
        assert_eq!(rest.rows(), 2);
    }
}

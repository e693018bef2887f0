//! Products by a packed operand: what is computed in which order.

use std::ops::Range;

use crate::kernel::{DEPTH, Kernel, TILE, Tile};
use crate::number::Accumulate;
use crate::packed::{SQUARE, blocks, panels};
use crate::{Matrix, MatrixMut, Number, PackedB};

/// The maximum rows of a block of `a`: with [`DEPTH`] columns of `f32`, 256 KiB of the second-level cache.
const ROWS: usize = 128;

/// About how many columns of the result are computed before the next: its rows of a block of `a` stay in the second-level cache while the
/// blocks of the inner axis are added up.
const COLS: usize = 1024;

/// `alpha * a * b + beta * c`, to be written to `c`; `alpha` is 1 and `beta` 0 unless they are set.
///
/// ```
/// use windrow_product::{Matrix, MatrixMut, PackedB, Product, Workspace};
///
/// let (a, b, mut c) = ([1.0_f32, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0], [1.0; 4]);
/// let packed = PackedB::new(Matrix::new(&b, 2, 2));
/// let mut workspace = Workspace::default();
/// let product = Product::new(Matrix::new(&a, 2, 2), &packed);
/// product.write(MatrixMut::new(&mut c, 2, 2), &mut workspace);
/// assert_eq!(c, [1.0, 2.0, 3.0, 4.0]);
/// product.alpha(10.0).beta(1.0).write(MatrixMut::new(&mut c, 2, 2), &mut workspace);
/// assert_eq!(c, [11.0, 22.0, 33.0, 44.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Product<'a, T: Number> {
    a: Matrix<'a, T>,
    b: &'a PackedB<T>,
    alpha: T::Sum,
    beta: T::Sum,
}

/// Memory for a block of `a`, and of the result where its numbers are narrow. Kept from product to product; each thread has a separate one.
///
/// ```
/// let workspace = windrow_product::Workspace::<f32>::default();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Workspace<T: Number> {
    a: Vec<T::Sum>,
    c: Vec<T::Sum>,
}

impl<'a, T: Number> Product<'a, T> {
    /// `a * b`.
    ///
    /// # Panics
    /// `a` does not have as many columns as `b` has rows.
    pub fn new(a: Matrix<'a, T>, b: &'a PackedB<T>) -> Self {
        assert_eq!(a.cols, b.rows(), "columns of a, and rows of b");
        Self { a, b, alpha: T::Sum::ONE, beta: T::Sum::default() }
    }

    /// Sets the factor of the product. With 0, an infinity or NaN in `a` or `b` still gives NaN.
    ///
    /// ```
    /// use windrow_product::{Matrix, MatrixMut, PackedB, Product, Workspace};
    ///
    /// let (identity, mut c) = ([1.0_f32, 0.0, 0.0, 1.0], [0.0; 4]);
    /// let (a, b) = (Matrix::new(&identity, 2, 2), PackedB::new(Matrix::new(&identity, 2, 2)));
    /// Product::new(a, &b).alpha(2.5).write(MatrixMut::new(&mut c, 2, 2), &mut Workspace::default());
    /// assert_eq!(c, [2.5, 0.0, 0.0, 2.5]);
    /// ```
    #[must_use]
    pub fn alpha(self, alpha: T::Sum) -> Self {
        Self { alpha, ..self }
    }

    /// Sets the factor of the old contents of `c`. With 0, these are not read.
    ///
    /// ```
    /// use windrow_product::{Matrix, MatrixMut, PackedB, Product, Workspace};
    ///
    /// let (identity, mut c) = ([1.0_f32, 0.0, 0.0, 1.0], [f32::NAN; 4]);
    /// let (a, b) = (Matrix::new(&identity, 2, 2), PackedB::new(Matrix::new(&identity, 2, 2)));
    /// let (product, mut workspace) = (Product::new(a, &b), Workspace::default());
    /// product.beta(0.0).write(MatrixMut::new(&mut c, 2, 2), &mut workspace);
    /// assert_eq!(c, identity, "the old contents are not read");
    /// product.beta(2.0).write(MatrixMut::new(&mut c, 2, 2), &mut workspace);
    /// assert_eq!(c, [3.0, 0.0, 0.0, 3.0]);
    /// ```
    #[must_use]
    pub fn beta(self, beta: T::Sum) -> Self {
        Self { beta, ..self }
    }

    /// Writes all rows.
    ///
    /// # Panics
    /// `c` does not have the rows of `a` and the columns of `b`.
    pub fn write(&self, c: MatrixMut<'_, T>, workspace: &mut Workspace<T>) {
        self.write_rows(0..self.a.rows, c, workspace);
    }

    /// Writes some of the rows; `c` has these alone. The bits are those of [`write`](Self::write), so threads can share a product in any way.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_product::{Matrix, MatrixMut, PackedB, Product, Workspace};
    ///
    /// let (a, b, mut c) = ([1.0_f32; 40], [0.5; 40], [0.0; 100]);
    /// let packed = PackedB::new(Matrix::new(&b, 4, 10));
    /// let product = Product::new(Matrix::new(&a, 10, 4), &packed);
    /// let (first, second) = MatrixMut::new(&mut c, 10, 10).split_at_row(6);
    /// thread::scope(|scope| {
    ///     scope.spawn(|| product.write_rows(0..6, first, &mut Workspace::default()));
    ///     product.write_rows(6..10, second, &mut Workspace::default());
    /// });
    /// assert_eq!(c, [2.0; 100]);
    /// ```
    ///
    /// # Panics
    /// `a` does not have these rows, or `c` does not have as many and the columns of `b`.
    pub fn write_rows(&self, rows: Range<usize>, c: MatrixMut<'_, T>, workspace: &mut Workspace<T>) {
        let Self { a, b, beta, .. } = *self;
        assert!(rows.start <= rows.end && rows.end <= a.rows, "rows {rows:?} of {}", a.rows);
        assert_eq!((c.rows, c.cols), (rows.len(), b.cols()), "rows and columns of c, and of the product");
        if c.rows == 0 || c.cols == 0 {
            return;
        }
        let Workspace { a: wide_a, c: wide_c } = workspace;
        let cols = even(c.cols, COLS, b.shape().vectors * b.shape().lanes);
        let height = even(c.rows, ROWS, b.shape().rows);
        // The last row of a block may be the only one that a kernel reads.
        grow(wide_a, height * DEPTH);
        for start in (0..c.cols).step_by(cols) {
            let cols = start..c.cols.min(start + cols);
            for top in (0..c.rows).step_by(height) {
                let len = height.min(c.rows - top);
                let rows = rows.start + top..rows.start + top + len;
                let (stride, wide) = (c.stride, cols.len());
                let from = top * stride + start;
                let part = &mut c.data[from..from + (len - 1) * stride + wide];
                if let Some(part) = T::as_wide(part) {
                    scale(part, stride, wide, beta);
                    self.write_block(rows, cols.clone(), part, stride, wide_a);
                    continue;
                }
                grow(wide_c, len * wide);
                let sums = &mut wide_c[..len * wide];
                if beta != T::Sum::default() {
                    for (sums, part) in sums.chunks_exact_mut(wide).zip(part.chunks(stride)) {
                        T::widen(&part[..wide], sums);
                    }
                    scale(sums, wide, wide, beta);
                }
                self.write_block(rows, cols.clone(), sums, wide, wide_a);
                for (sums, part) in sums.chunks_exact(wide).zip(part.chunks_mut(stride)) {
                    T::narrow(sums, &mut part[..wide]);
                }
            }
        }
    }

    /// Writes a block of the result, whose old contents have been scaled. `a` is memory.
    fn write_block(&self, rows: Range<usize>, cols: Range<usize>, c: &mut [T::Sum], stride: usize, a: &mut [T::Sum]) {
        let zero = T::Sum::default();
        if self.a.cols == 0 && self.beta == zero {
            c.chunks_mut(stride).for_each(|row| row[..cols.len()].fill(zero));
        }
        for block in blocks(self.a.cols) {
            let adds = block.start > 0 || self.beta != zero;
            copy_block(self.a, &rows, &block, a);
            self.add_block(rows.len(), &block, &cols, adds, a, c, stride);
        }
    }

    /// Adds a block of the inner axis.
    #[expect(clippy::too_many_arguments, reason = "the parts of three operands")]
    fn add_block(
        &self,
        rows: usize,
        block: &Range<usize>,
        cols: &Range<usize>,
        adds: bool,
        a: &[T::Sum],
        c: &mut [T::Sum],
        stride: usize,
    ) {
        let (alpha, set, shape) = (self.alpha, self.b.set(), self.b.shape());
        let groups = rows.div_ceil(shape.rows);
        let mut rest = self.b.part(block, cols.start);
        for panel in panels(cols.len(), shape) {
            let vectors = panel.len().div_ceil(shape.lanes);
            let (b, others) = rest.split_at(vectors * shape.lanes * block.len());
            rest = others;
            // Each group of rows fetches a share of the next panel.
            let share = b.len().div_ceil(groups).next_multiple_of(64);
            let mut shares = rest[..b.len().min(rest.len())].chunks(share);
            for top in (0..rows).step_by(shape.rows) {
                let rows = shape.rows.min(rows - top);
                let (a, ahead) = (&a[top * DEPTH..][..rows * DEPTH], shares.next().unwrap_or_default());
                let from = top * stride + panel.start;
                let c = &mut c[from..from + (rows - 1) * stride + panel.len()];
                if panel.len() == vectors * shape.lanes {
                    <T::Sum as Kernel>::run(set, Tile { rows, vectors, a, b, ahead, c, stride, alpha, adds });
                    continue;
                }
                // Columns beyond the last are computed aside.
                let mut aside = [T::Sum::default(); TILE];
                let width = vectors * shape.lanes;
                for (aside, c) in aside.chunks_exact_mut(width).zip(c.chunks(stride)) {
                    aside[..panel.len()].copy_from_slice(&c[..panel.len()]);
                }
                let tile = Tile { rows, vectors, a, b, ahead, c: &mut aside, stride: width, alpha, adds };
                <T::Sum as Kernel>::run(set, tile);
                for (aside, c) in aside.chunks_exact(width).zip(c.chunks_mut(stride)) {
                    c[..panel.len()].copy_from_slice(&aside[..panel.len()]);
                }
            }
        }
    }
}

/// The length of equal parts of about `most`, in units.
fn even(len: usize, most: usize, unit: usize) -> usize {
    len.div_ceil(len.div_ceil(most)).next_multiple_of(unit)
}

fn grow<S: Copy + Default>(memory: &mut Vec<S>, len: usize) {
    if memory.len() < len {
        memory.resize(len, S::default());
    }
}

/// Multiplies the old contents of a result that is added to. With 0, they are replaced later.
fn scale<S: Accumulate>(c: &mut [S], stride: usize, cols: usize, beta: S) {
    if beta != S::default() && beta != S::ONE {
        for row in c.chunks_mut(stride) {
            row[..cols].iter_mut().for_each(|c| *c = *c * beta);
        }
    }
}

/// Copies a block of `a` to rows that are [`DEPTH`] apart: rows of the caller's may share few sets of a cache, these do not.
fn copy_block<T: Number>(a: Matrix<'_, T>, rows: &Range<usize>, block: &Range<usize>, wide: &mut [T::Sum]) {
    if !a.transposed {
        for (row, wide) in rows.clone().zip(wide.chunks_exact_mut(DEPTH)) {
            T::widen(a.run(row, block.start, block.len()), &mut wide[..block.len()]);
        }
        return;
    }
    for (start, wide) in rows.clone().step_by(SQUARE).zip(wide.chunks_mut(SQUARE * DEPTH)) {
        let len = SQUARE.min(rows.end - start);
        for (at, step) in block.clone().enumerate() {
            let mut column = [T::Sum::default(); SQUARE];
            T::widen(a.run(step, start, len), &mut column[..len]);
            for (wide, &element) in wide[at..].iter_mut().step_by(DEPTH).zip(&column[..len]) {
                *wide = element;
            }
        }
    }
}

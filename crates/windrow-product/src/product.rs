//! Products by a packed operand: what is computed in which order.

use std::ops::Range;

use crate::kernel::{AT_ONCE, DEPTH, InstructionSet, Kernel, Shape, Steps};
use crate::number::Accumulate;
use crate::packed::{blocks, pack_panels, transpose};
use crate::{Matrix, MatrixMut, Number, PackedB};

/// The maximum rows of a block of `a`: with [`DEPTH`] columns of `f32`, 256 KiB of the second-level cache.
const ROWS: usize = 128;

/// About how many columns of the result are computed before the next: its rows of a block of `a` stay in the second-level cache while the
/// blocks of the inner axis are added up.
const COLS: usize = 1024;

/// The distance between the rows of a copied block of `a`: with a power of 2, they would compete for the same sets of the cache.
const PITCH: usize = DEPTH + 16;

/// Up to this number of rows, `b` is not packed: steps of it are used as they lie, or transposed into the first-level cache.
const FEW: usize = 16;

/// Up to this number of columns, the transposed product is computed.
const FEW_COLS: usize = 4;

/// Sums of a product of few rows that are computed together: 128 KiB of `f64`, read and written once for some steps.
const SUMS: usize = 1 << 14;

/// The most bytes of a plain `b` that are packed at a time.
const PACKED: usize = 4 << 20;

/// The right operand of a product: packed before, or as it lies.
///
/// ```
/// use windrow_product::{Matrix, PackedB, Right};
///
/// let b = Matrix::new(&[1.0_f32, 2.0], 1, 2);
/// let packed = PackedB::new(b);
/// assert!(matches!(Right::from(&packed), Right::Packed(_)));
/// assert!(matches!(Right::from(b), Right::Plain(_)));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Right<'a, T: Number> {
    /// Packed before.
    Packed(&'a PackedB<T>),
    /// A matrix: each call packs what pays, into its workspace. A product of few rows or columns packs nothing.
    Plain(Matrix<'a, T>),
}

impl<'a, T: Number> From<&'a PackedB<T>> for Right<'a, T> {
    fn from(packed: &'a PackedB<T>) -> Self {
        Self::Packed(packed)
    }
}

impl<'a, T: Number> From<Matrix<'a, T>> for Right<'a, T> {
    fn from(plain: Matrix<'a, T>) -> Self {
        Self::Plain(plain)
    }
}

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
    b: Right<'a, T>,
    set: InstructionSet,
    alpha: T::Sum,
    beta: T::Sum,
}

/// Memory for a block of `a`, for parts of a plain `b`, and of the result where its numbers are narrow. Kept from product to product; each thread has a separate one.
///
/// ```
/// let workspace = windrow_product::Workspace::<f32>::default();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Workspace<T: Number> {
    a: Vec<T::Sum>,
    c: Vec<T::Sum>,
    b: PackedB<T>,
    part: Vec<T::Sum>,
    sums: Vec<T::Sum>,
}

impl<'a, T: Number> Product<'a, T> {
    /// `a * b`.
    ///
    /// # Panics
    /// `a` does not have as many columns as `b` has rows.
    pub fn new(a: Matrix<'a, T>, b: impl Into<Right<'a, T>>) -> Self {
        let b = b.into();
        let (rows, set) = match b {
            Right::Packed(b) => (b.rows(), b.set()),
            Right::Plain(b) => (b.rows, InstructionSet::best()),
        };
        assert_eq!(a.cols, rows, "the columns of a must match the rows of b");
        Self { a, b, set, alpha: T::Sum::ONE, beta: T::Sum::default() }
    }

    /// True if a product with this number of rows and columns packs a `b` that is [plain](Right::Plain).
    ///
    /// ```
    /// use windrow_product::Product;
    ///
    /// assert!(Product::<f32>::packs(1000, 1000));
    /// assert!(!Product::<f32>::packs(1, 1000) && !Product::<f32>::packs(1000, 1));
    /// ```
    pub fn packs(rows: usize, cols: usize) -> bool {
        rows > FEW && cols > FEW_COLS
    }

    /// The same with another instruction set, for a `b` that is not packed.
    #[cfg(test)]
    pub(crate) fn with(self, set: InstructionSet) -> Self {
        Self { set, ..self }
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
        let Self { a, b, .. } = *self;
        assert!(rows.start <= rows.end && rows.end <= a.rows, "rows {rows:?} are outside the {} rows of a", a.rows);
        let cols = match b {
            Right::Packed(b) => b.cols(),
            Right::Plain(b) => b.cols,
        };
        assert_eq!((c.rows, c.cols), (rows.len(), cols), "the shape of c must be that of the product");
        if c.rows == 0 || c.cols == 0 {
            return;
        }
        match b {
            Right::Packed(b) => self.write_packed(b, rows, c, workspace),
            Right::Plain(b) => self.write_plain(b, rows, c, workspace),
        }
    }

    fn shape(&self) -> Shape {
        <T::Sum as Kernel>::shape(self.set)
    }

    fn write_packed(&self, b: &PackedB<T>, rows: Range<usize>, c: MatrixMut<'_, T>, workspace: &mut Workspace<T>) {
        let shape = self.shape();
        let Workspace { a: wide_a, c: wide_c, .. } = workspace;
        let cols = even(c.cols, COLS, shape.vectors * shape.lanes);
        let height = even(c.rows, ROWS, shape.rows);
        for start in (0..c.cols).step_by(cols) {
            let cols = start..c.cols.min(start + cols);
            for top in (0..c.rows).step_by(height) {
                let len = height.min(c.rows - top);
                let rows = rows.start + top..rows.start + top + len;
                let (stride, wide) = (c.stride, cols.len());
                let from = top * stride + start;
                let part = &mut c.data[from..from + (len - 1) * stride + wide];
                if let Some(part) = T::as_wide(part) {
                    scale(part, stride, wide, self.beta);
                    self.write_block(b, rows, cols.clone(), part, stride, wide_a);
                    continue;
                }
                let sums = grow(wide_c, len * wide);
                if self.beta != T::Sum::default() {
                    for (sums, part) in sums.chunks_exact_mut(wide).zip(part.chunks(stride)) {
                        T::widen(&part[..wide], sums);
                    }
                    scale(sums, wide, wide, self.beta);
                }
                self.write_block(b, rows, cols.clone(), sums, wide, wide_a);
                for (sums, part) in sums.chunks_exact(wide).zip(part.chunks_mut(stride)) {
                    T::narrow(sums, &mut part[..wide]);
                }
            }
        }
    }

    /// Writes a block of the result, whose old contents have been scaled. `memory` is for a block of `a`.
    fn write_block(
        &self,
        b: &PackedB<T>,
        rows: Range<usize>,
        cols: Range<usize>,
        c: &mut [T::Sum],
        stride: usize,
        memory: &mut Vec<T::Sum>,
    ) {
        let (zero, alpha, a) = (T::Sum::default(), self.alpha, self.a);
        self.without_terms(c, stride, cols.len());
        for block in blocks(a.cols) {
            // A copy pays when it is read more than once.
            let plain = T::wide(a.data).filter(|_| cols.len() <= self.shape().vectors * self.shape().lanes);
            let (a_row, a_step) = match (plain, a.transposed) {
                (None, _) => (PITCH, 1),
                (Some(_), false) => (a.stride, 1),
                (Some(_), true) => (1, a.stride),
            };
            let a = match plain {
                Some(data) => &data[rows.start * a_row + block.start * a_step..],
                None => {
                    let wide = grow(memory, rows.len() * PITCH);
                    self.copy_block(a, &rows, &block, wide);
                    wide
                }
            };
            let adds = block.start > 0 || self.beta != zero;
            let (rows, steps, cols, b) = (rows.len(), block.len(), cols.len(), b.part(&block, cols.start));
            let (b_row, sums, first, last) = (None, &mut [][..], true, true);
            let steps = Steps {
                rows,
                cols,
                steps,
                a,
                a_row,
                a_step,
                b,
                b_row,
                sums,
                first,
                last,
                c: &mut *c,
                stride,
                alpha,
                adds,
            };
            <T::Sum as Kernel>::run(self.set, steps);
        }
    }

    /// The result of a product without terms.
    fn without_terms(&self, c: &mut [T::Sum], stride: usize, cols: usize) {
        let zero = T::Sum::default();
        if self.a.cols == 0 && self.beta == zero {
            c.chunks_mut(stride).for_each(|row| row[..cols].fill(zero));
        }
    }

    fn write_plain(&self, b: Matrix<'_, T>, rows: Range<usize>, c: MatrixMut<'_, T>, workspace: &mut Workspace<T>) {
        let a = self.a.part(rows.clone(), 0..self.a.cols);
        let panel = self.shape().vectors * self.shape().lanes;
        if rows.len() <= FEW {
            return self.write_few(a, b, c, false, workspace);
        }
        if !Self::packs(rows.len(), b.cols) {
            // The transposed product has few rows.
            return self.write_few(b.transposed(), a.transposed(), c, true, workspace);
        }
        let most = (PACKED / size_of::<T::Sum>() / b.rows.max(1)).max(panel);
        let cols = even(b.cols, most, panel);
        let mut packed = std::mem::take(&mut workspace.b);
        let end = (c.rows - 1) * c.stride + c.cols;
        for start in (0..b.cols).step_by(cols) {
            let cols = start..b.cols.min(start + cols);
            packed.pack_for(self.set, b.part(0..b.rows, cols.clone()));
            let c = MatrixMut { data: &mut c.data[start..end], rows: c.rows, cols: cols.len(), stride: c.stride };
            self.write_packed(&packed, rows.clone(), c, workspace);
        }
        workspace.b = packed;
    }

    /// Writes the product of few rows, `a`, by `b` as it lies. If it is `flipped`, `c` is that of the transposed product.
    fn write_few(
        &self,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        c: MatrixMut<'_, T>,
        flipped: bool,
        workspace: &mut Workspace<T>,
    ) {
        let (rows, stride, beta) = (a.rows, c.stride, self.beta);
        let shape = self.shape();
        let as_it_lies = !b.transposed && T::wide(b.data).is_some();
        let most = if as_it_lies { SUMS / rows / shape.lanes * shape.lanes } else { shape.lanes };
        let mut memory = std::mem::take(&mut workspace.a);
        let wide_a = self.copy_blocks(a, &mut memory);
        for start in (0..b.cols).step_by(most) {
            let cols = start..b.cols.min(start + most);
            let wide = cols.len();
            if !flipped && let Some(c) = T::as_wide(&mut c.data[start..][..(rows - 1) * stride + wide]) {
                scale(c, stride, wide, beta);
                self.add_few(wide_a, rows, b, &cols, c, stride, workspace);
                continue;
            }
            let mut sums = std::mem::take(&mut workspace.c);
            let own = grow(&mut sums, rows * wide);
            let place = |row: usize, col: usize| {
                if flipped { (start + col) * stride + row } else { row * stride + start + col }
            };
            if beta != T::Sum::default() {
                for (at, sum) in own.iter_mut().enumerate() {
                    T::widen(&c.data[place(at / wide, at % wide)..][..1], std::slice::from_mut(sum));
                }
                scale(own, wide, wide, beta);
            }
            self.add_few(wide_a, rows, b, &cols, own, wide, workspace);
            for (at, sum) in own.iter().enumerate() {
                T::narrow(std::slice::from_ref(sum), &mut c.data[place(at / wide, at % wide)..][..1]);
            }
            workspace.c = sums;
        }
        workspace.a = memory;
    }

    /// Copies all blocks of few rows.
    fn copy_blocks<'m>(&self, a: Matrix<'_, T>, memory: &'m mut Vec<T::Sum>) -> &'m [T::Sum] {
        let each = a.rows * PITCH;
        let all = grow(memory, blocks(a.cols).count() * each);
        for (block, wide) in blocks(a.cols).zip(all.chunks_mut(each.max(1))) {
            self.copy_block(a, &(0..a.rows), &block, wide);
        }
        all
    }

    /// Adds the products of few rows of `a`, whose blocks were copied, by columns of `b`.
    #[expect(clippy::too_many_arguments, reason = "the parts of three operands")]
    fn add_few(
        &self,
        a: &[T::Sum],
        rows: usize,
        b: Matrix<'_, T>,
        cols: &Range<usize>,
        c: &mut [T::Sum],
        stride: usize,
        workspace: &mut Workspace<T>,
    ) {
        let Workspace { part, sums, .. } = workspace;
        let (lanes, alpha, zero) = (self.shape().lanes, self.alpha, T::Sum::default());
        let data = if b.transposed { None } else { T::wide(b.data) };
        let whole = if data.is_some() { cols.len() / lanes * lanes } else { 0 };
        // What is transposed or widened is one vector wide, and lies in the first-level cache.
        let each = match data {
            None => DEPTH,
            Some(_) if rows > 2 => 2 * AT_ONCE,
            Some(_) => AT_ONCE,
        };
        self.without_terms(c, stride, cols.len());
        for (block, a) in blocks(b.rows).zip(a.chunks(rows * PITCH)) {
            let adds = block.start > 0 || self.beta != zero;
            let padded = cols.len().next_multiple_of(lanes);
            let (left, right) = grow(sums, rows * padded).split_at_mut(rows * whole);
            let mut begin = block.start;
            if rows == 1
                && whole == cols.len()
                && let Some(data) = data
            {
                left.fill(zero);
                // The last steps are left to complete the sums.
                for a in a[..block.len() - 1].as_chunks::<AT_ONCE>().0 {
                    let from = &data[begin * b.stride + cols.start..];
                    <T::Sum as Kernel>::axpy(self.set, a, from, b.stride, left);
                    begin += AT_ONCE;
                }
            }
            if rows == 1
                && b.transposed
                && cols.len() == lanes
                && let Some(data) = T::wide(b.data)
            {
                right.fill(zero);
                let steps = (block.len() - 1) / lanes * lanes;
                let from = &data[cols.start * b.stride + block.start..];
                <T::Sum as Kernel>::dot(self.set, &a[..steps], from, b.stride, right);
                begin += steps;
            }
            for start in (begin..block.end).step_by(each) {
                let steps = each.min(block.end - start);
                let (first, last) = (start == block.start, start + steps == block.end);
                let (a, a_row, a_step) = (&a[start - block.start..], PITCH, 1);
                if whole > 0 {
                    let b_row = Some(b.stride);
                    let b = &data.unwrap_or_default()[start * b.stride + cols.start..];
                    let (cols, sums, c) = (whole, &mut *left, &mut *c);
                    let steps = Steps {
                        rows,
                        cols,
                        steps,
                        a,
                        a_row,
                        a_step,
                        b,
                        b_row,
                        sums,
                        first,
                        last,
                        c,
                        stride,
                        alpha,
                        adds,
                    };
                    <T::Sum as Kernel>::run(self.set, steps);
                }
                if whole < cols.len() {
                    let rest = cols.start + whole..cols.end;
                    let packed = grow(part, steps * (padded - whole));
                    pack_panels(b, &(start..start + steps), &rest, self.set, packed);
                    let (cols, b, b_row, sums, c) = (rest.len(), &*packed, None, &mut *right, &mut c[whole..]);
                    let steps = Steps {
                        rows,
                        cols,
                        steps,
                        a,
                        a_row,
                        a_step,
                        b,
                        b_row,
                        sums,
                        first,
                        last,
                        c,
                        stride,
                        alpha,
                        adds,
                    };
                    <T::Sum as Kernel>::run(self.set, steps);
                }
            }
        }
    }

    /// Copies a block of `a` to rows that are [`PITCH`] apart.
    fn copy_block(&self, a: Matrix<'_, T>, rows: &Range<usize>, block: &Range<usize>, wide: &mut [T::Sum]) {
        if a.transposed {
            return transpose(a, block, rows, self.set, wide, PITCH);
        }
        for (row, wide) in rows.clone().zip(wide.chunks_exact_mut(PITCH)) {
            T::widen(a.run(row, block.start, block.len()), &mut wide[..block.len()]);
        }
    }
}

/// The length of equal parts of about `most`, in units.
fn even(len: usize, most: usize, unit: usize) -> usize {
    len.div_ceil(len.div_ceil(most)).next_multiple_of(unit)
}

fn grow<S: Copy + Default>(memory: &mut Vec<S>, len: usize) -> &mut [S] {
    if memory.len() < len {
        memory.resize(len, S::default());
    }
    &mut memory[..len]
}

/// Multiplies the old contents of a result that is added to. With 0, they are replaced later.
fn scale<S: Accumulate>(c: &mut [S], stride: usize, cols: usize, beta: S) {
    if beta != S::default() && beta != S::ONE {
        for row in c.chunks_mut(stride) {
            row[..cols].iter_mut().for_each(|c| *c = *c * beta);
        }
    }
}

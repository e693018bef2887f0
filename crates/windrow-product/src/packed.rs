//! The right operand, in the order in which kernels read it.

use std::ops::Range;

use crate::kernel::{DEPTH, InstructionSet, Kernel, LANES, Shape};
use crate::{Matrix, Number};

/// The right operand of products, packed once and used by any number of them, by several threads too.
///
/// The elements of `bf16` and `f16` are widened to `f32`. The order is that of the CPU's instruction set, so there is nothing to be stored
/// or sent: it is made where it is used.
///
/// ```
/// use windrow_product::{Matrix, MatrixMut, PackedB, Product, Workspace};
///
/// // A weight as PyTorch stores it: a row for each output.
/// let weight = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let packed = PackedB::new(Matrix::new(&weight, 3, 2).transposed());
/// assert_eq!((packed.rows(), packed.cols()), (2, 3));
///
/// let (mut c, mut workspace) = ([0.0; 3], Workspace::default());
/// for (a, sums) in [([1.0, 0.0], [1.0, 3.0, 5.0]), ([1.0, 1.0], [3.0, 7.0, 11.0])] {
///     Product::new(Matrix::new(&a, 1, 2), &packed).write(MatrixMut::new(&mut c, 1, 3), &mut workspace);
///     assert_eq!(c, sums);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PackedB<T: Number> {
    rows: usize,
    cols: usize,
    set: InstructionSet,
    /// Blocks of the inner axis, one after the other; in a block, panels; in a panel, steps of the inner axis; in a step, a row of a
    /// micro-tile. Zeros follow the last column.
    packed: Vec<T::Sum>,
    /// Where they begin: on a cache line.
    start: usize,
}

/// The blocks of the inner axis: as many as are needed, as equal as can be. They depend on nothing but its length, so neither does the order
/// of additions.
pub(crate) fn blocks(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let each = depth.div_ceil(depth.div_ceil(DEPTH).max(1)).max(1);
    (0..depth).step_by(each).map(move |start| start..depth.min(start + each))
}

/// Panels that are packed together.
const TOGETHER: usize = 4;

impl<T: Number> Default for PackedB<T> {
    /// A matrix without elements, to be [replaced](Self::pack).
    fn default() -> Self {
        Self { rows: 0, cols: 0, set: InstructionSet::best(), packed: Vec::new(), start: 0 }
    }
}

impl<T: Number> PackedB<T> {
    /// Packs a matrix. For one product of it, [`Product::new`](crate::Product::new) takes the matrix itself, and packs only what pays.
    ///
    /// # Panics
    /// The matrix has more elements than can be counted.
    pub fn new(b: Matrix<'_, T>) -> Self {
        let mut packed = Self::default();
        packed.pack(b);
        packed
    }

    /// Packs another matrix, into the same memory if that is large enough.
    ///
    /// ```
    /// use windrow_product::{Matrix, PackedB};
    ///
    /// let mut packed = PackedB::default();
    /// packed.pack(Matrix::new(&[1.0_f64; 6], 2, 3));
    /// assert_eq!((packed.rows(), packed.cols()), (2, 3));
    /// ```
    ///
    /// # Panics
    /// As for [`new`](Self::new).
    pub fn pack(&mut self, b: Matrix<'_, T>) {
        self.pack_for(InstructionSet::best(), b);
    }

    /// Makes room for another matrix, and returns the parts that are to be [packed](Part::pack), each by any thread. The elements of parts that are
    /// not packed are unspecified.
    ///
    /// ```
    /// use std::thread;
    /// use windrow_product::{Matrix, PackedB, Part};
    ///
    /// let (b, mut packed) = ([1.0_f32; 600 * 50], PackedB::default());
    /// thread::scope(|scope| {
    ///     for part in packed.parts(Matrix::new(&b, 600, 50)) {
    ///         scope.spawn(|| part.pack());
    ///     }
    /// });
    /// ```
    ///
    /// # Panics
    /// As for [`new`](Self::new).
    pub fn parts<'p>(&'p mut self, b: Matrix<'p, T>) -> Vec<Part<'p, T>> {
        self.parts_for(InstructionSet::best(), b)
    }

    pub(crate) fn pack_for(&mut self, set: InstructionSet, b: Matrix<'_, T>) {
        self.parts_for(set, b).into_iter().for_each(Part::pack);
    }

    fn parts_for<'p>(&'p mut self, set: InstructionSet, b: Matrix<'p, T>) -> Vec<Part<'p, T>> {
        (self.rows, self.cols, self.set) = (b.rows, b.cols, set);
        let shape = self.shape();
        let line = 64 / size_of::<T::Sum>();
        let width = if b.rows == 0 { 0 } else { b.cols.next_multiple_of(shape.lanes) };
        let len = width.checked_mul(b.rows).expect("b has too many elements");
        if self.packed.len() < len + line {
            // Nothing of the old contents is needed, so nothing is copied.
            self.packed = vec![T::Sum::default(); len + line];
        }
        self.start = self.packed.as_ptr().align_offset(64).min(line);
        let (mut rest, mut parts) = (&mut self.packed[self.start..][..len], Vec::new());
        for block in blocks(b.rows) {
            for cols in panels(b.cols, Shape { vectors: shape.vectors * TOGETHER, ..shape }) {
                let (packed, others) = rest.split_at_mut(cols.len().next_multiple_of(shape.lanes) * block.len());
                rest = others;
                parts.push(Part { b, block: block.clone(), cols, set, packed });
            }
        }
        parts
    }

    /// The number of rows: the inner axis of products.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.packed.as_slice())
    }

    /// The instruction set of its products: `avx512`, `avx2` or `portable`.
    pub fn instruction_set(&self) -> &'static str {
        self.set.name()
    }

    pub(crate) fn set(&self) -> InstructionSet {
        self.set
    }

    pub(crate) fn shape(&self) -> Shape {
        <T::Sum as Kernel>::shape(self.set)
    }

    /// A block of the inner axis, and its panels from the given column on.
    pub(crate) fn part(&self, block: &Range<usize>, col: usize) -> &[T::Sum] {
        let width = self.cols.next_multiple_of(self.shape().lanes);
        &self.packed[self.start..][block.start * width..block.end * width][col * block.len()..]
    }
}

/// A part of an operand that is yet to be packed: see [`PackedB::parts`].
///
/// ```
/// use windrow_product::{Matrix, PackedB, Part};
///
/// let (b, mut packed) = ([1.0_f32; 600 * 50], PackedB::default());
/// packed.parts(Matrix::new(&b, 600, 50)).into_iter().for_each(Part::pack);
/// assert_eq!((packed.rows(), packed.cols()), (600, 50));
/// ```
#[derive(Debug)]
pub struct Part<'a, T: Number> {
    b: Matrix<'a, T>,
    block: Range<usize>,
    cols: Range<usize>,
    set: InstructionSet,
    packed: &'a mut [T::Sum],
}

impl<T: Number> Part<'_, T> {
    /// Packs it.
    pub fn pack(self) {
        let Self { b, block, cols, set, packed } = self;
        pack_panels(b, &block, &cols, set, packed);
    }
}

/// The columns of each panel.
pub(crate) fn panels(cols: usize, shape: Shape) -> impl Iterator<Item = Range<usize>> {
    let each = shape.vectors * shape.lanes;
    (0..cols).step_by(each).map(move |start| start..cols.min(start + each))
}

/// Packs a block of the panels that have these columns. A row's elements are copied for all of these panels before the next row's: as long
/// contiguous pieces, in pages that are used once.
pub(crate) fn pack_panels<T: Number>(
    b: Matrix<'_, T>,
    block: &Range<usize>,
    cols: &Range<usize>,
    set: InstructionSet,
    packed: &mut [T::Sum],
) {
    let shape = <T::Sum as Kernel>::shape(set);
    let full = shape.vectors * shape.lanes;
    // Where in `packed` a panel begins, and how long its rows are there.
    let place = |panel: &Range<usize>| (panel.start * block.len(), panel.len().next_multiple_of(shape.lanes));
    if !b.transposed {
        for (at, row) in block.clone().enumerate() {
            let from = b.run(row, cols.start, cols.len());
            for (number, from) in from.chunks(full).enumerate() {
                let (start, each) = place(&(number * full..number * full + from.len()));
                let (to, padding) = packed[start + at * each..][..each].split_at_mut(from.len());
                T::widen(from, to);
                padding.fill(T::Sum::default());
            }
        }
        return;
    }
    for panel in panels(cols.len(), shape) {
        let (start, each) = place(&panel);
        let packed = &mut packed[start..][..each * block.len()];
        if each > panel.len() {
            packed.fill(T::Sum::default());
        }
        let stored = cols.start + panel.start..cols.start + panel.end;
        transpose(b, &stored, block, set, packed, each);
    }
}

/// Copies parts of some stored rows, so that they become columns of rows that begin `to_row` apart.
pub(crate) fn transpose<T: Number>(
    from: Matrix<'_, T>,
    majors: &Range<usize>,
    minors: &Range<usize>,
    set: InstructionSet,
    to: &mut [T::Sum],
    to_row: usize,
) {
    let [tall, wide] = <T::Sum as Kernel>::block(set);
    let first = [majors.start, minors.start];
    let data = T::wide(from.data).unwrap_or_default();
    let whole = if data.is_empty() { [0; 2] } else { [majors.len() / tall, minors.len() / wide] };
    if whole[0] * whole[1] > 0 {
        let data = &data[majors.start * from.stride + minors.start..];
        <T::Sum as Kernel>::transpose(set, data, from.stride, whole, to, to_row);
    }
    let [down, across] = [whole[0] * tall, whole[1] * wide];
    // What is in no block.
    for (majors, minors) in [(0..down, across..minors.len()), (down..majors.len(), 0..minors.len())] {
        for row in minors.clone().step_by(LANES) {
            let len = LANES.min(minors.end - row);
            for col in majors.clone() {
                let mut wide = [T::Sum::default(); LANES];
                T::widen(from.run(first[0] + col, first[1] + row, len), &mut wide[..len]);
                for (at, &wide) in wide[..len].iter().enumerate() {
                    to[(row + at) * to_row + col] = wide;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_equal_and_whole() {
        let of = |depth| blocks(depth).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(1), vec![0..1; 1]);
        assert_eq!(of(DEPTH), vec![0..DEPTH; 1]);
        assert_eq!(of(DEPTH + 1), [0..DEPTH / 2 + 1, DEPTH / 2 + 1..DEPTH + 1]);
        assert_eq!(of(4 * DEPTH).len(), 4);
        for depth in [2 * DEPTH + 1, 3 * DEPTH - 1, 5 * DEPTH + 7] {
            assert!(of(depth).windows(2).all(|two| two[0].end == two[1].start));
            assert!(of(depth).iter().all(|block| !block.is_empty() && block.len() <= DEPTH));
            assert_eq!(of(depth).last().map(|block| block.end), Some(depth));
        }
    }

    #[test]
    fn memory_is_used_again() {
        let data = [1.0_f32; 4096];
        let mut packed = PackedB::new(Matrix::new(&data, 64, 64));
        let bytes = packed.bytes();
        packed.pack(Matrix::new(&data, 7, 5));
        assert_eq!((packed.rows(), packed.cols(), packed.bytes()), (7, 5, bytes));
        let clone = packed.clone();
        assert_eq!(clone.part(&(0..7), 0)[..5], [1.0; 5]);
    }
}

//! The computation and the communication of one tile.

use std::ops::Range;
use std::thread;

use half::bf16;
use windrow_product::{Matrix, MatrixMut, Number, PackedB, Workspace};

use crate::buffer::Buffer;
use crate::lanes::{Reused, Stages};
use crate::{Call, Communicator, Element, Error, MatMut, MatRef, Operation};

/// A number that matrices are made of: `f32`, `f64`, and [`half::bf16`]. Products of `bf16` are computed and added up in `f32`.
pub trait Float: Element + Multiply + From<u8> {}

impl Float for f32 {}
impl Float for f64 {}
impl Float for bf16 {}

/// Products of one kind of numbers. Not to be called from outside this crate.
pub trait Multiply: Number {
    /// What products of these numbers need.
    fn operand(scratch: &mut Scratch) -> &mut Operand<Self>;

    /// Packs the right operand; must be called before `multiply` uses it.
    fn prepare(b: MatRef<'_, Self>, scratch: &mut Scratch) {
        Self::operand(scratch).b.pack(Matrix::with_stride(b.data, b.rows, b.cols, b.stride));
    }

    /// `out = a * b`, for operands that fit.
    fn multiply(out: MatMut<'_, Self>, a: MatRef<'_, Self>, scratch: &mut Scratch) {
        let Operand { b, workspace } = Self::operand(scratch);
        let a = Matrix::with_stride(a.data, a.rows, a.cols, a.stride);
        let out = MatrixMut::with_stride(out.data, out.rows, out.cols, out.stride);
        windrow_product::Product::new(a, b).write(out, workspace);
    }
}

/// A packed right operand, and the memory of products by it.
#[derive(Debug, Default)]
pub struct Operand<T: Number> {
    b: PackedB<T>,
    workspace: Workspace<T>,
}

/// Packed operands, kept from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    single: Operand<f32>,
    double: Operand<f64>,
    brain: Operand<bf16>,
}

macro_rules! multiply {
    ($($float:ident $operand:ident;)*) => {$(
        impl Multiply for $float {
            fn operand(scratch: &mut Scratch) -> &mut Operand<Self> {
                &mut scratch.$operand
            }
        }
    )*};
}

multiply! {
    f32 single;
    f64 double;
    bf16 brain;
}

/// The memory of a tile on its way between the lanes.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    give: Buffer,
    get: Buffer,
}

impl Parcel {
    /// Sets the number of given and of received elements.
    pub(crate) fn resize<T: Element>(&mut self, give: usize, get: usize) {
        self.give.resize::<T>(give);
        self.get.resize::<T>(get);
    }
}

impl Reused for Parcel {
    fn room(&self) -> usize {
        self.give.room() + self.get.room()
    }
}

/// The work of the communication lane on a tile.
pub(crate) fn communicate<T: Element>(
    operation: Operation,
    communicator: &mut impl Communicator,
    parcel: &mut Parcel,
) -> Result<(), Error> {
    let Parcel { give, get } = parcel;
    match operation {
        Operation::MatmulAllReduce => communicator.all_reduce::<T>(give.get_mut()),
        Operation::MatmulReduceScatter => communicator.reduce_scatter::<T>(give.get(), get.get_mut()),
        Operation::AllGatherMatmul => communicator.all_gather::<T>(give.get(), get.get_mut()),
    }
}

/// The call of the communication lane for a tile with so many given and received elements.
pub(crate) fn call<T: Element>(operation: Operation, give: usize, get: usize) -> Call {
    let (name, gets) = match operation {
        Operation::MatmulAllReduce => ("all_reduce", give),
        Operation::MatmulReduceScatter => ("reduce_scatter", get),
        Operation::AllGatherMatmul => ("all_gather", get),
    };
    Call { name, element: T::NAME, gives: give, gets, root: None }
}

/// An operation with its operands, checked and cut.
pub(crate) struct Product<'a, T> {
    pub(crate) operation: Operation,
    pub(crate) ranks: usize,
    pub(crate) a: MatRef<'a, T>,
    pub(crate) b: MatRef<'a, T>,
    pub(crate) c: MatMut<'a, T>,
    pub(crate) scratch: &'a mut Scratch,
    /// In units: rows, or rows of each rank.
    pub(crate) tiles: Vec<Range<usize>>,
}

impl<T: Float> Product<'_, T> {
    /// Rows of the whole product.
    ///
    /// # Errors
    /// An operand is not a valid matrix, or does not fit the others.
    pub(crate) fn check(&self) -> Result<usize, Error> {
        let Self { operation, ranks, a, b, c, .. } = self;
        a.check("a")?;
        b.check("b")?;
        c.check("c")?;
        if b.rows != a.cols {
            let why = format!("{} rows, but a has {} columns", b.rows, a.cols);
            return Err(Error::Shape { operand: "b", why });
        }
        let (rows, of) = match operation {
            Operation::MatmulAllReduce => (Some(a.rows), a.rows),
            Operation::MatmulReduceScatter if !a.rows.is_multiple_of(*ranks) => {
                let why = format!("{} rows cannot be dealt out to {ranks} ranks", a.rows);
                return Err(Error::Shape { operand: "a", why });
            }
            Operation::MatmulReduceScatter => (Some(a.rows / ranks), a.rows),
            Operation::AllGatherMatmul => (a.rows.checked_mul(*ranks), a.rows.saturating_mul(*ranks)),
        };
        if rows != Some(c.rows) || c.cols != b.cols {
            let rows = rows.map_or_else(|| "more rows than can be counted".to_owned(), |rows| format!("{rows} rows"));
            let why = format!("{} rows of {}, but the result has {rows} of {}", c.rows, c.cols, b.cols);
            return Err(Error::Shape { operand: "c", why });
        }
        Ok(of)
    }

    /// What the communication lane calls for the tiles.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let Self { operation, ranks, ref a, ref b, .. } = *self;
        let calls = self.tiles.iter().map(|tile| {
            let (product, rows) = (tile.len() * b.cols, tile.len() * a.cols);
            match operation {
                Operation::MatmulAllReduce => call::<T>(operation, product, product),
                Operation::MatmulReduceScatter => call::<T>(operation, ranks * product, product),
                Operation::AllGatherMatmul => call::<T>(operation, rows, ranks * rows),
            }
        });
        calls.collect()
    }

    /// Rows of each rank, where an axis is dealt out.
    fn each(&self) -> usize {
        match self.operation {
            Operation::MatmulAllReduce => self.a.rows,
            Operation::MatmulReduceScatter => self.c.rows,
            Operation::AllGatherMatmul => self.a.rows,
        }
    }
}

/// The rows of a tile in the share of every rank.
fn shares(ranks: usize, each: usize, tile: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *tile;
    (0..ranks).map(move |rank| rank * each + start..rank * each + end)
}

/// Multiplications in a strip: 0.75 ms on a processor that does 45 in a nanosecond.
const STRIP: usize = 1 << 25;

/// The minimum rows of a strip. Fewer rows are bound by reading the packed `b`: 16 rows by 2048 x 2048 run at three quarters of the rate of 32.
const ROWS: usize = 32;

/// `out = a * b` in strips of rows. Between strips it yields to the communication thread: the scheduler of Linux would otherwise let that
/// thread wait for a tick, 4 ms.
fn multiply<T: Float>(mut out: MatMut<'_, T>, a: MatRef<'_, T>, scratch: &mut Scratch) {
    // Without columns there are no elements, for any number of rows.
    if out.cols == 0 {
        return;
    }
    let each = (STRIP / (a.cols * out.cols).max(1)).max(ROWS).next_multiple_of(ROWS);
    for start in (0..out.rows).step_by(each) {
        if start > 0 {
            thread::yield_now();
        }
        let rows = start..out.rows.min(start + each);
        T::multiply(out.part(rows.clone()), a.part(rows), scratch);
    }
}

impl<T: Float> Stages<Parcel> for Product<'_, T> {
    fn room(&self, tile: usize) -> usize {
        let (rows, depth, cols) = (self.tiles[tile].len(), self.a.cols, self.b.cols);
        let elements = match self.operation {
            Operation::MatmulAllReduce => rows * cols,
            Operation::MatmulReduceScatter => (self.ranks + 1) * rows * cols,
            Operation::AllGatherMatmul => (self.ranks + 1) * rows * depth,
        };
        elements * size_of::<T>()
    }

    fn fill(&mut self, tile: usize, parcel: &mut Parcel) {
        let (tile, each, ranks, cols) = (self.tiles[tile].clone(), self.each(), self.ranks, self.b.cols);
        let rows = tile.len();
        match self.operation {
            Operation::MatmulAllReduce => {
                let out = MatMut::new(parcel.give.resize(rows * cols), rows, cols);
                multiply(out, self.a.part(tile), self.scratch);
            }
            Operation::MatmulReduceScatter => {
                let mut out = MatMut::new(parcel.give.resize(ranks * rows * cols), ranks * rows, cols);
                for (rank, share) in shares(ranks, each, &tile).enumerate() {
                    multiply(out.part(rank * rows..(rank + 1) * rows), self.a.part(share), self.scratch);
                }
                parcel.get.resize::<T>(rows * cols);
            }
            Operation::AllGatherMatmul => {
                let depth = self.a.cols;
                let mut out = MatMut::new(parcel.give.resize(rows * depth), rows, depth);
                for (row, a) in self.a.part(tile).iter().enumerate() {
                    out.row(row).copy_from_slice(a);
                }
                parcel.get.resize::<T>(ranks * rows * depth);
            }
        }
    }

    fn drain(&mut self, tile: usize, parcel: &mut Parcel) {
        let (tile, each, ranks, cols) = (self.tiles[tile].clone(), self.each(), self.ranks, self.b.cols);
        let rows = tile.len();
        let result = match self.operation {
            Operation::MatmulAllReduce => &parcel.give,
            Operation::MatmulReduceScatter => &parcel.get,
            Operation::AllGatherMatmul => {
                let depth = self.a.cols;
                let gathered = MatRef::new(parcel.get.get(), ranks * rows, depth);
                for (rank, share) in shares(ranks, each, &tile).enumerate() {
                    let a = gathered.part(rank * rows..(rank + 1) * rows);
                    multiply(self.c.part(share), a, self.scratch);
                }
                return;
            }
        };
        for (row, result) in tile.zip(MatRef::new(result.get(), rows, cols).iter()) {
            self.c.row(row).copy_from_slice(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stays_inside<T: Float + From<i8> + std::ops::Div<Output = T>>(check: impl Fn(T) -> f64) {
        let canary = T::from(-77_i8);
        for rows in 1..20 {
            for cols in [1, 2, 3, 7, 8, 15, 16, 17, 33] {
                for depth in [1, 2, 5, 16, 31] {
                    let element = |i: usize, j: usize| ((i * 7 + j * 3) % 5) as i8 - 2;
                    let matrix = |rows: usize, cols: usize| {
                        (0..rows * cols).map(|at| T::from(element(at / cols, at % cols))).collect::<Vec<_>>()
                    };
                    let (a, b, margin) = (matrix(rows, depth), matrix(depth, cols), 64);
                    let mut out = vec![canary; margin + rows * cols + margin];
                    // Old contents must not matter.
                    out[margin..margin + rows * cols].fill(T::from(0_i8) / T::from(0_i8));
                    let inner = MatMut { data: &mut out[margin..margin + rows * cols], rows, cols, stride: cols };
                    let (a, b) = (MatRef::new(&a[..], rows, depth), MatRef::new(&b[..], depth, cols));
                    let mut scratch = Scratch::default();
                    T::prepare(b, &mut scratch);
                    T::multiply(inner, a, &mut scratch);
                    let (before, rest) = out.split_at(margin);
                    let (inner, after) = rest.split_at(rows * cols);
                    assert!(before.iter().chain(after).all(|&at| at == canary), "{rows} x {depth} x {cols}");
                    for (at, &got) in inner.iter().enumerate() {
                        let sum: f64 = (0..depth)
                            .map(|l| f64::from(element(at / cols, l)) * f64::from(element(l, at % cols)))
                            .sum();
                        assert_eq!(check(got), sum, "{rows} x {depth} x {cols}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_are_written_where_they_belong() {
        stays_inside::<f64>(|x| x);
        stays_inside::<f32>(f64::from);
        stays_inside::<bf16>(bf16::to_f64);
    }
}

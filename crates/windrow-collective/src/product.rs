//! The computation and the communication of one tile.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use windrow::prelude::*;
use windrow_product::{Matrix, MatrixMut, Workspace};

use crate::buffer::Buffer;
use crate::call::part;
use crate::float::{Float, Memory, Scratch};
use crate::lanes::Stages;
use crate::operands::{Operands, Right};
use crate::{Call, Communicator, Element, Error, MatMut, Operation};

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

/// The call of the communication lane for a tile with so many given and received elements.
pub(crate) fn call<T: Element>(operation: Operation, [give, get]: [usize; 2]) -> Call {
    let (name, gets) = match operation {
        Operation::MatmulAllReduce => ("all_reduce", give),
        Operation::MatmulReduceScatter => ("reduce_scatter", get),
        Operation::AllGatherMatmul => ("all_gather", get),
    };
    Call { name, element: T::NAME, gives: give, gets, root: None }
}

/// Parcels that are kept from call to call.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Parcel>);

impl Spare {
    /// Takes the smallest parcel that has so many bytes, or the largest one. Other choices would grow parcels again and again while the cuts of
    /// operations change. New memory is touched for the first time during the computation.
    pub(crate) fn take(&mut self, bytes: usize) -> Parcel {
        let has = |place: &usize| self.0[*place].give.room() + self.0[*place].get.room();
        let fits = (0..self.0.len()).filter(|place| has(place) >= bytes).min_by_key(has);
        let place = fits.or_else(|| (0..self.0.len()).max_by_key(has));
        place.map_or_else(Parcel::default, |place| self.0.swap_remove(place))
    }

    pub(crate) fn put_back(&mut self, parcel: Parcel) {
        self.0.push(parcel);
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

/// An operation with its operands, checked and cut.
pub(crate) struct Product<'a, T: Float> {
    pub(crate) operation: Operation,
    pub(crate) ranks: usize,
    pub(crate) operands: Operands<'a, T>,
    pub(crate) c: MatMut<'a, T>,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) spare: &'a mut Spare,
    /// Threads that compute.
    pub(crate) threads: usize,
    /// In units: rows, or rows of each rank.
    pub(crate) tiles: Vec<Range<usize>>,
}

impl<T: Float> Product<'_, T> {
    /// Rows of the whole product.
    ///
    /// # Errors
    /// An operand is not a valid matrix, or does not fit the others.
    pub(crate) fn check(&self) -> Result<usize, Error> {
        let Self { operation, ranks, operands, c, .. } = self;
        operands.check()?;
        c.check("c")?;
        let (a, [_, cols]) = (operands.a, operands.inner());
        let (rows, of) = match operation {
            Operation::MatmulAllReduce => (Some(a.rows), a.rows),
            Operation::MatmulReduceScatter if !a.rows.is_multiple_of(*ranks) => {
                let why = format!("{} rows cannot be divided evenly among {ranks} ranks", a.rows);
                return Err(Error::Shape { operand: "a", why });
            }
            Operation::MatmulReduceScatter => (Some(a.rows / ranks), a.rows),
            Operation::AllGatherMatmul => (a.rows.checked_mul(*ranks), a.rows.saturating_mul(*ranks)),
        };
        if rows != Some(c.rows) || c.cols != cols {
            let rows = rows.map_or_else(|| "more rows than can be counted".to_owned(), |rows| format!("{rows} rows"));
            let why = format!("{} rows of {}, but the result has {rows} of {cols}", c.rows, c.cols);
            return Err(Error::Shape { operand: "c", why });
        }
        Ok(of)
    }

    /// What the communication lane calls for the tiles.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let Self { operation, ranks, operands, .. } = self;
        let calls = self.tiles.iter().map(|tile| {
            let (product, rows) = (tile.len() * self.cols(), tile.len() * operands.a.cols);
            let exchanged = match operation {
                Operation::MatmulAllReduce => [product, 0],
                Operation::MatmulReduceScatter => [ranks * product, product],
                Operation::AllGatherMatmul => [rows, ranks * rows],
            };
            call::<T>(*operation, exchanged)
        });
        calls.collect()
    }

    /// Packs `b`, if it is not packed and that pays. Must be called before tiles are computed.
    pub(crate) fn prepare(&mut self) {
        if let (Right::Plain(b), true) = (self.operands.b, self.packs()) {
            T::memory(self.scratch).pack(b, self.threads);
        }
    }

    /// True if a plain `b` is packed for all tiles: not for few rows, such as a step of decoding.
    fn packs(&self) -> bool {
        windrow_product::Product::<T>::packs(self.each() * self.ranks, self.cols())
    }

    /// Rows of each rank, where an axis is dealt out.
    fn each(&self) -> usize {
        match self.operation {
            Operation::MatmulReduceScatter => self.c.rows,
            Operation::MatmulAllReduce | Operation::AllGatherMatmul => self.operands.a.rows,
        }
    }

    /// The columns of the result.
    fn cols(&self) -> usize {
        self.c.cols
    }
}

/// The rows of a tile in the share of every rank.
fn shares(ranks: usize, each: usize, tile: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let Range { start, end } = *tile;
    (0..ranks).map(move |rank| rank * each + start..rank * each + end)
}

/// Multiplications in a strip: 0.75 ms on a processor that does 45 in a nanosecond.
const STRIP: usize = 1 << 25;

/// The minimum rows of a strip, if there are as many. Fewer rows are bound by reading the packed `b`: 16 rows by 2048 x 2048 run at three quarters of
/// the rate of 32.
const ROWS: usize = 32;

/// The computation of rows of a product, on some threads.
struct Computation<'a, T: Float> {
    product: windrow_product::Product<'a, T>,
    /// Terms of an element.
    depth: usize,
    workspaces: &'a Mutex<Vec<Workspace<T>>>,
    threads: usize,
}

impl<'a, T: Float> Computation<'a, T> {
    /// `packed` says whether a plain `b` was packed.
    fn new(
        a: Matrix<'a, T>,
        operands: &Operands<'a, T>,
        packed: bool,
        scratch: &'a mut Scratch,
        threads: usize,
    ) -> Self {
        let Memory { b, workspaces } = T::memory(scratch);
        let product = match operands.b {
            Right::Packed(packed) => windrow_product::Product::new(a, packed),
            Right::Plain(_) if packed => windrow_product::Product::new(a, &*b),
            Right::Plain(plain) => windrow_product::Product::new(a, plain.matrix()),
        };
        let product = operands.alpha.map_or(product, |alpha| product.alpha(alpha));
        Self { product, depth: operands.inner()[0], workspaces, threads }
    }

    /// Writes these rows to `out`. The rows are divided among the threads, as far as it pays: the pool decides.
    fn write(&self, rows: Range<usize>, out: MatMut<'_, T>) {
        // Without columns there are no elements, for any number of rows.
        if rows.is_empty() || out.cols == 0 {
            return;
        }
        let shares = self.threads.min(rows.len() / ROWS);
        if shares < 2 {
            return self.write_strips(rows, out);
        }
        let (MatMut { data, cols, stride, .. }, each) = (out, rows.len().div_ceil(shares));
        let end = (rows.len() - 1) * stride + cols;
        data[..end].par_chunks_mut(each * stride).enumerate().for_each(|(share, data)| {
            let start = rows.start + share * each;
            let rows = start..rows.end.min(start + each);
            self.write_strips(rows.clone(), MatMut { data, rows: rows.len(), cols, stride });
        });
    }

    /// Writes rows in strips. Between strips it yields to the communication thread: the scheduler of Linux would otherwise let that thread wait
    /// for a tick, 4 ms.
    fn write_strips(&self, rows: Range<usize>, mut out: MatMut<'_, T>) {
        let workspaces = || self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut workspace = workspaces().pop().unwrap_or_default();
        for (number, strip) in strips(rows.len(), self.depth * out.cols).enumerate() {
            if number > 0 {
                thread::yield_now();
            }
            let MatMut { data, rows: len, cols, stride } = out.part(strip.clone());
            let part = rows.start + strip.start..rows.start + strip.end;
            self.product.write_rows(part, MatrixMut::with_stride(data, len, cols, stride), &mut workspace);
        }
        workspaces().push(workspace);
    }
}

/// The strips of a product with so many multiplications a row: about equal, so that none has only the few rows that would be left over.
fn strips(rows: usize, multiplications: usize) -> impl Iterator<Item = Range<usize>> {
    let each = (STRIP / multiplications.max(1)).max(ROWS);
    let strips = (rows / each).max(1);
    (0..strips).map(move |strip| part(rows, strips, strip))
}

impl<T: Float> Stages<Parcel> for Product<'_, T> {
    fn parcel(&mut self, tile: usize) -> Parcel {
        let (rows, depth, cols) = (self.tiles[tile].len(), self.operands.a.cols, self.cols());
        let elements = match self.operation {
            Operation::MatmulAllReduce => rows * cols,
            Operation::MatmulReduceScatter => (self.ranks + 1) * rows * cols,
            Operation::AllGatherMatmul => (self.ranks + 1) * rows * depth,
        };
        self.spare.take(elements * size_of::<T>())
    }

    fn put_back(&mut self, parcel: Parcel) {
        self.spare.put_back(parcel);
    }

    fn fill(&mut self, tile: usize, parcel: &mut Parcel) -> Result<(), String> {
        let (tile, each, ranks, cols) = (self.tiles[tile].clone(), self.each(), self.ranks, self.cols());
        let rows = tile.len();
        if self.operation == Operation::AllGatherMatmul {
            let depth = self.operands.a.cols;
            self.operands.a.copy_rows(tile, parcel.give.resize(rows * depth));
            parcel.get.resize::<T>(ranks * rows * depth);
            return Ok(());
        }
        let of = Computation::new(self.operands.a.matrix(), &self.operands, self.packs(), self.scratch, self.threads);
        if self.operation == Operation::MatmulAllReduce {
            of.write(tile, MatMut::new(parcel.give.resize(rows * cols), rows, cols));
            return Ok(());
        }
        let mut out = MatMut::new(parcel.give.resize(ranks * rows * cols), ranks * rows, cols);
        for (rank, share) in shares(ranks, each, &tile).enumerate() {
            of.write(share, out.part(rank * rows..(rank + 1) * rows));
        }
        parcel.get.resize::<T>(rows * cols);
        Ok(())
    }

    fn drain(&mut self, tile: usize, parcel: &mut Parcel) -> Result<(), String> {
        let (tile, each, ranks, cols) = (self.tiles[tile].clone(), self.each(), self.ranks, self.cols());
        let (rows, beta) = (tile.len(), self.operands.beta);
        let result = match self.operation {
            Operation::MatmulAllReduce => &parcel.give,
            Operation::MatmulReduceScatter => &parcel.get,
            Operation::AllGatherMatmul => {
                let gathered = Matrix::new(parcel.get.get(), ranks * rows, self.operands.a.cols);
                let mut of = Computation::new(gathered, &self.operands, self.packs(), self.scratch, self.threads);
                of.product = beta.map_or(of.product, |beta| of.product.beta(beta));
                for (rank, share) in shares(ranks, each, &tile).enumerate() {
                    of.write(rank * rows..(rank + 1) * rows, self.c.part(share));
                }
                return Ok(());
            }
        };
        // Without columns there are no elements, for any number of rows.
        for (row, result) in tile.zip(result.get::<T>().chunks_exact(cols.max(1))) {
            let c = self.c.row(row);
            match beta {
                None => c.copy_from_slice(result),
                Some(beta) => c.iter_mut().zip(result).for_each(|(c, &sum)| *c = T::plus(sum, beta, *c)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::MatRef;
    use crate::float::Multiply;

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
                    let inner = MatMut::new(&mut out[margin..margin + rows * cols], rows, cols);
                    let (a, b) = (MatRef::new(&a[..], rows, depth), MatRef::new(&b[..], depth, cols));
                    let mut scratch = Scratch::default();
                    T::memory(&mut scratch).pack(b, 1);
                    Computation::new(a.matrix(), &Operands::new(a, b), true, &mut scratch, 1).write(0..rows, inner);
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
    fn strips_are_about_equal() {
        let lengths = |rows, multiplications| strips(rows, multiplications).map(|rows| rows.len()).collect::<Vec<_>>();
        // Of a wide matrix, 40 rows are one strip: 8 of them alone would take as long as 24.
        for (rows, expected) in
            [(1, vec![1]), (40, vec![40]), (63, vec![63]), (64, vec![32; 2]), (100, vec![34, 33, 33])]
        {
            assert_eq!(lengths(rows, 8192 * 3072), expected);
        }
        assert_eq!(lengths(1000, 1), [1000]);
        assert_eq!(lengths(1024, 512 * 512), [128; 8]);
        assert_eq!(lengths(1000, 512 * 512), [143, 143, 143, 143, 143, 143, 142]);
    }

    #[test]
    fn products_are_written_where_they_belong() {
        stays_inside::<f64>(|x| x);
        stays_inside::<f32>(f64::from);
        stays_inside::<bf16>(bf16::to_f64);
        stays_inside::<f16>(f16::to_f64);
    }

    /// The bits do not depend on the number of threads, nor does what lies between rows change.
    #[test]
    fn threads_share_a_product() {
        let (rows, cols, depth, stride) = (301, 70, 90, 75);
        let numbers = |len: usize| (0..len).map(|at| (at * 7919 % 1009) as f32 / 1009.0 - 0.5).collect::<Vec<_>>();
        let (a, b) = (numbers(rows * depth), numbers(depth * cols));
        let (a, b) = (MatRef::new(&a, rows, depth), MatRef::new(&b, depth, cols));
        let run = |threads: usize| {
            let (mut out, mut scratch) = (vec![-77.0; rows * stride - 3], Scratch::default());
            f32::memory(&mut scratch).pack(b, threads);
            let of = Computation::new(a.matrix(), &Operands::new(a, b), true, &mut scratch, threads);
            of.write(1..rows, MatMut::with_stride(&mut out, rows - 1, cols, stride));
            out
        };
        let alone = run(1);
        assert!(alone.chunks(stride).take(rows - 1).all(|row| row[cols..].iter().all(|&between| between == -77.0)));
        for threads in [2, 3, 8, 1000] {
            assert!(run(threads) == alone, "{threads} threads");
        }
    }
}

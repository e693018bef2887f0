//! Ranks on threads, and products to compare with.
#![allow(dead_code, reason = "each test uses a part")]

use std::thread;

use half::{bf16, f16};
use windrow_collective::{Communicator, Error, Float, Fused, Group, MatMut, MatRef, Operation, Outcome, Rank, Tiles};

/// Runs every rank on a separate thread.
pub(crate) fn on_all<R: Send>(ranks: Vec<Rank>, run: impl Fn(Fused<Rank>) -> R + Sync) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let running: Vec<_> =
            ranks.into_iter().map(|rank| scope.spawn(move || run(Fused::new(rank).unwrap()))).collect();
        running.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// A float that small whole numbers convert to.
pub(crate) trait Number: Float {
    fn round(number: f64) -> Self;
    fn to(self) -> f64;
}

impl Number for f32 {
    fn round(number: f64) -> Self {
        number as f32
    }
    fn to(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    fn round(number: f64) -> Self {
        number
    }
    fn to(self) -> f64 {
        self
    }
}

impl Number for bf16 {
    fn round(number: f64) -> Self {
        bf16::from_f64(number)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

impl Number for f16 {
    fn round(number: f64) -> Self {
        f16::from_f64(number)
    }
    fn to(self) -> f64 {
        self.to_f64()
    }
}

/// An operation: m, n, k as `Fused` names them, and space between rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) ranks: usize,
    /// Rows of the product; of each rank where they are dealt out.
    pub(crate) each: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) gap: usize,
}

impl Case {
    pub(crate) fn m(&self) -> usize {
        self.each * self.operation.unit(self.ranks)
    }

    /// Rows of a rank's `a` and `c`.
    pub(crate) fn rows(&self) -> [usize; 2] {
        match self.operation {
            Operation::MatmulAllReduce => [self.each; 2],
            Operation::MatmulReduceScatter => [self.m(), self.each],
            Operation::AllGatherMatmul => [self.each, self.m()],
        }
    }

    /// Elements of a rank's operands: whole numbers in -1..=1 if sums are to be exact, else fractions.
    pub(crate) fn a(&self, rank: usize, i: usize, j: usize, exact: bool) -> f64 {
        number(1 + rank as u64, i as u64, j as u64, exact)
    }

    pub(crate) fn b(&self, rank: usize, i: usize, j: usize, exact: bool) -> f64 {
        number(101 + rank as u64, i as u64, j as u64, exact)
    }

    /// Runs it on a rank. Returns the result of this rank, row by row.
    pub(crate) fn run<T: Number, C: Communicator + Send + 'static>(
        &self,
        fused: &mut Fused<C>,
        tiles: &Tiles,
        exact: bool,
    ) -> (Vec<T>, Result<Outcome, Error>) {
        let Self { n, k, gap, .. } = *self;
        let (rank, [a_rows, c_rows]) = (fused.rank(), self.rows());
        let matrix = |rows: usize, cols: usize, element: &dyn Fn(usize, usize) -> f64| -> Vec<T> {
            let stride = cols + gap;
            // What lies between rows must not get into the result.
            let mut data = vec![T::round(f64::NAN); rows * stride];
            for i in 0..rows {
                for j in 0..cols {
                    data[i * stride + j] = T::round(element(i, j));
                }
            }
            data
        };
        let a = matrix(a_rows, k, &|i, j| self.a(rank, i, j, exact));
        let b = matrix(k, n, &|i, j| self.b(rank, i, j, exact));
        let untouched = T::round(-77.0);
        let mut c = vec![untouched; c_rows * (n + gap)];
        let operands = (
            MatRef::with_stride(&a, a_rows, k, k + gap),
            MatRef::with_stride(&b, k, n, n + gap),
            MatMut::with_stride(&mut c, c_rows, n, n + gap),
        );
        let outcome = call(fused, self.operation, operands, tiles);
        for row in c.chunks((n + gap).max(1)) {
            assert!(row[n..].iter().all(|&between| between == untouched), "something was written between rows");
        }
        (c.chunks((n + gap).max(1)).flat_map(|row| &row[..n]).copied().collect(), outcome)
    }

    /// The expected result of a rank, in wide numbers: the sums of products, and those of their magnitudes.
    pub(crate) fn expected<T: Number>(&self, rank: usize, exact: bool) -> Vec<[f64; 2]> {
        let Self { n, k, ranks, each, operation, .. } = *self;
        let round = |x: f64| T::round(x).to();
        let dot = |from: usize, of: usize, i: usize, j: usize| {
            (0..k).fold([0.0, 0.0], |[sum, size], l| {
                let product = round(self.a(from, i, l, exact)) * round(self.b(of, l, j, exact));
                [sum + product, size + product.abs()]
            })
        };
        let at = |i: usize, j: usize| match operation {
            Operation::AllGatherMatmul => dot(i / each, rank, i % each, j),
            _ => {
                let first = if operation == Operation::MatmulReduceScatter { rank * each } else { 0 };
                let add = |[s, t]: [f64; 2], [x, y]: [f64; 2]| [s + x, t + y];
                (0..ranks).map(|from| dot(from, from, first + i, j)).fold([0.0; 2], add)
            }
        };
        (0..self.rows()[1]).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| at(i, j)).collect()
    }

    /// Runs it on all ranks of a new group, and compares the results with the exact one.
    pub(crate) fn check<T: Number>(&self, tiles: &Tiles, exact: bool) {
        on_all(Group::new(self.ranks).ranks(), |mut fused| {
            let (result, outcome) = self.run::<T, _>(&mut fused, tiles, exact);
            let outcome = outcome.unwrap_or_else(|error| panic!("{self:?}: {error}"));
            self.compare(fused.rank(), &result, exact);
            assert_eq!(outcome.tiles.total().0, self.m() as u64);
            assert_eq!([outcome.trace.compute.len(), outcome.trace.communicate.len()], [outcome.tiles.len(); 2]);
        });
    }

    pub(crate) fn compare<T: Number>(&self, rank: usize, result: &[T], exact: bool) {
        let expected = self.expected::<T>(rank, exact);
        assert_eq!(result.len(), expected.len());
        let (terms, half) = ((self.k + self.ranks) as f64, if T::NAME == "f64" { -53 } else { -24 });
        let e = f64::powi(2.0, half);
        let bound = match T::NAME {
            "bf16" => f64::powi(2.0, -7) + f64::powi(2.0, -14),
            "f16" => f64::powi(2.0, -10) + f64::powi(2.0, -14),
            _ => terms * e / (1.0 - terms * e),
        };
        for (place, (&got, &[sum, size])) in result.iter().zip(&expected).enumerate() {
            if exact {
                assert_eq!(got.to().to_bits(), sum.to_bits(), "{self:?} at {place}: {got:?}, not {sum}");
            } else {
                // The rounding of the expected sum itself.
                let own = terms * f64::powi(2.0, -53) * size;
                assert!((got.to() - sum).abs() <= bound * size + own, "{self:?} at {place}: {got:?}, not {sum}");
            }
        }
    }
}

pub(crate) fn call<T: Float, C: Communicator + Send + 'static>(
    fused: &mut Fused<C>,
    operation: Operation,
    (a, b, c): (MatRef<'_, T>, MatRef<'_, T>, MatMut<'_, T>),
    tiles: &Tiles,
) -> Result<Outcome, Error> {
    match operation {
        Operation::MatmulAllReduce => fused.matmul_all_reduce(a, b, c, tiles),
        Operation::MatmulReduceScatter => fused.matmul_reduce_scatter(a, b, c, tiles),
        Operation::AllGatherMatmul => fused.all_gather_matmul(a, b, c, tiles),
    }
}

pub(crate) const OPERATIONS: [Operation; 3] =
    [Operation::MatmulAllReduce, Operation::MatmulReduceScatter, Operation::AllGatherMatmul];

/// A pseudo-random number of the arguments.
fn number(of: u64, i: u64, j: u64, exact: bool) -> f64 {
    let mut x = of.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ (j << 32 | 1);
    for _ in 0..2 {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    // Zeros here are positive, so that no sum is a negative zero.
    if exact { (x >> 40) as f64 % 3.0 - 1.0 } else { (x >> 11) as f64 / f64::powi(2.0, 53) - 0.5 }
}

//! Cholesky decomposition of a symmetric, positive definite matrix: `A = L L^T`, in the lower triangle, row by row.
//!
//! In round `k` one member completes column `k` of L, in a separate vector that all members share: every row below needs the whole
//! column. Row `i` changes only its cells up to the diagonal. So rows differ in cost, and are dealt by area.
//!
//! `cargo run --release -p windrow --features ndarray --example cholesky`

use std::ops::Range;
use std::time::Instant;

use ndarray::{Array2, ArrayViewMut2, Axis};
use windrow::team::Own;
use windrow::team::split::{self, ViewMut};

/// A square matrix. Only its lower triangle is used.
#[derive(Clone)]
struct Matrix {
    n: usize,
    cells: Array2<f64>,
    /// The column of the round, from the diagonal on.
    column: Vec<f64>,
}

impl Matrix {
    /// A matrix with a large diagonal, so that it is positive definite.
    fn new(n: usize) -> Self {
        let cell = |i: usize, j: usize| if i == j { n as f64 } else { ((i * j) as f64).sin() / 2.0 };
        Self { n, cells: Array2::from_shape_fn((n, n), |(i, j)| cell(i, j)), column: Vec::with_capacity(n) }
    }

    /// Completes column `k`. Returns it, and the rows below the diagonal.
    fn complete(&mut self, k: usize) -> (&[f64], ArrayViewMut2<'_, f64>) {
        let root = self.cells[(k, k)].sqrt();
        self.column.clear();
        for cell in self.cells.column_mut(k).iter_mut().skip(k) {
            *cell = if self.column.is_empty() { root } else { *cell / root };
            self.column.push(*cell);
        }
        (&self.column, self.cells.slice_axis_mut(Axis(0), (k + 1..).into()))
    }
}

/// Subtracts the products of column `k` from `rows`, which begin `first` rows below the diagonal cell.
fn take_off(k: usize, column: &[f64], first: usize, mut rows: ArrayViewMut2<'_, f64>) {
    for (at, mut row) in (first..).zip(rows.rows_mut()) {
        let factor = column[at];
        row.iter_mut().skip(k + 1).zip(&column[1..=at]).for_each(|(cell, other)| *cell -= factor * other);
    }
}

fn serial(matrix: &mut Matrix) {
    for k in 0..matrix.n {
        let (column, rows) = matrix.complete(k);
        take_off(k, column, 1, rows);
    }
}

fn team(matrix: &mut Matrix) {
    let n = matrix.n;
    windrow::team(matrix).run(|member| {
        let done = member.rounds::<&[f64], (Own<Range<usize>>, ViewMut<f64>)>(
            0..n,
            |matrix, k, deal| {
                let (column, rows) = matrix.complete(k);
                deal.parts(split::lower_triangle((1..n - k, rows), deal.width()));
                column
            },
            |k, column, (numbers, rows)| take_off(k, column, numbers.start, rows),
        );
        done.expect("no member leaves early");
    });
}

/// The largest cell of the lower triangle of `A - L L^T`.
fn residual(a: &Matrix, l: &Matrix) -> f64 {
    let n = a.n;
    let row = |i: usize| l.cells.row(i);
    let product = |i: usize, j: usize| row(i).iter().zip(row(j)).take(j + 1).map(|(a, b)| a * b).sum::<f64>();
    let cells = (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
    cells.map(|(i, j)| (a.cells[(i, j)] - product(i, j)).abs()).fold(0.0, f64::max)
}

fn main() {
    let a = Matrix::new(500);
    let (mut expected, mut found) = (a.clone(), a.clone());

    let begun = Instant::now();
    serial(&mut expected);
    let alone = begun.elapsed();

    let begun = Instant::now();
    team(&mut found);
    let together = begun.elapsed();

    assert!(found.cells.iter().zip(&expected.cells).all(|(a, b)| a.to_bits() == b.to_bits()), "another result");
    let residual = residual(&a, &found);
    assert!(residual < 1e-10, "A - L L^T is {residual:e}");
    println!("{0} x {0}: serial {alone:.2?}, team {together:.2?}, residual {residual:.1e}", a.n);
}

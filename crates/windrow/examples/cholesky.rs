//! Cholesky decomposition of a symmetric, positive definite matrix: `A = L L^T`, in the lower triangle, row by row.
//!
//! In round `k` one member completes column `k` of L, in a separate vector that all members share: every row below needs the whole
//! column. Row `i` changes only its cells up to the diagonal. So rows differ in cost, and are dealt by area.
//!
//! `cargo run --release -p windrow --example cholesky`

use std::ops::Range;
use std::time::Instant;

use windrow::team::{Grid, Own, split};

/// A square matrix, row by row. Only its lower triangle is used.
#[derive(Clone)]
struct Matrix {
    n: usize,
    cells: Vec<f64>,
    /// The column of the round, from the diagonal on.
    column: Vec<f64>,
}

impl Matrix {
    /// A matrix with a large diagonal, so that it is positive definite.
    fn new(n: usize) -> Self {
        let cell = |i: usize, j: usize| if i == j { n as f64 } else { ((i * j) as f64).sin() / 2.0 };
        Self { n, cells: (0..n * n).map(|at| cell(at / n, at % n)).collect(), column: Vec::with_capacity(n) }
    }

    /// Completes column `k`. Returns it, and the rows below the diagonal.
    fn complete(&mut self, k: usize) -> (&[f64], Grid<'_, f64>) {
        let n = self.n;
        let mut rows = Grid::new(&mut self.cells, n, n, n).expect("a square").block(k..n, 0..n);
        let root = rows.row(0)[k].sqrt();
        self.column.clear();
        for row in rows.rows_mut() {
            row[k] = if self.column.is_empty() { root } else { row[k] / root };
            self.column.push(row[k]);
        }
        (&self.column, rows.split_rows_at(1).1)
    }
}

/// Subtracts the products of column `k` from `rows`, which begin `first` rows below the diagonal cell.
fn take_off(k: usize, column: &[f64], first: usize, rows: Grid<'_, f64>) {
    for (at, row) in (first..).zip(rows) {
        let factor = column[at];
        row[k + 1..=k + at].iter_mut().zip(&column[1..]).for_each(|(cell, other)| *cell -= factor * other);
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
        let done = member.rounds::<&[f64], (Own<Range<usize>>, Grid<'_, f64>)>(
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
    let row = |i: usize| &l.cells[i * n..][..=i];
    let product = |i: usize, j: usize| row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum::<f64>();
    let cells = (0..n).flat_map(|i| (0..=i).map(move |j| (i, j)));
    cells.map(|(i, j)| (a.cells[i * n + j] - product(i, j)).abs()).fold(0.0, f64::max)
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

//! LU decomposition with partial pivoting, in place, row by row: `P A = L U`.
//!
//! Round `k` clears column `k` below the diagonal. First one member, with exclusive access to the matrix, chooses the pivot row and moves
//! it. Then all members clear the column in their rows. One round a column, one barrier a round.
//!
//! A library works on blocks of columns, to use the cache well: `windrow-bench` has such a decomposition with rounds
//! (`src/decompose/blocked.rs`).
//!
//! `cargo run --release -p windrow --example lu`

use std::time::Instant;

use windrow::team::split;

/// A square matrix, row by row, and the swaps of its rows: step `k` swaps row `k` with row `pivots[k]`.
#[derive(Clone)]
struct Matrix {
    n: usize,
    cells: Vec<f64>,
    pivots: Vec<usize>,
}

impl Matrix {
    fn random(n: usize) -> Self {
        let mut state = 1_u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        Self { n, cells: (0..n * n).map(|_| number()).collect(), pivots: Vec::with_capacity(n) }
    }

    /// Swaps the row with the largest cell of column `k` to row `k`. Returns row `k`, and the rows below it.
    fn pivot(&mut self, k: usize) -> (&[f64], &mut [f64]) {
        let n = self.n;
        let size = |row: &usize| self.cells[row * n + k].abs();
        let pivot = (k..n).max_by(|a, b| size(a).total_cmp(&size(b))).expect("k is in bounds");
        self.pivots.push(pivot);
        let (upper, below) = self.cells.split_at_mut((k + 1) * n);
        let row = &mut upper[k * n..];
        if pivot > k {
            row.swap_with_slice(&mut below[(pivot - k - 1) * n..][..n]);
        }
        (row, below)
    }
}

/// Subtracts multiples of the pivot row, so that column `k` becomes zero. The column then stores the factors.
fn clear(k: usize, pivot: &[f64], rows: &mut [f64]) {
    for row in rows.chunks_exact_mut(pivot.len()) {
        let factor = row[k] / pivot[k];
        row[k] = factor;
        row[k + 1..].iter_mut().zip(&pivot[k + 1..]).for_each(|(cell, above)| *cell -= factor * above);
    }
}

fn serial(matrix: &mut Matrix) {
    for k in 0..matrix.n {
        let (pivot, below) = matrix.pivot(k);
        clear(k, pivot, below);
    }
}

fn team(matrix: &mut Matrix) {
    let n = matrix.n;
    windrow::team(matrix).run(|member| {
        let done = member.rounds::<&[f64], &mut [f64]>(
            0..n,
            |matrix, k, deal| {
                let (pivot, below) = matrix.pivot(k);
                deal.parts(split::blocks(below, deal.width(), n));
                pivot
            },
            clear,
        );
        done.expect("no member leaves early");
    });
}

/// The largest cell of `P A - L U`.
fn residual(a: &Matrix, lu: &Matrix) -> f64 {
    let n = a.n;
    let mut rows: Vec<&[f64]> = a.cells.chunks_exact(n).collect();
    lu.pivots.iter().enumerate().for_each(|(k, pivot)| rows.swap(k, *pivot));
    let mut worst = 0.0_f64;
    for (i, row) in rows.iter().enumerate() {
        let mut product = vec![0.0; n];
        for k in 0..=i {
            let factor = if k == i { 1.0 } else { lu.cells[i * n + k] };
            let upper = &lu.cells[k * n..][k..n];
            product[k..].iter_mut().zip(upper).for_each(|(sum, cell)| *sum += factor * cell);
        }
        worst = product.iter().zip(*row).map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
    }
    worst
}

fn main() {
    let a = Matrix::random(500);
    let (mut expected, mut found) = (a.clone(), a.clone());

    let begun = Instant::now();
    serial(&mut expected);
    let alone = begun.elapsed();

    let begun = Instant::now();
    team(&mut found);
    let together = begun.elapsed();

    assert_eq!(found.pivots, expected.pivots);
    assert!(found.cells.iter().zip(&expected.cells).all(|(a, b)| a.to_bits() == b.to_bits()), "another result");
    let residual = residual(&a, &found);
    assert!(residual < 1e-11, "P A - L U is {residual:e}");
    println!("{0} x {0}: serial {alone:.2?}, team {together:.2?}, residual {residual:.1e}", a.n);
}

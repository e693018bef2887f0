//! A team: 400 equations are solved by LU decomposition with partial pivoting, one round for each column. One member moves the pivot row,
//! then all members clear the column in their rows. The last cell of a row is the right-hand side.
//!
//! `cargo run --release -p windrow --example lu`

use windrow::prelude::*;
use windrow::team::split;

/// Swaps the row with the largest cell of column `k` to row `k`. Returns that row, and the rows below it.
fn pivot(cells: &mut [f64], width: usize, k: usize) -> (&[f64], &mut [f64]) {
    let size = |row: &usize| cells[row * width + k].abs();
    let largest = (k..cells.len() / width).max_by(|a, b| size(a).total_cmp(&size(b))).expect("k is in bounds");
    let (upper, below) = cells.split_at_mut((k + 1) * width);
    let row = &mut upper[k * width..];
    if largest > k {
        row.swap_with_slice(&mut below[(largest - k - 1) * width..][..width]);
    }
    (row, below)
}

/// Subtracts multiples of the pivot row, so that column `k` becomes zero. The column then stores the factors.
fn clear(k: usize, pivot: &[f64], rows: &mut [f64]) {
    for row in rows.chunks_exact_mut(pivot.len()) {
        let factor = row[k] / pivot[k];
        row[k] = factor;
        row[k + 1..].iter_mut().zip(&pivot[k + 1..]).for_each(|(cell, above)| *cell -= factor * above);
    }
}

// The tests run it too.
pub(crate) fn main() {
    let (n, width) = (400, 401);
    let mut cells: Vec<f64> = (0..n * width).into_par_iter().map(|at| ((at * at) as f64).sin()).collect();
    // The solution is 1, 2, 3 and so on.
    for row in cells.chunks_exact_mut(width) {
        row[n] = row[..n].iter().zip(1..).map(|(cell, x)| cell * f64::from(x)).sum();
    }
    let (done, why) = windrow::explain(|| {
        windrow::team(&mut cells[..]).run(|member| {
            member.rounds::<&[f64], &mut [f64]>(
                0..n,
                |cells, k, deal| {
                    let (row, below) = pivot(cells, width, k);
                    deal.parts(split::blocks(below, deal.width(), width));
                    row
                },
                clear,
            )
        })
    });
    assert!(done.iter().all(Result::is_ok), "no member leaves early");
    let mut x = vec![0.0; n]; // from the last row up
    for (i, row) in cells.chunks_exact(width).enumerate().rev() {
        x[i] = (row[n] - row[i + 1..n].iter().zip(&x[i + 1..]).map(|(cell, x)| cell * x).sum::<f64>()) / row[i];
    }
    let error = x.iter().zip(1..).map(|(x, exact)| (x - f64::from(exact)).abs()).fold(0.0, f64::max);
    println!("{}\nx = [{:.3}, {:.3}, .., {:.3}], off by {error:.1e} at most", why[0], x[0], x[1], x[n - 1]);
    assert!(error < 1e-6, "another solution");
}

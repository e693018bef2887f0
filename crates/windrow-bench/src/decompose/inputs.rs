//! Matrices to decompose, and residuals of decompositions.

use crate::random::Random;

/// `n` x `n` numbers between -1/2 and 1/2.
pub fn matrix(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..n * n).map(|_| (random.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5).collect()
}

/// A symmetric matrix that is positive definite: its diagonal is larger than the rest of its row.
pub fn positive_definite(n: usize, seed: u64) -> Vec<f64> {
    let numbers = matrix(n, seed);
    let value = |at: usize| match (at / n, at % n) {
        (i, j) if i == j => numbers[at] + n as f64,
        (i, j) => (numbers[i * n + j] + numbers[j * n + i]) / 2.0,
    };
    (0..n * n).map(value).collect()
}

/// Lengths of the edges of a graph. A quarter of the pairs of vertices has an edge.
pub fn edges(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut length = |at: usize| match random.below(400) {
        _ if at / n == at % n => 0.0,
        length @ 0..100 => 1.0 + length as f64,
        _ => f64::INFINITY,
    };
    (0..n * n).map(&mut length).collect()
}

/// The order of the rows after all exchanges.
pub fn order(pivots: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pivots.len()).collect();
    pivots.iter().enumerate().for_each(|(at, &pivot)| order.swap(at, pivot));
    order
}

/// The largest element of `P A - L U`, divided by the largest of `A` and by `n`; matrices column by column.
pub fn lu_residual(a: &[f64], lu: &[f64], order: &[usize]) -> f64 {
    let n = order.len();
    let worst = (0..n).map(|column| {
        let (upper, original) = (&lu[column * n..][..n], &a[column * n..][..n]);
        let mut product = vec![0.0; n];
        for (k, &u) in upper[..=column].iter().enumerate() {
            product[k] += u;
            let lower = &lu[k * n..][k + 1..n];
            product[k + 1..].iter_mut().zip(lower).for_each(|(product, l)| *product += l * u);
        }
        product.iter().zip(order).map(|(product, &row)| (product - original[row]).abs()).fold(0.0, f64::max)
    });
    by_size(worst, a, n)
}

/// The largest element of `A - L L^T` in the lower triangle, divided by the largest of `A` and by `n`; matrices column by column.
pub fn cholesky_residual(a: &[f64], l: &[f64], n: usize) -> f64 {
    let worst = (0..n).map(|column| {
        let mut product = vec![0.0; n - column];
        for k in 0..=column {
            let lower = &l[k * n..][column..n];
            product.iter_mut().zip(lower).for_each(|(product, value)| *product += value * lower[0]);
        }
        let original = &a[column * n..][column..n];
        product.iter().zip(original).map(|(product, original)| (product - original).abs()).fold(0.0, f64::max)
    });
    by_size(worst, a, n)
}

fn by_size(worst: impl Iterator<Item = f64>, a: &[f64], n: usize) -> f64 {
    // NaN counts as infinitely far off.
    let largest = |a: f64, b: f64| if b.is_nan() { f64::INFINITY } else { a.max(b) };
    worst.fold(0.0, largest) / (a.iter().fold(0.0f64, |most, value| most.max(value.abs())) * n as f64)
}

//! Sequences of calls: decompositions, frontiers, partitions, and loops that grow, shrink and alternate.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use commonware_parallel::Rayon as Commonware;
use windrow_bench::arms::commonware::{self, in_batches, sum_of_batches};

use crate::{Run, Workload};

pub(crate) fn all() -> Vec<Workload> {
    let mut all = Vec::new();
    for n in [32, 64, 128, 256, 512] {
        all.push(lu(n));
    }
    for n in [32, 64, 128, 256] {
        all.push(cholesky(n));
    }
    for (name, frontiers) in [
        ("frontiers of a grid", (1..100).chain((1..100).rev()).collect::<Vec<_>>()),
        ("frontiers of a random graph", vec![1, 5, 26, 120, 540, 1400, 900, 150, 12, 1]),
        ("frontiers of a star", vec![1, 3000, 1]),
        ("frontiers of a path", vec![1; 400]),
    ] {
        all.push(sequence(name, frontiers.into_iter().map(|n| (n, 60)).collect()));
    }
    for n in [1000, 10_000, 100_000] {
        all.push(sequence(format!("partitions of {n}"), partitions(n).into_iter().map(|n| (n, 2)).collect()));
    }
    for unit in [20, 100, 1000, 10_000] {
        let calls: [(&str, Vec<(usize, u64)>); 6] = [
            ("shrinking", (1..64).rev().map(|n| (n, unit)).collect()),
            ("growing", (1..64).map(|n| (n, unit)).collect()),
            ("halving", (0..10).map(|k| (1024 >> k, unit)).collect()),
            ("swelling", [1, 4, 16, 64, 200, 500, 300, 90, 20, 3].map(|n| (n, unit)).to_vec()),
            ("alternating", (0..32).map(|k| (32, if k % 2 == 0 { unit } else { unit * 50 })).collect()),
            ("triangular", (1..48).rev().map(|n| (n, unit * n as u64 / 16 + 1)).collect()),
        ];
        all.extend(calls.map(|(name, calls)| sequence(format!("{name} by {unit}"), calls)));
    }
    all
}

/// The sizes of the parts that a quicksort makes of `n` numbers, as it comes to them.
fn partitions(n: usize) -> Vec<usize> {
    let mut random = 1_u64;
    let (mut left, mut sizes) = (vec![n], Vec::new());
    while let Some(n) = left.pop() {
        sizes.push(n);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let first = n / 4 + (random >> 33) as usize % (n / 2 + 1);
        left.extend([n - first, first].into_iter().filter(|part| *part > 32));
    }
    sizes
}

/// Dependent multiplications, which no compiler moves out of a loop of items.
#[inline]
fn work(turns: u64) -> u64 {
    (0..black_box(turns)).fold(turns, |x, _| (x ^ (x >> 29)).wrapping_mul(6_364_136_223_846_793_005))
}

/// Calls of so many items, of so many turns each. One site for all sequences.
fn sequence(name: impl Into<String>, calls: Vec<(usize, u64)>) -> Workload {
    fn total(calls: &[(usize, u64)], call: impl Fn(usize, u64) -> u64) -> u64 {
        calls.iter().fold(0, |sum, &(n, turns)| sum.wrapping_add(call(n, turns)))
    }
    let calls = Arc::new(calls);
    let arm = |call: fn(usize, u64) -> u64| -> Run {
        let calls = calls.clone();
        Box::new(move || total(&calls, call))
    };
    let serial = || arm(|n, turns| (0..n).fold(0, |sum, _| sum.wrapping_add(work(turns))));
    let windrow = arm(|n, turns| {
        use windrow::prelude::*;
        (0..n).into_par_iter().map(|_| work(turns)).reduce(|| 0, u64::wrapping_add)
    });
    let rayon = arm(|n, turns| {
        use rayon::prelude::*;
        (0..n).into_par_iter().map(|_| work(turns)).reduce(|| 0, u64::wrapping_add)
    });
    let commonware =
        arm(|n, turns| sum_of_batches(strategy(), n, |part| part.fold(0, |sum, _| sum.wrapping_add(work(turns)))));
    workload(name, serial, windrow, rayon, commonware)
}

/// One strategy for all sequences, as a program has.
fn strategy() -> &'static Commonware {
    static STRATEGY: OnceLock<Commonware> = OnceLock::new();
    STRATEGY.get_or_init(|| commonware::strategy(windrow::current_num_threads()))
}

fn workload(name: impl Into<String>, serial: impl Fn() -> Run, windrow: Run, rayon: Run, commonware: Run) -> Workload {
    let arms = [("windrow", windrow), ("rayon", rayon), ("commonware", commonware)];
    Workload::new(name, [("serial", serial()), ("control", serial())].into_iter().chain(arms).collect())
}

pub(crate) fn matrix(n: usize) -> Vec<f64> {
    (0..n * n).map(|k| if k / n == k % n { n as f64 } else { ((k * 7919) % 13) as f64 / 13.0 }).collect()
}

/// One step of a decomposition for all rows below the pivot's.
type Step = fn(pivot: &[f64], k: usize, rows: &mut [f64], n: usize);

/// A decomposition by steps.
fn decomposition(n: usize, step: Step) -> Run {
    Box::new(move || {
        let mut m = matrix(n);
        for k in 0..n {
            let (top, rest) = m.split_at_mut((k + 1) * n);
            step(&top[k * n..], k, rest, n);
        }
        m[n * n - 1].to_bits()
    })
}

pub(crate) fn eliminate(row: &mut [f64], pivot: &[f64], k: usize) {
    let factor = row[k] / pivot[k];
    row[k] = factor;
    for (own, other) in row[k + 1..].iter_mut().zip(&pivot[k + 1..]) {
        *own -= factor * other;
    }
}

/// LU, one call for each column.
fn lu(n: usize) -> Workload {
    let serial =
        || decomposition(n, |pivot, k, rows, n| rows.chunks_exact_mut(n).for_each(|row| eliminate(row, pivot, k)));
    let windrow = decomposition(n, |pivot, k, rows, n| {
        use windrow::prelude::*;
        rows.par_chunks_exact_mut(n).for_each(|row| eliminate(row, pivot, k));
    });
    let rayon = decomposition(n, |pivot, k, rows, n| {
        use rayon::prelude::*;
        rows.par_chunks_exact_mut(n).for_each(|row| eliminate(row, pivot, k));
    });
    let commonware = decomposition(n, |pivot, k, rows, n| {
        in_batches(strategy(), rows, n, |_, rows| rows.chunks_exact_mut(n).for_each(|row| eliminate(row, pivot, k)));
    });
    workload(format!("LU of {n}"), serial, windrow, rayon, commonware)
}

fn update(row: &mut [f64], at: usize, pivot: &[f64], k: usize, n: usize) {
    let column = k + 1 + at;
    if column < n {
        let factor = pivot[column] / pivot[k].abs().max(1.0);
        for (own, other) in row[column..].iter_mut().zip(&pivot[column..]) {
            *own -= factor * other;
        }
    }
}

/// A triangular update as in Cholesky's decomposition, one call for each column: later rows are shorter.
fn cholesky(n: usize) -> Workload {
    let serial = || {
        decomposition(n, |pivot, k, rows, n| {
            rows.chunks_exact_mut(n).enumerate().for_each(|(at, row)| update(row, at, pivot, k, n));
        })
    };
    let windrow = decomposition(n, |pivot, k, rows, n| {
        use windrow::prelude::*;
        rows.par_chunks_exact_mut(n).enumerate().for_each(|(at, row)| update(row, at, pivot, k, n));
    });
    let rayon = decomposition(n, |pivot, k, rows, n| {
        use rayon::prelude::*;
        rows.par_chunks_exact_mut(n).enumerate().for_each(|(at, row)| update(row, at, pivot, k, n));
    });
    let commonware = decomposition(n, |pivot, k, rows, n| {
        in_batches(strategy(), rows, n, |start, rows| {
            rows.chunks_exact_mut(n).enumerate().for_each(|(at, row)| update(row, start / n + at, pivot, k, n));
        });
    });
    workload(format!("Cholesky of {n}"), serial, windrow, rayon, commonware)
}

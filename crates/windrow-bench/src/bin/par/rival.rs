//! `map` and `reduce` at one call site, by windrow, commonware-parallel and rayon. The cells reach from 60 ns to 12 ms.

use std::time::Duration;

use commonware_parallel::Strategy;
use windrow_bench::arms::commonware;
use windrow_bench::stats::{geometric_mean, median};

use crate::{Options, Run, Table, ratio, rounds, with_bar, work};

/// Items and turns of an item.
const CELLS: [(u64, u64); 11] = [
    (16, 4),
    (100, 4),
    (1000, 4),
    (100, 100),
    (10_000, 4),
    (1000, 100),
    (100_000, 4),
    (10_000, 100),
    (100_000, 100),
    (2, 200_000),
    (8, 50_000),
];

const ARMS: [&str; 6] = ["serial", "control", "windrow", "commonware", "commonware-batches", "rayon"];

pub(crate) fn measure(options: &Options) -> Table {
    let strategy = commonware::strategy(windrow::current_num_threads());
    let mut lines = Vec::new();
    // The ratios of each arm, by cells.
    let mut ratios = ARMS.map(|_| Vec::new());
    for (n, turns) in CELLS {
        let name = format!("{n} x {turns}");
        if !name.contains(&options.name) {
            continue;
        }
        let items: Vec<u64> = (0..n).collect();
        let mut arms: [Run<'_>; 6] = [
            Box::new(|| serial(&items, turns)),
            Box::new(|| serial(&items, turns)),
            Box::new(|| {
                use windrow::prelude::*;
                items.par_iter().map(|&x| work(x, turns)).reduce(|| 0, u64::wrapping_add)
            }),
            Box::new(|| {
                strategy.fold(&items, || 0, |sum: u64, &x| sum.wrapping_add(work(x, turns)), u64::wrapping_add)
            }),
            Box::new(|| commonware::sum_of_batches(&strategy, items.len(), |range| serial(&items[range], turns))),
            Box::new(|| {
                use rayon::prelude::*;
                items.par_iter().map(|&x| work(x, turns)).reduce(|| 0, u64::wrapping_add)
            }),
        ];
        let times = rounds(&mut arms, Duration::from_millis(options.millis));
        let mut shown = format!("{name:15} {:>10.1} ns", median(&times[0]));
        for (at, arm) in ARMS.into_iter().enumerate() {
            let ratio = ratio(&times[at], &times[0]);
            ratios[at].push(ratio);
            if at > 0 {
                shown += &format!("  {arm} {ratio:.3}");
            }
            lines.push(format!("{name},{arm},{:.1},{ratio:.4}", median(&times[at])));
        }
        println!("{shown}");
    }
    let mean = |at: usize| geometric_mean(ratios[at].iter().copied());
    let by_rival = |at: usize| {
        let ratios = ratios[2].iter().zip(&ratios[at]).map(|(own, other)| own / other);
        let above = ratios.clone().filter(|ratio| *ratio > 1.02).count();
        let what = format!("cells above 1.02 of {}: {above}, worst {:.2}", ARMS[at], ratios.fold(0.0, f64::max));
        with_bar(&what, "<= 0", above == 0)
    };
    let mut notes = vec![
        by_rival(3),
        by_rival(4),
        with_bar(&format!("windrow by serial, geometric mean {:.3}", mean(2)), "<= 0.90", mean(2) <= 0.9),
    ];
    notes.extend(
        (1..ARMS.len())
            .filter(|at| *at != 2)
            .map(|at| format!("{} by serial, geometric mean {:.3}", ARMS[at], mean(at))),
    );
    ("par-rival", "cell,arm,nanoseconds,ratio", notes, lines)
}

#[inline(never)]
fn serial(items: &[u64], turns: u64) -> u64 {
    items.iter().map(|&x| work(x, turns)).fold(0, u64::wrapping_add)
}

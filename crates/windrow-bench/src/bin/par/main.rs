//! windrow's loops against serial ones: `cargo run --release -p windrow-bench --bin par`.
//!
//! A first check of the grain, on uniform work of 1 ns to 10 us an item. `cells` has the full set of scenarios and peers.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use windrow::prelude::*;
use windrow_bench::{Arm, compare, record};

/// About `n` times 1 ns of arithmetic that the compiler cannot skip.
fn work(seed: u64, n: u64) -> u64 {
    (0..n).fold(seed, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn main() {
    if let Err(error) = record::allowed(true) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    println!(
        "{} threads; times are medians, ratios are to serial (10th..90th percentile)",
        windrow::current_num_threads()
    );
    let mut lines = Vec::new();
    for (turns, n) in [
        (1, 100),
        (1, 10_000),
        (1, 1_000_000),
        (30, 100),
        (30, 10_000),
        (1000, 10),
        (1000, 1000),
        (10_000, 2),
        (10_000, 100),
    ] {
        let items: Vec<u64> = (0..n).collect();
        let serial = || items.iter().map(|&x| work(x, turns)).fold(0u64, u64::wrapping_add);
        let shared = || items.par_iter().map(|&x| work(x, turns)).reduce(|| 0, u64::wrapping_add);
        let collected =
            || items.par_iter().map(|&x| work(x, turns)).collect::<Vec<_>>().into_iter().fold(0, u64::wrapping_add);
        println!("{n} items of {turns} turns");
        let mut arms = [
            Arm::new("serial", serial),
            Arm::new("serial again (control)", serial),
            Arm::new("windrow reduce", shared),
            Arm::new("windrow collect + fold", collected),
        ];
        for row in compare(&mut arms, 31) {
            println!("  {row}");
            let line = |(at, time): (usize, &Duration)| format!("{n} x {turns},{},{at},{}", row.name, time.as_nanos());
            lines.extend(row.times.iter().enumerate().map(line));
        }
    }
    let command = "cargo run --release -p windrow-bench --bin par";
    let notes = ["cells are items x turns of about 0.8 ns".to_owned()];
    let columns = "cell,arm,repetition,nanoseconds";
    let written = record::write_lines(Path::new("bench/record"), "par", command, &notes, columns, &lines);
    println!("{}", written.expect("the record can be written").display());
}

//! Prefix sums: `cargo run --release -p windrow-bench --bin scans -- --help`
//!
//! The table is that of "OBatcher": running sums of 10,000,000 numbers. Arms have as many threads as there are CPUs, write in place, and are
//! compared with the serial loop, number by number. Setting the numbers before a turn is not timed.
//!
//! * `serial`, and its `control`: one loop;
//! * `windrow`: `par_inclusive_scan`;
//! * `rayon`: sums of a chunk for each thread, the prefixes of these, and a second pass that adds and writes.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rayon::prelude::*;
use windrow::prelude::ParallelSliceMut as _;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::median;
use windrow_bench::work::Random;

/// Prefix sums of many numbers.
#[derive(Parser)]
struct Options {
    /// Numbers of elements.
    #[arg(long, value_delimiter = ',', default_value = "100000,10000000")]
    sizes: Vec<usize>,
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    record: Recording,
}

/// Running sums, in place.
type Scan = fn(&mut [u64]);

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn serial(numbers: &mut [u64]) {
    let mut sum = 0u64;
    for number in numbers {
        sum = sum.wrapping_add(*number);
        *number = sum;
    }
}

fn windrow(numbers: &mut [u64]) {
    numbers.par_inclusive_scan(|a, b| a.wrapping_add(*b), 0);
}

fn rayon(numbers: &mut [u64]) {
    let chunk = numbers.len().div_ceil(rayon::current_num_threads()).max(1);
    let sum = |chunk: &[u64]| chunk.iter().fold(0u64, |sum, number| sum.wrapping_add(*number));
    let mut before: Vec<u64> = numbers.par_chunks(chunk).map(sum).collect();
    let mut sum = 0u64;
    for total in &mut before {
        sum = sum.wrapping_add(std::mem::replace(total, sum));
    }
    let write = |(chunk, mut sum): (&mut [u64], u64)| {
        for number in chunk {
            sum = sum.wrapping_add(*number);
            *number = sum;
        }
    };
    rayon::slice::ParallelSliceMut::par_chunks_mut(numbers, chunk).zip(before).for_each(write);
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    println!("{}, {} repetitions; numbers per millisecond", record::machine(), options.repetitions);
    let arms: [(&str, Scan); 4] = [("serial", serial), ("control", serial), ("windrow", windrow), ("rayon", rayon)];
    let mut lines = Vec::new();
    for &size in &options.sizes {
        let mut random = Random::new(7);
        let numbers: Vec<u64> = (0..size).map(|_| random.bits()).collect();
        let mut expected = numbers.clone();
        serial(&mut expected);
        let mut times = [const { Vec::new() }; 4];
        let mut mine = numbers.clone();
        for repetition in 0..=options.repetitions {
            for at in windrow_bench::measure::in_turn(arms.len(), repetition.into()) {
                mine.copy_from_slice(&numbers);
                let start = Instant::now();
                arms[at].1(&mut mine);
                let time = start.elapsed().as_nanos();
                if mine != expected {
                    return Err(format!("{} gives different sums for {size} numbers", arms[at].0));
                }
                // The first turn of each arm warms up.
                if repetition > 0 {
                    times[at].push(time as f64);
                    lines.push(format!("{size},{},{},{time}", arms[at].0, repetition - 1));
                }
            }
        }
        for (arm, own) in arms.iter().zip(&times) {
            let ratios: Vec<f64> = own.iter().zip(&times[0]).map(|(own, serial)| own / serial).collect();
            println!("{size:>9} {:<8} {:>9.0}  x{:.3}", arm.0, size as f64 * 1e6 / median(own), median(&ratios));
        }
    }
    options.record.write("scans", &record::versions(), "cell,arm,repetition,nanoseconds", &lines)
}

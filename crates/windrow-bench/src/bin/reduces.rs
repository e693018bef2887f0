//! Measures the cost of sums with the same bits for any number of threads: `cargo run --release -p windrow-bench --bin reduces -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use windrow_bench::arms::reduces::{NAMES, Sum, bits_by_threads};
use windrow_bench::arms::{Programs, Setting};
use windrow_bench::measure::{self, Plan};
use windrow_bench::record;
use windrow_bench::report::{Cell, Report};
use windrow_bench::verdict::Regime;
use windrow_bench::work::{Calibration, Item};

/// Sums of floating-point numbers, in an order that does not depend on the threads, and in any order.
#[derive(Parser)]
struct Options {
    /// Number of turns of each arm.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// Nanoseconds of an item, and the number of items.
const SUMS: [(u32, usize); 8] = [
    (2, 10_000),
    (2, 100_000),
    (2, 1_000_000),
    (10, 10_000),
    (10, 100_000),
    (10, 1_000_000),
    (100, 1_000),
    (100, 100_000),
];
const THREADS: [usize; 7] = [1, 2, 3, 4, 8, 16, 64];

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let plan = Plan { regime: Regime::Warm, repetitions: options.repetitions.into() };
    println!("{}, {threads} threads, {} repetitions", record::machine(), plan.repetitions);
    let calibration = Calibration::measure();
    let mut report = Report { arms: NAMES.map(str::to_owned).into(), cells: Vec::new() };
    let place = |name| NAMES.iter().position(|known| *known == name).expect("an arm of the list");
    let mut notes = Vec::new();
    for (cost, n) in SUMS {
        let turns = calibration.turns(cost.into());
        let sum = Sum::new((0..n as u64).map(|seed| Item { seed, turns }).collect());
        let mut arms = NAMES.map(|name| sum.arm(name, Setting { threads, shared: false }));
        let name = format!("sum/{cost}ns/{n}");
        let cell = Cell::new(&name, 1.0 / threads as f64, plan.regime, measure::cell(&mut arms, &sum.cell, plan));
        cell.print(&report.arms);
        let fixed = cell.beside(place("windrow"), place("windrow-unordered"));
        let (low, high) = fixed.interval;
        let note = format!("{name}: windrow by windrow-unordered x{:.3} [{low:.3} {high:.3}]", fixed.ratio);
        println!("  {note}");
        notes.push(note);
        report.cells.push(cell);
        let bits = bits_by_threads(&sum.cell.items, &THREADS);
        if bits.iter().any(|other| *other != bits[0]) {
            return Err(format!("{name}: pools of {THREADS:?} threads give the bits {bits:x?}"));
        }
    }
    notes.push(format!("pools of {THREADS:?} threads gave the same bits in every cell"));
    print!("{}", report.summary());
    if options.record {
        let written = report.record("reduces", "reduces", &Programs::default(), &notes);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    if report.is_impossible() {
        return Err("a sum was faster than all threads together can be".to_owned());
    }
    Ok(())
}

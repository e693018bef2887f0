//! Recursion by `join`, without manual tuning: `cargo run --release -p windrow-bench --bin joins -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use windrow_bench::arms::joins::{RUNTIMES, Recursion, cell, recursion};
use windrow_bench::arms::{Arm, Programs, Setting};
use windrow_bench::measure::{self, Plan};
use windrow_bench::record::{self, Recording};
use windrow_bench::report::{Cell, Report};
use windrow_bench::verdict::Regime;

/// Recursion by `join`: Fibonacci numbers with a cut-off and without, a tree's sum, quicksort, and joins one after another.
#[derive(Parser)]
struct Options {
    /// Number of turns of each runtime.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    record: Recording,
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

/// A runtime's arms, one for each recursion.
type Arms = Vec<Box<dyn Arm>>;

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let threads = windrow_bench::cpu::count();
    let setting = Setting { threads };
    let (mut programs, mut notes) = (Programs::default(), Vec::new());
    let mut runtimes: Vec<(String, Arms)> = Vec::new();
    for name in RUNTIMES {
        match Recursion::ALL.into_iter().map(|kind| recursion(name, kind, setting, &mut programs)).collect() {
            Ok(arms) => runtimes.push((name.to_owned(), arms)),
            Err(error) => notes.push(format!("skipped {name}: {error}")),
        }
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let plan = Plan { regime: Regime::Warm, repetitions: options.repetitions.into() };
    println!("{}, {threads} threads, {} repetitions", record::machine(), plan.repetitions);
    let mut report = Report { arms: runtimes.iter().map(|(name, _)| name.clone()).collect(), cells: Vec::new() };
    let mut runtimes: Vec<_> = runtimes.into_iter().map(|(_, arms)| arms.into_iter()).collect();
    for kind in Recursion::ALL {
        let mut arms: Arms = runtimes.iter_mut().filter_map(Iterator::next).collect();
        let name = format!("{}/{}", kind.name(), kind.size());
        let samples = measure::cell(&mut arms, &cell(kind, kind.size()), plan);
        let cell = Cell::new(&name, 1.0 / threads as f64, plan.regime, samples);
        cell.print(&report.arms);
        if let Some(joins) = kind.joins() {
            let nanos: Vec<String> = report
                .arms
                .iter()
                .zip(cell.beyond_serial(joins))
                .skip(2)
                .map(|(name, nanos)| format!("{name} {nanos:.1}"))
                .collect();
            notes.push(format!("{name}: nanoseconds that a join adds to serial: {}", nanos.join(", ")));
            println!("  a join adds, in ns: {}", nanos.join(", "));
        }
        report.cells.push(cell);
    }
    print!("{}", report.summary());
    report.record(options.record, "joins", &programs, &notes)?;
    if report.is_impossible() {
        return Err("a recursion was faster than all threads together can be".to_owned());
    }
    Ok(())
}

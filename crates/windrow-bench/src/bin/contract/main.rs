//! The contract in full (`book/src/verified.md`): `cargo run --release -p windrow-bench --bin contract -- --record`
//!
//! The second part measures five complaints about learning by call site.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::median;
use windrow_testkit::contract::{Cell, full, is_first_call};

mod complaints;
mod sites;

/// Quantiles of windrow's time and of the serial loop's, interleaved call by call.
#[derive(Parser)]
struct Options {
    /// Parts to run.
    #[arg(long, value_delimiter = ',', default_value = "cells,complaints")]
    only: Vec<Part>,
    /// Run only cells whose names contain this.
    #[arg(long, default_value = "")]
    name: String,
    /// Milliseconds for each cell; cells with a pause before each call take five times as long.
    #[arg(long, default_value_t = 500)]
    millis: u64,
    #[command(flatten)]
    record: Recording,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// The contract.
    Cells,
    /// Five complaints about learning by call site.
    Complaints,
}

fn main() -> ExitCode {
    if is_first_call() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed_whole(options.name.is_empty(), "--name")?;
    println!("{}, {} threads", record::machine(), windrow::current_num_threads());
    for part in &options.only {
        let (name, columns, (notes, lines)) = match part {
            Part::Cells => {
                ("contract", "cell,quantile,serial_ns,control_ns,windrow_ns,allowed_ns,verdict", cells(options))
            }
            Part::Complaints => ("contract-complaints", "complaint,measure,value", complaints::measure()),
        };
        notes.iter().for_each(|note| println!("  {note}"));
        options.record.write(name, &notes, columns, &lines)?;
    }
    Ok(())
}

/// The verdict, and the lines of a record.
fn cells(options: &Options) -> (Vec<String>, Vec<String>) {
    let of_sites = [(16, 4), (1000, 4), (1000, 300)]
        .map(|kind| Cell::of_sites(format!("64 sites: {} x {}", kind.0, kind.1), &sites::LINE, kind));
    let (mut lines, mut count) = (Vec::new(), [0; 3]);
    for cell in full(&sites::FLIPPING).iter().chain(&of_sites).filter(|cell| cell.name.contains(&options.name)) {
        let times = if cell.name.starts_with("after") { 5 } else { 1 };
        for row in cell.measure(Duration::from_millis(options.millis * times)) {
            let verdict = row.verdict(1.0);
            count[verdict as usize] += 1;
            let shown = ["met", "missed", "not decided"][verdict as usize];
            let (serial, control, windrow) = (row.serial, row.control, row.windrow);
            println!(
                "{:40} {:4} {serial:11.0} ns  control {control:11.0}  windrow {windrow:11.0}  {shown}",
                row.name, row.quantile
            );
            lines.push(format!(
                "{},{},{serial:.0},{control:.0},{windrow:.0},{:.0},{shown}",
                row.name, row.quantile, row.allowed
            ));
        }
    }
    let [_, missed, open] = count;
    let verdict = if missed == 0 { "met" } else { "missed" };
    let note = format!(
        "contract: {missed} of {} rows above the allowance, bar <= 0 {verdict}; {open} not decided",
        lines.len()
    );
    (vec![note], lines)
}

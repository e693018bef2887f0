//! The contract in full (`docs/contract.md`): `cargo run --release -p windrow-bench --bin contract -- --record`
//!
//! The second part measures five complaints about learning by call site.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windrow_bench::record;
use windrow_bench::stats::median;
use windrow_testkit::contract::{Cell, full, is_first_call};

mod complaints;
mod sites;

/// Quantiles of windrow's time and of the serial loop's, interleaved call by call.
#[derive(Parser)]
struct Options {
    /// Cells whose names contain this, without the complaints.
    #[arg(long)]
    name: Option<String>,
    /// Milliseconds of each cell; calls after a pause take five times as long.
    #[arg(long, default_value_t = 500)]
    millis: u64,
    /// Write records below bench/record.
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    if is_first_call() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    if options.record && options.name.is_some() {
        return Err("a record holds all cells\n  hint: --record without --name".to_owned());
    }
    println!("{}, {} threads", record::machine(), windrow::current_num_threads());
    let of_sites = [(16, 4), (1000, 4), (1000, 300)]
        .map(|kind| Cell::of_sites(format!("64 sites: {} x {}", kind.0, kind.1), &sites::LINE, kind));
    let (mut lines, mut count) = (Vec::new(), [0; 3]);
    for cell in full().iter().chain(&of_sites) {
        if options.name.as_ref().is_some_and(|name| !cell.name.contains(name)) {
            continue;
        }
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
    println!("  {note}");
    let columns = "cell,quantile,serial_ns,control_ns,windrow_ns,allowed_ns,verdict";
    write(options, "contract", columns, vec![note], &lines)?;
    if options.name.is_some() {
        return Ok(());
    }
    let (notes, lines) = complaints::measure();
    notes.iter().for_each(|note| println!("  {note}"));
    write(options, "contract-complaints", "complaint,measure,value", notes, &lines)
}

fn write(options: &Options, name: &str, columns: &str, notes: Vec<String>, lines: &[String]) -> Result<(), String> {
    if options.record {
        let (root, command) = (Path::new("bench/record"), record::command("contract"));
        let written = record::write_lines(root, name, &command, &notes, columns, lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

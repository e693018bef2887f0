//! Counters and other small structures under implicit batching: `cargo run --release -p windrow-bench --bin counters -- --help`
//!
//! The tables are those published with obatcher: counters by the chunk, and delays. Then follow single calls of threads, and of tasks.
//! Every increment returns the counter's value before it; after each run these must all be different. Arms are interleaved; a ratio is a
//! median of the ratios of single repetitions.
#![forbid(unsafe_code)]

mod counters;
mod delays;
mod table;
mod tasks;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use windrow_bench::record;

use table::Table;

/// Counters and other small structures under implicit batching.
#[derive(Parser)]
struct Options {
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "counters,delays,tasks")]
    tables: Vec<Which>,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Increments by 1, 2, 4, and 8 threads, in chunks and single calls.
    Counters,
    /// Operations that sleep for a millisecond.
    Delays,
    /// Tasks of an executor: the cost of handing over, and inserts into an ordered set.
    Tasks,
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    println!("{}, {} repetitions", record::machine(), options.repetitions);
    let mut tables = Vec::new();
    for which in &options.tables {
        tables.extend(match which {
            Which::Counters => counters::all(options.repetitions)?,
            Which::Delays => vec![delays::table(options.repetitions.min(3))?],
            Which::Tasks => tasks::all(options.repetitions)?,
        });
    }
    if options.record {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let lines: Vec<String> = tables.iter().flat_map(Table::lines).collect();
        let columns = "table,arm,operations,repetition,nanoseconds";
        let command = record::command("counters");
        let notes = [record::versions(), tables.iter().flat_map(Table::notes).cloned().collect()].concat();
        let written = record::write_lines(&root, "counters", &command, &notes, columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

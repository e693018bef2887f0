//! Regret of the decisions, and the cost of `WINDROW_EXPLAIN`: `cargo run --release -p windrow-bench --bin ledger`
//!
//! *Regret*: a process without the variable alternates calls as they are decided, the serial loop, and claims of a fixed size on all threads.
//! *Cost*: the cells run alternately in processes with and without the variable.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow::prelude::*;
use windrow_bench::arms::windrow_sites::FOR_EACH;
use windrow_bench::cells::{Cell, cells};
use windrow_bench::record;
use windrow_bench::stats::{geometric_mean, median};
use windrow_bench::work::{Calibration, Item, serial, work};

/// Regret of the decisions by measuring all choices, and the cost of `WINDROW_EXPLAIN`.
#[derive(Parser)]
struct Options {
    /// Seconds for which the calls of a cell run before they are timed.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Processes with and as many without the variable.
    #[arg(long, default_value_t = 7)]
    turns: usize,
    /// Cells whose names contain this text.
    #[arg(long, default_value = "")]
    cells: String,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
    /// Run as the process of a cell: its number.
    #[arg(long, hide = true)]
    child: Option<usize>,
    /// The seconds between both in which the child times itself.
    #[arg(long, hide = true, default_value_t = 0.3)]
    timed: f64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    windrow_bench::exit_code(match options.child {
        Some(cell) => {
            child(cell, &options);
            Ok(())
        }
        None => run(&options),
    })
}

/// Calls until the time is over; nanoseconds of a call.
fn repeat(time: Duration, call: &mut dyn FnMut()) -> f64 {
    let (begin, mut calls) = (Instant::now(), 0u32);
    loop {
        call();
        calls += 1;
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return elapsed.as_nanos() as f64 / f64::from(calls);
        }
    }
}

/// Turns of 10 ms or three calls: as decided, serial, shared.
fn times(place: fn(&[Item], &mut [u64]), items: &[Item], seconds: f64) -> [f64; 3] {
    let (mut out, claim) = (vec![0; items.len()], items.len().div_ceil(16));
    let mut all: [Vec<f64>; 3] = Default::default();
    let begin = Instant::now();
    while all[0].len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let mut turn = |arm: usize, call: &mut dyn FnMut()| {
            call();
            all[arm].push(repeat(Duration::from_millis(5), call));
        };
        turn(0, &mut || place(black_box(items), &mut out));
        turn(1, &mut || serial(black_box(items), &mut out));
        turn(2, &mut || {
            let pairs = black_box(items).par_iter().with_claim_size(claim).zip(out.par_iter_mut());
            pairs.for_each(|(item, out)| *out = work(*item));
        });
    }
    all.map(|times| median(&times))
}

fn child(number: usize, options: &Options) {
    let (place, cell) = (FOR_EACH[number], cells().swap_remove(number));
    let items = cell.items(&Calibration::measure());
    let mut out = vec![0; items.len()];
    repeat(Duration::from_secs_f64(options.seconds), &mut || place(black_box(&items), &mut out));
    let [decided, alone, shared] = times(place, &items, options.timed);
    println!("{decided} {alone} {shared}");
}

/// What a child prints.
fn ask(number: usize, seconds: f64, timed: f64, explain: Option<&Path>) -> Result<[f64; 3], String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["--child", &number.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--timed", &timed.to_string()]);
    command.env_remove("WINDROW_EXPLAIN").envs(explain.map(|path| ("WINDROW_EXPLAIN", path)));
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let times: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    times.try_into().map_err(|_| format!("cell {number}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let chosen = |(_, cell): &(usize, Cell)| cell.name.contains(&options.cells);
    let cells: Vec<_> = cells().into_iter().enumerate().filter(chosen).collect();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let mut costs = Vec::new();
    println!("{:<24}{:>9}{:>12}", "cell", "regret", "with/without");
    for (number, cell) in &cells {
        let [decided, alone, shared] = ask(*number, options.seconds, 1.0, None)?;
        let regret = decided / decided.min(alone).min(shared);
        let paths = [None, Some(folder.path().join("cost"))];
        let (mut with, mut ratios) = ([0.0; 2], Vec::new());
        for _ in 0..options.turns {
            for (time, path) in with.iter_mut().zip(&paths) {
                [*time, ..] = ask(*number, 0.05, 0.2, path.as_deref())?;
            }
            ratios.push(with[1] / with[0]);
        }
        let cost = median(&ratios);
        costs.push(cost);
        println!("{:<24}{regret:>9.2}{cost:>12.3}", cell.name);
        lines.push(format!("{},{regret:.4},{decided:.0},{alone:.0},{shared:.0},{cost:.4}", cell.name));
    }
    if lines.is_empty() {
        return Err(format!("no cell is called {}\n  hint: part of a name, such as uniform/1us", options.cells));
    }
    notes.push(format!("cost: {:.4} of the time without the variable", geometric_mean(costs)));
    notes.iter().for_each(|note| println!("{note}"));
    if options.record {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let columns = "cell,regret,decided_ns,serial_ns,shared_ns,cost";
        let written = record::write_lines(&root, "ledger", &record::command("ledger"), &notes, columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

//! Ordered collections, by the batch and one by one: `cargo run --release -p windrow-bench --bin ordered -- --help`
//!
//! `--maps` measures maps under single operations. Otherwise a cell is an order and a size of inserts of integers. In each repetition every arm gets the same operations, on a structure with the
//! same keys as before (cloned if possible, otherwise with new keys removed), in an order that is reversed every other time. Results are
//! compared with those of a `BTreeSet`; for arms with several threads, only the number of keys is. A ratio is a median of the ratios of
//! single repetitions.
#![forbid(unsafe_code)]

mod arms;
mod implicit;
mod maps;
mod ranges;
mod work;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{median, quantile};
use windrow_bench::work::Random;
use windrow_collections::SetOp;

use arms::Arm;
use work::{Order, Size};

/// Ordered collections, by the batch and one by one.
#[derive(Parser)]
struct Options {
    #[arg(long, value_delimiter = ',', default_value = "random")]
    orders: Vec<Order>,
    /// Keys before the run, and timed operations: BEFORE+OPS.
    #[arg(long, value_delimiter = ',', default_value = "1M+100k")]
    sizes: Vec<Size>,
    /// Arms other than the baseline, by the beginning of their names: implicit, loop, calls, shared, set, skipmap, congee,
    /// mutex.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Measure maps under single operations instead: ten kinds of keys, four mixes, one to four threads.
    #[arg(long, conflicts_with_all = ["orders", "sizes", "arms"])]
    maps: bool,
    #[command(flatten)]
    record: Recording,
}

/// Pairs of arms whose ratio is reported, and its bar for 100,000 random inserts among 1,000,000 integers.
const RATIOS: [(&str, &str, Option<f64>); 20] = [
    ("shared set x2", "implicit set x1", Some(1.3)),
    ("shared set x2", "set/127", Some(1.3)),
    ("shared set x2", "mutex set/127 x2", Some(1.3)),
    ("implicit set x2", "implicit set x1", None),
    ("implicit set x2", "skipmap x2", Some(5.0)),
    ("implicit set x2", "mutex btree x2", Some(4.0)),
    ("implicit set x2", "congee x2", Some(2.2)),
    ("implicit set x2", "btree", Some(3.0)),
    ("loop set", "skipmap x2", Some(5.0)),
    ("loop set", "mutex btree x2", Some(4.0)),
    ("loop set", "congee x2", Some(2.2)),
    ("loop set", "btree", Some(3.0)),
    ("loop list", "skipmap x2", Some(2.5)),
    ("implicit list x2", "skipmap x2", Some(2.5)),
    ("set/16", "set", Some(1.3)),
    ("set/127", "set", Some(1.3)),
    ("set/16", "btree", Some(2.5)),
    ("set/127", "btree", Some(2.5)),
    ("set/all", "btree sorted", Some(2.3)),
    ("implicit set x2", "mutex set/127 x2", None),
];

/// The cell with the bars.
const BARRED: &str = "u64/random/insert/1000000+100000";

/// The times of an arm in a cell.
struct Row {
    name: String,
    times: Vec<Duration>,
}

impl Row {
    fn nanos(&self) -> impl Iterator<Item = f64> {
        self.times.iter().map(|time| time.as_nanos().max(1) as f64)
    }
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    println!("{}, {} repetitions", record::machine(), options.repetitions);
    let mut notes = record::versions();
    let (name, columns, lines) = if options.maps {
        let mut table = maps::Table::new(options.repetitions);
        table.fill()?;
        for note in table.notes() {
            println!("{note}");
            notes.push(note);
        }
        ("maps", "keys,mix,threads,arm,repetition,nanoseconds", table.lines)
    } else {
        let mut lines = Vec::new();
        for (order, size) in
            options.orders.iter().flat_map(|order| options.sizes.iter().map(move |size| (*order, *size)))
        {
            lines.extend(cell(options, order, size, &mut notes)?);
        }
        let is_large = options.sizes.iter().all(|size| size.before + size.ops > 1_100_000);
        (if is_large { "ordered-large" } else { "ordered" }, "cell,arm,repetition,nanoseconds", lines)
    };
    options.record.write(name, &notes, columns, &lines)
}

/// Measures a cell, prints it, and returns its lines of the record.
fn cell(options: &Options, order: Order, size: Size, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let cell = format!("u64/{order:?}/insert/{}+{}", size.before, size.ops).to_lowercase();
    let mut random = Random::new(7);
    let keys = work::before(size, &mut random);
    let oracle: BTreeSet<u64> = keys.iter().copied().collect();
    let makers = [arms::btree, implicit::all, ranges::all, arms::set, arms::peers];
    let mut arms: Vec<Box<dyn Arm>> = makers.iter().flat_map(|make| make(&keys)).collect();
    let wanted = |name: &str| options.arms.is_empty() || options.arms.iter().any(|arm| name.starts_with(arm.as_str()));
    let mut first = true;
    arms.retain(|arm| std::mem::replace(&mut first, false) || wanted(&arm.name()));
    let mut rows: Vec<Row> = arms.iter().map(|arm| Row { name: arm.name(), times: Vec::new() }).collect();
    for repetition in 0..usize::from(options.repetitions) {
        let ops = work::ops(order, size.ops, &mut random);
        let mut set = oracle.clone();
        let expected: Vec<bool> = ops.iter().map(|op| arms::on_btree(&mut set, *op)).collect();
        let count = set.len();
        drop(set);
        for turn in 0..arms.len() {
            let turn = if repetition % 2 == 0 { turn } else { arms.len() - 1 - turn };
            let arm = &mut arms[turn];
            let time = once(arm.as_mut(), &ops, &expected, count).map_err(|what| format!("{cell}: {what}"))?;
            rows[turn].times.push(time);
        }
    }
    print(&cell, size, &rows, notes);
    let line = |row: &Row, (at, time): (usize, &Duration)| format!("{cell},{},{at},{}", row.name, time.as_nanos());
    Ok(rows.iter().flat_map(|row| row.times.iter().enumerate().map(|time| line(row, time))).collect())
}

/// One turn of an arm.
fn once(arm: &mut dyn Arm, ops: &[SetOp<u64>], expected: &[bool], count: usize) -> Result<Duration, String> {
    arm.reset();
    let (mut mine, mut results) = (ops.to_vec(), vec![false; ops.len()]);
    let time = arm.run(&mut mine, &mut results);
    arm.done(ops, &results);
    if arm.threads() == 1 && results != expected {
        return Err(format!("{} gives different results from BTreeSet", arm.name()));
    }
    let new =
        |results: &[bool]| ops.iter().zip(results).filter(|(op, new)| matches!(op, SetOp::Insert(_)) && **new).count();
    if arm.len() != count || new(&results) != new(expected) {
        return Err(format!("{} has {} keys where BTreeSet has {count}", arm.name(), arm.len()));
    }
    Ok(time)
}

fn print(cell: &str, size: Size, rows: &[Row], notes: &mut Vec<String>) {
    println!("{cell}: ops/ms, and times as fast as btree (10th and 90th percentile)");
    let ratio = |of: &Row, to: &Row| -> Vec<f64> { of.nanos().zip(to.nanos()).map(|(of, to)| to / of).collect() };
    for row in rows {
        let speed = size.ops as f64 / median(&row.nanos().collect::<Vec<_>>()) * 1e6;
        let ratios = ratio(row, &rows[0]);
        let (low, high) = (quantile(&ratios, 0.1), quantile(&ratios, 0.9));
        println!("  {:<18} {speed:>9.0}  x{:.2} ({low:.2}..{high:.2})", row.name, median(&ratios));
    }
    let has_bars = cell == BARRED;
    for (of, to, bar) in RATIOS {
        let find = |name: &str| rows.iter().find(|row| row.name == name);
        if let (Some(of), Some(to)) = (find(of), find(to)) {
            let ratios = ratio(of, to);
            let (low, high) = (quantile(&ratios, 0.1), quantile(&ratios, 0.9));
            let bar = bar.filter(|_| has_bars).map_or(String::new(), |bar| {
                let is_met = if median(&ratios) >= bar { "met" } else { "missed" };
                format!(", bar >= {bar} {is_met}")
            });
            let note = format!("{} by {}: x{:.2} ({low:.2}..{high:.2}){bar}", of.name, to.name, median(&ratios));
            println!("  {note}");
            notes.push(format!("{cell}: {note}"));
        }
    }
}

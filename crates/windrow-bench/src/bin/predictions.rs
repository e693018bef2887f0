//! Compares what calls were predicted to take with what they took: `cargo run --release -p windrow-bench --bin predictions`
//!
//! Each loop is a place in the source, which learns its items as in a program. The first calls are not counted. A call is predicted once its
//! last decision is made: at a known place that is before its first item.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use windrow::Explained;
use windrow::prelude::*;
use windrow_bench::arms::windrow_sites::FOR_EACH;
use windrow_bench::cells::cells;
use windrow_bench::random::Random;
use windrow_bench::record;
use windrow_bench::stats::{median, quantile};
use windrow_bench::work::Calibration;

/// Predicted beside taken times of loops, sorts and recursions.
#[derive(Parser)]
struct Options {
    /// Calls of a cell that count.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// Cells whose names contain this text.
    #[arg(long, default_value = "")]
    cells: String,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// Calls before the first one that counts, and the time that they take at most.
const WARM_UP: (u32, Duration) = (50, Duration::from_millis(200));
/// Between two counted calls at most this number of others, and this time.
const BETWEEN: (u32, Duration) = (20, Duration::from_millis(1));

/// A call, told as `windrow::explain` tells it.
struct Told {
    predicted: f64,
    took: f64,
    shared: bool,
}

impl Told {
    fn of(told: &Explained) -> Option<Self> {
        let nanos = |time: Duration| time.as_nanos() as f64;
        let predicted = nanos(told.predicted()?);
        Some(Self { predicted, took: nanos(told.took()), shared: told.threads() > 1 })
    }

    /// Relative to the taken time.
    fn error(&self) -> f64 {
        (self.predicted - self.took).abs() / self.took.max(1.0)
    }
}

/// Runs `call` until `calls` of its calls were told. Calls without a prediction are counted apart.
fn measure(calls: u32, mut call: impl FnMut()) -> (Vec<Told>, u32) {
    let repeat = |(most, time): (u32, Duration), call: &mut dyn FnMut()| {
        let begin = Instant::now();
        for _ in 0..most {
            call();
            if begin.elapsed() > time {
                break;
            }
        }
    };
    repeat(WARM_UP, &mut call);
    let (mut told, mut silent) = (Vec::new(), 0);
    for _ in 0..calls {
        repeat(BETWEEN, &mut call);
        let ((), entries) = windrow::explain(&mut call);
        match entries.last().and_then(Told::of) {
            Some(one) => told.push(one),
            None => silent += 1,
        }
    }
    (told, silent)
}

/// A sum by a recursion, down to single items.
fn sum(numbers: &[u64]) -> u64 {
    match numbers {
        [] => 0,
        [one] => one.wrapping_mul(*one),
        _ => {
            let (left, right) = numbers.split_at(numbers.len() / 2);
            let (left, right) = windrow::join(|| sum(left), || sum(right));
            left.wrapping_add(right)
        }
    }
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let calibration = Calibration::measure();
    let (mut lines, mut errors, mut silent) = (Vec::new(), Vec::new(), 0);
    println!("{:<24}{:>8}{:>12}{:>8}{:>8}{:>9}", "cell", "shared", "took", "median", "p90", "bias");
    let mut cell = |name: String, call: &mut dyn FnMut()| {
        if !name.contains(&options.cells) {
            return;
        }
        let (told, quiet) = measure(options.calls, call);
        silent += quiet;
        if told.is_empty() {
            println!("{name:<24} without predictions");
            return;
        }
        let off: Vec<f64> = told.iter().map(Told::error).collect();
        let times: Vec<f64> = told.iter().map(|told| told.took).collect();
        let bias: Vec<f64> = told.iter().map(|told| told.predicted / told.took.max(1.0)).collect();
        let shared = told.iter().filter(|told| told.shared).count() as f64 / told.len() as f64;
        let (half, most) = (median(&off), quantile(&off, 0.9));
        println!(
            "{name:<24}{:>6.0} %{:>9.1} us{half:>8.3}{most:>8.3}{:>9.3}",
            100.0 * shared,
            median(&times) / 1e3,
            median(&bias)
        );
        lines.extend(told.iter().enumerate().map(|(at, told)| {
            format!("{name},{at},{:.0},{:.0},{:.4},{}", told.predicted, told.took, told.error(), u8::from(told.shared))
        }));
        errors.extend(off);
    };
    for (place, cell_of) in FOR_EACH.iter().zip(cells()) {
        let items = cell_of.items(&calibration);
        let mut out = vec![0; items.len()];
        cell(cell_of.name, &mut || place(black_box(&items), &mut out));
    }
    for count in [1_000usize, 30_000, 1_000_000] {
        let mut random = Random::new(count as u64);
        let numbers: Vec<u64> = (0..count).map(|_| random.below(usize::MAX) as u64).collect();
        let mut sorted = numbers.clone();
        cell(format!("sort/{count}"), &mut || {
            sorted.copy_from_slice(&numbers);
            sorted.par_sort_unstable();
        });
    }
    for count in [100u64, 10_000, 1_000_000] {
        let numbers: Vec<u64> = (0..count).collect();
        cell(format!("join/{count}"), &mut || {
            black_box(sum(black_box(&numbers)));
        });
    }
    if errors.is_empty() {
        return Err(format!("no cell is called {}\n  hint: part of a name, as the table shows it", options.cells));
    }
    let (half, most) = (median(&errors), quantile(&errors, 0.9));
    let verdict =
        format!("predicted by taken: off by {half:.3} in the median, {most:.3} in nine of ten; {silent} calls without");
    println!("{verdict}");
    if options.record {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let columns = "cell,call,predicted_ns,took_ns,error,shared";
        let written =
            record::write_lines(&root, "predictions", &record::command("predictions"), &[verdict], columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

//! windrow's loops against serial ones: `cargo run --release -p windrow-bench --bin par -- --record`.
//!
//! `grid` holds each consumer to what a serial call may cost.
//! `rival` meets commonware-parallel, which decides between serial and parallel loops by call site, too. `cells` has the full set of scenarios and peers.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use windrow_bench::measure::in_turn;
use windrow_bench::record;
use windrow_bench::record::Recording;
use windrow_bench::stats::median;

mod grid;
mod rival;

/// Short loops against serial ones and against commonware-parallel.
#[derive(Parser)]
struct Options {
    /// Parts to run.
    #[arg(long, value_delimiter = ',', default_value = "grid,rival")]
    only: Vec<Part>,
    /// Cells of `grid` and `rival` whose names contain this.
    #[arg(long, default_value = "")]
    name: String,
    /// Milliseconds for each cell of `grid` and `rival`.
    #[arg(long, default_value_t = 30)]
    millis: u64,
    #[command(flatten)]
    record: Recording,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Eight consumers of 1 to 1000 cheap items.
    Grid,
    /// `map` and `reduce` by windrow, commonware-parallel and rayon.
    Rival,
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed_whole(options.name.is_empty(), "--name")?;
    println!("{}, {} threads", record::machine(), windrow::current_num_threads());
    for &part in &options.only {
        let (name, columns, notes, lines) = match part {
            Part::Grid => grid::measure(options),
            Part::Rival => rival::measure(options),
        };
        notes.iter().for_each(|note| println!("  {note}"));
        options.record.write(name, &[record::versions(), notes].concat(), columns, &lines)?;
    }
    Ok(())
}

/// Name, columns, notes and lines of a record.
type Table = (&'static str, &'static str, Vec<String>, Vec<String>);

/// Dependent multiplications, about 1 ns each.
#[inline]
fn work(seed: u64, turns: u64) -> u64 {
    (0..turns).fold(seed, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Nanoseconds of a turn that waits for the one before. A machine may have several speeds, and 20 ns are not the same at each.
fn nanos_of_a_turn() -> f64 {
    let once = |seed| {
        let start = Instant::now();
        black_box(work(black_box(seed), 10_000));
        start.elapsed().as_nanos() as f64 / 1e4
    };
    median(&(0..9).map(once).collect::<Vec<_>>())
}

/// Arms, called in a row: short calls have no clock of their own.
type Run<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// Calls of an arm before its first round take at most this long, or are 4000.
const WARM_UP: Duration = Duration::from_millis(5);
/// A row of calls takes about this long, or is one call.
const ROW: Duration = Duration::from_micros(15);

/// Nanoseconds of a call of each arm, by rounds. A round has a row of calls of each arm, in permuted order. All arms have warmed up.
///
/// # Panics
/// If two arms give different results.
fn rounds(arms: &mut [Run<'_>], time: Duration) -> Vec<Vec<f64>> {
    let expected = arms[0]();
    let mut calls_of_a_row = Vec::new();
    for arm in &mut *arms {
        assert_eq!(arm(), expected, "two arms differ");
        let (start, mut calls) = (Instant::now(), 0);
        while calls < 4000 && start.elapsed() < WARM_UP {
            black_box(arm());
            calls += 1;
        }
        let each = start.elapsed() / calls;
        calls_of_a_row.push((ROW.as_nanos() / each.as_nanos().max(1)).clamp(1, 1000) as u32);
    }
    let mut times = vec![Vec::new(); arms.len()];
    let start = Instant::now();
    for round in (0..).take_while(|&round| round < 25 || start.elapsed() < time) {
        for at in in_turn(arms.len(), round) {
            let (calls, start) = (calls_of_a_row[at], Instant::now());
            for _ in 0..calls {
                black_box(arms[at]());
            }
            times[at].push(start.elapsed().as_nanos() as f64 / f64::from(calls));
        }
    }
    times
}

/// The median of what a call takes longer than one of the baseline, of rounds in pairs.
fn excess(times: &[f64], baseline: &[f64]) -> f64 {
    median(&times.iter().zip(baseline).map(|(own, base)| own - base).collect::<Vec<_>>())
}

/// The median of the ratios in pairs.
fn ratio(times: &[f64], baseline: &[f64]) -> f64 {
    median(&times.iter().zip(baseline).map(|(own, base)| own / base).collect::<Vec<_>>())
}

/// A note with its verdict.
fn with_bar(what: &str, bar: &str, is_met: bool) -> String {
    format!("{what}, bar {bar} {}", if is_met { "met" } else { "missed" })
}

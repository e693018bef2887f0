//! Rounds that follow each other, `x[i + 1..] += x[i]`: teams against serial code and against parallel loops.
//! `cargo run --release -p windrow-bench --bin rounds -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use windrow_bench::arms::rounds::{self, PEERS, Stage, arm, cell};
use windrow_bench::arms::{Arm, Ask, CONTROL, Programs, SERIAL, Setting};
use windrow_bench::measure::{self, Plan};
use windrow_bench::neighbour::Neighbour;
use windrow_bench::record::{self, Recording};
use windrow_bench::report::{Cell, Report};
use windrow_bench::rounds::{input, one_share};
use windrow_bench::verdict::Regime;

/// Rounds that follow each other, `x[i + 1..] += x[i]`: teams against serial code and against parallel loops.
#[derive(Parser)]
struct Options {
    /// Numbers, separated by commas: 10k (all rounds), 100k (the first 3000), 400k (the first 1000).
    #[arg(long, default_value = "10000,100000,400000", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// The conditions around the rounds; `cold` means nothing here.
    #[arg(long, value_enum, default_value = "warm")]
    regime: Regime,
    /// Ways to run rounds, in addition to serial and its control, separated by commas; `peers` means all that are not windrow's.
    #[arg(long, default_value = "windrow,peers", value_delimiter = ',')]
    arms: Vec<String>,
    /// Number of turns of each arm.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    record: Recording,
}

/// An arm that takes longer than this, relative to serial, is left out.
const TOO_SLOW: f64 = 100.0;
/// The number of calls that decide this,
const LOOKS: usize = 4;
/// and the rounds of each.
const LOOK: usize = 100;

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

/// The names of the arms to run, serial and its control first.
fn arm_names(asked: &[String]) -> Result<Vec<String>, String> {
    let mut names = vec![SERIAL.to_owned(), CONTROL.to_owned()];
    for name in asked {
        match name.as_str() {
            "peers" => names.extend(PEERS.map(str::to_owned)),
            "windrow" => names.extend(rounds::WINDROW.map(str::to_owned)),
            _ if PEERS.contains(&name.as_str()) || rounds::WINDROW.contains(&name.as_str()) => names.push(name.clone()),
            _ => return Err(format!("no arm is called {name}")),
        }
    }
    Ok(names)
}

/// The number of rounds for `n` numbers.
fn rounds_of(n: usize) -> usize {
    match n {
        ..50_000 => n,
        50_000..200_000 => 3000,
        _ => 1000,
    }
}

/// The fastest time of one thread with its share alone, in nanoseconds: no team can be faster. It is measured, because half of the numbers
/// may fit into a cache that all of them do not.
fn one_share_nanos(n: usize, rounds: usize, width: usize) -> f64 {
    let mut x = input(n);
    let mut once = || {
        let start = Instant::now();
        one_share(&mut x, rounds, width);
        start.elapsed().as_nanos() as f64
    };
    (0..15).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// The arms that a first pass does not find too slow; adds a note about each of the others.
fn quick_enough(arms: Vec<Box<dyn Arm>>, stage: &Stage, notes: &mut Vec<String>) -> Vec<Box<dyn Arm>> {
    let cell = cell(stage, 0, 10_000, LOOK);
    let mut serial = f64::NAN;
    let mut keep = |arm: &mut Box<dyn Arm>| {
        arm.load(&cell);
        // Threads that begin on one CPU may spin for time slices until they are moved. That is no property of the arm, so the fastest call
        // counts.
        let mut nanos = f64::INFINITY;
        for _ in 0..LOOKS {
            nanos = nanos.min(arm.run(Ask { calls: 1, each: true, ..Ask::default() }).nanos[0]);
            if nanos <= TOO_SLOW * serial {
                break;
            }
        }
        if arm.name() == SERIAL {
            serial = nanos;
        }
        let ratio = nanos / serial;
        if ratio > TOO_SLOW {
            notes.push(format!(
                "skipped {}: it takes x{ratio:.0} of serial in the first {LOOK} rounds of 10,000",
                arm.name()
            ));
        }
        ratio.is_nan() || ratio <= TOO_SLOW
    };
    arms.into_iter().filter_map(|mut arm| keep(&mut arm).then_some(arm)).collect()
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let cpus = windrow_bench::cpu::count();
    let threads = if options.regime == Regime::Oversubscribed { 2 * cpus } else { cpus };
    let (stage, mut programs, mut notes) = (Stage::default(), Programs::default(), Vec::new());
    let mut arms: Vec<Box<dyn Arm>> = Vec::new();
    for name in arm_names(&options.arms)? {
        match arm(&name, Setting { threads }, &stage, &mut programs) {
            Ok(arm) => arms.push(arm),
            Err(error) => notes.push(format!("skipped {name}: {error}")),
        }
    }
    let neighbour = (options.regime == Regime::Busy).then(Neighbour::start);
    let mut arms = quick_enough(arms, &stage, &mut notes);
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let plan = Plan { regime: options.regime, repetitions: options.repetitions.into() };
    println!("{}, {threads} threads, {:?}, {} repetitions", record::machine(), plan.regime, plan.repetitions);
    let mut report = Report { arms: arms.iter().map(|arm| arm.name().to_owned()).collect(), cells: Vec::new() };
    for (index, &n) in options.sizes.iter().enumerate() {
        let rounds = rounds_of(n);
        let samples = measure::cell(&mut arms, &cell(&stage, index, n, rounds), plan);
        let fastest = samples[0].times.iter().copied().fold(f64::INFINITY, f64::min);
        let bound = one_share_nanos(n, rounds, threads.min(cpus)) / fastest;
        let cell = Cell::new(&format!("{n}/{rounds}"), bound, plan.regime, samples);
        println!("a round of {n} takes serial code {:.3} us", fastest / rounds as f64 / 1e3);
        cell.print(&report.arms);
        for bar in bars(&cell, &report.arms, n, plan.regime) {
            println!("  {bar}");
            notes.push(bar);
        }
        report.cells.push(cell);
    }
    drop(neighbour);
    let name = format!("rounds-{}", format!("{:?}", plan.regime).to_lowercase());
    report.record(options.record, &name, &programs, &notes)?;
    if report.is_impossible() {
        return Err("rounds were faster than a single thread's share of the work".to_owned());
    }
    Ok(())
}

/// The bars of windrow's arms in a cell, and whether they are met.
fn bars(cell: &Cell, arms: &[String], n: usize, regime: Regime) -> Vec<String> {
    let best = cell.best_other(arms);
    let most = match (regime, n) {
        (Regime::Warm, 10_000) => 0.88,
        (Regime::Warm, 100_000) => 0.58,
        (Regime::Warm, 400_000) => 1.05 * best,
        (Regime::Oversubscribed, 100_000) => 0.62,
        (Regime::Oversubscribed | Regime::Busy, 10_000) | (Regime::Busy, 100_000) => 1.05,
        _ => return Vec::new(),
    };
    let bar = |(arm, ratio): (&String, f64)| {
        let met = if ratio <= most { "met" } else { "missed" };
        format!("{}: {arm} x{ratio:.3}, bar {most:.3} {met}; best of others x{best:.3}", cell.name())
    };
    arms.iter().zip(cell.ratios()).filter(|(arm, _)| arm.starts_with("windrow")).map(bar).collect()
}

//! Overheads of the constructs of the EPCC microbenchmarks, next to libgomp, LLVM's OpenMP and rayon:
//! `cargo run --release -p windrow-bench --bin epcc -- --record`
//!
//! An overhead is the time of a construct around a delay, less the delay. Two threads. Every delay is counted before anything is timed.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windrow_bench::arms::epcc::{ROWS, RUNTIMES, arm, cell};
use windrow_bench::arms::{Arm, Ask, Programs, Setting};
use windrow_bench::measure::in_turn;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{median, quantile};
use windrow_bench::work::{Item, TurnCosts};

/// Overheads of regions, loops, barriers and sums, next to two OpenMPs and rayon.
#[derive(Parser)]
struct Options {
    /// Turns of each construct.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    #[command(flatten)]
    record: Recording,
}

/// Delays in each construct, in nanoseconds.
const DELAYS: [u32; 2] = [2300, 100];
/// Constructs of a turn.
const CONSTRUCTS: u64 = 1000;
/// The rest of threads after a turn.
const REST: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let (mut programs, mut notes, mut lines) = (Programs::default(), Vec::new(), Vec::new());
    let calibration = TurnCosts::measure();
    println!("{}, {} repetitions; nanoseconds beyond the delay", record::machine(), options.repetitions);
    for nanos in DELAYS {
        let delay = Item { seed: 1, turns: calibration.turns(nanos.into()) };
        for row in ROWS {
            let mut arms: Vec<Box<dyn Arm>> = Vec::new();
            for runtime in RUNTIMES {
                match arm(runtime, row, Setting { threads: 2 }, &mut programs) {
                    Ok(arm) => arms.push(arm),
                    Err(missing) if missing.contains("has no") => {}
                    Err(missing) => notes.push(format!("skipped {runtime}: {missing}")),
                }
            }
            let times = overheads(&mut arms, delay, options.repetitions.into());
            let best = arms.iter().zip(&times).filter(|(arm, _)| arm.name().starts_with("omp"));
            let best = best.map(|(_, times)| median(times)).fold(f64::INFINITY, f64::min);
            for (arm, times) in arms.iter().zip(&times) {
                let (middle, p90) = (median(times), quantile(times, 0.9));
                let by_best = middle / best;
                let name = arm.name().trim_end_matches(row).trim_end_matches("-epcc-").to_owned();
                println!(
                    "  {nanos:>5} ns  {row:<17} {name:<16} {middle:>8.0} (p90 {p90:.0})  x{by_best:.2} of the best OpenMP"
                );
                let is_judged = name == "windrow" || (name == "windrow-exactly" && row != "parallel");
                if is_judged && best.is_finite() {
                    let most = if row == "single" { 1.2 } else { 1.0 };
                    let met = if by_best <= most { "met" } else { "missed" };
                    notes.push(format!(
                        "{row} of {nanos} ns: {name} x{by_best:.2} of the best OpenMP, bar {most} {met}"
                    ));
                }
                let each: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
                lines.push(format!("{nanos},{row},{name},{middle:.1},{p90:.1},{by_best:.4},{}", each.join(" ")));
            }
        }
    }
    notes.sort();
    notes.dedup();
    notes.iter().for_each(|note| println!("  {note}"));
    let head = [record::versions(), programs.versions(), notes].concat();
    let columns = "delay_ns,construct,runtime,median_ns,p90,by_best_openmp,ns_of_each_repetition";
    options.record.write("epcc", &head, columns, &lines)
}

/// The nanoseconds that each arm takes for a construct in each turn, beyond the first arm's in the same repetition.
fn overheads(arms: &mut [Box<dyn Arm>], delay: Item, repetitions: usize) -> Vec<Vec<f64>> {
    let timed = cell(delay, CONSTRUCTS, false);
    for arm in arms.iter_mut() {
        arm.load(&cell(delay, CONSTRUCTS, true));
        arm.run(Ask { calls: 1, each: true, ..Ask::default() });
        arm.load(&timed);
    }
    let mut times = vec![Vec::new(); arms.len()];
    for repetition in 0..repetitions {
        for at in in_turn(arms.len(), repetition) {
            let reply = arms[at].run(Ask { calls: 1, each: true, rest: REST, ..Ask::default() });
            times[at].push(reply.nanos[0] / CONSTRUCTS as f64);
        }
    }
    let reference = times[0].clone();
    times.iter().map(|own| own.iter().zip(&reference).map(|(own, delay)| own - delay).collect()).collect()
}

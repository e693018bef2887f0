//! Sequences of calls whose lengths and costs change, by serial loops; and the kinds of programs that rayon's own demo has, by rayon.
//! `cargo run --release -p windrow-bench --bin workloads -- --record`
//!
//! Every arm runs a workload for some milliseconds in turn, and gives the same result. A ratio is the median of the ratios of neighbouring turns.
//! All sequences of one kind share one call site, so what the site remembers is wrong at first in each of them.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use windrow_bench::measure::in_turn;
use windrow_bench::record;
use windrow_bench::stats::{geometric_mean, median};

mod demos;
mod sequences;

/// Sequences of calls by serial loops, and programs by rayon.
#[derive(Parser)]
struct Options {
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "sequences,demos")]
    only: Vec<Part>,
    /// Only workloads whose names contain this.
    #[arg(long, default_value = "")]
    name: String,
    /// Turns of each arm.
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    /// Write a record of each part below bench/record.
    #[arg(long)]
    record: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// windrow and rayon by serial loops.
    Sequences,
    /// windrow by rayon.
    Demos,
}

/// One way to run a workload. It returns a number that depends on all results.
type Run = Box<dyn FnMut() -> u64>;

/// A workload: the first arm is what others are compared with.
pub(crate) struct Workload {
    name: String,
    arms: Vec<(&'static str, Run)>,
}

impl Workload {
    fn new(name: impl Into<String>, arms: Vec<(&'static str, Run)>) -> Self {
        Self { name: name.into(), arms }
    }
}

/// A turn of an arm lasts about this long, or is one run.
const TURN: Duration = Duration::from_millis(3);
/// Before a turn the pools come to rest.
const REST: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    println!("{}, {} repetitions", record::machine(), options.repetitions);
    for &part in &options.only {
        let (name, workloads) = match part {
            Part::Sequences => ("sequences", sequences::all()),
            Part::Demos => ("demos", demos::all()),
        };
        measure(name, workloads, options)?;
    }
    Ok(())
}

fn measure(part: &str, workloads: Vec<Workload>, options: &Options) -> Result<(), String> {
    let (mut lines, mut ratios) = (Vec::new(), Vec::<(String, f64)>::new());
    for mut workload in workloads.into_iter().filter(|it| it.name.contains(&options.name)) {
        let name = workload.name.clone();
        let arms = workload.arms.len();
        let expected = workload.arms[0].1();
        let start = Instant::now();
        workload.arms[0].1();
        let runs = (TURN.as_nanos() / start.elapsed().as_nanos().max(1)).clamp(1, 1000) as u32;
        let mut times = vec![Vec::new(); arms];
        for repetition in 0..options.repetitions {
            for at in in_turn(arms, repetition) {
                std::thread::sleep(REST);
                let (arm, run) = &mut workload.arms[at];
                let start = Instant::now();
                for _ in 0..runs {
                    if run() != expected {
                        return Err(format!("{name}, {arm}: a wrong result"));
                    }
                }
                times[at].push(start.elapsed().as_nanos() as f64 / f64::from(runs));
            }
        }
        let mut shown = format!("{name:34} {:>10.1} us", median(&times[0]) / 1e3);
        for (at, (arm, _)) in workload.arms.iter().enumerate() {
            let all: Vec<f64> = times[at].iter().zip(&times[0]).map(|(own, first)| own / first).collect();
            let ratio = median(&all);
            if at > 0 {
                shown += &format!("  {arm} {ratio:.3}");
            }
            if *arm == "windrow" {
                ratios.push((name.clone(), ratio));
            }
            let each: Vec<String> = times[at].iter().map(|time| format!("{time:.0}")).collect();
            lines.push(format!("{name},{arm},{:.0},{ratio:.4},{}", median(&times[at]), each.join(" ")));
        }
        println!("{shown}");
    }
    ratios.sort_by(|a, b| b.1.total_cmp(&a.1));
    let above = ratios.iter().filter(|(_, ratio)| *ratio > 1.05).count();
    let mean = geometric_mean(ratios.iter().map(|(_, ratio)| *ratio));
    let mut notes =
        vec![format!("{part}: windrow x{mean:.3} in geometric mean, {above} of {} above 1.05", ratios.len())];
    notes.extend(ratios.iter().take(6).map(|(name, ratio)| format!("slowest: {name} x{ratio:.3}")));
    notes.iter().for_each(|note| println!("  {note}"));
    if options.record {
        let mut head = record::versions();
        head.extend(notes);
        let columns = "workload,arm,median_ns,ratio,ns_of_each_repetition";
        let command = record::command("workloads");
        let written = record::write_lines(Path::new("bench/record"), part, &command, &head, columns, &lines);
        println!("{}", written.map_err(|error| error.to_string())?.display());
    }
    Ok(())
}

//! Sequences of calls whose lengths and costs change, by serial loops; the kinds of programs that rayon's own demo has, by rayon; and loops as people
//! write them, by the better of both.
//! `cargo run --release -p windrow-bench --bin workloads -- --record`
//!
//! Every arm runs a workload for some milliseconds in turn, and gives the same result. A ratio is the median of the ratios of neighbouring turns. The CPU
//! time of an arm is the least of its turns, by that of serial: other programs hardly change it.
//! All sequences of one kind share one call site, so what the site remembers is wrong at first in each of them.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use windrow_bench::cpu::CpuClock;
use windrow_bench::measure::in_turn;
use windrow_bench::neighbour::{Neighbour, Neighbours};
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{geometric_mean, median};

mod demos;
mod loops;
mod sequences;

/// Sequences of calls, programs and loops, by serial loops and by rayon.
#[derive(Parser)]
struct Options {
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_value = "sequences,demos,loops")]
    only: Vec<Part>,
    /// Measure only workloads whose names contain this.
    #[arg(long, default_value = "")]
    name: String,
    /// Turns of each arm.
    #[arg(long, default_value_t = 11)]
    repetitions: usize,
    #[command(flatten)]
    neighbours: Neighbours,
    #[command(flatten)]
    record: Recording,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// windrow, rayon and commonware-parallel by serial loops.
    Sequences,
    /// windrow by rayon.
    Demos,
    /// windrow by the better of serial and rayon.
    Loops,
}

/// One way to run a workload. It returns a number that depends on all results.
type Run = Box<dyn FnMut() -> u64 + Send>;

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

/// An arm of this name runs on a worker of rayon's pool.
const INSIDE_RAYON: &str = "rayon-inside";

/// A turn of an arm lasts about this long, or is one run.
const TURN: Duration = Duration::from_millis(3);
/// Before a turn the pools come to rest.
const REST: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    println!("{}, {} repetitions", record::machine(), options.repetitions);
    let _neighbours = options.neighbours.start();
    for &part in &options.only {
        let (name, workloads) = match part {
            Part::Sequences => ("sequences", sequences::all()),
            Part::Demos => ("demos", demos::all()),
            Part::Loops => ("loops", loops::all()),
        };
        let mut measured = Vec::new();
        for workload in workloads.into_iter().filter(|it| it.name.contains(&options.name)) {
            let own = measure(workload, options.repetitions)?;
            println!("{own}");
            measured.push(own);
        }
        let mut notes = notes(name, &measured);
        if part == Part::Loops {
            notes.extend(bars(&measured));
        }
        notes.iter().for_each(|note| println!("  {note}"));
        let lines: Vec<String> = measured.iter().flat_map(Measured::lines).collect();
        let columns = "workload,arm,median_ns,ratio,cpu_ratio,ns_of_each_repetition";
        let name = format!("{name}{}", options.neighbours.suffix());
        options.record.write(&name, &[record::versions(), notes].concat(), columns, &lines)?;
    }
    Ok(())
}

/// The turns of one arm.
struct Turns {
    arm: &'static str,
    /// Nanoseconds of a run.
    times: Vec<f64>,
    /// The median of their ratios to the first arm's.
    ratio: f64,
    /// The least CPU nanoseconds of a run, by the first arm's.
    cpu: f64,
}

/// A workload, measured.
struct Measured {
    name: String,
    arms: Vec<Turns>,
}

impl Measured {
    fn arm(&self, name: &str) -> Option<&Turns> {
        self.arms.iter().find(|turns| turns.arm == name)
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        self.arms.iter().map(|Turns { arm, times, ratio, cpu }| {
            let each: Vec<String> = times.iter().map(|time| format!("{time:.0}")).collect();
            format!("{},{arm},{:.0},{ratio:.4},{cpu:.4},{}", self.name, median(times), each.join(" "))
        })
    }

    /// windrow's time by that of the fastest of the other arms.
    fn by_the_best(&self) -> f64 {
        let others = self.arms.iter().filter(|turns| !["control", "windrow"].contains(&turns.arm));
        let best = others.map(|turns| turns.ratio).fold(f64::INFINITY, f64::min);
        self.arm("windrow").map_or(f64::NAN, |windrow| windrow.ratio / best)
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:34} {:>10.1} us", self.name, median(&self.arms[0].times) / 1e3)?;
        self.arms[1..].iter().try_for_each(|it| write!(f, "  {} {:.3} (CPU {:.2})", it.arm, it.ratio, it.cpu))
    }
}

fn measure(mut workload: Workload, repetitions: usize) -> Result<Measured, String> {
    let name = workload.name;
    let expected = workload.arms[0].1();
    let arms = workload.arms.len();
    let runs_of_a_turn = |(_, run): &mut (&str, Run)| {
        // The first run is slower than others.
        run();
        let start = Instant::now();
        run();
        (TURN.as_nanos() / start.elapsed().as_nanos().max(1)).clamp(1, 1000) as u32
    };
    let runs: Vec<u32> = workload.arms.iter_mut().map(runs_of_a_turn).collect();
    let (mut times, mut cpu) = (vec![Vec::new(); arms], vec![f64::INFINITY; arms]);
    for repetition in 0..repetitions {
        for at in in_turn(arms, repetition) {
            std::thread::sleep(REST);
            let ((arm, run), runs) = (&mut workload.arms[at], runs[at]);
            let mut turn = || {
                let (clock, mut is_right) = (CpuClock::new(), true);
                let (before, start) = (clock.now(), Instant::now());
                for _ in 0..runs {
                    is_right &= run() == expected;
                }
                let (time, spent) = (start.elapsed(), clock.now().saturating_sub(before));
                (is_right, [time, spent].map(|time| time.as_nanos() as f64 / f64::from(runs)))
            };
            let (is_right, [time, spent]) = if *arm == INSIDE_RAYON { rayon::scope(|_| turn()) } else { turn() };
            if !is_right {
                return Err(format!("{name}, {arm}: wrong result"));
            }
            times[at].push(time);
            cpu[at] = cpu[at].min(spent);
        }
    }
    let ratios: Vec<f64> = times
        .iter()
        .map(|times_of_arm| {
            median(&times_of_arm.iter().zip(&times[0]).map(|(own, first)| own / first).collect::<Vec<_>>())
        })
        .collect();
    let cpu: Vec<f64> = cpu.iter().map(|own| own / cpu[0]).collect();
    let arms = workload.arms.iter().zip(times).zip(ratios.into_iter().zip(cpu));
    let arms = arms.map(|(((arm, _), times), (ratio, cpu))| Turns { arm, times, ratio, cpu }).collect();
    Ok(Measured { name, arms })
}

fn notes(part: &str, measured: &[Measured]) -> Vec<String> {
    let ratio = |it: &Measured| Some((it.name.clone(), it.arm("windrow")?.ratio));
    let mut ratios: Vec<(String, f64)> = measured.iter().filter_map(ratio).collect();
    ratios.sort_by(|a, b| b.1.total_cmp(&a.1));
    let above = ratios.iter().filter(|(_, ratio)| *ratio > 1.05).count();
    let mean = geometric_mean(ratios.iter().map(|(_, ratio)| *ratio));
    let mut notes =
        vec![format!("{part}: windrow x{mean:.3} in geometric mean, {above} of {} above 1.05", ratios.len())];
    notes.extend(ratios.iter().take(6).map(|(name, ratio)| format!("slowest: {name} x{ratio:.3}")));
    notes
}

/// The bars of loops: time by the better of serial and rayon, CPU time by serial.
fn bars(loops: &[Measured]) -> Vec<String> {
    let bar = |what: &str, most: f64, value: &dyn Fn(&Measured) -> f64| {
        let above: Vec<String> =
            loops.iter().filter(|it| value(it) > most).map(|it| format!("{} {:.2}", it.name, value(it))).collect();
        let verdict = if above.is_empty() { "met" } else { "missed" };
        let shown = if above.is_empty() { "none".to_owned() } else { above.join(" ") };
        format!("loops above {most:.2} {what}: {} of {}, bar <= 0 {verdict}; {shown}", above.len(), loops.len())
    };
    vec![
        bar("of the better of serial and rayon by time", 1.1, &Measured::by_the_best),
        bar("of serial by CPU time", 2.0, &|it| it.arm("windrow").map_or(f64::NAN, |it| it.cpu)),
    ]
}

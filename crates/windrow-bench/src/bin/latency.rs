//! Measures the time of a region of two parts, and the CPU time that a pool burns between regions. `cargo run --release -p windrow-bench
//! --bin latency -- --help`
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use windrow_bench::arms::regions::{Parts, RUNTIMES, region};
use windrow_bench::arms::{Arm, Ask, Loaded, Programs, Setting};
use windrow_bench::measure::{clock_cost, in_turn};
use windrow_bench::meeting::Meeting;
use windrow_bench::record;
use windrow_bench::stats::{interval, median, quantile};
use windrow_bench::work::Item;

/// The time of a region of two parts, and the CPU time that a pool burns between regions.
#[derive(Parser)]
struct Options {
    /// Runtimes, separated by commas.
    #[arg(long, default_values_t = RUNTIMES.map(str::to_owned), value_delimiter = ',', hide_default_value = true)]
    runtimes: Vec<String>,
    /// Number of turns of each runtime.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// Gaps before a call, in microseconds, and the calls of a turn.
const GAPS: [(u64, usize); 8] =
    [(0, 300), (20, 200), (100, 100), (300, 60), (1_000, 30), (3_000, 10), (10_000, 6), (30_000, 4)];
const REST: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(100);
/// Calls before the first timed one: enough for a runtime that learns.
const WARM_UP: usize = 20;

/// A runtime's turns at one gap.
#[derive(Default)]
struct Turns {
    /// Median of each turn.
    medians: Vec<f64>,
    /// All calls.
    calls: Vec<f64>,
    cpu: f64,
}

struct Region {
    name: String,
    arm: Box<dyn Arm>,
    meeting: Arc<Meeting>,
    /// By gap, in microseconds.
    turns: BTreeMap<u64, Turns>,
    /// CPU time divided by idle time, one for each repetition.
    idle: Vec<f64>,
}

fn regions(parts: Parts, options: &Options, programs: &mut Programs, notes: &mut Vec<String>) -> Vec<Region> {
    let cell = Rc::new(Loaded { index: 0, items: vec![Item { seed: 0, turns: 0 }], expected: vec![1], sum: [1] });
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut regions = Vec::new();
    for name in &options.runtimes {
        match region(name, parts, Setting { threads, shared: false }, programs) {
            Ok((mut arm, meeting)) => {
                arm.load(&cell);
                // A runtime that makes parts meet this way does so now.
                arm.run(Ask { calls: WARM_UP, ..Ask::default() });
                let missed = meeting.missed();
                arm.run(Ask { calls: WARM_UP, ..Ask::default() });
                if meeting.missed() - missed > WARM_UP as u64 / 2 {
                    notes.push(format!("without {name}, {parts:?}: it does not run two parts at once"));
                } else {
                    regions.push(Region { name: name.clone(), arm, meeting, turns: BTreeMap::new(), idle: Vec::new() });
                }
            }
            Err(error) => notes.push(format!("without {name}, {parts:?}: {error}")),
        }
    }
    regions
}

fn measure(regions: &mut [Region], repetitions: usize) {
    let clock = clock_cost();
    for repetition in 0..repetitions {
        for (gap, calls) in GAPS {
            for at in in_turn(regions.len(), repetition) {
                let region = &mut regions[at];
                // Regions after long gaps must be cold.
                let warm_up = if gap < 1_000 { WARM_UP } else { 1 };
                let gap_time = Duration::from_micros(gap);
                let ask = Ask { warm_up, calls, each: true, gap: gap_time, rest: REST, ..Ask::default() };
                let reply = region.arm.run(ask);
                let turns = region.turns.entry(gap).or_default();
                let nanos = reply.nanos.iter().map(|nanos| nanos - clock);
                turns.calls.extend(nanos.clone());
                turns.medians.push(median(&nanos.collect::<Vec<f64>>()));
                turns.cpu += reply.cpu / (calls * repetitions) as f64;
            }
        }
        for at in in_turn(regions.len(), repetition) {
            let ask = Ask { warm_up: 0, calls: WARM_UP, each: false, gap: Duration::ZERO, rest: REST, idle: IDLE };
            let reply = regions[at].arm.run(ask);
            regions[at].idle.push(reply.cpu_idle / IDLE.as_nanos() as f64);
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(unknown) = options.runtimes.iter().find(|name| !RUNTIMES.contains(&name.as_str())) {
        eprintln!("error: no runtime is called {unknown}");
        return ExitCode::from(2);
    }
    if let Err(error) = record::allowed(options.record) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    println!("{}; nanoseconds of a region of two parts, CPU time of a call with its gap", record::machine());
    let (mut programs, mut notes, mut lines) = (Programs::default(), Vec::new(), Vec::new());
    for parts in [Parts::Empty, Parts::Meet] {
        let mut regions = regions(parts, &options, &mut programs, &mut notes);
        measure(&mut regions, options.repetitions.into());
        for (gap, _) in GAPS {
            println!("{parts:?}, gaps of {gap} us");
            let bare = regions.iter().find(|region| region.name == "bare");
            let bare = bare.map_or(f64::NAN, |region| median(&region.turns[&gap].medians));
            for region in &regions {
                let Turns { medians, calls, cpu } = &region.turns[&gap];
                let (middle, (low, high), p90) = (median(medians), interval(medians), quantile(calls, 0.9));
                println!(
                    "  {:<14} {middle:>9.0} [{low:.0} {high:.0}]  p90 {p90:>9.0}  x{:.2} of bare  cpu {:>8.2} us",
                    region.name,
                    middle / bare,
                    cpu / 1e3
                );
                lines.push(format!("{parts:?},{gap},{},{middle:.0},{low:.0},{high:.0},{p90:.0},{cpu:.0}", region.name));
            }
        }
        println!("{parts:?}, from 1 ms after the last call: CPU time per time; parts that did not meet within 10 ms");
        for Region { name, meeting, idle, .. } in &regions {
            println!("  {name:<14} {:>6.2} %  {}", median(idle) * 100.0, meeting.missed());
            lines.push(format!("{parts:?} idle percent,,{name},{:.3},,,,", median(idle) * 100.0));
        }
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    if options.record {
        let mut head = record::versions();
        head.extend(programs.versions());
        head.extend(notes);
        let columns = "parts,gap_us,runtime,median_ns,low95,high95,p90_ns,cpu_ns_of_a_call_with_its_gap";
        let command = record::command("latency");
        match record::write_lines(Path::new("bench/record"), "latency", &command, &head, columns, &lines) {
            Ok(path) => println!("{}", path.display()),
            Err(error) => {
                eprintln!("error: no record: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

//! Measures the time of a barrier: `cargo run --release -p windrow-bench --bin barriers -- --help`
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use windrow_bench::arms::crossings::{PEERS, WINDROW, arm, cell};
use windrow_bench::arms::{Arm, Ask, Programs, Setting};
use windrow_bench::measure::in_turn;
use windrow_bench::neighbour::Neighbour;
use windrow_bench::record;
use windrow_bench::stats::{interval, median, quantile};
use windrow_bench::verdict::Regime;

/// The time of a barrier, for a team of fixed width: alone, and with every member showing its presence in every round.
#[derive(Parser)]
struct Options {
    /// The conditions around the crossings; `cold` means nothing here.
    #[arg(long, value_enum, default_value = "warm")]
    regime: Regime,
    /// Barriers, separated by commas.
    #[arg(long, default_values_t = WINDROW.into_iter().chain(PEERS).map(str::to_owned), value_delimiter = ',', hide_default_value = true)]
    arms: Vec<String>,
    /// Number of turns of each barrier.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// A turn's crossings take about this long, in nanoseconds, or are [`LEAST`].
const TURN: f64 = 10e6;
/// The least number of crossings in a turn, for crossings of a millisecond and more.
const LEAST: u64 = 16;
/// The rest of threads after a turn.
const REST: Duration = Duration::from_millis(1);

/// A barrier's turns, in nanoseconds of a crossing.
struct Row {
    name: String,
    shown: bool,
    arm: Box<dyn Arm>,
    crossings: u64,
    times: Vec<f64>,
    cpu: f64,
}

impl Row {
    /// A turn of `crossings` crossings. Returns the nanoseconds of all, and their CPU time.
    fn turn(&mut self, crossings: u64) -> (f64, f64) {
        self.arm.load(&cell(crossings, self.shown));
        // The first call starts the threads and spreads them over the CPUs.
        let reply = self.arm.run(Ask { warm_up: 1, calls: 1, each: true, rest: REST, ..Ask::default() });
        (reply.nanos[0], reply.cpu)
    }

    /// Finds the number of crossings of a turn: as many as fit into an undisturbed turn. Beside a busy process most turns then take longer,
    /// by some of its time slices. So the cost of such a slice is divided by many crossings, for all barriers.
    fn calibrate(&mut self) {
        while quantile(&[(); 5].map(|()| self.turn(self.crossings).0), 0.0) < TURN / 4.0 {
            self.crossings *= 4;
        }
    }
}

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    if let Some(unknown) = options.arms.iter().find(|name| !PEERS.into_iter().chain(WINDROW).any(|it| it == **name)) {
        return Err(format!("no barrier is called {unknown}"));
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if options.regime == Regime::Oversubscribed { 2 * cpus } else { cpus };
    let (mut programs, mut notes, mut rows) = (Programs::default(), Vec::new(), Vec::new());
    for name in &options.arms {
        for shown in [false, true] {
            match arm(name, Setting { threads, shared: false }, &mut programs) {
                Ok(arm) => {
                    rows.push(Row { name: name.clone(), shown, arm, crossings: LEAST, times: Vec::new(), cpu: 0.0 });
                }
                Err(error) => notes.push(format!("without {name}: {error}")),
            }
        }
    }
    let neighbour = (options.regime == Regime::Busy).then(Neighbour::start);
    println!(
        "{}, {threads} threads, {:?}, {} repetitions; nanoseconds of a crossing",
        record::machine(),
        options.regime,
        options.repetitions
    );
    rows.iter_mut().for_each(Row::calibrate);
    for repetition in 0..options.repetitions.into() {
        for at in in_turn(rows.len(), repetition) {
            let row = &mut rows[at];
            let (nanos, cpu) = row.turn(row.crossings);
            row.times.push(nanos / row.crossings as f64);
            row.cpu += cpu / (row.crossings * u64::from(options.repetitions)) as f64;
        }
    }
    drop(neighbour);
    let mut lines = Vec::new();
    for Row { name, shown, times, cpu, crossings, .. } in &rows {
        let (middle, (low, high)) = (median(times), interval(times));
        let (p10, p90) = (quantile(times, 0.1), quantile(times, 0.9));
        let how = if *shown { "every round shown" } else { "alone" };
        println!(
            "  {name:<18} {how:<17} {middle:>10.0} [{low:.0} {high:.0}] ({p10:.0}..{p90:.0})  cpu {cpu:>10.0}  {crossings} crossings a turn"
        );
        let times: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
        lines.push(format!(
            "{name},{},{middle:.1},{low:.1},{high:.1},{p10:.1},{p90:.1},{cpu:.1},{crossings},{}",
            u8::from(*shown),
            times.join(" ")
        ));
    }
    notes.extend(bars(&rows, options.regime));
    notes.iter().for_each(|note| println!("  {note}"));
    if options.record {
        let mut head = record::versions();
        head.extend(programs.versions());
        head.extend(notes);
        let columns =
            "barrier,every_round_shown,median_ns,low95,high95,p10,p90,cpu_ns,crossings_of_a_turn,ns_of_each_repetition";
        let name = format!("barriers-{}", format!("{:?}", options.regime).to_lowercase());
        let command = record::command("barriers");
        let written = record::write_lines(Path::new("bench/record"), &name, &command, &head, columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

/// The bars of windrow's barriers, and whether they are met. The ratios are those of medians.
fn bars(rows: &[Row], regime: Regime) -> Vec<String> {
    let (most, of): (f64, &[&str]) = match regime {
        Regime::Oversubscribed => (1.25, &["hurdles"]),
        Regime::Busy => (1.5, &["hurdles"]),
        _ => (1.25, &["hurdles", "spin", "spin-packed", "omp-cross", "omp-passive-cross", "omp-bound-cross"]),
    };
    let mut bars = Vec::new();
    for shown in [false, true] {
        let of = rows.iter().filter(|row| row.shown == shown && of.contains(&row.name.as_str()));
        let Some((best, name)) =
            of.map(|row| (median(&row.times), &row.name)).min_by(|one, other| one.0.total_cmp(&other.0))
        else {
            continue;
        };
        for row in rows.iter().filter(|row| row.shown == shown && row.name.starts_with("windrow")) {
            let ratio = median(&row.times) / best;
            let met = if ratio <= most { "met" } else { "missed" };
            let how = if shown { "every round shown" } else { "alone" };
            bars.push(format!("{} {how}: x{ratio:.2} of {name}, bar {most} {met}", row.name));
        }
    }
    bars
}

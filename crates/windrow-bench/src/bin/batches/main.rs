//! Many callers of one structure: `cargo run --release -p windrow-bench --bin batches -- --help`
//!
//! A batch costs F once and m for each operation. The grid compares windrow's default with windrow's other choices, with mutexes and with
//! hand-written actors.
#![forbid(unsafe_code)]

mod arms;
mod grid;
mod resource;
mod services;
mod tasks;
mod threads;
mod turn;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::runtime::Runtime;
use windrow_bench::neighbour::Neighbour;
use windrow_bench::record::{self, Recording};

use arms::{Arm, Kind};
use resource::Cost;
use turn::Shape;

/// Many callers of one structure whose batches cost F once, and m for each operation: windrow's default compared with the best of its
/// other choices, of mutexes and of actors; and the gain that it claims with the measured one. Those two parts take about five minutes. A
/// service: callers that arrive at random, four minutes, and callers with busy processes, two.
#[derive(Parser)]
struct Options {
    /// Parts to measure.
    #[arg(long, value_delimiter = ',', default_value = "grid")]
    only: Vec<Part>,
    /// F, in microseconds. Default: 0.1, 2, 20, 100 and 2000; for a service 100, 1000 and 5000.
    #[arg(long, value_delimiter = ',')]
    fixed: Vec<f64>,
    /// m, in microseconds. Default: 0 in the grid, 0.5 for a service.
    #[arg(long, value_delimiter = ',')]
    each: Vec<f64>,
    /// Number of callers. Default: 1, 2, 8, 64 and 256 in the grid; 1, 8 and 64 if they arrive at random; 64
    /// with neighbours.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    callers: Vec<u16>,
    /// Kinds of callers.
    #[arg(long, value_delimiter = ',', default_value = "threads,tasks")]
    kinds: Vec<Kind>,
    /// Measure only the default, its control, and arms whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    arms: Vec<String>,
    /// Arrival rates, in percent of an actor's capacity.
    #[arg(long, value_delimiter = ',', default_value = "20,80,95", value_parser = clap::value_parser!(u16).range(1..100))]
    loads: Vec<u16>,
    /// Number of busy processes.
    #[arg(long, value_delimiter = ',', default_value = "0,1,4")]
    neighbours: Vec<u16>,
    /// Turns of each arm; a service gets two fifths as many.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Print all arms of each cell, not only the default and the best.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    record: Recording,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The default by the best of all others.
    Grid,
    /// Latency of arrivals at random.
    Open,
    /// A closed loop beside busy processes.
    Neighbours,
}

/// The reason for which a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";
const CALLERS: [u16; 5] = [1, 2, 8, 64, 256];
/// F, in microseconds.
const FIXED: [f64; 5] = [0.1, 2.0, 20.0, 100.0, 2_000.0];
/// The workers of the executor.
const WORKERS: usize = 2;
/// From here on F is waiting, not computing.
const WAITING: Duration = Duration::from_millis(1);

/// A time in microseconds.
fn in_micros(time: Duration) -> String {
    format!("{}us", time.as_nanos() as f64 / 1e3)
}

/// How many percent of the items are so.
fn share<T>(items: impl IntoIterator<Item = T>, is: impl Fn(T) -> bool) -> f64 {
    let (mut count, mut all) = (0, 0);
    for item in items {
        all += 1;
        count += usize::from(is(item));
    }
    100.0 * count as f64 / f64::from(all.max(1))
}

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

impl Options {
    /// The cells of a part.
    fn cells(&self, part: Part) -> Result<Vec<Shape>, String> {
        let time = |micros: &f64| {
            let time = Duration::try_from_secs_f64(micros / 1e6).map_err(|error| format!("{micros} us: {error}"))?;
            if time > Duration::from_secs(1) { Err(format!("{micros} us: more than a second")) } else { Ok(time) }
        };
        let (callers, each, fixed): (&[u16], &[f64], &[f64]) = match part {
            Part::Grid => (&CALLERS, &[0.0], &FIXED),
            Part::Open => (&services::CALLERS, &[services::EACH], &services::FIXED),
            Part::Neighbours => (&services::CLOSED_CALLERS, &[services::EACH], &services::FIXED),
        };
        let is_service = matches!(part, Part::Open | Part::Neighbours);
        let all_fixed = if self.fixed.is_empty() { fixed } else { &self.fixed };
        let callers = if self.callers.is_empty() { callers } else { &self.callers };
        let each = if self.each.is_empty() { each } else { &self.each };
        let mut cells = Vec::new();
        for fixed in all_fixed {
            for each in each {
                let fixed = time(fixed)?;
                // A service waits for its disk or its device.
                let sleeps = is_service || fixed >= WAITING;
                let cost = Cost { fixed, each: time(each)?, sleeps };
                for &kind in &self.kinds {
                    cells.extend(callers.iter().map(|&callers| Shape::new(kind, callers.into(), cost)));
                }
            }
        }
        Ok(cells)
    }

    fn repetitions(&self, part: Part) -> usize {
        let repetitions = usize::from(self.repetitions);
        match part {
            Part::Grid => repetitions,
            Part::Open | Part::Neighbours => (2 * repetitions).div_ceil(5),
        }
    }

    fn asked(&self, mut arms: Vec<Arm>) -> Vec<Arm> {
        let is_named = |arm: &Arm| self.arms.iter().any(|it| arm.to_string().starts_with(it));
        arms.retain(|arm| self.arms.is_empty() || !arm.is_rest() || is_named(arm));
        arms
    }
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    for &part in &options.only {
        let start = Instant::now();
        let repetitions = options.repetitions(part);
        println!("{}, {repetitions} repetitions", record::machine());
        let cells = options.cells(part)?;
        let (name, columns, (lines, bars)) = match part {
            Part::Grid => ("batches", grid::COLUMNS.to_owned(), grid_of(options, &cells, repetitions, &runtime)?),
            Part::Open => {
                let outcome = services::open(&cells, options, repetitions, &runtime)?;
                ("batches-open", services::columns("load_percent"), outcome)
            }
            Part::Neighbours => {
                let outcome = services::beside(&cells, options, repetitions, &runtime)?;
                ("batches-neighbours", services::columns("neighbours"), outcome)
            }
        };
        bars.iter().for_each(|note| println!("  {note}"));
        println!("  {:.0} s", start.elapsed().as_secs_f64());
        let from = in_micros(WAITING);
        let how = format!("F spins on the clock, but sleeps from {from} on and in a service; m spins");
        let notes = [record::versions(), vec![how], bars].concat();
        options.record.write(name, &notes, &columns, &lines)?;
    }
    Ok(())
}

type Outcome = (Vec<String>, Vec<String>);

fn grid_of(options: &Options, cells: &[Shape], repetitions: usize, runtime: &Runtime) -> Result<Outcome, String> {
    let (mut lines, mut judged) = (Vec::new(), Vec::new());
    for shape in cells {
        let arms = options.asked(Arm::of_cell(shape.kind, shape.callers, shape.cost.fixed));
        let rows = turn::cell(&arms, shape, repetitions, runtime)?;
        let cell = grid::judge(shape, &rows);
        grid::print(cell.as_ref(), shape, &rows, options.all);
        lines.extend(grid::lines(shape, &rows));
        judged.extend(cell);
    }
    Ok((lines, grid::summary(&judged)))
}

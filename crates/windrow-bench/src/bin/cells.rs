//! The cells: loops of all sizes and costs against serial ones and against other runtimes.
//! `cargo run --release -p windrow-bench --bin cells -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use clap::Parser;
use windrow_bench::arms::{self, Arm, CONTROL, Loaded, Programs, SERIAL, Setting};
use windrow_bench::cells::{Cell, cells};
use windrow_bench::measure::{self, Plan};
use windrow_bench::neighbour::{Neighbour, Neighbours};
use windrow_bench::record;
use windrow_bench::report::{self, Report};
use windrow_bench::verdict::Regime;
use windrow_bench::work::Calibration;

/// Loops of all sizes and costs against serial ones and against other runtimes.
#[derive(Parser)]
struct Options {
    /// Cells whose name contains one of these, separated by commas.
    #[arg(long, default_value = "", value_delimiter = ',', hide_default_value = true)]
    cells: Vec<String>,
    /// The conditions around the calls.
    #[arg(long, value_enum, default_value = "warm")]
    regime: Regime,
    /// Number of turns of each arm in a cell.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Ways to run a cell, beside serial and its control; `peers` means all that are not windrow's, `best-peers` one or a few of each, `without` windrow with one
    /// mechanism switched off (feature `ablation`).
    #[arg(long, default_value = "windrow", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    neighbours: Neighbours,
    /// Every other cell, all through one call site of windrow, in shuffled order.
    #[arg(long)]
    shared: bool,
    /// Number of runs of everything; a rule counts as broken if every run breaks it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// Write a record of every run below bench/record.
    #[arg(long)]
    record: bool,
}

/// The names of the arms to run, serial and its control first.
fn arm_names(asked: &[String]) -> Vec<String> {
    let mut names = vec![SERIAL.to_owned(), CONTROL.to_owned()];
    for name in asked {
        match name.as_str() {
            "peers" => names.extend(arms::peers().map(str::to_owned)),
            "without" => names.extend(arms::WITHOUT.iter().map(|(name, _)| (*name).to_owned())),
            "best-peers" => names.extend(arms::BEST_PEERS.map(str::to_owned)),
            _ => names.push(name.clone()),
        }
    }
    names
}

/// The cells to run, each with its index among all cells.
fn chosen(options: &Options) -> Vec<(usize, Cell)> {
    let named = |cell: &Cell| options.cells.iter().any(|part| cell.name.contains(part));
    let all = cells().into_iter().enumerate();
    all.filter(|(index, cell)| named(cell) && (!options.shared || index % 2 == 0)).collect()
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
    if options.record && (options.cells != [""]) {
        return Err("a record holds all cells\n  hint: --record without --cells".to_owned());
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if options.regime == Regime::Oversubscribed { 2 * cpus } else { cpus };
    let setting = Setting { threads, shared: options.shared };
    let mut programs = Programs::default();
    let (mut arms, mut notes): (Vec<Box<dyn Arm>>, Vec<String>) = Default::default();
    for name in arm_names(&options.arms) {
        if !arms::is_known(&name) {
            return Err(format!("no arm is called {name}"));
        }
        match arms::arm(&name, setting, &mut programs) {
            Ok(arm) => arms.push(arm),
            Err(error) => notes.push(format!("without {name}: {error}")),
        }
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let chosen = chosen(options);
    if chosen.is_empty() {
        return Err("no cell has such a name".to_owned());
    }
    let plan = Plan { regime: options.regime, repetitions: options.repetitions.into() };
    println!("{}, {threads} threads, {:?}, {} repetitions", record::machine(), plan.regime, plan.repetitions);

    let costs = chosen.iter().map(|(_, cell)| cell.costs().iter().sum());
    let estimate = measure::least_time(costs, arms.len(), plan) * options.runs.into();
    println!("takes {estimate:.0?} if every arm is as fast as serial; arms that are slower take longer");
    let start = Instant::now();

    let calibration = Calibration::measure();
    let load = |(index, cell): &(usize, Cell)| Rc::new(Loaded::new(*index, cell.items(&calibration)));
    let _neighbours = options.neighbours.start();
    let _neighbour = (options.regime == Regime::Busy).then(Neighbour::start);
    let mut runs = Vec::new();
    for run in 1..=options.runs {
        let cells = measure_all(&mut arms, &chosen, load, options.shared, plan, cpus);
        let report = Report { arms: arms.iter().map(|arm| arm.name().to_owned()).collect(), cells };
        print!("{}", report.summary());
        if options.record {
            let regime = format!("{:?}", plan.regime).to_lowercase();
            let shared = if options.shared { "-shared" } else { "" };
            let what = if options.arms.iter().any(|arm| arm == "without") { "ablation" } else { "cells" };
            let name = format!("{what}-{regime}{shared}{}-{run}", options.neighbours.suffix());
            let written = report.record("cells", &name, &programs, &notes);
            println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
        }
        runs.push(report);
    }
    print!("{}", report::broken_in_all(&runs));
    println!("took {:.0?}", start.elapsed());
    if runs.iter().any(Report::is_impossible) {
        return Err("a loop was faster than all threads together can be: something else was measured".to_owned());
    }
    Ok(())
}

/// One run over all cells; prints each cell when it is measured.
fn measure_all(
    arms: &mut [Box<dyn Arm>],
    chosen: &[(usize, Cell)],
    load: impl Fn(&(usize, Cell)) -> Rc<Loaded> + Copy,
    shared: bool,
    plan: Plan,
    cpus: usize,
) -> Vec<report::Cell> {
    let names: Vec<String> = arms.iter().map(|arm| arm.name().to_owned()).collect();
    let compared = |(_, cell): &(usize, Cell), samples| {
        let cell = report::Cell::new(&cell.name, cell.bound(cpus), plan.regime, samples);
        cell.print(&names);
        cell
    };
    if shared {
        let loaded: Vec<Rc<Loaded>> = chosen.iter().map(load).collect();
        let samples = measure::shared(arms, &loaded, plan);
        return chosen.iter().zip(samples).map(|(cell, samples)| compared(cell, samples)).collect();
    }
    chosen.iter().map(|cell| compared(cell, measure::cell(arms, &load(cell), plan))).collect()
}

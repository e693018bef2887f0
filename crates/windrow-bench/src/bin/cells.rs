//! The cells: loops of all sizes and costs against serial ones and against other runtimes.
//! `cargo run --release -p windrow-bench --bin cells -- --help`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use windrow_bench::arms::{self, Arm, CONTROL, Loaded, Programs, SERIAL, Setting};
use windrow_bench::cells::{LoopCell, recorded};
use windrow_bench::measure::{self, Plan};
use windrow_bench::neighbour::{Neighbour, Neighbours};
use windrow_bench::record::{self, Recording};
use windrow_bench::report::{self, Report};
use windrow_bench::verdict::Regime;
use windrow_bench::work::TurnCosts;

/// Loops of all sizes and costs against serial ones and against other runtimes.
#[derive(Parser)]
struct Options {
    /// Cells whose name contains one of these, separated by commas.
    #[arg(long, default_value = "", value_delimiter = ',', hide_default_value = true)]
    cells: Vec<String>,
    /// Conditions around the calls.
    #[arg(long, value_enum, default_value = "warm")]
    regime: Regime,
    /// Number of turns of each arm in a cell.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Ways to run a cell, in addition to serial and its control. `peers` means all that are not windrow's; `without` means
    /// windrow with one mechanism switched off (`ablation` feature).
    #[arg(long, default_value = "windrow", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    neighbours: Neighbours,
    /// Number of runs of everything, each with a record.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    #[command(flatten)]
    record: Recording,
}

/// The names of the arms to run, serial and its control first.
fn arm_names(asked: &[String]) -> Vec<String> {
    let mut names = vec![SERIAL.to_owned(), CONTROL.to_owned()];
    for name in asked {
        match name.as_str() {
            "peers" => names.extend(arms::peers().map(str::to_owned)),
            "without" => names.extend(arms::WITHOUT.iter().map(|(name, _)| (*name).to_owned())),
            _ => names.push(name.clone()),
        }
    }
    names
}

/// The cells to run, each with its index among all cells.
fn chosen(options: &Options) -> Vec<(usize, LoopCell)> {
    let named = |cell: &LoopCell| options.cells.iter().any(|part| cell.name.contains(part));
    let all = recorded().into_iter().enumerate();
    all.filter(|(_, cell)| named(cell)).collect()
}

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed_whole(options.cells == [""], "--cells")?;
    let cpus = windrow_bench::cpu::count();
    let threads = if options.regime == Regime::Oversubscribed { 2 * cpus } else { cpus };
    let setting = Setting { threads };
    let mut programs = Programs::default();
    let (mut arms, mut notes): (Vec<Box<dyn Arm>>, Vec<String>) = Default::default();
    for name in arm_names(&options.arms) {
        if !arms::is_known(&name) {
            return Err(format!("no arm is called {name}"));
        }
        match arms::arm(&name, setting, &mut programs) {
            Ok(arm) => arms.push(arm),
            Err(error) => notes.push(format!("skipped {name}: {error}")),
        }
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let chosen = chosen(options);
    if chosen.is_empty() {
        return Err("no cell matches this name".to_owned());
    }
    let plan = Plan { regime: options.regime, repetitions: options.repetitions.into() };
    println!("{}, {threads} threads, {:?}, {} repetitions", record::machine(), plan.regime, plan.repetitions);

    let calibration = TurnCosts::measure();
    let load = |(index, cell): &(usize, LoopCell)| Rc::new(Loaded::new(*index, cell.items(&calibration)));
    let _neighbours = options.neighbours.start();
    let _neighbour = (options.regime == Regime::Busy).then(Neighbour::start);
    let mut runs = Vec::new();
    for run in 1..=options.runs {
        let cells = measure_all(&mut arms, &chosen, load, plan, cpus);
        let report = Report { arms: arms.iter().map(|arm| arm.name().to_owned()).collect(), cells };
        print!("{}", report.summary());
        let regime = format!("{:?}", plan.regime).to_lowercase();
        let what = if options.arms.iter().any(|arm| arm == "without") { "ablation" } else { "cells" };
        let name = format!("{what}-{regime}{}-{run}", options.neighbours.suffix());
        report.record(options.record, &name, &programs, &notes)?;
        runs.push(report);
    }
    if runs.iter().any(Report::is_impossible) {
        return Err("a loop was faster than all threads together can be: something else was measured".to_owned());
    }
    Ok(())
}

/// One run over all cells; prints each cell when it is measured.
fn measure_all(
    arms: &mut [Box<dyn Arm>],
    chosen: &[(usize, LoopCell)],
    load: impl Fn(&(usize, LoopCell)) -> Rc<Loaded> + Copy,
    plan: Plan,
    cpus: usize,
) -> Vec<report::Cell> {
    let names: Vec<String> = arms.iter().map(|arm| arm.name().to_owned()).collect();
    let compared = |(_, cell): &(usize, LoopCell), samples| {
        let cell = report::Cell::new(&cell.name, cell.bound(cpus), plan.regime, samples);
        cell.print(&names);
        cell
    };
    chosen.iter().map(|cell| compared(cell, measure::cell(arms, &load(cell), plan))).collect()
}

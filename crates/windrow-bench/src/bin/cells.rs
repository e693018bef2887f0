//! The cells: loops of all sizes and costs against serial ones and against other runtimes.
//! `cargo run --release -p windrow-bench --bin cells -- --help`
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use clap::Parser;
use windrow_bench::arms::{self, Arm, CONTROL, Loaded, Programs, SERIAL, Setting, WINDROW};
use windrow_bench::cells::{Cell, cells};
use windrow_bench::measure::{self, Plan};
use windrow_bench::neighbour::Neighbour;
use windrow_bench::record;
use windrow_bench::stats::geometric_mean;
use windrow_bench::verdict::{Line, Regime, Samples, Verdict, judge};
use windrow_bench::work::Calibration;

/// Loops of all sizes and costs against serial ones and against other runtimes.
#[derive(Parser)]
struct Options {
    /// Cells whose name contains one of these, separated by commas.
    #[arg(long, default_value = "", value_delimiter = ',', hide_default_value = true)]
    cells: Vec<String>,
    /// What goes on around the calls.
    #[arg(long, value_enum, default_value = "warm")]
    regime: Regime,
    /// How often each arm takes its turn in a cell.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Ways to run a cell, beside serial and its control; `peers` means all that are not windrow's.
    #[arg(long, default_value = "windrow", value_delimiter = ',')]
    arms: Vec<String>,
    /// Every other cell, all through one call site of windrow, in shuffled order.
    #[arg(long)]
    shared: bool,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// A cell's lines, one for each arm.
struct Result {
    cell: Cell,
    serial_nanos: f64,
    lines: Vec<Line>,
    verdicts: Vec<Verdict>,
}

fn result(cell: Cell, samples: &[Samples], regime: Regime, threads: usize) -> Result {
    let lines: Vec<Line> = samples.iter().map(|arm| Line::new(arm, &samples[0])).collect();
    let (serial_nanos, control) = (lines[0].nanos, lines[1].ratio);
    let bound = cell.bound(threads);
    let verdicts = lines.iter().map(|line| judge(line, regime, serial_nanos, control, bound)).collect();
    Result { cell, serial_nanos, lines, verdicts }
}

fn print(result: &Result, names: &[String], bound: f64) {
    println!("{}  serial {:.2} us, bound {bound:.2}", result.cell.name, result.serial_nanos / 1e3);
    for ((name, line), verdict) in names.iter().zip(&result.lines).zip(&result.verdicts).skip(1) {
        println!(
            "  {name:<22} {:>10.2} us  x{:.3} [{:.3} {:.3}] ({:.2}..{:.2})  p90 x{:.2}  cpu x{:.2}  rest {:>5.1} us  {verdict}",
            line.nanos / 1e3,
            line.ratio,
            line.interval.0,
            line.interval.1,
            line.spread.0,
            line.spread.1,
            line.p90,
            line.cpu,
            line.cpu_at_rest / 1e3,
        );
    }
}

/// The names of the arms to run, serial and its control first.
fn arm_names(asked: &[String]) -> Vec<String> {
    let mut names = vec![SERIAL.to_owned(), CONTROL.to_owned()];
    for name in asked {
        if name == "peers" { names.extend(arms::peers().map(str::to_owned)) } else { names.push(name.clone()) }
    }
    names
}

/// The best that any peer, or serial, reached in a cell.
fn best_other(result: &Result, names: &[String]) -> f64 {
    let others = names.iter().zip(&result.lines).filter(|(name, _)| !is_control(name) && !is_windrow(name));
    others.map(|(_, line)| line.ratio).fold(f64::INFINITY, f64::min)
}

/// Serial again, here or in another compiler's words.
fn is_control(name: &str) -> bool {
    name == CONTROL || name.ends_with("-serial")
}

fn is_windrow(name: &str) -> bool {
    WINDROW.contains(&name)
}

/// One line for each arm: losses, worst cell, geometric means.
fn summary(results: &[Result], names: &[String]) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate().skip(1) {
        let broken = |rule: fn(&Verdict) -> bool| results.iter().filter(|result| rule(&result.verdicts[at])).count();
        let worst = results.iter().max_by(|a, b| a.lines[at].ratio.total_cmp(&b.lines[at].ratio)).expect("a cell");
        let geomean = geometric_mean(results.iter().map(|result| result.lines[at].ratio));
        let cpu = geometric_mean(results.iter().map(|result| result.lines[at].cpu));
        let _ = write!(
            text,
            "{name:<22} loses {:>2}, p90 {:>2}, cpu {:>2} of {}; worst x{:.2} ({}); geomean x{geomean:.3}, cpu x{cpu:.2}",
            broken(|it| it.loses),
            broken(|it| it.p90),
            broken(|it| it.cpu),
            results.len(),
            worst.lines[at].ratio,
            worst.cell.name,
        );
        if is_windrow(name) {
            let against: Vec<f64> =
                results.iter().map(|result| result.lines[at].ratio / best_other(result, names)).collect();
            let worst = against.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("a cell");
            let _ = write!(
                text,
                "; vs best geomean x{:.3}, worst x{:.2} ({})",
                geometric_mean(against.iter().copied()),
                worst.1,
                results[worst.0].cell.name
            );
        }
        text.push('\n');
    }
    text
}

fn record_line(result: &Result, name: &str, samples: &Samples, at: usize) -> String {
    let Line { nanos, ratio, interval, spread, p90, cpu, cpu_at_rest } = &result.lines[at];
    let times: Vec<String> = samples.times.iter().map(|nanos| format!("{nanos:.1}")).collect();
    format!(
        "{},{name},{nanos:.1},{ratio:.4},{:.4},{:.4},{:.4},{:.4},{p90:.3},{cpu:.3},{cpu_at_rest:.0},{},{}",
        result.cell.name,
        interval.0,
        interval.1,
        spread.0,
        spread.1,
        result.verdicts[at],
        times.join(" ")
    )
}

const COLUMNS: &str = "cell,arm,median_ns,ratio,low95,high95,ratio_p10,ratio_p90,p90_by_serial,cpu_by_serial,rest_cpu_ns,\
                       verdict,ns_of_each_repetition";

fn main() -> ExitCode {
    if Neighbour::is_this_process() {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = if options.regime == Regime::Oversubscribed { 2 * cpus } else { cpus };
    let setting = Setting { threads, shared: options.shared };
    let mut programs = Programs::default();
    let (mut arms, mut missing): (Vec<Box<dyn Arm>>, Vec<String>) = Default::default();
    for name in &arm_names(&options.arms) {
        if !arms::is_known(name) {
            eprintln!("error: no arm is called {name}");
            return ExitCode::from(2);
        }
        match arms::arm(name, setting, &mut programs) {
            Ok(arm) => arms.push(arm),
            Err(error) => missing.push(format!("without {name}: {error}")),
        }
    }
    missing.iter().for_each(|missing| eprintln!("note: {missing}"));
    let names: Vec<String> = arms.iter().map(|arm| arm.name().to_owned()).collect();
    let calibration = Calibration::measure();
    let chosen: Vec<(usize, Cell)> = cells()
        .into_iter()
        .enumerate()
        .filter(|(index, cell)| {
            options.cells.iter().any(|part| cell.name.contains(part)) && (!options.shared || index % 2 == 0)
        })
        .collect();
    if chosen.is_empty() {
        eprintln!("error: no cell has such a name");
        return ExitCode::from(2);
    }
    let load = |(index, cell): &(usize, Cell)| Rc::new(Loaded::new(*index, cell.items(&calibration)));
    let plan = Plan { regime: options.regime, repetitions: options.repetitions.into() };
    let _neighbour = (options.regime == Regime::Busy).then(Neighbour::start);
    println!("{}, {threads} threads, {:?}, {} repetitions", record::machine(), plan.regime, plan.repetitions);

    let mut measured: Vec<(Cell, Vec<Samples>)> = Vec::new();
    if options.shared {
        let loaded: Vec<Rc<Loaded>> = chosen.iter().map(load).collect();
        let samples = measure::shared(&mut arms, &loaded, plan);
        measured.extend(chosen.into_iter().map(|(_, cell)| cell).zip(samples));
    } else {
        for (index, cell) in chosen {
            let samples = measure::cell(&mut arms, &load(&(index, cell.clone())), plan);
            print(&result(cell.clone(), &samples, plan.regime, cpus), &names, cell.bound(cpus));
            measured.push((cell, samples));
        }
    }
    let results: Vec<Result> =
        measured.iter().map(|(cell, samples)| result(cell.clone(), samples, plan.regime, cpus)).collect();
    if options.shared {
        results.iter().for_each(|result| print(result, &names, result.cell.bound(cpus)));
    }
    let summary = summary(&results, &names);
    print!("{summary}");
    if options.record {
        let lines: Vec<String> = results
            .iter()
            .zip(&measured)
            .flat_map(|(result, (_, samples))| {
                names.iter().enumerate().map(|(at, name)| record_line(result, name, &samples[at], at))
            })
            .collect();
        let regime = format!("{:?}", plan.regime).to_lowercase();
        let name = format!("cells-{regime}{}", if options.shared { "-shared" } else { "" });
        let mut notes = record::versions();
        notes.extend(programs.versions());
        notes.extend(missing);
        notes.extend(summary.lines().map(str::to_owned));
        let written =
            record::write_lines(Path::new("bench/record"), &name, &record::command("cells"), &notes, COLUMNS, &lines);
        println!("{}", written.expect("the record can be written").display());
    }
    if results.iter().flat_map(|result| &result.verdicts).any(|verdict| verdict.impossible) {
        eprintln!("error: a loop was faster than all threads together can be: something else was measured");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

//! Two builds of one program, run in turn: what a change cost.
//! `cargo run --release -p windrow-bench --bin before_after -- --before OLD/target/release cells --regime warm`
//!
//! A turn runs the build before the change, the build after it, and the build before it once more as a control; every other turn in
//! reverse order. In each output a cell's time is divided by that of the plain code beside it (`bench/harm.txt` says which). So a
//! slow minute of the machine counts on both sides. A cell's ratio is the median after the change divided by the median before it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use windrow_bench::measure::in_turn;
use windrow_bench::record;
use windrow_bench::stats::{geometric_mean, median};
use windrow_records::{Comparison, Record};

/// Two builds of one program, run in turn: what a change cost.
#[derive(Parser)]
struct Options {
    /// The folder of the programs as they were.
    #[arg(long)]
    before: PathBuf,
    /// The folder of the programs as they are [default: that of this program].
    #[arg(long)]
    after: Option<PathBuf>,
    /// Turns of a run.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    turns: u8,
    /// Runs; a cell counts as slower if it is in every run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
    /// The program and its options, without --record.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

/// A cell that is slower by more than this in every run is a fault,
const SLOWER: f64 = 1.10;
/// and so is a program whose cells are slower on average by more than this.
const SLOWER_ON_AVERAGE: f64 = 1.02;

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

/// The times of cells, by the plain code beside them.
type Cells = BTreeMap<String, f64>;

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let after = options.after.clone().or_else(|| own.parent().map(Path::to_owned)).ok_or("no folder of programs")?;
    let name = &options.program[0];
    let program = |folder: &Path| {
        let path = folder.join(name);
        path.canonicalize().map_err(|error| format!("{}: {error}\n  hint: build both with --release", path.display()))
    };
    let (before, after) = (program(&options.before)?, program(&after)?);
    // The last one is the control.
    let builds = [&before, &after, &before];
    let mut runs: Vec<[BTreeMap<String, Vec<f64>>; 3]> = Vec::new();
    for number in 1..=options.runs {
        let mut run: [BTreeMap<String, Vec<f64>>; 3] = Default::default();
        for turn in 0..options.turns {
            for at in in_turn(builds.len(), turn.into()) {
                for (cell, time) in measure(builds[at], &options.program[1..])? {
                    run[at].entry(cell).or_default().push(time);
                }
            }
            eprintln!("run {number}, turn {} of {}", turn + 1, options.turns);
        }
        runs.push(run);
    }
    report(options, &runs)
}

/// Runs a program with `--record` into a folder, and reads the folder.
fn measure(program: &Path, arguments: &[String]) -> Result<Cells, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder for records: {error}"))?;
    // The code of both builds is given by their folders, whatever is committed here.
    let status = Command::new(program)
        .args(arguments)
        .arg("--record")
        .env(record::FOLDER, folder.path())
        .env(record::ALLOW_DIRTY, "1")
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let records = Record::load_all(folder.path()).map_err(|error| format!("{error:#}"))?;
    let mut cells = Cells::new();
    for record in &records {
        cells.extend(cells_of(record, COMPARISONS)?);
    }
    if cells.is_empty() {
        return Err(format!("{} wrote no record that bench/harm.txt knows ({status})", program.display()));
    }
    Ok(cells)
}

/// The lines of `bench/harm.txt`, and the barriers, which stand in for no plain code: beside a barrier of two counters.
const COMPARISONS: &str = concat!(
    include_str!("../../../../bench/harm.txt"),
    "barriers | barriers-* | every_round_shown | windrow-barrier; windrow-round; windrow-moldable | spin | ns_of_each_repetition\n"
);

/// The cells of windrow's arms in a record.
fn cells_of(record: &Record, comparisons: &str) -> Result<Cells, String> {
    let mut cells = Cells::new();
    let comparisons = Comparison::parse_all(comparisons).map_err(|error| error.to_string())?;
    for (_, comparison) in comparisons.iter().filter(|it| it.1.is_of(&record.name)) {
        let found = comparison.cells(record).map_err(|error| format!("{}: {error}", record.name))?;
        cells.extend(
            found
                .into_iter()
                .filter(|it| !it.plain.is_empty())
                .map(|it| (format!("{} {} {}", record.name, it.cell, it.arm), median(&it.own) / median(&it.plain))),
        );
    }
    Ok(cells)
}

fn report(options: &Options, runs: &[[BTreeMap<String, Vec<f64>>; 3]]) -> Result<(), String> {
    let ratio = |run: &[BTreeMap<String, Vec<f64>>; 3], at: usize, cell: &str| {
        Some(median(run[at].get(cell)?) / median(run[0].get(cell)?))
    };
    let mut names: Vec<&String> = runs.iter().flat_map(|run| run[0].keys()).collect();
    names.sort();
    names.dedup();
    let (mut lines, mut slower) = (Vec::new(), Vec::new());
    for cell in names {
        let of = |at| runs.iter().filter_map(|run| ratio(run, at, cell)).collect::<Vec<f64>>();
        let (after, control) = (of(1), of(2));
        let best = after.iter().copied().fold(f64::INFINITY, f64::min);
        if after.len() == runs.len() && best > SLOWER {
            slower.push(format!("{cell} x{best:.2}"));
        }
        let shown = |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.3}")).collect::<Vec<_>>().join(" ");
        println!("{cell:<60} after {}  control {}", shown(&after), shown(&control));
        for (run, (after, control)) in after.iter().zip(&control).enumerate() {
            lines.push(format!("\"{cell}\",{},{after:.4},{control:.4}", run + 1));
        }
    }
    let mut summary = Vec::new();
    let mut means = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        let mean = |at: usize| geometric_mean(run[0].keys().filter_map(|cell| ratio(run, at, cell)));
        summary.push(format!(
            "run {}: {} cells, after x{:.3}, control x{:.3}",
            number + 1,
            run[0].len(),
            mean(1),
            mean(2)
        ));
        means.push(mean(1));
    }
    summary.push(format!("slower by more than {:.0} % in every run: {}", 100.0 * (SLOWER - 1.0), slower.len()));
    summary.extend(slower.iter().cloned());
    summary.iter().for_each(|line| println!("{line}"));
    if options.record {
        let name = format!("before-after-{}", options.program.join("-").replace("--", ""));
        let columns = "cell,run,after_by_before,control_by_before";
        let command = record::command("before_after");
        let written = record::write_lines(Path::new("bench/record"), &name, &command, &summary, columns, &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    if !slower.is_empty() || means.iter().all(|mean| *mean > SLOWER_ON_AVERAGE) {
        return Err("the change makes the program slower".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_divided_by_the_fastest_plain_code_beside_it() {
        let lines = "loops | cells-* | cell | windrow | serial; other | ns\n# a comment\n";
        let cells = |name, text| cells_of(&Record::parse(name, text), lines);
        let text = "# head\ncell,arm,ns\na,serial,100 300 200\na,other,400\na,windrow,50 100\n\"b,c\",windrow,7\n";
        let expected = Cells::from([("cells-warm-1 a windrow".to_owned(), 75.0 / 200.0)]);
        assert_eq!(cells("cells-warm-1", text).unwrap(), expected);
        assert!(cells("cells-warm-1", "cell,arm\n").unwrap_err().contains("no column ns"));
        assert!(cells("rounds-warm", text).unwrap().is_empty());
    }

    #[test]
    fn every_line_of_the_table_of_harm_is_read() {
        let lines = COMPARISONS.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
        assert_eq!(Comparison::parse_all(COMPARISONS).expect("six fields").len(), lines);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/record");
        let records = Record::load_all(&root).expect("the records are sound");
        let cells: usize = records.iter().map(|record| cells_of(record, COMPARISONS).expect("times").len()).sum();
        assert!(cells > 400, "{cells}");
    }
}

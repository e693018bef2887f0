//! Many callers, threads and tasks, that insert rows into SQLite one by one: `cargo run --release -p windrow-bench --bin commits -- --help`
#![forbid(unsafe_code)]

mod arms;
mod tasks;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use arms::{Journal, Kind, Outcome, Way};
use clap::Parser;
use windrow_bench::measure::in_turn;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::{median, quantile};

/// Many callers that insert rows into SQLite one by one, each waiting until its row is committed: one transaction per insert, hand-written
/// actors, another batcher, and windrow.
#[derive(Parser)]
struct Options {
    /// Number of callers. One thread alone is measured, too.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..))]
    callers: u16,
    /// The folder of the databases. It should be on a disk, not in memory.
    #[arg(long, default_value = "target/commits")]
    folder: PathBuf,
    /// Turns of each way.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Journal modes.
    #[arg(long, value_delimiter = ',', default_value = "WAL,WAL-NORMAL,DELETE")]
    journals: Vec<Journal>,
    /// Kinds of callers.
    #[arg(long, value_delimiter = ',', default_value = "threads,tasks")]
    kinds: Vec<Kind>,
    #[command(flatten)]
    record: Recording,
}

/// The workers of the tasks' executor.
const WORKERS: usize = 2;
/// The time of a turn.
const TURN: Duration = Duration::from_millis(1000);
/// A turn of one caller. On a virtual machine, a caller that is alone waits a third longer for the disk in some turns than in others. Short
/// turns, and [`MORE`] times as many, even that out.
const SHORT: Duration = Duration::from_millis(50);
const MORE: usize = 10;

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

/// The system's name for the type of a folder's file system.
fn file_system(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let at = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    // Of two mounts at the same place, the later one is visible.
    at.max_by_key(|&(length, _)| length).map_or("unknown", |(_, kind)| kind).to_owned()
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    std::fs::create_dir_all(&options.folder).map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let system = file_system(&options.folder);
    let sqlite = format!("SQLite {}, file system {system}", rusqlite::version());
    println!("{}, {sqlite}, {} repetitions", record::machine(), options.repetitions);
    let repetitions = usize::from(options.repetitions);
    let (lines, bars) = compare(options, repetitions);
    let mut notes = vec![sqlite];
    if system == "tmpfs" || system == "ramfs" {
        notes.push(
            "the databases were in memory, where a commit costs nothing, so these results mean nothing".to_owned(),
        );
    }
    notes.extend(bars);
    notes.iter().skip(1).for_each(|note| println!("  {note}"));
    options.record.write("commits", &notes, COLUMNS, &lines)
}

const COLUMNS: &str =
    "journal,callers,way,rows_per_s,p50_us,p99_us,batch,rows_per_s_of_each_repetition,p50_us_of_each,p99_us_of_each";

/// The turns of one way.
struct Row {
    way: Way,
    turns: Vec<Turn>,
}

struct Turn {
    rows: f64,
    p50: f64,
    p99: f64,
    batch: f64,
}

impl Turn {
    fn of(outcome: &Outcome) -> Self {
        let wait = |share| quantile(&outcome.waits, share) * 1e6;
        Turn { rows: outcome.rows_per_second, p50: wait(0.5), p99: wait(0.99), batch: outcome.batch() }
    }
}

impl Row {
    fn median(&self, of: impl Fn(&Turn) -> f64) -> f64 {
        median(&self.turns.iter().map(of).collect::<Vec<_>>())
    }

    fn each(&self, of: impl Fn(&Turn) -> f64) -> String {
        self.turns.iter().map(|turn| format!("{:.0}", of(turn))).collect::<Vec<_>>().join(" ")
    }
}

fn measure(ways: &[Way], turns: usize, mut section: impl FnMut(Way) -> Outcome) -> Vec<Row> {
    let mut rows: Vec<Row> = ways.iter().map(|&way| Row { way, turns: Vec::new() }).collect();
    for turn in 0..turns {
        for at in in_turn(rows.len(), turn) {
            let outcome = section(rows[at].way);
            rows[at].turns.push(Turn::of(&outcome));
        }
    }
    rows
}

fn compare(options: &Options, repetitions: usize) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut bars) = (Vec::new(), Vec::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().expect("a runtime");
    let (folder, many) = (&options.folder, usize::from(options.callers));
    for &journal in &options.journals {
        for &kind in &options.kinds {
            let ways = Way::all(kind);
            let (label, mut groups) = match kind {
                Kind::Threads => {
                    let all = measure(ways, repetitions, |way| arms::section(way, folder, journal, many, TURN));
                    let alone: Vec<Way> = ways.iter().copied().filter(|way| *way != Way::Window).collect();
                    let alone =
                        measure(&alone, repetitions * MORE, |way| arms::section(way, folder, journal, 1, SHORT));
                    (journal.name().to_owned(), vec![(many, all), (1, alone)])
                }
                Kind::Tasks => {
                    let section = |way| tasks::section(way, folder, journal, many, TURN, &runtime);
                    (format!("{}, tasks", journal.name()), vec![(many, measure(ways, repetitions, section))])
                }
            };
            for (callers, rows) in &groups {
                print(&label, *callers, rows);
                lines.extend(rows.iter().map(|row| line(&label, *callers, row)));
            }
            let all = groups.remove(0).1;
            let alone = groups.pop().map_or(Vec::new(), |(_, rows)| rows);
            for way in [Way::Windrow, Way::WindrowCallers] {
                bars.extend(judge(journal, &label, way, &all, &alone));
            }
        }
    }
    (lines, bars)
}

fn print(label: &str, callers: usize, rows: &[Row]) {
    println!("{label}, {callers} callers: rows/s, p50 and p99 in us, rows per transaction");
    for row in rows {
        let (rate, p50, p99) = (row.median(|it| it.rows), row.median(|it| it.p50), row.median(|it| it.p99));
        let (name, batch) = (row.way.name(), row.median(|it| it.batch));
        println!("  {name:<26} {rate:>9.0} {p50:>9.0} {p99:>9.0} {batch:>6.1}   {}", row.each(|it| it.rows));
    }
}

fn line(label: &str, callers: usize, row: &Row) -> String {
    let (rate, p50, p99) = (row.median(|it| it.rows), row.median(|it| it.p50), row.median(|it| it.p99));
    let (name, batch) = (row.way.name(), row.median(|it| it.batch));
    let (rates, p50s, p99s) = (row.each(|it| it.rows), row.each(|it| it.p50), row.each(|it| it.p99));
    format!("\"{label}\",{callers},\"{name}\",{rate:.0},{p50:.1},{p99:.1},{batch:.2},{rates},{p50s},{p99s}")
}

/// The bars of windrow, and whether they are met: medians of the ratios of turns that followed each other.
fn judge(journal: Journal, label: &str, way: Way, all: &[Row], alone: &[Row]) -> Vec<String> {
    let find = |rows: &'_ [Row], way: Way| rows.iter().position(|row| row.way == way);
    let ratio = |rows: &[Row], to: Way, of: fn(&Turn) -> f64| {
        let (Some(mine), Some(theirs)) = (find(rows, way), find(rows, to)) else { return f64::NAN };
        let pairs = rows[mine].turns.iter().zip(&rows[theirs].turns);
        median(&pairs.map(|(mine, theirs)| of(mine) / of(theirs)).collect::<Vec<_>>())
    };
    let rows: fn(&Turn) -> f64 = |it| it.rows;
    let p50: fn(&Turn) -> f64 = |it| it.p50;
    let p99: fn(&Turn) -> f64 = |it| it.p99;
    let at_least = |what: &str, ratio: f64, bar: f64| (what.to_owned(), ratio, bar, ratio >= bar, ">=");
    let at_most = |what: &str, ratio: f64, bar: f64| (what.to_owned(), ratio, bar, ratio <= bar, "<=");
    let mut bars = Vec::new();
    // Where a commit does not sync, a transaction an insert costs little.
    if let Some(gain) = match journal {
        Journal::Wal => Some(10.0),
        Journal::Delete => Some(20.0),
        Journal::WalNormal => None,
    } {
        bars.push(at_least("rows/s of one transaction an insert", ratio(all, Way::Mutex, rows), gain));
        bars.push(at_most("its p99", ratio(all, Way::Mutex, p99), 0.1));
    }
    bars.extend([
        at_least("rows/s of the hand-written actor", ratio(all, Way::Actor, rows), 0.95),
        at_least("rows/s of batch-aint-one", ratio(all, Way::BatchAintOne, rows), 0.95),
        at_least("rows/s of a 5 ms window", ratio(all, Way::Window, rows), 8.0),
        at_most("its p50", ratio(all, Way::Window, p50), 0.1),
        at_least("rows/s of plain rusqlite, one caller", ratio(alone, Way::Mutex, rows), 0.95),
    ]);
    let bars = bars.into_iter().filter(|(_, ratio, ..)| !ratio.is_nan());
    bars.map(|(what, ratio, bar, is_met, sign)| {
        let met = if is_met { "met" } else { "missed" };
        format!("{label}, {}: x{ratio:.3} {what}, bar {sign} {bar} {met}", way.name())
    })
    .collect()
}

//! Counts the locked instructions of a parallel call, the mechanism behind its time: `cargo run --release -p windrow-bench --bin locks`.
//!
//! # What is counted
//! *Locked instructions* are the atomic read-modify-writes of x86-64 (`lock cmpxchg`, `lock xadd`, `xchg` with memory, ...). Those of all
//! threads of the process count, including the system's libraries and without the kernel. Failed compare-exchanges count as well, and so do
//! those of idle workers between two calls. Loads, stores and fences do not. The CPU counts them when they retire (AMD event 0x25; Intel
//! event 0xd0, mask 0x21). So nothing is slowed down or inserted, and calls decide by their usual times. First the counter has to count
//! loops with a known number of atomics exactly, with and without unpredictable branches. Otherwise the program prints why it counts
//! nothing.
//!
//! *Contended* are the locked instructions that an AMD CPU could not execute ahead of time. A loop on one thread has none; with two
//! threads that fight for a line, about half are contended. *Switches* are how often the kernel took a thread off its CPU. They are
//! the price of sleeping and waking, and of other programs on the machine; the serial column shows the latter.
//!
//! # How
//! Each runtime is measured in a separate process, with a thread for every CPU. The runtimes are windrow, rayon called from a
//! thread outside of its pool (as by a library), and rayon called from inside. Each of them also runs with the `with_min_len` that
//! tokenizers pull request 2077 adds. The work maps a slice through a function that is never inlined, of about 10 ns and 1 us an
//! item. The output is compared with the serial result. A cell is the median of five repetitions. Each has as many calls as take 50
//! ms, at least one, after the same number of uncounted calls.
//!
//! # Shares of time
//! `perf record` (if it is installed) samples the same processes by the clock. A sample is in the items, in the kernel, in a locked
//! instruction, or in the rest of the user code: scheduling, and loops around items. (A sample directly behind a locked instruction
//! counts as in it, because a waiting CPU shows up there.) A run of two threads that only fight for a line shows how many such
//! samples are found. The figures of the pull request are such shares: 4.97 % of the time in aarch64 atomics at 88 threads, 0.91 %
//! with the pull request.
//!
//! The record goes to `bench/record/<machine>/<date>-locks.csv`.
#![forbid(unsafe_code)]

mod arms;
mod counter;
mod sample;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::Duration;

use arms::{Arm, Cell};
use windrow_bench::record;

const REPETITIONS: usize = 5;

/// The counts of one repetition of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) locked: u64,
    pub(crate) contended: Option<u64>,
    pub(crate) switches: u64,
    pub(crate) nanos: u64,
}

impl Counted {
    /// The line that a child prints and the record holds.
    fn line(&self) -> String {
        let contended = self.contended.map(|it| it.to_string()).unwrap_or_default();
        format!("{},{},{contended},{},{}", self.calls, self.locked, self.switches, self.nanos)
    }

    fn parse(line: &str) -> Option<Counted> {
        let mut fields = line.split(',');
        let mut next = || fields.next();
        let calls = next()?.parse().ok()?;
        let locked = next()?.parse().ok()?;
        let contended = Some(next()?).filter(|text| !text.is_empty()).map(str::parse).transpose().ok()?;
        let switches = next()?.parse().ok()?;
        let nanos = next()?.parse().ok()?;
        Some(Counted { calls, locked, contended, switches, nanos })
    }
}

/// The repetitions of all cells, arm by arm.
type Counts = [(Arm, Vec<Vec<Counted>>)];

/// Median over repetitions of a count per call.
fn median(counted: &[Counted], of: impl Fn(&Counted) -> u64) -> f64 {
    let mut all: Vec<f64> = counted.iter().map(|it| of(it) as f64 / it.calls as f64).collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Three significant digits, or one below a thousandth.
fn short(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if number < 0.001 {
        return format!("{number:.0e}");
    }
    let digits = (2.0 - number.log10().floor()).max(0.0) as usize;
    format!("{number:.digits$}")
}

/// Runs this program again for one arm. Returns its lines.
fn child(arguments: &[&str]) -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{arguments:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// In a child process: counts all cells of one arm.
fn count(arm: Arm) -> Result<(), String> {
    let mut counters = counter::Counters::new()?;
    arm.inside(|| {
        for cell in Cell::all() {
            for counted in arms::repeat(arm, cell, &mut counters, REPETITIONS)? {
                println!("{}", counted.line());
            }
        }
        Ok(())
    })
}

/// Counts of all arms, cell by cell.
fn counts() -> Result<Box<Counts>, String> {
    let mut all = Vec::new();
    for arm in Arm::ALL {
        eprintln!("counting {} ...", arm.name());
        let lines = child(&["count", arm.name()])?;
        let counted: Option<Vec<Counted>> = lines.iter().map(|line| Counted::parse(line)).collect();
        let counted = counted.ok_or_else(|| format!("{} printed what is no count", arm.name()))?;
        all.push((arm, counted.chunks(REPETITIONS).map(<[_]>::to_vec).collect()));
    }
    Ok(all.into())
}

/// A table of a count per call, or per item with `items`.
fn table(title: &str, all: &Counts, of: impl Fn(&Counted) -> Option<u64>, items: bool) {
    println!("\n{title}\n\n| call | {} |", all.iter().map(|(arm, _)| arm.name()).collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---|".repeat(all.len()));
    for (at, cell) in Cell::all().enumerate() {
        print!("| {cell} |");
        for (_, cells) in all {
            let counted = &cells[at];
            if counted.iter().any(|it| of(it).is_none()) {
                print!(" - |");
                continue;
            }
            let call = median(counted, |it| of(it).unwrap_or(0));
            match items {
                true => print!(" {} ({}) |", short(call), short(call / cell.items as f64)),
                false => print!(" {} |", short(call)),
            }
        }
        println!();
    }
}

fn report(all: &Counts) -> Result<(), String> {
    table("Locked instructions per call (per item):", all, |it| Some(it.locked), true);
    table("Of these contended, per call:", all, |it| it.contended, false);
    table("Switches per call:", all, |it| Some(it.switches), false);
    table("Nanoseconds per call:", all, |it| Some(it.nanos), false);
    let mut lines = Vec::new();
    for (arm, cells) in all {
        for (cell, counted) in Cell::all().zip(cells) {
            for (repetition, it) in counted.iter().enumerate() {
                let Cell { operation, turns, items } = cell;
                lines.push(format!("{},{},{turns},{items},{repetition},{}", arm.name(), operation.name(), it.line()));
            }
        }
    }
    let command = "cargo run --release -p windrow-bench --bin locks";
    let notes = ["turns are about 0.8 ns of an item; counts are sums over the calls of a repetition".to_owned()];
    let columns = "arm,operation,turns,items,repetition,calls,locked,contended,switches,nanoseconds";
    let path = record::write_lines(Path::new("bench/record"), "locks", command, &notes, columns, &lines)
        .map_err(|error| error.to_string())?;
    println!("\n{}", path.display());
    Ok(())
}

fn shares() -> Result<(), String> {
    println!("\nShares of samples in percent, `collect` called again and again:\n");
    println!(
        "| call | arm | samples | items | locked instructions | rest of user code | kernel |\n|---|---|---|---|---|---|---|"
    );
    let fight = sample::record(&["fight", "1000"])?;
    println!("| two threads on a line | - | {fight} |");
    for cell in Cell::sampled() {
        for arm in Arm::ALL {
            let (turns, items) = (cell.turns.to_string(), cell.items.to_string());
            let shares = sample::record(&["spin", arm.name(), &turns, &items, "1500"])?;
            println!("| {cell} | {} | {shares} |", arm.name());
        }
    }
    Ok(())
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn run(arguments: &[&str]) -> Result<(), String> {
    match *arguments {
        [] => {
            record::allowed(true)?;
            match counts() {
                Ok(all) => report(&all)?,
                Err(why) => println!("skipped: locked instructions are not counted here: {why}"),
            }
            if let Err(why) = shares() {
                println!("skipped: no shares of time: {why}");
            }
            println!(
                "\nThe source document (tokenizers pull request 2077, aarch64, 88 threads): 4.97 % of the time in atomics, 0.91 % with it."
            );
            Ok(())
        }
        ["count", arm] => count(Arm::named(arm)?),
        ["spin", arm, turns, items, time] => {
            sample::announce()?;
            let arm = Arm::named(arm)?;
            arm.inside(|| arms::spin(arm, number(turns)?, number(items)?, Duration::from_millis(number(time)?)))
        }
        ["fight", time] => {
            sample::announce()?;
            arms::fight(Duration::from_millis(number(time)?));
            Ok(())
        }
        _ => Err("usage: locks (without arguments)".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_prints_is_what_the_parent_reads() {
        let counted = Counted { calls: 3, locked: 30, contended: Some(2), switches: 1, nanos: 99 };
        for it in [counted, Counted { contended: None, ..counted }] {
            assert_eq!(Counted::parse(&it.line()), Some(it));
        }
        assert_eq!(Counted::parse("1,2,x,4,5"), None);
        assert_eq!(median(&[counted, Counted { locked: 60, ..counted }, counted], |it| it.locked), 10.0);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.0, 0.000_123_4, 0.012_34, 1.5, 12.34, 123.4, 123_456.0].map(short);
        assert_eq!(shown, ["0", "1e-4", "0.0123", "1.50", "12.3", "123", "123456"]);
    }
}

//! Compares allocators by speed, memory and size of a program that encodes one batch again and again: once with mimalloc, and once with the
//! system's.
//!
//! ```text
//! cargo build --release -p windrow-bench --bin allocator --target-dir target/system
//! cargo run --release -p windrow-bench --features mimalloc --bin allocator -- TEXT target/system/release/allocator --record
//! ```
//!
//! TEXT is cut into documents of 6.5 KB, which are the batch. Each measured process loads the vocabulary of gpt2, encodes the batch 50
//! times and keeps the ids of the last run, on one thread or two. After runs 1, 5 and 50 it reports the time since it began to encode, and
//! VmRSS and VmPeak from `/proc/self/status`. Both programs take turns. With a text of 6.5 MB a process takes some 2 s, and a repetition
//! has 4 processes.
#![forbid(unsafe_code)]

// Sets the allocator of the process.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::Parser;
use windrow::Pool;
use windrow::prelude::*;
use windrow_bench::record;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const DOCUMENT: usize = 6500;
/// Runs of the batch after which a process reports.
const MARKS: [u32; 3] = [1, 5, 50];
const THREADS: [usize; 2] = [1, 2];
const COLUMNS: &str = "arm,threads,repetition,runs,nanoseconds,vm_rss_kib,vm_peak_kib,program_bytes";

/// Compares allocators.
#[derive(Parser)]
struct Options {
    /// A UTF-8 text.
    text: PathBuf,
    /// This program, built without default features.
    #[arg(required_unless_present = "threads")]
    system: Option<PathBuf>,
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Write a record.
    #[arg(long)]
    record: bool,
    /// Be the measured process, with this many threads.
    #[arg(long, hide = true)]
    threads: Option<usize>,
}

/// A process's report at a mark.
#[derive(Clone, Copy, Debug)]
struct Report {
    runs: u32,
    nanoseconds: u64,
    rss: u64,
    peak: u64,
}

impl Report {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(',').map(|field| field.parse::<u64>().ok());
        let mut next = || fields.next().flatten();
        Some(Self { runs: u32::try_from(next()?).ok()?, nanoseconds: next()?, rss: next()?, peak: next()? })
    }
}

/// A process: its program, and its reports.
struct Process {
    arm: &'static str,
    threads: usize,
    repetition: usize,
    bytes: u64,
    reports: Vec<Report>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match options.threads {
        Some(threads) => {
            measure(&options.text, threads);
            ExitCode::SUCCESS
        }
        None => match compare(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// A number of `/proc/self/status`, in KiB.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn documents(mut text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    while !text.is_empty() {
        let end = (DOCUMENT.min(text.len())..).find(|&at| text.is_char_boundary(at)).expect("the end is a boundary");
        let (document, rest) = text.split_at(end);
        documents.push(document);
        text = rest;
    }
    documents
}

/// Encodes the batch and reports on stdout.
fn measure(text: &Path, threads: usize) {
    let text = std::fs::read_to_string(text).expect("TEXT is a UTF-8 file");
    let documents = documents(&text);
    let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).expect("an embedded vocabulary");
    let encoders = std::sync::Mutex::new(Vec::new());
    let encode = |document: &&str| {
        let kept = encoders.lock().expect("no panic").pop();
        let mut encoder = kept.unwrap_or_else(|| tokenizer.engine().encoder());
        let mut ids = Vec::new();
        encoder.encode(document, &mut ids).expect("the engine encodes text");
        encoders.lock().expect("no panic").push(encoder);
        ids
    };
    Pool::new(threads).install(|| {
        let begin = Instant::now();
        let mut batch: Vec<Vec<u32>> = Vec::new();
        for run in 1..=MARKS[MARKS.len() - 1] {
            // The ids of the run before are freed only now: both exist at the same time, as with results in use.
            batch = documents.par_iter().weigh(|document| document.len()).map(encode).collect();
            if MARKS.contains(&run) {
                let nanoseconds = begin.elapsed().as_nanos();
                println!("{run},{nanoseconds},{},{}", status("VmRSS"), status("VmPeak"));
            }
        }
        assert!(batch.iter().all(|ids| !ids.is_empty()));
    });
}

fn compare(options: &Options) -> Result<(), String> {
    if cfg!(not(feature = "mimalloc")) {
        return Err("this program has the system's allocator: build it with the feature mimalloc, and give this one as the other".to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let system = options.system.as_deref().expect("clap asks for it");
    let arms = [("mimalloc", own.as_path()), ("system", system)];
    let mut processes = Vec::new();
    for repetition in 0..options.repetitions {
        for threads in THREADS {
            let mut turn = arms;
            turn.rotate_left(repetition % arms.len());
            for (arm, program) in turn {
                processes.push(run(arm, program, &options.text, threads, repetition)?);
            }
        }
    }
    let text_bytes = std::fs::metadata(&options.text).map_err(|error| error.to_string())?.len();
    println!("{}, {text_bytes} bytes of text, median of {} repetitions", record::machine(), options.repetitions);
    let (table, verdicts) = summarize(&processes, text_bytes);
    print!("{table}");
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    if options.record {
        let lines: Vec<String> = processes.iter().flat_map(lines_of).collect();
        let notes =
            [vec![format!("text bytes of a run: {text_bytes}"), "vocabulary: gpt2".to_owned()], verdicts].concat();
        let root = Path::new("bench/record");
        let written =
            record::write_lines(root, "allocator-runs", &record::command("allocator"), &notes, COLUMNS, &lines);
        println!("{}", written.map_err(|error| error.to_string())?.display());
    }
    Ok(())
}

fn run(arm: &'static str, program: &Path, text: &Path, threads: usize, repetition: usize) -> Result<Process, String> {
    let shown = program.display();
    let bytes = std::fs::metadata(program).map_err(|error| format!("{shown}: {error}"))?.len();
    let output = Command::new(program).arg(text).args(["--threads", &threads.to_string()]).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let reports: Vec<Report> = text.lines().filter_map(Report::parse).collect();
    if !output.status.success() || reports.len() != MARKS.len() {
        return Err(format!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Process { arm, threads, repetition, bytes, reports })
}

fn lines_of(process: &Process) -> Vec<String> {
    let Process { arm, threads, repetition, bytes, ref reports } = *process;
    let line = |report: &Report| {
        let Report { runs, nanoseconds, rss, peak } = report;
        format!("{arm},{threads},{repetition},{runs},{nanoseconds},{rss},{peak},{bytes}")
    };
    reports.iter().map(line).collect()
}

/// Medians over the repetitions of one arm at one mark: MB/s, VmRSS and VmPeak in MiB.
fn medians(processes: &[Process], arm: &str, threads: usize, mark: usize, text_bytes: u64) -> [f64; 3] {
    let chosen = processes.iter().filter(|process| process.arm == arm && process.threads == threads);
    let reports: Vec<Report> = chosen.map(|process| process.reports[mark]).collect();
    let median = |value: &dyn Fn(&Report) -> f64| {
        let mut values: Vec<f64> = reports.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    [
        median(&|report| (text_bytes * u64::from(report.runs)) as f64 * 1e3 / report.nanoseconds as f64),
        median(&|report| report.rss as f64 / 1024.0),
        median(&|report| report.peak as f64 / 1024.0),
    ]
}

/// The table and its verdicts.
fn summarize(processes: &[Process], text_bytes: u64) -> (String, Vec<String>) {
    let mut table =
        String::from("threads runs | MB/s mimalloc system | VmRSS MiB mimalloc system | VmPeak MiB mimalloc system\n");
    let mut verdicts = Vec::new();
    for threads in THREADS {
        for (mark, runs) in MARKS.into_iter().enumerate() {
            let [with, without] = ["mimalloc", "system"].map(|arm| medians(processes, arm, threads, mark, text_bytes));
            let pair = |at: usize| format!("{:8.1} {:8.1}", with[at], without[at]);
            writeln!(table, "{threads:7} {runs:4} | {} | {} | {}", pair(0), pair(1), pair(2)).expect("memory");
            let ratio = |at: usize| with[at] / without[at];
            verdicts.push(format!(
                "verdict: {threads} threads, after {runs} runs: {:.2} times the throughput, {:.2} times VmRSS, {:.2} times VmPeak",
                ratio(0),
                ratio(1),
                ratio(2)
            ));
        }
    }
    let bytes = |arm: &str| processes.iter().find(|process| process.arm == arm).map_or(0, |process| process.bytes);
    verdicts.push(format!("verdict: program {} bytes with mimalloc, {} without", bytes("mimalloc"), bytes("system")));
    (table, verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_they_are_written() {
        let report = Report::parse("5,1200,340,560").unwrap();
        assert_eq!((report.runs, report.nanoseconds, report.rss, report.peak), (5, 1200, 340, 560));
        assert!(Report::parse("5,1200,340").is_none());
        assert!(Report::parse("five,1200,340,560").is_none());
    }

    #[test]
    fn medians_and_ratios_make_verdicts() {
        let process = |arm, threads, repetition, nanoseconds| Process {
            arm,
            threads,
            repetition,
            bytes: 7,
            reports: MARKS
                .map(|runs| Report { runs, nanoseconds: nanoseconds * u64::from(runs), rss: 1024, peak: 2048 })
                .to_vec(),
        };
        let all: Vec<Process> = THREADS
            .into_iter()
            .flat_map(|threads| [1000, 1000, 4000].into_iter().enumerate().map(move |(at, time)| (threads, at, time)))
            .flat_map(|(threads, at, time)| {
                [process("mimalloc", threads, at, time), process("system", threads, at, 2 * time)]
            })
            .collect();
        let (table, verdicts) = summarize(&all, 1000);
        assert_eq!(table.lines().count(), 1 + THREADS.len() * MARKS.len());
        assert!(
            verdicts[0].ends_with("2.00 times the throughput, 1.00 times VmRSS, 1.00 times VmPeak"),
            "{verdicts:?}"
        );
        assert_eq!(lines_of(&all[0])[0], "mimalloc,1,0,1,1000,1024,2048,7");
    }
}

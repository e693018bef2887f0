//! Measures what `windrow count` adds to its engine. The command counts a tree of files, and the engine alone gets the same texts from
//! memory. They take turns, both on two threads.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p windrow-bench --bin count -- TEXT target/release/windrow --record
//! ```
//!
//! TEXT is cut into files of 100 bytes to 1.6 MB, which fill a temporary tree of 1 GB. The command starts, walks, reads, counts and prints.
//! The engine is loaded, and its texts are in memory, before its time begins. Both must count the same.
#![forbid(unsafe_code)]

// Uses the allocator of the command.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use windrow_bench::random::Random;
use windrow_bench::stats::median;
use windrow_bench::{Row, record};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const THREADS: usize = 2;
const FILES_PER_FOLDER: usize = 100;
const SMALLEST: usize = 100;
/// The number of doublings from the smallest to the largest file.
const DOUBLINGS: usize = 14;
const ARMS: [&str; 3] = ["command", "engine", "engine again"];

/// Compares `windrow count` with its engine.
#[derive(Parser)]
struct Options {
    /// A UTF-8 text.
    text: PathBuf,
    /// The command.
    windrow: PathBuf,
    /// Bytes of the tree.
    #[arg(long, default_value_t = 1_000_000_000)]
    bytes: usize,
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Write a record.
    #[arg(long)]
    record: bool,
}

fn main() -> ExitCode {
    match compare(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let said = |error: std::io::Error| error.to_string();
    let text = fs::read_to_string(&options.text).map_err(|error| format!("{}: {error}", options.text.display()))?;
    // Each text has separate memory, as if it had been read: slices of one text would stay in the caches.
    let files: Vec<String> = files(&text, options.bytes).into_iter().map(str::to_owned).collect();
    let bytes: usize = files.iter().map(String::len).sum();
    let tree = tempfile::tempdir().map_err(said)?;
    for (at, file) in files.iter().enumerate() {
        let folder = tree.path().join((at / FILES_PER_FOLDER).to_string());
        fs::create_dir_all(&folder).map_err(said)?;
        fs::write(folder.join(format!("{at}.txt")), file).map_err(said)?;
    }
    // Otherwise the system would write the files back during the first turns.
    Command::new("sync").status().map_err(said)?;
    let load = LoadOptions { special_in_text: false, ..LoadOptions::default() };
    let tokenizer = Tokenizer::load("o200k_base", &load).map_err(|error| error.to_string())?;

    let mut times = [const { Vec::new() }; ARMS.len()];
    let mut total = None;
    for repetition in 0..options.repetitions {
        for turn in 0..ARMS.len() {
            let arm = (repetition + turn) % ARMS.len();
            let begin = Instant::now();
            let tokens =
                if arm == 0 { by_command(&options.windrow, tree.path())? } else { by_engine(&tokenizer, &files) };
            times[arm].push(begin.elapsed());
            if *total.get_or_insert(tokens) != tokens {
                return Err(format!("{} counts {tokens} tokens, another arm {total:?}", ARMS[arm]));
            }
        }
    }
    let rate =
        |times: &[Duration]| bytes as f64 / 1e6 / median(&times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>());
    let ratio = |arm: usize| {
        let ratios = times[1].iter().zip(&times[arm]).map(|(engine, arm)| engine.as_secs_f64() / arm.as_secs_f64());
        median(&ratios.collect::<Vec<_>>())
    };
    let verdicts = [
        format!(
            "verdict: {bytes} bytes in {} files, {THREADS} threads: command {:.1} MB/s, engine {:.1} MB/s",
            files.len(),
            rate(&times[0]),
            rate(&times[1])
        ),
        format!("verdict: {:.3} of the engine's rate; the engine beside itself {:.3}", ratio(0), ratio(2)),
    ];
    println!("{}", record::machine());
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    if options.record {
        let rows = ARMS.iter().zip(times).map(|(name, times)| Row {
            name: (*name).to_owned(),
            times,
            ratio: 0.0,
            spread: (0.0, 0.0),
        });
        let rows: Vec<Row> = rows.collect();
        let written = record::write(Path::new("bench/record"), "count", &record::command("count"), &verdicts, &rows);
        println!("{}", written.map_err(said)?.display());
    }
    Ok(())
}

/// Repeated pieces of a text, with equally many in each doubling of size.
fn files(text: &str, bytes: usize) -> Vec<&str> {
    let boundary = |at: usize| (at.min(text.len())..).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let (mut files, mut cut, mut from, mut random) = (Vec::new(), 0, 0, Random::new(1));
    while cut < bytes {
        let size = SMALLEST << random.below(DOUBLINGS);
        let end = boundary(from + size + random.below(size));
        files.push(&text[from..end]);
        cut += end - from;
        from = if end == text.len() { 0 } else { end };
    }
    files
}

/// The total in the last line of the command's output.
fn by_command(windrow: &Path, tree: &Path) -> Result<usize, String> {
    let output = Command::new(windrow).args(["count", "--threads", &THREADS.to_string()]).arg(tree).output();
    let output = output.map_err(|error| format!("{}: {error}", windrow.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let total = printed.lines().last().and_then(|line| line.split_whitespace().next()?.parse().ok());
    total.filter(|_| output.status.success()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Counts files, each on the next free thread; nothing else runs.
fn by_engine(tokenizer: &Tokenizer, files: &[String]) -> usize {
    // Relaxed: a ticket; the threads' ends order the counts.
    let next = AtomicUsize::new(0);
    let member = || {
        let mut encoder = tokenizer.engine().encoder();
        let (mut ids, mut count) = (Vec::new(), 0);
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            ids.clear();
            encoder.encode(file, &mut ids).expect("the engine encodes text");
            count += ids.len();
        }
        count
    };
    std::thread::scope(|scope| {
        let members: Vec<_> = (0..THREADS).map(|_| scope.spawn(member)).collect();
        members.into_iter().map(|member| member.join().expect("no panic")).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_pieces_of_the_text_in_order() {
        let text = "äbc ".repeat(500);
        let files = files(&text, 5 * text.len());
        assert!(files.iter().all(|file| !file.is_empty() && text.contains(file)));
        let all = files.concat();
        assert!(all.len() >= 5 * text.len() && all.starts_with(&text.repeat(5)));
    }
}

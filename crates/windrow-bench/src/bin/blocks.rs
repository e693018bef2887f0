//! Compresses blocks of text with zstd, several at once and written in order: `cargo run --release -p windrow-bench --bin blocks -- --help`
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use windrow::overlap;
use windrow::prelude::*;
use windrow_bench::measure::in_turn;
use windrow_bench::random::Random;
use windrow_bench::record;
use windrow_bench::stats::median;

/// Measures `compute_each` and `par_map_ordered` beside channels of crossbeam, with a thread for each CPU and a writer that restores the order, and
/// beside a loop. All outputs have to be equal.
#[derive(Parser)]
struct Options {
    /// Text, in 10^6 bytes.
    #[arg(long, default_value_t = 100)]
    megabytes: usize,
    /// Size of a block in KiB.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    block_kib: u32,
    /// Blocks that may be under way, in every arm that can be told.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    ahead: u16,
    /// Repetitions.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

const ARMS: [&str; 6] = ["serial", "compute-each", "compute-each again", "map-ordered", "crossbeam", "crossbeam of 2"];

/// Words of a few syllables, some of them repeated: zstd reduces them to about a third.
fn text(len: usize) -> Vec<u8> {
    let syllables = ["wind", "row", "o", "ver", "lap", "ti", "le", " the", " and", " of", "ing", ". ", ", ", "7"];
    let (mut random, mut text) = (Random::new(1), Vec::with_capacity(len + 8));
    while text.len() < len {
        text.extend_from_slice(syllables[random.below(syllables.len())].as_bytes());
    }
    text.truncate(len);
    text
}

thread_local! {
    static COMPRESSOR: RefCell<zstd::bulk::Compressor<'static>> = RefCell::new(zstd::bulk::Compressor::new(3).expect("memory"));
}

/// The blocks of a run, and how many are under way.
struct Run<'a> {
    blocks: Vec<&'a [u8]>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl<'a> Run<'a> {
    fn new(text: &'a [u8], block: usize) -> Self {
        Self { blocks: text.chunks(block).collect(), under_way: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// A block is compressed; its result is under way until it is [written](Self::write).
    fn compress(&self, block: &[u8]) -> Vec<u8> {
        let under_way = 1 + self.under_way.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(under_way, Ordering::Relaxed);
        COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(block).expect("memory"))
    }

    fn write(&self, written: &mut Vec<u8>, block: &[u8]) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        written.extend_from_slice(block);
    }

    fn by(&self, arm: &str, ahead: usize) -> Vec<u8> {
        let mut written = Vec::new();
        match arm {
            "serial" => {
                for block in &self.blocks {
                    let block = self.compress(block);
                    self.write(&mut written, &block);
                }
            }
            "map-ordered" => {
                let blocks = self.blocks.iter().par_map_ordered(ahead, |block| self.compress(block));
                blocks.for_each(|block| self.write(&mut written, &block));
            }
            "crossbeam" => self.by_hand(ahead, &mut written),
            "crossbeam of 2" => self.by_hand(2, &mut written),
            _ => {
                let lanes = overlap::source(self.blocks.iter())
                    .compute_each("compress", |block| Ok::<_, ()>(self.compress(block)))
                    .blocking("write", |block| {
                        self.write(&mut written, &block);
                        Ok(())
                    });
                lanes.run().expect("no lane fails");
            }
        }
        written
    }

    fn by_hand(&self, ahead: usize, written: &mut Vec<u8>) {
        let (to_compress, read) = crossbeam_channel::bounded(ahead);
        let (to_write, compressed) = crossbeam_channel::bounded(ahead);
        thread::scope(|scope| {
            scope.spawn(move || self.blocks.iter().enumerate().all(|block| to_compress.send(block).is_ok()));
            for _ in 0..windrow::current_num_threads() {
                let (read, to_write) = (read.clone(), to_write.clone());
                let compress = move |(number, block): (usize, &&[u8])| to_write.send((number, self.compress(block)));
                scope.spawn(move || read.iter().all(|block| compress(block).is_ok()));
            }
            drop((read, to_write));
            let (mut next, mut early) = (0, BTreeMap::new());
            for (number, block) in compressed {
                early.insert(number, block);
                while let Some(block) = early.remove(&next) {
                    self.write(written, &block);
                    next += 1;
                }
            }
        });
    }
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    record::allowed(options.record)?;
    let text = text(options.megabytes * 1_000_000);
    let (block, ahead) = (options.block_kib as usize * 1024, usize::from(options.ahead));
    let expected = Run::new(&text, block).by("serial", ahead);
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); ARMS.len()];
    let mut most = [0; ARMS.len()];
    for repetition in 0..usize::from(options.repetitions) {
        for arm in in_turn(ARMS.len(), repetition) {
            let run = Run::new(&text, block);
            let began = Instant::now();
            let written = run.by(ARMS[arm], ahead);
            times[arm].push(began.elapsed());
            most[arm] = most[arm].max(run.most.into_inner());
            if written != expected {
                return Err(format!("{} writes other blocks than the loop", ARMS[arm]));
            }
        }
    }
    let threads = windrow::current_num_threads();
    println!(
        "{}, {threads} threads, {} blocks of {} KiB to {} bytes",
        record::machine(),
        text.len().div_ceil(block),
        options.block_kib,
        expected.len()
    );
    let mut notes = vec![format!("peers: {}", record::versions().join(", "))];
    for ((name, times), most) in ARMS.iter().zip(&times).zip(most) {
        let ms = median(&times.iter().map(|time| time.as_secs_f64() * 1e3).collect::<Vec<_>>());
        println!("  {name:<20} {ms:>8.1} ms, {most} blocks under way at most");
        notes.push(format!("{name}: {most} blocks under way at most"));
    }
    if options.record {
        let line =
            |name: &str, (repetition, time): (usize, &Duration)| format!("{name},{repetition},{}", time.as_nanos());
        let lines: Vec<String> = ARMS
            .iter()
            .zip(&times)
            .flat_map(|(name, times)| times.iter().enumerate().map(|time| line(name, time)))
            .collect();
        let (root, command) = (Path::new("bench/record"), record::command("blocks"));
        let written = record::write_lines(root, "blocks", &command, &notes, "arm,repetition,nanoseconds", &lines);
        println!("{}", written.map_err(|error| format!("no record: {error}"))?.display());
    }
    Ok(())
}

//! Measures how near overlapped lanes come to their bound: `cargo run --release -p windrow-bench --bin pipeline -- --help`
//!
//! A file set is read, encoded on all CPUs and written to a paced disk (a sleep). The bound of a run is the larger of two times: the CPU
//! seconds of all stages divided by the threads, and the time of the slowest stage that cannot be split. Both are measured in turn with the
//! runs: each stage alone, and then the run. There are two pipelines: one whose encode stage is a loop of known length, and one that
//! encodes text with an embedded vocabulary.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use clap::Parser;
use tempfile::TempDir;
use windrow::overlap::{self, Trace};
use windrow::prelude::*;
use windrow_bench::cpu::CpuClock;
use windrow_bench::measure::in_turn;
use windrow_bench::record;
use windrow_bench::stats::{interval, median};
use windrow_bench::work::{Calibration, Item, work};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Shares of the bound that are reached; fails if a balanced pipeline stays below 0.90 of it, or if any is faster than its bound.
#[derive(Parser)]
struct Options {
    /// Tiles of a run.
    #[arg(long, default_value_t = 100)]
    tiles: usize,
    /// CPU time of a tile's encode stage, of all threads together, in microseconds.
    #[arg(long, default_value_t = 4000)]
    tile_us: u64,
    /// Tiles that a queue holds, in both kinds of run.
    #[arg(long, default_value_t = 2)]
    ahead: usize,
    /// Repetitions.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Write a record below bench/record.
    #[arg(long)]
    record: bool,
}

/// The bar for pipelines whose encoding and writing are balanced, from the issue of this pipeline.
const BAR: f64 = 0.90;
/// The share by which a run may seem faster than its bound: the single stages are timed at other moments.
const NOISE: f64 = 0.05;
/// The time of the paced disk for a tile, divided by that of the encode stage.
const BALANCES: [f64; 3] = [0.5, 1.0, 2.0];

/// A disk that takes a fixed time for a tile, and none of the CPUs' time.
struct Paced {
    tile: Duration,
    /// When it will have written everything.
    free: Option<Instant>,
}

impl Paced {
    /// Returns when the tile is written. If a sleep lasts too long, the next ones are shorter, as with a disk's queue.
    fn write(&mut self) {
        let now = Instant::now();
        let begin = self.free.map_or(now, |free| if now < free + self.tile { free } else { now });
        let free = begin + self.tile;
        self.free = Some(free);
        thread::sleep(free.saturating_duration_since(Instant::now()));
    }
}

/// The work on one tile.
trait Stages {
    type Read: Send;
    fn read(&self, tile: usize) -> Self::Read;
    /// Runs on all threads.
    fn encode(&self, read: &Self::Read) -> u64;
}

/// A loop of known length.
struct Loop {
    items: Vec<Item>,
}

impl Stages for Loop {
    type Read = Vec<Item>;

    fn read(&self, tile: usize) -> Vec<Item> {
        self.items.iter().map(|item| Item { seed: item.seed + tile as u64, ..*item }).collect()
    }

    fn encode(&self, read: &Vec<Item>) -> u64 {
        read.par_iter().map(|item| work(*item)).reduce(|| 0, |a, b| a ^ b)
    }
}

/// Encodes a folder of text to ids: each file is a tile, each line a document.
struct Text {
    tokenizer: Tokenizer,
    folder: TempDir,
}

impl Text {
    fn new(tiles: usize, tile: Duration) -> io::Result<Self> {
        // Words of a few syllables, so that the vocabulary splits them into pieces.
        let syllables = ["wind", "row", "o", "ver", "lap", "ti", "le", " the", " and", " of", "ing", ". ", ", ", "7"];
        let mut random = windrow_bench::random::Random::new(1);
        let mut document = || (0..400).map(|_| syllables[random.below(syllables.len())]).collect::<String>();
        let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).expect("an embedded vocabulary");
        let text = Text { tokenizer, folder: tempfile::tempdir()? };
        let sample: Vec<String> = (0..200).map(|_| document()).collect();
        // The second pass is timed: then the encoders' caches are warm.
        text.encode(&sample);
        let begin = Instant::now();
        black_box(text.encode_some(&sample));
        let each = begin.elapsed() / sample.len() as u32;
        let count = ((tile.as_secs_f64() / each.as_secs_f64()).ceil() as usize).max(8);
        for tile in 0..tiles {
            let documents: Vec<String> = (0..count).map(|_| document()).collect();
            fs::write(text.path(tile), documents.join("\n"))?;
        }
        Ok(text)
    }

    fn path(&self, tile: usize) -> PathBuf {
        self.folder.path().join(format!("{tile}.txt"))
    }

    fn encode_some(&self, documents: &[String]) -> u64 {
        let mut encoder = self.tokenizer.engine().encoder();
        let mut ids = Vec::new();
        for text in documents {
            encoder.encode(text, &mut ids).expect("the engine encodes text");
        }
        ids.iter().fold(0, |sum: u64, id| sum.rotate_left(5) ^ u64::from(*id))
    }
}

impl Stages for Text {
    type Read = Vec<String>;

    fn read(&self, tile: usize) -> Vec<String> {
        let text = fs::read_to_string(self.path(tile)).expect("it was written, and no other process uses it");
        text.lines().map(str::to_owned).collect()
    }

    fn encode(&self, read: &Vec<String>) -> u64 {
        let chunks = read.par_chunks(8).map(|documents| self.encode_some(documents));
        chunks.collect::<Vec<u64>>().into_iter().fold(0, |a, b| a ^ b)
    }
}

/// One repetition.
#[derive(Clone, Copy, Default)]
struct Times {
    /// CPU seconds of reading and encoding.
    cpu: f64,
    /// Seconds of the stages alone.
    read: f64,
    encode: f64,
    write: f64,
    /// Seconds of the runs.
    overlapped: f64,
    by_hand: f64,
}

impl Times {
    fn bound(&self, threads: f64) -> f64 {
        (self.cpu / threads).max(self.read).max(self.write)
    }
}

fn seconds(f: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    f();
    begin.elapsed().as_secs_f64()
}

fn repetition<S: Stages + Sync>(stages: &S, options: &Options, pace: Duration, repetition: usize) -> (Times, Trace) {
    let &Options { tiles, ahead, .. } = options;
    let (mut times, mut trace) = (Times::default(), Trace::new());
    let paced = || Paced { tile: pace, free: None };
    for arm in in_turn(3, repetition) {
        match arm {
            0 => {
                let clock = CpuClock::new();
                let before = clock.now();
                let mut read = Vec::new();
                times.read = seconds(|| read.extend((0..tiles).map(|tile| stages.read(tile))));
                times.encode = seconds(|| read.iter().for_each(|read| _ = black_box(stages.encode(read))));
                // Workers spin for a moment after each tile; that CPU time does not belong to the stages.
                times.cpu = (clock.now() - before).as_secs_f64().min(times.read + times.encode * threads());
                let mut disk = paced();
                times.write = seconds(|| (0..tiles).for_each(|_| disk.write()));
            }
            1 => {
                trace = Trace::new();
                let mut disk = paced();
                times.overlapped = seconds(|| {
                    overlap::source(0..tiles)
                        .blocking("read", |tile| Ok::<_, ()>(stages.read(tile)))
                        .ahead(ahead)
                        .compute("encode", |read| Ok(stages.encode(&read)))
                        .ahead(ahead)
                        .blocking("write", |sum| {
                            black_box(sum);
                            disk.write();
                            Ok(())
                        })
                        .trace(&mut trace)
                        .run()
                        .expect("no lane fails");
                });
            }
            _ => times.by_hand = seconds(|| by_hand(stages, options, paced())),
        }
    }
    (times, trace)
}

/// The same with threads and bounded channels, without overlap.
fn by_hand<S: Stages + Sync>(stages: &S, options: &Options, mut disk: Paced) {
    let &Options { tiles, ahead, .. } = options;
    thread::scope(|scope| {
        let (to_encode, read) = sync_channel(ahead);
        let (to_write, encoded) = sync_channel(ahead);
        scope.spawn(move || (0..tiles).all(|tile| to_encode.send(stages.read(tile)).is_ok()));
        scope.spawn(move || {
            for sum in encoded {
                black_box::<u64>(sum);
                disk.write();
            }
        });
        for tile in read {
            to_write.send(stages.encode(&tile)).expect("the writer listens");
        }
    });
}

fn threads() -> f64 {
    windrow::current_num_threads() as f64
}

/// Hand-over of tiles without work, in microseconds a tile.
fn hand_over() -> f64 {
    let once = |tiles: usize| {
        let lanes = overlap::source(0..tiles).blocking("one", Ok::<_, ()>).compute("other", |_| Ok(()));
        seconds(|| assert_eq!(lanes.run().ok(), Some(tiles))) / tiles as f64 * 1e6
    };
    median(&(0..9).map(|_| once(20_000)).collect::<Vec<_>>())
}

fn cell<S: Stages + Sync>(
    name: &str,
    stages: &S,
    options: &Options,
    lines: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> bool {
    let mut passed = true;
    for balance in BALANCES {
        // Balanced: the disk takes as long as the other stages on all threads.
        let clock = CpuClock::new();
        let before = clock.now();
        (0..20).for_each(|tile| _ = black_box(stages.encode(&stages.read(tile % options.tiles))));
        let pace = (clock.now() - before).mul_f64(balance / 20.0 / threads());
        let mut shares = Vec::new();
        let mut others = Vec::new();
        let mut last = Trace::new();
        for at in 0..usize::from(options.repetitions) {
            let (times, trace) = repetition(stages, options, pace, at);
            let bound = times.bound(threads());
            shares.push(bound / times.overlapped);
            others.push(times.overlapped / times.by_hand);
            last = trace;
            let Times { cpu, read, encode, write, overlapped, by_hand } = times;
            let all = [cpu, read, encode, write, bound, overlapped, by_hand].map(|it| format!("{it:.6}")).join(",");
            lines.push(format!("{name},{balance},{at},{all}"));
        }
        let (share, (low, high)) = (median(&shares), interval(&shares));
        let bar = match balance {
            1.0 if share >= BAR => format!(", bar >= {BAR} met"),
            1.0 => format!(", bar >= {BAR} missed"),
            _ => String::new(),
        };
        let note = format!(
            "{name}, write {balance} of encode ({pace:.2?} a tile): {share:.3} of the bound ({low:.3} to {high:.3}), {:.3} times by hand{bar}",
            median(&others)
        );
        println!("{note}");
        notes.push(note);
        println!("  last run: {}", last.explain());
        if share > 1.0 + NOISE {
            println!("  FAILED: faster than its bound: the measurement is wrong");
            passed = false;
        }
        if balance == 1.0 && share < BAR {
            println!("  FAILED: below {BAR}");
            passed = false;
        }
    }
    passed
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.tiles == 0 {
        eprintln!("error: --tiles 0 is no run\nhint: at least 1");
        return ExitCode::from(2);
    }
    if let Err(error) = record::allowed(options.record) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    println!("{}, {} threads; a hand-over takes {:.2} us", record::machine(), threads(), hand_over());
    let micros = options.tile_us as f64;
    let turns = Calibration::measure().turns(micros * 1000.0 / 64.0);
    let items = (0..64).map(|seed| Item { seed, turns }).collect();
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let mut passed = cell("loop", &Loop { items }, &options, &mut lines, &mut notes);
    let text = match Text::new(options.tiles, Duration::from_micros(options.tile_us)) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error: no files to read: {error}");
            return ExitCode::FAILURE;
        }
    };
    passed &= cell("gpt2", &text, &options, &mut lines, &mut notes);
    if options.record {
        let columns =
            "pipeline,write over encode,repetition,cpu s,read s,encode s,write s,bound s,overlapped s,by hand s";
        let root = Path::new("bench/record");
        let written = record::write_lines(root, "pipeline", &record::command("pipeline"), &notes, columns, &lines);
        println!("{}", written.expect("the record can be written").display());
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

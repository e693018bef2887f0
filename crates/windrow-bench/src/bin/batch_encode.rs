//! `BatchEncode` beside the rayon of the same library: `cargo run --release -p windrow-bench --bin batch_encode -- TEXT JSON --record`.
//!
//! All arms encode with `tokenizers` 0.23, with the `tokenizer.json` JSON. They differ in what divides the batch:
//!
//! * `rayon`: `encode_batch_fast` of the library, an item a task;
//! * `min_len`: rayon with `with_min_len(ceil(n / (4 * threads)).clamp(1, 8))`, and serial on one thread (pull request 2077);
//! * `windrow`: `BatchEncode::encode_batch_fast`;
//! * `rayon again`: the control.
//!
//! Texts are parts of TEXT. With the feature `mimalloc` the program has that allocator instead of the system's; the record says which.
#![forbid(unsafe_code)]

#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rayon::prelude::*;
use windrow_bench::measure::compare;
use windrow_bench::record::Recording;
use windrow_bench::{exit_code, record, stats};
use windrow_tokenizers::BatchEncode;
use windrow_tokenizers::full::{Encoding, LibraryTokenizer as Tokenizer};

const THREADS: [usize; 2] = [1, 2];
const ALLOCATOR: &str = if cfg!(feature = "mimalloc") { "mimalloc" } else { "system" };

/// Name, bytes of a text, and texts.
const BATCHES: [(&str, usize, usize); 8] = [
    ("1 of 6500 B", 6500, 1),
    ("8 of 6500 B", 6500, 8),
    ("64 of 6500 B", 6500, 64),
    ("8 of 50 B", 50, 8),
    ("64 of 50 B", 50, 64),
    ("2000 of 50 B", 50, 2000),
    ("8 of 2000 B", 2000, 8),
    ("64 of 2000 B", 2000, 64),
];

/// Compares `BatchEncode` with rayon.
#[derive(Parser)]
struct Options {
    /// A UTF-8 text of 500 KB or more.
    text: PathBuf,
    /// A tokenizer.json.
    json: PathBuf,
    #[arg(long, default_value_t = 15)]
    repetitions: usize,
    #[command(flatten)]
    record: Recording,
}

fn main() -> ExitCode {
    exit_code(measure(&Options::parse()))
}

fn ids(encodings: Vec<Encoding>) -> Vec<u32> {
    encodings.iter().flat_map(Encoding::get_ids).copied().collect()
}

/// Consecutive texts of about so many bytes.
fn texts(mut text: &str, bytes: usize, count: usize) -> Vec<&str> {
    let mut texts = Vec::with_capacity(count);
    while texts.len() < count {
        let end = (bytes..text.len()).find(|&at| text.is_char_boundary(at)).expect("TEXT is long enough");
        let (first, rest) = text.split_at(end);
        texts.push(first);
        text = rest;
    }
    texts
}

fn measure(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let text =
        std::fs::read_to_string(&options.text).map_err(|error| format!("{}: {error}", options.text.display()))?;
    let tokenizer = Tokenizer::from_file(&options.json).map_err(|error| error.to_string())?;
    println!(
        "{}, {ALLOCATOR}; times are medians, ratios are relative to rayon (10th..90th percentile)",
        record::machine()
    );
    let (mut lines, mut gains) = (Vec::new(), Vec::new());
    for threads in THREADS {
        let ours = windrow::Pool::new(threads);
        let theirs = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(|error| error.to_string())?;
        for (name, bytes, count) in BATCHES {
            let texts = &texts(&text, bytes, count);
            let library =
                || theirs.install(|| ids((*tokenizer).encode_batch_fast(texts.clone(), false).expect("encodes")));
            let one = |text: &&str| (*tokenizer).encode_fast(*text, false).expect("encodes");
            let min_len = || match threads {
                1 => ids(texts.iter().map(one).collect()),
                _ => theirs.install(|| {
                    let min_len = count.div_ceil(4 * threads).clamp(1, 8);
                    ids(texts.par_iter().with_min_len(min_len).map(one).collect())
                }),
            };
            let windrow = || ours.install(|| ids(tokenizer.encode_batch_fast(texts.clone(), false).expect("encodes")));
            println!("{name}, {threads} threads");
            let (mut library, mut again) = (library, library);
            let (mut min_len, mut windrow) = (min_len, windrow);
            let mut arms: [(&str, &mut dyn FnMut() -> Vec<u32>); 4] = [
                ("rayon", &mut library),
                ("rayon again", &mut again),
                ("min_len", &mut min_len),
                ("windrow", &mut windrow),
            ];
            let times = compare(&mut arms, options.repetitions);
            let cell = format!("{name}/{threads}");
            for ((arm, _), own) in arms.iter().zip(&times) {
                let ratios: Vec<f64> = own.iter().zip(&times[0]).map(|(own, rayon)| own / rayon).collect();
                let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| stats::quantile(&ratios, share));
                println!("  {arm:12} {:>12.2} us  x{middle:.3} ({low:.3}..{high:.3})", stats::median(own) / 1e3);
                lines.extend(own.iter().enumerate().map(|(at, time)| format!("{cell},{arm},{at},{time}")));
                if *arm == "windrow" {
                    gains.push((1.0 / middle, cell.clone()));
                }
            }
        }
    }
    let worst = gains.iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are batches");
    let mean = stats::geometric_mean(gains.iter().map(|gain| gain.0));
    let verdict = format!(
        "verdict: {ALLOCATOR}: {mean:.3} times the speed of rayon (geometric mean), worst {:.3} ({})",
        worst.0, worst.1
    );
    println!("{verdict}");
    let notes = ["cells are batch/threads".to_owned(), verdict];
    options.record.write(&format!("batch-encode-{ALLOCATOR}"), &notes, "cell,arm,repetition,nanoseconds", &lines)
}

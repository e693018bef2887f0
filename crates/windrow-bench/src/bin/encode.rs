//! `windrow encode` end to end beside its engine in memory, in one interleaved run:
//! `cargo run --release -p windrow-bench --bin encode -- TEXT [REPETITIONS [FOLDER]]`.
//!
//! TEXT is a plain text file. It is cut into documents of 6.5 KB; all of them, eight times over, are one JSON lines file. The engine arm
//! encodes the same documents from memory, on one thread, in a loop. The other arms read the file, parse, encode, write `.npy` files, sync
//! them to disk and publish them. Every arm must give the same number of ids. FOLDER holds the corpus and the output, by default the
//! system's temporary folder; a folder in memory shows the cost of syncing to disk.
#![forbid(unsafe_code)]

// Uses the allocator that the command ships.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::path::{Path, PathBuf};

use windrow_bench::{Arm, compare, record};
use windrow_tokenizers::encode::{Job, encode};
use windrow_tokenizers::input::{InputOptions, resolve};
use windrow_tokenizers::output::{Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const DOCUMENT: usize = 6500;
const COPIES: usize = 8;

/// `text` in pieces of about [`DOCUMENT`] bytes, cut between characters.
fn documents(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let end = (DOCUMENT.min(text.len())..).find(|&at| text.is_char_boundary(at)).expect("the end is a boundary");
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces
}

fn engine(tokenizer: &Tokenizer, documents: &[&str]) -> u64 {
    let mut encoder = tokenizer.engine().encoder();
    let (mut ids, mut total) = (Vec::new(), 0);
    for document in std::iter::repeat_n(documents, COPIES).flatten() {
        encoder.encode(document, &mut ids).expect("the engine encodes text");
        total += ids.len() as u64;
        ids.clear();
    }
    total
}

fn end_to_end(tokenizer: &Tokenizer, corpus: &Path, out: &Path, threads: usize) -> u64 {
    let inputs = resolve(&[corpus.display().to_string()], &InputOptions::default()).expect("the corpus is there");
    let mut options = OutputOptions::new(out, tokenizer.vocab_size());
    options.overwrite = true;
    let output = Output::create(&options).expect("the output can be created");
    let job = Job { threads, ..Job::new(inputs.files) };
    encode(job, tokenizer, output, &()).expect("the corpus is good").tokens
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: encode TEXT [REPETITIONS [FOLDER]]");
        std::process::exit(2);
    };
    if let Err(error) = record::allowed(true) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
    let repetitions = arguments.next().map_or(11, |it| it.parse().expect("REPETITIONS is a number"));
    let text = std::fs::read_to_string(&path).expect("TEXT is a UTF-8 file");
    let documents = documents(&text);
    let place = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(&place).expect("a folder to write to");
    let corpus = folder.path().join("corpus.jsonl");
    let lines: String =
        documents.iter().map(|document| format!("{}\n", serde_json::json!({ "text": document }))).collect();
    std::fs::write(&corpus, lines.repeat(COPIES)).expect("the corpus can be written");
    let megabytes = (text.len() * COPIES) as f64 / 1e6;

    let tokenizer = Tokenizer::load("o200k_base", &LoadOptions::default()).expect("an embedded vocabulary");
    let out = folder.path().join("out");
    let run = |threads| end_to_end(&tokenizer, &corpus, &out, threads);
    let mut arms = [
        Arm::new("engine in memory (1 thread)", || engine(&tokenizer, &documents)),
        Arm::new("the same again (control)", || engine(&tokenizer, &documents)),
        Arm::new("encode --threads 1", || run(1)),
        Arm::new("encode --threads 2", || run(2)),
        Arm::new("encode --threads 4", || run(4)),
    ];
    let rows = compare(&mut arms, repetitions);
    println!("{megabytes:.1} MB of text, {} documents, o200k_base, {}", documents.len() * COPIES, record::machine());
    for row in &rows {
        println!("  {row}  {:.0} MB/s", megabytes / row.median().as_secs_f64());
    }
    let notes = [format!("text bytes of a repetition: {}", text.len() * COPIES), "vocabulary: o200k_base".to_owned()];
    let file = path.file_name().unwrap_or_default().display();
    let command =
        format!("cargo run --release -p windrow-bench --bin encode -- {file} {repetitions} {}", place.display());
    let name = format!("encode-in{}", place.display().to_string().replace('/', "-"));
    let written =
        record::write(Path::new("bench/record"), &name, &command, &notes, &rows).expect("the record can be written");
    println!("{}", written.display());
}

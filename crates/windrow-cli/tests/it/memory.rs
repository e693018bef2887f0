//! The peak of resident memory does not grow with the input: with a file of many documents for every kind and every engine, and with one text
//! for windrow's own engine.
//!
//! One document on another engine is held as a whole; its bound is elsewhere.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;

use crate::common::{Place, delegated, gzip, tiny, zstd};

/// The variable with the command line that [`measure`] runs.
const LINE: &str = "WINDROW_MEASURED_LINE";

/// Tolerance of the peaks, in KiB. What a thread keeps for itself differs from run to run.
const SLACK: u64 = 4 << 10;

/// Runs the command line of the variable in this folder, and prints its peak in KiB. A process runs one command: the system reports only the
/// largest peak of all children.
#[test]
fn measure() {
    let Ok(line) = std::env::var(LINE) else { return };
    let mut words = line.split(' ');
    let stdin = words.next().unwrap();
    let stdin = if stdin == "-" { Stdio::null() } else { File::open(stdin).unwrap().into() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    let output = command.args(words).stdin(stdin).stdout(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    println!("peak {}", getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss());
}

/// The peak of a command line, whose first word is the file of its standard input or `-`.
fn peak(place: &Place, line: &str) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "memory::measure", "--nocapture"]).env(LINE, line).current_dir(place.path(""));
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak = stdout.lines().find_map(|line| line.split_once("peak ")?.1.trim().parse().ok());
    peak.unwrap_or_else(|| panic!("{line}: {stdout}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Some text of no fewer bytes, in lines that begin with `begin`.
fn text(bytes: usize, begin: &str, end: &str) -> String {
    let line = format!("{begin}the path, of thorns; 12 \u{e9}t\u{e9}s{end}");
    line.repeat(bytes / line.len() + 1)
}

fn json_lines(bytes: usize) -> String {
    text(bytes, "{\"id\": [1, 2], \"text\": \"", "\"}\n")
}

#[cfg(feature = "parquet")]
fn parquet(path: &std::path::Path, bytes: usize) {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;

    let rows = text(bytes, "", "\n");
    let rows: ArrayRef = Arc::new(StringArray::from(rows.lines().collect::<Vec<_>>()));
    let batch = RecordBatch::try_from_iter([("text", rows)]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Writes the inputs of one size, and returns their names and options.
fn inputs(place: &Place, folder: &str, bytes: usize) -> Vec<(String, &'static str)> {
    let jsonl = json_lines(bytes);
    let name = |name: &str| format!("{folder}/{name}");
    place.file(&name("lines.txt"), text(bytes, "", "\n")).file(&name("rows.jsonl"), &jsonl);
    place.file(&name("rows.jsonl.gz"), gzip(jsonl.as_bytes())).file(&name("rows.jsonl.zst"), zstd(jsonl.as_bytes()));
    for number in 0..bytes / 8_000 {
        place.file(&name(&format!("many/{number}.txt")), text(8_000, "", "\n"));
    }
    let mut inputs = vec![
        (format!("- {}", name("lines.txt")), "--lines"),
        (format!("- {}", name("rows.jsonl")), ""),
        (format!("- {}", name("rows.jsonl.gz")), ""),
        (format!("- {}", name("rows.jsonl.zst")), ""),
        (format!("{} -", name("rows.jsonl")), "--input-format jsonl"),
        (format!("- {}", name("many")), ""),
    ];
    #[cfg(feature = "parquet")]
    {
        parquet(&place.path(&name("rows.parquet")), bytes);
        inputs.push((format!("- {}", name("rows.parquet")), ""));
    }
    inputs.iter_mut().for_each(|(_, options)| *options = if options.is_empty() { "-q" } else { options });
    inputs
}

/// Compares the peaks of inputs of two sizes, for both commands.
#[track_caller]
fn assert_flat(place: &Place, small: &(String, &str), large: &(String, &str)) {
    for command in ["count", "encode -o out --overwrite"] {
        let peak = |(input, options): &(String, &str)| {
            let (stdin, input) = input.split_once(' ').unwrap();
            let options = format!("--tokenizer tokenizer.json --memory 2M --threads 2 {options}");
            peak(place, &format!("{stdin} {command} {input} {options}"))
        };
        let (before, after) = (peak(small), peak(large));
        assert!(after < before + SLACK, "{command} {} takes {before} KiB, {} {after} KiB", small.0, large.0);
    }
}

fn place(tokenizer: &Value) -> Place {
    let place = Place::new();
    place.file("tokenizer.json", tokenizer.to_string());
    place
}

/// Many documents, with the kinds of input whose names end so.
fn many_documents(tokenizer: &Value, engine: &str, bytes: [usize; 2], kinds: &str) {
    let place = place(tokenizer);
    let [small, large] = [("small", bytes[0]), ("large", bytes[1])].map(|(name, bytes)| inputs(&place, name, bytes));
    for (small, large) in small.iter().zip(&large).filter(|((input, _), _)| input.ends_with(kinds)) {
        assert_flat(&place, small, large);
    }
    let manifest = place.json("out.manifest.json");
    let is_engine = |version: &Value| version.as_str().is_some_and(|version| version.starts_with(engine));
    assert!(is_engine(&manifest["engine"]["versions"][manifest["engine"]["name"].as_str().unwrap()]), "{manifest}");
}

#[test]
fn many_documents_by_windrow() {
    many_documents(&tiny(), env!("CARGO_PKG_VERSION"), [1 << 20, 4 << 20], "");
}

#[test]
fn many_documents_by_the_library() {
    many_documents(&serde_json::from_str(&delegated()).unwrap(), "0.23", [400 << 10, 2 << 20], ".jsonl");
}

/// One text of any form: with lines that begin with no letter, without lines, and as the text of a JSON line.
#[test]
fn one_text_by_windrow() {
    let place = place(&tiny());
    let write = |name: &str, bytes: usize| {
        let of = |kind: &str| format!("{name}.{kind}");
        place.file(&of("log"), text(bytes, "[12] - \"", "\",\r\n")).file(&of("flat"), text(bytes, " ", ""));
        place.file(&of("md.gz"), gzip(text(bytes, "- ", "\n").as_bytes()));
        place.file(&of("jsonl"), format!("{{\"text\": \"{}\"}}\n", text(bytes, "* ", "")));
        ["log", "flat", "md.gz", "jsonl"].map(|kind| (format!("- {}", of(kind)), "--ext log,flat"))
    };
    let (small, large) = (write("small", 1 << 20), write("large", 5 << 20));
    for (small, large) in small.iter().zip(&large) {
        assert_flat(&place, small, large);
    }
    assert!(fs::metadata(place.path("out.ids.npy")).is_ok());
}

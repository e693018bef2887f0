//! Memory of a document on an engine that holds it as a whole, and runs for which the system has too little memory.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::common::{Place, Ran, tiny};

const MIB: usize = 1 << 20;

/// Runs the command line to its end: the peak of its resident memory, in bytes.
fn peak(place: &Place, line: &str) -> (usize, Ran) {
    let mut command = place.command(line.split_whitespace());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // The system's own count for an ended process begins with the memory of its parent.
    let watcher = thread::spawn(move || {
        let mut peak = 0;
        while let Ok(status) = fs::read_to_string(&status) {
            let Some(line) = status.lines().find(|line| line.starts_with("VmHWM:")) else { break };
            peak = line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10;
            thread::sleep(Duration::from_millis(1));
        }
        peak
    });
    let ran = Ran::of(child.wait_with_output().unwrap());
    (watcher.join().unwrap(), ran)
}

fn ids(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    tokens.into_iter().zip(0..).map(|(token, id): (String, u32)| (token, json!(id))).collect()
}

/// The form of Llama 2: spaces become the beginnings of words, and nothing splits the text.
fn one_piece(more: &[&str]) -> Value {
    let letters = "abcdefghijklmnopqrstuvwxyz▁.,".chars().map(|letter| letter.to_string());
    let more = ["▁t", "▁th", "▁the", "or", "ds"].iter().chain(more).map(|token| (*token).to_owned());
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": null, "post_processor": null,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace]},
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": ids(["<unk>".to_owned()].into_iter().chain(letters).chain(more)),
            "merges": [["▁", "t"], ["▁t", "h"], ["▁th", "e"], ["o", "r"], ["d", "s"]],
        },
    })
}

/// The form of BERT, with a pre-tokenizer that the library has to run.
fn words() -> Value {
    let words = ["[UNK]", "the", "words", "of", "other", "path", ".", ","].map(str::to_owned);
    json!({
        "version": "1.0", "added_tokens": [], "normalizer": {"type": "Lowercase"}, "post_processor": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, {"type": "UnicodeScripts"}]},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids(words),
        },
    })
}

fn text(bytes: usize) -> String {
    let part = "the words of the other path, and other words of other paths. ";
    part.repeat(bytes.div_ceil(part.len()))
}

/// A document takes what the page says, and a tenth or two.
#[test]
fn a_document_on_another_engine_takes_what_the_page_says() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/encode.md")).unwrap();
    let place = Place::new();
    place.file("empty.jsonl", "{\"text\": \"\"}\n");
    {
        let (name, json, size) = ("words", words(), MIB);
        let json = json.to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), name, &LoadOptions::default()).unwrap();
        let bytes = tokenizer.engine().working_bytes();
        assert!(page.contains(&format!("| {bytes} bytes")), "book/src/encode.md does not state {bytes} bytes");
        place.file(&format!("{name}.json"), &json);
        let text = text(size);
        place.file("in.jsonl", format!("{{\"text\": \"small\"}}\n{{\"text\": \"{text}\"}}\n"));
        let options = format!("--tokenizer {name}.json --memory 16M --threads 2 --overwrite");
        // On a busy machine the watcher may miss the end of a short run.
        let run_empty = || peak(&place, &format!("encode empty.jsonl -o out {options}"));
        let fixed = (0..3).map(|_| run_empty()).map(|(peak, ran)| (ran.ok(), peak).1).max().unwrap();
        let (whole, ran) = peak(&place, &format!("encode in.jsonl -o out {options} --json"));
        let ran = ran.ok();
        let each = (whole - fixed) as f64 / text.len() as f64;
        eprintln!("{name}: {each:.1} of {bytes} bytes a byte, {fixed} fixed");
        assert!(each <= 1.2 * bytes as f64, "{name}: {each:.1} bytes a byte");
        // It is announced with its place, and counted.
        let engine = tokenizer.engine().name();
        let note = "note: in.jsonl:2: a document of ";
        let announced =
            ran.stderr.lines().find(|line| line.starts_with(note)).unwrap_or_else(|| panic!("{}", ran.stderr));
        assert!(announced.contains(&format!(" of memory in {engine}, but --memory is 16.8 MB, so ")), "{announced}");
        assert!(announced.contains("hint: split it, or pass --memory "), "{announced}");
        assert_eq!(ran.summary()["exceeding"], 1);
        assert!(
            ran.stderr.contains("note: --memory was exceeded by a large document, which was processed on its own: "),
            "{}",
            ran.stderr
        );
    }
}

/// Rows that fit one at a time are encoded one at a time, however many threads there are.
#[test]
fn large_rows_on_many_threads_stay_within_the_budget() {
    let place = Place::new();
    place.file("words.json", words().to_string()).file("empty.jsonl", "{\"text\": \"\"}\n");
    let row = format!("{{\"text\": \"{}\"}}\n", text(MIB / 4));
    place.file("in.jsonl", row.repeat(6));
    let options = "--tokenizer words.json --memory 160M --threads 8 --overwrite --json";
    let (fixed, ran) = peak(&place, &format!("encode empty.jsonl -o out {options}"));
    ran.ok();
    let (whole, ran) = peak(&place, &format!("encode in.jsonl -o out {options}"));
    let ran = ran.ok();
    assert!(whole <= fixed + 160 * MIB, "{} MiB beyond {} MiB", (whole - fixed) / MIB, fixed / MIB);
    assert!(!ran.stderr.contains("--memory"), "{}", ran.stderr);
    let in_flight = ran.summary()["peak_in_flight_bytes"].as_u64().unwrap() as usize;
    assert!(in_flight <= 160 * MIB && in_flight > 20 * MIB, "{in_flight}");
}

/// With too little memory a run ends with a message, wherever the memory is missing.
#[test]
fn runs_with_too_little_memory_end_with_a_message() {
    let place = Place::new();
    let row = |text: &str| format!("{{\"text\": \"{text}\", \"b\": \"\"}}\n");
    let rows: String = (0..200).map(|number| row(&text(number * 40))).collect();
    place.file("in.jsonl", [&rows, &row(&text(3 * MIB)), &rows].map(String::as_str).concat());
    place.file("empty.jsonl", row(""));
    // From what the program itself takes, which is more in address space where each thread has its own arena.
    for (name, json, step) in
        [("tiny", tiny(), 7_000), ("words", words(), 9_000), ("whole", one_piece(&["e▁"]), 20_000)]
    {
        place.file(&format!("{name}.json"), json.to_string());
        let run = |limit: usize, input: &str| {
            // A text of two fields is held as a whole by every engine.
            let line = format!(
                "{input} -o out --tokenizer {name}.json --field text --field b --threads 2 --memory 8M --overwrite -q"
            );
            let script = format!("ulimit -v {limit}; exec {} encode {line}", env!("CARGO_BIN_EXE_windrow"));
            Ran::of(Command::new("sh").args(["-c", &script]).current_dir(place.path("")).output().unwrap())
        };
        let enough = |limit: &usize| run(*limit, "empty.jsonl").code == Some(0);
        let first = (40_000..).step_by(12_000).find(enough).unwrap();
        let (mut failed, mut done) = (0, 0);
        for limit in (first..).step_by(step * windrow_testkit::step(3)).take(40) {
            let ran = run(limit, "in.jsonl");
            match ran.code {
                Some(0) => done += 1,
                Some(74) => {
                    failed += 1;
                    assert!(
                        ran.stderr.starts_with("error: ") && ran.stderr.contains("hint: "),
                        "{limit}: {}",
                        ran.stderr
                    );
                }
                // Not even a small allocation succeeds, or the standard library's for a new thread: the process ends at once, and says so.
                _ => {
                    let starts_thread = ran.stderr.contains("failed to allocate an alternative stack");
                    let said = ran.stderr.contains("memory allocation of ")
                        && (starts_thread || !ran.stderr.contains("panicked"));
                    assert!(said, "{name}, {limit}: {ran:?}");
                }
            }
            if done == 2 {
                break;
            }
        }
        assert!(failed > 0 && done == 2, "{name}: {failed} failed, {done} done");
    }
}

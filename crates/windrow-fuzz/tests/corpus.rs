//! Every input of the corpus, and changes of them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windrow_fuzz::{Mutator, TARGETS, dataset_formats, target};
use windrow_tokenizers::output::Format;

/// Changed inputs per target.
const CHANGES: usize = 400;

/// A slower machine tries fewer.
const LIMIT: Duration = Duration::from_secs(5);

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(folder).expect("each target has a corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a readable file"))).collect()
}

fn check(name: &str) {
    let target = target(name).expect("a target of this name");
    let corpus = corpus(name);
    assert!(corpus.len() > 3, "{name}: {} inputs", corpus.len());
    for (path, input) in &corpus {
        let outcome = catch_unwind(|| (target.run)(input));
        assert!(outcome.is_ok(), "{}", path.display());
    }
    let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let (begin, mut mutator) = (Instant::now(), Mutator::new(1));
    for number in 0..CHANGES {
        let input = mutator.changed(&inputs);
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        assert!(outcome.is_ok(), "{name}: change {number}: {}", input.escape_ascii());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
}

#[test]
fn json_lines() {
    check("jsonl");
}

#[test]
fn line() {
    check("line");
}

#[test]
fn framing() {
    check("framing");
}

#[test]
fn parquet() {
    check("parquet");
}

#[test]
fn dataset() {
    check("dataset");
}

#[test]
fn tokenizer() {
    check("tokenizer");
}

#[test]
fn chat() {
    check("chat");
}

#[test]
fn every_format_is_read_back() {
    let formats: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    let mut read: Vec<&str> = dataset_formats().collect();
    read.sort_by_key(|name| formats.iter().position(|format| format == name));
    assert_eq!(read, formats);
}

#[test]
fn every_target_is_checked_here() {
    let source = include_str!("corpus.rs");
    for target in TARGETS {
        assert!(source.contains(&format!("check(\"{}\");", target.name)), "{}", target.name);
    }
}

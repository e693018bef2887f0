#![doc = include_str!("../README.md")]

mod dataset;
mod framing;
mod jsonl;
mod mutate;
mod parquet;
mod reading;
mod tokenizer;

pub use mutate::Mutator;

/// What a fuzzer feeds with bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the folder with its corpus.
    pub name: &'static str,
    /// Panics on a finding.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 5] = [
    Target { name: "jsonl", run: jsonl::run },
    Target { name: "framing", run: framing::run },
    Target { name: "parquet", run: parquet::run },
    Target { name: "dataset", run: dataset::run },
    Target { name: "tokenizer", run: tokenizer::run },
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

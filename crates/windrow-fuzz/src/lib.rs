#![doc = include_str!("../README.md")]

mod chat;
mod dataset;
mod framing;
mod jsonl;
mod line;
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
pub const TARGETS: [Target; 7] = [
    Target { name: "jsonl", run: jsonl::run },
    Target { name: "line", run: line::run },
    Target { name: "framing", run: framing::run },
    Target { name: "parquet", run: parquet::run },
    Target { name: "dataset", run: dataset::run },
    Target { name: "tokenizer", run: tokenizer::run },
    Target { name: "chat", run: chat::run },
];

/// The output formats that the target `dataset` reads.
pub fn dataset_formats() -> impl Iterator<Item = &'static str> {
    dataset::formats()
}

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

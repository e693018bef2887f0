//! `windrow doctor`: what this machine and a tokenizer mean for windrow.

use std::fmt::Write as _;
use std::thread;

use clap::Args;
use windrow_tokenizers::engine::instruction_sets;
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer};

use crate::exit::Code;
use crate::report;
use crate::threads;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow doctor
  windrow doctor --tokenizer path/to/tokenizer.json

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str =
    "Exit codes: 0 done, 1 failed, 2 usage, 65 the tokenizer is not one, 74 it cannot be read.";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A vocabulary (r50k_base or gpt2, cl100k_base, o200k_base), or the path of a tokenizer.json or .tiktoken file.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,
}

/// Runs the command and reports the result.
pub(crate) fn run(options: Options) -> Code {
    let mut text = machine();
    if let Some(name) = &options.tokenizer {
        match tokenizer(name) {
            Ok(more) => text.push_str(&more),
            Err(error) => {
                report::error(&error);
                return Code::from(&error);
            }
        }
    }
    match report::print(text.trim_end()) {
        Ok(()) => Code::Done,
        Err(error) => {
            report::error(format_args!("cannot write to stdout: {error}\nhint: check where it leads to"));
            Code::Io
        }
    }
}

fn machine() -> String {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("windrow: {}\ncpus: {cpus} allowed by affinity and quota\n", env!("CARGO_PKG_VERSION"));
    let mut why = String::new();
    let threads = match threads::asked(None, |note| why = format!(": {note}")) {
        0 => cpus,
        threads => threads,
    };
    writeln!(text, "threads: {threads}{why}").expect("memory");
    let sets = instruction_sets();
    let others = match &sets[1..] {
        [] => String::new(),
        others => format!(" (this CPU also has {})", others.join(", ")),
    };
    writeln!(text, "instructions: {}{others}", sets[0]).expect("memory");
    text
}

fn tokenizer(name: &str) -> Result<String, LoadError> {
    let tokenizer = Tokenizer::load(name, &LoadOptions::default())?;
    let mut text = format!("tokenizer: {}, {} ids\n", shown(tokenizer.name()), tokenizer.vocab_size());
    writeln!(text, "{}", tokenizer.explain()).expect("memory");
    if tokenizer.delegated().is_some() {
        let cost = "the same ids, but slower, and one thread encodes a document, however long it is";
        writeln!(text, "cost: {cost}").expect("memory");
    }
    for note in tokenizer.notes() {
        writeln!(text, "note: {note}").expect("memory");
    }
    Ok(text)
}

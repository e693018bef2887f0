//! `windrow count`: tokens per file and in total.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use windrow::Pool;
use windrow::prelude::*;
use windrow_tokenizers::input::{WalkOptions, walk};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::exit::Code;
use crate::report;

pub(crate) mod args;
mod lines;
mod text;

pub(crate) use args::Options;
use lines::{Finished, Lines, Table};
use text::{Count, Counter, Uncounted};

/// The weight of a text of unknown length.
const UNKNOWN_LENGTH: u64 = 1 << 20;

/// A text to count.
#[derive(Debug)]
struct Input {
    /// `-` is stdin.
    path: PathBuf,
    /// Its size, or 0 if unknown.
    bytes: u64,
    /// Whether the command line names it; otherwise it was found in a directory.
    named: bool,
}

impl Input {
    fn count(&self, counter: &Counter<'_>) -> Result<Count, Uncounted> {
        if self.path.as_os_str() == "-" {
            return counter.count(io::stdin().lock());
        }
        let file = File::open(&self.path).map_err(Uncounted::Read)?;
        counter.count(file)
    }
}

/// The result for an input.
#[derive(Debug)]
enum Outcome {
    Counted(Count),
    /// A binary file in a directory.
    Skipped,
    /// Why it could not be counted, and the exit code.
    Failed(String, Code),
}

/// All inputs, in order.
#[derive(Debug, Default)]
struct Inputs {
    inputs: Vec<Input>,
    /// Paths that could not be inspected.
    failed: Vec<(String, Code)>,
    notes: Vec<String>,
}

/// Runs the command and reports the result.
pub(crate) fn run(options: Options) -> Code {
    // Text that looks like a special token is text: `encode_ordinary` of tiktoken.
    let load =
        LoadOptions { special_in_text: false, engine: options.vocabulary.engine.into(), ..LoadOptions::default() };
    let inputs = inputs(&options);
    let bytes = inputs.inputs.iter().map(|input| input.bytes).sum();
    let tokenizer = options.vocabulary.name().and_then(|name| Tokenizer::load_early(name, &load, bytes));
    let tokenizer = match tokenizer {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            report::error(&error);
            return Code::from(&error);
        }
    };
    if !options.quiet {
        tokenizer.notes().iter().chain(&inputs.notes).for_each(report::note);
    }
    match options.threads {
        0 => count(&options, &tokenizer, inputs),
        threads => Pool::new(threads).install(|| count(&options, &tokenizer, inputs)),
    }
}

/// Finds all inputs.
fn inputs(options: &Options) -> Inputs {
    let walking = WalkOptions { hidden: options.hidden, source: true, ignore_files: !options.no_ignore };
    let mut found = Inputs::default();
    for path in &options.paths {
        if path.as_os_str() == "-" {
            found.inputs.push(Input { path: path.clone(), bytes: UNKNOWN_LENGTH, named: true });
            continue;
        }
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => match walk(path, &walking) {
                Ok(walked) => {
                    found.notes.extend(walked.notes);
                    found.inputs.extend(walked.files.into_iter().map(|path| {
                        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                        Input { path, bytes, named: false }
                    }));
                }
                Err(error) => found.failed.push((error.to_string(), Code::Io)),
            },
            Ok(metadata) => {
                let bytes = if metadata.is_file() { metadata.len() } else { UNKNOWN_LENGTH };
                found.inputs.push(Input { path: path.clone(), bytes, named: true });
            }
            // Opening it gives the same error again, in its place.
            Err(_) => found.inputs.push(Input { path: path.clone(), bytes: 0, named: true }),
        }
    }
    found
}

/// Counts all inputs and prints the counts.
fn count(options: &Options, tokenizer: &Tokenizer, found: Inputs) -> Code {
    let finished = counted(options, tokenizer, found, &|| true).and_then(|finished| {
        lines::print(&finished.text)?;
        Ok(finished)
    });
    let (mut code, failed) = match finished {
        Ok(finished) => {
            if finished.skipped > 0 && !options.quiet {
                let files = if finished.skipped == 1 { "file" } else { "files" };
                report::note(format_args!("{} binary {files} skipped", finished.skipped));
            }
            (Code::Done, finished.failed)
        }
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Code::Done,
        Err(error) => {
            report::error(format_args!("cannot write to stdout: {error}\nhint: check where it leads to"));
            (Code::Io, Vec::new())
        }
    };
    for (message, failed) in failed {
        report::error(message);
        // A file that cannot be read is a more serious failure than one that is not text.
        if code != Code::Io {
            code = failed;
        }
    }
    code
}

/// Counts all inputs. The error is that of stdout, or says that `goes_on` returned false.
fn counted(
    options: &Options,
    tokenizer: &Tokenizer,
    found: Inputs,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> io::Result<Finished> {
    let counter = Counter::new(tokenizer, goes_on);
    let Inputs { inputs, mut failed, .. } = found;
    // As in wc, the width of a column depends on the bytes, which are known before the tokens.
    let bytes = inputs.iter().map(|input| input.bytes).sum();
    let table = Table::new(options, bytes, inputs.len() > 1);
    let lines = Lines::new(&inputs, table);
    // After an error no more files need to be counted.
    inputs.par_iter().weigh(weight).enumerate().try_for_each(|(at, input)| {
        let outcome = match input.count(&counter) {
            Ok(count) => Outcome::Counted(count),
            Err(Uncounted::Stopped) => return Err(io::ErrorKind::Interrupted.into()),
            Err(Uncounted::Binary) if !input.named => Outcome::Skipped,
            Err(uncounted) => failure(input, uncounted),
        };
        lines.add(at, outcome)
    })?;
    let mut finished = lines.finish(tokenizer, &failed);
    failed.append(&mut finished.failed);
    Ok(Finished { failed, ..finished })
}

/// Counts with a tokenizer that has been loaded before, and prints nothing. `None` if `goes_on` returned false.
pub(crate) fn call(
    options: &Options,
    tokenizer: &Tokenizer,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<(String, Vec<(String, Code)>)> {
    let found = inputs(options);
    let count = || counted(options, tokenizer, found, goes_on);
    let finished = match options.threads {
        0 => count(),
        threads => Pool::new(threads).install(count),
    };
    // JSON is printed at the end only, so there was no error of stdout.
    finished.ok().map(|finished| (finished.text, finished.failed))
}

/// The cost of a file: its bytes, and opening it.
fn weight(input: &Input) -> usize {
    usize::try_from(input.bytes).unwrap_or(usize::MAX / 2).saturating_add(1 << 10)
}

fn failure(input: &Input, uncounted: Uncounted) -> Outcome {
    let name = shown(&input.path);
    let (message, code) = match uncounted {
        Uncounted::Read(error) => {
            (format!("{name}: {error}\nhint: check that it exists and that you may read it"), Code::Io)
        }
        Uncounted::Binary => {
            (format!("{name}: is binary (it has a zero byte)\nhint: only text has tokens"), Code::BadInput)
        }
        Uncounted::NotUtf8 { byte } => {
            (format!("{name}: byte {byte}: is not UTF-8\nhint: convert it: iconv -t UTF-8"), Code::BadInput)
        }
        Uncounted::Engine(error) => (format!("{name}: {error}"), Code::BadInput),
        Uncounted::Stopped => unreachable!("it ends the run"),
    };
    Outcome::Failed(message, code)
}

/// The path of an input, for JSON.
fn lossy(input: &Input) -> Cow<'_, str> {
    input.path.to_string_lossy()
}

//! `windrow count`: tokens per file and in total.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process;

use indicatif::ProgressBar;
use windrow::Pool;
use windrow_tokenizers::encode::{Counting, EncodeError, Job, MemoryShares, Observer, count};
use windrow_tokenizers::input::{Format, InputError, InputFile, InputOptions, Resolved, resolve};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::exit::{Code, Refused};
use crate::progress::Progress;
use crate::report;
use crate::signals;
use crate::texts::InputFormat;
use crate::threads::workers;
use crate::watched::{self, Watched};

pub(crate) mod args;
mod lines;

pub(crate) use args::Options;
use lines::{Lines, Listed, Table};

/// The field of JSON lines and the column of Parquet files, if the command line names none.
const FIELD: &str = "text";

/// Runs the command and reports the result.
pub(crate) fn run(mut options: Options) -> Code {
    if options.inputs.is_empty() {
        if io::stdin().is_terminal() {
            report::error(InputError::NoInputs);
            return Code::Usage;
        }
        options.inputs.push(OsString::from("-"));
    }
    match prepare(&options) {
        Ok(resolved) => run_on(&options, resolved),
        Err(Refused(message, code)) => {
            report::error(message);
            code
        }
    }
}

/// Checks the options and finds all inputs.
fn prepare(options: &Options) -> Result<Resolved, Refused> {
    options.texts.check().map_err(|message| Refused(message, Code::Usage))?;
    // With a format that only corpora have, or with extensions, a directory stands for the files that `encode` takes.
    let is_corpus = matches!(options.texts.input_format, Some(InputFormat::Jsonl | InputFormat::Parquet));
    let resolving = InputOptions {
        others_are_text: !is_corpus && options.texts.ext.is_empty() && !options.texts.all_text,
        raw: options.raw,
        lists_failures: true,
        ..options.texts.resolving(!is_corpus)
    };
    Ok(resolve(&options.inputs, &resolving)?)
}

fn run_on(options: &Options, resolved: Resolved) -> Code {
    let load = LoadOptions {
        special_in_text: options.texts.special_in_text,
        engine: options.vocabulary.engine.into(),
        cache_bytes: shares(options).cache_bytes,
        ..LoadOptions::default()
    };
    let bytes = resolved.files.iter().map(|file| file.bytes().unwrap_or(0)).sum();
    let tokenizer = options.vocabulary.name().and_then(|name| Tokenizer::load_early(name, &load, bytes));
    let tokenizer = match tokenizer {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            report::error(&error);
            return Code::from(&error);
        }
    };
    if !options.quiet {
        tokenizer.notes().iter().chain(&resolved.notes).for_each(report::note);
    }
    let bar = ProgressBar::hidden();
    let is_shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
    let progress = is_shown.then(|| {
        let cleared = bar.clone();
        // Without it, the signal would end the process with the bar on the screen.
        let _ = signals::watch_by(move |number| {
            cleared.finish_and_clear();
            process::exit(Code::Signal(number).number().into());
        });
        Progress::start(bar.clone(), resolved.files.iter().map(InputFile::bytes).sum(), "")
    });
    let shown = Watched::new(progress, options.memory, workers(options.threads), options.quiet);
    let mut broken = None;
    let print = |line: &str| match bar.suspend(|| lines::print(line)) {
        Ok(()) => true,
        Err(error) => {
            broken = Some(error);
            false
        }
    };
    let counted = in_pool(options, || counted(options, &tokenizer, resolved, &shown, &|| true, print));
    drop(shown);
    let outcome = match (broken, counted) {
        (Some(error), _) => Err(error),
        (None, Ok(counted)) => lines::print(&counted.text).map(|()| counted),
        (None, Err(error)) => {
            report::error(&error);
            return Code::from(&error);
        }
    };
    let counted = match outcome {
        Ok(counted) => counted,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Code::Done,
        Err(error) => {
            report::error(format_args!("cannot write to stdout: {error}\nhint: check where it leads to"));
            return Code::Io;
        }
    };
    if !options.quiet {
        counted.notes.iter().for_each(report::note);
    }
    counted.failed.iter().for_each(|(message, _)| report::error(message));
    // A file that cannot be read is a more serious failure than one that is not text, and this than one that is not there.
    let codes = || counted.failed.iter().map(|(_, code)| *code);
    codes().max_by_key(|code| code.number()).unwrap_or(Code::Done)
}

fn in_pool<R: Send>(options: &Options, run: impl FnOnce() -> R + Send) -> R {
    if options.threads == 0 { run() } else { Pool::new(options.threads).install(run) }
}

fn shares(options: &Options) -> MemoryShares {
    MemoryShares::new(options.memory, workers(options.threads))
}

/// Notes and errors for the end, when all inputs are counted.
struct Finished {
    /// Lines that had to wait.
    text: String,
    notes: Vec<String>,
    failed: Vec<(String, Code)>,
}

/// Counts all inputs, and prints each line that need not wait; it may end the run by returning false.
fn counted(
    options: &Options,
    tokenizer: &Tokenizer,
    resolved: Resolved,
    observer: &dyn Observer,
    goes_on: &(dyn Fn() -> bool + Sync),
    mut print: impl FnMut(&str) -> bool,
) -> Result<Finished, EncodeError> {
    let mut failed: Vec<_> = resolved.failed.iter().map(|error| (error.to_string(), Code::from(error))).collect();
    let formats: Vec<Format> = resolved.files.iter().map(InputFile::format).collect();
    let table = Table::new(options, &resolved.files, failed.len());
    let mut lines = Lines::new(resolved.files.iter().map(Listed::from).collect(), table);
    let memory = shares(options).beside(&resolved.files, resolved.files.len()).documents;
    let job = Job { reading: options.texts.reading(FIELD), memory, ..Job::new(resolved.files) };
    // A field or a format that is named means documents.
    let may_be_text = options.texts.field.is_empty() && options.texts.input_format.is_none();
    let counting = Counting { may_be_text, observer, goes_on };
    let noticed = count(job, tokenizer, &counting, &mut |at, counted| match counted {
        Ok(counted) => lines.add(at, counted).is_none_or(|line| print(&line)),
        Err(EncodeError::Input(InputError::Binary { .. })) if lines.skip(at) => true,
        Err(error) => {
            failed.push((message(&error, formats[at]), Code::from(&error)));
            true
        }
    })?;
    let mut notes = lines.notes(FIELD);
    notes.extend(watched::note_pointers(&noticed.pointers));
    if noticed.stdin_looks_like_json_lines && !options.raw && !options.texts.all_text {
        notes
            .push("-: begins with a line of JSON, and was read as text (--input-format jsonl reads JSON lines)".into());
    }
    Ok(Finished { text: lines.finish(tokenizer.name(), &failed), notes, failed })
}

/// Counts with a tokenizer that has been loaded before, and prints nothing.
pub(crate) fn call(
    options: &Options,
    tokenizer: &Tokenizer,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<(String, Vec<(String, Code)>), Refused> {
    let resolved = prepare(options)?;
    // JSON is printed at the end only.
    match in_pool(options, || counted(options, tokenizer, resolved, &(), goes_on, |_| true)) {
        Ok(finished) => Ok((finished.text, finished.failed)),
        Err(EncodeError::Stopped) => Err(Refused("stopped".to_owned(), Code::Signal(2))),
        Err(error) => Err(error.into()),
    }
}

/// Fault of an input, and its remedy.
fn message(error: &EncodeError, format: Format) -> String {
    let EncodeError::Document(document) = error else { return error.to_string() };
    document.message(match format {
        Format::Text | Format::Lines => "convert it: iconv -t UTF-8",
        Format::Jsonl => "repair it, or count the file as plain text with --input-format text",
        Format::Parquet => "repair it, or leave the file out",
    })
}

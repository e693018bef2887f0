//! `windrow encode`.

use std::io::{self, IsTerminal};
use std::path::Path;

use indicatif::ProgressBar;
use windrow_tokenizers::encode::{Job, Observer, encode};
use windrow_tokenizers::input::{InputFile, InputOptions, resolve};
use windrow_tokenizers::manifest::{OnError, ReadOptions};
use windrow_tokenizers::output::{Output, OutputOptions, Staging};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::args::{Encode, InputFormat};
use crate::eos::eos;
use crate::exit::Code;
use crate::progress::Progress;
use crate::report;
use crate::signals;
use crate::summary;

/// An error that was not reported yet, and the code to exit with.
struct Refused(String, Code);

impl Refused {
    fn usage(message: impl Into<String>) -> Self {
        Self(message.into(), Code::Usage)
    }
}

impl<E> From<E> for Refused
where
    E: std::error::Error,
    Code: for<'e> From<&'e E>,
{
    fn from(error: E) -> Self {
        Self(error.to_string(), Code::from(&error))
    }
}

/// Runs the command and reports how it went.
pub(crate) fn run(options: Encode) -> Code {
    let staging = Staging::default();
    let bar = ProgressBar::hidden();
    if let Err(error) = signals::watch(&staging, &bar) {
        report::error(format_args!(
            "cannot watch for signals: {error}\nhint: raise the limits of the process (ulimit)"
        ));
        return Code::Failed;
    }
    match prepare(&options, &staging) {
        Ok(prepared) => prepared.run(&options, bar),
        Err(Refused(message, code)) => {
            report::error(message);
            code
        }
    }
}

/// Everything checked and opened, and nothing read.
struct Prepared {
    job: Job,
    tokenizer: Tokenizer,
    output: Output,
}

fn prepare(options: &Encode, staging: &Staging) -> Result<Prepared, Refused> {
    if options.lines && options.input_format.is_some_and(|format| format == InputFormat::Jsonl) {
        return Err(Refused::usage("--lines contradicts --input-format jsonl\nhint: leave out one of them"));
    }
    let note = |note: &String| {
        if !options.quiet {
            report::note(note);
        }
    };
    let format = options.input_format.map(Into::into);
    let resolved = resolve(&options.inputs, &InputOptions { lines: options.lines, format, ..InputOptions::default() })?;
    resolved.notes.iter().for_each(note);

    let reading = ReadOptions {
        field: options.field.clone(),
        lines: options.lines,
        on_error: options.on_error.into(),
        add_special_tokens: options.add_special_tokens,
        special_in_text: !options.no_special_in_text,
    };
    let load = LoadOptions { add_special_tokens: reading.add_special_tokens, special_in_text: reading.special_in_text };
    let tokenizer = Tokenizer::load(options.vocabulary.name()?, &load)?;
    tokenizer.notes().iter().for_each(note);

    let output = OutputOptions {
        format: options.format,
        dtype: options.dtype,
        append_eos: eos(&tokenizer, options.format, options.append_eos, options.eos.as_deref())
            .map_err(Refused::usage)?,
        overwrite: options.overwrite,
        ..OutputOptions::new(&options.output, tokenizer.vocab_size())
    };
    output.check_inputs(resolved.files.iter().map(|file| Path::new(file.name())))?;
    let output = Output::create_in(&output, staging)?;
    let job = Job {
        reading,
        threads: options.threads,
        memory: options.memory,
        chunk_bytes: options.chunk_bytes,
        ..Job::new(resolved.files)
    };
    Ok(Prepared { job, tokenizer, output })
}

impl Prepared {
    fn run(self, options: &Encode, bar: ProgressBar) -> Code {
        let Self { job, tokenizer, output } = self;
        let shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
        let progress = shown.then(|| {
            let stored = job.inputs.iter().map(InputFile::bytes).sum();
            Progress::start(bar, stored)
        });
        let skips = job.reading.on_error == OnError::Skip;
        let budget = job.memory;
        let outcome = match &progress {
            Some(progress) => encode(job, &tokenizer, output, progress as &dyn Observer),
            None => encode(job, &tokenizer, output, &()),
        };
        drop(progress);
        let (summary, error) = match outcome {
            Ok(summary) => (summary, None),
            Err(failed) => (failed.summary, Some(failed.error)),
        };
        let code = match &error {
            None => Code::Done,
            Some(error) if Code::is_interruption(error) => return signals::interrupted(),
            Some(error) => {
                report::error(error);
                Code::from(error)
            }
        };
        if !options.quiet {
            summary::describe(&summary, &options.output, skips, budget);
        }
        let error = error.map(|error| error.to_string());
        if options.json
            && let Err(error) = report::print(summary::json(&summary, &options.output, error.as_deref()))
        {
            report::error(format_args!("cannot write to stdout: {error}\nhint: the run itself is not concerned by it"));
            return if code == Code::Done { Code::Io } else { code };
        }
        code
    }
}

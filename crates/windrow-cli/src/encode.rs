//! `windrow encode`.

use std::io::{self, IsTerminal};
use std::path::Path;

use indicatif::ProgressBar;
use serde_json::{Value, json};
use windrow_tokenizers::encode::{Job, Observer, Summary, encode};
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

/// The version of the object that `--json` prints. It grows when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

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
    let resolved = resolve(&options.inputs, &InputOptions { lines: options.lines, format })?;
    resolved.notes.iter().for_each(note);

    let reading = ReadOptions {
        field: options.field.clone(),
        lines: options.lines,
        on_error: options.on_error.into(),
        add_special_tokens: options.add_special_tokens,
        special_in_text: !options.no_special_in_text,
    };
    let load = LoadOptions { add_special_tokens: reading.add_special_tokens, special_in_text: reading.special_in_text };
    let tokenizer = Tokenizer::load(&options.tokenizer, &load)?;
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
            describe(&summary, &options.output, skips, budget);
        }
        if options.json
            && let Err(error) = report::print(json_of(&summary, &options.output, error.map(|error| error.to_string())))
        {
            report::error(format_args!("cannot write to stdout: {error}\nhint: the run itself is not concerned by it"));
            return if code == Code::Done { Code::Io } else { code };
        }
        code
    }
}

/// The files that were published, the manifest last, by the prefix as it was given.
fn outputs(summary: &Summary, prefix: &Path) -> Vec<String> {
    let Some(published) = &summary.published else { return Vec::new() };
    let data = published.files.iter().map(|file| prefix.with_file_name(&file.file));
    data.chain([published.manifest.clone()]).map(|path| path.display().to_string()).collect()
}

/// Text in MB (10^6 bytes) a second.
fn rate(summary: &Summary) -> f64 {
    summary.text_bytes as f64 / 1e6 / summary.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// The summary for people.
fn describe(summary: &Summary, prefix: &Path, skips: bool, budget: usize) {
    let documents = summary.documents;
    let Some(published) = &summary.published else {
        report::say(format_args!(
            "nothing was published; {} documents were read until then ({} good, {} skipped, {} failed)",
            documents.read, documents.written, documents.skipped, documents.failed
        ));
        return;
    };
    if summary.peak_in_flight > budget {
        report::note(format_args!(
            "a document was larger than --memory allows and ran alone: {} bytes were in flight, of {budget}",
            summary.peak_in_flight
        ));
    }
    for path in &published.left_behind {
        report::note(format_args!("{} could not be removed", path.display()));
    }
    let skipped = if skips { format!(" ({} skipped)", documents.skipped) } else { String::new() };
    report::say(format_args!(
        "{} documents{skipped}, {:.1} MB of text, {} tokens in {:.2} s: {:.1} MB/s",
        documents.written,
        summary.text_bytes as f64 / 1e6,
        summary.tokens,
        summary.elapsed.as_secs_f64(),
        rate(summary)
    ));
    report::say(outputs(summary, prefix).join(" "));
}

/// The summary for programs.
fn json_of(summary: &Summary, prefix: &Path, error: Option<String>) -> Value {
    let documents = summary.documents;
    let seconds = summary.elapsed.as_secs_f64();
    let mut object = json!({
        "schema": SCHEMA,
        "documents": {
            "read": documents.read,
            "written": documents.written,
            "skipped": documents.skipped,
            "failed": documents.failed,
        },
        "bytes": summary.text_bytes,
        "tokens": summary.tokens,
        "seconds": seconds,
        "mb_per_s": rate(summary),
        "peak_in_flight_bytes": summary.peak_in_flight,
        "outputs": outputs(summary, prefix),
    });
    if let Some(error) = error {
        object["error"] = error.into();
    }
    object
}

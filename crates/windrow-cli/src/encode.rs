//! `windrow encode`.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

use windrow::overlap::Trace;
use windrow_tokenizers::manifest::{OnError, Packed, Part};
use windrow_tokenizers::output::Staging;
use windrow_tokenizers::run::{
    EncodeJob, EncodeSpec, Ended, Failed, FailureKind, encoded_bytes, failed_json, megabytes_per_second, names,
    outputs, publishing,
};
use windrow_tokenizers::{counted, decimal, grouped, shown};

use crate::args::Encode;
use crate::exit::Code;
use crate::progress::{Line, Loading, Progress};
use crate::report;
use crate::signals;
use crate::watched::Watched;

/// Runs the command and reports the result.
pub(crate) fn run(options: Encode) -> Code {
    let staging = Staging::default();
    let bar = Line::default();
    let spec = match signals::watch(&staging, &bar) {
        Ok(()) => spec(&options),
        Err(error) => Err(Failed {
            message: format!("cannot watch for signals: {error}\nhint: raise the limits of the process (ulimit)"),
            kind: FailureKind::Other,
        }),
    };
    let ended = spec.and_then(|spec| encode(&options, &spec, bar, &staging));
    match ended {
        Ok(code) => code,
        // The thread that watches for signals reports it; this call ensures that it is reported only once.
        Err(Failed { kind: FailureKind::Stopped, .. }) => signals::interrupted(staging.kept_shards()),
        Err(failed) => {
            report::error(&failed);
            if options.json {
                // A failure to print the result changes nothing: the run has already failed.
                let _ = report::print(failed_json(&options.job, &failed));
            }
            failed.kind.into()
        }
    }
}

/// The options as one value.
fn spec(options: &Encode) -> Result<EncodeSpec, Failed> {
    let keep = options.job.keep.iter().flat_map(|list| names(list)).collect();
    let job = EncodeJob { keep, ..options.job.clone() };
    let job = match &options.spec {
        Some(path) => from_file(path, &job, &options.given)?,
        None => job,
    };
    Ok(EncodeSpec { job, run: options.run.clone() })
}

/// The options in a file. The options in `given` come from the command line, and must have the same values there.
fn from_file(path: &Path, of_line: &EncodeJob, given: &[String]) -> Result<EncodeJob, Failed> {
    let name = shown(path);
    let text = fs::read_to_string(path).map_err(|error| {
        let kind = if error.kind() == io::ErrorKind::NotFound { FailureKind::Missing } else { FailureKind::Io };
        Failed { message: format!("--spec: cannot read {name}: {error}"), kind }
    })?;
    let job = EncodeJob::from_json(&text).map_err(|failed| Failed {
        message: format!(
            "--spec: {name}: {failed}\nhint: write an object such as {{\"tokenizer\": \"gpt2\", \"lines\": true}}"
        ),
        kind: FailureKind::BadInput,
    })?;
    let as_json = |job: &EncodeJob| serde_json::to_value(job).unwrap_or_default();
    let (file, line) = (as_json(&job), as_json(of_line));
    match given.iter().find(|option| file[option.as_str()] != line[option.as_str()]) {
        Some(option) => {
            let words = format!("--{}", option.replace('_', "-"));
            let there = &file[option.as_str()];
            let there = if there.is_null() { "does not set it".to_owned() } else { format!("sets it to {there}") };
            Err(Failed::usage(format!(
                "{words} contradicts {name}, which {there}\nhint: omit {words}, or change the file"
            )))
        }
        None => Ok(job),
    }
}

/// Runs the encoding that the options request.
fn encode(options: &Encode, spec: &EncodeSpec, bar: Line, staging: &Staging) -> Result<Code, Failed> {
    let note = |note: &str| {
        if !options.quiet {
            report::note(note);
        }
    };
    let is_shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
    let found = spec.find(note)?;
    let tokenizer = {
        let name = spec.job.vocabulary.name()?;
        let _loading = is_shown.then(|| Loading::start(&bar, name));
        found.load()?
    };
    let mut run = found.open(&tokenizer, staging, note)?;
    if options.explain {
        run = run.traced();
    }
    let progress = is_shown.then(|| Progress::start(bar, run.stored(), ", writing to disk"));
    let watched = Watched::new(progress, spec.run.memory.bytes(), run.workers(), options.quiet);
    let ended = run.encode(&watched);
    drop(watched);
    if ended.is_interrupted {
        return Ok(signals::interrupted(ended.summary.kept_shards));
    }
    ended.failed.iter().for_each(report::error);
    let mut code = ended.failed.as_ref().map_or(Code::Done, |failed| failed.kind.into());
    if !options.quiet {
        describe(&ended, spec, tokenizer.name());
        if options.explain {
            report::say(tokenizer.explain());
            report::say(format_args!("readers: {}", ended.summary.readers));
            ended.summary.trace.iter().for_each(|trace| report::say(stages(trace)));
        }
    }
    if options.json
        && let Err(error) = report::print(&ended.json)
    {
        report::error(format_args!("cannot write to stdout: {error}\nhint: the run itself succeeded"));
        code = if code == Code::Done { Code::Io } else { code };
    }
    Ok(code)
}

/// Less text than this gets no rate: reading the clock and starting threads would be most of the time.
const RATED: u64 = 1_000_000;

/// More files than this are not listed in full.
const LISTED: usize = 8;

/// The summary on stderr.
fn describe(ended: &Ended, spec: &EncodeSpec, tokenizer: &str) {
    ended.notes.iter().for_each(report::note);
    let (summary, job) = (&ended.summary, &spec.job);
    let documents = summary.documents;
    let Some(published) = &summary.published else {
        report::say(format_args!(
            "nothing was published; {} had been read: {} good, {} skipped, {} failed{}",
            counted(documents.read, "document"),
            grouped(documents.written),
            grouped(documents.skipped),
            grouped(documents.failed),
            if job.selection.sample.is_some() {
                format!(", {} deselected", grouped(documents.deselected))
            } else {
                String::new()
            }
        ));
        report::kept(summary.kept_shards);
        return;
    };
    let counts = [
        (job.on_error == OnError::Skip, documents.skipped, "skipped"),
        (job.selection.sample.is_some(), documents.deselected, "deselected"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(shown, ..)| *shown)
        .map(|(_, count, what)| format!("{} {what}", grouped(*count)))
        .collect();
    let skipped = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    let loss = summary.loss_tokens.map_or_else(String::new, |tokens| format!(", {} with loss", grouped(tokens)));
    report::say(format_args!(
        "{}{skipped}, {} of text, {} of {}{loss} ({}{}{})",
        counted(documents.written, "document"),
        decimal(summary.text_bytes),
        counted(summary.tokens, "token"),
        shown(tokenizer),
        job.format,
        published.dtype().map_or_else(String::new, |dtype| format!(", {dtype}")),
        published.eos.map_or_else(String::new, |eos| format!(", end of text {eos}"))
    ));
    if let (Some(Packed { rows, padding, dropped }), Some(length)) = (published.packed, job.pack) {
        let rows = counted(rows, "row");
        report::say(format_args!(
            "{rows} of {}, {} of padding, {} dropped at the end",
            counted(length.get() as u64, "id"),
            counted(padding, "id"),
            grouped(dropped)
        ));
    }
    for Part { name, documents, tokens, .. } in &published.parts {
        report::say(format_args!("{name}: {}, {}", counted(*documents, "document"), counted(*tokens, "token")));
    }
    let encoding = summary.encoding.as_secs_f64();
    let rate = match encoded_bytes(summary) {
        0..RATED => String::new(),
        _ => format!(" ({:.1} MB/s)", megabytes_per_second(summary)),
    };
    report::say(format_args!("encoded in {encoding:.2} s{rate}, published in {:.2} s", publishing(summary)));
    let files: Vec<String> = outputs(summary, spec).map(|path| shown(&path).to_string()).collect();
    match files.as_slice() {
        [first, second, .., last] if files.len() > LISTED => {
            report::say(format_args!("{first} {second} ... {last} ({})", counted(files.len() as u64, "file")));
        }
        files => report::say(files.join(" ")),
    }
}

/// The part of the time in which each stage had a batch, and the stage that limits.
fn stages(trace: &Trace) -> String {
    let wall = trace.wall.0.max(1.0);
    let parts: Vec<String> =
        trace.lanes.iter().map(|lane| format!("{} {:.2}", lane.name, lane.busy().0 / wall)).collect();
    format!("stages, as shares of the elapsed time: {}; {} is the bottleneck", parts.join(", "), trace.explain().name)
}

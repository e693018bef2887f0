//! `windrow encode`.

use std::io::{self, IsTerminal};
use std::ops::Deref;
use std::path::Path;

use indicatif::ProgressBar;
use windrow_tokenizers::chat::Chat;
use windrow_tokenizers::encode::{Job, MemoryShares, Observer, Summary, encode};
use windrow_tokenizers::input::{self, Compression, InputFile, resolve};
use windrow_tokenizers::manifest::{OnError, Pack, PackMode, ReadOptions, Selection};
use windrow_tokenizers::output::{Output, OutputOptions, Staging};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::args::{Encode, Policy};
use crate::chat;
use crate::eos::{bos, eos, pack};
use crate::exit::{Code, Refused};
use crate::progress::{Loading, Progress};
use crate::report;
use crate::signals;
use crate::size;
use crate::summary;
use crate::threads::{self, workers};
use crate::timeline::{Timeline, stages};
use crate::watched::Watched;

/// Runs the command and reports the result.
pub(crate) fn run(options: Encode) -> Code {
    let staging = Staging::default();
    let bar = ProgressBar::hidden();
    if let Err(error) = signals::watch(&staging, &bar) {
        let message = format!("cannot watch for signals: {error}\nhint: raise the limits of the process (ulimit)");
        return refused(&options, &message, Code::Failed);
    }
    let note = |note: &String| {
        if !options.quiet {
            report::note(note);
        }
    };
    let is_shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
    match prepare(&options, None, is_shown.then_some(&bar), &staging, note) {
        Ok(prepared) => prepared.run(&options, bar),
        // The thread that watches for signals reports it; this call ensures that it is reported only once.
        Err(Refused(_, Code::Signal(_))) => signals::interrupted(staging.kept_shards()),
        Err(Refused(message, code)) => refused(&options, &message, code),
    }
}

/// Reports that the run cannot begin.
fn refused(options: &Encode, message: &str, code: Code) -> Code {
    report::error(message);
    if options.json {
        // A failure to print the result changes nothing: the run has already failed.
        let name = options.vocabulary.shown();
        let _ = report::print(summary::json(&Summary::default(), options, name, Some(message)));
    }
    code
}

/// A run after all checks: everything is open, and nothing has been read.
pub(crate) struct Prepared<'t> {
    job: Job,
    tokenizer: Loaded<'t>,
    output: Output,
    timeline: Option<Timeline>,
}

/// A tokenizer, of this run or of a caller.
enum Loaded<'t> {
    Here(Box<Tokenizer>),
    Before(&'t Tokenizer),
}

impl Deref for Loaded<'_> {
    type Target = Tokenizer;

    fn deref(&self) -> &Tokenizer {
        match self {
            Self::Here(tokenizer) => tokenizer,
            Self::Before(tokenizer) => tokenizer,
        }
    }
}

/// Opens everything. A tokenizer that is given replaces the one that `options` names. `bar` is drawn while one is loaded.
pub(crate) fn prepare<'t>(
    options: &Encode,
    tokenizer: Option<&'t Tokenizer>,
    bar: Option<&ProgressBar>,
    staging: &Staging,
    mut note: impl FnMut(&String),
) -> Result<Prepared<'t>, Refused> {
    options.texts.check().map_err(Refused::usage)?;
    if options.max_skipped.is_some() && options.on_error == Policy::Fail {
        let message =
            "--max-skipped has no effect: the first bad document ends the run\nhint: pass --on-error skip too";
        return Err(Refused::usage(message));
    }
    OutputOptions { format: options.format, ..OutputOptions::new(&options.output, 0) }.check_prefix()?;
    check_rows(options)?;
    let selection = selection(options)?;
    let takes_source = options.texts.all_text || !options.texts.ext.is_empty();
    let resolved = resolve(&options.inputs, &options.texts.resolving(takes_source))?;
    resolved.notes.iter().for_each(&mut note);
    let threads = threads::asked(options.threads, &mut note);

    check_fields(options, &resolved.files)?;
    let beside = chat::Beside { fields: options.texts.field.len(), add_special_tokens: options.add_special_tokens };
    chat::check(&options.chat, beside, &resolved.files).map_err(Refused::usage)?;
    let field = if options.chat.chat.is_some() { "messages" } else { "text" };
    let reading = ReadOptions {
        keep: options.keep.clone(),
        on_error: options.on_error.into(),
        add_special_tokens: options.add_special_tokens,
        // A template writes special tokens.
        special_in_text: options.texts.special_in_text || options.chat.chat.is_some(),
        selection,
        ..options.texts.reading(field)
    };
    let workers = workers(threads);
    let shares = MemoryShares::new(options.memory, workers);
    let readers = if options.readers == 0 { workers } else { options.readers };
    let shares = shares.beside(&resolved.files, readers);
    let load = LoadOptions {
        add_special_tokens: reading.add_special_tokens,
        special_in_text: reading.special_in_text,
        engine: options.vocabulary.engine.into(),
        cache_bytes: shares.cache_bytes,
    };
    let tokenizer = match tokenizer {
        Some(tokenizer) => Loaded::Before(tokenizer),
        None => {
            let name = options.vocabulary.name()?;
            let _loading = bar.map(|bar| Loading::start(bar, name));
            Loaded::Here(Box::new(Tokenizer::load(name, &load)?))
        }
    };
    if !tokenizer.engine().divides_documents() {
        one_thread_each(&resolved.files, threads).iter().for_each(&mut note);
    }
    tokenizer.notes().iter().for_each(&mut note);
    let chat = chat::load(&options.chat, &tokenizer, note)?;

    let output = OutputOptions {
        format: options.format,
        dtype: options.dtype,
        append_eos: eos(&tokenizer, options.format, options.append_eos, options.eos.as_deref())
            .map_err(Refused::usage)?,
        prepend_bos: bos(&tokenizer, options.bos.as_deref()).map_err(Refused::usage)?,
        pack: pack(&tokenizer, options).map_err(Refused::usage)?,
        overwrite: options.overwrite,
        list_skipped: options.on_error == Policy::Skip,
        keep: options.keep.clone(),
        mask: chat.as_ref().is_some_and(Chat::has_mask),
        parts: options.split.iter().map(|part| part.name.clone()).collect(),
        shard_bytes: options.shard_size.map(|bytes| bytes as u64),
        resume: options.resume,
        ..OutputOptions::new(&options.output, tokenizer.vocab_size())
    };
    let named = [Some(Path::new(tokenizer.name())), options.chat.chat.as_deref()].into_iter().flatten();
    let read: Vec<&Path> = resolved.files.iter().filter_map(InputFile::path).chain(named).collect();
    output.check_inputs(&read)?;
    if let Some(path) = options.trace.as_ref().filter(|path| output.owns(path)) {
        let message = format!("--trace: {} is a file of the output\nhint: name another file", shown(path));
        return Err(Refused::usage(message));
    }
    let output = Output::create_in(&output, staging)?;
    let timeline = options.trace.as_ref().map(|path| Timeline::open(path, &read)).transpose();
    let timeline = timeline.map_err(|(message, code)| Refused(message, code))?;
    let job = Job {
        reading,
        threads,
        memory: shares.documents,
        readers: options.readers,
        chunk_bytes: options.chunk_bytes,
        chat,
        max_skipped: options.max_skipped,
        trace: options.explain || timeline.is_some(),
        ..Job::new(resolved.files)
    };
    Ok(Prepared { job, tokenizer, output, timeline })
}

/// Refuses rows for which there is no memory: those that are complete and on their way to the files, or all that wait for documents.
fn check_rows(options: &Encode) -> Result<(), Refused> {
    let Some(length) = options.pack else { return Ok(()) };
    let rows = if options.pack_mode == PackMode::Whole { Pack::OPEN_ROWS } else { 4 };
    let bytes = length.get() as u128 * (4 * rows * options.split.len().max(1)) as u128;
    if bytes <= options.memory as u128 {
        return Ok(());
    }
    let more = match u64::try_from(bytes) {
        Ok(bytes) if bytes < 1 << 44 => format!(" or give --memory {}M", bytes.div_ceil(1 << 20)),
        _ => String::new(),
    };
    Err(Refused::usage(format!(
        "--pack {length}: {rows} rows of so many ids take more than --memory\nhint: make shorter rows{more}"
    )))
}

/// Which documents the options ask for. The seed is part of the manifest if it matters.
fn selection(options: &Encode) -> Result<Selection, Refused> {
    let Encode { limit, sample, seed, shuffle, .. } = *options;
    let split = options.split.clone();
    if seed.is_some() && sample.is_none() && split.is_empty() {
        let message = "--seed has no effect: it chooses documents for --sample and --split\n\
                       hint: leave it out, or pass one of them too";
        return Err(Refused::usage(message));
    }
    let seed = (sample.is_some() || !split.is_empty()).then(|| seed.unwrap_or(0));
    if shuffle.is_some() && options.resume {
        let message = "--shuffle cannot resume: its first shard is complete only when everything is encoded\n\
                       hint: leave out --resume, or --shuffle";
        return Err(Refused::usage(message));
    }
    let selection = Selection { limit, sample, split, shuffle, seed };
    if !selection.is_whole() {
        let message =
            "--split: the shares of the parts do not add up to 1\nhint: give shares such as train=0.98,val=0.02";
        return Err(Refused::usage(message));
    }
    Ok(selection)
}

/// Refuses options of fields that contradict each other or the inputs.
fn check_fields(options: &Encode, files: &[InputFile]) -> Result<(), Refused> {
    for (number, name) in options.keep.iter().enumerate() {
        if options.keep[..number].contains(name) {
            return Err(Refused::usage(format!("--keep names {name:?} twice\nhint: leave out one of them")));
        }
    }
    let has_fields = |file: &&InputFile| matches!(file.format(), input::Format::Jsonl | input::Format::Parquet);
    match files.iter().find(|file| !has_fields(file)) {
        Some(file) if !options.keep.is_empty() => {
            let name = shown(file.name());
            let message = format!("{name}: text has no fields for --keep\nhint: leave out --keep, or the file");
            Err(Refused::usage(message))
        }
        _ => Ok(()),
    }
}

/// A text file that is one document of more bytes than this, 256 chunks, gets a note.
const LARGE: u64 = 256 * Job::CHUNK_BYTES as u64;

/// A note about large documents: one thread encodes each of them while the other threads wait.
fn one_thread_each(files: &[InputFile], threads: usize) -> Option<String> {
    let threads = workers(threads);
    let is_large = |file: &&InputFile| {
        // The decompressed size of a compressed file is unknown, but hardly smaller.
        let bytes = file.bytes().unwrap_or(0);
        file.format() == input::Format::Text && bytes > LARGE
    };
    let large: Vec<&InputFile> = files.iter().filter(is_large).collect();
    let largest = large.iter().max_by_key(|file| file.bytes())?;
    if threads < 2 {
        return None;
    }
    let compressed = if largest.compression() == Some(Compression::None) { "" } else { " compressed" };
    let size = size::decimal(largest.bytes().unwrap_or(0));
    let name = shown(largest.name());
    let others = match large.len() - 1 {
        0 => String::new(),
        others => format!(" (and {others} more such)"),
    };
    Some(format!(
        "{name} is one document of {size}{compressed}{others}: one of {threads} threads encodes it; \
         --lines makes a document of each line, or split it"
    ))
}

impl Prepared<'_> {
    /// Bytes of all inputs as stored, if all are known.
    pub(crate) fn stored(&self) -> Option<u64> {
        self.job.inputs.iter().map(InputFile::bytes).sum()
    }

    /// Encodes, and returns the summary as JSON with the notes of the command.
    pub(crate) fn call(self, options: &Encode, observer: &dyn Observer) -> Result<(String, Vec<String>), Refused> {
        let Self { job, tokenizer, output, timeline } = self;
        let skips = job.reading.on_error == OnError::Skip;
        // An engine reports once that texts name special tokens; those of an earlier run must not count as those of this one.
        let had_named_text = tokenizer.has_named_text();
        let summary = encode(job, &tokenizer, output, observer).map_err(|failed| failed.error)?;
        if let Some(timeline) = timeline {
            timeline.write(summary.trace.as_ref()).map_err(|message| Refused(message, Code::Io))?;
        }
        let described = summary::Described {
            skips,
            budget: options.memory,
            tokenizer: tokenizer.name().to_owned(),
            has_named_text: tokenizer.has_named_text() && !had_named_text,
        };
        let notes = summary::notes(&summary, options, &described);
        Ok((summary::json(&summary, options, tokenizer.name(), None), notes))
    }

    fn run(self, options: &Encode, bar: ProgressBar) -> Code {
        let stored = self.stored();
        let Self { job, tokenizer, output, timeline } = self;
        let shown = !options.quiet && !options.no_progress && io::stderr().is_terminal();
        let progress = shown.then(|| Progress::start(bar, stored, ", writing to the disk"));
        let skips = job.reading.on_error == OnError::Skip;
        let watched = Watched::new(progress, options.memory, workers(job.threads), options.quiet);
        let outcome = encode(job, &tokenizer, output, &watched);
        drop(watched);
        let (summary, error) = match outcome {
            Ok(summary) => (summary, None),
            Err(failed) => (failed.summary, Some(failed.error)),
        };
        let mut code = match &error {
            None => Code::Done,
            Some(error) if Code::is_interruption(error) => return signals::interrupted(summary.kept_shards),
            Some(error) => {
                report::error(error);
                Code::from(error)
            }
        };
        if !options.quiet {
            let has_named_text = tokenizer.has_named_text();
            let (budget, tokenizer_name) = (options.memory, tokenizer.name().to_owned());
            let described = summary::Described { skips, budget, tokenizer: tokenizer_name, has_named_text };
            summary::describe(&summary, options, &described);
            if options.explain {
                report::say(tokenizer.explain());
                report::say(format_args!("readers: {}", summary.readers));
                summary.trace.iter().for_each(|trace| report::say(stages(trace)));
            }
        }
        if let Some(Err(message)) = timeline.map(|timeline| timeline.write(summary.trace.as_ref())) {
            report::error(message);
            code = if code == Code::Done { Code::Io } else { code };
        }
        let error = error.map(|error| error.to_string());
        if options.json
            && let Err(error) =
                report::print(summary::json(&summary, options, options.vocabulary.shown(), error.as_deref()))
        {
            report::error(format_args!("cannot write to stdout: {error}\nhint: the run itself is not concerned by it"));
            return if code == Code::Done { Code::Io } else { code };
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use windrow_tokenizers::input::InputOptions;

    use super::*;

    #[test]
    fn large_texts_that_one_thread_encodes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a.txt", LARGE + 1), ("b.txt", LARGE), ("c.txt.gz", 2 * LARGE), ("d.jsonl", 3 * LARGE)] {
            std::fs::File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
        }
        let inputs = [folder.path().to_str().unwrap().to_owned()];
        let files = |lines| resolve(&inputs, &InputOptions { lines, ..InputOptions::default() }).unwrap().files;
        let note = one_thread_each(&files(false), 2).unwrap();
        let says = "c.txt.gz is one document of 33.6 MB compressed (and 1 more such): one of 2 threads encodes it; --lines makes";
        assert!(note.contains(says), "{note}");
        assert_eq!(one_thread_each(&files(false), 1), None);
        assert_eq!(one_thread_each(&files(true), 2), None);
    }
}

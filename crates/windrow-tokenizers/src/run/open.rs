//! From options to a run: contradictions are refused, inputs are found, and everything is opened before anything is read.

use std::env;
use std::path::Path;

use super::chat;
use super::failure::Failed;
use super::ids::{bos, eos, pack};
use super::spec::{EncodeRun, EncodeSpec};
use super::summary;
use super::timeline::Timeline;
use crate::chat::Chat;
use crate::encode::{EncodeError, Job, MemoryShares, Observer, Summary, encode};
use crate::input::{self, Compression, InputFile, resolve};
use crate::manifest::{OnError, Pack, PackMode, Selection};
use crate::output::{Output, OutputErrorKind, OutputOptions, Staging};
use crate::spec::{EncodeJob, Texts};
use crate::tokenizer::{LoadError, LoadOptions, Tokenizer};
use crate::values::Threads;
use crate::{decimal, shown};

/// A run whose options agree and whose inputs exist. Its tokenizer comes next.
#[derive(Debug)]
pub struct FoundInputs<'s> {
    spec: &'s EncodeSpec,
    files: Vec<InputFile>,
    threads: Threads,
    shares: MemoryShares,
}

/// A run that is ready: everything is open, and nothing has been read.
pub struct OpenRun<'r> {
    spec: &'r EncodeSpec,
    tokenizer: &'r Tokenizer,
    job: Job,
    output: Output,
    timeline: Option<Timeline>,
}

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    /// The account of the run, also of a run that failed.
    pub summary: Summary,
    /// The failure; nothing was published then, unless only the timeline of [`EncodeRun::trace`] could not be written.
    pub failed: Option<Failed>,
    /// Notes for people, about the output.
    pub notes: Vec<String>,
    /// [`Summary`] as the JSON object that `windrow encode --json` prints.
    pub json: String,
    /// True if the output was abandoned.
    pub is_interrupted: bool,
}

impl EncodeSpec {
    /// Checks the options and finds the inputs. `note` takes notes for people.
    ///
    /// # Errors
    /// Options that contradict each other or the inputs, and inputs that do not exist.
    pub fn find(&self, mut note: impl FnMut(&str)) -> Result<FoundInputs<'_>, Failed> {
        let Self { job, run } = self;
        check(self)?;
        let takes_source = job.texts.all_text || !job.texts.ext.is_empty();
        let found = resolve(&run.inputs, &job.texts.resolving(takes_source))?;
        found.notes.iter().for_each(|it| note(it));
        let threads = run.threads.unwrap_or_else(|| Threads::usual(&mut note));
        check_fields(job, &found.files)?;
        chat::check(job, &found.files)?;
        let shares = MemoryShares::new(run.memory.bytes(), threads.workers());
        let readers = if run.readers.number() == 0 { threads.workers() } else { run.readers.number() };
        let shares = shares.with_readers(&found.files, readers);
        Ok(FoundInputs { spec: self, files: found.files, threads, shares })
    }
}

impl<'s> FoundInputs<'s> {
    /// Loads the tokenizer that the options name.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::load`], and [`LoadError::UnknownModel`].
    pub fn load(&self) -> Result<Tokenizer, LoadError> {
        let job = &self.spec.job;
        let load = LoadOptions {
            add_special_tokens: job.add_special_tokens,
            special_in_text: job.has_special_in_text(),
            engine: job.vocabulary.engine,
            cache_bytes: self.shares.cache_bytes,
            ..LoadOptions::default()
        };
        Tokenizer::load(job.vocabulary.name()?, &load)
    }

    /// Opens the inputs and the output. `tokenizer` comes from [`FoundInputs::load`], or treats special tokens as the options say.
    /// Abandoning `staging` ends the run.
    ///
    /// # Errors
    /// Tokens that the vocabulary does not have, a chat template that cannot be used, and files that cannot be created.
    pub fn open<'r>(
        self,
        tokenizer: &'r Tokenizer,
        staging: &Staging,
        mut note: impl FnMut(&str),
    ) -> Result<OpenRun<'r>, Failed>
    where
        's: 'r,
    {
        let EncodeSpec { job, run } = self.spec;
        // Only windrow's own engine lets all threads share a single long document.
        if tokenizer.delegated().is_some() {
            one_thread_each(&self.files, self.threads).iter().for_each(|it| note(it));
        }
        tokenizer.notes().iter().for_each(|it| note(it));
        let chat = chat::load(job, tokenizer, note)?;
        let output = OutputOptions {
            format: job.format,
            dtype: job.dtype,
            append_eos: eos(tokenizer, job)?,
            prepend_bos: bos(tokenizer, job)?,
            pack: pack(tokenizer, job)?,
            overwrite: run.overwrite,
            list_skipped: job.on_error == OnError::Skip,
            keep: job.keep.clone(),
            mask: chat.as_ref().is_some_and(Chat::has_mask),
            parts: job.selection.split.iter().map(|part| part.name.clone()).collect(),
            shard_bytes: job.shard_size.map(|size| size.bytes() as u64),
            resume: run.resume,
            ..OutputOptions::new(&run.output, tokenizer.vocab_size())
        };
        let named = [Some(Path::new(tokenizer.name())), job.chat.as_deref()].into_iter().flatten();
        let read: Vec<&Path> = self.files.iter().filter_map(InputFile::path).chain(named).collect();
        output.check_inputs(&read)?;
        if let Some(path) = run.trace.as_ref().filter(|path| output.owns(path)) {
            let message = format!("--trace: {} is one of the output files\nhint: pass another file", shown(path));
            return Err(Failed::usage(message));
        }
        let output = Output::create_in(&output, staging)?;
        let timeline = run.trace.as_ref().map(|path| Timeline::open(path, &read)).transpose()?;
        let job = Job {
            reading: job.clone(),
            threads: self.threads.number(),
            memory: self.shares.documents,
            readers: run.readers.number(),
            chunk_bytes: run.chunk_bytes.bytes(),
            chat,
            max_skipped: run.max_skipped,
            trace: timeline.is_some(),
            ..Job::new(self.files)
        };
        Ok(OpenRun { spec: self.spec, tokenizer, job, output, timeline })
    }
}

impl OpenRun<'_> {
    /// Bytes of all inputs as stored, if all are known.
    pub fn stored(&self) -> Option<u64> {
        self.job.inputs.iter().map(InputFile::bytes).sum()
    }

    /// The number of threads that encode.
    pub fn workers(&self) -> usize {
        self.spec.run.threads.unwrap_or_default().workers()
    }

    /// Records the times of each batch in each stage, in [`Summary::trace`].
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.job.trace = true;
        self
    }

    /// Encodes everything.
    pub fn encode(self, observer: &dyn Observer) -> Ended {
        let Self { spec, tokenizer, job, output, timeline } = self;
        // Special tokens that the texts of an earlier run have named do not count.
        tokenizer.take_named_text();
        let (summary, error) = match encode(job, tokenizer, output, observer) {
            Ok(summary) => (summary, None),
            Err(failed) => (failed.summary, Some(failed.error)),
        };
        let is_interrupted =
            matches!(&error, Some(EncodeError::Output(error)) if error.kind() == OutputErrorKind::Interrupted);
        let mut failed = error.map(Failed::from);
        if let Some(Err(unwritten)) = timeline.map(|timeline| timeline.write(summary.trace.as_ref())) {
            failed.get_or_insert(unwritten);
        }
        let has_named_text = tokenizer.take_named_text();
        let notes = summary::notes(&summary, spec, has_named_text);
        let error = failed.as_ref().map(|failed| failed.message.as_str());
        let json = summary::json(&summary, spec, tokenizer.name(), error);
        Ended { summary, failed, notes, json, is_interrupted }
    }
}

impl Threads {
    /// The number of threads if none is requested. The environment variable of Hugging Face's `tokenizers` applies, with the same values.
    pub fn usual(mut note: impl FnMut(&str)) -> Self {
        const SWITCH: &str = "TOKENIZERS_PARALLELISM";
        match env::var(SWITCH) {
            Ok(value) if is_off(&value) => {
                note(&format!("only one thread encodes, because {SWITCH} is {value:?} (--threads N takes precedence)"));
                Self::ONE
            }
            _ => Self::default(),
        }
    }
}

/// True if `tokenizers` reads a value as false.
fn is_off(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "" | "off" | "false" | "f" | "no" | "n" | "0")
}

/// Refuses options that contradict each other.
fn check(EncodeSpec { job, run }: &EncodeSpec) -> Result<(), Failed> {
    check_texts(&job.texts)?;
    OutputOptions { format: job.format, ..OutputOptions::new(&run.output, 0) }.check_prefix()?;
    check_rows(job, run)?;
    let Selection { seed, sample, split, shuffle, .. } = &job.selection;
    let chooses = sample.is_some() || !split.is_empty();
    let (stops, packs, renders) = (job.on_error == OnError::Fail, job.pack.is_some(), job.chat.is_some());
    // Options without an effect, and the option that is missing.
    let idle = [
        (run.max_skipped.is_some() && stops, "--max-skipped", "--on-error skip"),
        (seed.is_some() && !chooses, "--seed", "--sample or --split"),
        (job.pad.is_some() && !packs, "--pad", "--pack N"),
        (job.pack_mode != PackMode::default() && !packs, "--pack-mode", "--pack N"),
        (job.loss.is_some() && !renders, "--loss", "--chat"),
        (job.chat_date.is_some() && !renders, "--chat-date", "--chat"),
    ];
    if let Some((_, option, missing)) = idle.iter().find(|(is_idle, ..)| *is_idle) {
        let message = format!("{option} has no effect without {missing}\nhint: pass {missing} too, or omit {option}");
        return Err(Failed::usage(message));
    }
    let message = match () {
        () if shuffle.is_some() && run.resume => {
            "a run with --shuffle cannot be resumed: its first shard is complete only when everything is encoded\n\
             hint: omit --resume or --shuffle"
        }
        () if !job.selection.is_whole() => {
            "--split: the shares of the parts do not add up to 1\nhint: pass shares such as train=0.98,val=0.02"
        }
        () => return Ok(()),
    };
    Err(Failed::usage(message))
}

/// Refuses options of texts that contradict each other.
pub(super) fn check_texts(texts: &Texts) -> Result<(), Failed> {
    let has_fields = [(input::Format::Jsonl, "jsonl"), (input::Format::Parquet, "parquet")];
    if let Some((_, format)) = has_fields.iter().find(|(format, _)| texts.input_format == Some(*format)) {
        for (option, given) in [("--lines", texts.lines), ("--all-text", texts.all_text)] {
            if given {
                return Err(Failed::usage(format!(
                    "{option} cannot be combined with --input-format {format}\nhint: omit one of them"
                )));
            }
        }
    }
    if texts.join.is_some() && texts.field.len() < 2 {
        return Err(Failed::usage("--join has no effect with fewer than two fields\nhint: pass --field several times"));
    }
    Ok(())
}

/// Refuses rows for which there is no memory: those that are complete and on their way to the files, or all that wait for documents.
fn check_rows(job: &EncodeJob, run: &EncodeRun) -> Result<(), Failed> {
    let Some(length) = job.pack else { return Ok(()) };
    let rows = if job.pack_mode == PackMode::Whole { Pack::OPEN_ROWS } else { 4 };
    let bytes = length.get() as u128 * (4 * rows * job.selection.split.len().max(1)) as u128;
    if bytes <= run.memory.bytes() as u128 {
        return Ok(());
    }
    let more = match u64::try_from(bytes) {
        Ok(bytes) if bytes < 1 << 44 => format!(", or pass --memory {}M", bytes.div_ceil(1 << 20)),
        _ => String::new(),
    };
    Err(Failed::usage(format!(
        "--pack {length}: {rows} rows of this length need more memory than --memory allows\nhint: use shorter rows{more}"
    )))
}

/// Refuses options of fields that contradict each other or the inputs.
fn check_fields(job: &EncodeJob, files: &[InputFile]) -> Result<(), Failed> {
    for (number, name) in job.keep.iter().enumerate() {
        if job.keep[..number].contains(name) {
            return Err(Failed::usage(format!("--keep lists {name:?} twice\nhint: remove one of them")));
        }
    }
    let has_fields = |file: &&InputFile| !matches!(file.format(), input::Format::Text | input::Format::Lines);
    match files.iter().find(|file| !has_fields(file)) {
        Some(file) if !job.keep.is_empty() => {
            let name = shown(file.name());
            let message = format!("{name}: text has no fields for --keep\nhint: omit --keep or the file");
            Err(Failed::usage(message))
        }
        _ => Ok(()),
    }
}

/// Size, 256 chunks, above which a text file that is one document gets a note.
const LARGE: u64 = 256 * Job::CHUNK_BYTES as u64;

/// A note about large documents: one thread encodes each of them while the other threads wait.
fn one_thread_each(files: &[InputFile], threads: Threads) -> Option<String> {
    let threads = threads.workers();
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
    let size = decimal(largest.bytes().unwrap_or(0));
    let name = shown(largest.name());
    let others = match large.len() - 1 {
        0 => String::new(),
        others => format!(" (and {others} more like it)"),
    };
    Some(format!(
        "{name} is a single document of {size}{compressed}{others}: only one of {threads} threads encodes it; \
         pass --lines to make each line a document, or split the file"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_of_tokenizers_is_read_as_there() {
        for off in ["", "0", "false", "False", "FALSE", "f", "no", "N", "off", "Off"] {
            assert!(is_off(off), "{off}");
        }
        for on in ["1", "true", "TRUE", "yes", "on", "2", " false"] {
            assert!(!is_off(on), "{on}");
        }
    }
}

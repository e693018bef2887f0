//! Tokens per file and in total.

use std::ffi::OsString;

use serde::{Deserialize, Deserializer, Serialize};
use windrow::Pool;

use super::failure::Failed;
use super::lines::Lines;
use super::open::check_texts;
use super::spec::{DEFAULT_MEMORY, from_json};
use super::summary::{JSON_ON_STDIN, note_pointers};
use crate::encode::{Counting, EncodeError, Job, MemoryShares, Observer, count};
use crate::input::{Format, InputError, InputFile, InputOptions, Resolved, resolve};
use crate::spec::{EncodeJob, Texts, Vocabulary};
use crate::tokenizer::{LoadError, LoadOptions, Tokenizer};
#[cfg(feature = "schema")]
use crate::values::schemas::Strings;
use crate::values::{Size, Threads, one_or_several};

/// The field of JSON lines and the column of Parquet files, if none is named.
const FIELD: &str = "text";

/// A run of `windrow count`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountSpec {
    /// Files, directories (the files below them, except hidden ones and those that .gitignore names), quoted patterns, or `-` for stdin,
    /// which is also read if it is a pipe and no input is given. JSON lines and Parquet are counted by document, and .gz, .zst, .xz and .bz2
    /// are decompressed; everything else is text.
    #[serde(deserialize_with = "paths")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(value_name = "INPUT"))]
    pub inputs: Vec<OsString>,

    /// The vocabulary.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten))]
    pub vocabulary: Vocabulary,

    /// Print the N files with the most tokens, and the total of all files.
    #[cfg_attr(feature = "command", arg(long, value_name = "N"))]
    pub top: Option<usize>,

    /// The texts.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten))]
    pub texts: Texts,

    /// Count the raw bytes of each file, as one text.
    #[cfg_attr(feature = "command", arg(long, conflicts_with_all = ["lines", "field", "join", "input_format", "ext", "all_text"]))]
    pub raw: bool,

    /// Number of threads that count; auto: as many as CPU affinity and quota allow.
    #[cfg_attr(feature = "command", arg(long, value_name = "auto|N", default_value = "auto"))]
    pub threads: Threads,

    /// Memory budget of the run, such as 512M; the tokenizer is not included.
    #[cfg_attr(feature = "command", arg(long, value_name = "SIZE", default_value = "1G"))]
    pub memory: Size,
}

impl Default for CountSpec {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            vocabulary: Vocabulary::default(),
            top: None,
            texts: Texts::default(),
            raw: false,
            threads: Threads::default(),
            memory: DEFAULT_MEMORY,
        }
    }
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<OsString>, D::Error> {
    Ok(one_or_several(deserializer)?.into_iter().map(OsString::from).collect())
}

/// A count whose options agree and whose inputs are found. Its tokenizer comes next.
#[derive(Debug)]
pub struct FoundTexts<'s> {
    spec: &'s CountSpec,
    found: Resolved,
}

/// The end of a count.
#[derive(Debug)]
pub struct CountEnded {
    /// The object of `windrow count --json`, or the lines that were held back until the end.
    pub text: String,
    /// Notes for people.
    pub notes: Vec<String>,
    /// Failures of inputs that have no count; the others are counted.
    pub failed: Vec<Failed>,
}

impl CountSpec {
    /// Reads the options from JSON.
    ///
    /// # Errors
    /// An error that names the option that is unknown or has a wrong value.
    pub fn from_json(json: &str) -> Result<Self, Failed> {
        from_json(json)
    }

    /// Checks the options and finds the inputs.
    ///
    /// # Errors
    /// Options that contradict each other. Inputs that do not exist are failures of their own.
    pub fn find(&self) -> Result<FoundTexts<'_>, Failed> {
        check_texts(&self.texts)?;
        if self.raw
            && (Texts { special_in_text: false, hidden: false, no_ignore: false, ..self.texts.clone() })
                != Texts::default()
        {
            return Err(Failed::usage(
                "--raw cannot be combined with options that define what a document is\nhint: omit --raw or those options",
            ));
        }
        // With a format that only corpora have, or with extensions, a directory stands for the files that `encode` takes.
        let is_corpus = matches!(self.texts.input_format, Some(Format::Jsonl | Format::Parquet));
        let resolving = InputOptions {
            others_are_text: !is_corpus && self.texts.ext.is_empty() && !self.texts.all_text,
            raw: self.raw,
            lists_failures: true,
            ..self.texts.resolving(!is_corpus)
        };
        Ok(FoundTexts { spec: self, found: resolve(&self.inputs, &resolving)? })
    }

    fn shares(&self) -> MemoryShares {
        MemoryShares::new(self.memory.bytes(), self.threads.workers())
    }
}

impl FoundTexts<'_> {
    /// Bytes of all inputs as stored, if all are known.
    pub fn stored(&self) -> Option<u64> {
        self.found.files.iter().map(InputFile::bytes).sum()
    }

    /// Notes for people, about the inputs.
    pub fn notes(&self) -> &[String] {
        &self.found.notes
    }

    /// Loads the tokenizer that the options name.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::load`], and [`LoadError::UnknownModel`].
    pub fn load(&self) -> Result<Tokenizer, LoadError> {
        let load = LoadOptions {
            special_in_text: self.spec.texts.special_in_text,
            engine: self.spec.vocabulary.engine,
            cache_bytes: self.spec.shares().cache_bytes,
            ..LoadOptions::default()
        };
        Tokenizer::load(self.spec.vocabulary.name()?, &load)
    }

    /// Counts all inputs. `print` gets each line that need not wait, and may end the run by returning false. Threads call `goes_on` repeatedly, and
    /// its `false` ends the run too.
    ///
    /// # Errors
    /// [`EncodeError::Stopped`], and failures that concern no single input.
    pub fn count(
        self,
        tokenizer: &Tokenizer,
        as_json: bool,
        observer: &dyn Observer,
        goes_on: &(dyn Fn() -> bool + Sync),
        mut print: impl FnMut(&str) -> bool + Send,
    ) -> Result<CountEnded, EncodeError> {
        let Self { spec, found } = self;
        let run = move || {
            let mut failed: Vec<Failed> = found.failed.into_iter().map(Failed::from).collect();
            let formats: Vec<Format> = found.files.iter().map(InputFile::format).collect();
            let mut lines = Lines::new(spec.top, as_json, &found.files, failed.len());
            let memory = spec.shares().with_readers(&found.files, found.files.len()).documents;
            let reading = EncodeJob { texts: spec.texts.clone(), ..EncodeJob::default() };
            let job = Job { reading, memory, ..Job::new(found.files) };
            // A named field or format means documents.
            let may_be_text = spec.texts.field.is_empty() && spec.texts.input_format.is_none();
            let counting = Counting { may_be_text, observer, goes_on };
            let noticed = count(job, tokenizer, &counting, &mut |at, counted| match counted {
                Ok(counted) => lines.add(at, counted).is_none_or(|line| print(&line)),
                Err(EncodeError::Input(InputError::Binary { .. })) if lines.skip(at) => true,
                Err(error) => {
                    let message = message(&error, formats[at]);
                    failed.push(Failed { message, ..Failed::from(error) });
                    true
                }
            })?;
            let mut notes = lines.notes(FIELD);
            notes.extend(note_pointers(&noticed.pointers));
            if noticed.stdin_looks_like_json_lines && !spec.raw && !spec.texts.all_text {
                notes.push(JSON_ON_STDIN.to_owned());
            }
            Ok(CountEnded { text: lines.finish(tokenizer.name(), &failed), notes, failed })
        };
        if spec.threads.number() == 0 { run() } else { Pool::new(spec.threads.number()).install(run) }
    }
}

/// The fault of an input, and its remedy.
fn message(error: &EncodeError, format: Format) -> String {
    let EncodeError::Document(document) = error else { return error.to_string() };
    document.message(match format {
        Format::Text | Format::Lines | Format::Warc => "convert it: iconv -t UTF-8",
        Format::Jsonl => "fix it, or count the file as plain text with --input-format text",
        Format::Parquet => "fix it, or omit the file",
    })
}

//! The options of a run, as one value.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failed;
use super::values::{Size, Threads, TokenName, extensions, number_or_text, one_or_several, parts};
use crate::chat::{Date, Loss};
use crate::encode::{Job, MaxSkipped};
use crate::input::{self, InputOptions, WalkOptions};
use crate::manifest::{OnError, PackMode, PartShare, ReadOptions, Selection, Share};
use crate::output::{Dtype, Format};
use crate::tokenizer::{EngineChoice, LoadError, vocabulary_of};

#[cfg(feature = "command")]
use super::command::{named, unescaped};
#[cfg(feature = "command")]
use super::values::extension;
#[cfg(feature = "schema")]
use super::values::schemas::{Day, FilePath, Shares, Strings};

/// The vocabulary when none is named.
const DEFAULT: &str = "o200k_base";

/// A run of `windrow encode`: options that decide the bytes of the output, and those that do not.
///
/// ```
/// use windrow_tokenizers::run::EncodeSpec;
///
/// let spec = r#"{"job": {"tokenizer": "gpt2", "split": {"train": 0.9, "val": 0.1}}, "run": {"inputs": ["corpus"], "output": "gpt"}}"#;
/// let spec: EncodeSpec = serde_json::from_str(spec)?;
/// assert_eq!(spec.job.split.len(), 2);
/// assert!(serde_json::from_str::<EncodeSpec>(r#"{"job": {"tokeniser": "gpt2"}, "run": {}}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeSpec {
    /// What decides the bytes.
    #[serde(default)]
    pub job: EncodeJob,
    /// All else.
    pub run: EncodeRun,
}

impl EncodeSpec {
    /// Reads it from JSON: an object with the objects `job` and `run`.
    ///
    /// # Errors
    /// Names the option that is none, or whose value is wrong.
    pub fn from_json(json: &str) -> Result<Self, Failed> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parts {
            job: Box<RawValue>,
            run: Box<RawValue>,
        }
        let Parts { job, run } = from_json(json)?;
        Ok(Self { job: EncodeJob::from_json(job.get())?, run: from_json(run.get())? })
    }
}

impl EncodeJob {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// Names the option that is none, or whose value is wrong.
    pub fn from_json(json: &str) -> Result<Self, Failed> {
        from_json(json)
    }
}

/// Reads options from JSON. An error names the option.
pub(super) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, Failed> {
    let fault = |error: &serde_json::Error| {
        let message = error.to_string();
        // The place in the JSON is none that the caller has written.
        message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
    };
    let error = match serde_json::from_str(json) {
        Ok(options) => return Ok(options),
        Err(error) => error,
    };
    let options: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    // The one that cannot be read without the others, either.
    for (name, value) in options {
        let single = format!("{{{}:{value}}}", Value::from(name.as_str()));
        if let Err(error) = serde_json::from_str::<T>(&single) {
            let fault = fault(&error);
            return Err(Failed::usage(if fault.contains(&name) { fault } else { format!("{name}: {fault}") }));
        }
    }
    Err(Failed::usage(fault(&error)))
}

/// The vocabulary of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vocabulary {
    /// An OpenAI model, such as gpt-4o, gpt-4, gpt-oss-20b or text-embedding-3-small.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", conflicts_with = "tokenizer"))]
    pub model: Option<String>,

    /// A vocabulary (gpt2, p50k_base, cl100k_base, o200k_base, o200k_harmony), the name of a model in the Hub's cache, or the path of a
    /// tokenizer.json or .tiktoken file [default: o200k_base].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME|PATH"))]
    pub tokenizer: Option<String>,

    /// The engine that encodes; all give the same ids.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", value_enum, default_value_t))]
    pub engine: EngineChoice,
}

impl Vocabulary {
    /// The name or path of the tokenizer.
    ///
    /// # Errors
    /// [`LoadError::UnknownModel`].
    pub fn name(&self) -> Result<&str, LoadError> {
        match &self.model {
            Some(model) => vocabulary_of(model),
            None => Ok(self.tokenizer.as_deref().unwrap_or(DEFAULT)),
        }
    }

    /// The name in a summary: the tokenizer's name or path, or the model if no vocabulary is known for it.
    pub fn shown(&self) -> &str {
        self.name().unwrap_or_else(|_| self.model.as_deref().unwrap_or(DEFAULT))
    }
}

/// The texts of the inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Texts {
    /// Treat every line of a text file as a document.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long))]
    pub lines: bool,

    /// The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is the field b in the object a. Several are
    /// joined [default: text; of a conversation messages].
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, visible_alias = "column", value_name = "NAME"))]
    pub field: Vec<String>,

    /// Separator of the texts of several fields; \n, \t and \\ are escapes [default: \n].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, value_name = "TEXT", value_parser = unescaped))]
    pub join: Option<String>,

    /// Recognize special tokens that are written in a text, such as <|endoftext|>. Without it they are plain text.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long))]
    pub special_in_text: bool,

    /// Format of all inputs, regardless of their extensions. Stdin is text without it; with jsonl, .json files of directories are read
    /// too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, value_enum))]
    pub input_format: Option<input::Format>,

    /// Additional extensions of text, such as rs,py,c.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "extensions")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, value_name = "EXT,...", value_delimiter = ',', value_parser = extension))]
    pub ext: Vec<String>,

    /// Treat all files as text, regardless of their extensions; files of directories that are not text are passed over.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long))]
    pub all_text: bool,

    /// Read hidden files and folders of directories, too: .git, _temporary.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long))]
    pub hidden: bool,

    /// Read files of directories that .gitignore and similar files name, too. In a corpus they are always read.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long))]
    pub no_ignore: bool,
}

impl Texts {
    /// Rules by which inputs are found. Ignore files count for source code, because build output is not source code. They do not for corpora,
    /// which may be in a folder that git ignores.
    pub fn resolving(&self, takes_source: bool) -> InputOptions {
        InputOptions {
            lines: self.lines,
            format: self.input_format,
            extensions: self.ext.clone(),
            all_text: self.all_text,
            walk: WalkOptions {
                hidden: self.hidden,
                source: takes_source,
                ignore_files: takes_source && !self.no_ignore,
            },
            ..InputOptions::default()
        }
    }

    /// Rules by which records become texts, of the field with this name if none is given.
    pub fn reading(&self, field: &str) -> ReadOptions {
        ReadOptions {
            field: self.field.first().cloned().unwrap_or_else(|| field.to_owned()),
            more_fields: self.field.iter().skip(1).cloned().collect(),
            join: if self.field.len() > 1 { self.join.clone().unwrap_or_else(|| "\n".into()) } else { String::new() },
            lines: self.lines,
            special_in_text: self.special_in_text,
            ..ReadOptions::default()
        }
    }
}

/// The options of [`EncodeSpec`] that decide the bytes of the output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EncodeJob {
    /// The vocabulary.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten, next_help_heading = "Tokenizer"))]
    pub vocabulary: Vocabulary,

    /// Layout of the output.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", default_value = Format::Npy.name(),
        value_parser = named::<Format, _>(Format::ALL.map(Format::name))))]
    pub format: Format,

    /// Type of the ids; by default the size of the vocabulary decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_parser = named::<Dtype, _>(Dtype::ALL.map(Dtype::name))))]
    pub dtype: Option<Dtype>,

    /// The token that ends a document, by its name or its id; known for the embedded vocabularies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "TOKEN|ID"))]
    pub eos: Option<TokenName>,

    /// Append the token that ends a document to every document; nanogpt always does.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub append_eos: bool,

    /// Begin every document with this token, given by its name or its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "TOKEN|ID"))]
    pub bos: Option<TokenName>,

    /// The texts.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten, next_help_heading = "Input"))]
    pub texts: Texts,

    /// Fields or columns to carry along: in OUT.kept.jsonl, a line per document; as columns with arrow and parquet. A comma in a name is
    /// written as \,.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "NAME,..."))]
    pub keep: Vec<String>,

    /// Take the messages of JSON lines as conversations, and render them by a chat template: that beside the tokenizer.json, or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "auto|FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = EncodeJob::AUTO))]
    #[cfg_attr(feature = "schema", schemars(with = "FilePath"))]
    pub chat: Option<PathBuf>,

    /// The tokens that count in training. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or
    /// column mask.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_enum, requires = "chat"))]
    pub loss: Option<Loss>,

    /// The day that a chat template sees as today.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "displayed", deserialize_with = "date")]
    #[cfg_attr(feature = "schema", schemars(with = "Day"))]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "YYYY-MM-DD", requires = "chat"))]
    pub chat_date: Option<Date>,

    /// What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Input", value_enum, default_value_t))]
    pub on_error: OnError,

    /// Maximum number of documents to skip, or a percentage of those read. If all are bad, the run always fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Input", value_name = "N|P%"))]
    pub max_skipped: Option<MaxSkipped>,

    /// End with the document that is the N-th good one; what follows is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Selection", value_name = "N"))]
    pub limit: Option<NonZeroU64>,

    /// Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Selection", value_name = "P|P%"))]
    pub sample: Option<Share>,

    /// Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares add up to 1.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "parts")]
    #[cfg_attr(feature = "schema", schemars(with = "Shares"))]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Selection", value_name = "NAME=P,...", value_delimiter = ','))]
    pub split: Vec<PartShare>,

    /// Write the documents in another order, which depends on this number. They wait on the disk of OUT if they do not fit in --memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Selection", value_name = "SEED"))]
    pub shuffle: Option<u64>,

    /// Another number chooses other documents for --sample, and for the parts of --split [default: 0].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Selection", value_name = "S"))]
    pub seed: Option<u64>,

    /// Make rows of N ids of the documents, one after the other, for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy tell
    /// where the documents are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "N"))]
    pub pack: Option<NonZeroUsize>,

    /// How documents become rows: cut at the end of a row, or whole, unless longer than a row.
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", default_value = PackMode::Split.name(), requires = "pack",
        value_parser = named::<PackMode, _>(PackMode::ALL.map(PackMode::name))))]
    pub pack_mode: PackMode,

    /// The token that fills incomplete rows, by its name or its id. Without it, the incomplete row at the end is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "TOKEN|ID", requires = "pack"))]
    pub pad: Option<TokenName>,

    /// Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each is
    /// complete by itself, and no document is divided. The format mds always has shards, of 64MiB by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "SIZE"))]
    pub shard_size: Option<Size>,

    /// Add the tokens that the template of a tokenizer.json puts around a document, such as [CLS] and [SEP].
    #[serde(skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub add_special_tokens: bool,
}

impl EncodeJob {
    /// The value of [`EncodeJob::chat`] that stands for the tokenizer's own template.
    pub const AUTO: &str = "auto";
}

/// The options of [`EncodeSpec`] that do not change the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EncodeRun {
    /// Files, directories, quoted patterns, or `-` for stdin: .txt .text .md .jsonl .ndjson, plain or .gz .zst .zstd .xz .bz2; .parquet. With the
    /// feature object-store also s3://, gs:// and https:// URLs; one that ends with / is a directory.
    #[serde(deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(value_name = "INPUT", required = true))]
    pub inputs: Vec<String>,

    /// Prefix of the files to write: out/corpus becomes out/corpus.ids.npy and so on.
    #[cfg_attr(feature = "command", arg(short, long, help_heading = "Output", value_name = "OUT"))]
    pub output: PathBuf,

    /// Threads that encode; auto: as many as affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "auto|N"))]
    pub threads: Option<Threads>,

    /// Memory budget of the run, such as 512M; the tokenizer comes on top.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "SIZE", default_value = "1G"))]
    pub memory: Size,

    /// Replace existing files, once the new ones are complete.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub overwrite: bool,

    /// Continue behind the last finished shard of an interrupted run with the same inputs and options, if there was one. Needs
    /// --shard-size, but for mds.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run"))]
    pub resume: bool,

    /// Write when each batch was in each stage, as a timeline for Perfetto or Chrome.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "FILE"))]
    #[cfg_attr(feature = "schema", schemars(with = "FilePath"))]
    pub trace: Option<PathBuf>,

    /// Inputs that are read at the same time; auto: as many as pay.
    #[cfg_attr(feature = "command", arg(long, hide = true, value_name = "auto|N", default_value = "auto"))]
    pub readers: Threads,

    /// Bytes of documents that a thread claims at a time.
    #[cfg_attr(feature = "command", arg(long, hide = true, value_name = "SIZE", default_value_t = DEFAULT_CHUNK))]
    pub chunk_bytes: Size,
}

pub(super) const DEFAULT_CHUNK: Size = Size::new(Job::CHUNK_BYTES).unwrap();
pub(super) const DEFAULT_MEMORY: Size = Size::new(Job::MEMORY).unwrap();

impl Default for EncodeRun {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            output: PathBuf::new(),
            threads: None,
            memory: DEFAULT_MEMORY,
            overwrite: false,
            resume: false,
            trace: None,
            readers: Threads::default(),
            chunk_bytes: DEFAULT_CHUNK,
        }
    }
}

impl EncodeJob {
    /// Whether special tokens that are written in a text are recognized: a chat template writes some.
    pub fn has_special_in_text(&self) -> bool {
        self.texts.special_in_text || self.chat.is_some()
    }

    /// Which documents are chosen. The seed is part of the manifest if it matters.
    pub(crate) fn selection(&self) -> Selection {
        let seed = (self.sample.is_some() || !self.split.is_empty()).then(|| self.seed.unwrap_or(0));
        let Self { limit, sample, shuffle, .. } = *self;
        Selection { limit, sample, split: self.split.clone(), shuffle, seed }
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn displayed<S: serde::Serializer>(date: &Option<Date>, serializer: S) -> Result<S::Ok, S::Error> {
    date.map(|date| date.to_string()).serialize(serializer)
}

fn date<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    number_or_text(deserializer).map(Some)
}

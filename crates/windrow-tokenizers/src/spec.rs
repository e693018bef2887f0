//! The options that decide the output of a run. The command, Python and Node set them, and a manifest records them.

#[cfg(feature = "command")]
pub(crate) mod command;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::chat::{Date, Loss};
use crate::format::{Dtype, Format};
use crate::input::{self, Fields, InputOptions, WalkOptions};
use crate::pack::{Pack, PackMode};
use crate::selection::Selection;
use crate::tokenizer::{EngineChoice, LoadError, vocabulary_of};
use crate::values::{NumberOrText, Size, TokenName, extensions, one_or_several};

#[cfg(feature = "command")]
use crate::values::extension;
#[cfg(feature = "schema")]
use crate::values::schemas::{Day, FilePath, Strings};
#[cfg(feature = "command")]
use command::{named, unescaped};

/// The default vocabulary.
const DEFAULT: &str = "o200k_base";

/// The vocabulary of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vocabulary {
    /// An OpenAI model, such as gpt-4o, gpt-4, gpt-oss-20b or text-embedding-3-small.
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", conflicts_with = "tokenizer"))]
    pub model: Option<String>,

    /// A vocabulary (gpt2, p50k_base, cl100k_base, o200k_base, o200k_harmony), the name of a model in the Hub's cache, or the path to a
    /// tokenizer.json or .tiktoken file [default: o200k_base].
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME|PATH"))]
    pub tokenizer: Option<String>,

    /// The engine that encodes; all produce the same ids.
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
    #[cfg_attr(feature = "command", arg(long))]
    pub lines: bool,

    /// The field of a JSON line, or the column of a Parquet file, that holds the text; a.b is field b of object a. Several fields
    /// are joined [default: text; for conversations, messages].
    #[serde(deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, visible_alias = "column", value_name = "NAME"))]
    pub field: Vec<String>,

    /// Separator of the texts of several fields [default: a line break]. On the command line, \n, \t and \\ are escapes.
    #[cfg_attr(feature = "command", arg(long, value_name = "TEXT", value_parser = unescaped))]
    pub join: Option<String>,

    /// Recognize special tokens that appear in a text, such as <|endoftext|>. Without this option, they are plain text.
    #[cfg_attr(feature = "command", arg(long))]
    pub special_in_text: bool,

    /// Format of all inputs, regardless of their extensions. Without this option, stdin is read as text. With jsonl, .json files in
    /// directories are also read.
    #[cfg_attr(feature = "command", arg(long, value_enum))]
    pub input_format: Option<input::Format>,

    /// Additional extensions of text files, such as rs,py,c.
    #[serde(deserialize_with = "extensions")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, value_name = "EXT,...", value_delimiter = ',', value_parser = extension))]
    pub ext: Vec<String>,

    /// Treat all files as text, regardless of their extensions; non-text files in directories are ignored.
    #[cfg_attr(feature = "command", arg(long))]
    pub all_text: bool,

    /// Also read hidden files and folders in directories, such as .git and _temporary.
    #[cfg_attr(feature = "command", arg(long))]
    pub hidden: bool,

    /// Also read files in directories that .gitignore and similar files exclude. In a corpus, such files are always read.
    #[cfg_attr(feature = "command", arg(long))]
    pub no_ignore: bool,
}

impl Texts {
    /// Rules for finding inputs. Ignore files count for source code, because build output is not source code. They do not for corpora,
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
}

/// The options of a run that decide the bytes of its output: the `options` of its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EncodeJob {
    /// The vocabulary.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten, next_help_heading = "Tokenizer"))]
    pub vocabulary: Vocabulary,

    /// Layout of the output.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", default_value = Format::Npy.name(),
        value_parser = named::<Format, _>(Format::ALL.map(Format::name))))]
    pub format: Format,

    /// Type of the ids; by default, it follows from the size of the vocabulary.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_parser = named::<Dtype, _>(Dtype::ALL.map(Dtype::name))))]
    pub dtype: Option<Dtype>,

    /// The token that ends a document, by name or id; the embedded vocabularies have a default.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "TOKEN|ID"))]
    pub eos: Option<TokenName>,

    /// Append the token that ends a document to every document; nanogpt always does.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub append_eos: bool,

    /// Begin every document with this token, given by name or id.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "TOKEN|ID"))]
    pub bos: Option<TokenName>,

    /// The texts.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten, next_help_heading = "Input"))]
    pub texts: Texts,

    /// Fields or columns to keep: in OUT.kept.jsonl, one line per document, or as columns with arrow and parquet. On the command
    /// line, a comma in a name is written as \,.
    #[serde(deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "NAME,..."))]
    pub keep: Vec<String>,

    /// Treat the messages in JSON lines or Parquet as conversations, and render them with a chat template: the one next to the
    /// tokenizer.json, or a file.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "auto|FILE", num_args = 0..=1, require_equals = true,
        default_missing_value = EncodeJob::AUTO))]
    #[cfg_attr(feature = "schema", schemars(with = "FilePath"))]
    pub chat: Option<PathBuf>,

    /// The tokens that contribute to the training loss. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or
    /// column named mask.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_enum, requires = "chat"))]
    pub loss: Option<Loss>,

    /// The date that a chat template uses as today's date.
    #[serde(serialize_with = "displayed", deserialize_with = "date")]
    #[cfg_attr(feature = "schema", schemars(with = "Day"))]
    #[cfg_attr(
        feature = "command",
        arg(long, help_heading = "Training", value_name = "YYYY-MM-DD", requires = "chat")
    )]
    pub chat_date: Option<Date>,

    /// What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Input", value_enum, default_value_t))]
    pub on_error: OnError,

    /// The documents.
    #[serde(flatten)]
    #[cfg_attr(feature = "command", command(flatten, next_help_heading = "Selection"))]
    pub selection: Selection,

    /// Pack the documents, one after the other, into rows of N ids for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy record
    /// where the documents are.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "N"))]
    pub pack: Option<NonZeroUsize>,

    /// How documents become rows: cut at the end of a row, or whole, unless longer than a row.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", default_value = PackMode::Split.name(), requires = "pack",
        value_parser = named::<PackMode, _>(PackMode::ALL.map(PackMode::name))))]
    pub pack_mode: PackMode,

    /// The token that fills incomplete rows, by name or id. Without it, the incomplete row at the end is dropped.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Training", value_name = "TOKEN|ID", requires = "pack"))]
    pub pad: Option<TokenName>,

    /// Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each shard
    /// is complete in itself, and no document is divided. The mds format always uses shards, of 64MiB by default.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output", value_name = "SIZE"))]
    pub shard_size: Option<Size>,

    /// Add the tokens that the template of a tokenizer.json puts around a document, such as BERT's CLS and SEP.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub add_special_tokens: bool,
}

impl EncodeJob {
    /// The value of [`EncodeJob::chat`] for the tokenizer's own template.
    pub const AUTO: &str = "auto";

    /// True if special tokens that are written in a text are recognized: a chat template writes some.
    pub fn has_special_in_text(&self) -> bool {
        self.texts.special_in_text || self.chat.is_some()
    }

    /// The relevant fields of the inputs.
    ///
    /// ```
    /// use windrow_tokenizers::run::EncodeJob;
    ///
    /// let job: EncodeJob = serde_json::from_str(r#"{"field": ["title", "body"]}"#)?;
    /// assert_eq!(job.fields().text, ["title", "body"]);
    /// assert_eq!(EncodeJob::default().fields().text, ["text"]);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn fields(&self) -> Fields {
        let Texts { field, join, .. } = &self.texts;
        let usual = if self.chat.is_some() { "messages" } else { "text" };
        let text = if field.is_empty() { vec![usual.to_owned()] } else { field.clone() };
        let join = if text.len() > 1 { join.clone().unwrap_or_else(|| "\n".to_owned()) } else { String::new() };
        Fields { text, join, keep: self.keep.clone(), conversations: self.chat.is_some() }
    }

    /// The conversion of documents to rows, with the id of the padding; none without rows.
    pub(crate) fn rows(&self) -> Option<Pack> {
        let pad = self.pad.as_ref().and_then(TokenName::id);
        self.pack.map(|length| Pack { length, mode: self.pack_mode, pad })
    }

    /// True if the ids have masks.
    pub(crate) fn has_mask(&self) -> bool {
        self.chat.is_some() && self.loss == Some(Loss::Assistant)
    }

    /// The same job, with explicit defaults for options that depend on other options.
    pub(crate) fn explicit(mut self) -> Self {
        let Fields { text, join, .. } = self.fields();
        self.texts.join = (text.len() > 1).then_some(join);
        self.texts.field = text;
        let has_choice = self.selection.sample.is_some() || !self.selection.split.is_empty();
        self.selection.seed = has_choice.then(|| self.selection.seed.unwrap_or(0));
        self
    }
}

/// The effect of a bad document on the run.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::manifest::OnError;
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
///
/// // The second line is bad.
/// let run = |on_error| {
///     let corpus = InputFile::from_reader("memory", &b"{\"text\": \"Hello\"}\n{}"[..], Format::Jsonl, None);
///     let mut job = Job::new(vec![corpus]);
///     job.reading.on_error = on_error;
///     let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 50_257))?;
///     Ok::<_, Box<dyn std::error::Error>>(encode(job, &tokenizer, output, &())?.documents)
/// };
/// assert!(run(OnError::Fail).is_err());
/// assert_eq!(run(OnError::Skip)?.skipped, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnError {
    /// The bad document ends the run; nothing is published.
    #[default]
    Fail,
    /// The bad document is skipped, counted and listed.
    Skip,
}

fn displayed<S: serde::Serializer>(date: &Option<Date>, serializer: S) -> Result<S::Ok, S::Error> {
    date.map(|date| date.to_string()).serialize(serializer)
}

fn date<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    Option::<NumberOrText>::deserialize(deserializer)?.map(NumberOrText::parse).transpose()
}

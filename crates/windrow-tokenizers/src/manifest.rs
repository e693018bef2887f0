//! The record beside the token files: what was read, how, and what became of it.
//!
//! It contains no time, no thread count and no absolute path that windrow adds. So two runs over the same inputs with the same options
//! write the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chat::{ChatIdentity, Loss};
use crate::document::fault::without_hint;
use crate::format::{Dtype, Format};
use crate::input::Fields;
pub use crate::pack::{Pack, PackMode, Packed};
pub use crate::selection::{PartShare, Selection, Share};
use crate::shown;

/// The version of the layout below. It increases when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 2;

/// Maximum number of documents in [`Manifest::skipped`].
pub const SKIPPED_IN_MANIFEST: usize = 1000;

/// The contents of `OUT.manifest.json`.
///
/// ```
/// use windrow_tokenizers::manifest::{Documents, Manifest, ManifestBody, SCHEMA};
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// output.append(&[7, 8, 9], &[1, 3])?;
/// let documents = Documents { read: 2, written: 2, ..Documents::default() };
/// let path = output.publish(ManifestBody { documents, ..ManifestBody::default() })?.manifest;
/// let manifest: Manifest = serde_json::from_str(&std::fs::read_to_string(path)?)?;
/// assert_eq!((manifest.schema, manifest.tokens, manifest.documents), (SCHEMA, 3, documents));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`] of the writing version.
    pub schema: u32,
    /// The version of windrow.
    pub windrow: String,
    /// The engine that encoded the text.
    pub engine: Engine,
    /// The vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// The options.
    pub options: Options,
    /// The inputs, in order.
    pub inputs: Vec<InputFile>,
    /// The account of documents.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
    /// Ids written, end-of-text ids included, without those that fill rows.
    pub tokens: u64,
    /// Special tokens that stood in the texts: ids of special tokens, without those of `--add-special-tokens`, `--bos` and
    /// `--append-eos`, nor of a chat template. The token for what is unknown does not count. Manifests of older versions have none.
    #[serde(default)]
    pub special_tokens: u64,
    /// Ids whose mask is 1; none without masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_tokens: Option<u64>,
    /// Written documents none of whose ids has a mask of 1; none without masks, and in manifests of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_without_loss: Option<u64>,
    /// The rows of a packed output, of all parts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// The parts of a divided output, in order; none if it is not divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The data files, in the order of [`Format::suffixes`], part by part and shard by shard; then `OUT.skipped.jsonl`, the list of all skipped documents, if it was
    /// requested.
    pub outputs: Vec<OutputFile>,
    /// blake3 of the outputs' hashes, 32 bytes each, one after the other, in hexadecimal: one hash for all data. Manifests of older
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs_blake3: Option<String>,
    /// The first [`SKIPPED_IN_MANIFEST`] skipped documents, in input order.
    pub skipped: Vec<SkippedDocument>,
}

/// The value of [`Manifest::outputs_blake3`].
pub(crate) fn root_of(outputs: &[OutputFile]) -> String {
    let mut hasher = blake3::Hasher::new();
    for output in outputs {
        // A hash that is none changes the result, so it is noticed.
        let hash = blake3::Hash::from_hex(&output.blake3).map_or([0; 32], Into::into);
        hasher.update(&hash);
    }
    hasher.finalize().to_hex().to_string()
}

/// The part of a [`Manifest`] that the caller of the output provides.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::manifest::{Documents, ManifestBody};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// output.append(&[7, 8], &[2])?;
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// output.publish(ManifestBody { documents, text_bytes: 11, ..ManifestBody::default() })?;
/// assert_eq!(Dataset::open(&prefix)?.manifest().text_bytes, 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestBody {
    /// The engine that encoded the text.
    pub engine: Engine,
    /// The vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// How the inputs were read and encoded.
    pub reading: ReadOptions,
    /// The inputs, in order.
    pub inputs: Vec<InputFile>,
    /// The account of documents. [`Documents::is_balanced`] holds, and `written` is the number of documents that the output got.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
    /// Special tokens that stood in the texts.
    pub special_tokens: u64,
    /// Written documents none of whose ids has a mask of 1; `None` without masks.
    pub documents_without_loss: Option<u64>,
}

/// An encoding engine and the versions of its parts.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let dataset = Dataset::open(&prefix)?;
/// let engine = &dataset.manifest().engine;
/// assert!(engine.versions.contains_key(&engine.name), "{engine:?}");
/// assert!(engine.versions.contains_key("windrow-tokenizers"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Version by crate.
    pub versions: BTreeMap<String, String>,
}

/// Which vocabulary was used.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let dataset = Dataset::open(&prefix)?;
/// let identity = &dataset.manifest().tokenizer;
/// assert_eq!((identity.name.as_str(), identity.vocab_size), (tokenizer.name(), 50_257));
/// assert_eq!(identity.blake3, tokenizer.hash());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerIdentity {
    /// The name of an embedded vocabulary, or the path as given.
    pub name: String,
    /// blake3 of its definition, in hexadecimal.
    pub blake3: String,
    /// Largest id + 1.
    pub vocab_size: u32,
}

/// Options that determine the output.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// use windrow_tokenizers::output::{Dtype, Format, Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let dataset = Dataset::open(&prefix)?;
/// let options = &dataset.manifest().options;
/// assert_eq!((options.format, options.dtype, options.eos), (Format::Npy, Some(Dtype::U16), None));
/// assert_eq!(options.reading.field, "text");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Layout of the data files.
    pub format: Format,
    /// Element type of the ids; none if they are text.
    pub dtype: Option<Dtype>,
    /// The id with which each document begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bos: Option<u32>,
    /// The id appended to each document.
    pub eos: Option<u32>,
    /// Bytes of token data with which a shard ends; none for an output without shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_bytes: Option<u64>,
    /// How documents became rows; none if they did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<Pack>,
    /// How the inputs were read and encoded.
    #[serde(flatten)]
    pub reading: ReadOptions,
}

impl Options {
    /// Whether the ids have masks.
    pub(crate) fn has_mask(&self) -> bool {
        self.reading.chat.as_ref().is_some_and(|chat| chat.loss == Loss::Assistant)
    }
}

/// Options for reading and encoding.
///
/// ```
/// use windrow_tokenizers::encode::Job;
/// use windrow_tokenizers::manifest::{OnError, ReadOptions};
///
/// let mut job = Job::new(Vec::new());
/// job.reading = ReadOptions { field: "body".into(), on_error: OnError::Skip, ..job.reading };
/// assert!(job.reading.special_in_text, "the other options of a job are unchanged");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The field of a JSON line, or the column of a Parquet file, that holds the text; the first of several.
    pub field: String,
    /// The others of them, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_fields: Vec<String>,
    /// What stands between the texts of two of them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub join: String,
    /// The fields whose values are carried to the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// How rows are conversations, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatIdentity>,
    /// Whether each line of a text file is a document.
    pub lines: bool,
    /// The effect of a bad document on the run.
    pub on_error: OnError,
    /// Whether the tokenizer's own template adds special tokens.
    pub add_special_tokens: bool,
    /// Whether special tokens that are written in the text are recognized.
    pub special_in_text: bool,
    /// Which documents are wanted.
    #[serde(flatten)]
    pub selection: Selection,
}

impl ReadOptions {
    /// The fields of the inputs that matter.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::ReadOptions;
    ///
    /// let more_fields = vec!["body".to_owned()];
    /// let reading = ReadOptions { field: "title".into(), more_fields, join: "\n".into(), ..ReadOptions::default() };
    /// assert_eq!(reading.fields().text, ["title", "body"]);
    /// ```
    pub fn fields(&self) -> Fields {
        let text = [&self.field].into_iter().chain(&self.more_fields).cloned().collect();
        Fields { text, join: self.join.clone(), keep: self.keep.clone() }
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
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
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
    /// It ends the run; nothing is published.
    #[default]
    Fail,
    /// It is skipped, counted and listed.
    Skip,
}

/// One input.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let dataset = Dataset::open(&prefix)?;
/// let input = &dataset.manifest().inputs[0];
/// assert_eq!((input.name.as_str(), input.bytes, input.documents, input.tokens), ("memory", 18, 3, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path as given or found, `-` for standard input.
    pub name: String,
    /// Number of bytes as stored.
    pub bytes: u64,
    /// Number of bytes after decompression; equal to `bytes` if it is not compressed. Of Parquet, the bytes of the texts.
    pub decompressed_bytes: u64,
    /// blake3 of its bytes as stored, in hexadecimal.
    pub blake3: String,
    /// Documents read from it, good and bad.
    pub documents: u64,
    /// UTF-8 bytes of text in those of them that were written. Manifests of older versions have none, nor `tokens`.
    #[serde(default)]
    pub text_bytes: u64,
    /// Ids of these documents, those that begin and end a document included, before they are packed.
    #[serde(default)]
    pub tokens: u64,
    /// The line, of Parquet the row, with whose document the [limit](Selection::limit) was reached. The rest was not read, so the sizes are 0
    /// and the hash is empty. Inputs behind it are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

/// The account of documents: `read = written + skipped + failed + left_out`.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let documents = Dataset::open(&prefix)?.manifest().documents;
/// assert_eq!((documents.read, documents.written, documents.skipped), (3, 3, 0));
/// assert!(documents.is_balanced());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Documents {
    /// Found in the inputs.
    pub read: u64,
    /// Encoded and written.
    pub written: u64,
    /// Skipped on request, and listed.
    pub skipped: u64,
    /// Dropped without being listed: 0 in every published manifest of a run that ended by itself.
    pub failed: u64,
    /// Not chosen, and therefore not parsed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Documents {
    /// Whether no document was lost or counted twice.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::Documents;
    ///
    /// let documents = Documents { read: 3, written: 2, ..Documents::default() };
    /// assert!(!documents.is_balanced(), "one is lost");
    /// assert!(Documents { skipped: 1, ..documents }.is_balanced());
    /// ```
    pub fn is_balanced(&self) -> bool {
        let parts = [self.written, self.skipped, self.failed, self.left_out];
        parts.into_iter().try_fold(0u64, u64::checked_add) == Some(self.read)
    }
}

/// A skipped document and its place.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::manifest::{Documents, ManifestBody, SkippedDocument};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// let skipped = SkippedDocument { file: "a.jsonl".into(), line: 7, byte: 1, offset: 120, reason: "not an object".into() };
/// output.skip(skipped.clone())?;
/// let documents = Documents { read: 1, skipped: 1, ..Documents::default() };
/// output.publish(ManifestBody { documents, ..ManifestBody::default() })?;
/// assert_eq!(Dataset::open(&prefix)?.manifest().skipped, [skipped]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedDocument {
    /// The name of its input.
    pub file: String,
    /// Its line, from 1; of Parquet the row.
    pub line: u64,
    /// The offending byte within the line, from 1.
    pub byte: u64,
    /// Where the line starts in the decompressed input, in bytes from 0; of Parquet the rows before it.
    pub offset: u64,
    /// Why it was skipped.
    pub reason: String,
}

impl SkippedDocument {
    /// A message of two lines: the place and the reason, and what helps, which is `hint` unless the reason has a better one.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::SkippedDocument;
    ///
    /// let mut bad = SkippedDocument { file: "a.jsonl".into(), line: 7, byte: 1, offset: 120, reason: "not an object".into() };
    /// assert_eq!(bad.message("repair it"), "a.jsonl:7:1: not an object\nhint: repair it");
    /// bad.reason.push_str(" (hint: jq)");
    /// assert_eq!(bad.message("repair it"), "a.jsonl:7:1: not an object\nhint: jq");
    /// ```
    pub fn message(&self, hint: &str) -> String {
        let Self { file, line, byte, reason, .. } = self;
        let (reason, better) = without_hint(reason);
        format!("{}:{line}:{byte}: {}\nhint: {}", shown(file), shown(&reason), shown(better.unwrap_or(hint)))
    }
}

/// A part of a divided output.
///
/// ```
/// use windrow_tokenizers::manifest::{Documents, ManifestBody};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let parts = vec!["train".to_owned(), "test".to_owned()];
/// let mut output = Output::create(&OutputOptions { parts, ..OutputOptions::new(&prefix, 300) })?;
/// output.append(&[7, 8], &[2])?; // to the first part
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// let parts = output.publish(ManifestBody { documents, ..ManifestBody::default() })?.parts;
/// assert_eq!((parts[0].name.as_str(), parts[0].tokens, parts[0].files), ("train", 2, 2));
/// assert_eq!((parts[1].name.as_str(), parts[1].tokens), ("test", 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Documents written to it.
    pub documents: u64,
    /// Ids written to it, those around documents included.
    pub tokens: u64,
    /// The rows of a packed output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// The number of its files, which follow those of the parts before.
    pub files: usize,
}

/// One data file.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], InputFormat::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// # encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
///
/// // Three lines were encoded with gpt2: "Hello world", an empty one, and "Hello".
/// let dataset = Dataset::open(&prefix)?;
/// let ids = &dataset.manifest().outputs[0];
/// assert_eq!((ids.file.as_str(), ids.dtype.as_deref()), ("corpus.ids.npy", Some("u16")));
/// assert_eq!(ids.bytes, std::fs::metadata(prefix.with_file_name(&ids.file))?.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its name, beside the manifest.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// The type of its elements, for files that are one array.
    pub dtype: Option<String>,
    /// blake3 of its bytes, in hexadecimal.
    pub blake3: String,
}

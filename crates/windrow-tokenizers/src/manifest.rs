//! The record next to the token files: the inputs, the options and the outcome of a run.
//!
//! The record contains no time and no thread count, and windrow adds no absolute path. So two runs over the same inputs with the same options
//! write the same bytes.

mod versions;

use std::collections::BTreeMap;

use serde::ser::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use self::versions::AnyOptions;
use crate::chat::ChatIdentity;
use crate::document::fault::without_hint;
pub use crate::pack::{Pack, PackMode, Packed};
pub use crate::selection::{PartShare, Selection, Share};
use crate::shown;
pub use crate::spec::{EncodeJob, OnError};

/// The version of the layout below. It increases when a field changes its meaning or is removed.
pub const SCHEMA: u32 = 3;

/// Maximum number of documents in [`Manifest::skipped`].
pub const SKIPPED_IN_MANIFEST: usize = 1000;

/// The contents of `OUT.manifest.json`.
///
/// ```
/// use windrow_tokenizers::manifest::{Documents, Manifest, SCHEMA};
/// use windrow_tokenizers::output::{Output, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// output.append(&[7, 8, 9], &[1, 3])?;
/// let documents = Documents { read: 2, written: 2, ..Documents::default() };
/// let path = output.publish(Manifest { documents, ..Manifest::default() })?.manifest;
/// let manifest: Manifest = serde_json::from_str(&std::fs::read_to_string(path)?)?;
/// assert_eq!((manifest.schema, manifest.tokens, manifest.documents), (SCHEMA, 3, documents));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`] of the windrow version that wrote the manifest.
    pub schema: u32,
    /// The version of windrow.
    pub windrow: String,
    /// The engine that encoded the text.
    pub engine: Engine,
    /// The vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// The conversion of text to conversations, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatIdentity>,
    /// The options, with ids and other values that the run determined: `windrow encode --spec` repeats it.
    #[serde(serialize_with = "sparse", deserialize_with = "options")]
    pub options: EncodeJob,
    /// The inputs, in order.
    pub inputs: Vec<InputFile>,
    /// The account of documents.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
    /// Ids written, including end-of-text ids, without padding.
    pub tokens: u64,
    /// Special tokens that stood in the texts: ids of special tokens, except those of `--add-special-tokens`, `--bos`,
    /// `--append-eos` and a chat template. The token for unknown text does not count. Manifests of older versions have none.
    #[serde(default)]
    pub special_tokens: u64,
    /// Number of ids whose mask is 1; none without masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_tokens: Option<u64>,
    /// Number of written documents without an id whose mask is 1; none without masks, and in manifests of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents_without_loss: Option<u64>,
    /// The rows of a packed output, summed over all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// The parts of a divided output, in order; none if it is not divided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The data files, in the order of [`Format::suffixes`](crate::output::Format::suffixes), part by part and shard by shard; then
    /// `OUT.skipped.jsonl`, the list of all skipped documents, if it was requested.
    pub outputs: Vec<OutputFile>,
    /// blake3 of the outputs' hashes, 32 bytes each, concatenated, in hexadecimal: one hash for all data. Manifests of older
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs_blake3: Option<String>,
    /// The first [`SKIPPED_IN_MANIFEST`] skipped documents, in input order.
    pub skipped: Vec<SkippedDocument>,
}

/// Writes the options that are not the defaults.
pub(crate) fn sparse<S: Serializer>(options: &EncodeJob, serializer: S) -> Result<S::Ok, S::Error> {
    let json = |job: &EncodeJob| serde_json::to_value(job).map_err(S::Error::custom);
    let (mut all, usual) = (json(options)?, json(&EncodeJob::default())?);
    all.as_object_mut().into_iter().for_each(|all| all.retain(|name, value| usual[name] != *value));
    all.serialize(serializer)
}

/// Reads the options of a manifest of any version.
pub(crate) fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EncodeJob, D::Error> {
    AnyOptions::deserialize(deserializer).map(|options| options.0)
}

/// The value of [`Manifest::outputs_blake3`].
pub(crate) fn root_of(outputs: &[OutputFile]) -> String {
    let mut hasher = blake3::Hasher::new();
    for output in outputs {
        // An invalid hash changes the result, so it is noticed.
        let hash = blake3::Hash::from_hex(&output.blake3).map_or([0; 32], Into::into);
        hasher.update(&hash);
    }
    hasher.finalize().to_hex().to_string()
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
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
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

/// The identity of a vocabulary.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
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
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
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
    /// Number of bytes after decompression; equal to `bytes` if it is not compressed. For Parquet, the bytes of the texts.
    pub decompressed_bytes: u64,
    /// blake3 of its bytes as stored, in hexadecimal.
    pub blake3: String,
    /// Number of documents read from it, good and bad.
    pub documents: u64,
    /// UTF-8 bytes of text in its written documents. Manifests of older versions have neither this field nor `tokens`.
    #[serde(default)]
    pub text_bytes: u64,
    /// Number of ids of these documents before packing, including the ids that begin and end a document.
    #[serde(default)]
    pub tokens: u64,
    /// The line (for Parquet, the row) of the document that reached the [limit](Selection::limit). The rest was not read, so the sizes are 0
    /// and the hash is empty. Inputs after it are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

/// The account of documents: `read = written + skipped + failed + deselected`.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format as InputFormat, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
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
    /// Number of documents found in the inputs.
    pub read: u64,
    /// Number of documents encoded and written.
    pub written: u64,
    /// Number of documents skipped on request, and listed.
    pub skipped: u64,
    /// Number of documents dropped without being listed: 0 in every published manifest of a run that was not stopped.
    pub failed: u64,
    /// Number of deselected documents, which are not parsed.
    #[serde(rename = "left_out", default, skip_serializing_if = "is_zero")]
    pub deselected: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Documents {
    /// True if no document was lost or counted twice.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::Documents;
    ///
    /// let documents = Documents { read: 3, written: 2, ..Documents::default() };
    /// assert!(!documents.is_balanced(), "one is lost");
    /// assert!(Documents { skipped: 1, ..documents }.is_balanced());
    /// ```
    pub fn is_balanced(&self) -> bool {
        let parts = [self.written, self.skipped, self.failed, self.deselected];
        parts.into_iter().try_fold(0u64, u64::checked_add) == Some(self.read)
    }
}

/// A skipped document and its place.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::manifest::{Documents, Manifest, SkippedDocument};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// let skipped = SkippedDocument { file: "a.jsonl".into(), line: 7, byte: 1, offset: 120, reason: "not an object".into() };
/// output.skip(skipped.clone())?;
/// let documents = Documents { read: 1, skipped: 1, ..Documents::default() };
/// output.publish(Manifest { documents, ..Manifest::default() })?;
/// assert_eq!(Dataset::open(&prefix)?.manifest().skipped, [skipped]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedDocument {
    /// The name of its input.
    pub file: String,
    /// Its line, from 1; for Parquet, the row.
    pub line: u64,
    /// The offending byte within the line, from 1.
    pub byte: u64,
    /// Start of the line in the decompressed input, in bytes from 0; for Parquet, the number of rows before it.
    pub offset: u64,
    /// The reason for the skip.
    pub reason: String,
}

impl SkippedDocument {
    /// A message of two lines: the place with the reason, and the remedy: `hint`, unless the reason has a better one.
    ///
    /// ```
    /// use windrow_tokenizers::manifest::SkippedDocument;
    ///
    /// let mut bad = SkippedDocument { file: "a.jsonl".into(), line: 7, byte: 1, offset: 120, reason: "not an object".into() };
    /// assert_eq!(bad.message("fix it"), "a.jsonl:7:1: not an object\nhint: fix it");
    /// bad.reason.push_str(" (hint: jq)");
    /// assert_eq!(bad.message("fix it"), "a.jsonl:7:1: not an object\nhint: jq");
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
/// use windrow_tokenizers::manifest::{Documents, Manifest};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let parts = vec!["train".to_owned(), "test".to_owned()];
/// let mut output = Output::create(&OutputOptions { parts, ..OutputOptions::new(&prefix, 300) })?;
/// output.append(&[7, 8], &[2])?; // to the first part
/// let documents = Documents { read: 1, written: 1, ..Documents::default() };
/// let parts = output.publish(Manifest { documents, ..Manifest::default() })?.parts;
/// assert_eq!((parts[0].name.as_str(), parts[0].tokens, parts[0].files), ("train", 2, 2));
/// assert_eq!((parts[1].name.as_str(), parts[1].tokens), ("test", 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Number of documents written to it.
    pub documents: u64,
    /// Number of ids written to it, including the ids around documents.
    pub tokens: u64,
    /// The rows of a packed output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed: Option<Packed>,
    /// Number of its files, which follow the files of earlier parts.
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
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
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
    /// Its name, relative to the manifest.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The element type of a file that is a single array.
    pub dtype: Option<String>,
    /// blake3 of its bytes, in hexadecimal.
    pub blake3: String,
}

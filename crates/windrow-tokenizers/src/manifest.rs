//! The record that stands beside the token files: what was read, how, and what came of it.
//!
//! It holds no time, no thread count and no absolute path of its own making, so that two runs over the same inputs with
//! the same options write the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::output::{Dtype, Format};

/// The version of the layout below. It grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 2;

/// The most documents that [`Manifest::skipped`] lists.
pub const SKIPPED_IN_MANIFEST: usize = 1000;

/// Everything in `OUT.manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`SCHEMA`] of the writing version.
    pub schema: u32,
    /// The version of windrow.
    pub windrow: String,
    /// What encoded the text.
    pub engine: Engine,
    /// The vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// What was asked for.
    pub options: Options,
    /// What was read, in order.
    pub inputs: Vec<InputFile>,
    /// What became of the documents.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
    /// Ids written, end-of-text ids included.
    pub tokens: u64,
    /// The data files, in the order of [`Format::suffixes`]; then `OUT.skipped.jsonl`, which lists every document that was left out, if
    /// it was asked for.
    pub outputs: Vec<OutputFile>,
    /// The first [`SKIPPED_IN_MANIFEST`] documents that were left out, in input order.
    pub skipped: Vec<SkippedDocument>,
}

/// The part of a [`Manifest`] that the writing side does not know by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestBody {
    /// What encoded the text.
    pub engine: Engine,
    /// The vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// How the inputs were read and encoded.
    pub reading: ReadOptions,
    /// What was read, in order.
    pub inputs: Vec<InputFile>,
    /// What became of the documents. [`Documents::is_balanced`] holds, and `written` is what the output has got.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
}

/// An encoding engine and the versions of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Version by crate.
    pub versions: BTreeMap<String, String>,
}

/// Which vocabulary was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenizerIdentity {
    /// The name of an embedded vocabulary, or the path as given.
    pub name: String,
    /// blake3 of its definition, in hexadecimal.
    pub blake3: String,
    /// Largest id + 1.
    pub vocab_size: u32,
}

/// Options that decide what the output holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Layout of the data files.
    pub format: Format,
    /// Element type of the ids; none where they are text.
    pub dtype: Option<Dtype>,
    /// The id appended to each document.
    pub eos: Option<u32>,
    /// How the inputs were read and encoded.
    #[serde(flatten)]
    pub reading: ReadOptions,
}

/// Options of reading and encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The field of a JSON line that holds the text.
    pub field: String,
    /// Whether each line of a text file is a document.
    pub lines: bool,
    /// What a bad document does to the run.
    pub on_error: OnError,
    /// Whether the tokenizer's own template adds special tokens.
    pub add_special_tokens: bool,
    /// Whether special tokens that are written in the text are recognized.
    pub special_in_text: bool,
}

/// What a bad document does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// It ends the run; nothing is published.
    #[default]
    Fail,
    /// It is left out, counted and listed.
    Skip,
}

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path as given or found, `-` for the standard input.
    pub name: String,
    /// Its bytes as stored.
    pub bytes: u64,
    /// Its bytes after decompression; equal to `bytes` if it is not compressed.
    pub decompressed_bytes: u64,
    /// blake3 of its bytes as stored, in hexadecimal.
    pub blake3: String,
    /// Documents read from it, good and bad.
    pub documents: u64,
}

/// The account of documents: `read = written + skipped + failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Documents {
    /// Found in the inputs.
    pub read: u64,
    /// Encoded and written.
    pub written: u64,
    /// Left out on request and listed.
    pub skipped: u64,
    /// Left out without being listed: 0 in every published manifest of a run that ended by itself.
    pub failed: u64,
}

impl Documents {
    /// Whether no document was lost or counted twice.
    pub fn is_balanced(&self) -> bool {
        let parts = [self.written, self.skipped, self.failed];
        parts.into_iter().try_fold(0u64, u64::checked_add) == Some(self.read)
    }
}

/// A document that was left out, and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedDocument {
    /// The name of its input.
    pub file: String,
    /// Its line, from 1.
    pub line: u64,
    /// The offending byte within the line, from 1.
    pub byte: u64,
    /// Where the line starts in the decompressed input, in bytes from 0.
    pub offset: u64,
    /// Why it was left out.
    pub reason: String,
}

/// One data file.
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

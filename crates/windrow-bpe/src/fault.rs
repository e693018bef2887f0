//! The reasons why an engine cannot be made, and why a text has no ids.

use thiserror::Error;

/// The reason why an engine cannot encode with a [`Definition`](crate::Definition).
///
/// ```
/// use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
///
/// let tokens = vec![(b"a".to_vec(), 0)];
/// let definition =
///     Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added: vec![], nfc: false };
/// assert!(BpeEngine::new(&definition, &EngineOptions::default()).is_err(), "the other bytes are no tokens");
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unsupported(String);

impl Unsupported {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A text has no ids.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("document {document}: {fault}")]
pub struct TextError {
    /// The number of the document in its batch.
    pub document: usize,
    /// The reason.
    pub fault: PieceFault,
}

/// The reason why a piece has no ids.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PieceFault {
    /// There was no memory; the number of bytes that could not be allocated.
    #[error("not enough memory: {0} more bytes are needed")]
    NoMemory(usize),
    /// The encoder returned an error.
    #[error("{0}")]
    Refused(String),
    /// The encoder panicked.
    #[error("the encoder panicked: {0}")]
    Panicked(String),
}

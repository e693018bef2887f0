//! Failures for the door of JavaScript, which makes an error of the right class from each.

use std::io::ErrorKind;

use napi_derive::napi;
use windrow_tokenizers::engine::{BatchError, DecodeBatchError, DecodeError, EngineError};
use windrow_tokenizers::run::{Failed, FailureKind};
use windrow_tokenizers::tokenizer::LoadError;

/// The reason why a call has no result.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Failure {
    /// Its kind, for which `lib/door.js` has a class.
    pub failure: &'static str,
    /// The failure, its place, and the remedy.
    pub message: String,
    /// The place of an item in its batch.
    pub item: Option<f64>,
}

impl Failure {
    fn new(failure: &'static str, message: impl Into<String>) -> Self {
        Self { failure, message: message.into(), item: None }
    }

    /// A file cannot be read.
    pub(crate) fn file(kind: ErrorKind, message: impl Into<String>) -> Self {
        let failure = match kind {
            ErrorKind::NotFound => "missing",
            ErrorKind::AlreadyExists => "exists",
            _ => "file",
        };
        Self::new(failure, message)
    }

    /// A tokenizer cannot be loaded, or cannot do the requested work.
    pub(crate) fn tokenizer(message: impl Into<String>) -> Self {
        Self::new("tokenizer", message)
    }

    /// The failure for a function that takes the names of vocabularies and no paths.
    pub(crate) fn of_names(mut self) -> Self {
        for (from, to) in [
            ("neither the name of a vocabulary nor a file", "not the name of a vocabulary"),
            ("the path to a tokenizer.json or .tiktoken file is also accepted", "Tokenizer.fromFile loads files"),
        ] {
            self.message = self.message.replace(from, to);
        }
        self
    }

    /// The text of a panic.
    pub(crate) fn panic(message: &str) -> Self {
        let hint = "hint: please report this, and include the backtrace that RUST_BACKTRACE=1 prints";
        Self::new("fault", format!("internal error in windrow: {message}\n{hint}"))
    }

    /// The call was stopped. JavaScript knows why.
    pub(crate) fn stopped() -> Self {
        Self::new("stopped", "stopped")
    }

    /// A text, a conversation or an option is bad.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new("input", message)
    }

    /// Anything else.
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Self::new("other", message)
    }

    /// The failure for a batch with `items` items before the ones that were processed.
    pub(crate) fn after(mut self, items: usize) -> Self {
        if let Some(item) = &mut self.item {
            *item += items as f64;
        }
        self
    }
}

impl From<BatchError> for Failure {
    fn from(BatchError { document, error }: BatchError) -> Self {
        let kind = if matches!(error, EngineError::NoMemory { .. }) { "memory" } else { "item" };
        Self { failure: kind, message: error.to_string(), item: Some(document as f64) }
    }
}

impl From<DecodeBatchError> for Failure {
    fn from(DecodeBatchError { document, error }: DecodeBatchError) -> Self {
        let kind = if matches!(error, DecodeError::NoMemory { .. }) { "memory" } else { "item" };
        Self { failure: kind, message: error.to_string(), item: Some(document as f64) }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        BatchError { document: 0, error }.into()
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        DecodeBatchError { document: 0, error }.into()
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Read { ref source, .. } => Self::file(source.kind(), error.to_string()),
            error => Self::tokenizer(error.to_string()),
        }
    }
}

impl From<Failed> for Failure {
    fn from(Failed { message, kind }: Failed) -> Self {
        match kind {
            FailureKind::Usage | FailureKind::BadInput => Self::new("input", message),
            FailureKind::Missing => Self::file(ErrorKind::NotFound, message),
            FailureKind::Io | FailureKind::CannotCreate => Self::file(ErrorKind::Other, message),
            FailureKind::Exists => Self::file(ErrorKind::AlreadyExists, message),
            FailureKind::Stopped => Self::stopped(),
            _ => Self::other(message),
        }
    }
}

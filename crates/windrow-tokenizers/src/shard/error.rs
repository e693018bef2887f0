//! Errors in reading a data set.

use std::fmt;
use std::io;
use std::path::Path;

use crate::shown;

/// The kinds of [`DatasetError`].
///
/// ```
/// use windrow_tokenizers::dataset::{Dataset, DatasetErrorKind};
///
/// let directory = tempfile::tempdir()?;
/// let error = Dataset::open(&directory.path().join("corpus")).unwrap_err();
/// assert_eq!(error.kind(), DatasetErrorKind::Missing);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatasetErrorKind {
    /// The manifest is missing.
    Missing,
    /// A file is missing, or differs from the written one.
    Damaged,
    /// The tokenizer is not the one that encoded the documents.
    OtherTokenizer,
    /// The system failed to read.
    Io,
}

/// A data set that cannot be read, with the file and the place. A second line `hint: ...` is the remedy.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("corpus.manifest.json"), "{}")?;
/// let error = Dataset::open(&directory.path().join("corpus")).unwrap_err();
/// assert!(error.to_string().contains("corpus.manifest.json:1:2: missing field"), "{error}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}\nhint: {hint}")]
pub struct DatasetError {
    kind: DatasetErrorKind,
    message: String,
    hint: &'static str,
}

impl DatasetError {
    pub(crate) fn new(kind: DatasetErrorKind, message: String) -> Self {
        Self { kind, message, hint: "copy the file again, or encode the documents again" }
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The error of a fault in a file.
    pub(crate) fn damaged(path: &Path, what: impl fmt::Display) -> Self {
        Self::new(DatasetErrorKind::Damaged, format!("{}: {}", shown(path), shown(&what.to_string())))
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::damaged(path, "it is missing"),
            io::ErrorKind::UnexpectedEof => Self::damaged(path, "it ends too early"),
            _ => {
                let message = format!("{}: cannot be read: {error}", shown(path));
                Self::new(DatasetErrorKind::Io, message).hint("check the file's permissions and the disk")
            }
        }
    }

    /// The kind of error.
    pub fn kind(&self) -> DatasetErrorKind {
        self.kind
    }
}

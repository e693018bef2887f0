//! Failures as exceptions. Each is an ordinary `Exception`; a panic of Rust is a `RuntimeError`.

use pyo3::exceptions::{PyFileNotFoundError, PyMemoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use windrow_tokenizers::engine::{BatchError, DecodeBatchError, EngineError};
use windrow_tokenizers::tokenizer::LoadError;

/// Why a call has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An item of a batch has no result.
    Item { item: usize, reason: String },
    /// There is no memory.
    Memory(String),
    /// A file cannot be read.
    File(std::io::ErrorKind, String),
    /// A tokenizer cannot be loaded, or not do what is asked of it.
    Tokenizer(String),
    /// An input or an option is bad.
    Input(String),
    /// What Python has raised.
    Python(PyErr),
    /// The text of a panic.
    Panic(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    pub(crate) fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Item { item, reason } => from_package(py, "ItemError", (item, reason)),
            Self::Tokenizer(message) => from_package(py, "TokenizerError", (message,)),
            Self::Input(message) => from_package(py, "InputError", (message,)),
            Self::Other(message) => from_package(py, "WindrowError", (message,)),
            Self::Python(error) => error,
            Self::Memory(message) => PyMemoryError::new_err(message),
            Self::File(std::io::ErrorKind::NotFound, message) => PyFileNotFoundError::new_err(message),
            Self::File(_, message) => PyOSError::new_err(message),
            Self::Panic(message) => {
                let hint = "hint: please report this, with what RUST_BACKTRACE=1 adds";
                PyRuntimeError::new_err(format!("windrow has a fault: {message}\n{hint}"))
            }
        }
    }
}

/// An exception of `windrow.errors`, which derives from several of Python's.
fn from_package<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = || py.import("windrow.errors")?.getattr(class)?.call1(arguments);
    made().map_or_else(|error| error, PyErr::from_value)
}

impl From<BatchError> for Failure {
    fn from(BatchError { document, error }: BatchError) -> Self {
        match error {
            EngineError::NoMemory { .. } => Self::Memory(format!("item {document}: {error}")),
            error => Self::Item { item: document, reason: error.to_string() },
        }
    }
}

impl From<DecodeBatchError> for Failure {
    fn from(DecodeBatchError { document, error }: DecodeBatchError) -> Self {
        Self::Item { item: document, reason: error.to_string() }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Read { ref source, .. } => Self::File(source.kind(), error.to_string()),
            error => Self::Tokenizer(error.to_string()),
        }
    }
}

//! Failures as exceptions. Each is an ordinary `Exception`; a panic of Rust is a `RuntimeError`.

use std::hint::black_box;

use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use windrow_tokenizers::engine::{BatchError, DecodeBatchError, DecodeError, EngineError};
use windrow_tokenizers::tokenizer::LoadError;

/// The reason why a call has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An item of a batch has no result.
    Item { item: usize, reason: String },
    /// There is no memory.
    Memory(String),
    /// A file cannot be read.
    File(std::io::ErrorKind, String),
    /// A tokenizer cannot be loaded, or cannot do the requested work.
    Tokenizer(String),
    /// An input or an option is bad.
    Input(String),
    /// An exception that Python has raised.
    Python(PyErr),
    /// The text of a panic.
    Panic(String),
    /// Anything else.
    Other(String),
}

/// Objects with fewer bytes are made without a check for memory.
const LARGE: usize = 256 << 10;

/// Bytes that a large object leaves to the small allocations around it.
const HEADROOM: usize = 4 << 20;

/// Bytes of an item of a list, with the vector from which the list is made: an integer, a small one, a pair of them, and the text of a token.
pub(crate) const INT: usize = 48;
pub(crate) const SMALL_INT: usize = 24;
pub(crate) const PAIR: usize = 160;
pub(crate) const TOKEN: usize = 128;

/// Fails with `MemoryError` if there is no memory for objects of Python and for their sources. An allocation that fails in between
/// ends the process, or panics.
pub(crate) fn ask_for(items: usize, bytes_each: usize) -> PyResult<()> {
    let bytes = items.saturating_mul(bytes_each);
    let mut trial = Vec::<u8>::new();
    if bytes > LARGE && trial.try_reserve_exact(bytes.saturating_add(HEADROOM)).is_err() {
        return Err(PyMemoryError::new_err(format!("no memory for {items} items of about {bytes_each} bytes")));
    }
    // Keeps the compiler from removing the allocation.
    black_box(trial);
    Ok(())
}

impl Failure {
    pub(crate) fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Item { item, reason } => from_package(py, "ItemError", (item, reason)),
            Self::Tokenizer(message) => from_package(py, "TokenizerError", (message,)),
            Self::Input(message) => from_package(py, "InputError", (message,)),
            Self::Other(message) => from_package(py, "WindrowError", (message,)),
            Self::Python(error) => error,
            Self::File(std::io::ErrorKind::AlreadyExists, message) => PyFileExistsError::new_err(message),
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

/// An exception of `windrow.errors`, which derives from several classes of Python.
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
        match error {
            DecodeError::NoMemory { .. } => Self::Memory(format!("item {document}: {error}")),
            error => Self::Item { item: document, reason: error.to_string() },
        }
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

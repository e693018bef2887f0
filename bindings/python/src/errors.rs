//! Failures as exceptions, which are made without the interpreter. Each is an ordinary `Exception`; a panic of Rust is a `RuntimeError`.

use std::io::ErrorKind;

use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use windrow_tokenizers::engine::{BatchError, DecodeBatchError, DecodeError, EngineError, has_headroom_and};
use windrow_tokenizers::tokenizer::LoadError;

pyo3::import_exception!(windrow.errors, InputError);
pyo3::import_exception!(windrow.errors, ItemError);
pyo3::import_exception!(windrow.errors, TokenizerError);
pyo3::import_exception!(windrow.errors, WindrowError);

/// Objects with fewer bytes are made without a check for memory.
const LARGE: usize = 256 << 10;

/// Bytes of an item of a list, with the vector from which the list is made: an integer, a small one, a pair of them, and the text of a token.
pub(crate) const INT: usize = 48;
pub(crate) const SMALL_INT: usize = 24;
pub(crate) const PAIR: usize = 160;
pub(crate) const TOKEN: usize = 128;

/// Fails with `MemoryError` if there is no memory for objects of Python and for their sources. An allocation that fails in between
/// ends the process, or panics.
pub(crate) fn ask_for(items: usize, bytes_each: usize) -> PyResult<()> {
    let bytes = items.saturating_mul(bytes_each);
    if bytes > LARGE && !has_headroom_and(bytes) {
        return Err(PyMemoryError::new_err(format!(
            "not enough memory for {items} items of about {bytes_each} bytes each"
        )));
    }
    Ok(())
}

/// A file that cannot be read or written.
pub(crate) fn of_file(kind: ErrorKind, message: String) -> PyErr {
    match kind {
        ErrorKind::AlreadyExists => PyFileExistsError::new_err(message),
        ErrorKind::NotFound => PyFileNotFoundError::new_err(message),
        _ => PyOSError::new_err(message),
    }
}

pub(crate) fn of_batch(BatchError { document, error }: BatchError) -> PyErr {
    match error {
        EngineError::NoMemory { .. } => PyMemoryError::new_err(format!("item {document}: {error}")),
        error => ItemError::new_err((document, error.to_string())),
    }
}

pub(crate) fn of_decoding(DecodeBatchError { document, error }: DecodeBatchError) -> PyErr {
    match error {
        DecodeError::NoMemory { .. } => PyMemoryError::new_err(format!("item {document}: {error}")),
        error => ItemError::new_err((document, error.to_string())),
    }
}

pub(crate) fn of_load(error: LoadError) -> PyErr {
    match error {
        LoadError::Read { ref source, .. } => of_file(source.kind(), error.to_string()),
        error => TokenizerError::new_err(error.to_string()),
    }
}

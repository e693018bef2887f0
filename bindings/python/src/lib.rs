//! The extension module of the Python package `windrow`.
//!
//! A thin layer: arguments of Python are checked and borrowed here, and all work runs in [`door::enter`]. There is no state between
//! calls except in the objects of Python.

mod arguments;
mod batcher;
mod call;
mod collector;
mod column;
mod door;
mod encoding;
mod errors;
mod files;
mod inputs;
mod ints;
mod lists;
mod profile;
mod ragged;
mod settings;
mod stream;
mod texts;
mod tokenizer;
mod vocabulary;
mod wording;

// Makes its allocator the global one of this module.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use std::sync::OnceLock;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use windrow_tokenizers::full::keep_library_serial;

/// Runs the command, which treats the process as its own, and returns the exit code. A separate binary in the wheel would contain a second
/// copy of the engines and vocabularies.
#[cfg(feature = "command")]
#[pyfunction]
fn run_command(py: Python<'_>, words: Vec<String>) -> u8 {
    py.detach(|| windrow_cli::run(words))
}

/// The types of this module are made once a process, and objects of two interpreters must not meet.
fn refuse_other_interpreters(module: &Bound<'_, PyModule>) -> PyResult<()> {
    static FIRST: OnceLock<usize> = OnceLock::new();
    // Each interpreter has its own `sys`.
    let interpreter = module.py().import("sys")?.as_ptr() as usize;
    if *FIRST.get_or_init(|| interpreter) == interpreter {
        return Ok(());
    }
    let hint = "hint: run other interpreters in separate processes";
    Err(PyImportError::new_err(format!(
        "windrow works in only one interpreter per process, and another interpreter already uses it\n{hint}"
    )))
}

/// tiktoken's name for the vocabulary of a model; `None` for a model that it does not know.
#[pyfunction]
fn encoding_name(model: &str) -> Option<&'static str> {
    windrow_tokenizers::tokenizer::encoding_name(model)
}

#[pymodule(gil_used = false)]
fn _windrow(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_other_interpreters(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // The library's threads would be missing in a forked process; windrow's pool does the work.
    keep_library_serial();
    module.add_class::<batcher::PyBatcher>()?;
    module.add_class::<column::Column>()?;
    module.add_class::<encoding::PyEncoding>()?;
    module.add_class::<stream::PyDecodeStream>()?;
    module.add_class::<door::PyStop>()?;
    module.add_class::<profile::PyProfile>()?;
    module.add_class::<ragged::PyRagged>()?;
    module.add_class::<tokenizer::PyTokenizer>()?;
    module.add_function(wrap_pyfunction!(files::encode_files, module)?)?;
    #[cfg(feature = "command")]
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(files::count, module)?)?;
    module.add_function(wrap_pyfunction!(encoding_name, module)?)
}

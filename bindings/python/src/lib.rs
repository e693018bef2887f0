//! The extension module of the Python package `windrow`.
//!
//! A thin layer: what Python passes is checked and borrowed here, and all work runs behind [`door::enter`]. There is no state between
//! calls but what the objects of Python hold.

mod column;
mod door;
mod errors;
mod ragged;
mod texts;
mod tokenizer;

// Makes its allocator the global one of this module.
#[cfg(feature = "mimalloc")]
use windrow_allocator as _;

use pyo3::prelude::*;

/// Runs the command, which treats the process as its own, and returns the exit code.
#[pyfunction]
fn run_command(py: Python<'_>, words: Vec<String>) -> u8 {
    py.detach(|| windrow_cli::run(words))
}

#[pymodule(gil_used = false)]
fn _windrow(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<column::Column>()?;
    module.add_class::<ragged::PyRagged>()?;
    module.add_class::<tokenizer::PyTokenizer>()?;
    module.add_function(wrap_pyfunction!(run_command, module)?)
}

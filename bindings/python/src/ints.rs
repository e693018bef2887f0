//! Ids as Python's integers.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// The integers of a batch, each made once: text repeats its tokens, and a further reference costs a fraction of another integer.
///
/// The lock is held for moments, by threads that hold the interpreter's lock.
pub(crate) struct Ints(Mutex<Vec<Option<Py<PyInt>>>>);

impl Ints {
    /// `None` if there are fewer ids than places in a table for all of them.
    pub(crate) fn of(ids: &[u32]) -> Option<Self> {
        let places = ids.iter().max().map_or(0, |&most| most as usize + 1);
        (ids.len() > places).then(|| Self(Mutex::new((0..places).map(|_| None).collect())))
    }

    /// A list of ids of the batch, and of others.
    pub(crate) fn list<'py>(
        this: Option<&Self>,
        py: Python<'py>,
        ids: impl ExactSizeIterator<Item = u32>,
    ) -> PyResult<Bound<'py, PyList>> {
        let Some(Self(made)) = this else { return PyList::new(py, ids) };
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        let int = |id: u32| match made.get_mut(id as usize) {
            Some(int) => int.get_or_insert_with(|| PyInt::new(py, id).unbind()).bind(py).clone(),
            None => PyInt::new(py, id),
        };
        PyList::new(py, ids.map(int))
    }
}

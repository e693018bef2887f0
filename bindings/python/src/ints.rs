//! Ids as Python's integers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

use crate::lists::{PIECE, Turns, list};

/// The integers of a batch, each made once: text repeats its tokens, and another reference costs a fraction of another integer.
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
        mut ids: impl ExactSizeIterator<Item = u32>,
    ) -> PyResult<Bound<'py, PyList>> {
        let Some(ints) = this else { return list(py, ids) };
        if ids.len() <= PIECE {
            let mut made = ints.made();
            return PyList::new(py, ids.map(|id| int(py, &mut made, id)));
        }
        let (list, mut turns) = (PyList::empty(py), Turns::new(py));
        while ids.len() > 0 {
            // Released before other threads have their turn: they may wait for it while they hold the interpreter.
            let mut made = ints.made();
            ids.by_ref().take(PIECE).try_for_each(|id| list.append(int(py, &mut made, id)))?;
            drop(made);
            turns.pass(PIECE, || Ok(()))?;
        }
        Ok(list)
    }

    fn made(&self) -> MutexGuard<'_, Vec<Option<Py<PyInt>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The integer of an id.
fn int<'py>(py: Python<'py>, made: &mut [Option<Py<PyInt>>], id: u32) -> Bound<'py, PyInt> {
    match made.get_mut(id as usize) {
        Some(int) => int.get_or_insert_with(|| PyInt::new(py, id).unbind()).bind(py).clone(),
        None => PyInt::new(py, id),
    }
}

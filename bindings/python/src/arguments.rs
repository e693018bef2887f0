//! Numbers that are passed as arguments: an error names the argument.

use std::fmt::Display;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};

/// The number in `value`, of an unsigned type. `name` is the name of the argument.
pub(crate) fn number<T: TryFrom<u64>>(name: &dyn Display, value: &Bound<'_, PyAny>) -> PyResult<T> {
    let number: Option<u64> = value.extract().ok();
    number.and_then(|number| number.try_into().ok()).map_or_else(
        || {
            if !value.hasattr("__index__")? {
                let found = value.get_type().name()?;
                return Err(PyTypeError::new_err(format!("{name} must be an int, not {found}")));
            }
            // Python refuses to print integers of thousands of digits.
            let shown = value.str().map_or_else(|_| "too large".to_owned(), |shown| shown.to_string());
            let most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
            Err(PyValueError::new_err(format!("{name} is {shown}, but must be from 0 to {most}")))
        },
        Ok,
    )
}

/// The items of the argument with this name.
pub(crate) fn several<'py>(name: &str, items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let found = items.get_type().name()?;
    if items.is_instance_of::<PyString>() || items.is_instance_of::<PyBytes>() {
        let hint = "hint: put it in a list";
        return Err(PyTypeError::new_err(format!("{name}: expected several items, not a single {found} ({hint})")));
    }
    items.try_iter().map_err(|error| match error.is_instance_of::<PyTypeError>(items.py()) {
        true => PyTypeError::new_err(format!("{name}: expected a list or another iterable, not {found}")),
        false => error,
    })
}

/// Functions for `from_py_with`, which have the names of their arguments.
macro_rules! numbers {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            number(&stringify!($name), value)
        })*
    };
}

/// The variants for arguments that may be `None`.
macro_rules! optional {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<Option<$type>> {
            if value.is_none() { Ok(None) } else { number(&stringify!($name), value).map(Some) }
        })*
    };
}

numbers! {
    char_pos: usize,
    id: u32,
    length: usize,
    max_length: usize,
    pad_id: u32,
    pad_type_id: u32,
    rows: u64,
    sequence_id: usize,
    sequence_index: usize,
    stride: usize,
    token_index: usize,
    word_index: u32,
}

pub(crate) mod optional {
    use super::*;

    optional! {
        length: usize,
        limit: usize,
        max_length: usize,
        pad_to_multiple_of: usize,
        queue: usize,
    }
}

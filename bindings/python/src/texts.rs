//! Texts and ids that Python passes: borrowed, not copied.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use pyo3_arrow::input::AnyArray;

use crate::column::Column;
use crate::errors::Failure;

/// A text, kept alive.
pub(crate) enum Item {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

/// The texts of a batch.
pub(crate) enum Texts {
    Items(Vec<Item>),
    /// Chunks of a column of Arrow.
    Columns(Vec<ArrayRef>),
}

impl Texts {
    /// What `texts` has: a list or another iterable of `str` or `bytes`, an array of numpy, or a column of strings of Arrow.
    pub(crate) fn of(texts: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(list) = texts.cast::<PyList>() {
            return Self::items(list.iter());
        }
        if let Ok(tuple) = texts.cast::<PyTuple>() {
            return Self::items(tuple.iter());
        }
        if texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err("expected several texts, not a single one (hint: put it into a list)"));
        }
        if texts.hasattr("__arrow_c_stream__")? || texts.hasattr("__arrow_c_array__")? {
            return Self::columns(texts);
        }
        if texts.hasattr("__array_interface__")? {
            return Self::of(&texts.call_method0("tolist")?);
        }
        let items: PyResult<Vec<_>> = texts.try_iter()?.collect();
        Self::items(items?.into_iter())
    }

    fn items<'py>(texts: impl ExactSizeIterator<Item = Bound<'py, PyAny>>) -> PyResult<Self> {
        let mut items = Vec::with_capacity(texts.len());
        for (number, text) in texts.enumerate() {
            items.push(Item::of(number, text)?);
        }
        Ok(Self::Items(items))
    }

    fn columns(texts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (chunks, field) = texts.extract::<AnyArray>()?.into_chunked_array()?.into_inner();
        match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(Self::Columns(chunks)),
            other => {
                let message = format!("expected a column of strings, not of {other} (hint: cast it to string)");
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// One of the texts of a list.
    pub(crate) fn str(&self, number: usize) -> Result<&str, Failure> {
        match self {
            Self::Items(items) => items[number].text(number),
            Self::Columns(_) => Ok(self.strs()?[number]),
        }
    }

    /// The texts themselves.
    pub(crate) fn strs(&self) -> Result<Vec<&str>, Failure> {
        match self {
            Self::Items(items) => items.iter().enumerate().map(|(number, item)| item.text(number)).collect(),
            Self::Columns(chunks) => {
                let mut texts = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
                for chunk in chunks {
                    if let Some(null) = chunk.nulls().and_then(|nulls| (0..nulls.len()).find(|&at| nulls.is_null(at))) {
                        let reason = "is null (hint: fill or drop nulls first)".to_owned();
                        return Err(Failure::Item { item: texts.len() + null, reason });
                    }
                    match chunk.data_type() {
                        DataType::Utf8 => texts.extend(chunk.as_string::<i32>().iter().flatten()),
                        DataType::LargeUtf8 => texts.extend(chunk.as_string::<i64>().iter().flatten()),
                        _ => texts.extend(chunk.as_string_view().iter().flatten()),
                    }
                }
                Ok(texts)
            }
        }
    }
}

impl Item {
    pub(crate) fn of(number: usize, text: Bound<'_, PyAny>) -> PyResult<Self> {
        let py = text.py();
        match text.cast_into::<PyString>() {
            Ok(text) => PyBackedStr::try_from(text).map(Self::Str).map_err(|error| not_unicode(py, number, error)),
            Err(other) => match other.into_inner().cast_into::<PyBytes>() {
                Ok(bytes) => Ok(Self::Bytes(bytes.into())),
                Err(other) => {
                    let name = other.into_inner().get_type().name()?;
                    Err(PyTypeError::new_err(format!("item {number}: expected str or bytes, not {name}")))
                }
            },
        }
    }

    pub(crate) fn text(&self, number: usize) -> Result<&str, Failure> {
        match self {
            Self::Str(text) => Ok(text),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|error| {
                let byte = error.valid_up_to();
                let reason =
                    format!("is not UTF-8 at byte {byte} (hint: decode it, with errors=\"replace\" if it must)");
                Failure::Item { item: number, reason }
            }),
        }
    }
}

/// The error of a `str` with half of a surrogate pair, which no UTF-8 has.
fn not_unicode(py: Python<'_>, number: usize, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyUnicodeEncodeError>(py) {
        return cause;
    }
    let start = cause.value(py).getattr("start").and_then(|start| start.extract::<usize>());
    let place = start.map_or(String::new(), |start| format!(" at character {start}"));
    let hint = "hint: text.encode(errors=\"replace\") makes a question mark of it";
    let reason = format!("has half of a surrogate pair{place}, which no UTF-8 has ({hint})");
    let error = Failure::Item { item: number, reason }.into_error(py);
    error.set_cause(py, Some(cause));
    error
}

/// Ids: a [`Column`], a list, or anything that can be made one.
pub(crate) fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Some(ids) = ids.cast::<Column>().ok().and_then(|column| column.get().ids()) {
        return Ok(ids.to_vec());
    }
    match ids.hasattr("__array_interface__")? {
        true => ids.call_method0("tolist")?.extract(),
        false => ids.try_iter()?.map(|id| id?.extract()).collect(),
    }
}

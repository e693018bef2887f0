//! Texts and ids that Python passes: borrowed, not copied.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use pyo3_arrow::input::AnyArray;

use crate::arguments::{number, several};
use crate::column::Column;
use crate::errors::ItemError;
use crate::lists::{Turns, objects_of_text};

/// Treatment of a text that is no Unicode: a `str` with half of a surrogate pair, or bytes that are not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    Strict,
    Replace,
}

impl Errors {
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "strict" => Ok(Self::Strict),
            "replace" => Ok(Self::Replace),
            other => Err(PyValueError::new_err(format!("errors must be \"strict\" or \"replace\", not {other:?}"))),
        }
    }
}

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
    /// The texts in `texts`: a list or another iterable of `str` or `bytes`, an array of numpy, or a column of strings of Arrow.
    pub(crate) fn of(texts: &Bound<'_, PyAny>, errors: Errors) -> PyResult<Self> {
        let py = texts.py();
        if let Ok(list) = texts.cast::<PyList>() {
            return Self::items(py, list.iter().map(Ok), errors);
        }
        if let Ok(tuple) = texts.cast::<PyTuple>() {
            return Self::items(py, tuple.iter().map(Ok), errors);
        }
        if texts.hasattr("__arrow_c_stream__")? || texts.hasattr("__arrow_c_array__")? {
            return Self::columns(texts);
        }
        if texts.hasattr("__array_interface__")? {
            return Self::of(&texts.call_method0("tolist")?, errors);
        }
        Self::items(py, several("texts", texts)?, errors)
    }

    fn items<'py>(
        py: Python<'py>,
        texts: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        errors: Errors,
    ) -> PyResult<Self> {
        let (mut items, mut turns) = (Vec::with_capacity(texts.size_hint().0), Turns::new(py));
        for (number, text) in texts.enumerate() {
            let item = Item::of(number, text?, errors)?;
            turns.read(item.objects())?;
            items.push(item);
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
    pub(crate) fn str(&self, number: usize) -> PyResult<&str> {
        match self {
            Self::Items(items) => items[number].text(number),
            Self::Columns(_) => Ok(self.strs()?[number]),
        }
    }

    /// The texts themselves.
    pub(crate) fn strs(&self) -> PyResult<Vec<&str>> {
        match self {
            Self::Items(items) => items.iter().enumerate().map(|(number, item)| item.text(number)).collect(),
            Self::Columns(chunks) => {
                let mut texts = Vec::with_capacity(chunks.iter().map(|chunk| chunk.len()).sum());
                for chunk in chunks {
                    if let Some(null) = chunk.nulls().and_then(|nulls| (0..nulls.len()).find(|&at| nulls.is_null(at))) {
                        let reason = "is null (hint: fill or drop nulls first)";
                        return Err(ItemError::new_err((texts.len() + null, reason)));
                    }
                    let first = texts.len();
                    append(chunk, &mut texts).map_err(|(at, reason)| ItemError::new_err((first + at, reason)))?;
                }
                Ok(texts)
            }
        }
    }
}

/// Appends the texts of a chunk without nulls. Arrow's import believes what a column claims: that its offsets are in order and its bytes UTF-8.
/// So both are checked here; an error has the number of the text in the chunk.
fn append<'a>(chunk: &'a ArrayRef, texts: &mut Vec<&'a str>) -> Result<(), (usize, String)> {
    /// Longest text within a view.
    const INLINE: usize = 12;

    fn of<'a, O: OffsetSizeTrait>(
        column: &'a GenericStringArray<O>,
        texts: &mut Vec<&'a str>,
    ) -> Result<(), (usize, String)> {
        let bytes = column.value_data();
        // An empty column may have no offsets at all.
        for (number, ends) in column.value_offsets().windows(2).take(column.len()).enumerate() {
            let [begin, end] = [ends[0], ends[1]].map(|offset| offset.to_usize());
            let text = begin.zip(end).and_then(|(begin, end)| bytes.get(begin..end));
            let outside = || {
                let [begin, end] = [ends[0], ends[1]];
                (number, format!("has invalid offsets {begin:?} and {end:?} (column size in bytes: {})", bytes.len()))
            };
            texts.push(utf8(text.ok_or_else(outside)?).map_err(|reason| (number, reason))?);
        }
        Ok(())
    }
    match chunk.data_type() {
        DataType::Utf8 => of(chunk.as_string::<i32>(), texts),
        DataType::LargeUtf8 => of(chunk.as_string::<i64>(), texts),
        _ => {
            let column = chunk.as_string_view();
            let inline = bytemuck::cast_slice::<u128, u8>(column.views());
            for (number, &view) in column.views().iter().enumerate() {
                // The length; then the text, or its first four bytes, the number of its buffer, and its place there.
                let [length, buffer, begin] = [0, 64, 96].map(|bits| (view >> bits) as u32 as usize);
                let text = if length <= INLINE {
                    let at = number * size_of::<u128>() + size_of::<u32>();
                    inline.get(at..at + length)
                } else {
                    column.data_buffers().get(buffer).and_then(|buffer| buffer.get(begin..begin.checked_add(length)?))
                };
                let text =
                    text.ok_or_else(|| (number, "is a view that points outside the buffers of its column".to_owned()))?;
                texts.push(utf8(text).map_err(|reason| (number, reason))?);
            }
            Ok(())
        }
    }
}

/// The text in bytes that are claimed to be UTF-8, or the reason why they are not.
fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        let byte = error.valid_up_to();
        format!("is not UTF-8 at byte {byte} (hint: decode it first, with errors=\"replace\" if necessary)")
    })
}

impl Item {
    pub(crate) fn of(number: usize, text: Bound<'_, PyAny>, errors: Errors) -> PyResult<Self> {
        let py = text.py();
        match text.cast_into::<PyString>() {
            Ok(text) => match PyBackedStr::try_from(text.clone()) {
                Ok(text) => Ok(Self::Str(text)),
                Err(error) if errors == Errors::Strict => Err(not_unicode(py, number, error)),
                Err(_) => {
                    // Both halves of a pair become their character.
                    let units = text.call_method1("encode", ("utf-16", "surrogatepass"))?;
                    Self::of(number, units.call_method1("decode", ("utf-16", "replace"))?, Errors::Strict)
                }
            },
            Err(other) => match other.into_inner().cast_into::<PyBytes>() {
                Ok(bytes) if errors == Errors::Replace && utf8(bytes.as_bytes()).is_err() => {
                    Self::of(number, bytes.call_method1("decode", ("utf-8", "replace"))?, Errors::Strict)
                }
                Ok(bytes) => Ok(Self::Bytes(bytes.into())),
                Err(other) => {
                    let name = other.into_inner().get_type().name()?;
                    Err(PyTypeError::new_err(format!("item {number}: expected str or bytes, not {name}")))
                }
            },
        }
    }

    /// The number of objects that take as long to read.
    pub(crate) fn objects(&self) -> usize {
        objects_of_text(match self {
            Self::Str(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        })
    }

    pub(crate) fn text(&self, number: usize) -> PyResult<&str> {
        match self {
            Self::Str(text) => Ok(text),
            Self::Bytes(bytes) => utf8(bytes).map_err(|reason| ItemError::new_err((number, reason))),
        }
    }
}

/// The error of a `str` with half of a surrogate pair, which UTF-8 cannot represent.
fn not_unicode(py: Python<'_>, number: usize, cause: PyErr) -> PyErr {
    if !cause.is_instance_of::<PyUnicodeEncodeError>(py) {
        return cause;
    }
    let start = cause.value(py).getattr("start").and_then(|start| start.extract::<usize>());
    let place = start.map_or(String::new(), |start| format!(" at character {start}"));
    let hint = "hint: errors=\"replace\" turns it into U+FFFD";
    let reason = format!("has half of a surrogate pair{place}, which UTF-8 cannot represent ({hint})");
    let error = ItemError::new_err((number, reason));
    error.set_cause(py, Some(cause));
    error
}

/// Ids: a [`Column`], a list, or any object that can be converted to one.
pub(crate) fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    ids_in_turns(ids, &mut Turns::new(ids.py()))
}

/// The same for one of several lists.
pub(crate) fn ids_in_turns(ids: &Bound<'_, PyAny>, turns: &mut Turns<'_>) -> PyResult<Vec<u32>> {
    if let Some(ids) = ids.cast::<Column>().ok().and_then(|column| column.get().ids()) {
        return Ok(ids.to_vec());
    }
    let list = if ids.hasattr("__array_interface__")? { ids.call_method0("tolist")? } else { ids.clone() };
    let id = |(at, id): (usize, PyResult<Bound<'_, PyAny>>)| {
        turns.read(1)?;
        number(&format_args!("ids[{at}]"), &id?)
    };
    several("ids", &list)?.enumerate().map(id).collect()
}

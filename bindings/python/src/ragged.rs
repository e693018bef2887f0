//! The ids of a batch.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{LargeListArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PySlice, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;
use windrow_tokenizers::engine::Ragged;

use crate::collector::CollectorPause;
use crate::column::{Column, Numbers, Places, SHOWN, place, shortened};
use crate::errors::{INT, ask_for};
use crate::ints::Ints;
use crate::lists::{Turns, apart, containers};

/// The ids of a batch: those of item `n` are `values[offsets[n]:offsets[n + 1]]`. A batch never changes.
#[pyclass(frozen, name = "Ragged", module = "windrow")]
#[derive(PartialEq)]
pub(crate) struct PyRagged {
    values: ScalarBuffer<u32>,
    offsets: ScalarBuffer<i64>,
}

/// Bytes of an item of a batch as an object: a column, and an empty list.
const COLUMN: usize = 80;
const LIST: usize = 88;

/// The bytes of the ids and of the offsets.
type Columns<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

impl PyRagged {
    pub(crate) fn new(Ragged { values, offsets }: Ragged) -> Self {
        let ends = offsets.len();
        Self { values: values.into(), offsets: ScalarBuffer::new(offsets.into(), 0, ends) }
    }

    fn range(&self, number: usize) -> Range<usize> {
        self.offsets[number] as usize..self.offsets[number + 1] as usize
    }

    fn item(&self, number: usize) -> Column {
        let Range { start, end } = self.range(number);
        Column(Numbers::Ids(self.values.slice(start, end - start)))
    }

    /// The ids of each item.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.__len__()).map(|number| &self.values[self.range(number)])
    }
}

#[pymethods]
impl PyRagged {
    /// The ids of all items, one after the other.
    #[getter]
    fn values(&self) -> Column {
        Column(Numbers::Ids(self.values.clone()))
    }

    /// The place in `values` at which each item begins, and the end of the last.
    #[getter]
    fn offsets(&self) -> Column {
        Column(Numbers::Offsets(self.offsets.clone()))
    }

    /// Size of the ids and the offsets in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.values.inner().len() + self.offsets.inner().len()
    }

    fn __len__(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The ids of an item, or a batch of the items of a slice, which is a copy.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(slice) = index.cast::<PySlice>() else {
            let item = self.item(place(index.extract()?, self.__len__())?);
            return Ok(Bound::new(py, item)?.into_any());
        };
        let places = Places::of(slice, self.__len__())?;
        let items = || places.iter().map(|place| &self.values[self.range(place)]);
        let ids = items().map(<[u32]>::len).sum();
        ask_for(ids, size_of::<u32>())?;
        let mut batch = Ragged { values: Vec::with_capacity(ids), offsets: vec![0] };
        apart(py, ids, || {
            for item in items() {
                batch.values.extend_from_slice(item);
                batch.offsets.push(batch.values.len() as u64);
            }
        });
        Ok(Bound::new(py, Self::new(batch))?.into_any())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        ask_for(self.__len__(), COLUMN)?;
        containers(py, (0..self.__len__()).map(|number| self.item(number)))?.try_iter()
    }

    /// True for an equal batch, or a list of lists of the same ids.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if other.is_instance_of::<PyList>() {
            return self.tolist(other.py())?.eq(other);
        }
        let Ok(ragged) = other.cast::<Self>() else { return Ok(false) };
        let ragged = ragged.get();
        Ok(apart(other.py(), self.values.len(), || self == ragged))
    }

    fn __repr__(&self) -> String {
        let items: Vec<&[u32]> = self.iter().take(SHOWN + 1).collect();
        let shown = shortened(&items, SHOWN, |ids| shortened(ids, SHOWN, u32::to_string));
        let (items, ids) = (counted(self.__len__(), "item"), counted(self.values.len(), "id"));
        format!("<windrow.Ragged of {items}, {ids}: {shown}>")
    }

    /// Numpy would make a single object of the batch.
    #[pyo3(signature = (*_arguments, **_settings))]
    fn __array__(&self, _arguments: &Bound<'_, PyTuple>, _settings: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let hint = "hint: to_numpy returns an array for each item, or a matrix if pad_id is given";
        Err(PyTypeError::new_err(format!("a Ragged is not an array ({hint})")))
    }

    /// Arrays of numpy, one for each item, without a copy. With `pad_id`, a single matrix: a row for each item, padded with this id.
    #[pyo3(signature = (pad_id = None))]
    fn to_numpy<'py>(slf: &Bound<'py, Self>, pad_id: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("windrow.arrays")?.call_method1("to_numpy", (slf, pad_id))
    }

    /// An array of pyarrow: a list of ids for each item, without a copy.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("array", (slf,))
    }

    /// The ids as lists, one for each item.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.values.len(), INT)?;
        ask_for(self.__len__(), LIST)?;
        let paused = CollectorPause::begin(py, self.__len__())?;
        let ints = apart(py, self.values.len(), || Ints::of(&self.values));
        let of = |ids: &[u32]| Ints::list(ints.as_ref(), py, ids.iter().copied());
        let (lists, mut turns) = (PyList::empty(py), Turns::new(py));
        for ids in self.iter() {
            lists.append(of(ids)?)?;
            turns.pass(1 + ids.len(), || paused.look())?;
        }
        Ok(lists)
    }

    /// A large list of uint32.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let ids = UInt32Array::new(self.values.clone(), None);
        let offsets = OffsetBuffer::new(self.offsets.clone());
        let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
        let lists = LargeListArray::new(Arc::clone(&item), offsets, Arc::new(ids), None);
        let field = Arc::new(Field::new("", DataType::LargeList(item), false));
        Ok(to_array_pycapsules(py, field, &lists, requested_schema)?)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
        let (py, batch) = (slf.py(), slf.get());
        ask_for(batch.nbytes(), 1)?;
        let [values, offsets] = [batch.values.inner(), batch.offsets.inner()].map(|column| copied(py, column));
        Ok((slf.get_type().getattr("_restore")?, (values?, offsets?)))
    }

    /// Restores the result of `__reduce__`.
    #[staticmethod]
    fn _restore(py: Python<'_>, values: &[u8], offsets: &[u8]) -> PyResult<Self> {
        ask_for(values.len() + offsets.len(), 1)?;
        apart(py, values.len(), || Self::restored(values, offsets))
    }
}

impl PyRagged {
    fn restored(values: &[u8], offsets: &[u8]) -> PyResult<Self> {
        let (values, rest) = values.as_chunks::<4>();
        let (offsets, more) = offsets.as_chunks::<8>();
        let batch = Ragged {
            values: values.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect(),
            offsets: offsets.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect(),
        };
        let ends = (batch.offsets.first() == Some(&0)) && batch.offsets.last() == Some(&(batch.values.len() as u64));
        let is_whole = rest.is_empty() && more.is_empty() && ends && batch.offsets.is_sorted();
        if is_whole {
            Ok(Self::new(batch))
        } else {
            Err(PyValueError::new_err("the columns of the Ragged are damaged"))
        }
    }
}

/// A copy of a column, made in pieces between which other threads have their turn.
/// A number of things, such as `1 item` and `2 items`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn copied<'py>(py: Python<'py>, column: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    /// Bytes that are copied within a millisecond or two.
    const COPIED: usize = 4 << 20;
    if column.len() <= COPIED {
        return Ok(PyBytes::new(py, column));
    }
    PyBytes::new_with(py, column.len(), |bytes| {
        py.detach(|| bytes.copy_from_slice(column));
        Ok(())
    })
}

//! The ids of a batch.

use std::sync::Arc;

use arrow_array::{LargeListArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyIterator, PyList, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;
use windrow_tokenizers::engine::Ragged;

use crate::collector::CollectorPause;
use crate::column::{Column, Kind, buffer, place};
use crate::errors::{INT, ask_for};
use crate::ints::Ints;
use crate::lists::{PIECE, Turns, apart, containers};

/// `Ragged` of Python: shared with the columns and arrays made of it, and never changed.
#[pyclass(frozen, name = "Ragged", module = "windrow")]
pub(crate) struct PyRagged(Arc<Ragged>);

/// Bytes of an item of a batch as an object: a column, and an empty list.
const COLUMN: usize = 80;
const LIST: usize = 88;

/// The bytes of the ids and of the offsets.
type Columns<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

impl PyRagged {
    pub(crate) fn new(batch: Ragged) -> Self {
        Self(Arc::new(batch))
    }

    pub(crate) fn batch(&self) -> &Arc<Ragged> {
        &self.0
    }

    fn item(&self, number: usize) -> Column {
        let range = self.0.offsets[number] as usize..self.0.offsets[number + 1] as usize;
        Column::new(&self.0, Kind::Ids, range)
    }
}

#[pymethods]
impl PyRagged {
    #[getter]
    fn values(&self) -> Column {
        Column::whole(&self.0, Kind::Ids)
    }

    #[getter]
    fn offsets(&self) -> Column {
        Column::whole(&self.0, Kind::Offsets)
    }

    #[getter]
    fn nbytes(&self) -> usize {
        size_of_val::<[_]>(&self.0.values) + size_of_val::<[_]>(&self.0.offsets)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Column> {
        Ok(self.item(place(index, self.0.len())?))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        ask_for(self.0.len(), COLUMN)?;
        containers(py, (0..self.0.len()).map(|number| self.item(number)))?.try_iter()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(ragged) = other.cast::<Self>() else { return false };
        let ragged = ragged.get();
        apart(other.py(), self.0.values.len(), || self.0 == ragged.0)
    }

    fn __repr__(&self) -> String {
        format!("<windrow.Ragged of {} items, {} ids>", self.0.len(), self.0.values.len())
    }

    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.0.values.len(), INT)?;
        ask_for(self.0.len(), LIST)?;
        let paused = CollectorPause::begin(py, self.0.len())?;
        let ints = apart(py, self.0.values.len(), || Ints::of(&self.0.values));
        let of = |ids: &[u32]| Ints::list(ints.as_ref(), py, ids.iter().copied());
        let (lists, mut turns, mut made) = (PyList::empty(py), Turns::new(py)?, 0);
        for ids in self.0.iter() {
            lists.append(of(ids)?)?;
            made += 1 + ids.len();
            if made > PIECE {
                made = 0;
                turns.pass(|| paused.look())?;
            }
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
        let ids = UInt32Array::new(ScalarBuffer::new(buffer(&self.0, Kind::Ids), 0, self.0.values.len()), None);
        let offsets = ScalarBuffer::new(buffer(&self.0, Kind::Offsets), 0, self.0.offsets.len());
        let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
        let lists = LargeListArray::new(Arc::clone(&item), OffsetBuffer::new(offsets), Arc::new(ids), None);
        let field = Arc::new(Field::new("", DataType::LargeList(item), false));
        Ok(to_array_pycapsules(py, field, &lists, requested_schema)?)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Columns<'py>)> {
        let (py, batch) = (slf.py(), &slf.get().0);
        ask_for(size_of_val::<[_]>(&batch.values) + size_of_val::<[_]>(&batch.offsets), 1)?;
        let columns = [bytemuck::cast_slice(&batch.values), bytemuck::cast_slice(&batch.offsets)];
        let [values, offsets] = columns.map(|column| copied(py, column));
        Ok((slf.get_type().getattr("_restore")?, (values?, offsets?)))
    }

    /// What `__reduce__` took apart.
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
        if is_whole { Ok(Self::new(batch)) } else { Err(PyValueError::new_err("damaged columns of a Ragged")) }
    }
}

/// A copy of a column, made in pieces between which other threads have their turn.
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

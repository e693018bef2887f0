//! Flat memory of a batch, as Python and Arrow see it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;
use windrow_tokenizers::engine::Ragged;

use crate::errors::{INT, ask_for};
use crate::lists::{apart, list};

/// Which of the two columns of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ids,
    Offsets,
}

/// A run of a column, which shares the memory of the batch.
#[pyclass(frozen, module = "windrow")]
pub(crate) struct Column {
    batch: Arc<Ragged>,
    kind: Kind,
    range: Range<usize>,
}

/// Keeps a batch alive for Arrow, and gives the bytes of a column.
struct Owner(Arc<Ragged>, Kind);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        match self.1 {
            Kind::Ids => bytemuck::cast_slice(&self.0.values),
            Kind::Offsets => bytemuck::cast_slice(&self.0.offsets),
        }
    }
}

/// A whole column as a buffer of Arrow, without a copy.
pub(crate) fn buffer(batch: &Arc<Ragged>, kind: Kind) -> Buffer {
    Buffer::from(Bytes::from_owner(Owner(Arc::clone(batch), kind)))
}

impl Column {
    pub(crate) fn new(batch: &Arc<Ragged>, kind: Kind, range: Range<usize>) -> Self {
        Self { batch: Arc::clone(batch), kind, range }
    }

    pub(crate) fn whole(batch: &Arc<Ragged>, kind: Kind) -> Self {
        let len = match kind {
            Kind::Ids => batch.values.len(),
            Kind::Offsets => batch.offsets.len(),
        };
        Self::new(batch, kind, 0..len)
    }

    /// The ids; `None` if it is a column of offsets.
    pub(crate) fn ids(&self) -> Option<&[u32]> {
        (self.kind == Kind::Ids).then(|| &self.batch.values[self.range.clone()])
    }

    fn offsets(&self) -> &[u64] {
        &self.batch.offsets[self.range.clone()]
    }

    fn bytes(&self) -> &[u8] {
        self.ids().map_or_else(|| bytemuck::cast_slice(self.offsets()), bytemuck::cast_slice)
    }
}

/// The place of an index of Python, which counts from the end if it is negative.
pub(crate) fn place(index: isize, len: usize) -> PyResult<usize> {
    let from_begin = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
    let place = from_begin.and_then(|place| usize::try_from(place).ok()).filter(|&place| place < len);
    place.ok_or_else(|| PyIndexError::new_err(format!("index {index} of {len}")))
}

#[pymethods]
impl Column {
    #[getter]
    fn dtype(&self) -> &'static str {
        match self.kind {
            Kind::Ids => "uint32",
            Kind::Offsets => "int64",
        }
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes().len()
    }

    fn __len__(&self) -> usize {
        self.range.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<u64> {
        let place = place(index, self.range.len())?;
        Ok(self.ids().map_or_else(|| self.offsets()[place], |ids| ids[place].into()))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py)?.try_iter()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(column) = other.cast::<Self>() else { return false };
        let column = column.get();
        apart(other.py(), self.range.len(), || (self.kind, self.bytes()) == (column.kind, column.bytes()))
    }

    fn __repr__(&self) -> String {
        format!("<windrow.Column of {} {}>", self.range.len(), self.dtype())
    }

    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.range.len(), INT)?;
        match self.ids() {
            Some(ids) => list(py, ids.iter()),
            None => list(py, self.offsets().iter()),
        }
    }

    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        ask_for(self.bytes().len(), 1)?;
        Ok(PyBytes::new(py, self.bytes()))
    }

    /// The protocol of numpy, which keeps this object as long as its array, and does not write.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let order = if cfg!(target_endian = "little") { '<' } else { '>' };
        let kind = if self.kind == Kind::Ids { "u4" } else { "i8" };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.range.len(),))?;
        interface.set_item("typestr", format!("{order}{kind}"))?;
        interface.set_item("data", (self.bytes().as_ptr().addr(), true))?;
        Ok(interface)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let whole = buffer(&self.batch, self.kind);
        let (at, len) = (self.range.start, self.range.len());
        let (array, of): (ArrayRef, _) = match self.kind {
            Kind::Ids => (Arc::new(UInt32Array::new(ScalarBuffer::new(whole, at, len), None)), DataType::UInt32),
            Kind::Offsets => (Arc::new(Int64Array::new(ScalarBuffer::new(whole, at, len), None)), DataType::Int64),
        };
        let field = Arc::new(Field::new("", of, false));
        Ok(to_array_pycapsules(py, field, &array, requested_schema)?)
    }
}

//! Flat memory of a batch, for Python and Arrow.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PySlice, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;
use windrow_tokenizers::engine::Ragged;

use crate::errors::{INT, ask_for};
use crate::lists::{apart, list};

/// The two columns of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ids,
    Offsets,
}

/// Numbers in flat memory, read-only: ids (uint32) or offsets (int64).
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

/// The selected places of a slice, in its order.
pub(crate) struct Places {
    start: isize,
    step: isize,
    len: usize,
}

impl Places {
    pub(crate) fn of(slice: &Bound<'_, PySlice>, len: usize) -> PyResult<Self> {
        let found = slice.indices(isize::try_from(len)?)?;
        Ok(Self { start: found.start, step: found.step, len: found.slicelength })
    }

    /// The places as a run, unless the slice has a step.
    fn run(&self) -> Option<Range<usize>> {
        let start = usize::try_from(self.start).ok()?;
        (self.step == 1).then(|| start..start + self.len)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.len as isize).map(|number| (self.start + number * self.step) as usize)
    }
}

/// Numbers of a column, and items of a batch, that its text shows.
pub(crate) const SHOWN: usize = 10;

/// The first items of a list, as text.
pub(crate) fn shortened<T>(items: &[T], most: usize, text: impl Fn(&T) -> String) -> String {
    let mut shown: Vec<String> = items.iter().take(most).map(text).collect();
    if items.len() > most {
        shown.push("...".to_owned());
    }
    format!("[{}]", shown.join(", "))
}

/// The place of an index of Python, which counts from the end if it is negative.
pub(crate) fn place(index: isize, len: usize) -> PyResult<usize> {
    let from_begin = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
    let place = from_begin.and_then(|place| usize::try_from(place).ok()).filter(|&place| place < len);
    place.ok_or_else(|| PyIndexError::new_err(format!("index {index} of {len}")))
}

#[pymethods]
impl Column {
    /// `"uint32"` for ids, `"int64"` for offsets.
    #[getter]
    fn dtype(&self) -> &'static str {
        match self.kind {
            Kind::Ids => "uint32",
            Kind::Offsets => "int64",
        }
    }

    /// Size of the numbers in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes().len()
    }

    fn __len__(&self) -> usize {
        self.range.len()
    }

    /// A number, or the column of a slice, without a copy unless the slice has a step.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(slice) = index.cast::<PySlice>() else {
            let place = place(index.extract()?, self.range.len())?;
            let number: u64 = self.ids().map_or_else(|| self.offsets()[place], |ids| ids[place].into());
            return Ok(number.into_pyobject(py)?.into_any());
        };
        let places = Places::of(slice, self.range.len())?;
        let column = match (places.run(), self.ids()) {
            (Some(run), _) => {
                let begin = self.range.start;
                Self::new(&self.batch, self.kind, begin + run.start..begin + run.end)
            }
            (None, Some(ids)) => {
                let values = places.iter().map(|place| ids[place]).collect();
                Self::whole(&Arc::new(Ragged { values, offsets: Vec::new() }), self.kind)
            }
            (None, None) => {
                let offsets = places.iter().map(|place| self.offsets()[place]).collect();
                Self::whole(&Arc::new(Ragged { values: Vec::new(), offsets }), self.kind)
            }
        };
        Ok(Bound::new(py, column)?.into_any())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.tolist(py)?.try_iter()
    }

    /// True for an equal column, or a list of the same numbers.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if other.is_instance_of::<PyList>() {
            return self.tolist(other.py())?.eq(other);
        }
        let Ok(column) = other.cast::<Self>() else { return Ok(false) };
        let column = column.get();
        Ok(apart(other.py(), self.range.len(), || (self.kind, self.bytes()) == (column.kind, column.bytes())))
    }

    fn __repr__(&self) -> String {
        let numbers = match self.ids() {
            Some(ids) => shortened(ids, SHOWN, u32::to_string),
            None => shortened(self.offsets(), SHOWN, u64::to_string),
        };
        format!("<windrow.Column of {} {}: {numbers}>", self.range.len(), self.dtype())
    }

    /// An array of numpy, without a copy.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.call_method1("asarray", (slf,))
    }

    /// An array of pyarrow, without a copy.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("array", (slf,))
    }

    /// The numbers as a list.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.range.len(), INT)?;
        match self.ids() {
            Some(ids) => list(py, ids.iter()),
            None => list(py, self.offsets().iter()),
        }
    }

    /// The numbers as bytes, in the order of this machine.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        ask_for(self.bytes().len(), 1)?;
        Ok(PyBytes::new(py, self.bytes()))
    }

    /// The protocol of numpy, which keeps this object alive with its array, and does not write.
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

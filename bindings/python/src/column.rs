//! Flat memory of a batch, for Python and Arrow.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, UInt32Array};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::Field;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyIterator, PyList, PySlice, PyTuple};
use pyo3_arrow::ffi::to_array_pycapsules;

use crate::errors::{INT, ask_for};
use crate::lists::{apart, list};

/// Numbers in flat memory, read-only: ids (uint32) or offsets (int64).
#[pyclass(frozen, module = "windrow")]
#[derive(PartialEq)]
pub(crate) struct Column(pub(crate) Numbers);

#[derive(PartialEq)]
pub(crate) enum Numbers {
    Ids(ScalarBuffer<u32>),
    Offsets(ScalarBuffer<i64>),
}

impl Column {
    /// The ids; `None` if it is a column of offsets.
    pub(crate) fn ids(&self) -> Option<&[u32]> {
        match &self.0 {
            Numbers::Ids(ids) => Some(ids),
            Numbers::Offsets(_) => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Numbers::Ids(ids) => ids.inner(),
            Numbers::Offsets(offsets) => offsets.inner(),
        }
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

    /// The selected numbers, without a copy unless the slice has a step.
    fn select<T: ArrowNativeType>(&self, numbers: &ScalarBuffer<T>) -> ScalarBuffer<T> {
        match usize::try_from(self.start) {
            Ok(start) if self.step == 1 => numbers.slice(start, self.len),
            _ => self.iter().map(|place| numbers[place]).collect(),
        }
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
        match self.0 {
            Numbers::Ids(_) => "uint32",
            Numbers::Offsets(_) => "int64",
        }
    }

    /// Size of the numbers in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes().len()
    }

    fn __len__(&self) -> usize {
        match &self.0 {
            Numbers::Ids(ids) => ids.len(),
            Numbers::Offsets(offsets) => offsets.len(),
        }
    }

    /// A number, or the column of a slice, without a copy unless the slice has a step.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(slice) = index.cast::<PySlice>() else {
            let place = place(index.extract()?, self.__len__())?;
            return Ok(match &self.0 {
                Numbers::Ids(ids) => ids[place].into_pyobject(py)?.into_any(),
                Numbers::Offsets(offsets) => offsets[place].into_pyobject(py)?.into_any(),
            });
        };
        let places = Places::of(slice, self.__len__())?;
        let numbers = match &self.0 {
            Numbers::Ids(ids) => Numbers::Ids(places.select(ids)),
            Numbers::Offsets(offsets) => Numbers::Offsets(places.select(offsets)),
        };
        Ok(Bound::new(py, Self(numbers))?.into_any())
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
        Ok(apart(other.py(), self.__len__(), || self == column))
    }

    fn __repr__(&self) -> String {
        let numbers = match &self.0 {
            Numbers::Ids(ids) => shortened(ids, SHOWN, u32::to_string),
            Numbers::Offsets(offsets) => shortened(offsets, SHOWN, i64::to_string),
        };
        format!("<windrow.Column of {} {}: {numbers}>", self.__len__(), self.dtype())
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
        ask_for(self.__len__(), INT)?;
        match &self.0 {
            Numbers::Ids(ids) => list(py, ids.iter()),
            Numbers::Offsets(offsets) => list(py, offsets.iter()),
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
        let kind = if self.ids().is_some() { "u4" } else { "i8" };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.__len__(),))?;
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
        let array: ArrayRef = match &self.0 {
            Numbers::Ids(ids) => Arc::new(UInt32Array::new(ids.clone(), None)),
            Numbers::Offsets(offsets) => Arc::new(Int64Array::new(offsets.clone(), None)),
        };
        let field = Arc::new(Field::new("", array.data_type().clone(), false));
        Ok(to_array_pycapsules(py, field, &array, requested_schema)?)
    }
}

//! The text of ids that arrive one by one.

use pyo3::prelude::*;
use windrow_tokenizers::engine::DecodeBatchError;
use windrow_tokenizers::tokenizer::DecodeStream;

use crate::arguments;
use crate::errors::of_decoding;
use crate::texts::ids_of;
use crate::tokenizer::PyTokenizer;

/// Decodes ids as they arrive, and gives text when it is complete: a character may take several tokens.
#[derive(Clone)]
#[pyclass(name = "DecodeStream", module = "windrow")]
pub(crate) struct PyDecodeStream {
    stream: DecodeStream,
}

#[pymethods]
impl PyDecodeStream {
    #[new]
    #[pyo3(signature = (ids = None, skip_special_tokens = false))]
    fn new(ids: Option<&Bound<'_, PyAny>>, skip_special_tokens: bool) -> PyResult<Self> {
        let ids = ids.map_or(Ok(Vec::new()), ids_of)?;
        Ok(Self { stream: DecodeStream::after(ids, skip_special_tokens) })
    }

    fn __copy__(&self) -> Self {
        self.clone()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.clone()
    }

    /// The text that is complete with another id, or several; `None` if no more text is complete yet.
    fn step(&mut self, tokenizer: &PyTokenizer, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let new = match id.hasattr("__index__")? || id.try_iter().is_err() {
            true => vec![arguments::id(id)?],
            false => ids_of(id)?,
        };
        let core = tokenizer.core();
        let text = self.stream.push(core.full.tokenizer(), &new);
        text.map_err(|error| of_decoding(DecodeBatchError { document: 0, error }))
    }
}

//! Text of ids that come one by one.

use pyo3::prelude::*;
use windrow_tokenizers::engine::DecodeBatchError;
use windrow_tokenizers::tokenizer::Tokenizer;

use crate::arguments;
use crate::errors::Failure;
use crate::texts::ids_of;
use crate::tokenizer::PyTokenizer;

/// What a character of which bytes are missing decodes to.
const MISSING: char = '\u{fffd}';

/// Decodes ids as they come, and gives text when it is complete: a character may take several tokens.
///
/// Ids are decoded together with those before, because a decoder may treat the first token of a text in another way than the others. Two
/// calls back are enough; text generation servers do the same.
#[derive(Clone)]
#[pyclass(name = "DecodeStream", module = "windrow")]
pub(crate) struct PyDecodeStream {
    skip_special_tokens: bool,
    /// The ids behind the text that was given before `known`, and how many of them are that of `known`.
    ids: Vec<u32>,
    known: String,
    known_ids: usize,
}

impl PyDecodeStream {
    fn push(&mut self, tokenizer: &Tokenizer, new: &[u32]) -> Result<Option<String>, Failure> {
        let decode = |ids: &[u32]| {
            let text = tokenizer.decode(ids, self.skip_special_tokens);
            text.map_err(|error| Failure::from(DecodeBatchError { document: 0, error }))
        };
        if self.known.is_empty() && !self.ids.is_empty() {
            let text = decode(&self.ids)?;
            if !text.ends_with(MISSING) {
                (self.known, self.known_ids) = (text, self.ids.len());
            }
        }
        let all = [&self.ids, new].concat();
        let text = decode(&all)?;
        if text.len() <= self.known.len() || text.ends_with(MISSING) {
            self.ids = all;
            return Ok(None);
        }
        let Some(more) = text.strip_prefix(&self.known) else {
            let reason = format!("decodes to {text:?}, not to more text behind {:?}", self.known);
            return Err(Failure::Item { item: 0, reason });
        };
        let kept = all[self.known_ids..].to_vec();
        let known = decode(&kept)?;
        (self.known_ids, self.ids, self.known) = (kept.len(), kept, known);
        Ok(Some(more.to_owned()))
    }
}

#[pymethods]
impl PyDecodeStream {
    #[new]
    #[pyo3(signature = (ids = None, skip_special_tokens = false))]
    fn new(ids: Option<&Bound<'_, PyAny>>, skip_special_tokens: bool) -> PyResult<Self> {
        let ids = ids.map_or(Ok(Vec::new()), ids_of)?;
        Ok(Self { skip_special_tokens, ids, known: String::new(), known_ids: 0 })
    }

    fn __copy__(&self) -> Self {
        self.clone()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.clone()
    }

    /// The text that is complete with another id, or several; `None` if there is no more of it yet.
    fn step(&mut self, tokenizer: &PyTokenizer, id: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
        let new = match id.hasattr("__index__")? || id.try_iter().is_err() {
            true => vec![arguments::id(id)?],
            false => ids_of(id)?,
        };
        let core = tokenizer.core();
        self.push(core.full.tokenizer(), &new).map_err(|failure| failure.into_error(id.py()))
    }
}

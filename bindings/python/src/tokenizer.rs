//! `Tokenizer` of Python.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use windrow_tokenizers::engine::{DecodeBatchError, Ragged};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::door::enter;
use crate::errors::Failure;
use crate::ragged::PyRagged;
use crate::texts::{Texts, ids_of};

/// A tokenizer that adds no special tokens around texts, and, from when it is first asked for, one that does.
#[pyclass(frozen, name = "Tokenizer", module = "windrow")]
pub(crate) struct PyTokenizer {
    plain: Tokenizer,
    /// The `tokenizer.json`; `None` for a vocabulary, which puts nothing around texts.
    json: Option<Arc<[u8]>>,
    adding: OnceLock<Tokenizer>,
}

impl PyTokenizer {
    fn from_json(py: Python<'_>, json: Vec<u8>, name: &str) -> PyResult<Self> {
        enter(py, |_| {
            let plain = Tokenizer::from_json(&json, name, &options(false))?;
            Ok(Self { plain, json: Some(json.into()), adding: OnceLock::new() })
        })
    }

    fn of(&self, add_special_tokens: bool) -> Result<&Tokenizer, Failure> {
        let Some(json) = self.json.as_deref().filter(|_| add_special_tokens) else { return Ok(&self.plain) };
        if let Some(adding) = self.adding.get() {
            return Ok(adding);
        }
        // Two threads may load it; one is kept.
        let adding = Tokenizer::from_json(json, self.plain.name(), &options(true))?;
        Ok(self.adding.get_or_init(|| adding))
    }
}

fn options(add_special_tokens: bool) -> LoadOptions {
    LoadOptions { add_special_tokens, ..LoadOptions::default() }
}

#[pymethods]
impl PyTokenizer {
    /// Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let inside = path.join("tokenizer.json");
        let file = if path.is_dir() && inside.is_file() { inside } else { path };
        let name = file.to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "tiktoken") {
            return enter(py, |_| {
                let plain = Tokenizer::load(&name, &options(false))?;
                Ok(Self { plain, json: None, adding: OnceLock::new() })
            });
        }
        let read = |error: std::io::Error| Failure::File(error.kind(), format!("tokenizer {name}: {error}"));
        let json = enter(py, |_| std::fs::read(&file).map_err(read))?;
        Self::from_json(py, json, &name)
    }

    #[staticmethod]
    fn from_str(py: Python<'_>, json: String) -> PyResult<Self> {
        Self::from_json(py, json.into_bytes(), "a string")
    }

    #[staticmethod]
    fn from_buffer(py: Python<'_>, buffer: &[u8]) -> PyResult<Self> {
        Self::from_json(py, buffer.to_vec(), "a buffer")
    }

    /// A vocabulary of tiktoken by its name: `r50k_base` (also `gpt2`), `cl100k_base`, `o200k_base`.
    #[staticmethod]
    fn from_tiktoken(py: Python<'_>, name: &str) -> PyResult<Self> {
        if name.contains(['/', '\\', '.']) {
            let message = format!("tokenizer {name:?} is not the name of a vocabulary\nhint: from_file reads files");
            return Err(Failure::Tokenizer(message).into_error(py));
        }
        enter(py, |_| {
            let plain = Tokenizer::load(name, &options(false))?;
            Ok(Self { plain, json: None, adding: OnceLock::new() })
        })
    }

    /// The name of the vocabulary, or the path that was loaded.
    #[getter]
    fn name(&self) -> &str {
        self.plain.name()
    }

    /// Why windrow's own engine does not encode with it; `None` if it does.
    #[getter]
    fn delegated(&self) -> Option<&str> {
        self.plain.delegated()
    }

    /// What encodes, why, and what it has done so far.
    fn explain(&self) -> String {
        self.plain.explain().to_string()
    }

    /// The largest id that can be produced, plus one.
    fn get_vocab_size(&self) -> u32 {
        self.plain.vocab_size()
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.plain.token_to_id(token)
    }

    fn __repr__(&self) -> String {
        format!("<windrow.Tokenizer {:?} of {} tokens>", self.plain.name(), self.plain.vocab_size())
    }

    /// The ids of all texts, in flat memory, by all threads of the process's pool.
    #[pyo3(signature = (texts, add_special_tokens = false))]
    fn encode_batch_ids(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        add_special_tokens: bool,
    ) -> PyResult<PyRagged> {
        let texts = Texts::of(texts)?;
        let batch = enter(py, |watch| {
            let mut batch = Ragged::default();
            let tokenizer = self.of(add_special_tokens)?;
            tokenizer.encode_batch_ids_while(&texts.strs()?, &mut batch, &|| watch.goes_on())?;
            batch.values.shrink_to_fit();
            Ok(batch)
        });
        batch.map(PyRagged::new)
    }

    /// The text of ids.
    #[pyo3(signature = (ids, skip_special_tokens = true))]
    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, skip_special_tokens: bool) -> PyResult<String> {
        let ids = ids_of(ids)?;
        enter(py, |_| {
            let text = self.plain.decode(&ids, skip_special_tokens);
            text.map_err(|error| DecodeBatchError { document: 0, error }.into())
        })
    }

    /// The texts of lists of ids.
    #[pyo3(signature = (sequences, skip_special_tokens = true))]
    fn decode_batch(
        &self,
        py: Python<'_>,
        sequences: &Bound<'_, PyAny>,
        skip_special_tokens: bool,
    ) -> PyResult<Vec<String>> {
        if let Ok(ragged) = sequences.cast::<PyRagged>() {
            let batch = Arc::clone(ragged.get().batch());
            return enter(py, |_| {
                let documents: Vec<&[u32]> = batch.iter().collect();
                Ok(self.plain.decode_batch(&documents, skip_special_tokens)?)
            });
        }
        let documents: PyResult<Vec<Vec<u32>>> = sequences.try_iter()?.map(|ids| ids_of(&ids?)).collect();
        let documents = documents?;
        enter(py, |_| Ok(self.plain.decode_batch(&documents, skip_special_tokens)?))
    }
}

//! `Tokenizer` of Python.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use windrow::Pool;
use windrow_tokenizers::engine::{DecodeBatchError, Ragged};
use windrow_tokenizers::full::{FullTokenizer, PostProcessing};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
use windrow_tokenizers::tokenizers_023::{PaddingParams, PaddingStrategy, TruncationParams, TruncationStrategy};

use crate::collector::CollectorPause;
use crate::door::{Watch, enter};
use crate::encoding::{BatchOfIds, PyEncoding, padding_direction, truncation_direction};
use crate::errors::{Failure, TOKEN, ask_for};
use crate::inputs::Inputs;
use crate::ragged::PyRagged;
use crate::texts::{Texts, ids_of};
use crate::vocabulary::{self, Added};

/// A vocabulary, what encodes with it, and how its encodings are truncated and padded.
///
/// Both are replaced as a whole, so each call works with what it found at its begin. The locks are held for moments, by threads that hold
/// the interpreter's lock: no forked process finds them taken.
#[pyclass(frozen, name = "Tokenizer", module = "windrow")]
pub(crate) struct PyTokenizer {
    core: Mutex<Arc<Core>>,
    post_processing: Mutex<Arc<PostProcessing>>,
}

/// What the file of a tokenizer says.
pub(crate) struct Core {
    pub(crate) full: Arc<FullTokenizer>,
    encode_special_tokens: bool,
    /// From when it is first asked for: the tokenizer that adds special tokens around texts.
    adding: OnceLock<Tokenizer>,
    /// The same for files, whose special tokens are not treated as here; the second adds special tokens around texts.
    others: [OnceLock<Tokenizer>; 2],
}

/// Where a tokenizer comes from.
enum Source<'a> {
    /// A `tokenizer.json`.
    Json(&'a [u8]),
    /// A vocabulary of tiktoken: its name, or the path of its file.
    Ranks(&'a str),
}

fn options(add_special_tokens: bool, encode_special_tokens: bool) -> LoadOptions {
    LoadOptions { add_special_tokens, special_in_text: !encode_special_tokens, ..LoadOptions::default() }
}

impl Core {
    fn load(source: Source<'_>, name: &str, encode_special_tokens: bool) -> Result<Self, Failure> {
        let options = options(false, encode_special_tokens);
        let full = match source {
            Source::Json(json) => FullTokenizer::from_json(json, name, &options)?,
            Source::Ranks(name) => FullTokenizer::new(Tokenizer::load(name, &options)?),
        };
        let (adding, others) = (OnceLock::new(), Default::default());
        Ok(Self { full: Arc::new(full), encode_special_tokens, adding, others })
    }

    /// The same with another setting.
    fn reloaded(&self, encode_special_tokens: bool) -> Result<Self, Failure> {
        let name = self.plain().name();
        let source = self.full.json().map_or(Source::Ranks(name), |json| Source::Json(json.as_bytes()));
        Self::load(source, name, encode_special_tokens)
    }

    pub(crate) fn plain(&self) -> &Tokenizer {
        self.full.tokenizer()
    }

    pub(crate) fn of(&self, add_special_tokens: bool) -> Result<&Tokenizer, Failure> {
        let Some(json) = self.full.json().filter(|_| add_special_tokens) else { return Ok(self.plain()) };
        if let Some(adding) = self.adding.get() {
            return Ok(adding);
        }
        // Two threads may load it; one is kept.
        let options = options(true, self.encode_special_tokens);
        let adding = Tokenizer::from_json(json.as_bytes(), self.plain().name(), &options)?;
        Ok(self.adding.get_or_init(|| adding))
    }

    /// The tokenizer of files: `special_in_text` says whether it recognizes special tokens that are written there, whatever this one does.
    pub(crate) fn of_files(&self, add_special_tokens: bool, special_in_text: bool) -> Result<&Tokenizer, Failure> {
        if special_in_text != self.encode_special_tokens {
            return self.of(add_special_tokens);
        }
        let other = &self.others[usize::from(add_special_tokens)];
        if let Some(other) = other.get() {
            return Ok(other);
        }
        let (name, options) = (self.plain().name(), options(add_special_tokens, !special_in_text));
        let loaded = match self.full.json() {
            Some(json) => Tokenizer::from_json(json.as_bytes(), name, &options)?,
            None => Tokenizer::load(name, &options)?,
        };
        Ok(other.get_or_init(|| loaded))
    }

    /// The file.
    fn json(&self) -> Result<&[u8], Failure> {
        self.full.json().map(str::as_bytes).ok_or_else(|| {
            let name = self.plain().name();
            let reason = "is a vocabulary of tiktoken, which has no tokenizer.json";
            let hint = "hint: load a tokenizer.json with the same tokens";
            Failure::Tokenizer(format!("tokenizer {}: {reason}\n{hint}", shown(name)))
        })
    }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a batch with the threads of the pool, or with this one if `TOKENIZERS_PARALLELISM` says so.
pub(crate) fn in_parallel<R: Send>(batch: impl FnOnce() -> R + Send) -> R {
    let is_off = std::env::var("TOKENIZERS_PARALLELISM")
        .is_ok_and(|value| ["", "off", "false", "f", "no", "n", "0"].contains(&value.to_ascii_lowercase().as_str()));
    if !is_off {
        return batch();
    }
    // It has no threads, so a forked process may use it. Made before the cell is taken, which a fork might leave so.
    static ONE: OnceLock<Pool> = OnceLock::new();
    let pool = match ONE.get() {
        Some(pool) => pool,
        None => {
            let pool = Pool::new(1);
            ONE.get_or_init(|| pool)
        }
    };
    pool.install(batch)
}

impl PyTokenizer {
    fn new(core: Core) -> Self {
        let post_processing = Arc::new(core.full.post_processing().clone());
        Self { core: Mutex::new(Arc::new(core)), post_processing: Mutex::new(post_processing) }
    }

    fn load(py: Python<'_>, source: Source<'_>, name: &str) -> PyResult<Self> {
        enter(py, |_| Core::load(source, name, false)).map(Self::new)
    }

    /// Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
    fn read(py: Python<'_>, path: PathBuf, encode_special_tokens: bool) -> PyResult<Self> {
        let inside = path.join("tokenizer.json");
        let file = if path.is_dir() && inside.is_file() { inside } else { path };
        let name = file.to_string_lossy().into_owned();
        if file.extension().is_some_and(|extension| extension == "tiktoken") {
            return enter(py, |_| Core::load(Source::Ranks(&name), &name, encode_special_tokens)).map(Self::new);
        }
        let read = |error: std::io::Error| Failure::File(error.kind(), format!("tokenizer {}: {error}", shown(&name)));
        let json = enter(py, |_| std::fs::read(&file).map_err(read))?;
        enter(py, |_| Core::load(Source::Json(&json), &name, encode_special_tokens)).map(Self::new)
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&locked(&self.core))
    }

    fn post_processing(&self) -> Arc<PostProcessing> {
        Arc::clone(&locked(&self.post_processing))
    }

    fn encodings(&self, py: Python<'_>, inputs: Inputs, add_special_tokens: bool) -> PyResult<Vec<PyEncoding>> {
        let (core, post_processing) = (self.core(), self.post_processing());
        enter(py, |watch| in_parallel(|| encodings(&core.full, &post_processing, inputs, add_special_tokens, watch)))
    }

    fn list_of_encodings<'py>(
        &self,
        input: &Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = input.py();
        let encodings = self.encodings(py, Inputs::of(input, is_pretokenized)?, add_special_tokens)?;
        ask_for(encodings.len(), TOKEN)?;
        let _paused = CollectorPause::begin(py, encodings.len())?;
        PyList::new(py, encodings)
    }

    /// Adds tokens, as the library does, and returns how many are new.
    fn add(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, special: bool) -> PyResult<usize> {
        let tokens: Vec<Added> =
            tokens.try_iter()?.map(|token| Added::of(&token?, special)).collect::<PyResult<_>>()?;
        loop {
            let before = self.core();
            let (count, after) = enter(py, |_| {
                let (count, json) = vocabulary::with_added(before.json()?, &tokens, special)?;
                let source = Source::Json(json.as_bytes());
                Ok((count, Core::load(source, before.plain().name(), before.encode_special_tokens)?))
            })?;
            if self.replace(&before, after) {
                return Ok(count);
            }
        }
    }

    /// Replaces what `after` was made of, unless another thread has done so meanwhile.
    fn replace(&self, before: &Arc<Core>, after: Core) -> bool {
        let mut core = locked(&self.core);
        let is_as_before = Arc::ptr_eq(&core, before);
        if is_as_before {
            *core = Arc::new(after);
        }
        is_as_before
    }

    /// A coroutine that calls a method of this object on another thread.
    fn on_thread<'py>(
        slf: &Bound<'py, Self>,
        method: &str,
        arguments: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let call = slf.getattr(method)?;
        let arguments: Vec<_> = std::iter::once(&call).chain(arguments).collect();
        let arguments = PyTuple::new(py, arguments)?;
        py.import("asyncio")?.call_method1("to_thread", arguments)
    }
}

/// The encodings of a batch. Those of single texts are made of their ids when they are first looked at, if they follow from them.
fn encodings(
    full: &Arc<FullTokenizer>,
    post_processing: &Arc<PostProcessing>,
    inputs: Inputs,
    add_special_tokens: bool,
    watch: &Watch,
) -> Result<Vec<PyEncoding>, Failure> {
    let is_simple = post_processing.truncation().is_none() && post_processing.padding().is_none();
    let around = match is_simple && full.follows_from_ids() {
        true => Some(full.around(add_special_tokens).map_err(|error| Failure::Tokenizer(error.to_string()))?),
        false => None,
    };
    let around =
        around.filter(|around| around.get_special_tokens_mask().iter().filter(|mask| **mask == 0).count() == 1);
    let inputs = match around {
        Some(around) => match inputs.into_texts() {
            Ok(texts) => {
                let mut ids = Ragged::default();
                full.tokenizer().encode_batch_ids_while(&texts.strs()?, &mut ids, &|| watch.goes_on())?;
                ids.shrink();
                let (full, post_processing) = (Arc::clone(full), Arc::clone(post_processing));
                let ints = OnceLock::new();
                let batch = BatchOfIds { full, post_processing, add_special_tokens, around, texts, ids, ints };
                let batch = Arc::new(batch);
                return Ok((0..batch.ids.len()).map(|number| PyEncoding::of_ids(&batch, number)).collect());
            }
            Err(inputs) => inputs,
        },
        None => inputs,
    };
    let made = full.encode_batch(inputs.inputs()?, add_special_tokens, post_processing, &|| watch.goes_on())?;
    // After an interrupt there are none, and nothing is returned.
    Ok(made.unwrap_or_default().into_iter().map(PyEncoding::whole).collect())
}

#[pymethods]
impl PyTokenizer {
    /// A copy of a tokenizer of the libraries `tokenizers` or `transformers`, with its truncation and padding.
    #[new]
    fn from_other(py: Python<'_>, tokenizer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let backend = tokenizer.getattr_opt("backend_tokenizer")?.unwrap_or_else(|| tokenizer.clone());
        let Some(to_str) = backend.getattr_opt("to_str")? else {
            let expected = "expected a Tokenizer of tokenizers or a fast tokenizer of transformers";
            let hint = "hint: from_file, from_str and from_tiktoken load others";
            let name = tokenizer.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{expected}, not {name} ({hint})")));
        };
        let json: String = to_str.call0()?.extract()?;
        Self::load(py, Source::Json(json.as_bytes()), "an object")
    }

    /// Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::read(py, path, false)
    }

    /// [`from_file`](Self::from_file), to encode files with.
    #[staticmethod]
    fn _of_files(py: Python<'_>, path: PathBuf, encode_special_tokens: bool) -> PyResult<Self> {
        Self::read(py, path, encode_special_tokens)
    }

    #[staticmethod]
    fn from_str(py: Python<'_>, json: String) -> PyResult<Self> {
        Self::load(py, Source::Json(json.as_bytes()), "a string")
    }

    #[staticmethod]
    fn from_buffer(py: Python<'_>, buffer: &[u8]) -> PyResult<Self> {
        Self::load(py, Source::Json(buffer), "a buffer")
    }

    /// The tokenizer of a model on the Hugging Face Hub: from the cache, or downloaded by the library `huggingface_hub`.
    #[staticmethod]
    #[pyo3(signature = (identifier, revision = "main", token = None))]
    fn from_pretrained(py: Python<'_>, identifier: &str, revision: &str, token: Option<&str>) -> PyResult<Self> {
        let hub = py.import("huggingface_hub").map_err(|cause| {
            let hint = "hint: pip install huggingface_hub, or load a file with from_file";
            let message = format!("tokenizer {}: the library huggingface_hub is missing\n{hint}", shown(identifier));
            let error = Failure::Tokenizer(message).into_error(py);
            error.set_cause(py, Some(cause));
            error
        })?;
        let settings = PyDict::new(py);
        settings.set_item("revision", revision)?;
        settings.set_item("token", token)?;
        let path = hub.getattr("hf_hub_download")?.call((identifier, "tokenizer.json"), Some(&settings))?;
        Self::from_file(py, path.extract()?)
    }

    /// A vocabulary of tiktoken by its name: `r50k_base` (also `gpt2`), `cl100k_base`, `o200k_base`.
    #[staticmethod]
    fn from_tiktoken(py: Python<'_>, name: &str) -> PyResult<Self> {
        if name.contains(['/', '\\', '.']) {
            let message = format!("tokenizer {name:?} is not the name of a vocabulary\nhint: from_file reads files");
            return Err(Failure::Tokenizer(message).into_error(py));
        }
        Self::load(py, Source::Ranks(name), name)
    }

    /// The file with the truncation and the padding that are set now.
    #[pyo3(signature = (pretty = false))]
    fn to_str(&self, py: Python<'_>, pretty: bool) -> PyResult<String> {
        let (core, post_processing) = (self.core(), self.post_processing());
        enter(py, |_| vocabulary::with_settings(core.json()?, &post_processing, pretty))
    }

    /// Writes a `tokenizer.json`.
    #[pyo3(signature = (path, pretty = true))]
    fn save(&self, py: Python<'_>, path: PathBuf, pretty: bool) -> PyResult<()> {
        let json = self.to_str(py, pretty)?;
        enter(py, |_| {
            let failed = |error: std::io::Error| Failure::File(error.kind(), format!("{}: {error}", shown(&path)));
            write(&path, json.as_bytes()).map_err(failed)
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let core = this.core();
        let restore = slf.get_type().getattr("_restore")?;
        let (name, encodes) = (core.plain().name(), core.encode_special_tokens);
        let json = core.full.json().is_some().then(|| this.to_str(py, false)).transpose()?;
        (restore, (json, name, encodes)).into_pyobject(py)
    }

    #[staticmethod]
    fn _restore(py: Python<'_>, json: Option<String>, name: &str, encode_special_tokens: bool) -> PyResult<Self> {
        let source = json.as_ref().map_or(Source::Ranks(name), |json| Source::Json(json.as_bytes()));
        enter(py, |_| Core::load(source, name, encode_special_tokens)).map(Self::new)
    }

    /// The copy shares what has been loaded.
    fn __copy__(&self) -> Self {
        Self { core: Mutex::new(self.core()), post_processing: Mutex::new(self.post_processing()) }
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    /// The name of the vocabulary, or the path that was loaded.
    #[getter]
    fn name(&self) -> String {
        self.core().plain().name().to_owned()
    }

    /// Why windrow's own engine does not encode with it; `None` if it does.
    #[getter]
    fn delegated(&self) -> Option<String> {
        self.core().plain().delegated().map(str::to_owned)
    }

    /// What encodes, why, and what it has done so far.
    fn explain(&self) -> String {
        self.core().plain().explain().to_string()
    }

    /// How many tokens there are.
    #[pyo3(signature = (with_added_tokens = true))]
    fn get_vocab_size(&self, py: Python<'_>, with_added_tokens: bool) -> PyResult<usize> {
        let core = self.core();
        enter(py, |_| Ok(vocabulary::tokens(&core.full, core.json().ok(), with_added_tokens)?.len()))
    }

    /// All tokens with their ids.
    #[pyo3(signature = (with_added_tokens = true))]
    fn get_vocab<'py>(&self, py: Python<'py>, with_added_tokens: bool) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core();
        let tokens = enter(py, |_| vocabulary::tokens(&core.full, core.json().ok(), with_added_tokens))?;
        ask_for(tokens.len(), 2 * TOKEN)?;
        let vocabulary = PyDict::new(py);
        for (token, id) in tokens {
            vocabulary.set_item(token, id)?;
        }
        Ok(vocabulary)
    }

    /// The added tokens by their ids.
    fn get_added_tokens_decoder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core();
        let added = enter(py, |_| vocabulary::added(core.json()?))?;
        let decoder = PyDict::new(py);
        for (id, token) in added {
            decoder.set_item(id, token.into_object(py)?)?;
        }
        Ok(decoder)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.core().plain().token_to_id(token)
    }

    fn id_to_token(&self, py: Python<'_>, id: u32) -> PyResult<Option<String>> {
        let core = self.core();
        enter(py, |_| Ok(core.plain().id_to_token(id)))
    }

    /// How many special tokens are put around a text, or around a pair.
    fn num_special_tokens_to_add(&self, is_pair: bool) -> usize {
        self.post_processing().special_tokens(is_pair)
    }

    /// Adds tokens, and returns how many are new. Calls that run meanwhile do not see them.
    fn add_tokens(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.add(py, tokens, false)
    }

    /// Adds special tokens: decoding leaves them out, if asked to.
    fn add_special_tokens(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.add(py, tokens, true)
    }

    /// Whether special tokens that are written in a text are encoded as any other text.
    #[getter]
    fn encode_special_tokens(&self) -> bool {
        self.core().encode_special_tokens
    }

    #[setter]
    fn set_encode_special_tokens(&self, py: Python<'_>, value: bool) -> PyResult<()> {
        loop {
            let before = self.core();
            if before.encode_special_tokens == value {
                return Ok(());
            }
            let after = enter(py, |_| before.reloaded(value))?;
            if self.replace(&before, after) {
                return Ok(());
            }
        }
    }

    /// How encodings are padded; `None` if they are not.
    #[getter]
    fn padding<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let post_processing = self.post_processing();
        let Some(padding) = post_processing.padding() else { return Ok(None) };
        let length = match padding.strategy {
            PaddingStrategy::Fixed(length) => Some(length),
            PaddingStrategy::BatchLongest => None,
        };
        let settings = PyDict::new(py);
        settings.set_item("length", length)?;
        settings.set_item("pad_to_multiple_of", padding.pad_to_multiple_of)?;
        settings.set_item("pad_id", padding.pad_id)?;
        settings.set_item("pad_token", &padding.pad_token)?;
        settings.set_item("pad_type_id", padding.pad_type_id)?;
        settings.set_item("direction", padding.direction.as_ref())?;
        Ok(Some(settings))
    }

    /// From now on, the encodings of a batch are padded to the longest of them, or to `length`.
    #[pyo3(signature = (
        direction = "right", pad_id = 0, pad_type_id = 0, pad_token = "[PAD]", length = None, pad_to_multiple_of = None
    ))]
    fn enable_padding(
        &self,
        direction: &str,
        pad_id: u32,
        pad_type_id: u32,
        pad_token: &str,
        length: Option<usize>,
        pad_to_multiple_of: Option<usize>,
    ) -> PyResult<()> {
        let strategy = length.map_or(PaddingStrategy::BatchLongest, PaddingStrategy::Fixed);
        let direction = padding_direction(direction)?;
        let pad_token = pad_token.to_owned();
        let padding = PaddingParams { strategy, direction, pad_to_multiple_of, pad_id, pad_type_id, pad_token };
        Arc::make_mut(&mut locked(&self.post_processing)).set_padding(Some(padding));
        Ok(())
    }

    /// From now on, encodings are not padded.
    fn no_padding(&self) {
        Arc::make_mut(&mut locked(&self.post_processing)).set_padding(None);
    }

    /// How encodings are truncated; `None` if they are not.
    #[getter]
    fn truncation<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let post_processing = self.post_processing();
        let Some(truncation) = post_processing.truncation() else { return Ok(None) };
        let settings = PyDict::new(py);
        settings.set_item("max_length", truncation.max_length)?;
        settings.set_item("stride", truncation.stride)?;
        settings.set_item("strategy", truncation.strategy.as_ref())?;
        settings.set_item("direction", truncation.direction.as_ref())?;
        Ok(Some(settings))
    }

    /// From now on, encodings have at most `max_length` tokens, special tokens included.
    #[pyo3(signature = (max_length, stride = 0, strategy = "longest_first", direction = "right"))]
    fn enable_truncation(&self, max_length: usize, stride: usize, strategy: &str, direction: &str) -> PyResult<()> {
        let strategy = match strategy {
            "longest_first" => TruncationStrategy::LongestFirst,
            "only_first" => TruncationStrategy::OnlyFirst,
            "only_second" => TruncationStrategy::OnlySecond,
            other => {
                let known = "longest_first, only_first and only_second";
                return Err(PyValueError::new_err(format!("strategy {other:?} is none of {known}")));
            }
        };
        let direction = truncation_direction(direction)?;
        let truncation = TruncationParams { direction, max_length, strategy, stride };
        let mut post_processing = locked(&self.post_processing);
        Arc::make_mut(&mut post_processing).set_truncation(Some(truncation)).map_err(PyValueError::new_err)
    }

    /// From now on, encodings are not truncated.
    fn no_truncation(&self) -> PyResult<()> {
        let mut post_processing = locked(&self.post_processing);
        Arc::make_mut(&mut post_processing).set_truncation(None).map_err(PyValueError::new_err)
    }

    fn __repr__(&self) -> String {
        let core = self.core();
        format!("<windrow.Tokenizer {:?} of {} ids>", core.plain().name(), core.plain().vocab_size())
    }

    /// The ids of all texts, in flat memory, by all threads of the process's pool. They are neither truncated nor padded.
    #[pyo3(signature = (texts, add_special_tokens = false))]
    fn encode_batch_ids(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        add_special_tokens: bool,
    ) -> PyResult<PyRagged> {
        let (core, texts) = (self.core(), Texts::of(texts)?);
        let batch = enter(py, |watch| {
            let mut batch = Ragged::default();
            let (tokenizer, texts) = (core.of(add_special_tokens)?, texts.strs()?);
            in_parallel(|| tokenizer.encode_batch_ids_while(&texts, &mut batch, &|| watch.goes_on()))?;
            batch.shrink();
            Ok(batch)
        });
        batch.map(PyRagged::new)
    }

    /// The encoding of a text or a pair of texts, or of words.
    #[pyo3(signature = (sequence, pair = None, is_pretokenized = false, add_special_tokens = true))]
    fn encode(
        &self,
        py: Python<'_>,
        sequence: &Bound<'_, PyAny>,
        pair: Option<&Bound<'_, PyAny>>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<PyEncoding> {
        let input = Inputs::one(sequence, pair, is_pretokenized)?;
        let mut made = self.encodings(py, input, add_special_tokens)?;
        Ok(made.pop().expect("an encoding of one input"))
    }

    /// The encodings of many inputs, by all threads of the process's pool.
    #[pyo3(signature = (input, is_pretokenized = false, add_special_tokens = true))]
    fn encode_batch<'py>(
        &self,
        input: &Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        self.list_of_encodings(input, is_pretokenized, add_special_tokens)
    }

    /// The same as `encode_batch`, which finds offsets only if they are looked at.
    #[pyo3(signature = (input, is_pretokenized = false, add_special_tokens = true))]
    fn encode_batch_fast<'py>(
        &self,
        input: &Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        self.list_of_encodings(input, is_pretokenized, add_special_tokens)
    }

    #[pyo3(signature = (sequence, pair = None, is_pretokenized = false, add_special_tokens = true))]
    fn async_encode<'py>(
        slf: &Bound<'py, Self>,
        sequence: Bound<'py, PyAny>,
        pair: Option<Bound<'py, PyAny>>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let pair = pair.unwrap_or_else(|| py.None().into_bound(py));
        let arguments = (sequence, pair, is_pretokenized, add_special_tokens).into_pyobject(py)?;
        Self::on_thread(slf, "encode", &arguments.iter().collect::<Vec<_>>())
    }

    #[pyo3(signature = (input, is_pretokenized = false, add_special_tokens = true))]
    fn async_encode_batch<'py>(
        slf: &Bound<'py, Self>,
        input: Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = (input, is_pretokenized, add_special_tokens).into_pyobject(slf.py())?;
        Self::on_thread(slf, "encode_batch", &arguments.iter().collect::<Vec<_>>())
    }

    #[pyo3(signature = (input, is_pretokenized = false, add_special_tokens = true))]
    fn async_encode_batch_fast<'py>(
        slf: &Bound<'py, Self>,
        input: Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::async_encode_batch(slf, input, is_pretokenized, add_special_tokens)
    }

    /// The text of ids.
    #[pyo3(signature = (ids, skip_special_tokens = true))]
    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, skip_special_tokens: bool) -> PyResult<String> {
        let (core, ids) = (self.core(), ids_of(ids)?);
        let text = enter(py, |_| {
            let text = core.plain().decode(&ids, skip_special_tokens);
            text.map_err(|error| DecodeBatchError { document: 0, error }.into())
        })?;
        ask_for(text.len(), BYTES_OF_CHARACTER)?;
        Ok(text)
    }

    /// The texts of lists of ids.
    #[pyo3(signature = (sequences, skip_special_tokens = true))]
    fn decode_batch(
        &self,
        py: Python<'_>,
        sequences: &Bound<'_, PyAny>,
        skip_special_tokens: bool,
    ) -> PyResult<Vec<String>> {
        let core = self.core();
        let texts = if let Ok(ragged) = sequences.cast::<PyRagged>() {
            let batch = Arc::clone(ragged.get().batch());
            enter(py, |_| {
                let documents: Vec<&[u32]> = batch.iter().collect();
                Ok(in_parallel(|| core.plain().decode_batch(&documents, skip_special_tokens))?)
            })?
        } else {
            let documents: PyResult<Vec<Vec<u32>>> = sequences.try_iter()?.map(|ids| ids_of(&ids?)).collect();
            let documents = documents?;
            enter(py, |_| Ok(in_parallel(|| core.plain().decode_batch(&documents, skip_special_tokens))?))?
        };
        ask_for(texts.iter().map(String::len).sum(), BYTES_OF_CHARACTER)?;
        ask_for(texts.len(), TOKEN)?;
        Ok(texts)
    }

    #[pyo3(signature = (sequences, skip_special_tokens = true))]
    fn async_decode_batch<'py>(
        slf: &Bound<'py, Self>,
        sequences: Bound<'py, PyAny>,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = (sequences, skip_special_tokens).into_pyobject(slf.py())?;
        Self::on_thread(slf, "decode_batch", &arguments.iter().collect::<Vec<_>>())
    }
}

/// Bytes of a character in a text of Python, at most.
const BYTES_OF_CHARACTER: usize = 4;

/// Writes a file so that another one with its name is replaced as a whole, or not at all.
fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let staged = path.with_extension(format!("json.{}", std::process::id()));
    let written = std::fs::write(&staged, text).and_then(|()| std::fs::rename(&staged, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&staged)))
}

//! `Tokenizer` of Python.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use serde_json::value::RawValue;
use windrow_tokenizers::engine::{DecodeBatchError, Ragged, late};
use windrow_tokenizers::full::{
    EncodeInput, Encoding, FullTokenizer, PaddingParams, PaddingStrategy, PostProcessing, TruncationParams,
    TruncationStrategy,
};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::arguments;
use crate::call::{Call, fitted};
use crate::door::{Watch, enter, in_parallel};
use crate::encoding::{BatchOfIds, PyEncoding, padding_direction, truncation_direction};
use crate::errors::{InputError, TOKEN, TokenizerError, ask_for, of_batch, of_decoding, of_file, of_load};
use crate::inputs::Inputs;
use crate::lists::{self, Turns, containers};
use crate::ragged::PyRagged;
use crate::settings::{self, Settings};
use crate::texts::{Texts, ids_in_turns, ids_of};
use crate::vocabulary::{self, Added};

/// A vocabulary, the engine that encodes with it, and the truncation and padding of its encodings.
///
/// Encoding and decoding never change it, so threads may share it. The methods have the names and results of Hugging Face's library.
/// Two tokenizers are equal if their files and settings are.
//
// The state is replaced as a whole, so each call works with the state at its start. The lock is held for moments, by threads that hold
// the interpreter's lock: no forked process finds it taken.
#[pyclass(frozen, weakref, name = "Tokenizer", module = "windrow")]
pub(crate) struct PyTokenizer(Mutex<State>);

/// The whole state of a tokenizer.
#[derive(Clone)]
struct State {
    core: Arc<Core>,
    /// The post-processing, with truncation and padding.
    post_processing: Arc<PostProcessing>,
}

/// A vocabulary, and its treatment of special tokens in texts.
pub(crate) struct Core {
    pub(crate) full: Arc<FullTokenizer>,
    /// Set once an encoding was made again for what does not follow from its ids.
    wants_whole: Arc<OnceLock<()>>,
    encode_special_tokens: bool,
    /// True if it was put together from parts.
    of_parts: bool,
    /// The tokenizers that add special tokens around texts or treat those in texts differently, loaded at first use: see [`of_files`](Self::of_files).
    others: [OnceLock<Tokenizer>; 4],
}

fn options(add_special_tokens: bool, encode_special_tokens: bool, unfinished: bool) -> LoadOptions {
    let special_in_text = !encode_special_tokens;
    LoadOptions { add_special_tokens, special_in_text, unfinished, ..LoadOptions::default() }
}

impl State {
    /// The state with the settings of the file, or with others.
    fn load(file: Option<&[u8]>, of_parts: bool, name: &str, settings: Option<&Settings>) -> PyResult<Self> {
        let encode_special_tokens = settings.map(|settings| settings.encode_special_tokens);
        let mut state = Self::of(Core::load(file, of_parts, name, encode_special_tokens)?);
        if let Some(settings) = settings {
            state.post_processing = Arc::new(settings.apply(&state.post_processing)?);
        }
        Ok(state)
    }

    /// The state with the truncation and the padding of the file.
    fn of(core: Core) -> Self {
        let post_processing = Arc::new(core.full.post_processing().clone());
        Self { core: Arc::new(core), post_processing }
    }

    fn settings(&self) -> Settings {
        Settings {
            encode_special_tokens: self.core.encode_special_tokens,
            truncation: self.post_processing.truncation().cloned(),
            padding: self.post_processing.padding().cloned(),
        }
    }
}

impl Core {
    /// Loads a `tokenizer.json` or a rank file, or without a `file` the vocabulary or the path with this name. A tokenizer that is put together from
    /// parts may be unfinished. Without `encode_special_tokens`, the setting of the file applies.
    fn load(file: Option<&[u8]>, of_parts: bool, name: &str, encode_special_tokens: Option<bool>) -> PyResult<Self> {
        let options = options(false, encode_special_tokens.unwrap_or(false), of_parts);
        let full = match file {
            Some(file) => FullTokenizer::from_bytes(file, name, &options),
            None => FullTokenizer::load(name, &options),
        };
        let full = full.map_err(of_load)?;
        if encode_special_tokens.is_none() && full.json().is_some_and(settings::encodes_special_tokens) {
            return Self::load(full.file(), of_parts, full.tokenizer().name(), Some(true));
        }
        let encode_special_tokens = encode_special_tokens.unwrap_or(false);
        let (full, wants_whole, others) = (Arc::new(full), Arc::default(), Default::default());
        Ok(Self { full, wants_whole, encode_special_tokens, of_parts, others })
    }

    pub(crate) fn plain(&self) -> &Tokenizer {
        self.full.tokenizer()
    }

    pub(crate) fn of(&self, add_special_tokens: bool) -> PyResult<&Tokenizer> {
        self.of_files(add_special_tokens, !self.encode_special_tokens)
    }

    /// The tokenizer of files: `special_in_text` says if it recognizes special tokens that are written there, regardless of this tokenizer's setting.
    pub(crate) fn of_files(&self, add_special_tokens: bool, special_in_text: bool) -> PyResult<&Tokenizer> {
        let adds = add_special_tokens && self.full.json().is_some();
        if !adds && special_in_text != self.encode_special_tokens {
            return Ok(self.plain());
        }
        let other = &self.others[2 * usize::from(adds) + usize::from(special_in_text)];
        let options = options(adds, !special_in_text, self.of_parts);
        let load = || match self.full.file() {
            Some(file) => Tokenizer::from_bytes(file, self.plain().name(), &options),
            None => Tokenizer::load(self.plain().name(), &options),
        };
        late(other, load).map_err(of_load)
    }

    /// The file.
    fn json(&self) -> PyResult<&str> {
        self.full.json().ok_or_else(|| {
            let name = self.plain().name();
            let hint = "hint: load a tokenizer.json with the same tokens instead; pickle and copy work without one";
            TokenizerError::new_err(format!(
                "tokenizer {} is a tiktoken vocabulary, which has no tokenizer.json\n{hint}",
                shown(name)
            ))
        })
    }
}

impl PyTokenizer {
    fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    fn load(py: Python<'_>, file: Option<&[u8]>, of_parts: bool, name: &str) -> PyResult<Self> {
        enter(py, |_| State::load(file, of_parts, name, None)).map(Self::new)
    }

    /// Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file. `encode_special_tokens` replaces the setting of the file.
    fn read(py: Python<'_>, path: &Path, encode_special_tokens: Option<bool>) -> PyResult<Self> {
        let Some(name) = path.to_str() else {
            let message = format!("path {} is not UTF-8\nhint: from_buffer reads the bytes of a file", shown(path));
            return Err(TokenizerError::new_err(message));
        };
        // A file may have the name of a vocabulary.
        let is_single = path.components().count() == 1 && path.extension().is_none();
        let named = if is_single { format!("./{name}") } else { name.to_owned() };
        enter(py, |_| Self::named(&named, encode_special_tokens)).map_err(|error| {
            if path.try_exists().unwrap_or(true) {
                return error;
            }
            let hint = "hint: check the path; from_tiktoken takes the names of vocabularies";
            let message = format!("tokenizer {}: there is no such file\n{hint}", shown(name));
            of_file(ErrorKind::NotFound, message)
        })
    }

    fn named(name: &str, encode_special_tokens: Option<bool>) -> PyResult<Self> {
        Core::load(None, false, name, encode_special_tokens).map(State::of).map(Self::new)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> State {
        self.locked().clone()
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.locked().core)
    }

    fn post_processing(&self) -> Arc<PostProcessing> {
        Arc::clone(&self.locked().post_processing)
    }

    fn encodings(
        &self,
        py: Python<'_>,
        inputs: Inputs,
        add_special_tokens: bool,
        call: &Call,
    ) -> PyResult<Vec<PyEncoding>> {
        let State { core, post_processing } = self.state();
        let post_processing = call.apply(&post_processing, core.plain())?;
        enter(py, |watch| in_parallel(|| encodings(&core, &post_processing, inputs, add_special_tokens, watch)))
    }

    /// Adds tokens, like the library, and returns the number of new ones.
    fn add(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>, special: bool) -> PyResult<usize> {
        let mut turns = Turns::new(py);
        let read = |(number, token): (usize, PyResult<Bound<'_, PyAny>>)| {
            turns.read(1)?;
            Added::of(number, &token?, special)
        };
        let tokens: Vec<Added> =
            arguments::several("tokens", tokens)?.enumerate().map(read).collect::<PyResult<_>>()?;
        self.replace(py, |State { core, .. }| {
            let (count, json) = vocabulary::with_added(core.json()?.as_bytes(), &tokens, special)?;
            let (file, encodes) = (Some(json.as_bytes()), Some(core.encode_special_tokens));
            let after = Core::load(file, core.of_parts, core.plain().name(), encodes)?;
            Ok((Arc::new(after), None, count))
        })
    }

    /// Replaces the core, and the post-processing if `make` makes one. `make` runs again if another thread has replaced the core meanwhile.
    fn replace<R: Send>(
        &self,
        py: Python<'_>,
        make: impl Fn(&State) -> PyResult<(Arc<Core>, Option<Arc<PostProcessing>>, R)> + Sync,
    ) -> PyResult<R> {
        loop {
            let before = self.state();
            let (core, post_processing, result) = enter(py, |_| make(&before))?;
            let mut state = self.locked();
            if Arc::ptr_eq(&state.core, &before.core) {
                let post_processing = post_processing.unwrap_or_else(|| Arc::clone(&state.post_processing));
                *state = State { core, post_processing };
                return Ok(result);
            }
        }
    }

    /// A coroutine that calls a method of this object: `on_thread` or `at_once`.
    fn in_task<'py>(
        slf: &Bound<'py, Self>,
        way: &str,
        method: &str,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, call) = (slf.py(), slf.getattr(method)?);
        let arguments: Vec<_> = std::iter::once(call).chain(arguments).collect();
        let arguments = PyTuple::new(py, arguments)?;
        py.import("windrow.tasks")?.call_method(way, arguments, settings)
    }

    /// A part of the file, as an object of the library `tokenizers`.
    fn part<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("windrow.parts")?.call_method1("part", (slf, name))
    }

    /// Replaces a part of the file by an object of the library `tokenizers`, or by nothing.
    fn set_part(&self, name: &str, part: &Bound<'_, PyAny>) -> PyResult<()> {
        let json = if part.is_none() { "null".to_owned() } else { state_of(part)? };
        self.replace(part.py(), |before| {
            let (name_of_file, settings) = (before.core.plain().name(), before.settings());
            let file = settings.write(before.core.json()?, false, Some((name, &json)))?;
            let after = State::load(Some(file.as_bytes()), true, name_of_file, Some(&settings))?;
            Ok((after.core, Some(after.post_processing), ()))
        })
    }
}

/// The JSON of a part of the library `tokenizers`.
fn state_of(part: &Bound<'_, PyAny>) -> PyResult<String> {
    let state = part.getattr_opt("__getstate__")?.map(|state| state.call0()).transpose()?;
    let Some(json) = state.as_ref().and_then(|state| state.extract::<&[u8]>().ok()) else {
        let name = part.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a component of the tokenizers library, not {name}")));
    };
    Ok(String::from_utf8_lossy(json).into_owned())
}

/// True if a text of this number of ids is neither truncated nor refused.
fn fits(post_processing: &PostProcessing, special: usize, ids: usize) -> bool {
    post_processing.truncation().is_none_or(|truncation| {
        let room = truncation.max_length.checked_sub(special);
        room.is_some_and(|room| ids <= room && (truncation.stride == 0 || truncation.stride < room))
    })
}

/// The encodings of a batch. The encodings of single texts are made from their ids on first access, if they follow from the ids.
fn encodings(
    core: &Core,
    post_processing: &Arc<PostProcessing>,
    inputs: Inputs,
    add_special_tokens: bool,
    watch: &Watch,
) -> PyResult<Vec<PyEncoding>> {
    let full = &core.full;
    let whole = |inputs: Vec<EncodeInput<'_>>| {
        let made = full.encode_batch(inputs, add_special_tokens, post_processing, &|| watch.goes_on());
        // After an interrupt there are no encodings, and nothing is returned.
        Ok(made.map_err(of_batch)?.unwrap_or_default().into_iter().map(PyEncoding::whole).collect())
    };
    // The library makes the rest on access, which takes five times as long as the ids. A program that reads it once will do so again.
    let is_late = !full.tokenizer().engine().name().starts_with("tokenizers 0.23") && core.wants_whole.get().is_none();
    if post_processing.padding().is_some() || !(full.tokenizer().follows_from_ids() || is_late) {
        return whole(inputs.inputs()?);
    }
    let around = full.around(add_special_tokens).map_err(|error| TokenizerError::new_err(error.to_string()))?;
    if around.get_special_tokens_mask().iter().filter(|mask| **mask == 0).count() != 1 {
        return whole(inputs.inputs()?);
    }
    let texts = match inputs.into_texts() {
        Ok(texts) => texts,
        Err(inputs) => return whole(inputs.inputs()?),
    };
    let mut ids = Ragged::default();
    let encoded = full.tokenizer().encode_batch_ids_while(&texts.strs()?, &mut ids, &|| watch.goes_on());
    encoded.map_err(of_batch)?;
    if !ids.iter().all(|ids| fits(post_processing, around.len() - 1, ids.len())) {
        return whole(texts.strs()?.into_iter().map(EncodeInput::from).collect());
    }
    ids.shrink();
    let (full, wants_whole) = (Arc::clone(full), Arc::clone(&core.wants_whole));
    let (ints, whole, post_processing) = (OnceLock::new(), OnceLock::new(), Arc::clone(post_processing));
    let batch = BatchOfIds { full, wants_whole, post_processing, add_special_tokens, around, texts, ids, ints, whole };
    let batch = Arc::new(batch);
    Ok((0..batch.ids.len()).map(|number| PyEncoding::of_ids(&batch, number)).collect())
}

#[pymethods]
impl PyTokenizer {
    /// A copy of a tokenizer: of one of this class, or of the libraries `tokenizers` or `transformers`. It has all settings. A model of
    /// `tokenizers` makes one that has only this model.
    #[new]
    fn from_other(py: Python<'_>, tokenizer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let backend = tokenizer.getattr_opt("backend_tokenizer")?.unwrap_or_else(|| tokenizer.clone());
        if let Ok(ours) = backend.cast::<Self>() {
            return Ok(ours.get().__copy__());
        }
        if backend.get_type().module()? == "tokenizers.models" {
            let json = format!(r#"{{"version":"1.0","added_tokens":[],"model":{}}}"#, state_of(&backend)?);
            return Self::load(py, Some(json.as_bytes()), true, "an object");
        }
        let Some(to_str) = backend.getattr_opt("to_str")? else {
            let expected =
                "tokenizer: expected a Tokenizer or a model from tokenizers, or a fast tokenizer from transformers";
            let hint = "hint: from_file, from_str and from_tiktoken load other tokenizers";
            let name = tokenizer.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{expected}, not {name} ({hint})")));
        };
        let json: String = to_str.call0()?.extract()?;
        // The file does not say.
        let encodes = backend.getattr_opt("encode_special_tokens")?.map(|encodes| encodes.is_truthy()).transpose()?;
        let state = enter(py, |_| {
            let mut state = State::load(Some(json.as_bytes()), true, "an object", None)?;
            if encodes == Some(true) && !state.core.encode_special_tokens {
                state.core = Arc::new(Core::load(state.core.full.file(), true, "an object", encodes)?);
            }
            Ok(state)
        });
        state.map(Self::new)
    }

    /// Reads a `tokenizer.json`, a folder that has one, or a published `.tiktoken` file.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::read(py, &path, None)
    }

    /// The tokenizer that the argument is or names, for calls that take either: a tokenizer; a text, which is the name of a vocabulary or else a
    /// path, as in the command; or a path object. `encode_special_tokens` applies to a tokenizer that is loaded here.
    #[staticmethod]
    #[pyo3(signature = (tokenizer, encode_special_tokens = None))]
    fn _of<'py>(tokenizer: &Bound<'py, PyAny>, encode_special_tokens: Option<bool>) -> PyResult<Bound<'py, Self>> {
        let py = tokenizer.py();
        if let Ok(ours) = tokenizer.cast::<Self>() {
            return Ok(ours.clone());
        }
        let loaded = if let Ok(name) = tokenizer.cast::<PyString>() {
            let name: String = name.extract()?;
            enter(py, |_| Self::named(&name, encode_special_tokens))?
        } else if tokenizer.hasattr("__fspath__")? {
            Self::read(py, &tokenizer.extract::<PathBuf>()?, encode_special_tokens)?
        } else {
            Self::from_other(py, tokenizer)?
        };
        Bound::new(py, loaded)
    }

    /// Reads the text of a `tokenizer.json`.
    #[staticmethod]
    fn from_str(py: Python<'_>, json: String) -> PyResult<Self> {
        Self::load(py, Some(json.as_bytes()), false, "a string")
    }

    /// Reads the bytes of a `tokenizer.json` or of a published `.tiktoken` file.
    #[staticmethod]
    fn from_buffer(py: Python<'_>, buffer: &[u8]) -> PyResult<Self> {
        Self::load(py, Some(buffer), false, "a buffer")
    }

    /// The tokenizer of a model on the Hugging Face Hub: from the cache, or downloaded by the library `huggingface_hub`.
    #[staticmethod]
    #[pyo3(signature = (identifier, revision = "main", token = None))]
    fn from_pretrained(py: Python<'_>, identifier: &str, revision: &str, token: Option<&str>) -> PyResult<Self> {
        let hub = py.import("huggingface_hub").map_err(|cause| {
            let hint = "hint: pip install huggingface_hub, or load a file with from_file";
            let message = format!("tokenizer {}: the huggingface_hub library is missing\n{hint}", shown(identifier));
            let error = TokenizerError::new_err(message);
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
        let no_name = || {
            let message = format!("tokenizer {name:?} is not the name of a vocabulary\nhint: from_file loads files");
            TokenizerError::new_err(message)
        };
        if name.contains(['/', '\\', '.']) {
            return Err(no_name());
        }
        let state = enter(py, |_| {
            let state = State::load(None, false, name, None)?;
            // A folder may have a name without a dot.
            if state.core.full.file().is_some() { Err(no_name()) } else { Ok(state) }
        });
        state.map(Self::new).map_err(|error| {
            if !error.is_instance_of::<TokenizerError>(py) {
                return error;
            }
            // Paths are accepted elsewhere.
            let paths = "; the path to a tokenizer.json or .tiktoken file is also accepted";
            TokenizerError::new_err(error.value(py).to_string().replace(paths, "; from_file loads files"))
        })
    }

    /// The file with the current settings.
    #[pyo3(signature = (pretty = false))]
    fn to_str(&self, py: Python<'_>, pretty: bool) -> PyResult<String> {
        let state = self.state();
        enter(py, |_| state.settings().write(state.core.json()?, pretty, None))
    }

    /// Writes a `tokenizer.json`.
    #[pyo3(signature = (path, pretty = true))]
    fn save(&self, py: Python<'_>, path: PathBuf, pretty: bool) -> PyResult<()> {
        let json = self.to_str(py, pretty)?;
        enter(py, |_| {
            let failed = |error: std::io::Error| of_file(error.kind(), format!("{}: {error}", shown(&path)));
            write(&path, json.as_bytes()).map_err(failed)
        })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let state = slf.get().state();
        let settings =
            serde_json::to_string(&state.settings()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let file = state.core.full.file().map(|file| PyBytes::new(py, file));
        let restore = slf.get_type().getattr("_restore")?;
        (restore, (file, state.core.plain().name(), settings)).into_pyobject(py)
    }

    /// Inverse of `__reduce__`: from the file of the vocabulary, if it is none of tiktoken's names, and all settings.
    #[staticmethod]
    fn _restore(py: Python<'_>, file: Option<&[u8]>, name: &str, settings: &str) -> PyResult<Self> {
        let settings: Settings =
            serde_json::from_str(settings).map_err(|error| PyValueError::new_err(format!("settings: {error}")))?;
        enter(py, |_| State::load(file, file.is_some(), name, Some(&settings))).map(Self::new)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else { return Ok(false) };
        let (one, other) = (self.state(), other.get().state());
        let settings = |state: &State| serde_json::to_value(state.settings());
        let is_same = Arc::ptr_eq(&one.core, &other.core) || one.core.plain().hash() == other.core.plain().hash();
        let are_same = settings(&one).and_then(|one| Ok(one == settings(&other)?));
        Ok(is_same && are_same.map_err(|error| PyValueError::new_err(error.to_string()))?)
    }

    /// A single hash for all tokenizers: equal tokenizers must have equal hashes, and a tokenizer changes.
    fn __hash__(&self) -> isize {
        0
    }

    /// The copy shares the loaded parts.
    fn __copy__(&self) -> Self {
        Self::new(self.state())
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    /// The name of the vocabulary, or the path that was loaded.
    #[getter]
    fn name(&self) -> String {
        self.core().plain().name().to_owned()
    }

    /// The reason why windrow's own engine does not encode with it; `None` if it does.
    #[getter]
    fn delegated(&self) -> Option<String> {
        self.core().plain().delegated().map(str::to_owned)
    }

    /// The engine that encodes, the reason for its choice, and its use so far.
    fn explain(&self) -> String {
        self.core().plain().explain().to_string()
    }

    /// The number of tokens.
    #[pyo3(signature = (with_added_tokens = true))]
    fn get_vocab_size(&self, py: Python<'_>, with_added_tokens: bool) -> PyResult<usize> {
        let core = self.core();
        enter(py, |_| Ok(vocabulary::tokens(&core.full, core.full.json(), with_added_tokens)?.len()))
    }

    /// All tokens with their ids.
    #[pyo3(signature = (with_added_tokens = true))]
    fn get_vocab<'py>(&self, py: Python<'py>, with_added_tokens: bool) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core();
        let tokens = enter(py, |_| vocabulary::tokens(&core.full, core.full.json(), with_added_tokens))?;
        ask_for(tokens.len(), 2 * TOKEN)?;
        let (vocabulary, mut turns) = (PyDict::new(py), Turns::new(py));
        for (token, id) in tokens {
            vocabulary.set_item(token, id)?;
            turns.pass(1, || Ok(()))?;
        }
        Ok(vocabulary)
    }

    /// The added tokens by their ids.
    fn get_added_tokens_decoder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core();
        let added = enter(py, |_| vocabulary::added(core.json()?.as_bytes()))?;
        let decoder = PyDict::new(py);
        for (id, token) in added {
            decoder.set_item(id, token.into_object(py)?)?;
        }
        Ok(decoder)
    }

    /// The id of a token; `None` if there is no such token.
    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.core().plain().token_to_id(token)
    }

    /// The token of an id, as the vocabulary spells it; `None` if there is none.
    fn id_to_token(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::id)] id: u32) -> PyResult<Option<String>> {
        let core = self.core();
        enter(py, |_| Ok(core.plain().id_to_token(id)))
    }

    /// The number of special tokens around a text, or around a pair.
    fn num_special_tokens_to_add(&self, is_pair: bool) -> usize {
        self.post_processing().special_tokens(is_pair)
    }

    /// Adds tokens, and returns the number of new ones. Calls that run meanwhile do not see them.
    fn add_tokens(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.add(py, tokens, false)
    }

    /// Adds special tokens: decoding skips them on request.
    fn add_special_tokens(&self, py: Python<'_>, tokens: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.add(py, tokens, true)
    }

    /// True if special tokens that are written in a text are encoded as plain text.
    #[getter]
    fn encode_special_tokens(&self) -> bool {
        self.core().encode_special_tokens
    }

    #[setter]
    fn set_encode_special_tokens(&self, py: Python<'_>, value: bool) -> PyResult<()> {
        if self.encode_special_tokens() == value {
            return Ok(());
        }
        self.replace(py, |State { core, .. }| {
            Ok((Arc::new(Core::load(core.full.file(), core.of_parts, core.plain().name(), Some(value))?), None, ()))
        })
    }

    /// The padding of encodings; `None` if they are not padded.
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
        #[pyo3(from_py_with = arguments::pad_id)] pad_id: u32,
        #[pyo3(from_py_with = arguments::pad_type_id)] pad_type_id: u32,
        pad_token: &str,
        #[pyo3(from_py_with = arguments::optional::length)] length: Option<usize>,
        #[pyo3(from_py_with = arguments::optional::pad_to_multiple_of)] pad_to_multiple_of: Option<usize>,
    ) -> PyResult<()> {
        let strategy = length.map_or(PaddingStrategy::BatchLongest, PaddingStrategy::Fixed);
        let direction = padding_direction(direction)?;
        let pad_token = pad_token.to_owned();
        let padding = PaddingParams { strategy, direction, pad_to_multiple_of, pad_id, pad_type_id, pad_token };
        Arc::make_mut(&mut self.locked().post_processing).set_padding(Some(padding));
        Ok(())
    }

    /// From now on, encodings are not padded.
    fn no_padding(&self) {
        Arc::make_mut(&mut self.locked().post_processing).set_padding(None);
    }

    /// The truncation of encodings; `None` if they are not truncated.
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
    fn enable_truncation(
        &self,
        #[pyo3(from_py_with = arguments::max_length)] max_length: usize,
        #[pyo3(from_py_with = arguments::stride)] stride: usize,
        strategy: &str,
        direction: &str,
    ) -> PyResult<()> {
        let strategy = match strategy {
            "longest_first" => TruncationStrategy::LongestFirst,
            "only_first" => TruncationStrategy::OnlyFirst,
            "only_second" => TruncationStrategy::OnlySecond,
            other => {
                let known = "longest_first, only_first and only_second";
                return Err(PyValueError::new_err(format!("strategy {other:?} is not one of {known}")));
            }
        };
        let direction = truncation_direction(direction)?;
        let truncation = TruncationParams { direction, max_length, strategy, stride };
        let mut state = self.locked();
        Arc::make_mut(&mut state.post_processing).set_truncation(Some(truncation)).map_err(PyValueError::new_err)
    }

    /// From now on, encodings are not truncated.
    fn no_truncation(&self) -> PyResult<()> {
        let mut state = self.locked();
        Arc::make_mut(&mut state.post_processing).set_truncation(None).map_err(PyValueError::new_err)
    }

    fn __repr__(&self) -> String {
        let core = self.core();
        format!("<windrow.Tokenizer {:?} of {} ids>", core.plain().name(), core.plain().vocab_size())
    }

    /// The ids of all texts, in flat memory, computed by all threads of the process's pool, with the special tokens around each text.
    ///
    /// `max_length` truncates and `padding` pads: `True` to the longest, `"max_length"`, or a length. Without them no setting of the tokenizer
    /// applies. `errors="replace"` puts U+FFFD in the place of characters that are not Unicode.
    #[pyo3(signature = (texts, add_special_tokens = true, *, max_length = None, padding = None, errors = "strict"))]
    fn encode_batch_ids(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        add_special_tokens: bool,
        #[pyo3(from_py_with = arguments::optional::max_length)] max_length: Option<usize>,
        padding: Option<&Bound<'_, PyAny>>,
        errors: &str,
    ) -> PyResult<PyRagged> {
        let call = Call::of(max_length, padding, errors)?;
        let (State { core, post_processing }, texts) = (self.state(), Texts::of(texts, call.errors)?);
        let fit = if call.is_plain() { None } else { Some(call.apply_to_ids(&post_processing, core.plain())?) };
        let batch = enter(py, |watch| {
            let mut batch = Ragged::default();
            let texts = texts.strs()?;
            let tokenizer = if fit.is_some() { core.plain() } else { core.of(add_special_tokens)? };
            in_parallel(|| tokenizer.encode_batch_ids_while(&texts, &mut batch, &|| watch.goes_on()))
                .map_err(of_batch)?;
            if let Some(fit) = fit {
                let around =
                    core.full.around(add_special_tokens).map_err(|error| TokenizerError::new_err(error.to_string()))?;
                return fitted(&batch, &around, &fit).map_err(InputError::new_err);
            }
            batch.shrink();
            Ok(batch)
        });
        batch.map(PyRagged::new)
    }

    /// The encoding of a text or a pair of texts, or of words.
    ///
    /// For this call, `max_length` and `padding` replace the settings of `enable_truncation` and `enable_padding`. `padding`: `True` for the longest
    /// of a batch, `"max_length"`, a length, or `False`. `errors="replace"` puts U+FFFD in the place of characters that are not Unicode.
    #[pyo3(signature = (
        sequence, pair = None, is_pretokenized = false, add_special_tokens = true, *, max_length = None, padding = None,
        errors = "strict"
    ))]
    #[expect(clippy::too_many_arguments, reason = "those of Python")]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        sequence: &Bound<'py, PyAny>,
        pair: Option<&Bound<'py, PyAny>>,
        is_pretokenized: bool,
        add_special_tokens: bool,
        #[pyo3(from_py_with = arguments::optional::max_length)] max_length: Option<usize>,
        padding: Option<&Bound<'py, PyAny>>,
        errors: &str,
    ) -> PyResult<PyEncoding> {
        let call = Call::of(max_length, padding, errors)?;
        let input = Inputs::one(sequence, pair, is_pretokenized, call.errors)?;
        let mut made = self.encodings(py, input, add_special_tokens, &call)?;
        Ok(made.pop().expect("an encoding of one input"))
    }

    /// The encodings of many inputs, made by all threads of the process's pool.
    #[pyo3(signature = (
        input, is_pretokenized = false, add_special_tokens = true, *, max_length = None, padding = None, errors = "strict"
    ))]
    fn encode_batch<'py>(
        &self,
        input: &Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
        #[pyo3(from_py_with = arguments::optional::max_length)] max_length: Option<usize>,
        padding: Option<&Bound<'py, PyAny>>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let (py, call) = (input.py(), Call::of(max_length, padding, errors)?);
        let inputs = Inputs::of(input, is_pretokenized, call.errors)?;
        let encodings = self.encodings(py, inputs, add_special_tokens, &call)?;
        ask_for(encodings.len(), TOKEN)?;
        containers(py, encodings.into_iter())
    }

    /// Like `encode_batch`, but offsets are found only on access.
    #[pyo3(signature = (
        input, is_pretokenized = false, add_special_tokens = true, *, max_length = None, padding = None, errors = "strict"
    ))]
    fn encode_batch_fast<'py>(
        &self,
        input: &Bound<'py, PyAny>,
        is_pretokenized: bool,
        add_special_tokens: bool,
        #[pyo3(from_py_with = arguments::optional::max_length)] max_length: Option<usize>,
        padding: Option<&Bound<'py, PyAny>>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        self.encode_batch(input, is_pretokenized, add_special_tokens, max_length, padding, errors)
    }

    /// `encode` for a task. A short text is encoded at once.
    #[pyo3(
        signature = (*arguments, **settings),
        text_signature = "($self, sequence, pair=None, is_pretokenized=False, add_special_tokens=True, *, max_length=None, \
            padding=None, errors='strict')"
    )]
    fn async_encode<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A thread costs more than the ids of a short text.
        let is_short = |text: Bound<'_, PyAny>| {
            text.cast::<PyString>().is_ok_and(|text| text.len().is_ok_and(|characters| characters <= SHORT))
        };
        let way = if arguments.get_item(0).is_ok_and(is_short) { "at_once" } else { "on_thread" };
        Self::in_task(slf, way, "encode", arguments, settings)
    }

    /// `encode_batch` for a task.
    #[pyo3(
        signature = (*arguments, **settings),
        text_signature = "($self, input, is_pretokenized=False, add_special_tokens=True, *, max_length=None, padding=None, \
            errors='strict')"
    )]
    fn async_encode_batch<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::in_task(slf, "on_thread", "encode_batch", arguments, settings)
    }

    /// `encode_batch_fast` for a task.
    #[pyo3(
        signature = (*arguments, **settings),
        text_signature = "($self, input, is_pretokenized=False, add_special_tokens=True, *, max_length=None, padding=None, \
            errors='strict')"
    )]
    fn async_encode_batch_fast<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::in_task(slf, "on_thread", "encode_batch", arguments, settings)
    }

    /// Truncates an encoding, or two of a pair, that have no special tokens around them; adds those, and pads.
    #[pyo3(signature = (encoding, pair = None, add_special_tokens = true))]
    fn post_process(
        &self,
        py: Python<'_>,
        encoding: &PyEncoding,
        pair: Option<&PyEncoding>,
        add_special_tokens: bool,
    ) -> PyResult<PyEncoding> {
        let (post_processing, first) = (self.post_processing(), encoding.get(py)?);
        let second = pair.map(|pair| pair.get(py)).transpose()?;
        ask_for(first.len() + second.map_or(0, Encoding::len), 2 * TOKEN)?;
        let processed = enter(py, |_| {
            let processed = post_processing.process(first.clone(), second.cloned(), add_special_tokens);
            processed.map_err(|error| InputError::new_err(error.to_string()))
        });
        processed.map(PyEncoding::whole)
    }

    /// The text of ids.
    #[pyo3(signature = (ids, skip_special_tokens = true))]
    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, skip_special_tokens: bool) -> PyResult<String> {
        let (core, ids) = (self.core(), ids_of(ids)?);
        let text = enter(py, |_| {
            let text = core.plain().decode(&ids, skip_special_tokens);
            text.map_err(|error| of_decoding(DecodeBatchError { document: 0, error }))
        })?;
        ask_for(text.len(), BYTES_OF_CHARACTER)?;
        Ok(text)
    }

    /// The texts of lists of ids.
    #[pyo3(signature = (sequences, skip_special_tokens = true))]
    fn decode_batch<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let (core, py) = (self.core(), sequences.py());
        let decoded = |sequences: Vec<&[u32]>, watch: &Watch| {
            let decode = || core.plain().decode_batch_while(&sequences, skip_special_tokens, &|| watch.goes_on());
            Ok(in_parallel(decode).map_err(of_decoding)?.unwrap_or_default())
        };
        let texts = if let Ok(ragged) = sequences.cast::<PyRagged>() {
            let ragged = ragged.get();
            enter(py, |watch| decoded(ragged.iter().collect(), watch))?
        } else {
            let sequences = arguments::several("sequences", sequences)?;
            // Large lists take longer to read than to decode.
            let mut turns = Turns::new(py);
            let sequences: Vec<Vec<u32>> =
                sequences.map(|ids| ids_in_turns(&ids?, &mut turns)).collect::<PyResult<_>>()?;
            enter(py, |watch| decoded(sequences.iter().map(Vec::as_slice).collect(), watch))?
        };
        ask_for(texts.iter().map(String::len).sum(), BYTES_OF_CHARACTER)?;
        ask_for(texts.len(), TOKEN)?;
        lists::texts(py, texts)
    }

    /// `decode_batch` for a task.
    #[pyo3(signature = (*arguments, **settings), text_signature = "($self, sequences, skip_special_tokens=True)")]
    fn async_decode_batch<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::in_task(slf, "on_thread", "decode_batch", arguments, settings)
    }

    /// A fast tokenizer of `transformers` that encodes with this one: with `like`, a copy of that tokenizer, with its special tokens and its chat
    /// template; otherwise a new one, of `PreTrainedTokenizerFast` with these settings.
    #[pyo3(signature = (like = None, **settings))]
    fn as_hf<'py>(
        slf: &Bound<'py, Self>,
        like: Option<Bound<'py, PyAny>>,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("windrow.parts")?.call_method("as_hf", (slf, like), settings)
    }

    /// Trains the model with files, by the library `tokenizers`.
    #[pyo3(signature = (files, trainer = None))]
    fn train(slf: &Bound<'_, Self>, files: Bound<'_, PyAny>, trainer: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        slf.py().import("windrow.parts")?.call_method1("train", (slf, "train", files, trainer)).map(drop)
    }

    /// Trains the model with texts, by the library `tokenizers`.
    #[pyo3(signature = (iterator, trainer = None, length = None))]
    fn train_from_iterator(
        slf: &Bound<'_, Self>,
        iterator: Bound<'_, PyAny>,
        trainer: Option<Bound<'_, PyAny>>,
        length: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        slf.py()
            .import("windrow.parts")?
            .call_method1("train", (slf, "train_from_iterator", iterator, trainer, length))
            .map(drop)
    }

    /// The JSON of a part of the file; `None` if there is none.
    fn _part(&self, name: &str) -> Option<String> {
        let core = self.core();
        let parts: HashMap<&str, &RawValue> = serde_json::from_str(core.full.json()?).ok()?;
        parts.get(name).map(|part| part.get().to_owned()).filter(|part| part != "null")
    }

    /// Becomes the tokenizer of this file.
    fn _read(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        let name = self.name();
        let state = enter(py, |_| State::load(Some(json.as_bytes()), true, &name, None))?;
        *self.locked() = state;
        Ok(())
    }

    /// The normalizer, as an object of the library `tokenizers`. To change it, set another one.
    #[getter]
    fn normalizer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::part(slf, "normalizer")
    }

    #[setter]
    fn set_normalizer(&self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_part("normalizer", part)
    }

    /// The pre-tokenizer, as an object of the library `tokenizers`. To change it, set another one.
    #[getter]
    fn pre_tokenizer<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::part(slf, "pre_tokenizer")
    }

    #[setter]
    fn set_pre_tokenizer(&self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_part("pre_tokenizer", part)
    }

    /// The model, as an object of the library `tokenizers`. To change it, set another one.
    #[getter]
    fn model<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::part(slf, "model")
    }

    #[setter]
    fn set_model(&self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_part("model", part)
    }

    /// The post-processor, as an object of the library `tokenizers`. To change it, set another one.
    #[getter]
    fn post_processor<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::part(slf, "post_processor")
    }

    #[setter]
    fn set_post_processor(&self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_part("post_processor", part)
    }

    /// The decoder, as an object of the library `tokenizers`. To change it, set another one.
    #[getter]
    fn decoder<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::part(slf, "decoder")
    }

    #[setter]
    fn set_decoder(&self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        self.set_part("decoder", part)
    }
}

/// Characters of a text that a task encodes without a thread: within some hundred microseconds.
const SHORT: usize = 4096;

/// Bytes of a character in a text of Python, at most.
const BYTES_OF_CHARACTER: usize = 4;

/// Writes a file so that an existing file with its name is replaced as a whole, or not at all.
fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let staged = path.with_extension(format!("json.{}", std::process::id()));
    let written = std::fs::write(&staged, text).and_then(|()| std::fs::rename(&staged, path));
    written.inspect_err(|_| drop(std::fs::remove_file(&staged)))
}

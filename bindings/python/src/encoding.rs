//! `Encoding` of Python.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyDeprecationWarning, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use windrow_tokenizers::engine::{Ragged, late};
use windrow_tokenizers::full::{
    EncodeInput, Encoding, FullTokenizer, PaddingDirection, PaddingParams, PaddingStrategy, PostProcessing,
    TruncationDirection, pad_encoding,
};

use crate::arguments;
use crate::column::{SHOWN, shortened};
use crate::door::{Watch, enter, in_parallel};
use crate::errors::{INT, InputError, ItemError, PAIR, SMALL_INT, TOKEN, ask_for, of_batch};
use crate::inputs::Inputs;
use crate::ints::Ints;
use crate::lists::{apart, containers, list};
use crate::ragged::counted;
use crate::texts::{Errors, Texts};

/// The encoding of a text, a pair or words. Places are in characters, as in Hugging Face's library.
///
/// Ids and masks are there at once. The rest is made on first access.
#[pyclass(name = "Encoding", module = "windrow")]
pub(crate) struct PyEncoding(Made);

enum Made {
    Whole(Box<Encoding>),
    OfIds { batch: Arc<BatchOfIds>, number: usize, whole: OnceLock<Box<Encoding>> },
}

/// The ids of single texts that are neither truncated nor padded.
pub(crate) struct BatchOfIds {
    pub(crate) full: Arc<FullTokenizer>,
    /// Of the tokenizer: set once an encoding was made again for what does not follow from its ids.
    pub(crate) wants_whole: Arc<OnceLock<()>>,
    pub(crate) post_processing: Arc<PostProcessing>,
    pub(crate) add_special_tokens: bool,
    /// The tokens around each text: an encoding in which one ordinary token represents the text.
    pub(crate) around: Arc<Encoding>,
    pub(crate) texts: Texts,
    /// The ids without the tokens around the texts.
    pub(crate) ids: Ragged,
    /// The integers of the ids, made on first access to ids.
    pub(crate) ints: OnceLock<Option<Ints>>,
    /// All encodings, if they do not follow from the ids, made on first access to other columns of one of them.
    pub(crate) whole: OnceLock<Vec<Encoding>>,
}

impl BatchOfIds {
    fn ids(&self, number: usize) -> &[u32] {
        &self.ids.values[self.ids.offsets[number] as usize..self.ids.offsets[number + 1] as usize]
    }

    /// The number of tokens before and after the text.
    fn around(&self) -> [usize; 2] {
        let special = self.around.get_special_tokens_mask();
        let before = special.iter().take_while(|mask| **mask == 1).count();
        [before, special.len() - before - 1]
    }

    /// A column of an encoding: `inner` replaces the single token in `around`.
    fn column(&self, around: &[u32], inner: impl Iterator<Item = u32>) -> Vec<u32> {
        let [before, _] = self.around();
        around[..before].iter().copied().chain(inner).chain(around[before + 1..].iter().copied()).collect()
    }

    /// The integers of its ids, if a table of them pays.
    fn ints(&self) -> Option<&Ints> {
        let Ok(ints) = late(&self.ints, || Ok::<_, Infallible>(Ints::of(&self.ids.values)));
        ints.as_ref()
    }

    fn offsets(&self, number: usize) -> PyResult<Option<Vec<(usize, usize)>>> {
        let inner = self.full.tokenizer().offsets_of(self.texts.str(number)?, self.ids(number));
        let Some(inner) = inner else { return Ok(None) };
        let [before, after] = self.around();
        let special = |count| std::iter::repeat_n((0, 0), count);
        Ok(Some(special(before).chain(inner).chain(special(after)).collect()))
    }

    /// All encodings, made by all threads.
    fn all(&self, py: Python<'_>) -> PyResult<&[Encoding]> {
        let make = |watch: &Watch| {
            let inputs = self.texts.strs()?.into_iter().map(EncodeInput::from).collect();
            let encode =
                || self.full.encode_batch(inputs, self.add_special_tokens, &self.post_processing, &|| watch.goes_on());
            Ok(in_parallel(encode).map_err(of_batch)?.unwrap_or_default())
        };
        late(&self.whole, || enter(py, make)).map(Vec::as_slice)
    }

    fn whole(&self, number: usize) -> PyResult<Encoding> {
        let text = self.texts.str(number)?;
        let ids = self.ids(number);
        let made = self.full.encoding_of(text, ids, self.add_special_tokens, &self.post_processing);
        made.map_err(|error| ItemError::new_err((number, error.to_string())))
    }
}

impl PyEncoding {
    pub(crate) fn whole(encoding: Encoding) -> Self {
        Self(Made::Whole(Box::new(encoding)))
    }

    pub(crate) fn of_ids(batch: &Arc<BatchOfIds>, number: usize) -> Self {
        Self(Made::OfIds { batch: Arc::clone(batch), number, whole: OnceLock::new() })
    }

    /// All of the encoding.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&Encoding> {
        match &self.0 {
            Made::Whole(encoding) => Ok(encoding),
            Made::OfIds { batch, number, whole } => {
                let follows = batch.full.tokenizer().follows_from_ids();
                if !follows {
                    let _ = batch.wants_whole.set(());
                }
                if batch.ids.len() > 1 && !follows {
                    return Ok(&batch.all(py)?[*number]);
                }
                late(whole, || enter(py, |_| batch.whole(*number)).map(Box::new)).map(Box::as_ref)
            }
        }
    }

    fn get_mut(&mut self, py: Python<'_>) -> PyResult<&mut Encoding> {
        if let Made::OfIds { .. } = self.0 {
            let encoding = self.get(py)?;
            ask_for(encoding.len(), TOKEN)?;
            let encoding = encoding.clone();
            self.0 = Made::Whole(Box::new(encoding));
        }
        let Made::Whole(encoding) = &mut self.0 else { unreachable!("`Whole` was assigned above") };
        Ok(encoding)
    }
}

impl PyEncoding {
    /// A column that has this value for each token of the text, and the value of `around` for the others.
    fn constant<'py>(&self, py: Python<'py>, around: &[u32], value: u32) -> PyResult<Bound<'py, PyList>> {
        let Made::OfIds { batch, number, .. } = &self.0 else { unreachable!("called only for encodings of a batch") };
        let len = batch.ids(*number).len();
        list(py, batch.column(around, std::iter::repeat_n(value, len)).into_iter())
    }

    /// The offsets in characters.
    fn places(&self, py: Python<'_>) -> PyResult<Vec<(usize, usize)>> {
        ask_for(self.__len__(), PAIR)?;
        // Only these are made, and they are not kept: the rest would take several times the time and memory.
        if let Made::OfIds { batch, number, whole } = &self.0
            && whole.get().is_none()
            && let Some(offsets) = enter(py, |_| batch.offsets(*number))?
        {
            return Ok(offsets);
        }
        let offsets = self.get(py)?.get_offsets();
        Ok(apart(py, offsets.len(), || offsets.to_vec()))
    }

    /// The offsets in bytes, for the input of the encoding.
    fn byte_places(
        &self,
        py: Python<'_>,
        sequence: &Bound<'_, PyAny>,
        pair: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(usize, usize)>> {
        let inputs = Inputs::one(sequence, pair, !sequence.is_instance_of::<PyString>(), Errors::Replace)?;
        let offsets = self.places(py)?;
        let encoding = self.get(py)?;
        enter(py, |_| {
            let (sequences, words) = (encoding.get_sequence_ids(), encoding.get_word_ids());
            let places = sequences.into_iter().zip(words.iter().copied());
            let mut starts = CharStarts::default();
            let in_bytes = |((begin, end), (sequence, word)): ((usize, usize), (Option<usize>, Option<u32>))| {
                // A token that does not belong to a text has no place.
                let Some(sequence) = sequence.filter(|_| end > 0) else { return Some((0, 0)) };
                let text = inputs.text(sequence, word)?;
                Some((starts.byte(text, begin)?, starts.byte(text, end)?))
            };
            let found: Option<Vec<_>> = offsets.into_iter().zip(places).map(in_bytes).collect();
            found.ok_or_else(|| {
                InputError::new_err(
                    "the encoding does not belong to this input (hint: pass the input that was encoded)",
                )
            })
        })
    }
}

/// Offsets as an array of numpy.
fn array<'py>(py: Python<'py>, offsets: &[(usize, usize)]) -> PyResult<Bound<'py, PyAny>> {
    let both = |(begin, end): &(usize, usize)| [*begin as i64, *end as i64];
    let numbers = apart(py, offsets.len(), || offsets.iter().flat_map(both).collect::<Vec<_>>());
    let numpy = py.import("numpy")?;
    let flat = numpy.call_method1("frombuffer", (PyBytes::new(py, bytemuck::cast_slice(&numbers)), "=i8"))?;
    flat.call_method1("reshape", ((offsets.len(), 2),))
}

/// The starts of the characters of a text, for the most recently queried text.
#[derive(Default)]
struct CharStarts<'t> {
    text: &'t str,
    /// Empty if each character is a byte.
    starts: Vec<usize>,
}

impl<'t> CharStarts<'t> {
    /// The byte at which this character begins; the end of the last character is the next entry.
    fn byte(&mut self, text: &'t str, character: usize) -> Option<usize> {
        if !std::ptr::eq(self.text, text) {
            self.text = text;
            self.starts.clear();
            if !text.is_ascii() {
                self.starts.extend(text.char_indices().map(|(start, _)| start).chain([text.len()]));
            }
        }
        match self.starts.is_empty() {
            true => (character <= text.len()).then_some(character),
            false => self.starts.get(character).copied(),
        }
    }
}

pub(crate) fn padding_direction(direction: &str) -> PyResult<PaddingDirection> {
    match direction {
        "left" => Ok(PaddingDirection::Left),
        "right" => Ok(PaddingDirection::Right),
        other => Err(PyValueError::new_err(format!("direction {other:?} is neither \"left\" nor \"right\""))),
    }
}

pub(crate) fn truncation_direction(direction: &str) -> PyResult<TruncationDirection> {
    Ok(match padding_direction(direction)? {
        PaddingDirection::Left => TruncationDirection::Left,
        PaddingDirection::Right => TruncationDirection::Right,
    })
}

#[pymethods]
impl PyEncoding {
    /// The ids of the tokens.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.__len__(), INT)?;
        match &self.0 {
            Made::Whole(encoding) => list(py, encoding.get_ids().iter()),
            Made::OfIds { batch, number, .. } => {
                let ids = || batch.column(batch.around.get_ids(), batch.ids(*number).iter().copied());
                let ids = apart(py, self.__len__(), ids);
                let ints = apart(py, batch.ids.values.len(), || batch.ints());
                Ints::list(ints, py, ids.into_iter())
            }
        }
    }

    /// For each token the number of its text in a pair, as the post-processor sets it.
    #[getter]
    fn type_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.__len__(), INT)?;
        match &self.0 {
            Made::Whole(encoding) => list(py, encoding.get_type_ids().iter()),
            Made::OfIds { batch, .. } => {
                let types = batch.around.get_type_ids();
                self.constant(py, types, types[batch.around()[0]])
            }
        }
    }

    /// 1 for each token, 0 for padding.
    #[getter]
    fn attention_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ask_for(self.__len__(), SMALL_INT)?;
        match &self.0 {
            Made::Whole(encoding) => Ok(list(py, encoding.get_attention_mask().iter())?.into_any()),
            Made::OfIds { .. } => PyList::new(py, [1])?.as_sequence().repeat(self.__len__()).map(Bound::into_any),
        }
    }

    /// 1 for special tokens around a text and for padding.
    #[getter]
    fn special_tokens_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ask_for(self.__len__(), SMALL_INT)?;
        match &self.0 {
            Made::Whole(encoding) => list(py, encoding.get_special_tokens_mask().iter()),
            Made::OfIds { batch, .. } => self.constant(py, batch.around.get_special_tokens_mask(), 0),
        }
    }

    fn __len__(&self) -> usize {
        match &self.0 {
            Made::Whole(encoding) => encoding.len(),
            Made::OfIds { batch, number, .. } => batch.ids(*number).len() + batch.around().iter().sum::<usize>(),
        }
    }

    /// Number of texts: 2 for a pair.
    #[getter]
    fn n_sequences(&self) -> usize {
        match &self.0 {
            Made::Whole(encoding) => encoding.n_sequences(),
            Made::OfIds { .. } => 1,
        }
    }

    /// Encodings of the text that truncation has cut off.
    #[getter]
    fn overflowing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let Made::Whole(encoding) = &self.0 else { return Ok(PyList::empty(py)) };
        let parts = encoding.get_overflowing();
        ask_for(parts.iter().map(Encoding::len).sum(), TOKEN)?;
        containers(py, parts.iter().map(|part| Self::whole(part.clone())))
    }

    /// The tokens as the vocabulary spells them.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let tokens = self.get(py)?.get_tokens();
        ask_for(tokens.len(), TOKEN)?;
        list(py, tokens.iter())
    }

    /// The characters of the text for each token: its first, and the one after its last.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        containers(py, self.places(py)?.into_iter())
    }

    /// `offsets` as an array of numpy: a row of two int64 for each token.
    #[getter]
    fn offsets_array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.places(py)?)
    }

    /// The offsets in bytes of UTF-8, for the encoded input: a text, or words; and the second part of a pair.
    #[pyo3(signature = (sequence, pair = None))]
    fn byte_offsets<'py>(
        &self,
        py: Python<'py>,
        sequence: &Bound<'py, PyAny>,
        pair: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        containers(py, self.byte_places(py, sequence, pair)?.into_iter())
    }

    /// `byte_offsets` as an array of numpy: a row of two int64 for each token.
    #[pyo3(signature = (sequence, pair = None))]
    fn byte_offsets_array<'py>(
        &self,
        py: Python<'py>,
        sequence: &Bound<'py, PyAny>,
        pair: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        array(py, &self.byte_places(py, sequence, pair)?)
    }

    /// The number of each token's word; `None` for special tokens.
    #[getter]
    fn word_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let words = self.get(py)?.get_word_ids();
        ask_for(words.len(), INT)?;
        list(py, words.iter().copied())
    }

    /// The older name of `word_ids`.
    #[getter]
    fn words<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let message = c"Encoding.words is deprecated: use Encoding.word_ids";
        PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), message, 1)?;
        self.word_ids(py)
    }

    /// The number of each token's text in a pair; `None` for special tokens.
    #[getter]
    fn sequence_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let encoding = self.get(py)?;
        ask_for(encoding.len(), SMALL_INT)?;
        let sequences = apart(py, encoding.len(), || encoding.get_sequence_ids());
        list(py, sequences.into_iter())
    }

    /// The token that has this character.
    #[pyo3(signature = (char_pos, sequence_index = 0))]
    fn char_to_token(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::char_pos)] char_pos: usize,
        #[pyo3(from_py_with = arguments::sequence_index)] sequence_index: usize,
    ) -> PyResult<Option<usize>> {
        Ok(self.get(py)?.char_to_token(char_pos, sequence_index))
    }

    /// The word that has this character.
    #[pyo3(signature = (char_pos, sequence_index = 0))]
    fn char_to_word(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::char_pos)] char_pos: usize,
        #[pyo3(from_py_with = arguments::sequence_index)] sequence_index: usize,
    ) -> PyResult<Option<u32>> {
        Ok(self.get(py)?.char_to_word(char_pos, sequence_index))
    }

    /// The characters of a token; `None` for special tokens.
    fn token_to_chars(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::token_index)] token_index: usize,
    ) -> PyResult<Option<(usize, usize)>> {
        Ok(self.get(py)?.token_to_chars(token_index).map(|(_, chars)| chars))
    }

    /// The number of a token's text in a pair.
    fn token_to_sequence(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::token_index)] token_index: usize,
    ) -> PyResult<Option<usize>> {
        Ok(self.get(py)?.token_to_sequence(token_index))
    }

    /// The number of a token's word.
    fn token_to_word(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::token_index)] token_index: usize,
    ) -> PyResult<Option<u32>> {
        Ok(self.get(py)?.token_to_word(token_index).map(|(_, word)| word))
    }

    /// The characters of a word.
    #[pyo3(signature = (word_index, sequence_index = 0))]
    fn word_to_chars(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::word_index)] word_index: u32,
        #[pyo3(from_py_with = arguments::sequence_index)] sequence_index: usize,
    ) -> PyResult<Option<(usize, usize)>> {
        Ok(self.get(py)?.word_to_chars(word_index, sequence_index))
    }

    /// The tokens of a word: its first, and the one after its last.
    #[pyo3(signature = (word_index, sequence_index = 0))]
    fn word_to_tokens(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::word_index)] word_index: u32,
        #[pyo3(from_py_with = arguments::sequence_index)] sequence_index: usize,
    ) -> PyResult<Option<(usize, usize)>> {
        Ok(self.get(py)?.word_to_tokens(word_index, sequence_index))
    }

    /// Pads this encoding and its overflowing parts.
    #[pyo3(signature = (length, direction = "right", pad_id = 0, pad_type_id = 0, pad_token = "[PAD]"))]
    fn pad(
        &mut self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::length)] length: usize,
        direction: &str,
        #[pyo3(from_py_with = arguments::pad_id)] pad_id: u32,
        #[pyo3(from_py_with = arguments::pad_type_id)] pad_type_id: u32,
        pad_token: &str,
    ) -> PyResult<()> {
        let direction = padding_direction(direction)?;
        let strategy = PaddingStrategy::Fixed(length);
        let pad_token = pad_token.to_owned();
        let padding = PaddingParams { strategy, direction, pad_to_multiple_of: None, pad_id, pad_type_id, pad_token };
        pad_encoding(self.get_mut(py)?, &padding).map_err(PyMemoryError::new_err)
    }

    /// Truncates this encoding; the rest becomes overflowing parts.
    #[pyo3(signature = (max_length, stride = 0, direction = "right"))]
    fn truncate(
        &mut self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::max_length)] max_length: usize,
        #[pyo3(from_py_with = arguments::stride)] stride: usize,
        direction: &str,
    ) -> PyResult<()> {
        let direction = truncation_direction(direction)?;
        if max_length > 0 && stride >= max_length {
            return Err(PyValueError::new_err(format!("the stride {stride} is not below max_length {max_length}")));
        }
        self.get_mut(py)?.truncate(max_length, stride, direction);
        Ok(())
    }

    /// Assigns all tokens to this sequence.
    fn set_sequence_id(
        &mut self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::sequence_id)] sequence_id: usize,
    ) -> PyResult<()> {
        self.get_mut(py)?.set_sequence_id(sequence_id);
        Ok(())
    }

    /// One encoding of several.
    #[staticmethod]
    #[pyo3(signature = (encodings, growing_offsets = true))]
    fn merge(py: Python<'_>, encodings: Vec<PyRef<'_, Self>>, growing_offsets: bool) -> PyResult<Self> {
        // They are copied, and then merged.
        ask_for(encodings.iter().map(|one| one.__len__()).sum(), 2 * TOKEN)?;
        let whole: Vec<&Encoding> = encodings.iter().map(|one| one.get(py)).collect::<PyResult<_>>()?;
        let merge = || Encoding::merge(whole.into_iter().cloned(), growing_offsets);
        Ok(Self::whole(apart(py, encodings.iter().map(|one| one.__len__()).sum(), merge)))
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.extract::<PyRef<'_, Self>>() else { return Ok(false) };
        let (one, other) = (self.get(py)?, other.get(py)?);
        Ok(apart(py, one.len(), || one == other))
    }

    fn __repr__(&self) -> String {
        let (ids, overflowing) = match &self.0 {
            Made::Whole(encoding) => {
                let ids = encoding.get_ids().iter().copied().take(SHOWN + 1);
                (ids.collect(), encoding.get_overflowing().len())
            }
            Made::OfIds { batch, number, .. } => {
                let ids = batch.ids(*number).iter().copied().take(SHOWN + 1);
                (batch.column(batch.around.get_ids(), ids), 0)
            }
        };
        let ids = shortened(&ids, SHOWN, u32::to_string);
        format!("<windrow.Encoding of {}, {overflowing} overflowing: {ids}>", counted(self.__len__(), "token"))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let this = slf.borrow();
        ask_for(this.__len__(), 2 * TOKEN)?;
        let encoding = this.get(py)?;
        let json = apart(py, encoding.len(), || serde_json::to_vec(encoding));
        let json = json.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let restore = slf.get_type().getattr("_restore")?;
        (restore, (PyBytes::new(py, &json),)).into_pyobject(py)
    }

    #[staticmethod]
    fn _restore(py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        ask_for(json.len(), 2)?;
        let encoding = apart(py, json.len(), || serde_json::from_slice(json));
        let encoding = encoding.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self::whole(encoding))
    }
}

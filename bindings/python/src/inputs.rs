//! Inputs that Hugging Face's library accepts: a text, or words if `is_pretokenized`; or a pair of them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use windrow_tokenizers::full::{EncodeInput, InputSequence};

use crate::arguments::several;
use crate::lists::Turns;
use crate::texts::{Errors, Item, Texts};

enum Sequence {
    Text(Item),
    Words(Vec<Item>),
}

struct Input {
    first: Sequence,
    second: Option<Sequence>,
}

/// The inputs of a batch, kept alive.
pub(crate) struct Inputs(Vec<Input>);

impl Inputs {
    pub(crate) fn of(inputs: &Bound<'_, PyAny>, is_pretokenized: bool, errors: Errors) -> PyResult<Self> {
        if inputs.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "expected several inputs, not a single text (hint: encode takes a single text)",
            ));
        }
        // Rows of an array are arrays, not the lists that pairs are.
        let listed = if inputs.hasattr("__array_interface__")? { Some(inputs.call_method0("tolist")?) } else { None };
        let mut turns = Turns::new(inputs.py());
        let read = |(number, input): (usize, PyResult<Bound<'_, PyAny>>)| {
            Input::of(number, &input?, is_pretokenized, errors, &mut turns)
        };
        several("input", listed.as_ref().unwrap_or(inputs))?.enumerate().map(read).collect::<PyResult<_>>().map(Self)
    }

    /// A batch of one.
    pub(crate) fn one(
        first: &Bound<'_, PyAny>,
        second: Option<&Bound<'_, PyAny>>,
        is_pretokenized: bool,
        errors: Errors,
    ) -> PyResult<Self> {
        let mut turns = Turns::new(first.py());
        let mut sequence = |sequence| Sequence::of(0, sequence, is_pretokenized, errors, &mut turns);
        let (first, second) = (sequence(first)?, second.map(sequence).transpose()?);
        Ok(Self(vec![Input { first, second }]))
    }

    /// The texts, if all inputs are single texts.
    pub(crate) fn into_texts(self) -> Result<Texts, Self> {
        if self.0.iter().any(|input| input.second.is_some() || matches!(input.first, Sequence::Words(_))) {
            return Err(self);
        }
        let text = |input: Input| match input.first {
            Sequence::Text(text) => text,
            Sequence::Words(_) => unreachable!("there are none"),
        };
        Ok(Texts::Items(self.0.into_iter().map(text).collect()))
    }

    /// In a batch of one: the text of this sequence, or its word.
    pub(crate) fn text(&self, sequence: usize, word: Option<u32>) -> Option<&str> {
        let [input] = self.0.as_slice() else { return None };
        let sequence = if sequence == 0 { Some(&input.first) } else { input.second.as_ref() };
        let item = match sequence? {
            Sequence::Text(text) => text,
            Sequence::Words(words) => words.get(word? as usize)?,
        };
        item.text(0).ok()
    }

    /// The inputs in the library's type.
    pub(crate) fn inputs(&self) -> PyResult<Vec<EncodeInput<'_>>> {
        self.0.iter().enumerate().map(|(number, input)| input.as_library(number)).collect()
    }
}

impl Input {
    fn of(
        number: usize,
        input: &Bound<'_, PyAny>,
        is_pretokenized: bool,
        errors: Errors,
        turns: &mut Turns<'_>,
    ) -> PyResult<Self> {
        // A pair is a tuple or list of two texts, or of two lists of words.
        let is_sequence = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyString>() != is_pretokenized;
        let parts = match (input.cast::<PyTuple>(), input.cast::<PyList>()) {
            (Ok(tuple), _) => Some(tuple.iter().collect::<Vec<_>>()),
            (_, Ok(list)) => Some(list.iter().collect()),
            _ => None,
        };
        if let Some([first, second]) = parts.as_deref()
            && is_sequence(first)
            && is_sequence(second)
        {
            let mut sequence = |sequence| Sequence::of(number, sequence, is_pretokenized, errors, turns);
            return Ok(Self { first: sequence(first)?, second: Some(sequence(second)?) });
        }
        Ok(Self { first: Sequence::of(number, input, is_pretokenized, errors, turns)?, second: None })
    }

    fn as_library(&self, number: usize) -> PyResult<EncodeInput<'_>> {
        let first = self.first.sequence(number)?;
        Ok(match &self.second {
            None => EncodeInput::Single(first),
            Some(second) => EncodeInput::Dual(first, second.sequence(number)?),
        })
    }
}

impl Sequence {
    fn of(
        number: usize,
        sequence: &Bound<'_, PyAny>,
        is_pretokenized: bool,
        errors: Errors,
        turns: &mut Turns<'_>,
    ) -> PyResult<Self> {
        let mut read = |text| {
            let item = Item::of(number, text, errors)?;
            turns.read(item.objects())?;
            Ok(item)
        };
        let is_text = sequence.is_instance_of::<PyString>();
        if is_pretokenized
            && !is_text
            && let Ok(words) = sequence.try_iter()
        {
            return words.map(|word| read(word?)).collect::<PyResult<_>>().map(Self::Words);
        }
        if is_text && !is_pretokenized {
            return read(sequence.clone()).map(Self::Text);
        }
        let name = sequence.get_type().name()?;
        let (expected, hint) = if is_pretokenized {
            ("a list of words, or a pair of such lists", "pass is_pretokenized=False for texts")
        } else {
            ("a str, or a pair of str", "pass is_pretokenized=True for words")
        };
        Err(PyTypeError::new_err(format!("item {number}: expected {expected}, not {name} (hint: {hint})")))
    }

    fn sequence(&self, number: usize) -> PyResult<InputSequence<'_>> {
        Ok(match self {
            Self::Text(text) => InputSequence::from(text.text(number)?),
            Self::Words(words) => {
                let words: PyResult<Vec<&str>> = words.iter().map(|word| word.text(number)).collect();
                InputSequence::from(words?)
            }
        })
    }
}

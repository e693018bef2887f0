//! Arguments of one call that encodes: truncation, padding, and the treatment of texts that are no Unicode.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use windrow_tokenizers::engine::Ragged;
use windrow_tokenizers::full::{
    Encoding, PaddingDirection, PaddingParams, PaddingStrategy, PostProcessing, TruncationDirection, TruncationParams,
};
use windrow_tokenizers::tokenizer::Tokenizer;

use crate::arguments::number;
use crate::texts::Errors;

/// The arguments of a call.
pub(crate) struct Call {
    pub(crate) errors: Errors,
    max_length: Option<usize>,
    padding: Option<Padding>,
}

#[derive(Clone, Copy)]
enum Padding {
    Off,
    Longest,
    MaxLength,
    To(usize),
}

impl Padding {
    fn of(padding: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(is_on) = padding.cast::<PyBool>() {
            return Ok(if is_on.is_true() { Self::Longest } else { Self::Off });
        }
        if let Ok(name) = padding.cast::<PyString>() {
            return match name.to_str()? {
                "longest" => Ok(Self::Longest),
                "max_length" => Ok(Self::MaxLength),
                other => Err(PyValueError::new_err(format!(
                    "padding {other:?} is not \"longest\", \"max_length\", True, False or a length"
                ))),
            };
        }
        number(&"padding", padding).map(Self::To).map_err(|error| {
            let found = padding.get_type().name().map(|name| name.to_string()).unwrap_or_default();
            match error.is_instance_of::<PyTypeError>(padding.py()) {
                true => PyTypeError::new_err(format!("padding must be a bool, a length or a str, not {found}")),
                false => error,
            }
        })
    }
}

impl Call {
    pub(crate) fn of(max_length: Option<usize>, padding: Option<&Bound<'_, PyAny>>, errors: &str) -> PyResult<Self> {
        Ok(Self { errors: Errors::of(errors)?, max_length, padding: padding.map(Padding::of).transpose()? })
    }

    /// True if ids are as long as their texts require.
    pub(crate) fn is_plain(&self) -> bool {
        self.max_length.is_none() && matches!(self.padding, None | Some(Padding::Off))
    }

    /// The truncation and padding that this call requests, in the directions and with the token that are set.
    pub(crate) fn apply_to_ids(&self, set: &Arc<PostProcessing>, tokenizer: &Tokenizer) -> PyResult<PostProcessing> {
        let mut fit = Arc::unwrap_or_clone(self.apply(set, tokenizer)?);
        if self.max_length.is_none() {
            fit.set_truncation(None).map_err(PyValueError::new_err)?;
        }
        if self.padding.is_none() {
            fit.set_padding(None);
        }
        Ok(fit)
    }

    /// The tokenizer's post-processing, with the changes of this call.
    pub(crate) fn apply(&self, set: &Arc<PostProcessing>, tokenizer: &Tokenizer) -> PyResult<Arc<PostProcessing>> {
        if self.max_length.is_none() && self.padding.is_none() {
            return Ok(Arc::clone(set));
        }
        let mut changed = PostProcessing::clone(set);
        if let Some(max_length) = self.max_length {
            let truncation = TruncationParams { max_length, ..set.truncation().cloned().unwrap_or_default() };
            changed.set_truncation(Some(truncation)).map_err(PyValueError::new_err)?;
        }
        let strategy = match self.padding {
            None => return Ok(Arc::new(changed)),
            Some(Padding::Off) => {
                changed.set_padding(None);
                return Ok(Arc::new(changed));
            }
            Some(Padding::Longest) => PaddingStrategy::BatchLongest,
            Some(Padding::To(length)) => PaddingStrategy::Fixed(length),
            Some(Padding::MaxLength) => {
                let length = changed.truncation().map(|truncation| truncation.max_length);
                let hint = "hint: set one with max_length=... or enable_truncation";
                let error = || PyValueError::new_err(format!("padding \"max_length\" needs a maximum length\n{hint}"));
                PaddingStrategy::Fixed(length.ok_or_else(error)?)
            }
        };
        let padding = set.padding().cloned().map_or_else(|| usual(tokenizer), Ok)?;
        changed.set_padding(Some(PaddingParams { strategy, ..padding }));
        Ok(Arc::new(changed))
    }
}

/// Padding with the usual token of vocabularies.
fn usual(tokenizer: &Tokenizer) -> PyResult<PaddingParams> {
    const USUAL: [&str; 4] = ["[PAD]", "<pad>", "<|pad|>", "<PAD>"];
    let found = USUAL.iter().find_map(|token| Some((token, tokenizer.token_to_id(token)?)));
    let Some((token, pad_id)) = found else {
        let hint = "hint: set one with enable_padding(pad_id=..., pad_token=...)";
        return Err(PyValueError::new_err(format!("padding: the vocabulary has no padding token\n{hint}")));
    };
    Ok(PaddingParams { pad_id, pad_token: (*token).to_owned(), ..PaddingParams::default() })
}

/// The ids of texts with the tokens `around` each: an encoding in which one ordinary token represents the text. They are truncated and padded.
pub(crate) fn fitted(batch: &Ragged, around: &Encoding, post_processing: &PostProcessing) -> Result<Ragged, String> {
    let (masks, ids) = (around.get_special_tokens_mask(), around.get_ids());
    let place = masks.iter().position(|mask| *mask == 0).unwrap_or(0);
    let special = ids.len() - 1;
    let (most, keeps_end) = match post_processing.truncation() {
        Some(params) if params.max_length < special => {
            return Err(format!(
                "truncation: max_length {} is less than the number of special tokens, {special}",
                params.max_length
            ));
        }
        Some(params) => (params.max_length - special, params.direction == TruncationDirection::Left),
        None => (usize::MAX, false),
    };
    let kept =
        |ids: &[u32]| if keeps_end { ids.len() - most.min(ids.len())..ids.len() } else { 0..most.min(ids.len()) };
    let padding = post_processing.padding();
    let length = padding.map_or(0, |padding| {
        let length = match padding.strategy {
            PaddingStrategy::Fixed(length) => length,
            PaddingStrategy::BatchLongest => batch.iter().map(|ids| kept(ids).len() + special).max().unwrap_or(0),
        };
        padding
            .pad_to_multiple_of
            .filter(|multiple| *multiple > 0)
            .map_or(length, |multiple| length.checked_next_multiple_of(multiple).unwrap_or(length))
    });
    let ids_of_all = batch.iter().map(|ids| length.max(kept(ids).len() + special)).try_fold(0, usize::checked_add);
    let mut fitted = Ragged { values: Vec::new(), offsets: Vec::with_capacity(batch.len() + 1) };
    if ids_of_all.is_none_or(|ids| fitted.values.try_reserve_exact(ids).is_err()) {
        return Err("not enough memory for the padded ids".to_owned());
    }
    fitted.offsets.push(0);
    let pad_id = padding.map_or(0, |padding| padding.pad_id);
    let is_left = padding.is_some_and(|padding| matches!(padding.direction, PaddingDirection::Left));
    for text in batch.iter() {
        let text = &text[kept(text)];
        let missing = length.saturating_sub(text.len() + special);
        let [before, after] = if is_left { [missing, 0] } else { [0, missing] };
        fitted.values.extend(std::iter::repeat_n(pad_id, before));
        fitted.values.extend_from_slice(&ids[..place]);
        fitted.values.extend_from_slice(text);
        fitted.values.extend_from_slice(&ids[place + 1..]);
        fitted.values.extend(std::iter::repeat_n(pad_id, after));
        fitted.offsets.push(fitted.values.len() as u64);
    }
    Ok(fitted)
}

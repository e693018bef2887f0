//! All settings of a tokenizer: its state in addition to the vocabulary. Every way to copy a tokenizer carries them.

use std::collections::HashMap;

use pyo3::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use windrow_tokenizers::full::PostProcessing;
use windrow_tokenizers::full::{PaddingParams, TruncationParams};

use crate::errors::{InputError, TokenizerError};

/// The settings, in the form that a pickled tokenizer has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) encode_special_tokens: bool,
    pub(crate) truncation: Option<TruncationParams>,
    pub(crate) padding: Option<PaddingParams>,
}

/// A `tokenizer.json` has no place for `encode_special_tokens`, and Hugging Face's library refuses unknown ones. So each special token gets this
/// field: the library ignores further fields of added tokens.
const IN_TEXT: &str = "special_in_text";

/// The order of the library.
const ORDER: &str = "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model";

fn failed(error: serde_json::Error) -> PyErr {
    TokenizerError::new_err(error.to_string())
}

/// The added tokens of a file that may have [`IN_TEXT`].
fn marked(parts: &HashMap<&str, &RawValue>) -> Option<Vec<Map<String, Value>>> {
    let added = parts.get("added_tokens").filter(|added| added.get().contains(IN_TEXT))?;
    serde_json::from_str(added.get()).ok()
}

/// True if a file says that special tokens in texts are encoded as text.
pub(crate) fn encodes_special_tokens(json: &str) -> bool {
    if !json.contains(IN_TEXT) {
        return false;
    }
    let parts: HashMap<&str, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    let is_text = |token: &Map<String, Value>| token.get(IN_TEXT) == Some(&Value::Bool(false));
    marked(&parts).is_some_and(|added| added.iter().any(is_text))
}

impl Settings {
    /// Applies truncation and padding.
    pub(crate) fn apply(&self, post_processing: &PostProcessing) -> PyResult<PostProcessing> {
        let mut post_processing = post_processing.clone();
        post_processing.set_truncation(self.truncation.clone()).map_err(InputError::new_err)?;
        post_processing.set_padding(self.padding.clone());
        Ok(post_processing)
    }

    /// A file with these settings, and with another part if there is one.
    pub(crate) fn write(&self, json: &str, pretty: bool, part: Option<(&str, &str)>) -> PyResult<String> {
        let mut parts: HashMap<&str, &RawValue> = serde_json::from_str(json).map_err(failed)?;
        let truncation = to_raw_value(&self.truncation).map_err(failed)?;
        let padding = to_raw_value(&self.padding).map_err(failed)?;
        let added = self.added_tokens(&parts)?;
        parts.insert("truncation", &truncation);
        parts.insert("padding", &padding);
        if let Some(added) = &added {
            parts.insert("added_tokens", added);
        }
        if let Some((name, part)) = part {
            parts.insert(name, serde_json::from_str(part).map_err(failed)?);
        }
        let place = |name: &str| ORDER.split(' ').position(|known| known == name).unwrap_or(usize::MAX);
        let mut parts: Vec<(&str, &RawValue)> = parts.into_iter().collect();
        parts.sort_by_key(|(name, _)| (place(name), *name));
        let texts: Vec<String> = parts.iter().map(|(name, value)| format!("{name:?}:{}", value.get())).collect();
        let text = format!("{{{}}}", texts.join(","));
        Ok(if pretty { indented(&text) } else { text })
    }

    /// The added tokens with or without [`IN_TEXT`]; `None` if the tokens of the file are right.
    fn added_tokens(&self, parts: &HashMap<&str, &RawValue>) -> PyResult<Option<Box<RawValue>>> {
        let added = match (marked(parts), parts.get("added_tokens")) {
            (Some(added), _) => Some(added),
            (None, Some(added)) if self.encode_special_tokens => serde_json::from_str(added.get()).map_err(failed)?,
            _ => None,
        };
        let Some(mut added) = added else { return Ok(None) };
        for token in &mut added {
            token.remove(IN_TEXT);
            if self.encode_special_tokens && token.get("special") == Some(&Value::Bool(true)) {
                token.insert(IN_TEXT.to_owned(), Value::Bool(false));
            }
        }
        to_raw_value(&added).map(Some).map_err(failed)
    }
}

/// JSON with a line for each member, in the library's format.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(2 * json.len());
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut rest = json.chars().peekable();
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(character) = rest.next() {
        if in_string {
            text.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                text.push(character);
                while rest.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(end) = rest.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(character);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => {
                in_string = other == '"';
                text.push(other);
            }
        }
    }
    text
}

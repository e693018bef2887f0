//! Tokens and their ids, by the rules of Hugging Face's library.

use std::collections::HashMap;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windrow_tokenizers::full::{FullTokenizer, PostProcessing};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::LoadOptions;
use windrow_tokenizers::tokenizers_023::{AddedToken, Tokenizer};

use crate::errors::Failure;

/// A token to add, or that was added.
pub(crate) struct Added(AddedToken);

impl Added {
    /// A `str`, or an object with the attributes of `AddedToken`.
    pub(crate) fn of(token: &Bound<'_, PyAny>, special: bool) -> PyResult<Self> {
        if let Ok(content) = token.cast::<PyString>() {
            return Ok(Self(AddedToken::from(content.to_cow()?, special)));
        }
        let Some(content) = token.getattr_opt("content")? else {
            let name = token.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected str or AddedToken, not {name}")));
        };
        let flag = |name: &str| token.getattr(name)?.extract::<bool>();
        let is_special = special || flag("special")?;
        let added = AddedToken::from(content.extract::<String>()?, is_special);
        let added = added.single_word(flag("single_word")?).lstrip(flag("lstrip")?).rstrip(flag("rstrip")?);
        Ok(Self(added.normalized(flag("normalized")?)))
    }

    /// `windrow.AddedToken`.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let AddedToken { content, single_word, lstrip, rstrip, normalized, special } = self.0;
        let class = py.import("windrow.added")?.getattr("AddedToken")?;
        class.call1((content, single_word, lstrip, rstrip, normalized, special))
    }
}

/// The library with a file.
fn library(json: &[u8]) -> Result<Tokenizer, Failure> {
    Tokenizer::from_bytes(json)
        .map_err(|error| Failure::Tokenizer(format!("tokenizers 0.23 cannot read it: {}", shown(&error.to_string()))))
}

/// A file with more tokens, and how many of them are new.
pub(crate) fn with_added(json: &[u8], tokens: &[Added], special: bool) -> Result<(usize, String), Failure> {
    let mut library = library(json)?;
    let failed = |error: windrow_tokenizers::tokenizers_023::Error| Failure::Tokenizer(error.to_string());
    let more = tokens.iter().map(|added| added.0.clone());
    let added = if special { library.add_special_tokens(more) } else { library.add_tokens(more) };
    let count = added.map_err(|error| refused(json, tokens).unwrap_or_else(|| failed(error)))?;
    Ok((count, library.to_string(false).map_err(failed)?))
}

/// Reason to refuse a file with these tokens: it names them, where the library does not.
fn refused(json: &[u8], tokens: &[Added]) -> Option<Failure> {
    let mut file: Value = serde_json::from_slice(json).ok()?;
    let listed = file.get_mut("added_tokens")?.as_array_mut()?;
    for Added(AddedToken { content, single_word, lstrip, rstrip, normalized, special }) in tokens {
        listed.retain(|known| known["content"] != content.as_str());
        let next = listed.iter().filter_map(|known| known["id"].as_u64()).max().map_or(0, |last| last + 1);
        listed.push(json!({
            "id": next, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip, "normalized": normalized,
            "special": special,
        }));
    }
    let loaded = windrow_tokenizers::tokenizer::Tokenizer::from_json(
        file.to_string().as_bytes(),
        "with these tokens",
        &LoadOptions::default(),
    );
    loaded.err().map(Failure::from)
}

/// The added tokens by their ids.
pub(crate) fn added(json: &[u8]) -> Result<Vec<(u32, Added)>, Failure> {
    let mut added: Vec<_> = library(json)?.get_added_tokens_decoder().into_iter().collect();
    added.sort_by_key(|(id, _)| *id);
    Ok(added.into_iter().map(|(id, token)| (id, Added(token))).collect())
}

/// All tokens with their ids. `json` is the file, if there is one.
pub(crate) fn tokens(
    full: &FullTokenizer,
    json: Option<&[u8]>,
    with_added_tokens: bool,
) -> Result<HashMap<String, u32>, Failure> {
    if let Some(json) = json {
        return Ok(library(json)?.get_vocab(with_added_tokens));
    }
    let tokenizer = full.tokenizer();
    let added: Vec<u32> = tokenizer.eos_candidates().into_iter().map(|(_, id)| id).collect();
    let ids = (0..tokenizer.vocab_size()).filter(|id| with_added_tokens || !added.contains(id));
    Ok(ids.filter_map(|id| Some((tokenizer.id_to_token(id)?, id))).collect())
}

/// A file with the truncation and the padding of `post_processing`.
pub(crate) fn with_settings(json: &[u8], post_processing: &PostProcessing, pretty: bool) -> Result<String, Failure> {
    const ORDER: [&str; 9] = [
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    ];
    let failed = |error: serde_json::Error| Failure::Tokenizer(error.to_string());
    let mut parts: HashMap<&str, &RawValue> = serde_json::from_slice(json).map_err(failed)?;
    let truncation = serde_json::value::to_raw_value(&post_processing.truncation()).map_err(failed)?;
    let padding = serde_json::value::to_raw_value(&post_processing.padding()).map_err(failed)?;
    parts.insert("truncation", &truncation);
    parts.insert("padding", &padding);
    let place = |name: &str| ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len());
    let mut parts: Vec<(&str, &RawValue)> = parts.into_iter().collect();
    parts.sort_by_key(|(name, _)| (place(name), *name));
    let texts: Vec<String> = parts.iter().map(|(name, value)| format!("{name:?}:{}", value.get())).collect();
    let text = format!("{{{}}}", texts.join(","));
    if !pretty {
        return Ok(text);
    }
    let library = library(text.as_bytes())?;
    library.to_string(true).map_err(|error| Failure::Tokenizer(error.to_string()))
}

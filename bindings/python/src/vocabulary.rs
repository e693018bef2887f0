//! Tokens and their ids, by the rules of Hugging Face's library.

use std::collections::HashMap;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::{Value, json};
use windrow_tokenizers::full::{AddedToken, FullTokenizer, LibraryError, LibraryTokenizer};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::LoadOptions;

use crate::errors::{TokenizerError, of_load};
use crate::texts::{Errors, Item};

/// A token to add, or one that was added.
pub(crate) struct Added(AddedToken);

impl Added {
    /// A `str`, or an object with the attributes of `AddedToken`.
    pub(crate) fn of(number: usize, token: &Bound<'_, PyAny>, special: bool) -> PyResult<Self> {
        let content = |content: Bound<'_, PyAny>| {
            let content = Item::of(number, content, Errors::Strict)?;
            content.text(number).map(str::to_owned)
        };
        if token.is_instance_of::<PyString>() {
            return Ok(Self(AddedToken::from(content(token.clone())?, special)));
        }
        let Some(found) = token.getattr_opt("content")? else {
            let name = token.get_type().name()?;
            return Err(PyTypeError::new_err(format!("tokens: item {number}: expected str or AddedToken, not {name}")));
        };
        if special {
            // Like the library: `normalized` may follow from it.
            token.setattr("special", true).ok();
        }
        let flag = |name: &str| token.getattr(name)?.extract::<bool>();
        let is_special = special || flag("special")?;
        let added = AddedToken::from(content(found)?, is_special);
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
fn library(json: &[u8]) -> PyResult<LibraryTokenizer> {
    LibraryTokenizer::from_bytes(json).map_err(|error| {
        TokenizerError::new_err(format!("tokenizers 0.23 cannot read it: {}", shown(&error.to_string())))
    })
}

/// A file with more tokens, and the number of new ones.
pub(crate) fn with_added(json: &[u8], tokens: &[Added], special: bool) -> PyResult<(usize, String)> {
    let mut library = library(json)?;
    let failed = |error: LibraryError| TokenizerError::new_err(error.to_string());
    let more = tokens.iter().map(|added| added.0.clone());
    let added = if special { library.add_special_tokens(more) } else { library.add_tokens(more) };
    let count = added.map_err(|error| refused(json, tokens).unwrap_or_else(|| failed(error)))?;
    Ok((count, library.to_string(false).map_err(failed)?))
}

/// Reason to refuse a file with these tokens: it names them, where the library does not.
fn refused(json: &[u8], tokens: &[Added]) -> Option<PyErr> {
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
    loaded.err().map(of_load)
}

/// The added tokens by their ids.
pub(crate) fn added(json: &[u8]) -> PyResult<Vec<(u32, Added)>> {
    let mut added: Vec<_> = library(json)?.get_added_tokens_decoder().into_iter().collect();
    added.sort_by_key(|(id, _)| *id);
    Ok(added.into_iter().map(|(id, token)| (id, Added(token))).collect())
}

/// All tokens with their ids. `json` is the file, if there is one.
pub(crate) fn tokens(
    full: &FullTokenizer,
    json: Option<&str>,
    with_added_tokens: bool,
) -> PyResult<HashMap<String, u32>> {
    if let Some(json) = json {
        return Ok(library(json.as_bytes())?.get_vocab(with_added_tokens));
    }
    let tokenizer = full.tokenizer();
    let added: Vec<u32> = tokenizer.eos_candidates().into_iter().map(|(_, id)| id).collect();
    let ids = (0..tokenizer.vocab_size()).filter(|id| with_added_tokens || !added.contains(id));
    Ok(ids.filter_map(|id| Some((tokenizer.id_to_token(id)?, id))).collect())
}

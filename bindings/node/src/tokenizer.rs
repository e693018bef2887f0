//! `Tokenizer` of JavaScript.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::door::{Callback, Outcome, later, now};
use crate::failure::Failure;

/// What the file of a tokenizer says.
pub(crate) struct Core {
    plain: Tokenizer,
    /// A `tokenizer.json`, if it comes from one.
    json: Option<Vec<u8>>,
    encode_special_tokens: bool,
    /// From when it is first asked for: the tokenizer that adds special tokens around texts.
    adding: OnceLock<Tokenizer>,
    /// The same for files, whose special tokens are not treated as here; the second adds special tokens around texts.
    others: [OnceLock<Tokenizer>; 2],
}

fn options(add_special_tokens: bool, encode_special_tokens: bool) -> LoadOptions {
    LoadOptions { add_special_tokens, special_in_text: !encode_special_tokens, ..LoadOptions::default() }
}

impl Core {
    fn of_json(json: Vec<u8>, name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        let plain = Tokenizer::from_json(&json, name, &options(false, encode_special_tokens))?;
        Ok(Self::new(plain, Some(json), encode_special_tokens))
    }

    /// A vocabulary of tiktoken: its name, or the path of its file.
    fn of_ranks(name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        let plain = Tokenizer::load(name, &options(false, encode_special_tokens))?;
        Ok(Self::new(plain, None, encode_special_tokens))
    }

    fn new(plain: Tokenizer, json: Option<Vec<u8>>, encode_special_tokens: bool) -> Self {
        Self { plain, json, encode_special_tokens, adding: OnceLock::new(), others: Default::default() }
    }

    /// A `tokenizer.json`, a folder that has one, or a `.tiktoken` file.
    fn of_file(path: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        let inside = Path::new(path).join("tokenizer.json");
        let file = if Path::new(path).is_dir() && inside.is_file() { &inside } else { Path::new(path) };
        let name = file.to_string_lossy();
        if file.extension().is_some_and(|extension| extension == "tiktoken") {
            return Self::of_ranks(&name, encode_special_tokens);
        }
        let json = std::fs::read(file);
        let json =
            json.map_err(|error| Failure::file(error.kind(), format!("tokenizer {}: {error}", shown(name.as_ref()))))?;
        Self::of_json(json, &name, encode_special_tokens)
    }

    /// A vocabulary of tiktoken by its name.
    fn of_name(name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        if name.contains(['/', '\\', '.']) {
            let hint = "hint: Tokenizer.fromFile reads files";
            return Err(Failure::tokenizer(format!("tokenizer {name:?} is not the name of a vocabulary\n{hint}")));
        }
        Self::of_ranks(name, encode_special_tokens)
    }

    fn load(source: &str, text: String, encode_special_tokens: bool) -> std::result::Result<NativeTokenizer, Failure> {
        let core = match source {
            "file" => Self::of_file(&text, encode_special_tokens),
            "string" => Self::of_json(text.into_bytes(), "a string", encode_special_tokens),
            _ => Self::of_name(&text, encode_special_tokens),
        };
        Ok(NativeTokenizer { core: Arc::new(core?) })
    }

    pub(crate) fn plain(&self) -> &Tokenizer {
        &self.plain
    }

    pub(crate) fn of(&self, add_special_tokens: bool) -> std::result::Result<&Tokenizer, Failure> {
        let Some(json) = self.json.as_ref().filter(|_| add_special_tokens) else { return Ok(&self.plain) };
        if let Some(adding) = self.adding.get() {
            return Ok(adding);
        }
        // Two threads may load it; one is kept.
        let adding = Tokenizer::from_json(json, self.plain.name(), &options(true, self.encode_special_tokens))?;
        Ok(self.adding.get_or_init(|| adding))
    }

    /// The tokenizer of files: `special_in_text` says whether it recognizes special tokens that are written there, whatever this one does.
    pub(crate) fn of_files(
        &self,
        add_special_tokens: bool,
        special_in_text: bool,
    ) -> std::result::Result<&Tokenizer, Failure> {
        if special_in_text != self.encode_special_tokens {
            return self.of(add_special_tokens);
        }
        let other = &self.others[usize::from(add_special_tokens)];
        if let Some(other) = other.get() {
            return Ok(other);
        }
        let (name, options) = (self.plain.name(), options(add_special_tokens, !special_in_text));
        let loaded = match &self.json {
            Some(json) => Tokenizer::from_json(json, name, &options)?,
            None => Tokenizer::load(name, &options)?,
        };
        Ok(other.get_or_init(|| loaded))
    }
}

/// A vocabulary, and what encodes with it.
#[napi]
pub struct NativeTokenizer {
    core: Arc<Core>,
}

#[napi]
impl NativeTokenizer {
    pub(crate) fn core(&self) -> Arc<Core> {
        Arc::clone(&self.core)
    }

    /// A tokenizer from a `source`: `file`, `string` or `tiktoken`.
    #[napi]
    pub fn load(
        source: String,
        text: String,
        encode_special_tokens: bool,
        callback: Callback<'_, NativeTokenizer>,
    ) -> Result<()> {
        later(callback, move || Core::load(&source, text, encode_special_tokens))
    }

    /// The same, here.
    #[napi]
    pub fn load_here(source: String, text: String, encode_special_tokens: bool) -> Outcome<NativeTokenizer> {
        now(|| Core::load(&source, text, encode_special_tokens))
    }

    /// The name of the vocabulary, or the path that was loaded.
    #[napi(getter)]
    pub fn name(&self) -> &str {
        self.core.plain.name()
    }

    /// The largest id, plus one.
    #[napi(getter)]
    pub fn vocab_size(&self) -> u32 {
        self.core.plain.vocab_size()
    }

    /// Why windrow's own engine does not encode with it; null if it does.
    #[napi(getter)]
    pub fn delegated(&self) -> Option<&str> {
        self.core.plain.delegated()
    }

    /// What encodes, why, and what it has done so far.
    #[napi]
    pub fn explain(&self) -> String {
        self.core.plain.explain().to_string()
    }

    /// The id of a token.
    #[napi]
    pub fn token_to_id(&self, token: String) -> Option<u32> {
        self.core.plain.token_to_id(&token)
    }

    /// The token with this id.
    #[napi]
    pub fn id_to_token(&self, id: u32) -> Outcome<Option<String>> {
        now(|| Ok(self.core.plain.id_to_token(id)))
    }
}

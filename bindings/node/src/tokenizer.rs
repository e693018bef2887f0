//! `Tokenizer` of JavaScript.

use std::io::ErrorKind;
use std::mem::take;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::engine::late;
use windrow_tokenizers::full::FullTokenizer;
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer, cached_model, vocabulary_of};

use crate::door::{Callback, Outcome, later, now};
use crate::failure::Failure;

/// Content of a tokenizer's file, or a vocabulary of this package.
pub(crate) struct Core {
    /// Adds special tokens around texts, and treats those in texts as the caller of the load requested.
    main: Arc<Tokenizer>,
    source: Source,
    encode_special_tokens: bool,
    /// True if anything is added around texts.
    adds: bool,
    /// The other treatments of special tokens, loaded at first use. See [`Core::of`].
    others: [OnceLock<Arc<Tokenizer>>; 4],
    /// The tokenizer for whole encodings, made at first use.
    full: OnceLock<FullTokenizer>,
}

/// Source from which a tokenizer is loaded again.
enum Source {
    Json(Vec<u8>),
    /// The path of a rank file.
    Ranks,
    /// The name of a vocabulary of this package.
    Name,
}

/// Loaded vocabularies of this package, by name and treatment of special tokens in texts, as long as a tokenizer has them.
static SHARED: Mutex<Vec<(String, bool, Weak<Tokenizer>)>> = Mutex::new(Vec::new());

/// Approximate bytes of tables for each token. Measured: 110 (BERT) to 930 (T5), 450 of most.
const BYTES_OF_TOKEN: usize = 450;

fn options(add_special_tokens: bool, special_in_text: bool) -> LoadOptions {
    LoadOptions { add_special_tokens, special_in_text, ..LoadOptions::default() }
}

/// The vocabulary of this name, one for all tokenizers.
fn shared(name: &str, special_in_text: bool) -> std::result::Result<Arc<Tokenizer>, Failure> {
    // Held during the load: of several loads at once, one builds the tables.
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|(.., tokenizer)| tokenizer.strong_count() > 0);
    let found = |name: &str| {
        let known = shared.iter().find(|(known, special, _)| known == name && *special == special_in_text);
        known.and_then(|(.., tokenizer)| tokenizer.upgrade())
    };
    if let Some(tokenizer) = found(name) {
        return Ok(tokenizer);
    }
    let loaded = Arc::new(Tokenizer::load(name, &options(false, special_in_text))?);
    // It may be loaded under its other name.
    let tokenizer = found(loaded.name()).unwrap_or(loaded);
    let own = tokenizer.name().to_owned();
    for name in [name.to_owned(), own] {
        shared.push((name, special_in_text, Arc::downgrade(&tokenizer)));
    }
    Ok(tokenizer)
}

impl Core {
    fn of_json(json: Vec<u8>, name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        let main = Tokenizer::from_json(&json, name, &options(true, !encode_special_tokens))?;
        // The tokens around an empty text are added to every text.
        let adds = main.encode_batch_ids(&[""]).map_or(true, |batch| !batch.values.is_empty());
        Ok(Self { adds, ..Self::new(Arc::new(main), Source::Json(json), encode_special_tokens) })
    }

    fn new(main: Arc<Tokenizer>, source: Source, encode_special_tokens: bool) -> Self {
        Self { main, source, encode_special_tokens, adds: false, others: Default::default(), full: OnceLock::new() }
    }

    /// A `tokenizer.json`, a folder that has one, or a `.tiktoken` file.
    fn of_file(path: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        let inside = Path::new(path).join("tokenizer.json");
        let file = if Path::new(path).is_dir() && inside.is_file() { &inside } else { Path::new(path) };
        let name = file.to_string_lossy();
        if file.extension().is_some_and(|extension| extension == "tiktoken") {
            let main = Tokenizer::load(&name, &options(false, !encode_special_tokens))?;
            return Ok(Self::new(Arc::new(main), Source::Ranks, encode_special_tokens));
        }
        let json = std::fs::read(file).map_err(|error| {
            let hint = if name.contains("://") {
                "download it first: only local files can be read"
            } else if error.kind() == ErrorKind::IsADirectory {
                "pass the file, or a folder that contains a tokenizer.json"
            } else {
                "check the path and the file's permissions"
            };
            Failure::file(error.kind(), format!("tokenizer {}: {error}\nhint: {hint}", shown(name.as_ref())))
        })?;
        Self::of_json(json, &name, encode_special_tokens)
    }

    /// A vocabulary of this package by its name.
    fn of_name(name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        if is_path(name) {
            let hint = "hint: Tokenizer.fromFile loads files";
            return Err(Failure::tokenizer(format!("tokenizer {name:?} is not the name of a vocabulary\n{hint}")));
        }
        Ok(Self::new(shared(name, !encode_special_tokens)?, Source::Name, encode_special_tokens))
    }

    /// A model of OpenAI, or one in the cache of the Hub.
    fn of_model(name: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        match (vocabulary_of(name), cached_model(name)) {
            (Ok(name), _) => Self::of_name(name, encode_special_tokens),
            (_, Some(path)) => Self::of_file(&path.to_string_lossy(), encode_special_tokens),
            (Err(_), _) if name.contains('/') => Err(LoadError::Unknown { name: name.to_owned() }.into()),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// A name or a path, with the same rules as the command: a file does not hide a vocabulary of the same name.
    fn of_word(word: &str, encode_special_tokens: bool) -> std::result::Result<Self, Failure> {
        if is_path(word)
            && !Path::new(word).exists()
            && let Some(path) = cached_model(word)
        {
            return Self::of_file(&path.to_string_lossy(), encode_special_tokens);
        }
        if is_path(word) {
            return Self::of_file(word, encode_special_tokens);
        }
        let named = Self::of_name(word, encode_special_tokens);
        if named.is_err() && Path::new(word).exists() { Self::of_file(word, encode_special_tokens) } else { named }
    }

    fn load(source: &str, text: String, encode_special_tokens: bool) -> std::result::Result<NativeTokenizer, Failure> {
        let core = match source {
            "file" => Self::of_file(&text, encode_special_tokens),
            "string" => Self::of_json(text.into_bytes(), "a string", encode_special_tokens),
            "word" => Self::of_word(&text, encode_special_tokens),
            "model" => Self::of_model(&text, encode_special_tokens),
            _ => Self::of_name(&text, encode_special_tokens).map_err(Failure::of_names),
        };
        Ok(NativeTokenizer { core: Some(Arc::new(core?)), reported: 0 })
    }

    /// Any of its tokenizers: all have the same tokens.
    pub(crate) fn any(&self) -> &Tokenizer {
        &self.main
    }

    /// The tokenizer that adds special tokens around texts if requested, and treats those in texts as the caller of the load requested.
    pub(crate) fn of(&self, add_special_tokens: bool) -> std::result::Result<&Tokenizer, Failure> {
        self.of_files(add_special_tokens, !self.encode_special_tokens)
    }

    /// The tokenizer of files: `special_in_text` says if it recognizes special tokens that are written there, regardless of the choice of the
    /// caller of the load for texts.
    pub(crate) fn of_files(
        &self,
        add_special_tokens: bool,
        special_in_text: bool,
    ) -> std::result::Result<&Tokenizer, Failure> {
        let add_special_tokens = add_special_tokens || !self.adds;
        if add_special_tokens && special_in_text != self.encode_special_tokens {
            return Ok(&self.main);
        }
        let other = &self.others[2 * usize::from(add_special_tokens) + usize::from(special_in_text)];
        let (name, options) = (self.main.name(), options(add_special_tokens, special_in_text));
        let loaded = late(other, || match &self.source {
            Source::Json(json) => Ok(Arc::new(Tokenizer::from_json(json, name, &options)?)),
            Source::Ranks => Ok(Arc::new(Tokenizer::load(name, &options)?)),
            Source::Name => shared(name, special_in_text),
        });
        loaded.map(Arc::as_ref)
    }

    /// The tokenizer for whole encodings. It treats special tokens in texts as the caller of the load requested.
    pub(crate) fn full(&self) -> std::result::Result<&FullTokenizer, Failure> {
        let (name, options) = (self.main.name(), options(false, !self.encode_special_tokens));
        let full = late(&self.full, || match &self.source {
            Source::Json(json) => FullTokenizer::from_json(json, name, &options),
            Source::Ranks | Source::Name => FullTokenizer::load(name, &options),
        });
        Ok(full?)
    }

    /// The path of its `tokenizer.json`, if it comes from a file.
    pub(crate) fn path(&self) -> Option<&str> {
        Some(self.main.name()).filter(|name| matches!(self.source, Source::Json(_)) && Path::new(name).is_file())
    }

    /// The approximate number of bytes for this tokenizer that no earlier one has.
    fn bytes(&self) -> usize {
        if Arc::strong_count(&self.main) > 1 {
            return size_of::<Self>();
        }
        let json = if let Source::Json(json) = &self.source { json.len() } else { 0 };
        json + self.main.vocab_size() as usize * BYTES_OF_TOKEN
    }
}

fn is_path(word: &str) -> bool {
    word.contains(['/', '\\', '.'])
}

/// A vocabulary, and the engine that encodes with it.
#[napi(custom_finalize)]
pub struct NativeTokenizer {
    /// None after disposal.
    core: Option<Arc<Core>>,
    /// Bytes reported to the collector of JavaScript.
    reported: i64,
}

impl ObjectFinalize for NativeTokenizer {
    fn finalize(self, env: Env) -> Result<()> {
        env.adjust_external_memory(-self.reported).map(drop)
    }
}

#[napi]
impl NativeTokenizer {
    pub(crate) fn core(&self) -> Result<Arc<Core>> {
        self.here().cloned()
    }

    /// The core. `lib/tokenizer.js` makes no call to a tokenizer after its disposal.
    fn here(&self) -> Result<&Arc<Core>> {
        self.core.as_ref().ok_or_else(|| Error::from_reason("the tokenizer was disposed of"))
    }

    fn any(&self) -> Result<&Tokenizer> {
        Ok(self.here()?.any())
    }

    /// Reports the memory of this tokenizer to the collector of JavaScript, once. Otherwise tokenizers would pile up, which are small objects to it.
    #[napi]
    pub fn report_memory(&mut self, env: &Env) -> Result<()> {
        if self.reported == 0 {
            self.reported = self.here()?.bytes() as i64;
            env.adjust_external_memory(self.reported)?;
        }
        Ok(())
    }

    /// Frees its memory, after the calls that use it have ended.
    #[napi]
    pub fn dispose(&mut self, env: &Env) -> Result<()> {
        self.core = None;
        env.adjust_external_memory(-take(&mut self.reported)).map(drop)
    }

    /// A tokenizer from a `source`: `file`, `string`, `tiktoken`, `model`, or `word`, a name or a path.
    #[napi]
    pub fn load(
        source: String,
        text: String,
        encode_special_tokens: bool,
        callback: Callback<'_, NativeTokenizer>,
    ) -> Result<()> {
        later(callback, move || Core::load(&source, text, encode_special_tokens))
    }

    /// Loads a tokenizer on this thread, with the same arguments.
    #[napi]
    pub fn load_here(source: String, text: String, encode_special_tokens: bool) -> Outcome<NativeTokenizer> {
        now(|| Core::load(&source, text, encode_special_tokens))
    }

    /// The name of the vocabulary, or the path that was loaded.
    #[napi(getter)]
    pub fn name(&self) -> Result<&str> {
        Ok(self.any()?.name())
    }

    /// The largest id, plus one.
    #[napi(getter)]
    pub fn vocab_size(&self) -> Result<u32> {
        Ok(self.any()?.vocab_size())
    }

    /// The reason why windrow's own engine does not encode with it; null if it does.
    #[napi(getter)]
    pub fn delegated(&self) -> Result<Option<&str>> {
        Ok(self.any()?.delegated())
    }

    /// The engine that encodes, the reason for its choice, and its use so far.
    #[napi]
    pub fn explain(&self) -> Result<String> {
        Ok(self.any()?.explain().to_string())
    }

    /// The number of ids of a text; none if there are more than `limit`.
    #[napi]
    pub fn count_up_to(&self, text: String, add_special_tokens: bool, limit: f64) -> Result<Outcome<Option<f64>>> {
        let core = self.here()?;
        // Saturates.
        let counted = || Ok(core.of(add_special_tokens)?.count_up_to(&text, limit as usize)?.map(|count| count as f64));
        Ok(now(counted))
    }

    /// The id of a token.
    #[napi]
    pub fn token_to_id(&self, token: String) -> Result<Option<u32>> {
        Ok(self.any()?.token_to_id(&token))
    }

    /// The token with this id.
    #[napi]
    pub fn id_to_token(&self, id: u32) -> Result<Outcome<Option<String>>> {
        let tokenizer = self.any()?;
        Ok(now(|| Ok(tokenizer.id_to_token(id))))
    }
}

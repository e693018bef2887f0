//! Tokenizers by name or from a `tokenizer.json`.
//!
//! A name is a vocabulary of this crate: `r50k_base` (also `gpt2`), `p50k_base`, `cl100k_base` or `o200k_base`, each also without `_base`,
//! `p50k_edit` or `o200k_harmony`.
//! [`vocabulary_of`] maps a model to its vocabulary. `Qwen/Qwen2.5-7B` names a model in the cache of the Hugging Face Hub. Anything else is
//! the path of a `tokenizer.json`, or of a directory that contains one, or of a published rank file of tiktoken: `r50k_base.tiktoken`,
//! `p50k_base.tiktoken` and so on. The ids are those of Hugging Face's `tokenizers` 0.23 for the same file, and of tiktoken for the vocabularies
//! of this crate.
//! Regexes have the meaning of Oniguruma, as in the Python wheel of `tokenizers` 0.23. A document that needs too much backtracking, or
//! more memory than the process can get, gives an error instead of ids.
//!
//! A `tokenizer.json` is untrusted input. Whatever it contains, loading returns a tokenizer or a [`LoadError`] that says what is wrong
//! and where.

use std::fs::{self, File as DiskFile};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use crate::diagnose::{FIRST, foreign};
use crate::engine::{BatchError, Engine, Ragged, has_memory};
use crate::shown;

mod check;
mod choice;
mod cuts;
mod decode;
mod embedded;
mod explain;
mod fault;
mod file;
mod forms;
mod gate;
mod hub;
mod matches;
mod names;
mod rank_file;
mod stream;

pub use crate::engine::options::{EngineChoice, LoadOptions};
pub(crate) use choice::Reference;
pub use explain::{CacheUse, Explanation};
pub use hub::cached as cached_model;
pub(crate) use names::distance;
pub use names::{encoding_name, vocabulary_of};
pub use stream::DecodeStream;

use check::Checked;
use choice::{Chosen, ChosenEngine};
use decode::{OtherTokens, Trims};
use embedded::Embedded;
use fault::Fault;
use file::File;

/// Larger files are not read. The largest files in use have some 40 MB.
const MAX_BYTES: u64 = 1 << 30;

/// Memory required before a vocabulary is loaded: per byte of a file, and for a vocabulary of this crate. An allocation of a library that
/// fails would end the process.
const BYTES_OF_JSON: usize = 8;
const BYTES_OF_RANKS: usize = 32 << 20;

fn check_memory(name: &str, bytes: usize) -> Result<(), LoadError> {
    if has_memory(bytes) { Ok(()) } else { Err(LoadError::NoMemory { name: name.to_owned(), bytes }) }
}

/// The reason why a tokenizer could not be loaded.
///
/// ```
/// use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer};
///
/// let load = |json: &str| Tokenizer::from_json(json.as_bytes(), "tokenizer.json", &LoadOptions::default());
/// match load(r#"{"model": {"type": "WordLevel", "vocab": {"one": 0}, "unk_token": 5}}"#) {
///     Err(LoadError::Invalid { place, .. }) => assert_eq!(place, "model.unk_token"),
///     other => panic!("{:?}", other.err()),
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Neither a known name nor a file.
    #[error("tokenizer {name:?} is neither the name of a vocabulary nor a file\nhint: {}", names::hint(name))]
    Unknown {
        /// The name.
        name: String,
    },
    /// No vocabulary of this crate belongs to the model.
    #[error("model {name:?} {reason}\nhint: {hint}")]
    UnknownModel {
        /// The name of the model.
        name: String,
        /// The reason why the model has no vocabulary here.
        reason: String,
        /// The remedy.
        hint: String,
    },
    /// The file cannot be read.
    #[error("tokenizer {}: {source}\nhint: check the path and the file's permissions", shown(name))]
    Read {
        /// Path of the file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a supported `tokenizer.json`, or is damaged or hostile.
    #[error(
        "tokenizer {}: {}{}{}\nhint: {}",
        shown(name),
        shown(place),
        if place.is_empty() { "" } else { ": " },
        shown(reason),
        shown(hint)
    )]
    Invalid {
        /// Path or name of the file.
        name: String,
        /// The place in the file, such as `model.merges[3]`; empty for the whole file.
        place: String,
        /// The error at this place.
        reason: String,
        /// The remedy.
        hint: String,
    },
    /// windrow's own engine was requested, and does not support the file.
    #[error(
        "tokenizer {}: windrow's own engine cannot encode with it: {}\n\
         hint: let windrow choose an engine; every engine gives the same ids",
        shown(name),
        shown(reason)
    )]
    Unsupported {
        /// Path or name of the file.
        name: String,
        /// The feature that the engine does not support.
        reason: String,
    },
    /// No engine accepts the file.
    #[error(
        "tokenizer {}: no engine can read it: {}\nhint: save it again with version 0.23 of the tokenizers library",
        shown(name),
        shown(reason)
    )]
    Refused {
        /// Path or name of the file.
        name: String,
        /// The errors of the engines.
        reason: String,
    },
    /// There is no memory for its tables.
    #[error(
        "tokenizer {}: not enough memory for its tables (about {bytes} bytes)\n\
         hint: raise the memory limit of the process",
        shown(name)
    )]
    NoMemory {
        /// The requested name.
        name: String,
        /// Bytes that were requested.
        bytes: usize,
    },
}

impl LoadError {
    fn invalid(name: &str, fault: Fault) -> Self {
        let Fault { place, reason, hint } = fault;
        Self::Invalid { name: name.to_owned(), place, reason, hint }
    }
}

/// A vocabulary and the engine that encodes with it.
///
/// ```
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let mut ids = Vec::new();
/// tokenizer.engine().encoder().encode("Hello world<|endoftext|>", &mut ids)?;
/// assert_eq!(ids, [15496, 995, 50256]);
/// assert_eq!(tokenizer.vocab_size(), 50257);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tokenizer {
    name: String,
    hash: String,
    engine: ChosenEngine,
    /// With windrow's own engine: the tokens that it does not know as bytes.
    others: Option<OtherTokens>,
    /// True if decoding joins the bytes of tokens and does nothing else.
    joins_bytes: bool,
    /// With windrow's own engine: the trimming of offsets, if it can find them.
    trims: Option<Trims>,
    /// The library that decodes and finds offsets otherwise.
    reference: Option<Arc<Reference>>,
    vocab_size: u32,
    added: Vec<AddedId>,
    /// The token for unknown text, if the model itself emits it.
    unknown: Option<String>,
    embedded: Option<Embedded>,
    delegated: Option<String>,
    notes: Vec<String>,
}

struct AddedId {
    content: String,
    id: u32,
    special: bool,
}

impl Tokenizer {
    /// Loads the vocabulary of this name, the `tokenizer.json` or published `.tiktoken` file at this path, or the file of a model in the
    /// cache of the Hub: `Qwen/Qwen2.5-7B`.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("cl100k_base", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.encode_batch_ids(&["hello world"])?.values, [15339, 1917]);
    /// let unknown = Tokenizer::load("cl1000k", &LoadOptions::default());
    /// assert!(matches!(unknown, Err(LoadError::Unknown { name }) if name == "cl1000k"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such name or file, or no engine can encode with the file.
    pub fn load(name_or_path: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        if let Some(embedded) = embedded::find(name_or_path) {
            return Self::from_embedded(embedded, embedded.name, options);
        }
        let (name, file) = read(name_or_path)?;
        Self::from_bytes(&file, &name, options)
    }

    /// Reads the bytes of a `tokenizer.json` or of a published `.tiktoken` file. `name` is for messages.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let tokenizer = Tokenizer::from_bytes(json, "words", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.encode_batch_ids(&["one"])?.values, [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are neither file, or no engine can encode with the file.
    pub fn from_bytes(file: &[u8], name: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        let has_extension = |wanted: &str| Path::new(name).extension().is_some_and(|extension| extension == wanted);
        if let Some(fault) = other_format(file, has_extension("model")) {
            return Err(LoadError::invalid(name, fault));
        }
        // Llama 3 has a rank file under the name tokenizer.model.
        if has_extension("tiktoken") || rank_file::is_likely(file) {
            let embedded = rank_file::read(file, Path::new(name)).map_err(|fault| LoadError::invalid(name, fault))?;
            return Ok(Self { hash: hash(file), ..Self::from_embedded(embedded, name, options)? });
        }
        Self::from_json(file, name, options)
    }

    /// Reads a `tokenizer.json`. `name` is for messages.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "two": 1, "?": 2}, "unk_token": "?"},
    ///     "pre_tokenizer": {"type": "Whitespace"}}"#;
    /// let tokenizer = Tokenizer::from_json(json, "words", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.encode_batch_ids(&["two one ten"])?.values, [1, 0, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are not a `tokenizer.json` that an engine can encode with.
    pub fn from_json(json: &[u8], name: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        let invalid = |fault| LoadError::invalid(name, fault);
        check_memory(name, json.len().saturating_mul(BYTES_OF_JSON))?;
        let text = utf8(json).map_err(invalid)?;
        let file = File::parse(text).map_err(invalid)?;
        let checked = check::check(&file, options.unfinished).map_err(invalid)?;
        let mut notes = Vec::new();
        if !file.ignored.is_empty() {
            notes.push(format!("tokenizer {name}: its settings for {} are ignored", file.ignored.join(" and ")));
        }
        notes.extend(moved_ids(name, &file, &checked));
        let Chosen { engine, reference, delegated } =
            choice::engine((&file, text), &checked, name, options, &mut notes)?;
        // Its tokens are bytes.
        let is_own = engine.own().is_some() && reference.is_none();
        let others = is_own.then(|| OtherTokens::of_file(&file, &checked));
        let trims = others.as_ref().and_then(|others| Trims::of(&file, others));
        let joins_bytes = decode::joins_bytes(&file);
        let has_offsets = engine.own().is_some_and(|bpe| bpe.engine().has_offsets());
        let suffices =
            matches!(engine, ChosenEngine::Released(_)) || (is_own && joins_bytes && has_offsets && trims.is_some());
        let reference = reference.or_else(|| (!suffices).then(|| Arc::new(Reference::new(text, options, true))));
        // windrow's own engine knows every byte.
        let unknown = file.model.unknown().filter(|_| !is_own).map(str::to_owned);
        let added = file.added.into_iter().zip(checked.added);
        let added = added.map(|(token, id)| AddedId { content: token.content, id, special: token.special }).collect();
        Ok(Self {
            name: name.to_owned(),
            hash: hash(json),
            engine,
            others,
            joins_bytes,
            trims,
            reference,
            vocab_size: checked.size,
            added,
            unknown,
            embedded: None,
            delegated,
            notes,
        })
    }

    /// A vocabulary of this crate.
    fn from_embedded(embedded: Embedded, name: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        check_memory(name, BYTES_OF_RANKS)?;
        let engine = match options.engine {
            EngineChoice::Tokenizers => embedded.delegate(options).map(Box::new).map(ChosenEngine::Released),
            _ => embedded.own(options).map(Box::new).map(ChosenEngine::Bpe),
        };
        let refused =
            |error: embedded::Failure| LoadError::Refused { name: name.to_owned(), reason: error.to_string() };
        let engine = engine.map_err(refused)?;
        let added = embedded.special.iter();
        let added = added.map(|&(content, id)| AddedId { content: content.to_owned(), id, special: true });
        let added: Vec<AddedId> = added.collect();
        Ok(Self {
            name: name.to_owned(),
            hash: embedded.hash.to_owned(),
            engine,
            others: Some(OtherTokens::of_ranks(&added)),
            joins_bytes: true,
            trims: Some(Trims::default()),
            reference: None,
            vocab_size: embedded.vocab_size(),
            added,
            unknown: None,
            embedded: Some(embedded),
            delegated: (options.engine == EngineChoice::Tokenizers).then(|| choice::REQUESTED.to_owned()),
            notes: Vec::new(),
        })
    }

    /// The `tokenizer.json` of a vocabulary of this crate.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::Tokenizer;
    ///
    /// let json = Tokenizer::embedded_json("gpt2").expect("it is embedded");
    /// assert!(json.contains("\"<|endoftext|>\""));
    /// assert_eq!(Tokenizer::embedded_json("gpt1"), None);
    /// ```
    pub fn embedded_json(name: &str) -> Option<String> {
        embedded::find(name)?.json().ok()
    }

    /// The name of a vocabulary of this crate, or the path that was loaded.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.name(), "r50k_base"); // `gpt2` is another name for it
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The blake3 hash of the file, in hexadecimal; for a vocabulary of this crate, of its `tokenizer.json`.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let load = |name| Tokenizer::from_json(json, name, &LoadOptions::default());
    /// assert_eq!(load("a")?.hash(), load("b")?.hash());
    /// assert_eq!(load("a")?.hash().len(), 64);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The engine that encodes.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert!(tokenizer.engine().name().starts_with("windrow-bpe "));
    /// let mut ids = Vec::new();
    /// tokenizer.engine().encoder().encode("Hello world", &mut ids)?;
    /// assert_eq!(ids, [15496, 995]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_engine()
    }

    /// The ids of all `texts`, computed by the threads of the current pool. They do not depend on the number of threads.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let batch = tokenizer.encode_batch_ids(&["Hello world", "", "Hello"])?;
    /// assert_eq!(batch.values, [15496, 995, 15496]);
    /// assert_eq!(batch.offsets, [0, 2, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first text, in order, that the engine cannot encode.
    pub fn encode_batch_ids(&self, texts: &[&str]) -> Result<Ragged, BatchError> {
        let mut batch = Ragged::default();
        self.engine().encode_batch(texts, &mut batch)?;
        batch.shrink();
        Ok(batch)
    }

    /// [`encode_batch_ids`](Self::encode_batch_ids) into the memory of `batch`, whose items it replaces: the system need not clear memory that was
    /// already used. It keeps space for up to an id for each byte of text.
    ///
    /// ```
    /// use windrow_tokenizers::engine::Ragged;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let mut batch = Ragged::default();
    /// for (text, ids) in [("Hello world", &[15496, 995][..]), ("Hello", &[15496])] {
    ///     tokenizer.encode_batch_ids_into(&[text], &mut batch)?;
    ///     assert_eq!(batch.get(0), Some(ids));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`encode_batch_ids`](Self::encode_batch_ids); `batch` is then empty.
    pub fn encode_batch_ids_into(&self, texts: &[&str], batch: &mut Ragged) -> Result<(), BatchError> {
        self.engine().encode_batch(texts, batch)
    }

    /// [`encode_batch_ids_into`](Self::encode_batch_ids_into) as long as `goes_on` returns true, which each thread calls repeatedly: for callers
    /// that poll for Ctrl-C or have a deadline. Returns true if all texts were encoded; `batch` is empty otherwise.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use windrow_tokenizers::engine::Ragged;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let mut batch = Ragged::default();
    /// let deadline = Instant::now() + Duration::from_secs(600);
    /// assert!(tokenizer.encode_batch_ids_while(&["Hello world"], &mut batch, &|| Instant::now() < deadline)?);
    /// assert_eq!(batch.values, [15496, 995]);
    /// assert!(!tokenizer.encode_batch_ids_while(&["Hello world"], &mut batch, &|| false)?);
    /// assert!(batch.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`encode_batch_ids`](Self::encode_batch_ids); `batch` is then empty.
    pub fn encode_batch_ids_while(
        &self,
        texts: &[&str],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BatchError> {
        batch.clear();
        self.append_batch_ids_while(texts, batch, goes_on)
    }

    /// [`encode_batch_ids_while`](Self::encode_batch_ids_while), but `texts` follow the texts of `batch`: for callers that get a batch in pieces.
    ///
    /// ```
    /// use windrow_tokenizers::engine::Ragged;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let mut batch = Ragged::default();
    /// for texts in [&["Hello", ""][..], &[" world"]] {
    ///     assert!(tokenizer.append_batch_ids_while(texts, &mut batch, &|| true)?);
    /// }
    /// assert_eq!((batch.values, batch.offsets), (vec![15496, 995], vec![0, 1, 1, 2]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`encode_batch_ids`](Self::encode_batch_ids), with the number of the text in `texts`; `batch` is then empty.
    pub fn append_batch_ids_while(
        &self,
        texts: &[&str],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BatchError> {
        self.engine().append_batch_while(texts, batch, goes_on)
    }

    /// The largest id that can be produced, plus one. There may be fewer tokens.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 7}, "unk_token": "?"}}"#;
    /// let tokenizer = Tokenizer::from_json(json, "words", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.vocab_size(), 8);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// The id of a token, as the `tokenizer.json` spells it: `Ġthe` for " the" in a byte-level vocabulary.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.token_to_id("Ġworld"), Some(995));
    /// assert_eq!(tokenizer.token_to_id("<|endoftext|>"), Some(50256));
    /// assert_eq!(tokenizer.token_to_id(" world"), None);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        let added = self.added.iter().find(|added| added.content == token);
        added.map(|added| added.id).or_else(|| self.engine().token_to_id(token))
    }

    /// The token that ends a document, if it is known. A `tokenizer.json` does not name it.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.eos(), Some(("<|endoftext|>".to_owned(), 50256)));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn eos(&self) -> Option<(String, u32)> {
        let (content, id) = self.embedded?.special.iter().find(|(content, _)| *content == embedded::END_OF_TEXT)?;
        Some(((*content).to_owned(), *id))
    }

    /// The special tokens with their ids, those that look like an end of text first.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "<pad>": 1, "</s>": 2}, "unk_token": "<pad>"},
    ///     "added_tokens": [{"id": 1, "content": "<pad>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    ///         {"id": 2, "content": "</s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}]}"#;
    /// let tokenizer = Tokenizer::from_json(json, "words", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.eos(), None);
    /// assert_eq!(tokenizer.eos_candidates(), [("</s>".to_owned(), 2), ("<pad>".to_owned(), 1)]);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn eos_candidates(&self) -> Vec<(String, u32)> {
        let mut special: Vec<&AddedId> = self.added.iter().filter(|token| token.special).collect();
        special.sort_by_key(|token| likeness_to_eos(&token.content));
        special.into_iter().map(|token| (token.content.clone(), token.id)).collect()
    }

    /// The ids of the special tokens, except the token for unknown text: the model emits it for texts that do not name it.
    pub(crate) fn special_ids(&self) -> Vec<u32> {
        let is_counted = |token: &&AddedId| token.special && self.unknown.as_ref() != Some(&token.content);
        self.added.iter().filter(is_counted).map(|token| token.id).collect()
    }

    /// The added tokens, one after the other.
    pub(crate) fn added_texts(&self) -> String {
        self.added.iter().flat_map(|token| [token.content.as_str(), " "]).collect()
    }

    /// The reason why windrow's own engine does not encode with this tokenizer; `None` if it does.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// assert_eq!(Tokenizer::load("gpt2", &LoadOptions::default())?.delegated(), None);
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let words = Tokenizer::from_json(json, "words", &LoadOptions::default())?;
    /// assert_eq!(words.delegated(), Some("windrow knows no position at which a text can be cut"));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn delegated(&self) -> Option<&str> {
        self.delegated.as_deref()
    }

    /// Notes for users about this tokenizer, one per line.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"},
    ///     "pre_tokenizer": {"type": "Whitespace"},
    ///     "truncation": {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}}"#;
    /// let tokenizer = Tokenizer::from_json(json, "words", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.notes(), ["tokenizer words: its settings for truncation are ignored"]);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// The path of the `tokenizer.json` of a model that the cache of the Hub has; of any other name the name.
#[cfg(feature = "chat")]
pub(crate) fn path_of(name: &str) -> std::path::PathBuf {
    let path = std::path::PathBuf::from(name);
    if path.exists() { path } else { hub::cached(name).unwrap_or(path) }
}

/// The path and the bytes of the file at this path, of the `tokenizer.json` in this directory, or of the `tokenizer.json` of a model in the
/// cache of the Hub.
fn read(name_or_path: &str) -> Result<(String, Vec<u8>), LoadError> {
    let path = Path::new(name_or_path);
    let read_error = |source| LoadError::Read { name: name_or_path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match hub::cached(name_or_path) {
                // The name stays: it says more than a path in the cache, and is valid on other machines.
                Some(found) => read(&found.to_string_lossy()).map(|(_, file)| (name_or_path.to_owned(), file)),
                None => Err(LoadError::Unknown { name: name_or_path.to_owned() }),
            };
        }
        metadata => metadata.map_err(read_error)?,
    };
    if metadata.is_dir() {
        let inside = path.join("tokenizer.json");
        return match inside.to_str() {
            Some(inside) if Path::new(inside).is_file() => read(inside),
            _ => Err(LoadError::invalid(
                name_or_path,
                Fault::new(
                    "",
                    "a directory without a tokenizer.json",
                    "pass the path to a tokenizer.json or .tiktoken file",
                ),
            )),
        };
    }
    let too_large = |bytes| {
        let reason = format!("the file has {bytes} bytes, which is too many for a tokenizer.json");
        LoadError::invalid(name_or_path, Fault::new("", reason, format!("windrow reads at most {MAX_BYTES} bytes")))
    };
    if !metadata.is_file() {
        let fault = Fault::new("", "not a regular file", "save its content in a regular file, and pass that file");
        return Err(LoadError::invalid(name_or_path, fault));
    }
    if metadata.len() > MAX_BYTES {
        return Err(too_large(metadata.len()));
    }
    let mut json = Vec::new();
    // The file may have grown since its size was checked.
    DiskFile::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut json)).map_err(read_error)?;
    if json.len() as u64 > MAX_BYTES {
        return Err(too_large(json.len() as u64));
    }
    Ok((name_or_path.to_owned(), json))
}

/// The path and the bytes of a file of a tokenizer; `None` for the name of a vocabulary of this crate.
pub(crate) fn file_of(name_or_path: &str) -> Result<Option<(String, Vec<u8>)>, LoadError> {
    if embedded::find(name_or_path).is_some() { Ok(None) } else { read(name_or_path).map(Some) }
}

/// A note if added tokens get other ids than the file states: Hugging Face numbers added tokens itself.
fn moved_ids(name: &str, file: &File<'_>, checked: &Checked) -> Option<String> {
    let mut moved = file.added.iter().zip(&checked.added).filter(|(token, id)| token.id != **id);
    let (token, id) = moved.next()?;
    Some(format!(
        "tokenizer {name}: added token {} gets id {id}, as in Hugging Face's library, although the file says {}; other such tokens: {}",
        fault::quoted(&token.content),
        token.id,
        moved.count()
    ))
}

fn utf8(json: &[u8]) -> Result<&str, Fault> {
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    if json.iter().all(u8::is_ascii_whitespace) {
        return Err(Fault::new("", "the file is empty", fault::DAMAGED));
    }
    std::str::from_utf8(json)
        .map_err(|error| Fault::new("", format!("not valid UTF-8 at byte {}", error.valid_up_to()), fault::DAMAGED))
}

/// Files that users mistake for a `tokenizer.json`, by their first bytes. A file named as a model is a sentencepiece model if it is nothing
/// else.
fn other_format(file: &[u8], is_called_model: bool) -> Option<Fault> {
    const SENTENCEPIECE: (&str, &str) = (
        "a SentencePiece model, which windrow cannot read",
        "convert it to a tokenizer.json with the transformers library",
    );
    const OTHER: &str = "pass the tokenizer.json of the model";
    let first = &file[..file.len().min(FIRST)];
    let is_json = first.trim_ascii_start().starts_with(b"{");
    let found = match first {
        // A message in a message: the first piece.
        [b'\n', piece, b'\n', name, ..] if name < piece && !is_json => SENTENCEPIECE,
        [b'G', b'G', b'U', b'F', ..] => ("model weights in the GGUF format", OTHER),
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => ("model weights in the safetensors format", OTHER),
        _ => match foreign(first) {
            // The remedies for corpora are pipes to `encode`.
            Some(kind) => (kind.what, if kind.hint.contains("windrow") { OTHER } else { kind.hint }),
            None if is_called_model && !is_json && !rank_file::is_likely(file) => SENTENCEPIECE,
            None => return None,
        },
    };
    Some(Fault::new("", found.0, found.1))
}

/// 0 for the usual end-of-text tokens, more for less likely ones.
fn likeness_to_eos(token: &str) -> usize {
    const USUAL: [&str; 10] = [
        "<|endoftext|>",
        "</s>",
        "<|end_of_text|>",
        "<eos>",
        "<｜end▁of▁sentence｜>",
        "<|im_end|>",
        "<|eot_id|>",
        "<end_of_turn>",
        "[EOS]",
        "[SEP]",
    ];
    USUAL.iter().position(|usual| *usual == token).unwrap_or_else(|| {
        let token = token.to_lowercase();
        USUAL.len() + usize::from(!(token.contains("eos") || token.contains("end") || token.contains("eot")))
    })
}

fn hash(json: &[u8]) -> String {
    blake3::hash(json).to_hex().to_string()
}

//! Engines turn the text of a document into ids.
//!
//! An [`Engine`] is a tokenizer ready to encode, shared by all workers. An [`Encoder`] belongs to one worker. It owns scratch
//! memory that is reused from document to document, so a warm encoder only allocates space for the ids. There are two engines:
//! `windrow-bpe`, and `tokenizers` 0.23 for the few `tokenizer.json` files of which it is not known where texts can be cut. Neither starts threads;
//! [`Engine::encode_batch`] uses the threads of the pool.
//!
//! With `windrow-bpe`, a text is cut into pieces, and each piece that is not remembered is encoded by itself. Byte-level BPE of well-known models
//! is all in that crate. For other tokenizers, `front` takes a piece to the words of a model, and `words` has the models.
//!
//! Both give the ids of `tokenizers` 0.23 with Oniguruma, `encode_fast`, without truncation and padding. Only the `tokenizer.json`
//! decides which engine runs, never a document.
//!
//! An engine whose allocation fails would end the process. So before a large text, windrow checks that the memory is available; if it
//! is not, the result is [`EngineError::NoMemory`].

use std::hint::black_box;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use thiserror::Error;
use windrow::prelude::*;
pub use windrow_bpe::{Ragged, UnknownId, instruction_sets};

use crate::shown;

mod alphabet;
mod bpe;
mod charsmap;
mod decoder;
mod front;
mod node;
pub(crate) mod options;
mod parts;
mod regex;
mod released;
mod trie;
pub(crate) mod words;

pub use alphabet::BYTE_CHARACTERS;
pub(crate) use alphabet::{byte_level, byte_of, is_spelled, spelled};
pub(crate) use bpe::{Bpe, Tokens};
pub(crate) use charsmap::Charsmap;
pub(crate) use front::{Behavior, Front, Steps};
pub(crate) use node::{kind, members_of, regex_of};
pub(crate) use parts::{LateLibrary, Parts};
pub(crate) use released::{Released, bytes_of, encoding};

/// A tokenizer ready to encode, shared by all workers.
///
/// ```
/// use windrow_tokenizers::engine::{Encoder, Engine, EngineError, Ragged};
///
/// /// The ids are the bytes of a text.
/// struct Bytes;
/// impl Engine for Bytes {
///     fn name(&self) -> &str {
///         "bytes 1.0"
///     }
///     fn encoder(&self) -> Box<dyn Encoder + '_> {
///         Box::new(Bytes)
///     }
///     fn token_to_id(&self, token: &str) -> Option<u32> {
///         token.bytes().next().filter(|_| token.len() == 1).map(u32::from)
///     }
/// }
/// impl Encoder for Bytes {
///     fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
///         ids.extend(text.bytes().map(u32::from));
///         Ok(())
///     }
/// }
/// let mut batch = Ragged::default();
/// Bytes.encode_batch(&["ab", "c"], &mut batch)?;
/// assert_eq!((batch.values, batch.offsets), (vec![97, 98, 99], vec![0, 2, 3]));
/// # Ok::<(), windrow_tokenizers::engine::BatchError>(())
/// ```
pub trait Engine: Send + Sync {
    /// Name and version of the library that encodes, such as `tokenizers 0.23.2`.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};
    ///
    /// let options = LoadOptions { engine: EngineChoice::Tokenizers, ..LoadOptions::default() };
    /// let tokenizer = Tokenizer::load("gpt2", &options)?;
    /// assert!(tokenizer.engine().name().starts_with("tokenizers 0.23"));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    fn name(&self) -> &str;

    /// A new encoder, with separate scratch memory.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// // Each thread has an encoder.
    /// let count = |text| {
    ///     let mut ids = Vec::new();
    ///     tokenizer.engine().encoder().encode(text, &mut ids).map(|()| ids.len())
    /// };
    /// let counts = std::thread::scope(|scope| {
    ///     ["Hello world", "Hello"].map(|text| scope.spawn(move || count(text))).map(|thread| thread.join().unwrap())
    /// });
    /// assert_eq!(counts, [Ok(2), Ok(1)]);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    fn encoder(&self) -> Box<dyn Encoder + '_>;

    /// The id of a token of the model, as the `tokenizer.json` spells it. It may search the whole vocabulary, so it is not for hot
    /// paths.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.engine().token_to_id("Ġworld"), Some(995));
    /// assert_eq!(tokenizer.engine().token_to_id("Ġwindrow"), None);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    fn token_to_id(&self, token: &str) -> Option<u32>;

    /// Approximate bytes of memory that an encoder takes for each byte of a long document, until it has the ids.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};
    ///
    /// assert_eq!(Tokenizer::load("gpt2", &LoadOptions::default())?.engine().working_bytes(), 0);
    /// let options = LoadOptions { engine: EngineChoice::Tokenizers, ..LoadOptions::default() };
    /// assert!(Tokenizer::load("gpt2", &options)?.engine().working_bytes() > 1);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    fn working_bytes(&self) -> usize {
        0
    }

    /// True if a document can be encoded in parts: see [`last_cut`](Self::last_cut).
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};
    ///
    /// assert!(Tokenizer::load("gpt2", &LoadOptions::default())?.engine().cuts_documents());
    /// let options = LoadOptions { engine: EngineChoice::Tokenizers, ..LoadOptions::default() };
    /// assert!(!Tokenizer::load("gpt2", &options)?.engine().cuts_documents());
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    fn cuts_documents(&self) -> bool {
        false
    }

    /// The last place at or after `from` at which a part of a document can be cut: the ids of the text before it and of the text after it,
    /// encoded separately, are those of the document. `part` begins at the start of the document or at another cut, and need not be UTF-8.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let text = "one two three four five six";
    /// let cut = tokenizer.engine().last_cut(text.as_bytes(), 0).expect("it has several words");
    /// let (before, after) = text.split_at(cut);
    /// let parts = tokenizer.encode_batch_ids(&[before, after])?;
    /// assert_eq!(parts.values, tokenizer.encode_batch_ids(&[text])?.values);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn last_cut(&self, part: &[u8], from: usize) -> Option<usize> {
        let _ = (part, from);
        None
    }

    /// Replaces `batch` with the ids of all `texts`, computed by the threads of the current pool.
    ///
    /// ```
    /// use windrow_tokenizers::engine::Ragged;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let mut batch = Ragged::default();
    /// tokenizer.engine().encode_batch(&["Hello world", "Hello"], &mut batch)?;
    /// assert_eq!((batch.get(0), batch.get(1)), (Some(&[15496, 995][..]), Some(&[15496][..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first text, in order, that has no ids. `batch` is then empty.
    fn encode_batch(&self, texts: &[&str], batch: &mut Ragged) -> Result<(), BatchError> {
        batch.clear();
        self.append_batch_while(texts, batch, &|| true).map(drop)
    }

    /// Adds the ids of all `texts` after those of `batch`, as long as `goes_on` returns true, which each thread calls repeatedly. Returns
    /// true if all texts were encoded; `batch` is empty otherwise.
    ///
    /// ```
    /// use windrow_tokenizers::engine::Ragged;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let (engine, mut batch) = (tokenizer.engine(), Ragged::default());
    /// assert!(engine.append_batch_while(&["Hello"], &mut batch, &|| true)?);
    /// assert!(engine.append_batch_while(&[" world"], &mut batch, &|| true)?);
    /// assert_eq!((batch.values.as_slice(), batch.len()), (&[15496, 995][..], 2));
    /// assert!(!engine.append_batch_while(&["Hello"], &mut batch, &|| false)?);
    /// assert!(batch.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first of these texts, in order, that has no ids. `batch` is then empty.
    fn append_batch_while(
        &self,
        texts: &[&str],
        batch: &mut Ragged,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BatchError> {
        append_each(self, texts, batch, goes_on)
    }
}

/// [`Engine::append_batch_while`] of an engine whose encoders take one text at a time.
fn append_each<E: Engine + ?Sized>(
    engine: &E,
    texts: &[&str],
    batch: &mut Ragged,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<bool, BatchError> {
    let Ragged { mut values, mut offsets } = std::mem::take(batch);
    if offsets.is_empty() {
        offsets.push(0);
    }
    // After a stop, the remaining texts have no ids.
    let encoded = texts.par_iter().weigh(|text| text.len()).map_init(
        || engine.encoder(),
        |encoder, text| {
            let mut ids = Vec::new();
            goes_on().then(|| encoder.encode(text, &mut ids).map(|()| ids))
        },
    );
    let encoded: Vec<_> = encoded.collect();
    for (document, ids) in encoded.into_iter().enumerate() {
        let Some(ids) = ids else { return Ok(false) };
        let add = |ids: Vec<u32>| {
            let bytes = ids.len().saturating_mul(size_of::<u32>());
            let reserved = values.try_reserve(ids.len());
            reserved.map_err(|_| EngineError::no_memory(engine.name(), texts[document].len(), bytes))?;
            values.extend(ids);
            Ok(())
        };
        ids.and_then(add).map_err(|error| BatchError { document, error })?;
        offsets.push(values.len() as u64);
    }
    *batch = Ragged { values, offsets };
    Ok(true)
}

/// The reason why a batch has no results.
///
/// ```
/// use windrow_tokenizers::engine::EngineError;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// // It knows two words, and has no token for others.
/// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "two": 1}, "unk_token": "?"}}"#;
/// let tokenizer = Tokenizer::from_json(json, "example", &LoadOptions::default())?;
/// let error = tokenizer.encode_batch_ids(&["one", "three"]).unwrap_err();
/// assert_eq!(error.document, 1);
/// assert!(matches!(error.error, EngineError::Refused { .. }));
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("document {document}: {error}")]
pub struct BatchError<E = EngineError> {
    /// The number of the first document without a result, from 0.
    pub document: usize,
    /// The reason why the document has no result.
    #[source]
    pub error: E,
}

/// The encoder of one worker. A document's ids do not depend on earlier documents.
///
/// ```
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let mut encoder = tokenizer.engine().encoder();
/// let mut ids = Vec::new();
/// encoder.encode("Hello", &mut ids)?;
/// encoder.encode(" world", &mut ids)?;
/// assert_eq!(ids, [15496, 995]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Encoder: Send {
    /// Appends the ids of `text` to `ids`.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let mut ids = vec![50256];
    /// tokenizer.engine().encoder().encode("Hello world", &mut ids)?;
    /// assert_eq!(ids, [50256, 15496, 995]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine refuses the text, gives up on it or panics. `ids` is then unchanged, and the encoder can continue with the next
    /// document.
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError>;

    /// Appends the ids of `texts` to `ids`, and to `ends` the length of `ids` after each text.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let (mut ids, mut ends) = (Vec::new(), Vec::new());
    /// tokenizer.engine().encoder().encode_all(&["Hello world", "", "Hello"], &mut ids, &mut ends)?;
    /// assert_eq!((ids, ends), (vec![15496, 995, 15496], vec![2, 2, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first text, in order, that has no ids. `ids` and `ends` are then unchanged, and the encoder can continue.
    fn encode_all(&mut self, texts: &[&str], ids: &mut Vec<u32>, ends: &mut Vec<usize>) -> Result<(), BatchError> {
        let before = (ids.len(), ends.len());
        for (document, text) in texts.iter().enumerate() {
            if let Err(error) = self.encode(text, ids) {
                ids.truncate(before.0);
                ends.truncate(before.1);
                return Err(BatchError { document, error });
            }
            ends.push(ids.len());
        }
        Ok(())
    }
}

/// The reason why a document has no ids.
///
/// ```
/// use windrow_tokenizers::engine::EngineError;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0}, "unk_token": "?"}}"#;
/// let tokenizer = Tokenizer::from_json(json, "example", &LoadOptions::default())?;
/// match tokenizer.engine().encoder().encode("three", &mut Vec::new()) {
///     Err(EngineError::Refused { engine, .. }) => assert!(engine.starts_with("tokenizers ")),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine returned an error.
    #[error("{engine} cannot encode this text: {}", shown(reason))]
    Refused {
        /// Name and version of the library.
        engine: String,
        /// The error message of the library.
        reason: String,
    },
    /// The engine panicked. Its scratch memory was dropped.
    #[error("{engine} panicked on this text: {} (hint: check the tokenizer file for damage)", shown(reason))]
    Panicked {
        /// Name and version of the library.
        engine: String,
        /// The message of the panic.
        reason: String,
    },
    /// There is no memory for the text.
    #[error(
        "not enough memory for a text of {text} bytes: {engine} needs about {bytes} more bytes \
         (hint: split the document, or raise the memory limit of the process)"
    )]
    NoMemory {
        /// Name and version of the library.
        engine: String,
        /// Bytes of the text, after its normalization.
        text: usize,
        /// Bytes that were requested.
        bytes: usize,
    },
}

/// A text with the ids of its tokens.
///
/// ```
/// use windrow_tokenizers::engine::Encoded;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let Encoded { ids, offsets } = tokenizer.encode_with_offsets("Hello world")?;
/// assert_eq!(ids, [15496, 995]);
/// assert_eq!(offsets, [0..5, 5..11]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The ids.
    pub ids: Vec<u32>,
    /// The range of bytes of the text for each id; `0..0` for the ids that a template puts around the text.
    pub offsets: Vec<Range<usize>>,
}

/// The reason why ids have no text.
///
/// ```
/// use windrow_tokenizers::engine::{DecodeError, UnknownId};
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let unknown = UnknownId { index: 1, id: 60_000 };
/// assert_eq!(tokenizer.decode(&[995, 60_000], false), Err(DecodeError::UnknownId(unknown)));
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// No token has this id.
    #[error("{0} (hint: decode with the vocabulary that produced the ids)")]
    UnknownId(UnknownId),
    /// The library of the engine cannot decode.
    #[error("{engine} cannot decode: {}", shown(reason))]
    Refused {
        /// Name and version of the library.
        engine: String,
        /// The error message of the library.
        reason: String,
    },
    /// In a stream: more ids change the text of earlier ones.
    #[error("the ids decode to {text:?}, which does not begin with the earlier text {known:?}")]
    NotFurther {
        /// The text with the new ids.
        text: String,
        /// The earlier text.
        known: String,
    },
    /// There is no memory for the text.
    #[error("not enough memory for the text of {ids} ids, about {bytes} bytes (hint: decode fewer ids at a time)")]
    NoMemory {
        /// The number of ids.
        ids: usize,
        /// The approximate number of bytes that were missing.
        bytes: usize,
    },
}

/// The reason why a batch of ids has no texts.
///
/// ```
/// use windrow_tokenizers::engine::DecodeError;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let error = tokenizer.decode_batch(&[vec![15496], vec![60_000]], false).unwrap_err();
/// assert_eq!(error.document, 1);
/// assert!(matches!(error.error, DecodeError::UnknownId(unknown) if unknown.id == 60_000));
/// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
/// ```
pub type DecodeBatchError = BatchError<DecodeError>;

impl EngineError {
    pub(crate) fn refused(engine: &str, reason: impl ToString) -> Self {
        Self::Refused { engine: engine.to_owned(), reason: reason.to_string() }
    }

    pub(crate) fn no_memory(engine: &str, text: usize, bytes: usize) -> Self {
        Self::NoMemory { engine: engine.to_owned(), text, bytes }
    }
}

/// Memory that is taken without a check. A check takes two system calls, and each small allocation may fail as well.
const UNCHECKED: usize = 1 << 20;

/// Memory that large texts leave to the small allocations of all threads, each of which would end the process if it failed.
const HEADROOM: usize = 4 << 20;

/// [`has_headroom_and`] for more than a few bytes.
pub(crate) fn has_memory(bytes: usize) -> bool {
    bytes <= UNCHECKED || has_headroom_and(bytes)
}

/// True if this much memory is available now, and some more for small allocations: one that fails in a library ends the process. Another thread
/// may take the memory in between.
///
/// ```
/// use windrow_tokenizers::engine::has_headroom_and;
///
/// assert!(has_headroom_and(1 << 20));
/// assert!(!has_headroom_and(usize::MAX));
/// ```
pub fn has_headroom_and(bytes: usize) -> bool {
    let mut trial = Vec::<u8>::new();
    let reserved = trial.try_reserve_exact(bytes.saturating_add(HEADROOM));
    // Prevents the compiler from optimizing the allocation away.
    black_box(&trial);
    reserved.is_ok()
}

/// The result of `run`, or the message of its panic. The caller must then drop whatever `run` was changing.
///
/// The panic hook still prints: a library must not replace it, and the known hostile files are refused earlier.
///
/// ```
/// use windrow_tokenizers::engine::caught;
///
/// assert_eq!(caught(|| 1), Ok(1));
/// assert_eq!(caught(|| panic!("no")), Err::<(), _>("no".to_owned()));
/// ```
///
/// # Errors
/// `run` panics.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// The value of `cell`, made by `make` at first use.
///
/// It is made before the cell is taken: in a process that is forked meanwhile, a cell that another thread had taken would never be filled, and
/// each reader would wait for it. Two threads may make it; one result is kept.
///
/// ```
/// use std::convert::Infallible;
/// use std::sync::OnceLock;
/// use windrow_tokenizers::engine::late;
///
/// let cell = OnceLock::new();
/// assert_eq!(late(&cell, || Err("no")), Err("no"));
/// assert_eq!(late(&cell, || Ok::<_, Infallible>(1)), Ok(&1));
/// assert_eq!(late(&cell, || Ok::<_, Infallible>(2)), Ok(&1));
/// ```
///
/// # Errors
/// The error of `make`, which is not kept.
pub fn late<T, E>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
    match cell.get() {
        Some(value) => Ok(value),
        None => make().map(|value| cell.get_or_init(|| value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_their_message() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| std::panic::resume_unwind(Box::new("static"))), Err::<(), _>("static".to_owned()));
        assert_eq!(
            caught(|| std::panic::resume_unwind(Box::new("owned".to_owned()))),
            Err::<(), _>("owned".to_owned())
        );
        assert_eq!(
            caught(|| std::panic::resume_unwind(Box::new(7))),
            Err::<(), _>("a panic without a message".to_owned())
        );
    }
}

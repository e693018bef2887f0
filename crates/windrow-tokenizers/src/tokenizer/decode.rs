//! Decodes ids to text, and maps ids to their places in a text.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;
use tokenizers_023::Encoding;
use windrow::prelude::*;

use super::check::Checked;
use super::choice::ChosenEngine;
use super::file::File;
use super::{AddedId, Tokenizer};
use crate::engine::{
    Bpe, DecodeBatchError, DecodeError, Encoded, EngineError, LateLibrary, Released, UnknownId, byte_level, byte_of,
    encoding, has_memory, is_spelled, spelled,
};

/// The tokens whose bytes the table of an engine does not have: added tokens, and tokens that are not in the byte-level alphabet.
pub(super) struct OtherTokens {
    by_id: HashMap<u32, OtherToken>,
    /// True if unknown ids are ignored, as in Hugging Face's library. tiktoken refuses them.
    leaves_out_unknown: bool,
    /// True if each id belongs to only one token. Hugging Face numbers added tokens itself, and may give one the id of a token of the model.
    tells_tokens: bool,
}

struct OtherToken {
    content: Box<str>,
    bytes: Box<[u8]>,
    is_special: bool,
    /// White space that offsets exclude, at the beginning and at the end.
    spaces: [usize; 2],
}

impl OtherTokens {
    /// The tokens of a byte-level file.
    pub(super) fn of_file(file: &File<'_>, checked: &Checked) -> Self {
        let foreign = file.model.vocab.iter().filter(|(token, _)| !is_spelled(token));
        let foreign = foreign.map(|(token, id)| (*id, token.as_str(), false));
        let added = file.added.iter().zip(&checked.added);
        let added = added.map(|(token, id)| (*id, token.content.as_str(), token.special));
        // An added token replaces the token of the model with its id.
        let by_id = foreign.chain(added).map(|(id, token, is_special)| {
            let bytes = byte_level(token).unwrap_or_else(|| token.into());
            (id, OtherToken { content: token.into(), bytes: bytes.into(), is_special, spaces: spaces(token) })
        });
        let contents: HashMap<u32, &str> =
            file.added.iter().zip(&checked.added).map(|(token, id)| (*id, token.content.as_str())).collect();
        let collides = |(token, id): &(String, u32)| contents.get(id).is_some_and(|content| content != token);
        let tells_tokens = !file.model.vocab.iter().any(collides);
        Self { by_id: by_id.collect(), leaves_out_unknown: true, tells_tokens }
    }

    /// The tokens of a vocabulary of tiktoken.
    pub(super) fn of_ranks(special: &[AddedId]) -> Self {
        let by_id = special.iter().map(|AddedId { content, id, special }| {
            let (bytes, spaces) = (content.as_bytes().into(), spaces(content));
            (*id, OtherToken { content: content.as_str().into(), bytes, is_special: *special, spaces })
        });
        Self { by_id: by_id.collect(), leaves_out_unknown: false, tells_tokens: true }
    }

    /// The text of `ids`. `decode` appends the bytes of other ids, up to the first that no token has.
    fn decode(
        &self,
        ids: &[u32],
        skip_special_tokens: bool,
        decode: impl Fn(&[u32], &mut Vec<u8>) -> Result<(), UnknownId>,
    ) -> Result<String, DecodeError> {
        let (mut bytes, mut at) = (Vec::with_capacity(4 * ids.len()), 0);
        while at < ids.len() {
            if let Some(token) = self.by_id.get(&ids[at]) {
                if !(token.is_special && skip_special_tokens) {
                    bytes.extend_from_slice(&token.bytes);
                }
                at += 1;
                continue;
            }
            let run = ids[at..].iter().take_while(|id| !self.by_id.contains_key(id)).count();
            match decode(&ids[at..at + run], &mut bytes) {
                Ok(()) => at += run,
                Err(unknown) if self.leaves_out_unknown => at += unknown.index + 1,
                Err(UnknownId { index, id }) => {
                    return Err(DecodeError::UnknownId(UnknownId { index: at + index, id }));
                }
            }
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// The white space of a token that offsets exclude, at its beginning and at its end.
    fn spaces(&self, id: u32, engine: &windrow_bpe::BpeEngine) -> [usize; 2] {
        if let Some(token) = self.by_id.get(&id) {
            return token.spaces;
        }
        let bytes = engine.token(id);
        let is_space = |byte: &&u8| **byte == b' ';
        [bytes.iter().take_while(is_space).count(), bytes.iter().rev().take_while(is_space).count()]
    }

    /// A token as the file spells it. `bytes` are those that the table of the engine has.
    fn spelling(&self, id: u32, bytes: &[u8]) -> String {
        match self.by_id.get(&id) {
            Some(token) => token.content.as_ref().to_owned(),
            None => spelled(bytes),
        }
    }
}

/// Places in bytes as places in characters.
fn in_characters(text: &str, places: &[Range<usize>]) -> Vec<(usize, usize)> {
    if text.is_ascii() {
        return places.iter().map(|place| (place.start, place.end)).collect();
    }
    let mut characters = vec![0; text.len() + 1];
    let mut count = 0;
    for (at, _) in text.char_indices() {
        characters[at] = count;
        count += 1;
    }
    characters[text.len()] = count;
    places.iter().map(|place| (characters[place.start], characters[place.end])).collect()
}

/// The characters at the beginning and at the end of a token that are white space, or stand for a space in the byte-level alphabet.
fn spaces(token: &str) -> [usize; 2] {
    let is_space = |character: &char| character.is_whitespace() || byte_of(*character) == Some(b' ');
    [token.chars().take_while(is_space).count(), token.chars().rev().take_while(is_space).count()]
}

/// True if the decoder of a file joins the bytes of tokens and does nothing else.
pub(super) fn joins_bytes(file: &File<'_>) -> bool {
    let decoder = file.decoder.and_then(|decoder| serde_json::from_str::<Value>(decoder.get()).ok());
    let kind = |node: &Value| node.get("type").and_then(Value::as_str) == Some("ByteLevel");
    decoder.is_some_and(|node| match node.get("decoders").and_then(Value::as_array).map(Vec::as_slice) {
        Some([single]) => kind(single),
        Some(_) => false,
        None => kind(&node),
    })
}

/// The post-processors that trim offsets, in order: each is true if the space before the first word stays.
#[derive(Default)]
pub(super) struct Trims(Vec<bool>);

impl Trims {
    /// The trims of a file, or `None` if it has processors of other types, or if an id does not identify its token.
    pub(super) fn of(file: &File<'_>, others: &OtherTokens) -> Option<Self> {
        fn add(node: &Value, trims: &mut Vec<bool>) -> Option<()> {
            let flag = |name: &str| node.get(name).and_then(Value::as_bool).unwrap_or(true);
            match node.get("type").and_then(Value::as_str)? {
                "Sequence" => node.get("processors")?.as_array()?.iter().try_for_each(|node| add(node, trims))?,
                "ByteLevel" if flag("trim_offsets") => trims.push(flag("add_prefix_space")),
                "ByteLevel" | "TemplateProcessing" => {}
                _ => return None,
            }
            Some(())
        }
        let mut trims = Vec::new();
        match file.parts.get("post_processor") {
            None | Some(Value::Null) => {}
            Some(node) => add(node, &mut trims)?,
        }
        (trims.is_empty() || others.tells_tokens).then_some(Self(trims))
    }

    /// Excludes white space from offsets. `spaces` gives the white space at the beginning and at the end of a token.
    fn apply(&self, encoded: &mut Encoded, spaces: impl Fn(u32) -> [usize; 2]) {
        for &keeps_first in &self.0 {
            for (number, (&id, Range { start, end })) in encoded.ids.iter().zip(&mut encoded.offsets).enumerate() {
                let [mut leading, trailing] = spaces(id);
                if leading == 1 && keeps_first && (number == 0 || *start == 0) {
                    leading = 0;
                }
                *start = (*start + leading).min(*end);
                if *end >= trailing {
                    *end = (*end - trailing).max(*start);
                }
            }
        }
    }
}

/// Memory per id to decode: for the text as it grows, and in a library, which makes a string of each token.
const BYTES_OF_ID: usize = 16;
const BYTES_OF_TOKEN: usize = 128;

/// Memory per token of an encoding: all its columns, the data from which they are made, and the copy that a post-processor makes.
///
/// Measured by `bindings/python/tests/test_memory.py`, which failed with 88.
const BYTES_OF_ENCODED: usize = 200;

/// # From ids to text, and to places
impl Tokenizer {
    /// The text of `ids`, without special tokens if `skip_special_tokens`.
    ///
    /// For a `tokenizer.json`, the text is the same as in Hugging Face's `tokenizers` 0.23: its decoder is applied, and unknown ids are ignored.
    /// For the vocabularies of tiktoken, the text is the same as in tiktoken. Bytes that are not UTF-8 become U+FFFD in both.
    ///
    /// Except for byte-level BPE of well-known models, the first call loads the file again, with the library.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.decode(&[15496, 995, 50256], false)?, "Hello world<|endoftext|>");
    /// assert_eq!(tokenizer.decode(&[15496, 995, 50256], true)?, "Hello world");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An id of a vocabulary of tiktoken is unknown, or the library cannot use the decoder of the file.
    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, DecodeError> {
        let decodes_itself = self.others.is_some() && self.joins_bytes && self.engine.own().is_some();
        let bytes = ids.len().saturating_mul(if decodes_itself { BYTES_OF_ID } else { BYTES_OF_TOKEN });
        if !has_memory(bytes) {
            return Err(DecodeError::NoMemory { ids: ids.len(), bytes });
        }
        match (&self.engine, &self.others) {
            (ChosenEngine::Bpe(bpe), Some(others)) if self.joins_bytes => {
                others.decode(ids, skip_special_tokens, |ids, bytes| bpe.engine().decode(ids, bytes))
            }
            (ChosenEngine::Released(released), _) => {
                // tiktoken's vocabularies refuse ids that Hugging Face's library ignores.
                let refuses = self.others.as_ref().is_some_and(|others| !others.leaves_out_unknown);
                match ids.iter().position(|&id| refuses && released.id_to_token(id).is_none()) {
                    Some(index) => Err(DecodeError::UnknownId(UnknownId { index, id: ids[index] })),
                    None => released.decode(ids, skip_special_tokens),
                }
            }
            _ => self
                .reference()
                .map_err(|reason| DecodeError::Refused { engine: Released::NAME.to_owned(), reason })?
                .decode(ids, skip_special_tokens),
        }
    }

    /// Decodes many documents like [`decode`](Self::decode), with the threads of the current pool.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let batch = tokenizer.encode_batch_ids(&["Hello world", ""])?;
    /// let documents: Vec<&[u32]> = batch.iter().collect();
    /// assert_eq!(tokenizer.decode_batch(&documents, false)?, ["Hello world", ""]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first document, in order, that cannot be decoded.
    pub fn decode_batch<T: AsRef<[u32]> + Sync>(
        &self,
        documents: &[T],
        skip_special_tokens: bool,
    ) -> Result<Vec<String>, DecodeBatchError> {
        Ok(self.decode_batch_while(documents, skip_special_tokens, &|| true)?.unwrap_or_default())
    }

    /// [`decode_batch`](Self::decode_batch) as long as `goes_on` returns true, which each thread calls repeatedly. `None` if it returns false.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.decode_batch_while(&[[15496_u32, 995]], false, &|| true)?, Some(vec!["Hello world".to_owned()]));
    /// assert_eq!(tokenizer.decode_batch_while(&[[15496_u32, 995]], false, &|| false)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`decode_batch`](Self::decode_batch).
    pub fn decode_batch_while<T: AsRef<[u32]> + Sync>(
        &self,
        documents: &[T],
        skip_special_tokens: bool,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<String>>, DecodeBatchError> {
        let decoded = documents.par_iter().weigh(|ids| ids.as_ref().len());
        let decode = |ids: &T| goes_on().then(|| self.decode(ids.as_ref(), skip_special_tokens));
        let decoded: Vec<_> = decoded.map(decode).collect();
        let numbered = decoded.into_iter().enumerate();
        // Errors of documents before the stop count.
        numbered
            .map(|(document, text)| text.transpose().map_err(|error| DecodeBatchError { document, error }))
            .collect()
    }

    /// The ids of `text`, and the range of bytes of `text` for each id.
    ///
    /// The offsets are those that Hugging Face's `tokenizers` 0.23 gives in bytes: whole characters, so all tokens of a character have its place,
    /// without the white space that the file trims. The ids are the same as in the other methods.
    ///
    /// Except for byte-level BPE of well-known models, the first call loads the file again, with the library.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// let encoded = tokenizer.encode_with_offsets("Hello wörld")?;
    /// assert_eq!(encoded.ids, [15496, 266, 30570, 335]);
    /// assert_eq!(encoded.offsets, [0..5, 5..7, 7..10, 10..12]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine cannot encode the text.
    pub fn encode_with_offsets(&self, text: &str) -> Result<Encoded, EngineError> {
        let refused = |reason: &str| EngineError::refused(Released::NAME, reason);
        if let ChosenEngine::Released(released) = &self.engine {
            return released.encode_with_offsets(text);
        }
        let bpe = self.engine.own().filter(|bpe| bpe.engine().has_offsets());
        let (Some(bpe), Some(trims), Some(others)) = (bpe, &self.trims, &self.others) else {
            return self.reference().map_err(|reason| refused(&reason))?.encode_with_offsets(text);
        };
        let mut encoded = bpe.encode_with_offsets(text)?;
        trims.apply(&mut encoded, |id| others.spaces(id, bpe.engine()));
        Ok(encoded)
    }

    /// The offsets of the `ids` of a text, in characters and trimmed, without special tokens around them; `None` if they do not follow from the ids.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.offsets_of("Hello world", &[15496, 995]), Some(vec![(0, 5), (5, 11)]));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    ///
    /// # Panics
    /// `ids` are not the ids of `text`.
    pub fn offsets_of(&self, text: &str, ids: &[u32]) -> Option<Vec<(usize, usize)>> {
        let ((bpe, others), trims) = self.locating().zip(self.trims.as_ref())?;
        // The library trims characters off offsets in characters.
        let offsets = in_characters(text, &bpe.engine().places(text, ids));
        let offsets = offsets.into_iter().map(|(start, end)| start..end).collect();
        let mut encoded = Encoded { ids: ids.to_vec(), offsets };
        trims.apply(&mut encoded, |id| others.spaces(id, bpe.engine()));
        Some(encoded.offsets.into_iter().map(|place| (place.start, place.end)).collect())
    }

    /// windrow's own engine with the tokens that it does not know, if the place of each id follows from the ids.
    fn locating(&self) -> Option<(&Bpe, &OtherTokens)> {
        let others = self.others.as_ref().filter(|others| others.tells_tokens);
        self.engine.own().filter(|bpe| bpe.engine().has_offsets()).zip(others)
    }

    /// True if the places of ids in a text follow from the ids, so that whole encodings of the text encode nothing.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let options = LoadOptions::default();
    /// assert!(Tokenizer::load("gpt2", &options)?.follows_from_ids());
    /// let words = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// assert!(!Tokenizer::from_json(words, "example", &options)?.follows_from_ids());
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn follows_from_ids(&self) -> bool {
        self.locating().is_some()
    }

    /// True if the vocabulary is one of tiktoken.
    pub(crate) fn is_of_ranks(&self) -> bool {
        self.embedded.is_some()
    }

    /// The encoding of a text before post-processing; `None` if it does not follow from the ids. `ids` are those of `text` without special
    /// tokens around them, if they are known.
    pub(crate) fn own_encoding(
        &self,
        text: &str,
        ids: Option<&[u32]>,
        type_id: u32,
    ) -> Result<Option<Encoding>, EngineError> {
        let Some((bpe, others)) = self.locating() else { return Ok(None) };
        let engine = bpe.engine();
        let encoded = match ids {
            Some(_) => Vec::new(),
            None => bpe.encode_plain(text)?,
        };
        let ids = ids.unwrap_or(&encoded);
        // Each of the allocations below would end the process if it failed.
        let bytes = ids.len().saturating_mul(BYTES_OF_ENCODED);
        if !has_memory(bytes) {
            return Err(EngineError::no_memory(Bpe::NAME, text.len(), bytes));
        }
        let tokens = ids.iter().map(|&id| others.spelling(id, engine.token(id))).collect();
        let words = engine.words(text, ids).into_iter().map(Some).collect();
        let offsets = in_characters(text, &engine.places(text, ids));
        let ids = if encoded.is_empty() { ids.to_vec() } else { encoded };
        Ok(Some(encoding(ids, tokens, words, offsets, type_id)))
    }

    /// The token with this id, as the `tokenizer.json` spells it: `Ġthe` for " the" in a byte-level vocabulary.
    ///
    /// `None` also if the engine that encodes is not windrow's own and does not know its tokens by their ids.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.id_to_token(995).as_deref(), Some("Ġworld"));
    /// assert_eq!(tokenizer.id_to_token(50_257), None);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        if let Some(added) = self.added.iter().find(|added| added.id == id) {
            return Some(added.content.clone());
        }
        match (&self.engine, &self.others) {
            (ChosenEngine::Bpe(bpe), Some(others)) => {
                let token = others.spelling(id, bpe.engine().token(id));
                Some(token).filter(|token| !token.is_empty())
            }
            (ChosenEngine::Released(released), _) => released.id_to_token(id),
            _ => self.reference().ok()?.id_to_token(id),
        }
    }

    /// The released library with the same file, or the reason why there is none.
    fn reference(&self) -> Result<&Released, String> {
        match &self.reference {
            Some(reference) => reference.get(),
            None => Err("this vocabulary has no tokenizer.json (hint: load a tokenizer.json instead)".to_owned()),
        }
    }
}

//! The options of all engines.

use serde::{Deserialize, Serialize};
use windrow_bpe::EngineOptions;

/// The treatment of special tokens by a tokenizer.
///
/// ```
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let ids = |special_in_text| {
///     let options = LoadOptions { special_in_text, ..LoadOptions::default() };
///     Ok::<_, Box<dyn std::error::Error>>(Tokenizer::load("gpt2", &options)?.encode_batch_ids(&["<|endoftext|>"])?.values)
/// };
/// assert_eq!(ids(true)?, [50256]);
/// assert_eq!(ids(false)?, [27, 91, 437, 1659, 5239, 91, 29]); // plain text
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Adds the tokens that the post-processor of a `tokenizer.json` puts around a document, such as `[CLS]` and `[SEP]`.
    pub add_special_tokens: bool,
    /// Recognizes special tokens that are written in a text. Otherwise they are plain text. Added tokens that are not special are
    /// always recognized, as with Hugging Face's `encode_special_tokens`.
    pub special_in_text: bool,
    /// The engine that encodes. The ids are the same.
    pub engine: EngineChoice,
    /// Maximum memory in bytes of the cache of windrow's own engine, including the pieces of its vocabulary: see
    /// [`EngineOptions::cache_bytes`](windrow_bpe::EngineOptions::cache_bytes).
    pub cache_bytes: usize,
    /// Accepts a file that is being put together: without tokens, or with a processor whose ids no token has. Hugging Face's library encodes it.
    pub unfinished: bool,
}

impl LoadOptions {
    /// The settings of windrow's own engine.
    pub(crate) fn of_engine(&self) -> EngineOptions {
        EngineOptions { cache_bytes: self.cache_bytes, ..EngineOptions::default() }
    }
}

/// The engine that encodes.
///
/// ```
/// use windrow_tokenizers::tokenizer::{EngineChoice, LoadError, LoadOptions, Tokenizer};
///
/// // Nothing splits the text, so windrow's own engine knows no place to cut it.
/// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
/// let load = |engine| Tokenizer::from_json(json, "example", &LoadOptions { engine, ..LoadOptions::default() });
/// assert!(load(EngineChoice::Automatic)?.delegated().is_some());
/// assert!(matches!(load(EngineChoice::Windrow), Err(LoadError::Unsupported { .. })));
/// # Ok::<(), LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum EngineChoice {
    /// windrow's own engine, or else `tokenizers` 0.23.
    #[default]
    #[serde(rename = "auto")]
    #[cfg_attr(feature = "command", value(name = "auto"))]
    Automatic,
    /// windrow's own engine. A tokenizer that it does not support is refused.
    Windrow,
    /// `tokenizers` 0.23, even if windrow's own engine supports the tokenizer.
    Tokenizers,
}

impl Default for LoadOptions {
    /// Adds nothing around a document; recognizes special tokens in a text; chooses the engine; remembers up to 128 MiB.
    fn default() -> Self {
        let cache_bytes = EngineOptions::default().cache_bytes;
        Self {
            add_special_tokens: false,
            special_in_text: true,
            engine: EngineChoice::Automatic,
            cache_bytes,
            unfinished: false,
        }
    }
}

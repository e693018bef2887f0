//! The options of all engines.

/// How a tokenizer treats special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Adds the tokens that the post-processor of a `tokenizer.json` puts around a document, such as `[CLS]` and `[SEP]`.
    pub add_special_tokens: bool,
    /// Recognizes special tokens that are written in a text. Otherwise they are plain text. Added tokens that are not special are
    /// always recognized, as with Hugging Face's `encode_special_tokens`.
    pub special_in_text: bool,
}

impl Default for LoadOptions {
    /// Adds nothing around a document; recognizes special tokens in a text.
    fn default() -> Self {
        Self { add_special_tokens: false, special_in_text: true }
    }
}

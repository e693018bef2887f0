//! The whole interface of Hugging Face's `tokenizers` 0.23, over the engine that encodes.

use std::sync::{Arc, OnceLock};
use std::thread;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokenizers_023::models::wordlevel::WordLevel;
/// A tokenizer of Hugging Face's library itself, and its errors.
pub use tokenizers_023::{AddedToken, Error as LibraryError, Tokenizer as LibraryTokenizer};
use tokenizers_023::{
    DecoderWrapper, NormalizerWrapper, PostProcessor, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl,
    truncate_encodings,
};
/// Inputs, results and settings of whole encodings.
pub use tokenizers_023::{
    EncodeInput, Encoding, InputSequence, PaddingDirection, PaddingParams, PaddingStrategy, TruncationDirection,
    TruncationParams, TruncationStrategy,
};
use windrow::prelude::*;

use crate::batch_encode::pad;
use crate::counted;
use crate::engine::{BatchError, EngineError, LateLibrary, Released, bytes_of, caught, encoding, late};
use crate::tokenizer::{LoadError, LoadOptions, Reference, Tokenizer, file_of};

/// A tokenizer that makes whole encodings: with tokens, offsets in characters, words and masks, of single texts, pairs and lists of words,
/// truncated and padded.
///
/// The encodings are those of Hugging Face's `tokenizers` 0.23.3. For byte-level BPE of well-known models
/// ([`Tokenizer::follows_from_ids`]), they follow from the ids and the text; the library itself makes the rest: those of other tokenizers, and of
/// words that are given as such.
///
/// ```
/// use windrow_tokenizers::full::FullTokenizer;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
/// let encoding = full.encode("Hello wörld".into(), true, full.post_processing())?;
/// assert_eq!(encoding.get_tokens(), ["Hello", "Ġw", "Ã¶r", "ld"]);
/// assert_eq!(encoding.get_offsets(), [(0, 5), (5, 7), (7, 9), (9, 11)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FullTokenizer {
    /// The tokenizer, which adds no special tokens around texts.
    tokenizer: Tokenizer,
    post_processing: PostProcessing,
    /// The library with the same file without its post-processor.
    reference: Option<Reference>,
    /// The rank file, if a vocabulary of tiktoken was loaded from one.
    ranks: Option<Box<[u8]>>,
    /// The ids around a text without and with special tokens, computed at first use.
    around: [OnceLock<Arc<Encoding>>; 2],
}

/// The post-processing of the encodings of one or two texts: they are truncated, special tokens are put around them, and they are padded.
///
/// The post-processing is a value: a change to it changes no other call.
///
/// ```
/// use windrow_tokenizers::full::FullTokenizer;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// use windrow_tokenizers::full::TruncationParams;
///
/// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
/// let mut short = full.post_processing().clone();
/// short.set_truncation(Some(TruncationParams { max_length: 1, ..TruncationParams::default() }))?;
/// assert_eq!(full.encode("Hello world".into(), true, &short)?.get_ids(), [15496]);
/// assert_eq!(full.encode("Hello world".into(), true, full.post_processing())?.get_ids(), [15496, 995]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostProcessing {
    /// A tokenizer of the library with only a post-processor.
    library: TokenizerImpl<WordLevel, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>,
    truncation: Option<TruncationParams>,
    padding: Option<PaddingParams>,
    /// The reason why the post-processor cannot be applied.
    unreadable: Option<String>,
}

impl PostProcessing {
    /// No post-processing.
    fn none() -> Self {
        Self { library: TokenizerImpl::new(WordLevel::default()), truncation: None, padding: None, unreadable: None }
    }

    /// The post-processing of a `tokenizer.json`, with its truncation and padding.
    fn of_file(json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Settings<'a> {
            #[serde(borrow)]
            post_processor: Option<&'a RawValue>,
            truncation: Option<TruncationParams>,
            padding: Option<PaddingParams>,
        }
        let settings: Settings<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut this = Self::none();
        if let Some(processor) = settings.post_processor {
            match caught(|| serde_json::from_str::<Option<PostProcessorWrapper>>(processor.get()))? {
                Ok(processor) => drop(this.library.with_post_processor(processor)),
                // Ids can be encoded all the same.
                Err(error) => this.unreadable = Some(format!("post_processor: {error}")),
            }
        }
        this.set_truncation(settings.truncation)?;
        this.set_padding(settings.padding);
        Ok(this)
    }

    /// The truncation of texts; `None` if they are not truncated.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"},
    ///     "truncation": {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}}"#;
    /// let full = FullTokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// assert_eq!(full.post_processing().truncation().map(|params| params.max_length), Some(512));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn truncation(&self) -> Option<&TruncationParams> {
        self.truncation.as_ref()
    }

    /// Changes the truncation of texts.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    /// use windrow_tokenizers::full::TruncationParams;
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let mut post_processing = full.post_processing().clone();
    /// let params = |max_length, stride| Some(TruncationParams { max_length, stride, ..TruncationParams::default() });
    /// assert_eq!(post_processing.set_truncation(params(8, 2)), Ok(()));
    /// assert!(post_processing.set_truncation(params(8, 8)).is_err());
    /// assert_eq!(post_processing.truncation().map(|params| params.stride), Some(2));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// The stride is not below the maximal length.
    pub fn set_truncation(&mut self, truncation: Option<TruncationParams>) -> Result<(), String> {
        if let Some(params) = truncation.as_ref().filter(|params| params.max_length > 0) {
            let (stride, max_length, special) = (params.stride, params.max_length, self.special_tokens(false));
            if stride >= max_length {
                return Err(format!("truncation: the stride {stride} is not less than max_length {max_length}"));
            }
            if max_length.checked_sub(special).is_some_and(|most| stride > most) {
                let rest = format!("{max_length} minus {}", counted(special as u64, "special token"));
                return Err(format!("truncation: the stride {stride} is greater than max_length {rest}"));
            }
        }
        self.truncation = truncation;
        Ok(())
    }

    /// The padding of encodings; `None` if they are not padded.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    /// use windrow_tokenizers::full::PaddingParams;
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let mut post_processing = full.post_processing().clone();
    /// assert!(post_processing.padding().is_none());
    /// post_processing.set_padding(Some(PaddingParams { pad_id: 50256, ..PaddingParams::default() }));
    /// assert_eq!(post_processing.padding().map(|params| params.pad_id), Some(50256));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn padding(&self) -> Option<&PaddingParams> {
        self.padding.as_ref()
    }

    /// Changes the padding of encodings.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    /// use windrow_tokenizers::full::{PaddingParams, PaddingStrategy};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let mut padded = full.post_processing().clone();
    /// padded.set_padding(Some(PaddingParams { strategy: PaddingStrategy::Fixed(3), pad_id: 50256, ..PaddingParams::default() }));
    /// let encoding = full.encode("Hello world".into(), true, &padded)?;
    /// assert_eq!(encoding.get_ids(), [15496, 995, 50256]);
    /// assert_eq!(encoding.get_attention_mask(), [1, 1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_padding(&mut self, padding: Option<PaddingParams>) {
        self.padding = padding;
    }

    /// The number of special tokens around a text, or around the two of a pair.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "[CLS]": 1, "[SEP]": 2}, "unk_token": "[SEP]"},
    ///     "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}}"#;
    /// let full = FullTokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// assert_eq!([false, true].map(|is_pair| full.post_processing().special_tokens(is_pair)), [2, 3]);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn special_tokens(&self, is_pair: bool) -> usize {
        self.library.get_post_processor().map_or(0, |processor| processor.added_tokens(is_pair))
    }

    /// Truncates encodings and adds special tokens.
    fn apply(
        &self,
        first: Encoding,
        second: Option<Encoding>,
        add_special_tokens: bool,
    ) -> Result<Encoding, EngineError> {
        let refused = |reason: String| EngineError::refused(Released::NAME, reason);
        if let Some(reason) = &self.unreadable {
            return Err(refused(reason.clone()));
        }
        let special = if add_special_tokens { self.special_tokens(second.is_some()) } else { 0 };
        if let Some(truncation) = self.truncation().filter(|params| params.max_length > 0) {
            let (most, stride) = (truncation.max_length, truncation.stride);
            if most < special || (stride > 0 && most - special <= stride) {
                let special = counted(special as u64, "special token");
                let reason = format!("max_length {most} is too small for {special} and a stride of {stride}");
                return Err(refused(format!("truncation: {reason}")));
            }
        }
        let process = || {
            let (first, second) = match &self.truncation {
                // Like the library: without room for special tokens, a length of zero does not truncate.
                Some(params) if params.max_length >= special => {
                    let max_length = params.max_length - special;
                    truncate_encodings(first, second, &TruncationParams { max_length, ..params.clone() })?
                }
                _ => (first, second),
            };
            self.library.post_process(first, second, add_special_tokens)
        };
        caught(process).map_err(&refused)?.map_err(|error| refused(error.to_string()))
    }

    /// Truncates encodings of one or two texts that have no special tokens around them, adds those tokens, and pads.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let [first, second] = ["Hello", " world"].map(|text| full.encode(text.into(), false, full.post_processing()));
    /// let pair = full.post_processing().process(first?, Some(second?), true)?;
    /// assert_eq!((pair.get_ids(), pair.get_type_ids()), (&[15496, 995][..], &[0, 0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The encodings cannot be truncated, or there is no memory for the padding.
    pub fn process(
        &self,
        first: Encoding,
        second: Option<Encoding>,
        add_special_tokens: bool,
    ) -> Result<Encoding, EngineError> {
        self.padded(self.apply(first, second, add_special_tokens)?)
    }

    /// An encoding, padded as a batch of one.
    fn padded(&self, encoding: Encoding) -> Result<Encoding, EngineError> {
        let mut one = [encoding];
        if let Some(padding) = &self.padding {
            pad(&mut one, padding).map_err(|reason| EngineError::refused(Released::NAME, reason))?;
        }
        let [encoding] = one;
        Ok(encoding)
    }
}

impl FullTokenizer {
    /// A full tokenizer for a vocabulary of tiktoken: no special tokens, no truncation, no padding.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let pair = full.encode(("Hello", " world").into(), true, full.post_processing())?;
    /// assert_eq!((pair.get_ids(), pair.get_type_ids()), (&[15496, 995][..], &[0, 1][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// The tokenizer comes from a `tokenizer.json`; [`from_json`](Self::from_json) reads such files.
    pub fn new(tokenizer: Tokenizer) -> Self {
        assert!(tokenizer.is_of_ranks(), "{} is not a tiktoken vocabulary", tokenizer.name());
        let post_processing = PostProcessing::none();
        Self { tokenizer, post_processing, reference: None, ranks: None, around: Default::default() }
    }

    /// Loads the same tokenizers as [`Tokenizer::load`]: the vocabulary of this name, or the file at this path.
    /// [`LoadOptions::add_special_tokens`] is not used.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let full = FullTokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!((full.tokenizer().name(), full.file()), ("r50k_base", None));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Tokenizer::load`] and of [`from_bytes`](Self::from_bytes).
    pub fn load(name_or_path: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        match file_of(name_or_path)? {
            Some((name, file)) => Self::from_bytes(&file, &name, options),
            None => {
                Tokenizer::load(name_or_path, &LoadOptions { add_special_tokens: false, ..*options }).map(Self::new)
            }
        }
    }

    /// Reads the bytes of a `tokenizer.json` or of a published `.tiktoken` file. `name` is for messages;
    /// [`LoadOptions::add_special_tokens`] is not used.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let full = FullTokenizer::from_bytes(json, "words", &LoadOptions::default())?;
    /// assert_eq!(full.file(), Some(&json[..]));
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_bytes`] and of [`from_json`](Self::from_json).
    pub fn from_bytes(file: &[u8], name: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        let options = LoadOptions { add_special_tokens: false, ..*options };
        let tokenizer = Tokenizer::from_bytes(file, name, &options)?;
        if tokenizer.is_of_ranks() {
            return Ok(Self { ranks: Some(file.into()), ..Self::new(tokenizer) });
        }
        Self::over(tokenizer, file, name, options)
    }

    /// Reads a `tokenizer.json`. `name` is for messages; [`LoadOptions::add_special_tokens`] is not used.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "[CLS]": 1, "[SEP]": 2}, "unk_token": "[SEP]"},
    ///     "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}}"#;
    /// let full = FullTokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// let encoding = full.encode("one".into(), true, full.post_processing())?;
    /// assert_eq!(encoding.get_tokens(), ["[CLS]", "one", "[SEP]"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_json`], or its settings of post-processing, truncation or padding cannot be read.
    pub fn from_json(json: &[u8], name: &str, options: &LoadOptions) -> Result<Self, LoadError> {
        let options = LoadOptions { add_special_tokens: false, ..*options };
        Self::over(Tokenizer::from_json(json, name, &options)?, json, name, options)
    }

    /// A full tokenizer for the tokenizer of a `tokenizer.json`.
    fn over(tokenizer: Tokenizer, json: &[u8], name: &str, options: LoadOptions) -> Result<Self, LoadError> {
        let json = String::from_utf8_lossy(json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json));
        let post_processing =
            PostProcessing::of_file(&json).map_err(|reason| LoadError::Refused { name: name.to_owned(), reason })?;
        Ok(Self {
            tokenizer,
            post_processing,
            reference: Some(Reference::new(&json, &options, false)),
            ranks: None,
            around: Default::default(),
        })
    }

    /// The tokenizer, which adds no special tokens around texts.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// assert_eq!(full.tokenizer().decode(&[15496, 995], false)?, "Hello world");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The `tokenizer.json`; `None` for a vocabulary of tiktoken.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let json = r#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let options = LoadOptions::default();
    /// assert_eq!(FullTokenizer::from_json(json.as_bytes(), "example", &options)?.json(), Some(json));
    /// assert_eq!(FullTokenizer::new(Tokenizer::load("gpt2", &options)?).json(), None);
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn json(&self) -> Option<&str> {
        self.reference.as_ref().map(Reference::json)
    }

    /// The bytes of the file: a `tokenizer.json` or a rank file; `None` for a vocabulary of this crate.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let options = LoadOptions::default();
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let full = FullTokenizer::from_json(json, "words", &options)?;
    /// let again = FullTokenizer::from_bytes(full.file().expect("it has one"), "words", &options)?;
    /// assert_eq!(again.json(), full.json());
    /// # Ok::<(), windrow_tokenizers::tokenizer::LoadError>(())
    /// ```
    pub fn file(&self) -> Option<&[u8]> {
        self.json().map(str::as_bytes).or(self.ranks.as_deref())
    }

    /// The post-processing that the file has.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"},
    ///     "padding": {"strategy": {"Fixed": 4}, "direction": "Right", "pad_id": 1, "pad_type_id": 0, "pad_token": "?"}}"#;
    /// let full = FullTokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// let encoding = full.encode("one".into(), true, full.post_processing())?;
    /// assert_eq!(encoding.get_ids(), [0, 1, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn post_processing(&self) -> &PostProcessing {
        &self.post_processing
    }

    /// The encoding of a text, a pair of texts, or words. Offsets are in characters.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let encoding = full.encode("Hello, world".into(), true, full.post_processing())?;
    /// assert_eq!(encoding.get_tokens(), ["Hello", ",", "Ġworld"]);
    /// assert_eq!(encoding.get_offsets(), [(0, 5), (5, 6), (6, 12)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine cannot encode, or `post_processing` cannot truncate: see [`EngineError`].
    pub fn encode(
        &self,
        input: EncodeInput<'_>,
        add_special_tokens: bool,
        post_processing: &PostProcessing,
    ) -> Result<Encoding, EngineError> {
        let encoding = self.encode_unpadded(input, add_special_tokens, post_processing)?;
        post_processing.padded(encoding)
    }

    fn encode_unpadded(
        &self,
        input: EncodeInput<'_>,
        add_special_tokens: bool,
        post_processing: &PostProcessing,
    ) -> Result<Encoding, EngineError> {
        let (first, second) = match input {
            EncodeInput::Single(first) => (first, None),
            EncodeInput::Dual(first, second) => (first, Some(second)),
        };
        let first = self.sequence(first, 0)?;
        let second = second.map(|second| self.sequence(second, 1)).transpose()?;
        post_processing.apply(first, second, add_special_tokens)
    }

    /// [`encode`](Self::encode) of a single text whose ids are known, from [`tokenizer`](Self::tokenizer).
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let ids = full.tokenizer().encode_batch_ids(&["Hello world"])?.values;
    /// let encoding = full.encoding_of("Hello world", &ids, true, full.post_processing())?;
    /// assert_eq!(encoding, full.encode("Hello world".into(), true, full.post_processing())?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    ///
    /// # Panics
    /// `ids` are not the ids of `text`.
    pub fn encoding_of(
        &self,
        text: &str,
        ids: &[u32],
        add_special_tokens: bool,
        post_processing: &PostProcessing,
    ) -> Result<Encoding, EngineError> {
        match self.tokenizer.own_encoding(text, Some(ids), 0)? {
            Some(encoding) => post_processing.process(encoding, None, add_special_tokens),
            None => self.encode(text.into(), add_special_tokens, post_processing),
        }
    }

    /// The encoding that [`encode`](Self::encode) puts around the ids of a single text: one token with the id 0, neither truncated nor padded.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::LoadOptions;
    ///
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "[CLS]": 1, "[SEP]": 2}, "unk_token": "[SEP]"},
    ///     "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}}"#;
    /// let full = FullTokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// assert_eq!(full.around(true)?.get_ids(), [1, 0, 2]);
    /// assert_eq!(full.around(false)?.get_ids(), [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The post-processor fails.
    pub fn around(&self, add_special_tokens: bool) -> Result<Arc<Encoding>, EngineError> {
        let around = late(&self.around[usize::from(add_special_tokens)], || {
            let mut plain = self.post_processing.clone();
            plain.set_truncation(None).map_err(|reason| EngineError::refused(Released::NAME, reason))?;
            let text = encoding(vec![0], vec![String::new()], vec![Some(0)], vec![(0, 0)], 0);
            plain.apply(text, None, add_special_tokens).map(Arc::new)
        });
        around.cloned()
    }

    /// The encodings of a batch, computed by the threads of the current pool, as long as `goes_on` returns true, which each thread calls
    /// repeatedly. `None` if it returns false.
    ///
    /// ```
    /// use windrow_tokenizers::full::FullTokenizer;
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let full = FullTokenizer::new(Tokenizer::load("gpt2", &LoadOptions::default())?);
    /// let encode = |goes_on| {
    ///     let inputs = vec!["Hello world".into(), "Hello".into()];
    ///     full.encode_batch(inputs, true, full.post_processing(), &move || goes_on)
    /// };
    /// let encodings = encode(true)?.expect("it goes on to the end");
    /// assert_eq!(encodings[0].get_ids(), [15496, 995]);
    /// assert!(encode(false)?.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first input, in order, that has no encoding.
    pub fn encode_batch(
        &self,
        inputs: Vec<EncodeInput<'_>>,
        add_special_tokens: bool,
        post_processing: &PostProcessing,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Encoding>>, BatchError> {
        let encoded: Vec<_> = inputs
            .into_par_iter()
            .weigh(bytes_of)
            .map(|input| goes_on().then(|| self.encode_unpadded(input, add_special_tokens, post_processing)))
            .collect();
        if encoded.iter().any(Option::is_none) {
            // Freeing thousands of encodings takes longer than people wait after Ctrl-C. Without another thread, they are freed here.
            let _ = thread::Builder::new().name("windrow-free".to_owned()).spawn(move || drop(encoded));
            return Ok(None);
        }
        let mut encodings = Vec::with_capacity(encoded.len());
        for (document, encoding) in encoded.into_iter().flatten().enumerate() {
            encodings.push(encoding.map_err(|error| BatchError { document, error })?);
        }
        if let Some(padding) = post_processing.padding() {
            let refused = |reason| BatchError { document: 0, error: EngineError::refused(Released::NAME, reason) };
            pad(&mut encodings, padding).map_err(refused)?;
        }
        Ok(Some(encodings))
    }

    /// One sequence, before post-processing.
    fn sequence(&self, sequence: InputSequence<'_>, type_id: u32) -> Result<Encoding, EngineError> {
        if let InputSequence::Raw(text) = &sequence
            && let Some(encoding) = self.tokenizer.own_encoding(text, None, type_id)?
        {
            return Ok(encoding);
        }
        let found = self.reference()?.encode_sequence(sequence)?;
        if type_id == 0 {
            return Ok(found);
        }
        // The library takes it for the first sequence of a pair, and says so in a field that cannot be changed.
        let (words, offsets) = (found.get_word_ids().to_vec(), found.get_offsets().to_vec());
        Ok(encoding(found.get_ids().to_vec(), found.get_tokens().to_vec(), words, offsets, type_id))
    }

    fn reference(&self) -> Result<&Released, EngineError> {
        let missing = || "this vocabulary has no tokenizer.json (hint: load a tokenizer.json instead)".to_owned();
        let released = self.reference.as_ref().ok_or_else(missing).and_then(LateLibrary::get);
        released.map_err(|reason| EngineError::refused(Released::NAME, reason))
    }
}

/// Pads an encoding and its overflowing parts.
///
/// # Errors
/// There is no memory for the padding; the encoding is then unchanged.
///
/// ```
/// use windrow_tokenizers::full::pad_encoding;
/// use windrow_tokenizers::full::{Encoding, PaddingParams, PaddingStrategy};
///
/// let mut encoding = Encoding::default();
/// pad_encoding(&mut encoding, &PaddingParams { strategy: PaddingStrategy::Fixed(2), ..PaddingParams::default() })?;
/// assert_eq!(encoding.get_tokens(), ["[PAD]", "[PAD]"]);
/// # Ok::<(), String>(())
/// ```
pub fn pad_encoding(encoding: &mut Encoding, padding: &PaddingParams) -> Result<(), String> {
    pad(std::slice::from_mut(encoding), padding)
}

/// Makes Hugging Face's library work on the calling thread: its threads would be missing in a forked process.
pub fn keep_library_serial() {
    tokenizers_023::utils::parallelism::set_parallelism(false);
}

//! The released `tokenizers` 0.23: the engine of files that windrow's own does not encode, and of parts of texts that are new to it.
//!
//! The library is built with Oniguruma, like its Python wheel: `^`, `$`, `\w`, `\b` and POSIX brackets have the same meaning as there.
//! [`Regex`](super::regex::Regex) runs the regexes of a `tokenizer.json`. It finds the matches that the library finds, with bounded
//! work. Everything else is the library's code.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokenizers_023::normalizer::{NormalizedString, SplitDelimiterBehavior};
use tokenizers_023::normalizers::{Precompiled, Strip};
use tokenizers_023::pattern::Invert;
use tokenizers_023::{
    EncodeInput, Encoding, InputSequence, Model, ModelWrapper, Normalizer as _, NormalizerWrapper, OffsetReferential,
    OffsetType, PostProcessorWrapper, PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper, Token, TokenizerImpl,
};

use super::decoder::Decoder;
use super::node::{kind, members, regex_of, replacement};
use super::options::LoadOptions;
use super::regex::{self, Regex};
use super::{DecodeError, Encoded, Encoder, Engine, EngineError, caught, has_memory};

/// Memory that the library uses per byte of a text.
const BYTES_PER_BYTE: usize = 128;

type Tokenizer = TokenizerImpl<ModelWrapper, Normalizer, PreTokenizer, PostProcessorWrapper, Decoder>;

/// Bytes of text of an input.
pub(crate) fn bytes_of(input: &EncodeInput<'_>) -> usize {
    let of = |sequence: &InputSequence<'_>| match sequence {
        InputSequence::Raw(text) => text.len(),
        InputSequence::PreTokenized(words) => words.iter().map(|word| word.len()).sum(),
        InputSequence::PreTokenizedOwned(words) => words.iter().map(String::len).sum(),
        InputSequence::PreTokenizedCow(words) => words.iter().map(|word| word.len()).sum(),
    };
    match input {
        EncodeInput::Single(sequence) => of(sequence),
        EncodeInput::Dual(first, second) => of(first) + of(second),
    }
}

/// An encoding of one sequence.
pub(crate) fn encoding(
    ids: Vec<u32>,
    tokens: Vec<String>,
    words: Vec<Option<u32>>,
    offsets: Vec<(usize, usize)>,
    type_id: u32,
) -> Encoding {
    let all = |value: u32| vec![value; ids.len()];
    let (types, special, attention) = (all(type_id), all(0), all(1));
    Encoding::new(ids, types, tokens, words, offsets, special, attention, Vec::new(), Default::default())
}

/// The engine for the remaining files.
pub(crate) struct Released {
    tokenizer: Tokenizer,
    add_special_tokens: bool,
    /// The ids before and after every document.
    around: [Vec<u32>; 2],
    /// The normalizer of a part of a text that is not its beginning.
    later: Option<Normalizer>,
    /// The reason why the decoder cannot be read, if it cannot. Encoding needs no decoder.
    no_decoder: Option<String>,
}

impl Released {
    pub(crate) const NAME: &str = "tokenizers 0.23.2";

    /// Reads a `tokenizer.json` without its decoder, and the decoder. Truncation and padding must be null.
    pub(crate) fn from_json(json: &str, decoder: Option<&str>, options: &LoadOptions) -> Result<Self, String> {
        let mut tokenizer: Tokenizer =
            caught(|| serde_json::from_str(json))?.map_err(|error: serde_json::Error| error.to_string())?;
        tokenizer.set_encode_special_tokens(!options.special_in_text);
        let decoder = caught(|| decoder.map_or(Ok(None), serde_json::from_str::<Option<Decoder>>));
        let no_decoder = match decoder {
            Ok(Ok(decoder)) => {
                tokenizer.with_decoder(decoder);
                None
            }
            Ok(Err(error)) => Some(format!("decoder: {error}")),
            Err(panic) => Some(format!("decoder: {panic}")),
        };
        let around = caught(|| around(&tokenizer, options.add_special_tokens))?.map_err(|error| error.to_string())?;
        let later = tokenizer.get_normalizer().map(Normalizer::later);
        Ok(Self { tokenizer, add_special_tokens: options.add_special_tokens, around, later, no_decoder })
    }

    /// The ids before and after every document.
    pub(crate) fn around(&self) -> &[Vec<u32>; 2] {
        &self.around
    }

    /// The text of `ids`. Unknown ids are ignored.
    pub(crate) fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, DecodeError> {
        let refused = |reason: String| DecodeError::Refused { engine: Self::NAME.to_owned(), reason };
        if let Some(reason) = &self.no_decoder {
            return Err(refused(reason.clone()));
        }
        regex::begin(ids.len());
        let text = caught(|| self.tokenizer.decode(ids, skip_special_tokens));
        if let Some(reason) = regex::gave_up() {
            return Err(refused(reason.to_owned()));
        }
        text.map_err(refused)?.map_err(|error| refused(error.to_string()))
    }

    /// The ids of `text`, and the range of bytes of `text` for each id.
    pub(crate) fn encode_with_offsets(&self, text: &str) -> Result<Encoded, EngineError> {
        let encoding = self.guarded(text.len(), || self.tokenizer.encode(text, self.add_special_tokens))?;
        let offsets = encoding.get_offsets().iter().map(|&(start, end)| start..end).collect();
        Ok(Encoded { ids: encoding.get_ids().to_vec(), offsets })
    }

    /// The library's full encoding of a text or of words, with offsets in characters.
    pub(crate) fn encode_sequence(&self, sequence: InputSequence<'_>) -> Result<Encoding, EngineError> {
        let input = EncodeInput::Single(sequence);
        self.guarded(bytes_of(&input), || self.tokenizer.encode_char_offsets(input, false))
    }

    pub(crate) fn id_to_token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// Runs code of the library on `text` bytes of text, within limits.
    fn guarded<T>(&self, text: usize, run: impl FnOnce() -> tokenizers_023::Result<T>) -> Result<T, EngineError> {
        // Each byte has two alignments of 16 bytes and three copies, each token 100 bytes.
        let bytes = text.saturating_mul(BYTES_PER_BYTE);
        if !has_memory(bytes) {
            return Err(EngineError::no_memory(Self::NAME, text, bytes));
        }
        regex::begin(text);
        Self::outcome(caught(run))
    }

    fn outcome<T>(outcome: Result<tokenizers_023::Result<T>, String>) -> Result<T, EngineError> {
        if let Some(reason) = regex::gave_up() {
            return Err(EngineError::refused(Self::NAME, reason));
        }
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(EngineError::refused(Self::NAME, error)),
            Err(reason) => Err(EngineError::Panicked { engine: Self::NAME.to_owned(), reason }),
        }
    }

    /// Parses the parts around the model, to check that this library reads them as intended. An error is the name of the part and the reason.
    pub(crate) fn read_parts(parts: &Map<String, Value>) -> Result<(), (&'static str, String)> {
        fn read<T: DeserializeOwned>(
            parts: &Map<String, Value>,
            name: &'static str,
        ) -> Result<(), (&'static str, String)> {
            let Some(part) = parts.get(name) else { return Ok(()) };
            match caught(|| Option::<T>::deserialize(part)) {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err((name, error.to_string())),
                Err(panic) => Err((name, panic)),
            }
        }
        read::<Normalizer>(parts, "normalizer")?;
        read::<PreTokenizer>(parts, "pre_tokenizer")?;
        read::<PostProcessorWrapper>(parts, "post_processor")
    }

    /// The texts after the normalizer of `parts`, or the first text that it fails on, with the reason.
    pub(crate) fn normalized<'t>(
        parts: &Map<String, Value>,
        texts: impl Iterator<Item = &'t str>,
    ) -> Result<Vec<String>, (&'t str, String)> {
        let mut texts = texts.peekable();
        let (Some(first), Some(node)) = (texts.peek().copied(), parts.get("normalizer")) else {
            return Ok(texts.map(str::to_owned).collect());
        };
        let read = caught(|| Option::<Normalizer>::deserialize(node));
        let normalizer =
            read.and_then(|read| read.map_err(|error| error.to_string())).map_err(|error| (first, error))?;
        let normalize = |text: &str| {
            let mut normalized = NormalizedString::from(text);
            regex::begin(text.len());
            let outcome =
                caught(|| normalizer.as_ref().map_or(Ok(()), |normalizer| normalizer.normalize(&mut normalized)));
            match regex::gave_up() {
                Some(reason) => Err(reason.to_owned()),
                None => outcome?.map(|()| normalized.get().to_owned()).map_err(|error| error.to_string()),
            }
        };
        texts.map(|text| normalize(text).map_err(|reason| (text, reason))).collect()
    }
}

/// The ids that the post-processor puts around a text.
fn around(tokenizer: &Tokenizer, add_special_tokens: bool) -> tokenizers_023::Result<[Vec<u32>; 2]> {
    // No token has this id.
    const TEXT: u32 = u32::MAX;
    let text = Encoding::from_tokens(vec![Token::new(TEXT, String::new(), (0, 0))], 0);
    let ids = tokenizer.post_process(text, None, add_special_tokens)?.get_ids().to_vec();
    let mut parts = ids.split(|&id| id == TEXT).map(<[u32]>::to_vec);
    let parts = (parts.next(), parts.next(), parts.next());
    match parts {
        (Some(before), Some(after), None) => Ok([before, after]),
        _ => Err("the post-processor drops or repeats the text".into()),
    }
}

impl Engine for Released {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn working_bytes(&self) -> usize {
        BYTES_PER_BYTE
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(self)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.get_model().token_to_id(token)
    }
}

impl Encoder for &Released {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        let Released { tokenizer, around: [before, after], .. } = self;
        self.encode_around(text, regex::begin, tokenizer.get_normalizer(), [before, after], ids)
    }
}

impl Released {
    /// Appends the ids of a part of a text, without those around a document. `begins`: the text begins with it.
    pub(crate) fn encode_part(&self, part: &str, begins: bool, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        let normalizer = if begins { self.tokenizer.get_normalizer() } else { self.later.as_ref() };
        self.encode_around(part, regex::begin_part, normalizer, [&[], &[]], ids)
    }

    fn encode_around(
        &self,
        text: &str,
        begin: fn(usize),
        normalizer: Option<&Normalizer>,
        [before, after]: [&[u32]; 2],
        ids: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        let tokenizer = &self.tokenizer;
        let first = ids.len();
        let add = |ids: &mut Vec<u32>, more: &mut dyn ExactSizeIterator<Item = u32>| {
            let bytes = more.len().saturating_mul(size_of::<u32>());
            ids.try_reserve(more.len()).map_err(|_| EngineError::no_memory(Released::NAME, text.len(), bytes))?;
            ids.extend(more);
            Ok(())
        };
        // Like `encode_fast`, without an `Encoding`: only the ids of a piece are kept.
        let encoded = self.guarded(text.len(), || {
            begin(text.len());
            let mut pieces = tokenizer.get_added_vocabulary().extract_and_normalize(normalizer, text);
            if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            let mut outcome = add(ids, &mut before.iter().copied());
            for (piece, _, found) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
                let model = tokenizer.get_model();
                let tokens = found
                    .as_ref()
                    .map_or_else(|| model.tokenize(piece).map(Cow::Owned), |found| Ok(Cow::Borrowed(found)))?;
                outcome = outcome.and_then(|()| add(ids, &mut tokens.iter().map(|token| token.id)));
            }
            Ok(outcome.and_then(|()| add(ids, &mut after.iter().copied())))
        });
        let outcome = encoded.flatten();
        if outcome.is_err() {
            ids.truncate(first);
        }
        outcome
    }
}

/// The library's pre-tokenizer, except for the regexes.
#[derive(Debug)]
enum PreTokenizer {
    Sequence(Vec<PreTokenizer>),
    Split { regex: Regex, behavior: SplitDelimiterBehavior, invert: bool },
    Other(Box<PreTokenizerWrapper>),
}

impl tokenizers_023::PreTokenizer for PreTokenizer {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers_023::Result<()> {
        match self {
            Self::Sequence(members) => members.iter().try_for_each(|member| member.pre_tokenize(text)),
            Self::Split { regex, behavior, invert: false } => text.split(|_, piece| piece.split(regex, *behavior)),
            Self::Split { regex, behavior, invert: true } => {
                text.split(|_, piece| piece.split(Invert(regex), *behavior))
            }
            Self::Other(other) => other.pre_tokenize(text),
        }
    }
}

impl<'de> Deserialize<'de> for PreTokenizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Split {
            behavior: SplitDelimiterBehavior,
            invert: bool,
        }

        let node = Value::deserialize(deserializer)?;
        match (kind(&node), regex_of(&node)) {
            ("Sequence", _) => Ok(Self::Sequence(members(&node, "pretokenizers")?)),
            ("Split", Some(pattern)) => {
                let regex = Regex::new(pattern).map_err(de::Error::custom)?;
                let Split { behavior, invert } = Split::deserialize(&node).map_err(de::Error::custom)?;
                Ok(Self::Split { regex, behavior, invert })
            }
            _ => serde_json::from_value(node).map(Self::Other).map_err(de::Error::custom),
        }
    }
}

/// The library's normalizer, except for the regexes.
#[derive(Clone, Debug)]
enum Normalizer {
    Sequence(Vec<Normalizer>),
    Replace {
        regex: Arc<Regex>,
        content: String,
    },
    /// The first normalizer for the first text, and the second for texts after an added token.
    FirstAndLater(Box<[Normalizer; 2]>),
    Other(Box<NormalizerWrapper>),
}

impl Normalizer {
    /// The normalizer of a part of a text that is not its beginning: neither is something put before the part, nor is white space stripped there.
    fn later(&self) -> Self {
        let first_as = |first: Self| Self::FirstAndLater(Box::new([first, self.clone()]));
        match self {
            Self::Sequence(members) => Self::Sequence(members.iter().map(Self::later).collect()),
            Self::Other(other) => match **other {
                NormalizerWrapper::Prepend(_) => first_as(Self::Sequence(Vec::new())),
                NormalizerWrapper::StripNormalizer(Strip { strip_left: true, strip_right, .. }) => {
                    first_as(Self::Other(Box::new(Strip::new(false, strip_right).into())))
                }
                _ => self.clone(),
            },
            Self::Replace { .. } | Self::FirstAndLater(_) => self.clone(),
        }
    }
}

impl tokenizers_023::Normalizer for Normalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers_023::Result<()> {
        match self {
            Self::Sequence(members) => members.iter().try_for_each(|member| member.normalize(text)),
            Self::Replace { regex, content } => text.replace(&**regex, content),
            Self::FirstAndLater(both) => both[usize::from(text.offsets_original().0 > 0)].normalize(text),
            Self::Other(other) => other.normalize(text),
        }
    }
}

impl<'de> Deserialize<'de> for Normalizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Value::deserialize(deserializer)?;
        match (kind(&node), regex_of(&node)) {
            ("Sequence", _) => Ok(Self::Sequence(members(&node, "normalizers")?)),
            ("Replace", Some(pattern)) => {
                replacement(&node, pattern).map(|(regex, content)| Self::Replace { regex: Arc::new(regex), content })
            }
            // Within the wrapper, the library would panic on a damaged one.
            ("Precompiled", _) => {
                let text = node.to_string();
                let precompiled: Precompiled = serde_json::from_str(&text).map_err(de::Error::custom)?;
                Ok(Self::Other(Box::new(precompiled.into())))
            }
            _ => serde_json::from_value(node).map(Self::Other).map_err(de::Error::custom),
        }
    }
}

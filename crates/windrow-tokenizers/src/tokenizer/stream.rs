//! The text of ids that arrive one after the other, and the number of ids of a text up to a limit.

use super::Tokenizer;
use crate::engine::{DecodeError, EngineError};

/// The text of bytes that are not UTF-8: a character may take several tokens.
const MISSING: char = '\u{fffd}';

/// Decodes ids as they arrive, and gives text when it is complete.
///
/// Ids are decoded together with earlier ones, because a decoder may treat the first token of a text differently from the others. Two calls
/// back are enough; text generation servers do the same.
///
/// ```
/// use windrow_tokenizers::tokenizer::{DecodeStream, LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let mut stream = DecodeStream::default();
/// let parts: Vec<_> = [15496, 8582, 248, 222].map(|id| stream.push(&tokenizer, &[id])).into_iter().collect::<Result<_, _>>()?;
/// assert_eq!(parts, ["Hello", "", "", "🚀"].map(|text| (!text.is_empty()).then(|| text.to_owned())));
/// assert_eq!(stream.finish(&tokenizer)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DecodeStream {
    /// True if the text excludes special tokens.
    pub skip_special_tokens: bool,
    /// The ids after the text that was returned before `known`, and the number of them that make up `known`.
    ids: Vec<u32>,
    known: String,
    known_ids: usize,
}

impl DecodeStream {
    /// A stream that continues after these ids, whose text is known.
    pub fn after(ids: Vec<u32>, skip_special_tokens: bool) -> Self {
        Self { skip_special_tokens, ids, ..Self::default() }
    }

    /// The text that is complete with these ids; `None` if no more text is complete yet.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::decode`], or the text with the ids does not begin with the earlier text. The stream is then unchanged.
    pub fn push(&mut self, tokenizer: &Tokenizer, new: &[u32]) -> Result<Option<String>, DecodeError> {
        let decode = |ids: &[u32]| tokenizer.decode(ids, self.skip_special_tokens);
        if self.known.is_empty() && !self.ids.is_empty() {
            let text = decode(&self.ids)?;
            if !text.ends_with(MISSING) {
                (self.known, self.known_ids) = (text, self.ids.len());
            }
        }
        let all = [&self.ids, new].concat();
        let text = decode(&all)?;
        if text.len() <= self.known.len() || text.ends_with(MISSING) {
            self.ids = all;
            return Ok(None);
        }
        let more = self.after_known(&text)?;
        let kept = all[self.known_ids..].to_vec();
        let known = decode(&kept)?;
        (self.known_ids, self.ids, self.known) = (kept.len(), kept, known);
        Ok(Some(more))
    }

    /// The text of the ids at the end that make no complete character. The stream is then empty.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Result<Option<String>, DecodeError> {
        let text = tokenizer.decode(&self.ids, self.skip_special_tokens)?;
        let more = self.after_known(&text)?;
        *self = Self::after(Vec::new(), self.skip_special_tokens);
        Ok(Some(more).filter(|more| !more.is_empty()))
    }

    fn after_known(&self, text: &str) -> Result<String, DecodeError> {
        let more = text.strip_prefix(&self.known).map(str::to_owned);
        more.ok_or_else(|| DecodeError::NotFurther { text: text.to_owned(), known: self.known.clone() })
    }
}

/// Minimum bytes of a part of a text: a shorter one is not worth a call.
const PART: usize = 4 << 10;

/// Bytes of a part for each id of the limit. English text has about as many.
const BYTES_OF_ID: usize = 4;

impl Tokenizer {
    /// The number of ids of a text; `None` as soon as it is known to exceed `limit`. If windrow's own engine encodes, with no tokens around a
    /// text, the rest of the text is not read.
    ///
    /// ```
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
    /// assert_eq!(tokenizer.count_up_to("Hello world", 2)?, Some(2));
    /// assert_eq!(tokenizer.count_up_to(&"Hello world".repeat(1_000_000), 100)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The engine cannot encode the part that was read.
    pub fn count_up_to(&self, text: &str, limit: usize) -> Result<Option<usize>, EngineError> {
        let engine = self.engine();
        let mut encoder = engine.encoder();
        let (mut rest, mut count, mut ids) = (text, 0, Vec::new());
        let mut most = limit.saturating_mul(BYTES_OF_ID).max(PART);
        loop {
            let end = (0..=most.min(rest.len())).rev().find(|&at| rest.is_char_boundary(at));
            let part = &rest[..end.unwrap_or(0)];
            let is_all = part.len() == rest.len() || !engine.cuts_documents();
            let cut =
                if is_all { Some(rest.len()) } else { engine.last_cut(part.as_bytes(), 0).filter(|cut| *cut > 0) };
            let Some(cut) = cut else {
                // One long piece.
                most = most.saturating_mul(2);
                continue;
            };
            let (part, after) = rest.split_at(cut);
            ids.clear();
            encoder.encode(part, &mut ids)?;
            count += ids.len();
            if count > limit {
                return Ok(None);
            }
            rest = after;
            if rest.is_empty() {
                return Ok(Some(count));
            }
        }
    }
}

//! The `tokenizers` 1.0 release candidate.
//!
//! [`PipelineTokenizer`] has an encoding loop with a pool of scratch memory that all threads share. This engine runs the same stages
//! with scratch that belongs to the encoder. So texts lock nothing, and no stale scratch comes back after a panic.

use std::borrow::Cow;
use std::mem;
use std::sync::Mutex;

use memchr::memmem;
use tk_encode::pipeline::{
    Model, PipelineModel, PipelineModelScratch, PipelinePreTokenizer, PipelineToken, PipelineTokenizer, PreTokenizer,
    PreTokenizerScratch, Segment, Span, SpecialSegmentIterator, normalize_all,
};

use super::options::LoadOptions;
use super::ranks::{Ranks, RanksScratch};
use super::unicode::{self, Differences};
use super::{DecodeError, Encoder, Engine, EngineError, byte_level, caught, has_memory};

const NAME: &str = "tokenizers 1.0.0-rc.3";

/// Scratch grows to several bytes per byte of the longest text; it is freed after a text with more bytes than this.
const KEEP_SCRATCH: usize = 16 << 20;

/// Scratch of models that is kept for later encoders: with its table of words, of two megabytes, it takes longer to make than a short text
/// takes to encode. What a text with more bytes than `LONG` has left is not kept.
const KEPT_MODELS: usize = 16;
const LONG: usize = 64 << 10;

/// The character with which the words of sentencepiece begin.
pub(crate) const WORD: &str = "▁";

/// Bytes of a piece before it is cut at a word.
const CUT_AFTER: usize = 16 << 10;

/// Number of pieces whose tokens get space at once.
const PIECES: usize = 1 << 16;

/// Number of tokens that a model may reserve beyond its tokens.
const MORE_TOKENS: usize = 64;

/// Memory per byte of a text: for the normalized text as it grows, to split it, and to merge a single long piece.
const BYTES_TO_NORMALIZE: usize = 4;
const BYTES_TO_SPLIT: usize = 1 + size_of::<Span>() + 1;
const BYTES_TO_MERGE: usize = 64;

/// Memory per byte of a long text of words, and of one that is a single piece. `docs/encode.md` states it, and `engine_memory.rs` of windrow-cli
/// measures it.
const BYTES_OF_WORDS: usize = 20;
const BYTES_OF_PIECE: usize = 44;

/// The engine that encodes almost all files.
pub(crate) struct Pipeline {
    tokenizer: PipelineTokenizer,
    add_special_tokens: bool,
    special_in_text: bool,
    vocab_size: u32,
    differences: Differences,
    /// True if a text may be cut before each [`WORD`] after another character.
    cuts_words: bool,
    /// Encodes instead of the tokenizer's model.
    pub(crate) ranks: Option<Ranks>,
    kept: Mutex<Vec<PipelineModelScratch>>,
}

impl Pipeline {
    /// `vocab_size` is an upper bound for the ids of the model.
    pub(crate) fn new(tokenizer: PipelineTokenizer, options: &LoadOptions, vocab_size: u32) -> Self {
        let LoadOptions { add_special_tokens, special_in_text, .. } = *options;
        let differences = Differences::new(tokenizer.get_normalizers(), tokenizer.get_pre_tokenizer());
        let (cuts_words, ranks, kept) = (false, None, Mutex::default());
        Self { tokenizer, add_special_tokens, special_in_text, vocab_size, differences, cuts_words, ranks, kept }
    }

    /// The same engine for a BPE model. `cuts_words`: no merge joins a word to the one before. Then a long text takes less memory.
    pub(crate) fn cutting_words(self, cuts_words: bool) -> Self {
        Self { cuts_words: cuts_words && self.is_whole(), ..self }
    }

    /// True if a text is one piece.
    fn is_whole(&self) -> bool {
        matches!(self.tokenizer.get_pre_tokenizer(), PipelinePreTokenizer::None)
    }

    /// The text of `ids`, for a byte-level vocabulary. Unknown ids are ignored.
    pub(crate) fn decode_bytes(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, DecodeError> {
        let refused = |reason| DecodeError::Refused { engine: NAME.to_owned(), reason };
        if !matches!(self.tokenizer.get_model(), PipelineModel::BPE(model) if model.is_byte_level()) {
            let reason = "the file is in the form of version 2.0 and not byte-level (hint: use version 1.0)";
            return Err(refused(reason.to_owned()));
        }
        let text = caught(|| self.tokenizer.decode(ids, skip_special_tokens));
        text.map_err(refused)?.map_err(|error| refused(error.to_string()))
    }

    /// True if a token has this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        !self.tokenizer.decode_tokens(&[id], false).is_empty()
    }

    fn run(&self, text: &str, scratch: &mut Scratch) -> Result<(), EngineError> {
        let template = &self.tokenizer.get_post_processor().single;
        if self.add_special_tokens {
            scratch.tokens.extend(template.prefix.iter().map(|&(token, _)| token));
        }
        let added = self.tokenizer.get_added_vocabulary();
        let as_text = !self.special_in_text;
        let differs = self.differences.any_in(text);
        let normalizers = self.tokenizer.get_normalizers();
        for segment in SpecialSegmentIterator::new(text, added, false, as_text) {
            let (text, offset) = match segment {
                Segment::SpecialToken(id) => {
                    scratch.tokens.push(id.into());
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            if !normalizers.is_empty() {
                ask_for(text.len(), BYTES_TO_NORMALIZE)?;
            }
            let normalized = if differs {
                unicode::normalize(normalizers, text, offset)
            } else {
                normalize_all(normalizers, text, offset)
            };
            let normalized = normalized.map_err(refused)?;
            // A normalizer may also introduce such characters.
            let differs = differs || (matches!(normalized, Cow::Owned(_)) && self.differences.any_in(&normalized));
            for segment in SpecialSegmentIterator::new(&normalized, added, true, as_text) {
                match segment {
                    Segment::SpecialToken(id) => scratch.tokens.push(id.into()),
                    Segment::Text { text, .. } => self.run_model(text, differs, scratch)?,
                }
            }
        }
        if self.add_special_tokens {
            scratch.tokens.extend(template.suffix.iter().map(|&(token, _)| token));
        }
        Ok(())
    }

    fn run_model(&self, text: &str, differs: bool, scratch: &mut Scratch) -> Result<(), EngineError> {
        if u32::try_from(text.len()).is_err() {
            let reason = format!("{} bytes after normalization are more than the engine can address", text.len());
            return Err(refused(reason));
        }
        let Scratch { model, ranks, split, pieces, tokens } = scratch;
        pieces.clear();
        // The program of a regex needs a tag per byte, and reserves space for as many pieces as the text has bytes.
        ask_for(text.len(), BYTES_TO_SPLIT)?;
        let pre_tokenizer = self.tokenizer.get_pre_tokenizer();
        if self.cuts_words {
            words(text, pieces);
        } else if differs {
            unicode::pre_tokenize(pre_tokenizer, text, split, pieces).map_err(refused)?;
        } else {
            pre_tokenizer.pre_tokenize(text, split, pieces).map_err(refused)?;
        }
        for pieces in pieces.chunks(PIECES) {
            let lengths = pieces.iter().map(|piece| piece.range().len());
            let (bytes, longest) = lengths.fold((0, 0), |(sum, longest), len| (sum + len, len.max(longest)));
            // A piece gives no more tokens than it has bytes.
            reserve(tokens, bytes + pieces.len() + MORE_TOKENS, text)?;
            ask_for(longest, BYTES_TO_MERGE)?;
            match &self.ranks {
                None => self.tokenizer.get_model().tokenize_spans(text, pieces, model, tokens).map_err(refused)?,
                Some(table) => table.tokenize(text, pieces, ranks, tokens),
            }
        }
        Ok(())
    }
}

/// Cuts a text before words, at intervals.
fn words(text: &str, pieces: &mut Vec<Span>) {
    let mut start = 0;
    for at in memmem::find_iter(text.as_bytes(), WORD) {
        if at - start >= CUT_AFTER && !text[..at].ends_with(WORD) {
            pieces.push(Span::new(start as u32, at as u32));
            start = at;
        }
    }
    if start < text.len() {
        pieces.push(Span::new(start as u32, text.len() as u32));
    }
}

fn refused(reason: impl ToString) -> EngineError {
    EngineError::refused(NAME, reason)
}

/// Fails if the system cannot provide `bytes_each` bytes of memory for each byte of the text.
fn ask_for(text: usize, bytes_each: usize) -> Result<(), EngineError> {
    let bytes = text.saturating_mul(bytes_each);
    if !has_memory(bytes) {
        return Err(EngineError::no_memory(NAME, text, bytes));
    }
    Ok(())
}

fn reserve<T>(items: &mut Vec<T>, more: usize, text: &str) -> Result<(), EngineError> {
    items.try_reserve(more).map_err(|_| EngineError::no_memory(NAME, text.len(), more.saturating_mul(size_of::<T>())))
}

impl Engine for Pipeline {
    fn name(&self) -> &str {
        NAME
    }

    fn working_bytes(&self) -> usize {
        if self.cuts_words || !self.is_whole() { BYTES_OF_WORDS } else { BYTES_OF_PIECE }
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        // Not `lock`: in a forked process, a thread that is not there may have it.
        let kept = self.kept.try_lock().ok().and_then(|mut kept| kept.pop());
        let model = kept.unwrap_or_else(|| self.tokenizer.get_model().init_scratch());
        Box::new(PipelineEncoder { engine: self, scratch: Scratch { model, ..Scratch::default() }, longest: 0 })
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        if let Some(ranks) = &self.ranks {
            return ranks.rank(&byte_level(token)?);
        }
        // Only two of the four models can look up a single token.
        match self.tokenizer.get_model() {
            PipelineModel::Unigram(model) => model.token_to_id(token),
            PipelineModel::WordLevel(model) => model.token_to_id(token),
            model => (0..self.vocab_size).find(|&id| model.id_to_token(id).is_some_and(|other| other == token)),
        }
    }
}

struct PipelineEncoder<'a> {
    engine: &'a Pipeline,
    scratch: Scratch,
    /// Bytes of the longest text.
    longest: usize,
}

#[derive(Default)]
struct Scratch {
    model: PipelineModelScratch,
    ranks: RanksScratch,
    split: PreTokenizerScratch,
    pieces: Vec<Span>,
    tokens: Vec<PipelineToken>,
}

impl Drop for PipelineEncoder<'_> {
    fn drop(&mut self) {
        if self.longest <= LONG
            && let Ok(mut kept) = self.engine.kept.try_lock()
            && kept.len() < KEPT_MODELS
        {
            kept.push(mem::take(&mut self.scratch.model));
        }
    }
}

impl Encoder for PipelineEncoder<'_> {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        self.scratch.tokens.clear();
        self.longest = self.longest.max(text.len());
        let result = match caught(|| self.engine.run(text, &mut self.scratch)) {
            Ok(Ok(())) => reserve(ids, self.scratch.tokens.len(), text)
                .map(|()| ids.extend_from_slice(PipelineToken::cast_slice(&self.scratch.tokens))),
            Ok(Err(error)) => Err(error),
            Err(reason) => {
                let model = self.engine.tokenizer.get_model().init_scratch();
                self.scratch = Scratch { model, ..Scratch::default() };
                Err(EngineError::Panicked { engine: NAME.to_owned(), reason })
            }
        };
        if text.len() > KEEP_SCRATCH {
            self.scratch.split = PreTokenizerScratch::default();
            self.scratch.pieces = Vec::new();
            self.scratch.tokens = Vec::new();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_of_ended_encoders_is_used_again() {
        let mut file = serde_json::json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": {
                "type": "WordPiece", "vocab": {"a": 0, "##b": 1, "?": 2}, "unk_token": "?",
                "continuing_subword_prefix": "##", "max_input_chars_per_word": 100
            }
        });
        tk_convert::canonicalize_value(&mut file).unwrap();
        let tokenizer = tokenizers::from_json(&file.to_string()).unwrap();
        let engine = Pipeline::new(tokenizer, &LoadOptions::default(), 3);
        let kept = || engine.kept.lock().unwrap().len();
        for _ in 0..2 {
            let mut ids = Vec::new();
            engine.encoder().encode("ab", &mut ids).unwrap();
            assert_eq!((ids, kept()), (vec![0, 1], 1));
        }
        let encoders: Vec<_> = (0..=KEPT_MODELS).map(|_| engine.encoder()).collect();
        assert_eq!(kept(), 0);
        drop(encoders);
        assert_eq!(kept(), KEPT_MODELS);
        engine.encoder().encode(&" ".repeat(LONG + 1), &mut Vec::new()).unwrap();
        assert_eq!(kept(), KEPT_MODELS - 1);
        // In a forked process, the lock may stay taken.
        let taken = engine.kept.lock();
        engine.encoder().encode("ab", &mut Vec::new()).unwrap();
        drop(taken);
    }
}

//! Added tokens: texts that are a token wherever they stand, so that text is split around them first.
//!
//! [`Added`] finds them while text is scanned, which costs almost nothing. It knows plain tokens with at most two different first bytes, as those
//! of most vocabularies. [`Splitter`](crate::split::Splitter) finds all kinds, before the text is scanned.

use std::sync::atomic::{AtomicBool, Ordering};

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};

/// A text that is a token wherever it stands, such as `<|endoftext|>`. The flags have the meaning that Hugging Face gives them.
///
/// ```
/// use windrow_bpe::{AddedToken, Definition, BpeEngine, EngineOptions, Grammar};
///
/// let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
/// let added = vec![AddedToken::new("<|end|>", Some(256))];
/// let definition = Definition { grammar: Grammar::Gpt2, tokens, merges: vec![], ignore_merges: false, added, nfc: false };
/// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
/// assert_eq!(engine.encode_batch(&["a<|end|>b"])?.values, [97, 256, 98]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedToken {
    /// The text; not empty.
    pub content: String,
    /// Its id, or `None` if it is found and then treated as text, as Hugging Face does with special tokens that are switched off.
    pub id: Option<u32>,
    /// Whether it is no token where a letter, mark, digit or underscore stands beside it.
    pub single_word: bool,
    /// Whether it includes the white space before it.
    pub lstrip: bool,
    /// Whether it includes the white space behind it.
    pub rstrip: bool,
    /// Whether it is normalized, and searched in normalized text, between the tokens that are not.
    pub normalized: bool,
}

impl AddedToken {
    /// A token without flags.
    pub fn new(content: impl Into<String>, id: Option<u32>) -> Self {
        Self { content: content.into(), id, ..Self::default() }
    }

    /// Whether its flags change what it matches.
    pub(crate) fn is_flagged(&self) -> bool {
        self.single_word || self.lstrip || self.rstrip
    }
}

/// An added token that stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddedMatch {
    pub(crate) len: usize,
    pub(crate) id: Option<u32>,
}

/// True if a text has named an added token that counts as text.
#[derive(Debug, Default)]
pub(crate) struct Named(AtomicBool);

impl Named {
    #[cold]
    pub(crate) fn set(&self) {
        // Relaxed: the flag orders nothing; callers read it when they have the ids.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if it was set since the last call.
    pub(crate) fn take(&self) -> bool {
        // Relaxed: as in `set`.
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Finds added tokens: the first in the text, and the longest where several begin at one place.
pub(crate) struct Added {
    searcher: Option<AhoCorasick>,
    ids: Vec<Option<u32>>,
    first_bytes: [u8; 2],
    longest: usize,
    named: Named,
}

impl Added {
    /// An error says why these tokens cannot be found.
    pub(crate) fn new(tokens: &[AddedToken]) -> Result<Self, String> {
        if tokens.is_empty() {
            // No text has a byte 0xff.
            return Ok(Self {
                searcher: None,
                ids: Vec::new(),
                first_bytes: [0xff; 2],
                longest: 0,
                named: Named::default(),
            });
        }
        let mut first: Vec<u8> = tokens.iter().map(|token| token.content.as_bytes()[0]).collect();
        first.sort_unstable();
        first.dedup();
        let first_bytes = match *first.as_slice() {
            [one] => [one; 2],
            [one, other] => [one, other],
            _ => return Err(format!("the added tokens begin with {} different bytes", first.len())),
        };
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .start_kind(StartKind::Both)
            .build(tokens.iter().map(|token| &token.content))
            .map_err(|error| format!("the added tokens cannot be searched: {error}"))?;
        let ids = tokens.iter().map(|token| token.id).collect();
        let longest = tokens.iter().map(|token| token.content.len()).max().unwrap_or(0);
        Ok(Self { searcher: Some(searcher), ids, first_bytes, longest, named: Named::default() })
    }

    /// The bytes with which they begin.
    #[inline(always)]
    pub(crate) fn first_bytes(&self) -> [u8; 2] {
        self.first_bytes
    }

    /// The added token that begins at `at`.
    pub(crate) fn at(&self, text: &[u8], at: usize) -> Option<AddedMatch> {
        if !self.first_bytes.contains(&text[at]) {
            return None;
        }
        self.search(text, at, Anchored::Yes).map(|(_, found)| found)
    }

    /// The first added token from `from` on, and its place.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<(usize, AddedMatch)> {
        self.search(text, from, Anchored::No)
    }

    /// True if a scanned text has named one that counts as text.
    pub(crate) fn named(&self) -> &Named {
        &self.named
    }

    /// The length of the longest in bytes.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Whether one of them may stand across `at`.
    pub(crate) fn may_span(&self, text: &[u8], at: usize) -> bool {
        (at.saturating_sub(self.longest)..at)
            .any(|begin| self.at(text, begin).is_some_and(|found| begin + found.len > at))
    }

    fn search(&self, text: &[u8], from: usize, anchored: Anchored) -> Option<(usize, AddedMatch)> {
        let found = self.searcher.as_ref()?.find(Input::new(text).range(from..).anchored(anchored))?;
        let id = self.ids[found.pattern().as_usize()];
        Some((found.start(), AddedMatch { len: found.len(), id }))
    }
}

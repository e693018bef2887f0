//! Which bytes of a text each id stands for.
//!
//! Encoding finds no places: the lengths of the tokens give them afterwards. Where text is normalized, the places are those of the characters
//! that a normalized character was made of, as the reference aligns them.

use std::borrow::Cow;
use std::ops::Range;

use super::BpeEngine;
use crate::added::AddedMatch;
use crate::fault::TextError;
use crate::nfc;

impl BpeEngine {
    /// The ids of `text`, and the bytes of `text` that each stands for, by the threads of the current pool.
    ///
    /// The places are those of Hugging Face's `tokenizers` 0.23. They are whole characters: the tokens of a character that takes several of
    /// them all have its place. If form C makes one character of several, its place is that of the first; if it inserts one, that of the character
    /// before.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"ab".to_vec(), 256)]).collect();
    /// # let merges = vec![(u32::from(b'a'), u32::from(b'b'))];
    /// # let definition =
    /// #     Definition { grammar: Grammar::Gpt2, tokens, merges, ignore_merges: false, added: Vec::new(), nfc: false };
    /// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let (ids, places) = engine.encode_with_offsets("abé")?;
    /// assert_eq!(ids, [256, 0xc3, 0xa9]);
    /// assert_eq!(places, [0..2, 2..4, 2..4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for the text.
    ///
    /// # Panics
    /// The engine has no offsets: see [`has_offsets`](Self::has_offsets).
    pub fn encode_with_offsets(&self, text: &str) -> Result<(Vec<u32>, Vec<Range<usize>>), TextError> {
        let ids = self.encode_batch(&[text])?.values;
        let places = self.places(text, &ids);
        Ok((ids, places))
    }

    /// The number of the piece that each of `ids` is a part of, from 0: what Hugging Face calls the word of a token. Added tokens are pieces
    /// too.
    ///
    /// ```
    /// # use windrow_bpe::{Definition, BpeEngine, EngineOptions, Grammar};
    /// # let tokens = (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"ab".to_vec(), 256)]).collect();
    /// # let merges = vec![(u32::from(b'a'), u32::from(b'b'))];
    /// # let definition =
    /// #     Definition { grammar: Grammar::Gpt2, tokens, merges, ignore_merges: false, added: Vec::new(), nfc: false };
    /// let engine = BpeEngine::new(&definition, &EngineOptions::default())?;
    /// let ids = engine.encode_batch(&["abc d"])?.values;
    /// assert_eq!(engine.words("abc d", &ids), [0, 0, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// `ids` are not those of `text`, or the engine has no offsets: see [`has_offsets`](Self::has_offsets).
    pub fn words(&self, text: &str, ids: &[u32]) -> Vec<u32> {
        assert!(self.has_offsets(), "added tokens take more than their text");
        let grammar = self.grammar().expect("only grammars give offsets");
        let mut words = Vec::with_capacity(ids.len());
        let (mut begin, mut word) = (0, 0);
        loop {
            let found = self.added_token(text.as_bytes(), begin);
            let part = &text[begin..found.as_ref().map_or(text.len(), |(at, _)| at.start)];
            let is_changed = self.nfc && nfc::may_change(part.as_bytes());
            let part = if is_changed { Cow::from(nfc::normalized(part)) } else { Cow::from(part) };
            let (mut piece_end, mut end) = (0, 0);
            while piece_end < part.len() {
                piece_end = grammar.piece_end(part.as_bytes(), piece_end);
                while end < piece_end {
                    end += self.token(ids[words.len()]).len();
                    words.push(word);
                }
                word += 1;
            }
            let Some((at, _)) = found else { return words };
            words.push(word);
            word += 1;
            begin = at.end;
        }
    }

    /// Whether it is known which bytes each id stands for: not if added tokens take white space, or are found in normalized text.
    pub fn has_offsets(&self) -> bool {
        self.grammar().is_some() && !self.splitter.goes_first()
    }

    /// The first added token with an id from `from` on.
    fn added_token(&self, text: &[u8], mut from: usize) -> Option<(Range<usize>, u32)> {
        loop {
            let (at, AddedMatch { len, id }) = self.added.find(text, from)?;
            from = at + len;
            if let Some(id) = id {
                return Some((at..from, id));
            }
        }
    }

    /// The bytes of `text` that each of its `ids` stands for: see [`encode_with_offsets`](Self::encode_with_offsets).
    ///
    /// # Panics
    /// `ids` are not those of `text`, or the engine has no offsets: see [`has_offsets`](Self::has_offsets).
    pub fn places(&self, text: &str, ids: &[u32]) -> Vec<Range<usize>> {
        assert!(self.has_offsets(), "added tokens take more than their text");
        let mut places = Vec::with_capacity(ids.len());
        let mut begin = 0;
        loop {
            let found = self.added_token(text.as_bytes(), begin);
            let end = found.as_ref().map_or(text.len(), |(at, _)| at.start);
            self.places_between(text, begin..end, ids, &mut places);
            let Some((at, _)) = found else { return places };
            begin = at.end;
            places.push(at);
        }
    }

    /// The places of the ids of a part of the text that has no added token.
    fn places_between(&self, text: &str, part: Range<usize>, ids: &[u32], places: &mut Vec<Range<usize>>) {
        let is_changed = self.nfc && nfc::may_change(&text.as_bytes()[part.clone()]);
        let aligned = is_changed.then(|| aligned(&text[part.clone()]));
        let len = aligned.as_ref().map_or(part.len(), Vec::len);
        let mut at = 0;
        while at < len {
            let end = at + self.token(ids[places.len()]).len();
            places.push(match &aligned {
                Some(aligned) => part.start + aligned[at].start..part.start + aligned[end - 1].end,
                None => whole_characters(text, part.start + at..part.start + end),
            });
            at = end;
        }
    }
}

/// For each byte of the text in form C, the character of `text` that it was made of.
fn aligned(text: &str) -> Vec<Range<usize>> {
    let mut aligned: Vec<Range<usize>> = Vec::with_capacity(text.len());
    let mut characters = text.char_indices().map(|(at, character)| at..at + character.len_utf8());
    // The last character that was replaced or has vanished.
    let mut last = 0..0;
    for (character, change) in nfc::normalized_with_changes(text) {
        let mut from = last.clone();
        if change <= 0 {
            from = characters.next().expect("a character of the text becomes this one");
            last = characters.by_ref().take(change.unsigned_abs()).last().unwrap_or_else(|| from.clone());
        }
        aligned.extend(std::iter::repeat_n(from, character.len_utf8()));
    }
    aligned
}

/// The characters that `range` touches.
fn whole_characters(text: &str, Range { mut start, mut end }: Range<usize>) -> Range<usize> {
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

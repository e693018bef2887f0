//! Masks of ids, from the spans of a text.

use std::ops::Range;

use crate::engine::EngineError;
use crate::tokenizer::Tokenizer;

/// The ids of a text, and a mask for each id: 1 if the id overlaps one of the `spans`, which are byte ranges of the text, in order.
///
/// ```
/// use windrow_tokenizers::chat::ids_and_mask;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// assert_eq!(ids_and_mask(&tokenizer, "Hello world", &[6..11])?.1, [0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The tokenizer refuses the text.
pub fn ids_and_mask(
    tokenizer: &Tokenizer,
    text: &str,
    spans: &[Range<usize>],
) -> Result<(Vec<u32>, Vec<u8>), EngineError> {
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    tokenizer.engine().encoder().encode(text, &mut ids)?;
    tokenizer.mask(text, &ids, spans, &mut mask)?;
    Ok((ids, mask))
}

/// Finds the place of each id in the text.
pub(crate) trait Locate: Sync {
    /// Appends the mask of the `ids` of `text`: 1 for each id that overlaps one of the `spans`, which are byte ranges of the text, in order.
    fn mask(&self, text: &str, ids: &[u32], spans: &[Range<usize>], mask: &mut Vec<u8>) -> Result<(), EngineError>;
}

impl Locate for Tokenizer {
    fn mask(&self, text: &str, ids: &[u32], spans: &[Range<usize>], mask: &mut Vec<u8>) -> Result<(), EngineError> {
        if spans.is_empty() {
            mask.resize(mask.len() + ids.len(), 0);
        } else if let Some(offsets) = self.offsets_of(text, ids) {
            put(offsets.into_iter(), &in_characters(text, spans), mask);
        } else {
            let encoded = self.encode_with_offsets(text)?;
            if encoded.ids != ids {
                let reason = "the ids encoded with offsets differ from those encoded without offsets";
                return Err(EngineError::refused(self.engine().name(), reason));
            }
            put(encoded.offsets.into_iter().map(|place| (place.start, place.end)), spans, mask);
        }
        Ok(())
    }
}

/// Spans in bytes, converted to spans in characters.
fn in_characters(text: &str, spans: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut bytes, mut characters) = (0, 0);
    let mut count = |to: usize| {
        if to < bytes {
            // A block inside another block: count from the beginning.
            (bytes, characters) = (0, 0);
        }
        characters += text[bytes..to].chars().count();
        bytes = to;
        characters
    };
    spans.iter().map(|span| count(span.start)..count(span.end)).collect()
}

/// One pass over the tokens and the spans, like `transformers`.
fn put(offsets: impl Iterator<Item = (usize, usize)>, spans: &[Range<usize>], mask: &mut Vec<u8>) {
    let mut spans = spans.iter().peekable();
    for (start, end) in offsets {
        while spans.next_if(|span| start >= span.end).is_some() {}
        mask.push(u8::from(spans.peek().is_some_and(|span| end > span.start)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_overlap_a_span_count() {
        let of = |offsets: &[(usize, usize)], spans: &[Range<usize>]| {
            let mut mask = Vec::new();
            put(offsets.iter().copied(), spans, &mut mask);
            mask
        };
        assert_eq!(of(&[(0, 2), (2, 4), (4, 6)], &[2..4, 8..9]), [0, 1, 0]);
        assert_eq!(of(&[(0, 3), (3, 5), (5, 6)], &[2..4, 8..9]), [1, 1, 0]);
        assert_eq!(of(&[(0, 1), (1, 2), (2, 3), (3, 4)], &[0..1, 1..1, 3..9]), [1, 0, 0, 1]);
        assert_eq!(of(&[(0, 1)], &[]), [0]);
    }

    #[test]
    fn bytes_become_characters() {
        assert_eq!(in_characters("aéb漢c", &[0..1, 1..3, 3..8]), [0..1, 1..2, 2..5]);
        assert_eq!(in_characters("aéb漢c", &[3..7, 1..8]), [2..4, 1..5]);
    }
}

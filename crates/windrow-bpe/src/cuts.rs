//! Places where a text can be cut because of the two characters there, for tokenizers whose pieces no grammar of this crate finds.

use std::ops::RangeInclusive;

use crate::scan::{CHUNK, Positions, Sink};
use crate::unicode::decode;

/// The pairs of bytes between which a text can be cut: the last byte of a character and the first byte of the next.
///
/// The ids of the parts must be those of the whole, whatever else the text has: the caller has proved that.
///
/// ```
/// use windrow_bpe::TextCuts;
///
/// let cuts = TextCuts::new(|before, after| before != b' ' && after == b' ', Vec::new());
/// assert!(cuts.allows(b'a', b' ') && !cuts.allows(b' ', b' '));
/// ```
pub struct TextCuts {
    /// A bit for each pair of bytes.
    pairs: Box<[u64; 1 << 10]>,
    /// Characters that are not ASCII, after which a text is not cut.
    barred: Vec<RangeInclusive<char>>,
}

impl TextCuts {
    /// `allows` says if a text can be cut between two bytes, and `barred` after which characters it cannot nevertheless.
    pub fn new(allows: impl Fn(u8, u8) -> bool, barred: Vec<RangeInclusive<char>>) -> Self {
        let mut pairs = Box::new([0; _]);
        for (before, after) in (0..=255).flat_map(|before| (0..=255).map(move |after| (before, after))) {
            // No character begins within another.
            if after & 0xc0 != 0x80 && allows(before, after) {
                let (word, bit) = place(before, after);
                pairs[word] |= 1 << bit;
            }
        }
        Self { pairs, barred }
    }

    /// True if a text can be cut between these bytes, after a character that is not barred.
    pub fn allows(&self, before: u8, after: u8) -> bool {
        let (word, bit) = place(before, after);
        self.pairs[word] >> bit & 1 == 1
    }

    /// True if no text can be cut.
    pub fn is_empty(&self) -> bool {
        self.pairs.iter().all(|&word| word == 0)
    }

    /// True if `text`, which need not be UTF-8, can be cut at `at`, which is neither its start nor its end.
    #[inline(always)]
    fn is_cut(&self, text: &[u8], at: usize) -> bool {
        self.allows(text[at - 1], text[at]) && (text[at - 1].is_ascii() || !self.is_barred(&text[..at]))
    }

    /// True if a text ends with a barred character, or within one.
    fn is_barred(&self, text: &[u8]) -> bool {
        if self.barred.is_empty() {
            return false;
        }
        let first = (0..text.len()).rev().take(4).find(|&at| text[at] & 0xc0 != 0x80);
        let Some(first) = first.filter(|&first| std::str::from_utf8(&text[first..]).is_ok()) else { return true };
        let last = char::from_u32(decode(text, first).0).unwrap_or_default();
        self.barred.iter().any(|range| range.contains(&last))
    }

    /// The first place from `from` on where the text can be cut.
    pub(crate) fn cut(&self, text: &[u8], from: usize) -> Option<usize> {
        (from.max(1)..text.len()).find(|&at| self.is_cut(text, at))
    }

    /// The last such place from `from` on and before `to`.
    pub(crate) fn last_cut(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        (from.max(1)..to.min(text.len())).rev().find(|&at| self.is_cut(text, at))
    }

    /// Gives the pieces of `text` to `sink`, the first one as such if `begins`.
    #[inline(always)]
    pub(crate) fn scan<S: Sink>(&self, text: &[u8], begins: bool, positions: &mut Positions, sink: &mut S) {
        if text.is_empty() {
            return;
        }
        let mut start = 0;
        if begins {
            start = self.cut(text, 1).unwrap_or(text.len());
            sink.first_piece(text, start);
        }
        let mut base = start;
        while base + 1 < text.len() {
            let end = text.len().min(base + CHUNK);
            let (bytes, mut count) = (&text[base..end], 0);
            for (at, pair) in (1..).zip(bytes.windows(2)) {
                let (word, bit) = place(pair[0], pair[1]);
                let mut is_cut = self.pairs[word] >> bit & 1 == 1;
                if is_cut && !pair[0].is_ascii() {
                    is_cut = !self.is_barred(&text[..base + at]);
                }
                // No branch: it would be predicted wrongly once a piece.
                positions[count] = at as u16;
                count += usize::from(is_cut);
            }
            start = sink.pieces(text, start, base, &positions[..count]);
            base = end - 1;
        }
        if start < text.len() {
            sink.piece(text, start, text.len());
        }
    }
}

#[inline(always)]
fn place(before: u8, after: u8) -> (usize, u32) {
    (usize::from(before) << 2 | usize::from(after >> 6), u32::from(after & 63))
}

impl std::fmt::Debug for TextCuts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: u32 = self.pairs.iter().map(|word| word.count_ones()).sum();
        f.debug_struct("TextCuts").field("pairs", &pairs).field("barred", &self.barred).finish()
    }
}

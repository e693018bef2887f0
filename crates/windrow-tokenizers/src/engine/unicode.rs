//! Characters that the two libraries treat differently.
//!
//! The first cause is Unicode. The release candidate knows Unicode 17. In 0.23, the classes of regexes follow Unicode 16,
//! punctuation Unicode 8, and normalization forms Unicode 9. A library ignores a character that is newer than its
//! tables: the character is in no class, stays unchanged, and composes with none. So the release candidate gets another character
//! instead, one that no version knows and that has as many bytes.
//!
//! The second cause is case. `(?i:'s|'t|...)` matches [`LONG_S`] after an apostrophe, because the case folding of U+017F is `s`.
//! The release candidate's programs for such regexes only look for ASCII letters. So they get `'re` in place of this contraction:
//! another contraction of the same regex, with as many bytes. Both are lower-case letters, so the rest of these regexes treats them
//! alike. No other character folds to the letters of these contractions.
//!
//! `tests/it/tokenizer_unicode.rs` checks all characters, and all pairs that compose.

use std::borrow::Cow;

use memchr::memmem::Finder;
use tk_encode::pipeline::{
    Normalizer, PipelineNormalizer, PipelinePreTokenizer, PreTokenizer, PreTokenizerScratch, Span,
};
use tk_encode::pre_tokenizers::split::SplitPattern;
use tk_encode::utils::Grammar;

/// Ranges of characters, ascending.
type Ranges = &'static [(u32, u32)];

/// Characters in no class of a regex up to Unicode 16.
#[rustfmt::skip]
const CLASSES: Ranges = &[
    (0x88f, 0x88f), (0xc5c, 0xc5c), (0xcdc, 0xcdc), (0x1acf, 0x1add), (0x1ae0, 0x1aeb), (0x20c1, 0x20c1),
    (0x2b96, 0x2b96), (0xa7ce, 0xa7cf), (0xa7d2, 0xa7d2), (0xa7d4, 0xa7d4), (0xa7f1, 0xa7f1), (0xfbc3, 0xfbd2),
    (0xfd90, 0xfd91), (0xfdc8, 0xfdce), (0x10940, 0x10959), (0x10ec5, 0x10ec7), (0x10ed0, 0x10ed8),
    (0x10efa, 0x10efb), (0x11b60, 0x11b67), (0x11db0, 0x11ddb), (0x11de0, 0x11de9), (0x16ea0, 0x16eb8),
    (0x16ebb, 0x16ed3), (0x16ff2, 0x16ff6), (0x187f8, 0x187ff), (0x18d09, 0x18d1e), (0x18d80, 0x18df2),
    (0x1ccfa, 0x1ccfc), (0x1ceba, 0x1ced0), (0x1cee0, 0x1cef0), (0x1e6c0, 0x1e6de), (0x1e6e0, 0x1e6f5),
    (0x1e6fe, 0x1e6ff), (0x1f6d8, 0x1f6d8), (0x1f777, 0x1f77a), (0x1f8d0, 0x1f8d8), (0x1fa54, 0x1fa57),
    (0x1fa8a, 0x1fa8a), (0x1fa8e, 0x1fa8e), (0x1fac8, 0x1fac8), (0x1facd, 0x1facd), (0x1faea, 0x1faea),
    (0x1faef, 0x1faef), (0x1fbfa, 0x1fbfa), (0x2b73a, 0x2b73f), (0x2cea2, 0x2cead), (0x323b0, 0x33479),
];

/// Characters that are no punctuation up to Unicode 8.
#[rustfmt::skip]
const PUNCTUATION: Ranges = &[
    (0x61d, 0x61d), (0x9fd, 0x9fd), (0xa76, 0xa76), (0xc77, 0xc77), (0xc84, 0xc84), (0x1b4e, 0x1b4f),
    (0x1b7d, 0x1b7f), (0x2e43, 0x2e4f), (0x2e52, 0x2e5d), (0x10d6e, 0x10d6e), (0x10ead, 0x10ead), (0x10ed0, 0x10ed0),
    (0x10f55, 0x10f59), (0x10f86, 0x10f89), (0x113d4, 0x113d5), (0x113d7, 0x113d8), (0x1144b, 0x1144f),
    (0x1145a, 0x1145b), (0x1145d, 0x1145d), (0x11660, 0x1166c), (0x116b9, 0x116b9), (0x1183b, 0x1183b),
    (0x11944, 0x11946), (0x119e2, 0x119e2), (0x11a3f, 0x11a46), (0x11a9a, 0x11a9c), (0x11a9e, 0x11aa2),
    (0x11b00, 0x11b09), (0x11be1, 0x11be1), (0x11c41, 0x11c45), (0x11c70, 0x11c71), (0x11ef7, 0x11ef8),
    (0x11f43, 0x11f4f), (0x11fff, 0x11fff), (0x12ff1, 0x12ff2), (0x16d6d, 0x16d6f), (0x16e97, 0x16e9a),
    (0x16fe2, 0x16fe2), (0x1e5ff, 0x1e5ff), (0x1e95e, 0x1e95f),
];

/// Characters that are punctuation up to Unicode 8, but not later.
const FORMER_PUNCTUATION: Ranges = &[(0x166d, 0x166d), (0x111c9, 0x111c9)];

/// Characters neither decomposed nor reordered nor composed up to Unicode 9.
#[rustfmt::skip]
const FORMS: Ranges = &[
    (0x7fd, 0x7fd), (0x897, 0x89f), (0x8ca, 0x8d3), (0x9fe, 0x9fe), (0xc3c, 0xc3c), (0xd3b, 0xd3c), (0xeba, 0xeba),
    (0x1715, 0x1715), (0x1abf, 0x1add), (0x1ae0, 0x1aeb), (0x1df6, 0x1dfa), (0x32ff, 0x32ff), (0xa7f1, 0xa7f4),
    (0xa82c, 0xa82c), (0xab69, 0xab69), (0x105c9, 0x105c9), (0x105d2, 0x105d2), (0x105da, 0x105da), (0x105e4, 0x105e4),
    (0x10781, 0x10785), (0x10787, 0x107b0), (0x107b2, 0x107ba), (0x10d24, 0x10d27), (0x10d69, 0x10d6d),
    (0x10eab, 0x10eac), (0x10efa, 0x10efb), (0x10efd, 0x10eff), (0x10f46, 0x10f50), (0x10f82, 0x10f85),
    (0x11070, 0x11070), (0x1133b, 0x1133b), (0x11382, 0x11385), (0x1138b, 0x1138b), (0x1138e, 0x1138e),
    (0x11390, 0x11391), (0x113b8, 0x113b8), (0x113bb, 0x113bb), (0x113c2, 0x113c2), (0x113c5, 0x113c5),
    (0x113c7, 0x113c9), (0x113ce, 0x113d0), (0x1145e, 0x1145e), (0x11839, 0x1183a), (0x11930, 0x11930),
    (0x11935, 0x11935), (0x11938, 0x11938), (0x1193d, 0x1193e), (0x11943, 0x11943), (0x119e0, 0x119e0),
    (0x11a34, 0x11a34), (0x11a47, 0x11a47), (0x11a99, 0x11a99), (0x11d42, 0x11d42), (0x11d44, 0x11d45),
    (0x11d97, 0x11d97), (0x11f41, 0x11f42), (0x1611e, 0x16129), (0x1612f, 0x1612f), (0x16d63, 0x16d63),
    (0x16d67, 0x16d6a), (0x16ff0, 0x16ff1), (0x1ccd6, 0x1ccf9), (0x1e030, 0x1e06d), (0x1e08f, 0x1e08f),
    (0x1e130, 0x1e136), (0x1e2ae, 0x1e2ae), (0x1e2ec, 0x1e2ef), (0x1e4ec, 0x1e4ef), (0x1e5ee, 0x1e5ef),
    (0x1e6e3, 0x1e6e3), (0x1e6e6, 0x1e6e6), (0x1e6ee, 0x1e6ef), (0x1e6f5, 0x1e6f5), (0x1f16c, 0x1f16c),
    (0x1fbf0, 0x1fbf9),
];

/// Characters in no Unicode version, by length in bytes.
const UNKNOWN: [char; 3] = ['\u{378}', '\u{2fe0}', '\u{e0080}'];

/// Punctuation in every version, by length in bytes.
const MARKS: [char; 3] = ['\u{a7}', '\u{2010}', '\u{10100}'];

/// A contraction by case folding, and another contraction for the same regexes.
const LONG_S: &str = "'\u{17f}";
const CONTRACTION: &str = "'re";

/// The characters to search for in the texts of a tokenizer.
pub(super) struct Differences {
    tables: Vec<Ranges>,
    /// Searches for [`LONG_S`], if a regex ignores the case of contractions.
    long_s: Option<Finder<'static>>,
    /// True if a character of the tables may begin with this byte.
    leads: [bool; 256],
}

impl Differences {
    pub(super) fn new(normalizers: &[PipelineNormalizer], pre_tokenizer: &PipelinePreTokenizer) -> Self {
        let mut tables = Vec::new();
        if normalizers.iter().any(uses_forms) {
            tables.push(FORMS);
        }
        collect(pre_tokenizer, &mut tables);
        let mut leads = [false; 256];
        for &(first, last) in tables.iter().copied().flatten() {
            for character in (first..=last).filter_map(char::from_u32) {
                leads[usize::from(character.encode_utf8(&mut [0; 4]).as_bytes()[0])] = true;
            }
        }
        let long_s = folds(pre_tokenizer).then(|| Finder::new(LONG_S));
        Self { tables, leads, long_s }
    }

    /// True if the text contains any of these characters. Almost no text does, so this is the usual cost per text.
    pub(super) fn any_in(&self, text: &str) -> bool {
        /// Small enough for vector instructions.
        const CHUNK: usize = 64;
        /// The first lead byte in the tables: lower bytes are ASCII, Latin, Greek, Cyrillic or continue a character.
        const FIRST: u8 = 0xd8;
        let bytes = text.as_bytes();
        if self.long_s.as_ref().is_some_and(|finder| finder.find(bytes).is_some()) {
            return true;
        }
        bytes.chunks(CHUNK).enumerate().any(|(chunk, part)| {
            part.iter().fold(false, |any, &byte| any | (byte >= FIRST))
                && part.iter().enumerate().any(|(at, &byte)| {
                    self.leads[usize::from(byte)]
                        && text[chunk * CHUNK + at..]
                            .chars()
                            .next()
                            .is_some_and(|character| self.tables.iter().any(|table| contains(table, character)))
                })
        })
    }
}

fn collect(pre_tokenizer: &PipelinePreTokenizer, tables: &mut Vec<Ranges>) {
    match pre_tokenizer {
        PipelinePreTokenizer::Sequence(sequence) => {
            sequence.pre_tokenizers().iter().for_each(|member| collect(member, tables));
        }
        other => tables.extend(hides(other).into_iter().map(|(table, _)| table)),
    }
}

/// The characters to hide from a pre-tokenizer that is not a sequence, and their replacements.
fn hides(pre_tokenizer: &PipelinePreTokenizer) -> Vec<(Ranges, [char; 3])> {
    match pre_tokenizer {
        PipelinePreTokenizer::Bert(_) | PipelinePreTokenizer::Punctuation(_) => {
            vec![(PUNCTUATION, UNKNOWN), (FORMER_PUNCTUATION, MARKS)]
        }
        PipelinePreTokenizer::Whitespace(_) => vec![(CLASSES, UNKNOWN)],
        PipelinePreTokenizer::Split(split) if matches!(split.pattern, SplitPattern::Regex(_)) => {
            vec![(CLASSES, UNKNOWN)]
        }
        _ => Vec::new(),
    }
}

/// True if a regex of the pre-tokenizer, or of its members, ignores the case of contractions.
fn folds(pre_tokenizer: &PipelinePreTokenizer) -> bool {
    match pre_tokenizer {
        PipelinePreTokenizer::Sequence(sequence) => sequence.pre_tokenizers().iter().any(folds),
        PipelinePreTokenizer::Split(split) => matches!(split.grammar(), Some(Grammar::Cl100k { .. } | Grammar::O200k)),
        _ => false,
    }
}

fn uses_forms(normalizer: &PipelineNormalizer) -> bool {
    use PipelineNormalizer::{Bert, NFC, NFD, NFKC, NFKD};
    matches!(normalizer, NFC(_) | NFD(_) | NFKC(_) | NFKD(_) | Bert(_))
}

fn contains(table: Ranges, character: char) -> bool {
    let code = u32::from(character);
    let after = table.partition_point(|&(first, _)| first <= code);
    after > 0 && code <= table[after - 1].1
}

/// The text with the characters of the table replaced.
fn hide<'a>(text: &'a str, table: Ranges, replacements: [char; 3]) -> Cow<'a, str> {
    if !text.chars().any(|character| contains(table, character)) {
        return Cow::Borrowed(text);
    }
    // No character of the tables is ASCII.
    let shown = |c: char| if contains(table, c) { replacements[c.len_utf8() - 2] } else { c };
    Cow::Owned(text.chars().map(shown).collect())
}

/// Normalizes a text that has characters of the tables.
pub(super) fn normalize<'a>(
    normalizers: &[PipelineNormalizer],
    text: &'a str,
    offset: usize,
) -> tk_encode::Result<Cow<'a, str>> {
    let mut text = Cow::Borrowed(text);
    for normalizer in normalizers {
        text = Cow::Owned(if uses_forms(normalizer) {
            let shown = hide(&text, FORMS, UNKNOWN);
            let hidden = text.chars().filter(|&c| contains(FORMS, c) || UNKNOWN.contains(&c));
            restore(&normalizer.normalize(&shown, offset)?, hidden)
        } else {
            normalizer.normalize(&text, offset)?.into_owned()
        });
    }
    Ok(text)
}

/// Puts the replaced characters back in order. A normalizer keeps all of them, or none if it removes unknown characters.
fn restore(text: &str, mut hidden: impl Iterator<Item = char>) -> String {
    text.chars().map(|c| if UNKNOWN.contains(&c) { hidden.next().unwrap_or(c) } else { c }).collect()
}

/// Splits a text that has characters of the tables.
pub(super) fn pre_tokenize(
    pre_tokenizer: &PipelinePreTokenizer,
    text: &str,
    scratch: &mut PreTokenizerScratch,
    pieces: &mut Vec<Span>,
) -> tk_encode::Result<()> {
    match pre_tokenizer {
        PipelinePreTokenizer::Sequence(sequence) if sequence.is_deepseek() => {
            pre_tokenizer.pre_tokenize(&hide(text, CLASSES, UNKNOWN), scratch, pieces)
        }
        PipelinePreTokenizer::Sequence(sequence) => {
            let mut whole = vec![Span::new(0, text.len() as u32)];
            for member in sequence.pre_tokenizers() {
                let mut parts = Vec::new();
                for piece in whole {
                    let from = parts.len();
                    pre_tokenize(member, &text[piece.range()], scratch, &mut parts)?;
                    for part in &mut parts[from..] {
                        *part = Span::new(part.start + piece.start, part.end + piece.start);
                    }
                }
                whole = parts;
            }
            pieces.append(&mut whole);
            Ok(())
        }
        other => {
            let mut shown = Cow::Borrowed(text);
            for (table, replacements) in hides(other) {
                shown = Cow::Owned(hide(&shown, table, replacements).into_owned());
            }
            if folds(other) {
                shown = Cow::Owned(shown.replace(LONG_S, CONTRACTION));
            }
            other.pre_tokenize(&shown, scratch, pieces)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order_and_stand_ins_outside() {
        for table in [CLASSES, PUNCTUATION, FORMER_PUNCTUATION, FORMS] {
            assert!(table.iter().all(|(first, last)| first <= last));
            assert!(table.windows(2).all(|pair| pair[0].1 < pair[1].0));
            assert!(UNKNOWN.iter().chain(&MARKS).all(|&c| !contains(table, c)));
            assert!(contains(table, char::from_u32(table[0].0).unwrap()));
            assert!(
                table
                    .iter()
                    .all(|(first, _)| char::from_u32(*first).unwrap().encode_utf8(&mut [0; 4]).as_bytes()[0] >= 0xd8)
            );
        }
        assert!(
            UNKNOWN.iter().zip(&MARKS).zip(2..).all(|((a, b), bytes)| a.len_utf8() == bytes && b.len_utf8() == bytes)
        );
    }

    #[test]
    fn the_stand_in_for_a_contraction_takes_as_many_bytes() {
        assert_eq!(LONG_S.len(), CONTRACTION.len());
        assert_eq!("'\u{17f}".to_uppercase(), "'S");
    }

    #[test]
    fn hidden_characters_take_as_many_bytes_and_come_back() {
        let text = "a\u{7fd}\u{32ff}\u{378}\u{1fbf0}b";
        let shown = hide(text, FORMS, UNKNOWN);
        assert_eq!(shown, "a\u{378}\u{2fe0}\u{378}\u{e0080}b");
        assert_eq!(shown.len(), text.len());
        let hidden = text.chars().filter(|&c| contains(FORMS, c) || UNKNOWN.contains(&c));
        assert_eq!(restore(&shown, hidden), text);
    }
}

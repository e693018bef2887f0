//! Normalization form C, as the reference computes it.
//!
//! `tokenizers` 0.23 normalizes with `unicode-normalization-alignments` 0.1, which knows Unicode 9. Most text is in form C already. A text is, if
//! it has no character of the table: none that the form replaces, that is reordered, or that composes with the character before.
//! `examples/classes.rs` makes the table.

use std::sync::OnceLock;

use unicode_normalization_alignments::UnicodeNormalization;

use crate::unicode::{bits_of, decode, made_once};

/// Runs of characters that are, in turn, outside and inside of the table: three bytes each, the first character of the next run.
const RUNS: &[u8] = include_bytes!("../unicode/nfc.bin");

/// The characters that normalization may change, as bits.
pub(crate) fn table() -> &'static [u64] {
    static TABLE: OnceLock<Vec<u64>> = OnceLock::new();
    made_once(&TABLE, || bits_of(RUNS)).as_slice()
}

/// Whether normalization may change a text, which is UTF-8.
pub(crate) fn may_change(text: &[u8]) -> bool {
    const STEP: usize = 64;
    let table = table();
    let (mut at, mut checked) = (0, 0);
    while checked < text.len() {
        let end = (checked + STEP).min(text.len());
        if text[checked..end].is_ascii() {
            (checked, at) = (end, end);
            continue;
        }
        while at < end {
            if text[at].is_ascii() {
                at += 1;
                continue;
            }
            let (character, len) = decode(text, at);
            if table[(character / 64) as usize % table.len()] >> (character % 64) & 1 == 1 {
                return true;
            }
            at += len;
        }
        checked = at;
    }
    false
}

/// Whether normalization may change the last character of a text, which is UTF-8.
pub(crate) fn may_change_last(text: &[u8]) -> bool {
    let first = text.iter().rposition(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
    may_change(&text[first..])
}

/// The text in form C.
pub(crate) fn normalized(text: &str) -> String {
    normalized_with_changes(text).map(|(character, _)| character).collect()
}

/// The characters of the text in form C. Each has a number: above 0 if it was inserted; otherwise it replaces the next character of the text, and
/// so many further ones vanish.
pub(crate) fn normalized_with_changes(text: &str) -> impl Iterator<Item = (char, isize)> {
    text.nfc()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_in_form_c_is_recognized() {
        assert!(!may_change("windrow’s — é 中文 한국어 ".repeat(20).as_bytes()));
        for text in ["e\u{301}", "\u{212b}", "\u{1112}\u{1161}", "\u{374}"] {
            for before in [0, 61, 62, 63, 64, 65] {
                let text = format!("{}{text} windrow", "x".repeat(before));
                assert!(may_change(text.as_bytes()), "{text:?}");
            }
        }
        assert_eq!(normalized("e\u{301}"), "é");
        assert!(may_change_last("a\u{958}".as_bytes()) && may_change_last("\u{301}".as_bytes()));
        assert!(!may_change_last(b"") && !may_change_last("\u{958}é".as_bytes()));
    }

    proptest! {
        #[test]
        fn text_outside_of_the_table_stays(text in "(\\PC|[a\u{300}-\u{330}\u{1100}-\u{11ff}\u{900}-\u{9ff}]){0,40}") {
            prop_assert!(may_change(text.as_bytes()) || normalized(&text) == text, "{:?}", text);
        }
    }
}

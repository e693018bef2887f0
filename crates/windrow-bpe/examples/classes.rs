//! Makes the tables of `src/unicode.rs` and `src/nfc.rs`: `cargo run -p windrow-bpe --example classes -- crates/windrow-bpe/unicode`.

use std::path::PathBuf;

use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::{canonical_combining_class, compose};

/// The classes, in the order of `Class`. A later one takes precedence.
const CLASSES: [&str; 8] =
    [r"\p{any}", r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]", r"\p{M}", r"\p{N}", r"\s", r"[\p{P}\p{S}]"];

const CHARACTERS: usize = 0x11_0000;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("usage: classes FOLDER"));
    std::fs::write(folder.join("classes.bin"), classes())?;
    std::fs::write(folder.join("word.bin"), words())?;
    std::fs::write(folder.join("nfc.bin"), changed_by_nfc())
}

/// The ends of the runs of equal numbers below 8, with the number in the upper bits.
fn runs(flat: &[u32], tag: impl Fn(u32) -> u32) -> Vec<u8> {
    let ends = (1..=flat.len()).filter(|&at| flat.get(at) != Some(&flat[at - 1]));
    ends.flat_map(|at| (at as u32 | tag(flat[at - 1]) << 21).to_le_bytes().into_iter().take(3)).collect()
}

/// Gives the characters of a pattern this number.
fn fill(flat: &mut [u32], pattern: &str, number: u32) {
    let hir = regex_syntax::parse(pattern).expect("a class");
    let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) = hir.kind() else {
        unreachable!("{pattern} is a class")
    };
    for range in class.ranges() {
        flat[range.start() as usize..=range.end() as usize].fill(number);
    }
}

fn classes() -> Vec<u8> {
    let mut flat = vec![0; CHARACTERS];
    for (number, pattern) in (0..).zip(CLASSES) {
        fill(&mut flat, pattern, number);
    }
    runs(&flat, |number| number)
}

/// What the reference takes for a part of a word beside an added token.
fn words() -> Vec<u8> {
    let mut flat = vec![0; CHARACTERS];
    fill(&mut flat, r"\w", 1);
    runs(&flat, |_| 0)
}

/// Characters that form C replaces, that have a combining class, or that compose with a character before them.
fn changed_by_nfc() -> Vec<u8> {
    let mut flat = vec![0; CHARACTERS];
    let characters = || (0..=0x10_ffff).filter_map(char::from_u32);
    for character in characters() {
        let is_kept = std::iter::once(character).nfc().map(|(c, _)| c).eq([character]);
        if !is_kept || canonical_combining_class(character) != 0 {
            flat[character as usize] = 1;
        }
        // What a character decomposes to may compose again.
        let parts: Vec<char> = std::iter::once(character).nfd().map(|(part, _)| part).collect();
        for pair in parts.windows(2) {
            flat[pair[1] as usize] = 1;
        }
    }
    // Of each script, one consonant that composes with vowels, whatever was decomposed above.
    for vowel in characters() {
        if compose('\u{1100}', vowel).is_some() || compose('\u{ac00}', vowel).is_some() {
            flat[vowel as usize] = 1;
        }
    }
    runs(&flat, |_| 0)
}

#[test]
fn the_tables_are_up_to_date() {
    assert!(classes() == include_bytes!("../unicode/classes.bin"), "make it again");
    assert!(words() == include_bytes!("../unicode/word.bin"), "make it again");
    assert!(changed_by_nfc() == include_bytes!("../unicode/nfc.bin"), "make it again");
}

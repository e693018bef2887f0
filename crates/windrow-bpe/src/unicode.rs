//! Classes of characters, as in Unicode 16: the version of the reference, `tokenizers` 0.23 with Oniguruma.
//!
//! `examples/classes.rs` makes the table from the registry crate `regex-syntax` 0.8.11. It is part of this crate because a later version
//! of a library would know more characters, and give other ids.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// What the patterns of well-known models distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Anything else. With [`Classes::get`], `\p{P}` and `\p{S}` too.
    Other = 0,
    /// `\p{Lu}` and `\p{Lt}`.
    Upper = 1,
    /// `\p{Ll}`.
    Lower = 2,
    /// `\p{Lm}` and `\p{Lo}`.
    Caseless = 3,
    /// `\p{M}`.
    Mark = 4,
    /// `\p{N}`.
    Number = 5,
    /// `\s`.
    White = 6,
    /// `\p{P}` and `\p{S}`, with [`Classes::of_deepseek`].
    Symbol = 7,
    /// Letters and marks in [`CJK`], with [`Classes::of_deepseek`].
    Cjk = 8,
    /// [`Symbol`](Self::Symbol) in [`CJK`], with [`Classes::of_deepseek`].
    CjkSymbol = 9,
    /// [`Other`](Self::Other) in [`CJK`], with [`Classes::of_deepseek`].
    CjkOther = 10,
}

/// Chinese characters, hiragana and katakana, as the patterns of DeepSeek have them: not all are letters.
const CJK: [RangeInclusive<usize>; 2] = [0x3040..=0x30ff, 0x4e00..=0x9fa5];

impl Class {
    /// Number of classes.
    pub(crate) const COUNT: usize = 11;

    /// The classes of [`RUNS`].
    const STORED: [Self; 8] =
        [Self::Other, Self::Upper, Self::Lower, Self::Caseless, Self::Mark, Self::Number, Self::White, Self::Symbol];

    pub(crate) fn is_letter(self) -> bool {
        matches!(self, Self::Upper | Self::Lower | Self::Caseless)
    }
}

/// Runs of characters of one class: three bytes each, the first character of the run after this one, with the class in the upper bits.
const RUNS: &[u8] = include_bytes!("../unicode/classes.bin");

/// Characters of the first plane, where almost all text is.
const PLANE: usize = 1 << 16;

/// The value of a cell that is filled at first use.
///
/// It is made before the cell is taken: in a process that is forked meanwhile a cell that another thread had taken
/// would never be filled, and each reader would wait for it. Two threads may make it; one is kept.
pub(crate) fn made_once<T>(cell: &'static OnceLock<T>, make: impl FnOnce() -> T) -> &'static T {
    if let Some(value) = cell.get() {
        return value;
    }
    let value = make();
    cell.get_or_init(|| value)
}

/// The class of every character.
pub(crate) struct Classes {
    plane: Box<[Class; PLANE]>,
    /// The ends of the runs behind the first plane, ascending, and their classes.
    runs: Vec<(u32, Class)>,
    /// True if numbers and [`CJK`] are split from a text first, so that the text before them ends there.
    splits_first: bool,
}

impl Classes {
    /// The table of most grammars, made at first use.
    pub(crate) fn get() -> &'static Self {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        made_once(&CLASSES, || {
            Self::new(|class| match class {
                Class::Symbol => Class::Other,
                class => class,
            })
        })
    }

    /// The table of [`Grammar::DeepSeek`](crate::Grammar::DeepSeek), made at first use.
    pub(crate) fn of_deepseek() -> &'static Self {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        made_once(&CLASSES, || {
            let mut classes = Self::new(|class| class);
            for character in CJK.into_iter().flatten() {
                let class = &mut classes.plane[character];
                *class = match *class {
                    Class::Symbol => Class::CjkSymbol,
                    Class::Other => Class::CjkOther,
                    class if class.is_letter() || class == Class::Mark => Class::Cjk,
                    class => class,
                };
            }
            Self { splits_first: true, ..classes }
        })
    }

    /// `class_of` says what becomes of a stored class.
    fn new(class_of: impl Fn(Class) -> Class) -> Self {
        let mut plane = Box::new([Class::Other; PLANE]);
        let mut runs = Vec::new();
        let mut begin = 0;
        for run in RUNS.as_chunks::<3>().0 {
            let word = u32::from_le_bytes([run[0], run[1], run[2], 0]);
            let (end, class) = (word & 0x1f_ffff, class_of(Class::STORED[(word >> 21) as usize]));
            plane[begin..PLANE.min(end as usize)].fill(class);
            begin = PLANE.min(end as usize);
            if end as usize > PLANE {
                runs.push((end, class));
            }
        }
        Self { plane, runs, splits_first: false }
    }

    /// True if `(?!\S)` fails before a character of this class: not before white space, nor where a text ends because it is split first.
    pub(crate) fn is_black(&self, class: Class) -> bool {
        match class {
            Class::White | Class::Cjk | Class::CjkSymbol | Class::CjkOther => false,
            Class::Number => !self.splits_first,
            _ => true,
        }
    }

    #[inline(always)]
    pub(crate) fn of(&self, character: u32) -> Class {
        match u16::try_from(character) {
            Ok(character) => self.plane[usize::from(character)],
            Err(_) => self.beyond(character),
        }
    }

    fn beyond(&self, character: u32) -> Class {
        let run = self.runs.partition_point(|&(end, _)| end <= character);
        self.runs.get(run).map_or(Class::Other, |run| run.1)
    }
}

/// Runs of characters that are, in turn, outside and inside of `\w`: three bytes each, the first character of the next run.
const WORD: &[u8] = include_bytes!("../unicode/word.bin");

/// Whether a character is `\w`, which is what an added token that is a single word must not have beside it.
pub(crate) fn is_word(character: char) -> bool {
    static WORDS: OnceLock<Vec<u64>> = OnceLock::new();
    let bits = made_once(&WORDS, || bits_of(WORD));
    let character = character as usize;
    bits[character / 64] >> (character % 64) & 1 == 1
}

/// A bit for each character, from runs that are, in turn, outside and inside of a set.
pub(crate) fn bits_of(runs: &[u8]) -> Vec<u64> {
    let mut bits = vec![0; 0x11_0000 / 64];
    let mut begin = 0;
    for (number, run) in runs.as_chunks::<3>().0.iter().enumerate() {
        let end = u32::from_le_bytes([run[0], run[1], run[2], 0]) as usize;
        if number % 2 == 1 {
            (begin..end).for_each(|character| bits[character / 64] |= 1 << (character % 64));
        }
        begin = end;
    }
    bits
}

/// The character of UTF-8 that begins at `at` and is not ASCII, and its length in bytes.
#[inline(always)]
pub(crate) fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let bytes = match text[at..].first_chunk::<4>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; 4];
            bytes[..text.len() - at].copy_from_slice(&text[at..]);
            bytes
        }
    };
    let [first, second, third, fourth] = bytes.map(u32::from);
    let low = |byte: u32| byte & 0x3f;
    if first < 0xe0 {
        ((first & 0x1f) << 6 | low(second), 2)
    } else if first < 0xf0 {
        ((first & 0xf) << 12 | low(second) << 6 | low(third), 3)
    } else {
        ((first & 0x7) << 18 | low(second) << 12 | low(third) << 6 | low(fourth), 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_the_classes_of_unicode_16() {
        let classes = Classes::get();
        let of = |character: char| classes.of(u32::from(character));
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let class = of(character);
            assert_eq!(class == Class::White, character.is_whitespace(), "{character:?}");
        }
        assert_eq!(of('ǅ'), Class::Upper);
        assert_eq!(of('ß'), Class::Lower);
        assert_eq!(of('中'), Class::Caseless);
        assert_eq!(of('\u{301}'), Class::Mark);
        assert_eq!(of('½'), Class::Number);
        assert_eq!(of('—'), Class::Other);
        // Letters of Unicode 16 and 17.
        assert_eq!((of('\u{105d2}'), of('\u{a7ce}')), (Class::Caseless, Class::Other));
    }

    #[test]
    fn symbols_and_kana_are_classes_of_deepseek() {
        let (classes, others) = (Classes::of_deepseek(), Classes::get());
        let of = |character: char| classes.of(u32::from(character));
        assert!("—$+_'。😀｜".chars().all(|character| of(character) == Class::Symbol));
        assert!("一龥\u{3099}ーヿ".chars().all(|character| of(character) == Class::Cjk));
        assert!("゛゠・".chars().all(|character| of(character) == Class::CjkSymbol));
        assert!("\u{3040}\u{3097}\u{3098}".chars().all(|character| of(character) == Class::CjkOther));
        assert!("\0\u{7f}\u{200d}\u{e000}\u{10ffff}".chars().all(|character| of(character) == Class::Other));
        assert_eq!((of('々'), of('\u{9fa6}'), of('、')), (Class::Caseless, Class::Caseless, Class::Symbol));
        for character in 0..=0x10_ffff {
            match (classes.of(character), others.of(character)) {
                (Class::Symbol, other) => assert_eq!(other, Class::Other),
                (Class::Cjk | Class::CjkSymbol | Class::CjkOther, _) => {
                    assert!(CJK.iter().any(|range| range.contains(&(character as usize))))
                }
                (class, other) => assert_eq!(class, other),
            }
        }
    }

    #[test]
    fn words_are_those_of_the_reference() {
        assert!("azAZ09_éя中\u{301}٣ʰ\u{200d}‿".chars().all(is_word));
        assert!(!" \n.-'½<>—😀\u{a0}\u{378}\u{10ffff}".chars().any(is_word));
    }

    #[test]
    fn every_character_is_decoded() {
        for character in (0x80..=0x10_ffff).filter_map(char::from_u32) {
            let mut bytes = [b'x'; 6];
            let len = character.encode_utf8(&mut bytes[1..]).len();
            assert_eq!(decode(&bytes, 1), (u32::from(character), len));
        }
    }
}

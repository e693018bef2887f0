//! Parts of strings as items.
//!
//! The source is a range of bytes. A part belongs to the member that claims its first byte. So no pass over the text looks for parts
//! beforehand, and claims are sized in bytes.

use std::ops::Range;

use super::adaptors::names;
use super::recipe::{self, Indices, Of, Plain};
use crate::iter::{IntoParallelIterator, Par, ParallelIterator};

/// Parts of a string as items.
///
/// ```
/// use windrow::prelude::*;
///
/// let text = "one fish two fish";
/// assert_eq!(text.par_split_whitespace().filter(|word| *word == "fish").count(), 2);
/// ```
pub trait ParallelString {
    /// The string.
    #[doc(hidden)]
    fn whole(&self) -> &str;

    /// Its bytes.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!("a,b,c".par_bytes().filter(|byte| *byte == b',').count(), 2);
    /// ```
    fn par_bytes(&self) -> Bytes<'_> {
        self.whole().as_bytes().into_par_iter().copied()
    }

    /// Its characters.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!("naïve".par_chars().filter(|c| !c.is_ascii()).collect::<String>(), "ï");
    /// ```
    fn par_chars(&self) -> Chars<'_> {
        by_bytes(self.whole(), TextChars)
    }

    /// Its characters, each with the index of its first byte.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!("naïve".par_char_indices().collect::<Vec<_>>()[2..4], [(2, 'ï'), (4, 'v')]);
    /// ```
    fn par_char_indices(&self) -> CharIndices<'_> {
        by_bytes(self.whole(), TextCharIndices)
    }

    /// Its lines, as [`str::lines`] gives them.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let sum: u32 = "1\n20\r\n300\n".par_lines().map(|line| line.parse::<u32>().unwrap()).sum();
    /// assert_eq!(sum, 321);
    /// ```
    fn par_lines(&self) -> Lines<'_> {
        by_bytes(self.whole(), TextLines)
    }

    /// Its words, separated by white space, as [`str::split_whitespace`] gives them.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let words: Vec<&str> = " one\u{2003}fish\n".par_split_whitespace().collect();
    /// assert_eq!(words, ["one", "fish"]);
    /// ```
    fn par_split_whitespace(&self) -> SplitWhitespace<'_> {
        by_bytes(self.whole(), TextWords)
    }

    /// Its words, separated by ASCII white space, as [`str::split_ascii_whitespace`] gives them.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // An em space is no ASCII white space.
    /// let words: Vec<&str> = " one\u{2003}fish two\n".par_split_ascii_whitespace().collect();
    /// assert_eq!(words, ["one\u{2003}fish", "two"]);
    /// ```
    fn par_split_ascii_whitespace(&self) -> SplitAsciiWhitespace<'_> {
        by_bytes(self.whole(), TextAsciiWords)
    }

    /// The parts between separators, including the parts before the first and after the last one: one more than there are separators.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let fields: Vec<&str> = "1,2;;3".par_split([',', ';']).collect();
    /// assert_eq!(fields, ["1", "2", "", "3"]);
    /// ```
    fn par_split<P: Separator>(&self, separator: P) -> Split<'_, P> {
        let text = self.whole();
        // A part can begin at every byte and after the last one.
        Par::of(0..text.len() + 1, Of(TextParts(text, separator)))
    }

    /// The parts up to separators, each with its separator, and the part after the last one if it is not empty.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let sentences: Vec<&str> = "Yes! No. Perhaps".par_split_inclusive(['.', '!']).collect();
    /// assert_eq!(sentences, ["Yes!", " No.", " Perhaps"]);
    /// ```
    fn par_split_inclusive<P: Separator>(&self, separator: P) -> SplitInclusive<'_, P> {
        by_bytes(self.whole(), |text| TextInclusive(text, separator))
    }

    /// The characters that are separators, as texts.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let digits: String = "a1b22".par_matches(|c: char| c.is_ascii_digit()).collect();
    /// assert_eq!(digits, "122");
    /// ```
    fn par_matches<P: Separator>(&self, separator: P) -> Matches<'_, P> {
        by_bytes(self.whole(), |text| TextMatches(text, separator))
    }

    /// The characters that are separators, as texts, each with the index of its first byte.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let found: Vec<(usize, &str)> = "naïve, no".par_match_indices('n').collect();
    /// assert_eq!(found, [(0, "n"), (8, "n")]);
    /// ```
    fn par_match_indices<P: Separator>(&self, separator: P) -> MatchIndices<'_, P> {
        by_bytes(self.whole(), |text| TextMatchIndices(text, separator))
    }

    /// Its UTF-16 code units.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let units: Vec<u16> = "a𝄞".par_encode_utf16().collect();
    /// assert_eq!(units, [0x61, 0xd834, 0xdd1e]);
    /// ```
    fn par_encode_utf16(&self) -> EncodeUtf16<'_> {
        by_bytes(self.whole(), TextUtf16)
    }

    /// The parts before separators, and the part after the last separator if it is not empty.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let statements: Vec<&str> = "a=1;b=2;".par_split_terminator(';').collect();
    /// assert_eq!(statements, ["a=1", "b=2"]);
    /// ```
    fn par_split_terminator<P: Separator>(&self, separator: P) -> SplitTerminator<'_, P> {
        by_bytes(self.whole(), |text| TextParts(text, separator))
    }
}

impl ParallelString for str {
    fn whole(&self) -> &str {
        self
    }
}

fn by_bytes<'a, D: Indices>(text: &'a str, data: impl FnOnce(&'a str) -> D) -> Par<Range<usize>, Of<D>> {
    Par::of(0..text.len(), Of(data(text)))
}

/// Separators of parts of a string: a `char`, an array or slice of `char`s, or a predicate. Not meant to be implemented outside windrow.
///
/// ```
/// use windrow::prelude::*;
/// use windrow::str::Separator;
///
/// fn count(text: &str, separator: impl Separator) -> usize {
///     text.par_split(separator).count()
/// }
///
/// assert_eq!(count("a-b-c", '-'), 3);
/// assert_eq!(count("a-b+c", ['-', '+']), 3);
/// assert_eq!(count("a1b2c", |c: char| c.is_numeric()), 3);
/// ```
pub trait Separator: Sync + Send {
    #[doc(hidden)]
    fn is(&self, c: char) -> bool;

    /// The index of the first separator in `text`.
    #[doc(hidden)]
    fn find(&self, text: &str) -> Option<usize> {
        text.find(|c| self.is(c))
    }
}

impl Separator for char {
    fn is(&self, c: char) -> bool {
        *self == c
    }

    fn find(&self, text: &str) -> Option<usize> {
        text.find(*self)
    }
}

impl Separator for &[char] {
    fn is(&self, c: char) -> bool {
        self.contains(&c)
    }
}

impl<const N: usize> Separator for &[char; N] {
    fn is(&self, c: char) -> bool {
        self.contains(&c)
    }
}

impl<const N: usize> Separator for [char; N] {
    fn is(&self, c: char) -> bool {
        self.contains(&c)
    }
}

impl<F: Fn(char) -> bool + Sync + Send> Separator for F {
    fn is(&self, c: char) -> bool {
        self(c)
    }
}

/// The beginning of the first character at or after `at`; the end of the text, if no character begins there.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

/// The characters that begin in `run`.
fn chars(text: &str, run: Range<usize>) -> Range<usize> {
    boundary(text, run.start)..boundary(text, run.end)
}

/// The beginning of the first part that begins in `run`. Parts begin at the front, and after separators.
fn part_in(text: &str, run: Range<usize>, separator: &impl Separator) -> Option<usize> {
    if run.is_empty() {
        return None;
    }
    let start = boundary(text, run.start);
    let Some(before) = text[..start].chars().next_back() else {
        return Some(0);
    };
    // The character before `run` may be the separator. Text after `run` is not searched, however long the part is.
    let from = start - before.len_utf8();
    let seen = &text[from..boundary(text, run.end).max(start)];
    let at = separator.find(seen)?;
    let begin = from + at + seen[at..].chars().next().map_or(0, char::len_utf8);
    (begin < run.end).then_some(begin)
}

/// Begins of the first part in `run` and of the first part after `run`. `None` if no part begins there.
/// (The same for slices: [`beginning_in`](crate::slice).)
fn parts_in(text: &str, run: Range<usize>, separator: &impl Separator) -> Option<(usize, Option<usize>)> {
    let next = run.end..text.len() + 1;
    Some((part_in(text, run, separator)?, part_in(text, next, separator)))
}

/// The parts that begin in `run`, as one text.
fn part<'a>(text: &'a str, run: Range<usize>, separator: &impl Separator) -> Option<&'a str> {
    parts_in(text, run, separator).map(|(first, next)| &text[first..next.unwrap_or(text.len())])
}

names! {
    Bytes<'a> = &'a [u8], recipe::Copied<Plain>;
    Chars<'a> = Range<usize>, Of<TextChars<'a>>;
    CharIndices<'a> = Range<usize>, Of<TextCharIndices<'a>>;
    EncodeUtf16<'a> = Range<usize>, Of<TextUtf16<'a>>;
    Lines<'a> = Range<usize>, Of<TextLines<'a>>;
    SplitWhitespace<'a> = Range<usize>, Of<TextWords<'a>>;
    SplitAsciiWhitespace<'a> = Range<usize>, Of<TextAsciiWords<'a>>;
    Split<'a, P> = Range<usize>, Of<TextParts<'a, P>>;
    SplitInclusive<'a, P> = Range<usize>, Of<TextInclusive<'a, P>>;
    SplitTerminator<'a, P> = Range<usize>, Of<TextParts<'a, P>>;
    Matches<'a, P> = Range<usize>, Of<TextMatches<'a, P>>;
    MatchIndices<'a, P> = Range<usize>, Of<TextMatchIndices<'a, P>>;
}

/// Data of iterators over the parts of a string: the struct, and the items that begin in a run of bytes.
macro_rules! texts {
    ($($(#[$doc:meta])*
    $name:ident<$life:lifetime $(, $by:ident)?> => $item:ty: |$text:ident, $run:ident $(, $separator:ident)?| $items:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<$life $(, $by)?>(&$life str $(, $by)?);

        impl<$life $(, $by: Separator)?> Indices for $name<$life $(, $by)?> {
            type Item = $item;
            const EXACT: bool = false;

            fn items(&self, $run: Range<usize>) -> impl Iterator<Item = $item> {
                let $text = self.0;
                $(let $separator = &self.1;)?
                $items
            }
        }
    )*};
}
texts! {
    /// Characters of a string.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let chars: windrow::str::Chars<'_> = "naïve".par_chars();
    /// assert_eq!(chars.count(), 5);
    /// ```
    TextChars<'a> => char: |text, run| text[chars(text, run)].chars();
    /// Characters of a string, with their indices.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let chars: windrow::str::CharIndices<'_> = "naïve".par_char_indices();
    /// assert_eq!(chars.find_first(|(_, c)| *c == 'v'), Some((4, 'v')));
    /// ```
    TextCharIndices<'a> => (usize, char): |text, run| {
        let run = chars(text, run);
        text[run.clone()].char_indices().map(move |(at, c)| (run.start + at, c))
    };
    /// Lines of a string.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let lines: windrow::str::Lines<'_> = "one\ntwo\n".par_lines();
    /// assert_eq!(lines.collect::<Vec<_>>(), ["one", "two"]);
    /// ```
    TextLines<'a> => &'a str: |text, run| part(text, run, &'\n').into_iter().flat_map(str::lines);
    /// Words of a string.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let words: windrow::str::SplitWhitespace<'_> = "one two".par_split_whitespace();
    /// assert_eq!(words.count(), 2);
    /// ```
    TextWords<'a> => &'a str:
        |text, run| part(text, run, &char::is_whitespace).into_iter().flat_map(str::split_whitespace);
    /// Words of a string, between ASCII white space.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let words: windrow::str::SplitAsciiWhitespace<'_> = "one two".par_split_ascii_whitespace();
    /// assert_eq!(words.count(), 2);
    /// ```
    TextAsciiWords<'a> => &'a str: |text, run| {
        part(text, run, &|c: char| c.is_ascii_whitespace()).into_iter().flat_map(str::split_ascii_whitespace)
    };
    /// Parts of a string between separators.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let parts: windrow::str::Split<'_, char> = "a-b".par_split('-');
    /// assert_eq!(parts.collect::<Vec<_>>(), ["a", "b"]);
    /// ```
    TextParts<'a, P> => &'a str: |text, run, separator| {
        let parts = parts_in(text, run, separator).map(|(first, next)| match next {
            // Without the last separator: after it `split` would find an empty part.
            Some(next) => {
                let parts = &text[first..next];
                &parts[..parts.len() - parts.chars().next_back().map_or(0, char::len_utf8)]
            }
            None => &text[first..],
        });
        parts.into_iter().flat_map(|parts| parts.split(|c| separator.is(c)))
    };
    /// Parts of a string, each with the separator at its end.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let parts: windrow::str::SplitInclusive<'_, char> = "a-b".par_split_inclusive('-');
    /// assert_eq!(parts.collect::<Vec<_>>(), ["a-", "b"]);
    /// ```
    TextInclusive<'a, P> => &'a str: |text, run, separator| {
        part(text, run, separator).into_iter().flat_map(|part| part.split_inclusive(|c| separator.is(c)))
    };
    /// Separators in a string, with their indices.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let found: windrow::str::MatchIndices<'_, char> = "a-b".par_match_indices('-');
    /// assert_eq!(found.collect::<Vec<_>>(), [(1, "-")]);
    /// ```
    TextMatchIndices<'a, P> => (usize, &'a str): |text, run, separator| {
        let run = chars(text, run);
        text[run.clone()].match_indices(|c| separator.is(c)).map(move |(at, found)| (run.start + at, found))
    };
    /// Separators in a string.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let found: windrow::str::Matches<'_, char> = "a-b".par_matches('-');
    /// assert_eq!(found.collect::<Vec<_>>(), ["-"]);
    /// ```
    TextMatches<'a, P> => &'a str: |text, run, separator| text[chars(text, run)].matches(|c| separator.is(c));
    /// UTF-16 code units of a string.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// // It is the data of this iterator.
    /// let units: windrow::str::EncodeUtf16<'_> = "ab".par_encode_utf16();
    /// assert_eq!(units.collect::<Vec<_>>(), [0x61, 0x62]);
    /// ```
    TextUtf16<'a> => u16: |text, run| text[chars(text, run)].encode_utf16();
}

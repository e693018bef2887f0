//! Parts of strings as items.
//!
//! The source is a range of bytes. A part belongs to the member that has its first byte; so nothing is looked for beforehand, and
//! bytes are the weight of a claim.

use std::ops::Range;

use crate::iter::{IntoParallelIterator, Par, ParallelIterator};
use crate::recipe::{Copied, Indices, Of, Plain};

/// Parts of a string as items.
pub trait ParallelString {
    /// The string.
    #[doc(hidden)]
    fn whole(&self) -> &str;

    /// Its bytes.
    fn par_bytes(&self) -> Par<&[u8], Copied<Plain>> {
        self.whole().as_bytes().into_par_iter().copied()
    }

    /// Its characters.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// assert_eq!("naïve".par_chars().filter(|c| !c.is_ascii()).collect::<String>(), "ï");
    /// ```
    fn par_chars(&self) -> Par<Range<usize>, Of<Chars<'_>>> {
        by_bytes(self.whole(), Chars)
    }

    /// Its characters, each with the index of its first byte.
    fn par_char_indices(&self) -> Par<Range<usize>, Of<CharIndices<'_>>> {
        by_bytes(self.whole(), CharIndices)
    }

    /// Its lines, as [`str::lines`] gives them.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let sum: u32 = "1\n20\r\n300\n".par_lines().map(|line| line.parse::<u32>().unwrap()).sum();
    /// assert_eq!(sum, 321);
    /// ```
    fn par_lines(&self) -> Par<Range<usize>, Of<Lines<'_>>> {
        by_bytes(self.whole(), Lines)
    }

    /// Its words: what is between white space, as [`str::split_whitespace`] gives them.
    fn par_split_whitespace(&self) -> Par<Range<usize>, Of<Words<'_>>> {
        by_bytes(self.whole(), Words)
    }

    /// Its words: what is between ASCII white space, as [`str::split_ascii_whitespace`] gives them.
    fn par_split_ascii_whitespace(&self) -> Par<Range<usize>, Of<AsciiWords<'_>>> {
        by_bytes(self.whole(), AsciiWords)
    }

    /// The parts between the separators, and before the first and after the last one: one more than there are separators.
    fn par_split<P: Separator>(&self, separator: P) -> Par<Range<usize>, Of<Split<'_, P>>> {
        let text = self.whole();
        // A part can begin at every byte and behind the last one.
        Par::of(0..text.len() + 1, Of(Split(text, separator)))
    }

    /// The parts that separators end, and the one after the last separator if it is not empty.
    fn par_split_terminator<P: Separator>(&self, separator: P) -> Par<Range<usize>, Of<Split<'_, P>>> {
        by_bytes(self.whole(), |text| Split(text, separator))
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

/// What can separate parts of a string: a `char`, several, or a function that says which do. Not meant to be implemented outside
/// of windrow.
pub trait Separator: Sync {
    #[doc(hidden)]
    fn is(&self, c: char) -> bool;

    /// Where the first one in `text` begins.
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

impl<const N: usize> Separator for [char; N] {
    fn is(&self, c: char) -> bool {
        self.contains(&c)
    }
}

impl<F: Fn(char) -> bool + Sync> Separator for F {
    fn is(&self, c: char) -> bool {
        self(c)
    }
}

/// Where the first character begins that does so at `at` or later; the end, if none does.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

/// The characters that begin in `run`.
fn chars(text: &str, run: Range<usize>) -> Range<usize> {
    boundary(text, run.start)..boundary(text, run.end)
}

/// Where the first part begins that does so in `run`: at the very front, or behind a separator.
fn part_in(text: &str, run: Range<usize>, separator: &impl Separator) -> Option<usize> {
    if run.is_empty() {
        return None;
    }
    let start = boundary(text, run.start);
    let Some(before) = text[..start].chars().next_back() else {
        return Some(0);
    };
    // The character before may be the separator. What is behind `run` is not looked at, however long this part is.
    let from = start - before.len_utf8();
    let seen = &text[from..boundary(text, run.end).max(start)];
    let at = separator.find(seen)?;
    let begin = from + at + seen[at..].chars().next().map_or(0, char::len_utf8);
    (begin < run.end).then_some(begin)
}

/// The parts that begin in `run`: where the first one begins, and where the first one behind them does, if there is one.
/// (The same for slices: [`beginning_in`](crate::slice).)
fn parts_in(text: &str, run: Range<usize>, separator: &impl Separator) -> Option<(usize, Option<usize>)> {
    let next = run.end..text.len() + 1;
    Some((part_in(text, run, separator)?, part_in(text, next, separator)))
}

/// Characters of a string.
#[derive(Clone, Copy, Debug)]
pub struct Chars<'a>(&'a str);

impl Indices for Chars<'_> {
    type Item = char;
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = char> {
        self.0[chars(self.0, run)].chars()
    }
}

/// Characters of a string, with their indices.
#[derive(Clone, Copy, Debug)]
pub struct CharIndices<'a>(&'a str);

impl Indices for CharIndices<'_> {
    type Item = (usize, char);
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = (usize, char)> {
        let run = chars(self.0, run);
        self.0[run.clone()].char_indices().map(move |(at, c)| (run.start + at, c))
    }
}

/// Parts of a string that a standard iterator finds, if it is given whole ones.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident: $separator:expr, |$part:ident| $items:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(&'a str);

        impl<'a> Indices for $name<'a> {
            type Item = &'a str;
            const EXACT: bool = false;

            fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a str> {
                let text = self.0;
                let parts = parts_in(text, run, &$separator);
                parts.into_iter().flat_map(move |(first, next)| {
                    let $part = &text[first..next.unwrap_or(text.len())];
                    $items
                })
            }
        }
    )*};
}
parts! {
    /// Lines of a string.
    Lines: '\n', |text| text.lines();
    /// Words of a string.
    Words: char::is_whitespace, |text| text.split_whitespace();
    /// Words of a string, between ASCII white space.
    AsciiWords: |c: char| c.is_ascii_whitespace(), |text| text.split_ascii_whitespace();
}

/// Parts of a string between separators.
#[derive(Clone, Debug)]
pub struct Split<'a, P>(&'a str, P);

impl<'a, P: Separator> Indices for Split<'a, P> {
    type Item = &'a str;
    const EXACT: bool = false;

    fn items(&self, run: Range<usize>) -> impl Iterator<Item = &'a str> {
        let parts = parts_in(self.0, run, &self.1).map(|(first, next)| match next {
            // Without the separator before the next part: behind it another one would begin.
            Some(next) => {
                let parts = &self.0[first..next];
                &parts[..parts.len() - parts.chars().next_back().map_or(0, char::len_utf8)]
            }
            None => &self.0[first..],
        });
        parts.into_iter().flat_map(|parts| parts.split(|c| self.1.is(c)))
    }
}

//! Splits text around added tokens and normalizes the rest, as `tokenizers` 0.23 does before anything else.
//!
//! Tokens that are not normalized are searched first, in the text as it is. The text between them is normalized, and the other tokens are
//! searched there. Each search finds the first match, the longest where several begin at one place, and goes on behind it. Flags are applied to
//! the matches that were found: a token that may not stand there is text, and what it covers is not searched again. White space that a token
//! strips is searched.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};

use crate::added::{AddedToken, Named};
use crate::encoder::Part;
use crate::fault::Unsupported;
use crate::nfc;
use crate::unicode::is_word;

/// A text without added tokens, and the added token behind it.
pub(crate) struct Split<'a> {
    pub(crate) text: Cow<'a, [u8]>,
    is_searched: bool,
    pub(crate) added: Option<u32>,
    ends: bool,
}

impl<'a> Split<'a> {
    fn text(text: Cow<'a, [u8]>) -> Self {
        Self { text, is_searched: true, added: None, ends: false }
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part { text: &self.text, begins: false, is_searched: self.is_searched, added: self.added, ends: self.ends }
    }
}

/// Finds the added tokens of all kinds.
pub(crate) struct Splitter {
    /// Tokens that are searched in the text as it is.
    original: AddedTokens,
    /// Tokens that are searched in normalized text.
    normalized: AddedTokens,
    nfc: bool,
    goes_first: bool,
}

impl Splitter {
    /// An error says why these tokens cannot be found.
    pub(crate) fn new(tokens: &[AddedToken], nfc: bool) -> Result<Self, String> {
        let (normalized, original): (Vec<AddedToken>, _) = tokens.iter().cloned().partition(|token| token.normalized);
        let mut first: Vec<Option<&u8>> = tokens.iter().map(|token| token.content.as_bytes().first()).collect();
        first.sort_unstable();
        first.dedup();
        // Without normalization, the order of the two searches shows only if they may find the same text.
        let is_one_search = normalized.is_empty() || (!nfc && (original.is_empty() || are_apart(tokens)));
        let is_plain = is_one_search && first.len() <= 2 && !tokens.iter().any(AddedToken::is_flagged);
        let (original, normalized) = (AddedTokens::of(original, false)?, AddedTokens::of(normalized, nfc)?);
        Ok(Self { original, normalized, nfc, goes_first: !is_plain })
    }

    /// True if a text has named a token that counts as text since the last call.
    pub(crate) fn take_named(&self) -> bool {
        [&self.original, &self.normalized].map(AddedTokens::take_named).contains(&true)
    }

    /// Whether all text must be split before it is scanned.
    pub(crate) fn goes_first(&self) -> bool {
        self.goes_first
    }

    /// Appends what a part is split into. The part itself, if it is in form C and scanning finds its added tokens.
    pub(crate) fn split<'a>(&self, part: Part<'a>, splits: &mut Vec<Split<'a>>) {
        if !self.goes_first && !nfc::may_change(part.text) {
            let Part { text, is_searched, added, ends, .. } = part;
            splits.push(Split { text: Cow::Borrowed(text), is_searched, added, ends });
            return;
        }
        let begin = splits.len();
        let text = std::str::from_utf8(part.text).expect("a part of a text is text");
        for (place, added) in self.original.split(text) {
            match added {
                Some(id) => add(splits, begin, id),
                None => self.split_normalized(&text[place], begin, splits),
            }
        }
        if splits.len() == begin {
            splits.push(Split::text(Cow::Borrowed(&[])));
        }
        splits.last_mut().expect("there is one").ends = part.ends;
    }

    /// Normalizes a text and splits it around the tokens that are searched then.
    fn split_normalized<'a>(&self, text: &'a str, begin: usize, splits: &mut Vec<Split<'a>>) {
        if !self.nfc || !nfc::may_change(text.as_bytes()) {
            for (place, added) in self.normalized.split(text) {
                match added {
                    Some(id) => add(splits, begin, id),
                    None => splits.push(Split::text(Cow::Borrowed(text[place].as_bytes()))),
                }
            }
            return;
        }
        let text = nfc::normalized(text);
        for (place, added) in self.normalized.split(&text) {
            match added {
                Some(id) => add(splits, begin, id),
                None => splits.push(Split::text(Cow::Owned(text[place].as_bytes().to_vec()))),
            }
        }
    }

    /// Whether a text in which a piece ends at `at`, behind a letter, can be cut there. `None` if no text can be cut.
    ///
    /// It can if no added token touches the place. Then no match extends across it, so both searches go on there as at the beginning of a text. The
    /// white space of a token is on its side of the letter, and the neighbours of a token are too. Where tokens are searched in form C,
    /// the text at hand does not tell where they are.
    pub(crate) fn can_cut(&self, text: &[u8], at: usize) -> Option<bool> {
        if self.nfc && !self.normalized.tokens.is_empty() {
            return None;
        }
        Some(!self.original.may_touch(text, at) && !self.normalized.may_touch(text, at))
    }
}

/// True if no match of a token can overlap a match of another: none begins inside another, and none is the beginning of another.
fn are_apart(tokens: &[AddedToken]) -> bool {
    let mut contents: Vec<&[u8]> = tokens.iter().map(|token| token.content.as_bytes()).collect();
    contents.sort_unstable();
    let mut begins = [false; 256];
    contents.iter().filter_map(|content| content.first()).for_each(|&first| begins[usize::from(first)] = true);
    contents.iter().all(|content| content.iter().skip(1).all(|&byte| !begins[usize::from(byte)]))
        && contents.is_sorted_by(|one, next| !next.starts_with(one))
}

/// Puts an added token behind the splits from `begin` on.
fn add(splits: &mut Vec<Split<'_>>, begin: usize, id: u32) {
    match splits[begin..].last_mut() {
        Some(last) if last.added.is_none() => last.added = Some(id),
        _ => splits.push(Split { added: Some(id), ..Split::text(Cow::Borrowed(&[])) }),
    }
}

/// Added tokens that are searched together in a text: the first match, the longest where several begin at one place, and so on after it.
///
/// ```
/// use windrow_bpe::{AddedToken, AddedTokens};
///
/// let tokens = AddedTokens::new(vec![AddedToken { lstrip: true, ..AddedToken::new("<m>", Some(7)) }])?;
/// assert_eq!(tokens.split("a <m>b"), [(0..1, None), (1..5, Some(7)), (5..6, None)]);
/// # Ok::<(), windrow_bpe::Unsupported>(())
/// ```
pub struct AddedTokens {
    searcher: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
    /// Whether a token begins with a byte.
    begins: [bool; 256],
    longest: usize,
    named: Named,
}

impl AddedTokens {
    /// # Errors
    /// A token is empty or occurs twice, or strips white space that another one may have stripped before.
    pub fn new(tokens: Vec<AddedToken>) -> Result<Self, Unsupported> {
        Self::of(tokens, false).map_err(Unsupported::new)
    }

    fn of(mut tokens: Vec<AddedToken>, nfc: bool) -> Result<Self, String> {
        if tokens.iter().any(|token| token.content.is_empty()) {
            return Err("an added token is empty".to_owned());
        }
        if nfc {
            tokens.iter_mut().for_each(|token| token.content = nfc::normalized(&token.content));
        }
        let mut known = HashSet::new();
        if let Some(twice) = tokens.iter().find(|token| !known.insert(&token.content)) {
            return Err(format!("the added token {:?} occurs twice", twice.content));
        }
        // The reference fails where such a token stands in white space that was stripped before.
        let begins_white = |token: &AddedToken| token.content.starts_with(char::is_whitespace);
        let strips = tokens.iter().any(|token| token.rstrip);
        if let Some(token) = tokens.iter().find(|token| strips && token.lstrip && begins_white(token)) {
            return Err(format!("the added token {:?} strips white space but begins with it", token.content));
        }
        let mut begins = [false; 256];
        tokens.iter().for_each(|token| begins[usize::from(token.content.as_bytes()[0])] = true);
        let longest = tokens.iter().map(|token| token.content.len()).max().unwrap_or(0);
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .start_kind(StartKind::Both)
            .build(tokens.iter().map(|token| &token.content))
            .map_err(|error| format!("the added tokens cannot be searched: {error}"))?;
        let searcher = (!tokens.is_empty()).then_some(searcher);
        Ok(Self { searcher, tokens, begins, longest, named: Named::default() })
    }

    /// The texts between the tokens, and the tokens with their ids. Those of tokens may overlap, those of texts do not.
    pub fn split(&self, text: &str) -> Vec<(Range<usize>, Option<u32>)> {
        let (mut splits, mut begin) = (Vec::new(), 0);
        for found in self.searcher.iter().flat_map(|searcher| searcher.find_iter(text)) {
            let token = &self.tokens[found.pattern().as_usize()];
            let (mut start, mut end) = (found.start(), found.end());
            let Some(id) = token.id else {
                self.named.set();
                continue;
            };
            let is_beside_word = || {
                text[..start].chars().next_back().is_some_and(is_word)
                    || text[end..].chars().next().is_some_and(is_word)
            };
            if token.single_word && is_beside_word() {
                continue;
            }
            if token.lstrip {
                start = text[..start].trim_end().len().max(begin);
            }
            if token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if begin < start {
                splits.push((begin..start, None));
            }
            splits.push((start..end, Some(id)));
            begin = end;
        }
        if begin < text.len() {
            splits.push((begin..text.len(), None));
        }
        splits
    }

    /// True if a text has named a token that counts as text since the last call.
    pub fn take_named(&self) -> bool {
        self.named.take()
    }

    /// Whether one of them may stand across `at`, end there or begin there.
    fn may_touch(&self, text: &[u8], at: usize) -> bool {
        let Some(searcher) = &self.searcher else { return false };
        let touches = |begin: usize| {
            let input = Input::new(text).range(begin..).anchored(Anchored::Yes);
            searcher.find(input).is_some_and(|found| found.end() >= at)
        };
        let begins = at.saturating_sub(self.longest)..=at.min(text.len().saturating_sub(1));
        begins.into_iter().any(|begin| self.begins[usize::from(text[begin])] && touches(begin))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grammar::Grammar;

    /// Contents of added tokens.
    const CONTENTS: [&str; 16] = [
        "<m>", " <m>", "<m> ", "<m", "m>", "<m><m>", "b", "ab", "a b", " ", "\n", "é", "e\u{301}", "_", "1", "\u{3000}",
    ];

    const PARTS: [&str; 22] = [
        "a", "b", "ab", "a b", " ", "  ", "\n", "\u{a0}", "\u{3000}", "<m>", "<m>", "<", "m>", "é", "e\u{301}", "_",
        "1", ".", "中", "'", "\u{200d}", "\u{1161}",
    ];

    /// A text between added tokens, or a token.
    #[derive(Debug, PartialEq)]
    enum Item {
        Text(String),
        Added(u32),
    }

    fn items(splitter: &Splitter, text: &str, items: &mut Vec<Item>) {
        let mut splits = Vec::new();
        splitter.split(Part::text(text.as_bytes(), true), &mut splits);
        assert!(splits.iter().rev().map(|split| split.ends).eq((0..splits.len()).map(|at| at == 0)));
        for split in &splits {
            let text = std::str::from_utf8(&split.text).expect("a split is text");
            match items.last_mut() {
                _ if text.is_empty() => {}
                Some(Item::Text(last)) => last.push_str(text),
                _ => items.push(Item::Text(text.to_owned())),
            }
            items.extend(split.added.map(Item::Added));
        }
    }

    fn split(tokens: &[AddedToken], nfc: bool, text: &str) -> Vec<Item> {
        let mut all = Vec::new();
        let mut splitter = Splitter::new(tokens, nfc).unwrap();
        splitter.goes_first = true;
        items(&splitter, text, &mut all);
        all
    }

    #[test]
    fn flags_are_those_of_the_reference() {
        use Item::{Added, Text};
        let text = |text: &str| Text(text.to_owned());
        let token = |content: &str, id| AddedToken::new(content, Some(id));
        let strip = [AddedToken { lstrip: true, rstrip: true, ..token("<m>", 1) }];
        assert_eq!(split(&strip, false, "a \u{3000}<m>\n b"), [text("a"), Added(1), text("b")]);
        assert_eq!(split(&strip, false, " <m>  <m> "), [Added(1), Added(1)]);
        let word = AddedToken { single_word: true, ..token("ab", 1) };
        let found = split(&[word], false, "ab cab ab_ ab\u{301} ab");
        assert_eq!(found, [Added(1), text(" cab ab_ ab\u{301} "), Added(1)]);
        // A match that is no token covers what the other would find in it.
        let word = AddedToken { single_word: true, ..token("abc", 1) };
        assert_eq!(split(&[word, token("bc", 2)], false, "abcd bc"), [text("abcd "), Added(2)]);
        // White space that was stripped may be a token too.
        let strip = AddedToken { rstrip: true, ..token("x", 1) };
        assert_eq!(split(&[strip, token(" ", 2)], false, "x  y"), [Added(1), Added(2), Added(2), text("y")]);
        let normalized = AddedToken { normalized: true, ..token("e\u{301}", 1) };
        assert_eq!(split(&[normalized, token("\u{301}", 2)], true, "é e\u{301}"), [Added(1), text(" e"), Added(2)]);
    }

    #[test]
    fn tokens_apart_need_no_second_search() {
        let goes_first = |[normalized, original]: [&str; 2], nfc| {
            let tokens = [
                AddedToken { normalized: true, ..AddedToken::new(normalized, Some(1)) },
                AddedToken::new(original, Some(2)),
            ];
            Splitter::new(&tokens, nfc).expect("two tokens").goes_first()
        };
        assert!(!goes_first(["<a>", "<b>"], false));
        assert!(goes_first(["<a>", "<b>"], true));
        assert!(goes_first(["<a", "<a>"], false));
        assert!(goes_first(["<a>", "a<"], false));
        assert!(goes_first(["<a>", "<a>"], false));
    }

    #[test]
    fn what_cannot_be_split() {
        let token = |content: &str| AddedToken { normalized: true, ..AddedToken::new(content, None) };
        let reason = |tokens: &[AddedToken], nfc| Splitter::new(tokens, nfc).err().unwrap_or_default();
        assert_eq!(reason(&[token("é"), token("e\u{301}")], false), "");
        assert!(reason(&[token("é"), token("e\u{301}")], true).contains("occurs twice"));
        assert!(reason(&[token("")], false).contains("is empty"));
        let (before, behind) = (AddedToken { lstrip: true, ..token(" x") }, AddedToken { rstrip: true, ..token("y") });
        assert_eq!(reason(&[before.clone(), AddedToken { normalized: false, ..behind.clone() }], false), "");
        assert!(reason(&[before, behind], false).contains("strips white space but begins with it"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { windrow_testkit::cases(300) }, ..ProptestConfig::default() })]

        #[test]
        fn text_can_be_cut_where_no_token_is(
            tokens in proptest::collection::vec((0..CONTENTS.len(), 0_u8..32), 0..5),
            parts in proptest::collection::vec(0..PARTS.len(), 0..40),
            nfc: bool,
        ) {
            let token = |(number, &(content, flags)): (u32, &(usize, u8))| AddedToken {
                content: CONTENTS[content].to_owned(),
                id: (flags & 24 != 24).then_some(number),
                single_word: flags & 1 != 0,
                lstrip: flags & 2 != 0,
                rstrip: flags & 4 != 0,
                normalized: flags & 8 != 0,
            };
            let tokens: Vec<AddedToken> = (0..).zip(&tokens).map(token).collect();
            let Ok(mut splitter) = Splitter::new(&tokens, nfc) else { return Ok(()) };
            splitter.goes_first = true;
            let text: String = parts.iter().map(|&at| PARTS[at]).collect();
            let mut whole = Vec::new();
            items(&splitter, &text, &mut whole);
            let mut from = 0;
            while let Some(cut) = Grammar::Gpt2.cut(text.as_bytes(), from) {
                if splitter.can_cut(text.as_bytes(), cut) == Some(true) {
                    let mut parts = Vec::new();
                    items(&splitter, &text[..cut], &mut parts);
                    items(&splitter, &text[cut..], &mut parts);
                    prop_assert_eq!(&parts, &whole, "{:?} at {} with {:?}", text, cut, tokens);
                }
                from = cut + 1;
            }
        }
    }
}

//! The way of a part of a text to the words of a model: added tokens, normalizers and pre-tokenizers, as `tokenizers` 0.23 has them.
//!
//! The library keeps for each byte of a text where it came from. Parts need only their ids, and are short, so strings suffice here. The tables of
//! characters are those of the crates that the library uses.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use tokenizers_023::pattern::Pattern;
use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::UnicodeNormalization;
use unicode_normalization_alignments::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;
use windrow_bpe::{AddedTokens, Grammar, PieceFault};

use super::regex::{self, Regex};
use super::words::WordModel;
use super::{Charsmap, kind, members_of, regex_of, spelled};

/// The mark of sentencepiece before a word.
const WORD: &str = "▁";

/// The steps of a file before its model.
pub(crate) struct Front {
    /// The added tokens that are searched in the text, and in normalized text.
    added: [AddedTokens; 2],
    normalizers: Vec<Normalizer>,
    splits: Vec<Split>,
}

/// The steps from a part to its ids.
pub(crate) struct Steps {
    pub(crate) front: Front,
    pub(crate) model: WordModel,
}

enum Normalizer {
    /// The forms C, D, KC and KD.
    Form {
        composes: bool,
        is_compatible: bool,
    },
    Lowercase,
    StripAccents,
    Nmt,
    Bert {
        cleans: bool,
        spaces_ideographs: bool,
        strips_accents: bool,
        lowercase: bool,
    },
    Precompiled(Box<Charsmap>),
    Replace {
        pattern: String,
        content: String,
    },
    /// Replaces runs of `at_least` spaces or more.
    ReplaceSpaces {
        at_least: usize,
        content: String,
    },
    Prepend(String),
    Strip {
        left: bool,
        right: bool,
    },
}

/// A pre-tokenizer.
enum Split {
    /// `\w+|[^\w\s]+`
    Whitespace(::regex::Regex),
    /// Around characters of a class.
    Characters(fn(char) -> bool, Behavior),
    Character(char, Behavior),
    Text(String, Behavior),
    /// `is_inverted`: what is between the matches counts as a match.
    Regex {
        regex: Regex,
        behavior: Behavior,
        is_inverted: bool,
    },
    /// Puts a space before a piece without one.
    Prefix,
    /// Spells bytes in the alphabet.
    Bytes,
    Metaspace {
        marks: Marks,
        splits: bool,
    },
}

/// The words before which a mark is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    All,
    First,
    None,
}

/// Treatment of the matches of a pattern that splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Isolated,
    Removed,
    Contiguous,
    MergedWithPrevious,
    MergedWithNext,
}

impl Behavior {
    /// `None` if there is no such behavior.
    pub(crate) fn of(node: &Value) -> Option<Self> {
        Some(match node.as_str()? {
            "Isolated" => Self::Isolated,
            "Removed" => Self::Removed,
            "Contiguous" => Self::Contiguous,
            "MergedWithPrevious" => Self::MergedWithPrevious,
            "MergedWithNext" => Self::MergedWithNext,
            _ => return None,
        })
    }

    /// The pieces of a text whose `parts`, matches or what is between them, are given.
    fn pieces(self, parts: Vec<(Range<usize>, bool)>) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::with_capacity(parts.len());
        let mut before = false;
        match self {
            Self::Isolated => pieces.extend(parts.into_iter().map(|(part, _)| part)),
            Self::Removed => pieces.extend(parts.into_iter().filter(|(_, matches)| !matches).map(|(part, _)| part)),
            Self::Contiguous | Self::MergedWithPrevious => {
                for (part, matches) in parts {
                    let joins = if self == Self::Contiguous { matches == before } else { matches && !before };
                    match pieces.last_mut().filter(|_| joins) {
                        Some(last) => last.end = part.end,
                        None => pieces.push(part),
                    }
                    before = matches;
                }
            }
            Self::MergedWithNext => {
                for (part, matches) in parts.into_iter().rev() {
                    match pieces.last_mut().filter(|_| matches && !before) {
                        Some(last) => last.start = part.start,
                        None => pieces.push(part),
                    }
                    before = matches;
                }
                pieces.reverse();
            }
        }
        pieces
    }
}

/// The parts of a text that its characters of a class divide: each is a match.
fn around(text: &str, holds: impl Fn(char) -> bool) -> Vec<(Range<usize>, bool)> {
    between(
        text,
        text.char_indices()
            .filter(|(_, character)| holds(*character))
            .map(|(at, character)| at..at + character.len_utf8()),
    )
}

/// The matches of a text, and the parts between them.
fn between(text: &str, matches: impl Iterator<Item = Range<usize>>) -> Vec<(Range<usize>, bool)> {
    let (mut parts, mut end) = (Vec::new(), 0);
    for found in matches {
        if end < found.start {
            parts.push((end..found.start, false));
        }
        end = found.end;
        parts.push((found, true));
    }
    if end < text.len() {
        parts.push((end..text.len(), false));
    }
    parts
}

fn gave_up(reason: impl ToString) -> PieceFault {
    PieceFault::Refused(regex::gave_up().map_or_else(|| reason.to_string(), str::to_owned))
}

impl Front {
    /// `None` if a step is not known here.
    pub(crate) fn new(
        normalizer: Option<&Value>,
        pre_tokenizer: Option<&Value>,
        added: [AddedTokens; 2],
    ) -> Option<Self> {
        let normalizers =
            members_of(normalizer, "normalizers").into_iter().map(Normalizer::of).collect::<Option<Vec<_>>>()?;
        let mut splits = Vec::new();
        for node in members_of(pre_tokenizer, "pretokenizers") {
            Split::add(node, &mut splits)?;
        }
        let marks_first = |split: &Split| matches!(split, Split::Metaspace { marks: Marks::First, .. });
        // Otherwise the model gets characters of two alphabets.
        let last_bytes = splits.iter().rposition(|split| matches!(split, Split::Bytes));
        let puts = |split: &Split| matches!(split, Split::Prefix | Split::Metaspace { .. });
        if last_bytes.is_some_and(|at| splits[at..].iter().any(puts)) {
            return None;
        }
        // The library marks the words that come from the first character of the text. Here that is the first word, so no step before the mark may
        // remove that character, make two of it, or put another one before it.
        if let Some(mark) = splits.iter().rposition(marks_first)
            && (!normalizers.iter().all(Normalizer::keeps_first) || splits[..mark].iter().any(puts))
        {
            return None;
        }
        Some(Self { added, normalizers, splits })
    }

    /// True if a text has named an added token that counts as text since the last call.
    pub(crate) fn take_named_text(&self) -> bool {
        self.added.each_ref().map(AddedTokens::take_named).contains(&true)
    }

    /// True if the model gets the characters of the byte-level alphabet.
    pub(crate) fn spells_bytes(&self) -> bool {
        self.splits.iter().any(|split| matches!(split, Split::Bytes))
    }
}

impl Steps {
    /// Appends the ids of a part, with which a text begins if `begins`.
    pub(crate) fn encode(&self, part: &str, begins: bool, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        let Front { added: [original, normalized], normalizers, splits } = &self.front;
        regex::begin_part(part.len());
        for (section, id) in original.split(part) {
            if let Some(id) = id {
                ids.push(id);
                continue;
            }
            let is_later = section.start == 0 && !begins;
            let mut text = Cow::Borrowed(&part[section.clone()]);
            for normalizer in normalizers {
                if let Cow::Owned(changed) = normalizer.normalize(&text, is_later) {
                    text = Cow::Owned(changed);
                }
            }
            for (piece, id) in normalized.split(&text) {
                match id {
                    Some(id) => ids.push(id),
                    None => self.split(splits, &text[piece.clone()], section.start + piece.start == 0, ids)?,
                }
            }
        }
        Ok(())
    }

    /// Splits a text, and encodes its words. `begins`: the part begins with it.
    fn split(&self, splits: &[Split], text: &str, begins: bool, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        if text.is_empty() {
            return Ok(());
        }
        let Some((split, rest)) = splits.split_first() else { return self.model.encode(text, ids) };
        let pieces = match split {
            Split::Whitespace(words) => {
                let words = words.find_iter(text).map(|found| found.range());
                words.collect()
            }
            Split::Characters(holds, behavior) => behavior.pieces(around(text, holds)),
            Split::Character(single, behavior) => behavior.pieces(around(text, |character| character == *single)),
            Split::Text(pattern, behavior) => {
                let matches = text.match_indices(pattern.as_str()).map(|(at, found)| at..at + found.len());
                behavior.pieces(between(text, matches))
            }
            Split::Regex { regex, behavior, is_inverted } => {
                let parts = regex.find_matches(text).map_err(gave_up)?;
                let parts = parts.into_iter().map(|((start, end), matches)| (start..end, matches != *is_inverted));
                behavior.pieces(parts.collect())
            }
            Split::Prefix => {
                let prefixed = if text.starts_with(' ') { Cow::Borrowed(text) } else { Cow::Owned(format!(" {text}")) };
                return self.split(rest, &prefixed, begins, ids);
            }
            Split::Bytes => {
                return match &self.model {
                    WordModel::Bytes(model) if rest.is_empty() => model.encode(text.as_bytes(), ids),
                    _ => self.split(rest, &spelled(text.as_bytes()), begins, ids),
                };
            }
            Split::Metaspace { marks, splits } => {
                let mut marked = text.replace(' ', WORD);
                let is_marked = *marks == Marks::All || (*marks == Marks::First && begins);
                if is_marked && !marked.starts_with(WORD) {
                    marked.insert_str(0, WORD);
                }
                if !splits {
                    return self.split(rest, &marked, begins, ids);
                }
                let pieces = Behavior::MergedWithNext.pieces(around(&marked, |character| WORD.starts_with(character)));
                return pieces.into_iter().try_for_each(|piece| {
                    let begins = begins && piece.start == 0;
                    self.split(rest, &marked[piece], begins, ids)
                });
            }
        };
        pieces.into_iter().try_for_each(|piece: Range<usize>| {
            let begins = begins && piece.start == 0;
            self.split(rest, &text[piece], begins, ids)
        })
    }
}

/// The characters that `BertNormalizer` puts between spaces.
fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f | 0x2b920..=0x2ceaf
        | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

/// The characters of a text after a change of each.
fn mapped<I: IntoIterator<Item = char>>(text: &str, change: impl Fn(char) -> I) -> Cow<'_, str> {
    Cow::Owned(text.chars().flat_map(change).collect())
}

impl Normalizer {
    fn of(node: &Value) -> Option<Self> {
        let flag = |name: &str| node.get(name).and_then(Value::as_bool);
        let text = |name: &str| node.get(name).and_then(Value::as_str).map(str::to_owned);
        let form = |composes, is_compatible| Self::Form { composes, is_compatible };
        Some(match kind(node) {
            "NFC" => form(true, false),
            "NFD" => form(false, false),
            "NFKC" => form(true, true),
            "NFKD" => form(false, true),
            "Lowercase" => Self::Lowercase,
            "StripAccents" => Self::StripAccents,
            "Nmt" => Self::Nmt,
            "BertNormalizer" => Self::Bert {
                cleans: flag("clean_text")?,
                spaces_ideographs: flag("handle_chinese_chars")?,
                strips_accents: flag("strip_accents").or(flag("lowercase"))?,
                lowercase: flag("lowercase")?,
            },
            "Precompiled" => Self::Precompiled(Box::new(Charsmap::new(&text("precompiled_charsmap")?)?)),
            "Replace" => {
                let content = text("content")?;
                match (node.get("pattern")?.get("String").and_then(Value::as_str), regex_of(node)) {
                    (Some(pattern), None) if !pattern.is_empty() => {
                        Self::Replace { pattern: pattern.to_owned(), content }
                    }
                    (None, Some(" {2,}")) => Self::ReplaceSpaces { at_least: 2, content },
                    (None, Some(" +")) => Self::ReplaceSpaces { at_least: 1, content },
                    _ => return None,
                }
            }
            "Prepend" => Self::Prepend(text("prepend")?),
            "Strip" => Self::Strip { left: flag("strip_left")?, right: flag("strip_right")? },
            _ => return None,
        })
    }

    /// True if the first character of a text becomes one character, and stays the first.
    fn keeps_first(&self) -> bool {
        match self {
            Self::Replace { pattern, content } => [pattern, content].iter().all(|text| text.chars().count() == 1),
            // `Lowercase` makes two characters of one: of U+0130.
            _ => false,
        }
    }

    /// The normal form of a text. `is_later`: other text stands before it.
    fn normalize<'t>(&self, text: &'t str, is_later: bool) -> Cow<'t, str> {
        match self {
            Self::Form { .. } | Self::StripAccents if text.is_ascii() => Cow::Borrowed(text),
            Self::Form { composes, is_compatible } => Cow::Owned(match (composes, is_compatible) {
                (true, false) => text.nfc().map(|(character, _)| character).collect(),
                (false, false) => text.nfd().map(|(character, _)| character).collect(),
                (true, true) => text.nfkc().map(|(character, _)| character).collect(),
                (false, true) => text.nfkd().map(|(character, _)| character).collect(),
            }),
            Self::Lowercase if text.is_ascii() => Cow::Owned(text.to_ascii_lowercase()),
            Self::Lowercase => mapped(text, char::to_lowercase),
            Self::StripAccents => {
                mapped(text, |character| Some(character).filter(|&character| !is_combining_mark(character)))
            }
            Self::Nmt => mapped(text, nmt),
            Self::Bert { cleans, spaces_ideographs, strips_accents, lowercase } => {
                let mut text = Cow::Borrowed(text);
                if *cleans && !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                    text = Cow::Owned(text.chars().filter_map(cleaned).collect());
                }
                if *spaces_ideographs && text.contains(is_ideograph) {
                    let spaced = text.chars().flat_map(|character| match is_ideograph(character) {
                        true => [Some(' '), Some(character), Some(' ')],
                        false => [None, Some(character), None],
                    });
                    text = Cow::Owned(spaced.flatten().collect());
                }
                if *strips_accents && !text.is_ascii() {
                    let decomposed = text.nfd().map(|(character, _)| character);
                    text = Cow::Owned(decomposed.filter(|character| !character.is_mark_nonspacing()).collect());
                }
                if *lowercase {
                    text = Cow::Owned(Self::Lowercase.normalize(&text, is_later).into_owned());
                }
                text
            }
            Self::Precompiled(charsmap) if charsmap.keeps(text) => Cow::Borrowed(text),
            Self::Precompiled(charsmap) => {
                let mut normal = String::with_capacity(text.len());
                for grapheme in text.graphemes(true) {
                    match charsmap.text(grapheme).filter(|_| grapheme.len() < 6) {
                        Some(other) => normal.push_str(other),
                        None => grapheme.char_indices().for_each(|(at, character)| {
                            let single = &grapheme[at..at + character.len_utf8()];
                            normal.push_str(charsmap.text(single).unwrap_or(single));
                        }),
                    }
                }
                Cow::Owned(normal)
            }
            Self::Replace { pattern, content } => match text.contains(pattern.as_str()) {
                true => Cow::Owned(text.replace(pattern.as_str(), content)),
                false => Cow::Borrowed(text),
            },
            Self::ReplaceSpaces { at_least, content } => {
                let mut replaced = String::with_capacity(text.len());
                for piece in Behavior::Contiguous.pieces(around(text, |character| character == ' ')) {
                    let is_run = piece.len() >= *at_least && text[piece.clone()].starts_with(' ');
                    replaced.push_str(if is_run { content } else { &text[piece] });
                }
                Cow::Owned(replaced)
            }
            Self::Prepend(mark) if !is_later && !text.is_empty() => Cow::Owned(format!("{mark}{text}")),
            Self::Prepend(_) => Cow::Borrowed(text),
            Self::Strip { left, right } => {
                let mut text = text;
                if *right {
                    text = text.trim_end();
                }
                if *left && !is_later {
                    text = text.trim_start();
                }
                Cow::Owned(text.to_owned())
            }
        }
    }
}

/// A character after the cleaning of `BertNormalizer`, if it stays.
fn cleaned(character: char) -> Option<char> {
    match character {
        ' '..='~' => Some(character),
        '\t' | '\n' | '\r' => Some(' '),
        '\0' | '\u{fffd}' => None,
        other if other.is_other() => None,
        white if white.is_whitespace() => Some(' '),
        other => Some(other),
    }
}

/// A character after `Nmt`, if it stays.
fn nmt(character: char) -> Option<char> {
    match u32::from(character) {
        1..=8 | 0xb | 0xe..=0x1f | 0x7f | 0x8f | 0x9f => None,
        9 | 0xa | 0xc | 0xd | 0x1680 | 0x200b..=0x200f | 0x2028 | 0x2029 | 0x2581 | 0xfeff | 0xfffd => Some(' '),
        _ => Some(character),
    }
}

fn is_punctuation(character: char) -> bool {
    if character.is_ascii() { character.is_ascii_punctuation() } else { character.is_punctuation() }
}

impl Split {
    /// Adds the steps of a pre-tokenizer.
    fn add(node: &Value, splits: &mut Vec<Self>) -> Option<()> {
        let flag = |name: &str, default| node.get(name).map_or(Some(default), Value::as_bool);
        let behavior = || node.get("behavior").map_or(Some(Behavior::Isolated), Behavior::of);
        let split = match kind(node) {
            "Whitespace" => Self::Whitespace(::regex::Regex::new(r"\w+|[^\w\s]+").ok()?),
            "WhitespaceSplit" => Self::Characters(char::is_whitespace, Behavior::Removed),
            "BertPreTokenizer" => {
                splits.push(Self::Characters(char::is_whitespace, Behavior::Removed));
                Self::Characters(is_punctuation, Behavior::Isolated)
            }
            "Punctuation" => Self::Characters(is_punctuation, behavior()?),
            "Digits" => {
                let behavior =
                    if flag("individual_digits", false)? { Behavior::Isolated } else { Behavior::Contiguous };
                Self::Characters(char::is_numeric, behavior)
            }
            "CharDelimiterSplit" => {
                Self::Character(node.get("delimiter")?.as_str()?.chars().next()?, Behavior::Removed)
            }
            "ByteLevel" => {
                if flag("add_prefix_space", true)? {
                    splits.push(Self::Prefix);
                }
                if flag("use_regex", true)? {
                    let regex = Regex::new(&Grammar::Gpt2.patterns()[0]).ok()?;
                    splits.push(Self::Regex { regex, behavior: Behavior::Isolated, is_inverted: false });
                }
                Self::Bytes
            }
            "Metaspace" if node.get("replacement").and_then(Value::as_str) == Some(WORD) => {
                let marks = match node.get("prepend_scheme").and_then(Value::as_str) {
                    None | Some("always") => Marks::All,
                    Some("first") => Marks::First,
                    Some("never") => Marks::None,
                    Some(_) => return None,
                };
                let splits = node.get("split").filter(|split| !split.is_null()).map_or(Some(true), Value::as_bool)?;
                Self::Metaspace { marks, splits }
            }
            "Split" => {
                let is_inverted = flag("invert", false)?;
                match (node.get("pattern")?.get("String").and_then(Value::as_str), regex_of(node)) {
                    (Some(pattern), None) if !pattern.is_empty() && !is_inverted => {
                        Self::Text(pattern.to_owned(), behavior()?)
                    }
                    (None, Some(pattern)) => {
                        Self::Regex { regex: Regex::new(pattern).ok()?, behavior: behavior()?, is_inverted }
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        splits.push(split);
        Some(())
    }
}

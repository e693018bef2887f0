//! Places at which a text can be cut so that the ids of its parts are those of the whole.
//!
//! A place is named by the two characters around it. [`TextCuts`] stores pairs of bytes, so each pair of bytes is followed through the file: added
//! tokens, normalizers, pre-tokenizers and the model. Each step either shows that it treats both sides of the place as if the other were not
//! there, or the place is no cut. What is known of the two characters is an [`Edge`] on each side.
//!
//! # Steps
//! * An *added token* must not be found across the place, and must not look across it (`lstrip`, `rstrip`, `single_word`).
//! * A *normalizer* must give the normal form of the first part followed by that of the second. A few mark the beginning or the end of a text
//!   (`Prepend`, `Strip`): they do so at the beginning of the first part only, which is why [`Cuttable::marks_beginning`].
//! * A *pre-tokenizer* must split both parts as it splits the whole: with a boundary at the place ([`Seen::Boundary`]), or with the last piece of
//!   the first part joined to the first piece of the second ([`Seen::Joined`]).
//! * Without a boundary, no merge of a *BPE* model may cross the place: no token has both characters side by side.
//!
//! A place of which this is not known is no cut, and a file with an unknown step has none.

use ahash::AHashSet as HashSet;
use std::ops::RangeInclusive;

use serde_json::Value;
use windrow_bpe::{Grammar, TextCuts};

use super::check::{is_byte_level, text_option};
use super::file::{File, Kind};
use super::forms::Forms;
use super::matches::{Matches, Side};
use crate::engine::{BYTE_CHARACTERS, Behavior, Charsmap, kind, members_of, regex_of};

/// The ways to cut texts of a tokenizer.
pub(super) struct Cuttable {
    pub(super) cuts: TextCuts,
    /// True if the beginning of a text has other ids than the same characters elsewhere.
    pub(super) marks_beginning: bool,
}

/// Knowledge of a character next to the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Known(char),
    /// A space or the mark of a word, [`WORD`].
    Gap,
    /// Any character but ASCII with this byte next to the place.
    Foreign(u8),
    /// Any character, or none.
    Unknown,
}

const WORD: char = '▁';

impl Edge {
    fn of(byte: u8) -> Self {
        if byte.is_ascii() { Self::Known(byte.into()) } else { Self::Foreign(byte) }
    }

    /// If the character is one for which `holds`; `None` if it depends.
    fn is(self, holds: impl Fn(char) -> bool) -> Option<bool> {
        match self {
            Self::Known(character) => Some(holds(character)),
            Self::Gap => Some(holds(' ')).filter(|&first| first == holds(WORD)),
            Self::Foreign(_) | Self::Unknown => None,
        }
    }

    /// True if the character may be this one. `byte` is the one of its bytes next to the place.
    fn may_be(self, character: char, byte: u8) -> bool {
        match self {
            Self::Known(known) => known == character,
            Self::Gap => character == ' ' || character == WORD,
            Self::Foreign(foreign) => foreign == byte,
            Self::Unknown => true,
        }
    }

    /// The edge after a change of single characters; of others, nothing is known.
    fn map(self, change: impl Fn(char) -> char) -> Self {
        match self {
            Self::Known(character) => Self::Known(change(character)),
            Self::Gap if change(' ') == ' ' && change(WORD) == WORD => Self::Gap,
            _ => Self::Unknown,
        }
    }
}

/// The byte of a character next to a place after it, and before it.
fn last_byte(character: char) -> u8 {
    character.encode_utf8(&mut [0; 4]).bytes().last().unwrap_or_default()
}

fn first_byte(character: char) -> u8 {
    character.encode_utf8(&mut [0; 4]).as_bytes()[0]
}

/// The characters before and after a place.
#[derive(Clone, Copy, Debug)]
struct Place {
    before: Edge,
    after: Edge,
    /// True if a pre-tokenizer removed the character after the place.
    is_removed: bool,
}

impl Place {
    /// True if these characters may stand next to each other there.
    fn may_have(self, before: char, after: char) -> bool {
        self.before.may_be(before, last_byte(before)) && self.after.may_be(after, first_byte(after))
    }
}

/// Relation of the pieces of the whole to those of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Boundary,
    Joined,
}

/// A normalizer.
enum Normalizer {
    /// NFC and NFKC, which may compose a letter with marks after it.
    Composes,
    Decomposes,
    Lowercase,
    StripAccents,
    Nmt,
    Bert {
        cleans: bool,
        decomposes: bool,
        lowercase: bool,
    },
    /// `prepends`: a key begins with one of [`PREPENDED`].
    Precompiled {
        charsmap: Box<Charsmap>,
        prepends: bool,
    },
    Replace {
        pattern: Vec<char>,
        content: Vec<char>,
    },
    /// Replaces runs of spaces.
    ReplaceSpaces {
        content: Vec<char>,
    },
    Prepend,
    Strip {
        left: bool,
    },
}

/// The relation of the pieces that are made around single characters. Each edge says if it is such a character.
fn see(behavior: Behavior, before: Option<bool>, after: Option<bool>) -> Seen {
    let is_boundary = match behavior {
        Behavior::Isolated | Behavior::Removed => before == Some(true) || after == Some(true),
        Behavior::Contiguous => before.zip(after).is_some_and(|(before, after)| before != after),
        Behavior::MergedWithPrevious => before == Some(true),
        Behavior::MergedWithNext => after == Some(true),
    };
    if is_boundary { Seen::Boundary } else { Seen::Joined }
}

/// A pre-tokenizer.
enum PreTokenizer {
    Whitespace,
    WhitespaceSplit,
    Bert,
    Punctuation(Behavior),
    Digits(Behavior),
    Character(char, Behavior),
    /// `keeps_others`: what is between the matches is not removed.
    Matches {
        matches: Box<Matches>,
        keeps_others: bool,
    },
    Prefix,
    Bytes,
    /// `marks_first`: the first word of a text gets a mark, and no other.
    Metaspace {
        word: char,
        prepends: bool,
        marks_first: bool,
        splits: bool,
    },
}

/// The ways to cut texts for a file, or the reason why there are none. `forms` are those of its added tokens.
pub(super) fn of(file: &File<'_>, forms: &Forms) -> Result<Cuttable, String> {
    if file.model.vocab.is_empty() {
        return Err("the vocabulary is empty".to_owned());
    }
    let mut normalizers = Vec::new();
    if let Some(node) = file.parts.get("normalizer").filter(|node| !node.is_null()) {
        for member in members_of(Some(node), "normalizers") {
            normalizers.push(normalizer(member)?);
        }
    }
    let mut pre_tokenizers = Vec::new();
    for member in members_of(file.parts.get("pre_tokenizer"), "pretokenizers") {
        pre_tokenizer(member, &mut pre_tokenizers)?;
    }
    let marks_beginning = normalizers
        .iter()
        .any(|normalizer| matches!(normalizer, Normalizer::Prepend | Normalizer::Strip { left: true }));
    let added = Added::new(file, forms, marks_beginning);
    // The library marks all words that come from the first character of a text, so that character must not become several words.
    let marks_first = |step: &PreTokenizer| matches!(step, PreTokenizer::Metaspace { marks_first: true, .. });
    if let Some(mark) = pre_tokenizers.iter().rposition(marks_first)
        && (mark > 0 || file.added.iter().any(|token| token.normalized))
        && normalizers.iter().any(Normalizer::expands)
    {
        return Err(
            "windrow does not know which words the Metaspace pre-tokenizer marks after these normalizers".to_owned()
        );
    }
    let path = Path { added, seams: Seams::of(file), normalizers, pre_tokenizers };
    let cuts = TextCuts::new(|before, after| path.is_cut(before, after), path.barred());
    if cuts.is_empty() {
        return Err("windrow knows no position at which a text can be cut".to_owned());
    }
    Ok(Cuttable { cuts, marks_beginning })
}

/// The steps from a text to its ids.
struct Path {
    added: Added,
    normalizers: Vec<Normalizer>,
    pre_tokenizers: Vec<PreTokenizer>,
    seams: Option<Seams>,
}

impl Path {
    fn is_cut(&self, before: u8, after: u8) -> bool {
        // One grapheme, and one line end.
        (before, after) != (b'\r', b'\n') && self.follow(before, after).is_some()
    }

    /// `None` if the place is no cut.
    fn follow(&self, before: u8, after: u8) -> Option<()> {
        let mut place = Place { before: Edge::of(before), after: Edge::of(after), is_removed: false };
        if !self.added.allow_original(before, after) {
            return None;
        }
        for normalizer in &self.normalizers {
            place = normalizer.normalize(place)?;
        }
        self.added.allow_normalized(place)?;
        let mut seen = Seen::Joined;
        for pre_tokenizer in &self.pre_tokenizers {
            let (next, more) = pre_tokenizer.split(place, seen)?;
            place = next;
            if more == Seen::Boundary {
                seen = Seen::Boundary;
            }
        }
        match seen {
            Seen::Boundary => Some(()),
            Seen::Joined => self.seams.as_ref()?.allow(place),
        }
    }

    /// Characters after which a text is not cut: those that form a grapheme with the next, if graphemes are normalized, and white space.
    fn barred(&self) -> Vec<RangeInclusive<char>> {
        let mut barred = Vec::new();
        if self.normalizers.iter().any(|normalizer| matches!(normalizer, Normalizer::Precompiled { .. })) {
            barred.extend(PREPENDED);
        }
        let has_matches = |step: &PreTokenizer| matches!(step, PreTokenizer::Matches { .. });
        if self.added.strips || self.pre_tokenizers.iter().any(has_matches) {
            barred.extend(WHITE);
        }
        barred
    }
}

/// Characters that are not ASCII and belong to the grapheme of the next character, in any version of Unicode, and their neighbours.
const PREPENDED: [RangeInclusive<char>; 7] = [
    '\u{600}'..='\u{605}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{d4e}'..='\u{d4e}',
    '\u{11000}'..='\u{11fff}',
];

/// White space that is not ASCII.
const WHITE: [RangeInclusive<char>; 8] = [
    '\u{85}'..='\u{85}',
    '\u{a0}'..='\u{a0}',
    '\u{1680}'..='\u{1680}',
    '\u{2000}'..='\u{200a}',
    '\u{2028}'..='\u{2029}',
    '\u{202f}'..='\u{202f}',
    '\u{205f}'..='\u{205f}',
    '\u{3000}'..='\u{3000}',
];

impl Normalizer {
    /// True if it may make several characters of one.
    fn expands(&self) -> bool {
        match self {
            Self::Composes | Self::Decomposes | Self::Lowercase | Self::Bert { .. } | Self::Precompiled { .. } => true,
            Self::Replace { content, .. } | Self::ReplaceSpaces { content } => content.len() > 1,
            Self::StripAccents | Self::Nmt | Self::Prepend | Self::Strip { .. } => false,
        }
    }

    /// The characters next to the place afterwards; `None` if the parts may have another normal form than the whole.
    fn normalize(&self, place: Place) -> Option<Place> {
        let Place { before, after, .. } = place;
        let keep_ascii = |edge: Edge| match edge {
            Edge::Known(character) if character.is_ascii() => edge,
            _ => Edge::Unknown,
        };
        match self {
            Self::Composes => {
                let stays = |character: char| {
                    character.is_ascii() && !character.is_ascii_alphanumeric() && !"<=>".contains(character)
                };
                (after.is(stays) == Some(true)).then_some(Place { before: keep_ascii(before), after, ..place })
            }
            Self::Decomposes | Self::StripAccents => {
                let is_ascii = after.is(|character| character.is_ascii()) == Some(true);
                is_ascii.then_some(Place { before: keep_ascii(before), after, ..place })
            }
            Self::Lowercase => {
                let lower = |edge: Edge| match edge {
                    Edge::Known(character) if character.is_ascii() => Edge::Known(character.to_ascii_lowercase()),
                    _ => Edge::Unknown,
                };
                Some(Place { before: lower(before), after: lower(after), ..place })
            }
            Self::Nmt => Some(Place { before: nmt(before), after: nmt(after), ..place }),
            Self::Bert { cleans, decomposes, lowercase } => {
                let clean = |edge: Edge| match edge {
                    Edge::Known(character) if *cleans && character.is_ascii() => match character {
                        '\t' | '\n' | '\r' => Edge::Known(' '),
                        control if control.is_ascii_control() => Edge::Unknown,
                        other => Edge::Known(other),
                    },
                    _ => keep_ascii(edge),
                };
                let (before, after) = (clean(before), clean(after));
                if *decomposes && after.is(|character| character.is_ascii()) != Some(true) {
                    return None;
                }
                let place = Place { before, after, ..place };
                if *lowercase { Self::Lowercase.normalize(place) } else { Some(place) }
            }
            Self::Precompiled { charsmap, prepends } => {
                // A grapheme begins after the place. The shortest key with which it begins decides.
                let after = match after {
                    Edge::Known(character) if character.is_ascii() => {
                        match charsmap.text(character.encode_utf8(&mut [0; 4])) {
                            Some(text) => {
                                let mut text = text.chars();
                                Edge::Known(text.next().filter(|_| text.next().is_none())?)
                            }
                            None if charsmap.begins(character) => return None,
                            None => after,
                        }
                    }
                    _ => return None,
                };
                // Alone in its grapheme, unless the character before is one of `PREPENDED`.
                let before = match before {
                    Edge::Known(character)
                        if character.is_ascii()
                            && !prepends
                            && charsmap.text(character.encode_utf8(&mut [0; 4])).is_none() =>
                    {
                        before
                    }
                    _ => Edge::Unknown,
                };
                Some(Place { before, after, ..place })
            }
            Self::Replace { pattern, content } => {
                if let [single] = **pattern {
                    let change = |edge: Edge, content: Option<&char>| match edge {
                        Edge::Known(character) if character == single => {
                            content.map_or(Edge::Unknown, |&other| Edge::Known(other))
                        }
                        Edge::Foreign(byte) if byte == last_byte(single) || byte == first_byte(single) => Edge::Unknown,
                        Edge::Gap if single == ' ' || single == WORD => Edge::Unknown,
                        other => other,
                    };
                    return Some(Place {
                        before: change(before, content.last()),
                        after: change(after, content.first()),
                        ..place
                    });
                }
                if pattern.windows(2).any(|pair| place.may_have(pair[0], pair[1])) {
                    return None;
                }
                let (&first, &last) = pattern.first().zip(pattern.last())?;
                let keep = |edge: Edge, end: char, byte: u8| if edge.may_be(end, byte) { Edge::Unknown } else { edge };
                Some(Place {
                    before: keep(before, last, last_byte(last)),
                    after: keep(after, first, first_byte(first)),
                    ..place
                })
            }
            Self::ReplaceSpaces { content } => {
                if before.is(|character| character != ' ' && character.is_ascii_graphic()) != Some(true) {
                    return None;
                }
                let after = match (after, &**content) {
                    (Edge::Known(' ') | Edge::Gap, [' ' | WORD]) => Edge::Gap,
                    (Edge::Known(other), _) if other != ' ' => after,
                    _ => Edge::Unknown,
                };
                Some(Place { before, after, ..place })
            }
            // The first part is not empty.
            Self::Prepend => (before != Edge::Unknown).then_some(place),
            Self::Strip { .. } => {
                let stays = before.is(|character| !character.is_whitespace()) == Some(true);
                stays.then_some(place)
            }
        }
    }
}

fn nmt(edge: Edge) -> Edge {
    match edge {
        Edge::Known('\t' | '\n' | '\x0c' | '\r' | ' ') => Edge::Known(' '),
        Edge::Known(character) if character.is_ascii_graphic() => edge,
        _ => Edge::Unknown,
    }
}

fn normalizer(node: &Value) -> Result<Normalizer, String> {
    let unknown = || format!("windrow does not know how the {} normalizer treats parts of a text", kind(node));
    let flag = |name: &str| node.get(name).and_then(Value::as_bool);
    Ok(match kind(node) {
        "NFC" | "NFKC" => Normalizer::Composes,
        "NFD" | "NFKD" => Normalizer::Decomposes,
        "Lowercase" => Normalizer::Lowercase,
        "StripAccents" => Normalizer::StripAccents,
        "Nmt" => Normalizer::Nmt,
        "BertNormalizer" => {
            let lowercase = flag("lowercase").ok_or_else(unknown)?;
            let decomposes = flag("strip_accents").unwrap_or(lowercase);
            Normalizer::Bert { cleans: flag("clean_text").ok_or_else(unknown)?, decomposes, lowercase }
        }
        "Precompiled" => {
            let map = node.get("precompiled_charsmap").and_then(Value::as_str).ok_or_else(unknown)?;
            let charsmap = Box::new(Charsmap::new(map).ok_or_else(unknown)?);
            let prepends = PREPENDED.into_iter().flatten().any(|character| charsmap.begins(character));
            Normalizer::Precompiled { charsmap, prepends }
        }
        "Replace" => {
            let content = node.get("content").and_then(Value::as_str).ok_or_else(unknown)?.chars().collect();
            match (node.get("pattern").and_then(|pattern| pattern.get("String")?.as_str()), regex_of(node)) {
                (Some(""), _) => return Err(unknown()),
                (Some(pattern), None) => Normalizer::Replace { pattern: pattern.chars().collect(), content },
                (None, Some(" {2,}" | " +")) => Normalizer::ReplaceSpaces { content },
                _ => return Err("the effect of the Replace normalizer may depend on distant text".to_owned()),
            }
        }
        "Prepend" => Normalizer::Prepend,
        "Strip" => Normalizer::Strip { left: flag("strip_left").ok_or_else(unknown)? },
        _ => return Err(unknown()),
    })
}

fn pre_tokenizer(node: &Value, steps: &mut Vec<PreTokenizer>) -> Result<(), String> {
    let unknown = || format!("windrow does not know how the {} pre-tokenizer treats parts of a text", kind(node));
    let flag = |name: &str, default| node.get(name).map_or(Some(default), Value::as_bool).ok_or_else(unknown);
    let behavior = || node.get("behavior").map_or(Some(Behavior::Isolated), Behavior::of).ok_or_else(unknown);
    let matches = |pattern: &str| Matches::of(pattern).map(Box::new);
    let step = match kind(node) {
        "Whitespace" => PreTokenizer::Whitespace,
        "WhitespaceSplit" => PreTokenizer::WhitespaceSplit,
        "BertPreTokenizer" => PreTokenizer::Bert,
        "Punctuation" => PreTokenizer::Punctuation(behavior()?),
        "Digits" => {
            let individual = flag("individual_digits", false)?;
            PreTokenizer::Digits(if individual { Behavior::Isolated } else { Behavior::Contiguous })
        }
        "CharDelimiterSplit" => {
            let delimiter = node.get("delimiter").and_then(Value::as_str).and_then(|text| text.chars().next());
            PreTokenizer::Character(delimiter.ok_or_else(unknown)?, Behavior::Removed)
        }
        "ByteLevel" => {
            if flag("add_prefix_space", true)? {
                steps.push(PreTokenizer::Prefix);
            }
            if flag("use_regex", true)? {
                let matches = matches(&Grammar::Gpt2.patterns()[0])?;
                steps.push(PreTokenizer::Matches { matches, keeps_others: true });
            }
            PreTokenizer::Bytes
        }
        "Metaspace" => {
            let word = node.get("replacement").and_then(Value::as_str).and_then(|text| text.chars().next());
            let scheme = node.get("prepend_scheme").and_then(Value::as_str);
            let prepends = scheme != Some("never");
            let splits = node.get("split").filter(|split| !split.is_null()).map_or(Some(true), Value::as_bool);
            let marks_first = scheme == Some("first");
            PreTokenizer::Metaspace {
                word: word.ok_or_else(unknown)?,
                prepends,
                marks_first,
                splits: splits.ok_or_else(unknown)?,
            }
        }
        "Split" => {
            let (behavior, is_inverted) = (behavior()?, flag("invert", false)?);
            match (node.get("pattern").and_then(|pattern| pattern.get("String")?.as_str()), regex_of(node)) {
                (Some(pattern), None) if pattern.chars().count() == 1 && !is_inverted => {
                    PreTokenizer::Character(pattern.chars().next().unwrap_or_default(), behavior)
                }
                (None, Some(pattern)) if matches!(behavior, Behavior::Isolated | Behavior::Removed) => {
                    let keeps_others = !(is_inverted && behavior == Behavior::Removed);
                    PreTokenizer::Matches { matches: matches(pattern)?, keeps_others }
                }
                _ => return Err(unknown()),
            }
        }
        _ => return Err(unknown()),
    };
    steps.push(step);
    Ok(())
}

impl PreTokenizer {
    /// The characters next to the place afterwards, and the relation of the pieces; `None` if the parts may have other pieces. `seen` is the relation
    /// before.
    fn split(&self, place: Place, seen: Seen) -> Option<(Place, Seen)> {
        let Place { before, after, is_removed } = place;
        let is_white = |edge: Edge| edge.is(char::is_whitespace);
        let is_punctuation = |edge: Edge| match edge {
            Edge::Known(character) if character.is_ascii() => Some(character.is_ascii_punctuation()),
            _ => None,
        };
        let around =
            |behavior: Behavior, holds: &dyn Fn(char) -> bool| see(behavior, before.is(holds), after.is(holds));
        let more = match self {
            Self::Whitespace => {
                // `\w+|[^\w\s]+`; of other characters nothing is said.
                let class = |edge: Edge| match edge {
                    Edge::Known(character) if character.is_ascii() => {
                        Some(if character.is_ascii_whitespace() || character == '\x0b' {
                            0
                        } else {
                            1 + u8::from(character.is_ascii_alphanumeric() || character == '_')
                        })
                    }
                    _ => None,
                };
                let (first, second) = (class(before), class(after));
                let differ = first.zip(second).is_some_and(|(first, second)| first != second);
                if differ || first == Some(0) || second == Some(0) { Seen::Boundary } else { Seen::Joined }
            }
            Self::WhitespaceSplit => see(Behavior::Removed, is_white(before), is_white(after)),
            Self::Bert => {
                let holds = |edge: Edge| match (is_white(edge), is_punctuation(edge)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                };
                see(Behavior::Isolated, holds(before), holds(after))
            }
            Self::Punctuation(behavior) => see(*behavior, is_punctuation(before), is_punctuation(after)),
            Self::Digits(behavior) => around(*behavior, &char::is_numeric),
            Self::Character(delimiter, behavior) => around(*behavior, &|character| character == *delimiter),
            Self::Matches { matches, keeps_others } => {
                if seen == Seen::Boundary {
                    return Some((place, seen));
                }
                let side = |edge: Edge| match edge {
                    Edge::Known(character) => Some(Side::Character(character)),
                    // White space is barred.
                    Edge::Foreign(_) => Some(Side::Foreign),
                    Edge::Gap | Edge::Unknown => None,
                };
                if matches.may_span(side(before)?, side(after)?) {
                    return None;
                }
                let is_boundary =
                    !keeps_others || matches.has_single(side(after)?) || matches.has_single(side(before)?);
                if is_boundary { Seen::Boundary } else { Seen::Joined }
            }
            Self::Prefix => {
                if seen == Seen::Joined && after != Edge::Known(' ') {
                    return None;
                }
                Seen::Joined
            }
            Self::Bytes => {
                let spell = |edge: Edge| match edge {
                    Edge::Known(character) if character.is_ascii() => Edge::Known(BYTE_CHARACTERS[character as usize]),
                    _ => Edge::Unknown,
                };
                return Some((Place { before: spell(before), after: spell(after), ..place }, Seen::Joined));
            }
            Self::Metaspace { word, prepends, marks_first, splits } => {
                let begins_word = match after {
                    Edge::Known(character) => character == ' ' || character == *word,
                    Edge::Gap => *word == WORD,
                    _ => false,
                };
                if *prepends && seen == Seen::Joined && !begins_word {
                    return None;
                }
                // Otherwise the second part has a word where a text begins.
                if *marks_first && !begins_word && !is_removed {
                    return None;
                }
                let mark = |edge: Edge| match edge {
                    Edge::Gap if *word == WORD => Edge::Known(WORD),
                    Edge::Foreign(_) => edge,
                    edge => edge.map(|character| if character == ' ' { *word } else { character }),
                };
                let place = Place { before: mark(before), after: mark(after), ..place };
                return Some((place, if *splits && begins_word { Seen::Boundary } else { Seen::Joined }));
            }
        };
        let removes = match self {
            Self::Whitespace | Self::WhitespaceSplit | Self::Bert => is_white(after) == Some(true),
            Self::Character(delimiter, Behavior::Removed) => after == Edge::Known(*delimiter),
            _ => false,
        };
        Some((Place { is_removed: is_removed || removes, ..place }, more))
    }
}

/// The places that added tokens allow.
struct Added {
    /// The contents of tokens that are searched in the text as it is, as bytes next to a place.
    original: ByteTokens,
    /// The forms of tokens that are searched in normalized text.
    normalized: Tokens,
    /// True if a token takes white space next to it.
    strips: bool,
    /// True if a token of normalized text does.
    normalized_strips: bool,
}

/// Tokens that are searched together.
#[derive(Default)]
struct Tokens {
    /// Characters next to each other in a token.
    pairs: HashSet<(char, char)>,
    /// The first characters of tokens before which a text is not cut, and the last ones after which it is not.
    first: HashSet<char>,
    last: HashSet<char>,
}

impl Tokens {
    fn add(&mut self, content: &str, looks_back: bool, looks_ahead: bool) {
        self.pairs.extend(content.chars().zip(content.chars().skip(1)));
        self.first.extend(content.chars().next().filter(|_| looks_back));
        self.last.extend(content.chars().next_back().filter(|_| looks_ahead));
    }

    fn allow(&self, place: Place) -> Option<()> {
        let touches = self.pairs.iter().any(|&(first, second)| place.may_have(first, second))
            || self.first.iter().any(|&first| place.after.may_be(first, first_byte(first)))
            || self.last.iter().any(|&last| place.before.may_be(last, last_byte(last)));
        (!touches).then_some(())
    }
}

/// [`Tokens`] by the bytes next to a place.
struct ByteTokens {
    pairs: Box<[[bool; 256]; 256]>,
    first: [bool; 256],
    last: [bool; 256],
}

impl ByteTokens {
    fn new() -> Self {
        Self { pairs: Box::new([[false; 256]; 256]), first: [false; 256], last: [false; 256] }
    }

    fn add(&mut self, content: &str, looks_back: bool, looks_ahead: bool) {
        for (before, after) in content.chars().zip(content.chars().skip(1)) {
            self.pairs[usize::from(last_byte(before))][usize::from(first_byte(after))] = true;
        }
        if let (Some(&first), Some(&last)) = (content.as_bytes().first(), content.as_bytes().last()) {
            self.first[usize::from(first)] |= looks_back;
            self.last[usize::from(last)] |= looks_ahead;
        }
    }

    fn allow(&self, before: u8, after: u8) -> bool {
        let (before, after) = (usize::from(before), usize::from(after));
        !(self.pairs[before][after] || self.first[after] || self.last[before])
    }
}

impl Added {
    fn new(file: &File<'_>, forms: &Forms, marks_beginning: bool) -> Self {
        let (mut original, mut normalized) = (ByteTokens::new(), Tokens::default());
        let mut forms = forms.iter();
        let (mut strips, mut normalized_strips) = (false, false);
        for token in &file.added {
            let looks_back = token.lstrip || token.single_word;
            let looks_ahead = token.rstrip || token.single_word || marks_beginning;
            strips |= token.lstrip || token.rstrip;
            if token.normalized {
                normalized_strips |= token.lstrip || token.rstrip;
                normalized.add(forms.next().map_or("", String::as_str), looks_back, looks_ahead);
            } else {
                original.add(&token.content, looks_back, looks_ahead);
            }
        }
        Self { original, normalized, strips, normalized_strips }
    }

    fn allow_original(&self, before: u8, after: u8) -> bool {
        !(self.strips && before.is_ascii() && char::from(before).is_whitespace()) && self.original.allow(before, after)
    }

    fn allow_normalized(&self, place: Place) -> Option<()> {
        let takes = self.normalized_strips && place.before.is(|character| !character.is_whitespace()) != Some(true);
        if takes { None } else { self.normalized.allow(place) }
    }
}

/// The places between characters that no merge of a BPE model crosses.
struct Seams {
    /// For each last byte of a character, the first bytes of characters after it in a token.
    spanned: Box<[[bool; 256]; 256]>,
    /// The tokens of one character.
    characters: HashSet<char>,
    /// True if no character is unknown.
    has_bytes: bool,
    /// True if unknown characters have a token.
    has_unknown: bool,
    /// True if that token does not depend on those before it.
    is_plain: bool,
}

impl Seams {
    /// `None` if the ids of a piece may depend on more than its merges.
    fn of(file: &File<'_>) -> Option<Self> {
        let (model, options) = (&file.model, &file.model.options);
        let flag = |name: &str| options.get(name).and_then(Value::as_bool).unwrap_or(false);
        let affix = |name: &str| text_option(model, name).is_some_and(|affix| !affix.is_empty());
        let has_affix = affix("continuing_subword_prefix") || affix("end_of_word_suffix");
        if model.kind != Kind::Bpe || has_affix || flag("ignore_merges") || is_byte_level(file) {
            return None;
        }
        let tokens: HashSet<&str> = model.vocab.iter().map(|(token, _)| token.as_str()).collect();
        let bytes: HashSet<String> = if flag("byte_fallback") {
            (0..=255_u8).map(|byte| format!("<0x{byte:02X}>")).filter(|token| tokens.contains(token.as_str())).collect()
        } else {
            HashSet::new()
        };
        let unknown = text_option(model, "unk_token");
        let is_other = |token: &String| bytes.contains(token) || unknown == Some(token.as_str());
        // Such a merge joins characters that the tokens do not show.
        if model.merges.iter().flatten().any(|(left, right)| is_other(left) || is_other(right)) {
            return None;
        }
        let mut spanned = Box::new([[false; 256]; 256]);
        for token in &tokens {
            for (before, after) in token.chars().zip(token.chars().skip(1)) {
                spanned[usize::from(last_byte(before))][usize::from(first_byte(after))] = true;
            }
        }
        let single = |token: &&str| token.chars().next().filter(|character| character.len_utf8() == token.len());
        let characters = tokens.iter().filter_map(single).collect();
        let has_bytes = bytes.len() == 256;
        let is_plain = !flag("fuse_unk") && bytes.is_empty();
        Some(Self { spanned, characters, has_bytes, has_unknown: unknown.is_some(), is_plain })
    }

    fn allow(&self, place: Place) -> Option<()> {
        let bytes = |edge: Edge, byte_of: fn(char) -> u8| match edge {
            Edge::Known(character) => Some([byte_of(character); 2]),
            Edge::Gap => Some([byte_of(' '), byte_of(WORD)]),
            Edge::Foreign(byte) => Some([byte; 2]),
            Edge::Unknown => None,
        };
        let is_known = |edge: Edge| edge.is(|character| self.characters.contains(&character)) == Some(true);
        let is_alone = match self.has_unknown {
            true => is_known(place.after) || self.is_plain,
            // Others have no ids, and their neighbours may merge.
            false => is_known(place.before) && is_known(place.after),
        };
        if !is_alone && !self.has_bytes {
            return None;
        }
        let (before, after) = (bytes(place.before, last_byte)?, bytes(place.after, first_byte)?);
        let is_spanned = before
            .iter()
            .any(|&first| after.iter().any(|&second| self.spanned[usize::from(first)][usize::from(second)]));
        (!is_spanned).then_some(())
    }
}

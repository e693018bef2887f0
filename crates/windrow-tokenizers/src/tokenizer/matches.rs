//! The characters that may stand next to each other in a match of a regex.
//!
//! Oniguruma runs the regexes. They are read here as those of the crate `regex-syntax`, except those with features that it reads otherwise: POSIX
//! classes, flags, and letters without case, of which two may be one other letter. What remains has the same classes for ASCII, and for other
//! characters only says that some are there. A match is then one of the strings that the regex describes, though maybe not each of them.

use std::collections::HashSet;

use regex_syntax::hir::{Class, Hir, HirKind};

/// A character in a text: one of ASCII, or any other that is no white space.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Character(char),
    Foreign,
}

/// ASCII characters, and two bits for all others: white space, and the rest.
type Set = [u64; 3];

const FOREIGN_WHITE: usize = 128;
const FOREIGN: usize = 129;

/// Knowledge of the matches of a regex.
pub(super) struct Matches {
    /// For each character, the characters that may follow it in a match.
    follow: Vec<Set>,
    /// Characters that are a match by themselves.
    single: Set,
    /// True if a match may depend on the next character being white space or not.
    looks_at_space: bool,
}

/// The one look-around that is known: after white space, white space or the end of the text.
const NOT_BLACK: &str = r"(?!\S)";
const BEFORE_BLACK: &str = r"\s+(?!\S)";

/// Sets of positions of a regex, as for an automaton of Glushkov.
struct Positions {
    sets: Vec<Set>,
    follow: HashSet<(usize, usize)>,
}

/// A part of a regex.
struct Part {
    first: Vec<usize>,
    last: Vec<usize>,
    is_empty: bool,
}

/// A regex with more positions takes too long to read.
const MOST: usize = 400;

impl Matches {
    /// An error says why nothing is known of the regex.
    pub(super) fn of(pattern: &str) -> Result<Self, String> {
        let unknown = |reason: &str| format!("a regex in the pre-tokenizer {reason}");
        let looks_at_space = pattern.contains(NOT_BLACK);
        if pattern.matches(NOT_BLACK).count() != pattern.matches(BEFORE_BLACK).count() {
            return Err(unknown("looks at the text around a match"));
        }
        // POSIX classes, and differences of classes, which Oniguruma does not have.
        let is_other = |features: &[&str]| features.iter().any(|feature| pattern.contains(feature));
        if !has_known_groups(pattern) || is_other(&["[:", "--", "~~"]) {
            return Err(unknown("has features that windrow does not analyze"));
        }
        let read = |pattern: &str| {
            let hir =
                regex_syntax::parse(pattern).map_err(|_| unknown("has features that windrow does not analyze"))?;
            let mut positions = Positions { sets: Vec::new(), follow: HashSet::new() };
            let part =
                positions.add(&hir).ok_or_else(|| unknown("is too long, or looks at the text around a match"))?;
            if part.is_empty {
                return Err(unknown("matches the empty string"));
            }
            Ok((positions, part))
        };
        // Without the condition, there are more matches.
        let (positions, _) = read(&pattern.replace(NOT_BLACK, ""))?;
        let mut follow = vec![[0; 3]; FOREIGN + 1];
        for &(before, after) in &positions.follow {
            for (character, next) in follow.iter_mut().enumerate() {
                if has(&positions.sets[before], character) {
                    next.iter_mut().zip(positions.sets[after]).for_each(|(next, more)| *next |= more);
                }
            }
        }
        // With a condition that never holds, there are fewer.
        let (positions, part) = read(&pattern.replace(NOT_BLACK, r"[^\s\S]"))?;
        let mut single = [0; 3];
        for at in part.first.iter().filter(|at| part.last.contains(at)) {
            single.iter_mut().zip(positions.sets[*at]).for_each(|(single, more)| *single |= more);
        }
        Ok(Self { follow, single, looks_at_space })
    }

    /// True if a match may have these two characters next to each other, or look from one at the other.
    pub(super) fn may_span(&self, before: Side, after: Side) -> bool {
        let is_white = |side: Side| matches!(side, Side::Character(character) if character.is_whitespace());
        has(&self.follow[index(before)], index(after)) || (self.looks_at_space && is_white(before) && !is_white(after))
    }

    /// True if the character is a match by itself. Where no match spans the place next to it, a match ends or begins there.
    pub(super) fn has_single(&self, side: Side) -> bool {
        matches!(side, Side::Character(character) if character.is_ascii() && has(&self.single, index(side)))
    }
}

/// True if all groups of a pattern are plain, the known look-around, or contractions without case.
fn has_known_groups(pattern: &str) -> bool {
    const CONTRACTIONS: &str = "i:'s|'t|'re|'ve|'m|'ll|'d)";
    let is_known =
        |rest: &str| rest.starts_with(':') || rest.starts_with(&NOT_BLACK[2..]) || rest.starts_with(CONTRACTIONS);
    pattern.split("(?").skip(1).all(is_known)
}

fn index(side: Side) -> usize {
    match side {
        Side::Character(character) if character.is_ascii() => character as usize,
        Side::Character(character) if character.is_whitespace() => FOREIGN_WHITE,
        Side::Character(_) | Side::Foreign => FOREIGN,
    }
}

fn has(set: &Set, at: usize) -> bool {
    set[at / 64] >> (at % 64) & 1 == 1
}

fn put(set: &mut Set, at: usize) {
    set[at / 64] |= 1 << (at % 64);
}

impl Positions {
    fn position(&mut self, set: Set) -> Option<Part> {
        let at = self.sets.len();
        self.sets.push(set);
        (at < MOST).then(|| Part { first: vec![at], last: vec![at], is_empty: false })
    }

    /// One part after the other.
    fn chain(&mut self, before: Part, after: Part) -> Part {
        let pairs = before.last.iter().flat_map(|&last| after.first.iter().map(move |&first| (last, first)));
        self.follow.extend(pairs);
        let mut first = before.first;
        if before.is_empty {
            first.extend(after.first);
        }
        let mut last = after.last;
        if after.is_empty {
            last.extend(before.last);
        }
        Part { first, last, is_empty: before.is_empty && after.is_empty }
    }

    /// `None` if the regex has too many positions, or looks around.
    fn add(&mut self, hir: &Hir) -> Option<Part> {
        let empty = || Part { first: Vec::new(), last: Vec::new(), is_empty: true };
        match hir.kind() {
            HirKind::Empty => Some(empty()),
            HirKind::Look(_) => None,
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                text.chars().try_fold(empty(), |part, character| {
                    let mut set = [0; 3];
                    put(&mut set, index(Side::Character(character)));
                    let next = self.position(set)?;
                    Some(self.chain(part, next))
                })
            }
            HirKind::Class(Class::Unicode(class)) => {
                let mut set = [0; 3];
                for range in class.ranges() {
                    let (start, end) = (u32::from(range.start()), u32::from(range.end()));
                    (start..=end.min(127)).for_each(|code| put(&mut set, code as usize));
                    if end > 127 {
                        // Which of them does not matter.
                        put(&mut set, FOREIGN);
                        put(&mut set, FOREIGN_WHITE);
                    }
                }
                self.position(set)
            }
            // No character at all.
            HirKind::Class(Class::Bytes(class)) if class.ranges().is_empty() => self.position([0; 3]),
            HirKind::Class(Class::Bytes(_)) => None,
            HirKind::Repetition(repetition) => {
                let part = self.add(&repetition.sub)?;
                if repetition.max != Some(1) {
                    let pairs = part.last.iter().flat_map(|&last| part.first.iter().map(move |&first| (last, first)));
                    self.follow.extend(pairs);
                }
                Some(Part { is_empty: part.is_empty || repetition.min == 0, ..part })
            }
            HirKind::Capture(capture) => self.add(&capture.sub),
            HirKind::Concat(parts) => parts.iter().try_fold(empty(), |before, part| {
                let part = self.add(part)?;
                Some(self.chain(before, part))
            }),
            HirKind::Alternation(parts) => {
                let mut all = Part { is_empty: false, ..empty() };
                for part in parts {
                    let part = self.add(part)?;
                    all.first.extend(part.first);
                    all.last.extend(part.last);
                    all.is_empty |= part.is_empty;
                }
                Some(all)
            }
        }
    }
}

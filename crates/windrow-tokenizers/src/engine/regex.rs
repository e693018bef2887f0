//! The regexes of a `tokenizer.json`, run by Oniguruma as `tokenizers` 0.23 runs them, with bounded work.
//!
//! A pattern is untrusted input, and Oniguruma backtracks. It counts retries, and gives up on a match that starts at one position of
//! the text after [`MOST`] of them; the library then panics. That bound holds per position, so a text of a million characters could
//! keep a thread busy for a day. Two more bounds make the work linear in the text:
//!
//! * A document has a *budget* of retries. Only expensive positions consume it.
//! * The match stack has a limit that grows with the text.
//!
//! A search first allows [`FEW`] retries per position. If a position needs more, the text is matched position by position. A position
//! charges the retries that were not enough to the budget and gets [`FACTOR`] times as many, up to [`MOST`]. The first match found this
//! way is the first match of the text.
//!
//! Two costs are not counted as retries. A backreference compares as many bytes as its group has, so patterns with backreferences are
//! refused. A possessive loop reads to the end of the text: with a malicious pattern, the work grows with the square of the text.
//!
//! A document whose budget is spent is refused. Its ids never differ from the library's.

use std::cell::Cell;

use onig::{MatchParam, Region, SearchOptions};
use tokenizers_023::Offsets;
use tokenizers_023::pattern::Pattern;

/// Retries that every position of a text has for free.
const FEW: u32 = 256;

/// Factor for the retries of a position whose retries were not enough.
const FACTOR: u32 = 2;

/// Oniguruma's own limit per position, which the library does not change.
const MOST: u32 = 10_000_000;

/// Retries per document, in addition to [`BUDGET_PER_BYTE`]. This allows some seconds.
const BUDGET: u64 = 200_000_000;

/// Retries per part of a document that is encoded by parts, in addition to those per byte. Parts are short and many, so that work stays linear.
const BUDGET_OF_PART: u64 = 100_000;

/// Retries per byte of a document. A pattern such as `\s+(?!\S)` needs less than one.
const BUDGET_PER_BYTE: u64 = 1000;

/// Entries of the match stack per byte of a text, and a constant part. A repeated group needs two or three per byte.
const STACK_PER_BYTE: usize = 16;
const STACK: usize = 1 << 20;

/// Maximum depth of nested groups. Oniguruma handles them by recursion; real patterns have five.
const MAX_NESTED: usize = 200;

/// Maximum product of nested repetitions. Oniguruma has the same limit for a single one, and counts no retries in them.
const MAX_REPEATED: u64 = 100_000;

/// Characters of a pattern that a message shows.
const SHOWN: usize = 60;

thread_local! {
    /// Retries left for the current document of this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// The reason why a regex gave up on the current document of this thread. It is stored here because errors of a normalizer are lost.
    static GAVE_UP: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Sets the budget of the next document on this thread.
pub(super) fn begin(bytes: usize) {
    LEFT.set(BUDGET + BUDGET_PER_BYTE * bytes as u64);
    GAVE_UP.set(None);
}

/// Sets the budget of the next part of a document on this thread.
pub(super) fn begin_part(bytes: usize) {
    LEFT.set(BUDGET_OF_PART + BUDGET_PER_BYTE * bytes as u64);
    GAVE_UP.set(None);
}

/// The reason why a regex has given up since [`begin`], if one has.
pub(super) fn gave_up() -> Option<&'static str> {
    GAVE_UP.take()
}

/// A regex that reports when it gives up.
#[derive(Debug)]
pub(super) struct Regex(onig::Regex);

impl Regex {
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        // The reason follows in the message, whose length is limited.
        let shown: String = pattern.chars().take(SHOWN).collect();
        let more = if shown.len() < pattern.len() { "..." } else { "" };
        let refused = |reason: &str| format!("regex {shown:?}{more}: {reason}");
        check(pattern).map_err(|reason| refused(&reason))?;
        onig::Regex::new(pattern).map(Self).map_err(|error| refused(error.description()))
    }

    /// The first match that starts at or after `from`.
    fn find(&self, text: &str, from: usize) -> Result<Option<Offsets>, onig::Error> {
        let (mut region, options) = (Region::new(), SearchOptions::SEARCH_OPTION_NONE);
        let limits = limits(text, FEW);
        match self.0.search_with_param(text, from, text.len(), options, Some(&mut region), limits) {
            Ok(found) => Ok(found.and_then(|_| region.pos(0))),
            Err(_) => self.find_place_by_place(text, from),
        }
    }

    #[cold]
    fn find_place_by_place(&self, text: &str, from: usize) -> Result<Option<Offsets>, onig::Error> {
        let mut at = from;
        loop {
            let mut retries = FEW;
            let found = loop {
                match self.match_at(text, at, retries) {
                    Err(_) if retries < MOST && charge(retries) => retries = retries.saturating_mul(FACTOR).min(MOST),
                    result => break result?,
                }
            };
            if found.is_some() || at == text.len() {
                return Ok(found);
            }
            at = boundary(text, at + 1);
        }
    }

    /// The match that starts exactly at this position.
    fn match_at(&self, text: &str, at: usize, retries: u32) -> Result<Option<Offsets>, onig::Error> {
        let (mut region, options) = (Region::new(), SearchOptions::SEARCH_OPTION_NONE);
        let found = self.0.match_with_param(text, at, options, Some(&mut region), limits(text, retries))?;
        Ok(found.and_then(|_| region.pos(0)))
    }
}

fn limits(text: &str, retries: u32) -> MatchParam {
    let mut limits = MatchParam::default();
    limits.set_retry_limit_in_match(retries);
    let stack = STACK.saturating_add(STACK_PER_BYTE.saturating_mul(text.len()));
    limits.set_match_stack_limit(u32::try_from(stack).unwrap_or(u32::MAX));
    limits
}

/// Charges the retries to the budget, if enough are left.
fn charge(retries: u32) -> bool {
    let left = LEFT.get().checked_sub(u64::from(retries));
    LEFT.set(left.unwrap_or(0));
    left.is_some()
}

/// The first character boundary at or after `at`.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len())
}

impl Pattern for &Regex {
    fn find_matches(&self, inside: &str) -> tokenizers_023::Result<Vec<(Offsets, bool)>> {
        if inside.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let mut pieces = Vec::new();
        let (mut from, mut before, mut end) = (0, None, 0);
        while from <= inside.len() {
            let found = self.find(inside, from).inspect_err(|_| {
                GAVE_UP.set(Some("a regex in the tokenizer.json needs too much backtracking"));
            })?;
            let Some((start, stop)) = found else { break };
            // An empty match directly after another match does not count.
            if start == stop && before == Some(stop) {
                from = boundary(inside, from + 1).max(from + 1);
                continue;
            }
            (from, before) = (stop, Some(stop));
            if end != start {
                pieces.push(((end, start), false));
            }
            pieces.push(((start, stop), true));
            end = stop;
        }
        if end != inside.len() {
            pieces.push(((end, inside.len()), false));
        }
        Ok(pieces)
    }
}

/// True if this character after a backslash starts a backreference: `\k`, or the number of a group. Larger numbers are octal.
fn is_backreference(first: char, rest: &str, pattern: &str) -> bool {
    let more = rest.bytes().take_while(u8::is_ascii_digit).take(8);
    let number = more.fold(u64::from(first) - u64::from('0'), |number, digit| 10 * number + u64::from(digit - b'0'));
    first == 'k' || number <= pattern.matches('(').count() as u64
}

/// Refuses patterns that Oniguruma would accept but could not run in bounded time, or on a small stack.
fn check(pattern: &str) -> Result<(), String> {
    // The largest product of repetitions in each open group.
    let mut groups = vec![1_u64];
    // The product of the repetitions that a quantifier would repeat.
    let mut last = 1;
    let mut classes = 0_usize;
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some(digit @ ('1'..='9' | 'k')) if classes == 0 && is_backreference(digit, rest.as_str(), pattern) => {
                    return Err("backreferences are not supported: their running time is unbounded".to_owned());
                }
                Some('G') if classes == 0 => {
                    return Err("\\G is not supported, because searches start at several positions".to_owned());
                }
                Some('p' | 'P' | 'x' | 'o' | 'u') if rest.as_str().starts_with('{') => {
                    rest.find(|&c| c == '}');
                    last = 1;
                }
                _ => last = 1,
            },
            '[' => {
                classes += 1;
                last = 1;
            }
            ']' if classes > 0 => classes -= 1,
            _ if classes > 0 => {}
            '(' => groups.push(1),
            ')' if groups.len() > 1 => last = groups.pop().unwrap_or(1),
            '{' => {
                let inside = rest.as_str().split('}').next().unwrap_or_default();
                let is_count = !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit() || c == ',');
                if !is_count || inside.len() == rest.as_str().len() {
                    last = 1;
                    continue;
                }
                rest = rest.as_str()[inside.len() + 1..].chars();
                let most = inside.rsplit(',').find_map(|number| number.parse::<u64>().ok());
                last = most.map_or(1, |most| most.max(1)).saturating_mul(last);
                let group = groups.last_mut().expect("the whole pattern is a group");
                *group = last.max(*group);
                if *group > MAX_REPEATED {
                    return Err(format!("nested repetitions multiply to more than {MAX_REPEATED}"));
                }
                continue;
            }
            '?' | '*' | '+' => {}
            _ => last = 1,
        }
        if groups.len() + classes > MAX_NESTED {
            return Err(format!("groups are nested more than {MAX_NESTED} levels deep"));
        }
        let group = groups.last_mut().expect("the whole pattern is a group");
        *group = last.max(*group);
    }
    Ok(())
}

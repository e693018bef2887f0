//! Decides which files go to `tokenizers` 0.23, because 1.0.0-rc.3 would give other ids.
//!
//! Every rule examines the `tokenizer.json` only. `tests/it/tokenizer_routes.rs` has a text that shows each difference.

use std::collections::HashMap;

use serde_json::Value;
use tk_encode::pipeline::{PipelinePreTokenizer, PipelineTokenizer};
use tk_encode::pre_tokenizers::split::{Split, SplitPattern};
use tk_encode::tokenizer::SplitDelimiterBehavior;
use tk_encode::utils::Grammar;
use tk_encode::utils::byte_level::char_to_byte;

use super::check::{self, Checked};
use super::file::{Added, File, Kind};
use crate::engine::WORD;

/// The reason why the file is not suitable for the release candidate, if it is not.
pub(super) fn differs(file: &File<'_>, checked: &Checked) -> Option<&'static str> {
    let added = &file.added;
    if file.model.vocab.is_empty() {
        return Some("the vocabulary is empty");
    }
    if added.iter().any(|token| token.single_word) {
        // After a match inside a word, the search continues inside that match instead of after it.
        return Some("an added token has single_word set");
    }
    if added.iter().any(|token| token.rstrip) && added.iter().any(starts_with_space) {
        // 0.23 searches again the space that the first token has taken.
        return Some("an added token has rstrip set and another starts with a space");
    }
    if marks_only_first_word(file) && file.parts.get("normalizer").is_some_and(|node| !node.is_null()) {
        // One library checks if a text begins the document before normalization, the other after it.
        return Some("the pre-tokenizer is Metaspace with prepend_scheme first, and there is a normalizer");
    }
    if added.iter().any(|token| token.normalized) && check::has_pre_tokenizer(file, "Metaspace") {
        // Metaspace became a normalizer, and changes the text in which these tokens are searched.
        return Some("an added token has normalized set, and the pre-tokenizer is Metaspace");
    }
    if ids_depend_on_order(file, checked) {
        return Some("added tokens that the model does not know are not in the order of their ids");
    }
    if has_twice(checked.added.clone()) {
        return Some("two added tokens get the same id");
    }
    if replaces_nothing(file) {
        // 0.23 finds an empty pattern between all characters, the release candidate nowhere.
        return Some("the normalizer Replace has an empty pattern");
    }
    if file.model.kind == Kind::Unigram && has_twice(file.model.vocab.iter().map(|(token, _)| token).collect()) {
        return Some("a token is in the vocabulary twice");
    }
    if file.model.kind == Kind::Bpe && has_affix(file) {
        // Words of one character get no affix, and unknown characters come out without one.
        return Some("the BPE model has a continuing_subword_prefix or an end_of_word_suffix");
    }
    if check::has_long_words(file) {
        // The release candidate reserves space for one in each encoder.
        return Some("max_input_chars_per_word is more than a million");
    }
    if check::is_byte_level(file) && has_foreign_token(file) {
        return Some("the byte-level vocabulary has a token that is not in the byte-level alphabet");
    }
    if check::is_byte_level(file) && has_unmerged_character(file) {
        return Some("the byte-level vocabulary has a token of one character that the merges of its bytes do not make");
    }
    None
}

fn has_affix(file: &File<'_>) -> bool {
    let is_there = |name| check::text_option(&file.model, name).is_some_and(|affix| !affix.is_empty());
    ["continuing_subword_prefix", "end_of_word_suffix"].into_iter().any(is_there)
}

fn starts_with_space(token: &Added) -> bool {
    token.content.starts_with(char::is_whitespace)
}

/// True if Metaspace marks only the beginning of the document.
fn marks_only_first_word(file: &File<'_>) -> bool {
    check::any_pre_tokenizer(file, &|node| {
        let text = |name: &str| node.get(name).and_then(Value::as_str);
        text("type") == Some("Metaspace") && text("prepend_scheme") == Some("first")
    })
}

/// 0.23 adds the tokens in the order of the file, the release candidate in the order of their ids.
fn ids_depend_on_order(file: &File<'_>, checked: &Checked) -> bool {
    if file.added.is_sorted_by_key(|token| token.id) {
        return false;
    }
    let vocab: HashMap<&str, u32> = file.model.vocab.iter().map(|(token, id)| (token.as_str(), *id)).collect();
    let mut order: Vec<usize> = (0..file.added.len()).collect();
    order.sort_by_key(|&at| file.added[at].id);
    let ids = check::assign(order.iter().map(|&at| &file.added[at]), &vocab, file.model.vocab.len());
    order.iter().zip(ids).any(|(&at, id)| checked.added[at] != id)
}

fn has_twice<T: Ord>(mut items: Vec<T>) -> bool {
    items.sort_unstable();
    items.windows(2).any(|pair| pair[0] == pair[1])
}

fn replaces_nothing(file: &File<'_>) -> bool {
    fn any(node: &Value) -> bool {
        let members = node.get("normalizers").and_then(Value::as_array);
        let pattern = node.get("pattern").and_then(|pattern| pattern.get("String"));
        pattern.and_then(Value::as_str) == Some("") || members.is_some_and(|members| members.iter().any(any))
    }
    file.parts.get("normalizer").is_some_and(any)
}

fn ignores_merges(file: &File<'_>) -> bool {
    file.model.options.get("ignore_merges").and_then(Value::as_bool) == Some(true)
}

/// The text that reaches the model of 0.23 is in the byte-level alphabet, so it never finds a token with other characters. The release
/// candidate converts the vocabulary to bytes instead, and takes such characters for their UTF-8. It can find the token if a whole
/// piece of text may be a token, or if the token has the bytes of another one.
fn has_foreign_token(file: &File<'_>) -> bool {
    let vocab = &file.model.vocab;
    let foreign: Vec<&str> =
        vocab.iter().map(|(token, _)| token.as_str()).filter(|token| !token.chars().all(is_alphabet)).collect();
    if foreign.is_empty() {
        return false;
    }
    if ignores_merges(file) || foreign.iter().any(|token| token.chars().nth(1).is_none()) {
        return true;
    }
    has_twice(vocab.iter().map(|(token, _)| to_bytes(token)).collect())
}

/// The release candidate takes a piece of one character for its token without merging its bytes. 0.23 does so only with `ignore_merges`.
fn has_unmerged_character(file: &File<'_>) -> bool {
    if ignores_merges(file) {
        return false;
    }
    let is_short = |token: &str| token.chars().nth(char::MAX.len_utf8()).is_none();
    let merges = file.model.merges.iter().flatten().enumerate();
    // If a pair occurs twice, the second one counts.
    let ranks: HashMap<(&str, &str), usize> = merges
        .filter(|(_, (left, right))| is_short(left) && is_short(right))
        .map(|(rank, (left, right))| ((left.as_str(), right.as_str()), rank))
        .collect();
    let characters = file.model.vocab.iter().map(|(token, _)| token.as_str()).filter(|token| is_character(token));
    characters.into_iter().any(|token| !is_merged(token, &ranks))
}

/// True if a token of several bytes stands for one character.
fn is_character(token: &str) -> bool {
    let bytes: Option<Vec<u8>> = token.chars().take(char::MAX.len_utf8() + 1).map(char_to_byte).collect();
    bytes.is_some_and(|bytes| {
        bytes.len() > 1 && std::str::from_utf8(&bytes).is_ok_and(|text| text.chars().nth(1).is_none())
    })
}

/// True if the bytes of a token become this token.
fn is_merged(token: &str, ranks: &HashMap<(&str, &str), usize>) -> bool {
    // The beginning of each part.
    let mut starts: Vec<usize> = token.char_indices().map(|(at, _)| at).collect();
    while starts.len() > 1 {
        let end = |part: usize| starts.get(part).copied().unwrap_or(token.len());
        let rank =
            |part: usize| ranks.get(&(&token[starts[part - 1]..starts[part]], &token[starts[part]..end(part + 1)]));
        let Some((_, part)) = (1..starts.len()).filter_map(|part| Some((rank(part)?, part))).min() else {
            return false;
        };
        starts.remove(part);
    }
    true
}

fn is_alphabet(character: char) -> bool {
    char_to_byte(character).is_some()
}

fn to_bytes(token: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(token.len());
    for character in token.chars() {
        match char_to_byte(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// True if the merges of a BPE model end before each [`WORD`] after another character: no token has one there, and no other symbol represents it.
pub(super) fn begins_words(file: &File<'_>) -> bool {
    let begins = |token: &str| !token.trim_start_matches(WORD).contains(WORD);
    file.model.kind == Kind::Bpe
        && !check::is_byte_level(file)
        && !ignores_merges(file)
        && !has_affix(file)
        && !check::text_option(&file.model, "unk_token").is_some_and(|token| token.contains(WORD))
        && file.model.vocab.iter().any(|(token, _)| token == WORD)
        && file.model.vocab.iter().all(|(token, _)| begins(token))
}

/// The reason why the tokenizer cannot split text as the file says, if it cannot. It has no regex engine, only programs for the patterns of
/// well-known models, and fails only when it meets text.
pub(super) fn cannot_split(tokenizer: &PipelineTokenizer) -> Option<&'static str> {
    const UNKNOWN: &str = "a regex of the pre-tokenizer is not that of a well-known model";
    match tokenizer.get_pre_tokenizer() {
        PipelinePreTokenizer::Split(split) if !splits(split) => Some(UNKNOWN),
        PipelinePreTokenizer::Sequence(sequence) => {
            let members = sequence.pre_tokenizers();
            if sequence.is_deepseek() {
                // Members after the three well-known ones would not run.
                return (members.len() != 3).then_some("a pre-tokenizer follows those of a well-known model");
            }
            let knows =
                |member: &PipelinePreTokenizer| !matches!(member, PipelinePreTokenizer::Split(split) if !splits(split));
            (!members.iter().all(knows)).then_some(UNKNOWN)
        }
        _ => None,
    }
}

fn splits(split: &Split) -> bool {
    match split.pattern {
        SplitPattern::String(_) => true,
        SplitPattern::Regex(_) => {
            let known = match split.grammar() {
                // Programs exist for these two limits on the digits of a piece; other limits would run them too.
                Some(Grammar::Cl100k { digit_cap }) => matches!(digit_cap, 1 | 3),
                // Its table of Han characters differs.
                Some(Grammar::Kimi) => false,
                Some(_) => true,
                None => false,
            };
            known && split.behavior == SplitDelimiterBehavior::Isolated && !split.invert
        }
    }
}

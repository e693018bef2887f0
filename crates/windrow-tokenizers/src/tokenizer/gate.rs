//! Decides which files `windrow-bpe` encodes.
//!
//! Every field that affects ids must be known and supported; otherwise another engine gets the file. Fields that this version of windrow does
//! not know count as unsupported.

use ahash::AHashSet as HashSet;

use serde_json::{Map, Value};
use windrow_bpe::{AddedToken, ByteBpe, Definition, Grammar};

use super::LoadOptions;
use super::check::Checked;
use super::file::{File, Kind};
use crate::engine::{byte_level, is_spelled, kind, members_of};

/// The definition of a file for `windrow-bpe`, and the ids before and after every document; or the reason why another engine must encode.
pub(super) fn admit(
    file: &File<'_>,
    checked: &Checked,
    options: &LoadOptions,
) -> Result<(Definition, [Vec<u32>; 2]), String> {
    let model = &file.model;
    if model.kind != Kind::Bpe {
        return Err(format!("the model is {}, not BPE", model.kind.name()));
    }
    let nfc = normalizer(file.parts.get("normalizer"))?;
    let grammar = pre_tokenizer(file.parts.get("pre_tokenizer"))?;
    let around =
        if options.add_special_tokens { around(file.parts.get("post_processor"))? } else { Default::default() };

    let ByteTokens { tokens, merges, ignore_merges } = byte_tokens(file, checked)?;
    let added = added(file, checked, options)?;
    Ok((Definition { grammar, tokens, merges, ignore_merges, added, nfc }, around))
}

/// The model of a byte-level file; its pre-tokenizer does not matter.
pub(super) fn bytes(file: &File<'_>, checked: &Checked) -> Result<ByteBpe, String> {
    let ByteTokens { tokens, merges, ignore_merges } = byte_tokens(file, checked)?;
    ByteBpe::new(&tokens, &merges, ignore_merges).map_err(|error| error.to_string())
}

/// The tokens of a byte-level model as bytes.
struct ByteTokens {
    tokens: Vec<(Vec<u8>, u32)>,
    merges: Vec<(u32, u32)>,
    ignore_merges: bool,
}

fn byte_tokens(file: &File<'_>, checked: &Checked) -> Result<ByteTokens, String> {
    let model = &file.model;
    let ignore_merges = model_options(&model.options)?;
    // The text that reaches the model is in the byte-level alphabet, so a token with other characters is never found.
    let tokens = model.vocab.iter().filter_map(|(token, id)| Some((byte_level(token)?, *id)));
    let tokens: Vec<(Vec<u8>, u32)> = tokens.collect();
    let is_found = |(left, right): &(String, String)| is_spelled(left) && is_spelled(right);
    let merges = model.merges.iter().flatten().zip(&checked.merges);
    let merges = merges.filter(|(merge, _)| tokens.len() == model.vocab.len() || is_found(merge));
    let merges = merges.map(|(_, ids)| *ids).collect();
    Ok(ByteTokens { tokens, merges, ignore_merges })
}

/// True if merges are ignored for pieces that are tokens.
fn model_options(options: &Map<String, Value>) -> Result<bool, String> {
    for (name, value) in options {
        let is_harmless = match (name.as_str(), value) {
            (_, Value::Null) => true,
            // No character is unknown: every byte is a token.
            ("unk_token" | "fuse_unk" | "ignore_merges", _) => true,
            ("continuing_subword_prefix" | "end_of_word_suffix", Value::String(affix)) => affix.is_empty(),
            ("byte_fallback", Value::Bool(falls_back)) => !falls_back,
            _ => false,
        };
        if !is_harmless {
            return Err(format!("the {name} option of the model is not supported"));
        }
    }
    Ok(options.get("ignore_merges").and_then(Value::as_bool).unwrap_or(false))
}

/// True if text is normalized to form C. An error if the file asks for any other normalization.
fn normalizer(node: Option<&Value>) -> Result<bool, String> {
    let members = members_of(node, "normalizers");
    match members.iter().find(|member| kind(member) != "NFC") {
        Some(other) => Err(format!("the {} normalizer is not supported", kind(other))),
        None => Ok(!members.is_empty()),
    }
}

fn pre_tokenizer(node: Option<&Value>) -> Result<Grammar, String> {
    let flag = |node: &Value, name: &str, default| node.get(name).map_or(Some(default), Value::as_bool);
    let splits_bytes = |node: &Value, with_regex| {
        kind(node) == "ByteLevel"
            && flag(node, "add_prefix_space", true) == Some(false)
            && flag(node, "use_regex", true) == Some(with_regex)
    };
    match members_of(node, "pretokenizers").as_slice() {
        [bytes] if splits_bytes(bytes, true) => Ok(Grammar::Gpt2),
        [splits @ .., bytes]
            if !splits.is_empty()
                && splits.iter().all(|split| kind(split) == "Split")
                && splits_bytes(bytes, false) =>
        {
            let patterns = splits.iter().map(|split| isolated(split, splits.len() == 1)).collect::<Option<Vec<&str>>>();
            let grammar = patterns.and_then(|patterns| Grammar::from_patterns(&patterns));
            grammar.ok_or_else(|| {
                "windrow does not know the pre-tokenizer's combination of patterns and options".to_owned()
            })
        }
        _ => Err("the pre-tokenizer is not a known pattern followed by ByteLevel".to_owned()),
    }
}

/// The regex of a split that makes pieces of its matches. One that `is_only` may remove other text: a pattern that splits without others has no
/// character outside its matches.
fn isolated(split: &Value, is_only: bool) -> Option<&str> {
    let isolates = match (split.get("behavior")?.as_str()?, split.get("invert")?.as_bool()?) {
        ("Isolated", inverts) => !inverts,
        ("Removed", inverts) => inverts && is_only,
        _ => false,
    };
    split.get("pattern")?.get("Regex")?.as_str().filter(|_| isolates)
}

/// The ids that the post-processor puts around a single text.
pub(super) fn around(node: Option<&Value>) -> Result<[Vec<u32>; 2], String> {
    let unsupported = |node: &Value| format!("the {} post-processor is not supported", kind(node));
    let mut around: [Vec<u32>; 2] = Default::default();
    for processor in members_of(node, "processors") {
        match kind(processor) {
            // It only trims offsets.
            "ByteLevel" => {}
            "TemplateProcessing" if around.iter().all(Vec::is_empty) => {
                around = template(processor).ok_or_else(|| unsupported(processor))?;
            }
            _ => return Err(unsupported(processor)),
        }
    }
    Ok(around)
}

fn template(processor: &Value) -> Option<[Vec<u32>; 2]> {
    let mut around = [Vec::new(), Vec::new()];
    let mut is_after = false;
    for piece in processor.get("single")?.as_array()? {
        if let Some(special) = piece.get("SpecialToken") {
            let name = special.get("id")?.as_str()?;
            for id in processor.get("special_tokens")?.get(name)?.get("ids")?.as_array()? {
                around[usize::from(is_after)].push(u32::try_from(id.as_u64()?).ok()?);
            }
        } else if piece.get("Sequence")?.get("id")?.as_str()? == "A" && !is_after {
            is_after = true;
        } else {
            return None;
        }
    }
    is_after.then_some(around)
}

pub(super) fn added(file: &File<'_>, checked: &Checked, options: &LoadOptions) -> Result<Vec<AddedToken>, String> {
    let mut ids = HashSet::new();
    if let Some(&id) = checked.added.iter().find(|id| !ids.insert(**id)) {
        return Err(format!("two added tokens have the id {id}"));
    }
    let tokens = file.added.iter().zip(&checked.added);
    Ok(tokens
        .map(|(token, &id)| {
            let is_text = token.special && !options.special_in_text;
            AddedToken {
                content: token.content.clone(),
                id: (!is_text).then_some(id),
                single_word: token.single_word,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
                normalized: token.normalized,
            }
        })
        .collect())
}

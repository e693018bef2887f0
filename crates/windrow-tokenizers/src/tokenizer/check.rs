//! Checks a `tokenizer.json` before a library parses it.
//!
//! The libraries panic on some files, take gigabytes for others (their tables are as long as the largest id), and misread a few. Such
//! files are refused here, with the place and the remedy.

use ahash::{AHashMap as HashMap, AHashSet as HashSet};

use serde_json::{Map, Value};

use super::fault::{DAMAGED, Fault, quoted};
use super::file::{Added, File, Kind, Model};
use crate::engine::{BYTE_CHARACTERS, kind, members_of};

/// Maximum nesting of normalizers, pre-tokenizers and processors. Real files nest them twice; a library's time grows with a power of
/// the depth.
const MAX_DEPTH: usize = 8;

/// Maximum length of a pattern: ten times the length of the longest pattern of a known model.
const MAX_PATTERN: usize = 8 << 10;

/// Maximum length of a token that a library can store.
const MAX_TOKEN: usize = u16::MAX as usize;

/// The ids of a file.
pub(super) struct Checked {
    /// The ids of the two tokens of each merge.
    pub(super) merges: Vec<(u32, u32)>,
    /// The ids of the added tokens, in the order of the file.
    pub(super) added: Vec<u32>,
    /// The largest id, plus one.
    pub(super) size: u32,
}

/// Checks the whole file. `unfinished`: [`LoadOptions::unfinished`](super::LoadOptions::unfinished).
pub(super) fn check(file: &File<'_>, unfinished: bool) -> Result<Checked, Fault> {
    let is_empty = file.model.vocab.is_empty();
    if is_empty && !unfinished {
        return Err(Fault::new("model.vocab", "is empty", DAMAGED));
    }
    let vocab = check_vocab(&file.model)?;
    check_options(&file.model, &vocab)?;
    let merges = check_merges(&file.model, &vocab)?;
    for (name, children) in [("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")] {
        if let Some(node) = file.parts.get(name).filter(|node| !node.is_null()) {
            check_component(node, children, name, 0)?;
        }
    }
    if is_byte_level(file) && !is_empty {
        check_bytes(&file.model, &vocab)?;
    }
    check_added(&file.added, file.model.vocab.len())?;
    let added = assign(&file.added, &vocab, file.model.vocab.len());
    let largest = vocab.values().chain(&added).max().copied().unwrap_or(0);
    let size = largest.checked_add(1).ok_or_else(|| too_large("model.vocab", u64::from(largest), vocab.len()))?;
    if let Some(node) = file.parts.get("post_processor").filter(|node| !node.is_null()) {
        check_processor(node, "post_processor", 0, if unfinished { u32::MAX } else { size })?;
    }
    Ok(Checked { merges, added, size })
}

/// True if the text that reaches the model is in the byte-level alphabet.
pub(super) fn is_byte_level(file: &File<'_>) -> bool {
    let is_bytes = |node: &&Value| kind(node) == "ByteLevel";
    file.model.kind == Kind::Bpe && members_of(file.parts.get("pre_tokenizer"), "pretokenizers").iter().any(is_bytes)
}

/// The ids that Hugging Face assigns: a token of the model keeps its id; the others count on from the size of the vocabulary.
pub(super) fn assign<'a>(
    added: impl IntoIterator<Item = &'a Added>,
    vocab: &HashMap<&str, u32>,
    entries: usize,
) -> Vec<u32> {
    let mut next = entries as u32;
    added
        .into_iter()
        .map(|token| {
            vocab.get(token.content.as_str()).copied().unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}

/// Ids may leave gaps, but must not be out of proportion.
fn id_limit(entries: usize) -> u64 {
    (1 << 20) + 16 * entries as u64
}

fn too_large(place: &str, id: u64, entries: usize) -> Fault {
    let reason = format!("id {id} is too large for a vocabulary of size {entries}");
    Fault::new(place, reason, "number the tokens without large gaps")
}

fn check_vocab<'a>(model: &'a Model<'_>) -> Result<HashMap<&'a str, u32>, Fault> {
    const PLACE: &str = "model.vocab";
    let entries = model.vocab.len();
    if entries > 1 << 26 {
        return Err(Fault::new(
            PLACE,
            format!("has {entries} tokens"),
            "a vocabulary can have at most 67108864 tokens",
        ));
    }
    let mut vocab = HashMap::with_capacity(entries);
    // The entry of each id, plus 1; 0 is none.
    let mut owners: Vec<u32> = Vec::with_capacity(entries);
    for ((token, id), entry) in model.vocab.iter().zip(1..) {
        check_length(token, PLACE)?;
        if u64::from(*id) >= id_limit(entries) {
            return Err(too_large(&format!("{PLACE}[{}]", quoted(token)), u64::from(*id), entries));
        }
        let at = *id as usize;
        if at >= owners.len() {
            owners.resize(at + 1, 0);
        }
        if let Some(other) = std::mem::replace(&mut owners[at], entry).checked_sub(1) {
            let other = &model.vocab[other as usize].0;
            let reason = format!("tokens {} and {} have the same id {id}", quoted(other), quoted(token));
            return Err(Fault::new(PLACE, reason, "give every token its own id"));
        }
        // Only a Unigram model may list a token twice.
        if vocab.insert(token.as_str(), *id).is_some() && model.kind != Kind::Unigram {
            let reason = format!("token {} occurs twice", quoted(token));
            return Err(Fault::new(PLACE, reason, "remove one of them"));
        }
    }
    Ok(vocab)
}

/// Checks the types of options, because the library treats some options of the wrong type as missing.
fn check_options(model: &Model<'_>, vocab: &HashMap<&str, u32>) -> Result<(), Fault> {
    let wants = |name: &str, what: &str, holds: fn(&Value) -> bool| match model.options.get(name) {
        Some(value) if !value.is_null() && !holds(value) => {
            Err(Fault::new(format!("model.{name}"), format!("is not {what}"), DAMAGED))
        }
        _ => Ok(()),
    };
    for name in ["unk_token", "continuing_subword_prefix", "end_of_word_suffix"] {
        wants(name, "a string", Value::is_string)?;
    }
    for name in ["fuse_unk", "byte_fallback", "ignore_merges", "byte_level"] {
        wants(name, "true or false", Value::is_boolean)?;
    }
    for name in ["unk_id", "max_input_chars_per_word"] {
        wants(name, "a whole number", Value::is_u64)?;
    }
    wants("dropout", "a number", Value::is_number)?;
    if model.options.get("dropout").and_then(Value::as_f64).is_some_and(|dropout| dropout != 0.0) {
        return Err(Fault::new("model.dropout", "makes ids random", "set it to null: dropout is meant for training"));
    }
    if model.kind == Kind::Bpe
        && !vocab.is_empty()
        && let Some(token) = text_option(model, "unk_token")
        && !vocab.contains_key(token)
    {
        return Err(Fault::new("model.unk_token", format!("{} is not in the vocabulary", quoted(token)), DAMAGED));
    }
    if let Some(id) = model.options.get("unk_id").and_then(Value::as_u64)
        && id >= model.vocab.len() as u64
    {
        let reason = format!("{id} is outside the vocabulary of size {}", model.vocab.len());
        return Err(Fault::new("model.unk_id", reason, DAMAGED));
    }
    Ok(())
}

/// An option of the model, if it is a string.
pub(super) fn text_option<'a>(model: &'a Model<'_>, name: &str) -> Option<&'a str> {
    model.options.get(name)?.as_str()
}

/// The ids of the two tokens of each merge.
fn check_merges(model: &Model<'_>, vocab: &HashMap<&str, u32>) -> Result<Vec<(u32, u32)>, Fault> {
    let prefix = text_option(model, "continuing_subword_prefix").unwrap_or_default();
    let mut ids = Vec::with_capacity(model.merges.as_ref().map_or(0, Vec::len));
    let mut whole = String::new();
    for (at, (left, right)) in model.merges.iter().flatten().enumerate() {
        let unknown = |token: &str| {
            let reason = format!("token {} is not in the vocabulary", quoted(token));
            Fault::new(format!("model.merges[{at}]"), reason, DAMAGED)
        };
        let id = |token: &str| vocab.get(token).copied().ok_or_else(|| unknown(token));
        ids.push((id(left)?, id(right)?));
        // The library cuts off as many bytes as the prefix has, whichever they are.
        let Some(rest) = right.get(prefix.len()..) else {
            let reason = format!("token {} is shorter than the prefix {}", quoted(right), quoted(prefix));
            return Err(Fault::new(format!("model.merges[{at}]"), reason, DAMAGED));
        };
        whole.clear();
        whole.push_str(left);
        whole.push_str(rest);
        if !vocab.contains_key(whole.as_str()) {
            return Err(unknown(&whole));
        }
    }
    Ok(ids)
}

/// Checks the tokens for bytes. A byte without a token would vanish if there is no token for unknown text.
fn check_bytes(model: &Model<'_>, vocab: &HashMap<&str, u32>) -> Result<(), Fault> {
    if text_option(model, "unk_token").is_some() {
        return Ok(());
    }
    let missing: Vec<String> = (0..=0xbf_u8)
        .chain(0xc2..=0xf4)
        .filter(|&byte| !vocab.contains_key(BYTE_CHARACTERS[usize::from(byte)].encode_utf8(&mut [0; 4]) as &str))
        .map(|byte| format!("{byte:#04x}"))
        .collect();
    match missing.as_slice() {
        [] => Ok(()),
        [first, ..] => {
            let reason = format!(
                "the model is byte-level, but not every byte has a token ({} missing, the first being that of {first})",
                missing.len()
            );
            Err(Fault::new("model.vocab", reason, "add the missing tokens, or an unk_token"))
        }
    }
}

fn check_component(node: &Value, children: &str, place: &str, depth: usize) -> Result<(), Fault> {
    let fields = fields(node, place, depth)?;
    if let Some(members) = fields.get(children).and_then(Value::as_array) {
        for (at, member) in members.iter().enumerate() {
            check_component(member, children, &format!("{place}.{children}[{at}]"), depth + 1)?;
        }
    }
    if fields.get("type").and_then(Value::as_str) == Some("FixedLength")
        && fields.get("length").is_some_and(|length| length.as_u64().is_none_or(|length| length == 0))
    {
        return Err(Fault::new(format!("{place}.length"), "is not a positive whole number", DAMAGED));
    }
    if fields.get("type").and_then(Value::as_str) == Some("Prepend")
        && fields.get("prepend").and_then(Value::as_str) == Some("")
    {
        // The library repeats a character of some texts, and panics on others.
        return Err(Fault::new(format!("{place}.prepend"), "is empty", "remove the normalizer"));
    }
    if let Some(regex) = fields.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str)
        && regex.len() > MAX_PATTERN
    {
        let reason = format!("has {} bytes", regex.len());
        return Err(Fault::new(
            format!("{place}.pattern"),
            reason,
            format!("a pattern can have at most {MAX_PATTERN} bytes"),
        ));
    }
    Ok(())
}

/// The fields of a node, which must not be nested too deep.
fn fields<'a>(node: &'a Value, place: &str, depth: usize) -> Result<&'a Map<String, Value>, Fault> {
    if depth > MAX_DEPTH {
        let reason = format!("is nested more than {MAX_DEPTH} levels deep");
        return Err(Fault::new(place, reason, "combine the nested sequences into one"));
    }
    node.as_object().ok_or_else(|| Fault::new(place, "is not an object", DAMAGED))
}

/// Checks the length of a token, which the libraries store in 16 bits.
fn check_length(token: &str, place: &str) -> Result<(), Fault> {
    if token.len() <= MAX_TOKEN {
        return Ok(());
    }
    let reason = format!("token {} has {} bytes", quoted(token), token.len());
    Err(Fault::new(place, reason, format!("a token can have at most {MAX_TOKEN} bytes")))
}

fn check_added(added: &[Added], entries: usize) -> Result<(), Fault> {
    let mut contents = HashSet::with_capacity(added.len());
    let mut ids = HashMap::with_capacity(added.len());
    for (at, token) in added.iter().enumerate() {
        let place = format!("added_tokens[{at}]");
        let content = quoted(&token.content);
        if token.content.is_empty() {
            return Err(Fault::new(place, "is empty", "remove it"));
        }
        check_length(&token.content, &place)?;
        if u64::from(token.id) >= id_limit(entries + added.len()) {
            return Err(too_large(&place, u64::from(token.id), entries));
        }
        if !contents.insert(token.content.as_str()) {
            return Err(Fault::new(place, format!("token {content} occurs twice"), "remove one of them"));
        }
        if let Some(other) = ids.insert(token.id, token.content.as_str()) {
            let reason = format!("token {content} has the same id as token {}: {}", quoted(other), token.id);
            return Err(Fault::new(place, reason, "give every token its own id"));
        }
    }
    Ok(())
}

/// The types of processors, and the fields by which 0.23 distinguishes them: it reads most of them without checking their type.
const PROCESSORS: [(&str, &[&str]); 5] = [
    ("BertProcessing", &["sep", "cls"]),
    ("RobertaProcessing", &["sep", "cls"]),
    ("ByteLevel", &[]),
    ("TemplateProcessing", &["single", "pair", "special_tokens"]),
    ("Sequence", &["processors"]),
];

/// A processor may only add ids that exist, and must neither drop nor repeat the document.
fn check_processor(node: &Value, place: &str, depth: usize, size: u32) -> Result<(), Fault> {
    let fields = fields(node, place, depth)?;
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let Some((_, own)) = PROCESSORS.iter().find(|(name, _)| *name == kind) else {
        let known = PROCESSORS.map(|(name, _)| name).join(", ");
        return Err(Fault::new(
            format!("{place}.type"),
            format!("{} is not a known type", quoted(kind)),
            format!("use one of {known}"),
        ));
    };
    if let Some(other) =
        PROCESSORS.iter().flat_map(|(_, names)| *names).find(|name| !own.contains(name) && fields.contains_key(**name))
    {
        let hint = format!("remove it: the library would mistake the {kind} for another type");
        return Err(Fault::new(format!("{place}.{other}"), format!("is not a field of a {kind}"), hint));
    }
    match kind {
        "Sequence" => {
            for (at, member) in fields.get("processors").and_then(Value::as_array).into_iter().flatten().enumerate() {
                check_processor(member, &format!("{place}.processors[{at}]"), depth + 1, size)?;
            }
        }
        "BertProcessing" | "RobertaProcessing" => {
            for name in ["cls", "sep"] {
                check_id(fields.get(name).and_then(|pair| pair.get(1)), &format!("{place}.{name}"), size)?;
            }
        }
        "TemplateProcessing" => check_template(fields, place, size)?,
        _ => {}
    }
    Ok(())
}

fn check_template(fields: &Map<String, Value>, place: &str, size: u32) -> Result<(), Fault> {
    let mut documents = 0;
    for name in ["single", "pair"] {
        let pieces = fields.get(name).and_then(Value::as_array);
        for (at, piece) in pieces.into_iter().flatten().enumerate() {
            let place = format!("{place}.{name}[{at}]");
            let sequence = piece.get("Sequence").and_then(|piece| piece.get("id")).or_else(|| piece.get("seq"));
            if let Some(sequence) = sequence {
                if name == "single" {
                    documents += 1;
                    if sequence.as_str() != Some("A") {
                        return Err(Fault::new(place, "is not sequence A", DAMAGED));
                    }
                }
                continue;
            }
            let token = piece.get("SpecialToken").and_then(|piece| piece.get("id"));
            let ids = match token {
                Some(token) => {
                    let token = token.as_str().unwrap_or_default();
                    let Some(entry) = fields.get("special_tokens").and_then(|table| table.get(token)) else {
                        let reason = format!("special token {} is not in special_tokens", quoted(token));
                        return Err(Fault::new(place, reason, "add it there, or remove it from the template"));
                    };
                    entry.get("ids")
                }
                None => piece.get("ids"),
            };
            let Some(ids) = ids.and_then(Value::as_array) else {
                return Err(Fault::new(place, "is neither a sequence nor a token with ids", DAMAGED));
            };
            for id in ids {
                check_id(Some(id), &place, size)?;
            }
        }
    }
    if documents != 1 {
        let reason = format!("contains sequence A {documents} times");
        return Err(Fault::new(format!("{place}.single"), reason, "a template must contain it exactly once"));
    }
    Ok(())
}

fn check_id(id: Option<&Value>, place: &str, size: u32) -> Result<(), Fault> {
    match id.and_then(Value::as_u64) {
        Some(id) if id < u64::from(size) => Ok(()),
        Some(id) => {
            let reason = format!("id {id} is outside the vocabulary, whose largest id is {}", size - 1);
            Err(Fault::new(place, reason, "use the id of a token"))
        }
        None => Err(Fault::new(place, "has no id", DAMAGED)),
    }
}

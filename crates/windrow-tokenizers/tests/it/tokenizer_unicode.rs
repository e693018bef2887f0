//! Compares every character, and every pair that composes, with `tokenizers` 0.23, in everything that depends on Unicode tables.
//!
//! By default, the tests check all characters below U+3400 and a sample of the rest; with `WINDROW_CASES=10` all but those of long scripts
//! whose characters behave alike. All characters take some minutes:
//! `WINDROW_PARITY=full cargo test --release -p windrow-tokenizers --test it tokenizer_unicode`.

use serde_json::{Map, Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::tokenizer_routes::{DEEPSEEK, patterns};

/// Scripts of thousands of characters that behave alike.
const UNIFORM: [(u32, u32); 6] = [
    (0x3400, 0xa000),
    (0xac00, 0xd7a0),
    (0x17000, 0x18c00),
    (0x20000, 0x32000),
    (0x33500, 0xe0000),
    (0xe0200, 0x11_0000),
];

fn is_full() -> bool {
    std::env::var_os("WINDROW_PARITY").is_some_and(|value| value == "full")
}

/// All characters of scripts whose characters differ, and a sample of the others.
fn unlike_characters() -> impl Iterator<Item = char> {
    let full = is_full();
    (0..=0x10_ffff).filter_map(char::from_u32).filter(move |&character| {
        let code = u32::from(character);
        full || code % 997 == 0 || !UNIFORM.iter().any(|&(first, end)| (first..end).contains(&code))
    })
}

/// The characters of [`unlike_characters`] below U+3400, and a sample of the rest.
pub(crate) fn characters() -> impl Iterator<Item = char> {
    let step = if is_full() { 1 } else { windrow_testkit::step(10) as u32 };
    unlike_characters().filter(move |&character| {
        let code = u32::from(character);
        code < 0x3400 || code % step == 0 || code % 997 == 0
    })
}

/// Encodes each character in each context and counts the texts that differ.
fn compare(file: &Value, contexts: &[fn(char) -> String]) {
    let texts = characters().flat_map(|character| contexts.iter().map(move |context| context(character)));
    assert!(compare_texts(file, texts) > 25_000);
}

/// Encodes the texts, none of which may differ, and counts them.
fn compare_texts(file: &Value, all: impl Iterator<Item = String>) -> usize {
    let json = file.to_string();
    let oracle: Oracle = json.parse().expect("the reference reads the file");
    let tokenizer = Tokenizer::from_json(json.as_bytes(), "test", &LoadOptions::default()).expect("loads");
    let mut encoder = tokenizer.engine().encoder();
    let (mut texts, mut differing, mut ids) = (0, Vec::new(), Vec::new());
    for text in all {
        ids.clear();
        encoder.encode(&text, &mut ids).expect("encodes");
        texts += 1;
        if ids != oracle.encode_fast(text.as_str(), false).expect("encodes").get_ids() {
            differing.push(text);
        }
    }
    let first: Vec<_> = differing.iter().take(5).map(|text| text.escape_unicode().to_string()).collect();
    assert_eq!(differing.len(), 0, "{first:?} with {} {}", file["normalizer"], file["pre_tokenizer"]);
    texts
}

/// The ids are the bytes of the normalized text.
fn normalizer(normalizer: Value) {
    let file = bytes(normalizer);
    compare(&file, &[|c| format!("aA{c}b"), |c| format!("{c}\u{301}{c}\u{327}\u{301} e{c}\u{301}")]);
}

fn bytes(normalizer: Value) -> Value {
    let vocab: Map<String, Value> =
        BYTE_CHARACTERS.iter().enumerate().map(|(byte, spelled)| (spelled.to_string(), json!(byte))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
}

/// The ids show where words end, because an unknown character makes its whole word unknown.
fn pre_tokenizer(pre_tokenizer: Value) {
    let file = word_pieces("abA1.' \n", pre_tokenizer);
    compare(&file, &[|c| format!("a{c}b {c}a1{c}"), |c| format!(".{c}1A{c} \n{c} '{c}")]);
}

/// Each character has a token for the beginning of a word and one for the rest, so the ids show every border.
fn word_pieces(characters: &str, pre_tokenizer: Value) -> Value {
    let tokens = characters.chars().flat_map(|character| [character.to_string(), format!("##{character}")]);
    let vocab: Map<String, Value> =
        std::iter::once("[UNK]".to_owned()).chain(tokens).enumerate().map(|(id, token)| (token, json!(id))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    })
}

fn split(regex: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
}

#[test]
fn normalization_forms() {
    for form in ["NFC", "NFD", "NFKC", "NFKD"] {
        normalizer(json!({"type": form}));
    }
}

#[test]
fn other_normalizers() {
    let bert = |clean: bool, lowercase: bool| {
        json!({
            "type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": true, "strip_accents": null,
            "lowercase": lowercase,
        })
    };
    normalizer(bert(true, true));
    normalizer(bert(false, false));
    normalizer(json!({"type": "Nmt"}));
    let members = json!([{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}]);
    normalizer(json!({"type": "Sequence", "normalizers": members}));
    normalizer(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
}

/// A SentencePiece table inside the file, and grapheme clusters.
#[test]
fn precompiled_normalizer() {
    let data = std::env::var("WINDROW_DATA")
        .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let Ok(json) = std::fs::read(format!("{data}/tok/t5_small.json")) else {
        println!("skipped: no t5_small.json in {data}");
        return;
    };
    let file: Value = serde_json::from_slice(&json).expect("JSON");
    compare(&file, &[|c| format!("aA{c}b {c}"), |c| format!("{c}\u{301}{c}\u{327}\u{301} e{c}\u{200d}{c}")]);
}

#[test]
fn regexes_of_models() {
    for regex in &patterns() {
        pre_tokenizer(split(regex));
    }
    let members: Vec<Value> = DEEPSEEK.iter().map(|regex| split(regex)).collect();
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": members}));
}

/// `(?i:'s)` matches U+017F, whose case folding is `s`; the Kelvin sign folds to `k`, and the ligatures to two letters.
#[test]
fn contractions_by_case_folding() {
    let alphabet = ["'", "\u{17f}", "x", "X", "s", "r", "e", " ", "1", ".", "\n"];
    let more =
        ["\u{212a}", "\u{df}", "\u{fb05}", "\u{fb06}", "\u{fb01}", "\u{130}", "\u{131}", "\u{301}", "日", "'\u{17f}"];
    let known: String = alphabet.iter().chain(&more).copied().collect();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % end as u64) as usize
    };
    // All texts of four parts, and longer ones, which cross the blocks of a program.
    let digits = |mut number: usize| {
        std::iter::repeat_with(move || (number % alphabet.len(), number /= alphabet.len()).0).take(4)
    };
    let mut texts: Vec<String> =
        (0..alphabet.len().pow(4)).map(|n| digits(n).map(|at| alphabet[at]).collect()).collect();
    let both: Vec<&str> = alphabet.into_iter().chain(more).collect();
    texts.extend((0..4000).map(|_| (0..below(90)).map(|_| both[below(both.len())]).collect::<String>()));
    for regex in &patterns() {
        compare_texts(&word_pieces(&known, split(regex)), texts.iter().cloned());
    }
}

#[test]
fn other_pre_tokenizers() {
    for kind in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"] {
        pre_tokenizer(json!({"type": kind}));
    }
    let digits = json!({"type": "Digits", "individual_digits": true});
    let punctuation = json!({"type": "Punctuation", "behavior": "Isolated"});
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": [digits, split(&patterns()[0])]}));
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": [punctuation, digits, {"type": "Whitespace"}]}));
}

//! Every character, through everything that depends on Unicode tables, against `tokenizers` 0.23.
//!
//! The default looks at those characters that are in a table of some version and at a sample of the rest; all of them
//! take some minutes: `WINDROW_PARITY=full cargo test --release -p windrow-tokenizers --test tokenizer_unicode`.

use serde_json::{Map, Value, json};
use tk_encode::utils::DEEPSEEK_PATTERNS;
use tk_encode::utils::byte_level::BYTES_CHAR_LOOKUP;
use tokenizers_023::Tokenizer as Oracle;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Scripts of thousands of characters that are all alike.
const UNIFORM: [(u32, u32); 6] = [
    (0x3400, 0xa000),
    (0xac00, 0xd7a0),
    (0x17000, 0x18c00),
    (0x20000, 0x32000),
    (0x33500, 0xe0000),
    (0xe0200, 0x11_0000),
];

fn characters() -> impl Iterator<Item = char> {
    let full = std::env::var_os("WINDROW_PARITY").is_some_and(|value| value == "full");
    (0..=0x10_ffff).filter_map(char::from_u32).filter(move |&character| {
        let code = u32::from(character);
        full || code % 997 == 0 || !UNIFORM.iter().any(|&(first, end)| (first..end).contains(&code))
    })
}

/// Encodes each character in each context and counts the texts that differ.
fn compare(file: &Value, contexts: &[fn(char) -> String]) {
    let json = file.to_string();
    let oracle: Oracle = json.parse().expect("the reference reads the file");
    let tokenizer = Tokenizer::from_json(json.as_bytes(), "test", &LoadOptions::default()).expect("loads");
    assert_eq!(tokenizer.engine().name(), "tokenizers 1.0.0-rc.3", "{:?}", tokenizer.notes());
    let mut encoder = tokenizer.engine().encoder();
    let (mut texts, mut differing, mut ids) = (0, Vec::new(), Vec::new());
    for text in characters().flat_map(|character| contexts.iter().map(move |context| context(character))) {
        ids.clear();
        encoder.encode(&text, &mut ids).expect("encodes");
        texts += 1;
        if ids != oracle.encode_fast(text.as_str(), false).expect("encodes").get_ids() {
            differing.push(text);
        }
    }
    assert!(texts > 50_000, "{texts} texts");
    let first: Vec<_> = differing.iter().take(5).map(|text| text.escape_unicode().to_string()).collect();
    assert_eq!(differing.len(), 0, "{first:?} with {} {}", file["normalizer"], file["pre_tokenizer"]);
}

/// The ids are the bytes of the normalized text.
fn normalizer(normalizer: Value) {
    let alphabet = BYTES_CHAR_LOOKUP.iter().enumerate();
    let vocab: Map<String, Value> = alphabet.map(|(byte, spelled)| (spelled.to_string(), json!(byte))).collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    compare(&file, &[|c| format!("aA{c}b"), |c| format!("{c}\u{301}{c}\u{327}\u{301} e{c}\u{301}")]);
}

/// The ids tell where words end: an unknown character makes its whole word unknown.
fn pre_tokenizer(pre_tokenizer: Value) {
    let known =
        ["[UNK]", "a", "##a", "b", "##b", "A", "##A", "1", "##1", ".", "##.", "'", "##'", " ", "## ", "\n", "##\n"];
    let vocab: Map<String, Value> =
        known.iter().enumerate().map(|(id, token)| ((*token).to_owned(), json!(id))).collect();
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null,
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": vocab,
        },
    });
    compare(&file, &[|c| format!("a{c}b {c}a1{c}"), |c| format!(".{c}1A{c} \n{c} '{c}")]);
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

/// A table of SentencePiece, in the file itself, and grapheme clusters.
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
    use bitcannon::regexes::{CL100K, GPT2, O200K, TEKKEN};
    for regex in [GPT2, CL100K, &CL100K.replace("{1,3}", ""), O200K, TEKKEN] {
        pre_tokenizer(split(regex));
    }
    let members: Vec<Value> = DEEPSEEK_PATTERNS.iter().map(|regex| split(regex)).collect();
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": members}));
}

#[test]
fn other_pre_tokenizers() {
    for kind in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"] {
        pre_tokenizer(json!({"type": kind}));
    }
    let digits = json!({"type": "Digits", "individual_digits": true});
    let punctuation = json!({"type": "Punctuation", "behavior": "Isolated"});
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": [digits, split(bitcannon::regexes::GPT2)]}));
    pre_tokenizer(json!({"type": "Sequence", "pretokenizers": [punctuation, digits, {"type": "Whitespace"}]}));
}

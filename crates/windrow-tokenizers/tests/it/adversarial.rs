//! Texts that are slow or special for some encoder: long runs, words that no cache knows, added tokens everywhere, and every character.
//!
//! `parity.rs` has real text and runs of 100,000 bytes. These are smaller, and of more kinds. Each kind is one document, many short ones, and a
//! part of a document that has all of them.

use serde_json::{Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_testkit::Rng;
use windrow_tokenizers::engine::BYTE_CHARACTERS;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::parity::{compare, data};
use crate::tokenizer_gate::{split, with};
use crate::tokenizer_unicode::characters;

/// Bytes of a document.
fn size() -> usize {
    8_000 * windrow_testkit::cases(1).min(3) as usize
}

fn words(rng: &mut Rng, alphabet: &[char], lengths: std::ops::Range<u64>, between: &str) -> String {
    let mut text = String::new();
    let size = size();
    while text.len() < size {
        let length = lengths.start + rng.below(lengths.end - lengths.start);
        text.extend((0..length).map(|_| alphabet[rng.index(alphabet.len())]));
        text.push_str(between);
    }
    text
}

/// The kinds, by name.
fn kinds(special: &str) -> Vec<(&'static str, String)> {
    let rng = &mut Rng(4_5);
    let lower: Vec<char> = ('a'..='z').collect();
    let digits: Vec<char> = ('0'..='9').collect();
    let base64: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let emoji: Vec<char> = "😀😅🫠👍🏽👩🚀❤\u{fe0f}\u{200d}🏳🌈🇩🇪".chars().collect();
    let han: Vec<char> = ('\u{4e00}'..='\u{9fff}').collect();
    let marks: Vec<char> = "a\u{301}\u{327}\u{308}\u{5b0}\u{94d}\u{20dd}".chars().collect();
    let lines: Vec<char> = "\r\n\n \t\u{a0}\u{85}\u{2028}".chars().collect();
    let newer = ["\u{11935}\u{11930}", "\u{105d2}\u{307}", "\u{113c2}\u{113c2}", "\u{1611e}\u{1611e}", "\u{95e}"];
    let scalars: Vec<char> = (0..4000).filter_map(|_| char::from_u32(rng.below(0x11_0000) as u32)).collect();
    let long_s: Vec<char> = "I'ſ sS'tKK'".chars().collect();
    let pieces = [" jehov", " özelliko", " структур", "\n \n", "f'ma", "b'MM", "\n't", "\t#endif", " I'\u{17f}"];
    let run = |unit: &str| unit.repeat(size() / unit.len());
    vec![
        ("one letter", run("a")),
        ("spaces", run(" ")),
        ("line ends", run("\n")),
        ("carriage returns", run("\r\n")),
        ("digits", run("1")),
        ("marks", run("\u{301}")),
        ("zeros", run("\0")),
        ("apostrophes", run("'")),
        ("contractions", run("'S")),
        ("letters without spaces", words(rng, &lower, 6500..6501, "")),
        ("words that no cache knows", words(rng, &lower, 2..14, " ")),
        ("capitals", words(rng, &['a', 'B', 'C', 'ǅ', 'ʰ', '中'], 1..60, " ")),
        ("base64", words(rng, &base64, 76..77, "\n")),
        ("numbers", words(rng, &digits, 1..12, " ")),
        ("emoji", words(rng, &emoji, 1..6, " ")),
        ("Han without spaces", words(rng, &han, 1000..1001, "")),
        ("marks on letters", words(rng, &marks, 1..20, " ")),
        ("white space", words(rng, &lines, 1..20, "x")),
        ("contractions of all kinds", words(rng, &long_s, 1..8, " ")),
        ("an added token every 40 bytes", words(rng, &lower, 36..44, special)),
        ("added tokens", run(special)),
        ("parts of added tokens", run(&special[..special.len() - 1])),
        ("any characters", words(rng, &scalars, 1..30, "")),
        ("characters of newer versions", run(&newer.concat())),
        ("pieces on which encoders differ", run(&pieces.concat())),
    ]
}

/// The last border of characters up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

fn documents(special: &str) -> Vec<String> {
    let kinds = kinds(special);
    let mut documents: Vec<String> = kinds.iter().map(|(_, text)| text.clone()).collect();
    // A long document: places where it may be cut are rare.
    documents.push(kinds.iter().map(|(_, text)| &text[..floor(text, text.len() / 4)]).collect());
    for (_, text) in &kinds {
        let mut rest = &text[..floor(text, 2000)];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(floor(rest, 13));
            documents.push(head.to_owned());
            rest = tail;
        }
    }
    documents
}

fn as_text() -> LoadOptions {
    LoadOptions { special_in_text: false, ..LoadOptions::default() }
}

fn against_hugging_face(file: &str, special: &str) {
    let Some(data) = data() else { return };
    let path = data.join("tok").join(file);
    let mut oracle = Oracle::from_file(&path).expect("the reference reads the file");
    let path = path.to_str().expect("UTF-8");
    let documents = documents(special);
    for options in [LoadOptions::default(), as_text()] {
        oracle.set_encode_special_tokens(!options.special_in_text);
        let tokenizer = Tokenizer::load(path, &options).expect("loads");
        assert_eq!(tokenizer.delegated(), None);
        compare(&tokenizer, &documents, |text| oracle.encode_fast(text, false).expect("encodes").get_ids().to_vec());
    }
}

fn against_tiktoken(name: &str, oracle: &tiktoken_rs::CoreBPE) {
    let documents = documents("<|endoftext|>");
    let tokenizer = Tokenizer::load(name, &LoadOptions::default()).expect("loads");
    compare(&tokenizer, &documents, |text| oracle.encode_with_special_tokens(text));
    let tokenizer = Tokenizer::load(name, &as_text()).expect("loads");
    compare(&tokenizer, &documents, |text| oracle.encode_ordinary(text));
}

#[test]
fn gpt2() {
    against_hugging_face("gpt2.json", "<|endoftext|>");
}

#[test]
fn qwen2_5() {
    against_hugging_face("qwen2_5.json", "<|im_start|>");
}

#[test]
fn mistral_nemo() {
    against_hugging_face("mistral_nemo.json", "[/INST]");
}

#[test]
fn r50k_base() {
    against_tiktoken("r50k_base", tiktoken_rs::r50k_base_singleton());
}

#[test]
fn cl100k_base() {
    against_tiktoken("cl100k_base", tiktoken_rs::cl100k_base_singleton());
}

#[test]
fn o200k_base() {
    against_tiktoken("o200k_base", tiktoken_rs::o200k_base_singleton());
}

/// A vocabulary in which the borders of a character next to ASCII show: its first and its last byte merge with their neighbours.
fn borders(normalizer: Value, pre_tokenizer: Option<Value>) -> Value {
    let spelled = |byte: u8| BYTE_CHARACTERS[usize::from(byte)].to_string();
    let mut vocab: serde_json::Map<String, Value> = (0..=255).map(|byte| (spelled(byte), json!(byte))).collect();
    let mut merges = Vec::new();
    for ascii in *b"abA1.' \n" {
        for byte in 128..=255 {
            for (left, right) in [(spelled(ascii), spelled(byte)), (spelled(byte), spelled(ascii))] {
                vocab.insert(format!("{left}{right}"), json!(vocab.len()));
                merges.push(json!([left, right]));
            }
        }
    }
    let mut changes = vec![
        ("/model/vocab", Value::Object(vocab)),
        ("/model/merges", Value::Array(merges)),
        ("/normalizer", normalizer),
        ("/added_tokens", json!([])),
    ];
    changes.extend(pre_tokenizer.map(|node| ("/pre_tokenizer", node)));
    with(&changes)
}

fn every_character(normalizer: Value, pre_tokenizer: Option<Value>) {
    let file = borders(normalizer, pre_tokenizer).to_string();
    let oracle: Oracle = file.parse().expect("the reference reads it");
    let tokenizer = Tokenizer::from_json(file.as_bytes(), "x.json", &LoadOptions::default()).expect("loads");
    assert_eq!(tokenizer.delegated(), None);
    let texts: Vec<String> = characters()
        .map(|c| format!("a{c}b {c}a1{c}.{c}1A{c} \n{c} '{c}A'{c}b {c}{c}a\u{301}{c}\u{327} {c}\n"))
        .collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let batch = tokenizer.encode_batch_ids(&borrowed).expect("encodes");
    assert!(texts.len() > 12_000);
    for (text, ids) in texts.iter().zip(batch.iter()) {
        let encoding = oracle.encode_fast(text.as_str(), false).expect("encodes");
        assert_eq!(ids, encoding.get_ids(), "{}", text.escape_unicode());
    }
}

#[test]
fn every_character_of_gpt2() {
    every_character(Value::Null, None);
}

#[test]
fn every_character_of_gpt4() {
    const LINES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    every_character(json!({"type": "NFC"}), Some(split(LINES)));
}

#[test]
fn every_character_of_gpt4o() {
    const CASES: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    every_character(Value::Null, Some(split(CASES)));
}

//! Which files windrow's own engine encodes, and that it gives the ids of `tokenizers` 0.23 for them.

use serde_json::{Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow_tokenizers::engine::{BYTE_CHARACTERS, Ragged};
use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};

use crate::tokenizer_routes::{self, DEEPSEEK, Random};

/// Byte-level, with a few merges, an added token and a template.
fn file() -> Value {
    let bytes = BYTE_CHARACTERS.iter().zip(0..).map(|(character, id)| (character.to_string(), json!(id)));
    let more = [("ab", 256), ("abc", 257), ("Ġab", 258), ("bc", 259), ("<s>", 260), ("abcd", 261)];
    let more = more.map(|(token, id)| (token.to_owned(), json!(id)));
    json!({
        "version": "1.0",
        "added_tokens": [added(260, "<s>")],
        "normalizer": null,
        "pre_tokenizer": bytes_of(true),
        "post_processor": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": bytes.chain(more).collect::<serde_json::Map<_, _>>(),
            "merges": ["a b", "Ġ ab", "ab c", "b c"],
        },
    })
}

pub(crate) fn added(id: u32, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
}

fn flagged(content: &str, flags: &[&str]) -> Value {
    let mut token = added(300, content);
    flags.iter().for_each(|flag| token[flag] = json!(true));
    token["id"] = json!(300 + content.bytes().map(u32::from).sum::<u32>());
    token
}

fn bytes_of(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

pub(crate) fn split(pattern: &str) -> Value {
    let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    json!({"type": "Sequence", "pretokenizers": [split, bytes_of(false)]})
}

/// The pre-tokenizer of DeepSeek V3, whose file has line ends in its regexes as themselves.
fn deepseek() -> Value {
    let spelled = DEEPSEEK.map(|regex| regex.replace(r"\r", "\r").replace(r"\n", "\n"));
    let mut members: Vec<Value> = spelled.iter().map(|regex| tokenizer_routes::split(regex)).collect();
    members.push(bytes_of(false));
    json!({"type": "Sequence", "pretokenizers": members})
}

/// Random texts of all classes of characters that the patterns of DeepSeek distinguish, by windrow's own engine.
#[test]
fn deepseek_takes_the_path_of_known_patterns() {
    #[rustfmt::skip]
    const PARTS: [&str; 44] = [
        "a", "b", "ab", "abc", "B", "é", "ÉB", "ǅ", "ʰ", "한", "々", "\u{9fa6}", "中文", "か", "ー", "・", "゠", "\u{3040}", "\u{3099}", "\u{301}",
        "\u{fe0f}", "\u{1d165}", "1", "23", "½", "٣", " ", "  ", "\t", "\n", "\r\n", "\u{a0}", "\u{3000}", "\u{85}", ".", "!?", "'", "_",
        "。", "😀", "\0", "\u{7f}", "\u{200d}", "<s>",
    ];
    let mut file = with(&[("/pre_tokenizer", deepseek())]);
    // Merges across the borders of all parts show where a piece ends.
    let bytes = |byte: Option<u8>| BYTE_CHARACTERS[usize::from(byte.expect("a part has bytes"))];
    for (before, after) in PARTS.iter().flat_map(|before| PARTS.iter().map(move |after| (before, after))) {
        let (left, right) = (bytes(before.bytes().last()), bytes(after.bytes().next()));
        let vocab = file["model"]["vocab"].as_object_mut().expect("a vocabulary");
        let (token, id) = (format!("{left}{right}"), vocab.len());
        if !vocab.contains_key(&token) {
            vocab.insert(token, json!(id));
            file["model"]["merges"].as_array_mut().expect("merges").push(json!(format!("{left} {right}")));
        }
    }
    let texts = Random(48).texts(if cfg!(debug_assertions) { 3000 } else { 30_000 }, &PARTS, 120);
    tokenizer_routes::engine_of(&file, &texts);
    // The general path would look up fewer and longer pieces.
    let tokenizer =
        Tokenizer::from_json(file.to_string().as_bytes(), "x.json", &LoadOptions::default()).expect("loads");
    tokenizer.encode_batch_ids(&["12345 l'été"]).expect("encodes");
    assert_eq!(tokenizer.explain().cache.expect("windrow's own engine").pieces, 5);
    for (place, value) in [("behavior", json!("Removed")), ("invert", json!(true))] {
        let mut other = deepseek();
        other["pretokenizers"][2][place] = value;
        file["pre_tokenizer"] = other;
        tokenizer_routes::engine_of(&file, &texts[..300]);
    }
}

fn template() -> Value {
    json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [260], "tokens": ["<s>"]}},
    })
}

pub(crate) fn with(changes: &[(&str, Value)]) -> Value {
    let mut file = file();
    for (place, value) in changes {
        let (parent, key) = place.rsplit_once('/').expect("a place");
        file.pointer_mut(parent).expect("a place")[key] = value.clone();
    }
    file
}

const TEXTS: [&str; 11] = [
    "",
    "ab abc abcd <s> bcab",
    "e\u{301} \u{1112}\u{1161}\u{11ab} <s>\u{338} \u{212b}",
    "don't DON'T I\u{17f} 12345 \n\n  x\t\n",
    "abcdabcdabcdabcdabcdabcd",
    "<s><s>ab<s",
    "\u{fb01} ABC\u{4e2d}\u{6587} \u{2009}\u{3000}ab",
    "a\u{308}b abc \u{9c7}\u{9be}",
    "...abc'abc''s 'd",
    "ab <s>  <s>\u{3000}\n<s>abc <s>_ 1<s> <s>\u{301} <s>",
    "[x] [x]ab {y}{y} \u{a0}[x] e\u{301}[x",
];

#[test]
fn admitted_files_have_the_ids_of_the_reference() {
    const LINES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let cases = [
        vec![],
        vec![("/pre_tokenizer", split(LINES))],
        vec![("/pre_tokenizer", deepseek())],
        vec![("/pre_tokenizer", deepseek()), ("/normalizer", json!({"type": "NFC"}))],
        vec![("/normalizer", json!({"type": "NFC"}))],
        vec![("/normalizer", json!({"type": "Sequence", "normalizers": []}))],
        vec![("/model/ignore_merges", json!(true))],
        vec![("/post_processor", template())],
        vec![("/post_processor", json!({"type": "Sequence", "processors": [bytes_of(true), template()]}))],
        vec![("/added_tokens", json!([added(260, "<s>"), added(300, "s> bc")]))],
        vec![("/model/unk_token", json!("<s>")), ("/model/end_of_word_suffix", json!(""))],
        vec![("/added_tokens", json!([flagged("<s>", &["lstrip"])]))],
        vec![("/added_tokens", json!([flagged("<s>", &["rstrip"])]))],
        vec![("/added_tokens", json!([flagged("<s>", &["lstrip", "rstrip"]), flagged(" ", &[])]))],
        vec![("/added_tokens", json!([flagged("<s>", &["single_word"]), flagged("abc", &["single_word"])]))],
        vec![("/added_tokens", json!([flagged("<s>", &["normalized"])]))],
        vec![("/added_tokens", json!([flagged("<s>", &["normalized"]), flagged("b <", &[])]))],
        vec![
            ("/added_tokens", json!([flagged("e\u{301}[x", &["normalized"]), flagged("\u{301}", &[])])),
            ("/normalizer", json!({"type": "NFC"})),
        ],
        vec![(
            "/added_tokens",
            json!([flagged("<s>", &[]), flagged("[x]", &[]), flagged("{y}", &[]), flagged("a", &[])]),
        )],
    ];
    for changes in cases {
        let file = with(&changes).to_string();
        let mut oracle: Oracle = file.parse().expect("the reference reads it");
        for add_special_tokens in [false, true] {
            for special_in_text in [false, true] {
                let options = LoadOptions { add_special_tokens, special_in_text, ..LoadOptions::default() };
                let tokenizer = Tokenizer::from_json(file.as_bytes(), "x.json", &options).expect("loads");
                assert_eq!(tokenizer.delegated(), None, "{changes:?}");
                oracle.set_encode_special_tokens(!special_in_text);
                let expected =
                    TEXTS.map(|text| oracle.encode_fast(text, add_special_tokens).unwrap().get_ids().to_vec());
                let batch = tokenizer.encode_batch_ids(&TEXTS).unwrap();
                assert!(batch.iter().eq(expected.iter().map(|ids| &ids[..])), "{changes:?} {options:?}: {batch:?}");
                let mut encoder = tokenizer.engine().encoder();
                for (text, expected) in TEXTS.iter().zip(expected) {
                    let mut ids = Vec::new();
                    encoder.encode(text, &mut ids).unwrap();
                    assert_eq!(ids, expected, "{changes:?} {options:?}: {text:?}");
                }
            }
        }
    }
}

#[test]
fn files_of_which_no_cut_is_known_go_to_another_engine() {
    let replace = |pattern: &str| json!({"type": "Replace", "pattern": {"Regex": pattern}, "content": "a"});
    let cases = [
        (vec![("/normalizer", replace("a+b"))], "the effect of the Replace normalizer may depend on distant text"),
        (
            vec![("/pre_tokenizer", json!({"type": "UnicodeScripts"}))],
            "windrow does not know how the UnicodeScripts pre-tokenizer",
        ),
        (vec![("/pre_tokenizer", split("(?<=a)b"))], "has features that windrow does not analyze"),
        (vec![("/pre_tokenizer", split("^b"))], "looks at the text around a match"),
        (vec![("/pre_tokenizer", split("b*"))], "matches the empty string"),
        (vec![("/pre_tokenizer", split("[[:alpha:]]+"))], "has features that windrow does not analyze"),
    ];
    for (changes, reason) in cases {
        let file = with(&changes).to_string();
        let tokenizer = Tokenizer::from_json(file.as_bytes(), "x.json", &LoadOptions::default());
        match tokenizer {
            Ok(tokenizer) => {
                assert!(tokenizer.delegated().is_some_and(|why| why.contains(reason)), "{:?}", tokenizer.delegated());
                assert!(!tokenizer.engine().name().starts_with("windrow-bpe"));
            }
            Err(error) => panic!("{changes:?}: {error}"),
        }
    }
}

#[test]
fn the_engine_can_be_chosen() {
    let load = |file: &Value, engine| {
        let options = LoadOptions { engine, ..LoadOptions::default() };
        Tokenizer::from_json(file.to_string().as_bytes(), "x.json", &options)
    };
    let ids = |tokenizer: &Tokenizer| tokenizer.encode_batch_ids(&TEXTS).expect("encodes");
    let automatic = load(&file(), EngineChoice::Automatic).expect("loads");
    let own = load(&file(), EngineChoice::Windrow).expect("loads");
    let other = load(&file(), EngineChoice::Tokenizers).expect("loads");
    for tokenizer in [&automatic, &own] {
        assert!(tokenizer.engine().name().starts_with("windrow-bpe ") && tokenizer.delegated().is_none());
    }
    assert!(other.engine().name().starts_with("tokenizers 0.23"));
    assert_eq!(other.delegated(), Some("the options request the tokenizers engine"));
    assert_eq!(ids(&own), ids(&automatic));
    assert_eq!(ids(&other), ids(&automatic));

    let scripts = with(&[("/pre_tokenizer", json!({"type": "UnicodeScripts"}))]);
    let error = load(&scripts, EngineChoice::Windrow).err().expect("refused").to_string();
    let says = "tokenizer x.json: windrow's own engine cannot encode with it: windrow does not know how the UnicodeScripts pre-tokenizer";
    assert!(error.starts_with(says), "{error}");
    let automatic = load(&scripts, EngineChoice::Automatic).expect("loads");
    assert_eq!(ids(&load(&scripts, EngineChoice::Tokenizers).expect("loads")), ids(&automatic));
}

#[test]
fn the_engine_of_an_embedded_vocabulary_can_be_chosen() {
    let expected = Tokenizer::load("r50k_base", &LoadOptions::default()).expect("loads");
    let all: Vec<u32> = (0..50_257).collect();
    for engine in [EngineChoice::Windrow, EngineChoice::Tokenizers] {
        let options = LoadOptions { engine, ..LoadOptions::default() };
        {
            let tokenizer = Tokenizer::load("r50k_base", &options).expect("loads");
            assert_eq!(tokenizer.delegated().is_none(), engine == EngineChoice::Windrow);
            assert_eq!(tokenizer.encode_batch_ids(&TEXTS), expected.encode_batch_ids(&TEXTS));
            for skip_special_tokens in [false, true] {
                assert_eq!(tokenizer.decode(&all, skip_special_tokens), expected.decode(&all, skip_special_tokens));
                let unknown = [1, 50_257];
                assert_eq!(
                    tokenizer.decode(&unknown, skip_special_tokens),
                    expected.decode(&unknown, skip_special_tokens)
                );
            }
            assert_eq!(tokenizer.token_to_id("Ġthe"), expected.token_to_id("Ġthe"));
        }
    }
}

/// A batch that grows by pieces is the batch of all, with each engine.
#[test]
fn batches_that_grow_are_batches() {
    let json = with(&[("/post_processor", template())]).to_string();
    for add_special_tokens in [false, true] {
        for engine in [EngineChoice::Windrow, EngineChoice::Tokenizers] {
            let options = LoadOptions { add_special_tokens, engine, ..LoadOptions::default() };
            let tokenizer = Tokenizer::from_json(json.as_bytes(), "growing.json", &options).expect("loads");
            let all = tokenizer.encode_batch_ids(&TEXTS).expect("encodes");
            for size in [1, 3, TEXTS.len()] {
                let mut grown = Ragged::default();
                for piece in TEXTS.chunks(size) {
                    assert_eq!(tokenizer.append_batch_ids_while(piece, &mut grown, &|| true), Ok(true));
                }
                assert_eq!(grown, all);
                assert_eq!(tokenizer.append_batch_ids_while(&[], &mut grown, &|| true), Ok(true));
                assert_eq!(grown, all);
                // What it had does not stay in a batch that was replaced.
                assert_eq!(tokenizer.encode_batch_ids_while(&TEXTS[..2], &mut grown, &|| true), Ok(true));
                assert_eq!((grown.len(), &grown.values[..]), (2, &all.values[..all.offsets[2] as usize]));
                assert_eq!(tokenizer.append_batch_ids_while(&TEXTS, &mut grown, &|| false), Ok(false));
                assert!(grown.is_empty());
            }
        }
    }
}

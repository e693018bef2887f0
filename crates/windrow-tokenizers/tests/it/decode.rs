//! Ids back to text, and ids with their places, against `tokenizers` 0.23 and tiktoken.
//!
//! Files are searched as by the tests of `parity`. Without them, those tests print that they are skipped.

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokenizers_023::Tokenizer as Oracle;
use windrow::Pool;
use windrow_tokenizers::engine::{BYTE_CHARACTERS, DecodeError};
use windrow_tokenizers::full::FullTokenizer;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const FILES: [&str; 6] = ["gpt2", "qwen2_5", "mistral_nemo", "deepseek_v3", "bert_base_uncased", "t5_small"];

/// What texts are made of: scripts, marks that compose and move, white space, added tokens.
#[rustfmt::skip]
const PARTS: [&str; 40] = [
    "a", "the", " the", "Hello", " windrow", "  ", "\n", "\t ", "\r\n", "don't", "'S", "1", "234", " 56", ".", "!?", "_", "é", "e\u{301}", "\u{327}",
    "\u{301}\u{327}", "я", " Яя", "中", "文字", "日本語", "한", "\u{1112}\u{1161}\u{11ab}", "😀", "\u{3000}", "\u{958}", "\u{212b}", "\u{1f468}\u{200d}\u{1f469}",
    "<|endoftext|>", "<s>", " </s>", "[CLS] ", "<|im_end|>", "<｜begin▁of▁sentence｜>", "\u{2126}",
];

fn texts() -> impl Strategy<Value = String> {
    let parts = proptest::collection::vec((0..PARTS.len(), 1_usize..3), 0..40);
    parts.prop_map(|parts| parts.into_iter().map(|(part, times)| PARTS[part].repeat(times)).collect())
}

/// Failures are printed, and not kept in a file.
fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() })
}

fn all_options() -> impl Iterator<Item = LoadOptions> {
    [false, true].into_iter().flat_map(|add_special_tokens| {
        [true, false].map(|special_in_text| LoadOptions {
            add_special_tokens,
            special_in_text,
            ..LoadOptions::default()
        })
    })
}

/// A tokenizer, and the reference with the same settings.
struct Pair {
    ours: Tokenizer,
    full: FullTokenizer,
    oracle: Oracle,
    options: LoadOptions,
}

impl Pair {
    fn new(json: &[u8], options: LoadOptions) -> Self {
        let ours = Tokenizer::from_json(json, "x.json", &options).expect("loads");
        let full = FullTokenizer::from_json(json, "x.json", &options).expect("loads");
        let mut oracle = Oracle::from_bytes(json).expect("the reference reads the file");
        oracle.with_truncation(None).expect("no truncation is always possible");
        oracle.with_padding(None);
        oracle.set_encode_special_tokens(!options.special_in_text);
        Self { ours, full, oracle, options }
    }

    #[track_caller]
    fn same_offsets(&self, text: &str) {
        let encoded = self.ours.encode_with_offsets(text).expect("encodes");
        let expected = self.oracle.encode(text, self.options.add_special_tokens).expect("encodes");
        assert_eq!(encoded.ids, expected.get_ids(), "{text:?}");
        let offsets: Vec<_> = encoded.offsets.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(offsets, expected.get_offsets(), "{text:?} {:?} {:?}", expected.get_tokens(), self.options);
        let mut ids = Vec::new();
        self.ours.engine().encoder().encode(text, &mut ids).expect("encodes");
        assert_eq!(encoded.ids, ids, "{text:?}");
    }

    /// Whole encodings, of the text by itself and in a pair.
    #[track_caller]
    fn same_encodings(&self, text: &str) {
        let (full, special) = (&self.full, self.options.add_special_tokens);
        let mut plain = full.post_processing().clone();
        plain.set_truncation(None).expect("no truncation is always possible");
        plain.set_padding(None);
        let expected = self.oracle.encode_char_offsets(text, special).expect("encodes");
        assert_eq!(full.encode(text.into(), special, &plain).expect("encodes"), expected, "{text:?}");
        let mut ids = Vec::new();
        full.tokenizer().engine().encoder().encode(text, &mut ids).expect("encodes");
        assert_eq!(full.encoding_of(text, &ids, special, &plain).expect("encodes"), expected, "{text:?}");
        if let Some(offsets) = full.tokenizer().offsets_of(text, &ids) {
            let special = expected.get_special_tokens_mask().iter().zip(expected.get_offsets());
            let inner: Vec<_> = special.filter(|(mask, _)| **mask == 0).map(|(_, offsets)| *offsets).collect();
            assert_eq!(offsets, inner, "{text:?}");
        }
        let expected = self.oracle.encode_char_offsets((text, "the é"), special).expect("encodes");
        assert_eq!(full.encode((text, "the é").into(), special, &plain).expect("encodes"), expected, "{text:?}");
    }

    #[track_caller]
    fn same_text(&self, ids: &[u32]) {
        for skip_special_tokens in [false, true] {
            let text = self.ours.decode(ids, skip_special_tokens).expect("decodes");
            assert_eq!(text, self.oracle.decode(ids, skip_special_tokens).expect("decodes"), "{ids:?}");
        }
    }

    /// Both, for a text with its ids, and some ids that no text has.
    #[track_caller]
    fn same(&self, text: &str, ids: &[u32]) {
        self.same_offsets(text);
        self.same_encodings(text);
        self.same_text(self.oracle.encode(text, self.options.add_special_tokens).expect("encodes").get_ids());
        self.same_text(ids);
    }
}

fn file(name: &str) -> Option<Vec<u8>> {
    let data = match std::env::var_os("WINDROW_DATA") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
    };
    let file = std::fs::read(data.join(format!("tok/{name}.json"))).ok();
    if file.is_none() {
        println!("skipped: no {name}.json in {}", data.display());
    }
    file
}

#[test]
fn published_files_are_as_in_the_reference() {
    for name in FILES {
        let Some(file) = file(name) else { continue };
        // Loading takes most of the time: each setting is once on and once off, in few cases off.
        let settings = windrow_testkit::cases(1).min(2) as usize;
        for options in all_options().skip(1).take(settings) {
            let pair = Pair::new(&file, options);
            let most = pair.ours.vocab_size() + 100;
            let mut runner = runner(windrow_testkit::cases(10));
            let cases = (texts(), proptest::collection::vec(0..most, 0..60));
            let outcome = runner.run(&cases, |(text, ids)| {
                pair.same(&text, &ids);
                Ok(())
            });
            outcome.unwrap_or_else(|failed| panic!("{name}: {failed}"));
        }
    }
}

/// Byte-level, with tokens that are not in the byte-level alphabet, and added tokens of all kinds.
fn small() -> Value {
    let bytes = BYTE_CHARACTERS.iter().zip(0..).map(|(character, id)| (character.to_string(), json!(id)));
    let more = [("th", 256), ("the", 257), ("Ġthe", 258), ("<s>", 259), ("中", 260), ("文Ġ字", 261), ("ĠĠ", 262)];
    let more = more.map(|(token, id)| (token.to_owned(), json!(id)));
    let added = |id: u32, content: &str, special: bool| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": special,
        })
    };
    json!({
        "version": "1.0",
        "added_tokens": [added(259, "<s>", true), added(263, "<é", false), added(264, "< x> ", true), added(265, "<Ġ", false)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": bytes_of(true, true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": bytes.chain(more).collect::<serde_json::Map<_, _>>(),
            "merges": ["t h", "th e", "Ġ the", "Ġ Ġ"],
        },
    })
}

fn bytes_of(add_prefix_space: bool, trim_offsets: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets, "use_regex": true})
}

fn template() -> Value {
    json!({
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [259], "tokens": ["<s>"]}},
    })
}

/// The small file with other parts.
fn small_with(parts: &[(&str, Value)]) -> Vec<u8> {
    let mut file = small();
    for (name, part) in parts {
        file[*name] = part.clone();
    }
    file.to_string().into_bytes()
}

#[test]
fn offsets_are_trimmed_and_aligned_as_in_the_reference() {
    let nfc = json!({"type": "NFC"});
    let lowercase = json!({"type": "Lowercase"});
    let mut doubled = small()["model"].take();
    doubled["vocab"]["ĠĠ"] = json!(264);
    let mut stripping = small()["added_tokens"].take();
    stripping[1]["lstrip"] = json!(true);
    let both = |a: Value, b: Value| json!({"type": "Sequence", "processors": [a, b]});
    let roberta = json!({
        "type": "RobertaProcessing", "sep": ["<s>", 259], "cls": ["<s>", 259], "trim_offsets": true, "add_prefix_space": true,
    });
    let cases = [
        vec![],
        vec![("normalizer", nfc.clone())],
        vec![("post_processor", bytes_of(false, true))],
        vec![("post_processor", bytes_of(true, true)), ("normalizer", nfc.clone())],
        vec![("post_processor", bytes_of(true, false))],
        vec![("post_processor", both(bytes_of(true, true), template()))],
        vec![("post_processor", both(template(), bytes_of(false, true))), ("normalizer", nfc)],
        vec![("post_processor", roberta)],
        vec![("normalizer", lowercase)],
        vec![("added_tokens", stripping)],
        // An added token gets the same id.
        vec![("post_processor", bytes_of(false, true)), ("model", doubled)],
    ];
    let parts = [
        " ",
        "  ",
        "the",
        " the",
        "中",
        "e\u{301}",
        "\u{301}",
        "a\u{327}\u{301}",
        "<s>",
        "<é",
        "< x> ",
        "<Ġ",
        "\u{1112}\u{1161}\u{11ab}",
    ];
    for case in cases {
        let file = small_with(&case);
        for options in all_options() {
            let pair = Pair::new(&file, options);
            for text in ["", " ", "   ", " the", "the ", " é ", "\u{301}", "e\u{301}", "\u{301}e <s>\u{301} "] {
                pair.same(text, &[]);
            }
            let mut runner = runner(100);
            let texts = proptest::collection::vec(0..parts.len(), 0..30);
            let outcome = runner.run(&texts, |text| {
                pair.same(&text.into_iter().map(|part| parts[part]).collect::<String>(), &[]);
                Ok(())
            });
            outcome.unwrap_or_else(|failed| panic!("{case:?}: {failed}"));
        }
    }
}

#[test]
fn decoders_are_those_of_the_file() {
    let decoders = [
        bytes_of(true, true),
        Value::Null,
        json!({"type": "Sequence", "decoders": [bytes_of(false, false)]}),
        json!({"type": "Sequence", "decoders": [bytes_of(false, false), {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        json!({"type": "Replace", "pattern": {"Regex": "h+"}, "content": "H"}),
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "Ġ"}, "content": " "}, {"type": "Replace", "pattern": {"Regex": "^ "}, "content": ""}, {"type": "Fuse"},
        ]}),
        json!({"type": "WordPiece", "prefix": "th", "cleanup": true}),
    ];
    for decoder in decoders {
        for normalizer in [Value::Null, json!({"type": "Lowercase"})] {
            let file = small_with(&[("decoder", decoder.clone()), ("normalizer", normalizer)]);
            for options in all_options() {
                let pair = Pair::new(&file, options);
                pair.same_text(&(0..300).collect::<Vec<u32>>());
                pair.same_text(&[258, 257, 32, 258, 264, 259, 400, 263, 265, 260, 261, 262, u32::MAX, 0xe4, 0xb8]);
            }
        }
    }
}

#[test]
fn a_damaged_decoder_prevents_only_decoding() {
    for decoder in
        [json!({"type": "NoSuch"}), json!({"type": "Replace", "pattern": {"Regex": "("}, "content": ""}), json!([1])]
    {
        for normalizer in [Value::Null, json!({"type": "Lowercase"})] {
            let file = small_with(&[("decoder", decoder.clone()), ("normalizer", normalizer)]);
            let tokenizer = Tokenizer::from_json(&file, "x.json", &LoadOptions::default()).expect("loads");
            let error = tokenizer.decode(&[1], false).expect_err("no decoder");
            assert!(error.to_string().starts_with("tokenizers 0.23.2 cannot decode: decoder: "), "{error}");
            assert_eq!(tokenizer.encode_with_offsets("the").expect("encodes").ids, [257]);
        }
    }
}

#[test]
fn embedded_vocabularies_decode_as_tiktoken_does() {
    let oracles = [
        ("r50k_base", tiktoken_rs::r50k_base_singleton()),
        ("cl100k_base", tiktoken_rs::cl100k_base_singleton()),
        ("o200k_base", tiktoken_rs::o200k_base_singleton()),
    ];
    for (name, oracle) in oracles {
        let options = [LoadOptions::default(), LoadOptions { special_in_text: false, ..LoadOptions::default() }];
        let tokenizers = options.map(|options| {
            [Tokenizer::load(name, &options), Tokenizer::load(name, &options)].map(|loaded| loaded.expect("loads"))
        });
        let end = tokenizers[0][0].eos().expect("known").1;
        let mut runner = runner(100);
        // The id before that of the end has no token in two of them.
        let outcome = runner.run(&(texts(), proptest::collection::vec(0..end - 1, 0..60)), |(text, mut ids)| {
            ids.push(end);
            let bytes = oracle.decode_bytes(&ids).expect("known ids");
            let expected = String::from_utf8_lossy(&bytes);
            for tokenizer in tokenizers.iter().flatten() {
                assert_eq!(tokenizer.decode(&ids, false).expect("decodes"), expected);
                assert_eq!(
                    tokenizer.decode(&ids, true).expect("decodes"),
                    expected.strip_suffix("<|endoftext|>").unwrap()
                );
                let encoded = tokenizer.encode_with_offsets(&text).expect("encodes");
                assert_eq!(tokenizer.decode(&encoded.ids, false).expect("decodes"), text);
                let covered =
                    encoded.offsets.iter().fold(0, |end, range| if range.start <= end { range.end } else { 0 });
                assert_eq!(covered, text.len());
            }
            Ok(())
        });
        outcome.unwrap_or_else(|failed| panic!("{name}: {failed}"));
        for tokenizer in tokenizers.iter().flatten() {
            let error = tokenizer.decode(&[1, end, 999_999, 2], true).expect_err("unknown");
            assert!(matches!(&error, DecodeError::UnknownId(unknown) if (unknown.index, unknown.id) == (2, 999_999)));
            let says = "id 999999, at index 2, has no token (hint: decode with the vocabulary that produced the ids)";
            assert_eq!(error.to_string(), says);
        }
    }
}

#[test]
fn batches_decode_in_order() {
    let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).expect("loads");
    let texts: Vec<String> = (0..500).map(|number| PARTS[number % PARTS.len()].repeat(number % 50)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let batch = tokenizer.encode_batch_ids(&texts).expect("encodes");
    let mut documents: Vec<Vec<u32>> = batch.iter().map(<[u32]>::to_vec).collect();
    for threads in [1, 2, 8] {
        let decoded = Pool::new(threads).install(|| tokenizer.decode_batch(&documents, false)).expect("decodes");
        assert_eq!(decoded, texts);
    }
    documents[400].push(60_000);
    documents[17].push(70_000);
    let error = tokenizer.decode_batch(&documents, false).expect_err("unknown ids");
    assert_eq!(error.document, 17);
    assert!(error.to_string().starts_with("document 17: id 70000, at index "), "{error}");
}

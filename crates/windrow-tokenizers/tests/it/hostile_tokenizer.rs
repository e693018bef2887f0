//! A `tokenizer.json` is untrusted. Whatever it contains, loading ends soon, with a tokenizer or with an error that names the file, the
//! place and the remedy. Nothing panics.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use windrow_tokenizers::engine::{BYTE_CHARACTERS, EngineError};
use windrow_tokenizers::tokenizer::{LoadError, LoadOptions, Tokenizer};

/// A second in a release build; these builds are slower and share the machine.
const SOON: Duration = Duration::from_secs(4);
/// Tests take far less time unless the work is unbounded.
const HANG: Duration = Duration::from_secs(60);

/// Byte-level, with one merge: "ab" is token 256.
fn byte_level() -> Value {
    let alphabet = BYTE_CHARACTERS.iter().enumerate();
    let mut vocab: Map<String, Value> = alphabet.map(|(byte, spelled)| (spelled.to_string(), json!(byte))).collect();
    vocab.insert("ab".to_owned(), json!(256));
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added(257, "<end>")], "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null, "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": [["a", "b"]],
        },
    })
}

fn added(id: u64, content: &str) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true,
    })
}

/// The file with one value replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut file = byte_level();
    match file.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            file.pointer_mut(parent).expect("a parent")[name] = value;
        }
    }
    file
}

fn load(json: impl AsRef<[u8]>) -> Result<Tokenizer, LoadError> {
    let start = Instant::now();
    let result = Tokenizer::from_json(json.as_ref(), "dir/bad.json", &LoadOptions::default());
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
    result
}

/// The file is refused, and the message contains its name, a hint and all of these parts.
#[track_caller]
fn refused(json: impl AsRef<[u8]>, parts: &[&str]) {
    let Err(error) = load(json) else { panic!("was accepted, instead of: {parts:?}") };
    let message = error.to_string();
    for part in ["dir/bad.json", "\nhint: "].iter().chain(parts) {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(message.len() < 700, "{} bytes: {message}", message.len());
}

#[track_caller]
fn refused_with(pointer: &str, value: Value, parts: &[&str]) {
    refused(with(pointer, value).to_string(), parts);
}

#[track_caller]
fn encode(json: impl AsRef<[u8]>, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    load(json).expect("loads").engine().encoder().encode(text, &mut ids).expect("encodes");
    ids
}

#[test]
fn the_file_itself_is_good() {
    assert_eq!(encode(byte_level().to_string(), "abc<end>"), [256, 99, 257]);
}

#[test]
fn not_json() {
    refused("vocab.txt\nthe\nof", &["expected value at line 1 column 1"]);
    refused("[]", &["invalid type: sequence"]);
    refused("{}x", &["trailing characters"]);
    refused("{\"model\": {\"vocab\": {\"a\u{0}\": 1}}}", &["control character"]);
    refused(b"\x00\x00\x00\x00", &["expected value"]);
    refused(b"PK\x03\x04\xff\xfe", &["not valid UTF-8 at byte 4"]);
}

#[test]
fn empty() {
    refused("", &["the file is empty"]);
    refused(" \n", &["the file is empty"]);
    refused(b"\xef\xbb\xbf", &["the file is empty"]);
    refused("{}", &["model: is missing"]);
}

#[test]
fn truncated_anywhere() {
    let whole = byte_level().to_string();
    for end in (1..whole.len()).step_by(37).filter(|&end| whole.is_char_boundary(end)) {
        refused(&whole[..end], &["EOF while parsing"]);
    }
}

#[test]
fn byte_order_mark_is_skipped() {
    let json = [b"\xef\xbb\xbf", byte_level().to_string().as_bytes()].concat();
    assert_eq!(encode(json, "ab"), [256]);
}

#[test]
fn deep_nesting() {
    let depth = 200_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    refused(&deep, &["invalid type"]);
    refused(format!("{{\"normalizer\": {deep}}}"), &["normalizer: recursion limit exceeded"]);
    refused(format!("{{\"model\": {{\"vocab\": {{\"a\": {deep}}}}}}}"), &["model.vocab", "\"a\""]);
    refused(format!("{{\"model\": {{\"vocab\": {{\"a\": 1}}, \"merges\": [{deep}]}}}}"), &["model.merges"]);
    // Parts that do not affect encoding are not read.
    let whole = byte_level().to_string();
    assert_eq!(encode(whole.replacen('{', &format!("{{\"unknown\": {deep},"), 1), "ab"), [256]);

    let mut nested = json!({"type": "Lowercase"});
    for _ in 0..20 {
        nested = json!({"type": "Sequence", "normalizers": [nested]});
    }
    refused_with(
        "/normalizer",
        nested,
        &["normalizer.normalizers[0].normalizers[0]", "nested more than 8 levels deep"],
    );
}

#[test]
fn ids_that_do_not_fit() {
    refused_with("/model/vocab/ab", json!(4_000_000_000_u32), &["model.vocab[\"ab\"]", "id 4000000000 is too large"]);
    refused_with("/model/vocab/ab", json!(u32::MAX), &["id 4294967295 is too large"]);
    refused_with("/model/vocab/ab", json!(1_u64 << 40), &["model.vocab", "token \"ab\"", "1099511627776"]);
    refused_with("/model/vocab/ab", json!(-1), &["model.vocab", "token \"ab\""]);
    refused_with("/model/vocab/ab", json!(1.5), &["model.vocab", "token \"ab\""]);
    refused_with("/model/vocab/ab", json!("256"), &["model.vocab", "token \"ab\""]);
    refused_with("/added_tokens/0/id", json!(4_000_000_000_u32), &["added_tokens[0]", "id 4000000000 is too large"]);
}

#[test]
fn ids_given_twice() {
    refused_with("/model/vocab/ab", json!(255), &["model.vocab", "\"ab\"", "the same id 255"]);
    refused_with("/added_tokens", json!([added(257, "x>"), added(257, "y>")]), &["added_tokens[1]", "\"x>\": 257"]);
    refused_with(
        "/added_tokens",
        json!([added(257, "x>"), added(258, "x>")]),
        &["added_tokens[1]", "\"x>\" occurs twice"],
    );
    let twice = byte_level().to_string().replacen("\"ab\":256", "\"ab\":256,\"ab\":300", 1);
    refused(twice, &["model.vocab", "\"ab\" occurs twice"]);
}

#[test]
fn merges_outside_the_vocabulary() {
    refused_with(
        "/model/merges",
        json!([["a", "b"], ["ab", "zz"]]),
        &["model.merges[1]", "\"zz\" is not in the vocabulary"],
    );
    refused_with("/model/merges", json!([["a", "c"]]), &["model.merges[0]", "\"ac\" is not in the vocabulary"]);
    refused_with("/model/merges", json!(["a b c"]), &["model.merges", "\"a b c\" is not two tokens"]);
    refused_with("/model/merges", json!([["a"]]), &["model.merges", "not a pair"]);
    refused_with("/model/merges", json!({"a": "b"}), &["model.merges", "invalid type: map"]);
    // The library would cut two bytes off "b", or half a character off "é".
    let mut file = with("/model/continuing_subword_prefix", json!("##"));
    refused(file.to_string(), &["model.merges[0]", "\"b\" is shorter than the prefix"]);
    file["model"]["continuing_subword_prefix"] = json!("#");
    file["model"]["merges"] = json!([["a", "Ġ"]]);
    refused(file.to_string(), &["model.merges[0]", "\"Ġ\" is shorter than the prefix"]);
}

#[test]
fn templates() {
    let template = |single: Value, special: Value| json!({"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special});
    let a = json!({"Sequence": {"id": "A", "type_id": 0}});
    let end = json!({"SpecialToken": {"id": "<end>", "type_id": 0}});
    let entry = |id: u64| json!({"<end>": {"id": "<end>", "ids": [id], "tokens": ["<end>"]}});
    let place = "/post_processor";
    refused_with(
        place,
        template(json!([a, end]), json!({})),
        &["post_processor.single[1]", "\"<end>\" is not in special_tokens"],
    );
    refused_with(
        place,
        template(json!([a, end]), entry(4_000_000_000)),
        &["post_processor.single[1]", "id 4000000000 is outside"],
    );
    refused_with(place, template(json!([end]), entry(257)), &["post_processor.single", "sequence A 0 times"]);
    refused_with(place, template(json!([a, a]), entry(257)), &["post_processor.single", "sequence A 2 times"]);
    refused_with(
        place,
        json!({"type": "BertProcessing", "sep": ["<end>", 99999], "cls": ["<end>", 257]}),
        &["post_processor.sep", "id 99999"],
    );
    refused_with(
        place,
        json!({"type": "Sequence", "processors": [template(json!([]), json!({}))]}),
        &["post_processor.processors[0].single"],
    );
    // 0.23 would read all of these as another type, whose ids were not checked.
    let named = |kind: &str| {
        let mut node = template(json!([a, end]), entry(4_000_000_000));
        node["type"] = json!(kind);
        node
    };
    refused_with(place, json!({"type": "Magic"}), &["post_processor.type", "\"Magic\" is not a known type"]);
    refused_with(
        place,
        named("TemplateProcessin"),
        &["post_processor.type", "\"TemplateProcessin\" is not a known type"],
    );
    refused_with(place, named("ByteLevel"), &["post_processor.single", "is not a field of a ByteLevel"]);
    refused_with(place, named("Sequence"), &["post_processor.single", "is not a field of a Sequence"]);
    let mut both = template(json!([a, end]), entry(257));
    both["sep"] = json!(["<end>", 4_000_000_000_u32]);
    both["cls"] = both["sep"].clone();
    refused_with(place, both, &["post_processor.sep", "is not a field of a TemplateProcessing"]);

    let pair = json!([a, end, {"Sequence": {"id": "B", "type_id": 1}}]);
    let mut good = template(json!([a, end]), entry(257));
    good["pair"] = pair;
    let json = with(place, good).to_string();
    let options = LoadOptions { add_special_tokens: true, ..LoadOptions::default() };
    let tokenizer = Tokenizer::from_json(json.as_bytes(), "good.json", &options).expect("loads");
    let mut ids = Vec::new();
    tokenizer.engine().encoder().encode("ab", &mut ids).expect("encodes");
    assert_eq!(ids, [256, 257]);
}

#[test]
fn settings_that_would_panic() {
    refused_with("/pre_tokenizer", json!({"type": "FixedLength", "length": 0}), &["pre_tokenizer.length", "positive"]);
    let inner = json!({"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 0}]});
    refused_with("/pre_tokenizer", inner, &["pre_tokenizer.pretokenizers[0].length"]);

    // The encoder truncates nothing, whatever the file says.
    let file =
        with("/truncation", json!({"max_length": 2, "stride": 5, "strategy": "LongestFirst", "direction": "Right"}));
    assert_eq!(encode(file.to_string(), "abcabc").len(), 4);
    let mut file = with("/truncation", json!("yes"));
    file["padding"] = json!({"strategy": {"Fixed": 0}});
    let tokenizer = load(file.to_string()).expect("loads");
    assert_eq!(tokenizer.notes(), ["tokenizer dir/bad.json: its settings for truncation and padding are ignored"]);
}

#[test]
fn bytes_without_tokens() {
    let mut file = byte_level();
    let vocab = file["model"]["vocab"].as_object_mut().expect("a vocabulary");
    vocab.remove("z");
    vocab.remove("Ġ");
    refused(file.to_string(), &["model.vocab", "not every byte has a token (2 missing, the first being that of 0x20)"]);
    // If the unknown has a token, they become that token.
    file["model"]["unk_token"] = json!("a");
    assert_eq!(encode(file.to_string(), "bz"), [98, 97]);
}

#[test]
fn regexes() {
    let split = |regex: &str| {
        let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        with("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": [split, bytes]})).to_string()
    };
    let text = format!("{}!", "a".repeat(20_000));
    // Backtracking has a limit: on both patterns, 0.23 itself panics.
    let backtracks = load(split("(a+)+$")).expect("loads").engine().encoder().encode(&text, &mut Vec::new());
    assert!(matches!(backtracks, Err(EngineError::Refused { .. })), "{backtracks:?}");
    let tokenizer = load(split("(?:(?=a)a+)+(?!a)(?!!)")).expect("loads");
    let mut encoder = tokenizer.engine().encoder();
    let mut ids = vec![7];
    let start = Instant::now();
    match encoder.encode(&text, &mut ids) {
        Err(EngineError::Refused { reason, .. }) => assert!(reason.contains("backtracking"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < SOON);
    assert_eq!(ids, [7], "an error does not change the ids");
    encoder.encode("cab", &mut ids).expect("the encoder can go on");
    assert_eq!(ids[..2], [7, 99]);

    // 0.23 gives up on one position of the text after ten million retries; here all positions together have a budget.
    for expensive in [r"(?:a?){60}b", r"(a*)*b", r"(?=a+[bc])[ad]", r"(?:a|a)+b", r"(?:(?:(?:a?){99}){30}){30}b"] {
        let start = Instant::now();
        let result = load(split(expensive)).expect("loads").engine().encoder().encode(&text, &mut Vec::new());
        assert!(matches!(&result, Ok(()) | Err(EngineError::Refused { .. })), "{expensive}: {result:?}");
        assert!(start.elapsed() < HANG, "{expensive}: {:?}", start.elapsed());
    }

    let hint = "hint: correct the pattern: it must be valid for Oniguruma";
    refused(split("(a"), &["pre_tokenizer: regex", "unmatched parenthesis", hint]);
    refused(split(r"\p{Nonsense}"), &["pre_tokenizer: regex", "invalid character property", hint]);
    refused(split(r"a\Gb"), &[r"\G is not supported", hint]);
    // A backreference would keep a thread busy for minutes.
    for backreference in [r"(?=(a+)\1*b)c", r"(?<x>a+)\k<x>"] {
        refused(split(backreference), &["backreferences are not supported", hint]);
    }
    refused(split(&"(a|".repeat(50_000)), &["pre_tokenizer.pretokenizers[0].pattern", "at most 8192"]);
    for open in ["(", "(?:", "(?=", "(?<!", "[", "[^[", "(?i:"] {
        refused(split(&open.repeat(8_000 / open.len())), &["pre_tokenizer: regex", "nested more than 200 levels deep"]);
    }
    for nested in [r"(?:\w{1000}){1000}", r"(?:(?:a?){400}b){251}", r"((()){1000}){101}", r"a{101}{1000}"] {
        refused(split(nested), &["pre_tokenizer: regex", "nested repetitions multiply to more than 100000"]);
    }
    // Inside a class, after a backslash or in names, braces are not repetitions.
    let repeats = r"[a{9999}]{9}\{9999}{9}\p{L}{9999}|(?:\p{N}{1,3}){300}|(?:x{2,}){50000}|a{,3}";
    assert_eq!(encode(split(repeats), "ab").len(), 2);
    // Patterns can be deep without parentheses too.
    for deep in [
        &"a?*".repeat(2_500),
        &"a{2}?".repeat(1_600),
        &"(?i)".repeat(2_000),
        &"a|".repeat(4_000),
        &format!("a{}", "+?".repeat(4_000)),
    ] {
        if let Ok(tokenizer) = load(split(deep)) {
            let _ = tokenizer.engine().encoder().encode("aab", &mut Vec::new());
        }
    }
    let replace = json!({"type": "Replace", "pattern": {"Regex": "(?:(?=a)a+)+(?!a)(?!!)"}, "content": "x"});
    let tokenizer = load(with("/normalizer", replace).to_string()).expect("loads");
    assert!(matches!(tokenizer.engine().encoder().encode(&text, &mut ids), Err(EngineError::Refused { .. })));
}

/// A common mistake: both files are in the same folder.
#[test]
fn tekken() {
    let tekken =
        json!({"config": {"pattern": ".", "default_vocab_size": 9}, "vocab": [{"rank": 0}], "special_tokens": []});
    refused(tekken.to_string(), &["a Mistral tekken.json", "hint: use the tokenizer.json of the same model"]);
    refused(json!({"config": {}}).to_string(), &["model: is missing"]);
}

/// Each part of a text has a budget of its own, which does not add up to more than that of the text.
#[test]
fn backtracking_in_each_part_is_bounded() {
    let split =
        json!({"type": "Split", "pattern": {"Regex": r"(?:a|a)*b|\s|[^b\s]"}, "behavior": "Isolated", "invert": false});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let file = with("/pre_tokenizer", json!({"type": "Sequence", "pretokenizers": [split, bytes]}));
    let tokenizer = load(file.to_string()).expect("loads");
    assert_eq!(tokenizer.delegated(), None);
    let encode = |letters: usize| tokenizer.engine().encoder().encode(&"a".repeat(letters), &mut Vec::new());
    assert_eq!(encode(8), Ok(()));
    let error = encode(20).expect_err("a million ways").to_string();
    assert!(error.contains("needs too much backtracking"), "{error}");
}

/// A failed allocation in a library ends the process. Under a memory limit, a large text gives an error instead.
#[cfg(target_os = "linux")]
#[test]
fn no_memory_for_a_large_text() {
    const CHILD: &str = "WINDROW_TEST_WITHOUT_MEMORY";
    if std::env::var_os(CHILD).is_none() {
        let test = std::env::current_exe().expect("a path");
        let run = std::process::Command::new("sh")
            .args(["-c", "ulimit -v 900000 && exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(test)
            .arg(windrow_testkit::path_of(module_path!(), "no_memory_for_a_large_text"))
            .env(CHILD, "1")
            .output()
            .expect("a shell");
        assert!(run.status.success(), "{:?}: {}", run.status, String::from_utf8_lossy(&run.stderr));
        return;
    }
    let split = json!({"type": "Split", "pattern": {"Regex": r"(a+)b"}, "behavior": "Isolated", "invert": false});
    let words = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let steps = json!({"type": "Sequence", "pretokenizers": [split, words]});
    let released = json!({"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, words]});
    let text = "a".repeat(150 << 20);
    for (pre_tokenizer, engine) in [(words, "windrow-bpe"), (steps, "windrow-bpe"), (released, "0.23.2")] {
        let tokenizer = load(with("/pre_tokenizer", pre_tokenizer).to_string()).expect("loads");
        let mut encoder = tokenizer.engine().encoder();
        let mut ids = vec![7];
        match encoder.encode(&text, &mut ids) {
            Err(error @ EngineError::NoMemory { .. }) => {
                let message = error.to_string();
                assert!(message.contains(engine) && message.contains("a text of 157286400 bytes"), "{message}");
                assert!(message.contains("hint: split the document"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        encoder.encode("ab", &mut ids).expect("the encoder can go on");
        assert_eq!(ids, [7, 256]);
    }
}

#[test]
fn a_file_that_is_put_together() {
    let mut file = with("/model/vocab", json!({}));
    file["model"]["merges"] = json!([]);
    file["post_processor"] = json!({"type": "BertProcessing", "sep": ["]", 8], "cls": ["[", 9]});
    refused(file.to_string(), &["model.vocab: is empty"]);
    let options = LoadOptions { add_special_tokens: true, unfinished: true, ..LoadOptions::default() };
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes(), "parts", &options).expect("loads");
    // The added token gets the first id.
    assert_eq!(tokenizer.encode_batch_ids(&["a<end>b"]).expect("encodes").values, [9, 0, 8]);
}

#[test]
fn wrong_types() {
    refused_with("/model", json!([]), &["model: invalid type"]);
    refused_with("/model/type", json!("GPT"), &["model.type", "\"GPT\" is not a known model"]);
    refused_with("/model/type", json!(3), &["model.type", "is not a string"]);
    refused_with("/model/vocab", json!([]), &["model.vocab: invalid type"]);
    refused_with("/model/vocab", json!({}), &["model.vocab: is empty"]);
    refused_with("/model/vocab", json!(null), &["model.vocab: invalid type: null"]);
    refused_with("/model/ignore_merges", json!("yes"), &["model.ignore_merges", "is not true or false"]);
    refused_with("/model/dropout", json!(0.1), &["model.dropout", "random"]);
    refused_with("/model/unk_token", json!("<unk>"), &["model.unk_token", "\"<unk>\" is not in the vocabulary"]);
    refused_with("/normalizer", json!("NFC"), &["normalizer", "is not an object"]);
    refused_with("/normalizer", json!({"type": "Shout"}), &["normalizer"]);
    refused_with("/normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "AAAA////"}), &["normalizer"]);
    refused_with("/pre_tokenizer", json!({"type": "ByteLevel", "use_regex": "no"}), &["pre_tokenizer"]);
    refused_with("/added_tokens", json!({}), &["added_tokens", "is not an array"]);
    refused_with("/added_tokens/0/special", json!("yes"), &["added_tokens[0]", "expected a boolean"]);
    refused_with("/added_tokens/0/content", json!(""), &["added_tokens[0]", "is empty"]);
    refused_with("/version", json!("3.0"), &["version", "3.0"]);
    refused_with("/version", json!(7), &["version"]);
    let unigram = json!({"type": "Unigram", "unk_id": 9, "vocab": [["a", -1.0]]});
    refused_with("/model", unigram, &["model.unk_id", "9 is outside"]);
    refused_with("/model", json!({"type": "Unigram", "vocab": [["a"]]}), &["model.vocab"]);
    refused_with("/model", json!({"type": "Unigram", "vocab": [["a", null]]}), &["model.vocab"]);
}

#[test]
fn tokens_of_any_length() {
    refused_with("/model/vocab/ab", json!("x".repeat(1000)), &["model.vocab"]);
    let long = "x".repeat(70_000);
    refused_with(&format!("/model/vocab/{long}"), json!(300), &["model.vocab", "has 70000 bytes"]);
    refused_with("/added_tokens/0/content", json!(long), &["added_tokens[0]", "has 70000 bytes"]);
}

/// Whatever single value is replaced by whatever other value, loading and encoding return a result.
#[test]
fn any_value_replaced() {
    fn pointers(node: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        match node {
            // Three tokens represent the whole vocabulary.
            Value::Object(fields) => {
                for (name, child) in fields.iter().take(24) {
                    pointers(child, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, child)| pointers(child, &format!("{at}/{i}"), all));
            }
            _ => {}
        }
    }
    let mut file = byte_level();
    file["normalizer"] =
        json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "x"}]});
    file["post_processor"] =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let mut all = Vec::new();
    pointers(&file, "", &mut all);
    assert!(all.len() > 60, "{} places", all.len());
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(""),
        json!("\u{0}\u{10ffff}"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"type": "Sequence"}),
    ];
    for pointer in all {
        for value in &values {
            let mut file = file.clone();
            *file.pointer_mut(&pointer).expect("a place") = value.clone();
            if let Ok(tokenizer) = load(file.to_string()) {
                let mut ids = Vec::new();
                let result = tokenizer.engine().encoder().encode("ab é 日本 <end>\0", &mut ids);
                assert!(!matches!(result, Err(EngineError::Panicked { .. })), "{pointer} = {value}: {result:?}");
                assert!(ids.iter().all(|&id| id < tokenizer.vocab_size()));
            }
        }
    }
}

#[test]
fn paths() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let message = |name: &str| match Tokenizer::load(name, &LoadOptions::default()) {
        Ok(_) => panic!("{name} was loaded"),
        Err(error) => error.to_string(),
    };
    let unknown = message("gpt5_base");
    for part in [
        "\"gpt5_base\"",
        "r50k_base",
        "gpt2",
        "cl100k_base",
        "o200k_base",
        "the path to a tokenizer.json or .tiktoken file is also accepted",
    ] {
        assert!(unknown.contains(part), "{unknown}");
    }
    assert!(message("").contains("neither the name"));
    let empty_dir = message(dir.path().to_str().expect("UTF-8"));
    assert!(empty_dir.contains("a directory without a tokenizer.json"), "{empty_dir}");

    for (name, what) in
        [("x.tiktoken", "not one of the published rank files"), ("x.model", "not one of the published rank files")]
    {
        fs::write(path(name), b"IQ== 0\n").expect("written");
        let message = message(&path(name));
        assert!(message.contains(what) && message.contains(name) && message.contains("hint: "), "{message}");
    }

    // A directory stands for the file in it.
    fs::write(path("tokenizer.json"), byte_level().to_string()).expect("written");
    let tokenizer = Tokenizer::load(dir.path().to_str().expect("UTF-8"), &LoadOptions::default()).expect("loads");
    assert!(tokenizer.name().ends_with("tokenizer.json"));
    assert_eq!(tokenizer.hash(), blake3::hash(byte_level().to_string().as_bytes()).to_hex().as_str());

    // A sparse file costs nothing; it is refused before it is read.
    let large = fs::File::create(path("large.json")).expect("created");
    large.set_len((1 << 30) + 1).expect("sparse");
    let start = Instant::now();
    let message = message(&path("large.json"));
    assert!(message.contains("large.json") && message.contains("1073741825 bytes"), "{message}");
    assert!(start.elapsed() < SOON);
}

#[cfg(unix)]
#[test]
fn not_a_regular_file() {
    let Err(error) = Tokenizer::load("/dev/null", &LoadOptions::default()) else { panic!("loaded") };
    assert!(error.to_string().contains("/dev/null: not a regular file"), "{error}");
}

//! The properties that a loaded tokenizer reports.

use serde_json::{Value, json};
use tiktoken_rs::CoreBPE;
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

fn embedded(name: &str) -> Tokenizer {
    Tokenizer::load(name, &LoadOptions::default()).expect("loads")
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.engine().encoder().encode(text, &mut ids).expect("encodes");
    ids
}

fn word_level(added: Value) -> Value {
    json!({
        "version": "1.0", "truncation": {"max_length": 3, "stride": 0, "strategy": "LongestFirst", "direction": "Right"},
        "padding": {
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
            "pad_token": "?",
        },
        "added_tokens": added, "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}},
        },
        "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "the": 1, "of": 2}},
    })
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special,
    })
}

#[test]
fn embedded_vocabularies() {
    for (name, size, end) in
        [("r50k_base", 50257, 50256), ("cl100k_base", 100_277, 100_257), ("o200k_base", 200_019, 199_999)]
    {
        let tokenizer = embedded(name);
        assert_eq!(tokenizer.name(), name);
        assert_eq!(tokenizer.vocab_size(), size);
        assert_eq!(tokenizer.eos(), Some(("<|endoftext|>".to_owned(), end)));
        assert_eq!(tokenizer.eos_candidates()[0], ("<|endoftext|>".to_owned(), end));
        assert_eq!(tokenizer.token_to_id("<|endoftext|>"), Some(end));
        assert_eq!(tokenizer.token_to_id("<|nothing|>"), None);
        assert_eq!(tokenizer.token_to_id("Ġthe"), Some(ids(&tokenizer, " the")[0]));
        assert!(tokenizer.engine().name().starts_with("windrow-bpe "));
        assert_eq!(tokenizer.notes(), [""; 0]);
        let json = Tokenizer::embedded_json(name).expect("embedded");
        assert_eq!(tokenizer.hash(), blake3::hash(json.as_bytes()).to_hex().as_str());
        // The canonical file gives the same ids when it is loaded from outside.
        let again = Tokenizer::from_json(json.as_bytes(), "again.json", &LoadOptions::default()).expect("loads");
        assert_eq!((again.hash(), again.vocab_size()), (tokenizer.hash(), size));
        let text = "The windrow's 3 rows,\n\ntaken up<|endoftext|>.";
        assert_eq!(ids(&again, text), ids(&tokenizer, text));
        assert_eq!(again.eos(), None, "a file does not say what ends a text");
    }
    assert_eq!(embedded("gpt2").name(), "r50k_base");
    assert!(Tokenizer::embedded_json("p90k_base").is_none());
}

/// So it does not matter whether the white space at the end of a text is cut after its last line end.
#[test]
fn cl100k_tokens_end_with_their_last_line_end() {
    let json: Value = serde_json::from_str(&Tokenizer::embedded_json("cl100k_base").expect("embedded")).expect("JSON");
    let line_end = |spelled: char| matches!(spelled, 'Ċ' | 'č');
    let mut with_line_end =
        json["model"]["vocab"].as_object().expect("a vocabulary").keys().filter(|token| token.contains(line_end));
    assert!(with_line_end.clone().count() > 1000);
    assert_eq!(with_line_end.find(|token| !token.ends_with(line_end)), None);
}

/// Strings that are hard for byte pair encoding or for the patterns, and some that are not.
const ATOMS: [&str; 48] = [
    "the",
    "The",
    " of",
    "ing",
    "x",
    "Q",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    " \n",
    "'s",
    "'LL",
    "n't",
    "1",
    "23",
    "4567",
    "0x",
    "=",
    "====",
    "--",
    "//",
    "/*",
    "*/",
    ");\n",
    "{\n",
    "\u{e9}",
    "e\u{301}",
    "\u{df}",
    "\u{4e2d}\u{6587}",
    "\u{3042}",
    "\u{d55c}",
    "\u{5e9}\u{5dc}",
    "\u{1f468}\u{200d}\u{1f469}",
    "\u{1f600}",
    "\u{a0}",
    "\u{2003}",
    "\u{2028}",
    "\0",
    "\u{7f}",
    "\u{fffd}",
    "\u{10ffff}",
    "<|endoftext|>",
    "\u{feff}",
    "antidisestablishmentarianism",
];

/// Texts of atoms and letters, the same in every run; some words are long.
fn texts() -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut texts: Vec<String> =
        vec![String::new(), "a".repeat(3000), " ".repeat(3000), "\n".repeat(700), "ab".repeat(999)];
    for length in (1..40).chain(120..135).chain([255, 256, 1000]) {
        texts.push((0..length).map(|_| char::from(b'a' + next(26) as u8)).collect());
        texts.push((0..length).map(|_| char::from(b"aAbB"[next(4)])).collect());
        texts.push((0..length).map(|_| char::from(b"=-+#"[next(4)])).collect());
        texts.push((0..length).map(|_| char::from_u32(0x4e00 + next(5000) as u32).unwrap()).collect());
    }
    for _ in 0..400 {
        let length = 1 + next(60);
        texts.push((0..length).map(|_| ATOMS[next(ATOMS.len())]).collect());
    }
    texts
}

#[test]
fn embedded_vocabularies_give_the_ids_of_tiktoken() {
    type Oracle = fn() -> CoreBPE;
    let oracles: [(&str, Oracle); 3] = [
        ("r50k_base", || tiktoken_rs::r50k_base().expect("ranks")),
        ("cl100k_base", || tiktoken_rs::cl100k_base().expect("ranks")),
        ("o200k_base", || tiktoken_rs::o200k_base().expect("ranks")),
    ];
    for (name, oracle) in oracles {
        let oracle = oracle();
        let load = |special_in_text| {
            Tokenizer::load(name, &LoadOptions { special_in_text, ..LoadOptions::default() }).expect("loads")
        };
        let (ordinary, special) = (load(false), load(true));
        for text in texts() {
            assert_eq!(ids(&ordinary, &text), oracle.encode_ordinary(&text), "{name}: {text:?}");
            assert_eq!(ids(&special, &text), oracle.encode_with_special_tokens(&text), "{name}: {text:?}");
        }
    }
}

#[test]
fn encoders_append_and_forget() {
    let tokenizer = embedded("r50k_base");
    let mut encoder = tokenizer.engine().encoder();
    let mut all = vec![1];
    for text in ["Hello", "", " world", "Hello"] {
        encoder.encode(text, &mut all).expect("encodes");
    }
    assert_eq!(all, [1, 15496, 995, 15496]);
}

#[test]
fn special_tokens() {
    let file = word_level(json!([added(3, "<s>", true), added(4, "</s>", true), added(5, "<b>", false)])).to_string();
    let load = |add_special_tokens, special_in_text| {
        let options = LoadOptions { add_special_tokens, special_in_text, ..LoadOptions::default() };
        Tokenizer::from_json(file.as_bytes(), "x.json", &options).expect("loads")
    };
    let text = "the </s> of <b> the the";
    assert_eq!(ids(&load(false, true), text), [1, 4, 2, 5, 1, 1]);
    assert_eq!(ids(&load(true, true), text), [3, 1, 4, 2, 5, 1, 1]);
    assert_eq!(
        ids(&load(false, false), text),
        [1, 0, 2, 5, 1, 1],
        "an added token that is not special is found all the same"
    );
    let tokenizer = load(false, true);
    assert_eq!(tokenizer.notes(), ["tokenizer x.json: its settings for truncation and padding are ignored"]);
    assert_eq!(tokenizer.vocab_size(), 6);
    assert_eq!(tokenizer.eos(), None);
    assert_eq!(tokenizer.eos_candidates(), [("</s>".to_owned(), 4), ("<s>".to_owned(), 3)]);
    assert_eq!((tokenizer.token_to_id("<b>"), tokenizer.token_to_id("of")), (Some(5), Some(2)));
}

#[test]
fn ids_that_hugging_face_moves() {
    let file = word_level(json!([added(3, "<s>", true), added(7, "</s>", true), added(9, "<e>", true)])).to_string();
    let tokenizer = Tokenizer::from_json(file.as_bytes(), "x.json", &LoadOptions::default()).expect("loads");
    assert_eq!(ids(&tokenizer, "</s><e>"), [4, 5]);
    assert_eq!(tokenizer.vocab_size(), 6);
    let note = &tokenizer.notes()[1];
    assert!(note.contains("\"</s>\" gets id 4") && note.contains("says 7; other such tokens: 1"), "{note}");
}

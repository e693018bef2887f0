//! Counts other than those of documents: tokens and text by input, and special tokens that stand in the texts.

use serde_json::{Value, json};

use crate::common::{Place, delegated, gzip, tiny, tiny_ids, tiny_special_ids};

const END: &str = "<|end|>";

/// The texts of three inputs; `None` is a bad document.
fn inputs() -> Vec<Vec<Option<String>>> {
    let text = |i: usize| match i % 7 {
        0 => None,
        3 => Some(format!("the {END}{END} {i}")),
        5 => Some(format!("<|end|the {END}|>")),
        6 => Some(String::new()),
        _ => Some(format!("the path {}", "of thorns ".repeat(i % 40))),
    };
    vec![(0..700).map(text).collect(), vec![Some("whole".to_owned())], (1..90).map(text).collect()]
}

fn place() -> Place {
    let place = Place::new();
    let json_lines = |texts: &[Option<String>]| -> String {
        texts.iter().map(|text| format!("{}\n", json!({ "text": text }))).collect()
    };
    let inputs = inputs();
    place.file("tiny.json", tiny().to_string()).file("delegated.json", delegated());
    place.file("1.jsonl", json_lines(&inputs[0])).file("2.txt", inputs[1][0].as_ref().unwrap());
    place.file("3.jsonl.gz", gzip(json_lines(&inputs[2]).as_bytes()));
    place
}

/// Documents read, bytes of text and ids of each input, as the manifest has them; `more` ids after each document.
fn by_input(more: usize) -> Vec<[usize; 3]> {
    let counts = |texts: &Vec<Option<String>>| {
        let good = || texts.iter().flatten();
        let tokens = good().map(|text| tiny_special_ids(text).len() + more).sum();
        [texts.len(), good().map(String::len).sum(), tokens]
    };
    inputs().iter().map(counts).collect()
}

fn numbers(inputs: &Value, bytes: &str) -> Vec<[usize; 3]> {
    let number = |input: &Value, name: &str| input[name].as_u64().unwrap() as usize;
    let inputs = inputs.as_array().unwrap().iter();
    inputs.map(|input| ["documents", bytes, "tokens"].map(|name| number(input, name))).collect()
}

#[test]
fn tokens_text_and_special_tokens_do_not_depend_on_threads_memory_or_shards() {
    let place = place();
    let special = inputs().iter().flatten().flatten().map(|text| text.matches(END).count()).sum::<usize>();
    assert!(special > 300);
    let plain = "encode 1.jsonl 2.txt 3.jsonl.gz -o out --on-error skip --overwrite --json";
    let line = format!("{plain} --special-in-text");
    for (arguments, more) in [
        ("--tokenizer tiny.json --threads 1", 0),
        ("--tokenizer tiny.json --threads 4 --chunk-bytes 100 --memory 200K", 0),
        ("--tokenizer tiny.json --threads 3 --chunk-bytes 1 --memory 1K --format jsonl", 0),
        ("--tokenizer tiny.json --threads 4 --shard-size 3K --chunk-bytes 1000", 0),
        ("--tokenizer tiny.json --format nanogpt --eos <|end|>", 1),
        ("--tokenizer tiny.json --format megatron --append-eos --eos 3 --shard-size 100", 1),
        ("--tokenizer tiny.json --format parquet", 0),
        ("--tokenizer delegated.json --threads 2 --chunk-bytes 100", 0),
    ] {
        let ran = place.line(&format!("{line} {arguments}")).ok();
        let (summary, manifest) = (ran.summary(), place.json("out.manifest.json"));
        assert_eq!(numbers(&manifest["inputs"], "text_bytes"), by_input(more), "{arguments}");
        assert_eq!(numbers(&summary["inputs"], "bytes"), by_input(more), "{arguments}");
        let sum = |name: usize| json!(by_input(more).iter().map(|counts| counts[name]).sum::<usize>());
        assert_eq!([&manifest["text_bytes"], &manifest["tokens"]], [&sum(1), &sum(2)]);
        assert_eq!([&manifest["special_tokens"], &summary["special_tokens"]], [special; 2].map(Value::from).each_ref());
        let says = format!("note: the texts contain special tokens: {special} ids (--special-in-text");
        assert!(ran.stderr.contains(&says), "{}", ran.stderr);
    }
    let ran = place.line(&format!("{plain} --tokenizer tiny.json")).ok();
    assert_eq!(ran.summary()["special_tokens"], 0);
    let tokens: usize = inputs().iter().flatten().flatten().map(|text| tiny_ids(text).len()).sum();
    assert_eq!(ran.summary()["tokens"], tokens);
    assert!(
        ran.stderr.contains("note: the texts contain special tokens, which are treated as plain text"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_document_in_parts_is_counted_once() {
    let place = place();
    let words = format!("the path {END} of thorns\n");
    place.file("long.txt", words.repeat(40_000)).file("bad.txt", [words.repeat(40_000).as_bytes(), b"\xff"].concat());
    let line = "encode bad.txt long.txt 2.txt -o out --tokenizer tiny.json --memory 100K --on-error skip --json --special-in-text";
    let summary = place.line(line).ok().summary();
    let tokens = tiny_special_ids(&words).len() * 40_000;
    let expected = [[1, 0, 0], [1, words.len() * 40_000, tokens], [1, 5, 5]];
    assert_eq!(numbers(&summary["inputs"], "bytes"), expected);
    assert_eq!(summary["special_tokens"], 40_000);
}

#[test]
fn tokens_of_a_template_and_for_the_unknown_do_not_stand_in_a_text() {
    let place = Place::new();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let json = json!({
        "version": "1.0",
        "added_tokens": [special(0, "[UNK]"), special(1, "[CLS]"), special(2, "[SEP]")],
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}
        },
        "model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3}}
    });
    place.file("words.json", json.to_string()).file("in.txt", "the\nunknown words\n[SEP] the [CLS]\n\n[UNK]\n");
    for (template, tokens) in [("", 1 + 2 + 3 + 1), ("--add-special-tokens", 7 + 10)] {
        let line = format!(
            "encode in.txt --lines -o out --tokenizer words.json --overwrite --json --special-in-text {template}"
        );
        let summary = place.line(&line).ok().summary();
        assert_eq!([&summary["special_tokens"], &summary["tokens"]], [&json!(2), &json!(tokens)], "{template}");
    }
}

#[test]
fn the_end_of_text_is_named() {
    let place = place();
    let line = "encode 2.txt -o out --tokenizer tiny.json --json --overwrite";
    let ran = place.line(line).ok();
    assert_eq!(ran.summary()["eos"], Value::Null);
    assert!(ran.stderr.contains(" of tiny.json (npy, u16)\n"), "{}", ran.stderr);
    let ran = place.line(&format!("{line} --append-eos --eos {END}")).ok();
    assert_eq!(ran.summary()["eos"], 258);
    assert!(ran.stderr.contains(" of tiny.json (npy, u16, end of text 258)\n"), "{}", ran.stderr);
}

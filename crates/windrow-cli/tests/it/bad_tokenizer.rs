//! Invalid tokenizers.

use serde_json::{Value, json};

use crate::common::{Case, tiny};

fn check(name: &str, content: Vec<u8>, code: i32, says: &[&str]) {
    let line = format!("encode in.txt -o out --tokenizer {name}");
    Case { files: vec![("in.txt", b"the text".to_vec()), (name, content)], line: &line, code, says }.check();
}

#[test]
fn files_that_are_no_tokenizer_json() {
    let whole = tiny().to_string().into_bytes();
    check("bad.json", b"".to_vec(), 65, &["tokenizer bad.json: the file is empty", "hint: "]);
    check("bad.json", whole[..whole.len() / 2].to_vec(), 65, &["tokenizer bad.json: "]);
    check("bad.json", b"not json".to_vec(), 65, &["tokenizer bad.json: "]);
    check("bad.json", b"[]".to_vec(), 65, &["tokenizer bad.json: "]);
    check("bad.json", b"{\"model\": \"\xff\"}".to_vec(), 65, &["tokenizer bad.json: not valid UTF-8 at byte "]);
    check("bad.json", "[".repeat(200_000).into_bytes(), 65, &["tokenizer bad.json: "]);
    check(
        "ranks.tiktoken",
        b"IQ== 0\n".to_vec(),
        65,
        &["not one of the published rank files", "hint: windrow knows only the rank files of"],
    );
    check(
        "cl100k_base.tiktoken",
        b"IQ== 0\nIQ 1\n".to_vec(),
        65,
        &["cl100k_base.tiktoken: line 2: ", "hint: each line must consist of"],
    );
    check("sp.model", b"\n\x0b".to_vec(), 65, &["a SentencePiece model", "hint: convert it"]);
}

#[test]
fn tokenizers_that_contradict_themselves() {
    type Change = fn(&mut Value);
    let changes: [(Change, &[&str]); 7] = [
        (|json| json["model"] = Value::Null, &["model"]),
        (|json| json["model"]["vocab"]["th"] = json!(-1), &["model.vocab"]),
        (|json| json["model"]["vocab"]["th"] = json!(4_000_000_000_u32), &["model.vocab"]),
        (|json| json["model"]["merges"] = json!([["t", "nowhere"]]), &["model.merges[0]"]),
        (|json| json["model"]["merges"] = json!([["t"]]), &["model.merges"]),
        (|json| json["pre_tokenizer"] = json!({"type": "NoSuch"}), &["pre_tokenizer"]),
        (|json| json["added_tokens"][0]["content"] = json!(7), &["added_tokens"]),
    ];
    for (change, says) in changes {
        let mut json = tiny();
        change(&mut json);
        check("bad.json", json.to_string().into_bytes(), 65, &[&["tokenizer bad.json: "], says].concat());
    }
}

#[test]
fn names_of_nothing() {
    for (name, code, says) in [
        ("no_such", 2, &["tokenizer \"no_such\"", "hint: the vocabularies are r50k_base", "o200k_base"][..]),
        ("folder", 65, &["tokenizer folder: a directory without a tokenizer.json"]),
        ("in.txt/x", 74, &["tokenizer in.txt/x: "]),
        ("/dev/null", 65, &["not a regular file"]),
    ] {
        let files = vec![("in.txt", b"the text".to_vec()), ("folder/other.json", b"{}".to_vec())];
        let line = format!("encode in.txt -o out --tokenizer {name}");
        Case { files, line: &line, code, says }.check();
    }
}

/// The id of such a token would change from run to run: runs that continue each other would publish two encodings of one text.
#[test]
fn added_tokens_that_the_normalizer_makes_equal() {
    for (normalizer, first, second) in
        [("Lowercase", "COVID", "Covid"), ("NFC", "\u{e9}", "e\u{301}"), ("NFKC", "\u{fb01}", "fi")]
    {
        let mut json = tiny();
        let entries = json["model"]["vocab"].as_object().unwrap().len();
        let token = json["added_tokens"][0].clone();
        let added = |id: usize, content: &str| {
            let mut token = token.clone();
            (token["id"], token["content"]) = (json!(id), json!(content));
            (token["normalized"], token["special"]) = (json!(true), json!(false));
            token
        };
        json["normalizer"] = json!({"type": normalizer});
        json["added_tokens"] = json!([added(entries, first), added(entries + 1, second)]);
        let json = json.to_string();
        let said = format!("added_tokens[1]: tokens {first:?} and {second:?} are both ");
        for line in [
            "encode in.txt -o out --shard-size 1K --resume --tokenizer equal.json",
            "encode in.txt -o out --engine tokenizers --tokenizer equal.json",
            "count in.txt --tokenizer equal.json",
        ] {
            let files = vec![("in.txt", b"COVID Covid covid".to_vec()), ("equal.json", json.clone().into_bytes())];
            Case { files, line, code: 65, says: &["equal.json", &said, "hint: set `normalized` of one of"] }.check();
        }
    }
}

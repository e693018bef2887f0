//! JSON lines without a document.

use crate::common::{Place, check_inputs, ids_of, tiny, tiny_ids};

#[test]
fn each_kind_of_bad_line_is_refused_with_its_place() {
    let deep = format!("{{\"text\": \"a\", \"deep\": {}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let second = |line: &[u8]| [b"{\"text\": \"good\"}\n\n", line, b"\n{\"text\": \"good\"}\n"].concat();
    for (line, says) in [
        (&br#"{"text": "cut"#[..], &["in.jsonl:3:13: JSON syntax error: EOF while parsing a string"][..]),
        (br#"{"text": "a",}"#, &["in.jsonl:3:14: JSON syntax error: trailing comma"]),
        (br#"{"text": "a"} {"text": "b"}"#, &["in.jsonl:3:15: JSON syntax error: trailing characters"]),
        (b"not json", &["in.jsonl:3:2: JSON syntax error"]),
        (br#"{"body": "a"}"#, &["in.jsonl:3:1: field \"text\" is missing", "\"body\"", "--field NAME"]),
        (b"{}", &["in.jsonl:3:1: field \"text\" is missing", "empty"]),
        (br#"{"text": null}"#, &["in.jsonl:3:1: field \"text\" is null, not a string"]),
        (br#"{"text": 1.5}"#, &["field \"text\" is a number, not a string"]),
        (br#"{"text": ["a"]}"#, &["field \"text\" is an array, not a string"]),
        (br#"{"text": {"text": "a"}}"#, &["field \"text\" is an object, not a string"]),
        (br#"["text"]"#, &["in.jsonl:3:1: the line is an array, not an object"]),
        (br#""text""#, &["in.jsonl:3:1: the line is a string, not an object"]),
        (br#"{"text": "\ud800"}"#, &["in.jsonl:3:", "a lone surrogate"]),
        (b"{\"text\": \"\xff\"}", &["in.jsonl:3:11: not valid UTF-8"]),
        (b"\xef\xbb\xbf{\"text\": \"a\"}", &["in.jsonl:3:1: JSON syntax error"]),
        (b"{\"text\": \"a\0\"}", &["in.jsonl:3:", "control character"]),
        (br#"{"text": "a", "n": 1e999}"#, &["in.jsonl:3:", "number out of range"]),
        (deep.as_bytes(), &["in.jsonl:3:", "recursion limit"]),
    ] {
        check_inputs(&[("in.jsonl", &second(line), "", 65, says)]);
    }
    check_inputs(&[
        ("in.jsonl", b"{\"text\": \"a\"}\n{\"tex", "", 65, &["in.jsonl:2:5: JSON syntax error: EOF"]),
        ("in.jsonl", b"\xff\xfe{\x00", "", 65, &["in.jsonl:1:1: not valid UTF-8", "UTF-16", "iconv"]),
        (
            "in.jsonl",
            b"{\"text\": \"a\"}",
            "--field body",
            65,
            &["in.jsonl:1:1: field \"body\" is missing", "\"text\""],
        ),
        ("in.txt", b"plain", "--input-format jsonl", 65, &["in.txt:1:1: JSON syntax error"]),
    ]);
}

#[test]
fn what_is_odd_has_its_documented_result() {
    for (content, texts) in [
        ("", vec![]),
        ("\n \n\t\r\n", vec![]),
        ("\u{feff}{\"text\": \"a\"}", vec!["a"]),
        ("{\"text\": \"a\"}\r\n{\"text\": \"b\"}", vec!["a", "b"]),
        ("  {\"text\" : \"a\"}  \n", vec!["a"]),
        (r#"{"text": "first", "text": "last"}"#, vec!["last"]),
        (r#"{"t\u0065xt": "escaped"}"#, vec!["escaped"]),
        (r#"{"text": "\u0000\ud83d\ude00\n"}"#, vec!["\0\u{1f600}\n"]),
        (r#"{"text": ""}"#, vec![""]),
    ] {
        let place = Place::new();
        place.file("tiny.json", tiny().to_string()).file("in.jsonl", content);
        place.line("encode in.jsonl -o out --tokenizer tiny.json --format jsonl").ok();
        let expected: Vec<Vec<u32>> = texts.iter().map(|text| tiny_ids(text)).collect();
        assert_eq!(ids_of(&place.read("out.jsonl")), expected, "{content:?}");
    }
}

#[test]
fn no_good_line_is_lost_around_bad_ones() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let good: String = (0..1_000).map(|i| format!("{{\"text\": \"the {i}\"}}\n")).collect();
    place.file("in.jsonl", [good.as_bytes(), b"{\"text\"\n{\"text\": \"\xff\"}\n[]\n", good.as_bytes()].concat());
    let ran = place.line("encode in.jsonl -o out --tokenizer tiny.json --format jsonl --on-error skip --json").ok();
    let counts = serde_json::json!({"read": 2_003, "written": 2_000, "skipped": 3, "failed": 0});
    assert_eq!(ran.summary()["documents"], counts);
    let expected: Vec<Vec<u32>> = (0..1_000).chain(0..1_000).map(|i| tiny_ids(&format!("the {i}"))).collect();
    assert_eq!(ids_of(&place.read("out.jsonl")), expected);
}

#[test]
fn a_run_without_a_good_document_publishes_nothing() {
    let skip = "--on-error skip";
    check_inputs(&[
        (
            "in.jsonl",
            b"{\"body\": \"a\"}\n\n{\"body\": \"b\"}\n",
            skip,
            65,
            &[
                "error: all 2 documents are bad; the first: in.jsonl:1:1: field \"text\" is missing (hint: the line has only the field \"body\"",
                "hint: check --field and --input-format; nothing was published",
            ],
        ),
        (
            "in.jsonl",
            b"[]",
            "--on-error skip --quiet",
            65,
            &["error: the only document is bad; the first: in.jsonl:1:1: "],
        ),
    ]);
    // A file without documents has nothing to lose.
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", "\n");
    place.line("encode in.jsonl -o out --tokenizer tiny.json --on-error skip").ok();
    assert_eq!(place.read("out.skipped.jsonl"), b"");
}

#[test]
fn more_bad_documents_than_allowed_are_an_error() {
    let bytes = b"{\"text\": \"a\"}\n[]\n{\"text\": \"b\"}\n{}\n{\"text\": \"c\"}\n";
    let skip = |most: &str| format!("--on-error skip --max-skipped {most}");
    check_inputs(&[
        (
            "in.jsonl",
            bytes,
            &skip("1"),
            65,
            &["error: 2 of 4 documents are bad, more than --max-skipped 1 allows; the last: in.jsonl:4:1: ", "hint: "],
        ),
        ("in.jsonl", bytes, &skip("0"), 65, &["1 of 2 documents are bad, more than --max-skipped 0", "in.jsonl:2:1: "]),
        (
            "in.jsonl",
            bytes,
            &skip("39.9%"),
            65,
            &["2 of 5 documents are bad, more than --max-skipped 39.9%", "the first: "],
        ),
    ]);
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", bytes);
    for most in ["2", "40%"] {
        place.line(&format!("encode in.jsonl -o out --tokenizer tiny.json --overwrite {}", skip(most))).ok();
    }
}

#[test]
fn numbers_that_only_python_writes_are_explained() {
    let line = b"{\"text\": \"a\", \"score\": NaN}";
    check_inputs(&[(
        "in.jsonl",
        line,
        "",
        65,
        &["in.jsonl:1:24: JSON syntax error", "NaN and Infinity are not valid JSON"],
    )]);
}

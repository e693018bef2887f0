//! Odd text, and input that is not text.

use crate::common::{Place, check_inputs, gzip, ids_of, tiny, tiny_ids, zstd};

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let gz = gzip(b"the text");
    let zst = zstd(b"the text");
    check_inputs(&[
        ("in.txt", b"one\ntw\xff", "", 65, &["in.txt:2:3: not valid UTF-8", "--on-error skip", "1 failed"]),
        ("in.txt", b"one\ntwo\nx\xc3", "--lines", 65, &["in.txt:3:2: not valid UTF-8"]),
        ("in.txt", b"\xef\xbb\xbfa\xff", "--lines", 65, &["in.txt:1:2: not valid UTF-8"]),
        ("in.txt", b"a surrogate: \xed\xa0\x80", "", 65, &["in.txt:1:14: not valid UTF-8"]),
        ("in.txt", b"overlong: \xc0\x80", "", 65, &["in.txt:1:11: not valid UTF-8"]),
        ("in.txt", b"\xff\xfet\x00h\x00e\x00", "", 65, &["in.txt:1:1: not valid UTF-8", "UTF-16", "iconv"]),
        ("in.txt", b"\xfe\xff\x00t\x00h\x00e", "--lines", 65, &["in.txt:1:1: ", "UTF-16", "iconv"]),
        ("in.txt", &gz, "", 65, &["in.txt:1:2: not valid UTF-8", "gzip", ".gz"]),
        ("in.txt", &zst, "", 65, &["not valid UTF-8", "zstd", ".zst"]),
    ]);
}

#[test]
fn what_is_odd_has_its_documented_result() {
    let bytes = |bytes: &[u8]| bytes.to_vec();
    for (content, arguments, texts) in [
        (bytes(b""), "", vec![""]),
        (bytes(b""), "--lines", vec![]),
        (bytes(b"\xef\xbb\xbf"), "", vec![""]),
        (bytes(b"\xef\xbb\xbf"), "--lines", vec![]),
        (bytes(b"\xef\xbb\xbfthe\xef\xbb\xbf"), "", vec!["the\u{feff}"]),
        (bytes(b"a\r\nb\r\n"), "", vec!["a\r\nb\r\n"]),
        (bytes(b"a\r\nb\r\r\n\r\n"), "--lines", vec!["a", "b\r", ""]),
        (bytes(b"a\rb"), "--lines", vec!["a\rb"]),
        (bytes(b"a\0b\n\0"), "--lines", vec!["a\0b", "\0"]),
        (bytes(b"\n"), "--lines", vec![""]),
        (bytes(b"\n\na"), "--lines", vec!["", "", "a"]),
        ("\u{2028}\u{85}\u{b}\u{c}".into(), "--lines", vec!["\u{2028}\u{85}\u{b}\u{c}"]),
        (bytes(b"{\"text\": 1}"), "--input-format text", vec!["{\"text\": 1}"]),
    ] {
        let place = Place::new();
        place.file("tiny.json", tiny().to_string()).file("in.txt", &content);
        place.line(&format!("encode in.txt -o out --tokenizer tiny.json --format jsonl {arguments}")).ok();
        let expected: Vec<Vec<u32>> = texts.iter().map(|text| tiny_ids(text)).collect();
        assert_eq!(ids_of(&place.read("out.jsonl")), expected, "{content:?} {arguments}");
    }
}

#[test]
fn a_bad_line_can_be_skipped() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", b"one\n\xff\ntwo\n");
    place.line("encode in.txt -o out --tokenizer tiny.json --format jsonl --lines --on-error skip").ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["one", "two"].map(tiny_ids));
    assert_eq!(place.json("out.manifest.json")["skipped"][0]["line"], 2);
}

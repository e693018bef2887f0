//! Records become text, or the reason why they have none.

use crate::input_common::{in_memory, read_all};
use proptest::prelude::*;
use serde_json::Value;
use windrow_tokenizers::document::{Fault, FaultKind, text_of};
use windrow_tokenizers::input::{Compression, Format};

fn jsonl(line: &[u8]) -> Result<String, Fault> {
    text_of(Format::Jsonl, line, "text", &mut String::from("left over")).map(str::to_string)
}

/// Kind, byte (0-based) and reason of a bad line.
fn fault(line: impl AsRef<[u8]>) -> (FaultKind, usize, String) {
    let fault = jsonl(line.as_ref()).expect_err("the line is bad");
    assert_eq!((fault.line_in_record, fault.byte), (0, fault.at as u64 + 1));
    assert!(!fault.reason.contains('\n'), "{}", fault.reason);
    (fault.kind, fault.at, fault.reason)
}

#[test]
fn text_is_found_wherever_the_field_is() {
    for line in [
        r#"{"text":"a"}"#,
        r#" { "id" : 1.5e3 , "text" : "a" , "meta" : {"text": ["b", {}], "x": [[null, true]]} } "#,
        r#"{"te\u0078t":"\u0061"}"#,
        "\t{\"text\": \"a\"}\r",
    ] {
        assert_eq!(jsonl(line.as_bytes()).unwrap(), "a", "{line}");
    }
    assert_eq!(jsonl(br#"{"text":""}"#).unwrap(), "");
    assert_eq!(jsonl("{\"text\":\"gr\u{fc}n \u{1f600}\"}".as_bytes()).unwrap(), "gr\u{fc}n \u{1f600}");
    assert_eq!(jsonl(br#"{"text":"\n\t\"\\\/\u0000\ud83d\ude00"}"#).unwrap(), "\n\t\"\\/\0\u{1f600}");
}

#[test]
fn the_last_of_several_fields_counts() {
    for (line, text) in [
        (r#"{"text":"a","text":"b"}"#, Ok("b")),
        (r#"{"text":"\n","text":"\t"}"#, Ok("\t")),
        (r#"{"text":"\n","text":"b"}"#, Ok("b")),
        (r#"{"text":"a","text":"\n"}"#, Ok("\n")),
        (r#"{"text":null,"text":"b"}"#, Ok("b")),
        (r#"{"text":"a","text":null}"#, Err(FaultKind::NotString)),
    ] {
        assert_eq!(jsonl(line.as_bytes()).map_err(|fault| fault.kind), text.map(str::to_string), "{line}");
    }
}

#[test]
fn text_without_escapes_is_borrowed() {
    let line = br#"{"text":"plain"}"#;
    let mut scratch = String::new();
    let text = text_of(Format::Jsonl, line, "text", &mut scratch).unwrap();
    assert!(line.as_ptr_range().contains(&text.as_ptr()));
}

#[test]
fn syntax_errors_are_placed() {
    for (line, at, message) in [
        (r#"{"text": "a""#, 11, "EOF while parsing an object"),
        (r#"{"text": "a"} x"#, 14, "trailing characters"),
        (r#"{"text": "a",}"#, 13, "trailing comma"),
        (r#"{"text" "a"}"#, 8, "expected `:`"),
        (r#"{"text": 'a'}"#, 9, "expected value"),
        (r#"{text: "a"}"#, 1, "key must be a string"),
        (r#"{"text": "a", "n": 01}"#, 20, "invalid number"),
        (r#"{"text": "a", "n": 1e999}"#, 23, "number out of range"),
        (r#"{"text": "a", "n": nan}"#, 20, "expected ident"),
        ("{\"text\": \"a\tb\"}", 11, "control character (\\u0000-\\u001F) found while parsing a string"),
        (r#"{"text": "\x"}"#, 11, "invalid escape"),
        (r#"{"text": "\u12"}"#, 15, "invalid escape"),
        ("nul", 2, "EOF while parsing a value"),
        ("\u{a0}", 0, "expected value"),
    ] {
        let (kind, found, reason) = fault(line);
        assert_eq!((kind, found), (FaultKind::Syntax, at), "{line}");
        let rest = reason.strip_prefix("JSON syntax error: ").and_then(|rest| rest.strip_prefix(message));
        assert!(rest.is_some_and(|rest| rest.is_empty() || rest.contains("; hint: ")), "{line}: {reason}");
    }
}

#[test]
fn lines_of_another_shape_are_named() {
    for (line, what) in [
        (r#"["text"]"#, "an array"),
        (r#""text""#, "a string"),
        (r#""te\nxt""#, "a string"),
        ("12", "a number"),
        ("-1", "a number"),
        ("1.5", "a number"),
        ("null", "null"),
        ("false", "a boolean"),
    ] {
        assert_eq!(fault(line), (FaultKind::NotObject, 0, format!("the line is {what}, not an object")));
    }
}

#[test]
fn fields_of_another_type_are_named() {
    for (value, what) in [
        ("null", "null"),
        ("true", "a boolean"),
        ("0", "a number"),
        ("-0.5", "a number"),
        ("[\"a\"]", "an array"),
        ("{\"text\":\"a\"}", "an object"),
    ] {
        let reason = format!("field \"text\" is {what}, not a string");
        assert_eq!(fault(format!("{{\"text\":{value}}}")), (FaultKind::NotString, 0, reason));
    }
}

#[test]
fn a_missing_field_names_those_that_are_there() {
    let reason = |line: &str| {
        let (kind, at, reason) = fault(line);
        assert_eq!((kind, at), (FaultKind::MissingField, 0));
        reason
    };
    assert_eq!(reason("{}"), "field \"text\" is missing (the object is empty)");
    assert_eq!(
        reason(r#"{"content":"a","id":{"text":1}}"#),
        r#"field "text" is missing (hint: the line has the fields "content", "id"; choose one with --field NAME)"#
    );
    assert_eq!(
        reason(r#"{"a":1,"b":1,"c":1,"d":1,"Text":1,"f":1}"#),
        r#"field "text" is missing (hint: the line has the fields "a", "b", "c", "d", "Text", ...; choose one with --field NAME)"#
    );
    let long = "n".repeat(10_000);
    assert!(reason(&format!("{{\"{long}\":1}}")).len() < 200);
}

#[test]
fn lone_surrogates_are_faults_wherever_they_are() {
    for line in [
        r#"{"text":"\ud800"}"#,
        r#"{"text":"\udc00"}"#,
        r#"{"text":"\ud800x"}"#,
        r#"{"text":"\ud800\n"}"#,
        r#"{"text":"\ud800\ud800"}"#,
        r#"{"text":"\ud800\u0041"}"#,
        r#"{"text":"a","other":"\udfff"}"#,
        r#"{"text":"a","other":["\ud834"]}"#,
        r#"{"text":"a","\ud800":1}"#,
    ] {
        let (kind, at, reason) = fault(line);
        assert_eq!((kind, &*reason), (FaultKind::LoneSurrogate, r"a lone surrogate: a \u escape for half a character"));
        assert!(line[..=at].contains(r"\u"), "{line}: {at}");
    }
    assert_eq!(jsonl(br#"{"text":"\ud834\udd1e"}"#).unwrap(), "\u{1d11e}");
}

#[test]
fn deep_nesting_is_a_fault_and_no_stack_overflow() {
    for open in ["[", "{\"a\":"] {
        let line = format!("{{\"text\":\"a\",\"deep\":{}", open.repeat(200_000));
        let (kind, _, reason) = fault(&line);
        assert_eq!((kind, &*reason), (FaultKind::Syntax, "JSON syntax error: recursion limit exceeded"));
    }
}

#[test]
fn invalid_utf_8_is_placed_in_every_format() {
    let (kind, at, reason) = fault(b"{\"text\":\"a\xff\"}");
    assert_eq!((kind, at, &*reason), (FaultKind::NotUtf8, 10, "not valid UTF-8"));
    // Also outside the field, and if the line is not JSON anyway.
    assert_eq!(fault(b"{\"text\":\"a\",\"x\":\"\xc3\"}").1, 17);
    assert_eq!(fault(b"{\xff").0, FaultKind::NotUtf8);

    let text = b"first\r\nsecond\nth\xc3\xa4r\xc3d\n\xff";
    let fault = text_of(Format::Text, text, "text", &mut String::new()).unwrap_err();
    assert_eq!((fault.at, fault.line_in_record, fault.byte), (19, 2, 6));
    for bad in [&b"\xc0\x80"[..], b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ab\xe2\x82", b"\x80"] {
        let fault = text_of(Format::Lines, bad, "text", &mut String::new()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotUtf8);
    }
}

#[test]
fn other_encodings_are_guessed() {
    for (bytes, guess) in [
        (&b"\xff\xfeh\0i\0"[..], "UTF-16; hint: "),
        (b"\xfe\xff\0h\0i", "UTF-16; hint: "),
        (b"\x1f\x8b\x08\0", "gzip data; hint: "),
        (b"\x28\xb5\x2f\xfd", "zstd data; hint: "),
    ] {
        let fault = text_of(Format::Text, bytes, "text", &mut String::new()).unwrap_err();
        assert!(fault.reason.starts_with("not valid UTF-8 (") && fault.reason.contains(guess), "{}", fault.reason);
    }
}

#[test]
fn numbers_that_are_no_json_are_explained() {
    for line in
        [r#"{"text": "a", "score": NaN}"#, r#"{"score": Infinity, "text": "a"}"#, r#"{"text": "a", "x": [-Infinity]}"#]
    {
        let (kind, _, reason) = fault(line);
        assert_eq!(kind, FaultKind::Syntax, "{line}");
        assert!(reason.contains("NaN and Infinity are not valid JSON; hint: write null"), "{line}: {reason}");
    }
    assert!(!fault(r#"{"text": "NaN", "x": }"#).2.contains("Infinity"));
}

#[test]
fn faults_are_reported_by_line_and_byte() {
    let bytes = b"\xef\xbb\xbffine\nalso f\xefne\n";
    let (records, _) = read_all(vec![in_memory(bytes, Format::Text, Compression::None)], 100).unwrap();
    let (_, line, offset, text) = records[0].clone();
    let fault = text_of(Format::Text, &text, "text", &mut String::new()).unwrap_err();
    assert_eq!((line + fault.line_in_record, fault.byte, fault.reason.as_str()), (2, 7, "not valid UTF-8"));
    assert_eq!(bytes[offset as usize + fault.at], 0xef);
    assert_eq!(serde_json::to_value(fault.kind).unwrap(), "not-utf8");
}

/// The documented behaviour, implemented with a whole `Value`.
fn reference(line: &[u8], field: &str) -> Result<String, FaultKind> {
    let line = str::from_utf8(line).map_err(|_| FaultKind::NotUtf8)?;
    match serde_json::from_str::<Value>(line) {
        Err(e) if e.to_string().contains("surrogate") || e.to_string().contains("end of hex escape") => {
            Err(FaultKind::LoneSurrogate)
        }
        Err(_) => Err(FaultKind::Syntax),
        Ok(Value::Object(mut object)) => match object.remove(field) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(FaultKind::NotString),
            None => Err(FaultKind::MissingField),
        },
        Ok(_) => Err(FaultKind::NotObject),
    }
}

fn json_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z ]{0,8}",
        2 => prop::sample::select(vec![r"\n", r#"\""#, r"\\", r"\/", r"\u0041", r"\ud83d\ude00"]).prop_map(String::from),
        1 => Just("\u{e9}\u{1f600}".to_string()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        json_string(),
        Just("null".into()),
        Just("true".into()),
        any::<i64>().prop_map(|n| n.to_string()),
        (-1e9..1e9_f64).prop_map(|n| n.to_string()),
        Just("1e400".into()),
        Just("123456789012345678901234567890".into()),
        Just(r#""\ud800""#.into()),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((json_string(), inner), 0..3).prop_map(|fields| object(&fields)),
        ]
    })
}

fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A line: usually good, otherwise bad in one of all ways.
fn some_line() -> impl Strategy<Value = Vec<u8>> {
    let good =
        (json_string(), prop::collection::vec((json_string(), json_value()), 0..3), any::<prop::sample::Index>())
            .prop_map(|(text, mut fields, at)| {
                fields.insert(at.index(fields.len() + 1), ("\"text\"".into(), text));
                object(&fields).into_bytes()
            })
            .boxed();
    let injected = prop::sample::select(vec![
        &b"{\"text\":\"a\""[..],
        b"{\"text\":\"a\"} {}",
        b"not json",
        b"{\"text\":null}",
        b"{\"text\":12}",
        b"{\"text\":[\"a\"]}",
        b"{\"text\":\"a\",\"text\":{}}",
        b"{\"text\":\"\\ud800\"}",
        b"{\"id\":1}",
        b"[1]",
        b"\"text\"",
        b"{\"text\":\"\xff\"}",
        b"\xef\xbb\xbf{\"text\":\"a\"}",
        b"{\"text\":\"a\0b\"}",
        b"\0",
        b"",
        b" \t ",
    ])
    .prop_map(<[u8]>::to_vec);
    let mutated = (good.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut line, at, byte)| {
        let at = at.index(line.len());
        line[at] = if byte == b'\n' { b' ' } else { byte };
        line
    });
    let any_value = json_value().prop_map(String::into_bytes);
    prop_oneof![6 => good, 4 => injected, 2 => mutated, 1 => any_value]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(60)))]

    #[test]
    fn every_line_is_accounted_for_as_a_plain_reader_would(
        lines in prop::collection::vec((some_line(), any::<bool>()), 0..40),
        final_newline in any::<bool>(),
        batch_bytes in 1_usize..2000,
        compression in prop::sample::select(vec![Compression::None, Compression::Gzip, Compression::Zstd]),
    ) {
        let mut bytes = Vec::new();
        for (line, crlf) in &lines {
            bytes.extend(line);
            bytes.extend(if *crlf { &b"\r\n"[..] } else { b"\n" });
        }
        if !final_newline {
            bytes.pop();
        }
        let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let expected: Vec<_> = body
            .split(|&byte| byte == b'\n')
            .enumerate()
            .filter(|(_, line)| !line.iter().all(|byte| b" \t\r".contains(byte)))
            .map(|(i, line)| (i as u64 + 1, reference(line, "text")))
            .collect();

        let stored = match compression {
            Compression::None => bytes.clone(),
            Compression::Gzip => crate::input_common::gzip(&bytes),
            Compression::Zstd => crate::input_common::zstd(&bytes),
            Compression::Xz => crate::input_common::xz(&bytes),
            Compression::Bzip2 => crate::input_common::bzip2(&bytes),
        };
        let (records, reports) = read_all(vec![in_memory(&stored, Format::Jsonl, compression)], batch_bytes).unwrap();
        let mut scratch = String::new();
        let mut found = Vec::new();
        for (_, line, offset, record) in &records {
            prop_assert!(bytes[*offset as usize..].starts_with(record));
            let text = text_of(Format::Jsonl, record, "text", &mut scratch);
            if let Err(fault) = &text {
                prop_assert!(fault.at <= record.len());
                prop_assert!(!fault.reason.contains('\n'));
            }
            found.push((*line, text.map(str::to_string).map_err(|fault| fault.kind)));
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(reports[0].documents, expected.len() as u64);
    }
}

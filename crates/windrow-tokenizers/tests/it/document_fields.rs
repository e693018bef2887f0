//! Paths to fields, and several fields.

use windrow_tokenizers::document::{FaultKind, text_in};
use windrow_tokenizers::input::{Fields, Format};

fn text(line: &str, fields: &[&str]) -> Result<String, (FaultKind, String)> {
    let text = fields.iter().map(|field| (*field).to_owned()).collect();
    let fields = Fields { text, join: "|".to_owned(), ..Fields::default() };
    let mut scratch = String::from("left over");
    let text = text_in(Format::Jsonl, line.as_bytes(), &fields, &mut scratch);
    text.map(str::to_owned).map_err(|fault| (fault.kind, fault.reason))
}

#[test]
fn a_path_leads_into_objects_and_a_key_with_a_dot_precedes_it() {
    for (line, expected) in [
        (r#"{"a": {"b": "in"}}"#, "in"),
        (r#"{"a": {"b": "in\u0020"}, "a.b": "whole"}"#, "whole"),
        (r#"{"a.b": "w\u0068ole", "a": {"b": "i\u006e"}}"#, "whole"),
        (r#"{"a": {"b": "first"}, "a": {"b": "last"}}"#, "last"),
        (r#"{"a.b": "first", "a.b": "last"}"#, "last"),
        (r#"{"a": {"c": [{"b": "no"}], "b": "yes"}, "b": "no"}"#, "yes"),
    ] {
        assert_eq!(text(line, &["a.b"]), Ok(expected.to_owned()), "{line}");
    }
    let deep = r#"{"a": {"b": {"c": "deep"}, "b.c": "half"}, "x": 1}"#;
    assert_eq!(text(deep, &["a.b.c"]), Ok("half".to_owned()));
    assert_eq!(text(r#"{"a": {"b": {"c": "deep"}}}"#, &["a.b.c"]), Ok("deep".to_owned()));
    assert_eq!(text(r#"{"": {"": "empty"}}"#, &["."]), Ok("empty".to_owned()));
}

#[test]
fn what_a_path_does_not_reach_is_missing() {
    for line in [
        r#"{"a": "b"}"#,
        r#"{"a": {}}"#,
        r#"{"a": null}"#,
        r#"{"a": [{"b": "x"}]}"#,
        r#"{"b": "x"}"#,
        r#"{"a": {"b": "x"}, "a": 1}"#,
    ] {
        let (kind, reason) = text(line, &["a.b"]).unwrap_err();
        assert_eq!(kind, FaultKind::MissingField, "{line}");
        assert!(reason.starts_with("field \"a.b\" is missing ("), "{reason}");
    }
    let (kind, reason) = text(r#"{"a": {"b": 7}}"#, &["a.b"]).unwrap_err();
    assert_eq!((kind, reason.as_str()), (FaultKind::NotString, "field \"a.b\" is a number, not a string"));
    let (kind, _) = text(r#"{"a": {"b": "x"}} x"#, &["a.b"]).unwrap_err();
    assert_eq!(kind, FaultKind::Syntax);
    let (kind, _) = text(r#"{"a": {"b": "x", "c": "\ud800"}}"#, &["a.b"]).unwrap_err();
    assert_eq!(kind, FaultKind::LoneSurrogate);
}

#[test]
fn several_fields_are_joined_in_the_order_of_the_options() {
    let line = r#"{"title": "T\n", "body": {"text": "B"}, "empty": ""}"#;
    assert_eq!(text(line, &["title", "body.text"]), Ok("T\n|B".to_owned()));
    assert_eq!(text(line, &["empty", "body.text", "empty", "title"]), Ok("|B||T\n".to_owned()));
    let (kind, reason) = text(line, &["title", "abstract"]).unwrap_err();
    assert_eq!(kind, FaultKind::MissingField);
    assert!(reason.starts_with("field \"abstract\" is missing"), "{reason}");
}

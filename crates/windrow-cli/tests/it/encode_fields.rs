//! Fields: paths, several of them, and those that are kept.

use serde_json::json;

use crate::common::{Place, gzip, ids_of, tiny, tiny_ids};

fn place() -> Place {
    let place = Place::new();
    let lines = concat!(
        r#"{"id": 7, "a": {"b": "the path", "url": "x"}, "title": "of"}"#,
        "\n",
        r#"{"id": "n", "a": {"b": null}, "title": "of"}"#,
        "\n",
        r#"{"a.b": "thorns", "a": {"b": "no"}, "title": ""}"#,
        "\n",
    );
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", lines);
    place
}

#[test]
fn fields_are_joined_and_kept() {
    let place = place();
    let line = "encode in.jsonl -o out --tokenizer tiny.json --format jsonl --on-error skip --keep id,a.url";
    place.run(line.split(' ').chain(["--field", "title", "--field", "a.b", "--join", r"\n--\t"])).ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["of\n--\tthe path", "\n--\tthorns"].map(tiny_ids));
    let kept = String::from_utf8(place.read("out.kept.jsonl")).unwrap();
    assert_eq!(kept, "{\"id\":7,\"a.url\":\"x\"}\n{\"id\":null,\"a.url\":null}\n");
    let manifest = place.json("out.manifest.json");
    let files: Vec<_> = manifest["outputs"].as_array().unwrap().iter().map(|file| file["file"].clone()).collect();
    assert_eq!(files, ["out.jsonl", "out.kept.jsonl", "out.skipped.jsonl"]);
    assert_eq!(manifest["outputs"][1]["blake3"], blake3::hash(kept.as_bytes()).to_hex().as_str());
    let options = &manifest["options"];
    let said = json!([options["field"], options["join"], options["keep"]]);
    assert_eq!(said, json!([["title", "a.b"], "\n--\t", ["id", "a.url"]]));
}

#[test]
fn a_kept_field_that_no_document_has_is_named() {
    let place = place();
    let line = "encode in.jsonl -o out --tokenizer tiny.json --field title --format jsonl --json --overwrite";
    for (keep, missing) in [("id,a.url", json!(null)), ("id,idd,a.x,b.c", json!(["idd", "a.x", "b.c"]))] {
        let ran = place.line(&format!("{line} --keep {keep}")).ok();
        assert_eq!(ran.summary()["keep_missing"], missing, "{keep}");
        let start = "note: no document has the field";
        let note =
            format!("{start} \"idd\" named in --keep, so all its values are null; the first document has \"id\"\n");
        assert_eq!(ran.stderr.matches(&note).count(), usize::from(missing != json!(null)), "{}", ran.stderr);
        let count = missing.as_array().map_or(0, Vec::len);
        assert_eq!(ran.stderr.matches(start).count(), count, "once each: {}", ran.stderr);
    }
    // Null is not missing, and neither is a field of the last document, or of a line that is read in parts.
    let long = format!("{{\"title\": \"{}\", \"only\": null}}\n", "the ".repeat(1 << 18));
    place.file("long.jsonl", ["{\"title\": \"of\"}\n", &long].concat());
    let ran = place.line(
        "encode long.jsonl -o out --tokenizer tiny.json --field title --keep only --memory 1M --json --overwrite",
    );
    assert_eq!(ran.ok().summary()["keep_missing"], json!(null));
}

#[test]
fn a_comma_may_be_in_the_name_of_a_kept_field() {
    let place = place();
    place.file("in.jsonl", r#"{"text": "of", "a,b": 1, "a": 2, "b": 3}"#);
    let line = "encode in.jsonl -o out --tokenizer tiny.json --overwrite --format jsonl --keep";
    for (keep, kept) in [(r"a\,b", r#"{"a,b":1}"#), (r"a,a\,b", r#"{"a":2,"a,b":1}"#), ("a,b", r#"{"a":2,"b":3}"#)] {
        place.line(&format!("{line} {keep}")).ok();
        assert_eq!(String::from_utf8(place.read("out.kept.jsonl")).unwrap().trim_end(), kept, "{keep}");
    }
}

#[test]
fn options_that_have_no_effect_are_refused() {
    let place = place();
    place.file("in.txt", "the path");
    for (rest, says) in [
        ("in.jsonl --field title --join x", "--join has no effect with fewer than two fields"),
        ("in.jsonl --field title --field a.b --join x\\y", r"the escapes are \n, \t and \\"),
        ("in.jsonl --field title --keep id,id", "--keep lists \"id\" twice"),
        ("in.txt --keep id", "in.txt: text has no fields for --keep"),
        ("in.jsonl --field title --keep ids --format arrow", "a kept field cannot have the name \"ids\""),
    ] {
        let ran = place.line(&format!("encode {rest} -o out --tokenizer tiny.json"));
        assert_eq!(ran.code, Some(2), "{rest}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{rest}: {}", ran.stderr);
    }
}

#[test]
fn compressed_json_is_json_lines() {
    let place = place();
    let gz = gzip(b"{\"text\": \"the path\"}\n");
    place.file("c/c4-train.00000-of-01024.json.gz", gz).file("c/other.json", "[]");
    place.line("encode c -o out --tokenizer tiny.json --format jsonl").ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["the path"].map(tiny_ids));
}

#[test]
fn json_lines_that_are_read_as_text_get_a_note() {
    let place = place();
    for line in [
        "encode - -o out --tokenizer tiny.json --overwrite",
        "encode - --lines -o out --tokenizer tiny.json --overwrite",
    ] {
        let ran = place.run_with(line, b"{\"text\": \"the\"}\n{\"text\": \"path\"}\n").ok();
        assert!(ran.stderr.contains("--input-format jsonl reads JSON lines"), "{}", ran.stderr);
    }
    let ran =
        place.run_with("encode - --lines -o out --tokenizer tiny.json --overwrite", b"the\n{\"text\": \"path\"}\n");
    assert!(!ran.stderr.contains("JSON lines"), "{}", ran.stderr);
}

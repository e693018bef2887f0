//! Parquet files, good and bad.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::common::{Place, ids_of, tiny, tiny_ids};

/// A place with the vocabulary, and `in.parquet` with row groups of two rows: columns `id` and `text`.
pub(crate) fn place(texts: &[Option<&str>]) -> Place {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    write(&place, "in.parquet", texts);
    place
}

pub(crate) fn write(place: &Place, name: &str, texts: &[Option<&str>]) {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..texts.len() as i64));
    let text: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", id, false), ("text", text, true)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
    let file = File::create(place.path(name)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn rows_are_documents_and_nulls_are_bad_ones() {
    let place = place(&[Some("the path"), None, Some(""), Some("of thorns")]);
    let ran = place.line("encode in.parquet -o out --tokenizer tiny.json --format jsonl --on-error skip");
    ran.ok();
    let expected: Vec<Vec<u32>> = ["the path", "", "of thorns"].map(tiny_ids).into();
    assert_eq!(ids_of(&place.read("out.jsonl")), expected);
    let manifest = place.json("out.manifest.json");
    let counts = serde_json::json!({"read": 4, "written": 3, "skipped": 1, "failed": 0});
    assert_eq!(manifest["documents"], counts);
    let skipped = serde_json::json!([{
        "file": "in.parquet", "line": 2, "byte": 1, "offset": 1, "reason": "column \"text\" is null, not a string"
    }]);
    assert_eq!(manifest["skipped"], skipped);
    assert_eq!(manifest["inputs"][0]["blake3"], blake3::hash(&place.read("in.parquet")).to_hex().as_str());

    let ran = place.line("encode in.parquet -o failed --tokenizer tiny.json");
    assert_eq!(ran.code, Some(65));
    assert!(ran.stderr.contains("error: in.parquet:2:1: column \"text\" is null, not a string"), "{}", ran.stderr);
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let place = place(&[Some("the path"), Some("the path"), Some("of thorns")]);
    // A footer with nothing but the field that names an encryption; an encrypted footer; other files.
    place.file("columns.parquet", b"PAR1\x8c\0\0\x03\0\0\0PAR1").file("footer.parquet", b"PARE12345678PARE");
    place.file("lines.parquet", "{\"text\": \"the path\"}\n").file("page.parquet", "<html>").file("b.parquet.gz", "");
    place.file("pointer.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    place.file("no.parquet", "PAR1 but no more than that PAR1").file("text.parquet", "the path");
    let bytes = place.read("in.parquet");
    let mut damaged = bytes.clone();
    // The text in the dictionary of the second row group, and the header before it.
    let at = bytes.windows(9).position(|window| window == b"of thorns").unwrap();
    damaged[at - 16..at].fill(0xff);
    place.file("damaged.parquet", damaged).file("cut.parquet", &bytes[..bytes.len() - 1]);
    for (line, code, says) in [
        (
            "in.parquet --column body",
            65,
            &["in.parquet: column \"body\" is missing; the columns are \"id\", \"text\"\n", "--column"][..],
        ),
        ("in.parquet --field id", 65, &["in.parquet: column \"id\" has type int64, not text", "--column NAME"]),
        ("no.parquet", 65, &["no.parquet: damaged Parquet: ", "hint: the file is damaged"]),
        (
            "columns.parquet",
            65,
            &["columns.parquet: Parquet with encrypted columns: ", "hint: write it again without encryption"],
        ),
        ("footer.parquet", 65, &["footer.parquet: encrypted Parquet", "hint: write it again without encryption"]),
        ("lines.parquet", 65, &["lines.parquet: not Parquet but JSON lines\nhint: pass --input-format jsonl"]),
        ("page.parquet", 65, &["page.parquet: not Parquet but an HTML page", "hint: read the page"]),
        (
            "pointer.parquet",
            65,
            &["pointer.parquet: not Parquet but a Git LFS pointer", "hint: fetch the file that it stands for"],
        ),
        (
            "in.parquet --keep nothing",
            65,
            &["column \"nothing\" is missing; the columns are \"id\", \"text\"\nhint: correct the name"],
        ),
        ("cut.parquet", 65, &["cut.parquet: damaged Parquet: ", "hint: the file is damaged"]),
        ("text.parquet", 65, &["text.parquet: not a Parquet file: ", "--input-format"]),
        ("damaged.parquet", 65, &["damaged.parquet: row group 2, column \"text\": ", "hint: the file is damaged"]),
        ("- --input-format parquet", 65, &["-: Parquet cannot be read from a stream", "hint: save it to a file"]),
        ("in.parquet --lines --input-format parquet", 2, &["--lines cannot be combined with --input-format parquet"]),
        (
            "in.parquet --all-text --input-format parquet",
            2,
            &["--all-text cannot be combined with --input-format parquet"],
        ),
    ] {
        let ran = place.line(&format!("encode {line} -o out --tokenizer tiny.json --on-error skip"));
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.stderr);
        for part in says {
            assert!(ran.stderr.contains(part), "{line}: {}", ran.stderr);
        }
        assert!(!place.path("out.manifest.json").exists());
    }
}

#[test]
fn files_of_every_extension_and_of_folders_are_read() {
    let place = place(&[Some("the path")]);
    std::fs::create_dir(place.path("c")).unwrap();
    write(&place, "c/b.parquet", &[Some("of thorns")]);
    place.file("c/a.jsonl", "{\"text\": \"thorns\"}\n");
    std::fs::copy(place.path("in.parquet"), place.path("in.data")).unwrap();
    place.line("encode c -o folder --tokenizer tiny.json --format jsonl").ok();
    assert_eq!(ids_of(&place.read("folder.jsonl")), ["thorns", "of thorns"].map(tiny_ids));
    place.line("encode in.data -o named --tokenizer tiny.json --format jsonl --input-format parquet").ok();
    assert_eq!(ids_of(&place.read("named.jsonl")), ["the path"].map(tiny_ids));
}

//! Inputs in stores: the same bytes as from local files, whatever fails on the way.

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../it/common.rs"]
mod common;
mod faults;
mod moto;
mod server;

use std::process::Command;

use serde_json::{Value, json};

use common::{Place, Ran, gzip, tiny, zstd};
use server::{Request, Server};

/// Runs the command line in a place, with the server as the store of both clouds.
fn line(place: &Place, server: &Server, line: &str) -> Ran {
    Ran::of(command(place, &server.url, line).output().unwrap())
}

fn command(place: &Place, url: &str, line: &str) -> Command {
    let line = line.replace("SERVER", url);
    let mut command = place.command(line.split_whitespace());
    for (name, _) in std::env::vars_os() {
        let is_of_stores = name
            .to_str()
            .is_some_and(|name| ["AWS_", "GOOGLE_", "WINDROW_STORE"].iter().any(|prefix| name.starts_with(prefix)));
        if is_of_stores {
            command.env_remove(name);
        }
    }
    command.env("AWS_ENDPOINT_URL", url).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "testing").env("AWS_SECRET_ACCESS_KEY", "testing");
    command.env("GOOGLE_BASE_URL", url).env("GOOGLE_ALLOW_HTTP", "true").env("GOOGLE_SKIP_SIGNATURE", "true");
    command
}

/// A place with the vocabulary and a corpus of all formats in the folder `b`, and what is in it.
fn corpus() -> (Place, Vec<(String, Vec<u8>)>) {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let rows: String = (0..200).map(|i| format!("{}\n", json!({"id": i, "text": format!("the {i} path")}))).collect();
    let lines: String = (0..50).map(|i| format!("the line {i}\r\n")).collect();
    place
        .file("bkt/c/a b.txt", "the end")
        .file("bkt/c/a.jsonl", &rows)
        .file("bkt/c/d/e.txt.gz", gzip(lines.as_bytes()));
    place.file("bkt/c/d/f.jsonl.zst", zstd(rows.as_bytes())).file("bkt/c/empty.txt", "").file("bkt/c/é.md", "thé");
    place.file("bkt/c/other.bin", "\0").file("bkt/c/.hidden/x.txt", "the").file("bkt/cc.txt", "not below the prefix");
    place.file("bkt/c/_temporary/0/y.jsonl", "{\"text\": \"the\"}");
    let text: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::StringArray::from_iter_values(["the", "path"]));
    let batch = arrow_array::RecordBatch::try_from_iter([("text", text)]).unwrap();
    let file = std::fs::File::create(place.path("bkt/c/g.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let root = place.path("");
    let name = |path: &std::path::Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let all = place.contents().into_iter().map(|(path, bytes)| (name(&path), bytes));
    let objects = all.filter(|(name, _)| name.starts_with("bkt/")).collect();
    (place, objects)
}

fn serve(objects: &[(String, Vec<u8>)]) -> Server {
    let objects: Vec<_> = objects.iter().map(|(name, bytes)| (format!("/{name}"), bytes)).collect();
    Server::start(&objects.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>())
}

/// A file of the output with the names as they are locally.
fn localized(place: &Place, name: &str, root: &str) -> Vec<u8> {
    let bytes = place.read(name);
    match String::from_utf8(bytes) {
        Ok(text) => text.replace(root, "").replace("remote", "local").into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// Compares the files of the outputs `local` and `remote`, and their manifests. `root` is what stands before the local names.
#[track_caller]
fn compare(place: &Place, root: &str) {
    let manifest = |name: &str| {
        let mut manifest: Value = serde_json::from_slice(&localized(place, name, root)).unwrap();
        // Names of inputs are in the list of skipped documents.
        manifest["outputs_blake3"].take();
        for output in manifest["outputs"].as_array_mut().unwrap() {
            if output["file"].as_str().unwrap().ends_with(".skipped.jsonl") {
                output.take();
            }
        }
        manifest
    };
    let (remote, local) = (manifest("remote.manifest.json"), manifest("local.manifest.json"));
    for (key, value) in local.as_object().unwrap() {
        assert!(remote[key] == *value, "{key}: {:.500} is not {value:.500}", remote[key].to_string());
    }
    for name in place.names().iter().filter_map(|name| name.strip_prefix("local")) {
        if !name.contains("manifest") {
            let (remote, local) = (format!("remote{name}"), format!("local{name}"));
            assert!(localized(place, &remote, root) == localized(place, &local, root), "{remote}");
        }
    }
}

/// Encodes both, and compares all bytes.
#[track_caller]
fn same(place: &Place, server: &Server, inputs: [&str; 2], root: &str, options: &str) {
    let [local, remote] = inputs;
    let options = format!("--tokenizer tiny.json --overwrite --on-error skip {options}");
    place.line(&format!("encode {local} -o local {options}")).ok();
    line(place, server, &format!("encode {remote} -o remote {options}")).ok();
    compare(place, &root.replace("SERVER", &server.url));
}

#[test]
fn what_is_below_a_prefix_is_a_folder() {
    let (place, objects) = corpus();
    let server = serve(&objects);
    for scheme in ["s3", "gs"] {
        let (remote, root) = (format!("{scheme}://bkt/c/"), format!("{scheme}://"));
        for options in ["", "--hidden", "--input-format jsonl", "--ext bin", "--all-text"] {
            same(&place, &server, ["bkt/c/", &remote], &root, options);
        }
        same(&place, &server, ["bkt/", &format!("{scheme}://bkt")], &root, "");
        let ran = line(&place, &server, &format!("encode {remote} -o notes --tokenizer tiny.json --overwrite")).ok();
        let hidden =
            "2 hidden files and folders excluded, such as _temporary (pass --hidden to include hidden entries)";
        for note in [hidden, "1 file with another extension was ignored", "of 7 files, "] {
            assert!(ran.stderr.contains(&format!("note: {remote}: {note}")), "{}", ran.stderr);
        }
    }
}

#[test]
fn an_object_is_an_input() {
    let (place, objects) = corpus();
    let server = serve(&objects);
    for name in ["a.jsonl", "d/e.txt.gz", "d/f.jsonl.zst", "empty.txt", "g.parquet", "é.md"] {
        for root in ["s3://", "gs://", "SERVER/"] {
            let input = format!("bkt/c/{name}");
            same(&place, &server, [&input, &format!("{root}{input}")], root, "");
        }
    }
    same(&place, &server, ["bkt/c/g.parquet --keep text", "s3://bkt/c/g.parquet --keep text"], "s3://", "--limit 1");
    same(&place, &server, ["bkt/c/d/e.txt.gz", "SERVER/bkt/c/d/e.txt.gz?signature=secret"], "SERVER/", "--lines");
    assert!(!String::from_utf8(place.read("remote.manifest.json")).unwrap().contains("secret"));
    let file = format!("file://{}", place.path("bkt/c/a%20b.txt").display());
    line(&place, &server, &format!("encode {file} -o file --tokenizer tiny.json")).ok();
    assert_eq!(place.json("file.manifest.json")["text_bytes"], 7);
}

/// JSON lines of several parts, some of them bad, and their number.
fn large() -> String {
    let word = |i: usize| format!("{:x}", (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let line = |i: usize| match i % 17 {
        5 => "[]\n".to_owned(),
        _ => format!("{}\n", json!({"text": word(i).repeat(i % 50)})),
    };
    (0..24_000).map(line).collect()
}

/// The ranges of the requests of an object.
fn ranges(requests: &[Request]) -> Vec<(u64, u64)> {
    requests.iter().filter_map(|request| request.range).collect()
}

#[test]
fn neither_threads_nor_memory_change_a_byte() {
    let place = Place::new();
    let text = large();
    assert!(text.len() > 2 * (4 << 20), "three parts");
    place
        .file("tiny.json", tiny().to_string())
        .file("bkt/l.jsonl", &text)
        .file("bkt/l.jsonl.gz", gzip(text.as_bytes()));
    let server = serve(&["bkt/l.jsonl", "bkt/l.jsonl.gz"].map(|name| (name.to_owned(), place.read(name))));
    for options in
        ["--threads 1 --memory 32M", "--threads 3 --memory 64M --chunk-bytes 1K", "--sample 0.5 --limit 4000"]
    {
        same(&place, &server, ["bkt", "s3://bkt/"], "s3://", options);
    }
    let account = &place.json("remote.manifest.json")["documents"];
    let count = |name: &str| account[name].as_u64().unwrap_or(0);
    assert_eq!(count("read"), count("written") + count("skipped") + count("failed") + count("left_out"));
    assert!(count("written") == 4000 && count("skipped") > 0 && count("left_out") > 0, "{account}");

    server.take_requests();
    same(&place, &server, ["bkt/l.jsonl", "s3://bkt/l.jsonl"], "s3://", "");
    let mut read = ranges(&server.take_requests());
    read.sort_unstable();
    let parts: Vec<_> = (0..text.len() as u64)
        .step_by(4 << 20)
        .map(|from| (from, (from + (4 << 20)).min(text.len() as u64) - 1))
        .collect();
    assert_eq!(read, parts, "each part is requested once");
}

#[test]
fn what_is_not_needed_is_not_read() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let text = "the path\n".repeat(4 << 20);
    let server = Server::start(&[("/bkt/l.txt", text.as_bytes())]);
    line(&place, &server, "encode s3://bkt/l.txt --lines --limit 10 -o out --tokenizer tiny.json").ok();
    let read = ranges(&server.take_requests());
    assert!(read.len() < 6, "of nine parts, the first and those ahead: {read:?}");
}

#[test]
fn columns_are_read_at_any_place() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("bkt/empty", "");
    let texts: Vec<String> = large().split('"').filter(|text| text.len() > 40).map(str::to_owned).collect();
    let text = |skip: usize| -> arrow_array::ArrayRef {
        std::sync::Arc::new(arrow_array::StringArray::from_iter_values(
            texts.iter().cycle().skip(skip).take(texts.len()),
        ))
    };
    let batch = arrow_array::RecordBatch::try_from_iter([("other", text(7)), ("text", text(0))]).unwrap();
    for (name, rows) in [("few", 500), ("one", 1 << 20)] {
        let properties = parquet::file::properties::WriterProperties::builder();
        let properties = properties.set_dictionary_enabled(false).set_max_row_group_row_count(Some(rows)).build();
        let file = std::fs::File::create(place.path(&format!("bkt/{name}.parquet"))).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    let server = serve(&["bkt/few.parquet", "bkt/one.parquet"].map(|name| (name.to_owned(), place.read(name))));
    for name in ["few", "one"] {
        server.take_requests();
        let input = format!("bkt/{name}.parquet");
        same(&place, &server, [&input, &format!("s3://{input}")], "s3://", "");
        let mut read = ranges(&server.take_requests());
        let count = read.len();
        read.sort_unstable();
        read.dedup();
        assert!(count == read.len() && count > 3, "row groups that fit are requested once: {count} {read:?}");
    }
}

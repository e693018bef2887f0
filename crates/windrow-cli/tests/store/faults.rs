//! What fails at a store, and how a run ends.

use std::io::Write;

use serde_json::json;

use crate::common::{Place, tiny};
use crate::server::{Fault, Request, Server};
use crate::{compare, large, line, same, serve};

fn place() -> (Place, Server) {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("bkt/l.jsonl", large());
    let server = serve(&[("bkt/l.jsonl".to_owned(), place.read("bkt/l.jsonl"))]);
    (place, server)
}

/// True if a request reads past the first part.
fn is_later(request: &Request) -> bool {
    request.range.is_some_and(|(from, _)| from > 0)
}

#[test]
fn a_connection_that_breaks_is_continued() {
    for has_tags in [true, false] {
        let (place, server) = place();
        if !has_tags {
            server.without_tags();
        }
        let mut broken = 0;
        server.faults(move |request, _| {
            broken += usize::from(request.range.is_some());
            // The first request of the web server's URL is for one byte.
            (request.range.is_some_and(|(from, to)| to > from) && broken % 2 == 0).then_some(Fault::Cut(70_000))
        });
        same(&place, &server, ["bkt/l.jsonl", "SERVER/bkt/l.jsonl"], "SERVER/", "");
        let cut = server.take_requests().len();
        assert!(cut > 5, "{cut} requests for three parts");
    }
}

#[test]
fn errors_of_the_server_are_tried_again() {
    let (place, server) = place();
    let mut requests = 0;
    server.faults(move |_, _| {
        requests += 1;
        (requests % 2 == 1).then_some(Fault::Status(if requests % 4 == 1 { 500 } else { 503 }))
    });
    same(&place, &server, ["bkt/l.jsonl", "s3://bkt/l.jsonl"], "s3://", "");
}

/// The command fails so, and publishes nothing.
#[track_caller]
fn fails(place: &Place, server: &Server, inputs: &str, code: i32, says: &[&str]) {
    let text = format!("encode {inputs} -o out --tokenizer tiny.json");
    line(place, server, &text).fails(&text, code, says);
    assert!(place.names().iter().all(|name| !name.starts_with("out")), "{:?}", place.names());
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let (place, server) = place();
    for scheme in ["s3", "gs"] {
        let missing = format!("error: {scheme}://bkt/no.txt: no such object\nhint: check ");
        fails(&place, &server, &format!("{scheme}://bkt/no.txt"), 2, &[&missing]);
        fails(&place, &server, &format!("{scheme}://bkt/no/"), 2, &["no such object"]);
        let missing = format!("error: {scheme}:///k: the bucket is missing");
        fails(&place, &server, &format!("{scheme}:///k"), 2, &[&missing]);
    }
    fails(&place, &server, "SERVER/bkt/no.txt", 2, &["/bkt/no.txt: no such object"]);
    fails(&place, &server, "SERVER/bkt/", 2, &["folders on a web server cannot be listed\nhint: pass the URL"]);
    fails(&place, &server, "s3://bkt", 65, &["s3://bkt/l.jsonl:6:1: "]);
    fails(
        &place,
        &server,
        "s3://bkt/l.jsonl --input-format parquet",
        65,
        &["s3://bkt/l.jsonl: not Parquet but JSON lines"],
    );
    let nested = Server::start(&[("/bkt/c/d.txt", b"the"), ("/bkt/e.bin", b"the")]);
    let says = ["error: s3://bkt/c: this is a folder; it contains s3://bkt/c/d.txt\nhint: add a `/` at the end"];
    fails(&place, &nested, "s3://bkt/c", 2, &says);
    fails(&place, &nested, "s3://bkt/e.bin", 2, &["s3://bkt/e.bin: its extension does not indicate"]);
    fails(
        &place,
        &nested,
        "s3://bkt/c/ --input-format parquet",
        2,
        &["s3://bkt/c/: no input in this directory (1 files"],
    );
    fails(&place, &nested, "s3://bkt/c//d.txt", 2, &["s3://bkt/c//d.txt: a segment of this key is empty"]);
    fails(&place, &nested, "ftp://bkt/d.txt", 2, &["ftp://bkt/d.txt: URLs with this scheme cannot be read"]);
    let ran = line(&place, &nested, "encode s3://bkt/c/d.txt -o s3://bkt/out --tokenizer tiny.json");
    ran.fails("-o", 2, &["s3://bkt/out: an output cannot be written to a URL\nhint: write to a local path and, once"]);
}

#[test]
fn a_store_that_refuses_tells_which_credentials_help() {
    let (place, server) = place();
    server.faults(|_, _| Some(Fault::Status(403)));
    let says = [
        "s3://bkt/: cannot be opened: the store returned 403 Forbidden (Code403: On purpose.)",
        "hint: set AWS_ACCESS_KEY_ID",
    ];
    fails(&place, &server, "s3://bkt/", 74, &says);
    fails(
        &place,
        &server,
        "gs://bkt/l.jsonl",
        74,
        &["gs://bkt/l.jsonl: cannot be opened", "hint: set GOOGLE_APPLICATION_CREDENTIALS"],
    );
    fails(
        &place,
        &server,
        "SERVER/bkt/l.jsonl?secret",
        74,
        &["bkt/l.jsonl: cannot be opened", "hint: check the URL and any signature"],
    );
    server.faults(|_, _| Some(Fault::Status(401)));
    fails(&place, &server, "s3://bkt/l.jsonl", 74, &["hint: set AWS_ACCESS_KEY_ID"]);
}

#[test]
fn a_server_without_ranges_and_one_that_is_away() {
    let (place, server) = place();
    server.faults(|_, _| Some(Fault::Whole));
    fails(
        &place,
        &server,
        "SERVER/bkt/l.jsonl",
        74,
        &["hint: download it first, or pipe it: curl -L URL | windrow encode -"],
    );
    // No server is there.
    let away = Server::at("http://127.0.0.1:1");
    fails(
        &place,
        &away,
        "SERVER/a.txt",
        74,
        &["127.0.0.1:1/a.txt: cannot be opened: ", "refused", "hint: check the network"],
    );
    fails(&place, &away, "s3://bkt/a.txt", 74, &["s3://bkt/a.txt: cannot be opened: ", "AWS_ENDPOINT_URL"]);
}

#[test]
fn an_object_that_changes_fails_the_run() {
    for (input, has_tags) in [("s3://bkt/l.jsonl", true), ("SERVER/bkt/l.jsonl", true), ("SERVER/bkt/l.jsonl", false)] {
        let (place, server) = place();
        if !has_tags {
            server.without_tags();
        }
        server.faults(move |request, objects| {
            if is_later(request) {
                objects.get_mut("/bkt/l.jsonl").unwrap().push(b'\n');
            }
            None
        });
        let line = format!("{input} --on-error skip");
        fails(&place, &server, &line, 74, &["bkt/l.jsonl: changed while being read\nhint: wait until the file"]);
    }
    let (place, server) = place();
    server.faults(|request, objects| {
        if is_later(request) {
            objects.clear();
        }
        None
    });
    fails(&place, &server, "s3://bkt/l.jsonl --on-error skip", 74, &["s3://bkt/l.jsonl: cannot be read at byte "]);
}

/// A gzip file as large as its content.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_run_that_failed_continues_with_the_same_object_only() {
    for (name, is_compressed) in [("l.jsonl", false), ("l.jsonl.gz", true)] {
        let place = Place::new();
        let text = if is_compressed { stored(large().as_bytes()) } else { large().into_bytes() };
        place.file("tiny.json", tiny().to_string()).file(&format!("bkt/{name}"), &text);
        // A first object, so that the second one is continued.
        place.file("bkt/a.jsonl", json!({"text": "the"}).to_string());
        let server =
            serve(&["bkt/a.jsonl".to_owned(), format!("bkt/{name}")].map(|name| (name.clone(), place.read(&name))));
        let options = "--tokenizer tiny.json --on-error skip --shard-size 1M --memory 32M";
        place.line(&format!("encode bkt -o local {options}")).ok();
        let late = text.len() as u64 * 2 / 3;
        server.faults(move |request, _| request.range.is_some_and(|(_, to)| to > late).then_some(Fault::Status(500)));
        let run = format!("encode s3://bkt/ -o remote {options}");
        let mut command = crate::command(&place, &server.url, &run);
        let failed = crate::Ran::of(command.env("WINDROW_STORE_RETRIES", "0").output().unwrap());
        failed.fails(&run, 74, &[&format!("s3://bkt/{name}: cannot be read at byte "), "the store returned 500"]);
        assert!(place.names().iter().any(|name| name == "remote.windrow-progress"), "{:?}", place.names());

        server.faults(|_, objects| {
            objects.get_mut("/bkt/a.jsonl").unwrap()[9] = b'T';
            None
        });
        let refused = line(&place, &server, &format!("{run} --resume"));
        refused.fails(&run, 73, &["cannot resume remote: s3://bkt/a.jsonl was modified after the run began"]);
        server.faults(|_, objects| {
            objects.get_mut("/bkt/a.jsonl").unwrap()[9] = b't';
            None
        });
        server.take_requests();
        line(&place, &server, &format!("{run} --resume")).ok();
        let from = server.take_requests().iter().filter_map(|request| request.range).map(|(from, _)| from).min();
        assert_eq!(from > Some(0), !is_compressed, "what is done is not read again: {from:?}");
        compare(&place, "s3://");
    }
}

#[test]
fn an_object_without_a_version_does_not_resume() {
    let (place, server) = place();
    server.without_tags();
    let run = "encode SERVER/bkt/l.jsonl -o out --tokenizer tiny.json --on-error skip --shard-size 1M";
    server.faults(|request, _| request.range.is_some_and(|(_, to)| to > 8 << 20).then_some(Fault::Status(500)));
    let mut command = crate::command(&place, &server.url, run);
    let failed = crate::Ran::of(command.env("WINDROW_STORE_RETRIES", "0").output().unwrap());
    assert_eq!(failed.code, Some(74), "{}", failed.stderr);
    server.faults(|_, _| None);
    line(&place, &server, &format!("{run} --resume")).fails(
        run,
        73,
        &["cannot resume: windrow cannot check whether this input has changed"],
    );
}

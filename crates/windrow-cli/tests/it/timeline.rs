//! `--trace` and what `--explain` says of the stages.

use crate::common::{Place, tiny};

#[test]
fn each_batch_is_in_each_stage() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("in.txt", "the other path\n".repeat(20_000));
    place.file("trace.json", "an older and longer one".repeat(100_000));
    let line = "encode in.txt -o out --tokenizer tiny.json --lines --memory 1M --overwrite";
    let ran = place.line(&format!("{line} --trace trace.json --explain")).ok();
    let said = ran.stderr.lines().find(|line| line.starts_with("stages, as shares of the elapsed time: "));
    let said = said.expect("--explain prints them");
    assert!(said.ends_with(" is the bottleneck"), "{said}");
    let trace = place.json("trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |stage: &str| events.iter().filter(|event| event["args"]["lane"] == stage).collect::<Vec<_>>();
    let names: Vec<_> = events.iter().filter_map(|event| event["args"]["name"].as_str()).collect();
    assert_eq!(names[1..], ["lane read", "lane encode", "lane write", "lane sync"], "after the name of the program");
    for queue in ["encode", "write", "sync"] {
        let name = format!("queue before {queue}");
        assert!(events.iter().any(|event| event["ph"] == "C" && event["name"] == name.as_str()), "{name}");
    }
    let batches = of("encode").len();
    assert!(batches > 3, "{batches}");
    // The last one is the end of the inputs.
    assert_eq!([of("read").len(), of("write").len()], [batches, batches]);
    for stage in ["read", "encode", "write", "sync"] {
        let mut end = 0.0;
        for event in of(stage) {
            let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            assert_eq!((event["ph"].as_str(), event["pid"].as_u64()), (Some("X"), Some(1)));
            assert!(start >= end - 0.001 && length >= 0.0, "{stage}: {event}");
            end = start + length;
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_or_must_not_is_refused_before_the_run() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("in.txt", "the path");
    let before = place.contents();
    let line = "encode in.txt -o out --tokenizer tiny.json --trace";
    for (file, code, said) in [
        ("in.txt", 2, "--trace: in.txt is an input of this run\nhint: pass another file"),
        ("./in.txt", 2, "--trace: ./in.txt is an input"),
        ("missing/trace.json", 73, "--trace: missing/trace.json: No such file"),
        (".", 73, "--trace: .: Is a directory"),
        ("tiny.json", 2, "--trace: tiny.json is an input"),
        ("out.ids.npy", 2, "--trace: out.ids.npy is one of the output files\nhint: pass another file"),
        ("./out.manifest.json", 2, "is one of the output files"),
        ("out.windrow-lock", 2, "is one of the output files"),
        ("out.bin.windrow-part", 2, "is one of the output files"),
        ("out-00012.jsonl.windrow-old", 2, "is one of the output files"),
    ] {
        let line = format!("{line} {file}");
        place.line(&line).fails(&line, code, &[said]);
        assert_eq!(place.contents(), before);
    }
}

#[cfg(unix)]
#[test]
fn what_a_trace_replaces_is_the_named_file_and_no_other() {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.txt", "the path").file("precious", "precious");
    symlink("precious", place.path("link")).unwrap();
    symlink("absent", place.path("dangling")).unwrap();
    fs::hard_link(place.path("precious"), place.path("second")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let before = place.contents();
    for (file, said) in [
        ("link", "it is a link, or has a second name"),
        ("dangling", "No such file"),
        ("second", "it is a link, or has a second name"),
        ("pipe", "it is a pipe, a socket or a block device"),
    ] {
        let line = format!("encode in.txt -o out --tokenizer tiny.json --trace {file}");
        place.line(&line).fails(&line, 73, &[&format!("--trace: {file}: {said}"), "hint: "]);
        assert_eq!(place.contents(), before, "{file}");
    }
    // What the shell has opened is no file of this name.
    let ran = place.line("encode in.txt -o out --tokenizer tiny.json --quiet --trace /dev/stdout").ok();
    assert!(ran.stdout.starts_with("{\"displayTimeUnit\""), "{}", ran.stdout);
}

//! `windrow count`, end to end.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::common::{Place, tiny, tiny_ids};

/// The number of tokens that tiktoken gives with o200k_base, as ordinary text.
fn tokens(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
}

#[test]
fn one_file_is_one_line() {
    let place = Place::new();
    place.file("README.md", "# Title\n\nSome text, <|endoftext|> and more.\n");
    let ran = place.line("count README.md").ok();
    let count = tokens("# Title\n\nSome text, <|endoftext|> and more.\n");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (format!("{count} README.md\n").as_str(), ""));
}

#[test]
fn several_files_have_a_total_and_one_column() {
    let place = Place::new();
    place.file("a.rs", "fn main() {}\n").file("b/empty", "").file("b/long.txt", "word ".repeat(100));
    let (a, long) = (tokens("fn main() {}\n"), tokens(&"word ".repeat(100)));
    // 513 bytes: three digits.
    let expected = format!("{a:3} a.rs\n{:3} b/empty\n{long:3} b/long.txt\n{:3} total\n", 0, a + long);
    assert_eq!(place.line("count a.rs b").ok().stdout, expected);
    assert_eq!(place.line("count --threads 2 a.rs b").ok().stdout, expected);
    let again = place.line("count a.rs a.rs").ok().stdout;
    assert_eq!(again, format!("{a:2} a.rs\n{a:2} a.rs\n{:2} total\n", 2 * a), "a file given twice counts twice");
}

#[test]
fn stdin_is_a_file() {
    let place = Place::new();
    place.file("a", "one two\n");
    assert_eq!(
        place.run_with("count -", b"one two\n").ok().stdout,
        "4 -\n".replace('4', &tokens("one two\n").to_string())
    );
    let n = tokens("one two\n");
    let both = place.run_with("count - a", b"one two\n").ok().stdout;
    assert_eq!(both, format!("{n:7} -\n{n:7} a\n{:7} total\n", 2 * n));
}

#[test]
fn directories_leave_out_what_git_ignores_and_what_is_no_text() {
    let place = Place::new();
    place.file(".ignore", "out/\n").file("out/x", "ignored").file(".hidden", "hidden").file("a.txt", "text");
    place.file("image.png", b"\x89PNG\r\n\0\0").file("deep/b.txt", "text");
    let ran = place.line("count .").ok();
    assert_eq!(ran.stdout, "1 ./a.txt\n1 ./deep/b.txt\n2 total\n".replace("1 ", " 1 ").replace("2 t", " 2 t"));
    assert!(ran.stderr.contains("note: 1 binary file skipped\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--no-ignore") && ran.stderr.contains("--hidden"), "{}", ran.stderr);
    assert_eq!(place.line("count -q .").ok().stderr, "");
    let all = place.line("count -q --hidden --no-ignore .").ok().stdout;
    for name in ["./.hidden", "./.ignore", "./out/x", "./a.txt"] {
        assert!(all.contains(name), "{all}");
    }
}

#[test]
fn top_is_the_largest_files_and_the_total_of_all() {
    let place = Place::new();
    place.file("a", "x ".repeat(10)).file("b", "x ".repeat(30)).file("c", "x ".repeat(20)).file("d", "x ".repeat(30));
    let count = |words: usize| tokens(&"x ".repeat(words));
    let total = count(10) + count(20) + 2 * count(30);
    let expected = format!("{:3} b\n{:3} d\n{total:3} total\n", count(30), count(30));
    assert_eq!(place.line("count --top 2 a b c d").ok().stdout, expected);
    assert_eq!(place.line("count --top 0 a b").ok().stdout, format!("{:2} total\n", count(10) + count(30)));
}

#[test]
fn json_has_everything() {
    let place = Place::new();
    place.file("d/a", "one\ntwo\n").file("d/b.bin", b"\0").file("d/c", b"one\xfftwo").file("e", "three");
    let ran = place.line("count --json -q d e");
    assert_eq!(ran.code, Some(65), "{}", ran.stderr);
    let (a, e) = (tokens("one\ntwo\n"), tokens("three"));
    let summary = ran.summary();
    assert_eq!(summary["tokenizer"], "o200k_base");
    assert_eq!(
        summary["files"],
        json!([{"path": "d/a", "bytes": 8, "tokens": a}, {"path": "e", "bytes": 5, "tokens": e}])
    );
    assert_eq!(summary["total"], json!({"files": 2, "bytes": 13, "tokens": a + e}));
    assert_eq!(summary["binary"], json!(["d/b.bin"]));
    assert!(summary["errors"][0].as_str().unwrap().starts_with("d/c: byte 4: is not UTF-8"), "{summary}");
}

#[test]
fn what_is_no_text_is_named_and_the_rest_is_counted() {
    let place = Place::new();
    place.file("a", "text").file("latin", b"caf\xe9 au lait").file("cut", b"caf\xc3").file("binary", b"a\0b");
    let ran = place.line("count a latin cut binary a");
    assert_eq!(ran.code, Some(65));
    assert_eq!(ran.stdout, " 1 a\n 1 a\n 2 total\n");
    for says in [
        "error: latin: byte 4: is not UTF-8\nhint: convert it: iconv",
        "error: cut: byte 4: is not UTF-8",
        "error: binary: is binary (it has a zero byte)\nhint: ",
    ] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_counted() {
    let place = Place::new();
    place.file("a", "text").file("latin", b"caf\xe9");
    let ran = place.line("count missing a latin a/b");
    assert_eq!(ran.code, Some(74), "reading weighs more: {}", ran.stderr);
    assert_eq!(ran.stdout, "1 a\n1 total\n");
    for says in ["error: missing: ", "error: a/b: ", "error: latin: ", "hint: check that it exists"] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

#[test]
fn models_and_tokenizers_have_names() {
    let place = Place::new();
    place.file("a", "hello, hello, world").file("tiny.json", tiny().to_string());
    let count = |line: &str| place.line(&format!("count a {line}")).ok().stdout;
    let by = |bpe: &tiktoken_rs::CoreBPE| format!("{} a\n", bpe.encode_ordinary("hello, hello, world").len());
    assert_eq!(count("--model gpt-4o"), by(tiktoken_rs::o200k_base_singleton()));
    assert_eq!(count("--model gpt-4"), by(tiktoken_rs::cl100k_base_singleton()));
    assert_eq!(count("--tokenizer gpt2"), by(tiktoken_rs::r50k_base_singleton()));
    assert_eq!(count("--tokenizer tiny.json"), format!("{} a\n", tiny_ids("hello, hello, world").len()));
    for (line, says) in [
        ("--model gpt4o", "did you mean gpt-4o?"),
        ("--model text-davinci-003", "p50k_base, which is not built in"),
        ("--tokenizer gpt-4o", "gpt-4o is a model, with the vocabulary o200k_base"),
        ("--tokenizer gpt2 --model gpt-4", "cannot be used with"),
    ] {
        place.line(&format!("count a {line}")).fails(line, 2, &[says]);
    }
    let line = "encode a.txt -o out --model gpt-4 --json -q";
    place.file("a.txt", "hello");
    place.line(line).ok();
    assert_eq!(place.json("out.manifest.json")["tokenizer"]["name"], "cl100k_base");
}

#[cfg(unix)]
#[test]
fn names_of_files_cannot_reach_the_terminal() {
    let place = Place::new();
    place.file("a\u{1b}[2J\nerror: b", "text").file("c\u{1b}", b"\xff");
    let ran = place.run(["count", "a\u{1b}[2J\nerror: b", "c\u{1b}"]);
    assert_eq!(ran.stdout, "1 a\\u{1b}[2J\\nerror: b\n1 total\n");
    assert!(ran.stderr.starts_with("error: c\\u{1b}: byte 1: "), "{}", ran.stderr);
}

/// Texts with several blocks and pieces, and characters that cross them; a text that cannot be cut; the change to the fast engine.
#[test]
fn long_texts_are_counted_in_pieces() {
    let place = Place::new();
    let mut long = String::new();
    for line in 0..60_000 {
        let indent = " ".repeat(line % 9);
        long.push_str(&format!("{indent}let \u{4e2d}\u{e9}{line} = \"{}\";\r\n\n", line * 7919));
    }
    let uncut = long.replace('\n', " ");
    place.file("long", &long).file("uncut", &uncut);
    let expected = [tokens(&long), tokens(&uncut)];
    let summary = place.line("count --json long uncut --threads 2").ok().summary();
    let counts = [&summary["files"][0]["tokens"], &summary["files"][1]["tokens"]];
    assert_eq!(counts, [&json!(expected[0]), &json!(expected[1])]);
    let gpt2 = tiktoken_rs::r50k_base_singleton();
    let summary = place.line("count --json --tokenizer r50k long").ok().summary();
    assert_eq!(summary["total"]["tokens"], gpt2.encode_ordinary(&long).len());
    place.file("late", [long.as_bytes(), b"\xff"].concat());
    let place_of = format!("error: late: byte {}: is not UTF-8", long.len() + 1);
    let ran = place.line("count late");
    assert!(ran.stderr.contains(&place_of), "{}", ran.stderr);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(65), ""));
}

/// A closed pipe ends the run, as with `windrow count . | head`.
#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::Stdio;
    let place = Place::new();
    for file in 0..50 {
        place.file(&format!("many/{file}"), "text");
    }
    let mut command = place.command(["count", "many"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

/// Every text of the data folder, compared with tiktoken.
#[test]
fn counts_of_the_data_folder_are_those_of_tiktoken() {
    let data = std::env::var_os("WINDROW_DATA").map(PathBuf::from);
    let Some(text) = data.map(|data| data.join("text")).filter(|text| text.is_dir()) else {
        println!("skipped: WINDROW_DATA names no folder with `text`");
        return;
    };
    let place = Place::new();
    let ran = place.run(["count", "--json", "-q", text.to_str().unwrap()]);
    let summary = ran.summary();
    let files = summary["files"].as_array().unwrap();
    assert!(!files.is_empty());
    for file in files {
        let path = file["path"].as_str().unwrap();
        assert_eq!(file["tokens"], tokens(&fs::read_to_string(path).unwrap()), "{path}");
    }
}

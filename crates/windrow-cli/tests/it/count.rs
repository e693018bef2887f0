//! `windrow count`, end to end.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::common::{Place, delegated, gzip, tiny, tiny_ids, zstd};

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

/// All kinds of input have the tokens that `encode` writes.
#[test]
fn what_is_counted_is_what_encode_writes() {
    let place = Place::new();
    let words = |i: usize| format!("{i} the path <|end|> of thorns \u{4e2d}\u{e9}\r\n").repeat(i % 50);
    let rows: String =
        (0..800).map(|i| format!("{}\n", json!({"text": words(i), "title": format!("the {i}")}))).collect();
    let large = words(49).repeat(300);
    let jsonl = format!("{rows}{}\n\n", json!({"title": "x", "more": [{}, 1], "text": large}));
    place.file("tiny.json", tiny().to_string()).file("delegated.json", delegated());
    place
        .file("a.jsonl", &jsonl)
        .file("b.jsonl.gz", gzip(jsonl.as_bytes()))
        .file("c.ndjson.zst", zstd(jsonl.as_bytes()));
    place.file("d.json.gz", gzip(rows.as_bytes())).file("e.txt", &large).file("f.md.zst", zstd(large.as_bytes()));
    place.file("g.txt", ["\u{feff}", &words(30)].concat()).file("h.txt", "a\0b").file("i.jsonl", "").file("j.txt", "");
    let inputs = "a.jsonl b.jsonl.gz c.ndjson.zst d.json.gz e.txt f.md.zst g.txt h.txt i.jsonl j.txt";
    for (inputs, options) in [
        (inputs, "--tokenizer tiny.json"),
        (inputs, "--tokenizer tiny.json --special-in-text --memory 200K --threads 3"),
        (inputs, "--tokenizer delegated.json --lines --memory 1M"),
        (inputs, "--tokenizer tiny.json --engine tokenizers"),
        ("a.jsonl b.jsonl.gz d.json.gz", "--tokenizer tiny.json --field title --memory 100K"),
        ("a.jsonl b.jsonl.gz", "--tokenizer tiny.json --field title --field text --join =="),
        ("a.jsonl e.txt g.txt", "--tokenizer tiny.json --all-text --no-ignore"),
        (".", "--tokenizer tiny.json --ext rs"),
        ("a.jsonl e.txt", "--tokenizer tiny.json --input-format lines"),
    ] {
        let encoded = place.line(&format!("encode {inputs} -o out --overwrite --json -q {options}"));
        let counted = place.line(&format!("count {inputs} --json -q {options}"));
        let (encoded, counted) = (encoded.ok().summary(), counted.ok().summary());
        let per_file = |list: &serde_json::Value, name: &str| -> Vec<_> {
            list.as_array()
                .unwrap()
                .iter()
                .map(|of| [&of[name], &of["bytes"], &of["tokens"]].map(Clone::clone))
                .collect()
        };
        assert_eq!(per_file(&counted["files"], "path"), per_file(&encoded["inputs"], "name"), "{inputs} {options}");
        assert_eq!(counted["total"]["tokens"], encoded["tokens"]);
        fs::remove_file(place.path("out.manifest.json")).unwrap();
        fs::remove_file(place.path("out.ids.npy")).unwrap();
    }
}

/// A file of JSON lines without the field is text, unless the field or the format is named.
#[test]
fn json_lines_without_the_field_are_text() {
    let place = Place::new();
    let long = format!("{}\n", json!({"body": "x ".repeat(300_000)}));
    place
        .file("log.jsonl", "\n{\"level\": 3}\n{\"level\": 4}\n")
        .file("list.jsonl.gz", gzip(b"[1, 2]\n"))
        .file("long.jsonl", &long);
    place
        .file("good.jsonl", "{\"text\": \"one two\"}\n")
        .file("null.jsonl", "{\"text\": null}\n")
        .file("blank.jsonl", " \n\n");
    let ran = place.line("count log.jsonl list.jsonl.gz long.jsonl good.jsonl blank.jsonl --memory 100K").ok();
    let lines = [
        (tokens("\n{\"level\": 3}\n{\"level\": 4}\n"), "log.jsonl"),
        (tokens("[1, 2]\n"), "list.jsonl.gz"),
        (tokens(&long), "long.jsonl"),
        (tokens("one two"), "good.jsonl"),
        (0, "blank.jsonl"),
    ];
    let total: usize = lines.iter().map(|(tokens, _)| tokens).sum();
    let expected: String = lines.map(|(tokens, name)| format!("{tokens:7} {name}\n")).concat();
    assert_eq!(ran.stdout, format!("{expected}{total:7} total\n"));
    assert!(ran.stderr.contains("note: log.jsonl: counted as plain text"), "{}", ran.stderr);
    assert!(ran.stderr.contains("so were 2 other files"), "{}", ran.stderr);
    for (line, says) in [
        ("log.jsonl --field text", "log.jsonl:2:1: field \"text\" is missing"),
        ("log.jsonl --input-format jsonl", "log.jsonl:2:1: field \"text\" is missing"),
        ("list.jsonl.gz --field text", "list.jsonl.gz:1:1: the line is an array, not an object"),
        ("null.jsonl", "null.jsonl:1:1: field \"text\" is null, not a string"),
    ] {
        let line = format!("count {line}");
        place.line(&line).fails(&line, 65, &[says, "hint: "]);
    }
}

#[test]
fn a_bad_document_fails_its_file_only() {
    let place = Place::new();
    let rows: String = (0..40_000).map(|i| format!("{}\n", json!({"text": format!("row {i}")}))).collect();
    place.file("a.jsonl", format!("{rows}{{\"text\": 1}}\n{rows}")).file("b.jsonl.gz", &gzip(rows.as_bytes())[..5_000]);
    place
        .file("c.jsonl", "{\"text\": \"row\"}\n")
        .file("d.txt", ["row \n".repeat(50_000).as_bytes(), b"\xff"].concat());
    let ran = place.line("count a.jsonl b.jsonl.gz c.jsonl d.txt c.jsonl --memory 300K");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(65), "      1 c.jsonl\n      1 c.jsonl\n      2 total\n"));
    for says in [
        "error: a.jsonl:40001:1: field \"text\" is a number, not a string\nhint: fix it",
        "error: b.jsonl.gz: ",
        "error: d.txt:50001:1: not valid UTF-8\nhint: ",
    ] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

#[test]
fn raw_counts_the_bytes_as_they_lie() {
    let place = Place::new();
    let lines = "{\"text\": \"one\"}\n{\"body\": \"two\"}\n";
    place.file("a.jsonl", lines).file("mark.txt", "\u{feff}one").file("a.gz", gzip(lines.as_bytes()));
    let expected = format!(
        "{:2} a.jsonl\n{:2} mark.txt\n{:2} total\n",
        tokens(lines),
        tokens("\u{feff}one"),
        tokens(lines) + tokens("\u{feff}one")
    );
    assert_eq!(place.line("count --raw a.jsonl mark.txt").ok().stdout, expected);
    assert_eq!(place.line("count mark.txt").ok().stdout, "1 mark.txt\n");
    assert_eq!(place.line("count a.gz").ok().stdout, format!("{} a.gz\n", tokens(lines)), "decompressed, and text");
    assert_eq!(place.line("count --raw a.gz").code, Some(65));
    assert_eq!(place.run_with("count --raw", lines.as_bytes()).ok().stdout, format!("{} -\n", tokens(lines)));
    place.line("count --raw --field x a.jsonl").fails("--raw --field", 2, &["cannot be used with"]);
}

#[test]
fn stdin_is_a_file() {
    let place = Place::new();
    place.file("a", "one two\n");
    assert_eq!(place.run_with("count", b"one two\n").ok().stdout, place.run_with("count -", b"one two\n").ok().stdout);
    let lines = place.run_with("count --input-format jsonl", &gzip(b"{\"text\": \"one two\"}\n")).ok();
    assert_eq!((lines.stdout, lines.stderr.as_str()), (format!("{} -\n", tokens("one two")), ""));
    let text = place.run_with("count", b"{\"text\": \"one two\"}\n").ok();
    assert!(text.stderr.contains("--input-format jsonl reads JSON lines"), "{}", text.stderr);
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
    assert!(summary["errors"][0].as_str().unwrap().starts_with("d/c:1:4: not valid UTF-8\nhint: "), "{summary}");
}

#[test]
fn what_is_no_text_is_named_and_the_rest_is_counted() {
    let place = Place::new();
    place.file("a", "text").file("latin", b"caf\xe9 au lait").file("cut", b"caf\xc3").file("binary", b"a\0b");
    let ran = place.line("count a latin cut binary a");
    assert_eq!(ran.code, Some(65));
    assert_eq!(ran.stdout, " 1 a\n 1 a\n 2 total\n");
    for says in [
        "error: latin:1:4: not valid UTF-8\nhint: convert it: iconv",
        "error: cut:1:4: not valid UTF-8",
        "error: binary: this is a binary file (it contains a NUL byte)\nhint: ",
    ] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

#[test]
fn what_is_not_there_is_named_as_by_encode_and_the_rest_is_counted() {
    let place = Place::new();
    place.file("a", "text").file("latin", b"caf\xe9");
    let ran = place.line("count missing a latin a/b");
    assert_eq!(ran.code, Some(74), "reading weighs more: {}", ran.stderr);
    assert_eq!(ran.stdout, "1 a\n1 total\n");
    for says in ["error: missing: ", "error: a/b: ", "error: latin:1:4: ", "hint: check that it exists"] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    for input in ["missing", "a/b", "m*g"] {
        let encoded = place.line(&format!("encode {input} -o out"));
        let counted = place.line(&format!("count {input}"));
        assert_eq!((counted.code, counted.stdout, counted.stderr), (encoded.code, String::new(), encoded.stderr));
    }
    assert_eq!(place.line("count a missing").code, Some(2));
    assert_eq!(place.line("count latin missing").code, Some(65));
}

/// Entries that cannot be listed or opened are errors, a broken link is a note, and all others are counted.
#[cfg(unix)]
#[test]
fn a_folder_is_not_silenced_by_one_of_its_entries() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::process::CommandExt;
    let place = Place::new();
    place.file("d/a", "text").file("d/b/shut", "text").file("d/c/open", "text").file("d/locked", "text");
    symlink("loop", place.path("d/loop")).unwrap();
    symlink("gone", place.path("d/broken")).unwrap();
    for (name, mode) in [("d/b", 0o000), ("d/locked", 0o000), ("", 0o755)] {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // The superuser may read everything.
    let mut command = place.command(["count", "d"]);
    if fs::read_dir(place.path("d/b")).is_ok() {
        command.uid(65_534).gid(65_534);
    }
    let ran = crate::common::Ran::of(command.output().unwrap());
    fs::set_permissions(place.path("d/b"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(74), " 1 d/a\n 1 d/c/open\n 2 total\n"), "{}", ran.stderr);
    let note = "note: d: 1 entry could not be read and was ignored (broken: ";
    for says in [note, "error: d/b: cannot be opened: ", "error: d/locked: cannot be opened: ", "error: d/loop: "] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    assert_eq!(ran.stderr.matches("error: ").count(), 3, "{}", ran.stderr);
    for name in ["d/b", "d/locked", "d/loop"] {
        fs::remove_file(place.path(name)).or_else(|_| fs::remove_dir_all(place.path(name))).unwrap();
    }
    let ran = place.line("count d").ok();
    assert_eq!(ran.stdout, "1 d/a\n1 d/c/open\n2 total\n");
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
}

/// Below a name that begins with `_`, source code is counted, and what data jobs leave there is not.
#[test]
fn names_with_an_underscore_are_those_of_source_code() {
    let place = Place::new();
    let row = "{\"text\": \"text\"}\n";
    place.file("d/__init__.py", "text").file("d/_posts/a.md", "text").file("d/_temporary/b.jsonl", row);
    let ran = place.line("count d").ok();
    assert_eq!(ran.stdout, "1 d/__init__.py\n1 d/_posts/a.md\n2 total\n");
    assert!(ran.stderr.contains("d: 1 hidden file or folder excluded, such as _temporary"), "{}", ran.stderr);
    assert_eq!(place.line("count -q --hidden d").ok().stdout.lines().count(), 4);
    // Asked for JSON lines, a folder is a corpus: ignore files do not count.
    place.file("d/.ignore", "c.jsonl\n").file("d/c.jsonl", row);
    assert_eq!(place.line("count -q --input-format jsonl d").ok().stdout, "1 d/c.jsonl\n");
}

/// Findings on the texts are noted as by `encode`.
#[test]
fn large_documents_and_pointers_are_noted() {
    let place = Place::new();
    place.file("tokenizer.json", delegated()).file("a.txt", "the path ".repeat(20_000));
    place.file("b.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    let ran = place.line("count a.txt b.txt --tokenizer tokenizer.json --memory 1M").ok();
    for says in ["note: a.txt:1: a document of 180.0 kB takes about ", "note: a text is a Git LFS pointer: b.txt"] {
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    assert_eq!(place.line("count -q a.txt b.txt --tokenizer tokenizer.json --memory 1M").ok().stderr, "");
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
    assert_eq!(count("--model text-davinci-003"), by(tiktoken_rs::p50k_base_singleton()));
    assert_eq!(count("--model gpt-oss-120b"), by(tiktoken_rs::o200k_harmony_singleton()));
    assert_eq!(count("--tokenizer gpt-oss-20b"), by(tiktoken_rs::o200k_harmony_singleton()));
    assert_eq!(count("--tokenizer tiny.json"), format!("{} a\n", tiny_ids("hello, hello, world").len()));
    for (line, says) in [
        ("--model gpt4o", "did you mean gpt-4o?"),
        ("--tokenizer gpt-4o", "gpt-4o is a model that uses the vocabulary o200k_base"),
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
    assert!(ran.stderr.starts_with("error: c\\u{1b}:1:1: "), "{}", ran.stderr);
}

/// Texts with several blocks and pieces, and characters that cross them; the change to the fast engine.
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
    let place_of = format!("error: late:{}:1: not valid UTF-8", long.lines().count() + 1);
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

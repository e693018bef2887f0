//! `windrow encode` end to end: what it reads, writes and prints.

use crate::common::{Place, gzip, ids_of, tiny, tiny_ids, tiny_special_ids, zstd};
use serde_json::{Value, json};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Texts that are difficult for the formats of input and output.
const TEXTS: [&str; 6] =
    ["the other cat", "", "two\nlines\r\n", "l'été, 日本 \u{1f600}", "nul \0 <|end|> x", "<|endoftext|>the"];

/// `TEXTS` as a file of JSON lines, and the small vocabulary.
fn corpus() -> Place {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let lines: Vec<String> = TEXTS.iter().map(|text| json!({ "text": text }).to_string()).collect();
    place.file("in.jsonl", lines.join("\n"));
    place
}

fn u16s(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|&id| u16::try_from(id).unwrap().to_le_bytes()).collect()
}

/// The data of an `.npy` file after its header, which is checked.
fn npy(bytes: &[u8], descr: &str, length: usize) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({length},), }}");
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    assert!(String::from_utf8_lossy(&bytes[10..128]).starts_with(&header));
    bytes[128..].to_vec()
}

#[test]
fn every_format_holds_the_ids_of_the_tokenizer() {
    let place = corpus();
    let documents = TEXTS.map(tiny_ids);
    let flat = documents.concat();
    let ends = documents.iter().scan(0, |end, ids| {
        *end += ids.len();
        Some(*end as u64)
    });
    let ends: Vec<u64> = ends.collect();

    place.line("encode in.jsonl -o a --tokenizer tiny.json").ok();
    assert_eq!(npy(&place.read("a.ids.npy"), "<u2", flat.len()), u16s(&flat));
    let offsets: Vec<u8> = [&[0], ends.as_slice()].concat().iter().flat_map(|end| end.to_le_bytes()).collect();
    assert_eq!(npy(&place.read("a.offsets.npy"), "<u8", 7), offsets);

    place.line("encode in.jsonl -o b --tokenizer tiny.json --format nanogpt --eos <|end|>").ok();
    let ended: Vec<u32> = documents.iter().flat_map(|ids| [ids.as_slice(), &[258]].concat()).collect();
    assert_eq!(place.read("b.bin"), u16s(&ended));

    place.line("encode in.jsonl -o c --tokenizer tiny.json --format megatron").ok();
    assert_eq!(place.read("c.bin"), u16s(&flat));
    let index = place.read("c.idx");
    assert_eq!(index.len(), 42 + 20 * TEXTS.len());
    let lengths: Vec<u32> = documents.iter().map(|ids| ids.len() as u32).collect();
    assert_eq!(index[34..34 + 24], *lengths.iter().flat_map(|length| length.to_le_bytes()).collect::<Vec<u8>>());

    place.line("encode in.jsonl -o d --tokenizer tiny.json --format jsonl").ok();
    assert_eq!(ids_of(&place.read("d.jsonl")), documents);

    place.line("encode in.jsonl -o e --tokenizer tiny.json --format jsonl --append-eos --eos 65").ok();
    assert_eq!(ids_of(&place.read("e.jsonl")), documents.map(|ids| [ids.as_slice(), &[65]].concat()));

    place.line("encode in.jsonl -o f --tokenizer tiny.json --dtype u32").ok();
    let wide: Vec<u8> = flat.iter().flat_map(|id| id.to_le_bytes()).collect();
    assert_eq!(npy(&place.read("f.ids.npy"), "<u4", flat.len()), wide);
}

#[test]
fn the_embedded_vocabularies_need_no_file() {
    let place = corpus();
    for (name, arguments) in
        [("o200k_base", ""), ("gpt2", "--tokenizer gpt2"), ("cl100k_base", "--tokenizer cl100k_base")]
    {
        let ran = place.line(&format!("encode in.jsonl -o {name} --format jsonl --json {arguments}")).ok();
        let tokenizer =
            Tokenizer::load(name, &LoadOptions { special_in_text: false, ..LoadOptions::default() }).unwrap();
        let mut encoder = tokenizer.engine().encoder();
        let expected = TEXTS.map(|text| {
            let mut ids = Vec::new();
            encoder.encode(text, &mut ids).unwrap();
            ids
        });
        assert_eq!(ids_of(&place.read(&format!("{name}.jsonl"))), expected, "{name}");
        assert_eq!(ran.summary()["tokens"], json!(expected.concat().len()));
        let manifest = place.json(&format!("{name}.manifest.json"));
        assert_eq!(manifest["tokenizer"]["blake3"], json!(tokenizer.hash()));
    }
    // nanoGPT's u16 is for vocabularies as small as this one, whose end of text is known.
    place.line("encode in.jsonl -o n --tokenizer gpt2 --format nanogpt").ok();
    assert!(place.read("n.bin").ends_with(&50_256_u16.to_le_bytes()));
    place.line("encode in.jsonl -o w --format nanogpt --dtype u32").ok();
    assert!(place.read("w.bin").ends_with(&199_999_u32.to_le_bytes()));
}

#[test]
fn special_tokens_in_a_text_are_text_unless_asked_for() {
    let place = corpus();
    for (option, expected) in [("", TEXTS.map(tiny_ids)), ("--special-in-text", TEXTS.map(tiny_special_ids))] {
        let line = format!("encode in.jsonl -o out --tokenizer tiny.json --format jsonl --overwrite {option}");
        place.line(&line).ok();
        assert_eq!(ids_of(&place.read("out.jsonl")), expected, "{option}");
        assert_eq!(place.json("out.manifest.json")["options"]["special_in_text"] == true, !option.is_empty());
    }
    // The option of before names the one of now.
    let line = "encode in.jsonl -o new --tokenizer tiny.json --no-special-in-text";
    place.line(line).fails(line, 2, &["'--no-special-in-text'", "'--special-in-text'"]);
}

#[test]
fn a_template_is_used_on_request_only() {
    let place = corpus();
    let mut tokenizer = tiny();
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|end|>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [258], "tokens": ["<|end|>"]}}
    });
    tokenizer["truncation"] = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    place.file("template.json", tokenizer.to_string());
    let ran = place.line("encode in.jsonl -o plain --tokenizer template.json --format jsonl").ok();
    assert_eq!(ids_of(&place.read("plain.jsonl")), TEXTS.map(tiny_ids));
    assert!(ran.stderr.contains("note: ") && ran.stderr.contains("truncation"), "{}", ran.stderr);
    place.line("encode in.jsonl -o added --tokenizer template.json --format jsonl --add-special-tokens").ok();
    assert_eq!(ids_of(&place.read("added.jsonl")), TEXTS.map(|text| [tiny_ids(text).as_slice(), &[258]].concat()));
}

#[test]
fn files_folders_patterns_and_stdin_in_this_order() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("folder/b.txt", "b").file("folder/a/z.jsonl.zst", zstd(b"{\"text\":\"z\"}\n")).file("folder/c.md", "c");
    place.file("folder/passed.over", "no").file("one.txt.gz", [gzip(b"one "), gzip(b"more")].concat());
    place.file("p1.txt", "p1").file("p2.txt", "p2");
    let line = "encode one.txt.gz - folder p?.txt -o out --tokenizer tiny.json --format jsonl";
    let ran = place.run_with(line, b"stdin\nis one").ok();
    let texts = ["one more", "stdin\nis one", "z", "b", "c", "p1", "p2"];
    assert_eq!(ids_of(&place.read("out.jsonl")), texts.map(tiny_ids));
    assert!(ran.stderr.contains("note: folder: 1 file with another extension was ignored"), "{}", ran.stderr);
    let names: Vec<String> = place.json("out.manifest.json")["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| input["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["one.txt.gz", "-", "folder/a/z.jsonl.zst", "folder/b.txt", "folder/c.md", "p1.txt", "p2.txt"]);
}

#[test]
fn stdin_may_be_compressed_and_in_any_format() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let common = "--tokenizer tiny.json --format jsonl";
    place.run_with(&format!("encode - -o a --lines {common}"), &gzip(b"x\n\ny\n")).ok();
    assert_eq!(ids_of(&place.read("a.jsonl")), ["x", "", "y"].map(tiny_ids));
    let lines = br#"{"body": "x"}"#;
    place.run_with(&format!("encode - -o b --input-format jsonl --field body {common}"), &zstd(lines)).ok();
    assert_eq!(ids_of(&place.read("b.jsonl")), [tiny_ids("x")]);
    place.run_with(&format!("encode - -o c {common}"), b"").ok();
    assert_eq!(ids_of(&place.read("c.jsonl")), [[0_u32; 0]]);
    place.run_with(&format!("encode - -o d --lines {common}"), b"").ok();
    assert_eq!(place.read("d.jsonl"), b"");
}

#[test]
fn the_summary_says_what_was_done() {
    let place = corpus();
    let ran = place.line("encode in.jsonl -o sub/../out --tokenizer tiny.json --json");
    assert_eq!(ran.code, Some(73), "sub does not exist");
    let ran = place.line("encode in.jsonl -o ./out --tokenizer tiny.json --json").ok();
    let summary = ran.summary();
    let keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    let mut expected = [
        "schema",
        "documents",
        "bytes",
        "tokens",
        "special_tokens",
        "inputs",
        "tokenizer",
        "format",
        "dtype",
        "eos",
        "seconds",
        "encoding_seconds",
        "publishing_seconds",
        "mb_per_s",
        "peak_in_flight_bytes",
        "readers",
        "outputs",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(summary["inputs"][0].as_object().unwrap().len(), 4);
    assert_eq!(summary["schema"], 2);
    assert_eq!([&summary["tokenizer"], &summary["format"], &summary["dtype"]], ["tiny.json", "npy", "u16"]);
    let seconds = ["seconds", "encoding_seconds", "publishing_seconds"].map(|key| summary[key].as_f64().unwrap());
    assert!((seconds[0] - seconds[1] - seconds[2]).abs() < 1e-6, "{seconds:?}");
    assert_eq!(summary["documents"], json!({"read": 6, "written": 6, "skipped": 0, "failed": 0}));
    assert_eq!(summary["bytes"], json!(TEXTS.concat().len()));
    assert_eq!(summary["tokens"], json!(TEXTS.map(tiny_ids).concat().len()));
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    assert!(summary["mb_per_s"].as_f64().unwrap() > 0.0);
    assert!(summary["peak_in_flight_bytes"].as_u64().unwrap() > 0);
    assert_eq!(summary["readers"], 1);
    assert_eq!(summary["outputs"], json!(["./out.ids.npy", "./out.offsets.npy", "./out.manifest.json"]));
    assert!(ran.stderr.contains("6 documents, 75 bytes of text, "), "{}", ran.stderr);
    assert!(ran.stderr.contains(" tokens of tiny.json (npy, u16)\nencoded in "), "{}", ran.stderr);
    assert!(!ran.stderr.contains("MB/s"), "so little text has no rate: {}", ran.stderr);
    place.file("more.txt", "the text ".repeat(200_000));
    let more = place.line("encode more.txt -o more --tokenizer tiny.json").ok();
    assert!(more.stderr.contains(" MB/s), published in "), "{}", more.stderr);
    assert!(ran.stderr.contains("./out.ids.npy ./out.offsets.npy ./out.manifest.json\n"), "{}", ran.stderr);

    let ran = place.line("encode in.jsonl -o quiet --tokenizer tiny.json --quiet").ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn the_manifest_says_what_was_done_and_how() {
    let place = corpus();
    place.file("bad.jsonl", "{\"text\": \"a\"}\n\n{\"txt\": 1}\n[]\n");
    let line =
        "encode in.jsonl bad.jsonl -o out --tokenizer tiny.json --on-error skip --append-eos --eos <|end|> --json";
    let ran = place.line(line).ok();
    let counts = json!({"read": 9, "written": 7, "skipped": 2, "failed": 0});
    assert_eq!(ran.summary()["documents"], counts);
    assert!(ran.stderr.contains("note: 2 bad documents skipped, see out.skipped.jsonl"), "{}", ran.stderr);
    let manifest = place.json("out.manifest.json");
    assert_eq!(manifest["documents"], counts);
    assert_eq!(manifest["tokens"], json!(TEXTS.map(tiny_ids).concat().len() + 1 + 7));
    assert_eq!(manifest["text_bytes"], json!(TEXTS.concat().len() + 1));
    assert_eq!(
        manifest["options"],
        json!({
            "tokenizer": "tiny.json", "dtype": "u16", "eos": 258, "append_eos": true, "field": ["text"], "on_error": "skip"
        })
    );
    assert_eq!(manifest["tokenizer"]["name"], "tiny.json");
    assert_eq!(manifest["tokenizer"]["vocab_size"], 259);
    assert_eq!(manifest["engine"]["name"], "windrow-bpe");
    let hash = |name: &str| json!(blake3::hash(&place.read(name)).to_hex().to_string());
    assert_eq!(manifest["tokenizer"]["blake3"], hash("tiny.json"));
    for (input, documents) in manifest["inputs"].as_array().unwrap().iter().zip([6, 3]) {
        let name = input["name"].as_str().unwrap();
        assert_eq!(input["blake3"], hash(name));
        assert_eq!(input["bytes"], json!(place.read(name).len()));
        assert_eq!(input["documents"], json!(documents));
    }
    let names = ["out.ids.npy", "out.offsets.npy", "out.skipped.jsonl"];
    assert_eq!(manifest["outputs"].as_array().unwrap().len(), 3);
    for (output, name) in manifest["outputs"].as_array().unwrap().iter().zip(names) {
        assert_eq!((&output["file"], &output["blake3"]), (&json!(name), &hash(name)));
    }
    let skipped = manifest["skipped"].as_array().unwrap();
    let places: Vec<Value> = skipped.iter().map(|bad| json!([bad["file"], bad["line"], bad["offset"]])).collect();
    assert_eq!(places, [json!(["bad.jsonl", 3, 15]), json!(["bad.jsonl", 4, 26])]);
    let list = String::from_utf8(place.read("out.skipped.jsonl")).unwrap();
    assert_eq!(&list.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>(), skipped);
}

#[test]
fn a_failed_run_has_its_account_too() {
    let place = corpus();
    place.file("bad.jsonl", "{\"text\": \"a\"}\n{\"txt\": 1}\n[]\n");
    let ran = place.line("encode bad.jsonl in.jsonl -o out --tokenizer tiny.json --json");
    assert_eq!(ran.code, Some(65));
    let summary = ran.summary();
    assert_eq!(summary["documents"], json!({"read": 2, "written": 1, "skipped": 0, "failed": 1}));
    assert_eq!(summary["outputs"], json!([]));
    assert!(summary["error"].as_str().unwrap().starts_with("bad.jsonl:2:1: "), "{summary}");
    assert!(ran.stderr.contains("nothing was published; 2 documents had been read: 1 good, 0 skipped, 1 failed"));
}

#[test]
fn a_run_that_does_not_begin_has_an_object_too() {
    let place = corpus();
    for (line, code, says) in [
        ("encode missing.txt -o out --tokenizer tiny.json --json", 2, "missing.txt: no such file"),
        ("encode in.jsonl -o out --tokenizer in.jsonl --json", 65, "tokenizer in.jsonl: "),
        ("encode in.jsonl -o no/out --tokenizer tiny.json --json", 73, "no does not exist"),
    ] {
        let ran = place.line(line);
        assert_eq!(ran.code, Some(code), "{line}");
        let summary = ran.summary();
        assert!(summary["error"].as_str().unwrap().contains(says), "{summary}");
        assert_eq!(summary["documents"], json!({"read": 0, "written": 0, "skipped": 0, "failed": 0}));
        assert_eq!((&summary["outputs"], &summary["dtype"]), (&json!([]), &Value::Null));
    }
}

#[test]
fn source_code_is_text() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    place.file("src/a.rs", "fn").file("src/b.py", "def").file("src/c.png", b"\x89PNG\0").file("src/.git/HEAD", "ref");
    place.file("src/built/d.rs", "built").file("src/.gitignore", "/built\n").file("src/Makefile", "all:");
    let texts = |arguments: &str| {
        let ran =
            place.line(&format!("encode src -o out --tokenizer tiny.json --format jsonl --overwrite {arguments}")).ok();
        let ids = ids_of(&place.read("out.jsonl"));
        (
            ids.iter().map(|ids| String::from_utf8(ids.iter().map(|&id| id as u8).collect()).unwrap()).collect(),
            ran.stderr,
        )
    };
    let (some, said): (Vec<String>, String) = texts("--ext rs,.PY");
    assert_eq!(some, ["fn", "def"]);
    assert!(said.contains("note: src: 2 files with other extensions were ignored\n"), "{said}");
    let (all, said) = texts("--all-text");
    assert_eq!(all, ["all:", "fn", "def"]);
    for note in ["1 file that are not text", "2 hidden files and folders", "1 file or folder excluded by ignore files"]
    {
        assert!(said.contains(&note.replace("1 file that are", "1 file that is")), "{said}");
    }
    assert_eq!(texts("--all-text --no-ignore").0, ["all:", "fn", "def", "built"]);
    assert_eq!(texts("--all-text --hidden").0, ["ref", "/built\n", "all:", "fn", "def"]);
}

#[test]
fn json_is_json_lines_if_compressed_or_on_request() {
    let place = corpus();
    place.file("c4/1.json.gz", gzip(b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n")).file("c4/2.json", "{\"text\": \"c\"}");
    let line = "encode c4 -o out --tokenizer tiny.json --format jsonl";
    let said = place.line(line).ok().stderr;
    assert!(said.contains("note: c4: 1 file with another extension was ignored"), "{said}");
    assert_eq!(ids_of(&place.read("out.jsonl")), ["a", "b"].map(tiny_ids));
    std::fs::create_dir(place.path("plain")).unwrap();
    place.file("plain/2.json", "{\"text\": \"c\"}");
    let plain = "encode plain -o plain --tokenizer tiny.json";
    place.line(plain).fails(
        plain,
        2,
        &["plain: no input in this directory (files of other kinds: 1)", "`--input-format jsonl` also reads .json"],
    );
    place.line(&format!("{line} --input-format jsonl --overwrite")).ok();
    assert_eq!(ids_of(&place.read("out.jsonl")), ["a", "b", "c"].map(tiny_ids));
}

#[test]
fn json_lines_on_stdin_are_worth_a_word() {
    let place = corpus();
    let line = "encode - -o out --tokenizer tiny.json --overwrite";
    let ran = place.run_with(line, b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n").ok();
    assert!(
        ran.stderr.contains("note: -: begins with a line of JSON, ") && ran.stderr.contains("--input-format jsonl")
    );
    let ran = place.run_with(&format!("{line} --input-format jsonl"), b"{\"text\": \"a\"}\n").ok();
    assert!(!ran.stderr.contains("note: "), "{}", ran.stderr);
}

#[test]
fn the_switch_of_tokenizers_makes_it_serial_unless_threads_are_given() {
    let place = corpus();
    let said = |arguments: &str, value: &str| {
        let line = format!("encode in.jsonl -o out --tokenizer tiny.json --overwrite {arguments}");
        let output = place.command(line.split_whitespace()).env("TOKENIZERS_PARALLELISM", value).output().unwrap();
        crate::common::Ran::of(output).ok().stderr
    };
    assert!(said("", "False").contains("note: only one thread encodes, because TOKENIZERS_PARALLELISM is \"False\""));
    for (arguments, value) in [("", "true"), ("--threads 2", "false"), ("--threads auto", "0")] {
        assert!(!said(arguments, value).contains("one thread"), "{arguments} {value}");
    }
}

#[test]
fn existing_files_are_refused_or_replaced() {
    let place = corpus();
    place.line("encode in.jsonl -o out --tokenizer tiny.json").ok();
    let before = place.contents();
    // Refused before anything is read; the input would be an error, too.
    place.file("bad.jsonl", "[");
    let ran = place.line("encode bad.jsonl -o out --tokenizer tiny.json");
    assert_eq!(ran.code, Some(73));
    assert!(ran.stderr.contains("out.ids.npy already exists") && ran.stderr.contains("--overwrite"), "{}", ran.stderr);
    // A failing run keeps the files that it was to replace.
    assert_eq!(place.line("encode bad.jsonl -o out --tokenizer tiny.json --overwrite").code, Some(65));
    std::fs::remove_file(place.path("bad.jsonl")).unwrap();
    assert_eq!(place.contents(), before);
    place.line("encode in.jsonl -o out --tokenizer tiny.json --overwrite --append-eos --eos 0").ok();
    assert_ne!(place.contents(), before);
    assert_eq!(place.contents().len(), before.len());
}

#[test]
fn two_identical_runs_write_identical_bytes() {
    let place = corpus();
    for format in ["npy", "nanogpt", "megatron", "datatrove", "mds", "jsonl"] {
        let eos = if format == "nanogpt" { "--eos 258" } else { "" };
        let line = format!("encode in.jsonl -o out --tokenizer tiny.json --overwrite --format {format} {eos}");
        place.line(&line).ok();
        let first = place.contents();
        place.line(&line).ok();
        assert_eq!(place.contents(), first, "{format}");
    }
}

#[test]
fn help_and_version() {
    let place = Place::new();
    let help = place.line("encode --help").ok().stdout;
    assert!(help.find("Examples:").unwrap() < help.find("Usage:").unwrap());
    assert!(!help.contains("chunk-bytes"), "hidden");
    assert!(place.line("--help").ok().stdout.contains("Examples:"));
    assert_eq!(place.line("--version").ok().stdout, format!("windrow {}\n", env!("CARGO_PKG_VERSION")));
}

//! `windrow verify`, `decode` and `stat` on all formats, whole and damaged.

use serde_json::json;

use crate::common::{Place, tiny};

fn corpus() -> Place {
    let place = Place::new();
    let line = |i: usize| match i % 50 {
        9 => "[]\n".to_owned(),
        _ => format!("{}\n", json!({"text": format!("{i} {}", "the path; ".repeat(i % 30))})),
    };
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", (0..500).map(line).collect::<String>());
    place
}

const ENCODE: &str =
    "encode in.jsonl -o out --tokenizer tiny.json --on-error skip --append-eos --eos 258 --overwrite --quiet";

#[test]
fn what_was_written_is_verified_shown_and_counted() {
    let place = corpus();
    for format in
        ["npy", "nanogpt", "megatron", "datatrove", "mds", "jsonl", "webdataset", "arrow", "arrow-stream", "parquet"]
    {
        for shards in ["", "--shard-size 3000"] {
            place.line(&format!("{ENCODE} --format {format} {shards}")).ok();
            let ran = place.line("verify out --tokenizer tiny.json").ok();
            assert!(
                ran.stdout.contains(": unchanged since encoding; 490 documents, "),
                "{format} {shards}: {}",
                ran.stdout
            );
            let manifest = place.json("out.manifest.json");
            let verified = place.line("verify out.manifest.json --json").ok().summary();
            assert_eq!(verified["files"], manifest["outputs"].as_array().unwrap().len());
            assert_eq!((&verified["tokens"], &verified["faults"]), (&manifest["tokens"], &json!([])));
            let ran = place.line("decode out 12").ok();
            assert_eq!(ran.stdout, format!("13 {}<|end|>\n", "the path; ".repeat(13)), "{format} {shards}");
            assert_eq!(place.line("decode out 0 --ids").ok().stdout, "48 32 258\n");
            let all = place.line("decode out").ok().stdout;
            assert_eq!(all.lines().count(), 490);
            let some = |from: usize, to: usize| all.lines().take(to).skip(from).map(|line| format!("{line}\n"));
            for (range, from, to) in [("..2", 0, 2), ("488..", 488, 490), ("7..9", 7, 9), ("480..9999", 480, 490)] {
                assert_eq!(place.line(&format!("decode out {range}")).ok().stdout, some(from, to).collect::<String>());
            }
            let json = place.line("decode out 3..5 --json").ok().stdout;
            let numbers: Vec<serde_json::Value> = json
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["document"].take())
                .collect();
            assert_eq!(numbers, [3, 4]);
            place.line("decode out 490").fails("decode", 2, &["no document 490: 490 were written", "hint: "]);
            let counted = place.line("stat out --json --top 1").ok().summary();
            assert_eq!((&counted["documents"], &counted["tokens"]), (&json!(490), &manifest["tokens"]));
            assert_eq!(
                counted["lengths"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>(),
                490
            );
            assert_eq!(counted["most_frequent"][0]["id"], 32);
            assert_eq!(counted["most_frequent"][0]["text"], " ");
            assert!(place.line("head out").ok().stdout.starts_with("490 documents, "));
        }
    }
}

#[test]
fn counts_have_separators_and_tokens_their_texts() {
    let place = corpus();
    place.line(ENCODE).ok();
    let said = place.line("stat out --top 3").ok().stdout;
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert!(lines[0].contains(" tokens, ") && lines[0].contains(','), "{said}");
    // No document is empty, or has one id.
    assert!(lines[2].starts_with("2 to 3 "), "{said}");
    assert!(lines.last().unwrap().split('"').nth(1).is_some_and(|text| !text.is_empty()), "{said}");
    assert_eq!(lines.iter().filter(|line| line.ends_with("\" \"")).count(), 1, "{said}");
    let tokens = windrow_tokenizers::counted(place.json("out.manifest.json")["tokens"].as_u64().unwrap(), "token");
    for line in ["stat out", "verify out"] {
        assert!(place.line(line).ok().stdout.contains(&tokens), "{line}");
    }
    // Without the tokenizer ids have no text, and all else is counted.
    std::fs::rename(place.path("tiny.json"), place.path("other.json")).unwrap();
    assert!(!place.line("stat out").ok().stdout.contains('"'));
    assert!(place.line("stat out --tokenizer other.json").ok().stdout.contains("\" \""));
    place.line("stat out --tokenizer gpt2").fails("gpt2", 65, &["encoded with tiny.json"]);
    for (range, says) in
        [("9..9", "the range is empty"), ("x", "such as 7, 7..9, 7.. or ..9"), ("--doc 3 4", "cannot be used")]
    {
        place.line(&format!("decode out {range}")).fails(range, 2, &[says]);
    }
}

#[test]
fn damage_is_named_with_its_file() {
    let place = corpus();
    let check = |options: &str, file: &str, change: &dyn Fn(&mut Vec<u8>), says: &[&str]| {
        place.line(&format!("{ENCODE} {options}")).ok();
        let mut bytes = place.read(file);
        change(&mut bytes);
        place.file(file, bytes);
        let line = format!("verify out ({options}, {file})");
        place.line("verify out").fails(&line, 65, &[&[file, "hint: "], says].concat());
        let verified = place.line("verify out --json");
        assert_eq!(verified.code, Some(65));
        let summary = verified.summary();
        assert!(summary["faults"].as_array().is_none_or(|faults| !faults.is_empty()), "{summary}");
        assert_eq!(summary["faults"].is_null(), summary["error"].is_string(), "{summary}");
    };
    let set = |at: usize, new: &'static [u8]| move |bytes: &mut Vec<u8>| bytes[at..at + new.len()].copy_from_slice(new);
    check("", "out.ids.npy", &set(128, &[7, 0]), &["its blake3 hash is "]);
    check(
        "",
        "out.ids.npy",
        &set(130, &[255, 255]),
        &["document 0 of the file, position 1: id 65535 is outside the vocabulary of 259"],
    );
    check("", "out.ids.npy", &|bytes| bytes.truncate(500), &["its size in bytes is 500, not "]);
    check("", "out.ids.npy", &set(60, b"9"), &["the header does not match the expected format"]);
    check("", "out.offsets.npy", &set(144, &[0]), &["offset 2 is 0, less than the offset 3 before it"]);
    check("", "out.offsets.npy", &set(146, &[9]), &["offset 2 is ", ", but the number of ids is only "]);
    check("--format megatron", "out.idx", &set(34, &[9]), &["document 1: it begins at byte "]);
    check("--format datatrove", "out.ds.index", &set(8, &[0]), &["document 1: its end 0 is before its beginning 3"]);
    check("--format datatrove", "out.ds.index", &set(10, &[9]), &["document 1: its end ", " is beyond the "]);
    check("--format datatrove", "out.ds.metadata", &set(10, b"4"), &["do not state the size of an id (2 bytes)"]);
    let shard = "out/shard.00000.mds";
    check("--format mds", shard, &set(8, &[0, 0]), &["document 0: its end ", " bytes after its beginning "]);
    check("--format mds", shard, &set(10, &[255]), &["document 0: its end ", " is beyond the "]);
    check("--format mds", shard, &set(2000, b"x"), &["byte 1968: the description of the columns does not match"]);
    check("--format mds", "out/index.json", &set(0, b"["), &["its blake3 hash is "]);
    check("--format jsonl", "out.jsonl", &set(1, b"'"), &["line 1 does not have the form {\"ids\":[...]}"]);
    check(
        "--format nanogpt --shard-size 3000",
        "out-00002.bin",
        &set(0, &[255, 1]),
        &["id 511 is outside the vocabulary"],
    );
    check("--shard-size 3000", "out.skipped.jsonl", &set(3, b"x"), &["its blake3 hash is "]);
    check(
        "",
        "out.manifest.json",
        &|bytes| {
            let text = String::from_utf8(std::mem::take(bytes)).unwrap();
            *bytes = text.replace("\"written\": 490", "\"written\": 489").into_bytes();
        },
        &["the number of documents read is not the sum of those written, skipped, failed and deselected"],
    );
    check("", "out.manifest.json", &|bytes| bytes.truncate(100), &["out.manifest.json:"]);

    place.line(ENCODE).ok();
    std::fs::remove_file(place.path("out.offsets.npy")).unwrap();
    place.line("verify out").fails("verify out", 65, &["out.offsets.npy: it is missing"]);
    place.line("verify out --tokenizer gpt2").fails("gpt2", 65, &["encoded with tiny.json", "not with r50k_base"]);
    let missing = place.line("verify nothing --json");
    assert_eq!(missing.code, Some(2));
    assert!(missing.summary()["error"].as_str().unwrap().contains("there is no such manifest"));
}

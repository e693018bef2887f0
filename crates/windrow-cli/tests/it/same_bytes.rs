//! Threads, chunks and memory change no byte.

use serde_json::json;

use crate::common::{Place, gzip, ids_of, tiny, tiny_ids, zstd};

/// Some hundred KB in several files: empty, short and long documents, bad ones, compressed ones.
fn corpus() -> Place {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let texts: Vec<String> = (0..4_000_usize)
        .map(|i| {
            let length = if i % 500 == 0 { 20_000 } else { i * 7 % 150 };
            format!("{i} {}", "the path of thorns; ".repeat(length / 20))
        })
        .collect();
    let line = |text: &String| format!("{}\n", json!({"id": text.len(), "text": text}));
    let bad = ["{\"text\": 1}\n", "[]\n", "{\n", "\n"];
    let jsonl: String = texts.iter().enumerate().map(|(i, text)| line(text) + bad.get(i % 97).unwrap_or(&"")).collect();
    place.file("c/1.jsonl.gz", gzip(jsonl.as_bytes())).file("c/2.txt", texts.concat());
    place.file("c/3.jsonl.zst", zstd(jsonl.as_bytes())).file("c/4.txt", "").file("c/5.jsonl", &jsonl);
    place
}

/// The files that a run wrote, without the corpus.
fn written(place: &Place, line: &str) -> Vec<(String, blake3::Hash)> {
    place.line(line).ok();
    let contents = place.contents();
    let outputs = contents.iter().filter_map(|(path, bytes)| {
        let name = path.file_name()?.to_str()?;
        name.starts_with("out.").then(|| (name.to_owned(), blake3::hash(bytes)))
    });
    outputs.collect()
}

#[test]
fn whatever_the_threads_and_chunks() {
    let place = corpus();
    let common = "encode c -o out --tokenizer tiny.json --overwrite --on-error skip";
    let first = written(&place, &format!("{common} --threads 1"));
    assert_eq!(first.len(), 4);
    assert!(place.json("out.manifest.json")["documents"]["skipped"].as_u64().unwrap() > 300);
    let chunks = ["1", "100", "5000", "64K", "1G"];
    // Of the twenty pairs, those of each number of threads and of each length are tried.
    for pair in (0..20).step_by(windrow_testkit::step(3)) {
        let line = format!("{common} --threads {} --chunk-bytes {}", [1, 2, 4, 8][pair % 4], chunks[pair % 5]);
        assert_eq!(written(&place, &line), first, "{line}");
    }
}

#[test]
fn whatever_the_memory() {
    let place = corpus();
    for format in
        ["npy", "megatron", "nanogpt", "datatrove", "mds", "jsonl", "webdataset", "arrow", "arrow-stream", "parquet"]
    {
        let common = format!(
            "encode c -o {format}/out --tokenizer tiny.json --overwrite --on-error skip --format {format} \
             --append-eos --eos 258 --threads 2 --chunk-bytes 1000"
        );
        std::fs::create_dir(place.path(format)).unwrap();
        let first = written(&place, &common);
        for memory in ["1", "1M", "64M", "100K"].into_iter().step_by(windrow_testkit::step(2)) {
            let line = format!("{common} --memory {memory}");
            assert_eq!(written(&place, &line), first, "{line}");
        }
    }
}

#[test]
fn kept_fields_too() {
    let place = corpus();
    for format in ["megatron", "parquet"] {
        let common = format!(
            "encode c/1.jsonl.gz c/5.jsonl -o {format}/out --tokenizer tiny.json --overwrite --on-error skip --format {format} \
             --keep id,text --field text --field text"
        );
        std::fs::create_dir(place.path(format)).unwrap();
        let first = written(&place, &common);
        for rest in ["--threads 1 --chunk-bytes 1", "--threads 4 --chunk-bytes 5000", "--memory 1", "--memory 100K"] {
            assert_eq!(written(&place, &format!("{common} {rest}")), first, "{rest}");
        }
    }
    let lines = String::from_utf8(place.read("megatron/out.kept.jsonl")).unwrap();
    let written = &place.json("megatron/out.manifest.json")["documents"]["written"];
    assert_eq!(lines.lines().count() as u64, written.as_u64().unwrap());
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["id"].as_u64().unwrap() as usize, line["text"].as_str().unwrap().len());
    }
}

#[test]
fn and_they_are_the_right_ones() {
    let place = corpus();
    place.line("encode c/2.txt c/5.jsonl -o out --tokenizer tiny.json --on-error skip --lines --format jsonl").ok();
    let text = String::from_utf8(place.read("c/2.txt")).unwrap();
    let jsonl = String::from_utf8(place.read("c/5.jsonl")).unwrap();
    let texts = jsonl.lines().filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(value.get("text")?.as_str()?.to_owned())
    });
    let expected: Vec<Vec<u32>> = text.lines().map(str::to_owned).chain(texts).map(|text| tiny_ids(&text)).collect();
    assert!(ids_of(&place.read("out.jsonl")) == expected);
}

#[test]
fn the_first_bad_document_is_the_same_one() {
    let place = corpus();
    let mut said = Vec::new();
    for threads in [1, 2, 8] {
        for rest in ["--chunk-bytes 1", "--chunk-bytes 1K", "--memory 1", "--memory 1G"] {
            let line = format!("encode c -o out --tokenizer tiny.json --threads {threads} {rest} --json");
            let ran = place.line(&line);
            assert_eq!(ran.code, Some(65), "{}", ran.stderr);
            let summary = ran.summary();
            // Documents that a budget of one byte does not hold are announced.
            let announces = |line: &&str| line.contains(" of memory in windrow-bpe ");
            let messages: String = ran.stderr.lines().filter(|line| !announces(line)).collect();
            said.push((summary["documents"].clone(), summary["error"].clone(), messages));
        }
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].2.contains("error: c/1.jsonl.gz:2:1: field \"text\" is a number"), "{}", said[0].2);
}

//! `--shard-size`: each shard is complete by itself, and only the documents decide where it ends.

use serde_json::json;

use crate::common::{Place, gzip, ids_of, tiny, tiny_ids};

/// Some hundred documents of many lengths, some of them bad or empty, one larger than a shard.
fn corpus() -> (Place, Vec<Vec<u32>>) {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string());
    let length = |i: usize| if i == 77 { 30_000 } else { i * 7 % 90 };
    let texts: Vec<String> = (0..400).map(|i| "the path; ".repeat(length(i))).collect();
    let line = |text: &String| format!("{}\n", json!({"text": text}));
    let lines: String =
        texts.iter().enumerate().map(|(i, text)| line(text) + if i % 50 == 3 { "[]\n" } else { "" }).collect();
    place
        .file("c/1.jsonl", &lines)
        .file("c/2.jsonl.gz", gzip(lines.as_bytes()))
        .file("c/3.txt", "")
        .file("c/4.txt", "the");
    let mut documents: Vec<_> = texts.iter().chain(&texts).map(|text| tiny_ids(text)).collect();
    documents.extend([Vec::new(), tiny_ids("the")]);
    (place, documents)
}

/// The names of the shards' files with this suffix, in order.
fn shards(place: &Place, suffix: &str) -> Vec<String> {
    let is_shard = |name: &String| name.starts_with("out-") && name.ends_with(suffix);
    place.names().into_iter().filter(is_shard).collect()
}

const COMMON: &str = "encode c -o out --tokenizer tiny.json --on-error skip --append-eos --eos 258 --overwrite";

#[test]
fn the_documents_in_shards_are_all_documents_in_order() {
    let (place, documents) = corpus();
    place.line(&format!("{COMMON} --format jsonl --shard-size 50KB")).ok();
    let names = shards(&place, ".jsonl");
    assert!(names.len() > 12 && names[0] == "out-00000.jsonl" && names[10] == "out-00010.jsonl", "{names:?}");
    let found: Vec<_> = names.iter().flat_map(|name| ids_of(&place.read(name))).collect();
    let expected: Vec<_> = documents.iter().map(|ids| [ids.as_slice(), &[258]].concat()).collect();
    assert!(found == expected);
    // A shard ends with the document that reaches the size.
    for name in &names[..names.len() - 1] {
        let bytes = place.read(name);
        let last = bytes[..bytes.len() - 1].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        assert!(bytes.len() >= 50_000 && last < 50_000, "{name}: {} bytes, the last document at {last}", bytes.len());
    }
    assert!(names.iter().any(|name| place.read(name).len() > 250_000), "one document is larger than a shard");
    let manifest = place.json("out.manifest.json");
    assert_eq!(manifest["options"]["shard_size"], 50_000);
    let files: Vec<_> = manifest["outputs"].as_array().unwrap().iter().map(|file| file["file"].clone()).collect();
    assert_eq!(files.len(), names.len() + 1);
    assert_eq!((&files[0], files.last().unwrap()), (&json!("out-00000.jsonl"), &json!("out.skipped.jsonl")));
}

#[test]
fn each_shard_has_the_layout_of_its_format() {
    let (place, documents) = corpus();
    let expected: Vec<u16> =
        documents.iter().flat_map(|ids| ids.iter().copied().chain([258])).map(|id| id as u16).collect();
    let numbers = |bytes: &[u8]| -> Vec<u16> {
        bytes.chunks(2).map(|pair| u16::from_le_bytes(pair.try_into().unwrap())).collect()
    };
    for (format, suffix, header) in
        [("npy", ".ids.npy", 128), ("nanogpt", ".bin", 0), ("megatron", ".bin", 0), ("datatrove", ".ds", 0)]
    {
        place.line(&format!("{COMMON} --format {format} --shard-size 50KB")).ok();
        let names = shards(&place, suffix);
        let mut ids = Vec::new();
        let mut count = 0;
        for name in &names {
            let bytes = place.read(name);
            let shard = numbers(&bytes[header..]);
            assert_eq!(*shard.last().unwrap(), 258, "{format}, {name}");
            if format == "npy" {
                let text = String::from_utf8_lossy(&bytes[..header]).into_owned();
                assert!(text.contains(&format!("'shape': ({},)", shard.len())), "{text}");
                let offsets = place.read(&name.replace(".ids.", ".offsets."));
                count += (offsets.len() - 128) / 8 - 1;
                assert_eq!(offsets[128..136], [0; 8]);
                assert_eq!(offsets[offsets.len() - 8..], (shard.len() as u64).to_le_bytes());
            }
            if format == "megatron" {
                let idx = place.read(&name.replace(".bin", ".idx"));
                assert_eq!(&idx[..9], b"MMIDIDX\0\0");
                count += u64::from_le_bytes(idx[18..26].try_into().unwrap()) as usize;
            }
            if format == "datatrove" {
                let index = place.read(&format!("{name}.index"));
                count += index.len() / 8;
                assert_eq!(index[index.len() - 8..], (shard.len() as u64).to_le_bytes());
                let metadata = String::from_utf8(place.read(&format!("{name}.metadata"))).unwrap();
                assert!(metadata.starts_with(&format!("tiny.json|2\n{}\n", shard.len())), "{metadata}");
            }
            ids.extend(shard);
        }
        assert!(names.len() > 8 && ids == expected, "{format}");
        assert!(format == "nanogpt" || count == documents.len(), "{format}: {count}");
    }
}

#[test]
fn threads_memory_and_chunks_change_no_byte_of_a_shard() {
    let (place, _) = corpus();
    for format in ["npy", "jsonl"] {
        let line = format!("{COMMON} --format {format} --shard-size 20KB");
        let written = |rest: &str| {
            place.line(&format!("{line} {rest}")).ok();
            let manifest = place.json("out.manifest.json");
            (shards(&place, ""), manifest["outputs"].clone())
        };
        let first = written("--threads 1");
        for rest in
            ["--threads 2 --chunk-bytes 1", "--threads 4 --memory 1", "--threads 2 --memory 100K --chunk-bytes 1G"]
        {
            assert_eq!(written(rest), first, "{format} {rest}");
        }
    }
}

#[test]
fn a_run_replaces_all_shards_of_an_older_one() {
    let (place, _) = corpus();
    place.line(&format!("{COMMON} --shard-size 20KB")).ok();
    let many = shards(&place, "").len();
    let line = "encode c -o out --tokenizer tiny.json --on-error skip --shard-size 200KB";
    place.line(line).fails(line, 73, &["already exists", "hint: pass --overwrite"]);
    place.line(&format!("{line} --overwrite")).ok();
    let manifest = place.json("out.manifest.json");
    let few = shards(&place, "");
    assert!(few.len() < many && few.len() + 1 == manifest["outputs"].as_array().unwrap().len(), "{few:?}");
    std::fs::remove_file(place.path("out.manifest.json")).unwrap();
    std::fs::remove_file(place.path("out.skipped.jsonl")).unwrap();
    place.line(line).fails(line, 73, &["out-00000.ids.npy already exists"]);
}

#[test]
fn an_output_without_documents_has_one_shard() {
    let place = Place::new();
    place.file("tiny.json", tiny().to_string()).file("in.jsonl", "");
    place.line("encode in.jsonl -o out --tokenizer tiny.json --shard-size 1K").ok();
    assert_eq!(
        place.names(),
        ["in.jsonl", "out-00000.ids.npy", "out-00000.offsets.npy", "out.manifest.json", "tiny.json"]
    );
}

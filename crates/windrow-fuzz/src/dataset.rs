//! Token files and their manifest.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use windrow_tokenizers::dataset::Dataset;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A format: its name, the ends of the names of its files, and its element types.
type Layout = (&'static str, &'static [&'static str], &'static [&'static str]);

/// A new one goes to the end, because its place is part of the inputs in the corpus.
const FORMATS: &[Layout] = &[
    ("npy", &[".ids.npy", ".offsets.npy"], &["u16", "u32", "i32"]),
    ("nanogpt", &[".bin"], &["u16", "u32"]),
    ("megatron", &[".bin", ".idx"], &["u16", "i32"]),
    ("jsonl", &[".jsonl"], &[]),
    ("arrow", &[".arrow"], &["u32"]),
    ("parquet", &[".parquet"], &["u32"]),
    ("datatrove", &[".ds", ".ds.index", ".ds.metadata"], &["u16", "u32"]),
    ("mds", &["/shard.00000.mds", "/index.json"], &["u16", "u32"]),
    ("arrow-stream", &[".arrow"], &["i32"]),
    ("webdataset", &[".tar"], &["u16", "u32", "i32"]),
];

/// The choice of a manifest without token files.
const MANIFEST: u8 = 15;

/// Documents of a packed output.
const DOCUMENTS: u64 = 3;

fn dataset_format(choice: u8) -> Layout {
    FORMATS[usize::from(choice & 15) % FORMATS.len()]
}

/// The formats that are read here.
pub(crate) fn formats() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|(name, ..)| *name)
}

/// The first byte chooses the format, its element type and the size of the vocabulary, or that the rest is a manifest. The second chooses which
/// files there are besides: those of masks, segments and kept fields. Two bytes are the length of each file but the last; then come the files,
/// whose hashes are right.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(prepared).path();
        if choice & 15 == MANIFEST {
            fs::write(folder.join("fixed.manifest.json"), bytes).expect("a temporary file");
            examine(&folder.join("fixed"));
        } else if let Some((&more, bytes)) = bytes.split_first() {
            let mut manifest = written(folder, choice, more, bytes);
            let path = folder.join("out.manifest.json");
            let mut write = |counts: Option<(u64, u64)>| {
                if let Some((documents, tokens)) = counts {
                    manifest["documents"] = json!({"read": documents, "written": documents, "skipped": 0, "failed": 0});
                    manifest["inputs"][0]["documents"] = json!(documents);
                    manifest["tokens"] = json!(tokens);
                }
                fs::write(&path, manifest.to_string()).expect("a temporary file");
            };
            write(None);
            let counts = examine(&folder.join("out"));
            // What else there is may be at fault.
            let has_index = dataset_format(choice).0 == "mds";
            if counts.is_some() && more & 7 == 0 && !has_index {
                write(counts);
                let dataset = Dataset::open(&folder.join("out")).expect("it was opened before");
                let verified = dataset.verify();
                assert_eq!(verified.faults, [], "statistics found no fault");
            }
        }
    });
}

/// A folder with an output that manifests can describe.
fn prepared() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["fixed.jsonl", "fixed.val.jsonl"] {
        fs::write(folder.path().join(name), "{\"ids\":[1,2]}\n{\"ids\":[]}\n").expect("a temporary file");
    }
    folder
}

/// Writes the files, and returns their manifest.
fn written(folder: &Path, choice: u8, more: u8, bytes: &[u8]) -> Value {
    let (format, suffixes, dtypes) = dataset_format(choice);
    let is_packed = more & 4 != 0;
    let has_columns = matches!(format, "mds" | "webdataset" | "arrow" | "arrow-stream" | "parquet");
    let has_mask_file = more & 1 != 0 && !has_columns && format != "jsonl";
    let files = if is_packed && format == "npy" { &suffixes[..1] } else { suffixes };
    let segments: &[&str] = if is_packed { &[".cu_seqlens.npy", ".docs.npy"] } else { &[] };
    let masks = has_mask_file.then_some(if format == "datatrove" { ".ds.loss" } else { ".mask.npy" });
    let kept = (more & 2 != 0 && !has_columns).then_some(".kept.jsonl");
    let names: Vec<&str> = files.iter().copied().chain(masks).chain(segments.iter().copied()).chain(kept).collect();
    let (lengths, mut rest) = bytes.split_at((2 * (names.len() - 1)).min(bytes.len()));
    let mut lengths =
        lengths.chunks(2).map(|length| usize::from(length[0]) + 256 * usize::from(*length.last().unwrap_or(&0)));
    let outputs = names.iter().enumerate().map(|(at, suffix)| {
        let most = if at + 1 == names.len() { rest.len() } else { lengths.next().unwrap_or(0) };
        let (file, behind) = rest.split_at(most.min(rest.len()));
        rest = behind;
        let path: PathBuf = folder.join(format!("out{suffix}"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        fs::write(path, file).expect("a temporary file");
        let hash = blake3::hash(file).to_hex();
        json!({"file": format!("out{suffix}"), "bytes": file.len(), "dtype": null, "blake3": hash.as_str()})
    });
    let outputs: Vec<Value> = outputs.collect();
    let dtype = dtypes.get(usize::from(choice >> 4 & 3) % dtypes.len().max(1));
    let mut manifest = json!({
        "schema": 2, "windrow": "0", "engine": {"name": "fuzz", "versions": {}},
        "tokenizer": {"name": "fuzz", "blake3": "", "vocab_size": if choice & 64 == 0 { 70_000 } else { u32::MAX }},
        "options": {
            "format": format, "dtype": dtype, "eos": if format == "nanogpt" { Some(7) } else { None }, "field": "text",
            "lines": false, "on_error": "fail", "add_special_tokens": false, "special_in_text": true
        },
        "inputs": [{"name": "fuzz", "bytes": 0, "decompressed_bytes": 0, "blake3": "", "documents": DOCUMENTS}],
        "documents": {"read": DOCUMENTS, "written": DOCUMENTS, "skipped": 0, "failed": 0},
        "text_bytes": 0, "tokens": 0, "outputs": outputs, "skipped": []
    });
    if more & 1 != 0 {
        manifest["options"]["chat"] = json!({"template": "fuzz", "blake3": "", "loss": "assistant"});
    }
    if more & 2 != 0 {
        manifest["options"]["keep"] = json!(["id"]);
    }
    if format == "mds" {
        manifest["options"]["shard_bytes"] = json!(64 << 20);
    }
    if is_packed {
        let mode = if more & 8 == 0 { "split" } else { "whole" };
        manifest["options"]["pack"] =
            json!({"length": 1 + (more >> 5), "mode": mode, "pad": (more & 16 != 0).then_some(7)});
    }
    manifest
}

/// Whatever the files hold, all three ways to read them say the same of it. Returns the documents and ids.
fn examine(prefix: &Path) -> Option<(u64, u64)> {
    let dataset = Dataset::open(prefix).ok()?;
    let _ = dataset.verify();
    for part in &dataset.manifest().parts {
        let _ = dataset.part(&part.name).expect("the manifest has this part").document(0);
    }
    let statistics = dataset.statistics();
    if dataset.manifest().options.pack.is_some() {
        // Statistics count rows.
        let count = dataset.documents();
        (0..count.min(DOCUMENTS)).for_each(|number| {
            assert!(!matches!(dataset.document(number), Ok(None)), "document {number} of {count} exists");
        });
        assert!(matches!(dataset.document(count), Ok(None)), "there is no document after the last one");
    }
    let statistics = statistics.ok()?;
    let frequencies: u64 = statistics.most_frequent(usize::MAX).iter().map(|(_, count)| count).sum();
    assert_eq!(frequencies, statistics.tokens);
    assert_eq!(statistics.lengths.iter().sum::<u64>(), statistics.documents);
    if dataset.manifest().options.pack.is_none() {
        for number in 0..statistics.documents.min(DOCUMENTS) {
            let document = dataset.document(number);
            assert!(matches!(document, Ok(Some(_))), "a counted document exists: {document:?}");
        }
        assert!(matches!(dataset.document(statistics.documents), Ok(None)), "there is no document after the last one");
    }
    Some((statistics.documents, statistics.tokens))
}

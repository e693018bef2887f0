//! Token files and their manifest.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use windrow_tokenizers::dataset::Dataset;

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// A format with the names of its files.
type Layout = (&'static str, &'static [&'static str]);

const FORMATS: [Layout; 6] = [
    ("npy", &["out.ids.npy", "out.offsets.npy"]),
    ("nanogpt", &["out.bin"]),
    ("megatron", &["out.bin", "out.idx"]),
    ("jsonl", &["out.jsonl"]),
    ("arrow", &["out.arrow"]),
    ("parquet", &["out.parquet"]),
];

/// Those of other libraries.
const OTHERS: [Layout; 2] = [
    ("datatrove", &["out.ds", "out.ds.index", "out.ds.metadata"]),
    ("mds", &["out/shard.00000.mds", "out/index.json"]),
];

/// The beginning of some bytes, whose length the first two say, and the rest.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, bytes) = bytes.split_first_chunk()?;
    Some(bytes.split_at(usize::from(u16::from_le_bytes(length)).min(bytes.len())))
}

/// The first byte chooses the format, or that the rest is a manifest. The next two are the length of the first file; the rest is the files, whose
/// hashes are right. Of three files the second is preceded by its length too.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| tempfile::tempdir().expect("a temporary folder")).path();
        fs::create_dir_all(folder.join("out")).expect("a temporary folder");
        let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("a temporary file");
        let formats: &[Layout] = if choice & 32 == 0 { &FORMATS } else { &OTHERS };
        let Some((format, names)) = formats.get(usize::from(choice & 7)) else {
            write("out.manifest.json", bytes);
            return examine(folder);
        };
        let Some((first, rest)) = split(bytes) else { return };
        let (second, third) = if names.len() == 3 { split(rest).unwrap_or_default() } else { (rest, &[][..]) };
        let outputs: Vec<_> = names
            .iter()
            .zip([first, second, third])
            .map(|(name, bytes)| {
                write(name, bytes);
                json!({"file": name, "bytes": bytes.len(), "dtype": null, "blake3": blake3::hash(bytes).to_hex().as_str()})
            })
            .collect();
        let dtype = match *format {
            "jsonl" | "arrow" | "parquet" => None,
            "megatron" => Some(["u16", "i32"][usize::from(choice >> 3 & 1)]),
            _ => Some(["u16", "u32"][usize::from(choice >> 3 & 1)]),
        };
        let manifest = json!({
            "schema": 2, "windrow": "0", "engine": {"name": "fuzz", "versions": {}},
            "tokenizer": {"name": "fuzz", "blake3": "", "vocab_size": if choice & 16 == 0 { 70_000 } else { u32::MAX }},
            "options": {
                "format": format, "dtype": dtype, "eos": if *format == "nanogpt" { Some(7) } else { None }, "field": "text",
                "keep": if *format == "mds" && choice & 64 != 0 { vec!["id"] } else { Vec::new() },
                "lines": false, "on_error": "fail", "add_special_tokens": false, "special_in_text": true
            },
            "inputs": [], "documents": {"read": 0, "written": 0, "skipped": 0, "failed": 0},
            "text_bytes": 0, "tokens": 0, "outputs": outputs, "skipped": []
        });
        write("out.manifest.json", manifest.to_string().as_bytes());
        examine(folder);
    });
}

/// Whatever the files hold, all three ways to read them say the same of it.
fn examine(folder: &Path) {
    let Ok(dataset) = Dataset::open(&folder.join("out")) else { return };
    let _ = dataset.verify();
    let Ok(statistics) = dataset.statistics() else { return };
    let documents = (0..statistics.documents.min(3)).map(|number| dataset.document(number));
    for document in documents {
        assert!(matches!(document, Ok(Some(_))), "a counted document is there: {document:?}");
    }
    assert!(matches!(dataset.document(statistics.documents), Ok(None)), "there is none behind the last");
    let frequencies: u64 = statistics.most_frequent(usize::MAX).iter().map(|(_, count)| count).sum();
    assert_eq!(frequencies, statistics.tokens);
    assert_eq!(statistics.lengths.iter().sum::<u64>(), statistics.documents);
}

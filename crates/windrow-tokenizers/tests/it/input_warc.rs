//! Texts of web archives.

use std::fs;

use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::{Job, encode};
use windrow_tokenizers::input::{Batch, Compression, Fields, Format, InputOptions, Reader, resolve};
use windrow_tokenizers::output::{Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::input_common::{Owned, gzip, in_memory, read_all};

/// A record as Common Crawl writes it.
fn record(kind: &str, url: &str, text: &[u8]) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    [head.as_bytes(), text, b"\r\n\r\n"].concat()
}

/// An archive of pages of all sizes, and its documents.
fn archive() -> (Vec<Vec<u8>>, Vec<Owned>) {
    let (mut records, mut documents) = (vec![record("warcinfo", "-", b"software: none\r\n")], Vec::new());
    for number in 0..60_usize {
        let text = "a line\r\n\r\nWARC/1.0\n".repeat(number * 37 % 50).into_bytes();
        let before = records.concat();
        records.push(record("conversion", &format!("http://a.org/{number}"), &text));
        let start = before.len() + records[records.len() - 1].len() - text.len() - 4;
        let lines = records.concat()[..start].iter().filter(|byte| **byte == b'\n').count() as u64;
        documents.push((0, lines + 1, start as u64, text));
        records.push(record("metadata", "-", b"\n"));
    }
    (records, documents)
}

#[test]
fn pages_are_documents_whatever_the_batches_and_the_compression() {
    let (records, expected) = archive();
    let whole = records.concat();
    // Common Crawl compresses each record by itself.
    let members: Vec<u8> = records.iter().flat_map(|record| gzip(record)).collect();
    for (bytes, compression) in [(&whole, Compression::None), (&members, Compression::Gzip)] {
        for batch_bytes in [1, 300, 5_000, 1 << 20] {
            let (found, reports) = read_all(vec![in_memory(bytes, Format::Warc, compression)], batch_bytes).unwrap();
            assert_eq!(found, expected, "batches of {batch_bytes}");
            assert_eq!((reports[0].documents, reports[0].decompressed_bytes), (60, whole.len() as u64));
        }
    }
    assert_eq!(read_all(vec![in_memory(b"", Format::Warc, Compression::None)], 100).unwrap().0, []);
}

#[test]
fn headers_are_kept() {
    let bytes = archive().0.concat();
    let keep = vec!["WARC-Target-URI".to_owned(), "other".to_owned()];
    let lines = in_memory(b"{}\n{}", Format::Lines, Compression::None);
    let files = vec![lines, in_memory(&bytes, Format::Warc, Compression::None)];
    let mut reader = Reader::new(files, 1 << 20).fields(Fields { keep, ..Fields::default() });
    let batch = reader.next_batch(Batch::default(), &mut |_| Ok(())).unwrap().unwrap();
    assert_eq!(batch.records.len(), 62);
    for number in 0..60 {
        let index = 2 * (number + 2);
        let url = format!("\"http://a.org/{number}\"");
        assert!(batch.kept.slice(index..index + 2).iter().eq([url.as_bytes(), b"null"]));
    }
}

#[test]
fn a_damaged_archive_is_refused_with_the_place_and_the_remedy() {
    let good = record("conversion", "a", b"text");
    for (bad, says) in [
        (record("response", "a", b"HTTP/1.1 200 OK"), "response"),
        (good[..good.len() - 1].to_vec(), "the file ends inside this record"),
        (b"<html>".to_vec(), "no WARC record begins here"),
    ] {
        for batch_bytes in [1, 1 << 20] {
            let file = in_memory(&[&*good, &bad].concat(), Format::Warc, Compression::None);
            let error = read_all(vec![file], batch_bytes).unwrap_err().to_string();
            assert!(error.starts_with("memory:9: ") && error.contains(says) && error.contains("\nhint: "), "{error}");
        }
    }
}

#[test]
fn a_wet_file_is_encoded_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("CC-MAIN-00000.warc.wet.gz");
    fs::write(&path, gzip(&[record("conversion", "a", b"Hello world"), record("conversion", "b", b"")].concat()))
        .unwrap();
    let inputs = resolve(&[path.display().to_string()], &InputOptions::default()).unwrap().files;
    assert_eq!((inputs[0].format(), inputs[0].compression()), (Format::Warc, Some(Compression::Gzip)));
    let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).unwrap();
    let prefix = directory.path().join("out");
    let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size())).unwrap();
    encode(Job::new(inputs), &tokenizer, output, &()).unwrap();
    let dataset = Dataset::open(&prefix).unwrap();
    assert_eq!([dataset.document(0), dataset.document(1)], [Ok(Some(vec![15496, 995])), Ok(Some(vec![]))]);
}

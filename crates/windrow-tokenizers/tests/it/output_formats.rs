//! Every format, read back by readers written from the layout tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use proptest::prelude::*;
use windrow_tokenizers::manifest::{Documents, EncodeJob, Manifest, OnError, SkippedDocument, TokenizerIdentity};
use windrow_tokenizers::output::{Dtype, Format, Output, OutputError, OutputErrorKind, OutputOptions, Published};

use crate::output_columns;

fn options(directory: &Path, format: Format) -> OutputOptions {
    OutputOptions { format, ..OutputOptions::new(directory.join("out"), 300) }
}

fn flatten(documents: &[Vec<u32>]) -> (Vec<u32>, Vec<usize>) {
    let ends = documents.iter().scan(0, |end, ids| {
        *end += ids.len();
        Some(*end)
    });
    (documents.concat(), ends.collect())
}

fn balanced(written: u64) -> Manifest {
    let documents = Documents { read: written, written, ..Documents::default() };
    let tokenizer = TokenizerIdentity { name: "gpt2".into(), ..TokenizerIdentity::default() };
    Manifest { documents, tokenizer, ..Manifest::default() }
}

/// Writes `documents` in runs of the given sizes, the rest in one. The document of a run of one is written in parts, after others that are
/// discarded.
fn write(options: &OutputOptions, documents: &[Vec<u32>], runs: &[usize]) -> Result<Published, OutputError> {
    let mut output = Output::create(options)?;
    let mut rest = documents;
    for &size in runs.iter().chain([&usize::MAX]) {
        let (run, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        if let ([document], 1) = (run, size) {
            let (first, second) = document.split_at(document.len() / 2);
            output.append_part(second, false)?;
            output.append_part(&[299; 1000], false)?;
            output.discard_parts()?;
            output.append_part(first, false)?;
            output.append_part(second, true)?;
            continue;
        }
        let (ids, ends) = flatten(run);
        output.append(&ids, &ends)?;
    }
    assert_eq!(output.documents(), documents.len() as u64);
    output.publish(balanced(documents.len() as u64))
}

/// The ends of the names of all data files of an output of one shard.
fn suffixes(format: Format) -> Vec<&'static str> {
    let shard = (format == Format::Mds).then_some("/shard.00000.mds");
    shard.into_iter().chain(format.suffixes().iter().copied()).collect()
}

fn read(options: &OutputOptions, suffix: &str) -> Vec<u8> {
    fs::read(PathBuf::from(format!("{}{suffix}", options.prefix.display()))).unwrap()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn elements(bytes: &[u8], dtype: &str) -> Vec<u32> {
    match dtype {
        "u1" => bytes.iter().map(|&byte| byte.into()).collect(),
        "u2" => bytes.chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        "i4" => bytes.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()).try_into().unwrap()).collect(),
        "u4" => bytes.chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect(),
        other => panic!("no such element type: {other}"),
    }
}

/// The element type, the length and the data of a one-dimensional `.npy` file, version 1.0.
fn parse_npy(bytes: &[u8]) -> (String, u64, &[u8]) {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(start % 64, 0, "the data is aligned");
    let header = std::str::from_utf8(&bytes[10..start]).unwrap();
    assert!(header.ends_with('\n'));
    let after = |key: &str| header.split_once(key).unwrap_or_else(|| panic!("no {key} in {header}")).1;
    assert!(after("'fortran_order': ").starts_with("False,"));
    let descr = after("'descr': '<").split_once('\'').unwrap().0;
    let shape = after("'shape': (").split_once(",)").unwrap().0;
    (descr.to_owned(), shape.parse().unwrap(), &bytes[start..])
}

fn read_npy(options: &OutputOptions) -> Vec<Vec<u32>> {
    let (ids, offsets) = (read(options, ".ids.npy"), read(options, ".offsets.npy"));
    let (dtype, length, data) = parse_npy(&ids);
    let ids = elements(data, &dtype);
    assert_eq!(ids.len() as u64, length);
    let (dtype, length, data) = parse_npy(&offsets);
    assert_eq!(dtype, "u8");
    let offsets: Vec<usize> = data.chunks(8).map(|b| u64_at(b, 0) as usize).collect();
    assert_eq!(offsets.len() as u64, length);
    assert_eq!((offsets[0], *offsets.last().unwrap()), (0, ids.len()));
    offsets.windows(2).map(|pair| ids[pair[0]..pair[1]].to_vec()).collect()
}

/// Reads the layout table of Megatron's indexed dataset, field by field, and the sequences through it.
fn read_megatron(options: &OutputOptions) -> Vec<Vec<u32>> {
    let (bin, idx) = (read(options, ".bin"), read(options, ".idx"));
    assert_eq!(&idx[..9], b"MMIDIDX\0\0");
    assert_eq!(u64_at(&idx, 9), 1, "version");
    let (dtype, size) = match idx[17] {
        8 => ("u2", 2),
        4 => ("i4", 4),
        other => panic!("unexpected element code {other}"),
    };
    let sequences = u64_at(&idx, 18) as usize;
    let documents = u64_at(&idx, 26) as usize;
    assert_eq!(documents, sequences + 1, "one sequence a document");
    assert_eq!(idx.len(), 42 + 20 * sequences);
    let (lengths, rest) = idx[34..].split_at(4 * sequences);
    let (pointers, indices) = rest.split_at(8 * sequences);
    assert_eq!(indices.len(), 8 * documents);
    for (n, index) in indices.chunks(8).enumerate() {
        assert_eq!(u64_at(index, 0), n as u64, "document index");
    }
    let mut next = 0;
    let mut found = Vec::new();
    for (length, pointer) in lengths.chunks(4).zip(pointers.chunks(8)) {
        let length = i32::from_le_bytes(length.try_into().unwrap()) as usize * size;
        let start = u64_at(pointer, 0) as usize;
        assert_eq!(start, next, "sequences follow each other");
        next = start + length;
        found.push(elements(&bin[start..next], dtype));
    }
    assert_eq!(next, bin.len());
    found
}

/// Bare ids and the ends of documents, and a text that says what they are.
fn read_datatrove(options: &OutputOptions) -> Vec<Vec<u32>> {
    let dtype = options.element_type().unwrap().unwrap();
    let ids = elements(&read(options, ".ds"), if dtype == Dtype::U16 { "u2" } else { "u4" });
    let index = read(options, ".ds.index");
    let ends: Vec<usize> = index.chunks(8).map(|b| u64_at(b, 0) as usize).collect();
    assert_eq!(ends.last().copied().unwrap_or(0), ids.len());
    let text = String::from_utf8(read(options, ".ds.metadata")).unwrap();
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!(lines[..2], [format!("gpt2|{}", dtype.size()), ids.len().to_string()]);
    assert!(lines.len() == 3 && lines[2].ends_with('T'), "{text}");
    [0].iter().chain(&ends).zip(&ends).map(|(&begin, &end)| ids[begin..end].to_vec()).collect()
}

fn read_jsonl(options: &OutputOptions) -> Vec<Vec<u32>> {
    let text = String::from_utf8(read(options, ".jsonl")).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    let parse = |line| {
        let mut fields: std::collections::BTreeMap<String, Vec<u32>> = serde_json::from_str(line).unwrap();
        assert_eq!(fields.len(), 1);
        fields.remove("ids").unwrap()
    };
    text.lines().map(parse).collect()
}

/// The samples of a shard, read as its table says: the sizes of the columns, then the columns.
pub(crate) fn samples(shard: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let u32_at = |at: usize| u32::from_le_bytes(shard[at..at + 4].try_into().unwrap()) as usize;
    let count = u32_at(0);
    let config: serde_json::Value = serde_json::from_slice(&shard[8 + 4 * count..u32_at(4)]).unwrap();
    let columns = config["column_names"].as_array().unwrap().len();
    let sample = |number: usize| {
        let (begin, end) = (u32_at(4 + 4 * number), u32_at(8 + 4 * number));
        let mut at = begin + 4 * columns;
        let columns: Vec<Vec<u8>> = (0..columns)
            .map(|column| {
                let size = u32_at(begin + 4 * column);
                at += size;
                shard[at - size..at].to_vec()
            })
            .collect();
        assert_eq!(at, end);
        columns
    };
    assert_eq!(u32_at(4 + 4 * count), shard.len());
    (0..count).map(sample).collect()
}

/// A length of as few bytes as it needs, of 1, 2 and 4, then ids.
pub(crate) fn array(datum: &[u8], dtype: &str) -> Vec<u32> {
    let width = 1 << (datum[0] & 3);
    assert_eq!(datum[0] >> 2, 1, "one axis");
    let mut length = [0; 8];
    length[..width].copy_from_slice(&datum[1..=width]);
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap();
    assert_eq!(
        width,
        if length < 256 {
            1
        } else if length < 65_536 {
            2
        } else {
            4
        }
    );
    let ids = elements(&datum[1 + width..], dtype);
    assert_eq!(ids.len(), length);
    ids
}

fn read_mds(options: &OutputOptions) -> Vec<Vec<u32>> {
    let dtype = if options.element_type().unwrap() == Some(Dtype::U16) { "u2" } else { "u4" };
    let shard = read(options, "/shard.00000.mds");
    let index: serde_json::Value = serde_json::from_slice(&read(options, "/index.json")).unwrap();
    let samples = samples(&shard);
    assert_eq!((&index["version"], index["shards"].as_array().unwrap().len()), (&2.into(), 1));
    let listed = &index["shards"][0];
    assert_eq!(listed["samples"], samples.len());
    assert_eq!(
        listed["raw_data"],
        serde_json::json!({"basename": "shard.00000.mds", "bytes": shard.len(), "hashes": {}})
    );
    samples.iter().map(|columns| array(&columns[0], dtype)).collect()
}

/// The names and the bytes of the files in an archive of tar.
pub(crate) fn tar_files(mut tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    while tar[0] != 0 {
        let (head, rest) = tar.split_at(512);
        let text = |at: usize, bytes: usize| {
            let field = head[at..at + bytes].split(|byte| *byte == 0).next().unwrap();
            str::from_utf8(field).unwrap().trim().to_owned()
        };
        let octal = |at: usize, bytes: usize| usize::from_str_radix(&text(at, bytes), 8).unwrap();
        let sum: usize = head.iter().map(|&byte| usize::from(byte)).sum();
        let own: usize = head[148..156].iter().map(|&byte| usize::from(byte)).sum();
        assert_eq!((octal(148, 8), &head[257..265]), (sum - own + 8 * 32, &b"ustar\x0000"[..]));
        let size = octal(124, 12);
        let (file, rest) = rest.split_at(size.next_multiple_of(512));
        assert!(file[size..].iter().all(|&byte| byte == 0));
        files.push((text(0, 100), file[..size].to_vec()));
        tar = rest;
    }
    assert_eq!(tar, [0; 1024]);
    files
}

/// Documents of an archive that has nothing but ids.
pub(crate) fn read_webdataset(tar: &[u8], dtype: Dtype) -> Vec<Vec<u32>> {
    let dtype = match dtype {
        Dtype::U16 => "u2",
        Dtype::U32 => "u4",
        Dtype::I32 => "i4",
    };
    let ids = |(number, (name, file)): (usize, (String, Vec<u8>))| {
        assert_eq!(name, format!("{number:09}.ids.npy"));
        elements(&file[128..], dtype)
    };
    tar_files(tar).into_iter().enumerate().map(ids).collect()
}

/// Writes, reads with the reader of the format, and checks the manifest against the files.
fn check(options: &OutputOptions, documents: &[Vec<u32>]) {
    let published = write(options, documents, &[1, 0, 2]).unwrap();
    let around = |ids: &Vec<u32>| options.prepend_bos.iter().chain(ids).chain(&options.append_eos).copied().collect();
    let expected: Vec<Vec<u32>> = documents.iter().map(around).collect();
    match options.format {
        Format::Npy => assert_eq!(read_npy(options), expected),
        Format::Megatron => assert_eq!(read_megatron(options), expected),
        Format::Datatrove => assert_eq!(read_datatrove(options), expected),
        Format::Mds => assert_eq!(read_mds(options), expected),
        Format::Jsonl => assert_eq!(read_jsonl(options), expected),
        Format::Webdataset => {
            assert_eq!(read_webdataset(&read(options, ".tar"), options.element_type().unwrap().unwrap()), expected);
        }
        Format::Arrow | Format::ArrowStream | Format::Parquet => assert_eq!(output_columns::read(options).0, expected),
        Format::Nanogpt => {
            let dtype = if options.dtype == Some(Dtype::U32) { "u4" } else { "u2" };
            assert_eq!(elements(&read(options, ".bin"), dtype), expected.concat());
        }
    }
    let tokens = expected.concat().len() as u64;
    assert_eq!((published.documents, published.tokens), (documents.len() as u64, tokens));

    let manifest: Manifest = serde_json::from_slice(&read(options, ".manifest.json")).unwrap();
    assert_eq!((manifest.tokens, manifest.documents.written), (tokens, documents.len() as u64));
    assert_eq!(manifest.options.dtype, options.element_type().unwrap());
    assert_eq!(manifest.outputs, published.files);
    let suffixes = suffixes(options.format);
    assert_eq!(manifest.outputs.len(), suffixes.len());
    for (file, suffix) in manifest.outputs.iter().zip(&suffixes) {
        let bytes = read(options, suffix);
        assert_eq!((&*file.file, file.bytes), (&*format!("out{suffix}"), bytes.len() as u64));
        assert_eq!(file.blake3, blake3::hash(&bytes).to_hex().as_str());
    }
    let folder = fs::read_dir(&options.prefix).map_or(0, |entries| entries.count() - 1);
    let names = fs::read_dir(options.prefix.parent().unwrap()).unwrap().count();
    assert_eq!(names + folder, suffixes.len() + 1, "nothing else is left in the directory");
}

/// Every combination of format, ids around a document and element type that is allowed.
fn combinations() -> Vec<OutputOptions> {
    let mut all = Vec::new();
    for format in Format::ALL {
        for (prepend_bos, append_eos) in [(None, None), (None, Some(299)), (Some(1), None), (Some(1), Some(299))] {
            for dtype in [None, Some(Dtype::U16), Some(Dtype::U32), Some(Dtype::I32)] {
                all.push(OutputOptions { prepend_bos, append_eos, dtype, ..options(Path::new("x"), format) });
            }
        }
    }
    all.retain(|options| options.element_type().is_ok());
    assert_eq!(
        all.len(),
        2 * (8 + 3 + 6 + 6 + 6 + 2 + 8 + 4 + 4 + 4),
        "npy, nanogpt, megatron, datatrove, mds, jsonl, webdataset, arrow, arrow-stream, parquet"
    );
    all
}

#[test]
fn every_format_is_read_back_with_every_element_type() {
    let corpora: [&[Vec<u32>]; 6] = [
        &[],
        &[vec![]],
        &[vec![], vec![], vec![]],
        &[vec![0]],
        &[vec![1, 2, 3], vec![], vec![255, 256, 299], vec![]],
        &[vec![], (0..100_000).map(|id| id % 300).collect(), vec![7; 40_000]],
    ];
    for documents in corpora {
        for options in combinations() {
            let directory = tempfile::tempdir().unwrap();
            check(&OutputOptions { prefix: directory.path().join("out"), ..options }, documents);
        }
    }
}

#[test]
fn large_ids_survive() {
    for (format, dtype, largest) in [
        (Format::Npy, None, u32::MAX - 1),
        (Format::Npy, Some(Dtype::I32), i32::MAX as u32),
        (Format::Nanogpt, Some(Dtype::U32), u32::MAX - 1),
        (Format::Megatron, None, i32::MAX as u32),
        (Format::Datatrove, None, u32::MAX - 1),
        (Format::Mds, None, u32::MAX - 1),
        (Format::Jsonl, None, u32::MAX - 1),
        (Format::Arrow, None, u32::MAX - 1),
        (Format::Parquet, None, u32::MAX - 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options =
            OutputOptions { dtype, vocab_size: largest + 1, append_eos: Some(0), ..options(directory.path(), format) };
        check(&options, &[vec![0, largest, 65_535, 65_536], vec![largest]]);
    }
}

#[test]
fn every_table_longer_than_one_write() {
    let documents: Vec<Vec<u32>> = (0..400_000).map(|n| vec![n % 300; n as usize % 4]).collect();
    for format in Format::ALL {
        let directory = tempfile::tempdir().unwrap();
        check(&OutputOptions { append_eos: Some(1), ..options(directory.path(), format) }, &documents);
    }
}

#[test]
fn element_type_follows_the_vocabulary() {
    let chosen = |format, vocab_size| {
        OutputOptions { format, append_eos: Some(0), ..OutputOptions::new("x", vocab_size) }.element_type().unwrap()
    };
    assert_eq!(chosen(Format::Npy, 65_536), Some(Dtype::U16));
    assert_eq!(chosen(Format::Npy, 65_537), Some(Dtype::U32));
    assert_eq!(chosen(Format::Nanogpt, 65_536), Some(Dtype::U16));
    assert_eq!(chosen(Format::Megatron, 65_499), Some(Dtype::U16));
    assert_eq!(chosen(Format::Megatron, 65_500), Some(Dtype::I32));
    assert_eq!(chosen(Format::Datatrove, 65_536), Some(Dtype::U16));
    assert_eq!(chosen(Format::Datatrove, 65_537), Some(Dtype::U32));
    assert_eq!(chosen(Format::Jsonl, u32::MAX), None);
    assert_eq!(chosen(Format::Parquet, 300), Some(Dtype::U32));
    assert_eq!(chosen(Format::ArrowStream, 300), Some(Dtype::I32));
    let options = OutputOptions { append_eos: Some(70_000), ..OutputOptions::new("x", 300) };
    assert_eq!(options.element_type().unwrap(), Some(Dtype::U32), "the end-of-text id counts too");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_created() {
    use Dtype::{I32, U16, U32};
    use Format::{Arrow, ArrowStream, Datatrove, Jsonl, Mds, Megatron, Nanogpt, Npy};
    for (format, dtype, vocab_size, append_eos, said) in [
        (Npy, Some(U16), 65_537, None, "ids up to 65536 do not fit in u16"),
        (Npy, Some(U16), 300, Some(65_536), "ids up to 65536 do not fit in u16"),
        (Npy, Some(I32), u32::MAX, None, "do not fit in i32"),
        (Nanogpt, None, 65_537, Some(0), "--dtype u32"),
        (Nanogpt, Some(U16), 200_019, Some(0), "--dtype u32"),
        (Nanogpt, Some(I32), 300, Some(0), "u16, u32"),
        (Nanogpt, None, 300, None, "--eos"),
        (Megatron, Some(U32), 300, None, "u16, i32"),
        (Megatron, Some(U16), 65_537, None, "omit --dtype"),
        (Megatron, None, u32::MAX, None, "--format npy"),
        (Datatrove, Some(U16), 65_537, None, "omit --dtype"),
        (Datatrove, Some(I32), 300, None, "u16, u32"),
        (Mds, Some(I32), 300, None, "u16, u32"),
        (Jsonl, Some(U16), 300, None, "omit --dtype"),
        (Arrow, Some(U16), 300, None, "omit --dtype or use u32"),
        (ArrowStream, Some(U32), 300, None, "omit --dtype or use i32"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options = OutputOptions { dtype, vocab_size, append_eos, ..options(directory.path(), format) };
        let error = Output::create(&options).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Usage, "{options:?}: {error}");
        assert!(error.to_string().contains(said), "{options:?}: {error}");
        assert!(error.to_string().contains("\nhint: "), "{options:?}: {error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{options:?}");
    }
}

#[test]
fn an_id_that_does_not_fit_is_an_error_and_never_wraps() {
    for (format, dtype, id) in [
        (Format::Npy, Dtype::U16, 65_536),
        (Format::Npy, Dtype::I32, 1 << 31),
        (Format::Nanogpt, Dtype::U16, u32::MAX),
        (Format::Megatron, Dtype::I32, u32::MAX),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options = OutputOptions { dtype: Some(dtype), append_eos: Some(0), ..options(directory.path(), format) };
        let mut output = Output::create(&options).unwrap();
        output.append(&[1, 2], &[2]).unwrap();
        let error = output.append(&[3, 4, id, 5], &[0, 2, 2, 3, 4]).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Id);
        assert_eq!(error.document(), Some(4), "{error}");
        assert!(error.to_string().contains(&id.to_string()), "{error}");
        assert_eq!((output.documents(), output.tokens()), (1, 3), "nothing of that run is written");
        output.append(&[6], &[1]).unwrap();
        assert_eq!(output.publish(balanced(2)).unwrap().tokens, 5);
    }
}

#[test]
fn names_parse_and_print() {
    for format in Format::ALL {
        assert_eq!(Format::from_str(&format.to_string()).unwrap(), format);
    }
    for dtype in Dtype::ALL {
        assert_eq!(Dtype::from_str(&dtype.to_string()).unwrap(), dtype);
    }
    let error = Format::from_str("orc").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no such output format: \"orc\"\nhint: use one of npy, nanogpt, megatron, datatrove, mds, jsonl, webdataset, arrow, arrow-stream, parquet"
    );
}

#[test]
#[should_panic(expected = "the ends of documents decrease")]
fn decreasing_ends_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut output = Output::create(&options(directory.path(), Format::Npy)).unwrap();
    let _ = output.append(&[1, 2], &[2, 1, 2]);
}

#[test]
#[should_panic(expected = "does not end with the ids")]
fn ids_beyond_the_last_document_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut output = Output::create(&options(directory.path(), Format::Npy)).unwrap();
    let _ = output.append(&[1, 2], &[1]);
}

#[test]
fn the_manifest_says_everything_and_is_the_same_twice() {
    let skipped = |line| SkippedDocument {
        file: "a.jsonl".into(),
        line,
        byte: 1,
        offset: line * 100,
        reason: "not a string".into(),
    };
    let body = Manifest {
        options: EncodeJob { on_error: OnError::Skip, ..EncodeJob::default() },
        documents: Documents { read: 3, written: 1, skipped: 2, ..Documents::default() },
        text_bytes: 12,
        ..Manifest::default()
    };
    let texts = [(); 2].map(|()| {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), Format::Npy);
        let mut output = Output::create(&options).unwrap();
        output.append(&[5], &[1]).unwrap();
        [3, 9].into_iter().for_each(|line| output.skip(skipped(line)).unwrap());
        output.publish(body.clone()).unwrap();
        String::from_utf8(read(&options, ".manifest.json")).unwrap()
    });
    assert_eq!(texts[0], texts[1]);
    let manifest: Manifest = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!((manifest.schema, &*manifest.windrow), (3, env!("CARGO_PKG_VERSION")));
    assert_eq!((manifest.skipped, manifest.text_bytes), (vec![skipped(3), skipped(9)], 12));
    let value: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!(value["options"]["on_error"], "skip");
    assert_eq!(value["options"]["dtype"], "u16");
    assert_eq!(value["outputs"][1]["dtype"], "u64");
    assert!(texts[0].ends_with("}\n"));
}

#[test]
fn a_wrong_account_is_never_published() {
    for documents in [
        Documents { read: 2, written: 1, ..Documents::default() },
        Documents { read: 2, written: 2, ..Documents::default() },
        Documents { read: 0, written: 1, skipped: u64::MAX, ..Documents::default() },
        Documents { read: 1, written: 1, skipped: 1, ..Documents::default() },
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut output = Output::create(&options(directory.path(), Format::Npy)).unwrap();
        output.append(&[5], &[1]).unwrap();
        let error = output.publish(Manifest { documents, ..Manifest::default() }).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Accounting);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn skipped_documents_that_are_not_listed_are_a_wrong_account() {
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&options(directory.path(), Format::Npy)).unwrap();
    let documents = Documents { read: 1, skipped: 1, ..Documents::default() };
    let error = output.publish(Manifest { documents, ..Manifest::default() }).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::Accounting);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]
    #[test]
    fn runs_do_not_change_a_byte(
        documents in prop::collection::vec(prop::collection::vec(0u32..300, 0..40), 0..30),
        runs in prop::collection::vec(0usize..6, 0..12),
        format in prop::sample::select(Format::ALL.to_vec()),
        eos in prop::option::of(0u32..300),
        bos in prop::option::of(300u32..310),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let eos = if format == Format::Nanogpt { eos.or(Some(9)) } else { eos };
        let whole = OutputOptions { append_eos: eos, prepend_bos: bos, ..options(directory.path(), format) };
        let pieces = OutputOptions { prefix: directory.path().join("pieces").join("out"), ..whole.clone() };
        fs::create_dir(directory.path().join("pieces")).unwrap();
        write(&whole, &documents, &[]).unwrap();
        write(&pieces, &documents, &runs).unwrap();
        for suffix in suffixes(format).iter().chain([&".manifest.json"]) {
            prop_assert_eq!(read(&whole, suffix), read(&pieces, suffix));
        }
    }
}

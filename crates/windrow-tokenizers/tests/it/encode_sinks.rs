//! Formats of other libraries against JSON lines: the same documents and values, for any threads, memory and chunks.

use std::fs;
use std::io::Cursor;
use std::num::NonZeroU64;
use std::path::Path;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::{Job, RunError, Summary, encode_with};
use windrow_tokenizers::input::{Compression, Format as InputFormat, InputFile};
use windrow_tokenizers::manifest::{OnError, Selection, TokenizerIdentity};
use windrow_tokenizers::output::{Format, Output, OutputErrorKind, OutputOptions};

use crate::encode_account::Bytes;
use crate::encode_split::contents;
use crate::output_formats::samples;

fn options(directory: &Path, format: Format, shard_bytes: Option<u64>) -> OutputOptions {
    let keep = vec!["url".to_owned(), "id".to_owned()];
    let list_skipped = true;
    OutputOptions {
        format,
        keep,
        shard_bytes,
        list_skipped,
        append_eos: Some(255),
        ..OutputOptions::new(directory.join("out"), 256)
    }
}

fn run(options: &OutputOptions, lines: &str, job: Job) -> Result<Summary, Box<RunError>> {
    let input =
        InputFile::from_reader("in", Cursor::new(lines.to_owned()), InputFormat::Jsonl, Some(Compression::None));
    let mut job = Job { inputs: vec![input], ..job };
    job.reading.on_error = OnError::Skip;
    job.reading.keep.clone_from(&options.keep);
    let output = Output::create(options).unwrap();
    encode_with(job, &Bytes, TokenizerIdentity { vocab_size: 256, ..TokenizerIdentity::default() }, output, &())
}

fn documents(directory: &Path) -> Vec<Vec<u32>> {
    let dataset = Dataset::open(&directory.join("out")).unwrap();
    let verified = dataset.verify();
    assert_eq!(verified.faults, []);
    (0..).map_while(|number| dataset.document(number).unwrap()).collect()
}

/// The kept values of all documents: lines next to the ids, or columns of MDS before and after the ids.
fn kept(directory: &Path, format: Format) -> Vec<[Value; 2]> {
    let manifest: Value = serde_json::from_slice(&fs::read(directory.join("out.manifest.json")).unwrap()).unwrap();
    let files = manifest["outputs"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap());
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let mut found = Vec::new();
    for file in files {
        let bytes = fs::read(directory.join(file)).unwrap();
        if format == Format::Mds && file.ends_with(".mds") {
            found.extend(samples(&bytes).iter().map(|columns| [parse(&columns[0]), parse(&columns[2])]));
        } else if file.ends_with(".kept.jsonl") {
            let lines = str::from_utf8(&bytes).unwrap().lines().map(|line| parse(line.as_bytes()));
            found.extend(lines.map(|mut line| [line["id"].take(), line["url"].take()]));
        }
    }
    found
}

fn line() -> impl Strategy<Value = String> {
    let url = prop_oneof![Just(Value::Null), "[a-z\u{e9}\"]{0,9}".prop_map(Value::from), Just(json!([1, {"a": "b"}]))];
    prop_oneof![
        9 => ("[a-z \u{e9}]{0,300}", any::<u32>(), url)
            .prop_map(|(text, id, url)| json!({"text": text, "id": id, "url": url}).to_string()),
        1 => Just("{\"id\":7}".to_owned()),
        1 => Just("{\"text\":\"\\u0001\",\"id\":8}".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(8)))]

    #[test]
    fn sinks_hold_what_json_lines_hold(
        lines in vec(line(), 1..60),
        format in select(vec![Format::Datatrove, Format::Mds]),
        threads in 1..4_usize,
        chunk_bytes in select(vec![1_usize, 300, 1 << 16]),
        memory in select(vec![1_usize, 100_000, 1 << 30]),
        shard_bytes in select(vec![None, Some(1_u64), Some(700)]),
        (limit, sample) in (option::weighted(0.3, 1..40_u64), option::weighted(0.3, select(vec!["30%", "90%"]))),
        shuffle in option::weighted(0.4, 0..9_u64),
        (prepend_bos, append_eos) in (option::of(Just(254)), option::of(Just(255))),
    ) {
        let lines = lines.join("\n");
        let [oracle, one, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let plain = || {
            let mut job = Job { threads: 1, ..Job::new(Vec::new()) };
            let limit = limit.and_then(NonZeroU64::new);
            let sample = sample.map(|share| share.parse().unwrap());
            job.reading.selection = Selection { limit, sample, shuffle, ..Selection::default() };
            job
        };
        let framed = |directory: &Path, format, shard_bytes| {
            OutputOptions { prepend_bos, append_eos, ..options(directory, format, shard_bytes) }
        };
        let expected = run(&framed(oracle.path(), Format::Jsonl, None), &lines, plain());
        let job = Job { threads, chunk_bytes, memory, ..plain() };
        let summary = run(&framed(one.path(), format, shard_bytes), &lines, job);
        let Ok(expected) = expected else {
            // All chosen documents are bad.
            prop_assert!(summary.is_err());
            prop_assert_eq!(fs::read_dir(one.path()).unwrap().count(), 0);
            return Ok(());
        };
        let summary = summary.unwrap();
        prop_assert!(summary.documents.is_balanced());
        prop_assert_eq!((summary.documents, summary.tokens), (expected.documents, expected.tokens));
        prop_assert_eq!(documents(one.path()), documents(oracle.path()));
        prop_assert_eq!(kept(one.path(), format), kept(oracle.path(), Format::Jsonl));
        run(&framed(other.path(), format, shard_bytes), &lines, plain()).unwrap();
        prop_assert_eq!(contents(one.path()), contents(other.path()));
    }
}

#[test]
fn what_mds_cannot_hold_is_refused_before_anything_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let mds = options(directory.path(), Format::Mds, None);
    for (options, said) in [
        (
            OutputOptions { keep: vec!["tokens".to_owned()], ..mds.clone() },
            "a kept field cannot have the name \"tokens\"",
        ),
        (
            OutputOptions { keep: vec!["mask".to_owned()], mask: true, ..mds.clone() },
            "a kept field cannot have the name \"mask\"",
        ),
        (OutputOptions { shard_bytes: Some((1 << 30) + 1), ..mds.clone() }, "pass --shard-size 1GiB or less"),
    ] {
        let error = Output::create(&options).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Usage);
        assert!(error.to_string().contains(said) && error.to_string().contains("\nhint: "), "{error}");
    }
    OutputOptions { keep: vec!["mask".to_owned()], ..mds.clone() }.element_type().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    fs::write(directory.path().join("out"), "a file").unwrap();
    let error = Output::create(&OutputOptions { overwrite: true, ..mds }).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::Usage);
    assert!(error.to_string().contains("out is not a directory, but the mds format writes one\nhint: "), "{error}");
    assert_eq!(fs::read(directory.path().join("out")).unwrap(), b"a file");
}

#[test]
fn a_manifest_of_a_folder_leads_nowhere_else() {
    let directory = tempfile::tempdir().unwrap();
    run(&options(directory.path(), Format::Mds, None), "{\"text\":\"a\"}", Job::new(Vec::new())).unwrap();
    let manifest = directory.path().join("out.manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    for other in ["../shard.00000.mds", "out/../shard.00000.mds", "out/x/shard.00000.mds", "oui/shard.00000.mds"] {
        fs::write(&manifest, text.replace("out/shard.00000.mds", other)).unwrap();
        let error = Dataset::open(&directory.path().join("out")).unwrap_err();
        assert!(error.to_string().contains("its list of outputs does not match its format"), "{other}: {error}");
    }
}

#[test]
fn other_files_in_the_folder_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mds = OutputOptions { overwrite: true, ..options(directory.path(), Format::Mds, Some(10)) };
    fs::create_dir(directory.path().join("out")).unwrap();
    fs::write(directory.path().join("out/notes.txt"), "mine").unwrap();
    drop(Output::create(&mds).unwrap());
    assert_eq!(contents(directory.path()).len(), 1);
    let lines = "{\"text\":\"0123456789\"}\n".repeat(5);
    run(&mds, &lines, Job::new(Vec::new())).unwrap();
    assert_eq!(contents(directory.path()).len(), 5 + 1 + 1 + 2);
    run(&mds, &lines[..44], Job::new(Vec::new())).unwrap();
    assert_eq!(contents(directory.path()).len(), 2 + 1 + 1 + 2, "the shards beyond are removed");
    assert_eq!(fs::read(directory.path().join("out/notes.txt")).unwrap(), b"mine");
}

#[test]
fn an_old_shard_that_would_be_replaced_is_no_input() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("out")).unwrap();
    for (format, shard) in [(Format::Jsonl, "out-00003.jsonl"), (Format::Mds, "out/shard.00003.mds")] {
        let shard = directory.path().join(shard);
        fs::write(&shard, "{}").unwrap();
        let options = OutputOptions { overwrite: true, ..options(directory.path(), format, Some(10)) };
        let error = options.check_inputs([&shard]).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::CannotCreate);
        assert!(error.to_string().contains("is an input of this run"), "{error}");
        options.check_inputs([directory.path().join("other.jsonl")]).unwrap();
    }
}

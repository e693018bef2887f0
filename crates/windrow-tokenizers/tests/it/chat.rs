//! Conversations: ids and masks recorded from transformers, and the account of rows.
//!
//! `scripts/chat_reference.py --record` writes the folder `tests/chat`; without `--record` it compares a thousand conversations.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::encode::{EncodeError, Job, RunError, Summary, encode};
use windrow_tokenizers::input::{Compression, Format, InputFile};
use windrow_tokenizers::manifest::{Documents, Manifest, OnError, Pack, PackMode, PartShare};
use windrow_tokenizers::output::{self, Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::encode_split::{contents, divisible};
use crate::output_formats::{array as mds_array, samples, tar_files};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chat")
}

fn tokenizer() -> Tokenizer {
    Tokenizer::load(folder().join("tokenizer.json").to_str().unwrap(), &LoadOptions::default()).unwrap()
}

fn template(name: &str) -> ChatTemplate {
    let mut tokens = SpecialTokens::default();
    tokens.set("bos_token", "<s>");
    tokens.set("eos_token", "</s>");
    let path = folder().join("templates").join(format!("{name}.jinja"));
    ChatTemplate::from_file(&path, tokens).unwrap().with_date("2024-07-26".parse().unwrap())
}

/// The ids of a document, and their masks.
type Masked = (Vec<u64>, Vec<u64>);

/// How a run is divided.
#[derive(Clone, Copy, Debug)]
struct Ways {
    threads: usize,
    chunk_bytes: usize,
    memory: usize,
    shard_bytes: Option<u64>,
    format: output::Format,
    bos: Option<u32>,
    eos: Option<u32>,
    pack: Option<Pack>,
    shuffle: Option<u64>,
    is_divided: bool,
    on_error: OnError,
}

impl Ways {
    fn new(format: output::Format) -> Self {
        Self {
            threads: 2,
            chunk_bytes: 1 << 10,
            memory: 1 << 30,
            shard_bytes: None,
            format,
            bos: None,
            eos: None,
            pack: None,
            shuffle: None,
            is_divided: false,
            on_error: OnError::Skip,
        }
    }
}

fn run(directory: &Path, lines: &str, name: &str, tokenizer: &Tokenizer, ways: Ways) -> Result<Summary, Box<RunError>> {
    let file = InputFile::from_reader("rows", Cursor::new(lines.to_owned()), Format::Jsonl, Some(Compression::None));
    let options = OutputOptions {
        format: ways.format,
        mask: true,
        append_eos: ways.eos,
        prepend_bos: ways.bos,
        pack: ways.pack,
        parts: if ways.is_divided { vec!["a".to_owned(), "b".to_owned()] } else { Vec::new() },
        shard_bytes: ways.shard_bytes,
        keep: if ways.pack.is_some() { Vec::new() } else { vec!["id".to_owned()] },
        list_skipped: ways.on_error == OnError::Skip,
        ..OutputOptions::new(directory.join("out"), tokenizer.vocab_size())
    };
    let mut job = Job {
        threads: ways.threads,
        chunk_bytes: ways.chunk_bytes,
        memory: ways.memory,
        chat: Some(Chat { template: template(name), loss: Loss::Assistant }),
        ..Job::new(vec![file])
    };
    job.reading.texts.field = vec!["messages".to_owned()];
    job.reading.keep = options.keep.clone();
    job.reading.on_error = ways.on_error;
    job.reading.selection.shuffle = ways.shuffle;
    let half = |name: &String| PartShare { name: name.clone(), share: "0.5".parse().unwrap() };
    job.reading.selection.split = options.parts.iter().map(half).collect();
    encode(job, tokenizer, Output::create(&options).unwrap(), &())
}

/// Ids and masks of each document, of an output of JSON lines, arrays, datatrove or MDS.
fn written(directory: &Path, format: output::Format) -> Vec<Masked> {
    let manifest = fs::read(directory.join("out.manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    let end = if format == output::Format::Mds { ".mds" } else { format.suffixes()[0] };
    let is_data = |prefix: &&str| !prefix.ends_with(".kept") && !prefix.ends_with(".skipped");
    let prefixes = manifest.outputs.iter().filter_map(|output| output.file.strip_suffix(end)).filter(is_data);
    written_under(directory, format, &prefixes.map(str::to_owned).collect::<Vec<_>>())
}

fn written_under(directory: &Path, format: output::Format, prefixes: &[String]) -> Vec<Masked> {
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).collect::<Vec<_>>();
    let mut documents = Vec::new();
    for prefix in prefixes {
        if format == output::Format::Jsonl {
            let lines = fs::read_to_string(directory.join(format!("{prefix}.jsonl"))).unwrap();
            let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            documents.extend(lines.map(|line| (numbers(&line["ids"]), numbers(&line["mask"]))));
            continue;
        }
        let bare = |suffix: &str| fs::read(directory.join(format!("{prefix}{suffix}"))).unwrap();
        if format == output::Format::Mds {
            // The columns are id, mask and tokens.
            let wide = |ids: Vec<u32>| ids.into_iter().map(u64::from).collect();
            let of = |columns: &Vec<Vec<u8>>| (wide(mds_array(&columns[2], "u2")), wide(mds_array(&columns[1], "u1")));
            documents.extend(samples(&bare(".mds")).iter().map(of));
            continue;
        }
        if format == output::Format::Webdataset {
            let values = |file: &[u8], size: usize| {
                let number = |id: &[u8]| id.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
                file[128..].chunks(size).map(number).collect()
            };
            let of = |files: &[(String, Vec<u8>)]| (values(&files[0].1, 2), values(&files[1].1, 1));
            let files: Vec<_> =
                tar_files(&bare(".tar")).into_iter().filter(|(name, _)| !name.ends_with("json")).collect();
            documents.extend(files.chunks(2).map(of));
            continue;
        }
        let file = |suffix: &str| bare(suffix).split_off(128);
        let is_array = format == output::Format::Npy;
        let (ids, masks, offsets) = match is_array {
            true => (file(".ids.npy"), file(".mask.npy"), file(".offsets.npy")),
            false => (bare(".ds"), bare(".ds.loss"), [vec![0; 8], bare(".ds.index")].concat()),
        };
        let ids: Vec<u64> = ids.chunks(2).map(|id| u16::from_le_bytes([id[0], id[1]]).into()).collect();
        let masks: Vec<u64> = masks.into_iter().map(u64::from).collect();
        assert_eq!(ids.len(), masks.len());
        let offsets = offsets.chunks(8).map(|end| u64::from_le_bytes(end.try_into().unwrap()) as usize);
        let offsets: Vec<usize> = offsets.collect();
        documents
            .extend(offsets.windows(2).map(|ends| (ids[ends[0]..ends[1]].to_vec(), masks[ends[0]..ends[1]].to_vec())));
    }
    documents
}

#[test]
fn ids_and_masks_are_those_of_transformers() {
    let rows = fs::read_to_string(folder().join("rows.jsonl")).unwrap();
    let mut expected: BTreeMap<String, Vec<Option<Masked>>> = BTreeMap::new();
    for line in fs::read_to_string(folder().join("expected.jsonl")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let ids = line.get("ids").map(|ids| ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect());
        let mask =
            line.get("mask").map(|mask| mask.as_str().unwrap().bytes().map(|one| u64::from(one - b'0')).collect());
        expected.entry(line["template"].as_str().unwrap().to_owned()).or_default().push(ids.zip(mask));
    }
    assert_eq!(expected.len(), 20);
    let tokenizer = tokenizer();
    for (name, expected) in expected {
        assert_eq!(expected.len(), rows.lines().count(), "{name}");
        let directory = tempfile::tempdir().unwrap();
        let format = output::Format::Jsonl;
        let summary = run(directory.path(), &rows, &name, &tokenizer, Ways::new(format)).unwrap();
        let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        let refused: Vec<usize> = manifest.skipped.iter().map(|skipped| skipped.line as usize - 1).collect();
        let mut found = written(directory.path(), format).into_iter();
        for (at, expected) in expected.iter().enumerate() {
            let found = if refused.contains(&at) { None } else { found.next() };
            assert!(found == *expected, "{name}, row {at}:\n{found:?}\n{expected:?}");
        }
        let ones = expected.iter().flatten().flat_map(|(_, mask)| mask).sum::<u64>();
        assert_eq!((summary.loss_tokens, manifest.loss_tokens), (Some(ones), Some(ones)), "{name}");
        assert!(ones > 0, "{name}");
        assert!(manifest.chat.unwrap().template.ends_with(&format!("{name}.jinja")));
        assert_eq!(manifest.options.loss, Some(Loss::Assistant));
    }
}

/// A line that may be no conversation.
fn line() -> impl Strategy<Value = String> {
    let text = || {
        prop_oneof![
            4 => "[a-z \\\\\"é日𝒳\t\n]{0,30}",
            1 => select(vec!["", " ", "<|im_end|>", "{% generation %}", "\u{fdd0}x\u{fdd1}", "\u{1c}"]).prop_map(str::to_owned),
        ]
    };
    let message = (select(vec!["user", "assistant", "assistant", "system"]), proptest::option::weighted(0.95, text()))
        .prop_map(|(role, content)| json!({"role": role, "content": content}));
    let good = (vec(message, 1..6), 0..1000_u32)
        .prop_map(|(messages, id)| json!({"messages": messages, "id": id}).to_string());
    let odd = select(vec![
        r#"{"messages": []}"#,
        r#"{"messages": "text"}"#,
        r#"{"messages": [1]}"#,
        r#"{"text": "no such field"}"#,
        r#"{"messages": [{"role": "user", "content": "cut"#,
        r#"{"messages": [{"role": "user", "content": "\ud800"}]}"#,
        r#"{"messages": [{"role": "user", "content": "a"}], "tools": 7}"#,
        r#"{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "user", "content": "last", "n": 1e5}]}"#,
        "[]",
        " ",
    ]);
    prop_oneof![5 => good, 1 => odd.prop_map(str::to_owned)]
}

/// What becomes of a line: its ids and masks, found by themselves.
fn reference(line: &str, chat: &Chat, tokenizer: &Tokenizer, eos: Option<u32>) -> Option<(u64, Vec<u64>, Vec<u64>)> {
    let (text, spans) = chat.render(line, "messages").ok()?;
    let encoded = tokenizer.encode_with_offsets(&text).unwrap();
    let overlaps = |place: &std::ops::Range<usize>| {
        let overlaps = |span: &std::ops::Range<usize>| place.end > span.start && place.start < span.end;
        u64::from(spans.iter().any(overlaps))
    };
    let masks = encoded.offsets.iter().map(overlaps).chain(eos.map(|_| 0)).collect();
    Some((text.len() as u64, encoded.ids.into_iter().chain(eos).map(u64::from).collect(), masks))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn every_row_is_accounted_for(
        lines in vec(line(), 0..40),
        name in select(vec!["chatml", "chatml_marked", "mistral"]),
        threads in 1..5_usize,
        chunk_bytes in select(vec![1_usize, 300, 1 << 16]),
        memory in select(vec![1_usize, 100_000, 1 << 30]),
        shard_bytes in select(vec![None, Some(1_u64), Some(500)]),
        format in select(
            vec![output::Format::Jsonl, output::Format::Npy, output::Format::Datatrove, output::Format::Mds, output::Format::Webdataset]
        ),
        eos in select(vec![None, Some(1)]),
    ) {
        let tokenizer = tokenizer();
        let chat = Chat { template: template(name), loss: Loss::Assistant };
        let rows: Vec<&String> = lines.iter().filter(|line| !line.trim().is_empty()).collect();
        let outcomes: Vec<_> = rows.iter().map(|line| reference(line, &chat, &tokenizer, eos)).collect();
        let good: Vec<_> = outcomes.iter().flatten().collect();
        let text = lines.iter().map(|line| line.clone() + "\n").collect::<String>();
        let ways = Ways { threads, chunk_bytes, memory, shard_bytes, eos, ..Ways::new(format) };
        let directory = tempfile::tempdir().unwrap();
        let outcome = run(directory.path(), &text, name, &tokenizer, ways);
        let (read, written_rows) = (rows.len() as u64, good.len() as u64);
        let counts = Documents { read, written: written_rows, skipped: read - written_rows, ..Documents::default() };
        if good.is_empty() && read > 0 {
            let failed = outcome.unwrap_err();
            prop_assert!(matches!(failed.error, EncodeError::AllSkipped { .. }), "{}", failed);
            prop_assert_eq!(failed.summary.documents, counts);
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            return Ok(());
        }
        let without_loss = good.iter().filter(|(.., masks)| !masks.contains(&1)).count() as u64;
        if read > 0 && without_loss == written_rows {
            let failed = outcome.unwrap_err();
            prop_assert!(matches!(failed.error, EncodeError::NoLoss { documents } if documents == written_rows), "{}", failed);
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            return Ok(());
        }
        let summary = outcome.unwrap();
        prop_assert_eq!(summary.documents, counts);
        prop_assert_eq!(summary.documents_without_loss, Some(without_loss));
        prop_assert_eq!(summary.text_bytes, good.iter().map(|(bytes, ..)| bytes).sum::<u64>());
        prop_assert_eq!(summary.tokens, good.iter().map(|(_, ids, _)| ids.len() as u64).sum::<u64>());
        prop_assert_eq!(summary.loss_tokens, Some(good.iter().flat_map(|(.., masks)| masks).sum::<u64>()));
        let prefix = directory.path().join("out");
        let dataset = Dataset::open(&prefix).unwrap();
        let verified = dataset.verify();
        prop_assert!(verified.faults.is_empty(), "{:?}", verified.faults);
        let manifest = dataset.manifest();
        prop_assert_eq!(manifest.loss_tokens, summary.loss_tokens);
        prop_assert_eq!(manifest.documents_without_loss, Some(without_loss));
        let found = written(directory.path(), format);
        let expected: Vec<_> = good.iter().map(|(_, ids, masks)| (ids.clone(), masks.clone())).collect();
        prop_assert_eq!(found, expected);
        let skipped: Vec<u64> = manifest.skipped.iter().map(|skipped| skipped.line).collect();
        let is_bad = |(_, line): &(usize, &String)| !line.trim().is_empty() && reference(line, &chat, &tokenizer, eos).is_none();
        let bad: Vec<u64> = lines.iter().enumerate().filter(is_bad).map(|(at, _)| at as u64 + 1).collect();
        prop_assert_eq!(&skipped, &bad);

        // The bytes do not depend on threads, chunks and memory.
        let other = tempfile::tempdir().unwrap();
        run(other.path(), &text, name, &tokenizer, Ways { threads: 1, chunk_bytes: 1 << 16, memory: 1 << 30, ..ways }).unwrap();
        prop_assert_eq!(contents(directory.path()), contents(other.path()));

        // The first bad row ends the run.
        let directory = tempfile::tempdir().unwrap();
        let outcome = run(directory.path(), &text, name, &tokenizer, Ways { on_error: OnError::Fail, ..ways });
        match outcomes.iter().position(Option::is_none) {
            None => prop_assert_eq!(outcome.unwrap().documents, counts),
            Some(first) => {
                let failed = outcome.unwrap_err();
                let EncodeError::Document(document) = &failed.error else { panic!("another error: {failed}") };
                prop_assert_eq!(document.line, bad[0]);
                let first = first as u64;
                prop_assert_eq!(failed.summary.documents, Documents { read: first + 1, written: first, failed: 1, ..Documents::default() });
                prop_assert_eq!(failed.summary.text_bytes, good[..first as usize].iter().map(|(bytes, ..)| bytes).sum::<u64>());
            }
        }
    }
}

#[test]
fn every_format_has_masks() {
    let rows = fs::read_to_string(folder().join("rows.jsonl")).unwrap();
    let tokenizer = tokenizer();
    let mut loss = Vec::new();
    for format in output::Format::ALL {
        let directory = tempfile::tempdir().unwrap();
        let ways = Ways { eos: Some(1), shard_bytes: Some(400), ..Ways::new(format) };
        let summary = run(directory.path(), &rows, "qwen_tools", &tokenizer, ways).unwrap();
        loss.push(summary.loss_tokens);
        let dataset = Dataset::open(&directory.path().join("out")).unwrap();
        let verified = dataset.verify();
        assert!(verified.faults.is_empty(), "{format}: {:?}", verified.faults);
        let file = if format == output::Format::Datatrove { "out-00000.ds.loss" } else { "out-00000.mask.npy" };
        let has_file = dataset.manifest().outputs.iter().any(|output| output.file == file);
        assert_eq!(has_file, !format.has_columns() && format != output::Format::Jsonl, "{format}");
        let damage = |file: &str, change: &dyn Fn(&mut Vec<u8>), says: &str| {
            let path = directory.path().join(file);
            let mut bytes = fs::read(&path).unwrap();
            change(&mut bytes);
            fs::write(&path, bytes).unwrap();
            let faults: Vec<_> = dataset.verify().faults.iter().map(ToString::to_string).collect();
            assert!(faults.iter().any(|fault| fault.contains(says)), "{faults:?}");
        };
        if has_file {
            damage(file, &|bytes| *bytes.last_mut().unwrap() = 2, "neither 0 nor 1");
        }
        if format == output::Format::Webdataset {
            let tar = "out-00000.tar";
            let bytes = fs::read(directory.path().join(tar)).unwrap();
            let mask = memchr::memmem::find(&bytes, b"000000000.mask.npy").unwrap();
            damage(tar, &|bytes| bytes[mask + 512 + 128] = 2, "it does not have a mask of 0 or 1 for each id");
            damage(tar, &|bytes| bytes[mask + 124] = b'1', "the header of 000000000.mask.npy is missing or invalid");
            damage(tar, &|bytes| bytes[0] = b'x', "no file of a document begins here");
        }
        if format == output::Format::Mds {
            let first = |bytes: &[u8]| {
                let shard = samples(bytes);
                // The sizes of the columns id, mask and tokens, then the id and the head of the masks.
                u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize + 12 + shard[0][0].len()
            };
            let shard = "out/shard.00000.mds";
            damage(
                shard,
                &|bytes| {
                    let at = first(bytes);
                    bytes[at + 3] = 2;
                },
                "does not have a mask of 0 or 1 for each id",
            );
            damage(
                shard,
                &|bytes| {
                    let at = first(bytes);
                    bytes[at] = 0xff;
                },
                "its masks are not a one-dimensional array",
            );
        }
    }
    assert!(loss[0] > Some(0) && loss.iter().all(|one| *one == loss[0]), "{loss:?}");
}

#[test]
fn masks_follow_their_ids() {
    let rows = fs::read_to_string(folder().join("rows.jsonl")).unwrap();
    let tokenizer = tokenizer();
    let plain = tempfile::tempdir().unwrap();
    let format = output::Format::Jsonl;
    let loss = run(plain.path(), &rows, "granite", &tokenizer, Ways::new(format)).unwrap().loss_tokens;
    let plain = written(plain.path(), format);
    let check = |ways: Ways, prefixes: &[&str]| {
        let mut found = Vec::new();
        let formats = output::Format::ALL.into_iter();
        for format in
            formats.filter(|format| prefixes == ["out"] && ways.pack.is_none() || divisible().contains(format))
        {
            let directory = tempfile::tempdir().unwrap();
            let ways = Ways { format, eos: ways.eos.or(Some(1).filter(|_| format == output::Format::Nanogpt)), ..ways };
            let summary = run(directory.path(), &rows, "granite", &tokenizer, ways).unwrap();
            assert_eq!(summary.loss_tokens, loss, "{format}, {ways:?}");
            let verified = Dataset::open(&directory.path().join("out")).unwrap().verify();
            assert!(verified.faults.is_empty(), "{format}: {:?}", verified.faults);
            if format == output::Format::Jsonl {
                let prefixes: Vec<String> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
                found = written_under(directory.path(), format, &prefixes);
            }
        }
        found
    };
    let sorted = |mut documents: Vec<Masked>| {
        documents.sort();
        documents
    };
    let ways = Ways::new(format);
    let shuffled = check(Ways { shuffle: Some(7), memory: 1, ..ways }, &["out"]);
    assert_ne!(shuffled, plain);
    assert_eq!(sorted(shuffled), sorted(plain.clone()));
    let divided = check(Ways { shuffle: Some(7), is_divided: true, ..ways }, &["out.a", "out.b"]);
    assert_eq!(sorted(divided), sorted(plain.clone()));
    let framed =
        |(ids, masks): &Masked| -> Masked { ([&[5][..], ids, &[6]].concat(), [&[0][..], masks, &[0]].concat()) };
    let framed: Vec<Masked> = plain.iter().map(framed).collect();
    assert_eq!(check(Ways { bos: Some(5), eos: Some(6), ..ways }, &["out"]), framed);
    let pack = Pack { length: NonZeroUsize::new(50).unwrap(), mode: PackMode::Split, pad: Some(9) };
    let packed = check(Ways { bos: Some(5), eos: Some(6), pack: Some(pack), ..ways }, &["out"]);
    assert!(packed.iter().all(|(ids, masks)| (ids.len(), masks.len()) == (50, 50)));
    let mut all: (Vec<u64>, Vec<u64>) = framed.into_iter().fold(Default::default(), |mut all: Masked, (ids, masks)| {
        all.0.extend(ids);
        all.1.extend(masks);
        all
    });
    all.0.resize(packed.len() * 50, 9);
    all.1.resize(packed.len() * 50, 0);
    assert_eq!(packed.iter().flat_map(|(ids, _)| ids).copied().collect::<Vec<_>>(), all.0);
    assert_eq!(packed.iter().flat_map(|(_, masks)| masks).copied().collect::<Vec<_>>(), all.1);
}

#[test]
fn columns_have_masks() {
    let rows = fs::read_to_string(folder().join("rows.jsonl")).unwrap();
    let tokenizer = tokenizer();
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), &rows, "chatml_marked", &tokenizer, Ways::new(output::Format::Jsonl)).unwrap();
    let expected = written(directory.path(), output::Format::Jsonl);
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), &rows, "chatml_marked", &tokenizer, Ways::new(output::Format::Arrow)).unwrap();
    let file = fs::File::open(directory.path().join("out.arrow")).unwrap();
    let mut found = Vec::new();
    for batch in arrow_ipc::reader::FileReaderBuilder::new().build(file).unwrap() {
        use arrow_array::cast::AsArray;
        use arrow_array::types::{UInt8Type, UInt32Type};
        let batch = batch.unwrap();
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["ids", "mask", "id"]);
        let column = |name| batch.column_by_name(name).unwrap().as_list::<i64>().clone();
        for row in 0..batch.num_rows() {
            let (ids, masks) = (column("ids").value(row), column("mask").value(row));
            let ids = ids.as_primitive::<UInt32Type>().values().iter().map(|&id| u64::from(id)).collect();
            found.push((ids, masks.as_primitive::<UInt8Type>().values().iter().map(|&one| u64::from(one)).collect()));
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn a_job_and_its_output_agree_on_masks() {
    let tokenizer = tokenizer();
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&OutputOptions::new(directory.path().join("out"), tokenizer.vocab_size())).unwrap();
    let chat = Some(Chat { template: template("chatml"), loss: Loss::Assistant });
    let failed = encode(Job { chat, ..Job::new(Vec::new()) }, &tokenizer, output, &()).unwrap_err();
    assert!(failed.to_string().starts_with("masks need "), "{failed}");
}

/// Rows of Parquet, whose messages are a list of structs, as a file.
#[cfg(feature = "parquet")]
fn parquet(path: &Path, lines: &str) {
    use arrow_array::RecordBatchReader;
    let (schema, _) = arrow_json::reader::infer_json_schema(lines.as_bytes(), None).unwrap();
    let reader = arrow_json::ReaderBuilder::new(std::sync::Arc::new(schema)).with_batch_size(3);
    let mut reader = reader.build(lines.as_bytes()).unwrap();
    let file = fs::File::create(path).unwrap();
    let properties =
        parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(40)).build();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, reader.schema(), Some(properties)).unwrap();
    reader.try_for_each(|batch| writer.write(&batch.unwrap())).unwrap();
    writer.close().unwrap();
}

#[cfg(feature = "parquet")]
#[test]
fn lists_of_structs_in_parquet_are_conversations() {
    use windrow_tokenizers::run::{EncodeSpec, FailureKind};
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut lines = String::new();
    for number in 0..100 {
        let tool = json!({"name": "clock", "parameters": {"zone": "UTC"}});
        let said = |role: &str, content: String| json!({"role": role, "content": content});
        let mut messages = vec![said("user", format!("{number} \"é\"\n")), said("assistant", "b".repeat(number))];
        messages.truncate(1 + number % 2);
        let mut row = json!({"id": number, "messages": messages, "other": [1, 2], "tools": [tool]});
        if number % 10 == 3 {
            // Bad rows: no messages, none at all, and a message without a role.
            row["messages"] = [json!(null), json!([]), json!([{"content": "a"}])][number / 10 % 3].clone();
        }
        lines += &format!("{row}\n");
    }
    fs::write(path("rows.jsonl"), &lines).unwrap();
    parquet(&path("rows.parquet"), &lines);
    let encode = |input: &str, field: &str, chat: &str| {
        let out = path(input.split_once('.').unwrap().1);
        let job = json!({
            "tokenizer": folder().join("tokenizer.json"), "chat": chat, "loss": "assistant", "field": field,
            "format": "jsonl", "on_error": "skip", "keep": ["id"],
        });
        let spec = json!({"job": job, "run": {"inputs": path(input), "output": out, "overwrite": true}});
        let spec: EncodeSpec = serde_json::from_value(spec).unwrap();
        let found = spec.find(|_| ()).unwrap();
        let tokenizer = found.load().unwrap();
        let ended = found.open(&tokenizer, &output::Staging::default(), |_| ()).unwrap().encode(&());
        let texts = [".jsonl", ".kept.jsonl"]
            .map(|end| fs::read_to_string(out.display().to_string() + end).unwrap_or_default());
        (ended.failed, texts, ended.summary.documents)
    };
    let chat = path("t.jinja");
    let source = "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ tools | tojson }}";
    fs::write(&chat, source).unwrap();
    let chat = chat.to_str().unwrap();
    let (failed, of_lines, documents) = encode("rows.jsonl", "messages", chat);
    assert_eq!((failed, documents.written, documents.skipped), (None, 90, 10));
    let (failed, of_columns, counted) = encode("rows.parquet", "messages", chat);
    assert_eq!((failed, counted), (None, documents));
    assert_eq!(of_lines, of_columns);
    let (failed, _, _) = encode("rows.parquet", "talk", chat);
    let failed = failed.unwrap();
    assert_eq!(failed.kind, FailureKind::BadInput);
    assert!(
        failed
            .message
            .contains("one column named \"talk\" is needed for the messages; the columns are [\"id\", \"messages\""),
        "{failed}"
    );
}

//! The law of the pipeline: every document of the inputs is written, or skipped and listed, or ends the run. The order stays, and no
//! document is lost, duplicated or changed. The reference reads such files in the plain way.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use windrow_tokenizers::encode::{EncodeError, Job, MaxSkipped, RunError, Summary, encode_with};
use windrow_tokenizers::engine::{Encoder, Engine, EngineError};
use windrow_tokenizers::input::{Compression, Format, InputFile};
use windrow_tokenizers::manifest::{Documents, Manifest, OnError, TokenizerIdentity};
use windrow_tokenizers::output::{self, Output, OutputOptions};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

use crate::input_columns;

/// One id per byte, so that the output can be read as text. It refuses texts with a `\u{1}`.
pub(crate) struct Bytes;

impl Engine for Bytes {
    fn name(&self) -> &str {
        "bytes 1.0"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(Self)
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }
}

impl Encoder for Bytes {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        if text.contains('\u{1}') {
            return Err(EngineError::Refused { engine: "bytes 1.0".to_owned(), reason: "a control".to_owned() });
        }
        ids.extend(text.bytes().map(u32::from));
        Ok(())
    }
}

/// The documents of a file, and for each bad one the line where it is reported.
pub(crate) fn reference(format: Format, bytes: &[u8]) -> Vec<Result<String, u64>> {
    if format == Format::Parquet {
        let rows = input_columns::column(bytes, "text").into_iter().zip(1..);
        return rows.map(|(text, row)| text.filter(|text| !text.contains('\u{1}')).ok_or(row)).collect();
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let refused = |text: &str| text.contains('\u{1}');
    if format == Format::Text {
        return vec![match str::from_utf8(bytes) {
            Ok(text) if refused(text) => Err(1),
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() as u64),
        }];
    }
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let rest = lines.pop().unwrap();
    if format == Format::Lines {
        lines.iter_mut().for_each(|line| *line = line.strip_suffix(b"\r").unwrap_or(line));
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    let blank = |line: &[u8]| line.iter().all(|byte| b" \t\r\n".contains(byte));
    let text = |line: &[u8]| {
        let line = str::from_utf8(line).ok()?;
        let text = match format {
            Format::Jsonl => serde_json::from_str::<Value>(line).ok()?.get("text")?.as_str()?.to_owned(),
            _ => line.to_owned(),
        };
        Some(text).filter(|text| !refused(text))
    };
    let numbered = lines.into_iter().zip(1..);
    let documents = numbered.filter(|(line, _)| format != Format::Jsonl || !blank(line));
    documents.map(|(line, number)| text(line).ok_or(number)).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    pub(crate) format: Format,
    pub(crate) bytes: Vec<u8>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z \\\\\"/é日𝒳\t\u{0}]{0,30}",
        1 => select(vec!["", " ", "\u{feff}", "\u{1}", "<|endoftext|>", "\u{2028}\u{85}"]).prop_map(str::to_owned),
    ]
}

/// A line of a `.jsonl` file, which may be bad or blank.
fn json_line() -> impl Strategy<Value = Vec<u8>> {
    let good = text()
        .prop_map(|text| serde_json::json!({"id": [text.len()], "text": text, "more": [{"text": null}]}).to_string());
    let escaped = text().prop_map(|text| {
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        format!("{{\"text\":\"{units}\"}}")
    });
    let odd = select(vec![
        r#"{"text": "cut"#,
        r#"{"text": "a"} x"#,
        r#"{"txt": "no such field"}"#,
        r#"{"text": null}"#,
        r#"{"text": 7}"#,
        r#"{"text": ["a"]}"#,
        r#"["text"]"#,
        r#""text""#,
        r#"{"text": "\ud800"}"#,
        r#"{"text": "a", "b": "\udc00"}"#,
        r#"{"text": "first", "text": "last"}"#,
        r#"{"text": "a", "n": 1e999}"#,
        r#"  {"text": "padded"}  "#,
        "{}",
        "",
        " \t\r",
        "\u{b}",
    ]);
    prop_oneof![
        6 => good.prop_map(String::into_bytes),
        2 => escaped.prop_map(String::into_bytes),
        3 => odd.prop_map(|line| line.as_bytes().to_vec()),
        1 => Just(b"{\"text\": \"\xff\"}".to_vec()),
    ]
}

/// The kept field of every document, good and bad.
pub(crate) fn kept(format: Format, bytes: &[u8]) -> Vec<Value> {
    match format {
        Format::Parquet => input_columns::column(bytes, "id").into_iter().map(Value::from).collect(),
        Format::Jsonl => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let blank = |line: &[u8]| line.iter().all(|byte| b" \t\r\n".contains(byte));
            let id = |line| serde_json::from_slice::<Value>(line).ok()?.get("id").cloned();
            let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !blank(line));
            lines.map(|line| id(line).unwrap_or(Value::Null)).collect()
        }
        Format::Text | Format::Lines | Format::Warc => vec![Value::Null; reference(format, bytes).len()],
    }
}

/// A Parquet file with nulls.
fn parquet() -> impl Strategy<Value = Corpus> {
    let rows = vec(proptest::option::weighted(0.9, text()), 0..40);
    (rows, 1..20_usize).prop_map(|(texts, group)| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.parquet");
        let id =
            input_columns::strings(&texts.iter().map(|text| text.clone().map(|text| text + "!")).collect::<Vec<_>>());
        let columns = vec![("id", id), ("text", input_columns::strings(&texts))];
        input_columns::write(&path, columns, group, input_columns::properties());
        Corpus { format: Format::Parquet, bytes: fs::read(path).unwrap() }
    })
}

pub(crate) fn corpus() -> impl Strategy<Value = Corpus> {
    let plain = prop_oneof![
        8 => text().prop_map(String::into_bytes),
        1 => Just(b"\xc3".to_vec()),
        1 => Just(b"two\nlines".to_vec()),
    ];
    let lines = |line: BoxedStrategy<Vec<u8>>| {
        let ended = (line, select(vec![&b"\n"[..], b"\r\n"])).prop_map(|(line, end)| [&line, end].concat());
        let whole = (any::<bool>(), vec(ended, 0..40), any::<bool>());
        whole.prop_map(|(marked, lines, cut)| {
            let mut bytes = if marked { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
            bytes.extend(lines.concat());
            if cut {
                // The last line has no line end.
                bytes.pop();
            }
            bytes
        })
    };
    prop_oneof![
        3 => lines(json_line().boxed()).prop_map(|bytes| Corpus { format: Format::Jsonl, bytes }),
        2 => lines(plain.clone().boxed()).prop_map(|bytes| Corpus { format: Format::Lines, bytes }),
        1 => plain.prop_map(|bytes| Corpus { format: Format::Text, bytes }),
        2 => parquet(),
    ]
}

pub(crate) fn run(
    directory: &Path,
    corpora: &[Corpus],
    job: Job,
    shard_bytes: Option<u64>,
) -> Result<Summary, Box<RunError>> {
    let (format, keep) = (output::Format::Jsonl, job.reading.keep.clone());
    let options = OutputOptions { format, keep, shard_bytes, ..OutputOptions::new(directory.join("out"), 256) };
    run_to(&options, corpora, job)
}

pub(crate) fn run_to(options: &OutputOptions, corpora: &[Corpus], job: Job) -> Result<Summary, Box<RunError>> {
    let folder = tempfile::tempdir().unwrap();
    let inputs = corpora.iter().zip(0..).map(|(Corpus { format, bytes }, number)| {
        let name = format!("file-{number}");
        if *format == Format::Parquet {
            let path = folder.path().join(&name);
            fs::write(&path, bytes).unwrap();
            return InputFile::from_path(path, *format, Compression::None).named(name);
        }
        InputFile::from_reader(name, Cursor::new(bytes.clone()), *format, Some(Compression::None))
    });
    let output = Output::create(options).unwrap();
    encode_with(Job { inputs: inputs.collect(), ..job }, &Bytes, TokenizerIdentity::default(), output, &())
}

/// The files with this suffix, of each shard if there are shards.
fn lines(directory: &Path, suffix: &str, has_shards: bool) -> Vec<String> {
    let read = |name: String| fs::read_to_string(directory.join(name));
    match has_shards {
        false => vec![read(format!("out{suffix}")).unwrap()],
        true => (0..).map_while(|number| read(format!("out-{number:05}{suffix}")).ok()).collect(),
    }
}

/// All lines of the output. Each shard but the last ends with the line that reaches the limit.
pub(crate) fn texts(directory: &Path, shard_bytes: Option<u64>) -> Vec<String> {
    let ids = |line: &str| serde_json::from_str::<Value>(line).unwrap()["ids"].as_array().unwrap().clone();
    let byte = |id: &Value| u8::try_from(id.as_u64().unwrap()).unwrap();
    let shards = lines(directory, ".jsonl", shard_bytes.is_some());
    if let Some(limit) = shard_bytes {
        for (number, shard) in shards.iter().enumerate() {
            let last = shard.lines().last().map_or(0, |line| line.len() + 1);
            assert!(((shard.len() - last) as u64) < limit, "shard {number} could have ended before its last line");
            assert!(number + 1 == shards.len() || shard.len() as u64 >= limit, "shard {number} is too small");
        }
    }
    let lines = shards.concat();
    lines.lines().map(|line| String::from_utf8(ids(line).iter().map(byte).collect()).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn every_document_is_accounted_for(
        corpora in vec(corpus(), 1..6),
        threads in 1..5_usize,
        chunk_bytes in select(vec![1_usize, 50, 300, 1 << 16]),
        memory in select(vec![1_usize, 100_000, 1 << 30]),
        shard_bytes in select(vec![None, Some(1_u64), Some(200), Some(5_000)]),
    ) {
        let job = || {
            let mut job = Job { threads, chunk_bytes, memory, ..Job::new(Vec::new()) };
            job.reading.keep = vec!["id".to_owned()];
            job
        };
        let documents: Vec<(String, Result<String, u64>)> = corpora
            .iter()
            .zip(0..)
            .flat_map(|(corpus, number)| {
                let documents = reference(corpus.format, &corpus.bytes);
                documents.into_iter().map(move |document| (format!("file-{number}"), document))
            })
            .collect();
        let good: Vec<&String> = documents.iter().filter_map(|(_, document)| document.as_ref().ok()).collect();
        let bad: Vec<(&str, u64)> = documents
            .iter()
            .filter_map(|(file, document)| Some((file.as_str(), *document.as_ref().err()?)))
            .collect();
        let text_bytes = |texts: &[&String]| texts.iter().map(|text| text.len() as u64).sum::<u64>();

        // Bad documents are skipped.
        let directory = tempfile::tempdir().unwrap();
        let mut skipping = job();
        skipping.reading.on_error = OnError::Skip;
        let outcome = run(directory.path(), &corpora, skipping, shard_bytes);
        let counts = Documents {
            read: documents.len() as u64,
            written: good.len() as u64,
            skipped: bad.len() as u64,
            ..Documents::default()
        };
        if good.is_empty() && !bad.is_empty() {
            // The output of such a run is useless.
            let failed = outcome.unwrap_err();
            let EncodeError::AllSkipped { read, first } = &failed.error else { panic!("another error: {failed}") };
            prop_assert_eq!((*read, first.file.as_str(), first.line), (counts.read, bad[0].0, bad[0].1));
            prop_assert_eq!(failed.summary.documents, counts);
            prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
            return Ok(());
        }
        let summary = outcome.unwrap();
        prop_assert_eq!(summary.documents, counts);
        prop_assert_eq!((summary.text_bytes, summary.tokens), (text_bytes(&good), text_bytes(&good)));
        let written = texts(directory.path(), shard_bytes);
        prop_assert_eq!(&written.iter().collect::<Vec<_>>(), &good);
        // Exactly one line for each written document.
        let all_kept = corpora.iter().flat_map(|corpus| kept(corpus.format, &corpus.bytes));
        let kept: Vec<Value> = all_kept.zip(&documents).filter(|(_, (_, text))| text.is_ok()).map(|(id, _)| id).collect();
        let lines = lines(directory.path(), ".kept.jsonl", shard_bytes.is_some()).concat();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].take()).collect();
        prop_assert_eq!(lines, kept);
        let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
        let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
        prop_assert_eq!(manifest.documents, counts);
        // By input, where an id is a byte.
        let by_input = manifest.inputs.iter().map(|input| (input.documents, input.text_bytes, input.tokens));
        let by_input: Vec<_> = by_input.collect();
        let expected = corpora.iter().map(|corpus| {
            let documents = reference(corpus.format, &corpus.bytes);
            let bytes = documents.iter().flatten().map(|text| text.len() as u64).sum::<u64>();
            (documents.len() as u64, bytes, bytes)
        });
        prop_assert_eq!(by_input, expected.collect::<Vec<_>>());
        prop_assert_eq!(&summary.inputs, &manifest.inputs);
        let listed: Vec<_> = manifest.skipped.iter().map(|bad| (bad.file.as_str(), bad.line)).collect();
        prop_assert_eq!(&listed, &bad);
        for skipped in &manifest.skipped {
            // The line starts where the manifest says: at the start, after a line break, or after the mark.
            let number: usize = skipped.file.strip_prefix("file-").unwrap().parse().unwrap();
            if corpora[number].format == Format::Parquet {
                prop_assert_eq!(skipped.offset + 1, skipped.line);
                continue;
            }
            let before = &corpora[number].bytes[..usize::try_from(skipped.offset).unwrap()];
            prop_assert!(before.is_empty() || before.ends_with(b"\n") || before == b"\xef\xbb\xbf", "{:?}", skipped);
            prop_assert_eq!(before.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1, skipped.line);
        }

        // The first bad document ends the run.
        let directory = tempfile::tempdir().unwrap();
        let outcome = run(directory.path(), &corpora, job(), shard_bytes);
        let Some(first) = documents.iter().position(|(_, document)| document.is_err()) else {
            prop_assert_eq!(outcome.unwrap().documents, counts);
            return Ok(());
        };
        let failed = outcome.unwrap_err();
        let EncodeError::Document(document) = &failed.error else { panic!("another error: {failed}") };
        prop_assert_eq!((document.file.as_str(), document.line), bad[0]);
        let first = first as u64;
        let counts = Documents { read: first + 1, written: first, failed: 1, ..Documents::default() };
        prop_assert_eq!(failed.summary.documents, counts);
        prop_assert_eq!(failed.summary.text_bytes, text_bytes(&good[..first as usize]));
        prop_assert_eq!(failed.summary.published, None);
        prop_assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_share_of_bad_documents_is_judged_at_the_end() {
    let corpus = Corpus { format: Format::Lines, bytes: b"a\n\x01\nb\nc\n\x01\nd\ne\nf\ng\nh".to_vec() };
    for (percent, is_ok) in [(0.0, false), (19.99, false), (20.0, true), (100.0, true)] {
        let directory = tempfile::tempdir().unwrap();
        let mut job = Job { max_skipped: Some(MaxSkipped::Percent(percent)), ..Job::new(Vec::new()) };
        job.reading.on_error = OnError::Skip;
        let outcome = run(directory.path(), std::slice::from_ref(&corpus), job, None);
        assert_eq!(outcome.is_ok(), is_ok, "{percent}");
        let Err(failed) = outcome else { continue };
        let said = failed.to_string();
        assert!(
            said.starts_with(&format!("2 of 10 documents are bad, more than --max-skipped {percent}% allows; ")),
            "{said}"
        );
        assert!(said.contains("the first: file-0:2:1: ") && said.contains("nothing was published"), "{said}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

/// A text of about `bytes` bytes: words of several scripts, numbers, white space and added tokens, or only some of them.
fn long_text(bytes: usize, kinds: &[&str]) -> String {
    let mut state = bytes as u64;
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(kinds[(state >> 33) as usize % kinds.len()]);
    }
    text
}

#[test]
fn a_text_in_parts_has_the_ids_of_the_whole() {
    let mixed: &[&str] = &[
        "word",
        " the",
        "'s",
        "\n\n",
        " ",
        "  \t",
        "1234567",
        "<|endoftext|>",
        "<|endof",
        "t|>",
        "漢字",
        "é",
        "e\u{301}",
        "。",
        "!?",
    ];
    let kinds = [mixed, &["漢字かな"], &["a"], &["x<|endoftext|>"], &["words and ", "more\n"], &["12 ", "  "]];
    for name in ["gpt2", "cl100k_base", "o200k_base"] {
        let tokenizer = Tokenizer::load(name, &LoadOptions::default()).expect("an embedded vocabulary");
        for kinds in kinds {
            let text = long_text(60_000, kinds);
            let mut ids = Vec::new();
            tokenizer.engine().encoder().encode(&text, &mut ids).expect("there is memory");
            let directory = tempfile::tempdir().unwrap();
            let options = OutputOptions {
                format: output::Format::Jsonl,
                ..OutputOptions::new(directory.path().join("out"), tokenizer.vocab_size())
            };
            let file = InputFile::from_reader("text", Cursor::new(text), Format::Text, None);
            // Batches of 4 KiB.
            let job = Job { memory: 64 << 10, threads: 2, ..Job::new(vec![file]) };
            encode_with(job, tokenizer.engine(), TokenizerIdentity::default(), Output::create(&options).unwrap(), &())
                .unwrap();
            let line: Value = serde_json::from_slice(&fs::read(directory.path().join("out.jsonl")).unwrap()).unwrap();
            let written: Vec<u32> =
                line["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
            assert!(written == ids, "{name}, {kinds:?}");
        }
    }
}

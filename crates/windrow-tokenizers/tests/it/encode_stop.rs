//! Runs that end early clean up, whatever ends them.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use windrow_tokenizers::encode::{EncodeError, Job, Observer, RunError, Step, Summary, encode, encode_with};
use windrow_tokenizers::engine::{Encoder, Engine, EngineError};
use windrow_tokenizers::input::{Compression, Format, InputFile};
use windrow_tokenizers::manifest::{Manifest, OnError, TokenizerIdentity};
use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions, Staging};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// One id per document, the length of its text; beyond `most` it panics.
struct Lengths {
    most: usize,
}

impl Engine for Lengths {
    fn name(&self) -> &str {
        "lengths 0.1"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(Self { most: self.most })
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }
}

impl Encoder for Lengths {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        assert!(text.len() <= self.most, "{} bytes are too many", text.len());
        ids.push(text.len() as u32);
        Ok(())
    }
}

/// Endless empty lines.
struct Endless;

impl Read for Endless {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        bytes.fill(b'\n');
        Ok(bytes.len())
    }
}

fn endless() -> InputFile {
    InputFile::from_reader("endless", Endless, Format::Lines, Some(Compression::None))
}

fn lines(text: &'static str) -> InputFile {
    InputFile::from_reader("memory", text.as_bytes(), Format::Lines, Some(Compression::None))
}

/// Runs a job with a timeout, because a fault would make it hang.
fn run(directory: &Path, inputs: Vec<InputFile>, most: usize, staging: Staging) -> Result<Summary, Box<RunError>> {
    let output = Output::create_in(&OutputOptions::new(directory.join("out"), 1 << 20), &staging).unwrap();
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || {
        let job = Job { memory: 1 << 20, ..Job::new(inputs) };
        let _ = done.send(encode_with(job, &Lengths { most }, TokenizerIdentity::default(), output, &()));
    });
    outcome.recv_timeout(Duration::from_secs(60)).expect("the run ends, and without a panic")
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn a_panicking_engine_is_reported_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let failed = run(directory.path(), vec![lines("a\nbbb\ncc"), endless()], 2, Staging::default()).unwrap_err();
    assert!(matches!(&failed.error, EncodeError::Panicked { message, .. } if message == "3 bytes are too many"));
    assert!(failed.summary.documents.is_balanced());
    assert!(is_empty(directory.path()));
}

#[test]
fn an_engine_that_refuses_a_text_leaves_nothing() {
    struct Refuses;
    impl Engine for Refuses {
        fn name(&self) -> &str {
            "refuses 0.1"
        }
        fn encoder(&self) -> Box<dyn Encoder + '_> {
            Box::new(Self)
        }
        fn token_to_id(&self, _: &str) -> Option<u32> {
            None
        }
    }
    impl Encoder for Refuses {
        fn encode(&mut self, text: &str, _: &mut Vec<u32>) -> Result<(), EngineError> {
            let reason = format!("no room for {text}");
            if text == "bad" { Err(EngineError::Refused { engine: "refuses 0.1".into(), reason }) } else { Ok(()) }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&OutputOptions::new(directory.path().join("out"), 100)).unwrap();
    let job = Job::new(vec![lines("good\nbad\ngood"), endless()]);
    let failed = encode_with(job, &Refuses, TokenizerIdentity::default(), output, &()).unwrap_err();
    assert!(matches!(&failed.error, EncodeError::Document(bad) if bad.line == 2), "{failed}");
    assert!(is_empty(directory.path()));
}

/// A failure of the machine is not one of the document: even with `Skip` nothing is published, and every document is accounted for.
#[test]
fn an_engine_without_memory_ends_the_run() {
    struct Poor;
    impl Engine for Poor {
        fn name(&self) -> &str {
            "poor 0.1"
        }
        fn encoder(&self) -> Box<dyn Encoder + '_> {
            Box::new(Self)
        }
        fn token_to_id(&self, _: &str) -> Option<u32> {
            None
        }
    }
    impl Encoder for Poor {
        fn encode(&mut self, text: &str, _: &mut Vec<u32>) -> Result<(), EngineError> {
            let error = EngineError::NoMemory { engine: "poor 0.1".into(), text: text.len(), bytes: 1 << 40 };
            if text == "large" { Err(error) } else { Ok(()) }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&OutputOptions::new(directory.path().join("out"), 100)).unwrap();
    let mut job = Job::new(vec![lines("good\nlarge\ngood")]);
    job.reading.on_error = OnError::Skip;
    let failed = encode_with(job, &Poor, TokenizerIdentity::default(), output, &()).unwrap_err();
    assert!(matches!(&failed.error, EncodeError::NoMemory(document) if document.line == 2), "{failed}");
    assert!(failed.to_string().contains("not enough memory for a text of 5 bytes"), "{failed}");
    let documents = failed.summary.documents;
    assert_eq!((documents.read, documents.written, documents.failed), (2, 1, 1));
    assert!(is_empty(directory.path()));
}

#[test]
fn an_abandoned_output_ends_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let staging = Staging::default();
    let abandoning = staging.clone();
    let size = directory.path().join("out.ids.npy.windrow-part");
    let watcher = thread::spawn(move || {
        // Once something is on disk, the writer is running.
        while fs::metadata(&size).map_or(0, |file| file.len()) == 0 {
            thread::yield_now();
        }
        assert!(abandoning.abandon());
    });
    let failed = run(directory.path(), vec![endless()], 9, staging).unwrap_err();
    assert!(matches!(&failed.error, EncodeError::Output(error) if error.kind() == OutputErrorKind::Interrupted));
    watcher.join().unwrap();
    assert!(is_empty(directory.path()));
}

#[test]
fn a_broken_input_ends_the_run_after_what_came_before() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 > 10 {
                return Err(io::Error::other("the cable is out"));
            }
            bytes.fill(b'\n');
            Ok(bytes.len())
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let file = InputFile::from_reader("wire", Broken(0), Format::Lines, Some(Compression::None));
    let failed = run(directory.path(), vec![file], 9, Staging::default()).unwrap_err();
    assert!(failed.to_string().starts_with("wire: cannot be read at byte "), "{failed}");
    let documents = failed.summary.documents;
    assert!(documents.is_balanced() && documents.written > 0 && documents.failed == 0, "{documents:?}");
    assert!(is_empty(directory.path()));
}

#[test]
fn the_observer_sees_every_document_and_every_byte_once() {
    struct Total(std::sync::Mutex<Step>);
    impl Observer for Total {
        fn advanced(&self, step: &Step) {
            let mut total = self.0.lock().unwrap();
            total.stored += step.stored;
            total.documents += step.documents;
            total.text_bytes += step.text_bytes;
            total.ids += step.ids;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&OutputOptions::new(directory.path().join("out"), 100)).unwrap();
    let text = "one\ntwo\n".repeat(10_000).leak();
    let total = Total(Default::default());
    let job = Job { memory: 1 << 18, chunk_bytes: 100, ..Job::new(vec![lines(text)]) };
    let identity = TokenizerIdentity { name: "lengths".to_owned(), ..TokenizerIdentity::default() };
    let summary = encode_with(job, &Lengths { most: 9 }, identity.clone(), output, &total).unwrap();
    let total = *total.0.lock().unwrap();
    assert_eq!((total.stored, total.documents, total.text_bytes, total.ids), (80_000, 20_000, 60_000, 20_000));
    assert_eq!((summary.documents.written, summary.text_bytes, summary.tokens), (20_000, 60_000, 20_000));
    let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest.tokenizer, identity);
    assert_eq!(manifest.engine.name, "lengths");
    assert_eq!(manifest.engine.versions["lengths"], "0.1");
    assert_eq!((manifest.inputs[0].name.as_str(), manifest.inputs[0].documents), ("memory", 20_000));
}

#[test]
fn the_ids_are_those_of_the_tokenizer() {
    let directory = tempfile::tempdir().unwrap();
    let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).unwrap();
    let options =
        OutputOptions { append_eos: Some(50_256), ..OutputOptions::new(directory.path().join("out"), 50_257) };
    let text = "Hello world\n\n  l'été, 日本 <|endoftext|> 1234567\n".repeat(500).leak();
    let job = Job { chunk_bytes: 100, ..Job::new(vec![lines(text)]) };
    let summary = encode(job, &tokenizer, Output::create(&options).unwrap(), &()).unwrap();
    let mut ids = Vec::new();
    let mut encoder = tokenizer.engine().encoder();
    for line in text.lines() {
        encoder.encode(line, &mut ids).unwrap();
        ids.push(50_256);
    }
    assert_eq!(summary.tokens, ids.len() as u64);
    let written = fs::read(directory.path().join("out.ids.npy")).unwrap();
    let expected: Vec<u8> = ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect();
    assert!(written[128..] == expected);
}

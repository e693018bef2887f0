//! Inputs that are read side by side: the outputs, the accounts and the errors are those of one reader.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use windrow_tokenizers::encode::{Job, RunError, Summary, encode_with};
use windrow_tokenizers::input::{Compression, Format, InputFile};
use windrow_tokenizers::manifest::{Documents, OnError, TokenizerIdentity};
use windrow_tokenizers::output::{self, Output, OutputOptions};

use crate::encode_account::{Bytes, Corpus, corpus};
use crate::input_common::{gzip, zstd};

/// How a corpus is stored.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Plain,
    Gzip,
    Zstd,
    /// Without its last bytes.
    CutOff,
    Missing,
    /// Read from a stream.
    Streamed,
}

fn stored() -> impl Strategy<Value = Stored> {
    prop_oneof![
        6 => Just(Stored::Plain), 4 => Just(Stored::Gzip), 4 => Just(Stored::Zstd), 1 => Just(Stored::CutOff),
        1 => Just(Stored::Missing), 2 => Just(Stored::Streamed),
    ]
}

fn input(folder: &Path, number: usize, (corpus, stored): &(Corpus, Stored)) -> InputFile {
    let name = format!("file-{number}");
    let path = folder.join(&name);
    let Corpus { format, bytes } = corpus;
    let (bytes, compression) = match stored {
        _ if *format == Format::Parquet => (bytes.clone(), Compression::None),
        Stored::Plain => (bytes.clone(), Compression::None),
        Stored::Gzip => (gzip(bytes), Compression::Gzip),
        Stored::Zstd => (zstd(bytes), Compression::Zstd),
        Stored::CutOff => (gzip(bytes)[..12].to_vec(), Compression::Gzip),
        Stored::Missing => return InputFile::from_path(path, *format, Compression::None).named(name),
        Stored::Streamed => {
            let stream = std::io::Cursor::new(bytes.clone());
            return InputFile::from_reader(name, stream, *format, Some(Compression::None));
        }
    };
    fs::write(&path, bytes).unwrap();
    InputFile::from_path(path, *format, compression).named(name)
}

/// The names and bytes of all files of an output, but for the record of its progress: that has the times of the inputs.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
    };
    fs::read_dir(folder).unwrap().map(entry).filter(|(name, _)| !name.contains("progress")).collect()
}

/// What a run leaves: its output, its account, and its error.
type Outcome = (BTreeMap<String, Vec<u8>>, Documents, Option<String>);

fn run(inputs: &[(Corpus, Stored)], shard_bytes: Option<u64>, job: Job) -> Outcome {
    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files_of = inputs.iter().enumerate().map(|(number, file)| input(folder.path(), number, file)).collect();
    let keep = job.reading.keep.clone();
    let options = OutputOptions {
        format: output::Format::Jsonl,
        keep,
        shard_bytes,
        ..OutputOptions::new(target.path().join("out"), 256)
    };
    let output = Output::create(&options).unwrap();
    let (readers, is_limited) = (job.readers, job.reading.selection.limit.is_some());
    let outcome = encode_with(Job { inputs: files_of, ..job }, &Bytes, TokenizerIdentity::default(), output, &());
    let (summary, error) = match outcome {
        Ok(summary) => {
            // None if it has not ended soon after the last document.
            assert!(summary.readers == readers || (is_limited && summary.readers == 0), "{}", summary.readers);
            (summary, None)
        }
        Err(failed) => {
            let RunError { error, summary } = *failed;
            (summary, Some(error.to_string().replace(&folder.path().display().to_string(), "")))
        }
    };
    assert!(summary.documents.is_balanced());
    (files(target.path()), summary.documents, error)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(12)))]

    #[test]
    fn readers_change_nothing(
        inputs in vec((corpus(), stored()), 1..12),
        readers in 2..6_usize,
        threads in 1..4_usize,
        memory in select(vec![1_usize, 30_000, 1 << 30]),
        shard_bytes in select(vec![None, Some(200_u64)]),
        limit in select(vec![None, Some(3_u64), Some(40)]),
        skips in any::<bool>(),
    ) {
        let job = |readers, threads, memory| {
            let mut job = Job { readers, threads, memory, ..Job::new(Vec::new()) };
            job.reading.keep = vec!["id".to_owned()];
            job.reading.on_error = if skips { OnError::Skip } else { OnError::Fail };
            job.reading.selection.limit = limit.and_then(NonZeroU64::new);
            job
        };
        let (expected, counts, error) = run(&inputs, shard_bytes, job(1, 1, 1 << 20));
        let (found, their_counts, their_error) = run(&inputs, shard_bytes, job(readers, threads, memory));
        prop_assert_eq!(error, their_error);
        prop_assert_eq!(counts, their_counts);
        prop_assert_eq!(expected, found);
    }
}

/// Lines that never end.
struct Endless;

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(b'a');
        if let Some(last) = buffer.last_mut() {
            *last = b'\n';
        }
        Ok(buffer.len())
    }
}

/// Readers ahead that wait for memory end with the run.
#[test]
fn a_run_ends_while_others_read_ahead() {
    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines = b"some text\n".repeat(20_000);
    let mut inputs: Vec<InputFile> = (0..8)
        .map(|number| {
            let path = folder.path().join(number.to_string());
            fs::write(&path, &lines).unwrap();
            InputFile::from_path(path, Format::Lines, Compression::None)
        })
        .collect();
    inputs.insert(0, InputFile::from_reader("endless", Endless, Format::Lines, Some(Compression::None)));
    let mut job = Job { readers: 4, memory: 200_000, ..Job::new(inputs) };
    job.reading.selection.limit = NonZeroU64::new(1_000);
    let output = Output::create(&OutputOptions::new(target.path().join("out"), 256)).unwrap();
    let Summary { documents, readers, .. } =
        encode_with(job, &Bytes, TokenizerIdentity::default(), output, &()).unwrap();
    assert_eq!((documents.read, documents.written, readers), (1_000, 1_000, 4));
}

/// What is read ahead counts, and the budget holds.
#[test]
fn memory_covers_what_is_read_ahead() {
    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lines = gzip(&b"a line of some text\n".repeat(20_000));
    let inputs = (0..12).map(|number| {
        let path = folder.path().join(number.to_string());
        fs::write(&path, &lines).unwrap();
        InputFile::from_path(path, Format::Lines, Compression::Gzip)
    });
    let memory = 1 << 20;
    let job = Job { readers: 6, memory, ..Job::new(inputs.collect()) };
    let output = Output::create(&OutputOptions::new(target.path().join("out"), 256)).unwrap();
    let summary = encode_with(job, &Bytes, TokenizerIdentity::default(), output, &()).unwrap();
    assert_eq!(summary.documents.written, 12 * 20_000);
    assert!(summary.peak_in_flight <= memory, "{} in flight", summary.peak_in_flight);
}

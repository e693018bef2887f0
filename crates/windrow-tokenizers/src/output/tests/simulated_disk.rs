//! Kills and power cuts at any byte, full disks and failing calls; the run that resumes after each writes the same bytes.
//!
//! `WINDROW_KILLS=1000 cargo test -p windrow-tokenizers --lib simulated_disk` tries more of them.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::super::storage::{Disk, Storage};
use super::super::{Format, Layout, Output, OutputErrorKind, OutputOptions, Staging, suffixes};
use crate::encode::{EncodeError, Job, RunError, Summary, encode_with};
use crate::engine::{Encoder, Engine, EngineError};
use crate::input::{Compression, Format as InputFormat, InputFile};
use crate::manifest::{Manifest, OnError, Selection, TokenizerIdentity};

/// Deterministic random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

/// A change of a file that is not synced.
#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

/// A change of the directory that is not synced.
#[derive(Clone, Debug)]
enum Entry {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Entry {
    fn is_in(&self, directory: &Path) -> bool {
        let (Self::Create(path, _) | Self::Rename(path, _) | Self::Remove(path)) = self;
        path.parent() == Some(directory)
    }
}

/// An event of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Nothing,
    /// The process is killed when it has written this number of bytes.
    Kill(u64),
    /// No byte beyond this number fits on the disk.
    Full(u64),
    /// The call with this name and this number fails.
    Call(&'static str, usize),
}

#[derive(Debug)]
struct Model {
    event: Event,
    written: u64,
    calls: Vec<&'static str>,
    is_down: bool,
    /// Names on the disk.
    names: BTreeMap<PathBuf, usize>,
    entries: Vec<Entry>,
    /// Content of files on the disk, and changes that are not there yet.
    contents: Vec<Vec<u8>>,
    changes: Vec<Vec<Change>>,
    /// Files by their numbers in the file system.
    files: HashMap<u64, usize>,
    shards_begun: usize,
    shards_recorded: usize,
}

/// A disk that knows the state after a power cut.
#[derive(Clone, Debug)]
struct SimulatedDisk(Arc<Mutex<Model>>);

impl SimulatedDisk {
    /// Everything that is in the directory is on the disk.
    fn new(directory: &Path, event: Event) -> Self {
        let mut model = Model {
            event,
            written: 0,
            calls: Vec::new(),
            is_down: false,
            names: BTreeMap::new(),
            entries: Vec::new(),
            contents: Vec::new(),
            changes: Vec::new(),
            files: HashMap::new(),
            shards_begun: 0,
            shards_recorded: 0,
        };
        for path in files(directory) {
            let file = model.add(fs::metadata(&path).unwrap().ino(), fs::read(&path).unwrap());
            model.names.insert(path, file);
        }
        Self(Arc::new(Mutex::new(model)))
    }

    fn call(&self, name: &'static str) -> io::Result<std::sync::MutexGuard<'_, Model>> {
        let mut model = self.0.lock().unwrap();
        if model.is_down {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        model.calls.push(name);
        if let Event::Call(fails, number) = model.event
            && fails == name
            && model.calls.iter().filter(|call| **call == name).count() == number
        {
            return Err(io::Error::other("as requested"));
        }
        Ok(model)
    }

    /// Gives the directory a state that a power cut may leave: the first changes of the directory, and any changes of files.
    fn cut_power(&self, directory: &Path, random: &mut Random) {
        let model = self.0.lock().unwrap();
        let mut names = model.names.clone();
        let done = random.below(model.entries.len() as u64 + 1) as usize;
        for entry in &model.entries[..done] {
            match entry {
                Entry::Create(path, file) => {
                    names.insert(path.clone(), *file);
                }
                Entry::Rename(from, to) => {
                    let file = names.remove(from).expect("a renamed file has a name");
                    names.insert(to.clone(), file);
                }
                Entry::Remove(path) => {
                    names.remove(path);
                }
            }
        }
        fs::remove_dir_all(directory).unwrap();
        fs::create_dir(directory).unwrap();
        for (path, file) in names {
            let mut content = model.contents[file].clone();
            for change in &model.changes[file] {
                match change {
                    _ if random.one_in(2) => {}
                    Change::Write(at, bytes) => {
                        let reached =
                            if random.one_in(3) { random.below(bytes.len() as u64) as usize } else { bytes.len() };
                        apply(&mut content, &Change::Write(*at, bytes[..reached].to_vec()));
                    }
                    truncate => apply(&mut content, truncate),
                }
            }
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }
}

/// The files in a directory and in its folders.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(bytes) => content.resize(*bytes as usize, 0),
        Change::Write(at, bytes) => {
            let (begin, end) = (*at as usize, *at as usize + bytes.len());
            content.resize(content.len().max(end), 0);
            content[begin..end].copy_from_slice(bytes);
        }
    }
}

impl Model {
    fn add(&mut self, number: u64, content: Vec<u8>) -> usize {
        self.contents.push(content);
        self.changes.push(Vec::new());
        self.files.insert(number, self.contents.len() - 1);
        self.contents.len() - 1
    }

    fn file(&self, file: &File) -> io::Result<usize> {
        Ok(self.files[&file.metadata()?.ino()])
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        let file = self.file(file)?;
        for change in std::mem::take(&mut self.changes[file]) {
            apply(&mut self.contents[file], &change);
        }
        if self.contents[file].get(16) == Some(&b' ') && self.contents[file].get(17) == Some(&b'{') {
            self.shards_recorded = self.contents[file].iter().filter(|&&byte| byte == b'\n').count() - 1;
        }
        Ok(())
    }
}

impl Storage for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        let mut model = self.call("create")?;
        let file = Disk.create(path)?;
        let number = model.add(file.metadata()?.ino(), Vec::new());
        model.entries.push(Entry::Create(path.to_owned(), number));
        let name = path.file_name().unwrap().to_str().unwrap();
        let number = name.strip_prefix("out-").or_else(|| name.strip_prefix("shard."));
        if let Some(number) = number.and_then(|rest| rest.split('.').next()) {
            model.shards_begun = number.parse::<usize>().unwrap() + 1;
        }
        Ok(file)
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let _model = self.call("open")?;
        Disk.open(path)
    }

    fn read(&self, file: &File, bytes: &mut [u8]) -> io::Result<usize> {
        let _model = self.call("read")?;
        Disk.read(file, bytes)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        let mut model = self.call("write")?;
        let left = match model.event {
            Event::Kill(at) | Event::Full(at) => at - model.written,
            Event::Nothing | Event::Call(..) => u64::MAX,
        };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let number = model.file(file)?;
        let at = file.stream_position()?;
        file.write_all(&bytes[..most])?;
        model.changes[number].push(Change::Write(at, bytes[..most].to_vec()));
        model.written += most as u64;
        if most == bytes.len() {
            return Ok(most);
        }
        model.is_down = matches!(model.event, Event::Kill(_));
        Err(io::ErrorKind::StorageFull.into())
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        let mut model = self.call("truncate")?;
        Disk.truncate(file, bytes)?;
        let number = model.file(file)?;
        model.changes[number].push(Change::Truncate(bytes));
        Ok(())
    }

    fn write_back(&self, file: &File) -> io::Result<()> {
        self.call("write back")?.sync(file)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.call("sync")?.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.call("rename")?;
        Disk.rename(from, to)?;
        model.entries.push(Entry::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut model = self.call("remove")?;
        Disk.remove(path)?;
        model.entries.push(Entry::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut model = self.call("sync directory")?;
        let (synced, rest) = std::mem::take(&mut model.entries).into_iter().partition(|entry| entry.is_in(path));
        model.entries = rest;
        let synced: Vec<Entry> = synced;
        for entry in synced {
            match entry {
                Entry::Create(path, file) => {
                    model.names.insert(path, file);
                }
                Entry::Rename(from, to) => {
                    let file = model.names.remove(&from).expect("a renamed file has a name");
                    model.names.insert(to, file);
                }
                Entry::Remove(path) => {
                    model.names.remove(&path);
                }
            }
        }
        Ok(())
    }
}

/// One id per byte, cuts before spaces. It refuses text that contains `refuse`.
struct Letters;

impl Engine for Letters {
    fn name(&self) -> &str {
        "letters 1.0"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(Self)
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }

    fn cuts_documents(&self) -> bool {
        true
    }

    fn last_cut(&self, part: &[u8], from: usize) -> Option<usize> {
        part.iter().rposition(|&byte| byte == b' ').filter(|&at| at > 0 && at >= from)
    }
}

impl Encoder for Letters {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        ids.extend(text.bytes().map(u32::from));
        if text.contains("refuse") {
            return Err(EngineError::Refused { engine: "letters 1.0".to_owned(), reason: "as requested".to_owned() });
        }
        Ok(())
    }
}

/// Inputs of all formats, plain and compressed; empty, bad and large documents. A field is kept.
struct Corpus(tempfile::TempDir);

const FILES: [(&str, InputFormat, Compression); 8] = [
    ("1.jsonl", InputFormat::Jsonl, Compression::None),
    ("2.txt", InputFormat::Text, Compression::None),
    ("3.gz", InputFormat::Lines, Compression::Gzip),
    ("4.txt", InputFormat::Text, Compression::None),
    ("5.txt", InputFormat::Lines, Compression::None),
    ("6.zst", InputFormat::Text, Compression::Zstd),
    ("7.wet.gz", InputFormat::Warc, Compression::Gzip),
    ("8.parquet", InputFormat::Parquet, Compression::None),
];

impl Corpus {
    fn new() -> Self {
        let corpus = Self(tempfile::tempdir().unwrap());
        let mut random = Random(5);
        let words = |random: &mut Random, count: u64| -> String {
            (0..count)
                .map(|_| ["the ", "path ", "of ", "thorns ", "and ", "stars "][random.below(6) as usize])
                .collect()
        };
        let mut jsonl = String::from("\u{feff}");
        for number in 0..300 {
            let text = match number % 40 {
                7 => "refuse".to_owned(),
                9 => String::new(),
                21 => words(&mut random, 900),
                _ => format!("{number} {}", words(&mut random, number % 30)),
            };
            jsonl += &match number % 60 {
                13 => "[]\n\n".to_owned(),
                _ => format!("{}\r\n", serde_json::json!({"id": number, "text": text})),
            };
        }
        let lines: String = (0..200).map(|n| words(&mut random, n % 25) + "\n").collect();
        let text = words(&mut random, 9_000);
        let gzip = |text: &str| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            gzip.finish().unwrap()
        };
        let page = |number: u64| {
            let (kind, text) = (
                ["conversion", "metadata"][usize::from(number.is_multiple_of(7))],
                "page ".repeat(number as usize % 90),
            );
            format!(
                "WARC/1.0\r\nWARC-Type: {kind}\r\nid: {number}\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
                text.len()
            )
        };
        let pages: String = (0..100).map(page).collect();
        let zstd = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let rows: Vec<_> = (0..300).map(|n| (n % 50 != 3).then(|| words(&mut random, n % 25))).collect();
        let rows = parquet(&rows.iter().map(Option::as_deref).collect::<Vec<_>>());
        let (gzip, pages) = (gzip(&lines), gzip(&pages));
        let contents = [jsonl.into(), b"short".to_vec(), gzip, Vec::new(), lines.into_bytes(), zstd, pages, rows];
        for ((name, ..), content) in FILES.iter().zip(contents) {
            fs::write(corpus.0.path().join(name), content).unwrap();
        }
        corpus
    }

    fn job(&self, random: &mut Random) -> Job {
        let inputs = FILES
            .iter()
            .map(|&(name, format, compression)| InputFile::from_path(self.0.path().join(name), format, compression));
        let mut job = Job::new(inputs.collect());
        job.reading.on_error = OnError::Skip;
        job.reading.keep = vec!["id".to_owned()];
        let sample = "90%".parse().ok();
        job.reading.selection =
            Selection { limit: NonZeroU64::new(800), sample, seed: Some(3), ..Selection::default() };
        job.threads = 1 + random.below(2) as usize;
        job.memory = [1, 200_000, 1 << 30][random.below(3) as usize];
        job.chunk_bytes = [1, 3_000, 64 << 10][random.below(3) as usize];
        job.readers = 1 + random.below(3) as usize;
        job
    }

    /// Encodes to `directory`.
    fn encode(
        &self,
        directory: &Path,
        disk: &SimulatedDisk,
        format: Format,
        random: &mut Random,
    ) -> Result<Summary, Box<RunError>> {
        let options = OutputOptions {
            format,
            append_eos: Some(7),
            prepend_bos: Some(6),
            overwrite: true,
            list_skipped: true,
            keep: vec!["id".to_owned()],
            shard_bytes: Some(20_000),
            resume: true,
            ..OutputOptions::new(directory.join("out"), 300)
        };
        let output = Output::create_in(&options, &Staging::on(Box::new(disk.clone())))
            .map_err(|error| Box::new(RunError { error: error.into(), summary: Summary::default() }))?;
        encode_with(self.job(random), &Letters, TokenizerIdentity::default(), output, &())
    }
}

/// A file with the columns `id` and `text`, of several row groups.
fn parquet(texts: &[Option<&str>]) -> Vec<u8> {
    let ids = (0..texts.len() as u64).collect::<arrow_array::UInt64Array>();
    let texts = texts.iter().collect::<arrow_array::StringArray>();
    let columns: [(&str, arrow_array::ArrayRef, bool); 2] =
        [("id", Arc::new(ids), false), ("text", Arc::new(texts), true)];
    let batch = arrow_array::RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = parquet::file::properties::WriterProperties::builder();
    let properties = properties.set_max_row_group_row_count(Some(70)).set_data_page_row_count_limit(9).build();
    let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

type Contents = BTreeMap<PathBuf, blake3::Hash>;

fn contents(directory: &Path) -> Contents {
    let relative = |path: &Path| path.strip_prefix(directory).unwrap().to_owned();
    files(directory).iter().map(|path| (relative(path), blake3::hash(&fs::read(path).unwrap()))).collect()
}

fn layout(format: Format) -> Layout {
    Layout { format, has_mask: false, has_kept: !format.has_columns(), is_packed: false }
}

/// The output of a run without an event, and the disk after it.
fn undisturbed(corpus: &Corpus, format: Format) -> (Contents, SimulatedDisk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = SimulatedDisk::new(directory.path(), Event::Nothing);
    let summary = corpus.encode(directory.path(), &disk, format, &mut Random(1)).unwrap();
    assert!(summary.documents.is_balanced() && summary.documents.skipped > 10, "{:?}", summary.documents);
    let contents = contents(directory.path());
    let json = fs::read(directory.path().join("out.manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&json).unwrap();
    let files = manifest.outputs.len();
    assert_eq!(contents.len(), files + 1, "the manifest lists every file");
    assert!((files - 1) / suffixes(layout(format)).count() > 5, "{files} files");
    (contents, disk)
}

/// Data of an older run with more shards, which the new one replaces.
fn put_old_data(directory: &Path, format: Format) {
    let mut names = vec!["out.manifest.json".to_owned()];
    if format == Format::Mds {
        fs::create_dir(directory.join("out")).unwrap();
        names.extend((0..60).map(|n| format!("out/shard.{n:05}.mds")).chain(["out/index.json".to_owned()]));
    } else {
        names.extend((0..60).flat_map(|n| suffixes(layout(format)).map(move |suffix| format!("out-{n:05}{suffix}"))));
    }
    names.iter().for_each(|name| fs::write(directory.join(name), b"{}").unwrap());
}

fn kills() -> u64 {
    std::env::var("WINDROW_KILLS")
        .map_or(20 * u64::from(windrow_testkit::cases(1)), |number| number.parse().expect("WINDROW_KILLS is a number"))
}

#[test]
fn after_kills_and_power_cuts_the_resumed_run_writes_the_same_bytes() {
    let corpus = Corpus::new();
    let whole = Format::ALL.map(|format| undisturbed(&corpus, format));
    let (mut cuts, mut resumed, mut most_again) = (0, 0, 0);
    for seed in 0..kills() {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        random.below(1);
        let index = seed as usize % Format::ALL.len();
        let (format, (expected, disk)) = (Format::ALL[index], &whole[index]);
        let bytes = disk.0.lock().unwrap().written;
        let directory = tempfile::tempdir().unwrap();
        if random.one_in(2) {
            put_old_data(directory.path(), format);
        }
        let mut case = format!("seed {seed}, {format}");
        // The run that resumes can be killed too.
        for round in 0.. {
            let at = random.below(bytes);
            let disk = SimulatedDisk::new(directory.path(), Event::Kill(at));
            let ended = corpus.encode(directory.path(), &disk, format, &mut random);
            let cut = random.one_in(2);
            case += &format!(", killed at byte {at} of {bytes}{}", if cut { " with a power cut" } else { "" });
            let model = disk.0.lock().unwrap();
            let (begun, recorded, is_down) = (model.shards_begun, model.shards_recorded, model.is_down);
            drop(model);
            assert_eq!(ended.is_err(), is_down, "{case}: {ended:?}");
            if !is_down {
                break;
            }
            if cut {
                disk.cut_power(directory.path(), &mut random);
                cuts += 1;
            }
            if round == 2 || random.one_in(2) {
                let disk = SimulatedDisk::new(directory.path(), Event::Nothing);
                let summary = corpus.encode(directory.path(), &disk, format, &mut random);
                let summary = summary.unwrap_or_else(|error| panic!("{case}: {error}"));
                let shards = summary.resumed.map_or(0, |resumed| resumed.shards);
                assert!(summary.documents.is_balanced(), "{case}: {:?}", summary.documents);
                assert!(shards >= recorded, "{case}: {shards} of {recorded} finished shards");
                most_again = most_again.max(begun.saturating_sub(shards));
                resumed += usize::from(shards > 0);
                break;
            }
        }
        assert_eq!(&contents(directory.path()), expected, "{case}");
    }
    assert!(cuts * 4 > kills() && resumed as u64 * 5 > kills() * 2, "{cuts} power cuts, {resumed} runs resumed");
    assert!(most_again <= 2, "a resumed run began {most_again} shards again");
}

#[test]
fn a_call_that_fails_loses_no_finished_shard() {
    let corpus = Corpus::new();
    for format in [Format::Megatron, Format::Jsonl, Format::Mds] {
        let (expected, disk) = undisturbed(&corpus, format);
        let calls = disk.0.lock().unwrap().calls.clone();
        let counts = calls.iter().fold(BTreeMap::<&str, usize>::new(), |mut counts, call| {
            *counts.entry(call).or_default() += 1;
            counts
        });
        for call in ["create", "write", "sync", "sync directory", "rename", "remove"] {
            assert!(counts.contains_key(call), "no {call}: {counts:?}");
        }
        let step = if kills() > 40 { 1 } else { 11 };
        let points = counts.iter().flat_map(|(&call, &count)| (1..=count).step_by(step).map(move |at| (call, at)));
        for (call, at) in points {
            let directory = tempfile::tempdir().unwrap();
            let mut random = Random(at as u64);
            let disk = SimulatedDisk::new(directory.path(), Event::Call(call, at));
            let ended = corpus.encode(directory.path(), &disk, format, &mut random);
            let recorded = disk.0.lock().unwrap().shards_recorded;
            let case = format!("{format}, {call} {at}");
            match ended {
                Ok(summary) => {
                    let left = summary.published.unwrap().not_removed;
                    left.iter().for_each(|path| fs::remove_file(path).unwrap());
                }
                Err(failed) => {
                    assert_eq!(failed.summary.kept_shards, recorded, "{case}: {failed}");
                    assert!(failed.to_string().contains("hint: "), "{case}: {failed}");
                    let disk = SimulatedDisk::new(directory.path(), Event::Nothing);
                    let summary = corpus.encode(directory.path(), &disk, format, &mut random).unwrap();
                    assert_eq!(summary.resumed.map_or(0, |resumed| resumed.shards), recorded, "{case}");
                }
            }
            assert_eq!(contents(directory.path()), expected, "{case}");
        }
    }
}

#[test]
fn a_resumed_run_whose_reads_fail_loses_nothing() {
    let corpus = Corpus::new();
    let (expected, disk) = undisturbed(&corpus, Format::Megatron);
    let bytes = disk.0.lock().unwrap().written;
    for at in (1..20).step_by(if kills() > 40 { 1 } else { 4 }) {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random(at as u64);
        let disk = SimulatedDisk::new(directory.path(), Event::Kill(bytes / 2));
        corpus.encode(directory.path(), &disk, Format::Megatron, &mut random).unwrap_err();
        let recorded = disk.0.lock().unwrap().shards_recorded;
        let disk = SimulatedDisk::new(directory.path(), Event::Call("read", at));
        if let Err(failed) = corpus.encode(directory.path(), &disk, Format::Megatron, &mut random) {
            assert!(failed.to_string().contains("hint: "), "{failed}");
        }
        let disk = SimulatedDisk::new(directory.path(), Event::Nothing);
        let summary = corpus.encode(directory.path(), &disk, Format::Megatron, &mut random).unwrap();
        assert!(summary.resumed.map_or(0, |resumed| resumed.shards) >= recorded, "call {at}");
        assert_eq!(contents(directory.path()), expected, "call {at}");
    }
}

#[test]
fn a_full_disk_is_named_and_the_run_resumes_when_there_is_space() {
    let corpus = Corpus::new();
    let (expected, disk) = undisturbed(&corpus, Format::Npy);
    let bytes = disk.0.lock().unwrap().written;
    for tenth in 0..10 {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Random(tenth);
        let disk = SimulatedDisk::new(directory.path(), Event::Full(bytes * tenth / 10));
        let failed = corpus.encode(directory.path(), &disk, Format::Npy, &mut random).unwrap_err();
        let recorded = disk.0.lock().unwrap().shards_recorded;
        assert!(matches!(&failed.error, EncodeError::Output(error) if error.kind() == OutputErrorKind::Io), "{failed}");
        assert!(failed.to_string().contains("\nhint: free space on the disk"), "{failed}");
        assert_eq!(failed.to_string().contains("what was written so far has been removed"), recorded == 0, "{failed}");
        assert_eq!(failed.summary.kept_shards, recorded);
        let disk = SimulatedDisk::new(directory.path(), Event::Nothing);
        let summary = corpus.encode(directory.path(), &disk, Format::Npy, &mut random).unwrap();
        assert_eq!(summary.resumed.map_or(0, |resumed| resumed.shards), recorded);
        assert_eq!(contents(directory.path()), expected);
    }
}

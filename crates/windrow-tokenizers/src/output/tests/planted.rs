//! Files under a name of an output before a run. The run replaces it or refuses it: it follows no link, waits for no pipe, and changes
//! nothing in another place.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::super::storage::{Disk, Storage, not_plain};
use super::super::{Document, Format, Kept, Output, OutputError, OutputErrorKind, OutputOptions, Staging};
use crate::chat::Loss;
use crate::dataset::Dataset;
use crate::encode::{EncodeError, Job, encode_with};
use crate::engine::{Encoder, Engine, EngineError};
use crate::input::{InputOptions, resolve};
use crate::manifest::{Documents, InputFile, Manifest, OnError, Pack, PackMode, SkippedDocument, TokenizerIdentity};

/// The disk without syncs, which can note the names that exist before each call. From one call on it can fail, as for a killed process.
#[derive(Clone, Debug)]
struct Watched {
    folder: PathBuf,
    names: Arc<Mutex<BTreeSet<PathBuf>>>,
    calls: Arc<Mutex<usize>>,
    last: usize,
    notes: bool,
}

impl Watched {
    fn new(folder: &Path, last: usize) -> Self {
        Self { folder: folder.to_owned(), names: Arc::default(), calls: Arc::default(), last, notes: false }
    }

    fn call(&self) -> io::Result<Disk> {
        let mut calls = self.calls.lock().unwrap();
        *calls += 1;
        if *calls > self.last {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if self.notes {
            self.names.lock().unwrap().extend(names_in(&self.folder));
        }
        Ok(Disk)
    }
}

impl Storage for Watched {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.call()?.create(path)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        self.call()?.write(file, bytes)
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.call().map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call()?.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.call()?.remove_directory(path)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.call().map(drop)
    }
}

/// The names below a folder, relative to it; folders too.
fn names_in(folder: &Path) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            names.insert(entry.path().strip_prefix(folder).unwrap().to_owned());
            folders.extend(Some(entry.path()).filter(|_| entry.file_type().unwrap().is_dir()));
        }
    }
    names
}

/// One id per byte, and something added.
struct Letters(u32);

impl Engine for Letters {
    fn name(&self) -> &str {
        "letters 1.0"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(Self(self.0))
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }
}

impl Encoder for Letters {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        ids.extend(text.bytes().map(|byte| u32::from(byte) + self.0));
        Ok(())
    }
}

/// A kind of output.
#[derive(Clone)]
struct Kind {
    options: OutputOptions,
    /// True if documents wait on the disk for their order.
    shuffles: bool,
    /// The input of an output that can resume, the same for each run.
    input: String,
    engine: u32,
}

impl Kind {
    fn at(&self, folder: &Path, resume: bool) -> OutputOptions {
        OutputOptions { prefix: folder.join("out"), overwrite: true, resume, ..self.options.clone() }
    }

    fn run(&self, folder: &Path, resume: bool, storage: Watched) -> Result<(), OutputError> {
        let options = self.at(folder, resume);
        let output = Output::create_in(&options, &Staging::on(Box::new(storage)))?;
        if self.options.shard_bytes.is_some() { self.encode(output) } else { self.write(output) }
    }

    fn encode(&self, output: Output) -> Result<(), OutputError> {
        let inputs = resolve(std::slice::from_ref(&self.input), &InputOptions::default()).unwrap().files;
        let mut job = Job { threads: 1, readers: 1, ..Job::new(inputs) };
        job.reading.on_error = OnError::Skip;
        job.reading.keep = vec!["n".to_owned()];
        match encode_with(job, &Letters(self.engine), TokenizerIdentity::default(), output, &())
            .map_err(|failed| failed.error)
        {
            Ok(_) => Ok(()),
            Err(EncodeError::Output(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    fn write(&self, mut output: Output) -> Result<(), OutputError> {
        if self.shuffles {
            output.shuffle(1);
        }
        let kept = Kept { bytes: b"17".to_vec(), ends: vec![2] };
        let kept = kept.slice(0..self.options.keep.len());
        for number in 0..3 {
            let mask: &[u8] = if self.options.mask { &[0, 1, 1] } else { &[] };
            let document = Document { ids: &[1, 2, number], mask, kept };
            output.push_to(0, (number.into(), 0, number.into()), document)?;
        }
        output.write_waiting()?;
        output.skip(SkippedDocument::default())?;
        let documents = Documents { read: 4, written: 3, skipped: 1, ..Documents::default() };
        let mut body = Manifest { documents, ..Manifest::default() };
        body.inputs = vec![InputFile { documents: 4, ..InputFile::default() }];
        body.options.on_error = OnError::Skip;
        body.options.keep.clone_from(&self.options.keep);
        body.options.chat = self.options.mask.then(PathBuf::default);
        body.options.loss = Some(Loss::Assistant);
        output.publish(body).map(drop)
    }
}

/// Outputs that have all names that there are: the test checks that.
fn kinds(folder: &Path) -> Vec<(&'static str, Kind)> {
    let input = folder.join("in.jsonl");
    let bad = "[]\n";
    let good = ["the first", "a second one", "and a third", "the last"]
        .map(|text| format!("{{\"text\": \"{text}\", \"n\": 1}}\n"));
    fs::write(&input, good.join(bad)).unwrap();
    let plain = |format| {
        let keep = vec!["n".to_owned()];
        let options =
            OutputOptions { format, append_eos: Some(7), list_skipped: true, keep, ..OutputOptions::new("out", 300) };
        Kind { options, shuffles: false, input: input.display().to_string(), engine: 0 }
    };
    let mut kinds: Vec<_> = Format::ALL.map(|format| (format.name(), plain(format))).into();
    let mut add = |name, format, change: &dyn Fn(&mut Kind)| {
        let mut kind = plain(format);
        change(&mut kind);
        kinds.push((name, kind));
    };
    add("shards", Format::Npy, &|kind| kind.options.shard_bytes = Some(8));
    add("folder of shards", Format::Mds, &|kind| kind.options.shard_bytes = Some(8));
    add("parts", Format::Nanogpt, &|kind| kind.options.parts = vec!["train".to_owned(), "val".to_owned()]);
    add("masks", Format::Datatrove, &|kind| kind.options.mask = true);
    add("shuffled masks", Format::Megatron, &|kind| (kind.options.mask, kind.shuffles) = (true, true));
    add("rows", Format::Npy, &|kind| {
        let length = NonZeroUsize::new(2).unwrap();
        kind.options.pack = Some(Pack { length, mode: PackMode::Split, pad: Some(0) });
        kind.options.keep.clear();
    });
    kinds
}

/// A folder before a run, and the names that a run may meet there.
struct State {
    folder: tempfile::TempDir,
    resume: bool,
}

/// The folder with an older output, the folder that a killed run has left if another run can continue it, and all names seen.
fn states(kind: &Kind) -> (Vec<State>, BTreeSet<PathBuf>) {
    let old = tempfile::tempdir().unwrap();
    let watched = Watched { notes: true, ..Watched::new(old.path(), usize::MAX) };
    kind.run(old.path(), false, watched.clone()).unwrap();
    kind.run(old.path(), false, watched.clone()).unwrap();
    let mut names = watched.names.lock().unwrap().clone();
    let calls = *watched.calls.lock().unwrap() / 2;
    let mut states = vec![State { folder: old, resume: false }];
    if kind.options.shard_bytes.is_some() {
        // The first kill after which another run has something to continue.
        let mut killed = (8..calls).step_by(7).map(|last| {
            let folder = tempfile::tempdir().unwrap();
            let _ = kind.run(folder.path(), false, Watched::new(folder.path(), last));
            folder
        });
        let lines = |folder: &Path| {
            let record = fs::read_to_string(folder.join("out.windrow-progress"));
            record.map_or(0, |record| record.lines().count())
        };
        let has_shards = |folder: &tempfile::TempDir| lines(folder.path()) > 2;
        let folder = killed.find(has_shards).expect("a run that is killed late has finished shards");
        names.extend(names_in(folder.path()));
        states.push(State { folder, resume: true });
    }
    (states, names)
}

fn copy(from: &Path, to: &Path) {
    for name in names_in(from) {
        match from.join(&name).is_dir() {
            true => fs::create_dir_all(to.join(name)).unwrap(),
            false => {
                fs::create_dir_all(to.join(&name).parent().unwrap()).unwrap();
                fs::copy(from.join(&name), to.join(name)).map(drop).unwrap();
            }
        }
    }
}

/// The place that no run may change.
struct Outside(PathBuf);

impl Outside {
    fn new(folder: &Path) -> Self {
        fs::create_dir(folder).unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        for name in
            ["victim", "folder/index.json.windrow-part", "folder/shard.00000.mds.windrow-part", "folder/index.json"]
        {
            fs::write(folder.join(name), "precious").unwrap();
        }
        assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
        Self(folder.to_owned())
    }

    fn plant(&self, what: &str, at: &Path) {
        match what {
            "link" => symlink(self.0.join("victim"), at).unwrap(),
            "dangling link" => symlink(self.0.join("absent"), at).unwrap(),
            "link to a folder" => symlink(self.0.join("folder"), at).unwrap(),
            "link to a device" => symlink("/dev/zero", at).unwrap(),
            "second name" => fs::hard_link(self.0.join("victim"), at).unwrap(),
            "pipe" => fs::hard_link(self.0.join("pipe"), at).unwrap(),
            "folder" => {
                fs::create_dir(at).unwrap();
                fs::write(at.join("x"), "precious").unwrap();
            }
            other => panic!("{other}"),
        }
    }

    fn check(&self, case: &str) {
        let names = [
            "folder",
            "folder/index.json",
            "folder/index.json.windrow-part",
            "folder/shard.00000.mds.windrow-part",
            "pipe",
            "victim",
        ];
        assert_eq!(names_in(&self.0), names.map(PathBuf::from).into(), "{case}");
        for name in names.iter().filter(|name| self.0.join(name).is_file()) {
            assert_eq!(fs::read_to_string(self.0.join(name)).unwrap(), "precious", "{case}: {name}");
        }
    }
}

const PLANTS: [&str; 7] =
    ["link", "dangling link", "link to a folder", "link to a device", "second name", "pipe", "folder"];

/// Runs with something planted under a name, and checks the result.
fn check(kind: &Kind, state: &State, outside: &Outside, name: &Path, what: &str, case: &str) {
    let folder = tempfile::tempdir().unwrap();
    copy(state.folder.path(), folder.path());
    let at = folder.path().join(name);
    let _ = if at.is_dir() { fs::remove_dir_all(&at) } else { fs::remove_file(&at) };
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    outside.plant(what, &at);
    let ended = kind.run(folder.path(), state.resume, Watched::new(folder.path(), usize::MAX));
    outside.check(case);
    if what == "folder" {
        assert_eq!(fs::read_to_string(at.join("x")).ok().as_deref(), Some("precious"), "{case}");
    }
    match ended {
        Ok(()) => {
            let verified =
                Dataset::open(&folder.path().join("out")).unwrap_or_else(|error| panic!("{case}: {error}")).verify();
            assert!(verified.faults.is_empty(), "{case}: {:?}", verified.faults);
            let manifest: crate::manifest::Manifest =
                serde_json::from_slice(&fs::read(folder.path().join("out.manifest.json")).unwrap()).unwrap();
            for file in manifest.outputs {
                let found = fs::symlink_metadata(folder.path().join(&file.file)).unwrap();
                assert_eq!(not_plain(&found), None, "{case}: {}", file.file);
            }
        }
        Err(error) => {
            let is_refused = matches!(error.kind(), OutputErrorKind::CannotCreate | OutputErrorKind::Usage);
            assert!(is_refused && error.to_string().contains("\nhint: "), "{case}: {error}");
            assert!(!error.to_string().contains("check the disk"), "{case}: {error}");
        }
    }
}

#[test]
fn nothing_planted_under_a_name_is_followed() {
    let (done, waits) = mpsc::channel();
    let current = Arc::new(Mutex::new(String::new()));
    let case = Arc::clone(&current);
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        let outside = Outside::new(&folder.path().join("outside"));
        let (mut seen, mut turn) = (BTreeSet::new(), 0);
        for (title, kind) in kinds(folder.path()) {
            let (states, names) = states(&kind);
            for (state, name) in states.iter().flat_map(|state| names.iter().map(move |name| (state, name))) {
                // Another one under each next name. The files that a resumed run opens, and each name of one output, get all of them.
                let is_opened =
                    ["skipped.jsonl.windrow-part", "progress"].iter().any(|end| name.to_str().unwrap().ends_with(end));
                for _ in 0..if title == "npy" || (state.resume && is_opened) { PLANTS.len() } else { 1 } {
                    let what = PLANTS[turn % PLANTS.len()];
                    turn += 1;
                    let text = format!("{title}, resume {}: {what} at {}", state.resume, name.display());
                    case.lock().unwrap().clone_from(&text);
                    check(&kind, state, &outside, name, what, &text);
                }
            }
            seen.extend(names);
        }
        done.send(seen).unwrap();
    });
    // A run that waits for a pipe waits for ever.
    let seen = waits.recv_timeout(Duration::from_secs(120));
    let seen = seen.unwrap_or_else(|_| panic!("it failed, or waits: {}", current.lock().unwrap()));
    let ends =
        ["lock", "progress", "part", "old", ".idx", ".ds.loss", ".mask.npy", ".mds", "index.json", ".kept.jsonl"];
    for end in ends.iter().chain(&[".skipped.jsonl.windrow-part", ".shuffle.windrow-part", ".docs.npy", ".train.bin"]) {
        assert!(
            seen.iter().any(|name| name.to_str().unwrap().ends_with(end)),
            "no run had a file name that ends with {end}: {seen:?}"
        );
    }
}

#[test]
fn a_forged_record_reaches_no_file_of_another_place() {
    let inputs = tempfile::tempdir().unwrap();
    for (title, kind) in kinds(inputs.path()).into_iter().filter(|(_, kind)| kind.options.shard_bytes.is_some()) {
        let (states, _) = states(&kind);
        let killed = states.iter().find(|state| state.resume).expect("it can resume");
        let record = fs::read_to_string(killed.folder.path().join("out.windrow-progress")).unwrap();
        let lines: Vec<&str> = record.lines().collect();
        let shard: serde_json::Value = serde_json::from_str(lines[1].split_once(' ').unwrap().1).unwrap();
        let own = shard["files"][0]["file"].as_str().unwrap().to_owned();
        for forged in
            ["../x", "folder/x", "other.ids.npy", "out/../../x", "/", "out.windrow-lock", "out-00000.ids.npy/x"]
        {
            let outer = tempfile::tempdir().unwrap();
            let (folder, bytes) =
                (outer.path().join("work"), fs::read(killed.folder.path().join(format!("{own}.windrow-part"))));
            fs::create_dir_all(folder.join("folder")).unwrap();
            copy(killed.folder.path(), &folder);
            // With the bytes of the shard, so that only its name is wrong.
            let absolute = outer.path().join("x").display().to_string();
            let name = if forged == "/" { &absolute } else { forged };
            let planted = folder.join(format!("{name}.windrow-part"));
            let is_planted = fs::write(&planted, bytes.unwrap()).is_ok();
            let mut line = shard.clone();
            line["files"][0]["file"] = name.into();
            let json = line.to_string();
            let line = format!("{} {json}", &blake3::hash(json.as_bytes()).to_hex()[..16]);
            fs::write(folder.join("out.windrow-progress"), [lines[0], &line, ""].join("\n")).unwrap();
            let ended = kind.run(&folder, true, Watched::new(&folder, usize::MAX));
            let case = format!("{title}: {name}");
            ended.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(!is_planted || planted.exists(), "{case}");
            assert!(Dataset::open(&folder.join("out")).unwrap().verify().faults.is_empty(), "{case}");
        }
    }
}

#[test]
fn a_list_that_another_program_has_changed_is_not_continued() {
    let inputs = tempfile::tempdir().unwrap();
    let (title, kind) = kinds(inputs.path()).into_iter().find(|(title, _)| *title == "shards").unwrap();
    let (states, _) = states(&kind);
    let killed = states.iter().find(|state| state.resume).expect("it can resume");
    let folder = tempfile::tempdir().unwrap();
    copy(killed.folder.path(), folder.path());
    let list = folder.path().join("out.skipped.jsonl.windrow-part");
    let bytes = fs::read(&list).unwrap();
    assert!(!bytes.is_empty(), "{title}: the bad document should be listed before the kill");
    fs::write(&list, vec![b'x'; bytes.len()]).unwrap();
    kind.run(folder.path(), true, Watched::new(folder.path(), usize::MAX)).unwrap();
    let listed = fs::read_to_string(folder.path().join("out.skipped.jsonl")).unwrap();
    assert!(listed.starts_with("{\"file\":") && listed.lines().count() == 3, "{listed}");
}

#[test]
fn an_engine_that_gives_other_ids_than_before_continues_nothing() {
    let inputs = tempfile::tempdir().unwrap();
    let (_, kind) = kinds(inputs.path()).into_iter().find(|(title, _)| *title == "shards").unwrap();
    let (states, _) = states(&kind);
    let killed = states.iter().find(|state| state.resume).expect("it can resume");
    let folder = tempfile::tempdir().unwrap();
    copy(killed.folder.path(), folder.path());
    let other = Kind { engine: 1, ..kind.clone() };
    let error = other.run(folder.path(), true, Watched::new(folder.path(), usize::MAX)).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::CannotCreate);
    assert!(error.to_string().contains("now encodes the same text to different ids\nhint: "), "{error}");
    kind.run(folder.path(), true, Watched::new(folder.path(), usize::MAX)).unwrap();
}

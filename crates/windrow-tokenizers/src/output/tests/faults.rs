//! Every call to the operating system fails once, or is the last one before a crash, or is interrupted by an abandonment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use super::super::storage::{Disk, Storage};
use super::super::{
    Document, Format, KeptValues, Output, OutputError, OutputErrorKind, OutputOptions, Published, Staging,
};
use crate::encode::{EncodeError, Job, RunError, Summary, encode_with};
use crate::engine::{Encoder, Engine, EngineError};
use crate::input::{Compression, InputFile};
use crate::manifest::{Documents, Manifest, SkippedDocument, TokenizerIdentity};

/// The fault at call number `at`, counted from 1.
#[derive(Clone, Debug)]
enum Fault {
    Never,
    /// The call fails.
    Once,
    /// The call and all later ones fail: nothing reaches the disk any more, not even the cleanup.
    Crash,
    /// From the call on, no name can be renamed, not even back. Removing still works.
    NoRename,
    /// Nothing can be written.
    NoWrite,
    /// Another thread abandons the output.
    Abandon(Staging),
}

/// Calls that can take long: an abandonment does not wait for them.
const UNLOCKED: [&str; 3] = ["write", "sync", "sync directory"];

#[derive(Debug)]
struct Script {
    fault: Fault,
    at: usize,
    calls: Vec<&'static str>,
    abandonment: Option<JoinHandle<bool>>,
}

/// The disk, with a fault. Writes are short, 75,000 bytes at most, so that files take several calls. Syncs are only counted: no test
/// cuts the power, and real syncs would take most of the time.
#[derive(Clone, Debug)]
struct Faulty(Arc<Mutex<Script>>);

impl Faulty {
    fn new(at: usize) -> Self {
        Self(Arc::new(Mutex::new(Script { fault: Fault::Never, at, calls: Vec::new(), abandonment: None })))
    }

    /// A staging on this disk.
    fn staging(&self, fault: impl FnOnce(&Staging) -> Fault) -> Staging {
        let staging = Staging::on(Box::new(self.clone()));
        self.0.lock().unwrap().fault = fault(&staging);
        staging
    }

    fn call(&self, name: &'static str) -> io::Result<()> {
        let mut script = self.0.lock().unwrap();
        script.calls.push(name);
        let now = script.calls.len();
        match script.fault.clone() {
            Fault::Once if now == script.at => Err(io::ErrorKind::StorageFull.into()),
            Fault::Crash if now >= script.at => Err(io::ErrorKind::StorageFull.into()),
            Fault::NoRename if now >= script.at && name == "rename" => Err(io::ErrorKind::PermissionDenied.into()),
            Fault::NoWrite if name == "write" => Err(io::ErrorKind::StorageFull.into()),
            Fault::Abandon(staging) if now == script.at => {
                let thread = std::thread::spawn(move || staging.abandon());
                if UNLOCKED.contains(&name) {
                    drop(script);
                    let abandoned = thread.join().unwrap();
                    self.0.lock().unwrap().abandonment = Some(std::thread::spawn(move || abandoned));
                } else {
                    script.abandonment = Some(thread);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn calls(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().calls.clone()
    }
}

impl Storage for Faulty {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.call("create").and_then(|()| Disk.create(path))
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        self.call("write").and_then(|()| Disk.write(file, &bytes[..bytes.len().min(75_000)]))
    }

    fn truncate(&self, file: &File, bytes: u64) -> io::Result<()> {
        self.call("truncate").and_then(|()| Disk.truncate(file, bytes))
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        self.call("sync")
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename").and_then(|()| Disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove").and_then(|()| Disk.remove(path))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.call("create directory").and_then(|()| Disk.create_directory(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.call("remove directory").and_then(|()| Disk.remove_directory(path))
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.call("sync directory")
    }
}

fn undisturbed() -> Staging {
    Faulty::new(0).staging(|_| Fault::Never)
}

fn options(directory: &Path, format: Format, overwrite: bool) -> OutputOptions {
    // One format also has the list of skipped documents, as an additional file.
    let list_skipped = format == Format::Jsonl;
    let options = OutputOptions::new(directory.join("out"), 60_000);
    // Another one is divided.
    let parts = if format == Format::Arrow { vec!["train".to_owned(), "val".to_owned()] } else { Vec::new() };
    OutputOptions { format, overwrite, append_eos: Some(7), list_skipped, parts, ..options }
}

/// Three documents; those of `variant` 0 and 1 differ.
fn write(options: &OutputOptions, staging: &Staging, variant: u32) -> Result<Published, OutputError> {
    let ids: Vec<u32> = (0..100_000 + variant).map(|id| (id + variant) % 60_000).collect();
    let mut output = Output::create_in(options, staging)?;
    output.append(&ids, &[10, 10, ids.len()])?;
    output.append(&[], &[])?;
    let last = options.parts.len().saturating_sub(1);
    output.push_part(last, &[3, 4], None)?;
    output.discard_parts()?;
    output.push_part(last, &[1], None)?;
    output.push_part(last, &[2], Some(KeptValues::default()))?;
    (0..variant).try_for_each(|_| output.skip(SkippedDocument::default()))?;
    let documents =
        Documents { read: 4 + u64::from(variant), written: 4, skipped: variant.into(), ..Documents::default() };
    output.publish(Manifest { documents, ..Manifest::default() })
}

fn contents(directory: &Path) -> BTreeMap<String, blake3::Hash> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            let within = contents(&entry.path());
            // An empty directory counts too.
            let own = within.is_empty().then(|| (format!("{name}/"), blake3::hash(b"")));
            found.extend(within.into_iter().map(|(file, hash)| (format!("{name}/{file}"), hash)).chain(own));
        } else {
            found.insert(name, blake3::hash(&fs::read(entry.path()).unwrap()));
        }
    }
    found
}

/// The directory before a run, and after a complete run.
fn prepare(format: Format, overwrite: bool) -> (tempfile::TempDir, BTreeMap<String, blake3::Hash>) {
    let directory = tempfile::tempdir().unwrap();
    if overwrite {
        write(&options(directory.path(), format, false), &undisturbed(), 0).unwrap();
    }
    let before = contents(directory.path());
    (directory, before)
}

fn whole(format: Format) -> BTreeMap<String, blake3::Hash> {
    whole_of(format, 1)
}

fn whole_of(format: Format, variant: u32) -> BTreeMap<String, blake3::Hash> {
    let (directory, _) = prepare(format, false);
    write(&options(directory.path(), format, false), &undisturbed(), variant).unwrap();
    contents(directory.path())
}

/// The number of calls of a run without faults.
fn count_calls(format: Format, overwrite: bool) -> usize {
    let (directory, _) = prepare(format, overwrite);
    let disk = Faulty::new(0);
    write(&options(directory.path(), format, overwrite), &disk.staging(|_| Fault::Never), 1).unwrap();
    assert_eq!(contents(directory.path()), whole(format), "short writes change nothing");
    disk.calls().len()
}

/// One format of each kind: two files, one, one that is completed by a footer, and a folder. `WINDROW_KILLS` set to any number tries all formats.
fn cases() -> impl Iterator<Item = (Format, bool)> {
    let kinds = [Format::Npy, Format::Jsonl, Format::Parquet, Format::Mds];
    let formats = if std::env::var_os("WINDROW_KILLS").is_some() { Format::ALL.to_vec() } else { kinds.to_vec() };
    formats.into_iter().flat_map(|format| [(format, false), (format, true)])
}

/// The calls at which a test has its fault: some of each part of a run and the last one, with `WINDROW_CASES=10` all of them.
fn chosen(calls: usize) -> impl Iterator<Item = usize> {
    (1..=calls).filter(move |at| at % windrow_testkit::step(7) == 0 || [1, calls].contains(at))
}

#[test]
fn a_failing_call_leaves_the_directory_as_it_was() {
    let mut failed_calls = BTreeSet::new();
    for (format, overwrite) in cases() {
        let whole = whole(format);
        for at in 1..=count_calls(format, overwrite) {
            let (directory, before) = prepare(format, overwrite);
            let disk = Faulty::new(at);
            let result = write(&options(directory.path(), format, overwrite), &disk.staging(|_| Fault::Once), 1);
            let failed = disk.calls()[at - 1];
            failed_calls.insert(failed);
            let case = format!("{format}, overwrite {overwrite}, call {at}: {failed}");
            match result {
                Err(error) => {
                    assert_eq!(contents(directory.path()), before, "{case}");
                    let created = matches!(failed, "create" | "create directory" | "remove");
                    let expected = if created { OutputErrorKind::CannotCreate } else { OutputErrorKind::Io };
                    assert_eq!(error.kind(), expected, "{case}: {error}");
                    assert!(error.path().unwrap().starts_with(directory.path()), "{case}: {error}");
                    assert!(error.to_string().contains("hint: "), "{case}: {error}");
                    assert!(error.not_removed().is_empty(), "{case}: {error}");
                }
                Ok(published) => {
                    // After the point of no return, only old data and the lock are removed.
                    assert_eq!(failed, "remove", "{case}");
                    // The progress record of a run without a continuation was never there.
                    assert!(published.not_removed.len() == 1 || format == Format::Mds, "{case}");
                    published.not_removed.iter().for_each(|path| fs::remove_file(path).unwrap());
                    assert_eq!(contents(directory.path()), whole, "{case}");
                }
            }
        }
    }
    let all = ["create", "create directory", "remove", "rename", "sync", "sync directory", "truncate", "write"];
    assert_eq!(failed_calls, all.into());
}

/// Writes five documents in another order; each waits in a run by itself.
fn write_shuffled(options: &OutputOptions, staging: &Staging) -> Result<Published, OutputError> {
    let mut output = Output::create_in(options, staging)?;
    output.shuffle(1);
    for number in 0..5 {
        output.push_to(0, (9 - number, 0, number), Document { ids: &[number as u32; 3], ..Document::default() })?;
    }
    output.write_waiting()?;
    let documents = Documents { read: 5, written: 5, ..Documents::default() };
    output.publish(Manifest { documents, ..Manifest::default() })
}

#[test]
fn a_failing_call_while_documents_wait_leaves_nothing() {
    let options = |directory: &Path| options(directory, Format::Npy, false);
    let directory = tempfile::tempdir().unwrap();
    let disk = Faulty::new(0);
    write_shuffled(&options(directory.path()), &disk.staging(|_| Fault::Never)).unwrap();
    let whole = contents(directory.path());
    assert_eq!(whole.len(), 3);
    let calls = disk.calls();
    assert!(calls.iter().filter(|&&call| call == "write").count() > 5, "{calls:?}");
    for (at, call) in (1..).zip(calls) {
        for crashes in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let disk = Faulty::new(at);
            let fault = |_: &Staging| if crashes { Fault::Crash } else { Fault::Once };
            let result = write_shuffled(&options(directory.path()), &disk.staging(fault));
            let case = format!("call {at}: {call}");
            if result.is_ok() {
                assert_eq!(call, "remove", "{case}");
            } else if !crashes {
                assert_eq!(contents(directory.path()), BTreeMap::new(), "{case}");
            }
            // The remaining files are no obstacle.
            let options = OutputOptions { overwrite: true, ..options(directory.path()) };
            write_shuffled(&options, &undisturbed()).unwrap();
            assert_eq!(contents(directory.path()), whole, "{case}");
        }
    }
}

/// A manifest under its final name must have all of its data next to it, with the right bytes.
fn assert_manifest_is_true(directory: &Path, case: &str) {
    let Ok(text) = fs::read(directory.join("out.manifest.json")) else { return };
    let manifest: Manifest = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{case}: {error}"));
    for file in manifest.outputs {
        let bytes = fs::read(directory.join(&file.file)).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), file.blake3, "{case}: {}", file.file);
    }
}

#[test]
fn after_a_crash_no_manifest_lies_and_the_next_run_clears_the_rest() {
    for (format, overwrite) in cases() {
        let whole = whole(format);
        for at in chosen(count_calls(format, overwrite)) {
            let (directory, _) = prepare(format, overwrite);
            let disk = Faulty::new(at);
            let result = write(&options(directory.path(), format, overwrite), &disk.staging(|_| Fault::Crash), 1);
            let case = format!("{format}, overwrite {overwrite}, call {at}: {}", disk.calls()[at - 1]);
            assert_manifest_is_true(directory.path(), &case);
            if result.is_ok() {
                assert_eq!(disk.calls()[at - 1], "remove", "{case}");
            } else if !overwrite && disk.calls()[..at].iter().all(|&call| call != "rename") {
                let unstaged =
                    contents(directory.path()).into_keys().find(|name| !name.contains(".windrow-") && name != "out/");
                assert_eq!(unstaged, None, "{case}");
            }
            write(&options(directory.path(), format, true), &undisturbed(), 1)
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(contents(directory.path()), whole, "{case}");
        }
    }
}

/// The directory after a killed run and the next one: the new data if the new manifest has its name, otherwise the old data.
fn expected<'a>(
    directory: &Path,
    before: &'a BTreeMap<String, blake3::Hash>,
    new: &'a BTreeMap<String, blake3::Hash>,
) -> &'a BTreeMap<String, blake3::Hash> {
    let name = "out.manifest.json";
    if contents(directory).get(name) == new.get(name) { new } else { before }
}

/// A run that fails at its first write.
fn fail(options: &OutputOptions) -> OutputError {
    write(options, &Faulty::new(1).staging(|_| Fault::NoWrite), 1).expect_err("no write succeeds")
}

#[test]
fn after_a_crash_a_failing_run_leaves_the_old_data_or_the_new() {
    for ((format, overwrite), variant) in cases().flat_map(|case| [(case, 0), (case, 1)]) {
        let new = whole_of(format, variant);
        for at in chosen(count_calls(format, overwrite)) {
            let (directory, before) = prepare(format, overwrite);
            let disk = Faulty::new(at);
            let options = options(directory.path(), format, overwrite);
            let _ = write(&options, &disk.staging(|_| Fault::Crash), variant);
            let expected = expected(directory.path(), &before, &new);
            // With another number of skipped documents there may be fewer calls.
            let Some(call) = disk.calls().get(at - 1).copied() else { break };
            let case = format!("{format}, overwrite {overwrite}, {variant}, call {at}: {call}");
            let error = fail(&OutputOptions { overwrite: true, ..options });
            assert_eq!(error.kind(), OutputErrorKind::Io, "{case}: {error}");
            assert_eq!(&contents(directory.path()), expected, "{case}");
        }
    }
}

#[test]
fn a_crash_while_a_crash_is_taken_back_loses_nothing() {
    for (format, overwrite, variant) in [(Format::Npy, true, 0), (Format::Npy, true, 1), (Format::Jsonl, false, 0)] {
        let new = whole_of(format, variant);
        for at in chosen(count_calls(format, overwrite)) {
            for second in 1.. {
                let (directory, before) = prepare(format, overwrite);
                let (first, disk) = (Faulty::new(at), Faulty::new(second));
                let options = options(directory.path(), format, overwrite);
                let _ = write(&options, &first.staging(|_| Fault::Crash), variant);
                if !matches!(first.calls().get(at - 1), Some(&("rename" | "sync directory"))) {
                    break;
                }
                let expected = expected(directory.path(), &before, &new);
                let options = OutputOptions { overwrite: true, ..options };
                let _ = write(&options, &disk.staging(|_| Fault::Crash), 1);
                let case = format!("{format}, {variant}, call {at}, then call {second}");
                let calls = disk.calls();
                if calls[..second.min(calls.len())].contains(&"write") {
                    // Everything is already undone.
                    break;
                }
                fail(&options);
                assert_eq!(&contents(directory.path()), expected, "{case}");
            }
        }
    }
}

#[test]
fn an_undivided_run_takes_back_a_divided_one() {
    for at in chosen(count_calls(Format::Arrow, true)) {
        let (directory, before) = prepare(Format::Arrow, true);
        let new = whole(Format::Arrow);
        let options = options(directory.path(), Format::Arrow, true);
        let _ = write(&options, &Faulty::new(at).staging(|_| Fault::Crash), 1);
        let expected = expected(directory.path(), &before, &new);
        fail(&OutputOptions { parts: Vec::new(), ..options });
        assert_eq!(&contents(directory.path()), expected, "call {at}");
    }
}

#[test]
fn a_run_of_another_format_takes_back_too() {
    let (directory, before) = prepare(Format::Npy, true);
    // The last rename: the data is new, the manifest is missing.
    let calls = count_calls(Format::Npy, true);
    for at in 1..=calls {
        let _ = write(&options(directory.path(), Format::Npy, true), &Faulty::new(at).staging(|_| Fault::Crash), 1);
        let [manifest, aside] =
            ["", ".windrow-old"].map(|suffix| directory.path().join("out.manifest.json".to_owned() + suffix));
        if aside.exists() && !manifest.exists() {
            fail(&options(directory.path(), Format::Megatron, true));
            assert_eq!(contents(directory.path()), before, "call {at}");
        } else if contents(directory.path()).get("out.manifest.json") != before.get("out.manifest.json") {
            break;
        }
    }
}

#[test]
fn what_cannot_be_renamed_back_is_removed_and_old_files_left_aside_are_named() {
    for (format, overwrite) in cases() {
        for at in chosen(count_calls(format, overwrite)) {
            let (directory, before) = prepare(format, overwrite);
            let disk = Faulty::new(at);
            let staging = disk.staging(|_| Fault::NoRename);
            let Err(error) = write(&options(directory.path(), format, overwrite), &staging, 1) else {
                assert!(!disk.calls()[at - 1..].contains(&"rename"));
                continue;
            };
            let mut after = contents(directory.path());
            for path in error.not_removed() {
                let aside = path.strip_prefix(directory.path()).unwrap().to_str().unwrap();
                let old = after.remove(aside).unwrap();
                after.insert(aside.strip_suffix(".windrow-old").unwrap().to_owned(), old);
            }
            assert_eq!(after, before, "{format}, overwrite {overwrite}, call {at}: {error}");
            assert_eq!(error.to_string().matches("not removed: ").count(), error.not_removed().len(), "{error}");
        }
    }
}

#[test]
fn abandonment_at_any_call_is_all_or_nothing() {
    for (format, overwrite) in cases() {
        let whole = whole(format);
        for at in chosen(count_calls(format, overwrite)) {
            let (directory, before) = prepare(format, overwrite);
            let disk = Faulty::new(at);
            let staging = disk.staging(|staging| Fault::Abandon(staging.clone()));
            let result = write(&options(directory.path(), format, overwrite), &staging, 1);
            let abandoned = disk.0.lock().unwrap().abandonment.take().unwrap().join().unwrap();
            let call = disk.calls()[at - 1];
            let case = format!("{format}, overwrite {overwrite}, call {at}: {call}");
            assert!(abandoned || !UNLOCKED.contains(&call), "{case}: the output should have been abandoned");
            if abandoned {
                assert_eq!(result.expect_err(&case).kind(), OutputErrorKind::Interrupted, "{case}");
                assert_eq!(contents(directory.path()), before, "{case}");
            } else {
                result.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(contents(directory.path()), whole, "{case}");
            }
            // Breaks a cycle: the script keeps a staging, which keeps the disk, which keeps the script.
            disk.0.lock().unwrap().fault = Fault::Never;
        }
    }
}

#[test]
fn everything_is_synced_before_a_rename_relies_on_it() {
    let (directory, _) = prepare(Format::Megatron, true);
    let disk = Faulty::new(0);
    write(&options(directory.path(), Format::Megatron, true), &disk.staging(|_| Fault::Never), 1).unwrap();
    let calls = disk.calls();
    let first = calls.iter().position(|&call| call == "rename").unwrap();
    assert_eq!(calls[..first].iter().filter(|&&call| call == "sync").count(), 3, "bin, idx, manifest");
    assert_eq!(calls[first - 1], "sync");
    let publication = [
        vec!["rename", "sync directory"],                   // the old manifest is moved aside
        vec!["rename"; 4],                                  // bin and idx: the old one aside, the new one in
        vec!["sync directory", "rename", "sync directory"], // the new manifest
        vec!["remove"; 4],                                  // the files moved aside, and the lock
    ];
    assert_eq!(calls[first..], publication.concat());
}

/// Interrupts system calls and writes one byte at a time, then the disk is full.
#[derive(Debug, Default)]
struct Drip(Mutex<u64>);

impl Storage for Drip {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let mut calls = self.0.lock().unwrap();
        *calls += 1;
        match *calls {
            1000.. => Ok(0),
            odd if odd % 2 == 1 => Err(io::ErrorKind::Interrupted.into()),
            _ => Disk.write(file, &bytes[..1]),
        }
    }
}

/// A disk whose write-backs wait for four more writes, or fail.
#[derive(Debug, Default)]
struct SlowDisk {
    writes: Mutex<usize>,
    more: Condvar,
    write_backs: Mutex<usize>,
    fails: bool,
}

impl Storage for Arc<SlowDisk> {
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        *self.writes.lock().unwrap() += 1;
        self.more.notify_all();
        Disk.write(file, bytes)
    }

    fn write_back(&self, _: &File) -> io::Result<()> {
        if self.fails {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *self.write_backs.lock().unwrap() += 1;
        let writes = self.writes.lock().unwrap();
        let enough = *writes + 4;
        // Without an overlap the writes never come.
        drop(self.more.wait_while(writes, |writes| *writes < enough).unwrap());
        Ok(())
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

/// One id per byte.
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
}

impl Encoder for Letters {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        ids.extend(text.bytes().map(u32::from));
        Ok(())
    }
}

/// Encodes this many bytes to twice as many.
fn encode_letters(options: &OutputOptions, disk: &Arc<SlowDisk>, bytes: usize) -> Result<Summary, Box<RunError>> {
    let text = "x".repeat(999) + "\n";
    let input = io::Cursor::new(text.repeat(bytes / 1000).into_bytes());
    let input = InputFile::from_reader("letters", input, crate::input::Format::Lines, Some(Compression::None));
    let output = Output::create_in(options, &Staging::on(Box::new(Arc::clone(disk)))).unwrap();
    encode_with(Job::new(vec![input]), &Letters, TokenizerIdentity::default(), output, &())
}

#[test]
fn encoding_goes_on_while_the_disk_is_slow() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::default();
    // The first write-back is due after 32 MiB, and four more writes of 1 MiB follow.
    let summary = encode_letters(&options(directory.path(), Format::Nanogpt, false), &disk, 24_000_000).unwrap();
    assert_eq!(summary.published.unwrap().files[0].bytes, 2 * 24_000_000);
    assert_eq!(*disk.write_backs.lock().unwrap(), 1);
}

#[test]
fn a_write_back_that_fails_ends_the_run_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(SlowDisk { fails: true, ..SlowDisk::default() });
    let failed = encode_letters(&options(directory.path(), Format::Npy, false), &disk, 24_000_000).unwrap_err();
    assert!(failed.to_string().starts_with("cannot write back "), "{failed}");
    assert!(matches!(&failed.error, EncodeError::Output(error) if error.kind() == OutputErrorKind::Io));
    assert_eq!(contents(directory.path()), BTreeMap::new());
}

#[test]
fn interrupted_and_tiny_writes_are_continued_and_a_write_of_nothing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), Format::Nanogpt, false);
    for (documents, fits) in [(100, true), (400, false)] {
        let options = OutputOptions { overwrite: true, ..options.clone() };
        let mut output = Output::create_in(&options, &Staging::on(Box::new(Drip::default()))).unwrap();
        (0..documents).for_each(|_| output.append(&[], &[0]).unwrap());
        let writer = output.parts[0].writer.take().unwrap();
        let complete = writer.finish("");
        assert_eq!(complete.is_ok(), fits, "{complete:?}");
        match complete {
            Ok(files) => assert_eq!(files[0].0.bytes, 200),
            Err(error) => assert_eq!(error.kind(), OutputErrorKind::Io),
        }
    }
    assert_eq!(contents(directory.path()), BTreeMap::new());
}

#[test]
fn a_document_too_long_for_the_format_is_refused_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut output = Output::create(&options(directory.path(), Format::Megatron, false)).unwrap();
    output.common.longest = 3;
    output.append(&[1, 2], &[2]).unwrap();
    let error = output.append(&[1, 2, 3], &[0, 0, 3]).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::Document);
    assert_eq!(error.document(), Some(3));
    assert_eq!((output.documents(), output.tokens()), (1, 3), "the refused run is not counted");
    output.append(&[4, 5], &[2]).unwrap();
    let documents = Documents { read: 3, written: 2, skipped: 1, ..Documents::default() };
    output.skip(SkippedDocument::default()).unwrap();
    output.publish(Manifest { documents, ..Manifest::default() }).unwrap();
    let bin = fs::read(directory.path().join("out.bin")).unwrap();
    assert_eq!(bin, [1, 0, 2, 0, 7, 0, 4, 0, 5, 0, 7, 0]);
}

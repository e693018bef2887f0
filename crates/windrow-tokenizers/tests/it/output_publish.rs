//! Unwritable places, competing runs, leftovers, interruptions.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use windrow_tokenizers::manifest::{Documents, Manifest, SkippedDocument};
use windrow_tokenizers::output::{Format, Output, OutputError, OutputErrorKind, OutputOptions, Staging};

fn options(directory: &Path, format: Format) -> OutputOptions {
    OutputOptions { format, append_eos: Some(0), ..OutputOptions::new(directory.join("out"), 300) }
}

fn body(written: u64) -> Manifest {
    let documents = Documents { read: written, written, ..Documents::default() };
    Manifest { documents, ..Manifest::default() }
}

fn write(options: &OutputOptions) -> Result<(), OutputError> {
    let mut output = Output::create(options)?;
    output.append(&[1, 2, 3], &[3])?;
    output.publish(body(1)).map(drop)
}

fn names(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        // A directory with files is shown by these.
        let within = if entry.path().is_dir() { names(&entry.path()) } else { BTreeSet::new() };
        let is_file = within.is_empty();
        found.extend(within.into_iter().map(|file| format!("{name}/{file}")).chain(is_file.then(|| name.clone())));
    }
    found
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(String::from).into()
}

/// Expects `CannotCreate` or `Exists`, the parts `said` in the message, and a hint.
#[track_caller]
fn refused(result: Result<impl Sized, OutputError>, said: &[&str]) {
    let error = result.err().expect("the output is refused");
    assert!(matches!(error.kind(), OutputErrorKind::CannotCreate | OutputErrorKind::Exists), "{error}");
    let text = error.to_string();
    for said in said {
        assert!(text.contains(said), "{said:?} is missing: {text}");
    }
    assert!(text.contains("\nhint: "), "{text}");
}

#[test]
fn an_existing_file_of_the_format_is_refused_by_name() {
    for format in Format::ALL {
        for target in options(Path::new(""), format).targets() {
            let directory = tempfile::tempdir().unwrap();
            let existing = directory.path().join(&target);
            fs::create_dir_all(existing.parent().unwrap()).unwrap();
            fs::write(&existing, "precious").unwrap();
            refused(write(&options(directory.path(), format)), &[existing.to_str().unwrap(), "--overwrite"]);
            assert_eq!(fs::read_to_string(&existing).unwrap(), "precious");
            assert_eq!(names(directory.path()).len(), 1);
        }
    }
}

#[test]
fn overwrite_replaces_this_format_and_the_manifest_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Nanogpt)).unwrap();
    refused(write(&options(directory.path(), Format::Jsonl)), &["out.manifest.json already exists"]);
    let old_manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
    write(&OutputOptions { overwrite: true, ..options(directory.path(), Format::Jsonl) }).unwrap();
    assert_eq!(names(directory.path()), set(["out.bin", "out.jsonl", "out.manifest.json"]));
    assert_ne!(fs::read(directory.path().join("out.manifest.json")).unwrap(), old_manifest);
}

#[test]
fn what_overwrite_would_replace_stays_until_publication() {
    let directory = tempfile::tempdir().unwrap();
    let options = OutputOptions { overwrite: true, ..options(directory.path(), Format::Jsonl) };
    let old = directory.path().join("out.jsonl");
    fs::write(&old, "old").unwrap();
    let mut output = Output::create(&options).unwrap();
    output.append(&[1], &[1]).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    output.abandon();
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(names(directory.path()), set(["out.jsonl"]));
    write(&options).unwrap();
    assert_eq!(fs::read_to_string(&old).unwrap(), "{\"ids\":[1,2,3,0]}\n");
}

#[test]
fn bad_places_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| OutputOptions::new(directory.path().join(path), 300);
    refused(write(&at("missing/out")), &["missing does not exist", "mkdir -p"]);
    fs::write(directory.path().join("file"), "").unwrap();
    refused(write(&at(&"x".repeat(300))), &["cannot create"]);
    fs::create_dir(directory.path().join("taken.offsets.npy")).unwrap();
    refused(write(&OutputOptions { overwrite: true, ..at("taken") }), &["taken.offsets.npy is a directory"]);
    assert_eq!(names(directory.path()), set(["file", "taken.offsets.npy"]));
}

#[test]
fn an_unwritable_directory_is_named() {
    // This directory refuses new files to every user, even root.
    if !Path::new("/proc/self").is_dir() {
        return println!("skipped: no /proc on this system");
    }
    refused(write(&OutputOptions::new("/proc/self/out", 300)), &["cannot create /proc/self/out.windrow-lock"]);
}

#[test]
fn a_prefix_without_a_name_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    for (prefix, said) in [
        (PathBuf::new(), "is empty"),
        (directory.path().join(""), "ends in a separator"),
        (directory.path().join(".."), "has no file name"),
        (directory.path().join("x/."), "has no file name"),
        (PathBuf::from("."), "has no file name"),
        (directory.path().join("-"), "begins with a dash"),
        (PathBuf::from("/dev/null/out"), "/dev/null is a device"),
    ] {
        let error = write(&OutputOptions::new(&prefix, 300)).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Usage, "{prefix:?}: {error}");
        assert!(error.to_string().contains(said), "{prefix:?}: {error}");
        assert!(error.to_string().contains("\nhint: "), "{error}");
    }
    assert_eq!(names(directory.path()), set([]));
}

#[test]
fn an_input_is_never_an_output() {
    let directory = tempfile::tempdir().unwrap();
    let options = OutputOptions { overwrite: true, ..options(directory.path(), Format::Jsonl) };
    let [other, collides] = ["other.jsonl", "out.jsonl"].map(|name| directory.path().join(name));
    fs::write(&other, "").unwrap();
    options.check_inputs([&other, &collides]).unwrap();
    fs::write(&collides, "").unwrap();
    options.check_inputs([&other]).unwrap();
    refused(options.check_inputs([&other, &collides]), &["out.jsonl is an input of this run"]);
    let indirect = directory.path().join("..").join(directory.path().file_name().unwrap()).join("out.jsonl");
    refused(options.check_inputs([&indirect]), &["out.jsonl is an input of this run"]);
    let staged = directory.path().join("out.jsonl.windrow-part");
    fs::write(&staged, "").unwrap();
    refused(options.check_inputs([&staged]), &["out.jsonl.windrow-part is an input of this run"]);
}

#[cfg(unix)]
#[test]
fn links_are_recognized_and_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = |name: &str| std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
    link("out.bin");
    link("out.bin.windrow-part");
    let options = options(directory.path(), Format::Nanogpt);
    refused(options.check_inputs([&victim]), &["out.bin is an input of this run"]);
    refused(write(&options), &["out.bin already exists"]);
    write(&OutputOptions { overwrite: true, ..options.clone() }).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(directory.path().join("out.bin").symlink_metadata().unwrap().is_file());

    link("out.windrow-lock");
    refused(
        write(&OutputOptions { overwrite: true, ..options }),
        &["out.windrow-lock is in the way: it is a symbolic link"],
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_second_run_is_refused_at_once_and_harms_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), Format::Npy);
    let mut first = Output::create(&options).unwrap();
    first.append(&[1, 2], &[2]).unwrap();
    for format in Format::ALL {
        let second = OutputOptions { format, overwrite: true, ..options.clone() };
        refused(Output::create(&second), &["another run is writing", options.prefix.to_str().unwrap()]);
    }
    first.append(&[3], &[1]).unwrap();
    first.publish(body(2)).unwrap();
    refused(Output::create(&options), &["already exists"]);
    write(&OutputOptions { overwrite: true, ..options }).unwrap();
}

#[test]
fn of_many_runs_at_once_one_wins() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), Format::Npy);
        let results: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| write(&options))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        results.into_iter().filter(Result::is_err).for_each(|lost| refused(lost, &[]));
        assert_eq!(names(directory.path()), set(["out.ids.npy", "out.manifest.json", "out.offsets.npy"]));
    }
}

#[test]
fn stale_files_of_a_killed_run_are_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["out.bin", "out.idx", "out.ids.npy", "out.manifest.json"] {
        fs::write(directory.path().join(name.to_owned() + ".windrow-part"), "x".repeat(10_000)).unwrap();
    }
    fs::write(directory.path().join("out.windrow-lock"), "windrow 1\n").unwrap();
    write(&options(directory.path(), Format::Npy)).unwrap();
    assert_eq!(names(directory.path()), set(["out.ids.npy", "out.manifest.json", "out.offsets.npy"]));
    let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
    serde_json::from_slice::<serde_json::Value>(&manifest).expect("nothing of the longer stale file is left in it");
}

#[test]
fn old_data_that_a_killed_run_moved_aside_comes_back_and_is_then_refused_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let options = OutputOptions { overwrite: true, ..options(directory.path(), Format::Npy) };
    write(&options).unwrap();
    let all = ["out.ids.npy", "out.manifest.json", "out.offsets.npy"];
    let bytes = |name: &str| fs::read(directory.path().join(name)).unwrap();
    let before = all.map(bytes);
    for name in ["out.manifest.json", "out.ids.npy"] {
        fs::rename(directory.path().join(name), directory.path().join(name.to_owned() + ".windrow-old")).unwrap();
    }
    fs::write(directory.path().join("out.ids.npy"), "new, and without a manifest").unwrap();
    refused(write(&OutputOptions { overwrite: false, ..options.clone() }), &["already exists"]);
    assert_eq!(all.map(bytes), before);
    assert_eq!(names(directory.path()), set(all));
    write(&options).unwrap();
    assert_eq!(names(directory.path()), set(all));
}

#[test]
fn skipped_documents_are_all_in_the_list_and_the_first_in_the_manifest() {
    let directory = tempfile::tempdir().unwrap();
    let options = OutputOptions { list_skipped: true, ..options(directory.path(), Format::Npy) };
    assert_eq!(options.targets().iter().filter(|path| path.ends_with("out.skipped.jsonl")).count(), 1);
    let mut output = Output::create(&options).unwrap();
    let bad = |line| SkippedDocument { file: "a\n.txt".into(), line, ..SkippedDocument::default() };
    (1..=2_500).for_each(|line| output.skip(bad(line)).unwrap());
    let documents = Documents { read: 2_500, skipped: 2_500, ..Documents::default() };
    let published = output.publish(Manifest { documents, ..Manifest::default() }).unwrap();
    assert_eq!(published.files.last().unwrap().file, "out.skipped.jsonl");
    let list = fs::read_to_string(directory.path().join("out.skipped.jsonl")).unwrap();
    let listed: Vec<SkippedDocument> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(listed, (1..=2_500).map(bad).collect::<Vec<_>>());
    let manifest = fs::read(directory.path().join("out.manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest.skipped, listed[..1000]);
    assert_eq!(manifest.outputs[2].blake3, blake3::hash(list.as_bytes()).to_hex().as_str());
}

#[test]
fn a_stale_name_that_cannot_be_removed_is_named() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("out.ids.npy.windrow-part")).unwrap();
    refused(write(&options(directory.path(), Format::Npy)), &["out.ids.npy.windrow-part"]);
    assert_eq!(names(directory.path()), set(["out.ids.npy.windrow-part"]));
}

#[test]
fn abandoning_removes_everything_and_stops_the_writer() {
    for format in Format::ALL {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), format);
        let mut output = Output::create(&options).unwrap();
        let handle = output.handle();
        output.append(&[1; 3_000_000], &[3_000_000]).unwrap();
        assert!(std::thread::spawn(move || handle.abandon()).join().unwrap());
        assert_eq!(names(directory.path()), set([]));
        assert_eq!(output.append(&[1], &[1]).unwrap_err().kind(), OutputErrorKind::Interrupted);
        // The prefix is free, and the end of the abandoned run does not touch the files of the next one.
        let next = Output::create(&options).unwrap();
        let error = output.publish(body(1)).unwrap_err();
        assert_eq!(error.kind(), OutputErrorKind::Interrupted);
        next.publish(body(0)).unwrap();
        let shard = usize::from(format == Format::Mds);
        assert_eq!(names(directory.path()).len(), format.suffixes().len() + 1 + shard);
    }
}

#[test]
fn abandoning_before_creation_and_after_publication() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), Format::Npy);
    let early = Staging::default();
    assert!(early.abandon());
    assert_eq!(Output::create_in(&options, &early).unwrap_err().kind(), OutputErrorKind::Interrupted);
    assert_eq!(names(directory.path()), set([]));

    let output = Output::create(&options).unwrap();
    let late = output.handle();
    output.publish(body(0)).unwrap();
    assert!(!late.abandon(), "it is too late");
    assert_eq!(names(directory.path()).len(), 3);
    assert_eq!(Output::create_in(&options, &late).unwrap_err().kind(), OutputErrorKind::Usage);
    assert_eq!(names(directory.path()).len(), 3);
}

#[test]
fn one_staging_cannot_serve_two_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let staging = Staging::default();
    let first = Output::create_in(&options(directory.path(), Format::Npy), &staging).unwrap();
    let other = OutputOptions { prefix: directory.path().join("other"), ..options(directory.path(), Format::Npy) };
    assert_eq!(Output::create_in(&other, &staging).unwrap_err().kind(), OutputErrorKind::Usage);
    first.publish(body(0)).expect("the first one is not harmed");
}

#[test]
fn a_panic_removes_everything() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), Format::Npy);
    std::thread::spawn(move || {
        let _output = Output::create(&options).unwrap();
        panic!("as an engine might");
    })
    .join()
    .unwrap_err();
    assert_eq!(names(directory.path()), set([]));
}

#[test]
fn a_name_taken_meanwhile_is_not_replaced_and_nothing_else_appears() {
    for overwrite in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let options = OutputOptions { overwrite, ..options(directory.path(), Format::Megatron) };
        let output = Output::create(&options).unwrap();
        fs::create_dir(directory.path().join("out.idx")).unwrap();
        refused(output.publish(body(0)), &["out.idx is a directory"]);
        assert_eq!(names(directory.path()), set(["out.idx"]));
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Output::create(&options(directory.path(), Format::Megatron)).unwrap();
    File::create_new(directory.path().join("out.idx")).unwrap();
    refused(output.publish(body(0)), &["out.idx already exists"]);
    assert_eq!(names(directory.path()), set(["out.idx"]));
}

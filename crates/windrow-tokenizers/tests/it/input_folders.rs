//! Folders as they lie on disks: leavings of jobs, texts about the data, links to nothing; and names that lead to no path.

use std::fs;
use std::path::Path;

use windrow_tokenizers::input::{Format, InputError, InputOptions, Resolved, WalkOptions, resolve};

/// A directory of files with these names; each contains its name.
fn tree(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

/// The names of the inputs and the notes, both relative to `dir`.
fn found(dir: &tempfile::TempDir, below: &str, options: &InputOptions) -> (Vec<String>, Vec<String>) {
    let arg = dir.path().join(below).to_str().unwrap().trim_end_matches('/').to_owned();
    let Resolved { files, notes, .. } = resolve(&[arg], options).unwrap();
    let root = format!("{}/", dir.path().display());
    let names = files.iter().map(|file| file.name().replace(&root, "")).collect();
    (names, notes.iter().map(|note| note.replace(&root, "").replace(root.trim_end_matches('/'), "DIR")).collect())
}

fn hidden() -> InputOptions {
    InputOptions { walk: WalkOptions { hidden: true, ..WalkOptions::default() }, ..InputOptions::default() }
}

fn source(all_text: bool) -> InputOptions {
    let walk = WalkOptions { source: true, ..WalkOptions::default() };
    InputOptions { walk, all_text, extensions: vec!["py".to_owned()], ..InputOptions::default() }
}

const JOB: [&str; 12] = [
    "out/_SUCCESS.txt",
    "out/_delta_log/0.jsonl",
    "out/_temporary/0/_temporary/part-0.jsonl",
    "out/.part-0.jsonl.crc",
    "out/_key=1/part-0.jsonl",
    "out/a=1/_committed_7.jsonl",
    "out/a=1/part-1.jsonl",
    "out/a_b/part-2.jsonl",
    "out/part-3.jsonl._COPYING_",
    "out/part-4._copying.jsonl",
    "out/_started_7.parquet",
    "out/__MACOSX/x.txt",
];
const DATA: [&str; 4] =
    ["out/_key=1/part-0.jsonl", "out/a=1/part-1.jsonl", "out/a_b/part-2.jsonl", "out/part-4._copying.jsonl"];

#[test]
fn what_data_jobs_leave_is_hidden_where_it_is_not_named() {
    let dir = tree(&JOB);
    let (names, notes) = found(&dir, "out", &InputOptions::default());
    assert_eq!(names, DATA);
    let note = "out: 8 hidden files and folders excluded, such as _SUCCESS.txt, __MACOSX, _committed_7.jsonl (pass --hidden to include hidden entries)";
    assert_eq!(notes, [note]);
    assert_eq!(found(&dir, "out", &hidden()).0.len(), 10);

    // Patterns hide the same, unless they name it.
    let (names, notes) = found(&dir, "out/**/*.jsonl", &InputOptions::default());
    assert_eq!(names, DATA);
    assert!(
        notes[0].contains("3 hidden files and folders excluded, such as _committed_7.jsonl, _delta_log, _temp"),
        "{notes:?}"
    );
    for (below, expected) in [
        ("out/_temporary", &JOB[..0]),
        ("out/_delta_log", &JOB[1..2]),
        ("out/_delta_log/*.jsonl", &JOB[1..2]),
        ("out/_d*/*", &JOB[1..2]),
        ("out/a=1/_committed_7.jsonl", &JOB[5..6]),
    ] {
        if expected.is_empty() {
            // Inside a named folder, the rule holds again.
            let arg = dir.path().join(below).display().to_string();
            let error = resolve(&[arg], &InputOptions::default()).unwrap_err().to_string();
            assert!(error.contains("not counting 1 hidden or ignored") && error.contains("`--hidden`"), "{error}");
        } else {
            assert_eq!(found(&dir, below, &InputOptions::default()).0, expected, "{below}");
        }
    }
    let error =
        resolve(&[dir.path().join("out/_*e*/*.jsonl._COPYING_").display().to_string()], &InputOptions::default());
    assert!(matches!(error, Err(InputError::NoMatch { hidden: 0, .. })));
    let error = resolve(&[dir.path().join("out/*.parquet").display().to_string()], &InputOptions::default());
    assert!(matches!(error, Err(InputError::NoMatch { hidden: 1, .. })));
}

#[test]
fn source_code_may_begin_with_an_underscore_but_data_may_not() {
    let dir = tree(&["src/__init__.py", "src/_private/x.py", "src/_temporary/a.jsonl", "src/b.jsonl", "src/.git/y.py"]);
    let (names, notes) = found(&dir, "src", &source(false));
    assert_eq!(names, ["src/__init__.py", "src/_private/x.py", "src/b.jsonl"]);
    assert_eq!(
        notes[0],
        "src: 2 hidden files and folders excluded, such as _temporary (pass --hidden to include hidden entries)"
    );
    assert_eq!(found(&dir, "src", &source(true)).0, ["src/__init__.py", "src/_private/x.py", "src/b.jsonl"]);
}

#[test]
fn folders_that_are_hardly_one_corpus_get_a_note() {
    for (files, note) in [
        (
            &["README.md", "LICENSE.txt", "data/train.parquet"][..],
            "d: of 3 files, 2 are text: LICENSE.txt, README.md; 1 is Parquet: data/train.parquet (with --input-format parquet, only Parquet is read)",
        ),
        (
            &["a.jsonl.gz", "b.jsonl.gz", "SHA256SUMS.txt"],
            "d: of 3 files, 1 is text: SHA256SUMS.txt; 2 are JSON lines: a.jsonl.gz, b.jsonl.gz (the quoted pattern 'd/**/*.jsonl*' selects only JSON lines)",
        ),
        (
            &["a.parquet", "b.parquet", "metadata.jsonl"],
            "d: of 3 files, 1 is JSON lines: metadata.jsonl; 2 are Parquet: a.parquet, b.parquet (with --input-format parquet, only Parquet is read)",
        ),
        (
            &["a.txt", "b.txt", "LICENSE.txt"],
            "d: LICENSE.txt is also read as a document (to exclude such files, pass the other files or a quoted pattern)",
        ),
        (
            &["a.txt", "README.md", "SHA256SUMS.txt"],
            "d: README.md, SHA256SUMS.txt are also read as documents (to exclude such files, pass the other files or a quoted pattern)",
        ),
        (&["a.jsonl", "a.jsonl.gz"], "d: a.jsonl and a.jsonl.gz differ only in their compression, and both are read"),
        (
            &["a.txt.gz", "a.txt.zst", "b.txt", "b.txt.gz"],
            "d: a.txt.gz and a.txt.zst differ only in their compression, and both are read; so is 1 more pair",
        ),
        (
            &["a.jsonl", "b.jsonl.lz", "c.jsonl.lz4"],
            "d: 2 files with other extensions were ignored; 2 look like data: b.jsonl.lz, c.jsonl.lz4 (the first is lzip data; hint: decompress it: lzip -dc FILE | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl)",
        ),
        (
            &["a.txt", "data.csv", "x.bin"],
            "d: 2 files with other extensions were ignored; 1 looks like data: data.csv (a CSV or TSV table",
        ),
    ] {
        let dir = tree(
            &files
                .iter()
                .map(|file| format!("d/{file}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        );
        let notes = found(&dir, "d", &InputOptions::default()).1;
        assert!(notes.len() == 1 && notes[0].starts_with(note), "{files:?}: {notes:?}");
    }
    // A manual, one format, and files that are named need none.
    for (files, options) in [
        (&["d/README.md", "d/a.md"][..], InputOptions::default()),
        (&["d/README.md"], InputOptions::default()),
        (&["d/a.jsonl", "d/b.jsonl.gz"], InputOptions::default()),
        (&["d/LICENSE.txt", "d/a.py"], source(true)),
        (&["d/a.jsonl", "d/b.txt"], InputOptions { format: Some(Format::Jsonl), ..InputOptions::default() }),
    ] {
        let dir = tree(files);
        assert_eq!(found(&dir, "d", &options).1, [""; 0], "{files:?}");
        let args: Vec<String> = files.iter().map(|file| dir.path().join(file).display().to_string()).collect();
        assert!(resolve(&args, &options).unwrap().notes.is_empty());
    }
    let dir = tree(&["d/a.parquet", "d/README.md"]);
    let notes = found(&dir, "d/*", &InputOptions::default()).1;
    assert!(notes[0].contains("1 is text: ") && notes[0].contains("README.md; 1 is Parquet: "), "{notes:?}");
    // A folder whose data is of a kind that is not read.
    let dir = tree(&["d/data-0.arrow", "d/state.xml"]);
    let error =
        resolve(&[dir.path().join("d").display().to_string()], &InputOptions::default()).unwrap_err().to_string();
    assert!(error.contains("\nhint: data-0.arrow is Arrow data: convert it to Parquet"), "{error}");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_ends_no_folder() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tree(&["d/a.txt", "d/closed/b.txt", "d/locked.txt"]);
    symlink("nowhere", dir.path().join("d/lost.txt")).unwrap();
    symlink("self.txt", dir.path().join("d/self.txt")).unwrap();
    symlink("nowhere", dir.path().join("d/lost.dat")).unwrap();
    for (name, mode) in [("d/closed", 0), ("d/locked.txt", 0)] {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let is_root = fs::read_dir(dir.path().join("d/closed")).is_ok();
    let (names, notes) = found(&dir, "d", &InputOptions::default());
    let (by_pattern, _) = found(&dir, "d/a*.txt", &InputOptions::default());
    let named = ["lost.txt", "self.txt"].map(|name| dir.path().join("d").join(name).display().to_string());
    let errors = named.map(|name| resolve(&[name], &InputOptions::default()).unwrap_err());
    fs::set_permissions(dir.path().join("d/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(by_pattern, ["d/a.txt"]);
    assert_eq!(names[0], "d/a.txt");
    assert_eq!(names.len(), if is_root { 3 } else { 1 });
    let count = if is_root { 3 } else { 4 };
    let note = format!("d: {count} entries could not be read and were ignored (the first: ");
    assert!(notes.iter().any(|found| found.starts_with(&note) && found.contains(" (os error ")), "{notes:?}");
    assert!(notes.iter().any(|found| is_root || found.contains("locked.txt: Permission denied")), "{notes:?}");
    for error in errors {
        assert!(matches!(error, InputError::Unreadable { .. }), "{error}");
    }
    // Nothing else is there.
    let dir = tree(&[]);
    symlink("nowhere", dir.path().join("lost.txt")).unwrap();
    let error = resolve(&[dir.path().display().to_string()], &InputOptions::default()).unwrap_err().to_string();
    assert!(error.contains("lost.txt: cannot be opened: No such file or directory (os error 2)\n"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_descriptors_need_no_path() {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsRawFd;
    use windrow_tokenizers::input::{Batch, Reader};

    let text = b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
    let packed = zstd::encode_all(&text[..], 1).unwrap();
    let options = InputOptions { format: Some(Format::Jsonl), ..InputOptions::default() };
    let records = |path: String| {
        let resolved = resolve(std::slice::from_ref(&path), &options).unwrap();
        assert_eq!(resolved.files[0].name(), path);
        let mut reader = Reader::new(resolved.files, 1 << 10);
        reader.next_batch(Batch::default(), &mut |_| Ok(())).unwrap().unwrap().records.len()
    };
    for bytes in [&text[..], &packed] {
        for folder in ["/dev/fd", "/proc/self/fd"] {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(bytes).unwrap();
            drop(writer);
            assert_eq!(records(format!("{folder}/{}", reader.as_raw_fd())), 2);

            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("gone.jsonl");
            let mut file = fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
            file.write_all(bytes).unwrap();
            fs::remove_file(&path).unwrap();
            file.rewind().unwrap();
            assert_eq!(records(format!("{folder}/{}", file.as_raw_fd())), 2);
            let mut rest = Vec::new();
            file.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, bytes, "the descriptor of the caller has not moved");
        }
    }
    // Two names of one file are one, two pipes are two.
    let (one, _writer) = std::io::pipe().unwrap();
    let (two, _writer) = std::io::pipe().unwrap();
    let name = |folder: &str, pipe: &std::io::PipeReader| format!("{folder}/{}", pipe.as_raw_fd());
    let notes = |names: &[String]| resolve(names, &options).unwrap().notes.len();
    assert_eq!(notes(&[name("/dev/fd", &one), name("/dev/fd", &two)]), 0);
    assert_eq!(notes(&[name("/dev/fd", &one), name("/proc/self/fd", &one)]), 1);
    // A socket cannot be opened by its name.
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let file = resolve(&[format!("/dev/fd/{}", socket.as_raw_fd())], &options).unwrap().files;
    let error = Reader::new(file, 1 << 10).next_batch(Batch::default(), &mut |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("\nhint: "), "{error}");
    assert!(Path::new("/dev/fd").exists());
}

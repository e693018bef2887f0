//! Arguments become files.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windrow_tokenizers::input::{
    Batch, Compression, ErrorClass, Format, InputError, InputOptions, Reader, Resolved, WalkOptions, resolve, walk,
};

/// A directory of files with these names; each contains its name.
fn tree(names: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    dir
}

fn arg(path: impl AsRef<Path>) -> String {
    path.as_ref().to_str().unwrap().to_string()
}

fn plain(args: &[String]) -> Result<Resolved, InputError> {
    resolve(args, &InputOptions::default())
}

/// The names of the files, relative to `dir`.
fn names(dir: &TempDir, resolved: &Resolved) -> Vec<String> {
    let strip =
        |name: &str| Path::new(name).strip_prefix(dir.path()).map_or_else(|_| PathBuf::from(name), Path::to_path_buf);
    resolved.files.iter().map(|file| arg(strip(file.name()))).collect()
}

/// The message for an argument that must be refused because of its syntax.
fn refused(args: &[String]) -> String {
    let error = plain(args).expect_err("these arguments are wrong");
    assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    let message = error.to_string();
    assert!(message.contains("\nhint: "), "{message}");
    message
}

#[test]
fn extensions_name_format_and_compression() {
    use Compression::{Gzip, None, Zstd};
    use Format::{Jsonl, Text};
    for (name, format, compression) in [
        ("a.txt", Text, None),
        ("a.text", Text, None),
        ("a.md", Text, None),
        ("a.jsonl", Jsonl, None),
        ("a.ndjson", Jsonl, None),
        ("a.txt.gz", Text, Gzip),
        ("a.b.jsonl.zst", Jsonl, Zstd),
        ("a.ndjson.zstd", Jsonl, Zstd),
        ("A.JSONL.GZ", Jsonl, Gzip),
    ] {
        let dir = tree(&[name]);
        let resolved = plain(&[arg(dir.path().join(name))]).unwrap();
        let file = &resolved.files[0];
        assert_eq!((file.format(), file.compression()), (format, Some(compression)), "{name}");
        assert_eq!(file.bytes(), Some(name.len() as u64));
        assert!(resolved.notes.is_empty());
    }
}

#[test]
fn lines_replaces_text_only() {
    let dir = tree(&["a.txt", "b.jsonl"]);
    let args = [arg(dir.path()), "-".into()];
    let formats = |options: InputOptions| -> Vec<_> {
        resolve(&args, &options).unwrap().files.iter().map(|file| file.format()).collect()
    };
    assert_eq!(formats(InputOptions::default()), [Format::Text, Format::Jsonl, Format::Text]);
    let lines = InputOptions { lines: true, ..InputOptions::default() };
    assert_eq!(formats(lines), [Format::Lines, Format::Jsonl, Format::Lines]);
    let forced = |lines, format| InputOptions { lines, format: Some(format), ..InputOptions::default() };
    assert_eq!(formats(forced(false, Format::Jsonl)), [Format::Jsonl; 3]);
    assert_eq!(formats(forced(false, Format::Lines)), [Format::Lines; 3]);
    assert_eq!(formats(forced(true, Format::Text)), [Format::Lines; 3]);
    assert_eq!(formats(forced(true, Format::Jsonl)), [Format::Jsonl; 3]);
}

#[test]
fn the_order_of_arguments_is_kept() {
    let dir = tree(&["b.txt", "a.txt", "sub/c.txt"]);
    let args = [arg(dir.path().join("sub")), arg(dir.path().join("b.txt")), "-".into(), arg(dir.path().join("a.txt"))];
    assert_eq!(names(&dir, &plain(&args).unwrap()), ["sub/c.txt", "b.txt", "-", "a.txt"]);
}

#[test]
fn directories_are_walked_in_bytewise_order() {
    let dir = tree(&["a/z.txt", "a.txt", "a-b.txt", "B.txt", "a/b/c.jsonl.gz", "\u{e4}.md", "b.txt"]);
    let resolved = plain(&[arg(dir.path())]).unwrap();
    assert_eq!(
        names(&dir, &resolved),
        ["B.txt", "a-b.txt", "a.txt", "a/b/c.jsonl.gz", "a/z.txt", "b.txt", "\u{e4}.md"]
    );
}

#[test]
fn other_files_of_a_directory_are_counted() {
    let dir = tree(&["a.txt", "b.pdf", "sub/README", "c.gz"]);
    let resolved = plain(&[arg(dir.path())]).unwrap();
    assert_eq!(names(&dir, &resolved), ["a.txt"]);
    assert_eq!(resolved.notes, [format!("{}: 3 files with other extensions were ignored", dir.path().display())]);
    // A forced format does not make every file an input.
    let forced = InputOptions { format: Some(Format::Text), ..InputOptions::default() };
    assert_eq!(resolve(&[arg(dir.path())], &forced).unwrap().files.len(), 1);
}

#[test]
fn a_directory_without_input_is_an_error() {
    let dir = tree(&["a.pdf", "sub/b"]);
    assert!(refused(&[arg(dir.path())]).contains("no input in this directory (files of other kinds: 2)"));
    let empty = tree(&[]);
    assert!(refused(&[arg(empty.path())]).contains("no input in this directory (files of other kinds: 0)"));
}

#[test]
fn hidden_entries_are_excluded_and_counted() {
    let dir = tree(&["a.txt", ".hidden.txt", ".git/b.txt", "sub/.c.txt", "sub/.d/e.txt"]);
    let resolved = plain(&[arg(dir.path())]).unwrap();
    assert_eq!(names(&dir, &resolved), ["a.txt"]);
    let note = format!(
        "{}: 4 hidden files and folders excluded (pass --hidden to include hidden entries)",
        dir.path().display()
    );
    assert_eq!(resolved.notes, [note]);

    let hidden =
        InputOptions { walk: WalkOptions { hidden: true, ..WalkOptions::default() }, ..InputOptions::default() };
    let resolved = resolve(&[arg(dir.path())], &hidden).unwrap();
    assert_eq!(names(&dir, &resolved), [".git/b.txt", ".hidden.txt", "a.txt", "sub/.c.txt", "sub/.d/e.txt"]);
    assert!(resolved.notes.is_empty(), "{:?}", resolved.notes);
    // A hidden folder is read if it is named.
    assert_eq!(plain(&[arg(dir.path().join(".git"))]).unwrap().files.len(), 1);
    assert!(refused(&[arg(dir.path().join("sub"))]).contains("), not counting 2 hidden or ignored"));
}

#[test]
fn ignore_files_count_on_request_and_what_they_name_is_counted() {
    let dir = tree(&["a.txt", "b.txt", "target/c.txt", "target/deep/d.txt", "sub/e.txt", ".git/HEAD"]);
    fs::write(dir.path().join(".gitignore"), "/target\nb.txt\n").unwrap();
    fs::write(dir.path().join("sub/.ignore"), "e.*\n").unwrap();
    assert_eq!(plain(&[arg(dir.path())]).unwrap().files.len(), 5);

    let options = WalkOptions { ignore_files: true, source: true, hidden: false };
    let walked = walk(dir.path(), &options).unwrap();
    assert_eq!(walked.files, [dir.path().join("a.txt")]);
    assert_eq!((walked.hidden, walked.ignored, walked.special), (3, 3, 0));
    let root = dir.path().display();
    assert_eq!(
        walked.notes,
        [
            format!("{root}: 3 hidden files and folders excluded (pass --hidden to include hidden entries)"),
            format!(
                "{root}: 3 files and folders excluded by ignore files (pass --no-ignore to include ignored entries)"
            )
        ]
    );
    let all = walk(dir.path(), &WalkOptions { hidden: true, ignore_files: true, source: true }).unwrap();
    assert_eq!((all.files.len(), all.hidden, all.ignored), (4, 0, 3));
}

#[test]
fn extensions_can_be_added() {
    let dir = tree(&["a.rs", "b.PY.gz", "c.h", "d.txt", "e.jsonl"]);
    let options = InputOptions { extensions: vec!["rs".into(), "py".into()], ..InputOptions::default() };
    let resolved = resolve(&[arg(dir.path())], &options).unwrap();
    assert_eq!(names(&dir, &resolved), ["a.rs", "b.PY.gz", "d.txt", "e.jsonl"]);
    let formats: Vec<_> = resolved.files.iter().map(|file| file.format()).collect();
    assert_eq!(formats, [Format::Text, Format::Text, Format::Text, Format::Jsonl]);
    assert_eq!(resolved.files[1].compression(), Some(Compression::Gzip));
    assert_eq!(resolve(&[arg(dir.path().join("a.rs"))], &options).unwrap().files.len(), 1);
}

#[test]
fn all_text_is_what_begins_as_text() {
    let dir = tree(&["Makefile", "a.rs", "b.jsonl", "c.txt.gz", "empty"]);
    let split = [&[b'x'; (64 << 10) - 1][..], "é".as_bytes()].concat();
    for (name, bytes) in [
        ("nul", &b"text\0"[..]),
        ("latin-1", b"caf\xe9 "),
        ("cut", b"caf\xc3"),
        ("image.gz", b"\x1f\x8b\x08\x00"),
        ("empty", b""),
        ("split", &split),
    ] {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    let options = InputOptions { all_text: true, ..InputOptions::default() };
    let resolved = resolve(&[arg(dir.path())], &options).unwrap();
    assert_eq!(names(&dir, &resolved), ["Makefile", "a.rs", "b.jsonl", "c.txt.gz", "empty", "split"]);
    assert!(resolved.files.iter().all(|file| file.format() == Format::Text));
    assert_eq!(resolved.notes, [format!("{}: 4 files that are not text were ignored", dir.path().display())]);

    let pattern = resolve(&[arg(dir.path().join("*t"))], &options).unwrap();
    assert_eq!(names(&dir, &pattern), ["split"]);
    assert!(pattern.notes[0].ends_with("cut: ignored because it is not text"), "{:?}", pattern.notes);
    // A name is explicit.
    assert_eq!(resolve(&[arg(dir.path().join("nul"))], &options).unwrap().files[0].format(), Format::Text);
}

#[test]
fn json_is_json_lines_if_compressed_or_on_request() {
    let dir = tree(&["c4.json.gz", "d.json", "e.jsonl"]);
    assert_eq!(names(&dir, &plain(&[arg(dir.path())]).unwrap()), ["c4.json.gz", "e.jsonl"]);
    assert!(refused(&[arg(dir.path().join("d.json"))]).contains("--input-format"));
    let jsonl = InputOptions { format: Some(Format::Jsonl), ..InputOptions::default() };
    let resolved = resolve(&[arg(dir.path())], &jsonl).unwrap();
    assert_eq!(names(&dir, &resolved), ["c4.json.gz", "d.json", "e.jsonl"]);
    assert_eq!(resolved.files[0].compression(), Some(Compression::Gzip));
}

#[test]
fn patterns_stand_for_what_a_shell_would_put_there() {
    let dir = tree(&["b1.txt", "a1.txt", "a2.jsonl", "sub/a3.txt", ".hidden.txt"]);
    let expand = |pattern: &str| names(&dir, &plain(&[arg(dir.path().join(pattern))]).unwrap());
    assert_eq!(expand("*.txt"), ["a1.txt", "b1.txt"]);
    assert_eq!(expand("a?.*"), ["a1.txt", "a2.jsonl"]);
    assert_eq!(expand("[!a]1.txt"), ["b1.txt"]);
    assert_eq!(expand("**/*.txt"), ["a1.txt", "b1.txt", "sub/a3.txt"]);
    assert_eq!(expand("s*"), ["sub/a3.txt"]);
}

#[test]
fn a_pattern_that_matches_a_file_of_unknown_extension_names_it() {
    let dir = tree(&["a.txt", "b.pdf"]);
    assert!(refused(&[arg(dir.path().join("*"))]).contains("b.pdf: its extension does not indicate"));
}

#[test]
fn a_pattern_without_match_is_an_error() {
    let dir = tree(&["a.txt"]);
    let message = refused(&[arg(dir.path().join("*.jsonl"))]);
    assert!(message.contains("*.jsonl: no file matches this pattern"), "{message}");
}

#[test]
fn a_pattern_that_is_none_is_an_error() {
    let dir = tree(&["a.txt"]);
    let message = refused(&[arg(dir.path().join("[a.txt"))]);
    assert!(message.contains("[a.txt: not a valid pattern: "), "{message}");
}

#[test]
fn an_existing_file_is_no_pattern() {
    let dir = tree(&["[a].txt", "a.txt"]);
    assert_eq!(names(&dir, &plain(&[arg(dir.path().join("[a].txt"))]).unwrap()), ["[a].txt"]);
}

#[test]
fn missing_files_are_named() {
    let dir = tree(&[]);
    assert!(refused(&[arg(dir.path().join("none.txt"))]).contains("none.txt: no such file or directory"));
    assert!(refused(&[String::new()]).contains(": no such file or directory"));
}

#[test]
fn no_arguments_are_an_error() {
    assert!(refused(&[]).starts_with("no input given"));
}

#[test]
fn an_unknown_extension_needs_a_format() {
    let dir = tree(&["corpus.dat", "corpus.gz", "corpus"]);
    for name in ["corpus.dat", "corpus.gz", "corpus"] {
        let path = arg(dir.path().join(name));
        let message = refused(std::slice::from_ref(&path));
        assert!(
            message.contains("\nhint: add `--input-format text|lines|jsonl|parquet`, or treat it as text with `--ext`"),
            "{message}"
        );
        let forced = InputOptions { format: Some(Format::Jsonl), ..InputOptions::default() };
        let resolved = resolve(&[path], &forced).unwrap();
        let gzip = if name.ends_with(".gz") { Compression::Gzip } else { Compression::None };
        assert_eq!((resolved.files[0].format(), resolved.files[0].compression()), (Format::Jsonl, Some(gzip)));
    }
    // `lines` determines how text is cut, not what is text.
    let lines = InputOptions { lines: true, ..InputOptions::default() };
    assert!(resolve(&[arg(dir.path().join("corpus"))], &lines).is_err());
}

#[test]
fn stdin_can_be_given_once() {
    let resolved = plain(&["-".into()]).unwrap();
    assert_eq!((resolved.files[0].name(), resolved.files[0].format()), ("-", Format::Text));
    assert_eq!(resolved.files[0].compression(), None);
    assert!(refused(&["-".into(), "-".into()]).starts_with("-: standard input can be read only once"));
}

#[test]
fn a_file_given_twice_is_read_twice() {
    let dir = tree(&["a.txt", "b.txt"]);
    let dotted = dir.path().join(".").join("a.txt");
    let resolved = plain(&[arg(dir.path()), arg(&dotted)]).unwrap();
    assert_eq!(resolved.files.len(), 3);
    assert_eq!(resolved.notes.len(), 1);
    assert!(
        resolved.notes[0].ends_with("a.txt: reached more than once, through arguments or links, and read each time"),
        "{}",
        resolved.notes[0]
    );

    let mut reader = Reader::new(resolved.files, 1 << 10);
    let batch = reader.next_batch(Batch::default(), &mut |_| Ok(())).unwrap().unwrap();
    let texts: Vec<_> = batch.records.iter().map(|record| batch.bytes_of(record)).collect();
    assert_eq!(texts, [b"a.txt", b"b.txt", b"a.txt"]);

    let resolved = plain(&[arg(dir.path()), arg(dir.path())]).unwrap();
    assert_eq!(resolved.notes.len(), 1);
    assert!(
        resolved.notes[0]
            .ends_with("a.txt: reached more than once, through arguments or links, and read each time; so is 1 other"),
        "{:?}",
        resolved.notes
    );
}

#[test]
fn a_file_that_disappears_is_an_error() {
    let dir = tree(&["a.txt"]);
    let resolved = plain(&[arg(dir.path())]).unwrap();
    fs::remove_file(dir.path().join("a.txt")).unwrap();
    let error = Reader::new(resolved.files, 1 << 10).next_batch(Batch::default(), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Io);
    assert!(error.to_string().contains("a.txt: cannot be opened: "), "{error}");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_named_like_a_pattern_is_no_pattern() {
        let dir = tree(&["*.txt", "a.txt"]);
        assert_eq!(names(&dir, &plain(&[arg(dir.path().join("*.txt"))]).unwrap()), ["*.txt"]);
    }

    #[test]
    fn links_are_followed_but_not_in_cycles() {
        let dir = tree(&["real/a.txt", "other/b.txt"]);
        symlink(dir.path().join("real"), dir.path().join("real/round")).unwrap();
        symlink(dir.path().join("other"), dir.path().join("real/there")).unwrap();
        symlink(dir.path().join("other/b.txt"), dir.path().join("real/c.txt")).unwrap();
        let resolved = plain(&[arg(dir.path().join("real"))]).unwrap();
        assert_eq!(names(&dir, &resolved), ["real/a.txt", "real/c.txt", "real/there/b.txt"]);
        assert!(resolved.notes.iter().any(|note| note.contains("real/round: ignored because it links back")));
        assert!(resolved.notes.iter().any(|note| note.contains("b.txt: reached more than once")));
    }

    #[test]
    fn names_cannot_speak_to_the_terminal() {
        let dir = tree(&["\u{1b}[31m\nerror: forged.dat", "sub/\u{202e}.txt", "sub/x\ny.pdf"]);
        let name = |shown: &str| format!("{}/{shown}", dir.path().display());
        let message = refused(&[arg(dir.path().join("\u{1b}[31m\nerror: forged.dat"))]);
        assert!(message.starts_with(&name(r"\u{1b}[31m\nerror: forged.dat: its extension")), "{message}");
        let twice = arg(dir.path().join("sub/\u{202e}.txt"));
        let resolved = plain(&[twice.clone(), twice]).unwrap();
        assert_eq!(
            resolved.notes,
            [name(r"sub/\u{202e}.txt: reached more than once, through arguments or links, and read each time")]
        );
        // The manifest, which is JSON, contains the name unchanged.
        assert!(resolved.files[0].name().ends_with("\u{202e}.txt"));
    }

    #[test]
    fn what_may_not_be_read_is_an_error() {
        let dir = tree(&["a.txt", "closed/b.txt"]);
        fs::set_permissions(dir.path().join("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let privileged = fs::File::open(dir.path().join("a.txt")).is_ok();
        let results = ["a.txt", "closed", "closed/b.txt"].map(|name| plain(&[arg(dir.path().join(name))]));
        fs::set_permissions(dir.path().join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        if privileged {
            println!("skipped: this user may read everything");
            return;
        }
        for result in results {
            let error = result.unwrap_err();
            assert!(matches!(error, InputError::Unreadable { .. }), "{error}");
            assert!(error.to_string().contains("cannot be opened: Permission denied"), "{error}");
        }
    }

    #[test]
    fn a_path_through_a_file_is_an_error() {
        let dir = tree(&["a.txt"]);
        let error = plain(&[arg(dir.path().join("a.txt/b.txt"))]).unwrap_err();
        assert!(error.to_string().contains("cannot be opened: Not a directory"), "{error}");
    }
}

//! Runs the command, and provides the small vocabulary of most tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A separate folder for each test.
pub(crate) struct Place(tempfile::TempDir);

/// The output of a run, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and creates the folders above it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    /// The command, to be run in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("RUST_BACKTRACE");
        command
    }

    /// Runs the command in this folder.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs the command line, split at spaces, with this standard input.
    pub(crate) fn run_with(&self, line: &str, stdin: &[u8]) -> Ran {
        let mut command = self.command(line.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that refuses its arguments does not read.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Runs the command line, split at spaces.
    pub(crate) fn line(&self, line: &str) -> Ran {
        self.run(line.split_whitespace())
    }

    /// The names in the folder, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(self.0.path()).unwrap().map(name).collect();
        names.sort();
        names
    }

    /// Every file below the folder with its bytes.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn walk(folder: &Path, contents: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, contents);
                } else {
                    // Some tests make files that cannot be read, or that are not regular.
                    let regular = fs::symlink_metadata(&path).unwrap().is_file();
                    let bytes = if regular { fs::read(&path).unwrap_or_default() } else { Vec::new() };
                    contents.insert(path, bytes);
                }
            }
        }
        let mut contents = BTreeMap::new();
        walk(self.0.path(), &mut contents);
        contents
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts that it succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self
    }

    /// Asserts that it failed in this way, with these messages and a remedy, and did not panic.
    #[track_caller]
    pub(crate) fn fails(&self, line: &str, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{line}\n{}", self.stderr);
        assert_eq!(self.stdout, "", "{line}");
        for part in ["error: "].iter().chain(says) {
            assert!(self.stderr.contains(part), "{line}\nlacks {part:?}\n{}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{line}\n{}", self.stderr);
    }

    /// The object that `--json` printed, with nothing else on stdout.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// A run that must fail, and the messages it must print.
pub(crate) struct Case<'a> {
    /// The files next to `tiny.json`.
    pub(crate) files: Vec<(&'a str, Vec<u8>)>,
    /// The command line, split at spaces.
    pub(crate) line: &'a str,
    pub(crate) code: i32,
    /// The strings that its stderr must contain.
    pub(crate) says: &'a [&'a str],
}

impl Case<'_> {
    /// Runs it, and asserts that it fails as it must and neither adds nor changes a file.
    #[track_caller]
    pub(crate) fn check(&self) {
        let place = Place::new();
        place.file("tiny.json", tiny().to_string());
        for (name, bytes) in &self.files {
            place.file(name, bytes);
        }
        let before = place.contents();
        place.line(self.line).fails(self.line, self.code, self.says);
        assert_eq!(place.contents(), before, "{}", self.line);
    }
}

/// A case with one input and the small vocabulary: name, content, additional arguments, code, strings that stderr must contain.
type InputCase<'a> = (&'a str, &'a [u8], &'a str, i32, &'a [&'a str]);

/// Checks cases with one input.
#[track_caller]
pub(crate) fn check_inputs(cases: &[InputCase<'_>]) {
    for &(name, content, arguments, code, says) in cases {
        let line = format!("encode {name} -o out --tokenizer tiny.json {arguments}");
        Case { files: vec![(name, content.to_vec())], line: &line, code, says }.check();
    }
}

/// The characters that byte-level vocabularies use for bytes.
fn spelling() -> Vec<char> {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    let spell = |byte| {
        let code = if printable(byte) {
            byte
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).unwrap()
    };
    (0..256).map(spell).collect()
}

/// [`tiny`] as a file that windrow's own engine does not support; texts without capitals have the same ids.
pub(crate) fn delegated() -> String {
    let mut json = tiny();
    json["normalizer"] = json!({"type": "Replace", "pattern": {"Regex": "x+y"}, "content": "x"});
    json.to_string()
}

/// A `tokenizer.json` of 259 tokens: the bytes by their value, 256 "th", 257 "the", and 258 the special `<|end|>`.
pub(crate) fn tiny() -> Value {
    let mut vocab: serde_json::Map<String, Value> =
        spelling().into_iter().zip(0..).map(|(spelling, byte)| (spelling.to_string(), json!(byte))).collect();
    vocab.insert("th".into(), json!(256));
    vocab.insert("the".into(), json!(257));
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [{
            "id": 258, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true
        }],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": [["t", "h"], ["th", "e"]]
        }
    })
}

/// The ids of a text with [`tiny`].
pub(crate) fn tiny_ids(text: &str) -> Vec<u32> {
    tiny_ids_with(text, false)
}

/// The ids of a text with [`tiny`] and `--special-in-text`.
pub(crate) fn tiny_special_ids(text: &str) -> Vec<u32> {
    tiny_ids_with(text, true)
}

fn tiny_ids_with(text: &str, special_in_text: bool) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, ..] = rest {
        let (id, length) = match rest {
            rest if special_in_text && rest.starts_with(b"<|end|>") => (258, 7),
            rest if rest.starts_with(b"the") => (257, 3),
            rest if rest.starts_with(b"th") => (256, 2),
            _ => (u32::from(*first), 1),
        };
        ids.push(id);
        rest = &rest[length..];
    }
    ids
}

/// The ids in the lines of a jsonl output.
pub(crate) fn ids_of(jsonl: &[u8]) -> Vec<Vec<u32>> {
    let line = |line: &str| serde_json::from_value(serde_json::from_str::<Value>(line).unwrap()["ids"].take()).unwrap();
    str::from_utf8(jsonl).unwrap().lines().map(line).collect()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    liblzma::encode_all(bytes, 1).unwrap()
}

pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

//! Errors that occur before a record exists.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::remedy::{is_change, remedy};
use crate::{grouped, shown};

/// An input that cannot be found, read, decompressed or held in memory.
///
/// Each of these ends a run, even one that skips bad documents, because the number of documents in the input is then unknown. The
/// message names the input, the place and, on a second line, the remedy (`hint: ...`).
///
/// ```
/// use windrow_tokenizers::input::{InputError, InputOptions, resolve};
///
/// match resolve(&["-".to_owned(), "-".to_owned()], &InputOptions::default()) {
///     Err(error @ InputError::StdinTwice) => assert!(error.to_string().contains("\nhint: pass `-` only once")),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// No argument was given.
    #[error("no input given\nhint: pass files, directories, quoted patterns, or `-` for stdin")]
    NoInputs,
    /// No file, directory or store object has this name.
    #[error(
        "{}: {}",
        shown(name),
        match name.split_once("://") {
            Some(("s3", _)) => "no such object\nhint: check the bucket and the key, and AWS_ENDPOINT_URL if the store is not Amazon's",
            Some(_) => "no such object\nhint: check the spelling of each part of the URL",
            None => "no such file or directory\nhint: check the spelling; relative paths start at the current directory",
        }
    )]
    Missing {
        /// The argument.
        name: String,
    },
    /// A URL that cannot be an input.
    #[error("{}: {reason}\nhint: {hint}", shown(name))]
    Url {
        /// The URL, without a possible signature.
        name: String,
        /// The fault.
        reason: String,
        /// The remedy.
        hint: &'static str,
    },
    /// An input that exists but cannot be opened, listed or inspected.
    #[error(
        "{}: cannot be opened: {source}\nhint: {}",
        shown(name),
        remedy(source).unwrap_or("check that it exists and that you have permission to read it")
    )]
    Unreadable {
        /// The file or directory.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file named on the command line whose extension is unknown.
    #[error(
        "{}: its extension does not indicate its format\n\
         hint: add `--input-format text|lines|jsonl|parquet`, or treat it as text with `--ext` or `--all-text`",
        shown(name)
    )]
    UnknownExtension {
        /// The file.
        name: String,
    },
    /// A file named on the command line whose kind is not read, or not under this name.
    #[error("{}: this is {what}\nhint: {hint}", shown(name))]
    Foreign {
        /// The file.
        name: String,
        /// Its kind, by its first bytes or its extension.
        what: &'static str,
        /// The remedy.
        hint: &'static str,
    },
    /// A directory without any file of a known extension.
    #[error(
        "{}: no input in this directory (files of other kinds: {}){}\n\
         hint: {}windrow reads files with the extensions .txt .text .md .jsonl .ndjson .warc .wet, plain or followed by .gz .zst .zstd .xz .bz2, \
         and with .parquet; `--ext rs,py` adds text extensions, `--all-text` reads all text files, `--input-format jsonl` also reads .json, \
         `--hidden` and `--no-ignore` read hidden and ignored files",
        shown(name),
        grouped(*passed_over as u64),
        if *excluded > 0 { format!(", not counting {excluded} hidden or ignored") } else { String::new() },
        data.as_ref().map_or_else(String::new, |data| format!("{}; ", shown(data)))
    )]
    EmptyDirectory {
        /// The directory.
        name: String,
        /// Number of files of other kinds below it.
        passed_over: usize,
        /// Number of skipped entries: hidden, or named by an ignore file.
        excluded: usize,
        /// The first of the other files that looks like data, with its kind and remedy.
        data: Option<String>,
    },
    /// A pattern that matches no file.
    #[error(
        "{}: no file matches this pattern{}\nhint: `*` does not cross directories, but `**` does; `--hidden` includes hidden files",
        shown(pattern),
        if *hidden > 0 { format!(", not counting {hidden} hidden") } else { String::new() }
    )]
    NoMatch {
        /// The argument.
        pattern: String,
        /// Number of files and folders that match except for a hidden name.
        hidden: usize,
    },
    /// A pattern that cannot be parsed.
    #[error(
        "{}: not a valid pattern: {reason}\nhint: to match `*`, `?` or `[` literally, write `[*]`, `[?]` or `[[]`",
        shown(pattern)
    )]
    BadPattern {
        /// The argument.
        pattern: String,
        /// The fault.
        reason: String,
    },
    /// `-` was given more than once.
    #[error("-: standard input can be read only once\nhint: pass `-` only once; for a file with that name, pass `./-`")]
    StdinTwice,
    /// Reading failed midway.
    #[error(
        "{}: cannot be read at byte {offset}: {source}\nhint: {}",
        shown(name),
        remedy(source).unwrap_or("check the disk, or the program that supplies the data, then try again")
    )]
    Read {
        /// The file.
        name: String,
        /// Number of bytes read before, as stored (compressed, if the file is).
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Compressed data that is damaged or incomplete.
    #[error("{}: at byte {offset} of the compressed file: {reason}\nhint: {hint}", shown(name))]
    Compressed {
        /// The file.
        name: String,
        /// Number of compressed bytes consumed when the damage was noticed. It is exact at a cut or between two parts. Within zstd
        /// data it names the block; within gzip data it may be as late as the checksum that ends the member.
        offset: u64,
        /// The fault.
        reason: String,
        /// The remedy.
        hint: &'static str,
    },
    /// A binary file that was [taken for text](super::InputOptions::others_are_text).
    #[error(
        "{}: this is a binary file (it contains a NUL byte)\nhint: omit it: only text can be tokenized",
        shown(name)
    )]
    Binary {
        /// The file.
        name: String,
    },
    /// Bytes that are no record of the file's format.
    #[error("{}:{line}: {}\nhint: {hint}", shown(name), shown(reason))]
    Record {
        /// The file.
        name: String,
        /// The line of the first such byte.
        line: u64,
        /// The fault.
        reason: String,
        /// The remedy.
        hint: &'static str,
    },
    /// A Parquet file that is damaged, or lacks the wanted columns.
    #[error("{}: {}\nhint: {hint}", shown(name), shown(reason))]
    Columns {
        /// The file.
        name: String,
        /// The fault, with the row group and the column if known.
        reason: String,
        /// The remedy.
        hint: &'static str,
    },
    /// The file was written to during the run. A second run may succeed, so the class is [`ErrorClass::Io`].
    #[error("{}: changed while being read\nhint: wait until the file is complete, then try again", shown(name))]
    Changed {
        /// The file.
        name: String,
    },
    /// There is no memory for a record.
    #[error(
        "{}:{line}: not enough memory for a record of more than {bytes} bytes\nhint: split it, or give the process more memory",
        shown(name)
    )]
    TooLarge {
        /// The file.
        name: String,
        /// Line of its first byte, 1-based.
        line: u64,
        /// Number of bytes of the record read so far.
        bytes: usize,
    },
    /// No memory for the first bytes of a batch.
    #[error("not enough memory for a batch of {bytes} bytes\nhint: give the process more memory")]
    NoMemory {
        /// Size of the batch.
        bytes: usize,
    },
    /// The caller asked to stop, or continues after an error.
    #[error("reading was stopped")]
    Stopped,
}

/// The cause that must be corrected after an [`InputError`]; callers derive an exit code from it.
///
/// ```
/// use windrow_tokenizers::input::{ErrorClass, InputOptions, resolve};
///
/// let error = resolve(&["there/is/no/such.txt".to_owned()], &InputOptions::default()).unwrap_err();
/// assert_eq!(error.class(), ErrorClass::Usage);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The arguments: one names a missing or unknown input.
    Usage,
    /// The contents of a file.
    Data,
    /// The system: permissions, disks, memory.
    Io,
    /// Nothing: the run was stopped on purpose.
    Stopped,
}

impl InputError {
    pub(super) fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { name: path.display().to_string(), source }
    }

    /// The error of a read that failed after `offset` bytes.
    pub(super) fn read(name: &str, offset: u64, source: io::Error) -> Self {
        let name = name.to_owned();
        if is_change(&source) { Self::Changed { name } } else { Self::Read { name, offset, source } }
    }

    /// The cause that must be corrected.
    ///
    /// ```
    /// use windrow_tokenizers::input::{Batch, Compression, ErrorClass, Format, InputFile, Reader};
    ///
    /// let file = InputFile::from_reader("memory", &b"no gzip"[..], Format::Text, Some(Compression::Gzip));
    /// let error = Reader::new(vec![file], 1 << 20).next_batch(Batch::default(), &mut |_| Ok(())).unwrap_err();
    /// assert_eq!(error.class(), ErrorClass::Data);
    /// ```
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoInputs
            | Self::Missing { .. }
            | Self::Url { .. }
            | Self::UnknownExtension { .. }
            | Self::Foreign { .. }
            | Self::EmptyDirectory { .. }
            | Self::NoMatch { .. }
            | Self::BadPattern { .. }
            | Self::StdinTwice => ErrorClass::Usage,
            Self::Compressed { .. } | Self::Binary { .. } | Self::Columns { .. } | Self::Record { .. } => {
                ErrorClass::Data
            }
            Self::Unreadable { .. }
            | Self::Read { .. }
            | Self::Changed { .. }
            | Self::TooLarge { .. }
            | Self::NoMemory { .. } => ErrorClass::Io,
            Self::Stopped => ErrorClass::Stopped,
        }
    }
}

//! What can go wrong before a record exists.

use std::io;

use thiserror::Error;

use crate::remedy::remedy;
use crate::shown;

/// An input that could not be found, read, decompressed or held.
///
/// All of these end a run, also one that skips bad documents: after any of them nobody could say how many documents the
/// input has. The message names the input, the place and, on a second line, the remedy (`hint: ...`).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// There was no argument at all.
    #[error("no input given\nhint: name files, directories, quoted patterns, or `-` for stdin")]
    NoInputs,
    /// Nothing has this name.
    #[error(
        "{}: no such file or directory\nhint: check the spelling; relative names start at the current directory",
        shown(name)
    )]
    Missing {
        /// The argument.
        name: String,
    },
    /// It exists but cannot be opened, listed or looked at.
    #[error(
        "{}: cannot be opened: {source}\nhint: {}",
        shown(name),
        remedy(source).unwrap_or("check that it exists and that you may read it")
    )]
    Unreadable {
        /// The file or directory.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file named on the command line whose extension says nothing.
    #[error(
        "{}: its extension does not tell what it holds\n\
         hint: add `--input-format text|lines|jsonl`, or take it for text with `--ext` or `--all-text`",
        shown(name)
    )]
    UnknownExtension {
        /// The file.
        name: String,
    },
    /// A directory without any file of a known extension.
    #[error(
        "{}: no input in this directory ({passed_over} files of other extensions){}\n\
         hint: .txt .text .md .jsonl .ndjson are read, plain or with .gz .zst .zstd; `--ext rs,py` adds extensions of text, `--all-text` \
         takes all text, `--input-format jsonl` takes .json, `--hidden` and `--no-ignore` take what is left out",
        shown(name),
        if *left_out > 0 { format!(", {left_out} hidden or ignored left out") } else { String::new() }
    )]
    EmptyDirectory {
        /// The directory.
        name: String,
        /// Files below it that were passed over.
        passed_over: usize,
        /// Entries that were left out: hidden, or named by an ignore file.
        left_out: usize,
    },
    /// A pattern that matches no file.
    #[error("{}: no file matches this pattern\nhint: `*` does not cross directories, `**` does", shown(pattern))]
    NoMatch {
        /// The argument.
        pattern: String,
    },
    /// A pattern that cannot be read.
    #[error(
        "{}: not a valid pattern: {reason}\nhint: write `[*]`, `[?]` or `[[]` for the character itself",
        shown(pattern)
    )]
    BadPattern {
        /// The argument.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `-` was given more than once.
    #[error("-: standard input can be read only once\nhint: give `-` one time; a file of that name is `./-`")]
    StdinTwice,
    /// Reading failed midway.
    #[error(
        "{}: cannot be read at byte {offset}: {source}\nhint: {}",
        shown(name),
        remedy(source).unwrap_or("check the disk or the program that feeds it, and run again")
    )]
    Read {
        /// The file.
        name: String,
        /// Bytes read before, as stored (compressed, if it is).
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Compressed data that is not whole.
    #[error("{}: {reason} at byte {offset} of the compressed file\nhint: {hint}", shown(name))]
    Compressed {
        /// The file.
        name: String,
        /// Compressed bytes consumed when it showed: at a cut or between two parts exact, within zstd data the block, within
        /// gzip data possibly as late as the checksum that ends the member.
        offset: u64,
        /// What is wrong.
        reason: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file was written to during the run. Run again, it may be read: so this is of [`ErrorClass::Io`].
    #[error("{}: changed while it was read\nhint: wait until it is complete, and run again", shown(name))]
    Changed {
        /// The file.
        name: String,
    },
    /// A record for which there is no memory.
    #[error(
        "{}:{line}: no memory for a record of more than {bytes} bytes\nhint: split it, or give the process more memory",
        shown(name)
    )]
    TooLarge {
        /// The file.
        name: String,
        /// Line of its first byte, 1-based.
        line: u64,
        /// Bytes read of it so far.
        bytes: usize,
    },
    /// No memory for the first bytes of a batch.
    #[error("no memory for a batch of {bytes} bytes\nhint: give the process more memory")]
    NoMemory {
        /// Size of the batch.
        bytes: usize,
    },
    /// The caller asked to stop, or goes on after an error.
    #[error("reading was stopped")]
    Stopped,
}

/// Who has to act on an [`InputError`]; callers choose an exit code by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The arguments: something is named that is not there or not known.
    Usage,
    /// The contents of a file.
    Data,
    /// The system: permissions, disks, memory.
    Io,
    /// Nobody: the run was stopped on purpose.
    Stopped,
}

impl InputError {
    /// Who has to act on it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoInputs
            | Self::Missing { .. }
            | Self::UnknownExtension { .. }
            | Self::EmptyDirectory { .. }
            | Self::NoMatch { .. }
            | Self::BadPattern { .. }
            | Self::StdinTwice => ErrorClass::Usage,
            Self::Compressed { .. } => ErrorClass::Data,
            Self::Unreadable { .. }
            | Self::Read { .. }
            | Self::Changed { .. }
            | Self::TooLarge { .. }
            | Self::NoMemory { .. } => ErrorClass::Io,
            Self::Stopped => ErrorClass::Stopped,
        }
    }
}

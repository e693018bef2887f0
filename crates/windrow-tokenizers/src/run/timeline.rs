//! Timelines of runs: `--trace FILE`.

use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use windrow::overlap::Trace;

use super::failure::{Failed, FailureKind};
use crate::shown;

/// The file of a timeline.
pub(super) struct Timeline {
    path: PathBuf,
    file: File,
}

impl Timeline {
    /// Opens the file, so that a file that cannot be written is reported before the run. The old content stays until there is a new timeline.
    /// `read` are the files that the run reads.
    pub(super) fn open(path: &Path, read: &[&Path]) -> Result<Self, Failed> {
        let target = fs::canonicalize(path).ok();
        if read.iter().any(|input| target.is_some() && fs::canonicalize(input).ok() == target) {
            let message = format!("--trace: {} is an input of this run\nhint: pass another file", shown(path));
            return Err(Failed::usage(message));
        }
        let refused = |why: &dyn Display| {
            let hint = "hint: pass a file in a writable folder";
            Failed { message: format!("--trace: {}: {why}\n{hint}", shown(path)), kind: FailureKind::CannotCreate }
        };
        let file = match File::options().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(path).map_err(|error| refused(&error))?;
                // A pipe without a reader would be waited for; the descriptors of the shell are links to theirs.
                if !(found.is_file() || found.is_dir() || found.is_symlink() || is_terminal_or_null(&found)) {
                    return Err(refused(&"it is a pipe, a socket or a block device"));
                }
                let file = File::options().write(true).open(path).map_err(|error| refused(&error))?;
                // The file to empty has this name, and no other.
                let opened = file.metadata().map_err(|error| refused(&error))?;
                if opened.is_file() && !is_only_name(&opened, &found) {
                    return Err(refused(&"it is a link, or has a second name (a hard link)"));
                }
                file
            }
            created => created.map_err(|error| refused(&error))?,
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces the file's content by the timeline of a run that has begun.
    pub(super) fn write(mut self, trace: Option<&Trace>) -> Result<(), Failed> {
        let Some(trace) = trace else { return Ok(()) };
        // A pipe has no length.
        let emptied = if self.file.metadata().is_ok_and(|file| file.is_file()) { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(trace.json().as_bytes()));
        written.map_err(|error| Failed {
            message: format!("--trace: {}: {error}", shown(&self.path)),
            kind: FailureKind::Io,
        })
    }
}

#[cfg(unix)]
fn is_terminal_or_null(found: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_char_device(&found.file_type())
}

#[cfg(not(unix))]
fn is_terminal_or_null(_: &Metadata) -> bool {
    true
}

/// True if the entry `found` is the file that was opened, and its only name.
#[cfg(unix)]
fn is_only_name(opened: &Metadata, found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (opened.dev(), opened.ino()) == (found.dev(), found.ino()) && opened.nlink() <= 1
}

#[cfg(not(unix))]
fn is_only_name(_: &Metadata, found: &Metadata) -> bool {
    found.is_file()
}

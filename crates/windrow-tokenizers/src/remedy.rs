//! Remedies for errors of the system whose kind suggests one.

use std::io::{Error, ErrorKind};

/// The remedy for an error caused neither by the disk nor by the file: a limit of the process, or a name.
pub(crate) fn remedy(error: &Error) -> Option<&'static str> {
    // EMFILE and ENFILE, too many open files in the process and on the machine, have these numbers on all Unixes.
    if cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24)) {
        return Some("raise the limit on open files (ulimit -n), or close other programs");
    }
    match error.kind() {
        ErrorKind::FileTooLarge => {
            Some("raise the limit on the size of files (ulimit -f), or use a file system that has files as large")
        }
        ErrorKind::InvalidFilename => Some("choose a shorter name without characters that the file system refuses"),
        ErrorKind::OutOfMemory => Some("give the process more memory (ulimit -v, the limit of its container)"),
        _ => None,
    }
}

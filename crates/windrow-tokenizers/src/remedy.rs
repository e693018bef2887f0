//! Remedies for system errors whose kind suggests one.

use std::io::{Error, ErrorKind};

/// The remedy for an error caused by neither the disk nor the file: a limit of the process, a name, or a store.
pub(crate) fn remedy(error: &Error) -> Option<&'static str> {
    if let Some(Hinted { hint, .. }) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Some(hint);
    }
    // EMFILE and ENFILE, too many open files in the process and on the machine, have these numbers on all Unixes.
    if cfg!(unix) && matches!(error.raw_os_error(), Some(23 | 24)) {
        return Some("raise the limit on open files (ulimit -n), or close other programs");
    }
    match error.kind() {
        ErrorKind::FileTooLarge => {
            Some("raise the limit on the size of files (ulimit -f), or use a file system that allows files this large")
        }
        ErrorKind::InvalidFilename => {
            Some("choose a shorter name, or one without characters that the file system rejects")
        }
        ErrorKind::OutOfMemory => Some("give the process more memory (ulimit -v, or the limit of its container)"),
        _ => None,
    }
}

/// True if an input has changed since it was found.
pub(crate) fn is_change(error: &Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Changed>())
}

/// A store's error with its remedy.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Hinted {
    pub(crate) reason: String,
    pub(crate) hint: &'static str,
}

/// A store's object that has changed since it was found.
#[derive(Debug, thiserror::Error)]
#[error("it has changed")]
pub(crate) struct Changed;

//! Opening files, and passing documents to a visitor.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// Receives the ids of documents until it breaks.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&[u32]) -> ControlFlow<()>;

/// Opens a file of a data set. Opening a pipe would block, and a device has no end.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.file_type() {
        kind if kind.is_file() || kind.is_dir() => File::open(path),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

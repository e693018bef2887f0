//! The operating system calls of the output side, in one place so that tests can make each of them fail.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// The file system calls of the output side. The provided methods are the real ones.
pub(crate) trait Storage: Debug + Send + Sync {
    /// Creates a file that does not exist yet, without following a link.
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// One write call, which may write fewer bytes.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Removes what a file has behind its first `bytes`, and continues there.
    fn truncate(&self, mut file: &File, bytes: u64) -> io::Result<()> {
        file.set_len(bytes)?;
        file.seek(SeekFrom::Start(bytes)).map(drop)
    }

    /// Writes the dirty pages of a file to the disk, while other threads continue to write to it.
    fn write_back(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Makes content and length of a file durable.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    /// Renames a file within its directory.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Makes the names in a directory durable, if the platform and the file system support that.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        if !cfg!(unix) {
            return Ok(());
        }
        match File::open(path)?.sync_all() {
            // Some network file systems return this: they have no directory cache to flush.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
            other => other,
        }
    }
}

/// The real file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Storage for Disk {}

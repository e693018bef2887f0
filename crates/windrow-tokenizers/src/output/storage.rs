//! The operating system calls of the output side, in one place so that tests can make each of them fail.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes per read call.
const READ: usize = 256 << 10;

/// The file system calls of the output side. The provided methods are the real ones.
pub(crate) trait Storage: Debug + Send + Sync {
    /// Creates a file that does not exist yet, without following a link.
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Opens a file that exists, for reading and writing, if it is [plain](open_plain).
    fn open(&self, path: &Path) -> io::Result<File> {
        open_plain(path, true)
    }

    /// One read call.
    fn read(&self, mut file: &File, bytes: &mut [u8]) -> io::Result<usize> {
        file.read(bytes)
    }

    /// One write call, which may write fewer bytes.
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Cuts a file after its first `bytes`, and continues there.
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

    /// Creates a directory that does not exist yet.
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    /// Removes a directory that is empty.
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
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

/// Kind of a file under a name of the output, if it is not a plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPlain {
    #[error("is a symbolic link")]
    Link,
    #[error("is a directory")]
    Directory,
    #[error("is not a regular file")]
    Special,
    #[error("has a second name (a hard link)")]
    SecondName,
}

/// The reason why an entry of a directory, or an open file, is not one that only this output has made.
pub(crate) fn not_plain(found: &fs::Metadata) -> Option<NotPlain> {
    #[cfg(unix)]
    let names = std::os::unix::fs::MetadataExt::nlink(found);
    #[cfg(not(unix))]
    let names = 1;
    match found.file_type() {
        kind if kind.is_symlink() => Some(NotPlain::Link),
        kind if kind.is_dir() => Some(NotPlain::Directory),
        kind if !kind.is_file() => Some(NotPlain::Special),
        _ => (names > 1).then_some(NotPlain::SecondName),
    }
}

/// Opens an existing regular file with a single name, without following a link or waiting for a pipe. Writing to another kind of file would change
/// data outside the output. The check is on the open file, so the file cannot be exchanged in between.
pub(crate) fn open_plain(path: &Path, writes: bool) -> io::Result<File> {
    let check = |found: fs::Metadata| not_plain(&found).map_or(Ok(()), |what| Err(io::Error::other(what)));
    // Opening can wait for a pipe or disturb a device, and its error says less.
    check(fs::symlink_metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true).write(writes);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}

/// The [`NotPlain`] in an error of [`open_plain`], if the system had no other.
pub(crate) fn what_is_not_plain(error: &io::Error) -> Option<NotPlain> {
    error.get_ref()?.downcast_ref().copied()
}

/// Removes a name, if it exists. Returns true if it is gone now.
pub(crate) fn removed(storage: &dyn Storage, path: &Path) -> bool {
    storage.remove(path).is_ok() || fs::symlink_metadata(path).is_err()
}

/// An open file, read and written by the calls of its storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a>(pub(crate) &'a dyn Storage, pub(crate) &'a File);

impl Read for Stored<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(self.1, bytes)
    }
}

impl Write for Stored<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(self.1, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its beginning, block by block.
pub(crate) fn read_blocks(storage: &dyn Storage, file: &File, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut block = vec![0; READ];
    loop {
        match storage.read(file, &mut block) {
            Ok(0) => return Ok(()),
            Ok(read) => each(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The real file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Storage for Disk {}

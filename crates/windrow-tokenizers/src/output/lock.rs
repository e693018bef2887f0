//! One run at a time writes under a prefix.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use super::error::{OutputError, OutputErrorKind};
use super::names::Targets;
use super::storage::{Storage, removed};
use crate::shown;

/// The right to write under a prefix, held while the file is open.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    pub(crate) fn acquire(targets: &Targets) -> Result<Self, OutputError> {
        let path = targets.lock();
        let refused = |error| OutputError::io(OutputErrorKind::CannotCreate, "cannot create", &path, error);
        let busy = || {
            let holder = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u32>().ok());
            let holder = holder.map_or_else(String::new, |id| format!(" (process {id})"));
            let message = format!("another run is writing {}{holder}", shown(&targets.prefix));
            OutputError::new(OutputErrorKind::CannotCreate, message)
                .at(&path)
                .hint("wait until it has finished, or choose another -o")
        };
        // Each further iteration means that another run ended between our open and our lock.
        for _ in 0..100 {
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
                let message = format!("{} is in the way: not a regular file", shown(&path));
                return Err(OutputError::new(OutputErrorKind::CannotCreate, message).at(&path).hint("remove it"));
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(refused)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy()),
                Err(TryLockError::Error(error)) => {
                    // No process can hold a lock here, so this empty file is unused.
                    let _ = fs::remove_file(&path);
                    return Err(OutputError::io(OutputErrorKind::CannotCreate, "cannot lock", &path, error)
                        .hint("this file system has no locks: write to another one with -o"));
                }
            }
            if has_name(&file, &path).map_err(refused)? {
                // Only messages depend on it.
                let _ = file.set_len(0).and_then(|()| writeln!(&file, "{}", process::id()));
                return Ok(Self { path, _file: file });
            }
        }
        Err(busy())
    }

    /// Removes the name, then unlocks. Returns the name if it could not be removed.
    pub(crate) fn release(self, storage: &dyn Storage) -> Result<(), PathBuf> {
        if removed(storage, &self.path) { Ok(()) } else { Err(self.path) }
    }
}

/// Whether `path` still names the open `file`.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    Ok(fs::symlink_metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())))
}

/// Whether `path` still names some file. On these platforms std offers no file identity. A renamed or removed file is still noticed,
/// unless a third run has taken its name at the same moment.
#[cfg(not(unix))]
fn has_name(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::super::format::Format;
    use super::super::names::Layout;
    use super::super::storage::Disk;
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_file_has_its_name_until_that_is_removed_or_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = File::create(&path).unwrap();
        assert!(has_name(&file, &path).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!has_name(&file, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!has_name(&file, &path).unwrap());
    }

    #[test]
    fn a_lock_has_one_holder_though_its_name_comes_and_goes() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout { format: Format::Npy, has_mask: false, has_kept: false, is_packed: false };
        let targets = Targets::new(&directory.path().join("out"), &[], layout, false);
        let (held, acquired) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let Ok(lock) = Lock::acquire(&targets) else { continue };
                        assert!(!held.swap(true, Ordering::AcqRel), "two holders");
                        acquired.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        held.store(false, Ordering::Release);
                        lock.release(&Disk).unwrap();
                    }
                });
            }
        });
        assert!(acquired.into_inner() > 0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

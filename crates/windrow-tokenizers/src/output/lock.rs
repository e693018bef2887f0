//! One run at a time writes under a prefix.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process;

use super::error::{OutputError, OutputErrorKind};
use super::names::Targets;
use super::storage::{Storage, not_plain, open_plain, removed};
use crate::shown;

/// The beginning of the content of a lock, before the number of its process.
const OWN: &str = "windrow ";

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
        let busy = |holder: Option<u32>| {
            let holder = holder.map_or_else(String::new, |id| format!(" (process {id})"));
            let message = format!("another run is writing {}{holder}", shown(&targets.prefix));
            OutputError::new(OutputErrorKind::CannotCreate, message)
                .at(&path)
                .hint("wait until it has finished, or choose another prefix with -o")
        };
        let mut holder = None;
        // Each further iteration means that another run ended between our open and our lock.
        for _ in 0..100 {
            let Some(mut file) = created_or_opened(&path).map_err(refused)? else { continue };
            let locked = file.try_lock();
            let is_busy = matches!(locked, Err(TryLockError::WouldBlock));
            let found = match holder_in(&mut file) {
                // On some systems no process reads a file that another process has locked.
                Err(_) if is_busy => Some(None),
                found => found.map_err(refused)?,
            };
            let Some(found) = found else {
                return Err(OutputError::in_the_way(&path, "is not a windrow lock file"));
            };
            holder = found;
            match locked {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(busy(holder)),
                Err(TryLockError::Error(error)) => {
                    // No process can hold a lock here, so this file is unused.
                    let _ = fs::remove_file(&path);
                    return Err(OutputError::io(OutputErrorKind::CannotCreate, "cannot lock", &path, error)
                        .hint("choose a prefix on a file system that supports locks with -o"));
                }
            }
            if has_name(&file, &path).map_err(refused)? {
                if let Some(what) = not_plain(&file.metadata().map_err(refused)?) {
                    return Err(OutputError::in_the_way(&path, what));
                }
                // Only messages depend on the content.
                let _ = file.set_len(0).and_then(|()| file.rewind());
                let _ = writeln!(&file, "{OWN}{}", process::id());
                return Ok(Self { path, _file: file });
            }
        }
        Err(busy(holder))
    }

    /// Removes the name, then unlocks. Returns the name if it could not be removed.
    pub(crate) fn release(self, storage: &dyn Storage) -> Result<(), PathBuf> {
        if removed(storage, &self.path) { Ok(()) } else { Err(self.path) }
    }
}

/// The file of a lock, created if it does not exist. `None` if it was removed in the meantime.
fn created_or_opened(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match open_plain(path, true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        },
        created => created.map(Some),
    }
}

/// The number of the process that a lock names, if it was already written. `None` if the content is not that of a lock, and must stay.
fn holder_in(file: &mut File) -> io::Result<Option<Option<u32>>> {
    let mut content = Vec::new();
    file.take(64).read_to_end(&mut content)?;
    if content.is_empty() {
        return Ok(Some(None));
    }
    let number = str::from_utf8(&content).ok().and_then(|text| text.strip_prefix(OWN));
    Ok(number.and_then(|number| number.trim_end().parse().ok()).map(Some))
}

/// True if `path` still names the open `file`.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    Ok(fs::symlink_metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino())))
}

/// True if `path` still names some file. On these platforms std offers no file identity. A renamed or removed file is still noticed,
/// unless a third run has taken its name at the same moment.
#[cfg(not(unix))]
fn has_name(_: &File, path: &Path) -> io::Result<bool> {
    path.try_exists()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::super::names::Layout;
    use super::super::storage::Disk;
    use super::*;
    use crate::format::Format;

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
    fn a_file_that_is_no_lock_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout { format: Format::Npy, has_mask: false, has_kept: false, is_packed: false };
        let targets = Targets::new(&directory.path().join("out"), &[], layout, false);
        for content in ["precious", "windrow", "windrow x", "4711\n", "windrow 7 and more", &"windrow 1\n".repeat(20)] {
            fs::write(targets.lock(), content).unwrap();
            let error = Lock::acquire(&targets).unwrap_err().to_string();
            assert!(error.contains("out.windrow-lock is in the way: it is not a windrow lock file\nhint: "), "{error}");
            assert_eq!(fs::read_to_string(targets.lock()).unwrap(), content);
        }
        // The content that a killed run leaves.
        for content in ["", "windrow 4294967295\n", "windrow 12"] {
            fs::write(targets.lock(), content).unwrap();
            let lock = Lock::acquire(&targets).unwrap();
            assert_eq!(fs::read_to_string(targets.lock()).unwrap(), format!("windrow {}\n", process::id()));
            lock.release(&Disk).unwrap();
        }
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

//! Staged files, and how they become final, all or none.
//!
//! A run writes `OUT.bin.windrow-part` and similar files, and nothing else, until everything is complete and synced. Only the
//! holder of an exclusive lock on the file *currently* named `OUT.windrow-lock` may touch files under the prefix. The holder
//! removes that name at its end, so a lock on a file that has lost the name is void. After locking, a run therefore compares its
//! file with the one that has the name. A run killed by the system leaves its files, but no lock; the next run takes the files
//! over.
//!
//! Publication is a series of renames. Each is recorded before the next one, so that it can be undone in reverse order:
//!
//! 1. (overwriting) the old manifest is moved aside to `OUT.manifest.json.windrow-old`; the directory is synced;
//! 2. for each data file: the old one is moved aside, the staged one gets the final name; the directory is synced;
//! 3. the staged manifest gets the final name; the directory is synced;
//! 4. the state becomes `Published`; the files moved aside are removed, and the lock last.
//!
//! So a manifest never stands beside data that it does not describe, and exists only with all of its data: **no manifest means not
//! published**. A run that is killed in steps 1 to 3 leaves no manifest under the final name. The next run for the prefix, whatever
//! its outcome, first undoes the renames of the killed run ([`recover`]). The old files get their names back, the old manifest
//! last. Files moved aside are removed only if a manifest says that the publication was complete.
//!
//! Every series of renames holds the state's mutex; the syncs, which can take long, do not. [`Staging::abandon`] locks the same mutex
//! and undoes the renames it finds. It waits for a few renames only; afterwards the directory contains what it contained before the
//! run.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{OutputError, OutputErrorKind};
use super::format::Format;
use super::storage::{Disk, Storage};
use crate::manifest::Manifest;
use crate::shown;

/// `path` with `suffix` appended to its last component, even if that is not UTF-8.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The name under which a final file is written.
pub(crate) fn staged_name(target: &Path) -> PathBuf {
    with_suffix(target, ".windrow-part")
}

/// The name of the old file until the end of the publication.
fn aside_name(target: &Path) -> PathBuf {
    with_suffix(target, ".windrow-old")
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// blake3 of a regular file, in hexadecimal.
fn hash_of(path: &Path) -> io::Result<String> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Undoes the renames of a run that was killed before its publication was complete. Each step leaves names from which another call can
/// continue.
fn recover(storage: &dyn Storage, targets: &Targets) -> Result<(), OutputError> {
    if !targets.is_unfinished() {
        return Ok(());
    }
    let rename = |from: &Path, to: &Path| {
        storage.rename(from, to).map_err(|error| {
            let doing = format!("cannot take back what a killed run renamed: {} to", shown(from));
            OutputError::io(OutputErrorKind::CannotCreate, &doing, to, error)
        })
    };
    let sync = || {
        let directory = targets.directory();
        storage.sync_directory(directory).map_err(|error| {
            OutputError::io(OutputErrorKind::CannotCreate, "cannot sync the directory", directory, error)
        })
    };
    let mut moved = false;
    for target in targets.finalized_by_a_killed_run() {
        rename(&target, &staged_name(&target))?;
        moved = true;
    }
    for target in targets.any_data() {
        let aside = aside_name(&target);
        if exists(&aside) {
            if exists(&target) {
                rename(&target, &staged_name(&target))?;
            }
            rename(&aside, &target)?;
            moved = true;
        }
    }
    if moved {
        sync()?;
    }
    let aside = aside_name(&targets.manifest);
    if exists(&aside) {
        rename(&aside, &targets.manifest)?;
        sync()?;
    }
    Ok(())
}

/// The end of the manifest's name.
const MANIFEST: &str = ".manifest.json";

/// The end of the name of the file with the kept fields.
const KEPT: &str = ".kept.jsonl";

/// The end of the name of the list of skipped documents.
const SKIPPED: &str = ".skipped.jsonl";

/// The final names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) prefix: PathBuf,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) manifest: PathBuf,
}

impl Targets {
    /// With `kept`, the file with the kept fields follows the data files of the format. With `skipped`, the list of skipped documents is the last.
    pub(crate) fn new(prefix: &Path, format: Format, kept: bool, skipped: bool) -> Self {
        let others = kept.then_some(KEPT).into_iter().chain(skipped.then_some(SKIPPED));
        let suffixes = format.suffixes().iter().copied().chain(others);
        Self {
            prefix: prefix.to_owned(),
            data: suffixes.map(|suffix| with_suffix(prefix, suffix)).collect(),
            manifest: with_suffix(prefix, MANIFEST),
        }
    }

    /// The data files of every format.
    fn any_data(&self) -> Vec<PathBuf> {
        let mut data: Vec<PathBuf> =
            Format::ALL.into_iter().flat_map(|format| Self::new(&self.prefix, format, true, true).data).collect();
        data.sort();
        data.dedup();
        data
    }

    /// Data files in order, the manifest last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.data.iter().chain([&self.manifest])
    }

    /// The name of the lock.
    fn lock(&self) -> PathBuf {
        with_suffix(&self.prefix, ".windrow-lock")
    }

    /// Names that a killed run may have left, of any format. The staged manifest is the first: as long as it exists, [`recover`] may
    /// take the files that it lists for those of the killed run.
    fn leftovers(&self) -> impl Iterator<Item = PathBuf> {
        let data = self.any_data();
        let staged: Vec<_> = [&self.manifest].into_iter().chain(&data).map(|target| staged_name(target)).collect();
        let aside: Vec<_> = data.iter().chain([&self.manifest]).map(|target| aside_name(target)).collect();
        staged.into_iter().chain(aside)
    }

    /// Every name that a run may create, replace or remove.
    pub(crate) fn touched(&self) -> impl Iterator<Item = PathBuf> {
        let taken_back = if self.is_unfinished() { self.any_data() } else { Vec::new() };
        self.all().cloned().chain(taken_back).chain(self.leftovers()).chain([self.lock()])
    }

    /// Whether a run was killed before its publication was complete, or is still running.
    fn is_unfinished(&self) -> bool {
        !exists(&self.manifest) && self.leftovers().any(|path| exists(&path))
    }

    /// Data files that a killed run has given their final names without moving old ones aside: its staged manifest lists them.
    fn finalized_by_a_killed_run(&self) -> Vec<PathBuf> {
        let listed = fs::read(staged_name(&self.manifest)).ok();
        // If the manifest is incomplete, no file had its final name yet.
        let Some(manifest) = listed.and_then(|json| serde_json::from_slice::<Manifest>(&json).ok()) else {
            return Vec::new();
        };
        let is_listed = |path: &PathBuf| {
            let output =
                manifest.outputs.iter().find(|output| path.file_name().is_some_and(|name| *name == *output.file));
            output.is_some_and(|output| hash_of(path).is_ok_and(|hash| hash == output.blake3))
        };
        let mut data = self.any_data();
        data.retain(|path| {
            !exists(&staged_name(path)) && !exists(&aside_name(path)) && exists(path) && is_listed(path)
        });
        data
    }

    pub(crate) fn directory(&self) -> &Path {
        match self.prefix.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// Refuses targets that exist, or that even `overwrite` does not replace.
    fn refuse_existing(&self, overwrite: bool) -> Result<(), OutputError> {
        for path in self.all() {
            // The entry itself counts, not the file it links to: a rename replaces the entry.
            let Ok(found) = fs::symlink_metadata(path) else { continue };
            let exists = |what: &str| {
                OutputError::new(OutputErrorKind::CannotCreate, format!("{} {what}", shown(path))).at(path)
            };
            if found.is_dir() {
                return Err(exists("is a directory").hint("choose another prefix with -o"));
            }
            if !overwrite {
                return Err(exists("already exists").hint("pass --overwrite to replace it, or choose another -o"));
            }
        }
        Ok(())
    }

    /// Explains why no file can be created beside `prefix`, more clearly than the operating system does.
    fn check_directory(&self) -> Result<(), OutputError> {
        let directory = self.directory();
        let refused = |why: &str, hint: String| {
            let message = format!("cannot create {}: {} {why}", shown(&self.prefix), shown(directory));
            Err(OutputError::new(OutputErrorKind::CannotCreate, message).at(directory).hint(hint))
        };
        match fs::metadata(directory) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => refused("is not a directory", "choose another prefix with -o".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                refused("does not exist", format!("create it first: mkdir -p {}", shown(directory)))
            }
            Err(error) => Err(OutputError::io(OutputErrorKind::CannotCreate, "cannot look into", directory, error)),
        }
    }
}

/// The staged files of one output, for the thread that may have to abandon it.
///
/// Clones refer to the same output. A command makes one before anything is staged, gives it to the thread that handles Ctrl-C, and
/// passes it to [`Output::create_in`](super::Output::create_in).
///
/// ```
/// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions, Staging};
///
/// let directory = tempfile::tempdir()?;
/// let staging = Staging::default();
/// let mut output = Output::create_in(&OutputOptions::new(directory.path().join("corpus"), 300), &staging)?;
/// output.append(&[1, 2, 3], &[3])?;
/// assert!(staging.abandon());
/// assert_eq!(output.append(&[4], &[1]).unwrap_err().kind(), OutputErrorKind::Interrupted);
/// assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Staging(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    storage: Box<dyn Storage>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Staged names to remove.
    staged: Vec<PathBuf>,
    /// Renames done by the publication, in order.
    moves: Vec<Move>,
    lock: Option<Lock>,
}

/// The right to write under a prefix, held while the file is open.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    _file: File,
}

#[derive(Debug)]
struct Move {
    from: PathBuf,
    to: PathBuf,
    /// Whether an old file was moved aside; otherwise a staged file became final.
    aside: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing is staged yet.
    #[default]
    Idle,
    /// Staged files exist under their staged names or, while publishing, under final ones.
    Staged,
    /// Everything is final.
    Published,
    /// Stopped by [`Staging::abandon`]: nothing of the run is left.
    Interrupted,
    /// Stopped by an error: nothing of the run is left.
    Failed,
}

/// Removes a name, if it exists. Returns whether it is gone now.
fn remove(storage: &dyn Storage, path: &Path) -> bool {
    storage.remove(path).is_ok() || fs::symlink_metadata(path).is_err()
}

impl State {
    fn check(&self) -> Result<(), OutputError> {
        match self.phase {
            Phase::Staged => Ok(()),
            Phase::Interrupted => Err(OutputError::interrupted()),
            Phase::Idle | Phase::Published | Phase::Failed => Err(OutputError::new(
                OutputErrorKind::Io,
                "the output failed earlier and what was staged has been removed; nothing more can be written",
            )),
        }
    }

    fn rename(&mut self, storage: &dyn Storage, from: PathBuf, to: PathBuf, aside: bool) -> Result<(), OutputError> {
        storage.rename(&from, &to).map_err(|error| {
            let doing = format!("cannot rename {} to", shown(&from));
            OutputError::io(OutputErrorKind::Io, &doing, &to, error)
        })?;
        self.moves.push(Move { from, to, aside });
        Ok(())
    }

    /// Gives a staged file its final name.
    fn finalize(&mut self, storage: &dyn Storage, target: &Path) -> Result<(), OutputError> {
        self.rename(storage, staged_name(target), target.to_owned(), false)
    }

    /// Moves the file under a final name aside, if there is one.
    fn move_aside(&mut self, storage: &dyn Storage, target: &Path) -> Result<(), OutputError> {
        match fs::symlink_metadata(target) {
            Ok(_) => self.rename(storage, target.to_owned(), aside_name(target), true),
            Err(_) => Ok(()),
        }
    }

    /// Undoes the renames and removes the staged files. Returns the names that it could not clear.
    fn discard(&mut self, storage: &dyn Storage, phase: Phase) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for Move { from, to, aside } in self.moves.drain(..).rev() {
            // The old manifest only gets its name back beside all of its data. Otherwise the next run completes the recovery.
            if !left.is_empty() && from.as_os_str().as_encoded_bytes().ends_with(MANIFEST.as_bytes()) {
                left.push(to);
                continue;
            }
            // A new file must not stay under a final name; an old one that cannot be renamed back stays aside.
            if storage.rename(&to, &from).is_err() && (aside || storage.remove(&to).is_err()) {
                left.push(to);
            }
        }
        left.extend(self.staged.drain(..).filter(|path| !remove(storage, path)));
        left.extend(self.lock.take().and_then(|lock| lock.release(storage).err()));
        self.phase = phase;
        left
    }
}

impl Default for Staging {
    fn default() -> Self {
        Self::on(Box::new(Disk))
    }
}

impl Staging {
    pub(crate) fn on(storage: Box<dyn Storage>) -> Self {
        Self(Arc::new(Shared { storage, state: Mutex::default() }))
    }

    /// Stops the output: removes all staged files, undoes the renames so far, and makes every later write and the publication fail with
    /// [`OutputErrorKind::Interrupted`]. An output created later with this staging is refused in the same way.
    ///
    /// Returns false, and does nothing, if the output is already published: a command that is then told to stop has its complete
    /// result. Waits for a few renames only, never for written data to reach the disk.
    pub fn abandon(&self) -> bool {
        let mut state = self.state();
        match state.phase {
            Phase::Published => return false,
            Phase::Interrupted | Phase::Failed => {}
            Phase::Idle | Phase::Staged => {
                state.discard(self.storage(), Phase::Interrupted);
            }
        }
        true
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.0.storage
    }

    /// Whether writing may continue.
    pub(crate) fn check(&self) -> Result<(), OutputError> {
        self.state().check()
    }

    /// Removes everything after `error`, which lists what could not be removed. After an abandonment the error is
    /// [`OutputErrorKind::Interrupted`], whatever else went wrong because files vanished.
    pub(crate) fn fail(&self, error: OutputError) -> OutputError {
        let mut state = self.state();
        match state.phase {
            Phase::Interrupted => OutputError::interrupted(),
            Phase::Idle | Phase::Staged => {
                let left = state.discard(self.storage(), Phase::Failed);
                error.leaving(left)
            }
            Phase::Published | Phase::Failed => error,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the mutex panics between two steps that belong together.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the prefix, removes the files of a killed run, and creates a staged file for each target.
    pub(crate) fn open(&self, targets: &Targets, overwrite: bool) -> Result<Vec<File>, OutputError> {
        // Locked until the end: an abandonment finds either nothing or everything staged.
        let mut state = self.state();
        match state.phase {
            Phase::Idle => {}
            Phase::Interrupted => return Err(OutputError::interrupted()),
            Phase::Staged | Phase::Published | Phase::Failed => {
                return Err(OutputError::new(OutputErrorKind::Usage, "this staging has served another output already")
                    .hint("make a new one for each output"));
            }
        }
        let opened = self.open_files(&mut state, targets, overwrite);
        drop(state);
        opened.map_err(|error| self.fail(error))
    }

    fn open_files(&self, state: &mut State, targets: &Targets, overwrite: bool) -> Result<Vec<File>, OutputError> {
        targets.check_directory()?;
        if !targets.is_unfinished() {
            targets.refuse_existing(overwrite)?;
        }
        state.lock = Some(Lock::acquire(targets)?);
        state.phase = Phase::Staged;
        recover(self.storage(), targets)?;
        for stale in targets.leftovers() {
            match self.storage().remove(&stale) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OutputError::io(
                        OutputErrorKind::CannotCreate,
                        "cannot remove the stale",
                        &stale,
                        error,
                    ));
                }
                _ => {}
            }
        }
        // Checked again under the lock: another run may have published in between, and old data may have come back.
        targets.refuse_existing(overwrite)?;
        let mut files = Vec::new();
        for path in targets.all() {
            let staged = staged_name(path);
            files.push(
                self.storage()
                    .create(&staged)
                    .map_err(|error| OutputError::io(OutputErrorKind::CannotCreate, "cannot create", &staged, error))?,
            );
            state.staged.push(staged);
        }
        Ok(files)
    }

    /// Gives every staged file its final name, or none. All of them are complete, synced and closed. Returns the names moved aside that
    /// could not be removed afterwards.
    pub(crate) fn publish(&self, targets: &Targets, overwrite: bool) -> Result<Vec<PathBuf>, OutputError> {
        self.publish_files(targets, overwrite).map_err(|error| self.fail(error))
    }

    fn publish_files(&self, targets: &Targets, overwrite: bool) -> Result<Vec<PathBuf>, OutputError> {
        let storage = self.storage();
        let sync = || {
            let directory = targets.directory();
            storage
                .sync_directory(directory)
                .map_err(|error| OutputError::io(OutputErrorKind::Io, "cannot sync the directory", directory, error))
        };

        let mut state = self.state();
        state.check()?;
        // A rename would silently replace a file that another process has created since the first check.
        targets.refuse_existing(overwrite)?;
        state.move_aside(storage, &targets.manifest)?;
        let moved = !state.moves.is_empty();
        drop(state);
        if moved {
            sync()?;
        }

        let mut state = self.state();
        state.check()?;
        for path in &targets.data {
            state.move_aside(storage, path)?;
            state.finalize(storage, path)?;
        }
        drop(state);
        sync()?;

        let mut state = self.state();
        state.check()?;
        state.finalize(storage, &targets.manifest)?;
        drop(state);
        sync()?;

        let mut state = self.state();
        state.check()?;
        state.phase = Phase::Published;
        state.staged.clear();
        let moves = std::mem::take(&mut state.moves);
        // Old data can be large and slow to remove, so not under the mutex.
        let lock = state.lock.take();
        drop(state);
        let asides = moves.into_iter().filter(|done| done.aside).map(|done| done.to);
        let mut left: Vec<_> = asides.filter(|aside| !remove(storage, aside)).collect();
        left.extend(lock.and_then(|lock| lock.release(storage).err()));
        Ok(left)
    }
}

impl Lock {
    fn acquire(targets: &Targets) -> Result<Self, OutputError> {
        let path = targets.lock();
        let refused = |error| OutputError::io(OutputErrorKind::CannotCreate, "cannot create", &path, error);
        let busy = || {
            let message = format!("another run is writing {}", shown(&targets.prefix));
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
                return Ok(Self { path, _file: file });
            }
        }
        Err(busy())
    }

    /// Removes the name, then unlocks. Returns the name if it could not be removed.
    fn release(self, storage: &dyn Storage) -> Result<(), PathBuf> {
        if remove(storage, &self.path) { Ok(()) } else { Err(self.path) }
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

/// Whether two existing paths lead to the same file.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        matches!((id(one), id(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
        let targets = Targets::new(&directory.path().join("out"), Format::Npy, false, false);
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

//! Staged files, and their publication: all of them become final, or none.
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
//! So no manifest is ever next to data that it does not describe, and a manifest exists only with all of its data: **no manifest means not
//! published**. A run that is killed in steps 1 to 3 leaves no manifest under the final name. The next run for the prefix, whatever its outcome,
//! first undoes the renames of the killed run ([`recover`]). The old files get their names back, the old manifest last. Files moved aside are
//! removed only if a manifest says that the publication was complete.
//!
//! An output with shards also has a progress record. A run that ends early leaves the record, the finished shards and the list of
//! skipped documents under their staged names, and removes the rest. A run that resumes takes them over; any other run removes them.
//!
//! Every series of renames holds the state's mutex; the syncs, which can take long, do not. [`Staging::abandon`] locks the same mutex
//! and undoes the renames it finds. It waits for a few renames only; afterwards the directory has the same content as before the
//! run.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{OutputError, OutputErrorKind};
use super::lock::Lock;
use super::names::{MANIFEST, Targets, aside_name, exists, is_folder, staged_name};
use super::progress::Progress;
use super::storage::{Disk, NotPlain, Storage, removed};
use crate::shown;

fn sync_directory(storage: &dyn Storage, targets: &Targets, kind: OutputErrorKind) -> Result<(), OutputError> {
    let folder = Some(targets.prefix.as_path()).filter(|folder| is_folder(folder));
    folder.into_iter().chain([targets.directory()]).try_for_each(|directory| {
        let synced = storage.sync_directory(directory);
        synced.map_err(|error| OutputError::io(kind, "cannot sync the directory", directory, error))
    })
}

/// Creates a staged file.
fn create(storage: &dyn Storage, state: &mut State, staged: PathBuf) -> Result<File, OutputError> {
    let created = storage.create(&staged);
    let file =
        created.map_err(|error| OutputError::io(OutputErrorKind::CannotCreate, "cannot create", &staged, error))?;
    state.staged.push(staged);
    Ok(file)
}

/// Creates the folder of the data files, if it does not exist. A folder that is empty, or has only files of a killed run, counts as created: it is
/// removed if nothing is published.
fn create_folder(storage: &dyn Storage, state: &mut State, targets: &Targets) -> Result<(), OutputError> {
    let folder = &targets.prefix;
    if !is_folder(folder) {
        let created = storage.create_directory(folder);
        created.map_err(|error| OutputError::io(OutputErrorKind::CannotCreate, "cannot create", folder, error))?;
    }
    let staged: HashSet<PathBuf> = targets.leftovers().collect();
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    state.folder = entries.all(|entry| staged.contains(&entry.path())).then(|| folder.clone());
    Ok(())
}

/// The staged file of each target, and the progress of another run, with its finished shards.
type Opened = (Vec<File>, Option<Progress>);

/// Undoes the renames of a run that was killed before its publication was complete. Each step leaves names from which another call can
/// continue.
fn recover(storage: &dyn Storage, targets: &Targets) -> Result<(), OutputError> {
    if !targets.is_unfinished() {
        return Ok(());
    }
    let rename = |from: &Path, to: &Path| {
        storage.rename(from, to).map_err(|error| {
            let doing = format!("cannot undo the renames of a killed run by renaming {} to", shown(from));
            OutputError::io(OutputErrorKind::CannotCreate, &doing, to, error)
        })
    };
    let sync = || sync_directory(storage, targets, OutputErrorKind::CannotCreate);
    let mut moved = false;
    for target in targets.finalized_by_a_killed_run() {
        rename(&target, &staged_name(&target))?;
        moved = true;
    }
    // No run moves a folder aside, and none is renamed.
    let is_aside = |aside: &Path, target: &Path| match [aside, target].into_iter().find(|path| is_folder(path)) {
        Some(folder) if exists(aside) => Err(OutputError::in_the_way(folder, NotPlain::Directory)),
        _ => Ok(exists(aside)),
    };
    for target in targets.any_data() {
        let aside = aside_name(&target);
        if is_aside(&aside, &target)? {
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
    if is_aside(&aside, &targets.manifest)? {
        rename(&aside, &targets.manifest)?;
        sync()?;
    }
    Ok(())
}

/// The staged files of one output, for the thread that may have to abandon it.
///
/// Clones refer to the same output. A command creates a staging before any file is staged, gives it to the thread that handles Ctrl-C, and passes
/// it to [`Output::create_in`](super::Output::create_in).
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
    /// Staged names of finished shards and of their record, which a run that fails leaves for the next one.
    kept: Vec<PathBuf>,
    /// Number of these shards.
    kept_shards: usize,
    /// Renames done by the publication, in order.
    moves: Vec<Move>,
    lock: Option<Lock>,
    /// The folder of the data files, if it contained none before the run.
    folder: Option<PathBuf>,
}

#[derive(Debug)]
struct Move {
    from: PathBuf,
    to: PathBuf,
    /// True if an old file was moved aside; otherwise a staged file became final.
    aside: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No file is staged yet.
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

impl State {
    fn check(&self) -> Result<(), OutputError> {
        match self.phase {
            Phase::Staged => Ok(()),
            Phase::Interrupted => Err(OutputError::interrupted()),
            Phase::Idle | Phase::Published | Phase::Failed => Err(OutputError::new(
                OutputErrorKind::Io,
                "writing the output failed earlier, and the staged files have been removed; nothing more can be written",
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

    /// Undoes the renames and removes the staged files, except finished shards. Returns the names that it could not clear.
    fn discard(&mut self, storage: &dyn Storage, phase: Phase) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for Move { from, to, aside } in self.moves.drain(..).rev() {
            // The old manifest gets its name back only together with all of its data. Otherwise the next run completes the recovery.
            if !left.is_empty() && from.as_os_str().as_encoded_bytes().ends_with(MANIFEST.as_bytes()) {
                left.push(to);
                continue;
            }
            // A new file must not stay under a final name; an old one that cannot be renamed back stays aside.
            if storage.rename(&to, &from).is_err() && (aside || storage.remove(&to).is_err()) {
                left.push(to);
            }
        }
        left.extend(self.staged.drain(..).filter(|path| !removed(storage, path)));
        // The folder stays if it has shards that a run can resume.
        let is_empty = |folder: &PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        if let Some(folder) = self.folder.take().filter(is_empty)
            && storage.remove_directory(&folder).is_err()
        {
            left.push(folder);
        }
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
    /// Returns false, and does nothing, if the output is already published: a command that is interrupted then has its complete result. Waits for a
    /// few renames only, never for written data to reach the disk.
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

    /// Checks that writing may continue.
    pub(crate) fn check(&self) -> Result<(), OutputError> {
        self.state().check()
    }

    /// Removes everything after `error`. The returned error also lists the files that could not be removed. After an abandonment it is
    /// [`OutputErrorKind::Interrupted`], regardless of later errors from vanished files.
    pub(crate) fn fail(&self, error: OutputError) -> OutputError {
        let mut state = self.state();
        match state.phase {
            Phase::Interrupted => OutputError::interrupted(),
            Phase::Idle | Phase::Staged => {
                let left = state.discard(self.storage(), Phase::Failed);
                error.leaving(left).keeping(state.kept_shards)
            }
            Phase::Published | Phase::Failed => error,
        }
    }

    /// [Fails](Self::fail) after a call of the system.
    pub(crate) fn failed(&self, doing: &str, path: &Path, error: io::Error) -> OutputError {
        self.fail(OutputError::io(OutputErrorKind::Io, doing, path, error))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the mutex panics between two steps that belong together.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a step that no abandonment divides, if writing may continue.
    fn step<T>(&self, step: impl FnOnce(&mut State, &dyn Storage) -> Result<T, OutputError>) -> Result<T, OutputError> {
        let mut state = self.state();
        state.check()?;
        step(&mut state, self.storage())
    }

    /// Number of finished shards that are kept although nothing was published: the next run can resume after them.
    pub fn kept_shards(&self) -> usize {
        self.state().kept_shards
    }

    /// Gives finished shards up: they are removed like everything else if the output is not published.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        let kept = std::mem::take(&mut state.kept);
        state.staged.extend(kept);
        state.kept_shards = 0;
    }

    /// Creates a file with a name that is not final.
    pub(crate) fn create(&self, staged: PathBuf) -> Result<File, OutputError> {
        self.step(|state, storage| create(storage, state, staged)).map_err(|error| self.fail(error))
    }

    /// Makes the names in the directory durable.
    pub(crate) fn sync_directory(&self, targets: &Targets) -> Result<(), OutputError> {
        self.check()?;
        sync_directory(self.storage(), targets, OutputErrorKind::Io).map_err(|error| self.fail(error))
    }

    /// Keeps the staged files of another shard, which is finished and recorded.
    pub(crate) fn keep(&self, staged: &[PathBuf]) -> Result<(), OutputError> {
        self.step(|state, _| {
            state.kept.extend(state.staged.extract_if(.., |path| staged.contains(path)));
            state.kept_shards += 1;
            Ok(())
        })
    }

    /// Removes a file that was [created](Self::create) and is not published.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), OutputError> {
        let removed = self.step(|state, storage| {
            let gone = storage.remove(path);
            gone.map_err(|error| OutputError::io(OutputErrorKind::Io, "cannot remove", path, error))?;
            state.staged.retain(|other| other != path);
            Ok(())
        });
        removed.map_err(|error| self.fail(error))
    }

    /// Removes staged files of targets that were not needed.
    pub(crate) fn discard(&self, targets: &[PathBuf]) -> Result<(), OutputError> {
        self.step(|state, storage| {
            let names: Vec<PathBuf> = targets.iter().map(|target| staged_name(target)).collect();
            state.staged.retain(|path| !names.contains(path) || !removed(storage, path));
            Ok(())
        })
    }

    /// Locks the prefix, removes the files of a killed run, and creates a staged file for each target. With `resume`, the files in the record of a
    /// killed run are not removed, and the progress is returned.
    pub(crate) fn open(&self, targets: &Targets, overwrite: bool, resume: bool) -> Result<Opened, OutputError> {
        // Locked until the end: an abandonment finds either nothing or everything staged.
        let mut state = self.state();
        match state.phase {
            Phase::Idle => {}
            Phase::Interrupted => return Err(OutputError::interrupted()),
            Phase::Staged | Phase::Published | Phase::Failed => {
                return Err(OutputError::new(
                    OutputErrorKind::Usage,
                    "this `Staging` has already been used for another output",
                )
                .hint("create a new one for each output"));
            }
        }
        let opened = self.open_files(&mut state, targets, overwrite, resume);
        drop(state);
        opened.map_err(|error| self.fail(error))
    }

    fn open_files(
        &self,
        state: &mut State,
        targets: &Targets,
        overwrite: bool,
        resume: bool,
    ) -> Result<Opened, OutputError> {
        let storage = self.storage();
        targets.check_directory()?;
        if !targets.is_unfinished() {
            targets.refuse_existing(overwrite)?;
        }
        state.lock = Some(Lock::acquire(targets)?);
        state.phase = Phase::Staged;
        recover(storage, targets)?;
        let progress = if resume { Progress::load(storage, targets)? } else { None };
        if let Some(progress) = &progress {
            state.kept.clone_from(&progress.staged);
            state.kept_shards = progress.shards.len();
        }
        if targets.in_folder {
            create_folder(storage, state, targets)?;
        }
        let kept: HashSet<&PathBuf> = state.kept.iter().collect();
        for stale in targets.leftovers().filter(|path| !kept.contains(path)) {
            match storage.remove(&stale) {
                Err(_) if is_folder(&stale) => return Err(OutputError::in_the_way(&stale, NotPlain::Directory)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(OutputError::io(
                        OutputErrorKind::CannotCreate,
                        "cannot remove the stale file",
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
            files.push(if state.kept.contains(&staged) {
                let opened = storage.open(&staged);
                opened.map_err(|error| OutputError::io(OutputErrorKind::CannotCreate, "cannot open", &staged, error))?
            } else {
                create(storage, state, staged)?
            });
        }
        Ok((files, progress))
    }

    /// Gives every staged file its final name, or none. All of them are complete, synced and closed. Returns the names moved aside that
    /// could not be removed afterwards.
    pub(crate) fn publish(&self, targets: &Targets, overwrite: bool) -> Result<Vec<PathBuf>, OutputError> {
        self.publish_files(targets, overwrite).map_err(|error| self.fail(error))
    }

    fn publish_files(&self, targets: &Targets, overwrite: bool) -> Result<Vec<PathBuf>, OutputError> {
        let storage = self.storage();
        let sync = || sync_directory(storage, targets, OutputErrorKind::Io);

        let has_moved = self.step(|state, storage| {
            // A rename would silently replace a file that another process has created since the first check.
            targets.refuse_existing(overwrite)?;
            state.move_aside(storage, &targets.manifest)?;
            Ok(!state.moves.is_empty())
        })?;
        if has_moved {
            sync()?;
        }
        self.step(|state, storage| {
            targets.stale_shards().iter().try_for_each(|path| state.move_aside(storage, path))?;
            targets.data.iter().try_for_each(|path| {
                state.move_aside(storage, path)?;
                state.finalize(storage, path)
            })
        })?;
        sync()?;
        self.step(|state, storage| state.finalize(storage, &targets.manifest))?;
        sync()?;
        let published = State { phase: Phase::Published, ..State::default() };
        // Old data can be large and slow to remove, so not under the mutex.
        let State { moves, lock, .. } = self.step(|state, _| Ok(std::mem::replace(state, published)))?;
        let asides = moves.into_iter().filter(|done| done.aside).map(|done| done.to);
        let mut left: Vec<_> = asides.filter(|aside| !removed(storage, aside)).collect();
        if targets.has_shards() {
            left.extend(Some(targets.progress()).filter(|progress| !removed(storage, progress)));
        }
        left.extend(lock.and_then(|lock| lock.release(storage).err()));
        Ok(left)
    }
}

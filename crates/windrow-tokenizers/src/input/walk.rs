//! Finds the files of directories.
//!
//! One walker serves all commands. It follows symbolic links, but not in cycles. It skips hidden files and folders, as patterns do,
//! and on request also the entries that ignore files name (`.gitignore`, `.ignore`, git's own excludes). It counts what it skips.
//! The walk continues after an entry that cannot be read.
//!
//! Hidden are names that begin with a dot, and leftovers of data jobs: names that begin with `_` (`_temporary`, `_delta_log`,
//! `_SUCCESS`), unless they are partitions (`_key=value`), and those that end with `._COPYING_`. Spark, Hive, pyarrow and Trino hide the same.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use super::{Compression, InputError};
use crate::shown;

/// The entries of a directory that are skipped.
///
/// ```
/// use windrow_tokenizers::input::{WalkOptions, walk};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join(".notes.txt"), "")?;
/// let files = |hidden| walk(directory.path(), &WalkOptions { hidden, ..WalkOptions::default() }).map(|it| it.files.len());
/// assert_eq!((files(false)?, files(true)?), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkOptions {
    /// Include hidden files and folders.
    pub hidden: bool,
    /// The directory may hold source code, where names that begin with `_` are ordinary (`__init__.py`). Below such names, only JSON lines
    /// and Parquet are hidden.
    pub source: bool,
    /// Skip the entries that ignore files name. Those of parent folders count too, and those of git only inside a repository.
    pub ignore_files: bool,
}

/// The entries below a directory.
///
/// ```
/// use windrow_tokenizers::input::{WalkOptions, walk};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join(".ignore"), "*.log")?;
/// std::fs::write(directory.path().join("run.log"), "")?;
/// let walked = walk(directory.path(), &WalkOptions { ignore_files: true, ..WalkOptions::default() })?;
/// assert_eq!((walked.files.len(), walked.hidden, walked.ignored), (0, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct WalkedTree {
    /// Regular files, including the targets of links, in bytewise order of their paths.
    pub files: Vec<PathBuf>,
    /// Entries that cannot be read, such as broken links and folders that cannot be listed, with the system's errors. All others are found.
    pub broken: Vec<(PathBuf, io::Error)>,
    /// Sockets, pipes, devices.
    pub special: usize,
    /// Hidden files and folders that were skipped, whether or not ignore files name them too. The contents of such a folder are not
    /// counted.
    pub hidden: usize,
    /// Files and folders skipped because of ignore files. The contents of such a folder are not counted.
    pub ignored: usize,
    /// Notes for the user that need no action: links in cycles, ignore files that cannot be read, skipped entries.
    pub notes: Vec<String>,
    /// Some names of leftovers of data jobs.
    pub(super) leavings: Leavings,
}

/// Finds everything below `root`.
///
/// ```
/// use windrow_tokenizers::input::{WalkOptions, walk};
///
/// let directory = tempfile::tempdir()?;
/// let root = directory.path();
/// std::fs::create_dir(root.join("b"))?;
/// for name in ["b/1.txt", "a.txt"] {
///     std::fs::write(root.join(name), "")?;
/// }
/// assert_eq!(walk(root, &WalkOptions::default())?.files, [root.join("a.txt"), root.join("b/1.txt")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`InputError::Unreadable`] if `root` cannot be listed.
pub fn walk(root: &Path, options: &WalkOptions) -> Result<WalkedTree, InputError> {
    let mut builder = WalkBuilder::new(root);
    builder.follow_links(true).standard_filters(options.ignore_files).hidden(!options.hidden);
    if options.hides_leavings() {
        builder.filter_entry(|entry| entry.depth() == 0 || !is_leaving(entry.file_name()));
    }
    let mut walked = WalkedTree::default();
    let mut folders = Vec::new();
    let mut met = Counts::default();
    for entry in builder.build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                // The error of an unlistable folder follows the folder.
                let path = loop_of(&error).or(path_of(&error)).map(Path::to_path_buf);
                if path.as_ref().is_none_or(|path| folders.last() != Some(path)) {
                    met.add(path.as_deref().and_then(Path::file_name), options);
                }
                walked.fault(root, error)?;
                continue;
            }
        };
        if entry.depth() > 0 {
            met.add(Some(entry.file_name()), options);
        }
        if let Some(error) = entry.error() {
            walked.notes.push(shown(&error.to_string()).to_string());
        }
        if is(&entry, fs::FileType::is_dir) {
            folders.push(entry.into_path());
        } else if is(&entry, fs::FileType::is_file) {
            let path = entry.into_path();
            match options.leaving_above(path.strip_prefix(root).unwrap_or(&path), |_| false) {
                Some(name) => {
                    walked.hidden += 1;
                    walked.leavings.add(name);
                }
                None => walked.files.push(path),
            }
        } else {
            walked.special += 1;
        }
    }
    walked.count_excluded(&folders, &met, options);
    walked.files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    walked.note_excluded(root);
    Ok(walked)
}

fn is(entry: &DirEntry, what: impl Fn(&fs::FileType) -> bool) -> bool {
    entry.file_type().is_some_and(|kind| what(&kind))
}

/// True if the name marks a leftover of a data job.
pub(super) fn is_leaving(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    (name.starts_with(b"_") && !name.contains(&b'=')) || name.ends_with(b"._COPYING_")
}

/// True if a file with this name is JSON lines or Parquet, possibly compressed.
fn is_data(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let (stem, _) = Compression::of_name(&name);
    [".jsonl", ".ndjson", ".parquet"].iter().any(|suffix| stem.ends_with(suffix))
}

impl WalkOptions {
    /// True if all leftovers of data jobs are hidden.
    fn hides_leavings(&self) -> bool {
        !self.hidden && !self.source
    }

    fn hides(&self, name: &OsStr) -> bool {
        name.as_encoded_bytes().starts_with(b".") || (self.hides_leavings() && is_leaving(name))
    }

    /// The first name on the path to a file that marks a leftover of a data job, if it hides the file. Names with `is_named` do not count.
    pub(super) fn leaving_above<'p>(&self, path: &'p Path, is_named: impl Fn(&OsStr) -> bool) -> Option<&'p OsStr> {
        if self.hidden || (self.source && !path.file_name().is_some_and(is_data)) {
            return None;
        }
        path.iter().find(|name| is_leaving(name) && !is_named(name))
    }
}

/// Names of leftovers of data jobs: the first ones, for a note.
#[derive(Debug, Default)]
pub(super) struct Leavings(BTreeSet<OsString>);

impl Leavings {
    pub(super) fn add(&mut self, name: &OsStr) {
        self.0.insert(name.to_owned());
        if self.0.len() > NAMED {
            self.0.pop_last();
        }
    }
}

/// Number of names that a note lists.
pub(super) const NAMED: usize = 3;

/// Names for a note: the first ones, and the number of the others.
pub(super) fn listed<N: AsRef<OsStr>>(names: &[N]) -> String {
    let mut list: Vec<String> = names.iter().take(NAMED).map(|name| shown(name).to_string()).collect();
    if names.len() > NAMED {
        list.push(format!("and {} more", names.len() - NAMED));
    }
    list.join(", ")
}

/// The note about entries that cannot be read, if there are any.
pub(super) fn note_unreadable(root: &Path, broken: &[(PathBuf, io::Error)]) -> Option<String> {
    let (path, error) = broken.first()?;
    let entries =
        if broken.len() == 1 { "entry could not be read and was" } else { "entries could not be read and were" };
    let which = if broken.len() == 1 { "" } else { "the first: " };
    let below = path.strip_prefix(root).unwrap_or(path);
    Some(format!("{}: {} {entries} ignored ({which}{}: {error})", shown(root), broken.len(), shown(below)))
}

/// Numbers of entries of folders.
#[derive(Debug, Default)]
struct Counts {
    hidden: usize,
    others: usize,
}

impl Counts {
    fn add(&mut self, name: Option<&OsStr>, options: &WalkOptions) {
        let is_hidden = name.is_some_and(|name| options.hides(name));
        self.hidden += usize::from(is_hidden);
        self.others += usize::from(!is_hidden);
    }
}

impl WalkedTree {
    /// Records an entry that the walker could not follow.
    fn fault(&mut self, root: &Path, error: ignore::Error) -> Result<(), InputError> {
        if let Some(link) = loop_of(&error) {
            self.notes.push(format!("{}: ignored because it links back to a directory above it", shown(link)));
            return Ok(());
        }
        let path = path_of(&error).unwrap_or(root).to_path_buf();
        let source = system_error(&error).unwrap_or_else(|| io::Error::other(error));
        if path == root {
            return Err(InputError::unreadable(&path, source));
        }
        self.broken.push((path, source));
        Ok(())
    }

    /// Counts what the walker skipped: the entries of its folders, less the `met` ones.
    fn count_excluded(&mut self, folders: &[PathBuf], met: &Counts, options: &WalkOptions) {
        let mut there = Counts::default();
        // The walk has recorded the error of an unlistable folder.
        for entry in folders.iter().flat_map(fs::read_dir).flatten().flatten() {
            let name = entry.file_name();
            there.add(Some(&name), options);
            if options.hides_leavings() && is_leaving(&name) {
                self.leavings.add(&name);
            }
        }
        // A file that appeared or vanished in between must not make this underflow.
        self.hidden += there.hidden.saturating_sub(met.hidden);
        self.ignored = there.others.saturating_sub(met.others);
    }

    pub(super) fn note_excluded(&mut self, root: &Path) {
        let entries = |count| if count == 1 { "file or folder" } else { "files and folders" };
        let Self { hidden, ignored, .. } = *self;
        if hidden > 0 {
            let names: Vec<&OsString> = self.leavings.0.iter().collect();
            let such = if names.is_empty() { String::new() } else { format!(", such as {}", listed(&names)) };
            let what = entries(hidden);
            self.notes.push(format!(
                "{}: {hidden} hidden {what} excluded{such} (pass --hidden to include hidden entries)",
                shown(root)
            ));
        }
        if ignored > 0 {
            let what = format!("{ignored} {} excluded by ignore files", entries(ignored));
            self.notes.push(format!("{}: {what} (pass --no-ignore to include ignored entries)", shown(root)));
        }
    }
}

/// The system's error, without the walker's texts, which repeat the path.
fn system_error(error: &ignore::Error) -> Option<io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.io_error().map(|error| error as _);
    while let Some(error) = cause {
        if let Some(code) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return Some(io::Error::from_raw_os_error(code));
        }
        cause = error.source();
    }
    None
}

/// The link that closes a cycle, if the error is about one.
fn loop_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::Loop { child, .. } => Some(child),
        ignore::Error::WithPath { err, .. }
        | ignore::Error::WithDepth { err, .. }
        | ignore::Error::WithLineNumber { err, .. } => loop_of(err),
        _ => None,
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}

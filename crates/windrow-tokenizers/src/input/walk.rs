//! Finds the files of directories.
//!
//! One walker serves all commands. It follows symbolic links, but not in circles. It skips hidden files and folders, as patterns do,
//! and on request also the entries that ignore files name (`.gitignore`, `.ignore`, git's own excludes). It counts what it skips.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

use super::InputError;
use crate::shown;

/// Which entries of a directory are skipped.
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
    /// Include files and folders whose names begin with a dot.
    pub hidden: bool,
    /// Skip the entries that ignore files name. Those of parent folders count too, and those of git only inside of a repository.
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
pub struct Walked {
    /// Regular files, also behind links, in bytewise order of their paths.
    pub files: Vec<PathBuf>,
    /// Broken links, with the system's errors.
    pub broken: Vec<(PathBuf, io::Error)>,
    /// Sockets, pipes, devices.
    pub special: usize,
    /// Hidden files and folders that were skipped, whether or not ignore files name them too. The contents of such a folder are not
    /// counted.
    pub hidden: usize,
    /// Files and folders skipped because of ignore files. The contents of such a folder are not counted.
    pub ignored: usize,
    /// Notes for the user that need no action: links in circles, ignore files that cannot be read, skipped entries.
    pub notes: Vec<String>,
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
/// [`InputError::Unreadable`] for a folder that cannot be listed.
pub fn walk(root: &Path, options: &WalkOptions) -> Result<Walked, InputError> {
    let mut builder = WalkBuilder::new(root);
    builder.follow_links(true).standard_filters(options.ignore_files).hidden(!options.hidden);
    let mut walked = Walked::default();
    let mut folders = Vec::new();
    let mut met = Counts::default();
    for entry in builder.build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                met.add(loop_of(&error).or(path_of(&error)).and_then(Path::file_name));
                walked.fault(root, error)?;
                continue;
            }
        };
        if entry.depth() > 0 {
            met.add(Some(entry.file_name()));
        }
        if let Some(error) = entry.error() {
            walked.notes.push(shown(&error.to_string()).to_string());
        }
        if is(&entry, fs::FileType::is_dir) {
            folders.push(entry.into_path());
        } else if is(&entry, fs::FileType::is_file) {
            walked.files.push(entry.into_path());
        } else {
            walked.special += 1;
        }
    }
    walked.count_left_out(&folders, &met)?;
    walked.files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    walked.note_left_out(root);
    Ok(walked)
}

fn is(entry: &DirEntry, what: impl Fn(&fs::FileType) -> bool) -> bool {
    entry.file_type().is_some_and(|kind| what(&kind))
}

/// Whether a name begins with a dot.
///
/// ```
/// use windrow_tokenizers::input::is_hidden;
///
/// assert!(is_hidden(".git".as_ref()));
/// assert!(!is_hidden("a.txt".as_ref()));
/// ```
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Numbers of entries of folders.
#[derive(Debug, Default)]
struct Counts {
    hidden: usize,
    others: usize,
}

impl Counts {
    fn add(&mut self, name: Option<&OsStr>) {
        let is_hidden = name.is_some_and(is_hidden);
        self.hidden += usize::from(is_hidden);
        self.others += usize::from(!is_hidden);
    }
}

impl Walked {
    /// Records an entry that the walker could not follow.
    fn fault(&mut self, root: &Path, error: ignore::Error) -> Result<(), InputError> {
        if let Some(link) = loop_of(&error) {
            self.notes.push(format!("{}: passed over, it links back to a directory above it", shown(link)));
            return Ok(());
        }
        let path = path_of(&error).unwrap_or(root).to_path_buf();
        let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
        let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_symlink());
        if is_link && source.kind() == io::ErrorKind::NotFound {
            self.broken.push((path, source));
            return Ok(());
        }
        Err(InputError::unreadable(&path, source))
    }

    /// Counts what the walker skipped: the entries of its folders, less the `met` ones.
    fn count_left_out(&mut self, folders: &[PathBuf], met: &Counts) -> Result<(), InputError> {
        let mut there = Counts::default();
        for folder in folders {
            for entry in fs::read_dir(folder).map_err(|source| InputError::unreadable(folder, source))? {
                let entry = entry.map_err(|source| InputError::unreadable(folder, source))?;
                there.add(Some(&entry.file_name()));
            }
        }
        // A file that appeared or vanished in between must not make this underflow.
        self.hidden = there.hidden.saturating_sub(met.hidden);
        self.ignored = there.others.saturating_sub(met.others);
        Ok(())
    }

    pub(super) fn note_left_out(&mut self, root: &Path) {
        let entries = |count| if count == 1 { "file or folder" } else { "files and folders" };
        if self.hidden > 0 {
            let Self { hidden, .. } = *self;
            self.notes.push(format!(
                "{}: {hidden} hidden {} left out (--hidden takes them)",
                shown(root),
                entries(hidden)
            ));
        }
        if self.ignored > 0 {
            let Self { ignored, .. } = *self;
            let what = entries(ignored);
            self.notes
                .push(format!("{}: {ignored} {what} left out by ignore files (--no-ignore takes them)", shown(root)));
        }
    }
}

/// The link that closes a circle, if that is the error.
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

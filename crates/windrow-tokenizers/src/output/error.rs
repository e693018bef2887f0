//! The errors of an output.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::storage::what_is_not_plain;
use crate::remedy::remedy;
use crate::shown;

/// The end of a hint for outputs without finished shards.
const REMOVED: &str = "; what was written so far has been removed";

/// The kinds of [`OutputError`].
///
/// ```
/// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("corpus.ids.npy"), "")?;
/// let error = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300)).unwrap_err();
/// assert_eq!(error.kind(), OutputErrorKind::Exists);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputErrorKind {
    /// The options contradict each other or the vocabulary: nothing was touched.
    Usage,
    /// A file exists and must not be replaced.
    Exists,
    /// A file cannot be created: another run is writing it, or its directory is missing or refuses it.
    CannotCreate,
    /// The operating system failed to write, flush, sync or rename.
    Io,
    /// A document is too long for the format. It was not written; the output can continue without it.
    Document,
    /// An id does not fit the element type. No document of its run was written.
    Id,
    /// The counts of the manifest contradict each other or the written data.
    Accounting,
    /// The output was abandoned, usually by the thread that handles Ctrl-C.
    Interrupted,
}

/// An output that cannot be created, written or published.
///
/// The [`Display`](fmt::Display) form is one line with the place and the system's error, and a second line `hint: ...` if there is a
/// remedy.
///
/// ```
/// use windrow_tokenizers::output::{Output, OutputErrorKind, OutputOptions};
///
/// let directory = tempfile::tempdir()?;
/// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
/// let error = output.append(&[7, 70_000], &[1, 2]).unwrap_err();
/// assert_eq!((error.kind(), error.document()), (OutputErrorKind::Id, Some(1)));
/// assert!(error.to_string().starts_with("id 70000 in document 1 (counted from 0) does not fit in u16"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct OutputError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: OutputErrorKind,
    message: String,
    hint: Option<String>,
    path: Option<PathBuf>,
    document: Option<u64>,
    not_removed: Vec<PathBuf>,
    kept_shards: usize,
    source: Option<io::Error>,
}

impl OutputError {
    pub(crate) fn new(kind: OutputErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            path: None,
            document: None,
            not_removed: Vec::new(),
            kept_shards: 0,
            source: None,
        }))
    }

    /// `doing` is a phrase such as `cannot write`; the path and the system's error are appended.
    pub(crate) fn io(kind: OutputErrorKind, doing: &str, path: &Path, source: io::Error) -> Self {
        if let Some(what) = what_is_not_plain(&source) {
            return Self::in_the_way(path, what);
        }
        let hint = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space on the disk, or write to another one with -o; what was written so far has been removed"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "use -o to choose a directory that you may write to"
            }
            _ => remedy(&source).unwrap_or("check the disk (space, quota, health), or write to another one with -o"),
        };
        let mut error = Self::new(kind, format!("{doing} {}: {source}", shown(path))).at(path).hint(hint);
        error.0.source = Some(source);
        error
    }

    /// An error for an entry that has a name of the output and that no run has made.
    pub(crate) fn in_the_way(path: &Path, what: impl fmt::Display) -> Self {
        Self::new(OutputErrorKind::CannotCreate, format!("{} is in the way: it {what}", shown(path)))
            .at(path)
            .hint("remove it if it is not needed, or choose another prefix with -o")
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(OutputErrorKind::Interrupted, "interrupted: the output was abandoned and nothing was published")
    }

    /// An error for an input that must be read from its beginning, and so cannot be compared with the input of the earlier run.
    pub(crate) fn cannot_resume_stream(name: &str) -> Self {
        let message = format!("{}: cannot resume: windrow cannot check whether this input has changed", shown(name));
        Self::new(OutputErrorKind::CannotCreate, message)
            .hint("save the input to a file first, or start again without --resume; this removes the finished shards")
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_owned());
        self
    }

    pub(crate) fn in_document(mut self, document: u64) -> Self {
        self.0.document = Some(document);
        self
    }

    pub(crate) fn leaving(mut self, paths: Vec<PathBuf>) -> Self {
        self.0.not_removed.extend(paths);
        self
    }

    pub(crate) fn keeping(mut self, shards: usize) -> Self {
        self.0.kept_shards = shards;
        if let Some(hint) = &mut self.0.hint
            && shards > 0
        {
            *hint = hint.replace(REMOVED, "");
        }
        self
    }

    /// The kind of error.
    pub fn kind(&self) -> OutputErrorKind {
        self.0.kind
    }

    /// The file or directory concerned, under its final name.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The number of the offending document among the written ones, from 0.
    pub fn document(&self) -> Option<u64> {
        self.0.document
    }

    /// Number of finished shards that were kept: a run that [resumes](super::OutputOptions::resume) continues after them.
    pub fn kept_shards(&self) -> usize {
        self.0.kept_shards
    }

    /// Staged files that could not be removed either and must be removed by hand. Almost always empty.
    pub fn not_removed(&self) -> &[PathBuf] {
        &self.0.not_removed
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for path in &self.0.not_removed {
            write!(f, "\nnot removed: {}", shown(path))?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

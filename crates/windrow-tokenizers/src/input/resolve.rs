//! Turns arguments into files.

mod notes;
mod objects;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::store::Stores;
use super::url::Named;
use super::walk::{WalkOptions, WalkedTree, is_leaving, note_unreadable, walk};
use super::{Compression, Format, InputError, InputFile, Origin};
use crate::diagnose;
use crate::shown;

/// Number of bytes of a file that are read to detect text.
const FIRST_BLOCK: usize = 64 << 10;

/// The interpretation of arguments.
///
/// ```
/// use windrow_tokenizers::input::{Format, InputOptions, resolve};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("main.rs");
/// std::fs::write(&path, "fn main() {}")?;
/// let args = [path.display().to_string()];
/// assert!(resolve(&args, &InputOptions::default()).is_err(), "the extension is unknown");
/// let options = InputOptions { extensions: vec!["rs".to_owned()], lines: true, ..InputOptions::default() };
/// assert_eq!(resolve(&args, &options)?.files[0].format(), Format::Lines);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct InputOptions {
    /// [`Format::Lines`] replaces [`Format::Text`].
    pub lines: bool,
    /// The format of every file, regardless of its extension. Without it the extension decides, and stdin is text.
    pub format: Option<Format>,
    /// Additional extensions of text, without the dot, in lower case.
    pub extensions: Vec<String>,
    /// Every file is text, regardless of its extension. Files of directories and patterns that are not text (a NUL or invalid UTF-8 in
    /// the first 64 KiB) are ignored.
    pub all_text: bool,
    /// A file with an unknown extension is text, unless a zero byte among its first bytes shows that it is binary; its reader reports it.
    /// Any file with the extension of a compression is decompressed.
    pub others_are_text: bool,
    /// Every file is text, and is read as stored: not decompressed, with its byte order mark.
    pub raw: bool,
    /// Names that cannot be found, listed or opened are [listed](Resolved::failed), and the rest is resolved. No file is opened for a check.
    pub lists_failures: bool,
    /// The entries of directories that are skipped.
    pub walk: WalkOptions,
}

/// The origin of an input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    ByName,
    ByPattern,
}

impl InputOptions {
    fn format(&self, by_extension: Option<Format>) -> Option<Format> {
        match self.format.or(by_extension) {
            Some(Format::Text) if self.lines => Some(Format::Lines),
            format => format,
        }
    }

    /// Format and compression by extension.
    fn kind_of(&self, path: &Path) -> (Option<Format>, Compression) {
        if self.raw {
            return (None, Compression::None);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let (stem, compression) = Compression::of_name(&name);
        let extension = stem.rsplit_once('.').map(|(_, extension)| extension);
        let format = match extension {
            Some("txt" | "text" | "md") => Some(Format::Text),
            Some(extension) if self.extensions.iter().any(|text| text == extension) => Some(Format::Text),
            // With --all-text, every file is text.
            _ if self.all_text => None,
            Some("jsonl" | "ndjson") => Some(Format::Jsonl),
            Some("parquet") => Some(Format::Parquet),
            Some("warc" | "wet") => Some(Format::Warc),
            // Usually one value over many lines, so only on request; but large corpora give their compressed JSON lines this name.
            Some("json") if self.format == Some(Format::Jsonl) || compression != Compression::None => {
                Some(Format::Jsonl)
            }
            Some("jl" | "jsonlines") if self.format == Some(Format::Jsonl) => Some(Format::Jsonl),
            _ => None,
        };
        (format, compression)
    }

    /// True if a file of a directory cannot have the forced format. A file with another extension is hardly Parquet, and a Parquet file has no
    /// other format.
    fn forces_other_than(&self, kind: Format) -> bool {
        self.format.is_some_and(|forced| (forced == Format::Parquet) != (kind == Format::Parquet))
    }

    /// The [kind](Self::kind_of) of a file, for which the first bytes may also show that it is text; `None` for a file to pass over.
    fn kind_or_text(
        &self,
        path: &Path,
        is_text: impl FnOnce() -> Result<bool, InputError>,
    ) -> Result<Option<Kind>, InputError> {
        match self.kind_of(path) {
            (Some(format), compression) => Ok(Some(Kind { format, compression, is_guessed: false })),
            (None, compression) if self.others_are_text => Ok(Some(Kind::guessed(compression))),
            (None, _) if self.all_text && is_text()? => {
                Ok(Some(Kind { format: Format::Text, compression: Compression::None, is_guessed: false }))
            }
            (None, _) => Ok(None),
        }
    }

    /// The kind of a file in a folder; none if it is ignored.
    fn kind_below(
        &self,
        path: &Path,
        passed_over: &mut PassedOver,
        is_text: impl FnOnce() -> Result<bool, InputError>,
    ) -> Result<Option<Kind>, InputError> {
        let kind = self.kind_or_text(path, is_text)?;
        let read = kind.filter(|kind| !self.forces_other_than(kind.format));
        if read.is_none() {
            passed_over.add(path, self.all_text || kind.is_some());
        }
        Ok(read.map(|kind| Kind { format: self.format(Some(kind.format)).unwrap_or(kind.format), ..kind }))
    }

    /// The kind of a file that an argument names, if it is known.
    fn kind_named(&self, path: &Path) -> Option<Kind> {
        let (by_extension, compression) = match self.kind_of(path) {
            // A name on the command line is explicit: if the file is not text, its document is bad.
            (None, _) if self.all_text => (Some(Format::Text), Compression::None),
            kind => kind,
        };
        match self.format(by_extension) {
            Some(format) => Some(Kind { format, compression, is_guessed: false }),
            None => self.others_are_text.then(|| Kind::guessed(compression)),
        }
    }
}

/// Kind of a file.
#[derive(Clone, Copy, Debug)]
struct Kind {
    format: Format,
    compression: Compression,
    /// True if the file is treated as text because its kind is unknown.
    is_guessed: bool,
}

impl Kind {
    fn guessed(compression: Compression) -> Self {
        Self { format: Format::Text, compression, is_guessed: true }
    }
}

/// True if the first block of a file is UTF-8 without NUL.
fn is_text(path: &Path) -> Result<bool, InputError> {
    let unreadable = |source| InputError::unreadable(path, source);
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Ok(false);
    }
    let mut block = Vec::with_capacity(FIRST_BLOCK);
    let file = File::open(path).map_err(unreadable)?;
    file.take(FIRST_BLOCK as u64).read_to_end(&mut block).map_err(unreadable)?;
    Ok(begins_as_text(&block))
}

/// True if this first block is text.
fn begins_as_text(block: &[u8]) -> bool {
    let is_utf8 = match str::from_utf8(block) {
        Ok(_) => true,
        // The block may end within a character.
        Err(error) => error.error_len().is_none() && block.len() == FIRST_BLOCK,
    };
    is_utf8 && !block.contains(&0)
}

/// The files for which the arguments stand.
///
/// ```
/// use windrow_tokenizers::input::{InputOptions, resolve};
///
/// let directory = tempfile::tempdir()?;
/// for name in ["b.txt", "a.txt", "c.bin"] {
///     std::fs::write(directory.path().join(name), "")?;
/// }
/// let resolved = resolve(&[directory.path().display().to_string()], &InputOptions::default())?;
/// let names: Vec<_> = resolved.files.iter().map(|file| file.path().and_then(|path| path.file_name())).collect();
/// assert_eq!(names, [Some("a.txt".as_ref()), Some("b.txt".as_ref())]);
/// assert!(resolved.notes[0].ends_with("1 file with another extension was ignored"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Resolved {
    /// The files, in the order of the arguments; files of a directory or a pattern in bytewise order of their paths.
    pub files: Vec<InputFile>,
    /// Notes for the user that need no action: files ignored, files read twice.
    pub notes: Vec<String>,
    /// Names that could not be found, listed or opened, if [`InputOptions::lists_failures`] is set.
    pub failed: Vec<InputError>,
}

/// Finds the files for which `args` stand, and checks that they can be opened.
///
/// - A file stands for itself. Its extension determines the format: `.txt`, `.text` and `.md` are text, `.jsonl` and `.ndjson` are
///   jsonl, `.parquet` is parquet. An additional `.gz`, `.zst`, `.zstd`, `.xz` or `.bz2` determines the compression. All are recognized in upper or lower case.
///   [`InputOptions::extensions`] and [`InputOptions::all_text`] make more files text. A compressed `.json` is
///   jsonl, and a plain one is with the format forced to jsonl.
/// - A directory stands for all files with these extensions below it, as [`walk`] finds them.
/// - `-` is stdin.
/// - `s3://BUCKET/KEY`, `gs://BUCKET/KEY` and `https://HOST/PATH` (also `http`) stand for an object of a store, and with a `/` at the end for all
///   objects below it, as if they were files. (Needs the feature `object-store`.) `file:///PATH` is a path.
/// - An argument that does not exist and contains `*`, `?` or `[` is a pattern. It stands for the names that a shell would expand it
///   to; each match is treated as an argument.
///
/// ```
/// use windrow_tokenizers::input::{Compression, Format, InputOptions, resolve};
///
/// let directory = tempfile::tempdir()?;
/// std::fs::write(directory.path().join("a.txt"), "")?;
/// std::fs::write(directory.path().join("b.jsonl.gz"), "")?;
/// let pattern = directory.path().join("*").display().to_string();
/// let files = resolve(&[pattern], &InputOptions::default())?.files;
/// let kinds: Vec<_> = files.iter().map(|file| (file.format(), file.compression())).collect();
/// assert_eq!(kinds, [(Format::Text, Some(Compression::None)), (Format::Jsonl, Some(Compression::Gzip))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Every error of [`ErrorClass::Usage`](super::ErrorClass::Usage), and [`InputError::Unreadable`]. If
/// [`InputOptions::lists_failures`] is set, only [`InputError::StdinTwice`].
pub fn resolve<S: AsRef<OsStr>>(args: &[S], options: &InputOptions) -> Result<Resolved, InputError> {
    let mut found = Found {
        options,
        stores: Stores::new(),
        files: Vec::new(),
        notes: Vec::new(),
        seen: HashSet::new(),
        repeated: Vec::new(),
        failed: Vec::new(),
    };
    if args.is_empty() {
        return Err(InputError::NoInputs);
    }
    let mut stdin = false;
    for arg in args {
        let arg = arg.as_ref();
        if arg == "-" {
            if stdin {
                return Err(InputError::StdinTwice);
            }
            stdin = true;
            let format = options.format(Some(Format::Text)).unwrap_or(Format::Text);
            let is_guessed = options.others_are_text && options.format.is_none();
            let compression = options.raw.then_some(Compression::None);
            found.files.push(InputFile { is_guessed, is_raw: options.raw, compression, ..InputFile::stdin(format) });
        } else {
            let outcome = found.argument(arg);
            found.outcome(outcome)?;
        }
    }
    if let Some((first, others)) = found.repeated.split_first() {
        let more = match others.len() {
            0 => String::new(),
            1 => "; so is 1 other".to_owned(),
            more => format!("; so are {more} others"),
        };
        found.notes.push(format!(
            "{}: reached more than once, through arguments or links, and read each time{more}",
            shown(first)
        ));
    }
    Ok(Resolved { files: found.files, notes: found.notes, failed: found.failed })
}

/// Identity of a file, whatever its name.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    /// Device and inode. The target of a descriptor (a pipe, a deleted file) has no other identity.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The path with links resolved, or the URL.
    Name(PathBuf),
}

impl Identity {
    #[cfg(unix)]
    fn of(_: &Path, metadata: &fs::Metadata) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        Ok(Self::Inode(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(path: &Path, _: &fs::Metadata) -> io::Result<Self> {
        fs::canonicalize(path).map(Self::Name)
    }
}

struct Found<'o> {
    options: &'o InputOptions,
    stores: Stores,
    files: Vec<InputFile>,
    notes: Vec<String>,
    seen: HashSet<Identity>,
    /// Files that occurred before.
    repeated: Vec<PathBuf>,
    failed: Vec<InputError>,
}

impl Found<'_> {
    /// Lists a failure, or ends the call with it.
    fn outcome(&mut self, outcome: Result<(), InputError>) -> Result<(), InputError> {
        match outcome {
            Err(error) if self.options.lists_failures => {
                self.failed.push(error);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn argument(&mut self, arg: &OsStr) -> Result<(), InputError> {
        let local = match arg.to_str().map(Named::parse).transpose()?.flatten() {
            Some(Named::Remote(url)) => return self.remote(&url),
            Some(Named::Local(path)) => Some(path),
            None => None,
        };
        let path = local.as_deref().unwrap_or(Path::new(arg));
        match fs::symlink_metadata(path) {
            Ok(_) => self.named(path, Chosen::ByName),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(InputError::unreadable(path, e)),
            Err(_) => match path.to_str().filter(|path| path.contains(['*', '?', '['])) {
                Some(pattern) => self.pattern(pattern),
                None => Err(InputError::Missing { name: path.display().to_string() }),
            },
        }
    }

    fn named(&mut self, path: &Path, chosen: Chosen) -> Result<(), InputError> {
        let metadata = fs::metadata(path).map_err(|e| InputError::unreadable(path, e))?;
        if metadata.is_dir() {
            return self.directory(path);
        }
        let kind = match chosen {
            Chosen::ByPattern if self.options.all_text => {
                let Some(kind) = self.options.kind_or_text(path, || is_text(path))? else {
                    self.notes.push(format!("{}: ignored because it is not text", shown(path)));
                    return Ok(());
                };
                let format = self.options.format(Some(kind.format)).unwrap_or(kind.format);
                Kind { format, is_guessed: false, ..kind }
            }
            _ => self.options.kind_named(path).ok_or_else(|| unknown(path, &metadata))?,
        };
        self.add(path.to_path_buf(), kind, true, &metadata)
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), InputError> {
        let like_a_shell = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: !self.options.walk.hidden,
        };
        let matches = glob::glob_with(pattern, like_a_shell)
            .map_err(|e| InputError::BadPattern { pattern: pattern.into(), reason: e.to_string() })?;
        let named = named_leavings(pattern);
        let (mut paths, mut broken, mut excluded) = (Vec::new(), Vec::new(), WalkedTree::default());
        for found in matches {
            let path = match found {
                Ok(path) => path,
                Err(error) => {
                    broken.push((error.path().to_path_buf(), error.into()));
                    continue;
                }
            };
            let is_named = |name: &OsStr| named.iter().any(|part| part.matches(&name.to_string_lossy()));
            match self.options.walk.leaving_above(&path, is_named) {
                Some(name) => {
                    excluded.hidden += 1;
                    excluded.leavings.add(name);
                }
                None => paths.push(path),
            }
        }
        paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
        let (before, failed, is_match) = (self.files.len(), self.failed.len(), !paths.is_empty());
        for path in paths {
            match self.named(&path, Chosen::ByPattern) {
                Err(InputError::Unreadable { source, .. }) => broken.push((path, source)),
                outcome => self.outcome(outcome)?,
            }
        }
        if self.files.len() == before && self.failed.len() == failed {
            return match (broken.is_empty(), is_match) {
                (false, _) => self.all_unreadable(broken),
                (true, true) => Ok(()),
                (true, false) => Err(InputError::NoMatch { pattern: pattern.into(), hidden: excluded.hidden }),
            };
        }
        excluded.note_excluded(Path::new(pattern));
        self.notes.append(&mut excluded.notes);
        self.unreadable(Path::new(""), broken);
        self.note_mixture(Path::new(pattern), before);
        Ok(())
    }

    fn directory(&mut self, root: &Path) -> Result<(), InputError> {
        let mut walked = walk(root, &self.options.walk)?;
        self.notes.append(&mut walked.notes);
        let (mut passed_over, before) = (PassedOver { count: walked.special, data: Vec::new() }, self.files.len());
        let mut broken = walked.broken;
        for path in walked.files {
            // The file may have vanished since, and no argument named it.
            match self.below(path, &mut passed_over) {
                Err(InputError::Unreadable { name, source }) => broken.push((PathBuf::from(name), source)),
                outcome => self.outcome(outcome)?,
            }
        }
        if self.files.len() == before && !self.options.others_are_text {
            return match broken.is_empty() {
                false => self.all_unreadable(broken),
                true => Err(passed_over.nothing_else(root, walked.hidden + walked.ignored)),
            };
        }
        self.unreadable(root, broken);
        self.note_passed_over(root, &passed_over);
        self.note_mixture(root, before);
        Ok(())
    }

    /// Notes entries that cannot be read, and lists them if failures are listed. A broken link is not a failure.
    fn unreadable(&mut self, root: &Path, broken: Vec<(PathBuf, io::Error)>) {
        let lists = self.options.lists_failures;
        let (failed, noted): (Vec<_>, Vec<_>) =
            broken.into_iter().partition(|(path, source)| lists && !is_broken_link(path, source));
        self.notes.extend(note_unreadable(root, &noted));
        self.failed.extend(failed.into_iter().map(|(path, source)| InputError::unreadable(&path, source)));
    }

    /// Notes unreadable entries when nothing else was found.
    fn all_unreadable(&mut self, broken: Vec<(PathBuf, io::Error)>) -> Result<(), InputError> {
        broken.into_iter().try_for_each(|(path, source)| self.outcome(Err(InputError::unreadable(&path, source))))
    }

    /// Adds a file of a directory, or passes it over.
    fn below(&mut self, path: PathBuf, passed_over: &mut PassedOver) -> Result<(), InputError> {
        let Some(kind) = self.options.kind_below(&path, passed_over, || is_text(&path))? else { return Ok(()) };
        let metadata = fs::metadata(&path).map_err(|e| InputError::unreadable(&path, e))?;
        self.add(path, kind, false, &metadata)
    }

    fn add(&mut self, path: PathBuf, kind: Kind, is_named: bool, metadata: &fs::Metadata) -> Result<(), InputError> {
        let name = path.display().to_string();
        if !self.options.lists_failures {
            // Regular files only: opening a named pipe here would wait for its writer, or take it away from the reader.
            if metadata.is_file() {
                File::open(&path).map_err(|e| InputError::unreadable(&path, e))?;
            }
            if !self.seen.insert(Identity::of(&path, metadata).map_err(|e| InputError::unreadable(&path, e))?) {
                self.repeated.push(path.clone());
            }
        }
        let Kind { format, compression, is_guessed } = kind;
        let (bytes, is_raw) = (metadata.is_file().then_some(metadata.len()), self.options.raw);
        // A descriptor has no extension, and a pipe need not have one.
        let is_known = is_raw || compression != Compression::None || (metadata.is_file() && !is_descriptor(&path));
        let compression = is_known.then_some(compression);
        let origin = if is_stdin(metadata) { Origin::Stdin } else { Origin::Path(path) };
        self.files.push(InputFile { name, format, compression, bytes, is_named, is_guessed, is_raw, origin });
        Ok(())
    }
}

/// True if this error means that an entry is a link without a target.
fn is_broken_link(path: &Path, error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        && fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_symlink())
}

/// Files of a directory that are not read.
#[derive(Default)]
struct PassedOver {
    count: usize,
    /// Files that look like data, by their names.
    data: Vec<(PathBuf, diagnose::Foreign)>,
}

impl PassedOver {
    /// Adds a file. A file with an unknown extension may be data.
    fn add(&mut self, path: &Path, is_known: bool) {
        self.count += 1;
        if !is_known && let Some(foreign) = diagnose::by_name(path) {
            self.data.push((path.to_path_buf(), foreign));
        }
    }

    /// The error of a directory without any input.
    fn nothing_else(&self, root: &Path, excluded: usize) -> InputError {
        let data = self.data.first().map(|(path, foreign)| {
            let below = shown(path.strip_prefix(root).unwrap_or(path));
            format!("{below} is {}: {}", foreign.what, foreign.hint)
        });
        InputError::EmptyDirectory { name: root.display().to_string(), passed_over: self.count, excluded, data }
    }
}

/// The error for a named file whose extension is unknown.
fn unknown(path: &Path, metadata: &fs::Metadata) -> InputError {
    let name = path.display().to_string();
    let mut first = Vec::new();
    if metadata.is_file()
        && let Ok(file) = File::open(path)
    {
        // An unreadable file has no first bytes.
        let _ = file.take(diagnose::FIRST as u64).read_to_end(&mut first);
    }
    let by_name = diagnose::by_name(path);
    // A name says more than the magic of a supported compression: `.csv.gz`.
    let is_read = by_name.is_some() && diagnose::compression_of(&first) != Compression::None;
    of_unknown(name, diagnose::not_text(&first).filter(|_| !is_read).or(by_name))
}

/// The error for a name whose extension is unknown, with the likely kind of the file.
fn of_unknown(name: String, foreign: Option<diagnose::Foreign>) -> InputError {
    match foreign {
        Some(foreign) => InputError::Foreign { name, what: foreign.what, hint: foreign.hint },
        None => InputError::UnknownExtension { name },
    }
}

/// The parts of a pattern that name leftovers of data jobs.
fn named_leavings(pattern: &str) -> Vec<Pattern> {
    let parts = pattern.split(['/', std::path::MAIN_SEPARATOR]);
    parts.filter(|part| is_leaving(part.as_ref())).filter_map(|part| Pattern::new(part).ok()).collect()
}

/// True if a path names an open file of this process.
fn is_descriptor(path: &Path) -> bool {
    cfg!(unix)
        && ["/dev/fd/", "/dev/std", "/proc/"]
            .iter()
            .any(|folder| path.as_os_str().as_encoded_bytes().starts_with(folder.as_bytes()))
}

/// True if this is a socket that is standard input: a socket cannot be opened by its name.
#[cfg(unix)]
fn is_stdin(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let id = |found: &fs::Metadata| (found.dev(), found.ino());
    metadata.file_type().is_socket() && fs::metadata("/dev/stdin").is_ok_and(|stdin| id(&stdin) == id(metadata))
}

#[cfg(not(unix))]
fn is_stdin(_: &fs::Metadata) -> bool {
    false
}

//! Arguments to files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use glob::MatchOptions;
use walkdir::WalkDir;

use super::{Compression, Format, InputError, InputFile, Origin};

/// How arguments are understood.
#[derive(Clone, Debug, Default)]
pub struct InputOptions {
    /// Wherever the format would be [`Format::Text`], it is [`Format::Lines`] instead.
    pub lines: bool,
    /// The format of every file, whatever its extension says. Without it the extension decides, and stdin is text.
    pub format: Option<Format>,
}

impl InputOptions {
    fn format(&self, by_extension: Option<Format>) -> Option<Format> {
        match self.format.or(by_extension) {
            Some(Format::Text) if self.lines => Some(Format::Lines),
            format => format,
        }
    }
}

/// What arguments stand for.
#[derive(Debug)]
pub struct Resolved {
    /// The files, in the order of the arguments; those of a directory or a pattern in bytewise order of their paths.
    pub files: Vec<InputFile>,
    /// What a user should know and need not act on: files passed over, files read twice.
    pub notes: Vec<String>,
}

/// Finds the files that `args` stand for, and checks that they can be opened.
///
/// - A file is taken as it is. Its extension tells the format (`.txt` `.text` `.md`: text; `.jsonl` `.ndjson`: jsonl) and the
///   compression (a further `.gz`, `.zst` or `.zstd`); upper case is the same.
/// - A directory stands for all files of these extensions below it. Symbolic links are followed, but not in circles.
/// - `-` is stdin.
/// - What does not exist and contains `*`, `?` or `[` is a pattern, and stands for what a shell would put in its place:
///   each match is treated as if it had been named.
///
/// # Errors
/// Everything of [`ErrorClass::Usage`](super::ErrorClass::Usage), and [`InputError::Unreadable`].
pub fn resolve(args: &[String], options: &InputOptions) -> Result<Resolved, InputError> {
    if args.is_empty() {
        return Err(InputError::NoInputs);
    }
    let mut found = Found { options, files: Vec::new(), notes: Vec::new(), seen: HashSet::new() };
    let mut stdin = false;
    for arg in args {
        if arg == "-" {
            if stdin {
                return Err(InputError::StdinTwice);
            }
            stdin = true;
            let format = options.format(Some(Format::Text)).unwrap_or(Format::Text);
            found.files.push(InputFile::stdin(format));
            continue;
        }
        match fs::symlink_metadata(arg) {
            Ok(_) => found.named(Path::new(arg))?,
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(unreadable(arg, e)),
            Err(_) if arg.contains(['*', '?', '[']) => found.pattern(arg)?,
            Err(_) => return Err(InputError::Missing { name: arg.clone() }),
        }
    }
    Ok(Resolved { files: found.files, notes: found.notes })
}

struct Found<'o> {
    options: &'o InputOptions,
    files: Vec<InputFile>,
    notes: Vec<String>,
    seen: HashSet<PathBuf>,
}

impl Found<'_> {
    fn named(&mut self, path: &Path) -> Result<(), InputError> {
        let metadata = fs::metadata(path).map_err(|e| unreadable(path.display(), e))?;
        if metadata.is_dir() {
            return self.directory(path);
        }
        let (by_extension, compression) = kind_of(path);
        let format = self
            .options
            .format(by_extension)
            .ok_or_else(|| InputError::UnknownExtension { name: path.display().to_string() })?;
        self.add(path.to_path_buf(), format, compression, &metadata)
    }

    fn pattern(&mut self, pattern: &str) -> Result<(), InputError> {
        let like_a_shell =
            MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
        let matches = glob::glob_with(pattern, like_a_shell)
            .map_err(|e| InputError::BadPattern { pattern: pattern.into(), reason: e.to_string() })?;
        let mut paths =
            matches.collect::<Result<Vec<_>, _>>().map_err(|e| unreadable(e.path().display().to_string(), e.into()))?;
        if paths.is_empty() {
            return Err(InputError::NoMatch { pattern: pattern.into() });
        }
        sort_bytewise(&mut paths);
        paths.iter().try_for_each(|path| self.named(path))
    }

    fn directory(&mut self, root: &Path) -> Result<(), InputError> {
        let mut paths = Vec::new();
        let mut passed_over = 0_usize;
        for entry in WalkDir::new(root).follow_links(true) {
            match entry {
                Ok(entry) if entry.file_type().is_dir() => {}
                Ok(entry) if entry.file_type().is_file() && kind_of(entry.path()).0.is_some() => {
                    paths.push(entry.into_path());
                }
                Ok(_) => passed_over += 1,
                Err(e) if e.loop_ancestor().is_some() => {
                    let link = e.path().unwrap_or(root).display();
                    self.notes.push(format!("{link}: passed over, it links back to a directory above it"));
                }
                Err(e) => {
                    let path = e.path().unwrap_or(root).to_path_buf();
                    let dangling = fs::symlink_metadata(&path).is_ok_and(|m| m.file_type().is_symlink());
                    if dangling && kind_of(&path).0.is_none() {
                        passed_over += 1;
                    } else {
                        let source = e.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                        return Err(unreadable(path.display(), source));
                    }
                }
            }
        }
        if paths.is_empty() {
            return Err(InputError::EmptyDirectory { name: root.display().to_string(), passed_over });
        }
        if passed_over > 0 {
            let files = if passed_over == 1 { "file" } else { "files" };
            self.notes.push(format!("{}: {passed_over} {files} of other extensions passed over", root.display()));
        }
        sort_bytewise(&mut paths);
        for path in paths {
            let (by_extension, compression) = kind_of(&path);
            let format = self.options.format(by_extension).expect("only files of known extensions were kept");
            let metadata = fs::metadata(&path).map_err(|e| unreadable(path.display(), e))?;
            self.add(path, format, compression, &metadata)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: PathBuf,
        format: Format,
        compression: Compression,
        metadata: &fs::Metadata,
    ) -> Result<(), InputError> {
        let name = path.display().to_string();
        // Only regular files: to open a named pipe here would wait for its writer, or take it from the reader.
        if metadata.is_file() {
            File::open(&path).map_err(|e| unreadable(&name, e))?;
        }
        let identity = fs::canonicalize(&path).map_err(|e| unreadable(&name, e))?;
        if !self.seen.insert(identity) {
            self.notes.push(format!("{name}: given more than once, and read each time"));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        self.files.push(InputFile { name, format, compression: Some(compression), bytes, origin: Origin::Path(path) });
        Ok(())
    }
}

/// Format and compression by extension.
fn kind_of(path: &Path) -> (Option<Format>, Compression) {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let compressions = [(".gz", Compression::Gzip), (".zst", Compression::Zstd), (".zstd", Compression::Zstd)];
    let (stem, compression) = compressions
        .into_iter()
        .find_map(|(suffix, compression)| Some((name.strip_suffix(suffix)?, compression)))
        .unwrap_or((&name, Compression::None));
    let format = match stem.rsplit_once('.').map(|(_, extension)| extension) {
        Some("txt" | "text" | "md") => Some(Format::Text),
        Some("jsonl" | "ndjson") => Some(Format::Jsonl),
        _ => None,
    };
    (format, compression)
}

/// By the bytes of whole paths, so that the order depends neither on the locale nor on how a tree is walked.
fn sort_bytewise(paths: &mut [PathBuf]) {
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
}

fn unreadable(name: impl ToString, source: io::Error) -> InputError {
    InputError::Unreadable { name: name.to_string(), source }
}

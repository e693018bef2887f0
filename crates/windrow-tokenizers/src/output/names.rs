//! The names of files under one prefix.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{OutputError, OutputErrorKind};
use super::format::Format;
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
    with_suffix(target, STAGED)
}

/// The name of the old file until the end of the publication.
pub(crate) fn aside_name(target: &Path) -> PathBuf {
    with_suffix(target, ASIDE)
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// blake3 of a regular file, in hexadecimal.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The ends of the names of staged files and of old ones.
const STAGED: &str = ".windrow-part";
const ASIDE: &str = ".windrow-old";

/// The beginning and the end of the name of a shard in a folder.
const SHARD: &str = "shard.";
const MDS: &str = ".mds";

/// The end of the manifest's name.
pub(crate) const MANIFEST: &str = ".manifest.json";

/// The end of the name of the file with the kept fields.
const KEPT: &str = ".kept.jsonl";

/// The end of the name of the list of skipped documents.
const SKIPPED: &str = ".skipped.jsonl";

/// The ends of the names of the files that hold documents.
pub(crate) fn suffixes(format: Format, kept: bool) -> impl Iterator<Item = &'static str> {
    format.suffixes().iter().copied().chain(kept.then_some(KEPT))
}

/// The final names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) prefix: PathBuf,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) manifest: PathBuf,
    /// The ends of the names of a shard's files, if the output has shards. Their names are added to `data` when they are published.
    shards: Option<Vec<&'static str>>,
    /// Whether the data files are in the folder with the name of the prefix.
    pub(crate) in_folder: bool,
}

impl Targets {
    /// With `kept`, the file with the kept fields follows the data files of the format. With `skipped`, the list of skipped documents is
    /// the last.
    pub(crate) fn new(prefix: &Path, format: Format, kept: bool, skipped: bool) -> Self {
        let suffixes = suffixes(format, kept).chain(skipped.then_some(SKIPPED));
        Self {
            prefix: prefix.to_owned(),
            data: suffixes.map(|suffix| with_suffix(prefix, suffix)).collect(),
            manifest: with_suffix(prefix, MANIFEST),
            shards: None,
            in_folder: format == Format::Mds,
        }
    }

    /// Targets with shards, of which none is finished.
    pub(crate) fn sharded(prefix: &Path, format: Format, kept: bool, skipped: bool) -> Self {
        let whole = Self::new(prefix, format, kept, skipped);
        let list = skipped.then(|| with_suffix(prefix, SKIPPED));
        // The index of a folder is the last, so that it never lists a shard that is not there.
        let index = whole.in_folder.then(|| whole.data[0].clone());
        let shards = Some(suffixes(format, kept).collect());
        Self { data: list.into_iter().chain(index).collect(), shards, ..whole }
    }

    /// The final names of the shard with this number.
    pub(crate) fn shard(&self, number: usize) -> Vec<PathBuf> {
        if self.in_folder {
            return vec![with_suffix(&self.prefix, &format!("/{SHARD}{number:05}{MDS}"))];
        }
        let suffixes = self.shards.iter().flatten();
        suffixes.map(|suffix| with_suffix(&self.prefix, &format!("-{number:05}{suffix}"))).collect()
    }

    /// The final names of the shards that exist, or of which a staged file or an old one exists.
    fn found_shards(&self, suffixes: &[&str]) -> Vec<PathBuf> {
        let Some(name) = self.prefix.file_name().map(OsStr::as_encoded_bytes) else { return Vec::new() };
        self.found_in(self.directory(), &[name, b"-"].concat(), "-", suffixes)
    }

    /// As [`found_shards`](Self::found_shards), in the folder.
    fn found_in_folder(&self) -> Vec<PathBuf> {
        self.found_in(&self.prefix, SHARD.as_bytes(), &format!("/{SHARD}"), &[MDS])
    }

    /// The names that begin with `begin`, which is behind the prefix as `between`, and go on with digits and one of the suffixes.
    fn found_in(&self, directory: &Path, begin: &[u8], between: &str, suffixes: &[&str]) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| {
                let entry = entry.file_name();
                let rest = str::from_utf8(entry.as_encoded_bytes().strip_prefix(begin)?).ok()?;
                let rest = [STAGED, ASIDE].iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
                let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
                (digits >= 5 && suffixes.contains(&&rest[digits..]))
                    .then(|| with_suffix(&self.prefix, &format!("{between}{rest}")))
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// Shards of the same layout that exist under their final names and are not among the targets.
    pub(crate) fn stale_shards(&self) -> Vec<PathBuf> {
        let Some(suffixes) = &self.shards else { return Vec::new() };
        let mut found = if self.in_folder { self.found_in_folder() } else { self.found_shards(suffixes) };
        found.retain(|path| exists(path) && !self.data.contains(path));
        found
    }

    pub(crate) fn has_shards(&self) -> bool {
        self.shards.is_some()
    }

    /// The name of the progress record.
    pub(crate) fn progress(&self) -> PathBuf {
        with_suffix(&self.prefix, ".windrow-progress")
    }

    /// The data files of every format.
    pub(crate) fn any_data(&self) -> Vec<PathBuf> {
        let mut data: Vec<PathBuf> =
            Format::ALL.into_iter().flat_map(|format| Self::new(&self.prefix, format, true, true).data).collect();
        let suffixes: Vec<&str> = Format::ALL.iter().flat_map(|&format| suffixes(format, true)).collect();
        data.extend(self.found_shards(&suffixes));
        data.extend(self.found_in_folder());
        data.sort();
        data.dedup();
        data
    }

    /// Data files in order, the manifest last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.data.iter().chain([&self.manifest])
    }

    /// The name of the lock.
    pub(crate) fn lock(&self) -> PathBuf {
        with_suffix(&self.prefix, ".windrow-lock")
    }

    /// Names that a killed run may have left, of any format. The staged manifest is the first: as long as it exists, [`recover`] may
    /// take the files that it lists for those of the killed run.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = PathBuf> {
        let data = self.any_data();
        let staged: Vec<_> = [&self.manifest].into_iter().chain(&data).map(|target| staged_name(target)).collect();
        let aside: Vec<_> = data.iter().chain([&self.manifest]).map(|target| aside_name(target)).collect();
        staged.into_iter().chain(aside).chain([self.progress()])
    }

    /// Every name that a run may create, replace or remove.
    pub(crate) fn touched(&self) -> impl Iterator<Item = PathBuf> {
        let taken_back = if self.is_unfinished() { self.any_data() } else { Vec::new() };
        self.all().cloned().chain(self.stale_shards()).chain(taken_back).chain(self.leftovers()).chain([self.lock()])
    }

    /// Whether a run was killed before its publication was complete, or is still running.
    pub(crate) fn is_unfinished(&self) -> bool {
        !exists(&self.manifest) && self.leftovers().any(|path| exists(&path))
    }

    /// Data files that a killed run has given their final names without moving old ones aside: its staged manifest lists them.
    pub(crate) fn finalized_by_a_killed_run(&self) -> Vec<PathBuf> {
        let listed = fs::read(staged_name(&self.manifest)).ok();
        // If the manifest is incomplete, no file had its final name yet.
        let Some(manifest) = listed.and_then(|json| serde_json::from_slice::<Manifest>(&json).ok()) else {
            return Vec::new();
        };
        let is_listed = |path: &PathBuf| {
            let output = manifest.outputs.iter().find(|output| self.listed(path) == output.file);
            output.is_some_and(|output| hash_of(path).is_ok_and(|hash| hash == output.blake3))
        };
        let mut data = self.any_data();
        data.retain(|path| {
            !exists(&staged_name(path)) && !exists(&aside_name(path)) && exists(path) && is_listed(path)
        });
        data
    }

    /// The name of a data file in the manifest: relative to it.
    pub(crate) fn listed(&self, path: &Path) -> String {
        let parent = self.prefix.parent().unwrap_or(Path::new(""));
        path.strip_prefix(parent).unwrap_or(path).to_string_lossy().into_owned()
    }

    pub(crate) fn directory(&self) -> &Path {
        match self.prefix.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        }
    }

    /// Refuses targets that exist, or that even `overwrite` does not replace.
    pub(crate) fn refuse_existing(&self, overwrite: bool) -> Result<(), OutputError> {
        if self.in_folder && exists(&self.prefix) && !self.prefix.is_dir() {
            let message = format!("{} is not a directory", shown(&self.prefix));
            let error = OutputError::new(OutputErrorKind::CannotCreate, message).at(&self.prefix);
            return Err(error.hint("choose another prefix with -o"));
        }
        for path in self.all().chain(&self.stale_shards()) {
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
    pub(crate) fn check_directory(&self) -> Result<(), OutputError> {
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

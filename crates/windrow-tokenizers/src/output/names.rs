//! The names of files under one prefix.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::error::{OutputError, OutputErrorKind};
use super::format::MASK;
use super::storage::open_plain;
use crate::format::Format;
use crate::manifest::{EncodeJob, Manifest};
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

/// True if the path is a folder. A link to a folder is not one: its target may be anywhere.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// blake3 of a plain file, in hexadecimal.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(open_plain(path, false)?)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The manifest at this path, if it is a plain file with a complete manifest.
fn manifest_in(path: &Path) -> Option<Manifest> {
    serde_json::from_reader(BufReader::new(open_plain(path, false).ok()?)).ok()
}

/// The ends of the names of staged files and of old files.
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

/// The ends of the names of the lock, of the progress record, and of documents that wait for their order.
const LOCK: &str = ".windrow-lock";
const PROGRESS: &str = ".windrow-progress";
const SHUFFLE: &str = ".shuffle";

/// The ends of the names of the files with the places of a packed output's documents.
const SEGMENTS: [&str; 2] = [".cu_seqlens.npy", ".docs.npy"];

/// The settings that decide which files hold documents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) format: Format,
    /// True if there is a file with the masks.
    pub(crate) has_mask: bool,
    /// True if there is a file with the kept fields.
    pub(crate) has_kept: bool,
    pub(crate) is_packed: bool,
}

impl Layout {
    /// The layout of an output with these kept fields.
    pub(crate) fn new(format: Format, mask: bool, keep: &[String], is_packed: bool) -> Self {
        let has_mask = mask && format.files().mask_suffix().is_some();
        Self { format, has_mask, has_kept: !keep.is_empty() && !format.has_columns(), is_packed }
    }

    /// The layout of a published output.
    pub(crate) fn of(options: &EncodeJob) -> Self {
        Self::new(options.format, options.has_mask(), &options.keep, options.pack.is_some())
    }

    /// The ends of the names of the format's own files.
    pub(crate) fn own(&self) -> &'static [&'static str] {
        // Rows of equal length need no offsets.
        let is_short = self.is_packed && self.format == Format::Npy;
        if is_short { &self.format.suffixes()[..1] } else { self.format.suffixes() }
    }
}

/// The ends of the names of the files that hold documents.
pub(crate) fn suffixes(layout: Layout) -> impl Iterator<Item = &'static str> {
    let Layout { format, has_mask, has_kept, is_packed } = layout;
    let segments = SEGMENTS.into_iter().filter(move |_| is_packed);
    let mask = format.files().mask_suffix().filter(|_| has_mask);
    layout.own().iter().copied().chain(mask).chain(segments).chain(has_kept.then_some(KEPT))
}

/// The ends of the names of the files of every layout.
fn all_suffixes() -> impl Iterator<Item = &'static str> {
    let masks =
        Format::ALL.into_iter().filter_map(|format| format.files().mask_suffix()).filter(|suffix| *suffix != MASK);
    Format::ALL.into_iter().flat_map(Format::suffixes).copied().chain([MASK]).chain(masks).chain(SEGMENTS).chain([KEPT])
}

/// The shards in a directory whose names begin with `begin`, go on with digits and end with one of the suffixes; staged or old ones too, under
/// their final names. `path` makes a path from the rest of a name after `begin`.
fn found_in(directory: &Path, begin: &[u8], suffixes: &[&str], path: impl Fn(&str) -> PathBuf) -> Vec<PathBuf> {
    let shard = |entry: &OsStr| {
        let rest = str::from_utf8(entry.as_encoded_bytes().strip_prefix(begin)?).ok()?;
        let rest = [STAGED, ASIDE].iter().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        (digits >= 5 && suffixes.contains(&&rest[digits..])).then(|| path(rest))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| shard(&entry.file_name())).collect()
}

/// The final names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) prefix: PathBuf,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) manifest: PathBuf,
    /// The ends of the names of a shard's files, if the output has shards. Their names are added to `data` when they are published.
    shards: Option<Vec<&'static str>>,
    /// The beginnings of the names of data files: one for each part of the output, or the prefix.
    stems: Vec<PathBuf>,
    /// True if the data files are in the folder with the name of the prefix.
    pub(crate) in_folder: bool,
    /// True if the list of skipped documents is among the data files.
    pub(crate) has_list: bool,
}

impl Targets {
    /// The file with the kept fields follows the other data files. With `skipped`, the list of skipped documents is the last.
    pub(crate) fn new(prefix: &Path, parts: &[String], layout: Layout, skipped: bool) -> Self {
        let mut stems: Vec<PathBuf> = parts.iter().map(|part| with_suffix(prefix, &format!(".{part}"))).collect();
        if stems.is_empty() {
            stems.push(prefix.to_owned());
        }
        let of_stem = |stem: &PathBuf| {
            let stem = stem.clone();
            suffixes(layout).map(move |suffix| with_suffix(&stem, suffix))
        };
        let list = skipped.then(|| with_suffix(prefix, SKIPPED));
        Self {
            prefix: prefix.to_owned(),
            data: stems.iter().flat_map(of_stem).chain(list).collect(),
            manifest: with_suffix(prefix, MANIFEST),
            shards: None,
            stems,
            in_folder: layout.format == Format::Mds,
            has_list: skipped,
        }
    }

    /// Targets with shards, none of which is finished.
    pub(crate) fn sharded(prefix: &Path, parts: &[String], layout: Layout, skipped: bool) -> Self {
        let whole = Self::new(prefix, parts, layout, skipped);
        let list = skipped.then(|| with_suffix(prefix, SKIPPED));
        // The index of a folder is the last, so that it never lists a shard that is not there.
        let index = whole.in_folder.then(|| whole.data[0].clone());
        let shards = Some(suffixes(layout).collect());
        Self { data: list.into_iter().chain(index).collect(), shards, ..whole }
    }

    /// The final names of the shard of a part with this number. A folder has no parts.
    pub(crate) fn shard(&self, part: usize, number: usize) -> Vec<PathBuf> {
        if self.in_folder {
            return vec![with_suffix(&self.prefix, &format!("/{SHARD}{number:05}{MDS}"))];
        }
        let suffixes = self.shards.iter().flatten();
        suffixes.map(|suffix| with_suffix(&self.stems[part], &format!("-{number:05}{suffix}"))).collect()
    }

    /// The final names of the shards that exist, also only as a staged or old file.
    fn found_shards(&self, suffixes: &[&str]) -> Vec<PathBuf> {
        let found = self.stems.iter().flat_map(|stem| {
            let name = stem.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
            found_in(self.directory(), &[name, b"-"].concat(), suffixes, |rest| with_suffix(stem, &format!("-{rest}")))
        });
        found.collect()
    }

    /// The [shards found](Self::found_shards) in the folder.
    fn found_in_folder(&self) -> Vec<PathBuf> {
        if !is_folder(&self.prefix) {
            return Vec::new();
        }
        let path = |rest: &str| with_suffix(&self.prefix, &format!("/{SHARD}{rest}"));
        found_in(&self.prefix, SHARD.as_bytes(), &[MDS], path)
    }

    /// Shards of the same layout that exist under their final names and are not among the targets.
    pub(crate) fn stale_shards(&self) -> Vec<PathBuf> {
        let Some(suffixes) = &self.shards else { return Vec::new() };
        let mut found = if self.in_folder { self.found_in_folder() } else { self.found_shards(suffixes) };
        found.retain(|path| exists(path) && !self.data.contains(path));
        found.sort();
        found.dedup();
        found
    }

    pub(crate) fn has_shards(&self) -> bool {
        self.shards.is_some()
    }

    /// The name of the progress record.
    pub(crate) fn progress(&self) -> PathBuf {
        with_suffix(&self.prefix, PROGRESS)
    }

    /// The name of the file that holds documents until they have their order.
    pub(crate) fn spill(&self) -> PathBuf {
        staged_name(&with_suffix(&self.prefix, SHUFFLE))
    }

    /// The data files of every format; with parts those of this output and of the manifests under the prefix.
    pub(crate) fn any_data(&self) -> Vec<PathBuf> {
        // Only a folder has files in it, and a link leads to a folder of other files.
        let is_possible = |suffix: &&str| !suffix.starts_with('/') || self.in_folder || is_folder(&self.prefix);
        let suffixes: Vec<&str> = all_suffixes().filter(is_possible).collect();
        let stems = self.stems.iter().chain([&self.prefix]);
        let of_stem = |stem: &PathBuf| suffixes.iter().map(|suffix| with_suffix(stem, suffix)).collect::<Vec<_>>();
        let mut data: Vec<PathBuf> = stems.flat_map(of_stem).collect();
        data.push(with_suffix(&self.prefix, SKIPPED));
        data.extend(self.found_shards(&suffixes));
        data.extend(self.found_in_folder());
        for manifest in [self.manifest.clone(), staged_name(&self.manifest), aside_name(&self.manifest)] {
            data.extend(self.files_of_parts(&manifest));
        }
        data.sort();
        data.dedup();
        data
    }

    /// The data files that a manifest lists, if the output is divided.
    fn files_of_parts(&self, manifest: &Path) -> Vec<PathBuf> {
        let manifest = manifest_in(manifest).filter(|manifest| !manifest.parts.is_empty());
        let Some(manifest) = manifest else { return Vec::new() };
        let Some(name) = self.prefix.file_name().map(OsStr::as_encoded_bytes) else { return Vec::new() };
        let is_own = |file: &String| {
            let rest = file.as_bytes().strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(b".") && !file.contains(std::path::is_separator))
        };
        let files = manifest.outputs.into_iter().map(|output| output.file).filter(is_own);
        files.map(|file| self.prefix.with_file_name(file)).collect()
    }

    /// Data files in order, the manifest last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.data.iter().chain([&self.manifest])
    }

    /// The name of the lock.
    pub(crate) fn lock(&self) -> PathBuf {
        with_suffix(&self.prefix, LOCK)
    }

    /// Names that a killed run may have left, of any format. The staged manifest is the first: as long as it exists, [`recover`] may
    /// take the files that it lists for those of the killed run.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = PathBuf> {
        let data = self.any_data();
        let staged: Vec<_> = [&self.manifest].into_iter().chain(&data).map(|target| staged_name(target)).collect();
        let aside: Vec<_> = data.iter().chain([&self.manifest]).map(|target| aside_name(target)).collect();
        staged.into_iter().chain(aside).chain([self.progress(), self.spill()])
    }

    /// True if the path has one of the names that a run of any format may create, replace or remove, whether it exists or not.
    pub(crate) fn own(&self, path: &Path) -> bool {
        let folder = |path: &Path| fs::canonicalize(folder_of(path)).ok();
        let (Some(name), Some(place)) = (path.file_name(), folder(path)) else { return false };
        if self.in_folder && fs::canonicalize(&self.prefix).is_ok_and(|folder| place.starts_with(folder)) {
            return true;
        }
        if folder(&self.prefix).is_none_or(|own| own != place) {
            return false;
        }
        let name = name.as_encoded_bytes();
        let name = [STAGED, ASIDE].iter().find_map(|end| name.strip_suffix(end.as_bytes())).unwrap_or(name);
        let rest = |stem: &PathBuf| name.strip_prefix(stem.file_name()?.as_encoded_bytes());
        let suffixes: Vec<&str> = all_suffixes().collect();
        let is_shard = |rest: &[u8]| {
            let rest = str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
            suffixes.contains(&rest.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        };
        let is_data = |rest: &[u8]| suffixes.iter().any(|suffix| suffix.as_bytes() == rest) || is_shard(rest);
        let others = [MANIFEST, SKIPPED, LOCK, PROGRESS, SHUFFLE];
        let is_other = |rest: &[u8]| others.iter().any(|suffix| suffix.as_bytes() == rest);
        let of_prefix = rest(&self.prefix).is_some_and(|rest| is_other(rest) || (self.in_folder && rest.is_empty()));
        of_prefix || self.stems.iter().chain([&self.prefix]).filter_map(rest).any(is_data)
    }

    /// Every name that a run may create, replace or remove.
    pub(crate) fn touched(&self) -> impl Iterator<Item = PathBuf> {
        let taken_back = if self.is_unfinished() { self.any_data() } else { Vec::new() };
        self.all().cloned().chain(self.stale_shards()).chain(taken_back).chain(self.leftovers()).chain([self.lock()])
    }

    /// True if a run was killed before its publication was complete, or is still running.
    pub(crate) fn is_unfinished(&self) -> bool {
        !exists(&self.manifest) && self.leftovers().any(|path| exists(&path))
    }

    /// Data files that a killed run has given their final names without moving old ones aside: its staged manifest lists them.
    pub(crate) fn finalized_by_a_killed_run(&self) -> Vec<PathBuf> {
        // If the manifest is incomplete, no file had its final name yet.
        let Some(manifest) = manifest_in(&staged_name(&self.manifest)) else { return Vec::new() };
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
        folder_of(&self.prefix)
    }

    /// Refuses targets that exist, or that even `overwrite` does not replace.
    pub(crate) fn refuse_existing(&self, overwrite: bool) -> Result<(), OutputError> {
        for path in self.all().chain(&self.stale_shards()) {
            // The entry itself counts, not the file it links to: a rename replaces the entry.
            let Ok(found) = fs::symlink_metadata(path) else { continue };
            let refused = |kind, what| OutputError::new(kind, format!("{} {what}", shown(path))).at(path);
            if found.is_dir() {
                let refused = refused(OutputErrorKind::CannotCreate, "is a directory");
                return Err(refused.hint("choose another prefix with -o"));
            }
            if !overwrite {
                let refused = refused(OutputErrorKind::Exists, "already exists");
                return Err(refused.hint("pass --overwrite to replace it, or choose another prefix with -o"));
            }
        }
        Ok(())
    }

    /// Explains why no file can be created next to `prefix`, more clearly than the operating system does.
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
            Err(error) => Err(OutputError::io(OutputErrorKind::CannotCreate, "cannot inspect", directory, error)),
        }
    }
}

/// The folder in which a path is.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// True if two existing paths lead to the same file.
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

//! Profiles of many operations, in one file of a machine or a cluster.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::stored::Shape;
use crate::{Operation, Profile};

/// Profiles by machine, link and [`Shape`]. Their JSON form has a version, and a profile a line.
///
/// Machine and link are names: [`this_machine`](Self::this_machine) makes one of the processor, and a link is named by the program, such as
/// `shared memory` or `ib0`. A profile holds for the machine and the link that it was measured on.
///
/// ```
/// use windrow_collective::{Measured, Operation, Profile, Profiles, Shape, Stage};
/// use windrow_tiling::tile::Contention;
///
/// let sample = |stage, m: u64, fixed: f64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 };
/// let samples = [256, 512, 1024].into_iter().flat_map(|m| [sample(Stage::Compute, m, 5.0), sample(Stage::Communicate, m, 20.0)]);
/// let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n: 1024, k: 512 };
/// let profile = Profile::new(shape.clone(), samples.collect(), Contention::NONE)?;
///
/// let mut profiles = Profiles::default();
/// profiles.insert("cluster a", "ib0", profile.clone());
/// let read = Profiles::from_json(&profiles.to_json())?;
/// assert_eq!(read.get("cluster a", "ib0", &shape), Some(&profile));
/// assert_eq!(read.get("cluster a", "ib1", &shape), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    entries: Vec<ProfileEntry>,
}

/// A profile, and where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProfileEntry {
    /// The machine.
    pub machine: String,
    /// The link between the ranks.
    pub link: String,
    /// What was measured.
    pub profile: Profile,
}

impl ProfileEntry {
    fn is_of(&self, machine: &str, link: &str, shape: &Shape) -> bool {
        self.machine == machine && self.link == link && self.profile.shape() == shape
    }
}

/// The version of the file. It increases when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

/// The file, without its profiles.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// The file, without its version.
#[derive(Deserialize)]
struct Stored {
    profiles: Vec<ProfileEntry>,
}

impl Profiles {
    /// Adds a profile. Returns the one that it replaces: of the same machine, link and shape.
    pub fn insert(&mut self, machine: impl Into<String>, link: impl Into<String>, profile: Profile) -> Option<Profile> {
        let entry = ProfileEntry { machine: machine.into(), link: link.into(), profile };
        let same = |known: &&mut ProfileEntry| known.is_of(&entry.machine, &entry.link, entry.profile.shape());
        if let Some(known) = self.entries.iter_mut().find(same) {
            return Some(std::mem::replace(known, entry).profile);
        }
        self.entries.push(entry);
        None
    }

    /// Adds the profiles of another file. They replace those of the same machine, link and shape.
    pub fn merge(&mut self, others: Profiles) {
        for ProfileEntry { machine, link, profile } in others.entries {
            self.insert(machine, link, profile);
        }
    }

    /// The profile of this machine, link and shape.
    pub fn get(&self, machine: &str, link: &str, shape: &Shape) -> Option<&Profile> {
        self.entries.iter().find(|entry| entry.is_of(machine, link, shape)).map(|entry| &entry.profile)
    }

    /// All profiles, in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ProfileEntry> {
        self.entries.iter()
    }

    /// A name for this machine: its processor and the number of its CPUs. Machines of a cluster that are alike have one name.
    pub fn this_machine() -> String {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // All CPUs of the machine: a rank that is bound to one of them has the same machine.
        let cpus = info.lines().filter(|line| line.starts_with("processor")).count();
        let cpus = if cpus > 0 { cpus } else { thread::available_parallelism().map_or(1, usize::from) };
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
        format!("{model}, {cpus} CPUs")
    }

    /// Reads profiles from JSON.
    ///
    /// # Errors
    /// The text is not JSON, is of another version, or holds a profile that cannot be.
    pub fn from_json(text: &str) -> Result<Self, ProfilesError> {
        let Version { schema } = serde_json::from_str(text).map_err(ProfilesError::json)?;
        if schema != SCHEMA {
            let why = format!("the profiles have version {schema}, but this windrow reads version {SCHEMA}");
            return Err(ProfilesError { path: None, place: None, kind: ProfilesErrorKind::Version, why });
        }
        let stored: Stored = serde_json::from_str(text).map_err(ProfilesError::json)?;
        let mut profiles = Self::default();
        profiles.merge(Self { entries: stored.profiles });
        Ok(profiles)
    }

    /// The profiles as JSON, a line each.
    pub fn to_json(&self) -> String {
        let entry = |entry| serde_json::to_string(entry).expect("numbers and strings");
        let entries: Vec<String> = self.entries.iter().map(entry).collect();
        format!("{{\"schema\":{SCHEMA},\"profiles\":[\n{}\n]}}\n", entries.join(",\n"))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or as for [`from_json`](Self::from_json). The message names the file, the line and the column.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, ProfilesError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|error| ProfilesError::io(path, "read", &error))?;
        Self::from_json(&text).map_err(|error| ProfilesError { path: Some(path.to_owned()), ..error })
    }

    /// Writes a file, in place of an earlier one: it is complete under its name, or as it was before. Profiles that another process adds to
    /// the file between a [`read`](Self::read) and this are lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ProfilesError> {
        let path = path.as_ref();
        let mut name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        name.push(format!(".{}.windrow-part", process::id()));
        let part = path.with_file_name(name);
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(self.to_json().as_bytes())?;
            file.sync_all()?;
            fs::rename(&part, path)
        };
        write().map_err(|error| {
            // The first error counts.
            let _ = fs::remove_file(&part);
            ProfilesError::io(path, "write", &error)
        })
    }
}

impl fmt::Display for ProfileEntry {
    /// What the profile is for, in words: `matmul-all-reduce of f32, 2 ranks, n = 1024, k = 512, over ib0 on cluster a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, link, profile } = self;
        let Shape { operation, element, ranks, n, k } = profile.shape();
        let operation: &Operation = operation;
        write!(f, "{operation} of {element}, {ranks} ranks, n = {n}, k = {k}, over {link} on {machine}")
    }
}

/// Why profiles were not read, written or interpolated. The message names the file, the line and the column, as far as there are any.
///
/// ```
/// use windrow_collective::{Profiles, ProfilesErrorKind};
///
/// let error = Profiles::from_json("{\"schema\": 1,\n\"profiles\": [}").unwrap_err();
/// assert_eq!(error.kind(), ProfilesErrorKind::Json);
/// assert_eq!(error.place().map(|(line, _)| line), Some(2));
/// ```
#[derive(Debug)]
pub struct ProfilesError {
    path: Option<PathBuf>,
    /// Line and column, from 1.
    place: Option<(usize, usize)>,
    kind: ProfilesErrorKind,
    why: String,
}

/// What kept profiles from being read, written or interpolated.
///
/// ```
/// use windrow_collective::{Profiles, ProfilesErrorKind};
///
/// let kind = |text| Profiles::from_json(text).unwrap_err().kind();
/// assert_eq!(kind(r#"{"schema": 999, "profiles": []}"#), ProfilesErrorKind::Version);
/// assert_eq!(kind("no profile"), ProfilesErrorKind::Json);
/// assert_eq!(Profiles::read("/nowhere/profiles.json").unwrap_err().kind(), ProfilesErrorKind::Io);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfilesErrorKind {
    /// The system refused to read or write the file.
    Io,
    /// The text is not JSON of this form, or a profile in it cannot be.
    Json,
    /// The file is of another version.
    Version,
    /// There is no measurement that a profile could be made of.
    Missing,
    /// The shape is outside of the range of the measured ones.
    Outside,
}

impl ProfilesError {
    /// What went wrong.
    pub fn kind(&self) -> ProfilesErrorKind {
        self.kind
    }

    /// The line and the column of the fault, from 1.
    pub fn place(&self) -> Option<(usize, usize)> {
        self.place
    }

    pub(crate) fn of(kind: ProfilesErrorKind, why: String) -> Self {
        Self { path: None, place: None, kind, why }
    }

    fn json(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let said = error.to_string();
        let why = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        let place = (line > 0).then_some((line, column));
        Self { path: None, place, kind: ProfilesErrorKind::Json, why: shortened(why) }
    }

    fn io(path: &Path, what: &str, error: &io::Error) -> Self {
        let why = format!("cannot {what} it: {error}");
        Self { path: Some(path.to_owned()), place: None, kind: ProfilesErrorKind::Io, why }
    }
}

/// A message without the middle of a long text that it cites.
fn shortened(text: &str) -> String {
    const MOST: usize = 150;
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= 2 * MOST {
        return text.to_owned();
    }
    let ends = [&chars[..MOST], &chars[chars.len() - MOST..]].map(|part| part.iter().collect::<String>());
    ends.join(" ... ")
}

impl fmt::Display for ProfilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
        }
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        let space = if self.path.is_some() || self.place.is_some() { " " } else { "" };
        write!(f, "{space}{}", self.why)
    }
}

impl std::error::Error for ProfilesError {}

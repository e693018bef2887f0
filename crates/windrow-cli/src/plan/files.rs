//! The files that a plan is written to: all are published or none, and no file is replaced without permission.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use windrow_collective::Profiles;

use super::args::Options;
use super::{Refused, profiles};
use crate::exit::Code;

/// The paths of the drawing, the trace and the samples, checked before anything is read.
pub(super) struct Outputs<'a> {
    svg: Option<&'a Path>,
    trace: Option<&'a Path>,
    table: Option<&'a Path>,
    samples: Option<&'a Path>,
    /// The file of profiles that a calibration is added to.
    profiles: Option<&'a Path>,
}

impl<'a> Outputs<'a> {
    pub(super) fn check(options: &'a Options) -> Result<Self, Refused> {
        let outputs = Self {
            svg: options.svg.as_deref(),
            trace: options.trace.as_deref(),
            table: options.table.as_deref(),
            samples: options.samples_out.as_deref(),
            profiles: options.profile.as_deref().filter(|_| options.calibrate.is_some()),
        };
        if let Some(path) = outputs.profiles {
            check_directory(path)?;
            check_entry(path, true)?;
            profiles::read_or_new(path)?;
        }
        let inputs = options.cost.iter().chain(&options.replay).chain(&options.measured).chain(&options.profile);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        let flags = [
            ("--svg", outputs.svg),
            ("--trace", outputs.trace),
            ("--table", outputs.table),
            ("--samples-out", outputs.samples),
        ];
        let mut paths: Vec<(&str, &Path)> = Vec::new();
        for (flag, path) in flags.into_iter().filter_map(|(flag, path)| Some((flag, path?))) {
            check_directory(path)?;
            check_entry(path, options.overwrite)?;
            if inputs.iter().any(|input| same(input, path)) {
                return Err(refused(path, "is an input of this run", "choose another path"));
            }
            let twin = |(_, other): &&(&str, &Path)| {
                other.file_name() == path.file_name() && same(directory(other), directory(path))
            };
            if let Some((other, _)) = paths.iter().find(twin) {
                let message =
                    format_args!("{other} and {flag} name the same file\nhint: choose another path for one of them");
                return Err(Refused::usage(message));
            }
            paths.push((flag, path));
        }
        Ok(outputs)
    }

    /// Writes the samples, if requested. Measuring them took time, so they are kept whatever becomes of the plan.
    pub(super) fn write_samples(&self, samples: impl FnOnce() -> String) -> Result<(), Refused> {
        self.samples.map_or(Ok(()), |path| Staged::new(path, &samples())?.publish())
    }

    /// Adds a calibration to the file of profiles, if requested.
    pub(super) fn write_profile(&self, add: impl FnOnce(&mut Profiles)) -> Result<(), Refused> {
        let Some(path) = self.profiles else { return Ok(()) };
        let mut profiles = profiles::read_or_new(path)?;
        add(&mut profiles);
        Staged::new(path, &profiles.to_json())?.publish()
    }

    /// Writes the other requested files, under temporary names until all are complete.
    pub(super) fn write(
        &self,
        svg: impl FnOnce() -> String,
        trace: impl FnOnce() -> String,
        table: impl FnOnce() -> String,
    ) -> Result<(), Refused> {
        let svg = self.svg.map(|path| Staged::new(path, &svg())).transpose()?;
        let trace = self.trace.map(|path| Staged::new(path, &trace())).transpose()?;
        let table = self.table.map(|path| Staged::new(path, &table())).transpose()?;
        svg.into_iter().chain(trace).chain(table).try_for_each(Staged::publish)
    }
}

/// A complete file beside its target; removed if it is not published.
struct Staged<'a> {
    part: PathBuf,
    target: &'a Path,
}

impl<'a> Staged<'a> {
    fn new(target: &'a Path, content: &str) -> Result<Self, Refused> {
        let mut name = target.file_name().map(ToOwned::to_owned).unwrap_or_default();
        // The process id keeps two runs for the same target apart.
        name.push(format!(".{}.windrow-part", process::id()));
        let part = target.with_file_name(name);
        let created =
            |error: io::Error| Refused(format!("cannot create {}: {error}", target.display()), Code::CannotCreate);
        let mut file = File::create_new(&part).map_err(created)?;
        let staged = Self { part, target };
        let written = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| Refused(format!("cannot write {}: {error}", target.display()), Code::Io))?;
        Ok(staged)
    }

    fn publish(self) -> Result<(), Refused> {
        fs::rename(&self.part, self.target)
            .map_err(|error| Refused(format!("cannot write {}: {error}", self.target.display()), Code::Io))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // After a rename no file has that name.
        let _ = fs::remove_file(&self.part);
    }
}

fn refused(path: &Path, what: &str, hint: &str) -> Refused {
    Refused(format!("{} {what}\nhint: {hint}", path.display()), Code::CannotCreate)
}

/// Checks the entry under a target's name. The entry itself counts, not the file it links to: a rename replaces the entry.
fn check_entry(path: &Path, overwrite: bool) -> Result<(), Refused> {
    if path.file_name().is_none() {
        return Err(Refused::usage(format_args!("{:?} names no file\nhint: choose another path", path.display())));
    }
    if fs::symlink_metadata(path).is_err() {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(refused(path, "is a directory", "choose another path")),
        // A rename would replace a pipe or a device by a file.
        Ok(found) if !found.is_file() => Err(refused(path, "is not a file", "choose another path")),
        _ if !overwrite => {
            Err(refused(path, "already exists", "pass --overwrite to replace it, or choose another path"))
        }
        _ => Ok(()),
    }
}

/// Explains why no file can be created at a path, more clearly than the operating system does.
fn check_directory(path: &Path) -> Result<(), Refused> {
    let directory = directory(path);
    let why = |why: &str, hint: &str| {
        let message = format!("cannot create {}: {} {why}\nhint: {hint}", path.display(), directory.display());
        Err(Refused(message, Code::CannotCreate))
    };
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => why("is not a directory", "choose another path"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            why("does not exist", &format!("create it first: mkdir -p {}", directory.display()))
        }
        Err(error) => why(&format!("cannot be looked into: {error}"), "choose another path"),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Whether both name the same existing file.
fn same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

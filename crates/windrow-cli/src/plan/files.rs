//! The files of a plan: all are published or none, and no file is replaced without permission.

use std::path::{Path, PathBuf};

use windrow_collective::Profiles;

use super::args::Options;
use super::{Refused, profiles};
use crate::staged::{Staged, check_directory, check_entry, directory, refused, same};

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
        let mut paths: Vec<(&str, &Path)> = outputs.profiles.map(|path| ("--profile", path)).into_iter().collect();
        for (flag, path) in flags.into_iter().filter_map(|(flag, path)| Some((flag, path?))) {
            check_directory(path)?;
            check_entry(path, options.overwrite)?;
            if inputs.iter().any(|input| same(input, path)) {
                return Err(refused(path, "is an input of this run", "choose another path").into());
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

    /// Writes the samples, if requested. Measuring them took time, so they are kept even if there is no plan.
    pub(super) fn write_samples(&self, samples: impl FnOnce() -> String) -> Result<(), Refused> {
        self.samples.map_or(Ok(()), |path| Ok(Staged::new(path, &samples())?.publish()?))
    }

    /// Adds a calibration to the file of profiles, if requested.
    pub(super) fn write_profile(&self, add: impl FnOnce(&mut Profiles)) -> Result<(), Refused> {
        let Some(path) = self.profiles else { return Ok(()) };
        let mut profiles = profiles::read_or_new(path)?;
        add(&mut profiles);
        Ok(Staged::new(path, &profiles.to_json())?.publish()?)
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
        Ok(svg.into_iter().chain(trace).chain(table).try_for_each(Staged::publish)?)
    }
}

//! The files of a plan: all are published or none, and no file is replaced without permission.

use std::path::{Path, PathBuf};

use windrow_collective::Profiles;

use super::args::Options;
use super::{Refused, profiles};
use crate::staged::{Staged, check_directory, check_entry, directory, refused, same};

/// The options that name files, checked before anything is read.
pub(super) struct Outputs<'a> {
    options: &'a Options,
    /// The file of profiles that a calibration is added to.
    profiles: Option<&'a Path>,
}

impl<'a> Outputs<'a> {
    pub(super) fn check(options: &'a Options) -> Result<Self, Refused> {
        let profiles = options.profile.as_deref().filter(|_| options.calibrate.is_some());
        if let Some(path) = profiles {
            check_directory(path)?;
            check_entry(path, true)?;
            profiles::read_or_new(path)?;
        }
        let inputs = options.cost.iter().chain(&options.replay).chain(&options.measured).chain(&options.profile);
        let inputs: Vec<&Path> = inputs.map(PathBuf::as_path).collect();
        let flags = [
            ("--svg", &options.svg),
            ("--trace", &options.trace),
            ("--table", &options.table),
            ("--samples-out", &options.samples_out),
        ];
        let mut paths: Vec<(&str, &Path)> = profiles.map(|path| ("--profile", path)).into_iter().collect();
        for (flag, path) in flags.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?))) {
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
        Ok(Self { options, profiles })
    }

    /// Writes the samples, if requested. Measuring them took time, so they are kept even if there is no plan.
    pub(super) fn write_samples(&self, samples: impl FnOnce() -> String) -> Result<(), Refused> {
        self.options.samples_out.as_deref().map_or(Ok(()), |path| Staged::new(path, &samples())?.publish())
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
        let svg = self.options.svg.as_deref().map(|path| Staged::new(path, &svg())).transpose()?;
        let trace = self.options.trace.as_deref().map(|path| Staged::new(path, &trace())).transpose()?;
        let table = self.options.table.as_deref().map(|path| Staged::new(path, &table())).transpose()?;
        svg.into_iter().chain(trace).chain(table).try_for_each(Staged::publish)
    }
}

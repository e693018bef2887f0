//! Timelines of runs: `--trace FILE`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use windrow::overlap::Trace;
use windrow_tokenizers::input::InputFile;
use windrow_tokenizers::shown;

use crate::exit::Code;

/// The file of a timeline.
pub(crate) struct Timeline {
    path: PathBuf,
    file: File,
}

impl Timeline {
    /// Opens the file, so that one that cannot be written is known before the run. Its content stays until there is another one.
    pub(crate) fn open(path: &Path, inputs: &[InputFile]) -> Result<Self, (String, Code)> {
        let target = fs::canonicalize(path).ok();
        let is_target = |input: &Path| target.is_some() && fs::canonicalize(input).ok() == target;
        if inputs.iter().filter_map(InputFile::path).any(is_target) {
            let message = format!("--trace: {} is an input\nhint: name another file", shown(path));
            return Err((message, Code::Usage));
        }
        let file = File::options().create(true).truncate(false).write(true).open(path).map_err(|error| {
            let hint = "hint: name a file in a folder that can be written";
            (format!("--trace: {}: {error}\n{hint}", shown(path)), Code::CannotCreate)
        })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces the file's content by the timeline of a run that has begun.
    pub(crate) fn write(mut self, trace: Option<&Trace>) -> Result<(), String> {
        let Some(trace) = trace else { return Ok(()) };
        // A pipe has no length.
        let emptied = if self.file.metadata().is_ok_and(|file| file.is_file()) { self.file.set_len(0) } else { Ok(()) };
        let written = emptied.and_then(|()| self.file.write_all(trace.json().as_bytes()));
        written.map_err(|error| format!("--trace: {}: {error}", shown(&self.path)))
    }
}

/// The part of the time in which each stage had a batch, and the stage that limits.
pub(crate) fn stages(trace: &Trace) -> String {
    let wall = trace.wall.0.max(1.0);
    let parts: Vec<String> =
        trace.lanes.iter().map(|lane| format!("{} {:.2}", lane.name, lane.busy().0 / wall)).collect();
    format!("stages: {} of the time; {} limits", parts.join(", "), trace.explain().name)
}

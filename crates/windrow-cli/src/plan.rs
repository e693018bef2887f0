//! `windrow plan`: cuts for a matrix product that is fused with a collective, given measured times of its parts.
//!
//! `windrow_tiling::planner` decides and explains. This module reads options and files, calibrates, and writes the requested files.
//! Everything is checked and computed before anything is written.

mod args;
mod calibrate;
mod files;
#[cfg(feature = "mpi")]
mod mpi;
mod profiles;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use windrow_collective::{MeasuredTimeline, Profile};
use windrow_tiling::Nanos;
use windrow_tiling::planner::{
    CostFile, MeasuredRun, MeasuredTimes, PlannedOperation, SAMPLE_COLUMNS, Unplanned, shortened,
};
use windrow_tokenizers::{shown, to_json};

use args::Where;
pub(crate) use args::{AFTER_HELP, HELP, Options};
use files::Outputs;

use crate::exit::Code;
use crate::report;
use crate::staged::Refused;

impl Refused {
    fn usage(message: impl fmt::Display) -> Self {
        Self(message.to_string(), Code::Usage)
    }

    fn bad_input(message: impl fmt::Display) -> Self {
        Self(message.to_string(), Code::BadInput)
    }
}

impl From<Unplanned> for Refused {
    fn from(Unplanned { message, is_usage }: Unplanned) -> Self {
        Self(message, if is_usage { Code::Usage } else { Code::BadInput })
    }
}

/// Measured times, and the profile that a calibration made of them, without the limits of the plan.
struct Source {
    measured: MeasuredTimes,
    kept: Option<Profile>,
}

/// Runs the command and reports the result.
pub(crate) fn run(options: Options) -> Code {
    let options = options.padded();
    #[cfg(feature = "mpi")]
    if options.calibrate == Some(Where::Mpi) {
        return mpi::run(&options);
    }
    match planned(&options).and_then(print) {
        Ok(()) => Code::Done,
        Err(refused) => refused.reported(),
    }
}

fn print(shown: String) -> Result<(), Refused> {
    report::print(shown)
        .map_err(|error| Refused(format!("cannot write to stdout: {error}\nhint: the run itself succeeded"), Code::Io))
}

/// The text for stdout; the files are already written.
fn planned(options: &Options) -> Result<String, Refused> {
    options.check()?;
    let outputs = Outputs::check(options)?;
    decided(options, &outputs, &measure(options)?)
}

/// Like [`planned`], given the measurements.
fn decided(options: &Options, outputs: &Outputs<'_>, source: &Source) -> Result<String, Refused> {
    let (request, measured) = (&options.request, &source.measured);
    outputs.write_samples(|| measured.csv())?;
    outputs.write_profile(|profiles| profiles::add(profiles, options, source))?;
    let saved = options.replay.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?;
    let runs = options.measured.iter().map(|path| measured_run(path)).collect::<Result<Vec<_>, _>>()?;
    let planned = PlannedOperation::new(request, measured, &saved, runs)?;
    let table = match (&options.table, &options.table_m) {
        (Some(path), Some(spans)) => {
            measured.table(request, spans, path.extension().is_some_and(|extension| extension == "h"))?
        }
        _ => String::new(),
    };
    outputs.write(|| planned.svg(), || to_json(&planned.trace()), || table)?;
    Ok(if options.json { to_json(&planned.json()) } else { planned.text() })
}

/// The measured times of the parts of the operation: from a file of samples, or calibrated.
fn measure(options: &Options) -> Result<Source, Refused> {
    match (&options.cost[..], options.calibrate) {
        (paths @ [_, ..], _) => {
            let files = paths.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?;
            Ok(Source { measured: MeasuredTimes::read(&files, &options.request)?, kept: None })
        }
        ([], Some(Where::InProcess)) => calibrate::in_process(options),
        // With MPI, this command runs in several processes, which do not reach this line.
        ([], Some(Where::Mpi)) => Err(Refused::usage(
            "this build of windrow has no MPI support\n\
             hint: build it with cargo install --path crates/windrow-cli --features mpi, and start it with mpiexec; \
             or calibrate in your program with windrow_collective::Fused::calibrate and pass the samples of its profile with --cost",
        )),
        ([], None) if options.profile.is_some() => profiles::read(options),
        ([], None) => Err(Refused::usage(format_args!(
            "the times of the computation and the communication are unknown\n\
             hint: measure both at several sizes and pass the times with --cost samples.csv, a file with the header {}; \
             or measure on ranks of this process with --calibrate in-process, and keep the result with --profile profiles.json",
            SAMPLE_COLUMNS.join(",")
        ))),
    }
}

/// A run that a program measured.
fn measured_run(path: &Path) -> Result<MeasuredRun, Refused> {
    let CostFile { name: file, text } = text(path)?;
    let MeasuredTimeline { tiles, compute, communicate, end, elapsed, .. } =
        serde_json::from_str(&text).map_err(|error| {
            Refused::bad_input(format_args!(
                "{file}: {}\nhint: write the measured run with serde_json::to_string(&windrow_collective::MeasuredTimeline::from(&outcome))",
                shortened(&error.to_string())
            ))
        })?;
    Ok(MeasuredRun { file, tiles, compute, communicate, end, elapsed, predicted: Nanos(0.0) })
}

/// The text of a file.
fn text(path: &Path) -> Result<CostFile, Refused> {
    let shown = shown(path);
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refused::usage(format_args!("{shown} does not exist\nhint: check the path")),
        _ => Refused(format!("cannot read {shown}: {error}"), Code::Io),
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        Refused::bad_input(format_args!("{shown}:{line}: not UTF-8\nhint: save it as UTF-8"))
    })?;
    Ok(CostFile { name: shown.to_string(), text })
}

//! Profiles of many operations in a file: a calibration is added to it, and later plans are made from it.

use std::path::Path;

use windrow_collective::{Profile, Profiles, Refit, Shape, Stage, Tiles as Cut};

use super::args::{Options, Where};
use super::calibrate::{limited, samples};
use super::samples::{Calibrated, Measured, text};
use super::{Refused, impossible};

/// Maximum number of entries that a message lists.
const LISTED: usize = 4;

/// The profiles of a file; none if there is no such file.
pub(super) fn read_or_new(path: &Path) -> Result<Profiles, Refused> {
    if path.exists() { parsed(path) } else { Ok(Profiles::default()) }
}

fn parsed(path: &Path) -> Result<Profiles, Refused> {
    Profiles::from_json(&text(path)?).map_err(|error| {
        let colon = if error.place().is_some() { "" } else { " " };
        Refused::bad_input(format_args!(
            "{}:{colon}{error}\nhint: --calibrate with --profile writes such files",
            path.display()
        ))
    })
}

/// Adds the calibration to the profiles.
pub(super) fn add(profiles: &mut Profiles, options: &Options, measured: &Measured) {
    if let Some(calibrated) = &measured.calibrated {
        profiles.insert(machine(options), link(options), calibrated.kept.clone());
    }
}

/// What became of the predictions that programs made with a profile: whether they drift, and the last re-fit.
pub(super) fn drift(profile: &Profile, origin: &str) -> Vec<String> {
    let drifted = profile.needs_refit().then(|| format!("predictions of {origin} have drifted: calibrate again"));
    let refit = profile.refits().next_back().map(|Refit { after, compute, communicate, refused, .. }| match refused {
        None => format!(
            "the profile was re-fitted after {after} predictions: computation x {compute:.2}, communication x {communicate:.2}"
        ),
        Some(why) => format!("a re-fit of the profile after {after} predictions was refused: {why}"),
    });
    drifted.into_iter().chain(refit).collect()
}

fn machine(options: &Options) -> String {
    options.machine.clone().unwrap_or_else(Profiles::this_machine)
}

/// The name of the link of a calibration.
fn link(options: &Options) -> String {
    match (&options.link_name, options.calibrate, options.link) {
        (Some(name), ..) => name.clone(),
        (None, Some(Where::Mpi), _) => "mpi".to_owned(),
        (None, _, Some((megabytes, micros))) => format!("{megabytes} MB/s, {micros} us"),
        (None, _, None) => "shared memory".to_owned(),
    }
}

/// The measurements of the operation that a file of profiles has.
pub(super) fn read(options: &Options) -> Result<Measured, Refused> {
    let Some(path) = &options.profile else { return Err(Refused::usage("no file of profiles is given")) };
    let (profiles, file, machine) = (parsed(path)?, path.display(), machine(options));
    let shape = shape(options)?;
    let of_shape = profiles.iter().filter(|entry| *entry.profile.shape() == shape && entry.machine == machine);
    let found: Vec<_> =
        of_shape.filter(|entry| options.link_name.as_ref().is_none_or(|link| entry.link == *link)).collect();
    let listed = |entries: &mut dyn Iterator<Item = String>| {
        let mut names: Vec<String> = entries.take(LISTED + 1).collect();
        if names.len() > LISTED {
            names[LISTED] = "...".to_owned();
        }
        names.join("; ")
    };
    let entry = match found[..] {
        [entry] => entry,
        [] => {
            let Shape { operation, element, ranks, n, k } = &shape;
            let link = options.link_name.as_ref().map_or(String::new(), |link| format!(" over {link}"));
            let hint = match listed(&mut profiles.iter().map(ToString::to_string)) {
                none if none.is_empty() => "the file has no profile".to_owned(),
                entries => format!("the file has {entries}"),
            };
            return Err(Refused::bad_input(format_args!(
                "{file} has no profile of {operation} of {element}, {ranks} ranks, n = {n}, k = {k},{link} on {machine}\n\
                 hint: {hint}; --calibrate with --profile adds one, --machine and --link-name choose others"
            )));
        }
        [..] => {
            return Err(Refused::usage(format_args!(
                "{file} has profiles of this operation over several links: {}\nhint: choose one with --link-name",
                listed(&mut found.iter().map(|entry| entry.link.clone()))
            )));
        }
    };
    let kept = entry.profile.clone();
    let measured = Measured {
        compute: samples(&kept, Stage::Compute),
        communicate: samples(&kept, Stage::Communicate),
        origin: file.to_string(),
        calibrated: None,
    };
    let profile = limited(options, &kept).map_err(|error| impossible(&measured, error))?;
    let refined = match kept.refined(options.m) {
        Some(Cut::Plan(tiles)) if options.without_limits() => Some(tiles),
        _ => None,
    };
    let contention = kept.contention();
    Ok(Measured { calibrated: Some(Calibrated { contention, profile, kept, tried: Vec::new(), refined }), ..measured })
}

fn shape(options: &Options) -> Result<Shape, Refused> {
    let [ranks, n, k] = [options.ranks, options.n, options.k].map(usize::try_from);
    let (Ok(ranks), Ok(n), Ok(k)) = (ranks, n, k) else {
        return Err(Refused::usage("the matrices do not fit into memory"));
    };
    Ok(Shape { operation: options.operation.collective(), element: options.element.clone(), ranks, n, k })
}

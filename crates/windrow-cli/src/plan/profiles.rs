//! Profiles of many operations in a file: a calibration is added to it, and later plans are made from it.

use std::path::Path;

use windrow_collective::{
    Interpolation, Profile, ProfileEntry, Profiles, ProfilesErrorKind, Refit, Shape, Tiles as Cut,
};
use windrow_tiling::planner::Calibrated;
use windrow_tokenizers::shown;

use super::args::{Options, Where};
use super::calibrate::{calibrated, collective, limited, times};
use super::{Refused, Source, text};

/// Maximum number of entries that a message lists.
const LISTED: usize = 4;

/// The profiles of a file; none if there is no such file.
pub(super) fn read_or_new(path: &Path) -> Result<Profiles, Refused> {
    if path.exists() { parsed(path) } else { Ok(Profiles::default()) }
}

fn parsed(path: &Path) -> Result<Profiles, Refused> {
    Profiles::from_json(&text(path)?.text).map_err(|error| {
        let colon = if error.place().is_some() { "" } else { " " };
        Refused::bad_input(format_args!(
            "{}:{colon}{error}\nhint: --calibrate with --profile writes profile files",
            shown(path)
        ))
    })
}

/// Adds the calibration to the profiles.
pub(super) fn add(profiles: &mut Profiles, options: &Options, source: &Source) {
    if let Some(kept) = &source.kept {
        profiles.insert(machine(options), link(options), kept.clone());
    }
}

/// The fate of the predictions that programs made with a profile: their drift, and the last re-fit.
pub(super) fn drift(profile: &Profile, origin: &str) -> Vec<String> {
    let drifted = profile.needs_refit().then(|| format!("predictions from {origin} have drifted: calibrate again"));
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

/// The measurements of the operation in a file of profiles, or measurements interpolated from measured n and k.
pub(super) fn read(options: &Options) -> Result<Source, Refused> {
    let Some(path) = &options.profile else { return Err(Refused::usage("no profile file was given")) };
    let (profiles, file, machine) = (parsed(path)?, shown(path), machine(options));
    let shape = shape(options)?;
    let exact = |entry: &&ProfileEntry| *entry.profile.shape() == shape;
    let alike = |entry: &&ProfileEntry| {
        let Shape { operation, element, ranks, .. } = entry.profile.shape();
        (*operation, element, *ranks) == (shape.operation, &shape.element, shape.ranks)
    };
    let of_machine = |wanted: &dyn Fn(&&ProfileEntry) -> bool| -> Vec<&ProfileEntry> {
        let entries = profiles.iter().filter(|entry| entry.machine == machine && wanted(entry));
        entries.filter(|entry| options.link_name.as_ref().is_none_or(|link| entry.link == *link)).collect()
    };
    let found = Some(of_machine(&exact)).filter(|found| !found.is_empty()).unwrap_or_else(|| of_machine(&alike));
    let mut links: Vec<&str> = found.iter().map(|entry| &*entry.link).collect();
    links.sort_unstable();
    links.dedup();
    let listed = |entries: &mut dyn Iterator<Item = String>| {
        let mut names: Vec<String> = entries.take(LISTED + 1).collect();
        if names.len() > LISTED {
            names[LISTED] = "...".to_owned();
        }
        names.join("; ")
    };
    let link = match links[..] {
        [link] => link,
        [] => {
            let Shape { operation, element, ranks, n, k } = &shape;
            let link = options.link_name.as_ref().map_or(String::new(), |link| format!(" over {link}"));
            let hint = match listed(&mut profiles.iter().map(|entry| shown(&entry.to_string()).to_string())) {
                none if none.is_empty() => "the file has no profiles".to_owned(),
                entries => format!("the file has {entries}"),
            };
            return Err(Refused::bad_input(format_args!(
                "{file} has no profile for {operation} of {element}, {ranks} ranks, n = {n}, k = {k},{link} on {machine}\n\
                 hint: {hint}; add the missing profile with --calibrate and --profile, \
                 or choose another with --machine and --link-name"
            )));
        }
        [..] => {
            return Err(Refused::usage(format_args!(
                "{file} contains profiles of this operation for several links: {}\nhint: choose one with --link-name",
                listed(&mut links.iter().map(|link| shown(&link.to_string()).to_string()))
            )));
        }
    };
    let kept = match options.extrapolate {
        true => profiles.extrapolated(&machine, link, &shape),
        false => profiles.interpolated(&machine, link, &shape),
    };
    let kept = kept.map_err(|error| {
        let hint = match error.kind() {
            ProfilesErrorKind::Outside => {
                "\nhint: measure this shape with --calibrate and --profile, or pass --extrapolate to plan with the rates of the nearest measured shape"
            }
            _ => "\nhint: measure this shape with --calibrate and --profile",
        };
        Refused::bad_input(format_args!("{file}: {}{hint}", shown(&error.to_string())))
    })?;
    let profile = limited(options, &kept).map_err(|error| Refused::bad_input(format_args!("{file}: {error}")))?;
    let refined = match kept.refined(options.request.m) {
        Some(Cut::Plan(tiles)) if options.request.without_limits() => Some(tiles),
        _ => None,
    };
    let origin = file.to_string();
    let calibrated = Calibrated { refined, ..calibrated(profile, kept.contention(), &kept, &origin) };
    Ok(Source { measured: times(&kept, &origin, Some(calibrated)), kept: Some(kept) })
}

/// The source of an interpolated profile, in words.
pub(super) fn origin(interpolation: &Interpolation) -> String {
    let Interpolation { from, error, left_out, outside, .. } = interpolation;
    let mut shapes: Vec<String> = from.iter().take(LISTED).map(|(n, k)| format!("{n} x {k}")).collect();
    if from.len() > LISTED {
        shapes.push(format!("{} others", from.len() - LISTED));
    }
    let (what, error) = (if *outside { "extrapolated" } else { "interpolated" }, 100.0 * error);
    let known = match left_out {
        0 => format!("{error:.1} % (assumed, because there are too few shapes to measure it)"),
        shapes => format!("{error:.1} % (measured by leaving out each of {shapes} shapes in turn)"),
    };
    format!("{what} from measurements of n x k = {}; expected error {known}", shapes.join(", "))
}

fn shape(options: &Options) -> Result<Shape, Refused> {
    let [ranks, n, k] = [options.request.ranks, options.request.n, options.request.k].map(usize::try_from);
    let (Ok(ranks), Ok(n), Ok(k)) = (ranks, n, k) else {
        return Err(Refused::usage("the matrices do not fit in memory"));
    };
    Ok(Shape { operation: collective(options.request.operation), element: options.element.clone(), ranks, n, k })
}

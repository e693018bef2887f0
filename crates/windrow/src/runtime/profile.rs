//! The stored profile of the machine: where it is, and what a new pool assumes because of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use windrow_plan::machine::Machine;
use windrow_plan::{Nanos, profile};
use windrow_sync::relaxed::RelaxedU64;

/// A path to be read instead of the usual one, or `0`: no profile is read.
pub(super) const VARIABLE: &str = "WINDROW_PROFILE";

/// The file in the cache folder of the user.
const FILE: [&str; 2] = ["windrow", "machine.profile"];

/// Where the profile of this user and machine is; `None` if no profile is to be read, or the user has no home.
pub(super) fn path() -> Option<PathBuf> {
    path_of(|name| env::var_os(name).filter(|value| !value.is_empty()))
}

fn path_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(value) = variable(VARIABLE) {
        return (value != "0").then(|| value.into());
    }
    let home = || variable("HOME").map(PathBuf::from);
    let cache = match () {
        () if cfg!(windows) => variable("LOCALAPPDATA").map(PathBuf::from),
        () if cfg!(target_vendor = "apple") => home().map(|home| home.join("Library/Caches")),
        // A relative path is to be ignored, says the XDG base directory specification.
        () => {
            let given = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            given.or_else(|| home().map(|home| home.join(".cache")))
        }
    };
    cache.map(|cache| FILE.iter().fold(cache, |path, part| path.join(part)))
}

/// The profile in a file.
pub(super) fn read(path: &Path) -> io::Result<Machine> {
    // A profile has less than a hundred bytes; what is far longer is none, and may be a device. Measure: size of a file.
    const LONGEST: u64 = 4096;
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(fs::File::open(path)?, LONGEST), &mut text)?;
    profile::parse(&text).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))
}

/// The costs of the stored profile, as every process reads it once. Zero is unknown; a claim below zero is no profile.
///
/// There is no lock, because a forked child could not get one that a thread of its parent holds. Threads that read at the same time
/// store the same.
static STORED: [RelaxedU64; 4] = [const { RelaxedU64::new(0) }; 4];

/// What a pool assumes that guesses this. A profile that cannot be read counts as none: `windrow doctor` says what is wrong with it.
pub(super) fn tuned(guess: &Machine) -> Machine {
    if STORED[0].get() == 0 {
        let none = Machine { claim: Nanos(-1.0), ..*guess };
        let read = path().and_then(|path| read(&path).ok()).unwrap_or(none);
        // The claim comes last, because it says that the others are there.
        for (stored, cost) in STORED.iter().zip([read.claim, read.line, read.nap, read.wake]).rev() {
            stored.set_f64(cost.0);
        }
    }
    let [claim, line, nap, wake] = STORED.each_ref().map(|stored| Nanos(stored.get_f64()));
    // Another thread may store right now, and the order in which its stores are seen is not known.
    let is_whole = [claim, line, nap, wake].iter().all(|cost| cost.0 > 0.0);
    let stored = is_whole.then_some(Machine { claim, line, nap, wake });
    stored.and_then(|stored| profile::tuned(guess, &stored)).unwrap_or(*guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_in_the_cache_folder_of_the_user() {
        let with = |pairs: &[(&str, &str)]| {
            let found = |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            path_of(found)
        };
        assert_eq!(with(&[("WINDROW_PROFILE", "0"), ("HOME", "/h")]), None);
        assert_eq!(with(&[("WINDROW_PROFILE", "here"), ("HOME", "/h")]), Some("here".into()));
        assert_eq!(with(&[]), None);
        if cfg!(target_os = "linux") {
            assert_eq!(with(&[("HOME", "/h")]), Some("/h/.cache/windrow/machine.profile".into()));
            let elsewhere = [("HOME", "/h"), ("XDG_CACHE_HOME", "/c")];
            assert_eq!(with(&elsewhere), Some("/c/windrow/machine.profile".into()));
            assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "c")]), with(&[("HOME", "/h")]));
        }
    }

    #[test]
    fn what_is_no_profile_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "windrow profile 1\nclaim zero\n").unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "line 2: not `claim` and nanoseconds");
        fs::write(&path, profile::text(&Machine::example())).unwrap();
        assert_eq!(read(&path).unwrap().wake, Machine::example().wake);
    }
}

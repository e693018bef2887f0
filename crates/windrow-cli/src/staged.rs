//! Files that appear complete or not at all, and replace none without permission.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use windrow_tokenizers::output::is_among_devices;
use windrow_tokenizers::shown;

use crate::exit::Code;
use crate::report;

/// The reason why a command has no result, with its hint, and the exit code.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String, pub(crate) Code);

impl Refused {
    /// Reports the reason.
    pub(crate) fn reported(self) -> Code {
        report::error(self.0);
        self.1
    }
}

/// A complete temporary file next to its target; removed if it is not published.
pub(crate) struct Staged<'a> {
    part: PathBuf,
    target: &'a Path,
}

impl<'a> Staged<'a> {
    pub(crate) fn new(target: &'a Path, content: &str) -> Result<Self, Refused> {
        let mut name = target.file_name().map(ToOwned::to_owned).unwrap_or_default();
        // The process id keeps two runs for the same target apart.
        name.push(format!(".{}.windrow-part", process::id()));
        let part = target.with_file_name(name);
        let created =
            |error: io::Error| Refused(format!("cannot create {}: {error}", shown(target)), Code::CannotCreate);
        let mut file = File::create_new(&part).map_err(created)?;
        let staged = Self { part, target };
        let written = file.write_all(content.as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| Refused(format!("cannot write {}: {error}", shown(target)), Code::Io))?;
        Ok(staged)
    }

    pub(crate) fn publish(self) -> Result<(), Refused> {
        fs::rename(&self.part, self.target)
            .map_err(|error| Refused(format!("cannot write {}: {error}", shown(self.target)), Code::Io))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // After a rename no file has that name.
        let _ = fs::remove_file(&self.part);
    }
}

pub(crate) fn refused(path: &Path, what: &str, hint: &str) -> Refused {
    Refused(format!("{} {what}\nhint: {hint}", shown(path)), Code::CannotCreate)
}

/// Checks the entry under a target's name. The entry itself counts, not the file it links to: a rename replaces the entry.
pub(crate) fn check_entry(path: &Path, overwrite: bool) -> Result<(), Refused> {
    if path.file_name().is_none() {
        return Err(Refused(format!("\"{}\" is not a file name\nhint: choose another path", shown(path)), Code::Usage));
    }
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-")) {
        let message = format!(
            "the file name in \"{}\" begins with a dash\n\
             hint: the result is written to a file, not to stdout; pass the path to a file",
            shown(path)
        );
        return Err(Refused(message, Code::Usage));
    }
    let among_devices = || {
        Err(refused(
            path,
            "is in a device directory",
            "the result is written to a file; pass the path to a regular file",
        ))
    };
    if fs::symlink_metadata(path).is_err() {
        return if is_among_devices(path) { among_devices() } else { Ok(()) };
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(refused(path, "is a directory", "choose another path")),
        // A rename would replace a pipe or a device by a file.
        Ok(found) if !found.is_file() => Err(refused(path, "is not a file", "choose another path")),
        // The file that is open as stdout may be a regular file, and this path a link to it.
        _ if is_among_devices(path) => among_devices(),
        _ if !overwrite => {
            Err(refused(path, "already exists", "pass --overwrite to replace it, or choose another path"))
        }
        _ => Ok(()),
    }
}

/// Explains why no file can be created at a path, more clearly than the operating system does.
pub(crate) fn check_directory(path: &Path) -> Result<(), Refused> {
    let directory = directory(path);
    let why = |why: &str, hint: &str| {
        let message = format!("cannot create {}: {} {why}\nhint: {hint}", shown(path), shown(directory));
        Err(Refused(message, Code::CannotCreate))
    };
    match fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => why("is not a directory", "choose another path"),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            why("does not exist", &format!("create it first: mkdir -p {}", shown(directory)))
        }
        Err(error) => why(&format!("cannot be accessed: {error}"), "choose another path"),
    }
}

pub(crate) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// True if both name the same existing file.
pub(crate) fn same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

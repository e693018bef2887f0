//! Folders for files that a run writes: one on a disk, one in memory where the system has one. They are removed at the end.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use windrow_tokenizers::shown;

use crate::exit::Code;
use crate::staged::Refused;

/// The folder in which Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";

/// The folders. Dropping it removes them.
pub(super) struct Scratch(Paths);

/// Their paths, for the thread that watches for signals.
#[derive(Clone)]
pub(super) struct Paths {
    disk: PathBuf,
    memory: PathBuf,
}

impl Scratch {
    pub(super) fn create(mut paths: Paths) -> Result<Self, Refused> {
        fs::create_dir(&paths.disk).map_err(|error| {
            let hint = "hint: set TMPDIR to a writable folder";
            Refused(format!("cannot create {}: {error}\n{hint}", shown(&paths.disk)), Code::CannotCreate)
        })?;
        if fs::create_dir(&paths.memory).is_err() {
            paths.memory = paths.disk.clone();
        }
        Ok(Self(paths))
    }

    pub(super) fn disk(&self) -> &Path {
        &self.0.disk
    }

    /// The folder in memory, or the folder on the disk if the system has none in memory.
    pub(super) fn memory(&self) -> &Path {
        &self.0.memory
    }
}

impl Paths {
    /// The paths of folders that are still to be created.
    pub(super) fn new() -> Self {
        let name = format!("windrow-bench-{}", process::id());
        Self { disk: env::temp_dir().join(&name), memory: Path::new(MEMORY).join(name) }
    }

    pub(super) fn remove(&self) {
        // Files that cannot be removed are left to the system, in whose folders they are.
        let _ = fs::remove_dir_all(&self.disk);
        let _ = fs::remove_dir_all(&self.memory);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        let paths = Paths::new();
        let scratch = Scratch::create(paths.clone()).unwrap();
        fs::write(scratch.memory().join("file"), "text").unwrap();
        assert!(paths.disk.is_dir() && scratch.memory().is_dir());
        drop(scratch);
        assert!(!paths.disk.exists() && !paths.memory.exists());
    }
}

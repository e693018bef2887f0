//! Folders for files that a run writes: one on a disk, one in memory where the system has one. They are removed at the end.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use crate::exit::Code;
use crate::staged::Refusal;

/// Where Linux keeps files in memory.
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
    pub(super) fn create() -> Result<Self, Refusal> {
        let name = format!("windrow-bench-{}", process::id());
        let parent = env::temp_dir();
        let disk = parent.join(&name);
        fs::create_dir(&disk).map_err(|error| {
            let hint = "hint: set TMPDIR to a folder that can be written";
            (format!("cannot create {}: {error}\n{hint}", disk.display()), Code::CannotCreate)
        })?;
        let memory = Path::new(MEMORY).join(&name);
        let memory = if fs::create_dir(&memory).is_ok() { memory } else { disk.clone() };
        Ok(Self(Paths { disk, memory }))
    }

    pub(super) fn disk(&self) -> &Path {
        &self.0.disk
    }

    /// The folder on the disk, where the system has none in memory.
    pub(super) fn memory(&self) -> &Path {
        &self.0.memory
    }

    pub(super) fn paths(&self) -> Paths {
        self.0.clone()
    }
}

impl Paths {
    pub(super) fn remove(&self) {
        // What cannot be removed is left to the system, whose folders these are in.
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
        let scratch = Scratch::create().unwrap();
        let paths = scratch.paths();
        fs::write(scratch.memory().join("file"), "text").unwrap();
        assert!(paths.disk.is_dir() && paths.memory.is_dir());
        drop(scratch);
        assert!(!paths.disk.exists() && !paths.memory.exists());
    }
}

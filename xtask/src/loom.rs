//! Builds the loom models of windrow-sync, for `ci` and for the mutants.

use std::path::Path;
use std::process::Command;

use crate::house::SYNC;
use crate::orderings;
use crate::workspace::{Failure, Workspace};

pub(crate) const TESTS: &str = "loom_*";
const PREEMPTIONS: &str = "LOOM_MAX_PREEMPTIONS";

/// Sets what every build and run of the models needs. Three preemptions find every known kind of reordering and keep the models at seconds.
/// A larger number in the environment is kept.
pub(crate) fn configure(command: &mut Command) {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start());
    if std::env::var_os(PREEMPTIONS).is_none() {
        command.env(PREEMPTIONS, "3");
    }
}

/// Whether there are models to run. A crate with orderings and without models is a failure.
pub(crate) fn has_models(workspace: &Workspace) -> Result<bool, Failure> {
    let root = workspace.root.join(SYNC);
    if !model_files(&root).is_empty() {
        return Ok(true);
    }
    match orderings::sites(&orderings::load(&root)?).len() {
        0 => Ok(false),
        count => Err(Failure(format!("{SYNC} has {count} orderings, but no model {SYNC}tests/loom_*.rs"))),
    }
}

fn model_files(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("tests")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("loom_") && name.ends_with(".rs")).collect()
}

//! Facts about this workspace, from Cargo and git.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Why a command of xtask fails; printed as it is.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    /// A failure that lists `problems`, if there are any.
    pub(crate) fn unless_empty(what: &str, problems: &[String]) -> Result<(), Failure> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure(format!("{what}: {} problem(s)\n  {}", problems.len(), problems.join("\n  "))))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure(format!("cannot read {}: {error}", path.display())))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure(format!("cannot write {}: {error}", path.display())))
}

/// The Cargo that started this program, so that a chosen toolchain is kept.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The standard output of a command that succeeded.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| Failure(format!("cannot start {shown}: {error}")))?;
    if !output.status.success() {
        return Err(Failure(format!("{shown} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure(format!("{shown} printed something that is not UTF-8")))
}

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) metadata: Value,
}

impl Workspace {
    pub(crate) fn load() -> Result<Workspace, Failure> {
        // Read at run time: several checkouts may share a target folder, and with it this program.
        let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let manifest = Path::new(&own).join("../Cargo.toml");
        let mut command = cargo();
        command
            .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--manifest-path"])
            .arg(manifest);
        let metadata: Value = serde_json::from_str(&output_of(&mut command)?)
            .map_err(|error| Failure(format!("cargo metadata printed something that is not JSON: {error}")))?;
        let path = |key: &str| PathBuf::from(text(&metadata, key));
        Ok(Workspace { root: path("workspace_root"), target: path("target_directory"), metadata })
    }

    pub(crate) fn members(&self) -> Vec<&Value> {
        members(&self.metadata)
    }

    /// The files that git tracks or would add, as paths relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<String>, Failure> {
        let mut command = Command::new("git");
        // A container may check the workspace out as another user; reading the list of its files is harmless.
        command.arg("-c").arg(format!("safe.directory={}", self.root.display())).arg("-C").arg(&self.root);
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut files: Vec<String> = output_of(&mut command)?.split_terminator('\0').map(str::to_owned).collect();
        files.sort();
        files.dedup();
        files.retain(|file| self.root.join(file).is_file());
        Ok(files)
    }
}

/// The members of the workspace among the packages of `cargo metadata`.
pub(crate) fn members(metadata: &Value) -> Vec<&Value> {
    let ids = list(metadata, "workspace_members");
    list(metadata, "packages").iter().filter(|package| ids.contains(&package["id"])).collect()
}

/// The array at `key`; empty where there is none.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The string at `key`; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

//! Facts about this workspace, from Cargo and git.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The crates of the protocols, relative to the root: those with memory orderings and loom models.
pub(crate) const PROTOCOLS: [&str; 2] = ["crates/windrow-sync/", "crates/windrow-table/"];

/// The package in one of these folders.
pub(crate) fn package(folder: &str) -> &str {
    folder.trim_start_matches("crates/").trim_end_matches('/')
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Fails with the list of `problems`, if there are any.
pub(crate) fn unless_empty(what: &str, problems: &[String]) -> Result<()> {
    ensure!(problems.is_empty(), "{what}: {} problem(s)\n  {}", problems.len(), problems.join("\n  "));
    Ok(())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces a file by a copy of another one, as a whole: a process may have the old one loaded.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<()> {
    let staged = to.with_extension(format!("{}", std::process::id()));
    std::fs::copy(from, &staged)
        .and_then(|_| std::fs::rename(&staged, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// The Cargo that started this program, so that a chosen toolchain is kept.
pub(crate) fn cargo(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(folder);
    command
}

/// The standard output of a command that succeeded. What it says on standard error is shown at once.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed something that is not UTF-8"))
}

/// The name of this machine's target.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV does not report a host")
}

/// Runs a command and shows its output at once.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl Workspace {
    pub(crate) fn load() -> Result<Workspace> {
        // Read at run time: several checkouts may share a target folder, and with it this program.
        let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let metadata = metadata(Path::new(&own))?;
        let path = |key: &str| PathBuf::from(text(&metadata, key));
        Ok(Workspace { root: path("workspace_root"), target: path("target_directory") })
    }

    #[cfg(feature = "checks")]
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        read(&self.root.join(path))
    }

    /// The complaint about a generated file that is not `made`; with `write`, it becomes that.
    #[cfg(feature = "checks")]
    pub(crate) fn stale(&self, path: &str, made: &str, command: &str, write: bool) -> Result<Option<String>> {
        if write {
            self::write(&self.root.join(path), made)?;
        }
        let is_stale = read(&self.root.join(path)).unwrap_or_default() != made;
        Ok(is_stale.then(|| format!("{path} is out of date\n    hint: cargo xtask {command} --write")))
    }

    /// The files that git tracks or would add, as paths relative to the root.
    #[cfg(feature = "checks")]
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut command = Command::new("git");
        // A container may check the workspace out as another user; reading the list of its files is harmless.
        command.arg("-c").arg(format!("safe.directory={}", self.root.display())).arg("-C").arg(&self.root);
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
        let mut files: Vec<String> = output_of(&mut command)?.split_terminator('\0').map(str::to_owned).collect();
        files.sort();
        files.retain(|file| self.root.join(file).is_file());
        Ok(files)
    }
}

/// Cargo's description of the workspace around a folder.
pub(crate) fn metadata(folder: &Path) -> Result<Value> {
    let words = ["metadata", "--format-version", "1", "--no-deps", "--locked"];
    Ok(serde_json::from_str(&output_of(&mut cargo(folder, &words))?)?)
}

/// The array at `key`; empty where there is none.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The string at `key`; empty where there is none.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

//! Builds the book with mdBook. Warnings are failures.
//!
//! mdBook is a program, not a dependency, so it is installed into the target folder: in this version, without optimization. That takes half
//! a minute once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use crate::workspace::{self, Workspace};

const VERSION: &str = "0.5.4";

/// Installs mdBook if it is missing, and builds the book.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    build(workspace, &mdbook(workspace)?)
}

/// The same as a step of all checks: where mdBook cannot be installed, it says that the book is skipped.
pub(crate) fn step(workspace: &Workspace) -> Result<()> {
    match mdbook(workspace) {
        Ok(program) => build(workspace, &program),
        Err(error) => {
            println!("book: {error:#}, so the book is not built");
            Ok(())
        }
    }
}

/// mdBook in the version above.
fn mdbook(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.target.join("tools");
    let program = tools.join("bin").join(format!("mdbook{}", std::env::consts::EXE_SUFFIX));
    let is_current = || Command::new(&program).arg("--version").output().is_ok_and(|it| is_version(&it));
    if !is_current() {
        let version = format!("={VERSION}");
        let words = ["install", "mdbook", "--version", &version, "--locked", "--debug", "--quiet", "--force"];
        let mut install = workspace::cargo(&workspace.root, &words);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        let status = install.status().context("cannot start cargo")?;
        ensure!(status.success() && is_current(), "mdBook {VERSION} cannot be installed: {status}");
    }
    Ok(program)
}

fn is_version(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).trim().trim_start_matches("mdbook v") == VERSION
}

fn build(workspace: &Workspace, program: &Path) -> Result<()> {
    let (from, to) = (workspace.root.join("book"), workspace.target.join("book"));
    let output = Command::new(program).arg("build").arg(&from).arg("--dest-dir").arg(&to).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaints = complaints(&said);
    ensure!(output.status.success(), "mdBook: {}\n{complaints}", output.status);
    ensure!(complaints.is_empty(), "mdBook warns:\n{complaints}");
    println!("book: {}", to.join("index.html").display());
    Ok(())
}

/// The lines of mdBook's log that are no mere information.
fn complaints(log: &str) -> String {
    let is_mere = |line: &str| line.trim_start().starts_with("INFO") || line.trim().is_empty();
    log.lines().filter(|line| !is_mere(line)).fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "  {line}");
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_no_complaint() {
        let log = " INFO Book building has started\n WARN unclosed tag\nERROR no page\n\n INFO done\n";
        assert_eq!(complaints(log), "   WARN unclosed tag\n  ERROR no page\n");
    }
}

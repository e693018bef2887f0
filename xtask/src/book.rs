//! Builds the book with mdBook. Warnings are failures.
//!
//! mdBook is a program, not a dependency, so it is installed into the target folder, in this version and without optimization. That takes half
//! a minute once.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::{self, Workspace, succeed};

const INSTALL: &[&str] = &[
    "install",
    "mdbook",
    "--version",
    "=0.5.4",
    "--locked",
    "--debug",
    "--quiet",
    "--no-default-features",
    "--features",
    "search",
    "--root",
];

/// Installs mdBook if it is missing, and builds the book.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let (tools, to) = (workspace.target.join("tools"), workspace.target.join("book"));
    succeed(workspace::cargo(&workspace.root, INSTALL).arg(&tools)).context("mdBook cannot be installed")?;
    let mut build = Command::new(tools.join("bin/mdbook"));
    let output = build.arg("build").arg(workspace.root.join("book")).arg("--dest-dir").arg(&to).output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let is_information = |line: &&str| line.trim_start().starts_with("INFO") || line.trim().is_empty();
    let complaints: Vec<&str> = log.lines().filter(|line| !is_information(line)).collect();
    ensure!(output.status.success() && complaints.is_empty(), "mdBook: {}\n{}", output.status, complaints.join("\n"));
    println!("book: {}", to.join("index.html").display());
    Ok(())
}

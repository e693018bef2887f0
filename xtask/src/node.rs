//! The tests of the Node package.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::suite::Built;
use crate::workspace::{self, Workspace};

const FOLDER: &str = "bindings/node";

/// The oldest Node that runs npm and the build. The tests run on the oldest one that the package supports, which npx brings.
const OLDEST: &str = "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)";

/// Runs the tests of the package and the check of its types, with the addon that was built with the tests of Rust. Without a Node or a package
/// index it says what it skips.
pub(crate) fn run(workspace: &Workspace, built: &Built) -> Result<()> {
    let what = format!("the tests of {FOLDER}");
    let status = Command::new("node").args(["-e", OLDEST]).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("node: no node of version 20 or newer, so {what} are skipped");
        return Ok(());
    }
    let folder = workspace.root.join(FOLDER);
    let succeed = |program: &str, words: &[&str]| -> Result<()> {
        let mut command = Command::new(program);
        command.args(words).current_dir(&folder).env("CARGO_TARGET_DIR", &workspace.target);
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(status.success(), "{command:?}: {status}");
        Ok(())
    };
    // A program that is a script on Windows.
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    if let Err(error) = succeed(npm, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]) {
        println!("node: {error:#}, so {what} are skipped");
        return Ok(());
    }
    workspace::replace(built.library("windrow_node")?, &folder.join("windrow.node"))?;
    succeed(npm, &["test", "--silent"])
}

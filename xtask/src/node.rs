//! The tests of the Node package.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::suite::{Built, Tests};
use crate::workspace::{self, Workspace, succeed};

const FOLDER: &str = "bindings/node";

/// The oldest Node that runs npm and the build. The tests run on the oldest one that the package supports, which npx brings.
const OLDEST: &str = "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)";

/// A program that is a script on Windows.
const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// Installs what the tests need. Without a Node or a package index it says what it skips, and returns false.
pub(crate) fn packages(workspace: &Workspace) -> Result<bool> {
    let status = Command::new("node").args(["-e", OLDEST]).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("node: no Node 20 or newer was found, so the tests in {FOLDER} are skipped");
        return Ok(false);
    }
    let mut install = Command::new(NPM);
    install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
    let installed = succeed(install.current_dir(workspace.root.join(FOLDER)));
    if let Err(error) = &installed {
        println!("node: {error:#}, so the tests in {FOLDER} are skipped");
    }
    Ok(installed.is_ok())
}

/// The tests of the package and the check of its types, with the addon that was built with the tests of Rust.
pub(crate) fn tests(workspace: &Workspace, built: &Built, are_there: bool) -> Result<Option<Tests>> {
    let folder = workspace.root.join(FOLDER);
    if are_there {
        workspace::replace(built.library("windrow_node")?, &folder.join("windrow.node"))?;
    }
    Ok(are_there.then(|| Tests::new("node", NPM, &["test", "--silent"], folder)))
}

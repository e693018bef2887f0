//! The tests of the Python package, in a virtual environment in the target folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::workspace::{self, Workspace};

const FOLDER: &str = "bindings/python";

/// The oldest Python that the package supports.
const OLDEST: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

/// Builds the package as the tests of Rust are built, and runs its tests and the check of its types. Without a Python or a package index
/// it says what it skips.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let place = workspace.target.join("python");
    let requirements = workspace.root.join(FOLDER).join("requirements.txt");
    let Some(bin) = environment(&place, &requirements, &format!("the tests of {FOLDER}"))? else { return Ok(()) };
    let folder = workspace.root.join(FOLDER);
    let tool = |name: &str, words: &[&str]| {
        let mut command = Command::new(bin.join(name));
        succeed(command.args(words).current_dir(&folder).env("VIRTUAL_ENV", &place))
    };
    tool("maturin", &["develop", "--quiet", "--locked", "--profile", "dev"])?;
    tool("mypy", &["--strict", "python", "tests", "examples"])?;
    tool("stubtest", &["windrow", "--ignore-disjoint-bases"])?;
    tool("python", &["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
}

/// The programs of a virtual environment with these requirements. Without a Python or a package index it says that `what` is skipped.
pub(crate) fn environment(place: &Path, requirements: &Path, what: &str) -> Result<Option<PathBuf>> {
    let Some(python) = interpreter() else {
        println!("python: no python3 of version 3.10 or newer, so {what} are skipped");
        return Ok(None);
    };
    let bin = place.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let wanted = workspace::read(requirements)?;
    let stamp = place.join("requirements.txt");
    if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        succeed(Command::new(python).args(["-m", "venv", "--clear"]).arg(place))?;
        let mut pip = Command::new(bin.join("python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        if let Err(error) = succeed(pip.arg(requirements)) {
            println!("python: {error:#}, so {what} are skipped");
            return Ok(None);
        }
        workspace::write(&stamp, &wanted)?;
    }
    Ok(Some(bin))
}

/// A Python that is new enough.
fn interpreter() -> Option<PathBuf> {
    let is_new = |name: &&str| {
        let status = Command::new(name).args(["-c", OLDEST]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    ["python3", "python"].into_iter().find(is_new).map(|name| Path::new(name).to_owned())
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

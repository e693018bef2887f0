//! The tests of the Python package, in a virtual environment in the target folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::suite::{self, Built, Tests};
use crate::workspace::{self, Workspace, succeed};

const FOLDER: &str = "bindings/python";

/// The oldest Python that the package supports.
const OLDEST: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

/// The tests of the package, with the library that was built with the tests of Rust.
pub(crate) fn tests(workspace: &Workspace, built: &Built, bin: Option<PathBuf>) -> Result<Option<Tests>> {
    let (Some(bin), folder) = (bin, workspace.root.join(FOLDER)) else { return Ok(None) };
    install(&folder, built.library("_windrow")?, &bin)?;
    let deadline = format!("faulthandler_timeout={}", suite::DEADLINE.as_secs());
    let (traces, ends) = (["-o", &deadline], ["-o", "faulthandler_exit_on_timeout=true"]);
    let words = [&["-m", "pytest", "--quiet", "-p", "no:cacheprovider"], &traces[..], &ends].concat();
    Ok(Some(Tests::new("python", bin.join("python"), &words, folder)))
}

/// Checks the types of the package, of its tests and examples, after [`tests`].
pub(crate) fn types(workspace: &Workspace) -> Result<()> {
    let Some(bin) = packages(workspace)? else { return Ok(()) };
    let tool = |name: &str, words: &[&str]| {
        succeed(Command::new(bin.join(name)).args(words).current_dir(workspace.root.join(FOLDER)))
    };
    tool("mypy", &["--strict", "python", "tests", "examples"])?;
    tool("stubtest", &["windrow", "--ignore-disjoint-bases"])
}

/// An environment with what the tests need. Without a Python or a package index it says what it skips.
pub(crate) fn packages(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let requirements = workspace.root.join(FOLDER).join("requirements.txt");
    environment(&workspace.target.join("python"), &requirements, &format!("the tests in {FOLDER}"))
}

/// Makes the environment import the package from its folder, as an editable installation does, and have its command.
fn install(folder: &Path, library: &Path, bin: &Path) -> Result<()> {
    let ending = if cfg!(windows) { "pyd" } else { "abi3.so" };
    workspace::replace(library, &folder.join(format!("python/windrow/_windrow.{ending}")))?;
    let mut ask = Command::new(bin.join("python"));
    let site = workspace::output_of(ask.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
    workspace::write(&Path::new(site.trim()).join("windrow.pth"), &format!("{}\n", folder.join("python").display()))?;
    let python = bin.join("python");
    let script =
        format!("#!{}\nimport sys\n\nfrom windrow.__main__ import main\n\nsys.exit(main())\n", python.display());
    for name in ["windrow", "windrow-rs"] {
        let command = bin.join(name);
        workspace::write(&command, &script)?;
        #[cfg(unix)]
        std::fs::set_permissions(&command, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .with_context(|| format!("cannot make {} executable", command.display()))?;
    }
    Ok(())
}

/// The programs of a virtual environment with these requirements. Without a Python or a package index it says that `what` is skipped.
pub(crate) fn environment(place: &Path, requirements: &Path, what: &str) -> Result<Option<PathBuf>> {
    let Some(python) = interpreter() else {
        println!("python: no Python 3.10 or newer was found, so {what} are skipped");
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

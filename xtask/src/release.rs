//! `cargo xtask release`: the version, which several files repeat, and the heading of the changelog.

use std::process::Command;

use anyhow::{Result, ensure};
use regex::{Captures, Regex};

use crate::workspace::{self, Workspace};

/// Packages of this workspace in a lock file.
const LOCKED: &str = r#"(name = "windrow[a-z-]*"\nversion = ")([^"]+)"#;

/// Files that repeat the version, and the pattern of its places: what stands before it, then the version. The Python package has the
/// version of its crate.
const PLACES: &[(&str, &str)] = &[
    ("Cargo.toml", r#"(?m)(^version = ")([^"]+)"#),
    ("Cargo.toml", r#"(?m)(^windrow[a-z-]* = \{ path = "[^"]+", version = ")([^"]+)"#),
    ("Cargo.lock", LOCKED),
    ("compat/rayon/Cargo.lock", LOCKED),
    ("compat/rayon-core/Cargo.lock", LOCKED),
    ("compat/rayon-core/programs/Cargo.lock", LOCKED),
    ("bench/encoders/Cargo.lock", LOCKED),
    ("bindings/node/package.json", r#"(?m)(^  "version": ")([^"]+)"#),
    ("bindings/node/package-lock.json", r#"("name": "windrow",\n +"version": ")([^"]+)"#),
    ("CITATION.cff", r"(?m)(^version: )(\S+)"),
];

const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## [Unreleased]\n";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Version to write, such as 0.2.0. Without it, the files are compared.
    version: Option<String>,
    /// Tag to compare with, such as v0.2.0.
    #[arg(long, conflicts_with = "version")]
    tag: Option<String>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if let Some(version) = &options.version {
        let today = workspace::output_of(Command::new("date").args(["-u", "+%F"]))?;
        write(workspace, version, today.trim())?;
    }
    let mut problems = disagreements(workspace)?;
    if let Some(tag) = &options.tag {
        let version = version(workspace)?;
        problems
            .extend((*tag != format!("v{version}")).then(|| format!("the tag is {tag}, but the version is {version}")));
        let heading = format!("\n## [{version}] - ");
        let is_listed = workspace.read(CHANGELOG)?.contains(&heading);
        problems.extend((!is_listed).then(|| format!("{CHANGELOG} has no heading for {version}")));
    }
    workspace::unless_empty("release", &problems)
}

fn version(workspace: &Workspace) -> Result<String> {
    Ok(found(&workspace.read(PLACES[0].0)?, PLACES[0].1)?.concat())
}

fn found(text: &str, pattern: &str) -> Result<Vec<String>> {
    Ok(Regex::new(pattern)?.captures_iter(text).map(|it| it[2].to_owned()).collect())
}

fn replaced(text: &str, pattern: &str, version: &str) -> Result<String> {
    let made = Regex::new(pattern)?.replace_all(text, |it: &Captures<'_>| format!("{}{version}", &it[1]));
    Ok(made.into_owned())
}

/// The files in which the version is missing or another one than in Cargo.toml.
fn disagreements(workspace: &Workspace) -> Result<Vec<String>> {
    let (mut problems, version) = (Vec::new(), version(workspace)?);
    for (file, pattern) in PLACES {
        let versions = found(&workspace.read(file)?, pattern)?;
        if versions.is_empty() || versions.iter().any(|it| *it != version) {
            problems.push(format!("{file} has {versions:?}, not {version}\n    hint: cargo xtask release {version}"));
        }
    }
    Ok(problems)
}

fn write(workspace: &Workspace, version: &str, today: &str) -> Result<()> {
    ensure!(
        Regex::new(r"^\d+\.\d+\.\d+(-[0-9a-z.]+)?$")?.is_match(version),
        "{version} is not a version of the form 0.2.0"
    );
    for (file, pattern) in PLACES {
        workspace::write(&workspace.root.join(file), &replaced(&workspace.read(file)?, pattern, version)?)?;
    }
    let citation = replaced(&workspace.read("CITATION.cff")?, r"(?m)(^date-released: )(\S+)", today)?;
    workspace::write(&workspace.root.join("CITATION.cff"), &citation)?;
    let changelog = workspace.read(CHANGELOG)?;
    if !changelog.contains(&format!("## [{version}]")) {
        let heading = format!("{UNRELEASED}\n## [{version}] - {today}\n");
        workspace::write(&workspace.root.join(CHANGELOG), &changelog.replacen(UNRELEASED, &heading, 1))?;
    }
    Ok(())
}

#[test]
fn the_files_of_this_workspace_agree() {
    let workspace = Workspace::load().expect("cargo metadata works here");
    assert_eq!(disagreements(&workspace).expect("the files are there"), Vec::<String>::new());
}

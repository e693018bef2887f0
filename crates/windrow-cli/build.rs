//! Passes the commit of the build to the command, where it is known.

use std::path::Path;
use std::process::Command;

/// Output of git, without the end of the line. `None` without git, or outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

/// The commit, followed by `-dirty` if a source differs from it.
fn commit() -> Option<String> {
    // A package that lies in the repository of another program is no part of that repository.
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let here = Path::new(&root).join("crates/windrow-cli").canonicalize().ok()?;
    if here != Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().ok()? {
        return None;
    }
    let sources = [":/crates", ":/Cargo.toml", ":/Cargo.lock"];
    let changes = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &sources[..]].concat())?;
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(commit) = commit() else { return };
    println!("cargo::rustc-env=WINDROW_COMMIT={commit}");
    // The log has a line for each change of HEAD.
    for path in [git(&["rev-parse", "--git-path", "logs/HEAD"]), Some("../../crates".to_owned())].into_iter().flatten()
    {
        println!("cargo::rerun-if-changed={path}");
    }
}

//! `bench/RESULTS.md` says what the records say: the notes of each, which its program wrote beside the times.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::workspace::{Failure, Workspace, read, write};

const FILE: &str = "bench/RESULTS.md";

const HEAD: &str = "# Results

Made from `bench/record` by `cargo xtask results --write`: what each program noted beside its times, with the bars it is held to and whether
they are met. The times of every repetition and the versions of the peers are in the records; how it is measured is in
[crates/windrow-bench/README.md](../crates/windrow-bench/README.md).
";

/// Whether the document is up to date.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let stale = read(&workspace.root.join(FILE))? != document(&workspace.root)?;
    if stale {
        return Err(Failure::new(format!("{FILE} is not what the records say\n  hint: cargo xtask results --write")));
    }
    Ok(())
}

pub(crate) fn update(workspace: &Workspace) -> Result<(), Failure> {
    write(&workspace.root.join(FILE), &document(&workspace.root)?)
}

fn document(root: &Path) -> Result<String, Failure> {
    let mut text = HEAD.to_owned();
    for machine in sorted(&root.join("bench/record"))?.iter().filter(|path| path.is_dir()) {
        for record in sorted(machine)?.iter().filter(|path| path.extension().is_some_and(|it| it == "csv")) {
            let name = record.file_stem().unwrap_or_default().to_string_lossy();
            let _ = write!(text, "{}", section(&name, &read(record)?));
        }
    }
    Ok(text)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(cannot)?;
    let mut paths = entries.map(|entry| entry.map(|it| it.path())).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    paths.sort();
    Ok(paths)
}

/// What a record says of itself; nothing if its program noted nothing.
fn section(name: &str, record: &str) -> String {
    let comments: Vec<&str> = record.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let of = |key: &str| comments.iter().find_map(|line| line.strip_prefix(key)).unwrap_or("-");
    let (command, machine, commit) = (of("command: "), of("machine: "), of("commit: "));
    let is_fact =
        |line: &&&str| ["command: ", "machine: ", "commit: ", "compiler: "].iter().any(|it| line.starts_with(it));
    let notes: Vec<&&str> = comments.iter().filter(|line| !is_fact(line) && !is_version(line)).collect();
    if notes.is_empty() {
        return String::new();
    }
    let mut text = format!("\n## {name}\n\n`{command}` on {machine}, commit {commit}\n\n");
    notes.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
    text
}

/// A line like `rayon 1.12.0`, or `OpenMP 201511, gcc 12.2.0`.
fn is_version(line: &str) -> bool {
    line.split(", ").all(|part| match part.split_once(' ') {
        Some((_, version)) => !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.'),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_told_from_versions() {
        let record = "# command: c -- --record\n# machine: m x2\n# commit: abc\n# compiler: rustc 1.95.0 (5980 2026)\n\
                      # rayon 1.12.0\n# OpenMP 201511, gcc 12.2.0\n# a by b: x2.00, bar >= 1.5 met\n# worst 3\ncolumn\n1\n# late\n";
        let expected = "\n## day-name\n\n`c -- --record` on m x2, commit abc\n\n- a by b: x2.00, bar >= 1.5 met\n";
        assert_eq!(section("day-name", &record.replace("# worst 3\n", "")), expected);
        assert_eq!(section("day-name", "# command: c\n# faer 0.24.4\nx\n"), "");
    }
}

//! Checks `bench/RESULTS.md`, with its verdicts and harm, and every quoted figure against the records.

use anyhow::Result;
use windrow_records::Results;

use crate::workspace::{self, Workspace};

/// Checks that the document is up to date, and that every figure of the other documents is in a record. Prints the table of harm. With
/// `write`, makes the document anew.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let results = Results::load(&workspace.root.join("bench"))?;
    let mut problems: Vec<String> =
        workspace.stale("bench/RESULTS.md", &results.document, "results", write)?.into_iter().collect();
    println!("{}", results.harm());
    for path in workspace.files()?.iter().filter(|path| path.ends_with(".md")) {
        problems.extend(results.problems(path, &workspace.read(path)?));
    }
    workspace::unless_empty("results", &problems)
}

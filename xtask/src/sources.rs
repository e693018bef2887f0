//! Checks `docs/sources.md`: the tables of the source documents beside the records and the planner.

mod guide;

use anyhow::Result;
use windrow_records::Results;

use crate::workspace::{self, Workspace};

const FILE: &str = "docs/sources.md";

/// Checks that the document is up to date; with `write`, makes it anew. Prints its summary.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let results = Results::load(&workspace.root.join("bench"))?;
    let document = results.sources(&workspace.read("bench/sources.txt")?, &guide::computed()?)?;
    document.lines().filter(|line| line.starts_with('|')).take_while(|line| !line.starts_with("|  |")).for_each(
        |line| {
            println!("{line}");
        },
    );
    workspace::unless_empty(
        "sources",
        &workspace.stale(FILE, &document, "sources", write)?.into_iter().collect::<Vec<_>>(),
    )
}

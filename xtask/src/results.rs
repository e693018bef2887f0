//! Checks what documents and generated files say of the records: blocks of figures, verdicts, the picture, and the cells of harm.

use anyhow::Result;
use windrow_records::Results;

use crate::workspace::{self, Workspace};

/// Prints the table of harm. With `write`, renders the files and blocks.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let results = Results::load(&workspace.root.join("bench"))?;
    println!("{}", results.harm());
    let mut problems = results.problems.clone();
    for (path, text) in &results.files {
        problems.extend(workspace.stale(path, text, "results", write)?);
    }
    let mut pages = Vec::new();
    for path in workspace.files()?.iter().filter(|path| path.ends_with(".md")) {
        let text = workspace.read(path)?;
        let (page, figures) = results.page(path, &text)?;
        problems.extend(figures);
        // Other pages are not written: an editor may hold them open.
        if page != text {
            problems.extend(workspace.stale(path, &page, "results", write)?);
        }
        pages.push(page);
    }
    let unused = results.unused(pages.iter().map(String::as_str));
    problems.extend(unused.iter().map(|name| format!("bench/figures.txt: no page has the block {name}")));
    workspace::unless_empty("results", &problems)
}

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
        problems.extend(broken_paragraphs(path, &text));
        // Other pages are not written: an editor may hold them open.
        if page != text {
            problems.extend(workspace.stale(path, &page, "results", write)?);
        }
        pages.push(page);
    }
    let unused = results.unused(pages.iter().map(String::as_str));
    problems.extend(unused.iter().map(|name| format!("bench/figures.txt: no page contains the block {name}")));
    workspace::unless_empty("results", &problems)
}

/// Lines that begin with a comment, directly below or above a paragraph or a list: Markdown takes them for a block of HTML.
fn broken_paragraphs(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_comment = |line: &str| line.trim_start().starts_with("<!--");
    let is_other = |line: &str| line.trim().is_empty() || line.starts_with('|') || line.starts_with("```");
    let is_text = |line: &&str| !is_comment(line) && !is_other(line);
    let (mut is_code, mut problems) = (false, Vec::new());
    for (at, line) in lines.iter().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        let is_below = at > 0 && is_text(&lines[at - 1]);
        if !is_code && is_comment(line) && (is_below || line.contains("-->") && lines.get(at + 1).is_some_and(is_text))
        {
            let hint = "hint: put an empty line between them, or begin the comment's line with a word";
            let place = format!("{path}:{}", at + 1);
            problems.push(format!("{place}: a comment breaks the paragraph next to it\n    {hint}"));
        }
    }
    problems
}

#[test]
fn a_comment_stands_apart_from_paragraphs() {
    let text = "It took\n<!-- a -->1 ms.\n\n<!-- b -->\n| a |\n- b\n  <!-- c -->2 ms\n\n<!-- d -->\nText\n";
    let found = broken_paragraphs("a.md", text);
    let places: Vec<&str> = found.iter().filter_map(|it| it.split(": ").next()).collect();
    assert_eq!(places, ["a.md:2", "a.md:7", "a.md:9"]);
    let text = "Text\n\n<!-- a -->\n<!-- b -->\n\n| c |\n<!-- end -->\n\n```html\nx\n<!-- c -->\ny\n```\n";
    assert_eq!(broken_paragraphs("a.md", text), Vec::<String>::new());
}

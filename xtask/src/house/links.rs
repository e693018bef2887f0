//! Links of the documents: files, headings and pictures exist, and the book's table of contents lists every page.
//!
//! Links to other hosts are not followed. Those to a file of this repository on its host are checked like relative ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Captures;
use windrow_records::tools::{line, pattern};

/// Where the host shows the files of this repository. Pages of the book link to them there, because a built book has its own pages only.
const HOSTED: [&str; 2] =
    ["https://github.com/windrow-rs/windrow/blob/main/", "https://github.com/windrow-rs/windrow/tree/main/"];

const BOOK: &str = "book/src/";
const SUMMARY: &str = "book/src/SUMMARY.md";

/// Comments and code, which hold no links.
const HIDDEN: &str = r"(?sx) <!--.*?(?:-->|\z) | (?m:^)\x20*```.*?(?:\n\x20*```+|\z) | `[^`]*`";

/// A link or a picture, and its place.
struct Link<'a> {
    target: &'a str,
    at: usize,
}

/// Checks all documents of a workspace. `files` are the paths relative to its root.
pub(super) fn check(documents: &BTreeMap<String, String>, root: &Path, files: &[String]) -> Vec<String> {
    let headings: BTreeMap<&str, BTreeSet<String>> =
        documents.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let (mut problems, mut linked) = (Vec::new(), BTreeSet::new());
    for (path, text) in documents.iter().filter(|(path, _)| !is_rustdoc(path)) {
        for Link { target, at } in links(text) {
            let Some(to) = resolve(path, target) else { continue };
            let (to, anchor) = to.split_once('#').map_or((to.as_str(), None), |(to, anchor)| (to, Some(anchor)));
            let problem = if !root.join(to).exists() {
                "does not exist"
            } else if path.starts_with(BOOK) && !target.contains("://") && !to.starts_with(BOOK) {
                "is not in the book: link to the file on its host"
            } else if anchor.is_some_and(|it| headings.get(to).is_some_and(|known| !known.contains(it))) {
                "has no such heading"
            } else {
                linked.insert((path.as_str(), to.to_owned()));
                continue;
            };
            problems.push(format!("{path}:{}: {target} {problem}", line(text, at)));
        }
    }
    for (path, text) in documents {
        problems.extend(broken_paragraphs(text).map(|at| {
            let hint = "hint: put an empty line between them, or begin the line with a word";
            format!("{path}:{at}: a comment at the start of a line breaks the paragraph beside it\n    {hint}")
        }));
    }
    let is_listed = |page: &str| linked.contains(&(SUMMARY, page.to_owned()));
    let is_shown = |picture: &str| linked.iter().any(|(_, to)| to == picture);
    for file in files.iter().filter(|file| file.starts_with(BOOK) && *file != SUMMARY) {
        if file.ends_with(".md") && !is_listed(file) {
            problems.push(format!("{file} is not in the table of contents\n    hint: add it to {SUMMARY}"));
        } else if !file.ends_with(".md") && !is_shown(file) {
            problems.push(format!("{file} is on no page"));
        }
    }
    problems
}

/// Lines that begin with a comment, directly below or above a paragraph or a list: Markdown takes them for a block of HTML.
fn broken_paragraphs(text: &str) -> impl Iterator<Item = usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut is_code = false;
    let is_comment = |line: &str| line.trim_start().starts_with("<!--");
    let is_text = move |line: Option<&&str>| {
        line.is_some_and(|it| {
            !it.trim().is_empty() && !is_comment(it) && !it.starts_with('|') && !it.starts_with("```")
        })
    };
    let broken = (0..lines.len()).filter(move |&at| {
        is_code ^= lines[at].trim_start().starts_with("```");
        let before = at.checked_sub(1).and_then(|before| lines.get(before));
        let is_beside_text = is_text(before) || (lines[at].contains("-->") && is_text(lines.get(at + 1)));
        !is_code && is_comment(lines[at]) && is_beside_text
    });
    broken.map(|at| at + 1)
}

/// Pages of modules: rustdoc checks their links.
fn is_rustdoc(path: &str) -> bool {
    path.starts_with("crates/") && (path.contains("/src/") || path.contains("/tests/"))
}

fn links(text: &str) -> Vec<Link<'_>> {
    let masked = pattern(HIDDEN).replace_all(text, |hidden: &Captures<'_>| blank(&hidden[0]));
    let found = pattern(r"\]\(([^()\s]+)\)");
    let links = found.captures_iter(&masked).filter_map(|it| it.get(1)).map(|it| it.range());
    links.map(|range| Link { target: &text[range.clone()], at: range.start }).collect()
}

/// Spaces of the same length, on the same lines.
fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { "\n".to_owned() } else { " ".repeat(c.len_utf8()) }).collect()
}

/// The path relative to the root that a link leads to, with its heading; none for other hosts.
fn resolve(from: &str, target: &str) -> Option<String> {
    if let Some(path) = HOSTED.iter().find_map(|host| target.strip_prefix(host)) {
        return Some(path.to_owned());
    }
    if target.contains(':') {
        return None;
    }
    if target.starts_with('#') {
        return Some(format!("{from}{target}"));
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, as the host and mdBook make them. The second heading of a name ends with `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    // Code within a line is a part of its heading.
    let is_block = |hidden: &str| hidden.starts_with('<') || hidden.trim_start().starts_with("```");
    let masked =
        pattern(HIDDEN).replace_all(
            text,
            |hidden: &Captures<'_>| {
                if is_block(&hidden[0]) { blank(&hidden[0]) } else { hidden[0].to_owned() }
            },
        );
    let (mut found, mut seen) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for heading in pattern(r"(?m)^#{1,6} +(.+?) *$").captures_iter(&masked) {
        let plain = pattern(r"\[([^\]]*)\]\([^)]*\)").replace_all(&heading[1], "$1").trim().to_lowercase();
        let kept = plain.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.entry(name.clone()).or_default();
        found.insert(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The problems of documents that lie in an empty folder, where no other file exists.
    fn found(documents: &[(&str, &str)]) -> Vec<String> {
        let folder = std::env::temp_dir().join(format!("windrow-links-{}-{:p}", std::process::id(), &documents));
        for (path, text) in documents {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder of this test");
            std::fs::write(path, text).expect("a file of this test");
        }
        let files: Vec<String> = documents.iter().map(|(path, _)| (*path).to_owned()).collect();
        let texts = documents.iter().filter(|(path, _)| path.ends_with(".md"));
        let texts = texts.map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let problems = check(&texts, &folder, &files);
        std::fs::remove_dir_all(folder).expect("the folder of this test");
        problems
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let target = ("docs/a.md", "# A `b` c\n## [Two](x) <!-- row -->\n## Two\n");
        for good in ["docs/a.md", "./docs/a.md#a-b-c", "docs/a.md#two", "docs/a.md#two-1", "https://a.b/c.md#d", "#own"]
        {
            let page = format!("# Own\n[a\nb]({good}) and `[x](gone)` <!-- [x](gone) -->\n```text\n[x](gone)\n```\n");
            let documents = [("README.md", page.as_str()), ("x", ""), target];
            // The heading's own link leads out of its folder.
            let problems = found(&documents);
            assert_eq!(problems, ["docs/a.md:2: x does not exist"], "{good}");
        }
        for (bad, why) in [
            ("docs/b.md", "does not exist"),
            ("docs/a.md#c", "has no such heading"),
            ("#other", "has no such heading"),
            ("https://github.com/windrow-rs/windrow/blob/main/docs/b.md", "does not exist"),
            ("https://github.com/windrow-rs/windrow/blob/main/docs/a.md#c", "has no such heading"),
        ] {
            let documents = [("README.md", &*format!("\n# Own\n[a]({bad})\n")), ("docs/a.md", "# A\n")];
            assert_eq!(found(&documents), [format!("README.md:3: {bad} {why}")]);
        }
    }

    #[test]
    fn a_comment_stands_apart_from_paragraphs() {
        let text = "It took\n<!-- a -->1 ms.\n\n<!-- b -->\n| a |\n- b\n  <!-- c -->2 ms\n\n<!-- d -->\nText\n";
        assert_eq!(broken_paragraphs(text).collect::<Vec<_>>(), [2, 7, 9]);
        let text = "Text\n\n<!-- a -->\n<!-- b -->\n\n| c |\n<!-- end -->\n\n```html\nx\n<!-- c -->\ny\n```\n";
        assert_eq!(broken_paragraphs(text).collect::<Vec<_>>(), Vec::<usize>::new());
    }

    #[test]
    fn pages_of_the_book_are_listed_and_stay_in_it() {
        let summary = ("book/src/SUMMARY.md", "[A](a.md)\n");
        let picture = ("book/src/img/a.svg", "<svg/>");
        let good = ("book/src/a.md", "![a](img/a.svg) [b](https://github.com/windrow-rs/windrow/blob/main/b.md)\n");
        assert_eq!(found(&[summary, picture, good, ("b.md", "")]), Vec::<String>::new());
        let out = ("book/src/a.md", "[b](../../b.md)\n");
        let problems = found(&[summary, picture, out, ("b.md", "")]);
        assert!(
            problems[0].contains("is not in the book") && problems[1].contains("a.svg is on no page"),
            "{problems:?}"
        );
        let problems = found(&[summary, ("book/src/a.md", ""), ("book/src/c.md", "")]);
        assert!(problems[0].starts_with("book/src/c.md is not in the table of contents"), "{problems:?}");
    }
}

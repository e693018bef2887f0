//! The rules that the compiler and clippy do not check (see CONTRIBUTING.md).

mod constants;
mod orderings;
mod packages;
mod prose;
mod unsafety;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use windrow_records::tools::line;
use windrow_sources::{Source, matches};

use crate::workspace::{self, SYNC, Workspace};

/// A Rust file, its path relative to the root with `/` as separator.
struct RustFile {
    path: String,
    source: Source,
}

impl RustFile {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> RustFile {
        RustFile { path: path.to_owned(), source: Source::new(text).expect("a file of Rust") }
    }

    /// `path:line` of an offset, in the form that editors understand.
    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.source.line(offset))
    }

    /// The path within windrow-sync.
    fn in_sync(&self) -> Option<&str> {
        self.path.strip_prefix(SYNC)
    }
}

/// With `write`, makes the table of constants anew.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let (mut problems, mut rust) = (Vec::new(), Vec::new());
    let files = workspace.files()?;
    for path in files {
        let is_read = [".rs", ".md"].iter().any(|ending| path.ends_with(ending));
        let text = if is_read { workspace.read(&path)? } else { continue };
        if path.ends_with(".rs") {
            rust.push(RustFile { source: Source::new(&text).with_context(|| path.clone())?, path });
        } else {
            problems.extend(fences(&path, &text));
            problems.extend(broken_paragraphs(&path, &text));
            problems.extend(prose::check(&path, &text));
        }
    }
    for file in &rust {
        problems.extend(fences(&file.path, &file.source.comments));
        problems.extend(prose::check(&file.path, &prose::said(&file.source)));
        problems.extend(misplaced(file));
        problems.extend(unsafety::printed(file));
    }
    problems.extend(unsafety::check(&rust));
    problems.extend(orderings::check(&rust, &Source::load(&workspace.root.join(SYNC))?));
    problems.extend(names(&rust));
    problems.extend(packages::check(workspace));
    let (table, unmeasured) = constants::table(&rust);
    problems.extend(unmeasured);
    problems.extend(workspace.stale(constants::FILE, &table, "house", write)?);
    workspace::unless_empty("house rules", &problems)
}

/// Lines that begin with a comment, directly below or above a paragraph or a list: Markdown takes them for a block of HTML.
fn broken_paragraphs(path: &str, text: &str) -> Vec<String> {
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
    let hint = "hint: put an empty line between them, or begin the line with a word";
    let problem =
        |at| format!("{path}:{at}: a comment at the start of a line breaks the paragraph beside it\n    {hint}");
    broken.map(|at| problem(at + 1)).collect()
}

/// Code fences in documentation that are never compiled.
fn fences(path: &str, text: &str) -> Vec<String> {
    let found = matches(r"(?m)^ *(?:///|//!)? *```(?:[^\n]*[, ])?ignore", text);
    let hint = "hint: let it compile (`no_run` if it must not run) or mark it `text`";
    found.iter().map(|it| format!("{path}:{}: an `ignore`d example rots\n    {hint}", line(text, it.0))).collect()
}

/// `cfg(loom)` and ignored tests, which have their places. A lint can demand a reason for an ignored test, but not refuse it.
fn misplaced(file: &RustFile) -> Vec<String> {
    let mut problems = Vec::new();
    let is_model = |path: &str| {
        path == "src/base/primitives/mod.rs" || path.starts_with("tests/loom/") || path == "tests/it/main.rs"
    };
    if !file.in_sync().is_some_and(is_model) {
        for (at, _) in matches(r"\bcfg(?:_attr)?\s*!?\s*\([\w\s,()=]*\bloom\b", &file.source.code) {
            problems.push(format!(
                "{}: cfg(loom) belongs into {SYNC}src/base/primitives and the loom tests",
                file.place(at)
            ));
        }
    }
    // Miri cannot run everything, and says so with one form.
    for (at, condition) in matches(r"#\s*\[\s*(?:cfg_attr\s*\(([^\]]*),)?\s*ignore\b", &file.source.code) {
        if condition.trim() != "miri" {
            problems.push(format!("{}: an ignored test tests nothing", file.place(at)));
        }
    }
    problems
}

/// One word has one meaning: a type name is defined once in windrow-plan, windrow-tiling, windrow-sync and windrow together.
fn names(files: &[RustFile]) -> Vec<String> {
    const CRATES: [&str; 4] =
        ["crates/windrow-plan/src/", "crates/windrow-tiling/src/", "crates/windrow-sync/src/", "crates/windrow/src/"];
    // Tests define no words of the house. The two forms of parking have the same parts, and one of them is compiled.
    const EXEMPT: [&str; 2] = ["/tests.rs", "windrow-sync/src/base/primitives/condvar.rs"];
    let definition = r"(?m)^(?:pub *(?:\([^)]*\))? *)?(?:unsafe +)?(?:struct|enum|trait|union|type) +(\w+)";
    let is_checked = |file: &&RustFile| {
        CRATES.iter().any(|folder| file.path.starts_with(folder)) && !EXEMPT.iter().any(|end| file.path.ends_with(end))
    };
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(is_checked) {
        for (at, name) in matches(definition, &file.source.code) {
            defined.entry(name).or_default().push(file.place(at));
        }
    }
    let twice = defined.into_iter().filter(|(_, places)| places.len() > 1);
    twice.map(|(name, places)| format!("{name} is defined more than once: {}", places.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_stands_apart_from_paragraphs() {
        let text = "It took\n<!-- a -->1 ms.\n\n<!-- b -->\n| a |\n- b\n  <!-- c -->2 ms\n\n<!-- d -->\nText\n";
        let found = broken_paragraphs("a.md", text);
        let places: Vec<&str> = found.iter().filter_map(|it| it.split(": ").next()).collect();
        assert_eq!(places, ["a.md:2", "a.md:7", "a.md:9"]);
        let text = "Text\n\n<!-- a -->\n<!-- b -->\n\n| c |\n<!-- end -->\n\n```html\nx\n<!-- c -->\ny\n```\n";
        assert_eq!(broken_paragraphs("a.md", text), Vec::<String>::new());
    }

    #[test]
    fn an_ignored_example_is_found() {
        let rust = |text: &str| fences("a.rs", &RustFile::new("a.rs", text).source.comments);
        assert!(rust("/// ```ignore\n/// x\n/// ```\nfn f() {}")[0].starts_with("a.rs:1:"));
        assert!(!rust("//! ```rust,ignore").is_empty());
        assert!(!fences("a.md", "x\n```rust ignore").is_empty());
        assert!(rust("/// ```no_run\n/// ignore\nfn f() {}").is_empty());
        assert!(rust("const X: &str = \"```ignore\";").is_empty());
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        misplaced(&RustFile::new(path, text))
    }

    #[test]
    fn ignored_tests_are_found() {
        for text in ["#[test]\n#[ignore]\nfn f() {}", "#[ignore = \"slow\"]", "#[cfg_attr(windows, ignore)]"] {
            assert_eq!(found("a.rs", text).len(), 1, "{text}");
        }
        assert!(found("a.rs", "\n#[ignore]")[0].starts_with("a.rs:2: an ignored test"));
        for text in [
            "fn ignore() {}",
            "#[cfg_attr(miri, ignore = \"slow\")]",
            "#[serde(default)]\nlet ignore = 1;",
            "// #[ignore]",
        ] {
            assert_eq!(found("a.rs", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn loom_has_its_places() {
        for text in [
            "#[cfg(loom)] mod a;",
            "#![cfg(not(loom))]",
            "if cfg!(loom) {}",
            "#[cfg(all(unix, not(loom)))]",
            "#[cfg(all(target_os = \"linux\", not(loom)))]",
            "#[cfg_attr(loom, allow(x))]",
        ] {
            assert_eq!(found("crates/windrow-sync/src/gate.rs", text).len(), 1, "{text}");
            assert!(found("crates/windrow-sync/src/base/primitives/mod.rs", text).is_empty());
            assert!(found("crates/windrow-sync/tests/loom/gate.rs", text).is_empty());
            assert_eq!(found("crates/windrow/tests/loom/gate.rs", text).len(), 1);
        }
        assert!(found("a.rs", "loom::model(|| {}); f(loom); let x = cfg(unix) + f(loom)").is_empty());
    }

    #[test]
    fn a_name_defined_twice_is_found() {
        let file = |path: &str, text: &str| RustFile::new(path, text);
        let one =
            file("crates/windrow/src/a.rs", "pub(crate) struct Walk<'a>(&'a u8);\nimpl X {\n    type Item = u8;\n}\n");
        let other =
            file("crates/windrow-sync/src/b.rs", "pub unsafe trait Walk {}\n// struct Item;\ntype Item = u8;\n");
        let elsewhere = file("crates/windrow-bench/src/c.rs", "enum Walk {}\n");
        let found = names(&[one, other, elsewhere]);
        let place = "Walk is defined more than once: crates/windrow/src/a.rs:1, crates/windrow-sync/src/b.rs:1";
        assert_eq!(found, [place]);
    }
}

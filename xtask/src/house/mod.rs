//! The rules that the compiler and clippy do not check (see CONTRIBUTING.md).

mod files;
mod names;
mod orderings;
mod packages;
mod prose;
mod unsafety;
mod words;

use crate::source::Source;
use crate::workspace::{self, Failure, Workspace, list, text};

/// The crate that holds all unsafe code, relative to the root.
pub(crate) const SYNC: &str = "crates/windrow-sync/";

/// A Rust file, its path relative to the root with `/` as separator.
struct RustFile {
    path: String,
    source: Source,
}

impl RustFile {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> RustFile {
        RustFile { path: path.to_owned(), source: Source::new(text) }
    }

    /// `path:line` of an offset, in the form that editors understand.
    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.source.line_of(offset) + 1)
    }
}

pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let mut problems = Vec::new();
    let mut rust = Vec::new();
    for path in workspace.files()? {
        if !files::is_counted(&path) {
            continue;
        }
        let text = workspace::read(&workspace.root.join(&path))?;
        problems.extend(files::check(&path, &text));
        let file = path.ends_with(".rs").then(|| RustFile { path: path.clone(), source: Source::new(&text) });
        if path.ends_with(".md") || file.is_some() {
            problems.extend(prose::check(&path, file.as_ref(), &text));
        }
        rust.extend(file);
    }
    let roots = crate_roots(workspace);
    let readme = workspace.root.join(SYNC).join("README.md");
    let readme = if readme.is_file() { Some(workspace::read(&readme)?) } else { None };
    problems.extend(unsafety::check(&rust, &roots, readme.as_deref()));
    problems.extend(orderings::check(&rust));
    problems.extend(words::check(&rust));
    problems.extend(names::check(&rust));
    problems.extend(packages::check(workspace));
    Failure::unless_empty("house rules", &problems)
}

/// The roots of all libraries and binaries, relative to the root of the workspace.
fn crate_roots(workspace: &Workspace) -> Vec<String> {
    let targets = workspace.members().into_iter().flat_map(|member| list(member, "targets"));
    let shipped = targets.filter(|target| {
        list(target, "kind")
            .iter()
            .any(|kind| !["test", "bench", "example", "custom-build"].contains(&kind.as_str().unwrap_or("")))
    });
    let root = format!("{}/", workspace.root.display());
    shipped.map(|target| text(target, "src_path").trim_start_matches(&root).replace('\\', "/")).collect()
}

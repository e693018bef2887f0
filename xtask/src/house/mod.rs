//! The rules that the compiler and clippy do not check (see CONTRIBUTING.md).

mod arrows;
mod constants;
mod cycles;
mod names;
mod orderings;

use anyhow::{Context, Result};
use windrow_sources::{Source, matches};

use crate::workspace::{self, PROTOCOLS, Workspace};

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

    /// True for a file of a crate of protocols.
    fn in_protocol(&self) -> bool {
        PROTOCOLS.iter().any(|folder| self.path.starts_with(folder))
    }
}

/// With `write`, makes the table of constants again.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let (mut problems, mut rust) = (Vec::new(), Vec::new());
    for path in workspace.files()?.into_iter().filter(|path| path.ends_with(".rs")) {
        let source = Source::new(&workspace.read(&path)?).with_context(|| path.clone())?;
        rust.push(RustFile { path, source });
    }
    problems.extend(arrows::check(workspace)?);
    problems.extend(cycles::check(&rust));
    problems.extend(names::check(&rust));
    problems.extend(rust.iter().flat_map(|file| [printed(file), openers(file)].concat()));
    for folder in PROTOCOLS {
        problems.extend(orderings::check(folder, &Source::load(&workspace.root.join(folder))?));
    }
    let (table, unmeasured) = constants::table(&rust);
    problems.extend(unmeasured);
    problems.extend(workspace.stale(constants::FILE, &table, "house", write)?);
    workspace::unless_empty("house rules", &problems)
}

/// Regions that are opened elsewhere than in `runtime/call`, and drivers of regions that do not ask `windrow_plan::share`.
fn openers(file: &RustFile) -> Vec<String> {
    let is_opener =
        file.in_protocol() || file.path.contains("/tests/") || file.path == "crates/windrow/src/runtime/call.rs";
    let asks = !matches(r"\bshare::(choose|recursion|team|tiles)\(", &file.source.code).is_empty();
    let problem = |regex, hint: &'static str| {
        let found = matches(regex, &file.source.code).into_iter();
        found.map(move |(at, _)| format!("{}: opens a region\n    hint: {hint}", file.place(at)))
    };
    let opens = problem(r"\.\s*region\s*\(|Gate::region\b", "only runtime/call.rs may open one").filter(|_| !is_opener);
    let drives = problem(r"\bcall::(\{[^}]*)?\bregion\b", "let windrow_plan::share decide whether to open one")
        .filter(|_| !asks);
    opens.chain(drives).collect()
}

#[test]
fn regions_have_one_opener_and_one_decision() {
    let found = |path, text| openers(&RustFile::new(path, text)).len();
    assert_eq!(found("crates/windrow/src/a.rs", "fn f() { pool.gate.region(&body, spin, |_| ()) }"), 1);
    assert_eq!(found("crates/windrow/src/runtime/call.rs", "fn f() { gate.region(&body, spin, |_| ()) }"), 0);
    let driver = "use super::call::{CallDoor, region};";
    assert_eq!(found("crates/windrow/src/a.rs", driver), 1);
    assert_eq!(found("crates/windrow/src/a.rs", &format!("{driver} fn f() {{ share::choose(a) }}")), 0);
}

/// Types that derive `Debug` over memory that may be uninitialized: a derived `Debug` reads every field, even if the type's state says that
/// the field is empty.
fn printed(file: &RustFile) -> Vec<String> {
    let derived = r"(?s)#\[derive\([^)]*\bDebug\b[^)]*\)\]([^;{]*(?:;|\{.*?\n\}))";
    let types = matches(derived, &file.source.code).into_iter().filter(|_| file.in_protocol());
    let problem = |(at, body): (usize, &str)| {
        let cell = ["MaybeUninit", "ManuallyDrop"].into_iter().find(|cell| body.contains(cell))?;
        let hint = "hint: implement it by hand, without the fields that may be uninitialized";
        Some(format!("{}: derive(Debug) on a type with {cell}\n    {hint}", file.place(at)))
    };
    types.filter_map(problem).collect()
}

#[test]
fn memory_of_doubtful_state_is_not_printed() {
    let found = |text| printed(&RustFile::new("crates/windrow-sync/src/a.rs", text)).len();
    assert_eq!(found("#[derive(Debug)]\npub struct A<T> {\n    a: Vec<MaybeUninit<T>>,\n}"), 1);
    assert_eq!(found("#[derive(Clone, Debug)]\nstruct A<T>(ManuallyDrop<T>);"), 1);
    assert_eq!(found("#[derive(Debug)]\nstruct A {\n    a: u8,\n}\nstruct B<T>(MaybeUninit<T>);"), 0);
}

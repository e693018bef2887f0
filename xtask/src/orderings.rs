//! The memory orderings of windrow-sync and the list that names each of them: `crates/windrow-sync/orderings.txt`.
//!
//! A line of the list is `src/file.rs  function  n  Ordering  why`: the n-th ordering of that function, counted from 1. The list makes a
//! new, lost or changed ordering visible in review, and gives each a reason.

use std::collections::BTreeMap;
use std::path::Path;

use crate::house::SYNC;
use crate::scopes::{self, Facts, Inactive};
use crate::source::Source;
use crate::workspace::{self, Failure, Workspace};

/// Orderings that synchronize: these are listed, explained and weakened.
pub(crate) const NAMES: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

const LIST: &str = "orderings.txt";
const UNEXPLAINED: &str = "?";
/// Starts the reason of an ordering that the loom models cannot reach.
const NOT_IN_LOOM: &str = "not-in-loom:";

/// The `cfg`s under which the loom models are built. Weakening cannot test what they compile out.
const LOOM: Facts = &[
    ("test", false),
    ("miri", false),
    ("loom", true),
    ("unix", true),
    ("windows", false),
    ("target_os=\"linux\"", true),
    ("feature=\"portable\"", false),
];
const NO_TEST: Facts = &[("test", false)];
const NO_LOOM: Facts = &[("test", false), ("loom", false)];

/// The files of a crate under `src/`, by their path relative to the crate.
pub(crate) type Crate = BTreeMap<String, Source>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Site {
    pub(crate) file: String,
    pub(crate) function: String,
    /// The position among the orderings of the function, counted from 1.
    pub(crate) nth: usize,
    pub(crate) ordering: String,
    /// Where `Ordering::X` starts in the file.
    pub(crate) offset: usize,
    /// Whether the loom models compile it.
    pub(crate) in_loom: bool,
}

impl Site {
    pub(crate) fn key(&self) -> String {
        format!("{}  {}  {}  {}", self.file, self.function, self.nth, self.ordering)
    }
}

pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let root = workspace.root.join(SYNC);
    let sites = sites(&load(&root)?);
    let list = root.join(LIST);
    let list = if list.is_file() { workspace::read(&list)? } else { String::new() };
    Failure::unless_empty("orderings", &compare(&sites, &list))
}

/// Writes the list anew, and keeps the reasons of orderings that still exist.
pub(crate) fn write_list(workspace: &Workspace) -> Result<(), Failure> {
    let root = workspace.root.join(SYNC);
    let sites = sites(&load(&root)?);
    let path = root.join(LIST);
    let old = if path.is_file() { workspace::read(&path)? } else { String::new() };
    workspace::write(&path, &rendered(&sites, &old))?;
    println!("{} orderings written to {SYNC}{LIST}; replace each `{UNEXPLAINED}` with a reason", sites.len());
    Ok(())
}

pub(crate) fn load(root: &Path) -> Result<Crate, Failure> {
    let mut files = Crate::new();
    let mut open = vec![root.join("src")];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder)
            .map_err(|error| Failure(format!("cannot list {}: {error}", folder.display())))?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                files.insert(name, Source::new(&workspace::read(&path)?));
            }
        }
    }
    Ok(files)
}

/// Every synchronizing ordering of the production code, in the order of the files.
pub(crate) fn sites(files: &Crate) -> Vec<Site> {
    let (tests, models, not_in_loom) = (Cut::new(files, NO_TEST), Cut::new(files, NO_LOOM), Cut::new(files, LOOM));
    let mut found: Vec<Site> = Vec::new();
    for (file, source) in files {
        let functions = scopes::items(source).functions;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for offset in ordering_offsets(source) {
            // Code for loom only is a model of the machine, not a part of the product.
            if tests.contains(file, offset) || models.contains(file, offset) {
                continue;
            }
            let function = scopes::enclosing(&functions, offset);
            let nth = counts.entry(function).or_default();
            *nth += 1;
            let ordering = source.words().find(|&(at, _)| at > offset + "Ordering".len()).map_or("", |(_, word)| word);
            found.push(Site {
                file: file.clone(),
                function: function.to_owned(),
                nth: *nth,
                ordering: ordering.to_owned(),
                offset,
                in_loom: !not_in_loom.contains(file, offset),
            });
        }
    }
    found
}

/// Whether an offset lies outside of the given parts.
pub(crate) fn is_production(inactive: &[Inactive], offset: usize) -> bool {
    !inactive.iter().any(|part| part.span.contains(&offset))
}

fn ordering_offsets(source: &Source) -> Vec<usize> {
    let code = source.code();
    let synchronizes = |rest: &str| {
        let name = rest.trim_start().strip_prefix("::").map(str::trim_start).unwrap_or("");
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        NAMES.contains(&&name[..end])
    };
    let words = source.words().filter(|&(_, word)| word == "Ordering");
    words.map(|(offset, _)| offset).filter(|offset| synchronizes(&code[offset + "Ordering".len()..])).collect()
}

/// What the facts compile out of a crate: parts of files, and the files of modules declared in such parts.
struct Cut {
    parts: BTreeMap<String, Vec<Inactive>>,
    /// A file (`src/a.rs`) or a folder with its slash (`src/a/`).
    files: Vec<String>,
}

impl Cut {
    fn new(files: &Crate, facts: Facts) -> Cut {
        let mut cut = Cut { parts: BTreeMap::new(), files: Vec::new() };
        for (file, source) in files {
            let parts = scopes::inactive(source, facts);
            for (name, path) in parts.iter().filter_map(|part| part.module.as_ref()) {
                cut.files.extend(module_files(file, name, path.as_deref()));
            }
            cut.parts.insert(file.clone(), parts);
        }
        cut
    }

    fn contains(&self, file: &str, offset: usize) -> bool {
        let whole = self.files.iter().any(|cut| if cut.ends_with('/') { file.starts_with(cut) } else { file == cut });
        whole || !is_production(&self.parts[file], offset)
    }
}

/// The possible places of `mod name;` in `file`, and the folder of that module's modules.
fn module_files(file: &str, name: &str, path: Option<&str>) -> [String; 2] {
    let (folder, stem) = file.rsplit_once('/').unwrap_or(("", file));
    if let Some(path) = path {
        return [format!("{folder}/{path}"), format!("{folder}/{}/", path.trim_end_matches(".rs"))];
    }
    let folder = match stem {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        stem => format!("{folder}/{}", stem.trim_end_matches(".rs")),
    };
    [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]
}

/// The differences between the sites and the list.
pub(crate) fn compare(sites: &[Site], list: &str) -> Vec<String> {
    let mut reasons = reasons(list);
    let mut problems = Vec::new();
    for site in sites {
        let key = site.key();
        match reasons.remove(&key).as_deref() {
            None => problems.push(format!("{key}: not in the list\n    hint: cargo xtask mutants --write-list")),
            Some("" | UNEXPLAINED) => problems.push(format!("{key}: the list gives no reason")),
            Some(why) => problems.extend(misplaced(site, why).map(|what| format!("{key}: {what}"))),
        }
    }
    problems.extend(reasons.into_keys().map(|key| format!("{key}: in the list, but not in the source")));
    problems
}

fn misplaced(site: &Site, why: &str) -> Option<&'static str> {
    match (site.in_loom, why.strip_prefix(NOT_IN_LOOM)) {
        (true, Some(_)) => Some("loom compiles it, so a model must test it"),
        (false, None) => Some("loom does not compile it: the reason must be `not-in-loom: ` and an argument"),
        (false, Some(argument)) if argument.trim().is_empty() => Some("not-in-loom needs an argument"),
        _ => None,
    }
}

/// The reasons of a list by the keys of their sites.
fn reasons(list: &str) -> BTreeMap<String, String> {
    let lines = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (key, why) = words.split_at(words.len().min(4));
            (key.join("  "), why.join(" "))
        })
        .collect()
}

fn rendered(sites: &[Site], old: &str) -> String {
    let reasons = reasons(old);
    let width = |of: fn(&Site) -> usize| sites.iter().map(of).max().unwrap_or(0);
    let (files, functions) = (width(|site| site.file.len()), width(|site| site.function.len()));
    let mut text = String::from(
        "# Every synchronizing memory ordering of this crate: file, function, place in the function, ordering, why.\n\
         # `cargo xtask orderings` compares this list with the source, `cargo xtask mutants` weakens each line in turn.\n",
    );
    for site in sites {
        let placeholder = if site.in_loom { UNEXPLAINED.to_owned() } else { NOT_IN_LOOM.to_owned() };
        let why = reasons.get(&site.key()).cloned().unwrap_or(placeholder);
        let Site { file, function, nth, ordering, .. } = site;
        text.push_str(&format!("{file:files$}  {function:functions$}  {nth:2}  {ordering:7}  {why}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_tree(files: &[(&str, &str)]) -> Crate {
        files.iter().map(|(path, text)| ((*path).to_owned(), Source::new(text))).collect()
    }

    const GATE: &str = "impl Gate {
        fn close(&self) { self.word.fetch_sub(1, Ordering::AcqRel); while self.word.load(atomic::Ordering::Acquire) > 0 {} }
        fn peek(&self) { self.word.load(Ordering::Relaxed); a.cmp(&b) == Ordering::Less }
    }
    #[cfg(test)]
    mod tests { fn f() { a.load(Ordering::SeqCst); } }";

    fn keys(files: &[(&str, &str)]) -> Vec<String> {
        sites(&source_tree(files)).iter().map(|site| format!("{} {}", site.key(), site.in_loom)).collect()
    }

    #[test]
    fn sites_are_counted_by_function() {
        let expected = ["src/gate.rs  Gate::close  1  AcqRel true", "src/gate.rs  Gate::close  2  Acquire true"];
        assert_eq!(keys(&[("src/gate.rs", GATE)]), expected);
        assert!(keys(&[("src/gate.rs", "// Ordering::Acquire\nfn f() {}")]).is_empty());
    }

    #[test]
    fn modules_without_loom_are_known_and_models_left_out() {
        let lib = "#[cfg(not(loom))]\nmod futex;\n#[cfg(loom)] mod fake;\n#[cfg(all(loom, not(loom)))] #[path = \"odd.rs\"] mod x;";
        let body = "fn f() { a.load(Ordering::Acquire) }";
        let files = [("src/lib.rs", lib), ("src/futex.rs", body), ("src/futex/deep.rs", body), ("src/fake.rs", body)];
        assert_eq!(keys(&files), ["src/futex.rs  f  1  Acquire false", "src/futex/deep.rs  f  1  Acquire false"]);
        assert_eq!(module_files("src/a/b.rs", "c", None), ["src/a/b/c.rs", "src/a/b/c/"]);
        assert_eq!(module_files("src/a/mod.rs", "c", None), ["src/a/c.rs", "src/a/c/"]);
        assert_eq!(module_files("src/lib.rs", "x", Some("odd.rs")), ["src/odd.rs", "src/odd/"]);
        let portable = "#[cfg(feature = \"portable\")]\nfn f() { a.load(Ordering::Acquire) }";
        assert_eq!(keys(&[("src/lib.rs", portable)]), ["src/lib.rs  f  1  Acquire false"]);
    }

    #[test]
    fn the_list_must_equal_the_source() {
        let sites = sites(&source_tree(&[("src/gate.rs", GATE)]));
        let good = "# head\nsrc/gate.rs  Gate::close  1  AcqRel  frees the slots\nsrc/gate.rs Gate::close 2 Acquire sees the items\n";
        assert!(compare(&sites, good).is_empty());
        let differences = |list: &str| compare(&sites, list).join("; ");
        assert!(differences("").contains("Gate::close  1  AcqRel: not in the list"));
        assert!(
            differences(&good.replace("AcqRel", "Release")).contains("1  Release: in the list, but not in the source")
        );
        assert!(differences(&good.replace("sees the items", "?")).contains("2  Acquire: the list gives no reason"));
        assert!(differences(&good.replace("sees", "not-in-loom: sees")).contains("a model must test it"));
        assert!(compare(&[], "").is_empty());
    }

    #[test]
    fn a_site_without_loom_needs_an_argument() {
        let sites = sites(&source_tree(&[("src/a.rs", "#[cfg(not(loom))]\nfn f() { a.load(Ordering::Acquire) }")]));
        assert!(compare(&sites, "src/a.rs f 1 Acquire not-in-loom: the kernel orders it").is_empty());
        assert!(compare(&sites, "src/a.rs f 1 Acquire the kernel orders it")[0].contains("must be `not-in-loom: `"));
        assert!(compare(&sites, "src/a.rs f 1 Acquire not-in-loom:")[0].contains("needs an argument"));
    }

    #[test]
    fn writing_the_list_keeps_its_reasons() {
        let sites = sites(&source_tree(&[("src/gate.rs", GATE)]));
        let list = rendered(&sites, "src/gate.rs Gate::close 2 Acquire sees the items\nsrc/old.rs f 1 Acquire gone");
        assert!(list.contains("Gate::close   1  AcqRel   ?\n"), "{list}");
        assert!(list.contains("Gate::close   2  Acquire  sees the items\n"), "{list}");
        assert!(!list.contains("old.rs"));
        assert_eq!(compare(&sites, &list).len(), 1);
    }
}

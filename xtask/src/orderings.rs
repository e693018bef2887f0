//! The memory orderings of windrow-sync and the list that names each of them: `crates/windrow-sync/orderings.txt`.
//!
//! A line of the list is `src/file.rs  function  n  Ordering  why`: the n-th ordering of that function, counted from 1. The list makes a
//! new, lost or changed ordering visible in review, and gives each a reason.

use std::collections::BTreeMap;

use anyhow::Result;
use windrow_sources::{Crate, Ordering, Source};

use crate::workspace::SYNC;
use crate::workspace::{self, Workspace};

/// Orderings that synchronize: these are listed, explained and weakened.
pub(crate) const NAMES: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

const LIST: &str = "orderings.txt";
const UNEXPLAINED: &str = "?";
/// Starts the reason of an ordering that the loom models cannot reach.
const NOT_IN_LOOM: &str = "not-in-loom:";

/// A synchronizing ordering of the production code.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) found: Ordering,
    /// The position among the orderings of the function, counted from 1.
    pub(crate) nth: usize,
}

impl Site {
    pub(crate) fn key(&self) -> String {
        format!("{}  {}  {}  {}", self.found.file, self.found.function, self.nth, self.found.name)
    }
}

/// Compares the list with the source; with `write`, makes it anew and keeps the reasons of orderings that still exist.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let path = workspace.root.join(SYNC).join(LIST);
    let sites = sites(&Source::load(&workspace.root.join(SYNC))?);
    let list = if path.is_file() { workspace::read(&path)? } else { String::new() };
    if !write {
        return workspace::unless_empty("orderings", &compare(&sites, &list));
    }
    workspace::write(&path, &rendered(&sites, &list))?;
    println!("{} orderings written to {SYNC}{LIST}; replace each `{UNEXPLAINED}` with a reason", sites.len());
    Ok(())
}

/// Every synchronizing ordering of the production code, in the order of the files. Code for loom only is a model of the machine, not a part
/// of the product.
pub(crate) fn sites(files: &Crate) -> Vec<Site> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let is_listed = |it: &Ordering| NAMES.contains(&it.name.as_str()) && !it.in_test && !it.in_model;
    let number = |found: Ordering| {
        let nth = counts.entry((found.file.clone(), found.function.clone())).or_default();
        *nth += 1;
        Site { nth: *nth, found }
    };
    windrow_sources::orderings(files).into_iter().filter(is_listed).map(number).collect()
}

/// The differences between the sites and the list.
fn compare(sites: &[Site], list: &str) -> Vec<String> {
    let (mut reasons, mut problems) = (reasons(list), Vec::new());
    for site in sites {
        let key = site.key();
        let why = reasons.remove(&key);
        let problem = match (why.as_deref(), why.as_deref().and_then(|why| why.strip_prefix(NOT_IN_LOOM))) {
            (None, _) => "not in the list\n    hint: cargo xtask mutants --write-list",
            (Some("" | UNEXPLAINED), _) => "the list gives no reason",
            (_, Some(_)) if site.found.in_loom => "loom compiles it, so a model must test it",
            (_, None) if !site.found.in_loom => {
                "loom does not compile it: the reason must be `not-in-loom: ` and an argument"
            }
            (_, Some(argument)) if argument.trim().is_empty() => "not-in-loom needs an argument",
            _ => continue,
        };
        problems.push(format!("{key}: {problem}"));
    }
    problems.extend(reasons.into_keys().map(|key| format!("{key}: in the list, but not in the source")));
    problems
}

/// The reasons of a list by the keys of their sites.
fn reasons(list: &str) -> BTreeMap<String, String> {
    let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let parts = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (key, why) = words.split_at(words.len().min(4));
        (key.join("  "), why.join(" "))
    });
    parts.collect()
}

fn rendered(sites: &[Site], old: &str) -> String {
    let reasons = reasons(old);
    let width = |of: fn(&Site) -> usize| sites.iter().map(of).max().unwrap_or(0);
    let (files, functions) = (width(|site| site.found.file.len()), width(|site| site.found.function.len()));
    let mut text = String::from(
        "# Every synchronizing memory ordering of this crate: file, function, place in the function, ordering, why.\n\
         # `cargo xtask orderings` compares this list with the source, `cargo xtask mutants` weakens each line in turn.\n",
    );
    for site in sites {
        let Ordering { file, function, name, in_loom, .. } = &site.found;
        let placeholder = if *in_loom { UNEXPLAINED } else { NOT_IN_LOOM };
        let why = reasons.get(&site.key()).map_or(placeholder, String::as_str);
        text.push_str(&format!("{file:files$}  {function:functions$}  {:2}  {name:7}  {why}\n", site.nth));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_tree(files: &[(&str, &str)]) -> Crate {
        let modules: String = files
            .iter()
            .filter_map(|(path, _)| path.strip_prefix("src/")?.strip_suffix(".rs"))
            .map(|it| format!("mod {it};"))
            .collect();
        let root = ("src/lib.rs", modules.as_str());
        let files = std::iter::once(&root).chain(files);
        files.map(|(path, text)| ((*path).to_owned(), Source::new(text).unwrap())).collect()
    }

    const GATE: &str = "impl Gate {
        fn close(&self) { self.word.fetch_sub(1, Ordering::AcqRel); while self.word.load(atomic::Ordering::Acquire) > 0 {} }
        fn peek(&self) { self.word.load(Ordering::Relaxed); a.cmp(&b) == Ordering::Less }
    }
    #[cfg(test)]
    mod tests { fn f() { a.load(Ordering::SeqCst); } }";

    fn keys(files: &[(&str, &str)]) -> Vec<String> {
        sites(&source_tree(files)).iter().map(|site| format!("{} {}", site.key(), site.found.in_loom)).collect()
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
        let futex = format!("mod deep; {body}");
        let files = [("src/lib.rs", lib), ("src/futex.rs", &futex), ("src/futex/deep.rs", body), ("src/fake.rs", body)];
        assert_eq!(keys(&files), ["src/futex.rs  f  1  Acquire false", "src/futex/deep.rs  f  1  Acquire false"]);
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

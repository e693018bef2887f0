//! What docs/from-rayon.md says of rayon's names and tests: made from the API of windrow (`api/windrow.txt`), rayon's names
//! (`compat/rayon/names.txt`) and the results of rayon's tests (`compat/rayon/results.txt`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use windrow_sources::matches;

use crate::workspace::{self, Workspace};

const FILE: &str = "docs/from-rayon.md";
const BEGIN: &str = "<!-- made by `cargo xtask rayon --write` -->\n";
const END: &str = "<!-- end of what is made -->";

/// Checks that the tables are up to date; with `write`, makes them anew.
pub(crate) fn run(workspace: &Workspace, write: bool) -> Result<()> {
    let page = workspace.read(FILE)?;
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{FILE} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{FILE} has no line {END}"))?;
    let names = |path: &str| workspace.read(&format!("compat/rayon/{path}"));
    let api = format!("{}{}", workspace.read("api/windrow.txt")?, names("src/lib.rs")?);
    let made = format!("{}\n{}", table(&names("names.txt")?, &api, before), tests(&names("results.txt")?));
    let page = format!("{before}{BEGIN}{made}{END}{after}");
    workspace::unless_empty("rayon", &workspace.stale(FILE, &page, "rayon", write)?.into_iter().collect::<Vec<_>>())
}

/// A row for each module and trait of rayon: the names that windrow has too, those of them that `page` describes, and those that are missing.
fn table(names: &str, api: &str, page: &str) -> String {
    let describes =
        |section: &&str| section.starts_with("Same names") || section.starts_with("windrow under rayon's name");
    let described: String = page.split("\n## ").filter(describes).collect();
    let (mut known, mut rows): (Vec<&str>, BTreeMap<&str, [Vec<&str>; 3]>) = Default::default();
    known.extend(matches(r"(?m)^(?:#\[.*?\] )*pub (?:\w+ )+windrow::((?:\w+::)*\w+)", api).iter().map(|it| it.1));
    // What the crate `rayon` takes from elsewhere, or adds.
    known.extend(
        matches(r"\b(\w+)\b", api.split_once("pub use rayon_core").map_or("", |it| it.1)).iter().map(|it| it.1),
    );
    for name in names.lines() {
        let (module, last) = name.rsplit_once("::").unwrap_or(("", name));
        let item = module.rsplit_once("::").map_or(module, |it| it.1);
        let is_trait = item.starts_with(char::is_uppercase);
        let ends = |known: &&str| match known.rsplit_once("::") {
            Some((owner, own)) => {
                own == last && (owner == module || (is_trait && owner.rsplit("::").next() == Some(item)))
            }
            None => *known == last,
        };
        let is_described = || described.contains(&format!("`{last}`"));
        let column = if !known.iter().any(ends) { 2 } else { usize::from(is_described()) };
        rows.entry(module).or_default()[column].push(last);
    }
    let mut text = String::from("| rayon | same | described above | missing |\n|---|---|---|---|\n");
    for (module, columns) in rows {
        let listed = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let [same, described, missing] = columns.map(listed);
        let _ = writeln!(
            text,
            "| `rayon{}{module}` | {same} | {described} | {missing} |",
            if module.is_empty() { "" } else { "::" }
        );
    }
    text
}

/// A row for each file of rayon's tests.
fn tests(results: &str) -> String {
    let mut files: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for line in results.lines().filter(|line| !line.starts_with('#') && !line.ends_with("| ignored")) {
        let (name, result) = line.split_once(" | ").unwrap_or((line, ""));
        let counts = files.entry(name.split("::").next().unwrap_or(name)).or_default();
        counts[0] += 1;
        counts[1] += usize::from(!result.starts_with("cut"));
        counts[2] += usize::from(result == "passed");
    }
    let all = files.values().fold([0; 3], |sum, counts| [0, 1, 2].map(|at| sum[at] + counts[at]));
    let mut text = String::from("| rayon's tests, by rename | functions | compile | pass |\n|---|--:|--:|--:|\n");
    for (file, [functions, compile, pass]) in files.into_iter().chain([("all", all)]) {
        let _ = writeln!(text, "| `{file}` | {functions} | {compile} | {pass} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_described_or_missing() {
        let api = "pub trait windrow::iter::ParallelIterator\n#[must_use] pub fn windrow::iter::ParallelIterator::map<F>()\n\
                   pub fn windrow::ParallelIterator::skip(self)\npub fn windrow::iter::once()\npub use rayon_core::{join};\n#[allow(deprecated)]\npub use rayon_core::{initialize};";
        let names = "iter::ParallelIterator\niter::ParallelIterator::map\niter::ParallelIterator::skip\niter::split\njoin\ninitialize\n";
        let page = "x\n## Same names, different behaviour\n| `skip` | y |\n## Other names\n`once`\n## windrow under rayon's name\n`join`\n";
        let table = table(names, api, page);
        for row in [
            "| `rayon` | `initialize` | `join` |  |",
            "| `rayon::iter` | `ParallelIterator` |  | `split` |",
            "| `map` | `skip` |  |",
        ] {
            assert!(table.contains(row), "{row}\n{table}");
        }
    }

    #[test]
    fn results_are_counted() {
        let text = tests("# head\na::x | passed\na::y | cut: E1\nb::z | failed: no\nb::i | ignored\n");
        assert!(text.ends_with("| `a` | 2 | 1 | 1 |\n| `b` | 1 | 1 | 0 |\n| `all` | 3 | 2 | 1 |\n"), "{text}");
    }
}

//! Unsafe code is in one crate only, explained at each place, and counted in that crate's README.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{RustFile, SYNC};
use crate::scopes;

pub(super) fn check(files: &[RustFile], roots: &[String], readme: Option<&str>) -> Vec<String> {
    let mut problems = Vec::new();
    for root in roots.iter().filter(|root| !root.starts_with(SYNC)) {
        let forbids =
            files.iter().any(|file| file.path == *root && file.source.code().contains("#![forbid(unsafe_code)]"));
        if !forbids {
            problems.push(format!("{root} lacks #![forbid(unsafe_code)]"));
        }
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        let trait_impls = scopes::items(&file.source).trait_impls;
        if file.path.strip_prefix(SYNC).is_some_and(|path| path.starts_with("src/")) {
            problems.extend(printed(file));
        }
        for (offset, _) in file.source.words().filter(|&(_, word)| word == "unsafe") {
            match file.path.strip_prefix(SYNC) {
                None => problems.push(format!("{}: unsafe code outside of windrow-sync", file.place(offset))),
                Some(name) => {
                    *counts.entry(name).or_default() += 1;
                    problems.extend(unexplained(file, offset, &trait_impls));
                }
            }
        }
    }
    let listed = readme.map(table).unwrap_or_default();
    let counted: BTreeMap<String, usize> = counts.iter().map(|(&file, &count)| (file.to_owned(), count)).collect();
    if listed != counted {
        problems.push(difference(&listed, &counted));
    }
    problems
}

/// Types that derive `Debug` over memory that may be uninitialized: a derived `Debug` reads every field, even if the type's state says that
/// the field is empty.
fn printed(file: &RustFile) -> Vec<String> {
    let code = file.source.code();
    let derives = code.match_indices("#[derive(").filter_map(|(at, _)| {
        let (derived, item) = code[at..].split_once(")]")?;
        let body = &item[..item.find(['{', ';']).map_or(item.len(), |open| match item.as_bytes()[open] {
            b'{' => item.find("\n}").unwrap_or(item.len()),
            _ => open,
        })];
        let cell = ["MaybeUninit", "ManuallyDrop"].into_iter().find(|cell| body.contains(cell))?;
        derived.contains("Debug").then(|| {
            let place = file.place(at);
            format!("{place}: derive(Debug) beside {cell}\n    hint: write it by hand, without what may hold nothing")
        })
    });
    derives.collect()
}

fn unexplained(file: &RustFile, offset: usize, trait_impls: &[Range<usize>]) -> Option<String> {
    let rest = file.source.code()[offset + "unsafe".len()..].trim_start();
    let function = rest.strip_prefix("fn").filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
    let wanted = match function {
        // `unsafe fn(..)` is the type of a pointer; its contract is at the function.
        Some(rest) if rest.trim_start().starts_with('(') => return None,
        // The contract of a trait's method is in the trait.
        Some(_) if trait_impls.iter().any(|span| span.contains(&offset)) => return None,
        Some(_) => "# Safety",
        None if rest.starts_with("trait") || rest.starts_with("extern") => "# Safety",
        None => "SAFETY:",
    };
    let explained = file.source.comments_about(offset).contains(wanted);
    (!explained).then(|| format!("{}: unsafe without a `{wanted}` comment", file.place(offset)))
}

/// The rows `| file | unsafe | why |` of a README, where the second cell is a number.
fn table(readme: &str) -> BTreeMap<String, usize> {
    let rows = readme.lines().filter_map(|line| {
        let mut cells = line.trim().strip_prefix('|')?.split('|').map(str::trim);
        let (file, count) = (cells.next()?, cells.next()?);
        Some((file.trim_matches('`').to_owned(), count.parse().ok()?))
    });
    rows.collect()
}

fn difference(listed: &BTreeMap<String, usize>, counted: &BTreeMap<String, usize>) -> String {
    let mut text = format!("{SYNC}README.md must list all unsafe code");
    for (file, count) in counted {
        match listed.get(file) {
            Some(said) if said == count => {}
            Some(said) => text.push_str(&format!("\n    {file}: the table says {said}, the file has {count}")),
            None => text.push_str(&format!("\n    {file}: not in the table, the file has {count}")),
        }
    }
    for file in listed.keys().filter(|file| !counted.contains_key(*file)) {
        text.push_str(&format!("\n    {file}: in the table, but without unsafe code"));
    }
    text.push_str("\n    hint: the table it expects is\n      | file | unsafe | why |\n      | --- | --- | --- |");
    for (file, count) in counted {
        text.push_str(&format!("\n      | `{file}` | {count} | ... |"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# x\n\n| file | unsafe | why |\n|---|---|---|\n| `src/a.rs` | 1 | slots |\n";

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[RustFile::new(path, text)], &[], Some(README))
    }

    #[test]
    fn explained_and_counted_code_passes() {
        let path = "crates/windrow-sync/src/a.rs";
        assert!(problems(path, "fn f() {\n// SAFETY: mine.\nlet x =\n  unsafe { g() };\n}").is_empty());
        assert!(
            problems(path, "/// Does.\n///\n/// # Safety\n///\n/// Own it.\n#[inline]\nunsafe fn f() {}").is_empty()
        );
        assert!(problems(path, "// SAFETY: moves.\nunsafe impl Send for A {}").is_empty());
        assert!(problems(path, "struct J { run: unsafe fn(*const ()) }").is_empty());
        assert!(problems(path, "impl Divide for A { unsafe fn start(&mut self) {} }").is_empty());
    }

    #[test]
    fn unexplained_code_is_named() {
        let path = "crates/windrow-sync/src/a.rs";
        for text in [
            "unsafe impl Send for A {}",
            "/// # Safety\nfn f() { unsafe { g() } }",
            "// SAFETY: x\nunsafe fn f() {}",
            "// SAFETY: of another.\na();\nunsafe { g() }",
        ] {
            let found = problems(path, text);
            assert!(found.len() == 1 && found[0].contains("unsafe without"), "{text}: {found:?}");
        }
    }

    #[test]
    fn memory_of_doubtful_state_is_not_printed() {
        let found = |text| printed(&RustFile::new("crates/windrow-sync/src/a.rs", text));
        for text in [
            "#[derive(Debug)]\npub struct A<T> {\n    a: Vec<MaybeUninit<T>>,\n}",
            "#[derive(Clone, Debug)]\nstruct A<T>(ManuallyDrop<T>);",
        ] {
            let found = found(text);
            assert!(found.len() == 1 && found[0].contains(":1: derive(Debug) beside"), "{text}: {found:?}");
        }
        for text in [
            "#[derive(Clone)]\nstruct A<T>(ManuallyDrop<T>);",
            "#[derive(Debug)]\nstruct A;\nstruct B<T>(MaybeUninit<T>);",
            "#[derive(Debug)]\nstruct A {\n    a: u8,\n}\nstruct B<T>(MaybeUninit<T>);",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_table_must_agree() {
        let path = "crates/windrow-sync/src/a.rs";
        let none = problems(path, "fn f() {}");
        assert!(none[0].contains("src/a.rs: in the table, but without"), "{none:?}");
        let file = RustFile::new(path, "// SAFETY: x\nunsafe impl A {}\n// SAFETY: y\nunsafe impl B {}");
        let two = check(&[file], &[], Some(README));
        assert!(
            two[0].contains("the table says 1, the file has 2") && two[0].contains("| `src/a.rs` | 2 | ... |"),
            "{two:?}"
        );
        let absent = check(&[RustFile::new(path, "// SAFETY: x\nunsafe impl A {}")], &[], None);
        assert!(absent[0].contains("not in the table"), "{absent:?}");
        assert!(check(&[RustFile::new(path, "")], &[], None).is_empty());
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let plan = "crates/windrow-plan/src/lib.rs";
        let file = |text| [RustFile::new(plan, text)];
        let roots = [plan.to_owned()];
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\";";
        assert!(check(&file(text), &roots, None).is_empty());
        assert_eq!(
            check(&file("// #![forbid(unsafe_code)]"), &roots, None),
            [format!("{plan} lacks #![forbid(unsafe_code)]")]
        );
        let leaked = check(&file("#![forbid(unsafe_code)]\n// SAFETY: x\nunsafe impl A {}"), &roots, None);
        assert_eq!(leaked, [format!("{plan}:3: unsafe code outside of windrow-sync")]);
    }
}

//! Unsafe code is in one crate and one file of each of two others only, explained at each place, and counted in the README of its crate.
//!
//! The compiler forbids it elsewhere, and clippy demands its comments, but in the code that it sees: the loom models are not part of that.

use std::collections::BTreeMap;

use windrow_sources::matches;

use super::{RustFile, SYNC};

/// The folders of the crates that may have unsafe code: in all files, or in the one that is named.
pub(super) const PLACES: [(&str, Option<&str>); 3] =
    [(SYNC, None), ("crates/windrow-bpe/", Some("src/simd.rs")), ("crates/windrow-product/", Some("src/kernel.rs"))];

/// The number of a place that may have unsafe code, and the path within its crate.
fn place_of(path: &str) -> Option<(usize, &str)> {
    PLACES.iter().enumerate().find_map(|(number, (folder, only))| {
        let path = path.strip_prefix(folder)?;
        only.is_none_or(|only| only == path).then_some((number, path))
    })
}

/// `readmes` are those of [`PLACES`].
pub(super) fn check(files: &[RustFile], readmes: [&str; PLACES.len()]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut counts: [BTreeMap<&str, usize>; PLACES.len()] = Default::default();
    for file in files {
        for (at, next) in matches(r"\bunsafe\b\s*(\w*)", &file.source.code) {
            let Some((number, name)) = place_of(&file.path) else {
                let places = "windrow-sync, windrow-bpe's simd.rs and windrow-product's kernel.rs";
                problems.push(format!("{}: unsafe code outside of {places}", file.place(at)));
                continue;
            };
            *counts[number].entry(name).or_default() += 1;
            // What a function, a trait or an external block requires is documented; clippy checks that.
            let is_block = !["fn", "trait", "extern"].contains(&next);
            if is_block && !file.source.comments_about(at).contains("SAFETY:") {
                problems.push(format!("{}: unsafe without a `SAFETY:` comment", file.place(at)));
            }
        }
    }
    for ((folder, _), (readme, counts)) in PLACES.iter().zip(readmes.iter().zip(&counts)) {
        problems.extend(differences(readme, counts).map(|problem| format!("{folder}README.md: {problem}")));
    }
    problems
}

/// Where the table of a README does not have these counts of its crate's files.
fn differences(readme: &str, counts: &BTreeMap<&str, usize>) -> impl Iterator<Item = String> {
    let rows = matches(r"(?m)^\| `(\S+` \| \d+) \|", readme);
    let listed: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let counted: Vec<String> = counts.iter().map(|(file, count)| format!("{file}` | {count}")).collect();
    let wrong =
        listed.iter().filter(|row| !counted.iter().any(|counted| counted == *row)).map(|row| ("is wrong", *row));
    let absent = counted.iter().filter(|row| !listed.contains(&row.as_str())).map(|row| ("is missing", row.as_str()));
    let problems: Vec<String> = wrong.chain(absent).map(|(what, row)| format!("| `{row} | {what}")).collect();
    problems.into_iter()
}

/// Types that derive `Debug` over memory that may be uninitialized: a derived `Debug` reads every field, even if the type's state says that
/// the field is empty.
pub(super) fn printed(file: &RustFile) -> Vec<String> {
    let derived = r"(?s)#\[derive\([^)]*\bDebug\b[^)]*\)\]([^;{]*(?:;|\{.*?\n\}))";
    let types = matches(derived, &file.source.code).into_iter().filter(|_| file.in_sync().is_some());
    let problem = |(at, body): (usize, &str)| {
        let cell = ["MaybeUninit", "ManuallyDrop"].into_iter().find(|cell| body.contains(cell))?;
        let hint = "hint: write it by hand, without what may hold nothing";
        Some(format!("{}: derive(Debug) beside {cell}\n    {hint}", file.place(at)))
    };
    types.filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/windrow-sync/src/a.rs";
    const README: &str = "# x\n\n| file | unsafe | why |\n|---|---|---|\n| `src/a.rs` | 1 | slots |\n";

    fn problems(text: &str) -> Vec<String> {
        check(&[RustFile::new(PATH, text)], [README, "", ""])
    }

    #[test]
    fn explained_and_counted_code_passes() {
        for text in [
            "fn f() {\n// SAFETY: mine.\nlet x =\n  unsafe { g() };\n}",
            "/// # Safety\n///\n/// Own it.\n#[inline]\nunsafe fn f() {}",
            "// SAFETY: moves.\nunsafe impl Send for A {}",
            "struct J { run: unsafe fn(*const ()) }",
        ] {
            assert_eq!(problems(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn unexplained_code_is_named() {
        for text in [
            "unsafe impl Send for A {}",
            "/// # Safety\nfn f() { unsafe { g() } }",
            "// SAFETY: of another.\na();\nunsafe { g() }",
            "macro_rules! m { () => { unsafe { g() } } }",
        ] {
            let found = problems(text);
            assert!(found.len() == 1 && found[0].contains("unsafe without"), "{text}: {found:?}");
        }
    }

    #[test]
    fn memory_of_doubtful_state_is_not_printed() {
        let found = |text| printed(&RustFile::new(PATH, text));
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
        let row = |row: &str, what: &str| format!("crates/windrow-sync/README.md: | `src/a.rs` | {row} | {what}");
        assert_eq!(problems("fn f() {}"), [row("1", "is wrong")]);
        let two = "// SAFETY: x\nunsafe impl A for B {}\n// SAFETY: y\nunsafe impl B for B {}";
        assert_eq!(problems(two), [row("1", "is wrong"), row("2", "is missing")]);
        assert_eq!(check(&[RustFile::new(PATH, two)], ["", "", ""]), [row("2", "is missing")]);
        assert_eq!(check(&[RustFile::new(PATH, "")], ["", "", ""]), Vec::<String>::new());
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let file = |text| [RustFile::new("crates/windrow-plan/src/lib.rs", text)];
        let harmless = "//! unsafe\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\";";
        assert!(check(&file(harmless), ["", "", ""]).is_empty());
        let leaked = check(&file("// SAFETY: x\nunsafe impl A for B {}"), ["", "", ""]);
        let place = "crates/windrow-plan/src/lib.rs:2: unsafe code outside of windrow-sync, ";
        assert!(leaked.len() == 1 && leaked[0].starts_with(place), "{leaked:?}");
    }

    #[test]
    fn the_file_of_each_crate_is_another() {
        let found = |path: &str| check(&[RustFile::new(path, "// SAFETY: x\nunsafe impl A for B {}")], ["", "", ""]);
        let kernel = found("crates/windrow-product/src/kernel.rs");
        assert_eq!(kernel, ["crates/windrow-product/README.md: | `src/kernel.rs` | 1 | is missing"]);
        for path in ["crates/windrow-product/src/simd.rs", "crates/windrow-bpe/src/kernel.rs"] {
            assert!(found(path)[0].contains(":2: unsafe code outside of"), "{path}");
        }
    }

    #[test]
    fn one_file_of_the_other_crate_may_have_it() {
        let found = |path: &str, text: &str, readme: &str| check(&[RustFile::new(path, text)], ["", readme, ""]);
        let (simd, explained) = ("crates/windrow-bpe/src/simd.rs", "// SAFETY: x\nunsafe impl A for B {}");
        let table = README.replace("a.rs", "simd.rs");
        assert_eq!(found(simd, explained, &table), Vec::<String>::new());
        assert_eq!(found(simd, explained, ""), ["crates/windrow-bpe/README.md: | `src/simd.rs` | 1 | is missing"]);
        assert_eq!(found(simd, "", &table), ["crates/windrow-bpe/README.md: | `src/simd.rs` | 1 | is wrong"]);
        let bare = found(simd, "unsafe impl A for B {}", &table);
        assert!(bare.len() == 1 && bare[0].ends_with("simd.rs:1: unsafe without a `SAFETY:` comment"), "{bare:?}");
        for path in ["src/scan.rs", "tests/simd.rs", "src/deep/src/simd.rs", "src/simd.rs/a.rs"] {
            let leaked = found(&format!("crates/windrow-bpe/{path}"), explained, "");
            assert!(leaked.len() == 1 && leaked[0].contains(":2: unsafe code outside of"), "{path}: {leaked:?}");
        }
        // The counts of one crate do not stand for those of the other.
        let sync = check(&[RustFile::new(simd, explained)], [&table, "", ""]);
        assert_eq!(sync.len(), 2, "{sync:?}");
    }
}

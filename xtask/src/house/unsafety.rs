//! Unsafe code is in one crate only, explained at each place, and counted in that crate's README.
//!
//! The compiler forbids it elsewhere, and clippy demands its comments, but in the code that it sees: the loom models are not part of that.

use std::collections::BTreeMap;

use windrow_sources::matches;

use super::{RustFile, SYNC};

pub(super) fn check(files: &[RustFile], readme: &str) -> Vec<String> {
    let (mut problems, mut counts): (Vec<String>, BTreeMap<&str, usize>) = Default::default();
    for file in files {
        for (at, next) in matches(r"\bunsafe\b\s*(\w*)", &file.source.code) {
            let Some(name) = file.in_sync() else {
                problems.push(format!("{}: unsafe code outside of windrow-sync", file.place(at)));
                continue;
            };
            *counts.entry(name).or_default() += 1;
            // What a function, a trait or an external block requires is documented; clippy checks that.
            let is_block = !["fn", "trait", "extern"].contains(&next);
            if is_block && !file.source.comments_about(at).contains("SAFETY:") {
                problems.push(format!("{}: unsafe without a `SAFETY:` comment", file.place(at)));
            }
        }
    }
    let rows = matches(r"(?m)^\| `(\S+` \| \d+) \|", readme);
    let listed: Vec<&str> = rows.iter().map(|row| row.1).collect();
    let counted: Vec<String> = counts.iter().map(|(file, count)| format!("{file}` | {count}")).collect();
    let wrong =
        listed.iter().filter(|row| !counted.iter().any(|counted| counted == *row)).map(|row| ("is wrong", *row));
    let absent = counted.iter().filter(|row| !listed.contains(&row.as_str())).map(|row| ("is missing", row.as_str()));
    problems.extend(wrong.chain(absent).map(|(what, row)| format!("{SYNC}README.md: | `{row} | {what}")));
    problems
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
        check(&[RustFile::new(PATH, text)], README)
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
        assert_eq!(check(&[RustFile::new(PATH, two)], ""), [row("2", "is missing")]);
        assert_eq!(check(&[RustFile::new(PATH, "")], ""), Vec::<String>::new());
    }

    #[test]
    fn unsafe_stays_in_its_crate() {
        let file = |text| [RustFile::new("crates/windrow-plan/src/lib.rs", text)];
        assert!(check(&file("//! unsafe\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\";"), "").is_empty());
        let leaked = check(&file("// SAFETY: x\nunsafe impl A for B {}"), "");
        assert_eq!(leaked, ["crates/windrow-plan/src/lib.rs:2: unsafe code outside of windrow-sync"]);
    }
}

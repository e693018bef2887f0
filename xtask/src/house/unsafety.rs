//! Unsafe code is in one crate and one file of each of two others only, explained at each place.
//!
//! The compiler forbids it elsewhere, and clippy demands its comments, but in the code that it sees: the loom models are not part of that.

use windrow_sources::matches;

use super::RustFile;
use crate::workspace::SYNC;

/// The folders of the crates that may have unsafe code: in all files, or in the one that is named.
const PLACES: [(&str, Option<&str>); 3] =
    [(SYNC, None), ("crates/windrow-bpe/", Some("src/simd.rs")), ("crates/windrow-product/", Some("src/kernel.rs"))];

fn is_allowed(path: &str) -> bool {
    PLACES
        .iter()
        .any(|(folder, only)| path.strip_prefix(folder).is_some_and(|path| only.is_none_or(|only| only == path)))
}

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (at, next) in matches(r"\bunsafe\b\s*(\w*)", &file.source.code) {
            // What a function, a trait or an external block requires is documented; clippy checks that.
            let is_block = !["fn", "trait", "extern"].contains(&next);
            if !is_allowed(&file.path) {
                let places = "windrow-sync, windrow-bpe's simd.rs and windrow-product's kernel.rs";
                problems.push(format!("{}: unsafe code outside {places}", file.place(at)));
            } else if is_block && !file.source.comments_about(at).contains("SAFETY:") {
                problems.push(format!("{}: unsafe without a `SAFETY:` comment", file.place(at)));
            }
        }
    }
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
    fn problems(text: &str) -> Vec<String> {
        check(&[RustFile::new(PATH, text)])
    }

    #[test]
    fn explained_code_passes() {
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
    fn unsafe_stays_in_its_places() {
        let found = |path: &str, text: &str| check(&[RustFile::new(path, text)]);
        let explained = "// SAFETY: x\nunsafe impl A for B {}";
        let harmless = "//! unsafe\n#![forbid(unsafe_code)]\nconst S: &str = \"unsafe\";";
        assert!(found("crates/windrow-plan/src/lib.rs", harmless).is_empty());
        for path in [PATH, "crates/windrow-bpe/src/simd.rs", "crates/windrow-product/src/kernel.rs"] {
            assert!(found(path, explained).is_empty(), "{path}");
            assert!(found(path, "unsafe impl A for B {}")[0].contains(":1: unsafe without a `SAFETY:`"), "{path}");
        }
        for path in [
            "plan/src/lib.rs",
            "product/src/simd.rs",
            "bpe/src/kernel.rs",
            "bpe/tests/simd.rs",
            "bpe/src/a/src/simd.rs",
        ] {
            let leaked = found(&format!("crates/windrow-{path}"), explained);
            assert!(leaked.len() == 1 && leaked[0].contains(":2: unsafe code outside"), "{path}: {leaked:?}");
        }
    }
}

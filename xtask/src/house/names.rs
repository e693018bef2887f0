//! A public type name is defined once in the workspace.

use std::collections::BTreeMap;

use windrow_sources::matches;

use super::RustFile;

/// Names that still stand for several types. None is added.
const LEFT: &str = "Account Batch BatchError Builder Call Cell Counted Ended Engine Entry Error Failure Fault InputFile \
     Inside Lane Loaded Number Outcome Part Plain Plan Progress Record Recursion Report Shape Site Size \
     Spin Stage Team Tiles Trace Verdict World";

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    let twice = twice(files);
    let left: Vec<&str> = LEFT.split_whitespace().collect();
    let new = twice.iter().filter(|(name, _)| !left.contains(*name));
    let new = new.map(|(name, places)| format!("{name} is defined more than once: {places}"));
    let gone = left.iter().filter(|name| !twice.contains_key(**name));
    let gone = gone.map(|name| format!("{name} is now defined only once: remove it from the list in {}", file!()));
    new.chain(gone).collect()
}

/// Names with several definitions, and their places.
fn twice(files: &[RustFile]) -> BTreeMap<&str, String> {
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_checked(&file.path)) {
        for (at, name) in matches(r"(?m)^pub (?:unsafe )?(?:struct|enum|trait|union|type) (\w+)", &file.source.code) {
            defined.entry(name).or_default().push(file.place(at));
        }
    }
    defined.retain(|_, places| places.len() > 1);
    defined.into_iter().map(|(name, places)| (name, places.join(", "))).collect()
}

/// Sources of libraries and bindings, without tests and the twins that stand in for a feature.
fn is_checked(path: &str) -> bool {
    let is_source = (path.starts_with("crates/") || path.starts_with("bindings/")) && path.contains("/src/");
    is_source && !path.contains("/no_") && !path.contains("/src/bin/") && !path.ends_with("/tests.rs")
}

#[test]
fn a_name_that_is_defined_twice_is_found() {
    let one = RustFile::new("crates/windrow/src/a.rs", "pub struct Walk;\npub(crate) struct Own;\n");
    let other = RustFile::new("crates/windrow-sync/src/b.rs", "pub enum Walk {}\nstruct Own;\n");
    let twin = RustFile::new("crates/windrow/src/no_a.rs", "pub struct Walk;\n");
    let files = [one, other, twin];
    let found: Vec<_> = twice(&files).into_iter().collect();
    assert_eq!(found, [("Walk", "crates/windrow/src/a.rs:1, crates/windrow-sync/src/b.rs:1".to_owned())]);
}

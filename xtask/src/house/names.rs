//! One word has one meaning: a type name is defined once in windrow-plan, windrow-tiling, windrow-sync and windrow together.

use std::collections::BTreeMap;

use super::RustFile;

const CRATES: [&str; 4] =
    ["crates/windrow-plan/src/", "crates/windrow-tiling/src/", "crates/windrow-sync/src/", "crates/windrow/src/"];

/// Alternatives, of which one is compiled.
const TWINS: &str = "crates/windrow-sync/src/primitives/condvar.rs";

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    let mut defined: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files {
        let is_checked = CRATES.iter().any(|folder| file.path.starts_with(folder)) && file.path != TWINS;
        // What a test or an example of what must not compile defines is no word of the house.
        if !is_checked || file.path.ends_with("/tests.rs") || file.path.ends_with("/compile_fail.rs") {
            continue;
        }
        for (at, line) in file.source.code().lines().enumerate() {
            if let Some(name) = defined_by(line) {
                defined.entry(name).or_default().push(format!("{}:{}", file.path, at + 1));
            }
        }
    }
    let twice = defined.into_iter().filter(|(_, places)| places.len() > 1);
    twice.map(|(name, places)| format!("{name} is defined more than once: {}", places.join(", "))).collect()
}

/// The type that an unindented line begins to define.
fn defined_by(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        if rest.starts_with('(') { rest.split_once(')').map_or(rest, |(_, rest)| rest) } else { rest }.trim_start()
    });
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let rest =
        ["struct ", "enum ", "trait ", "union ", "type "].iter().find_map(|keyword| line.strip_prefix(keyword))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_defined_twice_is_found() {
        let file = |path: &str, text: &str| RustFile::new(path, text);
        let one =
            file("crates/windrow/src/a.rs", "pub(crate) struct Walk<'a>(&'a u8);\nimpl X {\n    type Item = u8;\n}\n");
        let other =
            file("crates/windrow-sync/src/b.rs", "pub unsafe trait Walk {}\n// struct Item;\ntype Item = u8;\n");
        let elsewhere = file("crates/windrow-bench/src/c.rs", "enum Walk {}\n");
        let found = check(&[one, other, elsewhere]);
        let place = "Walk is defined more than once: crates/windrow/src/a.rs:1, crates/windrow-sync/src/b.rs:1";
        assert_eq!(found, [place]);
    }
}

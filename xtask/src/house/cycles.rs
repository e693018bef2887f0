//! The modules of a crate use each other without cycles. A module is one with its children: what a child uses, the module uses.

use std::collections::{BTreeMap, BTreeSet};

use windrow_sources::matches;

use super::RustFile;

/// Modules that use each other, and the reason.
const ALLOWED: [(&str, &str, &str); 2] = [
    ("windrow-bpe", "batch engine", "an engine, and the windows that it cuts and encodes"),
    ("windrow-plan", "share team", "one decision for loops and for teams that form"),
];

/// The modules that each module of a crate uses.
type Uses<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for file in files {
        let path = file.path.strip_prefix("crates/").or_else(|| file.path.strip_prefix("bindings/"));
        if let Some((name, path)) = path.and_then(|path| path.split_once("/src/")) {
            crates.entry(name).or_default().push((path, &file.source.code));
        }
    }
    let mut problems = Vec::new();
    for (name, files) in crates {
        let uses = uses(&files);
        for (one, other) in cycles(&uses) {
            let is_allowed = |(of, modules, _): &(&str, &str, &str)| {
                *of == name && [one, other].iter().all(|module| modules.split(' ').any(|it| it == *module))
            };
            if !ALLOWED.iter().any(is_allowed) {
                problems.push(format!(
                    "{name}: the modules {one} and {other} use each other, possibly through other modules"
                ));
            }
        }
    }
    problems
}

/// Pairs of modules that reach each other, in alphabetical order.
fn cycles<'t>(uses: &Uses<'t>) -> Vec<(&'t str, &'t str)> {
    let reach = |from: &'t str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(uses.get(module).into_iter().flatten().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = uses.keys().map(|module| (*module, reach(module))).collect();
    let pairs = reached.iter().flat_map(|(one, seen)| seen.iter().map(move |other| (*one, *other)));
    pairs.filter(|(one, other)| one < other && reached.get(other).is_some_and(|back| back.contains(one))).collect()
}

/// Uses by `crate::module` and by `super`, without those of tests. `files` are paths below `src`, and their code.
fn uses<'t>(files: &[(&'t str, &'t str)]) -> Uses<'t> {
    let root = files.iter().find(|(path, _)| matches!(*path, "lib.rs" | "main.rs")).map_or("", |(_, code)| *code);
    let modules: BTreeSet<&str> = matches(r"\bmod\s+(\w+)\s*;", root).into_iter().map(|(_, name)| name).collect();
    // Names of the root lead to the modules that define them.
    let exported: BTreeMap<&str, &str> = modules
        .iter()
        .flat_map(|module| {
            let listed = matches(&format!(r"\buse (?:crate::)?{module}::([^;]*);"), root);
            let names = listed.into_iter().flat_map(|(_, names)| matches(r"(\w+)", names));
            names.map(|(_, name)| (name, *module)).collect::<Vec<_>>()
        })
        .collect();
    let test = r"#\[cfg\((?:all\()?test\b[^\n]*\n(?:\s*#\[[^\n]*\n)*\s*(?:pub\S* )?mod (\w+)";
    let tests: BTreeSet<&str> =
        files.iter().flat_map(|(_, code)| matches(&format!("{test};"), code)).map(|(_, name)| name).collect();
    let mut uses = Uses::new();
    for (path, code) in files {
        let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").collect();
        if !modules.contains(parts[0]) || parts.iter().any(|part| tests.contains(part)) {
            continue;
        }
        // Tests in a file are at its end.
        let end = matches(&format!(r"{test} \{{"), code).first().map_or(code.len(), |(at, _)| *at);
        let above = "super::".repeat(parts.len());
        let prefix = format!(r"(?:\bcrate::|(?:^|[^:\w]){above})");
        let direct = matches(&format!(r"{prefix}(\w+)"), &code[..end]);
        let listed = matches(&format!(r"{prefix}\{{([^;]*)\}}"), &code[..end]);
        let listed = listed.into_iter().flat_map(|(_, names)| matches(r"(?:^|,)\s*(\w+)", names));
        let used = direct.into_iter().chain(listed).filter_map(|(_, name)| {
            let module = modules.get(name).or_else(|| exported.get(name));
            module.copied().filter(|module| *module != parts[0])
        });
        uses.entry(parts[0]).or_default().extend(used);
    }
    uses
}

#[test]
fn cycles_go_through_children_imports_and_parents() {
    let found = |files: &[(&str, &str)]| {
        let file = |(path, text): &(&str, &str)| RustFile::new(&format!("crates/windrow-new/src/{path}.rs"), text);
        check(&files.iter().map(file).collect::<Vec<_>>()).len()
    };
    let lib = ("lib", "mod a; mod b; mod c; pub use b::B;");
    assert_eq!(found(&[lib, ("a", "use crate::b::B;"), ("b", "use crate::c;"), ("c", "")]), 0);
    assert_eq!(found(&[lib, ("a", "use crate::B;"), ("b", "pub struct B; fn f() { super::a::f() }"), ("c", "")]), 1);
    assert_eq!(found(&[lib, ("a", "mod n;"), ("a/n", "use crate::b;"), ("b", "use super::{c, a::f};"), ("c", "")]), 1);
    assert_eq!(found(&[lib, ("a", "mod n;"), ("a/n", "use super::super::b;"), ("b", "use crate::a;"), ("c", "")]), 1);
    assert_eq!(
        found(&[lib, ("a", "use crate::b;"), ("b", "#[cfg(test)]\nmod tests {\n use crate::a;\n}"), ("c", "")]),
        0
    );
    assert_eq!(
        found(&[lib, ("a", "mod n; use super::b;"), ("a/n", "use super::b;"), ("b", "use self::c;"), ("c", "")]),
        0
    );
}

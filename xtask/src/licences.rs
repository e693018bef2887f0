//! Checks that every package of a binary has a licence on the list, which `deny.toml` repeats.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::spdx;
use crate::workspace::{Failure, Workspace, list, text};

const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that may have one additional licence, each with its reason in `deny.toml`.
const EXCEPTIONS: [(&str, &str); 1] = [("colored", "MPL-2.0")];

/// Packages that ship the text of a licence but do not name it; `deny.toml` has the text's hash.
const STATED: [(&str, &str); 1] = [("fuchsia-cprng", "BSD-3-Clause")];

pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    Failure::unless_empty("licences", &check(&workspace.metadata))
}

fn check(metadata: &Value) -> Vec<String> {
    let shipped = shipped(metadata);
    let packages = list(metadata, "packages").iter().filter(|package| shipped.contains(text(package, "id")));
    packages.filter_map(|package| complaint(package).err()).collect()
}

fn complaint(package: &Value) -> Result<(), String> {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let stated = STATED.iter().find(|(crate_name, _)| *crate_name == name).map_or("", |(_, licence)| licence);
    let expression = Some(text(package, "license")).filter(|named| !named.is_empty()).unwrap_or(stated);
    if expression.is_empty() {
        return Err(format!("{name} {version} states no licence expression"));
    }
    let allowed = |licence: &str| ALLOWED.contains(&licence) || EXCEPTIONS.contains(&(name, licence));
    match spdx::satisfied(expression, &allowed) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{name} {version}: `{expression}` is not on the list of xtask/src/licences.rs")),
        Err(error) => Err(format!("{name} {version}: {error}")),
    }
}

/// The ids of the members and of everything they need on some platform, tests excepted.
fn shipped(metadata: &Value) -> BTreeSet<&str> {
    let nodes = list(&metadata["resolve"], "nodes");
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = list(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| text(node, "id") == id);
        for dependency in node.map_or(&[][..], |node| list(node, "deps")) {
            if list(dependency, "dep_kinds").iter().any(|kind| text(kind, "kind") != "dev") {
                open.push(text(dependency, "pkg"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata(licence: Value, kind: Value) -> Value {
        json!({
            "workspace_members": ["own"],
            "packages": [
                {"id": "own", "name": "own", "version": "1.0.0", "license": "MIT"},
                {"id": "dep", "name": "dep", "version": "2.0.0", "license": licence},
            ],
            "resolve": {"nodes": [
                {"id": "own", "deps": [{"pkg": "dep", "dep_kinds": [{"kind": kind}]}]},
                {"id": "dep", "deps": []},
            ]},
        })
    }

    #[test]
    fn a_licence_off_the_list_names_its_package() {
        assert!(check(&metadata(json!("GPL-3.0 OR MIT"), json!(null))).is_empty());
        let bad = check(&metadata(json!("GPL-3.0"), json!("build")));
        assert!(bad.len() == 1 && bad[0].starts_with("dep 2.0.0: `GPL-3.0`"), "{bad:?}");
        assert_eq!(check(&metadata(json!(null), json!(null))), ["dep 2.0.0 states no licence expression"]);
        assert!(check(&metadata(json!("GPL-3.0"), json!("dev"))).is_empty());
    }

    #[test]
    fn an_exception_holds_for_its_package_alone() {
        let package = |name| json!({"name": name, "version": "1.0.0", "license": "MPL-2.0"});
        assert!(complaint(&package("colored")).is_ok());
        assert!(complaint(&package("other")).is_err());
    }

    /// The strings inside the first array after `key =`.
    fn array<'a>(toml: &'a str, key: &str) -> Vec<&'a str> {
        let start = toml.find(&format!("\n{key} = [")).expect("the key is there");
        let inside = &toml[start..start + toml[start..].find("\n]").expect("the array ends on its own line")];
        inside.split('"').skip(1).step_by(2).collect()
    }

    #[test]
    fn deny_toml_has_the_same_list() {
        let deny = include_str!("../../deny.toml");
        assert_eq!(array(deny, "allow"), ALLOWED);
        let exceptions: Vec<&str> = EXCEPTIONS.iter().flat_map(|&(name, licence)| [licence, name]).collect();
        assert_eq!(array(deny, "exceptions"), exceptions);
    }
}

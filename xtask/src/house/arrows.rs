//! Dependencies between crates: the layers of the architecture, and the lints that each crate inherits. (`deny.toml` says where peers may be
//! used.)

use anyhow::Result;
use serde_json::Value;

use crate::workspace::{self, PROTOCOLS, Workspace, list, package, text};

/// A member and the members it may depend on directly, in tests and build scripts too.
const LAYERS: &[(&str, &str)] = &[
    ("windrow-allocator", ""),
    ("windrow-chat", "windrow-testkit"),
    ("windrow-observe", "windrow-plan windrow-sync"),
    ("windrow-plan", ""),
    ("windrow-product", ""),
    ("windrow-records", ""),
    ("windrow-sources", "windrow-records"),
    ("windrow-sync", ""),
    ("windrow-table", "windrow-sync"),
    ("windrow-tiling", "windrow-plan"),
    ("windrow", "windrow-observe windrow-plan windrow-sync windrow-testkit"),
    // For tests alone: those of windrow use it, and it uses windrow.
    ("windrow-testkit", "windrow"),
    ("windrow-bpe", "windrow windrow-table windrow-testkit"),
    ("windrow-collections", "windrow windrow-sync windrow-testkit"),
    ("windrow-collective", "windrow windrow-product windrow-sync windrow-testkit windrow-tiling"),
    ("windrow-sqlite", "windrow windrow-testkit"),
    ("windrow-tokenizers", "windrow windrow-bpe windrow-chat windrow-testkit"),
    ("windrow-scenarios", "windrow windrow-collective windrow-sync windrow-tiling windrow-tokenizers"),
    ("windrow-tower", "windrow windrow-sync windrow-testkit"),
    ("windrow-fuzz", "windrow windrow-bpe windrow-testkit windrow-tokenizers"),
    ("windrow-book", "windrow windrow-collective"),
    (
        "windrow-cli",
        "windrow windrow-allocator windrow-collective windrow-scenarios windrow-sync windrow-testkit windrow-tiling windrow-tokenizers",
    ),
    (
        "windrow-bench",
        "windrow windrow-allocator windrow-cli windrow-collections windrow-collective windrow-plan windrow-product windrow-records windrow-scenarios windrow-sqlite \
         windrow-sync windrow-testkit windrow-tiling windrow-tokenizers windrow-tower",
    ),
    ("windrow-node", "windrow windrow-allocator windrow-tokenizers"),
    ("windrow-python", "windrow windrow-allocator windrow-cli windrow-collective windrow-tiling windrow-tokenizers"),
    ("xtask", "windrow-records windrow-sources"),
];

/// For tests, the random texts of windrow-fuzz, and the contract that windrow-bench measures.
const TESTKIT: &str = "windrow-testkit";

/// True for a crate of protocols and so of unsafe code. It cannot inherit the lint that forbids it.
fn is_unsafe(name: &str) -> bool {
    PROTOCOLS.iter().any(|folder| package(folder) == name)
}

/// The crates with one file of unsafe code, and the crate whose attributes expand to some. They deny what the others forbid, since what is
/// forbidden cannot be allowed in a place.
const UNSAFE_IN_PLACES: [&str; 3] = ["windrow-bpe", "windrow-node", "windrow-product"];

pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let metadata = workspace::metadata(&workspace.root)?;
    let mut problems = wrong_arrows(&metadata);
    let whole = workspace.read("Cargo.toml")?;
    for member in list(&metadata, "packages") {
        let manifest = text(member, "manifest_path");
        let has = has_lints(&workspace::read(manifest.as_ref())?, &whole, text(member, "name"));
        problems.extend((!has).then(|| format!("{manifest} does not use the workspace's lints")));
    }
    Ok(problems)
}

fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for member in list(metadata, "packages") {
        let name = text(member, "name");
        let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{name} is not in a layer of the architecture\n    hint: add it to {}", file!()));
            continue;
        };
        for dependency in list(member, "dependencies") {
            let (to, kind) = (text(dependency, "name"), text(dependency, "kind"));
            let is_layer = LAYERS.iter().any(|(known, _)| *known == to);
            // The crates at the bottom choose no others; dependencies of tests are free, and those of features of windrow-tiling. An absent
            // kind is a normal dependency.
            let is_optional = name == "windrow-tiling" && dependency["optional"] == true;
            let is_free = !kind.is_empty() || is_layer || is_optional;
            let is_bare = match name {
                "windrow-plan" | "windrow-tiling" => !is_free,
                _ if is_unsafe(name) => {
                    !is_free && to != "libc" && (to != "loom" || text(dependency, "target") != "cfg(loom)")
                }
                _ => false,
            };
            if is_bare || is_layer && !allowed.split_whitespace().any(|layer| layer == to) {
                problems.push(format!("{name} must not depend on {to}"));
            } else if to == TESTKIT && kind != "dev" && !matches!(name, "windrow-bench" | "windrow-fuzz") {
                problems.push(format!("{name} must not depend on {to} except in tests"));
            }
        }
    }
    problems
}

/// True if the manifest of a crate inherits the lints of the workspace, or repeats all but the one about unsafe code.
fn has_lints(manifest: &str, whole: &str, name: &str) -> bool {
    let is_lint = |line: &&str| line.contains(" = ") && !line.starts_with('#') && !line.starts_with("unsafe_code");
    let sections = whole.split("\n[workspace.lints.").skip(1).filter_map(|section| section.split("\n[").next());
    let has = |lint: &str| manifest.lines().any(|line| line == lint);
    let is_denying = UNSAFE_IN_PLACES.contains(&name);
    if !is_unsafe(name) && !is_denying {
        return manifest.contains("\n[lints]\nworkspace = true\n");
    }
    (!is_denying || has("unsafe_code = \"deny\"")) && sections.flat_map(str::lines).filter(is_lint).all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_arrow_is_named() {
        let wrong = |name: &str, dependency: Value| {
            wrong_arrows(&json!({"packages": [{"name": name, "dependencies": [dependency]}]})).join("; ")
        };
        assert_eq!(wrong("windrow-cli", json!({"name": "windrow", "kind": null})), "");
        assert_eq!(wrong("windrow-sync", json!({"name": "loom", "target": "cfg(loom)"})), "");
        assert_eq!(wrong("windrow-plan", json!({"name": "proptest", "kind": "dev"})), "");
        assert!(wrong("windrow-plan", json!({"name": "windrow", "kind": "dev"})).contains("not depend on windrow"));
        assert!(wrong("windrow-plan", json!({"name": "serde", "kind": null})).contains("not depend on serde"));
        assert!(wrong("windrow-sync", json!({"name": "loom", "kind": null})).contains("not depend on loom"));
        assert!(wrong("windrow-sqlite", json!({"name": TESTKIT, "kind": null})).contains("except in tests"));
        assert!(wrong("windrow-new", json!({"name": "libc"})).contains("windrow-new is not in a layer"));
    }

    #[test]
    fn lints_are_inherited_or_repeated() {
        let whole = "\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\na = \"deny\"\n\n[x]\nc = 1\n";
        assert!(has_lints("[package]\n[lints]\nworkspace = true\n", whole, "windrow"));
        assert!(!has_lints("[package]\n", whole, "windrow"));
        assert!(has_lints("[lints.rust]\na = \"deny\"\n", whole, "windrow-sync"));
        assert!(!has_lints("[lints.rust]\na = \"deny\"\n", whole, "windrow-bpe"));
        assert!(has_lints("[lints.rust]\nunsafe_code = \"deny\"\na = \"deny\"\n", whole, "windrow-bpe"));
    }
}

//! Dependencies between crates: the layers of the architecture, and the peers that `deny.toml` bans.
//!
//! cargo-deny reads `deny.toml` in full; these checks need no network, take no time, and so run with every change.

use anyhow::Result;
use serde_json::Value;

use crate::workspace::{self, Workspace, list, members, text};

/// A member and the members it may depend on directly, in tests and build scripts too.
const LAYERS: &[(&str, &str)] = &[
    ("windrow-allocator", ""),
    ("windrow-plan", ""),
    ("windrow-product", ""),
    ("windrow-records", ""),
    ("windrow-sources", "windrow-records"),
    ("windrow-sync", ""),
    ("windrow-tiling", "windrow-plan"),
    ("windrow", "windrow-plan windrow-sync windrow-testkit"),
    // For tests alone: those of windrow use it, and it uses windrow.
    ("windrow-testkit", "windrow"),
    ("windrow-bpe", "windrow windrow-sync windrow-testkit"),
    ("windrow-collections", "windrow windrow-sync windrow-testkit"),
    ("windrow-collective", "windrow windrow-product windrow-sync windrow-testkit windrow-tiling"),
    ("windrow-sqlite", "windrow windrow-testkit"),
    ("windrow-tokenizers", "windrow windrow-bpe windrow-testkit"),
    ("windrow-fuzz", "windrow-tokenizers"),
    ("windrow-book", "windrow windrow-collections windrow-collective windrow-sqlite windrow-tiling"),
    ("windrow-cli", "windrow windrow-allocator windrow-collective windrow-sync windrow-tiling windrow-tokenizers"),
    (
        "windrow-bench",
        "windrow windrow-allocator windrow-cli windrow-collections windrow-collective windrow-plan windrow-product windrow-records windrow-sqlite \
         windrow-sync windrow-testkit windrow-tiling windrow-tokenizers",
    ),
    ("windrow-node", "windrow windrow-allocator windrow-cli windrow-tokenizers"),
    ("windrow-python", "windrow windrow-allocator windrow-cli windrow-collective windrow-tiling windrow-tokenizers"),
    ("xtask", "windrow-records windrow-sources"),
];

/// For tests, and for the stress program of windrow-bench.
const TESTKIT: &str = "windrow-testkit";

/// The crate of unsafe code. It cannot inherit the lint that forbids it.
const UNSAFE: &str = "windrow-sync";

/// The crates with one file of unsafe code, and the crate whose attributes expand to some. They deny what the others forbid, since what is
/// forbidden cannot be allowed in a place.
const UNSAFE_IN_PLACES: [&str; 3] = ["windrow-bpe", "windrow-node", "windrow-product"];

/// How a crate gets the lints of the workspace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lints {
    Inherited,
    /// Repeated, all but `unsafe_code`.
    Repeated,
    /// Repeated, and `unsafe_code` is denied.
    Denying,
}

impl Lints {
    fn of(name: &str) -> Self {
        match name {
            UNSAFE => Self::Repeated,
            _ if UNSAFE_IN_PLACES.contains(&name) => Self::Denying,
            _ => Self::Inherited,
        }
    }
}

pub(crate) fn arrows(workspace: &Workspace) -> Result<()> {
    let mut problems = wrong_arrows(&workspace.metadata, &workspace.read("deny.toml")?);
    let whole = workspace.read("Cargo.toml")?;
    for member in members(&workspace.metadata) {
        let manifest = text(member, "manifest_path");
        let is_linted = has_lints(&workspace::read(manifest.as_ref())?, &whole, Lints::of(text(member, "name")));
        problems.extend((!is_linted).then(|| format!("{manifest} does not have the workspace's lints")));
    }
    workspace::unless_empty("arrows", &problems)
}

fn wrong_arrows(metadata: &Value, deny: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for member in members(metadata) {
        let name = text(member, "name");
        let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{name} has no place in the architecture\n    hint: add it to xtask/src/deps.rs"));
            continue;
        };
        for dependency in list(member, "dependencies") {
            let (to, target) = (text(dependency, "name"), text(dependency, "target"));
            let is_layer = LAYERS.iter().any(|(known, _)| *known == to);
            // The two at the bottom choose no others; dependencies of tests are free. An absent kind is a normal dependency.
            let is_free = !text(dependency, "kind").is_empty() || is_layer;
            let is_bare = match name {
                "windrow-plan" | "windrow-tiling" => !is_free,
                UNSAFE => !is_free && to != "libc" && (to != "loom" || target != "cfg(loom)"),
                _ => false,
            };
            let banned = deny.lines().find(|line| line.contains(&format!("{{ crate = \"{to}\", wrappers")));
            if is_layer && !allowed.split(' ').any(|layer| layer == to) {
                problems.push(format!("{name} must not depend on {to}"));
            } else if to == TESTKIT && text(dependency, "kind") != "dev" && name != "windrow-bench" {
                problems.push(format!("{name} must not depend on {to} except in tests"));
            } else if is_bare {
                problems.push(format!("{name} must stay without the dependency {to}"));
            } else if banned.is_some_and(|line| !line.contains(&format!("\"{name}\""))) {
                problems.push(format!("{name} must not depend on {to}: deny.toml says which crates may"));
            }
        }
        if name == UNSAFE && text(member, "links") != "windrow" {
            problems.push(format!("{UNSAFE} has lost `links = \"windrow\"`: a program could hold two sets of workers"));
        }
    }
    problems
}

/// Whether a manifest has the lints of the workspace as it should.
fn has_lints(manifest: &str, whole: &str, lints: Lints) -> bool {
    let is_lint = |line: &&str| line.contains(" = ") && !line.starts_with('#') && !line.starts_with("unsafe_code");
    let sections = whole.split("\n[workspace.lints.").skip(1).filter_map(|section| section.split("\n[").next());
    let has = |lint: &str| manifest.lines().any(|line| line == lint);
    match lints {
        Lints::Inherited => manifest.contains("\n[lints]\nworkspace = true\n"),
        Lints::Denying if !has("unsafe_code = \"deny\"") => false,
        Lints::Repeated | Lints::Denying => sections.flat_map(str::lines).filter(is_lint).all(has),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const DENY: &str = include_str!("../../deny.toml");

    fn metadata(name: &str, dependencies: Value) -> Value {
        let package =
            |name: &str, deps: Value| json!({"id": name, "name": name, "dependencies": deps, "links": "windrow"});
        json!({
            "workspace_members": ["windrow", "windrow-sync", name],
            "packages": [
                package("windrow", json!([{"name": "windrow-plan", "kind": null}])),
                package("windrow-sync", json!([])),
                package(name, dependencies),
                package("rayon", json!([{"name": "crossbeam-deque"}])),
            ],
        })
    }

    fn complaint(name: &str, dependency: Value) -> String {
        wrong_arrows(&metadata(name, json!([dependency])), DENY).join("; ")
    }

    #[test]
    fn the_right_arrows_pass() {
        assert_eq!(complaint("windrow-cli", json!({"name": "windrow", "kind": null})), "");
        assert_eq!(complaint("windrow-sync", json!({"name": "libc", "target": "cfg(target_os = \"linux\")"})), "");
        assert_eq!(complaint("windrow-sync", json!({"name": "loom", "target": "cfg(loom)"})), "");
        assert_eq!(complaint("windrow-plan", json!({"name": "proptest", "kind": "dev"})), "");
        assert_eq!(complaint("windrow-bench", json!({"name": "rayon", "kind": "dev"})), "");
        assert_eq!(complaint("windrow-tokenizers", json!({"name": "windrow-bpe", "kind": null})), "");
        for dependency in ["aho-corasick", "windrow", "windrow-sync"] {
            assert_eq!(complaint("windrow-bpe", json!({"name": dependency, "kind": null})), "");
        }
    }

    #[test]
    fn each_wrong_arrow_is_named() {
        for (name, dependency, message) in [
            ("windrow-plan", json!({"name": "windrow", "kind": "dev"}), "windrow-plan must not depend on windrow"),
            (
                "windrow-cli",
                json!({"name": "crossbeam-channel", "kind": "dev"}),
                "must not depend on crossbeam-channel",
            ),
            ("windrow-plan", json!({"name": "serde", "kind": null}), "without the dependency serde"),
            ("windrow-sync", json!({"name": "loom", "kind": null}), "without the dependency loom"),
            ("windrow-new", json!({"name": "libc"}), "windrow-new has no place"),
            ("windrow-bpe", json!({"name": "windrow-tokenizers", "kind": "dev"}), "not depend on windrow-tokenizers"),
            ("windrow-bpe", json!({"name": "windrow-plan", "kind": null}), "must not depend on windrow-plan"),
            ("windrow-collections", json!({"name": "windrow-bpe", "kind": null}), "must not depend on windrow-bpe"),
            ("windrow-sqlite", json!({"name": "windrow-testkit", "kind": null}), "windrow-testkit except in tests"),
        ] {
            assert!(complaint(name, dependency).contains(message), "{message}");
        }
        let mut metadata = metadata("windrow-plan", json!([]));
        metadata["packages"][1]["links"] = Value::Null;
        assert!(wrong_arrows(&metadata, DENY).join("").contains("links"));
    }

    /// Peer runtimes belong to windrow-bench alone.
    #[test]
    fn deny_toml_bans_every_peer() {
        for peer in "async-std chili crossbeam crossbeam-channel crossbeam-deque crossbeam-epoch crossbeam-queue \
                     crossbeam-skiplist crossbeam-utils orx-parallel paralight rayon rayon-core smol spindle tokio"
            .split(' ')
        {
            assert!(complaint("windrow", json!({"name": peer, "kind": "dev"})).contains(peer), "{peer}");
        }
    }

    #[test]
    fn lints_are_inherited_or_repeated() {
        let whole = "\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\na = \"deny\"\n\n[workspace.lints.clippy]\n# x = 1\nb = \"deny\"\n\n[x]\nc = 1\n";
        assert!(has_lints("[package]\n[lints]\nworkspace = true\n", whole, Lints::Inherited));
        assert!(!has_lints("[lints]\n[x]\nworkspace = true\n", whole, Lints::Inherited));
        assert!(!has_lints("[package]\n", whole, Lints::Inherited));
        let repeated = "[lints.rust]\na = \"deny\"\n[lints.clippy]\nb = \"deny\"\n";
        assert!(has_lints(repeated, whole, Lints::Repeated));
        assert!(!has_lints(repeated, whole, Lints::Inherited));
        assert!(!has_lints("[lints.rust]\na = \"deny\"\n", whole, Lints::Repeated));
    }

    /// A crate with one file of unsafe code denies it, and repeats the other lints.
    #[test]
    fn one_file_is_an_exception_from_a_lint_that_denies() {
        let whole = "\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\na = \"deny\"\nb = \"deny\"\n";
        let denying = |lints: &str| has_lints(&format!("[lints.rust]\n{lints}\n"), whole, Lints::Denying);
        assert!(denying("unsafe_code = \"deny\"\na = \"deny\"\nb = \"deny\""));
        assert!(!denying("unsafe_code = \"deny\"\na = \"deny\""));
        assert!(!denying("a = \"deny\"\nb = \"deny\""));
        assert!(!denying("unsafe_code = \"warn\"\na = \"deny\"\nb = \"deny\""));
        assert!(!denying("# unsafe_code = \"deny\"\na = \"deny\"\nb = \"deny\""));
        assert_eq!(["windrow-bpe", "windrow-product"].map(Lints::of), [Lints::Denying; 2]);
        assert_eq!([Lints::of("windrow-sync"), Lints::of("windrow")], [Lints::Repeated, Lints::Inherited]);
    }

    #[test]
    fn the_arrows_of_this_workspace_hold() {
        let workspace = Workspace::load().expect("cargo metadata works here");
        arrows(&workspace).expect("the arrows hold");
    }
}

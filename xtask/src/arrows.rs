//! Checks which crate depends on which: the arrows of the architecture point one way.

use serde_json::Value;

use crate::workspace::{self, Failure, Workspace, list, text};

/// A member and the members it may depend on directly, in tests and build scripts too.
const ALLOWED: [(&str, &[&str]); 12] = [
    ("windrow-allocator", &[]),
    ("windrow-plan", &[]),
    ("windrow-sync", &[]),
    ("windrow-tiling", &["windrow-plan"]),
    ("windrow", &["windrow-plan", "windrow-sync"]),
    ("windrow-collections", &["windrow", "windrow-sync"]),
    ("windrow-collective", &["windrow", "windrow-sync", "windrow-tiling"]),
    ("windrow-sqlite", &["windrow"]),
    ("windrow-tokenizers", &["windrow"]),
    ("windrow-cli", &["windrow", "windrow-allocator", "windrow-collective", "windrow-tiling", "windrow-tokenizers"]),
    (
        "windrow-bench",
        &[
            "windrow",
            "windrow-allocator",
            "windrow-plan",
            "windrow-sync",
            "windrow-collections",
            "windrow-collective",
            "windrow-sqlite",
            "windrow-tiling",
            "windrow-tokenizers",
            "windrow-cli",
        ],
    ),
    ("xtask", &[]),
];

/// Runtimes that windrow is compared with. Only the comparing crate may depend on them.
const PEERS: [&str; 9] =
    ["rayon", "rayon-core", "tokio", "chili", "paralight", "orx-parallel", "spindle", "async-std", "smol"];

pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let mut problems = check(&workspace.metadata);
    for member in workspace.members() {
        let manifest = text(member, "manifest_path");
        if !inherits_lints(&workspace::read(manifest.as_ref())?) {
            problems
                .push(format!("{manifest} does not inherit the workspace's lints\n    hint: [lints] workspace = true"));
        }
    }
    Failure::unless_empty("arrows", &problems)
}

fn check(metadata: &Value) -> Vec<String> {
    let members = workspace::members(metadata);
    let names: Vec<&str> = members.iter().map(|member| text(member, "name")).collect();
    let mut problems = Vec::new();
    for member in members {
        let name = text(member, "name");
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{name} has no place in the architecture\n    hint: add it to xtask/src/arrows.rs"));
            continue;
        };
        for dependency in list(member, "dependencies") {
            let (to, kind) = (text(dependency, "name"), text(dependency, "kind"));
            if names.contains(&to) && !allowed.contains(&to) {
                problems.push(format!("{name} must not depend on {to}"));
            }
            if name != "windrow-bench" && is_peer(to) {
                problems.push(format!("{name} must not depend on {to}: peer runtimes belong to windrow-bench alone"));
            }
            // An absent kind is a normal dependency.
            if kind.is_empty() && !may_use(name, to, text(dependency, "target")) {
                problems.push(format!("{name} must stay without the dependency {to}"));
            }
        }
        if name == "windrow" && text(member, "links") != "windrow" {
            problems.push("windrow has lost `links = \"windrow\"`: a program could hold two global pools".to_owned());
        }
    }
    problems
}

fn is_peer(name: &str) -> bool {
    PEERS.contains(&name) || name == "crossbeam" || name.starts_with("crossbeam-")
}

/// Whether a bottom crate may have this normal dependency; other crates choose freely.
fn may_use(name: &str, dependency: &str, target: &str) -> bool {
    match name {
        "windrow-plan" => false,
        "windrow-tiling" => dependency == "windrow-plan",
        "windrow-sync" => dependency == "libc" || (dependency == "loom" && target == "cfg(loom)"),
        _ => true,
    }
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    lines.by_ref().any(|line| line == "[lints]")
        && lines.take_while(|line| !line.starts_with('[')).any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata(name: &str, dependencies: Value) -> Value {
        let package =
            |name: &str, deps: Value| json!({"id": name, "name": name, "dependencies": deps, "links": "windrow"});
        json!({
            "workspace_members": ["windrow", "windrow-plan", "windrow-sync", name],
            "packages": [
                package("windrow", json!([{"name": "windrow-plan", "kind": null}])),
                package(name, dependencies),
                package("rayon", json!([{"name": "crossbeam-deque"}])),
            ],
        })
    }

    fn complaint(name: &str, dependency: Value) -> String {
        check(&metadata(name, json!([dependency]))).join("; ")
    }

    #[test]
    fn the_right_arrows_pass() {
        assert_eq!(complaint("windrow-cli", json!({"name": "windrow", "kind": null})), "");
        assert_eq!(complaint("windrow-sync", json!({"name": "libc", "target": "cfg(target_os = \"linux\")"})), "");
        assert_eq!(complaint("windrow-sync", json!({"name": "loom", "target": "cfg(loom)"})), "");
        assert_eq!(complaint("windrow-plan", json!({"name": "proptest", "kind": "dev"})), "");
        assert_eq!(complaint("windrow-tiling", json!({"name": "windrow-plan", "kind": null})), "");
        assert_eq!(complaint("windrow-bench", json!({"name": "rayon", "kind": "dev"})), "");
    }

    #[test]
    fn each_wrong_arrow_is_named() {
        let upwards = complaint("windrow-plan", json!({"name": "windrow", "kind": "dev"}));
        assert_eq!(upwards, "windrow-plan must not depend on windrow");
        let runtime = complaint("windrow-tiling", json!({"name": "windrow", "kind": "dev"}));
        assert_eq!(runtime, "windrow-tiling must not depend on windrow");
        let synchronization = complaint("windrow-tiling", json!({"name": "windrow-sync", "kind": null}));
        assert_eq!(synchronization, "windrow-tiling must stay without the dependency windrow-sync");
        let peer = complaint("windrow-cli", json!({"name": "crossbeam-channel", "kind": "dev"}));
        assert!(peer.starts_with("windrow-cli must not depend on crossbeam-channel"), "{peer}");
        assert!(
            complaint("windrow-plan", json!({"name": "serde", "kind": null})).contains("without the dependency serde")
        );
        assert!(
            complaint("windrow-tiling", json!({"name": "serde", "kind": null}))
                .contains("without the dependency serde")
        );
        assert!(
            complaint("windrow-sync", json!({"name": "loom", "kind": null})).contains("without the dependency loom")
        );
        assert!(complaint("windrow-new", json!({"name": "libc"})).contains("windrow-new has no place"));
    }

    #[test]
    fn the_links_key_is_missed() {
        let mut metadata = metadata("windrow-plan", json!([]));
        metadata["packages"][0]["links"] = Value::Null;
        assert!(check(&metadata).join("").contains("links"));
    }

    #[test]
    fn lints_are_inherited_under_their_own_header_only() {
        assert!(inherits_lints("[package]\n[lints]\nworkspace = true\n"));
        assert!(!inherits_lints("[lints]\n[x]\nworkspace = true\n"));
        assert!(!inherits_lints("[lints]\n# workspace = true\n"));
        assert!(!inherits_lints("[package]\n"));
    }

    #[test]
    fn the_arrows_of_this_workspace_hold() {
        let workspace = Workspace::load().expect("cargo metadata works here");
        run(&workspace).expect("the arrows hold");
    }
}

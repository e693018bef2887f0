//! A copy of windrow-sync outside of the workspace, to be changed and tested.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::workspace::{self, Failure, Workspace, list, text};

pub(super) struct Scratch {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
}

impl Scratch {
    /// Copies `source` into `folder`. Each folder has a separate build, so folders can be used side by side.
    pub(super) fn new(
        workspace: &Workspace,
        source: &Path,
        package: &Value,
        folder: &Path,
    ) -> Result<Scratch, Failure> {
        let scratch = Scratch { root: folder.join("crate"), target: folder.join("target") };
        let failed = |error: std::io::Error| Failure(format!("cannot prepare {}: {error}", scratch.root.display()));
        if scratch.root.exists() {
            fs::remove_dir_all(&scratch.root).map_err(failed)?;
        }
        copy(source, &scratch.root).map_err(failed)?;
        workspace::write(&scratch.root.join("Cargo.toml"), &manifest(package)?)?;
        // The same versions as in the workspace; Cargo drops what this crate does not need.
        fs::copy(workspace.root.join("Cargo.lock"), scratch.root.join("Cargo.lock")).map_err(failed)?;
        Ok(scratch)
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A standalone manifest, with everything that the package inherits from the workspace written out. It comes from `cargo metadata`, which
/// has already resolved what is inherited.
fn manifest(package: &Value) -> Result<String, Failure> {
    let mut toml = format!(
        "[package]\nname = {}\nversion = {}\nedition = {}\npublish = false\n\n[workspace]\n\n\
         # Rebuilt for every mutant and run for seconds: no debug information, and only what changed.\n\
         [profile.release]\ndebug = false\nincremental = true\n\n\
         [lints.rust]\nunexpected_cfgs = {{ level = \"allow\" }}\n\n[features]\n",
        package["name"], package["version"], package["edition"],
    );
    for (name, enables) in package["features"].as_object().into_iter().flatten() {
        toml.push_str(&format!("{name} = {enables}\n"));
    }
    for dependency in list(package, "dependencies") {
        let name = text(dependency, "name");
        if dependency["path"].is_string() {
            return Err(Failure(format!("{} depends on the workspace's {name}", text(package, "name"))));
        }
        let kind = match text(dependency, "kind") {
            "" => "dependencies".to_owned(),
            kind => format!("{kind}-dependencies"),
        };
        let target = match text(dependency, "target") {
            "" => String::new(),
            target => format!("target.'{target}'."),
        };
        let key = dependency["rename"].as_str().unwrap_or(name);
        toml.push_str(&format!(
            "\n[{target}{kind}.{key}]\npackage = {}\nversion = {}\nfeatures = {}\ndefault-features = {}\noptional = {}\n",
            dependency["name"],
            dependency["req"],
            dependency["features"],
            dependency["uses_default_features"],
            dependency["optional"],
        ));
    }
    Ok(toml)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dependency(name: &str) -> Value {
        json!({"name": name, "req": "^0.7.2", "kind": null, "target": "cfg(loom)", "rename": null, "features": ["x"],
            "uses_default_features": true, "optional": false})
    }

    fn package(dependency: Value) -> Value {
        json!({"name": "p", "version": "0.1.0", "edition": "2024", "features": {"portable": []}, "dependencies": [dependency]})
    }

    #[test]
    fn the_manifest_stands_alone() {
        let toml = manifest(&package(dependency("loom"))).expect("nothing is local");
        assert!(toml.contains("edition = \"2024\"\n") && toml.contains("\n[workspace]\n"), "{toml}");
        assert!(toml.contains("[features]\nportable = []\n"), "{toml}");
        assert!(
            toml.contains("[target.'cfg(loom)'.dependencies.loom]\npackage = \"loom\"\nversion = \"^0.7.2\"\n"),
            "{toml}"
        );
        let mut dev = dependency("proptest");
        dev["kind"] = json!("dev");
        dev["target"] = Value::Null;
        assert!(manifest(&package(dev)).expect("nothing is local").contains("\n[dev-dependencies.proptest]\n"));
    }

    #[test]
    fn a_local_dependency_cannot_be_copied() {
        let mut local = dependency("windrow-plan");
        local["path"] = json!("/somewhere");
        assert!(manifest(&package(local)).is_err());
    }
}

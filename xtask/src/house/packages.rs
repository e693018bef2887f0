//! A published crate ships a page, both licence texts, and the facts that its registry shows.

use std::path::Path;

use serde_json::Value;

use crate::workspace::{Workspace, list, text};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

pub(super) fn check(workspace: &Workspace) -> Vec<String> {
    let published = workspace.members().into_iter().filter(|member| member["publish"].is_null());
    published.flat_map(|member| missing(&workspace.root, member)).collect()
}

/// What is missing from this crate's package.
fn missing(root: &Path, member: &Value) -> Vec<String> {
    let name = text(member, "name");
    let folder = Path::new(text(member, "manifest_path")).parent().unwrap_or(root);
    let mut problems = Vec::new();
    for field in ["description", "license", "repository", "readme"] {
        if text(member, field).is_empty() {
            problems.push(format!("{name}: Cargo.toml has no {field}"));
        }
    }
    for field in ["keywords", "categories"] {
        if list(member, field).is_empty() {
            problems.push(format!("{name}: Cargo.toml has no {field}"));
        }
    }
    for licence in LICENCES {
        let bytes = std::fs::read(folder.join(licence)).ok();
        if bytes.is_none() || bytes != std::fs::read(root.join(licence)).ok() {
            problems.push(format!("{name}: {licence} is not the one at the root\n    hint: ln -s ../../{licence}"));
        }
    }
    let library = folder.join("src/lib.rs");
    let page = std::fs::read_to_string(&library).unwrap_or_default();
    if library.is_file() && !page.starts_with("#![doc = include_str!(\"../README.md\")]") {
        problems.push(format!("{name}: src/lib.rs does not begin with its README as documentation"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bare_package_lacks_everything() {
        let folder = std::env::temp_dir().join(format!("windrow-packages-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("bare/src")).expect("a folder of this test");
        std::fs::write(folder.join("bare/src/lib.rs"), "//! Nothing.\n").expect("a file of this test");
        for licence in LICENCES {
            std::fs::write(folder.join(licence), "a text").expect("a file of this test");
        }
        let manifest = folder.join("bare/Cargo.toml");
        let bare = json!({"name": "bare", "manifest_path": manifest, "keywords": [], "categories": []});
        let problems = missing(&folder, &bare);
        assert_eq!(problems.len(), 9, "{problems:?}");

        std::fs::write(folder.join("bare/src/lib.rs"), "#![doc = include_str!(\"../README.md\")]\n").expect("a file");
        for licence in LICENCES {
            std::fs::write(folder.join("bare").join(licence), "a text").expect("a file of this test");
        }
        let whole = json!({"name": "bare", "manifest_path": manifest, "keywords": ["a"], "categories": ["b"],
            "description": "d", "license": "MIT", "repository": "r", "readme": "README.md"});
        assert_eq!(missing(&folder, &whole), Vec::<String>::new());
        std::fs::write(folder.join("bare/LICENSE-MIT"), "another text").expect("a file of this test");
        assert_eq!(missing(&folder, &whole).len(), 1);
        std::fs::remove_dir_all(folder).expect("the folder of this test");
    }
}

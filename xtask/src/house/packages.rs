//! A published crate ships a page and both licence texts. (Clippy checks the facts that its registry shows.)

use std::path::Path;

use serde_json::Value;

use crate::workspace::{Workspace, members, text};

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

pub(super) fn check(workspace: &Workspace) -> Vec<String> {
    let published = members(&workspace.metadata).filter(|member| member["publish"].is_null());
    published.flat_map(|member| missing(&workspace.root, member)).collect()
}

/// What is missing from this crate's package.
fn missing(root: &Path, member: &Value) -> Vec<String> {
    let (name, folder) = (text(member, "name"), Path::new(text(member, "manifest_path")).with_file_name(""));
    let bytes = |path| std::fs::read(path).ok();
    let is_wrong = |licence: &&str| bytes(folder.join(licence)).is_none_or(|it| Some(it) != bytes(root.join(licence)));
    let hint = |licence| format!("{name}: {licence} is not the one at the root\n    hint: ln -s ../../{licence}");
    let mut problems: Vec<String> = LICENCES.into_iter().filter(is_wrong).map(hint).collect();
    // Links may be defined before it: of two definitions rustdoc takes the first one.
    let is_definition = |line: &&str| line.starts_with("//! [") || line.starts_with("// ");
    let is_page = |line: &str| line.starts_with("#![doc = include_str!(\"../README.md\")]");
    let page = std::fs::read_to_string(folder.join("src/lib.rs"));
    if page.is_ok_and(|page| !page.lines().find(|line| !is_definition(line)).is_some_and(is_page)) {
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
        let bare = json!({"name": "bare", "manifest_path": manifest});
        assert_eq!(missing(&folder, &bare).len(), 3);

        let page = "// Why.\n//! [`a`]: fn@a\n#![doc = include_str!(\"../README.md\")]\n";
        std::fs::write(folder.join("bare/src/lib.rs"), page).expect("a file");
        for licence in LICENCES {
            std::fs::write(folder.join("bare").join(licence), "a text").expect("a file of this test");
        }
        assert_eq!(missing(&folder, &bare), Vec::<String>::new());
        std::fs::write(folder.join("bare/LICENSE-MIT"), "another text").expect("a file of this test");
        assert_eq!(missing(&folder, &bare).len(), 1);
        std::fs::remove_dir_all(folder).expect("the folder of this test");
    }
}

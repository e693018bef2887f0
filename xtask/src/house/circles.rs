//! No file of a crate uses, perhaps through others, a file that uses it. Exceptions have a reason.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use windrow_sources::{Source, circles, uses};

use crate::workspace::{Workspace, members, text};

/// The files of a circle below its crate's folder, and why they are one. A circle of some of them is the same one.
const ALLOWED: &[(&str, &str)] = &[
    (
        "windrow: iter/adaptors.rs iter/cancellable.rs iter/collect.rs iter/make.rs iter/parallel.rs iter/recipe/early.rs \
         iter/recipe/flat.rs iter/reduce.rs iter/runs.rs iter/search.rs iter/visit.rs",
        "the trait, the types of its adaptors, and the consumers behind its provided methods",
    ),
    (
        "windrow: iter/indexed.rs iter/scan.rs iter/slice.rs iter/sort.rs",
        "the trait and the consumers behind its provided methods",
    ),
    ("windrow-bpe: batch.rs engine.rs", "an engine, and the windows that it cuts and encodes"),
];

pub(super) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let (mut problems, mut found) = (Vec::new(), BTreeSet::new());
    for member in members(&workspace.metadata) {
        let name = text(member, "name");
        let uses = uses(&Source::load(&Path::new(text(member, "manifest_path")).with_file_name(""))?);
        for circle in circles(&uses) {
            let files: Vec<&str> = circle.iter().map(|file| file.trim_start_matches("src/")).collect();
            let is_in = |(allowed, _): &&(&str, &str)| {
                let allowed = allowed.split_once(": ").filter(|allowed| allowed.0 == name);
                allowed.is_some_and(|(_, all)| files.iter().all(|file| all.split(' ').any(|one| one == *file)))
            };
            if let Some((allowed, _)) = ALLOWED.iter().find(is_in) {
                found.insert(*allowed);
                continue;
            }
            problems.push(format!("{name}: a circle of files: {}", files.join(" ")));
            let used = |file: &String| uses[file].intersection(&circle).cloned().collect::<Vec<_>>().join(" ");
            problems.extend(circle.iter().map(|file| format!("  {file} uses {}", used(file))));
        }
    }
    let gone = ALLOWED.iter().filter(|(allowed, _)| !found.contains(*allowed));
    problems.extend(gone.map(|(allowed, _)| format!("no circle of files any more: {allowed}")));
    Ok(problems)
}

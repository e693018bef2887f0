//! The models of the protocols, all of them or those of files that changed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, PROTOCOLS, Workspace, output_of, package, succeed};

const PREEMPTIONS: &str = "LOOM_MAX_PREEMPTIONS";

/// Commits whose changes `LoomChanged` looks at.
const RECENT: u32 = 20;

/// Makes a `cargo test` run the loom models. Three preemptions find every known kind of reordering and keep the models at seconds. A larger
/// number in the environment is kept.
pub(crate) fn with_loom(command: &mut Command) -> &mut Command {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let preemptions = std::env::var(PREEMPTIONS).unwrap_or_else(|_| "3".to_owned());
    command.args(["--release", "--test", "loom"]).env(PREEMPTIONS, preemptions);
    command.env("RUSTFLAGS", format!("{flags} --cfg loom").trim_start())
}

/// The modules of models of a crate, from their files.
pub(crate) fn models(root: &Path, of: &str) -> Result<Vec<String>> {
    let folder = root.join(of).join("tests/loom");
    let files = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let stems = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let mut models: Vec<String> = stems.filter(|stem| stem != "main").collect();
    models.sort_unstable();
    Ok(models)
}

/// True if a model has the name of this file, or of its folder: `src/rounds/task.rs` has `rounds` and `rounds_tasks`.
pub(crate) fn is_named_after(model: &str, file: &str) -> bool {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    path.split('/').any(|part| model.starts_with(part))
}

/// The models with these names; all models if there are none. In a separate folder: the flag changes every crate, and would replace the
/// usual build each time. The usual clippy does not see the models.
pub(crate) fn run(workspace: &Workspace, models: &[String]) -> Result<()> {
    let start = |what: &str| {
        let mut command = workspace::cargo(&workspace.root, &[what, "--locked"]);
        PROTOCOLS.iter().for_each(|folder| _ = command.args(["--package", package(folder)]));
        with_loom(&mut command).env("CARGO_TARGET_DIR", workspace.target.join("loom")).arg("--");
        command
    };
    succeed(start("clippy").args(["-D", "warnings"]))?;
    succeed(start("test").args(models.iter().map(|model| format!("{model}::"))))
}

/// The models of changed files, and all models where a change belongs to none, or is older than this clone.
pub(crate) fn run_changed(workspace: &Workspace) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("-c").arg(format!("safe.directory={}", workspace.root.display())).current_dir(&workspace.root);
    git.args(["diff", "--name-only", &format!("HEAD~{RECENT}"), "--"]).args(PROTOCOLS);
    let Ok(changed) = output_of(&mut git) else {
        println!("loom: this clone has fewer than {RECENT} commits, so all models run");
        return run(workspace, &[]);
    };
    let models = PROTOCOLS.iter().map(|of| models(&workspace.root, of)).collect::<Result<Vec<_>>>()?.concat();
    match models_of(changed.lines(), &models) {
        Some(models) if models.is_empty() => println!("loom: no protocol changed in {RECENT} commits"),
        models => run(workspace, &models.unwrap_or_default())?,
    }
    Ok(())
}

/// The models of these files, relative to the root; `None` if a file belongs to no model and so to all.
fn models_of<'a>(changed: impl Iterator<Item = &'a str>, models: &[String]) -> Option<Vec<String>> {
    let mut chosen = Vec::new();
    for file in changed.filter_map(|file| PROTOCOLS.iter().find_map(|folder| file.strip_prefix(folder))) {
        let Some(file) = file.strip_prefix("tests/loom/").or(file.starts_with("src/").then_some(file)) else {
            continue;
        };
        let count = chosen.len();
        chosen.extend(models.iter().filter(|model| is_named_after(model, file)).cloned());
        if chosen.len() == count {
            return None;
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    Some(chosen)
}

#[test]
fn models_of_changed_files_are_chosen() {
    let models = ["gate", "join", "rounds", "rounds_tasks", "table", "tree"].map(str::to_owned);
    let of = |files: &[&str]| {
        let files: Vec<String> = files.iter().map(|file| format!("crates/windrow-{file}")).collect();
        models_of(files.iter().map(String::as_str), &models)
    };
    assert_eq!(of(&["sync/README.md", "sync/tests/it/gate.rs", "bpe/src/cache.rs"]), Some(vec![]));
    assert_eq!(of(&["sync/src/join/tree.rs"]), Some(vec!["join".to_owned(), "tree".to_owned()]));
    assert_eq!(of(&["sync/tests/loom/rounds.rs", "sync/src/rounds/mod.rs"]).map(|it| it.len()), Some(2));
    assert_eq!(of(&["table/src/table/memory.rs"]), Some(vec!["table".to_owned()]));
    assert_eq!(of(&["sync/src/region/gate.rs", "sync/src/base/word.rs"]), None, "every protocol uses it");
}

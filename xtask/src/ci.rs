//! `cargo xtask ci`: everything that must hold before a commit goes in, in one command.

use std::process::Command;
use std::time::Instant;

use crate::workspace::{self, Failure, Workspace, text};
use crate::{arrows, house, licences, loom, orderings, results};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Workspace) -> Result<(), Failure>,
}

/// In the order in which they run: what fails in a second comes before what takes minutes.
const STEPS: [Step; 12] = [
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "house", what: "the rules of the house", run: house::run },
    Step { name: "orderings", what: "the list of memory orderings is up to date", run: orderings::run },
    Step { name: "results", what: "what documents quote is what the records say", run: results::run },
    Step { name: "arrows", what: "crates depend on each other in one direction", run: arrows::run },
    Step { name: "licences", what: "every dependency has an accepted licence", run: licences::run },
    Step { name: "clippy", what: "clippy has nothing to say", run: clippy },
    Step { name: "clippy-portable", what: "nor on the portable fallback", run: clippy_portable },
    Step { name: "doc", what: "the documentation builds without a warning", run: doc },
    Step { name: "test", what: "all tests", run: test },
    Step { name: "test-portable", what: "the same tests on the portable fallback", run: test_portable },
    Step { name: "loom", what: "the models of the synchronization", run: models },
];

pub(crate) fn describe() -> String {
    STEPS.iter().map(|step| format!("      {:16} {}\n", step.name, step.what)).collect()
}

pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<(), Failure> {
    let start = Instant::now();
    let mut summary = String::new();
    for step in chosen(names)? {
        println!("ci: {} ({})", step.name, step.what);
        let start = Instant::now();
        (step.run)(workspace).map_err(|Failure(what)| {
            Failure(format!(
                "{what}\nci: step `{0}` failed\n  hint: repeat it alone with cargo xtask ci {0}",
                step.name
            ))
        })?;
        let line = format!("{:16} {:7.1} s", step.name, start.elapsed().as_secs_f64());
        println!("ci: {line}  ok");
        summary.push_str(&format!("  {line}\n"));
    }
    println!("\nci: all steps passed\n{summary}  {:16} {:7.1} s", "together", start.elapsed().as_secs_f64());
    Ok(())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Step>, Failure> {
    if let Some(unknown) = names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Failure(format!("ci has no step {unknown}\n  hint: its steps are {}", known.join(", "))));
    }
    Ok(STEPS.iter().filter(|step| names.is_empty() || names.iter().any(|name| name == step.name)).collect())
}

/// Runs `cargo` with these words, its output shown as it comes.
fn cargo(workspace: &Workspace, words: &[&str], set: impl FnOnce(&mut Command)) -> Result<(), Failure> {
    let mut command = workspace::cargo();
    command.args(words).current_dir(&workspace.root);
    set(&mut command);
    let status = command.status().map_err(|error| Failure(format!("cannot start cargo: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure(format!("cargo {}: {status}", words.join(" ")))) }
}

fn fmt(workspace: &Workspace) -> Result<(), Failure> {
    cargo(workspace, &["fmt", "--all", "--check"], |_| {})
}

fn clippy(workspace: &Workspace) -> Result<(), Failure> {
    cargo(workspace, &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], |_| {})
}

fn clippy_portable(workspace: &Workspace) -> Result<(), Failure> {
    let portable = portable_members(workspace);
    let mut words = vec!["clippy", "--all-targets", "--locked", "--features", "portable"];
    words.extend(portable.iter().flat_map(|name| ["--package", name]));
    words.extend(["--", "-D", "warnings"]);
    cargo(workspace, &words, |_| {})
}

fn doc(workspace: &Workspace) -> Result<(), Failure> {
    cargo(workspace, &["doc", "--workspace", "--no-deps", "--locked"], |command| {
        command.env("RUSTDOCFLAGS", "-D warnings");
    })
}

fn test(workspace: &Workspace) -> Result<(), Failure> {
    cargo(workspace, &["test", "--workspace", "--locked"], |_| {})
}

fn test_portable(workspace: &Workspace) -> Result<(), Failure> {
    let portable = portable_members(workspace);
    let mut words = vec!["test", "--locked", "--features", "portable"];
    words.extend(portable.iter().flat_map(|name| ["--package", name]));
    cargo(workspace, &words, |_| {})
}

/// The members that can run on the portable fallback; the others do not notice it.
fn portable_members(workspace: &Workspace) -> Vec<&str> {
    let members = workspace.members().into_iter();
    members.filter(|member| !member["features"]["portable"].is_null()).map(|member| text(member, "name")).collect()
}

fn models(workspace: &Workspace) -> Result<(), Failure> {
    if !loom::has_models(workspace)? {
        println!("windrow-sync has no orderings yet, so there is nothing to model");
        return Ok(());
    }
    let words = ["test", "--package", "windrow-sync", "--release", "--locked", "--test", loom::TESTS];
    cargo(workspace, &words, |command| {
        loom::configure(command);
        // Its own folder: the flag changes every crate, and the usual build would be lost each time.
        command.env("CARGO_TARGET_DIR", workspace.target.join("loom"));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str]) -> Result<Vec<&'static str>, Failure> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        Ok(chosen(&wanted)?.into_iter().map(|step| step.name).collect())
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(names(&["arrows", "fmt"]).expect("both exist"), ["fmt", "arrows"]);
        assert_eq!(names(&[]).expect("all").len(), STEPS.len());
        let error = names(&["fmt", "fnt"]).expect_err("a typing error must not pass as nothing to do");
        assert!(error.0.contains("no step fnt") && error.0.contains("house, orderings"), "{error}");
    }

    #[test]
    fn every_crate_with_the_fallback_is_tested_on_it() {
        let workspace = Workspace::load().expect("cargo metadata works here");
        let mut portable = portable_members(&workspace);
        portable.sort_unstable();
        assert_eq!(portable, ["windrow", "windrow-cli", "windrow-sync", "windrow-tokenizers"]);
    }
}

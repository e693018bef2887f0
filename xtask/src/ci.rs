//! `cargo xtask ci`: runs all checks that must pass before a commit.

use std::process::Command;
use std::time::Instant;

use crate::suite::Repeat;
use crate::workspace::{self, Failure, Workspace};
use crate::{arrows, house, licences, loom, orderings, results, suite};

/// The crate of peers and measurements: its dependencies take longer to build than all other crates.
const BENCH: &str = "windrow-bench";

struct Step {
    name: &'static str,
    what: &'static str,
    /// Whether every run includes the step; otherwise it runs only by name.
    always: bool,
    run: fn(&Workspace) -> Result<(), Failure>,
}

/// In the order in which they run: steps of seconds come before steps of minutes.
const STEPS: [Step; 13] = [
    Step { name: "fmt", what: "the code is formatted", always: true, run: fmt },
    Step { name: "house", what: "the rules of the house", always: true, run: house::run },
    Step { name: "orderings", what: "the list of memory orderings is up to date", always: true, run: orderings::run },
    Step { name: "results", what: "the documents quote what the records say", always: true, run: results::run },
    Step { name: "arrows", what: "crates depend on each other in one direction", always: true, run: arrows::run },
    Step { name: "licences", what: "every dependency has an accepted licence", always: true, run: licences::run },
    Step { name: "clippy", what: "clippy finds nothing", always: true, run: clippy },
    Step { name: "clippy-portable", what: "the same on the portable fallback", always: true, run: clippy_portable },
    Step { name: "doc", what: "the documentation builds without a warning", always: true, run: doc },
    Step { name: "test", what: "all tests", always: true, run: test },
    Step { name: "test-portable", what: "the same tests on the portable fallback", always: true, run: test_portable },
    Step { name: "loom", what: "the models of the synchronization", always: true, run: models },
    Step {
        name: "bench",
        what: "clippy and tests of windrow-bench, beside its peers; only if named",
        always: false,
        run: bench,
    },
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
    let chosen = |step: &&Step| if names.is_empty() { step.always } else { names.iter().any(|name| name == step.name) };
    Ok(STEPS.iter().filter(chosen).collect())
}

/// Runs `cargo` with these words and shows its output at once.
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

/// All members except those that build the peers.
const EVERYDAY: [&str; 3] = ["--workspace", "--exclude", BENCH];

fn clippy(workspace: &Workspace) -> Result<(), Failure> {
    lint(workspace, &EVERYDAY)
}

fn clippy_portable(workspace: &Workspace) -> Result<(), Failure> {
    lint(workspace, &PORTABLE)
}

fn lint(workspace: &Workspace, of: &[&str]) -> Result<(), Failure> {
    let words = ["clippy", "--all-targets", "--locked"].iter().chain(of).chain(&["--", "-D", "warnings"]);
    cargo(workspace, &words.copied().collect::<Vec<_>>(), |_| {})
}

fn doc(workspace: &Workspace) -> Result<(), Failure> {
    let words = ["doc", "--no-deps", "--locked"].iter().chain(&EVERYDAY);
    cargo(workspace, &words.copied().collect::<Vec<_>>(), |command| {
        command.env("RUSTDOCFLAGS", "-D warnings");
    })
}

fn test(workspace: &Workspace) -> Result<(), Failure> {
    tests(workspace, &EVERYDAY)
}

fn test_portable(workspace: &Workspace) -> Result<(), Failure> {
    tests(workspace, &PORTABLE)
}

fn bench(workspace: &Workspace) -> Result<(), Failure> {
    lint(workspace, &["--package", BENCH])?;
    tests(workspace, &["--package", BENCH])
}

/// Unit and integration tests side by side, then the examples in the documentation.
fn tests(workspace: &Workspace, of: &[&str]) -> Result<(), Failure> {
    suite::run(workspace, &suite::build(workspace, of)?)?;
    let words = ["test", "--doc", "--locked"].iter().chain(of);
    cargo(workspace, &words.copied().collect::<Vec<_>>(), |_| {})
}

/// Runs the everyday tests, and those of the portable fallback, repeatedly. The examples in the documentation run in `ci` only.
pub(crate) fn repeat(workspace: &Workspace, how: &Repeat) -> Result<(), Failure> {
    suite::repeat(workspace, suite::build(workspace, &EVERYDAY)?, how)
}

/// The members whose code differs on the portable fallback, and the member whose tests run most of that code.
const PORTABLE: [&str; 6] =
    ["--package", "windrow-sync", "--package", "windrow", "--features", "windrow-sync/portable,windrow/portable"];

fn models(workspace: &Workspace) -> Result<(), Failure> {
    if !loom::has_models(workspace)? {
        println!("windrow-sync has no orderings yet, so there is nothing to model");
        return Ok(());
    }
    let words = ["test", "--package", "windrow-sync", "--release", "--locked", "--test", loom::TESTS];
    cargo(workspace, &words, |command| {
        loom::configure(command);
        // A separate folder: the flag changes every crate, and would replace the usual build each time.
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
        assert_eq!(names(&[]).expect("all").len(), STEPS.iter().filter(|step| step.always).count());
        let error = names(&["fmt", "fnt"]).expect_err("a typing error must not pass as nothing to do");
        assert!(error.0.contains("no step fnt") && error.0.contains("house, orderings"), "{error}");
    }

    /// A named step runs; a step that is not part of every run runs only by name.
    #[test]
    fn the_bench_has_its_own_command() {
        assert!(!names(&[]).expect("all").contains(&"bench"));
        assert_eq!(names(&["bench"]).expect("it exists"), ["bench"]);
    }

    /// Other crates only pass the feature on, so nothing else needs to be built a second time.
    #[test]
    fn the_fallback_is_windrow_syncs_alone() {
        let workspace = Workspace::load().expect("cargo metadata works here");
        let mut with: Vec<&str> = Vec::new();
        let files = workspace.files().expect("git lists the files");
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            let code = workspace::read(&workspace.root.join(file)).expect("a file of the workspace");
            if code.contains(concat!("feature = ", "\"portable\"")) {
                with.extend(file.split('/').nth(1));
            }
        }
        with.sort_unstable();
        with.dedup();
        assert_eq!(with, ["windrow", "windrow-sync"], "PORTABLE lists the crates that are tested on it");
    }
}

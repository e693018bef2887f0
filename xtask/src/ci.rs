//! `cargo xtask ci`: runs all checks that must pass before a commit.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use crate::suite::{self, Repeat};
use crate::workspace::{self, Workspace, succeed};
use crate::{api, book, deps, house, mutants, node, orderings, python, rayon, results};

/// In the order in which they run: steps of seconds come before steps of minutes.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Step {
    /// the code is formatted
    Fmt,
    /// the rules of the house
    House,
    /// the list of memory orderings is up to date
    Orderings,
    /// the documents quote what the records say
    Results,
    /// what is said of rayon's names and tests
    Rayon,
    /// crates depend on each other in one direction
    Arrows,
    /// every dependency has an accepted licence
    Licences,
    /// clippy finds nothing
    Clippy,
    /// the same on the portable fallback
    ClippyPortable,
    /// the documentation builds without a warning
    Doc,
    /// the book builds without a warning
    Book,
    /// all tests of Rust
    Test,
    /// the tests of the Python package
    Python,
    /// the tests of the Node package
    Node,
    /// the tests of Rust on the portable fallback
    TestPortable,
    /// the models of the synchronization
    Loom,
    /// clippy and tests of windrow-bench, beside its peers; only if named
    Bench,
    /// the public items of the libraries are those of api/; only if named
    Api,
    /// clippy and tests of inputs in object stores; only if named
    Store,
}

/// All members except the crate of peers and measurements: its dependencies take longer to build than all other crates. With the views of
/// ndarray, which an example of windrow-product uses anyway, the service of tower, and the spans of tracing.
const EVERYDAY: &[&str] =
    &["--workspace", "--exclude", "windrow-bench", "--features", "windrow/ndarray,windrow/tower,windrow/tracing"];

/// Steps that run only if they are named.
const BY_NAME: [Step; 3] = [Step::Bench, Step::Api, Step::Store];

const BENCH: &[&str] = &["--package", "windrow-bench"];

/// The crates with inputs in object stores, whose dependencies take longer to build than the crates. The command's other tests do not
/// depend on the feature.
const STORE: &[&str] = &["--package", "windrow-cli", "--features", "object-store", "--test", "store"];
const STORE_LIB: &[&str] = &["--package", "windrow-tokenizers", "--features", "object-store"];

/// The members whose code differs on the portable fallback, and the member whose tests run most of that code.
const PORTABLE: &[&str] =
    &["--package", "windrow-sync", "--package", "windrow", "--features", "windrow-sync/portable,windrow/portable"];

pub(crate) fn run(workspace: &Workspace, names: &[Step]) -> Result<()> {
    let (start, mut summary) = (Instant::now(), String::new());
    for step in chosen(names) {
        let value = step.to_possible_value().unwrap_or_default();
        let (name, what) = (value.get_name(), value.get_help().map_or(String::new(), ToString::to_string));
        println!("ci: {name} ({what})");
        let start = Instant::now();
        let hint = format!("ci: step `{name}` failed\n  hint: repeat it alone with cargo xtask ci {name}");
        one(workspace, step).map_err(|error| anyhow!("{error:#}\n{hint}"))?;
        let line = format!("{name:16} {:7.1} s", start.elapsed().as_secs_f64());
        println!("ci: {line}  ok");
        let _ = writeln!(summary, "  {line}");
    }
    println!("\nci: all steps passed\n{summary}  {:16} {:7.1} s", "together", start.elapsed().as_secs_f64());
    Ok(())
}

fn chosen(names: &[Step]) -> impl Iterator<Item = Step> {
    let is_chosen = |step: &Step| if names.is_empty() { !BY_NAME.contains(step) } else { names.contains(step) };
    Step::value_variants().iter().copied().filter(is_chosen)
}

fn one(workspace: &Workspace, step: Step) -> Result<()> {
    match step {
        Step::Fmt => cargo(workspace, &["fmt", "--all", "--check"], &[]),
        Step::House => house::run(workspace, false),
        Step::Orderings => orderings::run(workspace, false),
        Step::Results => results::run(workspace, false),
        Step::Rayon => rayon::run(workspace, false),
        Step::Arrows => deps::arrows(workspace),
        Step::Licences => deps::licences(workspace),
        Step::Clippy => lint(workspace, EVERYDAY),
        Step::ClippyPortable => lint(workspace, PORTABLE),
        Step::Doc => {
            let command = &mut workspace::cargo(&workspace.root, &["doc", "--no-deps", "--locked"]);
            succeed(command.args(EVERYDAY).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::Book => book::step(workspace),
        Step::Test => tests(workspace, EVERYDAY),
        Step::Python => python::run(workspace),
        Step::Node => node::run(workspace),
        Step::TestPortable => tests(workspace, PORTABLE),
        // A separate folder: the flag changes every crate, and would replace the usual build each time.
        Step::Loom => {
            let command = &mut workspace::cargo(&workspace.root, &["test", "--locked", "--package", "windrow-sync"]);
            succeed(mutants::models(command).env("CARGO_TARGET_DIR", workspace.target.join("loom")))
        }
        Step::Api => api::run(workspace, false),
        Step::Store => store(workspace),
        Step::Bench => lint(workspace, BENCH).and_then(|()| tests(workspace, BENCH)),
    }
}

fn cargo(workspace: &Workspace, words: &[&str], more: &[&str]) -> Result<()> {
    succeed(workspace::cargo(&workspace.root, words).args(more))
}

fn lint(workspace: &Workspace, of: &[&str]) -> Result<()> {
    cargo(workspace, &["clippy", "--all-targets", "--locked"], &[of, &["--", "-D", "warnings"]].concat())
}

/// With a real server of S3 if Python can install it.
fn store(workspace: &Workspace) -> Result<()> {
    lint(workspace, STORE_LIB)?;
    let command = &["clippy", "--locked"];
    cargo(workspace, command, &[STORE, &["--", "-D", "warnings"]].concat())?;
    cargo(workspace, &["test", "--locked", "--lib"], &[STORE_LIB, &["input"]].concat())?;
    let requirements = workspace.root.join("crates/windrow-cli/tests/store/requirements.txt");
    let mut tests = workspace::cargo(&workspace.root, &["test", "--locked"]);
    if let Some(bin) =
        python::environment(&workspace.target.join("store"), &requirements, "the tests with a real server")?
    {
        tests.env("WINDROW_MOTO", bin.join("moto_server"));
    }
    succeed(tests.args(STORE))
}

/// Unit and integration tests side by side, then the examples in the documentation.
fn tests(workspace: &Workspace, of: &[&str]) -> Result<()> {
    suite::run(workspace, &suite::build(&workspace.root, of)?)?;
    cargo(workspace, &["test", "--doc", "--locked"], of)
}

/// Runs the everyday tests repeatedly. The examples in the documentation run in `ci` only.
pub(crate) fn repeat(workspace: &Workspace, how: &Repeat) -> Result<()> {
    suite::repeat(workspace, suite::build(&workspace.root, EVERYDAY)?, how)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A named step runs; a step that is not part of every run runs only by name.
    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(chosen(&[Step::Arrows, Step::Fmt]).collect::<Vec<_>>(), [Step::Fmt, Step::Arrows]);
        assert_eq!(chosen(&[]).count(), Step::value_variants().len() - BY_NAME.len());
        assert!(chosen(&[]).all(|step| step != Step::Bench));
        assert_eq!(chosen(&[Step::Bench]).collect::<Vec<_>>(), [Step::Bench]);
    }

    /// Other crates only pass the feature on, so nothing else needs to be built a second time.
    #[test]
    fn the_fallback_is_windrow_syncs_alone() {
        let workspace = Workspace::load().expect("cargo metadata works here");
        let mut with: Vec<String> = Vec::new();
        let files = workspace.files().expect("git lists the files");
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            let code = workspace.read(file).expect("a file of the workspace");
            if code.contains(concat!("feature = ", "\"portable\"")) {
                with.extend(file.split('/').nth(1).map(str::to_owned));
            }
        }
        with.dedup();
        with.sort_unstable();
        with.dedup();
        assert_eq!(with, ["windrow", "windrow-sync"], "PORTABLE lists the crates that are tested on it");
    }
}

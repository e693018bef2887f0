//! `cargo xtask test` runs the tests, `cargo xtask ci` what a change must pass, `cargo xtask ci full` everything.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Error, Result, anyhow};
use clap::{Parser as _, ValueEnum};

use crate::suite::{self, Tests};
use crate::workspace::{self, Workspace, succeed};
use crate::{Task, book, checks, loom, node, python};

/// In the order in which they run: steps of seconds come before steps of minutes.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Step {
    /// the code is formatted
    Fmt,
    /// the house rules hold, and crates depend on each other in one direction only
    House,
    /// the documents quote what the records say
    Results,
    /// clippy finds nothing
    Clippy,
    /// all Rust, Python and Node tests: `cargo xtask test`
    Test,
    /// the Python package's types are correct
    Types,
    /// the models of the protocols that changed in the last 20 commits
    LoomChanged,
    /// clippy on the portable fallback
    ClippyPortable,
    /// the documentation builds without a warning
    Doc,
    /// the book builds without a warning
    Book,
    /// the Rust tests on the portable fallback
    TestPortable,
    /// all models of the protocols
    Loom,
    /// clippy and tests for inputs in object stores
    Store,
    /// every public method of the protocols, called from safe code under AddressSanitizer
    Sanitize,
    /// rayon's own tests on windrow
    Compat,
    /// clippy and tests for windrow-bench and its peers
    Bench,
    /// a model fails whenever a memory ordering is weakened
    Mutants,
    /// all of these, with ten times as many random test cases
    Full,
}

/// All members except the crate of peers and measurements: its dependencies take longer to build than all other crates. With teams of
/// tasks, the views of ndarray, which an example of windrow-product uses anyway, and the spans of tracing.
const EVERYDAY: &[&str] =
    &["--workspace", "--exclude=windrow-bench", "-Fwindrow/async-team,windrow/ndarray,windrow/tracing,xtask/checks"];

/// The short form of the contract, which is about optimized builds: windrow and one more crate.
const CONTRACT: &[&str] = &["--release", "--package", "windrow-testkit", "--features", "windrow-testkit/contract"];

const BENCH: &[&str] = &["--package", "windrow-bench"];

/// The crates with inputs in object stores, whose dependencies take longer to build than the crates. The command's other tests do not
/// depend on the feature.
const STORE: &[&str] = &["--package", "windrow-cli", "--features", "object-store", "--test", "store"];
const STORE_LIB: &[&str] = &["--package", "windrow-tokenizers", "--features", "object-store"];

/// The members whose code differs on the portable fallback, and the member whose tests run most of that code.
const PORTABLE: &[&str] =
    &["-pwindrow-sync", "-pwindrow", "-Fwindrow-sync/portable,windrow/portable,windrow/async-team"];

pub(crate) fn run(workspace: &Workspace, names: &[Step]) -> Result<()> {
    let (start, mut summary) = (Instant::now(), String::new());
    for step in chosen(names) {
        let value = step.to_possible_value().unwrap_or_default();
        let (name, what) = (value.get_name(), value.get_help().map_or(String::new(), ToString::to_string));
        println!("ci: {name} ({what})");
        let start = Instant::now();
        let hint = format!("ci: step `{name}` failed\n  hint: to rerun only this step, use cargo xtask ci {name}");
        one(workspace, step, names.contains(&Step::Full)).map_err(|error| anyhow!("{error:#}\n{hint}"))?;
        let line = format!("{name:16} {:7.1} s", start.elapsed().as_secs_f64());
        println!("ci: {line}  ok");
        let _ = writeln!(summary, "  {line}");
    }
    println!("\nci: all steps passed\n{summary}  {:16} {:7.1} s", "total", start.elapsed().as_secs_f64());
    Ok(())
}

/// The steps of these names; without names, those that a change must pass.
fn chosen(names: &[Step]) -> impl Iterator<Item = Step> {
    let is_chosen = move |step: &Step| match names {
        [] => *step as u8 <= Step::LoomChanged as u8,
        // All models include the changed ones.
        names if names.contains(&Step::Full) => ![Step::Full, Step::LoomChanged].contains(step),
        names => names.contains(step),
    };
    Step::value_variants().iter().copied().filter(is_chosen)
}

fn one(workspace: &Workspace, step: Step, is_full: bool) -> Result<()> {
    match step {
        Step::Fmt => cargo(workspace, &["fmt", "--all", "--check"], &[]),
        Step::House => checks::run(workspace, &["house"]),
        Step::Results => checks::run(workspace, &["results"]),
        Step::Clippy => lint(workspace, EVERYDAY),
        Step::Test => test(workspace, if is_full { Some("10") } else { None }),
        Step::Types => python::types(workspace),
        Step::LoomChanged => loom::run_changed(workspace),
        Step::ClippyPortable => lint(workspace, PORTABLE),
        Step::Doc => {
            let command = &mut workspace::cargo(&workspace.root, &["doc", "--no-deps", "--locked"]);
            succeed(command.args(EVERYDAY).env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::Book => book::run(workspace),
        Step::TestPortable => rust_tests(workspace, PORTABLE),
        Step::Loom => loom::run(workspace, &[]),
        Step::Store => store(workspace),
        Step::Sanitize => crate::run(workspace, &Task::try_parse_from(["xtask", "sanitize"])?),
        Step::Compat => compat(workspace),
        Step::Bench => lint(workspace, BENCH).and_then(|()| rust_tests(workspace, BENCH)),
        Step::Mutants => checks::run(workspace, &["mutants"]),
        Step::Full => Ok(()),
    }
}

/// All tests of Rust, Python and Node, of one build. `cases` multiplies the random cases of properties.
pub(crate) fn test(workspace: &Workspace, cases: Option<&str>) -> Result<()> {
    // Packages come from the network while Cargo builds.
    let (built, python, node) = thread::scope(|scope| {
        let packages = scope.spawn(|| (python::packages(workspace), node::packages(workspace)));
        let built = suite::build(&workspace.root, EVERYDAY);
        let (python, node) = packages.join().expect("an installation panics at nothing");
        Ok::<_, Error>((built?, python?, node?))
    })?;
    // Nothing else runs while calls are timed.
    suite::run(workspace, suite::build(&workspace.root, CONTRACT)?.tests, None)?;
    // The longest ones first.
    let mut tests = Vec::from_iter(python::tests(workspace, &built, python)?);
    tests.extend(node::tests(workspace, &built, node)?);
    tests.push(examples(workspace, EVERYDAY));
    tests.extend(built.tests);
    suite::run(workspace, tests, cases)
}

/// The examples in the documentation.
fn examples(workspace: &Workspace, of: &[&str]) -> Tests {
    let program = std::env::var_os("CARGO").map_or("cargo".into(), PathBuf::from);
    Tests::new("examples", program, &[&["test", "--doc", "--locked"], of].concat(), &workspace.root)
}

/// rayon's own tests: by rename, compared with the listed results, and through rayon-core.
fn compat(workspace: &Workspace) -> Result<()> {
    let run = |program: &str, words: &[&str]| succeed(Command::new(workspace.root.join(program)).args(words));
    run("compat/rayon/run-rayon-tests.py", &["--fetch", "--compare"])?;
    run("compat/rayon-core/run-rayon-tests.sh", &["--fetch"])
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
        python::environment(&workspace.target.join("store"), &requirements, "the tests with a real S3 server")?
    {
        tests.env("WINDROW_MOTO", bin.join("moto_server"));
    }
    succeed(tests.args(STORE))
}

/// Unit and integration tests, and the examples in the documentation.
fn rust_tests(workspace: &Workspace, of: &[&str]) -> Result<()> {
    let mut tests = suite::build(&workspace.root, of)?.tests;
    tests.push(examples(workspace, of));
    suite::run(workspace, tests, None)
}

#[test]
fn steps_are_chosen_by_name_and_keep_their_order() {
    let of = |names: &[Step]| chosen(names).collect::<Vec<_>>();
    assert_eq!(of(&[Step::Clippy, Step::Fmt]), [Step::Fmt, Step::Clippy]);
    assert_eq!(of(&[]).last(), Some(&Step::LoomChanged));
    assert_eq!(of(&[Step::Full]).len(), Step::value_variants().len() - 2, "all models include the changed ones");
}

//! `cargo xtask`: the checks of the windrow workspace, each runnable alone and all of them by `cargo xtask ci`.

mod book;
mod checks;
mod ci;
mod fuzz;
mod loom;
mod node;
mod python;
mod sanitize;
mod suite;
mod workspace;

#[cfg(feature = "checks")]
mod house;
#[cfg(feature = "checks")]
mod mutants;
#[cfg(feature = "checks")]
mod release;
#[cfg(feature = "checks")]
mod results;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use workspace::Workspace;

/// Checks for the windrow workspace.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    after_help = "Checks that read sources or records: house, results, mutants, release"
)]
enum Task {
    /// Run all Rust, Python and Node tests.
    Test,
    /// Run the steps that a change must pass, or the given ones (`full` runs all), and stop at the first failure.
    Ci {
        #[arg(value_name = "STEP")]
        steps: Vec<ci::Step>,
    },
    /// Run fuzz targets of crates/windrow-fuzz with libFuzzer. Needs a C++ compiler.
    Fuzz(fuzz::Options),
    /// Call every public method of the protocols from safe code under AddressSanitizer, on Linux or macOS.
    Sanitize(sanitize::Options),
    #[cfg(feature = "checks")]
    #[command(flatten)]
    Check(checks::Check),
    /// A check that this build does not include.
    #[cfg(not(feature = "checks"))]
    #[command(external_subcommand)]
    Check(Vec<String>),
}

fn main() -> ExitCode {
    let task = Task::parse();
    if let Err(error) = Workspace::load().and_then(|workspace| run(&workspace, &task)) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(workspace: &Workspace, task: &Task) -> Result<()> {
    match task {
        Task::Test => ci::test(workspace, None),
        Task::Ci { steps } => ci::run(workspace, steps),
        Task::Fuzz(options) => fuzz::run(workspace, options),
        Task::Sanitize(options) => sanitize::run(workspace, options),
        #[cfg(feature = "checks")]
        Task::Check(check) => check.run(workspace),
        #[cfg(not(feature = "checks"))]
        Task::Check(words) => checks::run(workspace, &words.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

#[test]
fn the_command_line_is_sound() {
    use clap::CommandFactory;
    Task::command().debug_assert();
}

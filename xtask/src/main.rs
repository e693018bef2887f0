//! `cargo xtask`: the checks of the windrow workspace, each runnable alone and all of them by `cargo xtask ci`.

mod api;
mod book;
mod checks;
mod ci;
mod deps;
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
mod orderings;
#[cfg(feature = "checks")]
mod release;
#[cfg(feature = "checks")]
mod results;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use workspace::Workspace;

/// Commands that a plain build leaves to a build with the feature `checks`.
const FURTHER: &str = "Checks that read sources and records: house, orderings, results, mutants, release";

/// Checks of the windrow workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = FURTHER)]
enum Task {
    /// Run all tests of Rust, Python and Node.
    Test,
    /// Run what a change must pass, or the named steps (`full`: all), and stop at the first failure.
    Ci {
        #[arg(value_name = "STEP")]
        steps: Vec<ci::Step>,
    },
    /// Run the tests N times, every second time beside two busy processes.
    Repeat(suite::Repeat),
    /// Run a fuzz target of crates/windrow-fuzz with libFuzzer; needs a C++ compiler.
    Fuzz(fuzz::Options),
    /// Run the calls of every public method of windrow-sync from safe code under AddressSanitizer; on Linux and macOS.
    Sanitize(sanitize::Options),
    /// Which crate may depend on which.
    Arrows,
    /// Build the book with mdBook, which is installed into the target folder first.
    Book,
    /// api/*.txt list the public items of the libraries.
    Api {
        /// Make them again.
        #[arg(long)]
        write: bool,
    },
    #[cfg(feature = "checks")]
    #[command(flatten)]
    Check(checks::Check),
    /// A check that this build does not have.
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
        Task::Repeat(how) => ci::repeat(workspace, how),
        Task::Fuzz(options) => fuzz::run(workspace, options),
        Task::Sanitize(options) => sanitize::run(workspace, options),
        Task::Arrows => deps::arrows(workspace),
        Task::Book => book::run(workspace),
        Task::Api { write } => api::run(workspace, *write),
        #[cfg(feature = "checks")]
        Task::Check(check) => check.run(workspace),
        #[cfg(not(feature = "checks"))]
        Task::Check(words) => checks::run(workspace, &words.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

#[cfg(all(test, feature = "checks"))]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn an_unknown_command_is_an_error() {
        Task::command().debug_assert();
        let parse = |words: &str| Task::try_parse_from(format!("xtask {words}").split(' ')).is_ok();
        for good in [
            "ci fmt arrows",
            "repeat 20 windrow::batch",
            "mutants --only gate --jobs 2 --timeout 30",
            "fuzz jsonl --seconds 9",
        ] {
            assert!(parse(good), "{good}");
        }
        for bad in ["mutant", "arrows now", "ci fnt", "repeat", "repeat 0", "repeat many", "mutants --jobs 0"] {
            assert!(!parse(bad), "{bad}");
        }
    }
}

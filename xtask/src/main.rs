//! `cargo xtask`: the checks of the windrow workspace, each runnable alone and all of them by `cargo xtask ci`.

mod api;
mod book;
mod ci;
mod deps;
mod fuzz;
mod house;
mod mutants;
mod node;
mod orderings;
mod python;
mod rayon;
mod release;
mod rerun;
mod results;
mod sanitize;
mod sources;
mod suite;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use workspace::Workspace;

/// Checks of the windrow workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Run all steps, or the named ones, and stop at the first failure.
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
    /// Every dependency has a licence on the list of deny.toml.
    Licences,
    /// Size of files, links, unsafe code, comments on orderings, forbidden words, constants without a measure.
    House {
        /// Make docs/constants.md anew.
        #[arg(long)]
        write: bool,
    },
    /// Build the book with mdBook, which is installed into the target folder first.
    Book,
    /// crates/windrow-sync/orderings.txt equals the source.
    Orderings,
    /// api/*.txt list the public items of the libraries.
    Api {
        /// Make them anew.
        #[arg(long)]
        write: bool,
    },
    /// The tables of docs/from-rayon.md are what api/windrow.txt and the results of rayon's tests say.
    Rayon {
        /// Make them anew.
        #[arg(long)]
        write: bool,
    },
    /// Figures, verdicts and bench/RESULTS.md are what bench/record says.
    Results {
        /// Make bench/RESULTS.md anew.
        #[arg(long)]
        write: bool,
    },
    /// docs/sources.md is what bench/sources.txt, bench/record and the planner say.
    Sources {
        /// Make it anew.
        #[arg(long)]
        write: bool,
    },
    /// Write a version into all files that repeat it, with the heading of the changelog; or compare them.
    Release(release::Options),
    /// Run the command of a record again, and say what moved.
    Rerun(rerun::Options),
    /// Weaken every memory ordering; a loom model must fail each time.
    Mutants(mutants::Options),
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
        Task::Ci { steps } => return ci::run(workspace, steps),
        Task::Repeat(how) => return ci::repeat(workspace, how),
        Task::Mutants(options) => return mutants::run(workspace, options),
        Task::Fuzz(options) => return fuzz::run(workspace, options),
        Task::Sanitize(options) => return sanitize::run(workspace, options),
        Task::Rerun(options) => return rerun::run(workspace, options),
        Task::Arrows => deps::arrows(workspace)?,
        Task::Licences => deps::licences(workspace)?,
        Task::Book => book::run(workspace)?,
        Task::House { write } => house::run(workspace, *write)?,
        Task::Orderings => orderings::run(workspace, false)?,
        Task::Api { write } => api::run(workspace, *write)?,
        Task::Rayon { write } => rayon::run(workspace, *write)?,
        Task::Release(options) => release::run(workspace, options)?,
        Task::Results { write } => results::run(workspace, *write)?,
        Task::Sources { write } => sources::run(workspace, *write)?,
    }
    println!("ok");
    Ok(())
}

#[cfg(test)]
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
            "rerun latency --runs 2 --by 5",
        ] {
            assert!(parse(good), "{good}");
        }
        for bad in [
            "mutant",
            "arrows now",
            "ci fnt",
            "repeat",
            "repeat 0",
            "repeat many",
            "mutants --jobs 0",
            "rerun",
            "rerun a --runs 0",
        ] {
            assert!(!parse(bad), "{bad}");
        }
    }
}

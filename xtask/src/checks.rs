//! Checks that read sources and records. They need the feature `checks`: their dependencies take longer to build than all others of this
//! program, and `cargo xtask test` needs none of them.

use anyhow::Result;
#[cfg(feature = "checks")]
use {
    crate::Task,
    crate::{house, mutants, release, results},
    clap::{Parser, Subcommand},
};

use crate::workspace::Workspace;

/// Commands of `cargo xtask`.
#[cfg(feature = "checks")]
#[derive(Subcommand)]
pub(crate) enum Check {
    /// Check the dependencies between crates, and find orderings without a partner, constants without a measure, and
    /// types that derive `Debug` over memory that may be uninitialized.
    House {
        /// Regenerate crates/windrow-plan/CONSTANTS.md.
        #[arg(long)]
        write: bool,
    },
    /// Check that the blocks of figures, the verdicts, the picture and the harm cells agree with bench/record, and that
    /// no comment breaks a paragraph.
    Results {
        /// Regenerate the blocks and files that do not agree.
        #[arg(long)]
        write: bool,
    },
    /// Write a version into all files that repeat it and add its heading to the changelog, or compare these files.
    Release(release::Options),
    /// Weaken each memory ordering and check that a loom model fails.
    Mutants(mutants::Options),
}

/// Runs a check that is given as on the command line.
#[cfg(feature = "checks")]
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<()> {
    crate::run(workspace, &Task::try_parse_from([&["xtask"], words].concat())?)
}

#[cfg(feature = "checks")]
impl Check {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<()> {
        match self {
            Check::House { write } => house::run(workspace, *write)?,
            Check::Results { write } => results::run(workspace, *write)?,
            Check::Release(options) => release::run(workspace, options)?,
            Check::Mutants(options) => return mutants::run(workspace, options),
        }
        println!("ok");
        Ok(())
    }
}

/// Builds this program with the checks, and passes these words on.
#[cfg(not(feature = "checks"))]
pub(crate) fn run(workspace: &Workspace, words: &[&str]) -> Result<()> {
    use crate::workspace::{cargo, succeed};
    let build = ["run", "--quiet", "--locked", "--package", "xtask", "--features", "checks", "--"];
    succeed(cargo(&workspace.root, &build).args(words))
}

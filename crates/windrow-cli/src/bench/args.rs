//! The options of `windrow bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use windrow_scenarios::ScenarioGroup;
use windrow_tokenizers::run::Threads;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow bench --quick
  windrow bench --quick --against rayon --report bench.html
  windrow bench --only loops,rounds --json bench.json
  windrow bench --threads 4 --report bench.html --json bench.json --overwrite

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done (even if windrow loses), 1 failed or a result is faster than the machine allows, 2 usage error, \
73 an output cannot be created, 74 writing failed, 129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.";

/// A library that windrow is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    Rayon,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Fewer repetitions: all cells in less than three minutes on an idle machine.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure only these groups of scenarios. Can be repeated.
    #[arg(long, value_name = "SHAPE,...", value_delimiter = ',', value_parser = groups())]
    pub(crate) only: Vec<ScenarioGroup>,

    /// Measure this library alongside windrow, in loops, recursion and rounds.
    #[arg(long, value_name = "LIBRARY", value_enum)]
    pub(crate) against: Option<Peer>,

    /// Threads for windrow and for the hand-picked choices; auto: as many as CPU affinity and quota allow.
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) threads: Threads,

    /// Write a page with pictures and all cells: one file without scripts, for any browser.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,

    /// Write all numbers as JSON.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) json: Option<PathBuf>,

    /// Replace existing files.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Show no progress and no notes on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Few cells and few repetitions, for tests.
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

fn groups() -> impl TypedValueParser<Value = ScenarioGroup> {
    PossibleValuesParser::new(ScenarioGroup::ALL.map(ScenarioGroup::name)).map(|name| {
        let named = ScenarioGroup::ALL.into_iter().find(|group| group.name() == name);
        named.expect("a possible value")
    })
}

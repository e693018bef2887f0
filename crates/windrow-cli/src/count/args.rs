//! The options of `windrow count`.

use clap::Args;
use windrow_tokenizers::run::CountSpec;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow count README.md
  windrow count --model gpt-4 src docs
  windrow count --top 10 .
  windrow count corpus.jsonl.gz corpus.parquet
  git diff | windrow count

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage error, 65 bad input, 74 reading or writing failed. If a file fails, the others are still counted.";

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) spec: CountSpec,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no notes on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show no progress bar, even on a terminal.
    #[arg(long)]
    pub(crate) no_progress: bool,
}

//! The options of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use windrow_tokenizers::run::{EncodeJob, EncodeRun};

#[cfg(feature = "bench")]
use crate::bench;
use crate::{count, dataset, doctor, plan};

const HELP: &str = "\
{about}

Examples:
  windrow count --model gpt-4o .
  windrow encode corpus/ more.jsonl.zst -o tokens
  windrow decode tokens ..3

{usage-heading} {usage}

{all-args}{after-help}
";

const ENCODE_HELP: &str = "\
{about}

Examples:
  windrow encode corpus/ more.jsonl.zst -o tokens --tokenizer Qwen/Qwen2.5-7B
  windrow encode 'corpus/*.jsonl.gz' -o gpt --tokenizer gpt2 --format nanogpt --split train=0.98,val=0.02 --shuffle 1
  lz4 -dc dump.lz4 | windrow encode - --lines -o shards --shard-size 1GiB --resume

{usage-heading} {usage}

{all-args}{after-help}
";

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage error, 65 bad input, 73 the output cannot be created, \
74 reading or writing failed, 129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.";

/// Counts tokens, encodes corpora of text into token files, and plans overlapped operations.
#[derive(Debug, Parser)]
#[command(name = "windrow", version, help_template = HELP, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Encode text into token files: OUT.ids.npy and similar files, and OUT.manifest.json.
    #[command(help_template = ENCODE_HELP, after_help = AFTER_HELP)]
    Encode(Box<Encode>),
    /// Count tokens per file and in total, as wc counts words.
    #[command(help_template = count::args::HELP, after_help = count::args::AFTER_HELP)]
    Count(Box<count::Options>),
    /// Read what encode wrote, and compare hashes, counts, offsets and ids with the manifest.
    #[command(after_help = dataset::AFTER_HELP)]
    Verify(dataset::Verify),
    /// Print, as text, the documents that encode wrote: all of them, or a range.
    #[command(after_help = dataset::AFTER_HELP)]
    Decode(dataset::Decode),
    /// Count the documents and tokens that encode wrote, with lengths and frequent ids.
    #[command(visible_alias = "head", after_help = dataset::AFTER_HELP)]
    Stat(dataset::Stat),
    /// Plan where to cut a matrix product that is fused with a collective, or report that cutting does not pay.
    #[command(help_template = plan::HELP, after_help = plan::AFTER_HELP)]
    Plan(Box<plan::Options>),
    /// Measure loops, rounds, batches, overlaps and encoding on this machine, against plain code and against hand-picked choices.
    #[cfg(feature = "bench")]
    #[command(help_template = bench::HELP, after_help = bench::AFTER_HELP)]
    Bench(bench::Options),
    /// Describe the machine as windrow sees it, and which engine encodes with a tokenizer, and why.
    #[command(help_template = doctor::HELP, after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Options),
    /// Print completions for a shell, or write the man pages into a folder: for those who package the command.
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell, such as bash, fish or zsh.
    #[arg(required_unless_present = "man")]
    pub(crate) shell: Option<clap_complete::Shell>,

    /// Write the man pages of all subcommands into this folder, as windrow.1, windrow-encode.1 and so on.
    #[arg(long, value_name = "FOLDER", conflicts_with = "shell")]
    pub(crate) man: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Encode {
    #[command(flatten)]
    pub(crate) job: EncodeJob,

    #[command(flatten)]
    pub(crate) run: EncodeRun,

    /// Take the options that decide the output from this file: JSON with the names of the options, or the OUT.manifest.json of a run.
    /// Options on the command line must not contradict it.
    #[arg(long, help_heading = "Run", value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,

    /// The names of the options that the command line has.
    #[arg(skip)]
    pub(crate) given: Vec<String>,

    /// Print one JSON object with the counts on stdout.
    #[arg(long, help_heading = "Run")]
    pub(crate) json: bool,

    /// Print on stderr, at the end, which engine encoded, why, how its cache was used, and which stage limited the run.
    #[arg(long, help_heading = "Run")]
    pub(crate) explain: bool,

    /// Print only errors on stderr.
    #[arg(short, long, help_heading = "Run")]
    pub(crate) quiet: bool,

    /// Show no progress bar, even on a terminal.
    #[arg(long, help_heading = "Run")]
    pub(crate) no_progress: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}

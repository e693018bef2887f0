//! The options of the command line.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use windrow_tokenizers::encode::{Job, MaxSkipped};
use windrow_tokenizers::manifest::{OnError, PackMode, PartShare, Share};
use windrow_tokenizers::output::{Dtype, Format};

use crate::chat::ChatOptions;
use crate::texts::Texts;
use crate::{bench, count, dataset, doctor, plan, size};

const HELP: &str = "\
{about}

Examples:
  windrow count --model gpt-4o .
  windrow encode README.md -o readme
  windrow encode --all-text src/ -o code
  windrow encode corpus/ more.jsonl.zst -o tokens --threads 2
  windrow encode 'corpus/*.jsonl.gz' -o train --tokenizer gpt2 --format nanogpt
  windrow encode corpus/ -o shards --shard-size 1GiB --resume
  windrow encode corpus/ -o gpt --tokenizer gpt2 --format nanogpt --split train=0.98,val=0.02 --shuffle 1
  zcat dump.gz | windrow encode - --lines -o tokens --tokenizer path/to/tokenizer.json --json

{usage-heading} {usage}

{all-args}{after-help}
";

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 65 bad input, 73 the output cannot be created, 74 reading or writing failed, \
129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.";

/// Counts tokens, encodes corpora of text into token files, and plans overlapped operations.
#[derive(Debug, Parser)]
#[command(name = "windrow", version, help_template = HELP, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Encode text into token files: OUT.ids.npy and similar files, beside OUT.manifest.json.
    #[command(help_template = HELP, after_help = AFTER_HELP)]
    Encode(Box<Encode>),
    /// Count tokens per file and in total, as wc counts words.
    #[command(help_template = count::args::HELP, after_help = count::args::AFTER_HELP)]
    Count(Box<count::Options>),
    /// Read what encode has written, and compare hashes, counts, offsets and ids with the manifest.
    #[command(after_help = dataset::AFTER_HELP)]
    Verify(dataset::Verify),
    /// Print a document of what encode has written as text.
    #[command(after_help = dataset::AFTER_HELP)]
    Decode(dataset::Decode),
    /// Count documents and tokens of what encode has written, with lengths and frequent ids.
    #[command(visible_alias = "head", after_help = dataset::AFTER_HELP)]
    Stat(dataset::Stat),
    /// Plan where to cut a matrix product that is fused with a collective, or report that cutting does not pay.
    #[command(help_template = plan::HELP, after_help = plan::AFTER_HELP)]
    Plan(Box<plan::Options>),
    /// Measure loops, rounds, batches, overlaps and encoding on this machine, against plain code and against choices by hand.
    #[command(help_template = bench::HELP, after_help = bench::AFTER_HELP)]
    Bench(bench::Options),
    /// Describe the machine as windrow sees it, and the engine that a tokenizer gets, with the reason.
    #[command(help_template = doctor::HELP, after_help = doctor::AFTER_HELP)]
    Doctor(doctor::Options),
}

#[derive(Debug, Args)]
pub(crate) struct Encode {
    /// Files, directories, quoted patterns, or `-` for stdin: .txt .text .md .jsonl .ndjson, plain or .gz .zst .zstd; .parquet. With the
    /// feature object-store also s3://, gs:// and https:// URLs; one that ends with / is a directory.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<String>,

    /// Prefix of the files to write: out/corpus becomes out/corpus.ids.npy and so on.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) vocabulary: count::args::Vocabulary,

    /// Layout of the output.
    #[arg(long, default_value = Format::Npy.name(), value_parser = named::<Format, _>(Format::ALL.map(Format::name)))]
    pub(crate) format: Format,

    /// Type of the ids; by default the size of the vocabulary decides.
    #[arg(long, value_parser = named::<Dtype, _>(Dtype::ALL.map(Dtype::name)))]
    pub(crate) dtype: Option<Dtype>,

    /// The token that ends a document, by its name or its id; known for the embedded vocabularies.
    #[arg(long, value_name = "TOKEN|ID")]
    pub(crate) eos: Option<String>,

    /// Append the token that ends a document to every document; nanogpt always does.
    #[arg(long)]
    pub(crate) append_eos: bool,

    /// Begin every document with this token, given by its name or its id.
    #[arg(long, value_name = "TOKEN|ID")]
    pub(crate) bos: Option<String>,

    #[command(flatten)]
    pub(crate) texts: Texts,

    /// Fields or columns to carry along: in OUT.kept.jsonl, a line per document; as columns with arrow and parquet.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) keep: Vec<String>,

    #[command(flatten)]
    pub(crate) chat: ChatOptions,

    /// Threads that encode; auto: as many as affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
    #[arg(long, value_name = "auto|N", value_parser = size::threads)]
    pub(crate) threads: Option<usize>,

    /// Memory budget of the run, such as 512M; the tokenizer comes on top.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::bytes)]
    pub(crate) memory: usize,

    /// What to do with a bad document: end the run, or skip it and list it in OUT.skipped.jsonl.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on_error: Policy,

    /// Maximum number of documents to skip, or a percentage of those read. If all are bad, the run always fails.
    #[arg(long, value_name = "N|P%", value_parser = size::most_skipped)]
    pub(crate) max_skipped: Option<MaxSkipped>,

    /// End with the document that is the N-th good one; what follows is not read.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroU64>,

    /// Encode a share of the documents, such as 0.01 or 1%, chosen by a hash of the seed, the input and the document's number in it.
    #[arg(long, value_name = "P|P%", value_parser = size::share)]
    pub(crate) sample: Option<Share>,

    /// Divide the documents by a hash: with train=0.98,val=0.02 into OUT.train.bin and OUT.val.bin. The shares add up to 1.
    #[arg(long, value_name = "NAME=P,...", value_delimiter = ',', value_parser = size::part)]
    pub(crate) split: Vec<PartShare>,

    /// Write the documents in another order, which depends on this number. They wait on the disk of OUT if they do not fit in --memory.
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<u64>,

    /// Another number chooses other documents for --sample, and for the parts of --split [default: 0].
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,

    /// Make rows of N ids of the documents, one after the other, for models with a fixed context; OUT.cu_seqlens.npy and OUT.docs.npy tell
    /// where the documents are.
    #[arg(long, value_name = "N")]
    pub(crate) pack: Option<NonZeroUsize>,

    /// How documents become rows: cut at the end of a row, or whole, unless longer than a row.
    #[arg(long, default_value = PackMode::Split.name(), requires = "pack",
        value_parser = named::<PackMode, _>(PackMode::ALL.map(PackMode::name)))]
    pub(crate) pack_mode: PackMode,

    /// The token that fills incomplete rows, by its name or its id. Without it, the incomplete row at the end is dropped.
    #[arg(long, value_name = "TOKEN|ID", requires = "pack")]
    pub(crate) pad: Option<String>,

    /// Replace existing files, once the new ones are complete.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Divide the output into shards of about this size of token data, such as 1GiB: OUT-00000.bin, OUT-00001.bin and so on. Each is
    /// complete by itself, and no document is divided. The format mds always has shards, of 64MiB by default.
    #[arg(long, value_name = "SIZE", value_parser = size::bytes)]
    pub(crate) shard_size: Option<usize>,

    /// Continue behind the last finished shard of an interrupted run with the same inputs and options, if there was one. Needs
    /// --shard-size, but for mds.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Add the tokens that the template of a tokenizer.json puts around a document, such as [CLS] and [SEP].
    #[arg(long)]
    pub(crate) add_special_tokens: bool,

    /// Print one JSON object with the counts on stdout.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print on stderr, at the end, which engine encoded, why, how its cache was used, and which stage limited the run.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Write when each batch was in each stage, as a timeline for Perfetto or Chrome.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Print only errors on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show no progress bar, even on a terminal.
    #[arg(long)]
    pub(crate) no_progress: bool,

    /// Inputs that are read at the same time; auto: as many as pay.
    #[arg(long, hide = true, value_name = "auto|N", default_value = "auto", value_parser = size::threads)]
    pub(crate) readers: usize,

    /// Bytes of documents that a thread claims at a time.
    #[arg(long, hide = true, value_name = "SIZE", default_value_t = Job::CHUNK_BYTES, value_parser = size::bytes)]
    pub(crate) chunk_bytes: usize,
}

/// Values by the names that their type already has.
fn named<T, const N: usize>(names: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    #[default]
    Fail,
    Skip,
}

impl From<Policy> for OnError {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Fail => Self::Fail,
            Policy::Skip => Self::Skip,
        }
    }
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

//! The options of `windrow count`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use windrow_tokenizers::tokenizer::EngineChoice;

use crate::size;
use crate::texts::Texts;

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
Exit codes: 0 done, 1 failed, 2 usage, 65 bad input, 74 reading or writing failed; all other files are counted.";

/// The vocabulary when the command line names none.
const DEFAULT: &str = "o200k_base";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, directories (the files below them, except hidden ones and those that .gitignore names), quoted patterns, or `-` for stdin,
    /// which is also read if a pipe leads there and no input is named. JSON lines and Parquet are counted by document, and .gz and .zst
    /// are decompressed; all else is text.
    #[arg(value_name = "INPUT")]
    pub(crate) inputs: Vec<OsString>,

    #[command(flatten)]
    pub(crate) vocabulary: Vocabulary,

    /// Print the N files with the most tokens, and the total of all files.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) texts: Texts,

    /// Count the bytes of each file as they lie, as one text.
    #[arg(long, conflicts_with_all = ["lines", "field", "join", "input_format", "ext", "all_text"])]
    pub(crate) raw: bool,

    /// Threads that count; auto: as many as affinity and quota allow.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = size::threads)]
    pub(crate) threads: usize,

    /// Memory budget of the run, such as 512M; the tokenizer comes on top.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::bytes)]
    pub(crate) memory: usize,

    /// Print no notes on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Show no progress bar, even on a terminal.
    #[arg(long)]
    pub(crate) no_progress: bool,
}

/// The vocabulary to count with.
#[derive(Debug, Args)]
pub(crate) struct Vocabulary {
    /// An OpenAI model, such as gpt-4o, gpt-4, o3 or text-embedding-3-small.
    #[arg(long, value_name = "NAME", conflicts_with = "tokenizer")]
    pub(crate) model: Option<String>,

    /// A vocabulary (r50k_base or gpt2, cl100k_base, o200k_base), or the path of a tokenizer.json or .tiktoken file [default: o200k_base].
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) tokenizer: Option<String>,

    /// The engine that encodes; all give the same ids.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub(crate) engine: Engine,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// windrow's own engine where it can, otherwise one of Hugging Face's.
    #[default]
    Auto,
    /// windrow's own engine, or an error that says why it cannot.
    Windrow,
    /// One of the engines of Hugging Face's tokenizers.
    Tokenizers,
}

impl From<Engine> for EngineChoice {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Automatic,
            Engine::Windrow => Self::Windrow,
            Engine::Tokenizers => Self::Tokenizers,
        }
    }
}

impl Vocabulary {
    /// The name or path of the tokenizer.
    pub(crate) fn name(&self) -> Result<&str, windrow_tokenizers::tokenizer::LoadError> {
        match &self.model {
            Some(model) => windrow_tokenizers::tokenizer::vocabulary_of(model),
            None => Ok(self.tokenizer.as_deref().unwrap_or(DEFAULT)),
        }
    }

    /// The name in a summary: the tokenizer's name or path, or the model of the command line if no vocabulary is known for it.
    pub(crate) fn shown(&self) -> &str {
        self.name().unwrap_or_else(|_| self.model.as_deref().unwrap_or(DEFAULT))
    }
}

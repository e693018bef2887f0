//! The options of `windrow count`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use windrow_tokenizers::tokenizer::EngineChoice;

use crate::size;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow count README.md
  windrow count --model gpt-4 src docs
  windrow count --top 10 .
  git diff | windrow count -

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 65 a file is not text, 74 reading or writing failed; all other files are counted.";

/// The vocabulary when the command line names none.
const DEFAULT: &str = "o200k_base";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Text files, directories (text files below them, except hidden ones and those that .gitignore names), or `-` for stdin.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) vocabulary: Vocabulary,

    /// Print the N files with the most tokens, and the total of all files.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// In directories, count hidden files too.
    #[arg(long)]
    pub(crate) hidden: bool,

    /// In directories, also count files that .gitignore and similar files name.
    #[arg(long)]
    pub(crate) no_ignore: bool,

    /// Threads that count; auto: as many as affinity and quota allow.
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = size::threads)]
    pub(crate) threads: usize,

    /// Print no notes on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,
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

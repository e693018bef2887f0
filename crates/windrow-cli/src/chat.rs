//! The options of conversations.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use windrow_tokenizers::chat::{Chat, ChatError, ChatTemplate, Date, Loss, SpecialTokens};
use windrow_tokenizers::input::{self, InputFile};
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::Tokenizer;

use crate::exit::Code;

/// The value of `--chat` that stands for the tokenizer's own template.
const AUTO: &str = "auto";

#[derive(Debug, Args)]
pub(crate) struct ChatOptions {
    /// Take the messages of JSON lines as conversations, and render them by a chat template: that beside the tokenizer.json, or a file.
    #[arg(
        long,
        value_name = "auto|FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = AUTO
    )]
    pub(crate) chat: Option<PathBuf>,

    /// The tokens that count in training. With assistant, masks are written: OUT.mask.npy, OUT.ds.loss for datatrove, or a field or
    /// column mask.
    #[arg(long, value_enum, requires = "chat")]
    pub(crate) loss: Option<LossOf>,

    /// The day that a chat template sees as today.
    #[arg(long, value_name = "YYYY-MM-DD", requires = "chat")]
    pub(crate) chat_date: Option<Date>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LossOf {
    /// All of them; no masks.
    All,
    /// Those of an assistant.
    Assistant,
}

impl From<LossOf> for Loss {
    fn from(loss: LossOf) -> Self {
        match loss {
            LossOf::All => Self::All,
            LossOf::Assistant => Self::Assistant,
        }
    }
}

impl From<&ChatError> for Code {
    fn from(error: &ChatError) -> Self {
        match error {
            ChatError::Missing { .. } => Self::Usage,
            ChatError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Self::Missing,
            ChatError::Read { .. } => Self::Io,
            ChatError::Invalid { .. } => Self::BadInput,
            _ => Self::Failed,
        }
    }
}

/// What of other options matters to conversations.
pub(crate) struct Beside {
    /// Number of fields.
    pub(crate) fields: usize,
    pub(crate) add_special_tokens: bool,
}

/// What contradicts conversations, if they are asked for.
pub(crate) fn check(options: &ChatOptions, beside: Beside, files: &[InputFile]) -> Result<(), String> {
    if options.chat.is_none() {
        return Ok(());
    }
    if beside.fields > 1 {
        return Err("--chat takes the messages of one field\nhint: give --field once".to_owned());
    }
    if beside.add_special_tokens {
        return Err("--add-special-tokens contradicts --chat\nhint: leave it out: the template adds them".to_owned());
    }
    match files.iter().find(|file| file.format() != input::Format::Jsonl) {
        Some(file) => {
            let name = shown(file.name());
            let message = format!("{name}: --chat reads JSON lines, and this is {}", kind(file.format()));
            Err(format!("{message}\nhint: leave it out, or pass --input-format jsonl if its lines are JSON"))
        }
        None => Ok(()),
    }
}

fn kind(format: input::Format) -> &'static str {
    match format {
        input::Format::Parquet => "Parquet",
        _ => "text",
    }
}

/// Loads the template that the options name, if they name one.
pub(crate) fn load(
    options: &ChatOptions,
    tokenizer: &Tokenizer,
    mut note: impl FnMut(&String),
) -> Result<Option<Chat>, ChatError> {
    let Some(named) = &options.chat else { return Ok(None) };
    // A vocabulary of windrow has a name, and is no file.
    let path = Path::new(tokenizer.name());
    let template = match tokenizer.eos() {
        None if named == Path::new(AUTO) => ChatTemplate::beside(path)?,
        None => ChatTemplate::from_file(named, SpecialTokens::beside(path)?)?,
        Some(_) if named == Path::new(AUTO) => {
            let hint = "name the file of one: --chat=FILE, or give a tokenizer.json that has one beside it";
            return Err(ChatError::Missing { name: tokenizer.name().to_owned(), hint: hint.to_owned() });
        }
        Some((eos, _)) => {
            let mut tokens = SpecialTokens::default();
            tokens.set("eos_token", eos);
            ChatTemplate::from_file(named, tokens)?
        }
    };
    let shown = shown(template.name());
    for name in template.unknown_tokens() {
        note(&format!("chat template {shown}: {name} is empty: no tokenizer_config.json beside the tokenizer has it"));
    }
    for (name, token) in template.special_tokens().iter().filter(|(_, token)| tokenizer.token_to_id(token).is_none()) {
        note(&format!("chat template {shown}: the {name} {token:?} is no token of the vocabulary"));
    }
    let template = match options.chat_date {
        Some(date) => template.with_date(date),
        None => template,
    };
    Ok(Some(Chat { template, loss: options.loss.map(Loss::from).unwrap_or_default() }))
}

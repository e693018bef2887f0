//! The chat template of a run.

#[cfg(feature = "chat")]
use std::path::Path;

use super::failure::Failed;
use crate::chat::Chat;
use crate::input::{self, InputFile};
use crate::shown;
use crate::spec::EncodeJob;
use crate::tokenizer::Tokenizer;

/// Refuses options that contradict conversations, if those are requested.
pub(super) fn check(job: &EncodeJob, files: &[InputFile]) -> Result<(), Failed> {
    if job.chat.is_none() {
        return Ok(());
    }
    if job.texts.field.len() > 1 {
        return Err(Failed::usage("--chat takes its messages from one field\nhint: pass --field only once"));
    }
    if job.add_special_tokens {
        let message = "--add-special-tokens cannot be combined with --chat\n\
                       hint: omit --add-special-tokens, because the template adds these tokens";
        return Err(Failed::usage(message));
    }
    let has_fields = |file: &&InputFile| matches!(file.format(), input::Format::Jsonl | input::Format::Parquet);
    match files.iter().find(|file| !has_fields(file)) {
        Some(file) => Err(Failed::usage(format!(
            "{}: --chat reads JSON lines and Parquet, but this file is neither\n\
             hint: omit the file, or pass --input-format jsonl if its lines are JSON",
            shown(file.name())
        ))),
        None => Ok(()),
    }
}

/// Loads the template that the options name, if they name one.
#[cfg(feature = "chat")]
pub(super) fn load(job: &EncodeJob, tokenizer: &Tokenizer, note: impl FnMut(&str)) -> Result<Option<Chat>, Failed> {
    let Some(named) = &job.chat else { return Ok(None) };
    let file = Some(named.as_path()).filter(|named| *named != Path::new(EncodeJob::AUTO));
    Ok(Some(Chat::load(file, job.loss.unwrap_or_default(), job.chat_date, tokenizer, note)?))
}

/// Refuses options that name a template.
#[cfg(not(feature = "chat"))]
pub(super) fn load(job: &EncodeJob, _: &Tokenizer, _: impl FnMut(&str)) -> Result<Option<Chat>, Failed> {
    let refused = "--chat: this build cannot render chat templates\nhint: build windrow with the `chat` feature";
    if job.chat.is_none() { Ok(None) } else { Err(Failed::usage(refused)) }
}

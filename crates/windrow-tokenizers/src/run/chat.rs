//! The chat template of a run.

use std::path::Path;

use super::failure::Failed;
use super::spec::EncodeJob;
use crate::chat::{Chat, ChatError, ChatTemplate, SpecialTokens};
use crate::input::{self, InputFile};
use crate::shown;
use crate::tokenizer::{Tokenizer, path_of};

/// Refuses what contradicts conversations, if they are asked for.
pub(super) fn check(job: &EncodeJob, files: &[InputFile]) -> Result<(), Failed> {
    if job.chat.is_none() {
        return Ok(());
    }
    if job.texts.field.len() > 1 {
        return Err(Failed::usage("--chat takes the messages of one field\nhint: give --field once"));
    }
    if job.add_special_tokens {
        let message = "--add-special-tokens contradicts --chat\nhint: leave it out: the template adds them";
        return Err(Failed::usage(message));
    }
    match files.iter().find(|file| file.format() != input::Format::Jsonl) {
        Some(file) => {
            let kind = if file.format() == input::Format::Parquet { "Parquet" } else { "text" };
            Err(Failed::usage(format!(
                "{}: --chat reads JSON lines, and this is {kind}\n\
                 hint: leave it out, or pass --input-format jsonl if its lines are JSON",
                shown(file.name())
            )))
        }
        None => Ok(()),
    }
}

/// Loads the template that the options name, if they name one.
pub(super) fn load(
    job: &EncodeJob,
    tokenizer: &Tokenizer,
    mut note: impl FnMut(&str),
) -> Result<Option<Chat>, ChatError> {
    let Some(named) = &job.chat else { return Ok(None) };
    let is_auto = named == Path::new(EncodeJob::AUTO);
    // A vocabulary of windrow has a name, and is no file.
    let path = path_of(tokenizer.name());
    let template = match tokenizer.eos() {
        None if is_auto => ChatTemplate::beside(&path)?,
        None => ChatTemplate::from_file(named, SpecialTokens::beside(&path)?)?,
        Some(_) if is_auto => {
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
    let template = match job.chat_date {
        Some(date) => template.with_date(date),
        None => template,
    };
    Ok(Some(Chat { template, loss: job.loss.unwrap_or_default() }))
}

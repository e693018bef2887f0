//! The ids that begin and end a document, and fill rows.

use super::failure::Failed;
use crate::manifest::Pack;
use crate::output::Format;
use crate::shown;
use crate::spec::EncodeJob;
use crate::tokenizer::Tokenizer;
use crate::values::TokenName;

/// Number of special tokens that an error lists.
const SHOWN: usize = 8;

/// The id to append to documents, if any.
pub(super) fn eos(tokenizer: &Tokenizer, job: &EncodeJob) -> Result<Option<u32>, Failed> {
    if !job.append_eos && job.format != Format::Nanogpt {
        return match job.eos {
            None => Ok(None),
            Some(_) => Err(Failed::usage(format!(
                "--eos has no effect: the {} format marks the ends of documents without an id\n\
                 hint: pass --append-eos too, or omit --eos",
                job.format
            ))),
        };
    }
    let Some(asked) = &job.eos else {
        return match tokenizer.eos() {
            Some((_, id)) => Ok(Some(id)),
            None => Err(Failed::usage(format!(
                "the end-of-document token of {} is unknown\nhint: pass it with --eos; {}",
                shown(tokenizer.name()),
                candidates(tokenizer)
            ))),
        };
    };
    named(tokenizer, "--eos", asked).map(Some)
}

/// The id with which documents begin, if any. No vocabulary has a usual id for it, so the id must be named.
pub(super) fn bos(tokenizer: &Tokenizer, job: &EncodeJob) -> Result<Option<u32>, Failed> {
    job.bos.as_ref().map(|asked| named(tokenizer, "--bos", asked)).transpose()
}

/// The rows that documents become, if the output is packed.
pub(super) fn pack(tokenizer: &Tokenizer, job: &EncodeJob) -> Result<Option<Pack>, Failed> {
    let pad = job.pad.as_ref().map(|asked| named(tokenizer, "--pad", asked)).transpose()?;
    Ok(job.pack.map(|length| Pack { length, mode: job.pack_mode, pad }))
}

/// The id that the value of an option names: a token, or the number of an id.
fn named(tokenizer: &Tokenizer, option: &str, asked: &TokenName) -> Result<u32, Failed> {
    let asked = asked.as_str();
    // A vocabulary has tokens that are digits, but such a token never begins or ends a document.
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return match asked.parse() {
            Ok(id) if id < tokenizer.vocab_size() => Ok(id),
            _ => Err(Failed::usage(format!(
                "{option} {asked}: the largest id of {} is {}\nhint: {}",
                shown(tokenizer.name()),
                tokenizer.vocab_size().saturating_sub(1),
                candidates(tokenizer)
            ))),
        };
    }
    tokenizer.token_to_id(asked).ok_or_else(|| {
        Failed::usage(format!(
            "{option} {asked:?}: {} has no such token\nhint: {}",
            shown(tokenizer.name()),
            candidates(tokenizer)
        ))
    })
}

/// A clause that lists the special tokens, likely end-of-text tokens first.
fn candidates(tokenizer: &Tokenizer) -> String {
    let special = tokenizer.eos_candidates();
    if special.is_empty() {
        return "the tokenizer has no special tokens, but any of its tokens or ids can be passed".to_owned();
    }
    let shown: Vec<String> = special.iter().take(SHOWN).map(|(token, id)| format!("{} ({id})", shown(token))).collect();
    let more = if special.len() > SHOWN { ", ..." } else { "" };
    let are = if shown.len() == 1 { "token is" } else { "tokens are" };
    format!("the special {are} {}{more}", shown.join(", "))
}

//! Selects the ids that begin and end a document, and fill rows.

use windrow_tokenizers::manifest::Pack;
use windrow_tokenizers::output::Format;
use windrow_tokenizers::shown;
use windrow_tokenizers::tokenizer::Tokenizer;

use crate::args::Encode;

/// Number of special tokens that an error lists.
const SHOWN: usize = 8;

/// The id to append to documents, if any. `asked` is a token, or the number of an id.
pub(crate) fn eos(
    tokenizer: &Tokenizer,
    format: Format,
    append: bool,
    asked: Option<&str>,
) -> Result<Option<u32>, String> {
    if !append && format != Format::Nanogpt {
        return match asked {
            None => Ok(None),
            Some(_) => Err(format!(
                "--eos has no effect: the {format} format ends documents by their offsets alone\n\
                 hint: pass --append-eos too, or leave out --eos"
            )),
        };
    }
    let Some(asked) = asked else {
        return match tokenizer.eos() {
            Some((_, id)) => Ok(Some(id)),
            None => Err(format!(
                "the token that ends a document of {} is not known\nhint: name it with --eos: {}",
                shown(tokenizer.name()),
                candidates(tokenizer)
            )),
        };
    };
    named(tokenizer, "--eos", asked).map(Some)
}

/// The id with which documents begin, if any. No vocabulary has a usual one, so it must be named.
pub(crate) fn bos(tokenizer: &Tokenizer, asked: Option<&str>) -> Result<Option<u32>, String> {
    asked.map(|asked| named(tokenizer, "--bos", asked)).transpose()
}

/// How documents become rows, if they do.
pub(crate) fn pack(tokenizer: &Tokenizer, options: &Encode) -> Result<Option<Pack>, String> {
    let pad = options.pad.as_deref().map(|asked| named(tokenizer, "--pad", asked)).transpose()?;
    Ok(options.pack.map(|length| Pack { length, mode: options.pack_mode, pad }))
}

/// The id that the value of an option names: a token, or the number of an id.
fn named(tokenizer: &Tokenizer, option: &str, asked: &str) -> Result<u32, String> {
    // A vocabulary has tokens that are digits, but such a token never begins or ends a document.
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return match asked.parse() {
            Ok(id) if id < tokenizer.vocab_size() => Ok(id),
            _ => Err(format!(
                "{option} {asked}: the ids of {} end at {}\nhint: the special tokens are: {}",
                shown(tokenizer.name()),
                tokenizer.vocab_size().saturating_sub(1),
                candidates(tokenizer)
            )),
        };
    }
    tokenizer.token_to_id(asked).ok_or_else(|| {
        format!(
            "{option} {asked:?} is no token of {}\nhint: its special tokens are: {}",
            shown(tokenizer.name()),
            candidates(tokenizer)
        )
    })
}

/// The special tokens, likely end-of-text tokens first.
fn candidates(tokenizer: &Tokenizer) -> String {
    let special = tokenizer.eos_candidates();
    if special.is_empty() {
        return "none; any token or id can be given".to_owned();
    }
    let shown: Vec<String> = special.iter().take(SHOWN).map(|(token, id)| format!("{} ({id})", shown(token))).collect();
    let more = if special.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

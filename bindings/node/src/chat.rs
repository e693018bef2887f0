//! Chat templates for JavaScript.

use std::path::Path;
use std::sync::Arc;

use napi::bindgen_prelude::*;
use napi_derive::napi;
use windrow_tokenizers::chat::{ChatTemplate, Conversation, SpecialTokens};

use crate::door::{Callback, Outcome, later, now};
use crate::failure::Failure;
use crate::tokenizer::{Core, NativeTokenizer};

/// A conversation, whose parts are arrays in JSON.
#[napi(object)]
pub struct NativeConversation {
    pub messages: String,
    pub tools: Option<String>,
    pub documents: Option<String>,
}

/// A chat template, ready to render.
#[napi]
pub struct NativeChat(Arc<ChatTemplate>);

fn load(core: &Core, source: Option<String>, date: &str) -> std::result::Result<ChatTemplate, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        // The message has the remedies of the command.
        Failure::tokenizer(error.to_string().replace(", or pass a file: --chat=FILE", ", or pass it as chatTemplate"))
    };
    let path = core.path();
    let tokens = path.map(|path| SpecialTokens::next_to(Path::new(path))).transpose().map_err(|e| failed(&e))?;
    let mut tokens = tokens.unwrap_or_default();
    if let Some((eos, _)) = core.any().eos() {
        tokens.set("eos_token", eos);
    }
    let template = match (source, path) {
        (Some(source), _) => ChatTemplate::from_source("chatTemplate", &source, tokens),
        (None, Some(path)) => ChatTemplate::next_to(Path::new(path)),
        (None, None) => {
            let message = "no chat template comes with this tokenizer\nhint: pass one as chatTemplate";
            return Err(Failure::tokenizer(message));
        }
    };
    let date = date.parse().map_err(|error| failed(&error))?;
    Ok(template.map_err(|error| failed(&error))?.with_date(date))
}

fn text(template: &ChatTemplate, row: &NativeConversation, prompts: bool) -> std::result::Result<String, Failure> {
    let NativeConversation { messages, tools, documents } = row;
    let row = Conversation { messages, tools: tools.as_deref(), documents: documents.as_deref() };
    let text = if prompts { template.prompt(row) } else { template.render(row) };
    text.map_err(|refused| Failure::input(refused.to_string()))
}

#[napi]
impl NativeChat {
    /// The template in `source`, or the template next to the file of the tokenizer. `date` is today's date in the template.
    #[napi]
    pub fn load(tokenizer: &NativeTokenizer, source: Option<String>, date: String) -> Result<Outcome<NativeChat>> {
        let core = tokenizer.core()?;
        Ok(now(|| Ok(NativeChat(Arc::new(load(&core, source, &date)?)))))
    }

    /// The text of a conversation.
    #[napi]
    pub fn text(&self, row: NativeConversation, prompts: bool) -> Outcome<String> {
        now(|| text(&self.0, &row, prompts))
    }

    /// The ids of a conversation. Special tokens that the template writes are recognized.
    #[napi]
    pub fn encode(
        &self,
        tokenizer: &NativeTokenizer,
        row: NativeConversation,
        prompts: bool,
        callback: Callback<'_, Uint32Array>,
    ) -> Result<()> {
        let (template, core) = (Arc::clone(&self.0), tokenizer.core()?);
        later(callback, move || {
            let text = text(&template, &row, prompts)?;
            Ok(core.of_files(false, true)?.encode_batch_ids(&[text.as_str()])?.values.into())
        })
    }
}

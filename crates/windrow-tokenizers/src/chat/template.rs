//! Rows rendered by templates of `windrow-chat`.

use std::ops::Range;
use std::path::Path;

use serde_json::value::RawValue;
pub use windrow_chat::Date;
use windrow_chat::{ChatError, ChatTemplate, Conversation, RefusedChat, SpecialTokens};

use super::{ChatIdentity, Loss};
use crate::document::{Fault, FaultKind, array_in, values_of};
use crate::shown;
use crate::tokenizer::{Tokenizer, path_of};

/// Rows as conversations.
///
/// ```
/// use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
/// # let line = &br#"{"messages": [{"role": "user", "content": "Hello"}]}"#[..];
/// # let corpus = InputFile::from_reader("memory", line, Format::Jsonl, None);
///
/// let source = "{% for m in messages %}{{ m.content }} world{% endfor %}";
/// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
/// let chat = Some(Chat { template, loss: Loss::All });
/// let summary = encode(Job { chat, ..Job::new(vec![corpus]) }, &tokenizer, output, &())?;
/// assert_eq!(summary.text_bytes, 11); // "Hello world"
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Chat {
    /// The template.
    pub template: ChatTemplate,
    /// The tokens that count in training.
    pub loss: Loss,
}

impl Chat {
    /// Loads the template in the named file, or the tokenizer's own template if no file is named. `note` takes notes for people.
    pub(crate) fn load(
        file: Option<&Path>,
        loss: Loss,
        date: Option<Date>,
        tokenizer: &Tokenizer,
        mut note: impl FnMut(&str),
    ) -> Result<Self, ChatError> {
        // The name of an embedded vocabulary is not a file.
        let path = path_of(tokenizer.name());
        let path = path.as_path();
        let template = match (tokenizer.eos(), file) {
            (None, None) => ChatTemplate::next_to(path)?,
            (None, Some(file)) => ChatTemplate::from_file(file, SpecialTokens::next_to(path)?)?,
            (Some(_), None) => {
                let hint = "pass one with --chat=FILE, or use a tokenizer.json that has one next to it";
                return Err(ChatError::Missing { name: tokenizer.name().to_owned(), hint: hint.to_owned() });
            }
            (Some((eos, _)), Some(file)) => {
                let mut tokens = SpecialTokens::default();
                tokens.set("eos_token", eos);
                ChatTemplate::from_file(file, tokens)?
            }
        };
        let shown = shown(template.name());
        for name in template.unknown_tokens() {
            note(&format!(
                "chat template {shown}: {name} is empty because no tokenizer_config.json next to the tokenizer defines it"
            ));
        }
        let tokens = template.special_tokens().iter();
        for (name, token) in tokens.filter(|(_, token)| tokenizer.token_to_id(token).is_none()) {
            note(&format!("chat template {shown}: the {name} {token:?} is not a token in the vocabulary"));
        }
        let template = match date {
            Some(date) => template.with_date(date),
            None => template,
        };
        Ok(Self { template, loss })
    }

    /// True if masks are written.
    pub fn has_mask(&self) -> bool {
        self.loss == Loss::Assistant
    }

    /// The text of a JSON line whose messages are in `field`, and the byte ranges that are an assistant's; no ranges with [`Loss::All`].
    ///
    /// # Errors
    /// The line is not a conversation, or the template refuses it.
    pub fn render(&self, line: &str, field: &str) -> Result<(String, Vec<Range<usize>>), Fault> {
        array_in(line, field)?;
        let found = values_of(line, &[field, "tools", "documents"]);
        let [messages, tools, documents] = [0, 1, 2].map(|at| found[at].map(RawValue::get));
        let conversation = Conversation { messages: messages.unwrap_or("[]"), tools, documents };
        let rendered = match self.loss {
            Loss::All => self.template.render(conversation).map(|text| (text, Vec::new())),
            Loss::Assistant => self.template.render_marked(conversation).map(|it| (it.text, it.spans)),
        };
        rendered.map_err(|refused| match refused {
            RefusedChat::Messages(reason) => Fault::whole(FaultKind::NotMessages, format!("field {field:?}: {reason}")),
            RefusedChat::Template(reason) => Fault::whole(FaultKind::Template, reason),
        })
    }

    /// The entry of a manifest.
    pub fn identity(&self) -> ChatIdentity {
        ChatIdentity { template: self.template.name().to_owned(), blake3: self.template.hash() }
    }
}

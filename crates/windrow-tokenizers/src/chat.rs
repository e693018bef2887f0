//! Conversations as documents: a chat template turns the messages of a row into text, and tells which parts are an assistant's.
//!
//! The text, its ids and the masks are those of `apply_chat_template` of Hugging Face's `transformers`: the templates run in the same
//! environment (`trim_blocks`, `lstrip_blocks`, loop controls, `tojson`, `raise_exception`), and see the same variables. The differences:
//!
//! - `strftime_now` gives the date that the caller [sets](ChatTemplate::with_date). Without one, a template that asks for it refuses every row,
//!   so that two runs write equal bytes.
//! - A template without `{% generation %}` gets its masks from [prefixes](ChatTemplate::render): what a conversation adds to its beginning
//!   and the prompt for an answer. A row where this does not hold is refused. `transformers` returns a mask of zeros.
//! - A `{% generation %}` block inside of a macro, a filter or a `set` block is found where its text is. `transformers` places it where the
//!   macro was called.
//! - A message that the template [leaves out](ChatTemplate::render) refuses the row.
//! - A template that runs too long or nests values too deep refuses the row. A number beyond 128 bits does, too.
//!
//! ```
//! use windrow_tokenizers::chat::{ChatTemplate, Loss, SpecialTokens};
//!
//! let source = "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
//! let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
//! let row = r#"{"messages": [{"role": "assistant", "content": "Hello"}]}"#;
//! let rendered = template.render(row, "messages", Loss::Assistant).expect("it is a conversation");
//! assert_eq!(rendered.text, "<assistant>Hello");
//! assert_eq!(rendered.spans, [11..16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod date;
mod environment;
mod json;
mod kept;
mod load;
mod lost;
mod marks;
mod mask;
mod methods;
mod python;
mod render;
mod row;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use date::Date;
pub use load::{ChatError, SpecialTokens};
use lost::Roles;
pub(crate) use mask::Locate;
pub use render::Rendered;

use crate::document::{Fault, FaultKind, utf8};
use crate::input::{Fields, Format};
use minijinja::Environment;

/// Which tokens count in training.
///
/// ```
/// use windrow_tokenizers::chat::{ChatTemplate, Loss, SpecialTokens};
///
/// let source = "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
/// let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
/// let row = r#"{"messages": [{"role": "assistant", "content": "Hi"}]}"#;
/// let spans = |loss| template.render(row, "messages", loss).expect("it is a conversation").spans;
/// assert_eq!(spans(Loss::Assistant), [11..13]);
/// assert!(spans(Loss::All).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Loss {
    /// All. No masks are written.
    #[default]
    All,
    /// Those of an assistant. The masks have 1 for them, and 0 for the others.
    Assistant,
}

/// A compiled chat template.
///
/// ```
/// use windrow_tokenizers::chat::{ChatTemplate, Loss, SpecialTokens};
///
/// let mut tokens = SpecialTokens::default();
/// tokens.set("eos_token", "</s>");
/// let source = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
/// let template = ChatTemplate::from_source("example", source, tokens)?;
/// let row = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
/// assert_eq!(template.render(row, "messages", Loss::All).expect("it is a conversation").text, "Hi</s>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChatTemplate {
    name: String,
    environment: Environment<'static>,
    /// The template for rows without tools, and the one for rows with tools, if there is one.
    sources: Vec<Source>,
    special_tokens: SpecialTokens,
    date: Option<Date>,
    roles: Roles,
}

/// One of the templates of a tokenizer.
struct Source {
    name: &'static str,
    text: String,
    has_marks: bool,
}

/// How rows become conversations.
///
/// ```
/// use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load_early("gpt2", &LoadOptions::default(), 0)?;
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
/// # let line = &br#"{"text": [{"role": "user", "content": "Hello"}]}"#[..];
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
    /// Which tokens count in training.
    pub loss: Loss,
}

/// What a manifest tells of a [`Chat`].
///
/// ```
/// use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
///
/// let template = ChatTemplate::from_source("example", "{{ messages[0].content }}", SpecialTokens::default())?;
/// let hash = template.hash();
/// let identity = Chat { template, loss: Loss::All }.identity();
/// assert_eq!((identity.template.as_str(), identity.blake3), ("example", hash));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatIdentity {
    /// The name of the template.
    pub template: String,
    /// blake3 of all that it renders with: its text, the special tokens and the date.
    pub blake3: String,
}

impl Chat {
    /// Whether masks are written.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
    ///
    /// let template = ChatTemplate::from_source("example", "{{ messages[0].content }}", SpecialTokens::default())?;
    /// let mut chat = Chat { template, loss: Loss::All };
    /// assert!(!chat.has_mask());
    /// chat.loss = Loss::Assistant;
    /// assert!(chat.has_mask());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_mask(&self) -> bool {
        self.loss == Loss::Assistant
    }

    /// Renders a record, whose messages are in the first of the fields.
    pub(crate) fn render(&self, format: Format, record: &[u8], fields: &Fields) -> Result<Rendered, Fault> {
        if format != Format::Jsonl {
            return Err(Fault::whole(FaultKind::NotMessages, "a conversation is a JSON line".to_owned()));
        }
        let field = fields.text.first().map_or("messages", String::as_str);
        self.template.render(utf8(record)?, field, self.loss)
    }

    /// What a manifest tells of it.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
    ///
    /// let chat = |source| {
    ///     let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
    ///     Ok::<_, windrow_tokenizers::chat::ChatError>(Chat { template, loss: Loss::All })
    /// };
    /// // Two templates with one name are told apart by their text.
    /// assert_ne!(chat("{{ messages[0].role }}")?.identity(), chat("{{ messages[0].content }}")?.identity());
    /// # Ok::<(), windrow_tokenizers::chat::ChatError>(())
    /// ```
    pub fn identity(&self) -> ChatIdentity {
        ChatIdentity { template: self.template.name.clone(), blake3: self.template.hash() }
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Its name: the path of its file.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{ChatTemplate, SpecialTokens};
    ///
    /// let template = ChatTemplate::from_source("chat.jinja", "{{ messages[0].content }}", SpecialTokens::default())?;
    /// assert_eq!(template.name(), "chat.jinja");
    /// # Ok::<(), windrow_tokenizers::chat::ChatError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The special tokens that it can name.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{ChatTemplate, SpecialTokens};
    ///
    /// let mut tokens = SpecialTokens::default();
    /// tokens.set("bos_token", "<s>");
    /// let template = ChatTemplate::from_source("example", "{{ bos_token }}", tokens)?;
    /// assert!(template.special_tokens().iter().eq([("bos_token", "<s>")]));
    /// # Ok::<(), windrow_tokenizers::chat::ChatError>(())
    /// ```
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special_tokens
    }

    /// Whether it marks the text of assistants by `{% generation %}`.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{ChatTemplate, SpecialTokens};
    ///
    /// let has_marks = |source| ChatTemplate::from_source("example", source, SpecialTokens::default()).map(|it| it.has_marks());
    /// assert!(has_marks("{% generation %}{{ messages[0].content }}{% endgeneration %}")?);
    /// assert!(!has_marks("{{ messages[0].content }}")?);
    /// # Ok::<(), windrow_tokenizers::chat::ChatError>(())
    /// ```
    pub fn has_marks(&self) -> bool {
        self.sources.iter().all(|source| source.has_marks)
    }

    /// blake3 of all that it renders with, in hexadecimal.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{ChatTemplate, SpecialTokens};
    ///
    /// let template = || ChatTemplate::from_source("example", "{{ messages[0].content }}", SpecialTokens::default());
    /// assert_eq!(template()?.hash(), template()?.hash());
    /// let dated = template()?.with_date("2024-07-26".parse()?);
    /// assert_ne!(template()?.hash(), dated.hash());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hash(&self) -> String {
        let mut parts = Vec::new();
        for source in &self.sources {
            parts.extend([source.name, &source.text]);
        }
        for (name, token) in self.special_tokens.iter() {
            parts.extend([name, token]);
        }
        let date = self.date.map(|date| date.to_string());
        parts.extend(date.as_deref());
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The variables that it reads and that have no value in any row, such as `eos_token` if no special tokens are known. They render as
    /// nothing.
    ///
    /// ```
    /// use windrow_tokenizers::chat::{ChatTemplate, SpecialTokens};
    ///
    /// let mut tokens = SpecialTokens::default();
    /// tokens.set("bos_token", "<s>");
    /// let source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
    /// let template = ChatTemplate::from_source("example", source, tokens)?;
    /// assert_eq!(template.unknown_tokens(), ["eos_token"]);
    /// # Ok::<(), windrow_tokenizers::chat::ChatError>(())
    /// ```
    pub fn unknown_tokens(&self) -> Vec<String> {
        let read = self.sources.iter().filter_map(|source| self.environment.get_template(source.name).ok());
        let read = read.flat_map(|template| template.undeclared_variables(false));
        let mut unknown: Vec<String> = read.filter(|name| name.ends_with("_token")).collect();
        unknown.retain(|name| self.special_tokens.iter().all(|(known, _)| known != name));
        unknown.sort();
        unknown.dedup();
        unknown
    }
}

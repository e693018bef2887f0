#![doc = include_str!("../README.md")]
//!
//! # Differences from `transformers`
//!
//! - `strftime_now` gives the date that the caller [sets](ChatTemplate::with_date). Without one, a template that asks for it refuses every row,
//!   so that two runs write equal bytes.
//! - A template without `{% generation %}` gets its spans from [prefixes](ChatTemplate::render_marked): the text that a conversation adds to its
//!   beginning and the prompt for an answer. A row where this does not hold is refused. `transformers` returns a mask of zeros.
//! - A `{% generation %}` block in a macro, a filter or a `set` block is found where its text is. `transformers` places it where the macro
//!   was called.
//! - A message that the template [drops](ChatTemplate::render) refuses the row.
//! - A template that runs too long or nests values too deep refuses the row. So does a number beyond 128 bits.
#![forbid(unsafe_code)]

mod date;
mod environment;
mod json;
mod kept;
mod load;
mod lost;
mod marks;
mod methods;
mod python;
mod render;
mod row;

#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use date::Date;
pub use load::{ChatError, SpecialTokens};
use lost::Roles;
use minijinja::Environment;
pub use render::Rendered;
pub use row::Conversation;

/// A compiled chat template.
///
/// ```
/// use windrow_chat::{ChatTemplate, SpecialTokens};
///
/// let mut tokens = SpecialTokens::default();
/// tokens.set("eos_token", "</s>");
/// let source = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}";
/// let template = ChatTemplate::from_source("example", source, tokens)?;
/// assert_eq!(template.render(r#"[{"role": "user", "content": "Hi"}]"#)?, "Hi</s>");
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

/// Fault of a conversation.
///
/// ```
/// use windrow_chat::{ChatTemplate, RefusedChat, SpecialTokens};
///
/// let template = ChatTemplate::from_source("chat.jinja", "{{ raise_exception('no') }}", SpecialTokens::default())?;
/// let refused = template.render(r#"[{"role": "user", "content": "Hi"}]"#).unwrap_err();
/// assert_eq!(refused, RefusedChat::Template("the chat template refuses the conversation (chat.jinja, line 1): no".to_owned()));
/// let refused = template.render("[]").unwrap_err();
/// assert_eq!(refused, RefusedChat::Messages("the conversation has no messages".to_owned()));
/// # Ok::<(), windrow_chat::ChatError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedChat {
    /// The messages, or the tools or documents next to them, are not what a chat template takes.
    #[error("{0}")]
    Messages(String),
    /// The chat template refuses the conversation, or drops a message.
    #[error("{0}")]
    Template(String),
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// The name: the path of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The special tokens that the template can name.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special_tokens
    }

    /// True if the template marks the text of assistants by `{% generation %}`.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let has_marks = |source| ChatTemplate::from_source("example", source, SpecialTokens::default()).map(|it| it.has_marks());
    /// assert!(has_marks("{% generation %}{{ messages[0].content }}{% endgeneration %}")?);
    /// assert!(!has_marks("{{ messages[0].content }}")?);
    /// # Ok::<(), windrow_chat::ChatError>(())
    /// ```
    pub fn has_marks(&self) -> bool {
        self.sources.iter().all(|source| source.has_marks)
    }

    /// The blake3 hash of all inputs that decide a text, in hexadecimal: the template, the special tokens and the date.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
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

    /// The variables that the template reads and that have no value in any row, such as `eos_token` if no special tokens are known. They
    /// are rendered as empty text.
    ///
    /// ```
    /// use windrow_chat::{ChatTemplate, SpecialTokens};
    ///
    /// let mut tokens = SpecialTokens::default();
    /// tokens.set("bos_token", "<s>");
    /// let source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
    /// let template = ChatTemplate::from_source("example", source, tokens)?;
    /// assert_eq!(template.unknown_tokens(), ["eos_token"]);
    /// # Ok::<(), windrow_chat::ChatError>(())
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

/// A result, or the message of a panic of the template engine.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_owned(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without a message".to_owned()),
    })
}

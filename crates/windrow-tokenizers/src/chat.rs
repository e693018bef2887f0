//! Conversations as documents: a chat template turns the messages of a row into text, and marks the assistant's parts.
//!
//! The feature `chat` provides the templates of [`windrow_chat`](https://docs.rs/windrow-chat).
//!
//! ```
//! use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens};
//!
//! let source = "{% for m in messages %}<{{ m.role }}>{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
//! let template = ChatTemplate::from_source("example", source, SpecialTokens::default())?;
//! let chat = Chat { template, loss: Loss::Assistant };
//! let row = r#"{"messages": [{"role": "assistant", "content": "Hello"}]}"#;
//! let (text, spans) = chat.render(row, "messages").expect("a conversation");
//! assert_eq!((text.as_str(), spans), ("<assistant>Hello", vec![11..16]));
//! # Ok::<(), windrow_tokenizers::chat::ChatError>(())
//! ```

mod mask;
#[cfg(feature = "chat")]
mod template;
#[cfg(not(feature = "chat"))]
#[path = "chat/no_template.rs"]
mod template;

use serde::{Deserialize, Serialize};

pub(crate) use mask::Locate;
pub use mask::ids_and_mask;
pub use template::{Chat, Date};
#[cfg(feature = "chat")]
pub use windrow_chat::{ChatError, ChatTemplate, Conversation, SpecialTokens};

/// The tokens that count in training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Loss {
    /// All tokens. No masks are written.
    #[default]
    All,
    /// The assistant's tokens. The mask is 1 for them and 0 for all others.
    Assistant,
}

/// The entry of a manifest for a [`Chat`].
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
    /// blake3 of everything a rendering depends on: the template's text, the special tokens and the date.
    pub blake3: String,
}

//! Where the text of a document is.

/// The fields of a JSON line, or the columns of a Parquet file, that matter.
///
/// ```
/// use windrow_tokenizers::document::text_in;
/// use windrow_tokenizers::input::{Fields, Format};
///
/// let mut scratch = String::new();
/// let line = br#"{"body": "It rains."}"#;
/// assert_eq!(text_in(Format::Jsonl, line, &Fields::new("body"), &mut scratch), Ok("It rains."));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The fields with the text, one or more. The text of a document is theirs, in this order.
    pub text: Vec<String>,
    /// What stands between the texts of two fields.
    pub join: String,
    /// The fields whose values are carried to the output.
    pub keep: Vec<String>,
    /// True if a row of Parquet is a conversation: a JSON object of the first column and of those named `tools` and `documents`.
    pub conversations: bool,
}

impl Fields {
    /// One field.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: vec![text.into()], join: String::new(), keep: Vec::new(), conversations: false }
    }
}

/// The field `text`.
impl Default for Fields {
    fn default() -> Self {
        Self::new("text")
    }
}

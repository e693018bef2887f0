//! The fields that hold the text of a document.

/// The relevant fields of a JSON line, or columns of a Parquet file.
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
    /// The fields with the text, one or more. The text of a document joins them in this order.
    pub text: Vec<String>,
    /// Separator of the texts of two fields.
    pub join: String,
    /// The fields whose values are carried to the output.
    pub keep: Vec<String>,
    /// True if a row of Parquet is a conversation: a JSON object of the first column and of the columns named `tools` and `documents`.
    pub conversations: bool,
}

impl Fields {
    /// Fields with a single text field.
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

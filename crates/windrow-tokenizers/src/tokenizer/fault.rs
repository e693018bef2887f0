//! An error in a `tokenizer.json`, without the name under which the file was requested.

/// The remedy for a file that no library would write.
pub(super) const DAMAGED: &str = "the file is damaged or is not a tokenizer.json: download it again, or write it again with \
                                  the `save` method of the tokenizers library";

/// The remedy for a regex that cannot run.
pub(super) const REGEX: &str =
    "correct the pattern: it must be valid for Oniguruma, the regex library that tokenizers 0.23 uses";

/// Maximum length of a reason, because libraries like to repeat their input.
pub(super) const MAX_REASON: usize = 300;

/// A place in the file, the error there, and the remedy.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) place: String,
    pub(super) reason: String,
    pub(super) hint: String,
}

impl Fault {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), reason: shortened(&reason.into(), MAX_REASON), hint: hint.into() }
    }

    /// Invalid or unexpected JSON. Lines count from the start of the part that `place` names.
    pub(super) fn json(place: &str, error: &serde_json::Error) -> Self {
        Self::new(place, error.to_string(), DAMAGED)
    }
}

/// A text, shortened to its beginning if it has more than `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A token of the file, for messages.
pub(super) fn quoted(token: &str) -> String {
    format!("{:?}", shortened(token, 60))
}

//! The fault of a record: its kind, place and reason.

use memchr::{memchr_iter, memrchr};
use serde::Serialize;

/// Fault of a record.
///
/// ```
/// use windrow_tokenizers::document::{FaultKind, text_of};
/// use windrow_tokenizers::input::Format;
///
/// let kind = |line: &[u8]| text_of(Format::Jsonl, line, "text", &mut String::new()).unwrap_err().kind;
/// assert_eq!(kind(br#"["text"]"#), FaultKind::NotObject);
/// assert_eq!(kind(br#"{"title": "a"}"#), FaultKind::MissingField);
/// assert_eq!(kind(br#"{"text": 1}"#), FaultKind::NotString);
/// assert_eq!(kind(b"\xff"), FaultKind::NotUtf8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Its bytes are not valid UTF-8.
    NotUtf8,
    /// A line that is not JSON.
    Syntax,
    /// A `\u` escape of half a character: JSON can write it, but text cannot contain it.
    LoneSurrogate,
    /// A line that is JSON but not an object.
    NotObject,
    /// An object without the wanted field.
    MissingField,
    /// A wanted field that is not a string.
    NotString,
    /// A wanted field that is not an array of messages, or a neighboring field that the chat template does not take.
    NotMessages,
    /// The chat template refuses the conversation.
    Template,
}

/// Reason that a record is not a document, and its place.
///
/// ```
/// use windrow_tokenizers::document::text_of;
/// use windrow_tokenizers::input::Format;
///
/// let fault = text_of(Format::Text, b"one\ntw\xff", "", &mut String::new()).unwrap_err();
/// assert_eq!((fault.at, fault.line_in_record, fault.byte), (6, 1, 3));
/// assert_eq!(fault.reason, "not valid UTF-8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of fault.
    pub kind: FaultKind,
    /// Position of the fault: the number of bytes before it in the record.
    pub at: usize,
    /// Number of line breaks before it in the record; 0 except in text records.
    pub line_in_record: u64,
    /// Position in bytes within that line, 1-based.
    pub byte: u64,
    /// The fault, on one line, possibly with a hint.
    pub reason: String,
}

impl Fault {
    /// A fault of the record as a whole.
    pub(crate) fn whole(kind: FaultKind, reason: String) -> Self {
        Self { kind, at: 0, line_in_record: 0, byte: 1, reason }
    }

    /// A fault at a place of a record.
    pub(crate) fn new(kind: FaultKind, record: &[u8], at: usize, reason: String) -> Self {
        let before = &record[..at];
        let line_in_record = memchr_iter(b'\n', before).count() as u64;
        let byte = (at - memrchr(b'\n', before).map_or(0, |newline| newline + 1)) as u64 + 1;
        Self { kind, at, line_in_record, byte, reason }
    }
}

/// Splits a reason into the fault and its hint, if it has one.
pub(crate) fn without_hint(reason: &str) -> (String, Option<&str>) {
    const HINT: &str = "hint: ";
    let divided = || {
        let (before, hint) = reason.split_at(reason.find(HINT)?);
        let before = before
            .strip_suffix("; ")
            .map(|before| format!("{before})"))
            .or_else(|| Some(before.strip_suffix(" (")?.to_owned()));
        Some((before?, Some(hint.strip_prefix(HINT)?.strip_suffix(')')?)))
    };
    divided().unwrap_or_else(|| (reason.to_owned(), None))
}

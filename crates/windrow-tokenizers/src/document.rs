//! Extracts the text of a document from a raw record, or the reason for its absence.
//!
//! A JSON line is good if `serde_json::from_str::<serde_json::Value>` accepts it, it is an object, and the wanted field is a string.
//! (Of several fields with the same name the last one counts, as in `Value`.) The rest of the line must be valid too: a half-garbage line
//! is a damaged line. No `Value` is built; text without escapes is borrowed from the line.
//!
//! A field `a.b` is the key `a.b` of the object if there is one, and otherwise the field `b` of the object under the key `a`.

pub(crate) mod fault;
mod first;
mod keep;

use std::fmt;

use memchr::memmem;
use serde::de::{self, DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};

use crate::diagnose;
use crate::input::{Fields, Format};
pub use fault::{Fault, FaultKind};
pub(crate) use first::explain_first;
#[cfg(feature = "chat")]
pub(crate) use keep::values_of;
pub(crate) use keep::{keep_of, names_of};

/// The fault of a row with a null in `column`, which should hold its text.
pub(crate) fn null_fault(column: &str) -> Fault {
    Fault::new(FaultKind::MissingField, &[], 0, format!("column {column:?} is null, not a string"))
}

/// The text of the document in `record`: the whole record, or its field `field` for [`Format::Jsonl`].
///
/// The text borrows from the record if possible, otherwise from `scratch`, a reusable buffer.
///
/// ```
/// use windrow_tokenizers::document::text_of;
/// use windrow_tokenizers::input::Format;
///
/// let mut scratch = String::new();
/// let line = br#"{"text": "one\ntwo"}"#;
/// assert_eq!(text_of(Format::Jsonl, line, "text", &mut scratch).as_deref(), Ok("one\ntwo"));
/// assert_eq!(text_of(Format::Lines, b"one", "", &mut scratch).as_deref(), Ok("one"));
/// ```
///
/// # Errors
/// The [`Fault`] of a bad document.
pub fn text_of<'a>(format: Format, record: &'a [u8], field: &str, scratch: &'a mut String) -> Result<&'a str, Fault> {
    if format == Format::Parquet {
        return utf8(record).map_err(|fault| Fault { line_in_record: 0, byte: fault.at as u64 + 1, ..fault });
    }
    let text = utf8(record)?;
    match format {
        Format::Text | Format::Lines | Format::Parquet | Format::Warc => Ok(text),
        Format::Jsonl => field_of(text, field, scratch),
    }
}

/// [`text_of`] for one field or several. The joined texts of several fields are in `scratch`.
///
/// ```
/// use windrow_tokenizers::document::text_in;
/// use windrow_tokenizers::input::{Fields, Format};
///
/// let fields = Fields { text: vec!["title".into(), "body".into()], join: "\n".into(), ..Fields::default() };
/// let line = br#"{"body": "It rains.", "title": "News"}"#;
/// let mut scratch = String::new();
/// assert_eq!(text_in(Format::Jsonl, line, &fields, &mut scratch), Ok("News\nIt rains."));
/// ```
///
/// # Errors
/// The [`Fault`] of a bad document; with several fields, the fault of the first bad field.
pub fn text_in<'a>(
    format: Format,
    record: &'a [u8],
    fields: &Fields,
    scratch: &'a mut String,
) -> Result<&'a str, Fault> {
    if let ([_, _, ..], Format::Jsonl) = (fields.text.as_slice(), format) {
        let line = utf8(record)?;
        let (mut joined, mut part) = (String::new(), String::new());
        for (number, field) in fields.text.iter().enumerate() {
            joined.push_str(if number == 0 { "" } else { &fields.join });
            joined.push_str(field_of(line, field, &mut part)?);
        }
        *scratch = joined;
        return Ok(scratch);
    }
    text_of(format, record, fields.text.first().map_or("", String::as_str), scratch)
}

/// A record, or a part of one, as text.
pub(crate) fn utf8(record: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(record).map_err(|error| {
        let Fault { kind, reason, .. } = utf8_fault(record);
        Fault::new(kind, record, error.valid_up_to(), reason)
    })
}

/// The fault of bytes that are not UTF-8, from the first of them.
pub(crate) fn utf8_fault(begin: &[u8]) -> Fault {
    let looks_like = diagnose::binary(&begin[..begin.len().min(diagnose::FIRST)])
        .map_or_else(String::new, |kind| format!(" (it looks like {}; hint: {})", kind.what, kind.hint));
    let reason = format!("not valid UTF-8{looks_like}");
    Fault { kind: FaultKind::NotUtf8, at: 0, line_in_record: 0, byte: 1, reason }
}

/// The text in a field of a line.
pub(crate) fn field_of<'a>(line: &'a str, field: &str, scratch: &'a mut String) -> Result<&'a str, Fault> {
    match outcome_of(line, field, scratch)? {
        Text::Borrowed(text) => Ok(text),
        Text::Unescaped => Ok(scratch),
        Text::Not(what) => {
            let reason = format!("field {field:?} is {what}, not a string");
            Err(Fault::whole(FaultKind::NotString, reason))
        }
    }
}

fn outcome_of<'a>(line: &'a str, field: &str, scratch: &mut String) -> Result<Text<'a>, Fault> {
    let mut json = serde_json::Deserializer::from_str(line);
    let outcome =
        json.deserialize_any(Line { field: Some(field), scratch }).and_then(|outcome| json.end().map(|()| outcome));
    match outcome {
        Ok(Outcome::Text(text)) => Ok(text),
        Ok(Outcome::NoField) => {
            let reason = format!("field {field:?} is missing ({})", fields_hint(line));
            Err(Fault::whole(FaultKind::MissingField, reason))
        }
        Ok(Outcome::NoObject(what)) => {
            Err(Fault::whole(FaultKind::NotObject, format!("the line is {what}, not an object")))
        }
        Err(e) => Err(syntax_fault(line, &e)),
    }
}

/// Refuses a line that is not an object with an array in this field.
#[cfg(feature = "chat")]
pub(crate) fn array_in(line: &str, field: &str) -> Result<(), Fault> {
    let is_json_array = |text: &str| serde_json::from_str::<Vec<de::IgnoredAny>>(text).is_ok();
    let mut unescaped = String::new();
    let (what, hint) = match outcome_of(line, field, &mut unescaped)? {
        Text::Not("an array") => return Ok(()),
        Text::Not(what) => (what, ""),
        Text::Borrowed(text) if !is_json_array(text) => ("a string", ""),
        Text::Unescaped if !is_json_array(&unescaped) => ("a string", ""),
        Text::Borrowed(_) | Text::Unescaped => {
            ("a string", " (hint: the string contains a JSON array; write the array itself)")
        }
    };
    let reason = format!("field {field:?} is {what}, not an array of messages{hint}");
    Err(Fault::whole(FaultKind::NotMessages, reason))
}

/// The result of parsing a line.
#[cold]
pub(crate) fn syntax_fault(line: &str, error: &serde_json::Error) -> Fault {
    let whole = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = whole.strip_suffix(&place).unwrap_or(&whole);
    // Columns count bytes from 1; column 0 is the end of an empty line.
    let before = line.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
    let start_of_line = error.line().checked_sub(2).and_then(|n| before.clone().nth(n)).unwrap_or(0);
    let at = (start_of_line + error.column().saturating_sub(1)).min(line.len());
    match message {
        // The second message only occurs for a leading surrogate without another escape after it.
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            let reason = r"a lone surrogate: a \u escape for half a character".to_string();
            Fault::new(FaultKind::LoneSurrogate, line.as_bytes(), at, reason)
        }
        _ => {
            let is_value = matches!(message, "expected value" | "invalid number");
            let hint = if is_value { number_hint(line.as_bytes(), at) } else { "" };
            let hint = if hint.is_empty() { diagnose::at_place(message, line.as_bytes(), at) } else { hint.to_owned() };
            Fault::new(FaultKind::Syntax, line.as_bytes(), at, format!("JSON syntax error: {message}{hint}"))
        }
    }
}

/// A hint with the names of numbers that many programs write but JSON does not have. The error is in or at one of them.
fn number_hint(line: &[u8], at: usize) -> &'static str {
    let is_near = |word: &[u8]| {
        let begin = at.saturating_sub(word.len());
        let end = (at + word.len()).min(line.len());
        memmem::find(&line[begin..end], word).is_some()
    };
    if is_near(b"NaN") || is_near(b"Infinity") {
        return " (NaN and Infinity are not valid JSON; hint: write null instead; in Python, `json.dumps(..., allow_nan=False)` reports them)";
    }
    ""
}

/// A hint with the names of the line's other fields. `line` is known to be an object.
#[cold]
fn fields_hint(line: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut json = serde_json::Deserializer::from_str(line);
    // The fault itself is already known; an error here only shortens the hint.
    let _ = json.deserialize_any(FieldNames(&mut names));
    if names.is_empty() {
        return "the object is empty".into();
    }
    let more = if names.len() > FieldNames::SHOWN { ", ..." } else { "" };
    names.truncate(FieldNames::SHOWN);
    match &names[..] {
        [name] => format!("hint: the line has only the field {name}; select it with --field NAME"),
        names => format!("hint: the line has the fields {}{more}; choose one with --field NAME", names.join(", ")),
    }
}

/// The result of parsing a line.
enum Outcome<'a> {
    Text(Text<'a>),
    NoField,
    /// Another value, of this kind, in the place of the object or the text.
    NoObject(&'static str),
}

/// The value of the wanted field.
enum Text<'a> {
    Borrowed(&'a str),
    /// A string with escapes; the text is in the scratch buffer.
    Unescaped,
    Not(&'static str),
}

/// The visitor methods for all values but strings, objects and arrays: the kind of the value goes through `$wrap`.
macro_rules! scalars {
    ($wrap:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($wrap("null"))
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($wrap("a boolean"))
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($wrap("a number"))
        }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any JSON value")
        }
    };
}

fn walk_array<'de, A: SeqAccess<'de>>(mut array: A) -> Result<(), A::Error> {
    while array.next_element_seed(Walk)?.is_some() {}
    Ok(())
}

fn walk_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_key_seed(Key(""))?.is_some() {
        object.next_value_seed(Walk)?;
    }
    Ok(())
}

/// Visits a value as the deserializer of `Value` would, but keeps nothing. (`IgnoredAny` would be faster, but accepts lone surrogates,
/// numbers out of range and any depth.)
struct Walk;

impl<'de> DeserializeSeed<'de> for Walk {
    type Value = ();
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk {
    type Value = ();
    scalars!(|_| ());
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<(), A::Error> {
        walk_array(array)
    }
    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        walk_object(object)
    }
}

/// The name of a field, compared with the wanted path.
struct Key<'f>(&'f str);

#[derive(PartialEq, Eq)]
enum Match {
    /// The path itself.
    Whole,
    /// The part of the path before its first dot.
    Head,
    Nothing,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Match;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Match, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Match;
    fn visit_str<E>(self, name: &str) -> Result<Match, E> {
        Ok(match self.0.strip_prefix(name) {
            Some("") => Match::Whole,
            Some(rest) if rest.starts_with('.') && !name.contains('.') => Match::Head,
            _ => Match::Nothing,
        })
    }
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }
}

/// A whole line, an object in it, or the value of the wanted field.
struct Line<'f, 's> {
    /// The path of the field from here on; none in the field itself.
    field: Option<&'f str>,
    scratch: &'s mut String,
}

impl<'de> DeserializeSeed<'de> for Line<'_, '_> {
    type Value = Outcome<'de>;
    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Outcome<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Line<'_, '_> {
    type Value = Outcome<'de>;
    scalars!(Outcome::NoObject);
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Outcome<'de>, E> {
        Ok(match self.field {
            Some(_) => Outcome::NoObject("a string"),
            None => Outcome::Text(Text::Borrowed(text)),
        })
    }
    fn visit_str<E>(self, text: &str) -> Result<Outcome<'de>, E> {
        if self.field.is_some() {
            return Ok(Outcome::NoObject("a string"));
        }
        self.scratch.clear();
        self.scratch.push_str(text);
        Ok(Outcome::Text(Text::Unescaped))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Outcome<'de>, A::Error> {
        walk_array(array)?;
        Ok(Outcome::NoObject("an array"))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Outcome<'de>, A::Error> {
        let Some(field) = self.field else {
            walk_object(object)?;
            return Ok(Outcome::NoObject("an object"));
        };
        let (mut outcome, mut is_whole) = (Outcome::NoField, false);
        while let Some(key) = object.next_key_seed(Key(field))? {
            match key {
                Match::Whole => {
                    outcome = match object.next_value_seed(Line { field: None, scratch: self.scratch })? {
                        Outcome::NoObject(what) => Outcome::Text(Text::Not(what)),
                        outcome => outcome,
                    };
                    is_whole = true;
                }
                Match::Head if !is_whole => {
                    let below = field.split_once('.').map(|(_, below)| below);
                    outcome = match object.next_value_seed(Line { field: below, scratch: self.scratch })? {
                        Outcome::NoObject(_) => Outcome::NoField,
                        outcome => outcome,
                    };
                }
                Match::Head | Match::Nothing => object.next_value_seed(Walk)?,
            }
        }
        Ok(outcome)
    }
}

/// Collects the quoted, shortened names of an object's first fields: one more than a hint lists.
struct FieldNames<'n>(&'n mut Vec<String>);

impl FieldNames<'_> {
    const SHOWN: usize = 5;
    const LENGTH: usize = 40;
}

impl<'de> Visitor<'de> for FieldNames<'_> {
    type Value = ();
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(name) = object.next_key::<String>()? {
            if self.0.len() <= Self::SHOWN {
                let cut = name.char_indices().nth(Self::LENGTH);
                self.0.push(cut.map_or_else(|| format!("{name:?}"), |(end, _)| format!("{:?}...", &name[..end])));
            }
            object.next_value_seed(Walk)?;
        }
        Ok(())
    }
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}

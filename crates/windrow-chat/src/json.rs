//! `tojson`, which is Python's `json.dumps` without escapes of other scripts.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::python;

/// The style in which values are written.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    separators: [String; 2],
    sort_keys: bool,
    /// Maximum bytes of the text.
    most: usize,
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    rest: Rest<Value>,
    arguments: Kwargs,
) -> Result<Value, Error> {
    let given = |at: usize, name: &str| {
        let value = rest.get(at).cloned().or_else(|| argument(&arguments, name));
        value.filter(|value| !value.is_none())
    };
    let flag = |at, name| given(at, name).is_some_and(|value| value.is_true());
    let indent = match given(1, "indent") {
        None => None,
        Some(indent) => Some(match (indent.as_str(), indent.as_i64()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(spaces)) => " ".repeat(usize::try_from(spaces).unwrap_or(0).min(1 << 10)),
            (None, None) => return Err(bad("the indent is neither a number nor a string")),
        }),
    };
    let separators = match given(2, "separators") {
        None if indent.is_some() => [",".to_owned(), ": ".to_owned()],
        None => [", ".to_owned(), ": ".to_owned()],
        Some(pair) => {
            let pair: Vec<Value> = pair.try_iter()?.take(3).collect();
            match pair.as_slice() {
                [item, key] => [item.to_string(), key.to_string()],
                _ => return Err(bad("the separators are not two strings")),
            }
        }
    };
    let (ensure_ascii, sort_keys, most) = (flag(0, "ensure_ascii"), flag(3, "sort_keys"), python::left(state));
    let style = Style { ensure_ascii, indent, separators, sort_keys, most };
    arguments.assert_all_used()?;
    let mut text = String::new();
    style.put(value, 0, &mut text)?;
    Ok(Value::from(text))
}

fn bad(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {reason}"))
}

impl Style {
    fn put(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > python::DEPTH {
            return Err(python::too_deep());
        }
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            _ if python::number(value).is_some() => text.push_str(&number(value)),
            ValueKind::String => self.put_string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.put_all(["[", "]"], items, depth, text, |item, text| self.put(&item, depth + 1, text))?;
            }
            ValueKind::Map => {
                let mut fields = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    let name = match key.kind() {
                        ValueKind::String => key.to_string(),
                        ValueKind::None => "null".to_owned(),
                        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
                        ValueKind::Number => number(&key),
                        other => return Err(bad(&format!("an object key cannot be of type {other}"))),
                    };
                    fields.push((name, item));
                }
                if self.sort_keys {
                    fields.sort_by(|one, other| one.0.cmp(&other.0));
                }
                self.put_all(["{", "}"], fields, depth, text, |(name, item), text| {
                    self.put_string(&name, text);
                    text.push_str(&self.separators[1]);
                    self.put(&item, depth + 1, text)
                })?;
            }
            other => return Err(bad(&format!("a value of type {other} cannot be written as JSON"))),
        }
        Ok(())
    }

    fn put_all<T>(
        &self,
        brackets: [&str; 2],
        items: Vec<T>,
        depth: usize,
        text: &mut String,
        mut put: impl FnMut(T, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let newline = |depth: usize, text: &mut String| {
            if let Some(indent) = &self.indent {
                text.push('\n');
                text.extend(std::iter::repeat_n(indent.as_str(), depth));
            }
        };
        text.push_str(brackets[0]);
        let is_empty = items.is_empty();
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                text.push_str(&self.separators[0]);
            }
            newline(depth + 1, text);
            put(item, text)?;
            if text.len() > self.most {
                return Err(python::too_much());
            }
        }
        if !is_empty {
            newline(depth, text);
        }
        text.push_str(brackets[1]);
        Ok(())
    }

    fn put_string(&self, string: &str, text: &mut String) {
        text.push('"');
        for character in string.chars() {
            match character {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                '\0'..' ' => put_escape(u16::try_from(u32::from(character)).unwrap_or_default(), text),
                ' '..='~' => text.push(character),
                _ if self.ensure_ascii => {
                    character.encode_utf16(&mut [0; 2]).iter().for_each(|&unit| put_escape(unit, text));
                }
                _ => text.push(character),
            }
        }
        text.push('"');
    }
}

fn put_escape(unit: u16, text: &mut String) {
    write!(text, "\\u{unit:04x}").expect("writing to a string cannot fail");
}

/// A number. Infinite values and NaN have names in Python's JSON.
fn number(value: &Value) -> String {
    let number = python::number(value).unwrap_or_default();
    match number.as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        _ => number,
    }
}

/// A named argument of a call, if it was given.
fn argument(arguments: &Kwargs, name: &str) -> Option<Value> {
    if arguments.has(name) { arguments.get::<Value>(name).ok() } else { None }
}

//! Values in Python's notation.
//!
//! The template engine writes numbers, lists and objects almost like Python. The values of a row are wrapped so that they are written exactly
//! like Python's, wherever a template puts them into a text.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value, escape_formatter};

/// Maximum nesting of values that are written: twice that of a row.
pub(super) const DEPTH: usize = 256;

/// Bytes that a step of the engine pays for.
const STEP: u64 = 64;

thread_local! {
    /// Budget of a run on this thread for work that the engine does not count.
    static LIMITS: Limits = const { Limits { visits: Cell::new(u64::MAX), bytes: Cell::new(usize::MAX), spent: Cell::new(false) } };
}

/// The work on lists and objects that the engine does not count: it compares, hashes and writes their contents in one step.
struct Limits {
    /// Items that may be visited.
    visits: Cell<u64>,
    /// Bytes in which they may be written.
    bytes: Cell<usize>,
    /// True if the limit was exceeded. Lists and objects are empty from then on, and the row is refused.
    spent: Cell<bool>,
}

/// Items of lists and objects that a step of the engine pays for.
const VISITS: u64 = 1;

/// Runs a template within limits: `steps` steps, and `bytes` bytes for the text of a single value; `None` if a limit was exceeded.
pub(super) fn limited<T>(steps: u64, bytes: usize, run: impl FnOnce() -> T) -> Option<T> {
    let set = |visits, bytes| {
        LIMITS.with(|limits| {
            limits.visits.set(visits);
            limits.bytes.set(bytes);
            limits.spent.take()
        })
    };
    set(steps.saturating_mul(VISITS), bytes);
    let result = run();
    let is_spent = set(u64::MAX, usize::MAX);
    (!is_spent).then_some(result)
}

/// Counts visits of items. Returns true if they are within the limit.
fn may_visit(items: usize) -> bool {
    LIMITS.with(|limits| {
        let left = limits.visits.get().checked_sub(items as u64 + 1);
        limits.visits.set(left.unwrap_or(0));
        limits.spent.set(limits.spent.get() || left.is_none());
        left.is_some()
    })
}

/// Refuses all further work once a limit was exceeded.
pub(super) fn check() -> Result<(), Error> {
    if LIMITS.with(|limits| limits.spent.get()) { Err(too_much()) } else { Ok(()) }
}

/// The maximum bytes of a single text.
pub(super) fn limit() -> usize {
    LIMITS.with(|limits| limits.bytes.get())
}

/// The bytes that a template can make before it is stopped, and that a single text can have. Functions of this crate make whole texts in one
/// step, and a list that holds another one twice, and so on, has a text that is exponentially larger than itself.
pub(super) fn left(state: &State<'_, '_>) -> usize {
    let steps = state.fuel_levels().map_or(u64::MAX, |(_, left)| left);
    let bytes = usize::try_from(steps.saturating_mul(STEP)).unwrap_or(usize::MAX);
    bytes.min(limit())
}

/// The error if more bytes are requested than are [left].
pub(super) fn too_much() -> Error {
    Error::from(ErrorKind::OutOfFuel)
}

pub(super) fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested more than {DEPTH} levels deep"))
}

/// A list or an object of a row, or one that a template keeps.
#[derive(Debug)]
pub(super) struct Container {
    value: Value,
    /// Nesting depth of lists and objects, including this one.
    pub(super) depth: usize,
}

impl Object for Container {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        if self.value.kind() == ValueKind::Map { ObjectRepr::Map } else { ObjectRepr::Seq }
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.value.as_object()?.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let Some(object) = self.value.as_object() else { return Enumerator::NonEnumerable };
        if may_visit(object.enumerator_len().unwrap_or(0)) { object.enumerate() } else { Enumerator::Empty }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.value.as_object()?.enumerator_len()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LIMITS.with(|limits| {
            let Ok(text) = text(&self.value, limits.bytes.get()) else {
                limits.spent.set(true);
                // All further writes then fail at once.
                limits.bytes.set(0);
                return Ok(());
            };
            limits.bytes.set(limits.bytes.get().saturating_sub(text.len()));
            f.write_str(&text)
        })
    }
}

/// A number that Python writes with an exponent. Templates do not calculate with such numbers.
#[derive(Debug)]
struct Exponential(f64);

impl Object for Exponential {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float(self.0))
    }
}

/// A list or an object whose items are containers, words or numbers.
pub(super) fn container(value: Value) -> Value {
    let depth = |item: &Value| item.downcast_object_ref::<Container>().map_or(0, |container| container.depth);
    let items = value.try_iter().into_iter().flatten();
    let deepest = if value.kind() == ValueKind::Map {
        items.map(|name| value.get_item(&name).map_or(0, |item| depth(&item)).max(depth(&name))).max()
    } else {
        items.map(|item| depth(&item)).max()
    };
    let depth = 1 + deepest.unwrap_or(0);
    Value::from_object(Container { value, depth })
}

/// A number of a row with a point or an exponent.
pub(super) fn float_value(number: f64) -> Value {
    if float(number).contains('e') { Value::from_object(Exponential(number)) } else { Value::from(number) }
}

/// A number in the notation of Python's `repr`; `None` if the value is not a number.
pub(super) fn number(value: &Value) -> Option<String> {
    if let Some(Exponential(number)) = value.downcast_object_ref() {
        return Some(float(*number));
    }
    if value.kind() != ValueKind::Number {
        return None;
    }
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => Some(float(number)),
        _ => Some(value.to_string()),
    }
}

/// The shortest decimal that is this number, with an exponent if that is below -4 or above 15.
fn float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Writes a value into the output of a template.
pub(super) fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            out.write_str(&text(value, left(state))?).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    }
}

/// A value in the notation of Python's `str`, if its text has no more than `most` bytes.
pub(super) fn text(value: &Value, most: usize) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let mut writer = Writer { text: String::new(), most };
    writer.put(value, 0)?;
    Ok(writer.text)
}

struct Writer {
    text: String,
    most: usize,
}

impl Writer {
    /// Appends a value in the notation of Python's `repr`.
    fn put(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if let Some(number) = number(value) {
            self.text.push_str(&number);
            return Ok(());
        }
        match value.kind() {
            ValueKind::String => put_string(value.as_str().unwrap_or_default(), &mut self.text),
            ValueKind::Seq | ValueKind::Iterable => self.put_all(["[", "]"], value, depth, Self::put)?,
            ValueKind::Map => self.put_all(["{", "}"], value, depth, |writer, key, depth| {
                writer.put(key, depth)?;
                writer.text.push_str(": ");
                writer.put(&value.get_item(key).unwrap_or_default(), depth)
            })?,
            ValueKind::Undefined => self.text.push_str("Undefined"),
            _ => self.text.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn put_all(
        &mut self,
        brackets: [&str; 2],
        value: &Value,
        depth: usize,
        put: impl Fn(&mut Self, &Value, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if depth == DEPTH {
            return Err(too_deep());
        }
        self.text.push_str(brackets[0]);
        for (at, item) in value.try_iter().into_iter().flatten().enumerate() {
            if at > 0 {
                self.text.push_str(", ");
            }
            put(self, &item, depth + 1)?;
            if self.text.len() > self.most {
                return Err(too_much());
            }
        }
        self.text.push_str(brackets[1]);
        Ok(())
    }
}

fn put_string(string: &str, text: &mut String) {
    let quote = if string.contains('\'') && !string.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for character in string.chars() {
        let code = u32::from(character);
        match character {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            _ if character == quote => text.extend(['\\', quote]),
            ' '..='~' => text.push(character),
            _ if is_printable(character) => text.push(character),
            _ => {
                let written = match code {
                    0..0x100 => write!(text, "\\x{code:02x}"),
                    0x100..0x1_0000 => write!(text, "\\u{code:04x}"),
                    _ => write!(text, "\\U{code:08x}"),
                };
                written.expect("writing to a string cannot fail");
            }
        }
    }
    text.push(quote);
}

/// True if Python prints a character unescaped. Rust has the same rule, except at the first place of a string.
fn is_printable(character: char) -> bool {
    let mut buffer = [b'a'; 5];
    let end = 1 + character.encode_utf8(&mut buffer[1..]).len();
    str::from_utf8(&buffer[..end]).is_ok_and(|text| text.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_those_of_python() {
        for (number, written) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
            (123_456.789, "123456.789"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(number), written);
        }
    }

    #[test]
    fn strings_are_quoted_as_in_python() {
        let repr = |string: &str| {
            let mut text = String::new();
            put_string(string, &mut text);
            text
        };
        assert_eq!(repr("a'b"), "\"a'b\"");
        assert_eq!(repr("a'b\""), "'a\\'b\"'");
        assert_eq!(
            repr("\u{a0}\u{1f}\u{7f}\u{ad}\u{200d}\u{2028}\u{e000}\u{10ffff}\u{feff}"),
            r"'\xa0\x1f\x7f\xad\u200d\u2028\ue000\U0010ffff\ufeff'"
        );
        assert_eq!(repr("e\u{301}é漢🙂\u{301}"), "'e\u{301}é漢🙂\u{301}'");
        assert_eq!(repr("\u{301}\\"), "'\u{301}\\\\'");
    }
}

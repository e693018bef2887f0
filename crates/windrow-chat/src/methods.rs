//! Methods of Python's strings that differ in the template engine or are missing there.

use super::python;
use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat::unknown_method_callback;

/// True for white space in Python's sense, which includes four separators of ASCII.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// True for a character that ends a line in Python.
fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Calls a method that a value does not have.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if method == "format" => {
            check_widths(state, text, arguments)?;
            unknown_method_callback(state, value, method, arguments)
        }
        Some(text) => match string_method(state, text, method, arguments)? {
            Some(result) => Ok(result),
            None => unknown_method_callback(state, value, method, arguments),
        },
        None => unknown_method_callback(state, value, method, arguments),
    }
}

/// The filter: `value | trim` or `value | trim(characters)`.
pub(super) fn trim(state: &State<'_, '_>, value: &Value, characters: Option<&str>) -> Result<String, Error> {
    let text = python::text(value, python::left(state))?;
    Ok(strip(&text, characters, [true, true]).to_owned())
}

/// The filter: `text | format(values)`.
pub(super) fn format(state: &mut State<'_, '_>, text: &Value, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    check_widths(state, text.as_str().unwrap_or_default(), &[])?;
    filters::format(state, text, arguments)
}

/// The filter: `values | slice(count, fill)`, whose lists exist even if they are empty.
pub(super) fn slice(state: &State<'_, '_>, values: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    // Each list is an object.
    if count > python::left(state) / 256 {
        return Err(python::too_much());
    }
    filters::slice(state, values, count, fill)
}

/// The filter: `text | indent(width, first, blank)`.
pub(super) fn indent(state: &State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let arguments: Vec<Value> = arguments.0.into_iter().map(Value::from).collect();
    let (text, width, first, blank, named): (StringInput<'_>, Option<usize>, Option<bool>, Option<bool>, Kwargs) =
        from_args(&arguments)?;
    let width = if width.is_none() && named.has("width") { Some(named.get("width")?) } else { width };
    let lines = text.as_str().matches('\n').count() + 1;
    let bytes = width.unwrap_or(0).saturating_mul(lines).saturating_add(text.as_str().len());
    if bytes > python::left(state) {
        return Err(python::too_much());
    }
    filters::indent(text, width, first, blank, named)
}

/// The filter: `text | replace(old, new, count)`.
pub(super) fn replace(state: &State<'_, '_>, arguments: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let arguments: Vec<Value> = arguments.0.into_iter().map(Value::from).collect();
    let (text, old, new, count, named): (StringInput<'_>, StringInput<'_>, StringInput<'_>, Option<i64>, Kwargs) =
        from_args(&arguments)?;
    let count = if count.is_none() && named.has("count") { named.get("count")? } else { count };
    named.assert_all_used()?;
    replaced(state, [text.as_str(), old.as_str(), new.as_str()], count)
}

/// The text with `old` replaced by `new`, at most `count` times if that is not negative.
fn replaced(state: &State<'_, '_>, [text, old, new]: [&str; 3], count: Option<i64>) -> Result<String, Error> {
    let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let count = text.matches(old).take(most).count();
    if count.saturating_mul(new.len()).saturating_add(text.len()) > python::left(state) {
        return Err(python::too_much());
    }
    Ok(text.replacen(old, new, count))
}

/// Refuses a format whose widths and precisions add up to more bytes than are left.
fn check_widths(state: &State<'_, '_>, format: &str, arguments: &[Value]) -> Result<(), Error> {
    let digits = format.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widths = digits.map(|digits| digits.parse().unwrap_or(usize::MAX)).fold(0, usize::saturating_add);
    // An argument can also be a width.
    let given = arguments.iter().filter_map(|argument| usize::try_from(argument.as_i64()?).ok());
    let given = if format.contains(":{") || format.contains('*') { given.fold(0, usize::saturating_add) } else { 0 };
    if widths.saturating_add(given) > python::left(state) { Err(python::too_much()) } else { Ok(()) }
}

/// The filter: `values | join(between, attribute)`.
pub(super) fn join(
    state: &State<'_, '_>,
    values: &Value,
    between: Option<&str>,
    attribute: Option<Value>,
) -> Result<String, Error> {
    let mut text = String::new();
    let most = python::left(state);
    for (at, value) in values.try_iter()?.enumerate() {
        if at > 0 {
            text.push_str(between.unwrap_or_default());
        }
        text.push_str(&match &attribute {
            Some(attribute) => python::text(&value.get_item(attribute)?, most)?,
            None => python::text(&value, most)?,
        });
        if text.len() > most {
            return Err(python::too_much());
        }
    }
    Ok(text)
}

/// `text` without white space or `characters` at its sides.
pub(super) fn strip<'t>(mut text: &'t str, characters: Option<&str>, sides: [bool; 2]) -> &'t str {
    let goes = |character: char| characters.map_or_else(|| is_space(character), |set| set.contains(character));
    if sides[0] {
        text = text.trim_start_matches(goes);
    }
    if sides[1] {
        text = text.trim_end_matches(goes);
    }
    text
}

fn string_method(state: &State<'_, '_>, text: &str, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    let sides = match method {
        "strip" => Some([true, true]),
        "lstrip" => Some([true, false]),
        "rstrip" => Some([false, true]),
        _ => None,
    };
    if let Some(sides) = sides {
        let (characters,): (Option<&str>,) = from_args(arguments)?;
        return Ok(Some(Value::from(strip(text, characters, sides))));
    }
    Ok(Some(match method {
        "split" | "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(arguments)?;
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
            let parts = match (separator, method) {
                (Some(""), _) => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
                (Some(separator), "split") => text.splitn(most.saturating_add(1), separator).collect(),
                (Some(separator), _) => {
                    let mut parts: Vec<&str> = text.rsplitn(most.saturating_add(1), separator).collect();
                    parts.reverse();
                    parts
                }
                (None, "split") => words(text, most),
                (None, _) => words_from_the_end(text, most),
            };
            list(state, parts)?
        }
        "splitlines" => {
            let (keeps_ends,): (Option<bool>,) = from_args(arguments)?;
            list(state, lines(text, keeps_ends.unwrap_or(false)))?
        }
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(arguments)?;
            Value::from(replaced(state, [text, old, new], count)?)
        }
        "join" => {
            let (values,): (&Value,) = from_args(arguments)?;
            Value::from(join(state, values, Some(text), None)?)
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(arguments)?;
            let split = if method == "partition" { text.split_once(separator) } else { text.rsplit_once(separator) };
            let parts = match (split, method) {
                (Some((before, after)), _) => [before, separator, after],
                (None, "partition") => [text, "", ""],
                (None, _) => ["", "", text],
            };
            parts.into_iter().map(Value::from).collect()
        }
        "isspace" => {
            let () = from_args(arguments)?;
            Value::from(!text.is_empty() && text.chars().all(is_space))
        }
        _ => return Ok(None),
    }))
}

/// The parts of a string as values, each of which takes more memory than a short part has bytes.
fn list(state: &State<'_, '_>, parts: Vec<&str>) -> Result<Value, Error> {
    if parts.len() > python::left(state) / size_of::<Value>() {
        return Err(python::too_much());
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// The words between white space; the last of `most + 1` is the rest.
fn words(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = if parts.len() < most { rest.find(is_space).unwrap_or(rest.len()) } else { rest.len() };
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn words_from_the_end(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        let last = rest.char_indices().rev().find(|(_, character)| is_space(*character));
        let begin = match last {
            Some((at, space)) if parts.len() < most => at + space.len_utf8(),
            _ => 0,
        };
        parts.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

fn lines(text: &str, keeps_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(ends_line);
        let (line, next) = match end {
            None => (rest.len(), rest.len()),
            Some(at) if rest[at..].starts_with("\r\n") => (at, at + 2),
            Some(at) => (at, at + rest[at..].chars().next().map_or(0, char::len_utf8)),
        };
        lines.push(&rest[..if keeps_ends { next } else { line }]);
        rest = &rest[next..];
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_divided_as_in_python() {
        assert_eq!(words(" a  b\u{1c}c ", usize::MAX), ["a", "b", "c"]);
        assert_eq!(words(" a  b c ", 1), ["a", "b c "]);
        assert!(words(" \n", usize::MAX).is_empty());
        assert_eq!(words_from_the_end(" a b  c ", 1), [" a b", "c"]);
        assert_eq!(words_from_the_end(" a b  c ", usize::MAX), ["a", "b", "c"]);
        assert_eq!(lines("a\r\nb\u{2028}\nc\n", false), ["a", "b", "", "c"]);
        assert_eq!(lines("a\r\nb\n", true), ["a\r\n", "b\n"]);
        assert_eq!(strip("\u{1f} a\u{a0}", None, [true, true]), "a");
        assert_eq!(strip("xxay", Some("yx"), [true, false]), "ay");
    }
}

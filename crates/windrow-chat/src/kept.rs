//! Values that a template keeps: those that it binds to a name or puts into a namespace.
//!
//! The engine compares, hashes, writes and drops nested values by recursion. A template can nest values without end only by binding each
//! to a name, as `{% set n.x = [n.x] %}` in a loop does. So every binding passes through [`keep`], which [`rewritten`] puts around the
//! expressions of tags. It makes a [`Container`](super::python) of each list and object, which knows how deep it is and counts the visits
//! of the engine.

use minijinja::value::{Kwargs, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value, functions};

use super::python::{self, Container, DEPTH};

/// The function that returns its argument in the form that is kept under a name.
pub(super) const KEPT: &str = "__windrow_kept";
/// The function for an attribute of a namespace, which may not be inside another namespace.
pub(super) const KEPT_INSIDE: &str = "__windrow_kept_inside";

/// The function and the filter [`KEPT`].
pub(super) fn kept(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    python::check()?;
    if is_opaque(value) {
        return Ok(value.clone());
    }
    keep(state, value, 0)
}

/// The function and the filter [`KEPT_INSIDE`].
pub(super) fn kept_inside(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    python::check()?;
    keep(state, value, 0)
}

/// `namespace(..)`, whose attributes are kept.
pub(super) fn namespace(state: &State<'_, '_>, defaults: Option<&Value>, attributes: Kwargs) -> Result<Value, Error> {
    let mut all = Vec::new();
    let mut add = |name: &Value, value: &Value| keep(state, value, 0).map(|value| all.push((name.clone(), value)));
    if let Some(defaults) = defaults {
        if defaults.kind() != ValueKind::Map {
            let kind = defaults.kind();
            let found = format!("namespace() takes an object or keyword arguments, not a value of type {kind}");
            return Err(Error::new(ErrorKind::InvalidOperation, found));
        }
        for name in defaults.try_iter()? {
            add(&name, &defaults.get_item(&name)?)?;
        }
    }
    for name in attributes.args() {
        add(&Value::from(name), &attributes.get::<Value>(name)?)?;
    }
    functions::namespace(Some(Value::from_pairs(all).into()))
}

/// A value in the form that is kept inside others that are `depth` deep.
fn keep(state: &State<'_, '_>, value: &Value, depth: usize) -> Result<Value, Error> {
    let Some(object) = value.as_object() else {
        let is_long = value.as_str().is_some_and(|text| text.len() > python::limit());
        return if is_long { Err(python::too_much()) } else { Ok(value.clone()) };
    };
    if let Some(container) = value.downcast_object_ref::<Container>() {
        return if container.depth + depth <= DEPTH { Ok(value.clone()) } else { Err(python::too_deep()) };
    }
    if is_opaque(value) {
        // Functions hold no values. The other objects may hold themselves.
        if value.kind() == ValueKind::Plain || object.type_name().ends_with("::Macro") {
            return Ok(value.clone());
        }
        let reason = "a namespace or a loop cannot be stored inside another value";
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
    }
    if depth == DEPTH {
        return Err(python::too_deep());
    }
    let inside = |value: &Value| {
        state.consume_fuel(1)?;
        keep(state, value, depth + 1)
    };
    if value.kind() == ValueKind::Map {
        let mut fields = Vec::new();
        for name in value.try_iter()? {
            fields.push((inside(&name)?, inside(&value.get_item(&name)?)?));
        }
        return Ok(python::container(Value::from_pairs(fields)));
    }
    let mut items = Vec::new();
    for item in value.try_iter()? {
        items.push(inside(&item)?);
    }
    if depth == 0 && value.downcast_object_ref::<Tuple>().is_some() {
        return Ok(Value::from(Tuple::from(items)));
    }
    Ok(python::container(Value::from(items)))
}

/// True if a value is an object of the engine that is neither a list nor a dictionary: a namespace, a loop, a macro or a function.
fn is_opaque(value: &Value) -> bool {
    let Some(object) = value.as_object() else { return false };
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => false,
        ValueKind::Map => {
            let is_container = value.downcast_object_ref::<Container>().is_some();
            !is_container
                && !["IndexMap<", "BTreeMap<", "::Kwargs", "Merge"].iter().any(|map| object.type_name().contains(map))
        }
        _ => true,
    }
}

/// A tag whose expressions are kept.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rewritten {
    /// The text inside the tag.
    pub(super) body: String,
    /// Names that the tag binds, which later tags are to keep.
    pub(super) names: Vec<String>,
}

/// Puts [`KEPT`] around the expressions that a tag binds to names, and after factors, which may be lists. `None` if the tag has neither.
pub(super) fn rewritten(body: &str, is_block: bool) -> Option<Rewritten> {
    let tokens = tokens(body);
    let word = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text(body));
    let flat = |from: usize, text: &str| {
        let mut rest = tokens.iter().enumerate().skip(from);
        rest.find(|(_, token)| token.depth == 0 && token.text(body) == text).map(|(at, _)| at)
    };
    let is_word = |at: usize, words: &[&str]| words.contains(&word(at)) && word(at.wrapping_sub(1)) != ".";
    let names = |from: usize, to: usize, depth: usize| {
        let named = (from..to).filter(|&at| {
            let is_first = depth == 0 || matches!(word(at - 1), "(" | ",");
            tokens[at].is_name && tokens[at].depth == depth && is_first
        });
        named.map(|at| word(at).to_owned()).collect::<Vec<_>>()
    };
    let mut inserted = repeated(body, &tokens);
    let mut bound = Vec::new();
    let mut keep = |function: &str, from: usize, to: usize| {
        // A name and its attributes are kept, and so are words and numbers.
        let is_plain = (from..to).all(|at| tokens[at].is_name && word(at) != "if" || word(at) == ".");
        let is_one = to == from + 1 && !tokens[from].is_name;
        if from < to && !(is_one || is_plain && function == KEPT) {
            inserted.push((tokens[from].start, format!("{function}((")));
            inserted.push((tokens[to - 1].end, "))".to_owned()));
        }
    };
    match if is_block { word(0) } else { "" } {
        "set" => match flat(1, "=") {
            Some(equals) => {
                let is_inside = (1..equals).any(|at| word(at) == ".");
                keep(if is_inside { KEPT_INSIDE } else { KEPT }, equals + 1, tokens.len());
            }
            None => {
                flat(1, "|")?;
                inserted.push((tokens.last()?.end, format!(" | {KEPT_INSIDE}")));
            }
        },
        "with" => {
            let mut at = 1;
            while let Some(equals) = flat(at, "=") {
                let end = flat(equals, ",").unwrap_or(tokens.len());
                keep(KEPT, equals + 1, end);
                at = end;
            }
        }
        "for" => {
            let within = flat(1, "in")?;
            let end = (within + 2..tokens.len()).find(|&at| tokens[at].depth == 0 && is_word(at, &["if", "recursive"]));
            keep(KEPT, within + 1, end.unwrap_or(tokens.len()));
            if end.is_some() && tokens.last().is_some_and(|last| last.text(body) == "recursive") {
                bound = names(1, within, 0);
                bound.extend(names(1, within, 1));
            }
        }
        "macro" | "call" if word(1) == "(" || word(2) == "(" && word(0) == "macro" => {
            let close = tokens.iter().position(|token| token.depth == 0 && token.text(body) == ")")?;
            bound = names(2, close, 1);
        }
        _ => {}
    }
    inserted.sort_by_key(|(at, _)| *at);
    if inserted.is_empty() && bound.is_empty() {
        return None;
    }
    let (mut result, mut copied) = (String::with_capacity(body.len() + 32), 0);
    for (at, text) in inserted {
        result.push_str(&body[copied..at]);
        result.push_str(&text);
        copied = at;
    }
    result.push_str(&body[copied..]);
    Some(Rewritten { body: result, names: bound })
}

/// Puts [`KEPT`] after the factors of products. A list times a number is a list that the engine makes while it is read, so it costs nothing
/// and may have any length. A product that is made of a kept list counts its visits.
fn repeated(body: &str, tokens: &[Token]) -> Vec<(usize, String)> {
    let word = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text(body));
    let is_digit = |at: usize| word(at).starts_with(|first: char| first.is_ascii_digit());
    let is_string = |at: usize| word(at).starts_with(['\'', '"']);
    let ends_factor = |at: usize| {
        let is_keyword = ["and", "or", "not", "in", "is", "if", "else"].contains(&word(at));
        tokens[at].is_name && !is_keyword || is_digit(at) || is_string(at) || [")", "]", "}"].contains(&word(at))
    };
    let close = |open: usize| {
        let mut rest = tokens.iter().enumerate().skip(open + 1);
        rest.find(|(_, token)| token.depth <= tokens[open].depth).map_or(tokens.len(), |(at, _)| at)
    };
    let past_arguments = |at: usize| if ["(", "["].contains(&word(at)) { close(at) + 1 } else { at };
    let mut inserted = Vec::new();
    for star in (1..tokens.len()).filter(|&at| word(at) == "*" && ends_factor(at - 1)) {
        inserted.push((tokens[star - 1].end, format!(" | {KEPT}")));
        let mut at = star + 1;
        while word(at) == "-" {
            at += 1;
        }
        at = match word(at) {
            "(" | "[" | "{" => close(at) + 1,
            _ if is_string(at) => (at..).find(|&at| !is_string(at)).unwrap_or(at),
            _ => at + 1,
        };
        loop {
            at = match word(at) {
                "." => at + 2,
                "(" | "[" => close(at) + 1,
                "|" => {
                    at += 2;
                    while word(at) == "." {
                        at += 2;
                    }
                    past_arguments(at)
                }
                _ => break,
            };
        }
        // A factor between two stars gets it from the second.
        if let Some(last) = tokens.get(at - 1).filter(|_| word(at) != "*") {
            inserted.push((last.end, format!(" | {KEPT}")));
        }
    }
    inserted
}

/// A word or sign of a tag.
pub(super) struct Token {
    start: usize,
    end: usize,
    is_name: bool,
    /// Number of brackets around it. An opening or closing bracket has the depth of the text around its pair.
    pub(super) depth: usize,
}

impl Token {
    fn text<'b>(&self, body: &'b str) -> &'b str {
        &body[self.start..self.end]
    }
}

/// Divides the text inside a tag like the engine.
pub(super) fn tokens(body: &str) -> Vec<Token> {
    let bytes = body.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let (mut tokens, mut at, mut depth) = (Vec::new(), 0, 0_usize);
    while at < bytes.len() {
        let (start, byte) = (at, bytes[at]);
        at += 1;
        let mut own = depth;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'\'' | b'"' => {
                while at < bytes.len() && bytes[at] != byte {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                while !body.is_char_boundary(at) {
                    at += 1;
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                own = depth;
            }
            b'=' | b'!' | b'<' | b'>' if bytes.get(at) == Some(&b'=') => at += 1,
            b'*' | b'/' if bytes.get(at) == Some(&byte) => at += 1,
            _ if is_name(byte) => {
                while at < bytes.len() && is_name(bytes[at]) {
                    at += 1;
                }
            }
            _ => {}
        }
        let is_name = is_name(byte) && !byte.is_ascii_digit();
        tokens.push(Token { start, end: at, is_name, depth: own });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> (String, String) {
        let Some(Rewritten { body, names }) = rewritten(body, true) else { return Default::default() };
        (body.replace(KEPT_INSIDE, "i").replace(KEPT, "k"), names.join(" "))
    }

    #[test]
    fn expressions_that_are_bound_are_kept() {
        for (body, kept) in [
            ("set x = [x] ", "set x = k(([x])) "),
            ("set x = x, 'é'", "set x = k((x, 'é'))"),
            ("set x = a == b if c", "set x = k((a == b if c))"),
            ("set n.x = n", "set n.x = i((n))"),
            ("set a, n.x = y", "set a, n.x = i((y))"),
            ("set x | default([y], true)", "set x | default([y], true) | i"),
            ("with a = [1, '=,'], b=f(x=1)", "with a = k(([1, '=,'])), b=k((f(x=1)))"),
            ("for x in [[x]] if x", "for x in k(([[x]])) if x"),
            ("for a, b in x.items() ", "for a, b in k((x.items())) "),
            ("for x in recursive.if[1:] recursive", "for x in k((recursive.if[1:])) recursive"),
            ("if [1] * 5", "if [1] | k * 5 | k"),
            ("if f(*x, **y) ** 2 // 3", ""),
            ("if 2 * -x.y[0](1) | a.b(3) | c is odd", "if 2 | k * -x.y[0](1) | a.b(3) | c | k is odd"),
            ("if a * 'b' 'c' * [d][0] + 1", "if a | k * 'b' 'c' | k * [d][0] | k + 1"),
            ("set x = [1] * n", "set x = k(([1] | k * n | k))"),
        ] {
            assert_eq!(of(body).0, kept);
        }
        for same in [
            "set x = y.z",
            "set x = 'a'",
            "set n.x = 1",
            "set x",
            "for m in messages",
            "if [x]",
            "set",
            "with",
            "for x",
        ] {
            assert_eq!(rewritten(same, true), None, "{same}");
        }
    }

    #[test]
    fn names_that_calls_bind_are_found() {
        for (body, names) in [
            ("macro m(a, b=[c, d], e = f(g))", "a b e"),
            ("macro m()", ""),
            ("call(x, y) m(z)", "x y"),
            ("call m(z)", ""),
            ("for a, (b, c) in x recursive", "a b c"),
            ("for a in x if a recursive", "a"),
            ("for recursive in recursive", ""),
        ] {
            assert_eq!(of(body).1, names, "{body}");
        }
    }
}

//! Parsers of the command line, for values that other interfaces take in another form.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Values by the names that their type defines.
pub(super) fn named<T, const N: usize>(names: [&'static str; N]) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr + Clone + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// A text with escapes.
pub(super) fn unescaped(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        plain.push(match (next, next == '\\') {
            (next, false) => next,
            (_, true) => match rest.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err(r"the escapes are \n, \t and \\".into()),
            },
        });
    }
    Ok(plain)
}

/// The names in a comma-separated list, in which `\,` is a comma within a name.
pub fn names(list: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut rest = list.chars().peekable();
    while let Some(next) = rest.next() {
        let name = names.last_mut().expect("the list is never empty");
        match next {
            '\\' if rest.next_if_eq(&',').is_some() => name.push(','),
            ',' => names.push(String::new()),
            next => name.push(next),
        }
    }
    names
}

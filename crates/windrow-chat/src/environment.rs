//! The environment of chat templates, as in `transformers`.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use super::date::Date;
use super::json;
use super::kept::{self, KEPT, KEPT_INSIDE};
use super::methods;
use super::python;
use super::render::NO_DATE;

/// Limit of a run, in steps of the engine plus units of 64 bytes that it makes: a second or so.
pub(super) const STEPS: u64 = 20_000_000;

pub(super) fn environment(date: Option<Date>) -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the usual delimiters"));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call);
    environment.set_fuel(Some(STEPS));
    environment.add_filter("tojson", json::tojson);
    environment.add_filter("trim", methods::trim);
    environment.add_filter("join", methods::join);
    environment.add_filter("string", |state: &State<'_, '_>, value: &Value| python::text(value, python::left(state)));
    environment.add_filter("format", methods::format);
    environment.add_filter("slice", methods::slice);
    environment.add_filter("indent", methods::indent);
    environment.add_filter("replace", methods::replace);
    environment.set_formatter(python::write);
    environment.add_function("namespace", kept::namespace);
    environment.add_function(KEPT, kept::kept);
    environment.add_function(KEPT_INSIDE, kept::kept_inside);
    environment.add_filter(KEPT, kept::kept);
    environment.add_filter(KEPT_INSIDE, kept::kept_inside);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_test("number", |value: &Value| value.kind() == ValueKind::Bool || python::number(value).is_some());
    environment.add_function("raise_exception", raise_exception);
    set_date(&mut environment, date);
    environment
}

/// Sets the date that `strftime_now` gives.
pub(super) fn set_date(environment: &mut Environment<'_>, date: Option<Date>) {
    let strftime_now = move |format: &str| {
        let date = date.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, NO_DATE))?;
        let refused =
            |directive| Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not support {directive:?}"));
        date.format(format).map_err(refused)
    };
    environment.add_function("strftime_now", strftime_now);
}

fn raise_exception(state: &State<'_, '_>, message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, python::text(message, python::left(state))?))
}

/// True for a value with a length and items, with Jinja's meaning of a sequence. Strings and objects are sequences.
fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
}

/// True for a value that can be iterated over, with Jinja's meaning. Strings and objects are iterable.
fn is_iterable(value: &Value) -> bool {
    is_sequence(value) || value.kind() == ValueKind::Iterable
}

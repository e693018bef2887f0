//! Events in Chrome's trace event format: what all timelines of windrow are written with.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::Path;

use windrow_plan::listen::CallPlace;

/// The array of events of one process.
pub(super) struct Events<W> {
    pub(super) out: W,
    pid: u32,
    is_first: bool,
}

impl<W: Write> Events<W> {
    /// Begins the file; `other` are members of the object `otherData` after the version.
    pub(super) fn begin(mut out: W, pid: u32, program: &str, other: fmt::Arguments<'_>) -> io::Result<Self> {
        let (version, program) = (env!("CARGO_PKG_VERSION"), escaped(program));
        write!(out, r#"{{"displayTimeUnit":"ns","otherData":{{"program":"{program}","windrow":"{version}"{other}}},"#)?;
        write!(out, r#""traceEvents":["#)?;
        let mut events = Self { out, pid, is_first: true };
        events.metadata(0, "process_name", format_args!(r#""name":"{program}""#))?;
        Ok(events)
    }

    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }

    /// Adds an event of this process, from its phase and its other members.
    pub(super) fn add(&mut self, phase: &str, members: fmt::Arguments<'_>) -> io::Result<()> {
        let before = if std::mem::take(&mut self.is_first) { "" } else { "," };
        write!(self.out, "{before}\n{{\"ph\":\"{phase}\",\"pid\":{},{members}}}", self.pid)
    }

    fn metadata(&mut self, tid: usize, what: &str, args: fmt::Arguments<'_>) -> io::Result<()> {
        self.add("M", format_args!(r#""tid":{tid},"name":"{what}","args":{{{args}}}"#))
    }

    /// The track `tid` has this name, and comes in the order of the numbers.
    pub(super) fn track(&mut self, tid: usize, name: &str) -> io::Result<()> {
        self.metadata(tid, "thread_name", format_args!(r#""name":"{}""#, escaped(name)))?;
        self.metadata(tid, "thread_sort_index", format_args!(r#""sort_index":{tid}"#))
    }

    /// A slice of the track `tid`, from `begin` to `end` in nanoseconds.
    pub(super) fn slice(
        &mut self,
        tid: usize,
        (begin, end): (u64, u64),
        (category, name): (&str, &str),
        args: &Args,
    ) -> io::Result<()> {
        let (at, length, name) = (micros(begin), micros(end.saturating_sub(begin)), escaped(name));
        let args = &args.0;
        self.add(
            "X",
            format_args!(
                r#""tid":{tid},"ts":{at},"dur":{length},"cat":"{category}","name":"{name}","args":{{{args}}}"#
            ),
        )
    }

    /// The counter of this name has a value from `at` on, in nanoseconds. Viewers show the unit after the name.
    pub(super) fn counter(&mut self, at: u64, name: &str, counted: &str, value: u64) -> io::Result<()> {
        let (at, name) = (micros(at), escaped(name));
        self.add("C", format_args!(r#""tid":0,"ts":{at},"name":"{name}","args":{{"{counted}":{value}}}"#))
    }
}

/// The members of the object `args`.
#[derive(Default)]
pub(super) struct Args(pub(super) String);

impl Args {
    fn add(&mut self, name: &str, value: fmt::Arguments<'_>) {
        let before = if self.0.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(self.0, r#"{before}"{name}":{value}"#);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.add(name, format_args!(r#""{}""#, escaped(value)));
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.add(name, format_args!("{value}"));
    }

    pub(super) fn micros(&mut self, name: &str, nanos: u64) {
        self.add(name, format_args!("{}", micros(nanos)));
    }

    pub(super) fn flag(&mut self, name: &str) {
        self.add(name, format_args!("true"));
    }

    pub(super) fn place(&mut self, place: CallPlace) {
        if let Some(place) = place {
            self.text("place", &format!("{}:{}", place.file(), place.line()));
        }
    }
}

/// Nanoseconds as microseconds, exactly.
pub(super) fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// The name of the program.
pub(super) fn program() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The name of the file, and the line.
pub(super) fn short(place: CallPlace) -> String {
    let file = |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    place.map_or_else(String::new, |place| format!("{}:{}", file(place.file()), place.line()))
}

/// The name of a type without the modules of its parts: `Set<String>` for `a::Set<alloc::string::String>`.
pub(super) fn without_paths(name: &str) -> String {
    let mut short = String::new();
    // Where the current part begins.
    let mut part = 0;
    for c in name.chars() {
        short.push(c);
        if c.is_alphanumeric() || c == '_' || c == ':' {
            if short.ends_with("::") {
                short.truncate(part);
            }
        } else {
            part = short.len();
        }
    }
    short
}

/// A text as it stands in a string of JSON.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            // A terminal may obey a character, or not show it. Writing to a string does not fail.
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_no_paths() {
        for (name, short) in [
            ("u64", "u64"),
            ("a::b::Set", "Set"),
            ("a::Set<alloc::string::String>", "Set<String>"),
            ("a::Map<(u32, b::C), &[d::E]>", "Map<(u32, C), &[E]>"),
            ("a::main::{{closure}}", "{{closure}}"),
        ] {
            assert_eq!(without_paths(name), short);
        }
    }
}

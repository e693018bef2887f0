//! Counters of a trace, with their names.

use std::panic::Location;

use super::events::short;

/// The quantity of a counter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// The members of a round of a team from this place.
    Width(&'static Location<'static>),
    /// The operations of a batch of a structure of this type.
    Size(&'static str),
    /// The operations in the queue of a structure of this type.
    Queue(&'static str),
}

impl Counted {
    pub(super) fn name(self) -> String {
        match self {
            Counted::Width(place) => format!("round width of {}", short(Some(place))),
            Counted::Size(structure) => format!("batch size of {}", without_paths(structure)),
            Counted::Queue(structure) => format!("queue depth of {}", without_paths(structure)),
        }
    }

    /// Unit of the values: viewers show it after the name.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Counted::Width(_) => "members",
            Counted::Size(_) | Counted::Queue(_) => "operations",
        }
    }
}

/// The name of a type without the modules of its parts: `Set<String>` for `a::Set<alloc::string::String>`.
fn without_paths(name: &str) -> String {
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

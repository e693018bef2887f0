//! The function around an offset, and the parts of a file that a `cfg` compiles out.

use std::ops::Range;

use crate::source::Source;

/// Known values of `cfg` names while a predicate is evaluated; all other names stay open.
pub(crate) type Facts<'a> = &'a [(&'a str, bool)];

/// `None` when the facts leave the predicate open. Values of `key = "value"` are read from `text`, not from the masked code.
pub(crate) fn judge(predicate: &str, facts: Facts) -> Option<bool> {
    let predicate = predicate.trim();
    let Some((name, inner)) = predicate.strip_suffix(')').and_then(|p| p.split_once('(')) else {
        let name = predicate.split_whitespace().collect::<String>();
        return facts.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
    };
    let parts: Vec<Option<bool>> = split_at_commas(inner).into_iter().map(|part| judge(part, facts)).collect();
    // One part with the deciding value decides; otherwise every part must be known.
    let unless = |decides: bool| {
        if parts.contains(&Some(decides)) {
            Some(decides)
        } else if parts.contains(&None) {
            None
        } else {
            Some(!decides)
        }
    };
    match name.trim() {
        "not" => parts.first().copied().flatten().map(|value| !value),
        "all" => unless(false),
        "any" => unless(true),
        _ => None,
    }
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A part of a file that is compiled out under the facts.
#[derive(Debug, PartialEq)]
pub(crate) struct Inactive {
    pub(crate) span: Range<usize>,
    /// For `mod name;`: the name, and the path if there is a `#[path]`.
    pub(crate) module: Option<(String, Option<String>)>,
}

pub(crate) fn inactive(source: &Source, facts: Facts) -> Vec<Inactive> {
    let code = source.code();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(hash) = code[at..].find('#').map(|n| at + n) {
        at = hash + 1;
        if let Some(attribute) = attribute_at(code, hash, "#!")
            && is_false(source, &attribute, facts)
        {
            return vec![Inactive { span: 0..code.len(), module: None }];
        }
        let (mut off, mut path, mut item) = (false, None, hash);
        while let Some(attribute) = attribute_at(code, item, "#") {
            off |= is_false(source, &attribute, facts);
            let words = &source.text()[attribute.clone()];
            if words.trim_start().starts_with("path") {
                path = words.split('"').nth(1).map(str::to_owned);
            }
            item = attribute.end + 1;
            item += code[item..].len() - code[item..].trim_start().len();
            at = item;
        }
        if off {
            let span = hash..item_end(code, item);
            let name = |rest: &str| rest.trim().trim_end_matches(';').trim().to_owned();
            let declared = code[item..span.end].strip_suffix(';').and_then(|decl| decl.split_once("mod "));
            found.push(Inactive { span, module: declared.map(|(_, rest)| (name(rest), path)) });
        }
    }
    found
}

/// The text inside the attribute that starts at `at`, up to its closing bracket.
fn attribute_at(code: &str, at: usize, marker: &str) -> Option<Range<usize>> {
    let inside = code.get(at..)?.strip_prefix(marker)?.strip_prefix('[')?;
    let start = code.len() - inside.len();
    let mut depth = 1;
    let len = inside.bytes().position(|b| {
        depth += i32::from(b == b'[') - i32::from(b == b']');
        depth == 0
    })?;
    Some(start..start + len)
}

fn is_false(source: &Source, attribute: &Range<usize>, facts: Facts) -> bool {
    let predicate = source.text()[attribute.clone()].trim().strip_prefix("cfg").map(str::trim_start);
    predicate
        .and_then(|p| p.strip_prefix('('))
        .and_then(|p| p.strip_suffix(')'))
        .is_some_and(|p| judge(p, facts) == Some(false))
}

fn item_end(code: &str, start: usize) -> usize {
    const ITEMS: [&str; 16] = [
        "pub", "fn", "impl", "mod", "struct", "enum", "union", "trait", "unsafe", "const", "static", "use", "type",
        "extern", "async", "let",
    ];
    let first = code[start..].split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    // A field, an arm or an argument ends at a comma; in an item commas are generics.
    let ends_at_comma = !ITEMS.contains(&first);
    let mut depth = 0;
    for (at, b) in code.bytes().enumerate().skip(start) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth < 0 {
                    return at;
                }
                if depth == 0 && b == b'}' {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            b',' if depth == 0 && ends_at_comma => return at,
            _ => {}
        }
    }
    code.len()
}

/// The functions of a file, and its blocks that implement traits.
#[derive(Default)]
pub(crate) struct Items {
    pub(crate) functions: Vec<Function>,
    pub(crate) trait_impls: Vec<Range<usize>>,
}

/// A function with its body. A method is named `Type::name`, any other function `name`.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) body: Range<usize>,
}

/// The name of the innermost function around an offset; `-` outside of all functions.
pub(crate) fn enclosing(functions: &[Function], offset: usize) -> &str {
    let around = functions.iter().filter(|f| f.body.contains(&offset));
    around.min_by_key(|f| f.body.len()).map_or("-", |f| f.name.as_str())
}

pub(crate) fn items(source: &Source) -> Items {
    enum Label {
        Fn(String),
        Type(String, bool),
        Other,
    }
    let code = source.code();
    let mut words = source.words().peekable();
    let (mut found, mut open): (Items, Vec<(Label, usize)>) = (Items::default(), Vec::new());
    let mut pending: Option<(Label, usize, i32)> = None;
    let mut depth = 0;
    let mut at = 0;
    while at < code.len() {
        if let Some(&(offset, word)) = words.peek()
            && offset == at
        {
            words.next();
            at += word.len();
            let next = words.peek().filter(|&&(next, _)| code[at..next].trim().is_empty()).map(|&(_, name)| name);
            let in_fn = matches!(pending, Some((Label::Fn(_), ..)));
            match (word, next) {
                ("fn", Some(name)) if !in_fn => pending = Some((Label::Fn(name.to_owned()), at, depth)),
                ("impl", _) if pending.is_none() => pending = Some((Label::Type(String::new(), false), at, depth)),
                ("trait", Some(name)) if pending.is_none() => {
                    pending = Some((Label::Type(name.to_owned(), false), at, depth))
                }
                _ => {}
            }
            continue;
        }
        match code.as_bytes()[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if pending.as_ref().is_some_and(|p| p.2 == depth) => pending = None,
            b'{' => {
                let label = match pending.take_if(|p| p.2 == depth) {
                    Some((Label::Type(name, _), header, _)) if name.is_empty() => {
                        let (name, of_trait) = implemented(&code[header..at]);
                        Label::Type(name, of_trait)
                    }
                    Some((label, ..)) => label,
                    None => Label::Other,
                };
                open.push((label, at));
            }
            b'}' => match open.pop() {
                Some((Label::Fn(name), start)) => {
                    let owner = open.iter().rev().find_map(|(label, _)| match label {
                        Label::Type(owner, _) => Some(Some(owner)),
                        Label::Fn(_) => Some(None),
                        Label::Other => None,
                    });
                    let name = owner.flatten().map_or_else(|| name.clone(), |owner| format!("{owner}::{name}"));
                    found.functions.push(Function { name, body: start..at + 1 });
                }
                Some((Label::Type(_, true), start)) => found.trait_impls.push(start..at + 1),
                _ => {}
            },
            _ => {}
        }
        at += code[at..].chars().next().map_or(1, char::len_utf8);
    }
    found
}

/// For `<T> Drop for path::Guard<'_, T> where ..`: `Guard`, and whether the block implements a trait.
fn implemented(header: &str) -> (String, bool) {
    let mut flat = String::new();
    let mut depth = 0;
    let mut previous = ' ';
    for c in header.chars() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth -= 1,
            _ if depth == 0 => flat.push(if c.is_whitespace() { ' ' } else { c }),
            _ => {}
        }
        previous = c;
    }
    let flat = flat.split(" where ").next().unwrap_or("");
    let name = flat.rsplit(" for ").next().unwrap_or("").trim().trim_start_matches('&');
    let name: String = name.rsplit("::").next().unwrap_or("").split_whitespace().collect();
    (if name.is_empty() { "?".to_owned() } else { name }, flat.contains(" for "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_have_three_values() {
        let facts = [("test", false), ("loom", true), ("feature=\"portable\"", false)];
        let judged = |p| judge(p, &facts);
        assert_eq!(judged("test"), Some(false));
        assert_eq!(judged("not(loom)"), Some(false));
        assert_eq!(judged("unix"), None);
        assert_eq!(judged("all(unix, not(loom))"), Some(false));
        assert_eq!(judged("all(unix, loom)"), None);
        assert_eq!(judged("any(unix, loom,)"), Some(true));
        assert_eq!(judged("not(any(feature = \"portable\", test))"), Some(true));
    }

    fn cut(text: &str, facts: Facts) -> Vec<String> {
        inactive(&Source::new(text), facts).into_iter().map(|i| text[i.span].to_owned()).collect()
    }

    #[test]
    fn a_cfg_ends_with_its_item() {
        let facts = [("test", false)];
        assert_eq!(
            cut("a\n#[cfg(test)]\nmod tests { fn f() {} }\nb", &facts),
            ["#[cfg(test)]\nmod tests { fn f() {} }"]
        );
        assert_eq!(
            cut("#[cfg(test)] #[inline] fn f<A, B>() { a } b", &facts),
            ["#[cfg(test)] #[inline] fn f<A, B>() { a }"]
        );
        assert_eq!(cut("S { #[cfg(test)] a: 1, b }", &facts), ["#[cfg(test)] a: 1"]);
        assert_eq!(cut("#[cfg(unix)] fn f() {}", &facts), Vec::<String>::new());
        assert_eq!(cut("#![cfg(test)]\nfn f() {}", &facts), ["#![cfg(test)]\nfn f() {}"]);
    }

    #[test]
    fn a_declared_module_keeps_its_name_and_path() {
        let source =
            Source::new("#[path = \"x/y.rs\"]\n#[cfg(not(loom))]\npub(crate) mod futex;\n#[cfg(not(loom))] use a;");
        let found = inactive(&source, &[("loom", true)]);
        assert_eq!(found[0].module, Some(("futex".to_owned(), Some("x/y.rs".to_owned()))));
        assert_eq!(found[1].module, None);
    }

    #[test]
    fn functions_carry_their_type() {
        let text = "fn free(x: impl Fn() -> [u8; 4]) -> impl A { let f: fn(u8) = g; HERE1 }
            impl<T: Fn() -> u8> Drop for a::Guard<'_, T> where T: B { fn drop(&mut self) { fn inner() { HERE2 } HERE3 } }
            trait Park { fn wait(&self); fn wake(&self) { HERE4 } }
            const C: u8 = HERE5;";
        let source = Source::new(text);
        let items = items(&source);
        let name = |mark: &str| enclosing(&items.functions, text.find(mark).expect("mark")).to_owned();
        assert_eq!(name("HERE1"), "free");
        assert_eq!(name("HERE2"), "inner");
        assert_eq!(name("HERE3"), "Guard::drop");
        assert_eq!(name("HERE4"), "Park::wake");
        assert_eq!(name("HERE5"), "-");
        let in_trait_impl = |mark: &str| items.trait_impls.iter().any(|span| text[span.clone()].contains(mark));
        assert!(in_trait_impl("HERE3") && !in_trait_impl("HERE1") && !in_trait_impl("HERE4"));
    }
}

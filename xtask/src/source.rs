//! A Rust file with its code, its literals and its comments told apart.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use anyhow::Result;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

/// A regular expression, compiled once.
pub(crate) fn pattern(text: &str) -> Rc<Regex> {
    thread_local!(static COMPILED: RefCell<HashMap<String, Rc<Regex>>> = RefCell::default());
    let compile = || Rc::new(Regex::new(text).expect("patterns of xtask are valid"));
    COMPILED.with_borrow_mut(|compiled| compiled.entry(text.to_owned()).or_insert_with(compile).clone())
}

/// The matches of a pattern: where each begins, and the text of its last group.
pub(crate) fn matches<'a>(regex: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let last = |it: regex::Captures<'a>| Some((it.get(0)?.start(), it.iter().flatten().last()?.as_str()));
    pattern(regex).captures_iter(text).filter_map(last).collect()
}

pub(crate) struct Source {
    pub(crate) text: String,
    /// The file with comments and literals blanked. Every byte keeps its place.
    pub(crate) code: String,
    /// The file with everything except comments blanked.
    pub(crate) comments: String,
    tokens: TokenStream,
}

impl Source {
    pub(crate) fn new(text: &str) -> Result<Source> {
        let tokens: TokenStream = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let blank = text.bytes().map(|byte| if byte == b'\n' { byte } else { b' ' }).collect();
        let (mut code, mut comments): (Vec<u8>, _) = (blank, text.as_bytes().to_vec());
        leaves(text, tokens.clone(), &mut |at, is_literal| {
            comments[at.clone()].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            if !is_literal {
                code[at.clone()].copy_from_slice(&text.as_bytes()[at]);
            }
        });
        let [code, comments] = [code, comments].map(String::from_utf8);
        Ok(Source { text: text.to_owned(), code: code?, comments: comments?, tokens })
    }

    /// The line of an offset, counted from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// All comments about the statement around `offset`: those on its lines until `offset`, and the block directly above it.
    pub(crate) fn comments_about(&self, offset: usize) -> String {
        let start = statement(self.tokens.clone(), offset, true).unwrap_or(offset);
        let before = self.text.lines().take(self.line(start) - 1).collect::<Vec<_>>();
        let above = before.iter().rev().take_while(|line| line.trim_start().starts_with("//")).count();
        let comments = self.comments.lines().take(self.line(offset)).skip(before.len() - above);
        comments.map(str::trim).collect::<Vec<_>>().join("\n")
    }
}

/// Calls `found` with the place of every token, and whether it is a literal.
fn leaves(text: &str, tokens: TokenStream, found: &mut impl FnMut(Range<usize>, bool)) {
    for token in tokens {
        let at = token.span().byte_range();
        match token {
            // Documentation is lexed as an attribute.
            _ if ["//", "/*"].iter().any(|mark| text[at.start..].starts_with(mark)) => {}
            TokenTree::Group(group) => {
                found(at.start..at.start + 1, false);
                found(at.end - 1..at.end, false);
                leaves(text, group.stream(), found);
            }
            token => found(at, matches!(token, TokenTree::Literal(_))),
        }
    }
}

/// Where the statement around `offset` begins: behind the last `;`, `,` or `}` of its innermost block. Commas within brackets end nothing.
fn statement(tokens: TokenStream, offset: usize, is_block: bool) -> Option<usize> {
    let mut start = None;
    for token in tokens {
        let at = token.span().byte_range();
        let braces = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if at.end > offset {
            let TokenTree::Group(group) = token else { return is_block.then(|| start.unwrap_or(at.start)) };
            return statement(group.stream(), offset, braces).or(is_block.then(|| start.unwrap_or(at.start)));
        }
        let is_end = braces || matches!(&token, TokenTree::Punct(mark) if [';', ','].contains(&mark.as_char()));
        start = if is_end { None } else { start.or(Some(at.start)) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "/// d\u{e4}\nf(\"\u{20ac} // no\", 'c', r#\"x\"#); // \u{e4}\n/* a /* b */ c */ g::<'a>(b\"y\")";
        let source = Source::new(text).unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(&source.code), "f( , , ); g::<'a>( )");
        assert_eq!(words(&source.comments), "/// d\u{e4} // \u{e4} /* a /* b */ c */");
        assert_eq!((source.code.len(), source.line(text.find("g::").unwrap())), (text.len(), 3));
        assert!(Source::new("fn f( {").is_err());
    }

    fn about(text: &str) -> String {
        Source::new(text).unwrap().comments_about(text.find("HERE").expect("the sample marks a place"))
    }

    #[test]
    fn a_comment_belongs_to_the_statement_below_it() {
        assert_eq!(about("// far\n\n// near\n#[inline]\nfoo(HERE); // on\n// after"), "// near\n\n// on");
        assert_eq!(about("// one\na();\nHERE"), "");
        assert_eq!(about("// why\nlet x = y\n    .load(a,\n        HERE);"), "// why\n\n\n");
        assert_eq!(about("/// doc\n#[inline]\nHERE fn f() {}"), "/// doc\n\n");
    }

    #[test]
    fn a_comma_ends_an_arm_but_not_an_argument() {
        assert_eq!(about("match x {\n// one\nA => a(),\nB => HERE,\n}"), "");
        assert_eq!(about("match x {\n// one\nA => a(\n  1,\n  HERE),\n}"), "// one\n\n\n");
        assert_eq!(about("// out\nfoo(|| {\n  HERE\n})"), "");
    }
}

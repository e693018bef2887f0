//! A Rust file with its code, its literals and its comments told apart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use windrow_records::tools::{entries, line, pattern, read};

/// The matches of a pattern: where each begins, and the text of its last group.
pub fn matches<'a>(regex: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let last = |it: regex::Captures<'a>| Some((it.get(0)?.start(), it.iter().flatten().last()?.as_str()));
    pattern(regex).captures_iter(text).filter_map(last).collect()
}

/// The files of a crate under `src/`, by their path relative to the crate.
pub type Crate = BTreeMap<String, Source>;

/// A Rust file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The whole file.
    pub text: String,
    /// The file with comments and literals blanked. Every byte keeps its place.
    pub code: String,
    /// The file with everything except comments blanked.
    pub comments: String,
    tokens: TokenStream,
}

impl Source {
    /// The files under `src/` of a crate's folder.
    ///
    /// # Errors
    /// If one cannot be read, or is no Rust; the message names it.
    pub fn load(root: &Path) -> Result<Crate> {
        let (mut files, mut open) = (Crate::new(), vec![root.join("src")]);
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(entries(&path)?);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
                let source = Source::new(&read(&path)?).with_context(|| name.clone())?;
                files.insert(name, source);
            }
        }
        Ok(files)
    }

    /// The file with this text.
    ///
    /// # Errors
    /// If it is not made of Rust's tokens.
    pub fn new(text: &str) -> Result<Source> {
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

    /// Its items. A file that another one includes as an expression has none.
    pub fn items(&self) -> Vec<syn::Item> {
        syn::parse_file(&self.text).map_or(Vec::new(), |file| file.items)
    }

    /// The line of an offset, counted from 1.
    pub fn line(&self, offset: usize) -> usize {
        line(&self.text, offset)
    }

    /// All comments about the statement around `offset`: those on its lines until `offset`, and the block directly above it.
    pub fn comments_about(&self, offset: usize) -> String {
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

    #[test]
    fn a_comment_belongs_to_the_statement_below_it() {
        let about = |text: &str| Source::new(text).unwrap().comments_about(text.find("HERE").expect("a place"));
        assert_eq!(about("// far\n\n// near\n#[inline]\nfoo(HERE); // on\n// after"), "// near\n\n// on");
        assert_eq!(about("// one\na();\nHERE"), "");
        assert_eq!(about("// why\nlet x = y\n    .load(a,\n        HERE);"), "// why\n\n\n");
        // A comma ends an arm, but no argument.
        assert_eq!(about("match x {\n// one\nA => a(),\nB => HERE,\n}"), "");
        assert_eq!(about("match x {\n// one\nA => a(\n  1,\n  HERE),\n}"), "// one\n\n\n");
    }
}

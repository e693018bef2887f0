//! A Rust file with its comments and literals separated from its code.
//!
//! The checks need tokens and comments, never a syntax tree, so a masking scan is enough. Every byte of a comment or a literal becomes a
//! space in [`Source::code`], and offsets and lines stay those of the file.

use std::ops::Range;

pub(crate) struct Source {
    text: String,
    code: String,
    /// The comments on each line, markers included.
    comments: Vec<String>,
    line_starts: Vec<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Source {
        let line_starts: Vec<usize> = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i + 1))
            .collect();
        let mut source = Source {
            text: text.to_owned(),
            code: String::with_capacity(text.len()),
            comments: vec![String::new(); line_starts.len()],
            line_starts,
        };
        source.scan();
        source
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file with comments and the insides of literals blanked. It is as long as the file, byte for byte.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The line of an offset, counted from 0.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset) - 1
    }

    pub(crate) fn comment(&self, line: usize) -> &str {
        self.comments.get(line).map_or("", String::as_str)
    }

    fn code_line(&self, line: usize) -> &str {
        let end = self.line_starts.get(line + 1).map_or(self.code.len(), |&next| next - 1);
        self.code[self.line_starts[line]..end].trim()
    }

    /// Identifiers and keywords of the code with their offsets.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = self.code.as_str();
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                let c = code[at..].chars().next()?;
                if !is_word(c) {
                    at += c.len_utf8();
                    continue;
                }
                let start = at;
                at += code[at..].find(|c| !is_word(c)).unwrap_or(code.len() - at);
                if !c.is_ascii_digit() {
                    return Some((start, &code[start..at]));
                }
            }
        })
    }

    /// All comments about the statement around `offset`: those on its lines, and the block of comments and attributes directly above it.
    pub(crate) fn comments_about(&self, offset: usize) -> String {
        let last = self.line_of(offset);
        let mut first = self.line_of(self.statement_start(offset));
        while first > 0 && self.is_comment_or_attribute(first - 1) {
            first -= 1;
        }
        self.comments[first..=last].join("\n")
    }

    fn is_comment_or_attribute(&self, line: usize) -> bool {
        let code = self.code_line(line);
        if code.is_empty() { !self.comments[line].is_empty() } else { code.starts_with("#[") && code.ends_with(']') }
    }

    fn statement_start(&self, offset: usize) -> usize {
        let code = self.code.as_bytes();
        // The outermost bracket around the offset inside its block: commas within it do not end the statement.
        let (mut from, mut depth) = (offset, 0_u32);
        for at in (0..offset).rev() {
            match code[at] {
                b')' | b']' | b'}' => depth += 1,
                b'{' if depth == 0 => break,
                b'(' | b'[' if depth == 0 => from = at,
                b'(' | b'[' | b'{' => depth -= 1,
                b';' if depth == 0 => break,
                _ => {}
            }
        }
        let (mut start, mut depth) = (0, 0_u32);
        for at in (0..from).rev() {
            match code[at] {
                b';' | b',' | b'{' | b'}' if depth == 0 => {
                    start = at + 1;
                    break;
                }
                b')' | b']' => depth += 1,
                b'(' | b'[' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        let rest = &self.code[start..];
        start + (rest.len() - rest.trim_start().len())
    }

    /// The word that ends at `end`, white space skipped.
    pub(crate) fn word_before(&self, end: usize) -> (usize, &str) {
        let trimmed = self.code[..end].trim_end();
        let start =
            trimmed.rfind(|c| !is_word(c)).map_or(0, |at| at + trimmed[at..].chars().next().map_or(1, char::len_utf8));
        (start, &trimmed[start..])
    }

    fn scan(&mut self) {
        let text = std::mem::take(&mut self.text);
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let starts_word = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
            let end = if rest.starts_with(b"//") {
                let end = at + memchr(rest, b'\n').unwrap_or(rest.len());
                self.remember_comment(&text, at..end);
                end
            } else if rest.starts_with(b"/*") {
                let end = at + block_comment_len(rest);
                self.remember_comment(&text, at..end);
                end
            } else if rest[0] == b'"' {
                at + string_len(rest)
            } else if rest[0] == b'\'' {
                at + char_literal_len(&text[at..])
            } else if starts_word && let Some(len) = raw_string_len(rest) {
                at + len
            } else {
                at
            };
            if end == at {
                let c = text[at..].chars().next().expect("`at` stands on a character");
                self.code.push(c);
                at += c.len_utf8();
            } else {
                self.code.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { '\n' } else { ' ' }));
                at = end;
            }
        }
        self.text = text;
    }

    fn remember_comment(&mut self, text: &str, range: Range<usize>) {
        let first = self.line_of(range.start);
        for (n, line) in text[range].split('\n').enumerate() {
            let comment = &mut self.comments[first + n];
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(line.trim());
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn memchr(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|&b| b == wanted)
}

fn block_comment_len(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a character literal; 0 for a lifetime.
fn char_literal_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars.find(|&(_, c)| c == '\'').map_or(text.len(), |(at, _)| at + 1)
        }
        Some((_, c)) if c != '\'' => match chars.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        _ => 0,
    }
}

fn raw_string_len(bytes: &[u8]) -> Option<usize> {
    let prefix = usize::from(matches!(bytes.first(), Some(b'b' | b'c')));
    if bytes.get(prefix) != Some(&b'r') {
        return None;
    }
    let hashes = bytes[prefix + 1..].iter().take_while(|&&b| b == b'#').count();
    let body = prefix + 1 + hashes + 1;
    if bytes.get(body - 1) != Some(&b'"') {
        return None;
    }
    let mut end = body;
    while end < bytes.len() {
        let closes =
            bytes[end] == b'"' && bytes[end + 1..].iter().take(hashes).filter(|&&b| b == b'#').count() == hashes;
        end += 1;
        if closes {
            return Some(end + hashes);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::new(text).words().map(|(_, word)| word.to_owned()).collect()
    }

    #[test]
    fn comments_and_literals_hold_no_words() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(words(r#"a("b \" c", 'd', '\'', "\\") e"#), ["a", "e"]);
        assert_eq!(words("a r#\"b \" c\"# d br##\"e\"# f\"## g"), ["a", "d", "g"]);
        assert_eq!(words("f::<'a, 'static>('x', '\u{e4}') r#fn 12u8"), ["f", "a", "static", "r", "fn"]);
        assert_eq!(words("b\"x\" \"open"), ["b"]);
    }

    #[test]
    fn offsets_and_lines_survive_the_masking() {
        let text = "let s = \"\u{e4}\n\u{e4}\"; // \u{20ac}\nlast";
        let source = Source::new(text);
        assert_eq!(source.code().len(), text.len());
        let (offset, word) = source.words().last().expect("has words");
        assert_eq!((word, &text[offset..], source.line_of(offset)), ("last", "last", 2));
        assert_eq!(source.comment(1), "// \u{20ac}");
    }

    fn about(text: &str) -> String {
        let source = Source::new(text);
        let offset = source.code().find("HERE").expect("the sample marks a place");
        source.comments_about(offset)
    }

    #[test]
    fn a_comment_belongs_to_the_statement_below_it() {
        assert_eq!(about("// far\n\n// near\n#[inline]\nfoo(HERE); // on\n// after"), "// near\n\n// on");
        assert_eq!(about("// one\na();\nHERE"), "");
        assert_eq!(about("// why\nlet x = y\n    .load(a,\n        HERE);"), "// why\n\n\n");
    }

    #[test]
    fn a_comma_ends_an_arm_but_not_an_argument() {
        assert_eq!(about("match x {\n// one\nA => a(),\nB => HERE,\n}"), "");
        assert_eq!(about("match x {\n// one\nA => a(\n  1,\n  HERE),\n}"), "// one\n\n\n");
        assert_eq!(about("// out\nfoo(|| {\n  HERE\n})"), "");
    }

    #[test]
    fn the_word_before_skips_white_space() {
        let source = Source::new("a.load  (x)");
        assert_eq!(source.word_before(8), (2, "load"));
    }
}

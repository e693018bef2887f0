//! The text of a JSON line that is read part by part.
//!
//! The text is passed on as it arrives. The *skeleton* is kept: the line with a number in place of each value of the wanted field, and with
//! other long strings cut short. At the end the skeleton is parsed like a whole line, so that the same lines are good and the same
//! faults are found. A position in the skeleton is mapped to its position in the line. The content of an omitted string is checked
//! by the same parser, piece by piece.
//!
//! The skeleton is as large as everything outside strings, and long arrays of numbers are not cut.

use std::borrow::Cow;
use std::mem;

use memchr::{memchr, memchr2, memchr3};
use serde::Deserialize;

use crate::diagnose::FIRST;
use crate::document::{Fault, FaultKind, field_of, keep_of, syntax_fault, utf8_fault};
use crate::kept::Kept;

/// Bytes of a string other than the text that stay in the skeleton.
const STRING: usize = 64 << 10;

/// Limit of nesting depth. The parser refuses deeper values, so they need not be followed.
const DEPTH: usize = 128;

/// Bytes of an escape of two surrogates, the longest escape.
const PAIR: usize = 12;

/// A line whose parts have not all been read.
#[derive(Debug)]
pub(crate) struct JsonParts {
    field: String,
    /// True if strings other than the text are cut short.
    cuts_strings: bool,
    /// Number of bytes of a string that stay if strings are cut.
    kept_bytes: usize,
    skeleton: Vec<u8>,
    /// Positions in the skeleton with a replacement, and the number of bytes by which the line is longer there.
    elisions: Vec<(usize, i64)>,
    frames: Vec<Frame>,
    lexeme: Lexeme,
    /// The relation of the next value to the wanted path.
    next: Next,
    /// Number of texts that have begun. All but the last are void.
    texts: usize,
    /// True if the text has bytes.
    has_text: bool,
    /// Bytes at the end of the last part that cannot be read without the next part.
    pending: Vec<u8>,
    /// Number of bytes before them in the line.
    at: usize,
    /// The first bytes of the line.
    begin: Vec<u8>,
    /// The first fault. After a syntax fault only the encoding is checked.
    syntax: Option<Fault>,
    /// Number of bytes before the first byte that is not UTF-8.
    encoding: Option<usize>,
}

/// An open object or array.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Array,
    Object {
        /// The start of the rest of the wanted path, if the object is on that path.
        path: Option<usize>,
        /// True if the rest of the path was a key itself.
        is_whole: bool,
        expects_key: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lexeme {
    /// Outside strings.
    Structure,
    /// A key. The number is its start in the skeleton.
    Key(usize),
    /// A string that is in the skeleton so far. The number is its start in the skeleton.
    Other(usize),
    /// The rest of another string. The skeleton omits `bytes` bytes of it after `mark`.
    Cut { bytes: usize, mark: usize },
    /// The text. The skeleton omits `bytes` bytes of it after `mark`.
    Text { bytes: usize, mark: usize },
}

/// Bytes of a string.
struct Piece<'t> {
    text: &'t str,
    /// The known text after them.
    rest: &'t str,
    /// Number of bytes before them in the line.
    at: usize,
    /// True if the string ends after them.
    is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The text, if the value is a string.
    Text,
    /// The object with the rest of the path. The number is the start of that rest.
    Below(usize),
    Other,
}

impl JsonParts {
    /// A line whose reading has not begun. Values of fields can be kept only if strings are not cut.
    pub(crate) fn new(field: &str, cuts_strings: bool) -> Self {
        Self {
            field: field.to_owned(),
            cuts_strings,
            kept_bytes: STRING,
            skeleton: Vec::new(),
            elisions: Vec::new(),
            frames: Vec::new(),
            lexeme: Lexeme::Structure,
            next: Next::Other,
            texts: 0,
            has_text: false,
            pending: Vec::new(),
            at: 0,
            begin: Vec::new(),
            syntax: None,
            encoding: None,
        }
    }

    /// True if the values of these fields are in the skeleton.
    pub(crate) fn can_keep(field: &str, keep: &[String]) -> bool {
        let holds = |kept: &String| {
            field.strip_prefix(kept.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !keep.iter().any(holds)
    }

    /// Reads the next part, and appends its share of the text. Returns true if all text before this part is void, because the field occurs
    /// again; `text` then holds only its replacement.
    ///
    /// # Errors
    /// The size of the skeleton, if there is no memory for it.
    pub(crate) fn feed(&mut self, part: &[u8], text: &mut Vec<u8>) -> Result<bool, usize> {
        let most = self.skeleton.len() + self.pending.len() + part.len();
        self.skeleton.try_reserve(most - self.skeleton.len()).map_err(|_| most)?;
        Ok(self.feed_reserved(part, text))
    }

    fn feed_reserved(&mut self, part: &[u8], text: &mut Vec<u8>) -> bool {
        let mut bytes = mem::take(&mut self.pending);
        bytes.extend_from_slice(part);
        let missing = FIRST.saturating_sub(self.begin.len());
        self.begin.extend(part.iter().take(missing));
        if self.encoding.is_some() {
            return false;
        }
        let valid = match str::from_utf8(&bytes) {
            Ok(valid) => valid,
            Err(error) => {
                if error.error_len().is_some() {
                    self.encoding = Some(self.at + error.valid_up_to());
                    return false;
                }
                str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
        };
        let read = if self.syntax.is_some() { (valid.len(), false) } else { self.read(valid, text) };
        self.at += read.0;
        self.pending = bytes.split_off(read.0);
        read.1
    }

    /// Ends the line. Appends the values of kept fields, and calls `has` with each field that the line has.
    ///
    /// # Errors
    /// The fault of the whole line.
    pub(crate) fn finish(&mut self, keep: &[String], kept: &mut Kept, has: &mut dyn FnMut(usize)) -> Result<(), Fault> {
        if self.encoding.is_none() && str::from_utf8(&self.pending).is_err() {
            let valid = self.pending.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
            self.encoding = Some(self.at + valid);
        }
        let encoding = self.encoding.take().map(|at| at_place(utf8_fault(&self.begin), at));
        if let Some(fault) = encoding.or(self.syntax.take()) {
            return Err(fault);
        }
        let pending = mem::take(&mut self.pending);
        self.end_cut();
        self.skeleton.extend_from_slice(&pending);
        self.parse()?;
        if !keep.is_empty() {
            keep_of(&self.skeleton, keep, kept, has);
        }
        Ok(())
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.skeleton.capacity() + self.pending.capacity() + self.elisions.capacity() * size_of::<(usize, i64)>()
    }

    /// Parses the skeleton, whose text must be the last one.
    fn parse(&self) -> Result<(), Fault> {
        let skeleton = str::from_utf8(&self.skeleton).expect("parts of a text");
        let mut scratch = String::new();
        match field_of(skeleton, &self.field, &mut scratch) {
            Ok(number) => {
                assert_eq!(number, self.texts.to_string(), "the wanted text is not the last one");
                Ok(())
            }
            Err(fault) if fault.kind == FaultKind::Syntax || fault.kind == FaultKind::LoneSurrogate => {
                let more: i64 = self.elisions.iter().filter(|(from, _)| *from <= fault.at).map(|(_, more)| more).sum();
                let at = (fault.at as i64 + more) as usize;
                Err(at_place(fault, at))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Reads until the end, or up to an incomplete token. Returns the number of bytes read, and true if the text before is void.
    fn read(&mut self, valid: &str, text: &mut Vec<u8>) -> (usize, bool) {
        let bytes = valid.as_bytes();
        let (mut from, mut is_void) = (0, false);
        while from < bytes.len() && self.syntax.is_none() {
            from = match self.lexeme {
                Lexeme::Structure => {
                    let end = memchr3(b'"', b'{', b'[', &bytes[from..]).map_or(bytes.len(), |at| from + at);
                    self.structure(&bytes[from..end]);
                    let Some(&byte) = bytes.get(end) else { return (bytes.len(), is_void) };
                    is_void |= self.open(byte, text);
                    end + 1
                }
                _ => {
                    let (end, is_closed) = string_end(bytes, from);
                    let piece =
                        Piece { text: &valid[from..end], rest: &valid[end..], at: self.at + from, is_last: is_closed };
                    self.string(piece, text);
                    if is_closed {
                        self.close();
                    } else {
                        return (end, is_void);
                    }
                    end + 1
                }
            };
        }
        (if self.syntax.is_some() { bytes.len() } else { from }, is_void)
    }

    /// Structure up to the next string, object or array.
    fn structure(&mut self, bytes: &[u8]) {
        self.skeleton.extend_from_slice(bytes);
        let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b" \t\r\n:,]}+-.".contains(byte);
        if !bytes.iter().all(is_known) {
            // The first fault is here or earlier. For an escape, the message may depend on the following bytes.
            self.syntax = self.parse().err().filter(|fault| !fault.reason.contains("EOF while parsing"));
            return;
        }
        for byte in bytes {
            match (byte, self.frames.last_mut()) {
                (b',', Some(Frame::Object { expects_key, .. })) => (*expects_key, self.next) = (true, Next::Other),
                (b']' | b'}', _) => {
                    self.frames.pop();
                    self.next = Next::Other;
                }
                _ => {}
            }
        }
    }

    /// The start of a string, an object or an array. Returns true if the text before is void.
    fn open(&mut self, byte: u8, text: &mut Vec<u8>) -> bool {
        self.skeleton.push(byte);
        if byte == b'"'
            && let Some(Frame::Object { expects_key: true, .. }) = self.frames.last()
        {
            self.lexeme = Lexeme::Key(self.skeleton.len());
            return false;
        }
        let next = mem::replace(&mut self.next, Next::Other);
        let is_void = next != Next::Other && mem::take(&mut self.has_text);
        if is_void {
            text.clear();
        }
        match byte {
            b'"' if next == Next::Text => {
                self.texts += 1;
                self.lexeme = Lexeme::Text { bytes: 0, mark: self.skeleton.len() };
                self.skeleton.extend_from_slice(self.texts.to_string().as_bytes());
            }
            b'"' => self.lexeme = Lexeme::Other(self.skeleton.len()),
            _ if self.frames.len() >= DEPTH => self.syntax = self.parse().err(),
            b'{' => {
                let path = match next {
                    Next::Below(path) => Some(path),
                    _ if self.frames.is_empty() && self.texts == 0 => Some(0),
                    _ => None,
                };
                self.frames.push(Frame::Object { path, is_whole: false, expects_key: true });
            }
            _ => self.frames.push(Frame::Array),
        }
        is_void
    }

    /// Bytes of a string, up to its end or to the end of a part.
    fn string(&mut self, piece: Piece<'_>, text: &mut Vec<u8>) {
        let bytes = piece.text.as_bytes();
        match &mut self.lexeme {
            Lexeme::Structure => {}
            Lexeme::Key(_) => self.skeleton.extend_from_slice(bytes),
            Lexeme::Other(begin) => {
                self.skeleton.extend_from_slice(bytes);
                // The omission begins with the next part.
                if self.cuts_strings && !piece.is_last && self.skeleton.len() - *begin >= self.kept_bytes {
                    self.lexeme = Lexeme::Cut { bytes: 0, mark: self.skeleton.len() };
                    self.skeleton.push(b'.');
                }
            }
            Lexeme::Cut { bytes: omitted, .. } => {
                *omitted += bytes.len();
                self.check(&piece, None);
            }
            Lexeme::Text { bytes: omitted, .. } => {
                *omitted += bytes.len();
                self.has_text |= !bytes.is_empty();
                self.check(&piece, Some(text));
            }
        }
    }

    /// Checks bytes of a string that the skeleton omits, and appends the text they encode.
    fn check(&mut self, piece: &Piece<'_>, text: Option<&mut Vec<u8>>) {
        let is_plain = memchr(b'\\', piece.text.as_bytes()).is_none() && !piece.text.bytes().any(|byte| byte < 0x20);
        if is_plain {
            text.into_iter().for_each(|text| text.extend_from_slice(piece.text.as_bytes()));
            return;
        }
        let quoted = format!("\"{}\"", piece.text);
        let Err(error) = serde_json::from_str(&quoted).map(|content: Cow<'_, str>| {
            text.into_iter().for_each(|text| text.extend_from_slice(content.as_bytes()));
        }) else {
            return;
        };
        // The message may depend on a few characters after an escape.
        let more: String = piece.rest.chars().take(PAIR).collect();
        let whole = format!("\"{}{more}", piece.text);
        let mut json = serde_json::Deserializer::from_str(&whole);
        let error = String::deserialize(&mut json).err().unwrap_or(error);
        let fault = syntax_fault(&whole, &error);
        let place = (piece.at + fault.at).saturating_sub(1);
        // A fault before this string takes precedence.
        let before = self.parse().err().filter(|fault| !fault.reason.contains("EOF while parsing a string"));
        self.syntax = Some(before.unwrap_or_else(|| at_place(fault, place)));
    }

    /// The end of a string.
    fn close(&mut self) {
        self.end_cut();
        if let Lexeme::Key(begin) = self.lexeme {
            self.key(begin);
        }
        self.lexeme = Lexeme::Structure;
        self.skeleton.push(b'"');
    }

    /// Records the omission from the skeleton.
    fn end_cut(&mut self) {
        if let Lexeme::Cut { bytes, mark } | Lexeme::Text { bytes, mark } = self.lexeme {
            self.elisions.push((mark, bytes as i64 - (self.skeleton.len() - mark) as i64));
        }
    }

    /// Ends a key that starts at `begin` in the skeleton.
    fn key(&mut self, begin: usize) {
        let Some(Frame::Object { path, is_whole, expects_key }) = self.frames.last_mut() else { return };
        *expects_key = false;
        let Some(path) = *path else { return };
        let raw = &self.skeleton[begin..];
        let unescaped = if raw.contains(&b'\\') {
            serde_json::from_slice::<String>(&[b"\"", raw, b"\""].concat()).ok()
        } else {
            str::from_utf8(raw).ok().map(str::to_owned)
        };
        let Some(name) = unescaped else { return };
        self.next = match self.field[path..].strip_prefix(name.as_str()) {
            Some("") => {
                *is_whole = true;
                Next::Text
            }
            Some(rest) if rest.starts_with('.') && !name.contains('.') && !*is_whole => {
                Next::Below(path + name.len() + 1)
            }
            _ => Next::Other,
        };
    }
}

/// The text in a field of a line that is read in parts, which have these lengths cyclically. Other strings are cut if `kept_bytes` says where.
/// For tests, and for the fuzzer.
///
/// # Errors
/// The fault of the whole line.
pub fn text_in_parts(line: &[u8], field: &str, lengths: &[usize], kept_bytes: Option<usize>) -> Result<String, Fault> {
    let mut parts =
        JsonParts { kept_bytes: kept_bytes.unwrap_or(STRING), ..JsonParts::new(field, kept_bytes.is_some()) };
    let (mut all, mut text, mut rest) = (Vec::new(), Vec::new(), line);
    let mut lengths = lengths.iter().cycle();
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |&length| length.clamp(1, rest.len()));
        let (part, after) = rest.split_at(length);
        rest = after;
        text.clear();
        if parts.feed(part, &mut text).expect("memory for a line") {
            all.clear();
        }
        all.extend_from_slice(&text);
    }
    parts.finish(&[], &mut Kept::default(), &mut |_| {}).map(|()| String::from_utf8(all).expect("the text of a line"))
}

/// A fault at another position of a line.
fn at_place(fault: Fault, at: usize) -> Fault {
    Fault { at, line_in_record: 0, byte: at as u64 + 1, ..fault }
}

/// The end of the string that continues at `from`, and true; or the end of its part that can be read without more bytes, and false.
fn string_end(bytes: &[u8], mut from: usize) -> (usize, bool) {
    loop {
        let Some(at) = memchr2(b'"', b'\\', &bytes[from..]).map(|at| from + at) else { return (bytes.len(), false) };
        if bytes[at] == b'"' {
            return (at, true);
        }
        match &bytes[at..bytes.len().min(at + PAIR)] {
            [_] => return (at, false),
            [_, b'u', rest @ ..] => {
                // A surrogate belongs to the one after it.
                let is_first = rest.len() >= 2
                    && rest[0].eq_ignore_ascii_case(&b'd')
                    && matches!(rest[1], b'8'..=b'9' | b'a'..=b'b' | b'A'..=b'B');
                let has_second =
                    rest.get(4).is_none_or(|&byte| byte == b'\\') && rest.get(5).is_none_or(|&byte| byte == b'u');
                let length = if is_first && has_second { PAIR } else { PAIR / 2 };
                let escape = &bytes[at..bytes.len().min(at + length)];
                if escape.len() < length {
                    return (at, false);
                }
                if let Some(quote) = memchr(b'"', escape) {
                    return (at + quote, true);
                }
                from = at + length;
            }
            _ => from = at + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::document::text_of;
    use crate::input::Format;

    fn compare(line: &[u8], field: &str, lengths: &[usize]) {
        let whole = text_of(Format::Jsonl, line, field, &mut String::new()).map(str::to_owned);
        for kept_bytes in [None, Some(24)] {
            let parts = text_in_parts(line, field, lengths, kept_bytes);
            assert_eq!(parts, whole, "{:?} in parts of {lengths:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn lines_of_all_kinds_are_as_good_in_parts_as_whole() {
        let long = "x".repeat(100);
        let lines = [
            r#"{"text": "plain"}"#.to_owned(),
            r#"{"text": "", "text": "second", "other": "text"}"#.to_owned(),
            r#"{"text": "first", "text": ""}"#.to_owned(),
            r#"{"text": "first", "text": null}"#.to_owned(),
            r#"{"t\u0065xt": "\u00e9\ud83d\ude00\n\"\\\/"}"#.to_owned(),
            r#"{"text": "a\ud83d"}"#.to_owned(),
            r#"{"text": "a\ud83d\n"}"#.to_owned(),
            r#"{"text": "a\ud83d\u0041"}"#.to_owned(),
            r#"{"text": "a\ude00b"}"#.to_owned(),
            r#"{"text": "a\u12"}"#.to_owned(),
            r#"{"text": "a\u12", "b": 1}"#.to_owned(),
            r#"{"text": "a\x"}"#.to_owned(),
            "{\"text\": \"a\u{1}b\"}".to_owned(),
            "{\"text\": \"a\tb\"}".to_owned(),
            r#"{"text": "a"#.to_owned(),
            r#"",\u"\"{"#.to_owned(),
            r#"{"b": "a\u"\"{"#.to_owned(),
            r#"{"text": "a\"#.to_owned(),
            r#"{"text": "a\u00"#.to_owned(),
            r#"{"text": "a\ud83d\u"#.to_owned(),
            r#"{"text": "a"} x"#.to_owned(),
            r#"{"text": "a"} {"text": "b"}"#.to_owned(),
            r#"{"text": "a", }"#.to_owned(),
            r#"{"text": "a" "b"}"#.to_owned(),
            r#"{, "text": "a\x"}"#.to_owned(),
            r#"{"n": NaN, "text": "a"}"#.to_owned(),
            r#"["text", {"text": "a"}]"#.to_owned(),
            r#""text""#.to_owned(),
            "17".to_owned(),
            " ".to_owned(),
            "]}".to_owned(),
            r#"{"other": {"text": "inner"}, "list": ["text", {"text": 1}], "text": "outer"}"#.to_owned(),
            format!(r#"{{"other": "{long}", "text": "a"}}"#),
            format!(r#"{{"other": "{long}\x", "text": "a"}}"#),
            format!(r#"{{"other": "{long}\ud800{long}", "text": "a"}}"#),
            format!(r#"{{"other": "{long}", "text": "{long}", }}"#),
            format!(r#"{{"text": "{long}", "other": "{long}"#),
            format!(r#"{{"text": "{long}", "other": {}"#, "[".repeat(126)),
            format!(r#"{{"text": "{long}", "other": {}{}}}"#, "[".repeat(126), "]".repeat(126)),
            format!(r#"{{"text": "{long}", "other": {}{}}}"#, "[".repeat(140), "]".repeat(140)),
        ];
        for line in lines {
            for length in [1, 2, 3, 5, 7, 30, 1000] {
                compare(line.as_bytes(), "text", &[length]);
            }
        }
    }

    #[test]
    fn paths_are_followed_as_in_a_whole_line() {
        for line in [
            r#"{"a": {"b": "x"}}"#,
            r#"{"a": {"b": "x"}, "a.b": "y"}"#,
            r#"{"a.b": "y", "a": {"b": "x"}}"#,
            r#"{"a.b": 5, "a": {"b": "x"}}"#,
            r#"{"a": {"b": "x"}, "a": {}}"#,
            r#"{"a": {"b": "x"}, "a": {"b": "z"}}"#,
            r#"{"a": {"b": "x", "b": "z"}, "a": 1}"#,
            r#"{"a": ["b", {"b": "x"}]}"#,
            r#"{"a": "b"}"#,
            r#"{"a": {"b": {"b": "x"}}}"#,
            r#"{"b": "x", "a": {"c": {"b": "y"}}}"#,
        ] {
            for length in [1, 4, 100] {
                compare(line.as_bytes(), "a.b", &[length]);
                compare(line.as_bytes(), "a", &[length]);
                compare(line.as_bytes(), "a.b.b", &[length]);
            }
        }
    }

    #[test]
    fn after_a_byte_that_is_no_json_nothing_is_kept() {
        let mut parts = JsonParts::new("text", true);
        let mut text = Vec::new();
        (0..100).for_each(|_| assert!(!parts.feed(&[0; 1000], &mut text).unwrap()));
        assert!(parts.memory() < 10_000, "{} bytes", parts.memory());
        let fault = parts.finish(&[], &mut Kept::default(), &mut |_| {}).unwrap_err();
        assert_eq!((fault.kind, fault.at), (FaultKind::Syntax, 0));
    }

    #[test]
    fn what_is_no_utf_8_is_found_first() {
        for line in [
            &b"{\"text\": \"a\xff\"}"[..],
            b"\xff\xfe{",
            b"{\"text\": \"a\\x\", \"b\": \"\xe2\x82\"}",
            b"{\"text\": \"a\", \"b\": \"\xe2\x82",
            b"{\"text\": \"\xe2\x82\xac\xf0\x9f\x98\x80\"}",
        ] {
            for length in [1, 2, 3, 100] {
                compare(line, "text", &[length]);
            }
        }
    }

    #[test]
    fn kept_values_are_found() {
        let line = br#"{"id": [1, "a long string of more than some bytes"], "text": "aaaa", "x": {"y": 5}}"#;
        let mut parts = JsonParts::new("text", false);
        let mut text = Vec::new();
        line.chunks(7).for_each(|part| assert!(!parts.feed(part, &mut text).unwrap()));
        let mut kept = Kept::default();
        parts.finish(&["id".to_owned(), "x.y".to_owned()], &mut kept, &mut |_| {}).unwrap();
        let values: Vec<_> = kept.values().iter().map(|value| str::from_utf8(value).unwrap()).collect();
        assert_eq!(values, [r#"[1, "a long string of more than some bytes"]"#, "5"]);
        assert!(JsonParts::can_keep("a.b", &["b".to_owned(), "a.c".to_owned()]));
        assert!(!JsonParts::can_keep("a.b", &["b".to_owned(), "a".to_owned()]));
        assert!(!JsonParts::can_keep("text", &["text".to_owned()]));
    }

    #[test]
    fn what_stays_in_memory_is_small() {
        let line = format!(r#"{{"other": "{0}", "text": "{0}", "more": "{0}"}}"#, "long ".repeat(10_000));
        let mut parts = JsonParts { kept_bytes: 24, ..JsonParts::new("text", true) };
        let mut text = Vec::new();
        line.as_bytes().chunks(100).for_each(|part| assert!(!parts.feed(part, &mut text).unwrap()));
        assert!(parts.memory() < 2_000, "{} bytes", parts.memory());
        parts.finish(&[], &mut Kept::default(), &mut |_| {}).unwrap();
        assert_eq!(text.len(), 50_000);
    }

    fn piece() -> impl Strategy<Value = String> {
        let pieces = [
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\"text\"",
            "\"a\"",
            "\"text\":",
            "\"a\":",
            "{\"text\":\"",
            "\\",
            "\\u",
            "\\ud83d",
            "\\ude00",
            "\\n",
            "\\\"",
            "12",
            "-",
            "1.5e3",
            "null",
            "true",
            "NaN",
            " ",
            "\r",
            "\t",
            "\u{1}",
            "é",
            "😀",
            "word",
            "\\u00e9",
            "\",",
            "\"}",
            "some longer text that may be cut",
        ];
        select(pieces.map(str::to_owned).to_vec())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(300)))]

        #[test]
        fn any_line_is_as_good_in_parts_as_whole(pieces in vec(piece(), 0..12), lengths in vec(1..20_usize, 1..4)) {
            compare(pieces.concat().as_bytes(), "text", &lengths);
            compare(format!("{{\"text\":\"{}", pieces.concat()).as_bytes(), "text", &lengths);
            compare(format!("{{\"a\":{{\"text\":\"{}\"}}}}", pieces.concat()).as_bytes(), "a.text", &lengths);
        }

        #[test]
        fn any_bytes_too(mut bytes in vec(any::<u8>(), 0..30), lengths in vec(1..20_usize, 1..4)) {
            bytes.retain(|byte| *byte != b'\n');
            compare(&bytes, "text", &lengths);
            bytes.splice(0..0, b"{\"text\":\"".iter().copied());
            compare(&bytes, "text", &lengths);
        }
    }
}

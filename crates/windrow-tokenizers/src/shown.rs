//! Foreign names and texts in messages for a terminal, and in JSON.
//!
//! A file name may contain an escape sequence, a line feed that begins a forged `error:` line, or characters that reverse the direction
//! of the text around them or cannot be seen. [`shown`] writes each such character as its escape, and leaves the others unchanged.
//! [`to_json`] does the same in JSON, where an escape means the same string.

use std::ffi::OsStr;
use std::fmt::{self, Display, Write};
use std::io;

use serde::Serialize;

/// A name or text for a message: on one line, without control, direction and invisible characters; bytes that are not UTF-8 appear as `\xff`.
///
/// ```
/// use windrow_tokenizers::shown;
///
/// assert_eq!(shown("a b/été.txt").to_string(), "a b/été.txt");
/// assert_eq!(shown("\u{1b}[2J\nerror: \u{202e}").to_string(), r"\u{1b}[2J\nerror: \u{202e}");
/// ```
pub fn shown<S: AsRef<OsStr> + ?Sized>(name: &S) -> Shown<'_> {
    Shown { text: name.as_ref(), keeps_lines: false }
}

/// [`shown`] for a whole message. It keeps line feeds and tabs.
///
/// ```
/// use windrow_tokenizers::shown_lines;
///
/// assert_eq!(shown_lines("bad \u{9b}31m\nhint: mend it").to_string(), "bad \\u{9b}31m\nhint: mend it");
/// ```
pub fn shown_lines(message: &str) -> Shown<'_> {
    Shown { text: message.as_ref(), keeps_lines: true }
}

/// Escaped text, the result of [`shown`] and [`shown_lines`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    text: &'a OsStr,
    keeps_lines: bool,
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.text.as_encoded_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                let stays = is_harmless(c) || (self.keeps_lines && matches!(c, '\n' | '\t'));
                if stays { f.write_char(c)? } else { write!(f, "{}", c.escape_default())? }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// A number with separators of thousands.
///
/// ```
/// use windrow_tokenizers::grouped;
///
/// assert_eq!([999, 1_000, 117_250_704].map(grouped), ["999", "1,000", "117,250,704"]);
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| group.iter().map(|&digit| char::from(digit)).collect()).collect::<Vec<String>>().join(",")
}

/// A number of things, such as `1 file` and `2,000 files`.
///
/// ```
/// use windrow_tokenizers::counted;
///
/// assert_eq!([0, 1, 2_000].map(|number| counted(number, "file")), ["0 files", "1 file", "2,000 files"]);
/// ```
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Bytes in decimal units, like rates.
pub fn decimal(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// True if a terminal only prints the character: visibly, on the same line and in the same direction.
pub(crate) fn is_harmless(c: char) -> bool {
    // Most characters are decided by the first comparison.
    matches!(c, ' '..='~')
        || !(c.is_control()
            || matches!(
                c,
                '\u{ad}'
                    | '\u{61c}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{feff}'
                    | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e0fff}'
            ))
}

/// A value as JSON on one line. Characters that [`shown`] escapes become JSON escapes, which leave the strings' meaning unchanged.
///
/// ```
/// use windrow_tokenizers::to_json;
///
/// let json = to_json(&["f\u{9b}31m.txt"]);
/// assert_eq!(json, r#"["f\u009b31m.txt"]"#);
/// assert_eq!(serde_json::from_str::<Vec<String>>(&json)?, ["f\u{9b}31m.txt"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Panics
/// The value has no form in JSON: a map with keys that are not strings.
pub fn to_json(value: &impl Serialize) -> String {
    let mut json = Vec::new();
    // Writing to memory does not fail.
    serde_json::to_writer(EscapedJson(&mut json), value).expect("a value that JSON can represent");
    String::from_utf8(json).expect("JSON is text")
}

/// Escapes the output of a JSON serializer. Outside strings, line feeds are the only such characters in JSON.
#[derive(Debug)]
pub(crate) struct EscapedJson<W>(pub(crate) W);

impl<W: io::Write> io::Write for EscapedJson<W> {
    /// The serializer writes whole characters.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            self.0.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let text = str::from_utf8(bytes).map_err(io::Error::other)?;
        let mut written = 0;
        let harmful = text.char_indices().filter(|&(_, c)| c != '\n' && !is_harmless(c));
        for (at, c) in harmful {
            self.0.write_all(&bytes[written..at])?;
            c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(self.0, "\\u{unit:04x}"))?;
            written = at + c.len_utf8();
        }
        self.0.write_all(&bytes[written..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_turns_text_around_or_is_invisible_is_escaped() {
        for (name, expected) in [
            ("\u{1b}]0;EVIL\u{7}", r"\u{1b}]0;EVIL\u{7}"),
            ("a\r\nerror: b\t", r"a\r\nerror: b\t"),
            ("\u{7f}\u{80}\u{9b}31m\u{0}", r"\u{7f}\u{80}\u{9b}31m\u{0}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}", r"\u{202a}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}"),
            ("\u{2028}\u{2029}\u{85}\u{feff}", r"\u{2028}\u{2029}\u{85}\u{feff}"),
            ("\u{200b}\u{200d}\u{2060}\u{ad}\u{e0041}", r"\u{200b}\u{200d}\u{2060}\u{ad}\u{e0041}"),
        ] {
            assert_eq!(shown(name).to_string(), expected);
        }
    }

    #[test]
    fn all_else_stays() {
        for name in ["", "C:\\corpus\\a.txt", "it's \"quoted\"", "日本/été e\u{301} \u{1f468}", "\u{5e9}\u{5dc}"] {
            assert_eq!(shown(name).to_string(), name);
        }
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_utf_8_are_told_apart() {
        use std::os::unix::ffi::OsStrExt;
        let name = |bytes| shown(OsStr::from_bytes(bytes)).to_string();
        assert_eq!(name(b"a\xff.txt"), r"a\xff.txt");
        assert_eq!(name(b"a\xc3.txt"), r"a\xc3.txt");
    }

    #[test]
    fn json_means_the_same_whatever_is_escaped() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let json = to_json(&all);
        assert!(json.chars().all(is_harmless));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), all);
        assert!(!shown(&all).to_string().contains(|c| !is_harmless(c)));
        let kept = |c: &char| matches!(c, '\n' | '\t');
        assert!(shown_lines(&all).to_string().chars().filter(|c| !is_harmless(*c)).all(|c| kept(&c)));
    }
}

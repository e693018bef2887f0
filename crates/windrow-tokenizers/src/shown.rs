//! Foreign names and texts in messages for a terminal.
//!
//! A file name may contain an escape sequence, a line feed that begins a forged `error:` line, or characters that reverse the direction
//! of the text around them. [`shown`] writes each such character as its escape, and leaves the others unchanged.

use std::ffi::OsStr;
use std::fmt::{self, Display, Write};

/// A name or text for a message: on one line, without control and direction characters; bytes that are not UTF-8 appear as `\xff`.
///
/// ```
/// use windrow_tokenizers::shown;
///
/// assert_eq!(shown("a b/été.txt").to_string(), "a b/été.txt");
/// assert_eq!(shown("\u{1b}[2J\nerror: \u{202e}").to_string(), r"\u{1b}[2J\nerror: \u{202e}");
/// ```
pub fn shown<S: AsRef<OsStr> + ?Sized>(name: &S) -> Shown<'_> {
    Shown(name.as_ref())
}

/// What [`shown`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a OsStr);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.as_encoded_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                if is_harmless(c) { f.write_char(c)? } else { write!(f, "{}", c.escape_default())? }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Whether a terminal only prints the character, on the same line and in the same direction.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_turns_text_around_is_escaped() {
        for (name, expected) in [
            ("\u{1b}]0;EVIL\u{7}", r"\u{1b}]0;EVIL\u{7}"),
            ("a\r\nerror: b\t", r"a\r\nerror: b\t"),
            ("\u{7f}\u{80}\u{9b}31m\u{0}", r"\u{7f}\u{80}\u{9b}31m\u{0}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}", r"\u{202a}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}"),
            ("\u{2028}\u{2029}\u{85}\u{feff}", r"\u{2028}\u{2029}\u{85}\u{feff}"),
        ] {
            assert_eq!(shown(name).to_string(), expected);
        }
    }

    #[test]
    fn all_else_stays() {
        for name in
            ["", "C:\\corpus\\a.txt", "it's \"quoted\"", "日本/été \u{1f468}\u{200d}\u{1f469}", "\u{5e9}\u{5dc}"]
        {
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
}

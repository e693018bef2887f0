//! WARC, the format of web archives: text extracted from pages (`.warc.wet.gz`).
//!
//! A record is a version, headers, an empty line, `Content-Length` bytes, and two line ends. Records of the type `conversion`
//! are documents, and their headers are fields to keep. Requests, metadata and the like are skipped. A response is a page of HTML with
//! the headers of its transfer: it is refused, because its text would be no text.

use memchr::{memchr_iter, memmem};

use super::frame::{BadFrame, Framer, Piece, Unframed};
use crate::kept::Kept;
use crate::to_json;

/// Limit of a header block; longer ones are not headers.
const HEAD: usize = 1 << 20;

const DAMAGED: &str = "download it again, or omit it";

pub(super) struct Warc {
    keep: Vec<String>,
    kept: Kept,
}

impl Warc {
    pub(super) fn new(keep: &[String]) -> Self {
        Self { keep: keep.to_vec(), kept: Kept::default() }
    }
}

impl Framer for Warc {
    fn cut(&mut self, Unframed { bytes, ended, .. }: Unframed<'_>) -> Result<Option<Piece>, BadFrame> {
        let damaged = |reason: &str| Err(BadFrame { reason: reason.to_owned(), hint: DAMAGED });
        let Some(end) = memmem::find(&bytes[..bytes.len().min(HEAD)], b"\r\n\r\n") else {
            return match bytes {
                [] => Ok(None),
                _ if !bytes.starts_with(&b"WARC/"[..bytes.len().min(5)]) => damaged("no WARC record begins here"),
                _ if ended => damaged("the file ends inside the header of a record"),
                _ if bytes.len() >= HEAD => damaged("the header of this record is longer than 1 MiB"),
                _ => Ok(None),
            };
        };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = head.split("\r\n");
        if !lines.next().is_some_and(|version| version.starts_with("WARC/")) {
            return damaged("no WARC record begins here");
        }
        let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let header = |name: &str| {
            let found = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim())
        };
        let Some(length) = header("Content-Length").and_then(|length| length.parse::<usize>().ok()) else {
            return damaged("this record has no valid Content-Length");
        };
        let start = end + 4;
        let Some(stop) = start.checked_add(length).filter(|stop| stop.checked_add(4).is_some()) else {
            return damaged("the Content-Length of this record is too large");
        };
        if bytes.len() < stop + 4 {
            return if ended { damaged("the file ends inside this record") } else { Ok(None) };
        }
        if !bytes[stop..].starts_with(b"\r\n\r\n") {
            return damaged("this record is not as long as its Content-Length says");
        }
        let is_document = match header("WARC-Type") {
            Some("conversion") => true,
            Some("response") => {
                return Err(BadFrame {
                    reason: "this record is a response: HTML with HTTP headers, not text".to_owned(),
                    hint: "read the archive's WET files (.warc.wet.gz), which contain the text of the pages",
                });
            }
            _ => false,
        };
        self.kept.bytes.clear();
        self.kept.ends.clear();
        if is_document {
            for name in &self.keep {
                let value = header(name).map_or_else(|| "null".to_owned(), |value| to_json(&value));
                self.kept.bytes.extend_from_slice(value.as_bytes());
                self.kept.end();
            }
        }
        let newlines = [&bytes[..start], &bytes[start..stop + 4]].map(|part| memchr_iter(b'\n', part).count() as u64);
        Ok(Some(Piece { bytes: stop + 4, record: is_document.then_some(start..stop), newlines }))
    }

    fn restarts(&self) -> bool {
        // Only a header gives the end of a record.
        false
    }

    fn kept(&self) -> Option<&Kept> {
        (!self.keep.is_empty()).then_some(&self.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: &str, text: &str) -> String {
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nwarc-target-uri: a:b\r\nContent-Length: {}\r\n\r\n{text}\r\n\r\n",
            text.len()
        )
    }

    fn cut(bytes: &[u8], ended: bool) -> Result<Option<Piece>, String> {
        let mut warc = Warc::new(&["WARC-Target-URI".to_owned(), "other".to_owned()]);
        let cut = warc.cut(Unframed { bytes, searched: 0, ended, is_in_record: false });
        if matches!(&cut, Ok(Some(Piece { record: Some(_), .. }))) {
            assert!(warc.kept().unwrap().values().iter().eq([&b"\"a:b\""[..], b"null"]));
        }
        cut.map_err(|bad| bad.reason)
    }

    #[test]
    fn conversions_are_documents_and_others_are_passed_over() {
        for kind in ["conversion", "metadata", "warcinfo", "request"] {
            let one = record(kind, "a\nb\r\n\r\nc");
            let both = one.clone() + &record("conversion", "");
            let piece = cut(both.as_bytes(), false).unwrap().unwrap();
            assert_eq!((piece.bytes, piece.newlines), (one.len(), [5, 5]));
            let text = piece.record.map(|text| &one[text]);
            assert_eq!(text, Some("a\nb\r\n\r\nc").filter(|_| kind == "conversion"));
            for end in 0..one.len() {
                assert_eq!(cut(&one.as_bytes()[..end], false), Ok(None), "{end}");
                assert_eq!(cut(&one.as_bytes()[..end], true).is_err(), end > 0, "{end}");
            }
        }
        assert_eq!(cut(b"", true), Ok(None));
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_reason() {
        let one = record("conversion", "text");
        for (from, to, says) in [
            ("WARC/1.0", "HTTP/1.0", "no WARC record begins here"),
            ("Content-Length", "Content", "no valid Content-Length"),
            ("Length: 4", "Length: 18446744073709551615", "too large"),
            ("Length: 4", "Length: 3", "not as long"),
            ("conversion", "response", "not text"),
        ] {
            let reason = cut(one.replace(from, to).as_bytes(), true).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
        assert!(cut(b"PK", false).unwrap_err().contains("no WARC record"));
        assert!(cut(&[&b"WARC/1.0\r\n"[..], &[b'a'; HEAD]].concat(), false).unwrap_err().contains("longer than 1 MiB"));
    }
}

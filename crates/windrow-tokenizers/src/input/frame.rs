//! Framers find the records in the bytes of a file. A new format is a name in [`Format`], a file with its framer, and a line in [`framer`].

use std::ops::Range;

use memchr::memchr;

use super::warc::Warc;
use super::{Fields, Format};
use crate::kept::Kept;

/// Finds the records in the decompressed bytes of a file.
pub(super) trait Framer: Send {
    /// The first piece of these bytes, which begin at the end of the previous piece; none if more bytes are needed, or if there are none.
    fn cut(&mut self, bytes: Unframed<'_>) -> Result<Option<Piece>, BadFrame>;

    /// Number of these bytes that can be delivered as a part of a record. No record ends in these bytes.
    fn part(&self, _: Unframed<'_>) -> usize {
        0
    }

    /// True if the file is one record.
    fn is_whole(&self) -> bool {
        false
    }

    /// True if reading can begin after any record.
    fn restarts(&self) -> bool {
        true
    }

    /// The kept values of the last record, if they are outside its bytes.
    fn kept(&self) -> Option<&Kept> {
        None
    }
}

/// Bytes that are searched for records.
#[derive(Clone, Copy)]
pub(super) struct Unframed<'b> {
    pub(super) bytes: &'b [u8],
    /// Number of these bytes that were searched before.
    pub(super) searched: usize,
    /// True if the file ends with these bytes.
    pub(super) ended: bool,
    /// True if a part of the record was delivered.
    pub(super) is_in_record: bool,
}

/// The next bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: usize,
    /// The record in them; none for a blank line, for example.
    pub(super) record: Option<Range<usize>>,
    /// Number of newlines before the record, and from its start on.
    pub(super) newlines: [u64; 2],
}

/// Bytes that are no record of the format.
#[derive(Debug)]
pub(super) struct BadFrame {
    pub(super) reason: String,
    pub(super) hint: &'static str,
}

/// The framer of a format; Parquet has none.
pub(super) fn framer(format: Format, fields: &Fields) -> Box<dyn Framer> {
    match format {
        Format::Text | Format::Parquet => Box::new(Text { is_cut: false }),
        Format::Lines => Box::new(Lines { is_json: false }),
        Format::Jsonl => Box::new(Lines { is_json: true }),
        Format::Warc => Box::new(Warc::new(&fields.keep)),
    }
}

/// The whole file.
struct Text {
    is_cut: bool,
}

impl Framer for Text {
    fn cut(&mut self, Unframed { bytes, ended, .. }: Unframed<'_>) -> Result<Option<Piece>, BadFrame> {
        if !ended || std::mem::replace(&mut self.is_cut, true) {
            return Ok(None);
        }
        Ok(Some(Piece { bytes: bytes.len(), record: Some(0..bytes.len()), newlines: [0, 0] }))
    }

    fn part(&self, unframed: Unframed<'_>) -> usize {
        unframed.bytes.len()
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// Every line, or every line of JSON that is not blank.
struct Lines {
    is_json: bool,
}

impl Framer for Lines {
    fn cut(&mut self, unframed: Unframed<'_>) -> Result<Option<Piece>, BadFrame> {
        let Unframed { bytes, searched, ended, is_in_record } = unframed;
        let (end, newline) = match memchr(b'\n', &bytes[searched..]) {
            Some(at) => (searched + at, 1),
            None if ended && (is_in_record || !bytes.is_empty()) => (bytes.len(), 0),
            None => return Ok(None),
        };
        let line = &bytes[..end];
        let record = match self.is_json {
            true => Some(0..end).filter(|_| is_in_record || !is_blank(line)),
            false => Some(0..end - usize::from(newline > 0 && line.ends_with(b"\r"))),
        };
        Ok(Some(Piece { bytes: end + newline, record, newlines: [0, newline as u64] }))
    }

    fn part(&self, Unframed { bytes, is_in_record, .. }: Unframed<'_>) -> usize {
        match self.is_json {
            // A blank line is not a record.
            true if !is_in_record && is_blank(bytes) => 0,
            // The carriage return is not part of the line if a newline follows.
            false if bytes.ends_with(b"\r") => bytes.len() - 1,
            _ => bytes.len(),
        }
    }
}

/// True if a line is empty except for the white space of JSON.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

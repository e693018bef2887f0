//! JSON lines, lines and texts.

use std::io::Cursor;

use serde_json::Value;
use windrow_tokenizers::document::{text_in, text_of};
use windrow_tokenizers::input::{Compression, Fields, Format, InputFile};

use crate::reading::{read, text_field};

const BATCHES: [usize; 4] = [1, 16, 300, 1 << 16];

/// The first byte chooses the format and the size of batches.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let format = [Format::Jsonl, Format::Jsonl, Format::Lines, Format::Text][usize::from(choice & 3)];
    let batch_bytes = BATCHES[usize::from(choice >> 2 & 3)];
    let several = Fields {
        text: vec!["text".to_owned(), "a.b".to_owned()],
        join: "\n".to_owned(),
        keep: vec!["id".to_owned(), "a.b".to_owned()],
        conversations: false,
    };
    let (mut records, mut scratch) = (Vec::new(), String::new());
    let file = InputFile::from_reader("fuzz", Cursor::new(bytes.to_vec()), format, Some(Compression::None));
    let outcome = read(file, &text_field(), batch_bytes, &mut |batch, record| {
        let bytes = batch.bytes_of(record);
        let text = text_of(format, bytes, "text", &mut scratch).map(str::to_owned).ok();
        records.push((record.line, bytes.to_vec(), text));
        // The result of several fields is not compared.
        let _ = text_in(format, bytes, &several, &mut scratch);
    });
    assert!(outcome.is_ok(), "bytes in memory can be read: {outcome:?}");
    let expected = expected(format, bytes);
    assert_eq!(records, expected);
}

/// The records with their line and text, read in the plain way.
fn expected(format: Format, bytes: &[u8]) -> Vec<(u64, Vec<u8>, Option<String>)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let utf8 = |bytes: &[u8]| str::from_utf8(bytes).ok().map(str::to_owned);
    if format == Format::Text {
        return vec![(1, bytes.to_vec(), utf8(bytes))];
    }
    let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
    let ended = lines.len() - 1;
    if lines[ended].is_empty() {
        lines.pop();
    }
    let is_blank = |line: &[u8]| line.iter().all(|byte| b" \t\r\n".contains(byte));
    let record = |(index, line): (usize, &&[u8])| {
        let line = match format {
            // The last line has no line end.
            Format::Lines if index < ended => line.strip_suffix(b"\r").unwrap_or(line),
            _ => line,
        };
        let text = match format {
            Format::Jsonl => utf8(line)
                .and_then(|line| Some(serde_json::from_str::<Value>(&line).ok()?.get("text")?.as_str()?.to_owned())),
            _ => utf8(line),
        };
        (index as u64 + 1, line.to_vec(), text)
    };
    let lines = lines.iter().enumerate().filter(|(_, line)| format != Format::Jsonl || !is_blank(line));
    lines.map(record).collect()
}

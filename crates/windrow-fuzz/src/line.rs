//! JSON lines that are read in parts.

use windrow_tokenizers::document::text_of;
use windrow_tokenizers::input::Format;
use windrow_tokenizers::text_in_parts;

const FIELDS: [&str; 3] = ["text", "a.b", "a"];

/// The first byte chooses the field, the second how long parts are; the rest up to a newline is a line.
pub(crate) fn run(data: &[u8]) {
    let Some((&[choice, lengths], line)) = data.split_first_chunk() else { return };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let field = FIELDS[usize::from(choice) % FIELDS.len()];
    let lengths = [1 + usize::from(lengths & 15), 1 + usize::from(lengths >> 4)];
    let mut scratch = String::new();
    let whole = text_of(Format::Jsonl, line, field, &mut scratch).map(str::to_owned);
    // Strings are cut, or not because fields are kept.
    for kept_bytes in [None, Some(8)] {
        let in_parts = text_in_parts(line, field, &lengths, kept_bytes);
        assert_eq!(in_parts, whole, "in parts of {lengths:?}, with strings of {kept_bytes:?}");
    }
}

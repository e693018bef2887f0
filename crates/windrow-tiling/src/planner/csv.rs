//! Records of CSV, as profilers write it, and rows of Markdown tables. Quoted fields may hold commas, line ends, and quotes (doubled).

use csv::{ReaderBuilder, Trim};

/// A record, and the line where it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The records of a text, without blank lines.
pub(super) fn records(text: &str) -> Vec<Record> {
    read(text.strip_prefix('\u{feff}').unwrap_or(text), b',')
}

/// The fields of a line, without spaces and quotes around them: of CSV, or of a Markdown table.
pub(super) fn fields(line: &str) -> Vec<String> {
    let trimmed = line.trim();
    let (line, between) = match trimmed.strip_prefix('|') {
        Some(row) => (row.strip_suffix('|').unwrap_or(row), b'|'),
        None => (line, b','),
    };
    read(line, between).pop().map(|record| record.fields).unwrap_or_default()
}

fn read(text: &str, between: u8) -> Vec<Record> {
    let mut reader = ReaderBuilder::new();
    reader.has_headers(false).flexible(true).trim(Trim::All).delimiter(between);
    let (mut records, mut line, mut counted) = (Vec::new(), 1, 0);
    // A text has no bytes that are none.
    for record in reader.from_reader(text.as_bytes()).into_records().filter_map(Result::ok) {
        // The reader stands before the line ends that precede a record.
        let from = record.position().map_or(0, |place| place.byte() as usize);
        let begin = text.len() - text[from..].trim_start_matches(['\r', '\n']).len();
        line += text[counted..begin].matches('\n').count();
        counted = begin;
        if record.len() > 1 || record.get(0).is_some_and(|field| !field.is_empty()) {
            records.push(Record { line, fields: record.iter().map(|field| unquoted(field).to_owned()).collect() });
        }
    }
    records
}

/// Without quotes that have spaces around them: the reader takes these for a part of the field.
fn unquoted(field: &str) -> &str {
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        let text = "\u{feff}a, b ,c\r\n\n1,\"x, \"\"y\"\"\nz\",3\n \n4,,\n5";
        let read =
            |text: &str| records(text).into_iter().map(|Record { line, fields }| (line, fields)).collect::<Vec<_>>();
        let fields = |fields: &[&str]| fields.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            read(text),
            [
                (1, fields(&["a", "b", "c"])),
                (3, fields(&["1", "x, \"y\"\nz", "3"])),
                (6, fields(&["4", "", ""])),
                (7, fields(&["5"])),
            ]
        );
        assert!(read("").is_empty() && read("\n\r\n").is_empty());
        assert_eq!(read("a\"b\",c"), [(1, fields(&["a\"b\"", "c"]))]);
        assert_eq!(super::fields("| a | \"b\" |"), ["a", "b"]);
    }
}

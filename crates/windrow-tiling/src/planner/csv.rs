//! Records of CSV, as profilers write it, and rows of Markdown tables. Quoted fields may hold commas, line ends, and quotes (doubled).

use std::mem::take;

/// A record, and the line where it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The records of a text, without blank lines.
pub(super) fn records(text: &str) -> Vec<Record> {
    read(text.strip_prefix('\u{feff}').unwrap_or(text), ',')
}

/// The fields of a line, without spaces and quotes around them: of CSV, or of a Markdown table.
pub(super) fn fields(line: &str) -> Vec<String> {
    let trimmed = line.trim();
    let (line, between) = match trimmed.strip_prefix('|') {
        Some(row) => (row.strip_suffix('|').unwrap_or(row), '|'),
        None => (line, ','),
    };
    read(line, between).pop().map(|record| record.fields).unwrap_or_default()
}

/// A place in a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The start of a field, where a quote opens.
    Start,
    /// A field without quotes, or the text after the closing quote: quotes are ordinary there.
    Plain,
    Quoted,
    /// After a quote in a quoted field: another one stands for a quote, anything else ends the quoted part.
    Quote,
}

fn read(text: &str, between: char) -> Vec<Record> {
    let (mut records, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut place, mut line, mut begin) = (Place::Start, 1, None);
    let mut end = |line, mut fields: Vec<String>, last: String| {
        fields.push(last);
        if fields.len() > 1 || !fields[0].trim().is_empty() {
            let fields = fields.iter().map(|field| unquoted(field.trim()).to_owned()).collect();
            records.push(Record { line, fields });
        }
    };
    for char in text.chars() {
        let is_line_end = matches!(char, '\r' | '\n');
        // Line ends before a record are blank lines, or the second half of `\r\n`.
        if begin.is_some() || !is_line_end {
            let first = *begin.get_or_insert(line);
            place = match (place, char) {
                (Place::Start, '"') => Place::Quoted,
                (Place::Quoted, '"') => Place::Quote,
                (Place::Quoted, _) | (Place::Quote, '"') => {
                    field.push(char);
                    Place::Quoted
                }
                _ if char == between => {
                    fields.push(take(&mut field));
                    Place::Start
                }
                _ if is_line_end => {
                    end(first, take(&mut fields), take(&mut field));
                    begin = None;
                    Place::Start
                }
                _ => {
                    field.push(char);
                    Place::Plain
                }
            };
        }
        line += usize::from(char == '\n');
    }
    if let Some(first) = begin {
        end(first, fields, field);
    }
    records
}

/// Without quotes that have spaces around them: these are a part of the field.
fn unquoted(field: &str) -> &str {
    field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use csv::{ReaderBuilder, Trim};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_those_of_the_crate_csv(text in "[ab,\"| \u{a0}\r\n]{0,24}", is_row in any::<bool>()) {
            let between = if is_row { '|' } else { ',' };
            let mut reader = ReaderBuilder::new();
            reader.has_headers(false).flexible(true).trim(Trim::All).delimiter(between as u8);
            let expected = reader.from_reader(text.as_bytes()).into_records().map(Result::unwrap);
            let expected = expected.filter(|record| record.len() > 1 || !record[0].is_empty()).collect::<Vec<_>>();
            let expected: Vec<Vec<&str>> = expected.iter().map(|record| record.iter().map(unquoted).collect()).collect();
            let found: Vec<_> = read(&text, between).into_iter().map(|record| record.fields).collect();
            prop_assert_eq!(found, expected);
        }
    }

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

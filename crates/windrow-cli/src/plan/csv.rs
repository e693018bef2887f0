//! Records of CSV, as profilers write it: RFC 4180. Fields may be quoted; a quoted field may hold commas, line ends, and quotes (doubled).

/// A record, and the line where it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<String>,
}

/// The records of a text, without blank lines. The error is the line of a quote that has no end.
pub(super) fn records(text: &str) -> Result<Vec<Record>, usize> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut records, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    // `quoted` is the line of an open quote.
    let (mut line, mut begin, mut quoted) = (1, 1, None);
    let mut chars = text.chars().peekable();
    loop {
        let next = chars.next();
        if next == Some('\n') {
            line += 1;
        }
        match next {
            None if quoted.is_some() => return Err(quoted.unwrap_or(line)),
            Some('"') if quoted.is_some() => {
                if chars.next_if_eq(&'"').is_some() {
                    field.push('"');
                } else {
                    quoted = None;
                }
            }
            // A quote that does not begin a field is text.
            Some('"') if field.trim().is_empty() => (field, quoted) = (String::new(), Some(line)),
            Some(',') if quoted.is_none() => fields.push(std::mem::take(&mut field)),
            Some('\n') | None if quoted.is_none() => {
                if !fields.is_empty() || !field.trim().is_empty() {
                    fields.push(std::mem::take(&mut field));
                    let fields = std::mem::take(&mut fields).into_iter().map(|field| field.trim().to_owned());
                    records.push(Record { line: begin, fields: fields.collect() });
                }
                field.clear();
                begin = line;
                if next.is_none() {
                    return Ok(records);
                }
            }
            Some(char) => field.push(char),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, Vec<String>)> {
        records(text).unwrap().into_iter().map(|Record { line, fields }| (line, fields)).collect()
    }

    #[test]
    fn fields_may_be_quoted() {
        let text = "\u{feff}a, b ,c\r\n\n1,\"x, \"\"y\"\"\nz\",3\n \n4,,\n5";
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
        assert_eq!(records("a,b\n1,\"2\n3,4\n"), Err(2));
    }
}

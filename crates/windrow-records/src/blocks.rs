//! Blocks of figures: the tables of documents that quote records, rendered from `bench/figures.txt`.
//!
//! The file has one block after another:
//!
//! * `== NAME` begins a block. In a document it stands between `<!-- figures: NAME -->` and `<!-- end -->`.
//! * A line is copied. `{FORM EXPRESSION}` in it becomes the value in that form: `0.00` has two decimals, `0,000` separated thousands, `~`
//!   three digits, with two decimals at most.
//! * `each: LINE` makes no line. Below it, `KEY: LABEL` stands for that line with KEY in place of `ROW` and LABEL in place of `LABEL`.
//! * `@harm`, `@records PATTERN..` and `@worst COUNT GROUP; ..` are tables that `results.rs` makes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use crate::tools::{line, pattern, unless_empty};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

/// Rendered blocks, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(BTreeMap<String, String>);

impl Blocks {
    /// Renders the blocks of a file. `value` evaluates an expression, and `table` makes the table of a line that begins with `@`.
    pub(crate) fn render(
        file: &str,
        value: impl Fn(&str) -> Result<f64, String>,
        table: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Blocks> {
        let (mut blocks, mut name, mut each) = (BTreeMap::new(), String::new(), None);
        let mut problems = Vec::new();
        for (at, line) in file.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("# ")) {
            if let Some(next) = line.strip_prefix("== ") {
                (name, each) = (next.to_owned(), None);
                if blocks.insert(name.clone(), String::new()).is_some() {
                    problems.push(format!("{}: {name} is defined twice", at + 1));
                }
                continue;
            }
            let Some(block) = blocks.get_mut(&name) else {
                problems.push(format!("{}: no block begins before this line", at + 1));
                continue;
            };
            let made = match (line.strip_prefix("each: "), &each) {
                (Some(line), _) => {
                    each = Some(line);
                    continue;
                }
                // An empty line separates tables.
                _ if line.starts_with('@') => {
                    table(line).map(|it| if block.is_empty() { it } else { format!("\n{it}") })
                }
                (_, Some(each)) if !line.starts_with('|') => row(each, line).and_then(|it| filled(&it, &value)),
                _ => filled(line, &value),
            };
            match made {
                Ok(made) => *block += &(made + "\n"),
                Err(why) => problems.push(format!("{}: {why}", at + 1)),
            }
        }
        unless_empty("bench/figures.txt", &problems).map(|()| Blocks(blocks))
    }

    /// The document with its blocks as they must be.
    pub(crate) fn fill(&self, text: &str) -> Result<String> {
        let (mut made, mut from) = (String::new(), 0);
        // A mark inside a line is an example.
        let begins = pattern(&format!("(?m)^{BEGIN}"));
        while let Some(begin) = begins.find_at(text, from).map(|mark| mark.start()) {
            let (name, at) = (text[begin + BEGIN.len()..].split(" -->").next().unwrap_or_default(), line(text, begin));
            let Some(block) = self.0.get(name) else {
                anyhow::bail!("{at}: bench/figures.txt has no block {name}");
            };
            let end = text[begin..].find(END).map(|end| begin + end);
            let is_closed = end.is_some_and(|end| !text[begin + 1..end].contains(BEGIN));
            ensure!(is_closed, "{at}: the block {name} has no {END}");
            made.push_str(&format!("{}{BEGIN}{name} -->\n\n{block}\n", &text[from..begin]));
            from = end.unwrap_or(text.len());
        }
        Ok(made + &text[from..])
    }

    /// The names of blocks that none of the documents has.
    pub(crate) fn unused<'a>(&self, documents: impl Iterator<Item = &'a str>) -> Vec<String> {
        let form = pattern(&format!("(?m)^{BEGIN}(.+?) -->"));
        let used: BTreeSet<String> = documents
            .flat_map(|text| form.captures_iter(text).map(|it| it[1].to_owned()).collect::<Vec<_>>())
            .collect();
        self.0.keys().filter(|name| !used.contains(*name)).cloned().collect()
    }
}

fn row(each: &str, line: &str) -> Result<String, String> {
    let (key, label) = line.split_once(": ").ok_or("a row is `KEY: LABEL`")?;
    Ok(each.replace("LABEL", label).replace("ROW", key))
}

/// A line with values in place of the braces.
fn filled(line: &str, value: &impl Fn(&str) -> Result<f64, String>) -> Result<String, String> {
    let (mut made, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}').ok_or("a brace is not closed")?;
        let (form, expression) = inside.split_once(' ').ok_or("a figure is {FORM EXPRESSION}")?;
        let value = value(expression).map_err(|why| format!("{why} ({expression})"))?;
        made.push_str(before);
        made.push_str(&shown(value, form)?);
        rest = after;
    }
    Ok(made + rest)
}

/// A value in a form. A half is rounded up, as on paper.
fn shown(value: f64, form: &str) -> Result<String, String> {
    let digits = match form {
        "~" if value.abs() >= 99.95 || (value.fract() == 0.0 && value != 0.0) => 0,
        "~" if value.abs() >= 9.995 => 1,
        "~" => 2,
        _ if form.chars().all(|c| "0,.".contains(c)) => form.split_once('.').map_or(0, |(_, digits)| digits.len()),
        _ => return Err(format!("{form} is not a number format: 0.00, 0,000 or ~")),
    };
    let plain = format!("{:.digits$}", value + value.signum() * 1e-9);
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        let left = whole.len() - at;
        if (form == "~" || form.contains(',')) && at > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    Ok(grouped + rest)
}

/// Cells of tables outside blocks that hold nothing but a number with a decimal point and perhaps a unit: they need a record. Code is no table.
pub(crate) fn unrecorded(text: &str) -> Vec<(usize, String)> {
    let form = pattern(r"^[*~]*x?\d[\d,]*\.\d+ ?(?:x|%|ns|us|µs|ms|s|[KMG]i?B(?:/s)?)?\**$");
    let (mut is_code, mut is_block, mut found) = (false, false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        is_block = (is_block || line.starts_with(BEGIN)) && !line.starts_with(END);
        if line.starts_with('|') && !is_code && !is_block {
            let cells = line.split('|').map(str::trim).filter(|cell| form.is_match(cell));
            found.extend(cells.map(|cell| (at + 1, cell.to_owned())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(file: &str) -> Result<Blocks> {
        let value = |expression: &str| expression.parse().map_err(|_| format!("no record is called {expression}"));
        Blocks::render(file, value, |line| Ok(format!("table of {line}")))
    }

    #[test]
    fn a_document_gets_its_blocks() {
        let file = "# A comment\n== a\n| | x |\n| one | **{0.00 1.005}**x of {0 31} |\n@harm\n\n== b\n\
                    each: | LABEL | {0.0 ROW} | {0,000 ROW} | {~ ROW} |\n1234.56: in three forms: all\n| as it is | - |\n";
        let blocks = rendered(file).unwrap();
        assert_eq!(blocks.0["a"], "| | x |\n| one | **1.01**x of 31 |\n\ntable of @harm\n");
        assert_eq!(blocks.0["b"], "| in three forms: all | 1234.6 | 1,235 | 1,235 |\n| as it is | - |\n");
        let blocks = rendered("== a\n| {0 1} |\n== b\n| {0 2} |\n").unwrap();
        let old = "`<!-- figures: c -->`\n\n<!-- figures: a -->\n| 7 |\n<!-- end -->\n\ny\n";
        let new = "`<!-- figures: c -->`\n\n<!-- figures: a -->\n\n| 1 |\n\n<!-- end -->\n\ny\n";
        assert_eq!((blocks.fill(old).unwrap(), blocks.fill(new).unwrap()), (new.to_owned(), new.to_owned()));
        assert_eq!(blocks.unused([old].into_iter()), ["b"]);
    }

    #[test]
    fn faults_name_their_line() {
        for (file, message) in [
            ("| a |\n", "1: no block begins before this line"),
            ("== a\n{0 1\n", "2: a brace is not closed"),
            ("== a\n{1 2}\n", "2: 1 is not a number format"),
            ("== a\n{0 joins}\n", "2: no record is called joins (joins)"),
            ("== a\neach: | ROW |\nrow\n", "3: a row is `KEY: LABEL`"),
        ] {
            let error = rendered(file).unwrap_err().to_string();
            assert!(error.contains(message), "{file}: {error}");
        }
        let fill = |text: &str| rendered("== a\n").unwrap().fill(text).unwrap_err().to_string();
        assert_eq!(fill("\n<!-- figures: c -->\n<!-- end -->\n"), "2: bench/figures.txt has no block c");
        assert_eq!(
            fill("<!-- figures: a -->\n<!-- figures: b -->\n<!-- end -->\n"),
            "1: the block a has no <!-- end -->"
        );
    }

    #[test]
    fn a_measured_cell_outside_a_block_is_found() {
        let text = "| a | 0.57 | ~1.5 ms |\n| **1.2x** | 57 | 1 GiB | `0.5` |\n0.5\n```text\n| 0.5 |\n```\n\
                    <!-- figures: a -->\n\n| 0.5 |\n\n<!-- end -->";
        let found: Vec<String> = unrecorded(text).into_iter().map(|(line, cell)| format!("{line}: {cell}")).collect();
        assert_eq!(found, ["1: 0.57", "1: ~1.5 ms", "2: **1.2x**"]);
    }
}

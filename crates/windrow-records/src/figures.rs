//! Figures in documents: each equals the field of a record that the comment before it names, or is marked as given.
//!
//! A *figure* is a number that has a decimal point; or is followed by a unit of time, size or rate, by `%`, `x` or `times`; or is preceded
//! by `x`; or is in a column of a table whose head has such a unit. The first number of `16 to 41 %` is a figure too. Code, comments,
//! targets of links, versions with two points, and words with digits in them contain none.

use std::ops::Range;

use crate::record::Record;
use crate::tools::pattern;
use crate::value::evaluate;

const UNITS: &str = "ns|us|µs|ms|s|sec|seconds?|min|minutes?|h|hours?|[kK]B|MB|GB|TB|KiB|MiB|GiB|TiB|kbit|Mbit|Gbit|MHz|GHz|\
    FLOP|MFLOP|GFLOP|TFLOP|times|percent|MBs|ops";

const NUMBER: &str = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)*";

/// What holds no figures: comments, code, targets of links.
const HIDDEN: &str = r"(?sx) <!--(.*?)(?:-->|\z) | (?m:^)```.*?(?:\n```+|\z) | ``(?:[^\n]+?\n?)+?`` | `\n?(?:[^`\n]+\n?)*` | \]\([^)]* | <http[^>]*";

/// Whether the figures of this file are checked.
pub(crate) fn is_checked(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_readme = path.ends_with("/README.md") && folder.starts_with("crates/") && folder.matches('/').count() == 1;
    let is_page = folder == "docs" || folder == "book/src" || folder.starts_with("book/src/");
    path == "README.md" || path == "CHANGELOG.md" || (is_page && path.ends_with(".md")) || is_readme
}

/// A comment's text and its place.
struct Comment<'a> {
    text: &'a str,
    at: Range<usize>,
}

/// A document, with everything that holds no figures replaced by spaces.
struct Page<'a> {
    masked: String,
    comments: Vec<Comment<'a>>,
    /// The cells of each line; none outside of tables.
    rows: Vec<Vec<Range<usize>>>,
}

impl<'a> Page<'a> {
    fn new(text: &'a str) -> Page<'a> {
        let blank = |hidden: &regex::Captures<'_>| -> String {
            hidden[0].chars().map(|c| if c == '\n' { "\n".to_owned() } else { " ".repeat(c.len_utf8()) }).collect()
        };
        let masked = pattern(HIDDEN).replace_all(text, blank).into_owned();
        let comment =
            |it: regex::Captures<'a>| Some(Comment { text: it.get(1)?.as_str().trim(), at: it.get(0)?.range() });
        let (bar, mut begin) = (pattern(r"\|[^|\n]*"), 0);
        let rows = masked.split_inclusive('\n').map(|line| {
            let cells = bar.find_iter(line).map(|cell| begin + cell.start() + 1..begin + cell.end());
            let cells = if line.starts_with('|') { cells.collect() } else { Vec::new() };
            begin += line.len();
            cells
        });
        let rows = rows.collect();
        Page { comments: pattern(HIDDEN).captures_iter(text).filter_map(comment).collect(), masked, rows }
    }

    /// Whether the nearest comment before `begin` is directly before it, and is not about a row.
    fn has_comment(&self, begin: usize) -> bool {
        let nearest = self.comments.iter().rev().find(|comment| comment.at.end <= begin);
        let is_mark = |c| " *_x×+~($\n".contains(c);
        nearest.is_some_and(|it| !it.text.starts_with("row:") && self.masked[it.at.end..begin].chars().all(is_mark))
    }

    fn number(&self, form: &str, from: usize) -> Option<Range<usize>> {
        let number = pattern(form).captures(&self.masked[from..])?.get(1)?;
        Some(from + number.start()..from + number.end())
    }

    /// The first number behind a comment, with its sign, if only marks are between them.
    fn number_behind(&self, from: usize) -> Option<Range<usize>> {
        self.number(&format!(r"\A[ *_x×+~($\n-]*?(-?{NUMBER})"), from)
    }

    /// The second number of a range or list: joined to this one by `to`, `and`, `or`, a comma or a dash.
    fn joined(&self, number: &Range<usize>) -> Option<Range<usize>> {
        self.number(&format!(r"\A(?: to | and | or |–|\.\.| / )({NUMBER})"), number.end)
    }

    fn is_figure(&self, number: &Range<usize>) -> bool {
        let (before, rest) = (&self.masked[..number.start], &self.masked[number.end..]);
        // "x12" is a ratio, "x86-64" a machine.
        let is_ratio = before.ends_with(['x', '×']) && !rest.starts_with('-');
        let has_point = self.masked[number.clone()].contains('.');
        // "4096 x 1024" is a shape, "1.2x" a ratio.
        let end = r"(?:[^\pL×]|\z)";
        let unit = format!(r"\A(?:[x×]{end}|[ \n\u{{a0}}-]?(?:%|(?:{UNITS}){end}|[\pL×]+(?:/s|/ms| a second)))");
        has_point
            || is_ratio
            || pattern(&unit).is_match(rest)
            || self.joined(number).is_some_and(|next| self.is_figure(&next))
    }

    /// The cells of the columns whose head has a unit.
    fn unit_cells(&self) -> Vec<Range<usize>> {
        let is_rule = |row: &Vec<Range<usize>>| {
            !row.is_empty() && row.iter().all(|cell| self.masked[cell.clone()].chars().all(|c| "-: ".contains(c)))
        };
        let unit = pattern(&format!(r"%|×|\b(?:{UNITS}|x)\b"));
        let (mut cells, mut heads) = (Vec::new(), Vec::new());
        for (index, row) in self.rows.iter().enumerate() {
            if row.is_empty() {
                heads.clear();
            } else if self.rows.get(index + 1).is_some_and(is_rule) {
                heads = row.iter().map(|cell| unit.is_match(&self.masked[cell.clone()])).collect();
            } else {
                cells.extend(row.iter().zip(&heads).filter(|cell| *cell.1).map(|cell| cell.0.clone()));
            }
        }
        cells
    }

    /// The end of what a `given` comment covers. With an empty line below, that is its section, up to the next heading of the same or a higher
    /// level; else its block.
    fn end_of_given(&self, from: usize) -> usize {
        let (before, rest) = self.masked.split_at(from);
        let level =
            before.lines().rev().map(|line| line.len() - line.trim_start_matches('#').len()).find(|level| *level > 0);
        let is_section = rest.trim_start_matches(' ').starts_with("\n\n");
        let end = if is_section { format!(r"\n#{{1,{}}}(?:[^#]|\z)", level.unwrap_or(6)) } else { "\n\n".to_owned() };
        pattern(&end).find(rest).map_or(self.masked.len(), |end| from + end.start())
    }

    /// Below a `columns` comment, the first number of each cell in the rows with a `row` comment, and the expression it must equal.
    fn table_cells(&self, from: usize, columns: &str) -> Vec<(Range<usize>, String)> {
        let end = self.masked[from..].find("\n\n").map_or(self.masked.len(), |end| from + end);
        let mut cells = Vec::new();
        for comment in self.comments.iter().filter(|comment| (from..end).contains(&comment.at.start)) {
            let Some(key) = comment.text.strip_prefix("row:") else { continue };
            let row = self.rows.iter().find(|row| row.iter().any(|cell| cell.contains(&comment.at.start)));
            for (cell, expression) in row.into_iter().flatten().zip(columns.split('|').map(str::trim)) {
                let number = numbers(&self.masked[cell.clone()]).into_iter().next();
                let number = number.map(|it| cell.start + it.start..cell.start + it.end);
                let number = number.filter(|number| expression != "-" && !self.has_comment(number.start));
                cells.extend(number.map(|number| (number, expression.replace("ROW", key.trim()))));
            }
        }
        cells
    }
}

/// All numbers that are not part of a word, a version or a power.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let is_alone = |number: &Range<usize>| {
        let all = &text[..number.start];
        let before = all.trim_end_matches(['x', '×']);
        // A `-` after a word is a hyphen, as in `UTF-8`.
        let is_hyphen =
            before.strip_suffix('-').is_some_and(|it| it.ends_with(|c: char| c.is_alphanumeric() || c == '-'));
        let in_word =
            before.ends_with(|c: char| c.is_alphanumeric() || "_^".contains(c)) || (is_hyphen && all == before);
        !in_word && text[number.clone()].matches('.').count() < 2 && !text[number.end..].starts_with(['^', '_'])
    };
    pattern(NUMBER).find_iter(text).map(|number| number.range()).filter(is_alone).collect()
}

/// Whether `shown` is the value, rounded; a half may be rounded either way.
fn is_rounded(value: f64, shown: &str, digits: usize) -> bool {
    let half = 0.5 / 10f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    shown.parse::<f64>().is_ok_and(|shown| (value - shown).abs() <= half * (1.0 + 1e-6))
}

/// What is wrong with a number that must equal an expression.
fn wrong(shown: &str, expression: &str, records: &[Record]) -> Option<String> {
    let plain = shown.replace(',', "");
    let digits = plain.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    match evaluate(expression, records, None) {
        Err(why) => Some(format!("{shown}: {why} ({expression})")),
        Ok(value) if is_rounded(value, &plain, digits) => None,
        Ok(value) => Some(format!("{shown} is {value:.*} in the record ({expression})", digits.max(3))),
    }
}

/// The problems with the figures of a document, each with its place.
pub(crate) fn problems(path: &str, text: &str, records: &[Record]) -> Vec<String> {
    let page = Page::new(text);
    let (mut quoted, mut covered, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for Comment { text, at } in &page.comments {
        let number = page.number_behind(at.end);
        let (kind, value) = text.split_once(':').map_or((*text, None), |(kind, value)| (kind, Some(value.trim())));
        match (kind.split(' ').next(), value) {
            (Some("record"), Some(expression)) => match number {
                Some(number) => quoted.push((number, expression.to_owned())),
                None => found.push((at.start, format!("no number behind {text}"))),
            },
            (Some("columns"), Some(columns)) => quoted.extend(page.table_cells(at.end, columns)),
            (Some("given"), None) => covered.extend(std::iter::successors(number, |number| page.joined(number))),
            (Some("given"), Some(why)) if !why.is_empty() => covered.push(at.start..page.end_of_given(at.end)),
            (Some("given" | "record" | "columns"), _) => {
                found.push((at.start, format!("<!-- {text} --> is incomplete")))
            }
            _ => {}
        }
    }
    for (number, expression) in quoted {
        found.extend(wrong(&page.masked[number.clone()], &expression, records).map(|problem| (number.start, problem)));
        covered.push(number);
    }
    let unit_cells = page.unit_cells();
    for number in numbers(&page.masked) {
        let is_in = |ranges: &[Range<usize>]| ranges.iter().any(|range| range.contains(&(number.end - 1)));
        if !is_in(&covered) && (page.is_figure(&number) || is_in(&unit_cells)) {
            let shown = &page.masked[number.clone()];
            let problem = format!("{shown} is a figure without a record: <!-- record: .. --> or <!-- given -->");
            found.push((number.start, problem));
        }
    }
    found.sort();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    found.into_iter().map(|(at, problem)| format!("{path}:{}: {problem}", line(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let record =
            Record::parse("cells-1", "arm,ratio,ns,verdict\nwindrow,0.5704,1234567,ok\nrayon x,-0.25,47.6,LOSES\n");
        problems("a.md", text, &[record])
    }

    #[test]
    fn numbers_with_units_points_and_ratios_are_figures() {
        for text in [
            "0.57",
            "1.2x",
            "x12",
            "12×",
            "48 times",
            "16 %",
            "16% less",
            "5 ns",
            "30-ms pause",
            "205 MB/s",
            "12 rows/s",
            "9 rows a second",
            "1,000 us",
            "takes 3\nms",
            "**5 s**",
            "(7 GiB)",
            "| 2 ms |",
            "| a | us |\n|---|--:|\n| b | 7 |",
            "-22 %",
            "4 us.",
        ] {
            assert_eq!(found(text).len(), 1, "{text}: {:?}", found(text));
        }
        assert_eq!(found("16 to 41 %, 5 or 6 s, 1–2 ms").len(), 6);
    }

    #[test]
    fn other_numbers_are_none() {
        for text in [
            "31 loops, 2 threads, 1,000 items",
            "`5 ns` and ``0.5` ms``",
            "```sh\nsleep 5 s\n```\n",
            "<!-- 0.5 -->",
            "[a](b-0.5)",
            "<https://a/0.5>",
            "MPICH 4.0.2",
            "x86-64",
            "o200k, u64, UTF-8",
            "2^18",
            "4096 x 1024",
            "| a | n |\n|---|---|\n| b | 7 |",
            "at 5 sites",
            "issue 12.",
            "cells-warm-1 s",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_figure_is_what_its_record_says_in_as_many_digits() {
        for text in [
            "<!-- record: cells-1 windrow ratio -->0.57",
            "<!-- record: cells-1 windrow ratio --> **0.570** of",
            "| <!-- record: 100 * cells-1 windrow ratio -->57 % |",
            "<!-- record: cells-1 windrow ns / 1000 -->1,235 us",
            "<!-- record: cells-1 windrow cells -->1 of 31",
            "x<!-- record: cells-1 'rayon x' ns -->48",
            "<!-- record: 100 * cells-1 'rayon x' ratio -->-25 %",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        assert!(is_rounded(87.25, "87.3", 1) && is_rounded(87.25, "87.2", 1) && !is_rounded(87.26, "87.2", 1));
        let wrong = found("a\n<!-- record: cells-1 windrow ratio -->0.58\n");
        assert_eq!(wrong, ["a.md:2: 0.58 is 0.570 in the record (cells-1 windrow ratio)"]);
        assert!(found("<!-- record: cells-2 windrow ratio -->0.58")[0].contains("no record is called cells-2"));
        assert!(found("<!-- record: cells-1 windrow ratio --> none")[0].contains("no number behind"));
        assert!(found("<!-- record -->0.5")[0].contains("incomplete"));
        // The second number of a range needs a separate marker.
        assert_eq!(found("<!-- record: cells-1 windrow ratio -->0.57 to 0.60").len(), 1);
    }

    #[test]
    fn what_is_given_needs_no_record() {
        for text in [
            "<!-- given -->5 ms",
            "<!-- given -->16 to 41 %",
            "<!-- given: a default -->\na 5 ms and\n0.5\n",
            "<!-- given: simulated -->\n\n0.5\n\n0.6\n\n# Next\n",
            "a <!-- given: a bar --> 5 ms\n",
            "# All\n\n<!-- given: simulated -->\n\n## Part\n\n0.5\n",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(found("<!-- given -->5 ms, 6 ms").len(), 1);
        assert_eq!(found("<!-- given: a default -->\n5 ms\n\n0.5\n").len(), 1);
        assert_eq!(found("<!-- given: simulated -->\n\n0.5\n\n## Next\n0.5").len(), 1);
        assert_eq!(found("<!-- given: -->\n5 ms\n").len(), 2);
    }

    #[test]
    fn a_table_has_an_expression_for_each_column() {
        let table = |mean: &str, ns: &str| {
            format!(
                "<!-- columns: - | cells-1 ROW ratio | cells-1 ROW ns -->\n| | mean | ns |\n|---|--:|--:|\n\
                 | <!-- row: windrow --> **2 threads** | {mean} | {ns} |\n| <!-- row: 'rayon x' --> rayon | - | 48 |\n"
            )
        };
        assert_eq!(found(&table("**0.57**", "1,234,567")), Vec::<String>::new());
        assert_eq!(found(&table("<!-- given -->0.9", "1234567")), Vec::<String>::new());
        assert!(found(&table("0.58", "1234567"))[0].starts_with("a.md:4: 0.58 is 0.570"));
        assert_eq!(found(&table("0.57 to 0.60", "1234567")).len(), 1);
    }

    #[test]
    fn front_pages_and_guides_are_checked() {
        let paths = [
            "README.md",
            "CHANGELOG.md",
            "docs/tiling.md",
            "book/src/loops.md",
            "book/src/a/b.md",
            "crates/windrow/README.md",
            "bench/RESULTS.md",
            "book/README.md",
            "crates/a/peers/README.md",
        ];
        assert_eq!(paths.map(is_checked), [true, true, true, true, true, true, false, false, false]);
    }
}

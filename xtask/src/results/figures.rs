//! Figures in documents: each equals the field of a record that the comment before it names, or is marked as given.
//!
//! A *figure* is a number that has a decimal point; or is followed by a unit of time, size or rate, by `%`, `x` or `times`; or is preceded
//! by `x`; or is in a column of a table whose head has such a unit. The first number of `16 to 41 %` is a figure too. Code, comments,
//! targets of links, versions with two points, and words with digits in them contain none.

use super::record::Record;
use super::value::evaluate;

const UNITS: [&str; 38] = [
    "ns", "us", "µs", "ms", "s", "sec", "second", "seconds", "min", "minute", "minutes", "h", "hour", "hours", "kB",
    "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "kbit", "Mbit", "Gbit", "MHz", "GHz", "FLOP", "MFLOP", "GFLOP",
    "TFLOP", "times", "x", "×", "percent", "MBs", "ops",
];

/// Whether the figures of this file are checked.
pub(super) fn is_checked(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_readme = path.ends_with("/README.md") && folder.starts_with("crates/") && folder.matches('/').count() == 1;
    path == "README.md" || path == "CHANGELOG.md" || (folder == "docs" && path.ends_with(".md")) || is_readme
}

/// A comment's text, and where it begins and ends.
struct Comment<'a> {
    text: &'a str,
    begin: usize,
    end: usize,
}

/// A document, with everything that holds no figures replaced by spaces.
struct Page<'a> {
    masked: String,
    comments: Vec<Comment<'a>>,
}

impl<'a> Page<'a> {
    fn new(text: &'a str) -> Page<'a> {
        let (mut masked, mut comments) = (text.as_bytes().to_vec(), Vec::new());
        let mut hide = |begin: usize, end: usize| {
            masked[begin..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        };
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let until = |pattern: &str| rest.find(pattern).unwrap_or(rest.len());
            let is_line = at == 0 || text[..at].ends_with('\n');
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let length = if rest.starts_with("<!--") {
                let length = (until("-->") + 3).min(rest.len());
                comments.push(Comment {
                    text: rest[4..length].trim_end_matches("-->").trim(),
                    begin: at,
                    end: at + length,
                });
                length
            } else if is_line && ticks >= 3 {
                rest[ticks..].find(&format!("\n{}", &rest[..ticks])).map_or(rest.len(), |end| end + 2 * ticks + 1)
            } else if ticks > 0 {
                let paragraph = &rest[..until("\n\n")];
                paragraph[ticks..].find(&rest[..ticks]).map_or(ticks, |end| end + 2 * ticks)
            } else if rest.starts_with("](") {
                until(")")
            } else if rest.starts_with("<http") {
                until(">")
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            hide(at, at + length);
            at += length;
        }
        Page { masked: String::from_utf8(masked).expect("whole characters became spaces"), comments }
    }

    /// The comment directly before the number at `begin`; marks like `**` or `x` may be between them.
    fn comment_before(&self, begin: usize) -> Option<&Comment<'a>> {
        let comment = self.comments.iter().rev().find(|comment| comment.end <= begin)?;
        self.masked[comment.end..begin].chars().all(|c| " *_x×+~($\n".contains(c)).then_some(comment)
    }

    /// The first number after `from`, if only marks are between them.
    fn number_behind(&self, from: usize) -> Option<Number> {
        let skipped = self.masked[from..].find(|c: char| !" *_x×+~($-\n".contains(c))?;
        let begin = from + skipped;
        let sign = if self.masked[from..begin].ends_with('-') { 1 } else { 0 };
        self.masked[begin..].starts_with(|c: char| c.is_ascii_digit()).then(|| Number::at(&self.masked, begin, sign))
    }
}

/// The place of a number, its sign included.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    begin: usize,
    end: usize,
}

impl Number {
    fn at(text: &str, begin: usize, sign: usize) -> Number {
        let bytes = text.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut end = begin;
        while is_digit(end)
            || (bytes.get(end) == Some(&b',') && (1..4).all(|more| is_digit(end + more)) && !is_digit(end + 4))
            || (bytes.get(end) == Some(&b'.') && is_digit(end + 1))
        {
            end += 1;
        }
        Number { begin: begin - sign, end }
    }

    fn text(self, text: &str) -> &str {
        &text[self.begin..self.end]
    }
}

/// All numbers that are not part of a word, a version or a power.
fn numbers(text: &str) -> Vec<Number> {
    let (mut numbers, mut at) = (Vec::new(), 0);
    while let Some(skipped) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let number = Number::at(text, at + skipped, 0);
        at = number.end;
        let before = text[..number.begin].trim_end_matches(['x', '×']);
        let (glued, last) = (before.len() < number.begin, before.chars().next_back().unwrap_or(' '));
        let in_word = last.is_alphanumeric() || "_^".contains(last) || (last == '-' && !glued && is_hyphen(before));
        let points = number.text(text).matches('.').count();
        let after = text[number.end..].chars().next().unwrap_or(' ');
        if !in_word && points < 2 && !"^_".contains(after) {
            numbers.push(number);
        }
    }
    numbers
}

/// Whether the `-` at the end of the text is a hyphen after a word, as in `UTF-8`.
fn is_hyphen(before: &str) -> bool {
    before[..before.len() - 1].ends_with(|c: char| c.is_alphanumeric() || c == '-')
}

fn has_unit(text: &str, number: Number) -> bool {
    let rest = &text[number.end..];
    // "x12" is a ratio, "x86-64" a machine.
    if number.text(text).contains('.') || (text[..number.begin].ends_with(['x', '×']) && !rest.starts_with('-')) {
        return true;
    }
    let behind = rest.strip_prefix([' ', '\n', '\u{a0}', '-']).unwrap_or(rest);
    let word: String = behind.chars().take_while(|c| c.is_alphabetic() || *c == '×').collect();
    let is_rate = ["/s", "/ms", " a second"].iter().any(|it| behind[word.len()..].starts_with(it)) && !word.is_empty();
    // "4096 x 1024" is a shape, "1.2x" a ratio.
    let is_factor = word != "x" && word != "×" || rest.starts_with(word.as_str());
    behind.starts_with('%') || is_rate || (is_factor && UNITS.contains(&word.as_str()))
}

/// The second number of a range or list: joined to this one by `to`, `and`, `or`, a comma or a dash.
fn joined(text: &str, number: Number) -> Option<Number> {
    let rest = &text[number.end..];
    let joint = [" to ", " and ", " or ", "–", "..", " / "].into_iter().find(|joint| rest.starts_with(joint))?;
    let begin = number.end + joint.len();
    text[begin..].starts_with(|c: char| c.is_ascii_digit()).then(|| Number::at(text, begin, 0))
}

fn is_figure(text: &str, number: Number) -> bool {
    has_unit(text, number) || joined(text, number).is_some_and(|next| is_figure(text, next))
}

/// Whether a column with this head holds figures.
fn is_unit_head(head: &str) -> bool {
    head.contains('%') || head.split(|c: char| !c.is_alphanumeric()).any(|word| UNITS.contains(&word))
}

/// Whether `shown` is the value, rounded; a half may be rounded either way.
fn is_rounded(value: f64, shown: &str, digits: usize) -> bool {
    let half = 0.5 / 10f64.powi(i32::try_from(digits).unwrap_or(i32::MAX));
    shown.parse::<f64>().is_ok_and(|shown| (value - shown).abs() <= half * (1.0 + 1e-6))
}

/// The problems with the figures of a document, each with its place.
pub(super) fn problems(path: &str, text: &str, records: &[Record]) -> Vec<String> {
    let page = Page::new(text);
    let (mut covered, mut found): (Vec<Number>, Vec<(usize, String)>) = (Vec::new(), Vec::new());
    let mut given: Vec<(usize, usize)> = Vec::new();
    let check = |expression: &str, number: Number| -> Option<(usize, String)> {
        let shown = number.text(&page.masked);
        let plain = shown.replace(',', "");
        let digits = plain.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        match evaluate(expression, records, None) {
            Err(why) => Some((number.begin, format!("{shown}: {why} ({expression})"))),
            Ok(value) if is_rounded(value, &plain, digits) => None,
            Ok(value) => {
                Some((number.begin, format!("{shown} is {value:.*} in the record ({expression})", digits.max(3))))
            }
        }
    };
    for comment in &page.comments {
        let number = page.number_behind(comment.end);
        let word = comment.text.split([':', ' ']).next().unwrap_or_default();
        match (comment.text.split_once(':'), word) {
            (Some((_, expression)), "record") => match number {
                Some(number) => {
                    covered.push(number);
                    found.extend(check(expression, number));
                }
                None => found.push((comment.begin, format!("no number behind {}", comment.text))),
            },
            (Some((_, why)), "given") if !why.trim().is_empty() => {
                given.push((comment.begin, end_of_given(&page.masked, comment.end)))
            }
            (None, "given") => {
                let mut next = number;
                while let Some(number) = next {
                    covered.push(number);
                    next = joined(&page.masked, number);
                }
            }
            (Some((_, expressions)), "columns") => {
                let columns: Vec<&str> = expressions.split('|').map(str::trim).collect();
                for (number, expression) in table_cells(&page, comment, &columns) {
                    if page.comment_before(number.begin).is_none_or(|it| it.text.starts_with("row:")) {
                        covered.push(number);
                        found.extend(check(&expression, number));
                    }
                }
            }
            (_, "given" | "record" | "columns") => {
                found.push((comment.begin, format!("<!-- {} --> is incomplete", comment.text)))
            }
            _ => {}
        }
    }
    let is_in_column = unit_columns(&page.masked);
    for number in numbers(&page.masked) {
        let is_known = covered.iter().any(|other| other.end == number.end)
            || given.iter().any(|(begin, end)| (*begin..*end).contains(&number.begin));
        if !is_known && (is_figure(&page.masked, number) || is_in_column(number)) {
            let shown = number.text(&page.masked);
            found.push((
                number.begin,
                format!("{shown} is a figure without a record: <!-- record: .. --> or <!-- given -->"),
            ));
        }
    }
    found.sort();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    found.into_iter().map(|(at, problem)| format!("{path}:{}: {problem}", line(at))).collect()
}

/// A comment with an empty line below covers its section, up to the next heading of the same or a higher level. Other comments cover their
/// block.
fn end_of_given(masked: &str, from: usize) -> usize {
    let (before, rest) = masked.split_at(from);
    let level = |line: &str| line.len() - line.trim_start_matches('#').len();
    let own = before.lines().rev().map(level).find(|level| *level > 0).unwrap_or(6);
    let is_heading = |(at, _): &(usize, &str)| (1..=own).contains(&level(&rest[at + 1..]));
    let end = if rest.trim_start_matches(' ').starts_with("\n\n") {
        rest.match_indices("\n#").find(is_heading).map(|(at, _)| at)
    } else {
        rest.find("\n\n")
    };
    from + end.unwrap_or(rest.len())
}

/// The first number of each cell in the rows with a `row` comment, below a `columns` comment, and the expression it must equal.
fn table_cells(page: &Page<'_>, columns: &Comment<'_>, expressions: &[&str]) -> Vec<(Number, String)> {
    let end = columns.end + page.masked[columns.end..].find("\n\n").unwrap_or(page.masked.len() - columns.end);
    let rows = page.comments.iter().filter(|comment| (columns.end..end).contains(&comment.begin));
    let mut cells = Vec::new();
    for (row, key) in rows.filter_map(|comment| Some((comment, comment.text.strip_prefix("row:")?))) {
        let begin = page.masked[..row.begin].rfind('\n').map_or(0, |at| at + 1);
        let line = &page.masked[begin..begin + page.masked[begin..].find('\n').unwrap_or(page.masked.len() - begin)];
        let mut from = begin + 1;
        for (cell, expression) in line[1..].split('|').zip(expressions) {
            let number = numbers(cell).first().map(|it| Number { begin: from + it.begin, end: from + it.end });
            if let (Some(number), false) = (number, *expression == "-") {
                cells.push((number, expression.replace("ROW", key.trim())));
            }
            from += cell.len() + 1;
        }
    }
    cells
}

/// Whether a number is in a column whose head names a unit.
fn unit_columns(masked: &str) -> impl Fn(Number) -> bool {
    let (mut cells, mut heads, mut at): (Vec<(usize, usize)>, Vec<bool>, usize) = Default::default();
    let lines: Vec<&str> = masked.split_inclusive('\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let is_rule = |line: &&str| line.starts_with('|') && line.trim().chars().all(|c| "|-: ".contains(c));
        if !line.starts_with('|') {
            heads.clear();
        } else if lines.get(index + 1).is_some_and(is_rule) {
            heads = line[1..].split('|').map(is_unit_head).collect();
        } else {
            let mut from = at + 1;
            for (cell, is_unit) in line[1..].split('|').zip(&heads) {
                if *is_unit {
                    cells.push((from, from + cell.len()));
                }
                from += cell.len() + 1;
            }
        }
        at += line.len();
    }
    move |number| cells.iter().any(|(begin, end)| (*begin..*end).contains(&number.begin))
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
        assert_eq!(wrong, ["a.md:2: 0.58 is 0.570 in the record ( cells-1 windrow ratio)"]);
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
            "crates/windrow/README.md",
            "bench/RESULTS.md",
            "crates/a/peers/README.md",
        ];
        assert_eq!(paths.map(is_checked), [true, true, true, true, false, false]);
    }
}

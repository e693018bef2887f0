//! Values of figures and bars: expressions over the fields of records (the grammar is in CONTRIBUTING.md).

use crate::record::{Record, matches};
use crate::tools::pattern;

/// The value of an expression. `.` is the record `own`.
pub(crate) fn evaluate(expression: &str, records: &[Record], own: Option<&Record>) -> Result<f64, String> {
    let words = words(expression)?;
    let mut sum = 0.0;
    for (sign, product) in split(&words, "+", "-") {
        let mut value = 1.0;
        for (is_divisor, term) in split(product, "*", "/") {
            let factor = of_term(term, records, own)?;
            if is_divisor { value /= factor } else { value *= factor }
        }
        sum += if sign { -value } else { value };
    }
    if sum.is_finite() { Ok(sum) } else { Err("it is not a number".to_owned()) }
}

/// A word, and whether it was quoted.
type Word = (String, bool);

fn words(expression: &str) -> Result<Vec<Word>, String> {
    let form = pattern(r#"'([^']*)'|"([^"]*)"|(\S+)"#);
    let words = form.captures_iter(expression).map(|word| match (word.get(1).or(word.get(2)), &word[0]) {
        (Some(inside), _) => Ok((inside.as_str().to_owned(), true)),
        (None, plain) if plain.starts_with(['\'', '"']) => Err("a quote is not closed".to_owned()),
        (None, plain) => Ok((plain.to_owned(), false)),
    });
    words.collect()
}

/// The parts between operators, and whether each follows `second`.
fn split<'a>(words: &'a [Word], first: &str, second: &str) -> Vec<(bool, &'a [Word])> {
    let is = |(word, quoted): &Word, operator: &str| !quoted && word == operator;
    let (mut parts, mut begin, mut sign) = (Vec::new(), 0, false);
    for (at, word) in words.iter().enumerate() {
        if is(word, first) || is(word, second) {
            parts.push((sign, &words[begin..at]));
            (begin, sign) = (at + 1, is(word, second));
        }
    }
    parts.push((sign, &words[begin..]));
    parts
}

fn of_term(words: &[Word], records: &[Record], own: Option<&Record>) -> Result<f64, String> {
    let [(name, _), rest @ ..] = words else { return Err("a term is missing".to_owned()) };
    if let (Ok(number), []) = (name.parse(), rest) {
        return Ok(number);
    }
    let named = || records.iter().find(|record| record.name == *name);
    let record = if name == "." { own } else { named() }.ok_or_else(|| format!("no record is called {name}"))?;
    match rest {
        [] => Err(format!("which field of {name}?")),
        [(note, false), (pattern, _)] if note == "note" => noted(record, pattern),
        [selectors @ .., (field, _)] => of_rows(record, selectors, field),
    }
}

/// The number at `#` in the one note that contains the rest of the form; before `#`, `*` is any text.
fn noted(record: &Record, form: &str) -> Result<f64, String> {
    let (before, after) = form.split_once('#').ok_or("a pattern needs # in place of the number")?;
    let before = regex::escape(before).replace(r"\*", ".*?");
    let form_of = pattern(&format!(r"{before}(-?\d[\d.-]*?)\.?{}", regex::escape(after)));
    let numbers = record.comments.iter().filter_map(|line| form_of.captures(line)?[1].parse::<f64>().ok());
    match numbers.collect::<Vec<f64>>()[..] {
        [one] => Ok(one),
        ref all => Err(format!("{} notes of {} match {form:?}", all.len(), record.name)),
    }
}

/// The rows in which every selector is a field or the pattern of one; `column=value` names the column.
pub(crate) fn rows<'a>(record: &'a Record, selectors: &[Word]) -> Result<Vec<&'a Vec<String>>, String> {
    let mut rows: Vec<&Vec<String>> = record.rows.iter().collect();
    for (selector, quoted) in selectors {
        let named = selector.split_once('=').and_then(|(column, value)| Some((record.column(column)?, value)));
        if named.is_none() && !quoted && selector.parse::<f64>().is_ok() {
            return Err(format!("{selector} could be in any column: write COLUMN={selector}"));
        }
        rows.retain(|row| match named {
            Some((column, value)) => matches(value, &row[column]),
            None => row.iter().any(|field| matches(selector, field)),
        });
        if rows.is_empty() {
            return Err(format!("{} has no row with {selector}", record.name));
        }
    }
    Ok(rows)
}

fn of_rows(record: &Record, selectors: &[Word], field: &str) -> Result<f64, String> {
    let (statistic, column) = match field {
        // The table of harm has columns with these names.
        _ if record.column(field).is_some() => ("", field),
        "geomean" => ("geomean", "ratio"),
        "worst" => ("max", "ratio"),
        "best" => ("min", "ratio"),
        "loses" => ("rule", "LOSES"),
        _ => field.split_once(':').unwrap_or(("", field)),
    };
    // The number of rows that break a rule, or of all rows.
    let is_count = statistic.is_empty() && column == "cells" && record.column("cells").is_none();
    let rule = (statistic == "rule").then_some(column);
    let column = if rule.is_some() || is_count { "verdict" } else { column };
    let column = record.column(column).ok_or_else(|| format!("{} has no column {column}", record.name))?;
    let by = selectors.iter().position(|(word, quoted)| !quoted && word == "by");
    let chosen = rows(record, &selectors[..by.unwrap_or(selectors.len())])?;
    if let Some(rule) = rule {
        return Ok(chosen.iter().filter(|row| row[column].split('+').any(|broken| broken == rule)).count() as f64);
    }
    if is_count {
        return Ok(chosen.len() as f64);
    }
    let numbers = |rows: &[&Vec<String>]| -> Result<Vec<f64>, String> {
        let fields = rows.iter().flat_map(|row| row[column].split_whitespace());
        fields.map(|field| field.parse().map_err(|_| format!("{field} is not a number in {}", record.name))).collect()
    };
    let mut values = numbers(&chosen)?;
    if let Some(by) = by {
        let others = numbers(&rows(record, &selectors[by + 1..])?)?;
        if others.len() != values.len() {
            return Err(format!("{} values divided by {} values", values.len(), others.len()));
        }
        values.iter_mut().zip(&others).for_each(|(value, other)| *value /= other);
    }
    reduce(statistic, by.is_some(), values)
}

fn reduce(statistic: &str, is_paired: bool, values: Vec<f64>) -> Result<f64, String> {
    match statistic {
        "" if is_paired => Ok(median(&values)),
        "" if values.len() == 1 => Ok(values[0]),
        "" => Err(format!("{} values: choose a statistic, such as median:COLUMN", values.len())),
        "median" => Ok(median(&values)),
        "max" => Ok(values.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        "min" => Ok(values.into_iter().fold(f64::INFINITY, f64::min)),
        "mean" => Ok(values.iter().sum::<f64>() / values.len() as f64),
        "geomean" => Ok((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()),
        unknown => Err(format!("no statistic is called {unknown}")),
    }
}

/// The median; for an even number of values, the mean of the two in between.
///
/// # Panics
/// Without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a, b: x8.776 rows/s, bar >= 10 missed\n# a: x1.5 rows/s.\ncell,arm,n,ratio,verdict\n\
                        u/1,windrow,1,0.5,ok\nu/2,windrow,2,2,LOSES+p90\nu/1,set x2,1,4,ok\nu/2,set x2,2,8,LOSES\n";

    fn value(expression: &str) -> Result<f64, String> {
        let record = Record::parse("r-1", TEXT);
        let own = Record::parse("own", TEXT);
        evaluate(expression, &[record], Some(&own))
    }

    #[test]
    fn values_are_fields_statistics_notes_and_what_is_computed_from_them() {
        for (expression, expected) in [
            ("r-1 u/2 windrow ratio", 2.0),
            ("r-1 n=2 'set x2' ratio", 8.0),
            (". windrow geomean", 1.0),
            ("r-1 windrow worst", 2.0),
            ("r-1 windrow loses", 1.0),
            ("r-1 rule:p90", 1.0),
            ("r-1 '?et *' max:ratio", 8.0),
            ("r-1 loses", 2.0),
            ("r-1 windrow cells", 2.0),
            ("r-1 \"set x2\" by windrow ratio", 6.0),
            ("r-1 'set x2' by windrow max:ratio", 8.0),
            ("r-1 note 'a, b: x# rows/s'", 8.776),
            ("r-1 note 'b: *bar >= # missed'", 10.0),
            ("100 - 100 * r-1 u/1 windrow ratio / . u/2 windrow ratio", 75.0),
        ] {
            assert_eq!(value(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_ambiguous_or_absent_is_an_error() {
        for (expression, message) in [
            ("r-2 windrow ratio", "no record is called r-2"),
            ("r-1 rayon ratio", "no row with rayon"),
            ("r-1 windrow ratio", "2 values: choose a statistic"),
            ("r-1 windrow 2 ratio", "COLUMN=2"),
            ("r-1 note 'x# rows/s'", "2 notes"),
            ("r-1 'set", "quote"),
            ("1 / 0", "not a number"),
        ] {
            assert!(value(expression).unwrap_err().contains(message), "{expression}: {:?}", value(expression));
        }
    }
}

//! Verdicts: the bars of each record, from `bench/bars.txt` and from the notes of programs, and whether the record meets them.

use anyhow::{Result, anyhow};

use crate::record::{Record, matches};
use crate::tools::unless_empty;
use crate::value::evaluate;

/// A value compared with its bar.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) bar: String,
    pub(crate) is_met: bool,
}

/// The fields of a file with lines `a | b | ..`, and the number of each line; `#` begins a comment.
pub(crate) fn table<const N: usize>(text: &str) -> Result<Vec<(usize, [&str; N])>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let fields = lines.map(|(at, line)| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        Ok((at + 1, fields.try_into().map_err(|_| anyhow!("{}: {N} fields, separated by |", at + 1))?))
    });
    fields.collect()
}

/// The verdicts of every record, in the order of the records, from lines `record | what | value | bar | source`.
pub(crate) fn verdicts(bars: &str, records: &[Record]) -> Result<Vec<Vec<Verdict>>> {
    let (bars, mut problems, mut all) = (table::<5>(bars)?, Vec::new(), Vec::new());
    let is_known = |pattern: &str| records.iter().any(|record| matches(pattern, &record.name));
    let unknown = bars.iter().filter(|(_, bar)| !is_known(bar[0]));
    problems.extend(unknown.map(|(line, bar)| format!("{line}: no record is called {}", bar[0])));
    for record in records {
        let (verdicts, failures) = verdicts_of(&bars, records, record);
        problems.extend(failures);
        if verdicts.is_empty() {
            problems.push(format!("record {} has no bar: it needs a line", record.name));
        }
        all.push(verdicts);
    }
    unless_empty("bench/bars.txt", &problems).map(|()| all)
}

/// The verdicts of one record, and the bars whose value it does not have.
pub(crate) fn verdicts_of(
    bars: &[(usize, [&str; 5])],
    records: &[Record],
    record: &Record,
) -> (Vec<Verdict>, Vec<String>) {
    let (mut verdicts, mut problems): (Vec<Verdict>, _) = (record.notes().filter_map(noted).collect(), Vec::new());
    for (line, bar) in bars.iter().filter(|(_, bar)| matches(bar[0], &record.name)) {
        match judge(bar, records, record) {
            Ok(verdict) => verdicts.push(verdict),
            Err(why) => problems.push(format!("{line}: {}: {why}", record.name)),
        }
    }
    (verdicts, problems)
}

fn judge([_, what, value, bar, source]: &[&str; 5], records: &[Record], record: &Record) -> Result<Verdict, String> {
    let value = evaluate(value, records, Some(record))?;
    let (operator, limit) = bar.split_once(' ').ok_or("a bar is `<= NUMBER` or `>= NUMBER`")?;
    let limit: f64 = limit.parse().map_err(|_| format!("{limit} is not a number"))?;
    let is_met = match operator {
        "<=" => value <= limit,
        ">=" => value >= limit,
        _ => return Err(format!("{operator} is neither <= nor >=")),
    };
    let digits = if value.fract() == 0.0 || value.abs() >= 100.0 { 0 } else { 3 };
    Ok(Verdict { what: format!("{what}: {value:.digits$}"), bar: format!("{bar} ({source})"), is_met })
}

/// The verdict in a program's note: `what, bar >= 1.5 met`, `what, bars 5 and 10: missed`, perhaps with `; more` behind it.
pub(crate) fn noted(note: &str) -> Option<Verdict> {
    let (what, rest) = note.split_once(", bars ").or_else(|| note.split_once(", bar "))?;
    let (head, more) = rest.split_once(';').unwrap_or((rest, ""));
    let missed = || head.strip_suffix("missed").map(|bar| (bar, false));
    let (bar, is_met) = head.strip_suffix("met").map(|bar| (bar, true)).or_else(missed)?;
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.trim()) };
    Some(Verdict { what: format!("{what}{more}"), bar: bar.trim_end_matches([':', ' ']).to_owned(), is_met })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_programs_noted_are_verdicts() {
        let verdict = |what: &str, bar: &str, is_met| Some(Verdict { what: what.into(), bar: bar.into(), is_met });
        assert_eq!(noted("a, b: x8.8 rows/s, bar >= 10 missed"), verdict("a, b: x8.8 rows/s", ">= 10", false));
        assert_eq!(noted("off by 4 %, bars 5 and 10: met"), verdict("off by 4 %", "5 and 10", true));
        assert_eq!(noted("x1.02, bar 1.05 met; best x1"), verdict("x1.02 (best x1)", "1.05", true));
        assert_eq!(noted("bare metal, bar of iron"), None);
    }

    #[test]
    fn a_record_is_held_to_bars() {
        let records = [Record::parse("r-1", "arm,ns\nwindrow,12\nmutex,10\n")];
        let bars = "# comment\n\nr-? | by a mutex | . windrow by mutex ns | <= 1.5 | issue\nr-1 | ns | . windrow ns | <= 11 | none\n";
        let verdicts = verdicts(bars, &records).unwrap();
        let shown = verdicts[0].iter().map(|it| format!("{} {} {}", it.what, it.bar, it.is_met));
        assert_eq!(shown.collect::<Vec<_>>(), ["by a mutex: 1.200 <= 1.5 (issue) true", "ns: 12 <= 11 (none) false"]);
        for (bars, message) in [
            ("", "record r-1 has no bar: it needs a line"),
            ("r-1 | a | . a ns | <= 1", "1: 5 fields"),
            ("s | a | . a ns | <= 1 | s", "1: no record is called s"),
            ("r-1 | a | . b ns | <= 1 | s", "1: r-1: r-1 has no row with b"),
            ("r-1 | a | . mutex ns | = 1 | s", "1: r-1: = is neither"),
        ] {
            let error = super::verdicts(bars, &records).unwrap_err().to_string();
            assert!(error.contains(message), "{bars}: {error}");
        }
    }
}

//! Harm: the time of windrow relative to that of the plain code it replaces, over every recorded cell.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use crate::bars::table;
use crate::record::{Record, matches};
use crate::tools::unless_empty;
use crate::value::{median, rows};

/// A cell with a ratio above this counts as slower than plain code.
const HARMED: f64 = 1.05;

/// The name by which figures refer to the table.
pub(crate) const NAME: &str = "harm";

/// A line of `bench/harm.txt`: which times of a record are compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a>([&'a str; 6]);

/// Times of one arm of windrow in one cell, beside the best plain code.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The fields that name the cell.
    pub cell: String,
    /// The arm of windrow.
    pub arm: String,
    /// Windrow's times.
    pub own: Vec<f64>,
    /// Those of the plain code with the smallest median; none if the record has no such code.
    pub plain: Vec<f64>,
}

impl Cell {
    /// Windrow's time relative to plain code, paired by repetition.
    fn ratio(&self, code: &str) -> Result<f64, String> {
        let Cell { cell, arm, own, plain } = self;
        let paired = || median(&own.iter().zip(plain).map(|(own, plain)| own / plain).collect::<Vec<f64>>());
        let ratio = match (own.len(), plain.len()) {
            (_, 0) => return Err(format!("{cell} has no row for {code}")),
            (one, other) if one == other => paired(),
            _ => median(own) / median(plain),
        };
        if ratio.is_finite() && ratio > 0.0 {
            Ok(ratio)
        } else {
            Err(format!("{cell}: {arm} divided by plain code is {ratio}"))
        }
    }
}

impl<'a> Comparison<'a> {
    /// The lines of a file, and their numbers.
    ///
    /// # Errors
    /// If a line has not six fields.
    pub fn parse_all(text: &'a str) -> Result<Vec<(usize, Comparison<'a>)>> {
        Ok(table(text)?.into_iter().map(|(line, fields)| (line, Comparison(fields))).collect())
    }

    /// Whether this compares times of a record of this name.
    pub fn is_of(&self, record: &str) -> bool {
        matches(self.0[1], record)
    }

    /// The times of each arm of windrow in each cell. The column may be `1/COLUMN`, for rates.
    ///
    /// # Errors
    /// If the record lacks a column, or has a field in it that is no number.
    pub fn cells(&self, record: &Record) -> Result<Vec<Cell>, String> {
        let Comparison([_, _, cell, windrow, plain, field]) = self;
        let (column, is_rate) = field.strip_prefix("1/").map_or((*field, false), |column| (column, true));
        let index = |name: &str| record.column(name).ok_or_else(|| format!("no column {name}"));
        let column = index(column)?;
        let keys =
            cell.split_whitespace().filter(|it| *it != "-").map(index).collect::<Result<Vec<usize>, String>>()?;
        let key = |row: &[String]| keys.iter().map(|&at| row[at].as_str()).collect::<Vec<_>>().join(" ");
        let value = |it: &str| it.parse().map_err(|_| format!("{it:?} is not a time"));
        let times = |arm: &str, cell: &str| -> Result<Vec<f64>, String> {
            let rows = rows(record, &[(arm.trim().to_owned(), true)]).unwrap_or_default();
            let values = rows.iter().filter(|row| key(row) == cell).flat_map(|row| row[column].split_whitespace());
            values.map(|it| value(it).map(|value: f64| if is_rate { 1.0 / value } else { value })).collect()
        };
        let cells: BTreeSet<String> = record.rows.iter().map(|row| key(row)).collect();
        let mut found = Vec::new();
        for (arm, cell) in windrow.split(';').flat_map(|arm| cells.iter().map(move |cell| (arm.trim(), cell))) {
            let own = times(arm, cell)?;
            let others = plain.split(';').map(|arm| times(arm, cell)).collect::<Result<Vec<_>, String>>()?;
            let best = others.into_iter().filter(|it| !it.is_empty()).min_by(|a, b| median(a).total_cmp(&median(b)));
            let (plain, cell, arm) = (best.unwrap_or_default(), cell.clone(), arm.to_owned());
            found.extend((!own.is_empty()).then_some(Cell { cell, arm, own, plain }));
        }
        Ok(found)
    }
}

/// The values of each key, in the order in which the keys come first.
pub(crate) fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// A cell's name, and its ratio in each run of the record.
pub(crate) type Runs = (String, Vec<f64>);

/// A cell of the table in one run of its record.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) group: String,
    /// `RECORD | CELL | ARM`, the record without the number of its run: runs of one command are runs of the same cells.
    pub(crate) name: String,
    pub(crate) ratio: f64,
}

/// The cells of all records, from the lines of `bench/harm.txt`.
pub(crate) fn runs(file: &str, records: &[Record]) -> Result<Vec<Run>> {
    let (mut runs, mut problems) = (Vec::new(), Vec::new());
    for (line, comparison) in Comparison::parse_all(file)? {
        let [group, pattern, _, windrow, plain, _] = comparison.0;
        let mut found = records.iter().filter(|record| comparison.is_of(&record.name)).peekable();
        if found.peek().is_none() {
            problems.push(format!("{line}: no record is called {pattern}"));
        }
        for record in found {
            let run = |it: &Cell| {
                let cell = if it.cell.is_empty() { "-" } else { &it.cell };
                let name = format!("{} | {cell} | {}", record.base(), it.arm);
                Ok(Run { group: group.to_owned(), name, ratio: it.ratio(plain)? })
            };
            let of = comparison.cells(record).and_then(|cells| cells.iter().map(run).collect::<Result<Vec<_>, _>>());
            match of {
                Ok(of) if of.is_empty() => problems.push(format!("{line}: {}: no row is for {windrow}", record.name)),
                Ok(of) => runs.extend(of),
                Err(why) => problems.push(format!("{line}: {}: {why}", record.name)),
            }
        }
    }
    unless_empty("bench/harm.txt", &problems).map(|()| runs)
}

/// The cells of each group, with the ratios of their runs.
pub(crate) fn by_group(runs: &[Run]) -> Vec<(&str, Vec<Runs>)> {
    let groups = grouped(runs.iter().map(|run| (run.group.as_str(), (run.name.clone(), run.ratio))));
    groups.into_iter().map(|(group, runs)| (group, grouped(runs))).collect()
}

/// The table of harm, by group and in total.
pub(crate) fn table_of(runs: &[Run]) -> Record {
    let mut groups = by_group(runs);
    let all = |without: fn(&str) -> bool| -> Vec<Runs> {
        groups.iter().filter(|(group, _)| !without(group)).flat_map(|(_, cells)| cells.clone()).collect()
    };
    let totals = [("all but cold", all(is_cold)), ("all", all(|_| false))];
    groups.extend(totals);
    let columns = ["group", "cells", "above", "share", "twice", "repeated", "median", "worst", "worst_twice", "cell"];
    let rows = groups.iter().map(|(group, cells)| row(group, cells)).collect();
    Record { name: NAME.to_owned(), columns: columns.map(str::to_owned).into(), rows, ..Record::default() }
}

fn is_cold(group: &str) -> bool {
    group.contains("cold")
}

const LIST_HEAD: &str = "\
# The cells counted in the `all but cold` total of the harm table; `cargo xtask results --write` adds new ones.
# A listed cell must be in a record. One that no longer is may leave the count only with a reason, in a fifth field.
# group | record | cell | arm | reason
";

/// `bench/harm-cells.txt` as it must be, from the list as it is. Also the listed cells that no record measures, and have no reason.
pub(crate) fn list(old: &str, runs: &[Run]) -> (String, Vec<String>) {
    let counted = runs.iter().filter(|run| !is_cold(&run.group));
    let cells: Vec<String> = counted.map(|run| format!("{} | {}", run.group, run.name)).collect();
    let mut list = LIST_HEAD.to_owned();
    grouped(cells.iter().map(|cell| (cell, ()))).iter().for_each(|(cell, _)| list.push_str(&format!("{cell}\n")));
    let mut problems = Vec::new();
    for (at, line) in old.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let cell = line.splitn(5, " | ").take(4).collect::<Vec<_>>().join(" | ");
        if !cells.contains(&cell) {
            list.push_str(&format!("{line}\n"));
            if cell == line {
                problems
                    .push(format!("bench/harm-cells.txt:{}: no record measures {cell}\n    hint: | REASON", at + 1));
            }
        }
    }
    (list, problems)
}

/// A cell counts once. Its worst run counts, except that `twice` and `worst_twice` take its best run.
fn row(group: &str, cells: &[Runs]) -> Vec<String> {
    let worst_run = |runs: &[f64]| runs.iter().copied().fold(0.0, f64::max);
    let worst: Vec<f64> = cells.iter().map(|(_, runs)| worst_run(runs)).collect();
    let repeated = cells.iter().filter(|(_, runs)| runs.len() > 1);
    let best: Vec<f64> = repeated.map(|(_, runs)| runs.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    let above = |ratios: &[f64]| ratios.iter().filter(|ratio| **ratio > HARMED).count();
    let by_worst = |a: &&Runs, b: &&Runs| worst_run(&a.1).total_cmp(&worst_run(&b.1));
    let (cell, _) = cells.iter().max_by(by_worst).expect("a group has cells");
    let or_dash = |shown: String| if best.is_empty() { "-".to_owned() } else { shown };
    vec![
        group.to_owned(),
        cells.len().to_string(),
        above(&worst).to_string(),
        format!("{:.1}", 100.0 * above(&worst) as f64 / cells.len() as f64),
        or_dash(above(&best).to_string()),
        best.len().to_string(),
        format!("{:.3}", median(&cells.iter().map(|(_, runs)| median(runs)).collect::<Vec<f64>>())),
        format!("{:.3}", worst_run(&worst)),
        or_dash(format!("{:.3}", worst_run(&best))),
        cell.replace(" | ", " ").replace(" - ", " "),
    ]
}

/// The table as Markdown, without the names of the worst cells.
pub(crate) fn markdown(harm: &Record) -> String {
    let mut text =
        "| group | cells | above 1.05 | share | in both runs | median | worst |\n|---|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for row in &harm.rows {
        let [group, cells, above, share, twice, repeated, median, worst, ..] = row.as_slice() else { continue };
        let of = if twice == "-" { String::new() } else { format!(" of {repeated}") };
        let _ = writeln!(text, "| {group} | {cells} | {above} | {share} % | {twice}{of} | {median} | {worst} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> [Record; 3] {
        [
            Record::parse("loops-1", "cell,arm,ratio\na,serial,1\na,windrow,1.2\nb,serial,1\nb,windrow,0.5\n"),
            Record::parse("loops-2", "cell,arm,ratio\na,serial,1\na,windrow,1.1\nb,serial,1\nb,windrow,1.3\n"),
            Record::parse("cold", "n,arm,per_s\n1,mutex,10\n1,btree,20\n1,windrow,5\n1,windrow,5\n2,none,1\n"),
        ]
    }

    #[test]
    fn cells_above_five_percent_are_counted_once_and_in_both_runs() {
        let file = "loops | loops-? | cell | windrow | serial | ratio\ncold | cold | n | windrow | mutex; btree; absent | 1/per_s\n";
        let harm = table_of(&runs(file, &records()).unwrap());
        assert_eq!(harm.rows[0].join(","), "loops,2,2,100.0,1,2,1.025,1.300,1.100,loops b windrow");
        assert_eq!(harm.rows[1].join(","), "cold,1,1,100.0,-,0,4.000,4.000,-,cold 1 windrow");
        assert_eq!(harm.rows[2][..2], ["all but cold", "2"]);
        assert_eq!(harm.rows[3][..4], ["all", "3", "3", "100.0"]);
        assert!(markdown(&harm).contains("| loops | 2 | 2 | 100.0 % | 1 of 2 | 1.025 | 1.300 |\n"));
    }

    #[test]
    fn a_listed_cell_stays_measured_or_has_a_reason() {
        let file = "loops | loops-? | cell | windrow | serial | ratio\ncold | cold | n | windrow | mutex | 1/per_s\n";
        let runs = runs(file, &records()).unwrap();
        let whole = format!("{LIST_HEAD}loops | loops | a | windrow\nloops | loops | b | windrow\n");
        assert_eq!(list("", &runs), (whole.clone(), vec![]), "a cell of two runs is listed once, a cold one never");
        let gone = "sums | reduces | 10 | windrow";
        let (list_, problems) = list(&format!("{whole}{gone}\n"), &runs);
        assert_eq!(list_, format!("{whole}{gone}\n"));
        assert!(problems[0].starts_with("bench/harm-cells.txt:6: no record measures sums"), "{problems:?}");
        assert_eq!(list(&format!("{whole}{gone} | one sum is left\n"), &runs).1, Vec::<String>::new());
    }
}

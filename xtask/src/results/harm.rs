//! Harm: the time of windrow relative to that of the plain code it replaces, over every recorded cell.

use std::fmt::Write as _;

use super::bars::table;
use super::record::{Record, matches};
use super::value::{median, rows};

/// A cell with a ratio above this counts as slower than plain code.
const HARMED: f64 = 1.05;

/// The name by which figures refer to the table.
pub(super) const NAME: &str = "harm";

/// A cell: its name, and its ratio in each run of the record.
type Cell = (String, Vec<f64>);

/// The table of harm, by group and in total.
pub(super) fn table_of(file: &str, records: &[Record]) -> Result<Record, Vec<String>> {
    let lines = table(file).map_err(|error| vec![error])?;
    let (mut groups, mut problems): (Vec<(&str, Vec<Cell>)>, Vec<String>) = Default::default();
    for (line, [group, pattern, cell, windrow, plain, field]) in lines {
        let mut found = false;
        for record in records.iter().filter(|record| matches(pattern, &record.name)) {
            found = true;
            match ratios(record, cell, windrow, plain, field) {
                Ok(cells) => add(&mut groups, group, record.base(), cells),
                Err(why) => problems.push(format!("{line}: {}: {why}", record.name)),
            }
        }
        if !found {
            problems.push(format!("{line}: no record is called {pattern}"));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let all = |without: &str| -> Vec<Cell> {
        let kept = groups.iter().filter(|(group, _)| without.is_empty() || !group.contains(without));
        kept.flat_map(|(_, cells)| cells.iter().cloned()).collect()
    };
    let totals = [("all but cold", all("cold")), ("all", all(""))];
    let rows = groups
        .iter()
        .map(|(group, cells)| row(group, cells))
        .chain(totals.iter().map(|(name, cells)| row(name, cells)));
    let columns = ["group", "cells", "above", "share", "twice", "repeated", "median", "worst", "worst_twice", "cell"];
    Ok(Record {
        name: NAME.to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
        ..Record::default()
    })
}

/// Adds a run's cells to those of the other runs of its command.
fn add<'a>(groups: &mut Vec<(&'a str, Vec<Cell>)>, group: &'a str, base: &str, cells: Vec<(String, f64)>) {
    if !groups.iter().any(|(name, _)| *name == group) {
        groups.push((group, Vec::new()));
    }
    let Some((_, known)) = groups.iter_mut().find(|(name, _)| *name == group) else { return };
    for (cell, ratio) in cells {
        let name = format!("{base}: {cell}");
        match known.iter_mut().find(|(other, _)| *other == name) {
            Some((_, runs)) => runs.push(ratio),
            None => known.push((name, vec![ratio])),
        }
    }
}

/// Each cell's times relative to those of the best plain code, paired by repetition. `field` may be `1/COLUMN`, for rates.
fn ratios(record: &Record, cell: &str, windrow: &str, plain: &str, field: &str) -> Result<Vec<(String, f64)>, String> {
    let (column, is_rate) = field.strip_prefix("1/").map_or((field, false), |column| (column, true));
    let index = |name: &str| record.column(name).ok_or_else(|| format!("no column {name}"));
    let column = index(column)?;
    let keys = cell.split_whitespace().filter(|it| *it != "-").map(index).collect::<Result<Vec<usize>, String>>()?;
    let key = |row: &[String]| keys.iter().map(|&at| row[at].as_str()).collect::<Vec<_>>().join(" ");
    let times = |arm: &str, cell: &str| -> Option<Vec<f64>> {
        let rows = rows(record, &[(arm.to_owned(), true)]).ok()?;
        let of_cell = rows.iter().filter(|row| key(row) == cell);
        let values = of_cell.flat_map(|row| row[column].split_whitespace()).map(|it| it.parse().unwrap_or(f64::NAN));
        let values: Vec<f64> = values.map(|value: f64| if is_rate { 1.0 / value } else { value }).collect();
        (!values.is_empty()).then_some(values)
    };
    let mut cells: Vec<String> = record.rows.iter().map(|row| key(row)).collect();
    cells.sort();
    cells.dedup();
    let mut ratios = Vec::new();
    for arm in windrow.split(';').map(str::trim) {
        for cell in &cells {
            let Some(own) = times(arm, cell) else { continue };
            let others = plain.split(';').filter_map(|arm| times(arm.trim(), cell));
            let best = others.min_by(|a, b| median(a.clone()).total_cmp(&median(b.clone())));
            let best = best.ok_or_else(|| format!("{cell} has no row of {plain}"))?;
            let ratio = if own.len() == best.len() {
                median(own.iter().zip(&best).map(|(own, best)| own / best).collect())
            } else {
                median(own) / median(best)
            };
            if !ratio.is_finite() || ratio <= 0.0 {
                return Err(format!("{cell}: {arm} by plain code is {ratio}"));
            }
            ratios.push((format!("{cell} {arm}").trim_start().to_owned(), ratio));
        }
    }
    if ratios.is_empty() { Err(format!("no row is of {windrow}")) } else { Ok(ratios) }
}

/// A cell counts once. Its worst run counts, except that `twice` and `worst_twice` take its best run.
fn row(group: &str, cells: &[Cell]) -> Vec<String> {
    let worst_run = |runs: &[f64]| runs.iter().copied().fold(0.0, f64::max);
    let best_run = |runs: &[f64]| runs.iter().copied().fold(f64::INFINITY, f64::min);
    let above = |ratio: f64| ratio > HARMED;
    let count = cells.iter().filter(|(_, runs)| above(worst_run(runs))).count();
    let repeated: Vec<f64> = cells.iter().filter(|(_, runs)| runs.len() > 1).map(|(_, runs)| best_run(runs)).collect();
    let twice = repeated.iter().filter(|ratio| above(**ratio)).count();
    let ratios = cells.iter().map(|(_, runs)| median(runs.clone())).collect();
    let by_worst = |a: &&Cell, b: &&Cell| worst_run(&a.1).total_cmp(&worst_run(&b.1));
    let (cell, runs) = cells.iter().max_by(by_worst).expect("a group has cells");
    let worst_twice = repeated.iter().copied().fold(f64::NAN, f64::max);
    let shown = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") };
    vec![
        group.to_owned(),
        cells.len().to_string(),
        count.to_string(),
        format!("{:.1}", 100.0 * count as f64 / cells.len() as f64),
        if repeated.is_empty() { "-".to_owned() } else { twice.to_string() },
        repeated.len().to_string(),
        shown(median(ratios)),
        shown(worst_run(runs)),
        shown(worst_twice),
        cell.clone(),
    ]
}

/// The table as Markdown.
pub(super) fn markdown(harm: &Record) -> String {
    let mut text = "| group | cells | above 1.05 | share | above in both runs | median | worst | worst in both runs | worst cell |\n\
                    |---|--:|--:|--:|--:|--:|--:|--:|---|\n"
        .to_owned();
    for row in &harm.rows {
        let [group, cells, above, share, twice, repeated, median, worst, worst_twice, cell] = &row[..] else {
            continue;
        };
        let twice = if twice == "-" { "-".to_owned() } else { format!("{twice} of {repeated}") };
        let _ = writeln!(
            text,
            "| {group} | {cells} | {above} | {share} % | {twice} | {median} | {worst} | {worst_twice} | {cell} |"
        );
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
        let harm = table_of(file, &records()).unwrap();
        assert_eq!(harm.rows[0].join(","), "loops,2,2,100.0,1,2,1.025,1.300,1.100,loops: b windrow");
        assert_eq!(harm.rows[1].join(","), "cold,1,1,100.0,-,0,4.000,4.000,-,cold: 1 windrow");
        assert_eq!(harm.rows[2][..2], ["all but cold", "2"]);
        assert_eq!(harm.rows[3][..4], ["all", "3", "3", "100.0"]);
        assert!(
            markdown(&harm)
                .contains("| loops | 2 | 2 | 100.0 % | 1 of 2 | 1.025 | 1.300 | 1.100 | loops: b windrow |\n")
        );
    }

    #[test]
    fn a_group_without_cells_or_plain_code_fails() {
        for (file, message) in [
            ("a | b | cell | windrow | serial | ratio", "1: no record is called b"),
            ("a | loops-1 | cell | rayon | serial | ratio", "1: loops-1: no row is of rayon"),
            ("a | loops-1 | cell | windrow | mutex | ratio", "a has no row of mutex"),
            ("a | loops-1 | n | windrow | serial | ratio", "no column n"),
        ] {
            assert!(table_of(file, &records()).unwrap_err()[0].contains(message), "{file}");
        }
    }
}

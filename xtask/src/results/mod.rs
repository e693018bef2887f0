//! Checks `bench/RESULTS.md`, with its verdicts and harm, and every quoted figure against the records.

mod bars;
mod figures;
mod harm;
mod record;
mod value;

use std::fmt::Write as _;

use bars::Verdict;
use record::Record;

use crate::workspace::{Failure, Workspace, read, write};

const FILE: &str = "bench/RESULTS.md";
const BARS: &str = "bench/bars.txt";
const HARM: &str = "bench/harm.txt";

const HEAD: &str = "# Results

Made from `bench/record` by `cargo xtask results --write`. The records hold the times of every repetition and the versions of the peers;
[crates/windrow-bench/README.md](../crates/windrow-bench/README.md) says how it is measured. Verdicts are computed from the records:
`bench/bars.txt` has the bars that the programs do not note themselves.

## Harm

The time of windrow divided by that of the plain code it stands in for: the serial loop, the better of a mutex and a `BTreeMap`, the product
that is not tiled, the engine called directly (`bench/harm.txt`). Below 1 windrow is faster. Where a command was recorded twice, the first
columns count the worse run of a cell, and \"in both runs\" the better one.

";

/// Checks that the document is up to date, and that every figure of the other documents is in a record. Prints the table of harm.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let (records, document) = made(workspace)?;
    if let Some(harm) = records.last() {
        println!("{}", harm::markdown(harm));
    }
    let mut problems = Vec::new();
    for path in workspace.files()?.iter().filter(|path| figures::is_checked(path)) {
        problems.extend(figures::problems(path, &read(&workspace.root.join(path))?, &records));
    }
    problems.extend(stale(&read(&workspace.root.join(FILE))?, &document));
    Failure::unless_empty("results", &problems)
}

pub(crate) fn update(workspace: &Workspace) -> Result<(), Failure> {
    write(&workspace.root.join(FILE), &made(workspace)?.1)
}

fn stale(present: &str, made: &str) -> Option<String> {
    (present != made).then(|| format!("{FILE} is not what the records say\n  hint: cargo xtask results --write"))
}

/// The records, with harm as the last one, and the document made from them.
fn made(workspace: &Workspace) -> Result<(Vec<Record>, String), Failure> {
    let file = |path: &str| read(&workspace.root.join(path));
    from(record::load(&workspace.root.join("bench/record"))?, &file(BARS)?, &file(HARM)?)
}

fn from(mut records: Vec<Record>, bars: &str, harm: &str) -> Result<(Vec<Record>, String), Failure> {
    let listed =
        |path: &str, problems: Vec<String>| Failure::unless_empty(path, &problems).expect_err("there are some");
    let verdicts = bars::verdicts(bars, &records).map_err(|problems| listed(BARS, problems))?;
    let harm = harm::table_of(harm, &records).map_err(|problems| listed(HARM, problems))?;
    let mut text = format!("{HEAD}{}", harm::markdown(&harm));
    text.push_str("\n## Verdicts\n\n| record | bars met | bars missed | commit |\n|---|--:|--:|---|\n");
    for (record, verdicts) in records.iter().zip(&verdicts) {
        let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
        let missed = verdicts.len() - met;
        let _ = writeln!(text, "| [{0}](#{0}) | {met} | {missed} | {1} |", record.name, record.fact("commit"));
    }
    records.iter().zip(&verdicts).for_each(|(record, verdicts)| text.push_str(&section(record, verdicts)));
    records.push(harm);
    Ok((records, text))
}

fn section(record: &Record, verdicts: &[Verdict]) -> String {
    let (command, machine) = (record.fact("command"), record.fact("machine"));
    let mut text = format!("\n## {}\n`{command}` on {machine}\n\n", record.name);
    text.push_str("| | bar | |\n|---|---|---|\n");
    for Verdict { what, bar, is_met } in verdicts {
        let _ = writeln!(text, "| {what} | {bar} | {} |", if *is_met { "met" } else { "**missed**" });
    }
    text.push_str(&arms(record));
    let notes: Vec<&str> = record.notes().filter(|note| bars::noted(note).is_none() && !is_summary(note)).collect();
    let (tabled, rest) = by_cells(&notes);
    text.push_str(&tabled);
    // A list also ends a table, without an empty line.
    rest.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
    text
}

/// Whether the table of arms replaces this line.
fn is_summary(note: &str) -> bool {
    note.contains(" loses ") && note.contains("; worst x")
}

/// A table of the arms that were compared with serial, if the record has such arms.
fn arms(record: &Record) -> String {
    let column = |name| record.column(name);
    let (Some(arm), Some(ratio), Some(verdict)) = (column("arm"), column("ratio"), column("verdict")) else {
        return String::new();
    };
    let (cell, own) = (column("cell").unwrap_or(arm), std::slice::from_ref(record));
    let mut text = "\n| arm | geomean | slower than serial | p90 | cpu rule | worst | worst cell | cpu |\n\
                    |---|--:|--:|--:|--:|--:|---|--:|\n"
        .to_owned();
    let mut names: Vec<&str> = Vec::new();
    for row in &record.rows {
        if row[arm] != "serial" && !names.contains(&row[arm].as_str()) {
            names.push(&row[arm]);
        }
    }
    for name in names {
        let rows: Vec<&Vec<String>> = record.rows.iter().filter(|row| row[arm] == name).collect();
        let broken = |rule: &str| rows.iter().filter(|row| row[verdict].split('+').any(|it| it == rule)).count();
        let number = |row: &Vec<String>| row[ratio].parse::<f64>().unwrap_or(f64::NAN);
        let worst = rows.iter().max_by(|a, b| number(a).total_cmp(&number(b))).expect("a name has rows");
        let value =
            |field: &str| value::evaluate(&format!(". '{name}' {field}"), own, Some(record)).unwrap_or(f64::NAN);
        let (n, loses, p90, cpu) = (rows.len(), broken("LOSES"), broken("p90"), broken("cpu"));
        let (mean, most, where_, seconds) = (value("geomean"), number(worst), &worst[cell], value("cpu"));
        let _ = writeln!(
            text,
            "| {name} | {mean:.3} | {loses} of {n} | {p90} | {cpu} | {most:.2} | {where_} | {seconds:.2} |"
        );
    }
    text
}

/// Notes `CELL: WHAT: xRATIO ..` of at least three cells become one line for each WHAT. Also returns the other notes.
fn by_cells<'a>(notes: &[&'a str]) -> (String, Vec<&'a str>) {
    let parts = |note: &&'a str| {
        let (cell, rest) = note.split_once(": ")?;
        let (what, ratio) = rest.split_once(": x")?;
        let ratio = ratio.split(' ').next()?.parse::<f64>().ok()?;
        Some((cell, what, ratio))
    };
    let mut groups: Vec<(&str, Vec<(&str, f64)>)> = Vec::new();
    for (cell, what, ratio) in notes.iter().filter_map(parts) {
        match groups.iter_mut().find(|(other, _)| *other == what) {
            Some((_, cells)) => cells.push((cell, ratio)),
            None => groups.push((what, vec![(cell, ratio)])),
        }
    }
    groups.retain(|(_, cells)| cells.len() >= 3);
    let is_tabled = |note: &&&'a str| parts(note).is_some_and(|(_, what, _)| groups.iter().any(|(it, _)| *it == what));
    let rest = notes.iter().filter(|note| !is_tabled(note)).copied().collect();
    if groups.is_empty() {
        return (String::new(), rest);
    }
    let mut text =
        "\n| without a bar | cells | median | least | | most | |\n|---|--:|--:|--:|---|--:|---|\n".to_owned();
    for (what, mut cells) in groups {
        cells.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        let median = value::median(cells.iter().map(|cell| cell.1).collect());
        let ((low, least), (high, most), n) = (cells[0], cells[cells.len() - 1], cells.len());
        let _ = writeln!(text, "| {what} | {n} | {median:.2} | {least:.2} | {low} | {most:.2} | {high} |");
    }
    (text, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPS: &str = "# command: c --record\n# machine: m x2\n# commit: abc\n# rayon 1.12.0\n\
        # windrow                loses  1, p90  0, cpu  0 of 2; worst x2.00 (b)\n# late\ncell,arm,ratio,cpu_by_serial,verdict\n\
        a,serial,1,1,ok\na,windrow,0.5,1,ok\nb,serial,1,1,ok\nb,windrow,2,1,LOSES+p90\n";
    const BARS: &str = "loops | slower | . windrow loses | <= 0 | never\n";
    const HARM: &str = "loops | loops | cell | windrow | serial | ratio\n";

    #[test]
    fn a_document_has_harm_verdicts_arms_and_notes() {
        let (records, text) = from(vec![Record::parse("loops", LOOPS)], BARS, HARM).unwrap();
        assert_eq!(value::evaluate("harm all worst + harm loops cells", &records, None), Ok(4.0));
        for part in [
            "| loops | 2 | 1 | 50.0 % | - | 1.250 | 2.000 | - | loops: b windrow |\n",
            "| [loops](#loops) | 0 | 1 | abc |\n",
            "\n## loops\n`c --record` on m x2\n\n| | bar | |\n|---|---|---|\n| slower: 1 | <= 0 (never) | **missed** |\n",
            "| windrow | 1.000 | 1 of 2 | 1 | 0 | 2.00 | b | 1.00 |\n- late\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn notes_of_many_cells_are_a_line_each() {
        let notes = ["a: x by y: x3.00 (1..4)", "b: x by y: x1.00", "c: x by y: x2.00", "a: z by y: x1.00", "a note"];
        let (text, rest) = by_cells(&notes);
        assert!(text.ends_with("| x by y | 3 | 2.00 | 1.00 | b | 3.00 | a |\n"), "{text}");
        assert_eq!(rest, ["a: z by y: x1.00", "a note"]);
    }

    /// Puts each of the three faults that the check is for into a sound set of records and documents.
    #[test]
    fn the_seeded_faults_fail() {
        let sound = || vec![Record::parse("loops", LOOPS)];
        let (records, text) = from(sound(), BARS, HARM).unwrap();
        assert_eq!(stale(&text, &text), None);
        let quoted = "It takes <!-- record: loops a windrow ratio -->0.5 of the serial time.\n";
        assert_eq!(figures::problems("README.md", quoted, &records), Vec::<String>::new());

        // A figure without a record.
        let problems = figures::problems("README.md", "\nIt takes 0.4 of the serial time.\n", &records);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("README.md:2: 0.4 is a figure without a record"), "{problems:?}");
        // A record without a verdict.
        let unjudged = [sound(), vec![Record::parse("long-line", "# commit: abc\na\n1\n")]].concat();
        let failure = from(unjudged, BARS, HARM).unwrap_err();
        assert!(failure.0.contains("record long-line is held to nothing"), "{failure}");
        // Records newer than RESULTS.md.
        let newer =
            from(vec![Record::parse("loops", &LOOPS.replace("b,windrow,2", "b,windrow,3"))], BARS, HARM).unwrap();
        assert!(
            stale(&text, &newer.1).is_some_and(|problem| problem.contains("RESULTS.md is not what the records say"))
        );
    }
}

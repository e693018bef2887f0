//! `bench/RESULTS.md`, made from the records, and the figures of the other documents.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::bars::{self, Verdict};
use crate::record::Record;
use crate::tools::read;
use crate::{figures, harm, sources, value};

const HEAD: &str = "# Results

Made from `bench/record` by `cargo xtask results --write`. The records hold the times of every repetition and the versions of the peers;
[crates/windrow-bench/README.md](../crates/windrow-bench/README.md) says how it is measured. Verdicts are computed from the records:
`bench/bars.txt` has the bars that the programs do not note themselves.

## Harm

The time of windrow divided by that of the plain code it stands in for: the serial loop, the better of a mutex and a `BTreeMap`, the product
that is not tiled, the engine called directly (`bench/harm.txt`). Below 1 windrow is faster. Where a command was recorded twice, the first
columns count the worse run of a cell, and \"in both runs\" the better one.

";

/// What the records say.
#[derive(Debug)]
pub struct Results {
    /// The records, with harm as the last one.
    records: Vec<Record>,
    /// `bench/RESULTS.md` as it must be.
    pub document: String,
}

impl Results {
    /// Reads the records, `bars.txt` and `harm.txt` of a folder `bench`.
    ///
    /// # Errors
    /// If a record cannot be read, is held to nothing, or lacks what a line of the two files is about.
    pub fn load(bench: &Path) -> Result<Results> {
        let records = Record::load_all(&bench.join("record"))?;
        Self::of(records, &read(&bench.join("bars.txt"))?, &read(&bench.join("harm.txt"))?)
    }

    fn of(mut records: Vec<Record>, bars: &str, harm: &str) -> Result<Results> {
        let verdicts = bars::verdicts(bars, &records)?;
        let harm = harm::table_of(harm, &records)?;
        let mut document = format!("{HEAD}{}", harm::markdown(&harm));
        document.push_str("\n## Verdicts\n\n| record | bars met | bars missed | commit |\n|---|--:|--:|---|\n");
        for (record, verdicts) in records.iter().zip(&verdicts) {
            let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
            let (name, missed, commit) = (&record.name, verdicts.len() - met, record.fact("commit"));
            let _ = writeln!(document, "| [{name}](#{name}) | {met} | {missed} | {commit} |");
        }
        records.iter().zip(&verdicts).for_each(|(record, verdicts)| document.push_str(&section(record, verdicts)));
        records.push(harm);
        Ok(Results { records, document })
    }

    /// The table of harm, as Markdown.
    pub fn harm(&self) -> String {
        self.records.last().map(harm::markdown).unwrap_or_default()
    }

    /// `docs/sources.md` as it must be: the figures of the source documents beside the records. `computed` is a table of values from formulas.
    ///
    /// # Errors
    /// If a line of `bench/sources.txt` has the wrong fields, or a value that no record has.
    pub fn sources(&self, file: &str, computed: &Record) -> Result<String> {
        sources::document(file, &self.records, computed)
    }

    /// The figures of a document that no record has, each with its place. Documents that are not checked have none.
    pub fn problems(&self, path: &str, text: &str) -> Vec<String> {
        if figures::is_checked(path) { figures::problems(path, text, &self.records) } else { Vec::new() }
    }
}

fn section(record: &Record, verdicts: &[Verdict]) -> String {
    let (command, machine) = (record.fact("command"), record.fact("machine"));
    let mut text = format!("\n## {}\n`{command}` on {machine}\n\n", record.name);
    text.push_str("| | bar | |\n|---|---|---|\n");
    for Verdict { what, bar, is_met } in verdicts {
        let _ = writeln!(text, "| {what} | {bar} | {} |", if *is_met { "met" } else { "**missed**" });
    }
    text.push_str(&arms(record).unwrap_or_default());
    // The table of arms replaces the programs' summaries.
    let is_summary = |note: &str| note.contains(" loses ") && note.contains("; worst x");
    let notes: Vec<&str> = record.notes().filter(|note| bars::noted(note).is_none() && !is_summary(note)).collect();
    let (tabled, rest) = by_cells(&notes);
    text.push_str(&tabled);
    // A list also ends a table, without an empty line.
    rest.iter().for_each(|note| text.push_str(&format!("- {note}\n")));
    text
}

/// A table of the arms that were compared with serial, if the record has such arms.
fn arms(record: &Record) -> Option<String> {
    let (arm, ratio) = (record.column("arm")?, record.column("ratio")?);
    let (cell, _) = (record.column("cell").unwrap_or(arm), record.column("verdict")?);
    let mut text = "\n| arm | geomean | slower than serial | p90 | cpu rule | worst | worst cell | cpu |\n\
                    |---|--:|--:|--:|--:|--:|---|--:|\n"
        .to_owned();
    let number = |row: &[String]| row[ratio].parse::<f64>().unwrap_or(f64::NAN);
    for (name, rows) in harm::grouped(record.rows.iter().map(|row| (&row[arm], row))) {
        if name == "serial" {
            continue;
        }
        let value = |field: &str| {
            let expression = format!(". '{name}' {field}");
            value::evaluate(&expression, std::slice::from_ref(record), Some(record)).unwrap_or(f64::NAN)
        };
        let worst = rows.iter().max_by(|a, b| number(a).total_cmp(&number(b)))?;
        let [mean, loses, p90, cpu, seconds] = ["geomean", "loses", "rule:p90", "rule:cpu", "cpu"].map(value);
        let (n, most, where_) = (rows.len(), number(worst), &worst[cell]);
        let _ = writeln!(
            text,
            "| {name} | {mean:.3} | {loses} of {n} | {p90} | {cpu} | {most:.2} | {where_} | {seconds:.2} |"
        );
    }
    Some(text)
}

/// Notes `CELL: WHAT: xRATIO ..` of at least three cells become one line for each WHAT. Also returns the other notes.
fn by_cells<'a>(notes: &[&'a str]) -> (String, Vec<&'a str>) {
    let parts = |note: &&'a str| {
        let (cell, (what, ratio)) =
            note.split_once(": ").and_then(|(cell, rest)| Some((cell, rest.split_once(": x")?)))?;
        Some((what, (ratio.split(' ').next()?.parse::<f64>().ok()?, cell)))
    };
    let mut groups = harm::grouped(notes.iter().filter_map(parts));
    groups.retain(|(_, cells)| cells.len() >= 3);
    let is_tabled = |note: &&&'a str| parts(note).is_some_and(|(what, _)| groups.iter().any(|(it, _)| *it == what));
    let rest = notes.iter().filter(|note| !is_tabled(note)).copied().collect();
    let head = "\n| without a bar | cells | median | least | | most | |\n|---|--:|--:|--:|---|--:|---|\n";
    let mut text = if groups.is_empty() { String::new() } else { head.to_owned() };
    for (what, mut cells) in groups {
        cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        let median = value::median(&cells.iter().map(|cell| cell.0).collect::<Vec<f64>>());
        let ((least, low), (most, high), n) = (cells[0], cells[cells.len() - 1], cells.len());
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
        let Results { records, document: text } = Results::of(vec![Record::parse("loops", LOOPS)], BARS, HARM).unwrap();
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
        let results = Results::of(sound(), BARS, HARM).unwrap();
        let quoted = "It takes <!-- record: loops a windrow ratio -->0.5 of the serial time.\n";
        assert_eq!(results.problems("README.md", quoted), Vec::<String>::new());

        // A figure without a record.
        let problems = results.problems("README.md", "\nIt takes 0.4 of the serial time.\n");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("README.md:2: 0.4 is a figure without a record"), "{problems:?}");
        // A record without a verdict.
        let unjudged = [sound(), vec![Record::parse("long-line", "# commit: abc\na\n1\n")]].concat();
        let failure = Results::of(unjudged, BARS, HARM).unwrap_err();
        assert!(failure.to_string().contains("record long-line is held to nothing"), "{failure}");
        // Records newer than RESULTS.md: xtask compares the two texts.
        let newer = Record::parse("loops", &LOOPS.replace("b,windrow,2", "b,windrow,3"));
        assert_ne!(Results::of(vec![newer], BARS, HARM).unwrap().document, results.document);
    }
}

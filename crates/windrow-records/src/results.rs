//! Results of the records: the blocks of the documents, and the files that are made of all records.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::bars::{self, Verdict};
use crate::blocks::{self, Blocks};
use crate::harm::{self, Run};
use crate::picture;
use crate::record::{Record, matches};
use crate::tools::read;
use crate::value::{evaluate, median};

const VERDICTS_HEAD: &str = "\
# Every bar and the value in its record: made from `bench/record` and `bench/bars.txt` by `cargo xtask results --write`.
# record | met or MISSED | what: value | bar
";

/// Results of all records.
#[derive(Debug)]
pub struct Results {
    /// Generated files: path and text.
    pub files: Vec<(&'static str, String)>,
    /// Listed cells that no record measures.
    pub problems: Vec<String>,
    blocks: Blocks,
    harm: Record,
}

impl Results {
    /// Reads the records and the text files of a folder `bench`.
    ///
    /// # Errors
    /// If a record cannot be read, is held to nothing, or lacks what a line of the text files is about.
    pub fn load(bench: &Path) -> Result<Results> {
        let text = |name: &str| read(&bench.join(name));
        let records = Record::load_all(&bench.join("record"))?;
        let cells = text("harm-cells.txt").unwrap_or_default();
        Self::of(records, &text("bars.txt")?, &text("harm.txt")?, &cells, &text("figures.txt")?)
    }

    fn of(mut records: Vec<Record>, bars: &str, harm: &str, cells: &str, figures: &str) -> Result<Results> {
        let verdicts = bars::verdicts(bars, &records)?;
        let runs = harm::runs(harm, &records)?;
        let (cells, problems) = harm::list(cells, &runs);
        let harm = harm::table_of(&runs);
        records.push(harm.clone());
        let (value, table) =
            (|it: &str| evaluate(it, &records, None), |line: &str| table(line, &records, &verdicts, &runs));
        let blocks = Blocks::render(figures, value, table)?;
        let picture = picture::svg(&records).map_err(|why| anyhow!("the picture: {why}"))?;
        let files = vec![
            ("bench/harm-cells.txt", cells),
            ("bench/verdicts.txt", verdict_file(&records, &verdicts)),
            // The book can show files of its folder only.
            ("book/src/img/harm.svg", picture.clone()),
            ("bench/harm.svg", picture),
        ];
        Ok(Results { files, problems, blocks, harm })
    }

    /// The table of harm, as Markdown.
    pub fn harm(&self) -> String {
        harm::markdown(&self.harm)
    }

    /// A document with its blocks as they must be, and the measured cells of its tables that no block has.
    ///
    /// # Errors
    /// If a block is unknown, or does not end.
    pub fn page(&self, path: &str, text: &str) -> Result<(String, Vec<String>)> {
        let page = self.blocks.fill(text).with_context(|| path.to_owned())?;
        let cells = if is_checked(path) { blocks::unrecorded(text) } else { Vec::new() };
        let problem = |(line, cell)| format!("{path}:{line}: {cell} is a figure without a record: bench/figures.txt");
        Ok((page, cells.into_iter().map(problem).collect()))
    }

    /// The blocks that none of the documents has.
    pub fn unused<'a>(&self, documents: impl Iterator<Item = &'a str>) -> Vec<String> {
        self.blocks.unused(documents)
    }
}

/// True if tables of this document must quote records: front pages and the book.
fn is_checked(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_readme = path.ends_with("/README.md") && folder.starts_with("crates/") && folder.matches('/').count() == 1;
    path == "README.md" || path == "bench/RESULTS.md" || folder.starts_with("book/src") || is_readme
}

fn verdict_file(records: &[Record], verdicts: &[Vec<Verdict>]) -> String {
    let mut text = VERDICTS_HEAD.to_owned();
    for (record, verdicts) in records.iter().zip(verdicts) {
        for Verdict { what, bar, is_met } in verdicts {
            let _ = writeln!(text, "{} | {} | {what} | {bar}", record.name, if *is_met { "met" } else { "MISSED" });
        }
    }
    text
}

/// The table of a line `@harm`, `@records PATTERN..` or `@worst COUNT GROUP; ..`.
fn table(line: &str, records: &[Record], verdicts: &[Vec<Verdict>], runs: &[Run]) -> Result<String, String> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let made = match kind {
        "@harm" => harm::markdown(&harm::table_of(runs)),
        "@records" => record_table(rest, records, verdicts),
        "@worst" => {
            let (count, groups) = rest.split_once(' ').ok_or("@worst COUNT GROUP; ..")?;
            let count = count.parse().map_err(|_| format!("{count} is not a number of cells"))?;
            worst(count, groups, runs)
        }
        _ => return Err(format!("{kind} is not a table: @harm, @records or @worst")),
    };
    if made.lines().count() < 3 {
        return Err(format!("nothing is called {rest}"));
    }
    Ok(made.trim_end().to_owned())
}

/// The records of the patterns that miss a bar, with two of those bars, and in the last line the others.
fn record_table(patterns: &str, records: &[Record], verdicts: &[Vec<Verdict>]) -> String {
    let mut text = "| record | commit | bars met | missed |\n|---|---|--:|---|\n".to_owned();
    let is_meant = |record: &Record| patterns.split_whitespace().any(|pattern| matches(pattern, &record.name));
    let mut sound = Vec::new();
    for (record, verdicts) in records.iter().zip(verdicts).filter(|(record, _)| is_meant(record)) {
        let missed = verdicts.iter().filter(|verdict| !verdict.is_met);
        let shown = |it: &Verdict| format!("{}, bar {}", it.what, it.bar.split(" (").next().unwrap_or(&it.bar));
        let missed: Vec<String> = missed.map(|it| shown(it).replace('|', "\\|")).collect();
        if missed.is_empty() {
            sound.push(record.name.as_str());
            continue;
        }
        let mut shown = missed[..missed.len().min(2)].join("; ");
        if missed.len() > 2 {
            shown.push_str(&format!("; and {} more", missed.len() - 2));
        }
        let (name, commit, met) = (&record.name, record.fact("commit"), verdicts.len() - missed.len());
        let _ = writeln!(text, "| {name} | {commit} | {met} of {} | {shown} |", verdicts.len());
    }
    if !sound.is_empty() {
        let _ = writeln!(text, "| {} | | all | |", sound.join(", "));
    }
    text
}

/// The cells of the groups with the largest harm, by their worst run.
fn worst(count: usize, groups: &str, runs: &[Run]) -> String {
    let mut text = "| worst cells | windrow's arm | relative to plain code |\n|---|---|--:|\n".to_owned();
    let is_meant = |group: &str| groups.split(';').any(|pattern| matches(pattern.trim(), group));
    let groups = harm::by_group(runs).into_iter().filter(|(group, _)| is_meant(group));
    let mut cells: Vec<(String, Vec<f64>)> = groups.flat_map(|(_, cells)| cells).collect();
    let most = |runs: &[f64]| runs.iter().copied().fold(0.0, f64::max);
    cells.sort_by(|a, b| most(&b.1).total_cmp(&most(&a.1)));
    for (name, runs) in cells.iter().take(count) {
        let (cell, arm) = name.rsplit_once(" | ").unwrap_or((name, ""));
        let twice = if runs.len() > 1 {
            format!(" (median of {1} runs: {0:.2})", median(runs), runs.len())
        } else {
            String::new()
        };
        let _ =
            writeln!(text, "| {} | {arm} | {:.2}{twice} |", cell.replace(" | -", "").replace(" | ", ", "), most(runs));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPS: &str = "# machine: m x2\n# commit: abc\n# late\ncell,arm,ratio,verdict\n\
        a,serial,1,ok\na,windrow,0.5,ok\nb,serial,1,ok\nb,windrow,2,LOSES+p90\n";
    const BARS: &str = "loops | cells | . windrow cells | <= 3 | goal\nloops | slower cells | . windrow loses | <= 0 | never\nloops | most | . windrow worst | <= 3 | goal\n\
        cells-warm-peers-1 | a | 1 | <= 3 | goal\n";
    const HARM: &str = "loops | loops | cell | windrow | serial | ratio\n";

    fn results(figures: &str) -> Result<Results> {
        let arms = "windrow\nrayon\nrayon-inside\nomp-static\nomp-llvm-static\ntbb-auto\n".replace('\n', ",1,ok\n");
        let picture = Record::parse("cells-warm-peers-1", &format!("arm,ratio,verdict\n{arms}"));
        Results::of(vec![Record::parse("loops", LOOPS), picture], BARS, HARM, "", figures)
    }

    #[test]
    fn blocks_have_harm_records_and_worst_cells() {
        let figures = "== h\n@harm\n== r\n@records loo*\n== w\n@worst 1 loop*\n== v\n| {0 harm all cells} |\n";
        let results = results(figures).unwrap();
        let page = |name: &str| results.page("a.md", &format!("<!-- figures: {name} -->\n<!-- end -->\n")).unwrap().0;
        assert!(page("h").contains("| loops | 2 | 1 | 50.0 % | - | 1.250 | 2.000 |\n"), "{}", page("h"));
        assert!(page("r").contains("\n| loops | abc | 2 of 3 | slower cells: 1, bar <= 0 |\n\n"), "{}", page("r"));
        assert!(page("w").contains("|--:|\n| loops, b | windrow | 2.00 |\n\n<"), "{}", page("w"));
        assert!(page("v").contains("| 2 |"), "{}", page("v"));
        let (_, verdicts) = &results.files[1];
        assert!(
            verdicts
                .contains("\nloops | MISSED | slower cells: 1 | <= 0 (never)\nloops | met | most: 2 | <= 3 (goal)\n"),
            "{verdicts}"
        );
    }

    /// The records of this repository are sound.
    #[test]
    fn the_records_of_this_repository_load() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
        let results = Results::load(&bench).unwrap();
        assert!(results.harm().contains("| all but cold |"));
    }
}

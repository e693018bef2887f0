//! `docs/sources.md`, made from `bench/sources.txt` and the records: the figures of the source documents, and what became of them.
//!
//! The file has lines of three kinds, with fields between `|`:
//!
//! * `== NUMBER | TITLE | ORIGIN | ITS MACHINES` begins a document,
//! * `= TABLE | CAPTION | UNIT | lower, higher or - | FIGURES | NOTE` begins a table, and says what is better and how many figures it has there,
//! * `WHAT | FIGURES | THEIRS | HERE | PEERS | WINDROW | BOUND` is a row, which stands for so many of these figures.
//!
//! THEIRS is text, or `A // B`. The others are expressions over records, as in bars; `A // B` is A, and its ratio to B behind it. PEERS are
//! `NAME: A // B; NAME: ..`, of which the best is shown. BOUND is `NAME: A`, without a ratio. Instead of an expression, WINDROW may be
//! `elsewhere: WHY`, `none: WHY`, `missing: WHAT` or `as: TABLE`. A dash is an empty field; where WINDROW is empty, HERE is the plain code.

use std::fmt::Write as _;

use anyhow::Result;

use crate::record::Record;
use crate::tools::{pattern, unless_empty};
use crate::value::evaluate;

const HEAD: &str = "# The source documents

<!-- given: theirs are the figures of the documents; the others are computed -->

Windrow was created from five documents. These tables have the tables and worked numbers of them: their figure, the same method on
the machine of the record, the best peer today, windrow, and the distance to a bound of what the machine can do.

Made from `bench/sources.txt` and `bench/record` by `cargo xtask sources --write`. Their figures are those of other machines, with other
numbers of threads: compare the ratios behind them, not the absolute values. The best peer is the best one of those that the record has,
chosen after the measurement. Where a note says `once`, a number was measured once and is no record. Settings, counts of tests and the
deviations of table 004.11 are not counted as figures. [bench/BIAS.md](../bench/BIAS.md) says how such tables mislead.

";

/// How a row came about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Recorded,
    Computed,
    Elsewhere,
    NoCounterpart,
    Missing,
}

const ORIGINS: [(Origin, &str); 5] = [
    (Origin::Recorded, "from records"),
    (Origin::Computed, "computed"),
    (Origin::Elsewhere, "not on this machine"),
    (Origin::NoCounterpart, "without a counterpart"),
    (Origin::Missing, "not recorded yet"),
];

/// The words that begin a field of windrow without a value, and what the document says there.
const WITHOUT_VALUE: [(&str, Origin, &str); 4] = [
    ("elsewhere: ", Origin::Elsewhere, "not run here: "),
    ("none: ", Origin::NoCounterpart, "no counterpart: "),
    ("missing: ", Origin::Missing, "not recorded yet: "),
    ("as: ", Origin::Recorded, "the same runs as table "),
];

#[derive(Clone, Debug, Default)]
struct Section {
    number: String,
    title: String,
    origin: String,
    machines: String,
    tables: Vec<SourceTable>,
}

#[derive(Clone, Debug, Default)]
struct SourceTable {
    name: String,
    caption: String,
    unit: String,
    /// `None`: neither is; then there is no best peer and no bound.
    lower_is_better: Option<bool>,
    /// Figures of the table in the document, and those of the rows so far.
    figures: (usize, usize),
    note: String,
    rows: Vec<[String; 6]>,
    /// The expressions of all rows, for the names of records in them.
    expressions: String,
    /// Figures by origin.
    counts: [usize; ORIGINS.len()],
}

/// The document, from the lines of `bench/sources.txt`. `computed` is a record that no program wrote: it was computed from formulas.
pub(crate) fn document(text: &str, records: &[Record], computed: &Record) -> Result<String> {
    let mut all = records.to_vec();
    all.push(computed.clone());
    let (mut sections, mut problems): (Vec<Section>, _) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Err(why) = add(line, &mut sections, &all, &computed.name) {
            problems.push(format!("{}: {why}", at + 1));
        }
    }
    for table in sections.iter().flat_map(|section| &section.tables).filter(|it| it.figures.0 != it.figures.1) {
        let (wanted, found) = table.figures;
        problems.push(format!("table {}: its rows stand for {found} figures, the document has {wanted}", table.name));
    }
    unless_empty("bench/sources.txt", &problems)?;
    let mut document = format!("{HEAD}{}", summary(&sections));
    sections.iter().for_each(|section| section.write(&mut document, records));
    Ok(document)
}

/// Adds a line to the last section and table.
fn add(line: &str, sections: &mut Vec<Section>, records: &[Record], computed: &str) -> Result<(), String> {
    let (kind, rest) = match (line.strip_prefix("== "), line.strip_prefix("= ")) {
        (Some(rest), _) => (4, rest),
        (_, Some(rest)) => (6, rest),
        _ => (7, line),
    };
    let fields: Vec<String> = rest.split('|').map(|field| field.trim().to_owned()).collect();
    if fields.len() != kind {
        return Err(format!("{kind} fields, separated by |, and not {}", fields.len()));
    }
    let mut fields = fields.into_iter();
    let mut next = || fields.next().unwrap_or_default();
    if kind == 4 {
        let (number, title, origin, machines) = (next(), next(), next(), next());
        sections.push(Section { number, title, origin, machines, tables: Vec::new() });
        return Ok(());
    }
    let section = sections.last_mut().ok_or("no document begins before this line")?;
    if kind == 6 {
        let (name, caption, unit, better, figures, note) = (next(), next(), next(), next(), next(), next());
        let lower_is_better = match better.as_str() {
            "lower" => Some(true),
            "higher" => Some(false),
            "-" => None,
            _ => return Err(format!("{better} is neither lower nor higher nor -")),
        };
        let figures = (figures.parse().map_err(|_| format!("{figures} is no number of figures"))?, 0);
        section.tables.push(SourceTable { name, caption, unit, lower_is_better, figures, note, ..Default::default() });
        return Ok(());
    }
    let table = section.tables.last_mut().ok_or("no table begins before this line")?;
    let row: Vec<String> = std::iter::from_fn(|| Some(next())).take(kind).collect();
    table.add(&row, records, computed)
}

impl SourceTable {
    fn add(&mut self, row: &[String], records: &[Record], computed: &str) -> Result<(), String> {
        let [what, figures, theirs, here, peers, windrow, bound] = row else { return Err("7 fields".to_owned()) };
        if self.lower_is_better.is_none() && (peers != "-" || bound != "-") {
            return Err("a peer or a bound, but neither lower nor higher is better".to_owned());
        }
        let figures: usize = figures.parse().map_err(|_| format!("{figures} is no number of figures"))?;
        let without =
            WITHOUT_VALUE.iter().find_map(|(word, origin, said)| Some((windrow.strip_prefix(word)?, origin, said)));
        let mut own = None;
        let (origin, shown) = match without {
            Some((why, origin, said)) => (*origin, format!("{said}{why}")),
            // The plain code that others are compared with.
            None if windrow == "-" && here != "-" => (Origin::Recorded, String::new()),
            None => {
                let value = Shown::of(windrow, records)?;
                own = Some(value.value);
                let is_computed = windrow.split(' ').any(|word| word == computed);
                (if is_computed { Origin::Computed } else { Origin::Recorded }, value.to_string())
            }
        };
        let here = Some(here).filter(|here| *here != "-").map(|here| Shown::of(here, records)).transpose()?;
        let peer = self.best(peers, records)?;
        let bound = match bound.split_once(": ") {
            None if bound == "-" => String::new(),
            None => return Err(format!("{bound} is no bound: NAME: EXPRESSION")),
            Some((name, expression)) => {
                let limit = evaluate(expression, records, None)?;
                let factor = own.map(|own| if self.lower_is_better == Some(true) { own / limit } else { limit / own });
                let factor = factor.map_or(String::new(), |factor| format!("x{} ", number(factor)));
                format!("{factor}({name}: {})", number(limit))
            }
        };
        let theirs = match theirs.as_str() {
            "-" => String::new(),
            ratio if ratio.contains(" // ") => Shown::of(ratio, records)?.to_string(),
            text => text.to_owned(),
        };
        let here = here.map_or(String::new(), |here| here.to_string());
        self.rows.push([what.clone(), theirs, here, peer, shown, bound]);
        row[3..].iter().for_each(|field| self.expressions.push_str(&format!("; {field} ")));
        self.figures.1 += figures;
        let at = ORIGINS.iter().position(|(known, _)| *known == origin).unwrap_or_default();
        self.counts[at] += figures;
        Ok(())
    }

    /// The best of the peers `NAME: A // B; NAME: ..`.
    fn best(&self, peers: &str, records: &[Record]) -> Result<String, String> {
        let mut best: Option<(&str, Shown)> = None;
        for peer in peers.split(';').map(str::trim).filter(|peer| *peer != "-") {
            let (name, value) = peer.split_once(": ").ok_or_else(|| format!("{peer} is no peer: NAME: EXPRESSION"))?;
            let shown = Shown::of(value, records)?;
            let is_better = |other: &Shown| self.lower_is_better == Some(shown.value < other.value);
            if best.as_ref().is_none_or(|(_, other)| is_better(other)) {
                best = Some((name, shown));
            }
        }
        Ok(best.map_or(String::new(), |(name, shown)| format!("{shown} {name}")))
    }
}

/// A value, and its ratio to another.
#[derive(Clone, Copy, Debug)]
struct Shown {
    value: f64,
    ratio: Option<f64>,
}

impl Shown {
    fn of(field: &str, records: &[Record]) -> Result<Shown, String> {
        let (value, base) = field.split_once(" // ").map_or((field, None), |(value, base)| (value, Some(base)));
        let value = evaluate(value, records, None)?;
        let ratio = base.map(|base| evaluate(base, records, None).map(|base| value / base)).transpose()?;
        Ok(Shown { value, ratio })
    }
}

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&number(self.value))?;
        self.ratio.map_or(Ok(()), |ratio| write!(f, " (x{})", number(ratio)))
    }
}

/// Three digits, more before the point; thousands are separated.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || (value.fract() == 0.0 && size > 0.0) => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.digits$}");
    let (whole, rest) =
        plain.split_once('.').map_or((plain.as_str(), ""), |_| plain.split_at(plain.find('.').unwrap_or(0)));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        let left = whole.len() - at;
        if at > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Figures by document and origin.
fn summary(sections: &[Section]) -> String {
    let mut text = String::from("| document | figures |");
    ORIGINS.iter().for_each(|(_, name)| text.push_str(&format!(" {name} |")));
    text.push_str("\n|---|--:|--:|--:|--:|--:|--:|\n");
    let mut all = [0; ORIGINS.len()];
    let mut line = |name: &str, counts: [usize; ORIGINS.len()]| {
        let counts: Vec<String> =
            std::iter::once(counts.iter().sum()).chain(counts).map(|count: usize| count.to_string()).collect();
        let _ = writeln!(text, "| {name} | {} |", counts.join(" | "));
    };
    for section in sections {
        let mut counts = [0; ORIGINS.len()];
        for table in &section.tables {
            (0..counts.len()).for_each(|at| counts[at] += table.counts[at]);
        }
        (0..all.len()).for_each(|at| all[at] += counts[at]);
        line(&format!("{}: {}", section.number, section.title), counts);
    }
    line("all", all);
    text
}

impl Section {
    fn write(&self, document: &mut String, records: &[Record]) {
        let _ = write!(document, "\n## {}: {}\n\n{}. {}.\n", self.number, self.title, self.origin, self.machines);
        for table in &self.tables {
            table.write(document, records);
        }
    }
}

impl SourceTable {
    fn write(&self, document: &mut String, records: &[Record]) {
        let better = match self.lower_is_better {
            Some(true) => "; less is better",
            Some(false) => "; more is better",
            None => "",
        };
        let note = if self.note == "-" { String::new() } else { format!(" {}", self.note) };
        let _ = write!(document, "\n### {} {}\n\nIn {}{better}.{note}\n\n", self.name, self.caption, self.unit);
        // Columns without an entry are left out.
        let heads = ["", "theirs", "the same here", "best peer", "windrow", "by the bound"];
        let kept: Vec<usize> = (0..heads.len())
            .filter(|&at| at == 0 || at == 4 || self.rows.iter().any(|row| !row[at].is_empty()))
            .collect();
        let joined = |of: &dyn Fn(usize) -> String| kept.iter().map(|&at| of(at)).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(document, "| {} |", joined(&|at| heads[at].to_owned()));
        let _ = writeln!(
            document,
            "|{}|",
            kept.iter().map(|&at| if at == 0 { "---" } else { "--:" }).collect::<Vec<_>>().join("|")
        );
        for row in &self.rows {
            let _ = writeln!(document, "| {} |", joined(&|at| row[at].clone()));
        }
        // The name of a record begins a term; elsewhere the word selects rows.
        let is_named = |name: &str| pattern(&format!(r"(?:^|[-+*/:;] ){name} ")).is_match(&self.expressions);
        let link = |record: &Record| {
            let (name, commit, machine) = (&record.name, record.fact("commit"), record.fact("machine"));
            format!("[{name}](../bench/RESULTS.md#{name}) ({machine}, {commit})")
        };
        let named: Vec<String> = records.iter().filter(|record| is_named(&record.name)).map(link).collect();
        if !named.is_empty() {
            let _ = writeln!(document, "\nRecords: {}.", named.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, String> {
        let text = format!("== 009 | A title | of a journal | Four CPUs\n{text}");
        let record = Record::parse(
            "loops",
            "# machine: m x2\n# commit: abc\narm,ns\nserial,100\nwindrow,52\nrayon,60\nslow,90\n",
        );
        let computed = Record::parse("formula", "what,value\nbest,3\n");
        // A record with the name of an arm, which is named by no expression.
        let other = Record::parse("rayon", "arm,ns\nrayon,1\n");
        document(&text, &[record, other], &computed).map_err(|error| error.to_string())
    }

    const TABLE: &str = "= 009.1 | Times | ns | lower | 4 | Small.\n";

    #[test]
    fn a_table_has_theirs_the_best_peer_windrow_and_the_bound() {
        let text = made(&format!(
            "# comment\n{TABLE}a | 3 | 9 // 18 | loops serial ns | slow: loops slow ns // loops serial ns; rayon: loops rayon ns // loops serial ns | \
             loops windrow ns // loops serial ns | half: loops serial ns / 2\nb | 1 | - | - | - | formula best value | -\n"
        ))
        .unwrap();
        for part in [
            "| document | figures | from records | computed |",
            "| 009: A title | 4 | 3 | 1 | 0 | 0 | 0 |\n| all | 4 | 3 | 1 | 0 | 0 | 0 |\n",
            "\n## 009: A title\n\nof a journal. Four CPUs.\n\n### 009.1 Times\n\nIn ns; less is better. Small.\n\n",
            "|  | theirs | the same here | best peer | windrow | by the bound |\n|---|--:|--:|--:|--:|--:|\n",
            "| a | 9 (x0.500) | 100 | 60 (x0.600) rayon | 52 (x0.520) | x1.04 (half: 50) |\n",
            "| b |  |  |  | 3 |  |\n\nRecords: [loops](../bench/RESULTS.md#loops) (m x2, abc).\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn more_may_be_better() {
        let table = TABLE.replace("lower", "higher");
        let text = made(&format!("{table}a | 4 | - | - | x: 1; y: 3; z: 2 | 4 | both: 10\n")).unwrap();
        assert!(text.contains("| a | 3 y | 4 | x2.50 (both: 10) |"), "{text}");
    }

    #[test]
    fn neither_may_be_better() {
        let table = TABLE.replace("lower", "-");
        let text = made(&format!("{table}a | 4 | 7 | - | - | loops windrow ns | -\n")).unwrap();
        assert!(text.contains("\n\nIn ns. Small.\n\n") && text.contains("| a | 7 | 52 |\n"), "{text}");
    }

    #[test]
    fn what_has_no_value_says_why() {
        let text = made(&format!(
            "{TABLE}a | 1 | 5 | - | - | elsewhere: needs 8 CPUs | -\nb | 1 | - | - | - | missing: cargo run x | -\n\
             c | 1 | - | - | - | none: no deque | -\nd | 1 | - | - | - | as: 009.3 | half: 2\n"
        ))
        .unwrap();
        for part in [
            "| 009: A title | 4 | 1 | 0 | 1 | 1 | 1 |",
            "| a | 5 | not run here: needs 8 CPUs |  |\n",
            "| b |  | not recorded yet: cargo run x |  |\n",
            "| c |  | no counterpart: no deque |  |\n",
            "| d |  | the same runs as table 009.3 | (half: 2) |\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn faults_of_the_file_name_their_line() {
        for (lines, message) in [
            ("a | 1\n", "2: 7 fields, separated by |, and not 2"),
            ("a | 1 | - | - | - | 1 | -\n", "2: no table begins before this line"),
            ("= 1 | a | ns | less | 1 | -\n", "2: less is neither lower nor higher nor -"),
            (
                "= 1 | a | ns | - | 1 | -\na | 1 | - | - | rayon: 1 | 1 | -\n",
                "3: a peer or a bound, but neither lower nor higher is better",
            ),
            (
                "= 1 | a | ns | lower | 2 | -\na | 1 | - | - | - | 1 | -\n",
                "table 1: its rows stand for 1 figures, the document has 2",
            ),
            ("= 1 | a | ns | lower | 1 | -\na | 1 | - | - | - | joins x ns | -\n", "3: no record is called joins"),
            ("= 1 | a | ns | lower | 1 | -\na | 1 | - | - | rayon | 1 | -\n", "3: rayon is no peer"),
            ("= 1 | a | ns | lower | 1 | -\na | 1 | - | - | - | 1 | half\n", "3: half is no bound"),
            ("= 1 | a | ns | lower | 1 | -\na | x | - | - | - | 1 | -\n", "3: x is no number of figures"),
        ] {
            let error = made(lines).unwrap_err();
            assert!(error.contains(message), "{lines}: {error}");
        }
    }

    #[test]
    fn numbers_have_three_digits_and_groups() {
        let shown = [0.0, 0.1234, 1.234, 12.34, 123.4, 4.0, 1234.5, 1_234_567.0, -123_456.0].map(number);
        assert_eq!(shown, ["0.00", "0.123", "1.23", "12.3", "123", "4", "1,234", "1,234,567", "-123,456"]);
    }
}

//! What moved between two records of one command: value by value, relative to an arm that both runs have.
//!
//! Times do not travel from one machine to another, or from one day to the next. The ratio of two arms that took turns does. So a value is the
//! ratio of an arm to the reference arm of its cell, and the raw value only where a cell has no reference.

use std::collections::BTreeMap;

use crate::bars::{self, Verdict};
use crate::record::Record;
use crate::tools::pattern;
use crate::value::median;

/// The columns that name what is measured.
const ARMS: [&str; 7] = ["arm", "runtime", "barrier", "way", "cut", "method", "mode"];

/// The columns that name a cell.
const CELLS: [&str; 27] = [
    "cell",
    "case",
    "size",
    "table",
    "workload",
    "input",
    "parts",
    "gap_us",
    "journal",
    "callers",
    "number",
    "fixed_us",
    "each_us",
    "pipeline",
    "write over encode",
    "structure",
    "limit",
    "operation",
    "m",
    "n",
    "k",
    "rate",
    "turns",
    "items",
    "threads",
    "runs",
    "run",
];

/// The columns that name a cell of a record without any of those above, or beside them.
const MORE_CELLS: [&str; 3] = ["every_round_shown", "budget", "bytes"];

/// The measured columns of records that have no column with all repetitions.
const MEASURES: [&str; 29] = [
    "nanoseconds",
    "median_ns",
    "milliseconds",
    "cold_ns",
    "warm_ns",
    "first_ns",
    "p50_ns",
    "p99_ns",
    "took_ns",
    "encoding_ns",
    "ns_per_text",
    "p50_ms",
    "p99_ms",
    "calls_per_second",
    "overlapped s",
    "by hand s",
    "peak_kib",
    "vm_rss_kib",
    "VmRSS",
    "share",
    "harm",
    "regret",
    "batches",
    "after_by_before",
    "measured",
    "locked",
    "hangs",
    "differences",
    "differing",
];

/// What other arms are compared with, the first one that a cell has: plain code, then a peer.
const REFERENCES: [&str; 18] = [
    "serial",
    "bare",
    "lines",
    "spin",
    "btree",
    "std mutex",
    "one after the other",
    "one transaction an insert",
    "mutex",
    "ideal",
    "engine in memory (1 thread)",
    "engine",
    "system allocator",
    "system",
    "none",
    "rayon",
    "fastokens",
    "tokenizers",
];

/// A value in two records.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The fields that name its cell.
    pub cell: String,
    /// The arm.
    pub arm: String,
    /// The measured column.
    pub measure: String,
    /// The arm that it is divided by; none for a raw value.
    pub reference: Option<String>,
    /// The value before.
    pub before: f64,
    /// The value now.
    pub after: f64,
    /// By which factor the two may differ by chance: half of the range from the 10th to the 90th percentile, of both.
    pub spread: f64,
}

impl Change {
    /// The value now by the value before. The same values, zeros too, give 1.
    pub fn factor(&self) -> f64 {
        if self.after == self.before { 1.0 } else { self.after / self.before }
    }

    /// The distance of the factor from 1, the same for a half and for a double.
    fn distance(&self) -> f64 {
        self.factor().abs().ln().abs()
    }

    /// Whether the value changed by more than the share `by`, and by more than the spread.
    pub fn has_moved(&self, by: f64) -> bool {
        self.distance() > (1.0 + by).max(self.spread).ln()
    }
}

/// A value that only one of two records has.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpaired {
    /// The fields that name its cell, and the measured column.
    pub value: String,
    /// The arm.
    pub arm: String,
    /// Whether the later record has it.
    pub is_new: bool,
}

/// Two records, compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rerun {
    /// Values that both records have, the largest change first.
    pub changes: Vec<Change>,
    /// Values that only one of the records has.
    pub unpaired: Vec<Unpaired>,
}

/// Values of one arm in one cell: of each repetition, or one value and its interval.
#[derive(Clone, Debug, Default)]
struct Samples {
    values: Vec<f64>,
    /// The ends of the interval of a value, if the record has no repetitions.
    interval: Option<(f64, f64)>,
}

impl Samples {
    /// By which factor a value may be off: the square root of the 90th percentile by the 10th.
    fn spread(&self) -> f64 {
        let (low, high) = self.interval.unwrap_or_else(|| (quantile(&self.values, 0.1), quantile(&self.values, 0.9)));
        if low > 0.0 && high >= low { (high / low).sqrt() } else { 1.0 }
    }

    /// These values by those of the reference: repetition by repetition where both have as many.
    fn by(&self, reference: &Samples) -> (f64, f64) {
        if self.values.len() == reference.values.len() && self.values.len() > 1 {
            let values = self.values.iter().zip(&reference.values).map(|(own, other)| own / other).collect();
            let ratios = Samples { values, interval: None };
            return (median(&ratios.values), ratios.spread());
        }
        (median(&self.values) / median(&reference.values), self.spread() * reference.spread())
    }
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Samples by measured column, cell and arm.
type Table = BTreeMap<(String, String), BTreeMap<String, Samples>>;

fn samples(record: &Record) -> Result<Table, String> {
    let present = |names: &[&str]| names.iter().filter_map(|name| record.column(name)).collect::<Vec<usize>>();
    let mut cells = present(&CELLS);
    cells.extend(present(&MORE_CELLS[..2]));
    if cells.is_empty() {
        cells = present(&MORE_CELLS);
    }
    let arm = present(&ARMS).first().copied();
    let is_repeated = |name: &str| name.ends_with("_of_each_repetition") || name.ends_with("_of_each");
    let mut measures: Vec<usize> =
        (0..record.columns.len()).filter(|&column| is_repeated(&record.columns[column])).collect();
    if measures.is_empty() {
        measures = present(&MEASURES);
    }
    if measures.is_empty() {
        return Err(format!("{} has no column that can be compared: {}", record.name, record.columns.join(",")));
    }
    let interval =
        record.column("low95").zip(record.column("high95")).filter(|_| record.column("repetition").is_none());
    let mut table = Table::new();
    for row in &record.rows {
        let cell = cells.iter().map(|&at| row[at].as_str()).collect::<Vec<_>>().join(" ");
        let arm = arm.map_or("-", |at| &row[at]);
        for &measure in &measures {
            let values: Vec<f64> = row[measure].split_whitespace().filter_map(|field| field.parse().ok()).collect();
            if !values.is_empty() {
                let key = (record.columns[measure].clone(), cell.clone());
                let samples = table.entry(key).or_default().entry(arm.to_owned()).or_default();
                samples.values.extend(values);
                let ends = interval.and_then(|(low, high)| Some((row[low].parse().ok()?, row[high].parse().ok()?)));
                samples.interval = ends.filter(|_| samples.values.len() == 1);
            }
        }
    }
    Ok(table)
}

impl Rerun {
    /// Compares a record with a later one of the same command.
    ///
    /// # Errors
    /// If a record has no column that can be compared.
    pub fn of(before: &Record, after: &Record) -> Result<Rerun, String> {
        let (before, after) = (samples(before)?, samples(after)?);
        let mut rerun = Rerun::default();
        let keys = |table: &Table| -> Vec<(String, String, String)> {
            let arms = |(key, arms): (&(String, String), &BTreeMap<String, Samples>)| {
                arms.keys().map(|arm| (key.0.clone(), key.1.clone(), arm.clone())).collect::<Vec<_>>()
            };
            table.iter().flat_map(arms).collect()
        };
        for (measure, cell, arm) in keys(&after) {
            if before.get(&(measure.clone(), cell.clone())).is_none_or(|arms| !arms.contains_key(&arm)) {
                rerun.unpaired.push(Unpaired { value: format!("{cell} {measure}"), arm, is_new: true });
            }
        }
        for (measure, cell, arm) in keys(&before) {
            let key = (measure.clone(), cell.clone());
            let old = &before[&key];
            let Some((new, now)) = after.get(&key).and_then(|new| Some((new, new.get(&arm)?))) else {
                rerun.unpaired.push(Unpaired { value: format!("{cell} {measure}"), arm, is_new: false });
                continue;
            };
            // A reference that reads zero divides nothing.
            let divides = |arms: &BTreeMap<String, Samples>, name: &str| {
                arms.get(name).is_some_and(|samples| samples.values.iter().all(|value| *value > 0.0))
            };
            let reference = REFERENCES.into_iter().find(|name| divides(old, name) && divides(new, name));
            let (before, after, spread) = match reference {
                Some(reference) if reference == arm => continue,
                Some(reference) => {
                    let (old, new) = (old[&arm].by(&old[reference]), now.by(&new[reference]));
                    (old.0, new.0, old.1 * new.1)
                }
                None => (median(&old[&arm].values), median(&now.values), old[&arm].spread() * now.spread()),
            };
            let reference = reference.map(str::to_owned);
            rerun.changes.push(Change { cell, arm, measure, reference, before, after, spread });
        }
        rerun.changes.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        Ok(rerun)
    }

    /// Several runs as one: of each value the run that is closest to the record. A value has moved if it did so in every run.
    pub fn closest(runs: Vec<Rerun>) -> Rerun {
        let mut runs = runs.into_iter();
        let mut all = runs.next().unwrap_or_default();
        for run in runs {
            for change in &mut all.changes {
                let named =
                    |it: &&Change| (&it.cell, &it.arm, &it.measure) == (&change.cell, &change.arm, &change.measure);
                if let Some(other) = run.changes.iter().find(named).filter(|it| it.distance() < change.distance()) {
                    *change = other.clone();
                }
            }
            all.unpaired.retain(|name| run.unpaired.contains(name));
        }
        all.changes.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        all
    }
}

/// The bars of a record, held against later runs of its command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChanges {
    /// How many bars the record meets.
    pub met: usize,
    /// Those of them that every later run misses.
    pub missed: Vec<String>,
    /// Those of them for which a later run has no value: it lacks an arm, for example.
    pub unjudged: Vec<String>,
}

impl BarChanges {
    /// Compares the verdicts of the record that has the name of the runs with those of the runs.
    ///
    /// # Errors
    /// If a line of the bars has not five fields.
    pub fn of(bars: &str, records: &[Record], runs: &[Record]) -> anyhow::Result<BarChanges> {
        let bars = bars::table::<5>(bars)?;
        let name = runs.first().map_or("", |run| &run.name);
        let Some(at) = records.iter().position(|record| record.name == name) else { return Ok(BarChanges::default()) };
        let mut records = records.to_vec();
        let mut before = bars::verdicts_of(&bars, &records, &records[at]).0;
        before.retain(|verdict| verdict.is_met);
        let mut after: Vec<Vec<Verdict>> = Vec::new();
        for run in runs {
            records[at] = run.clone();
            after.push(bars::verdicts_of(&bars, &records, run).0);
        }
        let mut changes = BarChanges { met: before.len(), ..BarChanges::default() };
        for old in &before {
            let found: Vec<&Verdict> =
                after.iter().filter_map(|run| run.iter().find(|verdict| is_same(old, verdict))).collect();
            match found.last() {
                Some(last) if found.iter().all(|verdict| !verdict.is_met) => {
                    changes.missed.push(format!("{}, bar {}; the record has {}", last.what, old.bar, old.what));
                }
                Some(_) => {}
                None => changes.unjudged.push(format!("{}, bar {}", old.what, old.bar)),
            }
        }
        Ok(changes)
    }
}

/// Whether two verdicts are of one bar. The values in their texts differ.
fn is_same(one: &Verdict, other: &Verdict) -> bool {
    let form = |verdict: &Verdict| pattern(r"-?\d[\d.]*").replace_all(&verdict.what, "#").into_owned();
    form(one) == form(other) && one.bar == other.bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        Record::parse("r", text)
    }

    fn rerun(before: &str, after: &str) -> Rerun {
        Rerun::of(&record(before), &record(after)).unwrap()
    }

    /// The values whose change exceeds a tenth and the spread.
    fn moved(before: &str, after: &str) -> Vec<String> {
        let rerun = rerun(before, after);
        let moved = rerun.changes.iter().filter(|change| change.has_moved(0.1));
        moved.map(|it| format!("{} {} {:.2}", it.cell, it.arm, it.factor())).collect()
    }

    #[test]
    fn values_are_ratios_to_the_reference_of_their_cell() {
        let before =
            "cell,arm,repetition,nanoseconds\na,serial,0,100\na,serial,1,200\na,windrow,0,50\na,windrow,1,100\n";
        // A machine of half the speed changes nothing.
        let slower =
            "cell,arm,repetition,nanoseconds\na,serial,0,200\na,serial,1,400\na,windrow,0,100\na,windrow,1,200\n";
        let same = rerun(before, slower);
        assert_eq!(same.changes.len(), 1, "the reference is no value");
        assert_eq!(same.changes[0].reference.as_deref(), Some("serial"));
        assert_eq!((same.changes[0].before, same.changes[0].factor(), same.changes[0].spread), (0.5, 1.0, 1.0));
        let worse = before.replace("windrow,0,50", "windrow,0,75").replace("windrow,1,100", "windrow,1,150");
        assert_eq!(moved(before, &worse), ["a windrow 1.50"]);
    }

    #[test]
    fn without_a_reference_the_raw_value_counts() {
        let (before, after) = ("method,p99_ms\nencode,20\n", "method,p99_ms\nencode,40\n");
        assert_eq!(rerun(before, after).changes[0].reference, None);
        assert_eq!(moved(before, after), [" encode 2.00"]);
        assert_eq!(moved(before, "method,p99_ms\nencode,21\n"), Vec::<String>::new());
    }

    #[test]
    fn a_change_within_the_spread_of_both_is_none() {
        let of =
            |own: &str| format!("cell,arm,median_ns,ns_of_each_repetition\na,serial,1,10 10 10\na,windrow,1,{own}\n");
        assert_eq!(moved(&of("5 6 5"), &of("8 8 8")), ["a windrow 1.60"]);
        assert_eq!(moved(&of("4 6 16"), &of("8 8 8")), Vec::<String>::new());
        // The spread of the second run counts too.
        assert_eq!(moved(&of("5 5 5"), &of("4 8 16")), Vec::<String>::new());
    }

    #[test]
    fn an_interval_stands_for_repetitions() {
        let of = |low: u32, median: u32, high: u32| {
            format!(
                "parts,gap_us,runtime,median_ns,low95,high95\nMeet,0,bare,100,100,100\nMeet,0,windrow,{median},{low},{high}\n"
            )
        };
        assert_eq!(moved(&of(100, 100, 100), &of(150, 150, 150)), ["Meet 0 windrow 1.50"]);
        assert_eq!(moved(&of(50, 100, 200), &of(150, 150, 150)), Vec::<String>::new());
    }

    #[test]
    fn the_largest_change_comes_first_and_halves_count_like_doubles() {
        let of = |values: [u32; 3]| {
            let [a, b, c] = values;
            format!("cell,arm,repetition,nanoseconds\na,x,0,{a}\nb,x,0,{b}\nc,x,0,{c}\n")
        };
        assert_eq!(moved(&of([100, 100, 100]), &of([130, 40, 101])), ["b x 0.40", "a x 1.30"]);
    }

    #[test]
    fn zeros_are_equal_or_infinitely_far() {
        let of = |hangs: u32| format!("mode,hangs\nafter,{hangs}\n");
        assert_eq!(moved(&of(0), &of(0)), Vec::<String>::new());
        assert_eq!(moved(&of(0), &of(3)), [" after inf"]);
    }

    #[test]
    fn what_only_one_record_has_is_named() {
        let found = rerun("cell,arm,nanoseconds\na,x,1\na,y,1\n", "cell,arm,nanoseconds\na,x,1\nb,x,1\n");
        let unpaired: Vec<(&str, &str, bool)> =
            found.unpaired.iter().map(|it| (it.value.as_str(), it.arm.as_str(), it.is_new)).collect();
        assert_eq!(unpaired, [("b nanoseconds", "x", true), ("a nanoseconds", "y", false)]);
        assert_eq!(found.changes.len(), 1);
        let error = Rerun::of(&record("a,b\n1,2\n"), &record("a,b\n1,2\n")).unwrap_err();
        assert_eq!(error, "r has no column that can be compared: a,b");
    }

    #[test]
    fn several_runs_count_where_all_of_them_moved() {
        let of = |x: u32, y: u32| format!("cell,arm,nanoseconds\na,x,{x}\na,y,{y}\n");
        let run = |x, y| rerun(&of(100, 100), &of(x, y));
        let closest = Rerun::closest(vec![run(200, 300), run(102, 250)]);
        let moved: Vec<&str> =
            closest.changes.iter().filter(|change| change.has_moved(0.1)).map(|it| it.arm.as_str()).collect();
        assert_eq!(moved, ["y"]);
        assert_eq!(closest.changes[0].after, 250.0);
    }

    #[test]
    fn a_bar_counts_if_it_was_met_and_every_run_misses_it() {
        let of = |ns: u32, note: &str| record(&format!("# a: x{note} rows/s, bar >= 10 met\narm,ns\nwindrow,{ns}\n"));
        let bars = "r | time | . windrow ns | <= 11 | goal\nr | never met | . windrow ns | <= 1 | goal\n";
        let of_runs = |runs: &[Record]| BarChanges::of(bars, &[of(10, "12.5")], runs).unwrap();
        let missed = |runs: &[Record]| of_runs(runs).missed;
        assert_eq!(of_runs(&[of(11, "13")]), BarChanges { met: 2, ..BarChanges::default() });
        assert_eq!(missed(&[of(12, "11.25")]), ["time: 12, bar <= 11 (goal); the record has time: 10"]);
        assert_eq!(missed(&[of(12, "11"), of(11, "11")]), Vec::<String>::new());
        // A bar that a program noted.
        let now = record("# a: x9.5 rows/s, bar >= 10 missed\narm,ns\nwindrow,10\n");
        assert_eq!(missed(&[now]), ["a: x9.5 rows/s, bar >= 10; the record has a: x12.5 rows/s"]);
        // A run without the arm is no failure.
        let without = record("# a: x11 rows/s, bar >= 10 met\narm,ns\nrayon,10\n");
        let changes = of_runs(&[without]);
        assert_eq!((changes.missed, changes.unjudged), (Vec::new(), vec!["time: 10, bar <= 11 (goal)".to_owned()]));
    }
}

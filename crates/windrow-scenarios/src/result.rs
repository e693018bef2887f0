//! The result of a run: the object that `--json` writes, and that the table and the page show.

use std::time::SystemTime;

use serde::Serialize;

use crate::BenchSettings;
use crate::stats::{Ratio, Regret, Spread, median};

/// A ratio above this one counts as a loss if both halves of the repetitions show it.
pub(crate) const LOSS: f64 = 1.05;
/// A regret above this one is listed if both halves of the repetitions show it.
pub(crate) const REGRET: f64 = 1.25;

/// The groups of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScenarioGroup {
    /// Independent items and recursion.
    Loops,
    /// Rounds in lockstep.
    Rounds,
    /// Many callers, one resource.
    Batch,
    /// A link in addition to the CPU.
    Overlap,
    /// Text to token ids.
    Encode,
}

impl ScenarioGroup {
    /// All groups, in their order.
    pub const ALL: [Self; 5] = [Self::Loops, Self::Rounds, Self::Batch, Self::Overlap, Self::Encode];

    /// The name of the group on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ScenarioGroup::Loops => "loops",
            ScenarioGroup::Rounds => "rounds",
            ScenarioGroup::Batch => "batch",
            ScenarioGroup::Overlap => "overlap",
            ScenarioGroup::Encode => "encode",
        }
    }
}

/// The unit to which a time belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Call,
    Round,
    Operation,
}

impl Unit {
    pub(crate) fn one(self) -> &'static str {
        match self {
            Unit::Call => "a call",
            Unit::Round => "a round",
            Unit::Operation => "an operation",
        }
    }
}

/// A choice by hand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Fixed {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Median.
    pub(crate) nanos: f64,
}

/// One scenario of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    pub(crate) shape: ScenarioGroup,
    pub(crate) name: String,
    /// Cells of one family differ in their size.
    pub(crate) family: String,
    pub(crate) size: f64,
    /// The unit to which the times belong.
    pub(crate) unit: Unit,
    /// Every call comes after a pause.
    pub(crate) cold: bool,
    /// Times in nanoseconds.
    pub(crate) serial: Spread,
    pub(crate) windrow: Spread,
    /// windrow relative to the plain code.
    pub(crate) harm: Ratio,
    /// The plain code relative to itself.
    pub(crate) control: Ratio,
    /// windrow relative to the best choice by hand.
    pub(crate) regret: Option<Regret>,
    /// The best choice by hand.
    pub(crate) best: Option<String>,
    /// The least time that is possible, relative to the plain code.
    pub(crate) bound: Option<f64>,
    /// windrow relative to rayon, if that is measured.
    pub(crate) by_rayon: Option<Ratio>,
    /// windrow was faster than possible: the measurement is wrong.
    pub(crate) beats_bound: bool,
    pub(crate) sweep_by: &'static str,
    pub(crate) sweep: Vec<Fixed>,
    pub(crate) repetitions: usize,
    pub(crate) calls: usize,
    /// windrow's decision, and its reason.
    pub(crate) why: String,
}

impl Cell {
    pub(crate) fn loses(&self) -> bool {
        self.harm.confirmed() > LOSS
    }

    pub(crate) fn wins(&self) -> bool {
        self.harm.confirmed_gain() < 1.0 / LOSS
    }

    pub(crate) fn regrets(&self) -> bool {
        self.regret.is_some_and(|regret| regret.confirmed() > REGRET)
    }

    /// The shape and the name.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.shape.name(), self.name)
    }
}

/// The times of each tile in each lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Timeline {
    /// The cell.
    pub(crate) cell: String,
    /// The arm.
    pub(crate) arm: String,
    pub(crate) lanes: Vec<Lane>,
    /// The end of the run in nanoseconds.
    pub(crate) end: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// Start and end of each tile in nanoseconds.
    pub(crate) tiles: Vec<(f64, f64)>,
}

/// The cells of a shape in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) shape: ScenarioGroup,
    pub(crate) cells: usize,
    /// Cells that lose to the plain code in both halves.
    pub(crate) lost: usize,
    pub(crate) harm_median: f64,
    /// The largest loss that both halves show, and its cell.
    pub(crate) harm_worst: f64,
    pub(crate) harm_worst_cell: String,
    /// The largest loss of the plain code against itself: the effect of noise.
    pub(crate) control_worst: f64,
    pub(crate) regret_median: Option<f64>,
    pub(crate) regret_worst: Option<f64>,
    pub(crate) regret_worst_cell: Option<String>,
    /// The median of the time relative to the physical bound, where there is one.
    pub(crate) bound_median: Option<f64>,
    /// The median of the time relative to rayon, where that is measured.
    pub(crate) rayon_median: Option<f64>,
}

impl Summary {
    /// `None` without cells.
    fn of(shape: ScenarioGroup, cells: &[&Cell]) -> Option<Self> {
        let worst = |score: &dyn Fn(&Cell) -> f64| {
            cells.iter().max_by(|one, other| score(one).total_cmp(&score(other))).copied()
        };
        let harm = worst(&|cell| cell.harm.confirmed())?;
        let control = worst(&|cell| cell.control.confirmed())?;
        let regrets: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.regret?.value)).collect();
        let confirmed = |cell: &Cell| cell.regret.map_or(f64::NEG_INFINITY, |regret| regret.confirmed());
        let regret = worst(&confirmed).filter(|_| !regrets.is_empty());
        let bounds: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.harm.value / cell.bound?)).collect();
        let rayon: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.by_rayon?.value)).collect();
        Some(Self {
            shape,
            cells: cells.len(),
            lost: cells.iter().filter(|cell| cell.loses()).count(),
            harm_median: median(&cells.iter().map(|cell| cell.harm.value).collect::<Vec<_>>()),
            harm_worst: harm.harm.confirmed(),
            harm_worst_cell: harm.name.clone(),
            control_worst: control.control.confirmed(),
            regret_median: regret.map(|_| median(&regrets)),
            regret_worst: regret.map(confirmed),
            regret_worst_cell: regret.map(|cell| cell.name.clone()),
            bound_median: (!bounds.is_empty()).then(|| median(&bounds)),
            rayon_median: (!rayon.is_empty()).then(|| median(&rayon)),
        })
    }
}

/// The load of the machine, as the system counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BenchLoad {
    /// Before the first cell.
    pub before: Option<f64>,
    /// After the last one.
    pub after: Option<f64>,
    /// Reason to doubt the results, if other programs kept the CPUs busy.
    pub note: Option<String>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BenchReport {
    schema: u32,
    /// Version of the command.
    pub version: String,
    /// The commit that the program was built from, where the build knew it.
    pub commit: Option<String>,
    /// UTC.
    pub(crate) date: String,
    /// The command line, as it can be typed.
    pub command: String,
    pub(crate) machine: String,
    pub(crate) threads: usize,
    pub(crate) cpus: usize,
    /// Duration of the run.
    pub seconds: f64,
    /// Compiled with optimization: times of another build say nothing.
    pub optimized: bool,
    /// Load of the machine.
    pub load: BenchLoad,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) timelines: Vec<Timeline>,
}

/// The results of a run, before it is reported.
#[derive(Clone, Debug)]
pub struct BenchResults {
    pub(crate) cells: Vec<Cell>,
    pub(crate) timelines: Vec<Timeline>,
}

impl BenchReport {
    /// The report of these results. The caller adds the facts of the run.
    pub fn new(settings: &BenchSettings, results: BenchResults) -> Self {
        let BenchResults { cells, timelines } = results;
        Self {
            schema: 1,
            version: String::new(),
            commit: None,
            date: date(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())),
            command: String::new(),
            machine: machine(settings.cpus),
            threads: settings.threads,
            cpus: settings.cpus,
            seconds: 0.0,
            optimized: true,
            load: BenchLoad::default(),
            summaries: Self::summed(&cells),
            cells,
            timelines,
        }
    }

    fn summed(cells: &[Cell]) -> Vec<Summary> {
        let of = |shape| Summary::of(shape, &cells.iter().filter(|cell| cell.shape == shape).collect::<Vec<_>>());
        ScenarioGroup::ALL.into_iter().filter_map(of).collect()
    }

    /// Cells that lose to the plain code, the worst first.
    pub(crate) fn losses(&self) -> Vec<&Cell> {
        let mut cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.loses()).collect();
        cells.sort_by(|one, other| other.harm.value.total_cmp(&one.harm.value));
        cells
    }

    /// Cells far from the best choice by hand, the worst first.
    pub(crate) fn regrets(&self) -> Vec<&Cell> {
        let value = |cell: &Cell| cell.regret.map_or(0.0, |regret| regret.value);
        let mut cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.regrets()).collect();
        cells.sort_by(|one, other| value(other).total_cmp(&value(one)));
        cells
    }

    /// Cells that gain by more than a loss counts, the most first.
    pub(crate) fn wins(&self) -> Vec<&Cell> {
        let mut cells: Vec<&Cell> = self.cells.iter().filter(|cell| cell.wins()).collect();
        cells.sort_by(|one, other| one.harm.value.total_cmp(&other.harm.value));
        cells
    }

    /// Cells that take longer than rayon by more than a loss counts, the worst first.
    pub(crate) fn slower_than_rayon(&self) -> Vec<(&Cell, Ratio)> {
        let cells = self.cells.iter().filter_map(|cell| Some((cell, cell.by_rayon?)));
        let mut cells: Vec<_> = cells.filter(|(_, ratio)| ratio.confirmed() > LOSS).collect();
        cells.sort_by(|(_, one), (_, other)| other.value.total_cmp(&one.value));
        cells
    }

    /// All numbers.
    ///
    /// # Panics
    /// Never: numbers and strings are valid JSON.
    pub fn json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("numbers and strings");
        json.push('\n');
        json
    }
}

/// The CPU's name and the number of CPUs that the process may use.
pub(crate) fn machine(cpus: usize) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|it| it.1.trim().to_owned()));
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{model}, {cpus} {}, {}", if cpus == 1 { "CPU" } else { "CPUs" }, std::env::consts::OS)
}

/// A time since 1970 as `2026-11-26 09:40 UTC`.
pub(crate) fn date(seconds: u64) -> String {
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Years of 400 begin in March, so that a leap day is the last day of one (H. Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A cell with a harm and a regret, the same in both halves.
    pub(crate) fn cell(shape: ScenarioGroup, name: &str, harm: f64, regret: Option<f64>) -> Cell {
        let (family, size) = name.rsplit_once('/').unwrap_or((name, "1"));
        let spread = |median| Spread { median, low: median * 0.9, high: median * 1.1 };
        let ratio = |value| Ratio { value, low: value * 0.9, high: value * 1.1, halves: [value; 2] };
        let fixed = |at: u32| Fixed {
            name: format!("grain {}", 4u64.pow(at)),
            value: 4f64.powi(at as i32),
            nanos: 1000.0 * (1.0 + f64::from(at.abs_diff(2))),
        };
        Cell {
            shape,
            name: name.to_owned(),
            family: family.to_owned(),
            size: size.parse().unwrap_or(1.0),
            unit: Unit::Call,
            cold: false,
            serial: spread(1000.0),
            windrow: spread(1000.0 * harm),
            harm: ratio(harm),
            control: ratio(1.0),
            regret: regret.map(|value| Regret { value, halves: [value; 2] }),
            best: regret.map(|_| "grain 16".to_owned()),
            bound: Some(0.5),
            by_rayon: None,
            beats_bound: false,
            sweep_by: "grain",
            sweep: if regret.is_some() { (0..6).map(fixed).collect() } else { Vec::new() },
            repetitions: 8,
            calls: 100,
            why: "on 1 thread: too short to be shared".to_owned(),
        }
    }

    pub(crate) fn report(cells: Vec<Cell>) -> BenchReport {
        let lane =
            |name: &str, at: f64| Lane { name: name.to_owned(), tiles: vec![(at, at + 1e6), (at + 1e6, at + 2e6)] };
        let timeline = |arm: &str| Timeline {
            cell: "even/2000".to_owned(),
            arm: arm.to_owned(),
            lanes: vec![lane("compute", 0.0), lane("send", 1e6)],
            end: 3e6,
        };
        BenchReport {
            schema: 1,
            version: "0.1.0".to_owned(),
            commit: Some("0123abc".to_owned()),
            date: date(0),
            command: "windrow bench --quick <&>".to_owned(),
            machine: "a \"machine\"".to_owned(),
            threads: 2,
            cpus: 2,
            seconds: 1.0,
            optimized: true,
            load: BenchLoad { before: Some(0.2), after: Some(1.5), note: None },
            summaries: BenchReport::summed(&cells),
            cells,
            timelines: vec![timeline("plain code"), timeline("windrow")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_795_737_599), "2026-11-26 23:59 UTC");
        assert_eq!(date(1_798_761_600), "2027-01-01 00:00 UTC");
    }

    #[test]
    fn a_summary_names_the_worst_cells() {
        let cells = vec![
            samples::cell(ScenarioGroup::Loops, "a/1", 0.6, Some(1.1)),
            samples::cell(ScenarioGroup::Loops, "a/2", 1.2, Some(1.0)),
            samples::cell(ScenarioGroup::Loops, "a/3", 1.0, Some(1.5)),
            samples::cell(ScenarioGroup::Batch, "b/1", 0.5, None),
        ];
        let report = samples::report(cells);
        let [loops, batch] = &report.summaries[..] else { panic!("{:?}", report.summaries) };
        assert_eq!((loops.cells, loops.lost, loops.harm_median, loops.harm_worst), (3, 1, 1.0, 1.2));
        assert_eq!((&*loops.harm_worst_cell, loops.regret_worst_cell.as_deref()), ("a/2", Some("a/3")));
        assert_eq!((loops.regret_median, loops.regret_worst, loops.bound_median), (Some(1.1), Some(1.5), Some(2.0)));
        assert_eq!((batch.regret_median, batch.regret_worst_cell.as_deref()), (None, None));
        assert_eq!(report.losses().iter().map(|cell| &*cell.name).collect::<Vec<_>>(), ["a/2"]);
        assert_eq!(report.regrets().iter().map(|cell| &*cell.name).collect::<Vec<_>>(), ["a/3"]);
    }

    #[test]
    fn a_loss_in_one_half_is_no_loss() {
        let mut cell = samples::cell(ScenarioGroup::Loops, "a/1", 1.3, None);
        assert!(cell.loses());
        cell.harm.halves = [1.0, 1.6];
        assert!(!cell.loses());
    }
}

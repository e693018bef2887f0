//! Measurements, as text and as a record.

use std::fmt::Write;

use crate::arms::{CONTROL, Programs};
use crate::record::{self, Recording};
use crate::stats::geometric_mean;
use crate::verdict::{Line, Regime, Samples, Verdict, judge};

/// All arms of one cell: serial first, then its control, then the others.
#[derive(Debug)]
pub struct Cell {
    name: String,
    /// The least possible time, as a share of serial's.
    bound: f64,
    samples: Vec<Samples>,
    lines: Vec<Line>,
    verdicts: Vec<Verdict>,
}

impl Cell {
    /// Compares the arms' samples with those of the first two.
    pub fn new(name: &str, bound: f64, regime: Regime, samples: Vec<Samples>) -> Self {
        let lines: Vec<Line> = samples.iter().map(|arm| Line::new(arm, &samples[0])).collect();
        let judged = |line| judge(line, regime, lines[0].nanos, lines[1].ratio, bound);
        let verdicts = lines.iter().map(judged).collect();
        Self { name: name.to_owned(), bound, samples, lines, verdicts }
    }

    /// Prints a line for each arm.
    pub fn print(&self, arms: &[String]) {
        println!("{}  serial {:.2} us, bound {:.2}", self.name, self.lines[0].nanos / 1e3, self.bound);
        for ((name, line), verdict) in arms.iter().zip(&self.lines).zip(&self.verdicts).skip(1) {
            let Line { nanos, ratio, interval: (low, high), spread: (p10, p90), p90: slow, cpu, cpu_at_rest, .. } =
                line;
            let (micros, rest) = (nanos / 1e3, cpu_at_rest / 1e3);
            println!(
                "  {name:<22} {micros:>10.2} us  x{ratio:.3} [{low:.3} {high:.3}] ({p10:.2}..{p90:.2})  p90 x{slow:.2}  \
                 cpu x{cpu:.2}  rest {rest:>5.1} us  {verdict}"
            );
        }
    }

    /// The nanoseconds that each arm adds to serial, for each of `count` operations in a call.
    pub fn beyond_serial(&self, count: u64) -> impl Iterator<Item = f64> {
        self.lines.iter().map(move |line| (line.nanos - self.lines[0].nanos) / count as f64)
    }

    fn record_line(&self, at: usize, arm: &str) -> String {
        let Line { nanos, ratio, interval: (low, high), spread: (p10, p90), p90: slow, cpu, cpu_at_rest, .. } =
            &self.lines[at];
        let times: Vec<String> = self.samples[at].times.iter().map(|nanos| format!("{nanos:.1}")).collect();
        format!(
            "{},{arm},{nanos:.1},{ratio:.4},{low:.4},{high:.4},{p10:.4},{p90:.4},{slow:.3},{cpu:.3},{cpu_at_rest:.0},{},{}",
            self.name,
            self.verdicts[at],
            times.join(" ")
        )
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Each arm's median ratio to serial.
    pub fn ratios(&self) -> impl Iterator<Item = f64> {
        self.lines.iter().map(|line| line.ratio)
    }

    /// The best ratio of any peer, or of serial.
    pub fn best_other(&self, arms: &[String]) -> f64 {
        let others = arms.iter().zip(&self.lines).filter(|(arm, _)| !is_control(arm) && !is_windrow(arm));
        others.map(|(_, line)| line.ratio).fold(f64::INFINITY, f64::min)
    }
}

/// Whether the arm is serial again, here or compiled by another compiler.
fn is_control(arm: &str) -> bool {
    arm == CONTROL || arm.ends_with("-serial")
}

fn is_windrow(arm: &str) -> bool {
    arm.starts_with("windrow")
}

const COLUMNS: &str = "cell,arm,median_ns,ratio,low95,high95,ratio_p10,ratio_p90,p90_by_serial,cpu_by_serial,rest_cpu_ns,\
                       verdict,ns_of_each_repetition";

/// All cells of a run.
#[derive(Debug)]
pub struct Report {
    /// Names of the arms, serial and its control first.
    pub arms: Vec<String>,
    /// The cells, each with all arms.
    pub cells: Vec<Cell>,
}

impl Report {
    /// Whether an arm was faster than all threads together can be.
    pub fn is_impossible(&self) -> bool {
        self.cells.iter().flat_map(|cell| &cell.verdicts).any(|verdict| verdict.impossible)
    }

    /// One line for each arm: rules broken, worst cell, geometric means.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (at, arm) in self.arms.iter().enumerate().skip(1) {
            let broken = |rule: Rule| self.cells.iter().filter(|cell| rule(&cell.verdicts[at])).count();
            let (loses, p90, cpu) = (broken(|it| it.loses), broken(|it| it.p90), broken(|it| it.cpu));
            let (worst, where_) = self.worst(|cell| cell.lines[at].ratio);
            let mean = |value: fn(&Line) -> f64| geometric_mean(self.cells.iter().map(|cell| value(&cell.lines[at])));
            let _ = write!(
                text,
                "{arm:<22} loses {loses:>2}, p90 {p90:>2}, cpu {cpu:>2} of {}; worst x{worst:.2} ({where_}); geomean x{:.3}, cpu x{:.2}",
                self.cells.len(),
                mean(|line| line.ratio),
                mean(|line| line.cpu),
            );
            if is_windrow(arm) {
                let by_best = |cell: &Cell| cell.lines[at].ratio / cell.best_other(&self.arms);
                let (worst, where_) = self.worst(by_best);
                let mean = geometric_mean(self.cells.iter().map(by_best));
                let _ = write!(text, "; vs best of others geomean x{mean:.3}, worst x{worst:.2} ({where_})");
            }
            text.push('\n');
        }
        text
    }

    /// The largest value, and the cell that has it.
    fn worst(&self, value: impl Fn(&Cell) -> f64) -> (f64, &str) {
        let values = self.cells.iter().map(|cell| (value(cell), cell.name.as_str()));
        values.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, "-"))
    }

    /// Writes a record, if one is wanted: all cells, the versions of the peers and of `programs`, `notes` and the summary.
    ///
    /// # Errors
    /// As [`Recording::write`].
    pub fn record(&self, wanted: Recording, name: &str, programs: &Programs, notes: &[String]) -> Result<(), String> {
        let mut head = record::versions();
        head.extend(programs.versions());
        head.extend_from_slice(notes);
        head.extend(self.summary().lines().map(str::to_owned));
        let lines: Vec<String> = self
            .cells
            .iter()
            .flat_map(|cell| self.arms.iter().enumerate().map(|(at, arm)| cell.record_line(at, arm)))
            .collect();
        wanted.write(name, &head, COLUMNS, &lines)
    }
}

/// Returns whether a rule is broken.
type Rule = fn(&Verdict) -> bool;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(nanos: f64) -> Samples {
        Samples { times: vec![nanos; 7], singles: vec![nanos; 7], cpu: vec![nanos; 7], cpu_at_rest: vec![0.0; 7] }
    }

    fn report() -> Report {
        let arms = ["serial", "control", "windrow", "rayon", "omp-serial"].map(str::to_owned).into();
        let cell = |name, times: [f64; 5]| Cell::new(name, 0.5, Regime::Warm, times.map(samples).into());
        Report { arms, cells: vec![cell("a", [1e4, 1e4, 6e3, 5e3, 4e3]), cell("b", [1e4, 1e4, 12e3, 20e3, 4e3])] }
    }

    #[test]
    fn the_summary_says_which_arm_loses_where_and_how_far_the_best_is() {
        let summary = report().summary();
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].contains("loses  1") && lines[1].contains("worst x1.20 (b)"), "{}", lines[1]);
        // The best in a is rayon, in b serial; omp-serial is a control. (1.2 * 1.2)^(1/2)
        assert!(lines[1].ends_with("vs best of others geomean x1.200, worst x1.20 (b)"), "{}", lines[1]);
        assert!(lines[2].contains("loses  1") && lines[2].contains("geomean x1.000"), "{}", lines[2]);
    }

    #[test]
    fn a_report_with_an_arm_beyond_the_bound_is_impossible() {
        let mut report = report();
        assert!(report.is_impossible(), "omp-serial takes 0.4 of serial");
        report.cells.iter_mut().for_each(|cell| {
            cell.verdicts.pop();
        });
        assert!(!report.is_impossible());
    }

    #[test]
    fn a_line_of_a_record_has_every_column_and_all_repetitions() {
        let line = report().cells[0].record_line(2, "windrow");
        assert_eq!(line.split(',').count(), COLUMNS.split(',').count(), "{line}");
        assert!(line.starts_with("a,windrow,6000.0,0.6000,") && line.ends_with(" 6000.0"), "{line}");
    }
}

//! Arms side by side, and bars.

use std::time::Duration;

use windrow_bench::stats::{median, quantile};

/// One way to do the work. It prepares, measures and checks itself.
pub(crate) struct Arm<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<Duration, String> + 'a>,
}

impl<'a> Arm<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() -> Result<Duration, String> + 'a) -> Self {
        Arm { name: name.into(), run: Box::new(run) }
    }
}

/// The measurements of the arms, interleaved, with the order reversed every other time.
pub(crate) struct Table {
    title: String,
    ops: usize,
    rows: Vec<(String, Vec<f64>)>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn measure(title: String, ops: usize, repetitions: u16, mut arms: Vec<Arm<'_>>) -> Result<Self, String> {
        let mut rows: Vec<_> = arms.iter().map(|arm| (arm.name.clone(), Vec::new())).collect();
        for repetition in 0..repetitions {
            for turn in 0..arms.len() {
                let turn = if repetition % 2 == 0 { turn } else { arms.len() - 1 - turn };
                let time = (arms[turn].run)().map_err(|what| format!("{title}, {}: {what}", arms[turn].name))?;
                rows[turn].1.push(time.as_nanos().max(1) as f64);
            }
        }
        Ok(Table { title, ops, rows, notes: Vec::new() })
    }

    pub(crate) fn print(&self) {
        println!("{}: operations, ops/ms, ns an operation (10th and 90th percentile)", self.title);
        for (name, times) in &self.rows {
            let one = |share| quantile(times, share) / self.ops as f64;
            let middle = median(times) / self.ops as f64;
            println!("  {name:<26} {:>10.0} {middle:>10.1} ({:.1}..{:.1})", 1e6 / middle, one(0.1), one(0.9));
        }
    }

    /// Nanoseconds of all operations, by repetition.
    pub(crate) fn times(&self, name: &str) -> &[f64] {
        let row = self.rows.iter().find(|row| row.0 == name);
        &row.unwrap_or_else(|| panic!("no arm {name} in {}", self.title)).1
    }

    /// Prints how many times as fast one arm is as another, and whether that meets the bar.
    pub(crate) fn bar(&mut self, of: &str, to: &str, least: f64) {
        let ratios: Vec<f64> = self.times(of).iter().zip(self.times(to)).map(|(of, to)| to / of).collect();
        let (low, high) = (quantile(&ratios, 0.1), quantile(&ratios, 0.9));
        let ratio = median(&ratios);
        let is_met = if ratio >= least { "met" } else { "missed" };
        self.say(format!("{of} by {to}: x{ratio:.2} ({low:.2}..{high:.2}), bar >= {least:.2} {is_met}"));
    }

    /// Prints a line that also goes into the record.
    pub(crate) fn say(&mut self, what: String) {
        println!("  {what}");
        self.notes.push(format!("{}: {what}", self.title));
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The lines of the record.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.rows.iter().flat_map(move |(name, times)| {
            let line = move |(at, time)| format!("{},\"{name}\",{},{at},{time}", self.title, self.ops);
            times.iter().enumerate().map(line)
        })
    }
}

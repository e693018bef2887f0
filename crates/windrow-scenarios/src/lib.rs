#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batches;
pub mod cells;
mod crew;
mod joins;
mod loops;
mod measure;
mod on_rayon;
mod overlaps;
mod page;
pub mod products;
mod result;
pub mod rounds;
pub mod stats;
mod table;
mod texts;
pub mod work;

use std::path::PathBuf;
use std::time::Duration;

use measure::{Effort, Scenario};
pub use result::{BenchLoad, BenchReport, BenchResults, ScenarioGroup};
use result::{Cell, Timeline};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// Fewer repetitions.
    pub quick: bool,
    /// Few cells and few repetitions, for tests.
    pub tiny: bool,
    /// The groups to measure; all of them if empty.
    pub only: Vec<ScenarioGroup>,
    /// Adds an arm of rayon to loops, recursion and rounds.
    pub against_rayon: bool,
    /// Threads of windrow, of the hand-picked choices and of rayon.
    pub threads: usize,
    /// CPUs that the process may use.
    pub cpus: usize,
    /// Folder on a disk, for files that are synced.
    pub disk: PathBuf,
    /// Folder in memory, for token files.
    pub memory: PathBuf,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub enum BenchStep<'a> {
    /// The cells of a group are next.
    Group(ScenarioGroup),
    /// A cell is next.
    Cell(&'a str),
    /// The cell is measured.
    Done,
}

impl BenchSettings {
    /// Number of cells to measure.
    pub fn cells(&self) -> usize {
        use ScenarioGroup::{Batch, Encode, Loops, Overlap, Rounds};
        let of = |group, counts: &[usize]| {
            let count = |&count: &usize| (0..count).filter(|&index| self.wants(index)).count();
            if self.has(group) { counts.iter().map(count).sum() } else { 0 }
        };
        of(Loops, &[loops::count(), joins::count()])
            + of(Rounds, &[rounds::count()])
            + of(Batch, &[batches::count()])
            + of(Overlap, &[overlaps::count(), products::count(self.cpus)])
            + of(Encode, &[texts::count()])
    }

    /// Measures the cells on the current pool.
    ///
    /// # Errors
    /// An arm gives a wrong answer, or cannot run.
    pub fn run(&self, step: &mut dyn FnMut(BenchStep<'_>)) -> Result<BenchResults, String> {
        let peer = if self.against_rayon { Some(rayon_pool(self.threads)?) } else { None };
        let mut run = Run { settings: self, peer: peer.as_ref(), step, cells: Vec::new(), timelines: Vec::new() };
        for group in ScenarioGroup::ALL.into_iter().filter(|group| self.has(*group)) {
            (run.step)(BenchStep::Group(group));
            match group {
                ScenarioGroup::Loops => {
                    loops::run(&mut run)?;
                    joins::run(&mut run)?;
                }
                ScenarioGroup::Rounds => rounds::run(&mut run)?,
                ScenarioGroup::Batch => batches::run(&mut run)?,
                ScenarioGroup::Overlap => {
                    overlaps::run(&mut run)?;
                    products::run(&mut run)?;
                }
                ScenarioGroup::Encode => texts::run(&mut run)?,
            }
        }
        Ok(BenchResults { cells: run.cells, timelines: run.timelines })
    }

    fn has(&self, group: ScenarioGroup) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }

    /// True for a cell that is measured: tests take every seventh.
    fn wants(&self, index: usize) -> bool {
        !self.tiny || index.is_multiple_of(7)
    }

    fn effort(&self) -> Effort {
        match self {
            Self { tiny: true, .. } => Effort { budget: Duration::ZERO, fewest: 4, most: 4 },
            Self { quick: true, .. } => Effort { budget: Duration::from_millis(1_000), fewest: 4, most: 16 },
            _ => Effort { budget: Duration::from_secs(6), fewest: 8, most: 48 },
        }
    }
}

fn rayon_pool(threads: usize) -> Result<rayon::ThreadPool, String> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| format!("rayon cannot start {threads} threads: {error}"))
}

/// A run under way.
struct Run<'a> {
    settings: &'a BenchSettings,
    /// The pool of rayon's arms, if they are measured.
    peer: Option<&'a rayon::ThreadPool>,
    step: &'a mut dyn FnMut(BenchStep<'_>),
    cells: Vec<Cell>,
    timelines: Vec<Timeline>,
}

impl Run<'_> {
    /// Measures a cell.
    fn measure(&mut self, scenario: Scenario<'_>) -> Result<(), String> {
        (self.step)(BenchStep::Cell(&format!("{}: {}", scenario.shape.name(), scenario.name)));
        self.cells.push(measure::cell(scenario, self.settings.effort())?);
        (self.step)(BenchStep::Done);
        Ok(())
    }

    /// The cells to measure, with their numbers.
    fn wanted<T>(&self, cells: impl IntoIterator<Item = T>) -> Vec<(usize, T)> {
        cells.into_iter().enumerate().filter(|(index, _)| self.settings.wants(*index)).collect()
    }

    /// Threads that can run at once.
    fn width(&self) -> usize {
        self.settings.threads.min(self.settings.cpus)
    }
}

/// The threads of a call, and windrow's reason.
fn explained(call: impl FnOnce()) -> String {
    let ((), why) = windrow::explain(call);
    let mut parts: Vec<String> = Vec::new();
    for entry in &why {
        let threads = entry.threads();
        let on = if threads == 1 { "on 1 thread".to_owned() } else { format!("on {threads} threads") };
        let part = format!("{on}: {}", entry.reason());
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.truncate(3);
    parts.join("; ")
}

//! Many callers and one resource: a counter, a fixed cost that is spun, and lines appended to a file that is synced.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use windrow::batch::{Batch, BatchOps, Batched};
use windrow_tokenizers::shown;

use crate::measure::{Arm, Bound, Role, Scenario};
use crate::result::Unit;
use crate::work::spin;
use crate::{Run, ScenarioGroup};

/// The fixed cost of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fixed {
    Nothing,
    Spun(Duration),
    /// Lines are appended to a file, which is synced to the disk.
    Synced,
}

/// Family, fixed cost, callers.
const CELLS: [(&str, Fixed, &[usize]); 5] = [
    ("counter", Fixed::Nothing, &[1, 2, 4, 16]),
    ("fixed 5us", Fixed::Spun(Duration::from_micros(5)), &[1, 2, 8, 32]),
    ("fixed 20us", Fixed::Spun(Duration::from_micros(20)), &[1, 2, 8, 32]),
    ("fixed 100us", Fixed::Spun(Duration::from_micros(100)), &[1, 2, 8, 32]),
    ("file, synced", Fixed::Synced, &[1, 2, 8]),
];
/// The time of an operation in addition to the fixed cost.
const EACH: Duration = Duration::from_nanos(200);
/// Approximate time of a turn with a mutex.
const TURN: Duration = Duration::from_millis(8);

/// The structure that callers share. An operation brings a number and gets the number of operations before it.
struct Resource {
    fixed: Fixed,
    file: Option<File>,
    ops: u64,
    sum: u64,
    error: Option<io::Error>,
}

impl Resource {
    fn new(fixed: Fixed, folder: &Path) -> io::Result<Self> {
        let file = if fixed == Fixed::Synced { Some(unnamed(folder)?) } else { None };
        Ok(Self { fixed, file, ops: 0, sum: 0, error: None })
    }

    /// Pays for a batch of `ops` operations.
    fn pay(&mut self, ops: usize) {
        match self.fixed {
            Fixed::Nothing => {}
            Fixed::Spun(fixed) => spin(fixed + EACH * ops as u32),
            Fixed::Synced => {
                let lines = "one operation of one caller\n".repeat(ops);
                let file = self.file.as_mut().expect("opened with the structure");
                if let Err(error) = file.write_all(lines.as_bytes()).and_then(|()| file.sync_data()) {
                    self.error.get_or_insert(error);
                }
            }
        }
    }

    fn one(&mut self, op: u64) -> u64 {
        self.sum = self.sum.wrapping_add(op);
        self.ops += 1;
        self.ops - 1
    }
}

impl BatchOps for Resource {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        self.pay(batch.len());
        batch.iter_mut().for_each(|entry| entry.answer(|op| self.one(op)));
    }

    fn run_one(&mut self, op: u64) -> u64 {
        self.pay(1);
        self.one(op)
    }
}

/// A file without a name, which leaves nothing, however the program ends.
fn unnamed(folder: &Path) -> io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static FILES: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number only has to differ.
    let path = folder.join(format!("synced-{}", FILES.fetch_add(1, Ordering::Relaxed)));
    let file = File::options().create_new(true).append(true).open(&path)?;
    // On systems where an open file cannot lose its name, the folder is removed at the end.
    let _ = std::fs::remove_file(&path);
    Ok(file)
}

/// A way to share the structure.
enum Store {
    Mutex(Mutex<Resource>),
    Batched(Batched<Resource>),
}

impl Store {
    fn call(&self, op: u64) -> Result<u64, String> {
        match self {
            Store::Mutex(resource) => Ok({
                let mut resource = resource.lock().unwrap_or_else(PoisonError::into_inner);
                resource.pay(1);
                resource.one(op)
            }),
            Store::Batched(batched) => batched.call(op).map_err(|error| error.to_string()),
        }
    }

    /// The number of operations so far and their sum, or the error of a file.
    fn state(&self) -> Result<(u64, u64), String> {
        let of = |resource: &mut Resource| match resource.error.take() {
            Some(error) => Err(format!("the file cannot be synced: {error}")),
            None => Ok((resource.ops, resource.sum)),
        };
        match self {
            Store::Mutex(resource) => of(&mut resource.lock().unwrap_or_else(PoisonError::into_inner)),
            Store::Batched(batched) => batched.exclusive(of).map_err(|error| error.to_string())?,
        }
    }

    /// Runs the callers, each with `ops` operations in a row. Returns the time of an operation in nanoseconds: from the first call to the last
    /// reply, divided by all operations.
    fn turn(&self, callers: usize, ops: usize) -> Result<f64, String> {
        let before = self.state()?;
        let (ready, start) = (Barrier::new(callers + 1), Barrier::new(callers + 1));
        let (begin, replies) = thread::scope(|scope| {
            let running: Vec<_> = (0..callers)
                .map(|_| {
                    scope.spawn(|| {
                        ready.wait();
                        start.wait();
                        let sum = (0..ops as u64).try_fold(0u64, |sum, op| Ok::<_, String>(sum + self.call(op)?));
                        (sum, Instant::now())
                    })
                })
                .collect();
            ready.wait();
            let begin = Instant::now();
            start.wait();
            (
                begin,
                running.into_iter().map(|caller| caller.join().expect("a caller does not panic")).collect::<Vec<_>>(),
            )
        });
        let mut replied = 0;
        let mut end = begin;
        for (sum, ended) in replies {
            replied += sum?;
            end = end.max(ended);
        }
        let after = self.state()?;
        let count = (callers * ops) as u64;
        let brought = callers as u64 * (0..ops as u64).sum::<u64>();
        let numbers = (before.0..before.0 + count).sum::<u64>();
        if (after.0 - before.0, after.1.wrapping_sub(before.1), replied) != (count, brought, numbers) {
            return Err("an operation was lost or run twice, or its reply went to another caller".to_owned());
        }
        Ok(end.duration_since(begin).as_nanos() as f64 / count as f64)
    }
}

/// Limits of a batch to try: powers of two up to the callers.
fn limits(callers: usize) -> Vec<usize> {
    let mut limits: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&limit| limit < callers).collect();
    limits.push(callers);
    limits
}

/// Operations of a caller in a turn.
fn ops_of_a_turn(fixed: Fixed, callers: usize, folder: &Path) -> Result<usize, String> {
    let mutex = Store::Mutex(Mutex::new(resource(fixed, folder)?));
    mutex.turn(callers, 2)?;
    let nanos = mutex.turn(callers, 4)?;
    let all = TURN.as_nanos() as f64 / nanos.max(1.0);
    Ok(((all / callers as f64) as usize).clamp(2, 20_000))
}

fn resource(fixed: Fixed, folder: &Path) -> Result<Resource, String> {
    Resource::new(fixed, folder)
        .map_err(|error| format!("cannot write to {}: {error}\nhint: set TMPDIR to a writable folder", shown(folder)))
}

/// The least time relative to a mutex: every batch holds an operation of each caller.
fn bound(fixed: Fixed, callers: usize) -> Bound {
    match fixed {
        // A contended mutex costs more than the counter in it, so its time is no measure of the work.
        Fixed::Nothing => Bound::None,
        Fixed::Spun(fixed) => {
            let (fixed, each) = (fixed.as_secs_f64(), EACH.as_secs_f64());
            Bound::Share((fixed / callers as f64 + each) / (fixed + each))
        }
        Fixed::Synced => Bound::Share(1.0 / callers as f64),
    }
}

/// Measures all batches.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let cells = CELLS.iter().flat_map(|&(family, fixed, callers)| callers.iter().map(move |&it| (family, fixed, it)));
    let folder = &*run.settings.disk;
    for (_, (family, fixed, callers)) in run.wanted(cells) {
        let ops = ops_of_a_turn(fixed, callers, folder)?;
        let mutex = || Ok::<_, String>(Store::Mutex(Mutex::new(resource(fixed, folder)?)));
        let batched = Store::Batched(Batched::new(resource(fixed, folder)?));
        let turn = |store: Store| move |_| store.turn(callers, ops);
        let mut arms = vec![
            Arm::new("mutex", Role::Serial, turn(mutex()?)),
            Arm::new("control", Role::Control, turn(mutex()?)),
            Arm::new("windrow", Role::Windrow, |_| batched.turn(callers, ops)),
        ];
        for limit in limits(callers) {
            let store = Store::Batched(Batched::builder().limit(limit).build(resource(fixed, folder)?));
            arms.push(Arm::new(format!("limit {limit}"), Role::Fixed(limit as f64), turn(store)));
        }
        let (sweep, why) = (("limit", bound(fixed, callers)), || verdict(&batched));
        let scenario = Scenario::new(ScenarioGroup::Batch, family, callers as f64, sweep, arms, why);
        run.measure(Scenario { unit: Unit::Operation, single: true, ..scenario })?;
    }
    Ok(())
}

fn verdict(store: &Store) -> String {
    let Store::Batched(batched) = store else { return String::new() };
    let Ok(stats) = batched.stats() else { return String::new() };
    let batched = stats.ops().saturating_sub(stats.alone());
    let mean = match stats.batches() {
        0 => "no two calls coincided".to_owned(),
        batches => format!("batches of {:.1} on average", batched as f64 / batches as f64),
    };
    let verdict = stats.verdict().map_or_else(|| "no verdict yet".to_owned(), |verdict| verdict.to_string());
    format!("{mean}; {verdict}")
}

/// The number of cells.
pub(crate) fn count() -> usize {
    CELLS.iter().map(|(.., callers)| callers.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_runs_each_operation_once() {
        let folder = tempfile::tempdir().unwrap();
        for fixed in [Fixed::Nothing, Fixed::Spun(Duration::from_micros(1)), Fixed::Synced] {
            let of = || Resource::new(fixed, folder.path()).unwrap();
            let stores = [
                Store::Mutex(Mutex::new(of())),
                Store::Batched(Batched::new(of())),
                Store::Batched(Batched::builder().limit(1).build(of())),
            ];
            for store in stores {
                assert!(store.turn(3, 5).unwrap() > 0.0);
                assert_eq!(store.state(), Ok((15, 30)));
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no names");
    }

    #[test]
    fn limits_end_with_all_callers() {
        assert_eq!((limits(1), limits(2), limits(12)), (vec![1], vec![1, 2], vec![1, 2, 4, 8, 12]));
    }

    #[test]
    fn the_bound_is_a_full_batch() {
        assert_eq!(bound(Fixed::Synced, 8), Bound::Share(0.125));
        assert_eq!(bound(Fixed::Nothing, 8), Bound::None);
        assert_eq!(bound(Fixed::Spun(Duration::from_micros(5)), 1), Bound::Share(1.0));
    }
}

//! The contract: quantiles of windrow's time and of the serial loop's, interleaved call by call. `book/src/verified.md` states it.
//!
//! A cell is a sequence of calls at one call site, or at several alternately. Its calls may be of two kinds, short and long ones. Each kind has a
//! verdict, because the median of both together is that of neither.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use windrow::prelude::*;

use crate::{Rng, mix, spin};

/// Items, turns of an item, and room for results.
pub type Loop = fn(&[u64], u64, &mut [u64]) -> u64;

/// The value below which a `share` of the values lies; nearest rank.
///
/// # Panics
/// Without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// Dependent multiplications. Not inlined: how well a compiler overlaps them in a loop's body would hide what the call costs.
#[inline(never)]
pub fn work(x: u64, turns: u64) -> u64 {
    (0..turns).fold(x, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A serial loop and windrow's.
pub type Pair = (Loop, Loop);

fn pair(serial: Loop, windrow: Loop) -> Pair {
    (serial, windrow)
}

/// A consumer at a place of its own.
macro_rules! pair {
    (for_each) => {
        pair!(|items, turns, out| {
            items.zip(out).for_each(|(x, out)| *out = work(*x, turns));
            0
        })
    };
    (sum) => {
        pair!(|items, turns, _out| items.map(|x| work(*x, turns) >> 20).sum())
    };
    (reduce) => {
        pair(
            |items, turns, _| items.iter().map(|x| work(*x, turns)).fold(0, u64::wrapping_add),
            |items, turns, _| items.par_iter().map(|x| work(*x, turns)).reduce(|| 0, u64::wrapping_add),
        )
    };
    (collect) => {
        pair!(|items, turns, _out| black_box(items.map(|x| work(*x, turns)).collect::<Vec<u64>>()).pop().unwrap_or(0))
    };
    (any) => {
        pair!(|items, turns, _out| u64::from(items.map(|x| work(*x, turns)).any(|x| x == turns)))
    };
    (|$items:ident, $turns:ident, $out:ident| $body:expr) => {
        pair(
            |$items: &[u64], $turns, $out: &mut [u64]| {
                let ($items, $out) = ($items.iter(), $out.iter_mut());
                $body
            },
            |$items: &[u64], $turns, $out: &mut [u64]| {
                let ($items, $out) = ($items.par_iter(), $out.par_iter_mut());
                $body
            },
        )
    };
}

/// The conditions around the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conditions {
    /// Calls of all arms without a pause.
    Warm,
    /// A pause before every call.
    Pause,
    /// A thread that is busy for 5 ms of 10.
    Neighbour,
    /// The first call of a process.
    First,
}

const PAUSE: Duration = Duration::from_millis(10);

/// A sequence of calls.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name in tables and records.
    pub name: String,
    conditions: Conditions,
    /// Loops, called one after the other.
    loops: Vec<Pair>,
    /// The kinds of calls: items, and turns of an item.
    kinds: Vec<(usize, u64)>,
    /// Calls of a kind before the next one.
    period: usize,
}

/// The quantiles that are judged.
const QUANTILES: [f64; 2] = [0.5, 0.99];

/// One quantile of one kind of calls, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the cell, and of the kind if it has several.
    pub name: String,
    /// The share of calls that take less.
    pub quantile: f64,
    /// Of the serial loop.
    pub serial: f64,
    /// Of the serial loop again.
    pub control: f64,
    /// Of windrow.
    pub windrow: f64,
    /// Allowance of windrow over the serial quantile.
    pub allowed: f64,
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the allowance.
    Met,
    /// Above it.
    Missed,
    /// Two serial loops differ by more than the allowance.
    NotDecided,
}

impl Row {
    fn new(name: &str, conditions: Conditions, quantile: f64, [serial, control, windrow]: [f64; 3]) -> Self {
        let least = if quantile > 0.5 { 2e3 } else { 20.0 };
        let added = match conditions {
            Conditions::Pause => 10e3,
            Conditions::First => 50e3,
            Conditions::Warm | Conditions::Neighbour => 0.0,
        };
        let allowed = f64::max(0.05 * serial, least) + added;
        Self { name: name.to_owned(), quantile, serial, control, windrow, allowed }
    }

    /// Excess of windrow over the serial loop.
    pub fn excess(&self) -> f64 {
        self.windrow - self.serial
    }

    /// The verdict for `times` the allowance. The control has the allowance itself.
    pub fn verdict(&self, times: f64) -> Verdict {
        if (self.control - self.serial).abs() > self.allowed {
            Verdict::NotDecided
        } else if self.excess() > times * self.allowed {
            Verdict::Missed
        } else {
            Verdict::Met
        }
    }
}

/// One kind of calls, ready to run: items, turns, and the room of each arm.
#[derive(Debug)]
pub struct Loaded {
    items: Vec<u64>,
    turns: u64,
    outs: [Vec<u64>; 3],
}

impl Loaded {
    /// `n` items of these turns.
    pub fn new((n, turns): (usize, u64)) -> Self {
        Self { items: (1..=n as u64).map(mix).collect(), turns, outs: [(); 3].map(|()| vec![1; n]) }
    }

    /// The nanoseconds of a call, and its result.
    fn timed(&mut self, call: Loop, arm: usize) -> (f64, u64) {
        let start = Instant::now();
        let result = black_box(call)(black_box(&self.items), self.turns, black_box(&mut self.outs[arm]));
        (start.elapsed().as_nanos() as f64, result)
    }
}

/// The nanoseconds of one call of each arm: serial, its control, windrow. `at` permutes their order.
///
/// # Panics
/// If the results differ.
pub fn round((serial, windrow): Pair, kind: &mut Loaded, pause: Duration, at: usize) -> [f64; 3] {
    let (mut order, mut random) = ([0, 1, 2], Rng(at as u64));
    order.swap(0, random.index(3));
    order.swap(1, 1 + random.index(2));
    let mut called = [(0.0, 0); 3];
    for arm in order {
        thread::sleep(pause);
        called[arm] = kind.timed(if arm == 2 { windrow } else { serial }, arm);
    }
    assert!(called.iter().all(|(_, result)| *result == called[0].1), "different results");
    called.map(|(time, _)| time)
}

/// Names a cell and an arm: the process makes one call of it.
const FIRST: &str = "WINDROW_CONTRACT_FIRST";

impl Cell {
    fn new(name: impl Into<String>, conditions: Conditions, pair: Pair, kinds: &[(usize, u64)]) -> Self {
        Self { conditions, kinds: kinds.to_vec(), ..Self::of_sites(name, &[pair], kinds[0]) }
    }

    /// Calls without a pause, of one loop after the other.
    pub fn of_sites(name: impl Into<String>, loops: &[Pair], kind: (usize, u64)) -> Self {
        let name = name.into();
        Self { name, conditions: Conditions::Warm, loops: loops.to_vec(), kinds: vec![kind], period: 1 }
    }

    /// Measures the cell for about this time.
    ///
    /// # Panics
    /// If results differ, or no process can be started.
    pub fn measure(&self, time: Duration) -> Vec<Row> {
        let is_over = AtomicBool::new(false);
        let times = thread::scope(|scope| {
            if self.conditions == Conditions::Neighbour {
                scope.spawn(|| {
                    // Relaxed: the flag publishes nothing else.
                    while !is_over.load(Ordering::Relaxed) {
                        spin(5_000);
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            let times = if self.conditions == Conditions::First { self.processes(time) } else { self.calls(time) };
            // Relaxed: as above.
            is_over.store(true, Ordering::Relaxed);
            times
        });
        let mut rows = Vec::new();
        for (times, (n, turns)) in times.iter().zip(&self.kinds) {
            let name = if self.kinds.len() > 1 { format!("{}: {n} x {turns}", self.name) } else { self.name.clone() };
            let of = |arm: usize, share| quantile(&times.iter().map(|round| round[arm]).collect::<Vec<_>>(), share);
            let row = |share| Row::new(&name, self.conditions, share, [0, 1, 2].map(|arm| of(arm, share)));
            // A process has one first call, and the allowance is for its median.
            let is_once = self.conditions == Conditions::First;
            rows.extend(QUANTILES.into_iter().take(if is_once { 1 } else { 2 }).map(row));
        }
        rows
    }

    /// The times of all rounds, by kinds: at least 25 rounds of each loop and kind, and two periods of each kind.
    fn calls(&self, time: Duration) -> Vec<Vec<[f64; 3]>> {
        let mut kinds: Vec<Loaded> = self.kinds.iter().map(|kind| Loaded::new(*kind)).collect();
        let mut times = vec![Vec::new(); kinds.len()];
        let pause = if self.conditions == Conditions::Pause { PAUSE } else { Duration::ZERO };
        let (start, least) = (Instant::now(), (25 * kinds.len().max(self.loops.len())).max(4 * self.period));
        for at in (0..).take_while(|at| *at < least || start.elapsed() < time) {
            let (kind, pair) = (at / self.period % kinds.len(), self.loops[at % self.loops.len()]);
            times[kind].push(round(pair, &mut kinds[kind], pause, at));
        }
        assert!(kinds.iter().all(|kind| kind.outs.iter().all(|out| *out == kind.outs[0])), "{}", self.name);
        times
    }

    /// The times of first calls, each in a process.
    fn processes(&self, time: Duration) -> Vec<Vec<[f64; 3]>> {
        let own = std::env::current_exe().expect("this program has a path");
        let first = |arm: usize| {
            let mut command = Command::new(&own);
            let output = command.env(FIRST, format!("{arm} {}", self.name)).stdin(Stdio::null()).output();
            let text = String::from_utf8(output.expect("this program can be started again").stdout).unwrap_or_default();
            text.trim().parse().expect("the process prints a time")
        };
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < 15 || start.elapsed() < time {
            let mut round = [0.0; 3];
            (0..3).map(|arm| (arm + times.len()) % 3).for_each(|arm| round[arm] = first(arm));
            times.push(round);
        }
        vec![times]
    }
}

/// Makes the one call that this process was started for, and returns true. `main` must call this first.
///
/// # Panics
/// If no cell has the name.
pub fn is_first_call() -> bool {
    let Ok(asked) = std::env::var(FIRST) else { return false };
    let (arm, name) = asked.split_once(' ').expect("an arm and a name");
    let cell = full(&[]).into_iter().find(|cell| cell.name == name).expect("a cell of this name");
    let call = if arm == "2" { cell.loops[0].1 } else { cell.loops[0].0 };
    println!("{}", Loaded::new(cell.kinds[0]).timed(call, 0).0);
    true
}

/// All cells. Each period of flips has a loop of `flipping`, as long as there are some, then all have the same: a site remembers how often it was
/// surprised.
pub fn full(flipping: &[Pair]) -> Vec<Cell> {
    use Conditions::{First, Neighbour, Pause, Warm};
    let mut cells = Vec::new();
    for (name, pair) in [
        ("for_each", pair!(for_each)),
        ("sum", pair!(sum)),
        ("reduce", pair!(reduce)),
        ("collect", pair!(collect)),
        ("any", pair!(any)),
    ] {
        for (n, turns) in [(1, 4), (16, 4), (100, 4), (1000, 4), (1000, 30), (10_000, 30), (1000, 1000)] {
            cells.push(Cell::new(format!("{name} of {n} x {turns}"), Warm, pair, &[(n, turns)]));
        }
    }
    let pair = pair!(for_each);
    for (n, turns) in [(16, 4), (1000, 4), (1000, 30), (10_000, 30), (1000, 1000)] {
        let cell =
            |name: &str, conditions| Cell::new(format!("{name}: {n} x {turns}"), conditions, pair, &[(n, turns)]);
        cells.extend([cell("after 10 ms", Pause), cell("first call", First), cell("neighbour", Neighbour)]);
    }
    let pair = pair!(for_each);
    for k in 0..=10 {
        let (period, pair) = (1 << k, flipping.get(k).copied().unwrap_or(pair));
        let name = format!("cost flips every {period}");
        cells.push(Cell { period, ..Cell::new(name, Warm, pair, &[(1000, 1), (1000, 300)]) });
    }
    for (few, many) in [(1, 1000), (16, 10_000), (1000, 100_000)] {
        let name = format!("sizes alternate {few} {many}");
        cells.push(Cell::new(name, Warm, pair!(sum), &[(few, 4), (many, 4)]));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_decided_by_its_control_and_met_within_its_allowance() {
        let verdict = |conditions, quantile, times| Row::new("", conditions, quantile, times).verdict(1.0);
        for (conditions, quantile, times, expected) in [
            (Conditions::Warm, 0.5, [100.0, 120.0, 120.0], Verdict::Met),
            (Conditions::Warm, 0.5, [100.0, 80.0, 121.0], Verdict::Missed),
            (Conditions::Warm, 0.5, [100.0, 79.0, 100.0], Verdict::NotDecided),
            (Conditions::Neighbour, 0.5, [1000.0, 1000.0, 1051.0], Verdict::Missed),
            (Conditions::Warm, 0.99, [1000.0, 1000.0, 3000.0], Verdict::Met),
            (Conditions::Pause, 0.99, [1000.0, 1000.0, 13_001.0], Verdict::Missed),
            (Conditions::First, 0.5, [1e6, 1e6, 1.1e6], Verdict::Met),
        ] {
            assert_eq!(verdict(conditions, quantile, times), expected, "{conditions:?} {quantile} {times:?}");
        }
        assert_eq!(Row::new("", Conditions::Warm, 0.5, [100.0, 100.0, 180.0]).verdict(4.0), Verdict::Met);
    }

    #[test]
    fn names_of_cells_differ() {
        let names: std::collections::BTreeSet<String> = full(&[]).into_iter().map(|cell| cell.name).collect();
        assert_eq!(names.len(), full(&[]).len());
    }
}

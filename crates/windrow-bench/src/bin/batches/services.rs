//! A service: arrivals at random below the capacity of an actor, and a closed loop beside busy processes.

use std::time::Duration;

use tokio::runtime::Runtime;
use windrow_bench::neighbour::Neighbour;
use windrow_bench::stats::{geometric_mean, median};

use crate::arms::{Arm, Runner};
use crate::turn::{Open, Row, Shape, Turn, cell};
use crate::{Options, Outcome, grid, share};

/// A quantile of a turn.
type Quantile = fn(&Turn) -> f64;

/// The callers of both parts, and those of the neighbours' one.
pub(crate) const CALLERS: [u16; 3] = [1, 8, 64];
pub(crate) const CLOSED_CALLERS: [u16; 1] = [64];
/// F, in microseconds.
pub(crate) const FIXED: [f64; 3] = [100.0, 1_000.0, 5_000.0];
/// m, in microseconds.
pub(crate) const EACH: f64 = 0.5;
/// The measured time of a turn: with neighbours a time slice of 3 ms and more passes whenever the CPU is given up.
const MEASURED: Duration = Duration::from_millis(150);
const WARM: Duration = Duration::from_millis(40);

/// Bars of an open loop: a quantile relative to the better peer's, and the percentage of the cells that must hold it.
const LATE: (f64, f64) = (1.1, 90.0);
/// Operations a second beside busy processes by those of the better arm, in all cells.
const RATE: f64 = 0.8;

pub(crate) fn columns(first: &str) -> String {
    format!("{first},{}", grid::COLUMNS)
}

/// A cell: its condition and its rows.
struct Cell {
    name: String,
    rows: Vec<Row>,
}

impl Cell {
    fn row(&self, arm: Arm) -> Option<&Row> {
        self.rows.iter().find(|row| row.arm == arm)
    }

    /// The median of `arm` by that of the best of `others`: the least of `of`, a cost.
    fn by_best(&self, arm: Arm, others: &[Arm], of: fn(&Turn) -> f64) -> f64 {
        let others = others.iter().filter_map(|&other| self.row(other));
        let best = others.map(|row| row.median(of)).fold(f64::INFINITY, f64::min);
        self.row(arm).map_or(f64::NAN, |row| row.median(of) / best)
    }

    fn print(&self) {
        println!("{}", self.name);
        for row in &self.rows {
            let [rate, batch] = [row.median(|turn| turn.rate), row.median(|turn| turn.batch)];
            let [p50, p99] = [row.median(|turn| turn.p50), row.median(|turn| turn.p99)];
            let claims: Vec<f64> = row.turns.iter().filter_map(claim).collect();
            let claim = if claims.is_empty() { String::new() } else { format!("  claims x{:.2}", median(&claims)) };
            let name = row.arm.to_string();
            println!(
                "    {name:<28} {rate:>8.0}/s  batch {batch:>5.1}  p50 {p50:>8.0} us  p99 {p99:>8.0} us{claim}  [{}]",
                row.each(|turn| turn.rate)
            );
        }
    }
}

fn claim(turn: &Turn) -> Option<f64> {
    Some(turn.stats.as_ref()?.verdict()?.gain)
}

const PEERS: [Arm; 2] = [Arm::ActorThread, Arm::AintOne];

fn shape(shape: &Shape) -> Shape {
    Shape { warm: WARM.max(5 * shape.cost.fixed), measured: MEASURED.max(40 * shape.cost.fixed), ..*shape }
}

/// Counts verdicts for a lock in turns whose batches held two operations and more on average, and names one. F is at least 100 us here: a lock
/// would be slower.
fn wrong_verdicts(cells: &[Cell]) -> String {
    let (mut claims, mut wrong) = (0, Vec::new());
    for (cell, row) in cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row))) {
        for (turn, gain) in row.turns.iter().filter_map(|turn| Some((turn, claim(turn)?))) {
            claims += 1;
            if turn.batch >= 2.0 && gain < 0.9 {
                wrong.push(format!(" ({}, {}: x{gain:.2} in batches of {:.1})", cell.name, row.arm, turn.batch));
            }
        }
    }
    let (count, first) = (wrong.len(), wrong.first().map_or("", String::as_str));
    format!(
        "verdicts for a lock where batches of 2 and more ran: {count} of {claims}{first}, bar <= 0 {}",
        met(count == 0)
    )
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

/// Arrivals at `loads` percent of the capacity of an actor.
pub(crate) fn open(
    cells: &[Shape],
    options: &Options,
    repetitions: usize,
    runtime: &Runtime,
) -> Result<Outcome, String> {
    let (mut lines, mut all) = (Vec::new(), Vec::new());
    for closed in cells.iter().map(shape) {
        let actor = cell(&[Arm::ActorThread], &closed, 3, runtime)?;
        // Its batches may alternate at half size or not, from turn to turn, and an open loop brings the alternation.
        let capacity = actor[0].turns.iter().map(|turn| turn.rate).fold(f64::INFINITY, f64::min);
        for &load in &options.loads {
            let rate = capacity * f64::from(load) / 100.0 / closed.callers as f64;
            let shape = Shape { open: Some(Open { rate, seed: 0 }), ..closed };
            let rows = cell(&options.asked(Arm::of_service(shape.kind, false)), &shape, repetitions, runtime)?;
            lines.extend(grid::lines(&shape, &rows).map(|line| format!("{load},{line}")));
            let cell = Cell { name: format!("{shape}, {load} % of {capacity:.0}/s"), rows };
            cell.print();
            all.push(cell);
        }
    }
    let quantiles: [(&str, Quantile); 2] = [("p50", |turn| turn.p50), ("p99", |turn| turn.p99)];
    let mut notes = Vec::new();
    for (arm, is_judged) in [(Arm::Default, true), (Arm::THREAD, true), (Arm::ActorControl, false)] {
        for (name, of) in quantiles {
            let by = |cell: &Cell| cell.by_best(arm, &PEERS, of);
            let good = share(&all, |cell| by(cell) <= LATE.0);
            let bar = if is_judged { format!(", bar >= {} {}", LATE.1, met(good >= LATE.1)) } else { String::new() };
            let (mean, (worst, at)) = (geometric_mean(all.iter().map(by)), worst(&all, by));
            notes.push(format!(
                "{arm}: percent of {} cells with a {name} of at most {} of the better peer's: {good:.0} (geometric mean x{mean:.2}, worst \
                 x{worst:.2}: {at}){bar}",
                all.len(),
                LATE.0
            ));
        }
    }
    notes.push(wrong_verdicts(&all));
    Ok((lines, notes))
}

fn worst(cells: &[Cell], by: impl Fn(&Cell) -> f64) -> (f64, &str) {
    let all = cells.iter().map(|cell| (by(cell), cell.name.as_str()));
    all.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, ""))
}

/// A closed loop beside busy processes.
pub(crate) fn beside(
    cells: &[Shape],
    options: &Options,
    repetitions: usize,
    runtime: &Runtime,
) -> Result<Outcome, String> {
    let (mut lines, mut all) = (Vec::new(), Vec::new());
    for &count in &options.neighbours {
        let _neighbours: Vec<Neighbour> = (0..count).map(|_| Neighbour::start()).collect();
        for shape in cells.iter().map(shape) {
            let rows = cell(&options.asked(Arm::of_service(shape.kind, true)), &shape, repetitions, runtime)?;
            lines.extend(grid::lines(&shape, &rows).map(|line| format!("{count},{line}")));
            let cell = Cell { name: format!("{shape}, {count} neighbours"), rows };
            cell.print();
            all.push(cell);
        }
    }
    let cost: fn(&Turn) -> f64 = |turn| 1.0 / turn.rate;
    let mut notes = Vec::new();
    for (arm, runner) in [(Arm::Default, Runner::Callers), (Arm::THREAD, Runner::Thread)] {
        for (name, others) in [("its form without the wait", &[Arm::unwaited(runner)][..]), ("the better peer", &PEERS)]
        {
            let by = |cell: &Cell| cell.by_best(arm, others, cost);
            let good = share(&all, |cell| 1.0 / by(cell) >= RATE);
            let (mean, (worst, at)) = (geometric_mean(all.iter().map(|cell| 1.0 / by(cell))), worst(&all, by));
            notes.push(format!(
                "{arm}: percent of {} cells with at least {RATE} of the operations per second of {name}: {good:.0} (geometric mean \
                 x{mean:.2}, worst x{:.2}: {at}), bar >= 100 {}",
                all.len(),
                1.0 / worst,
                met(good >= 100.0)
            ));
        }
    }
    let control = |cell: &Cell| cell.by_best(Arm::ActorControl, &[Arm::ActorThread], cost);
    let (good, mean) = (share(&all, |cell| 1.0 / control(cell) >= RATE), geometric_mean(all.iter().map(control)));
    notes.push(wrong_verdicts(&all));
    notes.push(format!("an actor by itself: percent of cells above {RATE}: {good:.0} (geometric mean x{mean:.2})"));
    Ok((lines, notes))
}

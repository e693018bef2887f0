//! Overlap: rows are computed on one thread and sent over a paced link, tile by tile, against computing all and then sending all.
//!
//! The automatic choice is the cut that `windrow_tiling` plans from times measured here, which may be "do not tile". The sweep has equal
//! tiles.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use windrow::overlap::{self, Trace};
use windrow_tiling::cost::{Cost, Fitting, Sample, fit};
use windrow_tiling::tile::{Margin, Problem, Tiles};
use windrow_tiling::{Nanos, Rows};

use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::result::{Lane, Timeline};
use crate::stats::median;
use crate::work::{Item, TurnCosts, serial};
use crate::{Run, ScenarioGroup};

/// The work that is computed and sent.
#[derive(Clone, Copy, Debug)]
struct Pair {
    family: &'static str,
    /// Time to compute everything, in microseconds.
    compute: f64,
    /// Time to send everything, relative to that of computing everything.
    balance: f64,
    /// Latency of each message, in microseconds.
    latency: f64,
}

const CELLS: [Pair; 8] = [
    Pair { family: "even", compute: 500.0, balance: 1.0, latency: 20.0 },
    Pair { family: "even", compute: 2_000.0, balance: 1.0, latency: 20.0 },
    Pair { family: "even", compute: 8_000.0, balance: 1.0, latency: 20.0 },
    Pair { family: "mostly computing", compute: 4_000.0, balance: 0.25, latency: 20.0 },
    Pair { family: "mostly sending", compute: 4_000.0, balance: 4.0, latency: 20.0 },
    Pair { family: "slow messages", compute: 2_000.0, balance: 1.0, latency: 300.0 },
    Pair { family: "slow messages", compute: 8_000.0, balance: 1.0, latency: 300.0 },
    Pair { family: "messages not worth a cut", compute: 500.0, balance: 1.0, latency: 1_000.0 },
];
/// Rows of the operation. Tiles begin at multiples of [`ALIGN`].
const ROWS: usize = 1024;
const ALIGN: usize = 8;
/// Numbers of equal tiles to try.
const EQUAL: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128];

/// A link that copies, and then takes a fixed time for a message and a time for each row. Waiting takes no CPU time.
struct Link {
    latency: Duration,
    row: Duration,
    sent: Vec<u64>,
    /// The time at which all messages so far will have arrived. If a sleep lasts too long, the next ones are shorter, as with a device's queue.
    free: Option<Instant>,
}

impl Link {
    fn send(&mut self, rows: &[u64]) {
        let now = Instant::now();
        self.sent.extend_from_slice(rows);
        // A link that has been idle starts now.
        let begin = self.free.map_or(now, |free| free.max(now));
        let free = begin + self.latency + self.row * rows.len() as u32;
        self.free = Some(free);
        thread::sleep(free.saturating_duration_since(Instant::now()));
    }
}

/// The rows of one cell, and the link.
#[derive(Clone)]
struct Work {
    items: Vec<Item>,
    expected: Vec<u64>,
    latency: Duration,
    row: Duration,
}

impl Work {
    fn new(pair: Pair, calibration: &TurnCosts) -> Self {
        let nanos = |micros: f64| Duration::from_nanos((micros * 1e3) as u64);
        let turns = calibration.turns(pair.compute * 1e3 / ROWS as f64);
        let items: Vec<Item> = (1..=ROWS as u64).map(|seed| Item { seed, turns }).collect();
        let mut expected = vec![0; ROWS];
        serial(&items, &mut expected);
        Self { items, expected, latency: nanos(pair.latency), row: nanos(pair.compute * pair.balance / ROWS as f64) }
    }

    fn link(&self) -> Link {
        Link { latency: self.latency, row: self.row, sent: Vec::with_capacity(ROWS), free: None }
    }

    /// Computes everything, then sends everything.
    fn plain(&self, link: &mut Link) {
        let mut rows = vec![0; ROWS];
        serial(black_box(&self.items), &mut rows);
        link.send(&rows);
    }

    /// Tiles of these numbers of rows pass both lanes.
    fn tiled(&self, link: &mut Link, tiles: &[usize], trace: Option<&mut Trace>) -> Result<(), String> {
        let mut rest = &self.items[..];
        let parts: Vec<&[Item]> =
            tiles.iter().map(|&rows| rest.split_off(..rows).expect("the rows of all tiles")).collect();
        let lanes = overlap::source(parts)
            .compute("compute", |items: &[Item]| {
                let mut rows = vec![0; items.len()];
                serial(black_box(items), &mut rows);
                Ok::<_, String>(rows)
            })
            .blocking("send", |rows: Vec<u64>| {
                link.send(&rows);
                Ok(())
            });
        let lanes = match trace {
            Some(trace) => lanes.trace(trace),
            None => lanes,
        };
        lanes.run().map(|_| ()).map_err(|error| error.to_string())
    }

    /// Runs these tiles. A single tile is no overlap, and the plain code runs.
    fn run(&self, link: &mut Link, tiles: &[usize]) -> Result<(), String> {
        if let [_] = tiles {
            self.plain(link);
            return Ok(());
        }
        self.tiled(link, tiles, None)
    }

    fn timed(&self, ask: Ask, tiles: &[usize]) -> Result<f64, String> {
        let mut nanos = 0.0;
        for call in 0..ask.warm_up + ask.calls {
            let mut link = self.link();
            let start = Instant::now();
            self.run(&mut link, tiles)?;
            nanos += if call < ask.warm_up { 0.0 } else { start.elapsed().as_nanos() as f64 };
            if link.sent != self.expected {
                return Err("the rows differ from those of the plain code".to_owned());
            }
        }
        Ok(nanos / ask.calls as f64)
    }

    /// Measured times of some sizes, and their costs.
    fn costs(&self) -> Result<[Cost<Rows>; 2], String> {
        const SIZES: [usize; 5] = [16, 64, 256, 512, 1024];
        const TIMES: usize = 5;
        let of = |run: &mut dyn FnMut(usize) -> Duration| {
            let sample = |rows: usize| {
                let times: Vec<f64> = (0..TIMES).map(|_| run(rows).as_nanos() as f64).collect();
                Sample { size: Rows(rows as u64), time: Nanos(median(&times)) }
            };
            let mut samples = SIZES.map(sample);
            // A larger tile does not take less time, but noise may show less.
            for at in 1..samples.len() {
                samples[at].time = Nanos(samples[at].time.0.max(samples[at - 1].time.0));
            }
            fit(&samples, &Fitting::UNLIMITED).map(|fit| fit.cost).map_err(|error| error.to_string())
        };
        let mut rows = vec![0; ROWS];
        let compute = of(&mut |count| {
            let start = Instant::now();
            serial(black_box(&self.items[..count]), &mut rows[..count]);
            start.elapsed()
        })?;
        let send = of(&mut |count| {
            let (mut link, start) = (self.link(), Instant::now());
            link.send(&self.expected[..count]);
            start.elapsed()
        })?;
        Ok([compute, send])
    }

    /// The rows of each tile of the plan, and its reason.
    fn plan(&self) -> Result<(Vec<usize>, String), String> {
        let [compute, send] = self.costs()?;
        let (compute, send) = (|rows| compute.at(rows), |rows| send.at(rows));
        let problem = Problem {
            align: Rows(ALIGN as u64),
            min_tile: Rows(ALIGN as u64),
            ..Problem::new(Rows(ROWS as u64), &compute, &send)
        };
        // A cut starts a helper thread.
        let margin = Margin { error: 0.02, per_call: Nanos(50_000.0) };
        let plan = problem.plan_within(0.02, margin).map_err(|error| error.to_string())?;
        let why = format!("{}: {}", plan.tiles, plan.why);
        Ok((rows_of(&plan.tiles), why))
    }

    /// The times of each tile in each lane.
    fn timeline(&self, cell: &str, arm: &str, tiles: &[usize]) -> Result<Timeline, String> {
        let mut link = self.link();
        let (lanes, end) = if let [_] = tiles {
            let (mut rows, start) = (vec![0; ROWS], Instant::now());
            serial(black_box(&self.items), &mut rows);
            let computed = start.elapsed().as_nanos() as f64;
            link.send(&rows);
            let end = start.elapsed().as_nanos() as f64;
            let lane = |name: &str, tile| Lane { name: name.to_owned(), tiles: vec![tile] };
            (vec![lane("compute", (0.0, computed)), lane("send", (computed, end))], end)
        } else {
            let mut trace = Trace::new();
            self.tiled(&mut link, tiles, Some(&mut trace))?;
            let lanes = trace.lanes.iter().map(|lane| Lane {
                name: lane.name.clone(),
                tiles: lane.tiles.iter().map(|tile| (tile.start.0, tile.end.0)).collect(),
            });
            (lanes.collect(), trace.wall.0)
        };
        Ok(Timeline { cell: cell.to_owned(), arm: arm.to_owned(), lanes, end })
    }
}

fn rows_of(tiles: &Tiles) -> Vec<usize> {
    tiles.iter().map(|rows| rows.0 as usize).collect()
}

/// The rows of `tiles` tiles of almost equal size.
fn equal(tiles: usize) -> Vec<usize> {
    (0..tiles).map(|at| ROWS * (at + 1) / tiles - ROWS * at / tiles).collect()
}

/// Measures all pairs of lanes, and draws their timelines.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let calibration = TurnCosts::measure();
    for (_, pair) in run.wanted(CELLS) {
        let work = &Work::new(pair, &calibration);
        let (planned, why) = work.plan()?;
        let tiles = &planned;
        let name = format!("{}/{}us", pair.family, pair.compute);
        let plain = move |ask| work.timed(ask, &[ROWS]);
        let mut arms = vec![
            Arm::new("not tiled", Role::Serial, plain),
            Arm::new("control", Role::Control, plain),
            Arm::new("windrow", Role::Windrow, move |ask| work.timed(ask, tiles)),
        ];
        // One tile is the plain code, which the sweep has.
        arms.extend(EQUAL.into_iter().skip(1).map(|count| {
            let equal = equal(count);
            Arm::new(format!("{count} tiles"), Role::Fixed(count as f64), move |ask| work.timed(ask, &equal))
        }));
        // The slower lane, which no cut can shorten.
        let (compute, send) = (pair.compute, pair.compute * pair.balance + pair.latency);
        let sweep = ("tiles", Bound::Share(compute.max(send) / (compute + send)));
        let scenario = Scenario::new(ScenarioGroup::Overlap, pair.family, compute, sweep, arms, || why);
        run.measure(Scenario { name: name.clone(), single: true, ..scenario })?;
        run.timelines.push(work.timeline(&name, "not tiled", &[ROWS])?);
        run.timelines.push(work.timeline(&name, "windrow", tiles)?);
    }
    Ok(())
}

/// Number of cells.
pub(crate) fn count() -> usize {
    CELLS.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Pair = Pair { family: "even", compute: 200.0, balance: 1.0, latency: 5.0 };

    #[test]
    fn every_cut_sends_all_rows_in_order() {
        let work = Work::new(TINY, &TurnCosts::measure());
        let ask = Ask { warm_up: 0, calls: 1, ..Ask::default() };
        for tiles in EQUAL {
            let tiles = equal(tiles);
            assert_eq!((tiles.iter().sum::<usize>(), tiles.contains(&0)), (ROWS, false));
            assert!(work.timed(ask, &tiles).unwrap() >= 200e3, "a link takes its time");
        }
        let other = Work { expected: vec![0; ROWS], ..work.clone() };
        assert!(other.timed(ask, &equal(3)).is_err());
        assert_eq!(work.plan().unwrap().0.iter().sum::<usize>(), ROWS);
    }

    #[test]
    fn a_timeline_has_each_tile_in_each_lane() {
        let work = Work::new(TINY, &TurnCosts::measure());
        for tiles in [1, 4] {
            let timeline = work.timeline("even/200", "windrow", &equal(tiles)).unwrap();
            let counts: Vec<usize> = timeline.lanes.iter().map(|lane| lane.tiles.len()).collect();
            assert_eq!(counts, [tiles, tiles]);
            let spans = timeline.lanes.iter().flat_map(|lane| &lane.tiles);
            assert!(spans.clone().all(|(start, end)| start <= end && *end <= timeline.end), "{timeline:?}");
        }
    }
}

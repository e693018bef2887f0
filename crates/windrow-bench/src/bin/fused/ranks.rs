//! The cells, and what their two ranks measure.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use windrow_bench::measure::in_turn;
use windrow_bench::stats::median;
use windrow_collective::{Link, Operation, Outcome, Tiles};
use windrow_scenarios::products::{LATENCY, Ranks};
pub(crate) use windrow_scenarios::products::{RANKS, RankProduct as Shape, computation};
use windrow_tiling::tile::{self, Problem};
use windrow_tiling::{Nanos, Rows};

/// The cuts of the operation. The second arm is the control: the same as the first.
pub(crate) const ARMS: [(&str, Tiles); 8] = [
    ("auto", Tiles::Auto),
    ("auto again", Tiles::Auto),
    ("serial", Tiles::None),
    ("uniform 2", Tiles::Uniform(2)),
    ("uniform 4", Tiles::Uniform(4)),
    ("uniform 8", Tiles::Uniform(8)),
    ("uniform 16", Tiles::Uniform(16)),
    ("uniform 32", Tiles::Uniform(32)),
];

/// The speed of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// Communication takes so many times as long as computation.
    Times(f64),
    /// 10^6 bytes a second, and a latency in microseconds.
    Given(u64, u64),
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => write!(f, "{times}"),
            Self::Given(megabytes, latency) => write!(f, "{megabytes} MB/s {latency} us"),
        }
    }
}

/// A product over a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) shape: Shape,
    pub(crate) speed: Speed,
    /// Nanoseconds.
    pub(crate) computation: f64,
}

impl Cell {
    fn link(&self, operation: Operation) -> Link {
        let Shape { m, n, k } = self.shape;
        let (columns, steps) = match operation {
            Operation::MatmulAllReduce => (n, 2),
            Operation::MatmulReduceScatter => (n, 1),
            Operation::AllGatherMatmul => (k, 1),
        };
        let times = match self.speed {
            Speed::Given(megabytes, latency) => {
                return Link::new(1e6 * megabytes as f64, Duration::from_micros(latency));
            }
            Speed::Times(times) => times,
        };
        let bytes = (m * columns * size_of::<f32>() * steps * (RANKS - 1) / RANKS) as f64;
        let seconds = times * self.computation / 1e9;
        Link::new(bytes / (seconds - (steps * (RANKS - 1)) as f64 * LATENCY.as_secs_f64()), LATENCY)
    }
}

/// One run of an operation, in nanoseconds; the slowest rank counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Once {
    /// The whole call.
    pub(crate) elapsed: f64,
    /// From the beginning of the first tile until the last result was in place.
    pub(crate) tiles: f64,
    /// The computation of its tiles.
    pub(crate) computed: f64,
    /// The time that the link was asked to take for its tiles.
    pub(crate) asked: f64,
}

impl Once {
    fn new(Outcome { trace, elapsed, .. }: &Outcome) -> Self {
        let computed = trace.compute.iter().map(|span| span.length().0).sum();
        let asked = trace.paces.iter().flatten().map(|pace| pace.asked.as_nanos() as f64).sum();
        Self { elapsed: elapsed.0, tiles: trace.end.0, computed, asked }
    }

    fn slower(self, other: Self) -> Self {
        Self {
            elapsed: self.elapsed.max(other.elapsed),
            tiles: self.tiles.max(other.tiles),
            computed: self.computed.max(other.computed),
            asked: self.asked.max(other.asked),
        }
    }
}

/// The measurements of a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// By arm and repetition.
    pub(crate) times: Vec<Vec<Once>>,
    /// The plan of rank 0.
    pub(crate) plan: Option<tile::Plan>,
    /// Its predicted time of the whole call, in nanoseconds.
    pub(crate) predicted: Option<f64>,
}

impl Measured {
    /// The time of the computation in one piece: the median and the minimum.
    pub(crate) fn computation(&self) -> (f64, f64) {
        let serial: Vec<f64> = self.times[2].iter().map(|once| once.computed).collect();
        (median(&serial), serial.into_iter().fold(f64::INFINITY, f64::min))
    }

    /// The time that the link was asked to take for the operation in one piece.
    pub(crate) fn communication(&self) -> f64 {
        self.times[2][0].asked
    }

    /// The least possible time of any cut, without and with contention. It uses the times of this run and the calibrated slowdown.
    pub(crate) fn bounds(&self) -> Option<tile::Bounds> {
        let (computation, communication) = (self.computation().0, self.communication());
        let (compute, communicate) = (|_: Rows| Nanos(computation), |_: Rows| Nanos(communication));
        let contention = self.plan.as_ref()?.inputs.contention;
        // An infinitely fine cut has the bounds of one tile.
        let problem = Problem { contention, ..Problem::new(Rows(1), &compute, &communicate) };
        problem.plan().ok().map(|plan| plan.bounds)
    }
}

/// Calibrates all cells, then runs all arms of all cells, interleaved.
pub(crate) fn measure(operation: Operation, cells: &[Cell], repetitions: usize) -> Result<Vec<Measured>, String> {
    let began = Instant::now();
    thread::scope(|scope| {
        let mut ranks = Vec::new();
        for cell in cells {
            ranks.push(Ranks::start(scope, operation, cell.shape, Some(cell.link(operation))));
            // The calibration ends before the next one begins.
            ranks[ranks.len() - 1].run(&Tiles::None)?;
        }
        println!("calibrated after {:.0} s", began.elapsed().as_secs_f64());
        let mut measured = vec![Measured { times: vec![Vec::new(); ARMS.len()], ..Measured::default() }; cells.len()];
        for repetition in 0..repetitions {
            for (ranks, measured) in ranks.iter().zip(&mut measured) {
                // The first arm must not find the memory of the cell before.
                ranks.run(&Tiles::None)?;
                for arm in in_turn(ARMS.len(), repetition) {
                    let mut outcomes = ranks.run(&ARMS[arm].1)?;
                    let slowest = outcomes.iter().map(Once::new).reduce(Once::slower);
                    measured.times[arm].extend(slowest);
                    let first = outcomes.swap_remove(0);
                    measured.predicted = first.predicted_call.map(|time| time.0).or(measured.predicted);
                    measured.plan = first.plan.or(measured.plan.take());
                }
            }
        }
        Ok(measured)
    })
}

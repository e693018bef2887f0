//! Two ranks that run every cell, and check every result.
//!
//! A product with a vector checks a result (Freivalds 1977): `c x` is compared with `sum over ranks of a (b x)`. All values are
//! whole numbers that `f64` and `f32` hold, so there is no tolerance. The check takes much less time than the product.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use windrow_bench::measure::in_turn;
use windrow_bench::random::Random;
use windrow_bench::stats::median;
use windrow_collective::{
    Calibration, Communicator, Error, Fused, Group, Link, MatMut, MatRef, Operation, Outcome, Profile, Rank, Tiles,
};
use windrow_sync::machine;
use windrow_tiling::tile::{self, Problem};
use windrow_tiling::{Nanos, Rows};

/// As many ranks as the machine has processors.
pub(crate) const RANKS: usize = 2;

/// The latency of the links: that of a network within a room.
pub(crate) const LATENCY: Duration = Duration::from_micros(10);

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

/// A product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

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

/// Small whole numbers, different for every rank and element.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.below(4) as f32).collect()
}

/// Operands and result of one rank, and the expected result.
struct Operands {
    operation: Operation,
    shape: Shape,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    x: Vec<f64>,
    expected: Vec<f64>,
}

/// `matrix * x`
fn times(matrix: &[f32], x: &[f64]) -> Vec<f64> {
    let dot = |row: &[f32]| row.iter().zip(x).map(|(&element, x)| f64::from(element) * x).sum();
    matrix.chunks_exact(x.len()).map(dot).collect()
}

impl Operands {
    fn new(operation: Operation, shape: Shape, rank: usize) -> Self {
        let Shape { m, n, k } = shape;
        let (rows_a, rows_c) = match operation {
            Operation::MatmulAllReduce => (m, m),
            Operation::MatmulReduceScatter => (m, m / RANKS),
            Operation::AllGatherMatmul => (m / RANKS, m),
        };
        let of = |rank: usize| (numbers(2 * rank as u64, rows_a * k), numbers(2 * rank as u64 + 1, k * n));
        let mut random = Random::new(7);
        let x: Vec<f64> = (0..n).map(|_| 1.0 + random.below(64) as f64).collect();
        let (a, b) = of(rank);
        let expected = if operation == Operation::AllGatherMatmul {
            let bx = times(&b, &x);
            (0..RANKS).flat_map(|rank| times(&of(rank).0, &bx)).collect()
        } else {
            let mut sum = vec![0.0; m];
            for (a, b) in (0..RANKS).map(of) {
                sum.iter_mut().zip(times(&a, &times(&b, &x))).for_each(|(sum, value)| *sum += value);
            }
            if rows_c == m { sum } else { sum[rank * rows_c..(rank + 1) * rows_c].to_vec() }
        };
        Self { operation, shape, a, b, c: vec![f32::NAN; rows_c * n], x, expected }
    }

    /// One run; all ranks begin together.
    fn run(&mut self, fused: &mut Fused<Rank>, tiles: &Tiles) -> Result<Outcome, Error> {
        let Shape { n, k, .. } = self.shape;
        self.c.fill(f32::NAN);
        let (a, b) = (MatRef::new(&self.a, self.a.len() / k, k), MatRef::new(&self.b, k, n));
        let rows = self.c.len() / n;
        let c = MatMut::new(&mut self.c, rows, n);
        fused.communicator().barrier()?;
        let outcome = match self.operation {
            Operation::MatmulAllReduce => fused.matmul_all_reduce(a, b, c, tiles),
            Operation::MatmulReduceScatter => fused.matmul_reduce_scatter(a, b, c, tiles),
            Operation::AllGatherMatmul => fused.all_gather_matmul(a, b, c, tiles),
        }?;
        assert!(times(&self.c, &self.x) == self.expected, "{tiles:?} of {:?} gives a wrong result", self.shape);
        Ok(outcome)
    }
}

/// Runs both ranks, each on a thread. Returns their results.
fn on_all<R: Send>(
    groups: Vec<Group>,
    run: impl Fn(usize, Vec<Fused<Rank>>) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let mut of: Vec<Vec<Rank>> = (0..RANKS).map(|_| Vec::new()).collect();
    for group in groups {
        of.iter_mut().zip(group.ranks()).for_each(|(of, rank)| of.push(rank));
    }
    let run = &run;
    thread::scope(|scope| {
        let start = |(rank, of): (usize, Vec<Rank>)| {
            scope.spawn(move || {
                let this = machine::Thread::this();
                // Bound as by mpirun, or both may begin on one processor. The communication threads inherit the binding.
                this.confine(&this.allowed()[rank..=rank]);
                run(rank, of.into_iter().map(Fused::new).collect::<Result<_, _>>()?)
            })
        };
        let running: Vec<_> = of.into_iter().enumerate().map(start).collect();
        running.into_iter().map(|rank| rank.join().expect("a rank panicked")).collect()
    })
}

/// The time of the shapes' computation in one piece, in nanoseconds, on both ranks at once.
pub(crate) fn computations(operation: Operation, shapes: &[Shape]) -> Result<Vec<f64>, Error> {
    let ranks = on_all(vec![Group::new(RANKS)], |rank, mut of| {
        let each = |&shape: &Shape| {
            let mut operands = Operands::new(operation, shape, rank);
            let mut once = || Ok(Once::new(&operands.run(&mut of[0], &Tiles::None)?).computed);
            once()?;
            Ok(median(&(0..7).map(|_| once()).collect::<Result<Vec<_>, Error>>()?))
        };
        shapes.iter().map(each).collect::<Result<Vec<_>, Error>>()
    })?;
    Ok((0..shapes.len()).map(|at| ranks.iter().map(|rank| rank[at]).fold(0.0, f64::max)).collect())
}

/// The tiles of the calibration: a 32nd of the rows to all of them.
fn calibration(shape: Shape) -> Calibration {
    let align = (shape.m / 64).next_multiple_of(8);
    let rows = [32, 16, 8, 4, 2, 1].map(|parts| (shape.m / parts).next_multiple_of(align));
    Calibration { rows: rows.to_vec(), align: align as u64, ..Calibration::default() }
}

/// Repeats the calibration on a busy machine, whose times scatter. All ranks have the same times and repeat together.
fn calibrate(fused: &mut Fused<Rank>, operation: Operation, shape: Shape) -> Result<Profile, Error> {
    let mut how = calibration(shape);
    let mut profile = fused.calibrate::<f32>(operation, shape.n, shape.k, &how)?;
    for _ in 0..2 {
        if profile.fit_error() <= how.fitting.tolerance {
            break;
        }
        how.repeats *= 2;
        profile = fused.calibrate::<f32>(operation, shape.n, shape.k, &how)?;
    }
    Ok(profile)
}

/// Calibrates all cells, then runs all arms of all cells, interleaved.
pub(crate) fn measure(operation: Operation, cells: &[Cell], repetitions: usize) -> Result<Vec<Measured>, Error> {
    let groups = cells.iter().map(|cell| Group::new(RANKS).link(cell.link(operation))).collect();
    let began = Instant::now();
    let ranks = on_all(groups, |rank, mut of| {
        let mut shapes: Vec<Operands> = Vec::new();
        for Cell { shape, .. } in cells {
            if shapes.iter().all(|known| known.shape != *shape) {
                shapes.push(Operands::new(operation, *shape, rank));
            }
        }
        for (fused, cell) in of.iter_mut().zip(cells) {
            let profile = calibrate(fused, operation, cell.shape)?;
            fused.use_profile(profile);
        }
        if rank == 0 {
            println!("calibrated after {:.0} s", began.elapsed().as_secs_f64());
        }
        let mut measured =
            vec![Measured { times: vec![Vec::new(); ARMS.len()], plan: None, predicted: None }; cells.len()];
        for repetition in 0..repetitions {
            for ((fused, cell), measured) in of.iter_mut().zip(cells).zip(&mut measured) {
                let operands = shapes.iter_mut().find(|known| known.shape == cell.shape).expect("all are there");
                // The first arm must not find the memory of the cell before.
                operands.run(fused, &Tiles::None)?;
                for arm in in_turn(ARMS.len(), repetition) {
                    let outcome = operands.run(fused, &ARMS[arm].1)?;
                    measured.times[arm].push(Once::new(&outcome));
                    measured.predicted = outcome.predicted_call.map(|time| time.0).or(measured.predicted);
                    measured.plan = outcome.plan.or(measured.plan.take());
                }
            }
        }
        Ok(measured)
    })?;
    let slower = |one: Measured, other: Measured| {
        let arm = |(one, other): (Vec<Once>, Vec<Once>)| {
            one.into_iter().zip(other).map(|(one, other)| one.slower(other)).collect()
        };
        Measured {
            times: one.times.into_iter().zip(other.times).map(arm).collect(),
            plan: one.plan.or(other.plan),
            predicted: one.predicted.or(other.predicted),
        }
    };
    let together = ranks
        .into_iter()
        .reduce(|one, other| one.into_iter().zip(other).map(|(one, other)| slower(one, other)).collect());
    Ok(together.unwrap_or_default())
}

//! Overlap: matrix products fused with an all-reduce, on two ranks of this process with a paced link between them, against computing the
//! whole product and then communicating it.
//!
//! `windrow_collective` makes the automatic choice, from a profile measured here. The sweep has equal tiles.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use windrow_collective::{
    Calibration, Communicator, Error, Fused, Group, Link, MatMut, MatRef, Operation, Outcome, Profile, Rank, Tiles,
};
use windrow_sync::machine;
use windrow_tiling::tile;

use crate::measure::{Arm, Ask, Bound, Role, Scenario};
use crate::result::{Lane, Timeline};
use crate::stats::median;
use crate::work::Random;
use crate::{Run, ScenarioGroup};

/// `m` x `k` times `k` x `n`, on each rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankProduct {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Depth.
    pub k: usize,
}

const SHAPES: [RankProduct; 2] = [RankProduct { m: 512, n: 256, k: 256 }, RankProduct { m: 1024, n: 512, k: 512 }];
/// Communicating everything, relative to computing everything.
const BALANCES: [(&str, f64); 3] =
    [("product, fast link", 0.5), ("product, even link", 1.0), ("product, slow link", 2.0)];
/// The number of ranks, which is the number of processors of the smallest machine.
pub const RANKS: usize = 2;
/// Latency of a step of the links, typical of a network within a room.
pub const LATENCY: Duration = Duration::from_micros(10);
/// Numbers of equal tiles to try.
const EQUAL: [usize; 5] = [2, 4, 8, 16, 32];
/// Runs that measure how long the computation takes.
const TRIALS: usize = 7;

/// Operands and result of one rank. A product with a vector checks the result (Freivalds 1977): `c x` is compared with the sum over ranks of
/// `a (b x)`. All values are whole numbers that `f64` and `f32` hold, so there is no tolerance.
struct Operands {
    operation: Operation,
    of: RankProduct,
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
    fn new(operation: Operation, of: RankProduct, rank: usize) -> Self {
        let RankProduct { m, n, k } = of;
        let (rows_a, rows_c) = match operation {
            Operation::MatmulAllReduce => (m, m),
            Operation::MatmulReduceScatter => (m, m / RANKS),
            Operation::AllGatherMatmul => (m / RANKS, m),
        };
        let numbers = |seed: usize, len: usize| -> Vec<f32> {
            let mut random = Random::new(seed as u64);
            (0..len).map(|_| random.below(4) as f32).collect()
        };
        let both = |rank: usize| (numbers(2 * rank, rows_a * k), numbers(2 * rank + 1, k * n));
        let mut random = Random::new(7);
        let x: Vec<f64> = (0..n).map(|_| 1.0 + random.below(64) as f64).collect();
        let (a, b) = both(rank);
        let expected = if operation == Operation::AllGatherMatmul {
            let bx = times(&b, &x);
            (0..RANKS).flat_map(|rank| times(&both(rank).0, &bx)).collect()
        } else {
            let mut sum = vec![0.0; m];
            for (a, b) in (0..RANKS).map(both) {
                sum.iter_mut().zip(times(&a, &times(&b, &x))).for_each(|(sum, value)| *sum += value);
            }
            if rows_c == m { sum } else { sum[rank * rows_c..(rank + 1) * rows_c].to_vec() }
        };
        Self { operation, of, a, b, c: vec![f32::NAN; rows_c * n], x, expected }
    }

    /// All ranks begin together.
    fn run(&mut self, fused: &mut Fused<Rank>, tiles: &Tiles) -> Result<Outcome, String> {
        let RankProduct { n, k, .. } = self.of;
        self.c.fill(f32::NAN);
        let (a, b) = (MatRef::new(&self.a, self.a.len() / k, k), MatRef::new(&self.b, k, n));
        let rows = self.c.len() / n;
        let c = MatMut::new(&mut self.c, rows, n);
        fused.communicator().barrier().map_err(|error| error.to_string())?;
        let run = match self.operation {
            Operation::MatmulAllReduce => fused.matmul_all_reduce(a, b, c, tiles),
            Operation::MatmulReduceScatter => fused.matmul_reduce_scatter(a, b, c, tiles),
            Operation::AllGatherMatmul => fused.all_gather_matmul(a, b, c, tiles),
        };
        let outcome = run.map_err(|error| error.to_string())?;
        if times(&self.c, &self.x) == self.expected {
            Ok(outcome)
        } else {
            Err("the product differs from that of the plain code".to_owned())
        }
    }
}

/// A rank's thread: its requests and its answers.
#[derive(Debug)]
struct Running {
    ask: Sender<Tiles>,
    told: Receiver<Result<Outcome, String>>,
}

/// Both ranks of an operation, each on a thread. They end when this is dropped.
#[derive(Debug)]
pub struct Ranks(Vec<Running>);

impl Ranks {
    /// With a link, the ranks calibrate themselves for it, before their first call.
    pub fn start<'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        operation: Operation,
        product: RankProduct,
        link: Option<Link>,
    ) -> Self {
        let calibrates = link.is_some();
        let group = Group::new(RANKS);
        let group = if let Some(link) = link { group.link(link) } else { group };
        let start = |(at, rank): (usize, Rank)| {
            let ((ask, asked), (tell, told)) = (channel::<Tiles>(), channel());
            scope.spawn(move || {
                // The thread is bound, as with mpirun: both might begin on one CPU. The communicating threads inherit the binding.
                let this = machine::Thread::this();
                if let Some(own) = this.allowed().get(at..=at) {
                    this.confine(own);
                }
                let operands = Operands::new(operation, product, at);
                if let Err(error) = serve(rank, operands, calibrates, &asked, &tell) {
                    // The other side may have gone.
                    let _ = tell.send(Err(error));
                }
            });
            Running { ask, told }
        };
        Self(group.ranks().into_iter().enumerate().map(start).collect())
    }

    /// One call on all ranks.
    ///
    /// # Errors
    /// A rank fails, or its result is wrong.
    pub fn run(&self, tiles: &Tiles) -> Result<Vec<Outcome>, String> {
        let gone = "a rank has ended";
        self.0.iter().try_for_each(|rank| rank.ask.send(tiles.clone()).map_err(|_| gone.to_owned()))?;
        self.0.iter().map(|rank| rank.told.recv().map_err(|_| gone.to_owned())?).collect()
    }

    /// The mean of a call in nanoseconds; of all ranks, the slowest counts.
    fn timed(&self, ask: Ask, tiles: &Tiles, time: fn(&Outcome) -> f64) -> Result<f64, String> {
        let mut nanos = 0.0;
        for call in 0..ask.warm_up + ask.calls {
            let slowest = self.run(tiles)?.iter().map(time).fold(0.0, f64::max);
            nanos += if call < ask.warm_up { 0.0 } else { slowest };
        }
        Ok(nanos / ask.calls as f64)
    }

    /// The times of each tile in each lane of the first rank.
    fn timeline(&self, cell: &str, arm: &str, tiles: &Tiles) -> Result<Timeline, String> {
        let Outcome { trace, .. } = self.run(tiles)?.swap_remove(0);
        let lane = |(name, lane): (&str, tile::Lane)| Lane {
            name: name.to_owned(),
            tiles: trace.spans(lane).iter().map(|span| (span.start.0, span.end.0)).collect(),
        };
        let lanes = [("compute", tile::Lane::Compute), ("send", tile::Lane::Communicate)].map(lane).into();
        Ok(Timeline { cell: cell.to_owned(), arm: arm.to_owned(), lanes, end: trace.end.0 })
    }
}

/// Serves requests until no more can come.
fn serve(
    rank: Rank,
    mut operands: Operands,
    calibrates: bool,
    asked: &Receiver<Tiles>,
    tell: &Sender<Result<Outcome, String>>,
) -> Result<(), String> {
    let mut fused = Fused::new(rank).map_err(|error| error.to_string())?;
    if calibrates {
        let profile = calibrate(&mut fused, operands.operation, operands.of).map_err(|error| error.to_string())?;
        fused.use_profile(profile);
    }
    for tiles in asked {
        if tell.send(operands.run(&mut fused, &tiles)).is_err() {
            break;
        }
    }
    Ok(())
}

/// A profile of tiles from a 32nd of the rows to all of them. Repeats the calibration on a busy machine, whose times scatter. All ranks have the
/// same times and repeat together.
fn calibrate(fused: &mut Fused<Rank>, operation: Operation, of: RankProduct) -> Result<Profile, Error> {
    let align = (of.m / 64).next_multiple_of(8);
    let rows = [32, 16, 8, 4, 2, 1].map(|parts| (of.m / parts).next_multiple_of(align));
    let mut how = Calibration { rows: rows.to_vec(), align: align as u64, ..Calibration::default() };
    let mut profile = fused.calibrate::<f32>(operation, of.n, of.k, &how)?;
    for _ in 0..2 {
        if profile.fit_error() <= how.fitting.tolerance {
            break;
        }
        how.repeats *= 2;
        profile = fused.calibrate::<f32>(operation, of.n, of.k, &how)?;
    }
    Ok(profile)
}

fn computed(outcome: &Outcome) -> f64 {
    outcome.trace.compute.iter().map(|span| span.length().0).sum()
}

/// The time of the longer lane, in one piece.
fn longer_lane(outcome: &Outcome) -> f64 {
    let asked: Duration = outcome.trace.paces.iter().flatten().map(|pace| pace.asked).sum();
    computed(outcome).max(asked.as_nanos() as f64)
}

/// Nanoseconds of the computation in one piece, without a link, on both ranks at once.
///
/// # Errors
/// The errors of [`Ranks::run`].
pub fn computation(operation: Operation, product: RankProduct) -> Result<f64, String> {
    thread::scope(|scope| {
        let ranks = Ranks::start(scope, operation, product, None);
        let ask = Ask { warm_up: 1, calls: 1, ..Ask::default() };
        let times: Result<Vec<f64>, String> = (0..TRIALS).map(|_| ranks.timed(ask, &Tiles::None, computed)).collect();
        Ok(median(&times?))
    })
}

/// Measures all products, and draws their timelines.
pub(crate) fn run(run: &mut Run<'_>) -> Result<(), String> {
    let cells = SHAPES.iter().flat_map(|&shape| BALANCES.map(|balance| (shape, balance)));
    for (_, (product, (family, balance))) in run.wanted(cells.take(count(run.settings.cpus))) {
        let computation = computation(Operation::MatmulAllReduce, product)?;
        let RankProduct { m, n, k } = product;
        // Each rank sends half of the result twice.
        let (bytes, latency) = ((m * n * size_of::<f32>()) as f64, 2.0 * LATENCY.as_secs_f64());
        let link = Link::new(bytes / (balance * computation / 1e9 - latency).max(latency), LATENCY);
        let name = format!("{family}/{m}x{n}x{k}");
        thread::scope(|scope| {
            let ranks = &Ranks::start(scope, Operation::MatmulAllReduce, product, Some(link));
            let why = ranks.run(&Tiles::Auto)?.swap_remove(0).plan;
            let why = why.map_or_else(String::new, |plan| format!("{}: {}", plan.tiles, plan.why));
            let elapsed = |outcome: &Outcome| outcome.elapsed.0;
            let arm =
                |name: String, role, tiles: Tiles| Arm::new(name, role, move |ask| ranks.timed(ask, &tiles, elapsed));
            let mut arms = vec![
                arm("not tiled".to_owned(), Role::Serial, Tiles::None),
                arm("control".to_owned(), Role::Control, Tiles::None),
                arm("windrow".to_owned(), Role::Windrow, Tiles::Auto),
            ];
            let equal = |count| arm(format!("{count} tiles"), Role::Fixed(count as f64), Tiles::Uniform(count));
            arms.extend(EQUAL.map(equal));
            let bound = move |ask| ranks.timed(ask, &Tiles::None, longer_lane);
            arms.push(Arm::new("the longer lane", Role::Bound, bound));
            let (size, sweep) = (computation / 1e3, ("tiles", Bound::Measured));
            let scenario = Scenario::new(ScenarioGroup::Overlap, family, size, sweep, arms, || why);
            run.measure(Scenario { name: name.clone(), single: true, ..scenario })?;
            run.timelines.push(ranks.timeline(&name, "not tiled", &Tiles::None)?);
            run.timelines.push(ranks.timeline(&name, "windrow", &Tiles::Auto)?);
            Ok::<_, String>(())
        })?;
    }
    Ok(())
}

/// The number of cells: none on one CPU, which both ranks would share.
pub(crate) fn count(cpus: usize) -> usize {
    if cpus < RANKS { 0 } else { SHAPES.len() * BALANCES.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: RankProduct = RankProduct { m: 64, n: 16, k: 8 };

    #[test]
    fn every_cut_has_the_product_and_a_timeline() {
        thread::scope(|scope| {
            let link = Link::new(1e9, Duration::from_micros(1));
            let ranks = Ranks::start(scope, Operation::MatmulAllReduce, SMALL, Some(link));
            let ask = Ask { warm_up: 1, calls: 2, ..Ask::default() };
            for tiles in [Tiles::None, Tiles::Auto, Tiles::Uniform(4)] {
                assert!(ranks.timed(ask, &tiles, |outcome| outcome.elapsed.0).unwrap() > 0.0);
            }
            let timeline = ranks.timeline("a cell", "4 tiles", &Tiles::Uniform(4)).unwrap();
            assert_eq!(timeline.lanes.iter().map(|lane| lane.tiles.len()).collect::<Vec<_>>(), [4, 4]);
        });
    }

    #[test]
    fn a_wrong_product_is_an_error() {
        thread::scope(|scope| {
            for (at, rank) in Group::new(RANKS).ranks().into_iter().enumerate() {
                scope.spawn(move || {
                    let mut operands = Operands::new(Operation::MatmulAllReduce, SMALL, at);
                    operands.expected[5] += 1.0;
                    let error = operands.run(&mut Fused::new(rank).unwrap(), &Tiles::None).unwrap_err();
                    assert_eq!(error, "the product differs from that of the plain code");
                });
            }
        });
    }

    #[test]
    fn every_operation_has_its_product() {
        for operation in [Operation::MatmulReduceScatter, Operation::AllGatherMatmul] {
            thread::scope(|scope| {
                let ranks = Ranks::start(scope, operation, SMALL, None);
                assert_eq!(ranks.run(&Tiles::Uniform(2)).unwrap().len(), RANKS);
            });
        }
    }

    #[test]
    fn the_computation_takes_some_time() {
        assert!(computation(Operation::MatmulAllReduce, SMALL).unwrap() > 0.0);
    }
}

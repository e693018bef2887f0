//! Overlap: matrix products fused with an all-reduce, on two ranks of this process with a paced link between them, against computing the
//! whole product and then communicating it.
//!
//! The automatic choice is that of `windrow_collective`, from a profile measured here. The sweep has equal tiles.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use windrow_collective::{
    Calibration, Communicator, Error, Fused, Group, Link, MatMut, MatRef, Operation, Outcome, Rank, Tiles,
};
use windrow_sync::machine;
use windrow_tiling::tile;

use super::measure::{Arm, Ask, Bound, Role, Scenario};
use super::result::{Lane, Shape, Timeline, Unit};
use super::stats::median;
use super::work::Random;

/// `m` x `k` times `k` x `n`, on each rank.
#[derive(Clone, Copy, Debug)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
}

const SHAPES: [Product; 2] = [Product { m: 512, n: 256, k: 256 }, Product { m: 1024, n: 512, k: 512 }];
/// Communicating everything, relative to computing everything.
const BALANCES: [(&str, f64); 3] =
    [("product, fast link", 0.5), ("product, even link", 1.0), ("product, slow link", 2.0)];
const RANKS: usize = 2;
/// Once for each of the two steps of an all-reduce: that of a network within a room.
const LATENCY: Duration = Duration::from_micros(10);
/// Numbers of equal tiles to try.
const EQUAL: [usize; 5] = [2, 4, 8, 16, 32];
/// Runs that tell how long the computation takes.
const TRIALS: usize = 5;

/// The operands of a rank, whole numbers, and the sum of all ranks' products, which `f32` holds exactly.
struct Operands {
    of: Product,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    expected: Vec<f32>,
}

impl Operands {
    fn of_all(product: Product) -> Vec<Self> {
        let Product { m, n, k } = product;
        let mut random = Random::new(5);
        let mut numbers = |len: usize| -> Vec<f32> { (0..len).map(|_| random.below(4) as f32).collect() };
        let mut expected = vec![0.0; m * n];
        let operands: Vec<_> = (0..RANKS).map(|_| (numbers(m * k), numbers(k * n))).collect();
        for (a, b) in &operands {
            for (row, out) in a.chunks_exact(k).zip(expected.chunks_exact_mut(n)) {
                for (a, line) in row.iter().zip(b.chunks_exact(n)) {
                    out.iter_mut().zip(line).for_each(|(out, b): (&mut f32, &f32)| *out += a * b);
                }
            }
        }
        let own = |(a, b)| Self { of: product, a, b, c: vec![f32::NAN; m * n], expected: expected.clone() };
        operands.into_iter().map(own).collect()
    }

    /// All ranks begin together.
    fn run(&mut self, fused: &mut Fused<Rank>, tiles: &Tiles) -> Result<Outcome, String> {
        let Product { m, n, k } = self.of;
        self.c.fill(f32::NAN);
        let mut run = || -> Result<Outcome, Error> {
            fused.communicator().barrier()?;
            let (a, b) = (MatRef::new(&self.a, m, k), MatRef::new(&self.b, k, n));
            fused.matmul_all_reduce(a, b, MatMut::new(&mut self.c, m, n), tiles)
        };
        let outcome = run().map_err(|error| error.to_string())?;
        if self.c == self.expected { Ok(outcome) } else { Err("another product than the plain code".to_owned()) }
    }
}

/// A rank's thread: what it is asked, and what it answers.
struct Running {
    ask: Sender<Tiles>,
    told: Receiver<Result<Outcome, String>>,
}

/// Both ranks, each on a thread. They end when this is dropped.
struct Ranks(Vec<Running>);

impl Ranks {
    /// With a link, the ranks calibrate themselves for it.
    fn start<'scope>(scope: &'scope thread::Scope<'scope, '_>, product: Product, link: Option<Link>) -> Self {
        let calibrates = link.is_some();
        let group = Group::new(RANKS);
        let group = if let Some(link) = link { group.link(link) } else { group };
        let start = |(at, (rank, operands)): (usize, (Rank, Operands))| {
            let ((ask, asked), (tell, told)) = (channel::<Tiles>(), channel());
            scope.spawn(move || {
                // Bound, as by mpirun: both might begin on one CPU.
                let this = machine::Thread::this();
                if let Some(own) = this.allowed().get(at..=at) {
                    this.confine(own);
                }
                if let Err(error) = serve(rank, operands, calibrates, &asked, &tell) {
                    // The other side may have gone.
                    let _ = tell.send(Err(error));
                }
            });
            Running { ask, told }
        };
        Self(group.ranks().into_iter().zip(Operands::of_all(product)).enumerate().map(start).collect())
    }

    /// One call on all ranks.
    fn run(&self, tiles: &Tiles) -> Result<Vec<Outcome>, String> {
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

    /// When each tile was in each lane of the first rank.
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

/// Runs what is asked until nothing more can be.
fn serve(
    rank: Rank,
    mut operands: Operands,
    calibrates: bool,
    asked: &Receiver<Tiles>,
    tell: &Sender<Result<Outcome, String>>,
) -> Result<(), String> {
    let mut fused = Fused::new(rank).map_err(|error| error.to_string())?;
    if calibrates {
        let Product { m, n, k } = operands.of;
        let how =
            Calibration { rows: [16, 8, 4, 2, 1].map(|part| m / part).into(), align: 8, ..Calibration::default() };
        let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, n, k, &how);
        fused.use_profile(profile.map_err(|error| error.to_string())?);
    }
    for tiles in asked {
        if tell.send(operands.run(&mut fused, &tiles)).is_err() {
            break;
        }
    }
    Ok(())
}

fn computed(outcome: &Outcome) -> f64 {
    outcome.trace.compute.iter().map(|span| span.length().0).sum()
}

/// The longer lane alone, in one piece.
fn longer_lane(outcome: &Outcome) -> f64 {
    let asked: Duration = outcome.trace.paces.iter().flatten().map(|pace| pace.asked).sum();
    computed(outcome).max(asked.as_nanos() as f64)
}

/// Nanoseconds of the computation in one piece, without a link.
fn computation(product: Product) -> Result<f64, String> {
    thread::scope(|scope| {
        let ranks = Ranks::start(scope, product, None);
        let ask = Ask { warm_up: 1, calls: 1, ..Ask::default() };
        let times: Result<Vec<f64>, String> = (0..TRIALS).map(|_| ranks.timed(ask, &Tiles::None, computed)).collect();
        Ok(median(&times?))
    })
}

/// Measures each cell through `measure`, and gives its timelines to `draw`.
pub(super) fn run(
    wanted: impl Fn(usize) -> bool,
    mut measure: impl FnMut(Scenario<'_>) -> Result<(), String>,
    mut draw: impl FnMut(Timeline),
) -> Result<(), String> {
    let cells = SHAPES.iter().flat_map(|&shape| BALANCES.map(|balance| (shape, balance)));
    for (_, (product, (family, balance))) in cells.enumerate().filter(|(index, _)| wanted(*index)) {
        let computation = computation(product)?;
        let Product { m, n, k } = product;
        // Each rank sends half of the result twice.
        let (bytes, latency) = ((m * n * size_of::<f32>()) as f64, 2.0 * LATENCY.as_secs_f64());
        let link = Link::new(bytes / (balance * computation / 1e9 - latency).max(latency), LATENCY);
        let name = format!("{family}/{m}x{n}x{k}");
        thread::scope(|scope| {
            let ranks = &Ranks::start(scope, product, Some(link));
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
            measure(Scenario {
                shape: Shape::Overlap,
                name: name.clone(),
                family: family.to_owned(),
                size: computation / 1e3,
                unit: Unit::Call,
                sweep: "tiles",
                cold: false,
                single: true,
                per_call: 1,
                bound: Bound::Measured,
                arms,
                why: Box::new(move || why),
            })?;
            draw(ranks.timeline(&name, "not tiled", &Tiles::None)?);
            draw(ranks.timeline(&name, "windrow", &Tiles::Auto)?);
            Ok::<_, String>(())
        })?;
    }
    Ok(())
}

/// The number of cells: none on one CPU, which both ranks would share.
pub(super) fn count(cpus: usize) -> usize {
    if cpus < RANKS { 0 } else { SHAPES.len() * BALANCES.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Product = Product { m: 64, n: 16, k: 8 };

    #[test]
    fn every_cut_has_the_product_and_a_timeline() {
        thread::scope(|scope| {
            let link = Link::new(1e9, Duration::from_micros(1));
            let ranks = Ranks::start(scope, SMALL, Some(link));
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
        let mut operands = Operands::of_all(SMALL);
        operands.iter_mut().for_each(|operands| operands.expected[5] += 1.0);
        thread::scope(|scope| {
            for (rank, mut operands) in Group::new(RANKS).ranks().into_iter().zip(operands) {
                scope.spawn(move || {
                    let error = operands.run(&mut Fused::new(rank).unwrap(), &Tiles::None).unwrap_err();
                    assert_eq!(error, "another product than the plain code");
                });
            }
        });
    }

    #[test]
    fn the_computation_takes_some_time() {
        assert!(computation(SMALL).unwrap() > 0.0);
    }
}

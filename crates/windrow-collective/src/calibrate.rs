//! Measuring the times of tiles, and finding the fastest plan.
//!
//! Tiles are measured *back to back*, as they run in an operation: an isolated tile finds an idle link and warm caches. All passes go
//! through the lanes, so a tile's time includes handing over and copying out. Every size gets three passes:
//!
//! 1. Computation, with nothing to communicate.
//! 2. Communication, with nothing to compute.
//! 3. Both at once, without waiting for each other. This pass gives the *contention*, a factor for each lane: the time in which both lanes
//!    were busy, divided by the time that the same tiles take alone.
//!
//! All ranks use the times of the slowest rank.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use windrow_tiling::cost::Fitting;
use windrow_tiling::tile::{self, Contention, Order, TileSpan};
use windrow_tiling::{Nanos, Rows};

use crate::agree::{self, Header, Setting};
use crate::fused::Fused;
use crate::lanes::{Carry, Lanes, Stages, Trace};
use crate::product::{self, Parcel, Product};
use crate::stored::{Measured, Shape, Stage};
use crate::{Call, Communicator, Error, Float, MatMut, MatRef, Operation, Profile, Tiles};

/// Settings of a calibration, the same on all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Rows of the tiles to measure, of all ranks together; at least three sizes. Where rows are dealt out, use multiples of the number of
    /// ranks.
    pub rows: Vec<usize>,
    /// The least number of tiles that run back to back.
    pub tiles: usize,
    /// Passes over all sizes. The fit takes the median.
    pub repeats: usize,
    /// The kind of fit to the times. The default has no limit: on a busy machine, the predictions of the profile are then off by as much as
    /// its fits. [`Profile::fit_error`] tells by how much.
    pub fitting: Fitting,
    /// Alignment, in rows, of the plans made from the profile.
    pub align: u64,
}

impl Default for Calibration {
    /// 256, 512, 768, 1024 and 2048 rows; three repeats; four tiles in a row; any fit; aligned to 128 rows.
    fn default() -> Self {
        Self { rows: vec![256, 512, 768, 1024, 2048], tiles: 4, repeats: 3, fitting: Fitting::UNLIMITED, align: 128 }
    }
}

impl Calibration {
    /// The settings that ranks have to agree about, besides the sizes.
    fn settings(&self) -> [Setting; 7] {
        let [tolerance, limit, noise, joints] = Setting::fitting(&self.fitting);
        let tiles = Setting::count("the number of tiles in a row", self.tiles as u64);
        let repeats = Setting::count("the number of repeats", self.repeats as u64);
        [tiles, repeats, tolerance, limit, noise, joints, Setting::count("the alignment", self.align)]
    }
}

/// The minimum time in nanoseconds for which both lanes are busy at once. In a shorter time, one lane's wake-up (50 us) would count.
const TOGETHER: f64 = 2e6;

/// Operands of the measured products.
struct Operands<T> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    rows: [usize; 2],
    n: usize,
    k: usize,
}

impl<T: Float> Operands<T> {
    /// Operands of a product of `m` rows.
    fn new(operation: Operation, ranks: usize, m: usize, n: usize, k: usize) -> Self {
        let rows = match operation {
            Operation::MatmulAllReduce => [m, m],
            Operation::MatmulReduceScatter => [m, m / ranks],
            Operation::AllGatherMatmul => [m / ranks, m],
        };
        // Zeros and ones: no sum is subnormal or overflows, so no kernel is slow with them.
        let fill = |len: usize| (0..len).map(|at| T::from(u8::from(at % 3 == 0))).collect::<Vec<_>>();
        Self { a: fill(rows[0] * k), b: fill(k * n), c: fill(rows[1] * n), rows, n, k }
    }

    fn views(&mut self) -> (MatRef<'_, T>, MatRef<'_, T>, MatMut<'_, T>) {
        let Self { rows, n, k, .. } = *self;
        (MatRef::new(&self.a, rows[0], k), MatRef::new(&self.b, k, n), MatMut::new(&mut self.c, rows[1], n))
    }
}

/// Tiles without computation.
struct Idle {
    /// Elements given and received.
    give: usize,
    get: usize,
}

impl Idle {
    fn room<T>(&self) -> usize {
        (self.give + self.get) * size_of::<T>()
    }

    /// What the communication lane calls for so many tiles.
    fn calls<T: Float>(&self, operation: Operation, tiles: usize) -> Vec<Call> {
        vec![product::call::<T>(operation, self.give, self.get); tiles]
    }

    fn size<T: Float>(&self, parcel: &mut Parcel) {
        parcel.resize::<T>(self.give, self.get);
    }
}

/// Stages that only communicate.
struct Alone<T> {
    idle: Idle,
    of: std::marker::PhantomData<T>,
}

impl<T: Float> Stages<Parcel> for Alone<T> {
    fn room(&self, _: usize) -> usize {
        self.idle.room::<T>()
    }

    fn fill(&mut self, _: usize, parcel: &mut Parcel) {
        self.idle.size::<T>(parcel);
    }

    fn drain(&mut self, _: usize, _: &mut Parcel) {}
}

/// Stages that communicate, and compute other tiles at the same time. The lanes begin within a microsecond of `began`.
struct Beside<'a, 'b, T> {
    idle: Idle,
    product: &'a mut Product<'b, T>,
    began: Instant,
    /// When the computation could begin.
    start: Option<Nanos>,
    computed: Vec<TileSpan>,
}

impl<T: Float> Stages<Parcel> for Beside<'_, '_, T> {
    fn room(&self, _: usize) -> usize {
        self.idle.room::<T>()
    }

    fn fill(&mut self, _: usize, parcel: &mut Parcel) {
        self.idle.size::<T>(parcel);
    }

    fn drain(&mut self, tile: usize, _: &mut Parcel) {
        if tile > 0 {
            return;
        }
        let mut own = Parcel::default();
        self.idle.size::<T>(&mut own);
        let began = self.began;
        let now = || Nanos(began.elapsed().as_nanos() as f64);
        for tile in 0..self.product.tiles.len() {
            let start = self.start.take().unwrap_or_else(now);
            self.product.fill(tile, &mut own);
            self.product.drain(tile, &mut own);
            self.computed.push(TileSpan { start, end: now() });
            // As `Lanes::run` does after it hands over a tile.
            thread::yield_now();
        }
    }

    fn begins_together(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.start = Some(Nanos(self.began.elapsed().as_nanos() as f64));
    }
}

impl<C: Communicator + Send + 'static> Fused<C> {
    /// Measures the times of an operation's tiles in each lane, alone and together. All ranks call it with the same arguments and
    /// get the same profile. [`use_profile`](Self::use_profile) then makes [`Tiles::Auto`] follow it.
    ///
    /// Each size takes about `2 * (repeats + 1) * tiles` tiles. Small sizes take more, until a pass has the rows of two of the largest
    /// tiles. The machine should be otherwise idle.
    ///
    /// # Errors
    /// A size cannot be dealt out to the ranks, ranks disagree about the arguments, a rank is gone, or the times give no cost function. They
    /// give none for fewer than three sizes, or if the best fit misses them by more than `how.fitting.limit`.
    pub fn calibrate<T: Float>(
        &mut self,
        operation: Operation,
        n: usize,
        k: usize,
        how: &Calibration,
    ) -> Result<Profile, Error> {
        let (ranks, unit) = (self.size(), operation.unit(self.size()));
        let sizes: Vec<Rows> = how.rows.iter().map(|&rows| Rows(rows as u64)).collect();
        let sizes = tile::Tiles::new(sizes).map_err(Error::from);
        let (total, most) =
            (how.rows.iter().copied().fold(0, usize::saturating_add), how.rows.iter().copied().max().unwrap_or(0));
        let cut = sizes.and_then(|sizes| Tiles::Plan(sizes).cut(total, unit));
        let cut = self.or_refuse(cut)?;
        let header = Header { operation, element: T::NAME, m: total, n, k };
        agree::on_call(&mut *self.communicator(), &header, &Tiles::Plan(cut.clone()), &cut, 0)?;
        agree::on_settings(&mut *self.communicator(), operation, &how.settings())?;

        // Twice the rows of the largest tile, so that tiles of all sizes find their operands in the same memory as in an operation.
        let mut operands = Operands::<T>::new(operation, ranks, 2 * most, n, k);
        let mut samples = Vec::new();
        for _ in 0..how.repeats.max(1) {
            for &rows in &how.rows {
                let count = how.tiles.max(2 * most / rows);
                let each = self.alone(operation, &mut operands, rows, count)?;
                for (stage, nanos) in [Stage::Compute, Stage::Communicate].into_iter().zip(each) {
                    samples.push(Measured { stage, m: rows as u64, microseconds: nanos / 1e3 });
                }
            }
        }
        let mut factors = Vec::new();
        for &rows in &how.rows {
            let of = |stage| samples.iter().filter(move |s| s.stage == stage && s.m == rows as u64);
            let usual = |stage| median(of(stage).map(|sample| sample.microseconds * 1e3).collect());
            let each = [usual(Stage::Compute), usual(Stage::Communicate)];
            factors.push(self.together(operation, &mut operands, rows, how.tiles, each)?);
        }
        let factor = |lane: usize| median(factors.iter().map(|factors| factors[lane]).collect()).max(1.0);
        let contention = Contention { compute: factor(0), communicate: factor(1) };
        let shape = Shape { operation, element: T::NAME.to_owned(), ranks, n, k };
        Ok(Profile::fitted(shape, samples, contention, &how.fitting)?.align(how.align))
    }

    /// The time of a tile of `rows` rows in each lane.
    fn alone<T: Float>(
        &mut self,
        operation: Operation,
        operands: &mut Operands<T>,
        rows: usize,
        count: usize,
    ) -> Result<[f64; 2], Error> {
        let idle = idle(operation, self.size(), operands, rows);
        self.communicator().barrier()?;
        let nothing: Carry<Parcel> = Arc::new(|_| Ok(None));
        let trace = self.pass(operation, operands, rows, count, nothing, None)?;
        let compute = trace.end.0 / count as f64;
        self.communicator().barrier()?;
        self.communicator().announce(&idle.calls::<T>(operation, count));
        let mut stages = Alone::<T> { idle, of: std::marker::PhantomData };
        let carry = self.carry::<T>(operation);
        let trace = self.lanes(Order::CommunicateFirst, carry, count, &mut stages)?;
        let communicate = busy(&trace.communicate) / count as f64;
        let mut each = [compute, communicate];
        self.slowest(&mut each)?;
        Ok(each)
    }

    /// The factor by which each lane takes longer while both run than alone.
    fn together<T: Float>(
        &mut self,
        operation: Operation,
        operands: &mut Operands<T>,
        rows: usize,
        tiles: usize,
        each: [f64; 2],
    ) -> Result<[f64; 2], Error> {
        // All ranks have the same times, so they communicate equally often. The factor 1.5: contention slows the computation down.
        let [compute, communicate] = each.map(|nanos| nanos.max(1.0));
        let computed = (tiles as f64).max((3.0 * communicate).max(TOGETHER) / compute).ceil();
        let sent = (1.5 * computed * compute / communicate).ceil() + 2.0;
        self.communicator().barrier()?;
        let carry = self.carry::<T>(operation);
        let (computed, sent) = (computed as usize, sent as usize);
        let trace = self.pass(operation, operands, rows, computed, carry, Some(sent))?;
        let mut factors = slowdown(&trace, [compute, communicate]);
        self.slowest(&mut factors)?;
        Ok(factors)
    }

    /// Runs tiles of one size through the lanes. With `beside`, runs that many communicated tiles at the same time.
    fn pass<T: Float>(
        &mut self,
        operation: Operation,
        operands: &mut Operands<T>,
        rows: usize,
        count: usize,
        carry: Carry<Parcel>,
        beside: Option<usize>,
    ) -> Result<Trace, Error> {
        let (ranks, unit) = (self.size(), operation.unit(self.size()));
        let idle = idle(operation, ranks, operands, rows);
        let mut scratch = std::mem::take(&mut self.scratch);
        let (a, b, c) = operands.views();
        let each = match operation {
            Operation::MatmulReduceScatter => c.rows,
            _ => a.rows,
        };
        // One tile below the other, then from the top again.
        let (part, places) = (rows / unit, (each / (rows / unit).max(1)).max(1));
        let tiles = (0..count).map(|tile| tile % places * part..(tile % places + 1) * part).collect();
        let mut product = Product { operation, ranks, a, b, c, scratch: &mut scratch, tiles };
        T::prepare(b, product.scratch);
        let ran = match beside {
            None => self.lanes(operation.order(), carry, count, &mut product),
            Some(sent) => {
                self.communicator().announce(&idle.calls::<T>(operation, sent));
                let mut stages =
                    Beside { idle, product: &mut product, began: Instant::now(), start: None, computed: Vec::new() };
                let ran = self.lanes(Order::CommunicateFirst, carry, sent, &mut stages);
                ran.map(|trace| Trace { compute: stages.computed, ..trace })
            }
        };
        self.scratch = scratch;
        ran
    }

    fn lanes(
        &mut self,
        order: Order,
        send: Carry<Parcel>,
        tiles: usize,
        stages: &mut dyn Stages<Parcel>,
    ) -> Result<Trace, Error> {
        let lanes = Lanes { helper: &self.helper, order, watch: None, send, spare: &mut self.spare };
        let (trace, ran) = lanes.run(tiles, stages);
        match ran {
            Ok(()) => Ok(trace),
            Err(fault) => Err(self.tell(fault)),
        }
    }

    /// The largest value of all ranks, for each place.
    fn slowest(&mut self, values: &mut [f64]) -> Result<(), Error> {
        let mut all = vec![0.0; values.len() * self.size()];
        self.communicator().all_gather(values, &mut all)?;
        for of in all.chunks(values.len()) {
            for (value, of) in values.iter_mut().zip(of) {
                *value = value.max(*of);
            }
        }
        Ok(())
    }

    /// Runs the three cuts with the best predictions for `m` rows, interleaved, and keeps the fastest: [`Tiles::Auto`] then takes it for
    /// this `m`. All ranks call it with the same arguments. The profile of rank 0 gives the cuts. The time of a cut is the median over
    /// `repeats`, on the slowest rank.
    ///
    /// # Errors
    /// Rank 0 has no profile of the operation, ranks disagree about the arguments, or as for
    /// [`matmul_all_reduce`](Self::matmul_all_reduce).
    pub fn refine<T: Float>(
        &mut self,
        operation: Operation,
        [m, n, k]: [usize; 3],
        repeats: usize,
    ) -> Result<Vec<Tried>, Error> {
        let unit = operation.unit(self.size());
        let whole = match m.is_multiple_of(unit) {
            true => Ok(()),
            false => Err(Error::Tiles { why: format!("{m} rows cannot be dealt out to {unit} ranks") }),
        };
        let candidates = match self.rank() {
            0 => whole.and_then(|()| self.candidates(operation, T::NAME, [m, n, k])),
            _ => whole.map(|()| Vec::new()),
        };
        let mine = self.or_refuse(candidates)?;
        let mut tried = Vec::new();
        {
            let mut communicator = self.communicator();
            let header = Header { operation, element: T::NAME, m, n, k };
            agree::on_call(&mut *communicator, &header, &Tiles::Auto, &tile::Tiles::default(), 0)?;
            let repeats = [Setting::count("the number of repeats", repeats as u64)];
            agree::on_settings(&mut *communicator, operation, &repeats)?;
            let mut count = [mine.len() as u64];
            communicator.broadcast(0, &mut count)?;
            for place in 0..count[0] as usize {
                let mine = mine.get(place).map(|(tiles, predicted)| (tiles, *predicted));
                let (tiles, predicted) = agree::on_tiles(&mut *communicator, mine)?;
                tried.push(Tried { tiles, predicted, took: Nanos(0.0) });
            }
        }
        let mut operands = Operands::<T>::new(operation, self.size(), m, n, k);
        let mut times = vec![Vec::new(); tried.len()];
        for _ in 0..repeats.max(1) {
            for (Tried { tiles, .. }, times) in tried.iter().zip(&mut times) {
                let (a, b, c) = operands.views();
                let outcome = self.run(operation, a, b, c, &Tiles::Plan(tiles.clone()))?;
                times.push(outcome.elapsed.0);
            }
        }
        let mut took: Vec<f64> = times.into_iter().map(median).collect();
        if !took.is_empty() {
            self.slowest(&mut took)?;
        }
        for (tried, took) in tried.iter_mut().zip(took) {
            tried.took = Nanos(took);
        }
        tried.sort_by(|a, b| a.took.0.total_cmp(&b.took.0));
        if let (Some(best), Some((profile, _))) = (tried.first(), self.profile_mut(operation, T::NAME, n, k)) {
            profile.refine(m as u64, &best.tiles);
        }
        Ok(tried)
    }

    fn candidates(
        &mut self,
        operation: Operation,
        element: &'static str,
        [m, n, k]: [usize; 3],
    ) -> Result<Vec<(tile::Tiles, Nanos)>, Error> {
        let Some((profile, _)) = self.profile_mut(operation, element, n, k) else {
            return Err(Error::NoProfile { operation, element, n, k });
        };
        let plan = profile.plan(m as u64)?;
        // The alternative of the short-long rule ignores limits.
        let others = plan.alternatives.into_iter().filter(|other| profile.allows(&other.tiles));
        let mut others: Vec<_> = others.map(|other| (other.tiles, other.predicted)).collect();
        others.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        // Within noise, alternatives may be predicted to be faster than the plan; the plan is a candidate all the same.
        let mut candidates = vec![(plan.tiles, plan.predicted)];
        for other in others {
            if candidates.len() < 3 && candidates.iter().all(|known| known.0 != other.0) {
                candidates.push(other);
            }
        }
        candidates.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        Ok(candidates)
    }
}

/// A cut that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The tiles.
    pub tiles: tile::Tiles,
    /// Their predicted time.
    pub predicted: Nanos,
    /// The time of the whole call.
    pub took: Nanos,
}

/// For each lane, the time in which both lanes are busy, divided by the time that the lane's tiles within it take alone.
fn slowdown(trace: &Trace, alone: [f64; 2]) -> [f64; 2] {
    let (compute, communicate) = (&trace.compute, &trace.communicate);
    let start = |spans: &[TileSpan]| spans.first().map_or(0.0, |span| span.start.0);
    let end = |spans: &[TileSpan]| spans.last().map_or(0.0, |span| span.end.0);
    let window = start(compute).max(start(communicate))..end(compute).min(end(communicate));
    let mut factors = [0.0; 2];
    for (factor, (spans, alone)) in factors.iter_mut().zip([compute, communicate].into_iter().zip(alone)) {
        let inside = spans.iter().map(|span| {
            let inside = span.end.0.min(window.end) - span.start.0.max(window.start);
            inside.max(0.0) / span.length().0.max(1.0)
        });
        let work = alone * inside.sum::<f64>();
        *factor = if work > 0.0 { (window.end - window.start) / work } else { 0.0 };
    }
    factors
}

fn idle<T>(operation: Operation, ranks: usize, operands: &Operands<T>, rows: usize) -> Idle {
    let (all, each) = (rows, rows / operation.unit(ranks));
    match operation {
        Operation::MatmulAllReduce => Idle { give: all * operands.n, get: 0 },
        Operation::MatmulReduceScatter => Idle { give: all * operands.n, get: each * operands.n },
        Operation::AllGatherMatmul => Idle { give: each * operands.k, get: all * operands.k },
    }
}

/// The time from the beginning of the first span to the end of the last.
fn busy(spans: &[TileSpan]) -> f64 {
    match (spans.first(), spans.last()) {
        (Some(first), Some(last)) => last.end.0 - first.start.0,
        _ => 0.0,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Group;

    const SHAPE: (Operation, usize, usize) = (Operation::MatmulReduceScatter, 8192, 3072);

    /// Has the shape of the guide's example: by its thresholds the short-long rule finds a short tile and several long ones.
    fn profile(ranks: usize) -> Profile {
        let sample = |stage, m: u64, fixed: f64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 };
        let samples = [128, 256, 512, 1024, 2048, 4096]
            .into_iter()
            .flat_map(|m| [sample(Stage::Compute, m, 0.0), sample(Stage::Communicate, m, 20.0)]);
        let (operation, n, k) = SHAPE;
        let shape = Shape { operation, element: "f32".to_owned(), ranks, n, k };
        Profile::new(shape, samples.collect(), Contention::NONE).unwrap()
    }

    /// In the time both lanes are busy, their tiles take longer than alone by these factors.
    #[test]
    fn lanes_are_slowed_down_by_what_they_take_together() {
        let spans = |from: f64, each: f64, count: usize| -> Vec<TileSpan> {
            (0..count)
                .map(|at| from + each * at as f64)
                .map(|at| TileSpan { start: Nanos(at), end: Nanos(at + each) })
                .collect()
        };
        let slow = |compute, communicate, alone| {
            slowdown(&Trace { compute, communicate, paces: Vec::new(), end: Nanos(0.0) }, alone)
        };
        assert_eq!(slow(spans(0.0, 30.0, 10), spans(0.0, 50.0, 6), [20.0, 40.0]), [1.5, 1.25]);
        // Time in which only one lane is busy does not count: before 100, and after 200, which is inside a tile.
        assert_eq!(slow(spans(0.0, 20.0, 10), spans(100.0, 80.0, 3), [10.0, 80.0]), [2.0, 1.0]);
        // Lanes that are never busy at once.
        assert_eq!(slow(spans(0.0, 20.0, 5), spans(200.0, 20.0, 5), [10.0, 10.0]), [0.0, 0.0]);
        assert_eq!(slow(Vec::new(), spans(0.0, 20.0, 5), [10.0, 10.0]), [0.0, 0.0]);
    }

    /// With straight costs, the plan takes fewer tiles than the best cut, and is still run.
    #[test]
    fn the_plan_is_a_candidate() {
        let (operation, n, k) = SHAPE;
        for m in [512, 1024, 2048, 4096, 8192] {
            let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
            let profile = profile(1);
            let plan = profile.plan(m).unwrap();
            fused.use_profile(profile);
            let candidates = fused.candidates(operation, "f32", [m as usize, n, k]).unwrap();
            assert!(candidates.iter().any(|known| known.0 == plan.tiles), "{m}: {candidates:?} {plan}");
            assert!((2..=3).contains(&candidates.len()) && candidates.is_sorted_by(|a, b| a.1 <= b.1));
        }
    }

    #[test]
    fn what_breaks_a_limit_is_no_candidate() {
        let (operation, n, k) = SHAPE;
        let longest = |profile| {
            let mut fused = Fused::new(Group::new(1).ranks().remove(0)).unwrap();
            fused.use_profile(profile);
            let candidates = fused.candidates(operation, "f32", [4096, n, k]).unwrap();
            (candidates.len(), candidates.iter().map(|known| known.0.len()).max())
        };
        // The eight tiles of the rule are among the best three, if eight are allowed.
        assert_eq!(longest(profile(1).most_tiles(8)), (3, Some(8)));
        assert_eq!(longest(profile(1).most_tiles(2)).1, Some(2));
        assert_eq!(longest(profile(1).most_tiles(1)), (1, Some(1)));
    }

    #[test]
    fn limits_of_a_profile() {
        let allows = |rows: &[u64]| {
            let tiles = tile::Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap();
            [profile(3), profile(3).min_tile(1)].map(|profile| profile.most_tiles(3).allows(&tiles))
        };
        // Tiles begin at multiples of 128 rows that can be dealt out to three ranks. The last tile may end anywhere.
        for rows in [&[384, 768, 128][..], &[3], &[]] {
            assert_eq!(allows(rows), [true; 2], "{rows:?}");
        }
        for rows in [&[3, 384][..], &[128, 384], &[384; 4]] {
            assert_eq!(allows(rows), [false; 2], "{rows:?}");
        }
        // 128 rows is the smallest size that was measured.
        assert_eq!(allows(&[384, 768, 127]), [false, true]);
    }
}

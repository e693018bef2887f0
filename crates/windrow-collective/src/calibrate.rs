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
//! All ranks use the times of the slowest rank. A program's own kernels are measured in the same way: see [`Kernels`](crate::Kernels).

use std::thread;
use std::time::Instant;

use windrow_tiling::Nanos;
use windrow_tiling::cost::Fitting;
use windrow_tiling::tile::{Contention, TileSpan};

use crate::Error;
use crate::agree::Setting;
use crate::lanes::{Fault, Lanes, Stages, Trace};
use crate::stored::{Measured, Stage};

/// Settings of a calibration, the same on all ranks.
///
/// ```
/// use windrow_collective::{Calibration, Fused, Group, Operation};
///
/// // Small sizes, for an operation of few rows; the rest as usual.
/// let how = Calibration { rows: vec![16, 32, 48], align: 16, ..Calibration::default() };
/// let mut fused = Fused::new(Group::new(1).ranks().remove(0))?;
/// let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, 8, 8, &how)?;
/// assert_eq!(profile.shape().n, 8);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
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
    /// its fits. [`Profile::fit_error`](crate::Profile::fit_error) tells by how much.
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
    pub(crate) fn settings(&self) -> [Setting; 7] {
        let [tolerance, limit, noise, joints] = Setting::fitting(&self.fitting);
        let tiles = Setting::count("the number of consecutive tiles", self.tiles as u64);
        let repeats = Setting::count("the number of repeats", self.repeats as u64);
        [tiles, repeats, tolerance, limit, noise, joints, Setting::count("the alignment", self.align)]
    }
}

/// The minimum time in nanoseconds for which both lanes are busy at once. In a shorter time, one lane's wake-up (50 us) would count.
const TOGETHER: f64 = 2e6;

/// The maximum number of tiles that are communicated beside a computed one. If they end before the computation does, the time until then counts.
const MOST_SENT: f64 = 16.0;

/// What is measured: tiles that are computed and communicated.
pub(crate) trait Subject {
    /// Is called before tiles of this size are measured, for what is to take no measured time.
    fn prepare(&mut self, _rows: usize, _count: usize) -> Result<(), Error> {
        Ok(())
    }

    /// Runs `count` tiles of `rows` rows through the lanes, and only computes them.
    fn compute(&mut self, rows: usize, count: usize) -> Result<Trace, Error>;

    /// The same, and only communicates them.
    fn communicate(&mut self, rows: usize, count: usize) -> Result<Trace, Error>;

    /// Computes so many tiles while it communicates `sent` others.
    fn both(&mut self, rows: usize, computed: usize, sent: usize) -> Result<Trace, Error>;

    /// Waits for the other ranks.
    fn meet(&mut self) -> Result<(), Error>;

    /// Replaces each value by the largest of all ranks.
    fn slowest(&mut self, values: &mut [f64]) -> Result<(), Error>;
}

/// Measures all sizes.
pub(crate) fn measure(subject: &mut dyn Subject, how: &Calibration) -> Result<(Vec<Measured>, Contention), Error> {
    let most = how.rows.iter().copied().max().unwrap_or(0);
    let mut samples = Vec::new();
    for _ in 0..how.repeats.max(1) {
        for &rows in &how.rows {
            let count = how.tiles.max(2 * most / rows);
            let each = alone(subject, rows, count)?;
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
        factors.push(together(subject, rows, how.tiles, each)?);
    }
    let factor = |lane: usize| median(factors.iter().map(|factors| factors[lane]).collect()).max(1.0);
    Ok((samples, Contention { compute: factor(0), communicate: factor(1) }))
}

/// The time of a tile of `rows` rows in each lane.
fn alone(subject: &mut dyn Subject, rows: usize, count: usize) -> Result<[f64; 2], Error> {
    subject.prepare(rows, count)?;
    subject.meet()?;
    let compute = subject.compute(rows, count)?.end.0 / count as f64;
    subject.meet()?;
    let communicate = busy(&subject.communicate(rows, count)?.communicate) / count as f64;
    let mut each = [compute, communicate];
    subject.slowest(&mut each)?;
    Ok(each)
}

/// The factor by which each lane takes longer while both run than alone.
fn together(subject: &mut dyn Subject, rows: usize, tiles: usize, each: [f64; 2]) -> Result<[f64; 2], Error> {
    // All ranks have the same times, so they communicate equally often. The factor 1.5: contention slows the computation down.
    let [compute, communicate] = each.map(|nanos| nanos.max(1.0));
    let computed = (tiles as f64).max((3.0 * communicate).max(TOGETHER) / compute).ceil();
    let sent = (1.5 * computed * compute / communicate).min(MOST_SENT * computed).ceil() + 2.0;
    subject.prepare(rows, tiles)?;
    subject.meet()?;
    let trace = subject.both(rows, computed as usize, sent as usize)?;
    let mut factors = slowdown(&trace, [compute, communicate]);
    subject.slowest(&mut factors)?;
    Ok(factors)
}

/// Stages that communicate, and compute other tiles at the same time. The lanes begin within a microsecond of `began`.
pub(crate) struct Beside<'a, P> {
    /// Gives the communicated tiles their parcels.
    idle: &'a mut dyn Stages<P>,
    busy: &'a mut dyn Stages<P>,
    /// Tiles to compute.
    tiles: usize,
    began: Instant,
    /// When the computation could begin.
    start: Option<Nanos>,
    computed: Vec<TileSpan>,
}

impl<'a, P> Beside<'a, P> {
    pub(crate) fn new(idle: &'a mut dyn Stages<P>, busy: &'a mut dyn Stages<P>, tiles: usize) -> Self {
        Self { idle, busy, tiles, began: Instant::now(), start: None, computed: Vec::new() }
    }

    /// Runs the lanes: the spans of the communicated tiles, and of the computed ones.
    pub(crate) fn run(mut self, lanes: Lanes<'_, P>, sent: usize) -> (Trace, Result<(), Fault>)
    where
        P: Send,
    {
        let (trace, ran) = lanes.run(sent, &mut self);
        (Trace { compute: self.computed, ..trace }, ran)
    }
}

impl<P> Stages<P> for Beside<'_, P> {
    fn parcel(&mut self, tile: usize) -> P {
        self.idle.parcel(tile)
    }

    fn put_back(&mut self, parcel: P) {
        self.idle.put_back(parcel);
    }

    fn fill(&mut self, tile: usize, parcel: &mut P) -> Result<(), String> {
        self.idle.fill(tile, parcel)
    }

    fn drain(&mut self, tile: usize, _: &mut P) -> Result<(), String> {
        if tile > 0 {
            return Ok(());
        }
        let began = self.began;
        let now = || Nanos(began.elapsed().as_nanos() as f64);
        for tile in 0..self.tiles {
            let start = self.start.take().unwrap_or_else(now);
            let mut parcel = self.busy.parcel(tile);
            self.busy.fill(tile, &mut parcel)?;
            self.busy.drain(tile, &mut parcel)?;
            self.busy.put_back(parcel);
            self.computed.push(TileSpan { start, end: now() });
            // As `Lanes::run` does after it hands over a tile.
            thread::yield_now();
        }
        Ok(())
    }

    fn begins_together(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.start = Some(Nanos(self.began.elapsed().as_nanos() as f64));
    }
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

/// The time from the beginning of the first span to the end of the last.
fn busy(spans: &[TileSpan]) -> f64 {
    match (spans.first(), spans.last()) {
        (Some(first), Some(last)) => last.end.0 - first.start.0,
        _ => 0.0,
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

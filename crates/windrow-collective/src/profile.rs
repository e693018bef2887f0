//! Measured costs of an operation's tiles, and the plans made from them.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use windrow_tiling::cost::{Fit, Fitting, Joints, Sample, TimeTable, fit};
use windrow_tiling::tile::{self, Contention, Lane, Margin, Matmul, Plan, Problem};
use windrow_tiling::{Nanos, Rows};

use crate::stored::{Factors, Measured, Refined, Shape, Stage, Stored, kept};
use crate::{Error, Operation, Tiles};

/// The measured costs of an operation of some `n` and `k`, for any `m`. It holds samples of both lanes, the fits to them, and the factors
/// by which the lanes slow each other down. [`Fused::calibrate`](crate::Fused::calibrate) makes one; [`Profile::new`] takes times from
/// elsewhere.
///
/// Its JSON form holds the samples; reading it makes the fits again, with equal results. Numbers are rounded to nine digits after the
/// point, from a million on to none. Every reader of JSON reads so few digits back exactly, even one that errs in the seventeenth digit. A
/// profile [follows](Self::refit) a machine that becomes slower or faster.
///
/// ```
/// use windrow_tiling::tile::Contention;
/// use windrow_collective::{Measured, Operation, Profile, Shape, Stage};
///
/// let sample = |stage, m: u64, fixed: f64| Measured { stage, m, microseconds: fixed + 0.2 * m as f64 };
/// let samples = [256, 512, 1024, 2048]
///     .into_iter()
///     .flat_map(|m| [sample(Stage::Compute, m, 5.0), sample(Stage::Communicate, m, 20.0)]);
/// let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n: 1024, k: 512 };
/// let profile = Profile::new(shape, samples.collect(), Contention { compute: 1.2, communicate: 1.0 })?;
/// let plan = profile.plan(4096)?;
/// assert!(plan.tiles.len() > 1 && plan.predicted < plan.serial);
///
/// let json = serde_json::to_string(&profile)?;
/// assert_eq!(serde_json::from_str::<Profile>(&json)?.plan(4096)?, plan);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Profile {
    pub(crate) stored: Stored,
    compute: Fit<Rows>,
    communicate: Fit<Rows>,
    /// The samples of both lanes, to be looked up where they have all tiles.
    tables: [TimeTable<Rows>; 2],
}

impl Profile {
    /// Makes a profile from times that were measured elsewhere. Tiles are aligned to 128 rows, and their number is not limited.
    ///
    /// # Errors
    /// The times of a lane give no cost function, or a contention factor is below 1.
    pub fn new(shape: Shape, samples: Vec<Measured>, contention: Contention) -> Result<Self, Error> {
        Self::fitted(shape, samples, contention, &Fitting::default())
    }

    pub(crate) fn fitted(
        shape: Shape,
        samples: Vec<Measured>,
        Contention { compute, communicate }: Contention,
        fitting: &Fitting,
    ) -> Result<Self, Error> {
        Self::try_from(Stored {
            shape,
            align: ALIGN,
            most_tiles: None,
            min_tile: None,
            per_call: 0.0,
            fixed: 0.0,
            tolerance: fitting.tolerance,
            limit: fitting.limit,
            noise: fitting.noise,
            continuous: fitting.joints == Joints::Continuous,
            contention: Factors { compute, communicate },
            samples,
            refined: Vec::new(),
            predictions: 0,
            errors: VecDeque::new(),
            errors_of_cuts: VecDeque::new(),
            observed: VecDeque::new(),
            refits: VecDeque::new(),
            interpolated: None,
        })
    }

    /// Makes tiles begin at multiples of this many rows. Where rows are dealt out to ranks, tiles begin at common multiples of this and the
    /// number of ranks. 0 means 1: no alignment.
    pub fn align(mut self, rows: u64) -> Self {
        self.stored.align = rows.max(1);
        self
    }

    /// Limits the number of tiles. 0 means 1: no tiling.
    pub fn most_tiles(mut self, tiles: usize) -> Self {
        self.stored.most_tiles = Some(tiles.max(1));
        self
    }

    /// Sets the minimum number of rows of a tile. The default is the smallest size that was measured in both lanes: times below it are
    /// extrapolated, and no sample contradicts them. 0 means 1: no minimum.
    pub fn min_tile(mut self, rows: u64) -> Self {
        self.stored.min_tile = Some(rows.max(1));
        self
    }

    /// Sets the additional time of a call that is cut, outside of its tiles, such as that of agreeing about them. A [plan](Self::plan)
    /// counts it when it decides whether to cut; the default is 0. A time that is negative or no number means 0.
    pub fn with_per_call(mut self, time: Nanos) -> Self {
        self.stored.per_call = micros(time);
        self
    }

    /// Sets the time of a call outside of its tiles: agreeing about the call before them and after them, and packing `b`.
    /// [`calibrate`](crate::Fused::calibrate) measures it; the default is 0. All cuts take it, so it decides nothing, but it belongs to the time of the
    /// call. A time that is negative or no number means 0.
    pub fn with_fixed(mut self, time: Nanos) -> Self {
        self.stored.fixed = micros(time);
        self
    }

    /// The time of a call outside of its tiles. Predictions of plans are without it.
    pub fn fixed(&self) -> Nanos {
        Nanos::micros(self.stored.fixed)
    }

    /// Sets the factors by which the lanes slow each other down.
    ///
    /// # Errors
    /// A factor is below 1.
    pub fn with_contention(self, Contention { compute, communicate }: Contention) -> Result<Self, Error> {
        Self::try_from(Stored { contention: Factors { compute, communicate }, ..self.stored })
    }

    /// Whether these tiles respect the alignment of the profile, and its limits of their number and size.
    pub(crate) fn allows(&self, tiles: &tile::Tiles) -> bool {
        self.problem(tiles.total().0, |problem| Ok(problem.allows(tiles))).unwrap_or(false)
    }

    /// What the profile was measured for.
    pub fn shape(&self) -> &Shape {
        &self.stored.shape
    }

    /// The fitted cost of a lane, with its residuals.
    pub fn fit(&self, lane: Lane) -> &Fit<Rows> {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }

    /// The samples of a lane, by size.
    pub(crate) fn table(&self, lane: Lane) -> &TimeTable<Rows> {
        match lane {
            Lane::Compute => &self.tables[0],
            Lane::Communicate => &self.tables[1],
        }
    }

    /// The largest share by which a fit misses a sample of its lane. Predictions may be off by as much.
    pub fn fit_error(&self) -> f64 {
        [&self.compute, &self.communicate].map(|fit| fit.worst().relative().abs()).into_iter().fold(0.0, f64::max)
    }

    /// What a cut has to gain for [`plan`](Self::plan) to prefer it. The error is the largest of these shares:
    ///
    /// - the noise of the samples (see [`Fitting`]);
    /// - what the fits usually miss: the root of the mean square of the relative residuals, of the lane where that is more. (Not the largest
    ///   residual: the time of a cut is a sum over many tiles.)
    /// - by how much recent cuts took longer than predicted: the median of 8 to 16 of them.
    /// - the error of the [interpolation](Self::interpolation), if the profile is interpolated.
    pub fn margin(&self) -> Margin {
        self.margin_beside(self.compute.typical().max(self.communicate.typical()))
    }

    /// The margin of a [plan](Self::plan) of `m` rows: the fit of a lane whose times are looked up does not count.
    pub fn margin_at(&self, m: u64) -> Margin {
        let fits = self.looked_up(m).into_iter().zip([&self.compute, &self.communicate]);
        self.margin_beside(fits.filter(|(looked_up, _)| !looked_up).map(|(_, fit)| fit.typical()).fold(0.0, f64::max))
    }

    fn margin_beside(&self, fits: f64) -> Margin {
        let interpolated = self.interpolation().map_or(0.0, |interpolation| interpolation.error);
        let error = [self.stored.noise, fits, self.shortfall(), interpolated];
        Margin { error: error.into_iter().fold(0.0, f64::max), per_call: Nanos::micros(self.stored.per_call.max(0.0)) }
    }

    /// Whether a plan is still the answer: a cut has to gain more than the [margin](Self::margin), which grows as predictions fail.
    pub(crate) fn keeps(&self, plan: &Plan) -> bool {
        plan.tiles.len() <= 1 || self.margin_at(plan.inputs.rows.0).allows(plan.predicted, plan.serial)
    }

    /// The share by which a prediction may be off: the tolerance of the fit, or the error of these fits or of the interpolation if that is
    /// more.
    pub(crate) fn expected_error(&self) -> f64 {
        let interpolated = self.interpolation().map_or(0.0, |interpolation| interpolation.error);
        self.stored.tolerance.max(self.fit_error()).max(interpolated)
    }

    /// The factors by which the lanes slow each other down.
    pub fn contention(&self) -> Contention {
        let Factors { compute, communicate } = self.stored.contention;
        Contention { compute, communicate }
    }

    /// The samples as given, times the factors of any [re-fit](Self::refit).
    pub fn samples(&self) -> &[Measured] {
        &self.stored.samples
    }

    /// The best cut of `m` rows by the fitted costs, or a cut with fewer tiles that the samples cannot tell from it. The number of tiles is
    /// halved as long as the predicted time stays within the noise of the samples (see [`Fitting`]). If that changes the cut, the plan says
    /// so. Its `why` says that the samples cannot tell more tiles from these, its `gap` grows accordingly, and the best cut is its
    /// alternative `best`.
    ///
    /// The answer is one tile if the predicted gain of that cut is within the [margin](Self::margin). The plan's `why` then says so, and the
    /// cut is its alternative `best`. `windrow plan` decides by the same rule: see [`Problem::plan_within`].
    ///
    /// If every tile that `m` rows can have was measured, and a fit misses one of them by more than the samples scatter, the measured times
    /// replace the fit: see [`TimeTable::replaces`].
    ///
    /// # Errors
    /// See [`Problem::plan`].
    pub fn plan(&self, m: u64) -> Result<Plan, Error> {
        self.problem(m, |problem| problem.plan_within(self.stored.noise, self.margin_at(m)))
    }

    /// The predicted time of a cut.
    ///
    /// # Errors
    /// The tiles do not add up to the rows.
    pub fn predict(&self, m: u64, tiles: &tile::Tiles) -> Result<Nanos, Error> {
        self.problem(m, |problem| problem.predict(tiles))
    }

    /// Tiles begin at multiples of this many rows.
    fn aligned(&self) -> Rows {
        let Stored { shape, align, .. } = &self.stored;
        Rows(common_multiple(*align, shape.operation.unit(shape.ranks) as u64))
    }

    /// Whether the times of tiles of `m` rows are looked up, in each lane.
    fn looked_up(&self, m: u64) -> [bool; 2] {
        let [compute, communicate] = &self.tables;
        [(compute, &self.compute), (communicate, &self.communicate)]
            .map(|(table, fit)| table.replaces(fit, Rows(m), self.aligned()))
    }

    fn problem<R>(&self, m: u64, solve: impl FnOnce(&Problem<'_>) -> Result<R, tile::PlanError>) -> Result<R, Error> {
        let Stored { shape, most_tiles, min_tile, .. } = &self.stored;
        let measured = [&self.compute, &self.communicate].map(|fit| fit.measured().0);
        let lanes = [(&self.compute, &self.tables[0]), (&self.communicate, &self.tables[1])];
        let [computed, communicated] = self.looked_up(m);
        let cost = |place: usize, looked_up: bool| {
            let (fit, table) = lanes[place];
            move |rows: Rows| if looked_up { table.at(rows) } else { fit.cost.at(rows) }
        };
        let (compute, communicate) = (cost(0, computed), cost(1, communicated));
        let problem = Problem {
            order: shape.operation.order(),
            contention: self.contention(),
            align: self.aligned(),
            most_tiles: most_tiles.unwrap_or(usize::MAX),
            min_tile: min_tile.map_or(measured[0].max(measured[1]), Rows),
            matmul: Some(Matmul { k: shape.k as u64, n: shape.n as u64 }),
            ..Problem::new(Rows(m), &compute, &communicate)
        };
        Ok(solve(&problem)?)
    }

    /// The choice of [`Tiles::Auto`] for `m` rows: the tiles that [`Fused::refine`](crate::Fused::refine) measured to be the fastest, or
    /// else those of the plan.
    pub(crate) fn choose(&self, m: u64, plan: &Plan) -> Result<(tile::Tiles, Nanos), Error> {
        match self.stored.refined.iter().find(|refined| refined.m == m) {
            Some(refined) => {
                let tiles = tile::Tiles::new(refined.tiles.iter().copied().map(Rows).collect::<Vec<_>>())?;
                let predicted = self.predict(m, &tiles)?;
                Ok((tiles, predicted))
            }
            None => Ok((plan.tiles.clone(), plan.predicted)),
        }
    }

    /// Cuts `m` rows into these tiles from now on.
    pub(crate) fn refine(&mut self, m: u64, tiles: &tile::Tiles) {
        self.stored.refined.retain(|refined| refined.m != m);
        self.stored.refined.push(Refined { m, tiles: tiles.iter().map(|rows| rows.0).collect() });
    }

    /// The tiles that were measured to be the fastest for `m` rows, if any were: see [`Fused::refine`](crate::Fused::refine).
    pub fn refined(&self, m: u64) -> Option<Tiles> {
        let refined = self.stored.refined.iter().find(|refined| refined.m == m)?;
        let tiles = tile::Tiles::new(refined.tiles.iter().copied().map(Rows).collect::<Vec<_>>());
        tiles.ok().map(Tiles::Plan)
    }

    pub(crate) fn is_of(&self, operation: Operation, element: &str, ranks: usize, n: usize, k: usize) -> bool {
        let shape = self.shape();
        (shape.operation, &*shape.element, shape.ranks, shape.n, shape.k) == (operation, element, ranks, n, k)
    }
}

/// The alignment of `windrow plan`: a multiple of every kernel's tile.
const ALIGN: u64 = 128;

/// A time as it is stored.
fn micros(time: Nanos) -> f64 {
    let micros = kept(time.as_micros());
    if micros.is_finite() { micros.max(0.0) } else { 0.0 }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

impl From<Profile> for Stored {
    fn from(profile: Profile) -> Self {
        profile.stored
    }
}

impl TryFrom<Stored> for Profile {
    type Error = Error;

    fn try_from(mut stored: Stored) -> Result<Self, Error> {
        let Stored { tolerance, limit, noise, contention, samples, per_call, fixed, .. } = &mut stored;
        let shares = [tolerance, limit, noise, &mut contention.compute, &mut contention.communicate, per_call, fixed];
        for number in shares.into_iter().chain(samples.iter_mut().map(|sample| &mut sample.microseconds)) {
            *number = kept(*number);
        }
        let Factors { compute, communicate } = stored.contention;
        for (lane, factor) in [(Lane::Compute, compute), (Lane::Communicate, communicate)] {
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(tile::PlanError::Contention { lane, factor }.into());
            }
        }
        if stored.align == 0 {
            return Err(tile::PlanError::Align.into());
        }
        let joints = if stored.continuous { Joints::Continuous } else { Joints::Free };
        let Stored { tolerance, limit, noise, .. } = stored;
        let fitting = Fitting { tolerance, limit, noise, joints };
        let fitted = |lane, stage| {
            let samples = stored.samples.iter().filter(|sample| sample.stage == stage);
            let samples =
                samples.map(|sample| Sample { size: Rows(sample.m), time: Nanos::micros(sample.microseconds) });
            let samples: Vec<_> = samples.collect();
            let fit = fit(&samples, &fitting).map_err(|unfit| Error::FitError { lane, why: unfit.to_string() })?;
            Ok::<_, Error>((fit, TimeTable::new(&samples)))
        };
        let (compute, computed) = fitted(Lane::Compute, Stage::Compute)?;
        let (communicate, communicated) = fitted(Lane::Communicate, Stage::Communicate)?;
        Ok(Self { compute, communicate, tables: [computed, communicated], stored })
    }
}

//! What the tiles of an operation take, as measured: from it, plans.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use windrow::plan::cost::{Fit, Fitting, Sample, fit};
use windrow::plan::tile::{self, Contention, Lane, Matmul, Plan, Problem};
use windrow::plan::{Nanos, Rows};

use crate::{Error, Operation, Outcome, Tiles};

/// The measured costs of an operation of some `n` and `k`, for any `m`: samples of both lanes, what was fitted to them, and how the
/// lanes slow each other down. [`Fused::calibrate`](crate::Fused::calibrate) makes one; [`Profile::new`] takes times from elsewhere.
///
/// As JSON it holds the samples; the fits are made again when it is read, and are the same if numbers are read exactly (feature
/// `float_roundtrip` of `serde_json`).
///
/// ```
/// use windrow::plan::tile::Contention;
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
    stored: Stored,
    compute: Fit<Rows>,
    communicate: Fit<Rows>,
}

/// What a profile is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The operation.
    pub operation: Operation,
    /// The kind of its numbers: `f32`, `f64`, `bf16`.
    pub element: String,
    /// Ranks it was measured on.
    pub ranks: usize,
    /// Columns of the product.
    pub n: usize,
    /// The axis that is summed over.
    pub k: usize,
}

/// A lane, as samples name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Of [`Lane::Compute`].
    Compute,
    /// Of [`Lane::Communicate`].
    Communicate,
}

/// What a tile took in a lane, alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The lane.
    pub stage: Stage,
    /// Rows of the tile, of all ranks together.
    pub m: u64,
    /// Microseconds.
    pub microseconds: f64,
}

/// A profile as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    shape: Shape,
    align: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    most_tiles: Option<usize>,
    tolerance: f64,
    noise: f64,
    contention: Factors,
    samples: Vec<Measured>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    refined: Vec<Refined>,
    #[serde(skip_serializing_if = "VecDeque::is_empty", default)]
    errors: VecDeque<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Factors {
    compute: f64,
    communicate: f64,
}

/// Tiles that were the fastest when they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Refined {
    m: u64,
    tiles: Vec<u64>,
}

impl Profile {
    /// From times that were measured elsewhere. Tiles are aligned to 128 rows; there may be any number of them.
    ///
    /// # Errors
    /// The times of a lane give no cost function, or a factor is below 1.
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
            tolerance: fitting.tolerance,
            noise: fitting.noise,
            contention: Factors { compute, communicate },
            samples,
            refined: Vec::new(),
            errors: VecDeque::new(),
        })
    }

    /// Tiles begin at multiples of this many rows; where rows are dealt out to ranks, of a multiple that can be. 0 is taken as 1, no
    /// alignment.
    pub fn align(mut self, rows: u64) -> Self {
        self.stored.align = rows.max(1);
        self
    }

    /// So many tiles at most; 0 is taken as 1, which is not to tile.
    pub fn most_tiles(mut self, tiles: usize) -> Self {
        self.stored.most_tiles = Some(tiles.max(1));
        self
    }

    /// Whether these tiles keep to its limits: where they begin, and how many there are.
    pub(crate) fn allows(&self, tiles: &tile::Tiles) -> bool {
        let Stored { shape, align, most_tiles, .. } = &self.stored;
        let align = common_multiple(*align, shape.operation.unit(shape.ranks) as u64);
        tiles.len() <= most_tiles.unwrap_or(usize::MAX)
            && tiles.iter().rev().skip(1).all(|tile| tile.0.is_multiple_of(align))
    }

    /// What it is of.
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

    /// How the lanes slow each other down.
    pub fn contention(&self) -> Contention {
        let Factors { compute, communicate } = self.stored.contention;
        Contention { compute, communicate }
    }

    /// The samples, as they were given.
    pub fn samples(&self) -> &[Measured] {
        &self.stored.samples
    }

    /// The best cut of so many rows, by the fitted costs; of cuts that are as good, as far as the samples can tell (their noise, see
    /// [`Fitting`]), one with half of the tiles, and so on. The plan then says how many tiles there could be at most.
    ///
    /// Without that, costs below what was measured, which no sample contradicts, give plans of many small tiles.
    ///
    /// # Errors
    /// See [`Problem::plan`].
    pub fn plan(&self, m: u64) -> Result<Plan, Error> {
        self.problem(m, |problem| {
            let best = problem.plan()?;
            let enough = best.predicted.0 * (1.0 + self.stored.noise);
            let mut plan = best;
            while plan.tiles.len() > 2 {
                let fewer = Problem { most_tiles: plan.tiles.len() / 2, ..*problem }.plan()?;
                if fewer.predicted.0 > enough {
                    break;
                }
                plan = fewer;
            }
            Ok(plan)
        })
    }

    /// What a cut would take.
    ///
    /// # Errors
    /// The tiles do not add up to the rows.
    pub fn predict(&self, m: u64, tiles: &tile::Tiles) -> Result<Nanos, Error> {
        self.problem(m, |problem| problem.predict(tiles))
    }

    fn problem<R>(&self, m: u64, solve: impl FnOnce(&Problem<'_>) -> Result<R, tile::Unplannable>) -> Result<R, Error> {
        let Stored { shape, align, most_tiles, .. } = &self.stored;
        let compute = |rows: Rows| self.compute.cost.at(rows);
        let communicate = |rows: Rows| self.communicate.cost.at(rows);
        let problem = Problem {
            order: shape.operation.order(),
            contention: self.contention(),
            align: Rows(common_multiple(*align, shape.operation.unit(shape.ranks) as u64)),
            most_tiles: most_tiles.unwrap_or(usize::MAX),
            matmul: Some(Matmul { k: shape.k as u64, n: shape.n as u64 }),
            ..Problem::new(Rows(m), &compute, &communicate)
        };
        Ok(solve(&problem)?)
    }

    /// What [`Tiles::Auto`] does with so many rows: what was measured to be the best, or else the plan.
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

    /// From now on, so many rows are cut like that.
    pub(crate) fn refine(&mut self, m: u64, tiles: &tile::Tiles) {
        self.stored.refined.retain(|refined| refined.m != m);
        self.stored.refined.push(Refined { m, tiles: tiles.iter().map(|rows| rows.0).collect() });
    }

    /// The tiles that were measured to be the best for so many rows, if any were: see [`Fused::refine`](crate::Fused::refine).
    pub fn refined(&self, m: u64) -> Option<Tiles> {
        let refined = self.stored.refined.iter().find(|refined| refined.m == m)?;
        let tiles = tile::Tiles::new(refined.tiles.iter().copied().map(Rows).collect::<Vec<_>>());
        tiles.ok().map(Tiles::Plan)
    }

    /// Remembers by what share the prediction of an operation was off. The last 16 are kept; an outcome without a prediction says
    /// nothing. [`Fused`](crate::Fused) does that by itself after every operation with [`Tiles::Auto`], on rank 0.
    pub fn observe(&mut self, outcome: &Outcome) {
        let took = outcome.trace.end.0;
        if let Some(predicted) = outcome.predicted.filter(|_| took > 0.0) {
            self.stored.errors.push_back(predicted.0 / took - 1.0);
            if self.stored.errors.len() > KEPT {
                self.stored.errors.pop_front();
            }
        }
    }

    /// By which shares recent predictions were above what operations took, the latest last.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.stored.errors.iter().copied()
    }

    /// Eight predictions or more are known, and half of them were off by more than the fit may miss its samples by: the machine is not
    /// what it was when it was calibrated.
    pub fn needs_refit(&self) -> bool {
        let off = self.stored.errors.iter().filter(|error| error.abs() > self.stored.tolerance).count();
        self.stored.errors.len() >= KEPT / 2 && 2 * off > self.stored.errors.len()
    }

    pub(crate) fn is_of(&self, operation: Operation, element: &str, ranks: usize, n: usize, k: usize) -> bool {
        let shape = self.shape();
        (shape.operation, &*shape.element, shape.ranks, shape.n, shape.k) == (operation, element, ranks, n, k)
    }
}

/// As `windrow plan` aligns: a multiple of the tiles of every kernel there is.
const ALIGN: u64 = 128;

/// Predictions that are remembered: enough for half of them to mean something.
const KEPT: usize = 16;

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

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let Factors { compute, communicate } = stored.contention;
        for (lane, factor) in [(Lane::Compute, compute), (Lane::Communicate, communicate)] {
            if !(factor.is_finite() && factor >= 1.0) {
                return Err(tile::Unplannable::Contention { lane, factor }.into());
            }
        }
        if stored.align == 0 {
            return Err(tile::Unplannable::Align.into());
        }
        let fitting = Fitting { tolerance: stored.tolerance, noise: stored.noise, ..Fitting::default() };
        let fitted = |lane, stage| {
            let samples = stored.samples.iter().filter(|sample| sample.stage == stage);
            let samples =
                samples.map(|sample| Sample { size: Rows(sample.m), time: Nanos::micros(sample.microseconds) });
            let samples: Vec<_> = samples.collect();
            fit(&samples, &fitting).map_err(|unfit| Error::Unfit { lane, why: unfit.to_string() })
        };
        let compute = fitted(Lane::Compute, Stage::Compute)?;
        let communicate = fitted(Lane::Communicate, Stage::Communicate)?;
        Ok(Self { compute, communicate, stored })
    }
}

//! The break-even of a plan: the contention, and the cost of a tile, from which on cutting no longer pays.

use crate::Nanos;
use crate::tile::{Contention, Margin, PlanError, Problem, Tiles};
use serde::Serialize;

use super::request::PlanRequest;
use super::samples::{Fits, MeasuredTimes};
use super::{choice, with_problem};

/// Slowdown of both lanes up to which a break-even is looked for. From 2 on, two lanes together take longer than one after the other; small tiles
/// that are faster than a whole may gain beyond.
const MOST_CONTENTION: f64 = 4.0;

/// Maximum number of plans of a search. Each is the best at the break-even of the one before it, so two or three are enough.
const MOST_PLANS: usize = 16;

/// Halvings of a range: its end is found to a millionth.
const HALVINGS: usize = 20;

/// The largest values at which a cut gains more than the margin. `None` if no cut gains, or one gains up to the end of the search.
#[derive(Debug, Serialize)]
pub(super) struct BreakEven {
    /// Slowdown of both lanes while both are busy.
    pub(super) contention: Option<f64>,
    /// Microseconds by which a tile takes longer in each lane than its sample.
    pub(super) per_tile_us: Option<f64>,
}

impl BreakEven {
    pub(super) fn find(
        options: &PlanRequest,
        measured: &MeasuredTimes,
        fits: &Fits,
        margin: Margin,
        serial: Nanos,
    ) -> Result<Self, PlanError> {
        let search = |least, most, vary: &dyn Fn(f64) -> PlanRequest| {
            Search { measured, fits, margin, serial, vary }.largest(least, most)
        };
        let contended = |factor| PlanRequest {
            contention: Some(Contention { compute: factor, communicate: factor }),
            ..options.clone()
        };
        let costly = |per_tile| PlanRequest { per_tile, ..options.clone() };
        Ok(Self {
            contention: search(1.0, MOST_CONTENTION, &contended)?,
            per_tile_us: search(0.0, serial.as_micros(), &costly)?,
        })
    }

    /// A line for each break-even: `tiles` if the plan is to tile, `is_guess` if it would by assumed costs.
    pub(super) fn text(&self, tiles: bool, is_guess: bool) -> Vec<String> {
        let (verdict, than) = match (tiles, is_guess) {
            (true, _) => ("tile", "more"),
            (_, true) => ("tiles would pay", "more"),
            _ => ("do not tile", "less"),
        };
        let contention = self.contention.map(|factor| {
            format!(
                "  break-even: {verdict}, unless both lanes take {than} than {factor:.2} times as long when they run \
                 together"
            )
        });
        let per_tile = self.per_tile_us.map(|micros| {
            format!(
                "  break-even: {verdict}, unless each tile adds {than} than {micros:.1} us of overhead in each lane"
            )
        });
        contention.into_iter().chain(per_tile).collect()
    }
}

/// A search for the largest value of an option at which a cut pays.
struct Search<'a> {
    measured: &'a MeasuredTimes,
    fits: &'a Fits,
    margin: Margin,
    /// Time of one tile, which does not depend on the option.
    serial: Nanos,
    /// The options with the value.
    vary: &'a dyn Fn(f64) -> PlanRequest,
}

impl Search<'_> {
    /// Finds where the plan at `least` stops to gain, plans again there, and so on while there is a cut.
    fn largest(&self, least: f64, most: f64) -> Result<Option<f64>, PlanError> {
        let mut last = least;
        for _ in 0..MOST_PLANS {
            let options = (self.vary)(last);
            let tiles = self.with(last, |problem| choice::of_samples(problem, self.margin, options.family))?.plan.tiles;
            if tiles.len() <= 1 || self.gains(&tiles, most)? {
                break;
            }
            let end = self.end(&tiles, last, most)?;
            if end <= last {
                break;
            }
            last = end;
        }
        Ok(Some(last).filter(|&last| last > least))
    }

    /// The largest value from `low` to `high` at which these tiles gain. They do not at `high`.
    fn end(&self, tiles: &Tiles, mut low: f64, mut high: f64) -> Result<f64, PlanError> {
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.gains(tiles, middle)? { low = middle } else { high = middle }
        }
        Ok(low)
    }

    fn gains(&self, tiles: &Tiles, value: f64) -> Result<bool, PlanError> {
        Ok(self.margin.allows(self.with(value, |problem| problem.predict(tiles))?, self.serial))
    }

    fn with<R>(&self, value: f64, solve: impl FnOnce(&Problem<'_>) -> R) -> R {
        with_problem(&(self.vary)(value), self.measured, self.fits, solve)
    }
}

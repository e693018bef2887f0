//! Runs that a program measured, compared with their predictions.

use super::Unplanned;
use crate::tile::{Problem, TileSpan, Tiles, counted_rows};
use crate::{Nanos, Rows};

/// A measured run of some tiles.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// The name of its file, for messages.
    pub file: String,
    /// The tiles.
    pub tiles: Tiles,
    /// The computation of each tile.
    pub compute: Vec<TileSpan>,
    /// The communication of each tile.
    pub communicate: Vec<TileSpan>,
    /// The time until the last result was in place.
    pub end: Nanos,
    /// The time of the whole call.
    pub elapsed: Nanos,
    /// The prediction of its tiles by the current costs. The planner sets it.
    pub predicted: Nanos,
}

impl MeasuredRun {
    /// The run with its prediction.
    pub(super) fn predicted(mut self, problem: &Problem<'_>) -> Result<Self, Unplanned> {
        let file = &self.file;
        let total = self.tiles.iter().try_fold(0_u64, |total, tile| total.checked_add(tile.0));
        if total != Some(problem.rows.0) {
            let total = total.map_or("more rows than can be counted".to_owned(), |total| counted_rows(Rows(total)));
            return Err(Unplanned::bad_input(format_args!(
                "{file}: its tiles have {total}, but the operation has {}\nhint: check --m",
                problem.rows
            )));
        }
        let predicted = problem.predict(&self.tiles);
        self.predicted = predicted.map_err(|error| Unplanned::bad_input(format_args!("{file}: {error}")))?;
        Ok(self)
    }

    /// The share by which the run took longer than predicted.
    pub(super) fn late(&self) -> f64 {
        self.end.0 / self.predicted.0 - 1.0
    }
}

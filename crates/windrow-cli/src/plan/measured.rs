//! Runs that a program measured, compared with their predictions.

use std::path::Path;

use windrow_collective::MeasuredTimeline;
use windrow_tiling::Nanos;
use windrow_tiling::tile::Problem;
use windrow_tokenizers::shown;

use super::Refused;
use super::samples::{shortened, text};

/// A measured run of some tiles.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) file: String,
    pub(super) timeline: MeasuredTimeline,
    /// The prediction of its tiles by the current costs.
    pub(super) predicted: Nanos,
}

impl Run {
    pub(super) fn read(path: &Path, problem: &Problem<'_>) -> Result<Self, Refused> {
        let file = shown(path).to_string();
        let timeline: MeasuredTimeline = serde_json::from_str(&text(path)?).map_err(|error| {
            let error = shortened(&error.to_string());
            Refused::bad_input(format_args!(
                "{file}: {error}\nhint: serde_json::to_string(&MeasuredTimeline::from(&outcome)) of windrow_collective writes such files"
            ))
        })?;
        let total = timeline.tiles.iter().try_fold(0_u64, |total, tile| total.checked_add(tile.0));
        if total != Some(problem.rows.0) {
            let total = total.map_or("more rows than can be counted".to_owned(), |total| format!("{total} rows"));
            return Err(Refused::bad_input(format_args!(
                "{file}: its tiles have {total}, the operation has {}\nhint: check --m",
                problem.rows
            )));
        }
        let predicted = problem.predict(&timeline.tiles);
        let predicted = predicted.map_err(|error| Refused::bad_input(format_args!("{file}: {error}")))?;
        Ok(Self { file, timeline, predicted })
    }

    /// By what share the run took longer than predicted.
    pub(super) fn late(&self) -> f64 {
        self.timeline.end.0 / self.predicted.0 - 1.0
    }
}

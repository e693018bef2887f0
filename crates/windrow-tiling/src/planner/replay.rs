//! Plans that were saved or written by hand, and rows of tables, predicted with the current costs.

use crate::tile::{Losses, Problem, Tiles, counted_rows};
use crate::{Nanos, Rows};
use serde::Deserialize;

use super::request::PlanRequest;
use super::samples::{CostFile, Fits, shortened};
use super::{Unplanned, table};

/// The fields of a plan that are read. Written by hand, the tiles are enough.
#[derive(Debug, Default, Deserialize)]
struct Saved {
    tiles: Vec<u64>,
    op: Option<String>,
    m: Option<u64>,
    n: Option<u64>,
    k: Option<u64>,
    ranks: Option<u64>,
    predicted_us: Option<f64>,
}

/// A plan from a file.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) file: String,
    pub(super) tiles: Tiles,
    /// The prediction with the current costs.
    pub(super) predicted: Nanos,
    /// The prediction in the file, in microseconds.
    pub(super) stated_us: Option<f64>,
    pub(super) losses: Losses,
    saved: Saved,
}

/// A plan in JSON, or a bare list of tiles.
fn saved(text: &str) -> Result<Saved, String> {
    let read = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map(|tiles| Saved { tiles, ..Saved::default() }),
        false => serde_json::from_str(text),
    };
    read.map_err(|error| {
        let error = shortened(&error.to_string());
        format!(
            "{error}\nhint: a plan is a list of tiles, [512, 896, ...], or a JSON object with \"tiles\": [512, 896, ...]"
        )
    })
}

impl Replay {
    pub(super) fn read(file: &CostFile, problem: &Problem<'_>) -> Result<Self, Unplanned> {
        let CostFile { name: file, text } = file;
        let refused = |message: String| Unplanned::bad_input(format_args!("{file}: {message}"));
        let saved = if table::is_table(text) {
            let tiles = table::tiles_for(text, problem.rows.0).map_err(|(line, why)| match line {
                Some(line) => Unplanned::bad_input(format_args!("{file}:{line}: {why}")),
                None => refused(why),
            })?;
            Saved { tiles, ..Saved::default() }
        } else {
            saved(text).map_err(refused)?
        };
        let total = saved.tiles.iter().try_fold(0_u64, |total, &rows| total.checked_add(rows));
        if total != Some(problem.rows.0) {
            let total = total.map_or("more rows than can be counted".to_owned(), |total| counted_rows(Rows(total)));
            return Err(refused(format!(
                "its tiles have {total}, but the operation has {}\nhint: check --m",
                problem.rows
            )));
        }
        let tiles = Tiles::new(saved.tiles.iter().copied().map(Rows).collect::<Vec<_>>());
        let tiles = tiles.map_err(|error| refused(error.to_string()))?;
        let predicted = problem.predict(&tiles).map_err(|error| refused(error.to_string()))?;
        let losses = problem.timeline(&tiles).map_err(|error| refused(error.to_string()))?.losses();
        Ok(Self { stated_us: saved.predicted_us, file: file.clone(), tiles, predicted, losses, saved })
    }

    /// Notes on differences that make the comparison unfair.
    pub(super) fn notes(&self, options: &PlanRequest, fits: &Fits) -> Vec<String> {
        let Saved { op, m, n, k, ranks, .. } = &self.saved;
        let asked = options.operation.name();
        let other = op.as_deref().filter(|op| op.replace('_', "-") != asked).map(shortened);
        let numbers =
            [("m", *m, options.m), ("n", *n, options.n), ("k", *k, options.k), ("ranks", *ranks, options.ranks)];
        let numbers = numbers.into_iter().filter_map(|(name, saved, asked)| {
            saved.filter(|&saved| saved != asked).map(|saved| format!("{name} = {saved}"))
        });
        let others: Vec<String> = other.into_iter().chain(numbers).collect();
        let file = &self.file;
        let mut notes = Vec::new();
        if !others.is_empty() {
            notes.push(format!("{file} was made for {}", others.join(", ")));
        }
        if fits.extrapolates(&self.tiles) {
            notes.push(format!("{file} has tiles of sizes outside the measured range, so its time is extrapolated"));
        }
        if options.max_tiles.is_some_and(|most| self.tiles.len() > most) {
            notes.push(format!("{file} has {} tiles, more than --max-tiles allows", self.tiles.len()));
        }
        let unit = options.unit();
        if let Some(tile) = self.tiles.iter().find(|tile| !tile.0.is_multiple_of(unit)) {
            notes.push(format!(
                "{file} cannot be run: its tile of {} cannot be divided evenly among {unit} ranks",
                counted_rows(tile)
            ));
        }
        if self.tiles.iter().rev().skip(1).any(|tile| !tile.0.is_multiple_of(options.align)) {
            notes.push(format!("{file} has tiles that are not aligned to {} rows", options.align));
        }
        notes
    }
}

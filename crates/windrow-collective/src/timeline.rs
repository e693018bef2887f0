//! Measured timelines as JSON, to be drawn beside predicted ones.

use serde::{Deserialize, Serialize};
use windrow_tiling::tile::{Lane, TileSpan, Tiles};
use windrow_tiling::{Nanos, Rows};

use crate::Outcome;

/// When each tile of an operation was in each lane: the [trace](crate::Trace) of an [`Outcome`] with its tiles. Its JSON form has a version;
/// `windrow plan --measured FILE` draws it beside the prediction.
///
/// ```
/// use windrow_collective::MeasuredTimeline;
///
/// let json = r#"{"schema":1,"tiles":[512,1024],"compute_us":[[0,10],[10,30]],"communicate_us":[[10,25],[30,60]],"end_us":62,"elapsed_us":70}"#;
/// let measured: MeasuredTimeline = serde_json::from_str(json)?;
/// assert_eq!(measured.end.as_micros(), 62.0);
/// assert_eq!(serde_json::from_str::<MeasuredTimeline>(&serde_json::to_string(&measured)?)?, measured);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTimeline", into = "StoredTimeline")]
#[non_exhaustive]
pub struct MeasuredTimeline {
    /// The tiles.
    pub tiles: Tiles,
    /// The computation of each tile, since the lanes began.
    pub compute: Vec<TileSpan>,
    /// The communication of each tile.
    pub communicate: Vec<TileSpan>,
    /// When the last result was in place.
    pub end: Nanos,
    /// The time of the whole call.
    pub elapsed: Nanos,
    /// The prediction that was made for these tiles, if one was.
    pub predicted: Option<Nanos>,
}

impl MeasuredTimeline {
    /// The spans of a lane.
    pub fn spans(&self, lane: Lane) -> &[TileSpan] {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }
}

impl From<&Outcome> for MeasuredTimeline {
    fn from(outcome: &Outcome) -> Self {
        let Outcome { tiles, trace, elapsed, predicted, .. } = outcome;
        Self {
            tiles: tiles.clone(),
            compute: trace.compute.clone(),
            communicate: trace.communicate.clone(),
            end: trace.end,
            elapsed: *elapsed,
            predicted: *predicted,
        }
    }
}

/// The version. It increases when a field changes its meaning or is removed.
const SCHEMA: u32 = 1;

/// A timeline as it is stored: times in microseconds, spans from start to end.
#[derive(Serialize, Deserialize)]
struct StoredTimeline {
    schema: u32,
    tiles: Vec<u64>,
    compute_us: Vec<[f64; 2]>,
    communicate_us: Vec<[f64; 2]>,
    end_us: f64,
    elapsed_us: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    predicted_us: Option<f64>,
}

impl From<MeasuredTimeline> for StoredTimeline {
    fn from(measured: MeasuredTimeline) -> Self {
        let spans =
            |spans: Vec<TileSpan>| spans.iter().map(|span| [span.start, span.end].map(Nanos::as_micros)).collect();
        Self {
            schema: SCHEMA,
            tiles: measured.tiles.iter().map(|tile| tile.0).collect(),
            compute_us: spans(measured.compute),
            communicate_us: spans(measured.communicate),
            end_us: measured.end.as_micros(),
            elapsed_us: measured.elapsed.as_micros(),
            predicted_us: measured.predicted.map(Nanos::as_micros),
        }
    }
}

impl TryFrom<StoredTimeline> for MeasuredTimeline {
    type Error = String;

    fn try_from(stored: StoredTimeline) -> Result<Self, String> {
        let StoredTimeline { schema, tiles, compute_us, communicate_us, end_us, elapsed_us, predicted_us } = stored;
        if schema != SCHEMA {
            return Err(format!("the timeline has version {schema}, but this windrow reads version {SCHEMA}"));
        }
        let tiles = Tiles::new(tiles.into_iter().map(Rows).collect::<Vec<_>>()).map_err(|error| error.to_string())?;
        let ordered = |span: &[f64; 2]| 0.0 <= span[0] && span[0] <= span[1] && span[1].is_finite();
        for (lane, spans) in [("compute_us", &compute_us), ("communicate_us", &communicate_us)] {
            if spans.len() != tiles.len() {
                return Err(format!("{} tiles, but {lane} has {} spans", tiles.len(), spans.len()));
            }
            if let Some(place) = spans.iter().position(|span| !ordered(span)) {
                return Err(format!(
                    "span {place} of {lane} is {:?}: the start must be at least 0, and not after the end",
                    spans[place]
                ));
            }
        }
        for (name, time) in [("end_us", Some(end_us)), ("elapsed_us", Some(elapsed_us)), ("predicted_us", predicted_us)]
        {
            if let Some(time) = time.filter(|time| !(time.is_finite() && *time >= 0.0)) {
                return Err(format!("{name} is {time}, but a time must be at least 0"));
            }
        }
        let spans = |spans: Vec<[f64; 2]>| {
            let span = |[start, end]: [f64; 2]| TileSpan { start: Nanos::micros(start), end: Nanos::micros(end) };
            spans.into_iter().map(span).collect()
        };
        Ok(Self {
            tiles,
            compute: spans(compute_us),
            communicate: spans(communicate_us),
            end: Nanos::micros(end_us),
            elapsed: Nanos::micros(elapsed_us),
            predicted: predicted_us.map(Nanos::micros),
        })
    }
}

//! A profile as it is stored in JSON.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use windrow_tiling::cost::Fitting;

use crate::Operation;

/// What a profile was measured for.
///
/// ```
/// use windrow_collective::{Operation, Shape};
///
/// let shape = Shape { operation: Operation::MatmulAllReduce, element: "bf16".into(), ranks: 4, n: 1024, k: 512 };
/// let json = serde_json::to_string(&shape)?;
/// assert!(json.contains(r#""operation":"matmul-all-reduce","element":"bf16""#));
/// assert_eq!(serde_json::from_str::<Shape>(&json)?, shape);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The operation.
    pub operation: Operation,
    /// The kind of its numbers: `f32`, `f64`, `bf16`, `f16`.
    pub element: String,
    /// Ranks it was measured on.
    pub ranks: usize,
    /// Columns of the product.
    pub n: usize,
    /// The axis that is summed over.
    pub k: usize,
}

/// A lane, as samples name it in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// [`Lane::Compute`](windrow_tiling::tile::Lane::Compute).
    Compute,
    /// [`Lane::Communicate`](windrow_tiling::tile::Lane::Communicate).
    Communicate,
}

/// The time of a tile in one lane, with the other lane idle.
///
/// ```
/// use windrow_collective::{Measured, Stage};
///
/// let measured: Measured = serde_json::from_str(r#"{"stage":"communicate","m":512,"microseconds":37.5}"#)?;
/// assert_eq!(measured, Measured { stage: Stage::Communicate, m: 512, microseconds: 37.5 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The lane.
    pub stage: Stage,
    /// Rows of the tile, of all ranks together.
    pub m: u64,
    /// The time in microseconds.
    pub microseconds: f64,
}

/// A profile as it is stored in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) align: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) most_tiles: Option<usize>,
    /// Without a value: the smallest size that was measured in both lanes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) min_tile: Option<u64>,
    /// The additional time of a call that is cut, in microseconds.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub(crate) per_call: f64,
    /// The time of a call outside of its tiles, in microseconds.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub(crate) fixed: f64,
    pub(crate) tolerance: f64,
    #[serde(default = "usual_limit")]
    pub(crate) limit: f64,
    pub(crate) noise: f64,
    /// Whether neighbouring pieces of a fit must meet.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) continuous: bool,
    pub(crate) contention: Factors,
    pub(crate) samples: Vec<Measured>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) refined: Vec<Refined>,
    /// The number of predictions observed since the profile was made.
    #[serde(default)]
    pub(crate) predictions: u64,
    #[serde(skip_serializing_if = "VecDeque::is_empty", default)]
    pub(crate) errors: VecDeque<f64>,
    /// Those of the errors that are of cuts.
    #[serde(skip_serializing_if = "VecDeque::is_empty", default)]
    pub(crate) errors_of_cuts: VecDeque<f64>,
    #[serde(skip_serializing_if = "VecDeque::is_empty", default)]
    pub(crate) observed: VecDeque<Observed>,
    #[serde(skip_serializing_if = "VecDeque::is_empty", default)]
    pub(crate) refits: VecDeque<Refit>,
    /// Without a value: the profile was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) interpolated: Option<Interpolation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Factors {
    pub(crate) compute: f64,
    pub(crate) communicate: f64,
}

/// Tiles that were measured to be the fastest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refined {
    pub(crate) m: u64,
    pub(crate) tiles: Vec<u64>,
}

/// A re-fit of a profile, or why there was none: see [`Profile::refit`](crate::Profile::refit).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refit {
    /// The number of predictions that had been observed, from the first one on.
    pub after: u64,
    /// The factor by which the times of the computation were multiplied, or would have been.
    pub compute: f64,
    /// The factor of the communication.
    pub communicate: f64,
    /// Why the profile stayed unchanged, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// What a profile was interpolated from, and by how much it may be off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interpolation {
    /// n and k of the measured shapes, the nearest first.
    pub from: Vec<(usize, usize)>,
    /// The share by which times may be off.
    pub error: f64,
    /// Number of measured shapes that were left out, one at a time, to measure the error. 0 if these are too few: then the error is assumed.
    pub left_out: usize,
    /// Whether the shape is outside of the range of the measured ones.
    pub outside: bool,
}

/// An operation's times, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observed {
    pub(crate) tiles: Vec<u64>,
    pub(crate) took: f64,
    /// The time its tiles would have taken in each lane alone.
    pub(crate) compute: f64,
    pub(crate) communicate: f64,
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Profiles that were stored without a limit date from when every profile had this one.
fn usual_limit() -> f64 {
    Fitting::default().limit
}

/// Rounds to 15 digits, so that every reader gets the same number. A reader divides an integer below 2^53 by a power of ten up to 10^22,
/// both exact, so it rounds once (Clinger, 1990). Times are in microseconds, so the rounding is below what can be measured.
pub(crate) fn kept(number: f64) -> f64 {
    let scale = if number.abs() < 1e6 { 1e9 } else { 1.0 };
    (number * scale).round() / scale
}

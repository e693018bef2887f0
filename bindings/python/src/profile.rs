//! `Profile` of Python: measured costs of tiles, and the plans made from them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use windrow_collective::Profile;
use windrow_tiling::Rows;
use windrow_tiling::tile::Tiles;

use crate::arguments::{self, number, several};
use crate::door::enter;
use crate::errors::InputError;

/// The costs of an operation's tiles, as JSON that the command and the Rust library also read.
#[pyclass(frozen, subclass, name = "Profile", module = "windrow._windrow")]
pub(crate) struct PyProfile(Profile);

/// A plan: the rows of its tiles; the predicted time, and that in one tile, in microseconds; the share by which the best cut may be faster;
/// the lines that explain it.
type Plan = (Vec<u64>, f64, f64, f64, String);

#[pymethods]
impl PyProfile {
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map(Self).map_err(|error| PyValueError::new_err(format!("profile: {error}")))
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The largest share by which a fit misses a sample of its lane.
    #[getter]
    fn fit_error(&self) -> f64 {
        self.0.fit_error()
    }

    fn _plan(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::rows)] rows: u64) -> PyResult<Plan> {
        enter(py, |_| {
            let plan = self.0.plan(rows).map_err(|error| InputError::new_err(format!("rows {rows}: {error}")))?;
            let tiles = plan.tiles.iter().map(|rows| rows.0).collect();
            Ok((tiles, plan.predicted.as_micros(), plan.serial.as_micros(), plan.gap, plan.to_string()))
        })
    }

    /// The predicted time of these tiles, in microseconds.
    fn predict(&self, tiles: &Bound<'_, PyAny>) -> PyResult<f64> {
        let rows = |(at, rows): (usize, PyResult<Bound<'_, PyAny>>)| number(&format_args!("tiles[{at}]"), &rows?);
        let tiles: Vec<u64> = several("tiles", tiles)?.enumerate().map(rows).collect::<PyResult<_>>()?;
        let refused = |error: &dyn std::fmt::Display| PyValueError::new_err(format!("tiles: {error}"));
        let tiles = Tiles::new(tiles.into_iter().map(Rows).collect::<Vec<_>>()).map_err(|error| refused(&error))?;
        let predicted = self.0.predict(tiles.total().0, &tiles).map_err(|error| refused(&error))?;
        Ok(predicted.as_micros())
    }
}

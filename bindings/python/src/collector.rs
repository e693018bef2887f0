//! Python's cycle collector.

use pyo3::prelude::*;

/// By default the collector runs after so many objects.
const FIRST: usize = 700;

/// Python's cycle collector does not run while this lives.
///
/// It would look at all objects of a batch again and again while they are made, which takes longer than to make them, and none is garbage yet.
pub(crate) struct CollectorPause<'py>(Option<Bound<'py, PyModule>>);

impl<'py> CollectorPause<'py> {
    /// For the making of so many objects.
    pub(crate) fn begin(py: Python<'py>, objects: usize) -> PyResult<Self> {
        if objects < FIRST {
            return Ok(Self(None));
        }
        let collector = py.import("gc")?;
        if !collector.call_method0("isenabled")?.is_truthy()? {
            return Ok(Self(None));
        }
        collector.call_method0("disable")?;
        Ok(Self(Some(collector)))
    }

    /// Has the collector look at the objects that are new. At the end it would look at all of them at once, and no thread would run meanwhile.
    pub(crate) fn look(&self) -> PyResult<()> {
        self.0.as_ref().map_or(Ok(()), |collector| collector.call_method1("collect", (1,)).map(drop))
    }
}

impl Drop for CollectorPause<'_> {
    fn drop(&mut self) {
        if let Some(collector) = &self.0 {
            // It takes no argument and has nothing to fail at.
            let _ = collector.call_method0("enable");
        }
    }
}

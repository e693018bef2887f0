//! Python's cycle collector.

use pyo3::prelude::*;

/// Number of new objects after which the collector runs by default.
const FIRST: usize = 700;

/// Python's cycle collector does not run while this lives.
///
/// The collector would scan all objects of a batch repeatedly while they are made. That takes longer than making them, and none is garbage yet.
pub(crate) struct CollectorPause<'py>(Option<Bound<'py, PyModule>>);

impl<'py> CollectorPause<'py> {
    /// A pause for making `objects` objects.
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

    /// Has the collector scan the new objects. At the end it would scan all of them at once, and no thread would run meanwhile.
    pub(crate) fn look(&self) -> PyResult<()> {
        self.0.as_ref().map_or(Ok(()), |collector| collector.call_method1("collect", (1,)).map(drop))
    }
}

impl Drop for CollectorPause<'_> {
    fn drop(&mut self) {
        if let Some(collector) = &self.0 {
            // The call takes no argument and cannot fail.
            let _ = collector.call_method0("enable");
        }
    }
}

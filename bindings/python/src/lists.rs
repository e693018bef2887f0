//! Lists of many objects. Reading and making objects needs the interpreter, so other threads get it in between.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::collector::CollectorPause;
use crate::door::ask;

/// Objects that are made or read without reading the clock: some hundred microseconds of work.
pub(crate) const PIECE: usize = 4096;

/// Bytes of a text that take as long as another object.
const BYTES: usize = 64;

/// Shortest turn, regardless of `sys.setswitchinterval`.
const SHORTEST_TURN: Duration = Duration::from_millis(1);

/// Gives the interpreter to other threads at intervals.
pub(crate) struct Turns<'py> {
    py: Python<'py>,
    /// `None` until the shortest turn has ended: most work ends earlier.
    turn: Option<Duration>,
    begin: Instant,
    /// Objects since the clock was read.
    objects: usize,
}

impl<'py> Turns<'py> {
    /// A turn lasts twice the interpreter's switch interval. A waiting thread asks for the interpreter once it has waited for that interval
    /// without a switch, and only then does the end of a turn hand over: shorter turns wake the waiting thread, take the interpreter back
    /// before it runs, and have it wait from the start, so it would never ask.
    fn turn(&mut self) -> PyResult<Duration> {
        if let Some(turn) = self.turn {
            return Ok(turn);
        }
        let interval: f64 = self.py.import("sys")?.call_method0("getswitchinterval")?.extract()?;
        let turn = Duration::try_from_secs_f64(2.0 * interval).unwrap_or(Duration::MAX).max(SHORTEST_TURN);
        Ok(*self.turn.insert(turn))
    }

    pub(crate) fn new(py: Python<'py>) -> Self {
        Self { py, turn: None, begin: Instant::now(), objects: 0 }
    }

    /// Called after this number of objects, while no lock is held. `at_end` is called at the end of this thread's turn.
    pub(crate) fn pass(&mut self, objects: usize, at_end: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
        self.objects += objects;
        if self.objects < PIECE {
            return Ok(());
        }
        self.objects = 0;
        let elapsed = self.begin.elapsed();
        if elapsed >= SHORTEST_TURN && elapsed >= self.turn()? {
            at_end()?;
            self.py.detach(|| ());
            self.begin = Instant::now();
        }
        Ok(())
    }

    /// Called after an argument is read, which took as long as this number of objects. Fails as [`ask`] does.
    pub(crate) fn read(&mut self, objects: usize) -> PyResult<()> {
        let py = self.py;
        ask(py)?;
        self.pass(objects, || Ok(()))
    }
}

/// The number of objects that take as long as a text of this length.
pub(crate) fn objects_of_text(bytes: usize) -> usize {
    1 + bytes / BYTES
}

/// A list of these items. A long one grows by appending: other threads must not find one with empty places.
pub(crate) fn list<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    items: impl ExactSizeIterator<Item = T>,
) -> PyResult<Bound<'py, PyList>> {
    grown(py, items, || Ok(()))
}

/// A list of texts.
pub(crate) fn texts(py: Python<'_>, texts: Vec<String>) -> PyResult<Bound<'_, PyList>> {
    let (list, mut turns) = (PyList::empty(py), Turns::new(py));
    for text in texts {
        list.append(&text)?;
        turns.pass(objects_of_text(text.len()), || Ok(()))?;
    }
    Ok(list)
}

/// A list of containers: of objects that the cycle collector scans.
pub(crate) fn containers<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    items: impl ExactSizeIterator<Item = T>,
) -> PyResult<Bound<'py, PyList>> {
    let paused = CollectorPause::begin(py, items.len())?;
    grown(py, items, || paused.look())
}

fn grown<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    mut items: impl ExactSizeIterator<Item = T>,
    at_end: impl Fn() -> PyResult<()>,
) -> PyResult<Bound<'py, PyList>> {
    if items.len() <= PIECE {
        return PyList::new(py, items);
    }
    let (list, mut turns) = (PyList::empty(py), Turns::new(py));
    while items.len() > 0 {
        items.by_ref().take(PIECE).try_for_each(|item| list.append(item))?;
        turns.pass(PIECE, &at_end)?;
    }
    Ok(list)
}

/// Runs work over this number of items, without the interpreter if it is large.
pub(crate) fn apart<R: Send>(py: Python<'_>, items: usize, work: impl FnOnce() -> R + Send) -> R {
    if items > PIECE { py.detach(work) } else { work() }
}

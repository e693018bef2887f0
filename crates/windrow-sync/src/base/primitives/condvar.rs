//! Parked threads kept by the standard library (or by loom).

use std::time::Duration;

use super::{AtomicU32, AtomicU64, Condvar, Ordering};
use crate::base::mutex::Mutex;

/// The mutex and condition variable of the parked threads.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    lock: Mutex<()>,
    changed: Condvar,
}

/// Reader of the 32 bits.
pub(crate) enum Half<'a> {
    All(&'a AtomicU32),
    Upper(&'a AtomicU64),
}

impl<'a> Half<'a> {
    pub(crate) fn all_of(value: &'a AtomicU32) -> Self {
        Half::All(value)
    }
    pub(crate) fn upper_of(value: &'a AtomicU64) -> Self {
        Half::Upper(value)
    }
    fn load(&self) -> u32 {
        match self {
            // Relaxed: the mutex orders this load after any change whose waker has passed through the mutex already.
            Half::All(value) => value.load(Ordering::Relaxed),
            // Relaxed: as above.
            Half::Upper(value) => (value.load(Ordering::Relaxed) >> 32) as u32,
        }
    }
}

impl Sleepers {
    pub(crate) fn wait(&self, half: Half<'_>, seen: u32, at_most: Option<Duration>) {
        let held = self.lock.lock();
        match at_most {
            _ if half.load() != seen => {}
            None => drop(self.changed.wait(held)),
            Some(time) => drop(self.changed.wait_timeout(held, time)),
        }
    }

    /// Wakes all sleepers: a condition variable wakes in no defined order, and the caller wants the one that parked first.
    pub(crate) fn wake(&self, _: Half<'_>, sleepers: u32) {
        if sleepers > 0 {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }
}

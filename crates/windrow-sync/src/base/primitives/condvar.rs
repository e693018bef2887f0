//! Parked threads kept by the standard library (or by loom).

use super::{AtomicU32, AtomicU64, Condvar, Mutex, Ordering, lock};

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
    pub(crate) fn wait(&self, half: Half<'_>, seen: u32) {
        let held = lock(&self.lock);
        if half.load() == seen {
            drop(self.changed.wait(held));
        }
    }

    /// Waits for `time` at most.
    pub(crate) fn wait_for(&self, half: Half<'_>, seen: u32, time: std::time::Duration) {
        let held = lock(&self.lock);
        if half.load() == seen {
            drop(self.changed.wait_timeout(held, time));
        }
    }

    /// Wakes all sleepers: a condition variable wakes in no defined order, and the caller wants the one that parked first.
    pub(crate) fn wake(&self, _: Half<'_>, sleepers: u32) {
        if sleepers > 0 {
            drop(lock(&self.lock));
            self.changed.notify_all();
        }
    }
}

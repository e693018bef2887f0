//! Parked threads kept by the standard library (or by loom).

use std::time::Duration;

use super::Condvar;
use crate::base::mutex::Mutex;

/// The mutex and condition variable of the parked threads.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Sleepers {
    /// Parks while `load` returns `seen`. (The load is Relaxed: the mutex orders it after any change whose waker has passed through the mutex
    /// already.)
    pub(crate) fn wait(&self, _: *const u32, seen: u32, at_most: Option<Duration>, load: impl Fn() -> u32) {
        let held = self.lock.lock();
        match at_most {
            _ if load() != seen => {}
            None => drop(self.changed.wait(held)),
            Some(time) => drop(self.changed.wait_timeout(held, time)),
        }
    }

    /// Wakes all sleepers: a condition variable wakes in no defined order, and the caller wants the one that parked first.
    pub(crate) fn wake(&self, _: *const u32, sleepers: u32) {
        if sleepers > 0 {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }
}

//! Memory for reuse: the system need not clear it again.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Empty values that keep their memory, up to a number of them.
pub(crate) struct Spare<T> {
    kept: Mutex<Vec<T>>,
    most: usize,
}

impl<T: Default> Spare<T> {
    pub(crate) const fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Vec::new()), most }
    }

    pub(crate) fn take(&self) -> T {
        self.kept().pop().unwrap_or_default()
    }

    /// Keeps an empty value, unless there are enough.
    pub(crate) fn give_back(&self, empty: T) {
        let mut kept = self.kept();
        if kept.len() < self.most {
            kept.push(empty);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<T>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
